"""Build the launch of a product with an epilogue: select the tile, and compute constants, grid and TMA boxes."""

from functools import lru_cache
from typing import NamedTuple

from .cost_model import CostModel, TileConfig, smooth_max, step_cycles
from .sources import product_source
from ..ladder.rung import KernelLaunch
from ...utils import cdiv


class GemmProblem(NamedTuple):
    "The types, layout and sizes of a product (M x K) @ (K x N), and the parts of its epilogue"

    dtype: str  # of A and B
    out_dtype: str  # of the result: 'float32', or `dtype`
    layout: str  # 'nn'; 'tn': memory holds the transpose of A; 'nt': of B
    count: int  # number of products, or of groups
    M: int  # rows of one product, or of all groups together
    N: int
    K: int
    grouped: bool = False  # grouped GEMM: each group of rows has its own B
    bias: bool = False  # (N,) is added to each row
    activation: object = None  # a name, or an `Activation`
    multiplied: bool = False  # the result is multiplied elementwise by another matrix
    added: bool = False  # another matrix is added
    saved: str = ''  # stored for the backward pass: 'input' of the activation, or 'grad', its gradient there
    column_sums: bool = False  # the columns of the result are summed if it is multiplied, else those of the addend
    accumulate: bool = False  # the result is added to the contents of `out`


class Tile(NamedTuple):
    "The tile of a block, its pipeline and its cluster; the names are those of the constants in `product.cuh`"

    BM: int  # rows of a block's tile
    BN: int  # columns of a block's tile
    STAGES: int  # of the multistage pipeline
    WGS: int  # consumer warpgroups
    CM: int  # blocks of a cluster along M
    CN: int  # blocks of a cluster along N
    BLOCKS: int  # resident blocks per SM
    PDL: int = 0  # programmatic dependent launch: 1 if it begins before the previous kernel ends


# tile -> its measured time on an H100, in units of the estimate without this factor
TILES = {
    Tile(128, 256, 4, 2, 2, 1, 1): 0.96,
    Tile(128, 256, 4, 2, 1, 2, 1): 1.0,
    Tile(128, 128, 3, 1, 2, 1, 2): 1.31,
    Tile(128, 128, 3, 1, 1, 1, 2): 1.3,
    Tile(128, 64, 4, 1, 1, 1, 2): 1.31,
    Tile(64, 128, 4, 1, 1, 1, 2): 1.25,
    Tile(64, 64, 3, 1, 1, 1, 3): 1.21,
}
# The same for batches. Their kernels begin before the previous one ends (see `hopper_f16`). In CUDA graphs they
# reach 1.03 of the speed of `torch.bmm` over ten shapes, and the tiles above 0.95. Chains of each kernel gave the same
# bits on a GPU.
BATCH_TILES = {
    Tile(128, 256, 4, 2, 2, 1, 1, PDL=1): 0.754,
    Tile(128, 256, 4, 2, 1, 1, 1, PDL=1): 0.762,
    Tile(256, 128, 4, 2, 1, 1, 1, PDL=1): 0.731,
    Tile(128, 128, 6, 2, 1, 1, 1, PDL=1): 0.647,
    Tile(64, 128, 8, 1, 1, 1, 1, PDL=1): 0.597,
    Tile(64, 128, 4, 1, 1, 1, 2, PDL=1): 0.742,
    Tile(64, 64, 8, 1, 1, 1, 1, PDL=1): 0.511,
}
BK = 64  # elements along K per step

# If a row ends within a cache line, the boxes of the next row straddle cache lines: this was measured for batches only.
_MODEL, _BATCH_MODEL = CostModel(unaligned=1.0), CostModel(unaligned=1.5)


def estimate_cycles(tile, problem, sms=132) -> float:
    "Estimate the cycles of a product with a tile, by `cost_model` with parameters for these kernels"
    cluster_m, cluster_n, size = tile.BM * tile.CM, tile.BN * tile.CN, tile.CM * tile.CN
    if problem.grouped:  # each group ends within a tile: on average half a tile is wasted
        tiles_m = cdiv(problem.M, cluster_m) + problem.count // 2
    else:
        tiles_m = problem.count * cdiv(problem.M, cluster_m)
    model = _BATCH_MODEL if _tiles_for(problem) is BATCH_TILES else _MODEL
    config = TileConfig(tile.BM, tile.BN, tile.CM, tile.CN)
    step = step_cycles(model, (problem.M, problem.N, problem.K), problem.layout, config) * tile.BLOCKS
    waves = cdiv(tiles_m * cdiv(problem.N, cluster_n), sms * tile.BLOCKS // size)
    # the blocks of a cluster synchronize before their first loads, which programmatic dependent launch does not hide
    prologue, epilogue = 1000 + 500 * (tile.PDL and size > 1), tile.BM * tile.BN / 16
    elements_a = problem.M * problem.K * (1 if problem.grouped else problem.count)
    elements_b, elements_out = problem.count * problem.K * problem.N, problem.M * problem.N * problem.count
    dram_cycles = (elements_a + elements_b + elements_out) * 2 / 1500  # 2 bytes per element
    tile_cycles = cdiv(problem.K, BK) * step + prologue + epilogue
    compute_cycles = _tiles_for(problem)[tile] * waves * tile_cycles
    return 5000 + smooth_max(compute_cycles, dram_cycles)


def _tiles_for(problem):
    "Return the tiles that may be selected, with the factors of their estimates"
    return BATCH_TILES if problem.count > 1 and not problem.grouped else TILES


@lru_cache(4096)
def choose(problem, sms=132) -> Tile:
    "Return the tile with the lowest estimate. Tiles with 128 accumulators per thread have no registers for an operand"
    has_operand = problem.multiplied or problem.added or problem.saved
    tiles = [tile for tile in _tiles_for(problem) if not has_operand or tile.BM // tile.WGS == 64]
    return min(tiles, key=lambda tile: estimate_cycles(tile, problem, sms))


def max_registers(tile):
    "Return the registers per thread at launch, when producer and consumers have equally many"
    return 65536 // (tile.BLOCKS * 128 * (tile.WGS + 1)) // 8 * 8


def register_split(tile):
    "Return the registers per thread after `setmaxnreg`: the producer releases some, and the consumers receive them"
    at_launch = max_registers(tile)
    producer = 40 if at_launch > 80 else 24
    consumer = min(240, (at_launch + (at_launch - producer) // tile.WGS) // 8 * 8)
    return dict(PRODUCER_REGS=producer, CONSUMER_REGS=consumer)


_ARRAYS = 'A', 'B', 'out_map', 'saved_map', 'out', 'saved', 'bias', 'other', 'sums', 'ends'  # parameters of the kernel


def stage_bytes(tile, transposed):  # transposed: whether memory holds the transpose of B
    "Return the bytes of both tiles of a stage; if B is not `transposed`, its tile is loaded in whole TMA boxes"
    return BK * 2 * (tile.BM + (tile.BN if transposed else cdiv(tile.BN, 64) * 64))


def is_staged(problem):
    "Return whether results are staged in shared memory and stored by TMA"
    return problem.out_dtype != 'float32' and not problem.grouped


def column_sum_rows(problem, tile):
    "Return the number of rows of partial column sums: one per warp"
    return cdiv(problem.M, tile.BM * tile.CM) * tile.CM * tile.WGS * 4


@lru_cache(1024)
def product_call(
    problem,  # a `GemmProblem`
    scale,  # factor of the product
    device,  # a `Device`
    tile=None,  # None: that of `choose`
) -> tuple:  # a `KernelLaunch`, and the (box, swizzle) of its first four arrays
    "Return the launch of a product on a Hopper GPU, and its TMA boxes"
    tile = tile or choose(problem, device.sms)
    transposed = problem.layout[0] == 't', problem.layout[1] == 't'
    flags = dict(
        BIAS=problem.bias, ACTIVATION=bool(problem.activation), MULTIPLIED=problem.multiplied, ADDED=problem.added
    )
    flags |= dict(
        SAVED=bool(problem.saved),
        SAVE_GRAD=problem.saved == 'grad',
        COLUMN_SUMS=problem.column_sums,
        ACCUMULATE=problem.accumulate,
    )
    flags |= dict(GROUPED=problem.grouped, A_TRANSPOSED=transposed[0], B_TRANSPOSED=transposed[1])
    constants = dict(tile._asdict(), BK=BK, **register_split(tile), **flags)
    src = product_source(problem.dtype, problem.out_dtype, problem.activation, tuple(constants.items()))
    tiles = problem.count * cdiv(problem.M, tile.BM * tile.CM) * cdiv(problem.N, tile.BN * tile.CN)
    if problem.grouped:
        tiles += problem.count * cdiv(problem.N, tile.BN * tile.CN)
    size = tile.CM * tile.CN
    grid = size * min(device.sms * tile.BLOCKS // size, tiles)
    scalars = (problem.count, problem.M, problem.N, problem.K, float(scale))
    threads = 128 * (tile.WGS + 1)
    shared = tile.STAGES * stage_bytes(tile, transposed[1]) + tile.WGS * 4 * 4096
    call = KernelLaunch(src, 'multiply', _ARRAYS, scalars, (grid,), (threads,), shared, bool(tile.PDL))
    box_a = (1, BK // tile.CN, 64) if transposed[0] else (1, tile.BM // tile.CN, BK)
    box_b = (1, tile.BN // tile.CM, BK) if transposed[1] else (1, BK // tile.CM, 64)
    box_out = (1, 16, 64) if is_staged(problem) else box_a
    return call, tuple((box, 128) for box in (box_a, box_b, box_out, box_out))
