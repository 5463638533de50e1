"""Prepares a function for writing: removes unread variables, and names the parameters and sizes."""

from ..tree import expressions, statements, walk, walk_used
from .calls import views_of


# A variable that is never read is removed, because a C compiler would warn. If the kernel assigns the size of an array
# to a variable, the C parameter for the size has the name of the variable.
class Parameters:
    "Removes the unread variables of a function, and names its parameters and sizes"

    def prepare(self):
        "Remove unread variables, name sizes and variables, and choose where each variable is declared"
        self.remove_dead_assignments()
        self.local_names = set()  # names in C that the function uses
        self.name_parameters()
        self.share_names()
        self.declarations_before = {}
        self.choose_declarations(self.function.body, set(), 0)
        if self.function is not self.emitter.unit.main:
            for expr in self.parameters:
                (expr.value if expr.op == 'var' else expr.value.buffer).is_dropped = not self.is_used(expr)
            self.parameters = [
                expr
                for expr in self.parameters
                if not (expr.value if expr.op == 'var' else expr.value.buffer).is_dropped
            ]

    def is_used(self, expr):
        "Return whether the body uses the parameter `expr`"
        if expr.op == 'var':
            return any(
                expr.value is v.c_variable
                for s in statements(self.function.body)
                for v in [*self.variables_read(s), *([s.var] if getattr(s, 'var', None) is not None else [])]
            )
        return any(m is expr.value.buffer for s in statements(self.function.body) for m in self.buffers(s))

    def remove_dead_assignments(self):
        "Remove assignments to variables that are never read"
        while True:
            read_vars = {v for stmt in statements(self.function.body) for v in self.variables_read(stmt)}
            dead_assignments = [
                stmt
                for stmt in statements(self.function.body)
                if stmt.kind in ('assign', 'pointer') and stmt.var not in read_vars
            ]
            if not dead_assignments:
                break
            for stmt in dead_assignments:
                if stmt.kind == 'assign' and stmt.expr.op == 'size':
                    stmt.assigned_size = stmt.var, stmt.expr.value
                if stmt.kind == 'assign' and any(
                    e.op in ('device_call', 'atomic', 'call', 'shuffle') for e in walk(stmt.expr)
                ):
                    stmt.kind = 'expr'
                else:
                    stmt.kind = 'pass'
                    stmt.expr = None
                    stmt.address = None
                stmt.var = None
        accessed_ids = {id(m) for stmt in statements(self.function.body) for m in self.buffers(stmt)}
        for stmt in statements(self.function.body):
            if stmt.kind == 'alloc' and id(stmt.buffer) not in accessed_ids:
                stmt.kind = 'pass'

    def variables_read(self, stmt):
        "Yield the variables that `stmt` reads, except the one that it assigns to"
        for expr in expressions(stmt):
            yield from (v for v in self.variables_in(expr) if not (stmt.kind == 'assign' and v is stmt.var))
        if stmt.kind == 'store' and stmt.buffer.variable is not None:
            yield stmt.buffer.variable
        if stmt.kind == 'pointer' and stmt.buffer.variable is not None:
            yield stmt.buffer.variable

    def variables_in(self, expr):
        "Yield the variables in an expression, including those that hold its arrays"
        for subexpr in walk_used(expr):
            if subexpr.op in ('var', 'let') or subexpr.op in ('value_land', 'value_lor') and subexpr.value is not None:
                yield subexpr.value
            buffer = (
                subexpr.value
                if subexpr.op in ('load', 'address')
                else subexpr.value.buffer
                if subexpr.op in ('atomic', 'view')
                else None
            )
            if buffer is not None and buffer.variable is not None:
                yield buffer.variable
            if subexpr.op == 'load' and hasattr(buffer, 'items'):
                for i in buffer.items:
                    yield from self.variables_in(i)
            if subexpr.op == 'view':
                for p in subexpr.value.expressions():
                    yield from self.variables_in(p)

    def buffers(self, stmt):
        "Yield the buffers that a statement accesses"
        if stmt.kind == 'store' or stmt.kind == 'pointer':
            yield stmt.buffer
        for expr in expressions(stmt):
            for subexpr in walk_used(expr):
                if subexpr.op in ('load', 'address'):
                    yield subexpr.value
                if subexpr.op in ('atomic', 'view'):
                    yield subexpr.value.buffer

    def name_parameters(self):
        "Name the parameters and the sizes that the function needs"
        self.parameters, self.arrays = [], []
        for (name, _), expr in zip(self.function.params, self.function.parameter_exprs):
            self.name_parameter(expr, name)
        sizes = self.find_sizes()
        for array in self.arrays:
            array.size_names = {}
            array.stride_names = {}
            array.start_name = None
        self.use_variable_names_for_sizes(sizes)
        for array in self.arrays:
            for dim in sorted(dim for kind, sized_array, dim in sizes if sized_array is array and kind == 'size'):
                if dim not in array.size_names:
                    array.size_names[dim] = self.take_name(self.size_name(array, dim, sizes))
            for dim in sorted(dim for kind, sized_array, dim in sizes if sized_array is array and kind == 'stride'):
                array.stride_names[dim] = self.take_name(f'{array.c_name}_stride{dim if array.ndim > 1 else ""}')
            if any(kind == 'start' and sized_array is array for kind, sized_array, dim in sizes):
                array.start_name = self.take_name(f'{array.c_name}_start')
        self.function.layout_params = [
            (array, kind, dim)
            for array in self.arrays
            for kind, names in (('size', array.size_names), ('stride', array.stride_names))
            for dim in sorted(names)
        ]
        self.function.layout_params += [(array, 'start', 0) for array in self.arrays if array.start_name]

    def take_name(self, name, also_taken=()):
        "Return `name`, or a name like it, that is unused in the function, and mark it as used"
        c_name = self.names.unused_name(name, self.local_names.union(also_taken))
        self.local_names.add(c_name)
        return c_name

    def name_parameter(self, expr, name):
        "Name the parameter `expr`; each item of a tuple is a parameter in C"
        if expr.op == 'tuple':
            for n, item in enumerate(expr.args):
                self.name_parameter(item, f'{name}_{n}')
        elif expr.op == 'view':
            buffer = expr.value.buffer
            buffer.c_name = self.take_name(buffer.name, self.names.kernel)
            self.arrays.append(buffer)
            self.parameters.append(expr)
        elif expr.op == 'var':
            expr.value.c_name = self.take_name(expr.value.name, self.names.kernel)
            expr.value.c_variable = expr.value
            expr.value.is_dropped = False
            self.parameters.append(expr)

    def find_sizes(self):
        "Return {(kind, buffer, dimension)} of the sizes, strides and starts that the function uses"
        sizes = set()
        for stmt in statements(self.function.body):
            for expr in expressions(stmt):
                for subexpr in self.expressions_in(expr):
                    if subexpr.op in ('size', 'stride'):
                        sizes.add((subexpr.op, subexpr.value[0], subexpr.value[1]))
                    if subexpr.op == 'start':
                        sizes.add((subexpr.op, subexpr.value, 0))
        return sizes

    def expressions_in(self, expr):
        "Yield all expressions in `expr`, including arguments for the layout parameters of device functions"
        yield from walk(expr)
        for subexpr in walk(expr):
            if subexpr.op == 'device_call':
                for buffer, kind, dim in subexpr.value.layout_params:
                    for argument, parameter in zip(subexpr.args, subexpr.value.parameter_exprs):
                        for view in views_of(argument, parameter, buffer):
                            yield from walk(view.sizes[dim] if kind == 'size' else view.strides[dim])
                for argument in subexpr.args:
                    for view in _all_views(argument):
                        for parameter in (*view.leading_indices, view.offset):
                            yield from walk(parameter)
            if subexpr.op == 'load' and hasattr(subexpr.value, 'items'):
                for i in subexpr.value.items:
                    yield from self.expressions_in(i)

    def use_variable_names_for_sizes(self, sizes):
        "Give the parameter for a size the name of the variable to which the kernel assigns the size"
        names = [variable.name for variable in self.function.variables if variable.type is not None]
        for stmt in statements(self.function.body):
            variable, size = getattr(stmt, 'assigned_size', (None, None))
            if stmt.kind == 'assign' and stmt.expr.op == 'size':
                variable, size = stmt.var, stmt.expr.value
            if (
                variable is None
                or ('size', *size) not in sizes
                or size[1] in size[0].size_names
                or variable.num_defs != 1
                or names.count(variable.name) != 1
                or variable.is_temporary
            ):
                continue
            size[0].size_names[size[1]] = variable.c_name = self.take_name(variable.name)
            variable.c_variable, variable.is_size_parameter = variable, True
            stmt.kind = 'pass'
            stmt.var = None
            stmt.expr = None

    def size_name(self, buffer, axis, sizes):
        "Return a name for the size of dimension `axis` of the array `buffer`: n, x_size, x_rows"
        unnamed_sizes = [(array, dim) for kind, array, dim in sizes if kind == 'size' and dim not in array.size_names]
        variable_names = {v.name for v in self.function.variables}
        if buffer.ndim == 1:
            return (
                'n'
                if len(unnamed_sizes) == 1 and 'n' not in variable_names and 'n' not in self.local_names
                else f'{buffer.c_name}_size'
            )
        if buffer.ndim == 2:
            return f"{buffer.c_name}_{('rows', 'cols')[axis]}"
        return f'{buffer.c_name}_{axis}'


def _all_views(argument):
    "Yield the arrays in an argument of a device function"
    if argument.op == 'tuple':
        for item in argument.args:
            yield from _all_views(item)
    elif argument.op == 'view':
        yield argument.value
