"""Verifies that a lowered kernel is well formed: every operation is known and has the right number and types of
operands, statements have the fields of their kind, and variables are assigned before they are read.

A violation is always a bug in lowering, not in the kernel. Tests call `verify`; `GRIDSTRIDE_VERIFY=1` enables it in
every translation.
"""

from . import operations
from .flow import Variable
from .tree import Expr, Buffer, Stmt, expressions, functions, statements, walk
from .types import BOOL, FLOATS, WEAK, INTEGERS, Array, is_number, join_types


class MalformedTree(AssertionError):
    "Raised for a tree that is not well formed; the message has the violation, the function and the line"


def verify(unit, types_are_final=False):
    """Raise `MalformedTree` unless all functions of a lowered unit are well formed.

    `types_are_final`: weakly typed floats have been resolved, so none may be left.
    """
    for function in functions(unit):
        for stmt in statements(function.body):
            try:
                _verify_statement(stmt, unit, types_are_final)
            except MalformedTree as e:
                raise MalformedTree(f'{function.name}, line {stmt.line}: {e}') from None
        _AssignmentOrder(function)


def _require(condition, message):
    "Raise `MalformedTree` unless the condition is true; a message that is slow to format is passed as a function"
    if not condition:
        raise MalformedTree(message() if callable(message) else message)


# The fields that every statement may have, besides those of its kind
_COMMON_FIELDS = {'kind', 'line', 'last_line', 'node', 'aug_op'}
# kind of a field in `operations.STATEMENTS` -> function that returns whether a value is of this kind
_IS_VALID_FIELD = dict(
    variable=lambda v: isinstance(v, Variable),
    buffer=lambda v: isinstance(v, Buffer),
    value=lambda v: isinstance(v, Expr) and v.op not in ('view', 'tuple', 'object'),
    address=lambda v: isinstance(v, Expr) and v.op == 'address',
    number=lambda v: isinstance(v, Expr) and is_number(v.type),
    integer=lambda v: isinstance(v, Expr) and v.type in INTEGERS,
    bool=lambda v: isinstance(v, Expr) and v.type == BOOL,
    scalars=lambda v: all(isinstance(e, Expr) and is_number(e.type) for e in v),
    integers=lambda v: all(isinstance(e, Expr) and e.type in INTEGERS for e in v),
    block=lambda v: all(isinstance(s, Stmt) for s in v),
    items=lambda v: all(isinstance(e, str) or isinstance(e, Expr) and is_number(e.type) for e in v),
    targets=lambda v: all(isinstance(c.var, Variable) and all(is_number(e.type) for e in c.items) for c in v),
    count=lambda v: isinstance(v, int) and v >= 0,
    flag=lambda v: isinstance(v, bool),
    text=lambda v: isinstance(v, str),
    symbol=lambda v: v is None or isinstance(v, str),
)


def _verify_statement(stmt, unit, types_are_final):
    "Raise `MalformedTree` unless a statement has the fields of its kind, and its expressions are well formed"
    _require(stmt.kind in operations.STATEMENTS, f'no statement is called {stmt.kind}')
    fields = operations.STATEMENTS[stmt.kind]
    for name, kind in fields.items():
        _require(hasattr(stmt, name) or kind.endswith('?'), f'{stmt.kind} has no {name}')
        value = getattr(stmt, name, None)
        is_valid = not hasattr(stmt, name) or _IS_VALID_FIELD[kind.rstrip('?')](value)
        _require(is_valid, lambda: f'{name} of {stmt.kind} is {value!r}; expected {kind}')
    for name in vars(stmt).keys() - _COMMON_FIELDS - fields.keys():
        raise MalformedTree(f'{stmt.kind} has an unknown field {name}')
    if stmt.kind == 'assign' and not types_are_final:  # a resolved Python float may be wider than its variable
        value_type = stmt.expr.type
        common_type = join_types(stmt.var.type, value_type, unit.numba_types)
        _require(common_type == stmt.var.type, f'a {value_type} is assigned to {stmt.var}')
    for expr in expressions(stmt):
        for subexpr in walk(expr):
            verify_expression(subexpr, types_are_final)


# Expressions
def _is_of_kind(kind, t):
    "Return whether the type `t` is of a kind of `operations.Operation`"
    if kind == 'number':
        return is_number(t)
    if kind == 'array':
        return isinstance(t, Array)
    if kind == 'tuple':
        return isinstance(t, tuple) and not isinstance(t, Array)
    return {'integer': t in INTEGERS, 'float': t in FLOATS, 'bool': t == BOOL, 'void': t is None, 'any': True}.get(
        kind, False
    )


def verify_expression(expr, types_are_final=False):
    "Raise `MalformedTree` unless `expr` satisfies its row of `OPERATIONS`; check only the types of its operands"
    _require(expr.op in operations.OPERATIONS, f'no operation is called {expr.op}')
    operation = operations.OPERATIONS[expr.op]
    _require(
        any(_is_of_kind(k, expr.type) for k in operation.result_kinds.split()),
        lambda: f'{expr!r} is of type {expr.type}; expected {operation.result_kinds}',
    )
    _require(not types_are_final or expr.type != WEAK, lambda: f'the type of {expr!r} is not resolved')
    kinds = _operand_kinds(operation.operand_kinds.split(), len(expr.args))
    _require(
        kinds is not None,
        lambda: f'{expr!r} has {len(expr.args)} operands; expected {operation.operand_kinds or "none"}',
    )
    for kind, operand in zip(kinds, expr.args):
        kind = kind if kind != 'same' else 'integer' if expr.type in INTEGERS else 'number'
        is_valid = _is_of_kind(kind, operand.type)
        _require(is_valid, lambda: f'{operand!r} in {expr!r} is of type {operand.type}; expected {kind}')
    _require(isinstance(expr.value, operation.value or type(None)), lambda: f'{expr.op} has the value {expr.value!r}')
    _require(operation.rule(expr), lambda: f'{expr!r} violates the rule of {expr.op}')


def _operand_kinds(kinds, n):
    "Return the kinds of `n` operands; None if the operation cannot have `n` operands"
    if kinds and kinds[-1].endswith('*'):
        kinds = kinds[:-1] + [kinds[-1][:-1]] * (n - len(kinds) + 1)
    elif kinds and kinds[-1].endswith('?'):
        kinds = [*kinds[:-1], kinds[-1][:-1]][:n] if n >= len(kinds) - 1 else kinds
    return kinds if len(kinds) == n else None


class _AssignmentOrder:
    """Visits the statements of a function; raises `MalformedTree` for a variable that is read before it is assigned.

    `defined_values`: the variables and buffers that have a value on every path to the current statement; None in
    unreachable code. A variable that the Python source itself may read before its assignment
    (`is_maybe_uninitialized`) is not checked.
    """

    def __init__(self, function):
        self.function = function
        self.defined_values = set()
        self.break_states = []
        for expr in function.parameter_exprs:
            self.defined_values |= {subexpr.value for subexpr in walk(expr) if subexpr.op == 'var'}
        self.visit_block(function.body)

    def visit_block(self, body):
        "Visit the statements of a block, up to one after which code is unreachable"
        for s in body:
            if self.defined_values is None:
                return
            for expr in expressions(s):
                self.check_reads(expr, s)
            _VISIT_METHODS.get(s.kind, _AssignmentOrder.visit_simple)(self, s)

    def check_reads(self, expr, stmt):
        "Check the variables and buffers that an expression reads; add the variables that it assigns"
        for a in expr.args:
            self.check_reads(a, stmt)
        if expr.op == 'let' or expr.op in ('value_land', 'value_lor') and expr.value is not None:
            self.defined_values.add(expr.value)
        if expr.op == 'var':
            _require(
                expr.value in self.defined_values or expr.value.is_maybe_uninitialized,
                f'{self.location(stmt)}: {expr.value} is read before it is assigned',
            )
        if expr.op in ('load', 'address'):
            self.check_buffer(expr.value, stmt)
        if expr.op in ('atomic', 'view'):
            self.check_buffer(expr.value.buffer, stmt)

    def check_buffer(self, buffer, stmt):
        "Check that a buffer is declared, or that a pointer is assigned"
        if buffer.space in ('shared', 'local', 'dynamic'):
            _require(buffer in self.defined_values, f'{self.location(stmt)}: {buffer} is used before it is declared')
        if buffer.space == 'pointer':
            has_value = buffer.variable in self.defined_values or buffer.variable.is_maybe_uninitialized
            _require(has_value, f'{self.location(stmt)}: {buffer} is used before it is assigned')

    def location(self, stmt):
        return f'{self.function.name}, line {stmt.line}'

    def visit_simple(self, stmt):
        if getattr(stmt, 'var', None) is not None:
            self.defined_values.add(stmt.var)
        if stmt.kind == 'alloc':
            self.defined_values.add(stmt.buffer)
        elif getattr(stmt, 'buffer', None) is not None:
            self.check_buffer(stmt.buffer, stmt)

    def visit_jump(self, stmt):
        "Visit `return` or `continue`: the code after it is unreachable"
        self.defined_values = None

    def visit_break(self, stmt):
        self.break_states[-1].append(self.defined_values)
        self.defined_values = None

    def visit_if(self, stmt):
        defined_before = self.defined_values
        self.defined_values = set(defined_before)
        self.visit_block(stmt.body)
        defined_after_body, self.defined_values = self.defined_values, set(defined_before)
        self.visit_block(stmt.orelse)
        self.defined_values = _join_states(defined_after_body, self.defined_values)

    def visit_loop(self, stmt):
        defined_before, self.defined_values = self.defined_values, set(self.defined_values)
        self.defined_values |= {stmt.var} if stmt.kind == 'for' else {c.var for c in getattr(stmt, 'targets', ())}
        self.break_states.append([])
        self.visit_block(stmt.body)
        self.defined_values, break_states = defined_before, self.break_states.pop()
        if stmt.kind == 'while' and _is_true(stmt.test):
            self.defined_values = None
            for state in break_states:
                self.defined_values = _join_states(self.defined_values, state)


_VISIT_METHODS = {
    'return': _AssignmentOrder.visit_jump,
    'break': _AssignmentOrder.visit_break,
    'continue': _AssignmentOrder.visit_jump,
    'if': _AssignmentOrder.visit_if,
    'for': _AssignmentOrder.visit_loop,
    'while': _AssignmentOrder.visit_loop,
    'for_tuple': _AssignmentOrder.visit_loop,
}


def _join_states(a, b):
    "Return the variables that are defined on both of two paths that meet; None is an unreachable path"
    if a is None or b is None:
        return b if a is None else a
    return a & b


def _is_true(expr):
    return expr.op == 'const' and bool(expr.value) or expr.op == 'truth' and _is_true(expr.args[0])
