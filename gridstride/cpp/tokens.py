"""The tokens of CUDA C: words, numbers, strings, operators and preprocessor lines, each with its place.

Comments, strings and preprocessor lines are what every search for `<<<`, `__shared__` or a `{` has to pass
over. Nothing here knows any grammar but that.
"""

import math
import re
from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple


class Token(NamedTuple):
    "`src[start:end]`; its kind is 'string', 'number', 'word', 'op' or 'directive', which is a whole preprocessor line"

    kind: str
    text: str
    start: int
    end: int
    likely: bool = None  # of a line that begins a branch: is that probably compiled? None: unknown


# `>` is always a token of its own: whether `>>>` closes a launch, three templates, or one template and a
# shift is known only later. A quote between digits belongs to the number, as in 1'000.
_TOKEN = re.compile(
    r"""
    (?P<space>  (?: \s | \ufeff | \\\r?\n | //(?:\\\r?\n|[^\n])* | /\*.*?\*/ )+ )
  | (?P<string> (?:u8|[uUL])?
      (?: R"(?P<fence>[^()\s\\]*)\(.*?\)(?P=fence)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+' ) \w* )
  | (?P<number> \.?\d (?: [eEpP][+-] | '?\w | \. )* )
  | (?P<word>   [^\W\d]\w* )
  | (?P<op>     <<<(?!<) | <<=? | <=>? | >= | -> | :: | \#\# | \.\.\. | && | \|\| | /\* | [-+*/%&|^!=]= | . )
""",
    re.X | re.S,
)

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
    "Generator of the `Token`s of `src[start:end]`; `ValueError` for a comment that is never closed"
    i, last, end = start, start, len(src) if end is None else end
    while i < end:
        first = src[i] == '#' and not macro and (last == 0 or '\n' in src[last:i])
        m = (_DIRECTIVE if first else _TOKEN).match(src, i, end)
        kind = 'directive' if first else m.lastgroup
        if m[0] == '/*':
            raise error_at(ValueError, 'this comment is never closed', src, i)
        if kind != 'space':
            yield Token(kind, m[0], i, m.end())
            last = m.end()
        i = m.end()


# A source is looked at more than once: for its headers, its kernels, and to be rewritten.
@lru_cache(4)
def tokens_of(
    src: str,  # CUDA C
) -> tuple:  # of `Token`s
    "All that `tokens` gives of `src`"
    return tuple(tokens(src))


def directives(
    src: str,  # CUDA C
) -> list:  # of `Token`s
    "The preprocessor lines of `src`"
    return [t for t in tokens_of(src) if t.kind == 'directive']


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


def error_at(kind, what: str, src: str, pos: int) -> Exception:
    "An exception of class `kind` that says `what`, with the line of `src` at `pos`"
    text = src[src.rfind('\n', 0, pos) + 1 :].split('\n', 1)[0]
    return kind(f'{what}\n  line {line_at(src, pos)}: {text.strip()}')


def literal(token: str) -> str:
    "The text that a string literal stands for"
    if m := re.fullmatch(r'R"([^(]*)\((.*)\)\1"', token, re.S):
        return m[2]
    return re.sub(r'\\(\r?\n|.)', lambda m: {'n': '\n', 't': '\t', '"': '"', '\\': '\\'}.get(m[1], ' '), token[1:-1])
