"""Emits arithmetic, in a C type that can represent the result."""

from ..c_types import c_int_type
from ..intervals import INT64_RANGE, INT32_RANGE, UINT32_RANGE, hull, dtype_interval, is_within
from ..tree import Expr, constant_value
from ..types import BOOL, C_NAMES, INT64, FLOATS, UINT64
from .code import (
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
    Code,
    binary_code,
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


# C computes in the wider type of the operands. If the result may not fit this type, one operand is cast: `(long
# long)a*b`. An unsigned operand converts the other operand to unsigned, which is right only if neither is negative;
# else the unsigned operand is cast to a signed type.
class Arithmetic:
    "Emits operators, in a C type that can represent the result"

    def operation(self, expr, low_bits_only=False):
        "Emit an operator with two operands: `i + 1`"
        if expr.type in FLOATS:
            return self.float_operation(expr)
        return self.integer_operation(expr, low_bits_only)

    _expr_add = _expr_sub = _expr_mul = operation
    _expr_truediv = _expr_floordiv = _expr_mod = _expr_cmod = _expr_shl = _expr_shr = _expr_and = _expr_or = (
        _expr_xor
    ) = operation

    def float_operation(self, expr):
        "Emit an operator of floats"
        if expr.op in ('floordiv', 'mod', 'cmod'):
            return self.float_division(expr)
        op, precedence = _OPERATORS[expr.op]
        a, b = self.operands_in(expr.args, C_NAMES[expr.type])
        return Code(binary_code(op, a, b, precedence), precedence, C_NAMES[expr.type])

    def operands_in(self, args, type):
        "Return one `Code` per operand, with casts such that C computes in `type`"
        operands = [self.emit(a) for a in args]
        if type == '__half':
            return [self.as_type(a, type) for a in args]
        for n, a in enumerate(args):
            if (
                CONVERSION_RANK[operands[n].type] > CONVERSION_RANK[type]
                or operands[n].type == '__half'
                or a.op == 'const'
                and a.type in FLOATS
                and operands[n].type != type
            ):
                operands[n] = self.as_type(a, type)
        if max((operand.type for operand in operands), key=CONVERSION_RANK.get) != type:
            n = next((n for n, a in enumerate(args) if a.op == 'const'), 0)
            operands[n] = self.as_type(args[n], type)
        return operands

    def float_division(self, expr):
        "Emit Python's `//` or `%` of floats as a call: `real_mod(x, y)`"
        type = C_NAMES[expr.type]
        a, b = (self.as_type(operand, type) for operand in expr.args)
        if expr.op == 'cmod':
            return Code(f"fmod{'f' * (type == 'float')}({a.text}, {b.text})", PRIMARY, type)
        return Code(
            f"{self.helper_name('real_floor_div' if expr.op == 'floordiv' else 'real_mod', type)}({a.text}, {b.text})",
            PRIMARY,
            type,
        )

    def integer_operation(self, expr, low_bits_only):
        "Emit an operator of integers; `low_bits_only`: only the low 32 bits of the result matter"
        op, precedence = _OPERATORS[expr.op]
        is_modular = expr.op in ('add', 'sub', 'mul')
        if expr.type == BOOL:
            return Code(
                binary_code(op, self.emit(expr.args[0]), self.emit(expr.args[1]), precedence), precedence, 'bool'
            )
        low_bits_only = low_bits_only and is_modular and not self.unit.all_int64
        a, b = (self.emit(operand, low_bits_only) for operand in expr.args)
        if low_bits_only and not {a.type, b.type} & {*WIDE_TYPES}:
            return self.low_operation(expr, a, b, op, precedence)
        if low_bits_only:
            a, b = (self.emit(operand) for operand in expr.args)
        if expr.op in ('floordiv', 'mod') and not self.has_nonnegative_operands(expr):
            return self.floor_division(expr, a, b)
        a, b, type = self.widen(expr, a, b)
        return Code(binary_code(op, a, b, precedence), precedence, type)

    def low_operation(self, expr, a, b, op, precedence):
        "Emit `a op b` where only the low 32 bits matter: no cast to 64 bits"
        if self.interval(expr)[0] < 0 and all(is_within(self.interval(operand), INT32_RANGE) for operand in expr.args):
            a, b = (self.cast(t, 'int') if t.type == 'unsigned int' else t for t in (a, b))
        return Code(
            binary_code(op, a, b, precedence, expr.op == 'add' and b.precedence == PLUS),
            precedence,
            'unsigned int' if 'unsigned int' in (a.type, b.type) else 'int',
        )

    def widen(self, expr, a, b):
        "Return (a, b, type): the operands, cast such that C computes `a op b` in `type` without overflow"
        interval, a_interval, b_interval = (self.interval(operand) for operand in (expr, *expr.args))
        is_shift = expr.op in ('shl', 'shr')
        wide_type, other_type = (
            ('unsigned long long', 'long long') if expr.type == UINT64 else ('long long', 'unsigned long long')
        )
        if a.type == other_type:
            a = self.cast(a, wide_type)
        if b.type == other_type and not is_shift:
            b = self.cast(b, wide_type)
        types = {a.type} if is_shift else {a.type, b.type}
        if wide_type in types:
            return a, b, wide_type
        if 'unsigned int' in types:
            if a_interval[0] >= 0 and (b_interval[0] >= 0 or is_shift) and is_within(interval, UINT32_RANGE):
                return a, b, 'unsigned int'
            if all(is_within(i, INT32_RANGE) for i in (interval, a_interval, b_interval)):
                return (*(self.cast(t, 'int') if t.type == 'unsigned int' else t for t in (a, b)), 'int')
            return self.as_type(expr.args[0], wide_type), b, wide_type
        if (
            is_within(interval, INT32_RANGE)
            and all(is_within(self.interval(operand), INT32_RANGE) for operand in expr.args[: 1 if is_shift else 2])
            or expr.op in ('and', 'or', 'xor')
        ):
            return a, b, 'int'
        return self.as_type(expr.args[0], wide_type), b, wide_type

    def has_nonnegative_operands(self, expr):
        "Return whether neither operand is negative in the type of the result, so that C's `/` and `%` equal Python's"
        return expr.op == 'cmod' or all(
            self.interval(a)[0] >= 0 and (expr.type == UINT64 or is_within(self.interval(a), INT64_RANGE))
            for a in expr.args
        )

    def floor_division(self, expr, a, b):
        "Emit the division or remainder of integers that may be negative: `floor_div(i, 2)`"
        a_interval, b_interval = map(self.interval, expr.args)
        overflows = a_interval[0] == -(2**31) and is_within((-1, -1), b_interval)  # -2**31 // -1 is not an int
        type = (
            'int'
            if is_within(hull(a_interval, b_interval), INT32_RANGE) and not overflows and not self.unit.all_int64
            else 'long long'
        )
        a, b = (t if t.type == type else self.as_type(operand, type) for t, operand in zip((a, b), expr.args))
        return Code(
            f"{self.helper_name('floor_div' if expr.op == 'floordiv' else 'floor_mod', type)}({a.text}, {b.text})",
            PRIMARY,
            type,
        )

    def _expr_neg(self, expr, low_bits_only):
        a = self.emit(expr.args[0], low_bits_only)
        if expr.type == UINT64:
            a = self.as_type(expr.args[0], 'unsigned long long')
        if expr.type == INT64:
            if a.type == 'unsigned long long':
                a = self.cast(a, 'long long')
            if a.type in ('unsigned int', 'bool'):
                a = self.cast(a, 'int' if is_within(self.interval(expr.args[0]), INT32_RANGE) else 'long long')
            if a.type == 'int' and not is_within(self.interval(expr), INT32_RANGE) and not low_bits_only:
                a = self.cast(a, 'long long')
        return Code(f'-{parenthesize(a)}' if not a.text.startswith('-') else f'-({a.text})', UNARY, a.type)

    def _expr_invert(self, expr):
        a = self.emit(expr.args[0])
        if expr.type == UINT64:
            a = self.as_type(expr.args[0], 'unsigned long long')
        elif a.type in ('bool', 'unsigned int', 'unsigned long long'):
            a = self.cast(a, 'long long' if a.type[0] == 'u' else 'int')
        return Code(f'~{parenthesize(a)}', UNARY, a.type)

    def _expr_pow(self, expr):
        a, k = expr.args[0], constant_value(expr.args[1])
        if expr.type in FLOATS:
            t = self.as_type(a, C_NAMES[expr.type])
            return self.small_power(t, k, expr.type)
        if k is not None and 1 <= k <= 3 and a.op in ('var', 'load', 'builtin', 'global'):
            product = a
            for _ in range(k - 1):
                product = self.record_interval(Expr('mul', expr.type, (product, a)), self.interval(expr))
            return self.emit(product)
        if k == 0:
            return self.integer_literal(1)
        type = 'unsigned long long' if expr.type == UINT64 else 'long long'
        return Code(f"{self.helper_name('int_pow', type)}({self.text(a)}, {self.text(expr.args[1])})", PRIMARY, type)

    def record_interval(self, expr, interval):
        "Record the interval of `expr`, which code generation has created, and return `expr`"
        self.ranges.expr_intervals[id(expr)] = interval
        self.generated_exprs.append(expr)
        return expr

    def small_power(self, t, k, type):
        "Emit `t` to the power `k`, 1 to 4: `x*x*x`, or calls of `square` if `t` is long"
        if k == 1:
            return t
        if len(t.text) > 12:
            square = f"{self.helper_name('square', t.type)}({t.text})"
            return (
                Code(square, PRIMARY, t.type)
                if k == 2
                else Code(f'{square}*{parenthesize(t)}', TIMES, t.type)
                if k == 3
                else Code(f'square({square})', PRIMARY, t.type)
            )
        return Code('*'.join([parenthesize(t)] * k), TIMES, t.type)

    def _expr_abs(self, expr):
        a = self.emit(expr.args[0])
        if self.interval(expr.args[0])[0] >= 0:
            return a
        if expr.type in ('int8', 'int16') and not is_within(
            (0, -self.interval(expr.args[0])[0]), dtype_interval(expr.type)
        ):
            return Code(f'({C_NAMES[expr.type]})abs({a.text})', UNARY, 'int')
        if a.type != 'long long' and is_within(self.interval(expr), INT32_RANGE) and not self.unit.all_int64:
            return Code(f'abs({self.cast(a, "int").text if a.type != "int" else a.text})', PRIMARY, 'int')
        return Code(f'llabs({a.text})', PRIMARY, 'long long')

    def _expr_min(self, expr):
        return self.extremum(expr, 'min', 'least')

    def _expr_max(self, expr):
        return self.extremum(expr, 'max', 'greatest')

    def _expr_fmin(self, expr):
        return self.extremum(expr, 'fmin', 'fmin')

    def _expr_fmax(self, expr):
        return self.extremum(expr, 'fmax', 'fmax')

    def extremum(self, expr, integer_function, float_function):
        "Emit a minimum or maximum as a call of one of the two functions"
        if expr.type in FLOATS:
            type = C_NAMES[expr.type]
            is_in_c = float_function[0] == 'f'  # fmin, fmax
            name = float_function + 'f' * (type == 'float') if is_in_c else self.helper_name(float_function, type)
            a, b = (self.as_type(operand, type) for operand in expr.args)
        else:
            name = integer_function
            type = c_int_type(expr.type, hull(*map(self.interval, expr.args)), self.unit.all_int64)
            a, b = (
                self.as_type(operand, type)
                if type in WIDE_TYPES and operand.op == 'const' or (t := self.emit(operand)).type != type
                else t
                for operand in expr.args
            )
        return Code(f'{name}({a.text}, {b.text})', PRIMARY, type)
