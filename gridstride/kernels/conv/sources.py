"""Assemble the CUDA C of the convolutions: types and constants, followed by the source in `*.cuh`."""

from functools import lru_cache

from ..ptx import primitives
from ..source_assembly import C_TYPES, assemble_source, source_loader

source = source_loader(__package__)  # source(name) -> the contents of name.cuh

DTYPE_BYTES = dict(float32=4, float16=2, bfloat16=2)  # dtype -> bytes per element
_INCLUDES = {
    'depthwise': ('plane_tiles',),
    'depthwise_weight': ('plane_tiles',),
}  # kernel -> the files that precede its own
_SPLIT_KERNELS = {'depthwise_weight', 'depthwise_nhwc_weight'}  # `reduce_splits`, in the same source, adds their sums
_COPIES = 'address', 'copy_async', 'copies_commit', 'copies_wait'
_PRIMITIVES = {'dense': (*_COPIES, 'ldmatrix', 'mma', 'pack'), 'depthwise_nhwc_tile': _COPIES}


@lru_cache(1024)
def kernel_source(
    name,  # of the file, without `.cuh`
    dtype,  # of the arrays; in the source, `Elem`
    constants,  # ((name in the source, its integer value), ...)
) -> str:
    "Return the source of a kernel with its types and constants"
    preamble = ''.join(map(source, _INCLUDES.get(name, ())))
    if name in _PRIMITIVES:
        preamble += 'typedef unsigned u32;\ntypedef unsigned long long u64;\n' + primitives(*_PRIMITIVES[name])
    body = source(name) + (source('reduce_splits') if name in _SPLIT_KERNELS else '')
    return assemble_source(body, (('Elem', C_TYPES[dtype]),), constants, preamble)
