"""Assemble the CUDA C of the MLA decode kernels: PTX wrappers, types and constants, and the contents of `*.cuh`."""

from functools import lru_cache

from ..flash.sources import source as flash_source, wgmma_from_registers
from ..ptx import PTX, primitives, wgmma
from ..source_assembly import C_TYPES, source_loader, assemble_source

source = source_loader(__package__)  # source(name) -> the contents of name.cuh

# head dimension of keys: 512 latent elements and 64 rotary (RoPE) ones; head dimension of values, which are the latent
# elements of the keys; page size, in keys
HEAD_DIM_K, HEAD_DIM_V, PAGE_SIZE = 576, 512, 64
F16_TYPES = dict(bfloat16='bf16', float16='f16')  # 16-bit float dtype -> name in PTX


def _assemble(dtype, name, constants, preamble, header=''):
    "Return the source of the kernel in the file `name`; `preamble`: PTX wrappers, written for bf16"
    all_constants = (('HEAD_DIM_V', HEAD_DIM_V), ('PAGE_SIZE', PAGE_SIZE), *constants)
    body = header + '\n'.join(map(source, ('schedule', 'results', name)))
    ptx = preamble.replace('bf16', F16_TYPES[dtype])
    return assemble_source(body, (('Elem', C_TYPES[dtype]),), all_constants, ptx)


_TYPEDEFS = 'typedef unsigned u32;\ntypedef unsigned long long u64;\n'


@lru_cache
def ampere_source(
    dtype,  # 'bfloat16' or 'float16'
    constants,  # ((name in the source, its integer value), ...)
) -> str:
    "Return the source of the decode kernel for Ampere and later GPUs"
    primitive_names = 'address', 'copy_async', 'copies_commit', 'copies_wait', 'ldmatrix', 'mma', 'pack'
    preamble = _TYPEDEFS + primitives(*primitive_names)
    return _assemble(dtype, 'decode_ampere', (('HEAD_DIM_K', HEAD_DIM_K), *constants), preamble)


@lru_cache
def hopper_source(dtype, constants) -> str:
    "Return the source of the decode kernel for a Hopper GPU"
    preamble = PTX + wgmma(PAGE_SIZE) + wgmma_from_registers(HEAD_DIM_V // 4)
    return _assemble(dtype, 'decode_hopper', (('HEAD_DIM_K', HEAD_DIM_K), *constants), preamble, flash_source('hopper'))


@lru_cache
def merge_source(
    dtype,
    pdl,  # use programmatic dependent launch, on a Hopper GPU
    row_warps,  # warps per row
) -> str:
    "Return the source of the kernel that merges partial results"
    return _assemble(dtype, 'merge', (('PDL', pdl), ('ROW_WARPS', row_warps)), _TYPEDEFS + primitives('pack'))
