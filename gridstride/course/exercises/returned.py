"Converts the number that a learner's function returned: a Python, NumPy or torch number."

from numbers import Real

import numpy as np

__all__ = ['as_number', 'as_integer']


def as_number(result):
    "Convert a Python, NumPy or torch number to a Python number; return None for anything else"
    if hasattr(result, 'item') and np.ndim(result) == 0:
        result = result.item()
    return result if isinstance(result, Real) and not isinstance(result, bool) else None


def as_integer(result) -> int:
    """Convert an integer, even a float such as 3.0, to an `int`; raises `AssertionError` for anything else.

    >>> as_integer(3.0)
    3"""
    n = as_number(result)
    if n is None or n % 1 != 0:
        raise AssertionError(f'return an integer; got {result!r}')
    return int(n)
