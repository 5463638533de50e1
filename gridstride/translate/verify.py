"""Verifies that a lowered kernel is well formed: every operation is known and has the right number and types of
operands, statements have the fields of their kind, and variables are assigned before they are read.

No kernel can violate this; it checks the lowering: in tests, and in every translation if `GRIDSTRIDE_VERIFY=1` is set.
"""

from . import operations
from .flow import Variable
from .tree import Expr, Memory, Stmt, expressions, functions, statements, walk
from .types import BOOL, REAL, WEAK, INTEGERS, Array, is_number, join_types


class Malformed(AssertionError):
    "Raised for a tree that is not well formed: the violation, the function and the line"


def verify(unit, settled=False):
    """Raise `Malformed` if something is wrong with the functions of a unit that is lowered.

    `settled`: every value must have its final type, so that no weakly typed float is left.
    """
    for f in functions(unit):
        for s in statements(f.body):
            try:
                _verify_statement(s, unit, settled)
            except Malformed as e:
                raise Malformed(f'{f.name}, line {s.line}: {e}') from None
        _Order(f)


def _require(holds, what):  # what: a text, or a function that makes it, because formatting a large expression is slow
    if not holds:
        raise Malformed(what() if callable(what) else what)


# Statements: the fields that belong to their kind, and no others
_COMMON = {'kind', 'line', 'last', 'node', 'aug'}
_FIELDS = dict(
    variable=lambda v: isinstance(v, Variable),
    memory=lambda v: isinstance(v, Memory),
    value=lambda v: isinstance(v, Expr) and v.op not in ('view', 'tuple', 'object'),
    address=lambda v: isinstance(v, Expr) and v.op == 'address',
    number=lambda v: isinstance(v, Expr) and is_number(v.type),
    integer=lambda v: isinstance(v, Expr) and v.type in INTEGERS,
    bool=lambda v: isinstance(v, Expr) and v.type == BOOL,
    scalars=lambda v: all(isinstance(e, Expr) and is_number(e.type) for e in v),
    integers=lambda v: all(isinstance(e, Expr) and e.type in INTEGERS for e in v),
    block=lambda v: all(isinstance(s, Stmt) for s in v),
    items=lambda v: all(isinstance(e, str) or isinstance(e, Expr) and is_number(e.type) for e in v),
    columns=lambda v: all(isinstance(c.var, Variable) and all(is_number(e.type) for e in c.items) for c in v),
    count=lambda v: isinstance(v, int) and v >= 0,
    flag=lambda v: isinstance(v, bool),
    text=lambda v: isinstance(v, str),
    sign=lambda v: v is None or isinstance(v, str),
)


def _verify_statement(stmt, unit, settled):
    _require(stmt.kind in operations.STATEMENTS, f'no statement is called {stmt.kind}')
    fields = operations.STATEMENTS[stmt.kind]
    for k, kind in fields.items():
        _require(hasattr(stmt, k) or kind.endswith('?'), f'{stmt.kind} has no {k}')
        v = getattr(stmt, k, None)
        fits = not hasattr(stmt, k) or _FIELDS[kind.rstrip('?')](v)
        _require(fits, lambda: f'{k} of {stmt.kind} must be a {kind}; got {v!r}')
    for k in vars(stmt).keys() - _COMMON - fields.keys():
        raise Malformed(f'{stmt.kind} must have no {k}')
    if stmt.kind == 'assign' and not settled:  # a Python float may settle wider than what it is assigned to
        t = stmt.expr.type
        _require(join_types(stmt.var.type, t, unit.doubles) == stmt.var.type, f'{stmt.var} cannot hold a {t}')
    for e in expressions(stmt):
        for part in walk(e):
            verify_expression(part, settled)


# Expressions
def _is_of(kind, t):
    "Return whether the type `t` is of the kind"
    if kind == 'number':
        return is_number(t)
    if kind == 'array':
        return isinstance(t, Array)
    if kind == 'tuple':
        return isinstance(t, tuple) and not isinstance(t, Array)
    return {'integer': t in INTEGERS, 'real': t in REAL, 'bool': t == BOOL, 'void': t is None, 'any': True}.get(
        kind, False
    )


def verify_expression(expr, settled=False):
    "Raise `Malformed` unless `expr` satisfies the table of operations; of its operands only the types are checked"
    _require(expr.op in operations.OPERATIONS, f'no operation is called {expr.op}')
    operation = operations.OPERATIONS[expr.op]
    _require(
        any(_is_of(k, expr.type) for k in operation.result_kinds.split()),
        lambda: f'{expr!r} is of type {expr.type}; expected {operation.result_kinds}',
    )
    _require(not settled or expr.type != WEAK, lambda: f'{expr!r} has no precision yet')
    kinds = _operand_kinds(operation.operand_kinds.split(), len(expr.args))
    _require(
        kinds is not None,
        lambda: f'{expr!r} has {len(expr.args)} operands; expected {operation.operand_kinds or "none"}',
    )
    for k, a in zip(kinds, expr.args):
        k = k if k != 'same' else 'integer' if expr.type in INTEGERS else 'number'
        _require(_is_of(k, a.type), lambda: f'{a!r} in {expr!r} is of type {a.type}; expected {k}')
    fits = isinstance(expr.value, operation.value or type(None))
    _require(fits, lambda: f'the value of {expr.op} has the wrong type: {expr.value!r}')
    _require(operation.rule(expr), lambda: f'{expr!r} violates the rule of {expr.op}')


def _operand_kinds(kinds, n):
    "Return the kinds of `n` operands; None if there cannot be so many"
    if kinds and kinds[-1].endswith('*'):
        kinds = kinds[:-1] + [kinds[-1][:-1]] * (n - len(kinds) + 1)
    elif kinds and kinds[-1].endswith('?'):
        kinds = [*kinds[:-1], kinds[-1][:-1]][:n] if n >= len(kinds) - 1 else kinds
    return kinds if len(kinds) == n else None


class _Order:
    """Follows a function's statements, and raises `Malformed` for a variable that is read before it is assigned.

    `defined`: the variables and memories that have a value on every path to the current statement; None in
    unreachable code. A variable that Python, too, may read before it has a value (`undefined`) is not checked.
    """

    def __init__(self, function):
        self.f = function
        self.defined = set()
        self.break_states = []
        for e in function.parameter_exprs:
            self.defined |= {part.value for part in walk(e) if part.op == 'var'}
        self.block(function.body)

    def block(self, body):
        for s in body:
            if self.defined is None:
                return
            for e in expressions(s):
                self.read(e, s)
            _RULES.get(s.kind, _Order.plain)(self, s)

    def read(self, expr, stmt):
        for a in expr.args:
            self.read(a, stmt)
        if expr.op == 'let' or expr.op in ('value_land', 'value_lor') and expr.value is not None:
            self.defined.add(expr.value)
        if expr.op == 'var':
            _require(
                expr.value in self.defined or expr.value.maybe_uninitialized,
                f'{self.at(stmt)}: {expr.value} is read before it has a value',
            )
        if expr.op in ('load', 'address'):
            self.use(expr.value, stmt)
        if expr.op in ('atomic', 'view'):
            self.use(expr.value.memory, stmt)

    def use(self, memory, stmt):
        if memory.space in ('shared', 'local', 'dynamic'):
            _require(memory in self.defined, f'{self.at(stmt)}: {memory} is used, but not declared')
        if memory.space == 'pointer':
            known = memory.variable in self.defined or memory.variable.maybe_uninitialized
            _require(known, f'{self.at(stmt)}: {memory} is used before it points to an array')

    def at(self, stmt):
        return f'{self.f.name}, line {stmt.line}'

    def plain(self, stmt):
        if getattr(stmt, 'var', None) is not None:
            self.defined.add(stmt.var)
        if stmt.kind == 'alloc':
            self.defined.add(stmt.memory)
        elif getattr(stmt, 'memory', None) is not None:
            self.use(stmt.memory, stmt)

    def leave(self, stmt):
        self.defined = None

    def leave_loop(self, stmt):
        self.break_states[-1].append(self.defined)
        self.defined = None

    def branch(self, stmt):
        before = self.defined
        self.defined = set(before)
        self.block(stmt.body)
        yes, self.defined = self.defined, set(before)
        self.block(stmt.orelse)
        self.defined = _join_states(yes, self.defined)

    def loop(self, stmt):
        before, self.defined = self.defined, set(self.defined)
        self.defined |= {stmt.var} if stmt.kind == 'for' else {c.var for c in getattr(stmt, 'columns', ())}
        self.break_states.append([])
        self.block(stmt.body)
        self.defined, break_states = before, self.break_states.pop()
        if stmt.kind == 'while' and _is_true(stmt.test):
            self.defined = None
            for state in break_states:
                self.defined = _join_states(self.defined, state)


_RULES = {
    'return': _Order.leave,
    'break': _Order.leave_loop,
    'continue': _Order.leave,
    'if': _Order.branch,
    'for': _Order.loop,
    'while': _Order.loop,
    'each': _Order.loop,
}


def _join_states(a, b):
    if a is None or b is None:
        return b if a is None else a
    return a & b


def _is_true(expr):
    return expr.op == 'const' and bool(expr.value) or expr.op == 'truth' and _is_true(expr.args[0])
