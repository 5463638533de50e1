"""Python's builtins and `math` in kernels, for all lanes at once."""

import cmath
import math

import numpy as np

from ..diagnostics.formatting import position
from ..diagnostics.settings import settings
from .arithmetic import binary, cast, fold, kind_of, widen_integers
from .lanes import truth

__all__ = ['FUNCTIONS', 'print_lanes', 'widen']


def print_lanes(ctx, active, site, *args, sep=' ', end='\n'):
    "Implement `print`: one line per active thread"
    for lane in ctx.active_lanes(active):
        if settings.label_prints:
            print('block {}, thread {}:'.format(*map(position, ctx.group.position(lane))), end=' ')
        print(*(_in_lane(value, lane) for value in args), sep=sep, end=end)


def _in_lane(value, lane):
    "Return the value of one lane; the items of a tuple become Python numbers, which print without a NumPy type"
    if isinstance(value, tuple):
        items = (_in_lane(item, lane) for item in value)
        return tuple(item.item() if isinstance(item, np.generic) else item for item in items)
    return value if np.ndim(value) == 0 else value[lane]


def widen(v):
    "Widen `v` to the 64 bits of Numba's arithmetic if it is an integer"
    return widen_integers(v) if kind_of(v) in 'iu' else v


def _fold_arguments(fn):
    "Make a function that folds its arguments with `fn`, or the tuple that is its only argument"
    return lambda *a: fold(fn, a[0] if len(a) == 1 else a)


def _len(v):
    if isinstance(v, (np.ndarray, np.generic)):
        raise TypeError('a number has no len(); pass an array or a tuple')
    return np.int64(len(v))


def _int(v=0):
    return np.trunc(v).astype(np.int64) if kind_of(v) == 'f' else v if kind_of(v) in 'iu' else cast(np.int64, v)


def _float(v=0.0):
    return v if kind_of(v) == 'f' else cast(np.float64, v)


def _complex(real, imag):
    "Combine real and imaginary parts; `real + 1j*imag` would lose the sign of a zero"
    value = np.empty(np.broadcast(real, imag).shape, np.result_type(real, imag, np.complex64))
    value.real, value.imag = real, imag
    return value[()]


def _round(v, n=None):
    if n is None:
        return cast(np.int64, v if kind_of(v) in 'biu' else np.rint(v))
    return np.round(np.float64(v), int(n)).astype(np.asarray(v).dtype)


def _on_floats(fn):
    "Make a function that converts integer arguments to float64 for `fn`"
    return lambda *a: fn(*(cast(np.float64, v) if kind_of(v) in 'biu' else v for v in a))


def _lane_by_lane(fn):
    "Make a function that applies `fn`, a function of scalars, lane by lane"
    return _on_floats(lambda *a: np.vectorize(fn, otypes=[np.result_type(*a)])(*a)[()])


def _round_to_int(fn):
    "Make a function that rounds floats with `fn` and converts them to int64"
    return lambda v: widen(v) if kind_of(v) in 'iu' else fn(v).astype(np.int64)


FUNCTIONS = {
    min: _fold_arguments(np.minimum),
    max: _fold_arguments(np.maximum),
    abs: np.abs,
    len: _len,
    int: _int,
    float: _float,
    bool: truth,
    round: _round,
    pow: lambda a, b: binary('Pow', a, b),
    tuple: tuple,
    complex: lambda a, b=0.0: a + 1j * b if kind_of(a) == 'c' else _complex(a, b),
    slice: slice,
    math.floor: _round_to_int(np.floor),
    math.ceil: _round_to_int(np.ceil),
    math.trunc: _round_to_int(np.trunc),
    math.pow: _on_floats(np.power),
    math.fmod: _on_floats(np.fmod),
    math.atan2: _on_floats(np.arctan2),
    math.asin: _on_floats(np.arcsin),
    math.acos: _on_floats(np.arccos),
    math.atan: _on_floats(np.arctan),
    math.asinh: _on_floats(np.arcsinh),
    math.acosh: _on_floats(np.arccosh),
    math.atanh: _on_floats(np.arctanh),
    math.modf: _on_floats(np.modf),
    math.frexp: _on_floats(np.frexp),
    math.ldexp: lambda a, b: np.ldexp(a, np.asarray(b).astype(np.int32)),
    cmath.phase: np.angle,
    cmath.polar: lambda z: (np.abs(z), np.angle(z)),
    cmath.rect: lambda r, phi: _complex(r * np.cos(phi), r * np.sin(phi)),
    cmath.acos: np.arccos,
    cmath.asin: np.arcsin,
    cmath.atan: np.arctan,
    cmath.acosh: np.arccosh,
    cmath.asinh: np.arcsinh,
    cmath.atanh: np.arctanh,
}
FUNCTIONS |= {getattr(math, n): _on_floats(getattr(np, n)) for n in ('exp2', 'nextafter', 'cbrt') if hasattr(math, n)}
_REAL_NAMES = (  # functions of `math` with the same name in NumPy
    'sqrt exp expm1 log log2 log10 log1p sin cos tan sinh cosh tanh fabs copysign hypot '
    'isnan isinf isfinite degrees radians'
).split()
_COMPLEX_NAMES = 'sqrt exp log log10 sin cos tan sinh cosh tanh isnan isinf isfinite'.split()
_NOT_IN_NUMPY = (math.remainder, math.erf, math.erfc, math.gamma, math.lgamma)
FUNCTIONS |= {getattr(math, n): _on_floats(getattr(np, n)) for n in _REAL_NAMES}
FUNCTIONS |= {getattr(cmath, n): getattr(np, n) for n in _COMPLEX_NAMES}
FUNCTIONS |= {fn: _lane_by_lane(fn) for fn in _NOT_IN_NUMPY}
