"""Choose the launches of attention for a problem: source, constants, grid, and the boxes of TMA loads."""

import math
from functools import lru_cache
from typing import NamedTuple

from .schedule import choose_order
from .sources import ampere_source, pre_post_source, hopper_source
from ..ladder.launches import Int64
from ..ladder.rung import KernelLaunch
from ...utils import cdiv

DIMS = 64, 128, 256  # head dimensions
# Blocks process the heads in sections, one after the other. A section has at most this many bytes of keys and values,
# so that all reads of a key but the first hit the L2 cache.
_SECTION_BYTES = 2**25


class AttentionProblem(NamedTuple):
    "The sizes and options of one attention problem"

    batch: int
    heads: int  # of q
    group: int  # heads of q that share a head of k and v (GQA)
    rows: int  # of q, per head
    keys: int  # per head
    dim: int  # head dimension
    causal: bool
    window: int  # 0: no window
    has_lens: bool  # each sequence has its own lengths: of its rows, and of its keys
    bias: str = ''  # C expression that is added to a scaled score


class OutputRows(NamedTuple):
    "The rows of the output that a launch writes, and how it writes them"

    first_row: int  # index of the first row that the launch writes
    num_rows: int  # of the output
    merges: bool = False  # merge with the results of other keys, which the output already has
    float32_out: bool = False  # the output is float32


class Tile(NamedTuple):
    "The tile of the forward kernel for a Hopper GPU"

    warpgroups: int  # consumer warpgroups, each with 64 rows of q
    keys: int  # per step
    stages: int  # of the pipeline of keys, and of the pipeline of values
    q_buffers: int  # buffers for rows of q; 2: the rows of the next tile are prefetched


# head dimension -> the fastest tile that fits into registers and shared memory. For head dimension 128 on an H100, two
# warpgroups with 128 keys per step take 8% longer, three with 64 keys 6%; a third stage gains nothing.
_HOPPER_TILES = {64: Tile(3, 128, 2, 2), 128: Tile(3, 80, 2, 2), 256: Tile(2, 80, 2, 1)}
_OUT_TYPES = {False: '__nv_bfloat16', True: 'float'}  # `float32_out` -> C type of the output
# `mma.sync`: head dimension -> (rows per block, keys per step, blocks per SM)
_AMPERE_TILES = {64: (128, 96, 2), 128: (128, 64, 2)}


def _heads_per_section(problem, other_keys=0):
    "Return the number of heads per section; `other_keys`: keys per head of a second array"
    kv_heads = max(1, _SECTION_BYTES // (4 * (problem.keys + other_keys) * problem.dim))
    return min(problem.batch * problem.heads, kv_heads * problem.group)


def _problem_scalars(problem):
    "Return the scalar arguments that all kernels take"
    return (
        problem.batch,
        problem.heads,
        problem.group,
        problem.rows,
        problem.keys,
        problem.window,
        _heads_per_section(problem),
    )


def _constants(problem):
    "Return the constants that all sources need"
    return dict(
        HD=problem.dim,
        CAUSAL=problem.causal,
        TWO_KEY_ARRAYS=False,
        WINDOW=problem.window > 0,
        LENS=problem.has_lens,
        BIASED=problem.bias != '',
    )


def scale_log2(scale) -> float:
    "Return scale * log2(e): the kernels compute exp2(score * scale_log2), which is faster than exp"
    return scale / math.log(2)


def _forward_source_and_sizes(problem, kernel, gpu, variant_constants, out_type):
    "Return the source of a forward kernel; its (grid, block, shared memory); the TMA boxes of q and of keys"
    tile = _HOPPER_TILES[problem.dim]
    block_rows = 64 * tile.warpgroups
    constants = _constants(problem) | dict(
        BM=block_rows,
        BN=tile.keys,
        WGS=tile.warpgroups,
        STAGES=tile.stages,
        Q_BUFFERS=tile.q_buffers,
        **variant_constants,
    )
    file_names = 'hopper', 'tiles', 'fragments', 'stores', 'rows', 'forward_hopper', kernel
    src = hopper_source(file_names, (tile.keys,), (problem.dim,), tuple(constants.items()), problem.bias, out_type)
    grid = (min(gpu.sms, problem.batch * problem.heads * cdiv(problem.rows, block_rows)),)
    smem_bytes = (
        2 * problem.dim * (tile.q_buffers * block_rows + 2 * tile.stages * tile.keys)
        + 16 * tile.q_buffers
        + 32 * tile.stages
    )
    return src, (grid, (128 * (tile.warpgroups + 1),), smem_bytes), ((1, 1, 64, 64), (1, 1, tile.keys, 64))


@lru_cache(1024)
def forward_hopper(
    problem,  # an `AttentionProblem`
    scale,
    out_strides,  # of batch, heads and rows, in elements
    gpu,  # a `Device`
    output_rows=None,  # an `OutputRows`; None: the output has the rows of q
) -> tuple:  # a `KernelLaunch`, and the boxes of q, k and v
    "Return the launch of the forward pass on a Hopper GPU"
    output_rows = output_rows or OutputRows(0, problem.rows)
    src, grid_block_smem, (row_box, key_box) = _forward_source_and_sizes(
        problem, 'forward_one', gpu, dict(MERGE_OUT=output_rows.merges), _OUT_TYPES[output_rows.float32_out]
    )
    arrays = 'q', 'k', 'v', 'out', 'lse', 'lens', 'tile_counter'
    scalars = (
        scale_log2(scale),
        *_problem_scalars(problem),
        *map(Int64, out_strides),
        output_rows.first_row,
        output_rows.num_rows,
    )
    return KernelLaunch(src, 'attention_forward', arrays, scalars, *grid_block_smem), (row_box, key_box, key_box)


@lru_cache(1024)
def forward_pair(
    problem,  # an `AttentionProblem`
    scale,
    gpu,  # a `Device`
    first_row,  # index of the first row that also attends to the second array
    other_keys,  # keys per head of the second array
    float32_out,  # the output is float32
    num_parts,  # number of groups of heads in which the second array arrives, one after the other
) -> tuple:  # a `KernelLaunch`, and the boxes of q, k, v, other_k and other_v
    "Return the launch of attention to two arrays of keys on a Hopper GPU; the second array may still be in flight"
    src, grid_block_smem, (row_box, key_box) = _forward_source_and_sizes(
        problem, 'forward_pair', gpu, dict(MERGE_OUT=False, TWO_KEY_ARRAYS=True), _OUT_TYPES[float32_out]
    )
    arrays = 'q', 'k', 'v', 'other_k', 'other_v', 'out', 'lse', 'arrived', 'expected', 'order', 'tile_counter'
    heads_per_section = 1  # `order` already orders the heads
    scalars = scale_log2(scale), *_problem_scalars(problem)[:-1], heads_per_section, first_row, other_keys, num_parts
    kernel_launch = KernelLaunch(src, 'attention_forward_pair', arrays, scalars, *grid_block_smem)
    return kernel_launch, (row_box, key_box, key_box, key_box, key_box)


def pair_order(
    problem,  # all parameters are those of `forward_pair`
    gpu,
    first_row,
    other_keys,
    num_parts,
) -> list:  # of tile indices, in which the row tiles of a head count from the last one
    "Return the order in which persistent blocks take the tiles of `forward_pair`"
    tile = _HOPPER_TILES[problem.dim]
    block_rows = 64 * tile.warpgroups
    row_tiles = cdiv(problem.rows, block_rows)
    row_ends = [min(problem.rows, block_rows * (i + 1)) for i in range(row_tiles)]
    own_steps = [cdiv(min(problem.keys, end) if problem.causal else problem.keys, tile.keys) for end in row_ends]
    other_steps = [cdiv(other_keys, tile.keys) if end > first_row else 0 for end in row_ends]
    heads = problem.batch * problem.heads
    order = choose_order(
        heads,
        own_steps,
        other_steps,
        min(gpu.sms, heads * row_tiles),
        problem.group,
        _heads_per_section(problem, other_keys),
        num_parts,
    )
    return [head * row_tiles + row_tiles - 1 - row for head, row in order]


@lru_cache(1024)
def forward_ampere(
    problem,
    scale,
    strides,  # of q, k, v and out, each of batch, heads and rows
) -> KernelLaunch:
    "Return the launch of the forward pass that uses `mma.sync`"
    block_rows, keys_per_step, blocks_per_sm = _AMPERE_TILES[problem.dim]
    constants = dict(_constants(problem), BM=block_rows, BN=keys_per_step, BLOCKS=blocks_per_sm, MERGE_OUT=False)
    src = ampere_source(
        ('tiles', 'fragments', 'stores', 'rows', 'forward_ampere'), tuple(constants.items()), problem.bias
    )
    arrays = 'q', 'k', 'v', 'out', 'lse', 'lens'
    scalars = (
        scale_log2(scale),
        *_problem_scalars(problem),
        *(Int64(stride) for array_strides in strides for stride in array_strides),
    )
    grid = problem.batch * problem.heads * cdiv(problem.rows, block_rows)
    smem_bytes = 2 * problem.dim * (block_rows + 4 * keys_per_step)
    return KernelLaunch(src, 'attention_forward', arrays, scalars, (grid,), (block_rows,), smem_bytes)


_BACKWARD_ROWS, _BACKWARD_KEYS = 64, 128  # rows per step, keys per block
_BACKWARD_STAGES = 2  # of the pipeline of rows


def pad_rows(rows) -> int:
    "Round a number of rows up to a multiple of the tile size of the backward pass"
    return cdiv(rows, _BACKWARD_ROWS) * _BACKWARD_ROWS


def count_dq_semaphores(
    heads,  # of the whole batch
    rows,
) -> int:
    "Count the semaphores that order the additions to dq: one per tile of rows and half of the columns"
    return heads * cdiv(rows, _BACKWARD_ROWS) * 2


class Strides(NamedTuple):
    "The strides of arrays of the backward pass: of batch, heads and rows, in elements"

    out: tuple
    dout: tuple
    dq: tuple
    dk: tuple
    dv: tuple


@lru_cache(1024)
def pre_and_postprocess_launches(
    problem,  # an `AttentionProblem`; its keys are not used
    scale,
    strides,  # of out, dout and dq, each of batch, heads and rows
    deterministic=False,  # add to dq in a fixed order
) -> tuple:  # two `KernelLaunch`s
    "Return the first and the last launch: one computes delta per row and zeros dq, the other converts dq to bfloat16"
    src, padded_rows, heads = (
        pre_post_source(problem.dim, deterministic),
        pad_rows(problem.rows),
        problem.batch * problem.heads,
    )
    out, dout, dq = (tuple(map(Int64, stride)) for stride in strides)
    scalars = problem.heads, problem.rows, padded_rows, *out, *dout
    arrays = 'out', 'dout', 'lse', 'lse_log2', 'delta', 'dq_sums', 'semaphores'
    prepare_launch = KernelLaunch(src, 'prepare_backward', arrays, scalars, (padded_rows // 8, heads), (256,))
    scalars = scale, problem.heads, problem.rows, padded_rows // _BACKWARD_ROWS, *dq
    finish_launch = KernelLaunch(
        src, 'finish_dq', ('dq_sums', 'dq'), scalars, (padded_rows // _BACKWARD_ROWS, heads, 2), (128,)
    )
    return prepare_launch, finish_launch


def can_backward_begin_at(first_row) -> bool:  # index of a row that `pre_and_postprocess_launches` prepared
    "Return whether `backward_main_launch` may begin at row `first_row`"
    return first_row % _BACKWARD_ROWS == 0


@lru_cache(1024)
def backward_main_launch(
    problem,  # an `AttentionProblem` with head dimension 64 or 128
    scale,
    strides,  # of dk and dv, each of batch, heads and rows
    deterministic=False,
    output_rows=None,  # an `OutputRows`: the rows of dq to add to; None: all rows
) -> tuple:  # a `KernelLaunch`, and the boxes of q, k, v and dout
    "Return the launch that computes dk and dv, and adds to dq"
    output_rows = output_rows or OutputRows(0, problem.rows)
    constants = dict(
        _constants(problem), BM=_BACKWARD_ROWS, BN=_BACKWARD_KEYS, STAGES=_BACKWARD_STAGES, DETERMINISTIC=deterministic
    )
    smem_columns = tuple(sorted({_BACKWARD_ROWS, problem.dim // 2}))
    file_names = 'hopper', 'tiles', 'fragments', 'stores', 'backward_hopper'
    src = hopper_source(file_names, smem_columns, (problem.dim,), tuple(constants.items()), problem.bias)
    dk, dv = (tuple(map(Int64, stride)) for stride in strides)
    arrays = 'q', 'k', 'v', 'dout', 'lse_log2', 'delta', 'dq_sums', 'semaphores', 'dk', 'dv', 'lens'
    scalars = (
        scale_log2(scale),
        scale,
        *_problem_scalars(problem),
        output_rows.first_row,
        pad_rows(output_rows.num_rows),
        *dk,
        *dv,
    )
    smem_bytes = (
        4 * problem.dim * (_BACKWARD_KEYS + _BACKWARD_STAGES * _BACKWARD_ROWS) + 4 * _BACKWARD_KEYS * _BACKWARD_ROWS
    )
    smem_bytes += _BACKWARD_STAGES * (8 * _BACKWARD_ROWS + 24) + 8
    grid = (cdiv(problem.keys, _BACKWARD_KEYS) * problem.batch * problem.heads // problem.group,)
    row_box, key_box = (1, 1, _BACKWARD_ROWS, 64), (1, 1, _BACKWARD_KEYS, 64)
    kernel_launch = KernelLaunch(src, 'attention_backward', arrays, scalars, grid, (384,), smem_bytes)
    return kernel_launch, (row_box, key_box, key_box, row_box)


def backward_hopper(
    problem,  # all parameters but `strides` are those of `backward_main_launch`
    scale,
    strides,  # `Strides`
    deterministic=False,
) -> tuple:  # first launch, (main launch, its TMA boxes), last launch
    "Return the launches of the backward pass on a Hopper GPU"
    prepare_launch, finish_launch = pre_and_postprocess_launches(problem, scale, strides[:3], deterministic)
    return prepare_launch, backward_main_launch(problem, scale, strides[3:], deterministic), finish_launch
