"""`numba.cuda.libdevice`: the functions of NVIDIA's device library that NumPy and `math` can compute.

`sin` takes float64, `sinf` and `fast_sinf` take float32. Here, `fast_sinf` is as accurate as `sinf`.
"""

import math

import numpy as np

from ..support.fused_arithmetic import fused_multiply_add
from .scalars import brev, clz, ffs, scalar_intrinsic, popc

_UNARY_NAMES = (
    'cbrt ceil cos cosh exp exp2 expm1 fabs floor log log10 log1p log2 rint sin sinh sqrt tan tanh trunc'.split()
)
_REAL_FUNCTIONS = {k: getattr(np, k) for k in _UNARY_NAMES}
_REAL_FUNCTIONS |= {f'a{k}': getattr(np, f'arc{k}') for k in 'cos cosh sin sinh tan tanh'.split()}
_REAL_FUNCTIONS |= dict(
    atan2=np.arctan2,
    copysign=np.copysign,
    exp10=lambda v: v.dtype.type(10) ** v,
    fdim=lambda a, b: np.where(a > b, a - b, np.where(np.isnan(a + b), a + b, a.dtype.type(0)))[()],
    fma=fused_multiply_add,
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
_FROM_MATH = dict(erf=math.erf, erfc=math.erfc, lgamma=math.lgamma, tgamma=math.gamma, remainder=math.remainder)
_FAST_NAMES = 'cos exp10 exp log10 log2 log pow sin tan sincos'.split()


def _with_dtype(dtype, fn):
    "Make a function whose arguments and result are converted to the float type `dtype`"

    def function(*values):
        return _cast_result(dtype, fn(*(np.asarray(v).astype(dtype)[()] for v in values)))

    return function


def _cast_result(dtype, v):
    "Convert a result, or a tuple of results, to `dtype`"
    return tuple(_cast_result(dtype, x) for x in v) if isinstance(v, tuple) else np.asarray(v).astype(dtype)[()]


def _predicate(fn):
    "Make a function that returns the boolean results of `fn` as int32"
    return lambda v: np.asarray(fn(v)).astype(np.int32)[()]


def _lane_by_lane(fn):
    "Make a function of arrays from `fn`, a function of Python floats"
    return lambda *values: np.vectorize(fn, otypes=[np.float64])(*values)[()]


def _reinterpret(source, target):
    "Reinterpret the bits of a number as another type"
    return lambda v: np.asarray(v).astype(source).view(target)[()]


def _on_integers(fn, dtype):
    "Make a function whose arguments are converted to the integer type `dtype`"
    return lambda *values: fn(*(np.asarray(v).astype(dtype)[()] for v in values))


def _functions():
    "Return {name: function of numbers}"
    on_floats = {**_REAL_FUNCTIONS, **{k: _lane_by_lane(fn) for k, fn in _FROM_MATH.items()}}
    functions = {name: _with_dtype(np.float64, fn) for name, fn in on_floats.items()}
    functions |= {f'{name}f': _with_dtype(np.float32, fn) for name, fn in on_floats.items()}
    functions |= {f'fast_{name}f': functions[f'{name}f'] for name in _FAST_NAMES}
    for letter, dtype in ('f', np.float32), ('d', np.float64):
        for name, fn in dict(add=np.add, sub=np.subtract, mul=np.multiply, div=np.divide).items():
            functions[f'{letter}{name}_rn'] = _with_dtype(dtype, fn)
        functions[f'{letter}rcp_rn'], functions[f'{letter}sqrt_rn'] = (
            _with_dtype(dtype, lambda v: 1 / v),
            _with_dtype(dtype, np.sqrt),
        )
    functions.pop('dsub_rn')  # the device library does not have this function
    functions['fmaf'] = _with_dtype(np.float32, fused_multiply_add)
    for suffix, fn in dict(nan=np.isnan, inf=np.isinf).items():
        functions |= dict.fromkeys((f'is{suffix}d', f'is{suffix}f'), _predicate(fn))
    functions |= dict.fromkeys(('isfinited', 'finitef'), _predicate(np.isfinite))
    functions |= dict(fma_rn=functions['fma'], fmaf_rn=functions['fmaf'], fast_fdividef=functions['fdiv_rn'])
    functions['saturatef'] = _with_dtype(np.float32, lambda v: np.fmin(np.fmax(v, np.float32(0)), np.float32(1)))
    functions |= dict(float_as_int=_reinterpret(np.float32, np.int32), int_as_float=_reinterpret(np.int32, np.float32))
    functions |= dict(
        double_as_longlong=_reinterpret(np.float64, np.int64), longlong_as_double=_reinterpret(np.int64, np.float64)
    )
    return {**functions, **_conversions(), **_integer_functions()}


_INTEGER_TYPES = dict(int=np.int32, uint=np.uint32, ll=np.int64, ull=np.uint64)
_ROUNDING_MODES = dict(rn=np.rint, rz=np.trunc, rd=np.floor, ru=np.ceil)


def _conversions():
    "Return {name: function} of the conversions between integers and floats"
    functions = {'double2float_rn': np.float32}
    for name, dtype in _INTEGER_TYPES.items():
        for mode, fn in _ROUNDING_MODES.items():
            functions |= {f'{source_type}2{name}_{mode}': _to_integer(fn, dtype) for source_type in ('float', 'double')}
        functions |= {
            f'{name}2{target_type}_rn': _from_integer(dtype, target_dtype)
            for target_type, target_dtype in (('float', np.float32), ('double', np.float64))
        }
    return functions


def _to_integer(fn, dtype):
    "Make a conversion from float to an integer type, which rounds with `fn` and saturates, as on a GPU"
    limits = np.iinfo(dtype)

    def function(value):
        value = fn(np.asarray(value).astype(np.float64))
        in_range = np.where((value >= limits.min) & (value < float(limits.max)), value, 0).astype(dtype)
        return np.where(
            value >= float(limits.max), limits.max, np.where(value < limits.min, limits.min, in_range)
        ).astype(dtype)[()]

    return function


def _from_integer(dtype, target_dtype):
    "Make a conversion from an integer type to another type"
    return lambda v: np.asarray(v).astype(dtype).astype(target_dtype)[()]


def _integer_functions():
    "Return {name: function} of the functions of integers"
    min_max = dict(min=np.minimum, max=np.maximum)
    functions = {name: _on_integers(fn, np.int32) for name, fn in min_max.items()}
    for prefix, dtype in dict(u=np.uint32, ll=np.int64, ull=np.uint64).items():
        functions |= {f'{prefix}{name}': _on_integers(fn, dtype) for name, fn in min_max.items()}
    functions |= dict(abs=_on_integers(np.abs, np.int32), llabs=_on_integers(np.abs, np.int64))
    for name, fn in dict(popc=popc, clz=clz, ffs=ffs, brev=brev).items():
        functions |= {name: _on_integers(fn.scalar, np.int32), f'{name}ll': _on_integers(fn.scalar, np.int64)}
    wide_types = dict(mulhi=np.int64, umulhi=np.uint64)
    return functions | {name: _high_product(wide_type) for name, wide_type in wide_types.items()}


def _high_product(wide_type):
    "Make a function that returns the upper 32 bits of the product of two 32-bit integers"
    narrow_type = np.int32 if wide_type is np.int64 else np.uint32
    return lambda a, b: (_widen(a, narrow_type, wide_type) * _widen(b, narrow_type, wide_type) >> wide_type(32)).astype(
        narrow_type
    )


def _widen(v, narrow_type, wide_type):
    return np.asarray(v).astype(narrow_type).astype(wide_type)


globals().update({name: scalar_intrinsic(fn, name) for name, fn in _functions().items()})
__all__ = sorted(_functions())


def __getattr__(name):
    "Raise `AttributeError` for a function that the simulator does not support"
    hint = 'kernels may call functions of math and NumPy'
    raise AttributeError(f'the simulator does not support libdevice.{name}; {hint}')
