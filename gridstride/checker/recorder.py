"""Records the findings of all launches of this process, even those that the program catches.

The recorder wraps the methods that launch kernels in each engine, and observes warnings. An exception that a kernel
raises itself (`raise`, `assert`), and a launch that no GPU accepts, are findings only if the program does not catch
them: a program may cause them on purpose."""

import functools
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.util import find_spec
from typing import NamedTuple

from .finding import finding_of_error, finding_of_warning
from .source_map import locate_in_files

__all__ = ['Recorder', 'Running']

_RECORDED_IF_CAUGHT = 'memcheck', 'racecheck', 'initcheck', 'synccheck'


class Running(NamedTuple):
    "What runs: a kernel in Python with its file, or a compiled module with its sources"

    owner: object
    file: str = None
    sources: object = dict  # a function that returns {file name: text}


class Recorder:
    "The findings of this process, and the number of its launches"

    def __init__(
        self,
        program=None,  # the file that is checked
        report=lambda finding: None,  # called with each new finding
        schedule='forward',
        around=nullcontext,  # makes a context manager, in which each launch runs
    ):
        self.program, self.report, self._around = program, report, around
        self.start(schedule)
        self.running = []  # what runs, the innermost last

    def start(self, schedule):
        "Forget all findings and launches, and begin to record those of a run under a schedule"
        self.schedule, self.findings, self.num_launches = schedule, [], 0
        self._num_taken = 0  # of the findings, by `take_new`
        self._errors = []  # [error, sources, its `Finding` or None] of each error that a launch raised

    def take_new(self):
        "Return the findings that were recorded since the last call"
        new = self.findings[self._num_taken :]
        self._num_taken = len(self.findings)
        return new

    def add(self, finding):
        "Record a finding, once per line and kernel; returns the one that is recorded"
        finding.schedule = self.schedule
        for known in self.findings:
            if known.key == finding.key:
                return known
        self.findings.append(finding)
        self.report(finding)
        return finding

    def add_error(self, error):
        "Record an exception of a launch, or that ended the program; returns its `Finding`, None if it is not a finding"
        if not _is_finding(error):
            return None
        row = self._row_of(error, dict)
        if row[2] is None:
            row[2] = self.add(finding_of_error(error, self._locator(row[1]())))
        return row[2]

    def _row_of(self, error, sources):
        "Return the row of an error in `_errors`, a new one if there is none: it may pass through several wrappers"
        for row in self._errors:
            if row[0] is error:
                return row
        self._errors.append([error, sources, None])
        return self._errors[-1]

    def _locator(self, sources):
        return lambda file, line: locate_in_files(file, line, sources, self.program)

    def _on_warning(self, warning):
        running = self.running[-1] if self.running else Running(None)
        self.add(finding_of_warning(warning, running.file, self._locator(running.sources())))

    def _on_error(self, error, running):
        "Record an error of a launch, unless the program may have caused it on purpose"
        if _is_finding(error):
            self._row_of(error, running.sources)
            if error.kind in _RECORDED_IF_CAUGHT:
                self.add_error(error)

    def _wrap(self, original, describe, error_of=lambda owner, result: None):
        "Wrap a method that launches kernels; `error_of` returns the error that a result stands for"

        @functools.wraps(original)
        def launch(owner, *args, **options):
            self.num_launches += 1
            self.running.append(running := describe(owner))
            try:
                with self._around():
                    result = original(owner, *args, **options)
                self._on_error(error_of(owner, result), running)
                return result
            except Exception as error:
                self._on_error(error, running)
                raise
            finally:
                self.running.pop()

        return launch

    @contextmanager
    def recording(self):
        "Record in the `with` block"
        from ..diagnostics.errors import warning_observers

        with ExitStack() as stack:
            warning_observers.append(self._on_warning)
            stack.callback(warning_observers.remove, self._on_warning)
            for cls, name, *how in _launching_methods():
                original = vars(cls)[name]
                stack.callback(setattr, cls, name, original)
                setattr(cls, name, self._wrap(original, *how))
            yield self


def _is_finding(error):
    "Return whether an exception is a mistake of a kernel, and not a feature that the engines do not support"
    from ..cpp.frontend.edits import NotEmulated
    from ..diagnostics.errors import KernelError, NotSimulated

    return isinstance(error, KernelError) and not isinstance(error, (NotSimulated, NotEmulated))


def _of_python(kernel):
    return Running(kernel, kernel.py_func.__code__.co_filename)


def _launching_methods():
    "Yield (class, name of the method, function that describes what runs, function for its error) per engine"
    from ..cpp.load import EmulatorModule
    from ..cpp.values import FINDING
    from ..sim.kernel import Kernel

    yield Kernel, '_launch', _of_python
    yield (
        EmulatorModule,
        'call',
        lambda module: Running(module, None, module.sources),
        lambda module, code: module.error_of_finding(None) if code == FINDING else None,
    )
    if find_spec('ml_dtypes'):
        from ..tile.kernel import CheckedKernel

        yield CheckedKernel, 'run', _of_python
