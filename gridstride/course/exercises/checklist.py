"""Test cases for the lesson's exercises. Reading this file spoils them."""

import math
from collections import Counter
import numpy as np
import torch
from ... import sim
from ..grading import problem
from ...utils import cdiv, check
from .numba import check_distribution
from .returned import as_integer

__all__ = ['trace_launch', 'count_atomics', 'busiest_thread']


@problem(
    'checklist.iterations',
    cases=[
        dict(lengths=lengths)
        for lengths in (
            [5] * 64,
            [1] * 31 + [100],
            [7] * 33,
            list(range(64)),
            [100, 1] * 48,
            [3],
            [0] * 32 + [9] * 8,
            [40, 2, 2, 2] * 25,
        )
    ],
    hints=[
        'A warp is 32 consecutive threads. When does the loop of a warp end?',
        'It ends when the thread with the longest loop has finished; the other threads are idle until then.',
        'Take the maximum of every 32 lengths, `max(lengths[i:i+32])` for `i` in steps of 32, and add them up.',
    ],
)
def _(fn, rng, lengths):
    result = as_integer(fn(list(lengths)))
    warp_iterations = [max(lengths[i : i + 32]) for i in range(0, len(lengths), 32)]
    if result != sum(warp_iterations):
        raise AssertionError(
            f'{len(lengths)} threads are {len(warp_iterations)} warps, which take {warp_iterations} iterations, '
            f'{sum(warp_iterations)} in total; got {result}'
        )


def trace_launch(kernel, grid, block, *args):
    "Launch a kernel on the simulator and return its trace; raises `AssertionError` if it is not a kernel"
    if not isinstance(kernel, sim.cuda.Kernel):
        raise AssertionError(f'return the kernel, decorated with @cuda.jit; got {type(kernel).__name__}')
    with sim.trace(keep=10**7) as t:
        kernel[grid, block](*args)
    return t


def count_atomics(t):
    "Count the atomic operations, one per thread that executes one"
    return sum(len(a['at']) for a in t.accesses if a['verb'] == 'atomic')


def busiest_thread(t, verb, space='global'):
    "Return the thread with the most accesses of this kind, as (block, thread), and their number"
    accesses = [a for a in t.accesses if (a['verb'], a['space']) == (verb, space)]
    counts = Counter(location for a in accesses for location in zip(a['block'].tolist(), a['thread'].tolist()))
    return max(counts.items(), key=lambda item: item[1], default=((0, 0), 0))


def random_runs(rng, n, longest, values):
    "Make `n` random bytes in runs of equal values"
    lengths = rng.integers(1, longest + 1, n, np.intp)  # `repeat` requires it
    return np.repeat(rng.integers(0, values, n), lengths)[:n].astype(np.uint8)


@problem(
    'checklist.runs',
    cases=[
        dict(n=n, per=per, longest=longest, values=values)
        for n, per, longest, values in (
            (2048, 32, 100, 256),
            (1000, 8, 20, 4),
            (77, 16, 5, 2),
            (640, 10, 1, 3),
            (1, 4, 1, 256),
            (500, 500, 60, 9),
        )
    ],
    hints=[
        'Keep two local variables, so two registers: the byte that the thread is counting, and how often it has '
        'occurred.',
        'If, and only if, the next byte differs, add the count to `out` and start again. The last run ends after '
        'the loop.',
        'Begin with `last,count = x[first],0` if `first < x.shape[0]`; then for each `i` of `first` to '
        '`min(first+per, x.shape[0])`: if `x[i] != last`, add and set both; then `count += 1`. After the loop, add.',
    ],
)
def _(fn, rng, n, per, longest, values):
    x = random_runs(rng, n, longest, values)
    threads = cdiv(n, per)
    tensor = torch.from_numpy(x.copy())
    out = torch.zeros(256, dtype=torch.int32)
    t = trace_launch(fn(), cdiv(threads, 64), 64, tensor, out, per)
    check(out.numpy(), np.bincount(x, minlength=256).astype(np.int32))
    check(tensor.numpy(), x)
    # a run that continues in the piece of the next thread is counted by both threads
    num_runs = sum(1 + int((np.diff(x[i : i + per].astype(int)) != 0).sum()) for i in range(0, n, per))
    if (result := count_atomics(t)) > num_runs:
        raise AssertionError(
            f'{result} atomic additions for {n} bytes; the pieces of all threads have {num_runs} runs in total: add '
            'once per run (an addition of 0 is an atomic operation, too)'
        )
    check_distribution(t, 'atomic', threads, f'counted {threads} pieces of {per} bytes', 'give each thread one piece')


@problem(
    'checklist.logsumexp',
    cases=[
        dict(h=h, w=w, scale=scale, shift=shift)
        for h, w, scale, shift in (
            (10, 64, 1, 0),
            (1, 5, 1, 0),
            (33, 40, 10, 0),
            (20, 100, 3, 1000),
            (20, 32, 3, -1000),
            (7, 1, 50, 0),
        )
    ],
    hints=[
        "The lesson's `online_k` is nearly the answer: which of its two loops must you keep?",
        'With `m` the maximum and `s` the sum of `exp(x - m)`, the logarithm of the whole sum is `m + log(s)`.',
        'Write a guard, the first loop of `online_k`, with `v = x[r,c]` read once, and `out[c] = m + math.log(s)`.',
    ],
)
def _(fn, rng, h, w, scale, shift):
    x = (scale * rng.standard_normal((h, w)) + shift).astype(np.float32)
    values = torch.from_numpy(x.copy())
    out = torch.full((w,), math.nan)
    t = trace_launch(fn(), cdiv(w, 64), 64, values, out)
    expected = np.logaddexp.reduce(x.astype(np.float64), axis=0)
    check(out.numpy(), expected.astype(np.float32), rtol=1e-5, atol=1e-5)  # rounding errors of up to 33 terms
    check(values.numpy(), x)
    if (bytes_read := t.stats.global_load_bytes) > x.nbytes:
        raise AssertionError(
            f'each element is read {bytes_read / x.nbytes:.3g} times: make one pass, with `v = x[r,c]` in a variable'
        )
    check_distribution(t, 'written', w, f'wrote {w} columns', 'give each thread one column')
