"""Reads the source of a function that was defined in a file, in a notebook cell, or in text in `linecache`."""

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
    first_line: int  # its number in the file
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
    f = inspect.unwrap(f)  # `getsourcelines` does this too, but `getsourcefile` does not
    return _read_code(getattr(f, '__code__', f)) or _read_by_inspect(f)


_FUNCTION_LINE = re.compile(r'\s*(?:async\s+)?def\s|\s*@|.*\blambda\b')


def _read_code(code):
    """Read the source of a code object; None if only `inspect` can read it.

    For a cell or a text, `inspect` searches all modules, which takes longer than rewriting a small kernel."""
    if not isinstance(code, CodeType):
        return None
    file = code.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file) if file in linecache.cache or os.path.exists(file) else []
    first_index = code.co_firstlineno - 1
    if not (0 <= first_index < len(lines) and _FUNCTION_LINE.match(lines[first_index])):
        return None
    return FunctionSource(_function_lines(first_index, lines, file), first_index + 1, file)


_cached_functions = {}  # (file, index of the first line) -> (lines of the file, lines of the function)


def _function_lines(first_index, lines, file):
    "Return the lines of the function that begins at `lines[first_index]`; cached, because finding its end is slow"
    cached = _cached_functions.get((file, first_index))
    if not cached or cached[0] is not lines:
        cached = _cached_functions[file, first_index] = lines, inspect.getblock(lines[first_index:])
    return [*cached[1]]


def _read_by_inspect(f):
    try:
        lines, first_line = inspect.getsourcelines(f)
    except (OSError, TypeError):
        name = getattr(f, '__name__', None) or repr(f)
        raise SourceMissing(f'the source of {name} cannot be read; define it in a file or in a notebook cell') from None
    return FunctionSource(lines, first_line, inspect.getsourcefile(f) or getattr(f, '__code__', f).co_filename)


def tree_of(f) -> ast.Module:
    "Parse the source of `f`; None if it cannot be read or parsed (a lambda's line may be a part of a statement)"
    try:
        return ast.parse(source_of(f).text)
    except (SourceMissing, SyntaxError):
        return None


def lambdas_like(tree, f):
    "Return the lambdas in `tree` that have the same parameters as the lambda `f`"
    names = f.__code__.co_varnames[: f.__code__.co_argcount]
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    return [node for node in lambdas if tuple(arg.arg for arg in node.args.posonlyargs + node.args.args) == names]


def lambda_text(f) -> str:
    "Return the source of the lambda `f`, found by its line and its bytecode; raises `ValueError` if several match"
    source = ''.join(inspect.findsource(f)[0])
    line = f.__code__.co_firstlineno
    lambdas = [node for node in lambdas_like(ast.parse(source), f) if node.lineno == line]
    texts = {text for node in lambdas if (text := ast.get_source_segment(source, node))}
    matches = [text for text in texts if _has_same_bytecode(compile(text, 'lambda', 'eval'), f.__code__)]
    if len(matches) != 1:
        raise ValueError(f'line {line} has {len(lambdas)} similar lambdas. Define the function with def')
    return matches[0]


def _has_same_bytecode(expression, code):
    "Return whether the lambda in a compiled expression has the instructions and names of `code`"
    lambda_code = next(c for c in expression.co_consts if hasattr(c, 'co_code'))
    return (lambda_code.co_code, lambda_code.co_names, lambda_code.co_varnames) == (
        code.co_code,
        code.co_names,
        code.co_varnames,
    )
