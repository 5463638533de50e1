"""May a kernel spin, waiting for other blocks? It may in a `while` loop that atomics decide about.

Most kernels do not, and many of their blocks run in step. The blocks of one that may spin run one by one, each until
it ends or spins: then the next one begins while it stays resident (`residents`).
"""

import ast
import types

from ..support.function_source import tree_of
from .trees import walk

__all__ = ['may_spin', 'meets_grid']

LOCKS = 'cas', 'compare_and_swap', 'exch'
_HAVE_FUNCTIONS = types.ModuleType, types.SimpleNamespace, type
_IDLE = 'nanosleep', 'threadfence', 'threadfence_block', 'threadfence_system'


def may_spin(tree, f):
    """Return whether the function `f`, with the syntax tree `tree`, or one that it calls, may spin until other blocks
    act"""
    return _Reader(f, {f}).may_spin(tree)


def meets_grid(tree, f):
    "Return whether the function `f`, with the syntax tree `tree`, or one that it calls, takes the grid as a group"
    return _takes_grid(_Reader(f, {f}), tree)


def _takes_grid(reader, tree):
    if any(getattr(node, 'attr', getattr(node, 'id', '')) == 'this_grid' for node in walk(tree)):
        return True
    return any(_takes_grid(r, t) for r, t in reader.device_functions(tree))


# An analysis of the source, without running it. A `while` loop may wait for another block if its condition, or that of
# an `if` that leaves it, depends on a value that an atomic returned. `found` follows such values through assignments
# until no name is added (a fixed point).
class _Reader:
    "An analysis of a function and of those that it calls; `seen`: functions that are already analysed"

    def __init__(self, f, seen):
        closure = zip(f.__code__.co_freevars, f.__closure__ or ())
        self.f, self.seen, self.closure = f, seen, dict(closure)

    def may_spin(self, tree):
        loops = [node for node in walk(tree) if isinstance(node, ast.While)]
        return any(map(self.polls, loops)) or any(r.may_spin(t) for r, t in self.device_functions(tree))

    def polls(self, loop):
        "Return whether a loop waits: for a lock, for what an atomic returns, or for an element that it only polls"
        inside = list(walk(loop))
        if any(isinstance(node, ast.Attribute) and node.attr in LOCKS for node in inside):
            return True
        if all(map(_idles, loop.body)) and any(isinstance(node, ast.Subscript) for node in walk(loop.test)):
            return True
        ends = [loop.test, *(node.test for node in inside if isinstance(node, ast.If) and _leaves(node))]
        found = self.names_from_atomics(inside)
        return any(self.depends(test, found) for test in ends)

    def names_from_atomics(self, inside):
        "Return the names whose values come from atomics, as far as the nodes of a loop show"
        names = set()
        more = True
        while more:
            n = len(names)
            for node in inside:
                if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                    if self.depends(node.value, names):
                        names |= _names(node.targets if isinstance(node, ast.Assign) else [node.target])
            more = len(names) > n
        return names

    def depends(self, node, names):
        "Return whether the value of `node` comes from one of `names`, or from an atomic operation"
        if any(isinstance(inner, ast.Name) and inner.id in names or _is_atomic(inner) for inner in walk(node)):
            return True
        return any(_has_atomic(r, t) for r, t in self.device_functions(node))

    def device_functions(self, node):
        "Yield a reader and the tree of each device function that is called in `node`"
        for sub in walk(node):
            f = getattr(self.value(sub.func), 'py_func', None) if isinstance(sub, ast.Call) else None
            if f is not None and f not in self.seen and (tree := tree_of(f)):
                yield _Reader(f, self.seen | {f}), tree

    def value(self, node):
        "Return what a name, or a name of a module or class, refers to; None for a local variable"
        if isinstance(node, ast.Attribute):
            of = self.value(node.value)
            return getattr(of, node.attr, None) if isinstance(of, _HAVE_FUNCTIONS) else None
        name = node.id if isinstance(node, ast.Name) else None
        if name not in self.closure:
            return self.f.__globals__.get(name)
        try:
            return self.closure[name].cell_contents
        except ValueError:
            return None


def _is_atomic(node):
    "Return whether it is `atomic.add`, or `cuda.atomic.add`"
    return isinstance(node, ast.Attribute) and 'atomic' in (getattr(node.value, k, '') for k in ('id', 'attr'))


def _has_atomic(reader, tree):
    return any(map(_is_atomic, walk(tree))) or any(_has_atomic(r, t) for r, t in reader.device_functions(tree))


def _idles(s):
    "Return whether it is a statement that only passes the time"
    call = s.value if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) else None
    return isinstance(s, ast.Pass) or call is not None and getattr(call.func, 'attr', '') in _IDLE


def _leaves(branch):
    return any(isinstance(node, (ast.Break, ast.Return)) for node in walk(branch))


def _names(targets):
    return {node.id for t in targets for node in walk(t) if isinstance(node, ast.Name)}
