"""Products with a quantized matrix for many rows of x: a mixed-input GEMM on a Hopper GPU, and dequantization.

`matvec` (module `packed`) is memory-bound, and the fastest up to eight rows. With more rows the tensor cores are the
limiter: `mixed_gemm.cuh` dequantizes w in registers, from which `wgmma` reads it. With very many rows it is faster to
dequantize w to memory and let torch multiply, as on GPUs without `wgmma`.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F

from .calls import MAX_ROWS
from .fragments import BITS, STEP
from .packed import align_rows, packed_arrays, run_matvec
from .sources import KINDS, kernel_source
from ..ladder.stream_k import resident_clusters
from ..ladder.launches import Mapped
from ..ladder.rung import KernelLaunch, compiled, this_device
from ..common import make_context_current_once, launch, dtype_name
from ...cpp.driver import current_stream
from ...utils import cdiv

_CODEBOOK_BYTES = 4 * 256 * 32  # shared memory for the table of all pairs of NF4 values
_SMEM_BYTES = 226 * 1024  # of dynamic shared memory that a block may request, in addition to its barriers
_MAX_STAGES = 8
_COLUMNS = 64  # of w per stage: half a step


class MixedTile(NamedTuple):
    "The tile of a block, and the blocks that share its columns"

    BN: int  # rows of x
    WGS: int = 2  # consumer warpgroups, each with 64 rows of w
    CK: int = 1  # blocks of a cluster that share the columns: split-K


def _stage_bytes(tile, kind, group, zeros):
    "Return the bytes of a stage: 64 columns of x and of w, with its scales and zero points"
    tiles = 4 * tile.WGS
    scales = 0 if group == 'row' else tiles * 32 * (2 if group == 32 else 1)
    w = tiles * 128 * BITS[kind]
    return tile.BN * 2 * _COLUMNS + cdiv(w + scales * (1 + zeros), 1024) * 1024


def stages_of(tile, kind, group, zeros) -> int:
    "Return how many stages fit into shared memory, which later holds the accumulators"
    table = _CODEBOOK_BYTES * (kind == 'nf4')
    return min(_MAX_STAGES, (_SMEM_BYTES - table) // _stage_bytes(tile, kind, group, zeros))


TILES = tuple(
    MixedTile(BN, WGS, CK) for BN in (64, 96, 128, 160, 192, 224, 256) for WGS in (1, 2) for CK in (1, 2, 4, 8)
)


class StageCost(NamedTuple):
    "Microseconds per stage, if the tensor cores are not the limiter: a constant, and per warpgroup"

    least: float
    dequantize: float


# A cost model, fitted to 14,000 times of 48 weights with 8 to 4,096 rows of x on an H200: microseconds and bytes per
# microsecond. Its choices are in the mean 1.4% slower than the fastest.
_STAGE_COSTS = dict(
    int4=StageCost(0.130, 0.062), int8=StageCost(0.156, 0.090), nf4=StageCost(0.192, 0.089), fp8=StageCost(0.165, 0.045)
)
_LAUNCH, _TILE, _CLUSTER = 3.5, 3.3, 1.9  # per product, per wave of tiles, per product with split-K
_PER_ELEMENT, _STORE = 0.00119, 0.0161  # per row of x and warpgroup: of a stage, of the epilogue
_W_BYTES, _X_BYTES = 2.32e6, 3.02e6  # per microsecond
_UNPACK, _UNPACK_BYTES, _TORCH_BYTES, _TORCH_FLOP = 9.5, 6.9e6, 1.8e6, 7.0e8


def _smooth_max(*times):
    return sum(t**4 for t in times) ** 0.25


def estimate_mixed(tile, kind, batch, rows, columns, sms=132) -> float:
    "Estimate the microseconds of a mixed-input GEMM"
    tiles, stages = cdiv(rows, 64 * tile.WGS) * cdiv(batch, tile.BN), 2 * cdiv(cdiv(columns, STEP), tile.CK)
    cost, elements = _STAGE_COSTS[kind], tile.BN * tile.WGS
    stage = _smooth_max(_PER_ELEMENT * elements, cost.least + cost.dequantize * tile.WGS)
    time = cdiv(tiles, max(1, resident_clusters(tile.CK, sms))) * (stages * stage + _STORE * elements + _TILE)
    time += _CLUSTER * (tile.CK > 1)
    return _LAUNCH + 4 * batch * columns / _X_BYTES + _smooth_max(time, rows * columns * BITS[kind] / 8 / _W_BYTES)


def estimate_unpacked(kind, batch, rows, columns) -> float:
    "Estimate the microseconds of dequantization to memory and torch's product"
    size, other = rows * columns, (rows + columns) * batch
    unpacked = _smooth_max(_UNPACK, size * (BITS[kind] / 8 + 2) / _UNPACK_BYTES)
    return unpacked + _smooth_max(2 * (size + other) / _TORCH_BYTES, 2 * size * batch / _TORCH_FLOP)


_MATVEC_ROWS, _TALL_MATVEC_ROWS, _TALL = 8, 16, 10_000  # rows of x; for a matrix with so many rows


@lru_cache(4096)
def choose(kind, batch, rows, columns, gpu):  # gpu: a `Device`
    "Choose how to multiply: 'matvec', 'unpack' (and torch's product), or a `MixedTile` on a Hopper GPU"
    if not gpu.hopper:
        return 'matvec' if batch <= MAX_ROWS else 'unpack'
    if batch <= (_TALL_MATVEC_ROWS if rows >= _TALL else _MATVEC_ROWS):
        return 'matvec'
    steps = cdiv(columns, STEP)
    tiles = [tile for tile in TILES if tile.CK <= steps]
    tile = min(tiles, key=lambda tile: estimate_mixed(tile, kind, batch, rows, columns, gpu.sms))
    unpacked = estimate_unpacked(kind, batch, rows, columns)
    return tile if estimate_mixed(tile, kind, batch, rows, columns, gpu.sms) < unpacked else 'unpack'


def multiply(x, p, bias):
    "Compute x @ w.T (+ bias) for a packed matrix w by the fastest way; x: (batch, columns) of the type of the scales"
    way = choose(p.kind, x.shape[0], *p.shape, this_device())
    if way == 'matvec':
        return run_matvec(x.contiguous(), p, bias)
    if way == 'unpack':
        return F.linear(x, run_unpack(p), bias)
    return run_mixed(x.contiguous(), p, bias, way)


@lru_cache(1024)
def mixed_calls(
    kind,  # 'int4', 'int8', 'nf4', 'fp8'
    dtype,  # of x
    group,  # columns that share a scale, or 'row'
    batch,  # rows of x
    rows,  # of w
    columns,  # a multiple of 8
    bias,  # add a bias
    zeros,  # the groups have zero points
    tile,  # a `MixedTile`
) -> tuple:  # of `KernelLaunch`
    "Return the launches: x is permuted, then multiplied"
    stages, padded = stages_of(tile, kind, group, zeros), cdiv(columns, 32) * 32
    constants = dict(KIND=KINDS.index(kind), GROUP=0 if group == 'row' else group, BIAS=bias, ZEROS=zeros)
    constants |= tile._asdict() | dict(STAGES=stages, UP=232 if tile.WGS == 2 else 240)
    src = kernel_source('mixed_gemm', dtype, tuple(constants.items()))
    table = _CODEBOOK_BYTES * (kind == 'nf4')
    shared = max(stages * _stage_bytes(tile, kind, group, zeros) + table, 4 * tile.BN * (64 * tile.WGS + 4))
    blocks = cdiv(rows, 64 * tile.WGS) * cdiv(batch, tile.BN) * tile.CK
    scale_map, zero_map = 'scales' if group != 'row' else 'words', 'zeros' if zeros and group != 'row' else 'words'
    arrays = 'permuted', 'words', scale_map, zero_map, 'scales', 'zeros' if zeros else 'scales'
    arrays = *arrays, 'bias' if bias else 'permuted', 'y'
    permute = KernelLaunch(
        src, 'permute_columns', ('x', 'permuted'), (batch, columns, padded), (cdiv(batch * padded // 8, 256),), (256,)
    )
    block = (128 * (tile.WGS + 1),)
    return permute, KernelLaunch(src, 'multiply_mixed', arrays, (batch, rows, columns), (blocks,), block, shared, True)


def _maps(tile, kind, group):
    "Return (index of the argument, box, swizzle) per tensor map; w and its scales are matrices of 32-bit words"
    tiles, scales = 4 * tile.WGS, 16 if group == 32 else 8
    words = (1, (tiles, 32 * BITS[kind]), 0)
    other = [(i, (tiles, scales) if group != 'row' else words[1], 0) for i in (2, 3)]
    return (0, (tile.BN, _COLUMNS), 128), words, *other


@lru_cache(1024)
def _mapped_launcher(call, maps, device, backend):  # `device` is part of the key of the cache only
    "Return the launcher of `multiply_mixed`, which takes x and w as tensor maps"
    # call[3:8]: scalars, grid, block, shared, pdl
    return Mapped(compiled(call.src, call.name, backend), maps, len(call.arrays), *call[3:8])


def run_mixed(x, p, bias, tile):
    "Compute x @ w.T (+ bias) by the mixed-input GEMM for operands that have been checked; x is contiguous"
    batch, rows, x = x.shape[0], p.shape[0], align_rows(x)
    y = x.new_empty(batch, rows)
    if not y.numel():
        return y
    problem = p.kind, dtype_name(x), p.group, batch, rows, x.shape[1], bias is not None, p.zeros is not None
    permute, multiply = mixed_calls(*problem, tile)
    permuted = x.new_empty(batch, permute.scalars[2])
    words = (lambda v: v) if x.is_cuda else lambda v: v.view(torch.uint32)  # the emulator checks types, too
    launch([permute], words(x), permuted=words(permuted))
    words, scales, zeros = (v if v is None else v.view(torch.uint32).flatten(1) for v in (p.words, p.scales, p.zeros))
    arrays = dict(permuted=permuted, words=words, scales=scales, zeros=zeros, bias=bias, y=y)
    _launch_mixed(multiply, _maps(tile, p.kind, p.group), [arrays[name] for name in multiply.arrays])
    return y


def _launch_mixed(call, maps, operands):
    "Launch the mixed-input GEMM on the device and current stream of its result"
    y = operands[-1]
    if not y.is_cuda:
        return _mapped_launcher(call, maps, None, 'sim')(operands)
    with torch.cuda.device(y.device):
        make_context_current_once()
        _mapped_launcher(call, maps, y.get_device(), 'gpu')(operands, current_stream(y.get_device()))


_WARPS = 8  # per block of the kernel that dequantizes to memory


@lru_cache(1024)
def unpack_calls(
    kind,
    dtype,  # of the result
    group,
    rows,
    columns,
    zeros,
    sms,
) -> list:  # of `KernelLaunch`
    "Return the launch that dequantizes a packed matrix"
    constants = dict(KIND=KINDS.index(kind), GROUP=0 if group == 'row' else group, ZEROS=zeros)
    constants |= dict(WARPS=_WARPS, VECTOR=columns % 8 == 0)
    src = kernel_source('unpack', dtype, tuple(constants.items()))
    arrays = 'words', 'scales', 'zeros' if zeros else 'scales', 'w'
    grid = (min(8 * sms, cdiv(cdiv(rows, 16) * cdiv(columns, STEP), _WARPS)),)
    shared = _CODEBOOK_BYTES * (kind == 'nf4')
    return [KernelLaunch(src, 'unpack_matrix', arrays, (rows, columns), grid, (32 * _WARPS,), shared)]


def run_unpack(p):
    "Dequantize a packed matrix to the type of its scales, by a kernel"
    w = p.scales.new_empty(p.shape)
    if w.numel():
        calls = unpack_calls(p.kind, dtype_name(w), p.group, *p.shape, p.zeros is not None, this_device().sms)
        launch(calls, w, w=w, **packed_arrays(p))
    return w
