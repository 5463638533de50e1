"""Test cases for the lesson's exercises. Reading this file spoils them."""

import numpy as np

from ..grading import Memory, normal, numbers, output, problem, check_unchanged, watch
from ..runner import run_blocks
from ...utils import cdiv, check, dim3

__all__ = ['SIZES', 'SHAPES', 'run_watched', 'run_2d']


SIZES = (
    (5, 7, dim3(4, 2)),
    (17, 16, dim3(16, 16)),
    (100, 33, dim3(32, 8)),
    (16, 16, dim3(16, 16)),
    (1, 1, dim3(16, 16)),
)


@problem(
    'blocks_and_threads.grid',
    cases=[dict(h=h, w=w, threads=t) for h, w, t in SIZES],
    hints=[
        'How many blocks does a row of `w` columns need, when a block is `threads.x` wide?',
        'Columns go with x, rows with y: `dim3(... for w ..., ... for h ...)`.',
        '`cdiv(w, threads.x)` for x. The same with `h` and `threads.y` for y.',
    ],
)
def _(fn, rng, h, w, threads):
    result = fn(h, w, threads)
    expected = dim3(cdiv(w, threads.x), cdiv(h, threads.y))
    if result is None:
        raise AssertionError('the function returned None: return the grid')
    if tuple(dim3(result)) != tuple(expected):
        raise AssertionError(f'got {dim3(result)}, but the smallest grid that covers all elements is {expected}')


# Shapes and blocks are not square, so that swapped x and y give a wrong result. A thread that writes an element of
# another thread is reported.
def run_watched(fn, blocks, threads, indices_of, out, *args, needs):
    "Run the kernel on a grid; thread (row, column) must write `indices_of(r, c)` of `out`, reading `needs` elements"

    def run_thread(b, t, d, *args):
        r, c = b.y * d.y + t.y, b.x * d.x + t.x
        thread_name = f'the thread at row {r}, column {c}' if d.y > 1 else f'the thread with index {c}'
        watch(fn, thread_name, indices_of(r, c), out, b, t, d, *args, needs=needs)

    run_blocks(run_thread, blocks, threads, *args)


def run_2d(fn, h, w, index, out, *args, needs):
    "Cover `h` by `w` with blocks of 4 by 2; a thread (row, column) in bounds must write `out[index(r, c)]`"
    blocks = cdiv(w, 4), cdiv(h, 2)
    run_watched(fn, blocks, (4, 2), lambda r, c: [index(r, c)] if r < h and c < w else [], out, *args, needs=needs)


SHAPES = [dict(h=h, w=w) for h, w in ((2, 3), (5, 17), (18, 3), (4, 8), (1, 9), (9, 1), (1, 1))]


@problem(
    'blocks_and_threads.transpose',
    returns=False,
    cases=SHAPES,
    hints=[
        'Find `r` and `c` as in the lesson, and guard both.',
        'The transpose has rows of length `h`, not `w`.',
        'The element at `x[r*w + c]` goes to `out[c*h + r]`.',
    ],
)
def _(fn, rng, h, w):
    x = numbers(rng, h, w)
    xs = Memory('x', x)
    out = output(h * w)
    run_2d(fn, h, w, lambda r, c: c * h + r, out, xs, out, h, w, needs=1)
    check_unchanged(xs)
    check(out.a.reshape(w, h), x.T)


@problem(
    'blocks_and_threads.row_max',
    returns=False,
    cases=[dict(h=h, w=w) for h, w in ((33, 3), (31, 2), (32, 5), (70, 4), (1, 9), (1, 1))]
    + [dict(h=5, w=3, scale=1e30)],  # below any constant that a maximum could start from
    hints=[
        'The thread index is 1-D, and it is the row: `r = blockIdx.x*blockDim.x + threadIdx.x`.',
        'All elements of a row may be negative, so do not start from 0: start from the first element of the row.',
        'Row `r` begins at `x[r*w]`. Loop over the other columns and keep the larger one.',
    ],
)
def _(fn, rng, h, w, scale=1):
    x = (normal(rng, h, w) - 3) * np.float32(scale)
    xs = Memory('x', x)
    out = output(h)
    run_watched(fn, cdiv(h, 32), 32, lambda r, c: [c] if c < h else [], out, xs, out, h, w, needs=w)
    check_unchanged(xs)
    check(out.a, x.max(1))


@problem(
    'blocks_and_threads.matmul_nt',
    returns=False,
    cases=[dict(h=h, w=w, k=k) for h, w, k in ((5, 9, 3), (9, 2, 7), (3, 13, 20), (4, 4, 4), (1, 1, 1))],
    hints=[
        'Only one index of the lesson’s kernel changes.',
        'Column `c` of `n.T` is row `c` of `n`, and a row of `n` has `k` elements.',
        '`n[c*k + i]` replaces `n[i*w + c]`.',
    ],
)
def _(fn, rng, h, w, k):
    m, n = normal(rng, h, k), normal(rng, w, k)
    ms = Memory('m', m)
    ns = Memory('n', n)
    out = output(h * w)
    run_2d(fn, h, w, lambda r, c: r * w + c, out, ms, ns, out, h, w, k, needs=2 * k)
    check_unchanged(ms, ns)
    expected = (m.astype(np.float64) @ n.T).astype(np.float32)
    result = out.a.reshape(h, w)
    if not np.allclose(result, expected, atol=1e-4) and np.allclose(result, m @ n.reshape(k, w), atol=1e-4):
        raise AssertionError(
            f'this is the product of m and an n with {k} rows of {w} elements; '
            f'but n has {w} rows of {k} elements, and the kernel must use each row as a column'
        )
    check(result, expected, atol=1e-4)  # at most 20 rounding errors of values around 5


@problem(
    'blocks_and_threads.grid_stride',
    returns=False,
    cases=[
        dict(n=n, blocks=b, threads=t)
        for n, b, t in ((50, 3, 4), (9, 2, 4), (8, 2, 4), (3, 2, 4), (64, 1, 1), (1, 1, 4))
    ],
    hints=[
        'Start with the index you know, then write a grid-stride loop: a `while` loop, or `range` with three '
        'arguments.',
        'How many threads does the whole grid have? That is the stride.',
        '`range(first, n, gridDim.x*blockDim.x)` needs no guard: it ends before `n`.',
    ],
)
def _(fn, rng, n, blocks, threads):
    x = normal(rng, n)
    xs = Memory('x', x)
    out = output(n)
    threads_in_grid = blocks * threads
    per_thread = cdiv(n, threads_in_grid)

    def indices_of(r, c):
        return range(c, n, threads_in_grid)

    run_watched(fn, blocks, threads, indices_of, out, dim3(blocks), xs, out, n, needs=per_thread)
    check_unchanged(xs)
    if set(out.writes) == set(range(min(threads_in_grid, n))) and n > threads_in_grid:
        raise AssertionError(
            f'only the first {threads_in_grid} of {n} elements are written, one per thread: '
            'each thread must continue with a stride of the number of threads in the grid'
        )
    check(out.a, 2 * x)
    if len(out.writes) > n:
        twice = next(i for i in out.writes if out.writes.count(i) > 1)
        raise AssertionError(f'out[{twice}] was written {out.writes.count(twice)} times: write each element once')
