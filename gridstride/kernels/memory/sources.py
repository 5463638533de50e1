"""Assemble the CUDA C of the memory-bound kernels: types and constants, followed by the contents of `*.cuh`."""

from functools import lru_cache

from ..ptx import primitives
from ..source_assembly import C_TYPES, source_loader, assemble_source

source = source_loader(__package__)  # source(name) -> the contents of name.cuh

# dtype -> (C type of an element, C type of sums and comparisons)
TYPES = {
    dtype: (c_type, 'float' if 'float' in dtype else 'int') for dtype, c_type in C_TYPES.items() if dtype != 'float64'
}
_BULK_PRIMITIVES = 'address', 'barrier_init', 'fence_mbarrier_init', 'barrier_expect', 'barrier_wait', 'bulk_copy'
_CLUSTER_PRIMITIVES = 'address', 'rank', 'cluster_sync', 'load_from_block'
# C type -> its lowest value in C: minus infinity, or the smallest int
_LOWEST_VALUES = {'float': '__int_as_float(0xff800000)', 'int': '(-2147483647 - 1)'}


@lru_cache(1024)
def kernel_source(
    name,  # of the file, without `.cuh`
    types,  # ((name in the source, its C type), ...)
    constants,  # ((name in the source, its integer value), ...)
    cluster=False,  # argmax: the blocks of a row form a cluster
) -> str:
    "Return the source of a kernel with its types and constants"
    preamble = f'#define LOWEST {_LOWEST_VALUES[dict(types)["Value"]]}\n' if name == 'argmax' else ''
    preamble += '#define CLUSTER\n' + _typed_primitives(*_CLUSTER_PRIMITIVES) if cluster else ''
    preamble += _typed_primitives(*_BULK_PRIMITIVES) if name.endswith('bulk') else ''
    preamble += source('sum') if name in ('sum_unaligned', 'sum_short_rows') else ''
    preamble += source('scan') if name == 'scan_short_rows' else ''
    return assemble_source(source(name), types, constants, preamble)


def _typed_primitives(*names):
    "Return functions of `ptx.cuh`, preceded by the typedefs that they need"
    return 'typedef unsigned u32;\ntypedef unsigned long long u64;\n' + primitives(*names)
