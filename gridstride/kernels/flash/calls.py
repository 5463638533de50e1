"""The launches of attention for given sizes: kernels with their constants, grids, and the boxes of their TMA loads."""

import math
from functools import lru_cache
from typing import NamedTuple

from .schedule import order_of
from .sources import ampere_source, ends_source, hopper_source
from ..ladder.launches import Long
from ..ladder.rung import KernelLaunch
from ...utils import cdiv

DIMS = 64, 128, 256  # head dimensions
_L2 = 2**25  # bytes of keys and values that are read again and again from the L2 cache


class AttentionProblem(NamedTuple):
    "The sizes and variant of one attention problem"

    batch: int
    heads: int  # of q
    group: int  # heads of q that share one of k and v
    rows: int
    keys: int
    dim: int
    causal: bool
    window: int  # 0: none
    lens: bool  # has each sequence its own lengths?
    bias: str = ''  # C of what is added to a scaled score


class OutputRows(NamedTuple):
    "The rows of the output that are written, and the state of the output"

    first: int  # row
    all: int  # rows of the output
    onto: bool = False  # does it hold results of other keys, to be merged with the new ones?
    wide: bool = False  # is it float32?


class Tile(NamedTuple):
    "The tile of a kernel for a Hopper GPU"

    warpgroups: int  # that compute, each 64 rows
    keys: int  # of a step
    stages: int  # of the rings of keys, and of values
    ahead: int  # buffers of rows: the next tile's are prefetched


# head dimension -> the fastest tile of those that fit into registers and shared memory. For 128, two warpgroups with
# steps of 128 keys took 8% longer on an H100, three with 64 keys 6%; a third stage gains nothing.
_TILES = {64: Tile(3, 128, 2, 2), 128: Tile(3, 80, 2, 2), 256: Tile(2, 80, 2, 1)}
_OUT = {False: '__nv_bfloat16', True: 'float'}  # C type of the results
_PLAIN = {64: (128, 96, 2), 128: (128, 64, 2)}  # of `mma.sync`: rows of a block, keys of a step, blocks of an SM


def _section(c, others=0):
    "Heads whose keys and values fit into the L2 cache together; `others`: keys of another array"
    return min(c.batch * c.heads, max(1, _L2 // (4 * (c.keys + others) * c.dim)) * c.group)


def _sizes(c):
    "Scalar arguments of every kernel"
    return c.batch, c.heads, c.group, c.rows, c.keys, c.window, _section(c)


def _kind(c):
    "Constants of every source"
    return dict(HD=c.dim, CAUSAL=c.causal, PAIR=False, WINDOW=c.window > 0, LENS=c.lens, BIASED=c.bias != '')


def factor_of(scale) -> float:  # what scores are multiplied by
    "The factor of scores in base 2: exp2 takes less time than exp"
    return scale / math.log(2)


def _forward(c, kernel, on, more, out):
    "The source of a forward kernel, its grid, block and shared memory, and the boxes of q, and of keys"
    tile = _TILES[c.dim]
    tall = 64 * tile.warpgroups
    constants = _kind(c) | dict(
        BM=tall, BN=tile.keys, WGS=tile.warpgroups, STAGES=tile.stages, AHEAD=tile.ahead, **more
    )
    names = 'hopper', 'tiles', 'fragments', 'stores', 'rows', 'forward_hopper', kernel
    src = hopper_source(names, (tile.keys,), (c.dim,), tuple(constants.items()), c.bias, out)
    grid = (min(on.sms, c.batch * c.heads * cdiv(c.rows, tall)),)
    shared = 2 * c.dim * (tile.ahead * tall + 2 * tile.stages * tile.keys) + 16 * tile.ahead + 32 * tile.stages
    return src, (grid, (128 * (tile.warpgroups + 1),), shared), ((1, 1, 64, 64), (1, 1, tile.keys, 64))


@lru_cache(1024)
def forward_hopper(
    c,  # an `AttentionProblem`
    scale,
    out_strides,  # of batch, heads and rows, in elements
    on,  # a `Device`
    output_rows=None,  # an `OutputRows` among the rows of the results; None: they are those of q
) -> tuple:  # a `KernelLaunch`, and the boxes of q, k and v
    "The launch of attention on a Hopper GPU"
    output_rows = output_rows or OutputRows(0, c.rows)
    src, size, (rows, keys) = _forward(c, 'forward_one', on, dict(ONTO=output_rows.onto), _OUT[output_rows.wide])
    arrays = 'q', 'k', 'v', 'out', 'lse', 'lens', 'taken'
    given = factor_of(scale), *_sizes(c), *map(Long, out_strides), output_rows.first, output_rows.all
    return KernelLaunch(src, 'attention_forward', arrays, given, *size), (rows, keys, keys)


@lru_cache(1024)
def forward_pair(
    c,  # an `AttentionProblem`
    scale,
    on,  # a `Device`
    first,  # of the rows that attend to others' keys, too
    others,  # keys
    wide,  # are the results kept in float32?
    parts,  # of the heads, one after the other, in which others' keys come
) -> tuple:  # a `KernelLaunch`, and the boxes of q, k, v, and of others' k and v
    "The launch of attention of two arrays of keys on a Hopper GPU, the second of which may still be in flight"
    src, size, (rows, keys) = _forward(c, 'forward_pair', on, dict(ONTO=False, PAIR=True), _OUT[wide])
    arrays = 'q', 'k', 'v', 'other_k', 'other_v', 'out', 'lse', 'arrived', 'wanted', 'order', 'taken'
    given = factor_of(scale), *_sizes(c)[:-1], 1, first, others, parts  # the order knows of sections
    return KernelLaunch(src, 'attention_forward_pair', arrays, given, *size), (rows, keys, keys, keys, keys)


def pair_order(
    c,  # this and what follows, as for `forward_pair`
    on,
    first,
    others,
    parts,
) -> list:  # indices of tiles, as blocks count them
    "The order in which blocks take tiles"
    tile = _TILES[c.dim]
    tall = 64 * tile.warpgroups
    down = cdiv(c.rows, tall)
    ends = [min(c.rows, tall * (r + 1)) for r in range(down)]
    own = [cdiv(min(c.keys, e) if c.causal else c.keys, tile.keys) for e in ends]
    other = [cdiv(others, tile.keys) if e > first else 0 for e in ends]
    heads = c.batch * c.heads
    order = order_of(heads, own, other, min(on.sms, heads * down), c.group, _section(c, others), parts)
    return [head * down + down - 1 - row for head, row in order]


@lru_cache(1024)
def forward_ampere(
    c,
    scale,
    strides,  # of batch, heads and rows, for q, k, v and out
) -> KernelLaunch:
    "The launch of attention by `mma.sync`"
    tall, step, blocks = _PLAIN[c.dim]
    constants = dict(_kind(c), BM=tall, BN=step, BLOCKS=blocks, ONTO=False)
    src = ampere_source(('tiles', 'fragments', 'stores', 'rows', 'forward_ampere'), tuple(constants.items()), c.bias)
    arrays = 'q', 'k', 'v', 'out', 'lse', 'lens'
    given = factor_of(scale), *_sizes(c), *(Long(s) for three in strides for s in three)
    grid, shared = c.batch * c.heads * cdiv(c.rows, tall), 2 * c.dim * (tall + 4 * step)
    return KernelLaunch(src, 'attention_forward', arrays, given, (grid,), (tall,), shared)


_BACK_ROWS, _BACK_KEYS, _BACK_STAGES = 64, 128, 2  # of a step, of a block, of the ring of rows


def padded(rows) -> int:
    "Rows rounded up to whole tiles of the backward pass"
    return cdiv(rows, _BACK_ROWS) * _BACK_ROWS


def dq_semaphores(
    heads,  # of all of the batch
    rows,
) -> int:
    "Count the semaphores that serialize the additions to dq: one per tile of rows and half of the columns"
    return heads * cdiv(rows, _BACK_ROWS) * 2


class Strides(NamedTuple):
    "Strides of batch, heads and rows, in elements"

    out: tuple
    dout: tuple
    dq: tuple
    dk: tuple
    dv: tuple


@lru_cache(1024)
def backward_ends(
    c,  # an `AttentionProblem`; its keys do not matter
    scale,
    strides,  # of out, dout and dq, each of batch, heads and rows
    ordered=False,  # is dq added in a fixed order?
) -> tuple:  # two `KernelLaunch`s
    "The launch before the products, which computes delta per row and clears dq, and the launch after them"
    ends, all_rows, heads = ends_source(c.dim, ordered), padded(c.rows), c.batch * c.heads
    out, dout, dq = (tuple(map(Long, stride)) for stride in strides)
    given = c.heads, c.rows, all_rows, *out, *dout
    arrays = 'out', 'dout', 'lse', 'lse_log2', 'delta', 'dq_sums', 'semaphores'
    first = KernelLaunch(ends, 'prepare_backward', arrays, given, (all_rows // 8, heads), (256,))
    given = scale, c.heads, c.rows, all_rows // _BACK_ROWS, *dq
    last = KernelLaunch(ends, 'finish_dq', ('dq_sums', 'dq'), given, (all_rows // _BACK_ROWS, heads, 2), (128,))
    return first, last


def fits_backward(first) -> bool:  # of the rows that were prepared
    "Return whether the products may begin at row `first`"
    return first % _BACK_ROWS == 0


@lru_cache(1024)
def backward_products(
    c,  # an `AttentionProblem` with head dimension 64 or 128
    scale,
    strides,  # of dk and dv, each of batch, heads and rows
    ordered=False,
    output_rows=None,  # an `OutputRows` of these rows among those that were prepared; None: these are all
) -> tuple:  # a `KernelLaunch`, and the boxes of q, k, v and dout
    "The launch that computes dk and dv, and adds to dq"
    output_rows = output_rows or OutputRows(0, c.rows)
    constants = dict(_kind(c), BM=_BACK_ROWS, BN=_BACK_KEYS, STAGES=_BACK_STAGES, ORDERED=ordered)
    products = tuple(sorted({_BACK_ROWS, c.dim // 2}))
    names = 'hopper', 'tiles', 'fragments', 'stores', 'backward_hopper'
    src = hopper_source(names, products, (c.dim,), tuple(constants.items()), c.bias)
    dk, dv = (tuple(map(Long, stride)) for stride in strides)
    arrays = 'q', 'k', 'v', 'dout', 'lse_log2', 'delta', 'dq_sums', 'semaphores', 'dk', 'dv', 'lens'
    given = factor_of(scale), scale, *_sizes(c), output_rows.first, padded(output_rows.all), *dk, *dv
    shared = 4 * c.dim * (_BACK_KEYS + _BACK_STAGES * _BACK_ROWS) + 4 * _BACK_KEYS * _BACK_ROWS
    shared += _BACK_STAGES * (8 * _BACK_ROWS + 24) + 8
    grid = (cdiv(c.keys, _BACK_KEYS) * c.batch * c.heads // c.group,)
    rows, keys = (1, 1, _BACK_ROWS, 64), (1, 1, _BACK_KEYS, 64)
    return KernelLaunch(src, 'attention_backward', arrays, given, grid, (384,), shared), (rows, keys, keys, rows)


def backward_hopper(
    c,  # as for `backward_products`, and what follows
    scale,
    strides,  # `Strides`
    ordered=False,
) -> tuple:  # `KernelLaunch`s: the launch before, the products with their boxes, the launch after
    "The launches of the backward pass on a Hopper GPU"
    first, last = backward_ends(c, scale, strides[:3], ordered)
    return first, backward_products(c, scale, strides[3:], ordered), last
