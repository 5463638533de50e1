"""Test cases for the lesson's exercises. Reading this file spoils them."""

import math

from ..grading import problem
from ...utils import cdiv
from .returned import as_integer, as_number

__all__ = ['CHIPS', 'LAYERS']


CHIPS = (
    dict(gbs=1500, ns=600, sms=132, warps=64, size=4),
    dict(gbs=1500, ns=600, sms=132, warps=8, size=4),
    dict(gbs=1500, ns=600, sms=132, warps=8, size=16),
    dict(gbs=300, ns=500, sms=40, warps=32, size=4),
    dict(gbs=1000, ns=1024, sms=125, warps=16, size=4),
    dict(gbs=4000, ns=800, sms=148, warps=4, size=1),
    dict(gbs=3350, ns=700, sms=132, warps=16, size=8),
    dict(gbs=200, ns=500, sms=40, warps=64, size=4),
)


@problem(
    'latency_and_roofline.little',
    cases=[dict(chip) for chip in CHIPS],
    hints=[
        "Little's law: the bytes in flight are the bandwidth times the latency. GB/s times nanoseconds are bytes.",
        '`gbs*ns` bytes must be in flight. One load per thread is `sms*warps*32*size` bytes.',
        'Divide the first by the second, and round up: if 4.5 loads are needed, 4 are not enough.',
    ],
)
def _(fn, rng, gbs, ns, sms, warps, size):
    result = as_integer(fn(gbs, ns, sms, warps, size))
    bytes_in_flight, bytes_per_load = gbs * ns, sms * warps * 32 * size
    if result != cdiv(bytes_in_flight, bytes_per_load):
        raise AssertionError(
            f'{bytes_in_flight:,} bytes must be in flight, and one load per thread puts {bytes_per_load:,} bytes in '
            f'flight: each thread needs {bytes_in_flight / bytes_per_load:.3g} loads, rounded up to '
            f'{cdiv(bytes_in_flight, bytes_per_load)}; got {result}'
        )


LAYERS = (
    dict(k=4096, n=4096, size=2, gbs=3000, tflops=800),
    dict(k=4096, n=16384, size=2, gbs=3000, tflops=800),
    dict(k=16384, n=4096, size=1, gbs=3000, tflops=1600),
    dict(k=512, n=512, size=4, gbs=3000, tflops=52),
    dict(k=64, n=64, size=2, gbs=3000, tflops=800),
    dict(k=100, n=1, size=4, gbs=1000, tflops=10),
    dict(k=1024, n=1024, size=2, gbs=1000, tflops=256),
    dict(k=600, n=600, size=2, gbs=3350, tflops=989),
    dict(k=512, n=512, size=2, gbs=1000, tflops=256),  # approaches the ridge and never reaches it
)


def is_compute_bound(tokens, k, n, size, gbs, tflops):
    "Return whether computing the product takes at least as long as moving its operands and result"
    return 2 * tokens * k * n * gbs >= size * (tokens * k + k * n + tokens * n) * tflops * 1000


@problem(
    'latency_and_roofline.tokens',
    cases=[dict(layer) for layer in LAYERS],
    hints=[
        'FLOPs: `2*t*k*n`. Bytes: `size*(t*k + k*n + t*n)`. The ridge: `1000*tflops/gbs` FLOP/byte.',
        'More tokens mean a higher intensity, but its limit is `2*k*n/(size*(k + n))`. If that is not above the '
        'ridge, the answer is None.',
        'Compute the intensity for 1, 2, 3, ... tokens until it reaches the ridge; or solve for `t`: '
        '`t*(2*k*n - r*size*(k + n)) >= r*size*k*n`, with `r` the ridge.',
    ],
)
def _(fn, rng, k, n, size, gbs, tflops):
    ridge, max_intensity = 1000 * tflops / gbs, 2 * k * n / (size * (k + n))
    reason = (
        f'with any number of tokens the intensity stays below {max_intensity:.4g} FLOP/byte, '
        f'and the ridge point is at {ridge:.4g}'
    )
    try:
        result = fn(k, n, size, gbs, tflops)
    except ZeroDivisionError as e:
        if max_intensity != ridge:
            raise
        raise AssertionError(f'{reason}: the function must return None; it raised ZeroDivisionError') from e
    if max_intensity <= ridge:
        if result is not None:
            raise AssertionError(f'{reason}: the function must return None; got {result!r}')
        return
    result = as_integer(result)
    are_compute_bound = (
        [is_compute_bound(t, k, n, size, gbs, tflops) for t in (result - 1, result)] if result >= 1 else [False, False]
    )
    if are_compute_bound != [False, True]:
        reason = (
            'is still memory-bound'
            if not are_compute_bound[1]
            else 'is not the smallest one: one token fewer is enough'
        )
        raise AssertionError(f'the ridge point is at {ridge:.4g} FLOP/byte, and a product of {result} tokens {reason}')


H100 = dict(us=4.5, gbs=3000, tflops=800)
KERNELS = (
    dict(bytes=8192, flops=0, us=4.5, gbs=2700, tflops=50),
    dict(bytes=8 * 2**28, flops=0, us=4.5, gbs=2700, tflops=50),
    dict(bytes=302_000_000, flops=549_760_000_000, **H100),
    dict(bytes=134_000_000, flops=134_000_000, **H100),
    dict(bytes=16_000, flops=25_000, **H100),
    dict(bytes=12_000_000, flops=3_000_000_000, **H100),  # the memory time is below the latency
    dict(bytes=15_000_000, flops=3_000_000_000, **H100),  # the memory time is above the latency
    dict(bytes=3000, flops=8_000_000_000, us=2, gbs=300, tflops=10),
)


def predict_time(bytes, flops, us, gbs, tflops):
    "Return the time of a kernel in microseconds, and what limits it"
    times = {'latency': us, 'memory': bytes / gbs / 1e3, 'compute': flops / tflops / 1e6}
    return us + max(times['memory'], times['compute']), max(times, key=times.get)


@problem(
    'latency_and_roofline.predict',
    cases=[dict(kernel) for kernel in KERNELS],
    hints=[
        'The memory and the arithmetic work at the same time, so the longer of the two counts. The latency is added.',
        'One GB/s is 1000 bytes per microsecond, and one TFLOP/s is a million FLOPs per microsecond.',
        'With `memory = bytes/gbs/1e3` and `compute = flops/tflops/1e6`, the time is `us + max(memory, compute)`. '
        'The limiter is the name of the largest of `us`, `memory` and `compute`.',
    ],
)
def _(fn, rng, bytes, flops, us, gbs, tflops):
    time, limiter = predict_time(bytes, flops, us, gbs, tflops)
    result = fn(bytes, flops, us, gbs, tflops)
    if not isinstance(result, (tuple, list)) or len(result) != 2 or (actual_time := as_number(result[0])) is None:
        raise AssertionError(f'return a time in microseconds and a limiter, such as (4.9, "latency"); got {result!r}')
    parts = f'latency {us} µs, memory {bytes / gbs / 1e3:.4g} µs, compute {flops / tflops / 1e6:.4g} µs'
    if not math.isclose(actual_time, time, rel_tol=1e-6):
        message = f'{parts}: the latency plus the longer of the other two is {time:.5g} µs; got {actual_time:.5g} µs'
        raise AssertionError(message)
    if result[1] != limiter:
        raise AssertionError(f"{parts}: the limiter is '{limiter}'; got {result[1]!r}")
