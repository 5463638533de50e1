"""How near an answer is to float64, and how near a right one is.

A sum of k products in a type with the rounding error eps is off by at most about k eps times the sum of the products'
magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, 3.1). Roundings go up as often as down,
which leaves sqrt(k) of that where all products have one sign, and the sums on the way are as large as the last one
(2.8 there); where signs change, they stay far below the sum of the magnitudes. So the judge allows

    eps (4 sum|products| + sqrt(k) |sum of the products|)

which sums in float32 in whatever order keep to, and products of values with eleven bits do not, unless thousands of
them have one sign: then a sum in float32, one by one, is as far off itself. An answer that is rounded to a narrower
type than it was summed up in may also be off by that type's last digit."""

import math
from typing import NamedTuple

import torch

EPS = dict(float64=2.0**-52, float32=2.0**-23, float16=2.0**-10, bfloat16=2.0**-7)
_COARSE = ('float16', 'TF32 or float16'), ('bfloat16', 'bfloat16')  # what errors beyond float32's are named after


def default_scale(data, answer):
    "Return the magnitude of the answer itself"
    return answer.abs()


def allowed(
    want,  # in float64
    scale,  # per element, or one for all
    dtype: str,  # of the answer
    terms: int,  # how many products were summed up
    eps=None,  # of the sums; None: float32's, or float64's
):
    "Return how far each element may be from `want`; see the module's docstring"
    eps = eps or min(EPS[dtype], EPS['float32'])
    last = EPS[dtype] * want.abs() if EPS[dtype] > eps else 0
    tiny = torch.finfo(torch.float32).tiny if dtype != 'float64' else torch.finfo(torch.float64).tiny
    return eps * (4 * scale + math.sqrt(terms) * want.abs()) + last + tiny


class Miss(NamedTuple):
    "A deviation of an answer from the right one"

    kind: str  # 'type', 'unwritten', 'nan', 'precision', 'wrong'
    text: str


def _where(bad):
    "Return how many elements, and the first one"
    first = tuple(bad.nonzero()[0].tolist())
    return f'{int(bad.sum())} of {bad.numel()} elements, the first at {list(first)}', first


def _values(got, want, bad):
    text, first = _where(bad)
    return f'{text}: {got[first].item():.7g} instead of {want[first].item():.7g}'


def _coarser(error, want, scale, dtype, terms):
    "Return the type that errors of this size come from; None if they are larger than any"
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
    want,  # in float64, or the integers that it should be
    scale,  # as `allowed` takes it
    dtype: str,  # that was asked for
    terms: int,
):  # None if it is right
    "Return what is wrong with an answer, as a `Miss`"
    if tuple(got.shape) != tuple(want.shape) or str(got.dtype) != f'torch.{dtype}':
        has, asked = (f'{d} {list(s)}' for d, s in ((str(got.dtype)[6:], got.shape), (dtype, want.shape)))
        return Miss('type', f'it is {has}; {asked} was asked for')
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
        return Miss('precision', f'as far off as sums in {coarse}, where {dtype} was asked for: {said}')
    return Miss('wrong', f'wrong in {said}')


def _bound(want, scale, dtype, terms, bad):
    "Return what the first wrong element may be off by"
    tolerance = allowed(want, scale, dtype, terms)
    return torch.as_tensor(tolerance).expand_as(want)[bad][0].item()
