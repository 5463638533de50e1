"""`Ladder`: GEMM kernels, each checked and compared with the library, with counters that explain its time."""

import re
from contextlib import contextmanager

import numpy as np

from ...bench import clocks
from ...bench.versus import compare
from .counters import count_events, main_stall_reason, resources
from .rung import GemmKernel, Rung
from ...support import plots
from ...prof.show import Table
from ...bench.keys import key
from ...bench.recording import Unavailable, is_recording, machine, mark_partly_recorded, read, recorded
from ...utils import backend, check


# The reference is computed in float64. The error bound follows from the arithmetic: for values with random signs,
# the sum of $k$ products $m_i n_i$ in float32, in any order, has an error of at most a few $2^{-24} \sum |m_i n_i|$,
# and rounding the result to bfloat16 adds up to $2^{-8}$ of it. A missing or extra product far exceeds this bound.
#
# The unit of the bound is $2^{-24} \sum |m_i n_i|$. In this unit, the largest error among 16 million sums of 4096 to
# 8192 terms was 3.
MAX_SUM_ERROR = 16
_UNIT_ROUNDOFF = dict(float32=2.0**-24, float16=2.0**-11, bfloat16=2.0**-8)


class Reference:
    "The exact product, computed in float64, and the error bound of a float32 or 16-bit result"

    def __init__(self, m, n):
        self.shape = m.shape[0], n.shape[1], m.shape[1]
        m, n = m.double(), n.double()
        self.expected = m @ n
        # in float32, because in float64 it would take as long as the product
        self.abs_sum = (m.abs().float() @ n.abs().float()).double()

    def error_bound(self, dtype):
        "Return the error bound of each element for results of this dtype, as a tensor like `expected`"
        return _UNIT_ROUNDOFF[dtype] * self.expected.abs() + MAX_SUM_ERROR * 2.0**-24 * self.abs_sum

    def relative_error(self, result) -> float:  # 0 is exact
        "Return the norm of the error, relative to the norm of the product"
        return float((result.double() - self.expected).norm() / self.expected.norm())

    def __call__(self, result):
        "Raise `AssertionError` with the first wrong elements of `result`"
        is_wrong = (result.double() - self.expected).abs() > self.error_bound(str(result.dtype).removeprefix('torch.'))
        if bool(is_wrong.any()) or bool(result.isnan().any()):
            check(result.double().where(is_wrong | result.isnan(), self.expected), self.expected)


def inputs(h, w, k, dtype='float32', device=None, seed=0):
    "Return two matrices of normally distributed random values: h x k and k x w"
    import torch

    generator = torch.Generator(device or 'cpu').manual_seed(seed)
    return [
        torch.randn(size, generator=generator, device=device, dtype=torch.float32).to(getattr(torch, dtype))
        for size in ((h, k), (k, w))
    ]


# The checked shapes: one element; a tile; a tile with one row or column more or less; several tiles with a remainder.
# Each output is filled with NaN before the launch. On the emulator only small shapes are checked.
def _supports(rung, shape):
    "Return whether a kernel, or another function, supports a shape"
    return min(shape) > 0 and getattr(rung, 'supports', lambda *_: True)(*shape)


def _padded_shapes(h, w, k):
    "Return the shape itself, and larger shapes whose rows are multiples of 16 bytes, which some kernels need"

    def round_up(size):
        return -(-size // 8) * 8

    return [(h, w, k), (h, round_up(w), round_up(k)), (round_up(h), round_up(w), round_up(k))]


def shapes_around_tile(gemm) -> list:  # of (h, w, k)
    "Return supported shapes around the tile of a GEMM"
    tile_m, tile_n, tile_k = (getattr(gemm, 'constants', {}).get(name, 16) for name in ('BM', 'BN', 'BK'))
    candidates = [
        (1, 1, 1),
        (tile_m, tile_n, tile_k),
        (tile_m + 1, tile_n - 1, tile_k + 1),
        (tile_m - 1, tile_n + 3, 2 * tile_k + 3),
        (2 * tile_m + 7, tile_n + 5, 3 * tile_k - 1),
        (3, 2 * tile_n + 1, 5),
    ]
    supported_shapes = dict.fromkeys(
        next((padded_shape for padded_shape in _padded_shapes(*shape) if _supports(gemm, padded_shape)), None)
        for shape in candidates
    )
    return [shape for shape in supported_shapes if shape]


def shapes_for(rung) -> list:
    "Return `shapes_around_tile`; on the emulator only the small ones"
    return [shape for shape in shapes_around_tile(rung) if backend() == 'gpu' or np.prod(shape) <= 2**22]


def check_matmul(
    rung,  # a `Rung`, or another function, called as `rung(m, n, out)`
    shapes=None,  # (h, w, k) of each GEMM; None: around the tile
) -> int:  # number of shapes that were checked
    """Check a rung against a float64 reference. If the GPU does not support it, print the reason and check nothing.

        check_matmul(rung)

    Raises AssertionError for a wrong result, ValueError if there is no shape to check."""
    import torch

    if isinstance(rung, GemmKernel):
        try:
            rung.require_gpu()
        except Unavailable as e:
            print(f'{e}; it was not checked')
            return 0
    shapes = shapes_for(rung) if shapes is None else shapes
    if not shapes:
        raise ValueError(f'{rung.name} supports none of the shapes to check; pass shapes=[(h, w, k)]')
    for i, (h, w, k) in enumerate(shapes):
        m, n = inputs(h, w, k, getattr(rung, 'dtype', 'float32'), 'cuda' if backend() == 'gpu' else 'cpu', i)
        out = torch.full((h, w), float('nan'), dtype=m.dtype, device=m.device)
        layout = getattr(rung, 'layout', 'nn')
        rung(m.t().contiguous() if layout[0] == 't' else m, n.t().contiguous() if layout[1] == 't' else n, out)
        try:
            Reference(m, n)(out)
        except AssertionError as e:
            raise AssertionError(f'{rung.name}, {h}x{k} @ {k}x{w}: {e}') from None
    return len(shapes)


# field of a `Step` -> its value if it was not measured
STEP_DEFAULTS = dict(
    name='',
    seconds=None,
    library=None,
    ratio=None,
    low=None,
    high=None,
    error=None,
    library_error=None,
    mhz=None,
    warnings=(),
    counters={},
    registers=None,
    local=None,
    shared=None,
    occupancy=None,
)


class Step:
    """The measurements of a kernel: the fields of `STEP_DEFAULTS`, and values derived from them. `ratio` is
    the speedup over the library, `low` and `high` are its confidence interval, `seconds` and `library` are the times
    of both"""

    def __init__(self, shape, provenance='', **fields):  # provenance: the GPU and the date of a recording
        self.shape = tuple(shape)
        self.provenance = provenance
        self.fields = {**STEP_DEFAULTS, **fields}

    def __getattr__(self, name):
        if name == 'fields' or name not in self.fields:
            raise AttributeError(name)
        return self.fields[name]

    @property
    def flops(self):
        "The number of floating-point operations of the GEMM"
        return 2.0 * np.prod(self.shape, dtype=float)

    @property
    def tflops(self):
        "The speed of the kernel, in TFLOP/s"
        return self.flops / self.seconds / 1e12

    @property
    def library_tflops(self):
        "The speed of the library, in TFLOP/s"
        return self.flops / self.library / 1e12

    @property
    def made_on(self) -> str:
        "The GPU of the measurement: this one, or that of the recording, with its date"
        return self.provenance.partition(' (')[0] or (machine()['gpu'] or '')

    def __repr__(self):
        note = f' [{self.provenance}]' if self.provenance else ''
        return f'{self.name}: {self.tflops:.3g} TFLOP/s, {self.ratio:.0%} of the library{note}'


@contextmanager
def tf32_disabled():
    "Disable TF32 in torch inside the `with` block"
    import torch

    settings = torch.backends.cuda.matmul
    name, value = ('fp32_precision', 'ieee') if hasattr(settings, 'fp32_precision') else ('allow_tf32', False)
    previous_value = getattr(settings, name)
    setattr(settings, name, value)
    try:
        yield
    finally:
        setattr(settings, name, previous_value)


def multiply_by_torch(m, n, out):
    "Compute m @ n with torch, into `out`"
    import torch

    return torch.matmul(m, n, out=out)


class GpuClock(clocks.Clock):
    """A clock that uses CUDA events and flushes the L2 cache, as `bench` does, but without CUDA graphs and ceilings,
    because a ladder compares with the library"""

    gpu = True

    def __init__(
        self,
        events=None,  # a `clocks.Events`; None: one that overwrites the L2 cache before each run
    ):
        events = events or clocks.Events()
        self.device = events.device
        self.sensors = events.sensors
        self.states = events.states
        self.max_batch = events.max_batch
        self.times = events.times


def time_rung(rung, m, n, reference, seconds=0.5, baseline='torch.matmul'):
    "Time a rung and the library; returns the fields of a `Step`, raises `AssertionError` for a wrong result"
    import torch

    h, w, k = reference.shape
    out = torch.empty(h, w, dtype=m.dtype, device=m.device)
    with tf32_disabled():
        functions = {baseline: lambda m, n: multiply_by_torch(m, n, out), rung.name: lambda m, n: rung(m, n, out)}
        comparison = compare(
            functions,
            m,
            n,
            out=out,
            check=lambda result: reference(result),
            flops=2 * h * w * k,
            seconds=seconds,
            clock=GpuClock() if m.is_cuda else None,
        )
        errors = [reference.relative_error(multiply(m, n, out)) for multiply in (rung, multiply_by_torch)]
    timing, (ratio, low, high) = comparison.timings[rung.name], comparison.ratios[rung.name]
    mhz = [state.mhz for state in timing.states if state and state.mhz]
    return dict(
        name=rung.name,
        seconds=timing.median,
        library=comparison.timings[baseline].median,
        ratio=ratio,
        low=low,
        high=high,
        error=errors[0],
        library_error=errors[1],
        mhz=float(np.median(mhz)) if mhz else None,
        warnings=list(timing.warnings),
    )


# In a lesson each rung has its own cell, which shows the ladder up to this rung. Without a GPU, the row of a rung comes
# from the recording for exactly this source and these constants. If there is none, because the kernel was edited, that
# is reported, and the other rows stay.
def _file_name(text):
    "Convert a kernel's name to a part of a file name"
    return re.sub(r'\W+', '_', text).strip('_')


def _kernel_key_parts(rung):
    "Return the parts of a recording's key that identify a kernel or another function"
    return (
        [rung.src, list(rung.threads), rung.shared, {name: list(map(str, box)) for name, box in rung.tma_boxes.items()}]
        if isinstance(rung, Rung)
        else rung
    )


def _dtype_of(rung):
    return getattr(rung, 'dtype', 'float32')


class Ladder:
    "A table of kernels, each compared with the library, with its speed and its main stall reason"

    def __init__(
        self,
        *rungs,
        shape=(4096, 4096, 4096),  # h, w, k
        baseline='torch.matmul',  # name of the library in the table
        record=None,  # CHAPTER_TOPIC: without a GPU, the recordings CHAPTER_TOPIC_RUNG are shown
        seconds=0.5,  # time limit for a rung, and for the library
        counters=True,  # also count events with Nsight Compute
        metrics={},  # additional metrics: {head of the column: name in Nsight Compute}
        folder='recorded',
    ):
        self.shape = tuple(shape)
        self.baseline = baseline
        self.record = record
        self.seconds = seconds
        self.counters = counters
        self.metrics = dict(metrics)
        self.folder = folder
        self.steps = []
        self._references = {}  # dtype -> (m, n, Reference)
        self._machine = None
        for rung in rungs:
            self.add_step(rung)

    def add_step(self, rung):
        "Check and time a rung, or read its recording; returns the ladder, so that a cell shows it"

        def measure():
            return Step(self.shape, **self._add_recorded_counters(rung, self._measure(rung)))

        def from_fields(fields, provenance):
            return Step(self.shape, provenance, **fields)

        step = (
            recorded(
                self._recording_name(rung),
                measure,
                *self._key_parts(rung),
                save=lambda step: step.fields,
                load=from_fields,
                folder=self.folder,
            )
            if self.record
            else measure()
        )
        self.steps = [old_step for old_step in self.steps if old_step.name != rung.name] + [step]
        return self

    def _recording_name(self, rung):
        return f'{self.record}_{_file_name(rung.name)}'

    def _key_parts(self, rung):
        return _kernel_key_parts(rung), list(self.shape), _dtype_of(rung)

    def _add_recorded_counters(self, rung, fields):
        "Add the recorded counters that this machine cannot read, with a warning about them"
        if not (self.record and self.counters) or is_recording():
            return fields
        try:
            recording = read(self._recording_name(rung), key(*self._key_parts(rung)), self.folder)
        except Unavailable:
            return fields
        counters = fields.get('counters', {})
        missing_counters = {
            name: value for name, value in recording.data.get('counters', {}).items() if name not in counters
        }
        if not missing_counters:
            return fields
        mark_partly_recorded()
        missing_names = ', '.join(missing_counters) if counters else 'its counters'
        warnings = [*fields.get('warnings', ()), f'{missing_names}: {recording.provenance}']
        return {**fields, 'counters': {**missing_counters, **counters}, 'warnings': warnings}

    def _measure(self, rung):
        "Check and time a kernel on this GPU, and count its events; returns the fields of a `Step`"
        if backend() != 'gpu':
            raise Unavailable('Timing a ladder needs an NVIDIA GPU, and none was found')
        if isinstance(rung, Rung) and (reason := rung.unsupported_reason(*self.shape)):
            raise ValueError(f'{rung.name} does not support h, w, k = {self.shape}: {reason}')
        if isinstance(rung, GemmKernel):
            rung.require_gpu()
        m, n, reference = self._inputs_and_reference(_dtype_of(rung))
        fields = time_rung(rung, m, n, reference, self.seconds, self.baseline)
        if isinstance(rung, Rung):
            fields.update(resources(rung), counters=self._count_events(rung))
        self._machine = machine()
        return fields

    def _inputs_and_reference(self, dtype):
        "Return m, n and their `Reference` for a dtype; cached"
        if dtype not in self._references:
            m, n = inputs(*self.shape, dtype, 'cuda')
            self._references = {dtype: (m, n, Reference(m, n))}
        return self._references[dtype]

    def _count_events(self, rung):
        "Count events with Nsight Compute; returns an empty dict, with a message, if it is unavailable"
        if not self.counters:
            return {}
        try:
            return count_events(rung, *self.shape, self.metrics)
        except Unavailable as e:
            print(f'{rung.name}: {e}; its row has no counters')
            return {}

    def __getitem__(self, name):
        "Return the `Step` of a rung, by name or index"
        if isinstance(name, int):
            return self.steps[name]
        step = next((step for step in self.steps if step.name == name), None)
        if step is None:
            names = ', '.join(step.name for step in self.steps)
            raise KeyError(f'no rung {name!r} in this ladder; available: {names}')
        return step

    def __len__(self):
        return len(self.steps)

    def _title(self):
        "Return the title of the table: the shape and the baseline"
        h, w, k = self.shape
        return f'{h}x{k} @ {k}x{w}, compared with {self.baseline}'

    def _row(self, step, previous):
        "Return the cells of a step; `previous`: the step before it, or None"

        def format_number(value, template='{:.3g}'):
            return '' if value is None else template.format(value)

        counters = step.counters
        counts = [
            format_number(counters.get('sectors')),
            format_number(counters.get('wavefronts per load')),
            format_number(counters.get('issue'), '{:.0f}%'),
            format_number(counters.get('tensor') or None, '{:.0f}%'),
        ]
        return [
            step.name,
            format_number(step.tflops),
            format_number(step.ratio, '{:.1%}'),
            format_number(previous and step.ratio / previous.ratio, '{:.2f}x'),
            format_number(step.registers, '{}') + ('*' if step.local else ''),
            format_number(step.occupancy, '{:.0%}'),
            *counts,
            *(format_number(counters.get(metric)) for metric in self.metrics),
            main_stall_reason(counters),
        ]

    def _note(self):
        "Return the lines below the table: warnings, a remark on local memory, and the machines of recordings"
        warnings = [f'warning for {step.name}: {warning}' for step in self.steps for warning in step.warnings]
        local_memory_note = ['* register spills to local memory'] if any(step.local for step in self.steps) else []
        provenances = dict.fromkeys(step.provenance for step in self.steps if step.provenance)
        return '\n'.join([*warnings, *local_memory_note, *(f'[{provenance}]' for provenance in provenances)])

    def _previous_step(self, step, side_branches):
        "Return the last step before this one that is not a side branch; None if there is none"
        earlier_steps = self.steps[: self.steps.index(step)]
        return next((earlier for earlier in reversed(earlier_steps) if earlier.name not in side_branches), None)

    def table(self, side_branches=()) -> Table:  # names of steps on which no later step is built
        """Return a table of one row per rung, and one for the library. Each rung was timed interleaved with the
        library, so the speedup over the previous rung is computed from the ratios to the library"""
        header = [
            '<rung',
            'TFLOP/s',
            'of the library',
            'over the previous',
            'registers',
            'occupancy',
            'sectors/request',
            'wavefronts/shared load',
            'issues',
            'tensor cores',
            *self.metrics,
            '<main stall reason',
        ]
        rows = [self._row(step, self._previous_step(step, side_branches)) for step in self.steps]
        if rows:
            rows.append(
                [
                    self.baseline,
                    f'{np.median([step.library_tflops for step in self.steps]):.3g}',
                    '100.0%',
                    *[''] * (len(header) - 3),
                ]
            )
        columns = [i for i in range(len(header)) if i < 4 or any(row[i] for row in rows)]  # that are not empty
        cells = [[row[i] for i in columns] for row in rows]
        return Table([header[i] for i in columns], cells, title=self._title(), note=self._note())

    def __repr__(self):
        return repr(self.table())

    def _repr_html_(self):
        return self.table()._repr_html_()

    def plot(self, ax=None):
        "Plot TFLOP/s of each rung as a bar, and the library as a line; returns the axes"
        with plots.styled():
            return self._draw(ax)

    def _draw(self, ax):
        "Draw the bars of `plot`; returns the axes"
        import matplotlib.pyplot as plt

        ax = ax or plt.subplots(figsize=(7.5, 1.3 + 0.34 * len(self.steps)))[1]
        y, speeds = np.arange(len(self.steps)), [step.tflops for step in self.steps]
        ax.barh(y, speeds, color=plots.COLORS[4])
        for i, step in enumerate(self.steps):
            ax.annotate(
                f'{step.tflops:.3g}, {step.ratio:.0%}',
                (step.tflops, i),
                (4, 0),
                textcoords='offset points',
                va='center',
                fontsize=plots.MIN_FONT_SIZE,
                bbox=dict(fc=plots.BACKGROUND, ec='none', pad=0.5),
            )
        machines = ', '.join(dict.fromkeys(step.made_on for step in self.steps))
        ax.set_yticks(y, [step.name for step in self.steps])
        ax.invert_yaxis()
        ax.set(
            xlabel='TFLOP/s',
            title='\n'.join(filter(None, [self._title(), machines])),
            xlim=(0, 1.25 * max([*speeds, *(step.library_tflops for step in self.steps)], default=1)),
        )
        if self.steps:
            library_speed = np.median([step.library_tflops for step in self.steps])
            ax.axvline(library_speed, color=plots.INK, ls='--', lw=1, zorder=0, label=self.baseline)
            ax.legend(loc='upper center', bbox_to_anchor=(0.5, -0.45 / (ax.figure.get_figheight() - 1)))
        return ax

    def json(self) -> dict:
        "Return the measurements and the machine as a dict that can be stored as JSON"
        steps = [
            {
                **step.fields,
                'tflops': step.tflops,
                'library_tflops': step.library_tflops,
                **({'provenance': step.provenance} if step.provenance else {}),
            }
            for step in self.steps
        ]
        return dict(
            shape=list(self.shape),
            baseline=self.baseline,
            **({'made': self._machine} if self._machine else {}),
            steps=steps,
        )
