"""Exceptions for mistakes in kernels: each states the event, its location, the threads, and a remedy.

The first four kinds carry the names of compute-sanitizer's tools, so that a finding here and one on a GPU have the
same name.

| kind | finding |
|---|---|
| `memcheck` | an out-of-bounds access, or an invalid address |
| `racecheck` | a data race: two accesses to one element, at least one write, and no barrier in between |
| `initcheck` | a read of uninitialized memory |
| `synccheck` | a barrier in divergent code, a wrong warp mask, a deadlock |
| `fencecheck` | a fence that PTX requires is missing, without which programs are known to work on current GPUs |
| `launch` | a launch that no GPU accepts |
| `assert`, `raise` | an assertion that fails, an exception that a kernel raises |
| `crash`, `timeout` | a kernel that crashes, a kernel that does not end in time |

A check reports a *kind*, a *code* and *fields*, but no message. `messages.MESSAGES` has the templates of every code,
and `exception_of` is the only function that turns a finding into an exception:

    exception_of('racecheck', 'race', 'python', dict(array='s', index=(3,), before='written', now='read'),
                 Location(kernel='reverse', line=12, ...), other=Access(11, (0, 0, 0), (3, 0, 0)))

The first line of a message is `racecheck: data race (read after write) on s[3]: no barrier between the two accesses`:
the kind, the field's term for it, the element and the cause. The next lines give the source line, the block and thread,
the other access, and a hint.

A remedy differs between three *dialects*: `'python'` for kernels in Numba's
dialect (in the simulator, or in the emulator with `engine='c'`), `'cuda'` for CUDA C, and `'triton'`, which falls back
to the wording of `'python'`. `formatting` fills in the fields of a template.

A code for the C++ side of the emulator must be a C identifier. To add one, add a row to `messages.MESSAGES`, the same
kind and code to the C++ list of codes (`cpp/include/cuda/finding.h`), and the call that reports it, which sets each
field that the row names (`formatting.field_names` lists them). A field is an integer, a string, a tuple of integers, or
a `Phrase`: a part of the sentence with its own row in `messages.PHRASES`, and its own fields.
Addresses and masks are integers there; the row formats them (`{mask:#x}`).
A test compares the C++ side with the rows: its list of codes, and the fields that each call sets.

The hint depends on the learner's line, too: `hints.hint_for` may choose a row of `messages.HINTS` instead of the
hint of `MESSAGES`. `how_to_disable` returns how to run without a check, which is not possible for the findings in
`ALWAYS_REPORTED`; the page of a message and `help(error)` show it. Some findings are warnings: `WARNINGS`.

A feature that the simulator does not support is not a finding: `NotSimulated` has no row, and its message is written
where it is raised.
"""

import functools
import os
import sys
import warnings
from collections import namedtuple
from typing import NamedTuple

from .formatting import element, format_advice, position, text_of
from .hints import hint_for
from .settings import CHECKS
from ..support.short_tracebacks import ShortTracebackError, is_notebook_runtime

__all__ = [
    'Access',
    'Call',
    'Location',
    'KernelError',
    'MemcheckError',
    'RacecheckError',
    'FencecheckError',
    'InitcheckError',
    'SynccheckError',
    'LaunchError',
    'DeviceAssert',
    'DeviceRaise',
    'DivisionByZero',
    'KernelCrash',
    'KernelTimeout',
    'NotCompiled',
    'NotSimulated',
    'SameValueRace',
    'EarlyReturn',
    'UnassignedVariable',
    'NegativeIndex',
    'OutOfMemory',
    'UndefinedBehaviour',
    'MissingBarrier',
    'TunedInPlace',
    'UndefinedLanes',
    'WrongArgument',
    'ALWAYS_REPORTED',
    'WARNINGS',
    'exception_of',
    'as_instance_of',
    'learner_stacklevel',
    'warn_learner',
    'how_to_disable',
    'warn_of',
    'warning_observers',
]

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep

# the other access of a race: its line number, block, thread and source line, and if known its file, call stack and
# device
Access = namedtuple('Access', 'line block thread source file calls device', defaults=('', '', (), None))
Call = namedtuple('Call', 'function file line source', defaults=('',))  # a frame of a call stack: innermost first


class KernelError(ShortTracebackError, Exception):
    "A finding: a mistake in a kernel. Attributes that do not apply are None"

    kind = None

    def __init__(
        self,
        summary,  # one line
        hint='',  # how to fix it
        kernel=None,  # its name
        file=None,
        line=None,
        source='',  # the source line
        block=None,
        thread=None,  # (x, y, z), like the block
        array=None,
        index=None,  # of the element
        other=None,  # an `Access`
        call_site=None,  # (line, source line, optionally file) of the kernel's call, if `line` is in a called function
        calls=(),  # the call stack, each a `Call`, the innermost first; empty if it is unknown
        advice=None,  # (name of a row of `HINTS`, its fields), if it replaces the hint of the finding's row
        code=None,  # of the finding, in `MESSAGES`
        fields=None,  # of the message: name -> value
        dialect='python',  # one of `DIALECTS`, which decides how blocks and threads are named
        has_several_files=False,  # whether to name the file of each line, because the program has several
        device=None,  # the number of the emulated device, if there are several
    ):
        self.kernel = kernel
        self.file = file
        self.line = line
        self.source = source
        self.dialect = dialect
        self.block = block
        self.thread = thread
        self.device = device
        self.array = array
        self.index = index
        self.other = other
        self.call_line = call_site[0] if call_site else None
        self.code = code
        self.fields = fields or {}
        self.summary = summary
        self.hint = hint
        self.calls = tuple(calls)
        (self.advice, self.advice_fields) = advice or (None, {})
        other_process = self.fields.get('process_before', '')
        process = other_process and self.fields['process']
        call_in_kernel = _call_in(kernel, other)
        name_line = _line_namer(
            file,
            has_several_files,
            other.file if other else '',
            *(call_site or ())[2:],
            call_in_kernel.file if call_in_kernel else '',
        )
        lines = (
            f'{self.kind}: {summary}',
            f'  {name_line(line)}: {source}' if line else '',
            f'  called on {name_line(call_site[0], *call_site[2:])}: {call_site[1]}' if call_site else '',
            kernel
            and f'  in {kernel}'
            + ('' if block is None else f', {_format_thread(block, thread, dialect, device, process)}'),
            other
            and f'  against {name_line(other.line, other.file)}'
            + (
                f' (called on {name_line(call_in_kernel.line, call_in_kernel.file)}{_quoted(call_in_kernel.source)})'
                if call_in_kernel
                else ''
            )
            + f', {_format_thread(other.block, other.thread, dialect, other.device, other_process)}'
            + _quoted(other.source),
            hint and f'  {hint}',
        )
        super().__init__('\n'.join(filter(None, lines)))


def _call_in(kernel, access):
    "Return the `Call` in the kernel that led to an access in another function; None if it is in the kernel, or unknown"
    calls = access.calls if access else ()
    return calls[-1] if len(calls) > 1 and calls[-1].function == kernel else None


def _line_namer(file, has_several_files, *other_files):
    "Return a function that names a line, with its file if `has_several_files`, or if one of `other_files` differs"
    has_several_files = has_several_files or any(other and other != file for other in other_files)
    return lambda line, line_file='': f'line {line}' + _file_suffix(line_file or file) * has_several_files


def _file_suffix(file):
    "Return ' of FILE' for a line of this file; nothing for the cells of a notebook, which have no file name"
    return '' if not file or 'ipykernel_' in file or file[0] == '<' else f' of {os.path.basename(file)}'


def _quoted(source):
    "Return a source line as the end of a line of the message; '' if it is unknown"
    return f': {source}' if source else ''


def _format_thread(block, thread, dialect='python', device=None, process=''):
    "Format block and thread, after the process and the device if there are several; in Triton, program and lane"
    if dialect != 'triton':
        prefix = f'{process}, ' * bool(process) + ('' if device is None else f'device {device}, ')
        return prefix + f'block {position(block)}' + ('' if thread is None else f', thread {position(thread)}')
    lane = f', lane {element("", thread, dialect)}' if thread else ''
    return f'program {position(block)}{lane}'


class MemcheckError(KernelError, IndexError):
    """An out-of-bounds access, or an invalid address.

    To run without this check: `sim.options(checks='no memcheck')`, `cpp.options(...)` or `tile.options(...)`."""

    kind = 'memcheck'


class RacecheckError(KernelError):
    """A data race: two accesses to one element, at least one write, and no barrier in between; `other` is the earlier.

    To run without this check: `sim.options(checks='no racecheck')`, `cpp.options(...)` or `tile.options(...)`."""

    kind = 'racecheck'


class FencecheckError(RacecheckError):
    """A fence of Hopper or Blackwell that PTX's specification requires is missing.

    Many public kernels omit such fences, and most of these kernels compute correct results on current GPUs, so a
    separate check reports them. To run with all other checks: `cpp.options(checks='no fencecheck')`."""

    kind = 'fencecheck'


class InitcheckError(KernelError):
    """A read of uninitialized memory.

    To run without this check: `sim.options(checks='no initcheck')`, `cpp.options(...)` or `tile.options(...)`."""

    kind = 'initcheck'


class SynccheckError(KernelError):
    """A barrier in divergent code, a warp operation that not all its lanes reach, or a deadlock.

    To run without this check: `sim.options(checks='no synccheck')`, `cpp.options(...)` or `tile.options(...)`."""

    kind = 'synccheck'


class LaunchError(KernelError, ValueError, RuntimeError):
    "A launch that no GPU accepts, because of its sizes, its shared memory or its number of arguments"

    kind = 'launch'


class DeviceAssert(KernelError, AssertionError):
    "An `assert` in a kernel failed"

    kind = 'assert'


class DeviceRaise(KernelError):
    "A kernel raised an exception; the error is also an instance of that exception's class"

    kind = 'raise'


class KernelCrash(KernelError, RuntimeError):
    "A compiled kernel crashed: a division by zero, a stack overflow, a trap"

    kind = 'crash'


class DivisionByZero(KernelCrash, ZeroDivisionError):
    "A kernel divided an integer by zero"


class KernelTimeout(KernelError, TimeoutError):
    "A kernel did not end in time"

    kind = 'timeout'


class NotSimulated(KernelError, NotImplementedError):
    "A feature of GPUs that the simulator does not support"

    kind = 'not simulated'


class NotCompiled(KernelError, TypeError):
    "Code that the compiler of Triton or Numba rejects, even if it is valid Python"

    kind = 'not compiled'


class WrongArgument(ShortTracebackError, TypeError):
    "An argument of a launch that the kernel does not take"


class SameValueRace(RuntimeWarning):
    "A data race in which several threads write the same value to one element"


class MissingBarrier(RuntimeWarning):
    "Threads of one Triton program access one element with no barrier in between"


class UndefinedLanes(RuntimeWarning):
    "A result depends on lanes without a value: masked off in a load, absent from a shuffle, or without CUB's result"


class EarlyReturn(RuntimeWarning):
    "Threads returned before a barrier where others wait: GPUs since Volta allow this, but CUDA does not guarantee it"


class UnassignedVariable(RuntimeWarning):
    "Threads read a variable, or use the value of a call, that only other threads have set"


class NegativeIndex(RuntimeWarning):
    "An index that depends on the thread is negative and counts from the end of the array, as Numba defines"


class OutOfMemory(RuntimeWarning):
    "An allocation failed: the emulated device is out of memory"


class TunedInPlace(RuntimeWarning):
    "Autotuning runs a kernel many times on the arguments of a launch, and a second run changes the result"


class UndefinedBehaviour(RuntimeWarning):
    "Undefined behaviour in arithmetic: a GPU may give another result than the emulator"


CLASSES = {  # kind -> exception class
    cls.kind: cls
    for cls in (
        MemcheckError,
        RacecheckError,
        FencecheckError,
        InitcheckError,
        SynccheckError,
        LaunchError,
        DeviceAssert,
        DeviceRaise,
        KernelCrash,
        KernelTimeout,
    )
}


_CLASS_OF_CODE = {('crash', 'division'): DivisionByZero}  # codes with their own class


class Location(NamedTuple):
    "The source line and thread of a finding; an unknown field is None"

    kernel: str = None  # its name
    file: str = None
    line: int = None
    source: str = ''  # the source line, stripped
    block: tuple = None  # (x, y, z)
    thread: tuple = None  # (x, y, z)
    call_site: tuple = None  # (line, source line, optionally file) of the call in the kernel, if it called a function
    preceding_lines: str = ''  # the lines of the function before that line
    following_lines: str = ''  # the unstripped source line, and the lines of the function after it
    calls: tuple = ()  # the call stack, each a `Call`, the innermost first
    has_several_files: bool = False  # whether the file is one of several, so that lines are named with their files
    device: int = None  # the number of the emulated device, if there are several


_OPTIONS = dict(python='sim.options', cuda='cpp.options', triton='tile.options')


# Findings that are warnings: the kernel continues
WARNINGS = {
    'same_value': ('racecheck', SameValueRace),
    'same_value_programs': ('racecheck', SameValueRace),
    'read_back': ('racecheck', MissingBarrier),
    'stored_again': ('racecheck', MissingBarrier),
    'released': ('racecheck', MissingBarrier),
    'undefined_stored': ('initcheck', UndefinedLanes),
    'undefined_address': ('initcheck', UndefinedLanes),
    'undefined_decision': ('initcheck', UndefinedLanes),
    'returned': ('synccheck', EarlyReturn),
    'unassigned': ('initcheck', UnassignedVariable),
    'no_value': ('initcheck', UnassignedVariable),
    'counted_from_end': ('memcheck', NegativeIndex),
    'undefined_lane': ('synccheck', UndefinedLanes),
    'undefined_result': ('synccheck', UndefinedLanes),
    'out_of_memory': ('launch', OutOfMemory),
    'tuned': ('launch', TunedInPlace),
    'shifted_too_far': ('crash', UndefinedBehaviour),
    'does_not_fit': ('crash', UndefinedBehaviour),
}

# kind -> codes of findings that are reported even if their check is disabled, because the kernel cannot continue
ALWAYS_REPORTED = dict(
    memcheck='indices index_type no_shared_address fault_outside fault_no_array fault_freed fault_null fault_address '
    'host_function host_virtual misaligned_operand host_reads host_writes host_reads_symbol host_writes_symbol '
    'host_symbol host_memory_given device_memory_given failed_alloc copy_target no_block copy_to_no_block '
    'memory_of_other_block bulk_bytes no_tensor_map coordinates box_misaligned box_before descriptor block_ended '
    'tensor_columns tensor_outside tensor_freed_twice tensor_lanes tensor_pair instruction_descriptor '
    'matrix_descriptor',
    synccheck='grid_diverged endless_wait blocks_wait deadlock mutual_deadlock warp_diverged '
    'lane_elsewhere deadlock_on_flag ranks_missing ranks_disagree process_missing '
    'different_calls caller_not_in_mask arrives_twice waits_unarrived no_such_barrier '
    'barrier_threads no_mbarrier mbarrier_count mbarrier_bytes too_many_arrive different_descriptors '
    'tensor_addresses not_resident '
    'not_cooperative programs_wait',
)


def how_to_disable(kind, code, dialect):
    """Return how to run without the check that reports a finding; '' if that is not possible.

    >>> how_to_disable('racecheck', 'race', 'cuda')
    "To run without this check: with cpp.options(checks='no racecheck'): ..." """
    if kind not in CHECKS or code in ALWAYS_REPORTED.get(kind, '').split():
        return ''
    return f"To run without this check: with {_OPTIONS[dialect]}(checks='no {kind}'): ..."


def exception_of(
    kind,  # 'memcheck', 'racecheck', ...
    code,  # of the finding, in `MESSAGES`
    dialect,  # 'python', 'cuda' or 'triton'
    fields=None,  # name -> value, for the templates
    location=Location(),  # where it was found
    other=None,  # an `Access`: the other access of a race
) -> KernelError:  # of the class that belongs to the kind
    "Make the exception of a finding; raises `KeyError` for an unknown code or a missing field"
    summary, hint = text_of(kind, code, dialect, fields)
    advice = hint_for(kind, code, fields or {}, location, other)
    hint = format_advice(advice, dialect, fields) or hint
    array, index = ((fields or {}).get(k) or None for k in ('array', 'index'))
    attributes = dict(array=array, index=index, other=other, code=code, fields=fields, dialect=dialect, advice=advice)
    location_fields = {k: v for k, v in location._asdict().items() if k not in ('preceding_lines', 'following_lines')}
    cls = _CLASS_OF_CODE.get((kind, code), CLASSES[kind])
    return cls(summary, hint, **attributes, **location_fields)


def as_instance_of(
    error,  # a `KernelError`
    other,  # a class of exceptions
):
    "Return the finding as an instance of `other`, too, or of its nearest base class that takes one string"
    for base in other.__mro__:
        if issubclass(base, Exception) and isinstance(error, base):
            return error
        try:
            new = _combined_class(type(error), base)(error.args[0])
        except TypeError:  # its constructor takes other arguments
            continue
        vars(new).update(vars(error))
        new.args = error.args
        return new


@functools.lru_cache
def _combined_class(finding_class, exception_class):
    "Return a class that is derived from both"
    members = dict(
        __str__=Exception.__str__, __reduce__=lambda self: (finding_class, self.args), __doc__=finding_class.__doc__
    )
    return type(
        exception_class.__name__, (finding_class, exception_class), dict(members, __module__=finding_class.__module__)
    )


def learner_stacklevel():
    "Return the `stacklevel` of a warning about the learner's code: the number of frames between it and the caller"
    frame = sys._getframe(1)
    level = 1
    while frame.f_back and (
        frame.f_code.co_filename.startswith(_PACKAGE) or is_notebook_runtime(frame.f_code.co_filename)
    ):
        frame = frame.f_back
        level += 1
    return level


def _is_command(frame):
    "Return whether a frame belongs to `python -m`, to the script `gridstride`, or to a program that `gridstride` built"
    functions = (frame.f_globals.get(name) for name in ('console', 'run_executable'))
    is_of_package = any(getattr(f, '__module__', '').startswith('gridstride.') for f in functions)
    return is_of_package or frame.f_code.co_filename.startswith('<frozen')


def warn_learner(
    warning: Warning,
    file=None,  # used if the learner has no Python code, as with `python -m gridstride.cpp`
    line=None,
):
    "Emit a warning at the learner's Python line that led here, or else at `line` of `file`"
    level = learner_stacklevel()
    if file and _is_command(sys._getframe(level - 1)):
        warnings.warn_explicit(warning, type(warning), file, line or 1)
    else:
        warnings.warn(warning, stacklevel=level)


# Functions that `warn_of` calls with each warning, even if one of Python's warning filters hides it
warning_observers = []


def warn_of(code, dialect, fields, file=None):
    "Emit the warning of a finding, one of `WARNINGS`, at the line of the launch, or else at a line of `file`"
    kind, category = WARNINGS[code]
    summary, hint = text_of(kind, code, dialect, fields)
    hint = format_advice(fields.get('advice'), dialect, fields) or hint
    warning = category(f'{summary}. {hint}'.rstrip())
    warning.kind = kind
    warning.code = code
    warning.fields = fields
    warning.line = fields.get('line')
    warning.file = file
    warning.dialect = dialect
    warning.summary, warning.hint = summary, hint
    for observe in warning_observers:
        observe(warning)
    warn_learner(warning, file, warning.line)
