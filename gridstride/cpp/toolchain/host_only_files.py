"""Files that nvcc hands to the host's compiler as they are: a `.cpp` that includes nothing of CUDA's.

Such a file may have a `float4`, a `dim3` or a `min` of its own, so that it must see none of the emulator's."""

from pathlib import Path

from .includes import names_in
from ..rewriters.rewrite import lacks

_OURS = [Path(__file__).parents[1] / 'include' / o for o in ('cuda', 'torch')]
_OF_C = {'assert.h', 'cassert'}  # C's own, which kernels need otherwise

FIRST = 'gridstride_output.h'  # what such a file begins with, and what stands there, as `emulator.h` has it for others:
# what ends a program must not end the notebook, what is printed must reach it
OUTPUT = r"""#include <cstdio>
#include <cstdlib>
int gridstride_printf(const char *format, ...);
namespace gridstride {
[[noreturn]] void leave(int code);
int print(const char *format, ...);
}
inline int gridstride_puts(const char *text) { return ::gridstride::print("%s\n", text); }
inline int gridstride_putchar(int c) { return ::gridstride::print("%c", c), c; }
[[noreturn]] __attribute__((always_inline)) inline void gridstride_exit(int code) { ::gridstride::leave(code); }
namespace std {
using ::gridstride_exit;
using ::gridstride_printf;
using ::gridstride_putchar;
using ::gridstride_puts;
}
#define printf gridstride_printf
#define puts gridstride_puts
#undef putchar
#define putchar gridstride_putchar
#define exit gridstride_exit
"""


def is_plain(
    file: str,  # its name
    src: str,  # what it consists of
    folder,  # as for `read_headers`
    include=(),
) -> bool:
    "Does nvcc give this file to the host's compiler, which finds nothing of CUDA's in it or in its headers?"
    names = names_in(src, folder, include) - _OF_C
    return not file.endswith('.cu') and not any(lacks(o) or (p / o).is_file() for o in names for p in _OURS)
