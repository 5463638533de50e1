"""Define `softmax` and `log_softmax` along the last axis as torch operators.

Each row is read once if it fits in the registers or the shared memory of a block or a cluster; a longer row is read
twice. A **pack** is the `vec` elements that a thread loads at once.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable

from .sources import SIZES, accumulator_type, kernel_source
from ..operators import operator
from ..ladder.launches import Long
from ..ladder.rung import KernelLaunch, this_device
from ..tool import check_tensor, launch, type_of, vector_of
from ...utils import cdiv

# Forward, rows in the registers of one block: longest row in bytes -> bytes of the row per thread
_THREAD_BYTES_BY_ROW_BYTES = {2**14: 64, 2**15: 32, 2**16: 64}
# Forward, rows in the registers of a cluster: bytes per element -> (bytes of the longest row that one block computes
# alone, bytes per block of the cluster, threads per block)
_CLUSTER_ROWS = {2: (2**15, 2**14, 256), 4: (2**16, 2**16, 512)}
_MAX_CLUSTER_PACKS = 8  # packs per thread in a cluster
# Rows in shared memory: rows too long for registers, and all rows of the backward pass
_THREAD_BYTES = 64, 128, 256  # bytes per thread for rows up to 32 KiB, up to 64 KiB, and longer
_BLOCK_BYTES = 2**16  # bytes of a row per block
_MAX_BLOCK_BYTES, _MAX_BLOCK_BYTES_BEFORE_HOPPER = 200 * 1024, 2**15  # of shared memory
_MAX_BLOCKS = 8  # per cluster
_MIN_THREADS, _MAX_THREADS = 128, 512  # per block
_SPLIT_BYTES, _MAX_SPLITS = 2**15, 1024  # rows that are read twice: bytes per block, blocks per row
_STREAMING_STORE_BYTES = 2**25  # larger results are stored with a streaming hint, because they do not fit in the caches


class RowLayout(NamedTuple):
    "How rows are distributed over threads and blocks, and where they are stored"

    packs: int  # per thread
    group: int  # threads of a block that share a row
    threads: int  # per block
    blocks: int  # of a cluster that shares a row; 1: no cluster
    in_registers: bool = False  # else in shared memory


def _next_pow2(n):
    return 1 << max(0, n - 1).bit_length()


def _block_layout(
    packs,  # of a row
    size,  # bytes of a pack
) -> RowLayout:  # None if the row is too long
    "Return the `RowLayout` of rows in the registers of a block"
    row = _next_pow2(packs) * size
    thread_bytes = next((o for most, o in _THREAD_BYTES_BY_ROW_BYTES.items() if row <= most), None)
    if thread_bytes is None:
        return None
    group = max(row // thread_bytes, 1)
    return RowLayout(row // size // group, group, group if group > 32 else _MIN_THREADS, 1, True)


def _cluster_layout(
    packs,  # of a row
    size,  # bytes of a pack
    dtype,
) -> RowLayout:  # None if the row is too long, too short, or not evenly divisible among the threads
    "Return the `RowLayout` of rows in the registers of a cluster"
    if SIZES[dtype] not in _CLUSTER_ROWS:
        return None
    max_block_row, block_bytes, threads = _CLUSTER_ROWS[SIZES[dtype]]
    blocks = min(_MAX_BLOCKS, _next_pow2(cdiv(packs * size, block_bytes)))
    thread_packs, remainder = divmod(packs, blocks * threads)
    if packs * size <= max_block_row or remainder or thread_packs > _MAX_CLUSTER_PACKS:
        return None
    return RowLayout(thread_packs, threads, threads, blocks, True)


def _registers(elements, dtype, blocks):
    "Estimate the registers of a thread that holds `elements` elements"
    if dtype == 'float64':
        return 64
    return 32 if elements <= 16 else 80 if elements > 32 else 56 if blocks == 1 else 48


def shape_of(
    packs,  # of a row
    size,  # bytes of a pack; with two inputs, of one pack from each together
    gpu,  # a `Device`
    dtype=None,  # None: not in registers
) -> RowLayout:  # None if a row fits nowhere
    "Choose the `RowLayout` of rows: in registers if possible, else in shared memory"
    if dtype and gpu.hopper and (shape := _cluster_layout(packs, size, dtype)):
        return shape
    if dtype and (shape := _block_layout(packs, size)):
        return shape
    row = packs * size
    blocks = min(_MAX_BLOCKS, _next_pow2(cdiv(row, _BLOCK_BYTES))) if gpu.hopper else 1
    if row > blocks * (_MAX_BLOCK_BYTES if gpu.hopper else _MAX_BLOCK_BYTES_BEFORE_HOPPER):
        return None
    block_packs = cdiv(packs, blocks)
    group = _next_pow2(cdiv(block_packs * size, _THREAD_BYTES[(row > _BLOCK_BYTES // 2) + (row > _BLOCK_BYTES)]))
    group = min(group, _next_pow2(block_packs), _MAX_THREADS)
    threads = max(group, _MIN_THREADS)
    group = threads if group > 32 or blocks > 1 else group
    return RowLayout(cdiv(block_packs, group), group, threads, blocks)


def _source(kernel, method, dtype, vec, threads, blocks, **constants):
    "Return the source of a kernel ('softmax' or 'softmax_backward'); `method` is the file that reads the rows"
    cluster = 'join_by_mbarrier' if method == 'softmax_registers' else 'join_in_cluster'
    names = 'pack', 'softmax_part', cluster if blocks > 1 else 'join_in_block', kernel, method
    constants = dict(V=vec, THREADS=threads, **constants)
    needs = ['address', 'copy_async', 'copies_wait_all'] if method == 'softmax_shared' else []
    if blocks > 1:
        constants['CLUSTER'] = blocks
        needs += ['rank', 'cluster_arrive_relaxed', 'cluster_wait']
        mbarrier = ['address', 'barrier_init', 'barriers_ready', 'barrier_expect', 'barrier_wait', 'store_async']
        needs += mbarrier if method == 'softmax_registers' else ['cluster_sync', 'into_block']
    return kernel_source(names, dtype, tuple(constants.items()), tuple(needs))


@lru_cache(1024)
def softmax_calls(
    kernel,  # 'softmax', or 'softmax_backward': its gradient
    dtype,
    rows,
    width,  # a multiple of `vec`
    vec,
    log,  # compute log softmax
    gpu,
) -> tuple:  # ([`KernelLaunch`], elements of the workspace between the two launches)
    "Return the launches for rows of `width` elements on the `Device` `gpu`, with `vec` elements per load"
    size, arrays = vec * SIZES[dtype] * (1 + (kernel == 'softmax_backward')), ('x', 'dy', 'out')
    kind = dict(LOG=log, STREAM=rows * width * SIZES[dtype] > _STREAMING_STORE_BYTES)
    if shape := shape_of(width // vec, size, gpu, dtype if kernel == 'softmax' else None):
        packs, group, threads, blocks, in_registers = shape
        scalars, shared, kind['GROUP'] = (Long(rows), width), 0, group
        if in_registers:
            kind |= dict(HELD=packs, BLOCKS=2**16 // (threads * _registers(packs * vec, dtype, blocks)), STREAM=False)
        else:
            kind['ASYNC'], scalars, shared = gpu.hopper, (*scalars, packs), threads * packs * size
        src = _source(
            kernel, 'softmax_registers' if in_registers else 'softmax_shared', dtype, vec, threads, blocks, **kind
        )
        grid = (blocks * cdiv(rows, threads // group),)
        return [KernelLaunch(src, 'keep_rows', arrays, scalars, grid, (threads,), shared, cluster=(blocks, 1, 1))], 0
    parts = min(_MAX_SPLITS, cdiv(width // vec * size, _SPLIT_BYTES))
    src = _source(kernel, 'softmax_split', dtype, vec, _MAX_THREADS, 1, **kind)
    scalars, grid = (Long(width), Long(cdiv(width // vec, parts)), parts), (rows * parts,)
    find = KernelLaunch(src, 'find_parts', ('x', 'dy', 'parts'), scalars, grid, (_MAX_THREADS,))
    return [
        find,
        KernelLaunch(src, 'finish_rows', ('x', 'dy', 'parts', 'out'), scalars, grid, (_MAX_THREADS,)),
    ], 2 * rows * parts


def _run(kernel, x, dy, log):
    out, dtype = torch.empty_like(x), type_of(x)
    if not x.numel():
        return out
    width = x.shape[-1]
    vec = min(vector_of(o, 2, width) for o in (x, dy, out))
    launches, workspace = softmax_calls(kernel, dtype, x.numel() // width, width, vec, log, this_device())
    workspace = torch.empty(workspace, dtype=getattr(torch, accumulator_type(dtype)), device=x.device)
    launch(launches, x, dy=dy, parts=workspace, out=out)
    return out


@operator('softmax(Tensor x, bool log) -> Tensor', lambda x, log: torch.empty_like(x))
def _softmax(x, log):
    tool = 'log_softmax' if log else 'softmax'
    check_tensor(tool, x, SIZES)
    if not x.dim():
        raise ValueError(f'{tool}: x is a scalar; it must have at least one axis')
    if x.shape[-1] >= 2**31:
        raise ValueError(f'{tool}: a row has {x.shape[-1]:,} elements; the kernel supports at most 2^31 - 1')
    return _run('softmax', x, x, log)


@operator('softmax_backward(Tensor y, Tensor dy, bool log) -> Tensor', lambda y, dy, log: torch.empty_like(y))
def _softmax_backward(y, dy, log):
    return _run('softmax_backward', y, dy.contiguous(), log)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, log):
        y, ctx.log = _softmax(x, log), log
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        return _softmax_backward(*ctx.saved_tensors, dy, ctx.log), None


def softmax(
    x,  # a contiguous tensor of float32, float16, bfloat16 or float64
):  # a tensor like `x`
    """Compute exp(x - max(x)) / sum(exp(x - max(x))) along the last axis, as `x.softmax(-1)` does; differentiable once.
    16-bit inputs are computed in float32.

        softmax(scores)

    Raises TypeError or ValueError for an unsupported `x`."""
    return _Softmax.apply(x, False)


def log_softmax(
    x,  # as for `softmax`
):  # a tensor like `x`
    """Compute x - logsumexp(x) along the last axis, as `x.log_softmax(-1)` does: accurate even if softmax(x) underflows
    to 0.

        log_softmax(scores)

    Raises TypeError or ValueError for an unsupported `x`."""
    return _Softmax.apply(x, True)
