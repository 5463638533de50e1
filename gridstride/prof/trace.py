"""Show the profile of PyTorch's profiler: the time of each operator on the CPU and of each kernel on the GPU.

`torch.profiler` writes a trace in the format of Chrome's tracing page. This module converts it into a table and a
picture, and keeps it for a viewer: [Perfetto](https://ui.perfetto.dev) opens it in any browser.
"""

import contextlib
import gzip
import json
import os
import re
import tempfile
import warnings
from collections import defaultdict
from html import escape
from pathlib import Path

from ..draw import Picture
from .show import brief, short, si
from .strip import Box, OTHER, Row, colors, strip
from ..bench.recording import Unavailable, no_gpu, recorded
from ..support.tables import Named, Share, Table


# Events on the CPU nest: an operator calls operators, and the innermost one calls the driver. A kernel has the
# correlation number of the driver call that launched it, so it belongs to the operator around that call. An operator's
# own time is its time without that of its inner operators.
_KINDS = {
    'cpu_op': 'op',
    'user_annotation': 'op',
    'cuda_runtime': 'call',
    'cuda_driver': 'call',
    'kernel': 'gpu',
    'gpu_memcpy': 'gpu',
    'gpu_memset': 'gpu',
}


class Span:
    """An interval of a trace, in seconds: an operator (`op`), a call of the driver (`call`), or a kernel or copy on the
    GPU (`gpu`)"""

    def __init__(self, event, zero):
        self.kind = _KINDS[event['cat']]
        self.name = event['name']
        self.start = (event['ts'] - zero) / 1e6
        self.end = self.start + event.get('dur', 0) / 1e6
        args = event.get('args', {})
        self.where = args.get('stream', event['tid']) if self.kind == 'gpu' else event['tid']
        self.device, self.link = args.get('device', 0), args.get('correlation')
        self.parent = None
        self.deep = 0
        self.inner = 0.0
        self.call = None

    @property
    def seconds(self) -> float:
        "The duration in seconds"
        return self.end - self.start

    @property
    def own(self) -> float:
        "Seconds without those of inner operators"
        return max(0, self.seconds - self.inner)

    @property
    def op(self):
        "The innermost operator around this span, or None"
        above = self.call.parent if self.kind == 'gpu' and self.call else self.parent
        return above if above is None or above.kind == 'op' else above.op


def _nest(spans):
    "Set the parent of each CPU span, its depth and the time of its inner operators"
    stack = []
    for s in sorted(spans, key=lambda s: (s.start, -s.end)):
        while stack and stack[-1].end <= s.start:
            stack.pop()
        if stack:
            s.parent = stack[-1]
            s.deep = stack[-1].deep + 1
            if s.kind == 'op':
                s.parent.inner += s.seconds
        stack.append(s)


def spans(
    trace: dict,  # a Chrome trace, as `torch.profiler` writes it
) -> list:  # of `Span`, by their start
    "Convert a trace to spans, with their parents and the launches of kernels. Raises ValueError for an empty trace"
    events = [e for e in trace['traceEvents'] if e.get('ph') == 'X' and e.get('cat') in _KINDS]
    if not events:
        raise ValueError('the trace holds no operators and no kernels')
    zero = min(e['ts'] for e in events)
    res = sorted((Span(e, zero) for e in events), key=lambda s: (s.start, -s.end))
    threads = defaultdict(list)
    for s in res:
        if s.kind != 'gpu':
            threads[s.where].append(s)
    for t in threads.values():
        _nest(t)
    calls = {s.link: s for s in res if s.kind == 'call' and s.link is not None}
    for s in res:
        if s.kind == 'gpu':
            s.call = calls.get(s.link)
    return res


# The table has one row per operator, followed by the kernels that it launched. A kernel that no operator launched, such
# as one of Triton or Numba, has its own row.
_STEP = re.compile(r'ProfilerStep#\d+')
_WAITS = re.compile(r'Synchronize|cudaMemcpy$')


def _is_step(s):
    return s is not None and bool(_STEP.match(s.name))


class _Group:
    "All spans of one name: their count, CPU seconds, and the GPU seconds of their kernels by name"

    def __init__(self, name):
        self.name = name
        self.full = name
        self.count = 0
        self.cpu = 0.0
        self.kernels = {}

    @property
    def gpu(self):
        return sum(t for _, t, _ in self.kernels.values())

    def add(self, s):
        n, t, _ = self.kernels.get(short(s.name), (0, 0.0, ''))
        self.kernels[short(s.name)] = n + 1, t + s.seconds, s.name


def groups(
    every: list,  # of `Span`
) -> list:  # of groups, sorted by GPU time, then by CPU time
    "Group spans by the operator that they belong to"
    res = {}

    def group(name):
        return res.setdefault(name, _Group(name))

    launched = {id(s.call) for s in every if s.kind == 'gpu'}
    for s in every:
        outermost = s.op is None or _is_step(s.op)
        if s.kind == 'op' and not _is_step(s):
            g = group(s.name)
            g.count = g.count + 1
            g.cpu = g.cpu + s.own
        elif s.kind == 'gpu':
            g = group(short(s.name) if outermost else s.op.name)
            if outermost:
                g.full = s.name
                g.count = g.count + 1
                g.cpu = g.cpu + (s.call.seconds if s.call else 0)
            g.add(s)
        elif s.kind == 'call' and outermost and id(s) not in launched and s.seconds:
            g = group(s.name)
            g.count = g.count + 1
            g.cpu = g.cpu + s.seconds
    return sorted(res.values(), key=lambda g: (-g.gpu, -g.cpu))


def _rows(found, gpu, max_rows, color):
    "Return table rows for the first `max_rows` groups, and one row for the others"
    total = sum(g.gpu if gpu else g.cpu for g in found) or 1

    def row(name, count, cpu, busy):
        part = Share((busy if gpu else cpu) / total) if busy or not gpu else ''
        times = [si(cpu, 's') if cpu is not None else '', *([si(busy, 's') if busy else ''] if gpu else [])]
        return [name, count, *times, part]

    rows = []
    for g in found[:max_rows]:
        rows.append(row(Named(brief(g.name), g.full, color.get(g.name, OTHER)), g.count, g.cpu, g.gpu))
        inner = sorted(g.kernels.items(), key=lambda item: -item[1][1]) if list(g.kernels) != [g.name] else []
        rows += [row(Named(brief(k), full, deep=1), n, None, t) for k, (n, t, full) in inner]
    if others := found[max_rows:]:
        sums = (sum(getattr(g, column) for g in others) for column in ('count', 'cpu', 'gpu'))
        rows.append(row(f'{len(others)} more', *sums))
    return rows


# The note below the table says for which fraction of the steps the GPU was busy. It comes first in an analysis: faster
# kernels do not help while the GPU waits for the CPU to launch them.
def _busy(every, start, end):
    "Return the seconds between `start` and `end` in which a GPU was busy"
    total = 0.0
    at = start
    for s in sorted((s for s in every if s.kind == 'gpu'), key=lambda s: s.start):
        if s.end > at and s.start < end:
            total = total + min(s.end, end) - max(s.start, at)
            at = s.end
    return total


class Profile:
    "A report of PyTorch's profiler: a table, a picture of the last step, and the trace itself"

    def __init__(self, trace, mark=''):  # mark: where and when it was recorded
        self.data, self.mark, self.spans = trace, mark, spans(trace)
        self.groups = groups(self.spans)
        self.gpu = any(s.kind == 'gpu' for s in self.spans)
        devices = {d.get('id'): d.get('name') for d in trace.get('deviceProperties', [])}
        self.device = devices.get(0) if self.gpu else None

    @property
    def steps(self):
        "(start, end) of each step; a step ends with the last kernel that was launched in it"
        steps = [s for s in self.spans if _is_step(s) and s.kind == 'op'] or [None]
        return [self._window(s) for s in steps]

    def _window(self, step):
        inside = [s for s in self.spans if not step or step.start <= (s.call or s).start < step.end]
        return min(s.start for s in inside), max(s.end for s in inside)

    @property
    def seconds(self) -> float:
        "Seconds from the start of the first step to the end of the last one"
        return self.steps[-1][1] - self.steps[0][0]

    @property
    def busy(self) -> float:
        "Seconds of the steps in which a GPU was busy"
        return _busy(self.spans, self.steps[0][0], self.steps[-1][1])

    def table(self, most=12) -> Table:  # most: operators to list
        "Return a table of operators and kernels: count, own CPU time, GPU time, and percentage"
        what, times = ('<operator, and its kernels', ['GPU', 'of GPU']) if self.gpu else ('<operator', ['of CPU'])
        head = [what, 'count', 'CPU', *times]
        return Table(head, _rows(self.groups, self.gpu, most, self._colors()), title=self._title(), note=self._note())

    def _colors(self):
        return colors([g.name for g in self.groups])

    def _title(self):
        n = len(self.steps)
        where = self.device or ('the GPU' if self.gpu else 'on the CPU')
        return f"{n} step{'s' * (n > 1)} in {si(self.seconds, 's')}, {where}"

    def _note(self):
        busy = 'No GPU took part.'
        if self.gpu:
            part = self.busy / self.seconds if self.seconds else 0
            waits = ': it waits for the CPU.' if part < 0.5 else '.'
            busy = f'The GPU is busy for {Share(part)} of that time{waits}'
        return f'{busy}{f" [{self.mark}]" if self.mark else ""}'

    def trace(self, path):
        "Write the trace to `path` (compressed if that ends in .gz) and return a link to it"
        path = Path(path)
        text = json.dumps(self.data).encode()
        path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == '.gz' else text)
        return Link(path, f'{path.stat().st_size / 1e3:.0f} kB; open it in https://ui.perfetto.dev')

    def __repr__(self):
        return repr(self.table())

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': repr(self), 'text/html': f'{self.timeline().svg}{self.table()._repr_html_()}'}


class Link:
    "A link to a file, with a hint"

    def __init__(self, path, hint):
        self.path = Path(path)
        self.hint = hint

    def __repr__(self):
        return f'{self.path} ({self.hint})'

    def __fspath__(self):
        return str(self.path)

    def _repr_html_(self):
        return f'<a href="{escape(str(self.path))}" download>{escape(self.path.name)}</a> ({escape(self.hint)})'


# The picture has rows per CPU thread, with outer operators above inner ones, followed by the streams of the GPU. Arrows
# lead from launches to kernels if there are few of them.
def _overlaps(s, start, end):
    return s.end > start and s.start < end


def _thread_rows(every, start, end, color, deepest=3):
    "Return (rows of all CPU threads, the index of the lowest row by thread); inner operators are one row lower"
    rows = []
    lowest = {}

    def box(s):
        name = s.name.removeprefix('aten::')
        return Box(max(s.start, start), min(s.end, end), name, color.get(s.name, OTHER), s.name)

    threads = list(dict.fromkeys(s.where for s in every if s.kind == 'op'))
    for k, t in enumerate(threads):
        ops = [s for s in every if s.kind == 'op' and s.where == t and not _is_step(s) and _overlaps(s, start, end)]
        base = min((s.deep for s in ops), default=0)
        label = 'CPU' if len(threads) == 1 else f'CPU thread {k}'
        for d in range(deepest):
            if here := [box(s) for s in ops if s.deep - base == d]:
                rows.append(Row('' if d else label, here))
        lowest[t] = len(rows) - 1
    return rows, lowest


def _stream_rows(gpu, color):
    "Return one row per stream that has work"
    several_gpus = len({s.device for s in gpu}) > 1

    def name(s):
        return short(s.name) if s.op is None or _is_step(s.op) else s.op.name

    streams = sorted({(s.device, s.where) for s in gpu})
    label = {p: f'GPU {p[0]}, stream {p[1]}' if several_gpus else f'stream {p[1]}' for p in streams}

    def box(s):
        return Box(s.start, s.end, short(s.name), color.get(name(s), OTHER), s.name)

    return {p: Row(label[p], [box(s) for s in gpu if (s.device, s.where) == p]) for p in streams}


def picture(
    profile,  # a `Profile`
    step=-1,  # index of the step
    arrows=16,  # draw arrows for at most so many launches
    width=610,
) -> Picture:
    "Draw one step of a profile as a strip"
    start, end = profile.steps[step]
    color = profile._colors()
    rows, lowest = _thread_rows(profile.spans, start, end, color)
    gpu = [s for s in profile.spans if s.kind == 'gpu' and _overlaps(s, start, end)]
    streams = _stream_rows(gpu, color)
    index = {p: len(rows) + i for i, p in enumerate(streams)}
    launches = [
        (lowest[s.call.where], s.call.start, index[s.device, s.where], s.start)
        for s in gpu
        if s.call and s.call.where in lowest and s.call.start >= start
    ]
    shown = launches if len(launches) <= arrows and lowest else []
    drawn = strip(rows + list(streams.values()), shown, width, start=start, end=end, most=110)
    return Picture(drawn, caption=_caption(end - start, bool(gpu), bool(shown), profile.mark))


def _caption(seconds, on_gpu, with_arrows, mark):
    "Return the caption of a strip, which explains its colours and arrows"
    what = (
        'a kernel has the colour of the operator that launched it' if on_gpu else 'an operator is above those it calls'
    )
    calls = 'arrows lead from a launch to its kernel; ' if with_arrows else ''
    made = f' [{mark}]' if mark else ''
    return f"One step, {si(seconds, 's')}: {what}; {calls}the colours are those of the table.{made}"


Profile.timeline = picture


# The first call under the profiler is slow, so by default one call is a warm-up. The machine's name is removed from a
# trace.
def _plan(steps, schedule):
    "Return how many calls are for (wait, warm-up, active)"
    if schedule is None:
        return 0, 1, steps
    if len(schedule) != 3 or min(schedule) < 0 or schedule[2] < 1:
        raise ValueError(
            f'schedule must be counts of calls (wait, warm-up, active) with at least one active; got {schedule}'
        )
    return tuple(schedule)


@contextlib.contextmanager
def _silence():
    "Suppress what PyTorch's profiler writes to the terminal when it starts and stops"
    os.environ.setdefault('KINETO_LOG_LEVEL', '99')
    with warnings.catch_warnings():
        for said in ('.*Profiler clears events', ".*Profiler won't be using warmup"):
            warnings.filterwarnings('ignore', message=said)
        yield


def _trace(fn, args, kwargs, plan, shapes):
    "Return the trace of the active calls"
    import torch
    from torch.profiler import ProfilerActivity as A

    gpu = torch.cuda.is_available()
    wait, warmup, active = plan
    with _silence(), tempfile.TemporaryDirectory() as folder:
        schedule = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1)
        activities = [A.CPU] + ([A.CUDA] if gpu else [])
        with torch.profiler.profile(activities=activities, schedule=schedule, record_shapes=shapes) as p:
            for _ in range(sum(plan)):
                fn(*args, **kwargs)
                if gpu:
                    torch.cuda.synchronize()
                p.step()
        file = Path(folder) / 'trace.json'
        p.export_chrome_trace(str(file))
        trace = json.loads(file.read_text(encoding='utf-8'))
    return {k: v for k, v in trace.items() if k not in ('host_name', 'trace_id', 'traceName', 'distributedInfo')}


def slim(trace: dict) -> dict:
    "Return only the parts of a trace that the table and the picture need; a recording stores these"

    def only(d, keys):
        return {k: d[k] for k in keys if k in d}

    events = [e for e in trace['traceEvents'] if e.get('ph') == 'X' and e.get('cat') in _KINDS]
    zero = min((e['ts'] for e in events), default=0)

    def event(e):
        args = only(e.get('args', {}), ('stream', 'device', 'correlation'))
        kept = only(e, ('ph', 'cat', 'name', 'pid', 'tid', 'dur'))
        return {**kept, 'ts': round(e['ts'] - zero, 3), 'args': args}

    kept = [event(e) for e in events]
    return dict(deviceProperties=[only(d, ('id', 'name')) for d in trace.get('deviceProperties', [])], traceEvents=kept)


def profile(
    fn,  # the function to profile
    *args,  # for `fn`, like `kwargs`
    steps=1,  # calls to profile, after a warm-up call
    schedule=None,  # (wait, warm-up, active) calls, instead of `steps`
    shapes=False,  # keep the shapes of the operators' inputs in the trace
    record=None,  # the name of a recording, which is shown where there is no GPU
    **kwargs,
) -> Profile:
    """Profile `fn(*args)` with PyTorch's profiler, on the CPU and, if there is one, on the GPU.

    profile(torch.nn.functional.gelu, x, steps=3)"""
    plan = _plan(steps, schedule)
    if record is None:
        return Profile(_trace(fn, args, kwargs, plan, shapes))

    def make():
        if why := no_gpu():
            raise Unavailable(why)
        return Profile(_trace(fn, args, kwargs, plan, shapes))

    return recorded(record, make, fn, list(args), kwargs, list(plan), save=lambda p: slim(p.data), load=Profile)
