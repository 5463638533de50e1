"""A kernel's source: its syntax tree, its comments, the values of its names, and errors at its lines."""

import builtins
import inspect
import io
import re
import tokenize

from ..diagnostics.errors import KernelError
from ..sim.definition import definition
from ..support.function_source import SourceMissing, source_of


class Untranslatable(KernelError, NotImplementedError):
    """Raised for a part of a kernel that `to_cuda` cannot write in CUDA C.

    The message has the part, the line, the reason and a hint; `what` is the part, and `kernel`, `file`, `line` and
    `source` (the text of the line) are the location.
    """

    kind = 'not translated'

    def __init__(self, what, hint='', source='', **where):
        super().__init__(what, hint, source=source, **where)
        self.what, self.source = what, source


def python_function(f):
    "Return the plain function under a decorator such as `cuda.jit`"
    return getattr(f, 'py_func', f)


class Source:
    "The source of a Python function: `tree`, `lines`, `comments`, `blank` lines, and the names outside it"

    def __init__(self, f):
        self.f, self.name = f, getattr(f, '__name__', '?')
        if not inspect.isfunction(f):
            raise Untranslatable(
                f'{f!r} is of type {type(f).__name__} and not a kernel',
                'Pass a function defined with def, with or without @cuda.jit.',
            )
        try:
            source = source_of(f)
        except SourceMissing:
            raise Untranslatable(
                'a kernel whose source cannot be read', 'Define it in a file or in a notebook cell.', kernel=self.name
            ) from None
        self.file = source.file
        self.first = source.first
        self.lines = source.text.splitlines()
        self.tree = definition(source.text, f)
        if self.tree is None:
            raise Untranslatable(f'{self.name} is not defined with def', 'Define it with def.', kernel=self.name)
        self.name = self.tree.name
        self.comments, self.blank = _comments(source.text)

    def segment(self, node):
        "Return the text of a node of the tree, which must be on one line"
        line = self.lines[node.lineno - 1].encode()  # columns count bytes
        return line[node.col_offset : node.end_col_offset].decode()

    def text(self, line):
        "Return a line of the function, without its indentation"
        return self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ''

    def error(self, node, what, hint=''):
        "Return an `Untranslatable` that points at `node`"
        return Untranslatable(
            what,
            hint,
            kernel=self.name,
            file=self.file,
            line=node.lineno + self.first - 1,
            source=self.text(node.lineno),
        )

    def look_up(self, name):
        "Return (is the name known outside the function, its value)"
        f = self.f
        for k, c in zip(f.__code__.co_freevars, f.__closure__ or ()):
            if k == name:
                try:
                    return True, c.cell_contents
                except ValueError:
                    return False, None
        for space in (f.__globals__, vars(builtins)):
            if name in space:
                return True, space[name]
        return False, None


def _comments(text):
    "Return ({line: (column, comment, is it alone on its line)}, the blank lines)"
    found = {}
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type == tokenize.COMMENT:
            found[t.start[0]] = t.start[1], re.sub(r'^#+:? ?', '', t.string).rstrip(), not t.line[: t.start[1]].strip()
    return found, {i for i, l in enumerate(text.splitlines(), 1) if not l.strip()}
