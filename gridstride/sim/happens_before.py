"""Happens-before between the operations of a program: launches, copies, and what the host itself reads and writes.

A launch or a copy runs in the background on a GPU. Here it runs at once, and this module remembers which earlier
operations it is ordered after: those of its stream, those before an event that the stream has waited for, those that
the legacy default stream orders, and all that the host has waited for. Each stream has a vector clock, {stream: how
many of its operations happen before}, and so has the host. The shadow of an array says in which launch an element was
used; a copy keeps which elements it has used.

Not modelled: kernels of `engine='c'`; tensors and plain NumPy arrays, which have no shadow from launch to launch, as
elements of records; a stream of another library, and the per-thread default stream, which count as the default stream;
what NumPy reads of a pinned array without an index, a ufunc or a method (`np.asarray`). An atomic operation on what
another launch has changed atomically orders all of that launch. Two kernels that write the same value are left alone.
"""

import linecache
import sys
from contextlib import contextmanager, nullcontext
from typing import NamedTuple
from weakref import ref

import numpy as np

from ..diagnostics.errors import Access, Phrase, Location, exception_of, learner_stacklevel
from ..diagnostics.settings import checking
from ..support import array_memory
from ..support.array_memory import address
from .detectors import element_at

__all__ = ['copying', 'host_uses', 'launching', 'operations', 'source_line']

_MOST = 256  # operations are remembered; older ones count as ordered
_LONG = 20_000  # accesses; of a launch that has more, messages do not name the line


class Part(NamedTuple):
    "Elements of a memory that a copy uses"

    mem: ref
    first: int
    shape: tuple
    steps: tuple  # in elements
    writes: bool


def part_of(a, mem, writes):
    "Return the `Part` of a memory that the NumPy array `a` covers; None if it has other types, or no elements"
    if a.dtype != mem.data.dtype or not a.size:
        return None
    step = mem.data.strides[0] or a.itemsize
    first = (address(a) - address(mem.data)) // step
    return Part(ref(mem), first, a.shape, tuple(s // step for s in a.strides), writes)


def _elements(part, values):
    "Select from `values`, one per element of the memory, those of the part"
    return array_memory.part(values, part.first, part.shape, part.steps)


def _mask(part):
    "Return which elements of its memory are in the part"
    mask = np.zeros(len(part.mem().data), bool)
    _elements(part, mask)[...] = True
    return mask


def _first(hit, at):
    "Return the index of the first element that was hit, of those at the index `at`; None if none was"
    hit = np.asarray(hit)
    picked = np.asarray(hit[at])
    if not picked.any():
        return None
    indices = np.asarray(np.arange(hit.size).reshape(hit.shape)[at])
    return tuple(int(i) for i in np.unravel_index(indices[picked][0], hit.shape))


# The clock of an operation is a dict, stream -> n: the first n operations of that stream happen before it. Operation
# `number` of a stream happens before an event whose clock has at least `number` for this stream.
class Operation:
    "A launch or a copy, with the clock of what happens before it"

    def __init__(self, name, stream, number, clock, location, launches):
        self.name = name
        self.stream = stream
        self.number = number
        self.clock = clock
        self.location = location  # (file, line) of the call
        self.launches = launches  # is it the launch of a kernel?
        self.begin = self.end = 0  # of a launch: the detectors' time
        self.parts = []
        self.history = ()  # the accesses of a launch
        self.who = None  # a function: the number of a thread -> (block, thread)

    def is_before(self, clock):
        "Return whether the operation happens before an event with this clock"
        return clock.get(self.stream.number, 0) >= self.number

    def did(self, times):
        "Return which of these times of accesses are its own"
        return (times > self.begin) & (times <= self.end)

    def phrase(self):
        "Return the `Phrase` that names it in messages"
        s = self.stream
        code = 'created_stream' if s.number else 'default_stream'
        stream = Phrase(code, dict(number=s.number, created=s.line))
        return Phrase(
            'kernel_on' if self.launches else 'call_on', dict(name=self.name, line=self.location[1], stream=stream)
        )


class _DefaultStream:
    "The legacy default stream, which is ordered with all others"

    number, line = 0, 0


def _stream(given):
    "Return the stream that a call is given; any other object counts as the default one"
    return given if hasattr(given, 'number') and hasattr(given, 'line') else _DefaultStream


def _join(clock, other):
    for stream, count in other.items():
        clock[stream] = max(clock.get(stream, 0), count)


def source_line():
    "Return (file, line) of the learner's code that called"
    frame = sys._getframe(learner_stacklevel() - 1)
    return frame.f_code.co_filename, frame.f_lineno


class Operations:
    "The operations that the host has not waited for, with the clocks of the streams"

    def __init__(self):
        self.pending = []
        self.host = {}
        self.counts = {}
        self.clocks = {}  # stream -> what happens before its next operation
        self.watches_host = False  # is there an array of the host that kernels may use?

    def clock_of(self, stream):
        "Return the clock of what happens before the next operation of a stream"
        number = _stream(stream).number
        clock = self.clocks.setdefault(number, {})
        _join(clock, self.host)
        for other in [0] if number else list(self.clocks):
            _join(clock, self.clocks.get(other, {}))
        return clock

    def begin(self, name, stream, location, launches=False):
        "Begin a new operation of the stream"
        stream = _stream(stream)
        clock = self.clock_of(stream)
        n = stream.number
        number = clock[n] = self.counts[n] = self.counts.get(n, 0) + 1
        operation = Operation(name, stream, number, dict(clock), location, launches)
        self.pending = [*self.pending[-_MOST:], operation]
        return operation

    def wait(self, clock):
        "Let the host wait for all that has this clock"
        _join(self.host, clock)
        self.pending = [op for op in self.pending if not op.is_before(self.host)]
        if not self.pending:  # all is ordered
            self.host, self.clocks = {}, {}

    def join(self, stream, clock):
        "Let a stream wait for all that has this clock"
        _join(self.clock_of(stream), clock)

    def wait_for(self, stream):
        "Let the host wait for a stream; for the default one it waits for all"
        if self.pending:
            self.wait(dict(self.clock_of(stream)))

    def pass_default(self, waits):
        """Note an operation of the default stream; it is not kept, because all earlier ones happen before whatever
        follows"""
        if self.pending:
            clock = self.clock_of(None)
            if waits:
                self.wait(dict(clock))

    def wait_for_all(self):
        "Let the host wait for the device"
        if self.pending:
            self.wait(dict(self.counts))

    def conflict(self, part, clock, at=...):
        """Find an operation that uses an element and is not ordered with `clock`: (operation, index, did it write?), or
        None"""
        for op in self.pending:
            if op.is_before(clock):
                continue
            for hit, wrote in self._uses(op, part):
                index = _first(hit, at)
                if index is not None:
                    return op, index, wrote

    def _uses(self, op, part):
        "Yield (which elements of the part the operation has used, has it written them?); reads matter to a write only"
        mem = part.mem()
        for other in op.parts:
            if other.mem() is mem and (other.writes or part.writes):
                yield _elements(part, _mask(other)), other.writes
        if op.end and 'shadow' in vars(mem):
            yield op.did(_elements(part, mem.shadow.wrote)), True
            if part.writes:
                yield op.did(_elements(part, mem.shadow.read)), False

    def use(self, operation, part):
        """Record that a copy uses the elements of a part; raises if another operation does so, too, and nothing orders
        the two"""
        if found := self.conflict(part, operation.clock):
            op, index, wrote = found
            fields = dict(now=_verb(part.writes), before=_verb(wrote), second=operation.phrase(), first=op.phrase())
            raise _finding('unordered_operations', part.mem(), index, fields, operation.location)
        operation.parts.append(part)


def _verb(writes):
    return 'writes' if writes else 'reads'


def _finding(code, mem, index, fields, location):
    "Make the exception about an element of an array at a line of the learner's code"
    file, line = location
    location = Location(None, file, line, linecache.getline(file, line).strip())
    return exception_of(
        'racecheck', code, 'python', dict(array=mem.name or 'the array', index=index) | fields, location
    )


operations = Operations()


def host_uses(a, mem, writes, at=...):
    "Check an access of `a[at]` by the host; raises if an operation that it has not waited for may use the element"
    part = part_of(a, mem, writes) if operations.pending and checking('racecheck') else None
    if found := part and operations.conflict(part, operations.host, at):
        op, index, wrote = found
        fields = dict(now=_verb(writes), before='write' if wrote else 'read', first=op.phrase())
        raise _finding('host_race', mem, index, fields, source_line())


def copying(
    name,  # of the function
    stream,  # as it was given
    *arrays,  # (NumPy array, its memory, is it written?)
    waits,  # does the host wait for the copy?
):
    "Return a context in which a copy runs"
    if not _stream(stream).number:  # after all else, and the host waits for it
        operations.wait_for(None)
        return nullcontext()
    return _copying(name, stream, arrays, waits, source_line()) if checking('racecheck') else nullcontext()


@contextmanager
def _copying(name, stream, arrays, waits, location):
    operation = operations.begin(name, stream, location)
    try:
        for part in filter(None, (part_of(*a) for a in arrays)):
            operations.use(operation, part)
        yield
    except BaseException:
        operations.pending = [op for op in operations.pending if op is not operation]
        raise
    if waits:
        operations.wait(operation.clock)


def launching(run, stream, waits):
    """Return a context in which a launch runs, and whose `run` knows the elements in use; `waits`: does the host wait
    for it?"""
    if not run.detectors.racecheck.on:
        return nullcontext()
    if not _stream(stream).number and not operations.watches_host:  # after all else: nothing is unordered with it
        operations.pass_default(waits)
        return nullcontext()
    return _launching(run, stream, waits, source_line())


@contextmanager
def _launching(run, stream, waits, location):
    launch = operations.begin(run.kernel, stream, location, launches=True)
    launch.begin = run.now
    others = [op for op in operations.pending if not op.is_before(launch.clock)]
    run.crossing = Crossing(launch, others) if others else None
    try:
        yield
    except BaseException:
        operations.pending = [op for op in operations.pending if op is not launch]
        raise
    launch.end = run.now
    history = run.detectors.racecheck.history
    if launch.stream.number and len(history) < _LONG:  # all comes after what the default stream has done
        launch.history = history
        launch.who = run.g.who_is
    if waits:
        operations.wait(launch.clock)


class Crossing:
    "The elements that a launch must not use, because earlier operations use them and are not ordered before it"

    def __init__(self, launch, others):
        self.launch, self.launches = launch, [op for op in others if op.launches]
        self.masks = [(op, p.mem(), p.writes, _mask(p)) for op in others for p in op.parts if p.mem()]

    def read(self, run, lanes, v, off, wrote, site):
        "Check a read by `lanes` of the elements at `off`, last written at the times `wrote`"
        for earlier in self.launches:
            self.against(run, lanes, v, off, earlier, earlier.did(wrote), False, True, site)
        self.against_copies(run, lanes, v, off, False, site)

    def write(self, run, lanes, v, off, wrote, value, site, atomic):
        "Check a write of `value` by `lanes` to the elements at `off`"
        shadow = v.mem.shadow
        for earlier in list(self.launches):
            written = earlier.did(wrote)
            if atomic and (written & shadow.atomic[off]).any():
                self.acquire(earlier)
                continue
            if value is not None:
                written = written & (v.mem.data[off] != value)
            self.against(run, lanes, v, off, earlier, written, True, True, site)
            self.against(run, lanes, v, off, earlier, earlier.did(shadow.read[off]), True, False, site)
        self.against_copies(run, lanes, v, off, True, site)

    def acquire(self, earlier):
        "Acquire a flag or counter: what the launch that changed it has done is ordered from now on"
        for clock in (self.launch.clock, operations.clock_of(self.launch.stream)):
            _join(clock, earlier.clock)
        self.launches = [p for p in self.launches if not p.is_before(self.launch.clock)]
        self.masks = [m for m in self.masks if not m[0].is_before(self.launch.clock)]

    def against(self, run, lanes, v, off, earlier, hit, writes, wrote, site):
        "Raise if the launch `o` has used an element that is used now"
        if not hit.any():
            return
        i = int(hit.argmax())
        shadow = v.mem.shadow
        time, thread = (shadow.wrote, shadow.writer[off[i]]) if wrote else (shadow.read, shadow.lo[off[i]] >> 32)
        there = next((location for t, location, *_ in reversed(earlier.history) if t == time[off[i]]), None)
        other = there and Access(there.line, *earlier.who(thread), there.source, there.file)
        self.race(run, lanes[i], v, off[i], earlier, writes, wrote, site, other)

    def against_copies(self, run, lanes, v, off, writes, site):
        "Raise if a copy has used an element that is used now"
        for op, mem, wrote, mask in self.masks:
            if mem is v.mem and (wrote or writes) and mask[off].any():
                i = int(mask[off].argmax())
                self.race(run, lanes[i], v, off[i], op, writes, wrote, site)

    def race(self, run, lane, v, off, op, writes, wrote, site, other=None):
        "Raise the race of the launch with the operation `op`"
        fields = dict(now=_verb(writes), before=_verb(wrote), second=self.launch.phrase(), first=op.phrase())
        fields |= element_at(v, off)
        raise run.finding('racecheck', 'unordered_operations', site, by=lane, other=other, **fields)
