"""Assemble the CUDA C of the fused kernels: the files `*.cuh` after their types and constants."""

from functools import lru_cache

from ..ptx import primitives
from ..source_assembly import C_TYPES, source_loader, assemble_source

source = source_loader(__package__)  # source(name) -> the text of name.cuh

# dtype -> bytes per element
DTYPE_BYTES = dict(float64=8, float32=4, float16=2, bfloat16=2)


def accumulator_type(dtype) -> str:
    "Return the dtype in which elements of `dtype` are computed and summed"
    return 'float64' if dtype == 'float64' else 'float32'


@lru_cache(1024)
def kernel_source(
    names,  # of files, in order: ('vector', 'gelu', 'gelu_kernels')
    dtype,  # of the arrays, `Elem` in the sources; `Acc` is the accumulator type
    constants,  # ((name in the source, int), ...)
    primitive_names=(),  # names for `ptx.primitives`: PTX wrappers that the sources call
) -> str:
    "Return CUDA C of kernels with their types and constants, ready to be compiled"
    types = ('Elem', C_TYPES[dtype]), ('Acc', C_TYPES[accumulator_type(dtype)])
    typedefs = 'typedef unsigned u32;\ntypedef unsigned long long u64;\n'
    ptx = typedefs + primitives(*primitive_names) if primitive_names else ''
    return assemble_source('\n'.join(map(source, names)), types, constants, ptx)
