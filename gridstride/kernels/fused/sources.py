"""The sources of these kernels, `*.cuh`, and what precedes them when they are compiled: types and constants."""

from functools import lru_cache

from ..ptx import primitives
from ..texts import IN_C, source_loader, with_types

source = source_loader(__package__)  # of a file here, without its `.cuh`

# torch's types -> bytes of a number
SIZES = dict(float64=8, float32=4, float16=2, bfloat16=2)


def sums_of(dtype) -> str:
    "torch's type in which elements of a type are computed and summed"
    return 'float64' if dtype == 'float64' else 'float32'


@lru_cache(1024)
def whole(
    names,  # of files, one after the other: ('gelu', 'flat')
    dtype,  # of the arrays: From in the texts; Sum is the type in which is computed
    constants,  # ((name in the text, int), ...)
    needs=(),  # names of `primitives` that the texts call
) -> str:
    "CUDA C of kernels with their types and constants, ready to be compiled"
    types = ('From', IN_C[dtype]), ('Sum', IN_C[sums_of(dtype)])
    words = 'typedef unsigned u32;\ntypedef unsigned long long u64;\n'
    return with_types('\n'.join(map(source, names)), types, constants, words + primitives(*needs) if needs else '')
