"""Edits of a source that keep every token on its line."""

from operator import itemgetter

from .code import Code
from .reader import Source
from .tokens import error_at, splice
from ...support.short_tracebacks import ShownBriefly


class NotEmulated(ShownBriefly, NotImplementedError):
    "A feature of GPUs that the emulator does not have; the message quotes the line"


class Edits:
    """A `Code` and the edits to it; `source` is the whole source, `pointers` the pointer parameters of its kernels.

    `shared`: name -> bounds of the `__device__` variables that several files share."""

    def __init__(self, code: Code, source: Source, pointers: dict, shared=()):
        self.code = code
        self.literals = source.literals
        self.macros = source.macros
        self.shared = dict(shared)
        self.launchers = source.launchers
        self.pointers = pointers  # kernel -> which of its parameters are pointers, by their index
        self.made = []  # (start, end, text)
        self.plain = False  # do the device's variables stay what they are in C++?

    def replace(self, start: int, end: int, text=''):
        "Record that `src[start:end]` becomes `text`, and the line ends that were in it"
        c = self.code
        if c.is_cut(start, end):
            what = 'the emulator cannot read a preprocessor line in the middle of this'
            raise error_at(NotEmulated, what, c.src, start)
        line_end = '\n' if c.macro is None else '\\\n'
        self.made.append((start, end, text + line_end * c.src.count('\n', start, end)))

    def replace_tokens(self, i: int, j: int, text: str):
        "Record that the tokens from `i` to `j`, both included, become `text`"
        self.replace(self.code.start(i), self.code.end(j), text)

    def insert(self, pos: int, text: str):
        "Record that `text` is inserted before `src[pos]`"
        self.replace(pos, pos, text)

    def paste(self, prefix: str) -> str:
        "Return `prefix` as it is put before a name: in a macro the name may be a parameter"
        return prefix if self.code.macro is None else f'{prefix}##'

    def quote(self, name: str) -> str:
        "Return C++ for the name of a variable as a string"
        return f'"{name}"' if self.code.macro is None else f'GRIDSTRIDE_NAME({name})'


def apply(src: str, edits: list) -> str:
    "Apply `edits`, (start, end, text), to `src`; one inside another is dropped"
    return _apply(src, _outermost(edits))


def apply_to_read(src: str, edits: list) -> str:
    "Apply `edits` to a source whose tokens are known, for a result that will be read"
    edits = _outermost(edits)
    res = _apply(src, edits)
    if edits:
        splice(src, edits, res)
    return res


def _outermost(edits: list) -> list:
    "Sort `edits` and drop those inside another"
    res, at = [], 0
    for e in sorted(edits, key=itemgetter(0, 1)):
        if e[0] >= at:
            res.append(e)
            at = e[1]
    return res


def _apply(src, edits):
    res, at = [], 0
    for start, end, text in edits:
        res += [src[at:start], text]
        at = end
    return ''.join(res) + src[at:]
