"""Lowers calls of Python's builtins and of `math`, `numpy`, `operator` and `cuda.fp16`."""

import functools
import math

from ..tree import Expr, ZERO, const, constant_value, tuple_expr
from ..types import BOOL, DOUBLE, FLOAT, HALF, INT64, FLOATS, WEAK, INTEGERS, is_int, join_types, is_unsigned
from . import convert, operators
from .call_table import CALLS, register, native_call


@register('len')
def _len(fn, node, a):
    return const(len(a.args)) if a.op == 'tuple' else fn.arrays.size(node, a, 0)


# Functions of floats compute in the precision of their arguments; an integer is first converted to a Python float.
def math_call(fn, name, *args):
    "Return a call of the function `name` of the C math library, in the precision of the arguments"
    args = [convert.require_number(a) for a in args]
    t = functools.reduce(
        lambda a, b: join_types(a, b, fn.numba_types), [convert.float_type(a.type, fn.numba_types) for a in args]
    )
    if None in [a.type for a in args]:
        return Expr('math', None, args, name)
    return convert.to_half(Expr('math', FLOAT, args, name)) if t == HALF else Expr('math', t, args, name)


_UNARY_FUNCTIONS = dict(
    sqrt='sqrt',
    exp='exp',
    expm1='expm1',
    log='log',
    log2='log2',
    log10='log10',
    log1p='log1p',
    sin='sin',
    cos='cos',
    tan='tan',
    sinh='sinh',
    cosh='cosh',
    tanh='tanh',
    asin='asin',
    acos='acos',
    atan='atan',
    asinh='asinh',
    acosh='acosh',
    atanh='atanh',
    fabs='fabs',
    erf='erf',
    erfc='erfc',
    gamma='tgamma',
    lgamma='lgamma',
    exp2='exp2',
    cbrt='cbrt',
)


_NUMPY_UNARY_FUNCTIONS = dict(
    arcsin='asin', arccos='acos', arctan='atan', arcsinh='asinh', arccosh='acosh', arctanh='atanh'
)


_BINARY_FUNCTIONS = dict(
    atan2='atan2',
    arctan2='atan2',
    hypot='hypot',
    copysign='copysign',
    fmod='fmod',
    remainder='remainder',
    nextafter='nextafter',
)


def _unary_function(name):
    return lambda fn, node, a: math_call(fn, name, a)


def _binary_function(name):
    return lambda fn, node, a, b: math_call(fn, name, a, b)


def _float_test(name):
    return lambda fn, node, a: Expr('test_float', BOOL, (convert.to_float(a, fn.numba_types),), name)


for _make_lower, _names in (
    (_unary_function, {**_UNARY_FUNCTIONS, **_NUMPY_UNARY_FUNCTIONS}),
    (_binary_function, _BINARY_FUNCTIONS),
    (_float_test, {name: name for name in ('isnan', 'isinf', 'isfinite')}),
):
    for _python_name, _c_name in _names.items():
        CALLS[f'math.{_python_name}'] = CALLS[f'np.{_python_name}'] = _make_lower(_c_name)


CALLS['cuda.cbrt'], CALLS['cuda.rsqrt'] = (
    (lambda fn, node, a: math_call(fn, 'cbrt', a)),
    (lambda fn, node, a: math_call(fn, 'rsqrt', a)),
)


CALLS['cuda.fma'] = lambda fn, node, a, b, c: operators.fma(fn, a, b, c)


def _rounding(name, to_integer):
    def lower(fn, node, a):
        a = convert.require_number(a)
        if a.type in INTEGERS:
            return convert.widen(a) if to_integer else convert.to_float(a, fn.numba_types)
        rounded_expr = math_call(fn, name, a)
        return Expr('cast', INT64, (rounded_expr,), 'int64') if to_integer else rounded_expr

    return lower


for _name in ('floor', 'ceil', 'trunc'):
    CALLS[f'math.{_name}'], CALLS[f'np.{_name}'] = _rounding(_name, True), _rounding(_name, False)


CALLS['np.rint'] = _rounding('rint', False)


@register('round')
def _round(fn, node, a, digits=None):
    a = convert.require_number(a)
    if digits is None:
        return (
            convert.cast('int64', a)
            if a.type in INTEGERS
            else Expr('cast', INT64, (math_call(fn, 'rint', a),), 'int64')
        )
    n = constant_value(digits)
    if n is None:
        raise fn.error(node, 'the number of digits of round must be a compile-time constant')
    power = Expr('const', DOUBLE, value=10.0 ** abs(n))
    scale, unscale = ('mul', 'truediv') if n > 0 else ('truediv', 'mul')
    scaled_expr = Expr(scale, DOUBLE, (Expr('cast', DOUBLE, (a,), 'float64'), power))
    return convert.to_type(a.type, Expr(unscale, DOUBLE, (Expr('math', DOUBLE, (scaled_expr,), 'rint'), power)))


@register('math.pow', 'pow', 'np.power', 'operator.pow')
def _pow(fn, node, a, b):
    return operators.binary(fn, node, 'Pow', a, b)


@register('np.float_power')
def _float_power(fn, node, a, b):
    return math_call(fn, 'pow', a, b)


@register('np.square')
def _square(fn, node, a):
    return operators.binary(fn, node, 'Pow', a, const(2))


@register('np.reciprocal')
def _reciprocal(fn, node, a):
    return operators.binary(fn, node, 'Div', Expr('const', WEAK, value=1.0), a)


def _scaling(factor):
    def lower(fn, node, a):
        x = convert.to_float(a, fn.numba_types)
        return Expr('mul', x.type, (x, Expr('const', x.type, value=factor)))

    return lower


for _name, _alias, _factor in (('degrees', 'rad2deg', 180 / math.pi), ('radians', 'deg2rad', math.pi / 180)):
    CALLS[f'math.{_name}'] = CALLS[f'np.{_name}'] = CALLS[f'np.{_alias}'] = _scaling(_factor)


def _modf(fn, node, a):
    x = convert.to_float(a, fn.numba_types)
    if x.type == HALF:
        x = convert.to_type(FLOAT, x)
    integer_part = fn.temporary(node, 'integer_part', x.type, Expr('math', x.type, (x,), 'trunc'))
    fraction = Expr(
        'select',
        x.type,
        (
            Expr('test_float', BOOL, (x,), 'isinf'),
            Expr('const', x.type, value=0.0),
            Expr('sub', x.type, (x, integer_part)),
        ),
    )
    return tuple_expr([Expr('math', x.type, (fraction, x), 'copysign'), integer_part])


CALLS['math.modf'] = CALLS['np.modf'] = _modf


def _frexp(fn, node, a):
    x = convert.to_float(a, fn.numba_types)
    exponent = fn.temporary(node, 'exponent', 'int32', Expr('const', 'int32', value=0), low=-1100, high=1100)
    pointer = Expr('pointer_to', INT64, (exponent,))
    mantissa = fn.temporary(node, 'mantissa', x.type, Expr('math', x.type, (x, pointer), 'frexp'))
    return tuple_expr([mantissa, exponent])


CALLS['math.frexp'] = CALLS['np.frexp'] = _frexp


@register('math.ldexp', 'np.ldexp')
def _ldexp(fn, node, a, n):
    x = convert.to_float(a, fn.numba_types)
    return Expr('math', x.type, (x, Expr('cast', INT64, (convert.bool_to_int(n),), 'int32')), 'ldexp')


def _extremum(op):
    def lower(fn, node, *args):
        if len(args) == 1 and args[0].op == 'tuple':
            args = args[0].args
        if not args:
            raise TypeError
        return functools.reduce(lambda a, b: operators.extremum(fn, op, a, b), args)

    return lower


for _name, _names in (
    ('min', ('min', 'np.minimum')),
    ('max', ('max', 'np.maximum')),
    ('fmin', ('np.fmin',)),
    ('fmax', ('np.fmax',)),
):
    register(*_names)(_extremum(_name))


@register('abs', 'np.absolute', 'operator.abs', 'np.fabs')
def _abs(fn, node, a):
    a = convert.require_number(a)
    if a.type == BOOL:
        return a
    if a.type == HALF:
        return native_call('__habs', HALF, (a,), (), '__half')
    return (
        a
        if a.type is not None and is_unsigned(a.type)
        else Expr('abs', a.type, (a,))
        if a.type in INTEGERS
        else math_call(fn, 'fabs', a)
    )


@register('np.sign')
def _sign(fn, node, a):
    a = convert.widen(convert.require_number(a))
    zero = Expr('const', a.type, value=0)
    return Expr(
        'sub',
        a.type,
        tuple(convert.to_type(a.type, Expr('cmp', BOOL, operand, '<')) for operand in ((zero, a), (a, zero))),
    )


@register('int')
def _int(fn, node, a=ZERO):
    return a if is_int(a.type) else convert.cast('int64', convert.require_number(a))


@register('float')
def _float(fn, node, a=None):
    if a is None:
        return Expr('const', WEAK, value=0.0)
    if convert.require_number(a).type in FLOATS:
        return a
    return convert.cast('float64', a) if fn.numba_types else Expr('cast', WEAK, (a,), WEAK)


@register('bool')
def _bool(fn, node, a):
    return convert.to_condition(a)


@register('divmod')
def _divmod(fn, node, a, b):
    return tuple_expr([operators.binary(fn, node, 'FloorDiv', a, b), operators.binary(fn, node, 'Mod', a, b)])


@register('tuple')
def _tuple(fn, node, a):
    return fn.require_tuple(node, a)


def _binary_operator(op):
    return lambda fn, node, a, b: operators.binary(fn, node, op, a, b)


_OPERATORS = dict(
    Add='add add',
    Sub='sub subtract',
    Mult='mul multiply',
    Div='truediv true_divide divide',
    FloorDiv='floordiv floor_divide',
    Mod='mod remainder mod',
    LShift='lshift left_shift',
    RShift='rshift right_shift',
    BitAnd='and_ bitwise_and',
    BitOr='or_ bitwise_or',
    BitXor='xor bitwise_xor',
)


for _op, _names in _OPERATORS.items():
    for _name in _names.split():
        CALLS[f'operator.{_name}'] = CALLS[f'np.{_name}'] = _binary_operator(_op)


CALLS['math.remainder'] = lambda fn, node, a, b: math_call(fn, 'remainder', a, b)


@register('np.fmod')
def _fmod(fn, node, a, b):
    return math_call(fn, 'fmod', a, b) if {a.type, b.type} & FLOATS else operators.cmod(fn, a, b)


def _comparison(op):
    return lambda fn, node, a, b: operators.compare(fn, node, op, a, b)


def _unary(op):
    return lambda fn, node, a: operators.unary(fn, node, op, a)


def _logical(op):
    return lambda fn, node, a, b: Expr(op, BOOL, (convert.to_condition(a), convert.to_condition(b)))


for _symbol, _names in {
    '<': 'lt less',
    '<=': 'le less_equal',
    '>': 'gt greater',
    '>=': 'ge greater_equal',
    '==': 'eq equal',
    '!=': 'ne not_equal',
}.items():
    for _name in _names.split():
        CALLS[f'operator.{_name}'] = CALLS[f'np.{_name}'] = _comparison(_symbol)


for _op, _names in {'neg': 'neg negative', 'pos': 'pos positive', 'invert': 'invert inv bitwise_not'}.items():
    for _name in _names.split():
        CALLS[f'operator.{_name}'] = CALLS[f'np.{_name}'] = _unary(_op)


CALLS['np.logical_and'], CALLS['np.logical_or'] = _logical('land'), _logical('lor')


CALLS['operator.not_'] = CALLS['np.logical_not'] = lambda fn, node, a: Expr('not', BOOL, (convert.to_condition(a),))


CALLS['np.logical_xor'] = lambda fn, node, a, b: Expr(
    'cmp', BOOL, (convert.to_condition(a), convert.to_condition(b)), '!='
)


def _with_half_operands(lower):
    "Return a function that lowers a call like `lower`, with operands and result converted to float16"
    return lambda fn, node, *args: convert.to_half(lower(fn, node, *map(convert.to_half, args)))


_HALF_OPS = dict(hadd='Add', hsub='Sub', hmul='Mult', hdiv='Div')


for _name, _op in _HALF_OPS.items():
    CALLS[f'cuda.fp16.{_name}'] = _with_half_operands(_binary_operator(_op))


for _name in 'sin cos log log2 log10 exp exp2 sqrt rint ceil floor trunc'.split():
    CALLS[f'cuda.fp16.h{_name}'] = _with_half_operands(_unary_function(_name))


CALLS['cuda.fp16.hneg'], CALLS['cuda.fp16.habs'] = _with_half_operands(_unary('neg')), _with_half_operands(_abs)


CALLS['cuda.fp16.hmax'], CALLS['cuda.fp16.hmin'] = (
    _with_half_operands(_extremum('fmax')),
    _with_half_operands(_extremum('fmin')),
)


CALLS['cuda.fp16.hrsqrt'], CALLS['cuda.fp16.hrcp'] = (
    _with_half_operands(lambda fn, node, a: math_call(fn, 'rsqrt', a)),
    _with_half_operands(lambda fn, node, a: operators.binary(fn, node, 'Div', Expr('const', HALF, value=1.0), a)),
)


@register('cuda.fp16.hfma')
def _hfma(fn, node, a, b, c):
    return convert.to_half(operators.fma(fn, *(convert.to_type(FLOAT, operand) for operand in (a, b, c))))


for _symbol, _name in {'<': 'hlt', '<=': 'hle', '>': 'hgt', '>=': 'hge', '==': 'heq', '!=': 'hne'}.items():
    CALLS[f'cuda.fp16.{_name}'] = _comparison(_symbol)
