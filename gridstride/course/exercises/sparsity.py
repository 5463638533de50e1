"""Test cases for the lesson's exercises. Reading this file spoils them."""

import itertools

import numpy as np

from .numba import count_threads
from .reductions import check_is_kernel
from ... import sim
from ..grading import problem
from ...utils import check

__all__ = []


@problem(
    'sparsity.bytes',
    cases=[dict(h=h, w=w, n=n) for h, w, n in ((1, 8, 3), (16, 64, 512), (100, 40, 0), (8192, 8192, 671_088))],
    hints=[
        'Dense: two bytes per element, `h*w` of them. CSR: a value and a column per nonzero, `n` of them; and the '
        'starts.',
        'There are `h + 1` starts: the last start is the end of the last row.',
        '2:4: half of the elements, zeros or not, and a nibble, half a byte, per four elements of the matrix.',
    ],
)
def _(fn, rng, h, w, n):
    result = fn(h, w, n)
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        raise AssertionError(f'return three integers; got {result!r}')
    expected_results = 2 * h * w, 6 * n + 4 * (h + 1), h * w + h * w // 8
    for name, actual, expected in zip(('dense', 'CSR', '2:4'), result, expected_results):
        if actual != expected:
            raise AssertionError(f'{h} x {w}, {n} nonzero: {name} takes {expected} bytes; got {actual}')


PAIRS = list(itertools.combinations(range(4), 2))


def random_sparse_matrix(rng):
    "Make a 2:4 matrix of 16 x 64 elements; return it, its stored values and its metadata"
    pairs = np.array(PAIRS)[rng.integers(6, size=(16, 16))]
    values = rng.normal(size=(16, 32)).astype(np.float32)
    dense, words = np.zeros((16, 64), np.float32), np.zeros(32, np.uint32)
    for r, g in np.ndindex(16, 16):
        first, second = map(int, pairs[r, g])
        dense[r, [4 * g + first, 4 * g + second]] = values[r, 2 * g : 2 * g + 2]
        words[r % 8 * 4 + g // 4] |= np.uint32((first | second << 2) << (r // 8 * 16 + g % 4 * 4))
    return dense, values, words


@problem(
    'sparsity.read',
    cases=[dict(nth=i) for i in range(3)],
    hints=[
        'Row `r` and group `g` (columns `4*g` to `4*g + 3`): which lane has its nibble, and in which bits?',
        'Lane `r%8*4 + g//4`. Rows from 8 on are in the upper 16 bits; the four groups follow in the order of '
        '`g%4`, from the lowest bits.',
        '`nibble & 3` is the position of `values[r, 2*g]`, `nibble >> 2` that of `values[r, 2*g + 1]`.',
    ],
)
def _(fn, rng, nth):
    dense, values, words = random_sparse_matrix(rng)
    result = fn(values.copy(), words.copy())
    if np.shape(result) != (16, 64):
        raise AssertionError(f'return an array of 16 x 64; got {np.shape(result) or result!r}')
    wrong = np.argwhere(np.asarray(result) != dense)
    if len(wrong):
        r, c = wrong[0].tolist()
        lane = r % 8 * 4 + c // 16
        raise AssertionError(
            f'row {r}, column {c} is {dense[r, c]:.3g}; got {float(np.asarray(result)[r, c]):.3g}. Its group of four '
            f"is in lane {lane}'s word, {int(words[lane]):#010x}"
        )


@problem(
    'sparsity.transposed',
    cases=[dict(h=h, w=w) for h, w in ((1, 1), (5, 3), (33, 20), (64, 7), (100, 130))],
    hints=[
        'Row `r` of the matrix is column `r` of the transposed one: its elements are multiplied by `x[r]` only.',
        'Each element of the row goes to another index: add `vals[i]*x[r]` to `out[cols[i]]`.',
        'Two threads may add to the same element: `cuda.atomic.add(out, cols[i], ...)`. There may be more threads '
        'than rows.',
    ],
)
def _(fn, rng, h, w):
    kernel = fn()
    check_is_kernel(kernel)
    dense = rng.normal(size=(h, w)).astype(np.float32) * (rng.random((h, w)) < 0.4)
    dense[h // 2] = 0
    r, cols = dense.nonzero()
    starts = np.searchsorted(r, np.arange(h + 1)).astype(np.int32)
    x = rng.normal(size=h).astype(np.float32)
    initial = rng.normal(size=w).astype(np.float32)
    out = initial.copy()
    with sim.options(checks=True), sim.trace() as t:
        kernel[h // 32 + 1, 32](starts, cols.astype(np.int32), dense[r, cols], x, out)
    check(out, (initial + dense.T.astype(np.float64) @ x).astype(np.float32), rtol=1e-5, atol=1e-5)
    adding = count_threads(t, 'atomic')
    rows = len(set(r))
    if adding < rows:
        subject = f'only {adding} thread{"s add" if adding > 1 else " adds"}' if adding else 'no thread adds'
        raise AssertionError(
            f'the result is right, but {subject} atomically, for {rows} row{"s" * (rows > 1)} with nonzeros: let each '
            'thread process one row of the matrix, and add to `out` at the column indices of the row'
        )


def kept_magnitude(w):
    "Return the sum of the magnitudes that 2:4 pruning of `w` keeps"
    return np.sort(np.abs(w).reshape(-1, 4), 1)[:, 2:].sum()


def best_kept_magnitude(w):
    "Return the largest sum of magnitudes that an order of eight columns keeps"
    groups = ([0, *other_columns] for other_columns in itertools.combinations(range(1, 8), 3))
    return max(kept_magnitude(w[:, group + [c for c in range(8) if c not in group]]) for group in groups)


def eight_column_matrices(rng, h, kind):
    "Yield matrices of eight columns for a case"
    if kind == 'each grouping is best once':  # a row has two large values in either four
        for other_columns in itertools.combinations(range(1, 8), 3):
            fours = [0, *other_columns], [c for c in range(8) if c not in (0, *other_columns)]
            w = rng.normal(size=(h, 8)) * 0.1
            for row in w:
                for four in fours:
                    row[rng.permutation(four)[:2]] = rng.choice((-1, 1), 2) * rng.uniform(1, 2, 2)
            yield w
        return
    if kind == 'of all sizes':
        yield from rng.normal(size=(40, h, 8)) ** 3
        return
    w = rng.normal(size=(h, 8))
    if kind == 'some columns large':
        w[:, rng.permutation(8)[:3]] *= 6
    if kind == 'in pairs':
        w[:, rng.permutation(8)] = np.where(rng.random((h, 8)) < 0.5, 0.1, 1) * np.repeat(w[:, :2] * 3, 4, 1)
    yield w


@problem(
    'sparsity.groups',
    cases=[
        *(dict(h=h, kind=kind) for h in (1, 4, 32) for kind in ('normal', 'some columns large', 'in pairs')),
        dict(h=32, kind='of all sizes'),
        dict(h=24, kind='each grouping is best once'),
    ],
    hints=[
        'What a group of four columns keeps does not depend on the other group. Write that sum first.',
        'That sum is `np.sort(np.abs(w[:, cols]), 1)[:, 2:].sum()`. `itertools.combinations(range(8), 4)` gives '
        'the groups.',
        'Add the sum that the other four columns keep, take the group with the largest sum, and return the two groups, '
        'concatenated.',
    ],
)
def _(fn, rng, h, kind):
    for w in eight_column_matrices(rng, h, kind):
        result = fn(w.copy())
        if sorted(map(str, result)) != list('01234567'):
            raise AssertionError(f'return the column indices 0 to 7, each once, in one list; got {result}')
        kept_sum = kept_magnitude(w[:, list(result)])
        best = best_kept_magnitude(w)
        if kept_sum < best * (1 - 1e-12):
            raise AssertionError(f'this order keeps a total magnitude of {kept_sum:.6g}; the best one keeps {best:.6g}')


def valid_masks():
    "Return all masks of 4 x 4 with two in each row and each column"
    rows = [[i in pair for i in range(4)] for pair in PAIRS]
    return np.array([s for s in itertools.product(rows, repeat=4) if (np.sum(s, 0) == 2).all()])


@problem(
    'sparsity.both',
    cases=[
        *(dict(h=h, w=w) for h, w in ((4, 4), (4, 4), (8, 4), (4, 12), (16, 24))),
        dict(h=36, w=40, kind='each square is best once'),
    ],
    hints=[
        'Handle the squares of 4 x 4 one by one: they are independent.',
        'A row of a square is one of six: `itertools.combinations(range(4), 2)`. Four such rows give 1296 squares, '
        'and 90 of them have two in each column.',
        'Per square of `w`, compute the magnitude that each of the 90 keeps: `(squares*np.abs(w)).sum((1, 2))`.',
    ],
)
def _(fn, rng, h, w, kind='normal'):
    m = rng.normal(size=(h, w))
    masks = valid_masks()
    if kind == 'each square is best once':
        best = masks.reshape(9, 10, 4, 4).swapaxes(1, 2).reshape(h, w)
        m = np.where(best, np.sign(m) * rng.uniform(1, 2, (h, w)), 0.1 * m)
    result = np.asarray(fn(m.copy()))
    if result.shape != (h, w) or result.dtype != bool:
        raise AssertionError(f'return a mask of {h} x {w} booleans; got shape {result.shape}, dtype {result.dtype}')
    for r, c in itertools.product(range(0, h, 4), range(0, w, 4)):
        tile_mask = result[r : r + 4, c : c + 4]
        magnitudes = np.abs(m[r : r + 4, c : c + 4])
        location = f'rows {r} to {r + 3}, columns {c} to {c + 3}'
        if (tile_mask.sum(0) != 2).any() or (tile_mask.sum(1) != 2).any():
            counts = f'{tile_mask.sum(1).tolist()} in its rows, {tile_mask.sum(0).tolist()} in its columns'
            raise AssertionError(f'{location}: keep two in each row and each column; got {counts}')
        kept_sum = magnitudes[tile_mask].sum()
        best = (masks * magnitudes).sum((1, 2)).max()
        if kept_sum < best * (1 - 1e-12):
            raise AssertionError(
                f'{location}: the mask keeps a magnitude of {kept_sum:.6g}; the best one keeps {best:.6g}'
            )
