"""The error of an answer compared with float64, and the error that a right answer may have.

A sum of k products in a type with the rounding error eps is off by at most about k eps times the sum of the products'
magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, 3.1). Roundings go up as often as down.
So the error grows with sqrt(k) if all products have one sign, so that partial sums are as large as the result (2.8
there); if signs change, partial sums stay far below the sum of the magnitudes. The judge therefore allows

    eps (4 sum|products| + sqrt(k) |sum of the products|)

Sums in float32, in any order, stay within this bound. Products of values with eleven bits do not, unless thousands of
them have one sign: then a sequential sum in float32 is as far off. An answer that is rounded to a narrower type than
that of its accumulator may also be off by the last digit of that type."""

import math
from typing import NamedTuple

import torch

EPS = dict(float64=2.0**-52, float32=2.0**-23, float16=2.0**-10, bfloat16=2.0**-7)
_COARSE = ('float16', 'TF32 or float16'), ('bfloat16', 'bfloat16')  # types that explain errors beyond float32's


def default_scale(data, answer):
    "Return the magnitude of the answer itself"
    return answer.abs()


def allowed(
    want,  # in float64
    scale,  # per element, or one for all
    dtype: str,  # of the answer
    terms: int,  # number of products per sum
    eps=None,  # rounding error of the sums; None: float32's, or float64's for a float64 answer
):
    "Return the error that each element may have; see the module's docstring"
    eps = eps or min(EPS[dtype], EPS['float32'])
    last = EPS[dtype] * want.abs() if EPS[dtype] > eps else 0
    tiny = torch.finfo(torch.float32).tiny if dtype != 'float64' else torch.finfo(torch.float64).tiny
    return eps * (4 * scale + math.sqrt(terms) * want.abs()) + last + tiny


class Miss(NamedTuple):
    "A difference between an answer and the right one"

    kind: str  # 'type', 'unwritten', 'nan', 'precision', 'wrong'
    text: str


def _where(bad):
    "Return (text, index): how many elements are wrong, and the first of them"
    first = tuple(bad.nonzero()[0].tolist())
    return f'{int(bad.sum())} of {bad.numel()} elements, the first at {list(first)}', first


def _values(got, want, bad):
    text, first = _where(bad)
    return f'{text}: {got[first].item():.7g} instead of {want[first].item():.7g}'


def _coarser(error, want, scale, dtype, terms):
    "Return the type whose precision explains errors of this size; None if they are larger"
    for name, words in _COARSE:
        if EPS[name] > EPS[dtype] and bool((error <= allowed(want, scale, dtype, terms, EPS[name])).all()):
            return words


def _is_fill(x):
    "Return which elements have the bits that `devices` fills memory with: all ones, a NaN that no processor computes"
    return x.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]) == -1


def _nan(lost, unwritten):
    "Return the `Miss` of these NaN, some of which have the bits of memory that was never written"
    if unwritten.any():
        return Miss('unwritten', f'never written, or computed from an uninitialized element: {_where(unwritten)[0]}')
    made = 'made by 0/0, inf/inf or inf - inf, or from an element that was NaN before or uninitialized'
    return Miss('nan', f'NaN in {_where(lost)[0]}: {made}')


def miss(
    got,  # the answer
    want,  # the right answer, in float64 or as integers
    scale,  # as `allowed` takes it
    dtype: str,  # that the task requires
    terms: int,
):  # None if it is right
    "Return what is wrong with an answer, as a `Miss`"
    if tuple(got.shape) != tuple(want.shape) or str(got.dtype) != f'torch.{dtype}':
        has, asked = (f'{d} {list(s)}' for d, s in ((str(got.dtype)[6:], got.shape), (dtype, want.shape)))
        return Miss('type', f'it is {has}; the task requires {asked}')
    if dtype not in EPS:
        bad = got != want
        return Miss('wrong', f'wrong in {_values(got, want, bad)}') if bad.any() else None
    wide = got.double()
    if (lost := wide.isnan() & ~want.isnan()).any():
        return _nan(lost, lost & _is_fill(got))
    error = torch.where(wide == want, 0.0, (wide - want).abs())
    bad = ~((error <= allowed(want, scale, dtype, terms)) | (wide.isnan() & want.isnan()))
    if not bad.any():
        return None
    said = f'{_values(got, want, bad)}, {dtype} would be within {_bound(want, scale, dtype, terms, bad):.1g}'
    if coarse := _coarser(error, want, scale, dtype, terms):
        return Miss('precision', f'the error is that of sums in {coarse}, but the task requires {dtype}: {said}')
    return Miss('wrong', f'wrong in {said}')


def _bound(want, scale, dtype, terms, bad):
    "Return the error that the first wrong element may have"
    tolerance = allowed(want, scale, dtype, terms)
    return torch.as_tensor(tolerance).expand_as(want)[bad][0].item()
