"""Finds the variables that a kernel may read before it has assigned them: a dataflow analysis of definite assignment.

if i > 0: v = x[i]
out[i] = v              # v may be unassigned here
"""

import ast

from .trees import walk

__all__ = ['maybe_unassigned']


def maybe_unassigned(fn):
    "Return the variables that some path through the syntax tree of a function reads before it assigns them"
    assigned_names = {node.id for node in walk(fn) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    params = {arg.arg for arg in fn.args.args}
    analysis = _DefiniteAssignment(assigned_names - params)
    analysis.visit_block(fn.body, frozenset())
    return frozenset(analysis.maybe_unassigned)


# The state at a statement is a set, `assigned_names`: the variables that every path to it has assigned. It is None if
# no path leads to it. Each rule maps the state before a statement to the state after it. Where paths meet, the states
# are joined by intersection (`_join_states`). One pass over a loop's body is enough: an assignment only adds variables,
# so the state at the head of the loop is smallest in the first iteration.
class _DefiniteAssignment:
    "Analyses one function; `break_states` has, per enclosing loop, the states at its `break`s"

    def __init__(self, names):
        self.names, self.maybe_unassigned, self.break_states = names, set(), []

    def record_reads(self, node, assigned_names):
        "Record the variables that the expression `node` reads unassigned"
        if node is not None:
            loads = (n for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
            names = {load.id for load in loads}
            self.maybe_unassigned |= (names & self.names) - assigned_names

    def visit_block(self, body, assigned_names):
        "Return the state after the statements of `body`"
        for statement in body:
            if assigned_names is None:
                return None
            assigned_names = self.RULE_OF_STATEMENT.get(type(statement), _DefiniteAssignment.visit_default)(
                self, statement, assigned_names
            )
        return assigned_names

    def visit_default(self, statement, assigned_names):
        self.record_reads(statement, assigned_names)
        return assigned_names | {
            node.id for node in walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }

    def visit_augmented_assignment(self, statement, assigned_names):
        if (
            isinstance(statement.target, ast.Name)
            and statement.target.id not in assigned_names
            and statement.target.id in self.names
        ):
            self.maybe_unassigned.add(statement.target.id)
        return self.visit_default(statement, assigned_names)

    def visit_annotated_assignment(self, statement, assigned_names):
        return assigned_names if statement.value is None else self.visit_default(statement, assigned_names)

    def visit_exit(self, statement, assigned_names):
        self.record_reads(statement, assigned_names)

    def visit_break(self, statement, assigned_names):
        self.break_states[-1].append(assigned_names)

    def visit_continue(self, statement, assigned_names):
        "Return None: no path continues, and this state has at least the variables of the state at the head of the loop"

    def visit_if(self, statement, assigned_names):
        self.record_reads(statement.test, assigned_names)
        return _join_states(
            self.visit_block(statement.body, assigned_names), self.visit_block(statement.orelse, assigned_names)
        )

    def visit_loop(self, statement, assigned_names):
        is_endless = (
            isinstance(statement, ast.While) and isinstance(statement.test, ast.Constant) and bool(statement.test.value)
        )
        self.record_reads(statement.iter if isinstance(statement, ast.For) else statement.test, assigned_names)
        body_state = assigned_names
        if isinstance(statement, ast.For):
            body_state = assigned_names | {node.id for node in walk(statement.target) if isinstance(node, ast.Name)}
        self.break_states.append([])
        self.visit_block(statement.body, body_state)
        exit_state = None if is_endless else assigned_names
        for break_state in self.break_states.pop():
            exit_state = _join_states(exit_state, break_state)
        return exit_state

    RULE_OF_STATEMENT = {
        ast.AugAssign: visit_augmented_assignment,
        ast.AnnAssign: visit_annotated_assignment,
        ast.Return: visit_exit,
        ast.Raise: visit_exit,
        ast.Break: visit_break,
        ast.Continue: visit_continue,
        ast.If: visit_if,
        ast.For: visit_loop,
        ast.While: visit_loop,
    }


def _join_states(a, b):
    return b if a is None else a if b is None else a & b
