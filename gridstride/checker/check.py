"""`gridstride check FILE...`: runs programs without a GPU under one or several schedules, and checks their kernels."""

import argparse
import json
import math
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from .baseline import AllowedFindings, entry_of, read_baseline, stale_entry_messages, write_baseline
from .finding import Finding, checks_to_disable, relative_path, require_codes
from .formats import FORMATS, count_text
from .schedules import minimize_swaps, parse_schedule, schedules_of, shrink_sizes
from .worker import Job
from .workers import Workers

__all__ = ['FileResult', 'check_file', 'exit_status', 'main']

_CUDA_SUFFIXES = '.cu', '.cpp', '.cc', '.cxx'
SUFFIXES = *_CUDA_SUFFIXES, '.py', '.ipynb'
_NAMES_OF_CUDA = re.compile(rb'__global__|cpp_extension|cuda_kernel|load_cuda')
_TIME_LIMIT = 'time limit: use smaller arrays or fewer schedules, or set a longer limit. At the limit, '
_DESCRIPTION = """Run programs on the CPU with every check, and report data races, out-of-bounds accesses, uninitialized
reads and divergent barriers: CUDA C with a main (.cu), and Python (.py, .ipynb) that launches kernels of Numba, Triton,
CUDA C or a PyTorch extension. No GPU is used."""
_EPILOG = """The exit status is 0 if nothing was found, 1 if there are findings (warnings included, but not those that
--allow names), and 2 if the command line is wrong, or a program could not be run or launched no kernel. Arguments after
-- are passed to the programs."""


@dataclass
class FileResult:
    "The result of checking one file"

    file: str
    findings: list = field(default_factory=list)  # of `Finding`
    launches: int = 0  # number of kernel launches, and calls of compiled code, under the first schedule
    schedules: list = field(default_factory=list)  # that were run, as `--replay` takes them
    error: str | None = None  # why the program could not be checked
    output: str = ''  # what the program printed, if there is an error
    allowed_findings: list = field(default_factory=list)  # that are not reported

    is_time_limit: bool = False  # whether the time limit has ended the check

    @property
    def status(self):
        "'checked', 'failed' or 'time limit'"
        return 'time limit' if self.is_time_limit else 'failed' if self.error else 'checked'

    def to_dict(self):
        "Return the result without its findings, as in the JSON output"
        return {name: getattr(self, name) for name in ('file', 'launches', 'schedules', 'status', 'error')}


class RunResult(NamedTuple):
    "The result of one run of a program"

    findings: list  # of `Finding`
    launches: int
    error: str | None  # why the program ended, if that is not a finding
    interruption: str | None  # what the time limit interrupted
    output: str = ''


def _run_worker(job, workers) -> RunResult:
    "Run a job in a separate process, unless no time is left"
    if workers.seconds_left <= 0:
        return RunResult([], 0, None, 'no time was left for another run')
    with tempfile.TemporaryDirectory() as folder:
        job = replace(job, report=os.path.join(folder, 'report.jsonl'))
        status, output = workers.run(job, os.path.join(folder, 'output'))
        path = Path(job.report)
        lines = path.read_text(encoding='utf-8').splitlines() if path.exists() else []
    return _parse_report(map(json.loads, lines), status)._replace(output=output)


def _parse_report(lines, status) -> RunResult:
    "Return the result of the run that wrote the lines of a report"
    findings: list[Finding] = []
    last: dict[str, Any] = dict(launches=0, error=f'the program ended early: exit status {status}', interruption=None)
    for line in lines:
        if 'finding' in line:
            findings.append(Finding.from_dict(line['finding']))
        else:
            last = line
    return RunResult(findings, last['launches'], last['error'], last['interruption'])


def check_file(
    job: Job,  # the file, with its options
    schedules: list,  # of `Schedule`
    allowed=AllowedFindings(),  # the findings that are not reported
    seconds=60.0,  # time limit of the search for a simple schedule that shows a finding
    deadline=math.inf,  # of the check, on the clock `time.monotonic`
) -> FileResult:
    "Check a file under one schedule after another, until one has a finding that stops a kernel"
    with Workers(deadline) as workers:
        return _check_file(job, schedules, allowed, seconds, workers)


def _check_file(job, schedules, allowed, seconds, workers):
    result = FileResult(relative_path(job.file) or job.file)
    for schedule in schedules:
        job = replace(job, schedule=str(schedule))
        run = _run_worker(job, workers)
        findings = [*run.findings]
        while not run.interruption and (checks := _checks_to_disable(run, allowed, job)):
            job = replace(job, disabled_checks=[*job.disabled_checks, *checks])
            run = _run_worker(job, workers)
            findings += run.findings
        result.schedules.append(str(schedule))
        result.launches = result.launches or run.launches
        _add_findings(result, findings, allowed)
        _set_error(result, run, findings, allowed)
        if run.error or run.interruption or not run.launches or any(f.level == 'error' for f in result.findings):
            break
    if not result.launches and not result.findings and not result.error:
        result.error = (
            'no kernel was launched, so nothing was checked; check the program that launches kernels, or run its tests '
            'with pytest --gridstride'
        )
    if len(schedules) > 1 and result.findings and parse_schedule(result.findings[0].schedule).order == 'shuffle':
        result.findings[0] = _minimize_swaps(job, result.findings[0], seconds, workers)
        job = replace(job, schedule=result.findings[0].schedule)
    if job.launch and result.findings:
        result.findings[0] = _minimize_launch(job, result.findings[0], workers)
    return result


def _checks_to_disable(run, allowed, job):
    "Return the checks without which a job must run again, because their allowed findings ended a run"
    return checks_to_disable(run.findings, allowed, {*map(tuple, job.disabled_checks)})


def _set_error(result, run, findings, allowed):
    "Set why the program was not checked to its end, after a run with its findings, and those of earlier runs"
    stopped = [f for f in run.findings if f.level == 'error' and f in allowed]
    if run.interruption:
        result.is_time_limit, result.output = True, run.output
        result.error = _TIME_LIMIT + run.interruption
    elif run.error and all(f in allowed for f in findings):
        result.error, result.output = run.error, run.output
    elif stopped:
        result.error = f'stopped by {stopped[-1].kind}/{stopped[-1].code}, which is allowed: {stopped[-1].summary}'


def _add_findings(result, findings, allowed):
    "Add the findings of a run to a result, each once"
    known_keys = {f.key for f in (*result.findings, *result.allowed_findings)}
    for finding in (f for f in findings if f.key not in known_keys):
        (result.allowed_findings if finding in allowed else result.findings).append(finding)


def _minimize_swaps(job, finding, seconds, workers):
    "Return the finding of a schedule in which few threads run out of order, if one is found within the time limit"
    deadline = time.monotonic() + seconds
    reproductions = [finding]

    def reproduces(schedule):
        if time.monotonic() > deadline:
            return False
        findings = _run_worker(replace(job, schedule=str(schedule)), workers).findings
        matching = [f for f in findings if _is_same_finding(f, finding)]
        reproductions.extend(matching)
        return bool(matching)

    schedule = str(minimize_swaps(parse_schedule(finding.schedule), reproduces))
    return next((f for f in reversed(reproductions) if f.schedule == schedule), finding)


def _minimize_launch(job, finding, workers):
    "Return the finding of the smallest launch that reproduces it: shrink the array size and the number of threads"
    sizes = {name: n for name, n in job.sizes.items() if name in ('size', 'block') and isinstance(n, int)}
    reproductions = [replace(finding, launch=_format_sizes(job.sizes))]

    def reproduces(smaller):
        smaller = {**job.sizes, **smaller}
        findings = _run_worker(replace(job, sizes=smaller), workers).findings
        matching = [f for f in findings if _is_same_finding(f, finding)]
        reproductions.extend(replace(f, launch=_format_sizes(smaller)) for f in matching)
        return bool(matching)

    shrink_sizes(sizes, reproduces)
    return reproductions[-1]


def _is_same_finding(finding, other):
    return (finding.kind, finding.code, finding.line) == (other.kind, other.code, other.line)


def _format_sizes(sizes):
    "Format the sizes of a launch as options of the command line"
    return ' '.join(
        f'--{name} {",".join(map(str, n)) if isinstance(n, (list, tuple)) else n}'
        for name, n in sizes.items()
        if n is not None
    )


def exit_status(results) -> int:
    "Return 1 if there are findings, else 2 if a file could not be checked, else 0"
    return 1 if any(r.findings for r in results) else 2 if any(r.error for r in results) else 0


def _sizes(text):
    "Parse the size of a grid or a block: `4`, or `2,2`"
    sizes = [int(n) for n in text.split(',')]
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f'{text} must be one to three positive integers, as in 16,16')
    return sizes if len(sizes) > 1 else sizes[0]


def _positive(text):
    "Parse a positive integer"
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'{text} must be a positive integer')
    return int(text)


def _schedule(text):
    try:
        return parse_schedule(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def _parser():
    p = argparse.ArgumentParser(prog='gridstride check', description=_DESCRIPTION, epilog=_EPILOG)
    p.add_argument('files', nargs='+', metavar='FILE', help='.cu, .py or .ipynb')
    p.add_argument('--format', choices=FORMATS, default='text', help='report format; default: text')
    g = p.add_argument_group('schedules')
    g.add_argument(
        '--order', choices=('forward', 'reverse', 'shuffle'), help='order of blocks and threads; default: forward'
    )
    g.add_argument('--seeds', type=_positive, default=1, metavar='N', help='run N schedules, from simple to complex')
    g.add_argument(
        '--replay', type=_schedule, metavar='SCHEDULE', help='run only this schedule: forward, reverse or shuffle:SEED'
    )
    p.add_argument('--allow', action='append', default=[], metavar='CODE', help='do not report findings with this code')
    p.add_argument('--baseline', metavar='FILE', help='do not report the known findings that this file lists')
    p.add_argument('--write-baseline', metavar='FILE', help='write all findings to this file, and do not report them')
    p.add_argument('--seconds', type=float, default=300.0, help='time limit per kernel; default: 300')
    p.add_argument('--time-limit', type=float, default=math.inf, metavar='SECONDS', help='time limit of the check')
    g = p.add_argument_group('CUDA C')
    g.add_argument('-I', dest='include', metavar='FOLDER', action='append', default=[], help='header folder')
    g.add_argument('-D', dest='define', metavar='NAME[=VALUE]', action='append', default=[], help='a macro')
    g.add_argument('--arch', choices=('sm_90a', 'sm_100a'), help='GPU architecture; default: sm_90a')
    g.add_argument(
        '--with', dest='units', metavar='FILE', action='append', default=[], help='another source of the program'
    )
    g = p.add_argument_group('a CUDA C file without a main')
    g.add_argument('--launch', metavar='KERNEL', help="launch this kernel, 'k<float>' for a template, with random data")
    g.add_argument('--size', type=_positive, default=1000, help='size of arrays and value of integers; default: 1000')
    g.add_argument('--grid', type=_sizes, metavar='X[,Y[,Z]]', help='blocks; default: as many as SIZE threads need')
    g.add_argument('--block', type=_sizes, default=256, metavar='X[,Y[,Z]]', help='threads per block; default: 256')
    g.add_argument('--arg', action='append', default=[], metavar='NAME=VALUE', help='a number, 32x48, or x.npy')
    return p


def _require_files(parser, options):
    "End with a usage error unless all files exist and have a known suffix, and all codes of `--allow` exist"
    for file in (*options.files, *options.units):
        if not Path(file).is_file():
            parser.error(f'{file}: No such file')
        if Path(file).suffix not in SUFFIXES:
            parser.error(f'{file}: unsupported file type; supported types: {", ".join(SUFFIXES)}')
    try:
        require_codes(options.allow)
    except ValueError as e:
        parser.error(f'--allow {e}')


def uses_cuda_c(
    suffix,  # of the file, such as '.cu'
    source,  # bytes
) -> bool:
    """Return whether a program needs the emulator of CUDA C.

    >>> uses_cuda_c('.py', b'load_inline(cuda_sources="__global__ ...")')
    True"""
    return suffix in _CUDA_SUFFIXES or bool(_NAMES_OF_CUDA.search(source))


def _prepare_emulator(files):
    """Compile the emulator's runtime before the first program with CUDA C.

    A worker would also do it, but its messages are not shown, and the compilation takes a minute."""
    if any(uses_cuda_c(path.suffix, path.read_bytes()) for path in map(Path, files)):
        from ..cpp.toolchain.runtime_library import prepare_runtime

        prepare_runtime()


def _read_entries(parser, options):
    "Return the entries of the baseline that an option names; end with a usage error if it cannot be read"
    try:
        return read_baseline(options.baseline) if options.baseline else []
    except ValueError as e:
        parser.error(f'--baseline: {e}')


def _job(file, options, args):
    "Return the `Job` of a file"
    sizes = dict(size=options.size, grid=options.grid, block=options.block) if options.launch else {}
    return Job(
        file,
        args=args,
        seconds=options.seconds,
        include_folders=options.include,
        macros=[*options.define, *([f'GRIDSTRIDE_ARCH={options.arch}'] if options.arch else [])],
        other_sources=options.units,
        launch=options.launch,
        sizes=sizes,
        launch_args=options.arg,
    )


def _update_baseline(options, entries, found_entries):
    "Write the baseline, if that is requested, and print the entries of the given one that were not found"
    if options.write_baseline:
        num_entries = write_baseline(options.write_baseline, found_entries)
        print(f'{options.write_baseline}: {count_text(num_entries, "known finding")}', file=sys.stderr)
    for line in stale_entry_messages(entries, found_entries):
        print(line, file=sys.stderr)


def main(argv=None) -> int:  # exit status: 0 without findings, 1 with findings, 2 if a file was not checked
    "Run the command, and print the report; returns the exit status"
    argv = list(sys.argv[1:] if argv is None else argv)
    args = argv[argv.index('--') + 1 :] if '--' in argv else []
    parser = _parser()
    options = parser.parse_args(argv[: argv.index('--')] if '--' in argv else argv)
    _require_files(parser, options)
    try:
        schedules = [options.replay] if options.replay else schedules_of(options.order, options.seeds)
    except ValueError as e:
        parser.error(f'--seeds: {e}')
    entries = _read_entries(parser, options)
    allowed = AllowedFindings(options.allow, entries, allows_all=bool(options.write_baseline))
    _prepare_emulator(options.files)
    limits = dict(deadline=time.monotonic() + options.time_limit)
    results = [check_file(_job(file, options, args), schedules, allowed, **limits) for file in options.files]
    if report := FORMATS[options.format](results):
        print(report)
    for result in (r for r in results if r.error):
        print(f'{result.file}: {result.error}', *result.output.splitlines()[-20:], sep='\n  | ', file=sys.stderr)
    _update_baseline(options, entries, [entry_of(f) for r in results for f in (*r.findings, *r.allowed_findings)])
    return exit_status(results)
