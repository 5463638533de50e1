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
            return 'a call that gives nothing'
        return {'view': 'an array', 'tuple': 'a tuple'}.get(e.op) or repr(e.value)


def is_nothing(e):
    "Return whether `e` is a call that returns no value, such as a barrier"
    return e.type is None and e.op in ('call', 'device')


def is_number_like(e):
    "Return whether `e` is a number, or may be one when its type is known"
    return e.op not in ('view', 'tuple', 'object') and not is_nothing(e) and (e.type is None or is_number(e.type))


def need_number(e):
    "Return `e`, which must be a number; raise `Misused` for an array, a tuple, another object, or nothing"
    if not is_number_like(e):
        raise Misused(e)
    return e


def as_number(e):
    "Return `e` with a boolean as an integer"
    if e.type != BOOL:
        return e
    return const(int(e.value)) if e.op == 'const' else Expr('cast', INT, (e,), 'int64')


def wide(e):
    "Return `e` with a small integer as one of 64 bits"
    e = as_number(e)
    return e if e.type not in INTEGERS else cast(wide_type(e.type), e)


def real_type(t, doubles):
    "Return the type of the float that a number of type `t` becomes"
    if t not in INTEGERS:
        return t
    return DOUBLE if doubles else WEAK


def real(e, doubles):
    "Return `e` as a float"
    e = need_number(e)
    return e if e.type in REAL or e.type is None else to(real_type(e.type, doubles), e)


def to(t, e):
    "Return `e` as a value of the type `t`"
    if e.type == t or t is None or e.type is None:
        return e
    if e.op == 'const' and t in (FLOAT, DOUBLE, WEAK) and e.type in (INT, WEAK, DOUBLE):
        return Expr('const', t, value=float(e.value))
    return Expr('cast', t, (e,), t)


def half(e):
    "Return `e` as a float16"
    return to(HALF, need_number(e))


def truth(e):
    "Return the condition that `e` is true"
    if e.op == 'tuple':
        return Expr('const', BOOL, value=bool(e.args))
    e = need_number(e)
    return e if e.type in (BOOL, None) else Expr('truth', BOOL, (e,))


def cast(dtype, e):
    "Return `e` as an element of an array of `dtype` holds it"
    t = value_type(dtype)
    if e.type is None:
        return Expr('cast', t, (e,), dtype)
    if t == e.type:
        return e
    if e.op == 'const' and t in (FLOAT, DOUBLE) and e.type in (INT, WEAK, DOUBLE, BOOL):
        return Expr('const', t, value=float(e.value))
    if e.op == 'const' and t in INTEGERS and t != BOOL and e.type in INTEGERS:
        return Expr('const', t, value=int(np.array(e.value).astype(dtype)))
    return Expr('cast', t, (e,), dtype)
