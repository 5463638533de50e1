"""Emits conversions between C types, and operations on float64 in float where the result is the same."""

import math

import numpy as np

from ..intervals import INT32_RANGE, dtype_interval, is_within
from ..tree import Expr, Literal
from ..types import BOOL, C_NAMES, DOUBLE, FLOAT, HALF, INT64, FLOATS, UINT64, INTEGERS
from .code import PRIMARY, PROMOTED, UNARY, Code, parenthesize


# When a value is assigned, an integer is converted implicitly to another integer type, float or double, even if that is
# a narrowing conversion. Other conversions are explicit.
class Conversions:
    "Emits explicit conversions: intrinsics for half precision, casts for other types"

    def cast(self, code, type):
        "Emit `code` with a cast to `type`, unless it already has this type: `(int)x`"
        if code.type == type:
            return code
        if type == '__half':
            return self.to_half(code)
        if code.type == '__half':
            return self.cast(Code(f'__half2float({code.text})', PRIMARY, 'float'), type)
        return Code(f'({type}){parenthesize(code)}', UNARY, type)

    def to_half(self, code):
        "Emit the conversion of `code` to `__half`: `__float2half(x)`"
        self.headers.add('cuda_fp16.h')
        function = '__double2half' if code.type == 'double' else '__float2half'
        return Code(f'{function}({code.text})', PRIMARY, '__half')

    def as_type(self, expr, type):
        "Emit `expr` as a value of the C type `type`; a literal is emitted with this type: `0.5f`"
        if expr.op == 'const' and expr.type != BOOL:
            if type in ('float', 'double', '__half'):
                return self.float_literal(float(expr.value), type, getattr(expr, 'text', None))
            if expr.type in INTEGERS and type == 'unsigned int' and 0 <= expr.value < 2**32:
                return Code(f'{expr.value}u', PRIMARY, type)
            if expr.type in INTEGERS and type in ('long long', 'unsigned long long'):
                return self.integer_literal(int(expr.value), getattr(expr, 'text', None), type)
        if expr.op == 'select' and type in ('float', 'double'):
            return Code(*self.conditional(expr, type))
        return self.cast(self.emit(expr), type)

    def convert_for_assignment(self, expr, type, low_bits_only=False):
        "Emit `expr` for an assignment to the C type `type`, to which C may convert an integer implicitly"
        if type == 'bool':
            return self.condition(expr) if expr.type != BOOL else self.emit(expr)
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
        if expr.type in FLOATS or type in ('float', 'double', '__half'):
            if expr.op == 'const' and type not in ('float', 'double', '__half'):
                return (
                    self.integer_literal(int(np.float64(expr.value).astype(np.int64)))
                    if math.isfinite(expr.value)
                    else self.cast(self.emit(expr), type)
                )
            if expr.op == 'const' and expr.type in INTEGERS and type in ('float', 'double') and abs(expr.value) < 2**24:
                return self.integer_literal(int(expr.value), getattr(expr, 'text', None))
            if expr.type in INTEGERS and type in ('float', 'double'):
                return self.emit(expr)
            return (
                self.as_type(expr, type)
                if type != C_NAMES.get(expr.type) or expr.op in ('const', 'select')
                else self.emit(expr)
            )
        if expr.op == 'const' and expr.type == INT64:
            return self.integer_literal(
                _wrap(int(expr.value), type),
                getattr(expr, 'text', None) if _wrap(int(expr.value), type) == expr.value else None,
            )
        return self.emit(expr, low_bits_only)

    def _expr_cast(self, expr, low_bits_only):
        a, dtype = expr.args[0], expr.value
        type = {'weak': C_NAMES[expr.type]}.get(dtype, C_NAMES.get(dtype))
        if type is None:
            type = C_NAMES[expr.type]
        if expr.type == BOOL:
            return self.condition(a)
        if expr.type in FLOATS:
            if expr.type == FLOAT and a.type == DOUBLE and (float32_expr := self.in_float32(a)) is not None:
                return (
                    self.emit(float32_expr)
                    if self.emit(float32_expr).type == 'float'
                    else self.as_type(float32_expr, 'float')
                )
            if expr.type == FLOAT and dtype == 'float16':
                type = '__half'
            return self.as_type(a, type)
        code = (
            self.emit(a)
            if a.type in FLOATS
            else self.emit(a, low_bits_only and dtype in ('int64', 'uint64') or dtype not in ('int64', 'uint64'))
        )
        if code.type == '__half':
            code = self.cast(code, 'float')
        if a.type in INTEGERS and is_within(self.interval(a), dtype_interval(dtype)):
            return self.emit(a, low_bits_only)
        if (
            type == 'long long'
            and expr.type == INT64
            and a.type in FLOATS
            and (low_bits_only or is_within(self.interval(expr), INT32_RANGE))
            and not self.unit.all_int64
        ):
            type = 'int'
        return Code(f'({type}){parenthesize(code)}', UNARY, PROMOTED.get(type, type))


# A single addition, multiplication, division or square root of float32 values gives the same bits in float as in
# double, rounded to float32: a double has 53 significand bits, at least 2*24 + 2, so rounding twice does not change
# the result. So the operation is emitted in float.
class SinglePrecision:
    "Finds operations on float64 that can be computed in float with the same result"

    def exact_in_float32(self, expr):
        "Return an expression equal to `expr` if float32 provably represents its value exactly; else None"
        if expr.type in (FLOAT, HALF):
            return expr
        if (
            expr.op == 'const'
            and expr.type in (DOUBLE, INT64, UINT64)
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
        "Return a float32 expression equal to `expr`, computed in double and rounded to float32; None if none is known"
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
