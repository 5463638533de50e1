"""`Ladder`: rung after rung of a matrix product, checked, timed next to the library, with the counters that explain
the time."""

import re
from contextlib import contextmanager

import numpy as np

from ...bench import clocks
from ...bench.versus import compare
from .counters import count_events, longest_wait, resources
from .rung import Product, Rung
from ...support import plots
from ...prof.show import Table
from ...bench.recording import Unavailable, is_recording, key, machine, measured_in_part, read, recorded
from ...utils import backend, check


# The reference is computed in float64. How far a right result may be from it follows from how it is made: a
# sum of $k$ products $m_i n_i$ in float32, whatever its order, is off by a few $2^{-24} \sum |m_i n_i|$ at
# most for values of random sign, and rounding the result to bfloat16 adds up to $2^{-8}$ of it. One product
# too few, or one too many, is far outside that bound.
#
# How many roundings of the sum of absolute values a sum may be off by: the worst of 16 million sums of 4096 to 8192
# terms uses 3 of them.
TERMS = 16
_ROUNDING = dict(float32=2.0**-24, float16=2.0**-11, bfloat16=2.0**-8)


class Reference:
    "The product in float64, and how far from it a result may be"

    def __init__(self, m, n):
        self.shape, m, n = (m.shape[0], n.shape[1], m.shape[1]), m.double(), n.double()
        self.want = m @ n
        # Without a float32 copy the sum of absolute values would cost as much again.
        self.size = (m.abs().float() @ n.abs().float()).double()

    def bound(self, dtype):
        "Bound the error of each element: a tensor like `want`, for results of type `dtype`"
        return _ROUNDING[dtype] * self.want.abs() + TERMS * 2.0**-24 * self.size

    def error(self, got) -> float:  # 0 is perfect
        "The length of the error in units of the result's length"
        return float((got.double() - self.want).norm() / self.want.norm())

    def __call__(self, got):
        "Raise `AssertionError` that says where `got` is wrong"
        far = (got.double() - self.want).abs() > self.bound(str(got.dtype)[6:])
        if bool(far.any()) or bool(got.isnan().any()):
            check(got.double().where(far | got.isnan(), self.want), self.want)


def inputs(h, w, k, dtype='float32', device=None, seed=0):
    "Two matrices of normal random values: h x k and k x w"
    import torch

    g = torch.Generator(device or 'cpu').manual_seed(seed)
    return [
        torch.randn(s, generator=g, device=device, dtype=torch.float32).to(getattr(torch, dtype))
        for s in ((h, k), (k, w))
    ]


# Sizes are around the tile: one element, a tile, one more and one less, and a few tiles with a remainder.
# `right` tries them all, each into memory filled with NaN; on the emulator with as few multiplications as
# that takes.
def _takes(rung, shape):
    return min(shape) > 0 and getattr(rung, 'supports', lambda *_: True)(*shape)


def _wider(h, w, k):
    "The shape itself, and larger ones with rows of 16 bytes, which some kernels want"

    def up(x):
        return -(-x // 8) * 8

    return [(h, w, k), (h, up(w), up(k)), (up(h), up(w), up(k))]


def ragged_shapes(product) -> list:  # of (h, w, k)
    "Shapes around the product's tile that it supports"
    bm, bn, bk = (getattr(product, 'constants', {}).get(o, 16) for o in ('BM', 'BN', 'BK'))
    tries = [
        (1, 1, 1),
        (bm, bn, bk),
        (bm + 1, bn - 1, bk + 1),
        (bm - 1, bn + 3, 2 * bk + 3),
        (2 * bm + 7, bn + 5, 3 * bk - 1),
        (3, 2 * bn + 1, 5),
    ]
    found = dict.fromkeys(next((s for s in _wider(*o) if _takes(product, s)), None) for o in tries)
    return [s for s in found if s]


def shapes_for(rung) -> list:
    "`ragged_shapes`, as far as they are small enough for the emulator where that runs it"
    return [s for s in ragged_shapes(rung) if backend() == 'gpu' or np.prod(s) <= 2**22]


def right(
    rung,  # a `Rung`, or what else multiplies: called as `rung(m, n, out)`
    shapes=None,  # of (rows, columns, inner size); None: around its tile
) -> int:  # how many shapes were checked
    """Check a rung against float64; `AssertionError` for what is wrong. None is checked, after a line that says why, on
    a GPU that cannot run it"""
    import torch

    if isinstance(rung, Product):
        try:
            rung.need_gpu()
        except Unavailable as e:
            print(f'{e}; it is not tried here')
            return 0
    shapes = shapes_for(rung) if shapes is None else shapes
    if not shapes:
        raise ValueError(f'{rung.name}: no shape to try it with')
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


FIELDS = dict(
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
    """The measurements of one rung: `seconds`, `tflops`, `ratio` to the library (with `low` and `high`), `error`,
    `registers`, `occupancy`, `counters`"""

    def __init__(self, shape, mark='', **fields):
        self.shape, self.mark, self.fields = tuple(shape), mark, {**FIELDS, **fields}

    def __getattr__(self, o):
        if o == 'fields' or o not in self.fields:
            raise AttributeError(o)
        return self.fields[o]

    @property
    def flops(self):
        "Floating-point operations of the product"
        return 2.0 * np.prod(self.shape, dtype=float)

    @property
    def tflops(self):
        "Speed of the kernel, in TFLOP/s"
        return self.flops / self.seconds / 1e12

    @property
    def library_tflops(self):
        "Speed of the library, in TFLOP/s"
        return self.flops / self.library / 1e12

    @property
    def made_on(self) -> str:
        "The GPU that it was measured on: this one, or that of the recording, with its date"
        return self.mark.partition(' (')[0] or (machine()['gpu'] or '')

    def __repr__(self):
        mark = f' [{self.mark}]' if self.mark else ''
        return f'{self.name}: {self.tflops:.3g} TFLOP/s, {self.ratio:.0%} of the library{mark}'


@contextmanager
def exact():
    "No TF32 in torch inside the `with` block"
    import torch

    settings = torch.backends.cuda.matmul
    name, value = ('fp32_precision', 'ieee') if hasattr(settings, 'fp32_precision') else ('allow_tf32', False)
    before = getattr(settings, name)
    setattr(settings, name, value)
    try:
        yield
    finally:
        setattr(settings, name, before)


def library(m, n, out):
    "`m @ n` by torch, into `out`"
    import torch

    return torch.matmul(m, n, out=out)


class Gpu(clocks.Clock):
    """CUDA events with the L2 flushed, as `bench` has them, but without the CUDA graphs and the ceilings that `bench`
    adds: a ladder has the library for that"""

    gpu = True

    def __init__(
        self,
        events=None,  # the `clocks.Events` to time with; None: those that overwrite the L2
    ):
        events = events or clocks.Events()
        self.device, self.sensors, self.states, self.most, self.times = (
            events.device,
            events.sensors,
            events.states,
            events.most,
            events.times,
        )


def time_rung(rung, m, n, judge, seconds=0.5, baseline='torch.matmul'):
    "Times and errors of a rung and of the library, as fields of a `Step`; `AssertionError` if it is wrong"
    import torch

    h, w, k = judge.shape
    out = torch.empty(h, w, dtype=m.dtype, device=m.device)
    with exact():
        both = {baseline: lambda m, n: library(m, n, out), rung.name: lambda m, n: rung(m, n, out)}
        c = compare(
            both,
            m,
            n,
            out=out,
            check=lambda got: judge(got),
            flops=2 * h * w * k,
            seconds=seconds,
            clock=Gpu() if m.is_cuda else None,
        )
        errors = [judge.error(f(m, n, out)) for f in (rung, library)]
    mine, (ratio, low, high) = c.timings[rung.name], c.ratios[rung.name]
    mhz = [s.mhz for s in mine.states if s and s.mhz]
    return dict(
        name=rung.name,
        seconds=mine.median,
        library=c.timings[baseline].median,
        ratio=ratio,
        low=low,
        high=high,
        error=errors[0],
        library_error=errors[1],
        mhz=float(np.median(mhz)) if mhz else None,
        warnings=list(mine.warnings),
    )


# Each rung is climbed in a cell of its own, and what is shown is the ladder so far. Where there is no GPU,
# the row is the one that a GPU made of exactly that source with exactly those constants; an edited kernel has
# none, and its row reports that while the others stay.
def _name(o):
    return re.sub(r'\W+', '_', o).strip('_')


def _identity(rung):
    return (
        [rung.src, list(rung.threads), rung.shared, {k: list(map(str, v)) for k, v in rung.maps.items()}]
        if isinstance(rung, Rung)
        else rung
    )


def _dtype(rung):
    return getattr(rung, 'dtype', 'float32')


class Ladder:
    "Rungs compared with the library: a table of the speed of each, and its limiter"

    def __init__(
        self,
        *rungs,
        shape=(4096, 4096, 4096),  # h, w, k
        baseline='torch.matmul',  # what the library is called in the table
        record=None,  # NN_what: recordings of that name, one per rung, are shown where there is no GPU
        seconds=0.5,  # of timing, for a rung and for the library
        counters=True,  # ask Nsight Compute as well?
        metrics={},  # more that it shall count: {head of the column: ncu's name}
        folder='recorded',
    ):
        self.shape, self.baseline, self.record, self.seconds, self.counters, self.metrics, self.folder = (
            tuple(shape),
            baseline,
            record,
            seconds,
            counters,
            dict(metrics),
            folder,
        )
        self.steps, self._judge, self._made = [], {}, None
        for r in rungs:
            self.climb(r)

    def climb(self, rung):
        "Check and time a rung, or read what was recorded of it; the ladder itself, so that a cell shows it"

        def make():
            return Step(self.shape, **self._with_counters(rung, self._measure(rung)))

        def load(fields, mark):
            return Step(self.shape, mark, **fields)

        step = (
            recorded(
                self._record(rung), make, *self._whose(rung), save=lambda s: s.fields, load=load, folder=self.folder
            )
            if self.record
            else make()
        )
        self.steps = [s for s in self.steps if s.name != rung.name] + [step]
        return self

    def _record(self, rung):
        return f'{self.record}_{_name(rung.name)}'

    def _whose(self, rung):
        return _identity(rung), list(self.shape), _dtype(rung)

    def _with_counters(self, rung, fields):
        "The fields, with what was recorded for the counters that cannot be read here; then their warnings report that"
        if not (self.record and self.counters) or is_recording():
            return fields
        try:
            rec = read(self._record(rung), key(*self._whose(rung)), self.folder)
        except Unavailable:
            return fields
        lacks = {o: v for o, v in rec.data.get('counters', {}).items() if o not in fields.get('counters', {})}
        if not lacks:
            return fields
        measured_in_part()
        which = ', '.join(lacks) if fields.get('counters') else 'its counters'
        warnings = [*fields.get('warnings', ()), f'{which}: {rec.mark}']
        return {**fields, 'counters': {**lacks, **fields.get('counters', {})}, 'warnings': warnings}

    def _measure(self, rung):
        if backend() != 'gpu':
            raise Unavailable('A ladder is timed on an NVIDIA GPU, and none is here')
        if isinstance(rung, Rung) and (why := rung.why_not(*self.shape)):
            raise ValueError(f'{rung.name} cannot multiply {self.shape}: {why}')
        if isinstance(rung, Product):
            rung.need_gpu()
        m, n, judge = self._case(_dtype(rung))
        fields = time_rung(rung, m, n, judge, self.seconds, self.baseline)
        if isinstance(rung, Rung):
            fields.update(resources(rung), counters=self._count_events(rung))
        self._made = machine()
        return fields

    def _case(self, dtype):
        "Inputs and reference, made once for a type"
        if dtype not in self._judge:
            m, n = inputs(*self.shape, dtype, 'cuda')
            self._judge = {dtype: (m, n, Reference(m, n))}
        return self._judge[dtype]

    def _count_events(self, rung):
        if not self.counters:
            return {}
        try:
            return count_events(rung, *self.shape, self.metrics)
        except Unavailable as e:
            print(f'{rung.name}: {e}; its counters are left out')
            return {}

    def __getitem__(self, name):
        "The step of a rung, by name or number"
        if isinstance(name, int):
            return self.steps[name]
        found = [s for s in self.steps if s.name == name]
        if not found:
            raise KeyError(f"no rung {name!r} on this ladder; there are {', '.join(s.name for s in self.steps)}")
        return found[0]

    def __len__(self):
        return len(self.steps)

    def _title(self):
        h, w, k = self.shape
        return f'{h}x{k} @ {k}x{w}, compared with {self.baseline}'

    def _row(self, s, before):
        "The cells of a step; `before` is the one below it, or None"

        def number(v, form='{:.3g}'):
            return '' if v is None else form.format(v)

        c = s.counters
        counts = [
            number(c.get('sectors')),
            number(c.get('wavefronts per load')),
            number(c.get('issue'), '{:.0f}%'),
            number(c.get('tensor') or None, '{:.0f}%'),
        ]
        return [
            s.name,
            number(s.tflops),
            number(s.ratio, '{:.1%}'),
            number(before and s.ratio / before.ratio, '{:.2f}x'),
            number(s.registers, '{}') + ('*' if s.local else ''),
            number(s.occupancy, '{:.0%}'),
            *counts,
            *(number(c.get(metric)) for metric in self.metrics),
            longest_wait(c),
        ]

    def _note(self):
        warnings = [f'in doubt, {s.name}: {d}' for s in self.steps for d in s.warnings]
        local = ['* some registers are kept in local memory'] if any(s.local for s in self.steps) else []
        return '\n'.join([*warnings, *local, *(f'[{m}]' for m in dict.fromkeys(s.mark for s in self.steps if s.mark))])

    def _before(self, step, aside):
        "The step below one that is not `aside`"
        below = [s for s in self.steps[: self.steps.index(step)] if s.name not in aside]
        return below[-1] if below else None

    def table(self, aside=()) -> Table:  # names of rungs that no other was built upon
        """One row per rung, and one for the library; the one before is compared by its ratio to the library, with
        which each was timed interleaved"""
        head = [
            '<rung',
            'TFLOP/s',
            'of the library',
            'times the one before',
            'registers',
            'occupancy',
            'sectors/request',
            'wavefronts/shared load',
            'issues',
            'tensor cores',
            *self.metrics,
            '<waits most for',
        ]
        rows = [self._row(s, self._before(s, aside)) for s in self.steps]
        if rows:
            rows.append(
                [
                    self.baseline,
                    f'{np.median([s.library_tflops for s in self.steps]):.3g}',
                    '100.0%',
                    *[''] * (len(head) - 3),
                ]
            )
        keep = [i for i in range(len(head)) if i < 4 or any(r[i] for r in rows)]
        return Table(
            [head[i] for i in keep], [[r[i] for i in keep] for r in rows], title=self._title(), note=self._note()
        )

    def __repr__(self):
        return repr(self.table())

    def _repr_html_(self):
        return self.table()._repr_html_()

    def plot(self, ax=None):
        "TFLOP/s of each rung as a bar with its ratio to the library, whose own speed is a line; returns the axes"
        with plots.styled():
            return self._draw(ax)

    def _draw(self, ax):
        import matplotlib.pyplot as plt

        ax = ax or plt.subplots(figsize=(7.5, 1.3 + 0.34 * len(self.steps)))[1]
        y, speed = np.arange(len(self.steps)), [s.tflops for s in self.steps]
        ax.barh(y, speed, color=plots.COLORS[4])
        for i, s in enumerate(self.steps):
            ax.annotate(
                f'{s.tflops:.3g}, {s.ratio:.0%}',
                (s.tflops, i),
                (4, 0),
                textcoords='offset points',
                va='center',
                fontsize=plots.SMALLEST,
                bbox=dict(fc=plots.CARD, ec='none', pad=0.5),
            )
        made = ', '.join(dict.fromkeys(s.made_on for s in self.steps))
        ax.set_yticks(y, [s.name for s in self.steps])
        ax.invert_yaxis()
        ax.set(
            xlabel='TFLOP/s',
            title='\n'.join(filter(None, [self._title(), made])),
            xlim=(0, 1.25 * max([*speed, *(s.library_tflops for s in self.steps)], default=1)),
        )
        if self.steps:
            speed = np.median([s.library_tflops for s in self.steps])
            ax.axvline(speed, color=plots.INK, ls='--', lw=1, zorder=0, label=self.baseline)
            ax.legend(loc='upper center', bbox_to_anchor=(0.5, -0.45 / (ax.figure.get_figheight() - 1)))
        return ax

    def json(self) -> dict:
        "It all as JSON can hold it, with the machine"
        steps = [
            {**s.fields, 'tflops': s.tflops, 'library_tflops': s.library_tflops, **({'mark': s.mark} if s.mark else {})}
            for s in self.steps
        ]
        return dict(
            shape=list(self.shape), baseline=self.baseline, **({'made': self._made} if self._made else {}), steps=steps
        )
