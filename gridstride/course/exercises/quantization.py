"""Test cases for the lesson's exercises. Reading this file spoils them."""

import numpy as np
import torch

from .cuda_c import source
from .triton import launch
from .fusion import nan_tensor, random_tensor
from .returned import as_number
from ... import tile
from ...cpp import cuda_kernel, on_emulator
from ..grading import problem
from ...kernels.quant import formats
from ...utils import cdiv, check

__all__ = ['GROUPS', 'decibels_by_group', 'check_equal']

GROUPS = 'row', 128, 64, 32  # the cheapest first


def check_equal(result, expected, name, format_input=None):
    """Raise `AssertionError` unless `result` has the type, the shape and the values of `expected`.

    `format_input(row, column)`: the input of an element, for the message."""
    if not isinstance(result, torch.Tensor) or result.dtype != expected.dtype or result.shape != expected.shape:
        description = f'{result.dtype} {tuple(result.shape)}' if isinstance(result, torch.Tensor) else repr(result)
        raise AssertionError(f'{name} must be {expected.dtype} {tuple(expected.shape)}; got {description}')
    if not torch.equal(result, expected):
        row, column = (result != expected).nonzero()[0].tolist()
        actual_item = result[row, column].item()
        expected_item = expected[row, column].item()
        texts = (
            f'{value & 0xFFFFFFFF:#010x}' if expected.dtype == torch.int32 else str(value)
            for value in (actual_item, expected_item)
        )
        source_text = f', from {format_input(row, column)}' if format_input else ''
        raise AssertionError('{}[{}, {}] is {}, but must be {}{}'.format(name, row, column, *texts, source_text))


def result_of(fn, x):
    "Return `fn(x)`; raises `AssertionError` if it changes `x`"
    copy = x.clone()
    result = fn(copy)
    if not torch.equal(copy, x):
        raise AssertionError('the input was changed: make a new tensor')
    return result


@problem(
    'quantization.bytes',
    cases=[
        dict(weights=weights, bits=bits, group=group, gbs=gbs)
        for weights, bits, group, gbs in (
            (8e9, 4, 128, 3000),
            (8e9, 4, 32, 3000),
            (7e10, 8, 8192, 3300),
            (1e9, 3, 64, 900),
            (8e9, 16, 1e12, 3000),
        )
    ],
    hints=[
        'Each weight is read once per token. How many bits does a weight take, including its fraction of the scale?',
        '`bits + 16/group` bits per weight; 8 bits per byte; `gbs*1e9` bytes per second.',
    ],
)
def _(fn, rng, **case):
    result = fn(**case)
    expected = 8e9 * case['gbs'] / (case['weights'] * (case['bits'] + 16 / case['group']))
    if (n := as_number(result)) is None or not abs(n / expected - 1) <= 1e-9:
        is_off_by_eight = n and any(abs(n * f / expected - 1) <= 1e-9 for f in (8, 1 / 8))
        advice = ': off by a factor of 8; convert bits to bytes' if is_off_by_eight else ''
        raise AssertionError(f'got {result!r}; expected {expected:.2f} tokens per second{advice}')


def decibels_by_group(w):
    "Return {group: decibels with 4 bits} for the groups that divide the columns"
    valid_groups = [g for g in GROUPS if g == 'row' or w.shape[1] % g == 0]
    return {g: formats.snr_db(w, formats.dequantize_ints(formats.symmetric(w, 4, g))) for g in valid_groups}


def with_outliers(rng, columns):
    "Make normal random values, with some large columns"
    w = random_tensor(rng, 16, columns)
    w[:, ::50] *= 6
    return w


def exact_in_groups_of_64(rng, columns):
    "Return a matrix that 4 bits represent exactly with one scale per 64 columns, but with no other group"
    q = rng.integers(-7, 8, (16, columns // 64, 64))
    q[..., 0] = 7
    q[..., 32:] = q[..., 32:].clip(-5, 5)  # so that 32 columns, with 5 for the largest, are not exact
    sizes = 4.0 ** np.arange(columns // 64)
    return torch.tensor(q * sizes[:, None], dtype=torch.float32).flatten(1)


def rounded(rng, fraction):
    """Return 256 columns whose values are about `fraction` of a step, so that 4 bits round all to 0, or all to 1.

    A wrong answer may divide by the energy of the rounded matrix, which differs from that of the matrix."""
    w = rng.uniform(fraction, fraction + 0.04, (16, 256)) * rng.choice([-1, 1], (16, 256))
    w[:, ::64] = 7
    return torch.tensor(w, dtype=torch.float32)


def matrix(rng, columns, kind):
    "Return the matrix of a case"
    if kind == 'exact':
        return exact_in_groups_of_64(rng, columns)
    return rounded(rng, 0.51 if kind == 'up' else 0.45) if kind in ('up', 'down') else with_outliers(rng, columns)


@problem(
    'quantization.group',
    cases=[
        dict(columns=columns, expected=expected, kind='exact' if columns == 256 else 'outliers')
        for columns, expected in (
            (512, 'row'),
            (512, 128),
            (512, 64),
            (512, 32),
            (512, None),
            (96, 32),
            (192, 64),
            (100, None),
            (100, 'row'),
            (256, 64),
        )
    ]
    + [dict(columns=256, expected=32, kind='up', least=8.5), dict(columns=256, expected='row', kind='down', least=6)],
    hints=[
        'Try them from the largest to the smallest, and return the first that is good enough.',
        "A group must divide `w.shape[1]`; `'row'` always does.",
        '`formats.snr_db(w, formats.dequantize_ints(formats.symmetric(w, 4, group)))` must be at least `least`. Both '
        'may be infinite.',
    ],
)
def _(fn, rng, columns, expected, kind, least=None):
    w = matrix(rng, columns, kind)
    decibels_of_group = decibels_by_group(w)
    if least is None:
        least = max(decibels_of_group.values()) + 1 if expected is None else decibels_of_group[expected] - 1e-3
    result = fn(w, least)
    if result != expected or isinstance(result, str) != isinstance(expected, str):
        decibel_texts = ', '.join(f'{g}: {db:.2f}' for g, db in decibels_of_group.items())
        raise AssertionError(
            f'{columns} columns, at least {least:.2f} dB: got {result!r}, expected {expected!r}; {decibel_texts} dB'
        )


TRY_NIBBLES = r"""
__global__ void try_k(const unsigned *w, int *out, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) out[i] = nibble(w[i/8], i%8);
}
"""


@problem(
    'quantization.sign',
    cases=[dict(words=n) for n in (1, 3, 40)],
    hints=[
        '`w >> 4*i & 15` is the nibble, from 0 to 15. What is its highest bit?',
        'Shifting an `int` to the right fills it with its sign bit. So first shift the nibble to the top.',
        'Nibble `i` is at the top after `w << (28 - 4*i)`. Then, as an `int`, `>> 28`.',
    ],
)
def _(fn, rng, words):
    with on_emulator():
        kernel = cuda_kernel(source(fn) + TRY_NIBBLES, name='try_k')
    w = torch.tensor(rng.integers(-(2**31), 2**31, words), dtype=torch.int32)
    out = torch.full((8 * words,), 99, dtype=torch.int32)
    kernel[cdiv(8 * words, 64), 64](w.view(torch.uint32), out, 8 * words)
    n = w[:, None].long() >> 4 * torch.arange(8) & 15
    expected = torch.where(n > 7, n - 16, n).flatten()
    if bad := (out != expected).nonzero().flatten().tolist():
        i = bad[0]
        word = f'{w[i // 8].item() & 0xFFFFFFFF:#010x}'
        raise AssertionError(f'nibble({word}, {i % 8}) is {out[i].item()}, but must be {expected[i].item()}')


@problem(
    'quantization.order',
    cases=[dict(rows=rows, columns=columns) for rows, columns in ((1, 8), (3, 8), (2, 24), (5, 64))],
    hints=[
        '`q.view(rows, -1, 8)` has groups of eight as its last axis; `[..., ORDER]` permutes them.',
        '`q + 8` is 0 to 15. In int64 you can shift and add: element `i` by `4*i` bits.',
        'The sum may be 2**31 or more: `.to(torch.uint32).view(torch.int32)` keeps the bits.',
    ],
)
def _(fn, rng, rows, columns):
    q = torch.tensor(rng.integers(-8, 8, (rows, columns)), dtype=torch.int8)
    n = (q + 8).to(torch.uint8).view(rows, -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]]
    check_equal(
        result_of(fn, q),
        formats.pack_bits(n.flatten(1), 4).view(torch.int32),
        'words',
        lambda r, c: f'q[{r}, {8 * c}:{8 * c + 8}] = {q[r, 8 * c : 8 * c + 8].tolist()}; lowest nibble first',
    )


@problem(
    'quantization.three',
    cases=[dict(rows=rows, columns=columns) for rows, columns in ((1, 8), (2, 8), (3, 40), (4, 16))],
    hints=[
        'Three bytes are 24 bits, eight weights of three bits. First combine the three bytes into one `int32`.',
        '`b0 | b1 << 8 | b2 << 16`: the first byte has the lowest bits. Weight `i` is `word >> 3*i & 7`.',
        'A uint8 shifted by 8 is 0: call `.int()` first. Subtract 4, then `.to(torch.int8)`.',
    ],
)
def _(fn, rng, rows, columns):
    q = torch.tensor(rng.integers(-4, 4, (rows, columns)), dtype=torch.int8)
    packed = formats.pack_bits((q + 4).to(torch.uint8), 3)

    def three_bytes(r, c):
        b = packed[r, c // 8 * 3 : c // 8 * 3 + 3].tolist()
        bits = f'{b[0] | b[1] << 8 | b[2] << 16:024b}'
        return f'the bytes {b}: 24 bits {bits}, of which weight {c % 8} is bits {3 * (c % 8)} to {3 * (c % 8) + 2}'

    check_equal(result_of(fn, packed), q, 'weights', three_bytes)


def check_blocks(t, k, HEIGHT, BLOCK):
    "Raise `AssertionError` unless each program writes its own rows, and reads `w`, of bytes, `BLOCK` columns at a time"
    for a in t.accesses:
        program = a['program'][0]
        foreign_elements = [r for r in a['at'] if a['verb'] == 'written' and r // HEIGHT != program]
        if foreign_elements:
            row_range = f'{program * HEIGHT} to {(program + 1) * HEIGHT - 1}'
            raise AssertionError(f'program {program} writes y[{foreign_elements[0]}], but its rows are {row_range}')
    reads = [a['at'] for a in t.accesses if a['verb'] == 'read' and a['size'] == 1]
    if (max_columns := 4 * max(len(set(indices % (k // 4))) for indices in reads)) != min(k, BLOCK):
        raise AssertionError(
            f'at most {max_columns} of {k} columns are read at a time: load blocks of BLOCK, {BLOCK} here'
        )


@problem(
    'quantization.two',
    cases=[
        dict(h=h, k=k, G=G, HEIGHT=HEIGHT, BLOCK=BLOCK)
        for h, k, G, HEIGHT, BLOCK in (
            (1, 4, 4, 1, 4),
            (4, 16, 16, 4, 16),
            (3, 24, 8, 2, 16),
            (5, 96, 32, 4, 32),
            (2, 48, 4, 2, 64),
            (9, 64, 16, 4, 16),
            (3, 64, 32, 2, 16),
        )
    ],
    hints=[
        'Begin as in `int4_k`. Column `c` is in byte `c//4`, its bits begin at `2*(c % 4)`.',
        'The scale of column `c` of row `r` has the index `r*(k//G) + c//G`, where `c` is the column in the whole row.',
        'The values of a byte are `uint8`: convert to float first, then subtract 2. `G` may be larger than `BLOCK`, so '
        'no block has `BLOCK//G` columns of scales: load one scale per column.',
    ],
)
def _(fn, rng, h, k, G, HEIGHT, BLOCK):
    q = torch.tensor(rng.integers(0, 4, (h, k)), dtype=torch.uint8)
    scales = random_tensor(rng, h, k // G)
    x = random_tensor(rng, k)
    y = nan_tensor(h)
    with tile.trace() as t:
        launch(fn, cdiv(h, HEIGHT), x, formats.pack_bits(q, 2), scales, y, h, k, G=G, HEIGHT=HEIGHT, BLOCK=BLOCK)
    w = (q.double() - 2) * scales.double().repeat_interleave(G, 1)
    check(y, (w @ x.double()).float(), rtol=1e-4, atol=1e-5)
    check_blocks(t, k, HEIGHT, BLOCK)
