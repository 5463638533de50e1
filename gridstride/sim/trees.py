"Walks Python's syntax trees in a third of the time that `ast` takes, which each kernel's first launch waits for."

import ast

__all__ = ['children', 'settle', 'walk']


def children(
    node,  # of a syntax tree
) -> list:  # of nodes
    "Return what `ast.iter_child_nodes` yields"
    found = []
    has = node.__dict__
    for name in node._fields:
        value = has.get(name)
        if isinstance(value, ast.AST):
            found.append(value)
        elif type(value) is list:
            found += [x for x in value if isinstance(x, ast.AST)]
    return found


def walk(tree) -> list:  # of nodes
    "Return what `ast.walk` yields"
    found = [tree]
    for node in found:
        if node._fields:
            found += children(node)
    return found


def settle(
    tree,
    more=0,  # lines
):
    """Give the parts of `tree` without a location that of their parent, and move all of it down by `more` lines, as
    `ast.fix_missing_locations` and `ast.increment_lineno`"""
    todo = [(tree, 1, 0, 1, 0)]
    while todo:
        node, line, column, end, end_column = todo.pop()
        if node._attributes:
            has = node.__dict__
            line, column = has.get('lineno', line), has.get('col_offset', column)
            end = has.get('end_lineno') or end
            if has.get('end_col_offset') is not None:
                end_column = has['end_col_offset']
            has.update(lineno=line + more, col_offset=column, end_lineno=end + more, end_col_offset=end_column)
        if node._fields:
            todo += [(child, line, column, end, end_column) for child in children(node)]
    return tree
