"""Expressions as C writes them: parentheses, casts, suffixes, small functions where C's meaning is not Python's."""

import math
import re
from collections import namedtuple

import numpy as np

from .ranges import ALL, INT32, UINT32, c_whole, hull, of_dtype, rounds, within
from .tree import E, Literal, number
from .types import BOOL, C_NAMES, DOUBLE, FLOAT, HALF, INT, REAL, UINT, WHOLE, arithmetic_type

# What C does differently from Python, and what CUDA has no function for. They are written above the kernel, if
# it needs them.
HELPERS = {
    'floor_div': '''__device__ inline T floor_div(T a, T b) {  // as Python's //
    T q = a/b;
    return q*b != a && (a < 0) != (b < 0) ? q - 1 : q;
}''',
    'floor_mod': '''__device__ inline T floor_mod(T a, T b) {  // as Python's %
    T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}''',
    'real_mod': '''__device__ inline T real_mod(T a, T b) {  // as Python's %: the sign is that of b
    T r = fmod(a, b);
    if (r == 0) return copysign((T)0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}''',
    'real_floor_div': '''__device__ inline T real_floor_div(T a, T b) {  // as Python's //
    T r = fmod(a, b);
    if (b == 0) return a/b;
    T q = (a - r)/b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysign((T)0, a/b);
    T whole = floor(q);
    return q - whole > (T)0.5 ? whole + 1 : whole;
}''',
    'int_pow': '''__device__ inline T int_pow(T a, T n) {  // modulo 2**64
    unsigned long long r = 1, base = a;
    for (; n > 0; n >>= 1, base *= base)
        if (n & 1) r *= base;
    return r;
}''',
    'square': '__device__ inline T square(T x) { return x*x; }',
    'least': '__device__ inline T least(T a, T b) { return a < b || a != a ? a : b; }  // a NaN stays',
    'greatest': '__device__ inline T greatest(T a, T b) { return a > b || a != a ? a : b; }  // a NaN stays',
    'lane_id': '__device__ inline int lane_id() { '
    'return (threadIdx.x + blockDim.x*(threadIdx.y + blockDim.y*threadIdx.z)) % 32; }',
}


def _swapping(name, keep, bits, type, to, back, comment=''):
    "An atomic operation out of compare-and-swap; `keep`: the condition under which nothing changes"
    return f'''__device__ inline {type} {name}({type} *address, {type} value) {{{comment}
    {bits} *place = ({bits} *)address;
    {bits} old = atomicCAS(place, 0, 0), seen;
    do {{
        seen = old;
        {type} now = {back('seen')};
        {keep}
    }} while (old != seen);
    return {back('old')};
}}'''


def _atomic_helper(op, dtype):
    "(name, text) of the atomic operation `op` for elements of `dtype`, which CUDA has not"
    type = C_NAMES[dtype]
    bits = 'unsigned long long' if type in ('double', 'long long', 'unsigned long long') else 'unsigned int'
    to = {'float': '__float_as_uint({})', 'double': '__double_as_longlong({})'}.get(type, '{}')
    back = {'float': '__uint_as_float({})', 'double': '__longlong_as_double({})'}.get(type, f'({type}){{}}')
    name = {
        'max': 'atomic_max',
        'min': 'atomic_min',
        'nanmax': 'atomic_nanmax',
        'nanmin': 'atomic_nanmin',
        'inc': 'atomic_inc',
        'dec': 'atomic_dec',
    }[op]
    changes = {
        'max': 'value > now',
        'min': 'value < now',
        'nanmax': 'value > now || now != now',
        'nanmin': 'value < now || now != now',
    }.get(op)
    stop = f'if (!({changes})) break;' if changes else ''
    new = {'inc': 'now >= value ? 0 : now + 1', 'dec': 'now == 0 || now > value ? value : now - 1'}.get(op, 'value')
    swap = f'old = atomicCAS(place, seen, {to.format(new)});'
    return name, _swapping(name, f'{stop}\n        {swap}' if stop else swap, bits, type, to.format, back.format)


# prec: how tightly it binds; type: of C. An integer of it has the value that Python has, unless only its low
# bits were asked for.
Text = namedtuple('Text', 'text prec type')
PRIMARY, UNARY, TIMES, PLUS, SHIFT, LESS, EQUAL, BITAND, BITXOR, BITOR, AND, OR, CHOICE = range(15, 2, -1)
_SYMBOL = dict(
    add=('+', PLUS),
    sub=('-', PLUS),
    mul=('*', TIMES),
    truediv=('/', TIMES),
    floordiv=('/', TIMES),
    mod=('%', TIMES),
    cmod=('%', TIMES),
    shl=('<<', SHIFT),
    shr=('>>', SHIFT),
    xor=('^', BITXOR),
    **{'and': ('&', BITAND), 'or': ('|', BITOR)},
)
_SIZE = {
    'bool': 0,
    'int': 1,
    'unsigned int': 2,
    'long long': 3,
    'unsigned long long': 4,
    '__half': 5,
    'float': 6,
    'double': 7,
}  # as C's arithmetic conversions go
_PROMOTED = {'signed char': 'int', 'unsigned char': 'int', 'short': 'int', 'unsigned short': 'int'}


def join_text(op, a, b, prec, right_loose=False):
    "`a op b` with the parentheses that C and its readers need"
    bitwise = SHIFT >= prec >= BITOR and prec not in (LESS, EQUAL)

    def side(t, right):
        need = t.prec < prec or right and t.prec == prec and not right_loose
        if bitwise and t.prec < UNARY and not (t.prec == prec and not right and prec != SHIFT):
            need = True
        if prec in (LESS, EQUAL) and t.prec in (LESS, EQUAL, BITAND, BITXOR, BITOR):
            need = True
        if prec == OR and t.prec == AND:
            need = True
        return f'({t.text})' if need else t.text

    gap = '' if op in ('*', '/') else ' '
    return f'{side(a, False)}{gap}{op}{gap}{side(b, True)}'


def under(t, prec=UNARY):
    "The text `t`, in parentheses unless it binds as tightly as `prec`"
    return f'({t.text})' if t.prec < prec else t.text


# Literals keep the spelling of the source where C can read it. `2147483648` is not an `int`, and `0.1` with a
# float is `0.1f`.
class _Numbers:
    "Literals, and what has a name: constants, variables, sizes"

    def x_const(self, e):
        v = e.value
        if e.type == BOOL:
            return Text('true' if v else 'false', PRIMARY, 'bool')
        if e.type in REAL:
            return self.real(v, C_NAMES[e.type], getattr(e, 'text', None))
        return self.whole(
            int(v), getattr(e, 'text', None), 'unsigned long long' if e.type == UINT and v >= 2**31 else None
        )

    def whole(self, v, text=None, type=None):
        if v == -(2**63):
            return Text('(-9223372036854775807LL - 1)', PRIMARY, 'long long')
        text = (text if text and text.lower().startswith(('0x', '-0x')) else str(v)).replace('_', '')
        wide = type == 'long long' or not -(2**31) < v < 2**31
        if type in ('double', 'float'):
            return self.real(float(v), type)
        if type == 'unsigned long long':
            return Text(f'{text}ULL', PRIMARY, type)
        return Text(text + 'LL' * wide, PRIMARY if v >= 0 else UNARY, 'long long' if wide else 'int')

    def real(self, v, type, text=None):
        if math.isinf(v) or math.isnan(v):
            self.macros.add('NAN' if math.isnan(v) else 'INFINITY')
            name = 'NAN' if math.isnan(v) else 'INFINITY'
            return Text('-' * (v < 0) + name, UNARY if v < 0 else PRIMARY, type)
        if type == '__half':
            self.headers.add('cuda_fp16.h')
            return Text(f'__float2half({self.real(float(np.float16(v)), "float", None).text})', PRIMARY, type)
        text = self.decimal(v, text)
        return Text(text + 'f' * (type == 'float'), PRIMARY if not text.startswith('-') else UNARY, type)

    def decimal(self, v, text):
        "A float as the source writes it, if C can read that"
        text = (text or '').replace('_', '')
        try:
            same = re.fullmatch(r'-?[\d.]+([eE][-+]?\d+)?', text) and float(text) == v
        except ValueError:
            same = False
        text = text if same else repr(float(v))
        if text.startswith(('.', '-.')):
            text = text.replace('.', '0.', 1)
        if re.fullmatch(r'-?\d+', text):
            text += '.0'
        return re.sub(r'\.(?=$|[eE])', '.0', text)

    def x_global(self, e):
        name, v = e.value
        self.globals.setdefault(name, e)
        if e.type == HALF:
            return Text(f'__float2half({self.unit.names.constant(name)})', PRIMARY, '__half')
        type = (
            'bool'
            if e.type == BOOL
            else c_whole(e.type, (v, v), self.unit.wide)
            if e.type in WHOLE
            else C_NAMES[e.type]
        )
        return Text(self.unit.names.constant(name), PRIMARY, type)

    def x_var(self, e):
        type = (e.value.slot or e.value).c_type
        return Text(e.value.c_name, PRIMARY, _PROMOTED.get(type, type))

    def x_builtin(self, e):
        return Text(e.value, PRIMARY, 'unsigned int')

    def x_lane(self, e):
        return Text(f"{self.help('lane_id')}()", PRIMARY, 'int')

    def x_size(self, e):
        return Text(e.value[0].size_names[e.value[1]], PRIMARY, self.index_type)

    def x_stride(self, e):
        return Text(e.value[0].stride_names[e.value[1]], PRIMARY, self.index_type)

    def x_size_of(self, e):
        view, _ = e.value
        raise Unsupported(f'the size of {view.memory.name} is not known in the kernel', 'Pass it as an argument.')

    def x_start(self, e):
        return Text(e.value.start_name, PRIMARY, self.index_type)

    @property
    def index_type(self):
        return 'long long' if self.unit.wide else 'int'


# A conversion that loses something is written out; one that C does by itself is not.
class _Conversions:
    "Casts where C does not convert by itself, or loses something"

    def cast(self, t, type):
        "The text `t` with a cast to `type`; none where it is of that type"
        if t.type == type:
            return t
        if type == '__half':
            return self.to_half(t)
        if t.type == '__half':
            return self.cast(Text(f'__half2float({t.text})', PRIMARY, 'float'), type)
        return Text(f'({type}){under(t)}', UNARY, type)

    def to_half(self, t):
        self.headers.add('cuda_fp16.h')
        f = '__double2half' if t.type == 'double' else '__float2half'
        return Text(f'{f}({t.text})', PRIMARY, '__half')

    def as_type(self, e, type):
        "`e` as a value of C's type `type`; literals are written as such"
        if e.op == 'const' and e.type != BOOL:
            if type in ('float', 'double', '__half'):
                return self.real(float(e.value), type, getattr(e, 'text', None))
            if e.type in WHOLE and type == 'unsigned int' and 0 <= e.value < 2**32:
                return Text(f'{e.value}u', PRIMARY, type)
            if e.type in WHOLE and type in ('long long', 'unsigned long long'):
                return self.whole(int(e.value), getattr(e, 'text', None), type)
        if type in ('float', 'double') and e.op == 'global' and e.type in REAL and self.x(e).type != type:
            return self.cast(self.x(e), type)
        if e.op == 'select' and type in ('float', 'double'):
            return Text(*self.choice(e, type))
        return self.cast(self.x(e), type)

    def fit(self, e, type, low=False):
        "`e` for a variable of C's type `type`: a conversion that loses something is written out"
        if type == 'bool':
            return self.condition(e) if e.type != BOOL else self.x(e)
        if type == 'unsigned int' and e.op == 'const' and 0 <= e.value < 2**32:
            return Text(getattr(e, 'text', None) or f"{e.value}{'u' * (e.value >= 2**31)}", PRIMARY, type)
        if type in ('float', '__half', '__nv_bfloat16') and e.type == DOUBLE and (s := self.single(e)) is not None:
            e = s
        if type == '__nv_bfloat16':
            self.headers.add('cuda_bf16.h')
            return Text(f'__float2bfloat16({self.as_type(e, "float").text})', PRIMARY, type)
        if e.type in REAL or type in ('float', 'double', '__half'):
            if e.op == 'const' and type not in ('float', 'double', '__half'):
                return (
                    self.whole(int(np.float64(e.value).astype(np.int64)))
                    if math.isfinite(e.value)
                    else self.cast(self.x(e), type)
                )
            if e.op == 'const' and e.type in WHOLE and type in ('float', 'double') and abs(e.value) < 2**24:
                return self.whole(int(e.value), getattr(e, 'text', None))
            if e.type in WHOLE and type in ('float', 'double'):
                return self.x(e)
            return self.as_type(e, type) if type != C_NAMES.get(e.type) or e.op in ('const', 'select') else self.x(e)
        if e.op == 'const' and e.type == INT:
            return self.whole(
                _wrap(int(e.value), type), getattr(e, 'text', None) if _wrap(int(e.value), type) == e.value else None
            )
        return self.x(e, low)

    def x_cast(self, e, low):
        a, dtype = e.args[0], e.value
        type = {'weak': C_NAMES[e.type]}.get(dtype, C_NAMES.get(dtype))
        if type is None:
            type = C_NAMES[e.type]
        if e.type == BOOL:
            return self.condition(a)
        if e.type in REAL:
            if e.type == FLOAT and a.type == DOUBLE and (s := self.single(a)) is not None:
                return self.x(s) if self.x(s).type == 'float' else self.as_type(s, 'float')
            if e.type == FLOAT and dtype == 'float16':
                type = '__half'
            return self.as_type(a, type)
        t = (
            self.x(a)
            if a.type in REAL
            else self.x(a, low and dtype in ('int64', 'uint64') or dtype not in ('int64', 'uint64'))
        )
        if t.type == '__half':
            t = self.cast(t, 'float')
        if a.type in WHOLE and within(self.r(a), of_dtype(dtype)):
            return self.x(a, low)
        if (
            type == 'long long'
            and e.type == INT
            and a.type in REAL
            and (low or within(self.r(e), INT32))
            and not self.unit.wide
        ):
            type = 'int'
        return Text(f'({type}){under(t)}', UNARY, _PROMOTED.get(type, type))


# One addition, multiplication, division or square root of float32 values, computed in double and rounded to
# float32, has the bits that float arithmetic gives: double has more than twice the digits. So it is written
# in float.
class _Single:
    "What a float computes with fewer bits"

    def exact(self, e):
        "`e` as something that float32 holds exactly; None if it may not"
        if e.type in (FLOAT, HALF):
            return e
        if e.op == 'const' and e.type in (DOUBLE, INT, UINT) and float(np.float32(e.value)) == float(e.value):
            return Literal(E('const', FLOAT, value=float(e.value)), getattr(e, 'text', '')) if e.type == DOUBLE else e
        if e.type in WHOLE and within(self.r(e), (-(2**24), 2**24)):
            return e
        if e.op == 'cast' and e.type == DOUBLE:
            return self.exact(e.args[0])

    def single(self, e):
        "`e`, a double that becomes a float, computed in float where that gives the same bits: one operation on floats"
        if (s := self.exact(e)) is not None:
            return s
        if (
            e.op in ('add', 'sub', 'mul', 'truediv', 'neg')
            or e.op in ('fmin', 'fmax', 'min', 'max')
            or e.op == 'math'
            and e.value in ('sqrt', 'fabs')
        ):
            parts = [self.exact(a) for a in e.args]
            if None not in parts:
                return E(e.op, FLOAT, parts, e.value)
        if e.op == 'select':
            parts = [self.single(a) for a in e.args[1:]]
            if None not in parts:
                return E('select', FLOAT, (e.args[0], *parts))


# C computes in the wider type of its operands. So one of them is cast, where the result may not fit: `(long
# long)a*b`. An unsigned operand makes the other unsigned, too; that is left where nothing is negative, and
# cast away elsewhere.
class _Operators:
    "Arithmetic in a type of C that holds the result"

    def operation(self, e, low=False):
        "An operator with two operands"
        if e.type in REAL:
            return self.real_operation(e)
        return self.whole_operation(e, low)

    x_add = x_sub = x_mul = operation
    x_truediv = x_floordiv = x_mod = x_cmod = x_shl = x_shr = x_and = x_or = x_xor = operation

    def real_operation(self, e, symbol=None):
        if e.op in ('floordiv', 'mod', 'cmod'):
            return self.real_division(e)
        op, prec = _SYMBOL[e.op]
        a, b = self.balance(e.args, C_NAMES[e.type])
        return Text(join_text(op, a, b, prec), prec, C_NAMES[e.type])

    def balance(self, args, type):
        "The operands such that C computes with them in `type`"
        t = [self.x(a) for a in args]
        if type == '__half':
            return [self.as_type(a, type) for a in args]
        for n, a in enumerate(args):
            if (
                _SIZE[t[n].type] > _SIZE[type]
                or t[n].type == '__half'
                or a.op == 'const'
                and a.type in REAL
                and t[n].type != type
            ):
                t[n] = self.as_type(a, type)
        if max((o.type for o in t), key=_SIZE.get) != type:
            n = next((n for n, a in enumerate(args) if a.op == 'const'), 0)
            t[n] = self.as_type(args[n], type)
        return t

    def real_division(self, e):
        type = C_NAMES[e.type]
        a, b = (self.as_type(o, type) for o in e.args)
        if e.op == 'cmod':
            return Text(f"fmod{'f' * (type == 'float')}({a.text}, {b.text})", PRIMARY, type)
        return Text(
            f"{self.help('real_floor_div' if e.op == 'floordiv' else 'real_mod', type)}({a.text}, {b.text})",
            PRIMARY,
            type,
        )

    def whole_operation(self, e, low):
        op, prec = _SYMBOL[e.op]
        ring = e.op in ('add', 'sub', 'mul')
        if e.type == BOOL:
            return Text(join_text(op, self.x(e.args[0]), self.x(e.args[1]), prec), prec, 'bool')
        low = low and ring and not self.unit.wide
        a, b = (self.x(o, low) for o in e.args)
        if low and not {a.type, b.type} & {*_WIDE}:
            return self.low_operation(e, a, b, op, prec)
        if low:
            a, b = (self.x(o) for o in e.args)
        if e.op in ('floordiv', 'mod') and not self.positive(e):
            return self.floor(e, a, b)
        a, b, type = self.widen(e, a, b)
        return Text(join_text(op, a, b, prec), prec, type)

    def low_operation(self, e, a, b, op, prec):
        "The low 32 bits of `a op b`"
        if self.r(e)[0] < 0 and all(within(self.r(o), INT32) for o in e.args):
            a, b = (self.cast(t, 'int') if t.type == 'unsigned int' else t for t in (a, b))
        return Text(
            join_text(op, a, b, prec, e.op == 'add' and b.prec == PLUS),
            prec,
            'unsigned int' if 'unsigned int' in (a.type, b.type) else 'int',
        )

    def widen(self, e, a, b):
        "(a, b, type): the operands such that C computes `a op b` without overflow"
        r, ra, rb = (self.r(o) for o in (e, *e.args))
        shift = e.op in ('shl', 'shr')
        wide, other = ('unsigned long long', 'long long') if e.type == UINT else ('long long', 'unsigned long long')
        if a.type == other:
            a = self.cast(a, wide)
        if b.type == other and not shift:
            b = self.cast(b, wide)
        types = {a.type} if shift else {a.type, b.type}
        if wide in types:
            return a, b, wide
        if 'unsigned int' in types:
            if ra[0] >= 0 and (rb[0] >= 0 or shift) and within(r, UINT32):
                return a, b, 'unsigned int'
            if all(within(o, INT32) for o in (r, ra, rb)):
                return (*(self.cast(t, 'int') if t.type == 'unsigned int' else t for t in (a, b)), 'int')
            return self.as_type(e.args[0], wide), b, wide
        if (
            within(r, INT32)
            and all(within(self.r(o), INT32) for o in e.args[: 1 if shift else 2])
            or e.op in ('and', 'or', 'xor')
        ):
            return a, b, 'int'
        return self.as_type(e.args[0], wide), b, wide

    def positive(self, e):
        "Are both operands, as values of the result's type, 0 or more?"
        return e.op == 'cmod' or all(self.r(a)[0] >= 0 and (e.type == UINT or within(self.r(a), ALL)) for a in e.args)

    def floor(self, e, a, b):
        "Division and remainder of what may be negative"
        ra, rb = map(self.r, e.args)
        overflows = ra[0] == -(2**31) and within((-1, -1), rb)  # -2**31 // -1 is not an int
        type = 'int' if within(hull(ra, rb), INT32) and not overflows and not self.unit.wide else 'long long'
        a, b = (t if t.type == type else self.as_type(o, type) for t, o in zip((a, b), e.args))
        return Text(
            f"{self.help('floor_div' if e.op == 'floordiv' else 'floor_mod', type)}({a.text}, {b.text})", PRIMARY, type
        )

    def x_neg(self, e, low):
        a = self.x(e.args[0], low)
        if e.type == UINT:
            a = self.as_type(e.args[0], 'unsigned long long')
        if e.type == INT:
            if a.type == 'unsigned long long':
                a = self.cast(a, 'long long')
            if a.type in ('unsigned int', 'bool'):
                a = self.cast(a, 'int' if within(self.r(e.args[0]), INT32) else 'long long')
            if a.type == 'int' and not within(self.r(e), INT32) and not low:
                a = self.cast(a, 'long long')
        return Text(f'-{under(a)}' if not a.text.startswith('-') else f'-({a.text})', UNARY, a.type)

    def x_invert(self, e):
        a = self.x(e.args[0])
        if e.type == UINT:
            a = self.as_type(e.args[0], 'unsigned long long')
        elif a.type in ('bool', 'unsigned int', 'unsigned long long'):
            a = self.cast(a, 'long long' if a.type[0] == 'u' else 'int')
        return Text(f'~{under(a)}', UNARY, a.type)

    def x_pow(self, e):
        a, k = e.args[0], number(e.args[1])
        if e.type in REAL:
            t = self.as_type(a, C_NAMES[e.type])
            return self.product(t, k, e.type)
        if k is not None and 1 <= k <= 3 and a.op in ('var', 'load', 'builtin', 'global'):
            res = a
            for _ in range(k - 1):
                res = self.note(E('mul', e.type, (res, a)), self.r(e))
            return self.x(res)
        if k == 0:
            return self.whole(1)
        type = 'unsigned long long' if e.type == UINT else 'long long'
        return Text(f"{self.help('int_pow', type)}({self.text(a)}, {self.text(e.args[1])})", PRIMARY, type)

    def note(self, e, r):
        "`e`, made here, which has the interval `r`"
        self.ranges.nodes[id(e)] = r
        self.made.append(e)
        return e

    def product(self, t, k, type):
        "`t` to the small power `k`"
        if k == 1:
            return t
        if len(t.text) > 12:
            half = f"{self.help('square', t.type)}({t.text})"
            return (
                Text(half, PRIMARY, t.type)
                if k == 2
                else Text(f'{half}*{under(t)}', TIMES, t.type)
                if k == 3
                else Text(f'square({half})', PRIMARY, t.type)
            )
        return Text('*'.join([under(t)] * k), TIMES, t.type)

    def x_abs(self, e):
        a = self.x(e.args[0])
        if self.r(e.args[0])[0] >= 0:
            return a
        if e.type in ('int8', 'int16') and not within((0, -self.r(e.args[0])[0]), of_dtype(e.type)):
            return Text(f'({C_NAMES[e.type]})abs({a.text})', UNARY, 'int')
        if a.type != 'long long' and within(self.r(e), INT32) and not self.unit.wide:
            return Text(f'abs({self.cast(a, "int").text if a.type != "int" else a.text})', PRIMARY, 'int')
        return Text(f'llabs({a.text})', PRIMARY, 'long long')

    def x_min(self, e):
        return self.extreme(e, 'min', 'least')

    def x_max(self, e):
        return self.extreme(e, 'max', 'greatest')

    def x_fmin(self, e):
        return self.extreme(e, 'fmin', 'fmin')

    def x_fmax(self, e):
        return self.extreme(e, 'fmax', 'fmax')

    def extreme(self, e, whole, real):
        if e.type in REAL:
            type = C_NAMES[e.type]
            f = real + 'f' * (type == 'float') if real[0] == 'f' else self.help(real, type)
            a, b = (self.as_type(o, type) for o in e.args)
        else:
            f = whole
            type = c_whole(e.type, hull(*map(self.r, e.args)), self.unit.wide)
            a, b = (
                self.as_type(o, type) if type in _WIDE and o.op == 'const' or (t := self.x(o)).type != type else t
                for o in e.args
            )
        return Text(f'{f}({a.text}, {b.text})', PRIMARY, type)


# Python asks of every number whether it is true; `and` and `or` give one of their operands.
class _Truth:
    "Conditions and choices"

    def condition(self, e):
        "`e` where C asks whether it is true"
        if e.op == 'truth':
            return self.condition(e.args[0]) if e.args[0].type != BOOL else self.x(e.args[0])
        if e.op == 'flag':
            return self.x(e.args[0])
        if e.type == BOOL:
            return self.x(e)
        if e.op in ('value_land', 'value_lor'):
            return self.connective(e, 'land' if e.op == 'value_land' else 'lor')
        t = self.x(e)
        if e.type in REAL:
            return Text(
                join_text('!=', t if t.type != '__half' else self.cast(t, 'float'), Text('0', PRIMARY, 'int'), EQUAL),
                EQUAL,
                'bool',
            )
        return (
            t
            if e.op in ('var', 'and', 'call')
            else Text(join_text('!=', t, Text('0', PRIMARY, 'int'), EQUAL), EQUAL, 'bool')
        )

    def x_truth(self, e):
        t = self.condition(e.args[0])
        return t if t.type == 'bool' else Text(join_text('!=', t, Text('0', PRIMARY, 'int'), EQUAL), EQUAL, 'bool')

    def x_flag(self, e):
        return Text(join_text('!=', self.x(e.args[0]), Text('0', PRIMARY, 'int'), EQUAL), EQUAL, 'bool')

    def x_not(self, e):
        a = e.args[0]
        if a.op == 'cmp' and all(o.type in WHOLE for o in a.args):
            return self.x_cmp(a, {'<': '>=', '<=': '>', '>': '<=', '>=': '<', '==': '!=', '!=': '=='}[a.value])
        return Text(f'!{under(self.condition(a))}', UNARY, 'bool')

    def connective(self, e, op):
        symbol, prec = ('&&', AND) if op == 'land' else ('||', OR)
        a, b = (self.condition(o) for o in e.args)
        return Text(join_text(symbol, a, b, prec, b.prec == prec), prec, 'bool')

    def x_land(self, e):
        return self.connective(e, 'land')

    def x_lor(self, e):
        return self.connective(e, 'lor')

    def x_value_land(self, e):
        return self.value_of(e, lambda a, b: (b, a))

    def x_value_lor(self, e):
        return self.value_of(e, lambda a, b: (a, b))

    def value_of(self, e, order):
        "`a and b`, `a or b` as values: a choice between the two"
        a, b = e.args
        test = self.condition(a)
        if e.value is not None:
            first = self.note(E('let', a.type, (a,), e.value), self.r(a))
            test, a = self.condition(first), self.note(E('var', a.type, value=e.value), self.r(a))
        c = self.note(E('select', e.type, (None, *order(a, b))), self.r(e))
        return Text(*self.choice(c, C_NAMES[e.type] if e.type in REAL else None, test))

    def x_select(self, e):
        return Text(*self.choice(e, C_NAMES[e.type] if e.type in REAL else None))

    def choice(self, e, type, test=None):
        test = test or self.condition(e.args[0])
        a, b = (self.x(o) if type is None else self.as_type(o, type) for o in e.args[1:])
        if type is None:
            types = {a.type, b.type}
            if 'unsigned long long' in types:
                type = 'unsigned long long' if e.type == UINT else 'long long'
                a, b = (self.as_type(o, type) for o in e.args[1:])
            elif 'unsigned int' in types and len(types) > 1 and 'long long' not in types:
                type = 'int' if within(self.r(e), INT32) else 'long long'
                a, b = (self.cast(t, type) if t.type == 'unsigned int' else t for t in (a, b))
                if type == 'long long':
                    a = self.cast(a, type)
            else:
                type = max(types, key=_SIZE.get)
        return f'{under(test, OR)} ? {under(a, CHOICE)} : {b.text}', CHOICE, type

    def x_let(self, e):
        return Text(
            f'({e.value.c_name} = {self.fit(e.args[0], e.value.c_type).text})',
            PRIMARY,
            _PROMOTED.get(e.value.c_type, e.value.c_type),
        )

    def x_cmp(self, e, op=None):
        op = op or e.value
        prec = EQUAL if op in ('==', '!=') else LESS
        a, b = e.args
        if a.type in WHOLE and b.type in WHOLE:
            return self.compare(op, prec, a, b)
        x, y = self.exact(a), self.exact(b)
        if self.unit.doubles and x is not None and y is not None:
            a, b = x, y
        type = C_NAMES[self.meeting(a, b)]
        s, t = self.balance((a, b), type) if type != '__half' else (self.as_type(a, type), self.as_type(b, type))
        for o, n in ((a, 0), (b, 1)):
            if o.op == 'const' and o.type == INT and abs(o.value) < 2**24:
                s, t = ((self.whole(int(o.value)), t), (s, self.whole(int(o.value))))[n]
        return Text(join_text(op, s, t, prec), prec, 'bool')

    def meeting(self, a, b):
        "The type in which two values are compared: a constant takes that of the other"
        if not self.unit.doubles:
            if a.op == 'const' and b.type in (FLOAT, DOUBLE):
                return b.type
            if b.op == 'const' and a.type in (FLOAT, DOUBLE):
                return a.type
        return arithmetic_type(a.type, b.type, self.unit.doubles)

    def compare(self, op, prec, a, b):
        if rounds(a, b, self.r):  # as Numba compares a uint64 and a signed integer
            s, t = (self.as_type(o, 'double') for o in (a, b))
            return Text(join_text(op, s, t, prec), prec, 'bool')
        s, t = self.x(a), self.x(b)
        types = {s.type, t.type}
        if (
            'unsigned long long' in types
            and types != {'unsigned long long'}
            and not any(o.op == 'const' and o.value >= 0 for o in (a, b))
        ):
            return self.compare_mixed(op, prec, a, b, s, t)
        if 'unsigned int' in types and types <= {'unsigned int', 'int', 'bool'} and types != {'unsigned int'}:
            flip = {'<': '>', '<=': '>=', '>': '<', '>=': '<='}
            k, way = (b, op) if b.op == 'const' else (a, flip.get(op, op))
            if k.op == 'const' and (k.value > 0 or k.value == 0 and way not in ('<', '>=')):
                pass
            elif all(within(self.r(o), INT32) for o in (a, b)):
                s, t = (self.cast(o, 'int') if o.type == 'unsigned int' else o for o in (s, t))
            else:
                s, t = (self.cast(o, 'long long') if o.type == 'unsigned int' else o for o in (s, t))
        return Text(join_text(op, s, t, prec), prec, 'bool')

    def compare_mixed(self, op, prec, a, b, s, t):
        "A number of 64 bits without a sign, and one that may have one"
        flip = {'<': '>', '<=': '>=', '>': '<', '>=': '<=', '==': '==', '!=': '!='}
        if self.r(a)[0] >= 0 and self.r(b)[0] >= 0:
            return Text(
                join_text(op, self.as_type(a, 'unsigned long long'), self.as_type(b, 'unsigned long long'), prec),
                prec,
                'bool',
            )
        if s.type == 'unsigned long long':
            return self.compare_mixed(flip[op], prec, b, a, t, s)
        t = Text(join_text(op, self.as_type(a, 'unsigned long long'), self.x(b), prec), prec, 'bool')
        negative = Text(join_text('<', self.x(a), Text('0', PRIMARY, 'int'), LESS), LESS, 'bool')
        if op in ('<', '<=', '!='):
            return Text(join_text('||', negative, t, OR), OR, 'bool')
        return Text(
            join_text('&&', Text(join_text('>=', self.x(a), Text('0', PRIMARY, 'int'), LESS), LESS, 'bool'), t, AND),
            AND,
            'bool',
        )


# Indices need their low 32 bits only.
class _Places:
    "Elements of arrays, and pointers to them"

    def place(self, memory, idx):
        "The element of a memory at the indices that C needs"
        return self.row(memory, idx)

    def row(self, memory, idx):
        "The part of a C array that its first indices name"
        return memory.c_name + ''.join(f'[{self.text(i, low=True)}]' for i in idx)

    def x_load(self, e):
        type = self.element(e.value.dtype)
        t = self.place(e.value, e.args)
        if type == '__nv_bfloat16':
            return Text(f'__bfloat162float({t})', PRIMARY, 'float')
        return Text(t, PRIMARY, _PROMOTED.get(type, type))

    def x_address(self, e):
        "Where a pointer begins"
        m = e.value
        if m.dims is None:
            at = self.x(e.args[0], low=True)
            start = Text(m.c_name, PRIMARY, '*')
            return (
                start
                if at.text == '0'
                else Text(
                    join_text('+', start, at, PLUS, right_loose=at.prec == PLUS and ' - ' not in at.text), PLUS, '*'
                )
            )
        lead, offset = e.args[:-1], e.args[-1]
        rest = m.ndim - len(lead)
        base = self.row(m, lead) if rest == 1 else '&' + self.row(m, lead) + '[0]' * rest
        t = Text(base, PRIMARY if rest == 1 else UNARY, '*')
        return t if number(offset) == 0 else Text(join_text('+', t, self.x(offset, low=True), PLUS), PLUS, '*')

    def argument(self, view, m):
        "An array as the argument of a device function whose parameter is `m`"
        if view.whole:
            return (
                view.memory.c_name
                if m.dims is not None or view.ndim == 1
                else '&' + view.memory.c_name + '[0]' * view.ndim
            )
        return self.x_address(
            E(
                'address',
                None,
                [*view.lead, view.offset] if view.memory.dims is not None else [view.offset],
                view.memory,
            )
        ).text


# Functions, shuffles, and atomic operations: CUDA has many, and the rest is made of compare-and-swap.
class _Calls:
    "Calls of functions: of CUDA, of its libraries, of the unit itself"

    def x_math(self, e):
        type = C_NAMES[e.type]
        args = [
            self.x(a) if a.op == 'pointer_to' or e.value == 'ldexp' and n else self.as_type(a, type)
            for n, a in enumerate(e.args)
        ]
        if e.value == 'pow' and e.args[0].type in REAL and number(e.args[1]) == 0.5:
            return Text(f"sqrt{'f' * (type == 'float')}({args[0].text})", PRIMARY, type)
        return Text(f"{e.value}{'f' * (type == 'float')}({', '.join(a.text for a in args)})", PRIMARY, type)

    def x_test_real(self, e):
        a = self.x(e.args[0])
        return Text(f"{e.value}({self.cast(a, 'float').text if a.type == '__half' else a.text})", PRIMARY, 'bool')

    def x_pointer_to(self, e):
        return Text(f'&{self.x(e.args[0]).text}', UNARY, '*')

    def x_call(self, e):
        c = e.value
        if 'cooperative_groups' in c.name:
            self.headers.add('cooperative_groups.h')
        args = [self.pass_argument(a, t) for a, t in zip(e.args, (*c.takes, *[None] * len(e.args)))]
        return Text(f"{c.name}({', '.join(args)})", PRIMARY, c.gives)

    def pass_argument(self, e, type):
        if type == 'bool':
            return self.condition(e).text
        if type == 'unsigned int' and e.op == 'const':
            return self.mask(e)
        return self.text(e)

    def mask(self, e):
        "A mask of lanes"
        return (
            getattr(e, 'text', None)
            if getattr(e, 'text', '')[:2].lower() == '0x' and 0 <= e.value < 2**32
            else hex(e.value % 2**32)
            if not 0 <= e.value < 2**31
            else str(e.value)
        )

    def x_shuffle(self, e):
        value, mask, other, *more = e.args
        v = self.x(value)
        if v.type == 'bool':
            v = Text(v.text, v.prec, 'int')
        args = [
            self.mask(mask) if mask.op == 'const' else self.text(mask),
            v.text,
            self.text(other),
            *map(self.text, more),
        ]
        t = Text(f"{e.value}({', '.join(args)})", PRIMARY, v.type)
        return Text(join_text('!=', t, Text('0', PRIMARY, 'int'), EQUAL), EQUAL, 'bool') if e.type == BOOL else t

    def x_bits(self, e):
        a, r = self.x(e.args[0]), self.r(e.args[0])
        narrow = (
            e.args[0].type not in (INT, UINT)
            or e.value == 'popc'
            and within(r, UINT32)
            or e.value == 'ffs'
            and (within(r, UINT32) or within(r, INT32))
        )
        type = (
            ('unsigned int' if e.value in ('popc', 'brev') else 'int')
            if narrow
            else 'unsigned long long'
            if e.value in ('popc', 'brev')
            else 'long long'
        )
        if a.type in _WIDE and a.type != type or a.type not in _WIDE and not narrow:
            a = self.cast(a, type)
        t = f"__{e.value}{'' if narrow else 'll'}({a.text})"
        if e.value != 'brev':
            return Text(t, PRIMARY, 'int')
        type = 'unsigned int' if narrow else 'unsigned long long'
        return self.cast(Text(t, PRIMARY, type), 'int' if e.type == 'int32' else 'long long' if e.type == INT else type)

    def x_field(self, e):
        v = e.args[0].value
        type = v.struct.c_results[e.value]
        return Text(f'{v.c_name}.{v.struct.field_names[e.value]}', PRIMARY, _PROMOTED.get(type, type))

    def x_device(self, e):
        f = e.value
        args = []
        for a, p in zip(e.args, f.given):
            args += self.arguments(a, p)
        for m, what, d in f.extra:
            args.append(self.extra(e, f, m, what, d))
        return Text(f"{f.c_name}({', '.join(args)})", PRIMARY, _PROMOTED.get(f.c_result, f.c_result))

    def arguments(self, a, p):
        if a.op == 'tuple':
            return [t for x, y in zip(a.args, p.args) for t in self.arguments(x, y)]
        if a.op == 'object' or p.op == 'var' and p.value.dropped or p.op == 'view' and p.value.memory.dropped:
            return []
        if a.op == 'view':
            return [self.argument(a.value, p.value.memory)]
        return [self.fit(a, p.value.c_type).text]

    def extra(self, e, f, m, what, d):
        "A size or a stride that the device function asks for"
        view = next(v for a, p in zip(e.args, f.given) for v in _views(a, p, m))
        return self.text(view.sizes[d] if what == 'size' else view.strides[d])

    def x_atomic(self, e):
        op, m, n = e.value
        at, values = '&' + self.place(m, e.args[:n]), e.args[n:]
        return self.atomic_call(op, m, at, values)

    def as_element(self, e, m):
        "`e` as an element of `m`"
        return self.fit(e, C_NAMES[m.dtype], low=True)

    _NAMES = {
        'add': 'Add',
        'sub': 'Sub',
        'max': 'Max',
        'min': 'Min',
        'exch': 'Exch',
        'and': 'And',
        'or': 'Or',
        'xor': 'Xor',
        'cas': 'CAS',
        'inc': 'Inc',
        'dec': 'Dec',
    }

    def atomic_call(self, op, m, at, values):
        type = C_NAMES[m.dtype]
        args = [self.as_element(v, m) for v in values]
        if op in _NATIVE.get(type, ''):
            return Text(f"atomic{self._NAMES[op]}({at}, {', '.join(a.text for a in args)})", PRIMARY, type)
        if op == 'sub':
            return self.subtract(at, args[0], type)
        if type == 'long long' and op in _NATIVE['unsigned long long']:
            return self.as_unsigned(f'atomic{self._NAMES[op]}', at, args)
        if op in ('nanmax', 'nanmin') and type in _INTEGERS:
            return self.atomic_call(op[3:], m, at, values)
        name, text = _atomic_helper(op, m.dtype)
        self.helpers.setdefault((name, type), text)
        return Text(f'{name}({at}, {args[0].text})', PRIMARY, type)

    def subtract(self, at, a, type):
        "A subtraction as an addition"
        if type in ('float', 'double'):
            return Text(f'atomicAdd({at}, -{under(a)})', PRIMARY, type)
        if type == 'unsigned long long':
            return Text(f'atomicAdd({at}, -(unsigned long long){under(a)})', PRIMARY, type)
        return self.as_unsigned('atomicAdd', at, [Text(f'-{under(self.cast(a, "long long"))}', UNARY, 'long long')])

    def as_unsigned(self, name, at, args):
        "An atomic operation on a `long long`, which CUDA has for unsigned ones only: the bits are the same"
        texts = [
            a.text if a.type == 'unsigned long long' or a.text.isdigit() else f'(unsigned long long){under(a)}'
            for a in args
        ]
        call = f"{name}((unsigned long long *){at}, {', '.join(texts)})"
        return (
            Text(call, PRIMARY, 'unsigned long long') if self.quiet else Text(f'(long long){call}', UNARY, 'long long')
        )

    def x_view(self, e):
        return Text(e.value.memory.c_name, PRIMARY, '*')


# `x` writes an expression; it notes what the expression needs: helpers, headers, constants.
class Expressions(_Numbers, _Conversions, _Single, _Operators, _Truth, _Places, _Calls):
    "Writes the expressions of a unit whose types are settled"

    def __init__(self, unit, ranges):
        self.unit, self.ranges = unit, ranges
        self.helpers, self.headers, self.globals, self.macros = {}, set(), {}, set()  # what the text will need
        self.quiet = False  # is the result of an atomic operation unused?
        self.made = []  # expressions that are made here: what is known of one is known by its identity

    def help(self, name, type=''):
        "Note that the small function `name` is needed, for values of C's type `type`"
        text = re.sub(r'\bT\b', type, HELPERS[name])
        if type == 'float':
            text = re.sub(r'\b(fmod|copysign|floor)\(', r'\1f(', text)
        self.helpers.setdefault((name, type), text)
        return name

    def element(self, dtype):
        "C's type of the elements of an array"
        if dtype in ('float16', 'bfloat16'):
            self.headers.add('cuda_fp16.h' if dtype == 'float16' else 'cuda_bf16.h')
        return C_NAMES[dtype]

    def x(self, e, low=False) -> Text:
        "`e` as C writes it; `low`: only the low 32 bits of an integer matter"
        write = getattr(self, 'x_' + e.op)
        return write(e, low) if e.op in _TAKES_LOW else write(e)

    def text(self, e, low=False):
        "`e` as C writes it, without what is known of the text"
        return self.x(e, low).text

    def r(self, e):
        "The interval of `e`"
        return self.ranges.of(e)


_INTEGERS = ('int', 'unsigned int', 'long long', 'unsigned long long')
_NATIVE = {
    k: v.split()
    for k, v in {
        'int': 'add sub max min exch and or xor cas',
        'unsigned int': 'add sub max min exch and or xor cas inc dec',
        'long long': 'max min',
        'unsigned long long': 'add max min exch and or xor cas',
        'float': 'add',
        'double': 'add',
    }.items()
}  # what CUDA's functions take
_TAKES_LOW = {'add', 'sub', 'mul', 'cast', 'neg'}
_WIDE = ('long long', 'unsigned long long')


class Unsupported(Exception):
    "What CUDA C has no way to say: what, and the way out"


def _views(a, p, m):
    "The view that the argument `a` gives for the parameter memory `m`"
    if a.op == 'tuple':
        for x, y in zip(a.args, p.args):
            yield from _views(x, y, m)
    elif a.op == 'view' and p.value.memory is m:
        yield a.value


def _wrap(v, type):
    "The integer `v` as an element of C's type `type` holds it"
    bits = {'signed char': 8, 'unsigned char': 8, 'short': 16, 'unsigned short': 16, 'int': 32, 'unsigned int': 32}.get(
        type
    )
    if bits is None:
        return v
    v %= 2**bits
    return v - 2**bits if type[0] != 'u' and v >= 2 ** (bits - 1) else v
