"""The random numbers of `tl.rand`, with the same bits as on a GPU: the generator Philox (Salmon et al., 2011)."""

import numpy as np

from .block import block_of, broadcast, with_undef, tensor
from .elements import where
from .elements import log, maximum
from .types import DTYPES

__all__ = [
    'philox',
    'randint4x',
    'randint',
    'uint_to_uniform_float',
    'rand4x',
    'rand',
    'pair_uniform_to_normal',
    'randn4x',
    'randn',
]

_I32, _U32, _I64 = (DTYPES[name] for name in ('int32', 'uint32', 'int64'))
# bits per word of the counter -> (multipliers, key increments)
_PHILOX_CONSTANTS = {
    32: ((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)),
    64: ((0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)),
}


def _philox(
    seed,  # a `np.uint64`
    counter,  # four arrays of one shape
    counter_type,  # the type of its words, which has 32 or 64 bits
    num_rounds=10,
):  # four blocks of random bits, unsigned
    "Run the rounds of Philox 4x32 or 4x64"
    num_bits = counter_type.primitive_bitwidth
    uint = np.dtype(f'u{num_bits // 8}').type
    (multiplier_a, multiplier_b), key_increments = (tuple(map(uint, words)) for words in _PHILOX_CONSTANTS[num_bits])
    counters = [np.asarray(word).astype(uint) for word in counter]
    keys = [uint(seed & np.uint64(0xFFFFFFFF)), uint(seed >> np.uint64(32))] if num_bits == 32 else [seed, uint(0)]
    for _ in range(num_rounds):
        high_b, high_a = _upper_half(multiplier_b, counters[2]), _upper_half(multiplier_a, counters[0])
        counters = [
            high_b ^ counters[1] ^ keys[0],
            multiplier_b * counters[2],
            high_a ^ counters[3] ^ keys[1],
            multiplier_a * counters[0],
        ]
        keys = [key + increment for key, increment in zip(keys, key_increments)]
    return tuple(tensor(word[()], DTYPES[f'uint{num_bits}']) for word in counters)


def _upper_half(x, y):
    "Return the upper halves of the products of `x` and the words `y`"
    if x.dtype.itemsize == 4:
        return ((np.uint64(x) * y.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0 = x & low
    x1 = x >> shift
    y0 = y & low
    y1 = y >> shift
    middle = x1 * y0 + ((x0 * y0) >> shift)
    carry = x0 * y1 + (middle & low)
    return x1 * y1 + (middle >> shift) + (carry >> shift)


def philox(seed, c0, c1, c2, c3, n_rounds=10):
    "Return four blocks of random bits for a seed and a counter of four blocks"
    seed = block_of(seed)
    counters = [block_of(word) for word in (c0, c1, c2, c3)]
    words = _philox(seed.data.astype(np.uint64), broadcast(*counters), counters[0].dtype, n_rounds)
    return tuple(with_undef(word.data, word.dtype, seed, *counters) for word in words)


def randint4x(seed, offset, n_rounds=10):
    "Return four blocks of random 32-bit integers, each with one element per offset"
    offset = block_of(offset)
    low = offset.to(_U32)
    zero = low * 0
    high = (offset >> 32).to(_U32) if offset.dtype.primitive_bitwidth > 32 else zero
    return philox(seed, low, high, zero, zero, n_rounds)


def randint(seed, offset, n_rounds=10):
    "Return a block of random 32-bit integers"
    return randint4x(seed, offset, n_rounds)[0]


def uint_to_uniform_float(x):
    "Convert random bits to floats in [0, 1)"
    is_64_bit = x.dtype.primitive_bitwidth == 64
    x = x.to(_I64 if is_64_bit else _I32, bitcast=True)
    return where(x < 0, -x - 1, x) * (1.0842020432385337e-19 if is_64_bit else 4.6566127342e-10)


def rand4x(seed, offsets, n_rounds=10):
    "Return four blocks of random floats in [0, 1)"
    return tuple(map(uint_to_uniform_float, randint4x(seed, offsets, n_rounds)))


def rand(seed, offset, n_rounds=10):
    "Return a block of random floats in [0, 1)"
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def pair_uniform_to_normal(u1, u2):
    "Return two blocks of normally distributed values from two uniform ones, by the Box-Muller transform"
    u1 = maximum(1.0e-7, u1)
    angle = 6.283185307179586 * u2
    radius = (-2.0 * log(u1)).sqrt()
    return radius * angle.cos(), radius * angle.sin()


def randn4x(seed, offset, n_rounds=10):
    "Return four blocks of normally distributed values"
    a, b, c, fourth = rand4x(seed, offset, n_rounds)
    return *pair_uniform_to_normal(a, b), *pair_uniform_to_normal(c, fourth)


def randn(seed, offset, n_rounds=10):
    "Return a block of normally distributed values"
    return randn4x(seed, offset, n_rounds)[0]
