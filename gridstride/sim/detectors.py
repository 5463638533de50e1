"""memcheck, initcheck, racecheck and synccheck: each with its shadow memory, its rule, and its findings.

memcheck finds out-of-bounds accesses, initcheck uninitialized reads, racecheck data races, synccheck barriers that not
all threads reach, and deadlocks. The context of the launch, `run`, reports each access and barrier to them; a detector
reads from it the group of threads and the time, and does not keep it. "Time" counts accesses, and continues from launch
to launch.
CUDA C's detectors are in `cpp/runtime`, Triton's in `tile/shadow.py`.
"""

import sys
import time
from functools import partial
from typing import NamedTuple

import numpy as np

from ..diagnostics.errors import Access, Call, exception_of, warn_of
from ..diagnostics.settings import checking, settings

__all__ = ['Shadow', 'Memcheck', 'Initcheck', 'Racecheck', 'Synccheck', 'Detectors', 'calls_of']


class Shadow:
    "The shadow memory of an array: per element the last write, its thread, and the first and last reader"

    def __init__(
        self,
        n,  # number of elements
        few=False,  # will kernels use only a small part of them?
    ):
        made = (_small_pages if few else _zeros)(n, np.int64, np.int64, np.int32, np.int32, np.int32, bool)
        # lowest and highest reader since the barrier: the thread in the upper 32 bits, the time in the lower ones
        self.lo, self.hi = made[:2]
        self.read = made[2]
        self.wrote, self.writer = made[3:5]  # time and thread of the last write; time 0: uninitialized
        self.atomic = made[5]  # was the last write an atomic one?


def _zeros(n, *types):
    "Allocate an array of `n` zeros of each type"
    return [np.zeros(n, t) for t in types]


_LARGE = 1 << 19  # elements


def _small_pages(n, *types):
    """Allocate the same in small pages.

    NumPy requests large arrays in pages of 2 MB, and clears a page at its first use."""
    if n < _LARGE or sys.platform != 'linux':
        return _zeros(n, *types)
    import mmap

    sizes = [n * np.dtype(t).itemsize for t in types]
    memory = mmap.mmap(-1, sum(sizes))
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return [np.frombuffer(memory, t, n, sum(sizes[:i])) for i, t in enumerate(types)]


def element_at(v, off):
    "Return the element at `off` of the memory of the view `v`, as the fields `array` and `index` of a finding"
    v = v.mem.views.get(v.name, v)  # of a row or a slice: in the array that has this name
    axes = [(int(s), int(np.max(n)) - 1) for s, n in zip(v.strides, v.shape)]  # (stride, last index)
    first = np.asarray(v.off) + sum(s * last for s, last in axes if s < 0)
    offset = int(off) - int(first[first <= off].max(initial=0))  # of a shared or local array: in this copy of it
    index = [0] * v.ndim
    for a in sorted(range(v.ndim), key=lambda a: -abs(axes[a][0])):
        s, last = axes[a]
        steps = min(offset // abs(s), last) if s else 0
        offset -= steps * abs(s)
        index[a] = steps if s >= 0 else last - steps
    return dict(array=v.name, index=tuple(index))


def calls_of(site, callers):
    "Return the call stack of a site as findings have it"
    return tuple(Call(call.function, call.file, call.line, call.source) for call in (site, *callers))


class Memcheck:
    "The detector of out-of-bounds accesses. If it is disabled, only accesses without any meaning are refused"

    def __init__(self, on):
        self.on = on

    def count(self, run, m, v, given, site):
        "Raise the finding that there are more indices than dimensions"
        raise run.finding('memcheck', 'indices', site, m, array=v.name, dimensions=v.ndim, given=given)

    def type(self, run, m, v, i, site):
        "Raise the finding that the index `i` is not an integer"
        raise run.finding('memcheck', 'index_type', site, m, array=v.name, type=i.dtype)

    def outside(self, run, m, v, idx, ax, site, access):
        """Raise, if the detector is enabled, the finding that index number `ax` of `idx` is out of bounds in an active
        lane"""
        if not self.on:
            return
        i = run.broadcast_to_lanes(idx[ax])
        n = run.broadcast_to_lanes(v.shape[ax])
        lane = next(l for l in run.active(m) if not 0 <= i[l] < n[l])
        at = tuple(int(run.broadcast_to_lanes(i)[lane]) for i in idx if not isinstance(i, slice))
        shape = tuple(int(run.broadcast_to_lanes(size)[lane]) for size in v.shape)
        code = 'before' if i[lane] < 0 else 'outside'
        if v.mem.dynamic and code == 'outside':
            code = 'outside_dynamic' if run.dynamic else 'no_dynamic'
        if access == 'read' and len(at) < v.ndim:  # a row or a slice, which a later index reads or writes
            access = 'access'
        raise run.finding('memcheck', code, site, by=lane, access=access, array=v.name, index=at, shape=shape)


class UnwrittenRead(NamedTuple):
    "A read of an uninitialized element, which no thread has written so far"

    location: object  # an `errors.Location`
    view: object  # the array
    off: int  # of the element
    block: int  # number of the reader's block
    time: int
    atomic: bool

    def error(self):
        "Make its finding"
        code = {'shared': 'unwritten_shared', 'local': 'unwritten_local'}.get(self.view.mem.space, 'unwritten')
        return exception_of('initcheck', code, 'python', element_at(self.view, self.off), self.location)


class Initcheck:
    """The detector of uninitialized reads.

    Such a read is deferred. If another thread writes the element later, and nothing orders the two, it is a data race,
    which is the better finding. So the first such read is noted, and raised when no later write can race with it."""

    def __init__(self, on, racecheck):  # racecheck: the detector of such a data race
        self.on, self.racecheck = on, racecheck
        self.noted = {}  # 'shared' or 'global' -> the first `UnwrittenRead` of such memory
        self.warned = set()  # lines at which a variable without a value was read

    def unassigned(self, run, m, name, site):
        "Warn, once per line, that the lanes of `m` read a variable that they have not assigned"
        location = run.location(site, m)
        if self.on and (name, location.file, location.line) not in self.warned:
            self.warned.add((name, location.file, location.line))
            fields = dict(
                line=location.line, kernel=run.kernel, variable=name, in_block=location.block, thread=location.thread
            )
            warn_of('unassigned', 'python', fields)

    def read(self, run, lanes, v, off, wrote, site, atomic=False):
        "Check the elements at `off` that `lanes` read; `wrote` are the times of their last writes, 0 for none"
        if not self.on or not v.mem.fresh or v.mem.space in self.noted:
            return
        unwritten = wrote == 0
        if unwritten.any():
            i = np.argmax(unwritten)
            location = run.location(site, lane=lanes[i])
            block = int(run.g.b[lanes[i]])
            read = UnwrittenRead(location, v, int(off[i]), block, run.now, atomic)
            if v.mem.space == 'local' or not self.racecheck.on:
                raise read.error()
            self.noted[v.mem.space] = read

    def at_barrier(self, first, met):
        "Raise the read of shared memory, if its block is one of `met`, which are counted from number `first`"
        if 'shared' in self.noted and self.noted['shared'].block - first in met:
            raise self.noted['shared'].error()

    def at_end(self, run, space):
        "Raise the read of this memory: a thread that could write it has ended, or does so after the grid's barrier"
        if read := self.noted.get(space):
            raise self.racecheck.written_later(run, read) or read.error()

    def cause_of(self, error):
        """Return the finding of a noted read that may explain `error`, by the value that it got; None if it cannot.

        An index explains one of the same thread only. Threads that miss a barrier have executed all their reads."""
        kind = getattr(error, 'kind', None)
        who = (getattr(error, 'block', None), getattr(error, 'thread', None))
        for space, read in self.noted.items():
            same = (read.location.block, read.location.thread) == who
            if {'timeout': True, 'assert': True, 'memcheck': same, 'synccheck': space == 'global'}.get(kind):
                return read.error()


_MOST_HELD = 1 << 16  # races that swaps may still check


def in_order(lanes, off):
    "Sort lanes in ascending order, and with them the elements at `off`, whatever the order in which they run"
    if lanes.size < 2 or (lanes[1:] > lanes[:-1]).all():
        return lanes, off
    order = np.argsort(lanes)
    return lanes[order], off[order]


class Racecheck:
    """The detector of data races: two accesses of one element, at least one a write, that nothing orders.

    `Order` (`order.py`) decides what happens before what. Of the readers of an element two are remembered, the lowest
    and the highest thread since the barrier: a write ordered after one of them may still race with the other."""

    def __init__(self, on, inside):  # inside: is it sure that every index is in bounds?
        self.on, self.inside = on, inside
        self.history = []  # (time, site, name of the array, sites of the calls that led there) of each access
        self.warned = set()  # locations where several threads wrote the same value
        self.held = {}  # (memory, element, reader) -> (the function, what raises): races that a swap may still check

    def note(self, run, v, site):
        "Record the site of the current access"
        self.history.append((run.now, run.program.sites[site], v.name, run.callers))

    def settled(self, order, mem):
        "Return the time up to which every access of `mem` happens before all that its threads do now"
        return max(order.start, order.met) if self.inside and mem.space == 'shared' else order.start

    def read(self, run, lanes, v, off, wrote, site):
        """Check a read by `lanes` of the elements at `off`: each last write must happen before it; then record the
        readers"""
        if run.crossing and v.mem.space == 'global':
            run.crossing.read(run, lanes, v, off, wrote, site)
        shadow = v.mem.shadow
        settled = self.settled(run.order, v.mem)
        recent = wrote > settled
        if recent.any():
            writer = shadow.writer[off]
            bad = self.unordered(run, lanes, recent, wrote, writer)
            for i in bad[np.argsort(shadow.atomic[off[bad]], kind='stable')] if bad.size else ():
                race = partial(self.race, run, lanes, v, off, i, wrote, writer, 'written', 'read', site)
                self.hold(run, v, off[i], run.g.id[lanes[i]], race) if shadow.atomic[off[i]] else race()
        self.remember_readers(run, shadow, lanes, off, settled)

    def hold(self, run, v, off, reader, race):
        """Defer the race of a plain read by thread `reader` with an atomic until the reader's next access.

        A compare-and-swap finds out whether the value was stale, as the loop of CUDA's programming guide does."""
        if len(self.held) == _MOST_HELD:
            race()
        self.held.setdefault((id(v.mem), int(off), int(reader)), (run.program, race))

    def swaps(self, run, lanes, v, off):
        """Drop deferred races of `lanes` that compare and swap the elements at `off`: the swap checks what they have
        read"""
        shadow = v.mem.shadow
        me = run.g.id[lanes]
        for at, thread in zip(off, me) if self.held else ():
            self.held.pop((id(v.mem), int(at), int(thread)), None)
        synced = np.maximum(run.order.start, run.order.synced[run.g.local[lanes]])
        first, last = (
            off[(reader >> 32 == me) & (reader & (2**32 - 1) > synced)] for reader in (shadow.lo[off], shadow.hi[off])
        )
        shadow.lo[first], shadow.hi[last] = shadow.hi[first], shadow.lo[last]
        shadow.read[np.intersect1d(first, last)] = 0

    def report_held(self, run, m, v=None, off=()):
        "Raise a held data race of a lane of `m`; if `v` is given, one with the elements at its `off`"
        if not self.held:
            return
        mine = set(run.g.id[m].tolist())
        there = {(id(v.mem), int(at)) for at in off} if v is not None else None
        for (mem, at, reader), (program, race) in self.held.items():
            if reader in mine and (there is None or (mem, at) in there):
                run.program = program
                race()

    def unordered(self, run, lanes, recent, time, thread):
        "Return the indices of `lanes` whose `recent` access by `thread` at `time` does not happen before theirs"
        bad = np.flatnonzero(recent & (thread != run.g.id[lanes]))
        return bad[~run.order.happens_before(run.g, lanes[bad], time[bad], thread[bad])] if bad.size else bad

    def remember_readers(self, run, shadow, lanes, off, settled):
        "Record the read: its time, and the lowest and the highest reader since the barrier"
        lanes, off = in_order(lanes, off)
        lowest = highest = me = run.g.id[lanes] << 32 | run.now
        time = shadow.read[off]
        if (time > settled).any():
            lo, hi = shadow.lo[off], shadow.hi[off]
            old = run.order.may_forget(run.g, lanes, lo >> 32, hi >> 32, time)
            lowest, highest = np.where(old, me, np.minimum(lo, me)), np.where(old, me, np.maximum(hi, me))
        shadow.lo[off[::-1].copy()] = lowest[::-1].copy()  # where lanes meet, the last is kept
        shadow.hi[off] = highest
        shadow.read[off] = run.now

    def write(self, run, lanes, v, off, wrote, value, site, atomic):
        """Check a write by `lanes` to the elements at `off`: every earlier access must happen before it; then record
        the writers"""
        if run.crossing and v.mem.space == 'global':
            run.crossing.write(run, lanes, v, off, wrote, value, site, atomic)
        shadow = v.mem.shadow
        me = run.g.id[lanes]
        settled = self.settled(run.order, v.mem)
        if atomic:
            self.report_held(run, lanes, v, off)
        self.against_readers(run, lanes, v, off, settled, site, 'changed atomically' if atomic else 'written')
        self.against_writers(run, lanes, v, off, settled, wrote, value, site, atomic)
        shadow.writer[off] = me
        if not atomic:
            met = np.flatnonzero(shadow.writer[off] != me)
            if met.size:
                self.at_once(run, lanes, v, off, met, value, site)
        shadow.wrote[off] = run.now
        shadow.atomic[off] = atomic
        if not atomic:
            run.order.forget(v.mem, off)

    def against_readers(self, run, lanes, v, off, settled, site, now):
        "Raise a data race (write after read) if a recent read does not happen before this write"
        shadow = v.mem.shadow
        time = shadow.read[off]
        recent = time > settled
        if recent.any():
            for reader in (shadow.lo[off], shadow.hi[off]):
                bad = self.unordered(run, lanes, recent, time, reader >> 32)
                for i in bad[np.unique(reader[bad], return_index=True)[1]] if bad.size else ():
                    race = partial(
                        self.race, run, lanes, v, off, i, reader & (2**32 - 1), reader >> 32, 'read', now, site
                    )
                    lane = int(reader[i] >> 32) - run.g.id[0]
                    may_swap = now != 'written' and 0 <= lane < run.g.size and run.g.live[lane]
                    if not may_swap or (off[lanes == lane] == off[i]).any():
                        race()
                    self.hold(run, v, off[i], run.g.id[lane], race)

    def against_writers(self, run, lanes, v, off, settled, wrote, value, site, atomic):
        "Raise a data race (write after write) if a recent write does not happen before this one"
        shadow = v.mem.shadow
        recent = wrote > settled
        if atomic:
            recent = recent & ~shadow.atomic[off]  # two atomics do not race
        if recent.any():
            writer = shadow.writer[off]
            bad = self.unordered(run, lanes, recent, wrote, writer)
            if bad.size:
                self.two_writes(run, lanes, v, off, bad, wrote, writer, value, v.mem.data[off], site)

    def at_once(self, run, lanes, v, off, met, value, site):
        "Check lanes that write one element in the same access: the last of them has written it"
        last = dict(zip(off.tolist(), value.tolist()))
        there = np.array([last[element] for element in off.tolist()], value.dtype)
        now = np.full(len(off), run.now)
        self.two_writes(run, lanes, v, off, met, now, v.mem.shadow.writer[off], value, there, site)

    def two_writes(self, run, lanes, v, off, bad, time, writer, value, there, site):
        "Report two writes of one element: different values are a data race, the same value is a warning"
        if value is not None:
            same = (there == value) | (there != there) & (value != value)
            differ = bad[~same[bad]]
        else:
            differ = bad
        if differ.size:
            self.race(run, lanes, v, off, differ[0], time, writer, 'written', 'written', site)
        else:
            self.same_value(run, v, off[bad[0]], site)

    def race(self, run, lanes, v, off, i, times, threads, before, now, site):
        "Raise a data race of lane number `i` with the access by its thread of `threads`"
        block, thread = run.g.who_is(threads[i])
        itself = run.program.sites[site], v.name, run.callers
        there, name, callers = next((entry for t, *entry in reversed(self.history) if t == times[i]), itself)
        other = Access(there.line, block, thread, there.source, there.file, calls_of(there, callers))
        code = run.order.race_code(run.g, lanes[i], times[i], threads[i])
        fields = dict(before=before, now=now, **element_at(v, off[i]))
        if name != v.name:
            fields['second'] = tuple(element_at(v.mem.views[name], off[i]).values())
        elif any(not stride and np.max(n) > 1 for stride, n in zip(v.strides, v.shape)):
            fields['expanded'] = True
        raise run.finding('racecheck', code, site, by=lanes[i], other=other, **fields)

    def written_later(self, run, read):
        "Return the race of an `UnwrittenRead` with a later, unordered write by another block; None if there is none"
        shadow = read.view.mem.shadow
        time = int(shadow.wrote[read.off])
        thread = shadow.writer[read.off]
        ordered = thread // run.g.threads == read.block or read.atomic and shadow.atomic[read.off] or run.order.fenced
        if time <= read.time or ordered:
            return None
        there, _, callers = next(entry for t, *entry in reversed(self.history) if t == time)
        calls = calls_of(there, callers)
        other = Access(there.line, *run.g.who_is(thread), there.source, there.file, calls)
        fields = dict(before='written', now='read', **element_at(read.view, read.off))
        return exception_of('racecheck', 'race_of_blocks', 'python', fields, read.location, other)

    def same_value(self, run, v, off, site):
        "Warn, once per source location, of several threads that write the same value"
        location = run.program.sites[site]
        if location in self.warned:
            return
        self.warned.add(location)
        fields = dict(line=location.line, kernel=run.kernel, **element_at(v, off))
        warn_of('same_value', 'python', fields)


# The number of iterations without a change of memory after which a loop counts as spinning: in a kernel whose blocks
# run in lockstep, and in one whose blocks wait for others
SPIN_LIMIT, POLL_LIMIT = 1000, 2


class Synccheck:
    "The detector of barriers and warp operations that not all threads reach, and of loops that wait without end"

    def __init__(self, on):
        self.on = on
        self.warned = set()  # barriers before which threads have returned

    def barrier(self, run, m, site):
        "Check a barrier that the lanes of `m` reach; returns the number of lanes per block"
        g = run.g
        here = np.bincount(g.local[m], minlength=g.count)
        short = (here > 0) & (here < g.threads)
        if short.any() and self.on:
            apart = short & (here < np.bincount(g.local[g.live], minlength=g.count))
            self.short(run, m, int(np.argmax(apart if apart.any() else short)), here, site)
        return here

    def short(self, run, m, b, here, site):
        """Report that threads of block `b` of the group miss its barrier: a finding if one of them is alive, else a
        warning"""
        g = run.g
        location = run.program.sites[site]
        absent, alive = (np.flatnonzero((g.local == b) & ~m & which) for which in (g.all, g.live))
        fields = dict(here=int(here[b]), threads=g.threads, thread=g.who((*alive, *absent)[0])[1])
        if len(alive):
            raise run.finding('synccheck', 'diverged', site, by=int(np.argmax((g.local == b) & m)), **fields)
        if location not in self.warned:
            self.warned.add(location)
            warn_of('returned', 'python', dict(fields, line=location.line, kernel=run.kernel))

    def grid(self, run, m, site):
        """Check that all threads of the grid reach its barrier, whether the detector is enabled or not.

        As on a GPU, a thread that has returned does not count if the first thread of its block is there."""
        g = run.g
        if m is g.all or m.all():
            return
        absent = ~m & (g.live | (g.t == 0))
        if absent.any():
            block, thread = g.who(int(np.argmax(absent)))
            self.not_at_grid(run, m, site, block, thread)

    def not_at_grid(self, run, m, site, block, thread):
        "Raise the finding that a thread is not at the grid's barrier, where the lanes of `m` wait"
        raise run.finding('synccheck', 'grid_diverged', site, m, in_block=block, thread=thread)

    def meet(self, run, m, mask, site, operation):
        "Check a warp operation: each lane is named in its own mask, and every lane that a mask names is there"
        g = run.g
        bits = np.broadcast_to(_mask(mask, g.width), g.size)
        whole = 2**g.width - 1
        if not self.on or m is g.all and (bits == whole).all():
            return
        unnamed = m & ((bits >> g.lane.astype(np.uint64)) & 1 == 0)
        if unnamed.any():
            lane = int(np.argmax(unnamed))
            fields = dict(operation=operation, mask=int(bits[lane]), whole=whole)
            raise run.finding('synccheck', 'unnamed_lane', site, by=lane, **fields)
        rows = g.rows()
        there = (rows >= 0) & g.live[rows]
        here = there & m[rows]
        absent = (_named_lanes(rows, here, bits) == 1) & there & ~here & here.any(1)[:, None]
        if absent.any():
            w, lane = (int(i) for i in np.argwhere(absent)[0])
            by = int(rows[w][here[w]][0])
            raise run.finding('synccheck', 'absent_lane', site, by=by, operation=operation, lane=lane)

    def sources(self, run, m, rows, source, site):
        """Check that a shuffle reads only from active lanes: `rows` of the group, -1 for none; `source`: their indices
        in the warp"""
        missing = m & ((rows < 0) | ~m[rows])
        if self.on and missing.any():
            lane = int(np.argmax(missing))
            raise run.finding('synccheck', 'source_lane', site, by=lane, lane=int(source[lane]))

    def check_deadlock(self, run, site, m):
        "Raise if all resident blocks are in a deadlock"
        if run.never is not None:
            code, fields = run.never
            raise run.finding('synccheck', code, site, m, threads=np.count_nonzero(m), **fields)

    def iterate(self, run, loop, site, frame):
        """Check a `while` loop of the kernel's `frame` that begins another iteration: it must end, whatever is enabled.

        If neither memory nor a variable has changed from one iteration to the next, it never will: a deadlock."""
        if time.monotonic() > run.deadline:
            raise run.finding('timeout', 'endless', site, loop.m, seconds=f'{settings.seconds:g}')
        if loop.changes != run.changes:
            loop.iterations = 0
            loop.changes = run.changes
            loop.spinning = False
            loop.stuck = False
            return
        self.check_deadlock(run, site, loop.m)
        loop.iterations += 1
        limit = POLL_LIMIT if run.program.may_spin else SPIN_LIMIT
        loop.spinning = loop.iterations >= POLL_LIMIT
        if loop.iterations % limit == 0:
            loop.variables = _variables(frame)
        elif loop.iterations > limit and loop.iterations % limit == 1:
            loop.stuck = _same(loop.variables, _variables(frame))
            if loop.stuck and not run.program.may_spin:
                code = 'endless_wait' if run.grid.size == 1 else 'blocks_wait'
                raise run.finding('synccheck', code, site, loop.m, threads=np.count_nonzero(loop.m))


def _variables(frame):
    "Return the kernel's own variables by name"
    return {
        k: v for k, v in frame.f_locals.items() if not k.startswith('__') and isinstance(v, (np.ndarray, np.generic))
    }


def _same(a, b):
    return a.keys() == b.keys() and all(
        v is b[k] or np.array_equal(v, b[k], equal_nan=v.dtype.kind in 'fc') for k, v in a.items()
    )


def _mask(mask, width):
    "Convert a mask of the kernel to 64 bits, of which those beyond the warp's `width` are 0"
    bits = np.asarray(mask)
    return (bits if bits.dtype == np.uint64 else bits.astype(np.int64).view(np.uint64)) & np.uint64(2**width - 1)


def _named_lanes(rows, here, bits):
    "Return which lanes the mask of each warp names, as (warps, lanes of a warp)"
    first = rows[np.arange(len(rows)), np.argmax(here, 1)] if (bits != bits[0]).any() else rows[:, 0]
    return (bits[first][:, None] >> np.arange(rows.shape[1], dtype=np.uint64)) & 1


class Detectors:
    "The four detectors as the options enable them; `shadowed`: does one of them need every access?"

    def __init__(self):
        self.memcheck = Memcheck(checking('memcheck'))
        self.racecheck = Racecheck(checking('racecheck'), inside=self.memcheck.on)
        self.initcheck = Initcheck(checking('initcheck'), self.racecheck)
        self.synccheck = Synccheck(checking('synccheck'))
        self.shadowed = self.racecheck.on or self.initcheck.on

    def read(self, run, lanes, v, off, site):
        "Check a read by `lanes` of the elements at `off` of the view `v`"
        wrote = v.mem.shadow.wrote[off]
        self.initcheck.read(run, lanes, v, off, wrote, site)
        if self.racecheck.on:
            self.racecheck.read(run, lanes, v, off, wrote, site)
            self.racecheck.note(run, v, site)

    def write(self, run, lanes, v, off, value, site, atomic=False):
        "Check a write of `value` by `lanes`; None: an atomic, which reads the elements, too"
        shadow = v.mem.shadow
        wrote = shadow.wrote[off]
        if atomic and value is None:
            self.initcheck.read(run, lanes, v, off, wrote, site, atomic)
        if self.racecheck.on:
            self.racecheck.write(run, lanes, v, off, wrote, value, site, atomic)
            self.racecheck.note(run, v, site)
        else:
            shadow.wrote[off] = run.now
