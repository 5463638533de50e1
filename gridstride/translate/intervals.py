"""Intervals of integers, (lowest, highest): their arithmetic, and their widening in loops.

The interval of an operation contains every result for operands in the given intervals; it may be larger than necessary.
"""

from functools import lru_cache

import numpy as np

from .types import INT_LIMIT, UINT64, is_int, is_unsigned


INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT64_RANGE = INT64_MIN, INT64_MAX
INT32_RANGE, UINT32_RANGE = (-(2**31), 2**31 - 1), (0, 2**32 - 1)


def is_within(a, b):
    """Return whether the interval `b` contains `a`.

    >>> is_within((0, 9), (0, 99))
    True"""
    return b[0] <= a[0] and a[1] <= b[1]


def hull(a, b):
    """Return the smallest interval that contains both; None is the empty interval.

    >>> hull((0, 3), (7, 9))
    (0, 9)"""
    return b if a is None else a if b is None else (min(a[0], b[0]), max(a[1], b[1]))


def clip(low, high):
    "Return the interval (low, high), or `INT64_RANGE` if it exceeds 64 bits, because the result then wraps"
    return (low, high) if INT64_MIN <= low and high <= INT64_MAX else INT64_RANGE


_EXACT_IN_FLOAT64 = -(2**53) + 1, 2**53 - 1  # integers that float64 represents exactly


def comparison_rounds(a, b, interval):
    "Return whether Numba compares `a` and `b`, a uint64 and a signed integer, as float64 values that may be rounded"
    if not (is_int(a.type) and is_int(b.type) and UINT64 in (a.type, b.type)):
        return False
    return not all(is_unsigned(operand.type) for operand in (a, b)) and not any(
        is_within(interval(operand), _EXACT_IN_FLOAT64) for operand in (a, b)
    )


@lru_cache
def dtype_interval(dtype):
    "Return the interval of all integers of type `dtype`: `dtype_interval('uint8')` is (0, 255)"
    if dtype == 'bool':
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _eval_at_bounds(operation, a, b):
    "Return the interval of an operation that is monotonic in each operand: its extremes are at the operands' bounds"
    values = [operation(x, y) for x in a for y in b]
    return clip(min(values), max(values))


def _floordiv(a, b):
    if b[0] <= 0 <= b[1]:  # omit the division by 0, which is undefined
        divisors = [(low, high) for low, high in ((b[0], -1), (1, b[1])) if low <= high]
        if not divisors:
            return 0, 0
        result = None
        for divisor in divisors:
            result = hull(result, _floordiv(a, divisor))
        return hull(result, (0, 0)) if b[0] < 0 else result
    return _eval_at_bounds(lambda x, y: x // y, a, b)


def _mod(a, b):
    if b[0] > 0 and a[0] >= 0:
        return (0, min(a[1], b[1] - 1)) if a[1] >= b[0] or a[0] != a[1] else a
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def _all_ones(n):
    "Return the smallest number 2**k - 1 that is at least `n`"
    return (1 << n.bit_length()) - 1


def _and(a, b):
    if a[0] >= 0 and b[0] >= 0:
        return 0, min(a[1], b[1])
    if a[0] >= 0 or b[0] >= 0:
        return 0, (a if a[0] >= 0 else b)[1]
    return -_all_ones(-min(a[0], b[0])) - 1, max(a[1], b[1], 0)


def _or(a, b):
    if a[0] >= 0 and b[0] >= 0:
        return max(a[0], b[0]), _all_ones(max(a[1], b[1]))
    limit = max(_all_ones(abs(bound)) for bound in (*a, *b))
    return -limit - 1, limit


def _shl(a, b):
    return _eval_at_bounds(lambda x, y: x << y, a, (max(b[0], 0), min(max(b[1], 0), 64))) if b[1] >= 0 else INT64_RANGE


def _shr(a, b):
    return _eval_at_bounds(lambda x, y: x >> y, a, (max(b[0], 0), min(max(b[1], 0), 64)))


def _pow(a, b):
    if b[0] < 0 or b[1] > 64:
        return INT64_RANGE
    if a[0] >= 0:
        return _eval_at_bounds(lambda x, y: x**y, a, b)
    max_magnitude = max(abs(a[0]), abs(a[1])) ** b[1]
    return clip(-max_magnitude, max_magnitude)


INTERVAL_ARITHMETIC = dict(
    add=lambda a, b: clip(a[0] + b[0], a[1] + b[1]),
    sub=lambda a, b: clip(a[0] - b[1], a[1] - b[0]),
    mul=lambda a, b: _eval_at_bounds(lambda x, y: x * y, a, b),
    floordiv=_floordiv,
    mod=_mod,
    shl=_shl,
    shr=_shr,
    **{'and': _and, 'or': _or, 'xor': lambda a, b: (0, _or(a, b)[1]) if a[0] >= 0 and b[0] >= 0 else _or(a, b)},
    pow=_pow,
    min=lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    max=lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    cmod=lambda a, b: (-max(abs(a[0]), abs(a[1])), max(abs(a[0]), abs(a[1]))),
)


_WIDENING_BOUNDS = sorted(
    {0, 1, 2, 31, 32, 63, 127, 255, 511, 1023, 2047, 65535, INT_LIMIT, 2**31 - 1, 2**32 - 1, INT64_MAX}
    | {-1, -2, -32, -1024, -65536, -INT_LIMIT, -(2**31), INT64_MIN}
)


def widen(old, new):
    "Return an interval that contains both; a bound that grows jumps to the next of a finite set, so iterations end"
    if old is None:
        return new
    low = old[0] if new[0] >= old[0] else max(bound for bound in _WIDENING_BOUNDS if bound <= new[0])
    high = old[1] if new[1] <= old[1] else min(bound for bound in _WIDENING_BOUNDS if bound >= new[1])
    return low, high
