"""Test cases for the lesson's exercises. Reading this file spoils them."""

import re
import warnings

import numpy as np
import torch

from ...cpp import load_cuda, on_emulator
from ..grading import normal, problem
from ...diagnostics.errors import SameValueRace
from .cuda_c import without_comments, source
from ...utils import cdiv, check, cuda_begin

__all__ = [
    'HOST',
    'TILE_WIDTHS',
    'SHAPES',
    'RECTANGLES',
    'TWO_ROW_TILES',
    'check_source',
    'launch',
    'check_unchanged',
    'judge_matmul',
]


@problem(
    'shared_memory_cuda.bytes',
    cases=[
        dict(th=th, tk=tk, tw=tw)
        for th, tk, tw in ((16, 16, 16), (3, 5, 4), (1, 1, 2), (5, 3, 2), (16, 8, 32), (1, 1, 1))
    ],
    hints=[
        'How many floats do the two tiles hold? A float takes 4 bytes.',
        'A double must be aligned to 8 bytes: it may begin at the end of the tiles only if that is a multiple of '
        '8. `cdiv(x, 8)*8` rounds x up to a multiple of 8.',
        'The doubles begin at `first = cdiv(4*(th*tk + tk*tw), 8)*8`, and take `8*tw` bytes more. '
        'Return both, the total first.',
    ],
)
def _(fn, rng, th, tk, tw):
    result = fn(th, tk, tw)
    first = cdiv(4 * (th * tk + tk * tw), 8) * 8
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise AssertionError(
            f'return two integers, the total number of bytes and the byte offset of the doubles; got {result!r}'
        )
    if result[0] < result[1]:
        raise AssertionError(
            f'{result[0]} bytes in total cannot hold doubles that begin at byte {result[1]}: return the total first'
        )
    if result[1] != first:
        raise AssertionError(
            f'the doubles begin at byte {result[1]}, but the first multiple of 8 after both tiles is {first}'
        )
    if result[0] != first + 8 * tw:
        raise AssertionError(f'got {result[0]} bytes in total, but {first + 8 * tw} are needed')


# The other answers are templates. The judge adds a host function that launches any of the instances, and compiles it
# for the emulator, even on a machine with a GPU: only the emulator reports a data race whose result is right.
HOST = r'''
void launch(int instance, int bx, int by, int tx, int ty, torch::Tensor m, torch::Tensor n, torch::Tensor out,
            int h, int w, int k) {
    dim3 blocks(bx, by), threads(tx, ty);
    float *m_at = m.data_ptr<float>(), *n_at = n.data_ptr<float>(), *out_at = out.data_ptr<float>();
    (void)m_at; (void)n_at; (void)h; (void)w; (void)k;
    switch (instance) {
        CASES
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}
'''


def check_source(src, kernel):
    "Raise `AssertionError` if the template has another name, or does not use its parameters or shared memory"
    code = without_comments(src)
    template = re.search(rf'template\s*<([^{{}}<>]*)>[^{{}}]*\b{kernel}\s*\(', code)
    if not template:
        raise AssertionError(
            f'the source has no template {kernel}: copy its first line from the exercise, '
            'from `template` to the closing parenthesis'
        )
    shared = [
        n for declared in re.findall(r'__shared__([^;]*);', code) for n in re.findall(r'(\w+)\s*(?:\[|,|$)', declared)
    ]
    if not shared:
        raise AssertionError('the kernel uses no shared memory: declare the tiles __shared__')
    for name in shared:
        if len(re.findall(rf'\b{name}\b', code)) < 2:
            raise AssertionError(
                f'{name} is in shared memory but is never used: load the tile into it and read it from there'
            )
    for name in re.findall(r'\w+\s+(\w+)', template[1]):
        if len(re.findall(rf'\b{name}\b', code)) < 2:
            raise AssertionError(f'the kernel never uses {name}, a parameter of its template')


def launch(
    fn,
    kernel,  # the name of the template that `fn` returns
    instances,  # template arguments of every instance, a tuple each
    instance,  # those of the instance to launch
    args,  # its arguments as C, in terms of m_at, n_at, out_at, h, w and k
    blocks,
    threads,
    m,
    n,
    out,
    h=0,
    w=0,
    k=0,
):
    "Launch one instance of the learner's template; raises `AssertionError` if several threads write the same element"
    src = source(fn)
    check_source(src, kernel)
    cases = ' '.join(
        f"case {i}: {kernel}<{', '.join(map(str, s))}><<<blocks, threads>>>({args}); break;"
        for i, s in enumerate(instances)
    )
    with on_emulator():
        host = load_cuda(cuda_begin + src + HOST.replace('CASES', cases), funcs=['launch'])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            host.launch(instances.index(instance), *blocks, *threads, m, n, out, h, w, k)
    for warning in caught:
        if issubclass(warning.category, SameValueRace):
            message = str(warning.message).partition('. ')[0]
            raise AssertionError(f'{message}: distribute the elements, so that each is written by one thread')
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def check_unchanged(*pairs):  # (name, before, after)
    "Raise `AssertionError` if an input was written"
    for name, old, new in pairs:
        if not np.array_equal(old, new.numpy()):
            raise AssertionError(f'{name} was changed: read from {name}, write to out only')


TILE_WIDTHS = [(2,), (4,), (8,)]


@problem(
    'shared_memory_cuda.swap',
    cases=[dict(n=n, tw=tw) for n, tw in ((8, 4), (4, 4), (9, 4), (7, 8), (17, 8), (5, 2), (1, 4))],
    hints=[
        'The tile in row `by` and column `bx` is swapped with the tile in row `bx` and column `by`. '
        'Where does each begin in `x`?',
        'Two arrays, `mine[tw][tw]` and `other[tw][tw]`. All threads fill both, wait, and write both, transposed: '
        '`x[r*n + c] = other[tc][tr]`.',
        'Blocks with `bx < by` return at once. On the diagonal both tiles are the same, so one write is enough '
        'there. Each read and each write needs its own guard: '
        '`r < n && c < n`, or `r2 < n && c2 < n`.',
    ],
)
def _(fn, rng, n, tw):
    x = normal(rng, n, n)
    result = torch.tensor(x)
    launch(
        fn, 'transpose_k', TILE_WIDTHS, (tw,), 'out_at, h', (cdiv(n, tw),) * 2, (tw, tw), result, result, result, h=n
    )
    check(result, np.ascontiguousarray(x.T), tile=tw)
    if 'gridDim' in without_comments(source(fn)):
        return  # a grid-stride loop, in which one block computes all elements
    result = torch.tensor(x)
    launch(fn, 'transpose_k', TILE_WIDTHS, (tw,), 'out_at, h', (1, 1), (tw, tw), result, result, result, h=n)
    r, c = np.nonzero(result.numpy() != x)
    if max([*r, *c], default=0) >= tw:
        raise AssertionError(
            'the first block writes to tiles of other blocks: swap one pair of tiles per block, or transpose one tile '
            'on the diagonal'
        )


SHAPES = ((1, 1, 1), (5, 9, 7), (8, 3, 13), (8, 16, 8), (11, 17, 2), (3, 40, 9))  # h, k, w


def judge_matmul(fn, kernel, instances, instance, rng, h, k, w, tw, rows):
    "Judge a matmul kernel, whose blocks have `rows` rows of `tw` threads, on random matrices"
    m, n = normal(rng, h, k), normal(rng, k, w)
    m_tensor = torch.tensor(m)
    n_tensor = torch.tensor(n)
    out = torch.full((h, w), torch.nan)
    args = 'm_at, n_at, out_at, h, w, k'
    blocks = (cdiv(w, tw), cdiv(h, tw))
    launch(fn, kernel, instances, instance, args, blocks, (tw, rows), m_tensor, n_tensor, out, h, w, k)
    check_unchanged(('m', m, m_tensor), ('n', n, n_tensor))
    expected = (m.astype(np.float64) @ n).astype(np.float32)
    check(out, expected, atol=1e-4, tile=tw)  # at most 40 rounding errors of values around 6


RECTANGLES = [(4, 8), (8, 4), (4, 4), (4, 6), (2, 5)]  # tw, tk


@problem(
    'shared_memory_cuda.rect',
    cases=[dict(h=h, k=k, w=w, tw=tw, tk=tk) for tw, tk in RECTANGLES for h, k, w in SHAPES],
    hints=[
        'A phase now begins at `idx = ph*tk`, and there are `cdiv(k,tk)` of them.',
        'Thread (`tr`, `tc`) fills columns `tc`, `tc + tw`, `tc + 2*tw`, ... of row `tr` of `ms`, as long as they '
        'are below `tk`: write a loop, which is right even if `tk` is smaller than `tw`.',
        '`for (int i = tc; i < tk; i += tw) ms[tr][i] = r < h && idx+i < k ? m[r*k + idx+i] : '
        '0;` and for `ns` the same with `tr`, down its column `tc`.',
    ],
)
def _(fn, rng, h, k, w, tw, tk):
    judge_matmul(fn, 'matmul_rect_k', RECTANGLES, (tw, tk), rng, h, k, w, tw, tw)


TWO_ROW_TILES = [(4,), (8,), (2,), (16,)]  # the last has more than one warp in a block


@problem(
    'shared_memory_cuda.two',
    cases=[dict(h=h, k=k, w=w, tw=tw) for (tw,) in TWO_ROW_TILES for h, k, w in SHAPES],
    hints=[
        'Two accumulators, `o` and `o2`; two rows, `r` and `r + tw/2`. In the loop, '
        'keep `ns[i][tc]` in a variable and use it for both.',
        'Half the threads, the same tiles: each thread fills two elements of `ms` (rows `tr` and `tr + tw/2`) and '
        'two of `ns`, each with its own guard.',
        'The block covers `tw` rows of `out`, but `blockDim.y` is `tw/2`: `int r = blockIdx.y*tw + tr`. '
        'At the end, write both results, each with its own guard.',
    ],
)
def _(fn, rng, h, k, w, tw):
    judge_matmul(fn, 'matmul_two_k', TWO_ROW_TILES, (tw,), rng, h, k, w, tw, tw // 2)
