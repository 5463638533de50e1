"""Which variables a kernel may read before it has assigned them: a dataflow analysis over all paths of its statements.

if i > 0: v = x[i]
out[i] = v              # v may be unassigned here
"""

import ast

from .trees import walk

__all__ = ['maybe_unassigned']


def maybe_unassigned(fn):
    "Return the variables of a function that are read unassigned on some path"
    stored = {node.id for node in walk(fn) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    params = {arg.arg for arg in fn.args.args}
    analysis = _Dataflow(stored - params)
    analysis.block(fn.body, frozenset())
    return frozenset(analysis.found)


# The state at a statement is a set, `known`: the variables that every path to it has assigned. Paths that meet are
# joined by the intersection of their sets (`_joined`). One pass over a loop's body is enough: an assignment only adds
# variables, so the state at the loop's head, which the first iteration has, is the smallest of all iterations.
class _Dataflow:
    "The analysis of one function: `known` are the variables assigned on all paths to a statement; None without a path"

    def __init__(self, names):
        self.names, self.found, self.leaving = names, set(), []

    def read(self, node, known):
        if node is not None:
            read = {sub.id for sub in walk(node) if isinstance(sub, ast.Name) and isinstance(sub.ctx, ast.Load)}
            self.found |= (read & self.names) - known

    def block(self, body, known):
        for s in body:
            if known is None:
                return None
            known = self.RULES.get(type(s), _Dataflow.other)(self, s, known)
        return known

    def other(self, s, known):
        self.read(s, known)
        return known | {node.id for node in walk(s) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}

    def augassign(self, s, known):
        if isinstance(s.target, ast.Name) and s.target.id not in known and s.target.id in self.names:
            self.found.add(s.target.id)
        return self.other(s, known)

    def annassign(self, s, known):
        return known if s.value is None else self.other(s, known)

    def leave(self, s, known):
        self.read(s, known)

    def jump(self, s, known):
        self.leaving[-1].append(known)

    def go_on(self, s, known):
        "Go back to the loop's head, where fewer variables are known"

    def branches(self, s, known):
        self.read(s.test, known)
        return _joined(self.block(s.body, known), self.block(s.orelse, known))

    def loop(self, s, known):
        endless = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and bool(s.test.value)
        self.read(s.iter if isinstance(s, ast.For) else s.test, known)
        inside = known
        if isinstance(s, ast.For):
            inside = known | {node.id for node in walk(s.target) if isinstance(node, ast.Name)}
        self.leaving.append([])
        self.block(s.body, inside)
        after = None if endless else known
        for left in self.leaving.pop():
            after = _joined(after, left)
        return after

    RULES = {
        ast.AugAssign: augassign,
        ast.AnnAssign: annassign,
        ast.Return: leave,
        ast.Raise: leave,
        ast.Break: jump,
        ast.Continue: go_on,
        ast.If: branches,
        ast.For: loop,
        ast.While: loop,
    }


def _joined(a, b):
    return b if a is None else a if b is None else a & b
