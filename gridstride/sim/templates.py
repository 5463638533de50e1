"""Code templates: short pieces of Python source as syntax trees, in which names stand for other expressions.

A tree that is made here has no source locations, or those of the kernel's node that it replaces.
"""

import ast
import functools
from functools import lru_cache

from .trees import walk

__all__ = ['call_of', 'expression', 'fill', 'statements', 'template']


def _without_locations(tree):
    "Remove the line numbers of `tree`, and return it"
    for node in walk(tree):
        for k in node._attributes:
            if hasattr(node, k):
                delattr(node, k)
    return tree


def statements(src):
    "Parse `src` to statements without line numbers"
    return _without_locations(ast.parse(src)).body


def expression(src):
    "Parse `src` to an expression without line numbers"
    if all(map(str.isidentifier, names := src.split('.'))):  # most are
        return functools.reduce(
            lambda value, name: ast.Attribute(value, name, ast.Load()), names[1:], ast.Name(names[0], ast.Load())
        )
    return fill(_expression_template(src), {}, {})


@lru_cache(1000)
def _expression_template(src):
    return _without_locations(ast.parse(src, mode='eval')).body


def call_of(f, *args):
    "Make the call of the function with the dotted name `f`, with these trees as arguments"
    return ast.Call(expression(f), list(args), [])


@lru_cache(1000)  # kernels share templates
def template(src):
    "Parse `src` to statements; the result is cached and must not be changed"
    return ast.parse(src).body


def fill(tree, parts, where):
    "Copy `tree` to the location `where`, replacing the names in `parts` by their expressions"
    kind = type(tree)
    if kind is ast.Name and tree.id in parts:
        return parts[tree.id]
    if not tree._fields and not tree._attributes:
        return tree  # a context or an operator: it has neither location nor children
    new = kind.__new__(kind)
    attributes = new.__dict__
    if kind._attributes:
        attributes.update(where)
    for name, value in tree.__dict__.items():
        if isinstance(value, ast.AST):
            attributes[name] = fill(value, parts, where)
        elif type(value) is list:
            attributes[name] = [fill(item, parts, where) if isinstance(item, ast.AST) else item for item in value]
        elif name not in attributes:
            attributes[name] = value
    return new
