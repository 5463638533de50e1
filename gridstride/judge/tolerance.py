"""Compare an output with the expected one in float64, and decide whether its error is allowed.

A sum of k products in a type with the machine epsilon eps has an error of at most about k eps times the sum of the
products' magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, 3.1). This worst case is
rare, because values are rounded up as often as down. If all products have the same sign, partial sums are as large as
the result, and the error grows with sqrt(k) (2.8 in the same book). If the signs differ, partial sums are much smaller
than the sum of the magnitudes. Therefore the judge allows an error of

    eps (4 sum|products| + sqrt(k) |sum of the products|)

float32 sums in any order stay within this bound. Sums of products of values with 11-bit significands (float16, TF32)
exceed it, unless thousands of products have the same sign, when a sequential float32 sum has an error just as large. If
the output has a narrower type than the accumulator, an error in its last bit is allowed, too."""

import math
from typing import NamedTuple

import torch

EPS = dict(float64=2.0**-52, float32=2.0**-23, float16=2.0**-10, bfloat16=2.0**-7)
# Types that may explain a larger error: key of `EPS`, name in a message
_COARSE_TYPES = ('float16', 'TF32 or float16'), ('bfloat16', 'bfloat16')


def default_error_scale(data, output):
    "Return the magnitude of the output"
    return output.abs()


def allowed_error(
    expected,  # the expected output, in float64
    error_scale,  # sum of the products' magnitudes, per element, or one for all
    dtype: str,  # of the output
    reduction_length: int,  # number of products per sum
    eps=None,  # machine epsilon of the accumulator; None: float32's, or float64's for a float64 output
):
    "Return the error that each element may have; see the module's docstring"
    eps = eps or min(EPS[dtype], EPS['float32'])
    final_rounding = EPS[dtype] * expected.abs() if EPS[dtype] > eps else 0
    smallest_normal = torch.finfo(torch.float32).tiny if dtype != 'float64' else torch.finfo(torch.float64).tiny
    return eps * (4 * error_scale + math.sqrt(reduction_length) * expected.abs()) + final_rounding + smallest_normal


class Mismatch(NamedTuple):
    "The difference of a wrong output from the expected one"

    code: str  # a key of `verdicts.REASONS`: 'type', 'unwritten', 'nan', 'precision' or 'wrong'
    text: str  # describes the difference


def _locate_mismatch(is_wrong):  # (text, index)
    "Describe how many elements are wrong, and return the index of the first one"
    first = tuple(is_wrong.nonzero()[0].tolist())
    return f'{int(is_wrong.sum())} of {is_wrong.numel()} elements, the first at {list(first)}', first


def _describe_values(got, expected, is_wrong):
    "Describe how many elements are wrong, and the values of the first one"
    text, first = _locate_mismatch(is_wrong)
    return f'{text}: {got[first].item():.7g} instead of {expected[first].item():.7g}'


def _find_coarser_type(error, expected, error_scale, dtype, reduction_length):
    "Return the name of a coarser type whose precision explains the errors; None if there is none"
    for name, message_name in _COARSE_TYPES:
        if EPS[name] <= EPS[dtype]:
            continue
        if bool((error <= allowed_error(expected, error_scale, dtype, reduction_length, EPS[name])).all()):
            return message_name


def _has_fill_bits(x):
    "Return a mask of the elements with the fill bits of `devices`: all ones, a NaN that no arithmetic produces"
    return x.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]) == -1


def _nan_mismatch(is_nan, is_unwritten):
    "Return the `Mismatch` for elements that are NaN, some of which may be unwritten"
    if is_unwritten.any():
        elements, _ = _locate_mismatch(is_unwritten)
        return Mismatch('unwritten', f'never written, or computed from uninitialized memory: {elements}')
    causes = 'the result of 0/0, inf/inf or inf - inf, or of an operand that was NaN or uninitialized'
    return Mismatch('nan', f'NaN in {_locate_mismatch(is_nan)[0]}: {causes}')


def find_mismatch(
    got,  # the output
    expected,  # the expected output, in float64 or as integers
    error_scale,  # as for `allowed_error`
    dtype: str,  # the dtype that the task requires
    reduction_length: int,  # as for `allowed_error`
):  # a `Mismatch`, or None if the output is correct
    "Compare an output with the expected one"
    if tuple(got.shape) != tuple(expected.shape) or str(got.dtype) != f'torch.{dtype}':
        actual = f'{str(got.dtype)[6:]} {list(got.shape)}'
        return Mismatch('type', f'the output is {actual}; the task requires {dtype} {list(expected.shape)}')
    if dtype not in EPS:
        is_wrong = got != expected
        return Mismatch('wrong', f'wrong in {_describe_values(got, expected, is_wrong)}') if is_wrong.any() else None
    got64 = got.double()
    if (is_nan := got64.isnan() & ~expected.isnan()).any():
        return _nan_mismatch(is_nan, is_nan & _has_fill_bits(got))
    error = torch.where(got64 == expected, 0.0, (got64 - expected).abs())
    bounds = allowed_error(expected, error_scale, dtype, reduction_length)
    is_wrong = ~((error <= bounds) | (got64.isnan() & expected.isnan()))
    if not is_wrong.any():
        return None
    first_bound = torch.as_tensor(bounds).expand_as(expected)[is_wrong][0].item()
    text = f'{_describe_values(got, expected, is_wrong)}, the allowed error of {dtype} is {first_bound:.1g}'
    if coarser_type := _find_coarser_type(error, expected, error_scale, dtype, reduction_length):
        return Mismatch(
            'precision', f'the error is that of sums in {coarser_type}, but the task requires {dtype}: {text}'
        )
    return Mismatch('wrong', f'wrong in {text}')
