"""Finds out whether a kernel may spin, that is, wait for other blocks in a `while` loop that depends on atomics.

Most kernels do not spin, and their blocks run in groups, in lockstep. The blocks of a kernel that may spin run one by
one, each until it ends or spins; then the next block begins, and a block that spins stays resident (`residents`).
"""

import ast
import types

from ..support.function_source import tree_of
from .trees import walk

__all__ = ['may_spin', 'uses_this_grid']

_LOCK_OPERATIONS = 'cas', 'compare_and_swap', 'exch'
_NAMESPACES = types.ModuleType, types.SimpleNamespace, type
_IDLE_CALLS = 'nanosleep', 'threadfence', 'threadfence_block', 'threadfence_system'


def may_spin(tree, fn):
    "Return whether `fn` or a function that it calls may spin until another block writes; `tree` is the tree of `fn`"
    return _SpinAnalysis(fn).may_spin(tree, {fn})


def uses_this_grid(tree, fn):
    "Return whether `fn` or a function that it calls uses `cg.this_grid`; `tree` is the tree of `fn`"
    return _refers_to_this_grid(_SpinAnalysis(fn), tree, {fn})


def _refers_to_this_grid(analysis, tree, visited):
    if any(getattr(node, 'attr', getattr(node, 'id', '')) == 'this_grid' for node in walk(tree)):
        return True
    callees = analysis.device_functions(tree, visited)
    return any(_refers_to_this_grid(callee, callee_tree, visited) for callee, callee_tree in callees)


# A static analysis of the source. A `while` loop may wait for another block if its condition, or that of an `if` that
# leaves it, depends on a value that an atomic has returned. `names_from_atomics` follows such values through
# assignments until no name is added (a fixed point).
class _SpinAnalysis:
    "Analyses a function and the functions that it calls, each of them once: `visited` is the set of visited functions"

    def __init__(self, fn):
        closure = zip(fn.__code__.co_freevars, fn.__closure__ or ())
        self.fn, self.closure = fn, dict(closure)  # closure: name -> cell

    def may_spin(self, tree, visited):
        "Return whether the function with this tree, or one that it calls, may spin"
        loops = [node for node in walk(tree) if isinstance(node, ast.While)]
        return any(map(self.may_poll, loops)) or any(
            callee.may_spin(callee_tree, visited) for callee, callee_tree in self.device_functions(tree, visited)
        )

    def may_poll(self, loop):
        "Return whether a loop may wait for a lock, for the value of an atomic, or for an element that it polls"
        nodes = list(walk(loop))
        if any(isinstance(node, ast.Attribute) and node.attr in _LOCK_OPERATIONS for node in nodes):
            return True
        if all(map(_is_idle, loop.body)) and any(isinstance(node, ast.Subscript) for node in walk(loop.test)):
            return True
        exit_tests = [loop.test, *(node.test for node in nodes if isinstance(node, ast.If) and _leaves_loop(node))]
        names = self.names_from_atomics(nodes)
        return any(self.depends_on_atomics(test, names) for test in exit_tests)

    def names_from_atomics(self, nodes):
        "Return the variables to which the nodes of a loop assign values that depend on atomics"
        names = set()
        has_grown = True
        while has_grown:
            old_size = len(names)
            for node in nodes:
                if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                    if self.depends_on_atomics(node.value, names):
                        names |= _assigned_names(node.targets if isinstance(node, ast.Assign) else [node.target])
            has_grown = len(names) > old_size
        return names

    def depends_on_atomics(self, node, names):
        "Return whether the value of `node` depends on one of `names`, or on an atomic operation"
        if any(isinstance(inner, ast.Name) and inner.id in names or _is_atomic(inner) for inner in walk(node)):
            return True
        callees = self.device_functions(node, visited := {self.fn})
        return any(_has_atomic(callee, callee_tree, visited) for callee, callee_tree in callees)

    def device_functions(self, node, visited):
        "Yield (analysis, syntax tree) of each device function that is called in `node`, and add it to `visited`"
        for call in (inner for inner in walk(node) if isinstance(inner, ast.Call)):
            fn = getattr(self.outer_value(call.func), 'py_func', None)
            if fn is not None and fn not in visited and (tree := tree_of(fn)):
                visited.add(fn)
                yield _SpinAnalysis(fn), tree

    def outer_value(self, node):
        "Return the value of a name, `a` or `a.b`, outside the function; None for a local variable"
        if isinstance(node, ast.Attribute):
            namespace = self.outer_value(node.value)
            return getattr(namespace, node.attr, None) if isinstance(namespace, _NAMESPACES) else None
        name = node.id if isinstance(node, ast.Name) else None
        if name not in self.closure:
            return self.fn.__globals__.get(name)
        try:
            return self.closure[name].cell_contents
        except ValueError:
            return None


def _is_atomic(node):
    "Return whether a node is `atomic.add`, `cuda.atomic.add` or another atomic operation"
    return isinstance(node, ast.Attribute) and 'atomic' in (getattr(node.value, k, '') for k in ('id', 'attr'))


def _has_atomic(analysis, tree, visited):
    return any(map(_is_atomic, walk(tree))) or any(
        _has_atomic(callee, callee_tree, visited) for callee, callee_tree in analysis.device_functions(tree, visited)
    )


def _is_idle(statement):
    "Return whether a statement does nothing but wait: `pass`, a fence or `nanosleep`"
    call = statement.value if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None
    return isinstance(statement, ast.Pass) or call is not None and getattr(call.func, 'attr', '') in _IDLE_CALLS


def _leaves_loop(branch):
    return any(isinstance(node, (ast.Break, ast.Return)) for node in walk(branch))


def _assigned_names(targets):
    return {node.id for target in targets for node in walk(target) if isinstance(node, ast.Name)}
