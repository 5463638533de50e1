"""`numba.cuda.libdevice`: functions of NVIDIA's device library, as far as NumPy and `math` compute them.

`sin` takes float64, `sinf` and `fast_sinf` take float32. The fast ones are as accurate as the others here.
"""

import math

import numpy as np

from .scalars import brev, clz, ffs, scalar_intrinsic, popc

_ONE = 'cbrt ceil cos cosh exp exp2 expm1 fabs floor log log10 log1p log2 rint sin sinh sqrt tan tanh trunc'.split()
_REAL = {k: getattr(np, k) for k in _ONE}
_REAL |= {f'a{k}': getattr(np, f'arc{k}') for k in 'cos cosh sin sinh tan tanh'.split()}
_REAL |= dict(
    atan2=np.arctan2,
    copysign=np.copysign,
    exp10=lambda v: v.dtype.type(10) ** v,
    fdim=lambda a, b: np.where(a > b, a - b, np.where(np.isnan(a + b), a + b, a.dtype.type(0)))[()],
    fma=lambda a, b, c: a * b + c,
    fmax=np.fmax,
    fmin=np.fmin,
    fmod=np.fmod,
    hypot=np.hypot,
    nearbyint=np.rint,
    nextafter=np.nextafter,
    pow=np.power,
    rcbrt=lambda v: 1 / np.cbrt(v),
    round=lambda v: np.copysign(np.floor(np.abs(v) + v.dtype.type(0.5)), v),
    rsqrt=lambda v: 1 / np.sqrt(v),
    cospi=lambda v: np.cos(math.pi * v),
    sinpi=lambda v: np.sin(math.pi * v),
    sincos=lambda v: (np.sin(v), np.cos(v)),
)
_BY_MATH = dict(erf=math.erf, erfc=math.erfc, lgamma=math.lgamma, tgamma=math.gamma, remainder=math.remainder)
_FAST = 'cos exp10 exp log10 log2 log pow sin tan sincos'.split()


def _of(dtype, f):
    "Make a function of one float type from `f`"

    def function(*values):
        return _rounded(dtype, f(*(np.asarray(v).astype(dtype)[()] for v in values)))

    return function


def _rounded(dtype, v):
    return tuple(_rounded(dtype, x) for x in v) if isinstance(v, tuple) else np.asarray(v).astype(dtype)[()]


def _wide(v):
    return np.asarray(v).astype(np.float32).astype(np.float64)


def _test(f):
    return lambda v: np.asarray(f(v)).astype(np.int32)[()]


def _each(f):
    return lambda *values: np.vectorize(f, otypes=[np.float64])(*values)[()]


def _bits(of, to):
    "Reinterpret the bits of a number as another type"
    return lambda v: np.asarray(v).astype(of).view(to)[()]


def _whole(f, dtype):
    "Make a function of one integer type from `f`"
    return lambda *values: f(*(np.asarray(v).astype(dtype)[()] for v in values))


def _functions():
    "Return {name: function of numbers}"
    real = {**_REAL, **{k: _each(f) for k, f in _BY_MATH.items()}}
    found = {name: _of(np.float64, f) for name, f in real.items()}
    found |= {f'{name}f': _of(np.float32, f) for name, f in real.items()}
    found |= {f'fast_{name}f': found[f'{name}f'] for name in _FAST}
    for letter, dtype in ('f', np.float32), ('d', np.float64):
        for name, f in dict(add=np.add, sub=np.subtract, mul=np.multiply, div=np.divide).items():
            found[f'{letter}{name}_rn'] = _of(dtype, f)
        found[f'{letter}rcp_rn'], found[f'{letter}sqrt_rn'] = _of(dtype, lambda v: 1 / v), _of(dtype, np.sqrt)
    found.pop('dsub_rn')  # the library does not have it
    found['fmaf'] = lambda a, b, c: np.float32(_wide(a) * _wide(b) + _wide(c))
    for ends, f in dict(nan=np.isnan, inf=np.isinf).items():
        found |= dict.fromkeys((f'is{ends}d', f'is{ends}f'), _test(f))
    found |= dict.fromkeys(('isfinited', 'finitef'), _test(np.isfinite))
    found |= dict(fma_rn=found['fma'], fmaf_rn=found['fmaf'], fast_fdividef=found['fdiv_rn'])
    found['saturatef'] = _of(np.float32, lambda v: np.fmin(np.fmax(v, np.float32(0)), np.float32(1)))
    found |= dict(float_as_int=_bits(np.float32, np.int32), int_as_float=_bits(np.int32, np.float32))
    found |= dict(double_as_longlong=_bits(np.float64, np.int64), longlong_as_double=_bits(np.int64, np.float64))
    return {**found, **_conversions(), **_of_integers()}


_TO = dict(int=np.int32, uint=np.uint32, ll=np.int64, ull=np.uint64)
_MODES = dict(rn=np.rint, rz=np.trunc, rd=np.floor, ru=np.ceil)


def _conversions():
    found = {'double2float_rn': np.float32}
    for name, dtype in _TO.items():
        for mode, f in _MODES.items():
            found |= {f'{of}2{name}_{mode}': _to_integer(f, dtype) for of in ('float', 'double')}
        found |= {
            f'{name}2{to}_rn': _from_integer(dtype, t) for to, t in (('float', np.float32), ('double', np.float64))
        }
    return found


def _to_integer(f, dtype):
    "Convert to an integer; saturates as on a GPU"
    most = np.iinfo(dtype)

    def function(v):
        v = f(np.asarray(v).astype(np.float64))
        inside = np.where((v >= most.min) & (v < float(most.max)), v, 0).astype(dtype)
        return np.where(v >= float(most.max), most.max, np.where(v < most.min, most.min, inside)).astype(dtype)[()]

    return function


def _from_integer(dtype, to):
    return lambda v: np.asarray(v).astype(dtype).astype(to)[()]


def _of_integers():
    names = dict(min=np.minimum, max=np.maximum)
    found = {name: _whole(f, np.int32) for name, f in names.items()}
    for prefix, dtype in dict(u=np.uint32, ll=np.int64, ull=np.uint64).items():
        found |= {f'{prefix}{name}': _whole(f, dtype) for name, f in names.items()}
    found |= dict(abs=_whole(np.abs, np.int32), llabs=_whole(np.abs, np.int64))
    for name, f in dict(popc=popc, clz=clz, ffs=ffs, brev=brev).items():
        found |= {name: _whole(f.scalar, np.int32), f'{name}ll': _whole(f.scalar, np.int64)}
    high = dict(mulhi=np.int64, umulhi=np.uint64)
    return found | {name: _high_product(t) for name, t in high.items()}


def _high_product(wide):
    narrow = np.int32 if wide is np.int64 else np.uint32
    return lambda a, b: (_as(a, narrow, wide) * _as(b, narrow, wide) >> wide(32)).astype(narrow)


def _as(v, narrow, wide):
    return np.asarray(v).astype(narrow).astype(wide)


globals().update({name: scalar_intrinsic(f, name) for name, f in _functions().items()})
__all__ = sorted(_functions())


def __getattr__(name):
    "Raise `AttributeError` for a function that the simulator does not have"
    raise AttributeError(f'libdevice.{name} is not simulated; math and NumPy have functions that kernels may call')
