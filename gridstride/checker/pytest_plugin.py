"""A pytest plugin: with `pytest --gridstride`, the kernels that tests launch run without a GPU, with every check.

Before any test module is imported, the simulator, `tile` and the emulator replace `numba.cuda` and
`numba_cuda_mlir.cuda`, Triton, and torch's GPU. A finding fails its test. Without the option the plugin does nothing,
and imports nothing.

    pytest --gridstride --gridstride-order shuffle --gridstride-seeds 20
    pytest --gridstride --gridstride-baseline known.json    # only findings that are not in this file fail

    @pytest.mark.gridstride_allow('same_value')    # a known finding, by its code
    def test_histogram(): ...

Without the option, GRIDSTRIDE_CUDASIM=1 replaces only `numba.cuda`, as NUMBA_ENABLE_CUDASIM=1 did; the marker and the
other options then apply if one of these options is given."""

import os
from contextlib import ExitStack
from itertools import takewhile
from typing import Any

import pytest

from .baseline import AllowedFindings, entry_of, read_baseline, stale_entry_messages, write_baseline
from .finding import checks_to_disable, require_codes, settings_without
from .schedules import parse_schedule, schedules_of

__all__ = ['CheckedTests']


def pytest_addoption(parser):
    "Add the command-line options"
    g = parser.getgroup('gridstride', 'check GPU kernels on the CPU')
    g.addoption('--gridstride', action='store_true', help='run kernels on the CPU, with every check')
    g.addoption('--gridstride-order', choices=('forward', 'reverse', 'shuffle'), help='order of blocks and threads')
    g.addoption('--gridstride-seeds', type=int, default=1, metavar='N', help='run tests under N schedules')
    g.addoption('--gridstride-replay', metavar='SCHEDULE', help='run a schedule: forward, reverse or shuffle:SEED')
    g.addoption('--gridstride-allow', action='append', default=[], metavar='CODE', help='allow a finding in all tests')
    g.addoption('--gridstride-baseline', metavar='FILE', help='allow the findings that this file lists')
    g.addoption('--gridstride-write-baseline', metavar='FILE', help='allow all findings, and write them to this file')
    g.addoption('--gridstride-coverage', action='store_true', help='report which lines of kernels were executed')


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    "Emulate a GPU before any `conftest.py` or test is imported"
    _skip_assertion_rewriting(early_config)
    if early_config.known_args_namespace.gridstride:
        os.environ['GRIDSTRIDE_BACKEND'] = 'sim'
        early_config.add_cleanup(_emulate_gpu().close)
    elif _is_numba_simulated():
        from ..as_gpu import simulate_numba

        simulate_numba()


def _skip_assertion_rewriting(early_config):
    """Prevent pytest from rewriting the assertions of this package.

    Pytest rewrites the assertions in all modules of a package with a plugin, which makes their compilation 2.4x slower.
    This package has two assertions."""
    getattr(early_config.pluginmanager.rewrite_hook, '_must_rewrite', set()).discard('gridstride')


def _is_numba_simulated():
    "Return whether the environment replaces `numba.cuda` alone"
    return os.environ.get('GRIDSTRIDE_CUDASIM', '0') not in ('', '0')


def _emulate_gpu():
    "Emulate a GPU until the returned stack is closed: for Numba and Triton, and for torch if it is installed"
    from importlib.util import find_spec

    from .. import as_gpu

    stack = ExitStack()
    stack.enter_context(as_gpu.as_gpu(imports_torch=False) if find_spec('torch') else as_gpu.python_kernels())
    return stack


def pytest_configure(config):
    "Register the marker, and the hooks if the option is given"
    marker = 'gridstride_allow(*codes): findings with these codes do not fail the test; with --gridstride'
    config.addinivalue_line('markers', marker)
    if config.option.gridstride or _is_numba_simulated() and _has_other_options(config.option):
        try:
            plugin = CheckedTests(config)
        except ValueError as e:
            raise pytest.UsageError(f'--gridstride: {e}') from None
        config.pluginmanager.register(plugin, 'gridstride_tests')
        config.add_cleanup(plugin.close)


def _has_other_options(option):
    "Return whether an option of the plugin other than --gridstride is given"
    names = 'order', 'replay', 'allow', 'baseline', 'write_baseline'
    return (
        any(getattr(option, f'gridstride_{name}') for name in names)
        or option.gridstride_seeds > 1
        or option.gridstride_coverage
    )


def _allowed_codes(item):
    "Return the codes of the markers `gridstride_allow` of a test, and of the option for all tests"
    codes = set(item.config.option.gridstride_allow)
    for marker in item.iter_markers('gridstride_allow'):
        codes.update(marker.args)
        marker_codes = marker.kwargs.get('code', ())
        codes.update([marker_codes] if isinstance(marker_codes, str) else marker_codes)
    return codes


class CheckedTests:
    "The hooks that record the findings of each test, and run it under several schedules"

    def __init__(self, config):
        from .line_coverage import LineCoverage
        from .recorder import Recorder

        option = config.option
        replay = option.gridstride_replay
        self.config = config
        self.schedules = (
            [parse_schedule(replay)] if replay else schedules_of(option.gridstride_order, option.gridstride_seeds)
        )
        self.coverage = LineCoverage() if option.gridstride_coverage else None
        self.recorder = Recorder(launch_context=self.coverage.recording) if self.coverage else Recorder()
        self.baseline = read_baseline(option.gridstride_baseline) if option.gridstride_baseline else []
        self.totals: dict[str, Any] = dict(tests=0, launches=0, findings=0, coverage=[], allowed=[], node_ids=[])
        self._stack = ExitStack()
        self._stack.enter_context(self.recorder.recording())
        if self.coverage:
            self.coverage.trace_cuda()
            self._stack.callback(self.coverage.close)

    def close(self):
        "Stop recording"
        self._stack.close()

    def _allowed(self, item):
        "Return the findings that a test allows"
        return AllowedFindings(_allowed_codes(item), self.baseline, bool(self.config.option.gridstride_write_baseline))

    def pytest_collection_modifyitems(self, items):
        "Raise `UsageError` if a marker or the option allows an unknown code"
        for item in items:
            try:
                require_codes(_allowed_codes(item))
            except ValueError as e:
                raise pytest.UsageError(f'{item.nodeid} allows {e}') from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        "Run a test under one schedule after another, until it fails; a test that launches no kernel runs once"
        from _pytest.runner import runtestprotocol

        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        launches, reports, self.recorder.disabled_checks = 0, [], set()
        for schedule in self.schedules:
            reports, num_launches = self._run(schedule, lambda: runtestprotocol(item, log=False, nextitem=nextitem))
            while checks := self._checks_to_disable(item, reports):
                self.recorder.disabled_checks |= checks
                if reports[0].failed:  # a fixture; pytest would raise its cached exception again
                    item.session._setupstate.teardown_exact(None)
                reports, repeated_launches = self._run(
                    schedule, lambda: runtestprotocol(item, log=False, nextitem=nextitem)
                )
                num_launches += repeated_launches
            launches += num_launches
            if not num_launches or any(not report.passed for report in reports):
                break
        self.totals['tests'] += launches > 0
        self.totals['launches'] += launches
        self.totals['node_ids'].append(item.nodeid)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _checks_to_disable(self, item, reports):
        "Return the checks whose allowed findings ended a test, which must run again without them"
        if all(report.passed for report in reports):
            return set()
        return checks_to_disable(self.recorder.findings, self._allowed(item), self.recorder.disabled_checks)

    def _run(self, schedule, run):
        "Run a test under a schedule; returns its reports, and the number of its launches"
        from ..diagnostics.settings import change, settings

        self.recorder.start(str(schedule))
        with change(settings, **schedule.settings, **settings_without(self.recorder.disabled_checks)):
            return run(), self.recorder.num_launches

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        "Fail the phase of a test in which a finding was recorded, and show the kernel's lines"
        outcome = yield
        report = outcome.get_result()
        error = call.excinfo and call.excinfo.value
        finding = self.recorder.add_error(error) if error else None
        findings = self._take_findings(item)
        if report.failed and self.recorder.schedule != 'forward':
            report.sections.append(('gridstride', _replay_line(item.nodeid, self.recorder.schedule)))
        if not findings or report.skipped or hasattr(report, 'wasxfail'):
            return
        self.totals['findings'] += len(findings)
        text = '\n\n'.join(_failure_text(f, call.excinfo if f is finding else None) for f in findings)
        if report.passed or finding:
            report.outcome, report.longrepr = 'failed', text
        else:
            report.sections.append(('gridstride', text))

    def _stale_entry_messages(self):
        "Yield a line per finding of the baseline that its test, which ran, did not have"
        node_ids = {*self.totals['node_ids']}
        entries = [entry for entry in self.baseline if entry.get('test') in node_ids]
        yield from stale_entry_messages(entries, self.totals['allowed'])

    def _take_findings(self, item):
        "Return the new findings that a test does not allow; add the other ones to the totals"
        allowed, findings = self._allowed(item), self.recorder.take_new_findings()
        for f in findings:
            f.test = item.nodeid
        self.totals['allowed'] += [entry_of(f) for f in findings if f in allowed]
        return [f for f in findings if f not in allowed]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        "Add the coverage to the totals, and send them to the reporting process if this is a worker of pytest-xdist"
        self.totals['coverage'] += [self.coverage.to_dict()] if self.coverage else []
        if hasattr(self.config, 'workeroutput'):
            self.config.workeroutput['gridstride'] = self.totals

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        "Add the totals of a worker of pytest-xdist"
        for name, value in (getattr(node, 'workeroutput', None) or {}).get('gridstride', {}).items():
            self.totals[name] += value

    def pytest_terminal_summary(self, terminalreporter):
        "Print the totals and the coverage, and write the baseline"
        from .formats import count_text
        from .line_coverage import merge_coverages, report

        schedules = f'up to {len(self.schedules)} schedules' if len(self.schedules) > 1 else str(self.schedules[0])
        nouns = dict(findings='finding', tests='test', launches='launch')
        counts = ', '.join(count_text(self.totals[name], noun) for name, noun in nouns.items())
        terminalreporter.section('gridstride')
        terminalreporter.write_line(f'{counts}, {schedules}')
        missing_dialects = self.coverage.missing_dialects() if self.coverage else ''
        coverage_lines = [*report(merge_coverages(self.totals['coverage'])), missing_dialects]
        for line in [*filter(None, coverage_lines), *self._stale_entry_messages()]:
            terminalreporter.write_line(line)
        if file := self.config.option.gridstride_write_baseline:
            num_entries = write_baseline(file, self.totals['allowed'])
            terminalreporter.write_line(f'{file}: {count_text(num_entries, "known finding")}')


def _source_lines(finding):
    "Yield the lines of the kernel around a finding, marking its line and the line of the other access"
    import linecache

    markers = {finding.line: '>'}
    other = finding.other if finding.other and finding.other['file'] == finding.file else None
    if other and other['line'] != finding.line:
        markers[other['line']] = '*'
    first, last = min(filter(None, markers), default=1), max(filter(None, markers), default=0)
    for n in range(max(1, first - 2), min(last, first + 20) + 2) if finding.file else ():
        if (text := linecache.getline(str(finding.file), n).rstrip()) or n in markers:
            yield f'  {markers.get(n, " ")} {n:>5}  {text}'


def _launch_line(excinfo):
    "Return a line with the location of the failed launch in the test; '' if there is none"
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    callers = [*takewhile(lambda entry: not str(entry.path).startswith(package), excinfo.traceback)]
    callers = [entry for entry in callers if 'site-packages' not in entry.path.parts] or callers  # not torch's
    return f'  launched on line {callers[-1].lineno + 1} of {callers[-1].path.name}' if callers else ''


def _replay_line(test, schedule):
    "Return a line with the command that runs a test under a schedule"
    replay = '' if schedule == 'forward' else f' --gridstride-replay {schedule}'
    return f"To reproduce it: pytest '{test}' --gridstride{replay}"


def _failure_text(finding, excinfo):
    "Format a finding as the failure of a test"
    from .formats import details, location_text

    return '\n'.join(
        [
            f'{finding.kind}/{finding.code}: {finding.summary}',
            f'{location_text(finding)}: in {finding.kernel}',
            *_source_lines(finding),
            *details(finding),
            *filter(None, [excinfo and _launch_line(excinfo)]),
            f'  {_replay_line(finding.test, finding.schedule)}',
        ]
    )
