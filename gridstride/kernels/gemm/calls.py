"""Build the launch of a GEMM with an epilogue: select the tile, and compute constants, grid and TMA boxes."""

from functools import lru_cache
from typing import NamedTuple

from .cost_model import CostModel, TileConfig, smooth_max, step_cycles
from .sources import gemm_source
from ..ladder.rung import KernelLaunch
from ...utils import cdiv


class GemmProblem(NamedTuple):
    "The dtypes, layout and sizes of a GEMM (M x K) @ (K x N), and the operations of its epilogue"

    dtype: str  # of A and B
    out_dtype: str  # of the result: 'float32', or `dtype`
    layout: str  # 'nn'; 'tn': A is stored transposed; 'nt': B is
    count: int  # batch size, or number of groups
    M: int  # rows per matrix, or of all groups together
    N: int
    K: int
    is_grouped: bool = False  # grouped GEMM: each group of rows has its own B
    has_bias: bool = False  # (N,) is added to each row
    activation: object = None  # a name, or an `Activation`
    has_multiplier: bool = False  # the result is multiplied elementwise by another matrix
    has_addend: bool = False  # another matrix is added
    save: str = ''  # stored for the backward pass: 'input' or 'grad', the input or gradient of the activation
    sum_columns: bool = False  # sum the columns of the result if there is a multiplier, else those of the addend
    accumulate: bool = False  # add the result to the contents of `out`


class Tile(NamedTuple):
    "The tile of a block, its pipeline and its cluster; the names are those of the constants in `epilogue_gemm.cuh`"

    BM: int  # rows of a block's tile
    BN: int  # columns of a block's tile
    STAGES: int  # of the multistage pipeline
    WGS: int  # consumer warpgroups
    CM: int  # blocks of a cluster along M
    CN: int  # blocks of a cluster along N
    BLOCKS: int  # resident blocks per SM
    PDL: int = 0  # programmatic dependent launch: 1 if it begins before the previous kernel ends


# tile -> correction factor: its measured time on an H100, divided by the estimate without the factor
TILES = {
    Tile(128, 256, 4, 2, 2, 1, 1): 0.96,
    Tile(128, 256, 4, 2, 1, 2, 1): 1.0,
    Tile(128, 128, 3, 1, 2, 1, 2): 1.31,
    Tile(128, 128, 3, 1, 1, 1, 2): 1.3,
    Tile(128, 64, 4, 1, 1, 1, 2): 1.31,
    Tile(64, 128, 4, 1, 1, 1, 2): 1.25,
    Tile(64, 64, 3, 1, 1, 1, 3): 1.21,
}
# The same for batches. Their kernels begin before the previous one ends (see `hopper_f16`). In CUDA graphs their mean
# speedup over `torch.bmm` is 1.03 for ten shapes; that of the tiles above is 0.95. On a GPU, sequences of launches of
# each kernel returned the same bits with and without this overlap.
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

# If rows do not begin at cache lines, TMA boxes straddle cache lines; the factor was measured for batches only.
_MODEL, _BATCH_MODEL = CostModel(unaligned_factor=1.0), CostModel(unaligned_factor=1.5)


def estimate_cycles(tile, problem, sms=132) -> float:
    "Estimate the cycles of a GEMM with a tile: the formula of `cost_model`, with parameters for these kernels"
    cluster_m, cluster_n, cluster_size = tile.BM * tile.CM, tile.BN * tile.CN, tile.CM * tile.CN
    if problem.is_grouped:  # each group ends within a tile: on average half a tile is wasted
        tiles_m = cdiv(problem.M, cluster_m) + problem.count // 2
    else:
        tiles_m = problem.count * cdiv(problem.M, cluster_m)
    model = _BATCH_MODEL if _correction_factors(problem) is BATCH_TILES else _MODEL
    config = TileConfig(tile.BM, tile.BN, tile.CM, tile.CN)
    cycles_per_step = step_cycles(model, (problem.M, problem.N, problem.K), problem.layout, config) * tile.BLOCKS
    waves = cdiv(tiles_m * cdiv(problem.N, cluster_n), sms * tile.BLOCKS // cluster_size)
    # the blocks of a cluster synchronize before their first loads, which programmatic dependent launch does not hide
    prologue, epilogue = 1000 + 500 * (tile.PDL and cluster_size > 1), tile.BM * tile.BN / 16
    elements_a = problem.M * problem.K * (1 if problem.is_grouped else problem.count)
    elements_b, elements_out = problem.count * problem.K * problem.N, problem.M * problem.N * problem.count
    dram_cycles = (elements_a + elements_b + elements_out) * 2 / 1500  # 2 bytes per element
    tile_cycles = cdiv(problem.K, BK) * cycles_per_step + prologue + epilogue
    compute_cycles = _correction_factors(problem)[tile] * waves * tile_cycles
    return 5000 + smooth_max(compute_cycles, dram_cycles)


def _correction_factors(problem):
    "Return {tile: correction factor of its estimate} for the tiles that may be selected"
    return BATCH_TILES if problem.count > 1 and not problem.is_grouped else TILES


@lru_cache(4096)
def choose_tile(problem, sms=132) -> Tile:
    """Return the tile with the lowest estimate. If the epilogue loads or stores another matrix, only tiles with 64 rows
    per warpgroup qualify, because the others have no registers left for its elements"""
    uses_extra_matrix = problem.has_multiplier or problem.has_addend or problem.save
    tiles = [tile for tile in _correction_factors(problem) if not uses_extra_matrix or tile.BM // tile.WGS == 64]
    return min(tiles, key=lambda tile: estimate_cycles(tile, problem, sms))


def registers_at_launch(tile):
    "Return the registers per thread at launch, where producer and consumers still have the same number"
    return 65536 // (tile.BLOCKS * 128 * (tile.WGS + 1)) // 8 * 8


def register_split(tile):
    "Return the registers per thread after `setmaxnreg`, with which the producer releases some to the consumers"
    launch_registers = registers_at_launch(tile)
    producer_registers = 40 if launch_registers > 80 else 24
    consumer_registers = min(240, (launch_registers + (launch_registers - producer_registers) // tile.WGS) // 8 * 8)
    return dict(PRODUCER_REGS=producer_registers, CONSUMER_REGS=consumer_registers)


_ARRAYS = 'A', 'B', 'out_map', 'saved_map', 'out', 'saved', 'bias', 'other', 'sums', 'ends'  # parameters of the kernel


def stage_bytes(tile, is_b_transposed):  # whether B is stored transposed
    "Return the bytes of the tiles of A and B in a stage; if B is not transposed, its tile consists of whole TMA boxes"
    return BK * 2 * (tile.BM + (tile.BN if is_b_transposed else cdiv(tile.BN, 64) * 64))


def is_staged(problem):
    "Return whether results are staged in shared memory and stored by TMA"
    return problem.out_dtype != 'float32' and not problem.is_grouped


def column_sum_rows(problem, tile):
    "Return the number of rows of the partial column sums: one per warp along M"
    return cdiv(problem.M, tile.BM * tile.CM) * tile.CM * tile.WGS * 4


@lru_cache(1024)
def gemm_launch(
    problem,  # a `GemmProblem`
    scale,  # factor of A @ B
    device,  # a `Device`
    tile=None,  # None: that of `choose_tile`
) -> tuple:  # a `KernelLaunch`, and the (box, swizzle) of its first four arrays
    "Return the launch of a GEMM on a Hopper GPU, and its TMA boxes"
    tile = tile or choose_tile(problem, device.sms)
    is_a_transposed, is_b_transposed = problem.layout[0] == 't', problem.layout[1] == 't'
    flags = dict(
        BIAS=problem.has_bias,
        ACTIVATION=bool(problem.activation),
        MULTIPLIED=problem.has_multiplier,
        ADDED=problem.has_addend,
    )
    flags |= dict(
        SAVED=bool(problem.save),
        SAVE_GRAD=problem.save == 'grad',
        COLUMN_SUMS=problem.sum_columns,
        ACCUMULATE=problem.accumulate,
    )
    flags |= dict(GROUPED=problem.is_grouped, A_TRANSPOSED=is_a_transposed, B_TRANSPOSED=is_b_transposed)
    constants = dict(tile._asdict(), BK=BK, **register_split(tile), **flags)
    src = gemm_source(problem.dtype, problem.out_dtype, problem.activation, tuple(constants.items()))
    num_tiles = problem.count * cdiv(problem.M, tile.BM * tile.CM) * cdiv(problem.N, tile.BN * tile.CN)
    if problem.is_grouped:
        num_tiles += problem.count * cdiv(problem.N, tile.BN * tile.CN)
    cluster_size = tile.CM * tile.CN
    grid = cluster_size * min(device.sms * tile.BLOCKS // cluster_size, num_tiles)
    scalars = (problem.count, problem.M, problem.N, problem.K, float(scale))
    threads = 128 * (tile.WGS + 1)
    smem_bytes = tile.STAGES * stage_bytes(tile, is_b_transposed) + tile.WGS * 4 * 4096
    launch = KernelLaunch(src, 'multiply', _ARRAYS, scalars, (grid,), (threads,), smem_bytes, bool(tile.PDL))
    box_a = (1, BK // tile.CN, 64) if is_a_transposed else (1, tile.BM // tile.CN, BK)
    box_b = (1, tile.BN // tile.CM, BK) if is_b_transposed else (1, BK // tile.CM, 64)
    box_out = (1, 16, 64) if is_staged(problem) else box_a
    return launch, tuple((box, 128) for box in (box_a, box_b, box_out, box_out))
