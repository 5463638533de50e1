"""The context of one launch: the running group of threads, the time, the detectors and the trace."""

import linecache
import time
from functools import cached_property

import numpy as np

from ..diagnostics.errors import NotSimulated, Location, exception_of
from ..diagnostics.launch_config import launch_error, resident
from ..diagnostics.settings import settings
from .detectors import Detectors, calls_of
from .order import Order

__all__ = ['LaunchContext']


class LaunchContext:
    """The context of one launch: the current group, the time, the detectors and the trace, for the program and its
    operations"""

    now = 0  # the time at which the last launch ended: it continues from launch to launch
    current = None  # the running launch, or None outside kernels

    def __init__(self, kernel, grid, block, dynamic, trace=None):  # dynamic: bytes of dynamic shared memory
        self.kernel = kernel
        self.grid = grid
        self.block = block
        self.dynamic = dynamic
        self.trace = trace
        self.warp = settings.warp  # threads per warp
        self.now = LaunchContext.now = LaunchContext.now + 1
        self.deadline = time.monotonic() + settings.seconds
        self.detectors, self.order = Detectors(), Order(grid.size, self.now)
        self.watched = self.detectors.shadowed or trace is not None  # must every access be reported?
        self.crossing = None  # what operations of other streams access that are not ordered before this launch
        self.program, self.changes = None, 0  # the running function; how often memory was changed
        self.callers = ()  # the sites of the calls that led to the running function, the innermost first
        self.polled = None  # what an atomic operation has read and written: memory, offsets, values
        self.cooperative = False  # must all blocks be resident together?
        self.at_grid = set()  # blocks that are at the grid's barrier, if they run one by one
        self.never = None  # once all resident blocks are deadlocked: the code of the finding, and its fields

    @cached_property
    def random(self):
        "Its random generator, for `order='shuffle'` only: making one takes longer than a small kernel"
        return np.random.default_rng(settings.seed)

    def begin(self, g, alone):
        "Start the group `g`: new shared memory, new barriers; `alone` as for `Order.begin`"
        self.g = g
        self.shared = {}
        self._seq = None
        self.order.begin(g, self.now, alone)
        if settings.order == 'reverse':
            self._seq = np.arange(g.size)[::-1]
        if settings.order == 'shuffle':
            self._seq = self.random.permutation(g.size)
        self._of = None, None

    def leave(self):
        "Save the state of the current group, before another one starts or continues"
        return {k: getattr(self, k) for k in ('g', 'shared', 'program', 'callers', '_seq')}, self.order.leave()

    def enter(self, left):
        "Restore the group whose state `leave` saved"
        vars(self).update(left[0], _of=(None, None))
        self.order.enter(left[1])

    @property
    def shared_bytes(self):
        "Bytes of shared memory per block: its arrays, and the dynamic shared memory of the launch"
        arrays = (v.nbytes for k, v in self.shared.items() if k[0] not in ('local', 'dynamic'))
        return self.dynamic + sum(arrays) // self.g.count

    @property
    def resident(self):
        "How many blocks of this launch are resident at once"
        return resident(self.block.size, self.shared_bytes)

    def require_resident(self, shared):
        "Raise `LaunchError` if the launch is cooperative and its blocks, with `shared` bytes each, are too many"
        if self.cooperative and self.grid.size > (fit := resident(self.block.size, shared)):
            raise launch_error(self.kernel, 'cooperative_size', blocks=self.grid.size, resident=fit)

    # Lanes

    def active(self, m):
        "Return the indices of the active lanes, in the order in which they run"
        if self._of[0] is not m:
            lanes = np.flatnonzero(m) if self._seq is None else self._seq[m[self._seq]]
            self._of = m, lanes
        return self._of[1]

    def broadcast_to_active(self, m, v):
        "Broadcast `v` to one value per *active* lane, in the order in which the threads run"
        if np.ndim(v) == 0:
            return np.full(len(self.active(m)), v)
        return v if m is self.g.all and self._seq is None else v[self.active(m)]

    def broadcast_to_lanes(self, v):
        "Broadcast `v` to one value per lane of the group"
        return np.broadcast_to(np.asarray(v), self.g.size)

    # Events

    def access(self, m, v, off, site, verb, value=None):
        "Report an access to the detectors and the trace; `off` has all lanes for a read, the active lanes for a write"
        lanes = self.active(m)
        off = self.broadcast_to_active(m, off) if verb == 'read' else off
        self.now += 1
        if self.trace is not None:
            self.trace.access(self, lanes, v, off, site, verb)
        if verb == 'read':
            if self.detectors.shadowed:
                self.detectors.read(self, lanes, v, off, site)
            return
        if self.detectors.shadowed:
            self.detectors.write(self, lanes, v, off, value, site, verb == 'atomic')
        self.changes += 1

    def barrier(self, m, site):
        "Execute `syncthreads`; raises a finding if a thread of the block is elsewhere"
        self.detectors.racecheck.report_held(self, m)
        self.now += 1
        if m is self.g.all:
            met = np.arange(self.g.count)
        else:
            met = np.flatnonzero(self.detectors.synccheck.barrier(self, m, site) > 0)
        self.detectors.initcheck.at_barrier(self.g.first, met)
        self.order.meet(self.g, met, self.now)
        if self.trace is not None:
            self.trace.barrier(self, m, site)

    def order_all(self):
        "Execute the grid's barrier: it orders all earlier accesses"
        self.detectors.initcheck.at_end(self, 'global')
        self.order.start = self.now

    # Findings

    def location(self, site, m=None, lane=None):
        "Return the `Location` of a site; with the thread of `lane`, or of the first lane of `m`, if there is one"
        s = self.program.sites[site]
        lane = lane if lane is not None else self.active(m)[0] if m is not None else None
        block, thread = self.g.who(lane) if lane is not None else (None, None)
        first = self.program.f.__code__.co_firstlineno
        lines = linecache.getlines(s.file)
        around = dict(above=''.join(lines[first - 1 : s.line - 1]), onward=''.join(lines[s.line - 1 :]))
        calls = calls_of(s, self.callers)
        called = (calls[-1].line, calls[-1].source, calls[-1].file) if self.callers else None
        return Location(self.kernel, s.file, s.line, s.source, block, thread, called, calls=calls, **around)

    def finding(self, kind, code, site, m=None, by=None, other=None, **fields):
        "Make the exception about a site, for the thread of lane `by` or of the first lane of `m`"
        return exception_of(kind, code, 'python', fields, self.location(site, m, by), other)

    def refusal(self, site, m, what, hint='', kind=NotSimulated):
        "Make the exception for what is not simulated, or one of another class"
        location = self.location(site, m)
        return kind(
            what,
            hint,
            kernel=location.kernel,
            file=location.file,
            line=location.line,
            source=location.source,
            block=location.block,
            thread=location.thread,
        )
