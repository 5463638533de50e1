"""Finds out whether an index depends on the thread, such as `i - 1` after `i = cuda.grid(1)`.

In a launch of several threads such an index has a value per lane. With one lane every value is a scalar, so only the
source shows it. The analysis follows assignments within a function; it assumes that parameters do not depend on the
thread.
"""

import ast

from .trees import walk

__all__ = ['index_depends_on_thread']

_THREAD_DEPENDENT_NAMES = {'threadIdx', 'blockIdx', 'grid', 'laneid', 'atomic'}


def index_depends_on_thread(
    function,  # its `def`, a syntax tree
    line,  # of the access, counted from the `def`'s source
    col,
) -> bool:
    "Return whether the index of an access in a function depends on the thread that executes it"
    names = _dependent_names(function)
    indices = [node for access in walk(function) if _is_at(access, line, col) for node in _indices(access)]
    return any(_depends(index, names) for index in indices)


def _is_at(node, line, col):
    return getattr(node, 'lineno', None) == line and node.col_offset == col


def _indices(access):
    "Return the index of `x[i]` or of `cuda.atomic.add(x, i, 1)`, in a list"
    if isinstance(access, ast.Subscript):
        return [access.slice]
    return access.args[1:2] if isinstance(access, ast.Call) else []


def _depends(node, names):
    "Return whether an expression contains one of `names`, or a name whose value differs between threads"
    names_in_node = {getattr(inner, 'attr', getattr(inner, 'id', None)) for inner in walk(node)}
    return bool(names_in_node & (names | _THREAD_DEPENDENT_NAMES))


def _dependent_names(function):
    "Return the variables whose values depend on the thread: a fixed point over the assignments"
    flows = [flow for node in walk(function) if (flow := _flow(node))]
    names = set()
    while new_names := {name for value, targets in flows if _depends(value, names) for name in targets} - names:
        names |= new_names
    return names


def _flow(node):
    "Return (expression, variables that depend on it) for an assignment, a loop or a branch; None for other nodes"
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        return node.value, _base_names(node.targets if isinstance(node, ast.Assign) else [node.target])
    if isinstance(node, ast.For):
        return node.iter, _base_names([node.target, *node.body])
    if isinstance(node, (ast.If, ast.While)):
        return node.test, _base_names([*node.body, *node.orelse])
    return None


def _base_names(nodes):
    "Return the variables to which `nodes` assign, and the arrays to whose elements they assign"
    targets = [inner for node in nodes for inner in walk(node) if isinstance(getattr(inner, 'ctx', None), ast.Store)]
    while any(isinstance(target, (ast.Subscript, ast.Attribute)) for target in targets):
        targets = [target.value if isinstance(target, (ast.Subscript, ast.Attribute)) else target for target in targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}
