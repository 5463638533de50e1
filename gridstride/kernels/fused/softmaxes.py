"""The torch operators `softmax` and `log_softmax` along the last axis, and their backward passes.

Each row is read once if it fits into the registers or the shared memory of a block or a cluster; a longer row is read
twice. A **vector** is the `vec_size` elements that a thread loads in one instruction.
"""

from functools import lru_cache
from typing import NamedTuple

import torch

from .sources import DTYPE_BYTES, accumulator_type, kernel_source
from ..autocast import autocast_operands, is_autocast_enabled
from ..operators import operator
from ..ladder.launches import Int64
from ..ladder.rung import KernelLaunch, current_device_properties
from ..launch_replay import (
    ARGUMENTS,
    differentiable_once,
    differentiate_eagerly,
    make_apply,
    needs_autograd,
    replay_entry_point,
    torch_call,
)
from ..common import MAX_LOAD_BYTES, check_tensor, dtype_name, is_host_bound, launch, tensor_vector_width, to_contiguous
from ...utils import cdiv

# The forward pass with rows in the registers of one block: largest row in bytes -> bytes of the row per thread
_REGISTER_BYTES_PER_THREAD = {2**14: 64, 2**15: 32, 2**16: 64}
# The forward pass with rows in the registers of a cluster: bytes per element -> (row size in bytes,
# bytes of a row per block of the cluster, threads per block). Rows up to this size stay in one block; longer ones are
# split over a cluster if they divide evenly.
_CLUSTER_CONFIGS = {2: (2**15, 2**14, 256), 4: (2**16, 2**16, 512)}
_MAX_CLUSTER_VECTORS_PER_THREAD = 8
# Rows kept in shared memory: those too long for registers, and all rows of the backward pass
_SMEM_BYTES_PER_THREAD = 64, 128, 256  # for rows up to 32 KiB, up to 64 KiB, and longer
_ROW_BYTES_PER_BLOCK = 2**16
_MAX_SMEM_BYTES, _MAX_SMEM_BYTES_BEFORE_HOPPER = 200 * 1024, 2**15  # per block
_MAX_CLUSTER_SIZE = 8  # blocks per cluster
_MIN_THREADS, _MAX_THREADS = 128, 512  # per block
_SPLIT_BYTES, _MAX_SPLITS = 2**15, 1024  # rows that are read twice: bytes of a row per block, blocks per row
_MIN_STREAMING_STORE_BYTES = 2**25  # larger results use streaming stores, except those of the register kernels
_REGISTERS_PER_SM = 2**16


class RowLayout(NamedTuple):
    "How a row is distributed over threads and blocks, and whether it is kept in registers or in shared memory"

    vectors_per_thread: int
    threads_per_row: int  # threads of a block that share a row
    threads: int  # per block
    cluster_size: int  # blocks that share a row
    uses_registers: bool = False  # else in shared memory


def _next_pow2(count):
    "Return the smallest power of two that is at least `count`"
    return 1 << max(0, count - 1).bit_length()


_MAX_FEW_ROWS_VECTORS = 8  # vectors of a row that a thread loads, if there are too few rows for all threads


def _spread_few_rows(layout, rows, gpu) -> RowLayout:
    "Assign more threads of a warp to each row, as long as the GPU can run all threads at once"
    vectors, threads_per_row = layout.vectors_per_thread, layout.threads_per_row
    while vectors > _MAX_FEW_ROWS_VECTORS and threads_per_row < 32 and rows * threads_per_row < gpu.sms * 1024:
        vectors, threads_per_row = vectors // 2, threads_per_row * 2
    return layout._replace(vectors_per_thread=vectors, threads_per_row=threads_per_row)


def _block_register_layout(row_vectors, vector_bytes) -> RowLayout:  # None if the row is too long
    "Return the `RowLayout` that keeps a row in the registers of one block"
    padded_row_bytes = _next_pow2(row_vectors) * vector_bytes
    thread_bytes = next(
        (
            bytes_per_thread
            for max_row_bytes, bytes_per_thread in _REGISTER_BYTES_PER_THREAD.items()
            if padded_row_bytes <= max_row_bytes
        ),
        None,
    )
    if thread_bytes is None:
        return None
    threads_per_row = max(padded_row_bytes // thread_bytes, 1)
    threads = threads_per_row if threads_per_row > 32 else _MIN_THREADS
    return RowLayout(padded_row_bytes // vector_bytes // threads_per_row, threads_per_row, threads, 1, True)


def _cluster_register_layout(row_vectors, vector_bytes, dtype) -> RowLayout:
    """Return the `RowLayout` that keeps a row in the registers of a cluster; None if there is no configuration for the
    dtype, or the row is too long, too short, or does not divide evenly among the threads"""
    if DTYPE_BYTES[dtype] not in _CLUSTER_CONFIGS:
        return None
    max_single_block_bytes, block_bytes, threads = _CLUSTER_CONFIGS[DTYPE_BYTES[dtype]]
    cluster_size = min(_MAX_CLUSTER_SIZE, _next_pow2(cdiv(row_vectors * vector_bytes, block_bytes)))
    vectors_per_thread, remainder = divmod(row_vectors, cluster_size * threads)
    fits_one_block = row_vectors * vector_bytes <= max_single_block_bytes
    if fits_one_block or remainder or vectors_per_thread > _MAX_CLUSTER_VECTORS_PER_THREAD:
        return None
    return RowLayout(vectors_per_thread, threads, threads, cluster_size, True)


def _registers_per_thread(elements, dtype, cluster_size):
    "Estimate the registers of a thread that keeps `elements` elements of a row"
    if dtype == 'float64':
        return 64
    return 32 if elements <= 16 else 80 if elements > 32 else 56 if cluster_size == 1 else 48


def _shared_memory_layout(row_vectors, vector_bytes, gpu, block_bytes) -> RowLayout:  # None if the row is too long
    """Return the `RowLayout` that keeps a row in the shared memory of a block or, on Hopper, of a cluster, each block
    of which has about `block_bytes` of the row"""
    row_bytes = row_vectors * vector_bytes
    cluster_size = min(_MAX_CLUSTER_SIZE, _next_pow2(cdiv(row_bytes, block_bytes))) if gpu.is_hopper else 1
    if row_bytes > cluster_size * (_MAX_SMEM_BYTES if gpu.is_hopper else _MAX_SMEM_BYTES_BEFORE_HOPPER):
        return None
    block_vectors = cdiv(row_vectors, cluster_size)
    length_class = (row_bytes > block_bytes // 2) + (row_bytes > block_bytes)  # 0: short, 2: long
    threads_per_row = _next_pow2(cdiv(block_vectors * vector_bytes, _SMEM_BYTES_PER_THREAD[length_class]))
    threads_per_row = min(threads_per_row, _next_pow2(block_vectors), _MAX_THREADS)
    threads = max(threads_per_row, _MIN_THREADS)
    threads_per_row = threads if threads_per_row > 32 or cluster_size > 1 else threads_per_row
    return RowLayout(cdiv(block_vectors, threads_per_row), threads_per_row, threads, cluster_size)


def choose_layout(
    row_vectors,
    vector_bytes,  # the sum over all inputs
    gpu,  # a `Device`
    dtype=None,  # None: do not keep rows in registers
    rows=None,  # None: enough to fill the GPU
) -> RowLayout:  # None if a row is too long even for shared memory
    "Choose the `RowLayout` of rows: in registers if possible, else in shared memory"
    if dtype and gpu.is_hopper and (layout := _cluster_register_layout(row_vectors, vector_bytes, dtype)):
        return layout
    if dtype and (layout := _block_register_layout(row_vectors, vector_bytes)):
        return _spread_few_rows(layout, rows, gpu) if rows else layout
    return _shared_memory_layout(row_vectors, vector_bytes, gpu, _ROW_BYTES_PER_BLOCK)


_MBARRIER_PRIMITIVES = (
    'address',
    'barrier_init',
    'fence_mbarrier_init',
    'barrier_expect',
    'barrier_wait',
    'store_async',
)


def _softmax_source(direction, kernel_file, dtype, vec_size, threads, cluster_size, **constants):
    """Return the source of a softmax kernel. `direction`: the file with the formulas ('softmax_forward' or
    'softmax_backward'); `kernel_file`: the file with the kernel ('softmax_registers', 'softmax_shared',
    'softmax_unaligned' or 'softmax_split')"""
    cluster_merge = 'merge_by_mbarrier' if kernel_file == 'softmax_registers' else 'merge_in_cluster'
    merge = cluster_merge if cluster_size > 1 else 'merge_in_block'
    is_shared = kernel_file in ('softmax_shared', 'softmax_unaligned')
    shared_files = ['softmax_smem_row'] if is_shared else []
    file_names = 'vector', 'online_softmax', merge, direction, *shared_files, kernel_file
    constants = dict(VEC=vec_size, THREADS=threads, **constants)
    primitive_names = ['address', 'copy_async', 'copies_wait_all'] if is_shared else []
    if cluster_size > 1:
        constants['CLUSTER'] = cluster_size
        primitive_names += ['rank', 'cluster_arrive_relaxed', 'cluster_wait']
        primitive_names += (
            _MBARRIER_PRIMITIVES if kernel_file == 'softmax_registers' else ['cluster_sync', 'store_to_block']
        )
    return kernel_source(file_names, dtype, tuple(constants.items()), tuple(primitive_names))


@lru_cache(1024)
def softmax_launches(
    kernel,  # 'softmax', or 'softmax_backward': its gradient
    dtype,
    rows,
    width,  # a multiple of `vec_size`
    vec_size,  # elements per load
    is_log,  # compute log softmax
    gpu,  # a `Device`
    has_equal_offsets=False,  # the arrays begin at the same offset from a multiple of 16 bytes
) -> tuple:  # ([`KernelLaunch`], the workspace size in elements)
    "Return the launches for rows of `width` elements: one launch if a row can be kept on chip, else two"
    is_backward = kernel == 'softmax_backward'
    direction, row_vectors = 'softmax_backward' if is_backward else 'softmax_forward', width // vec_size
    vector_bytes = vec_size * DTYPE_BYTES[dtype] * (2 if is_backward else 1)
    streaming_stores = rows * width * DTYPE_BYTES[dtype] > _MIN_STREAMING_STORE_BYTES
    if is_backward and width * DTYPE_BYTES[dtype] <= _MAX_GRADIENT_REGISTER_ROW_BYTES:
        return [_short_rows_backward_launch(dtype, rows, width, vec_size, is_log, streaming_stores)], 0
    if has_equal_offsets and vec_size * DTYPE_BYTES[dtype] < MAX_LOAD_BYTES:
        if unaligned_launch := _unaligned_launch(kernel, dtype, rows, width, is_log, streaming_stores, gpu):
            return [unaligned_launch], 0
    layout = choose_layout(row_vectors, vector_bytes, gpu, None if is_backward else dtype, rows)
    if not layout:
        constants = dict(LOG=is_log, STREAMING_STORES=streaming_stores)
        return _split_launches(direction, dtype, rows, width, vec_size, vector_bytes, **constants)
    vectors_per_thread, threads_per_row, threads, cluster_size, uses_registers = layout
    scalars, smem_bytes, constants = (Int64(rows), width), 0, dict(LOG=is_log, ROW_THREADS=threads_per_row)
    if uses_registers:
        registers = threads * _registers_per_thread(vectors_per_thread * vec_size, dtype, cluster_size)
        constants |= dict(VECS_PER_THREAD=vectors_per_thread, BLOCKS_PER_SM=_REGISTERS_PER_SM // registers)
        constants |= dict(STREAMING_STORES=False)
    else:
        constants |= dict(ASYNC=gpu.is_hopper, STREAMING_STORES=streaming_stores)
        scalars, smem_bytes = (*scalars, vectors_per_thread), threads * vectors_per_thread * vector_bytes
    kernel_file = 'softmax_registers' if uses_registers else 'softmax_shared'
    src = _softmax_source(direction, kernel_file, dtype, vec_size, threads, cluster_size, **constants)
    grid, cluster = (cluster_size * cdiv(rows, threads // threads_per_row),), (cluster_size, 1, 1)
    arrays = 'x', 'dy', 'out'
    return [KernelLaunch(src, 'softmax_on_chip', arrays, scalars, grid, (threads,), smem_bytes, cluster=cluster)], 0


# The gradient of rows of up to so many bytes is computed in registers: vectors of each input per thread at most
_MAX_GRADIENT_REGISTER_ROW_BYTES, _MAX_GRADIENT_VECTORS = 2**12, 16
_GRADIENT_THREAD_BYTES = 32  # of each input


def _short_rows_backward_launch(dtype, rows, width, vec_size, is_log, streaming_stores):
    "Return the launch of the backward pass for short rows, which are kept in registers"
    row_vectors, vector_bytes = width // vec_size, vec_size * DTYPE_BYTES[dtype]
    target = min(_MAX_GRADIENT_VECTORS, _GRADIENT_THREAD_BYTES // vector_bytes)
    threads_per_row = min(_MAX_THREADS, _next_pow2(cdiv(row_vectors, target)))
    threads = max(_MIN_THREADS, threads_per_row)
    threads_per_row = threads if threads_per_row > 32 else threads_per_row
    constants = dict(LOG=is_log, ROW_THREADS=threads_per_row, VECS_PER_THREAD=cdiv(row_vectors, threads_per_row))
    constants |= dict(STREAMING_STORES=streaming_stores)
    file_names = 'softmax_backward', 'softmax_backward_registers', dtype, vec_size, threads, 1
    src, grid = _softmax_source(*file_names, **constants), (cdiv(rows, threads // threads_per_row),)
    return KernelLaunch(src, 'softmax_on_chip', ('x', 'dy', 'out'), (Int64(rows), width), grid, (threads,))


# Rows of at least so many bytes whose first element is not aligned to a vector are loaded by aligned vectors
_MIN_UNALIGNED_ROW_BYTES = 2**15
_UNALIGNED_ROW_BYTES_PER_BLOCK = {False: 2**15, True: 2**16}  # forward, backward


def _unaligned_layout(dtype, width, is_backward, gpu) -> RowLayout:  # None if a row is too long
    "Return the `RowLayout` of rows that are not aligned to vectors, which are kept in shared memory"
    vec_size = MAX_LOAD_BYTES // DTYPE_BYTES[dtype]
    row_vectors, vector_bytes = cdiv(width + vec_size - 1, vec_size), MAX_LOAD_BYTES * (1 + is_backward)
    return _shared_memory_layout(row_vectors, vector_bytes, gpu, _UNALIGNED_ROW_BYTES_PER_BLOCK[is_backward])


def _unaligned_launch(kernel, dtype, rows, width, is_log, streaming_stores, gpu) -> KernelLaunch:
    """Return the launch for rows that are not aligned to vectors, each at the same offset in all arrays; None for short
    rows, and for rows that are too long for shared memory"""
    is_backward, element_bytes = kernel == 'softmax_backward', DTYPE_BYTES[dtype]
    layout = _unaligned_layout(dtype, width, is_backward, gpu)
    if width * element_bytes < _MIN_UNALIGNED_ROW_BYTES or not layout:
        return None
    vectors_per_thread, threads_per_row, threads, cluster_size, _ = layout
    constants = dict(LOG=is_log, ROW_THREADS=threads_per_row, ASYNC=gpu.is_hopper, STREAMING_STORES=streaming_stores)
    direction, vec_size = 'softmax_backward' if is_backward else 'softmax_forward', MAX_LOAD_BYTES // element_bytes
    src = _softmax_source(direction, 'softmax_unaligned', dtype, vec_size, threads, cluster_size, **constants)
    smem_bytes = threads * vectors_per_thread * MAX_LOAD_BYTES * (1 + is_backward)
    grid, scalars = (cluster_size * cdiv(rows, threads // threads_per_row),), (Int64(rows), width, vectors_per_thread)
    cluster = (cluster_size, 1, 1)
    return KernelLaunch(
        src, 'softmax_on_chip', ('x', 'dy', 'out'), scalars, grid, (threads,), smem_bytes, cluster=cluster
    )


def _split_launches(direction, dtype, rows, width, vec_size, vector_bytes, **constants):
    "Return the two launches that split each row among several blocks, and the workspace size in elements"
    row_vectors = width // vec_size
    splits = min(_MAX_SPLITS, cdiv(row_vectors * vector_bytes, _SPLIT_BYTES))
    src = _softmax_source(direction, 'softmax_split', dtype, vec_size, _MAX_THREADS, 1, **constants)
    scalars = Int64(width), Int64(cdiv(row_vectors, splits)), splits
    grid, block = (rows * splits,), (_MAX_THREADS,)
    launches = [
        KernelLaunch(src, 'reduce_splits', ('x', 'dy', 'states'), scalars, grid, block),
        KernelLaunch(src, 'normalize_rows', ('x', 'dy', 'states', 'out'), scalars, grid, block),
    ]
    return launches, 2 * rows * splits  # a row maximum and a row sum per block


def _run_softmax(kernel, x, dy, is_log):
    "Run softmax, or its backward pass, on valid operands"
    out, dtype = torch.empty_like(x), dtype_name(x)
    if not x.numel():
        return out
    width = x.shape[-1]
    vec_size = min(tensor_vector_width(operand, 2, width) for operand in (x, dy, out))
    has_equal_offsets = len({operand.data_ptr() % MAX_LOAD_BYTES for operand in (x, dy, out)}) == 1
    launches, workspace_elements = softmax_launches(
        kernel, dtype, x.numel() // width, width, vec_size, is_log, current_device_properties(), has_equal_offsets
    )
    states = torch.empty(workspace_elements, dtype=getattr(torch, accumulator_type(dtype)), device=x.device)
    launch(launches, x, dy=dy, states=states, out=out)
    return out


@operator('softmax(Tensor x, bool is_log) -> Tensor', lambda x, is_log: torch.empty_like(x))
def _softmax(x, is_log):
    op_name = 'log_softmax' if is_log else 'softmax'
    check_tensor(op_name, x, DTYPE_BYTES)
    if not x.dim():
        raise ValueError(f'{op_name}: x is a scalar; expected at least one axis')
    if x.shape[-1] >= 2**31:
        raise ValueError(f'{op_name}: a row has {x.shape[-1]:,} elements; expected at most 2^31 - 1')
    return _run_softmax('softmax', x, x, is_log)


@operator('softmax_backward(Tensor y, Tensor dy, bool is_log) -> Tensor', lambda y, dy, is_log: torch.empty_like(y))
def _softmax_backward(y, dy, is_log):
    return _run_softmax('softmax_backward', y, dy.contiguous(), is_log)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_log):
        y, ctx.is_log = _softmax(x, is_log), is_log
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @differentiable_once
    def backward(ctx, dy):
        return _softmax_backward(*ctx.saved_tensors, dy, ctx.is_log), None


_apply_softmax_function = make_apply(_Softmax)


# Up to this many bytes, torch is faster with gradients, except in CUDA graphs (see `common.is_host_bound`)
_MAX_HOST_BOUND_BYTES, _MAX_LOG_HOST_BOUND_BYTES = {2: 3 * 2**24, 4: 2**26, 8: 2**26}, 3 * 2**25


def _torch_function(x, is_log):
    "Return a call of the operator that `x.softmax(-1)` or `x.log_softmax(-1)` calls, without their overhead"
    return torch_call(torch._log_softmax if is_log else torch._softmax, ARGUMENTS[0], -1, False)


def _last_axis_softmax(x):
    return x.softmax(-1)


def _last_axis_log_softmax(x):
    return x.log_softmax(-1)


def _apply_softmax(x, is_log):
    "Compute (log) softmax, with autograd only if a gradient is needed"
    if is_autocast_enabled(x):
        (x,) = autocast_operands(_last_axis_log_softmax if is_log else _last_axis_softmax, x)
    x = to_contiguous(x)
    if not needs_autograd(x):
        return _softmax.eager(x, is_log)
    max_bytes = _MAX_LOG_HOST_BOUND_BYTES if is_log else _MAX_HOST_BOUND_BYTES.get(x.element_size(), 0)
    if is_host_bound(x, DTYPE_BYTES, max_bytes) and x.dim():
        return differentiate_eagerly(_softmax.eager, _apply_softmax_function, _torch_function, x, is_log)
    return _apply_softmax_function(x, is_log)


@replay_entry_point(_softmax.eager, 'x', False)
def softmax(
    x,  # a tensor of float32, float16, bfloat16 or float64; if it is not contiguous, it is copied first
):  # a tensor like `x`
    """Compute exp(x - max(x)) / sum(exp(x - max(x))) along the last axis, as `x.softmax(-1)` does; differentiable once.
    For 16-bit inputs, the arithmetic is in float32. Under autocast, the result has the dtype of torch's result.

        softmax(scores)

    With a gradient, torch computes inputs of up to 64 MiB (16-bit types: 48 MiB, `log_softmax`: 96 MiB), except in CUDA
    graphs, because our Python code would take longer than the kernels.

    Raises TypeError or ValueError for an unsupported `x`."""
    if not torch.compiler.is_dynamo_compiling() and (y := _softmax.eager.fast(x, False)) is not None:
        return y
    return _apply_softmax(x, False)


@replay_entry_point(_softmax.eager, 'x', True)
def log_softmax(
    x,  # as for `softmax`
):  # a tensor like `x`
    """Compute x - logsumexp(x) along the last axis, as `x.log_softmax(-1)` does: accurate even if softmax(x) underflows
    to 0.

        log_softmax(scores)

    Raises TypeError or ValueError for an unsupported `x`."""
    if not torch.compiler.is_dynamo_compiling() and (y := _softmax.eager.fast(x, True)) is not None:
        return y
    return _apply_softmax(x, True)
