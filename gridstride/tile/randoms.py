"""Philox (Salmon et al., 2011), the random numbers of `tl.rand`: the same bits as on a GPU."""

import numpy as np

from .block import tensor
from .types import DTYPES

__all__ = ['philox']

# (multipliers, what the keys are raised by), by the counter's bits
_WORDS = {
    32: ((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)),
    64: ((0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)),
}


def philox(
    seed,  # NumPy's uint64
    counter,  # four arrays of one shape
    t,  # their type, of 32 or 64 bits
    rounds=10,
):  # four blocks of random bits, unsigned
    "The rounds of Philox 4x32 or 4x64"
    bits = t.primitive_bitwidth
    u = np.dtype(f'u{bits // 8}').type
    (a, b), raised = (tuple(map(u, o)) for o in _WORDS[bits])
    c = [np.asarray(o).astype(u) for o in counter]
    keys = [u(seed & np.uint64(0xFFFFFFFF)), u(seed >> np.uint64(32))] if bits == 32 else [seed, u(0)]
    for _ in range(rounds):
        high_b, high_a = _high(b, c[2]), _high(a, c[0])
        c = [high_b ^ c[1] ^ keys[0], b * c[2], high_a ^ c[3] ^ keys[1], a * c[0]]
        keys = [k + r for k, r in zip(keys, raised)]
    return tuple(tensor(o[()], DTYPES[f'uint{bits}']) for o in c)


def _high(x, y):
    "The upper half of products"
    if x.dtype.itemsize == 4:
        return ((np.uint64(x) * y.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> shift, y & low, y >> shift
    middle = x1 * y0 + ((x0 * y0) >> shift)
    other = x0 * y1 + (middle & low)
    return x1 * y1 + (middle >> shift) + (other >> shift)
