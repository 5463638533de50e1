"""Atomic operations: the lanes take turns in the order in which threads run, and each gets the old value.

Additions are done for all lanes at once, the other operations lane by lane.
"""

import numpy as np

from ..diagnostics.errors import NotCompiled
from .intrinsics import Namespace, intrinsic
from .memory import View, as_element, locate, not_an_array, refuse_to_write

__all__ = ['atomic']

_INTEGERS = 'int32', 'uint32', 'int64', 'uint64'
_TYPES = dict.fromkeys('and_ or_ xor exch cas compare_and_swap'.split(), _INTEGERS)
_TYPES |= dict.fromkeys(('inc', 'dec'), ('uint32', 'uint64'))


def atomic_types(
    name,  # of an operation: 'add', 'and_'
) -> tuple:  # of names of dtypes
    "Return the dtypes that `cuda.atomic.<name>` takes in numba-cuda, which does not compile it for others"
    return _TYPES.get(name, (*_INTEGERS, 'float32', 'float64'))


def _add_in_order(old, off, v):
    "Return (the old value per lane, the final values) when the lanes add `v` at the offsets `off` one after the other"
    order = np.argsort(off, kind='stable')
    sorted_off, x = off[order], v[order]
    first = np.r_[True, sorted_off[1:] != sorted_off[:-1]]
    start = np.flatnonzero(first)
    found = np.empty_like(x)
    for a, b in zip(start, np.r_[start[1:], len(sorted_off)]) if len(start) < len(sorted_off) else ():
        total = np.cumsum(np.r_[old[sorted_off[a]], x[a:b]], dtype=x.dtype)
        found[a:b] = total[:-1]
        old[sorted_off[a]] = total[-1]
    if len(start) == len(sorted_off):
        found = old[sorted_off]
        old[sorted_off] = found + x
    res = np.empty_like(found)
    res[order] = found
    return res


def _lane_by_lane(f):
    "Make the update that applies `f(old, value)` lane by lane"

    def _g(data, off, *values):
        res = np.empty(len(off), data.dtype)
        for i, at in enumerate(off):
            res[i] = data[at]
            data[at] = f(data[at], *(v[i] for v in values))
        return res

    return _g


def _always(found, *_):
    return np.ones(len(found), bool)


def _wrong_type(run, m, site, name, ary):
    "Make the `NotCompiled` error for an element type that the operation does not take"
    what = f'cuda.atomic.{name} on {ary.name}, whose elements are {ary.dtype}, which Numba does not compile'
    return run.refusal(site, m, what, f'It takes {", ".join(atomic_types(name))}.', NotCompiled)


# reads: does the new value depend on the old one? writes: given the old value, does it write?
def _atomic(name, operate, reads=True, writes=_always, takes=('val',)):
    types = {np.dtype(t) for t in atomic_types(name)}

    def change(run, m, site, ary, idx, *values):
        "Update `ary[idx]` atomically; returns the old values"
        if len(values) != len(takes):
            raise TypeError(
                f'cuda.atomic.{name} takes (ary, idx, {", ".join(takes)}), and got {2 + len(values)} of these'
            )
        if not isinstance(ary, View):
            if hasattr(ary, 'fields'):
                raise run.refusal(site, m, f'an atomic on {ary.name}, which has records', 'Give it a field of them.')
            raise not_an_array(run, ary, site)
        if ary.dtype not in types:
            raise _wrong_type(run, m, site, name, ary)
        off = locate(run, m, ary, idx, site, 'atomic')
        if isinstance(off, View):
            raise run.refusal(site, m, f'an atomic on a part of {ary.name}', 'Give it one index per axis.')
        refuse_to_write(run, m, ary, off, site)
        lanes = run.active(m)
        data = ary.mem.data
        off = run.broadcast_to_active(m, off)
        values = [as_element(run, m, ary, v, site) for v in values]
        if name == 'cas' and run.detectors.racecheck.on:
            run.detectors.racecheck.swaps(run, lanes, ary, off)
        if run.watched:
            run.access(m, ary, off, site, 'atomic', None if reads else values[0])
        else:
            run.changes += 1
        before = data[off]
        found = operate(data, off, *values)
        run.order.on_atomic(run.g, lanes, ary.mem, off, run.now, writes(found, *values))
        if (data[off] == before).all():
            run.changes -= 1
            run.polled = data, off, before
        res = np.zeros(run.g.size, data.dtype)
        res[lanes] = found
        return res

    return intrinsic(change, f'atomic.{name}')


_UPDATES = dict(
    add=_add_in_order,
    sub=lambda d, offsets, v: _add_in_order(d, offsets, -v),
    max=_lane_by_lane(lambda a, v: v if v > a else a),
    min=_lane_by_lane(lambda a, v: v if v < a else a),
    nanmax=_lane_by_lane(np.fmax),
    nanmin=_lane_by_lane(np.fmin),
    and_=_lane_by_lane(lambda a, v: a & v),
    or_=_lane_by_lane(lambda a, v: a | v),
    xor=_lane_by_lane(lambda a, v: a ^ v),
    inc=_lane_by_lane(lambda a, v: 0 if a >= v else a + 1),
    dec=_lane_by_lane(lambda a, v: v if a == 0 or a > v else a - 1),
)
_swap_if = _lane_by_lane(lambda a, old, v: v if a == old else a)
_cas = _atomic('cas', _swap_if, writes=lambda found, old, v: found == old, takes=('old', 'val'))


def _compare_and_swap(run, m, site, ary, old, val):
    "Apply `cas` to the first element"
    return _cas.lanes(run, m, site, ary, np.int64(0), old, val)


atomic = Namespace(
    **{name: _atomic(name, f) for name, f in _UPDATES.items()},
    exch=_atomic('exch', _lane_by_lane(lambda a, v: v), reads=False),
    cas=_cas,
    compare_and_swap=intrinsic(_compare_and_swap, 'atomic.compare_and_swap'),
)
