"""Lowers assignments: to names, to elements, to tuples of targets.

`a, b = b, a` uses the old values: a value that is overwritten before it is assigned is saved in a temporary.
A variable's type is the common type (join) of everything assigned to it.
"""

import ast

from ..flow import Variable
from ..tree import view_expr, tuple_expr, walk
from ..types import INT64, describe_type, is_number
from . import convert, operators
from .values import Values


def _is_same_callee(a, b):
    "Return whether two callees, objects or keys of the call table, are the same"
    return a is b or isinstance(a, str) and a == b


class Assignments(Values):
    "Lower assignments: one method `lower_...` per kind of assignment"

    def lower_Assign(self, stmt):
        "Lower `a = ...`, including chained `a = b = ...`"
        if len(stmt.targets) == 1:
            return self.lower_target_value(stmt, stmt.targets[0], stmt.value)
        expr = self.lower(stmt.value)
        if expr.op not in ('const', 'global', 'var', 'view', 'object', 'tuple'):
            expr = self.temporary(stmt, 'value', expr.type, expr)
        for t in stmt.targets:
            self.bind(stmt, t, expr)

    def lower_AnnAssign(self, stmt):
        "Lower `a: type = ...`"
        if stmt.value:
            self.lower_target_value(stmt, stmt.target, stmt.value)

    def lower_AugAssign(self, stmt):
        "Lower `a op= ...`"
        op, target = type(stmt.op).__name__, stmt.target
        if isinstance(target, ast.Subscript):
            return self.augment_element(stmt, op, target)
        if not isinstance(target, ast.Name):
            raise self.error(stmt, f'the target of an augmented assignment cannot be a {type(target).__name__.lower()}')
        old = self.variable(target, self.reads[target])
        if old.op in ('view', 'tuple', 'object'):
            raise self.error(stmt, f'{target.id} is {describe_type(old.type)}, which cannot be changed in place')
        expr = operators.binary(self, stmt, op, old, self.lower(stmt.value))
        variable = self.stores[target]
        self.add_type(stmt, variable, expr.type)
        self.emit('assign', stmt, var=variable, expr=expr, aug_op=operators.SYMBOLS[op])

    def augment_element(self, stmt, op, target):
        "Lower `target op= ...` for an element: its index is computed once"
        view = self.arrays.require_view(stmt, self.lower(target.value))
        index = self.arrays.element_index(stmt, view, self.arrays.indices(target.slice))
        if any(subexpr.op in ('device_call', 'atomic', 'call') for e in index for subexpr in walk(e)):
            index = [self.temporary(stmt, 'at', INT64, e) for e in index]
        old = self.arrays.element(view.buffer, index)
        self.emit_store(stmt, view.buffer, index, operators.binary(self, stmt, op, old, self.lower(stmt.value)), op)

    def lower_target_value(self, stmt, target, value):
        "Lower `target = value`, or a parallel assignment `a, b = x, y`"
        is_parallel = isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, ast.Tuple)
        if not is_parallel or len(target.elts) != len(value.elts):
            return self.bind(stmt, target, self.lower(value))
        values = self.save_overwritten(stmt, target.elts, [self.lower(v) for v in value.elts])
        for n, expr in enumerate(values):
            if expr.op == 'view' and any(self.is_pointer_to(t, expr.value.buffer) for t in target.elts[:n]):
                values[n] = self.save_pointer(stmt, expr)
        for t, expr in zip(target.elts, values):
            self.bind(stmt, t, expr)

    def is_pointer_to(self, target, buffer):
        "Return whether the target is a variable that points to `buffer`"
        return isinstance(target, ast.Name) and self.stores[target].buffer is buffer

    def save_overwritten(self, stmt, targets, values):
        "Return the values; save a value in a temporary if an assignment to an earlier target overwrites it"
        temporaries = list(values)
        for n, expr in enumerate(temporaries):
            if n and expr.op not in ('view', 'object') and self.is_overwritten(targets[:n], expr):
                temporaries[n] = self.save_value(stmt, expr)
        return temporaries

    def is_overwritten(self, targets, expr):
        "Return whether assigning to `targets` changes the value of `expr`"
        target_nodes = [node for t in targets for node in ast.walk(t)]
        names = {node.id for node in target_nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        writes_memory = any(isinstance(node, ast.Subscript) for node in target_nodes)

        def changes(subexpr):
            if subexpr.op == 'var':
                return subexpr.value.name in names or subexpr.value.tuple_name in names
            return writes_memory and subexpr.op in ('load', 'device_call', 'atomic')

        return any(map(changes, walk(expr)))

    def save_value(self, stmt, expr):
        "Return a temporary that holds the current value of `expr`"
        if expr.op == 'tuple':
            return tuple_expr([self.save_value(stmt, item) for item in expr.args])
        return self.temporary(stmt, f'old_{expr.value.name}' if expr.op == 'var' else 'old', expr.type, expr)

    def save_pointer(self, stmt, expr):
        "Return a pointer that holds the current base address of the array `expr`"
        variable = Variable(f'old_{expr.value.buffer.name or "pointer"}')
        variable.type, variable.num_defs = expr.type, 1
        self.arrays.emit_pointer(stmt, variable, expr.value)
        return view_expr(variable.view)

    def bind(self, stmt, target, expr):
        "Assign `expr` to a target: a name, an element, or a tuple of targets"
        if isinstance(target, ast.Name):
            return self.assign(stmt, self.stores[target], expr)
        if isinstance(target, ast.Subscript):
            return self.store(stmt, target, expr)
        if not isinstance(target, (ast.Tuple, ast.List)):
            message = f'a kernel cannot assign to a {type(target).__name__.lower()}'
            raise self.error(stmt, message, 'Assign to a name or to an element of an array.')
        if expr.op != 'tuple':
            raise self.error(
                stmt, f'{describe_type(expr.type) if expr.type else "this"} cannot be unpacked like a tuple'
            )
        if len(expr.args) != len(target.elts):
            raise self.error(stmt, f'cannot unpack {len(expr.args)} values into {len(target.elts)} targets')
        for t, value in zip(target.elts, self.save_overwritten(stmt, target.elts, expr.args)):
            self.bind(stmt, t, value)

    def assign(self, stmt, variable, expr, is_parameter=False):
        "Assign `expr` to a variable; for a parameter, record its type and arrays, but emit no statement"
        if expr.op == 'object':
            if variable.callee is not None and not _is_same_callee(variable.callee.value, expr.value):
                raise self.error(stmt, f'{variable.name} refers to different functions in different branches')
            variable.callee = expr
        elif expr.op == 'view':
            self.assign_array(stmt, variable, expr, is_parameter)
        elif expr.op == 'tuple':
            self.assign_tuple(stmt, variable, expr, is_parameter)
        else:
            self.add_type(stmt, variable, expr.type)
            if not is_parameter:
                self.emit('assign', stmt, var=variable, expr=expr)

    def assign_tuple(self, stmt, variable, expr, is_parameter):
        "Assign a tuple: one variable per item"
        item_types = tuple(a.type for a in expr.args)
        if variable.type is not None and (is_number(variable.type) or len(variable.type) != len(item_types)):
            raise self.type_conflict(stmt, variable, item_types)
        if variable.item_variables is None:
            variable.item_variables = [Variable(f'{variable.name}_{n}', stmt) for n in range(len(item_types))]
            for item_variable in variable.item_variables:
                item_variable.num_defs = variable.num_defs
                item_variable.is_maybe_uninitialized = variable.is_maybe_uninitialized
                item_variable.tuple_name = variable.name
            self.variables += variable.item_variables
        for n, (item_variable, item) in enumerate(zip(variable.item_variables, expr.args)):
            if is_parameter:
                self.bind_item(item_variable, item)
            elif n and any(i.op == 'var' and i.value in variable.item_variables[:n] for i in walk(item)):
                raise self.error(stmt, f'{variable.name} is assigned a tuple of its own items', 'Use two names.')
            else:
                self.assign(stmt, item_variable, item)
        variable.type = tuple(item_variable.type for item_variable in variable.item_variables)

    def bind_item(self, variable, item):
        "Record that the variable `variable` is an item of a tuple parameter, whose expression is `item`"
        variable.type = item.type
        if item.op == 'view':
            variable.view, variable.buffer = item.value, item.value.buffer
        elif item.op == 'var':
            variable.alias_of = item.value
        else:
            variable.constant = item

    def assign_array(self, stmt, variable, expr, is_parameter):
        "Assign an array: a name assigned once is its alias; a name assigned several times becomes a pointer variable"
        view = expr.value
        if variable.type is not None and variable.type != expr.type:
            raise self.type_conflict(stmt, variable, expr.type)
        self.have_types_changed |= variable.type is None
        variable.type = expr.type
        if variable.first_type_line is None:
            variable.first_type_line = stmt.lineno
        buffer = view.buffer
        is_new = buffer.name is None and not is_parameter
        if is_new and variable.num_defs == 1:
            buffer.name, buffer.variable = variable.name, variable
        if not (is_parameter or variable.num_defs == 1 and (is_new or buffer.space == 'const' or view.is_full_array)):
            return self.arrays.emit_pointer(stmt, variable, view)
        if is_parameter and variable.num_defs > 1:
            message = f'{variable.name} is a parameter that is also assigned to, so the name would refer to two arrays'
            raise self.error(stmt, message, 'Use another name for the second array.')
        variable.view, variable.buffer = view, buffer

    def store(self, stmt, target, expr):
        "Lower `target = expr`, where `target` is an element of an array"
        view = self.arrays.require_view(stmt, self.lower(target.value))
        index = self.arrays.element_index(stmt, view, self.arrays.indices(target.slice))
        if not convert.is_number_like(expr):
            description = describe_type(expr.type) if expr.type else 'this'
            raise self.error(stmt, f'an element of {view.buffer.name} cannot hold {description}')
        self.emit_store(stmt, view.buffer, index, expr)

    def emit_store(self, stmt, buffer, index, expr, aug_op=None):
        "Emit the store of `expr` at `index`; `aug_op`: the operator of a statement such as `a[i] += 1`"
        buffer.mark_written()
        buffer.is_used = True
        self.emit('store', stmt, buffer=buffer, index=index, expr=expr, aug_op=aug_op and operators.SYMBOLS[aug_op])
