"""`sum`, `argmax`, `scan`, `histogram`, `transpose`: memory-bound operators.

Each operator has two functions: one returns its kernel launches for a type and a size (`export` writes them, too), and
one takes a tensor, allocates the workspaces and the result, and launches the kernels.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from .sources import TYPES, whole
from ..ladder.launches import Long
from ..ladder.rung import KernelLaunch, this_device
from ..tool import LOAD, check_tensor, launch, pow2_clamp, refuse_gradient, the_torch, type_of, vector, vector_of
from ...utils import cdiv

FLOATS = 'float32', 'float16', 'bfloat16'
SIZES = dict(float32=4, float16=2, bfloat16=2, int32=4, int16=2, uint8=1)  # bytes
MAX_BINS = 8192


# What is given
def _check(tool, x, types):
    "Raise unless `x` is a tensor that the operator can read"
    check_tensor(tool, x, types)
    refuse_gradient(tool, x)


def _rows(tool, x, axis):
    "(rows, width): what `axis` makes of the shape"
    if axis is None or x.dim() == 0 and axis == -1:
        return 1, x.numel()
    if axis not in (-1, x.dim() - 1) or isinstance(axis, bool):
        last = f', or {x.dim() - 1}' if x.dim() > 1 else ''
        raise ValueError(f'{tool}: axis is {axis!r}, and it may be -1{last}, the last axis, or None, for all elements')
    return math.prod(x.shape[:-1]), x.shape[-1]


# The memory is read fastest by many blocks that come and go, each with some KiB that follow each other: an SM that is
# ahead gets the next one. A long row is read by several blocks, whose results a second launch combines, or they
# themselves, if they are a cluster. The constants were measured. For little memory blocks are small, so that each SM
# gets some.
class Plan(NamedTuple):
    "The loads of a kernel that reads memory once"

    share: int  # bytes of a block, if there are several for a row
    threads: int  # of a block, at most
    ahead: int  # loads in flight per thread


_MUCH = 2**27  # bytes
_FOR_MUCH, _SMALL_PLAN = Plan(2**16, 1024, 2), Plan(2**14, 256, 4)
_FOR_PARTS = Plan(2**17, 512, 16)  # one block for what many have left: more loads in flight
_IN_CLUSTERS = Plan(2**16, 512, 4)
_MAX_PARTS = 2**16  # blocks of a row
_CLUSTER = 8  # blocks of a cluster, at most


class Shape(NamedTuple):
    "The partition of a row among blocks and threads"

    threads: int  # of a block
    ahead: int  # loads in flight per thread
    blocks: int  # of a row
    share: int  # packs of a block


def _plan(rows, width, size):
    return _FOR_MUCH if rows * width * size >= _MUCH else _SMALL_PLAN


def _shape(
    width,  # elements of a row
    v,  # of a load
    size,  # bytes of a number
    plan,
    blocks=None,  # of a row, at most; None: as the plan says
) -> Shape:
    "Return the `Shape` of rows by a plan"
    packs = cdiv(width, v)
    threads = pow2_clamp(min(packs, plan.share // (v * size)) // plan.ahead, 32, plan.threads)
    ahead = pow2_clamp(packs // threads, 1, plan.ahead)
    if blocks is None:
        blocks = 1 if width * size < 4 * plan.share else min(_MAX_PARTS, cdiv(width * size, plan.share))
    share = cdiv(cdiv(packs, blocks), threads * ahead) * threads * ahead
    return Shape(threads, ahead, cdiv(packs, share), share)


# Sum
def _sums(dtype):
    "C's type of the sums, and torch's: of their parts and of the result"
    return ('float', 'float32', dtype) if dtype in FLOATS else ('long long', 'int64', 'int64')


def _sum_rows(From, Sum, To, arrays, rows, width, v, shape, first=False, second=False):
    types = ('From', From), ('Sum', Sum), ('To', To)
    constants = dict(V=v, THREADS=shape.threads, AHEAD=shape.ahead, FIRST=first, SECOND=second)
    src, grid = whole('sum', types, tuple(constants.items())), (rows * shape.blocks,)
    scalars = Long(width), Long(shape.share), shape.blocks
    return KernelLaunch(src, 'sum_rows', arrays, scalars, grid, (shape.threads,), pdl=second)


def _add_parts(dtype, rows, parts, on):
    Sum, kept, to = _sums(dtype)
    size = 8 if kept == 'int64' else 4
    v = vector(0, size, rows, parts)
    shape = _shape(parts, v, size, _FOR_PARTS, blocks=1)
    return _sum_rows(
        Sum, Sum, TYPES[to][0] if to in TYPES else Sum, ('parts', 'out'), rows, parts, v, shape, second=on.hopper
    )


@lru_cache(1024)
def sum_calls(
    dtype, rows, width, v, on
) -> tuple:  # ([`KernelLaunch`], partial sums per row that one call leaves for the next)
    "The launches that sum rows of `width` elements on the `Device` `on`, `v` per load"
    From, (Sum, _, to), size = TYPES[dtype][0], _sums(dtype), SIZES[dtype]
    shape = _shape(width, v, size, _plan(rows, width, size))
    if shape.blocks == 1:
        To = TYPES[to][0] if to in TYPES else Sum
        return [_sum_rows(From, Sum, To, ('x', 'out'), rows, width, v, shape)], 0
    first = _sum_rows(From, Sum, Sum, ('x', 'parts'), rows, width, v, shape, first=on.hopper)
    return [first, _add_parts(dtype, rows, shape.blocks, on)], shape.blocks


def _sum(x, axis, calls_for):
    _check('sum', x, SIZES)
    torch, (rows, width), (_, kept, to) = the_torch(), _rows('sum', x, axis), _sums(type_of(x))
    shape, kind = () if axis is None else x.shape[:-1], dict(dtype=getattr(torch, to), device=x.device)
    if not x.numel():
        return torch.zeros(shape, **kind)
    out = torch.empty(shape, **kind)
    calls, parts = calls_for(type_of(x), rows, width, vector_of(x, rows, width), this_device())
    parts = torch.empty(rows * parts, dtype=getattr(torch, kept), device=x.device)
    launch(calls, x, parts=parts, out=out)
    return out


def sum(
    x,  # a contiguous tensor of float32, float16, bfloat16, int32, int16 or uint8
    axis=None,  # -1: along the last axis; None: of all elements
):  # a tensor: of the type of `x` for floats, which are added in float32; int64 for integers, as of torch
    """The sum, as `x.sum()` or `x.sum(-1)`; the order of additions, and so each bit, is the same in each run.

    `TypeError` and `ValueError` say what of `x` or `axis` is not covered."""
    return _sum(x, axis, sum_calls)


# A ring that the copy engine fills, for a Hopper GPU: faster than threads that load in a loop, and not as fast as
# blocks that come and go. Lesson 12 shows it.
BULK = dict(THREADS=512, PACKS=4, STAGES=6)


@lru_cache(1024)
def ring_calls(dtype, rows, width, v, on) -> tuple:  # as for `sum_calls`
    "The launch that sums `width` elements through a pipeline in shared memory; other cases are as for `sum_calls`"
    if rows > 1 or not on.hopper or v * SIZES[dtype] < LOAD:
        return sum_calls(dtype, rows, width, v, on)
    src = whole('sum_bulk', (('From', TYPES[dtype][0]), ('Sum', _sums(dtype)[0])), tuple(BULK.items()))
    shared = LOAD * BULK['THREADS'] * BULK['PACKS'] * BULK['STAGES']
    first = KernelLaunch(src, 'sum_bulk', ('x', 'parts'), (Long(width),), (on.sms,), (BULK['THREADS'],), shared)
    return [first, _add_parts(dtype, 1, on.sms, on)], on.sms


def ring_sum(
    x,  # as for `sum`
):  # as of `sum`
    "The sum of all elements as `sum` gives it, by a ring that the copy engine of a Hopper GPU fills"
    return _sum(x, None, ring_calls)


# Argmax
def _argmax_shape(rows, width, v, size, on):
    "(`Shape`, are the blocks of a row a cluster?)"
    plan = _plan(rows, width, size)
    shape = _shape(width, v, size, plan)
    if not on.hopper or not 1 < shape.blocks <= _CLUSTER:
        return shape, False
    plan = _IN_CLUSTERS if plan == _FOR_MUCH else plan
    return _shape(width, v, size, plan, shape.blocks), True


def _argmax_text(dtype, v, threads, ahead, early, cluster=False):
    types = ('From', TYPES[dtype][0]), ('Value', TYPES[dtype][1])
    return whole('argmax', types, (('V', v), ('THREADS', threads), ('AHEAD', ahead), ('PDL', early)), cluster)


@lru_cache(1024)
def argmax_calls(dtype, rows, width, v, on) -> tuple:  # ([`KernelLaunch`], partial results per row between two calls)
    "The launches that find the largest of rows of `width` elements on the `Device` `on`, `v` per load"
    (threads, ahead, blocks, share), cluster = _argmax_shape(rows, width, v, SIZES[dtype], on)
    several = blocks > 1 and not cluster
    early, few = on.hopper and several, pow2_clamp(blocks, 32, 1024)
    src, arrays = _argmax_text(dtype, v, threads, ahead, early, cluster), ('x', 'out', 'values', 'indices')
    first = KernelLaunch(src, 'argmax_rows', arrays, (width, share, blocks), (rows * blocks,), (threads,))
    if not several:
        return [first._replace(cluster=(blocks, 1, 1)) if cluster else first], 1
    src, arrays = _argmax_text(dtype, 1, few, 1, early), ('values', 'indices', 'out')
    return [first, KernelLaunch(src, 'argmax_parts', arrays, (blocks,), (rows,), (few,), pdl=early)], blocks


def argmax(
    x,  # as for `sum`
    axis=None,  # -1: along the last axis; None: among all elements
):  # a tensor of int64
    """Return the index of the largest element, as `x.argmax()` or `x.argmax(-1)` does: the first of equal ones; NaN is
    the largest of all.

        argmax(x, axis=-1)

    Raises TypeError and ValueError for an `x` or `axis` that is not supported."""
    _check('argmax', x, SIZES)
    torch, (rows, width), dtype = the_torch(), _rows('argmax', x, axis), type_of(x)
    out = torch.empty(() if axis is None else x.shape[:-1], dtype=torch.int64, device=x.device)
    if not width:
        raise ValueError('argmax: x has no elements along the axis, so none is the largest')
    if width >= 2**31:
        raise ValueError(f'argmax: a row has {width:,} elements, and the kernel counts up to 2^31 - 1')
    if not rows:
        return out
    calls, parts = argmax_calls(dtype, rows, width, vector_of(x, rows, width), this_device())
    value = torch.float32 if dtype in FLOATS else torch.int32
    values = torch.empty(rows * parts if parts > 1 else 1, dtype=value, device=x.device)
    launch(calls, x, out=out, values=values, indices=torch.empty_like(values, dtype=torch.int32))
    return out


# Scan
_MIN_BULK = 2**22  # bytes below which there are too few tiles for all SMs
SCAN = dict(THREADS=256, LINES=6, MIN_BLOCKS=5)
SCAN_BULK = dict(THREADS=1024, STAGES=3)  # one block per SM


def _scan_bulk(dtype, types, width, on):
    lines = 4 if SIZES[dtype] > 1 else 2
    tile = SCAN_BULK['THREADS'] * lines * LOAD // SIZES[dtype]
    tiles, shared = cdiv(width, tile), SCAN_BULK['STAGES'] * tile * SIZES[dtype]
    src = whole('scan_bulk', types, (*SCAN_BULK.items(), ('LINES', lines), ('BLOCKS', on.sms)))
    arrays, scalars, block = ('x', 'out', 'status'), (Long(width), tiles), (SCAN_BULK['THREADS'],)
    return [KernelLaunch(src, 'scan_bulk', arrays, scalars, (on.sms,), block, shared, cooperative=True)], tiles


@lru_cache(1024)
def scan_calls(dtype, rows, width, v, on) -> tuple:  # ([`KernelLaunch`], tiles of a row)
    "The launches that scan rows of `width` elements on the `Device` `on`, `v` per load"
    types = ('From', TYPES[dtype][0]), ('Sum', TYPES[dtype][1])
    if on.hopper and rows == 1 and width * SIZES[dtype] >= _MIN_BULK and v * SIZES[dtype] == LOAD:
        return _scan_bulk(dtype, types, width, on)
    lines = max(1, SCAN['LINES'] * 4 // max(v, 4))
    threads = min(SCAN['THREADS'], 32 * cdiv(width, 32 * lines * v))
    tiles = cdiv(width, threads * lines * v)
    least = SCAN['MIN_BLOCKS'] if threads == SCAN['THREADS'] else 1
    src = whole('scan', types, (('V', v), ('THREADS', threads), ('LINES', lines), ('MIN_BLOCKS', least)))
    arrays, scalars = ('x', 'out', 'status', 'ticket'), (Long(width), tiles)
    return [KernelLaunch(src, 'scan_rows', arrays, scalars, (rows * tiles,), (threads,))], tiles


def scan(
    x,  # as for `sum`
    axis=-1,  # along the last axis; None: along all elements, row-major
):  # a tensor like `x`
    """Compute running sums (an inclusive scan), as `x.cumsum(-1)` does, in the type of `x`: integers wrap around, and
    16-bit floats are added in float32. The last bits of floats may differ from run to run.

        scan(x)

    Raises TypeError and ValueError for an `x` or `axis` that is not supported."""
    _check('scan', x, SIZES)
    torch, (rows, width), out = the_torch(), _rows('scan', x, axis), the_torch().empty_like(x)
    if not x.numel():
        return out
    calls, tiles = scan_calls(type_of(x), rows, width, vector_of(x, rows, width), this_device())
    # One status word per tile, initially "not ready", and the ticket (decoupled look-back).
    status = torch.zeros(rows * tiles + 1, dtype=torch.int64, device=x.device)
    launch(calls, x, out=out, status=status[1:], ticket=status[:1])
    return out


# Histogram
_COUNTERS = 8192  # of a block: 32 KiB


@lru_cache(1024)
def histogram_calls(dtype, size, bins, low, high, v, on) -> list:  # of `KernelLaunch`
    "The launch that counts `size` elements on the `Device` `on`, `v` per load"
    threads = 1024 if size >= 2**16 else 128
    constants = dict(V=v, THREADS=threads, BINS=bins, COPIES=max(1, min(threads // 32, _COUNTERS // bins)))
    src = whole('histogram', (('From', TYPES[dtype][0]),), (*constants.items(), ('FLOATS', dtype in FLOATS)))
    blocks = max(1, min(2 * on.sms, cdiv(size, threads * v)))
    scalars = Long(size), low, high, bins / (high - low)
    return [KernelLaunch(src, 'histogram', ('x', 'out'), scalars, (blocks,), (threads,))]


def histogram(
    x,  # as for `sum`
    bins=256,  # at most 8192
    low=None,  # floats: where the first bin begins; integers have none
    high=None,  # and where the last one ends, which belongs to it
):  # int64 (bins,)
    """Count the elements per bin: integers from 0 to bins - 1, floats in equal intervals from `low` to `high`. What is
    in no bin, NaN for instance, is not counted.

        histogram(bytes_, 256)

    Raises TypeError and ValueError for an `x` or bins that are not supported."""
    _check('histogram', x, SIZES)
    if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= MAX_BINS:
        raise ValueError(f'histogram: bins is {bins!r}, and it must be an integer from 1 to {MAX_BINS}')
    if type_of(x) not in FLOATS:
        if (low, high) != (None, None):
            raise ValueError(f'histogram: x is {type_of(x)}, whose values are their own bins; leave out low and high')
        low, high = 0.0, float(bins)
    elif low is None or high is None or not -math.inf < low < high < math.inf:
        raise ValueError(f'histogram: low is {low} and high {high}, and floats need two bounds, the second the larger')
    torch = the_torch()
    out = torch.zeros(bins, dtype=torch.int64, device=x.device)
    if x.numel():
        calls = histogram_calls(
            type_of(x), x.numel(), bins, float(low), float(high), vector_of(x, 1, x.numel()), this_device()
        )
        launch(calls, x, out=out)
    return out


# Transpose
_WORDS = {1: 'uint8', 2: 'int16', 4: 'int32', 8: 'int64'}  # elements of so many bytes, of any type
_IN_C = dict(uint8='unsigned char', int16='short', int32='int', int64='long long')
TILE = 64


@lru_cache(1024)
def transpose_calls(size, matrices, h, w, on) -> list:  # of `KernelLaunch`
    "The launch that transposes h x w matrices of elements of `size` bytes on the `Device` `on`"
    constants = dict(TILE=TILE, THREADS=512, PAD=max(1, 4 // size))
    src = whole('transpose', (('Number', _IN_C[_WORDS[size]]),), tuple(constants.items()))
    grid = matrices * cdiv(h, TILE) * cdiv(w, TILE)
    return [KernelLaunch(src, 'transpose', ('x', 'out'), (h, w), (grid,), (constants['THREADS'],))]


def transpose(
    x,  # a contiguous tensor of two axes or more, of any type of 1, 2, 4 or 8 bytes
):  # a tensor of the type of `x`
    """Transpose the last two axes into a new contiguous tensor, as `x.mT.contiguous()` does.

        transpose(x)  # (..., h, w) -> (..., w, h)

    Raises TypeError and ValueError for an `x` that is not supported."""
    torch = the_torch()
    covered = hasattr(x, 'data_ptr') and x.element_size() in _WORDS
    _check('transpose', x, [type_of(x)] if covered else SIZES)
    if x.dim() < 2:
        raise ValueError(f'transpose: x has the shape {tuple(x.shape)}, and a matrix has rows and columns')
    (h, w), matrices = x.shape[-2:], math.prod(x.shape[:-2])
    if max(h, w) >= 2**31:
        raise ValueError(
            f'transpose: x has the shape {tuple(x.shape)}, and the kernel counts rows and columns with int'
        )
    out = torch.empty(*x.shape[:-2], w, h, dtype=x.dtype, device=x.device)
    if x.numel():
        word, calls = (
            getattr(torch, _WORDS[x.element_size()]),
            transpose_calls(x.element_size(), matrices, h, w, this_device()),
        )
        launch(calls, x.view(word), out=out.view(word))
    return out
