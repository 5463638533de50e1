"""Reads the source of a function that was defined in a file, in a notebook cell, or in a source in `linecache`.

Source that was passed to `exec` or `compile` is in none of these; `recorded_sources` records it."""

import ast
import builtins
import functools
import inspect
import linecache
import os
import re
import sys
from collections import deque
from contextlib import contextmanager
from itertools import takewhile
from textwrap import dedent
from types import CodeType
from typing import NamedTuple

__all__ = ['FunctionSource', 'SourceMissing', 'lambda_text', 'lambdas_like', 'recorded_sources', 'source_of', 'tree_of']


class SourceMissing(OSError):
    "The source of a function is not available, for example because it was typed at Python's prompt"


class FunctionSource(NamedTuple):
    "The source lines of a function or class, with its decorators"

    lines: list  # as they are in the file
    first_line: int  # its number in the file
    file: str

    @property
    def as_written(self):
        "The source, indented as in the file"
        return ''.join(self.lines)

    @property
    def text(self):
        "The source without the indentation that all lines share"
        return dedent(self.as_written)


def source_of(
    fn,  # a function, class or code object
) -> FunctionSource:
    "Read the source of `fn`; raises `SourceMissing`"
    fn = inspect.unwrap(fn)  # `getsourcelines` does this too, but `getsourcefile` does not
    code = getattr(fn, '__code__', fn)
    return _read_code(code) or _read_recorded(code) or _read_by_inspect(fn)


_FUNCTION_LINE = re.compile(r'\s*(?:async\s+)?def\s|\s*@|.*\blambda\b')


def _read_code(code):
    """Read the source of a code object; None if only `inspect` can read it.

    For a notebook cell, `inspect` searches all modules, which takes longer than rewriting a small kernel."""
    if not isinstance(code, CodeType):
        return None
    file = code.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file) if file in linecache.cache or os.path.exists(file) else []
    first_index = code.co_firstlineno - 1
    if not (0 <= first_index < len(lines) and _FUNCTION_LINE.match(lines[first_index])):
        return None
    return FunctionSource(_function_lines(first_index, lines, file), first_index + 1, file)


_recorded_sources = deque(maxlen=4096)  # (source, its code object) passed to `exec` or `compile`; the newest is last
_compile, _exec = compile, exec
_FUTURE_FLAGS = 0x1FE0000  # the flags of a code object that `from __future__` sets


def _record(source, code):
    "Record a source without a file if it defines functions; returns its code object"
    if isinstance(source, str) and isinstance(code, CodeType) and code.co_filename.startswith('<'):
        if 'def ' in source or 'lambda' in source:
            _recorded_sources.append((source, code))
    return code


def _compile_and_record(source, filename, mode, flags=0, dont_inherit=False, *args, **options):
    "Compile as the builtin does, with the `__future__` statements of the caller, and record the source"
    inherited = 0 if dont_inherit else sys._getframe(1).f_code.co_flags & _FUTURE_FLAGS
    return _record(source, _compile(source, filename, mode, flags | inherited, True, *args, **options))


def _exec_and_record(source, globals=None, locals=None, /, **options):
    "Execute as the builtin does, in the namespace of the caller if none is given, and record the source"
    __tracebackhide__ = True  # pytest imports test modules with `exec`: their tracebacks must not show this frame
    caller = sys._getframe(1)
    if isinstance(source, str):
        source = _record(source, _compile(source, '<string>', 'exec', caller.f_code.co_flags & _FUTURE_FLAGS, True))
    if globals is None:
        globals, locals = caller.f_globals, caller.f_locals if locals is None else locals
    return _exec(source, globals, locals, **options)


@contextmanager
def recorded_sources():
    "Record the source of functions that `exec` or `compile` define in the `with` block, so that it can be read"
    original = builtins.compile, builtins.exec
    builtins.compile, builtins.exec = _compile_and_record, _exec_and_record
    try:
        yield
    finally:
        builtins.compile, builtins.exec = original


@functools.lru_cache(1)
def _command_line_source():
    "Return [(source, its code object)] of the program that `python -c` runs; [] if there is none"
    options = [*takewhile(lambda option: option.startswith('-'), sys.orig_argv[1:])]
    if not options or options[-1] != '-c':
        return []
    source = sys.orig_argv[1 + len(options)]
    return [(source, _compile(source, '<string>', 'exec', 0, True))]


def _read_recorded(code):
    "Read the source of a code object from the recorded sources, and add it to `linecache`; None if absent"
    if not isinstance(code, CodeType) or not code.co_filename.startswith('<'):
        return None
    for n, (source, outer_code) in reversed([*enumerate([*_command_line_source(), *_recorded_sources])]):
        if outer_code.co_filename == code.co_filename and code.co_name in source and _contains(outer_code, code):
            name = f'{code.co_filename[:-1]} {n}>'
            lines = source.splitlines(True)
            linecache.cache[name] = len(source), None, lines, name
            first_index = code.co_firstlineno - 1
            return FunctionSource(_function_lines(first_index, lines, name), first_index + 1, name)
    return None


def _contains(outer, code):
    "Return whether a code object defines another one, at any depth"
    pending = [outer]
    while pending:
        constants = [c for c in pending.pop().co_consts if isinstance(c, CodeType)]
        if code in constants:
            return True
        pending += constants
    return False


_cached_functions = {}  # (file, index of the first line) -> (lines of the file, lines of the function)


def _function_lines(first_index, lines, file):
    "Return the lines of the function that begins at `lines[first_index]`; cached, because finding its end is slow"
    cached = _cached_functions.get((file, first_index))
    if not cached or cached[0] is not lines:
        cached = _cached_functions[file, first_index] = lines, inspect.getblock(lines[first_index:])
    return [*cached[1]]


def _read_by_inspect(fn):
    try:
        lines, first_line = inspect.getsourcelines(fn)
    except (OSError, TypeError):
        name = getattr(fn, '__name__', None) or repr(fn)
        raise SourceMissing(f'the source of {name} cannot be read; define it in a file or in a notebook cell') from None
    return FunctionSource(lines, first_line, inspect.getsourcefile(fn) or getattr(fn, '__code__', fn).co_filename)


def tree_of(fn) -> ast.Module:
    "Parse the source of `fn`; None if it cannot be read or parsed (a lambda's line may be a part of a statement)"
    try:
        return ast.parse(source_of(fn).text)
    except (SourceMissing, SyntaxError):
        return None


def lambdas_like(tree, fn):
    "Return the lambdas in `tree` that have the same parameters as the lambda `fn`"
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    return [node for node in lambdas if tuple(arg.arg for arg in node.args.posonlyargs + node.args.args) == names]


def lambda_text(fn) -> str:
    "Return the source of the lambda `fn`, found by its line and its bytecode; raises `ValueError` if several match"
    source = ''.join(inspect.findsource(fn)[0])
    line = fn.__code__.co_firstlineno
    lambdas = [node for node in lambdas_like(ast.parse(source), fn) if node.lineno == line]
    texts = {text for node in lambdas if (text := ast.get_source_segment(source, node))}
    matches = [text for text in texts if _has_same_bytecode(compile(text, 'lambda', 'eval'), fn.__code__)]
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
