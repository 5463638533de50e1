"""The detectors' shadow memory of an array: which programs read and wrote its elements, and which are uninitialized.

`racecheck` finds data races of programs: two access an element, one of them writes, and neither access happens before
the other (`Run.happens_before`, whose comments name the same in the other two engines).
"""

import numpy as np

from .run import access_of, differ, finding

__all__ = ['Shadow']


_NOW = {'atomic': 'updated by an atomic'}


class Shadow:
    "The shadow memory of an array: per element the stamps of its last write and atomic, its first and last read"

    def __init__(self, region):
        self.region = region
        self.wrote = self.updated = self.first = self.last = None
        self.reads = []  # of a memory without a write so far: (offsets, stamp)
        self.latest = 0, None  # (stamp, offsets) of the latest read
        self.noted, self.reused = 0, False  # reused: was an element updated, or read and then written?
        self.unwritten = None
        self.clocks = None  # of elements that atomics have used: the latest `ReleaseEvent` there

    def begin(self, region):
        "Note which elements of an array are uninitialized: all, if every one is NaN when the launch begins"
        if region.dtype.rank < 2 or region.dtype is not self.region.dtype or 0 in region.shape:
            return
        first = region.flat[region.begin]
        if first == first:
            return
        if min(region.strides, default=0) < 0 or ((held := region.view(region.flat)) == held).any():
            return
        if self.unwritten is None:
            self.unwritten = np.zeros(self.region.size, bool)
        region.view(self.unwritten)[...] = True

    def offsets_of(self, region, active):
        "Convert offsets in elements of another type to elements of the type that is recorded"
        return np.minimum(active * region.item // self.region.item, self.region.size - 1)

    def initcheck(self, region, active, at, verb, lane):
        "Raise a finding if an uninitialized element is read"
        if verb == 'written':
            self.unwritten[at] = False
            return
        bad = self.unwritten[at]
        if bad.any():
            i = int(np.argmax(bad))
            if region.flat[active[i]] == region.flat[active[i]]:  # the host wrote it in between
                self.unwritten[at] &= region.flat[active] != region.flat[active]
                return
            raise finding(
                'initcheck', 'unwritten_program', dict(array=region.name, index=region.index_of(active[i])), lane(i)
            )
        if verb == 'atomic':
            self.unwritten[at] = False

    def _begin(self):
        "Allocate the stamps of every element, at the first write"
        n = self.region.size
        self.wrote, self.updated, self.first, self.last = (np.zeros(n, np.int64) for _ in range(4))
        for at, stamp in self.reads:
            self._read(at, stamp)
        self.reads = []

    def _read(self, at, stamp):
        first = self.first[at]
        self.first[at] = np.where(first == 0, stamp, first)
        self.last[at] = stamp

    def racecheck(self, run, region, active, at, verb, lane, value):
        "Raise a data race if another program's access to an element does not happen before this one"
        stamp = len(run.stamps) - 1
        if verb == 'read':
            self.latest = stamp, at
        if self.wrote is None:
            if verb == 'read':
                self.reads.append((at, stamp))
                self.noted += at.size
                if self.noted > 1 << 22:
                    self._begin()
                return
            self._begin()
        if run.tuned and (verb == 'atomic' or verb == 'written' and self.first[at].any()):
            self.reused = True
        suspects = [self.wrote]
        if verb != 'atomic':
            suspects.append(self.updated)
        if verb != 'read':
            suspects += [self.first, self.last]
        for before in suspects:
            then = before[at]
            other = (then != 0) & (then < run.start)
            if other.any():
                self._judge(run, region, active, then, other, verb, lane, value)
        if verb == 'read':
            self._read(at, stamp)
        elif verb == 'atomic':
            self.updated[at] = stamp
        else:
            self._update(run, region, active, at, lane, value)
            self.wrote[at] = stamp
            self.first[at] = self.last[at] = self.updated[at] = 0

    def _update(self, run, region, active, at, lane, value):
        "Raise a finding if several lanes write an element that this program has read: an update gets lost"
        if at.size == 1 or not (mine := self.last[at] >= run.start).any():
            return
        order = np.argsort(at, kind='stable')
        again = np.flatnonzero((np.diff(at[order]) == 0) & mine[order[1:]])
        if again.size:
            again = again[self._loses(region.flat[active], at, value, order[again], order[again + 1])]
        if again.size:
            i = int(order[again[0]])
            raise finding(
                'racecheck', 'lanes_update', dict(array=region.name, index=region.index_of(active[i])), lane(i)
            )

    def _loses(self, old, at, value, first, second):
        """Return which pairs of lanes that write one element may lose an update.

        None does if both write the value that is there, or one value that the two have not computed from the element
        itself: a number, or the result of a reduction, for which all lanes have read before any writes."""
        stamp, read = self.latest
        by_block = (self.last[at[first]] == stamp) & (read is not None and read.size > 1)
        if not np.ndim(value):
            return ~by_block & differ(old[first], value)
        equal = ~differ(value[first], value[second])
        if read is not None and read.size == at.size:
            by_block &= (read[first] != at[first]) | (read[second] != at[second])
            equal &= by_block | ~differ(old[first], value[first])
        else:
            equal &= ~differ(old[first], value[first])
        return ~equal

    def _judge(self, run, region, active, then, other, verb, lane, value):
        for i in np.flatnonzero(other):
            number, _, _, before, _ = run.stamps[then[i]]
            if number == run.number:
                continue
            fields = dict(array=region.name, index=region.index_of(active[i]))
            if run.happens_before(then[i]):
                run.check_release(then[i], fields, _NOW.get(verb, verb))
                continue
            if before == verb == 'written' and _same(region.flat[active[i]], value, i):
                run.same_value(fields)
                continue
            code = 'programs_atomic' if 'atomic' in (before, verb) else 'programs'
            fields.update(before=_NOW.get(before, before), now=_NOW.get(verb, verb))
            raise finding('racecheck', code, fields, lane(i), access_of(run, then[i]))


def _same(before, value, i):
    "Return whether the element already has the value that is written"
    now = np.asarray(value[i] if np.ndim(value) else value)
    return now.tobytes() == np.asarray(before).tobytes()
