"""`compare`: several candidates for one job, timed interleaved in one run, with ratios to a baseline, also over sizes.

Two timings from two moments compare two moments as well: a warmer GPU, another program that runs too. So the
candidates are interleaved, one batch each, and the batches of one round are compared. The ratio of a round
does not know how warm it was; the median over the rounds is the ratio that is reported, with the interval
that contains it with 95% confidence.
"""

import io
from itertools import count

import numpy as np

from . import clocks, limits
from ..support import plots
from .stats import steady, summary
from .timing import (
    Timing,
    call_checked,
    input_warnings,
    need_function,
    peak_of,
    rate_text,
    roof_for,
    time_short,
    time_text,
    unseen_warnings,
)
from ..support.tables import Table


ROUNDS = 11  # at least: fewer give no interval worth the name


def time_interleaved(
    clock,  # what to time with
    calls,  # name -> function, called with nothing
    seconds=2.0,  # to measure for at most, per candidate
    least=limits.LEAST,  # to measure for even if all is steady, per candidate
) -> dict:  # name -> list of one list of seconds per round
    "Time functions interleaved; each round begins with the next of them"
    # short batches: a round should know one state of the machine, and there should be some rounds
    batch = min(limits.BATCH / 5, seconds / ROUNDS)
    n = {k: limits.warm_up(clock, f, seconds, batch) for k, f in calls.items()}
    res = {k: [] for k in calls}
    names = list(calls)
    start = clock.now()
    for i in count():
        for k in names[i % len(names) :] + names[: i % len(names)]:
            res[k].append(clock.times(calls[k], n[k]))
        spent = clock.now() - start
        if spent < min(least, seconds) * len(calls):
            continue
        if spent >= seconds * len(calls) or (
            i + 1 >= ROUNDS and all(steady(sum(rounds, [])) for rounds in res.values())
        ):
            return res


def ratio(base, other) -> tuple:  # (median, low, high): above 1, `other` is faster
    "Return how many times faster than `base` the candidate `other` is, from the rounds of both"
    s = summary([np.median(b) / np.median(mine) for b, mine in zip(base, other)])
    return s.median, s.low, s.high


# A machine that becomes slower all the time shows why timings are interleaved: the times drift, the ratio stays.
_HEAD = ('<', '<median', '<in a graph', '<rate', '<share', '<speed')


class Comparison:
    "Timings of one job: `timings` by name, `ratios` (how many times faster than the baseline: median, low, high)"

    def __init__(self, timings, ratios, baseline, size=None):
        self.timings = timings
        self.ratios = ratios
        self.baseline = baseline
        self.size = size

    def _versus(self, name):
        r, low, high = self.ratios[name]
        if name == self.baseline:
            return 'the baseline'
        return f"{r:.3g}x ({low:.3g} to {high:.3g}){'' if high < 1 or low > 1 else ', no difference shown'}"

    def rows(self) -> list:  # of texts: name, median, median in a CUDA graph, rate, share of a ceiling, ratio
        "Return the table, fastest first"
        return [self._row(k, t) for k, t in sorted(self.timings.items(), key=lambda item: item[1].median)]

    def _row(self, name, t):
        share = max(t.shares.items(), key=lambda item: item[1], default=None)
        part = f'{share[1]:.0%} of {share[0]}' if share else ''
        graph = time_text(t.graph) if t.graph else ''
        return name, time_text(t.median), graph, rate_text(t.gbs, t.tflops), part, self._versus(name)

    def _columns(self):
        "Return (head, rows) without the columns that are empty"
        every = [c for c in zip(_HEAD, *self.rows()) if any(c[1:])]
        head, *rows = zip(*every)
        return head, rows

    @property
    def warnings(self):  # (name, sentence)
        "The warnings about each candidate"
        return [(k, d) for k, t in self.timings.items() for d in t.warnings]

    def _where(self):
        t = next(iter(self.timings.values()))
        size = '' if self.size is None else f'size {self.size}, '
        return f"{size}{t.device}{'' if t.gpu else ': no GPU time'}; times faster than {self.baseline}"

    def __repr__(self):
        return repr(Table(*self._columns(), self._where(), '\n'.join(f'in doubt, {k}: {d}' for k, d in self.warnings)))

    def _repr_html_(self):
        head, rows = self._columns()
        more = [(f'in doubt, {k}', d) for k, d in self.warnings]
        return Table(head, [*rows, *more], self._where())._repr_html_()


def _one(fns, args, baseline, clock, check, out, flops, bytes, seconds, peak, roof, size):
    "Return the comparison for one set of arguments"
    got = None
    for k, f in fns.items():
        try:
            got = call_checked(f, args, check, out)
        except AssertionError as e:
            raise AssertionError(f'{k} is wrong, so nothing was timed. {e}') from None
    more = input_warnings(args, out)
    roof = roof or roof_for(clock, flops, bytes)
    peak = peak or peak_of([*args, got])
    del got
    noted = len(clock.states)
    calls = {k: (lambda f=f: f(*args)) for k, f in fns.items()}
    got = time_interleaved(clock, calls, seconds)
    states = list(clock.states)[noted:]
    more = unseen_warnings(clock, check is not None) + more
    timings = {
        k: Timing(k, sum(rounds, []), clock.device, clock.gpu, flops, bytes, peak, roof, states=states, more=more)
        for k, rounds in got.items()
    }
    for k, t in timings.items():
        time_short(t, clock, calls[k])
    return Comparison(timings, {k: ratio(got[baseline], rounds) for k, rounds in got.items()}, baseline, size)


def _at(x, size):
    return x(size) if callable(x) else x


def compare(
    fns,  # name -> function
    *args,  # what to call each with; with `sizes`, one function of the size that returns them as a tuple
    baseline=None,  # the name that the others are held against; by default the first
    sizes=None,  # compare at each of these
    check=None,  # what the result of each should be, as for `bench`
    out=None,  # the array that each writes, if they return none
    flops=None,  # operations of a call; with `sizes`, may be a function of the size
    bytes=None,  # bytes that a call must move, likewise
    flush=True,  # overwrite the GPU's L2 before each run? 'read': fill it by reading, and so leave it clean
    seconds=2.0,  # to measure for at most, per candidate
    peak=None,  # the ceiling for `flops`
    clock=None,  # what to time with
    roof=None,  # the ceilings
):  # a `Comparison`; with `sizes`, a `Sweep`
    "Check every candidate, then time them interleaved"
    if not isinstance(fns, dict) or not fns:
        raise TypeError("compare takes the candidates by name: compare({'mine': f, 'torch': g}, x)")
    for name, fn in fns.items():
        need_function(fn, 'compare', name)
    baseline = baseline or next(iter(fns))
    if baseline not in fns:
        raise ValueError(f'{baseline!r} is not one of the candidates: {", ".join(fns)}')

    def at(args, size=None):
        own = clock or clocks.clock_for(args, flush)
        return _one(fns, args, baseline, own, check, out, _at(flops, size), _at(bytes, size), seconds, peak, roof, size)

    if sizes is None:
        return at(args)
    if len(args) != 1 or not callable(args[0]):
        raise TypeError(
            'with sizes=, pass one function that makes the arguments for a size: compare(fns, lambda n: '
            '(x, y), sizes=[...])'
        )
    return Sweep([at(tuple(args[0](n)), n) for n in sizes])


# A kernel has no speed, only a speed at a size. The picture shows all, on an axis of doubling sizes, with the
# interval of each median as a bar and the ceiling as a line.
class Sweep(list):
    "The `Comparison`s of the same candidates at growing sizes; shows itself as a picture"

    def _series(self):
        "Return (unit, value of a `Timing`, ceiling or None): what the picture shows"
        t = next(iter(self[0].timings.values()))
        roof = t.roof or {}
        if t.flops:
            return 'TFLOP/s', lambda s, t: t.flops / s / 1e12, roof.get(t.peak)
        if t.bytes:
            return 'GB/s', lambda s, t: t.bytes / s / 1e9, roof.get('copy')
        return 'seconds', lambda s, t: s, None

    def plot(self, ax=None):
        "One line per candidate over the sizes; returns the axes"
        with plots.styled():
            return self._draw(ax)

    def _draw(self, ax):
        import matplotlib.pyplot as plt

        ax = ax or plt.subplots(figsize=(7, 3.6))[1]
        unit, value, roof = self._series()
        sizes = [c.size for c in self]
        for k in self[0].timings:
            ts = [c.timings[k] for c in self]
            mid, a, b = (
                np.array([value(getattr(t.stats, which), t) for t in ts]) for which in ('median', 'low', 'high')
            )
            bars = [mid - np.minimum(a, b), np.maximum(a, b) - mid]
            ax.errorbar(sizes, mid, bars, marker='o', ms=3, capsize=2, label=k)
        if roof:
            ax.axhline(roof, color='grey', ls='--', lw=1, label=f'ceiling, {roof:,.0f} {unit}')
        t = next(iter(self[0].timings.values()))
        ax.set(xlabel='size', ylabel=unit, title=f"{t.device}{'' if t.gpu else ': no GPU time'}")
        ax.set_xscale('log', base=2)
        if unit == 'seconds':
            ax.set_yscale('log')
        else:
            ax.set_ylim(bottom=0)
        ax.legend()
        return ax

    def __repr__(self):
        return '\n\n'.join(map(repr, self))

    def _repr_png_(self):
        import matplotlib.pyplot as plt

        ax, f = self.plot(), io.BytesIO()
        ax.figure.savefig(f, format='png', bbox_inches='tight', dpi=90)
        plt.close(ax.figure)
        return f.getvalue()
