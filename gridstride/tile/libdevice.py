"""The functions of `triton.language.extra.libdevice`: CUDA's, element by element."""

import math

import numpy as np

from .block import block_of, tensor
from .run import no_such_name, refuse
from .types import DTYPES

_ONE = dict(
    abs=np.abs, acos=np.arccos, acosh=np.arccosh, asin=np.arcsin, asinh=np.arcsinh, atan=np.arctan, atanh=np.arctanh,
    cbrt=np.cbrt, ceil=np.ceil, cos=np.cos, cosh=np.cosh, exp=np.exp, exp2=np.exp2, expm1=np.expm1, fabs=np.abs,
    floor=np.floor, log=np.log, log10=np.log10, log1p=np.log1p, log2=np.log2, rint=np.rint, nearbyint=np.rint,
    sin=np.sin, sinh=np.sinh, sqrt=np.sqrt, tan=np.tan, tanh=np.tanh, trunc=np.trunc,
    erf=np.vectorize(math.erf, otypes=[float]), erfc=np.vectorize(math.erfc, otypes=[float]),
    tgamma=np.vectorize(math.gamma, otypes=[float]), lgamma=np.vectorize(math.lgamma, otypes=[float]),
    rsqrt=lambda x: 1 / np.sqrt(x), rcp_rn=lambda x: 1 / x, sqrt_rn=np.sqrt, exp10=lambda x: 10.0**x,
    round=lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    fast_expf=np.exp, fast_logf=np.log, fast_sinf=np.sin, fast_cosf=np.cos, fast_tanf=np.tan, fast_log2f=np.log2,
    fast_exp10f=lambda x: 10.0**x, fast_log10f=np.log10,
)  # fmt: skip
_TWO = dict(
    pow=np.power, fmod=np.fmod, atan2=np.arctan2, hypot=np.hypot, copysign=np.copysign, fmax=np.fmax, fmin=np.fmin,
    div_rn=np.divide, fast_powf=np.power, fast_dividef=np.divide, nextafter=np.nextafter, remainder=np.remainder,
    fdim=lambda x, y: np.maximum(x - y, 0),
)  # fmt: skip
_ASKS = dict(isnan=np.isnan, isinf=np.isinf, finitef=np.isfinite, isfinited=np.isfinite, signbit=np.signbit)


def _floating(x, name):
    x = block_of(x)
    if x.dtype.name not in ('float32', 'float64'):
        raise refuse(f'libdevice.{name} of {x.dtype}', 'It takes fp32 and fp64: convert with .to(tl.float32).')
    return x


def _function(name):
    "libdevice's function with this name, of blocks"

    def one(x):
        x = _floating(x, name)
        return tensor(np.asarray(_ONE[name](x.data), x.dtype.np)[()], x.dtype)

    def two(x, y):
        x, y = _floating(x, name), _floating(y, name)
        return tensor(np.asarray(_TWO[name](x.data, y.data), x.dtype.np)[()], x.dtype)

    def asks(x):
        return tensor(_ASKS[name](_floating(x, name).data).astype(np.int32), DTYPES['int32'])

    return one if name in _ONE else two if name in _TWO else asks


def __getattr__(k):
    if k.startswith('__'):
        raise AttributeError(k)
    if k in _ONE or k in _TWO or k in _ASKS:
        return _function(k)
    raise no_such_name(f'libdevice.{k}')
