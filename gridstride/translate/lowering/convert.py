"""Converts expressions to another type: to a float, an integer or a condition."""

import numpy as np

from ..tree import Expr, const
from ..types import BOOL, DOUBLE, FLOAT, HALF, INT64, FLOATS, WEAK, INTEGERS, is_number, value_type, wide_type


class NotANumber(TypeError):
    "An operand, the expression `args[0]`, is not a number"

    def description(self):
        "Return a description of the operand for a message: 'an array'"
        expr = self.args[0]
        if is_void_call(expr):
            return 'a call that returns nothing'
        return {'view': 'an array', 'tuple': 'a tuple'}.get(expr.op) or repr(expr.value)


def is_void_call(expr):
    "Return whether `expr` is a call that returns no value, such as a barrier"
    return expr.type is None and expr.op in ('call', 'device_call')


def is_number_like(expr):
    "Return whether `expr` is a number, or has no type yet and may become one"
    return (
        expr.op not in ('view', 'tuple', 'object')
        and not is_void_call(expr)
        and (expr.type is None or is_number(expr.type))
    )


def require_number(expr):
    "Return `expr` if it is a number; raise `NotANumber` for an array, a tuple, another object, or a void call"
    if not is_number_like(expr):
        raise NotANumber(expr)
    return expr


def bool_to_int(expr):
    "Return `expr`, converted to an integer if it is a bool"
    if expr.type != BOOL:
        return expr
    return const(int(expr.value)) if expr.op == 'const' else Expr('cast', INT64, (expr,), 'int64')


def widen(expr):
    "Return `expr`, converted to 64 bits if it is an integer"
    expr = bool_to_int(expr)
    return expr if expr.type not in INTEGERS else cast(wide_type(expr.type), expr)


def float_type(t, numba_types):
    "Return the type of a number of type `t` after conversion to a float"
    if t not in INTEGERS:
        return t
    return DOUBLE if numba_types else WEAK


def to_float(expr, numba_types):
    "Return `expr`, converted to a float if it is an integer"
    expr = require_number(expr)
    return expr if expr.type in FLOATS or expr.type is None else to_type(float_type(expr.type, numba_types), expr)


def to_type(t, expr):
    "Return `expr`, converted to the type `t`"
    if expr.type == t or t is None or expr.type is None:
        return expr
    if expr.op == 'const' and t in (FLOAT, DOUBLE, WEAK) and expr.type in (INT64, WEAK, DOUBLE):
        return Expr('const', t, value=float(expr.value))
    return Expr('cast', t, (expr,), t)


def to_half(expr):
    "Return `expr`, converted to a float16"
    return to_type(HALF, require_number(expr))


def to_condition(expr):
    "Return the truth value of `expr` as a bool"
    if expr.op == 'tuple':
        return Expr('const', BOOL, value=bool(expr.args))
    expr = require_number(expr)
    return expr if expr.type in (BOOL, None) else Expr('truth', BOOL, (expr,))


def cast(dtype, expr):
    "Return `expr`, converted to the type of an element of an array of `dtype`"
    t = value_type(dtype)
    if expr.type is None:
        return Expr('cast', t, (expr,), dtype)
    if t == expr.type:
        return expr
    if expr.op == 'const' and t in (FLOAT, DOUBLE) and expr.type in (INT64, WEAK, DOUBLE, BOOL):
        return Expr('const', t, value=float(expr.value))
    if expr.op == 'const' and t in INTEGERS and t != BOOL and expr.type in INTEGERS:
        return Expr('const', t, value=int(np.array(expr.value).astype(dtype)))
    return Expr('cast', t, (expr,), dtype)
