"""Nsight Compute: what the hardware counted while a kernel ran, what NVIDIA's rules advise, and for which line.

`ncu` runs a program and replays each of its kernels as often as it takes to read all requested counters. Here it runs
in a process of its own, on a script, or on a function of the notebook that `prof.isolate` sliced out with what it
needs; `ncu_report` reads its report.
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

from .isolate import pack, program, search_path
from .ncu_report import ROOFLINE, Ncu, details, from_plain, lines, raw
from .show import short
from ..bench.recording import Unavailable, no_gpu, recorded

__all__ = ['SECTIONS', 'SETS', 'command', 'find_ncu', 'ncu', 'ncu_version', 'read_report', 'trouble']

# The kernels of a function are those of one call, after another that compiles them: the profiler is switched
# on in between. Of a script or program, all are measured, or those that `kernel` names.
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
    "Find the command of Nsight Compute; raises `Unavailable` if there is none"
    homes = [os.environ.get(name) for name in ('CUDA_HOME', 'CUDA_PATH')] + ['/usr/local/cuda', '/opt/cuda']
    newest = sorted(Path('/opt/nvidia/nsight-compute').glob('*/ncu'), reverse=True)
    for path in [shutil.which('ncu'), *(f'{h}/bin/ncu' for h in homes if h), *map(str, newest)]:
        if path and os.access(path, os.X_OK):
            return path
    raise Unavailable('Nsight Compute (ncu) is not installed; it comes with the CUDA toolkit')


@lru_cache
def ncu_version(path: str) -> str:
    "Such as '2025.3.1'"
    said = subprocess.run([path, '--version'], capture_output=True, text=True).stdout
    m = re.search(r'Version (\d+(?:\.\d+){1,2})', said)
    return m[1] if m else 'unknown'


_AROUND = '''
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


def _target(what, args, kwargs, setup, folder):
    "Return (command, is it a function?) of what shall be profiled"
    if callable(what):
        source, name = program(what, setup)
        (folder / 'arguments').write_bytes(pack(args, kwargs))
        around = _AROUND.format(args=str(folder / 'arguments'), name=name)
        (folder / 'profiled.py').write_text(f'{source}\n{around}', encoding='utf-8')
        return [sys.executable, str(folder / 'profiled.py')], True
    path = _write_source(what, folder) if isinstance(what, str) and '\n' in what else Path(what)
    return [*_command_of(path, folder), *map(str, args)], False


def _command_of(path, folder):
    "Return what starts a script, a program, or a CUDA C source"
    if path.suffix == '.py':
        return [sys.executable, str(path)]
    return [str(_compile(path, folder) if path.suffix == '.cu' else path.resolve())]


def _write_source(source, folder):
    "Return a file with the source: CUDA C if it has a kernel and a main, else Python"
    path = folder / ('profiled.cu' if '__global__' in source and re.search(r'\bmain\s*\(', source) else 'profiled.py')
    path.write_text(source, encoding='utf-8')
    return path


def _text(what):
    "Return what a recording belongs to: the source, or a program's name"
    if '\n' in str(what):
        return what
    if not Path(what).exists():
        raise FileNotFoundError(f'{what} is neither a file nor a source: a source has more than one line')
    return Path(what).read_text(encoding='utf-8') if Path(what).suffix in ('.py', '.cu') else Path(what).name


def _compile(path, folder):
    "Return the program that nvcc compiles from a source, with line information"
    paths = ('/usr/local/cuda/bin/nvcc', '/opt/cuda/bin/nvcc')
    nvcc = shutil.which('nvcc') or next((p for p in paths if os.access(p, os.X_OK)), None)
    if not nvcc:
        raise Unavailable(f'{path.name} is CUDA C, and nvcc is not here to compile it')
    made = folder / path.stem
    cmd = [nvcc, '-O3', '-lineinfo', '-arch=native', '-o', str(made), str(path)]
    done = subprocess.run(cmd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f'{path.name} does not compile:\n{done.stderr or done.stdout}')
    return made


def command(ncu, report, target, sections, metrics, with_lines, only_marked, kernel, skip, count, more=()) -> list:
    "Return the command line that makes a report"
    res = [ncu, *([] if '--clock-control' in more else ['--clock-control', 'none']), *more, '-f', '-o', str(report)]
    if only_marked:
        res += ['--profile-from-start', 'off']
    if isinstance(sections, str) and sections in SETS:
        res += ['--set', sections]
    else:
        res += [part for s in ([sections] if isinstance(sections, str) else sections) for part in ('--section', s)]
    if with_lines:
        res += ['--section', 'SourceCounters', '--import-source', 'yes', '--source-folders', str(Path(report).parent)]
    if metrics:
        res += ['--metrics', ','.join([*metrics, 'gpu__time_duration.sum'])]
    asked = {'--kernel-name': kernel and f'regex:{kernel}', '--launch-skip': skip, '--launch-count': count}
    return res + [str(part) for k, v in asked.items() if v for part in (k, v)] + target


# Two kinds of errors: what this machine cannot do (`Unavailable`, and a recording is shown instead), and what the
# reader can fix.
_PERMIT = (
    "the driver keeps the GPU's counters for administrators (ERR_NVGPUCTRPERM). An administrator can open them: "
    'echo "options nvidia NVreg_RestrictProfilingToAdminUsers=0" | sudo tee /etc/modprobe.d/nvidia-counters.conf, '
    'then restart'
)
_CANNOT = (
    'LibraryNotLoaded|not supported|InsufficientDriver|driver is not compatible|Profiling failed|'
    'initialize the profiler'
)


def trouble(
    said: str,  # what ncu and the program printed
    status: int,  # exit status
):  # an exception, or None
    "Return what went wrong, if anything did"
    errors = [l.split('==ERROR==')[1].strip() for l in said.splitlines() if '==ERROR==' in l]
    if 'ERR_NVGPUCTRPERM' in said:
        return Unavailable(_PERMIT)
    if m := re.search(r"Option '(--section|--set) (.*?)' did not match", said):
        return ValueError(f'ncu has no section or set {m[2]!r}; `ncu --list-sections` names those it has')
    if busy := [e for e in errors if e.startswith(('Failed to prepare kernel', 'Unknown Error on device'))]:
        again = 'another profiler may be at work on this GPU; try again when it is done'
        return Unavailable(f'ncu could not begin ({busy[0]}): {again}')
    if any('application returned an error' in e for e in errors):
        return RuntimeError(f'the program failed under ncu; what it printed last:\n{_tail(said)}')
    if re.search(_CANNOT, ' '.join(errors)):
        return Unavailable(f'ncu cannot profile here ({errors[0]})')
    if 'No kernels were profiled' in said:
        ask = 'Does the call reach the GPU? With `kernel=`, does a kernel have such a name?'
        return ValueError(f'no kernel ran while ncu looked. {ask}')
    if status:
        return RuntimeError(f'ncu failed (exit status {status}):\n{_tail(said)}')


def _tail(said, most=12):
    "Return the last lines that are not ncu's own notes"
    lines = [l for l in said.splitlines() if l.strip() and not l.startswith(('==PROF==', '==WARNING=='))]
    return '\n'.join(lines[-most:])


# The report is read page by page. What the function does to its arguments stays in the other process.
def _run(cmd, seconds, **more):
    "Return (what a command printed, its exit status); C's locale, so that decimals have points"
    env = {**os.environ, **more, 'LC_ALL': 'C', 'PYTHONPATH': search_path(), 'GRIDSTRIDE_UNDER_NCU': '1'}
    out = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    try:
        done = subprocess.run(cmd, timeout=seconds, env=env, **out)
    except subprocess.TimeoutExpired:
        less = 'Fewer sections, or launches (`count=`), take less'
        raise RuntimeError(f'ncu took more than {seconds} s. {less}') from None
    return done.stdout, done.returncode


def _unknown_metrics(kernels, metrics):
    "One warning per metric that ncu could not read"
    read = {n for k in kernels for n, m in k.raw.items() if isinstance(m.value, (int, float))}
    unknown = [m for m in metrics if m not in read and m not in ROOFLINE]
    return [f'ncu does not know the metric {m}, or cannot read it on this GPU' for m in unknown]


def _match(kernels, source):
    "Give each kernel its lines: functions come in the order of the launches, their types spelt in another way"
    for k in kernels:
        at = next((j for j, (name, _) in enumerate(source) if short(name) == short(k.name)), None)
        if at is not None:
            k.lines = source.pop(at)[1]


def read_report(ncu, report, metrics, with_lines, seconds=120) -> Ncu:
    "Return the pages of a report as tables"

    def page(*how):
        said, status = _run([ncu, '--import', str(report), '--csv', '--page', *how], seconds)
        if status:
            raise RuntimeError(f'ncu cannot read its report:\n{_tail(said)}')
        return said

    kernels = details(page('details'))
    own = raw(page('raw', '--print-units', 'base'))
    for i, k in kernels.items():
        k.raw = {n: m for n, m in own.get(i, {}).items() if n in metrics or n == 'gpu__time_duration.sum'}
    warnings = _unknown_metrics(kernels.values(), metrics)
    if with_lines:
        _match(kernels.values(), lines(page('source', '--print-source', 'cuda,sass')))
        lost = [short(k.name) for k in kernels.values() if not k.lines]
        need = 'a kernel needs -lineinfo or @cuda.jit(lineinfo=True)'
        warnings += [f'{name} has no line information: {need}' for name in lost]
    return Ncu(kernels.values(), ncu_version(ncu), warnings)


def _literals(source):
    "Return the texts within a Python program that hold kernels"
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [text for text in texts if '__global__' in text]


def _complete_lines(k, literals, numbered):
    "A kernel's lines with their text, even if only the program had it, and line numbers only if they are the reader's"
    own = [t.splitlines() for t in literals if re.search(rf'\b{re.escape(short(k.name))}\s*\(', t)]

    def text(l):
        if not l.text.startswith('<Unable to open'):
            return l.text
        if len(own) == 1 and l.number <= len(own[0]):
            return own[0][l.number - 1]
        return f'(line {l.number} of a source that is not at hand)'

    k.lines = [l._replace(text=text(l), number=l.number if numbered else None) for l in k.lines]


def _tool_versions():
    return {'ncu': ncu_version(find_ncu())}


def _measure(what, args, kwargs, setup, source, asked, seconds):
    "Return the `Ncu` report of one run; raises `Unavailable`, which says what is missing"
    if why := no_gpu():
        raise Unavailable(f'{why} for Nsight Compute to profile')
    tool = find_ncu()
    (sections, metrics, lines, *which) = asked
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        target, marked = _target(what, args, kwargs, setup, folder)
        # a cache of its own, so that a source found there is the one that ran
        fresh = dict(GRIDSTRIDE_CACHE=str(folder / 'cache')) if lines else {}
        said, status = _run(
            command(tool, folder / 'report', target, sections, metrics, lines, marked, *which), seconds, **fresh
        )
        if e := trouble(said, status):
            raise e
        res = read_report(tool, folder / 'report.ncu-rep', metrics, lines)
    for k in res.kernels:
        _complete_lines(k, _literals(source), not marked)
    return res


def ncu(
    what,  # a function, a script (`.py`), a program, a CUDA C source file (`.cu`), or source text
    *args,  # for the function; for a script, what its command line has
    sections=SECTIONS,  # names of sections, or of one set: 'basic', 'detailed', 'full', 'roofline'
    metrics=(),  # more metrics under ncu's names, such as 'dram__bytes.sum'
    lines=False,  # count per line of the source, too?
    kernel=None,  # a regular expression: only kernels with such names
    skip=0,  # leave out so many launches,
    count=None,  # and measure so many; None: all
    setup=None,  # source that makes what the function uses; by default that is looked for in the notebook or script
    options=(),  # more of ncu's own, such as ('--clock-control', 'base'); without it, the clock is left as it is
    record=None,  # the name of a recording, NN_what: shown where ncu cannot run
    seconds=300,  # how long ncu may take
    **kwargs,  # for the function
) -> Ncu:
    "Return what Nsight Compute counts; raises `Unavailable` without a GPU, ncu, or the permission to read counters"
    if os.environ.get('GRIDSTRIDE_UNDER_NCU'):
        way = 'Put the call after if __name__=="__main__", in another file'
        raise RuntimeError(f'this program calls ncu, and runs under ncu already. {way}')
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
    sources = program(what, setup) if callable(what) else [_text(what)]
    asked = [sections if isinstance(sections, str) else list(sections), metrics, lines, kernel, skip, count]
    asked += [list(options)] if options else []

    def measure():
        return _measure(what, args, kwargs, setup, sources[0], asked, seconds)

    if record is None:
        return measure()
    parts = (list(sources), list(args), kwargs, asked)
    return recorded(record, measure, *parts, save=Ncu.plain, load=from_plain, tools=_tool_versions)
