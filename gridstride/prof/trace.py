"""Show a profile of PyTorch's profiler: the time of each operator on the CPU and of each kernel on the GPU.

`torch.profiler` writes a trace in the format of Chrome's tracing page. This module converts the trace into a table and
a picture. It also writes the trace to a file, which [Perfetto](https://ui.perfetto.dev) displays in any browser.
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

from ..draw import Picture, themed
from .show import format_si, short_name, truncate_middle
from .strip import OTHER_COLOR, Box, Row, colors, strip
from ..bench.recording import Unavailable, no_gpu, recorded
from ..support.tables import CellText, Percentage, Table


# Events on the CPU nest: an operator calls operators, and the innermost one calls the driver. A kernel has the
# correlation number of the driver call that launched it, so it belongs to the operator around that call. The self time
# of an operator does not include the time of its inner operators.
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
    """An interval of a trace, in seconds.

    Its kind is 'op' for an operator, 'call' for a call of the driver, 'gpu' for a kernel or copy on the GPU."""

    def __init__(self, event, first_timestamp):
        self.kind = _KIND_OF_CATEGORY[event['cat']]
        self.name = event['name']
        self.start = (event['ts'] - first_timestamp) / 1e6
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
    def self_seconds(self) -> float:
        "The duration without that of inner operators, PyTorch's \"self CPU\" time"
        return max(0, self.seconds - self.inner_seconds)

    @property
    def op(self):
        "The innermost operator that contains this span, or None; for a kernel, the operator that launched it"
        outer = self.call.parent if self.kind == 'gpu' and self.call else self.parent
        return outer if outer is None or outer.kind == 'op' else outer.op


def _nest(spans):
    "Set the parent of each CPU span, its depth and the time of its inner operators"
    stack = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        while stack and stack[-1].end <= span.start:
            stack.pop()
        if stack:
            span.parent = stack[-1]
            span.depth = stack[-1].depth + 1
            if span.kind == 'op':
                span.parent.inner_seconds += span.seconds
        stack.append(span)


def parse_spans(
    trace: dict,  # a Chrome trace, as `torch.profiler` writes it
) -> list:  # of `Span`, by their start
    "Convert a trace to spans, with their parents and the launches of kernels; raises `ValueError` for an empty trace"
    events = [
        event for event in trace['traceEvents'] if event.get('ph') == 'X' and event.get('cat') in _KIND_OF_CATEGORY
    ]
    if not events:
        raise ValueError('the trace contains no operators and no kernels')
    first_timestamp = min(event['ts'] for event in events)
    all_spans = sorted((Span(event, first_timestamp) for event in events), key=lambda span: (span.start, -span.end))
    spans_of_thread = defaultdict(list)
    for span in all_spans:
        if span.kind != 'gpu':
            spans_of_thread[span.track].append(span)
    for thread_spans in spans_of_thread.values():
        _nest(thread_spans)
    calls = {span.correlation: span for span in all_spans if span.kind == 'call' and span.correlation is not None}
    for span in all_spans:
        if span.kind == 'gpu':
            span.call = calls.get(span.correlation)
    return all_spans


# The table has one row per operator, followed by the kernels that it launched. A kernel that no operator launched, such
# as one of Triton or Numba, has its own row.
_STEP = re.compile(r'ProfilerStep#\d+')


def _is_step(span):
    return span is not None and bool(_STEP.match(span.name))


class _Group:
    "The spans of one operator: their number, their seconds on the CPU, and the seconds of each kernel on the GPU"

    def __init__(self, name):
        self.name = name
        self.full_name = name
        self.count = 0
        self.cpu_seconds = 0.0
        self.kernels = {}  # short name -> (count, seconds, full name)

    @property
    def gpu_seconds(self):
        return sum(seconds for _, seconds, _ in self.kernels.values())

    def add_kernel(self, span):
        "Add a launch of a kernel"
        count, seconds, _ = self.kernels.get(short_name(span.name), (0, 0.0, ''))
        self.kernels[short_name(span.name)] = count + 1, seconds + span.seconds, span.name


def group_by_operator(
    all_spans: list,  # of `Span`
) -> list:  # of groups, sorted by GPU time, then by CPU time
    "Group spans by the operator that they belong to"
    group_of_name = {}

    def group(name):
        return group_of_name.setdefault(name, _Group(name))

    launch_ids = {id(span.call) for span in all_spans if span.kind == 'gpu'}
    for span in all_spans:
        is_outermost = span.op is None or _is_step(span.op)
        if span.kind == 'op' and not _is_step(span):
            operator_group = group(span.name)
            operator_group.count += 1
            operator_group.cpu_seconds += span.self_seconds
        elif span.kind == 'gpu':
            operator_group = group(short_name(span.name) if is_outermost else span.op.name)
            if is_outermost:
                operator_group.full_name = span.name
                operator_group.count += 1
                operator_group.cpu_seconds += span.call.seconds if span.call else 0
            operator_group.add_kernel(span)
        elif span.kind == 'call' and is_outermost and id(span) not in launch_ids and span.seconds:
            operator_group = group(span.name)
            operator_group.count += 1
            operator_group.cpu_seconds += span.seconds
    return sorted(
        group_of_name.values(), key=lambda operator_group: (-operator_group.gpu_seconds, -operator_group.cpu_seconds)
    )


def _rows(all_groups, on_gpu, max_rows, color_of_name):
    "Return table rows for the first `max_rows` groups, and one row for the others"
    total = sum(group.gpu_seconds if on_gpu else group.cpu_seconds for group in all_groups) or 1

    def make_row(name, count, cpu_seconds, gpu_seconds):
        fraction = Percentage((gpu_seconds if on_gpu else cpu_seconds) / total) if gpu_seconds or not on_gpu else ''
        times = [format_si(cpu_seconds, 's') if cpu_seconds is not None else '']
        if on_gpu:
            times.append(format_si(gpu_seconds, 's') if gpu_seconds else '')
        return [name, count, *times, fraction]

    rows = []
    for group in all_groups[:max_rows]:
        color = themed(color_of_name.get(group.name, OTHER_COLOR))
        rows.append(
            make_row(
                CellText(truncate_middle(group.name), group.full_name, color),
                group.count,
                group.cpu_seconds,
                group.gpu_seconds,
            )
        )
        kernels = (
            sorted(group.kernels.items(), key=lambda item: -item[1][1]) if list(group.kernels) != [group.name] else []
        )
        rows += [
            make_row(CellText(truncate_middle(kernel_name), full_name, depth=1), count, None, seconds)
            for kernel_name, (count, seconds, full_name) in kernels
        ]
    if other_groups := all_groups[max_rows:]:
        sums = (
            sum(getattr(group, column) for group in other_groups) for column in ('count', 'cpu_seconds', 'gpu_seconds')
        )
        rows.append(make_row(f'{len(other_groups)} more', *sums))
    return rows


# The note below the table shows for which fraction of the steps the GPU was busy. Read it first: faster kernels do not
# help while the GPU waits for the CPU to launch them.
def _busy_seconds(all_spans, start, end):
    "Return the seconds between `start` and `end` in which a GPU was busy"
    total = 0.0
    counted_until = start
    for span in sorted((span for span in all_spans if span.kind == 'gpu'), key=lambda span: span.start):
        if span.end > counted_until and span.start < end:
            total = total + min(span.end, end) - max(span.start, counted_until)
            counted_until = span.end
    return total


class Profile:
    "A report of PyTorch's profiler: a table, a picture of the last step, and the trace itself"

    def __init__(self, trace, provenance=''):  # provenance: a note that states where and when the trace was recorded
        self.data, self.provenance, self.spans = trace, provenance, parse_spans(trace)
        self.groups = group_by_operator(self.spans)
        self.has_gpu = any(span.kind == 'gpu' for span in self.spans)
        devices = {device.get('id'): device.get('name') for device in trace.get('deviceProperties', [])}
        self.device = devices.get(0) if self.has_gpu else None

    @property
    def steps(self):
        "(start, end) of each step; a step ends with the last kernel that was launched in it"
        steps = [span for span in self.spans if _is_step(span) and span.kind == 'op'] or [None]
        return [self._step_interval(span) for span in steps]

    def _step_interval(self, step):
        "Return (start, end) of the spans that a step launches; of all spans if `step` is None"
        step_spans = [span for span in self.spans if not step or step.start <= (span.call or span).start < step.end]
        return min(span.start for span in step_spans), max(span.end for span in step_spans)

    @property
    def seconds(self) -> float:
        "Seconds from the start of the first step to the end of the last one"
        return self.steps[-1][1] - self.steps[0][0]

    @property
    def busy(self) -> float:
        "Seconds of the steps in which a GPU was busy"
        return _busy_seconds(self.spans, self.steps[0][0], self.steps[-1][1])

    def table(self, max_rows=12) -> Table:  # max_rows: operators to list
        "Return a table of operators and kernels: count, self CPU time, GPU time, and percentage"
        first_title, times = (
            ('<operator, and its kernels', ['GPU', 'of GPU']) if self.has_gpu else ('<operator', ['of CPU'])
        )
        column_titles = [first_title, 'count', 'CPU', *times]
        return Table(
            column_titles,
            _rows(self.groups, self.has_gpu, max_rows, self._colors()),
            title=self._title(),
            note=self._note(),
        )

    def _colors(self):
        return colors([group.name for group in self.groups])

    def _title(self):
        num_steps = len(self.steps)
        device = self.device or ('the GPU' if self.has_gpu else 'on the CPU')
        return f"{num_steps} step{'s' * (num_steps > 1)} in {format_si(self.seconds, 's')}, {device}"

    def _note(self):
        text = 'No GPU was used.'
        if self.has_gpu:
            fraction = self.busy / self.seconds if self.seconds else 0
            reason = ': it waits for the CPU.' if fraction < 0.5 else '.'
            text = f'The GPU is busy for {Percentage(fraction)} of that time{reason}'
        return f'{text}{f" [{self.provenance}]" if self.provenance else ""}'

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
    "A link to a file, followed by a hint in parentheses"

    def __init__(self, path, hint):
        self.path = Path(path)
        self.hint = hint

    def __repr__(self):
        return f'{self.path} ({self.hint})'

    def __fspath__(self):
        return str(self.path)

    def _repr_html_(self):
        return f'<a href="{escape(str(self.path))}" download>{escape(self.path.name)}</a> ({escape(self.hint)})'


# The picture has some rows per CPU thread, with outer operators above inner ones, followed by one row per stream of
# the GPU. Arrows lead from launches to kernels if there are few of them.
def _overlaps(span, start, end):
    return span.end > start and span.start < end


def _thread_rows(all_spans, start, end, color_of_name, max_depth=3):
    "Return (rows of all CPU threads, thread -> index of its lowest row); inner operators are one row lower"
    rows = []
    lowest_row = {}

    def make_box(span):
        name = span.name.removeprefix('aten::')
        return Box(
            max(span.start, start), min(span.end, end), name, color_of_name.get(span.name, OTHER_COLOR), span.name
        )

    threads = list(dict.fromkeys(span.track for span in all_spans if span.kind == 'op'))
    for index, thread in enumerate(threads):
        ops = [
            span
            for span in all_spans
            if span.kind == 'op' and span.track == thread and not _is_step(span) and _overlaps(span, start, end)
        ]
        min_depth = min((span.depth for span in ops), default=0)
        label = 'CPU' if len(threads) == 1 else f'CPU thread {index}'
        for depth in range(max_depth):
            if boxes := [make_box(span) for span in ops if span.depth - min_depth == depth]:
                rows.append(Row('' if depth else label, boxes))
        lowest_row[thread] = len(rows) - 1
    return rows, lowest_row


def _stream_rows(gpu_spans, color_of_name):
    "Return {(GPU, stream): row} of the streams that have work"
    has_several_gpus = len({span.device for span in gpu_spans}) > 1

    def operator_name(span):
        return short_name(span.name) if span.op is None or _is_step(span.op) else span.op.name

    streams = sorted({(span.device, span.track) for span in gpu_spans})
    label_of_stream = {
        stream: f'GPU {stream[0]}, stream {stream[1]}' if has_several_gpus else f'stream {stream[1]}'
        for stream in streams
    }

    def make_box(span):
        return Box(
            span.start, span.end, short_name(span.name), color_of_name.get(operator_name(span), OTHER_COLOR), span.name
        )

    return {
        stream: Row(
            label_of_stream[stream], [make_box(span) for span in gpu_spans if (span.device, span.track) == stream]
        )
        for stream in streams
    }


def draw_step(
    profile,  # a `Profile`
    step=-1,  # index of the step
    arrows=16,  # draw arrows unless there are more launches
    width=610,
) -> Picture:
    "Draw one step of a profile as a strip"
    start, end = profile.steps[step]
    color_of_name = profile._colors()
    rows, lowest_row = _thread_rows(profile.spans, start, end, color_of_name)
    gpu_spans = [span for span in profile.spans if span.kind == 'gpu' and _overlaps(span, start, end)]
    streams = _stream_rows(gpu_spans, color_of_name)
    row_of_stream = {stream: len(rows) + i for i, stream in enumerate(streams)}
    launches = [
        (lowest_row[span.call.track], span.call.start, row_of_stream[span.device, span.track], span.start)
        for span in gpu_spans
        if span.call and span.call.track in lowest_row and span.call.start >= start
    ]
    drawn_launches = launches if len(launches) <= arrows and lowest_row else []
    panel = strip(rows + list(streams.values()), drawn_launches, width, start=start, end=end, max_label_width=110)
    caption = _caption(end - start, bool(gpu_spans), bool(drawn_launches), profile.provenance)
    return Picture(panel, caption=caption)


def _caption(seconds, on_gpu, has_arrows, provenance):
    "Return the caption of a strip, which explains its colours and arrows"
    colors_text = (
        'a kernel has the colour of the operator that launched it' if on_gpu else 'an operator is above those it calls'
    )
    arrows_text = 'arrows lead from a launch to its kernel; ' if has_arrows else ''
    provenance_text = f' [{provenance}]' if provenance else ''
    duration = format_si(seconds, 's')
    return f'One step, {duration}: {colors_text}; {arrows_text}the colours are those of the table.{provenance_text}'


Profile.timeline = draw_step


# The first call under the profiler is slow, so by default one call is a warm-up. The name of the machine is removed
# from a trace.
def _call_counts(steps, schedule):
    "Return how many calls are for (wait, warm-up, active)"
    if schedule is None:
        return 0, 1, steps
    if len(schedule) != 3 or min(schedule) < 0 or schedule[2] < 1:
        raise ValueError(
            f'schedule must be counts of calls (wait, warm-up, active) with at least one active; got {schedule}'
        )
    return tuple(schedule)


@contextlib.contextmanager
def _silence_profiler():
    "Suppress the messages of PyTorch's profiler when it starts and stops"
    os.environ.setdefault('KINETO_LOG_LEVEL', '99')
    with warnings.catch_warnings():
        for message in ('.*Profiler clears events', ".*Profiler won't be using warmup"):
            warnings.filterwarnings('ignore', message=message)
        yield


def _record_trace(fn, args, kwargs, plan, shapes):
    "Return the trace of the active calls"
    import torch
    from torch.profiler import ProfilerActivity as Activity

    has_gpu = torch.cuda.is_available()
    wait, warmup, active = plan
    with _silence_profiler(), tempfile.TemporaryDirectory() as folder:
        schedule = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1)
        activities = [Activity.CPU] + ([Activity.CUDA] if has_gpu else [])
        with torch.profiler.profile(activities=activities, schedule=schedule, record_shapes=shapes) as profiler:
            for _ in range(sum(plan)):
                fn(*args, **kwargs)
                if has_gpu:
                    torch.cuda.synchronize()
                profiler.step()
        file = Path(folder) / 'trace.json'
        profiler.export_chrome_trace(str(file))
        trace = json.loads(file.read_text(encoding='utf-8'))
    return {
        key: value
        for key, value in trace.items()
        if key not in ('host_name', 'trace_id', 'traceName', 'distributedInfo')
    }


def trim_trace(trace: dict) -> dict:
    "Return the parts of a trace that the table and the picture need, for a recording"

    def select(data, keys):
        return {key: data[key] for key in keys if key in data}

    events = [
        event for event in trace['traceEvents'] if event.get('ph') == 'X' and event.get('cat') in _KIND_OF_CATEGORY
    ]
    first_timestamp = min((event['ts'] for event in events), default=0)

    def trim_event(event):
        args = select(event.get('args', {}), ('stream', 'device', 'correlation'))
        fields = select(event, ('ph', 'cat', 'name', 'pid', 'tid', 'dur'))
        return {**fields, 'ts': round(event['ts'] - first_timestamp, 3), 'args': args}

    devices = [select(data, ('id', 'name')) for data in trace.get('deviceProperties', [])]
    return dict(deviceProperties=devices, traceEvents=[trim_event(event) for event in events])


def profile(
    fn,  # the function to profile
    *args,  # for `fn`, like `kwargs`
    steps=1,  # calls to profile, after a warm-up call
    schedule=None,  # (wait, warm-up, active) calls, instead of `steps`
    shapes=False,  # record the shapes of the operators' inputs in the trace
    record=None,  # name of a recording, which is shown without a GPU
    **kwargs,
) -> Profile:
    """Profile `fn(*args)` with PyTorch's profiler, on the CPU and, if there is one, on the GPU.

    profile(torch.nn.functional.gelu, x, steps=3)"""
    plan = _call_counts(steps, schedule)
    if record is None:
        return Profile(_record_trace(fn, args, kwargs, plan, shapes))

    def measure():
        if reason := no_gpu():
            raise Unavailable(reason)
        return Profile(_record_trace(fn, args, kwargs, plan, shapes))

    return recorded(
        record, measure, fn, list(args), kwargs, list(plan), save=lambda result: trim_trace(result.data), load=Profile
    )
