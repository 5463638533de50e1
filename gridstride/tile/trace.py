"""What kernels did while they were traced: accesses, bytes and sectors per line, who accessed what."""

import linecache
from collections import defaultdict
from contextlib import contextmanager

import numpy as np

from ..support import counters

__all__ = ['Counters', 'Trace', 'trace', 'paused', 'recorder']

_SECTOR = 32  # bytes: the granularity of memory transactions


class Counters(counters.Counters):
    "Counters by name, also as attributes; `load_bytes/load_sectors/32` is the fraction of loaded bytes that was used"

    WIDTH = 16
    NAMES = (
        'programs',
        'loads',
        'load_bytes',
        'load_sectors',
        'stores',
        'store_bytes',
        'store_sectors',
        'atomics',
        'lanes',
        'masked_lanes',
    )


class Trace:
    "A record of what kernels did: `stats` in total, `lines` per source line, `accesses` one by one if they are kept"

    def __init__(self, keep=1_000_000):  # keep: how many lanes' accesses are recorded
        self.keep, self.stats, self.lines, self.accesses, self.source = keep, Counters(), defaultdict(Counters), [], {}
        self.grid = None  # of the launch that was recorded last

    def begin(self, run):
        "Begin a launch"
        self.grid = run.grid

    def program(self):
        "Begin a program"
        self.stats.add(programs=1)

    def access(self, run, region, active, verb, frame, p, mask):
        "Record that the running program accesses the elements `active`; `verb`: 'read', 'written', 'atomic'"
        line = frame.f_lineno
        file = frame.f_code.co_filename
        self.source.setdefault(line, linecache.getline(file, line).strip())
        sectors = np.unique((active * region.item + region.address) // _SECTOR).size
        counts = dict(lanes=active.size, masked_lanes=p.data.size - active.size)
        if verb == 'atomic':
            counts.update(atomics=1)
        else:
            way = 'load' if verb == 'read' else 'store'
            counts |= {f'{way}s': 1, f'{way}_bytes': active.size * region.item, f'{way}_sectors': sectors}
        self.stats.add(**counts)
        self.lines[line].add(**counts)
        if self.keep > 0:
            self.keep -= active.size
            self.accesses.append(self._keep(run, region, active, verb, line, p, mask))

    def walk(
        self,
        array,  # the array's name in the kernel; it has two axes
        verb='written',  # 'read', 'written' or 'atomic'
    ) -> np.ndarray:  # one value per tile; -1 where no program accessed it
        "Return the order in which programs reach an array's tiles, for `draw.cells`; the largest access is the tile"
        found = [a for a in self.accesses if a['array'] == array and a['verb'] == verb and len(a['shape']) == 2]
        if not found:
            raise ValueError(f'nothing with two axes called {array!r} was {verb} in this trace')
        w = found[0]['shape'][1]
        boxes = [(a['at'] // w, a['at'] % w) for a in found if len(a['at'])]
        size = [max(int(np.ptp(b[axis])) + 1 for b in boxes) for axis in (0, 1)]
        order = np.full([-(-n // s) for n, s in zip(found[0]['shape'], size)], -1)
        for r, c in boxes:
            tile = r.min() // size[0], c.min() // size[1]
            if order[tile] < 0:
                order[tile] = order.max() + 1
        return order

    def _keep(self, run, region, active, verb, line, p, mask):
        "Keep an access for the pictures of `draw`; `block` is the program's index in the grid, `thread` the lane"
        x, y, z = run.program
        number = x + run.grid[0] * (y + run.grid[1] * z)
        lanes = np.flatnonzero(mask) if mask is not None and p.data.ndim else np.arange(active.size)
        return dict(
            time=len(self.accesses),
            line=line,
            array=region.name,
            space='global',
            verb=verb,
            block=np.full(active.size, number),
            program=run.program,
            thread=lanes,
            at=region.flat_index(active),
            size=region.item,
            shape=tuple(map(int, region.shape)),
        )


_recorder = [None]


def recorder():
    "Return the trace that is recording, or None"
    return _recorder[0]


@contextmanager
def paused():
    "Pause recording in the `with` block"
    before = _recorder[0]
    _recorder[0] = None
    try:
        yield
    finally:
        _recorder[0] = before


@contextmanager
def trace(
    keep=1_000_000,  # how many lanes' accesses are recorded one by one
):
    "Record a `Trace` of all kernels that run checked in the `with` block"
    before = _recorder[0]
    _recorder[0] = Trace(keep)
    try:
        yield _recorder[0]
    finally:
        _recorder[0] = before
