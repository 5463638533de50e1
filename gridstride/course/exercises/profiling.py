"""Test cases for the lesson's exercises. Reading this file spoils them."""

from math import isclose
from numbers import Integral

from ..grading import problem
from ...utils import cdiv

__all__ = [
    'SHAPES',
    'TIMINGS',
    'SM',
    'WAVES',
    'REPORTS',
    'OTHER_EVENTS',
    'TRACES',
    'Gpu',
    'Event',
    'resident_blocks',
    'report',
    'event',
    'op',
    'gpu',
]


SHAPES = [
    dict(h=5120, k=256, w=5120, size=4, bandwidth=3.0e12, peak=51.6e12),
    dict(h=1, k=4096, w=4096, size=2, bandwidth=3.0e12, peak=780e12),
    dict(h=8192, k=8192, w=8192, size=2, bandwidth=3.0e12, peak=780e12),
    dict(h=300, k=7, w=40, size=8, bandwidth=1e9, peak=1e9),
    dict(h=64, k=8192, w=3, size=4, bandwidth=2e11, peak=1e12),
]


@problem(
    'profiling.ceiling',
    cases=SHAPES,
    hints=[
        'Three matrices, of `h*k`, `k*w` and `h*w` elements, are each moved once. And each of the `h*w` results '
        'takes `k` multiplications and `k` additions.',
        'Two times in seconds: `size*(h*k + k*w + h*w)/bandwidth` and `2*h*k*w/peak`. '
        'Neither can be avoided, and the two overlap.',
        "The larger of the two is the answer, times 1000 for milliseconds; "
        "'memory' if it is the first, else 'arithmetic'.",
    ],
)
def _(fn, rng, h, k, w, size, bandwidth, peak):
    move, compute = size * (h * k + k * w + h * w) / bandwidth, 2 * h * k * w / peak
    result = fn(h, k, w, size, bandwidth, peak)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise AssertionError(f'return two values, the milliseconds and a string; got {result!r}')
    expected = 1e3 * max(move, compute), 'memory' if move > compute else 'arithmetic'
    if result[1] != expected[1]:
        raise AssertionError(
            f'moving the data takes {1e3 * move:.4g} ms and computing {1e3 * compute:.4g}, '
            f'so the limiter is {expected[1]}, not {result[1]!r}'
        )
    if not isclose(result[0], expected[0], rel_tol=1e-6):
        raise AssertionError(
            f'got {result[0]:.6g} ms, but the kernel takes at least {expected[0]:.6g} ms: moving takes '
            f'{1e3 * move:.4g} ms, computing {1e3 * compute:.4g}, and the two overlap'
        )


# The judge's GPU is a model with two clocks, the CPU's and the GPU's, so no real time passes. A launch appends a job to
# the queue.
class Gpu:
    "A model of a GPU: `ms(i, warm)` is the time of run `i` of the kernel; all times in milliseconds"

    def __init__(self, ms, launch_overhead=0.004):
        self.ms, self.launch_overhead = ms, launch_overhead
        self.cpu_time = 0.0  # the time on the CPU
        self.busy_until = 0.0  # when the GPU has finished all jobs
        self.num_runs, self.is_warm, self.num_flushes = 0, False, 0
        self.has_timed_flush, self.num_timed = False, 0

    def queue(self, ms):
        "Queue a job of `ms` after all others; return the time of its end"
        self.cpu_time += self.launch_overhead
        self.busy_until = max(self.busy_until, self.cpu_time) + ms
        return self.busy_until

    def kernel(self):
        "Launch the kernel; `AssertionError` after 5000 runs"
        if self.num_runs >= 5000:
            raise AssertionError('the kernel ran 5000 times: time 20 to 100 runs')
        self.queue(self.ms(self.num_runs, self.is_warm))
        self.num_runs, self.is_warm = self.num_runs + 1, True

    def flush(self):
        "Overwrite the L2 cache"
        self.queue(0.09)
        self.is_warm, self.num_flushes = False, self.num_flushes + 1

    def synchronize(self):
        "Wait on the CPU until the GPU has finished all queued work"
        self.cpu_time = max(self.cpu_time, self.busy_until)

    def Event(self):
        "Make an event that is not recorded yet"
        return Event(self)


class Event:
    "An event: a position in the queue of a `Gpu`, and its time"

    def __init__(self, gpu):
        self.gpu, self.time = gpu, None

    def record(self):
        "Record the event after all queued work"
        self.time = self.gpu.queue(0.0)
        self.num_flushes = self.gpu.num_flushes

    def elapsed_time(self, end):
        "Return the milliseconds from this event to the event `end`"
        for e, name in ((self, 'first'), (end, 'second')):
            if e.time is None:
                raise RuntimeError(f'the {name} event was never recorded')
            if e.time > self.gpu.cpu_time:
                raise RuntimeError(f'the GPU has not reached the {name} event yet: synchronize first')
        self.gpu.has_timed_flush |= end.num_flushes > self.num_flushes
        self.gpu.num_timed += 1
        return end.time - self.time


# The first runs are slow, some runs are disturbed, and some are fast because of a higher clock; all are fast if the
# data is in the L2 cache.
def _run_ms(cold, warm, first, i, is_warm):
    "Return the milliseconds of run `i`"
    t = warm if is_warm else cold
    return (
        t + (first[i] if i < len(first) else 0) + (4 * cold + 1 if i % 7 == 3 else 0) - (0.2 * t if i % 5 == 4 else 0)
    )


TIMINGS = [
    dict(cold=2.0, warm=2.0, first=[]),
    dict(cold=2.0, warm=0.8, first=[]),
    dict(cold=2.0, warm=2.0, first=[40.0, 9.0, 3.0]),
    dict(cold=0.02, warm=0.02, first=[5.0]),
    dict(cold=0.05, warm=0.01, first=[300.0, 20.0, 0.5]),
]


@problem(
    'profiling.fair',
    cases=TIMINGS,
    hints=[
        'Four parts: some warm-up runs that do not count; then, many times, `flush`, an event, the kernel, an '
        'event; one `synchronize`; the median of the differences.',
        'Make the events before you record them, and keep all pairs in a list: '
        '`pairs = [(gpu.Event(), gpu.Event()) for _ in range(50)]`. Read the times after `gpu.synchronize()`.',
        'Three runs to warm up, at least. In the loop: `gpu.flush(); start.record(); kernel(); end.record()`. '
        'The flush also keeps the GPU busy while the CPU queues the rest, '
        'so that there is no gap between event and kernel. At the end `sorted(...)[25]`.',
    ],
)
def _(fn, rng, cold, warm, first):
    gpu = Gpu(lambda i, w: _run_ms(cold, warm, first, i, w))
    result = fn(gpu, gpu.kernel)
    if not isinstance(result, (int, float)):
        raise AssertionError(f'return the milliseconds as a float; got {result!r}')
    if isclose(result, cold, rel_tol=0.02):
        return _check_run_count(gpu)
    raise AssertionError(
        f'got {result:.4g} ms, but an undisturbed run with a cold L2 cache takes {cold:g} ms'
        + _likely_mistake(result, gpu, cold, warm, first)
    )


def _check_run_count(gpu):
    if gpu.num_timed < 20:
        problem = f'only {gpu.num_timed} runs were timed'
        raise AssertionError(f'{problem}, so the result is right only by chance: time at least 20 runs')


def _likely_mistake(result, gpu, cold, warm, first):
    "Return the most likely mistake, as the end of a sentence"
    if not gpu.num_runs:
        return '. The kernel never ran'
    if gpu.cpu_time < gpu.busy_until:
        return '. Nothing waits for the GPU: synchronize before you read the times'
    if gpu.has_timed_flush:
        return '. A flush is between the two events, so it is timed with the kernel: flush before the first event'
    if warm < cold and isclose(result, warm, rel_tol=0.1):
        return f': {warm:g} is the time with the data in the L2 cache: flush before each run'
    if first and result > 1.5 * cold:
        return '. The first runs are slow, and so are disturbed ones: warm up, and take the median'
    if result > 1.1 * cold:
        return (
            '. Some runs are disturbed, which changes a mean: take the median. And an empty queue leaves a gap '
            'between an event and the kernel: flush before the first event'
        )
    if result < 0.5 * warm:
        return (
            '. No run is that fast: this GPU is simulated, so take the times from its events, not from a '
            'Python clock, and leave them in milliseconds'
        )
    return '. A few runs are faster than the others by chance: take the median, not the minimum'


SM = dict(threads=2048, blocks=32, registers=65536, shared=228 * 1024)  # what an SM of an H100 has for its blocks


def resident_blocks(threads, registers, shared):
    "Return how many blocks are resident on an SM; CUDA reserves 1 KB of shared memory per block"
    return min(
        SM['threads'] // threads,
        SM['blocks'],
        SM['registers'] // (registers * threads),
        SM['shared'] // (shared + 1024),
    )


WAVES = [
    dict(n=n, threads=t, registers=r, shared=s, sms=sms)
    for n, t, r, s, sms in (
        (10**8, 256, 32, 0, 132),
        (300_000, 1024, 32, 0, 132),
        (10**7, 128, 64, 0, 132),
        (10**6, 256, 32, 38 * 1024, 132),
        (10**6, 256, 32, 37 * 1024, 132),
        (10**7, 32, 16, 0, 132),
        (5000, 256, 32, 0, 132),
        (10**7, 64, 16, 0, 108),
        (135_168 * 2, 512, 64, 0, 132),
        (4_000_000, 256, 128, 100 * 1024, 114),
    )
]


@problem(
    'profiling.waves',
    cases=WAVES,
    hints=[
        'How many blocks does one SM hold? The smallest of four limits: by threads, by blocks, by registers, by '
        'shared memory (plus 1024 bytes per block).',
        'A wave is this number, times the number of SMs. One block per `threads` elements would be `cdiv(n,threads)` '
        'blocks; blocks beyond that have no work.',
        'Return the largest multiple of a wave that is at most `cdiv(n,threads)`; if even one wave is more, return '
        '`cdiv(n,threads)` itself.',
    ],
)
def _(fn, rng, n, threads, registers, shared, sms):
    result = fn(n, threads, registers, shared, sms)
    blocks_per_sm = resident_blocks(threads, registers, shared)
    useful_blocks = cdiv(n, threads)
    wave = blocks_per_sm * sms
    if not isinstance(result, Integral) or isinstance(result, bool):
        raise AssertionError(f'return the number of blocks as an int; got {result!r}')
    if result < 1:
        raise AssertionError(
            f'{result} blocks cannot do the work: there is work for {useful_blocks}, and a whole wave is {wave}'
        )
    if result > useful_blocks:
        raise AssertionError(
            f'{result} blocks of {threads} threads for {n} elements: {result - useful_blocks} of them have no work'
        )
    if useful_blocks < wave and result < useful_blocks:
        raise AssertionError(
            f'{result} blocks, but the GPU holds {wave} at a time and there is work for {useful_blocks}'
        )
    if useful_blocks >= wave and result % wave:
        raise AssertionError(
            f'an SM holds {blocks_per_sm} blocks, so a wave is {wave}; {result} blocks are {result // wave} full waves '
            f'and one of {result % wave}'
        )
    if useful_blocks >= wave and result + wave <= useful_blocks:
        raise AssertionError(
            f'{result} blocks are whole waves of {wave}, but so are {useful_blocks // wave * wave} blocks, with less '
            'work per block'
        )


# Reports of Nsight Compute 2025.3 on an NVIDIA H100, except for the last seven, which are invented edge cases.
def report(compute, memory, waves, **waits) -> dict:
    "Return percentages of two peaks, waves, and cycles that a warp waits per reason, under ncu's names"
    return {'Compute (SM) Throughput': compute, 'Memory Throughput': memory, 'Waves Per SM': waves, 'waits': waits}


REPORTS = {
    'a square in Triton': (
        report(
            4.7, 89.12, 46.24, long_scoreboard=210.14, short_scoreboard=17.72, mio_throttle=9.84, barrier=0, drain=37.48
        ),
        'memory',
    ),
    'a matrix product': (
        report(87.6, 59.95, 3.88, long_scoreboard=0.02, short_scoreboard=0.2, barrier=0.1, wait=0.01, drain=0.0),
        'arithmetic',
    ),
    'a loop in 64 blocks': (report(0.98, 9.67, 0.06, long_scoreboard=123.7, wait=2.94, barrier=0, drain=0.0), 'grid'),
    'a loop in one wave': (
        report(7.43, 71.85, 1, long_scoreboard=259.14, wait=3.07, barrier=0, mio_throttle=0.11),
        'long_scoreboard',
    ),
    'a block per long row': (report(5.36, 48.78, 1.21, long_scoreboard=236.88, wait=3.47, mio_throttle=0.11), 'tail'),
    'a block per short row': (
        report(8.86, 69.53, 24.24, long_scoreboard=146.74, wait=3.47, mio_throttle=0.58),
        'long_scoreboard',
    ),
    'a transpose, tiled': (
        report(27.1, 80.99, 92.77, long_scoreboard=47.09, short_scoreboard=1.75, barrier=21.15, wait=1.91),
        'memory',
    ),
    'threads that wait': (report(31.0, 22.0, 4.97, long_scoreboard=4.1, barrier=28.5, short_scoreboard=9.0), 'barrier'),
    'few blocks, but busy': (report(91.0, 30.0, 0.5, wait=3.0, math_pipe_throttle=5.0), 'arithmetic'),
    'a second wave, half full': (report(40.0, 10.0, 1.5, wait=2.0, short_scoreboard=7.0), 'tail'),
    'a second wave, two thirds full': (report(40.0, 10.0, 1.65, wait=2.0, short_scoreboard=7.0), 'short_scoreboard'),
    'both are busy': (report(82.0, 86.0, 12.4, long_scoreboard=9.0, wait=3.0), 'memory'),
    'both are busy, one with arithmetic': (report(91.0, 84.0, 12.4, long_scoreboard=9.0, wait=3.0), 'arithmetic'),
    'just busy enough': (report(80.0, 41.0, 3.9, wait=3.0, short_scoreboard=4.0), 'arithmetic'),
}


@problem(
    'profiling.limiter',
    cases=[dict(kernel=k) for k in REPORTS],
    hints=[
        'Four questions, four `if`s; each `return` ends the function, so the order of the lines is the order of '
        'the questions.',
        'The kernel takes the time of whole waves: `waves` rounded up, `-(-waves//1)` or `cdiv(waves, 1)`. The '
        'fraction lost is `1 - waves/that`.',
        "Take the reason with the most cycles: `max(r['waits'], key=r['waits'].get)`.",
    ],
)
def _(fn, rng, kernel):
    r, expected = REPORTS[kernel]
    result = fn({**r, 'waits': dict(r['waits'])})
    measurements = (
        f"compute {r['Compute (SM) Throughput']}%, memory {r['Memory Throughput']}%, {r['Waves Per SM']} waves, "
        f"{max(r['waits'], key=r['waits'].get)} {max(r['waits'].values())} cycles"
    )
    if result != expected:
        raise AssertionError(f'the limiter is {expected!r}, not {result!r} ({measurements})')


def event(cat, name, ts, dur, tid=1) -> dict:
    "Return an event of a trace; times in microseconds"
    return dict(ph='X', cat=cat, name=name, ts=ts, dur=dur, tid=tid)


def op(*a) -> dict:
    "Return an operator on the CPU: name, start, duration"
    return event('cpu_op', *a)


def gpu(*a) -> dict:
    "Return a kernel on stream 7: name, start, duration"
    return event('kernel', *a, 7)


OTHER_EVENTS = [
    dict(ph='M', name='process_name', pid=0),
    dict(ph='s', cat='ac2g', name='ac2g', ts=3, id=1),
    event('cuda_runtime', 'cudaLaunchKernel', 2, 5),
]
TRACES = {
    'two kernels': (
        OTHER_EVENTS + [op('aten::mm', 0, 8), op('aten::relu', 20, 9), gpu('mm', 10, 20), gpu('relu', 45, 5)],
        (30, 15, ''),
    ),
    'a copy counts': (
        OTHER_EVENTS
        + [
            op('aten::randn', 0, 100),
            op('aten::to', 100, 50),
            event('gpu_memcpy', 'Memcpy HtoD', 105, 40, 7),
            gpu('k', 300, 10),
            op('aten::square', 290, 8),
            op('aten::item', 320, 90),
            gpu('r', 330, 5),
        ],
        (145, 155, 'aten::square'),
    ),
    'inner operators': (
        OTHER_EVENTS
        + [
            gpu('a', 0, 10),
            op('aten::randn', 20, 200),
            op('aten::normal_', 25, 190),
            op('aten::empty', 21, 3),
            gpu('b', 215, 10),
        ],
        (10, 205, 'aten::randn'),
    ),
    'the same length': (
        OTHER_EVENTS
        + [
            gpu('a', 0, 10),
            op('aten::to', 5, 300),
            op('aten::_to_copy', 6, 298),
            op('aten::item', 400, 20),
            gpu('b', 210, 100),
        ],
        (10, 200, 'aten::_to_copy'),
    ),
    'streams overlap': (
        OTHER_EVENTS
        + [
            gpu('long', 0, 100),
            gpu('short', 10, 5),
            event('kernel', 'other', 60, 60, 8),
            op('aten::add', 130, 20),
            gpu('next', 150, 10),
            gpu('last', 161, 3),
        ],
        (120, 30, 'aten::add'),
    ),
    'not in order': (
        OTHER_EVENTS
        + [
            gpu('c', 90, 10),
            op('aten::mul', 61, 10),
            gpu('a', 0, 10),
            event('gpu_memset', 'Memset', 40, 5, 7),
            gpu('b', 20, 10),
        ],
        (45, 45, 'aten::mul'),
    ),
}


@problem(
    'profiling.gap',
    cases=[dict(trace=k) for k in TRACES],
    hints=[
        "The GPU is busy in the events whose `cat` is 'kernel', 'gpu_memcpy' or 'gpu_memset' (others have no "
        "`cat`, or no `dur`: use `get`). Sort them by `ts`.",
        'Go through them and keep the time until which the GPU is busy: `until = max(until, ts + dur)`, since a long '
        'kernel on one stream may cover others. There is a gap if the next event begins after `until`.',
        "The overlap of an operator with the gap is `min(ts+dur, end) - max(ts, start)`, if that is above 0. "
        "`max(ops, key=lambda o: (overlap(o), -o['dur']))`, or '' if no operator overlaps.",
    ],
)
def _(fn, rng, trace):
    events, expected_results = TRACES[trace]
    result = fn([dict(e) for e in events])
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        raise AssertionError(f'return three values, when the gap begins, how long it lasts, and a name; got {result!r}')
    if tuple(result[:2]) != expected_results[:2]:
        raise AssertionError(
            f'the longest gap begins at {expected_results[0]} and lasts {expected_results[1]} microseconds; got a gap '
            f'that begins at {result[0]} and lasts {result[1]}'
        )
    if result[2] is None:
        raise AssertionError("return the name as a string, '' if no operator runs in the gap; got None")
    if result[2] != expected_results[2]:
        expected, actual = (repr(name) if name else 'no operator' for name in (expected_results[2], result[2]))
        raise AssertionError(f'during that gap the CPU runs {expected}, not {actual}')
