"""Records edits of a source, and applies them so that every token stays on its line."""

from operator import itemgetter

from .code import Code
from .reader import Source
from .tokens import error_at, cache_lexemes
from ...support.short_tracebacks import ShortTracebackError


class NotEmulated(ShortTracebackError, NotImplementedError):
    "The source uses a GPU feature that the emulator does not support; the message quotes the line"


class Edits:
    """A `Code` and its edits. `source` is the whole source; `code` may be the body of one of its macros.

    `pointers`: kernel -> the indices of its parameters that are pointers. `shared`: name -> bounds of the `__device__`
    variables that several files of the program access. `is_header`: whether an unknown instruction of inline PTX is
    reported only when a kernel executes it."""

    def __init__(self, code: Code, source: Source, pointers: dict, shared=(), is_header=False):
        self.is_header = is_header
        self.code = code
        self.literals = source.literals
        self.macros = source.macros
        self.shared = dict(shared)
        self.launchers = source.launchers
        self.pointers = pointers
        self.edits = []  # (start, end, text)
        self.parameter_lists = set()  # names of the kernels for which `launches` has declared a list of parameter types
        self.has_plain_variables = False  # whether some device variables remain ordinary C++ variables

    def replace(self, start: int, end: int, text=''):
        "Record that `text` replaces `src[start:end]`; its line ends are kept, so that no line number changes"
        code = self.code
        if code.contains_directive(start, end):
            message = 'the emulator cannot parse a preprocessor directive inside this statement or declaration'
            raise error_at(NotEmulated, message, code.src, start)
        line_end = '\n' if code.macro is None else '\\\n'
        self.edits.append((start, end, text + line_end * code.src.count('\n', start, end)))

    def replace_tokens(self, i: int, j: int, text: str):
        "Record that `text` replaces the tokens from `i` to `j`, inclusive"
        self.replace(self.code.start(i), self.code.end(j), text)

    def insert(self, pos: int, text: str):
        "Record that `text` is inserted before `src[pos]`"
        self.replace(pos, pos, text)

    def prefix_for_name(self, prefix: str) -> str:
        "Return `prefix` for use before a name, with `##` in a macro, where the name may be a parameter"
        return prefix if self.code.macro is None else f'{prefix}##'

    def quote(self, name: str) -> str:
        "Return C++ code for the name of a variable as a string"
        return f'"{name}"' if self.code.macro is None else f'GRIDSTRIDE_NAME({name})'


def apply(src: str, edits: list) -> str:
    "Apply `edits`, (start, end, text), to `src`; an edit inside another one is dropped"
    return _apply(src, _outermost_edits(edits))


def apply_to_tokenized(src: str, edits: list) -> str:
    "Apply `edits` to `src`, and cache the tokens of the result, most of which are those of `src`"
    edits = _outermost_edits(edits)
    edited_src = _apply(src, edits)
    if edits:
        cache_lexemes(src, edits, edited_src)
    return edited_src


def _outermost_edits(edits: list) -> list:
    "Sort `edits` and drop those inside another"
    outermost_edits = []
    last_end = 0
    for edit in sorted(edits, key=itemgetter(0, 1)):
        if edit[0] >= last_end:
            outermost_edits.append(edit)
            last_end = edit[1]
    return outermost_edits


def _apply(src, edits):
    parts = []
    num_copied = 0  # characters of `src` that were copied or replaced
    for start, end, text in edits:
        parts += [src[num_copied:start], text]
        num_copied = end
    return ''.join(parts) + src[num_copied:]
