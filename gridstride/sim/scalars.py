"""CUDA's functions of scalars: bit operations, a few that Python does not have, and 16-bit floats."""

import inspect
from types import FunctionType

import numpy as np

from .intrinsics import Namespace, intrinsic
from .lanes import truth

__all__ = ['brev', 'cbrt', 'clz', 'ffs', 'fma', 'fp16', 'popc', 'rsqrt', 'selp']


def scalar_intrinsic(f, name=None):
    "Make a function for kernels from `f`, a function of scalars that does not depend on the thread"

    def lanes(run, m, site, *values):
        return f(*values)

    lanes.__name__ = name or f.__name__
    lanes.__doc__ = f.__doc__
    res = intrinsic(lanes)
    res.scalar = f
    if isinstance(f, FunctionType):
        res.__signature__ = inspect.signature(f)
    return res


def _each(f, v, result=np.int64):
    "Apply `f(bits of v, bit width)` lane by lane: 64 bits for a 64-bit integer, else 32"
    w = 64 if np.asarray(v).dtype.itemsize == 8 else 32
    return np.vectorize(lambda x: f(int(x) & (2**w - 1), w), otypes=[result])(v)


@scalar_intrinsic
def popc(v):
    "Count the bits that are 1"
    return _each(lambda b, w: bin(b).count('1'), v)


@scalar_intrinsic
def clz(v):
    "Count the leading zeros"
    return _each(lambda b, w: w - b.bit_length(), v)


@scalar_intrinsic
def ffs(v):
    "Return the position of the least significant 1 bit, counted from 1; 0 for 0"
    return _each(lambda b, w: (b & -b).bit_length(), v)


@scalar_intrinsic
def brev(v):
    "Reverse the bits"
    res = _each(lambda b, w: int(f'{b:0{w}b}'[::-1], 2), v, np.uint64)
    return res.astype(np.asarray(v).dtype if np.asarray(v).dtype.itemsize >= 4 else np.int32)


@scalar_intrinsic
def fma(a, b, c):
    "Compute a*b + c"
    return a * b + c


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


def _half(f):
    "Make a function of 16-bit floats from `f`"
    return lambda *a: np.float16(f(*(np.asarray(x).astype(np.float16) for x in a)))


_SAME = 'sin cos log log2 log10 exp exp2 sqrt rint ceil floor trunc'.split()  # they have the same names in NumPy
_HALF = {f'h{k}': _half(getattr(np, k)) for k in _SAME}
_HALF |= dict(hadd=_half(np.add), hsub=_half(np.subtract), hmul=_half(np.multiply), hdiv=_half(np.divide))
_HALF |= dict(hneg=_half(np.negative), habs=_half(np.abs), hmax=_half(np.fmax), hmin=_half(np.fmin))
_HALF |= dict(hexp10=_half(lambda v: np.float16(10) ** v), hrsqrt=_half(lambda v: 1 / np.sqrt(v)))
_HALF |= dict(hrcp=_half(lambda v: 1 / v))
_HALF |= dict(hfma=lambda a, b, c: (np.asarray(a, np.float32) * b + c).astype(np.float16))
_HALF |= dict(heq=np.equal, hne=np.not_equal, hlt=np.less, hle=np.less_equal, hgt=np.greater, hge=np.greater_equal)
fp16 = Namespace(**{name: scalar_intrinsic(f, f'fp16.{name}') for name, f in _HALF.items()})
