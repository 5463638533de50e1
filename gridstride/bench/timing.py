"""`bench`: check the result of a call, time it, compare it with this machine's ceilings, and warn about unreliable
times."""

import inspect
from dataclasses import dataclass, field
from functools import cached_property, partial
from textwrap import shorten

import numpy as np

from . import clocks, limits
from .stats import Stats, time_warnings, summary
from ..support.parameter_docs import documented
from ..support.tables import Table
from ..utils import Agreement
from ..utils import check as check_equal


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

    def format_rate(v):
        return f'{v:,.0f}' if v >= 1000 else f'{v:.3g}'

    return ', '.join(f'{format_rate(v)} {unit}' for v, unit in ((gbs, 'GB/s'), (tflops, 'TFLOP/s')) if v is not None)


# The speed of a wrong kernel is meaningless, so the result is checked first. `check` is the expected result (compared
# by `utils.check`), a function that checks the result, or a reference function that is called with the same arguments.
#
# An element that a kernel does not write may still have the correct value from an earlier run. So the memory of the
# result is filled with NaN first: the array `out`, or else a block of the same size, which is freed, because the
# allocator returns the block that was freed last.
def _poison(x):
    "Fill an array with NaN, or with the highest integer of its type"
    dtype = str(x.dtype).removeprefix('torch.')
    if 'float' in dtype or 'complex' in dtype:
        x[...] = float('nan')
    elif 'int' in dtype:
        x[...] = np.iinfo(dtype).max


def _allocator(x):
    "Return a function that allocates an array like `x`, without a reference to `x`"
    if not hasattr(x, 'detach'):
        return partial(np.empty, x.shape, x.dtype)
    import torch

    return partial(torch.empty, x.shape, dtype=x.dtype, device=x.device)


def _accepts(fn, n):
    "Return whether `fn` can be called with `n` arguments; None if it has no signature"
    try:
        inspect.signature(fn).bind(*[None] * n)
    except TypeError:
        return False
    except ValueError:
        return None
    return True


def _call_check(check, result, args):
    "Call the function `check`; return the expected result, or None if `check` has checked the result itself"
    error = None
    if _accepts(check, 1):
        try:
            if (check_result := check(result)) is None or isinstance(check_result, Agreement):
                return
        except AssertionError:
            raise
        except Exception as e:
            error = e  # `check` raises another error, or is a reference that does not accept a result
        if error and _accepts(check, len(args)) is False:
            raise error
    expected = check(*args)
    if error and expected is None:
        raise error
    return expected


def _require_correct(result, check, args):
    "Raise AssertionError unless `result` is the one that `check` expects"
    expected = _call_check(check, result, args) if callable(check) else check
    if expected is None:
        return
    if result is None:
        raise TypeError('the function returns nothing to compare: pass its output as out=')
    check_equal(result, expected)


def call_checked(fn, args, check, out=None):
    "Call `fn(*args)`, check its result and return it"
    if check is None:
        return fn(*args)
    if out is not None:
        _poison(out)
    else:
        allocate = _allocator(first_result) if clocks.is_array(first_result := fn(*args)) else None
        del first_result
        if allocate:
            _poison(allocate())  # allocates and frees the block that the next result most likely uses
    result = fn(*args)
    result = result if out is None else out
    _require_correct(result, check, args)
    return result


# Zeros and other constants flatter a kernel: multipliers draw less power, so that the GPU's clock stays higher, and an
# access at a wrong index still reads the correct value.
def _is_constant(a):
    "Return whether an array of more than one element has the same value everywhere"
    if not (hasattr(a, 'detach') or isinstance(a, np.ndarray)) or not np.prod(a.shape) > 1:
        return False
    return bool((a == a.reshape(-1)[:1]).all())


def input_warnings(args, out=None):
    "Return a warning per argument that is constant"
    constants = [(i, a.reshape(-1)[0].item()) for i, a in enumerate(args, 1) if a is not out and _is_constant(a)]
    reason = 'with constant data a kernel may be faster (if this is an output, pass it as out=)'
    return [f'argument {i} is {v:g} everywhere: {reason}' for i, v in constants]


CEILING_OF_DTYPE = {'float32': 'fp32', 'float16': 'fp16', 'bfloat16': 'bf16', 'float64': 'fp64'}
MAX_FRACTION = 1.1  # a larger fraction of a ceiling means that flops or bytes are wrong


@dataclass(repr=False)
class Timing:
    "Times of a function, with rates and warnings; it prints as one line, and one more per warning"

    name: str
    times: list  # seconds, in the order of measurement
    device: str = 'CPU'
    gpu: bool = False  # whether the times are GPU time
    flops: float = None  # floating-point operations per call
    bytes: float = None  # bytes that a call must read and write
    peak: str = 'fp32'  # name of the ceiling for `flops`
    roof: dict = None  # the ceilings, as `limits.ceilings` returns them
    back_to_back: float = None  # for short kernels: wall-clock seconds per call, of many back-to-back calls
    graph: float = None  # for short kernels: seconds per call in a CUDA graph
    states: list = field(default_factory=list)  # of `clocks.State`: the GPU while it was timed
    other_warnings: list = field(default_factory=list)  # warnings that do not come from the times

    @cached_property
    def stats(self) -> Stats:
        "The statistics of the times, in seconds"
        return summary(self.times)

    @property
    def median(self) -> float:
        "Seconds per call"
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
    def fractions(self) -> dict:  # ceiling -> fraction of it
        "The fraction of each measured ceiling that the call reaches"
        rates = {'copy': self.gbs, self.peak: self.tflops}
        roof = self.roof or {}
        return {ceiling: rate / roof[ceiling] for ceiling, rate in rates.items() if rate and ceiling in roof}

    @property
    def warnings(self) -> list:  # of sentences
        "The reasons why the times may be wrong"
        impossible = [
            f'{v:.0%} of the {k} ceiling is impossible: recount flops= and bytes=; '
            'the data may fit into the L2 cache, or TF32 may be enabled'
            for k, v in self.fractions.items()
            if v > MAX_FRACTION
        ]
        return time_warnings(self.times) + clocks.clock_warnings(self.states) + impossible + self.other_warnings

    def parts(self) -> list:
        "Return (name, text) of each part except the warnings"
        stats = self.stats
        parts = [('median', time_text(stats.median)), ('quartiles', f'{time_text(stats.q1)} to {time_text(stats.q3)}')]
        if self.bytes or self.flops:
            parts.append(('rate', rate_text(self.gbs, self.tflops)))
        if self.fractions:
            nearest_ceiling = max(self.fractions, key=self.fractions.get)  # the nearest ceiling is the limiter
            origin = 'recorded' if self.roof.get('recorded') else 'measured'
            parts.append(('share', f'{self.fractions[nearest_ceiling]:.0%} of the {origin} {nearest_ceiling} ceiling'))
        if self.back_to_back:
            parts.append(('back to back', f'{time_text(self.back_to_back)} a call'))
        if self.graph:
            parts.append(('in a CUDA graph', f'{time_text(self.graph)} a call'))
        return [*parts, ('runs', f"{stats.n}, {self.device}{'' if self.gpu else ': no GPU time'}")]

    def line(self) -> str:
        "Return everything except the warnings, in one line"
        parts = dict(self.parts())
        rates = ''.join(f', {parts[k]}' for k in ('rate', 'share') if k in parts)
        other_times_text = ''.join(f', {parts[k]} {k}' for k in ('back to back', 'in a CUDA graph') if k in parts)
        return f"{self.name}: {parts['median']} ({parts['quartiles']}){rates}{other_times_text}; runs: {parts['runs']}"

    def __repr__(self):
        return '\n'.join([self.line(), *(f'  warning: {warning}' for warning in self.warnings)])

    def _repr_html_(self):
        rows = [*self.parts(), *(('warning', warning) for warning in self.warnings)]
        return Table((), rows, self.name)._repr_html_()


# A kernel of less than 50 µs is also timed in many back-to-back calls on the wall clock, which includes the launch
# overhead of Python, and in a CUDA graph, which has almost no launch overhead.
SHORT = 50e-6  # seconds
EVENT_OVERHEAD_MATTERS = 15e-6  # seconds; in shorter runs, the events take a large part of the time


def _time_graph(clock, fn, median):
    "Return (seconds per call in a CUDA graph or None, warnings)"
    n = int(min(1000, max(20, 5e-3 / median)))
    try:
        replay = clocks.capture(fn, n)
    except Exception as e:
        reason = shorten(str(e), 100)
        return None, [f'no CUDA graph could be captured ({reason}), so every time includes the launch overhead']
    graph = summary(clock.times(replay, 20)).median / n
    # the events around a single run take some microseconds, so a graph of very short kernels may be faster
    if graph >= median / 2 or median <= EVENT_OVERHEAD_MATTERS:
        return graph, []
    question = 'does the graph contain all the work, or is some of it launched on another stream?'
    return graph, [f'the CUDA graph takes less than half of the time: {question}']


def time_short(timing, clock, fn) -> Timing:
    "Add the times back to back and in a CUDA graph to the timing of a short kernel; return the timing"
    if not isinstance(clock, clocks.Events) or timing.median >= SHORT:
        return timing
    timing.back_to_back = clocks.back_to_back(fn)
    timing.graph, warnings = _time_graph(clock, fn, timing.median)
    if timing.back_to_back > 20 * timing.median:
        per_call = f'the {time_text(timing.back_to_back)} per call'
        overhead = f'the GPU was busy for {time_text(timing.median)} of {per_call}: the remainder is launch overhead'
        warnings = [overhead, *warnings]
    timing.other_warnings = timing.other_warnings + warnings
    return timing


def peak_of(arrays) -> str:
    "Return the name of the ceiling for the type of the first floating-point array"
    dtypes = [str(a.dtype).removeprefix('torch.') for a in arrays if clocks.is_array(a)]
    return next((CEILING_OF_DTYPE[dtype] for dtype in dtypes if dtype in CEILING_OF_DTYPE), 'fp32')


def roof_for(clock, flops, bytes):
    "Return the ceilings; None without a GPU, and if neither flops nor bytes are known"
    return limits.ceilings() if isinstance(clock, clocks.Events) and (flops or bytes) else None


def warnings_about_omissions(clock, checks) -> list:  # of sentences
    "Return warnings about missing checks and measurements"
    sensor_error = getattr(getattr(clock, 'sensors', None), 'unavailable_reason', None)
    check_warnings = [] if checks else ['the result was not checked: pass check=']
    late_message = (
        'the GPU reached each run before it was queued, so times may include CPU time: does the function synchronize?'
    )
    late_warnings = [late_message] if getattr(clock, 'num_late_batches', 0) else []
    return (
        check_warnings
        + late_warnings
        + ([f"the GPU's clock could not be read: {sensor_error}"] if sensor_error else [])
    )


def require_function(fn, caller, name=''):
    "Raise TypeError unless `fn` can be called"
    if not callable(fn):
        message = f'{caller}: expected a function, but {name or "the first argument"} is a {type(fn).__name__}'
        raise TypeError(f'{message}: pass f and x, or lambda: f(x), not the result of f(x)')


@documented
def bench(
    fn,  # the function to time
    *args,  # its arguments; their types and devices select the clock
    check=None,  # the expected result: an array, a function of the result that raises, or a reference that takes `args`
    out=None,  # the array that `fn` writes, if it does not return one
    flops=None,  # floating-point operations per call
    bytes=None,  # bytes that a call must read and write
    flush=True,  # overwrite the GPU's L2 before each run; 'read': fill it with clean lines by reading instead
    seconds=2.0,  # time limit
    name=None,  # None: the name of the function
    peak=None,  # the ceiling for `flops`: 'fp32', 'tf32', 'bf16', ...; None: that of the first floating-point array
    clock=None,  # a `clocks.Clock`; None: that of `clocks.clock_for`
    roof=None,  # the ceilings; None: those of `limits.ceilings`
) -> Timing:
    """Check `fn(*args)`, then time it until the median is steady.

        bench(f, x, check=expected, bytes=2 * x.nbytes)

    Raises AssertionError for a wrong result, TypeError if `fn` is not a function."""
    require_function(fn, 'bench')
    clock = clock or clocks.clock_for(args, flush)
    result = call_checked(fn, args, check, out)
    warnings = input_warnings(args, out)
    roof = roof or roof_for(clock, flops, bytes)
    peak = peak or peak_of([*args, result])
    del result

    def call():
        return fn(*args)

    times = limits.sample_times(clock, call, seconds)
    name = name or getattr(fn, '__name__', type(fn).__name__)
    states = list(clock.states)
    warnings = warnings_about_omissions(clock, check is not None) + warnings
    timing = Timing(
        name, times, clock.device, clock.gpu, flops, bytes, peak, roof, states=states, other_warnings=warnings
    )
    return time_short(timing, clock, call)
