"""Finds data races between the operations of streams and the host: launches, copies, and accesses by the host.

On a GPU, a launch or a copy runs in the background. In the simulator it runs immediately, and this module computes
which operations happen before it: earlier operations of its stream, operations before an event that the stream has
waited for, operations that the legacy default stream orders, and all operations that the host has waited for. Each
stream has a vector clock, {other stream: number of its operations that happen before the next operation of this
stream}. The host has one, too. The shadow of an array records the launch that accessed an element; a copy records the
elements that it accesses.

Not modelled: kernels of `engine='c'`; tensors, plain NumPy arrays and elements of records, whose shadow is discarded
after the launch; streams of other libraries and the per-thread default stream, which count as the default stream; reads
of a pinned array other than by an index, a ufunc or a method (`np.asarray`). An atomic operation on an element that
another launch has changed atomically orders all of that launch. Two kernels that write the same value do not race.
"""

import linecache
import sys
from contextlib import contextmanager, nullcontext
from typing import NamedTuple
from weakref import ref

import numpy as np

from ..diagnostics.errors import Access, Location, exception_of, learner_stacklevel
from ..diagnostics.formatting import Phrase
from ..diagnostics.settings import is_check_enabled
from ..support import array_memory
from ..support.array_memory import address
from .detectors import element_at

__all__ = ['copying', 'check_host_access', 'launching', 'stream_order', 'source_line']

_MAX_PENDING = 256  # pending operations; older ones count as ordered
_MAX_HISTORY = 20_000  # accesses; messages about a launch with more do not name its line


class AccessedRegion(NamedTuple):
    "The elements of a memory that a copy reads or writes"

    mem: ref  # to the `Mem`
    first_offset: int
    shape: tuple
    strides: tuple  # in elements
    writes: bool


def accessed_region(a, mem, writes):
    "Return the `AccessedRegion` that the array `a` covers; None if `a` has another type than `mem`, or no elements"
    if a.dtype != mem.data.dtype or not a.size:
        return None
    step = mem.data.strides[0] or a.itemsize
    first_offset = (address(a) - address(mem.data)) // step
    return AccessedRegion(ref(mem), first_offset, a.shape, tuple(s // step for s in a.strides), writes)


def _select_region(region, values):
    "Return the values of the elements of a region; `values` has one value per element of its memory"
    return array_memory.strided_view(values, region.first_offset, region.shape, region.strides)


def _region_mask(region):
    "Return a mask over the memory of a region: whether each element is in the region"
    mask = np.zeros(len(region.mem().data), bool)
    _select_region(region, mask)[...] = True
    return mask


def _first_index(mask, index):
    "Return the index in `mask` of the first true element of `mask[index]`; None if there is none"
    mask = np.asarray(mask)
    selected_mask = np.asarray(mask[index])
    if not selected_mask.any():
        return None
    indices = np.asarray(np.arange(mask.size).reshape(mask.shape)[index])
    return tuple(int(i) for i in np.unravel_index(indices[selected_mask][0], mask.shape))


class Operation:
    """A launch or a copy, with a vector clock of the operations that happen before it.

    The clock is a dict, stream -> n: the first n operations of this stream happen before. So operation `number` of a
    stream happens before an event whose clock has at least `number` for this stream."""

    def __init__(self, name, stream, number, clock, location, is_launch):
        self.name = name
        self.stream = stream
        self.number = number
        self.clock = clock
        self.location = location  # (file, line) of the call
        self.is_launch = is_launch  # whether the operation is the launch of a kernel
        self.begin = self.end = 0  # the detectors' time at the start and the end of a launch
        self.regions = []  # of a copy: the `AccessedRegion`s that it accesses
        self.history = ()  # of a launch: `Racecheck.history`
        self.position_of_thread = None  # of a launch: `Group.position_of_thread`

    def is_before(self, clock):
        "Return whether the operation happens before an event with this clock"
        return clock.get(self.stream.number, 0) >= self.number

    def contains_times(self, times):
        "Return a mask of the access times that are in this launch"
        return (times > self.begin) & (times <= self.end)

    def phrase(self):
        "Return the `Phrase` that names this operation in messages"
        number, line = self.stream.number, self.stream.line
        stream = Phrase('created_stream' if number else 'default_stream', dict(number=number, created=line))
        return Phrase(
            'kernel_on' if self.is_launch else 'call_on', dict(name=self.name, line=self.location[1], stream=stream)
        )


class _DefaultStream:
    "The legacy default stream, which is ordered with all others"

    number, line = 0, 0


def _as_stream(stream):
    "Return the argument `stream` of a call if it is a `Stream`, else the default stream"
    return stream if hasattr(stream, 'number') and hasattr(stream, 'line') else _DefaultStream


def _join(clock, other_clock):
    "Set `clock` to the elementwise maximum of both vector clocks"
    for stream, count in other_clock.items():
        clock[stream] = max(clock.get(stream, 0), count)


def source_line():
    "Return (file, line) of the calling line in the learner's code"
    frame = sys._getframe(learner_stacklevel() - 1)
    return frame.f_code.co_filename, frame.f_lineno


class StreamOrder:
    "The operations that the host has not waited for, and the vector clocks of the streams and the host"

    def __init__(self):
        self.pending_operations = []
        self.host_clock = {}
        self.num_operations = {}  # stream -> number of its operations so far
        self.clocks = {}  # stream -> vector clock of its next operation
        self.has_host_arrays = False  # whether kernels may access a host array

    def clock_of(self, stream):
        "Return the vector clock of the next operation of a stream"
        number = _as_stream(stream).number
        clock = self.clocks.setdefault(number, {})
        _join(clock, self.host_clock)
        for other_stream in [0] if number else list(self.clocks):
            _join(clock, self.clocks.get(other_stream, {}))
        return clock

    def begin(self, name, stream, location, is_launch=False):
        "Begin an operation of a stream, and return it"
        stream = _as_stream(stream)
        clock = self.clock_of(stream)
        stream_number = stream.number
        number = self.num_operations.get(stream_number, 0) + 1
        clock[stream_number] = self.num_operations[stream_number] = number
        operation = Operation(name, stream, number, dict(clock), location, is_launch)
        self.pending_operations = [*self.pending_operations[-_MAX_PENDING:], operation]
        return operation

    def wait(self, clock):
        "Make the host wait for every operation that happens before `clock`"
        _join(self.host_clock, clock)
        self.pending_operations = [op for op in self.pending_operations if not op.is_before(self.host_clock)]
        if not self.pending_operations:  # every operation happens before the next one
            self.host_clock, self.clocks = {}, {}

    def join(self, stream, clock):
        "Make the next operation of a stream wait for every operation that happens before `clock`"
        _join(self.clock_of(stream), clock)

    def wait_for(self, stream):
        "Synchronize the host with a stream; the default stream waits for all others"
        if self.pending_operations:
            self.wait(dict(self.clock_of(stream)))

    def order_default_stream(self, host_waits):
        "Order an operation of the default stream, which is not recorded because it happens before all later ones"
        if self.pending_operations:
            clock = self.clock_of(None)
            if host_waits:
                self.wait(dict(clock))

    def wait_for_all(self):
        "Synchronize the host with the device"
        if self.pending_operations:
            self.wait(dict(self.num_operations))

    def find_conflict(self, region, clock, index=...):
        """Find a pending operation that accesses an element of `region` and does not happen before `clock`.

        Returns (operation, index of the element, whether the operation writes it), or None."""
        for op in self.pending_operations:
            if op.is_before(clock):
                continue
            for accessed_mask, has_written in self._accesses_of(op, region):
                first_index = _first_index(accessed_mask, index)
                if first_index is not None:
                    return op, first_index, has_written

    def _accesses_of(self, op, region):
        "Yield (mask of the elements of `region` that `op` accesses, whether it writes them), unless both only read"
        mem = region.mem()
        for op_region in op.regions:
            if op_region.mem() is mem and (op_region.writes or region.writes):
                yield _select_region(region, _region_mask(op_region)), op_region.writes
        if op.end and 'shadow' in vars(mem):
            yield op.contains_times(_select_region(region, mem.shadow.write_time)), True
            if region.writes:
                yield op.contains_times(_select_region(region, mem.shadow.read_time)), False

    def record_copy(self, operation, region):
        "Record that a copy accesses a region; raises `RacecheckError` if an unordered operation accesses it, too"
        if conflict := self.find_conflict(region, operation.clock):
            op, first_index, has_written = conflict
            fields = dict(
                now=_verb(region.writes), before=_verb(has_written), second=operation.phrase(), first=op.phrase()
            )
            raise _finding('unordered_operations', region.mem(), first_index, fields, operation.location)
        operation.regions.append(region)


def _verb(writes):
    return 'writes' if writes else 'reads'


def _finding(code, mem, index, fields, location):
    "Make the exception for a race on an element of an array, at a line of the learner's code"
    file, line = location
    location = Location(None, file, line, linecache.getline(file, line).strip())
    return exception_of(
        'racecheck', code, 'python', dict(array=mem.name or 'the array', index=index) | fields, location
    )


stream_order = StreamOrder()


def check_host_access(a, mem, writes, index=...):
    "Check an access of `a[index]` by the host; raises `RacecheckError` if it races with a pending operation"
    region = (
        accessed_region(a, mem, writes) if stream_order.pending_operations and is_check_enabled('racecheck') else None
    )
    if conflict := region and stream_order.find_conflict(region, stream_order.host_clock, index):
        op, first_index, has_written = conflict
        fields = dict(now=_verb(writes), before='write' if has_written else 'read', first=op.phrase())
        raise _finding('host_race', mem, first_index, fields, source_line())


def copying(
    name,  # of the function
    stream,  # the argument of the call
    *arrays,  # (NumPy array, its memory, whether it is written)
    host_waits,  # whether the host waits for the copy
):
    "Return a context manager around a copy; raises `RacecheckError` if the copy races with another operation"
    if not _as_stream(stream).number:  # the default stream waits for all others, and the host for the copy
        stream_order.wait_for(None)
        return nullcontext()
    if not is_check_enabled('racecheck'):
        return nullcontext()
    return _record_copy(name, stream, arrays, host_waits, source_line())


@contextmanager
def _record_copy(name, stream, arrays, host_waits, location):
    operation = stream_order.begin(name, stream, location)
    try:
        for region in filter(None, (accessed_region(*a) for a in arrays)):
            stream_order.record_copy(operation, region)
        yield
    except BaseException:
        stream_order.pending_operations = [op for op in stream_order.pending_operations if op is not operation]
        raise
    if host_waits:
        stream_order.wait(operation.clock)


def launching(ctx, stream, host_waits):
    "Return a context manager that checks a launch against pending operations; `host_waits`: whether the host waits"
    if not ctx.detectors.racecheck.enabled:
        return nullcontext()
    if not _as_stream(stream).number and not stream_order.has_host_arrays:  # the default stream: everything is ordered
        stream_order.order_default_stream(host_waits)
        return nullcontext()
    return _record_launch(ctx, stream, host_waits, source_line())


@contextmanager
def _record_launch(ctx, stream, host_waits, location):
    launch = stream_order.begin(ctx.kernel, stream, location, is_launch=True)
    launch.begin = ctx.now
    # The shadow must show later operations what this launch accessed.
    ctx.runs_one_thread = ctx.detectors.racecheck.has_one_thread = False
    unordered_operations = [op for op in stream_order.pending_operations if not op.is_before(launch.clock)]
    ctx.concurrent_operations = ConcurrentOperations(launch, unordered_operations) if unordered_operations else None
    try:
        yield
    except BaseException:
        stream_order.pending_operations = [op for op in stream_order.pending_operations if op is not launch]
        raise
    launch.end = ctx.now
    history = ctx.detectors.racecheck.history
    if launch.stream.number and len(history) < _MAX_HISTORY:  # no operation races with one of the default stream
        launch.history = history
        launch.position_of_thread = ctx.group.position_of_thread
    if host_waits:
        stream_order.wait(launch.clock)


class ConcurrentOperations:
    "The earlier operations that are not ordered before a launch: it races with them on elements that both access"

    def __init__(self, launch, operations):
        self.launch, self.launches = launch, [op for op in operations if op.is_launch]
        self.masks = [  # (copy, memory, whether it writes, mask of the elements)
            (op, region.mem(), region.writes, _region_mask(region))
            for op in operations
            for region in op.regions
            if region.mem()
        ]

    def read(self, ctx, lanes, view, offsets, write_times, site):
        "Check that no unordered operation has written the elements that `lanes` read"
        for earlier_launch in self.launches:
            self.raise_if_launch_accessed(
                ctx, lanes, view, offsets, earlier_launch, earlier_launch.contains_times(write_times), False, True, site
            )
        self.raise_if_copy_accessed(ctx, lanes, view, offsets, False, site)

    def write(self, ctx, lanes, view, offsets, write_times, value, site, atomic):
        "Check that no unordered operation has accessed the elements that `lanes` write"
        shadow = view.mem.shadow
        for earlier_launch in list(self.launches):
            accessed_mask = earlier_launch.contains_times(write_times)
            if atomic and (accessed_mask & shadow.is_write_atomic[offsets]).any():
                self.acquire(earlier_launch)
                continue
            if value is not None:
                accessed_mask = accessed_mask & (view.mem.data[offsets] != value)
            self.raise_if_launch_accessed(ctx, lanes, view, offsets, earlier_launch, accessed_mask, True, True, site)
            self.raise_if_launch_accessed(
                ctx,
                lanes,
                view,
                offsets,
                earlier_launch,
                earlier_launch.contains_times(shadow.read_time[offsets]),
                True,
                False,
                site,
            )
        self.raise_if_copy_accessed(ctx, lanes, view, offsets, True, site)

    def acquire(self, earlier):
        "Acquire a flag that the launch `earlier` has changed: from now on, that whole launch happens before this one"
        for clock in (self.launch.clock, stream_order.clock_of(self.launch.stream)):
            _join(clock, earlier.clock)
        self.launches = [launch for launch in self.launches if not launch.is_before(self.launch.clock)]
        self.masks = [entry for entry in self.masks if not entry[0].is_before(self.launch.clock)]

    def raise_if_launch_accessed(self, ctx, lanes, view, offsets, earlier, accessed_mask, writes, has_written, site):
        "Raise a race with the launch `earlier` if `accessed_mask` is true for an element: the launch has accessed it"
        if not accessed_mask.any():
            return
        i = int(accessed_mask.argmax())
        shadow = view.mem.shadow
        times, thread = (
            (shadow.write_time, shadow.writer[offsets[i]])
            if has_written
            else (shadow.read_time, shadow.lowest_reader[offsets[i]] >> 32)
        )
        earlier_site = next((location for t, location, *_ in reversed(earlier.history) if t == times[offsets[i]]), None)
        earlier_access = earlier_site and Access(
            earlier_site.line, *earlier.position_of_thread(thread), earlier_site.source, earlier_site.file
        )
        self.raise_race(ctx, lanes[i], view, offsets[i], earlier, writes, has_written, site, earlier_access)

    def raise_if_copy_accessed(self, ctx, lanes, view, offsets, writes, site):
        "Raise a race with a copy that has accessed one of the elements"
        for op, mem, has_written, mask in self.masks:
            if mem is view.mem and (has_written or writes) and mask[offsets].any():
                i = int(mask[offsets].argmax())
                self.raise_race(ctx, lanes[i], view, offsets[i], op, writes, has_written, site)

    def raise_race(self, ctx, lane, view, offset, op, writes, has_written, site, earlier_access=None):
        "Raise the data race of the launch with the operation `op`, unless it is allowed"
        if ctx.is_allowed('unordered_operations', site):
            return
        fields = dict(now=_verb(writes), before=_verb(has_written), second=self.launch.phrase(), first=op.phrase())
        fields |= element_at(view, offset)
        raise ctx.finding('racecheck', 'unordered_operations', site, reported_lane=lane, other=earlier_access, **fields)
