"""`compare`: time several candidates for one task, interleaved in one run, with speedups over a baseline.

A difference between two measurements at different times may be due to the state of the machine: a warmer GPU, another
program. So the candidates are interleaved, one batch of each per round, and the batches of the same round are compared.
The ratio within a round hardly depends on the state of the machine. The reported speedup is the median over the rounds,
with its 95% confidence interval. With `sizes`, this is repeated per size.
"""

from itertools import count
from typing import NamedTuple

import numpy as np

from . import clocks, limits
from ..support import plots
from .recording import EXPECTED, Expectations
from .stats import is_steady, summary
from .timing import (
    Timing,
    call_checked,
    input_warnings,
    require_function,
    peak_of,
    rate_text,
    roof_for,
    time_short,
    time_text,
    warnings_about_omissions,
)
from ..support.parameter_docs import documented
from ..support.tables import Table


MIN_ROUNDS = 11  # fewer rounds give no useful confidence interval


def time_interleaved(
    clock,  # a `clocks.Clock`
    calls,  # name -> function without arguments
    seconds=2.0,  # time limit per candidate
    min_seconds=limits.MIN_SECONDS,  # minimum duration per candidate, even if all medians are steady
) -> dict:  # name -> list of rounds, each a list of seconds
    "Time functions interleaved; each round begins with a different function"
    # batches are short, so that the state of the machine does not change within a round, and there are many rounds
    batch_seconds = min(limits.BATCH_SECONDS / 5, seconds / MIN_ROUNDS)
    batch_sizes = {name: limits.warm_up(clock, function, seconds, batch_seconds) for name, function in calls.items()}
    batches = {name: [] for name in calls}
    names = list(calls)
    start = clock.now()
    for i in count():
        for name in names[i % len(names) :] + names[: i % len(names)]:
            batches[name].append(clock.times(calls[name], batch_sizes[name]))
        elapsed = clock.now() - start
        if elapsed < min(min_seconds, seconds) * len(calls):
            continue
        if elapsed >= seconds * len(calls) or (
            i + 1 >= MIN_ROUNDS and all(is_steady(sum(rounds, [])) for rounds in batches.values())
        ):
            return batches


def median_speedup(base, other) -> tuple:  # (median, low, high): above 1, `other` is faster
    "Return the speedup of the candidate `other` over `base`, from the rounds of both"
    s = summary([np.median(base_times) / np.median(times) for base_times, times in zip(base, other)])
    return s.median, s.low, s.high


_HEAD = ('<', '<median', '<in a graph', '<rate', '<share', '<speedup', EXPECTED)


class StoredTiming(NamedTuple):
    "The values of a `Timing` that a table shows, read from a recording"

    median: float
    graph: float | None
    gbs: float | None
    tflops: float | None
    fractions: dict
    device: str
    gpu: bool
    warnings: list


class Comparison(Expectations):
    "The `timings` of candidates by name, and `ratios`: by name, (median, low, high) of the speedup over the baseline"

    def __init__(self, timings, ratios, baseline, size=None, provenance=''):
        self.timings = timings
        self.ratios = ratios
        self.baseline = baseline
        self.size = size
        self.provenance = provenance  # provenance of the recording that it was read from; empty: measured here

    def plain(self) -> dict:
        "Return the values as JSON data, for a recording"
        timings = {name: {k: getattr(t, k) for k in StoredTiming._fields} for name, t in self.timings.items()}
        ratios = {name: list(r) for name, r in self.ratios.items()}
        return dict(timings=timings, ratios=ratios, baseline=self.baseline, size=self.size)

    @classmethod
    def load(cls, data, provenance=''):
        "Return the `Comparison` from the data of `plain`; `provenance`: that of the recording"
        timings = {name: StoredTiming(**t) for name, t in data['timings'].items()}
        return cls(timings, data['ratios'], data['baseline'], data['size'], provenance)

    @property
    def names(self) -> list:
        "The names of the candidates, in the order of the arguments"
        return [*self.timings]

    def speedup(self, name, over=None) -> float:
        "Return the speedup of a candidate over another, by default the baseline: above 1, `name` is faster"
        if over in (None, self.baseline):
            return self.ratios[name][0]
        return self.timings[over].median / self.timings[name].median

    def in_unit(self, name, unit, over=None):
        "Return the speedup, time, throughput or bandwidth of a candidate in this unit"
        t = self.timings[name]
        values = {'s': t.median, 'ms': 1e3 * t.median, 'µs': 1e6 * t.median, 'GB/s': t.gbs, 'TFLOP/s': t.tflops}
        return self.speedup(name, over) if unit == 'x' else values[unit]

    def _speedup_text(self, name):
        "Format the speedup of a candidate for its cell of the table"
        speedup, low, high = self.ratios[name]
        if name == self.baseline:
            return 'the baseline'
        return f"{speedup:.3g}x ({low:.3g} to {high:.3g}){'' if high < 1 or low > 1 else ', no difference shown'}"

    def rows(self) -> list:  # of strings: name, median, in a CUDA graph, rate, fraction of a ceiling, speedup, expected
        "Return the rows of the table, the fastest first"
        return [self._row(name, t) for name, t in sorted(self.timings.items(), key=lambda item: item[1].median)]

    def _row(self, name, t):
        largest_fraction = max(t.fractions.items(), key=lambda item: item[1], default=None)
        fraction = f'{largest_fraction[1]:.0%} of {largest_fraction[0]}' if largest_fraction else ''
        graph = time_text(t.graph) if t.graph else ''
        rate = rate_text(t.gbs, t.tflops)
        return name, time_text(t.median), graph, rate, fraction, self._speedup_text(name), self.expectation(name)

    def _columns(self):
        "Return (head, rows) without empty columns"
        columns = [column for column in zip(_HEAD, *self.rows()) if any(column[1:])]
        head, *rows = zip(*columns)
        return head, rows

    @property
    def warnings(self):  # (name, sentence)
        "The warnings about each candidate"
        return [(name, warning) for name, t in self.timings.items() for warning in t.warnings]

    def _title(self):
        "Return the title of the table: size, device and baseline"
        t = next(iter(self.timings.values()))
        size = '' if self.size is None else f'size {self.size}, '
        origin = self.provenance.partition(' (')[0] or t.device  # without the versions
        return f"{size}{origin}{'' if t.gpu else ': no GPU time'}; speedups over {self.baseline}"

    def __repr__(self):
        notes = [f'warning for {name}: {warning}' for name, warning in self.warnings]
        return repr(Table(*self._columns(), self._title(), '\n'.join(notes)))

    def _repr_html_(self):
        head, rows = self._columns()
        warnings = [(f'warning for {name}', warning) for name, warning in self.warnings]
        return Table(head, [*rows, *warnings], self._title())._repr_html_()


def _compare_once(fns, args, baseline, clock, check, out, flops, bytes, seconds, peak, roof, size):
    "Check and time the candidates for one set of arguments"
    result = None
    for name, function in fns.items():
        try:
            result = call_checked(function, args, check, out)
        except AssertionError as e:
            raise AssertionError(f'the result of {name} is wrong, so nothing was timed. {e}') from None
    warnings = input_warnings(args, out)
    roof = roof or roof_for(clock, flops, bytes)
    peak = peak or peak_of([*args, result])
    del result
    first_state = len(clock.states)
    calls = {name: (lambda function=function: function(*args)) for name, function in fns.items()}
    batches = time_interleaved(clock, calls, seconds)
    states = list(clock.states)[first_state:]
    warnings = warnings_about_omissions(clock, check is not None) + warnings
    timings = {
        name: Timing(
            name,
            sum(rounds, []),
            clock.device,
            clock.gpu,
            flops,
            bytes,
            peak,
            roof,
            states=states,
            other_warnings=warnings,
        )
        for name, rounds in batches.items()
    }
    for name, t in timings.items():
        time_short(t, clock, calls[name])
    ratios = {name: median_speedup(batches[baseline], rounds) for name, rounds in batches.items()}
    return Comparison(timings, ratios, baseline, size)


def _value_at_size(x, size):
    "Return `x`, or its value at this size if it is a function"
    return x(size) if callable(x) else x


@documented
def compare(
    fns,  # name -> function
    *args,  # arguments of each function; with `sizes`, one function of the size that returns them as a tuple
    baseline=None,  # name of the candidate that the others are compared with; None: the first
    sizes=None,  # compare at each of these sizes
    check=None,  # the expected result, as for `bench`
    out=None,  # the array that each function writes, if it does not return one
    flops=None,  # floating-point operations per call; with `sizes`, may be a function of the size
    bytes=None,  # bytes that a call must read and write; with `sizes`, may be a function of the size
    flush=True,  # overwrite the GPU's L2 before each run; 'read': fill it with clean lines by reading instead
    seconds=2.0,  # time limit per candidate
    peak=None,  # name of the ceiling for `flops`
    clock=None,  # a `clocks.Clock`
    roof=None,  # the ceilings
):  # a `Comparison`; with `sizes`, a `Sweep`
    """Check every candidate, then time them interleaved.

        compare({'mine': f, 'torch': g}, x, check=g)

    Raises AssertionError for a candidate with a wrong result, TypeError and ValueError for invalid arguments."""
    if not isinstance(fns, dict) or not fns:
        raise TypeError("compare: expected a dict of candidates by name: compare({'mine': f, 'torch': g}, x)")
    for name, fn in fns.items():
        require_function(fn, 'compare', name)
    baseline = baseline or next(iter(fns))
    if baseline not in fns:
        raise ValueError(f'baseline is {baseline!r}; it must be one of the candidates: {", ".join(fns)}')

    def compare_at(args, size=None):
        size_clock = clock or clocks.clock_for(args, flush)
        work = _value_at_size(flops, size), _value_at_size(bytes, size)
        return _compare_once(fns, args, baseline, size_clock, check, out, *work, seconds, peak, roof, size)

    if sizes is None:
        return compare_at(args)
    if len(args) != 1 or not callable(args[0]):
        raise TypeError(
            'with sizes=, pass one function that returns the arguments for a size: compare(fns, lambda n: '
            '(x, y), sizes=[...])'
        )
    return Sweep([compare_at(tuple(args[0](n)), n) for n in sizes])


# The speed of a kernel depends on the size. The plot shows all sizes on a logarithmic axis, the interval of each median
# as an error bar, and the ceiling as a line.
class Sweep(list):
    "The `Comparison`s of the same candidates at several sizes; a notebook shows it as a plot"

    def _series(self):
        "Return (unit, function (seconds, `Timing`) -> value, ceiling or None) of the plot"
        t = next(iter(self[0].timings.values()))
        roof = t.roof or {}
        if t.flops:
            return 'TFLOP/s', lambda s, t: t.flops / s / 1e12, roof.get(t.peak)
        if t.bytes:
            return 'GB/s', lambda s, t: t.bytes / s / 1e9, roof.get('copy')
        return 'seconds', lambda s, t: s, None

    def plot(self, ax=None):
        "Plot one line per candidate over the sizes; return the axes"
        with plots.styled():
            return self._draw(ax)

    def _draw(self, ax):
        import matplotlib.pyplot as plt

        ax = ax or plt.subplots(figsize=(7, 3.6))[1]
        unit, value, roof = self._series()
        sizes = [comparison.size for comparison in self]
        for name in self[0].timings:
            timings = [comparison.timings[name] for comparison in self]
            median, a, b = (
                np.array([value(getattr(t.stats, k), t) for t in timings]) for k in ('median', 'low', 'high')
            )
            error_bars = [median - np.minimum(a, b), np.maximum(a, b) - median]
            ax.errorbar(sizes, median, error_bars, marker='o', ms=3, capsize=2, label=name)
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

    def _repr_mimebundle_(self, include=None, exclude=None):
        return plots.images_of(self.plot)
