"""Lowers indices of arrays: to one integer per dimension for a C array, to one integer for a pointer.

A slice or a row is a pointer with sizes and strides of its own.
"""

import ast

from ..flow import Variable
from ..tree import (
    ONE,
    ZERO,
    Expr,
    Memory,
    View,
    add,
    array,
    const,
    index,
    mul,
    number,
    row_strides,
    structurally_equal,
    walk,
)
from ..types import INT, REAL, describe, value_type
from . import convert

DEFAULT_NAMES = {'shared': 'tile', 'dynamic': 'shared', 'local': 'values'}  # of memory that has none, by its space
# operations whose value changes only if that of an operand changes
_PURE_OPS = set('const global size stride builtin add sub mul floordiv min max neg mod select cmp'.split())


def _dimensions(n):
    return f'{n} dimension{"s" * (n != 1)}'


class Arrays:
    "Lower indices, slices and pointers in a function"

    def __init__(self, fn):
        self.fn = fn

    def need_view(self, node, expr):
        "Return the `View` of `expr`, which must be an array"
        if expr.op != 'view':
            raise self.fn.error(node, f'{describe(expr.type) if expr.type else "this"} cannot be indexed like an array')
        m = expr.value.memory
        if m.name is None:
            m.name = DEFAULT_NAMES.get(m.space, 'values')
        return expr.value

    def size(self, node, expr, d):
        "Return the size of the dimension `d` of an array"
        view = self.need_view(node, expr)
        if d >= view.ndim:
            raise self.fn.error(node, f'an array of {view.ndim} dimensions has no dimension {d}')
        if view.sizes[d] is None:
            what = f'the size of {view.memory.name} is not known in the kernel'
            raise self.fn.error(node, what, 'Pass it as an argument.')
        return view.sizes[d]

    def indices(self, node):
        "Return the expressions in the brackets; slices stay `ast.Slice`"
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        res = []
        for p in parts:
            e = p if isinstance(p, ast.Slice) else self.fn.lower(p)
            if isinstance(e, Expr) and e.op == 'tuple':
                res += e.args
            elif isinstance(e, Expr) and e.op == 'object' and e.value is Ellipsis:
                raise self.fn.error(node, 'an Ellipsis (...) as an index', 'Write all indices.')
            else:
                res.append(e)
        return res

    def element_index(self, node, view, idx):
        "Return the index of one element as C needs it: `m[r,c]` gives [r, c] for a C array, [r*cols+c] for a pointer"
        name = view.memory.name
        if any(isinstance(i, ast.Slice) for i in idx):
            what = f'a slice of {name} where one element is needed'
            raise self.fn.error(node, what, 'Write a loop over the elements, or let each thread do one.')
        if len(idx) != view.ndim:
            given = f'{len(idx)} {"index" if len(idx) == 1 else "indices"} were given'
            what = f'{name} has {_dimensions(view.ndim)}, and {given}'
            raise self.fn.error(node, what, 'Use one index per dimension.')
        idx = [self.integer_index(node, view, i) for i in idx]
        view.memory.used = True
        return index(view, idx)

    def integer_index(self, node, view, i):
        "Return the index `i`, which must be an integer"
        i = convert.need_number(i)
        if i.type in REAL:
            what = f'an index of {view.memory.name} is {describe(i.type)}; it must be an integer'
            raise self.fn.error(node, what, 'Divide with //, or use int(...).')
        return convert.as_number(i)

    def element(self, memory, at):
        "Return the element at the index `at`"
        memory.used = True
        return Expr('load', value_type(memory.dtype), at, memory)

    def subscript(self, node, expr):
        "Lower `expr[...]` for an array: one of its elements, or an array that is a part of it"
        view = self.need_view(node, expr)
        idx = self.indices(node.slice)
        if len(idx) > view.ndim:
            what = f'{view.memory.name} has {_dimensions(view.ndim)}, but {len(idx)} indices were given'
            raise self.fn.error(node, what)
        if len(idx) == view.ndim and not any(isinstance(i, ast.Slice) for i in idx):
            return self.element(view.memory, self.element_index(node, view, idx))
        return array(self.subview(node, view, idx))

    def subview(self, node, view, idx):
        "Return the part of `view` that fewer indices, or slices, select: `m[r]`, `x[1:]`"
        m = view.memory
        if m.dims is not None and view.plain and number(view.offset) == 0:
            if not any(isinstance(i, ast.Slice) for i in idx):
                lead = (*view.lead, *(self.integer_index(node, view, i) for i in idx))
                return View(m, view.sizes[len(idx) :], view.strides[len(idx) :], lead=lead, plain=True)
        if m.dims is not None and m.ndim > 1:
            view = self.flat(node, view)
        at = view.offset
        sizes = []
        strides = []
        plain = view.plain
        for n, i in enumerate(idx):
            if not isinstance(i, ast.Slice):
                at, plain = add(at, mul(self.integer_index(node, view, i), view.strides[n])), plain and not sizes
                continue
            start, size, step = self.slice(node, view, i, view.sizes[n])
            at = add(at, mul(start, view.strides[n]))
            is_full = i.lower is None and i.upper is None
            plain = plain and number(step) == 1 and (not sizes and view.ndim == 1 or is_full)
            sizes.append(size)
            strides.append(mul(view.strides[n], step))
        indexed = len(idx)
        sizes += view.sizes[indexed:]
        strides += view.strides[indexed:]
        return View(view.memory, sizes, strides, at, plain=plain)

    def transpose(self, node, expr):
        "Return an array with its dimensions in reverse"
        view = expr.value
        if view.ndim < 2:
            return expr
        if view.memory.dims is not None:
            view = self.flat(node, view)
        return array(View(view.memory, view.sizes[::-1], view.strides[::-1], view.offset))

    def flat(self, node, view):
        "Return a pointer to the first element of a C array of several dimensions"
        v = Variable(f'{view.memory.name}_flat', node)
        v.type, v.num_defs = view.type, 1
        self.fn.variables.append(v)
        self.emit_pointer(node, v, view)
        return v.view

    def slice(self, node, view, s, n):
        "Return (start, size, step) of a slice of a dimension of `n` elements; a size that is not known is None"

        def part(bound):
            return None if bound is None else self.integer_index(node, view, self.fn.lower(bound))

        start = part(s.lower)
        stop = part(s.upper)
        step = part(s.step) or ONE
        if number(step) is None or number(step) < 1:
            what = 'a slice whose step is not a positive number, known when the kernel is compiled'
            raise self.fn.error(node, what)
        start = self.resolve_slice_bound(node, view, ZERO if start is None else start, n)
        stop = n if stop is None else _clamp_to_size(self.resolve_slice_bound(node, view, stop, n), n)
        if stop is None:
            return start, None, step
        return start, _length(start, stop, step), step

    def resolve_slice_bound(self, node, view, expr, n):
        "Return a bound of a slice; a negative one counts from the end"
        if number(expr) is None or number(expr) >= 0:
            return expr
        if n is None:
            what = f'a slice that counts from the end of {view.memory.name}, whose size is not known in the kernel'
            raise self.fn.error(node, what)
        return Expr('sub', INT, (n, const(-number(expr))))

    def emit_pointer(self, s, variable, view):
        "Emit a statement that makes `variable` a pointer to the beginning of `view`"
        m = view.memory
        if variable.memory is None:
            self.new_pointer(s, variable, view)
        else:
            self.same_pointer(s, variable, view)
        if variable.memory.written:
            m.write()
        m.used = True
        self.fn.emit('pointer', s, var=variable, memory=m, address=address(view))

    def new_pointer(self, s, variable, view):
        "Make `variable` a pointer, with the sizes and strides of `view`"
        variable.memory = Memory(variable.name, view.memory.dtype, 'pointer', 1, roots=[view.memory])
        variable.memory.variable = variable
        names = [f'{variable.name}_{n}' if view.ndim > 1 else f'{variable.name}_size' for n in range(view.ndim)]
        sizes = [self.save_if_variable(s, n, size) for n, size in zip(names, view.sizes)]
        if view.plain and None not in sizes[1:]:
            strides = row_strides(sizes)
        else:
            strides = [self.save_if_variable(s, f'{variable.name}_stride', stride) for stride in view.strides]
        variable.view = View(variable.memory, sizes, strides, plain=view.plain)

    def same_pointer(self, s, variable, view):
        "Let the pointer `variable` point to the beginning of `view`, too"
        if view.memory not in variable.memory.roots:
            variable.memory.roots.append(view.memory)
        if not all(map(structurally_equal, variable.view.strides, view.strides)):
            there = f'line {variable.typed_at + self.fn.source.first - 1}'
            raise self.fn.error(
                s, f'{variable.name} has a different array layout here than in {there}', 'Use two names.'
            )
        variable.view.sizes = tuple(
            a if structurally_equal(a, b) else None for a, b in zip(variable.view.sizes, view.sizes)
        )

    def save_if_variable(self, s, name, expr):
        "Return `expr` if its value cannot change, else a variable that holds the value"
        if expr is None or all(
            part.op in _PURE_OPS or part.op == 'var' and self.is_assigned_once(part.value) for part in walk(expr)
        ):
            return expr
        return self.fn.temporary(s, name, INT, expr)

    def is_assigned_once(self, v):
        "Return whether `v` is assigned once, and no other variable has its name"
        return v.num_defs == 1 and sum(variable.name == v.name for variable in self.fn.variables) == 1


def address(view):
    "Return the address at which a view begins"
    at = [*view.lead, view.offset] if view.memory.dims is not None else [view.offset]
    return Expr('address', None, at, view.memory)


def _clamp_to_size(expr, n):
    "Return the end `expr` of a slice, at most that of the array"
    if (
        n is None
        or structurally_equal(expr, n)
        or number(expr) is not None
        and number(n) is not None
        and number(expr) <= number(n)
    ):
        return expr
    return Expr('min', INT, (expr, n))


def _length(start, stop, step):
    "Return the number of elements of a slice"
    size = Expr('sub', INT, (stop, start)) if number(start) != 0 else stop
    if number(start) != 0 and (number(size) is None or number(size) < 0):
        size = Expr('max', INT, (size, ZERO))
    if number(step) != 1:
        size = Expr('floordiv', INT, (add(size, const(number(step) - 1)), step))
    return size
