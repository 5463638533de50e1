"""Profile kernels with Nsight Compute: hardware counters, the advice of its rules, and counters per source line.

`ncu` runs a program and replays each of its kernels until it has read all requested counters. Here it runs in another
process, on a script, or on a function of the notebook that `prof.isolate` extracts together with its
dependencies; `ncu_report` parses its report.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from .isolate import extract_program, pickle_arguments, search_path
from .ncu_report import ROOFLINE, Ncu, parse_details, parse_raw_metrics, parse_source_lines, report_from_json
from .show import short_name
from ..bench.recording import Unavailable, no_gpu, recorded

__all__ = ['SECTIONS', 'SETS', 'ncu_command', 'error_from_output', 'find_ncu', 'ncu', 'ncu_version', 'read_report']

# The sections that ncu measures by default
SECTIONS = (
    'SpeedOfLight',
    'MemoryWorkloadAnalysis',
    'MemoryWorkloadAnalysis_Tables',
    'ComputeWorkloadAnalysis',
    'SchedulerStats',
    'WarpStateStats',
    'LaunchStats',
    'Occupancy',
)
SETS = ('basic', 'detailed', 'full', 'roofline', 'pmsampling', 'nvlink')


def find_ncu() -> str:  # its path
    "Find the ncu executable; raises `Unavailable` if there is none"
    homes = [os.environ.get(name) for name in ('CUDA_HOME', 'CUDA_PATH')] + ['/usr/local/cuda', '/opt/cuda']
    newest_first = sorted(Path('/opt/nvidia/nsight-compute').glob('*/ncu'), reverse=True)
    for path in [shutil.which('ncu'), *(f'{home}/bin/ncu' for home in homes if home), *map(str, newest_first)]:
        if path and os.access(path, os.X_OK):
            return path
    raise Unavailable('Nsight Compute (ncu) is not installed; it comes with the CUDA toolkit')


@lru_cache
def ncu_version(path: str) -> str:
    "Return the version of Nsight Compute, such as '2025.3.1'"
    output = subprocess.run([path, '--version'], capture_output=True, text=True).stdout
    match = re.search(r'Version (\d+(?:\.\d+){1,2})', output)
    return match[1] if match else 'unknown'


_FUNCTION_SCRIPT = '''
import ctypes as _c, pickle as _p
with open({args!r}, 'rb') as _f: _args,_kwargs = _p.load(_f)
_fn = {name}
_driver = _c.CDLL('nvcuda.dll' if __import__('sys').platform=='win32' else 'libcuda.so.1')
_fn(*_args, **_kwargs)
_driver.cuCtxSynchronize()
_driver.cuProfilerStart()
_fn(*_args, **_kwargs)
_driver.cuCtxSynchronize()
_driver.cuProfilerStop()
'''


# If the target is a function, it is called twice and only the second call is profiled, because the first one compiles.
# In a script or program, every kernel is profiled, or only those whose names match `kernel`.
def _target_command(target, args, kwargs, setup, folder):
    "Return (the command to profile, whether `target` is a function)"
    if callable(target):
        source, name = extract_program(target, setup)
        (folder / 'arguments').write_bytes(pickle_arguments(args, kwargs))
        call_source = _FUNCTION_SCRIPT.format(args=str(folder / 'arguments'), name=name)
        (folder / 'profiled.py').write_text(f'{source}\n{call_source}', encoding='utf-8')
        return [sys.executable, str(folder / 'profiled.py')], True
    path = _write_source(target, folder) if isinstance(target, str) and '\n' in target else Path(target)
    return [*_run_command(path, folder), *map(str, args)], False


def _run_command(path, folder):
    "Return the command that runs a script, a program, or a CUDA C source"
    if path.suffix == '.py':
        return [sys.executable, str(path)]
    return [str(_compile(path, folder) if path.suffix == '.cu' else path.resolve())]


def _write_source(source, folder):
    "Write the source to a file, and return its path: CUDA C if it has a kernel and a main, else Python"
    path = folder / ('profiled.cu' if '__global__' in source and re.search(r'\bmain\s*\(', source) else 'profiled.py')
    path.write_text(source, encoding='utf-8')
    return path


def _recording_key(target):
    "Return the string that identifies `target` in the key of a recording: the source, or the name of a program"
    if '\n' in str(target):
        return target
    if not Path(target).exists():
        raise FileNotFoundError(f'{target} is not an existing file; source code must have more than one line')
    return Path(target).read_text(encoding='utf-8') if Path(target).suffix in ('.py', '.cu') else Path(target).name


def _compile(path, folder):
    "Compile a source with nvcc, with line information; return the path of the program"
    paths = ('/usr/local/cuda/bin/nvcc', '/opt/cuda/bin/nvcc')
    nvcc = shutil.which('nvcc') or next((nvcc_path for nvcc_path in paths if os.access(nvcc_path, os.X_OK)), None)
    if not nvcc:
        raise Unavailable(f'nvcc was not found; install the CUDA toolkit to compile {path.name}')
    executable = folder / path.stem
    command = [nvcc, '-O3', '-lineinfo', '-arch=native', '-o', str(executable), str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f'{path.name} does not compile:\n{result.stderr or result.stdout}')
    return executable


def ncu_command(
    ncu, report, target, sections, metrics, with_lines, profiler_range_only, kernel, skip, count, extra_options=()
) -> list:
    "Return the ncu command line that profiles the command `target` and writes the report"
    clock_options = [] if '--clock-control' in extra_options else ['--clock-control', 'none']
    options = [*clock_options, *extra_options, '-f', '-o', str(report)]
    if profiler_range_only:
        options += ['--profile-from-start', 'off']
    if isinstance(sections, str) and sections in SETS:
        options += ['--set', sections]
    else:
        section_names = [sections] if isinstance(sections, str) else sections
        options += [argument for section in section_names for argument in ('--section', section)]
    if with_lines:
        options += [
            '--section',
            'SourceCounters',
            '--import-source',
            'yes',
            '--source-folders',
            str(Path(report).parent),
        ]
    if metrics:
        options += ['--metrics', ','.join([*metrics, 'gpu__time_duration.sum'])]
    filters = {'--kernel-name': kernel and f'regex:{kernel}', '--launch-skip': skip, '--launch-count': count}
    options += [str(argument) for name, value in filters.items() if value for argument in (name, value)]
    return [ncu, *options, *target]


# There are two kinds of errors: limitations of this machine (`Unavailable`: a recording is shown instead), and mistakes
# that the reader can fix.
_NO_PERMISSION = (
    "the driver restricts the GPU's counters to administrators (ERR_NVGPUCTRPERM). An administrator can grant access: "
    'echo "options nvidia NVreg_RestrictProfilingToAdminUsers=0" | sudo tee /etc/modprobe.d/nvidia-counters.conf, '
    'then restart'
)
_UNSUPPORTED = (
    'LibraryNotLoaded|not supported|InsufficientDriver|driver is not compatible|Profiling failed|'
    'initialize the profiler'
)


def error_from_output(
    output: str,  # of ncu and the program
    status: int,  # exit status
):  # an exception, or None
    "Return the exception for a failed run, or None"
    errors = [line.split('==ERROR==')[1].strip() for line in output.splitlines() if '==ERROR==' in line]
    if 'ERR_NVGPUCTRPERM' in output:
        return Unavailable(_NO_PERMISSION)
    if match := re.search(r"Option '(--section|--set) (.*?)' did not match", output):
        return ValueError(f'ncu has no section or set {match[2]!r}; list them with `ncu --list-sections`')
    if start_errors := [
        error for error in errors if error.startswith(('Failed to prepare kernel', 'Unknown Error on device'))
    ]:
        hint = 'another profiler may be using this GPU; try again when it has finished'
        return Unavailable(f'ncu could not begin ({start_errors[0]}): {hint}')
    if any('application returned an error' in error for error in errors):
        return RuntimeError(f'the program failed under ncu; its last output:\n{_tail(output)}')
    if re.search(_UNSUPPORTED, ' '.join(errors)):
        return Unavailable(f'ncu cannot profile here ({errors[0]})')
    if 'No kernels were profiled' in output:
        question = "Does the call launch a kernel? If you passed `kernel=`, does any kernel's name match it?"
        return ValueError(f'no kernel ran while ncu was profiling. {question}')
    if status:
        return RuntimeError(f'ncu failed (exit status {status}):\n{_tail(output)}')


def _tail(output, max_lines=12):
    "Return the last lines of output, without ncu's own messages"
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith(('==PROF==', '==WARNING=='))]
    return '\n'.join(lines[-max_lines:])


# The report is read page by page. The function runs in a child process, so changes to its arguments are not visible
# here.
def _run_process(command, timeout, **extra_env):
    "Run a command and return (its output, exit status); the locale is C, so that decimals have points"
    env = {**os.environ, **extra_env, 'LC_ALL': 'C', 'PYTHONPATH': search_path(), 'GRIDSTRIDE_UNDER_NCU': '1'}
    output_options = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    try:
        result = subprocess.run(command, timeout=timeout, env=env, **output_options)
    except subprocess.TimeoutExpired:
        hint = 'Measure fewer sections, or fewer launches (`count=`)'
        raise RuntimeError(f'ncu took more than {timeout} s. {hint}') from None
    return result.stdout, result.returncode


def _unknown_metrics(kernels, metrics):
    "Return one warning per metric that ncu could not read"
    readable_names = {
        name for kernel in kernels for name, metric in kernel.raw.items() if isinstance(metric.value, (int, float))
    }
    unknown_names = [name for name in metrics if name not in readable_names and name not in ROOFLINE]
    return [f'ncu does not know the metric {name}, or cannot read it on this GPU' for name in unknown_names]


def _assign_lines(kernels, lines_of_launches):
    """Assign source lines to kernels by name.

    Both pages list kernels in launch order but print their types differently, so only short names are compared."""
    for kernel in kernels:
        index = next(
            (i for i, (name, _) in enumerate(lines_of_launches) if short_name(name) == short_name(kernel.name)), None
        )
        if index is not None:
            kernel.lines = lines_of_launches.pop(index)[1]


def read_report(ncu, report, metrics, with_lines, timeout=120) -> Ncu:
    "Read all pages of a report; returns an `Ncu`"

    def read_page(*options):
        output, status = _run_process([ncu, '--import', str(report), '--csv', '--page', *options], timeout)
        if status:
            raise RuntimeError(f'ncu cannot read its report:\n{_tail(output)}')
        return output

    kernels = parse_details(read_page('details'))
    raw_metrics = parse_raw_metrics(read_page('raw', '--print-units', 'base'))
    for launch, kernel in kernels.items():
        kernel.raw = {
            name: metric
            for name, metric in raw_metrics.get(launch, {}).items()
            if name in metrics or name == 'gpu__time_duration.sum'
        }
    warnings = _unknown_metrics(kernels.values(), metrics)
    if with_lines:
        _assign_lines(kernels.values(), parse_source_lines(read_page('source', '--print-source', 'cuda,sass')))
        kernels_without_lines = [short_name(kernel.name) for kernel in kernels.values() if not kernel.lines]
        hint = 'compile it with -lineinfo or @cuda.jit(lineinfo=True)'
        warnings += [f'{kernel_name} has no line information: {hint}' for kernel_name in kernels_without_lines]
    return Ncu(kernels.values(), ncu_version(ncu), warnings)


def _kernel_sources(source):
    "Return the strings in a Python program that contain kernels"
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in texts if '__global__' in text]


def _complete_source(kernel, literals, keep_line_number):
    "Fill in source lines that ncu could not open; drop the line numbers unless they refer to the user's file"
    matching_sources = [
        literal.splitlines()
        for literal in literals
        if re.search(rf'\b{re.escape(short_name(kernel.name))}\s*\(', literal)
    ]

    def source_text(line):
        if not line.text.startswith('<Unable to open'):
            return line.text
        if len(matching_sources) == 1 and line.number <= len(matching_sources[0]):
            return matching_sources[0][line.number - 1]
        return f'(line {line.number}: source not available)'

    kernel.lines = [
        line._replace(text=source_text(line), number=line.number if keep_line_number else None) for line in kernel.lines
    ]


def _tool_versions():
    "Return the versions that a recording stores"
    return {'ncu': ncu_version(find_ncu())}


def _profile_once(target, args, kwargs, setup, source, selection, timeout):
    "Profile one run and return its `Ncu`; raises `Unavailable` if something is missing"
    if reason := no_gpu():
        raise Unavailable(f'{reason} for Nsight Compute to profile')
    ncu_path = find_ncu()
    (sections, metrics, lines, *filters) = selection
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        target_command, is_function = _target_command(target, args, kwargs, setup, folder)
        # A new cache folder contains only the sources of this run, so ncu shows no others.
        extra_env = dict(GRIDSTRIDE_CACHE=str(folder / 'cache')) if lines else {}
        output, status = _run_process(
            ncu_command(ncu_path, folder / 'report', target_command, sections, metrics, lines, is_function, *filters),
            timeout,
            **extra_env,
        )
        if error := error_from_output(output, status):
            raise error
        result = read_report(ncu_path, folder / 'report.ncu-rep', metrics, lines)
    for kernel in result.kernels:
        _complete_source(kernel, _kernel_sources(source), not is_function)
    return result


def ncu(
    target,  # a function, a script (`.py`), a program, a CUDA C source file (`.cu`), or source code
    /,
    *args,  # for the function; for a script, its command line
    sections=SECTIONS,  # names of sections, or of one set: 'basic', 'detailed', 'full', 'roofline'
    metrics=(),  # additional metrics by their names in ncu, such as 'dram__bytes.sum'
    lines=False,  # also count per source line
    kernel=None,  # a regular expression: measure only kernels whose names match
    skip=0,  # number of launches to skip at the start
    count=None,  # number of launches to measure; None: all
    setup=None,  # source that defines the names that the function uses; None: find it in the notebook or script
    options=(),  # additional options of ncu, such as ('--clock-control', 'base'); by default the clock is not changed
    record=None,  # name of a recording, which is shown if ncu cannot run
    seconds=300,  # timeout of ncu
    **kwargs,  # for the function
) -> Ncu:
    """Profile kernels with Nsight Compute, and return its report.

        ncu(f, x, metrics=['dram__bytes.sum'], lines=True)

    Raises Unavailable without a GPU, ncu, or the permission to read counters."""
    if os.environ.get('GRIDSTRIDE_UNDER_NCU'):
        raise RuntimeError('ncu() was called in a program that ncu is already profiling: move the call to another file')
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
    sources = extract_program(target, setup) if callable(target) else [_recording_key(target)]
    selection = [sections if isinstance(sections, str) else list(sections), metrics, lines, kernel, skip, count]
    selection += [list(options)] if options else []

    def measure():
        return _profile_once(target, args, kwargs, setup, sources[0], selection, seconds)

    if record is None:
        return measure()
    key_parts = (list(sources), list(args), kwargs, selection)
    return recorded(record, measure, *key_parts, save=Ncu.to_json, load=report_from_json, tools=_tool_versions)
