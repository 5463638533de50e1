"""The context of one launch: the running program, the order of programs by atomics, and the locations of findings."""

import linecache
import sys
import time

import numpy as np

from ..diagnostics.errors import Access, KernelError, NotCompiled, NotSimulated, Location, exception_of, warn_of

__all__ = [
    'KernelGlobals',
    'LaunchContext',
    'current',
    'learner_frame',
    'location',
    'finding',
    'compile_error',
    'unsupported_name',
    'other_access',
    'differ',
    'set_current',
]


class KernelGlobals(dict):
    "The globals of a rewritten function: a frame with such globals runs the learner's code"


class LaunchContext:
    """The context of one launch: its kernel, its grid, the enabled checks, and the running program.

    The stamp of an access is its index in `accesses`: the logical time of the detectors. The execution index of a
    program is its position in the order of execution."""

    def __init__(self, kernel, grid, settings):
        self.kernel, self.grid = kernel, grid
        self.memcheck, self.racecheck, self.initcheck = (
            check in settings.checks for check in ('memcheck', 'racecheck', 'initcheck')
        )
        self.allowed_findings = settings.allowed_findings
        self.deadline = time.monotonic() + settings.seconds
        self.seconds = settings.seconds
        self.program_id = (0, 0, 0)  # position of the running program in the grid
        self.execution_index = 0  # that of the running program
        self.accesses = [None]  # stamp -> (execution index, line, file, verb, active lanes, first offset)
        self.first_stamp = 1  # the stamp of the running program's first access
        self.acquired_events = ()  # the `ReleaseEvent`s that the running program has acquired
        self.clock = None  # the vector clock that these events give it, computed on demand: execution index -> stamp
        # execution index -> (stamp, {stamp of a release: its line}): accesses up to the stamp precede a barrier
        self.synced_clock = {}
        self.barrier_stamp = 0  # stamp of the running program's last access before its last barrier
        self.is_tuning = False  # whether an autotuner would run this launch several times
        self.state_before_atomic = [], 0  # `unsynced_stores` and `barrier_stamp` before the last atomic
        self.regions = []  # the arrays of the launch
        self.unpassed_tensors = {}  # generation of the garbage collector -> tensors that are not arguments
        self.trace = None
        self.masked_load_line = 0  # line of the first masked load without `other` in the running program
        self.unsynced_stores = []  # the running program's stores since its last barrier
        self.branch_types = {}  # `_compilation_key` of an `if` -> {value of the condition: {name: type}}
        self.branch_counts = {}  # (function, `if`, branch) -> number of executions
        self.reported_warnings = set()  # (code, line) of the warnings
        self.last_poll = None, 0  # (frame, instruction, value) of the last poll, and how often it was repeated

    def happens_before(self, stamp):
        """Return whether the access with this stamp happens before the next access of the running program.

        If not, another order of the programs may swap the two accesses: if one of them writes, it is a data race."""
        if self.clock is None:
            self.clock, self.synced_clock = _clocks_of(self.acquired_events)
        return self.clock.get(self.accesses[stamp][0], 0) >= stamp

    def fence(self):
        "Synchronize all threads of the running program, as a barrier does"
        self.unsynced_stores, self.barrier_stamp = [], len(self.accesses) - 1

    def check_release(self, stamp, array, verb_now):
        """Warn if an earlier access was by a block, with no barrier before the atomic that released it.

        A scalar atomic is executed by one thread, and releases only the accesses of this thread. A scalar store is
        executed by the same thread, but a block is accessed by all threads."""
        execution_index, line, _, verb_before, num_lanes, _ = self.accesses[stamp]
        last_synced, release_lines = self.synced_clock[execution_index]
        if last_synced >= stamp or num_lanes == 1:
            return
        # the first atomic after the access
        release_line = release_lines[min(release_stamp for release_stamp in release_lines if release_stamp >= stamp)]
        fields = dict(array, before=_PAST_TENSE[verb_before], now=verb_now, stored=line, released=release_line)
        fields.update(line=learner_frame().f_lineno, kernel=self.kernel.__name__)
        self.warn('released', fields, release_line)

    def on_atomic(self, shadow, offsets, sem, is_scalar):
        "Acquire the release events of earlier atomics on these elements, and release one, as `sem` says"
        if shadow.release_events is None:
            shadow.release_events = np.full(shadow.region.size, None)
        earlier_events = tuple({id(event): event for event in shadow.release_events[offsets] if event}.values())
        if sem not in ('relaxed', 'release'):
            self.acquired_events = (*self.acquired_events, *earlier_events)
            self.clock = None
        if sem in ('relaxed', 'acquire'):
            return
        stamp = len(self.accesses) - 1
        acquired = (*self.acquired_events, *earlier_events) if sem == 'release' else self.acquired_events
        event = ReleaseEvent(
            self.execution_index, stamp, acquired, self.barrier_stamp if is_scalar else stamp, learner_frame().f_lineno
        )
        self.acquired_events = (event,)
        shadow.release_events[offsets] = event

    def check_lanes_of_program(self, shadow, region, element_offsets, offsets, verb, lanes, value):
        "Warn of a lane that reads or overwrites an element that another lane has stored since the last barrier"
        if verb == 'atomic' or not offsets.size or verb == 'read' and not self.unsynced_stores:
            return
        lowest, highest = offsets.min(), offsets.max()
        for stored_shadow, stored_offsets, stored_lanes, stored_lowest, stored_highest, line in self.unsynced_stores:
            if stored_shadow is not shadow or lowest > stored_highest or highest < stored_lowest:
                continue
            _, positions, stored_positions = np.intersect1d(offsets, stored_offsets, return_indices=True)
            is_other_lane = lanes[positions] != stored_lanes[stored_positions]
            if verb == 'written':  # storing the same value again is harmless
                is_other_lane &= differ(
                    region.flat[element_offsets[positions]], value[positions] if np.ndim(value) else value
                )
            if is_other_lane.any():
                fields = dict(
                    array=region.name,
                    index=region.index_of(element_offsets[positions[np.argmax(is_other_lane)]]),
                    stored=line,
                )
                code = 'read_back' if verb == 'read' else 'stored_again'
                self.warn(code, dict(fields, line=learner_frame().f_lineno, kernel=self.kernel.__name__))
        if verb == 'written':
            self.unsynced_stores.append((shadow, offsets, lanes, lowest, highest, learner_frame().f_lineno))

    def is_allowed(self, code):
        "Return whether the user allows a finding on the running line, so that the kernel continues"
        allowed = self.allowed_findings
        return bool(allowed) and (code, self.kernel.__name__, learner_frame().f_lineno) in allowed

    def warn_same_value(self, fields):
        "Warn that several programs write the same value to an element"
        self.warn('same_value_programs', dict(fields, line=learner_frame().f_lineno, kernel=self.kernel.__name__))

    def warn(self, code, fields, line=None):
        "Warn of a finding, once per launch and line; `line` is the line of the root cause, by default the running one"
        key = code, line or learner_frame().f_lineno
        if key not in self.reported_warnings:
            self.reported_warnings.add(key)
            warn_of(code, 'triton', fields)

    _PROGRAM_STATE = (
        'execution_index',
        'program_id',
        'acquired_events',
        'unsynced_stores',
        'barrier_stamp',
        'state_before_atomic',
    )

    def on_poll(self, value):
        "If the running program keeps polling the same value, suspend it and run the next program"
        frame = learner_frame()
        poll = id(frame), frame.f_lasti, value.tobytes()
        self.last_poll = poll, self.last_poll[1] + 1 if self.last_poll[0] == poll else 0
        if self.last_poll[1] < 100:
            return
        state = {name: getattr(self, name) for name in self._PROGRAM_STATE}
        if not self.run_next_program():
            raise finding('synccheck', 'programs_wait')
        vars(self).update(state)
        self.clock = None
        self.first_stamp = len(self.accesses)
        self.last_poll = (None, 0)

    def check_deadline(self):
        "Raise the finding that the launch takes too long, after `settings.seconds`"
        if time.monotonic() > self.deadline:
            raise finding('timeout', 'time_limit', dict(seconds=self.seconds))


_PAST_TENSE = dict(read='read', written='wrote', atomic='updated')


def differ(a, b):
    """Return, per element, whether two arrays of one type differ in a bit.

    >>> differ(np.float32([0, 1]), np.float32([-0.0, 1]))
    array([ True, False])"""
    size = f'u{a.itemsize}'
    return a.view(size) != np.ascontiguousarray(np.broadcast_to(b, a.shape)).view(size)


# The memory model of programs. There is no barrier between programs, so only atomics order their accesses. An atomic
# creates a release event. A later atomic on the same element acquires it: all accesses that the event releases happen
# before the later accesses of the acquiring program. Events refer to the events that were acquired before them,
# so they form a graph; `_clocks_of` walks it to compute a vector clock, execution index -> last stamp, when a race is
# suspected. `SyncState` is its counterpart in the emulator (`cpp/runtime/vector_clock.h`).
class ReleaseEvent:
    """The release of an atomic: it releases the accesses of its program up to `stamp`, and the events acquired before.

    Accesses up to `synced_stamp` precede a barrier of the program, so the event releases those of all threads. Of later
    accesses, it releases only those of the thread that executed the atomic, at `line`."""

    __slots__ = ('execution_index', 'stamp', 'acquired_events', 'synced_stamp', 'line')

    def __init__(self, execution_index, stamp, acquired_events, synced_stamp, line):
        self.execution_index = execution_index
        self.stamp = stamp
        self.acquired_events = acquired_events
        self.synced_stamp = synced_stamp
        self.line = line


def _clocks_of(acquired_events):
    "Return two dicts: execution index -> last stamp, execution index -> (last synced stamp, {stamp: line})"
    clock = {}
    synced_clock = {}
    visited_ids = set()
    pending_events = list(acquired_events)
    while pending_events:
        event = pending_events.pop()
        if id(event) in visited_ids:
            continue
        visited_ids.add(id(event))
        clock[event.execution_index] = max(clock.get(event.execution_index, 0), event.stamp)
        synced_stamp, lines = synced_clock.get(event.execution_index, (-1, {}))
        lines[event.stamp] = min(lines.get(event.stamp, event.line), event.line)  # the first of several atomics
        synced_clock[event.execution_index] = max(synced_stamp, event.synced_stamp), lines
        pending_events += event.acquired_events
    return clock, synced_clock


_current = [None]


def current():
    "Return the context of the running launch; raises `RuntimeError` if there is none"
    if _current[0] is None:
        raise RuntimeError('functions of triton.language work only inside a kernel: launch it, kernel[grid](...)')
    return _current[0]


def set_current(ctx):
    "Make `ctx` the context of the running launch; returns the previous one"
    previous_context = _current[0]
    _current[0] = ctx
    return previous_context


def learner_frame():
    "Return the innermost frame of the learner's functions; None if there is none"
    frame = sys._getframe(1)
    while frame is not None and not isinstance(frame.f_globals, KernelGlobals):
        frame = frame.f_back
    return frame


def _line(frame):
    return frame.f_lineno, linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip(), frame.f_code.co_filename


def location(thread=None):
    "Return the `Location` of the running program; `thread` is the index of a lane in its block"
    ctx = _current[0]
    frame = learner_frame()
    if frame is None:
        return Location(kernel=ctx and ctx.kernel.__name__)
    line, source, file = _line(frame)
    kernel_frame = frame
    caller = frame.f_back
    # The frame of the kernel is the outermost one of the learner; the line may be in a function that the kernel calls.
    while caller is not None and caller.f_code.co_name != 'run_next_program':
        if isinstance(caller.f_globals, KernelGlobals):
            kernel_frame = caller
        caller = caller.f_back
    call_site = _line(kernel_frame) if kernel_frame is not frame else None
    block = tuple(map(int, ctx.program_id)) if ctx else None
    return Location(ctx and ctx.kernel.__name__, file, line, source, block, thread, call_site)


def finding(kind, code, fields=None, thread=None, other=None):
    "Make the exception for a finding at the running line of the running program"
    return exception_of(kind, code, 'triton', fields, location(thread), other)


def other_access(ctx, stamp, thread=None):
    "Return an earlier access as an `errors.Access`, for the finding of a race with it"
    execution_index, line, file = ctx.accesses[stamp][:3]
    source = linecache.getline(file, line).strip()
    return Access(line, ctx.ordered_program_ids[execution_index], thread, source, file)


def warn_of_undefined(code):
    "Warn that the value of an undefined lane is used; a masked load without `other` leaves lanes undefined"
    ctx = _current[0]
    if ctx.initcheck:
        ctx.warn(code, dict(line=learner_frame().f_lineno, masked=ctx.masked_load_line, kernel=ctx.kernel.__name__))


def compile_error(problem, hint='', line=None, function=None):
    "Make the `NotCompiled` error for code that Triton's compiler rejects, at the running line or a line of `function`"
    fields = _compile_location()
    if function is not None:
        file = function.__code__.co_filename
        fields.update(
            kernel=function.__name__, file=file, line=line, source=linecache.getline(file, line).strip(), call_site=None
        )
    return NotCompiled(problem, hint, dialect='triton', **fields)


def located_type_error(error):
    "Return the exception for a `TypeError`, with the line of the learner if a call there has wrong arguments"
    traceback = error.__traceback__
    while traceback.tb_next:
        traceback = traceback.tb_next
    frame = traceback.tb_frame
    if isinstance(error, KernelError) or not isinstance(frame.f_globals, KernelGlobals):
        return error
    file = frame.f_code.co_filename
    line = traceback.tb_lineno
    fields = dict(file=file, line=line, source=linecache.getline(file, line).strip())
    return NotCompiled(str(error), kernel=_current[0].kernel.__name__, dialect='triton', **fields)


class UnsupportedName(NotSimulated, AttributeError):
    "A name of Triton's language that the checked interpreter does not support"


class UnknownName(NotCompiled, AttributeError):
    "A name that Triton's language does not have"


def unsupported_name(name):
    "Make the exception for a name that is not supported"
    return UnsupportedName(f'the checked interpreter does not support {name}', dialect='triton', **_compile_location())


def unknown_name(name, hint=''):
    "Make the exception for a name that Triton does not have; `hasattr` needs an `AttributeError`"
    return UnknownName(f'Triton has no {name}', hint, dialect='triton', **_compile_location())


def _compile_location():
    "Return the fields of the location that a compiler knows: the line, but not the program and the lane"
    return {
        name: value
        for name, value in location()._asdict().items()
        if name not in ('preceding_lines', 'following_lines', 'block', 'thread')
    }
