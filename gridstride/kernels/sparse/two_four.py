"""Multiply by a 2:4 sparse matrix: with `wgmma.sp` on a Hopper GPU, in persistent blocks or with split-K; with `mma.sp`
for few rows of x and on other GPUs since Ampere."""

from functools import lru_cache
from typing import NamedTuple

import torch

from .formats import CompressedMatrix, compress, from_words, to_dense, to_words
from .launches import launch_prepared, prepare_launch
from .sources import F16_TYPES, few_rows_source, hopper_source, mma_sp_source, split_source, wgmma_sp
from ..ladder.rung import KernelLaunch, current_device_properties, require_bfloat16, runs_hopper
from ..ladder.stream_k import resident_clusters
from ..common import check_matches, check_tensor, dtype_name
from ...utils import cdiv


class TwoFourMatrix(NamedTuple):
    "A 2:4 sparse matrix, packed as `multiply_24` reads it"

    shape: tuple  # (rows, columns)
    values: object  # (rows, columns/2)
    words: object  # the metadata, as `formats.to_words` returns it

    @property
    def nbytes(self):
        "Bytes of values and metadata"
        return self.values.nbytes + self.words.nbytes


def unsupported_24_reason(rows, columns):  # None if it is supported
    "Return the reason why the kernels do not support a matrix of these sizes"
    if columns % 16 or rows % 8:
        return f'it is {rows}x{columns}, but the kernels need a multiple of 8 rows and of 16 columns'


def pack_24(
    w,  # (rows, columns) of float16 or bfloat16: at most two of every four elements are nonzero
) -> TwoFourMatrix:
    """Compress a 2:4 sparse matrix, and pack it as `multiply_24` reads it; `formats.prune` makes any matrix 2:4 sparse.

        multiply_24(x, pack_24(prune(w)))

    Raises TypeError or ValueError for an unsupported matrix."""
    values, metadata = compress(w)
    if dtype_name(w) not in F16_TYPES:
        raise TypeError(
            f'pack_24: w is {dtype_name(w)}; expected one of {", ".join(F16_TYPES)}: convert it with .to(...)'
        )
    if reason := unsupported_24_reason(*w.shape):
        raise ValueError(f'pack_24: {reason}')
    return TwoFourMatrix(tuple(w.shape), values.contiguous(), to_words(metadata))


def unpack_24(packed: TwoFourMatrix):  # (rows, columns)
    "Convert to a dense matrix"
    return to_dense(CompressedMatrix(packed.values, from_words(packed.words, *packed.shape)))


class Tile(NamedTuple):
    "The tile of the SpMM on a Hopper GPU"

    BM: int  # rows of w per block
    BN: int  # rows of x per block
    STAGES: int  # of the pipeline
    CM: int  # blocks of a cluster that share a tile of x
    CN: int  # blocks of a cluster that share a tile of w
    OUT: int  # rows of y per TMA store; each warpgroup has two buffers of this size
    GROUP: int  # tile rows that blocks process together, for the L2 cache


# tile -> measured time on an H100, divided by the time that `estimate_cycles` computes without this factor
TILES = {
    Tile(128, 256, 5, 2, 1, 32, 8): 0.94,
    Tile(256, 192, 5, 2, 1, 48, 8): 1,
    Tile(256, 160, 5, 2, 1, 80, 8): 0.985,
    Tile(256, 128, 6, 2, 1, 64, 8): 1,
    Tile(256, 64, 8, 2, 1, 32, 8): 1,
    Tile(128, 128, 8, 2, 1, 64, 8): 1,
    Tile(128, 64, 8, 2, 1, 32, 8): 1,
}
_CONSUMERS = 2  # consumer warpgroups
_K_STEP = 64  # elements along k per pipeline stage


def estimate_cycles(
    tile,  # of `TILES`
    rows,  # of w
    n,  # rows of x
    k,
    sms=132,
) -> float:
    """Estimate the cycles of the SpMM.

    In a step, the tensor cores, shared memory and the copies work at the same time. A step takes about as long as the
    slowest of the three, and longer if several take similar times: the estimate is (a^4 + b^4 + c^4)^(1/4)."""
    blocks = tile.CM * tile.CN
    tiles = cdiv(rows, tile.BM * tile.CM) * cdiv(n, tile.BN * tile.CN)
    tensor_core_cycles = tile.BM * tile.BN / 64
    # Shared memory moves 128 bytes per cycle: reads per 64 rows of w and 32 elements along k, and writes.
    smem_cycles = 0.74 * (tile.BM / 32 * (16 + tile.BN / 2) + tile.BM / 2 + tile.BN)
    copy_cycles = (tile.BM * 64 / tile.CN + tile.BN * 128 / tile.CM) / 63
    step_cycles = (tensor_core_cycles**4 + smem_cycles**4 + copy_cycles**4) ** 0.25
    return TILES[tile] * (6000 + cdiv(tiles, sms // blocks) * (cdiv(k, 4 * _K_STEP) * 4 * step_cycles + 2500))


class SplitTile(NamedTuple):
    "The tile of a block of the kernel with split-K, and the number of blocks that share its columns"

    BM: int  # rows of w
    BN: int  # rows of x
    CK: int  # split-K: the blocks of a cluster


SPLIT_TILES = tuple(SplitTile(BM, BN, CK) for BM in (64, 128) for BN in (16, 32, 64, 128) for CK in (1, 2, 4))
_SPLIT_STEP = 128  # elements along k per pipeline stage
_SPLIT_SMEM_BYTES, _MAX_SPLIT_STAGES = 220 * 1024, 10


def estimate_split(tile, rows, n, k, sms=132) -> float:
    """Estimate the microseconds of the SpMM with split-K.

    Fitted to 480 measured times of 12 weights with 16 to 1,024 rows of x on an H200, where shared memory is the limiter
    of a stage. The tiles that are chosen are on average 1% slower than the fastest."""
    stage_us = 0.16 + 0.0009 * (tile.BM / 32 * (16 + tile.BN / 2) + tile.BM / 2 + tile.BN)
    waves = cdiv(cdiv(rows, tile.BM) * cdiv(n, tile.BN), max(1, resident_clusters(tile.CK, sms)))
    store_us = tile.BM * tile.BN * (0.000144 if tile.CK > 1 else 0.000064)
    gemm_us = waves * (cdiv(cdiv(k, _SPLIT_STEP), tile.CK) * stage_us + 4.1 + store_us) + 1.5 * (tile.CK > 1)
    w_us = rows * k * 9 / 8 / 2.34e6
    return 1.3 + (gemm_us**4 + w_us**4) ** 0.25


@lru_cache(1024)
def choose_persistent_tile(rows, n, k, sms=132) -> Tile:
    "Choose the tile of persistent blocks with the lowest estimate"
    return min(TILES, key=lambda tile: estimate_cycles(tile, rows, n, k, sms))


@lru_cache(1024)
def choose_tile(rows, n, k, sms=132):  # a `Tile` or a `SplitTile`
    """Choose the tile: that of persistent blocks if they occupy all SMs, or if it is wider than any tile with split-K;
    else the best tile with split-K"""
    tile = choose_persistent_tile(rows, n, k, sms)
    clusters = cdiv(rows, tile.BM * tile.CM) * cdiv(n, tile.BN * tile.CN)
    if tile.BN > SPLIT_TILES[-1].BN or clusters * tile.CM * tile.CN >= sms:
        return tile
    splits = [split for split in SPLIT_TILES if split.CK <= cdiv(k, _SPLIT_STEP)]
    return min(splits, key=lambda split: estimate_split(split, rows, n, k, sms))


_ARRAYS = 'values', 'x', 'y', 'words'


def _array_names(has_bias):
    "Return the names of the array arguments; x replaces an absent bias, which the kernel does not read"
    return *_ARRAYS, 'bias' if has_bias else 'x'


@lru_cache(1024)
def hopper_launch(
    dtype,
    rows,  # of w
    n,  # rows of x
    k,
    has_bias,
    gpu,  # a `Device`
    tile=None,  # None: the result of `choose_persistent_tile`
) -> tuple:  # a `KernelLaunch`, and the (box, swizzle) of values, x and y
    "Return the launch of x @ w.T (+ bias) on a Hopper GPU, and the boxes of its tensor maps"
    tile = tile or choose_persistent_tile(rows, n, k, gpu.sms)
    constants = dict(
        tile._asdict(), BK=_K_STEP, WGS=_CONSUMERS, M=tile.BM // 64 // _CONSUMERS, N=tile.BN, BIAS=has_bias
    )
    src = hopper_source(('two_four',), dtype, wgmma_sp(tile.BN), tuple(constants.items()))
    blocks, tiles = tile.CM * tile.CN, cdiv(rows, tile.BM * tile.CM) * cdiv(n, tile.BN * tile.CN)
    smem_bytes = tile.STAGES * _K_STEP * (tile.BM + 2 * tile.BN) + _CONSUMERS * 256 * tile.OUT
    grid, block = (blocks * min(gpu.sms // blocks, tiles),), (128 * (_CONSUMERS + 1),)
    kernel_launch = KernelLaunch(src, 'multiply_24', _array_names(has_bias), (rows, n, k), grid, block, smem_bytes)
    return kernel_launch, (
        ((tile.BM // tile.CN, _K_STEP // 2), 64),
        ((tile.BN // tile.CM, _K_STEP), 128),
        ((tile.OUT, 64), 128),
    )


@lru_cache(1024)
def split_launch(dtype, rows, n, k, has_bias, tile) -> tuple:  # a `KernelLaunch`, and the boxes of values and x
    "Return the launch of x @ w.T (+ bias) with split-K on a Hopper GPU, and the boxes of its tensor maps"
    stage_bytes, warpgroups = 144 * tile.BM + 256 * tile.BN, tile.BM // 64
    stages = min(_MAX_SPLIT_STAGES, _SPLIT_SMEM_BYTES // stage_bytes)
    smem_bytes = max(stages * stage_bytes, 4 * tile.BN * (tile.BM + 4))  # the partial sums, after the pipeline
    constants = dict(tile._asdict(), WGS=warpgroups, STAGES=stages, BIAS=has_bias)
    src = split_source(dtype, tile.BN, tuple(constants.items()))
    grid, block = (cdiv(rows, tile.BM) * cdiv(n, tile.BN) * tile.CK,), (128 * (warpgroups + 1),)
    arrays, sizes = _array_names(has_bias), (rows, n, k)
    kernel_launch = KernelLaunch(src, 'multiply_24_split', arrays, sizes, grid, block, smem_bytes)
    return kernel_launch, (((tile.BM, _SPLIT_STEP // 2), 128), ((tile.BN, _SPLIT_STEP // 2), 128))


_MMA_SP_STAGES = 3  # of 28 KiB each: SMs have at least 100 KiB of shared memory


@lru_cache(1024)
def mma_sp_launch(dtype, rows, n, k, has_bias) -> KernelLaunch:
    "Return the launch of x @ w.T (+ bias) that uses `mma.sp`"
    src = mma_sp_source(dtype, (('STAGES', _MMA_SP_STAGES), ('BIAS', has_bias)))
    grid, smem_bytes = (cdiv(rows, 128), cdiv(n, 128)), _MMA_SP_STAGES * 128 * 224
    return KernelLaunch(src, 'multiply_24', _array_names(has_bias), (rows, n, k), grid, (256,), smem_bytes)


# Where `few_rows_launch` is the fastest, measured on an H200: up to these rows of x and of w. With more, loads of x
# take longer than those of w.
_FEW_ROWS, _FEW_ROWS_MAX_W_ROWS = 8, 10_000


def _is_few_rows_faster(rows, n):
    "Return whether the kernel for few rows of x is the fastest"
    return n <= _FEW_ROWS and rows <= _FEW_ROWS_MAX_W_ROWS


@lru_cache(1024)
def few_rows_launch(dtype, rows, n, k, has_bias, sms) -> KernelLaunch:
    "Return the launch of x @ w.T (+ bias) for few rows of x"
    blocks = cdiv(rows, 16)
    warps = min(16 if blocks < 2 * sms else 8, 2 ** max(0, (cdiv(k, 128) - 1).bit_length()))
    constants = ('N_TILES', cdiv(n, 8)), ('WARPS', warps), ('BIAS', has_bias)
    src = few_rows_source(dtype, constants)
    return KernelLaunch(src, 'multiply_24_few_rows', _array_names(has_bias), (rows, n, k), (blocks,), (32 * warps,))


@lru_cache(1024)
def _prepare(problem, use_mma_sp, tile, device, backend):  # `backend` is only part of the cache key
    "Prepare the launch for `problem`, the arguments of `mma_sp_launch`"
    dtype, rows, n, k, has_bias = problem
    if _is_few_rows_faster(rows, n) and not (use_mma_sp or tile):
        return prepare_launch(few_rows_launch(dtype, rows, n, k, has_bias, current_device_properties().sms), (), device)
    if runs_hopper() and not use_mma_sp:
        tile = tile or choose_tile(rows, n, k, current_device_properties().sms)
        if isinstance(tile, SplitTile):
            return prepare_launch(*split_launch(*problem, tile), device)
        return prepare_launch(*hopper_launch(*problem, current_device_properties(), tile), device)
    return prepare_launch(mma_sp_launch(*problem), (), device)


def run_24(x, packed, bias=None, use_mma_sp=False, tile=None):
    "Compute `multiply_24` for valid operands"
    y = x.new_empty(x.shape[0], packed.shape[0])
    if not y.numel():
        return y
    x = x.clone() if x.data_ptr() % 16 else x
    words = packed.words if x.is_cuda else packed.words.view(torch.uint32)  # the emulator checks dtypes
    problem = dtype_name(x), packed.shape[0], *x.shape, bias is not None
    arrays = packed.values, x, y, words, x if bias is None else bias
    launch_prepared(_prepare, (problem, use_mma_sp, tile), x, arrays)
    return y


def multiply_24(
    x,  # (n, columns), contiguous, with the dtype of the matrix
    packed,  # a `TwoFourMatrix`
    bias=None,  # (rows,)
    use_mma_sp=False,  # use `mma.sp`, even on a Hopper GPU, and for any number of rows
):  # (n, rows)
    """Compute x @ w.T (+ bias) for a packed 2:4 sparse matrix w, with float32 accumulators.

        multiply_24(x, pack_24(prune(w)))

    Raises TypeError or ValueError for unsupported operands, Unavailable on a GPU older than Ampere."""
    check_tensor('multiply_24', x, [dtype_name(packed.values)])
    if x.dim() != 2 or x.shape[1] != packed.shape[1]:
        raise ValueError(f'multiply_24: x has shape {tuple(x.shape)}; expected (n, {packed.shape[1]})')
    for name, array in (('values', packed.values), ('words', packed.words)):
        check_tensor('multiply_24', array, [dtype_name(array)], name)
        if array.device != x.device:
            raise ValueError(f'multiply_24: {name} is on {array.device} and x on {x.device}: move it with .to(...)')
    if bias is not None:
        check_matches('multiply_24', 'bias', bias, x, (packed.shape[0],))
    require_bfloat16('multiply_24')
    return run_24(x, packed, bias, use_mma_sp)
