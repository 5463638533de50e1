"""`roofline`: plot the throughput of kernels and its bounds against arithmetic intensity.

A kernel with few operations per byte is memory-bound, a kernel with many is compute-bound. The roofline model
(Williams, Waterman, Patterson 2009) plots both bounds against the **arithmetic intensity**, FLOP/byte: a line through
the origin, which rises with the copy bandwidth, up to a horizontal line at the peak rate of arithmetic.
"""

from collections import namedtuple

from . import limits
from .recording import EXPECTED, Expectations
from ..support import plots
from .timing import rate_text
from ..support.tables import Table


def attainable(
    intensity,  # FLOP/byte
    copy,  # GB/s
    peak,  # TFLOP/s
) -> float:  # TFLOP/s
    """Return the roofline bound for a kernel of this intensity.

    >>> attainable(4, copy=3000, peak=50), attainable(100, copy=3000, peak=50)
    (12.0, 50)"""
    return min(peak, intensity * copy / 1000)


# The work of a kernel is its operations and bytes. A `Timing` has both. A trace of the simulator has the bytes: 32 per
# sector that the kernel requests. The simulator has no caches, so this is the traffic between the SMs and L2; DRAM
# traffic is less if blocks share data. Nsight Compute counts operations and DRAM bytes: an addition or multiplication
# is one operation, a fused multiply-add is two, and tensor cores have their own counters.
Work = namedtuple('Work', 'flops bytes seconds')  # per call; seconds is None if the kernel was not timed
_FLOPS_OF_OP = {'add': 1, 'mul': 1, 'fma': 2}


def from_trace(flops, trace) -> Work:  # flops: per call; a trace does not count them
    "Return the work of a kernel from a simulator's trace"
    sectors = trace.stats.global_load_sectors + trace.stats.global_store_sectors
    return Work(flops, 32 * sectors, None)


_EXECUTED_METRIC = 'smsp__sass_thread_inst_executed_op_{}_pred_on.sum'


def from_ncu(
    metrics,  # name -> value in base units (bytes, ns), as `ncu --print-units base` prints it
) -> Work:
    "Return the work of a kernel from Nsight Compute's metrics. Raises ValueError for missing metrics"
    tensor = sum(v for k, v in metrics.items() if k.startswith('sm__ops_path_tensor') and k.endswith('.sum'))
    scalar = sum(n * metrics.get(_EXECUTED_METRIC.format(k + op), 0) for k in 'fdh' for op, n in _FLOPS_OF_OP.items())
    read_and_written = metrics.get('dram__bytes_read.sum', 0) + metrics.get('dram__bytes_write.sum', 0)
    dram_bytes = metrics.get('dram__bytes.sum', read_and_written)
    if not dram_bytes or not any('_inst_executed_op_' in k or 'path_tensor' in k for k in metrics):
        counters = _EXECUTED_METRIC.replace('{}_pred_on.sum', '...')
        raise ValueError(f'a roofline needs dram__bytes.sum and the {counters} counters: ' + ','.join(NCU_METRICS))
    ns = metrics.get('gpu__time_duration.sum')
    return Work(tensor + scalar, dram_bytes, ns and ns * 1e-9)


# The metrics that `from_ncu` requires
NCU_METRICS = [
    'dram__bytes.sum',
    'gpu__time_duration.sum',
    *(_EXECUTED_METRIC.format(k + op) for k in 'fdh' for op in _FLOPS_OF_OP),
]


def _work(x):
    "Convert a `Timing`, Nsight Compute's metrics, or a tuple to `Work`"
    if hasattr(x, 'median'):
        return Work(x.flops, x.bytes, x.median)  # a Timing
    if isinstance(x, dict):
        return from_ncu(x)
    x = tuple(x)
    if len(x) == 2 and hasattr(x[1], 'stats'):
        return from_trace(*x)
    return Work(*x, *[None] * (3 - len(x)))


# limit: the roofline bound in TFLOP/s; fraction: tflops / limit; bound: 'memory' or 'compute', the limiter. tflops and
# fraction are None if the kernel was not timed.
Point = namedtuple('Point', 'name intensity tflops limit fraction bound')


def point(name, work, copy, peak) -> Point:
    "Return the `Point` of a kernel. Raises ValueError if its flops or bytes are unknown"
    if not work.flops or not work.bytes:
        unknown = 'flops' if not work.flops else 'bytes'
        raise ValueError(
            f'{name}: a point in the roofline needs flops and bytes, but {unknown} are unknown: pass them to bench'
        )
    intensity = work.flops / work.bytes
    limit = attainable(intensity, copy, peak)
    tflops = work.flops / work.seconds / 1e12 if work.seconds else None
    bound = 'memory' if intensity * copy / 1000 < peak else 'compute'
    return Point(name, intensity, tflops, limit, tflops and tflops / limit, bound)


class Roofline(Expectations):
    """Kernels and their measured roofline bounds (`points`): a notebook shows them as a plot; `table` also has the
    claims that `expect` adds"""

    baseline = None  # each expectation in 'x' names the kernel that it compares with

    def __init__(self, points, roof, peak, provenance=''):
        self.points = points
        self.roof = roof
        self.peak = peak
        self.provenance = provenance  # provenance of the recording that it was read from; empty: measured here

    def plain(self) -> dict:
        "Return the values as JSON data, for a recording"
        return dict(points=[list(p) for p in self.points], roof=dict(self.roof), peak=self.peak)

    @classmethod
    def load(cls, data, provenance=''):
        "Return the `Roofline` from the data of `plain`; `provenance`: that of the recording"
        roof = limits.Ceilings(data['roof'], recorded=True)
        return cls([Point(*p) for p in data['points']], roof, data['peak'], provenance)

    @property
    def data_sheet(self) -> dict:
        "`copy` in GB/s and `peak` in TFLOP/s from the GPU's data sheet; empty for an unknown GPU"
        rates = limits.data_sheet(self.roof.get('gpu'))
        return dict(copy=rates['copy'], peak=rates[self.peak]) if self.peak in rates else {}

    def fraction_of_data_sheet(self, p) -> float:  # p: a `Point`
        "Return the fraction of the roofline bound from the data sheet that a kernel reaches; None if it is unknown"
        return p.tflops / attainable(p.intensity, **self.data_sheet) if p.tflops and self.data_sheet else None

    @property
    def names(self) -> list:
        "The names of the kernels, in order"
        return [p.name for p in self.points]

    def __getitem__(self, name) -> Point:
        "Return the point of a kernel; raises KeyError for an unknown name"
        return dict(zip(self.names, self.points))[name]

    def in_unit(self, name, unit, over=None):  # None if it was not measured
        "Return the throughput: '%' of the roofline bound, '% of the data sheet', 'TFLOP/s', or 'x' over another kernel"
        p = self[name]
        if not p.tflops or unit == 'TFLOP/s':
            return p.tflops
        if unit == 'x':
            return self[over].tflops and p.tflops / self[over].tflops
        fraction = {'%': p.fraction, '% of the data sheet': self.fraction_of_data_sheet(p)}[unit]
        return fraction and 100 * fraction

    @property
    def head(self) -> list:
        "The names of the columns"
        data_sheet = ['of the data sheet'] if self.data_sheet else []
        claims = [EXPECTED.lstrip('<')] if self.expectations else []
        return ['kernel', 'FLOP/byte', 'achieved', 'roofline bound', 'of the bound', *data_sheet, 'limiter', *claims]

    def rows(self) -> list:  # of strings, with the columns of `head`
        "Return the values, one row per kernel"
        return [[*self._row(p), *([self.expectation(p.name)] if self.expectations else [])] for p in self.points]

    def _row(self, p):
        achieved = rate_text(tflops=p.tflops) or 'not timed'
        limit = rate_text(tflops=p.limit)
        fractions = [p.fraction, self.fraction_of_data_sheet(p)] if self.data_sheet else [p.fraction]
        fraction_texts = [f'{fraction:.0%}' if fraction else '' for fraction in fractions]
        return [p.name, f'{p.intensity:.3g}', achieved, limit, *fraction_texts, p.bound]

    def _table(self, **options):
        return Table([f'<{column}' for column in self.head], self.rows(), **options)

    @property
    def table(self) -> Table:
        "The values, with a row per kernel"
        return self._table(title=self.roof.provenance)

    def __repr__(self):
        return repr(self._table(note=f'ceilings: {self.roof.provenance}'))

    def plot(self, ax=None):
        "Plot the roofline and the kernels; return the axes"
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
        self._draw_bounds(ax, (low, ridge, high), copy, peak)
        title = f'{copy:,.0f} GB/s and {peak:,.4g} TFLOP/s ({self.peak}),\n{self.roof.provenance}'
        if self.data_sheet:
            sheet_ridge = self.data_sheet['peak'] * 1000 / self.data_sheet['copy']
            self._draw_bounds(ax, (low, sheet_ridge, high), **self.data_sheet, ls='--')
            title += '\ndashed: its data sheet, {copy:,.0f} GB/s and {peak:,.4g} TFLOP/s'.format(**self.data_sheet)
        for p in self.points:
            self._draw_point(ax, p)
        ax.set(xscale='log', yscale='log', xlabel='arithmetic intensity, FLOP/byte', ylabel='TFLOP/s', title=title)
        ax.margins(y=0.16)
        names = [p.name if p.tflops else f'{p.name} (not timed)' for p in self.points]
        plots.label_points(ax, [(name, p.intensity, p.tflops or p.limit) for name, p in zip(names, self.points)])
        return ax

    @staticmethod
    def _draw_bounds(ax, intensities, copy, peak, **style):
        "Draw the bandwidth bound and the compute bound"
        ax.plot(intensities, [attainable(i, copy, peak) for i in intensities], color=plots.INK, lw=1.2, **style)

    @staticmethod
    def _draw_point(ax, p):
        "Draw a kernel; a kernel that was not timed is a dash on the roofline"
        marker = dict(marker='o', ms=7) if p.tflops else dict(marker='|', ms=12)
        if p.tflops:
            ax.plot([p.intensity] * 2, [p.tflops, p.limit], color='grey', lw=0.8, ls=':')
        ax.plot(p.intensity, p.tflops or p.limit, ls='', **marker)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return plots.images_of(self.plot)


def roofline(
    kernels,  # name -> `Timing`, (flops, bytes), (flops, bytes, seconds), (flops, trace) or ncu's metrics; or `Timing`s
    peak=None,  # the ceiling for arithmetic, 'fp32', 'tf32', 'bf16', ...; None: that of the first `Timing`, else fp32
    roof=None,  # the ceilings; None: those of this machine; without a GPU, those recorded on an H100
) -> Roofline:
    """Compare kernels with the measured ceilings.

        roofline({'mine': (flops, bytes, seconds)})

    Raises ValueError for an unknown ceiling, or for a kernel whose flops or bytes are unknown."""
    kernels = kernels if isinstance(kernels, dict) else {t.name: t for t in kernels}
    peak = peak or next((t.peak for t in kernels.values() if hasattr(t, 'peak')), 'fp32')
    roof = roof or limits.ceilings()
    if peak not in roof:
        ceilings = ', '.join(k for k, v in roof.items() if isinstance(v, float) and k not in ('copy', 'read'))
        raise ValueError(f'no ceiling {peak!r} was measured; available: {ceilings}')
    points = [point(name, _work(kernel), roof['copy'], roof[peak]) for name, kernel in kernels.items()]
    return Roofline(points, roof, peak)
