"""CUDA's functions of numbers: bits, the few that Python has not, and 16-bit floats."""

import inspect
from types import FunctionType

import numpy as np

from .intrinsics import Room, intrinsic
from .lanes import truth

__all__ = ['brev', 'cbrt', 'clz', 'ffs', 'fma', 'fp16', 'popc', 'rsqrt', 'selp']


def of_numbers(f, name=None):
    "The function of kernels that is `f` of numbers, wherever the thread is"

    def lanes(run, m, site, *values):
        return f(*values)

    lanes.__name__, lanes.__doc__ = name or f.__name__, f.__doc__
    res = intrinsic(lanes)
    res.of_numbers = f
    if isinstance(f, FunctionType):
        res.__signature__ = inspect.signature(f)
    return res


def _each(f, v, result=np.int64):
    "`f(bits of v, number of bits)` for each lane: 64 bits of a 64-bit number, else 32"
    w = 64 if np.asarray(v).dtype.itemsize == 8 else 32
    return np.vectorize(lambda o: f(int(o) & (2**w - 1), w), otypes=[result])(v)


@of_numbers
def popc(v):
    "How many bits are 1"
    return _each(lambda b, w: bin(b).count('1'), v)


@of_numbers
def clz(v):
    "How many bits before the first 1 are 0"
    return _each(lambda b, w: w - b.bit_length(), v)


@of_numbers
def ffs(v):
    "The place of the last bit that is 1, counted from 1; 0 for 0"
    return _each(lambda b, w: (b & -b).bit_length(), v)


@of_numbers
def brev(v):
    "The bits in reverse"
    res = _each(lambda b, w: int(f'{b:0{w}b}'[::-1], 2), v, np.uint64)
    return res.astype(np.asarray(v).dtype if np.asarray(v).dtype.itemsize >= 4 else np.int32)


@of_numbers
def fma(a, b, c):
    "a*b + c"
    return a * b + c


@of_numbers
def cbrt(v):
    "The third root"
    return np.cbrt(v)


@of_numbers
def rsqrt(v):
    "1/sqrt(v)"
    return 1 / np.sqrt(v)


@of_numbers
def selp(c, a, b):
    "`a` where `c` holds, else `b`; both are computed"
    return np.where(truth(np.asarray(c)), a, b)


def _half(f):
    "`f` of 16-bit floats"
    return lambda *a: np.float16(f(*(np.asarray(o).astype(np.float16) for o in a)))


_SAME = 'sin cos log log2 log10 exp exp2 sqrt rint ceil floor trunc'.split()  # as NumPy calls them
_HALF = {f'h{k}': _half(getattr(np, k)) for k in _SAME}
_HALF |= dict(hadd=_half(np.add), hsub=_half(np.subtract), hmul=_half(np.multiply), hdiv=_half(np.divide))
_HALF |= dict(hneg=_half(np.negative), habs=_half(np.abs), hmax=_half(np.fmax), hmin=_half(np.fmin))
_HALF |= dict(hexp10=_half(lambda v: np.float16(10) ** v), hrsqrt=_half(lambda v: 1 / np.sqrt(v)))
_HALF |= dict(hrcp=_half(lambda v: 1 / v))
_HALF |= dict(hfma=lambda a, b, c: (np.asarray(a, np.float32) * b + c).astype(np.float16))
_HALF |= dict(heq=np.equal, hne=np.not_equal, hlt=np.less, hle=np.less_equal, hgt=np.greater, hge=np.greater_equal)
fp16 = Room(**{name: of_numbers(f, f'fp16.{name}') for name, f in _HALF.items()})
