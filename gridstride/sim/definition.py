"""Reads the `def` of a kernel, and simplifies it: a `lambda` becomes a `def`, and the `else` of a loop becomes an `if`
after it.

for i in range(n):                  broke = False
    if x[i] == 0: break             for i in range(n):
else: out[0] = 1                        if x[i] == 0: broke = True; break
                                    if not broke: out[0] = 1
"""

import ast

from ..support.function_source import lambdas_like
from .trees import fix_locations, walk

__all__ = ['definition']

_LOOPS = ast.For, ast.While


def definition(
    source,  # the lines that define a function
    fn,  # the function
):
    "Return the `def` of `fn` as a syntax tree, without `else` of loops; None if there is none"
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    function = _lambda_as_def(tree, fn) if fn.__name__ == '<lambda>' else tree.body[0]
    if not isinstance(function, ast.FunctionDef):
        return None
    names = {node.id for node in walk(function) if isinstance(node, ast.Name)}
    return _LoopElseRewriter(names | {node.arg for node in walk(function) if isinstance(node, ast.arg)}).visit(function)


def _lambda_as_def(tree, fn):
    "Convert the `lambda` that defines `fn` to a `def`; None unless exactly one in `tree` has the parameters of `fn`"
    lambdas = lambdas_like(tree, fn)
    if len(lambdas) != 1:
        return None
    body = ast.copy_location(ast.Return(lambdas[0].body), lambdas[0].body)
    function = ast.FunctionDef('lambda_', lambdas[0].args, [body], [])
    return fix_locations(ast.copy_location(function, lambdas[0]))


class _LoopElseRewriter(ast.NodeTransformer):
    "Rewrites loops with `else`, inner loops first; `used_names` are the names that the tree contains"

    def __init__(self, used_names):
        self.used_names = used_names

    def fresh_name(self):
        "Return an unused name"
        name = next(
            candidate
            for n in range(1, len(self.used_names) + 2)
            if (candidate := f'broke{n if n > 1 else ""}') not in self.used_names
        )
        self.used_names.add(name)
        return name

    def visit_For(self, loop):
        self.generic_visit(loop)
        if not loop.orelse:
            return loop
        else_body = loop.orelse
        loop.orelse = []
        breaks = _breaks(loop.body)
        if not breaks:
            return [loop, *else_body]  # no lane leaves early
        name = self.fresh_name()
        for body, index in breaks:
            body.insert(index, _assign_constant(name, True, body[index]))
        not_broken = ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load()))
        return [
            _assign_constant(name, False, loop),
            loop,
            _with_location(else_body[0], ast.If(not_broken, else_body, [])),
        ]

    visit_While = visit_For


def _with_location(node, tree):
    "Copy the location of `node` to the nodes of `tree` that have none; returns `tree`"
    for subtree_node in walk(tree):
        if not hasattr(subtree_node, 'lineno'):
            subtree_node.lineno = subtree_node.end_lineno = node.lineno
            subtree_node.col_offset = subtree_node.end_col_offset = node.col_offset
    return tree


def _assign_constant(name, value, node):
    return _with_location(node, ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value)))


def _breaks(body):
    "Return (statements, index in them) of each `break` that leaves the loop with this body, from last to first"
    breaks = []
    for index in reversed(range(len(body))):
        statement = body[index]
        if isinstance(statement, ast.Break):
            breaks.append((body, index))
        elif not isinstance(statement, _LOOPS):
            for field in ('orelse', 'body'):
                breaks += _breaks(getattr(statement, field, []))
    return breaks
