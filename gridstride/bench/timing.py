"""`bench`: is the result right, how long does the call take, what fraction of this machine's ceilings does it reach.

And warnings about the measurement."""

import inspect
from dataclasses import dataclass, field
from functools import cached_property, partial
from textwrap import shorten

import numpy as np

from . import clocks, limits
from .stats import Stats, time_warnings, summary
from ..support.tables import Table
from ..utils import Agreement
from ..utils import check as same


# Four digits are more than any timing holds; the unit is the one that makes the number readable.
def time_text(seconds) -> str:
    """Return `seconds` in the unit that fits.

    >>> time_text(2.5e-5)
    '25 µs'"""
    for unit, size in (('s', 1), ('ms', 1e-3), ('µs', 1e-6)):
        if seconds >= size:
            return f'{seconds / size:.4g} {unit}'
    return f'{seconds / 1e-9:.4g} ns'


def rate_text(gbs=None, tflops=None) -> str:
    """Return a rate in GB/s (10^9 bytes), a rate in TFLOP/s (10^12 operations), or both.

    >>> rate_text(gbs=2000, tflops=1.5)
    '2,000 GB/s, 1.5 TFLOP/s'"""

    def number(v):
        return f'{v:,.0f}' if v >= 1000 else f'{v:.3g}'

    return ', '.join(f'{number(v)} {unit}' for v, unit in ((gbs, 'GB/s'), (tflops, 'TFLOP/s')) if v is not None)


# The speed of a wrong kernel means nothing, so the result is checked first. `check` is what it should be (then
# `utils.check` judges), a function that is given the result and raises, or a reference that is called with
# the same arguments.
#
# What a kernel forgets to write may still hold the right values, from the run before. So the memory that a
# result will be put into is filled with NaN first: the array that `out` names, or, since the allocator hands
# out again what was just freed, a block of the result's size.
def _poison(x):
    "Fill an array with NaN, or with its type's highest number"
    kind = str(x.dtype).removeprefix('torch.')
    if 'float' in kind or 'complex' in kind:
        x[...] = float('nan')
    elif 'int' in kind:
        x[...] = np.iinfo(kind).max


def _maker(x):
    "Return a function that makes an array of the type and shape of `x`, without keeping `x`"
    if not hasattr(x, 'detach'):
        return partial(np.empty, x.shape, x.dtype)
    import torch

    return partial(torch.empty, x.shape, dtype=x.dtype, device=x.device)


def _takes(f, n):
    "Return whether `f` can be called with `n` arguments; None if it is not Python and has no signature"
    try:
        inspect.signature(f).bind(*[None] * n)
    except TypeError:
        return False
    except ValueError:
        return None
    return True


def _ask(check, got, args):
    "Return what the function `check` says the result should be; None if it has judged the result itself"
    error = None
    if _takes(check, 1):
        try:
            if (said := check(got)) is None or isinstance(said, Agreement):
                return
        except AssertionError:
            raise
        except Exception as e:
            error = e  # a judge with another kind of error, or a reference that cannot work on a result
        if error and _takes(check, len(args)) is False:
            raise error
    want = check(*args)
    if error and want is None:
        raise error
    return want


def _judge(got, check, args):
    "Raise unless `got` is what `check` asks for"
    want = _ask(check, got, args) if callable(check) else check
    if want is None:
        return
    if got is None:
        raise TypeError('the function returns nothing to compare: name its output with out=')
    same(got, want)


def call_checked(fn, args, check, out=None):
    "Return the result of `fn(*args)`, after `check` has seen it"
    if check is None:
        return fn(*args)
    if out is not None:
        _poison(out)
    else:
        make = _maker(first) if clocks.is_array(first := fn(*args)) else None
        del first
        if make:
            _poison(make())  # gets, and gives back, the block that the next result most likely gets
    got = fn(*args)
    got = got if out is None else out
    _judge(got, check, args)
    return got


# Zeros and constants are easy on a GPU: multipliers draw less power on them, so the clock stays higher than
# it would, and a wrong index finds the right value.
def _constant(a):
    "Return whether an array of more than one element has the same value everywhere"
    if not (hasattr(a, 'detach') or isinstance(a, np.ndarray)) or not np.prod(a.shape) > 1:
        return False
    return bool((a == a.reshape(-1)[:1]).all())


def input_warnings(args, out=None):
    "One sentence per argument whose values are not like real data"
    flat = [(i, a.reshape(-1)[0].item()) for i, a in enumerate(args, 1) if a is not out and _constant(a)]
    why = 'constants flatter a kernel (and if it is an output, name it with out=)'
    return [f'argument {i} is {v:g} everywhere: {why}' for i, v in flat]


NAMES = {'float32': 'fp32', 'float16': 'fp16', 'bfloat16': 'bf16', 'float64': 'fp64'}
BEYOND = 1.1  # a fraction of a ceiling above this can only be a mistake in counting


@dataclass(repr=False)
class Timing:
    "Times of a function and what they mean; prints as one line, and one line per warning"

    name: str
    times: list  # seconds, in the order in which they were taken
    device: str = 'CPU'
    gpu: bool = False  # is it GPU time?
    flops: float = None  # floating-point operations of a call
    bytes: float = None  # bytes that a call must read and write
    peak: str = 'fp32'  # which ceiling `flops` is held against
    roof: dict = None  # the ceilings, as `limits.ceilings` gives them
    row: float = None  # seconds a call on the wall clock, many in a row: for short kernels
    graph: float = None  # seconds a call within a CUDA graph: likewise
    states: list = field(default_factory=list)  # of `clocks.State`: the GPU while it was timed
    more: list = field(default_factory=list)  # warnings that do not come from the times

    @cached_property
    def stats(self) -> Stats:
        "The statistics of the times, in seconds"
        return summary(self.times)

    @property
    def median(self) -> float:
        "Seconds a call"
        return self.stats.median

    @property
    def gbs(self):
        "GB/s (10^9 bytes), or None if `bytes` is not known"
        return self.bytes / self.median / 1e9 if self.bytes else None

    @property
    def tflops(self):
        "TFLOP/s (10^12 operations), or None if `flops` is not known"
        return self.flops / self.median / 1e12 if self.flops else None

    @property
    def shares(self) -> dict:  # ceiling -> share of it
        "The fraction of each measured ceiling that this reaches"
        rates = {'copy': self.gbs, self.peak: self.tflops}
        roof = self.roof or {}
        return {k: v / roof[k] for k, v in rates.items() if v and k in roof}

    @property
    def warnings(self) -> list:  # of sentences
        "Why this may not be the truth"
        beyond = [
            f'{v:.0%} of the {k} ceiling is more than there is: count flops= and bytes= again; '
            'the data may fit into the L2 cache, or TF32 be on'
            for k, v in self.shares.items()
            if v > BEYOND
        ]
        return time_warnings(self.times) + clocks.clock_warnings(self.states) + beyond + self.more

    def parts(self) -> list:
        "Return (what, text) of everything except the warnings"
        s = self.stats
        res = [('median', time_text(s.median)), ('quartiles', f'{time_text(s.q1)} to {time_text(s.q3)}')]
        if self.bytes or self.flops:
            res.append(('rate', rate_text(self.gbs, self.tflops)))
        if self.shares:
            k = max(self.shares, key=self.shares.get)  # the ceiling that is nearest is what bounds it
            how = 'recorded' if self.roof.get('recorded') else 'measured'
            res.append(('share', f'{self.shares[k]:.0%} of the {how} {k} ceiling'))
        if self.row:
            res.append(('in a row', f'{time_text(self.row)} a call'))
        if self.graph:
            res.append(('in a CUDA graph', f'{time_text(self.graph)} a call'))
        return [*res, ('runs', f"{s.n}, {self.device}{'' if self.gpu else ': no GPU time'}")]

    def line(self) -> str:
        "Everything except the warnings, in one line"
        p = dict(self.parts())
        what = ''.join(f', {p[k]}' for k in ('rate', 'share') if k in p)
        more = ''.join(f', {p[k]} {k}' for k in ('in a row', 'in a CUDA graph') if k in p)
        return f"{self.name}: {p['median']} ({p['quartiles']}){what}{more}; runs: {p['runs']}"

    def __repr__(self):
        return '\n'.join([self.line(), *(f'  in doubt: {d}' for d in self.warnings)])

    def _repr_html_(self):
        return Table((), [*self.parts(), *(('in doubt', d) for d in self.warnings)], self.name)._repr_html_()


# A kernel shorter than 50 µs is timed in two more ways: many calls in a row on the wall clock, which is what
# a loop in Python pays, and within a CUDA graph, which is what the GPU works.
SHORT, LONGER = 50e-6, 15e-6


def _time_graph(clock, fn, median):
    "Return (seconds per call in a CUDA graph or None, warnings)"
    n = int(min(1000, max(20, 5e-3 / median)))
    try:
        replay = clocks.capture(fn, n)
    except Exception as e:
        why = shorten(str(e), 100)
        return None, [f'no CUDA graph could be made of it ({why}), so its launches are not left out of any figure']
    graph = summary(clock.times(replay, 20)).median / n
    # the events around a single run take some microseconds themselves, so a graph of very short work may well be faster
    if graph >= median / 2 or median <= LONGER:
        return graph, []
    doubt = 'does it hold all of the work, or is something launched on a stream of its own?'
    return graph, [f'its CUDA graph takes less than half of the time: {doubt}']


def time_short(t, clock, fn) -> Timing:  # `t`
    "Add to the timing of a short kernel what it takes in a row and in a graph"
    if not isinstance(clock, clocks.Events) or t.median >= SHORT:
        return t
    t.row, (t.graph, more) = clocks.in_a_row(fn), _time_graph(clock, fn, t.median)
    if t.row > 20 * t.median:
        whole = f'the {time_text(t.row)} that a call takes'
        more = [f"the GPU worked {time_text(t.median)} of {whole}: most of it is the CPU's work", *more]
    t.more = t.more + more
    return t


def peak_of(arrays) -> str:
    "Return the name of the ceiling for the first floating-point array"
    kinds = [str(a.dtype).removeprefix('torch.') for a in arrays if clocks.is_array(a)]
    return next((NAMES[k] for k in kinds if k in NAMES), 'fp32')


def roof_for(clock, flops, bytes):
    "Return the ceilings, or None where they do not matter: without a GPU, or without work to hold against them"
    return limits.ceilings() if isinstance(clock, clocks.Events) and (flops or bytes) else None


def unseen_warnings(clock, checks) -> list:  # of sentences
    "Warnings about what was not checked"
    why = getattr(getattr(clock, 'sensors', None), 'why', None)
    unchecked = [] if checks else ['the result was not checked: give check=']
    late = 'the GPU came to each run before it was queued, so times may hold what the CPU takes: does it wait for it?'
    waited = [late] if getattr(clock, 'late', 0) else []
    return unchecked + waited + ([f"the GPU's clock was not noted: {why}"] if why else [])


def need_function(fn, tool, name=''):
    "Raise `TypeError` unless `fn` can be called"
    if not callable(fn):
        what = f'{tool}: {name + " is" if name else "what is to be timed is"} a {type(fn).__name__}, not a function'
        raise TypeError(f'{what}: pass f and x, or lambda: f(x), not the result of f(x)')


def bench(
    fn,  # what to time
    *args,  # its arguments: what it works on, so that their types and devices are known
    check=None,  # what it should be: an array, a function of the result that raises, or a reference that takes `args`
    out=None,  # the array that `fn` writes, if it does not return one
    flops=None,  # floating-point operations of a call
    bytes=None,  # bytes that a call must read and write
    flush=True,  # overwrite the GPU's L2 before each run? 'read': fill it by reading, and so leave it clean
    seconds=2.0,  # to measure for at most
    name=None,  # by default the function's own
    peak=None,  # the ceiling for `flops`: 'fp32', 'tf32', 'bf16', ...; None: that of the first floating-point array
    clock=None,  # what to time with, as `clocks.clock_for` gives it
    roof=None,  # the ceilings, as `limits.ceilings` gives them
) -> Timing:
    "Check `fn(*args)`, then time it until the median is steady, and say what that is worth"
    need_function(fn, 'bench')
    clock = clock or clocks.clock_for(args, flush)
    got = call_checked(fn, args, check, out)
    more = input_warnings(args, out)
    roof = roof or roof_for(clock, flops, bytes)
    peak = peak or peak_of([*args, got])
    del got

    def call():
        return fn(*args)

    times = limits.sample_times(clock, call, seconds)
    name = name or getattr(fn, '__name__', type(fn).__name__)
    states = list(clock.states)
    more = unseen_warnings(clock, check is not None) + more
    t = Timing(name, times, clock.device, clock.gpu, flops, bytes, peak, roof, states=states, more=more)
    return time_short(t, clock, call)
