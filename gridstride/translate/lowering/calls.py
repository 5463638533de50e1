"""What a kernel may call, and what each call means."""

import functools
import inspect
import math
import sys

import numpy as np

from ...sim.atomics import atomic_types
from ...sim.constants import SIZE, SIZE_HINT, constant, outside, shape_of
from ..tree import ONE, ZERO, Atomic, Call, E, Memory, View, array, const, number, row_strides, tuple_of
from ..types import BOOL, DOUBLE, FLOAT, HALF, INT, REAL, WEAK, WHOLE, is_int, join_types, unsigned, value_type
from . import convert, operators

# A function of the table makes an expression of the arguments' expressions. It gets the `Function` that is
# lowered, and the location in the source, for errors.
CALLS = {}


def call(*names):
    "Note under `names` what such a call means: `f(fn, node, *args)` gives an expression"

    def _f(f):
        for n in names:
            CALLS[n] = f
        return f

    return _f


def native(name, type, args=(), takes=(), gives='int', effect=False, low=-(2**31), high=2**31 - 1):
    "A call of a function that CUDA C has"
    return E('call', type, args, Call(name, takes, gives, effect, low, high))


# How a name in the table is found for an object: `cuda.` and what follows for the functions of `numba.cuda`
# and of the simulator, however they were imported; `math.`, `np.` and `operator.` likewise; Python's own have
# no dot.
_CUDA_MODULES = ('gridstride.sim.cuda', 'numba.cuda')


def is_cuda(module):
    "Is the object `module` Numba's `cuda`, or the simulator's?"
    return inspect.ismodule(module) and (
        module.__name__ in _CUDA_MODULES
        or module.__name__.startswith('numba.cuda.simulator')
        or module.__name__.startswith('numba_cuda.')
    )


def _under(module, path):
    for k in path.split('.')[1:]:
        module = getattr(module, k, None)
    return module


@functools.lru_cache(None)
def _own(modules):
    "{id: name in the table} of what the CUDA modules define"
    names = [n for n in CALLS if n.startswith('cuda.')] + [
        'cuda.' + o
        for o in (
            'threadIdx',
            'blockIdx',
            'blockDim',
            'gridDim',
            'laneid',
            'warpsize',
            'shared',
            'local',
            'const',
            'atomic',
            'cg',
            'fp16',
        )
    ]
    return {
        id(o): n
        for m in modules
        for n in names
        if (o := _under(sys.modules[m], n)) is not None and not isinstance(o, int)
    }


def name_of(f):
    "Under which name the table has the object `f`; None if it has not"
    if is_cuda(f):
        return 'cuda'
    known = _own(tuple(m for m in _CUDA_MODULES if m in sys.modules)).get(id(f))
    if known:
        return known
    name, module = getattr(f, '__name__', None), getattr(f, '__module__', None)
    if isinstance(f, np.ufunc):
        return f'np.{name}'
    if module in ('math', 'builtins', 'cmath'):
        return name if module == 'builtins' else f'{module}.{name}'
    if module == '_operator':
        return f'operator.{name}'


def builtin(name):
    "A variable of CUDA, such as 'threadIdx.x'"
    return E('builtin', INT, value=name)


def _axes(fn, node, n, one):
    k = number(n)
    if k not in (1, 2, 3):
        raise fn.error(node, 'the number of dimensions is not 1, 2 or 3, written as a number')
    return one('x') if k == 1 else tuple_of([one(a) for a in 'xyz'[:k]])


@call('cuda.grid')
def _grid(fn, node, n):
    return _axes(
        fn,
        node,
        n,
        lambda a: E(
            'add', INT, (E('mul', INT, (builtin(f'blockIdx.{a}'), builtin(f'blockDim.{a}'))), builtin(f'threadIdx.{a}'))
        ),
    )


@call('cuda.gridsize')
def _gridsize(fn, node, n):
    return _axes(fn, node, n, lambda a: E('mul', INT, (builtin(f'gridDim.{a}'), builtin(f'blockDim.{a}'))))


def _plain(name):
    return lambda fn, node: native(name, None, gives='void', effect=True)


for _n in ('syncthreads', 'threadfence', 'threadfence_block', 'threadfence_system'):
    CALLS[f'cuda.{_n}'] = _plain(f'__{_n}')


@call('cuda.syncwarp')
def _syncwarp(fn, node, mask=None):
    return native('__syncwarp', None, () if mask is None else (mask,), ('unsigned int',), 'void', True)


@call('cuda.syncthreads_count')
def _count(fn, node, p):
    return native('__syncthreads_count', INT, (convert.truth(p),), ('bool',), 'int', True, 0, 1024)


def _flag(name):
    return lambda fn, node, p: E('flag', INT, (native(name, INT, (convert.truth(p),), ('bool',), 'int', True),))


CALLS['cuda.syncthreads_and'], CALLS['cuda.syncthreads_or'] = _flag('__syncthreads_and'), _flag('__syncthreads_or')


@call('cuda.cg.this_grid')
def _this_grid(fn, node):
    return E('object', None, value='cuda.cg.grid')


@call('cuda.cg.grid.sync')
def _grid_sync(fn, node):
    fn.unit.cooperative = True
    return native('cooperative_groups::this_grid().sync', None, gives='void', effect=True)


def _shuffle(name):
    def _f(fn, node, mask, value, other, width=None):
        value = convert.need_number(value)
        more = () if width is None else (width,)
        return E('shuffle', value.type, (value, mask, other, *more), name)

    return _f


for _n in ('shfl_sync', 'shfl_up_sync', 'shfl_down_sync', 'shfl_xor_sync'):
    CALLS[f'cuda.{_n}'] = _shuffle(f'__{_n}')


def _vote(name):
    return lambda fn, node, mask, p: E(
        'flag', BOOL, (native(name, INT, (mask, convert.truth(p)), ('unsigned int', 'bool'), 'int', True),)
    )


CALLS['cuda.all_sync'], CALLS['cuda.any_sync'] = _vote('__all_sync'), _vote('__any_sync')


@call('cuda.eq_sync')
def _eq(fn, node, mask, p):
    return E(
        'lor',
        BOOL,
        (CALLS['cuda.all_sync'](fn, node, mask, p), E('not', BOOL, (CALLS['cuda.any_sync'](fn, node, mask, p),))),
    )


def _lanes(name, args=(), takes=()):
    "A function that gives a mask of lanes"
    return native(name, INT, args, takes, 'unsigned int', True, 0, 2**32 - 1)


@call('cuda.ballot_sync')
def _ballot(fn, node, mask, p):
    return _lanes('__ballot_sync', (mask, convert.truth(p)), ('unsigned int', 'bool'))


@call('cuda.match_any_sync')
def _match(fn, node, mask, v):
    return _lanes('__match_any_sync', (mask, convert.need_number(v)), ('unsigned int', None))


@call('cuda.match_all_sync')
def _match_all(fn, node, mask, v):
    same = fn.temporary(node, 'same', 'int32', E('const', 'int32', value=1), low=0, high=1)
    args = mask, convert.need_number(v), E('pointer_to', INT, (same,))
    found = _lanes('__match_all_sync', args, ('unsigned int', None, None))
    return tuple_of([fn.temporary(node, 'match', INT, found), convert.truth(same)])


@call('cuda.activemask')
def _activemask(fn, node):
    return _lanes('__activemask')


@call('cuda.lanemask_lt')
def _lanemask_lt(fn, node):
    return E('sub', INT, (E('shl', INT, (const(1), E('lane', INT))), ONE))


def _dims(fn, node, shape):
    sizes = shape.args if shape.op == 'tuple' else [shape]
    if None not in map(number, sizes):
        return sizes
    known = constant(shape_of(node), fn.source.tree, outside(fn.source.f))  # of a variable
    if known is None:
        raise fn.error(node, SIZE, SIZE_HINT)
    return [const(n) for n in (known if isinstance(known, tuple) else (known,))]


def _fresh(fn, node, space, shape, dtype):
    sizes, dtype = _dims(fn, node, shape), fn.dtype(node, dtype)
    dynamic = space == 'shared' and len(sizes) == 1 and number(sizes[0]) == 0
    if dynamic and dtype in fn.dynamic:
        return array(fn.dynamic[dtype].view)  # there is but one
    m = Memory(None, dtype, 'dynamic' if dynamic else space, len(sizes), None if dynamic else sizes)
    fn.emit('alloc', node, memory=m)
    if dynamic and fn.nesting == 1:
        fn.dynamic[dtype] = m
    m.view = View(m, (None,) if dynamic else sizes, row_strides(sizes) if not dynamic else (ONE,), plain=True)
    return array(m.view)


@call('cuda.shared.array')
def _shared(fn, node, shape, dtype):
    return _fresh(fn, node, 'shared', shape, dtype)


@call('cuda.local.array')
def _local(fn, node, shape, dtype):
    return _fresh(fn, node, 'local', shape, dtype)


@call('cuda.const.array_like')
def _constant(fn, node, a):
    return a


@call('len')
def _len(fn, node, a):
    return const(len(a.args)) if a.op == 'tuple' else fn.arrays.size(node, a, 0)


# An atomic operation gives what was there before.
def _atomic(op, values=1):
    def _f(fn, node, ary, idx, *args):
        if len(args) != values:
            raise TypeError
        view = fn.arrays.need_view(node, ary)
        if (dtype := view.memory.dtype) not in atomic_types(op):
            what = f'cuda.atomic.{op} on {dtype}, which Numba does not compile'
            raise fn.error(node, what, f'It takes {", ".join(atomic_types(op))}.')
        at = fn.arrays.place(node, view, idx.args if idx.op == 'tuple' else [idx])
        view.memory.write()
        operands = [*at, *map(convert.need_number, args)]
        return E('atomic', value_type(dtype), operands, Atomic(op.strip('_'), view.memory, len(at)))

    return _f


for _n in 'add sub max min nanmax nanmin and_ or_ xor inc dec exch'.split():
    CALLS[f'cuda.atomic.{_n}'] = _atomic(_n)
CALLS['cuda.atomic.cas'] = _atomic('cas', 2)
CALLS['cuda.atomic.compare_and_swap'] = lambda fn, node, ary, old, val: CALLS['cuda.atomic.cas'](
    fn, node, ary, ZERO, old, val
)


# Functions of floats keep the precision of what they get; an integer becomes a Python float first.
def function(fn, name, *args, like=None):
    "`name` of C's math library, in the precision of the arguments"
    args = [convert.need_number(a) for a in args]
    t = functools.reduce(
        lambda a, b: join_types(a, b, fn.doubles), [convert.real_type(a.type, fn.doubles) for a in args]
    )
    if None in [a.type for a in args]:
        return E('math', None, args, name)
    return convert.half(E('math', FLOAT, args, name)) if t == HALF else E('math', t, args, name)


_MATH = dict(
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
_NP = dict(arcsin='asin', arccos='acos', arctan='atan', arcsinh='asinh', arccosh='acosh', arctanh='atanh')
_TWO = dict(
    atan2='atan2',
    arctan2='atan2',
    hypot='hypot',
    copysign='copysign',
    fmod='fmod',
    remainder='remainder',
    nextafter='nextafter',
)


def _of_one(name):
    return lambda fn, node, a: function(fn, name, a)


def _of_two(name):
    return lambda fn, node, a, b: function(fn, name, a, b)


def _test(name):
    return lambda fn, node, a: E('test_real', BOOL, (convert.real(a, fn.doubles),), name)


for _made, _names in (
    (_of_one, {**_MATH, **_NP}),
    (_of_two, _TWO),
    (_test, {o: o for o in ('isnan', 'isinf', 'isfinite')}),
):
    for _py, _c in _names.items():
        CALLS[f'math.{_py}'] = CALLS[f'np.{_py}'] = _made(_c)
CALLS['cuda.cbrt'], CALLS['cuda.rsqrt'] = (
    (lambda fn, node, a: function(fn, 'cbrt', a)),
    (lambda fn, node, a: function(fn, 'rsqrt', a)),
)
CALLS['cuda.fma'] = lambda fn, node, a, b, c: operators.fma(fn, a, b, c)


def _rounding(name, whole):
    def _f(fn, node, a):
        a = convert.need_number(a)
        if a.type in WHOLE:
            return convert.wide(a) if whole else convert.real(a, fn.doubles)
        v = function(fn, name, a)
        return E('cast', INT, (v,), 'int64') if whole else v

    return _f


for _n in ('floor', 'ceil', 'trunc'):
    CALLS[f'math.{_n}'], CALLS[f'np.{_n}'] = _rounding(_n, True), _rounding(_n, False)
CALLS['np.rint'] = _rounding('rint', False)


@call('round')
def _round(fn, node, a, digits=None):
    a = convert.need_number(a)
    if digits is None:
        return convert.cast('int64', a) if a.type in WHOLE else E('cast', INT, (function(fn, 'rint', a),), 'int64')
    n = number(digits)
    if n is None:
        raise fn.error(node, 'the number of digits of round is not known when the kernel is compiled')
    t, by = a.type, E('const', DOUBLE, value=10.0 ** abs(n))
    wide = E('cast', DOUBLE, (a,), 'float64')
    up, down = ('mul', 'truediv') if n > 0 else ('truediv', 'mul')
    return convert.to(t, E(down, DOUBLE, (E('math', DOUBLE, (E(up, DOUBLE, (wide, by)),), 'rint'), by)))


@call('math.pow', 'pow', 'np.power', 'operator.pow')
def _pow(fn, node, a, b):
    return operators.binary(fn, node, 'Pow', a, b)


@call('np.float_power')
def _float_power(fn, node, a, b):
    return function(fn, 'pow', a, b)


@call('np.square')
def _square(fn, node, a):
    return operators.binary(fn, node, 'Pow', a, const(2))


@call('np.reciprocal')
def _reciprocal(fn, node, a):
    return operators.binary(fn, node, 'Div', E('const', WEAK, value=1.0), a)


def _scaling(by):
    def _f(fn, node, a):
        x = convert.real(a, fn.doubles)
        return E('mul', x.type, (x, E('const', x.type, value=by)))

    return _f


for _n, _m in (('degrees', 'rad2deg'), ('radians', 'deg2rad')):
    CALLS[f'math.{_n}'] = CALLS[f'np.{_n}'] = CALLS[f'np.{_m}'] = _scaling(
        180 / math.pi if _n == 'degrees' else math.pi / 180
    )


def _modf(fn, node, a):
    x = convert.real(a, fn.doubles)
    if x.type == HALF:
        x = convert.to(FLOAT, x)
    whole = fn.temporary(node, 'whole', x.type, E('math', x.type, (x,), 'trunc'))
    rest = E(
        'select',
        x.type,
        (E('test_real', BOOL, (x,), 'isinf'), E('const', x.type, value=0.0), E('sub', x.type, (x, whole))),
    )
    return tuple_of([E('math', x.type, (rest, x), 'copysign'), whole])


CALLS['math.modf'] = CALLS['np.modf'] = _modf


def _frexp(fn, node, a):
    x = convert.real(a, fn.doubles)
    e = fn.temporary(node, 'exponent', 'int32', E('const', 'int32', value=0), low=-1100, high=1100)
    m = fn.temporary(node, 'mantissa', x.type, E('math', x.type, (x, E('pointer_to', INT, (e,))), 'frexp'))
    return tuple_of([m, e])


CALLS['math.frexp'] = CALLS['np.frexp'] = _frexp


@call('math.ldexp', 'np.ldexp')
def _ldexp(fn, node, a, n):
    x = convert.real(a, fn.doubles)
    return E('math', x.type, (x, E('cast', INT, (convert.as_number(n),), 'int32')), 'ldexp')


def _extreme(op):
    def _f(fn, node, *args):
        if len(args) == 1 and args[0].op == 'tuple':
            args = args[0].args
        if not args:
            raise TypeError
        return functools.reduce(lambda a, b: operators.extreme(fn, op, a, b), args)

    return _f


for _n, _names in (
    ('min', ('min', 'np.minimum')),
    ('max', ('max', 'np.maximum')),
    ('fmin', ('np.fmin',)),
    ('fmax', ('np.fmax',)),
):
    call(*_names)(_extreme(_n))


@call('abs', 'np.absolute', 'operator.abs', 'np.fabs')
def _abs(fn, node, a):
    a = convert.need_number(a)
    if a.type == BOOL:
        return a
    if a.type == HALF:
        return native('__habs', HALF, (a,), (), '__half')
    return (
        a
        if a.type is not None and unsigned(a.type)
        else E('abs', a.type, (a,))
        if a.type in WHOLE
        else function(fn, 'fabs', a)
    )


@call('np.sign')
def _sign(fn, node, a):
    a = convert.wide(convert.need_number(a))
    zero = E('const', a.type, value=0)
    return E('sub', a.type, tuple(convert.to(a.type, E('cmp', BOOL, o, '<')) for o in ((zero, a), (a, zero))))


@call('int')
def _int(fn, node, a=ZERO):
    return a if is_int(a.type) else convert.cast('int64', convert.need_number(a))


@call('float')
def _float(fn, node, a=None):
    if a is None:
        return E('const', WEAK, value=0.0)
    if convert.need_number(a).type in REAL:
        return a
    return convert.cast('float64', a) if fn.doubles else E('cast', WEAK, (a,), WEAK)


@call('bool')
def _bool(fn, node, a):
    return convert.truth(a)


@call('divmod')
def _divmod(fn, node, a, b):
    return tuple_of([operators.binary(fn, node, 'FloorDiv', a, b), operators.binary(fn, node, 'Mod', a, b)])


@call('tuple')
def _tuple(fn, node, a):
    return fn.need_tuple(node, a)


@call('cuda.selp')
def _selp(fn, node, c, a, b):
    return operators.choose(fn, node, c, a, b)


def _two(op):
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
    for _n in _names.split():
        CALLS[f'operator.{_n}'] = CALLS[f'np.{_n}'] = _two(_op)
CALLS['math.remainder'] = lambda fn, node, a, b: function(fn, 'remainder', a, b)


@call('np.fmod')
def _fmod(fn, node, a, b):
    return function(fn, 'fmod', a, b) if {a.type, b.type} & REAL else operators.cmod(fn, a, b)


def _comparison(op):
    return lambda fn, node, a, b: operators.compare(fn, node, op, a, b)


def _unary(op):
    return lambda fn, node, a: operators.unary(fn, node, op, a)


def _logical(op):
    return lambda fn, node, a, b: E(op, BOOL, (convert.truth(a), convert.truth(b)))


for _c, _names in {
    '<': 'lt less',
    '<=': 'le less_equal',
    '>': 'gt greater',
    '>=': 'ge greater_equal',
    '==': 'eq equal',
    '!=': 'ne not_equal',
}.items():
    for _n in _names.split():
        CALLS[f'operator.{_n}'] = CALLS[f'np.{_n}'] = _comparison(_c)
for _n, _names in {'neg': 'neg negative', 'pos': 'pos positive', 'invert': 'invert inv bitwise_not'}.items():
    for _m in _names.split():
        CALLS[f'operator.{_m}'] = CALLS[f'np.{_m}'] = _unary(_n)
CALLS['np.logical_and'], CALLS['np.logical_or'] = _logical('land'), _logical('lor')
CALLS['operator.not_'] = CALLS['np.logical_not'] = lambda fn, node, a: E('not', BOOL, (convert.truth(a),))
CALLS['np.logical_xor'] = lambda fn, node, a, b: E('cmp', BOOL, (convert.truth(a), convert.truth(b)), '!=')


def _bits(op):
    def _f(fn, node, a):
        a = convert.as_number(convert.need_number(a))
        return E(
            'bits',
            INT if op != 'brev' else 'int32' if a.type in ('int8', 'int16', 'uint8', 'uint16') else a.type,
            (a,),
            op,
        )

    return _f


for _n in ('popc', 'clz', 'brev', 'ffs'):
    CALLS[f'cuda.{_n}'] = _bits(_n)


def _halves(f):
    return lambda fn, node, *args: convert.half(f(fn, node, *map(convert.half, args)))


_HALF_OPS = dict(hadd='Add', hsub='Sub', hmul='Mult', hdiv='Div')
for _n, _op in _HALF_OPS.items():
    CALLS[f'cuda.fp16.{_n}'] = _halves(_two(_op))
for _n in 'sin cos log log2 log10 exp exp2 sqrt rint ceil floor trunc'.split():
    CALLS[f'cuda.fp16.h{_n}'] = _halves(_of_one(_n))
CALLS['cuda.fp16.hneg'], CALLS['cuda.fp16.habs'] = _halves(_unary('neg')), _halves(_abs)
CALLS['cuda.fp16.hmax'], CALLS['cuda.fp16.hmin'] = _halves(_extreme('fmax')), _halves(_extreme('fmin'))
CALLS['cuda.fp16.hrsqrt'], CALLS['cuda.fp16.hrcp'] = (
    _halves(lambda fn, node, a: function(fn, 'rsqrt', a)),
    _halves(lambda fn, node, a: operators.binary(fn, node, 'Div', E('const', HALF, value=1.0), a)),
)


@call('cuda.fp16.hfma')
def _hfma(fn, node, a, b, c):
    return convert.half(operators.fma(fn, *(convert.to(FLOAT, o) for o in (a, b, c))))


for _c, _n in {'<': 'hlt', '<=': 'hle', '>': 'hgt', '>=': 'hge', '==': 'heq', '!=': 'hne'}.items():
    CALLS[f'cuda.fp16.{_n}'] = _comparison(_c)
