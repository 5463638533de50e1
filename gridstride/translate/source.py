"""Reads the source of a kernel: its syntax tree, comments, and captured values; makes errors that point at a line."""

import builtins
import inspect
import io
import re
import tokenize

from ..diagnostics.errors import KernelError
from ..sim.definition import definition
from ..support.function_source import SourceMissing, source_of


class Untranslatable(KernelError, NotImplementedError):
    """Raised for a construct in a kernel that `to_cuda` cannot express in CUDA C.

    The message has the construct, its line, the reason and a hint. `construct` describes it; `kernel`, `file`, `line`
    and `source` (the source line) are its location.
    """

    kind = 'not translated'

    def __init__(self, construct, hint='', source='', **location):
        super().__init__(construct, hint, source=source, **location)
        self.construct, self.source = construct, source


def python_function(kernel_or_function):
    "Return the Python function that a decorator such as `cuda.jit` wraps"
    return getattr(kernel_or_function, 'py_func', kernel_or_function)


class Source:
    "The source of a Python function: its `tree`, `lines`, `comments` and `blank_lines`; looks up names outside it"

    def __init__(self, function):
        self.function, self.name = function, getattr(function, '__name__', '?')
        if not inspect.isfunction(function):
            raise Untranslatable(
                f'{function!r} is of type {type(function).__name__}, so it is not a kernel',
                'Pass a function defined with def, with or without @cuda.jit.',
            )
        try:
            source = source_of(function)
        except SourceMissing:
            raise Untranslatable(
                f'the source of {self.name} cannot be read',
                'Define it in a file or in a notebook cell.',
                kernel=self.name,
            ) from None
        self.file = source.file
        self.first_line = source.first_line
        self.lines = source.text.splitlines()
        self.tree = definition(source.text, function)
        if self.tree is None:
            raise Untranslatable(f'{self.name} is not defined with def', 'Define it with def.', kernel=self.name)
        self.name = self.tree.name
        self.comments, self.blank_lines = _find_comments(source.text)

    def segment(self, node):
        "Return the source of a node of the tree, which must be on one line"
        line = self.lines[node.lineno - 1].encode()  # columns count bytes
        return line[node.col_offset : node.end_col_offset].decode()

    def text(self, line):
        "Return a line of the function, without its indentation"
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ''

    def error(self, node, construct, hint=''):
        "Return an `Untranslatable` that points at `node`"
        return Untranslatable(
            construct,
            hint,
            kernel=self.name,
            file=self.file,
            line=node.lineno + self.first_line - 1,
            source=self.text(node.lineno),
        )

    def look_up(self, name):
        "Return (whether the name is defined outside the function, its value)"
        function = self.function
        for free_name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if free_name == name:
                try:
                    return True, cell.cell_contents
                except ValueError:
                    return False, None
        for namespace in (function.__globals__, vars(builtins)):
            if name in namespace:
                return True, namespace[name]
        return False, None


def _find_comments(text):
    "Return ({line: (column, comment, whether the line has no code)}, {blank line})"
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            comment = re.sub(r'^#+:? ?', '', token.string).rstrip()
            comments[line] = column, comment, not token.line[:column].strip()
    return comments, {number for number, line in enumerate(text.splitlines(), 1) if not line.strip()}
