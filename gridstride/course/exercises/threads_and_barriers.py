"""Test cases for the lesson's exercises. Reading this file spoils them."""

import sys
import threading
from collections import Counter

import numpy as np

from ..grading import Memory, check_unchanged, normal, problem
from ..runner import run_barrier
from ...sim import options
from ...utils import cdiv, check

__all__ = ['ORDERS', 'learner_line', 'RecordingMemory', 'CountingBarrier', 'run_recorded', 'most_reads']


@problem(
    'threads_and_barriers.waits',
    cases=[dict(k=k, tw=tw) for k, tw in ((256, 16), (1, 16), (16, 16), (17, 16), (9, 4))],
    hints=[
        'How many phases are there?',
        'Two waits in each phase, and the last phase may be only partly filled.',
        '`2*cdiv(k, tw)`',
    ],
)
def _(fn, rng, k, tw):
    result = fn(k, tw)
    expected = 2 * cdiv(k, tw)
    if result != expected:
        raise AssertionError(f'got {result!r}, but each thread waits {expected} times at the barrier')


# Every kernel runs in each order of the runner, and in the operating system's. But a data race need not change the
# result in any of them: two threads that add to the same element are right unless one is interrupted in between. So
# the judge also records, for every access, which thread made it and how many waits that thread had passed. Two threads
# that access one element after the same number of waits, at least one of them to write, have a data race, even if the
# result is right.
def learner_line(thread):
    "Return the current line of the calling `thread` in the learner's source"
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename != thread.source:
        frame = frame.f_back
    return frame.f_lineno if frame else 0


class RecordingMemory(Memory):
    "Memory that records each access: (index, verb, block, thread, waits passed before it, line)"

    def __init__(self, name, values):
        super().__init__(name, values)
        self.log = []

    def record_access(self, indices, verb):
        "Record an access to `indices` with its thread, the barriers that the thread has passed, and its line"
        super().record_access(indices, verb)
        current_thread = threading.current_thread()
        if position := getattr(current_thread, 'position', None):
            self.log += [
                (int(p), verb, *position, current_thread.waits, learner_line(current_thread))
                for p in np.atleast_1d(indices)
            ]

    def check_races(self):
        "Raise `AssertionError` for a data race, which names both threads"
        accesses_of_index = {}
        for index, verb, block, thread, waits, line in self.log:
            for verb2, block2, thread2, waits2, line2 in accesses_of_index.setdefault(index, []):
                if (
                    'written' in (verb, verb2)
                    and (block, thread) != (block2, thread2)
                    and (block != block2 or waits == waits2)
                ):
                    raise AssertionError(
                        f'data race on {self.name}[{index}]: {verb2} by thread ({thread2}) of block ({block2}) '
                        f'in line {line2} and {verb} by thread ({thread}) of block ({block}) in line {line}, '
                        'with no barrier in between'
                    )
            accesses_of_index[index].append((verb, block, thread, waits, line))


class CountingBarrier:
    "The barrier of a block, which counts the waits of each thread"

    def __init__(self, syncb):
        self.syncb, self.lines = syncb, {}

    def __call__(self):
        raise TypeError('the barrier is not a function: wait with syncb.wait()')

    def wait(self):
        "Wait at the barrier, and count it for this thread"
        current_thread = threading.current_thread()
        self.lines[current_thread] = learner_line(current_thread)
        self.syncb.wait()
        del self.lines[current_thread]
        current_thread.waits += 1


def run_recorded(fn, rng, blocks, threads, sh_sz, memories, *args, order):
    "Run the kernel `fn` and return all accesses; raises `AssertionError` for a data race"
    shared_of_block, waiting = {}, []

    def run_thread(b, t, d, shared, syncb, *args):
        current_thread = threading.current_thread()
        current_thread.position = (b.x, t.x)
        current_thread.waits = 0
        current_thread.source = getattr(fn, '__code__', run_thread.__code__).co_filename
        waiting.append(CountingBarrier(syncb))
        fn(b, t, d, shared_of_block.setdefault(b.x, RecordingMemory('shared', shared)), waiting[-1], *args)

    try:
        run_barrier(run_thread, blocks, threads, sh_sz, *args, order=order, seed=int(rng.integers(1000)))
    except RuntimeError as e:
        lines = sorted({n for thread in waiting for n in thread.lines.values() if n})
        if e.__cause__ or not lines:
            raise
        raise AssertionError(f'{e}. They wait in line {" and ".join(map(str, lines))}') from e
    recorders = [*shared_of_block.values(), *memories]
    for m in recorders:
        m.check_races()
    return [access for m in recorders for access in m.log]


ORDERS = ('forward', 'reverse', 'shuffle', None)


@problem(
    'threads_and_barriers.reverse',
    returns=False,
    cases=[dict(blocks=b, threads=t, order=order) for b in (1, 2) for t in (8, 3, 1) for order in ORDERS],
    hints=[
        'Each thread loads one element into shared memory and stores another element from it.',
        'Between the load and the store, what must be true of all the other threads?',
        '`shared[t] = x[i]`, wait, `x[i] = shared[blockDim.x-1-t]`',
    ],
)
def _(fn, rng, blocks, threads, order):
    x = normal(rng, blocks, threads)
    xs = RecordingMemory('x', x)
    accesses = run_recorded(fn, rng, blocks, threads, threads, [xs], xs, order=order)
    check(xs.a.reshape(blocks, threads), x[:, ::-1])
    writers = {(block, thread) for _, verb, block, thread, *_ in accesses if verb == 'written'}
    if len(writers) < blocks * (threads // 2):  # half of the threads could swap two elements each
        raise AssertionError(
            f'only {len(writers)} of {blocks * threads} threads moved the elements: let each thread load one and '
            f'store one'
        )


@problem(
    'threads_and_barriers.block_sum',
    returns=False,
    cases=[
        dict(n=n, threads=t, order=order) for n, t in ((13, 4), (40, 16), (8, 4), (3, 4), (1, 1)) for order in ORDERS
    ],
    hints=[
        'First every thread loads its element, or 0. Then start with `half = blockDim.x//2`, and halve it until it '
        'is 0.',
        'In each iteration only `t < half` adds `shared[t+half]` to `shared[t]`. But which threads must wait?',
        'The wait is inside the loop but outside the `if`: all threads wait in each iteration, before adding. '
        'At the end thread 0 writes `out[blockIdx.x]`.',
    ],
)
def _(fn, rng, n, threads, order):
    x = normal(rng, n)
    blocks = cdiv(n, threads)
    xs, out = RecordingMemory('x', x), RecordingMemory('out', np.full(blocks, np.nan))
    run_recorded(fn, rng, blocks, threads, threads, [xs, out], xs, out, n, order=order)
    check_unchanged(xs)
    padded = np.concatenate([x, np.zeros(blocks * threads - n)])
    expected = padded.reshape(blocks, threads).sum(1).astype(np.float32)
    check(out.a, expected, atol=1e-5)  # up to 16 values around 1: a few rounding errors


def most_reads(accesses):
    "Return (number of reads, thread) of the thread with the most reads"
    reads = Counter(thread for _, verb, _, thread, *_ in accesses if verb == 'read')
    return max((n, reader) for reader, n in reads.items())


@problem(
    'threads_and_barriers.scan',
    returns=False,
    cases=[dict(n=n, order=order) for n in (8, 13, 3, 2, 1, 40) for order in ORDERS],
    hints=[
        'Keep the running total of a thread in a local variable as well as in `shared[t]`.',
        'In a step: wait, read `shared[t-d]` and add it to your total, wait, write your total to `shared[t]`.',
        'All threads wait twice in each step, those with `t < d` too.',
    ],
)
def _(fn, rng, n, order):
    x = normal(rng, n)
    xs, out = RecordingMemory('x', x), RecordingMemory('out', np.full(n, np.nan))
    accesses = run_recorded(fn, rng, 1, n, n, [xs, out], xs, out, n, order=order)
    check_unchanged(xs)
    expected = x.astype(np.float64).cumsum().astype(np.float32)
    check(out.a, expected, atol=1e-5)  # up to 40 values around 1: a few rounding errors
    steps = (n - 1).bit_length()
    reads, thread = most_reads(accesses)
    if n > 32 and reads > 4 * steps:
        raise AssertionError(
            f'thread ({thread}) reads {reads} elements: take {steps} steps with d = 1, 2, 4, ..., and read one '
            f'element, '
            'd before its own, in each step'
        )


# The last exercise runs on the simulator, which reports data races itself; the order still varies.
@problem(
    'threads_and_barriers.block_max',
    returns=False,
    cases=[dict(n=n, order=order) for n in (100, 64, 63, 1, 300) for order in ORDERS[:3]]
    + [dict(n=100, order='forward', scale=1e30)],  # below any constant that could stand for a missing element
    hints=[
        'First every thread writes its element, or -np.inf, to shared memory.',
        'Then halve: `half = 32`, and while it is above 0, threads `t < half` keep the larger of `s[t]` '
        'and `s[t+half]`.',
        '`cuda.syncthreads()` is inside the loop, outside the `if`, before the comparison. '
        'At the end thread 0 writes `out[cuda.blockIdx.x]`.',
    ],
)
def _(fn, rng, n, order, scale=1):
    x = (normal(rng, n) - 3 - 10 * (np.arange(n) // 64)) * scale  # so that elements of an earlier block would win
    x = x.astype(np.float32)
    out = np.full(cdiv(n, 64), np.nan, np.float32)
    original = x.copy()
    if not hasattr(fn, 'py_func'):
        raise AssertionError('the function is not a kernel: it needs @cuda.jit above it, between @exercise and def')
    with options(order=order, seed=int(rng.integers(1000))):
        fn[cdiv(n, 64), 64](x, out)
    if len(changed := np.flatnonzero(x != original)):
        raise AssertionError(f'x[{changed[0]}] was written: read from x, write to the output only')
    check(out, np.array([original[i : i + 64].max() for i in range(0, n, 64)]))
