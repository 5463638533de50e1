"""Assemble the sources of the memory-bound kernels: `*.cuh` below types and constants."""

from functools import lru_cache

from ..ptx import primitives
from ..texts import IN_C, source_loader, with_types

source = source_loader(__package__)  # the text of NAME.cuh in this package

# torch's dtype -> (C type, C type in which sums and comparisons are computed)
TYPES = {dtype: (c, 'float' if 'float' in dtype else 'int') for dtype, c in IN_C.items() if dtype != 'float64'}
_BULK = 'address', 'barrier_init', 'barriers_ready', 'barrier_expect', 'barrier_wait', 'bulk_copy'
_CLUSTER = 'address', 'rank', 'cluster_sync', 'of_block'
LOWEST = {'float': '__int_as_float(0xff800000)', 'int': '(-2147483647 - 1)'}  # minus infinity; the smallest int


@lru_cache(1024)
def kernel_source(
    name,  # as for `source`
    types,  # ((name in the text, C), ...)
    constants,  # ((name in the text, int), ...)
    cluster=False,  # argmax: the blocks of a row form a cluster
) -> str:
    "Return CUDA C of a kernel below its types and constants, ready to be compiled"
    lowest = f'#define LOWEST {LOWEST[dict(types)["Value"]]}\n' if name == 'argmax' else ''
    above = '#define CLUSTER\n' + _instructions(*_CLUSTER) if cluster else ''
    above += _instructions(*_BULK) if name.endswith('bulk') else ''
    return with_types(source(name), types, constants, lowest + above)


def _instructions(*names):
    "Return functions of `ptx.cuh`, below the types that they need"
    return 'typedef unsigned u32;\ntypedef unsigned long long u64;\n' + primitives(*names)
