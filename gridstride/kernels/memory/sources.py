"""The texts of these kernels, `*.cuh`, and what stands above one before it is compiled: its types and its numbers."""

from functools import lru_cache
from importlib.resources import files

from ..ptx import primitives
from ..rung import constants_line

# torch's types -> C's, and that in which their sums and comparisons are computed
TYPES = {
    'float32': ('float', 'float'),
    'float16': ('__half', 'float'),
    'bfloat16': ('__nv_bfloat16', 'float'),
    'int32': ('int', 'int'),
    'int16': ('short', 'int'),
    'uint8': ('unsigned char', 'int'),
}
_HEADERS = {'__half': 'cuda_fp16.h', '__nv_bfloat16': 'cuda_bf16.h'}
_BULK = 'address', 'barrier_init', 'barriers_ready', 'barrier_expect', 'barrier_wait', 'bulk_copy', 'bulk_copy_once'
LOWEST = {'float': '__int_as_float(0xff800000)', 'int': '(-2147483647 - 1)'}  # minus infinity; the smallest int


@lru_cache
def source(
    name,  # 'sum', 'sum_bulk', 'argmax', 'scan', 'scan_bulk', 'histogram', 'transpose'
) -> str:
    "The text of a kernel, below its types and numbers"
    return files(__package__).joinpath(f'{name}.cuh').read_text(encoding='utf-8')


@lru_cache(1024)
def whole(
    name,  # as for `source`
    types,  # ((name in the text, C), ...)
    constants,  # ((name in the text, int), ...)
) -> str:
    "CUDA C of a kernel with its types and numbers, ready to be compiled"
    headers = sorted({f'#include <{_HEADERS[c]}>\n' for _, c in types if c in _HEADERS})
    typedefs = ''.join(f'typedef {c} {o};\n' for o, c in types)
    lowest = f'#define LOWEST {LOWEST[dict(types)["Value"]]}\n' if name == 'argmax' else ''
    words = 'typedef unsigned u32;\ntypedef unsigned long long u64;\n' if name.endswith('bulk') else ''
    bulk = words + primitives(*_BULK) if words else ''
    return f'{"".join(headers)}{typedefs}{constants_line(dict(constants))}\n{lowest}{bulk}{source(name)}'
