"""What is launched for a type and a size: the `KernelLaunch`s of each kernel here, forward and backward.

Blocks that only read and write come and go; those that sum columns stay, and keep the sums in registers.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from .sources import SIZES, sums_of, whole
from ..ladder.launches import Double, Long
from ..ladder.rung import KernelLaunch
from ..tool import LOAD, pow2_clamp
from ...utils import cdiv

# What was fastest for 8192 x 8192 elements on an H100, by the bytes of an element; 8 bytes were not timed
_FLAT = {2: (512, 1), 4: (512, 1), 8: (512, 1)}  # gelu: threads of a block, packs of a thread
_ROWS = {2: (256, 2), 4: (256, 1), 8: (256, 2)}  # bias_gelu: likewise
_DROPS = {2: (256, 4), 4: (256, 4), 8: (256, 4)}  # with dropout
_DOWN = {2: (256, 4, 2), 4: (256, 4, 2), 8: (256, 4, 2)}  # backward: threads, packs in flight, blocks on an SM
_NORM = {2: (4, 1), 4: (4, 1), 8: (4, 1)}  # norms: packs of a row for a thread, are weights loaded with the row?
# backward: threads, elements of a row per thread, stages of a ring (1: without one)
_STAY = {2: (512, 16, 3), 4: (512, 16, 1), 8: (512, 8, 6)}

_STREAM = 2**25  # bytes of a result that is larger than what the caches could keep until it is read


def _constants(v, size, **more):
    return (('V', v), ('STREAM', size > _STREAM), *more.items())


def _power_above(n, least, most):
    "The smallest power of two that is not below `n`, within bounds"
    return min(most, max(least, 2 ** math.ceil(math.log2(max(1, n)))))


def _as_sum(dtype, x):
    "A scalar argument in the type in which elements of a type are computed"
    return Double(x) if sums_of(dtype) == 'float64' else float(x)


# GELU of all elements, of any shape
def _flat(name, arrays, dtype, size, v, tanh, on):
    packs, (threads, ahead) = cdiv(size, v), _FLAT[SIZES[dtype]]
    ahead = pow2_clamp(packs // (threads * on.sms), 1, ahead)
    threads = pow2_clamp(packs // ahead, 32, threads)
    constants = _constants(v, size * SIZES[dtype], TANH=tanh, THREADS=threads, AHEAD=ahead)
    src = whole(('pack', 'gelu', 'flat'), dtype, constants)
    return [KernelLaunch(src, name, arrays, (Long(size),), (cdiv(packs, threads * ahead),), (threads,))]


@lru_cache(1024)
def gelu_calls(dtype, size, v, tanh, on) -> list:  # of `KernelLaunch`
    "The launch of gelu of `size` elements on the `Device` `on`, `v` per load"
    return _flat('gelu_forward', ('x', 'y'), dtype, size, v, tanh, on)


@lru_cache(1024)
def gelu_backward_calls(dtype, size, v, tanh, on) -> list:  # of `KernelLaunch`
    "The launch that computes the gradient of x from that of gelu"
    return _flat('gelu_backward', ('x', 'dy', 'dx'), dtype, size, v, tanh, on)


# Sums of columns, which come in parts
_SLICES = 16


def _add_columns(dtype, count, width, outs, on):
    constants = ('SLICES', _SLICES), ('SECOND', on.hopper)
    src, columns = whole(('columns',), dtype, constants), width * len(outs)
    arrays = 'parts', outs[0], outs[-1]
    grid, block = (cdiv(columns, 32),), (32 * _SLICES,)
    return KernelLaunch(src, 'add_columns', arrays, (count, width, columns), grid, block, pdl=on.hopper)


# GELU of rows plus a bias
class Strips(NamedTuple):
    "The partition of rows into strips"

    across: int  # threads of a block along a row
    down: int  # and along a column
    share: int  # rows of a block
    blocks: int  # below each other
    grid: int  # all blocks


def _strips(packs, rows, threads, ahead, blocks=None):
    "The `Strips` for rows of `packs`, with about so many blocks, or as many as there are rows for"
    across = pow2_clamp(packs, 1, threads)
    down = pow2_clamp(min(rows, threads // across), 1, threads)
    most = cdiv(blocks, cdiv(packs, across)) if blocks else rows
    share = max(ahead, cdiv(cdiv(rows, most), down)) * down
    blocks = cdiv(rows, share)
    return Strips(across, down, share, blocks, blocks * cdiv(packs, across))


class Dropout(NamedTuple):
    "The dropout of a launch"

    p: float  # the fraction of them
    seed: int

    def scalars(self, dtype):
        "The scalar arguments of the kernels, with the factor of the elements that are kept"
        return Long(self.seed), float(self.p), _as_sum(dtype, 1 / (1 - self.p) if self.p < 1 else 0)


def _biased(name, arrays, dtype, rows, width, v, tanh, dropout, strips, ahead):
    constants = dict(TANH=tanh, ACROSS=strips.across, DOWN=strips.down, AHEAD=ahead, DROPS=dropout.p > 0)
    constants = _constants(v, rows * width * SIZES[dtype], **constants)
    src = whole(('pack', 'gelu', 'bias_gelu'), dtype, constants)
    scalars = Long(rows), width // v, strips.share, *dropout.scalars(dtype)
    return KernelLaunch(src, name, arrays, scalars, (strips.grid,), (strips.across * strips.down,))


@lru_cache(1024)
def bias_gelu_calls(dtype, rows, width, v, tanh, dropout, on) -> list:  # of `KernelLaunch`
    "The launch of gelu of rows of `width` elements plus a bias, with `Dropout`"
    threads, ahead = (_DROPS if dropout.p else _ROWS)[SIZES[dtype]]
    strips = _strips(width // v, rows, threads, ahead)
    return [_biased('bias_gelu_forward', ('x', 'bias', 'y'), dtype, rows, width, v, tanh, dropout, strips, ahead)]


@lru_cache(1024)
def bias_gelu_backward_calls(
    dtype, rows, width, v, tanh, dropout, on
) -> tuple:  # ([`KernelLaunch`], parts of each column)
    "The launches that compute the gradients of x and of the bias"
    threads, ahead, blocks = _DOWN[SIZES[dtype]]
    strips = _strips(width // v, rows, threads, ahead, blocks * on.sms)
    arrays = 'x', 'bias', 'dy', 'dx', 'parts'
    first = _biased('bias_gelu_backward', arrays, dtype, rows, width, v, tanh, dropout, strips, ahead)
    return [first, _add_columns(dtype, strips.blocks, width, ['dbias'], on)], strips.blocks


# Norms of rows
_MAX_PACKS, _MIN_THREADS = 8, 128  # packs of a row for a thread; threads of a block
_REGISTERS, _THREADS = 2**16, 2048  # of an SM


class Norm(NamedTuple):
    "The variant of a norm"

    centered: bool  # is the mean taken away, as layer norm does?
    scaled: bool  # is there a weight,
    shifted: bool  # a bias,
    added: bool  # and a residual?


def _named(*arrays):
    "The arrays, and x instead of those that are not there"
    return tuple(name if there else 'x' for name, there in arrays)


@lru_cache(1024)
def norm_calls(dtype, rows, width, v, norm, eps, on) -> list:  # of `KernelLaunch`
    "The launch of the `Norm` of rows of `width` elements, a multiple of `v`, with `eps` under the root"
    packs, (wish, early) = width // v, _NORM[SIZES[dtype]]
    if rows * packs < on.sms * _THREADS:  # few: rows have more threads, and these less to load at first
        wish, early = 2, 0
    group = _power_above(cdiv(packs, wish), 32, 1024)
    threads, held = max(group, _MIN_THREADS), min(_MAX_PACKS, cdiv(packs, group))
    blocks = max(1, _REGISTERS // (80 * threads))  # with more registers layer norm has fewer rows in flight
    config = dict(GROUP=group, THREADS=threads, BLOCKS=blocks, HELD=held, BEYOND=packs > held * group, LOAD_EARLY=early)
    kind = dict(CENTERED=norm.centered, SCALED=norm.scaled, SHIFTED=norm.shifted, ADDED=norm.added)
    src = whole(('pack', 'group', 'norm'), dtype, _constants(v, rows * width * SIZES[dtype], **config, **kind))
    arrays = _named(('x', 1), ('residual', norm.added), ('weight', norm.scaled), ('bias', norm.shifted))
    arrays += (*_named(('sum', norm.added)), 'y', 'kept')
    grid = (cdiv(rows, threads // group),)
    return [KernelLaunch(src, 'norm_forward', arrays, (Long(rows), packs, _as_sum(dtype, eps)), grid, (threads,))]


_RING = 'address', 'barrier_init', 'barriers_ready', 'barrier_expect', 'barrier_wait', 'bulk_copy_once'
# Bytes of the ring, of 227 KiB that a block may have. Below 49 KiB the limit of dynamic shared memory would not be
# raised, and with the block's other shared memory they may yet exceed the default limit.
_SHARED, _MIN_SHARED = 192 * 1024, 49 * 1024


class Stay(NamedTuple):
    "The partition of rows among persistent blocks"

    group: int  # threads of a row
    threads: int  # of a block
    held: int  # packs of a row that a thread has
    blocks: int  # on an SM
    stages: int  # of the ring; 0: without one


def _stay(packs, v, size, norm, on):
    "The `Stay` for rows of `packs`"
    max_threads, elements, max_stages = _STAY[size]
    most = max(1, elements // v)
    group = _power_above(cdiv(packs, most), 32, max_threads)
    threads, held = max(group, _MIN_THREADS), min(most, cdiv(packs, group))
    one = (2 + norm.added) * max_threads // group * packs * LOAD
    stages = min(max_stages, (_SHARED - (group < max_threads) * 2**15) // one)
    if on.hopper and v * size == LOAD and packs <= held * group and stages > 1:
        return Stay(group, max_threads, held, 1, stages)
    return Stay(group, threads, held, max(1, _REGISTERS // (128 * threads)), 0)


@lru_cache(1024)
def norm_backward_calls(dtype, rows, width, v, norm, learnt, on) -> tuple:  # ([`KernelLaunch`], parts of each column)
    "The launches that compute the gradients of x, and if they are `learnt`, of weight and bias"
    packs, size = width // v, SIZES[dtype]
    stay = _stay(packs, v, size, norm, on)
    config = dict(GROUP=stay.group, THREADS=stay.threads, HELD=stay.held, BLOCKS=stay.blocks, AHEAD=not norm.centered)
    config |= dict(BEYOND=not stay.stages, RING=stay.stages > 0, STAGES=max(1, stay.stages))
    kind = dict(CENTERED=norm.centered, SCALED=norm.scaled, ADDED=norm.added, LEARNT=learnt)
    constants = _constants(v, rows * width * size, **config, **kind)
    src, groups = whole(('pack', 'group', 'norm_backward'), dtype, constants, _RING), stay.threads // stay.group
    grid, ring = min(cdiv(rows, groups), on.sms * stay.blocks), stay.stages * (2 + norm.added) * groups * packs * LOAD
    shared = max(ring, _MIN_SHARED) if ring else 0
    arrays = _named(('x', 1), ('dy', 1), ('weight', norm.scaled), ('dsum', norm.added))
    arrays += ('kept', 'dx', *_named(('parts', learnt)))
    first = KernelLaunch(src, 'norm_backward', arrays, (Long(rows), packs), (grid,), (stay.threads,), shared)
    if not learnt:
        return [first], 0
    outs = ['dweight', 'dbias'] if norm.centered else ['dweight']
    return [first, _add_columns(dtype, grid, width, outs, on)], grid
