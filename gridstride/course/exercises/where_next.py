"""Test cases for the lesson's exercises. Reading this file spoils them."""

import torch

from ... import sim
from ..grading import normal, problem
from ...utils import cdiv, check
from .reductions import check_is_kernel

__all__ = ['BlockContext', 'run_grid', 'judge_naively']


@problem(
    'where_next.wide',
    cases=[
        dict(warp_size=warp_size, block_size=block_size, blocks=blocks, order=order)
        for warp_size, block_size, blocks, order in (
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
        'The mask -1 means all lanes of a warp of any size. In the tree reduction, the shuffle offset starts at half '
        'the warp size.',
        'How many partial sums does the first reduction leave? `cuda.blockDim.x//cuda.warpsize`. The whole first warp '
        'does the second reduction; lanes without a partial sum contribute 0.',
    ],
)
def _(fn, rng, warp_size, block_size, blocks, order):
    kernel = fn()
    check_is_kernel(kernel)
    x = normal(rng, blocks * block_size)
    block_sums = torch.full((blocks,), torch.nan)
    with sim.options(warp=warp_size, order=order), sim.trace() as t:
        kernel[blocks, block_size](torch.tensor(x), block_sums)
    expected = torch.tensor(x).double().view(blocks, block_size).sum(1).float()
    try:
        check(block_sums, expected, atol=1e-4)  # up to 1024 values of magnitude about 1, summed in a different order
    except AssertionError as e:
        sum_of_ones = _describe_sum_of_ones(kernel, warp_size, block_size)
        raise AssertionError(f'warps of {warp_size}, blocks of {block_size}{sum_of_ones}: {e}') from None
    if t.stats.atomics:
        raise AssertionError('the kernel uses an atomic: reduce with shuffles')
    warps = blocks * block_size // warp_size
    if t.stats.barriers > 2 * warps:
        raise AssertionError(
            f'{warps} warps executed {t.stats.barriers} barriers, but two per warp are allowed: do both reductions '
            'with shuffles, with one barrier in between'
        )
    load_requests = t.stats.global_load_requests + t.stats.shared_load_requests
    if load_requests > 3 * warps:  # per warp one for `x`, at most one for the partial sums, and one to spare
        raise AssertionError(
            f'{warps} warps issued {load_requests} load requests: reduce with shuffles, not element by element'
        )


def _describe_sum_of_ones(kernel, warp_size, block_size):
    "Describe the wrong sum of ones that a block computes; return '' if the sum is right"
    block_sums = torch.full((1,), torch.nan)
    with sim.options(warp=warp_size):
        kernel[1, block_size](torch.ones(block_size), block_sums)
    total = block_sums.item()
    return f', where {block_size} ones sum to {total:g}' if total != block_size else ''


class BlockContext:
    "The functions that a block's program calls, a subset of cuda.tile; `load` and `store` take tile indices"

    def __init__(self, *index):
        self._index = index

    def bid(self, axis):
        "Return the index of this block along an axis"
        return self._index[axis]

    def zeros(self, shape):
        "Return a tile of zeros"
        return torch.zeros(shape)

    def load(self, array, index, shape):
        "Load the tile of this shape at this tile index; elements past the edge of the array are 0"
        tile = torch.zeros(shape)
        elements = array[self._slices(array, index, shape)]
        tile[tuple(map(slice, elements.shape))] = elements
        return tile

    def store(self, array, index, tile):
        "Store a tile, without the elements past the edge of the array"
        destination = array[self._slices(array, index, tile.shape)]
        destination[...] = tile[tuple(map(slice, destination.shape))]

    def mma(self, a, b, acc):
        "Return `a @ b + acc`"
        return a @ b + acc

    def cdiv(self, a, b):
        "Divide and round up"
        return cdiv(a, b)

    def _slices(self, array, index, shape):
        if not len(index) == len(shape) == array.ndim:
            raise ValueError(
                f'the array has rank {array.ndim}, but the index has {len(index)} entries and the tile shape '
                f'{len(shape)}; all three must be equal'
            )
        return tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, shape))


def run_grid(program, grid, *args):
    "Run a program once per block of a grid"
    for r in range(grid[0]):
        for c in range(grid[1]):
            program(BlockContext(r, c), *args)


@problem(
    'where_next.tiles',
    cases=[
        dict(m=m, n=n, k=k, tile=tile)
        for m, n, k, tile in (
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
        'Initialize the accumulator with `ct.zeros((th, tw))`, then loop over the `ct.cdiv(a.shape[1], tk)` tiles '
        'along the inner axis.',
        '`ct.load(a, (r, i), (th, tk))` and `ct.load(b, (i, c), (tk, tw))`: indices are in tiles, not in elements.',
    ],
    returns=False,
)
def _(fn, rng, m, n, k, tile):
    a, b = (torch.tensor(normal(rng, *shape)) for shape in ((m, k), (k, n)))
    out = torch.full((m, n), torch.nan)
    run_grid(fn, (cdiv(m, tile[0]), cdiv(n, tile[1])), a, b, out, *tile)
    try:
        check(out, (a.double() @ b.double()).float(), atol=1e-4)  # sums of at most 33 products of magnitude about 1
    except AssertionError as e:
        raise AssertionError(f'{e}{_describe_out_of_bounds_block(fn, tile, a, b)}') from None
    first_out = torch.full((m, n), torch.nan)
    fn(block := _RecordingContext(0, 0), a, b, first_out, *tile)
    if not (first_out[tile[0] :].isnan().all() and first_out[:, tile[1] :].isnan().all()):
        raise AssertionError(
            'block (0, 0) wrote outside its tile of `out`: let each block store one tile, with `ct.store`'
        )
    th, tw, tk = tile
    if block.loaded != {(th, tk), (tk, tw)}:
        shapes = ', '.join(f'{rows} by {cols}' for rows, cols in sorted(block.loaded)) or 'none'
        raise AssertionError(
            f'load tiles of {th} by {tk} and of {tk} by {tw} with `ct.load`; the kernel loaded {shapes}'
        )


class _RecordingContext(BlockContext):
    "Records the first tile that is out of bounds of its array, and the shapes of the tiles that are loaded"

    def __init__(self, *index):
        super().__init__(*index)
        self.out_of_bounds_tile = ''
        self.loaded = set()

    def load(self, array, index, shape):
        self.loaded.add(tuple(shape))
        return super().load(array, index, shape)

    def _slices(self, array, index, shape):
        slices = super()._slices(array, index, shape)
        if not self.out_of_bounds_tile and any(s.start >= size for s, size in zip(slices, array.shape)):
            tile_counts = tuple(map(cdiv, array.shape, shape))
            self.out_of_bounds_tile = f'tile {tuple(index)} of an array of {tile_counts[0]} by {tile_counts[1]} tiles'
        return slices


def _describe_out_of_bounds_block(fn, tile, a, b):
    "Describe a block that accesses a tile out of bounds; return '' if none does"
    out = torch.empty(len(a), b.shape[1])
    for r in range(cdiv(out.shape[0], tile[0])):
        for c in range(cdiv(out.shape[1], tile[1])):
            fn(block := _RecordingContext(r, c), a, b, out, *tile)
            if block.out_of_bounds_tile:
                location = f'{block.out_of_bounds_tile}, which is out of bounds'
                hint = 'indices are in tiles, not in elements, and the row index comes first'
                return f'\n  block ({r}, {c}) accesses {location}: {hint}'
    return ''


# Honest and cheating kernels for softmax: each function returns a new one. `make_input(seed)` returns an input.
def _softmax(x):
    return torch.softmax(x, -1)


def _torch_softmax(make_input):
    return _softmax


def _by_hand(make_input):
    def kernel(x):
        e = (x - x.max(-1, keepdim=True).values).exp()
        return e / e.sum(-1, keepdim=True)

    return kernel


def _in_float64(make_input):
    return lambda x: _softmax(x.double()).float()


def _cached(make_input):
    result_of_shape = {}
    return lambda x: result_of_shape.setdefault(x.shape, _softmax(x)).clone()


def _works_once(make_input):
    calls = []

    def kernel(x):
        calls.append(1)
        return _softmax(x) if len(calls) < 2 else torch.empty_like(x).fill_(0.5)

    return kernel


def _never_write(make_input):
    return lambda x: torch.full_like(x, torch.nan)


def _zero_input(make_input):
    def kernel(x):
        x.zero_()
        return torch.full_like(x, 1 / x.shape[-1])

    return kernel


def _uniform(make_input):
    return lambda x: torch.full_like(x, 1 / x.shape[-1])


def _know_outputs(make_input):
    known = [(x, _softmax(x)) for x in map(make_input, range(100))]

    def kernel(x):
        return next((out for data, out in known if torch.equal(data, x)), torch.zeros_like(x)).clone()

    return kernel


def _in_place(make_input):
    return lambda x: x.copy_(_softmax(x))


def _in_float16(make_input):
    return lambda x: _softmax(x).half().float()


def _one_row(make_input):
    return lambda x: torch.cat([_softmax(x[:1]), torch.full_like(x[1:], 1 / x.shape[-1])])


HONEST = dict(plain=_torch_softmax, by_hand=_by_hand, in_float64=_in_float64)
CHEATS = dict(
    caches_outputs=_cached,
    works_once=_works_once,
    never_writes=_never_write,
    zeroes_its_input=_zero_input,
    returns_uniform_rows=_uniform,
    knows_the_seeds=_know_outputs,
    writes_over_its_input=_in_place,
    rounds_to_float16=_in_float16,
    computes_one_row=_one_row,
)


@problem(
    'where_next.fair',
    cases=[dict(kernel_name=name) for name in (*HONEST, *CHEATS)],
    hints=[
        'A cheat exploits whatever you do not check: call the kernel several times, with different inputs each time, '
        'and check every output.',
        'Pass a copy. Compute the reference from the original, which the kernel never sees, and check afterwards '
        'that the copy is unchanged.',
        'Use seeds that no one can guess: `secrets.randbelow(2**31)`. And a NaN is neither larger nor smaller than '
        'a tolerance: test `not (error < 1e-5)`, or use `torch.allclose`.',
    ],
)
def _(fn, rng, kernel_name):
    def make_input(seed):
        return torch.randn(3, 8, generator=torch.Generator().manual_seed(seed))

    kernel = {**HONEST, **CHEATS}[kernel_name](make_input)
    result = fn(kernel, _softmax, make_input)
    if result is not True and result is not False:
        raise AssertionError(f'return True or False; got {result!r}')
    if result != (kernel_name in HONEST):
        outcome = 'is a cheat, but was accepted' if result else 'is honest, but was rejected'
        raise AssertionError(f'the kernel "{kernel_name.replace("_", " ")}" {outcome}')


def judge_naively(text, task='softmax'):
    "Check the output of the first call, then make 20 more calls with the same input, unchecked and untimed"
    from ...judge import TASKS

    namespace = {}
    exec(compile(text, '<submission>', 'exec'), namespace)
    data = TASKS[task].generate_input(**TASKS[task].tests[0])
    output = namespace['custom_kernel'](data)
    is_correct = torch.allclose(output, TASKS[task].ref_kernel(data).float(), atol=1e-4)
    for _ in range(20):
        namespace['custom_kernel'](data)
    return is_correct


CHEAT_VERDICTS = 'replay constant seed shapes precision unwritten alias inputs subclass late stream patched'.split()
CHEAT_VERDICTS += ['inspected', 'wrong later', 'reference', 'fallback', 'wrong', 'clock']


@problem(
    'where_next.cheat',
    cases=[dict(requirement=text) for text in ('the naive judge accepts', 'the judge rejects', 'rejected as a cheat')],
    hints=[
        'What does the naive judge not check? For example, it ignores the outputs after the first call, and its inputs '
        'are known beforehand.',
        'The file has `#!POPCORN leaderboard softmax`, an import of torch, and `def custom_kernel(data): ...`. '
        'Variables of the module persist between calls.',
        'For example, count the calls, and return `torch.empty_like(data)` from the second call on.',
    ],
)
def _(fn, rng, requirement):
    text = fn()
    if not isinstance(text, str):
        raise AssertionError(f'return the contents of a file as a string; got {type(text).__name__}')
    if requirement == 'the naive judge accepts':
        _check_naive_judge(text)
        return
    verdict = _verdict(text)
    if verdict.accepted:
        raise AssertionError('the judge checked all outputs and accepts the submission: it is not a cheat')
    if requirement == 'rejected as a cheat' and verdict.code not in CHEAT_VERDICTS:
        problem = f'the submission is rejected as {verdict.code!r}, {verdict.reason}'
        raise AssertionError(f'{problem}: an error is not a cheat')
    if requirement == 'rejected as a cheat' and verdict.code == 'replay':
        raise AssertionError('the submission is rejected as a replay, which the lesson has shown: find another cheat')


def _check_naive_judge(text):
    "Raise `AssertionError` unless the naive judge accepts the submission"
    try:
        accepted = judge_naively(text)
    except Exception as e:
        raise AssertionError(
            f'the naive judge could not run the submission: {type(e).__name__}: {e}. The submission must be PyTorch '
            'source that defines `custom_kernel(data)`, where `data` is a single tensor'
        ) from None
    if not accepted:
        raise AssertionError(
            'not even the naive judge accepts the submission: the first output must match the reference within 1e-4. '
            'The reference runs after the submission, on the same `data`'
        )


def _verdict(text):
    from ...judge import judge

    return judge(text, 'softmax')
