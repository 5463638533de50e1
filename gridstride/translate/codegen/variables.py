"""Chooses the C variables: which Python variables share one, and where each is declared."""

from ..tree import blocks, expressions, statements
from ..types import Array, is_int


# `i` in two loops is two variables. Each is declared in its own loop, so their names do not conflict. If the scope of
# one contains that of the other, they become one C variable (`c_variable`) if their types agree; else one is renamed.
_DEFAULT_NAMES = {'shared': 'tile', 'dynamic': 'shared', 'local': 'values'}  # space -> name of an array without a name


class NameSharing:
    "Chooses which Python variables share a C variable"

    def share_names(self):
        "Choose the C variable of each Python variable: variables with the same name share one if their types agree"
        occurrences, variables_by_name = {}, {}
        self.find_occurrences(self.function.body, (), occurrences)
        for variable in occurrences:
            variables_by_name.setdefault(variable.name, []).append(variable)
        for name, group in sorted(variables_by_name.items()):
            assigned_variables = []  # (variable, path of the innermost block that contains all of its occurrences)
            for variable in sorted(group, key=lambda variable: [n for _, n in occurrences[variable][0]]):
                self.assign_c_variable(name, variable, assigned_variables, occurrences)
        self.name_arrays(occurrences)

    def assign_c_variable(self, name, variable, assigned_variables, occurrences):
        "Choose the C variable of `variable`: that of a variable in `assigned_variables`, or a new one"
        if variable.c_variable is variable and variable.c_name in self.local_names:
            assigned_variables.append((variable, ()))
            return
        conflicting = (
            assigned_variable
            for assigned_variable, block_path in assigned_variables
            if not block_path
            or _is_conflict(occurrences[assigned_variable.c_variable], occurrences[variable])
            or variable.is_maybe_uninitialized
            or assigned_variable.is_maybe_uninitialized
        )
        other = next(conflicting, None)
        if other is not None and not variable.has_unique_name and self.unify_types(other, variable):
            variable.c_variable, variable.c_name = other.c_variable, other.c_variable.c_name
            occurrences.setdefault(variable.c_variable, []).extend(occurrences[variable])
        else:
            free_names = (
                {assigned_variable.c_name for assigned_variable, block_path in assigned_variables if block_path}
                if other is None
                else ()
            )
            variable.c_variable = variable
            variable.c_name = (
                self.names.unused_name(name, self.local_names - free_names) if other is None else self.take_name(name)
            )
        self.local_names.add(variable.c_name)
        assigned_variables.append((variable, innermost_block(occurrences[variable])))

    def name_arrays(self, occurrences):
        "Choose the C name of each array that the kernel declares: its variable's, or a default for its memory space"
        for buffer in (s.buffer for s in statements(self.function.body) if s.kind == 'alloc'):
            has_named_variable = buffer.variable is not None and buffer.variable.c_variable is not None
            buffer.c_name = (
                buffer.variable.c_name
                if has_named_variable
                else self.take_name(buffer.name or _DEFAULT_NAMES[buffer.space])
            )
        for variable in occurrences:
            if variable.buffer is not None and variable.buffer.variable is variable:
                variable.buffer.c_name = variable.c_name

    def unify_types(self, a, b):
        "Give two Python variables a common C type, so that they can share a C variable; return False if they cannot"
        if isinstance(a.type, Array) or isinstance(b.type, Array):
            return False
        if a.type != b.type and not (is_int(a.type) and is_int(b.type)) or a.result_of is not b.result_of:
            return False
        if a.c_type != b.c_type:
            if a.c_name in self.local_names and a.is_parameter or a.is_size_parameter:
                return False
            if not {a.c_type, b.c_type} <= {'int', 'unsigned int', 'long long'}:
                return False
            for variable in [
                variable for variable in self.function.variables if variable.c_variable is a.c_variable
            ] + [b]:
                variable.c_type = 'long long'
        return not a.c_variable.is_size_parameter

    def find_occurrences(self, block, path, occurrences):
        """Add the occurrences of each variable to the dict `occurrences`.

        An occurrence is a path, ((block, index of the statement in it), ...), from the outermost block to the
        innermost. The variable of a loop occurs in the body of the loop.
        """
        for n, stmt in enumerate(block):
            stmt_path = (*path, (id(block), n))
            variables = [variable for e in expressions(stmt) for variable in self.variables_in(e)]
            if stmt.kind in ('assign', 'pointer') and stmt.var is not None:
                variables.append(stmt.var)
            if stmt.kind in ('alloc', 'store') and stmt.buffer.variable is not None:
                variables.append(stmt.buffer.variable)
            for variable in dict.fromkeys(variables):
                occurrences.setdefault(variable, []).append(stmt_path)
            for variable in [c.var for c in self.loop_variables(stmt)]:
                occurrences.setdefault(variable, []).append((*stmt_path, (id(stmt.body), -1)))
            for inner_block in blocks(stmt):
                self.find_occurrences(inner_block, stmt_path, occurrences)


# A variable is declared in the innermost block that contains all of its occurrences: in its first assignment, if this
# is the first statement of the block in which the variable occurs, else before that statement.
_LOOPS = 'for', 'while', 'for_tuple'


class Declarations:
    "Chooses where variables are declared"

    def c_variables(self, stmt):
        "Return the C variables in the statement itself, not in its blocks"
        c_variables = {v.c_variable for e in expressions(stmt) for v in self.variables_in(e)}
        if stmt.kind in ('assign', 'pointer') and stmt.var is not None:
            c_variables.add(stmt.var.c_variable)
        c_variables.update(c.var.c_variable for c in self.loop_variables(stmt))
        if stmt.kind == 'store' and stmt.buffer.variable is not None:
            c_variables.add(stmt.buffer.variable.c_variable)
        return c_variables

    def all_c_variables(self, s):
        "Return the C variables in the statement and its blocks"
        return self.c_variables(s).union(*(self.all_c_variables(stmt) for b in blocks(s) for stmt in b))

    def choose_declarations(self, block, declared_c_variables, loop_depth):
        """Choose the declaration of each variable in a block, which is nested in `loop_depth` loops.

        `declares` is set on an assignment that declares its variable; `declarations_before[id(block), n]` lists the
        variables that are declared before statement `n` of a block.
        """
        for n, variable in self.declarations_in(block, declared_c_variables, loop_depth):
            declared_c_variables = declared_c_variables | {variable}
            if self.is_initialization(block[n], variable):
                block[n].declares = True
            else:
                self.declarations_before.setdefault((id(block), n), []).append(variable)
        for stmt in block:
            loop_c_variables = [c.var.c_variable for c in self.loop_variables(stmt)]
            for inner_block in blocks(stmt):
                self.choose_declarations(
                    inner_block, declared_c_variables.union(loop_c_variables), loop_depth + (stmt.kind in _LOOPS)
                )
            for c in self.loop_variables(stmt):
                c.is_declared_before = c.var.c_variable in declared_c_variables

    def declarations_in(self, block, declared_c_variables, loop_depth):
        "Yield (index of the first statement, variable) of each variable to declare in this block"
        c_variables, all_c_variables = [self.c_variables(s) for s in block], [self.all_c_variables(s) for s in block]
        for variable in sorted(set().union(*all_c_variables), key=lambda variable: variable.c_name):
            if variable in declared_c_variables or self.is_declared_elsewhere(variable):
                continue
            positions = [n for n, c_variables_in in enumerate(all_c_variables) if variable in c_variables_in]
            first = block[positions[0]]
            is_inner = len(positions) == 1 and (
                variable not in c_variables[positions[0]]
                or first.kind in ('for', 'for_tuple')
                and self.is_only_loop_variable(first, variable)
            )
            is_loop_carried = (
                self.is_maybe_uninitialized(variable)
                and loop_depth == 0
                and any(stmt.kind in _LOOPS for stmt in statements([first]))
            )
            if not is_inner or is_loop_carried:
                yield positions[0], variable

    def is_initialization(self, stmt, v):
        "Return whether the statement can initialize `v`: it assigns a value that does not depend on `v`"
        if stmt.kind not in ('assign', 'pointer') or stmt.var.c_variable is not v or stmt.aug_op:
            return False
        return v not in {variable.c_variable for e in expressions(stmt) for variable in self.variables_in(e)}

    def loop_variables(self, stmt):
        "Return the objects whose `var` is a variable of the loop: the `for` itself, or the targets of a `for_tuple`"
        return [stmt] if stmt.kind == 'for' else stmt.targets if stmt.kind == 'for_tuple' else []

    def is_declared_elsewhere(self, variable):
        "Return whether `variable` is declared elsewhere: as a parameter, or with its array"
        parameter_names = {e.value.c_name for e in self.parameters if e.op == 'var'}
        return (
            variable.c_name in parameter_names
            or variable.is_size_parameter
            or isinstance(variable.type, Array)
            and variable.buffer.space != 'pointer'
        )

    def is_maybe_uninitialized(self, v):
        "Return whether the C variable may be read before it is assigned"
        return any(variable.is_maybe_uninitialized for variable in self.function.variables if variable.c_variable is v)

    def is_only_loop_variable(self, stmt, v):
        "Return whether the header of the loop `stmt` uses `v` only as the loop variable"
        return v not in {variable.c_variable for e in expressions(stmt) for variable in self.variables_in(e)}


def innermost_block(paths):
    "Return the path of the innermost block that contains all of `paths`: the ids of the blocks around it, then its own"
    first, n = paths[0], 1
    while all(len(path) > n and path[n - 1] == first[n - 1] and path[n][0] == first[n][0] for path in paths):
        n += 1
    return tuple(b for b, _ in first[:n])


def _is_conflict(a, b):
    "Return whether two variables with these occurrences would conflict if they had the same name"
    if len(innermost_block(a)) > len(innermost_block(b)):
        a, b = b, a
    outer, inner = innermost_block(a), innermost_block(b)
    if inner[: len(outer)] != outer:
        return False
    level = len(outer) - 1
    return len(outer) == len(inner) or max(p[level][1] for p in b) >= min(p[level][1] for p in a)
