"""A launch at work: which program runs, which of the learner's lines, and how a finding gets its location."""

import linecache
import sys
import time

import numpy as np

from ..diagnostics.errors import Access, KernelError, NotCompiled, NotSimulated, Location, exception_of, warn_of

__all__ = [
    'Names',
    'Run',
    'current',
    'frame_of',
    'location',
    'finding',
    'refuse',
    'no_such_name',
    'access_of',
    'differ',
    'enter',
]


class Names(dict):
    "The globals of a kernel's function: frames with them belong to the learner's code"


class Run:
    "The context of one launch: its kernel, its grid, the checks that are enabled, and the current program"

    def __init__(self, kernel, grid, settings):
        self.kernel, self.grid = kernel, grid
        self.memcheck, self.racecheck, self.initcheck = (
            check in settings.checks for check in ('memcheck', 'racecheck', 'initcheck')
        )
        self.until = time.monotonic() + settings.seconds
        self.seconds = settings.seconds
        self.program = (0, 0, 0)  # its position in the grid
        self.number = 0  # and its number
        self.stamps = [None]  # of each access so far: (number of its program, line, file, what it did)
        self.start = 1  # the running program's accesses have this stamp or a later one
        # the release events that the running program has acquired, and what happens before it by these
        self.acquired = ()
        self.before = None
        self.synced = {}  # of what happens before: up to where a barrier came before the release
        self.barrier = 0  # the running program's last access before its last barrier
        self.tuned = False  # does an autotuner run it again, on what it leaves?
        self.kept = [], 0  # `recent` and `barrier` before its last atomic
        self.regions = []
        self.others = {}  # age -> tensors that it was not given, once an address asks for them
        self.trace = None
        self.undef_line = 0  # the line of the running program that left lanes without a value
        self.recent = []  # what the running program has stored since its last barrier
        self.branches = {}  # location of an `if` -> {which branch: {name: type}} so far
        self.branched = {}  # (function, `if`, branch) -> how often it ran
        self.warned = set()  # (what, where) of the warnings so far
        self.polled = None, 0  # what the program polled last, and how often it got the same value

    def happens_before(self, stamp):
        """Return whether the access with this stamp happens before what the current program does now.

        If not, another order of the programs may swap the two, and if one of them writes, it is a data race."""
        if self.before is None:
            self.before, self.synced = _happened_before(self.acquired)
        return self.before.get(self.stamps[stamp][0], 0) >= stamp

    def fence(self):
        "Synchronize all threads of the current program: what they did before happens before what they do after"
        self.recent, self.barrier = [], len(self.stamps) - 1

    def check_release(self, stamp, array, now):
        """Warn of an access by a block, if the atomic that ordered it with this one had no barrier before it.

        A scalar's atomic is one thread's, and releases what this thread did; a scalar's store is the same thread's."""
        number, line, _, before, lanes = self.stamps[stamp]
        synced, atomic = self.synced[number]
        if synced >= stamp or lanes == 1:
            return
        fields = dict(array, before=_DID[before], now=now, stored=line, released=-atomic)
        fields.update(line=frame_of().f_lineno, kernel=self.kernel.__name__)
        self.warn('released', fields, -atomic)

    def on_atomic(self, shadow, at, sem, alone):
        "Acquire what earlier atomics at these elements have released, and release all that the program did"
        if shadow.clocks is None:
            shadow.clocks = np.full(shadow.region.size, None)
        before = tuple({id(released): released for released in shadow.clocks[at] if released}.values())
        if sem not in ('relaxed', 'release'):
            self.acquired = (*self.acquired, *before)
            self.before = None
        if sem in ('relaxed', 'acquire'):
            return
        stamp = len(self.stamps) - 1
        acquired = (*self.acquired, *before) if sem == 'release' else self.acquired
        event = ReleaseEvent(self.number, stamp, acquired, self.barrier if alone else stamp, frame_of().f_lineno)
        self.acquired = (event,)
        shadow.clocks[at] = event

    def read_back(self, shadow, region, active, at, verb, lanes, value):
        "Warn of a lane that reads or overwrites what another lane of its program has stored since the last barrier"
        if verb == 'atomic' or not at.size or verb == 'read' and not self.recent:
            return
        first, last = at.min(), at.max()
        for stored, offsets, theirs, low, high, line in self.recent:
            if stored is not shadow or first > high or last < low:
                continue
            _, mine, other = np.intersect1d(at, offsets, return_indices=True)
            apart = lanes[mine] != theirs[other]
            if verb == 'written':  # one value twice is one value
                apart &= differ(region.flat[active[mine]], value[mine] if np.ndim(value) else value)
            if apart.any():
                where = dict(array=region.name, index=region.index_of(active[mine[np.argmax(apart)]]), stored=line)
                code = 'read_back' if verb == 'read' else 'stored_again'
                self.warn(code, dict(where, line=frame_of().f_lineno, kernel=self.kernel.__name__))
        if verb == 'written':
            self.recent.append((shadow, at, lanes, first, last, frame_of().f_lineno))

    def same_value(self, fields):
        "Warn of programs that write one value to one element"
        self.warn('same_value_programs', dict(fields, line=frame_of().f_lineno, kernel=self.kernel.__name__))

    def warn(self, code, fields, line=None):
        "Warn of a finding, once per launch and line: the running one, or that of the root cause"
        key = code, line or frame_of().f_lineno
        if key not in self.warned:
            self.warned.add(key)
            warn_of(code, 'triton', fields)

    def on_poll(self, value):
        "Let the next program run if this one polls again and again and gets the same value: it waits for another"
        f = frame_of()
        poll = id(f), f.f_lasti, value.tobytes()
        self.polled = poll, self.polled[1] + 1 if self.polled[0] == poll else 0
        if self.polled[1] < 100:
            return
        mine = self.number, self.program, self.acquired, self.recent, self.barrier, self.kept
        if not self.begin_program():
            raise finding('synccheck', 'programs_wait')
        self.number, self.program, self.acquired, self.recent, self.barrier, self.kept = mine
        self.before = None
        self.start = len(self.stamps)
        self.polled = (None, 0)

    def in_time(self):
        "Raise a finding if the launch runs too long"
        if time.monotonic() > self.until:
            raise finding('timeout', 'endless', dict(seconds=self.seconds))


_DID = dict(read='read', written='wrote', atomic='updated')


def differ(a, b):
    """Return which elements of two arrays of one type differ, bit by bit.

    >>> differ(np.float32([0, 1]), np.float32([-0.0, 1]))
    array([ True, False])"""
    size = f'u{a.itemsize}'
    return a.view(size) != np.ascontiguousarray(np.broadcast_to(b, a.shape)).view(size)


# The memory model of programs. There is no barrier between them, so only atomics order their accesses: a release
# event is what `SyncState` is in the emulator (`cpp/runtime/vector_clock.h`), and `_happened_before` computes the
# vector clock of a program, {number of a program: its last stamp}, when it is first needed.
class ReleaseEvent:
    """What an atomic releases: all accesses of a program up to a stamp, and the events that it had acquired.

    Accesses up to `synced` were before a barrier, and so of all its threads; `line` is that of the atomic."""

    __slots__ = ('number', 'stamp', 'acquired', 'synced', 'line')

    def __init__(self, number, stamp, acquired, synced, line):
        self.number = number
        self.stamp = stamp
        self.acquired = acquired
        self.synced = synced
        self.line = line


def _happened_before(acquired):
    "Compute what happened before: number of a program -> its last stamp, and -> (its last synced one, -line)"
    before = {}
    synced = {}
    seen = set()
    todo = list(acquired)
    while todo:
        e = todo.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        before[e.number] = max(before.get(e.number, 0), e.stamp)
        synced[e.number] = max(synced.get(e.number, (-1, 0)), (e.synced, -e.line))  # the first of several atomics
        todo += e.acquired
    return before, synced


_state = [None]


def current():
    "Return the current launch; raises `RuntimeError` if there is none"
    if _state[0] is None:
        raise RuntimeError('the functions of triton.language work inside a kernel: launch it, kernel[grid](...)')
    return _state[0]


def enter(run):
    "Make `run` the launch at work; gives the one before"
    before = _state[0]
    _state[0] = run
    return before


def frame_of():
    "Return the innermost frame of the learner's functions; None if there is none"
    f = sys._getframe(1)
    while f is not None and not isinstance(f.f_globals, Names):
        f = f.f_back
    return f


def _line(f):
    return f.f_lineno, linecache.getline(f.f_code.co_filename, f.f_lineno).strip(), f.f_code.co_filename


def location(thread=None):
    "Return the `Location` of the current program; `thread`: which lane of the block, as an index"
    run = _state[0]
    f = frame_of()
    if f is None:
        return Location(kernel=run and run.kernel.__name__)
    line, source, file = _line(f)
    top = f
    g = f.f_back
    while (
        g is not None and g.f_code.co_name != 'begin_program'
    ):  # perhaps a function that the kernel called is at fault
        if isinstance(g.f_globals, Names):
            top = g
        g = g.f_back
    called = _line(top) if top is not f else None
    block = tuple(map(int, run.program)) if run else None
    return Location(run and run.kernel.__name__, file, line, source, block, thread, called)


def finding(kind, code, fields=None, thread=None, other=None):
    "Make the exception of a finding at the current line of the current program"
    return exception_of(kind, code, 'triton', fields, location(thread), other)


def access_of(run, stamp, thread=None):
    "Return an earlier access as the other side of a race"
    number, line, file = run.stamps[stamp][:3]
    text = linecache.getline(file, line).strip()
    return Access(line, run.positions[number], thread, text, file)


def warn_of_undefined(code):
    "Warn of lanes that a masked load left without a value"
    run = _state[0]
    if run.initcheck:
        run.warn(code, dict(line=frame_of().f_lineno, masked=run.undef_line, kernel=run.kernel.__name__))


def refuse(what, hint='', line=None, function=None):
    "Make the exception for what Triton's compiler refuses; before there is a frame, at a line of `function`"
    at = _line_only()
    if function is not None:
        file = function.__code__.co_filename
        at.update(
            kernel=function.__name__, file=file, line=line, source=linecache.getline(file, line).strip(), called=None
        )
    return NotCompiled(what, hint, dialect='triton', **at)


def not_begun(error):
    "Return the exception for a `TypeError`: at the learner's line, if a call there did not even begin"
    at = error.__traceback__
    while at.tb_next:
        at = at.tb_next
    f = at.tb_frame
    if isinstance(error, KernelError) or not isinstance(f.f_globals, Names):
        return error
    file = f.f_code.co_filename
    line = at.tb_lineno
    where = dict(file=file, line=line, source=linecache.getline(file, line).strip())
    return NotCompiled(str(error), kernel=_state[0].kernel.__name__, dialect='triton', **where)


class NoSuchName(NotSimulated, AttributeError):
    "A name of Triton's language that the checked interpreter does not support"


class NoNameOfTriton(NotCompiled, AttributeError):
    "A name that Triton's language does not have"


def no_such_name(name):
    "Make the exception for a name that is not supported"
    return NoSuchName(f'the checked interpreter does not support {name}', dialect='triton', **_line_only())


def no_name_of_triton(name, hint=''):
    "Make the exception for a name that Triton does not have; `hasattr` needs an `AttributeError`"
    return NoNameOfTriton(f'Triton has no {name}', hint, dialect='triton', **_line_only())


def _line_only():
    "Return the location without block and thread, as the compiler would report it"
    return {k: v for k, v in location()._asdict().items() if k not in ('above', 'onward', 'block', 'thread')}
