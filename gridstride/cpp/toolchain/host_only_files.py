"""Finds files that nvcc passes to the host compiler unchanged: each `.cpp` that includes no CUDA header.

Such a file may define its own `float4`, `dim3` or `min`, so it is compiled without the emulator's headers."""

from pathlib import Path

from .includes import header_names
from ..lint.unsupported_api import hint_for_missing_header

_EMULATOR_HEADERS = [Path(__file__).parents[1] / 'include' / name for name in ('cuda', 'torch')]
_C_HEADERS = {'assert.h', 'cassert'}  # the emulator has headers of these names, too, for kernels

# Each host-only file includes this header first. It redirects `exit`, which would end the notebook's kernel, and
# printed text, so that the notebook shows it. In other files `emulator.h` does both.
OUTPUT_HEADER = 'gridstride_output.h'
OUTPUT_HEADER_TEXT = r"""#include <cstdio>
#include <cstdlib>
int gridstride_printf(const char *format, ...);
namespace gridstride {
[[noreturn]] void exit_program(int code);
int print(const char *format, ...);
}
inline int gridstride_puts(const char *text) { return ::gridstride::print("%s\n", text); }
inline int gridstride_putchar(int c) { return ::gridstride::print("%c", c), c; }
[[noreturn]] __attribute__((always_inline)) inline void gridstride_exit(int code) { ::gridstride::exit_program(code); }
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


def is_host_only(
    file: str,  # its name
    src: str,  # its text
    folder,  # as for `read_headers`
    include=(),
) -> bool:
    "Return whether nvcc passes this file to the host compiler, because neither it nor its headers include CUDA's"
    names = header_names(src, folder, include) - _C_HEADERS
    uses_cuda = any(hint_for_missing_header(name) or (p / name).is_file() for name in names for p in _EMULATOR_HEADERS)
    return not file.endswith('.cu') and not uses_cuda
