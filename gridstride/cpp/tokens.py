"""The tokens of CUDA C: words, numbers, strings, operators and preprocessor lines, each with its place.

Comments, strings and preprocessor lines are what every search for `<<<`, `__shared__` or a `{` has to pass
over. Nothing here knows any grammar but that.
"""

import math
import re
from bisect import bisect_right
from functools import lru_cache, partial
from itertools import accumulate, compress, islice, repeat
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
_COMMENT = r'(?: //[^\\\n]*(?:\\(?:\r?\n)?[^\\\n]*)* | /\*[^*]*\*+(?:[^/*][^*]*\*+)*/ )'
_BLANK = rf'(?: \ufeff | \\\r?\n | {_COMMENT} )'
_SPACE = rf'(?: \s+ (?:{_BLANK}\s*)* | {_BLANK} \s* (?:{_BLANK}\s*)* )'
_QUOTED = r"""(?: "[^"\\\n]*(?:\\.[^"\\\n]*)*" | '(?!')[^'\\\n]*(?:\\.[^'\\\n]*)*' )"""
_NUMBER, _WORD = r"\d(?: [eEpP][+-] | '?\w | \. )*", r'[^\W\d]\w*'
_OPERATORS = r"""<<<(?!<) | <<=? | <=>? | >= | -> | :: | \#\# | \.\.\. | && | \|\| | /\*.* | [-+*/%&|^!=]= | ."""

# a preprocessor line, with the lines that continue it
_DIRECTIVE = r"""\# (?: [^\n"/\\]+ | \\\r?\n | "(?:\\.|[^"\\\n])*" | /\*.*?\*/ | //(?:\\\r?\n|[^\n])* | [^\n] )*"""

# The branches begin with different characters, so that `re` passes over most of them at once. A raw string needs a
# group, with which `findall` gives no whole pieces: it is in a pattern of its own.
_RAW = r'(?: [uUL](?:(?<=u)8)? )? R"(?P<fence>[^()\s\\]*)\(.*?\)(?P=fence)"\w* |'


@lru_cache(None)
def _pattern(raw, macro):
    "The pattern of the pieces of a source: tokens, and the blanks and comments between them"
    line = '' if macro else rf'(?:{_DIRECTIVE})?'  # one that begins no line is found in `_pieces`
    return re.compile(
        rf"""
        {_RAW if raw else ''} [uUL](?:(?<=u)8)?{_QUOTED}\w* | {_WORD} | {_SPACE}{line} | {_QUOTED}\w* | {_NUMBER} |
        \.{_NUMBER} | {_OPERATORS}
        """,
        re.X | re.S,
    )


_KIND = re.compile(
    r"""(?P<word> [^\W\d]\w*\Z ) | (?P<number> \.?\d ) | (?P<space> \s | \ufeff | \\\r?\n | // | /\* ) |
    (?P<string> (?:u8|[uUL])? R?["'] . )""",
    re.X | re.S,
)
_BLANKS = re.compile(_SPACE, re.X)
_LINE = re.compile(r'^[ \t]*#[ \t]*(?:line[ \t]+)?(\d+).*\n', re.M)


def tokens(
    src: str,  # CUDA C
    start=0,
    end=None,
    macro=False,  # is this a macro's body, in which `#` makes strings and begins no preprocessor line?
) -> list:  # of `Token`s
    "The tokens of `src[start:end]`; `WrongSource` for a comment that is never closed"
    if start == 0 and src.startswith('#') and not macro:
        line = re.match(_DIRECTIVE, src, re.X | re.S)
        return [Token('directive', line[0], *line.span()), *tokens(src, line.end())]
    pieces = _pieces(src, start, len(src) if end is None else end, macro)
    begins = [*accumulate(map(len, pieces), initial=start)]
    if pieces and pieces[-1].startswith('/*') and not _BLANKS.match(pieces[-1]):
        raise error_at(WrongSource, 'this comment is never closed', src, begins[-2])
    known = {o: _kind(o) for o in {*pieces}}
    kinds = [*map(known.__getitem__, pieces)]  # '' for blanks
    columns = (compress(o, kinds) for o in (kinds, pieces, begins, islice(begins, 1, None)))
    res = [*map(_make_token, zip(*columns, repeat(None)))]  # what is done per token is done by C
    return _without_blanks(res) if 'directive' in known.values() else res


_make_token = partial(tuple.__new__, Token)


def _pieces(src, start, end, macro):
    "The texts that `src[start:end]` is made of: tokens, blanks, and preprocessor lines with the blanks before them"
    pattern = _pattern(src.find('R"', start, end) >= 0, macro)
    found = [m[0] for m in pattern.finditer(src, start, end)] if pattern.groups else pattern.findall(src, start, end)
    if macro or '#' not in src or not any(_middle_hash(o, n + start) for n, o in enumerate(found) if '#' in o):
        return found
    return [*_pieces_one_by_one(pattern, src, start, end)]


def _middle_hash(piece, n):
    "Where in a piece the `#` is that follows blanks and begins no line; 0 for none. `n`: 0 at the source's beginning"
    blanks = _BLANKS.match(piece)
    return blanks.end() if blanks and blanks.end() < len(piece) and n and '\n' not in blanks[0] else 0


def _pieces_one_by_one(pattern, src, at, end):
    "`_pieces` of a source in which a `#` stands in the middle of a line, and is no more than an operator"
    more = True
    while more:
        more = False
        for m in pattern.finditer(src, at, end):
            if '#' in m[0] and (n := _middle_hash(m[0], m.start())):
                yield m[0][:n]
                at, more = m.start() + n, True
                break
            yield m[0]


def _kind(piece):
    "What a piece is; '' for blanks"
    m = _KIND.match(piece)
    if m is None:
        return 'op'
    if m.lastgroup != 'space':
        return m.lastgroup
    return 'directive' if '#' in piece and _BLANKS.match(piece).end() < len(piece) else ''


def _without_blanks(found):
    "`found`, with the blanks before preprocessor lines taken off"
    for i, t in enumerate(found):
        if t.kind == 'directive':
            n = _BLANKS.match(t.text).end()
            found[i] = Token(t.kind, t.text[n:], t.start + n, t.end)
    return found


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
    "The preprocessor lines of `src`"
    return tuple(t for t in tokens_of(src) if t.kind == 'directive')


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
