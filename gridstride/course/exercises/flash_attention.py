"""Test cases for the lesson's exercises. Reading this file spoils them."""

import warnings
import numpy as np
import torch
from ... import tile
from ..grading import problem
from ...utils import cdiv, check
from .triton import launch, count_reads
from .fusion import explain_falling_scores, nan_tensor, random_tensor

__all__ = ['bytes_moved', 'expected_attention', 'window_mask', 'visible_tiles']


def bytes_moved(n, d, heads, BM, size, causal):
    "Return the bytes that a forward pass moves: q, out and lse once, keys and values once per block"
    blocks = range(0, n, BM)
    keys = sum(min(first + BM, n) if causal else n for first in blocks)
    return heads * (2 * n * d * size + 4 * n + 2 * d * size * keys)


@problem(
    'flash_attention.bytes',
    cases=[
        dict(n=n, d=d, heads=heads, BM=BM, size=size, causal=causal)
        for n, d, heads, BM, size, causal in (
            (4, 2, 1, 2, 2, False),
            (4, 2, 1, 2, 2, True),
            (5, 2, 1, 2, 2, True),
            (5, 8, 3, 2, 4, False),
            (1, 16, 2, 64, 2, True),
            (8192, 128, 64, 128, 2, False),
            (8192, 128, 64, 128, 2, True),
            (1000, 64, 7, 96, 2, True),
        )
    ],
    hints=[
        '`q`, `out` and `lse` are read or written once: `2*n*d*size + 4*n` per head.',
        'A block is a `first` in `range(0, n, BM)`. Without a mask it reads `n` keys and `n` values of `d` elements.',
        'With a causal mask the last row of a block attends to the most keys: up to `min(first + BM, n)`.',
    ],
)
def _(fn, rng, **case):
    result = fn(**case)
    expected = bytes_moved(**case)
    if result != expected:
        raise AssertionError(f'got {result!r}, but {expected:,} bytes are read and written')


def expected_attention(s, v):
    "Return (out, lse) for rows of scores and values, in float64; zeros and -inf for a row that attends to no key"
    lse = np.array([np.logaddexp.reduce(row) if len(row) else -np.inf for row in s])
    p = np.where(np.isinf(lse)[:, None], 0, np.exp(s - np.where(np.isinf(lse), 0, lse)[:, None]))
    return p @ v, lse


def _describe_type(result):
    "Describe the type of a result"
    return f'{len(result)} values' if isinstance(result, (tuple, list)) else type(result).__name__


@problem(
    'flash_attention.merge',
    cases=[
        dict(n=n, d=d, keys=list(keys), spread=spread, empty_parts=list(empty_parts), shift=shift)
        for n, d, keys, spread, empty_parts, shift in (
            (1, 2, (1, 1), 1, (), 0),
            (4, 3, (5, 5), 1, (), 0),
            (5, 3, (7, 2), 1, (), 0),
            (3, 4, (6, 9), 2000, (), 0),
            (5, 2, (4, 4), 1, (1,), 0),
            (5, 2, (4, 4), 1, (2,), 0),
            (5, 2, (4, 4), 1, (1, 2), 0),
            (3, 2, (4, 4), 1, (1,), 3000),
            (3, 2, (4, 4), 1, (2,), -3000),
        )
    ],
    hints=[
        '`exp(lse)` is the sum that a part was divided by. So the result is `(out1*e1 + out2*e2)/(e1 + e2)`.',
        '`exp` of thousands overflows: first subtract the larger of the two `lse` from both.',
        'If both are `-inf`, `-inf - -inf` is NaN: subtract 0 there, and divide by 1 instead of 0.',
    ],
)
def _(fn, rng, n, d, keys, spread, empty_parts, shift):
    s, v = rng.normal(0, spread, (n, sum(keys))), rng.normal(size=(sum(keys), d))
    s += shift * np.arange(1, n + 1)[:, None]
    for part in empty_parts:
        s[0, : keys[0]] = -np.inf if part == 1 else s[0, : keys[0]]
        s[0, keys[0] :] = -np.inf if part == 2 else s[0, keys[0] :]
    parts = expected_attention(s[:, : keys[0]], v[: keys[0]]), expected_attention(s[:, keys[0] :], v[keys[0] :])
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        result = fn(*(x.copy() for part in parts for x in part))
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise AssertionError(f'return two arrays, out and lse; got {_describe_type(result)}')
    for name, actual, expected in zip(('out', 'lse'), result, expected_attention(s, v)):
        same = np.shape(actual) == expected.shape and np.allclose(actual, expected, rtol=1e-9, atol=1e-9)
        if not same:
            raise AssertionError(f'{name} over all keys: got {actual}; expected {expected}')


def window_mask(n, window):
    "Return the (n, n) mask: whether row r attends to key c"
    r, c = np.mgrid[:n, :n]
    return (c <= r) & (c > r - window)


def visible_tiles(first, BM, BN, n, window):
    "Return the visible tiles as [(tile, whether it needs a mask)], by testing every score"
    is_visible = np.zeros((n, cdiv(n, BN) * BN), bool)
    is_visible[:, :n] = window_mask(n, window)
    tiles = is_visible[first : first + BM].reshape(-1, cdiv(n, BN), BN)
    return [(i, bool(not tiles[:, i].all())) for i in range(cdiv(n, BN)) if tiles[:, i].any()]


@problem(
    'flash_attention.gradients',
    cases=[
        dict(n=n, m=m, d=d, BM=BM, BN=BN) for n, m, d, BM, BN in ((1, 2, 2, 1, 2), (4, 4, 3, 4, 4), (7, 10, 4, 3, 4))
    ],
    hints=[
        'First the probabilities: `p = exp(s - lse)`. They already belong to the whole row: do not take a softmax '
        'of the tile.',
        '`ds = p*(dp - delta)`, where `dp = dout @ v.T`; and `s` has the factor `scale`, so its gradients have it, '
        'too.',
        '`dq` is `ds @ k`, `dk` is `ds.T @ q`, `dv` is `p.T @ dout`.',
    ],
)
def _(fn, rng, n, m, d, BM, BN):
    q, k, v = (torch.tensor(rng.normal(size=(rows, d)), requires_grad=True) for rows in (n, m, m))
    dout = torch.tensor(rng.normal(size=(n, d)))
    scale = 0.3
    s = q @ k.T * scale
    out = s.softmax(-1) @ v
    expected_results = [grad.numpy() for grad in torch.autograd.grad(out, (q, k, v), dout)]
    lse = s.logsumexp(-1).detach().numpy()
    delta = (dout * out).sum(-1).detach().numpy()
    q, k, v, dout = (array.detach().numpy() for array in (q, k, v, dout))
    sums = [np.zeros_like(array) for array in expected_results]
    for r in range(0, n, BM):
        for c in range(0, m, BN):
            i, j = slice(r, r + BM), slice(c, c + BN)
            result = fn(*(array.copy() for array in (q[i], k[j], v[j], dout[i], lse[i], delta[i])), scale)
            if not isinstance(result, (tuple, list)) or len(result) != 3:
                raise AssertionError(f'return three arrays, for dq, dk and dv; got {_describe_type(result)}')
            for total, tile_rows, name, part in zip(sums, (i, j, j), ('dq', 'dk', 'dv'), result):
                if np.shape(part) != total[tile_rows].shape:
                    raise AssertionError(
                        f'{name} of this tile must have shape {total[tile_rows].shape}; got {np.shape(part)}'
                    )
                total[tile_rows] += part
    for name, result, expected in zip(('dq', 'dk', 'dv'), sums, expected_results):
        try:
            check(result, expected, rtol=1e-9, atol=1e-9)
        except AssertionError as e:
            raise AssertionError(f'{name}, added up over all tiles: {e}') from None


@problem(
    'flash_attention.window',
    cases=[
        dict(n=n, window=window, BM=BM, BN=BN, scale=scale, score_drop=score_drop)
        for n, window, BM, BN, scale, score_drop in (
            (16, 16, 16, 16, 0.25, 0),
            (1, 1, 16, 16, 0.25, 0),
            (50, 7, 16, 16, 0.25, 0),
            (90, 40, 32, 16, 0.25, 0),
            (70, 5, 16, 32, 0.25, 0),
            (33, 1, 16, 16, 50.0, 0),  # a block's first key begins a tile
            (33, 2, 16, 16, 0.5, 0),  # it ends one
            (50, 40, 16, 16, 0.25, 200),
        )
    ],
    hints=[
        'Begin with `attention_k` of the lesson. The loop over `at` starts at the tile of the first row\'s first key.',
        'That is `tl.maximum(first - window + 1, 0)//BN*BN`; it ends where the causal loop ends.',
        'A row may see no key in the first tile, so its `top` is still `-inf`: use 0 instead in `tl.exp`.',
    ],
)
def _(fn, rng, n, window, BM, BN, scale, score_drop):
    D = 16
    q, k, v = (random_tensor(rng, n, D).bfloat16() for _ in range(3))
    if score_drop:  # the scores of each tile of keys are lower by this
        q[:, 0], k[:, 0] = 1 / scale, -score_drop * (torch.arange(n) // BN)
    out = nan_tensor(n, D)
    with tile.trace() as t:
        launch(fn, cdiv(n, BM), q, k, v, out, n, scale, window, D=D, BM=BM, BN=BN)
    s = (q.double() @ k.double().T * scale).masked_fill(~torch.tensor(window_mask(n, window)), -torch.inf)
    # weights are rounded to the 8 bits of bf16, and values are about 1
    with explain_falling_scores(score_drop, 'tile'):
        check(out, (s.softmax(-1) @ v.double()).float(), rtol=0.02, atol=0.02)
    visited = [
        (i, min(n - i * BN, BN)) for first in range(0, n, BM) for i, _ in visible_tiles(first, BM, BN, n, window)
    ]
    max_reads = D * sum(rows for _, rows in visited)
    if count_reads(t, 'k') > max_reads:
        raise AssertionError(
            f'{count_reads(t, "k")} elements of k are read, but the tiles with a key to which a row attends have '
            f'{max_reads}: load only those tiles'
        )


def _random_quarters(rng, *shape):
    "Make random multiples of 1/4, whose products have exact sums in float32"
    return (random_tensor(rng, *shape) * 4).round() / 4


@problem(
    'flash_attention.paged',
    cases=[
        dict(lens=list(lens), PAGE=PAGE, shift=shift, score_drop=score_drop)
        for lens, PAGE, shift, score_drop in (
            ((4,), 4, 0, 0),
            ((1, 5, 8), 4, 0, 0),
            ((16, 3), 16, 0, 0),
            ((33, 1, 17, 16), 8, 0, 0),
            ((5, 3), 4, 200, 0),
            ((5, 3), 4, -200, 0),
            ((9, 3), 4, 0, 200),
        )
    ],
    hints=[
        'The scores of a page: `tl.sum(k_*q_[None,:], 1)*scale`. Do not use `tl.dot`: it needs 16 rows.',
        'One iteration per page: its index is `tl.load(table + i*PAGES + first//PAGE)`.',
        'Mask the loads of keys *and* values past the end: a weight of 0 times NaN is NaN. Hidden scores are `-inf`.',
    ],
)
def _(fn, rng, lens, PAGE, shift, score_drop):
    D = 16
    PAGES = max(cdiv(n, PAGE) for n in lens) + 1
    table = torch.full((len(lens), PAGES), -1, dtype=torch.int32)
    used = iter(rng.permutation(sum(cdiv(n, PAGE) for n in lens) + 2).tolist())
    k, v = (torch.full((len(lens) * PAGES + 2, PAGE, D), torch.nan) for _ in range(2))
    q = _random_quarters(rng, len(lens), D)
    out = nan_tensor(len(lens), D)
    rows = []
    q[:, 0] = 2
    for i, n in enumerate(lens):
        keys = _random_quarters(rng, n, D)
        values = random_tensor(rng, n, D)
        keys[:, 0] = shift - score_drop * (
            torch.arange(n) // PAGE
        )  # added to all scores of the page, because q[:, 0] is 2 and `scale` is 0.5
        for start in range(0, n, PAGE):
            page = table[i, start // PAGE] = next(used)
            k[page, : len(keys[start : start + PAGE])] = keys[start : start + PAGE]
            v[page, : len(values[start : start + PAGE])] = values[start : start + PAGE]
        rows.append((q[i].double() @ keys.double().T / 2).softmax(-1) @ values.double())
    lengths = torch.tensor(lens, dtype=torch.int32)
    launch(fn, len(lens), q, k, v, table, lengths, out, 0.5, PAGES=PAGES, PAGE=PAGE, D=D)
    with explain_falling_scores(score_drop, 'page'):
        check(out, torch.stack(rows).float(), rtol=1e-4, atol=1e-5)
