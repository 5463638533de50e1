"""Profile with Proton, Triton's profiler: scopes with the time and rates of their kernels, and timelines inside
kernels.

A scope is a named region of a program. It may also have the bytes that it must move and the operations that it must
execute, from which Proton computes rates.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from ..draw import Picture, themed
from .isolate import extract_program, pickle_arguments, search_path
from .show import format_si, short_name, truncate_middle
from .strip import Box, Row, colors, strip
from ..bench.recording import Unavailable, no_gpu, recorded
from ..support.tables import CellText, Percentage, Table


# Proton writes a tree as JSON: a frame has metrics and children; a list of GPUs follows. Kernels have times. The bytes
# and operations of a scope are those that the program passes per entry, or else the sums over its children. So values
# that are passed both for a scope and for its kernels are not counted twice. Early versions wrote `Time (ns)` and
# `Count`, later ones `time (ns)` and `count`.
_SECONDS_OF_UNIT = {'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1.0}
_METADATA_SCOPE = '__proton_launch_metadata'  # of kernels that only compute the metrics of a launch


class Node:
    "A scope or kernel: `seconds`, `count`, `flops` and `bytes`, including its `children`"

    def __init__(self, data):
        self.name = data['frame']['name']
        self.metrics = self._parse_metrics(data['metrics'])
        self.children = [child for child in map(Node, data['children']) if child.name != _METADATA_SCOPE]
        self.is_kernel = 'time' in self.metrics and not data['children']
        self.seconds = self.metrics.get('time', 0.0) + sum(child.seconds for child in self.children)
        self.count = int(self.metrics.get('count', 0)) + sum(child.count for child in self.children)
        self.flops = self._sum_metrics('flops') or sum(child.flops for child in self.children)
        self.bytes = self._sum_metrics('bytes') or sum(child.bytes for child in self.children)

    @staticmethod
    def _parse_metrics(data):
        "Return {name in lower case: value}, with times in seconds"
        metrics = {}
        for label, value in data.items():
            match = re.match(r'([\w]+)(?: \((\w+)\))?', label.lower())
            if isinstance(value, (int, float)):
                metrics[match[1]] = value * _SECONDS_OF_UNIT.get(match[2], 1)
        return metrics

    def _sum_metrics(self, name):
        "Return the sum of the metrics `name`, `name8`, `name16`, ..., one per precision"
        return sum(value for metric, value in self.metrics.items() if re.fullmatch(rf'{name}(8|16|32|64)?', metric))

    def __getitem__(self, name):
        "Return a scope or kernel inside this one, by its (short) name"
        for child in self.children:
            if name in (child.name, short_name(child.name)):
                return child
            with contextlib.suppress(KeyError):
                return child[name]
        names = ', '.join(short_name(child.name) for child in self.children) or 'nothing'
        raise KeyError(f'{self.name} has no child {name!r}; it has {names}')


class Tree:
    "A report of Proton: a tree of scopes and kernels, shown with time, percentage, and rates"

    def __init__(self, data, provenance=''):  # data: Proton's output; provenance: where and when it was recorded
        self.data, self.provenance = data, provenance
        self.root = Node(data[0])

    def __getitem__(self, name):
        return self.root[name]

    def to_json(self) -> list:
        "Return the tree as data for JSON"
        return self.data

    def table(self) -> Table:
        "Return a table with one row per scope and kernel, indented by depth"
        header = ['<scope or kernel', 'kernels', 'GPU time', 'of GPU', 'memory', 'arithmetic']
        title = f"{format_si(self.root.seconds, 's')} on the GPU"
        note = f'[{self.provenance}]' if self.provenance else ''
        return Table(header, self._rows(self.root, 0), title=title, note=note)

    def _rows(self, node, depth):
        "Return the rows of the children of a node, the longest first, each followed by the rows of its children"
        rows = []
        for child in sorted(node.children, key=lambda child: -child.seconds):
            if child.seconds or child.children:
                name = CellText(
                    truncate_middle(short_name(child.name)) if child.is_kernel else child.name, child.name, depth=depth
                )
                fraction = Percentage(child.seconds / (self.root.seconds or 1))
                rows += [
                    [name, child.count, format_si(child.seconds, 's'), fraction, *self._rates(child)],
                    *self._rows(child, depth + 1),
                ]
        return rows

    @staticmethod
    def _rates(node):
        rates = ((node.bytes, 'B/s'), (node.flops, 'FLOP/s'))
        return [format_si(amount / node.seconds, unit) if amount and node.seconds else '' for amount, unit in rates]

    def __repr__(self):
        return repr(self.table())

    def _repr_html_(self):
        return self.table()._repr_html_()


# With `triton.profiler.language`, scopes can be inside a kernel: each warp records its clock when it enters and leaves
# a scope. Proton writes one cycle as one nanosecond (a clock of 1000 MHz); this module converts back to cycles. The
# picture of a block begins at its start, because the clocks of different SMs differ.
#
# Limits: each record costs some tens of cycles, and the compiler may move instructions into or out of a scope.
_BLOCK = re.compile(r'(?P<kernel>.*) Core(?P<sm>\d+) CTA(?P<block>\d+)$')
_WARP = re.compile(r'warp (?P<warp>\d+) \(line (?P<line>\d+)\)')


class Timeline:
    "The scopes inside a kernel: a strip of the first block, and the cycles of each scope over all warps"

    def __init__(self, data, provenance=''):  # data: the Chrome trace that Proton wrote
        self.data, self.provenance, self.records = data, provenance, []
        for event in data['traceEvents']:
            block_match, warp_match = _BLOCK.match(str(event['pid'])), _WARP.match(str(event['tid']))
            if not block_match or not warp_match:
                continue
            mhz = event['args'].get('Frequency (MHz)', 1000.0)
            warp_and_line = {name: int(text) for name, text in warp_match.groupdict().items()}
            location = dict(kernel=block_match['kernel'], block=int(block_match['block']), **warp_and_line)
            self.records.append(
                dict(location, name=event['name'], start=event['ts'] * mhz, cycles=round(event['dur'] * mhz))
            )
        if not self.records:
            hint = 'put `with pl.scope("name"):` around some of its lines, where pl is triton.profiler.language'
            raise ValueError(f'the kernel recorded no scopes: {hint}')

    def to_json(self):
        "Return the records as data for JSON, in the same format as `data`"

        def trim_event(event):
            return {
                **{key: event[key] for key in ('name', 'ts', 'dur', 'pid', 'tid')},
                'args': {key: value for key, value in event['args'].items() if key.startswith('Freq')},
            }

        return dict(traceEvents=[trim_event(event) for event in self.data['traceEvents']])

    @property
    def blocks(self) -> list:  # of ints
        "The blocks that recorded scopes"
        return sorted({record['block'] for record in self.records})

    @property
    def names(self) -> list:
        "The names of the scopes, in the order of their lines"
        return list(
            dict.fromkeys(
                record['name'] for record in sorted(self.records, key=lambda record: (record['line'], record['start']))
            )
        )

    def table(self) -> Table:
        "Return a table of scopes: entries per warp, cycles per entry, and their percentage of the time of the warps"
        records_of_warp = defaultdict(list)
        for record in self.records:
            records_of_warp[record['block'], record['warp']].append(record)
        total_cycles = sum(
            max(record['start'] + record['cycles'] for record in warp_records)
            - min(record['start'] for record in warp_records)
            for warp_records in records_of_warp.values()
        )
        color_of_scope = colors(self.names)
        rows = []
        for name in self.names:
            cycles = [record['cycles'] for record in self.records if record['name'] == name]
            spread = [f'{value:,.0f}' for value in (sum(cycles) / len(cycles), min(cycles), max(cycles))]
            rows.append(
                [
                    CellText(name, color=themed(color_of_scope[name])),
                    f'{len(cycles) / len(records_of_warp):.3g}',
                    *spread,
                    Percentage(sum(cycles) / total_cycles),
                ]
            )
        title = f"{self.records[0]['kernel']}: {len(self.blocks)} blocks, {len(records_of_warp)} warps"
        header = ['<scope', 'entries per warp', 'cycles', 'min', 'max', 'of the warp']
        return Table(header, rows, title=title, note=f'[{self.provenance}]' if self.provenance else '')

    def picture(self, block=None, max_warps=8) -> Picture:  # block: by default, the first
        "Draw the warps of one block; raises `ValueError` for a block that recorded no scopes"
        block = self.blocks[0] if block is None else block
        block_records = [record for record in self.records if record['block'] == block]
        if not block_records:
            raise ValueError(f'block {block} recorded no scopes; these blocks did: {self.blocks}')
        warps = sorted({record['warp'] for record in block_records})[:max_warps]
        rows = [
            row
            for warp in warps
            for row in self._warp_rows([record for record in block_records if record['warp'] == warp], block_records)
        ]
        panel = strip(rows, title=f"{block_records[0]['kernel']}, block {block}", unit='cycles')
        recording = f' [{self.provenance}]' if self.provenance else ''
        return Picture(panel, caption=f'Clock cycles from the first mark of the block on.{recording}')

    def _warp_rows(self, records, block_records):
        "Return one row per source line with a scope; the first row has the name of the warp"
        color_of_scope = colors(self.names)
        block_start = min(record['start'] for record in block_records)

        def make_box(record):
            start = record['start'] - block_start
            return Box(start, start + record['cycles'], record['name'], color_of_scope[record['name']])

        lines = sorted({record['line'] for record in records})
        labels = [f"warp {records[0]['warp']}", *[''] * (len(lines) - 1)]
        return [
            Row(label, [make_box(record) for record in records if record['line'] == line])
            for label, line in zip(labels, lines)
        ]

    def __repr__(self):
        return repr(self.table())

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': repr(self), 'text/html': f'{self.picture().svg}{self.table()._repr_html_()}'}


# `scope` does nothing outside a session or without Triton, so it may stay in a program.
_session = None  # the profiler of the running session


def _profiler():
    "Return Triton's profiler; raises `Unavailable` if it cannot run here"
    if reason := no_gpu():
        raise Unavailable(f'{reason} for Proton to profile')
    try:
        import triton.profiler as profiler
    except ImportError as e:
        raise Unavailable(f'Triton and its profiler are not installed ({e}): pip install triton') from None
    return profiler


@contextlib.contextmanager
def scope(
    name,  # of the scope
    flops=None,  # floating-point operations per entry
    bytes=None,  # bytes of DRAM traffic per entry
    **metrics,  # other values to sum
):
    "Name a region of a program for `proton`: the body of a `with` statement"
    values = {name: value for name, value in dict(flops=flops, bytes=bytes, **metrics).items() if value is not None}
    with _session.scope(name, values) if _session else contextlib.nullcontext():
        yield


class ProfilerBusy(RuntimeError):
    "Another profiler of this process uses the GPU's tracing interface"


@contextlib.contextmanager
def _explain_busy():
    "Raise `ProfilerBusy` if another profiler traces: PyTorch's keeps the interface after its first use"
    try:
        yield
    except RuntimeError as e:
        if 'cupti' not in str(e):
            raise
        problem = (
            f"another profiler traces the GPU in this process ({e}); PyTorch's profiler continues to trace after its "
            f"first use"
        )
        hint = 'proton(fn) then runs in another process; for a session, restart the kernel'
        raise ProfilerBusy(f'{problem}. {hint}') from None


class Session:
    """`with proton() as p:` profiles the kernels that the block launches; afterwards `p.result` is the `Tree`, or the
    `Timeline` if `inside`"""

    def __init__(self, inside=False, hook=True):
        self.inside = inside
        self.hook = hook
        self.result = None

    scope = staticmethod(scope)

    def __enter__(self):
        global _session
        if _session:
            raise RuntimeError('a Proton session is running already; sessions do not nest')
        self.profiler, self.folder = _profiler(), tempfile.TemporaryDirectory()
        with _explain_busy():
            self.id = self.profiler.start(f'{self.folder.name}/profile', **self._start_options())
        _session = self.profiler
        return self

    def _start_options(self):
        "Return keyword arguments of Proton's `start`"
        if not self.inside:
            return dict(hook='triton' if self.hook else None)
        try:
            import triton.profiler.language as pl
        except ImportError:
            raise Unavailable(
                'this version of Triton cannot profile inside kernels (triton.profiler.language)'
            ) from None
        pl.enable_semantic('triton')
        return dict(data='trace', backend='instrumentation')

    def __exit__(self, error_type, error, traceback):
        global _session
        _session = None
        with self.folder, _explain_busy():
            if error is None:
                self._synchronize()
            self.profiler.finalize(self.id)
            file = next(Path(self.folder.name).glob('profile*'), None)
            text = file.read_text(encoding='utf-8') if file else ''
        if error is not None:
            return
        if not text.strip():
            raise ValueError(f"Proton recorded no kernel{' that contains scopes' if self.inside else ''}")
        self.result = (Timeline if self.inside else Tree)(json.loads(text))

    def _synchronize(self):
        import torch

        torch.cuda.synchronize()

    def __repr__(self):
        return repr(self.result) if self.result else 'a Proton session that has not ended'

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.result is None:
            return {'text/plain': repr(self)}
        if self.inside:
            return self.result._repr_mimebundle_()
        return {'text/plain': repr(self.result), 'text/html': self.result._repr_html_()}


# Only one profiler can trace a process. If PyTorch's profiler was the first one, the function runs in another process,
# as for Nsight Compute.
_PROCESS_SCRIPT = '''
import json as _j, pickle as _p
from gridstride.prof.tree import proton as _proton
with open({args!r}, 'rb') as _f: _args,_kwargs = _p.load(_f)
_fn = {name}
_result = _proton(_fn, *_args, inside={inside}, hook={hook}, **_kwargs)
with open({out!r}, 'w', encoding='utf-8') as _f: _j.dump(_result.data, _f)
'''


def _profile_in_process(fn, args, kwargs, inside, hook):
    "Run `proton` in another process, and return its result"
    with tempfile.TemporaryDirectory() as folder:
        source, name = extract_program(fn)
        files = {name: f'{folder}/{name}' for name in ('args', 'out')}
        script = Path(folder, 'profiled.py')
        Path(files['args']).write_bytes(pickle_arguments(args, kwargs))
        driver = _PROCESS_SCRIPT.format(**files, name=name, inside=inside, hook=hook)
        script.write_text(f'{source}\n{driver}', encoding='utf-8')
        env = {name: value for name, value in os.environ.items() if name != 'GRIDSTRIDE_RECORD'} | dict(
            PYTHONPATH=search_path()
        )
        result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env)
        if result.returncode:
            output = (result.stdout + result.stderr)[-1500:]
            raise RuntimeError(f'the function failed in another process; its last output:\n{output}')
        return (Timeline if inside else Tree)(json.loads(Path(files['out']).read_text(encoding='utf-8')))


def proton(
    fn=None,  # the function to profile, after a first call that compiles; None: return a session for `with`
    *args,  # for `fn`, like `kwargs`
    inside=False,  # profile the scopes inside kernels
    hook=True,  # take flops and bytes from a kernel's `launch_metadata`
    record=None,  # name of a recording, which is shown if Proton cannot run
    **kwargs,
):
    """Profile `fn(*args)` with Proton; return a `Tree` or, with `inside`, a `Timeline`. Without `fn`, return a
    `Session`.

        proton(f, x).table()

    Raises Unavailable without a GPU or Triton."""
    if fn is None:
        return Session(inside, hook)

    def measure():
        _profiler()
        if not inside:  # a kernel that records scopes is compiled separately
            fn(*args, **kwargs)
        try:
            with Session(inside, hook) as session:
                fn(*args, **kwargs)
        except ProfilerBusy:
            return _profile_in_process(fn, args, kwargs, inside, hook)
        return session.result

    if record is None:
        return measure()
    key_parts = (fn, list(args), kwargs, inside)
    return recorded(
        record, measure, *key_parts, save=lambda result: result.to_json(), load=Timeline if inside else Tree
    )
