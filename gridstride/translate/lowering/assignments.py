"""Assignments: to names, to elements, to several side by side.

`a, b = b, a` needs the old values: what a later part reads and an earlier part changes goes into a temporary.
The type of a variable is what holds all that is assigned to it.
"""

import ast

from ..flow import Variable
from ..tree import array, tuple_of, walk
from ..types import INT, describe, is_number
from . import convert, operators
from .values import Values


def _is_same(a, b):
    "Return whether two objects outside the function, or two names in the table of calls, are the same"
    return a is b or isinstance(a, str) and a == b


class Assignments(Values):
    "Lower assignments: one method `lower_...` per kind"

    def lower_Assign(self, s):
        "Lower `a = ...`, also of several targets"
        if len(s.targets) == 1:
            return self.assign_all(s, s.targets[0], s.value)
        e = self.lower(s.value)
        if e.op not in ('const', 'global', 'var', 'view', 'object', 'tuple'):
            e = self.temporary(s, 'value', e.type, e)
        for t in s.targets:
            self.bind(s, t, e)

    def lower_AnnAssign(self, s):
        "Lower `a: type = ...`"
        if s.value:
            self.assign_all(s, s.target, s.value)

    def lower_AugAssign(self, s):
        "Lower `a op= ...`"
        op, t = type(s.op).__name__, s.target
        if isinstance(t, ast.Subscript):
            return self.change_element(s, op, t)
        if not isinstance(t, ast.Name):
            raise self.error(s, f'changing {type(t).__name__.lower()} in place')
        old = self.variable(t, self.reads[t])
        if old.op in ('view', 'tuple', 'object'):
            raise self.error(s, f'{t.id} is {describe(old.type)}, which cannot be changed in place')
        e = operators.binary(self, s, op, old, self.lower(s.value))
        v = self.stores[t]
        self.note_type(s, v, e.type)
        self.emit('assign', s, var=v, expr=e, aug=operators.SIGNS[op])

    def change_element(self, s, op, t):
        "Lower `t op= ...` for an element: its index is computed once"
        view = self.arrays.need_view(s, self.lower(t.value))
        at = self.arrays.element_index(s, view, self.arrays.indices(t.slice))
        if any(part.op in ('device', 'atomic', 'call') for e in at for part in walk(e)):
            at = [self.temporary(s, 'at', INT, e) for e in at]
        old = self.arrays.element(view.memory, at)
        self.put(s, view.memory, at, operators.binary(self, s, op, old, self.lower(s.value)), op)

    def assign_all(self, s, target, value):
        "Lower `target = value`, or several side by side"
        is_row = isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, ast.Tuple)
        if not is_row or len(target.elts) != len(value.elts):
            return self.bind(s, target, self.lower(value))
        new = self.keep_old(s, target.elts, [self.lower(v) for v in value.elts])
        for n, e in enumerate(new):
            if e.op == 'view' and any(self.is_pointer_to(t, e.value.memory) for t in target.elts[:n]):
                new[n] = self.keep_pointer(s, e)
        for t, e in zip(target.elts, new):
            self.bind(s, t, e)

    def is_pointer_to(self, target, memory):
        "Return whether the target is a variable that points to `memory`"
        return isinstance(target, ast.Name) and self.stores[target].memory is memory

    def keep_old(self, s, targets, values):
        "Return the values, with temporaries for those that assignments to earlier targets change"
        new = list(values)
        for n, e in enumerate(new):
            if n and e.op not in ('view', 'object') and self.is_disturbed(targets[:n], e):
                new[n] = self.keep(s, e)
        return new

    def is_disturbed(self, targets, e):
        "Return whether assigning to `targets` changes the value of `e`"
        inside = [node for t in targets for node in ast.walk(t)]
        names = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        memory = any(isinstance(node, ast.Subscript) for node in inside)

        def changes(part):
            if part.op == 'var':
                return part.value.name in names or part.value.tuple_name in names
            return memory and part.op in ('load', 'device', 'atomic')

        return any(map(changes, walk(e)))

    def keep(self, s, e):
        "Return a temporary that has the present value of `e`"
        if e.op == 'tuple':
            return tuple_of([self.keep(s, part) for part in e.args])
        return self.temporary(s, f'old_{e.value.name}' if e.op == 'var' else 'old', e.type, e)

    def keep_pointer(self, s, e):
        "Return a pointer to where the array `e` begins now"
        v = Variable(f'old_{e.value.memory.name or "pointer"}')
        v.type, v.defs = e.type, 1
        self.arrays.point(s, v, e.value)
        return array(v.view)

    def bind(self, s, target, e):
        "Assign the value `e` to a target: a name, an element, or a tuple of such"
        if isinstance(target, ast.Name):
            return self.assign(s, self.stores[target], e)
        if isinstance(target, ast.Subscript):
            return self.store(s, target, e)
        if not isinstance(target, (ast.Tuple, ast.List)):
            what = f'assigning to {type(target).__name__.lower()} in a kernel'
            raise self.error(s, what, 'Assign to a name or to an element of an array.')
        if e.op != 'tuple':
            raise self.error(s, f'{describe(e.type) if e.type else "this"} is taken apart like a tuple')
        if len(e.args) != len(target.elts):
            raise self.error(s, f'{len(e.args)} values for {len(target.elts)} names')
        for t, value in zip(target.elts, self.keep_old(s, target.elts, e.args)):
            self.bind(s, t, value)

    def assign(self, s, v, e, parameter=False):
        "Assign `e` to the variable `v`; `parameter`: the caller has done so"
        if e.op == 'object':
            if v.bound is not None and not _is_same(v.bound.value, e.value):
                raise self.error(s, f'{v.name} is different functions in different branches')
            v.bound = e
        elif e.op == 'view':
            self.assign_array(s, v, e, parameter)
        elif e.op == 'tuple':
            self.assign_tuple(s, v, e, parameter)
        else:
            self.note_type(s, v, e.type)
            if not parameter:
                self.emit('assign', s, var=v, expr=e)

    def assign_tuple(self, s, v, e, parameter):
        "Assign a tuple: one variable per part"
        t = tuple(a.type for a in e.args)
        if v.type is not None and (is_number(v.type) or len(v.type) != len(t)):
            raise self.clash(s, v, t)
        if v.parts is None:
            v.parts = [Variable(f'{v.name}_{n}', s) for n in range(len(t))]
            for p in v.parts:
                p.defs = v.defs
                p.undefined = v.undefined
                p.tuple_name = v.name
            self.variables += v.parts
        for n, (p, operand) in enumerate(zip(v.parts, e.args)):
            if parameter:
                self.give_part(p, operand)
            elif n and any(i.op == 'var' and i.value in v.parts[:n] for i in walk(operand)):
                raise self.error(s, f'{v.name} is built from its own parts', 'Use two names.')
            else:
                self.assign(s, p, operand)
        v.type = tuple(p.type for p in v.parts)

    def give_part(self, p, operand):
        "Note that `p` is the part `operand` of a parameter that is a tuple"
        p.type = operand.type
        if operand.op == 'view':
            p.view, p.memory = operand.value, operand.value.memory
        elif operand.op == 'var':
            p.same_as = operand.value
        else:
            p.constant = operand

    def assign_array(self, s, v, e, parameter):
        "Assign an array: one that is assigned once is itself; any other becomes a pointer"
        view = e.value
        if v.type is not None and v.type != e.type:
            raise self.clash(s, v, e.type)
        self.changed |= v.type is None
        v.type = e.type
        if v.typed_at is None:
            v.typed_at = s.lineno
        m = view.memory
        is_new = m.name is None and not parameter
        if is_new and v.defs == 1:
            m.name, m.variable = v.name, v
        if not (parameter or v.defs == 1 and (is_new or m.space == 'const' or view.is_full_array)):
            return self.arrays.point(s, v, view)
        if parameter and v.defs > 1:
            what = f'{v.name} is a parameter and is assigned to, so that it would be two arrays'
            raise self.error(s, what, 'Use another name for the second array.')
        v.view, v.memory = view, m

    def store(self, s, target, e):
        "Lower `target = e` for an element of an array"
        view = self.arrays.need_view(s, self.lower(target.value))
        at = self.arrays.element_index(s, view, self.arrays.indices(target.slice))
        if not convert.is_number_like(e):
            held = describe(e.type) if e.type else 'this'
            raise self.error(s, f'an element of {view.memory.name} cannot hold {held}')
        self.put(s, view.memory, at, e)

    def put(self, s, memory, at, e, aug=None):
        "Store `e` at the index `at`; `aug`: the operator of a statement such as `a[i] += 1`"
        memory.write()
        memory.used = True
        self.emit('store', s, memory=memory, index=at, expr=e, aug=aug and operators.SIGNS[aug])
