"""Test cases for the lesson's exercises. Reading this file spoils them."""

import inspect

import numpy as np
import torch

from ... import sim
from ..grading import normal, problem
from ...utils import cdiv, check
from .numba import check_distribution

__all__ = ['argmax_of', 'reduce_in_orders', 'moments_of', 'check_is_kernel']


def reduce_in_orders(combine, items, rng):
    "Yield (order, result) of reducing `items` from the left, as a tree of distant elements, and at random"
    yield 'from left to right', _left_to_right(combine, items)
    yield 'as a tree', _as_tree(combine, items)
    yield 'in any order', _random_order(combine, items, rng)


def _left_to_right(combine, items):
    total = items[0]
    for item in items[1:]:
        total = combine(total, item)
    return total


def _as_tree(combine, items):
    while len(items) > 1:
        half = cdiv(len(items), 2)
        items = [combine(a, b) for a, b in zip(items, items[half:])] + items[len(items) - half : half]
    return items[0]


def _random_order(combine, items, rng):
    items = list(items)
    while len(items) > 1:
        i, j = rng.choice(len(items), 2, replace=False)
        a, b = items[i], items[j]
        items = [item for k, item in enumerate(items) if k not in (i, j)] + [combine(a, b)]
    return items[0]


def argmax_of(values):
    "Return the index of the first largest value, or of the first NaN if there is one"
    return int(np.argmax(values))


@problem(
    'reductions.pair',
    cases=[
        dict(values=values)
        for values in (
            [3.0, 1.0],
            [1.0, 3.0, 2.0],
            [2.0, 5.0, 5.0, 5.0],
            [1.0, np.nan, 7.0, np.nan, 3.0],
            [-np.inf] * 3,
            [-3.0, -1.0, -2.0, -1.0],
            [np.inf, np.nan, np.inf],
        )
    ],
    hints=[
        'Begin with the easy part: the pair with the larger value. Then: what if the values are equal? What if one '
        'is a NaN?',
        'A comparison with NaN is always False. Test for NaN first, with `np.isnan(a[0])`.',
        'Give each pair a key that can be compared: `(is it NaN, the value or 0, -index)`. Return the pair with '
        'the larger key.',
    ],
)
def _(fn, rng, values):
    items = [(np.float32(v), i) for i, v in enumerate(values)]
    expected = argmax_of(values)
    for order, result in reduce_in_orders(fn, items, rng):
        if not isinstance(result, tuple) or len(result) != 2:
            raise AssertionError(f'return a pair (value, index); got {result!r}')
        if result[1] != expected:
            case = f'{[float(v) for v in values]}, combined {order}'
            raise AssertionError(f'{case}: got index {result[1]}, torch.argmax returns {expected}')
        if not np.array_equal(result[0], items[expected][0], equal_nan=True):
            raise AssertionError(f'index {expected} has the value {values[expected]}, but the pair has {result[0]}')


def moments_of(x):
    "Return (count, mean, sum of squared distances) of values"
    return (len(x), x.mean(), ((x - x.mean()) ** 2).sum()) if len(x) else (0, 0.0, 0.0)


@problem(
    'reductions.moments',
    cases=[
        dict(sizes=sizes, mean=mean)
        for sizes, mean in (
            ((1, 1), 0.0),
            ((1, 3), 5.0),
            ((0, 4), 1.0),
            ((4, 0), 1.0),
            ((0, 0), 0.0),
            ((10, 3, 0, 25, 1), -2.0),
            ((100, 7, 31), 1e6),
        )
    ],
    hints=[
        'Begin with `n`. Then the mean: a larger group has a larger weight.',
        'With `d = b[1] - a[1]`, the mean is `a[1] + d*b[0]/n`. And the squared distances: the two sums plus a '
        'term with `d*d`, because both are now measured from a new mean.',
        'The term is `d*d*a[0]*b[0]/n`. What is `n` if both groups are empty?',
    ],
)
def _(fn, rng, sizes, mean):
    groups = [rng.normal(mean, 1, n) for n in sizes]
    n, mean, squares = moments_of(np.concatenate(groups))
    for order, result in reduce_in_orders(fn, [moments_of(g) for g in groups], rng):
        if not isinstance(result, tuple) or len(result) != 3:
            raise AssertionError(f'return three values, (n, mean, m2); got {result!r}')
        for name, actual, expected in zip(('n', 'mean', 'm2'), result, (n, mean, squares)):
            if not np.isclose(actual, expected, rtol=1e-9, atol=1e-6):
                is_inaccurate = name == 'm2' and np.isclose(actual, expected, rtol=0.01)
                hint = (
                    ': rounded too much. Square the distances from the mean, not the large values'
                    if is_inaccurate
                    else ''
                )
                raise AssertionError(
                    f'groups of {sizes} values, combined {order}: {name} is {actual:.9g}, not {expected:.9g}{hint}'
                )


def check_is_kernel(kernel):
    "Raise `AssertionError` unless a kernel of Numba's dialect was returned"
    if not isinstance(kernel, sim.cuda.Kernel):
        raise AssertionError(f'return the kernel, decorated with @cuda.jit; got {type(kernel).__name__}')


@problem(
    'reductions.rows',
    cases=[dict(h=h, w=w) for h, w in ((4, 32), (1, 1), (9, 64), (5, 33), (3, 7), (6, 200))],
    hints=[
        'The row of a warp is `cuda.grid(1)//32`. A lane adds up the elements `lane`, `lane+32`, `lane+64`, ...',
        'After its loop each lane has a sum of squares; five shuffles, `d = 16, 8, 4, 2, 1`, add them up in lane 0.',
        'All 32 lanes must reach each shuffle: guard the loop and the write with `r < x.shape[0]`, not the shuffles.',
    ],
)
def _(fn, rng, h, w):
    kernel = fn()
    check_is_kernel(kernel)
    x = normal(rng, h, w)
    out = torch.full((h,), torch.nan)
    with sim.trace() as t:
        kernel[cdiv(h, 4), 128](torch.tensor(x), out)
    check(out, np.sqrt((x.astype(np.float64) ** 2).sum(1)).astype(np.float32), rtol=1e-5)
    s = t.stats
    if s.shared_load_requests or s.shared_store_requests or s.barriers or s.atomics:
        raise AssertionError('no shared memory, barrier or atomic is needed within a warp: use cuda.shfl_down_sync')
    if w % 8 == 0 and s.global_load_sectors > s.global_load_ideal:
        reason = f'{s.global_load_sectors} sectors are read, but {s.global_load_ideal} suffice'
        raise AssertionError(f'{reason}: coalesce the loads, so that consecutive lanes read consecutive elements')
    if w >= 64 and s.global_load_requests > 2 * h * cdiv(w, 32):
        raise AssertionError(f'{s.global_load_requests} requests for {h} rows of {w}: let all 32 lanes read')
    check_distribution(t, 'written', h, f'wrote {h} rows', 'give each warp one row', group_size=32)


def check_atomics(t, kernel):
    "Raise `AssertionError` if an atomic updates anything but the ticket: floats added by atomics have no fixed order"
    _, parts, ticket, out = inspect.signature(kernel.py_func).parameters
    wrong = {a['array'] for a in t.accesses if a['verb'] == 'atomic'} & {parts, out}
    if wrong:
        raise AssertionError(
            f'{min(wrong)} is updated by an atomic: atomics add floats in no fixed order. Let each block store its '
            f'sum in {parts}[b] and take a ticket with cuda.atomic.add({ticket}, 0, 1), and let the last block add '
            f'up {parts}'
        )


def check_all_blocks_work(t, n, parts):
    "Raise `AssertionError` unless all blocks took a ticket and stored a partial sum, and several read the elements"
    blocks = len(parts)
    tickets = t.stats.atomics
    if tickets < blocks:
        problem = f'{tickets} ticket{"s" * (tickets != 1)} for {blocks} block{"s" * (blocks > 1)}'
        raise AssertionError(f'{problem}: let each block take a ticket after it has written its part')
    if torch.isnan(parts).any():
        index = int(torch.isnan(parts).nonzero()[0])
        raise AssertionError(f'parts[{index}] is NaN after the launch: let each block store its partial sum there')
    readers = {int(b) for a in t.accesses if a['verb'] == 'read' and a['shape'] == (n,) for b in a['block']}
    if blocks > 1 and n > 64 and len(readers) == 1:
        raise AssertionError(
            f'only block {readers.pop()} reads x: distribute the elements over all blocks, with a grid-stride loop'
        )


@problem(
    'reductions.last',
    cases=[
        dict(n=n, blocks=blocks, order=order)
        for n, blocks, order in (
            (64, 1, 'forward'),
            (200, 3, 'forward'),
            (1000, 5, 'reverse'),
            (7, 4, 'shuffle'),
            (130, 2, 'reverse'),
            (9000, 100, 'reverse'),
        )
    ],
    hints=[
        'Begin with a block: a sum per thread, a tree in shared memory, `parts[b]`. Then a ticket: which block '
        'takes the last one?',
        'The part must be visible before the ticket: put `cuda.threadfence()` in between. All threads of the block '
        'must know whether it is the last block: pass that through shared memory, with a barrier.',
        'The last block executes a fence, too, before it reads `parts`; it adds them in the order of their indices '
        'and sets `ticket[0] = 0`.',
    ],
)
def _(fn, rng, n, blocks, order):
    kernel = fn()
    check_is_kernel(kernel)
    parts = torch.full((blocks,), torch.nan)
    ticket = torch.zeros(1, dtype=torch.int32)
    for run in ('first', 'second'):
        x = normal(rng, n)
        out = torch.full((1,), torch.nan)
        with sim.options(order=order), sim.trace(keep=10**6) as t:
            kernel[blocks, 64](torch.tensor(x), parts, ticket, out)
        check_atomics(t, kernel)
        if torch.isnan(out[0]):
            raise AssertionError(
                f'out[0] is NaN after the {run} launch: no block stored it (did one take the last ticket?), '
                'or it was computed from an uninitialized element'
            )
        check(out, x.sum(dtype=np.float64).astype(np.float32).reshape(1), atol=1e-4)
        if t.stats.atomics > blocks + 1:  # one more may reset the ticket
            reason = f'{t.stats.atomics} atomics, but one per block, its ticket, is enough ({blocks} in total)'
            raise AssertionError(f'{reason}: do not add floats with atomics, whose order is not fixed')
        check_all_blocks_work(t, n, parts)
    if ticket[0] != 0:
        raise AssertionError(f'ticket[0] is {int(ticket[0])} after the launch: set it to 0 for the next launch')


def check_no_atomics(t):
    "Raise `AssertionError` if the launch used atomics: an index from one has no fixed order"
    if t.stats.atomics:
        raise AssertionError('an index taken by an atomic has no fixed order on a GPU: take it from a scan of flags')


@problem(
    'reductions.keep',
    cases=[
        dict(n=n, fraction=fraction)
        for n, fraction in ((8, 0.5), (128, 0.5), (1, 1.0), (100, 0.1), (33, 0.0), (64, 1.0), (0, 0.0), (128, 1.0))
    ],
    hints=[
        'One flag per thread: 1 if its element is kept. Past the end of `x` it is 0, but the thread must not return.',
        'Take the inclusive scan of the flags, as in threads_and_barriers.scan: '
        '`d = 1, 2, 4, ...`, all read, wait, all write, wait.',
        'Write an element that is kept to `out[s[t] - 1]`; the last element of the scan is the count.',
    ],
)
def _(fn, rng, n, fraction):
    kernel = fn()
    check_is_kernel(kernel)
    x = np.where(rng.random(n) < fraction, 1, rng.integers(-1, 1, n)) * (np.abs(normal(rng, n)) + np.float32(0.01))
    expected = x[x > 0].astype(np.float32)
    out, count = torch.full((n,), torch.nan), torch.full((1,), -1, dtype=torch.int32)
    with sim.trace() as t:
        try:
            kernel[1, 128](torch.tensor(x.astype(np.float32)), out, count)
        finally:
            check_no_atomics(t)  # before any other error, which they may have caused
    if count[0] != len(expected):
        raise AssertionError(f'count[0] is {int(count[0])}, but {len(expected)} of the {n} elements are positive')
    check(out[: len(expected)], expected)
    if not torch.isnan(out[len(expected) :]).all():
        raise AssertionError(f'out[{len(expected)}:] must not be written: only {len(expected)} elements are kept')
    if n == 128 and t.stats.shared_load_requests > 120:
        reason = f'{t.stats.shared_load_requests} load requests to shared memory'
        raise AssertionError(f'{reason}: scan in steps 1, 2, 4, ..., which takes about 60 requests for four warps')
    if n == 128 and t.stats.global_load_requests > 32:
        reason = f'{t.stats.global_load_requests} requests for x'
        raise AssertionError(
            f'{reason}: let each thread load its own element, in 4 requests; a scan of flags gives the positions'
        )
