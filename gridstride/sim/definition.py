"""The `def` of a kernel, in fewer forms: a `lambda` becomes a `def`, and the `else` of a loop an `if` after the loop.

for i in range(n):                  broke = False
    if x[i] == 0: break             for i in range(n):
else: out[0] = 1                        if x[i] == 0: broke = True; break
                                    if not broke: out[0] = 1
"""

import ast

from .trees import settle, walk

__all__ = ['definition']

_LOOPS = ast.For, ast.While


def definition(
    source,  # the lines where a function is made
    f,  # the function
):
    "Return the `def` of `f` as a syntax tree; None if its source has none"
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    made = _lambda(tree, f) if f.__name__ == '<lambda>' else tree.body[0]
    if not isinstance(made, ast.FunctionDef):
        return None
    taken = {node.id for node in walk(made) if isinstance(node, ast.Name)}
    return _WithoutElse(taken | {node.arg for node in walk(made) if isinstance(node, ast.arg)}).visit(made)


def _lambda(tree, f):
    "Convert the `lambda` that is `f` to a `def`; None if these lines have none, or several with the same parameters"
    names = f.__code__.co_varnames[: f.__code__.co_argcount]
    found = [node for node in walk(tree) if isinstance(node, ast.Lambda)]
    found = [fn for fn in found if tuple(a.arg for a in fn.args.args) == names]
    if len(found) != 1:
        return None
    body = ast.copy_location(ast.Return(found[0].body), found[0].body)
    made = ast.FunctionDef('lambda_', found[0].args, [body], [])
    return settle(ast.copy_location(made, found[0]))


class _WithoutElse(ast.NodeTransformer):
    "Rewrites loops with `else`, inner loops first; `taken`: names that the tree uses"

    def __init__(self, taken):
        self.taken = taken

    def fresh(self):
        "Return an unused name"
        name = next(
            candidate
            for n in range(1, len(self.taken) + 2)
            if (candidate := f'broke{n if n > 1 else ""}') not in self.taken
        )
        self.taken.add(name)
        return name

    def visit_For(self, loop):
        self.generic_visit(loop)
        if not loop.orelse:
            return loop
        last = loop.orelse
        loop.orelse = []
        found = _breaks(loop.body)
        if not found:
            return [loop, *last]  # no lane leaves early
        name = self.fresh()
        for body, at in found:
            body.insert(at, _set(name, True, body[at]))
        no = ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load()))
        return [_set(name, False, loop), loop, _at(last[0], ast.If(no, last, []))]

    visit_While = visit_For


def _at(node, new):
    "Return `new`, with the location of `node` for the parts that have none"
    for sub in walk(new):
        if not hasattr(sub, 'lineno'):
            sub.lineno = sub.end_lineno = node.lineno
            sub.col_offset = sub.end_col_offset = node.col_offset
    return new


def _set(name, value, node):
    return _at(node, ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value)))


def _breaks(body):
    "Yield (statements, index of a `break` in them) of all that leave the loop with this body, the last ones first"
    res = []
    for at in reversed(range(len(body))):
        s = body[at]
        if isinstance(s, ast.Break):
            res.append((body, at))
        elif not isinstance(s, _LOOPS):
            for part in ('orelse', 'body'):
                res += _breaks(getattr(s, part, []))
    return res
