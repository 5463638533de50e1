"""The intermediate representation between Python and C: expressions and statements with types."""

from collections import namedtuple
from types import SimpleNamespace

from .types import INT64, INTEGERS, Array, is_unsigned


# An expression is an operation on other expressions. The operations (`operations.OPERATIONS`) have names such as `add`,
# `floordiv` and `load`; `const`, `global` (a named constant) and `var` have no operands. `value` holds the properties
# of an operation besides its operands: the constant of a `const`, the variable of a `var`, the buffer of a `load`.
class Expr:
    "An expression of the type `type`: the operation `op` on the operands `args`"

    __slots__ = 'op', 'type', 'args', 'value'

    def __init__(self, op, type, args=(), value=None):
        self.op = op
        self.type = type
        self.args = list(args)
        self.value = value

    def __repr__(self):
        return f"{self.op}{'' if self.value is None else f'[{self.value}]'}({', '.join(map(repr, self.args))})"


def walk_used(expr):
    "Yield `expr` and all expressions in it, except arguments for unused parameters, which the C function lacks"
    yield expr
    for n, operand in enumerate(expr.args):
        parameter = expr.value.parameter_exprs[n] if expr.op == 'device_call' else None
        if (
            parameter is None
            or parameter.op == 'tuple'
            or parameter.op == 'var'
            and not parameter.value.is_dropped
            or parameter.op == 'view'
            and not parameter.value.buffer.is_dropped
        ):
            yield from walk_used(operand)


def const(value, type=INT64):
    "Return the expression of a constant: `const(1)`"
    return Expr('const', type, value=value)


ZERO, ONE = const(0), const(1)


def walk(expr):
    "Yield `expr` and all expressions in it"
    yield expr
    for a in expr.args:
        yield from walk(a)


def constant_value(expr):
    "Return the value of a constant expression as a Python number; None if it is not constant"
    if expr.op == 'const':
        return expr.value
    if expr.op == 'global':
        return expr.value[1]
    operation = _CONSTANT_OPERATIONS.get(expr.op)
    if operation is None or expr.type not in INTEGERS:
        return None
    values = [constant_value(a) for a in expr.args]
    try:
        result = None if None in values else operation(*values)
    except (ZeroDivisionError, ValueError, OverflowError):
        return None
    return (
        result
        if result is not None and (-(2**63) <= result < 2**63) and not (is_unsigned(expr.type) and result < 0)
        else None
    )


_CONSTANT_OPERATIONS = dict(
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


def is_structurally_equal(a, b):
    "Return whether two expressions are structurally equal, so that they have equal values"
    return (
        a is b
        or a is not None
        and b is not None
        and a.op == b.op
        and a.type == b.type
        and a.value == b.value
        and len(a.args) == len(b.args)
        and all(map(is_structurally_equal, a.args, b.args))
    )


def add(a, b):
    "Return the index `a + b`, simplified if one of them is 0"
    if constant_value(a) == 0:
        return b
    return a if constant_value(b) == 0 else Expr('add', INT64, (a, b))


def mul(a, b):
    "Return the index `a * b`, simplified if one of them is 0 or 1"
    if constant_value(a) == 0 or constant_value(b) == 0:
        return ZERO
    if constant_value(a) == 1:
        return b
    return a if constant_value(b) == 1 else Expr('mul', INT64, (a, b))


def tuple_expr(items):
    "Return the expression of a tuple with these items"
    return Expr('tuple', tuple(item.type for item in items), items)


def view_expr(view):
    "Return the expression of the array `view`"
    return Expr('view', view.type, value=view)


class Literal(Expr):
    "A number and its spelling in the source, `text`"

    __slots__ = ('text',)

    def __init__(self, expr, text):
        super().__init__(expr.op, expr.type, value=expr.value)
        self.text = text


# The values of the operations `call` and `atomic`. parameter_types, result_type: C types; low, high: bounds of an
# integer result; num_indices: how many of the operands are indices, the others are values
Call = namedtuple(
    'Call', 'name parameter_types result_type has_side_effects low high', defaults=((), 'void', False, None, None)
)
Atomic = namedtuple('Atomic', 'op buffer num_indices')


# A `Buffer` is declared in C: as a parameter, a shared or local array, or a pointer. A `View` is an array of the Python
# kernel: a buffer, an offset, sizes and strides. A slice or a row of an array is another view of the same buffer.
class Buffer:
    """An array or pointer of C: a parameter, a shared, local or constant array, or a variable that points into one.

    `space`: param, argument (of a device function), shared, dynamic, local, const or pointer; `dims`: the sizes of a C
    array, None for a pointer; `roots`: the buffers that a pointer may point into.
    """

    def __init__(self, name, dtype, space, ndim, dims=None, roots=()):
        self.name = name
        self.dtype = dtype
        self.space = space
        self.ndim = ndim
        self.dims = dims
        self.roots = list(roots)
        self.is_written = self.is_used = self.is_dropped = False
        self.variable = None  # the Python variable that holds the array
        self.argument = None  # the `ArrayArgument` of a parameter of the kernel
        self.values = None  # the elements of a constant array
        self.view = None  # a `View` of the whole buffer

    def mark_written(self):
        "Mark this buffer, and those that it points into, as written"
        self.is_written = True
        for root in self.roots:
            if not root.is_written:
                root.mark_written()

    def origins(self, seen=()):
        "Return the buffers that this pointer may point into, directly or through other pointers; [self] for an array"
        if not self.roots:
            return [self]
        return [origin for root in self.roots if root not in seen for origin in root.origins((*seen, self))]

    @property
    def is_readonly(self):
        "Return whether a pointer to this buffer must be a pointer to const"
        return any(
            buffer.space in ('param', 'argument') and not buffer.is_written or buffer.space == 'const'
            for buffer in self.origins()
        )

    def __repr__(self):
        return f'<{self.space} {self.name}>'


class View:
    """An array of the Python kernel: `buffer` from `offset` on, with sizes and strides in elements.

    `leading_indices`: if the view is a row of a C array with more dimensions, the indices that select the row.
    """

    def __init__(self, buffer, sizes, strides, offset=ZERO, leading_indices=(), is_contiguous=False):
        self.buffer = buffer
        self.sizes = tuple(sizes)
        self.strides = tuple(strides)
        self.offset = offset
        self.leading_indices = tuple(leading_indices)
        self.is_contiguous = is_contiguous

    ndim = property(lambda self: len(self.sizes))
    type = property(lambda self: Array(self.buffer.dtype, self.ndim))

    def expressions(self):
        "Return the expressions of its leading indices, offset, sizes and strides"
        layout = (*self.leading_indices, self.offset, *self.sizes, *self.strides)
        return [expr for expr in layout if expr is not None]

    @property
    def is_full_array(self):
        "Return whether the view is a whole C array"
        return (
            self.buffer.dims is not None
            and not self.leading_indices
            and constant_value(self.offset) == 0
            and self.ndim == self.buffer.ndim
        )


def contiguous_strides(sizes):
    "Return the strides of a contiguous array of the given sizes"
    strides = [ONE] * len(sizes)
    for d in range(len(sizes) - 1, 0, -1):
        strides[d - 1] = mul(sizes[d], strides[d])
    return tuple(strides)


def c_index(view, indices):
    "Return the index of an element in C, a list: one expression for a pointer, one per dimension for a C array"
    buffer = view.buffer
    if buffer.dims is not None and view.is_contiguous and constant_value(view.offset) == 0:
        if len(view.leading_indices) + view.ndim == buffer.ndim:
            return [*view.leading_indices, *indices]
    offset = ZERO
    if view.is_contiguous and all(size is not None for size in view.sizes[1:]):
        for n, (i, size) in enumerate(zip(indices, view.sizes)):
            offset = add(mul(offset, size), i) if n else i
    else:
        for i, stride in zip(indices, view.strides):
            offset = add(offset, mul(i, stride))
    return [add(view.offset, offset)]


class Stmt(SimpleNamespace):
    "A statement: its `kind`, its line in the Python source, and the fields of its kind (`operations.STATEMENTS`)"

    def __init__(self, kind, line, **fields):
        super().__init__(kind=kind, line=line, **fields)


def blocks(stmt):
    "Return the blocks of a statement: its `body` and its `orelse`, unless they are empty"
    return [getattr(stmt, k) for k in ('body', 'orelse') if getattr(stmt, k, None)]


def expressions(stmt):
    "Yield the expressions in `stmt` itself, not in its blocks"
    for k in ('expr', 'test', 'start', 'stop', 'step', 'address'):
        if isinstance(getattr(stmt, k, None), Expr):
            yield getattr(stmt, k)
    for k in ('index', 'args'):
        yield from getattr(stmt, k, None) or ()
    for target in getattr(stmt, 'targets', ()):
        yield from target.items


def statements(block):
    "Yield all statements of a block, including nested ones"
    for stmt in block:
        yield stmt
        for inner_block in blocks(stmt):
            yield from statements(inner_block)


def function_expressions(function):
    "Yield all expressions of a function, each once"
    visited = set()

    def visit(expr):
        if id(expr) in visited:
            return
        visited.add(id(expr))
        yield expr
        for operand in expr.args:
            yield from visit(operand)
        if expr.op == 'view':
            for subexpr in expr.value.expressions():
                yield from visit(subexpr)
        if expr.op == 'load' and hasattr(expr.value, 'items'):
            for item in expr.value.items:
                yield from visit(item)

    for expr in function.parameter_exprs:
        yield from visit(expr)
    for stmt in statements(function.body):
        for expr in expressions(stmt):
            yield from visit(expr)


def functions(unit):
    "Return the kernel and the device functions that it calls, directly or not; callers come first"
    reachable_functions = [unit.main]
    for function in reachable_functions:  # grows in the loop
        for expr in function_expressions(function):
            if expr.op == 'device_call' and expr.value not in reachable_functions:
                reachable_functions.append(expr.value)
    return reachable_functions
