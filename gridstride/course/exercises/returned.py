"What a learner's function returned, in one form whichever way it was written."

from numbers import Real

import numpy as np

__all__ = ['number', 'integer']


def number(got):
    "One of Python's numbers, also where it was NumPy's or torch's; None if it is not a number"
    if hasattr(got, 'item') and np.ndim(got) == 0:
        got = got.item()
    return got if isinstance(got, Real) and not isinstance(got, bool) else None


def integer(got) -> int:
    "An integer, also as a float, as NumPy's `ceil` has it; `AssertionError` for anything else"
    n = number(got)
    if n is None or n % 1 != 0:
        raise AssertionError(f'an integer is wanted; got {got!r}')
    return int(n)
