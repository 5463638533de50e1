"""Operators and casts with Numba's types, for all lanes at once.

Numba computes with 64-bit integers: unsigned ones if both operands are unsigned, so that `a[i]-b[i]` of two
`uint8` wraps; literals are `int64`. A loaded integer keeps its small type until it is an operand. For floats, NumPy has
the same rules as Numba. A variable has one type in Numba: if a branch assigns an integer of another type to it,
the variable has the wider type afterwards. A uint64 and a signed integer are compared as float64.
"""

import operator

import numpy as np

from ..diagnostics.errors import NotSimulated
from .lanes import truth

__all__ = [
    'AST_NAME_OF_OPERATOR',
    'binary',
    'logical_and',
    'cast',
    'compare',
    'contains',
    'logical_or',
    'fold',
    'join',
    'kind_of',
    'logical_not',
    'as_numba',
    'unary',
    'widen_integers',
]


def as_numba(v):
    "Convert a Python number to Numba's type for it; return any other value, and integers beyond 64 bits, unchanged"
    if isinstance(v, bool):
        return np.bool_(v)
    if isinstance(v, int):
        return np.int64(v) if -(2**63) <= v < 2**63 else np.uint64(v) if 0 < v < 2**64 else v
    if isinstance(v, float):
        return np.float64(v)
    if isinstance(v, complex):
        return np.complex128(v)
    return v


def widen_integers(v):
    """Widen small integers to the 64 bits that Numba computes with; unsigned ones stay unsigned.

    >>> widen_integers(np.int8(-1)).dtype
    dtype('int64')"""
    wide_type = dict(b=np.int64, i=np.int64, u=np.uint64).get(v.dtype.kind)
    return v if wide_type is None or v.dtype == wide_type else v.astype(wide_type)


def join(
    new_value,  # of a variable, assigned in a branch
    old_value,  # of the variable, before the branch
):
    "Return `new_value`, converted to the wider type if the two values have different integer types"
    new_type, old_type = getattr(new_value, 'dtype', None), getattr(old_value, 'dtype', None)
    if new_type is None or old_type is None or new_type == old_type:
        return new_value
    if new_type.kind not in 'biu' or old_type.kind not in 'biu':
        return new_value
    joined_type = np.promote_types(new_type, old_type)
    return new_value if joined_type == new_type or joined_type.kind == 'f' else new_value.astype(joined_type)


def cast(dtype, v=0):
    """Convert `v` to type `dtype`; integers wrap around.

    >>> int(cast(np.uint8, -1))
    255"""
    return np.asarray(v).astype(dtype)[()]


def kind_of(v):  # 'b', 'i', 'u', 'f' or 'c'
    "Return NumPy's kind code of a number"
    if type(v) is np.ndarray:
        return v.dtype.kind
    if type(v) is float:
        return 'f'
    return v.dtype.kind if hasattr(v, 'dtype') else np.asarray(v).dtype.kind


# Operators


def _power(a, b):
    if kind_of(a) in 'iu' and kind_of(b) in 'iu' and np.any(np.asarray(b) < 0):
        return np.float64(a) ** b
    if kind_of(a) == 'f' and kind_of(b) in 'biu':
        b = np.asarray(b).astype(a.dtype)  # x**2 has the type of x
    return a**b


def _to_64_bits(op, a, b):
    "Convert two integer operands to 64 bits: unsigned if both are (for a shift, if the first one is), else signed"
    dtype = np.uint64 if kind_of(a) == 'u' and (kind_of(b) == 'u' or 'Shift' in op) else np.int64
    return tuple(v if getattr(v, 'dtype', None) == dtype else np.asarray(v).astype(dtype)[()] for v in (a, b))


_BINARY = {
    'Add': operator.add,
    'Sub': operator.sub,
    'Mult': operator.mul,
    'Div': operator.truediv,
    'FloorDiv': operator.floordiv,
    'Mod': operator.mod,
    'Pow': _power,
    'LShift': operator.lshift,
    'RShift': operator.rshift,
    'BitAnd': operator.and_,
    'BitOr': operator.or_,
    'BitXor': operator.xor,
}
_WIDEST = np.int64, np.float64  # two scalars of one of these types need no conversion
AST_NAME_OF_OPERATOR = {f: op for op, f in _BINARY.items()} | {operator.pow: 'Pow'}  # operator.add -> 'Add', ...


def binary(
    op,  # as `ast` names it: 'Add', 'FloorDiv', ...
    a,
    b,
):
    "Compute `a op b` with Numba's types; raises `NotSimulated` if there is no such operator"
    if op not in _BINARY:
        raise NotSimulated(f'the operator {op}')
    if type(a) is type(b) and type(a) in _WIDEST:
        return _BINARY[op](a, b)
    kind_a, kind_b = kind_of(a), kind_of(b)
    is_logical = kind_a == kind_b == 'b' and op[:3] == 'Bit'
    if kind_a in 'biu' and kind_b in 'biu' and op != 'Div' and not is_logical:
        a, b = _to_64_bits(op, a, b)
    return _BINARY[op](a, b)


_UNARY = dict(USub=np.negative, UAdd=np.positive, Invert=np.invert)


def unary(op, a):
    "Compute `-a`, `+a` or `~a`; the first two treat a boolean as a number"
    if not (op == 'Invert' and kind_of(a) == 'b'):
        a = widen_integers(np.asarray(a))[()]
    return _UNARY[op](a)


def logical_not(a):
    "Compute `not a`"
    return not a if isinstance(a, bool) else np.logical_not(a)


def _are_bool(*values):
    return all(np.asarray(v).dtype == bool for v in values)


def logical_and(a, b):
    "Compute `a and b` if evaluating `b` has no side effects: per lane, `b` if `a` is true, else `a`"
    return np.logical_and(a, b) if _are_bool(a, b) else np.where(truth(a), b, a)[()]


def logical_or(a, b):
    "Compute `a or b` if evaluating `b` has no side effects: per lane, `a` if it is true, else `b`"
    return np.logical_or(a, b) if _are_bool(a, b) else np.where(truth(a), a, b)[()]


def fold(operation, items):
    """Combine items from the left: `f(f(items[0], items[1]), items[2])`, and so on.

    >>> fold(operator.sub, [9, 3, 1])
    5"""
    result = items[0]
    for item in items[1:]:
        result = operation(result, item)
    return result


# Comparisons

_COMPARISONS = dict(Lt=operator.lt, LtE=operator.le, Gt=operator.gt, GtE=operator.ge, Eq=operator.eq, NotEq=operator.ne)
_COMPARISONS |= dict(Is=operator.is_, IsNot=operator.is_not)
AST_NAME_OF_COMPARISON = {f: op for op, f in _COMPARISONS.items() if not op.startswith('Is')}  # operator.lt -> 'Lt'
EXACT_LIMIT = 2**53  # integers between -EXACT_LIMIT and EXACT_LIMIT are exact in float64
_UINT64 = np.dtype(np.uint64)


def _is_mixed(a, b):
    "Return whether one operand is a uint64 and the other a signed integer: Numba has no common integer type for them"
    if not all(isinstance(operand, (np.ndarray, np.generic)) for operand in (a, b)):
        return False
    return {(a.dtype.kind, a.dtype == _UINT64), (b.dtype.kind, b.dtype == _UINT64)} == {('u', True), ('i', False)}


def compare(
    op,  # as `ast` names it: 'Lt', 'GtE', ...
    a,
    b,
):
    "Compute `a op b`; a uint64 and a signed integer are compared as float64, as in Numba"
    type_a, type_b = getattr(a, 'dtype', None), getattr(b, 'dtype', None)
    if type_a is not type_b and (type_a == _UINT64 or type_b == _UINT64) and _is_mixed(a, b):
        a, b = a.astype(np.float64), b.astype(np.float64)
    return _COMPARISONS[op](a, b)


def contains(a, items):
    "Compute `a in items`; `items` must be a tuple"
    if not isinstance(items, tuple):
        raise NotSimulated(f'`in` requires a tuple; got a {type(items).__name__}')
    return fold(np.logical_or, [compare('Eq', a, item) for item in items]) if items else False
