"""Assemble the CUDA C of the SpMM kernels: PTX wrappers, types and constants, followed by the contents of `*.cuh`."""

from functools import lru_cache

from ..ptx import PTX, STORE_SPLIT_K, STORE_TRANSPOSED, primitives, wgmma
from ..source_assembly import C_TYPES, source_loader, assemble_source

source = source_loader(__package__)  # source(name) -> the contents of name.cuh

F16_TYPES = dict(bfloat16='bf16', float16='f16')  # 16-bit float dtype -> name in PTX


def wgmma_sp(
    n,  # columns of the result, a multiple of 8 up to 256
) -> str:
    "Return a CUDA C function that issues d (+)= A @ B, for a 2:4 sparse A of 64 x 32 and B of 32 x `n`, both bf16"
    registers = ','.join(f'%{i}' for i in range(n // 2))
    operands = ', '.join(f'"+f"(d[{i}])' for i in range(n // 2))
    return f'''
// Issues d (+)= A @ B for 32 elements along K, of which A stores 16. Two of every four lanes pass the metadata: with
// SELECTOR 0 the first two, with 1 the last two
template<int SELECTOR> __device__ void wgmma_sp(float (&d)[{n // 2}], u64 a, u64 b, u32 metadata, int more) {{
    asm volatile("{{ .reg .pred more; setp.ne.b32 more, %{n // 2 + 3}, 0;\\n"
                 "wgmma.mma_async.sp.sync.aligned.m64n{n}k32.f32.bf16.bf16 "
                 "{{{registers}}}, "
                 "%{n // 2}, %{n // 2 + 1}, %{n // 2 + 2}, %{n // 2 + 4}, more, 1, 1, 0, 0; }}"
                 : {operands}
                 : "l"(a), "l"(b), "r"(metadata), "r"(more), "n"(SELECTOR) : "memory");
}}
'''


MMA_SP = r'''
// Computes d[16][8] += a[16][32] @ b[32][8] by a warp; a stores 16 of 32 elements along K. Two of every four lanes pass
// the metadata: with SELECTOR 0 the first two, with 1 the last two
template<int SELECTOR>
__device__ void mma_sp(float (&d)[4], const u32 (&a)[4], const u32 (&b)[4], u32 metadata) {
    asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, %13;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata),
          "n"(SELECTOR));
}
'''


@lru_cache(1024)
def hopper_source(
    file_names,  # without `.cuh`, in order
    dtype,  # 'bfloat16', 'float16'
    mma_functions,  # CUDA C of the functions that issue MMA instructions
    constants,  # ((name in the source, its integer value), ...)
    store=STORE_TRANSPOSED,  # CUDA C of the functions that store accumulators
) -> str:
    "Return the source of an SpMM on a Hopper GPU"
    preamble = (PTX + mma_functions).replace('bf16', F16_TYPES[dtype])
    types = (('Elem', C_TYPES[dtype]),)
    body = '\n'.join((store, *map(source, file_names)))
    return assemble_source(body, types, constants, preamble)


@lru_cache(1024)
def split_source(dtype, n, constants) -> str:
    "Return the source of the 2:4 SpMM with split-K; `n`: columns per `wgmma`"
    return hopper_source(('two_four_split',), dtype, wgmma_sp(n), constants, STORE_SPLIT_K)


@lru_cache(1024)
def blocks_source(
    dtype,
    constants,
    n,  # columns per `wgmma`
) -> str:
    "Return the source of the SpMM with a block-sparse matrix"
    return hopper_source(('blocks',), dtype, wgmma(n), constants)


@lru_cache
def mma_sp_source(dtype, constants) -> str:
    "Return the source of the SpMM that uses `mma.sp`"
    primitive_names = 'address', 'copy_async', 'copies_commit', 'copies_wait', 'ldmatrix'
    preamble = 'typedef unsigned u32;\n' + primitives(*primitive_names) + MMA_SP.replace('bf16', F16_TYPES[dtype])
    return assemble_source(source('two_four_warps'), (('Elem', C_TYPES[dtype]),), constants, preamble)


@lru_cache
def few_rows_source(dtype, constants) -> str:
    "Return the source of the SpMM with few rows of x, which uses `mma.sp`"
    preamble = 'typedef unsigned u32;\n' + MMA_SP.replace('bf16', F16_TYPES[dtype])
    return assemble_source(source('two_four_few_rows'), (('Elem', C_TYPES[dtype]),), constants, preamble)


@lru_cache
def csr_source(
    dtype,
    vec_size,  # elements per load
) -> str:
    "Return the source of the SpMM with CSR matrices"
    return assemble_source(source('csr'), (('Elem', C_TYPES[dtype]),), (('V', vec_size),))
