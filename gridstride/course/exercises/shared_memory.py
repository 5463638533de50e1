"""Test cases for the lesson's exercises. Reading this file spoils them."""

from contextlib import contextmanager, nullcontext

import numpy as np

from ..grading import Memory, normal, output, problem, check_unchanged, watch
from ..runner import run_shared, run_threads
from ...utils import cdiv, check, dim3

__all__ = ['run_recorded', 'check_shared_is_used', 'TILES', 'check_row_major', 'reversed_threads']


def run_recorded(fn, blocks, threads, sh_sz, *args):
    """Run `run_shared` with shared memory that rejects negative indices and records accesses; return whether all
    blocks both wrote and read theirs"""

    def run_block(b, d, shared, *args):
        shared = Memory('shared', shared)
        fn(b, d, shared, *args)
        if shared.index_errors:
            raise AssertionError(f'{shared.index_errors[0]}') from shared.index_errors[0]
        uses_shared.extend([bool(shared.writes), bool(shared.reads)])

    uses_shared = []
    run_shared(run_block, blocks, threads, sh_sz, *args)
    return all(uses_shared)


def check_shared_is_used(uses_shared):
    "Raise AssertionError unless every block used its shared memory"
    if not uses_shared:
        raise AssertionError('the result is right, but some values bypassed `shared`: use no other memory in a block')


@problem(
    'shared_memory.split',
    cases=[dict(n=n, na=na, nb=nb) for n, na, nb in ((6, 1, 2), (7, 3, 3), (9, 4, 0), (32, 16, 9), (5, 2, 3))],
    hints=[
        'A slice is a view. Where does the second one begin, and where does it end?',
        '`shared[:na]`, then `nb` elements from `na` on, then the remaining ones.',
        '`return shared[:na], shared[na:na+nb], shared[na+nb:]`',
    ],
)
def _(fn, rng, n, na, nb):
    shared = np.zeros(n, np.float32)
    result = fn(shared, na, nb)
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        raise AssertionError(f'the function must return three views; got {result!r}')
    for i, (v, size) in enumerate(zip(result, (na, nb, n - na - nb))):
        if not isinstance(v, np.ndarray):
            raise AssertionError(
                f'view {i} must be an array; got {type(v).__name__}: return slices of shared, which are views'
            )
        if tuple(v.shape) != (size,):
            raise AssertionError(f'view {i} has shape {tuple(v.shape)}; expected {(size,)}')
        v[:] = i + 1
        if size and (shared == i + 1).sum() != size:
            raise AssertionError(f'writing to view {i} does not change shared: return a slice, not a copy')
    check(shared, np.repeat(np.float32([1, 2, 3]), (na, nb, n - na - nb)))


TILES = [
    dict(h=h, w=w, tw=tw, ty=ty, tx=tx)
    for h, w, tw in ((3, 5, 2), (7, 9, 4), (2, 2, 2), (1, 5, 4), (6, 1, 4))
    for ty in range(cdiv(h, tw))
    for tx in range(cdiv(w, tw))
]


@problem(
    'shared_memory.load_tile',
    returns=False,
    cases=TILES,
    hints=[
        'First compute the row and column in `x`: tile index times tile width, plus the position within the tile.',
        '`r = ty*tw + tr`, `c = tx*tw + tc`. Which of the two must be less than `h`, and which less than `w`?',
        'Every thread writes the element if it exists, and 0 if not. A bare `if` would leave old values in the tile.',
    ],
)
def _(fn, rng, h, w, tw, ty, tx):
    x = normal(rng, h, w)
    padded = np.zeros((cdiv(h, tw) * tw, cdiv(w, tw) * tw), np.float32)
    padded[:h, :w] = x
    xs, ts = Memory('x', x), Memory('ts', np.full(tw * tw, np.nan))

    def run_thread(tr, tc):
        watch(fn, f'thread tr={tr}, tc={tc}', [tr * tw + tc], ts, tr, tc, ts, xs, h, w, ty, tx, tw, needs=1)

    run_threads(run_thread, dim3(tw, tw))
    check_unchanged(xs)
    check(ts.a.reshape(tw, tw), padded[ty * tw : (ty + 1) * tw, tx * tw : (tx + 1) * tw])


# A transpose is judged by its access pattern, too: within a tile, neighbouring threads must read neighbouring
# addresses, and write neighbouring addresses.
def check_row_major(indices, cols, tw, array_name):
    "Raise AssertionError unless `indices` (of a matrix with `cols` columns) visit each tile in row-major order"
    # Compares only consecutive accesses, so it catches column order but not uncoalesced access as such.
    for a, b in zip(indices, indices[1:]):
        if a // cols // tw == b // cols // tw and a % cols // tw == b % cols // tw and b < a:
            raise AssertionError(
                f'the result is right, but {array_name}[{b}] was accessed after {array_name}[{a}]: '
                f'let thread (tr, tc) access row tr, column tc of the tile of {array_name}'
            )


@problem(
    'shared_memory.transpose',
    returns=False,
    cases=[dict(h=h, w=w, tw=4) for h, w in ((3, 5), (8, 10), (4, 4), (9, 2), (1, 1))],
    hints=[
        'The first step is `load_tile`; it needs no padding. The second works on the tile of `out`: '
        'which block of `out` is it?',
        'In `out`, this is the tile in row `blockIdx.x` and column `blockIdx.y` of the tiles.',
        'Write `out[r*h + c] = shared[tc*tw + tr]` with `r = blockIdx.x*tw + tr`, `c = blockIdx.y*tw + tc`, '
        'guarded by `r < w and c < h`.',
    ],
)
def _(fn, rng, h, w, tw):
    x = normal(rng, h, w)
    xs = Memory('x', x)
    out = output(h * w)
    uses_shared = run_recorded(fn, (cdiv(w, tw), cdiv(h, tw)), (tw, tw), tw * tw, xs, out, h, w, tw)
    check_unchanged(xs)
    check(out.a.reshape(w, h), x.T)
    check_row_major(xs.reads, w, tw, 'x')
    check_row_major(out.writes, h, tw, 'out')
    if len(xs.reads) != h * w:
        raise AssertionError(f'x was read {len(xs.reads)} times: read each of its {h * w} elements once')
    check_shared_is_used(uses_shared)


# In forward order, a thread that loads an element often runs before those that read it, which hides a missing barrier.
# Reverse order exposes it.
@contextmanager
def reversed_threads(fn):
    "Inside the `with` block, `run_threads` in `fn`'s module runs the threads from last to first"

    def run_reversed(f, blockDim, *args):
        for tr in reversed(range(blockDim.y)):
            for tc in reversed(range(blockDim.x)):
                f(tr, tc, *args)

    names = getattr(fn, '__globals__', {})
    original = names.get('run_threads')
    if original is None:
        yield
        return
    names['run_threads'] = run_reversed
    try:
        yield
    finally:
        names['run_threads'] = original


@problem(
    'shared_memory.window',
    returns=False,
    cases=[
        dict(n=n, tpb=tpb, order=order)
        for n, tpb in ((9, 4), (30, 8), (5, 4), (4, 4), (1, 4))
        for order in ('forward', 'reverse')
    ],
    hints=[
        'Thread `tc` loads its own element into `shared[tc+1]`. Which threads load the two elements of the halo?',
        'Let thread 0 load `x[first-1]` into `shared[0]` and `x[first+blockDim.x]` into the last element, or 0 '
        'outside `x`.',
        'Elements past `n` must be 0 in shared memory, too: the preceding thread reads them. '
        'Then `out[i] = shared[tc] + shared[tc+1] + shared[tc+2]`.',
    ],
)
def _(fn, rng, n, tpb, order):
    x = normal(rng, n)
    xs = Memory('x', x)
    out = output(n)
    with reversed_threads(fn) if order == 'reverse' else nullcontext():
        uses_shared = run_recorded(fn, cdiv(n, tpb), tpb, tpb + 2, xs, out, n)
    check_unchanged(xs)
    padded = np.concatenate([[0], x, [0]])
    check(out.a, (padded[:-2] + padded[1:-1] + padded[2:]).astype(np.float32), atol=1e-5, tile=tpb)  # two additions
    if len(xs.reads) > n + 2 * cdiv(n, tpb):
        raise AssertionError(f'x was read {len(xs.reads)} times: with a halo, {n + 2 * cdiv(n, tpb)} reads are enough')
    check_shared_is_used(uses_shared)
