"Converts the number that a learner's function returned, of Python, NumPy or torch."

from numbers import Real

import numpy as np

__all__ = ['number', 'integer']


def number(got):
    "Convert a number of Python, NumPy or torch to a Python number; None if it is not a number"
    if hasattr(got, 'item') and np.ndim(got) == 0:
        got = got.item()
    return got if isinstance(got, Real) and not isinstance(got, bool) else None


def integer(got) -> int:
    """Convert an integer, even a float such as 3.0, to an `int`; raises `AssertionError` for anything else.

    >>> integer(3.0)
    3"""
    n = number(got)
    if n is None or n % 1 != 0:
        raise AssertionError(f'return an integer; got {got!r}')
    return int(n)
