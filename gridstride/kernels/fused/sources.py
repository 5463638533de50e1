"""Assemble the CUDA C of the fused kernels: types and constants, followed by the source in `*.cuh`."""

from functools import lru_cache

from ..ptx import primitives
from ..source_assembly import C_TYPES, source_loader, assemble_source

source = source_loader(__package__)  # source(name) -> the contents of name.cuh

DTYPE_BYTES = dict(float64=8, float32=4, float16=2, bfloat16=2)  # dtype -> bytes per element


def accumulator_type(dtype) -> str:
    "Return the dtype of the accumulators and the arithmetic for elements of `dtype`"
    return 'float64' if dtype == 'float64' else 'float32'


@lru_cache(1024)
def kernel_source(
    names,  # of the files, in order: ('vector', 'gelu', 'gelu_kernels')
    dtype,  # of the arrays; in the source, `Elem`, and its accumulator type is `Acc`
    constants,  # ((name in the source, its integer value), ...)
    primitive_names=(),  # names of the PTX wrappers that the files call, as for `ptx.primitives`
) -> str:
    "Return the source of kernels with their types and constants"
    types = ('Elem', C_TYPES[dtype]), ('Acc', C_TYPES[accumulator_type(dtype)])
    typedefs = 'typedef unsigned u32;\ntypedef unsigned long long u64;\n'
    preamble = typedefs + primitives(*primitive_names) if primitive_names else ''
    return assemble_source('\n'.join(map(source, names)), types, constants, preamble)
