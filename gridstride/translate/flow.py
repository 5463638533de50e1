"""Groups the assignments of each Python name into C variables.

A name in Python may hold an integer first and a float later, which requires two variables in C. A dataflow analysis
(reaching definitions) finds, per read of a name, the assignments that may have assigned the value. Assignments that
reach the same read are merged into one variable (union-find).
"""

import ast

from ..sim.trees import walk


class Variable:
    """A variable of the C program: some assignments of one Python name, or a temporary.

    `Lowering` sets:

    - `type`; for an array `buffer` and `view`, for a tuple `item_variables`, for a function `callee`;
    - for an item of a tuple, `tuple_name`, the name of the tuple; for an item of a tuple parameter, also the parameter
      (`alias_of`) or number (`constant`) that it is;
    - for a temporary, `bounds`, the interval of its values;
    - for the tuple that a device function returns, `result_of`, the function.

    Code generation sets its name and type in C, and `c_variable`, the variable whose storage it shares.
    """

    def __init__(self, name, node=None):
        self.name, self.node = name, node  # node: its first assignment
        self.num_defs = 0  # number of assignments to it
        self.is_maybe_uninitialized = False  # some path reads it before the first assignment
        self.type = self.buffer = self.view = self.item_variables = self.callee = None
        self.first_type_line = None  # the line that gave it its first type
        self.tuple_name = self.alias_of = self.constant = self.bounds = self.result_of = None
        self.is_temporary = self.has_unique_name = False
        self.is_parameter = False
        self.argument_type = None  # the `ScalarArgument` of a parameter of the kernel
        self.c_name = name
        self.c_type = None
        self.c_variable = None
        self.is_dropped = False  # a parameter that the C function does not have, because nothing reads it
        self.is_size_parameter = False  # it holds the size of an array, so it is the C parameter for that size

    def __repr__(self):
        return f'<{self.name}: {self.type}>'


_UNASSIGNED = frozenset([-1])  # no assignment yet


class _ReachingDefinitions:
    """Finds, per read of a name, the assignments that may reach it.

    Visits the statements in the order of execution. `state` maps each name to the set of assignments that may have
    assigned its current value; it is None in unreachable code. `ids` maps the node of an assignment to its id, and
    `reads` maps the node of a read to a set of such ids.
    """

    def __init__(self, names):
        self.names = names
        self.ids = {}
        self.parent = []  # of the union-find structure, by assignment
        self.reads = {}
        self.state = {}
        self.loops = []  # per enclosing loop: [state at a `break`, state at a `continue`]

    def root(self, definition):
        "Return the representative (root) of the set of the assignment `definition` (union-find)"
        while self.parent[definition] != definition:
            definition = self.parent[definition]
        return definition

    def define(self, node, name):
        "Record that the node assigns to `name`, which hides all earlier assignments"
        if node not in self.ids:
            self.ids[node] = len(self.parent)
            self.parent.append(len(self.parent))
        self.state[name] = frozenset([self.ids[node]])

    def read(self, node, name):
        "Record which assignments reach a read of `name`"
        self.reads[node] = self.reads.get(node, frozenset()) | self.state.get(name, _UNASSIGNED)

    def read_names(self, tree):
        "Record the names that an expression reads"
        for node in walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.names:
                self.read(node, node.id)

    def assign(self, target):
        "Record an assignment to a target: a name, or a tuple of targets; the index of an element is read"
        if isinstance(target, ast.Name):
            self.define(target, target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self.assign(element)
        else:
            self.read_names(target)

    def visit_block(self, body):
        "Visit the statements of a block, up to one after which code is unreachable"
        for stmt in body:
            if self.state is None:
                return
            getattr(self, 'visit_' + type(stmt).__name__, self.visit_default)(stmt)

    def visit_default(self, stmt):
        self.read_names(stmt)

    def visit_Assign(self, stmt):
        self.read_names(stmt.value)
        for target in stmt.targets:
            self.assign(target)

    def visit_AnnAssign(self, stmt):
        if stmt.value:
            self.read_names(stmt.value)
            self.assign(stmt.target)

    def visit_AugAssign(self, stmt):
        self.read_names(stmt.value)
        if isinstance(stmt.target, ast.Name):
            self.read(stmt.target, stmt.target.id)
        self.assign(stmt.target)

    def visit_If(self, stmt):
        self.read_names(stmt.test)
        entry_state = self.state
        self.state = dict(entry_state)
        self.visit_block(stmt.body)
        state_after_body = self.state
        self.state = dict(entry_state)
        self.visit_block(stmt.orelse)
        self.state = _join_states(state_after_body, self.state)

    def visit_While(self, stmt):
        is_endless = isinstance(stmt.test, ast.Constant) and stmt.test.value
        self.visit_loop(stmt, lambda: self.read_names(stmt.test), is_endless)

    def visit_For(self, stmt):
        self.read_names(stmt.iter)
        self.visit_loop(stmt, lambda: self.assign(stmt.target), False)

    def visit_Return(self, stmt):
        if stmt.value:
            self.read_names(stmt.value)
        self.state = None

    def visit_Break(self, stmt):
        self.loops[-1][0], self.state = _join_states(self.loops[-1][0], self.state), None

    def visit_Continue(self, stmt):
        self.loops[-1][1], self.state = _join_states(self.loops[-1][1], self.state), None

    def visit_loop(self, stmt, visit_head, is_endless):
        "Visit a loop repeatedly, until no further assignment reaches its head from the end of its body (a fixed point)"
        head_state = self.state
        while True:
            self.loops.append([None, None])
            self.state = dict(head_state)
            exit_state = None if is_endless else head_state
            visit_head()
            if not isinstance(stmt, ast.For) and not is_endless:
                exit_state = dict(self.state)
            self.visit_block(stmt.body)
            break_state, continue_state = self.loops.pop()
            new_state = _join_states(_join_states(head_state, continue_state), self.state)
            if new_state == head_state:
                break
            head_state = new_state
        self.state = _join_states(exit_state, break_state)


def _join_states(a, b):
    "Return the state where two paths meet: a name has the assignments of both"
    if a is None or b is None:
        return b if a is None else a
    return {k: a.get(k, _UNASSIGNED) | b.get(k, _UNASSIGNED) for k in {**a, **b}}


def variables(tree):
    """Return two dicts: load node -> `Variable`, store node -> `Variable`.

    A parameter is stored to by its `ast.arg` node. A load that no assignment reaches has None.
    """
    analysis = _reaching_definitions(tree)
    for ids in analysis.reads.values():
        roots = [analysis.root(i) for i in ids if i >= 0]
        for i in roots[1:]:
            analysis.parent[analysis.root(i)] = analysis.root(roots[0])
    variables_by_root, stores = {}, {}
    for node, i in analysis.ids.items():
        name = node.arg if isinstance(node, ast.arg) else node.id
        variable = variables_by_root.setdefault(analysis.root(i), Variable(name, node))
        variable.num_defs += 1
        stores[node] = variable
    loads = {}
    for node, ids in analysis.reads.items():
        variable = next((variables_by_root[analysis.root(i)] for i in ids if i >= 0), None)
        loads[node] = variable
        if variable is not None and -1 in ids:
            variable.is_maybe_uninitialized = True
    return loads, stores


def _reaching_definitions(tree):
    "Return the `_ReachingDefinitions` of a function, whose parameters are its first assignments"
    params = tree.args.args
    assigned_names = {node.id for node in walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    analysis = _ReachingDefinitions(assigned_names | {param.arg for param in params})
    for param in params:
        analysis.define(param, param.arg)
    analysis.visit_block(tree.body)
    return analysis
