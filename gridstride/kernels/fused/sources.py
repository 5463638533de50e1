"""Assemble the CUDA C of the fused kernels: the files `*.cuh` after their types and constants."""

from functools import lru_cache

from ..ptx import primitives
from ..texts import IN_C, source_loader, with_types

source = source_loader(__package__)  # source(name) -> the text of name.cuh

# dtype -> bytes per element
SIZES = dict(float64=8, float32=4, float16=2, bfloat16=2)


def accumulator_type(dtype) -> str:
    "Return the dtype in which elements of `dtype` are computed and summed"
    return 'float64' if dtype == 'float64' else 'float32'


@lru_cache(1024)
def kernel_source(
    names,  # of files, in order: ('gelu', 'flat')
    dtype,  # of the arrays, `From` in the sources; `Sum` is the accumulator type
    constants,  # ((name in the source, int), ...)
    primitive_names=(),  # names for `ptx.primitives`: PTX wrappers that the sources call
) -> str:
    "Return CUDA C of kernels with their types and constants, ready to be compiled"
    types = ('From', IN_C[dtype]), ('Sum', IN_C[accumulator_type(dtype)])
    words = 'typedef unsigned u32;\ntypedef unsigned long long u64;\n'
    return with_types(
        '\n'.join(map(source, names)), types, constants, words + primitives(*primitive_names) if primitive_names else ''
    )
