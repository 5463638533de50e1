"""The launches of depthwise convolutions of images that are stored channels last: the tile of a block is chosen by
a cost model."""

from functools import lru_cache
from typing import NamedTuple

from .problems import Convolution
from .sources import DTYPE_BYTES, kernel_source
from .tiles import depthwise_nhwc_launches, nhwc_vector_width
from ..common import MAX_LOAD_BYTES, vector_width
from ..ladder import KernelLaunch
from ...utils import cdiv

_SMEM_BYTES_PER_SM, _MAX_SMEM_BYTES = 227 * 1024, 99 * 1024  # the latter per block


def _input_pixels(problem: Convolution, rows, cols):
    "Return the pixels of the input, with its halo, on which rows x cols outputs depend"
    axes = zip((rows, cols), problem.stride, problem.kernel, problem.dilation)
    height, width = ((size - 1) * stride + (taps - 1) * dilation + 1 for size, stride, taps, dilation in axes)
    return height * width


class NhwcTile(NamedTuple):
    "How a block computes its tiles: constants of depthwise_nhwc_tile.cuh"

    rows: int  # of outputs per thread
    cols: int
    threads_y: int
    threads_x: int
    lanes: int  # threads per pixel
    vec_size: int = 2  # channels per thread
    stages: int = 1
    min_blocks: int = 1  # per SM

    @property
    def threads(self):
        "The threads of a block"
        return self.lanes * self.threads_y * self.threads_x

    @property
    def channels(self):
        "The channels of a block"
        return self.lanes * self.vec_size

    def tile_bytes(self, problem: Convolution, dtype):
        "Return the bytes of the input of a tile"
        pixels = _input_pixels(problem, self.rows * self.threads_y, self.cols * self.threads_x)
        return pixels * self.channels * DTYPE_BYTES[dtype]

    def smem_bytes(self, problem: Convolution, dtype):
        "Return the bytes of dynamic shared memory"
        taps_bytes = problem.kernel[0] * problem.kernel[1] * self.channels * DTYPE_BYTES[dtype]
        return self.stages * self.tile_bytes(problem, dtype) + taps_bytes

    def resident_blocks(self, problem, dtype):
        "Return how many blocks an SM holds at the same time"
        return min(self.min_blocks, _SMEM_BYTES_PER_SM // (self.smem_bytes(problem, dtype) + 1024))

    def output_tiles(self, problem: Convolution):  # (along the width, along the height)
        "Return the tiles of an image"
        out_height, out_width = problem.out_size
        return cdiv(out_width, self.cols * self.threads_x), cdiv(out_height, self.rows * self.threads_y)

    def active_fraction(self, problem: Convolution):
        "Return the fraction of the threads that have outputs"
        (out_height, out_width), (tiles_x, tiles_y) = problem.out_size, self.output_tiles(problem)
        needed = cdiv(out_height, self.rows) * cdiv(out_width, self.cols)
        return needed / (tiles_x * tiles_y * self.threads_y * self.threads_x)


class Schedule(NamedTuple):
    "How tiles are distributed among persistent blocks"

    tiles: int  # per group of channels
    groups: int  # of channels
    blocks: int  # per group

    @property
    def iterations(self):
        "The tiles of a block, one after another"
        return cdiv(self.tiles, self.blocks)


def schedule(problem: Convolution, dtype, tile: NhwcTile, sms) -> Schedule:
    "Return the schedule whose blocks are all resident"
    tiles_x, tiles_y = tile.output_tiles(problem)
    tiles, groups = problem.images * tiles_x * tiles_y, cdiv(problem.channels, tile.channels)
    workers = sms * tile.resident_blocks(problem, dtype)
    return Schedule(tiles, groups, min(tiles, max(1, workers // groups)))


# A cost model, fitted to times of 255 layers with 1 to 128 images on an H200. Estimates differ by 7%; the tiles that
# they choose are on average 3.5% slower than the fastest of all tiles that were measured.
_FMA, _LOAD, _COPY, _OTHER = 1.03, 10.6, 22.4, 94.5  # instructions: per FMA, per load, per copy of a thread; others
_CYCLES_PER_INSTRUCTION_OF_ONE_BLOCK, _SCHEDULERS, _CYCLES_PER_US = 0.383, 4, 1755
_LAUNCH_US, _CODE_US = 5.72, 0.00133  # the latter per FMA in the source of a thread: instructions are fetched from DRAM
_DRAM_BYTES_PER_US, _L2_BYTES_PER_US = 4.56e6, 6.31e6


def _longest(power, *times):
    "Return the time of work that overlaps: nearly the longest of `times`, but longer if several are similar"
    return sum(time**power for time in times) ** (1 / power)


def _fmas(problem, tile):
    "Return the multiply-adds of a thread"
    return tile.rows * tile.cols * tile.vec_size * problem.kernel[0] * problem.kernel[1]


def _compute_us(problem, dtype, tile, work: Schedule, sms):
    "Estimate the microseconds of the instructions: an SM executes those of all its blocks, but one block alone is slow"
    computing = _FMA * _fmas(problem, tile) + _LOAD * _input_pixels(problem, tile.rows, tile.cols)
    copies = cdiv(tile.tile_bytes(problem, dtype) // MAX_LOAD_BYTES, tile.threads)
    instructions = computing * tile.active_fraction(problem) + _COPY * copies + _OTHER
    warp_instructions = instructions * cdiv(tile.threads, 32)
    all_blocks = warp_instructions * work.blocks * work.groups / sms / _SCHEDULERS
    one_block = warp_instructions * _CYCLES_PER_INSTRUCTION_OF_ONE_BLOCK
    return work.iterations * _longest(4, all_blocks, one_block) / _CYCLES_PER_US


def estimate_us(problem: Convolution, dtype, tile: NhwcTile, sms) -> float:
    "Estimate the microseconds of a launch after which nothing is in the caches"
    work, (out_height, out_width) = schedule(problem, dtype, tile, sms), problem.out_size
    pixel_bytes = problem.images * problem.channels * DTYPE_BYTES[dtype]
    in_bytes, out_bytes = pixel_bytes * problem.height * problem.width, pixel_bytes * out_height * out_width
    tile_bytes = work.tiles * work.groups * tile.tile_bytes(problem, dtype)
    dram_us, l2_us = (in_bytes + out_bytes) / _DRAM_BYTES_PER_US, (tile_bytes + out_bytes) / _L2_BYTES_PER_US
    compute_us = _compute_us(problem, dtype, tile, work, sms)
    return _LAUNCH_US + _CODE_US * _fmas(problem, tile) + _longest(3, compute_us, dram_us, l2_us)


@lru_cache(1024)
def nhwc_tile_launches(problem: Convolution, dtype, tile: NhwcTile, has_bias, flip, sms) -> list:  # of `KernelLaunch`
    "Return the launch of the kernel with this tile"
    (out_height, out_width), work = problem.out_size, schedule(problem, dtype, tile, sms)
    constants = dict(KH=problem.kernel[0], KW=problem.kernel[1], STRIDE=problem.stride[0], DILATION=problem.dilation[0])
    constants |= dict(PAD_H=problem.padding[0], PAD_W=problem.padding[1], ROWS=tile.rows, COLS=tile.cols)
    constants |= dict(V=tile.vec_size, LANES=tile.lanes, THREADS_Y=tile.threads_y, THREADS_X=tile.threads_x)
    constants |= dict(STAGES=tile.stages, MIN_BLOCKS=tile.min_blocks, BIAS=has_bias, FLIP=flip)
    src = kernel_source('depthwise_nhwc_tile', dtype, tuple(constants.items()))
    sizes = problem.channels, problem.height, problem.width, out_height, out_width, *tile.output_tiles(problem)
    scalars, grid = (*sizes, work.tiles, work.groups), (work.blocks * work.groups,)
    arrays, smem_bytes = ('x', 'weight', 'bias', 'y'), tile.smem_bytes(problem, dtype)
    return [KernelLaunch(src, 'depthwise_nhwc_tile', arrays, scalars, grid, (tile.threads,), smem_bytes)]


# (taps along an axis, stride) -> tiles, chosen from about 80 that were measured on an H200
_TILES = {
    (3, 1): (
        NhwcTile(1, 4, 4, 1, 32, 2, 1, 8),
        NhwcTile(2, 4, 4, 2, 16, 2, 1, 8),
        NhwcTile(2, 4, 4, 2, 8, 4, 2, 8),
        NhwcTile(2, 7, 8, 2, 8, 4, 2, 3),
        NhwcTile(4, 7, 2, 1, 32, 2, 1, 8),
        NhwcTile(4, 7, 4, 2, 16, 2, 2, 4),
    ),
    (3, 2): (
        NhwcTile(1, 4, 4, 1, 32, 2, 1, 8),
        NhwcTile(2, 2, 1, 4, 16, 4, 2, 8),
        NhwcTile(2, 4, 4, 2, 16, 2, 2, 5),
        NhwcTile(2, 7, 2, 2, 32, 2, 2, 4),
    ),
    (5, 1): (
        NhwcTile(2, 4, 4, 1, 32, 2, 1, 4),
        NhwcTile(4, 7, 2, 1, 32, 2, 1, 6),
        NhwcTile(7, 4, 2, 4, 16, 2, 2, 3),
        NhwcTile(7, 4, 4, 1, 16, 2, 2, 6),
        NhwcTile(2, 7, 4, 1, 16, 2, 1, 8),
    ),
    (5, 2): (
        NhwcTile(2, 2, 4, 2, 8, 4, 2, 6),
        NhwcTile(2, 4, 1, 4, 16, 2, 1, 8),
        NhwcTile(2, 7, 4, 1, 16, 2, 1, 6),
        NhwcTile(2, 7, 4, 2, 16, 2, 2, 3),
        NhwcTile(4, 2, 1, 8, 16, 2, 2, 4),
    ),
    (7, 1): (
        NhwcTile(2, 7, 4, 1, 16, 2, 1, 6),
        NhwcTile(2, 4, 2, 2, 32, 2, 1, 4),
        NhwcTile(2, 7, 2, 2, 16, 2, 1, 6),
        NhwcTile(4, 4, 2, 2, 16, 2, 2, 6),
        NhwcTile(7, 4, 1, 4, 32, 2, 2, 2),
        NhwcTile(7, 4, 8, 1, 16, 2, 2, 2),
    ),
    (7, 2): (NhwcTile(2, 4, 1, 4, 16, 2, 1, 6), NhwcTile(4, 4, 2, 4, 16, 2, 2, 2)),
}


@lru_cache(1024)
def choose_tile(problem: Convolution, dtype, sms) -> NhwcTile:  # None if none fits into shared memory
    "Choose the tile with the shortest estimate"
    taps = next(taps for taps in (3, 5, 7) if max(problem.kernel) <= taps or taps == 7)
    candidates = _TILES[taps, min(2, max(problem.stride))]
    fitting = [tile for tile in candidates if tile.smem_bytes(problem, dtype) <= _MAX_SMEM_BYTES]
    return min(fitting, key=lambda tile: estimate_us(problem, dtype, tile, sms), default=None)


def supports_tiles(problem: Convolution, dtype, addresses, device) -> bool:
    "Return whether arrays at these addresses can be copied in chunks of 16 bytes, as the kernel with tiles requires"
    chunk = MAX_LOAD_BYTES // DTYPE_BYTES[dtype]
    is_aligned = all(vector_width(a, DTYPE_BYTES[dtype], 2, problem.channels) == chunk for a in addresses)
    return device.is_hopper and is_aligned and choose_tile(problem, dtype, device.sms) is not None


def nhwc_launches(problem: Convolution, dtype, addresses, has_bias, flip, device) -> list:  # of `KernelLaunch`
    """Return the launch of a depthwise convolution of images that are stored channels last; `addresses`: of x, the
    result and the weight"""
    if supports_tiles(problem, dtype, addresses, device):
        tile = choose_tile(problem, dtype, device.sms)
        return nhwc_tile_launches(problem, dtype, tile, has_bias, flip, device.sms)
    vec_size = nhwc_vector_width(problem, dtype, addresses[:2])
    return depthwise_nhwc_launches(problem, dtype, vec_size, has_bias, flip, device)
