"""Test cases for the lesson's exercises. Reading this file spoils them."""

import warnings
from itertools import zip_longest

import numpy as np
import torch

from ... import tile
from ..grading import problem
from ...utils import cdiv, check
from .triton import launch
from .fusion import nan_tensor, random_tensor
from .softmax import check_one_row_per_program
from .returned import as_integer, as_number

__all__ = [
    'cost_of_pieces',
    'best_schedule',
    'count_fitting_sequences',
    'expected_merge',
    'time_of_slowest',
    'schedule',
]


def count_fitting_sequences(memory, lens, layers, elements, page):
    "Return (number of sequences that fit into memory, unused slots of their pages)"
    free, wasted = memory // (page * layers * elements * 2), 0
    for i, n in enumerate(lens):
        free -= cdiv(n, page)
        if free < 0:
            return i, wasted
        wasted += cdiv(n, page) * page - n
    return len(lens), wasted


@problem(
    'latent_attention.pages',
    cases=[
        dict(memory=memory, lens=list(lens), layers=layers, elements=elements, page=page)
        for memory, lens, layers, elements, page in (
            (4 * 64, (4, 4, 4), 2, 4, 4),
            (5 * 64, (5, 5, 5), 2, 4, 4),
            (5 * 64 + 63, (8, 9, 1), 2, 4, 4),
            (12 * 64, (4, 30, 4), 2, 4, 4),
            (8 * 64, (30, 4, 4), 2, 4, 4),
            (3 * 64, (13, 1), 2, 4, 4),
            (6 * 64, (0, 7, 0, 1), 2, 4, 4),
            (40 * 10**9, (8192, 100_000, 65, 64, 1), 61, 576, 64),
        )
    ],
    hints=[
        'A page of all layers has `page*layers*elements*2` bytes. How many whole pages fit?',
        'A sequence of `n` tokens takes `cdiv(n, page)` pages, and leaves `-n % page` slots of the last page empty.',
        'Go through the sequences in order, and stop at the first that does not fit, even if a later one would.',
    ],
)
def _(fn, rng, **case):
    result = fn(**case)
    expected = count_fitting_sequences(**case)
    if tuple(np.ravel(result)) != expected:
        pages = case['memory'] // (case['page'] * case['layers'] * case['elements'] * 2)
        page_counts = ', '.join(str(cdiv(n, case['page'])) for n in case['lens'])
        raise AssertionError(
            f'got {result!r}; expected {expected}, (sequences, empty slots): {pages} pages are free, and the '
            f'sequences need {page_counts} pages'
        )


def _load_and_compute_time(how, gpus, sequences, n, heads, speed, flops):
    "Return (load time, compute time) of the busiest GPU in seconds; `how`: 'heads' or 'sequences' are distributed"
    sequences, heads = (cdiv(sequences, gpus), heads) if how == 'sequences' else (sequences, cdiv(heads, gpus))
    return sequences * n * 576 * 2 / speed, sequences * heads * n * 2 * (576 + 512) / flops


def time_of_slowest(**case):
    "Return the time of the busiest GPU in seconds"
    return max(_load_and_compute_time(**case))


@problem(
    'latent_attention.gpus',
    cases=[
        dict(how=how, gpus=gpus, sequences=sequences, n=n, heads=heads, speed=3.1e12, flops=795e12)
        for gpus, sequences, n, heads in ((1, 3, 1000, 128), (8, 128, 8192, 128), (2, 7, 500, 16), (3, 10, 4096, 128))
        for how in ('heads', 'sequences')
    ]
    + [
        dict(how=how, gpus=gpus, sequences=7, n=100, heads=128, speed=3.1e12, flops=100e12)  # operations decide
        for gpus in (2, 3, 6)
        for how in ('heads', 'sequences')
    ],
    hints=[
        'Which bytes must a GPU with 16 of 128 heads read? All heads share each row of the cache.',
        'Bytes: its sequences times `n*576*2`. FLOPs: its sequences times its heads times `n*2*(576 + 512)`.',
        'The slowest GPU has `cdiv(sequences, gpus)` sequences, or `cdiv(heads, gpus)` heads. Its time is the longer '
        'of the two.',
    ],
)
def _(fn, rng, **case):
    result = fn(**case)
    expected = time_of_slowest(**case)
    if (n := as_number(result)) is None or not abs(n - expected) <= 1e-9 * expected:
        load_time, compute_time = (f'{t:.6g}' for t in _load_and_compute_time(**case))
        reason = f'the slowest GPU needs {load_time} seconds to load and {compute_time} to compute'
        raise AssertionError(f'got {result!r}; expected {expected:.6g} seconds: {reason}')


def _recording_cache(cache, heads):
    "Return two functions that read a cache and record their calls: (scores, means, [(name, array), ...])"
    calls = []

    def record_call(name, x, width):
        x = np.asarray(x)
        if x.shape != (heads, width):
            raise AssertionError(f'{name} takes shape ({heads}, {width}), one row per head; got {x.shape}')
        calls.append((name, x))
        return x

    n, width = cache.shape
    return (
        lambda rows: record_call('scores', rows, width) @ cache.T,
        lambda weights: record_call('means', weights, n) @ cache,
        calls,
    )


def _are_close(x, y):
    return np.allclose(x, y, rtol=1e-7, atol=1e-7)


def _diagnosis(calls, absorbed_query, l, p, scale):
    "Describe the wrong step of an answer; rows may be scaled, and weights need not sum to 1"
    rows, weights = (dict(calls).get(name) for name in ('scores', 'means'))
    parts = {f'first {l}': slice(l), f'last {absorbed_query.shape[1] - l}': slice(l, None)}
    factors = 1, scale, scale * np.log2(np.e)
    wrong = [
        part
        for part, columns in parts.items()
        if not any(_are_close(rows[:, columns], absorbed_query[:, columns] * by) for by in factors)
    ]
    if wrong:
        return f'the rows for `scores` are wrong in their {" and ".join(wrong)} elements'
    total = weights.sum(-1, keepdims=True)
    if not (np.all(total > 0) and _are_close(weights / total, p)):
        return 'the rows for `scores` are right, but the weights for `means` are wrong'
    sums = '' if _are_close(total, 1) else f", except for their sums ({', '.join(f'{s:.3g}' for s in total[:, 0])})"
    return f'rows and weights are right{sums}, but the output computed from the means is wrong'


@problem(
    'latent_attention.latent',
    cases=[
        dict(n=n, heads=heads, d=d, l=l, r=r, shift=shift)
        for n, heads, d, l, r, shift in (
            (1, 1, 2, 3, 2, 0),
            (5, 2, 3, 4, 2, 0),
            (9, 4, 8, 16, 4, 0),
            (7, 3, 4, 6, 2, 3e4),
        )
    ],
    hints=[
        'The query of a head, absorbed for the cache, is `wk[h] @ q[h]`, followed by `qr[h]`.',
        'Multiply the scores by `(d + r)**-.5`, subtract the maximum of each row, then take the softmax.',
        'Use the first `wk.shape[1]` elements of each mean: `means[h,:l] @ wv[h]`.',
    ],
)
def _(fn, rng, n, heads, d, l, r, shift):
    q, qr = rng.normal(size=(heads, d)), rng.normal(size=(heads, r))
    wk, wv = rng.normal(size=(2, heads, l, d))
    cache = rng.normal(size=(n, l + r))
    qr[:, 0], cache[:, l] = 2 * (-1.0) ** np.arange(heads), 2 * np.arange(n) + shift  # the rotary part decides
    scores, means, calls = _recording_cache(cache, heads)
    k = np.concatenate([cache[:, :l] @ wk, np.broadcast_to(cache[:, l:], (heads, n, r))], -1)
    s = (k @ np.concatenate([q, qr], -1)[..., None])[..., 0] / (d + r) ** 0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    expected = (p[:, None] @ (cache[:, :l] @ wv))[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter('error', RuntimeWarning)  # NumPy warns of an overflow
        result = fn(q.copy(), qr.copy(), wk.copy(), wv.copy(), scores, means)
    names = [name for name, _ in calls]
    if sorted(names) != ['means', 'scores']:
        raise AssertionError(f'call `scores` once and `means` once; the calls were: {", ".join(names) or "none"}')
    try:
        check(result, expected, rtol=1e-7, atol=1e-7)
    except AssertionError as e:
        absorbed_query = np.concatenate([(wk @ q[..., None])[..., 0], qr], -1)
        raise AssertionError(f'{_diagnosis(calls, absorbed_query, l, p, (d + r) ** -0.5)}: {e}') from None


def schedule(pages, sms, fixed, budget):
    "Return the assignment of each SM, a list of pieces (sequence, first, end); None if the budget is too small"
    pending = [(i, 0, n) for i, n in enumerate(pages)]
    assignments = [[] for _ in range(sms)]
    for assignment in assignments:
        remaining = budget
        while pending and remaining > fixed:
            sequence, first, end = pending.pop(0)
            num_pages = min(end - first, remaining - fixed)
            assignment.append((sequence, first, first + num_pages))
            remaining -= fixed + num_pages
            if first + num_pages < end:
                pending.insert(0, (sequence, first + num_pages, end))
    return None if pending else assignments


def cost_of_pieces(assignment, fixed):
    "Return the cost of an SM: its pages, plus a fixed cost per piece"
    return sum(end - first + fixed for _, first, end in assignment)


def best_schedule(pages, sms, fixed):
    "Return (assignments, budget) with the smallest budget that covers all pages"
    budget = cdiv(sum(pages) + fixed * len(pages), sms)
    while (assignments := schedule(pages, sms, fixed, budget)) is None:
        budget += 1
    return assignments, budget


@problem(
    'latent_attention.shares',
    cases=[
        dict(pages=list(pages), sms=sms, fixed=fixed)
        for pages, sms, fixed in (
            ((8,), 4, 0),
            ((9,), 4, 0),
            ((40, 3, 9, 22, 5, 1), 8, 0),
            ((40, 3, 9, 22, 5, 1), 8, 5),
            ((10, 10, 10), 4, 2),
            ((1, 1, 1, 1, 1), 2, 3),
            ((100, 1, 1), 3, 1),
            ((5, 5), 4, 3),
            ((128,) * 7, 132, 5),
        )
    ],
    hints=[
        'For a given budget go through the pages in order: each SM takes as many as it can, then the next SM '
        'continues.',
        'An SM with no more than `fixed` left takes nothing more; else `min(pages left of the sequence, left - '
        'fixed)`.',
        'Start with `cdiv(sum(pages) + fixed*len(pages), sms)`, and raise the budget by 1 until all pages are taken.',
    ],
)
def _(fn, rng, pages, sms, fixed):
    result = fn(list(pages), sms, fixed)
    _, budget = best_schedule(pages, sms, fixed)
    if not isinstance(result, (tuple, list)) or len(result) != sms:
        description = len(result) if isinstance(result, (tuple, list)) else type(result).__name__
        raise AssertionError(f'return a list of {sms} lists, the pieces of each SM; got {description}')
    for assignment in result:
        for piece in assignment if isinstance(assignment, (tuple, list)) else [assignment]:
            if not isinstance(piece, (tuple, list)) or len(piece) != 3:
                raise AssertionError(f'an SM must get a list of pieces (sequence, first, end); got {piece!r}')
    pieces = [tuple(map(as_integer, piece)) for assignment in result for piece in assignment]
    if any(first >= end for _, first, end in pieces):
        raise AssertionError('a piece must have at least one page: (sequence, first, end) with first < end')
    actual_pages = [(sequence, page) for sequence, first, end in pieces for page in range(first, end)]
    expected_pages = [(sequence, page) for sequence, n in enumerate(pages) for page in range(n)]
    if actual_pages != expected_pages:
        i = next(i for i, (a, b) in enumerate(zip_longest(actual_pages, expected_pages)) if a != b)
        next_, actual_page = (
            f'page {pages[i][1]} of sequence {pages[i][0]}' if i < len(pages) else 'nothing'
            for pages in (expected_pages, actual_pages)
        )
        raise AssertionError(f'assign all pages in order: after the first {i}, expected {next_}; got {actual_page}')
    costs = [cost_of_pieces(assignment, fixed) for assignment in result]
    sm = int(np.argmax(costs))
    if costs[sm] > budget:
        raise AssertionError(
            f'SM {sm} gets {result[sm]}, at a cost of {costs[sm]}; the optimal assignment costs at most {budget} per SM'
        )


def expected_merge(outs, lses):
    "Merge parts along the first axis to (out, lse), in float64; zeros and -inf for rows that attend to no key"
    lse = torch.logsumexp(lses, 0)
    weights = torch.where(lses == -torch.inf, 0, (lses - torch.where(lse == -torch.inf, 0, lse)).exp())
    return (weights[..., None] * outs.nan_to_num(0)).sum(0), lse


@problem(
    'latent_attention.merge',
    cases=[
        dict(rows=rows, parts=parts, D=D, shift=shift, step=step, empty_parts=list(empty_parts))
        for rows, parts, D, shift, step, empty_parts in (
            (2, 1, 4, 0.0, 3, ()),
            (3, 2, 8, 0.0, 3, ()),
            (2, 2, 8, 0.0, -3, ()),
            (2, 5, 16, 0.0, 3, ()),
            (3, 3, 8, 1000.0, -3, ()),
            (3, 3, 8, -1000.0, 3, ()),
            (2, 4, 8, 0.0, 3, (0,)),
            (2, 4, 8, 0.0, -3, (1, 3)),
            (2, 2, 8, 0.0, 3, (0, 1)),
        )
    ],
    hints=[
        'Loop over the parts as in an online softmax: `new = max(top, l)`; multiply the sums so far by `exp(top - '
        'new)`.',
        'A part has the weight `exp(l - new)`. As long as no part has seen a key, `new` is `-inf`: subtract 0 instead.',
        'A part of `-inf` may hold NaN, and 0 times NaN is NaN: `tl.where(l > -inf, part, 0.)`.',
    ],
)
def _(fn, rng, rows, parts, D, shift, step, empty_parts):
    outs = random_tensor(rng, parts, rows, D)
    lses = random_tensor(rng, parts, rows).clamp(-1, 1)
    lses += shift + step * torch.arange(parts)[:, None]  # each part weighs more than the part before, or less
    for p in empty_parts:  # in these parts the first row attends to no key, so its output is uninitialized
        outs[p, 0], lses[p, 0] = torch.nan, -torch.inf
    out, lse = nan_tensor(rows, D), nan_tensor(rows)
    expected_results, total = expected_merge(outs.double(), lses.double())
    with tile.trace() as t:
        launch(fn, rows, outs, lses, out, lse, rows, PARTS=parts, D=D)
    # lse near 1000 has 2^-14 as its last bit, and so has a weight's exponent
    for name, result, expected, rtol, atol in (
        ('out', out, expected_results, 1e-3, 1e-4),
        ('lse', lse, total, 1e-6, 1e-5),
    ):
        try:
            check(result, expected.float(), rtol=rtol, atol=atol)
        except AssertionError as e:
            raise AssertionError(f'{name}: {e}') from None
    check_one_row_per_program(t)
