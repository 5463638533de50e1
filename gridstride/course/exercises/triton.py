"""Test cases for the lesson's exercises. Reading this file spoils them."""

import inspect
import warnings

import numpy as np
import torch

from ... import tile
from ..grading import normal, problem
from ...diagnostics.errors import UndefinedLanes
from ...layout import Linear
from ...utils import cdiv, check

__all__ = ['get_kernel', 'launch', 'count_loaded', 'owner', 'blocked_layout']


def get_kernel(fn):
    "Return the kernel that the learner's function returns, with all checks; raises `AssertionError` if there is none"
    if not hasattr(fn, 'fn') and inspect.signature(fn).parameters:
        raise AssertionError('the function must take no arguments: define the kernel inside it, and return the kernel')
    kernel = fn if hasattr(fn, 'fn') else fn()
    if not hasattr(kernel, 'fn'):
        raise AssertionError(f'return a kernel with @triton.jit first_row it; got {kernel!r}')
    return tile.checked(kernel)


def count_reads(t, name):
    "Count the elements of an array that programs read"
    return sum(len(a['at']) for a in t.accesses if a['array'] == name and a['verb'] == 'read')


def launch(fn, grid, *args, **constants):
    "Run the learner's kernel; a result that depends on undefined lanes is an error, even if it is right on the CPU"
    with warnings.catch_warnings():
        warnings.simplefilter('error', UndefinedLanes)
        get_kernel(fn)[(grid,)](*args, **constants)


def power_of_two(n):
    "Return the smallest power of two that is at least `n`"
    return 1 << (n - 1).bit_length()


def _nan_tensor(*shape):
    return torch.full(shape, torch.nan)


@problem(
    'triton.rows',
    cases=[dict(h=h, w=w) for h, w in ((2, 3), (1, 1), (3, 8), (5, 7), (4, 129))],
    hints=[
        'A program has one row: `tl.program_id(0)`. The columns are `tl.arange(0, BLOCK)`.',
        'Row `r` begins at `x + r*w`. The mask depends only on the columns: `c < w`.',
        'The bias is a row, too: `tl.load(b + c, mask=c < w)`. Then `tl.maximum(v, 0.)`.',
    ],
)
def _(fn, rng, h, w):
    x = torch.tensor(normal(rng, h, w))
    b = torch.tensor(normal(rng, w))
    out = _nan_tensor(h, w)
    launch(fn, h, x, b, out, h, w, BLOCK=power_of_two(w))
    check(out, torch.relu(x + b), rtol=0, atol=0)


@problem(
    'triton.rms',
    cases=[
        dict(h=h, w=w, eps=eps)
        for h, w, eps in ((2, 3, 1e-6), (1, 1, 0.5), (3, 8, 1e-6), (4, 100, 0.1), (2, 129, 1e-3))
    ],
    hints=[
        'As in `softmax_k`: load the row once, reduce it with `tl.sum`, write it once.',
        'Which value must a masked lane have, so that it adds nothing to a sum of squares?',
        'The mean is `tl.sum(v*v)/w`: divide by the length of the row, not by `BLOCK` lanes.',
    ],
)
def _(fn, rng, h, w, eps):
    x = torch.tensor(normal(rng, h, w))
    g = torch.tensor(normal(rng, w))
    out = _nan_tensor(h, w)
    launch(fn, h, x, g, out, w, eps, BLOCK=power_of_two(w))
    wide = x.double()
    expected = wide / (wide.square().mean(1, keepdim=True) + eps).sqrt() * g
    check(out, expected.float(), rtol=1e-5, atol=1e-6)  # a float32 sum of 129 squares, a root and a division


@problem(
    'triton.count',
    cases=[dict(n=n, bins=bins) for n, bins in ((6, 3), (1, 1), (63, 4), (64, 300), (65, 2), (1000, 17))],
    hints=[
        'Load a block of elements, with a mask. Each of them is the index of its bin: `bins + b` are pointers.',
        '`tl.atomic_add(bins + b, 1, mask=...)` adds 1 per lane, even if lanes have the same bin. With a load and '
        'a store all updates but one would be lost.',
        'Lanes past the end have no element and must not count: use the same mask for both.',
    ],
)
def _(fn, rng, n, bins):
    x = torch.tensor(rng.integers(0, bins, n).astype(np.int32))
    out = torch.zeros(bins, dtype=torch.int32)
    launch(fn, cdiv(n, 64), x, out, n, BLOCK=64)
    if (total := int(out.sum())) != n:
        too_few = 'lanes with the same bin lost updates, or some elements were not counted: add with tl.atomic_add'
        reason = too_few if total < n else 'lanes past the end were counted, or elements more than once: mask the lanes'
        raise AssertionError(f'the bins hold {total} elements in total, but there are {n}: {reason}')
    check(out, torch.bincount(x, minlength=bins).int(), rtol=0, atol=0)


def count_loaded(group, rows, cols, th, tw, programs) -> int:
    "Count the rows and columns of elements that all waves load, with tiles in groups of `group` rows"
    total = 0
    tiles = [_tile_at(t, rows, cols, group) for t in range(rows * cols)]
    for first in range(0, rows * cols, programs):
        tr, tc = map(set, zip(*tiles[first : first + programs]))
        total += len(tr) * th + len(tc) * tw
    return total


def _tile_at(t, rows, cols, group):
    first_row, index_in_group = divmod(t, group * cols)
    num_rows = min(rows - first_row * group, group)
    return first_row * group + index_in_group % num_rows, index_in_group // num_rows


@problem(
    'triton.group',
    cases=[
        dict(rows=rows, cols=cols, th=th, tw=tw, programs=programs)
        for rows, cols, th, tw, programs in (
            (5, 6, 16, 16, 12),
            (1, 1, 16, 16, 132),
            (32, 16, 128, 256, 132),
            (64, 32, 128, 256, 132),
            (20, 50, 256, 64, 40),
            (32, 42, 64, 256, 132),
            (37, 26, 256, 128, 132),
            (53, 4, 16, 64, 8),
            (71, 4, 64, 128, 3),
        )
    ],
    hints=[
        'For each group, go through the waves: `range(0, rows*cols, programs)`. Which tiles does a wave contain?',
        "A wave loads `th` rows per row of tiles and `tw` columns per column of tiles: collect the two indices "
        "from `place` in sets.",
        '`min(groups, key=...)` returns the first of equals, so try the groups in increasing order: `2**i for i in '
        'range(rows.bit_length())`.',
    ],
)
def _(fn, rng, rows, cols, th, tw, programs):
    counted = {2**i: count_loaded(2**i, rows, cols, th, tw, programs) for i in range(rows.bit_length())}
    expected = min(counted, key=counted.get)
    result = fn(rows, cols, th, tw, programs)
    if result not in counted:
        raise AssertionError(f'the group size must be a power of two from 1 to {rows}; got {result!r}')
    if result != expected:
        comparison = f'groups of {result} load {counted[result]} rows and columns of elements'
        hint = '; return the smallest of equal ones' if counted[result] == counted[expected] else ''
        raise AssertionError(f'{comparison}, groups of {expected} {counted[expected]}{hint}')


def blocked_layout(each, lanes, warps, order) -> str:
    "Return a layout as TTGIR writes it"
    fields = dict(sizePerThread=each, threadsPerWarp=lanes, warpsPerCTA=warps, order=order)
    return f'#blocked = #ttg.blocked<{{{", ".join(f"{k} = {list(v)}" for k, v in fields.items())}}}>'


def owner(shape, each, lanes, warps, order) -> Linear:
    "Return the layout from row and column to register, lane and warp, as a product of linear layouts"
    names = ('row', 'column')
    layout = Linear({'register': [], 'lane': [], 'warp': []}, {'row': 1, 'column': 1})
    repeats = [n // (e * a * b) for n, e, a, b in zip(shape, each, lanes, warps)]
    for name, counts in (('register', each), ('lane', lanes), ('warp', warps), ('register', repeats)):
        for axis in order:
            layout = layout * Linear.identity(counts[axis], name, names[axis])
    return layout.invert()


@problem(
    'triton.owner',
    cases=[
        dict(shape=shape, each=each, lanes=lanes, warps=warps, order=order)
        for shape, each, lanes, warps, order in (
            ((32, 64), (1, 4), (2, 16), (4, 1), (1, 0)),
            ((16, 16), (1, 1), (8, 4), (2, 2), (1, 0)),
            ((64, 64), (4, 1), (16, 2), (1, 4), (0, 1)),
            ((64, 32), (2, 2), (4, 8), (2, 2), (0, 1)),
            ((128, 16), (1, 2), (4, 8), (8, 1), (1, 0)),
        )
    ],
    hints=[
        "Divide by `sizePerThread` first: that gives the element's position in threads, per axis.",
        'That position `% threadsPerWarp` is the position within the warp; the quotient, `% warpsPerCTA`, is that '
        'of the warp. (Past the last warp it wraps around.)',
        'Two positions become one index as in a matrix: the axis that `order` names first varies fastest.',
    ],
)
def _(fn, rng, shape, each, lanes, warps, order):
    text = blocked_layout(each, lanes, warps, order)
    layout = owner(shape, each, lanes, warps, order)
    for r, c in [(0, 0), *((int(rng.integers(shape[0])), int(rng.integers(shape[1]))) for _ in range(40))]:
        expected = layout(row=r, column=c)
        result = fn(text, shape, r, c)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise AssertionError(f'return two integers (warp, lane); got {result!r}')
        if tuple(result) != (expected['warp'], expected['lane']):
            location = f"row {r}, column {c} is in warp {expected['warp']}, lane {expected['lane']}"
            raise AssertionError(f'{text}, a block of {shape}: {location}; got warp {result[0]}, lane {result[1]}')


@problem(
    'triton.long',
    cases=[
        dict(h=h, w=w, BLOCK=BLOCK, scale=scale, shift=shift)
        for h, w, BLOCK, scale, shift in (
            (2, 3, 4, 1, 0),
            (1, 1, 16, 1, 0),
            (3, 64, 16, 1, -3),
            (2, 65, 16, 100, 0),
            (4, 300, 64, 100, 0),
            (2, 40, 16, 3, -3000),
        )
    ],
    hints=[
        'A loop over the row: `for first in range(0, w, BLOCK)`, with `c = first + tl.arange(0, BLOCK)`. Twice.',
        'Keep two values across iterations: the running maximum, and the running sum of `exp(v - maximum)`.',
        'With a new maximum, the sum so far is too large by `exp(new - old)`: `total*tl.exp(top - new)`.',
    ],
)
def _(fn, rng, h, w, BLOCK, scale, shift):
    x = torch.tensor(normal(rng, h, w)) * scale + shift
    out = _nan_tensor(h, w)
    with tile.trace() as t:
        launch(fn, h, x, out, w, BLOCK=BLOCK)
    check(
        out, torch.softmax(x.double(), 1).float(), rtol=1e-4, atol=1e-7
    )  # exp of 100s carries its argument's rounding
    if (num_reads := count_reads(t, 'x')) > 2 * h * w:
        raise AssertionError(
            f'{num_reads} elements of x are read, but two passes over {h} rows of {w} read only {2 * h * w}: compute '
            'the maximum and the sum in one pass'
        )


@problem(
    'triton.linear',
    cases=[
        dict(h=h, k=k, w=w, tiles=tiles)
        for h, k, w, tiles in (
            (16, 16, 16, (16, 16, 16)),
            (17, 40, 33, (16, 16, 16)),
            (5, 3, 70, (16, 32, 16)),
            (50, 64, 20, (32, 16, 32)),
        )
    ],
    hints=[
        'Begin with `matmul_k`. A program has one index, `t`: with `n` tiles per row of `out`, its tile is in row '
        '`t//n` and column `t%n` of tiles.',
        '`wt` has `w` rows of `k`. A block of its transpose has its elements at `wt + c*k + ir`, with `ir` as a '
        'column.',
        'After the loop, `o` is the sum: add the bias, `tl.load(b + c, mask=c < w)`, and only then `tl.maximum`.',
    ],
)
def _(fn, rng, h, k, w, tiles):
    x, wt, b = (torch.tensor(normal(rng, *shape)) for shape in ((h, k), (w, k), (w,)))
    out = _nan_tensor(h, w)
    th, tw, tk = tiles
    launch(fn, cdiv(h, th) * cdiv(w, tw), x, wt, b, out, h, k, w, th=th, tw=tw, tk=tk)
    expected = torch.relu(torch.nn.functional.linear(x.double(), wt.double(), b.double())).float()
    close = dict(rtol=1e-5, atol=1e-5)  # 64 products of float32; TF32 would be off by 1e-3
    if torch.allclose(out, expected, 1e-2, 2e-2) and not torch.allclose(out, expected, **close):
        raise AssertionError(
            "all values are close, but not exact, because TF32 keeps 10 mantissa bits: pass input_precision='ieee'"
        )
    check(out, expected, **close)
