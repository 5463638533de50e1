"""The launches of the depthwise convolutions: how outputs are distributed among blocks and threads."""

from functools import lru_cache
from typing import NamedTuple

from .problems import Convolution
from .sources import DTYPE_BYTES, kernel_source
from ..common import pow2_clamp, vector_width
from ..ladder import KernelLaunch
from ..ladder.launches import Int64
from ...utils import cdiv

_COLS = 4  # outputs of a row per thread
_MAX_TILE_W = 64
_MAX_PLANE_THREADS = 128
_MAX_THREADS = {2: 224, 4: 128}  # bytes per element -> threads of a block with several planes; 64 if they are small
_SM_THREADS = 512  # per SM, below which a thread gets fewer rows
_MAX_PLANE_BYTES = 24 * 1024
_MAX_SMEM_BYTES = 44 * 1024  # of static shared memory, for all planes of a block


class Alignment(NamedTuple):
    "The elements per load of x, and per store of the result"

    load: int
    store: int


class PlaneTile(NamedTuple):
    "The tile of a block: outputs of each of `planes` planes"

    height: int
    width: int
    rows: int  # of outputs per thread
    planes: int

    @property
    def threads(self):
        "The threads of a block: whole warps, at least two"
        return max(64, _round_up(self.planes * self.plane_threads, 32))

    @property
    def plane_threads(self):
        "The threads per plane"
        return self.height // self.rows * self.width // _COLS


def _round_up(n, multiple):
    return cdiv(n, multiple) * multiple


def _row_candidates(problem):
    "Return the candidates for the rows of outputs per thread, those that were measured to be fastest"
    out_height, taps = problem.out_size[0], problem.kernel[0]
    if out_height <= 8 or problem.stride[0] > 1 and taps <= 3:
        return (2,) if out_height <= 8 and taps <= 3 else (4, 2)
    return (7, 4, 2) if out_height % 7 == 0 and (taps >= 5 or out_height == 14) else (8, 7, 4, 2)


def _tile_rows(problem, strips, sms):
    "Return the output rows per thread: many, so that few input rows are read twice, but every SM needs enough threads"
    (out_height, _), taps, candidates = problem.out_size, problem.kernel[0], _row_candidates(problem)
    enough = [rows for rows in candidates if strips * cdiv(out_height, rows) >= _SM_THREADS * sms]
    return min(enough or candidates[-1:], key=lambda rows: cdiv(out_height, rows) * (rows + (taps - 1) / 2))


def _tile_width(out_width):
    "Return the width of a tile: the whole width, or a part of it"
    parts = cdiv(out_width, _MAX_TILE_W)
    return _round_up(out_width, _COLS) if parts == 1 else _round_up(cdiv(out_width, parts), 8)


def _tile_height(out_height, rows, threads_x):
    "Return the height of a tile with `threads_x` threads along its width"
    total = cdiv(out_height, rows)
    max_rows = max(1, _MAX_PLANE_THREADS // threads_x)
    return cdiv(total, cdiv(total, max_rows)) * rows


def _row_floats(problem, tile_width, load):
    "Return the floats per row of the input's tile: PITCH of plane_tiles.cuh"
    stride, span = problem.stride[1], (problem.kernel[1] - 1) * problem.dilation[1] + 1
    halo_left = _round_up(problem.padding[1], load)
    skip = (halo_left - problem.padding[1]) // 4 * 4
    read_cols = _round_up(halo_left - problem.padding[1] - skip + (_COLS - 1) * stride + span, 4)
    return _round_up(skip + (tile_width - _COLS) * stride + read_cols, max(4, load))


def _plane_floats(problem, tile: PlaneTile, load):
    "Return the floats of the input's tile per plane"
    span = (problem.kernel[0] - 1) * problem.dilation[0] + 1
    return ((tile.height - 1) * problem.stride[0] + span) * _row_floats(problem, tile.width, load)


def plane_tile(problem: Convolution, planes, dtype, load, sms) -> PlaneTile:
    "Return the tile for a number of planes, of which a block takes several if they are small and there are many"
    out_height, out_width = problem.out_size
    width = _tile_width(out_width)
    rows = _tile_rows(problem, planes * cdiv(out_width, width) * width // _COLS, sms)
    tile = PlaneTile(_tile_height(out_height, rows, width // _COLS), width, rows, 1)
    while tile.height > rows and 4 * _plane_floats(problem, tile, load) > _MAX_PLANE_BYTES:
        tile = tile._replace(height=tile.height - rows)
    tiles = cdiv(out_height, tile.height) * cdiv(out_width, width)
    max_threads = 64 if tile.plane_threads <= 16 else _MAX_THREADS[DTYPE_BYTES[dtype]]
    max_planes = min(max_threads // tile.plane_threads, _MAX_SMEM_BYTES // (4 * _plane_floats(problem, tile, load)))
    enough = max(cdiv(64, tile.plane_threads), planes * tiles // (4 * sms))  # blocks for all SMs, but whole warps
    return tile._replace(planes=max(1, min(max_planes, enough, planes)))


def _constants(problem, tile, alignment, **more):
    "Return the constants of plane_tiles.cuh"
    constants = dict(KH=problem.kernel[0], KW=problem.kernel[1], STRIDE=problem.stride[0], DILATION=problem.dilation[0])
    constants |= dict(PAD_H=problem.padding[0], PAD_W=problem.padding[1], TILE_H=tile.height, TILE_W=tile.width)
    constants |= dict(PLANES=tile.planes, ROWS=tile.rows, COLS=_COLS, V=alignment.load, V_OUT=alignment.store)
    return tuple((constants | dict(THREADS=tile.threads) | more).items())


def plane_alignment(problem: Convolution, dtype, addresses) -> Alignment:
    "Return the alignment of planes whose x and result are stored at these addresses"
    element_bytes, (x, y), (_, out_width) = DTYPE_BYTES[dtype], addresses, problem.out_size
    load, store = vector_width(x, element_bytes, 2, problem.width), vector_width(y, element_bytes, 2, out_width)
    return Alignment(load, min(store, _COLS))


@lru_cache(1024)
def depthwise_launches(problem: Convolution, dtype, alignment, has_bias, flip, device) -> list:  # of `KernelLaunch`
    "Return the launch of a depthwise convolution of planes; `flip`: with the rotated filter"
    planes, (out_height, out_width) = problem.images * problem.channels, problem.out_size
    tile = plane_tile(problem, planes, dtype, alignment.load, device.sms)
    tiles_x, tiles_y = cdiv(out_width, tile.width), cdiv(out_height, tile.height)
    src = kernel_source('depthwise', dtype, _constants(problem, tile, alignment, BIAS=has_bias, FLIP=flip))
    sizes = planes, problem.channels, problem.height, problem.width, out_height, out_width
    scalars, grid = (*sizes, tiles_x, tiles_x * tiles_y), (cdiv(planes, tile.planes) * tiles_x * tiles_y,)
    return [KernelLaunch(src, 'depthwise', ('x', 'weight', 'bias', 'y'), scalars, grid, (tile.threads,))]


_SPLIT_BLOCKS_PER_SM = 8


@lru_cache(1024)
def depthwise_weight_launches(problem: Convolution, dtype, alignment, device) -> tuple:  # (launches, splits)
    "Return the launches of the gradient of the weight, and the number of partial sums per tap"
    (out_height, out_width), channels = problem.out_size, problem.channels
    tile = plane_tile(problem, problem.images, dtype, alignment.load, max(1, device.sms // channels))
    tiles_x, tiles_y = cdiv(out_width, tile.width), cdiv(out_height, tile.height)
    tiles = tiles_x * tiles_y
    splits = max(1, min(cdiv(problem.images, tile.planes) * tiles, _SPLIT_BLOCKS_PER_SM * device.sms // channels))
    taps = problem.kernel[0] * problem.kernel[1]
    src = kernel_source('depthwise_weight', dtype, _constants(problem, tile, alignment, SPLITS=splits))
    scalars = problem.images, channels, problem.height, problem.width, out_height, out_width, tiles_x, tiles
    grid, block = (splits * channels,), (tile.threads,)
    first = KernelLaunch(src, 'depthwise_weight', ('x', 'dy', 'partials'), scalars, grid, block)
    return [first, _reduce_splits_launch(src, channels, taps)], splits


def _reduce_splits_launch(src, channels, taps):
    "Return the launch that adds the partial sums of the blocks"
    arrays, grid = ('partials', 'dweight', 'dbias'), (cdiv(channels * (taps + 1), 256),)
    return KernelLaunch(src, 'reduce_splits', arrays, (channels,), grid, (256,))


# Images that are stored channels last
_NHWC_THREADS, _NHWC_VECTOR = 128, 2


def _nhwc_cols(problem: Convolution) -> int:
    "Return the outputs of a row per thread for which the fewest elements are read"
    out_width, taps = problem.out_size[1], problem.kernel[1]
    return min((8, 7, 4), key=lambda cols: cdiv(out_width, cols) * (cols + (taps - 1) / 2))


@lru_cache(1024)
def depthwise_nhwc_launches(problem: Convolution, dtype, vec_size, has_bias, flip, device):
    "Return the launch of a depthwise convolution of images that are stored channels last"
    out_height, out_width = problem.out_size
    rows, cols = min(2, out_height), _nhwc_cols(problem)
    lanes = pow2_clamp(2 * cdiv(problem.channels, vec_size) - 1, 1, 32)
    groups = cdiv(problem.channels, lanes * vec_size)
    tiles_x, tiles_y = cdiv(out_width, cols), cdiv(out_height, rows)
    tiles = problem.images * tiles_x * tiles_y
    constants = dict(KH=problem.kernel[0], KW=problem.kernel[1], STRIDE=problem.stride[0], DILATION=problem.dilation[0])
    constants |= dict(PAD_H=problem.padding[0], PAD_W=problem.padding[1], ROWS=rows, COLS=cols, V=vec_size)
    constants |= dict(LANES=lanes, THREADS=_NHWC_THREADS, BIAS=has_bias, FLIP=flip)
    src = kernel_source('depthwise_nhwc', dtype, tuple(constants.items()))
    sizes = problem.channels, problem.height, problem.width, out_height, out_width
    scalars, grid = (*sizes, tiles_x, tiles_y, Int64(tiles), groups), (cdiv(tiles, _NHWC_THREADS // lanes) * groups,)
    return [KernelLaunch(src, 'depthwise_nhwc', ('x', 'weight', 'bias', 'y'), scalars, grid, (_NHWC_THREADS,))]


@lru_cache(1024)
def depthwise_nhwc_weight_launches(problem: Convolution, dtype, device) -> tuple:  # (launches, splits)
    "Return the launches of the gradient of the weight, channels last, and the number of partial sums per tap"
    (out_height, out_width), channels, threads = problem.out_size, problem.channels, _NHWC_THREADS
    rows, groups, taps = problem.images * out_height, cdiv(channels, 32), problem.kernel[0] * problem.kernel[1]
    splits = max(1, min(cdiv(rows, threads // 32), _SPLIT_BLOCKS_PER_SM * device.sms // groups))
    constants = dict(KH=problem.kernel[0], KW=problem.kernel[1], PAD_H=problem.padding[0], PAD_W=problem.padding[1])
    src = kernel_source('depthwise_nhwc_weight', dtype, tuple(dict(constants, THREADS=threads, SPLITS=splits).items()))
    scalars = channels, problem.height, problem.width, out_height, out_width, rows, groups
    arrays, grid = ('x', 'dy', 'partials'), (splits * groups,)
    first = KernelLaunch(src, 'depthwise_nhwc_weight', arrays, scalars, grid, (threads,))
    return [first, _reduce_splits_launch(src, channels, taps)], splits


def nhwc_vector_width(problem: Convolution, dtype, addresses) -> int:
    "Return the channels per load and store of images that are stored channels last, at these addresses"
    return min(_NHWC_VECTOR, *(vector_width(a, DTYPE_BYTES[dtype], 2, problem.channels) for a in addresses))
