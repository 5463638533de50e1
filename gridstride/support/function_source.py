"""Reads the source of a function that was defined in a file, in a notebook's cell, or in text that `linecache` has."""

import ast
import inspect
import linecache
import os
import re
from textwrap import dedent
from types import CodeType
from typing import NamedTuple

__all__ = ['FunctionSource', 'SourceMissing', 'lambda_text', 'lambdas_like', 'source_of', 'tree_of']


class SourceMissing(OSError):
    "The source of a function is not available, for example because it was typed at Python's prompt"


class FunctionSource(NamedTuple):
    "The source lines of a function or class, with its decorators"

    lines: list  # as they are in the file
    first: int  # number of the first line
    file: str

    @property
    def as_written(self):
        "The text, indented as it is in the file"
        return ''.join(self.lines)

    @property
    def text(self):
        "The text without the indentation that all lines have"
        return dedent(self.as_written)


def source_of(
    f,  # a function, class or code object
) -> FunctionSource:
    "Read the source of `f`; raises `SourceMissing`"
    f = inspect.unwrap(f)  # a decorator such as `cache`: `getsourcelines` unwraps it, `getsourcefile` does not
    return _read_code(getattr(f, '__code__', f)) or _read_by_inspect(f)


_FUNCTION = re.compile(r'\s*(?:async\s+)?def\s|\s*@|.*\blambda\b')


def _read_code(code):
    """Read the source of a code object; None if only `inspect` can.

    For a cell or a text, `inspect` looks at all modules, which takes longer than to rewrite a small kernel."""
    if not isinstance(code, CodeType):
        return None
    file = code.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file) if file in linecache.cache or os.path.exists(file) else []
    at = code.co_firstlineno - 1
    if not (0 <= at < len(lines) and _FUNCTION.match(lines[at])):
        return None
    return FunctionSource(_function_at(at, lines, file), at + 1, file)


_functions = {}  # (file, index of the first line) -> (lines of the file, lines of the function)


def _function_at(at, lines, file):
    "Return the lines of the function that begins at `lines[at]`; to find its end takes long, so it is remembered"
    known = _functions.get((file, at))
    if not known or known[0] is not lines:
        known = _functions[file, at] = lines, inspect.getblock(lines[at:])
    return [*known[1]]


def _read_by_inspect(f):
    try:
        lines, first = inspect.getsourcelines(f)
    except (OSError, TypeError):
        name = getattr(f, '__name__', None) or repr(f)
        raise SourceMissing(f'the source of {name} cannot be read; define it in a file or in a notebook cell') from None
    return FunctionSource(lines, first, inspect.getsourcefile(f) or getattr(f, '__code__', f).co_filename)


def tree_of(f) -> ast.Module:
    "Parse the source of `f`; None if it cannot be read, or is a part of a statement, as the line of a lambda may be"
    try:
        return ast.parse(source_of(f).text)
    except (SourceMissing, SyntaxError):
        return None


def lambdas_like(tree, f):
    "Return the lambdas in `tree` that have the parameters of `f`: one of them is `f`, if the text is its source"
    names = f.__code__.co_varnames[: f.__code__.co_argcount]
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    return [o for o in lambdas if tuple(arg.arg for arg in o.args.posonlyargs + o.args.args) == names]


def lambda_text(f) -> str:
    "Return the source of the lambda `f`, found by its line and its bytecode; raises `ValueError` if several match"
    source = ''.join(inspect.findsource(f)[0])
    line = f.__code__.co_firstlineno
    lambdas = [node for node in lambdas_like(ast.parse(source), f) if node.lineno == line]
    texts = {text for node in lambdas if (text := ast.get_source_segment(source, node))}
    matching = [text for text in texts if _has_same_bytecode(compile(text, 'lambda', 'eval'), f.__code__)]
    if len(matching) != 1:
        what = f'line {line} has {len(lambdas)} lambdas that look alike'
        raise ValueError(f'{what}. Define the function with def')
    return matching[0]


def _has_same_bytecode(expression, code):
    "Return whether the lambda in a compiled expression has the instructions and names of `code`"
    inner = next(c for c in expression.co_consts if hasattr(c, 'co_code'))
    return (inner.co_code, inner.co_names, inner.co_varnames) == (code.co_code, code.co_names, code.co_varnames)
