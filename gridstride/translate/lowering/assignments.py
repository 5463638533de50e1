"""Lowers assignments: to names, to elements, to tuples of targets.

`a, b = b, a` needs the old values: what a later part reads and an earlier part changes goes into a temporary.
A variable's type is the common type (join) of everything assigned to it.
"""

import ast

from ..flow import Variable
from ..tree import array, tuple_of, walk
from ..types import INT, describe, is_number
from . import convert, operators
from .values import Values


def _is_same(a, b):
    "Return whether two global objects, or two keys of the call table, are the same"
    return a is b or isinstance(a, str) and a == b


class Assignments(Values):
    "Lower assignments: one method `lower_...` per kind"

    def lower_Assign(self, stmt):
        "Lower `a = ...`, including chained `a = b = ...`"
        if len(stmt.targets) == 1:
            return self.lower_target_value(stmt, stmt.targets[0], stmt.value)
        e = self.lower(stmt.value)
        if e.op not in ('const', 'global', 'var', 'view', 'object', 'tuple'):
            e = self.temporary(stmt, 'value', e.type, e)
        for t in stmt.targets:
            self.bind(stmt, t, e)

    def lower_AnnAssign(self, stmt):
        "Lower `a: type = ...`"
        if stmt.value:
            self.lower_target_value(stmt, stmt.target, stmt.value)

    def lower_AugAssign(self, stmt):
        "Lower `a op= ...`"
        op, t = type(stmt.op).__name__, stmt.target
        if isinstance(t, ast.Subscript):
            return self.augment_element(stmt, op, t)
        if not isinstance(t, ast.Name):
            raise self.error(stmt, f'changing {type(t).__name__.lower()} in place')
        old = self.variable(t, self.reads[t])
        if old.op in ('view', 'tuple', 'object'):
            raise self.error(stmt, f'{t.id} is {describe(old.type)}, which cannot be changed in place')
        e = operators.binary(self, stmt, op, old, self.lower(stmt.value))
        v = self.stores[t]
        self.add_type(stmt, v, e.type)
        self.emit('assign', stmt, var=v, expr=e, aug=operators.SIGNS[op])

    def augment_element(self, stmt, op, t):
        "Lower `t op= ...` for an element: its index is computed once"
        view = self.arrays.need_view(stmt, self.lower(t.value))
        index = self.arrays.element_index(stmt, view, self.arrays.indices(t.slice))
        if any(part.op in ('device', 'atomic', 'call') for e in index for part in walk(e)):
            index = [self.temporary(stmt, 'at', INT, e) for e in index]
        old = self.arrays.element(view.memory, index)
        self.emit_store(stmt, view.memory, index, operators.binary(self, stmt, op, old, self.lower(stmt.value)), op)

    def lower_target_value(self, stmt, target, value):
        "Lower `target = value`, or a parallel assignment `a, b = x, y`"
        is_parallel = isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, ast.Tuple)
        if not is_parallel or len(target.elts) != len(value.elts):
            return self.bind(stmt, target, self.lower(value))
        new = self.save_overwritten(stmt, target.elts, [self.lower(v) for v in value.elts])
        for n, e in enumerate(new):
            if e.op == 'view' and any(self.is_pointer_to(t, e.value.memory) for t in target.elts[:n]):
                new[n] = self.save_pointer(stmt, e)
        for t, e in zip(target.elts, new):
            self.bind(stmt, t, e)

    def is_pointer_to(self, target, memory):
        "Return whether the target is a variable that points to `memory`"
        return isinstance(target, ast.Name) and self.stores[target].memory is memory

    def save_overwritten(self, stmt, targets, values):
        "Return the values, with temporaries for those that assignments to earlier targets change"
        new = list(values)
        for n, e in enumerate(new):
            if n and e.op not in ('view', 'object') and self.is_overwritten(targets[:n], e):
                new[n] = self.save(stmt, e)
        return new

    def is_overwritten(self, targets, expr):
        "Return whether assigning to `targets` changes the value of `expr`"
        inside = [node for t in targets for node in ast.walk(t)]
        names = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        writes_memory = any(isinstance(node, ast.Subscript) for node in inside)

        def changes(part):
            if part.op == 'var':
                return part.value.name in names or part.value.tuple_name in names
            return writes_memory and part.op in ('load', 'device', 'atomic')

        return any(map(changes, walk(expr)))

    def save(self, stmt, expr):
        "Return a temporary that has the present value of `expr`"
        if expr.op == 'tuple':
            return tuple_of([self.save(stmt, part) for part in expr.args])
        return self.temporary(stmt, f'old_{expr.value.name}' if expr.op == 'var' else 'old', expr.type, expr)

    def save_pointer(self, stmt, expr):
        "Return a pointer that holds the current base address of the array `expr`"
        v = Variable(f'old_{expr.value.memory.name or "pointer"}')
        v.type, v.num_defs = expr.type, 1
        self.arrays.emit_pointer(stmt, v, expr.value)
        return array(v.view)

    def bind(self, stmt, target, expr):
        "Assign the value `expr` to a target: a name, an element, or a tuple of such"
        if isinstance(target, ast.Name):
            return self.assign(stmt, self.stores[target], expr)
        if isinstance(target, ast.Subscript):
            return self.store(stmt, target, expr)
        if not isinstance(target, (ast.Tuple, ast.List)):
            what = f'assigning to {type(target).__name__.lower()} in a kernel'
            raise self.error(stmt, what, 'Assign to a name or to an element of an array.')
        if expr.op != 'tuple':
            raise self.error(stmt, f'{describe(expr.type) if expr.type else "this"} cannot be unpacked like a tuple')
        if len(expr.args) != len(target.elts):
            raise self.error(stmt, f'cannot unpack {len(expr.args)} values into {len(target.elts)} targets')
        for t, value in zip(target.elts, self.save_overwritten(stmt, target.elts, expr.args)):
            self.bind(stmt, t, value)

    def assign(self, stmt, variable, expr, parameter=False):
        "Assign `expr` to the variable `variable`; `parameter`: it is a parameter, so nothing is emitted"
        if expr.op == 'object':
            if variable.callee is not None and not _is_same(variable.callee.value, expr.value):
                raise self.error(stmt, f'{variable.name} refers to different functions in different branches')
            variable.callee = expr
        elif expr.op == 'view':
            self.assign_array(stmt, variable, expr, parameter)
        elif expr.op == 'tuple':
            self.assign_tuple(stmt, variable, expr, parameter)
        else:
            self.add_type(stmt, variable, expr.type)
            if not parameter:
                self.emit('assign', stmt, var=variable, expr=expr)

    def assign_tuple(self, stmt, variable, expr, parameter):
        "Assign a tuple: one variable per part"
        t = tuple(a.type for a in expr.args)
        if variable.type is not None and (is_number(variable.type) or len(variable.type) != len(t)):
            raise self.clash(stmt, variable, t)
        if variable.parts is None:
            variable.parts = [Variable(f'{variable.name}_{n}', stmt) for n in range(len(t))]
            for p in variable.parts:
                p.num_defs = variable.num_defs
                p.maybe_uninitialized = variable.maybe_uninitialized
                p.tuple_name = variable.name
            self.variables += variable.parts
        for n, (p, operand) in enumerate(zip(variable.parts, expr.args)):
            if parameter:
                self.bind_part(p, operand)
            elif n and any(i.op == 'var' and i.value in variable.parts[:n] for i in walk(operand)):
                raise self.error(stmt, f'{variable.name} is assigned a tuple of its own items', 'Use two names.')
            else:
                self.assign(stmt, p, operand)
        variable.type = tuple(p.type for p in variable.parts)

    def bind_part(self, p, operand):
        "Record that `p` is the part `operand` of a tuple parameter"
        p.type = operand.type
        if operand.op == 'view':
            p.view, p.memory = operand.value, operand.value.memory
        elif operand.op == 'var':
            p.alias_of = operand.value
        else:
            p.constant = operand

    def assign_array(self, stmt, variable, expr, parameter):
        "Assign an array: a name assigned once is its alias; a name assigned several times becomes a pointer variable"
        view = expr.value
        if variable.type is not None and variable.type != expr.type:
            raise self.clash(stmt, variable, expr.type)
        self.changed |= variable.type is None
        variable.type = expr.type
        if variable.typed_at is None:
            variable.typed_at = stmt.lineno
        m = view.memory
        is_new = m.name is None and not parameter
        if is_new and variable.num_defs == 1:
            m.name, m.variable = variable.name, variable
        if not (parameter or variable.num_defs == 1 and (is_new or m.space == 'const' or view.is_full_array)):
            return self.arrays.emit_pointer(stmt, variable, view)
        if parameter and variable.num_defs > 1:
            what = f'{variable.name} is a parameter that is also assigned to, so the name would refer to two arrays'
            raise self.error(stmt, what, 'Use another name for the second array.')
        variable.view, variable.memory = view, m

    def store(self, stmt, target, expr):
        "Lower `target = expr` for an element of an array"
        view = self.arrays.need_view(stmt, self.lower(target.value))
        index = self.arrays.element_index(stmt, view, self.arrays.indices(target.slice))
        if not convert.is_number_like(expr):
            held = describe(expr.type) if expr.type else 'this'
            raise self.error(stmt, f'an element of {view.memory.name} cannot hold {held}')
        self.emit_store(stmt, view.memory, index, expr)

    def emit_store(self, stmt, memory, index, expr, aug=None):
        "Store `expr` at `index`; `aug`: the operator of a statement such as `a[i] += 1`"
        memory.write()
        memory.used = True
        self.emit('store', stmt, memory=memory, index=index, expr=expr, aug=aug and operators.SIGNS[aug])
