"""Atomic operations: the lanes execute one after the other, in the order in which threads run, and get the old values.

Additions are vectorized over the lanes; the other operations are done lane by lane.
"""

import numpy as np

from ..diagnostics.errors import NotCompiled
from .intrinsics import Namespace, intrinsic
from .memory import View, as_element, locate, is_writable, not_an_array_error

__all__ = ['atomic']

_INTEGERS = 'int32', 'uint32', 'int64', 'uint64'
_TYPES_OF_OPERATION = dict.fromkeys('and_ or_ xor exch cas compare_and_swap'.split(), _INTEGERS)
_TYPES_OF_OPERATION |= dict.fromkeys(('inc', 'dec'), ('uint32', 'uint64'))


def atomic_types(
    name,  # of an operation: 'add', 'and_'
) -> tuple:  # of names of dtypes
    "Return the names of the dtypes for which numba-cuda compiles `cuda.atomic.<name>`"
    return _TYPES_OF_OPERATION.get(name, (*_INTEGERS, 'float32', 'float64'))


def _add_in_order(data, offsets, addends):
    """Add `addends` to the elements of `data` at `offsets`, one lane after the other; returns the old value per lane.

    A stable sort by the offset makes the lanes of each element a segment, in the order in which they run. The running
    sum (`cumsum`) of a segment contains the old value of each lane and, at its end, the element's new value."""
    by_offset = np.argsort(offsets, kind='stable')
    sorted_offsets, sorted_addends = offsets[by_offset], addends[by_offset]
    is_first = np.r_[True, sorted_offsets[1:] != sorted_offsets[:-1]]
    starts = np.flatnonzero(is_first)
    num_lanes = len(sorted_offsets)
    old_values = np.empty_like(sorted_addends)
    for begin, end in zip(starts, np.r_[starts[1:], num_lanes]) if len(starts) < num_lanes else ():
        offset = sorted_offsets[begin]
        running_sum = np.cumsum(np.r_[data[offset], sorted_addends[begin:end]], dtype=sorted_addends.dtype)
        old_values[begin:end] = running_sum[:-1]
        data[offset] = running_sum[-1]
    if len(starts) == num_lanes:  # no two lanes update the same element
        old_values = data[sorted_offsets]
        data[sorted_offsets] = old_values + sorted_addends
    result = np.empty_like(old_values)
    result[by_offset] = old_values
    return result


def _lane_by_lane(apply):
    "Make a function that updates elements lane by lane: each becomes `apply(old, value)`; it returns the old values"

    def update_lanes(data, offsets, *values):
        old_values = np.empty(len(offsets), data.dtype)
        for lane, offset in enumerate(offsets):
            old_values[lane] = data[offset]
            data[offset] = apply(data[offset], *(operand[lane] for operand in values))
        return old_values

    return update_lanes


def _all_lanes(old_values, *_):
    return np.ones(len(old_values), bool)


def _element_type_error(ctx, active, site, name, ary):
    "Make the `NotCompiled` error for an element type that the operation does not support"
    problem = f'Numba has no cuda.atomic.{name} for {ary.dtype}, the element type of {ary.name}'
    hint = f'Use an array of one of these types: {", ".join(atomic_types(name))}.'
    return ctx.unsupported_error(site, active, problem, hint, NotCompiled)


def _make_atomic(
    name,  # in `cuda.atomic`
    update,  # a function of (data, offsets, *values), which updates the elements and returns their old values
    depends_on_old=True,  # whether the new value depends on the old one
    written_lanes=_all_lanes,  # a function of (old values, *values): the mask of the lanes that write
    parameters=('val',),  # names of the parameters after `ary` and `idx`
):
    "Make the function `cuda.atomic.<name>`"
    dtypes = {np.dtype(t) for t in atomic_types(name)}

    def apply(ctx, active, site, ary, idx, *values):
        "Update `ary[idx]` atomically; returns the old values"
        if len(values) != len(parameters):
            raise TypeError(
                f'cuda.atomic.{name} takes (ary, idx, {", ".join(parameters)}), not {2 + len(values)} arguments'
            )
        if not isinstance(ary, View):
            if hasattr(ary, 'fields'):
                raise ctx.unsupported_error(
                    site, active, f'an atomic cannot update {ary.name}, an array of records', 'Pass one of its fields.'
                )
            raise not_an_array_error(ctx, ary, site)
        if ary.dtype not in dtypes:
            raise _element_type_error(ctx, active, site, name, ary)
        ary, offsets = locate(ctx, active, ary, idx, site, 'atomic')
        if isinstance(offsets, View):
            problem = f'an atomic cannot update a slice of {ary.name}'
            raise ctx.unsupported_error(site, active, problem, 'Pass one index per axis.')
        if ary.skipped is not None:
            ary, active = ary.in_remaining_lanes(active)
            if not active.any():
                return np.zeros(ctx.group.size, ary.dtype)
        if not is_writable(ctx, active, ary, offsets, site):
            return np.zeros(ctx.group.size, ary.dtype)
        lanes = ctx.active_lanes(active)
        data = ary.mem.data
        offsets = ctx.broadcast_to_active(active, offsets)
        values = [as_element(ctx, active, ary, value, site) for value in values]
        if name == 'cas' and ctx.detectors.racecheck.enabled:
            ctx.detectors.racecheck.on_compare_and_swap(ctx, lanes, ary, offsets)
        if ctx.records_accesses:
            ctx.access(active, ary, offsets, site, 'atomic', None if depends_on_old else values[0])
        else:
            ctx.progress_count += 1
        values_before = data[offsets]
        old_values = update(data, offsets, *values)
        ctx.memory_order.on_atomic(ctx.group, lanes, ary.mem, offsets, ctx.now, written_lanes(old_values, *values))
        if (data[offsets] == values_before).all():
            ctx.progress_count -= 1
            ctx.last_poll = data, offsets, values_before
        result = np.zeros(ctx.group.size, data.dtype)
        result[lanes] = old_values
        return result

    return intrinsic(apply, f'atomic.{name}')


_UPDATES = dict(
    add=_add_in_order,
    sub=lambda data, offsets, values: _add_in_order(data, offsets, -values),
    max=_lane_by_lane(lambda old, value: value if value > old else old),
    min=_lane_by_lane(lambda old, value: value if value < old else old),
    nanmax=_lane_by_lane(np.fmax),
    nanmin=_lane_by_lane(np.fmin),
    and_=_lane_by_lane(lambda old, value: old & value),
    or_=_lane_by_lane(lambda old, value: old | value),
    xor=_lane_by_lane(lambda old, value: old ^ value),
    inc=_lane_by_lane(lambda old, value: 0 if old >= value else old + 1),
    dec=_lane_by_lane(lambda old, value: value if old == 0 or old > value else old - 1),
)
_swap_if_equal = _lane_by_lane(lambda old, expected, value: value if old == expected else old)
_cas = _make_atomic(
    'cas', _swap_if_equal, written_lanes=lambda old, expected, value: old == expected, parameters=('old', 'val')
)


def _compare_and_swap(ctx, active, site, ary, old, val):
    "Compare and swap the first element of `ary`"
    return _cas.lane_function(ctx, active, site, ary, np.int64(0), old, val)


atomic = Namespace(
    **{name: _make_atomic(name, f) for name, f in _UPDATES.items()},
    exch=_make_atomic('exch', _lane_by_lane(lambda old, value: value), depends_on_old=False),
    cas=_cas,
    compare_and_swap=intrinsic(_compare_and_swap, 'atomic.compare_and_swap'),
)
