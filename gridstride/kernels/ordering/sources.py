"""Assemble the CUDA C of the kernels that order and select: types, constants, and the contents of `*.cuh`."""

from functools import lru_cache

from .keys import KeyType
from ..ptx import primitives
from ..source_assembly import assemble_source, source_loader

source = source_loader(__package__)  # source(name) -> the contents of name.cuh

UNSIGNED_TYPES = {1: 'unsigned char', 2: 'unsigned short', 4: 'unsigned', 8: 'unsigned long long'}  # of n bytes
_INCLUDES = {  # kernel -> the files that precede its own
    'count_digits': ('order',),
    'onesweep': ('order', 'rank'),
    'sort_rows': ('order', 'rank'),
    'sort_short_rows': ('order',),
    'topk': ('order',),
    'compact': ('order',),
    'compact_bulk': (),
    'compact_resident': (),
    'distinct': ('order',),
}
_BARRIER_PRIMITIVES = tuple(f'barrier_{name}' for name in ('init', 'expect', 'arrive', 'wait'))
_BULK_PRIMITIVES = 'address', 'fence_mbarrier_init', 'bulk_copy_evict_first', *_BARRIER_PRIMITIVES


@lru_cache(1024)
def kernel_source(
    name,  # of the kernel
    key: KeyType,
    constants,  # ((name in the source, its integer value), ...)
    types=(),  # ((name in the source, its C type), ...)
    descending=False,
) -> str:
    "Return the source of a kernel with its types and constants"
    constants = (('KIND', key.kind), ('MANTISSA', key.mantissa), ('DESCENDING', descending), *constants)
    types = ('Bits', UNSIGNED_TYPES[key.bytes]), *types
    preamble = ''.join(source(included) for included in _INCLUDES[name])
    if name in ('compact_bulk', 'compact_resident'):
        preamble = 'typedef unsigned u32;\ntypedef unsigned long long u64;\n' + primitives(*_BULK_PRIMITIVES)
    return assemble_source(source(name), types, constants, preamble)


_DEFAULT_SMEM_BYTES = 48 * 1024  # static and dynamic; a kernel that needs more must raise its limit


def dynamic_smem_bytes(
    needed,  # bytes of dynamic shared memory
    static,  # upper bound of the bytes of static shared memory
) -> int:
    """Return the dynamic shared memory to request. If the sum exceeds the default limit, that is more than this limit,
    because such a request raises the limit.

    >>> dynamic_smem_bytes(40 * 1024, 16 * 1024) > 48 * 1024
    True"""
    return max(needed, _DEFAULT_SMEM_BYTES + 16) if needed + static > _DEFAULT_SMEM_BYTES else needed
