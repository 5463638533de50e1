"""The sources of these kernels, and what precedes them when they are compiled: instructions, types and constants."""

from functools import lru_cache

from ..flash.sources import source as flash_source, wgmma_kept
from ..ptx import PTX, primitives, wgmma
from ..texts import IN_C, source_loader, with_types

source = source_loader(__package__)  # of a file here, without its `.cuh`

DIM, VALUES, PAGE = 576, 512, 64  # elements of a key, of which the value has the first 512; keys of a page
F16_TYPES = dict(bfloat16='bf16', float16='f16')  # torch's 16-bit floats -> PTX's names


def _text(dtype, name, constants, above, shared=''):
    values = (('VALUES', VALUES), ('PAGE', PAGE), *constants)
    text = shared + '\n'.join(map(source, ('schedule', 'results', name)))
    return with_types(text, (('Number', IN_C[dtype]),), values, above.replace('bf16', F16_TYPES[dtype]))


_WORDS = 'typedef unsigned u32;\ntypedef unsigned long long u64;\n'


@lru_cache
def ampere_source(
    dtype,  # 'bfloat16' or 'float16'
    constants,  # ((name in the text, int), ...)
) -> str:
    "CUDA C of the decode kernel for GPUs from Ampere on, ready to be compiled"
    needs = 'address', 'copy_async', 'copies_commit', 'copies_wait', 'ldmatrix', 'mma', 'pack'
    return _text(dtype, 'decode_ampere', (('DIM', DIM), *constants), _WORDS + primitives(*needs))


@lru_cache
def hopper_source(dtype, constants) -> str:
    "CUDA C of the decode kernel for a Hopper GPU, ready to be compiled"
    above = PTX + wgmma(PAGE) + wgmma_kept(VALUES // 4)
    return _text(dtype, 'decode_hopper', (('DIM', DIM), *constants), above, flash_source('hopper'))


@lru_cache
def merge_source(
    dtype,
    pdl,  # programmatic dependent launch, on a Hopper GPU
    split,  # warps per row
) -> str:
    "CUDA C of the kernel that merges parts, ready to be compiled"
    return _text(dtype, 'merge', (('PDL', pdl), ('SPLIT', split)), _WORDS + primitives('pack'))
