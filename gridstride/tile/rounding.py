"""Arithmetic and conversions on NumPy arrays, with the rounding of the hardware and of Triton's compiler.

The arrays are the `data` of a kernel's tensors; `target` is a `types.dtype`.
"""

import numpy as np

from ..support.fused_arithmetic import fused_multiply_add
from .types import DTYPES

__all__ = ['float_to_fp8', 'float_to_int', 'fmod', 'fp8e5_to_bf16', 'int_quotient', 'round_towards_zero']


def int_quotient(x, y):
    """Divide integers as C does: the quotient is truncated.

    >>> int(int_quotient(np.int32(-7), np.int32(2)))
    -3"""
    if x.dtype.kind == 'u' or x.ndim == 0 == y.ndim and x >= 0 and y >= 0:
        return x // y
    return (x - np.fmod(x, y)) // y


def fmod(x, y):
    """Compute x % y as Triton compiles it: x - trunc(x / y) * y by one fused multiply-add; x for an infinite y.

    Unlike the `fmod` of C, it is inexact for a large quotient."""
    remainder = fused_multiply_add(-np.trunc(x / y), y, x)
    return np.where(np.isinf(y) & np.isfinite(x), x, remainder)[()]


def float_to_int(values, target):
    """Convert floats to integers as an H100 does: truncate, and saturate at the limits of the type.

    An 8-bit result is the low 8 bits of a 16-bit one. NaN becomes 0 or, if either type has 64 bits, the value with only
    the top bit set."""
    if target.size == 1:
        return float_to_int(values, DTYPES[target.name.replace('8', '16')]).astype(target.np)
    limits = np.iinfo(target.np)
    nan_result = target.number(0)
    if 8 in (target.size, values.dtype.itemsize):
        nan_result = np.array(1 << (8 * target.size - 1), f'u{target.size}').view(target.np)[()]
    truncated = np.trunc(values.astype(np.float64))
    converted_values = np.where((truncated > limits.min) & (truncated < limits.max), truncated, 0).astype(target.np)
    saturated_values = np.where(
        truncated >= limits.max,
        target.number(limits.max),
        np.where(truncated <= limits.min, target.number(limits.min), converted_values),
    )
    return np.where(np.isnan(truncated), nan_result, saturated_values)[()]


_MAX_FP8 = dict(float8e4nv=448.0, float8e5=57344.0, float8e4b8=240.0, float8e5b16=57344.0)


def float_to_fp8(values, target):
    "Convert to an fp8 type; values that are too large become the largest finite value"
    values = values.astype(np.float32)
    limit = np.float32(_MAX_FP8[target.name])
    return np.clip(values, -limit, limit).astype(target.np)


def fp8e5_to_bf16(values):
    "Convert fp8e5 to bf16: Triton shifts the bits, so infinity and NaN become 65536 or larger values"
    bits = np.asarray(values).view(np.uint8)
    magnitude = np.ldexp(1 + (bits & 3) / np.float32(4), (bits >> 2 & 31).astype(np.int32) - 15)
    scaled_values = np.where(bits & 128, -magnitude, magnitude).astype(np.float32)
    return np.where((bits & 124) == 124, scaled_values, np.asarray(values).astype(np.float32))[()]


def round_towards_zero(values, target):
    "Convert to a narrower floating type, rounded towards 0"
    nearest = values.astype(target.np)
    is_too_large = np.abs(nearest.astype(values.dtype)) > np.abs(values)
    bits = nearest.view(f'u{target.size}') if nearest.ndim else np.asarray(nearest).view(f'u{target.size}')[()]
    return np.where(is_too_large, bits - bits.dtype.type(1), bits).astype(bits.dtype).view(target.np)[()]
