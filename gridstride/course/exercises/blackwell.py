"""Test cases for the lesson's exercises. Reading this file spoils them."""

import numpy as np
import torch

from .returned import as_integer, as_number
from ..grading import problem
from ...kernels.quant.block_formats import quantize_blocks
from ...utils import cdiv

__all__ = ['count_columns', 'expected_columns', 'expected_offset', 'expected_softmax']


def count_columns(tiles):
    "Count the columns for tiles of (n, bits), each rounded up"
    return sum(cdiv(n * bits, 32) for n, bits in tiles)


def expected_columns(tiles):
    "Return (columns to allocate, blocks of this kind on an SM) for tiles of (n, bits); None if they do not fit"
    used_columns = count_columns(tiles)
    allocated = max(32, 1 << (used_columns - 1).bit_length())
    return (allocated, 512 // allocated) if allocated <= 512 else None


@problem(
    'blackwell.columns',
    cases=[
        dict(tiles=tiles)
        for tiles in (
            [(128, 32)],
            [(128, 32), (128, 32)],
            [(20, 32)],
            [(192, 32)],
            [(192, 32), (20, 32)],
            [(128, 32), (128, 16)],
            [(33, 16)],
            [(16, 16)],
            [(256, 32), (256, 32)],
            [(256, 32), (256, 32), (8, 32)],
            [(128, 32), (128, 32), (128, 16), (128, 16)],
            [(257, 32)],
            [(17, 16), (17, 16), (15, 32)],
        )
    ],
    hints=[
        'First count the columns in use. A tile of 32-bit elements takes `n`, and one of 16-bit elements takes half as '
        'many, rounded up.',
        'Then round the sum up to a power of two, at least 32. The smallest power of two that is at least `n` is '
        '`1 << (n - 1).bit_length()`.',
        'Round the sum to a power of two, not each tile. If the result is above 512, return None. '
        'Otherwise 512 divided by it is the number of blocks that share an SM.',
    ],
)
def _(fn, rng, tiles):
    result = fn(list(tiles))
    expected = expected_columns(tiles)
    if result is not None and not (isinstance(result, tuple) and len(result) == 2):
        raise AssertionError(f'return (columns, blocks) or None; got {result!r}')
    if result != expected:
        used_columns = count_columns(tiles)
        raise AssertionError(
            f'tiles {tiles}: {used_columns} columns are used before rounding; expected {expected}; got {result}'
        )


@problem(
    'blackwell.block',
    cases=[
        dict(size=size, kind=kind)
        for size, kind in (
            (1.0, 'random'),
            (3e-3, 'random'),
            (900.0, 'random'),
            (1.0, 'tie'),
            (1.0, 'clipped'),
            (1.0, 'power'),
            (1.0, 'negative'),
        )
    ],
    hints=[
        '`math.frexp(x)` returns (fraction, exponent) with x = fraction * 2**exponent and 0.5 <= fraction < 1, so '
        'floor(log2(x)) is exponent - 1.',
        'Subtract 2, because 6, the largest value, is 1.5 * 2**2. Add 127 to get the code of the scale.',
        'Divide by the scale, `2.0**(code - 127)`. `e2m1_codes` then rounds, and clips values above 6.',
    ],
)
def _(fn, rng, size, kind):
    x = torch.tensor(rng.normal(0, size, 32), dtype=torch.float32)
    largest_value = dict(tie=6.0, clipped=7.9, power=4.0, negative=-5.5).get(kind)
    if largest_value:
        x = x.clamp(-3, 3)
        x[17] = largest_value
    if kind == 'tie':
        x[:4] = torch.tensor([0.25, 0.75, 2.5, 5.0])
    expected = quantize_blocks(x[None], 'mxfp4')
    result = fn(x.clone())
    if not isinstance(result, tuple) or len(result) != 2:
        raise AssertionError(f'return (scale code, element codes); got {result!r}')
    scale, codes = as_integer(result[0]), torch.as_tensor(result[1]).flatten().tolist()
    if scale != expected.scales.item():
        raise AssertionError(
            f'the largest magnitude is {x.abs().max():g}: got {scale} as the code of the scale, '
            f'expected {expected.scales.item()}'
        )
    if codes != (expected_codes := expected.codes[0].tolist()):
        i = next((i for i, pair in enumerate(zip(codes, expected_codes)) if pair[0] != pair[1]), None)
        if i is None:
            raise AssertionError(f'expected 32 codes; got {len(codes)}')
        raise AssertionError(
            f'element {i} is {x[i]:g}, its scale 2**{scale - 127}: expected code {expected_codes[i]}; got {codes[i]}'
        )


def expected_offset(row, block, blocks):
    "Return the offset of a scale in tiles of 128 rows and 4 blocks"
    tile = row // 128 * cdiv(blocks, 4) + block // 4
    return tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + block % 4


@problem(
    'blackwell.offset',
    cases=[
        dict(row=row, block=block, blocks=blocks)
        for row, block, blocks in (
            (0, 0, 4),
            (1, 0, 4),
            (0, 3, 4),
            (32, 0, 4),
            (127, 3, 4),
            (0, 4, 8),
            (128, 0, 8),
            (200, 6, 8),
            (300, 5, 6),
            (131, 4, 5),
        )
    ],
    hints=[
        'A tile has 512 bytes. How many tiles are in a band of 128 rows? `cdiv(blocks, 4)`.',
        'In a tile, row % 32 selects 16 bytes, and (row % 128)//32 selects 4 of these.',
        '`block % 4` selects the byte; `block//4` is the index of the tile in its band.',
    ],
)
def _(fn, rng, row, block, blocks):
    result, expected = as_integer(fn(row, block, blocks)), expected_offset(row, block, blocks)
    if result != expected:
        raise AssertionError(
            f'row {row}, block {block} of {blocks}: got {_byte_of_tile(result)}, expected {_byte_of_tile(expected)}'
        )


def _byte_of_tile(offset):
    return f'byte {offset} (byte {offset % 512} of tile {offset // 512})'


class _Polynomial:
    "A polynomial that records the arguments with which it is called"

    def __init__(self):
        self.arguments = []

    def __call__(self, f):
        self.arguments.append(np.asarray(f, dtype=np.float64))
        return np.float32(1) + np.asarray(f, np.float32) * (
            np.float32(0.65) + np.float32(0.35) * np.asarray(f, np.float32)
        )


@problem(
    'blackwell.exp2',
    cases=[
        dict(x=x) for x in ([-0.25, -1.5, -7.75], [0.0, -1.0, -2.0], [-126.0, -40.5, -0.001], [-1000.0, -200.3, -3e7])
    ],
    hints=[
        '`n = np.floor(x)`: for -0.25 that is -1, and the fraction x - n is 0.75. `int(x)` rounds towards zero.',
        '`np.ldexp(y, n.astype(int))` is y * 2**n. A kernel adds n * 2**23 to the bits of the float instead.',
        '2**x is not a normal float for x below -126, so limit x to at least -126 first, with `np.maximum`.',
    ],
)
def _(fn, rng, x):
    x, p = np.array(x, np.float32), _Polynomial()
    result = np.asarray(fn(x.copy(), p))
    if result.shape != x.shape or result.dtype != np.float32:
        raise AssertionError(f'return float32 of shape {x.shape}; got {result.dtype} {result.shape}')
    for f in p.arguments:
        if f.min() < 0 or f.max() > 1:
            raise AssertionError(f'p was called with {f[(f < 0) | (f > 1)].flat[0]:g}; it is valid from 0 to 1 only')
    if not p.arguments:
        raise AssertionError('p was never called: compute 2**fraction with p, the polynomial, not with an exponential')
    n = np.floor(np.maximum(x.astype(np.float64), -126))
    expected = _Polynomial()(np.maximum(x.astype(np.float64), -126) - n) * 2.0**n
    wrong = np.abs(result - expected) > 1e-5 * expected
    if wrong.any():
        i = int(np.argmax(wrong))
        raise AssertionError(f'x = {x[i]:g}: got {result[i]:g}, expected {expected[i]:g}')


def expected_softmax(tiles, threshold):
    "Return (times that it rescales, reference maximum, sum of the weights relative to it)"
    reference, total, count = tiles[0].max(), np.exp2(tiles[0] - tiles[0].max()).sum(), 0
    for tile in tiles[1:]:
        if tile.max() > reference + threshold:
            total, reference, count = total * np.exp2(reference - tile.max()), tile.max(), count + 1
        total += np.exp2(tile - reference).sum()
    return count, reference, total


@problem(
    'blackwell.rescale',
    cases=[
        dict(maxima=maxima, threshold=threshold)
        for maxima, threshold in (
            ([0], 8),
            ([0, 5, 9, 12], 8),
            ([0, 9, 3, 18], 8),
            ([0, 8, 8.5], 8),
            ([4, 1, 0], 8),
            ([0, 1, 2, 3], 0),
            ([-20, -15, -4, 3], 8),
            ([0, 3, 6, 9, 12, 15], 4),
        )
    ],
    hints=[
        'The reference starts as the maximum of the first tile. It changes only if a tile exceeds it by more than the '
        'threshold.',
        'If it changes, multiply the sum by 2**(old - new) before you add the weights of the tile.',
        'Otherwise the weights are 2**(score - reference), which may be as large as 2**threshold.',
    ],
)
def _(fn, rng, maxima, threshold):
    tiles = np.array([m - rng.uniform(0, 6, 16) for m in maxima])
    tiles[:, 3] = maxima
    result, expected = fn(tiles.copy(), threshold), expected_softmax(tiles, threshold)
    if not isinstance(result, tuple) or len(result) != 3 or any(as_number(x) is None for x in result):
        raise AssertionError(f'return (rescales, reference, sum); got {result!r}')
    for name, actual, value in zip(('rescales', 'the reference', 'the sum'), map(as_number, result), expected):
        if not abs(actual - value) <= 1e-9 * max(1, abs(value)):
            raise AssertionError(f'maxima {maxima}, threshold {threshold}: {name}: got {actual:g}, expected {value:g}')
