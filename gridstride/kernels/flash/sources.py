"""The sources of these kernels, and what precedes them when they are compiled: instructions, types and constants."""

from functools import lru_cache

from ..ptx import PTX, primitives, wgmma
from ..texts import source_loader, with_types

source = source_loader(__package__)  # of a file here, without its `.cuh`

_TYPES = (('bf16', '__nv_bfloat16'),)


def wgmma_kept(n: int) -> str:  # n: columns of the result, a multiple of 8 up to 256
    "CUDA C of a function that starts d (+)= a @ n, a 64x16 in registers, n 16 x `n`, both bf16"
    d = n // 2
    registers = ','.join(f'%{i}' for i in range(d))
    operands = ', '.join(f'"+f"(d[{i}])' for i in range(d))
    return f'''
// starts d (+)= a @ n of 16 k, a in four registers of each thread
template<bool N_TRANSPOSED> __device__ void wgmma_kept(float (&d)[{d}], u32 a, u32 b, u32 c, u32 e, u64 n, int more) {{
    asm volatile("{{ .reg .pred more; setp.ne.b32 more, %{d + 5}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 "
                 "{{{registers}}}, "
                 "{{%{d},%{d + 1},%{d + 2},%{d + 3}}}, %{d + 4}, more, 1, 1, %{d + 6}; }}"
                 : {operands}
                 : "r"(a), "r"(b), "r"(c), "r"(e), "l"(n), "r"(more), "n"(N_TRANSPOSED) : "memory");
}}
'''


def _bias_function(bias):
    "CUDA C of what is added to a scaled score"
    return f'__device__ float bias_of(int batch, int head, int row, int key) {{ return {bias or 0}; }}\n'


@lru_cache(1024)
def hopper_source(
    names,  # of files, one after the other
    scores,  # column counts of the products with both operands in shared memory
    kept,  # and of those whose first operand is in registers
    constants,  # ((name in the text, int), ...)
    bias='',  # C of what is added to a scaled score
    out='__nv_bfloat16',  # C's type of what attention writes
) -> str:
    "CUDA C of kernels for a Hopper GPU, ready to be compiled"
    products = ''.join([*map(wgmma, scores), *map(wgmma_kept, kept)])
    text = PTX + products + _bias_function(bias) + '\n'.join(map(source, names))
    return with_types(text, (*_TYPES, ('out_t', out)), constants)


def _words(*names):
    "Types of words, and instructions"
    return 'typedef unsigned u32;\ntypedef unsigned long long u64;\n' + primitives(*names)


@lru_cache(1024)
def ampere_source(
    names,  # of files, one after the other
    constants,  # ((name in the text, int), ...)
    bias='',  # as for `hopper_source`
) -> str:
    "CUDA C of kernels for GPUs from Ampere on, ready to be compiled"
    words = _words('address', 'copy_async', 'copies_commit', 'copies_wait', 'ldmatrix', 'mma', 'pack')
    text = _bias_function(bias) + '\n'.join(map(source, names))
    return with_types(text, (*_TYPES, ('out_t', 'bf16')), constants, words)


@lru_cache
def ends_source(
    dim,  # head dimension
    ordered,  # is dq added in a fixed order?
) -> str:
    "CUDA C of the kernels before and after the products of the backward pass"
    text = source('stores') + source('backward_ends')
    return with_types(text, _TYPES, (('HD', dim), ('ORDERED', ordered)), _words('pack'))
