"""8-bit GEMMs A @ B.T (e4m3 or int8) with one scale per row of A and of B, on the tensor cores of a Hopper GPU.

A is M x K and B is N x K. Both are K-major, the only layout that 8-bit `wgmma` supports, so B is stored like the weight
of a linear layer. int8 GEMMs with few rows of A use dp4a instead. The tensor cores accumulate e4m3 products with a
precision of about 14 bits, and int8 products exactly.
"""

from functools import lru_cache
from typing import NamedTuple

import torch

from .sources import source
from ..ptx import PTX
from ..ladder.launches import MappedLauncher
from ..ladder.rung import KernelLaunch, compile_kernel, current_device_properties, require_bfloat16, require_hopper
from ..source_assembly import C_TYPES, assemble_source
from ..common import check_tensor, make_context_current_once, launch
from ...cpp.driver import current_stream
from ...utils import cdiv

TILE = dict(BM=128, BN=256, BK=128, STAGES=4, GROUP=8)
# Rows and columns of the TMA boxes of a, b and out. Each block of the cluster loads half of the tile of b and
# multicasts it to both.
BOXES = (TILE['BM'], TILE['BK']), (TILE['BN'] // 2, TILE['BK']), (16, 64)
# Shared memory for the tiles of all stages, and 4096 bytes per consumer warp for the epilogue
SMEM_BYTES = TILE['STAGES'] * (TILE['BM'] + TILE['BN']) * TILE['BK'] + 8 * 4096


class EightBitType(NamedTuple):
    "An 8-bit type: its names in torch, PTX and C"

    torch_dtype: str
    ptx_type: str  # PTX type of the operands
    ptx_accumulator: str  # PTX type of the accumulators
    c_accumulator: str  # C type of the accumulators
    constraint: str  # constraint of the accumulators in inline assembly


TYPES = dict(
    fp8=EightBitType('float8_e4m3fn', 'e4m3', 'f32', 'float', 'f'), int8=EightBitType('int8', 's8', 's32', 'int', 'r')
)


def wgmma_function(
    kind,  # a key of `TYPES`
    n,  # columns of the result, a multiple of 8 up to 256
) -> str:
    "Return CUDA C of a function that issues d (+)= A @ B.T, for A of 64 x 32 and B of `n` x 32"
    types = TYPES[kind]
    scale_flags = ', 1, 1' * (kind == 'fp8')  # 1: the operand is not negated; integer products have no such flags
    registers = ','.join(f'%{i}' for i in range(n // 2))
    operands = ', '.join(f'"+{types.constraint}"(d[{i}])' for i in range(n // 2))
    return f'''
// issues d (+)= A @ B.T for 32 elements along K
__device__ void wgmma({types.c_accumulator} (&d)[{n // 2}], u64 a, u64 b, int more) {{
    asm volatile("{{ .reg .pred more; setp.ne.b32 more, %{n // 2 + 2}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{n}k32.{types.ptx_accumulator}.{types.ptx_type}.{types.ptx_type} "
                 "{{{registers}}}, "
                 "%{n // 2}, %{n // 2 + 1}, more{scale_flags}; }}"
                 : {operands}
                 : "l"(a), "l"(b), "r"(more) : "memory");
}}
'''


@lru_cache(1024)
def wgmma_launches(
    kind,  # 'fp8', 'int8'
    M,
    N,
    K,
    gpu,  # a `Device`
) -> list:  # of `KernelLaunch`
    "Return the launch of (M x K) @ (N x K).T that uses `wgmma`"
    types = (('Sum', TYPES[kind].c_accumulator),)
    src = assemble_source(source('eight_bits'), types, tuple(TILE.items()), PTX + wgmma_function(kind, TILE['BN']))
    # A persistent kernel: clusters of 2 blocks iterate over tiles of 2*BM rows. A block of 384 threads has a producer
    # warpgroup and two consumer warpgroups.
    num_tiles = cdiv(M, 2 * TILE['BM']) * cdiv(N, TILE['BN'])
    arrays, grid = ('a', 'b', 'out', 'a_scales', 'b_scales'), (2 * min(gpu.sms // 2, num_tiles),)
    return [KernelLaunch(src, 'multiply_rows', arrays, (M, N, K), grid, (384,), SMEM_BYTES)]


MAX_DP4A_ROWS = 8  # int8 GEMMs with at most this many rows of A use dp4a
_DP4A_WARPS, _DP4A_COLUMNS = 4, 2  # warps per block; columns of the result (rows of B) per warp


@lru_cache(1024)
def dp4a_launches(
    M,  # at most `MAX_DP4A_ROWS`
    N,
    K,
) -> list:  # of `KernelLaunch`
    "Return the launch of the int8 GEMM (M x K) @ (N x K).T that uses dp4a"
    rows = next(rows for rows in (1, 2, 4, 8) if M <= rows)
    constants = dict(ROWS=rows, WARP_COLUMNS=_DP4A_COLUMNS, WARPS=_DP4A_WARPS)
    src = assemble_source(source('few_rows'), (('Out', C_TYPES['bfloat16']),), tuple(constants.items()))
    arrays, grid = ('x', 'b', 'out', 'a_scales', 'b_scales'), (cdiv(N, _DP4A_WARPS * _DP4A_COLUMNS),)
    return [KernelLaunch(src, 'multiply_few', arrays, (M, N, K), grid, (32 * _DP4A_WARPS,))]


@lru_cache(1024)
def _launcher(kernel_launch, device, backend):  # `device` is only part of the cache key
    "Return the launcher of the `wgmma` kernel; it passes the first arrays as tensor maps"
    mapped_args = [(i, box, 128) for i, box in enumerate(BOXES)]
    # kernel_launch[3:7]: scalars, grid, block, shared
    return MappedLauncher(
        compile_kernel(kernel_launch.src, kernel_launch.name, backend),
        mapped_args,
        len(kernel_launch.arrays),
        *kernel_launch[3:7],
    )


def _uses_dp4a(kind, M):
    "Return whether the GEMM uses dp4a: int8, and few rows of A"
    return kind == 'int8' and M <= MAX_DP4A_ROWS


def unsupported_reason(kind, M, N, K):  # None if it is supported
    "Return the reason why no kernel supports (M x K) @ (N x K).T"
    if _uses_dp4a(kind, M):
        return f'K is {K}; expected a multiple of 16, for loads of 16 bytes' if K % 16 else None
    if K % 16 or N % 8:
        return f'K is {K} and b has {N} rows; expected multiples of 16 and of 8, for TMA'


def _check_operands(op_name, kind, a, b, a_scales, b_scales):
    "Raise `TypeError`, `ValueError` or `Unavailable` unless a kernel supports these operands"
    for name, x in (('a', a), ('b', b)):
        check_tensor(op_name, x, [TYPES[kind].torch_dtype], name)
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(
            f'{op_name}: a has shape {tuple(a.shape)} and b {tuple(b.shape)}; they must have the same number of columns'
        )
    for name, x, rows in (('a_scales', a_scales, a.shape[0]), ('b_scales', b_scales, b.shape[0])):
        check_tensor(op_name, x, ['float32'], name)
        if x.shape != (rows, 1):
            raise ValueError(f'{op_name}: {name} has shape {tuple(x.shape)}; expected {(rows, 1)}')
    if reason := unsupported_reason(kind, a.shape[0], b.shape[0], a.shape[1]):
        raise ValueError(f'{op_name}: {reason}')
    if unaligned_names := [name for name, x in (('a', a), ('b', b)) if x.data_ptr() % 16]:
        raise ValueError(
            f'{op_name}: {unaligned_names[0]} begins at an address that is not a multiple of 16: use .clone()'
        )
    require_bfloat16(op_name) if _uses_dp4a(kind, a.shape[0]) else require_hopper(op_name, emulated=True)


def multiply_fp8(
    a,  # (M, K) of float8_e4m3fn
    b,  # (N, K) of float8_e4m3fn
    a_scales,  # (M, 1) of float32
    b_scales,  # (N, 1) of float32
):  # (M, N) of bfloat16
    """Compute (a * a_scales) @ (b * b_scales).T; `formats.fp8` returns the values and the scales of an operand.

        (a, a_scales), (b, b_scales) = formats.fp8(x), formats.fp8(w)
        multiply_fp8(a, b, a_scales, b_scales)

    Raises TypeError or ValueError for invalid operands, Unavailable on a GPU other than Hopper."""
    _check_operands('multiply_fp8', 'fp8', a, b, a_scales, b_scales)
    return _multiply('fp8', a, b, a_scales, b_scales)


def multiply_int8(
    a,  # (M, K) of int8
    b,  # (N, K) of int8
    a_scales,  # (M, 1) of float32
    b_scales,  # (N, 1) of float32
):  # (M, N) of bfloat16
    """Compute (a * a_scales) @ (b * b_scales).T; sums along K are exact up to 2^31 - 1. `formats.symmetric` returns the
    values and the scales of an operand. GEMMs with up to `MAX_DP4A_ROWS` rows of a use dp4a.

        multiply_int8(a, b, a_scales, b_scales)

    Raises TypeError or ValueError for invalid operands. Raises Unavailable below compute capability 8.0, and for more
    than `MAX_DP4A_ROWS` rows on a GPU other than Hopper."""
    _check_operands('multiply_int8', 'int8', a, b, a_scales, b_scales)
    return _multiply('int8', a, b, a_scales, b_scales)


def _multiply(kind, a, b, a_scales, b_scales):
    "Multiply valid operands"
    (M, K), N = a.shape, b.shape[0]
    out = torch.empty(M, N, dtype=torch.bfloat16, device=a.device)
    if not out.numel():
        return out
    if _uses_dp4a(kind, M):
        a, b = (x if x.is_cuda else x.view(torch.int32) for x in (a, b))  # the emulator checks dtypes
        launch(dp4a_launches(M, N, K), a, b=b, out=out, a_scales=a_scales, b_scales=b_scales)
        return out
    arrays = [a.view(torch.uint8), b.view(torch.uint8), out, a_scales, b_scales]
    for kernel_launch in wgmma_launches(kind, M, N, K, current_device_properties()):
        if not a.is_cuda:
            _launcher(kernel_launch, None, 'sim')(arrays)
            continue
        with torch.cuda.device(a.device):
            make_context_current_once()
            _launcher(kernel_launch, a.get_device(), 'gpu')(arrays, current_stream(a.get_device()))
    return out
