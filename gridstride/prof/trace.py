"""PyTorch's profiler: which operator took how long on the CPU, which kernel on the GPU, and when.

`torch.profiler` writes a trace, in the format of Chrome's tracing page. Here such a trace is read into a
table and a picture, and stays at hand for a viewer: [Perfetto](https://ui.perfetto.dev) opens it in any
browser.
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


# Events on the CPU nest: an operator calls operators, and the innermost calls the driver. A kernel carries
# the number of the call that launched it, and so it belongs to the operator around that call. The operator's
# own time is what its inner operators leave.
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
    """Something that took time, in seconds: an operator (`op`), a call of the driver (`call`), or a kernel or copy on
    the GPU (`gpu`)"""

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
        "How long it took"
        return self.end - self.start

    @property
    def own(self) -> float:
        "Seconds that its inner operators leave"
        return max(0, self.seconds - self.inner)

    @property
    def op(self):
        "The innermost operator around it, or None"
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
    "Return what a trace says took time, with who called whom"
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


# One row per operator, and under it the kernels that it launched. What was launched by none, as a Triton
# or Numba kernel is, has a row of its own.
_STEP = re.compile(r'ProfilerStep#\d+')
_WAITS = re.compile(r'Synchronize|cudaMemcpy$')


def _is_step(s):
    return s is not None and bool(_STEP.match(s.name))


class _Group:
    "All spans of one name: how many, CPU seconds, and the GPU seconds of their kernels by name"

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
) -> list:  # of groups, by GPU time and then CPU time
    "Return the spans by the operator they belong to"
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


def _rows(found, gpu, most, color):
    "Rows of the table for the first `most` groups, and one for the others"
    total = sum(g.gpu if gpu else g.cpu for g in found) or 1

    def row(name, count, cpu, busy):
        part = Share((busy if gpu else cpu) / total) if busy or not gpu else ''
        times = [si(cpu, 's') if cpu is not None else '', *([si(busy, 's') if busy else ''] if gpu else [])]
        return [name, count, *times, part]

    rows = []
    for g in found[:most]:
        rows.append(row(Named(brief(g.name), g.full, color.get(g.name, OTHER)), g.count, g.cpu, g.gpu))
        inner = sorted(g.kernels.items(), key=lambda item: -item[1][1]) if list(g.kernels) != [g.name] else []
        rows += [row(Named(brief(k), full, deep=1), n, None, t) for k, (n, t, full) in inner]
    if others := found[most:]:
        sums = (sum(getattr(g, column) for g in others) for column in ('count', 'cpu', 'gpu'))
        rows.append(row(f'{len(others)} more', *sums))
    return rows


# Next to the table is how busy the GPU was in the steps, which is the first thing to look at: kernels need
# not be made faster while the GPU waits for the CPU to launch them.
def _busy(every, start, end):
    "Seconds between `start` and `end` in which something ran on a GPU"
    total = 0.0
    at = start
    for s in sorted((s for s in every if s.kind == 'gpu'), key=lambda s: s.start):
        if s.end > at and s.start < end:
            total = total + min(s.end, end) - max(s.start, at)
            at = s.end
    return total


class Profile:
    "A report of PyTorch's profiler: a table, a picture of the last step, and the trace itself"

    def __init__(self, trace, mark=''):  # mark: where and when it was recorded, if it was
        self.data, self.mark, self.spans = trace, mark, spans(trace)
        self.groups = groups(self.spans)
        self.gpu = any(s.kind == 'gpu' for s in self.spans)
        devices = {d.get('id'): d.get('name') for d in trace.get('deviceProperties', [])}
        self.device = devices.get(0) if self.gpu else None

    @property
    def steps(self):
        "(start, end) of each step, until the last kernel launched in it"
        steps = [s for s in self.spans if _is_step(s) and s.kind == 'op'] or [None]
        return [self._window(s) for s in steps]

    def _window(self, step):
        inside = [s for s in self.spans if not step or step.start <= (s.call or s).start < step.end]
        return min(s.start for s in inside), max(s.end for s in inside)

    @property
    def seconds(self) -> float:
        "From the start of the first step to the end of the last"
        return self.steps[-1][1] - self.steps[0][0]

    @property
    def busy(self) -> float:
        "Seconds of the steps in which something ran on a GPU"
        return _busy(self.spans, self.steps[0][0], self.steps[-1][1])

    def table(self, most=12) -> Table:  # most: operators to name
        "Operators and kernels: count, time on the CPU (their own), on the GPU, and share"
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
    "A file, and what to do with it"

    def __init__(self, path, hint):
        self.path = Path(path)
        self.hint = hint

    def __repr__(self):
        return f'{self.path} ({self.hint})'

    def __fspath__(self):
        return str(self.path)

    def _repr_html_(self):
        return f'<a href="{escape(str(self.path))}" download>{escape(self.path.name)}</a> ({escape(self.hint)})'


# CPU threads are above, with operators in the first rows and what they call below; streams of the GPU follow.
# Arrows lead from the launch to the kernel, while those are few.
def _overlaps(s, start, end):
    return s.end > start and s.start < end


def _thread_rows(every, start, end, color, deepest=3):
    "The rows of each CPU thread, an operator's inner ones a row lower; (rows, index of the lowest row by thread)"
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
    "One row per stream that has work"
    many = len({s.device for s in gpu}) > 1

    def name(s):
        return short(s.name) if s.op is None or _is_step(s.op) else s.op.name

    streams = sorted({(s.device, s.where) for s in gpu})
    label = {p: f'GPU {p[0]}, stream {p[1]}' if many else f'stream {p[1]}' for p in streams}

    def box(s):
        return Box(s.start, s.end, short(s.name), color.get(name(s), OTHER), s.name)

    return {p: Row(label[p], [box(s) for s in gpu if (s.device, s.where) == p]) for p in streams}


def picture(
    profile,  # a `Profile`
    step=-1,  # which of its steps
    arrows=16,  # how many launches to show, at most
    width=610,
) -> Picture:
    "One step of a profile as a strip"
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
    "Return what the colours and arrows of a strip mean"
    what = (
        'a kernel has the colour of the operator that launched it' if on_gpu else 'an operator is above those it calls'
    )
    calls = 'arrows lead from a launch to its kernel; ' if with_arrows else ''
    made = f' [{mark}]' if mark else ''
    return f"One step, {si(seconds, 's')}: {what}; {calls}the colours are those of the table.{made}"


Profile.timeline = picture


# The profiler's own first call is slow, so by default one call goes before those that count. A trace keeps
# the machine's name out.
def _plan(steps, schedule):
    "Return (wait, warm-up, active) calls"
    if schedule is None:
        return 0, 1, steps
    if len(schedule) != 3 or min(schedule) < 0 or schedule[2] < 1:
        raise ValueError(f'schedule is (wait, warm-up, active) calls, with at least one active; this is {schedule}')
    return tuple(schedule)


@contextlib.contextmanager
def _silence():
    "PyTorch's profiler writes to the terminal when it starts and stops"
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
    "Only what the table and the picture need, which is what a recording keeps"

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
    fn,  # what is profiled
    *args,  # of `fn`, as `kwargs` are
    steps=1,  # calls that count, after one that does not
    schedule=None,  # (wait, warm-up, active) calls, instead of `steps`
    shapes=False,  # keep the shapes of the operators' inputs in the trace
    record=None,  # the name of a recording, NN_what: shown where there is no GPU
    **kwargs,
) -> Profile:
    "PyTorch's profile of `fn(*args)`, on the CPU and, where there is one, the GPU"
    plan = _plan(steps, schedule)
    if record is None:
        return Profile(_trace(fn, args, kwargs, plan, shapes))

    def make():
        if why := no_gpu():
            raise Unavailable(why)
        return Profile(_trace(fn, args, kwargs, plan, shapes))

    return recorded(record, make, fn, list(args), kwargs, list(plan), save=lambda p: slim(p.data), load=Profile)
