"""Groups the assignments of each name: those that reach the same read become one variable of C.

A name in Python may hold an integer first and a float later, which takes two variables in C. A dataflow analysis
(reaching definitions) finds, per read of a name, the assignments that may have assigned the value. Assignments that
reach the same read are joined to one variable (union-find).
"""

import ast

from ..sim.trees import walk


class Variable:
    """A variable of the C program: some assignments of one Python name, or a temporary.

    `Lowering` sets:

    - `type`; for an array `memory` and `view`, for a tuple `parts` (its variables), for a function `callee`;
    - `tuple_name`, the name of the tuple that it is a part of; for an element of a tuple parameter `alias_of` or
      `constant`;
    - `bounds`, the (min, max) value of a temporary; `result_of`, the device function whose results it holds.

    Code generation sets its name and type in C, and `slot`, the variable whose storage it shares.
    """

    def __init__(self, name, node=None):
        self.name, self.node = name, node  # node: where it is first assigned
        # number of its assignments, whether it may be read before any
        self.num_defs, self.maybe_uninitialized = 0, False
        self.type = self.memory = self.view = self.parts = self.callee = None
        self.typed_at = None  # the line that gave it its first type
        self.tuple_name = self.alias_of = self.constant = self.bounds = self.result_of = None
        self.is_temporary = self.has_unique_name = False
        # parameter_info: the description of the argument, None unless it is a parameter of the kernel
        self.is_parameter, self.parameter_info = False, None
        self.c_name = name
        self.c_type = None
        self.slot = None
        self.dropped = False  # a parameter that a device function makes no use of
        self.names_a_size = False  # it stands for an array dimension that is passed to the C function as a parameter

    def __repr__(self):
        return f'<{self.name}: {self.type}>'


_UNASSIGNED = frozenset([-1])  # no assignment yet


class _ReachingDefinitions:
    "Follows the statements of a function; `state` maps names to the assignments that may reach, None if unreachable"

    def __init__(self, names):
        self.names = names
        self.ids = {}
        self.parent = []
        self.reads = {}
        self.state = {}
        self.loops = []

    def root(self, definition):
        "Return the representative (root) of the set of the assignment `definition` (union-find)"
        while self.parent[definition] != definition:
            definition = self.parent[definition]
        return definition

    def define(self, node, name):
        "Record that the node assigns to `name`: no earlier assignment reaches what follows"
        if node not in self.ids:
            self.ids[node] = len(self.parent)
            self.parent.append(len(self.parent))
        self.state[name] = frozenset([self.ids[node]])

    def read(self, node, name):
        "Record which assignments reach a read of `name`"
        self.reads[node] = self.reads.get(node, frozenset()) | self.state.get(name, _UNASSIGNED)

    def read_names(self, tree):
        "Record what is read in an expression"
        for node in walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.names:
                self.read(node, node.id)

    def assign(self, target):
        "Record an assignment to a target, or to its parts"
        if isinstance(target, ast.Name):
            self.define(target, target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self.assign(element)
        else:
            self.read_names(target)

    def block(self, body):
        "Follow the statements of a block, up to one after which code is unreachable"
        for stmt in body:
            if self.state is None:
                return
            getattr(self, type(stmt).__name__, self.visit_default)(stmt)

    def visit_default(self, stmt):
        self.read_names(stmt)

    def Assign(self, stmt):
        self.read_names(stmt.value)
        for t in stmt.targets:
            self.assign(t)

    def AnnAssign(self, stmt):
        if stmt.value:
            self.read_names(stmt.value)
            self.assign(stmt.target)

    def AugAssign(self, stmt):
        self.read_names(stmt.value)
        if isinstance(stmt.target, ast.Name):
            self.read(stmt.target, stmt.target.id)
        self.assign(stmt.target)

    def If(self, stmt):
        self.read_names(stmt.test)
        state_before = self.state
        self.state = dict(state_before)
        self.block(stmt.body)
        state_after_body = self.state
        self.state = dict(state_before)
        self.block(stmt.orelse)
        self.state = _join_states(state_after_body, self.state)

    def While(self, stmt):
        endless = isinstance(stmt.test, ast.Constant) and stmt.test.value
        self.loop(stmt, lambda: self.read_names(stmt.test), endless)

    def For(self, stmt):
        self.read_names(stmt.iter)
        self.loop(stmt, lambda: self.assign(stmt.target), False)

    def Return(self, stmt):
        if stmt.value:
            self.read_names(stmt.value)
        self.state = None

    def Break(self, stmt):
        self.loops[-1][0], self.state = _join_states(self.loops[-1][0], self.state), None

    def Continue(self, stmt):
        self.loops[-1][1], self.state = _join_states(self.loops[-1][1], self.state), None

    def loop(self, stmt, head, endless):
        "Follow a loop until no further assignment comes back to its head (a fixed point)"
        head_state = self.state
        while True:
            self.loops.append([None, None])
            self.state = dict(head_state)
            exit_state = None if endless else head_state
            head()
            if not isinstance(stmt, ast.For) and not endless:
                exit_state = dict(self.state)
            self.block(stmt.body)
            break_state, continue_state = self.loops.pop()
            new_state = _join_states(_join_states(head_state, continue_state), self.state)
            if new_state == head_state:
                break
            head_state = new_state
        self.state = _join_states(exit_state, break_state)


def _join_states(a, b):
    if a is None or b is None:
        return b if a is None else a
    return {k: a.get(k, _UNASSIGNED) | b.get(k, _UNASSIGNED) for k in {**a, **b}}


def variables(tree):
    """Return two dicts: load node -> `Variable`, store node -> `Variable`.

    A parameter's definition is its `ast.arg` node.
    """
    args = tree.args.args
    names = {inner.id for inner in walk(tree) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)} | {
        a.arg for a in args
    }
    flow = _ReachingDefinitions(names)
    for a in args:
        flow.define(a, a.arg)
    flow.block(tree.body)
    for ids in flow.reads.values():
        roots = [flow.root(i) for i in ids if i >= 0]
        for i in roots[1:]:
            flow.parent[flow.root(i)] = flow.root(roots[0])
    variables_by_root, stores = {}, {}
    for node, i in flow.ids.items():
        variable = variables_by_root.setdefault(
            flow.root(i), Variable(node.arg if isinstance(node, ast.arg) else node.id, node)
        )
        variable.num_defs += 1
        stores[node] = variable
    reads = {}
    for node, ids in flow.reads.items():
        variable = next((variables_by_root[flow.root(i)] for i in ids if i >= 0), None)
        reads[node] = variable
        if variable is not None and -1 in ids:
            variable.maybe_uninitialized = True
    return reads, stores
