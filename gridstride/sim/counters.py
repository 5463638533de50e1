"""What the hardware would count per line of a kernel: requests, sectors, wavefronts, bank conflicts, branches."""

from collections import defaultdict
from contextlib import contextmanager

import numpy as np

from ..support import counters
from ..support.memory_transactions import sectors, wavefronts
from .kernel import tracing


class Counters(counters.Counters):
    "Hardware counters by name, also as attributes; `lanes/requests` is the average number of lanes per memory request"

    NAMES = (
        *(
            f'global_{way}_{counter}'
            for way in ('load', 'store')
            for counter in ('requests', 'sectors', 'ideal', 'bytes')
        ),
        *(
            f'shared_{way}_{counter}'
            for way in ('load', 'store')
            for counter in ('requests', 'wavefronts', 'conflicts')
        ),
        *('atomics', 'branches', 'divergent_branches', 'barriers', 'requests', 'lanes'),
    )


class Trace:
    "A record of what kernels did: `stats` in total, `lines` per source line, `accesses` one by one if they are kept"

    def __init__(self, keep=200_000):  # keep: how many accesses of single threads are recorded
        self.keep, self.stats, self.lines, self.accesses, self.source = keep, Counters(), defaultdict(Counters), [], {}

    def begin(self, run):
        "Begin a launch"
        self.run = run

    def _count(self, run, site, **counts):
        s = run.program.sites[site]
        self.source[s.line] = s.source
        self.stats.add(**counts)
        self.lines[s.line].add(**counts)

    def access(self, run, lanes, v, off, site, verb):
        "Record that `lanes` access the elements at `off` of the view `v`; `verb`: 'read', 'written', 'atomic'"
        if v.mem.space not in ('shared', 'global'):
            return
        count = self._of_shared if v.mem.space == 'shared' else self._of_global
        requests, counts = count(run.g, lanes, v, off, 'load' if verb == 'read' else 'store')
        if verb == 'atomic':
            counts = dict(atomics=requests)
        self._count(run, site, requests=requests, lanes=len(off), **counts)
        shape = tuple(int(size) if np.ndim(size) == 0 else -1 for size in v.shape)
        what = dict(array=v.name, space=v.mem.space, verb=verb, at=np.asarray(off), size=v.dtype.itemsize, shape=shape)
        self._note(run, lanes, site, len(off), what)

    def _of_shared(self, g, lanes, v, off, way):
        "Count an access of shared memory; returns (requests, counters)"
        size = v.dtype.itemsize
        byte = off * size - (g.local[lanes] * (len(v.mem.data) // g.count) * size if g.count > 1 else 0)
        n, waves, more = wavefronts(g.warp[lanes], g.lane[lanes], byte, size, g.width)
        names = (f'shared_{way}_{counter}' for counter in ('requests', 'wavefronts', 'conflicts'))
        return n, dict(zip(names, (n, waves, more)))

    def _of_global(self, g, lanes, v, off, way):
        "Count an access of global memory; returns (requests, counters)"
        size = v.dtype.itemsize
        n, touched, ideal = sectors(g.warp[lanes], off * size, size)
        names = (f'global_{way}_{counter}' for counter in ('requests', 'sectors', 'ideal', 'bytes'))
        return n, dict(zip(names, (n, touched, ideal, len(off) * size)))

    def _note(self, run, lanes, site, n, what):
        "Record what `n` threads did, while the limit allows"
        if self.keep > 0:
            self.keep -= n
            line = run.program.sites[site].line
            self.accesses.append(dict(time=run.now, line=line, block=run.g.b[lanes], thread=run.g.t[lanes], **what))

    def branch(self, run, m, yes, no, site):
        "Record a branch: the lanes of `m` diverge into `yes` and `no`"
        w = run.g.warps * run.g.count

        def warps(mask):
            return np.zeros(w, bool) if mask is None else np.bincount(run.g.warp[mask], minlength=w) > 0

        a, b = warps(yes), warps(no)
        self._count(run, site, branches=(a | b).sum(), divergent_branches=(a & b).sum())

    def barrier(self, run, m, site):
        "Record that the lanes of `m` reach a barrier"
        self._count(run, site, barriers=len(np.unique(run.g.warp[m])))
        self._note(run, m, site, 0, dict(array='', space='', verb='barrier', at=np.zeros(0, int), size=0, shape=()))

    def __repr__(self):
        titles = ('requests', 'sectors', 'ideal', 'wavefr.', 'confl.')
        head = f"{'line':>5} {' '.join(f'{title:>9}' for title in titles)} {'diverg.':>8}  source"
        return '\n'.join([head, *(self._row(n, c) for n, c in sorted(self.lines.items()))])

    def _row(self, n, c):
        "Format a line of the kernel with its counters"
        counts = (
            c.requests,
            c.global_load_sectors + c.global_store_sectors,
            c.global_load_ideal + c.global_store_ideal,
            c.shared_load_wavefronts + c.shared_store_wavefronts,
            c.shared_load_conflicts + c.shared_store_conflicts,
        )
        return f"{n:>5} {' '.join(f'{count:>9,}' for count in counts)} {c.divergent_branches:>8,}  {self.source[n]}"


@contextmanager
def trace(keep=200_000):  # how many accesses of single threads are recorded, for pictures
    "Record what the kernels launched in the `with` block do"
    t = Trace(keep)
    tracing.append(t)
    try:
        yield t
    finally:
        tracing.remove(t)
