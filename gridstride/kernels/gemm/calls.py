"""The launch of a product for given sizes: the kernel with its constants, its grid, and the boxes of its TMA loads."""

from functools import lru_cache
from typing import NamedTuple

from .sources import product_source
from ..ladder.rung import KernelLaunch
from ...utils import cdiv


class GemmProblem(NamedTuple):
    "A product with its epilogue: types, layout, sizes, and what is fused"

    dtype: str  # of m and n
    out: str  # of the result: 'float32', or as `dtype`
    layout: str  # 'nn', 'tn': memory holds the transpose of m, 'nt': of n
    count: int  # products, or groups
    h: int  # rows of m: of one product, or of all groups
    w: int
    k: int
    grouped: bool = False
    bias: bool = False  # is a row added?
    activation: object = None  # a name, or an `Activation`
    times: bool = False  # is the result multiplied by another matrix,
    added: bool = False  # or is that added?
    saved: str = ''  # for the backward pass: the activation's input, 'input', or its gradient there, 'grad'
    summed: bool = False  # are columns summed: of the result if it was multiplied, else of what is added?
    onto: bool = False  # is the result added to what `out` holds?


class Tile(NamedTuple):
    "The tile of a product"

    BM: int  # rows of a block
    BN: int  # columns
    STAGES: int
    WGS: int  # warpgroups that multiply
    CM: int  # blocks of a cluster, below each other
    CN: int  # along a row
    BLOCKS: int  # of an SM
    PDL: int = 0  # programmatic dependent launch: does it begin before the previous kernel ends?


# A tile: its measured time on an H100, in units of what `cost` estimates without it
TILES = {
    Tile(128, 256, 4, 2, 2, 1, 1): 0.96,
    Tile(128, 256, 4, 2, 1, 2, 1): 1.0,
    Tile(128, 128, 3, 1, 2, 1, 2): 1.31,
    Tile(128, 128, 3, 1, 1, 1, 2): 1.3,
    Tile(128, 64, 4, 1, 1, 1, 2): 1.31,
    Tile(64, 128, 4, 1, 1, 1, 2): 1.25,
    Tile(64, 64, 3, 1, 1, 1, 3): 1.21,
}
# The same of batches, whose kernels begin before the previous one ends (see `finals.begin_early`): over ten shapes
# they are at 1.03 of `torch.bmm` in CUDA graphs, those above at 0.95. Chains of each gave the same bits on a GPU.
BATCHES = {
    Tile(128, 256, 4, 2, 2, 1, 1, PDL=1): 0.754,
    Tile(128, 256, 4, 2, 1, 1, 1, PDL=1): 0.762,
    Tile(256, 128, 4, 2, 1, 1, 1, PDL=1): 0.731,
    Tile(128, 128, 6, 2, 1, 1, 1, PDL=1): 0.647,
    Tile(64, 128, 8, 1, 1, 1, 1, PDL=1): 0.597,
    Tile(64, 128, 4, 1, 1, 1, 2, PDL=1): 0.742,
    Tile(64, 64, 8, 1, 1, 1, 1, PDL=1): 0.511,
}
BK = 64


def cost(tile, c, sms=132) -> float:
    "Estimate the cycles of a product with a tile: the larger of computing and moving data"
    high, wide, size = tile.BM * tile.CM, tile.BN * tile.CN, tile.CM * tile.CN
    # each group ends somewhere in a tile
    tall = cdiv(c.h, high) + c.count // 2 if c.grouped else c.count * cdiv(c.h, high)
    tensor, shared = tile.BM * tile.BN / 32, 0.74 * (tile.BM // 64 * 4 * (16 + tile.BN / 4) + tile.BM + tile.BN)
    # where a row in memory ends within a cache line, the pieces of the next one straddle two lines each
    rows = (c.h if c.layout[0] == 't' else c.k), (c.k if c.layout[1] == 't' else c.w)
    across = [1 + 0.5 * (_tiles(c) is BATCHES and row % BK > 0) for row in rows]  # measured with batches alone
    l2 = (tile.BM / tile.CN * across[0] + tile.BN / tile.CM * across[1]) * 128 / 63
    step = (tensor**4 + shared**4 + l2**4) ** 0.25 * tile.BLOCKS
    waves = cdiv(tall * cdiv(c.w, wide), sms * tile.BLOCKS // size)
    # blocks of a cluster meet before their first copies, which a kernel that begins early does not hide
    begin = 1000 + 500 * (tile.PDL and size > 1)
    moved = (c.h * c.k * (1 if c.grouped else c.count) + c.count * c.k * c.w + c.h * c.w * c.count) * 2 / 1500
    computed = _tiles(c)[tile] * waves * (cdiv(c.k, BK) * step + begin + tile.BM * tile.BN / 16)
    return 5000 + (computed**4 + moved**4) ** 0.25


def _tiles(c):
    return BATCHES if c.count > 1 and not c.grouped else TILES


@lru_cache(4096)
def choose(c, sms=132) -> Tile:
    "The tile with the lowest estimate; with 128 accumulators per thread there are no registers for other matrices"
    rich = c.times or c.added or c.saved
    return min((o for o in _tiles(c) if not rich or o.BM // o.WGS == 64), key=lambda tile: cost(tile, c, sms))


def most_registers(tile):
    "The most registers per thread for the compiler: all threads have equally many when the kernel begins"
    return 65536 // (tile.BLOCKS * 128 * (tile.WGS + 1)) // 8 * 8


def registers(tile):
    "Registers per thread of the producer, which gives some up, and of the consumers, which get them"
    each = most_registers(tile)
    down = 40 if each > 80 else 24
    return dict(DOWN=down, UP=min(240, (each + (each - down) // tile.WGS) // 8 * 8))


_ARRAYS = 'm', 'n', 'out_map', 'saved_map', 'out', 'saved', 'bias', 'other', 'sums', 'ends'


def stage_bytes(tile, transposed):
    "Bytes of both tiles of a stage; those of an n that is not `transposed` in whole boxes"
    return BK * 2 * (tile.BM + (tile.BN if transposed else cdiv(tile.BN, 64) * 64))


def is_staged(c):
    "Return whether results are staged in shared memory, and stored by TMA"
    return c.out != 'float32' and not c.grouped


def sum_rows(c, tile):
    "Rows of partial column sums: one per warp's rows"
    return cdiv(c.h, tile.BM * tile.CM) * tile.CM * tile.WGS * 4


@lru_cache(1024)
def product_call(
    c,  # a `GemmProblem`
    scale,  # of the product
    on,  # a `Device`
    tile=None,  # that of `choose`
) -> tuple:  # a `KernelLaunch`, and the (box, swizzle) of its first arrays
    "The launch of a product on a Hopper GPU"
    tile = tile or choose(c, on.sms)
    transposed = c.layout[0] == 't', c.layout[1] == 't'
    flags = dict(BIAS=c.bias, ACTIVE=bool(c.activation), TIMES=c.times, ADDED=c.added)
    flags |= dict(SAVED=bool(c.saved), SAVE_GRAD=c.saved == 'grad', SUMMED=c.summed, ONTO=c.onto)
    flags |= dict(GROUPED=c.grouped, M_TRANSPOSED=transposed[0], N_TRANSPOSED=transposed[1])
    constants = dict(tile._asdict(), BK=BK, **registers(tile), **flags)
    src = product_source(c.dtype, c.out, c.activation, tuple(constants.items()))
    tiles = c.count * cdiv(c.h, tile.BM * tile.CM) * cdiv(c.w, tile.BN * tile.CN)
    if c.grouped:
        tiles += c.count * cdiv(c.w, tile.BN * tile.CN)
    size = tile.CM * tile.CN
    grid = size * min(on.sms * tile.BLOCKS // size, tiles)
    given = (c.count, c.h, c.w, c.k, float(scale))
    threads, shared = 128 * (tile.WGS + 1), tile.STAGES * stage_bytes(tile, transposed[1]) + tile.WGS * 4 * 4096
    call = KernelLaunch(src, 'multiply', _ARRAYS, given, (grid,), (threads,), shared, bool(tile.PDL))
    m = (1, BK // tile.CN, 64) if transposed[0] else (1, tile.BM // tile.CN, BK)
    n = (1, tile.BN // tile.CM, BK) if transposed[1] else (1, BK // tile.CM, 64)
    out = (1, 16, 64) if is_staged(c) else m
    return call, tuple((o, 128) for o in (m, n, out, out))
