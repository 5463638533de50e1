"""Choose the launches of GELU and of norms for a type and a size: one `KernelLaunch` per kernel, forward and backward.

A **pack** is the `vec` elements that a thread loads at once. Elementwise kernels launch one block per part of the
array. Kernels that sum columns are persistent: each block processes many rows and keeps its sums in registers.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from .sources import SIZES, accumulator_type, kernel_source
from ..ladder.launches import Double, Long
from ..ladder.rung import KernelLaunch
from ..tool import LOAD, pow2_clamp
from ...utils import cdiv

# The fastest configurations for 8192 x 8192 elements on an H100, by bytes per element; 8 bytes were not timed.
_GELU = {2: (512, 1), 4: (512, 1), 8: (512, 1)}  # threads per block, packs per thread
_BIAS_GELU = {2: (256, 2), 4: (256, 1), 8: (256, 2)}  # likewise, without dropout
_DROPOUT = {2: (256, 4), 4: (256, 4), 8: (256, 4)}  # likewise, with dropout
_BIAS_GELU_BACKWARD = {2: (256, 4, 2), 4: (256, 4, 2), 8: (256, 4, 2)}  # threads, packs in flight, blocks per SM
_NORM_FORWARD = {2: (4, 1), 4: (4, 1), 8: (4, 1)}  # packs per thread; 1: load the weights with the row
# Threads, elements of a row per thread, pipeline stages (1: no pipeline)
_NORM_BACKWARD = {2: (512, 16, 3), 4: (512, 16, 1), 8: (512, 8, 6)}

_STREAM = 2**25  # larger results in bytes are stored with a streaming hint: the caches could not keep them


def _constants(vec, size, **more):
    return (('V', vec), ('STREAM', size > _STREAM), *more.items())


def _next_pow2(n, lowest, highest):
    "Return the smallest power of two that is at least `n`, clamped to [lowest, highest]"
    return min(highest, max(lowest, 2 ** math.ceil(math.log2(max(1, n)))))


def _accumulator_scalar(dtype, x):
    "Wrap a scalar argument in the type in which elements of `dtype` are computed"
    return Double(x) if accumulator_type(dtype) == 'float64' else float(x)


# GELU, elementwise, for any shape
def _elementwise_calls(name, arrays, dtype, size, vec, tanh, gpu):
    packs, (threads, in_flight) = cdiv(size, vec), _GELU[SIZES[dtype]]
    in_flight = pow2_clamp(packs // (threads * gpu.sms), 1, in_flight)
    threads = pow2_clamp(packs // in_flight, 32, threads)
    constants = _constants(vec, size * SIZES[dtype], TANH=tanh, THREADS=threads, AHEAD=in_flight)
    src = kernel_source(('pack', 'gelu', 'flat'), dtype, constants)
    return [KernelLaunch(src, name, arrays, (Long(size),), (cdiv(packs, threads * in_flight),), (threads,))]


@lru_cache(1024)
def gelu_calls(dtype, size, vec, tanh, gpu) -> list:  # of `KernelLaunch`
    "Return the launch of GELU for `size` elements on the `Device` `gpu`, with `vec` elements per load"
    return _elementwise_calls('gelu_forward', ('x', 'y'), dtype, size, vec, tanh, gpu)


@lru_cache(1024)
def gelu_backward_calls(dtype, size, vec, tanh, gpu) -> list:  # of `KernelLaunch`
    "Return the launch that computes dx from dy"
    return _elementwise_calls('gelu_backward', ('x', 'dy', 'dx'), dtype, size, vec, tanh, gpu)


# Each block of the first launch writes partial sums of the columns; the second launch adds them.
_SLICES = 16  # threads that share a column


def _add_columns(dtype, count, width, outs, gpu):
    constants = ('SLICES', _SLICES), ('SECOND', gpu.hopper)
    src, columns = kernel_source(('columns',), dtype, constants), width * len(outs)
    arrays = 'parts', outs[0], outs[-1]
    grid, block = (cdiv(columns, 32),), (32 * _SLICES,)
    return KernelLaunch(src, 'add_columns', arrays, (count, width, columns), grid, block, pdl=gpu.hopper)


# GELU of rows plus a bias
class RowTiles(NamedTuple):
    "How many rows and columns of a matrix each block processes"

    threads_x: int  # of a block, along a row
    threads_y: int  # of a block, along a column
    rows_per_block: int
    row_blocks: int  # blocks along a column
    grid: int  # blocks in all


def _row_tiles(packs, rows, max_threads, in_flight, row_blocks=None):
    "Choose the `RowTiles` for rows of `packs` and about `row_blocks` blocks; None: as many as there are rows for"
    threads_x = pow2_clamp(packs, 1, max_threads)
    threads_y = pow2_clamp(min(rows, max_threads // threads_x), 1, max_threads)
    max_row_blocks = cdiv(row_blocks, cdiv(packs, threads_x)) if row_blocks else rows
    rows_per_block = max(in_flight, cdiv(cdiv(rows, max_row_blocks), threads_y)) * threads_y
    row_blocks = cdiv(rows, rows_per_block)
    return RowTiles(threads_x, threads_y, rows_per_block, row_blocks, row_blocks * cdiv(packs, threads_x))


class Dropout(NamedTuple):
    "The dropout options of a launch"

    p: float  # the probability that an element is dropped
    seed: int

    def scalars(self, dtype):
        "Return the scalar arguments of the kernels: seed, p, and the factor of the elements that are kept"
        return Long(self.seed), float(self.p), _accumulator_scalar(dtype, 1 / (1 - self.p) if self.p < 1 else 0)


def _bias_gelu_call(name, arrays, dtype, rows, width, vec, tanh, dropout, row_tiles, in_flight):
    options = dict(
        TANH=tanh, ACROSS=row_tiles.threads_x, DOWN=row_tiles.threads_y, AHEAD=in_flight, DROPS=dropout.p > 0
    )
    options = _constants(vec, rows * width * SIZES[dtype], **options)
    src = kernel_source(('pack', 'gelu', 'bias_gelu'), dtype, options)
    scalars = Long(rows), width // vec, row_tiles.rows_per_block, *dropout.scalars(dtype)
    return KernelLaunch(src, name, arrays, scalars, (row_tiles.grid,), (row_tiles.threads_x * row_tiles.threads_y,))


@lru_cache(1024)
def bias_gelu_calls(dtype, rows, width, vec, tanh, dropout, gpu) -> list:  # of `KernelLaunch`
    "Return the launch of dropout(gelu(x + bias)) for rows of `width` elements"
    threads, in_flight = (_DROPOUT if dropout.p else _BIAS_GELU)[SIZES[dtype]]
    row_tiles = _row_tiles(width // vec, rows, threads, in_flight)
    return [
        _bias_gelu_call(
            'bias_gelu_forward', ('x', 'bias', 'y'), dtype, rows, width, vec, tanh, dropout, row_tiles, in_flight
        )
    ]


@lru_cache(1024)
def bias_gelu_backward_calls(
    dtype, rows, width, vec, tanh, dropout, gpu
) -> tuple:  # ([`KernelLaunch`], partial sums per column)
    "Return the launches that compute the gradients of x and of the bias"
    threads, in_flight, blocks = _BIAS_GELU_BACKWARD[SIZES[dtype]]
    row_tiles = _row_tiles(width // vec, rows, threads, in_flight, blocks * gpu.sms)
    arrays = 'x', 'bias', 'dy', 'dx', 'parts'
    main = _bias_gelu_call('bias_gelu_backward', arrays, dtype, rows, width, vec, tanh, dropout, row_tiles, in_flight)
    return [main, _add_columns(dtype, row_tiles.row_blocks, width, ['dbias'], gpu)], row_tiles.row_blocks


# Norms of rows
_MAX_PACKS, _MIN_THREADS = 8, 128  # packs of a row per thread; threads per block
_REGISTERS, _THREADS = 2**16, 2048  # per SM


class Norm(NamedTuple):
    "The variant of a norm"

    centered: bool  # subtract the mean, as layer norm does
    scaled: bool  # multiply by a weight
    shifted: bool  # add a bias
    added: bool  # add a residual first


def _array_names(*arrays):
    "Return the names of the arrays, with x in place of each that is absent: the kernel does not read it"
    return tuple(name if there else 'x' for name, there in arrays)


@lru_cache(1024)
def norm_calls(dtype, rows, width, vec, norm, eps, gpu) -> list:  # of `KernelLaunch`
    "Return the launch of a `Norm` for rows of `width` elements, a multiple of `vec`, with `eps` under the root"
    packs, (packs_per_thread, load_early) = width // vec, _NORM_FORWARD[SIZES[dtype]]
    if rows * packs < gpu.sms * _THREADS:  # few rows: more threads per row hide more latency
        packs_per_thread, load_early = 2, 0
    row_threads = _next_pow2(cdiv(packs, packs_per_thread), 32, 1024)
    threads, in_registers = max(row_threads, _MIN_THREADS), min(_MAX_PACKS, cdiv(packs, row_threads))
    blocks = max(1, _REGISTERS // (80 * threads))  # more registers would mean fewer rows in flight for layer norm
    constants = dict(
        GROUP=row_threads,
        THREADS=threads,
        BLOCKS=blocks,
        HELD=in_registers,
        BEYOND=packs > in_registers * row_threads,
        LOAD_EARLY=load_early,
    )
    variant = dict(CENTERED=norm.centered, SCALED=norm.scaled, SHIFTED=norm.shifted, ADDED=norm.added)
    src = kernel_source(
        ('pack', 'group', 'norm'), dtype, _constants(vec, rows * width * SIZES[dtype], **constants, **variant)
    )
    arrays = _array_names(('x', 1), ('residual', norm.added), ('weight', norm.scaled), ('bias', norm.shifted))
    arrays += (*_array_names(('sum', norm.added)), 'y', 'row_stats')
    grid = (cdiv(rows, threads // row_threads),)
    return [
        KernelLaunch(
            src, 'norm_forward', arrays, (Long(rows), packs, _accumulator_scalar(dtype, eps)), grid, (threads,)
        )
    ]


_RING_PRIMITIVES = 'address', 'barrier_init', 'barriers_ready', 'barrier_expect', 'barrier_wait', 'bulk_copy_once'
# At most so many bytes of the 227 KiB that a block may have are for the pipeline. At least 49 KiB are requested: below
# the default limit of 48 KiB the driver is not asked to raise it, yet static shared memory is counted on top.
_SHARED, _MIN_SHARED = 192 * 1024, 49 * 1024


class PersistentRows(NamedTuple):
    "The partition of rows among persistent blocks"

    row_threads: int  # threads that share a row
    block_threads: int
    packs_per_thread: int  # packs of a row that a thread holds in registers
    blocks_per_sm: int
    stages: int  # of the pipeline of bulk copies; 0: no pipeline


def _persistent_rows(packs, vec, size, norm, gpu):
    "Choose the `PersistentRows` for rows of `packs`"
    tuned_threads, elements, max_stages = _NORM_BACKWARD[size]
    max_packs = max(1, elements // vec)
    row_threads = _next_pow2(cdiv(packs, max_packs), 32, tuned_threads)
    block_threads, packs_per_thread = max(row_threads, _MIN_THREADS), min(max_packs, cdiv(packs, row_threads))
    stage_bytes = (2 + norm.added) * tuned_threads // row_threads * packs * LOAD
    stages = min(max_stages, (_SHARED - (row_threads < tuned_threads) * 2**15) // stage_bytes)
    if gpu.hopper and vec * size == LOAD and packs <= packs_per_thread * row_threads and stages > 1:
        return PersistentRows(row_threads, tuned_threads, packs_per_thread, 1, stages)
    return PersistentRows(row_threads, block_threads, packs_per_thread, max(1, _REGISTERS // (128 * block_threads)), 0)


@lru_cache(1024)
def norm_backward_calls(
    dtype, rows, width, vec, norm, param_grads, gpu
) -> tuple:  # ([`KernelLaunch`], partial sums per column)
    "Return the launches that compute the gradient of x and, with `param_grads`, those of weight and bias"
    packs, size = width // vec, SIZES[dtype]
    tiling = _persistent_rows(packs, vec, size, norm, gpu)
    constants = dict(
        GROUP=tiling.row_threads,
        THREADS=tiling.block_threads,
        HELD=tiling.packs_per_thread,
        BLOCKS=tiling.blocks_per_sm,
        AHEAD=not norm.centered,
    )
    constants |= dict(BEYOND=not tiling.stages, RING=tiling.stages > 0, STAGES=max(1, tiling.stages))
    variant = dict(CENTERED=norm.centered, SCALED=norm.scaled, ADDED=norm.added, LEARNT=param_grads)
    all_constants = _constants(vec, rows * width * size, **constants, **variant)
    src = kernel_source(('pack', 'group', 'norm_backward'), dtype, all_constants, _RING_PRIMITIVES)
    rows_at_once = tiling.block_threads // tiling.row_threads
    grid = min(cdiv(rows, rows_at_once), gpu.sms * tiling.blocks_per_sm)
    ring_bytes = tiling.stages * (2 + norm.added) * rows_at_once * packs * LOAD
    shared = max(ring_bytes, _MIN_SHARED) if ring_bytes else 0
    arrays = _array_names(('x', 1), ('dy', 1), ('weight', norm.scaled), ('dsum', norm.added))
    arrays += ('row_stats', 'dx', *_array_names(('parts', param_grads)))
    main = KernelLaunch(src, 'norm_backward', arrays, (Long(rows), packs), (grid,), (tiling.block_threads,), shared)
    if not param_grads:
        return [main], 0
    outs = ['dweight', 'dbias'] if norm.centered else ['dweight']
    return [main, _add_columns(dtype, grid, width, outs, gpu)], grid
