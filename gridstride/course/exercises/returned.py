"What a learner's function returned, in one form whichever way it was written."

from numbers import Real

import numpy as np

__all__ = ['number', 'integer']


def number(got):
    "Return a number of Python, NumPy or torch as Python's; None if it is not a number"
    if hasattr(got, 'item') and np.ndim(got) == 0:
        got = got.item()
    return got if isinstance(got, Real) and not isinstance(got, bool) else None


def integer(got) -> int:
    "Return an integer, even if it is a float, as from NumPy's `ceil`; raises `AssertionError` for anything else"
    n = number(got)
    if n is None or n % 1 != 0:
        raise AssertionError(f'an integer is wanted; got {got!r}')
    return int(n)
