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


def float_to_int(values, target):
    """Convert floats to integers as an H100 does: truncate, and saturate at the limits of the type.

    8-bit results are the low 8 bits of 16-bit ones. NaN becomes 0, with fp64 or 64-bit results the sign bit."""
    if target.size == 1:
        return float_to_int(values, DTYPES[target.name.replace('8', '16')]).astype(target.np)
    info = np.iinfo(target.np)
    nan_result = target.number(0)
    if 8 in (target.size, values.dtype.itemsize):
        nan_result = np.array(1 << (8 * target.size - 1), f'u{target.size}').view(target.np)[()]
    truncated = np.trunc(values.astype(np.float64))
    in_range = np.where((truncated > info.min) & (truncated < info.max), truncated, 0).astype(target.np)
    saturated = np.where(
        truncated >= info.max,
        target.number(info.max),
        np.where(truncated <= info.min, target.number(info.min), in_range),
    )
    return np.where(np.isnan(truncated), nan_result, saturated)[()]


_LARGEST = dict(float8e4nv=448.0, float8e5=57344.0, float8e4b8=240.0, float8e5b16=57344.0)


def float_to_fp8(values, target):
    "Convert to an fp8 type; values that are too large become the largest finite one"
    values = values.astype(np.float32)
    limit = np.float32(_LARGEST[target.name])
    return np.clip(values, -limit, limit).astype(target.np)


def fp8e5_to_bf16(values):
    "Convert fp8e5 to bf16: Triton shifts the bits, so infinity and NaN become 65536 and more"
    bits = np.asarray(values).view(np.uint8)
    magnitude = np.ldexp(1 + (bits & 3) / np.float32(4), (bits >> 2 & 31).astype(np.int32) - 15)
    signed = np.where(bits & 128, -magnitude, magnitude).astype(np.float32)
    return np.where((bits & 124) == 124, signed, np.asarray(values).astype(np.float32))[()]


def round_towards_zero(values, target):
    "Convert to a narrower floating type, rounded towards 0"
    nearest = values.astype(target.np)
    widened = nearest.astype(values.dtype)
    is_past = np.abs(widened) > np.abs(values)
    bits = nearest.view(f'u{target.size}') if nearest.ndim else np.asarray(nearest).view(f'u{target.size}')[()]
    return np.where(is_past, bits - bits.dtype.type(1), bits).astype(bits.dtype).view(target.np)[()]
