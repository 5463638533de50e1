"""Test cases for the lesson's exercises. Reading this file spoils them."""

import re
from contextlib import suppress
from types import CellType, FunctionType

import numpy as np

from ...cpp import cuda_kernel, on_emulator
from ..grading import normal, problem
from ...sim import cuda, options, trace
from ...sim.cuda import Kernel
from ...translate import Untranslatable, to_cuda
from ...utils import cdiv, check

__all__ = [
    'as_simulator_kernel',
    'check_unchanged',
    'run',
    'run_as_c',
    'count_accesses',
    'find_unwritten',
    'count_threads',
    'check_distribution',
    'expected_float32',
    'find_double',
    'count_tile_loads',
    'check_counted',
]


# Every answer is a kernel in Numba's dialect. It runs on the simulator, even on a machine with a GPU, because only the
# simulator reports a data race whose result is right. `to_cuda` must also be able to translate the two long ones.
def as_simulator_kernel(fn):
    "Return `fn` as a kernel of the simulator; for one of Numba's, the same function with the simulator's `cuda`"
    if isinstance(fn, Kernel):
        return fn
    if not hasattr(fn, 'py_func'):
        raise AssertionError('the function is not a kernel: it needs @cuda.jit above it, between @exercise and def')
    f = fn.py_func

    def swap(v):
        return cuda if getattr(v, '__name__', '') == 'numba.cuda' else v

    space = {k: swap(v) for k, v in f.__globals__.items()}
    closure = tuple(CellType(swap(c.cell_contents)) for c in f.__closure__ or ()) or None
    return cuda.jit(FunctionType(f.__code__, space, f.__name__, f.__defaults__, closure))


def check_unchanged(**pairs):  # name -> (before, after)
    "Raise `AssertionError` if an input was written"
    for name, (old, new) in pairs.items():
        if not np.array_equal(old, new):
            raise AssertionError(f'{name} was changed: read from {name}, write to out only')


def run(fn, rng, blocks, threads, *args):
    "Run the kernel with its threads in a random order; return its trace"
    with options(order='shuffle', seed=int(rng.integers(1000))), trace() as t:
        as_simulator_kernel(fn)[blocks, threads](*args)
    return t


def run_as_c(fn, blocks, threads, *args):
    "Translate the kernel with `to_cuda` and run it on the emulator"
    src = to_cuda(fn, *args)
    with on_emulator():
        cuda_kernel(src)[blocks, threads](*src.pack(args))


def count_accesses(t, space, *verbs):
    "Count the accesses, one per thread and element, to memory `space` whose verb is in `verbs`"
    return sum(len(a['at']) for a in t.accesses if a['space'] == space and a['verb'] in verbs)


def find_unwritten(t, shape):
    "Return which elements of the output, a contiguous array of bytes, were not written"
    is_unwritten = np.ones(shape, bool)
    for a in t.accesses:
        if a['space'] == 'global' and a['verb'] == 'written':
            is_unwritten.ravel()[a['at']] = False
    return is_unwritten


def count_threads(t, verb, group_size=1):  # verb: 'read', 'written' or 'atomic'; group_size: 32 to count warps
    "Count the threads, or groups of threads, that made such an access to global memory"
    accesses = [a for a in t.accesses if (a['verb'], a['space']) == (verb, 'global')]
    return len({(b, i // group_size) for a in accesses for b, i in zip(a['block'].tolist(), a['thread'].tolist())})


def check_distribution(
    t,
    verb,
    min_count,
    work,  # what these threads did, for the message: 'wrote 35 bytes'
    remedy='distribute the work over all threads',
    group_size=1,  # as for `count_threads`
):
    "Raise `AssertionError` if fewer than `min_count` threads, or warps, made such an access"
    if (n := count_threads(t, verb, group_size)) < min_count:
        raise AssertionError(f'only {n} {"thread" if group_size == 1 else "warp"}{"s" * (n != 1)} {work}: {remedy}')


@problem(
    'numba.grey',
    returns=False,
    cases=[dict(h=h, w=w, step=step) for h, w in ((1, 1), (16, 16), (17, 31), (5, 40)) for step in (1, 2)],
    hints=[
        'Compute `r` and `c` as always, and add a guard that takes the sizes from `out.shape`.',
        'The three bytes of a pixel are `x[r,c,0]`, `x[r,c,1]`, `x[r,c,2]`. '
        'Storing a float to a byte truncates it: add 0.5 first.',
        '`out[r,c] = np.float32(0.2989)*x[r,c,0] + ... + np.float32(0.5)`. '
        'Nothing is flattened, so gaps in the picture do not matter.',
    ],
)
def _(fn, rng, h, w, step):
    x = rng.integers(0, 256, (h * step, w * step, 3)).astype(np.uint8)[::step, ::step]
    old = x.copy()
    out = np.zeros((h, w), np.uint8)
    t = run(fn, rng, (cdiv(w, 16), cdiv(h, 16)), (16, 16), x, out)
    check_unchanged(x=(old, x))
    if (
        stored := t.stats.global_store_bytes
    ) > h * w:  # before `find_unwritten`: a trace keeps a limited number of accesses
        raise AssertionError(f'{stored:,} bytes are stored, but out has {h * w}: let each thread compute its own pixel')
    if (is_missing := find_unwritten(t, (h, w))).any():
        r, c = np.argwhere(is_missing)[0]
        raise AssertionError(
            f'{is_missing.sum()} of {is_missing.size} bytes are never written, the first of them out[{r},{c}]: '
            'which thread has that row and that column? Columns are along x'
        )
    check_distribution(t, 'written', h * w, f'wrote {h * w} bytes')
    expected = old.astype(np.float64) @ [0.2989, 0.5870, 0.1140]
    is_wrong = np.abs(out - expected) > 0.501  # close to a half, a float may be rounded up or down
    if is_wrong.any():
        r, c = np.argwhere(is_wrong)[0]
        raise AssertionError(
            f'{is_wrong.sum()} of {is_wrong.size} bytes are wrong; out[{r},{c}] is {out[r, c]}, '
            f'but its grey value is {expected[r, c]:.2f}'
            + (': round to the nearest integer' if abs(out[r, c] - expected[r, c]) < 1 else '')
        )


# An operation in float64 changes the last bits of the result. So the values must equal, bit for bit, those that NumPy
# computes in float32 in the same order.
def expected_float32(x, y):
    "Return the expected result of numba.float32, computed in float32 only"
    total = np.zeros(len(x), np.float32)
    for c in range(x.shape[1]):
        total += np.abs(x[:, c]) * np.float32(0.1)
    return total / np.float32(x.shape[1]) + y / np.float32(3)


# The last bits do not show whether a quotient was computed in float64 and rounded afterwards. The translation to C
# does: it has Numba's types.
def find_double(fn, *args):
    "Return the first line of the kernel, as C with Numba's types, that computes with a `double`; None if there is none"
    with suppress(Untranslatable):
        lines = str(to_cuda(fn, *args, numba_types=True)).split('#ifndef')[0].splitlines()
        return next((line.strip() for line in lines if re.search(r'\bdouble\b', line.partition('//')[0])), None)


@problem(
    'numba.float32',
    returns=False,
    cases=[dict(h=h, w=w) for h, w in ((64, 3), (33, 1), (1, 100), (2000, 50))],
    hints=[
        'Four expressions need a change. Which constants are Python floats? And what is the type of a float '
        'divided by an integer?',
        '`np.float32(0.1)` is a 32-bit float; so is a sum that starts with `np.float32(0)`.',
        'float32 divided by int64 is float64 in Numba: divide by `np.float32(x.shape[1])`, and by `np.float32(3)`.',
    ],
)
def _(fn, rng, h, w):
    x = normal(rng, h, w)
    y = normal(rng, h)
    out = np.full(h, np.nan, np.float32)
    old = x.copy(), y.copy()
    t = run(fn, rng, cdiv(h, 64), 64, x, y, out)
    check_unchanged(x=(old[0], x), y=(old[1], y))
    expected = expected_float32(x, y)
    check(out, expected, atol=1e-5)  # right to within float32 at all?
    if h < 100:  # a trace keeps no more
        check_distribution(t, 'written', h, f'wrote {h} results')
    line = find_double(fn, x, y, out)
    if n := int((out != expected).sum()):
        reason = (
            f'this line, translated to C, computes in float64: {line}'
            if line
            else 'the kernel computes in another order'
        )
        raise AssertionError(f'{n} of {h} results differ in their last bits from those of float32 alone: {reason}')
    if line:
        raise AssertionError(
            'the results are bit-identical, but this line, translated to C, computes in float64 and then rounds: '
            f'{line}'
        )


def count_tile_loads(n):
    "Count the loads of `n` elements by tiles of 16 with a halo of one element on both sides"
    return sum(min(first + 17, n) - max(first - 1, 0) for first in range(0, n, 16))


@problem(
    'numba.box',
    returns=False,
    cases=[dict(h=h, w=w) for h, w in ((16, 16), (33, 17), (5, 40), (1, 1), (47, 50))],
    hints=[
        'A block of 16x16 results needs 18x18 elements: element `[i,j]` of the tile is row `blockIdx.y*16 + i - 1` '
        'and column `blockIdx.x*16 + j - 1` of `x`, or 0 outside `x`.',
        '256 threads, 324 elements: each thread fills `[tr,tc]`, and some fill `[tr+16,...]` and `[...,tc+16]`, '
        'too: `for i in range(tr, 18, 16)`, and likewise for `j`.',
        'Every thread fills and waits. Only after that comes the guard `r < h and c < w`, '
        'and the sum of the nine `s[tr+i,tc+j]`.',
    ],
)
def _(fn, rng, h, w):
    x = normal(rng, h, w)
    out = np.full((h, w), np.nan, np.float32)
    old = x.copy()
    blocks = (cdiv(w, 16), cdiv(h, 16))
    t = run(fn, rng, blocks, (16, 16), x, out)
    check_unchanged(x=(old, x))
    padded = np.pad(x.astype(np.float64), 1)
    check(
        out,
        (sum(padded[i : i + h, j : j + w] for i in range(3) for j in range(3)) / 9).astype(np.float32),
        atol=1e-5,
        tile=16,
    )  # the rounding errors of nine values around 1
    reads = count_accesses(t, 'global', 'read')
    max_reads = count_tile_loads(h) * count_tile_loads(w)
    if reads > max_reads:
        raise AssertionError(
            f'x is read {reads} times: with tiles of 18x18 in shared memory, read it at most {max_reads} times'
        )
    check_distribution(t, 'written', h * w, f'wrote {h * w} results')
    check_distribution(t, 'read', h * w / 2, f'loaded {reads} elements into shared memory')
    c = np.full((h, w), np.nan, np.float32)
    run_as_c(fn, blocks, (16, 16), x, c)
    check(c, out, atol=1e-6, tile=16)  # the same rounding errors, except where the compiler contracts to an FMA


def check_counted(out, h, w, blocks):
    "Raise `AssertionError` if a grid that is smaller than the picture leaves pixels uncounted"
    grid_width, grid_height = 16 * blocks[0], 16 * blocks[1]
    if 0 < out.sum() < h * w and (grid_width < w or grid_height < h):
        raise AssertionError(
            f'only {out.sum()} of {h * w} pixels are counted: the grid has {grid_height} rows and {grid_width} columns '
            'of threads, fewer than the picture: use a grid-stride loop over rows and one over columns'
        )


@problem(
    'numba.histogram',
    returns=False,
    cases=[
        dict(h=h, w=w, blocks=b)
        for h, w, b in ((40, 50, (2, 1)), (16, 16, (1, 1)), (3, 70, (1, 2)), (65, 33, (2, 2)), (1, 1, (2, 1)))
    ],
    hints=[
        'Each of the 256 threads takes care of one of the 256 counters in shared memory: it clears that counter, '
        'waits, counts its pixels, waits, and adds that counter to `out`.',
        'The grid is smaller than the picture: `for r in range(first row of this thread, h, '
        'rows of the whole grid)`, and the same for columns. The whole grid has `cuda.gridDim.y*cuda.blockDim.y` rows.',
        '`cuda.atomic.add(s, x[r,c], 1)` in the loops; after the second wait, with `i = tr*16 + tc`: '
        '`cuda.atomic.add(out, i, s[i])`.',
    ],
)
def _(fn, rng, h, w, blocks):
    x = np.minimum(rng.integers(0, 256, (h, w)), rng.integers(0, 256, (h, w))).astype(np.uint8)
    out = np.zeros(256, np.int32)
    x[-1, -1] = 255  # a value that the minimum of two random bytes hardly ever has
    old = x.copy()
    t = run(fn, rng, blocks, (16, 16), x, out)
    check_unchanged(x=(old, x))
    check_counted(out, h, w, blocks)
    check(out, np.bincount(old.ravel(), minlength=256).astype(np.int32))
    num_additions = count_accesses(t, 'global', 'atomic')
    max_additions = 256 * blocks[0] * blocks[1]
    if num_additions > max_additions:
        raise AssertionError(
            f'{num_additions} additions to out in global memory: count in shared memory first, then at most '
            f'{max_additions} are needed'
        )
    num_rows, num_columns = min(h, 16 * blocks[1]), min(w, 16 * blocks[0])
    check_distribution(t, 'read', num_rows * num_columns / 2, f'read {h * w} pixels')
    check_distribution(t, 'atomic', np.count_nonzero(out) / 2, f'added {num_additions} counts to out')
    c = np.zeros(256, np.int32)
    run_as_c(fn, blocks, (16, 16), x, c)
    check(c, out)
