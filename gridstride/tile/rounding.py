"""Arithmetic and conversions of NumPy arrays, rounded as the hardware and Triton's compiler do it.

The arrays are the data of a kernel's values; a type `t` is a `types.dtype`.
"""

from fractions import Fraction

import numpy as np

from .types import DTYPES

__all__ = ['float_to_fp8', 'float_to_int', 'fma_data', 'fmod', 'fp8e5_to_bf16', 'int_quotient', 'round_towards_zero']


def int_quotient(x, y):
    """Divide integers as C does: the quotient is truncated.

    >>> int(int_quotient(np.int32(-7), np.int32(2)))
    -3"""
    if x.dtype.kind == 'u' or x.ndim == 0 == y.ndim and x >= 0 and y >= 0:
        return x // y
    return (x - np.fmod(x, y)) // y


def fmod(x, y):
    "Compute x % y as the compiler does: x - trunc(x / y) * y, rounded once, so inexact where the quotient is large"
    remainder = fma_data(-np.trunc(x / y), y, x)
    return np.where(np.isinf(y) & np.isfinite(x), x, remainder)[()]


def fma_data(x, y, z):
    "Compute x*y + z, rounded once"
    if np.result_type(x) != np.float64:
        wide = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
        return wide.astype(np.result_type(x))
    return np.vectorize(_fma_exact, otypes=[np.float64])(x, y, z)[()]


def _fma_exact(x, y, z):
    try:
        return float(Fraction(x) * Fraction(y) + Fraction(z)) or x * y + z  # which knows the sign of 0
    except (ValueError, OverflowError):  # of infinity and NaN
        return x * y + z


def float_to_int(a, t):
    """Convert floats to integers as an H100 does: truncate, and saturate at the limits of the type.

    8-bit results are the low 8 bits of 16-bit ones. NaN becomes 0, with fp64 or 64-bit results the sign bit."""
    if t.size == 1:
        return float_to_int(a, DTYPES[t.name.replace('8', '16')]).astype(t.np)
    info = np.iinfo(t.np)
    nan = t.number(0)
    if 8 in (t.size, a.dtype.itemsize):
        nan = np.array(1 << (8 * t.size - 1), f'u{t.size}').view(t.np)[()]
    cut = np.trunc(a.astype(np.float64))
    inside = np.where((cut > info.min) & (cut < info.max), cut, 0).astype(t.np)
    ended = np.where(cut >= info.max, t.number(info.max), np.where(cut <= info.min, t.number(info.min), inside))
    return np.where(np.isnan(cut), nan, ended)[()]


_LARGEST = dict(float8e4nv=448.0, float8e5=57344.0, float8e4b8=240.0, float8e5b16=57344.0)


def float_to_fp8(a, t):
    "Convert to an fp8 type; values that are too large become the largest finite one"
    a = a.astype(np.float32)
    most = np.float32(_LARGEST[t.name])
    return np.clip(a, -most, most).astype(t.np)


def fp8e5_to_bf16(a):
    "Convert fp8e5 to bf16: Triton shifts the bits, so infinity and NaN become 65536 and more"
    bits = np.asarray(a).view(np.uint8)
    size = np.ldexp(1 + (bits & 3) / np.float32(4), (bits >> 2 & 31).astype(np.int32) - 15)
    ended = np.where(bits & 128, -size, size).astype(np.float32)
    return np.where((bits & 124) == 124, ended, np.asarray(a).astype(np.float32))[()]


def round_towards_zero(a, t):
    "Convert to a narrower floating type, rounded towards 0"
    near = a.astype(t.np)
    wide = near.astype(a.dtype)
    past = np.abs(wide) > np.abs(a)
    bits = near.view(f'u{t.size}') if near.ndim else np.asarray(near).view(f'u{t.size}')[()]
    return np.where(past, bits - bits.dtype.type(1), bits).astype(bits.dtype).view(t.np)[()]
