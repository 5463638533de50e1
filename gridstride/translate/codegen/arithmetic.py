"""Writes arithmetic, in a type of C that can represent the result."""

from ..c_types import c_int_type
from ..intervals import ALL, INT32, UINT32, hull, of_dtype, within
from ..tree import Expr, number
from ..types import BOOL, C_NAMES, INT, REAL, UINT
from .text import (
    BITAND,
    BITOR,
    BITXOR,
    CONVERSION_RANK,
    PLUS,
    PRIMARY,
    SHIFT,
    TIMES,
    UNARY,
    WIDE_TYPES,
    Text,
    join_text,
    parenthesize,
)


_OPERATORS = dict(
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


# C computes in the wider type of the operands. If the result may not fit that type, one operand is cast: `(long
# long)a*b`. An unsigned operand converts the other one to unsigned: this is right where nothing is negative;
# elsewhere a cast to a signed type prevents it.
class Arithmetic:
    "Write operators, in a type of C that holds the result"

    def operation(self, expr, low=False):
        "Write an operator with two operands: `i + 1`"
        if expr.type in REAL:
            return self.real_operation(expr)
        return self.integer_operation(expr, low)

    _expr_add = _expr_sub = _expr_mul = operation
    _expr_truediv = _expr_floordiv = _expr_mod = _expr_cmod = _expr_shl = _expr_shr = _expr_and = _expr_or = (
        _expr_xor
    ) = operation

    def real_operation(self, expr, symbol=None):
        "Write an operator of floats"
        if expr.op in ('floordiv', 'mod', 'cmod'):
            return self.real_division(expr)
        op, prec = _OPERATORS[expr.op]
        a, b = self.operands_in(expr.args, C_NAMES[expr.type])
        return Text(join_text(op, a, b, prec), prec, C_NAMES[expr.type])

    def operands_in(self, args, type):
        "Return the operands such that C computes with them in `type`"
        t = [self.write(a) for a in args]
        if type == '__half':
            return [self.as_type(a, type) for a in args]
        for n, a in enumerate(args):
            if (
                CONVERSION_RANK[t[n].type] > CONVERSION_RANK[type]
                or t[n].type == '__half'
                or a.op == 'const'
                and a.type in REAL
                and t[n].type != type
            ):
                t[n] = self.as_type(a, type)
        if max((text.type for text in t), key=CONVERSION_RANK.get) != type:
            n = next((n for n, a in enumerate(args) if a.op == 'const'), 0)
            t[n] = self.as_type(args[n], type)
        return t

    def real_division(self, expr):
        "Write Python's `//` or `%` of floats as a call: `real_mod(x, y)`"
        type = C_NAMES[expr.type]
        a, b = (self.as_type(operand, type) for operand in expr.args)
        if expr.op == 'cmod':
            return Text(f"fmod{'f' * (type == 'float')}({a.text}, {b.text})", PRIMARY, type)
        return Text(
            f"{self.helper_name('real_floor_div' if expr.op == 'floordiv' else 'real_mod', type)}({a.text}, {b.text})",
            PRIMARY,
            type,
        )

    def integer_operation(self, expr, low):
        "Write an operator of integers; `low`: only the low 32 bits of the result matter"
        op, prec = _OPERATORS[expr.op]
        is_modular = expr.op in ('add', 'sub', 'mul')
        if expr.type == BOOL:
            return Text(join_text(op, self.write(expr.args[0]), self.write(expr.args[1]), prec), prec, 'bool')
        low = low and is_modular and not self.unit.wide
        a, b = (self.write(operand, low) for operand in expr.args)
        if low and not {a.type, b.type} & {*WIDE_TYPES}:
            return self.low_operation(expr, a, b, op, prec)
        if low:
            a, b = (self.write(operand) for operand in expr.args)
        if expr.op in ('floordiv', 'mod') and not self.has_nonnegative_operands(expr):
            return self.floor_division(expr, a, b)
        a, b, type = self.widen(expr, a, b)
        return Text(join_text(op, a, b, prec), prec, type)

    def low_operation(self, expr, a, b, op, prec):
        "Write `a op b` where only the low 32 bits matter: no cast to 64 bits"
        if self.interval(expr)[0] < 0 and all(within(self.interval(operand), INT32) for operand in expr.args):
            a, b = (self.cast(t, 'int') if t.type == 'unsigned int' else t for t in (a, b))
        return Text(
            join_text(op, a, b, prec, expr.op == 'add' and b.prec == PLUS),
            prec,
            'unsigned int' if 'unsigned int' in (a.type, b.type) else 'int',
        )

    def widen(self, expr, a, b):
        "Return (a, b, type): the operands such that C computes `a op b` without overflow, as `(long long)a*b`"
        r, ra, rb = (self.interval(operand) for operand in (expr, *expr.args))
        shift = expr.op in ('shl', 'shr')
        wide_type, other_type = (
            ('unsigned long long', 'long long') if expr.type == UINT else ('long long', 'unsigned long long')
        )
        if a.type == other_type:
            a = self.cast(a, wide_type)
        if b.type == other_type and not shift:
            b = self.cast(b, wide_type)
        types = {a.type} if shift else {a.type, b.type}
        if wide_type in types:
            return a, b, wide_type
        if 'unsigned int' in types:
            if ra[0] >= 0 and (rb[0] >= 0 or shift) and within(r, UINT32):
                return a, b, 'unsigned int'
            if all(within(interval, INT32) for interval in (r, ra, rb)):
                return (*(self.cast(t, 'int') if t.type == 'unsigned int' else t for t in (a, b)), 'int')
            return self.as_type(expr.args[0], wide_type), b, wide_type
        if (
            within(r, INT32)
            and all(within(self.interval(operand), INT32) for operand in expr.args[: 1 if shift else 2])
            or expr.op in ('and', 'or', 'xor')
        ):
            return a, b, 'int'
        return self.as_type(expr.args[0], wide_type), b, wide_type

    def has_nonnegative_operands(self, expr):
        "Return whether both operands are at least 0 in the result's type, so that C's `/` and `%` equal Python's"
        return expr.op == 'cmod' or all(
            self.interval(a)[0] >= 0 and (expr.type == UINT or within(self.interval(a), ALL)) for a in expr.args
        )

    def floor_division(self, expr, a, b):
        "Write the division or remainder of integers that may be negative: `floor_div(i, 2)`"
        ra, rb = map(self.interval, expr.args)
        overflows = ra[0] == -(2**31) and within((-1, -1), rb)  # -2**31 // -1 is not an int
        type = 'int' if within(hull(ra, rb), INT32) and not overflows and not self.unit.wide else 'long long'
        a, b = (t if t.type == type else self.as_type(operand, type) for t, operand in zip((a, b), expr.args))
        return Text(
            f"{self.helper_name('floor_div' if expr.op == 'floordiv' else 'floor_mod', type)}({a.text}, {b.text})",
            PRIMARY,
            type,
        )

    def _expr_neg(self, expr, low):
        a = self.write(expr.args[0], low)
        if expr.type == UINT:
            a = self.as_type(expr.args[0], 'unsigned long long')
        if expr.type == INT:
            if a.type == 'unsigned long long':
                a = self.cast(a, 'long long')
            if a.type in ('unsigned int', 'bool'):
                a = self.cast(a, 'int' if within(self.interval(expr.args[0]), INT32) else 'long long')
            if a.type == 'int' and not within(self.interval(expr), INT32) and not low:
                a = self.cast(a, 'long long')
        return Text(f'-{parenthesize(a)}' if not a.text.startswith('-') else f'-({a.text})', UNARY, a.type)

    def _expr_invert(self, expr):
        a = self.write(expr.args[0])
        if expr.type == UINT:
            a = self.as_type(expr.args[0], 'unsigned long long')
        elif a.type in ('bool', 'unsigned int', 'unsigned long long'):
            a = self.cast(a, 'long long' if a.type[0] == 'u' else 'int')
        return Text(f'~{parenthesize(a)}', UNARY, a.type)

    def _expr_pow(self, expr):
        a, k = expr.args[0], number(expr.args[1])
        if expr.type in REAL:
            t = self.as_type(a, C_NAMES[expr.type])
            return self.small_power(t, k, expr.type)
        if k is not None and 1 <= k <= 3 and a.op in ('var', 'load', 'builtin', 'global'):
            res = a
            for _ in range(k - 1):
                res = self.with_interval(Expr('mul', expr.type, (res, a)), self.interval(expr))
            return self.write(res)
        if k == 0:
            return self.integer(1)
        type = 'unsigned long long' if expr.type == UINT else 'long long'
        return Text(f"{self.helper_name('int_pow', type)}({self.text(a)}, {self.text(expr.args[1])})", PRIMARY, type)

    def with_interval(self, expr, interval):
        "Record the interval of `expr`, an expression that is made here, and return `expr`"
        self.ranges.expr_intervals[id(expr)] = interval
        self.generated_exprs.append(expr)
        return expr

    def small_power(self, t, k, type):
        "Write `t` to the small power `k`: `x*x*x`, or a call of `square`"
        if k == 1:
            return t
        if len(t.text) > 12:
            half = f"{self.helper_name('square', t.type)}({t.text})"
            return (
                Text(half, PRIMARY, t.type)
                if k == 2
                else Text(f'{half}*{parenthesize(t)}', TIMES, t.type)
                if k == 3
                else Text(f'square({half})', PRIMARY, t.type)
            )
        return Text('*'.join([parenthesize(t)] * k), TIMES, t.type)

    def _expr_abs(self, expr):
        a = self.write(expr.args[0])
        if self.interval(expr.args[0])[0] >= 0:
            return a
        if expr.type in ('int8', 'int16') and not within((0, -self.interval(expr.args[0])[0]), of_dtype(expr.type)):
            return Text(f'({C_NAMES[expr.type]})abs({a.text})', UNARY, 'int')
        if a.type != 'long long' and within(self.interval(expr), INT32) and not self.unit.wide:
            return Text(f'abs({self.cast(a, "int").text if a.type != "int" else a.text})', PRIMARY, 'int')
        return Text(f'llabs({a.text})', PRIMARY, 'long long')

    def _expr_min(self, expr):
        return self.extreme(expr, 'min', 'least')

    def _expr_max(self, expr):
        return self.extreme(expr, 'max', 'greatest')

    def _expr_fmin(self, expr):
        return self.extreme(expr, 'fmin', 'fmin')

    def _expr_fmax(self, expr):
        return self.extreme(expr, 'fmax', 'fmax')

    def extreme(self, expr, of_integers, of_floats):
        "Write a minimum or maximum: `of_integers(a, b)` or `of_floats(a, b)`"
        if expr.type in REAL:
            type = C_NAMES[expr.type]
            f = of_floats + 'f' * (type == 'float') if of_floats[0] == 'f' else self.helper_name(of_floats, type)
            a, b = (self.as_type(operand, type) for operand in expr.args)
        else:
            f = of_integers
            type = c_int_type(expr.type, hull(*map(self.interval, expr.args)), self.unit.wide)
            a, b = (
                self.as_type(operand, type)
                if type in WIDE_TYPES and operand.op == 'const' or (t := self.write(operand)).type != type
                else t
                for operand in expr.args
            )
        return Text(f'{f}({a.text}, {b.text})', PRIMARY, type)
