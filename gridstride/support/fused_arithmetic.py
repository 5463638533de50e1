"""The fused multiply-add of a GPU on NumPy arrays: x*y + z, rounded once.

The product of two float32 or float16 values is exact in float64, and so is the error of the following sum (Knuth's
TwoSum). An inexact sum is rounded to odd, that is, to the neighbouring float64 value whose last bit is 1. Such a value
is never halfway between two narrower ones, so the final conversion rounds as if the sum were exact.
"""

import math
from fractions import Fraction

import numpy as np

__all__ = ['fused_multiply_add']


def fused_multiply_add(x, y, z):
    """Compute x*y + z in the type of the operands, rounded once; integers are multiplied and added.

    >>> x, z = np.float32(1 + 2**-12), np.float32(2**-60)
    >>> float(fused_multiply_add(x, x, z)) == 1 + 2**-11 + 2**-23, float(np.float32(float(x) * x + z)) == 1 + 2**-11
    (True, True)"""
    dtype = np.result_type(x, y, z)
    if dtype.kind != 'f':
        return x * y + z
    if dtype == np.float64:
        return np.vectorize(_fma_float64, otypes=[np.float64])(x, y, z)[()]
    x, y, z = (np.asarray(v).astype(np.float64) for v in (x, y, z))
    with np.errstate(invalid='ignore'):  # inf*0 and inf - inf
        return _add_rounding_to_odd(x * y, z).astype(dtype)[()]


def _add_rounding_to_odd(a, b):
    "Add two float64 arrays, rounding inexact sums to odd"
    total = np.asarray(a + b)
    b_part = total - a
    error = (a - (total - b_part)) + (b - b_part)
    is_even = (total.view(np.int64) & 1) == 0
    odd_neighbour = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(np.isfinite(total) & (error != 0) & is_even, odd_neighbour, total)


def _fma_float64(x, y, z):
    try:
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        result = float(exact)
    except (ValueError, OverflowError):  # an operand is infinite or NaN, or the result overflows
        return x * y + z
    if exact:
        return result or math.copysign(0.0, exact)  # the result may underflow
    return x * y + z  # an exact zero gets its sign from floating-point arithmetic
