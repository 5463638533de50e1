"""What the detectors remember of an array's elements: who read and wrote them, and which nobody has written."""

import numpy as np

from .run import access_of, finding

__all__ = ['Shadow']


class Shadow:
    "Of each element of a region: the stamp of its last write, of its first and its last read"

    def __init__(self, region):
        self.region = region
        self.wrote = self.first = self.last = None
        self.reads = []  # of an array that nobody has written yet: (offsets, stamp)
        self.noted = 0
        self.unwritten = _is_fresh(region.flat)

    def extended(self, region):
        "For arrays that overlap: one shadow of all their bytes"
        return self

    def place(self, region, active):
        "Offsets of another region as offsets of the one that is remembered"
        here = self.region
        if region.item == here.item:
            return np.clip(active + (region.address - here.address) // here.item, 0, here.size - 1)
        byte = active * region.item + (region.address - here.address)
        return np.clip(byte // here.item, 0, here.size - 1)

    def initcheck(self, region, active, at, verb, lane):
        "A finding if an element is read that nobody has written"
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
        "From the first write on every element has its stamps"
        n = self.region.size
        self.wrote, self.first, self.last = (np.zeros(n, np.int64) for _ in range(3))
        for at, stamp in self.reads:
            self._read(at, stamp)
        self.reads = []

    def _read(self, at, stamp):
        first = self.first[at]
        self.first[at] = np.where(first == 0, stamp, first)
        self.last[at] = stamp

    def racecheck(self, run, region, active, at, verb, lane, value):
        "A finding if another program's access to an element is not ordered with this one"
        stamp = len(run.stamps) - 1
        if self.wrote is None:
            if verb == 'read':
                self.reads.append((at, stamp))
                self.noted += at.size
                if self.noted > 1 << 22:
                    self._begin()
                return
            self._begin()
        suspects = (self.wrote,) if verb == 'read' else (self.wrote, self.first, self.last)
        for before in suspects:
            then = before[at]
            other = (then != 0) & (then < run.start)
            if other.any():
                self._judge(run, region, active, then, other, verb, lane, value)
        if verb == 'read':
            self._read(at, stamp)
        else:
            self.wrote[at] = stamp

    def _judge(self, run, region, active, then, other, verb, lane, value):
        for i in np.flatnonzero(other):
            number, _, _, _, before = run.stamps[then[i]]
            if number == run.number or before == verb == 'atomic' or run.ordered(then[i]):
                continue
            fields = dict(array=region.name, index=region.index_of(active[i]), before=before, now=verb)
            if before == 'atomic' or verb == 'atomic':
                code = 'programs_atomic'
            else:
                code = 'programs'
            raise finding('racecheck', code, fields, lane(i), access_of(run, then[i]))


def _is_fresh(flat):
    "Which elements nobody has written: all, if every one is NaN when the launch begins"
    if flat.dtype.kind in 'biu' or not flat.size or flat[0] == flat[0]:
        return None
    return np.ones(flat.size, bool) if np.isnan(flat.astype(np.float32, copy=False)).all() else None
