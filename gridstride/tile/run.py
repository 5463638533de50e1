"""A launch at work: which program runs, which of the learner's lines, and how a finding gets its place."""

import linecache
import sys

from ..findings import Access, NotCompiled, NotSimulated, Place, exception_of

__all__ = ['Names', 'Run', 'current', 'frame_of', 'place', 'finding', 'refuse', 'not_emulated', 'access_of', 'enter']


class Names(dict):
    "The globals of a function of a kernel: how its frames are known"


class Run:
    "One launch: its kernel, its grid, the checks that look on, and the program that runs now"

    def __init__(self, kernel, grid, settings):
        self.kernel, self.grid = kernel, grid
        self.memcheck, self.racecheck, self.initcheck = (
            o in settings.checks for o in ('memcheck', 'racecheck', 'initcheck')
        )
        self.seconds = settings.seconds
        self.program = (0, 0, 0)  # its position in the grid
        self.number = 0  # and its number
        self.stamps = [None]  # of each access so far: (number of the program, line, file, its clock's time, atomic)
        self.start = 1  # the running program's accesses have this stamp or a later one
        self.regions = []
        self.trace = None
        self.pending = iter(())  # programs that have not begun

    def ordered(self, stamp):
        "Does the access with this stamp come before what the running program does now, whatever the order of programs?"
        return False


_state = [None]


def current():
    "The launch that is under way; `RuntimeError` if there is none"
    if _state[0] is None:
        raise RuntimeError('the functions of triton.language work inside of a kernel: launch it, kernel[grid](...)')
    return _state[0]


def enter(run):
    "Make `run` the launch under way; gives the one before"
    before, _state[0] = _state[0], run
    return before


def frame_of():
    "The innermost frame of the learner's functions"
    f = sys._getframe(1)
    while f is not None and not isinstance(f.f_globals, Names):
        f = f.f_back
    return f


def _line(f):
    return f.f_lineno, linecache.getline(f.f_code.co_filename, f.f_lineno).strip(), f.f_code.co_filename


def place(thread=None):
    "The `Place` where the running program is; `thread`: which lane of the block, as an index"
    run, f = _state[0], frame_of()
    if f is None:
        return Place(kernel=run and run.kernel.__name__)
    line, source, file = _line(f)
    top, g = f, f.f_back
    while g is not None:  # the kernel's own frame, where a function that it called is at fault
        if isinstance(g.f_globals, Names):
            top = g
        g = g.f_back
    called = _line(top) if top is not f else None
    block = tuple(map(int, run.program)) if run else None
    return Place(run and run.kernel.__name__, file, line, source, block, thread, called)


def finding(kind, code, fields=None, thread=None, other=None):
    "The exception of a finding at the line where the running program is"
    return exception_of(kind, code, 'triton', fields, place(thread), other)


def access_of(run, stamp, thread=None):
    "An earlier access as the other side of a race"
    number, line, file = run.stamps[stamp][:3]
    text = linecache.getline(file, line).strip()
    return Access(line, run.positions[number], thread, text, file)


def refuse(what, mend=''):
    "The exception for what Triton's compiler refuses, in words"
    return NotCompiled(what, mend, dialect='triton', **_line_only())


def not_emulated(what, mend=''):
    "The exception for what Triton can do and this executor cannot"
    return NotSimulated(what, mend, dialect='triton', **_line_only())


def _line_only():
    "Where the compiler would be: the line, whatever program came to it first"
    return {k: v for k, v in place()._asdict().items() if k not in ('above', 'block', 'thread')}
