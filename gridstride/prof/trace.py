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
from ..support.tables import CellText, Share, Table


# Events on the CPU nest: an operator calls operators, and the innermost one calls the driver. A kernel has the
# correlation number of the driver call that launched it, so it belongs to the operator around that call. The time of
# an operator itself does not include the time of its inner operators.
_KIND_OF_CATEGORY = {
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
        self.kind = _KIND_OF_CATEGORY[event['cat']]
        self.name = event['name']
        self.start = (event['ts'] - zero) / 1e6
        self.end = self.start + event.get('dur', 0) / 1e6
        args = event.get('args', {})
        self.track = args.get('stream', event['tid']) if self.kind == 'gpu' else event['tid']  # a stream or a thread
        self.device, self.correlation = args.get('device', 0), args.get('correlation')
        self.parent = None
        self.depth = 0
        self.inner_seconds = 0.0  # of the operators inside this one
        self.call = None  # of a kernel: the driver call that launched it

    @property
    def seconds(self) -> float:
        "The duration in seconds"
        return self.end - self.start

    @property
    def own_seconds(self) -> float:
        "The duration without the durations of inner operators"
        return max(0, self.seconds - self.inner_seconds)

    @property
    def op(self):
        "The innermost operator around this span, or None"
        outer = self.call.parent if self.kind == 'gpu' and self.call else self.parent
        return outer if outer is None or outer.kind == 'op' else outer.op


def _nest(spans):
    "Set the parent of each CPU span, its depth and the time of its inner operators"
    stack = []
    for s in sorted(spans, key=lambda s: (s.start, -s.end)):
        while stack and stack[-1].end <= s.start:
            stack.pop()
        if stack:
            s.parent = stack[-1]
            s.depth = stack[-1].depth + 1
            if s.kind == 'op':
                s.parent.inner_seconds += s.seconds
        stack.append(s)


def spans(
    trace: dict,  # a Chrome trace, as `torch.profiler` writes it
) -> list:  # of `Span`, by their start
    "Convert a trace to spans, with their parents and the launches of kernels; raises `ValueError` for an empty trace"
    events = [e for e in trace['traceEvents'] if e.get('ph') == 'X' and e.get('cat') in _KIND_OF_CATEGORY]
    if not events:
        raise ValueError('the trace contains no operators and no kernels')
    zero = min(e['ts'] for e in events)
    all_spans = sorted((Span(e, zero) for e in events), key=lambda s: (s.start, -s.end))
    threads = defaultdict(list)
    for s in all_spans:
        if s.kind != 'gpu':
            threads[s.track].append(s)
    for t in threads.values():
        _nest(t)
    calls = {s.correlation: s for s in all_spans if s.kind == 'call' and s.correlation is not None}
    for s in all_spans:
        if s.kind == 'gpu':
            s.call = calls.get(s.correlation)
    return all_spans


# The table has one row per operator, followed by the kernels that it launched. A kernel that no operator launched, such
# as one of Triton or Numba, has its own row.
_STEP = re.compile(r'ProfilerStep#\d+')
_WAITS = re.compile(r'Synchronize|cudaMemcpy$')


def _is_step(s):
    return s is not None and bool(_STEP.match(s.name))


class _Group:
    "All spans of one name: their count, CPU seconds, and the GPU seconds per kernel"

    def __init__(self, name):
        self.name = name
        self.full_name = name
        self.count = 0
        self.cpu = 0.0
        self.kernels = {}  # short name -> (count, seconds, full name)

    @property
    def gpu(self):
        return sum(t for _, t, _ in self.kernels.values())

    def add(self, s):
        n, t, _ = self.kernels.get(short(s.name), (0, 0.0, ''))
        self.kernels[short(s.name)] = n + 1, t + s.seconds, s.name


def groups(
    all_spans: list,  # of `Span`
) -> list:  # of groups, sorted by GPU time, then by CPU time
    "Group spans by the operator that they belong to"
    group_of_name = {}

    def group(name):
        return group_of_name.setdefault(name, _Group(name))

    launch_ids = {id(s.call) for s in all_spans if s.kind == 'gpu'}
    for s in all_spans:
        is_outermost = s.op is None or _is_step(s.op)
        if s.kind == 'op' and not _is_step(s):
            g = group(s.name)
            g.count = g.count + 1
            g.cpu = g.cpu + s.own_seconds
        elif s.kind == 'gpu':
            g = group(short(s.name) if is_outermost else s.op.name)
            if is_outermost:
                g.full_name = s.name
                g.count = g.count + 1
                g.cpu = g.cpu + (s.call.seconds if s.call else 0)
            g.add(s)
        elif s.kind == 'call' and is_outermost and id(s) not in launch_ids and s.seconds:
            g = group(s.name)
            g.count = g.count + 1
            g.cpu = g.cpu + s.seconds
    return sorted(group_of_name.values(), key=lambda g: (-g.gpu, -g.cpu))


def _rows(all_groups, on_gpu, max_rows, color):
    "Return table rows for the first `max_rows` groups, and one row for the others"
    total = sum(g.gpu if on_gpu else g.cpu for g in all_groups) or 1

    def row(name, count, cpu, gpu):
        share = Share((gpu if on_gpu else cpu) / total) if gpu or not on_gpu else ''
        times = [si(cpu, 's') if cpu is not None else '', *([si(gpu, 's') if gpu else ''] if on_gpu else [])]
        return [name, count, *times, share]

    rows = []
    for g in all_groups[:max_rows]:
        rows.append(row(CellText(brief(g.name), g.full_name, color.get(g.name, OTHER)), g.count, g.cpu, g.gpu))
        kernels = sorted(g.kernels.items(), key=lambda item: -item[1][1]) if list(g.kernels) != [g.name] else []
        rows += [row(CellText(brief(k), full_name, depth=1), n, None, t) for k, (n, t, full_name) in kernels]
    if others := all_groups[max_rows:]:
        sums = (sum(getattr(g, column) for g in others) for column in ('count', 'cpu', 'gpu'))
        rows.append(row(f'{len(others)} more', *sums))
    return rows


# The note below the table says for which fraction of the steps the GPU was busy. Read it first: faster kernels do not
# help while the GPU waits for the CPU to launch them.
def _busy_seconds(all_spans, start, end):
    "Return the seconds between `start` and `end` in which a GPU was busy"
    total = 0.0
    counted_until = start
    for s in sorted((s for s in all_spans if s.kind == 'gpu'), key=lambda s: s.start):
        if s.end > counted_until and s.start < end:
            total = total + min(s.end, end) - max(s.start, counted_until)
            counted_until = s.end
    return total


class Profile:
    "A report of PyTorch's profiler: a table, a picture of the last step, and the trace itself"

    def __init__(self, trace, mark=''):  # mark: where and when it was recorded
        self.data, self.mark, self.spans = trace, mark, spans(trace)
        self.groups = groups(self.spans)
        self.has_gpu = any(s.kind == 'gpu' for s in self.spans)
        devices = {d.get('id'): d.get('name') for d in trace.get('deviceProperties', [])}
        self.device = devices.get(0) if self.has_gpu else None

    @property
    def steps(self):
        "(start, end) of each step; a step ends with the last kernel that was launched in it"
        steps = [s for s in self.spans if _is_step(s) and s.kind == 'op'] or [None]
        return [self._window(s) for s in steps]

    def _window(self, step):
        "Return (start, end) of the spans that are launched in a step; of all spans if there is none"
        step_spans = [s for s in self.spans if not step or step.start <= (s.call or s).start < step.end]
        return min(s.start for s in step_spans), max(s.end for s in step_spans)

    @property
    def seconds(self) -> float:
        "Seconds from the start of the first step to the end of the last one"
        return self.steps[-1][1] - self.steps[0][0]

    @property
    def busy(self) -> float:
        "Seconds of the steps in which a GPU was busy"
        return _busy_seconds(self.spans, self.steps[0][0], self.steps[-1][1])

    def table(self, max_rows=12) -> Table:  # max_rows: operators to list
        "Return a table of operators and kernels: count, own CPU time, GPU time, and percentage"
        title, times = ('<operator, and its kernels', ['GPU', 'of GPU']) if self.has_gpu else ('<operator', ['of CPU'])
        head = [title, 'count', 'CPU', *times]
        return Table(
            head, _rows(self.groups, self.has_gpu, max_rows, self._colors()), title=self._title(), note=self._note()
        )

    def _colors(self):
        return colors([g.name for g in self.groups])

    def _title(self):
        num_steps = len(self.steps)
        device = self.device or ('the GPU' if self.has_gpu else 'on the CPU')
        return f"{num_steps} step{'s' * (num_steps > 1)} in {si(self.seconds, 's')}, {device}"

    def _note(self):
        text = 'No GPU was used.'
        if self.has_gpu:
            fraction = self.busy / self.seconds if self.seconds else 0
            reason = ': it waits for the CPU.' if fraction < 0.5 else '.'
            text = f'The GPU is busy for {Share(fraction)} of that time{reason}'
        return f'{text}{f" [{self.mark}]" if self.mark else ""}'

    def trace(self, path):
        "Write the trace to `path`, compressed if it ends in .gz; returns a link to it"
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


def _thread_rows(all_spans, start, end, color, max_depth=3):
    "Return (rows of all CPU threads, thread -> index of its lowest row); inner operators are one row lower"
    rows = []
    lowest_row = {}

    def box(s):
        name = s.name.removeprefix('aten::')
        return Box(max(s.start, start), min(s.end, end), name, color.get(s.name, OTHER), s.name)

    threads = list(dict.fromkeys(s.track for s in all_spans if s.kind == 'op'))
    for k, t in enumerate(threads):
        ops = [s for s in all_spans if s.kind == 'op' and s.track == t and not _is_step(s) and _overlaps(s, start, end)]
        min_depth = min((s.depth for s in ops), default=0)
        label = 'CPU' if len(threads) == 1 else f'CPU thread {k}'
        for depth in range(max_depth):
            if boxes := [box(s) for s in ops if s.depth - min_depth == depth]:
                rows.append(Row('' if depth else label, boxes))
        lowest_row[t] = len(rows) - 1
    return rows, lowest_row


def _stream_rows(gpu_spans, color):
    "Return {(GPU, stream): row} of the streams that have work"
    has_several_gpus = len({s.device for s in gpu_spans}) > 1

    def name(s):
        return short(s.name) if s.op is None or _is_step(s.op) else s.op.name

    streams = sorted({(s.device, s.track) for s in gpu_spans})
    label = {p: f'GPU {p[0]}, stream {p[1]}' if has_several_gpus else f'stream {p[1]}' for p in streams}

    def box(s):
        return Box(s.start, s.end, short(s.name), color.get(name(s), OTHER), s.name)

    return {p: Row(label[p], [box(s) for s in gpu_spans if (s.device, s.track) == p]) for p in streams}


def picture(
    profile,  # a `Profile`
    step=-1,  # index of the step
    arrows=16,  # draw arrows unless there are more launches
    width=610,
) -> Picture:
    "Draw one step of a profile as a strip"
    start, end = profile.steps[step]
    color = profile._colors()
    rows, lowest_row = _thread_rows(profile.spans, start, end, color)
    gpu_spans = [s for s in profile.spans if s.kind == 'gpu' and _overlaps(s, start, end)]
    streams = _stream_rows(gpu_spans, color)
    row_of_stream = {p: len(rows) + i for i, p in enumerate(streams)}
    launches = [
        (lowest_row[s.call.track], s.call.start, row_of_stream[s.device, s.track], s.start)
        for s in gpu_spans
        if s.call and s.call.track in lowest_row and s.call.start >= start
    ]
    drawn_launches = launches if len(launches) <= arrows and lowest_row else []
    panel = strip(rows + list(streams.values()), drawn_launches, width, start=start, end=end, max_label_width=110)
    caption = _caption(end - start, bool(gpu_spans), bool(drawn_launches), profile.mark)
    return Picture(panel, caption=caption)


def _caption(seconds, on_gpu, with_arrows, mark):
    "Return the caption of a strip, which explains its colours and arrows"
    colors_text = (
        'a kernel has the colour of the operator that launched it' if on_gpu else 'an operator is above those it calls'
    )
    arrows_text = 'arrows lead from a launch to its kernel; ' if with_arrows else ''
    mark_text = f' [{mark}]' if mark else ''
    return f"One step, {si(seconds, 's')}: {colors_text}; {arrows_text}the colours are those of the table.{mark_text}"


Profile.timeline = picture


# The first call under the profiler is slow, so by default one call is a warm-up. The name of the machine is removed
# from a trace.
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
    "Suppress the messages of PyTorch's profiler when it starts and stops"
    os.environ.setdefault('KINETO_LOG_LEVEL', '99')
    with warnings.catch_warnings():
        for message in ('.*Profiler clears events', ".*Profiler won't be using warmup"):
            warnings.filterwarnings('ignore', message=message)
        yield


def _trace(fn, args, kwargs, plan, shapes):
    "Return the trace of the active calls"
    import torch
    from torch.profiler import ProfilerActivity as A

    has_gpu = torch.cuda.is_available()
    wait, warmup, active = plan
    with _silence(), tempfile.TemporaryDirectory() as folder:
        schedule = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1)
        activities = [A.CPU] + ([A.CUDA] if has_gpu else [])
        with torch.profiler.profile(activities=activities, schedule=schedule, record_shapes=shapes) as p:
            for _ in range(sum(plan)):
                fn(*args, **kwargs)
                if has_gpu:
                    torch.cuda.synchronize()
                p.step()
        file = Path(folder) / 'trace.json'
        p.export_chrome_trace(str(file))
        trace = json.loads(file.read_text(encoding='utf-8'))
    return {k: v for k, v in trace.items() if k not in ('host_name', 'trace_id', 'traceName', 'distributedInfo')}


def slim(trace: dict) -> dict:
    "Return the parts of a trace that the table and the picture need, for a recording"

    def select(d, keys):
        return {k: d[k] for k in keys if k in d}

    events = [e for e in trace['traceEvents'] if e.get('ph') == 'X' and e.get('cat') in _KIND_OF_CATEGORY]
    zero = min((e['ts'] for e in events), default=0)

    def event(e):
        args = select(e.get('args', {}), ('stream', 'device', 'correlation'))
        fields = select(e, ('ph', 'cat', 'name', 'pid', 'tid', 'dur'))
        return {**fields, 'ts': round(e['ts'] - zero, 3), 'args': args}

    devices = [select(d, ('id', 'name')) for d in trace.get('deviceProperties', [])]
    return dict(deviceProperties=devices, traceEvents=[event(e) for e in events])


def profile(
    fn,  # the function to profile
    *args,  # for `fn`, like `kwargs`
    steps=1,  # calls to profile, after a warm-up call
    schedule=None,  # (wait, warm-up, active) calls, instead of `steps`
    shapes=False,  # record the shapes of the operators' inputs in the trace
    record=None,  # the name of a recording, which is shown where there is no GPU
    **kwargs,
) -> Profile:
    """Profile `fn(*args)` with PyTorch's profiler, on the CPU and, if there is one, on the GPU.

    profile(torch.nn.functional.gelu, x, steps=3)"""
    plan = _plan(steps, schedule)
    if record is None:
        return Profile(_trace(fn, args, kwargs, plan, shapes))

    def measure():
        if reason := no_gpu():
            raise Unavailable(reason)
        return Profile(_trace(fn, args, kwargs, plan, shapes))

    return recorded(record, measure, fn, list(args), kwargs, list(plan), save=lambda p: slim(p.data), load=Profile)
