"""What the lesson's cells are tried on. Reading this page spoils the exercises."""

import re
import numpy as np
import torch

from ..exercise import problem
from .lesson_05 import launch, source
from ..kernels.ladder import Reference
from ..kernels.tensor_cores import basics, ldmatrix, mma

__all__ = ['GIVEN', 'places_of_a', 'matrix_wavefronts', 'product', 'matrix', 'nans']


# Who holds a number of `a`, by the other way round: from lanes and registers to places, as PTX has it.
def places_of_a():
    "(row, column) -> (lane, register, half), for the 16x16 matrix of an mma"
    return {
        (lane // 4 + q % 2 * 8, lane % 4 * 2 + q // 2 * 8 + half): (lane, q, half)
        for lane in range(32)
        for q in range(4)
        for half in range(2)
    }


@problem(
    '21.holds',
    cases=[
        dict(rows=range(0, 8), cols=range(0, 8)),
        dict(rows=range(8, 16), cols=range(0, 8)),
        dict(rows=range(0, 8), cols=range(8, 16)),
        dict(rows=range(8, 16), cols=range(8, 16)),
    ],
    hints=[
        'A register holds two neighbours of a row, an even column in its lower 16 bits and the odd one after it '
        'in the upper. So the half is `col%2`.',
        'The four registers are the four quarters: `q%2` says upper or lower, `q//2` left or right. '
        'Within a quarter, row `g` belongs to lanes `4*g` to `4*g + 3`.',
        'lane: `row%8*4 + col%8//2`; register: `row//8 + col//8*2`.',
    ],
)
def _(fn, rng, rows, cols):
    want = places_of_a()
    for r in rows:
        for c in cols:
            got = fn(r, c)
            if not isinstance(got, (tuple, list)) or len(got) != 3:
                raise AssertionError(
                    f'three numbers are wanted, lane, register and half; got {got!r} for row {r}, column {c}'
                )
            if tuple(got) != want[r, c]:
                raise AssertionError(
                    f'row {r}, column {c}: got lane {got[0]}, register {got[1]}, half {got[2]}, '
                    f'and it is lane {want[r, c][0]}, register {want[r, c][1]}, half {want[r, c][2]}'
                )


# A swizzle is judged by where it puts the chunks: four banks for each, in wavefronts of 128 bytes.
def matrix_wavefronts(
    place,
    rows,
    chunk,  # `place(r, c)` in numbers of 2 bytes, for c = 8*chunk
) -> int:
    "Wavefronts that shared memory takes for an 8x8 matrix: the most rows of it that meet in four banks"
    return np.bincount([place(r, 8 * chunk) // 8 % 8 for r in rows]).max()


@problem(
    '21.narrow',
    cases=[dict(how='places'), dict(how='chunks'), *(dict(how='banks', first=f) for f in (0, 8, 24))],
    hints=[
        'Two rows of 64 bytes fill the 32 banks once. So rows 0 and 1 are never in each other\'s way; '
        'rows 0 and 2 are, if their chunks are in the same order.',
        'There are four chunks in a row, and four pairs of rows in an 8x8 matrix. Each pair needs another order.',
        'The pair is `r//2%4`; as in the lesson, change the chunk\'s number by exclusive or: `32*r + (c ^ r//2%4*8)`.',
    ],
)
def _(fn, rng, how, first=0):
    def place(r, c):
        p = fn(r, c)
        if not isinstance(p, (int, np.integer)):
            raise AssertionError(f'a place is a whole number; got {p!r} for row {r}, column {c}')
        return int(p)

    for r in range(first, first + 8) if how == 'banks' else range(64):
        row = [place(r, c) for c in range(32)]
        if how == 'places' and sorted(row) != list(range(32 * r, 32 * r + 32)):
            raise AssertionError(
                f'row {r} must have the places {32 * r} to {32 * r + 31}, each once; it has {sorted(set(row))[:4]}...'
            )
        if how == 'chunks' and any(row[c] % 8 != c % 8 or row[c] - c % 8 != row[c // 8 * 8] for c in range(32)):
            raise AssertionError(
                f'row {r}: the 8 numbers of a chunk, 16 bytes, must stay together and in order, at a multiple of 8'
            )
    if how == 'banks':
        for chunk in range(4):
            if (n := matrix_wavefronts(place, range(first, first + 8), chunk)) > 1:
                raise AssertionError(
                    f'rows {first} to {first + 7}, columns {8 * chunk} to {8 * chunk + 7}: '
                    f'{n} rows of this 8x8 matrix are in the same four banks'
                )


# The other two return sources. The lesson's own functions go before, and they are tried on the emulator, a
# GPU or not. A result may be off by half a unit of bfloat16's last place, and by what float32 loses.
GIVEN = basics + mma + ldmatrix


def product(fn, name, grid, a, b, **args):  # args: the kernel's, as `launch` takes them
    "Launch kernel `name` by single warps: `out` shall be `a` @ `b`"
    if 'mma(' not in re.sub(r'//.*', '', source(fn)):
        raise AssertionError('it has no mma in it: the tensor core is to do the work')
    out = launch(lambda: GIVEN + source(fn), name, grid, 32, **args)
    Reference(a, b)(out.reshape(args['out'].shape))


def matrix(rng, *shape):
    "Random numbers as bfloat16, from float32 ones"
    return torch.tensor(rng.standard_normal(shape), dtype=torch.float32).bfloat16()


def nans(*shape):
    "An output in which what nobody writes shows, as bfloat16"
    return torch.full(shape, torch.nan, dtype=torch.bfloat16)


@problem(
    '21.linear',
    cases=[dict(h=h, w=w, k=k) for h, w, k in ((16, 8, 16), (16, 8, 48), (32, 8, 16), (16, 24, 16), (48, 40, 80))],
    hints=[
        'As in rung 3, without shared memory: all loads of `a` are as they are there, from `m` itself.',
        'Register `q` of `b` has rows `t + q*8` and the next, column `g`. '
        'Row `i`, column `j` of `b` is `n[(c + j)*k + idx + i]`: the two numbers are neighbours in memory, '
        'one load of 4 bytes.',
        '`b[q] = *(const unsigned *)&n[(c + g)*k + idx + t + q*8]`, and `d` goes to rows `g` and `g + 8`, '
        'columns `t` and `t + 1`.',
    ],
)
def _(fn, rng, h, w, k):
    m, n = matrix(rng, h, k), matrix(rng, w, k)
    product(fn, 'linear_k', (w // 8, h // 16), m, n.T, m=m, n=n, out=nans(h, w), h=h, w=w, k=k)


@problem(
    '21.gram',
    cases=[dict(h=h, w=w) for h, w in ((16, 16), (48, 16), (16, 32), (32, 48), (64, 80))],
    hints=[
        'For the tile in row `r` and column `c` of `out` you need columns `r` to `r+15` of `m`, '
        'which are to become the rows of `a`, and columns `c` to `c+15`, which are `b` as it is in the lesson. '
        'In each step, 16 rows of both: 16 rows of 32 bytes, one 16-byte load for each lane.',
        '`b` is stored along its rows, so `.trans`, as in the lesson. `a` is stored along its *columns*, '
        'so it is turned around as well: `.trans`, too.',
        'The four matrices of `a` must come in the order upper left, lower left, upper right, '
        'lower right *of a*. In shared memory, where `a` lies turned around, '
        'the lower left one of `a` is the upper right one: lane `lane` gives the `address` of row `lane%8 + '
        'lane/16*8`, column `lane/8%2*8`.',
    ],
)
def _(fn, rng, h, w):
    body = re.sub(r'//.*', '', source(fn))
    for word, why in (('__shared__', 'it uses no shared memory'), ('ldmatrix', 'it has no ldmatrix')):
        if word not in body:
            raise AssertionError(f'{why}: the registers are to be filled from there')
    m = matrix(rng, h, w)
    product(fn, 'gram_k', (w // 16, w // 16), m.T, m, m=m, out=nans(w, w), h=h, w=w)
