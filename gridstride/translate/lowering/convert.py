"""What is a float, what is an integer, and what is true: expressions as values of another type."""

import numpy as np

from ..tree import E, const
from ..types import BOOL, DOUBLE, FLOAT, HALF, INT, REAL, WEAK, WHOLE, is_number, value_type, wide_type


class Misused(TypeError):
    "Something that is not a number (`args[0]`, its expression) where a number is needed"

    def what(self):
        "What it is, for a message"
        e = self.args[0]
        if is_nothing(e):
            return 'a call that gives nothing'
        return {'view': 'a whole array', 'tuple': 'a tuple'}.get(e.op) or repr(e.value)


def is_nothing(e):
    "Is `e` a call of what gives no value, such as a barrier?"
    return e.type is None and e.op in ('call', 'device')


def is_number_like(e):
    "Is `e` a number, or what may turn out to be one when its type is known?"
    return e.op not in ('view', 'tuple', 'object') and not is_nothing(e) and (e.type is None or is_number(e.type))


def need_number(e):
    "`e`, which must be a number; `Misused` if it is an array, a tuple, another object, or nothing"
    if not is_number_like(e):
        raise Misused(e)
    return e


def as_number(e):
    "`e` with a boolean as a number"
    if e.type != BOOL:
        return e
    return const(int(e.value)) if e.op == 'const' else E('cast', INT, (e,), 'int64')


def wide(e):
    "`e` with a small integer as one of 64 bits"
    e = as_number(e)
    return e if e.type not in WHOLE else cast(wide_type(e.type), e)


def real_type(t, doubles):
    "The type of a float that a number of type `t` becomes"
    if t not in WHOLE:
        return t
    return DOUBLE if doubles else WEAK


def real(e, doubles):
    "`e` as a float"
    e = need_number(e)
    return e if e.type in REAL or e.type is None else to(real_type(e.type, doubles), e)


def to(t, e):
    "`e` as a value of the type `t`"
    if e.type == t or t is None or e.type is None:
        return e
    if e.op == 'const' and t in (FLOAT, DOUBLE, WEAK) and e.type in (INT, WEAK, DOUBLE):
        return E('const', t, value=float(e.value))
    return E('cast', t, (e,), t)


def half(e):
    "`e` as a float16"
    return to(HALF, need_number(e))


def truth(e):
    "Is `e` true?"
    if e.op == 'tuple':
        return E('const', BOOL, value=bool(e.args))
    e = need_number(e)
    return e if e.type in (BOOL, None) else E('truth', BOOL, (e,))


def cast(dtype, e):
    "`e` as an element of an array of `dtype` holds it"
    t = value_type(dtype)
    if e.type is None:
        return E('cast', t, (e,), dtype)
    if t == e.type:
        return e
    if e.op == 'const' and t in (FLOAT, DOUBLE) and e.type in (INT, WEAK, DOUBLE, BOOL):
        return E('const', t, value=float(e.value))
    if e.op == 'const' and t in WHOLE and t != BOOL and e.type in WHOLE:
        return E('const', t, value=int(np.array(e.value).astype(dtype)))
    return E('cast', t, (e,), dtype)
