"""Records the findings of all launches of this process, even if the program catches their exceptions.

The recorder wraps the methods that launch kernels in each engine, and observes warnings. An exception that the kernel's
code raises (`raise`, `assert`), and an invalid launch, are findings only if the program does not catch them, because it
may cause them on purpose."""

import functools
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any, Callable, NamedTuple

from .finding import finding_of_error, finding_of_warning
from .source_map import locate_in_files

__all__ = ['Recorder', 'LaunchTarget']

_SAME_VALUE = 'same_value', 'same_value_programs'
_RECORDED_IF_CAUGHT = 'memcheck', 'racecheck', 'initcheck', 'synccheck', 'fencecheck'


class LaunchTarget(NamedTuple):
    "The target of a launch: a kernel in Python with its file, or a compiled module with its sources"

    owner: object
    file: str | None = None
    sources: Callable[[], dict] = dict  # a function that returns {file name: text}


class Recorder:
    "Records the findings of this process, and counts its launches"

    def __init__(
        self,
        program_file=None,  # the file that is checked
        report=lambda finding: None,  # called with each new finding
        schedule='forward',
        launch_context: Callable[
            [LaunchTarget], Any
        ] = nullcontext,  # a function that returns a context manager; each launch runs in one
    ):
        self.program_file, self.report, self._launch_context = program_file, report, launch_context
        self.start(schedule)
        self.disabled_checks = set()  # as `checks_to_disable` returns them: those of kernels do not run in them
        self.active_targets = []  # targets of the running launches, the innermost last

    def start(self, schedule):
        "Discard all findings and launches, and record those of a run under a schedule"
        self.schedule, self.findings, self.num_launches = schedule, [], 0
        self._num_taken_findings = 0  # by `take_new_findings`
        self._errors = []  # [error, sources, its `Finding` or None] of each error that a launch raised

    def take_new_findings(self):
        "Return the findings that were recorded since the last call"
        new_findings = self.findings[self._num_taken_findings :]
        self._num_taken_findings = len(self.findings)
        return new_findings

    def add(self, finding):
        "Record a finding, once per line and kernel; return the recorded finding of this line and kernel"
        finding.schedule = self.schedule
        for recorded in self.findings:
            if recorded.key == finding.key:
                return recorded
        self.findings.append(finding)
        self.report(finding)
        return finding

    def add_error(self, error):
        "Record an exception of a launch or of the program; return its `Finding`, or None if it is not a finding"
        if not _is_finding(error):
            return None
        entry = self._error_entry(error, dict)
        if entry[2] is None:
            entry[2] = self.add(finding_of_error(error, self._locator(entry[1]())))
        return entry[2]

    def _error_entry(self, error, sources):
        "Return the entry of an error in `_errors`; an error that passes through several wrappers has one entry"
        for entry in self._errors:
            if entry[0] is error:
                return entry
        self._errors.append([error, sources, None])
        return self._errors[-1]

    def _locator(self, sources):
        return lambda file, line: locate_in_files(file, line, sources, self.program_file)

    def _on_warning(self, warning):
        if warning.code in _SAME_VALUE and _is_race_allowed(warning.fields.get('kernel'), warning.line):
            return
        target = self.active_targets[-1] if self.active_targets else LaunchTarget(None)
        self.add(finding_of_warning(warning, target.file, self._locator(target.sources())))

    def _on_error(self, error, target):
        "Record an error of a launch, unless the program may have caused it on purpose"
        if _is_finding(error):
            self._error_entry(error, target.sources)
            if error.kind in _RECORDED_IF_CAUGHT:
                self.add_error(error)

    def _wrap(self, original, describe_target, error_of_result=lambda owner, result: None):
        "Wrap a method that launches kernels; `error_of_result` converts a result to an error, or to None"

        @functools.wraps(original)
        def launch(owner, *args, **options):
            self.num_launches += 1
            self.active_targets.append(target := describe_target(owner))
            try:
                with self._launch_context(target), self._enabled_checks(owner):
                    result = original(owner, *args, **options)
                self._on_error(error_of_result(owner, result), target)
                return result
            except Exception as error:
                self._on_error(error, target)
                raise
            finally:
                self.active_targets.pop()

        return launch

    def _enabled_checks(self, kernel):
        "Return a context manager for a launch, without the checks that are disabled in its kernel"
        from ..diagnostics.settings import change, settings

        name = getattr(kernel, '__name__', None)
        enabled_checks = tuple(check for check in settings.checks if (check, name) not in self.disabled_checks)
        return change(settings, checks=enabled_checks) if enabled_checks != settings.checks else nullcontext()

    @contextmanager
    def recording(self):
        "Record the findings of all launches in the `with` block"
        from ..diagnostics.errors import warning_observers

        with ExitStack() as stack:
            warning_observers.append(self._on_warning)
            stack.callback(warning_observers.remove, self._on_warning)
            for cls, name, *wrap_arguments in _launching_methods():
                original = vars(cls)[name]
                stack.callback(setattr, cls, name, original)
                setattr(cls, name, self._wrap(original, *wrap_arguments))
            yield self


def _is_race_allowed(kernel, line):
    "Return whether a data race on a line is allowed, so that the threads may also write the same value there"
    from ..diagnostics.messages import MESSAGES
    from ..diagnostics.settings import settings

    allowed_findings = settings.allowed_findings
    return any((kernel, line) == allowed[1:] and ('racecheck', allowed[0]) in MESSAGES for allowed in allowed_findings)


def _is_finding(error):
    "Return whether an exception reports an error of a kernel, not an unsupported feature"
    from ..cpp.frontend.edits import NotEmulated
    from ..diagnostics.errors import KernelError, NotSimulated

    return isinstance(error, KernelError) and not isinstance(error, (NotSimulated, NotEmulated))


def _python_target(kernel):
    return LaunchTarget(kernel, kernel.py_func.__code__.co_filename)


def _launching_methods():
    "Yield (class, name of the method, arguments of `Recorder._wrap`) per engine"
    from ..cpp.load import EmulatorModule
    from ..cpp.values import FINDING
    from ..sim.kernel import Kernel

    yield Kernel, '_launch', _python_target
    yield (
        EmulatorModule,
        'call',
        lambda module: LaunchTarget(module, None, module.sources),
        lambda module, code: module.error_of_finding(None) if code == FINDING else None,
    )
    if find_spec('ml_dtypes'):
        from ..tile.kernel import CheckedKernel

        yield CheckedKernel, 'run', _python_target
