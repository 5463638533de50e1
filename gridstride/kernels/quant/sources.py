"""The sources of these kernels, `*.cuh`, and what precedes them when they are compiled: types and constants."""

from functools import lru_cache

from .formats import nf4_codebook
from ..ptx import primitives
from ..texts import IN_C, source_loader, with_types

source = source_loader(__package__)  # of a file here, without its `.cuh`

# Of 16-bit floats: two of them in C, the bits of 128 or 1024 twice, bits of the fraction, PTX's name
_FLOATS = {'bfloat16': ('__nv_bfloat162', '0x43004300u', 7, 'bf16'), 'float16': ('__half2', '0x64006400u', 10, 'f16')}
FLOATS = tuple(_FLOATS)
_BARRIERS = tuple(f'barrier_{o}' for o in ('init', 'arrive', 'expect', 'wait'))
_COPIES = 'address', 'barriers_ready', *_BARRIERS, 'bulk_copy', 'bulk_copy_once'
_PRIMITIVES = dict(matvec=('mma',), streamed=('mma', *_COPIES))
KINDS = 'int4', 'int8', 'nf4', 'fp8'  # of elements, in the order of their constants in C


@lru_cache(1024)
def whole(
    name,  # of a file
    dtype,  # of x and y: From in the text
    constants,  # ((name in the text, int), ...)
) -> str:
    "CUDA C of a kernel with its types and constants, ready to be compiled"
    pair, magic, fraction, ptx = _FLOATS[dtype]
    above = 'typedef unsigned u32;\ntypedef unsigned long long u64;\n'
    above += f'typedef {pair} Pair;\nconstexpr u32 MAGIC = {magic};\n'
    above += f'constexpr int FRACTION = {fraction};\nenum {{ {", ".join(KINDS).upper()} }};\n'
    above += f'__constant__ float CODEBOOK[] = {{{", ".join(f"{o!r}f" for o in nf4_codebook())}}};\n'
    above += primitives(*_PRIMITIVES[name]).replace('bf16', ptx) + source('dequantize')
    return with_types(source(name), (('From', IN_C[dtype]),), constants, above)
