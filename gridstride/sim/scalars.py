"""CUDA's scalar functions: bit operations, `fma`, `cbrt`, `rsqrt`, `selp`, and functions of 16-bit floats."""

import inspect
from types import FunctionType

import numpy as np

from ..support.fused_arithmetic import fused_multiply_add
from .intrinsics import Namespace, intrinsic
from .lanes import truth

__all__ = ['brev', 'cbrt', 'clz', 'ffs', 'fma', 'fp16', 'popc', 'rsqrt', 'selp']


def scalar_intrinsic(fn, name=None):
    "Make a function for kernels from `fn`, a function of scalars that does not depend on the thread"

    def lane_function(ctx, active, site, *values):
        return fn(*values)

    lane_function.__name__ = name or fn.__name__
    lane_function.__doc__ = fn.__doc__
    result = intrinsic(lane_function)
    result.scalar = fn
    if isinstance(fn, FunctionType):
        result.__signature__ = inspect.signature(fn)
    return result


def _apply_to_bits(fn, value, result_type=np.int64):
    "Apply `f(bits of an element, bit width)` to each element; the width is 64 for 64-bit integers, else 32"
    width = 64 if np.asarray(value).dtype.itemsize == 8 else 32
    return np.vectorize(lambda x: fn(int(x) & (2**width - 1), width), otypes=[result_type])(value)


@scalar_intrinsic
def popc(v):
    "Count the bits that are 1"
    return _apply_to_bits(lambda bits, width: bin(bits).count('1'), v)


@scalar_intrinsic
def clz(v):
    "Count the leading zeros"
    return _apply_to_bits(lambda bits, width: width - bits.bit_length(), v)


@scalar_intrinsic
def ffs(v):
    "Return the position of the least significant 1 bit, counted from 1; 0 for 0"
    return _apply_to_bits(lambda bits, width: (bits & -bits).bit_length(), v)


@scalar_intrinsic
def brev(v):
    "Reverse the bits"
    reversed_bits = _apply_to_bits(lambda bits, width: int(f'{bits:0{width}b}'[::-1], 2), v, np.uint64)
    return reversed_bits.astype(np.asarray(v).dtype if np.asarray(v).dtype.itemsize >= 4 else np.int32)


@scalar_intrinsic
def fma(a, b, c):
    "Compute a*b + c, rounded once"
    return fused_multiply_add(a, b, c)


@scalar_intrinsic
def cbrt(v):
    "Compute the cube root"
    return np.cbrt(v)


@scalar_intrinsic
def rsqrt(v):
    "Compute 1/sqrt(v)"
    return 1 / np.sqrt(v)


@scalar_intrinsic
def selp(c, a, b):
    "Select `a` where `c` is true, else `b`; both are evaluated"
    return np.where(truth(np.asarray(c)), a, b)


def _with_float16(fn):
    "Make a function whose arguments and result are converted to float16"
    return lambda *a: np.float16(fn(*(np.asarray(x).astype(np.float16) for x in a)))


_UNARY = 'sin cos log log2 log10 exp exp2 sqrt rint ceil floor trunc'.split()  # they have the same names in NumPy
_HALF = {f'h{k}': _with_float16(getattr(np, k)) for k in _UNARY}
_HALF |= dict(
    hadd=_with_float16(np.add),
    hsub=_with_float16(np.subtract),
    hmul=_with_float16(np.multiply),
    hdiv=_with_float16(np.divide),
)
_HALF |= dict(
    hneg=_with_float16(np.negative),
    habs=_with_float16(np.abs),
    hmax=_with_float16(np.fmax),
    hmin=_with_float16(np.fmin),
)
_HALF |= dict(
    hexp10=_with_float16(lambda value: np.float16(10) ** value), hrsqrt=_with_float16(lambda value: 1 / np.sqrt(value))
)
_HALF |= dict(hrcp=_with_float16(lambda value: 1 / value))
_HALF |= dict(hfma=lambda a, b, c: (np.asarray(a, np.float32) * b + c).astype(np.float16))
_HALF |= dict(heq=np.equal, hne=np.not_equal, hlt=np.less, hle=np.less_equal, hgt=np.greater, hge=np.greater_equal)
fp16 = Namespace(**{name: scalar_intrinsic(fn, f'fp16.{name}') for name, fn in _HALF.items()})
