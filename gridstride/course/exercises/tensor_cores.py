"""Test cases for the lesson's exercises. Reading this file spoils them."""

import numpy as np
import torch

from ..grading import problem
from .cuda_c import without_comments, launch, source
from ...kernels.ladder.ladder import Reference
from ...kernels.ladder.tensor_cores import types_src, ldmatrix_src, mma_src

__all__ = [
    'PRELUDE',
    'positions_in_a',
    'bank_groups',
    'check_columns',
    'judge_matmul',
    'is_product',
    'likely_mistakes',
    'matrix',
    'nans',
]


# The inverse of the map from lanes and registers to elements in the PTX manual.
def positions_in_a():
    "Return {(row, column): (lane, register, half)} for the 16x16 matrix `a` of an mma"
    return {
        (lane // 4 + q % 2 * 8, lane % 4 * 2 + q // 2 * 8 + half): (lane, q, half)
        for lane in range(32)
        for q in range(4)
        for half in range(2)
    }


@problem(
    'tensor_cores.holds',
    cases=[
        dict(rows=range(0, 8), cols=range(0, 8)),
        dict(rows=range(8, 16), cols=range(0, 8)),
        dict(rows=range(0, 8), cols=range(8, 16)),
        dict(rows=range(8, 16), cols=range(8, 16)),
    ],
    hints=[
        'A register holds two neighbouring columns of a row, the even one in its lower 16 bits and the odd one in '
        'its upper 16 bits. So the half is `col%2`.',
        'The four registers are the four quarters: `q%2` selects upper or lower, `q//2` left or right. '
        'Within a quarter, row `g` belongs to lanes `4*g` to `4*g + 3`.',
        'lane: `row%8*4 + col%8//2`; register: `row//8 + col//8*2`.',
    ],
)
def _(fn, rng, rows, cols):
    expected = positions_in_a()
    for r in rows:
        for c in cols:
            result = fn(r, c)
            if not isinstance(result, (tuple, list)) or len(result) != 3:
                raise AssertionError(
                    f'return three integers, lane, register and half; got {result!r} for row {r}, column {c}'
                )
            if tuple(result) != expected[r, c]:
                raise AssertionError(
                    f'row {r}, column {c}: got lane {result[0]}, register {result[1]}, half {result[2]}; expected lane '
                    f'{expected[r, c][0]}, register {expected[r, c][1]}, half {expected[r, c][2]}'
                )


# A swizzle is judged by the banks of its chunks: a chunk takes four banks, a wavefront has 32.
def bank_groups(
    index,
    rows,
    chunk,  # `index(r, c)` in elements of 2 bytes, for c = 8*chunk
) -> list:  # of integers from 0 to 7
    "Return the group of four banks that stores each row of an 8x8 matrix"
    return [index(r, 8 * chunk) // 8 % 8 for r in rows]


@problem(
    'tensor_cores.narrow',
    cases=[dict(how='indices'), dict(how='chunks'), *(dict(how='banks', first=f) for f in (0, 8, 24))],
    hints=[
        'Two rows of 64 bytes fill the 32 banks once. So rows 0 and 1 never conflict; rows 0 and 2 do, if their '
        'chunks are in the same order.',
        'There are four chunks in a row, and four pairs of rows in an 8x8 matrix. Each pair needs its own order.',
        'The pair is `r//2%4`; as in the lesson, change the index of the chunk by exclusive or: `32*r + (c ^ '
        'r//2%4*8)`.',
    ],
)
def _(fn, rng, how, first=0):
    def index(r, c):
        p = fn(r, c)
        if not isinstance(p, (int, np.integer)):
            raise AssertionError(f'an index must be an integer; got {p!r} for row {r}, column {c}')
        return int(p)

    for r in range(first, first + 8) if how == 'banks' else range(64):
        row = [index(r, c) for c in range(32)]
        if how == 'indices':
            check_columns(r, row)
        if how == 'chunks' and any(row[c] % 8 != c % 8 or row[c] - c % 8 != row[c // 8 * 8] for c in range(32)):
            raise AssertionError(
                f'row {r}: the 8 elements of a chunk, 16 bytes, must stay together and in order, at a multiple of 8'
            )
    if how == 'banks':
        for chunk in range(4):
            groups = bank_groups(index, range(first, first + 8), chunk)
            if len(set(groups)) < 8:
                shared_group = next(x for x in groups if groups.count(x) > 1)
                conflicting_rows = ', '.join(str(first + r) for r, x in enumerate(groups) if x == shared_group)
                raise AssertionError(
                    f'columns {8 * chunk} to {8 * chunk + 7}: rows {conflicting_rows} of this 8x8 matrix are in '
                    f'the same banks, {4 * shared_group} to {4 * shared_group + 3}'
                )


def check_columns(r, row):  # of columns 0 to 31
    "Raise `AssertionError` if a column of row `r` is stored outside the row, or two at the same index"
    for c, p in enumerate(row):
        if not 32 * r <= p < 32 * r + 32:
            raise AssertionError(f'row {r} must keep the indices {32 * r} to {32 * r + 31}; its column {c} is at {p}')
        if p in row[:c]:
            raise AssertionError(f'row {r}: columns {row.index(p)} and {c} are both at index {p}')


# The other two answers are sources. The judge prepends the lesson's functions and runs them on the emulator, even on a
# machine with a GPU. A result may be off by the rounding to bfloat16 and that of a float32 sum.
PRELUDE = types_src + mma_src + ldmatrix_src
MMA_STUB = (
    '__device__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {}\n'  # leaves the accumulators unchanged
)


def judge_matmul(fn, name, grid, a, b, **args):  # args: the kernel's, as `launch` takes them
    "Launch kernel `name` with one warp per block; raises `AssertionError` unless `out` is `a @ b`, by an mma"
    if 'mma(' not in without_comments(source(fn)):
        raise AssertionError('the source has no mma: compute the product on tensor cores')

    def run_with(definitions):
        return launch(lambda: definitions + source(fn), name, grid, 32, **args).reshape(args['out'].shape)

    out = run_with(PRELUDE)
    try:
        Reference(a, b)(out)
    except AssertionError as e:
        reason = next((reason for reason, *other in likely_mistakes(a, b, out) if is_product(*other)), None)
        raise AssertionError(f'{e}\n  This is the result if {reason}' if reason else str(e)) from None
    if is_product(a, b, run_with(PRELUDE.replace(mma_src, MMA_STUB))):
        raise AssertionError('the result is right, but no mma computes it: compute the product on tensor cores')


def is_product(a, b, out) -> bool:
    "Return whether `out` is the product of `a` and `b`"
    try:
        Reference(a, b)(out)
    except AssertionError:
        return False
    return True


# Each mistake is undone in one matrix: if the product is then correct, the answer made this mistake.
def likely_mistakes(a, b, out):  # h x k, k x w, h x w: multiples of 16, 16 and 8
    "Yield (mistake, a, b, out); the answer made the mistake if `out` is the product of `a` and `b`"
    quarters = a.reshape(a.shape[0] // 16, 2, 8, a.shape[1] // 16, 2, 8)
    halves = b.reshape(b.shape[0] // 16, 2, 8, b.shape[1] // 8, 8)
    held = out.reshape(out.shape[0] // 16, 2, 8, out.shape[1] // 8, 4, 2)
    yield (
        'two quarters of `a` are swapped: `a[1]` is the lower left one, `a[2]` the upper right one',
        quarters.permute(0, 4, 2, 3, 1, 5).reshape(a.shape),
        b,
        out,
    )
    yield 'each quarter of `a` is transposed', quarters.permute(0, 1, 5, 3, 4, 2).reshape(a.shape), b, out
    yield 'the whole 16x16 tile of `a` is transposed', quarters.permute(0, 4, 5, 3, 1, 2).reshape(a.shape), b, out
    yield '`b[0]` and `b[1]` are swapped', a, halves.flip(1).reshape(b.shape), out
    yield 'each 8x8 of `b` is transposed', a, halves.permute(0, 1, 4, 3, 2).reshape(b.shape), out
    yield (
        '`d[1]` and `d[2]` are swapped: `d[1]` is the right neighbour of `d[0]`, `d[2]` is 8 rows below',
        a,
        b,
        held.permute(0, 5, 2, 3, 4, 1).reshape(out.shape),
    )
    yield 'only the last step along k is in the sum', a[:, -16:], b[-16:], out


def matrix(rng, *shape):
    "Make random values in bfloat16, from float32 ones"
    return torch.tensor(rng.standard_normal(shape), dtype=torch.float32).bfloat16()


def nans(*shape):
    "Make an output of NaNs in bfloat16, which shows the elements that are never written"
    return torch.full(shape, torch.nan, dtype=torch.bfloat16)


@problem(
    'tensor_cores.linear',
    cases=[dict(h=h, w=w, k=k) for h, w, k in ((16, 8, 16), (16, 8, 48), (32, 8, 16), (16, 24, 16), (48, 40, 80))],
    hints=[
        'As in rung 3, without shared memory: load `a` in the same way, directly from `m`.',
        'Register `q` of `b` has rows `t + q*8` and the next, column `g`. '
        'Row `i`, column `j` of `b` is `n[(c + j)*k + idx + i]`: the two elements are neighbours in memory, so one '
        'load of 4 bytes loads both.',
        '`b[q] = *(const unsigned *)&n[(c + g)*k + idx + t + q*8]`, and `d` goes to rows `g` and `g + 8`, '
        'columns `t` and `t + 1`.',
    ],
)
def _(fn, rng, h, w, k):
    m, n = matrix(rng, h, k), matrix(rng, w, k)
    judge_matmul(fn, 'linear_k', (w // 8, h // 16), m, n.T, m=m, n=n, out=nans(h, w), h=h, w=w, k=k)


@problem(
    'tensor_cores.gram',
    cases=[dict(h=h, w=w) for h, w in ((16, 16), (48, 16), (16, 32), (32, 48), (64, 80))],
    hints=[
        'For the tile in row `r` and column `c` of `out` you need columns `r` to `r+15` of `m`, '
        'which must become the rows of `a`, and columns `c` to `c+15`, which are `b` as it is in the lesson. '
        'In each step, load 16 rows of both. These are 16 rows of 32 bytes each, one 16-byte load per lane.',
        '`b` is stored along its rows, so load it with `.trans`, as in the lesson. `a` is stored along its '
        '*columns*, so it needs `.trans`, too.',
        'The four matrices of `a` must be in the order upper left, lower left, upper right, '
        'lower right *of a*. In shared memory, where `a` is stored transposed, the lower left one of `a` is the '
        'upper right one: lane `lane` gives the `address` of row `lane%8 + '
        'lane/16*8`, column `lane/8%2*8`.',
    ],
)
def _(fn, rng, h, w):
    body = without_comments(source(fn))
    for word, reason in (
        ('__shared__', 'the kernel uses no shared memory'),
        ('ldmatrix', 'the kernel has no ldmatrix'),
    ):
        if word not in body:
            raise AssertionError(f'{reason}: fill the registers from shared memory with ldmatrix')
    m = matrix(rng, h, w)
    judge_matmul(fn, 'gram_k', (w // 16, w // 16), m.T, m, m=m, out=nans(w, w), h=h, w=w)
