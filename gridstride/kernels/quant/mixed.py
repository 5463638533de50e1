"""GEMMs with a quantized matrix for many rows of x: a mixed-input GEMM on a Hopper GPU, and dequantization.

`matvec` (module `packed`) is memory-bound, and is the fastest for up to 16 rows. With more rows the tensor cores are
the limiter: `mixed_gemm.cuh` dequantizes w in registers, from which `wgmma` reads it. With very many rows, and on GPUs
without `wgmma`, it is faster to dequantize w to memory and let torch multiply.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F

from .calls import MAX_ROWS, pairs_bytes, zeros_array
from .fragments import BITS, STEP
from .packed import PackedMatrix, align_rows, as_words, packed_arrays, run_matvec
from .sources import KINDS, kernel_source
from ..launch_replay import replayable
from ..ladder.stream_k import resident_clusters
from ..ladder.launches import MappedLauncher, record_launch
from ..ladder.rung import KernelLaunch, compile_kernel, current_device_properties
from ..common import make_context_current_once, launch, dtype_name
from ...cpp.driver import current_stream
from ...utils import cdiv

_CODEBOOK_BYTES = 4 * 256 * 32  # shared memory for the table of all pairs of NF4 values
_SMEM_BYTES = 226 * 1024  # dynamic shared memory of a block; its barriers need static shared memory, too
_MAX_STAGES = 8
_RASTER = 4  # tiles of x that blocks share at the same time
_STAGE_COLUMNS = 64  # columns of w per pipeline stage: half a step


class MixedTile(NamedTuple):
    "The tile of a block, and the number of blocks among which the columns of w are divided (split-K)"

    BN: int  # rows of x
    WGS: int = 2  # consumer warpgroups, each with 64 rows of w
    CK: int = 1  # split-K: blocks of a cluster, each of which multiplies 1/CK of the columns


def dequantizes_per_product(kind, tile) -> bool:
    "Return whether w is dequantized by product instead of by stage, where that was faster on an H200"
    if tile.WGS == 2:
        return tile.BN >= 224 and tile.CK == 1
    return tile.BN >= 128 and kind != 'nf4'


def _tile_scale_bytes(kind, group):
    "Return the bytes of the scales of a stage of a tile of 16 rows"
    return 0 if group == 'row' else pairs_bytes(kind) * max(1, _STAGE_COLUMNS // group)


def _stage_bytes(tile, kind, group, has_zeros):
    "Return the bytes of a stage: 64 columns of x and of w, with the scales and zero points of w"
    num_tiles = 4 * tile.WGS
    scale_bytes = num_tiles * _tile_scale_bytes(kind, group)
    w_bytes = num_tiles * 128 * BITS[kind]
    return tile.BN * 2 * _STAGE_COLUMNS + cdiv(w_bytes + scale_bytes * (1 + has_zeros), 1024) * 1024


# BN -> rows of x that a warpgroup stores at once, by TMA, from one of its two buffers
_STORED_ROWS = {64: 32, 96: 48, 128: 32, 160: 80, 192: 48, 224: 112, 256: 32}


def _stores_by_tma(tile, rows):
    "Return whether blocks store y by TMA: its rows must begin at multiples of 16 bytes"
    return tile.CK == 1 and rows % 8 == 0


def _store_bytes(tile):
    "Return the bytes of the buffers for TMA stores"
    return tile.WGS * _STORED_ROWS[tile.BN] * 256


def stages_of(tile, kind, group, has_zeros, rows) -> int:
    "Return how many stages fit into shared memory, for `rows` rows of w"
    other_bytes = _CODEBOOK_BYTES * (kind == 'nf4') + _store_bytes(tile) * _stores_by_tma(tile, rows)
    return min(_MAX_STAGES, (_SMEM_BYTES - other_bytes) // _stage_bytes(tile, kind, group, has_zeros))


def _tiles_of(splits):
    "Return the tiles of all sizes, per number of splits in `splits`"
    heights = 64, 96, 128, 160, 192, 224, 256
    return tuple(MixedTile(BN, WGS, CK) for BN in heights for WGS in (1, 2) for CK in splits)


TILES = _tiles_of((1, 2, 4, 8))
# Clusters of five and six blocks use more SMs if w has few rows and many columns, but fewer of them are resident
_OTHER_TILES, _RESIDENT_CLUSTERS = _tiles_of((5, 6)), {5: 20, 6: 16}  # blocks -> clusters, as measured on an H200
_MIN_GAIN = 0.06  # of the estimate, because estimates differ from times


class KindCost(NamedTuple):
    "Times in microseconds that depend on the kind of the weights"

    launch: float  # per GEMM
    stage: float  # per stage, for any tile, if the tensor cores are not the limiter
    warpgroup: float  # for dequantization, per stage and warpgroup
    row: float  # per stage, row of x and warpgroup, if the tensor cores are the limiter


# A cost model, fitted to 2,300 measured times of 24 weights with 16 to 4,096 rows of x on an H200. Estimates differ by
# 4% on average; the tiles that they choose are on average 1.2% slower than the fastest.
_KIND_COSTS = dict(
    int4=KindCost(2.71, 0.177, 0.066, 0.00122),
    int8=KindCost(3.16, 0.151, 0.070, 0.00124),
    nf4=KindCost(3.12, 0.191, 0.106, 0.00129),
    fp8=KindCost(3.18, 0.165, 0.066, 0.00123),
)
# Not fitted: these kinds take as many instructions to dequantize as those on the right
_KIND_COSTS |= dict(mxfp8=_KIND_COSTS['fp8'], nvfp4=_KIND_COSTS['int4'])
_WAVE_US, _SPLIT_K_US = 2.85, 1.55  # per wave of blocks, per GEMM with split-K
_STORE_ROW_US, _MERGE_ROW_US = 0.0051, 0.0094  # per row of x and warpgroup: stores by TMA, stores with split-K
_W_BYTES_PER_US = 2.73e6
# Dequantization to memory, and torch's GEMM, fitted to the same weights
_UNPACK_US, _CODEBOOK_US, _UNPACK_BYTES_PER_US = 4.17, 2.1, 3.55e6
_MIN_UNPACK_US = 50  # the overhead of both calls from Python
_MIN_UNPACK_GAIN = 0.03  # of the estimate: if both are equal, the mixed-input GEMM needs no workspace
_TORCH_US, _TORCH_BYTES_PER_US, _TORCH_FLOP_PER_US = 4.17, 3.59e6, 7.9e8


def _overlapped_time(*times):
    "Return the time of work that overlaps: nearly the longest of `times`, but longer if several are similar"
    return sum(time**4 for time in times) ** 0.25


def estimate_mixed(tile, kind, batch, rows, columns, sms=132) -> float:
    "Estimate the microseconds of a mixed-input GEMM"
    num_tiles, num_stages = cdiv(rows, 64 * tile.WGS) * cdiv(batch, tile.BN), 2 * cdiv(cdiv(columns, STEP), tile.CK)
    cost, warpgroup_rows = _KIND_COSTS[kind], tile.BN * tile.WGS
    stage_us = _overlapped_time(cost.row * warpgroup_rows, cost.stage + cost.warpgroup * tile.WGS)
    tile_us = num_stages * stage_us + (_STORE_ROW_US if tile.CK == 1 else _MERGE_ROW_US) * warpgroup_rows
    if tile.CK == 1:  # persistent blocks
        gemm_us = cdiv(num_tiles, sms) * tile_us + _WAVE_US
    else:
        clusters = _RESIDENT_CLUSTERS.get(tile.CK) or max(1, resident_clusters(tile.CK, sms))
        waves = cdiv(num_tiles, clusters)
        gemm_us = waves * (tile_us + _WAVE_US) + _SPLIT_K_US
    return cost.launch + _overlapped_time(gemm_us, rows * columns * BITS[kind] / 8 / _W_BYTES_PER_US)


def estimate_unpacked(kind, batch, rows, columns) -> float:
    "Estimate the microseconds of dequantization to memory and torch's GEMM"
    w_elements, xy_elements = rows * columns, (rows + columns) * batch
    unpack_us = _UNPACK_US + _CODEBOOK_US * (kind == 'nf4') + w_elements * (BITS[kind] / 8 + 2) / _UNPACK_BYTES_PER_US
    memory_us = 2 * (w_elements + xy_elements) / _TORCH_BYTES_PER_US
    return unpack_us + _TORCH_US + _overlapped_time(memory_us, 2 * w_elements * batch / _TORCH_FLOP_PER_US)


# Below this estimate, the kernel begins before the previous one ends, by programmatic dependent launch. In CUDA graphs
# GEMMs of up to 10 us are 1.11 times faster on an H200, those of 10 to 20 us 1.05 times
PDL_MAX_US = 20


def uses_pdl(tile, kind, batch, rows, columns, sms) -> bool:
    "Return whether a mixed-input GEMM is launched by programmatic dependent launch"
    return estimate_mixed(tile, kind, batch, rows, columns, sms) < PDL_MAX_US


_MAX_MATVEC_ROWS = 16  # `matvec` is chosen for at most this many rows of x


@lru_cache(4096)
def choose_method(kind, batch, rows, columns, gpu):  # gpu: a `Device`
    "Choose a method: 'matvec', 'unpack' (dequantize, then multiply with torch), or a `MixedTile` on a Hopper GPU"
    if not gpu.is_hopper:
        return 'matvec' if batch <= MAX_ROWS else 'unpack'
    if batch <= _MAX_MATVEC_ROWS:
        return 'matvec'

    def estimate(tile):
        return estimate_mixed(tile, kind, batch, rows, columns, gpu.sms)

    steps = cdiv(columns, STEP)
    tile = min((tile for tile in TILES if tile.CK <= steps), key=estimate)
    other = min((tile for tile in _OTHER_TILES if tile.CK <= steps), key=estimate, default=tile)
    tile = other if estimate(other) < (1 - _MIN_GAIN) * estimate(tile) else tile
    unpack_us = estimate_unpacked(kind, batch, rows, columns) * (1 + _MIN_UNPACK_GAIN)
    is_mixed_faster = estimate(tile) < max(unpack_us, _MIN_UNPACK_US)
    return tile if is_mixed_faster else 'unpack'


def multiply(x, packed, bias):
    "Compute x @ w.T (+ bias) for a packed matrix w with the fastest method; x: (batch, columns), dtype of the scales"
    method = choose_method(packed.kind, x.shape[0], *packed.shape, current_device_properties())
    if method == 'matvec':
        return run_matvec(x.contiguous(), packed, bias)
    if method == 'unpack':
        return F.linear(x, run_unpack(packed, x.dtype), bias)
    return run_mixed(x.contiguous(), packed, bias, tile=method)


@lru_cache(1024)
def mixed_launch(
    kind,  # one of `KINDS`
    dtype,  # of x
    group,  # columns that share a scale, or 'row'
    batch,  # rows of x
    rows,  # of w
    columns,  # a multiple of 8
    has_bias,
    has_zeros,  # the groups have zero points
    tile,  # a `MixedTile`
    sms,
) -> KernelLaunch:
    "Return the launch of x @ w.T (+ bias), whose first five arrays are passed as tensor maps"
    stages, tma_stores = stages_of(tile, kind, group, has_zeros, rows), _stores_by_tma(tile, rows)
    constants = dict(KIND=KINDS.index(kind), GROUP=0 if group == 'row' else group, BIAS=has_bias, ZEROS=has_zeros)
    pdl = uses_pdl(tile, kind, batch, rows, columns, sms)
    constants |= dict(PER_PRODUCT=dequantizes_per_product(kind, tile), PDL=pdl)
    constants |= tile._asdict() | dict(STAGES=stages, CONSUMER_REGISTERS=232 if tile.WGS == 2 else 240)
    constants |= dict(
        TMA_STORES=tma_stores, OUT=_STORED_ROWS[tile.BN], M=1, N=tile.BN, BM=64 * tile.WGS, RASTER=_RASTER
    )
    src = kernel_source('mixed_gemm', dtype, tuple(constants.items()))
    pipeline_bytes = stages * _stage_bytes(tile, kind, group, has_zeros) + _CODEBOOK_BYTES * (kind == 'nf4')
    accumulator_bytes = 4 * tile.BN * (64 * tile.WGS + 4)  # after the pipeline
    smem_bytes = pipeline_bytes + _store_bytes(tile) if tma_stores else max(pipeline_bytes, accumulator_bytes)
    tiles = cdiv(rows, 64 * tile.WGS) * cdiv(batch, tile.BN)
    # An absent array is replaced by another one, which is not read.
    mapped_scales = 'scales' if group != 'row' else 'words'
    mapped_zeros = 'zeros' if has_zeros and group != 'row' else 'words'
    arrays = 'x', 'words', mapped_scales, mapped_zeros, 'y' if tma_stores else 'x'
    arrays = *arrays, 'scales', zeros_array(kind, has_zeros), 'bias' if has_bias else 'x', 'y'
    grid, block = (min(tiles, sms) if tma_stores else tiles * tile.CK,), (128 * (tile.WGS + 1),)
    return KernelLaunch(src, 'multiply_mixed', arrays, (batch, rows, columns), grid, block, smem_bytes, pdl)


def _mapped_args(tile, kind, group, rows, has_zeros):
    "Return (index of the argument, box, swizzle) per tensor map; w and its scales are matrices of 32-bit words"
    num_tiles = 4 * tile.WGS
    word_box, word_swizzle = ((num_tiles, 8, 32), 128) if BITS[kind] == 8 else ((num_tiles, 128), 0)
    x_box = tile.BN, _STAGE_COLUMNS
    scale_box = word_box if group == 'row' else (num_tiles, _tile_scale_bytes(kind, group) // 4)
    y_box = (_STORED_ROWS[tile.BN], 64) if _stores_by_tma(tile, rows) else x_box
    zero_box = scale_box if has_zeros else word_box
    return (0, x_box, 128), (1, word_box, word_swizzle), (2, scale_box, 0), (3, zero_box, 0), (4, y_box, 128)


@lru_cache(1024)
def _mapped_launcher(kernel_launch, mapped_args, device, backend):  # `device` is only part of the cache key
    "Return the launcher of `multiply_mixed`, whose first arrays are passed as tensor maps"
    # kernel_launch[3:8]: scalars, grid, block, shared, pdl
    return MappedLauncher(
        compile_kernel(kernel_launch.src, kernel_launch.name, backend),
        mapped_args,
        len(kernel_launch.arrays),
        *kernel_launch[3:8],
    )


def run_mixed(x, packed, bias, tile):
    "Compute x @ w.T (+ bias) with the mixed-input GEMM, for valid operands; x must be contiguous"
    batch, rows, x = x.shape[0], packed.shape[0], align_rows(x)
    y = x.new_empty(batch, rows)
    if not y.numel():
        return y
    has_bias, has_zeros = bias is not None, packed.zeros is not None
    problem = packed.kind, dtype_name(x), packed.group, batch, rows, x.shape[1], has_bias, has_zeros
    kernel_launch = mixed_launch(*problem, tile, current_device_properties().sms)
    # The emulator checks that dtypes match those of the kernel's parameters.
    arrays = [array if array is None else as_words(array) for array in packed[3:]]
    words, scales, zeros, matrix_scale = arrays
    # lines of 128 bytes, which TMA swizzles
    words = words.view(words.shape[0], -1, 32) if BITS[packed.kind] == 8 else words
    arrays = dict(x=x, words=words, scales=scales, zeros=zeros, matrix_scale=matrix_scale, bias=bias, y=y)
    _launch_mixed(
        kernel_launch,
        _mapped_args(tile, packed.kind, packed.group, rows, has_zeros),
        [arrays[name] for name in kernel_launch.arrays],
    )
    return y


def _launch_mixed(kernel_launch, mapped_args, arrays):
    "Launch the mixed-input GEMM on the device of its result, on the current stream"
    y = arrays[-1]
    if not y.is_cuda:
        return _mapped_launcher(kernel_launch, mapped_args, None, 'sim')(arrays)
    with torch.cuda.device(y.device):
        make_context_current_once()
        launcher = _mapped_launcher(kernel_launch, mapped_args, y.get_device(), 'gpu')
        launcher(arrays, current_stream(y.get_device()))
        record_launch(launcher, arrays)


_UNPACK_WARPS = 8  # per block of the kernel that dequantizes to memory


@lru_cache(1024)
def unpack_launches(
    kind,
    dtype,  # of the result
    group,
    rows,
    columns,
    has_zeros,
    sms,
) -> list:  # of `KernelLaunch`
    "Return the launch that dequantizes a packed matrix"
    constants = dict(KIND=KINDS.index(kind), GROUP=0 if group == 'row' else group, ZEROS=has_zeros)
    constants |= dict(WARPS=_UNPACK_WARPS, VECTOR=columns % 8 == 0)
    src = kernel_source('unpack', dtype, tuple(constants.items()))
    arrays = 'words', 'scales', zeros_array(kind, has_zeros), 'w'
    grid = (min(8 * sms, cdiv(cdiv(rows, 16) * cdiv(columns, STEP), _UNPACK_WARPS)),)
    smem_bytes = _CODEBOOK_BYTES * (kind == 'nf4')
    return [KernelLaunch(src, 'unpack_matrix', arrays, (rows, columns), grid, (32 * _UNPACK_WARPS,), smem_bytes)]


@replayable
def _unpack(words, scales, zeros, matrix_scale, kind, group, rows, columns, dtype):
    packed = PackedMatrix(kind, group, (rows, columns), words, scales, zeros, matrix_scale)
    w = scales.new_empty(rows, columns, dtype=getattr(torch, dtype))
    if w.numel():
        problem = kind, dtype, group, rows, columns, zeros is not None
        launch(unpack_launches(*problem, current_device_properties().sms), w, w=w, **packed_arrays(packed))
    return w


def run_unpack(
    packed,
    dtype=None,  # float16 or bfloat16; None: that of the scales
):
    "Dequantize a packed matrix with a kernel"
    dtype = str(dtype or packed.scales.dtype).removeprefix('torch.')
    return _unpack(*packed[3:], packed.kind, packed.group, *packed.shape, dtype)
