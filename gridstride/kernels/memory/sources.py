"""Assemble the CUDA C of the memory-bound kernels: the files `*.cuh` after their types and constants."""

from functools import lru_cache

from ..ptx import primitives
from ..texts import C_TYPES, source_loader, assemble_source

source = source_loader(__package__)  # source(name) -> the text of name.cuh

# dtype -> (its C type, the C type of sums and comparisons)
TYPES = {dtype: (c, 'float' if 'float' in dtype else 'int') for dtype, c in C_TYPES.items() if dtype != 'float64'}
_BULK_PRIMITIVES = 'address', 'barrier_init', 'barriers_ready', 'barrier_expect', 'barrier_wait', 'bulk_copy'
_CLUSTER_PRIMITIVES = 'address', 'rank', 'cluster_sync', 'of_block'
LOWEST = {'float': '__int_as_float(0xff800000)', 'int': '(-2147483647 - 1)'}  # minus infinity; the smallest int


@lru_cache(1024)
def kernel_source(
    name,  # as for `source`
    types,  # ((name in the source, C type), ...)
    constants,  # ((name in the source, int), ...)
    cluster=False,  # argmax: the blocks of a row form a cluster
) -> str:
    "Return CUDA C of a kernel with its types and constants, ready to be compiled"
    lowest = f'#define LOWEST {LOWEST[dict(types)["Value"]]}\n' if name == 'argmax' else ''
    primitives_ = '#define CLUSTER\n' + _primitives(*_CLUSTER_PRIMITIVES) if cluster else ''
    primitives_ += _primitives(*_BULK_PRIMITIVES) if name.endswith('bulk') else ''
    return assemble_source(source(name), types, constants, lowest + primitives_)


def _primitives(*names):
    "Return functions of `ptx.cuh`, after the typedefs that they need"
    return 'typedef unsigned u32;\ntypedef unsigned long long u64;\n' + primitives(*names)
