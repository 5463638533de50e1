"""The intermediate representation between Python and C: expressions and statements with types."""

from collections import namedtuple
from types import SimpleNamespace

from .types import INT, INTEGERS, Array, is_unsigned


# An expression is an operation on other expressions. The operations (`operations.OPERATIONS`) have names such as `add`,
# `floordiv` and `load`; `const`, `global` (a number with a name) and `var` have no operands. The `value` is the part
# that is not an expression: the number, the variable, the memory.
class Expr:
    "An expression: the operation `op` on the expressions `args`, of the type `type`"

    __slots__ = 'op', 'type', 'args', 'value'

    def __init__(self, op, type, args=(), value=None):
        self.op = op
        self.type = type
        self.args = list(args)
        self.value = value

    def __repr__(self):
        return f"{self.op}{'' if self.value is None else f'[{self.value}]'}({', '.join(map(repr, self.args))})"


def walk_used(expr):
    "Yield `expr` and all expressions in it, without the arguments that a device function does not use"
    yield expr
    for n, a in enumerate(expr.args):
        p = expr.value.parameter_exprs[n] if expr.op == 'device' else None
        if (
            p is None
            or p.op == 'tuple'
            or p.op == 'var'
            and not p.value.dropped
            or p.op == 'view'
            and not p.value.memory.dropped
        ):
            yield from walk_used(a)


def const(v, type=INT):
    "Return the constant `v`: `const(1)`"
    return Expr('const', type, value=v)


ZERO, ONE = const(0), const(1)


def walk(expr):
    "Yield `expr` and all expressions in it"
    yield expr
    for a in expr.args:
        yield from walk(a)


def number(expr):
    "Return the Python number that an expression of constants is; None if it is not one"
    if expr.op == 'const':
        return expr.value
    if expr.op == 'global':
        return expr.value[1]
    f = _FOLD.get(expr.op)
    if f is None or expr.type not in INTEGERS:
        return None
    values = [number(a) for a in expr.args]
    try:
        v = None if None in values else f(*values)
    except (ZeroDivisionError, ValueError, OverflowError):
        return None
    return v if v is not None and (-(2**63) <= v < 2**63) and not (is_unsigned(expr.type) and v < 0) else None


_FOLD = dict(
    add=lambda a, b: a + b,
    sub=lambda a, b: a - b,
    mul=lambda a, b: a * b,
    floordiv=lambda a, b: a // b,
    mod=lambda a, b: a % b,
    neg=lambda a: -a,
    shl=lambda a, b: a << b,
    shr=lambda a, b: a >> b,
    pow=lambda a, b: a**b if b >= 0 else None,
    min=min,
    max=max,
    abs=abs,
)


def structurally_equal(a, b):
    "Return whether two expressions are structurally equal, so that they have equal values"
    return (
        a is b
        or a is not None
        and b is not None
        and a.op == b.op
        and a.type == b.type
        and a.value == b.value
        and len(a.args) == len(b.args)
        and all(map(structurally_equal, a.args, b.args))
    )


def add(a, b):
    "Return `a+b` for indices; 0 is left out"
    if number(a) == 0:
        return b
    return a if number(b) == 0 else Expr('add', INT, (a, b))


def mul(a, b):
    "Return `a*b` for indices; 1 is left out"
    if number(a) == 0 or number(b) == 0:
        return ZERO
    if number(a) == 1:
        return b
    return a if number(b) == 1 else Expr('mul', INT, (a, b))


def tuple_of(items):
    "Return a tuple of expressions"
    return Expr('tuple', tuple(item.type for item in items), items)


def array(view):
    "Return the expression of an array"
    return Expr('view', view.type, value=view)


class Literal(Expr):
    "A number with its spelling in the source"

    __slots__ = ('text',)

    def __init__(self, expr, text):
        super().__init__(expr.op, expr.type, value=expr.value)
        self.text = text


# The values of the operations `call` and `atomic`. parameter_types, result_type: of C; low,
# high: bounds of an integer result; count: the number of operands that are indices
Call = namedtuple(
    'Call', 'name parameter_types result_type has_side_effects low high', defaults=((), 'void', False, None, None)
)
Atomic = namedtuple('Atomic', 'op memory count')


# `Memory` is what C declares: a parameter, a shared or local array, a pointer. A `View` is an array as Python
# sees it: a memory, an offset, sizes and strides; slices and rows make new ones.
class Memory:
    """An array or pointer of C: a parameter, a shared, local or constant array, a variable that points into one.

    `space`: param, argument (of a device function), shared, dynamic, local, const or pointer; `dims`: the sizes of a C
    array, None for a pointer; `roots`: the memories that a pointer may point into.
    """

    def __init__(self, name, dtype, space, ndim, dims=None, roots=()):
        self.name = name
        self.dtype = dtype
        self.space = space
        self.ndim = ndim
        self.dims = dims
        self.roots = list(roots)
        self.written = self.used = self.dropped = False
        self.variable = self.example = self.values = self.view = None  # values: of a constant array; view: all of it

    def write(self):
        "Mark it, and the memories that it points into, as written"
        self.written = True
        for root in self.roots:
            if not root.written:
                root.write()

    def origins(self, seen=()):
        "Return the memories that this one may point into"
        if not self.roots:
            return [self]
        return [origin for root in self.roots if root not in seen for origin in root.origins((*seen, self))]

    @property
    def readonly(self):
        "Return whether it is never written"
        return any(
            root.space in ('param', 'argument') and not root.written or root.space == 'const' for root in self.origins()
        )

    def __repr__(self):
        return f'<{self.space} {self.name}>'


class View:
    """An array of the Python kernel: `memory` from `offset` on, with sizes and strides in elements.

    `lead`: the first indices, where the memory is a C array of more dimensions; `plain`: it is contiguous.
    """

    def __init__(self, memory, sizes, strides, offset=ZERO, lead=(), plain=False):
        self.memory = memory
        self.sizes = tuple(sizes)
        self.strides = tuple(strides)
        self.offset = offset
        self.lead = tuple(lead)
        self.plain = plain

    ndim = property(lambda self: len(self.sizes))
    type = property(lambda self: Array(self.memory.dtype, self.ndim))

    def parts(self):
        "Return the expressions for its address, sizes and strides"
        return [part for part in (*self.lead, self.offset, *self.sizes, *self.strides) if part is not None]

    @property
    def is_full_array(self):
        "Return whether it is a whole C array"
        return (
            self.memory.dims is not None
            and not self.lead
            and number(self.offset) == 0
            and self.ndim == self.memory.ndim
        )


def row_strides(sizes):
    "Return the strides of a contiguous array with the sizes `sizes`"
    res = [ONE] * len(sizes)
    for d in range(len(sizes) - 1, 0, -1):
        res[d - 1] = mul(sizes[d], res[d])
    return tuple(res)


def index(view, idx):
    "Return the index of the element `idx`: one expression for a pointer, one per dimension of a C array"
    m = view.memory
    if m.dims is not None and view.plain and number(view.offset) == 0 and len(view.lead) + view.ndim == m.ndim:
        return [*view.lead, *idx]
    if view.plain and all(s is not None for s in view.sizes[1:]):
        at = ZERO
        for n, (i, s) in enumerate(zip(idx, view.sizes)):
            at = add(mul(at, s), i) if n else i
    else:
        at = ZERO
        for i, s in zip(idx, view.strides):
            at = add(at, mul(i, s))
    return [add(view.offset, at)]


class Stmt(SimpleNamespace):
    "A statement: its `kind`, its line in the Python source, and the fields of its kind (`operations.STATEMENTS`)"

    def __init__(self, kind, line, **parts):
        super().__init__(kind=kind, line=line, **parts)


def blocks(stmt):
    "Return the lists of statements in the statement `stmt`"
    return [getattr(stmt, k) for k in ('body', 'orelse') if getattr(stmt, k, None)]


def expressions(stmt):
    "Yield the expressions in `stmt` itself, not in its blocks"
    for k in ('expr', 'test', 'start', 'stop', 'step', 'address'):
        if isinstance(getattr(stmt, k, None), Expr):
            yield getattr(stmt, k)
    for k in ('index', 'args'):
        yield from getattr(stmt, k, None) or ()
    for column in getattr(stmt, 'columns', ()):
        yield from column.items


def statements(block):
    "Yield all statements of a block, including nested ones"
    for s in block:
        yield s
        for b in blocks(s):
            yield from statements(b)


def function_expressions(f):
    "Yield all expressions of a function"
    seen = set()

    def down(e):
        if id(e) in seen:
            return
        seen.add(id(e))
        yield e
        for a in e.args:
            yield from down(a)
        if e.op == 'view':
            for part in e.value.parts():
                yield from down(part)
        if e.op == 'load' and hasattr(e.value, 'items'):
            for item in e.value.items:
                yield from down(item)

    for e in f.parameter_exprs:
        yield from down(e)
    for s in statements(f.body):
        for e in expressions(s):
            yield from down(e)


def functions(unit):
    "Return the kernel and the device functions that it calls, callers first"
    res = [unit.main]
    for f in res:
        for e in function_expressions(f):
            if e.op == 'device' and e.value not in res:
                res.append(e.value)
    return res
