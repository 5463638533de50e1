"""Code templates: Python snippets as syntax trees, in which some names are placeholders for expressions.

A node of the result has no source location, or the location of the kernel's node that it replaces.
"""

import ast
import functools
from functools import lru_cache

from .trees import walk

__all__ = ['call_of', 'expression', 'fill', 'statements', 'template']


def _strip_locations(tree):
    "Remove the source locations of all nodes of `tree`, and return it"
    for node in walk(tree):
        for k in node._attributes:
            if hasattr(node, k):
                delattr(node, k)
    return tree


def statements(src):
    "Parse `src` to statements without line numbers"
    return _strip_locations(ast.parse(src)).body


def expression(src):
    "Parse `src` to an expression without line numbers"
    if all(map(str.isidentifier, names := src.split('.'))):  # such as `__run` or `__gs.load`, which are most frequent
        return functools.reduce(
            lambda value, name: ast.Attribute(value, name, ast.Load()), names[1:], ast.Name(names[0], ast.Load())
        )
    return fill(_expression_template(src), {}, {})


@lru_cache(1000)
def _expression_template(src):
    return _strip_locations(ast.parse(src, mode='eval')).body


def call_of(fn, *args):
    "Make a call of `fn`, a dotted name, with trees as arguments"
    return ast.Call(expression(fn), list(args), [])


@lru_cache(1000)  # kernels share templates
def template(src):
    "Parse `src` to statements; the result is cached and must not be changed"
    return ast.parse(src).body


def fill(tree, values, location):
    "Copy `tree` to a source location, with placeholders replaced by their expressions in `values`"
    node_type = type(tree)
    if node_type is ast.Name and tree.id in values:
        return values[tree.id]
    if not tree._fields and not tree._attributes:
        return tree  # a context or an operator: it has neither location nor children
    copy = node_type.__new__(node_type)
    attributes = copy.__dict__
    if node_type._attributes:
        attributes.update(location)
    for name, value in tree.__dict__.items():
        if isinstance(value, ast.AST):
            attributes[name] = fill(value, values, location)
        elif type(value) is list:
            attributes[name] = [fill(item, values, location) if isinstance(item, ast.AST) else item for item in value]
        elif name not in attributes:
            attributes[name] = value
    return copy
