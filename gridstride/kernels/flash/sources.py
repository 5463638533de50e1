"""Assemble the CUDA C of the attention kernels: PTX wrappers, types and constants, then the source in `*.cuh`."""

from functools import lru_cache

from ..ptx import PTX, primitives, wgmma
from ..source_assembly import source_loader, assemble_source

source = source_loader(__package__)  # source(name) -> the contents of name.cuh

_TYPES = (('bf16', '__nv_bfloat16'),)


def wgmma_from_registers(n: int) -> str:  # n: columns of the result, a multiple of 8 up to 256
    "Return a CUDA C function that issues d (+)= A @ B in bf16: A (64 x 16) in registers, B (16 x `n`) in shared memory"
    num_accumulators = n // 2  # per thread
    a_registers = ','.join(f'%{num_accumulators + i}' for i in range(4))
    registers = ','.join(f'%{i}' for i in range(num_accumulators))
    operands = ', '.join(f'"+f"(d[{i}])' for i in range(num_accumulators))
    accumulators = f'float (&d)[{num_accumulators}]'
    return f'''
// Issues d (+)= A @ n for 16 elements along K; A is in four registers per thread: a, b, c and e
template<bool N_TRANSPOSED> __device__ void wgmma_rs({accumulators}, u32 a, u32 b, u32 c, u32 e, u64 n, int more) {{
    asm volatile("{{ .reg .pred more; setp.ne.b32 more, %{num_accumulators + 5}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 "
                 "{{{registers}}}, "
                 "{{{a_registers}}}, %{num_accumulators + 4}, more, 1, 1, %{num_accumulators + 6}; }}"
                 : {operands}
                 : "r"(a), "r"(b), "r"(c), "r"(e), "l"(n), "r"(more), "n"(N_TRANSPOSED) : "memory");
}}
'''


def _bias_function(bias):
    "Return the CUDA C function `bias_of`, which computes the bias of a score"
    return f'__device__ float bias_of(int batch, int head, int row, int key) {{ return {bias or 0}; }}\n'


@lru_cache(1024)
def hopper_source(
    file_names,  # without `.cuh`, in order
    smem_columns,  # column counts of the MMAs whose operands are both in shared memory
    register_columns,  # column counts of the MMAs whose first operand is in registers
    constants,  # ((name in the source, its integer value), ...)
    bias='',  # C expression that is added to a scaled score
    out_type='__nv_bfloat16',  # C type of the output
) -> str:
    "Return the source of kernels for a Hopper GPU"
    mma_functions = ''.join([*map(wgmma, smem_columns), *map(wgmma_from_registers, register_columns)])
    body = PTX + mma_functions + _bias_function(bias) + '\n'.join(map(source, file_names))
    return assemble_source(body, (*_TYPES, ('out_t', out_type)), constants)


def _preamble(*names):
    "Return the types u32 and u64, and the PTX wrappers with these names"
    return 'typedef unsigned u32;\ntypedef unsigned long long u64;\n' + primitives(*names)


@lru_cache(1024)
def ampere_source(
    file_names,  # without `.cuh`, in order
    constants,  # ((name in the source, its integer value), ...)
    bias='',  # as for `hopper_source`
) -> str:
    "Return the source of kernels for Ampere and later GPUs"
    preamble = _preamble('address', 'copy_async', 'copies_commit', 'copies_wait', 'ldmatrix', 'mma', 'pack')
    body = _bias_function(bias) + '\n'.join(map(source, file_names))
    return assemble_source(body, (*_TYPES, ('out_t', 'bf16')), constants, preamble)


@lru_cache
def pre_post_source(
    dim,  # head dimension
    deterministic,  # add to dq in a fixed order
) -> str:
    "Return the source of the preprocessing and postprocessing kernels of the backward pass"
    body = source('stores') + source('backward_pre_post')
    return assemble_source(body, _TYPES, (('HD', dim), ('DETERMINISTIC', deterministic)), _preamble('pack'))
