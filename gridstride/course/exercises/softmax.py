"""Test cases for the lesson's exercises. Reading this file spoils them."""

import math
from collections import defaultdict

import numpy as np
import torch

from .checklist import busiest_thread
from .reductions import check_is_kernel
from .triton import launch, power_of_two
from .fusion import nan_tensor, random_tensor
from ... import sim, tile
from ..grading import problem
from ...utils import cdiv, check

__all__ = ['partial_softmax']

INF = math.inf


@problem(
    'softmax.merge',
    cases=[
        dict(a=a, b=b)
        for a, b in (
            (0.0, 0.0),
            (1.0, 2.0),
            (-3.0, 2.5),
            (1000.0, 999.0),
            (-1000.0, -1001.0),
            (0.0, 900.0),
            (-INF, 3.0),
            (3.0, -INF),
            (-INF, -INF),
        )
    ],
    hints=[
        'It is the logarithm of `exp(a) + exp(b)`. Neither `exp` may be computed directly, because it may overflow.',
        'Factor out the larger one: `m + log(exp(a - m) + exp(b - m))`.',
        'If `m` is minus infinity, `a - m` is NaN: then the result is `m`.',
    ],
)
def _(fn, rng, a, b):
    try:
        result = fn(a, b)
    except (OverflowError, ValueError) as e:
        raise AssertionError(f'a = {a}, b = {b}: {type(e).__name__}, {e}') from None
    expected = float(np.logaddexp(a, b))
    if not isinstance(result, (float, int)):
        raise AssertionError(f'return a number; got {result!r}')
    if not (result == expected or abs(result - expected) <= 1e-12 * max(1, abs(expected))):
        raise AssertionError(f'a = {a}, b = {b}: got {result}; expected {expected}')


def partial_softmax(x, v):
    "Return the partial softmax (m, s, o) of scores `x` over the rows of `v`"
    if not len(x):
        return -INF, 0.0, np.zeros(v.shape[1])
    e = np.exp(x - x.max())
    return float(x.max()), float(e.sum()), e @ v


def _check_is_triple(result):
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        raise AssertionError(f'return (m, s, o); got {result!r}')


@problem(
    'softmax.mean',
    cases=[
        dict(sizes=sizes, spread=spread, level=level)
        for sizes, spread, level in (
            ((1, 1), 1, 0),
            ((3, 5), 1, 0),
            ((5, 3), 400, 0),
            ((0, 4), 1, 0),
            ((4, 0), 1, 0),
            ((0, 0), 1, 0),
            ((2, 6), 1, -900),
            ((7, 1, 0, 30), 50, 0),
        )
    ],
    hints=[
        '`m` and `s` as in the lesson. With `m1, s1, o1 = a`: what has to happen to `o1` if `m` is larger than `m1`?',
        '`o` is a sum with the same factors as `s`: it is rescaled to the new `m` by the same `exp(m1 - m)`.',
        'If both parts are empty, `m1 - m` is NaN: subtract `base`, which is 0 then. Change neither `o1` nor `o2`.',
    ],
)
def _(fn, rng, sizes, spread, level):
    groups = [(level + spread * rng.normal(size=n), rng.normal(size=(n, 3))) for n in sizes]
    expected_results = partial_softmax(*(np.concatenate(parts) for parts in zip(*groups)))
    result = partial_softmax(*groups[0])
    for x, v in groups[1:]:
        parts = result, partial_softmax(x, v)
        copies = [o.copy() for *_, o in parts]
        result = fn(*parts)
        _check_is_triple(result)
        for ordinal, (*_, o), copy in zip(('first', 'second'), parts, copies):
            if not np.array_equal(o, copy):
                raise AssertionError(f'`o` of the {ordinal} part was changed, but it is an input: make a new array')
    for name, actual, expected in zip('mso', result, expected_results):
        if not np.allclose(actual, expected, rtol=1e-11, atol=1e-12):
            raise AssertionError(
                f'after merging parts of {", ".join(map(str, sizes))} scores, {name} is {actual}; expected {expected}'
            )


def check_work_per_thread(t, w):
    "Raise `AssertionError` if a thread writes or adds up more than its part of a row"
    (_, thread), num_accesses = busiest_thread(t, 'written')
    if num_accesses > (per_thread := cdiv(w, 64)):
        raise AssertionError(
            f'thread {thread} writes {num_accesses} of {w} elements: let each of the 64 threads write {per_thread}'
        )
    (_, thread), num_accesses = busiest_thread(t, 'read', 'shared')
    if w >= 500 and num_accesses >= w:
        raise AssertionError(
            f'thread {thread} reads shared memory {num_accesses} times, for a row of {w}: let each thread compute '
            f'`m` and '
            '`s` of its own elements, then merge 64 partial results'
        )


@problem(
    'softmax.shared',
    cases=[dict(h=h, w=w) for h, w in ((1, 64), (3, 100), (2, 1), (4, 63), (2, 511), (3, 512), (5, 200))],
    hints=[
        'The row goes to `cuda.shared.array(512, np.float32)`: each thread loads the elements `t`, `t + 64`, ... '
        'and computes their `m` and `s`. Two more arrays of 64 hold the results of the threads.',
        'After one `cuda.syncthreads()` every thread can merge all 64 partial results itself: the largest `m`, '
        'then the sum '
        'of `s*exp(m_of_it - m)`.',
        'A thread without elements has `(-inf, 0)`. No special case is needed to merge it: `exp(-inf - m)` is 0.',
    ],
)
def _(fn, rng, h, w):
    kernel = fn()
    x = 3 * random_tensor(rng, h, w)
    check_is_kernel(kernel)
    x[:, : w // 3] -= 200
    x[1:2, -1] += 150  # one thread has the largest element, alone
    x[-1] -= 300
    out = nan_tensor(h, w)
    with sim.trace(keep=10**6) as t:
        kernel[h, 64](x, out)
    check(out, x.double().softmax(-1).float(), rtol=1e-5)
    reads = t.stats.global_load_bytes / x.nbytes
    if reads != 1:
        raise AssertionError(
            f'each element was read from global memory {reads:g} times: read it once, and keep it in shared memory'
        )
    check_work_per_thread(t, w)


def check_one_row_per_program(t):
    "Raise `AssertionError` unless each program writes one row, its own; a row of a vector is one element"
    rows = defaultdict(set)
    for a in t.accesses:
        if a['verb'] == 'written' and len(a['at']):
            width = a['shape'][1] if len(a['shape']) > 1 else 1
            rows[int(a['program'][0])] |= {int(at) // width for at in a['at']}
    program_of_row = {}
    for program, rows_written in sorted(rows.items()):
        if len(rows_written) > 1:
            raise AssertionError(
                f'program {program} writes {len(rows_written)} rows: let each program write its own row'
            )
        (row,) = rows_written
        if program_of_row.setdefault(row, program) != program:
            raise AssertionError(
                f'programs {program_of_row[row]} and {program} both write row {row}: let each program write its own row'
            )


@problem(
    'softmax.window',
    cases=[dict(w=w, d=d) for w, d in ((1, 0), (5, 0), (16, 3), (33, 7), (40, 100), (64, 63), (20, 1), (100, 30))],
    hints=[
        'Begin as in `masked_k`, with another mask: `c <= r`, and at most `d` before `r`.',
        'Combine two conditions with `&`, each in parentheses: `(c <= r) & (c >= r - d)`.',
        'Use it as the mask of the *load*, with minus infinity for the masked lanes. The store writes the whole row.',
    ],
)
def _(fn, rng, w, d):
    x = 3 * random_tensor(rng, w, w)
    x[-1] -= 300
    column = torch.arange(w)
    hidden = (column > column[:, None]) | (column < column[:, None] - d)
    expected = x.double().masked_fill(hidden, -INF).softmax(-1).float()
    for description, value in (('NaN', torch.nan), ('a large number', 300.0)):
        out = nan_tensor(w, w)
        masked_x = x.masked_fill(hidden, value)
        with tile.trace() as t:
            launch(fn, w, masked_x, out, w, d, BLOCK=max(64, power_of_two(w)))
        try:
            check(out, expected, rtol=1e-5)
        except AssertionError as e:
            raise AssertionError(f'w = {w}, d = {d}, {description} hidden by the mask: {e}') from None
        check_one_row_per_program(t)


@problem(
    'softmax.gradient',
    cases=[dict(h=h, w=w, block=block) for h, w, block in ((1, 4, 4), (3, 5, 8), (2, 9, 4), (1, 1, 2), (2, 16, 4))],
    hints=[
        '`y[i]` is `x[i] - log(sum of exp(x))`. What does `x[j]` change? `y[j]` by 1, and every `y` by minus the '
        'probability `exp(y[j])`.',
        '`dx = dout - exp(y)*sum(dout)`. The sum is over the whole row, so it needs its own loop before.',
        'Two loops over `range(0, w, BLOCK)`, each load with `mask=first + c < w`, the first one with `other=0`. '
        'Start the sum with the type of `dout`: `tl.zeros((BLOCK,), dout.dtype.element_ty)`.',
    ],
)
def _(fn, rng, h, w, block):
    x, dout = (torch.tensor(rng.normal(0, 2, (h, w))) for _ in range(2))
    y = torch.log_softmax(x.requires_grad_(), -1)
    (expected,) = torch.autograd.grad(y, x, dout)
    dx = torch.full_like(expected, torch.nan)
    with tile.trace() as t:
        launch(fn, h, y.detach(), dout, dx, w, BLOCK=block)
    check(dx, expected, rtol=1e-10, atol=1e-12)
    check_one_row_per_program(t)
    if (num_accesses := max(len(a['at']) for a in t.accesses)) != min(w, block):
        raise AssertionError(
            f'at most {num_accesses} of {w} elements are accessed at once: load blocks of BLOCK, {block} here'
        )
