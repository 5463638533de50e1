"""Intervals of integers, (lowest, highest): their arithmetic, and their widening in loops."""

from functools import lru_cache

import numpy as np

from .types import INT_LIMIT, UINT, is_int, is_unsigned


LOW, HIGH = -(2**63), 2**63 - 1


ALL = LOW, HIGH


U64 = 0, 2**64 - 1


INT32, UINT32 = (-(2**31), 2**31 - 1), (0, 2**32 - 1)


def within(a, b):
    """Return whether the interval `a` is a part of `b`.

    >>> within((0, 9), (0, 99))
    True"""
    return b[0] <= a[0] and a[1] <= b[1]


def hull(a, b):
    """Return the least interval that contains both; None is the empty interval.

    >>> hull((0, 3), (7, 9))
    (0, 9)"""
    return b if a is None else a if b is None else (min(a[0], b[0]), max(a[1], b[1]))


def clip(low, high):
    "Return the interval (low, high), or that of all 64-bit integers if it does not fit"
    return (low, high) if LOW <= low and high <= HIGH else ALL


_EXACT_IN_FLOAT64 = -(2**53) + 1, 2**53 - 1  # integers that float64 represents exactly


def comparison_rounds(a, b, interval):
    "Return whether `a` and `b`, a uint64 and a signed integer, may be rounded when Numba compares them as float64"
    if not (is_int(a.type) and is_int(b.type) and UINT in (a.type, b.type)):
        return False
    return not all(is_unsigned(operand.type) for operand in (a, b)) and not any(
        within(interval(operand), _EXACT_IN_FLOAT64) for operand in (a, b)
    )


@lru_cache
def of_dtype(dtype):
    "Return the interval of all integers of type `dtype`: `of_dtype('uint8')` is (0, 255)"
    if dtype == 'bool':
        return 0, 1
    i = np.iinfo(dtype)
    return int(i.min), int(i.max)


def _corners(f, a, b):
    "Return the interval of a function that is monotonic in each operand: its extremes are at the bounds"
    values = [f(x, y) for x in a for y in b]
    return clip(min(values), max(values))


def _floordiv(a, b):
    if b[0] <= 0 <= b[1]:  # leave out the division by 0, which has no meaning
        parts = [part for part in ((b[0], -1), (1, b[1])) if part[0] <= part[1]]
        if not parts:
            return 0, 0
        res = None
        for part in parts:
            res = hull(res, _floordiv(a, part))
        return hull(res, (0, 0)) if b[0] < 0 else res
    return _corners(lambda x, y: x // y, a, b)


def _mod(a, b):
    if b[0] > 0 and a[0] >= 0:
        return (0, min(a[1], b[1] - 1)) if a[1] >= b[0] or a[0] != a[1] else a
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def _bits(n):
    return (1 << n.bit_length()) - 1


def _and(a, b):
    if a[0] >= 0 and b[0] >= 0:
        return 0, min(a[1], b[1])
    if a[0] >= 0 or b[0] >= 0:
        return 0, (a if a[0] >= 0 else b)[1]
    return -_bits(-min(a[0], b[0])) - 1, max(a[1], b[1], 0)


def _or(a, b):
    if a[0] >= 0 and b[0] >= 0:
        return max(a[0], b[0]), _bits(max(a[1], b[1]))
    m = max(_bits(abs(bound)) for bound in (*a, *b))
    return -m - 1, m


def _shl(a, b):
    return _corners(lambda x, y: x << y, a, (max(b[0], 0), min(max(b[1], 0), 64))) if b[1] >= 0 else ALL


def _shr(a, b):
    return _corners(lambda x, y: x >> y, a, (max(b[0], 0), min(max(b[1], 0), 64)))


def _pow(a, b):
    if b[0] < 0 or b[1] > 64:
        return ALL
    if a[0] >= 0:
        return _corners(lambda x, y: x**y, a, b)
    most = max(abs(a[0]), abs(a[1])) ** b[1]
    return clip(-most, most)


INTERVAL_ARITHMETIC = dict(
    add=lambda a, b: clip(a[0] + b[0], a[1] + b[1]),
    sub=lambda a, b: clip(a[0] - b[1], a[1] - b[0]),
    mul=lambda a, b: _corners(lambda x, y: x * y, a, b),
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
    {0, 1, 2, 31, 32, 63, 127, 255, 511, 1023, 2047, 65535, INT_LIMIT, 2**31 - 1, 2**32 - 1, HIGH}
    | {-1, -2, -32, -1024, -65536, -INT_LIMIT, -(2**31), LOW}
)


def widen(old, new):
    "Return an interval that contains both: a bound that grows becomes the next of `_WIDENING_BOUNDS`, which are few"
    if old is None:
        return new
    low = old[0] if new[0] >= old[0] else max(step for step in _WIDENING_BOUNDS if step <= new[0])
    high = old[1] if new[1] <= old[1] else min(step for step in _WIDENING_BOUNDS if step >= new[1])
    return low, high
