"""Choose the launch of a GEMM with a quantized matrix: its kernel, tiling and source."""

from functools import lru_cache
from typing import NamedTuple

from .block_formats import BLOCK_FORMATS
from .fragments import BITS, STEP
from .sources import KINDS, kernel_source
from ..ladder.rung import KernelLaunch
from ...utils import cdiv

MAX_ROWS = 64  # rows of x in one GEMM
_CODEBOOK_TABLE_BYTES = 4 * 256 * 32  # shared memory for the table of all pairs of NF4 values
GROUPS = 32, 64, 128, 'row'  # group sizes: columns that share a scale; 'row': all columns of a row


class WarpTiling(NamedTuple):
    "How a matrix is distributed among warps"

    tiles: int  # tiles of 16 rows per warp
    row_warps: int  # warps of a block along the rows of the matrix
    k_warps: int  # warps that split the columns of a tile (split-K within the block)
    steps_in_flight: int  # steps of 128 columns that a warp prefetches
    blocks_per_sm: int
    is_persistent: bool  # persistent blocks loop over tiles; else there is one block per tile


# number of tiles of eight rows of x -> {bits per element: tiling}, the fastest for 28672 x 8192 elements on an H100.
# DRAM bandwidth is highest with one tile per block. With NF4, persistent blocks are faster: they fill their codebook
# table only once.
_TILINGS = {
    1: {4: WarpTiling(1, 2, 4, 2, 3, False), 8: WarpTiling(1, 1, 16, 1, 2, False)},
    2: {4: WarpTiling(2, 4, 2, 2, 2, True), 8: WarpTiling(2, 4, 4, 1, 1, True)},
    4: {4: WarpTiling(2, 4, 4, 1, 1, False), 8: WarpTiling(2, 4, 2, 1, 1, True)},
    8: {4: WarpTiling(2, 4, 2, 1, 1, False), 8: WarpTiling(2, 4, 1, 1, 1, True)},
}
_NF4_TILING = WarpTiling(1, 1, 16, 2, 2, True)  # for up to eight rows of x
# For 9 to 16 rows of x, the fastest of 24 matrices on an H200: a block per tile, because tilings with several tiles per
# block leave SMs idle unless the matrix has many rows
_TILE_PER_BLOCK, _TILE_PER_SM = WarpTiling(1, 1, 16, 1, 2, False), WarpTiling(1, 1, 16, 2, 1, False)
_MANY_ROWS, _MANY_STEPS = 10_000, 32


def choose_tiling(kind, batch, steps, rows, sms) -> WarpTiling:
    "Choose the `WarpTiling` for `batch` rows of x and a matrix of `rows` rows and `steps` steps of 128 columns"
    tiling = _NF4_TILING if kind == 'nf4' and batch <= 8 else _TILINGS[_batch_tiles(batch)][BITS[kind]]
    if _batch_tiles(batch) == 2 and (kind == 'nf4' or rows < _MANY_ROWS):
        is_one_wave = cdiv(rows, 16) <= sms
        tiling = _TILE_PER_SM if is_one_wave and (kind == 'nf4' or steps >= _MANY_STEPS) else _TILE_PER_BLOCK
    return tiling._replace(k_warps=min(tiling.k_warps, 1 << max(0, steps - 1).bit_length()))


class Pipeline(NamedTuple):
    "A multistage pipeline of bulk copies that load a matrix, on a Hopper GPU"

    warps: int  # per block
    chunk: int  # steps of 128 columns per bulk copy
    stages: int  # copies in flight per warp


# The fastest on an H100 are the largest copies that still give each warp at least one copy per tile of 16 rows. 8-bit
# matrices gain nothing from bulk copies.
_PIPELINES = Pipeline(16, 4, 2), Pipeline(16, 2, 3), Pipeline(16, 1, 4)
_STREAMED_KINDS = 'int4', 'nf4', 'nvfp4'
_MAX_STREAMED_ROWS = 4  # rows of x, which a block keeps in shared memory
_MAX_SMEM_BYTES = 226 * 1024  # dynamic shared memory of a block; its barriers need static shared memory, too


def pairs_bytes(kind) -> int:
    "Return the bytes of a group's scales of 16 rows"
    return 16 if kind in BLOCK_FORMATS else 32


def zeros_array(kind, has_zeros) -> str:
    "Return the name of the array that is passed as `zeros`; without zero points, one that the kernels do not read"
    return 'matrix_scale' if kind == 'nvfp4' else 'zeros' if has_zeros else 'scales'


def choose_pipeline(kind, group, batch, columns, has_zeros):  # (a `Pipeline`, bytes of shared memory), or None
    "Choose the pipeline of bulk copies; None if the kind does not gain from one, or x leaves too little shared memory"
    if kind not in _STREAMED_KINDS or batch > _MAX_STREAMED_ROWS:
        return None
    steps = cdiv(columns, STEP)
    pipeline = next(
        (candidate for candidate in _PIPELINES if steps >= candidate.warps * candidate.chunk), _PIPELINES[-1]
    )
    # per step, with zero points
    scale_bytes = 0 if group == 'row' else pairs_bytes(kind) * (STEP // group) * (1 + has_zeros)
    stage_bytes = pipeline.warps * pipeline.stages * pipeline.chunk * (2 * STEP * BITS[kind] + scale_bytes)
    other_bytes = (
        batch * (256 * steps + 64) + _CODEBOOK_TABLE_BYTES * (kind == 'nf4') + 2 * 4 * pipeline.warps * 16 * batch
    )
    return (pipeline, stage_bytes + other_bytes) if stage_bytes + other_bytes <= _MAX_SMEM_BYTES else None


@lru_cache(1024)
def matvec_launches(
    kind,  # one of `KINDS`
    dtype,  # of x
    group,  # columns that share a scale, or 'row'
    batch,  # rows of x, at most `MAX_ROWS`
    rows,  # of w
    columns,  # a multiple of 8
    has_bias,
    has_zeros,  # the groups have zero points
    gpu,  # a `Device`
) -> list:  # of `KernelLaunch`
    "Return the launch of x @ w.T (+ bias) for a packed matrix w"
    constants = dict(KIND=KINDS.index(kind), GROUP=0 if group == 'row' else group, BIAS=has_bias, ZEROS=has_zeros)
    arrays = 'x', 'words', 'scales', zeros_array(kind, has_zeros), 'bias' if has_bias else 'x', 'y'
    if gpu.is_hopper and (pipeline_and_bytes := choose_pipeline(kind, group, batch, columns, has_zeros)):
        pipeline, smem_bytes = pipeline_and_bytes
        src = kernel_source(
            'streamed',
            dtype,
            (*constants.items(), *((name.upper(), value) for name, value in pipeline._asdict().items())),
        )
        grid, block = (min(gpu.sms, cdiv(rows, 16)),), (32 * pipeline.warps,)
        return [KernelLaunch(src, 'multiply_streamed', arrays, (batch, rows, columns), grid, block, smem_bytes)]
    tiling = choose_tiling(kind, batch, cdiv(columns, STEP), rows, gpu.sms)
    constants |= dict(
        TILES=tiling.tiles,
        ROW_WARPS=tiling.row_warps,
        K_WARPS=tiling.k_warps,
        IN_FLIGHT=tiling.steps_in_flight,
        BLOCKS=tiling.blocks_per_sm,
    )
    src = kernel_source('matvec', dtype, (*constants.items(), ('BATCH_TILES', _batch_tiles(batch))))
    blocks, block = cdiv(rows, 16 * tiling.tiles * tiling.row_warps), (32 * tiling.row_warps * tiling.k_warps,)
    grid = (min(gpu.sms * tiling.blocks_per_sm, blocks) if tiling.is_persistent else blocks,)
    smem_bytes = 4 * tiling.k_warps * 8 * _batch_tiles(batch) * (
        16 * tiling.tiles * tiling.row_warps + 1
    ) + _CODEBOOK_TABLE_BYTES * (kind == 'nf4')
    return [KernelLaunch(src, 'multiply_packed', arrays, (batch, rows, columns), grid, block, smem_bytes)]


def _batch_tiles(batch):
    "Return the number of tiles of eight rows of x, rounded up to a key of `_TILINGS`: then few kernels are compiled"
    return next(tiles for tiles in _TILINGS if batch <= 8 * tiles)
