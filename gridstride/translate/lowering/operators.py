"""Lowers Python's operators, with the result types of NumPy and Numba.

The first parameter of each function is `fn`, the `Function` that is being lowered, which makes temporaries and errors;
the second is the `node` of Python's syntax tree, for the location of an error.
"""

import ast

from ..tree import Expr, Literal, constant_value, tuple_expr, walk
from ..types import (
    BOOL,
    DOUBLE,
    FLOAT,
    HALF,
    FLOATS,
    WEAK,
    INTEGERS,
    arithmetic_type,
    describe_type,
    join_types,
    wide_type,
)
from . import convert

# name of an operator in Python's `ast` -> operation of the tree
_BINARY = dict(
    Add='add',
    Sub='sub',
    Mult='mul',
    FloorDiv='floordiv',
    Mod='mod',
    LShift='shl',
    RShift='shr',
    BitAnd='and',
    BitOr='or',
    BitXor='xor',
)
# name of an operator in Python's `ast` -> its symbol in Python
SYMBOLS = dict(
    Add='+',
    Sub='-',
    Mult='*',
    Div='/',
    FloorDiv='//',
    Mod='%',
    Pow='**',
    LShift='<<',
    RShift='>>',
    BitAnd='&',
    BitOr='|',
    BitXor='^',
    MatMult='@',
)
UNARY_OPS = {ast.USub: 'neg', ast.UAdd: 'pos', ast.Invert: 'invert'}
COMPARISONS = {
    ast.Lt: '<',
    ast.LtE: '<=',
    ast.Gt: '>',
    ast.GtE: '>=',
    ast.Eq: '==',
    ast.NotEq: '!=',
    ast.Is: '==',
    ast.IsNot: '!=',
}
_EXPENSIVE_OPS = {'load', 'device_call', 'atomic', 'call', 'math', 'shuffle', 'let', 'floordiv', 'mod', 'pow'}


def is_cheap(expr):
    "Return whether it is cheap to compute `expr` twice"
    return not any(subexpr.op in _EXPENSIVE_OPS for subexpr in walk(expr))


def binary(fn, node, op, a, b):
    "Return `a op b`; `op` is the name of the operator in Python's `ast`, such as 'FloorDiv'"
    if op == 'Add' and a.op == b.op == 'tuple':
        return tuple_expr([*a.args, *b.args])
    if op == 'Mult' and a.op == 'tuple' and constant_value(b) is not None:
        return tuple_expr(list(a.args) * constant_value(b))
    _check_operands(fn, node, op, a, b)
    if None in (a.type, b.type):
        return Expr('unknown', None, (a, b))
    if op == 'MatMult':
        raise fn.error(node, 'a kernel cannot use @', 'Write the loop of the matrix product.')
    if op[:3] == 'Bit' or op[1:] == 'Shift':
        return _bitwise(fn, node, op, a, b)
    if op == 'Pow':
        return _power(fn, a, b)
    t = arithmetic_type(a.type, b.type, fn.numba_types)
    if op == 'Div':
        return Expr('truediv', DOUBLE if t in INTEGERS else t, (a, b))
    return _arithmetic(_BINARY[op], t, a, b)


def _arithmetic(op, t, a, b):
    if t in INTEGERS:
        a, b = convert.bool_to_int(a), convert.bool_to_int(b)
    if t != HALF:
        return Expr(op, t, (a, b))
    if op in ('floordiv', 'mod'):
        return convert.to_half(Expr(op, FLOAT, (a, b)))
    return Expr(op, t, (convert.to_type(t, a), convert.to_type(t, b)))


def _check_operands(fn, node, op, a, b):
    for expr in (a, b):
        if not convert.is_number_like(expr):
            hint = 'Compute with its elements, one per thread.' if expr.op == 'view' else ''
            raise fn.error(
                node, f'{convert.NotANumber(expr).description()} cannot be an operand of {SYMBOLS.get(op, op)}', hint
            )


def _bitwise(fn, node, op, a, b):
    if {a.type, b.type} & FLOATS:
        message = (
            f'the operands of {SYMBOLS[op]} must be integers; got {describe_type(a.type)} and {describe_type(b.type)}'
        )
        raise fn.error(node, message, 'Use int(...).')
    is_shift = op[:3] != 'Bit'
    if a.type == b.type == BOOL and not is_shift:
        return Expr(_BINARY[op], BOOL, (a, b))
    t = wide_type(a.type) if is_shift else arithmetic_type(a.type, b.type, fn.numba_types)
    return Expr(_BINARY[op], t, (convert.bool_to_int(a), convert.bool_to_int(b)))


def _power(fn, a, b):
    a, b = convert.bool_to_int(a), convert.bool_to_int(b)
    exponent, type = constant_value(b), arithmetic_type(a.type, b.type, fn.numba_types)
    if type in INTEGERS:
        if exponent is not None and exponent < 0:
            return Expr('math', DOUBLE if fn.numba_types else WEAK, (a, b), 'pow')
        return Expr('pow', type, (a, b))
    if b.type in INTEGERS and a.type in FLOATS:
        type = a.type
    if b.type in INTEGERS and exponent is not None and 1 <= exponent <= 4:
        return Expr('pow', type, (a, b))
    power = Expr('math', FLOAT if type == HALF else type, (a, b), 'pow')
    return convert.to_half(power) if type == HALF else power


def cmod(fn, a, b):
    "Return the remainder of two integers with the sign of the dividend, as C's `%`"
    result_type = arithmetic_type(a.type, b.type, fn.numba_types)
    return Expr('cmod', result_type, (convert.bool_to_int(a), convert.bool_to_int(b)))


def fma(fn, a, b, c):
    "Return `a*b + c`, rounded once"
    t = None
    for expr in (a, b, c):
        t = join_types(t, convert.float_type(convert.require_number(expr).type, fn.numba_types), fn.numba_types)
    return Expr('math', FLOAT if t == HALF else t, (a, b, c), 'fma')


def unary(fn, node, op, expr):
    "Return `op expr` for the operations neg, pos and invert"
    if expr.op in ('view', 'tuple', 'object'):
        raise fn.error(
            node,
            f'{describe_type(expr.type) if expr.type else repr(expr.value)} cannot be the operand of a unary operator',
            'Compute with its elements.',
        )
    if expr.type is None or op == 'pos':
        return expr
    if op == 'invert':
        return _invert(fn, node, expr)
    expr = convert.bool_to_int(expr)
    if expr.op == 'const':
        negative = Expr('const', expr.type, value=-expr.value)
        return Literal(negative, '-' + expr.text) if isinstance(expr, Literal) else negative
    return Expr('neg', wide_type(expr.type) if expr.type in INTEGERS else expr.type, (expr,))


def _invert(fn, node, expr):
    if expr.type in FLOATS:
        raise fn.error(node, f'the operand of ~ must be an integer; got {describe_type(expr.type)}', 'Use int(...).')
    return Expr('not', BOOL, (expr,)) if expr.type == BOOL else Expr('invert', wide_type(expr.type), (expr,))


def compare(fn, node, op, a, b):
    "Return the comparison `a op b`; None equals only None, and tuples are compared item by item"
    for operand, other in ((a, b), (b, a)):
        if operand.op == 'object' and operand.value is None:
            return Expr('const', BOOL, value=(other.op == 'object' and other.value is None) == (op == '=='))
    if a.op == b.op == 'tuple' and op in ('==', '!=') and len(a.args) == len(b.args):
        conditions = [compare(fn, node, '==', operand, other) for operand, other in zip(a.args, b.args)]
        is_equal = conjunction(conditions) if conditions else Expr('const', BOOL, value=True)
        return is_equal if op == '==' else Expr('not', BOOL, (is_equal,))
    _check_operands(fn, node, op, a, b)
    return Expr('cmp', BOOL, (a, b), op)


def conjunction(conditions):
    "Return the conjunction of conditions, `a and b and c`"
    result = conditions[0]
    for condition in conditions[1:]:
        result = Expr('land', BOOL, (result, condition))
    return result


def contains(fn, node, a, items, is_negated):
    "Return `a in items` for a tuple, `a not in items` if `is_negated`"
    if items.op != 'tuple':
        raise fn.error(node, '`in` requires a tuple', 'Write a loop.')
    if not items.args:
        return Expr('const', BOOL, value=is_negated)
    if not is_cheap(a):
        a = fn.temporary(node, 'item', a.type, a)
    condition = None
    for item in items.args:
        comparison = compare(fn, node, '!=' if is_negated else '==', a, item)
        condition = (
            comparison if condition is None else Expr('land' if is_negated else 'lor', BOOL, (condition, comparison))
        )
    return condition


def and_or(fn, node, op, a, b):
    "Return `a and b` (`op`: 'land') or `a or b` ('lor'): a bool if both are bools, else the value of one operand"
    a, b = convert.require_number(a), convert.require_number(b)
    if a.type == b.type == BOOL or None in (a.type, b.type):
        return Expr(op, BOOL if a.type == BOOL else None, (a, b))
    first_operand = None if is_cheap(a) else fn.new_variable(node, 'first', a.type, has_unique_name=True)
    return Expr('value_' + op, join_types(a.type, b.type, fn.numba_types), (a, b), first_operand)


def conditional(fn, node, test, a, b):
    "Return `a if test else b`; for tuples, a tuple of such expressions"
    if constant_value(test) is not None and test.op == 'const':
        return a if constant_value(test) else b
    if a.op == b.op == 'tuple' and len(a.args) == len(b.args):
        return tuple_expr([conditional(fn, node, test, x, y) for x, y in zip(a.args, b.args)])
    for expr in (a, b):
        if not convert.is_number_like(expr):
            operands = 'arrays' if expr.op == 'view' else 'items that are not scalars'
            message = f'a conditional expression cannot select among {operands} at run time'
            raise fn.error(node, message, 'Use an if statement, and compute the result in each branch.')
    return Expr('select', join_types(a.type, b.type, fn.numba_types), (convert.to_condition(test), a, b))


def extremum(fn, op, a, b):
    "Return the minimum or maximum of two values; `op`: 'min', 'max', 'fmin' or 'fmax'"
    a, b = convert.require_number(a), convert.require_number(b)
    if a.type == b.type == BOOL:
        return Expr('lor' if op[-3:] == 'max' else 'land', BOOL, (a, b))
    t = join_types(a.type, b.type, fn.numba_types)
    if t in INTEGERS:
        return Expr(op[-3:], t, (a, b))
    if t == HALF:
        return convert.to_half(Expr(op, FLOAT, (a, b)))
    return Expr(op, t, (a, b))
