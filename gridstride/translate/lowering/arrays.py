"""Lowers indices of arrays: to one integer per dimension for a C array, to one integer for a pointer.

A slice or a row becomes a pointer to its first element; its sizes and strides differ from those of the array.
"""

import ast

from ..flow import Variable
from ..tree import (
    ONE,
    ZERO,
    Expr,
    Buffer,
    View,
    add,
    view_expr,
    const,
    c_index,
    mul,
    constant_value,
    contiguous_strides,
    is_structurally_equal,
    walk,
)
from ..types import INT64, FLOATS, describe_type, value_type
from . import convert

DEFAULT_NAMES = {'shared': 'tile', 'dynamic': 'shared', 'local': 'values'}  # space -> name of an array without a name
# operations whose value depends only on their operands
_PURE_OPS = set('const global size stride builtin add sub mul floordiv min max neg mod select cmp'.split())


def _count_dimensions(n):
    "Format a number of dimensions for a message: '1 dimension', '2 dimensions'"
    return f'{n} dimension{"s" * (n != 1)}'


class Arrays:
    "Lower indices, slices and pointers in a function"

    def __init__(self, fn):
        self.fn = fn

    def require_view(self, node, expr):
        "Return the `View` of `expr` if it is an array; else raise an error"
        if expr.op != 'view':
            raise self.fn.error(
                node, f'{describe_type(expr.type) if expr.type else "this"} cannot be indexed like an array'
            )
        buffer = expr.value.buffer
        if buffer.name is None:
            buffer.name = DEFAULT_NAMES.get(buffer.space, 'values')
        return expr.value

    def size(self, node, expr, axis):
        "Return the size of the dimension `axis` of an array"
        view = self.require_view(node, expr)
        if axis >= view.ndim:
            raise self.fn.error(node, f'dimension {axis} is out of range for an array with {view.ndim} dimensions')
        if view.sizes[axis] is None:
            message = f'the size of {view.buffer.name} is not known in the kernel'
            raise self.fn.error(node, message, 'Pass the size as an argument.')
        return view.sizes[axis]

    def indices(self, node):
        "Return the expressions in the brackets of a subscript; a slice remains an `ast.Slice`"
        nodes = node.elts if isinstance(node, ast.Tuple) else [node]
        indices = []
        for index_node in nodes:
            index = index_node if isinstance(index_node, ast.Slice) else self.fn.lower(index_node)
            if isinstance(index, Expr) and index.op == 'tuple':
                indices += index.args
            elif isinstance(index, Expr) and index.op == 'object' and index.value is Ellipsis:
                raise self.fn.error(node, 'an index cannot be an Ellipsis (...)', 'Write all indices.')
            else:
                indices.append(index)
        return indices

    def element_index(self, node, view, indices):
        "Return the index of one element in C: for `m[r,c]` [r, c] for a C array, [r*cols+c] for a pointer"
        name = view.buffer.name
        if any(isinstance(i, ast.Slice) for i in indices):
            message = f'expected an index of one element of {name}, got a slice'
            raise self.fn.error(node, message, 'Write a loop over the elements, or let each thread handle one.')
        if len(indices) != view.ndim:
            num_indices = '1 index was' if len(indices) == 1 else f'{len(indices)} indices were'
            message = f'{name} has {_count_dimensions(view.ndim)}, but {num_indices} given'
            raise self.fn.error(node, message, 'Use one index per dimension.')
        indices = [self.integer_index(node, view, i) for i in indices]
        view.buffer.is_used = True
        return c_index(view, indices)

    def integer_index(self, node, view, i):
        "Return the index `i` if it is an integer; else raise an error"
        i = convert.require_number(i)
        if i.type in FLOATS:
            message = f'an index of {view.buffer.name} is {describe_type(i.type)}; it must be an integer'
            raise self.fn.error(node, message, 'Divide with //, or use int(...).')
        return convert.bool_to_int(i)

    def element(self, buffer, index):
        "Return the expression that loads the element at `index`, a list as `element_index` returns it"
        buffer.is_used = True
        return Expr('load', value_type(buffer.dtype), index, buffer)

    def subscript(self, node, expr):
        "Lower `expr[...]` for an array: an element, or a view"
        view = self.require_view(node, expr)
        indices = self.indices(node.slice)
        if len(indices) > view.ndim:
            message = f'{view.buffer.name} has {_count_dimensions(view.ndim)}, but {len(indices)} indices were given'
            raise self.fn.error(node, message)
        if len(indices) == view.ndim and not any(isinstance(i, ast.Slice) for i in indices):
            return self.element(view.buffer, self.element_index(node, view, indices))
        return view_expr(self.subview(node, view, indices))

    def subview(self, node, view, indices):
        "Return the view that slices, or fewer indices than dimensions, select: `m[r]`, `x[1:]`"
        buffer = view.buffer
        if buffer.dims is not None and view.is_contiguous and constant_value(view.offset) == 0:
            if not any(isinstance(i, ast.Slice) for i in indices):
                leading = (*view.leading_indices, *(self.integer_index(node, view, i) for i in indices))
                sizes, strides = view.sizes[len(indices) :], view.strides[len(indices) :]
                return View(buffer, sizes, strides, leading_indices=leading, is_contiguous=True)
        if buffer.dims is not None and buffer.ndim > 1:
            view = self.pointer_to_first(node, view)
        offset = view.offset
        sizes = []
        strides = []
        is_contiguous = view.is_contiguous
        for n, i in enumerate(indices):
            if not isinstance(i, ast.Slice):
                offset = add(offset, mul(self.integer_index(node, view, i), view.strides[n]))
                is_contiguous = is_contiguous and not sizes
                continue
            start, size, step = self.slice_range(node, view, i, view.sizes[n])
            offset = add(offset, mul(start, view.strides[n]))
            is_full = i.lower is None and i.upper is None
            is_contiguous &= constant_value(step) == 1 and (not sizes and view.ndim == 1 or is_full)
            sizes.append(size)
            strides.append(mul(view.strides[n], step))
        sizes += view.sizes[len(indices) :]
        strides += view.strides[len(indices) :]
        return View(view.buffer, sizes, strides, offset, is_contiguous=is_contiguous)

    def transpose(self, node, expr):
        "Return the transposed array, a view with the dimensions in reverse order"
        view = expr.value
        if view.ndim < 2:
            return expr
        if view.buffer.dims is not None:
            view = self.pointer_to_first(node, view)
        return view_expr(View(view.buffer, view.sizes[::-1], view.strides[::-1], view.offset))

    def pointer_to_first(self, node, view):
        "Return a pointer to the first element of a C array of several dimensions"
        variable = Variable(f'{view.buffer.name}_flat', node)
        variable.type, variable.num_defs = view.type, 1
        self.fn.variables.append(variable)
        self.emit_pointer(node, variable, view)
        return variable.view

    def slice_range(self, node, view, slice_node, num_elements):
        "Return (start, size, step) of a slice of a dimension; the size is None if `num_elements` is not known"

        def lower_slice_bound(bound):
            return None if bound is None else self.integer_index(node, view, self.fn.lower(bound))

        start = lower_slice_bound(slice_node.lower)
        stop = lower_slice_bound(slice_node.upper)
        step = lower_slice_bound(slice_node.step) or ONE
        if constant_value(step) is None or constant_value(step) < 1:
            raise self.fn.error(node, 'the step of a slice must be a positive constant')
        start = self.resolve_slice_bound(node, view, ZERO if start is None else start, num_elements)
        stop = (
            num_elements
            if stop is None
            else _clamp_to_size(self.resolve_slice_bound(node, view, stop, num_elements), num_elements)
        )
        if stop is None:
            return start, None, step
        return start, _num_elements(start, stop, step), step

    def resolve_slice_bound(self, node, view, expr, num_elements):
        "Return the bound `expr` of a slice as an index; a negative bound counts from the end"
        if constant_value(expr) is None or constant_value(expr) >= 0:
            return expr
        if num_elements is None:
            message = (
                f'a slice cannot count from the end of {view.buffer.name}, because its size is not known in the kernel'
            )
            raise self.fn.error(node, message)
        return Expr('sub', INT64, (num_elements, const(-constant_value(expr))))

    def emit_pointer(self, stmt, variable, view):
        "Emit a statement that makes `variable` a pointer to the beginning of `view`"
        buffer = view.buffer
        if variable.buffer is None:
            self.new_pointer(stmt, variable, view)
        else:
            self.reuse_pointer(stmt, variable, view)
        if variable.buffer.is_written:
            buffer.mark_written()
        buffer.is_used = True
        self.fn.emit('pointer', stmt, var=variable, buffer=buffer, address=address(view))

    def new_pointer(self, stmt, variable, view):
        "Make `variable` a pointer with the sizes and strides of `view`"
        variable.buffer = Buffer(variable.name, view.buffer.dtype, 'pointer', 1, roots=[view.buffer])
        variable.buffer.variable = variable
        names = [f'{variable.name}_{n}' if view.ndim > 1 else f'{variable.name}_size' for n in range(view.ndim)]
        sizes = [self.save_if_mutable(stmt, n, size) for n, size in zip(names, view.sizes)]
        if view.is_contiguous and None not in sizes[1:]:
            strides = contiguous_strides(sizes)
        else:
            strides = [self.save_if_mutable(stmt, f'{variable.name}_stride', stride) for stride in view.strides]
        variable.view = View(variable.buffer, sizes, strides, is_contiguous=view.is_contiguous)

    def reuse_pointer(self, stmt, variable, view):
        "Record that the pointer `variable` may also point to the beginning of `view`"
        if view.buffer not in variable.buffer.roots:
            variable.buffer.roots.append(view.buffer)
        if not all(map(is_structurally_equal, variable.view.strides, view.strides)):
            first_line = f'line {variable.first_type_line + self.fn.source.first_line - 1}'
            raise self.fn.error(
                stmt, f'{variable.name} has a different array layout here than in {first_line}', 'Use two names.'
            )
        variable.view.sizes = tuple(
            a if is_structurally_equal(a, b) else None for a, b in zip(variable.view.sizes, view.sizes)
        )

    def save_if_mutable(self, stmt, name, expr):
        "Return `expr` if its value cannot change, else a temporary that holds its current value"
        if expr is None or all(
            subexpr.op in _PURE_OPS or subexpr.op == 'var' and self.is_assigned_once(subexpr.value)
            for subexpr in walk(expr)
        ):
            return expr
        return self.fn.temporary(stmt, name, INT64, expr)

    def is_assigned_once(self, v):
        "Return whether `v` is assigned once, and no other variable has its name"
        return v.num_defs == 1 and sum(variable.name == v.name for variable in self.fn.variables) == 1


def address(view):
    "Return the address at which a view begins"
    indices = [*view.leading_indices, view.offset] if view.buffer.dims is not None else [view.offset]
    return Expr('address', None, indices, view.buffer)


def _clamp_to_size(expr, size):
    "Return the smaller of `expr`, the end of a slice, and `size`, the size of the dimension"
    if (
        size is None
        or is_structurally_equal(expr, size)
        or constant_value(expr) is not None
        and constant_value(size) is not None
        and constant_value(expr) <= constant_value(size)
    ):
        return expr
    return Expr('min', INT64, (expr, size))


def _num_elements(start, stop, step):
    "Return the number of elements of a slice"
    size = Expr('sub', INT64, (stop, start)) if constant_value(start) != 0 else stop
    if constant_value(start) != 0 and (constant_value(size) is None or constant_value(size) < 0):
        size = Expr('max', INT64, (size, ZERO))
    if constant_value(step) != 1:
        size = Expr('floordiv', INT64, (add(size, const(constant_value(step) - 1)), step))
    return size
