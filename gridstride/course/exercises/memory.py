"""Test cases for the lesson's exercises. Reading this file spoils them."""

from unittest.mock import patch

import numpy as np
import torch

from ... import sim
from ..grading import normal, problem
from ...layout import Layout, Swizzle, walk
from ...utils import cdiv, check
from .checklist import busiest_thread

__all__ = ['LAYOUTS', 'trace_of']


@problem(
    'memory.sectors',
    cases=[
        dict(bytes=list(addresses))
        for addresses in (
            range(0, 128, 4),
            [0] * 32,
            range(0, 1024, 32),
            range(4, 132, 4),
            range(2, 130, 4),
            [30],
            [29, 94, 158],
            [1, 33, 65],
            range(0, 256, 8),
            [100, 0, 64, 96, 4],
        )
    ],
    hints=[
        'The sector of a byte is its address divided by 32, rounded down. Count each sector once.',
        'A float has 4 bytes: if it begins at byte 30, it ends in the next sector.',
        'A set of `b//32` and `(b+3)//32`, over all `b`; its length is the answer.',
    ],
)
def _(fn, rng, bytes):
    result = fn(list(bytes))
    expected = len({byte // 32 for b in bytes for byte in (b, b + 3)})
    if result != expected:
        raise AssertionError(f'got {result!r}, but the request touches {expected} sectors')


LAYOUTS = (
    '(4,8):(8,1)',
    '(4,8):(1,4)',
    '((2,4),8):((1,16),2)',
    '((2,2),(4,2)):((4,16),(1,8))',
    '(3,(2,5)):(20,(1,4))',
    '((4,8),2):((1,8),4)',
)


@problem(
    'memory.offset',
    cases=[dict(text=text) for text in LAYOUTS],
    hints=[
        '`text.split(":")` gives two strings, and `ast.literal_eval` converts them to tuples: the shape and the '
        'stride.',
        'For a mode that is one integer, multiply the coordinate by its stride. For a pair `(a,b)`, split the '
        'coordinate, where the left integer varies fastest.',
        'For a pair, the offset is `c % n[0]*d[0] + c//n[0]*d[1]`. Compute it for both modes, and add the two offsets.',
    ],
)
def _(fn, rng, text):
    layout = Layout(text)

    def no_layout(*_):
        raise AssertionError(
            'the exercise must be solved without `gridstride.layout`: use the sizes and strides in the string'
        )

    for i, j in np.ndindex(*(mode.size for mode in layout)):
        with patch.object(Layout, '__init__', no_layout):
            result = fn(text, i, j)
        if result != layout(i, j):
            raise AssertionError(f'row {i}, column {j} of {text} is at index {layout(i, j)}; got {result!r}')


@problem(
    'memory.tile',
    cases=[dict(h=h, w=w, a=a, b=b) for h, w, a, b in ((64, 96, 32, 32), (4, 8, 2, 4), (8, 6, 8, 1), (6, 10, 3, 5))],
    hints=[
        'Within a tile, how many elements apart are two adjacent rows of the matrix, and two adjacent columns?',
        'In the first row of tiles, adjacent tiles are `b` columns apart. A row has `w//b` tiles.',
        "f'(({a},{b}),{w//b}):((?,?),?)', with the three strides in place of the question marks.",
    ],
)
def _(fn, rng, h, w, a, b):
    result = fn(h, w, a, b)
    if not isinstance(result, str):
        raise AssertionError(f"return the layout as a string, such as '((32,32),3):((96,1),32)'; got {result!r}")
    layout = Layout(result)
    indices = np.arange(h * w).reshape(h, w)
    if layout.shape != ((a, b), w // b):
        raise AssertionError(
            f'the sizes are (({a},{b}),{w // b}): a tile, and the number of tiles in the first row; got {result}'
        )
    for t in range(w // b):
        for i, j in np.ndindex(a, b):
            if (index := layout((i, j), t)) != (expected := indices[i, t * b + j]):
                raise AssertionError(f'element ({i},{j}) of tile {t} is at index {expected}; {result} gives {index}')


@problem(
    'memory.swizzle',
    cases=[dict(h=h, w=w) for h, w in ((32, 32), (64, 16), (128, 8), (64, 32), (256, 4), (512, 2))],
    hints=[
        'Begin with rows of 32 floats, as in the lesson. Then draw rows of 16: which lanes of a column use the '
        'same bank?',
        'A line of 32 banks holds `32//w` rows, which are in different banks without a swizzle. Only rows of different '
        'lines conflict, so each line needs another permutation.',
        'The index of the line is in the bits from 5 on, so `shift` is 5. A row has `w` elements to permute, which '
        'takes log2(`w`) bits.',
    ],
)
def _(fn, rng, h, w):
    result = fn(h, w)
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        raise AssertionError(f'return three integers, bits, base and shift; got {result!r}')
    tile = Swizzle(*result).compose(Layout.row_major(h, w))
    swizzle = f'Swizzle({", ".join(map(str, result))})'
    if sorted(tile.offsets().ravel()) != list(range(h * w)):
        raise AssertionError(f'{swizzle} maps an element outside the tile of {h * w} elements')
    for along in ('row', 'column'):
        if n := walk(tile, along).conflicts:
            raise AssertionError(
                f'with {swizzle}, reading by {along}s takes {n} more wavefronts than without a bank conflict'
            )
    if result[0] > w.bit_length() - 1:
        raise AssertionError(
            f'{swizzle} has no bank conflict, but flips {result[0]} bits: fewer are enough for rows of {w}'
        )


def trace_of(kernel, x):
    "Return the trace of a transpose of `x` by `kernel`, which is checked"
    h, w = x.shape
    copy = torch.tensor(x)
    out = torch.full((w, h), torch.nan)
    with sim.trace() as t:
        kernel[(cdiv(w, 32), cdiv(h, 32)), (32, 8)](copy, out)
    check(out, np.ascontiguousarray(x.T), tile=32)
    check(copy, x)
    return t


@problem(
    'memory.transpose',
    cases=[dict(h=h, w=w) for h, w in ((32, 32), (64, 96), (5, 7), (33, 31), (1, 40), (70, 3))],
    hints=[
        "Begin with the lesson's `padded_k`. Which of its four accesses to `x` and `out` can be out of bounds?",
        'Each guard compares a row with a height and a column with a width. The guard of the load uses the shape of '
        '`x`, and the guard of the store uses the shape of `out`.',
        'Load an element if `r0+tr+i < h and c0+tc < w`. Store an element if `c0+tr+i < w and r0+tc < h`. '
        'Keep the barrier outside both guards.',
    ],
)
def _(fn, rng, h, w):
    kernel = fn()
    if not isinstance(kernel, sim.cuda.Kernel):
        raise AssertionError(f'return the kernel, decorated with @cuda.jit; got {type(kernel).__name__}')
    t = trace_of(kernel, normal(rng, h, w))
    s = t.stats
    has_partial_tiles = h % 32 or w % 32  # then a request may begin and end within a sector: one more holds it
    for access in ('load', 'store'):
        n, ideal = s[f'global_{access}_sectors'], s[f'global_{access}_ideal']
        if has_partial_tiles:
            ideal += s[f'global_{access}_requests']
        if n > ideal:
            raise AssertionError(
                f'global {access}s touch {n} sectors, although {ideal} hold the elements: '
                'let neighbouring lanes access neighbouring addresses'
            )
    if n := s.shared_load_conflicts + s.shared_store_conflicts:
        raise AssertionError(f'shared memory: {n} more wavefronts than without a bank conflict')
    if not s.shared_load_requests:
        raise AssertionError('nothing was read from shared memory: transpose the tile there')
    (_, thread), num_writes = busiest_thread(t, 'written')
    if num_writes > 4:
        raise AssertionError(
            f'thread {thread} writes {num_writes} elements: with 256 threads and a 32x32 tile, let each write 4'
        )
