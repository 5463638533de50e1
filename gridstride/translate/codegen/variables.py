"""Chooses the variables of C: which Python variables share one, and where each is declared."""

from ..tree import blocks, expressions, statements
from ..types import Array, is_int


# `i` in two loops is two variables; each is declared in its own loop, so they do not conflict. If the scope of one
# contains the other, they become one variable of C if their types agree, or else get different names.
_DEFAULT_NAMES = {'shared': 'tile', 'dynamic': 'shared', 'local': 'values'}  # for an array without a name, by its space


class NameSharing:
    "Choose which variables share a name in C"

    def share_names(self):
        "Make one C variable of the Python variables with one name if their types agree, else several, renamed"
        scopes, by_name = {}, {}
        self.find_occurrences(self.f.body, (), scopes)
        for v in scopes:
            by_name.setdefault(v.name, []).append(v)
        for name, group in sorted(by_name.items()):
            kept = []  # (variable, path of the block that holds all of its occurrences)
            for v in sorted(group, key=lambda v: [n for _, n in scopes[v][0]]):
                self.assign_slot(name, v, kept, scopes)
        self.name_memories(scopes)

    def assign_slot(self, name, variable, kept, scopes):
        "Choose the variable of C for `variable`: that of one of the `kept`, or a separate one"
        if variable.slot is variable and variable.c_name in self.local:
            kept.append((variable, ()))
            return
        conflicting = (
            k
            for k, path in kept
            if not path
            or _conflict(scopes[k.slot], scopes[variable])
            or variable.maybe_uninitialized
            or k.maybe_uninitialized
        )
        other = next(conflicting, None)
        if other is not None and not variable.has_unique_name and self.can_share(other, variable):
            variable.slot, variable.c_name = other.slot, other.slot.c_name
            scopes.setdefault(variable.slot, []).extend(scopes[variable])
        else:
            free = {k.c_name for k, path in kept if path} if other is None else ()
            variable.slot = variable
            variable.c_name = self.names.unused_name(name, self.local - free) if other is None else self.take_name(name)
        self.local.add(variable.c_name)
        kept.append((variable, innermost_block(scopes[variable])))

    def name_memories(self, scopes):
        "Name each array that the kernel makes after its variable, or its kind"
        for m in (s.memory for s in statements(self.f.body) if s.kind == 'alloc'):
            named = m.variable is not None and m.variable.slot is not None
            m.c_name = m.variable.c_name if named else self.take_name(m.name or _DEFAULT_NAMES[m.space])
        for v in scopes:
            if v.memory is not None and v.memory.variable is v:
                v.memory.c_name = v.c_name

    def can_share(self, a, b):
        "Return whether two variables of Python can be one of C"
        if isinstance(a.type, Array) or isinstance(b.type, Array):
            return False
        if a.type != b.type and not (is_int(a.type) and is_int(b.type)) or a.result_of is not b.result_of:
            return False
        if a.c_type != b.c_type:
            if a.c_name in self.local and a.is_parameter or a.names_a_size:
                return False
            if not {a.c_type, b.c_type} <= {'int', 'unsigned int', 'long long'}:
                return False
            for variable in [variable for variable in self.f.variables if variable.slot is a.slot] + [b]:
                variable.c_type = 'long long'
        return not a.slot.names_a_size

    def find_occurrences(self, block, path, found):
        """Record where each variable occurs: ((block, number), ...) from the outside in.

        The variable of a loop belongs to the loop's body.
        """
        for n, s in enumerate(block):
            at = (*path, (id(block), n))
            own = [v for e in expressions(s) for v in self.variables_in(e)]
            if s.kind in ('assign', 'pointer') and s.var is not None:
                own.append(s.var)
            if s.kind in ('alloc', 'store') and s.memory.variable is not None:
                own.append(s.memory.variable)
            for v in dict.fromkeys(own):
                found.setdefault(v, []).append(at)
            for v in [c.var for c in self.loop_variables(s)]:
                found.setdefault(v, []).append((*at, (id(s.body), -1)))
            for b in blocks(s):
                self.find_occurrences(b, at, found)


# A variable is declared in the innermost block that contains all of its occurrences: at its first assignment, if that
# is the first statement of the block in which it occurs.
_LOOPS = 'for', 'while', 'each'


class Declarations:
    "Choose where variables are declared"

    def slots(self, stmt):
        "Return the variables in the statement itself, without its blocks"
        own = {v.slot for e in expressions(stmt) for v in self.variables_in(e)}
        if stmt.kind in ('assign', 'pointer') and stmt.var is not None:
            own.add(stmt.var.slot)
        own.update(c.var.slot for c in self.loop_variables(stmt))
        if stmt.kind == 'store' and stmt.memory.variable is not None:
            own.add(stmt.memory.variable.slot)
        return own

    def all_slots(self, s):
        "Return the variables in the statement and its blocks"
        return self.slots(s).union(*(self.all_slots(stmt) for b in blocks(s) for stmt in b))

    def choose_declarations(self, block, declared, loops):
        """Decide before which statement each variable is declared.

        `declarations_before[id(block), n]` has those declared before statement `n` of a block, without a value.
        """
        for n, v in self.declared_here(block, declared, loops):
            declared = declared | {v}
            if self.is_first_value(block[n], v):
                block[n].declares = True
            else:
                self.declarations_before.setdefault((id(block), n), []).append(v)
        for s in block:
            own = [c.var.slot for c in self.loop_variables(s)]
            for b in blocks(s):
                self.choose_declarations(b, declared.union(own), loops + (s.kind in _LOOPS))
            for c in self.loop_variables(s):
                c.declared_before = c.var.slot in declared

    def declared_here(self, block, declared, loops):
        "Yield (index of the first statement, variable) of each variable whose innermost block is this one"
        own, deep = [self.slots(s) for s in block], [self.all_slots(s) for s in block]
        for v in sorted(set().union(*deep), key=lambda v: v.c_name):
            if v in declared or self.is_declared_elsewhere(v):
                continue
            at = [n for n, d in enumerate(deep) if v in d]
            first = block[at[0]]
            alone = len(at) == 1 and (v not in own[at[0]] or first.kind in ('for', 'each') and self.in_header(first, v))
            carried = (
                self.may_be_uninitialized(v) and loops == 0 and any(stmt.kind in _LOOPS for stmt in statements([first]))
            )
            if not alone or carried:
                yield at[0], v

    def is_first_value(self, stmt, v):
        "Return whether the statement assigns to `v` a value that does not depend on `v`"
        if stmt.kind not in ('assign', 'pointer') or stmt.var.slot is not v or stmt.aug:
            return False
        return v not in {variable.slot for e in expressions(stmt) for variable in self.variables_in(e)}

    def loop_variables(self, stmt):
        "Return what has the variables of a loop: the `for` itself, or the columns of an `each`"
        return [stmt] if stmt.kind == 'for' else stmt.columns if stmt.kind == 'each' else []

    def is_declared_elsewhere(self, variable):
        "Return whether `variable` is declared elsewhere: as a parameter, or with its memory"
        parameter = variable.c_name in {e.value.c_name for e in self.parameters if e.op == 'var'}
        return (
            parameter
            or variable.names_a_size
            or isinstance(variable.type, Array)
            and variable.memory.space != 'pointer'
        )

    def may_be_uninitialized(self, v):
        "Return whether the variable may be read before it has a value"
        return any(variable.maybe_uninitialized for variable in self.f.variables if variable.slot is v)

    def in_header(self, stmt, v):
        "Return whether `v` occurs in the loop `stmt` only as the loop variable"
        return v not in {variable.slot for e in expressions(stmt) for variable in self.variables_in(e)}


def innermost_block(paths):
    "Return the innermost block that holds all of `paths`, as the blocks around it and itself"
    first, n = paths[0], 1
    while all(len(p) > n and p[n - 1] == first[n - 1] and p[n][0] == first[n][0] for p in paths):
        n += 1
    return tuple(b for b, _ in first[:n])


def _conflict(a, b):
    "Return whether two variables with these occurrences would conflict if they had one name"
    if len(innermost_block(a)) > len(innermost_block(b)):
        a, b = b, a
    outer, inner = innermost_block(a), innermost_block(b)
    if inner[: len(outer)] != outer:
        return False
    level = len(outer) - 1
    return len(outer) == len(inner) or max(p[level][1] for p in b) >= min(p[level][1] for p in a)
