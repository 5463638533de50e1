"""Verifies that a lowered kernel is well formed: every operation is known, with its number and types of operands,
statements of the shape of their kind, and variables that have a value before they are read.

Nothing of this can be wrong in a kernel; it is a check of what lowers it, for tests, and for every translation
where the environment has `GRIDSTRIDE_VERIFY=1`.
"""

from . import operations
from .flow import Variable
from .tree import Expr, Memory, Stmt, expressions, functions, statements, walk
from .types import BOOL, REAL, WEAK, INTEGERS, Array, is_number, join_types


class Malformed(AssertionError):
    "Raised for a tree that is not well formed: what is wrong, in which function, on which line"


def verify(unit, settled=False):
    """Raise `Malformed` if something is wrong with the functions of a unit that is lowered.

    `settled`: every value has its final type, too, so that no Python float is left that has met nothing else.
    """
    for f in functions(unit):
        for s in statements(f.body):
            try:
                _verify_statement(s, unit, settled)
            except Malformed as e:
                raise Malformed(f'{f.name}, line {s.line}: {e}') from None
        _Order(f)


def _need(holds, what):  # a text, or what makes it: that of a large expression takes longer than all that is asked
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


def _verify_statement(s, unit, settled):
    _need(s.kind in operations.STATEMENTS, f'no statement is called {s.kind}')
    fields = operations.STATEMENTS[s.kind]
    for k, kind in fields.items():
        _need(hasattr(s, k) or kind.endswith('?'), f'{s.kind} has no {k}')
        v = getattr(s, k, None)
        fits = not hasattr(s, k) or _FIELDS[kind.rstrip('?')](v)
        _need(fits, lambda: f'{k} of {s.kind} is {v!r}, and no {kind}')
    for k in vars(s).keys() - _COMMON - fields.keys():
        raise Malformed(f'{s.kind} has a {k}')
    if s.kind == 'assign' and not settled:  # a Python float may settle wider than what it is assigned to
        t = s.expr.type
        _need(join_types(s.var.type, t, unit.doubles) == s.var.type, f'{s.var} gets a {t}')
    for e in expressions(s):
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


def verify_expression(e, settled=False):
    "Raise `Malformed` unless `e` is as the table of operations has it; of its operands only the types count"
    _need(e.op in operations.OPERATIONS, f'no operation is called {e.op}')
    operation = operations.OPERATIONS[e.op]
    _need(
        any(_is_of(k, e.type) for k in operation.gives.split()),
        lambda: f'{e!r} is of type {e.type}, and gives {operation.gives}',
    )
    _need(not settled or e.type != WEAK, lambda: f'{e!r} has no precision yet')
    kinds = _expect(operation.takes.split(), len(e.args))
    _need(kinds is not None, lambda: f'{e!r} has {len(e.args)} operands, and takes {operation.takes or "none"}')
    for k, a in zip(kinds, e.args):
        k = k if k != 'same' else 'integer' if e.type in INTEGERS else 'number'
        _need(_is_of(k, a.type), lambda: f'{a!r} in {e!r} is of type {a.type}, and no {k}')
    _need(isinstance(e.value, operation.value or type(None)), lambda: f'{e.op} has the value {e.value!r}')
    _need(operation.rule(e), lambda: f'{e!r} is not as {e.op} must be')


def _expect(kinds, n):
    "Return the kinds of `n` operands; None if there cannot be so many"
    if kinds and kinds[-1].endswith('*'):
        kinds = kinds[:-1] + [kinds[-1][:-1]] * (n - len(kinds) + 1)
    elif kinds and kinds[-1].endswith('?'):
        kinds = [*kinds[:-1], kinds[-1][:-1]][:n] if n >= len(kinds) - 1 else kinds
    return kinds if len(kinds) == n else None


class _Order:
    """Follows a function's statements, and raises `Malformed` for a variable that is read before it is assigned.

    `there`: the variables and memories that have a value on every path to the current statement; None in
    unreachable code. A variable that Python, too, may read before it has a value (`undefined`) is not looked at.
    """

    def __init__(self, f):
        self.f = f
        self.there = set()
        self.broken = []
        for e in f.parameter_exprs:
            self.there |= {part.value for part in walk(e) if part.op == 'var'}
        self.block(f.body)

    def block(self, body):
        for s in body:
            if self.there is None:
                return
            for e in expressions(s):
                self.read(e, s)
            _RULES.get(s.kind, _Order.plain)(self, s)

    def read(self, e, s):
        for a in e.args:
            self.read(a, s)
        if e.op == 'let' or e.op in ('value_land', 'value_lor') and e.value is not None:
            self.there.add(e.value)
        if e.op == 'var':
            _need(e.value in self.there or e.value.undefined, f'{self.at(s)}: {e.value} is read, and has no value')
        if e.op in ('load', 'address'):
            self.use(e.value, s)
        if e.op in ('atomic', 'view'):
            self.use(e.value.memory, s)

    def use(self, m, s):
        if m.space in ('shared', 'local', 'dynamic'):
            _need(m in self.there, f'{self.at(s)}: {m} is used, and is not declared')
        if m.space == 'pointer':
            known = m.variable in self.there or m.variable.undefined
            _need(known, f'{self.at(s)}: {m} is used, and points nowhere')

    def at(self, s):
        return f'{self.f.name}, line {s.line}'

    def plain(self, s):
        if getattr(s, 'var', None) is not None:
            self.there.add(s.var)
        if s.kind == 'alloc':
            self.there.add(s.memory)
        elif getattr(s, 'memory', None) is not None:
            self.use(s.memory, s)

    def leave(self, s):
        self.there = None

    def leave_loop(self, s):
        self.broken[-1].append(self.there)
        self.there = None

    def branch(self, s):
        before = self.there
        self.there = set(before)
        self.block(s.body)
        yes, self.there = self.there, set(before)
        self.block(s.orelse)
        self.there = _on_both(yes, self.there)

    def loop(self, s):
        before, self.there = self.there, set(self.there)
        self.there |= {s.var} if s.kind == 'for' else {c.var for c in getattr(s, 'columns', ())}
        self.broken.append([])
        self.block(s.body)
        self.there, ways = before, self.broken.pop()
        if s.kind == 'while' and _is_true(s.test):
            self.there = None
            for w in ways:
                self.there = _on_both(self.there, w)


_RULES = {
    'return': _Order.leave,
    'break': _Order.leave_loop,
    'continue': _Order.leave,
    'if': _Order.branch,
    'for': _Order.loop,
    'while': _Order.loop,
    'each': _Order.loop,
}


def _on_both(a, b):
    if a is None or b is None:
        return b if a is None else a
    return a & b


def _is_true(e):
    return e.op == 'const' and bool(e.value) or e.op == 'truth' and _is_true(e.args[0])
