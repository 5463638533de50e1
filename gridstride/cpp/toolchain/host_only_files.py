"""Files that nvcc passes to the host's compiler unchanged: a `.cpp` that includes nothing of CUDA's.

Such a file may define a `float4`, a `dim3` or a `min`, so that it must see none of the emulator's."""

from pathlib import Path

from .includes import names_in
from ..rewriters.rewrite import hint_for_missing

_OURS = [Path(__file__).parents[1] / 'include' / name for name in ('cuda', 'torch')]
_OF_C = {'assert.h', 'cassert'}  # C's own, which kernels need otherwise

FIRST = 'gridstride_output.h'  # the first header of such a file, with what `emulator.h` does for others:
# `exit` must not end the notebook, and printed text must reach it
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
    src: str,  # its text
    folder,  # as for `read_headers`
    include=(),
) -> bool:
    "Does nvcc pass this file to the host's compiler, because neither it nor its headers include anything of CUDA's?"
    names = names_in(src, folder, include) - _OF_C
    return not file.endswith('.cu') and not any(
        hint_for_missing(name) or (p / name).is_file() for name in names for p in _OURS
    )
