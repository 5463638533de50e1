"""`roofline`: the FLOP that a kernel computes per byte of traffic, and the speed that this allows.

A kernel with few operations per byte is memory-bound, one with many is compute-bound.
The roofline (Williams, Waterman, Patterson 2009) draws both limits over the **arithmetic intensity**,
FLOP/byte: a slope, which is the copy bandwidth, up to a flat roof, which is the peak rate of arithmetic.
"""

import io
from collections import namedtuple

from . import limits
from ..support import plots
from .timing import rate_text
from ..support.tables import Table


def attainable(
    intensity,  # FLOP/byte
    copy,  # GB/s
    peak,  # TFLOP/s
) -> float:  # TFLOP/s
    "Return what the roof allows a kernel of that intensity"
    return min(peak, intensity * copy / 1000)


# The work is given as values, or counted. A `Timing` has both. The simulator's trace has the bytes: 32 per
# sector that the kernel requests. It has no caches, so that is the traffic between the SMs and the L2;
# the traffic of DRAM is less if blocks share data. Nsight Compute reports all, the DRAM
# bytes included: an addition and a multiplication count as one operation, a fused multiply-add as two, and
# the tensor cores count their own.
Work = namedtuple('Work', 'flops bytes seconds')  # of one call; seconds: None if it was not timed
_OPS = {'add': 1, 'mul': 1, 'fma': 2}


def from_trace(flops, trace) -> Work:  # flops: of a call, which a trace does not count
    "Return the work of what a simulator's trace recorded"
    s = trace.stats
    return Work(flops, 32 * (s.global_load_sectors + s.global_store_sectors), None)


_EXECUTED = 'smsp__sass_thread_inst_executed_op_{}_pred_on.sum'


def from_ncu(
    metrics,  # name -> number in base units (bytes, ns), as `ncu --print-units base` gives it
) -> Work:
    "Return the work of a kernel from Nsight Compute's metrics; raises `ValueError`, which names what is missing"
    tensor = sum(v for k, v in metrics.items() if k.startswith('sm__ops_path_tensor') and k.endswith('.sum'))
    scalar = sum(n * metrics.get(_EXECUTED.format(k + op), 0) for k in 'fdh' for op, n in _OPS.items())
    both = metrics.get('dram__bytes_read.sum', 0) + metrics.get('dram__bytes_write.sum', 0)
    moved = metrics.get('dram__bytes.sum', both)
    if not moved or not any('_inst_executed_op_' in k or 'path_tensor' in k for k in metrics):
        counters = _EXECUTED.replace('{}_pred_on.sum', '...')
        raise ValueError(f'a roofline needs dram__bytes.sum and the {counters} counters: ' + ','.join(NCU))
    ns = metrics.get('gpu__time_duration.sum')
    return Work(tensor + scalar, moved, ns and ns * 1e-9)


# What `from_ncu` asks for.
NCU = ['dram__bytes.sum', 'gpu__time_duration.sum', *(_EXECUTED.format(k + op) for k in 'fdh' for op in _OPS)]


def _work(x):
    "Return `x` as `Work`"
    if hasattr(x, 'median'):
        return Work(x.flops, x.bytes, x.median)  # a Timing
    if isinstance(x, dict):
        return from_ncu(x)
    x = tuple(x)
    if len(x) == 2 and hasattr(x[1], 'stats'):
        return from_trace(*x)
    return Work(*x, *[None] * (3 - len(x)))


# `tflops` and `share` are None if the kernel was not timed; `limit` is TFLOP/s under the roof.
Point = namedtuple('Point', 'name intensity tflops limit share bound')


def point(name, work, copy, peak) -> Point:
    "Return the position of a kernel under the roof; raises `ValueError`, which names a kernel whose work is not known"
    if not work.flops or not work.bytes:
        lacks = 'flops' if not work.flops else 'bytes'
        raise ValueError(
            f'{name}: a point in the roofline needs flops and bytes, but {lacks} are unknown: pass them to bench'
        )
    i = work.flops / work.bytes
    limit = attainable(i, copy, peak)
    reached = work.flops / work.seconds / 1e12 if work.seconds else None
    bound = 'memory' if i * copy / 1000 < peak else 'compute'
    return Point(name, i, reached, limit, reached and reached / limit, bound)


class Roofline:
    "Kernels under the measured roof: shows itself as a picture; `points` are its values"

    def __init__(self, points, roof, peak):
        self.points = points
        self.roof = roof
        self.peak = peak

    def plain(self) -> dict:
        "Return the values in a form for JSON, for a recording"
        return dict(points=[list(p) for p in self.points], roof=dict(self.roof), peak=self.peak)

    @classmethod
    def load(cls, data, mark=''):
        "What `plain` made of it, as a picture again; `mark` is for `recorded`, which gives one: the roof has its own"
        roof = limits.Ceilings(data['roof'], recorded=True)
        return cls([Point(*p) for p in data['points']], roof, data['peak'])

    @property
    def sheet(self) -> dict:
        "GB/s under `copy` and TFLOP/s under `peak` of the GPU's data sheet; empty where none is known"
        found = limits.data_sheet(self.roof.get('gpu'))
        return dict(copy=found['copy'], peak=found[self.peak]) if self.peak in found else {}

    def promised(self, p) -> float:  # p: a `Point`
        "The fraction that a kernel reached of what the data sheet allows at its intensity; None if that is not known"
        return p.tflops / attainable(p.intensity, **self.sheet) if p.tflops and self.sheet else None

    @property
    def head(self) -> list:
        "The names of the columns"
        sheet = ['of the data sheet'] if self.sheet else []
        return ['kernel', 'FLOP a byte', 'reached', 'the roof there', 'of the roof', *sheet, 'bound by']

    def rows(self) -> list:  # of texts, as `head` names them
        "Return the values, one row per kernel"
        return [self._row(p) for p in self.points]

    def _row(self, p):
        reached = rate_text(tflops=p.tflops) or 'not timed'
        limit = rate_text(tflops=p.limit)
        shares = [p.share, self.promised(p)] if self.sheet else [p.share]
        return [p.name, f'{p.intensity:.3g}', reached, limit, *(f'{s:.0%}' if s else '' for s in shares), p.bound]

    def _table(self, **more):
        return Table([f'<{h}' for h in self.head], self.rows(), **more)

    @property
    def table(self) -> str:
        "The values as a small HTML table"
        return self._table(title=self.roof.mark)._repr_html_()

    def __repr__(self):
        return repr(self._table(note=f'roof: {self.roof.mark}'))

    def plot(self, ax=None):
        "Draw the roof and the kernels; returns the axes"
        with plots.styled():
            return self._draw(ax)

    def _draw(self, ax):
        import matplotlib.pyplot as plt

        ax = ax or plt.subplots(figsize=(7, 4))[1]
        copy = self.roof['copy']
        peak = self.roof[self.peak]
        ridge = peak * 1000 / copy
        low = min([ridge / 100, *(p.intensity / 2 for p in self.points)])
        high = max([ridge * 30, *(p.intensity * 2 for p in self.points)])
        self._roof(ax, (low, ridge, high), copy, peak)
        title = f'{copy:,.0f} GB/s and {peak:,.4g} TFLOP/s ({self.peak}),\n{self.roof.mark}'
        if self.sheet:
            corner = self.sheet['peak'] * 1000 / self.sheet['copy']
            self._roof(ax, (low, corner, high), **self.sheet, ls='--')
            title += '\ndashed: its data sheet, {copy:,.0f} GB/s and {peak:,.4g} TFLOP/s'.format(**self.sheet)
        for p in self.points:
            self._mark(ax, p)
        ax.set(xscale='log', yscale='log', xlabel='arithmetic intensity, FLOP a byte', ylabel='TFLOP/s', title=title)
        ax.margins(y=0.16)
        names = [p.name if p.tflops else f'{p.name} (not timed)' for p in self.points]
        plots.name_points(ax, [(name, p.intensity, p.tflops or p.limit) for name, p in zip(names, self.points)])
        return ax

    @staticmethod
    def _roof(ax, at, copy, peak, **how):
        "A slope and a flat roof"
        ax.plot(at, [attainable(i, copy, peak) for i in at], color=plots.INK, lw=1.2, **how)

    @staticmethod
    def _mark(ax, p):
        "One kernel under the roof; a kernel without a time is a dash on the roof"
        at = (p.intensity, p.tflops or p.limit)
        how = dict(marker='o', ms=7) if p.tflops else dict(marker='|', ms=12)
        if p.tflops:
            ax.plot([p.intensity] * 2, [p.tflops, p.limit], color='grey', lw=0.8, ls=':')
        ax.plot(*at, ls='', **how)

    def _repr_png_(self):
        import matplotlib.pyplot as plt

        ax, f = self.plot(), io.BytesIO()
        ax.figure.savefig(f, format='png', bbox_inches='tight', dpi=90)
        plt.close(ax.figure)
        return f.getvalue()


def roofline(
    kernels,  # name -> `Timing`, (flops, bytes), (flops, bytes, seconds), (flops, trace) or ncu's metrics; or `Timing`s
    peak=None,  # which roof: 'fp32', 'tf32', 'bf16', ...; by default that of the first `Timing`, else fp32
    roof=None,  # the ceilings; by default this machine's, or a recorded H100's where no GPU is
) -> Roofline:
    "Kernels under the measured ceilings"
    kernels = kernels if isinstance(kernels, dict) else {t.name: t for t in kernels}
    peak = peak or next((t.peak for t in kernels.values() if hasattr(t, 'peak')), 'fp32')
    roof = roof or limits.ceilings()
    if peak not in roof:
        known = ', '.join(k for k, v in roof.items() if isinstance(v, float) and k not in ('copy', 'read'))
        raise ValueError(f'no ceiling {peak!r} was measured; the ceilings are {known}')
    return Roofline([point(k, _work(w), roof['copy'], roof[peak]) for k, w in kernels.items()], roof, peak)
