"""The tokens of CUDA C: words, numbers, strings, operators and preprocessor lines, each with its place.

Comments, strings and preprocessor lines are what every search for `<<<`, `__shared__` or a `{` has to pass
over. Nothing here knows any grammar but that.
"""

import math
import re
from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple

from ..shown import ShownBriefly


class Token(NamedTuple):
    "`src[start:end]`; its kind is 'string', 'number', 'word', 'op' or 'directive', which is a whole preprocessor line"

    kind: str
    text: str
    start: int
    end: int
    likely: bool = None  # of a line that begins a branch: is that probably compiled? None: unknown


# `>` is always a token of its own: whether `>>>` closes a launch, three templates, or one template and a
# shift is known only later. A quote between digits belongs to the number, as in 1'000.
_SPACE = r'(?: \s | \ufeff | \\\r?\n | //(?:\\\r?\n|[^\n])* | /\*.*?\*/ )+'
_STRING = r"""(?:u8|[uUL])?
      (?: R"(?P<fence>[^()\s\\]*)\(.*?\)(?P=fence)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+' ) \w*"""
_NUMBER, _WORD = r"\.?\d (?: [eEpP][+-] | '?\w | \. )*", r'[^\W\d]\w*'
_TOKEN = re.compile(
    rf"""
    (?P<space> {_SPACE} ) | (?P<string> {_STRING} ) | (?P<number> {_NUMBER} ) | (?P<word> {_WORD} )
  | (?P<op>     <<<(?!<) | <<=? | <=>? | >= | -> | :: | \#\# | \.\.\. | && | \|\| | /\* | [-+*/%&|^!=]= | . )
""",
    re.X | re.S,
)
_UP_TO_HASH = re.compile(rf'(?: {_SPACE} | (?P<last> {_STRING} | {_NUMBER} | {_WORD} | (?!/\*)[^#] ) )*', re.X | re.S)

# a preprocessor line, with the lines that continue it
_DIRECTIVE = re.compile(
    r"""\# (?: \\\r?\n | "(?:\\.|[^"\\\n])*" | /\*.*?\*/ | //(?:\\\r?\n|[^\n])* | [^\n] )*""", re.X | re.S
)
_LINE = re.compile(r'^[ \t]*#[ \t]*(?:line[ \t]+)?(\d+).*\n', re.M)


def tokens(
    src: str,  # CUDA C
    start=0,
    end=None,
    macro=False,  # is this a macro's body, in which `#` makes strings and begins no preprocessor line?
):
    "Generator of the `Token`s of `src[start:end]`; `WrongSource` for a comment that is never closed"
    end, begins = len(src) if end is None else end, start == 0  # begins: does a line begin here, but for spaces?
    while start < end:
        for m in _TOKEN.finditer(src, start, end):
            kind, text = m.lastgroup, m[0]
            if kind == 'space':
                begins = begins or '\n' in text
                continue
            if text[0] == '#' and begins and not macro:
                m = _DIRECTIVE.match(src, m.start(), end)
                yield Token('directive', m[0], *m.span())
                break
            if text == '/*':
                raise error_at(WrongSource, 'this comment is never closed', src, m.start())
            yield Token(kind, text, *m.span())
            begins = False
        start, begins = m.end(), False


# A source is looked at more than once: for its headers, its kernels, and to be rewritten.
@lru_cache(4)
def tokens_of(
    src: str,  # CUDA C
) -> tuple:  # of `Token`s
    "All that `tokens` gives of `src`"
    return tuple(tokens(src))


@lru_cache(4)
def directives(
    src: str,  # CUDA C
) -> tuple:  # of `Token`s
    "The preprocessor lines of `src`, as `tokens` has them, but without looking at each of the others"
    res, at, last = [], 0, 0
    while at < len(src):
        m = _UP_TO_HASH.match(src, at)
        at, last = m.end(), max(last, m.end('last'))
        if src.startswith('/*', at):
            raise error_at(WrongSource, 'this comment is never closed', src, at)
        line = at < len(src) and (last == 0 or '\n' in src[last:at]) and _DIRECTIVE.match(src, at)
        if line:
            res.append(Token('directive', line[0], *line.span()))
        at = last = line.end() if line else at + 1
    return tuple(res)


@lru_cache(4)
def _lines(src):
    "Where the lines of `src` begin, but for the first, and (place, number) of those whose number is said"
    said = [(m.end(), int(m[1])) for m in _LINE.finditer(src)]
    return [m.end() for m in re.finditer('\n', src)], [(0, 1), *said]


def line_at(src: str, pos: int) -> int:
    "The line of `src` at `pos`, counted from 1; after a `#line` of the source, as that says"
    begins, said = _lines(src)
    start, first = said[bisect_right(said, (pos, math.inf)) - 1]
    return first + bisect_right(begins, pos) - bisect_right(begins, start)


class WrongSource(ShownBriefly, ValueError):
    "A source that is no CUDA C, or not what is wanted here; where it has a line, the message repeats it"


def error_at(kind, what: str, src: str, pos: int) -> Exception:
    "An exception of class `kind` that says `what`, with the line of `src` at `pos`"
    text = src[src.rfind('\n', 0, pos) + 1 :].split('\n', 1)[0]
    return kind(f'{what}\n  line {line_at(src, pos)}: {text.strip()}')


def literal(token: str) -> str:
    "The text that a string literal stands for"
    if m := re.fullmatch(r'R"([^(]*)\((.*)\)\1"', token, re.S):
        return m[2]
    return re.sub(r'\\(\r?\n|.)', lambda m: {'n': '\n', 't': '\t', '"': '"', '\\': '\\'}.get(m[1], ' '), token[1:-1])
