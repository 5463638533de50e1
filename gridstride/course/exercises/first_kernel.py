"""Test cases for the lesson's exercises. Reading this file spoils them."""

import numpy as np

from ..grading import Memory, numbers, output, problem, check_unchanged, watch
from ..runner import run_kernel
from ...utils import cdiv, check

__all__ = ['SHAPES', 'one_element', 'run_watched', 'own_index']


# Each try has new random inputs, outputs start as NaN, and the threads run in a shuffled order. A thread that writes
# an element of another thread is reported.
def run_watched(fn, rng, n, indices_of, out, *args, needs):
    "Run `fn(i, *args)` with at least `n` threads; thread `i` must write `indices_of(i)`, reading `needs` elements"
    num_threads = cdiv(n, 32) * 32

    def run_thread(i):
        watch(
            fn, f'thread {i} of the {num_threads} started', indices_of(i) if i < n else [], out, i, *args, needs=needs
        )

    run_kernel(run_thread, num_threads, order=rng.permutation(num_threads).tolist())


def own_index(i) -> list:
    """Return the indices of thread `i`, where each thread writes the element at its own index.

    >>> own_index(3)
    [3]"""
    return [i]


def one_element(fn, out):
    "Return `fn` with a check: raises `AssertionError` if a thread writes more than one element of `out`"

    def watched(i, *args):
        num_writes = len(out.writes)
        fn(i, *args)
        if len(indices := sorted(set(out.writes[num_writes:]))) > 1:
            raise AssertionError(
                f'thread {i} wrote {out.name}[{indices[0]}] and {out.name}[{indices[1]}]: write one element only'
            )

    return watched


@problem(
    'first_kernel.invert',
    returns=False,
    cases=[dict(n=n) for n in (33, 103, 31, 32, 1)],
    hints=[
        'One thread, one element: what does thread `i` read, and what does it write?',
        'There may be more threads than elements. Which of them must do nothing?',
        '`if i < n:` and then one assignment to `out[i]`.',
    ],
)
def _(fn, rng, n):
    x = rng.uniform(size=n).astype(np.float32)
    xs = Memory('x', x)
    out = output(n)
    run_watched(fn, rng, n, own_index, out, xs, out, n, needs=1)
    check_unchanged(xs)
    check(out.a, 1 - x)


SHAPES = [dict(h=h, w=w) for h, w in ((2, 3), (5, 8), (13, 17), (1, 7), (7, 1), (1, 1))]


@problem(
    'first_kernel.flip',
    returns=False,
    cases=SHAPES,
    hints=[
        'The row stays the same; only the column changes.',
        'Column 0 becomes the last column, `w-1`; column 1 becomes `w-2`. And column `c`?',
        'Pixel (r, c) is stored at `r*w + c`. Read from `r*w + w-1-c`, write to `out[i]`, and keep the guard.',
    ],
)
def _(fn, rng, h, w):
    x = numbers(rng, h, w)
    xs = Memory('x', x)
    out = output(h * w)
    # thread i may write out[i], or mirror the index that it writes
    checked = one_element(fn, out)
    run_watched(checked, rng, h * w, lambda i: [i, i // w * w + w - 1 - i % w], out, xs, out, h, w, needs=1)
    check_unchanged(xs)
    check(out.a.reshape(h, w), x[:, ::-1])


@problem(
    'first_kernel.pixels',
    returns=False,
    cases=[dict(n=n) for n in (2, 35, 31, 32, 64, 1)],
    hints=[
        'The three values of pixel `i` are at `x[i]`, `x[i+n]` and `x[i+2*n]`.',
        'In the output the values of pixel 0 are at 0, 1, 2, those of pixel 1 at 3, 4, 5. Where does pixel `i` begin?',
        '`out[3*i + ch] = x[i + ch*n]` for the channels 0, 1, 2, guarded by `i < n`.',
    ],
)
def _(fn, rng, n):
    x = numbers(rng, 3, n)
    xs = Memory('x', x)
    out = output(3 * n)
    run_watched(fn, rng, n, lambda i: range(3 * i, 3 * i + 3), out, xs, out, n, needs=3)
    check_unchanged(xs)
    check(out.a, x.T.flatten())


def _blur(x):
    "Return the mean of each element and its left and right neighbours, computed in float64"
    total = x.astype(np.float64)
    count = np.ones(x.shape)
    total[:, 1:] += x[:, :-1]
    count[:, 1:] += 1
    total[:, :-1] += x[:, 1:]
    count[:, :-1] += 1
    return (total / count).astype(np.float32)


@problem(
    'first_kernel.blur',
    returns=False,
    cases=SHAPES,
    hints=[
        'The column is `i % w`. When is there a left neighbour? When a right one?',
        'Count as you add: start with `total,count = x[i],1`.',
        '`if c > 0:` adds `x[i-1]`, `if c < w-1:` adds `x[i+1]`; each adds 1 to the count. '
        'Write `total = total + x[i-1]`: `+=` would change `x` itself, where `x[i]` is a view.',
    ],
)
def _(fn, rng, h, w):
    x = numbers(rng, h, w)
    xs = Memory('x', x)
    out = output(h * w)
    run_watched(fn, rng, h * w, own_index, out, xs, out, h, w, needs=3)
    check_unchanged(xs)
    check(out.a.reshape(h, w), _blur(x))
