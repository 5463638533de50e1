"""Test cases for the lesson's exercises. Reading this file spoils them."""

import torch

from ... import sim
from ..grading import normal, problem
from ...utils import cdiv, check
from .reductions import check_is_kernel

__all__ = ['Tiles', 'over_tiles', 'judge_naively']


@problem(
    'where_next.wide',
    cases=[
        dict(warp=warp, block=block, blocks=blocks, order=order)
        for warp, block, blocks, order in (
            (32, 64, 1, 'forward'),
            (64, 64, 3, 'forward'),
            (32, 256, 2, 'reverse'),
            (64, 256, 2, 'forward'),
            (64, 128, 2, 'reverse'),
            (32, 1024, 1, 'shuffle'),
            (64, 1024, 1, 'shuffle'),
        )
    ],
    hints=[
        '`cuda.warpsize` is 32 or 64, inside and outside a kernel. Write it instead of every 32 in the kernel.',
        'The mask -1 means all lanes, whatever the width. The steps of the tree begin at half the width.',
        'How many parts are there after the first tree? `cuda.blockDim.x//cuda.warpsize`. The whole first warp '
        'computes the second tree; lanes past the parts use 0.',
    ],
)
def _(fn, rng, warp, block, blocks, order):
    kernel = fn()
    check_is_kernel(kernel)
    x = normal(rng, blocks * block)
    parts = torch.full((blocks,), torch.nan)
    with sim.options(warp=warp, order=order), sim.trace() as t:
        kernel[blocks, block](torch.tensor(x), parts)
    expected = torch.tensor(x).double().view(blocks, block).sum(1).float()
    try:
        check(parts, expected, atol=1e-4)  # up to 1024 values of size 1, added in another order
    except AssertionError as e:
        raise AssertionError(f'warps of {warp}, blocks of {block}{_ones_sum_text(kernel, warp, block)}: {e}') from None
    if t.stats.atomics:
        raise AssertionError('the kernel uses an atomic: build the sums with shuffles')
    if t.stats.barriers > 2 * blocks * block // warp:
        raise AssertionError(
            f'{t.stats.barriers} barriers were executed by warps: build both trees with shuffles, with one barrier '
            'in between'
        )
    reads, warps = t.stats.global_load_requests + t.stats.shared_load_requests, blocks * block // warp
    if reads > 3 * warps:  # of `x` once, of the parts once
        raise AssertionError(f'{warps} warps read {reads} times: build the sums with shuffles, not element by element')


def _ones_sum_text(kernel, warp, block):
    "Describe the wrong sum of ones that a block computes; return '' if the sum is right"
    parts = torch.full((1,), torch.nan)
    with sim.options(warp=warp):
        kernel[1, block](torch.ones(block), parts)
    total = parts.item()
    return f', where {block} ones sum to {total:g}' if total != block else ''


class Tiles:
    "The functions of a block's program, as in cuda.tile: `load` and `store` take indices of *tiles*"

    def __init__(self, *index):
        self._index = index

    def bid(self, axis):
        "Return the index of this block along an axis"
        return self._index[axis]

    def zeros(self, shape):
        "Return a tile of zeros"
        return torch.zeros(shape)

    def load(self, array, index, shape):
        "Load the tile of this shape and index; zeros past the edge of the array"
        tile = torch.zeros(shape)
        elements = array[self._slices(array, index, shape)]
        tile[tuple(map(slice, elements.shape))] = elements
        return tile

    def store(self, array, index, tile):
        "Store a tile, without the elements past the edge of the array"
        to = array[self._slices(array, index, tile.shape)]
        to[...] = tile[tuple(map(slice, to.shape))]

    def mma(self, a, b, total):
        "Return `a @ b + total`"
        return a @ b + total

    def cdiv(self, a, b):
        "Divide and round up"
        return cdiv(a, b)

    def _slices(self, array, index, shape):
        if not len(index) == len(shape) == array.ndim:
            raise ValueError(
                f'the array has {array.ndim} axes, the index {len(index)} and the tile {len(shape)}; '
                f'the numbers must be equal'
            )
        return tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, shape))


def over_tiles(program, grid, *args):
    "Run a program once per block of a grid"
    for r in range(grid[0]):
        for c in range(grid[1]):
            program(Tiles(r, c), *args)


@problem(
    'where_next.tiles',
    cases=[
        dict(h=h, w=w, k=k, tile=tile)
        for h, w, k, tile in (
            (4, 4, 4, (4, 4, 4)),
            (8, 12, 16, (4, 4, 4)),
            (8, 4, 12, (4, 2, 8)),
            (5, 9, 7, (4, 4, 4)),
            (3, 20, 33, (2, 8, 16)),
            (17, 1, 1, (4, 4, 4)),
        )
    ],
    hints=[
        'Block `(r, c)` computes one tile of `out`: index `r` along the rows, `c` along the columns.',
        'Start the sum as `ct.zeros((th, tw))`, and loop over the tiles along `k`: `ct.cdiv` counts them.',
        '`ct.load(m, (r, i), (th, tk))` and `ct.load(n, (i, c), (tk, tw))`: indices of tiles, not of elements.',
    ],
    returns=False,
)
def _(fn, rng, h, w, k, tile):
    m, n = (torch.tensor(normal(rng, *shape)) for shape in ((h, k), (k, w)))
    out = torch.full((h, w), torch.nan)
    over_tiles(fn, (cdiv(h, tile[0]), cdiv(w, tile[1])), m, n, out, *tile)
    try:
        check(out, (m.double() @ n.double()).float(), atol=1e-4)  # at most 33 products of size 1
    except AssertionError as e:
        raise AssertionError(f'{e}{_out_of_bounds_block(fn, h, w, tile, m, n)}') from None
    first = torch.full((h, w), torch.nan)
    fn(block := _Watched(0, 0), m, n, first, *tile)
    if not (first[tile[0] :].isnan().all() and first[:, tile[1] :].isnan().all()):
        raise AssertionError(
            'block (0, 0) wrote outside its tile of `out`: let each block store one tile, with `ct.store`'
        )
    th, tw, tk = tile
    if block.loaded != {(th, tk), (tk, tw)}:
        shapes = ', '.join(f'{a} by {b}' for a, b in sorted(block.loaded)) or 'none'
        raise AssertionError(
            f'load tiles of {th} by {tk} and of {tk} by {tw} with `ct.load`; the kernel loaded {shapes}'
        )


class _Watched(Tiles):
    "Records the first access that is out of bounds of its array, and the shapes of tiles that are loaded"

    def __init__(self, *index):
        super().__init__(*index)
        self.out_of_bounds_tile = ''
        self.loaded = set()

    def load(self, array, index, shape):
        self.loaded.add(tuple(shape))
        return super().load(array, index, shape)

    def _slices(self, array, index, shape):
        slices = super()._slices(array, index, shape)
        if not self.out_of_bounds_tile and any(start.start >= size for start, size in zip(slices, array.shape)):
            tile_counts = tuple(map(cdiv, array.shape, shape))
            self.out_of_bounds_tile = f'tile {tuple(index)} of an array of {tile_counts[0]} by {tile_counts[1]} tiles'
        return slices


def _out_of_bounds_block(fn, h, w, tile, m, n):
    "Name a block that accesses a tile out of bounds; return '' if none does"
    out = torch.empty(h, w)
    for r in range(cdiv(h, tile[0])):
        for c in range(cdiv(w, tile[1])):
            fn(block := _Watched(r, c), m, n, out, *tile)
            if block.out_of_bounds_tile:
                location = f'{block.out_of_bounds_tile}, which is out of bounds'
                return f'\n  block ({r}, {c}) accesses {location}: an index counts tiles, rows first'
    return ''


# Honest and cheating kernels for softmax; every case makes a new one.
def _softmax(x):
    return torch.softmax(x, -1)


def _torch_softmax(make):
    return _softmax


def _by_hand(make):
    def kernel(x):
        e = (x - x.max(-1, keepdim=True).values).exp()
        return e / e.sum(-1, keepdim=True)

    return kernel


def _in_float64(make):
    return lambda x: _softmax(x.double()).float()


def _cached(make):
    result_of_shape = {}
    return lambda x: result_of_shape.setdefault(x.shape, _softmax(x)).clone()


def _works_once(make):
    calls = []

    def kernel(x):
        calls.append(1)
        return _softmax(x) if len(calls) < 2 else torch.empty_like(x).fill_(0.5)

    return kernel


def _never_write(make):
    return lambda x: torch.full_like(x, torch.nan)


def _zero_input(make):
    def kernel(x):
        x.zero_()
        return torch.full_like(x, 1 / x.shape[-1])

    return kernel


def _uniform(make):
    return lambda x: torch.full_like(x, 1 / x.shape[-1])


def _know_answers(make):
    known = [(x, _softmax(x)) for x in map(make, range(100))]

    def kernel(x):
        return next((out for data, out in known if torch.equal(data, x)), torch.zeros_like(x)).clone()

    return kernel


def _in_place(make):
    return lambda x: x.copy_(_softmax(x))


def _in_float16(make):
    return lambda x: _softmax(x).half().float()


def _one_row(make):
    return lambda x: torch.cat([_softmax(x[:1]), torch.full_like(x[1:], 1 / x.shape[-1])])


HONEST = dict(plain=_torch_softmax, by_hand=_by_hand, in_float64=_in_float64)
CHEATS = dict(
    keeps_answers=_cached,
    works_once=_works_once,
    never_writes=_never_write,
    zeroes_its_input=_zero_input,
    answers_uniformly=_uniform,
    knows_the_seeds=_know_answers,
    writes_over_its_input=_in_place,
    rounds_to_float16=_in_float16,
    computes_one_row=_one_row,
)


@problem(
    'where_next.fair',
    cases=[dict(who=who) for who in (*HONEST, *CHEATS)],
    hints=[
        'A cheat uses whatever you do not check: call the kernel several times, with other inputs each time, and '
        'check each answer.',
        'Pass a copy. Compute the reference from the original, which the kernel never sees, and check afterwards '
        'that the copy is unchanged.',
        'Use seeds that no one can guess: `secrets.randbelow(2**31)`. And a NaN is neither larger nor smaller than '
        'a tolerance: test `not (error < 1e-5)`, or use `torch.allclose`.',
    ],
)
def _(fn, rng, who):
    def make(seed):
        return torch.randn(3, 8, generator=torch.Generator().manual_seed(seed))

    kernel = {**HONEST, **CHEATS}[who](make)
    result = fn(kernel, _softmax, make)
    if result is not True and result is not False:
        raise AssertionError(f'return True or False; got {result!r}')
    if result != (who in HONEST):
        name = who.replace('_', ' ')
        outcome = 'is a cheat, but was accepted' if result else 'is honest, but was rejected'
        raise AssertionError(f'the kernel "{name}" {outcome}')


def judge_naively(text, task='softmax'):
    "Check the output of the first call, then make 20 more calls with the same input, unchecked and untimed"
    from ...judge import TASKS

    names = {}
    exec(compile(text, '<submission>', 'exec'), names)
    arguments = TASKS[task].tests[0]
    data = TASKS[task].generate_input(**arguments)
    first = names['custom_kernel'](data)
    is_correct = torch.allclose(first, TASKS[task].ref_kernel(data).float(), atol=1e-4)
    for _ in range(20):
        names['custom_kernel'](data)
    return is_correct


CHEAT_CODES = 'replay constant seed shapes precision unwritten alias inputs subclass late stream patched'.split()
CHEAT_CODES += ['inspected', 'wrong later', 'reference', 'fallback', 'wrong', 'clock']


@problem(
    'where_next.cheat',
    cases=[dict(look=answer) for answer in ('the trusting judge', 'the judge', 'why')],
    hints=[
        'What does the trusting judge not check? For example, it ignores the answers after the first call, and its '
        'inputs are known beforehand.',
        'The file has `#!POPCORN leaderboard softmax`, an import of torch, and `def custom_kernel(data): ...`. '
        'Variables of the module persist between calls.',
        'For instance: count the calls, and from the second on return `torch.empty_like(data)`.',
    ],
)
def _(fn, rng, look):
    text = fn()
    if not isinstance(text, str):
        raise AssertionError(f'return the contents of a file as a string; got {type(text).__name__}')
    if look == 'the trusting judge':
        _check_naive_judge(text)
        return
    verdict = _verdict(text)
    if verdict.accepted:
        raise AssertionError('the judge checked all answers and accepts the submission: it is not a cheat')
    if look == 'why' and verdict.code not in CHEAT_CODES:
        problem = f'the submission is rejected as {verdict.code!r}, {verdict.reason}'
        raise AssertionError(f'{problem}: an error is not a cheat')
    if look == 'why' and verdict.code == 'replay':
        raise AssertionError('the submission is rejected as a replay, which the lesson has shown: find another cheat')


def _check_naive_judge(text):
    "Raise `AssertionError` unless the trusting judge accepts the submission"
    try:
        accepted = judge_naively(text)
    except Exception as e:
        raise AssertionError(
            f'the trusting judge could not run the submission: {type(e).__name__}: {e}. It takes a file for '
            'softmax, in torch: `custom_kernel(data)`, with one tensor'
        ) from None
    if not accepted:
        raise AssertionError(
            'not even the trusting judge accepts the submission: the first answer must equal, to 1e-4, the result of '
            'the reference on `data`, which is computed afterwards'
        )


def _verdict(text):
    from ...judge import judge

    return judge(text, 'softmax')
