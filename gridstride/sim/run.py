"""The context of one launch: the running group of threads, the time, the detectors and the trace."""

import linecache
from functools import cached_property

import numpy as np

from ..diagnostics.errors import NotSimulated, Location, exception_of
from ..diagnostics.launch_config import launch_error, max_resident_blocks
from ..diagnostics.settings import settings, shuffle
from .detectors import Detectors, calls_of
from .order import MemoryOrder
from .synccheck import cpu_time

__all__ = ['LaunchContext']


class LaunchContext:
    """The context of one launch: the group that runs, the time, the detectors and the trace.

    Each operation of a rewritten kernel gets it as its first argument, `ctx`, and the mask of the active lanes as the
    second one, `active`."""

    now = 0  # the logical time, the number of accesses of all launches so far; the next launch starts at this time
    current = None  # the context of the running launch, or None outside kernels

    def __init__(self, kernel, grid, block, dynamic_shared_bytes, trace=None):
        self.kernel = kernel
        self.grid = grid
        self.block = block
        self.dynamic_shared_bytes = dynamic_shared_bytes
        self.trace = trace
        self.warp_size = settings.warp  # threads per warp
        self.now = LaunchContext.now = LaunchContext.now + 1
        self.deadline = cpu_time() + settings.seconds
        self.detectors, self.memory_order = Detectors(), MemoryOrder(grid.size, self.now)
        self.detectors.racecheck.has_one_thread = grid.size * block.size == 1
        self.runs_one_thread = grid.size * block.size == 1 and trace is None  # whether accesses need no detector
        self.records_accesses = self.detectors.uses_shadow or trace is not None  # whether every access must be reported
        self.concurrent_operations = None  # `ConcurrentOperations`: those that may run at the same time as this launch
        self.program = None  # the running function, a `Program`
        self.progress_count = 0  # number of stores, atomic operations that changed a value, and grid barriers
        self.call_sites = ()  # the sites of the calls on the call stack, the innermost first
        self.last_poll = None  # (data, offsets, values) of the last atomic operation that changed nothing
        self.is_cooperative = False  # whether all blocks must be resident together
        self.blocks_at_grid_barrier = set()  # blocks that wait at a grid barrier, if blocks run one by one
        self.deadlock = None  # (code, fields) of the finding, once all resident blocks are deadlocked

    @cached_property
    def random(self):
        "The random generator for `order='shuffle'`; created on demand: creating it takes longer than a small kernel"
        return np.random.default_rng(settings.seed)

    def shuffle(self, items):
        "Shuffle a list or an array in place, and return it; `settings.swaps` is the maximum number of swaps"
        if settings.swaps < len(items) - 1:
            return shuffle(items, self.random.integers, settings.swaps)
        self.random.shuffle(items)
        return items

    def begin_group(self, group):
        "Begin a group, with new shared memory and barriers"
        self.group = group
        self.block_arrays = {}  # key, such as (program, site) -> shared or local array
        self._lane_order = None  # the order in which lanes run; None for ascending
        self.memory_order.begin_group(group, self.now)
        if settings.order == 'reverse':
            self._lane_order = np.arange(group.size)[::-1]
        if settings.order == 'shuffle':
            self._lane_order = self.shuffle(np.arange(group.size))
        self._active_cache = None, None  # the last mask, and the indices of its lanes

    _GROUP_STATE = 'group', 'block_arrays', 'program', 'call_sites', '_lane_order'

    def save_group(self):
        "Return the state of the current group, before another one begins or continues"
        return {name: getattr(self, name) for name in self._GROUP_STATE}, self.memory_order.save_group()

    def restore_group(self, state):
        "Continue the group whose state `save_group` returned"
        attributes, order_state = state
        vars(self).update(attributes, _active_cache=(None, None))
        self.memory_order.restore_group(order_state)

    @property
    def shared_bytes(self):
        "The bytes of shared memory per block: its arrays, and the dynamic shared memory of the launch"
        arrays = (array.nbytes for key, array in self.block_arrays.items() if key[0] not in ('local', 'dynamic'))
        return self.dynamic_shared_bytes + sum(arrays) // self.group.num_blocks

    @property
    def max_resident_blocks(self):
        "The number of blocks of this launch that can be resident at once"
        return max_resident_blocks(self.block.size, self.shared_bytes)

    def require_resident(self, shared_bytes):
        "Raise `LaunchError` if the launch is cooperative and its blocks, with `shared_bytes` each, cannot be resident"
        num_resident = max_resident_blocks(self.block.size, shared_bytes)
        if self.is_cooperative and self.grid.size > num_resident:
            raise launch_error(self.kernel, 'cooperative_size', blocks=self.grid.size, resident=num_resident)

    # Lanes

    def active_lanes(self, active):
        "Return the indices of the lanes of a mask, in the order in which they run"
        if self._active_cache[0] is not active:
            order = self._lane_order
            self._active_cache = active, active.nonzero()[0] if order is None else order[active[order]]
        return self._active_cache[1]

    def broadcast_to_active(self, active, value):
        "Broadcast `value` to one value per *active* lane, in the order in which the threads run"
        if np.ndim(value) == 0:
            num_active = len(self.active_lanes(active))
            return np.array([value]) if num_active == 1 else np.full(num_active, value)  # `full` takes longer
        is_in_order = active is self.group.all_lanes and self._lane_order is None
        return value if is_in_order else value[self.active_lanes(active)]

    def broadcast_to_lanes(self, value):
        "Broadcast `value` to one value per lane of the group"
        return np.broadcast_to(np.asarray(value), self.group.size)

    # Events

    def access(self, active, view, offsets, site, kind, value=None):
        """Report an access; `kind` is 'read', 'written' or 'atomic'.

        `offsets` has one element per lane for a read, and one per active lane for a write."""
        if self.runs_one_thread and kind != 'atomic':
            if not (kind == 'read' and self.detectors.initcheck.is_uninitialized(view.mem, offsets)):
                return self.access_by_one_thread(view, offsets, kind)
        lanes = self.active_lanes(active)
        if kind == 'read' and np.ndim(offsets) == 0 and self.trace is None:
            lanes = self.detectors.relevant_readers(self, lanes, view.mem, offsets)
            offsets = np.full(len(lanes), offsets)
        elif kind == 'read':
            offsets = self.broadcast_to_active(active, offsets)
        self.now += 1
        if self.trace is not None:
            self.trace.record_access(self, lanes, view, offsets, site, kind)
        if kind == 'read':
            if self.detectors.uses_shadow:
                self.detectors.read(self, lanes, view, offsets, site)
            return
        if self.detectors.uses_shadow:
            self.detectors.write(self, lanes, view, offsets, value, site, kind == 'atomic')
        self.progress_count += 1

    def access_by_one_thread(self, view, offsets, kind):
        "Record an access that needs no check, because no other thread exists"
        self.now += 1
        if kind == 'written':
            self.progress_count += 1
            if view.mem.tracks_init:
                view.mem.shadow.write_time[offsets] = self.now

    def barrier(self, active, site):
        "Execute `syncthreads`; raises a finding if only some threads of a block arrive"
        self.detectors.racecheck.raise_deferred(self, active)
        self.now += 1
        if active is self.group.all_lanes:
            indices_in_group = np.arange(self.group.num_blocks)
        else:
            indices_in_group = np.flatnonzero(self.detectors.synccheck.check_barrier(self, active, site) > 0)
        self.detectors.initcheck.check_at_barrier(self.group.first_block, indices_in_group)
        self.memory_order.block_barrier(self.group, indices_in_group, self.now)
        if self.trace is not None:
            self.trace.record_barrier(self, active, site)

    def grid_barrier(self):
        "Execute a grid barrier: it orders all earlier accesses"
        self.detectors.initcheck.check_at_end('global')
        self.memory_order.ordered_until = self.now

    # Findings

    def is_allowed(self, code, site):
        "Return whether the user allows a finding at a site, so that the kernel continues"
        allowed = settings.allowed_findings
        return bool(allowed) and (code, self.kernel, self.program.sites[site].line) in allowed

    def location(self, site, active=None, lane=None):
        """Return the `Location` of a site and a thread.

        The thread is that of `lane`, or else of the first lane of `active`; None if neither is passed."""
        source_site = self.program.sites[site]
        lane = lane if lane is not None else self.active_lanes(active)[0] if active is not None else None
        block, thread = self.group.position(lane) if lane is not None else (None, None)
        first_line = self.program.py_func.__code__.co_firstlineno
        lines = linecache.getlines(source_site.file)
        context_lines = dict(
            preceding_lines=''.join(lines[first_line - 1 : source_site.line - 1]),
            following_lines=''.join(lines[source_site.line - 1 :]),
        )
        calls = calls_of(source_site, self.call_sites)
        call_site = (calls[-1].line, calls[-1].source, calls[-1].file) if self.call_sites else None
        return Location(
            self.kernel,
            source_site.file,
            source_site.line,
            source_site.source,
            block,
            thread,
            call_site,
            calls=calls,
            **context_lines,
        )

    def finding(self, kind, code, site, active=None, reported_lane=None, other=None, **fields):
        """Make the exception for a finding at a site.

        The finding reports the thread of `reported_lane`, or else that of the first lane of `active`. `other` is the
        `Location` of a second access, such as the earlier one of a data race; `fields` fill in the message."""
        return exception_of(kind, code, 'python', fields, self.location(site, active, reported_lane), other)

    def unsupported_error(self, site, active, problem, hint='', exception_type=NotSimulated):
        "Make the exception for an operation of a kernel that is not supported"
        location = self.location(site, active)
        return exception_type(
            problem,
            hint,
            kernel=location.kernel,
            file=location.file,
            line=location.line,
            source=location.source,
            block=location.block,
            thread=location.thread,
        )
