"""Choose the launches of a decode step with a latent KV cache: source, constants and grid."""

import math
from functools import lru_cache
from typing import NamedTuple

from .sources import HEAD_DIM_K, PAGE_SIZE, HEAD_DIM_V, ampere_source, hopper_source, merge_source
from ..ladder.rung import KernelLaunch
from ...utils import cdiv


class DecodeProblem(NamedTuple):
    "The sizes of one decode step"

    dtype: str  # 'bfloat16' or 'float16'
    batch: int
    rows: int  # rows of q per sequence: heads * new tokens
    heads: int
    pages: int  # of the cache
    table_columns: int  # the largest number of pages of a sequence


SCALE = 192**-0.5  # default scale of the scores: the head dimension before absorption is 128 + 64 (RoPE)
_BLOCK_ROWS, _KEYS_PER_STEP = 32, 32  # `mma.sync`: rows of q per block, keys per step
_STAGES = 2  # pages in shared memory, on a Hopper GPU
# The fastest values on an H100:
_MIN_PAGES, _MIN_SPLITS = 4, 32  # more than _MIN_SPLITS splits only if each has at least _MIN_PAGES pages
_MAX_UNSPLIT_PAGES = 256  # per sequence: not splitting is faster for 8,192 keys, and slower for 32,768 keys
_MAX_UNSHARED_PAGES = 1024  # of all sequences: up to this number, separate copies are 1 to 8% faster than multicast
_ARRAYS = 'q', 'cache', 'table', 'lens', 'out', 'lse', 'partial_out', 'partial_lse'


def _problem_scalars(problem, num_splits):
    "Return the scalar arguments that all kernels take"
    return *problem[1:], num_splits


def choose_splits(
    problem,  # a `DecodeProblem`
    requested_splits,  # 0: choose
    block_rows,  # rows of q per block
    resident_blocks,  # blocks that the GPU can run at the same time
) -> int:
    """Choose the number of splits for split-K: the pages of all sequences are divided evenly among the splits.

    The aim is one split per resident block and tile of rows, with at least `_MIN_PAGES` pages each unless there are few
    splits. If splits of whole sequences can fill 95% of the GPU, no sequence is divided, so that sequences of equal
    length need no merge. Long sequences are always divided, because a merge costs less than idle SMs."""
    max_splits = max(1, resident_blocks // cdiv(problem.rows, block_rows))
    pages = max(1, problem.batch * problem.table_columns)
    undivided_splits = problem.batch / cdiv(problem.batch, max_splits)  # if each has the same number of sequences
    fills_gpu = undivided_splits.is_integer() and undivided_splits >= 0.95 * max_splits
    if not requested_splits and fills_gpu and pages <= _MAX_UNSPLIT_PAGES * undivided_splits:
        return int(undivided_splits)
    return requested_splits or min(max_splits, pages, max(_MIN_SPLITS, cdiv(pages, _MIN_PAGES)))


def _scale_log2(scale):
    "Return scale * log2(e): the kernels compute exp2(score * scale_log2), which is faster than exp"
    return scale / math.log(2)


@lru_cache(1024)
def decode_ampere(
    problem,
    scale,  # of scores
    requested_splits,  # 0: choose
    gpu,  # a `Device`
) -> tuple:  # `KernelLaunch`, number of splits
    "Return the launch of the decode kernel that uses `mma.sync`, with two blocks per SM"
    num_splits = choose_splits(problem, requested_splits, _BLOCK_ROWS, 2 * gpu.sms)
    src = ampere_source(problem.dtype, (('BM', _BLOCK_ROWS), ('BN', _KEYS_PER_STEP)))
    smem_bytes = 2 * HEAD_DIM_K * (_BLOCK_ROWS + _KEYS_PER_STEP) + _BLOCK_ROWS * (
        4 * (_KEYS_PER_STEP + 4) + 2 * (_KEYS_PER_STEP + 8) + 4
    )
    scalars = _scale_log2(scale), *_problem_scalars(problem, num_splits)
    return KernelLaunch(
        src, 'decode', _ARRAYS, scalars, (cdiv(problem.rows, _BLOCK_ROWS), num_splits), (128,), smem_bytes
    ), num_splits


@lru_cache(1024)
def decode_hopper(problem, scale, requested_splits, gpu) -> tuple:  # `KernelLaunch`, boxes of q and cache, splits
    """Return the launch of the decode kernel on a Hopper GPU, with one block per SM.

    The two blocks of a cluster attend to the same pages and share the loads by multicast. With few pages each block
    loads its own copy, because the synchronization of the cluster would take longer."""
    row_tiles, num_splits = cdiv(problem.rows, 64), choose_splits(problem, requested_splits, 64, gpu.sms)
    cluster_size = 1 if row_tiles % 2 or problem.batch * problem.table_columns <= _MAX_UNSHARED_PAGES else 2
    src = hopper_source(problem.dtype, (('STAGES', _STAGES), ('CLUSTER', cluster_size)))
    smem_bytes = (1 + _STAGES) * (2 * HEAD_DIM_K * PAGE_SIZE + 4 * 64) + 8 * (4 + 7 * _STAGES)
    scalars = _scale_log2(scale), *_problem_scalars(problem, num_splits)
    kernel_launch = KernelLaunch(
        src, 'decode', _ARRAYS, scalars, (row_tiles, num_splits), (512,), smem_bytes, cluster=(cluster_size, 1, 1)
    )
    return kernel_launch, ((64, 64), (PAGE_SIZE // cluster_size, 64)), num_splits


def merge_launch(problem, num_splits, gpu) -> KernelLaunch:
    "Return the launch that merges the partial results of the splits"
    arrays = 'out', 'lse', 'partial_out', 'partial_lse', 'lens'
    row_warps = 4 if problem.batch * problem.rows // 8 <= gpu.sms else 1
    src = merge_source(problem.dtype, gpu.is_hopper, row_warps)
    grid = problem.batch, problem.rows // 8, row_warps
    scalars = _problem_scalars(problem, num_splits)
    return KernelLaunch(src, 'merge_splits', arrays, scalars, grid, (256,), pdl=gpu.is_hopper)


def workspace_sizes(problem, num_splits) -> dict:  # name -> number of float32 elements
    "Return the sizes of the workspaces: each split has a slot for its first and one for its last sequence"
    return dict(partial_out=2 * num_splits * problem.rows * HEAD_DIM_V, partial_lse=2 * num_splits * problem.rows)
