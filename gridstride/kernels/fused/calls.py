"""Choose the launches of GELU and of norms, forward and backward, for a dtype and a size.

A **vector** is the `vec_size` elements that a thread loads in one instruction. Elementwise kernels have one block per
chunk of the array. Kernels that sum columns are persistent: each block processes many rows and keeps its sums in
registers.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from .sources import DTYPE_BYTES, accumulator_type, kernel_source
from ..ladder.launches import Float64, Int64
from ..ladder.rung import KernelLaunch
from ..common import MAX_LOAD_BYTES, pow2_clamp
from ...utils import cdiv

# bytes per element -> the fastest configuration for 8192 x 8192 elements on an H100; 8 bytes were not measured.
_GELU = {2: (512, 1), 4: (512, 1), 8: (512, 1)}  # threads per block, vectors per thread
_MIN_ELEMENTWISE_THREADS = 128  # smaller blocks of a small array, so that each SM gets one
_BIAS_GELU = {2: (256, 2), 4: (256, 1), 8: (256, 2)}  # threads per block, rows in flight; without dropout
_DROPOUT = {2: (256, 4), 4: (256, 4), 8: (256, 4)}  # threads per block, rows in flight; with dropout
_BIAS_GELU_BACKWARD = {2: (256, 4, 2), 4: (256, 4, 2), 8: (256, 4, 2)}  # threads, rows in flight, blocks per SM
_NORM_FORWARD = {2: (4, 1), 4: (4, 1), 8: (4, 1)}  # vectors per thread; whether weights are loaded with the row
# Threads, elements of a row per thread, pipeline stages (1: no pipeline)
_NORM_BACKWARD = {2: (512, 16, 3), 4: (512, 16, 1), 8: (512, 8, 6)}

_MIN_STREAMING_STORE_BYTES = 2**25  # larger results are stored with a streaming hint: they do not fit in the caches


def _constants(vec_size, result_bytes, **kernel_constants):
    "Return the constants of a source in the format of `kernel_source`"
    streaming_stores = result_bytes > _MIN_STREAMING_STORE_BYTES
    return (('VEC', vec_size), ('STREAMING_STORES', streaming_stores), *kernel_constants.items())


def _pow2_at_least(count, lowest, highest):
    "Return the smallest power of two that is at least `count`, clamped to [lowest, highest]"
    return min(highest, max(lowest, 2 ** math.ceil(math.log2(max(1, count)))))


def _accumulator_scalar(dtype, value):
    "Convert a scalar argument to the accumulator type of `dtype`"
    return Float64(value) if accumulator_type(dtype) == 'float64' else float(value)


# GELU
def _elementwise_launches(kernel, arrays, dtype, num_elements, vec_size, uses_tanh, gpu):
    "Return the launch of an elementwise kernel for `num_elements` elements"
    num_vectors, (threads, vectors_in_flight) = cdiv(num_elements, vec_size), _GELU[DTYPE_BYTES[dtype]]
    vectors_in_flight = pow2_clamp(num_vectors // (threads * gpu.sms), 1, vectors_in_flight)
    threads = pow2_clamp(num_vectors // (vectors_in_flight * gpu.sms), _MIN_ELEMENTWISE_THREADS, threads)
    constants = _constants(
        vec_size, num_elements * DTYPE_BYTES[dtype], TANH=uses_tanh, THREADS=threads, LOADS_IN_FLIGHT=vectors_in_flight
    )
    src = kernel_source(('vector', 'gelu', 'gelu_kernels'), dtype, constants)
    grid = (cdiv(num_vectors, threads * vectors_in_flight),)
    return [KernelLaunch(src, kernel, arrays, (Int64(num_elements),), grid, (threads,))]


@lru_cache(1024)
def gelu_launches(dtype, num_elements, vec_size, uses_tanh, gpu) -> list:  # of `KernelLaunch`
    "Return the launch of GELU for `num_elements` elements on the `Device` `gpu`, with `vec_size` elements per load"
    return _elementwise_launches('gelu_forward', ('x', 'y'), dtype, num_elements, vec_size, uses_tanh, gpu)


@lru_cache(1024)
def gelu_backward_launches(dtype, num_elements, vec_size, uses_tanh, gpu) -> list:  # of `KernelLaunch`
    "Return the launch that computes dx from dy"
    return _elementwise_launches('gelu_backward', ('x', 'dy', 'dx'), dtype, num_elements, vec_size, uses_tanh, gpu)


# Column sums need two launches: each block of the first one writes partial sums, which the second one adds.
_COLUMN_SUM_WARPS = 16  # per block; each warp adds some of the rows of 32 columns


def _column_sums_launch(dtype, partial_rows, width, result_names, gpu):
    "Return the launch that adds `partial_rows` rows of partial sums; `result_names`: one or two"
    constants = ('WARPS', _COLUMN_SUM_WARPS), ('PDL', gpu.is_hopper)
    src, columns = kernel_source(('column_sums',), dtype, constants), width * len(result_names)
    arrays = 'partials', result_names[0], result_names[-1]
    grid, block = (cdiv(columns, 32),), (32 * _COLUMN_SUM_WARPS,)
    return KernelLaunch(src, 'add_columns', arrays, (partial_rows, width, columns), grid, block, pdl=gpu.is_hopper)


# GELU of x + bias
class BlockTiling(NamedTuple):
    "How the rows and columns of a matrix are distributed among blocks"

    threads_x: int  # of a block, along a row
    threads_y: int  # of a block, along a column
    rows_per_block: int
    row_blocks: int  # blocks along a column
    grid: int  # total number of blocks


def _block_tiling(row_vectors, rows, max_threads, rows_in_flight, max_blocks=None):
    "Choose a `BlockTiling` with about `max_blocks` blocks; None: no limit"
    threads_x = pow2_clamp(row_vectors, 1, max_threads)
    threads_y = pow2_clamp(min(rows, max_threads // threads_x), 1, max_threads)
    column_blocks = cdiv(row_vectors, threads_x)
    max_row_blocks = cdiv(max_blocks, column_blocks) if max_blocks else rows
    rows_per_block = max(rows_in_flight, cdiv(cdiv(rows, max_row_blocks), threads_y)) * threads_y
    row_blocks = cdiv(rows, rows_per_block)
    return BlockTiling(threads_x, threads_y, rows_per_block, row_blocks, row_blocks * column_blocks)


class Dropout(NamedTuple):
    "The dropout options of a launch"

    p: float  # the probability that an element is dropped
    seed: int

    def scalars(self, dtype):
        "Return the scalar arguments of the kernels: the seed, p, and the scale of the elements that are kept"
        return Int64(self.seed), float(self.p), _accumulator_scalar(dtype, 1 / (1 - self.p) if self.p < 1 else 0)


def _bias_gelu_launch(kernel, arrays, dtype, rows, width, vec_size, uses_tanh, dropout, tiling, rows_in_flight):
    "Return the launch of a kernel of bias_gelu.cuh"
    options = dict(TANH=uses_tanh, THREADS_X=tiling.threads_x, THREADS_Y=tiling.threads_y)
    options |= dict(ROWS_IN_FLIGHT=rows_in_flight, DROPOUT=dropout.p > 0)
    options = _constants(vec_size, rows * width * DTYPE_BYTES[dtype], **options)
    src = kernel_source(('vector', 'gelu', 'bias_gelu'), dtype, options)
    scalars = Int64(rows), width // vec_size, tiling.rows_per_block, *dropout.scalars(dtype)
    return KernelLaunch(src, kernel, arrays, scalars, (tiling.grid,), (tiling.threads_x * tiling.threads_y,))


@lru_cache(1024)
def bias_gelu_launches(dtype, rows, width, vec_size, uses_tanh, dropout, gpu) -> list:  # of `KernelLaunch`
    "Return the launch of dropout(gelu(x + bias)) for rows of `width` elements"
    threads, rows_in_flight = (_DROPOUT if dropout.p else _BIAS_GELU)[DTYPE_BYTES[dtype]]
    tiling = _block_tiling(width // vec_size, rows, threads, rows_in_flight)
    arrays = 'x', 'bias', 'y'
    return [
        _bias_gelu_launch(
            'bias_gelu_forward', arrays, dtype, rows, width, vec_size, uses_tanh, dropout, tiling, rows_in_flight
        )
    ]


@lru_cache(1024)
def bias_gelu_backward_launches(
    dtype, rows, width, vec_size, uses_tanh, dropout, gpu
) -> tuple:  # ([`KernelLaunch`], rows of partial sums)
    "Return the launches that compute the gradients of x and of the bias"
    threads, rows_in_flight, blocks_per_sm = _BIAS_GELU_BACKWARD[DTYPE_BYTES[dtype]]
    tiling = _block_tiling(width // vec_size, rows, threads, rows_in_flight, blocks_per_sm * gpu.sms)
    arrays = 'x', 'bias', 'dy', 'dx', 'partials'
    main_launch = _bias_gelu_launch(
        'bias_gelu_backward', arrays, dtype, rows, width, vec_size, uses_tanh, dropout, tiling, rows_in_flight
    )
    return [main_launch, _column_sums_launch(dtype, tiling.row_blocks, width, ['dbias'], gpu)], tiling.row_blocks


# Norms of rows
_MAX_THREAD_VECTORS = 8  # vectors of a row that a thread keeps in registers
_MIN_THREADS = 128  # per block
_REGISTERS_PER_SM, _THREADS_PER_SM = 2**16, 2048


class Norm(NamedTuple):
    "The options of a norm"

    is_centered: bool  # subtract the mean, as layer norm does
    has_weight: bool
    has_bias: bool
    has_residual: bool  # a residual is added to the input first


def _array_names(*arrays):  # (name, is_present) of each
    "Return the names of the array arguments; 'x' replaces an absent array, which the kernel does not read"
    return tuple(name if is_present else 'x' for name, is_present in arrays)


@lru_cache(1024)
def norm_launches(dtype, rows, width, vec_size, norm, eps, gpu) -> list:  # of `KernelLaunch`
    "Return the launch of a `Norm` for rows of `width` elements, a multiple of `vec_size`"
    row_vectors, (target_vectors_per_thread, loads_weights_early) = width // vec_size, _NORM_FORWARD[DTYPE_BYTES[dtype]]
    if rows * row_vectors < gpu.sms * _THREADS_PER_SM:  # few rows: more threads per row hide more latency
        target_vectors_per_thread, loads_weights_early = 2, 0
    threads_per_row = _pow2_at_least(cdiv(row_vectors, target_vectors_per_thread), 32, 1024)
    threads = max(threads_per_row, _MIN_THREADS)
    vectors_per_thread = min(_MAX_THREAD_VECTORS, cdiv(row_vectors, threads_per_row))
    constants = dict(
        ROW_THREADS=threads_per_row,
        THREADS=threads,
        # This limits a thread to 80 registers; with more, an SM would have fewer rows of layer norm in flight.
        BLOCKS_PER_SM=max(1, _REGISTERS_PER_SM // (80 * threads)),
        VECS_PER_THREAD=vectors_per_thread,
        LONG_ROWS=row_vectors > vectors_per_thread * threads_per_row,
        LOAD_EARLY=loads_weights_early,
    )
    constants |= dict(CENTERED=norm.is_centered, HAS_WEIGHT=norm.has_weight, HAS_BIAS=norm.has_bias)
    constants |= dict(HAS_RESIDUAL=norm.has_residual)
    constants = _constants(vec_size, rows * width * DTYPE_BYTES[dtype], **constants)
    src = kernel_source(('vector', 'row_threads', 'norm'), dtype, constants)
    inputs = ('residual', norm.has_residual), ('weight', norm.has_weight), ('bias', norm.has_bias)
    arrays = 'x', *_array_names(*inputs, ('sum', norm.has_residual)), 'y', 'row_stats'
    scalars = Int64(rows), row_vectors, _accumulator_scalar(dtype, eps)
    grid = (cdiv(rows, threads // threads_per_row),)
    return [KernelLaunch(src, 'norm_forward', arrays, scalars, grid, (threads,))]


_PIPELINE_PRIMITIVES = (
    'address',
    'barrier_init',
    'fence_mbarrier_init',
    'barrier_expect',
    'barrier_wait',
    'bulk_copy_evict_first',
)
# The pipeline takes at most this much of the 227 KiB of shared memory that a block may have. A launch requests at least
# 49 KiB: the driver's limit is raised only for requests above the default limit of 48 KiB, but static shared memory
# counts towards that limit, too.
_MAX_PIPELINE_BYTES, _MIN_PIPELINE_BYTES = 192 * 1024, 49 * 1024


class PersistentTiling(NamedTuple):
    "How persistent blocks distribute rows among their threads"

    threads_per_row: int  # threads that share a row
    block_threads: int
    vectors_per_thread: int  # vectors of a row that a thread keeps in registers
    blocks_per_sm: int
    stages: int  # of the pipeline of bulk copies; 0: no pipeline


def _persistent_tiling(row_vectors, vec_size, element_bytes, norm, gpu):
    "Choose the `PersistentTiling` for rows of `row_vectors` vectors"
    tuned_block_threads, elements_per_thread, max_stages = _NORM_BACKWARD[element_bytes]
    max_vectors_per_thread = max(1, elements_per_thread // vec_size)
    threads_per_row = _pow2_at_least(cdiv(row_vectors, max_vectors_per_thread), 32, tuned_block_threads)
    threads = max(threads_per_row, _MIN_THREADS)
    vectors_per_thread = min(max_vectors_per_thread, cdiv(row_vectors, threads_per_row))
    stage_bytes = (2 + norm.has_residual) * tuned_block_threads // threads_per_row * row_vectors * MAX_LOAD_BYTES
    column_sum_bytes = 2**15 if threads_per_row < tuned_block_threads else 0  # for the sums over the rows of a block
    stages = min(max_stages, (_MAX_PIPELINE_BYTES - column_sum_bytes) // stage_bytes)
    if gpu.is_hopper and vec_size * element_bytes == MAX_LOAD_BYTES and stages > 1:
        return PersistentTiling(threads_per_row, tuned_block_threads, vectors_per_thread, 1, stages)
    return PersistentTiling(
        threads_per_row, threads, vectors_per_thread, max(1, _REGISTERS_PER_SM // (128 * threads)), 0
    )


# A single launch computes the gradients of few rows, and of rows of more elements than persistent blocks keep in
# registers: x and dy are read twice, but without partial sums. Measured on an H200: 16 to 4,096 rows of 768 to 18,944
_DIRECT_MAX_ROWS, _DIRECT_MAX_NARROW_ROWS, _NARROW_ROW_BYTES = 2048, 1024, 3072
_DIRECT_THREAD_BYTES, _DIRECT_ROWS_IN_FLIGHT, _DIRECT_REGISTERS = 32, 2, 64  # per thread
_WIDE_ROW_BYTES, _MANY_ROWS = 10_240, 128


def _is_direct(rows, width, element_bytes, norm):
    "Return whether a single launch is faster than persistent blocks, whose partial sums a second launch adds"
    max_threads, elements_per_thread, _ = _NORM_BACKWARD[element_bytes]
    is_narrow = width * element_bytes < _NARROW_ROW_BYTES and not norm.is_centered
    if width > max_threads * elements_per_thread:
        return True
    return rows <= (_DIRECT_MAX_NARROW_ROWS if is_narrow else _DIRECT_MAX_ROWS)


def _direct_sizes(rows, row_bytes) -> tuple:  # (threads per block, bytes of a row per block that sums columns)
    "Return the sizes of blocks: narrow strips give enough blocks for narrow rows, many threads suit many rows"
    if row_bytes >= _WIDE_ROW_BYTES:
        return 256, 128
    return 512 if rows >= _MANY_ROWS else 256, 64


def _direct_norm_backward_launch(dtype, rows, width, vec_size, norm, needs_param_grads, gpu):
    "Return the single launch that computes all gradients, without partial sums"
    row_vectors, vector_bytes = width // vec_size, vec_size * DTYPE_BYTES[dtype]
    threads_per_row = _pow2_at_least(cdiv(row_vectors, max(1, _DIRECT_THREAD_BYTES // vector_bytes)), 32, 1024)
    vectors_per_thread = min(_MAX_THREAD_VECTORS, cdiv(row_vectors, threads_per_row))
    min_threads, strip_bytes = _direct_sizes(rows, width * DTYPE_BYTES[dtype])
    threads, strip = max(threads_per_row, min_threads), pow2_clamp(strip_bytes // vector_bytes, 1, 32)
    constants = dict(
        ROW_THREADS=threads_per_row,
        THREADS=threads,
        VECS_PER_THREAD=vectors_per_thread,
        BLOCKS_PER_SM=max(1, _REGISTERS_PER_SM // (_DIRECT_REGISTERS * threads)),
        LONG_ROWS=row_vectors > vectors_per_thread * threads_per_row,
        STRIP=strip,
        ROWS_IN_FLIGHT=_DIRECT_ROWS_IN_FLIGHT,
    )
    constants |= dict(CENTERED=norm.is_centered, HAS_WEIGHT=norm.has_weight, HAS_RESIDUAL=norm.has_residual)
    constants = _constants(vec_size, rows * width * DTYPE_BYTES[dtype], **constants)
    src = kernel_source(('vector', 'row_threads', 'norm_backward_direct'), dtype, constants)
    arrays = 'x', 'dy', *_array_names(('weight', norm.has_weight), ('dsum', norm.has_residual)), 'row_stats', 'dx'
    arrays += _array_names(('dweight', needs_param_grads), ('dbias', needs_param_grads and norm.is_centered))
    column_blocks = cdiv(row_vectors, strip) if needs_param_grads else 0
    grid = (column_blocks + cdiv(rows, threads // threads_per_row),)
    scalars = Int64(rows), row_vectors, column_blocks
    return KernelLaunch(src, 'norm_backward_direct', arrays, scalars, grid, (threads,))


@lru_cache(1024)
def norm_backward_launches(
    dtype, rows, width, vec_size, norm, needs_param_grads, gpu
) -> tuple:  # ([`KernelLaunch`], rows of partial sums)
    "Return the launches that compute the gradient of x and, with `needs_param_grads`, those of weight and bias"
    row_vectors, element_bytes = width // vec_size, DTYPE_BYTES[dtype]
    if _is_direct(rows, width, element_bytes, norm):
        return [_direct_norm_backward_launch(dtype, rows, width, vec_size, norm, needs_param_grads, gpu)], 0
    tiling = _persistent_tiling(row_vectors, vec_size, element_bytes, norm, gpu)
    constants = dict(
        ROW_THREADS=tiling.threads_per_row,
        THREADS=tiling.block_threads,
        VECS_PER_THREAD=tiling.vectors_per_thread,
        BLOCKS_PER_SM=tiling.blocks_per_sm,
        PREFETCH=not norm.is_centered,
        LONG_ROWS=False,
        PIPELINED=tiling.stages > 0,
        STAGES=max(1, tiling.stages),
        CENTERED=norm.is_centered,
        HAS_WEIGHT=norm.has_weight,
        HAS_RESIDUAL=norm.has_residual,
        PARAM_GRADS=needs_param_grads,
    )
    constants = _constants(vec_size, rows * width * element_bytes, **constants)
    src = kernel_source(('vector', 'row_threads', 'norm_backward'), dtype, constants, _PIPELINE_PRIMITIVES)
    rows_per_block = tiling.block_threads // tiling.threads_per_row
    grid = min(cdiv(rows, rows_per_block), gpu.sms * tiling.blocks_per_sm)
    pipeline_bytes = tiling.stages * (2 + norm.has_residual) * rows_per_block * row_vectors * MAX_LOAD_BYTES
    smem_bytes = max(pipeline_bytes, _MIN_PIPELINE_BYTES) if pipeline_bytes else 0
    arrays = 'x', 'dy', *_array_names(('weight', norm.has_weight), ('dsum', norm.has_residual))
    arrays += 'row_stats', 'dx', *_array_names(('partials', needs_param_grads))
    scalars = Int64(rows), row_vectors
    main_launch = KernelLaunch(src, 'norm_backward', arrays, scalars, (grid,), (tiling.block_threads,), smem_bytes)
    if not needs_param_grads:
        return [main_launch], 0
    result_names = ['dweight', 'dbias'] if norm.is_centered else ['dweight']
    return [main_launch, _column_sums_launch(dtype, grid, width, result_names, gpu)], grid
