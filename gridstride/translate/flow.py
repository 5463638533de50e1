"""Which assignments of a name belong together: each such group becomes one variable of C.

A name in Python may hold an integer first and a float later. In C that takes two variables. They are found by dataflow
analysis (reaching definitions): per read of a name, the assignments that can have given it its value. Assignments
that reach the same read make up one variable.
"""

import ast

from ..sim.trees import walk


class Variable:
    """A variable of the C program: some assignments of one Python name, or a temporary.

    What `Lowering` finds out of it:

    - `type`; for an array `memory` and `view`, for a tuple `parts` (its variables), for a function `bound`;
    - `tuple_name`, the name of the tuple that it is a part of; as a part of a parameter `same_as` or `constant`;
    - `bounds`, (least, most) of a temporary; `struct`, the device function whose results it holds.

    What the writer gives it: the name and the type in C, and `slot`, the variable whose storage it shares.
    """

    def __init__(self, name, node=None):
        self.name, self.node = name, node  # node: where it is first assigned
        self.defs, self.undefined = 0, False  # assignments to it; may it be read before?
        self.type = self.memory = self.view = self.parts = self.bound = None
        self.typed_at = None  # the line that gave it its first type
        self.tuple_name = self.same_as = self.constant = self.bounds = self.struct = None
        self.temporary = self.alone = False  # alone: it shares its name with no other
        self.is_parameter, self.parameter = False, None  # parameter: what is known of it, for one of the kernel
        self.c_name = name
        self.c_type = None
        self.slot = None
        self.dropped = False  # a parameter that a device function makes no use of
        self.adopted = False  # it is the name of a size of an array, which is a parameter of C

    def __repr__(self):
        return f'<{self.name}: {self.type}>'


_NONE = frozenset([-1])  # no assignment yet


class _Flow:
    "Walks a function; `state` maps names to the assignments that may have made their value, None in unreachable code"

    def __init__(self, names):
        self.names = names
        self.ids = {}
        self.parent = []
        self.reads = {}
        self.state = {}
        self.loops = []

    def root(self, i):
        "Return the number that stands for the group of the assignment `i` (union-find)"
        while self.parent[i] != i:
            i = self.parent[i]
        return i

    def define(self, node, name):
        "Note that the node assigns to `name`: no earlier assignment reaches what follows"
        if node not in self.ids:
            self.ids[node] = len(self.parent)
            self.parent.append(len(self.parent))
        self.state[name] = frozenset([self.ids[node]])

    def read(self, node, name):
        "Note which assignments reach a read of `name`"
        self.reads[node] = self.reads.get(node, frozenset()) | self.state.get(name, _NONE)

    def look(self, tree):
        "Note what is read in an expression"
        for node in walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.names:
                self.read(node, node.id)

    def bind(self, target):
        "Note an assignment to a target, or to its parts"
        if isinstance(target, ast.Name):
            self.define(target, target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for t in target.elts:
                self.bind(t)
        else:
            self.look(target)

    def block(self, body):
        "Follow the statements of a block, up to one after which code is unreachable"
        for s in body:
            if self.state is None:
                return
            getattr(self, type(s).__name__, self.other)(s)

    def other(self, s):
        self.look(s)

    def Assign(self, s):
        self.look(s.value)
        for t in s.targets:
            self.bind(t)

    def AnnAssign(self, s):
        if s.value:
            self.look(s.value)
            self.bind(s.target)

    def AugAssign(self, s):
        self.look(s.value)
        if isinstance(s.target, ast.Name):
            self.read(s.target, s.target.id)
        self.bind(s.target)

    def If(self, s):
        self.look(s.test)
        before = self.state
        self.state = dict(before)
        self.block(s.body)
        yes = self.state
        self.state = dict(before)
        self.block(s.orelse)
        self.state = _merge(yes, self.state)

    def While(self, s):
        endless = isinstance(s.test, ast.Constant) and s.test.value
        self.loop(s, lambda: self.look(s.test), endless)

    def For(self, s):
        self.look(s.iter)
        self.loop(s, lambda: self.bind(s.target), False)

    def Return(self, s):
        if s.value:
            self.look(s.value)
        self.state = None

    def Break(self, s):
        self.loops[-1][0], self.state = _merge(self.loops[-1][0], self.state), None

    def Continue(self, s):
        self.loops[-1][1], self.state = _merge(self.loops[-1][1], self.state), None

    def loop(self, s, head, endless):
        "Follow a loop until no further assignment comes back to its head (a fixed point)"
        start = self.state
        while True:
            self.loops.append([None, None])
            self.state = dict(start)
            after = None if endless else start
            head()
            if not isinstance(s, ast.For) and not endless:
                after = dict(self.state)
            self.block(s.body)
            broken, again = self.loops.pop()
            back = _merge(_merge(start, again), self.state)
            if back == start:
                break
            start = back
        self.state = _merge(after, broken)


def _merge(a, b):
    if a is None or b is None:
        return b if a is None else a
    return {k: a.get(k, _NONE) | b.get(k, _NONE) for k in {**a, **b}}


def variables(tree):
    """Return the variables of a function: {Name node: `Variable`} for what is read, and the same for what is assigned.

    Parameters count as assigned at their `arg`.
    """
    args = tree.args.args
    names = {inner.id for inner in walk(tree) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)} | {
        a.arg for a in args
    }
    flow = _Flow(names)
    for a in args:
        flow.define(a, a.arg)
    flow.block(tree.body)
    for ids in flow.reads.values():
        known = [flow.root(i) for i in ids if i >= 0]
        for i in known[1:]:
            flow.parent[flow.root(i)] = flow.root(known[0])
    made, stores = {}, {}
    for node, i in flow.ids.items():
        v = made.setdefault(flow.root(i), Variable(node.arg if isinstance(node, ast.arg) else node.id, node))
        v.defs += 1
        stores[node] = v
    reads = {}
    for node, ids in flow.reads.items():
        v = next((made[flow.root(i)] for i in ids if i >= 0), None)
        reads[node] = v
        if v is not None and -1 in ids:
            v.undefined = True
    return reads, stores
