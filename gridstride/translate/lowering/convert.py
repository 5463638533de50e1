"""Converts expressions to another type: to a float, an integer or a truth value."""

import numpy as np

from ..tree import Expr, const
from ..types import BOOL, DOUBLE, FLOAT, HALF, INT, REAL, WEAK, INTEGERS, is_number, value_type, wide_type


class Misused(TypeError):
    "Raised for what is not a number (`args[0]`, its expression) where a number is needed"

    def what(self):
        "Describe it, for a message"
        e = self.args[0]
        if is_nothing(e):
            return 'a call that returns nothing'
        return {'view': 'an array', 'tuple': 'a tuple'}.get(e.op) or repr(e.value)


def is_nothing(expr):
    "Return whether `expr` is a call that returns no value, such as a barrier"
    return expr.type is None and expr.op in ('call', 'device')


def is_number_like(expr):
    "Return whether `expr` is a number, or may be one when its type is known"
    return (
        expr.op not in ('view', 'tuple', 'object')
        and not is_nothing(expr)
        and (expr.type is None or is_number(expr.type))
    )


def need_number(expr):
    "Return `expr`, which must be a number; raise `Misused` for an array, a tuple, another object, or nothing"
    if not is_number_like(expr):
        raise Misused(expr)
    return expr


def as_number(expr):
    "Return `expr` with a boolean as an integer"
    if expr.type != BOOL:
        return expr
    return const(int(expr.value)) if expr.op == 'const' else Expr('cast', INT, (expr,), 'int64')


def widen(expr):
    "Return `expr` with a small integer as one of 64 bits"
    expr = as_number(expr)
    return expr if expr.type not in INTEGERS else cast(wide_type(expr.type), expr)


def real_type(t, doubles):
    "Return the type of the float that a number of type `t` becomes"
    if t not in INTEGERS:
        return t
    return DOUBLE if doubles else WEAK


def real(expr, doubles):
    "Return `expr` as a float"
    expr = need_number(expr)
    return expr if expr.type in REAL or expr.type is None else to(real_type(expr.type, doubles), expr)


def to(t, expr):
    "Return `expr` as a value of the type `t`"
    if expr.type == t or t is None or expr.type is None:
        return expr
    if expr.op == 'const' and t in (FLOAT, DOUBLE, WEAK) and expr.type in (INT, WEAK, DOUBLE):
        return Expr('const', t, value=float(expr.value))
    return Expr('cast', t, (expr,), t)


def half(expr):
    "Return `expr` as a float16"
    return to(HALF, need_number(expr))


def truth(expr):
    "Return the condition that `expr` is true"
    if expr.op == 'tuple':
        return Expr('const', BOOL, value=bool(expr.args))
    expr = need_number(expr)
    return expr if expr.type in (BOOL, None) else Expr('truth', BOOL, (expr,))


def cast(dtype, expr):
    "Return `expr` as an element of an array of `dtype` holds it"
    t = value_type(dtype)
    if expr.type is None:
        return Expr('cast', t, (expr,), dtype)
    if t == expr.type:
        return expr
    if expr.op == 'const' and t in (FLOAT, DOUBLE) and expr.type in (INT, WEAK, DOUBLE, BOOL):
        return Expr('const', t, value=float(expr.value))
    if expr.op == 'const' and t in INTEGERS and t != BOOL and expr.type in INTEGERS:
        return Expr('const', t, value=int(np.array(expr.value).astype(dtype)))
    return Expr('cast', t, (expr,), dtype)
