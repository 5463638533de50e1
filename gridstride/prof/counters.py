"""Nsight Compute: what the hardware counted while a kernel ran, what NVIDIA's rules advise, which line it was.

`ncu` runs a program and replays each of its kernels as often as it takes to read all counters that were
asked for. Here it runs in a process of its own, on a script, or on a function of the notebook whose program
`prof.carry` found; its report is read back as comma-separated pages.
"""

import ast
import csv
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from functools import lru_cache
from html import escape
from pathlib import Path

from .isolate import pack, program, search_path
from .show import brief, short, si
from ..bench.recording import Unavailable, no_gpu, recorded
from ..support.tables import Named, Share, Table


# Each row is a metric of a section, or a rule's advice. Sections come under their full name in the rows of
# metrics, and under a short one in those of rules; a rule belongs to the section above it. What the program
# printed may be around the table, and newer versions have columns that older ones lack.
Metric = namedtuple('Metric', 'name value unit')  # value: a number, or a text where there is none
# kind: 'OPT', 'INF' or 'WRN'; speedup: a fraction of the time, or None; scope: 'global' or 'local'.
Rule = namedtuple('Rule', 'section name kind text speedup scope')
Line = namedtuple('Line', 'number text samples counters', defaults=({},))


def value(text):
    "A number, without its commas; the text itself if it is none"
    try:
        x = float(text.replace(',', ''))
    except ValueError:
        return text
    return int(x) if x == int(x) and '.' not in text else x


class Kernel:
    """One launch that ncu measured: `sections[title]` is a list of `Metric`, `rules` are advice, `lines` the source
    with its counters"""

    def __init__(self, name, grid='', block='', device=''):
        self.name = name
        self.grid = grid
        self.block = block
        self.device = device
        self.sections = {}
        self.rules = []
        self.lines = []
        self.raw = {}

    def __getitem__(self, name):
        "The value of a metric by its name in a section, by `section: name`, or by ncu's own name"
        if name in self.raw:
            return self.raw[name].value
        section, _, metric = name.rpartition(': ')
        found = [m for s, ms in self.sections.items() if section in ('', s) for m in ms if m.name == metric]
        if found:
            return found[0].value
        words = set(metric.lower().split())
        near = sorted({m.name for ms in self.sections.values() for m in ms if words & set(m.name.lower().split())})
        there = f"near it: {', '.join(near[:6])}" if near else f"its sections: {', '.join(self.sections)}"
        raise KeyError(f'{short(self.name)} has no metric {name!r}; {there}')

    @property
    def seconds(self):
        "Duration, or None if it was not read"
        every = [*self.raw.values(), *(m for ms in self.sections.values() for m in ms)]
        found = (m for m in every if m.name in ('gpu__time_duration.sum', 'Duration') and m.unit in _SECONDS)
        return next((m.value * _SECONDS[m.unit] for m in found), None)

    @property
    def bytes(self):
        "Bytes between the GPU and its memory, if `metrics=ROOFLINE` asked for them, or None"
        return self._sum({'dram__bytes.sum': 1})

    @property
    def flops(self):
        "Floating-point operations, on the ordinary and the tensor cores, likewise"
        return self._sum(_FLOPS)

    def _sum(self, weights):
        found = [(w, self.raw[n].value) for n, w in weights.items() if n in self.raw]
        known = [w * v for w, v in found if isinstance(v, (int, float))]
        return sum(known) if known else None


_TENSOR = ('bf16_dst_fp32', 'fp16', 'fp16_dst_fp16', 'fp16_dst_fp32', 'tf32_dst_fp32', 'fp64', 'fp8_sparsity_off')
_SCALAR = {f'{t}{op}': w for t in 'fd' for op, w in (('add', 1), ('mul', 1), ('fma', 2))}
_FLOPS = {
    **{f'smsp__sass_thread_inst_executed_op_{op}_pred_on.sum': w for op, w in _SCALAR.items()},
    **{f'sm__ops_path_tensor_src_{op}.sum': 1 for op in _TENSOR},
}
ROOFLINE = ('dram__bytes.sum', *_FLOPS)  # what arithmetic intensity is made of; a GPU has those of its own generation

_SECONDS = {'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1.0}
_SECONDS.update(nsecond=1e-9, usecond=1e-6, msecond=1e-3, second=1.0)  # how older versions write them


def _csv(text, first):
    "Rows of the table whose head begins with `first`, from among what else was printed"
    lines = text.splitlines()
    start = next((i for i, l in enumerate(lines) if l.startswith(f'"{first}"')), None)
    return [] if start is None else list(_cells(lines[start:]))


def _cells(lines):
    "The rows of a table, of which each line begins with a quote"
    return csv.reader(io.StringIO('\n'.join(l for l in lines if l.startswith('"'))))


def _dicts(rows):
    return [dict(zip(rows[0], r)) for r in rows[1:] if len(r) > 1] if rows else []


def details(
    text: str,  # what `ncu --csv --page details` printed
) -> dict:  # launch number -> `Kernel`
    "Sections, metrics and rules of each launch"
    res = {}
    above = ''
    for r in _dicts(_csv(text, 'ID')):
        k = res.setdefault(int(r['ID']), Kernel(r['Kernel Name'], r.get('Grid Size', ''), r.get('Block Size', '')))
        if r.get('Metric Name'):
            above = r['Section Name']
            metric = Metric(r['Metric Name'], value(r['Metric Value']), r['Metric Unit'])
            k.sections.setdefault(above, []).append(metric)
        if r.get('Rule Name'):
            k.rules.append(_rule(r, above))
    return res


def _rule(r, section):
    "The advice in a row; before version 2023 the text contained the speedup"
    text = r['Rule Description']
    gain = r.get('Estimated Speedup') or ''
    scope = r.get('Estimated Speedup Type') or ''
    if not gain and (m := re.search(r'(?:estimated|Est\.)( local)? speedup:? (?:of )?([\d.]+)', text, re.I)):
        gain = m[2]
        scope = 'local' if m[1] else 'global'
    return Rule(section, r['Rule Name'], r['Rule Type'], text, float(gain) / 100 if gain else None, scope)


# Raw metrics are one row per launch under a row of units. The source page has, per line, a row that
# sums up its instructions, and then those instructions; the former is what is kept.
def raw(
    text: str,  # what `ncu --csv --page raw` printed
) -> dict:  # launch number -> {ncu's name: `Metric`}
    "Every metric of each launch under ncu's own name"
    rows = _csv(text, 'ID')
    if len(rows) < 3:
        return {}
    names, units = rows[0], rows[1]
    return {
        int(r[0]): {n: Metric(n, value(v), u) for n, u, v in zip(names, units, r) if '__' in n and v}
        for r in rows[2:]
        if r[0].isdigit()
    }


def lines(
    text: str,  # what `ncu --csv --page source --print-source cuda,sass` printed
) -> list:  # (function, list of `Line`), in the order of the launches
    "The source of each launch with the counters of its lines, where the program has line information"
    res = []
    head = None
    for r in _cells(text.splitlines()):
        if r[0] == 'Function Name':
            res.append((r[1], []))
        elif r[0] == 'Line No':
            head = r
        elif head and res and len(r) == len(head) and r[0].isdigit() and r[2] == '-':
            res[-1][1].append(_line(head, r))
    return res


_SAMPLES = ('# Samples', 'Warp Stall Sampling (All Samples)', 'Sampling Data (All)')  # by version


def _line(head, r):
    counters = {n: v for n, v in zip(head[4:], map(value, r[4:])) if v not in ('-', '')}
    samples = next((counters[n] for n in _SAMPLES if n in counters), 0)
    return Line(int(r[0]), r[1], samples, counters)


# First the advice, the most promising first; then each section as a table that folds. With `lines=True`, the
# source, each line with its fraction of the samples: the sampler looks at a warp every so many cycles, and where
# it finds most of them is where the time goes.
_EXCESS = {
    'L2 Theoretical Sectors Global Excessive': 'sectors too many',
    'L1 Wavefronts Shared Excessive': 'bank conflicts',
}


def _gain(r):
    return '' if r.speedup is None else f"{Share(r.speedup)}{' locally' if r.scope == 'local' else ''}"


def _unmark(text):
    "A rule's text without links and references"
    return re.sub(r'@(?:url|section):([^:@]*)(?::[^@]*)?@', r'\1', text)


# Notes of a rule about itself: nothing that a change of the kernel could fix.
_UNASKED = re.compile('optional metric .* could not be found')


def advice(
    k,  # a `Kernel`
) -> Table:
    "The rules that ask for a change, by the speed-up that they promise"
    asks = [r for r in k.rules if r.kind != 'INF' and not _UNASKED.search(r.text)]
    asks.sort(key=lambda r: (r.scope == 'local', -(r.speedup or 0)))
    rows = [[_gain(r), r.section, _unmark(r.text)] for r in asks]
    return Table(['est. speed-up', '<section', '<advice'], rows, title='Advice')


_WAITS = {
    'barrier': 'the barrier',
    'branch_resolving': 'a branch',
    'dispatch': 'dispatch',
    'drain': 'stores to finish',
    'gmma': 'tensor cores',
    'imc': 'constant memory',
    'lg': 'the queue to global memory',
    'long_sb': 'global memory',
    'math': 'an arithmetic unit',
    'membar': 'a memory fence',
    'mio': 'the queue to shared memory',
    'misc': 'other things',
    'no_inst': 'instructions',
    'not_selected': 'its turn',
    'short_sb': 'shared memory, special units',
    'sleep': 'its sleep',
    'tex': 'the queue to textures',
    'wait': 'the instruction before',
}


def _stall(l):
    "What warps waited for most on a line (the profiler's names in plain words), and how many of its samples that is"
    names = [n for n in l.counters if n.startswith('stall_') and '(' not in n and n != 'stall_selected']
    stalls = {n[6:]: l.counters[n] for n in names if not isinstance(l.counters[n], str)}
    most = max(stalls, key=stalls.get, default=None)
    if not (most and stalls[most] and l.samples):
        return ''
    return f'{_WAITS.get(most, most)} ({Share(stalls[most] / l.samples)})'


def source_table(
    k,  # a `Kernel`
    least=0.005,  # the fraction of the samples below which a line is left out
) -> Table:
    "Lines of the source with their fraction of the samples, what they waited for, and what they wasted"
    total = sum(l.samples for l in k.lines) or 1
    extra = {n: metric for n, metric in _EXCESS.items() if any(_number(l, n) for l in k.lines)}

    def row(l):
        line = [l.number or '', Named(l.text.strip(), l.text)]
        share = Share(l.samples / total)
        count, *counts = [f'{l.counters.get(n, 0):,}' for n in ('Instructions Executed', *extra)]
        return [*line, share, count, _stall(l), *counts]

    rows = [row(l) for l in k.lines if l.samples / total >= least or any(l.counters.get(n) for n in extra)]
    head = ['line', '<source', 'samples', 'instructions', '<waits for', *extra.values()]
    return Table(head, rows, title=f'Where the time goes: {total:,} samples')


def _number(l, name):
    "A counter of a line, or 0 if it has no number there"
    v = l.counters.get(name)
    return v if isinstance(v, (int, float)) else 0


def _amount(m):
    return [m.name, f'{m.value:,}' if isinstance(m.value, (int, float)) else m.value, m.unit]


class Ncu:
    "What Nsight Compute measured: `kernels`, in the order of their launches; shows itself as tables"

    def __init__(self, kernels, version='', doubts=(), mark=''):
        self.kernels, self.version, self.doubts, self.mark = list(kernels), version, list(doubts), mark

    def __getitem__(self, what):
        "A kernel by its number or (short) name; with one kernel, a metric by its name"
        if isinstance(what, int):
            return self.kernels[what]
        for k in self.kernels:
            if what in (k.name, short(k.name)):
                return k
        if len(self.kernels) == 1:
            return self.kernels[0][what]
        raise KeyError(f'no kernel {what!r}; there are {", ".join(dict.fromkeys(short(k.name) for k in self.kernels))}')

    def __len__(self):
        return len(self.kernels)

    def _head(self, k):
        where = f', grid {k.grid}, block {k.block}' if k.grid else ''
        took = f": {si(k.seconds, 's')}" if k.seconds else ''
        return f'{brief(short(k.name))}{where}{took}'

    def _tables(self, k):
        "(advice and source, one table per section)"
        first = [advice(k)] if any(r.kind != 'INF' for r in k.rules) else []
        if k.lines:
            first.append(source_table(k))
        rows = {s: [_amount(m) for m in ms if m.value != 'n/a'] for s, ms in k.sections.items()}
        return first, [Table(['<metric', 'value', '<unit'], rows_of, title=s) for s, rows_of in rows.items()]

    def _foot(self):
        return '\n'.join([*self.doubts, *([f'[{self.mark}]'] if self.mark else [])])

    def __repr__(self):
        parts = []
        for k in self.kernels:
            first, sections = self._tables(k)
            parts += [self._head(k), *map(repr, first + sections)]
        return '\n\n'.join(filter(None, [*parts, self._foot()]))

    def _repr_html_(self):
        return f'{"".join(map(self._kernel_html, self.kernels))}<p>{escape(self._foot())}</p>'

    def _kernel_html(self, k):
        "The tables of a kernel, those of its sections folded but for the first"
        first, sections = self._tables(k)
        parts = [f'<h4 title="{escape(k.name)}">{escape(self._head(k))}</h4>', *(t._repr_html_() for t in first)]
        for i, t in enumerate(sections):
            name = escape(t.title)
            t.title = ''
            parts.append(f'<details{" open" * (i == 0)}><summary>{name}</summary>{t._repr_html_()}</details>')
        return ''.join(parts)

    def plain(self):
        "It all, as JSON can hold it, in lists where the order counts"

        def one(k):
            sections = [[s, [list(m) for m in ms]] for s, ms in k.sections.items()]
            rest = {
                n: [list(row) for row in v] for n, v in dict(rules=k.rules, lines=k.lines, raw=k.raw.values()).items()
            }
            return dict(name=k.name, grid=k.grid, block=k.block, sections=sections, **rest)

        return dict(version=self.version, doubts=self.doubts, kernels=[one(k) for k in self.kernels])


def from_plain(d, mark='') -> Ncu:
    "The report that `plain` gave"
    return Ncu([_kernel(kernel) for kernel in d['kernels']], d['version'], d['doubts'], mark)


def _kernel(kept):
    "A `Kernel` from what JSON held of it"
    k = Kernel(kept['name'], kept['grid'], kept['block'])
    k.sections = {s: [Metric(*m) for m in ms] for s, ms in kept['sections']}
    k.rules, k.lines = [Rule(*r) for r in kept['rules']], [Line(*l) for l in kept['lines']]
    k.raw = {m[0]: Metric(*m) for m in kept['raw']}
    return k


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
    "Nsight Compute's command; `Unavailable` if there is none"
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
    "(command, is it a function?) of what shall be profiled"
    if callable(what):
        source, name = program(what, setup)
        (folder / 'arguments').write_bytes(pack(args, kwargs))
        around = _AROUND.format(args=str(folder / 'arguments'), name=name)
        (folder / 'profiled.py').write_text(f'{source}\n{around}', encoding='utf-8')
        return [sys.executable, str(folder / 'profiled.py')], True
    path = _write_source(what, folder) if isinstance(what, str) and '\n' in what else Path(what)
    return [*_command_of(path, folder), *map(str, args)], False


def _command_of(path, folder):
    "What starts a script, a program, or a CUDA C source"
    if path.suffix == '.py':
        return [sys.executable, str(path)]
    return [str(_compile(path, folder) if path.suffix == '.cu' else path.resolve())]


def _write_source(source, folder):
    "A file with the source: CUDA C if it has a kernel and a main, else Python"
    path = folder / ('profiled.cu' if '__global__' in source and re.search(r'\bmain\s*\(', source) else 'profiled.py')
    path.write_text(source, encoding='utf-8')
    return path


def _text(what):
    "What a recording belongs to: the source, or a program's name"
    if '\n' in str(what):
        return what
    if not Path(what).exists():
        raise FileNotFoundError(f'{what} is neither a file nor a source: a source has more than one line')
    return Path(what).read_text(encoding='utf-8') if Path(what).suffix in ('.py', '.cu') else Path(what).name


def _compile(path, folder):
    "The program that nvcc compiles from a source, with line information"
    places = ('/usr/local/cuda/bin/nvcc', '/opt/cuda/bin/nvcc')
    nvcc = shutil.which('nvcc') or next((p for p in places if os.access(p, os.X_OK)), None)
    if not nvcc:
        raise Unavailable(f'{path.name} is CUDA C, and nvcc is not here to compile it')
    made = folder / path.stem
    cmd = [nvcc, '-O3', '-lineinfo', '-arch=native', '-o', str(made), str(path)]
    done = subprocess.run(cmd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f'{path.name} does not compile:\n{done.stderr or done.stdout}')
    return made


def command(ncu, report, target, sections, metrics, with_lines, only_marked, kernel, skip, count, more=()) -> list:
    "The command line that makes a report"
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
    "What went wrong, if anything did"
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
    "The last lines that are not ncu's own notes"
    lines = [l for l in said.splitlines() if l.strip() and not l.startswith(('==PROF==', '==WARNING=='))]
    return '\n'.join(lines[-most:])


# The report is read page by page. What the function does to its arguments stays in the other process.
def _run(cmd, seconds, **more):
    "(what a command printed, its exit status); C's locale, so that decimals have points"
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
    "The pages of a report as tables"

    def page(*how):
        said, status = _run([ncu, '--import', str(report), '--csv', '--page', *how], seconds)
        if status:
            raise RuntimeError(f'ncu cannot read its report:\n{_tail(said)}')
        return said

    kernels = details(page('details'))
    own = raw(page('raw', '--print-units', 'base'))
    for i, k in kernels.items():
        k.raw = {n: m for n, m in own.get(i, {}).items() if n in metrics or n == 'gpu__time_duration.sum'}
    doubts = _unknown_metrics(kernels.values(), metrics)
    if with_lines:
        _match(kernels.values(), lines(page('source', '--print-source', 'cuda,sass')))
        lost = [short(k.name) for k in kernels.values() if not k.lines]
        need = 'a kernel needs -lineinfo or @cuda.jit(lineinfo=True)'
        doubts += [f'{name} has no line information: {need}' for name in lost]
    return Ncu(kernels.values(), ncu_version(ncu), doubts)


def _literals(source):
    "The texts within a Python program that hold kernels"
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
    "The `Ncu` report of one run; `Unavailable` says what is missing"
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
    "What Nsight Compute counts; `Unavailable` without a GPU, ncu, or the permission to read counters"
    if os.environ.get('GRIDSTRIDE_UNDER_NCU'):
        way = 'Put the call behind if __name__=="__main__", in another file'
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
