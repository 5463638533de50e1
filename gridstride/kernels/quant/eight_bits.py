"""8-bit products (e4m3 or int8) with one scale per row of each operand, on Hopper tensor cores; int8 products with few
rows use dp4a.

Both operands are K-major, the only layout that 8-bit `wgmma` takes, so n is stored like a linear layer's weight. e4m3
accumulation keeps about 14 bits; int8 accumulation is exact.
"""

from functools import lru_cache
from typing import NamedTuple

import torch

from .sources import source
from ..ptx import PTX
from ..ladder.launches import Mapped
from ..ladder.rung import KernelLaunch, compiled, this_device, need_bfloat16, need_hopper
from ..texts import IN_C, with_types
from ..tool import check_tensor, enter_thread, launch
from ...cpp.driver import current_stream
from ...utils import cdiv

TILE = dict(BM=128, BN=256, BK=128, STAGES=4, GROUP=8)
# Rows and columns of the boxes of m, n and out. Each block of the pair loads half of the tile of n and multicasts it.
BOXES = (TILE['BM'], TILE['BK']), (TILE['BN'] // 2, TILE['BK']), (16, 64)
# 8 * 4096: epilogue staging of 8 consumer warps
SHARED = TILE['STAGES'] * (TILE['BM'] + TILE['BN']) * TILE['BK'] + 8 * 4096


class Kind(NamedTuple):
    "An 8-bit type"

    torch: str  # torch's type
    ptx: str  # operand type in the wgmma mnemonic
    sums: str  # accumulator type in the wgmma mnemonic
    sum: str  # C's type of the accumulators
    letter: str  # asm constraint of the accumulators


KINDS = dict(fp8=Kind('float8_e4m3fn', 'e4m3', 'f32', 'float', 'f'), int8=Kind('int8', 's8', 's32', 'int', 'r'))


def wgmma_of(
    kind,  # of `KINDS`
    n,  # columns of the result, a multiple of 8 up to 256
) -> str:
    "CUDA C of a function that issues d (+)= m @ n (64x32 by 32x`n`, both K-major)"
    o, signs = KINDS[kind], ', 1, 1' * (kind == 'fp8')
    registers = ','.join(f'%{i}' for i in range(n // 2))
    operands = ', '.join(f'"+{o.letter}"(d[{i}])' for i in range(n // 2))
    return f'''
// starts d (+)= m @ n of 32 k
__device__ void wgmma({o.sum} (&d)[{n // 2}], u64 m, u64 n, int more) {{
    asm volatile("{{ .reg .pred more; setp.ne.b32 more, %{n // 2 + 2}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{n}k32.{o.sums}.{o.ptx}.{o.ptx} "
                 "{{{registers}}}, "
                 "%{n // 2}, %{n // 2 + 1}, more{signs}; }}"
                 : {operands}
                 : "l"(m), "l"(n), "r"(more) : "memory");
}}
'''


@lru_cache(1024)
def row_calls(
    kind,  # 'fp8', 'int8'
    h,
    w,
    k,
    on,  # a `Device`
) -> list:  # of `KernelLaunch`
    "Launches for (h x k) @ (w x k).T"
    types = (('Sum', KINDS[kind].sum),)
    src = with_types(source('eight_bits'), types, tuple(TILE.items()), PTX + wgmma_of(kind, TILE['BN']))
    # A persistent kernel: clusters of 2 blocks iterate over tiles of 2*BM rows. 384 threads: a producer warpgroup and 2
    # consumer warpgroups
    tiles = cdiv(h, 2 * TILE['BM']) * cdiv(w, TILE['BN'])
    arrays, grid = ('m', 'n', 'out', 'm_scales', 'n_scales'), (2 * min(on.sms // 2, tiles),)
    return [KernelLaunch(src, 'multiply_rows', arrays, (h, w, k), grid, (384,), SHARED)]


FEW = 8  # dp4a is used up to this many rows of m
_WARPS, _EACH = 4, 2  # warps per block; rows of n per warp


@lru_cache(1024)
def few_calls(
    h,  # at most `FEW`
    w,
    k,
) -> list:  # of `KernelLaunch`
    "Launch for int8 (h x k) @ (w x k).T with small h"
    constants = dict(ROWS=next(o for o in (1, 2, 4, 8) if h <= o), EACH=_EACH, WARPS=_WARPS)
    src = with_types(source('few_rows'), (('To', IN_C['bfloat16']),), tuple(constants.items()))
    arrays, grid = ('x', 'n', 'out', 'm_scales', 'n_scales'), (cdiv(w, _WARPS * _EACH),)
    return [KernelLaunch(src, 'multiply_few', arrays, (h, w, k), grid, (32 * _WARPS,))]


@lru_cache(1024)
def _launcher(call, device, backend):  # `device` only keys the cache
    mapped = [(i, box, 128) for i, box in enumerate(BOXES)]
    # call[3:7]: scalars, grid, block, shared
    return Mapped(compiled(call.src, call.name, backend), mapped, len(call.arrays), *call[3:7])


def _has_few(kind, h):
    "Is this an int8 product with few enough rows for dp4a?"
    return kind == 'int8' and h <= FEW


def why_not_rows(kind, h, w, k):  # None if it can
    "Why no kernel can multiply h x k by the transpose of w x k, in a few words"
    if _has_few(kind, h):
        return f'k is {k}, and loads of 16 bytes need a multiple of 16' if k % 16 else None
    if k % 16 or w % 8:
        return f'k is {k} and n has {w} rows; TMA needs multiples of 16 and of 8'


def _check(tool, kind, m, n, m_scales, n_scales):
    "Raise unless the kernel can multiply these operands"
    for name, x in (('m', m), ('n', n)):
        check_tensor(tool, x, [KINDS[kind].torch], name)
    if m.dim() != 2 or n.dim() != 2 or m.shape[1] != n.shape[1]:
        raise ValueError(f'{tool}: m is {tuple(m.shape)} and n {tuple(n.shape)}; the column counts must match')
    for name, x, rows in (('m_scales', m_scales, m.shape[0]), ('n_scales', n_scales, n.shape[0])):
        check_tensor(tool, x, ['float32'], name)
        if x.shape != (rows, 1):
            raise ValueError(f'{tool}: {name} must have shape {(rows, 1)}; got {tuple(x.shape)}')
    if why := why_not_rows(kind, m.shape[0], n.shape[0], m.shape[1]):
        raise ValueError(f'{tool}: {why}')
    if bad := [name for name, x in (('m', m), ('n', n)) if x.data_ptr() % 16]:
        raise ValueError(f'{tool}: {bad[0]} begins at an address that is not a multiple of 16; use .clone()')
    need_bfloat16(tool) if _has_few(kind, m.shape[0]) else need_hopper(tool, emulated=True)


def multiply_fp8(
    m,  # (h, k) of float8_e4m3fn
    n,  # (w, k) of float8_e4m3fn
    m_scales,  # (h, 1) of float32
    n_scales,  # (w, 1) of float32
):  # (h, w) of bfloat16
    """Compute (m * m_scales) @ (n * n_scales).T; `formats.fp8` returns values and scales per operand.

    Raises TypeError or ValueError for invalid operands, Unavailable on a GPU other than Hopper."""
    _check('multiply_fp8', 'fp8', m, n, m_scales, n_scales)
    return _run('fp8', m, n, m_scales, n_scales)


def multiply_int8(
    m,  # (h, k) of int8
    n,  # (w, k) of int8
    m_scales,  # (h, 1) of float32
    n_scales,  # (w, 1) of float32
):  # (h, w) of bfloat16
    """Compute (m * m_scales) @ (n * n_scales).T, with sums along k that are exact up to 2^31; `formats.symmetric`
    returns values and scales per operand. dp4a multiplies up to `FEW` rows of m.

    Raises TypeError or ValueError for invalid operands. Raises Unavailable below compute capability 8.0, and for more
    than `FEW` rows on a GPU other than Hopper."""
    _check('multiply_int8', 'int8', m, n, m_scales, n_scales)
    return _run('int8', m, n, m_scales, n_scales)


def _run(kind, m, n, m_scales, n_scales):
    "The product of operands that have been checked"
    (h, k), w = m.shape, n.shape[0]
    out = torch.empty(h, w, dtype=torch.bfloat16, device=m.device)
    if not out.numel():
        return out
    if _has_few(kind, h):
        m, n = (x if x.is_cuda else x.view(torch.int32) for x in (m, n))  # the emulator checks types
        launch(few_calls(h, w, k), m, n=n, out=out, m_scales=m_scales, n_scales=n_scales)
        return out
    arrays = [m.view(torch.uint8), n.view(torch.uint8), out, m_scales, n_scales]
    for call in row_calls(kind, h, w, k, this_device()):
        if not m.is_cuda:
            _launcher(call, None, 'sim')(arrays)
            continue
        with torch.cuda.device(m.device):
            enter_thread()
            _launcher(call, m.get_device(), 'gpu')(arrays, current_stream(m.get_device()))
    return out
