"""The functions of `triton.language.extra.libdevice`: those of CUDA's device library, applied elementwise."""

import math
import re

import numpy as np

from . import elements
from .block import bitcast, block_of, convert, with_undef
from .run import unsupported_name, compile_error
from .types import DTYPES

_UNARY = dict(
    abs=np.abs, acos=np.arccos, acosh=np.arccosh, asin=np.arcsin, asinh=np.arcsinh, atan=np.arctan, atanh=np.arctanh,
    cbrt=np.cbrt, ceil=np.ceil, cos=np.cos, cosh=np.cosh, exp=np.exp, exp2=np.exp2, expm1=np.expm1, fabs=np.abs,
    floor=np.floor, log=np.log, log10=np.log10, log1p=np.log1p, log2=np.log2, rint=np.rint, nearbyint=np.rint,
    sin=np.sin, sinh=np.sinh, sqrt=np.sqrt, tan=np.tan, tanh=np.tanh, trunc=np.trunc,
    erf=np.vectorize(math.erf, otypes=[float]), erfc=np.vectorize(math.erfc, otypes=[float]),
    tgamma=np.vectorize(math.gamma, otypes=[float]), lgamma=np.vectorize(math.lgamma, otypes=[float]),
    rsqrt=lambda x: 1 / np.sqrt(x), rcp_rn=lambda x: 1 / x, sqrt_rn=np.sqrt, exp10=lambda x: 10.0**x,
    round=lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    fast_expf=np.exp, fast_logf=np.log, fast_sinf=np.sin, fast_cosf=np.cos, fast_tanf=np.tan, fast_log2f=np.log2,
    fast_tanhf=np.tanh, saturatef=lambda x: np.clip(np.nan_to_num(x, nan=0.0), 0, 1), rcbrt=lambda x: 1 / np.cbrt(x),
    sinpi=lambda x: np.sin(np.pi * x), cospi=lambda x: np.cos(np.pi * x),
    normcdf=lambda x: 0.5 * np.vectorize(math.erfc, otypes=[float])(-x / np.sqrt(2)),
    fast_exp10f=lambda x: 10.0**x, fast_log10f=np.log10,
)  # fmt: skip
_BINARY = dict(
    pow=np.power, fmod=np.fmod, atan2=np.arctan2, hypot=np.hypot, copysign=np.copysign, fmax=np.fmax, fmin=np.fmin,
    div_rn=np.divide, fast_powf=np.power, fast_dividef=np.divide, nextafter=np.nextafter, remainder=np.remainder,
    fdim=lambda x, y: np.maximum(x - y, 0),
)  # fmt: skip
_PREDICATES = dict(isnan=np.isnan, isinf=np.isinf, finitef=np.isfinite, isfinited=np.isfinite, signbit=np.signbit)
_ROUNDING_MODES = dict(rn=np.rint, rz=np.trunc, rd=np.floor, ru=np.ceil)
_INTEGER_TYPES = dict(int='int32', uint='uint32', ll='int64', ull='uint64')


def _integer_bits(x):
    "Return the bits of each integer as a non-negative Python integer"
    return [int(value) & ((1 << x.dtype.int_bitwidth) - 1) for value in np.ravel(x.data)]


def _make_bit_function(fn):
    "Return an elementwise function of integers that computes `fn(bits, width)`"

    def bit_function(x):
        x = block_of(x)
        results = np.array([fn(bits, x.dtype.int_bitwidth) for bits in _integer_bits(x)], np.int32)
        return with_undef(results.reshape(x.data.shape)[()], DTYPES['int32'], x)

    return bit_function


popc = _make_bit_function(lambda bits, width: bin(bits).count('1'))
clz = _make_bit_function(lambda bits, width: width - bits.bit_length())
ffs = _make_bit_function(lambda bits, width: (bits & -bits).bit_length())


def brev(x):
    "Reverse the order of the bits"
    x = block_of(x)
    width = x.dtype.int_bitwidth
    reversed_bits = np.array([int(f'{bits:0{width}b}'[::-1], 2) for bits in _integer_bits(x)], f'u{width // 8}')
    return with_undef(reversed_bits.view(x.dtype.np).reshape(x.data.shape)[()], x.dtype, x)


def fma(x, y, z):
    "Compute x*y + z, rounded once"
    return elements.fma(x, y, z)


def mulhi(x, y):
    "Return the upper half of the product of two integers"
    return elements.umulhi(x, y)


def float_as_int(x):
    "Reinterpret fp32 as int32"
    return bitcast(block_of(x), DTYPES['int32'])


def int_as_float(x):
    "Reinterpret 32 bits as fp32"
    return bitcast(block_of(x), DTYPES['float32'])


def _make_conversion(name):
    "Return the conversion with a name such as float2int_rn; None for any other name"
    match = re.fullmatch(r'(?:float|double)2(int|uint|ll|ull)_(rn|rz|rd|ru)', name)
    if not match:
        return None

    def conversion(x):
        x = _require_float(x, name)
        return convert(with_undef(_ROUNDING_MODES[match[2]](x.data), x.dtype, x), DTYPES[_INTEGER_TYPES[match[1]]])

    return conversion


def _require_float(x, name):
    "Return an argument of the function `name` as a block; raises `NotCompiled` unless it is fp32 or fp64"
    x = block_of(x)
    if x.dtype.name not in ('float32', 'float64'):
        raise compile_error(f'libdevice.{name} does not support {x.dtype}', 'Convert to fp32: x.to(tl.float32).')
    return x


def _make_float_function(name):
    "Return the function `name` of `_UNARY`, `_BINARY` or `_PREDICATES`, applied elementwise to blocks"

    def unary(x):
        x = _require_float(x, name)
        return with_undef(np.asarray(_UNARY[name](x.data), x.dtype.np)[()], x.dtype, x)

    def binary(x, y):
        x, y = (
            convert(block, DTYPES['float32']) if block.dtype.is_int() else _require_float(block, name)
            for block in map(block_of, (x, y))
        )
        return with_undef(np.asarray(_BINARY[name](x.data, y.data), x.dtype.np)[()], x.dtype, x, y)

    def predicate(x):
        x = _require_float(x, name)
        return with_undef(_PREDICATES[name](x.data).astype(np.int32), DTYPES['int32'], x)

    return unary if name in _UNARY else binary if name in _BINARY else predicate


def __getattr__(k):
    if k.startswith('__'):
        raise AttributeError(k)
    if k in _UNARY or k in _BINARY or k in _PREDICATES:
        return _make_float_function(k)
    if conversion := _make_conversion(k):
        return conversion
    raise unsupported_name(f'libdevice.{k}')
