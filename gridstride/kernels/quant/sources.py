"""Assemble the CUDA C of the quantized GEMMs: types and constants, followed by the contents of `*.cuh`."""

from functools import lru_cache

from .formats import nf4_codebook
from ..flash.sources import wgmma_from_registers
from ..ptx import PTX, STORE_SPLIT_K, STORE_TRANSPOSED, primitives
from ..source_assembly import C_TYPES, source_loader, assemble_source

source = source_loader(__package__)  # source(name) -> the contents of name.cuh

# dtype -> (C type of a pair, bits of a pair of 128.0 or 1024.0, number of fraction bits, name in PTX)
_FLOATS = {'bfloat16': ('__nv_bfloat162', '0x43004300u', 7, 'bf16'), 'float16': ('__half2', '0x64006400u', 10, 'f16')}
FLOATS = tuple(_FLOATS)
_BARRIER_PRIMITIVES = tuple(f'barrier_{name}' for name in ('init', 'arrive', 'expect', 'wait'))
_COPY_PRIMITIVES = 'address', 'fence_mbarrier_init', *_BARRIER_PRIMITIVES, 'bulk_copy', 'bulk_copy_evict_first'
_PRIMITIVES = dict(matvec=('mma',), streamed=('mma', *_COPY_PRIMITIVES), unpack=())
KINDS = 'int4', 'int8', 'nf4', 'fp8', 'mxfp8', 'nvfp4'  # in the order of the C enum
# Computed here, because a call during which torch computes it could not be replayed from a table (`launch_replay`)
_CODEBOOK = ', '.join(f'{value!r}f' for value in nf4_codebook())


@lru_cache(1024)
def kernel_source(
    name,  # of the file, without `.cuh`
    dtype,  # of x and y; in the source, `Elem`
    constants,  # ((name in the source, its integer value), ...)
) -> str:
    "Return the source of a kernel with its types and constants"
    pair_type, magic, fraction_bits, ptx_name = _FLOATS[dtype]
    preamble = 'typedef unsigned u32;\ntypedef unsigned long long u64;\n'
    preamble += f'typedef {pair_type} Pair;\nconstexpr u32 MAGIC = {magic};\n'
    preamble += f'constexpr int FRACTION = {fraction_bits};\nenum {{ {", ".join(KINDS).upper()} }};\n'
    preamble += f'__device__ const float CODEBOOK[] = {{{_CODEBOOK}}};\n'
    instructions = (
        PTX + wgmma_from_registers(dict(constants)['BN']) if name == 'mixed_gemm' else primitives(*_PRIMITIVES[name])
    )
    preamble += instructions.replace('bf16', ptx_name) + source('dequantize')
    preamble += (STORE_TRANSPOSED + STORE_SPLIT_K) * (name == 'mixed_gemm')
    types = (('Elem', C_TYPES[dtype]),)
    return assemble_source(source(name), types, constants, preamble)
