"""`sum`, `argmax`, `scan`, `histogram`, `transpose`: memory-bound operators.

Each operator has two functions: one returns its kernel launches for a type and a size (`export` writes them, too), and
one takes a tensor, allocates the workspaces and the result, and launches the kernels.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from .sources import TYPES, kernel_source
from ..ladder.launches import Long
from ..ladder.rung import KernelLaunch, this_device
from ..tool import LOAD, check_tensor, launch, pow2_clamp, refuse_gradient, the_torch, type_of, vector, vector_of
from ...utils import cdiv

FLOATS = 'float32', 'float16', 'bfloat16'
SIZES = dict(float32=4, float16=2, bfloat16=2, int32=4, int16=2, uint8=1)  # bytes
MAX_BINS = 8192


# Checks of operands
def _check(tool, x, types):
    "Raise `TypeError` or `ValueError` unless `x` is a tensor that the operator supports"
    check_tensor(tool, x, types)
    refuse_gradient(tool, x)


def _rows(tool, x, axis):
    "Return (rows, width) of `x` for an axis; raises `ValueError` for other axes than the last and None"
    if axis is None or x.dim() == 0 and axis == -1:
        return 1, x.numel()
    if axis not in (-1, x.dim() - 1) or isinstance(axis, bool):
        last = f', or {x.dim() - 1}' if x.dim() > 1 else ''
        raise ValueError(f'{tool}: axis is {axis!r}, and it may be -1{last}, the last axis, or None, for all elements')
    return math.prod(x.shape[:-1]), x.shape[-1]


# DRAM is read fastest by many short-lived blocks, each of which reads some consecutive KiB: an SM that finishes early
# gets the next block. Several blocks read a long row; a second launch combines their results, or, if they form a
# cluster, one of them does. The constants were measured. For small inputs blocks are small, so that each SM gets some.
class Plan(NamedTuple):
    "How a kernel that reads its input once partitions the loads"

    share: int  # bytes per block, if several blocks share a row
    threads: int  # per block, at most
    in_flight: int  # loads in flight per thread


_LARGE = 2**27  # bytes of an input for `_LARGE_PLAN`
_LARGE_PLAN = Plan(2**16, 1024, 2)
_SMALL_PLAN = Plan(2**14, 256, 4)
_PARTS_PLAN = Plan(2**17, 512, 16)  # one block reads the partial results: more loads in flight
_CLUSTER_PLAN = Plan(2**16, 512, 4)
_MAX_PARTS = 2**16  # blocks per row
_MAX_CLUSTER = 8  # blocks per cluster


class Shape(NamedTuple):
    "The partition of a row among blocks and threads; a pack is what one load reads"

    threads: int  # per block
    in_flight: int  # loads in flight per thread
    blocks: int  # per row
    share: int  # packs per block


def _plan(rows, width, size):
    return _LARGE_PLAN if rows * width * size >= _LARGE else _SMALL_PLAN


def _shape(
    width,  # elements per row
    per_load,  # elements per load
    size,  # bytes per element
    plan,  # a `Plan`
    blocks=None,  # per row, at most; None: as in the plan
) -> Shape:
    "Return the `Shape` for rows by a plan"
    packs = cdiv(width, per_load)
    threads = pow2_clamp(min(packs, plan.share // (per_load * size)) // plan.in_flight, 32, plan.threads)
    in_flight = pow2_clamp(packs // threads, 1, plan.in_flight)
    if blocks is None:
        blocks = 1 if width * size < 4 * plan.share else min(_MAX_PARTS, cdiv(width * size, plan.share))
    share = cdiv(cdiv(packs, blocks), threads * in_flight) * threads * in_flight
    return Shape(threads, in_flight, cdiv(packs, share), share)


# Sum
def _sums(dtype):
    "Return the C type of accumulators, and torch's dtypes of partial sums and of the result"
    return ('float', 'float32', dtype) if dtype in FLOATS else ('long long', 'int64', 'int64')


def _sum_rows(From, Sum, To, arrays, rows, width, per_load, shape, is_first=False, is_second=False):
    types = ('From', From), ('Sum', Sum), ('To', To)
    constants = dict(V=per_load, THREADS=shape.threads, AHEAD=shape.in_flight, FIRST=is_first, SECOND=is_second)
    src = kernel_source('sum', types, tuple(constants.items()))
    grid = (rows * shape.blocks,)
    scalars = Long(width), Long(shape.share), shape.blocks
    return KernelLaunch(src, 'sum_rows', arrays, scalars, grid, (shape.threads,), pdl=is_second)


def _add_parts(dtype, rows, parts, device):
    Sum, partial_dtype, out_dtype = _sums(dtype)
    size = 8 if partial_dtype == 'int64' else 4
    per_load = vector(0, size, rows, parts)
    shape = _shape(parts, per_load, size, _PARTS_PLAN, blocks=1)
    return _sum_rows(
        Sum,
        Sum,
        TYPES[out_dtype][0] if out_dtype in TYPES else Sum,
        ('parts', 'out'),
        rows,
        parts,
        per_load,
        shape,
        is_second=device.hopper,
    )


@lru_cache(1024)
def sum_calls(dtype, rows, width, per_load, device) -> tuple:  # (launches, partial sums per row between two launches)
    "Return the launches that sum rows of `width` elements on a `Device`, with `per_load` elements per load"
    From, (Sum, _, out_dtype), size = TYPES[dtype][0], _sums(dtype), SIZES[dtype]
    shape = _shape(width, per_load, size, _plan(rows, width, size))
    if shape.blocks == 1:
        To = TYPES[out_dtype][0] if out_dtype in TYPES else Sum
        return [_sum_rows(From, Sum, To, ('x', 'out'), rows, width, per_load, shape)], 0
    first = _sum_rows(From, Sum, Sum, ('x', 'parts'), rows, width, per_load, shape, is_first=device.hopper)
    return [first, _add_parts(dtype, rows, shape.blocks, device)], shape.blocks


def _sum(x, axis, calls_for):
    _check('sum', x, SIZES)
    torch, (rows, width), (_, partial_dtype, out_dtype) = the_torch(), _rows('sum', x, axis), _sums(type_of(x))
    shape = () if axis is None else x.shape[:-1]
    options = dict(dtype=getattr(torch, out_dtype), device=x.device)
    if not x.numel():
        return torch.zeros(shape, **options)
    out = torch.empty(shape, **options)
    calls, parts = calls_for(type_of(x), rows, width, vector_of(x, rows, width), this_device())
    parts = torch.empty(rows * parts, dtype=getattr(torch, partial_dtype), device=x.device)
    launch(calls, x, parts=parts, out=out)
    return out


def sum(
    x,  # a contiguous tensor of float32, float16, bfloat16, int32, int16 or uint8
    axis=None,  # -1: along the last axis; None: of all elements
):  # a tensor of the type of `x` for floats, accumulated in float32; of int64 for integers, as in torch
    """Compute the sum, as `x.sum()` or `x.sum(-1)` does; the order of additions, and so every bit, is the same in each
    run.

        sum(x, axis=-1)

    Raises TypeError and ValueError for an `x` or `axis` that is not supported."""
    return _sum(x, axis, sum_calls)


# On a Hopper GPU bulk copies can fill a ring of stages in shared memory. This is faster than threads that load in a
# loop, but slower than many short-lived blocks. Lesson 12 shows it.
BULK = dict(THREADS=512, PACKS=4, STAGES=6)


@lru_cache(1024)
def ring_calls(dtype, rows, width, per_load, device) -> tuple:  # as for `sum_calls`
    "Return the launches that sum `width` elements by bulk copies; for unsupported cases those of `sum_calls`"
    if rows > 1 or not device.hopper or per_load * SIZES[dtype] < LOAD:
        return sum_calls(dtype, rows, width, per_load, device)
    src = kernel_source('sum_bulk', (('From', TYPES[dtype][0]), ('Sum', _sums(dtype)[0])), tuple(BULK.items()))
    shared = LOAD * BULK['THREADS'] * BULK['PACKS'] * BULK['STAGES']
    first = KernelLaunch(src, 'sum_bulk', ('x', 'parts'), (Long(width),), (device.sms,), (BULK['THREADS'],), shared)
    return [first, _add_parts(dtype, 1, device.sms, device)], device.sms


def ring_sum(
    x,  # as for `sum`
):  # as for `sum`
    "Compute the sum of all elements as `sum` does, by bulk copies into a ring in shared memory on a Hopper GPU"
    return _sum(x, None, ring_calls)


# Argmax
def _argmax_shape(rows, width, per_load, size, device):
    "Return (`Shape`, whether the blocks of a row form a cluster)"
    plan = _plan(rows, width, size)
    shape = _shape(width, per_load, size, plan)
    if not device.hopper or not 1 < shape.blocks <= _MAX_CLUSTER:
        return shape, False
    plan = _CLUSTER_PLAN if plan == _LARGE_PLAN else plan
    return _shape(width, per_load, size, plan, shape.blocks), True


def _argmax_text(dtype, per_load, threads, in_flight, pdl, cluster=False):
    types = ('From', TYPES[dtype][0]), ('Value', TYPES[dtype][1])
    return kernel_source(
        'argmax', types, (('V', per_load), ('THREADS', threads), ('AHEAD', in_flight), ('PDL', pdl)), cluster
    )


@lru_cache(1024)
def argmax_calls(
    dtype, rows, width, per_load, device
) -> tuple:  # (launches, partial results per row between two launches)
    "Return the launches that find the largest element of rows on a `Device`, with `per_load` elements per load"
    (threads, in_flight, blocks, share), cluster = _argmax_shape(rows, width, per_load, SIZES[dtype], device)
    two_launches = blocks > 1 and not cluster
    pdl = device.hopper and two_launches
    threads_of_parts = pow2_clamp(blocks, 32, 1024)
    src = _argmax_text(dtype, per_load, threads, in_flight, pdl, cluster)
    arrays = 'x', 'out', 'values', 'indices'
    first = KernelLaunch(src, 'argmax_rows', arrays, (width, share, blocks), (rows * blocks,), (threads,))
    if not two_launches:
        return [first._replace(cluster=(blocks, 1, 1)) if cluster else first], 1
    src = _argmax_text(dtype, 1, threads_of_parts, 1, pdl)
    arrays = 'values', 'indices', 'out'
    return [first, KernelLaunch(src, 'argmax_parts', arrays, (blocks,), (rows,), (threads_of_parts,), pdl=pdl)], blocks


def argmax(
    x,  # as for `sum`
    axis=None,  # -1: along the last axis; None: among all elements
):  # a tensor of int64
    """Return the index of the largest element, as `x.argmax()` or `x.argmax(-1)` does: the first of equal ones; NaN is
    the largest of all.

        argmax(x, axis=-1)

    Raises TypeError and ValueError for an `x` or `axis` that is not supported."""
    _check('argmax', x, SIZES)
    torch = the_torch()
    rows, width = _rows('argmax', x, axis)
    dtype = type_of(x)
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
_MIN_BULK = 2**22  # bytes; smaller inputs have too few tiles for all SMs
SCAN = dict(THREADS=256, LINES=6, MIN_BLOCKS=5)
SCAN_BULK = dict(THREADS=1024, STAGES=3)  # one block per SM


def _scan_bulk(dtype, types, width, device):
    lines = 4 if SIZES[dtype] > 1 else 2
    tile = SCAN_BULK['THREADS'] * lines * LOAD // SIZES[dtype]
    tiles = cdiv(width, tile)
    shared = SCAN_BULK['STAGES'] * tile * SIZES[dtype]
    src = kernel_source('scan_bulk', types, (*SCAN_BULK.items(), ('LINES', lines), ('BLOCKS', device.sms)))
    arrays, scalars, block = ('x', 'out', 'status'), (Long(width), tiles), (SCAN_BULK['THREADS'],)
    return [KernelLaunch(src, 'scan_bulk', arrays, scalars, (device.sms,), block, shared, cooperative=True)], tiles


@lru_cache(1024)
def scan_calls(dtype, rows, width, per_load, device) -> tuple:  # (launches, tiles per row)
    "Return the launches that scan rows of `width` elements on a `Device`, with `per_load` elements per load"
    types = ('From', TYPES[dtype][0]), ('Sum', TYPES[dtype][1])
    if device.hopper and rows == 1 and width * SIZES[dtype] >= _MIN_BULK and per_load * SIZES[dtype] == LOAD:
        return _scan_bulk(dtype, types, width, device)
    lines = max(1, SCAN['LINES'] * 4 // max(per_load, 4))
    threads = min(SCAN['THREADS'], 32 * cdiv(width, 32 * lines * per_load))
    tiles = cdiv(width, threads * lines * per_load)
    min_blocks = SCAN['MIN_BLOCKS'] if threads == SCAN['THREADS'] else 1
    src = kernel_source(
        'scan', types, (('V', per_load), ('THREADS', threads), ('LINES', lines), ('MIN_BLOCKS', min_blocks))
    )
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
    torch = the_torch()
    rows, width = _rows('scan', x, axis)
    out = torch.empty_like(x)
    if not x.numel():
        return out
    calls, tiles = scan_calls(type_of(x), rows, width, vector_of(x, rows, width), this_device())
    # One status word per tile, initially "not ready", and the ticket (decoupled look-back).
    status = torch.zeros(rows * tiles + 1, dtype=torch.int64, device=x.device)
    launch(calls, x, out=out, status=status[1:], ticket=status[:1])
    return out


# Histogram
_COUNTERS = 8192  # per block: 32 KiB of shared memory


@lru_cache(1024)
def histogram_calls(dtype, size, bins, low, high, per_load, device) -> list:  # of `KernelLaunch`
    "Return the launch that counts `size` elements on a `Device`, with `per_load` elements per load"
    threads = 1024 if size >= 2**16 else 128
    constants = dict(V=per_load, THREADS=threads, BINS=bins, COPIES=max(1, min(threads // 32, _COUNTERS // bins)))
    src = kernel_source('histogram', (('From', TYPES[dtype][0]),), (*constants.items(), ('FLOATS', dtype in FLOATS)))
    blocks = max(1, min(2 * device.sms, cdiv(size, threads * per_load)))
    scalars = Long(size), low, high, bins / (high - low)
    return [KernelLaunch(src, 'histogram', ('x', 'out'), scalars, (blocks,), (threads,))]


def histogram(
    x,  # as for `sum`
    bins=256,  # at most 8192
    low=None,  # for floats: lower bound of the first bin
    high=None,  # for floats: upper bound of the last bin, which includes it
):  # int64 (bins,)
    """Count the elements per bin: integers from 0 to bins - 1, floats in equal intervals from `low` to `high`. Elements
    outside all bins, and NaN, are not counted.

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
_WORDS = {1: 'uint8', 2: 'int16', 4: 'int32', 8: 'int64'}  # bytes per element -> dtype as which they are moved
_IN_C = dict(uint8='unsigned char', int16='short', int32='int', int64='long long')
TILE = 64


@lru_cache(1024)
def transpose_calls(size, matrices, rows, columns, device) -> list:  # of `KernelLaunch`
    "Return the launch that transposes matrices of elements of `size` bytes on a `Device`"
    constants = dict(TILE=TILE, THREADS=512, PAD=max(1, 4 // size))
    src = kernel_source('transpose', (('Number', _IN_C[_WORDS[size]]),), tuple(constants.items()))
    grid = matrices * cdiv(rows, TILE) * cdiv(columns, TILE)
    return [KernelLaunch(src, 'transpose', ('x', 'out'), (rows, columns), (grid,), (constants['THREADS'],))]


def transpose(
    x,  # a contiguous tensor of two axes or more, of any type of 1, 2, 4 or 8 bytes
):  # a tensor of the type of `x`
    """Transpose the last two axes into a new contiguous tensor, as `x.mT.contiguous()` does.

        transpose(x)  # (..., rows, columns) -> (..., columns, rows)

    Raises TypeError and ValueError for an `x` that is not supported."""
    torch = the_torch()
    supported = hasattr(x, 'data_ptr') and x.element_size() in _WORDS
    _check('transpose', x, [type_of(x)] if supported else SIZES)
    if x.dim() < 2:
        raise ValueError(f'transpose: x has the shape {tuple(x.shape)}, and a matrix has rows and columns')
    (rows, columns), matrices = x.shape[-2:], math.prod(x.shape[:-2])
    if max(rows, columns) >= 2**31:
        raise ValueError(
            f'transpose: x has the shape {tuple(x.shape)}, and the kernel counts rows and columns with int'
        )
    out = torch.empty(*x.shape[:-2], columns, rows, dtype=x.dtype, device=x.device)
    if x.numel():
        word_dtype = getattr(torch, _WORDS[x.element_size()])
        calls = transpose_calls(x.element_size(), matrices, rows, columns, this_device())
        launch(calls, x.view(word_dtype), out=out.view(word_dtype))
    return out
