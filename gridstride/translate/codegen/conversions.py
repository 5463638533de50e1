"""Writes conversions: casts where C has no implicit conversion, and float in place of double where that is exact."""

import math

import numpy as np

from ..intervals import INT32, dtype_interval, is_within
from ..tree import Expr, Literal
from ..types import BOOL, C_NAMES, DOUBLE, FLOAT, HALF, INT, REAL, UINT, INTEGERS
from .code import PRIMARY, PROMOTED, UNARY, Code, parenthesize


# A conversion that may lose information is written as a cast; other conversions remain implicit.
class Conversions:
    "Writes casts where C has no implicit conversion, or where it would lose information"

    def cast(self, t, type):
        "Write `t` with a cast to `type`, unless it already has this type: `(int)x`"
        if t.type == type:
            return t
        if type == '__half':
            return self.to_half(t)
        if t.type == '__half':
            return self.cast(Code(f'__half2float({t.text})', PRIMARY, 'float'), type)
        return Code(f'({type}){parenthesize(t)}', UNARY, type)

    def to_half(self, t):
        "Write the conversion of a number to a half: `__float2half(x)`"
        self.headers.add('cuda_fp16.h')
        function = '__double2half' if t.type == 'double' else '__float2half'
        return Code(f'{function}({t.text})', PRIMARY, '__half')

    def as_type(self, expr, type):
        "Write `expr` as a value of the C type `type`; a literal is written in this type: `0.5f`"
        if expr.op == 'const' and expr.type != BOOL:
            if type in ('float', 'double', '__half'):
                return self.real_literal(float(expr.value), type, getattr(expr, 'text', None))
            if expr.type in INTEGERS and type == 'unsigned int' and 0 <= expr.value < 2**32:
                return Code(f'{expr.value}u', PRIMARY, type)
            if expr.type in INTEGERS and type in ('long long', 'unsigned long long'):
                return self.integer_literal(int(expr.value), getattr(expr, 'text', None), type)
        if type in ('float', 'double') and expr.op == 'global' and expr.type in REAL and self.write(expr).type != type:
            return self.cast(self.write(expr), type)
        if expr.op == 'select' and type in ('float', 'double'):
            return Code(*self.conditional(expr, type))
        return self.cast(self.write(expr), type)

    def fit(self, expr, type, low_bits_only=False):
        "Write `expr` for a variable of the C type `type`; a conversion that may lose information is explicit"
        if type == 'bool':
            return self.condition(expr) if expr.type != BOOL else self.write(expr)
        if type == 'unsigned int' and expr.op == 'const' and 0 <= expr.value < 2**32:
            return Code(getattr(expr, 'text', None) or f"{expr.value}{'u' * (expr.value >= 2**31)}", PRIMARY, type)
        if (
            type in ('float', '__half', '__nv_bfloat16')
            and expr.type == DOUBLE
            and (float32_expr := self.in_float32(expr)) is not None
        ):
            expr = float32_expr
        if type == '__nv_bfloat16':
            self.headers.add('cuda_bf16.h')
            return Code(f'__float2bfloat16({self.as_type(expr, "float").text})', PRIMARY, type)
        if expr.type in REAL or type in ('float', 'double', '__half'):
            if expr.op == 'const' and type not in ('float', 'double', '__half'):
                return (
                    self.integer_literal(int(np.float64(expr.value).astype(np.int64)))
                    if math.isfinite(expr.value)
                    else self.cast(self.write(expr), type)
                )
            if expr.op == 'const' and expr.type in INTEGERS and type in ('float', 'double') and abs(expr.value) < 2**24:
                return self.integer_literal(int(expr.value), getattr(expr, 'text', None))
            if expr.type in INTEGERS and type in ('float', 'double'):
                return self.write(expr)
            return (
                self.as_type(expr, type)
                if type != C_NAMES.get(expr.type) or expr.op in ('const', 'select')
                else self.write(expr)
            )
        if expr.op == 'const' and expr.type == INT:
            return self.integer_literal(
                _wrap(int(expr.value), type),
                getattr(expr, 'text', None) if _wrap(int(expr.value), type) == expr.value else None,
            )
        return self.write(expr, low_bits_only)

    def _expr_cast(self, expr, low_bits_only):
        a, dtype = expr.args[0], expr.value
        type = {'weak': C_NAMES[expr.type]}.get(dtype, C_NAMES.get(dtype))
        if type is None:
            type = C_NAMES[expr.type]
        if expr.type == BOOL:
            return self.condition(a)
        if expr.type in REAL:
            if expr.type == FLOAT and a.type == DOUBLE and (float32_expr := self.in_float32(a)) is not None:
                return (
                    self.write(float32_expr)
                    if self.write(float32_expr).type == 'float'
                    else self.as_type(float32_expr, 'float')
                )
            if expr.type == FLOAT and dtype == 'float16':
                type = '__half'
            return self.as_type(a, type)
        t = (
            self.write(a)
            if a.type in REAL
            else self.write(a, low_bits_only and dtype in ('int64', 'uint64') or dtype not in ('int64', 'uint64'))
        )
        if t.type == '__half':
            t = self.cast(t, 'float')
        if a.type in INTEGERS and is_within(self.interval(a), dtype_interval(dtype)):
            return self.write(a, low_bits_only)
        if (
            type == 'long long'
            and expr.type == INT
            and a.type in REAL
            and (low_bits_only or is_within(self.interval(expr), INT32))
            and not self.unit.wide
        ):
            type = 'int'
        return Code(f'({type}){parenthesize(t)}', UNARY, PROMOTED.get(type, type))


# A single addition, multiplication, division or square root of float32 values gives the same bits in float as in
# double, rounded to float32, because a double has more than twice the significant bits. So it is written in float.
class SinglePrecision:
    "Finds operations in double that can be written in float"

    def exact_in_float32(self, expr):
        "Return an expression that float32 represents exactly and that equals `expr`; None if there may be none"
        if expr.type in (FLOAT, HALF):
            return expr
        if (
            expr.op == 'const'
            and expr.type in (DOUBLE, INT, UINT)
            and float(np.float32(expr.value)) == float(expr.value)
        ):
            return (
                Literal(Expr('const', FLOAT, value=float(expr.value)), getattr(expr, 'text', ''))
                if expr.type == DOUBLE
                else expr
            )
        if expr.type in INTEGERS and is_within(self.interval(expr), (-(2**24), 2**24)):
            return expr
        if expr.op == 'cast' and expr.type == DOUBLE:
            return self.exact_in_float32(expr.args[0])

    def in_float32(self, expr):
        "Return an expression in float with the bits of the double `expr`, rounded to float; None if there is none"
        if (float32_expr := self.exact_in_float32(expr)) is not None:
            return float32_expr
        if (
            expr.op in ('add', 'sub', 'mul', 'truediv', 'neg')
            or expr.op in ('fmin', 'fmax', 'min', 'max')
            or expr.op == 'math'
            and expr.value in ('sqrt', 'fabs')
        ):
            operands = [self.exact_in_float32(a) for a in expr.args]
            if None not in operands:
                return Expr(expr.op, FLOAT, operands, expr.value)
        if expr.op == 'select':
            alternatives = [self.in_float32(a) for a in expr.args[1:]]
            if None not in alternatives:
                return Expr('select', FLOAT, (expr.args[0], *alternatives))


def _wrap(value, type):
    "Return the integer `value`, wrapped to the range of the C type `type`"
    bits = {'signed char': 8, 'unsigned char': 8, 'short': 16, 'unsigned short': 16, 'int': 32, 'unsigned int': 32}.get(
        type
    )
    if bits is None:
        return value
    value %= 2**bits
    return value - 2**bits if type[0] != 'u' and value >= 2 ** (bits - 1) else value
