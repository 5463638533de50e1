"""The tokenizer of CUDA C: splits source into words, numbers, strings, operators and preprocessor directives.

So a search for `<<<`, `__shared__` or `{` ignores comments and strings.
"""

import math
import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, compress, count
from typing import NamedTuple

from ...support.short_tracebacks import ShortTracebackError


class Token(NamedTuple):
    "`src[start:end]`; its kind is 'string', 'number', 'word', 'op' or 'directive' (a whole preprocessor directive)"

    kind: str
    text: str
    start: int
    end: int
    is_likely: bool = None  # for an `#if`, `#elif` or `#else`: whether its branch is probably compiled; None: unknown


# Each `>` is a separate token. A later step decides whether `>>>` closes a launch, three templates, or one template and
# a shift. A quote between digits belongs to the number, as in 1'000.
_COMMENT = r'(?: //[^\\\n]*(?:\\(?:\r?\n)?[^\\\n]*)* | /\*[^*]*\*+(?:[^/*][^*]*\*+)*/ )'
_BLANK = rf'(?: \ufeff | \\\r?\n | {_COMMENT} )'
_SPACE = rf'(?: \s+ (?:{_BLANK}\s*)* | {_BLANK} \s* (?:{_BLANK}\s*)* )'
_QUOTED = r"""(?: "[^"\\\n]*(?:\\.[^"\\\n]*)*" | '(?!')[^'\\\n]*(?:\\.[^'\\\n]*)*' )"""
_NUMBER, _WORD = r"\d(?: [eEpP][+-] | '?\w | \. )*", r'[^\W\d]\w*'
_OPERATORS = r"""<<<(?!<) | <<=? | <=>? | >= | -> | :: | \#\# | \.\.\. | && | \|\| | /\*.* | [-+*/%&|^!=]= | ."""

# a preprocessor directive, with its continuation lines
_DIRECTIVE = r"""\# (?: [^\n"/\\]+ | \\\r?\n | "(?:\\.|[^"\\\n])*" | /\*.*?\*/ | //(?:\\\r?\n|[^\n])* | [^\n] )*"""

# The alternatives begin with different characters, so that `re` rejects most of them by one character. A raw string
# needs a group, and with groups `findall` does not return whole matches, so sources with raw strings have a different
# pattern.
_RAW = r'(?: [uUL](?:(?<=u)8)? )? R"(?P<fence>[^()\s\\]*)\(.*?\)(?P=fence)"\w* |'


@lru_cache(None)
def _pattern(raw, macro):
    "Return the pattern of the lexemes of a source: tokens, and the whitespace and comments between them"
    line = '' if macro else rf'(?:{_DIRECTIVE})?'  # a `#` within a line is handled in `_lexemes`
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
_LINE_DIRECTIVE = re.compile(r'^[ \t]*#[ \t]*(?:line[ \t]+)?(\d+).*\n', re.M)


class Tokens:
    "A sequence of tokens, stored as the columns `texts`, `kinds` and `starts`, which is faster than a list of `Token`s"

    __slots__ = 'texts', 'kinds', 'starts'

    def __init__(self, texts=(), kinds=(), starts=()):
        self.texts = [*texts]
        self.kinds = [*kinds]
        self.starts = [*starts]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i) -> Token:
        start, text = self.starts[i], self.texts[i]
        return Token(self.kinds[i], text, start, start + len(text))

    def extend(self, source, start, end):
        "Append the tokens `source[start:end]`"
        self.texts += source.texts[start:end]
        self.kinds += source.kinds[start:end]
        self.starts += source.starts[start:end]

    def directives(self) -> list:
        "Return the indices of the preprocessor directives"
        return [*compress(count(), map('directive'.__eq__, self.kinds))] if 'directive' in self.kinds else []


def tokens(
    src: str,  # CUDA C
    start=0,
    end=None,
    macro=False,  # whether this is a macro's body, in which `#` stringifies a parameter and begins no directive
) -> Tokens:
    "Tokenize `src[start:end]`; raises `WrongSource` for a comment that is never closed"
    return _tokens_of_lexemes(src, start, _lexemes(src, start, len(src) if end is None else end, macro), macro)


def _tokens_of_lexemes(src, start, lexemes, macro=False):
    starts = [*accumulate(map(len, lexemes), initial=start)]
    if lexemes and lexemes[-1].startswith('/*') and not _BLANKS.match(lexemes[-1]):
        raise error_at(WrongSource, 'this comment is not terminated', src, starts[-2])
    kind = _kind_in_macro if macro else _kind
    kind_of = {lexeme: kind(lexeme) for lexeme in {*lexemes}}
    kinds = [*map(kind_of.__getitem__, lexemes)]  # '' for whitespace
    if lexemes and not start and not macro and lexemes[0][0] == '#':
        kinds[0] = 'directive'
    result = Tokens(*(compress(lexeme, kinds) for lexeme in (lexemes, kinds, starts)))  # `compress` and `map` run in C
    for i in result.directives():
        whitespace_length = _length_of_whitespace(result.texts[i])
        result.texts[i] = result.texts[i][whitespace_length:]
        result.starts[i] += whitespace_length
    return result


def _lexemes(src, start, end, macro=False):
    "Split `src[start:end]` into tokens, blanks, and preprocessor directives with the blanks before them"
    if start == 0 and not macro and src.startswith('#'):
        line = re.match(_DIRECTIVE, src, re.X | re.S)[0]
        return [line, *_lexemes(src, len(line), end)]
    pattern = _pattern(src.find('R"', start, end) >= 0, macro)
    lexemes = [m[0] for m in pattern.finditer(src, start, end)] if pattern.groups else pattern.findall(src, start, end)
    if (
        macro
        or '#' not in src
        or not any('#' in lexeme and _find_inner_hash(lexeme) for lexeme in {*lexemes[not start :]})
    ):
        return lexemes
    return [*_lexemes_one_by_one(pattern, src, start, end)]


def _length_of_whitespace(lexeme):
    "Return the length of the whitespace and comments at the beginning of a lexeme"
    blanks = _BLANKS.match(lexeme)
    return blanks.end() if blanks else 0


def _find_inner_hash(lexeme):
    "Return the index of a `#` that follows whitespace in a lexeme but does not begin a line; 0 if there is none"
    n = _length_of_whitespace(lexeme)
    return n if n < len(lexeme) and '\n' not in lexeme[:n] else 0


def _lexemes_one_by_one(pattern, src, start, end):
    "Split a source as `_lexemes` does, where a `#` in the middle of a line is an ordinary operator"
    is_split = True
    while is_split:
        is_split = False
        for m in pattern.finditer(src, start, end):
            if '#' in m[0] and m.start() and (n := _find_inner_hash(m[0])):
                yield m[0][:n]
                start, is_split = m.start() + n, True
                break
            yield m[0]


def _kind(lexeme):
    "Return the kind of a lexeme; '' for whitespace"
    if lexeme.isidentifier() and lexeme.isascii():
        return 'word'
    m = _KIND.match(lexeme)
    if m is None:
        return 'op'
    if m.lastgroup != 'space':
        return m.lastgroup
    return 'directive' if '#' in lexeme and _length_of_whitespace(lexeme) < len(lexeme) else ''


_kind_in_macro = lru_cache(4096)(
    _kind
)  # cached, because the bodies of macros are short and share most of their lexemes


# A source is tokenized several times: to find its headers, to find its kernels, and to rewrite it. So this is cached.
@lru_cache(4)
def tokens_of(
    src: str,  # CUDA C
) -> Tokens:  # callers do not modify them
    "Return all `tokens` of `src`, cached"
    return _tokens_of_lexemes(src, 0, _lexemes_of(src))


@lru_cache(4)
def _lexemes_of(src):
    return _spliced_lexemes.pop(src, None) or _lexemes(src, 0, len(src))


# A rewritten source is tokenized again later. Most of its lexemes are those of the source, and many edits have the same
# text, so tokenizing only the edits saves time.
_spliced_lexemes = {}  # rewritten text -> its lexemes, until `tokens_of` reads them; only the last few texts


def cache_lexemes(
    src: str,  # CUDA C that was tokenized
    edits: list,  # sorted (start, end, text), not nested
    text: str,  # the result of the edits
):
    "Cache the lexemes of `text` for `tokens_of`; tokenizes only the replacements of `edits`, and copies other lexemes"
    lexemes = _lexemes_of(src)
    spliced_lexemes = []
    num_copied = 0  # lexemes of `src` that were copied or replaced
    lexeme_at = dict(zip(accumulate(map(len, lexemes), initial=0), range(len(lexemes) + 1)))  # position -> lexeme
    for start, end, replacement in edits:
        i, stop = lexeme_at.get(start), lexeme_at.get(end)
        if i is None or stop is None:
            return  # an edit inside a macro's body, whose whole line is one lexeme
        _append(spliced_lexemes, lexemes[num_copied:i])
        _append(spliced_lexemes, _lexemes_of_edit(replacement))
        num_copied = stop
    _append(spliced_lexemes, lexemes[num_copied:])
    while len(_spliced_lexemes) > 3:
        del _spliced_lexemes[next(iter(_spliced_lexemes))]
    _spliced_lexemes[text] = spliced_lexemes


@lru_cache(1024)
def _lexemes_of_edit(text):
    return _lexemes(text, 0, len(text))


def _append(lexemes, new_lexemes):
    "Append `new_lexemes` to `lexemes`; the first ones may merge with the lexeme before them"
    n, are_separate = 0, not (lexemes and new_lexemes) or _are_separate(lexemes[-1][-1], new_lexemes[0][0])
    while n < len(new_lexemes) and not are_separate:
        last, lexeme = lexemes[-1], new_lexemes[n]
        merged, are_words = last + lexeme, last.isidentifier() and lexeme.isidentifier()
        lexemes[-1:] = joined = [merged] if are_words and merged.isascii() else _lexemes(merged, 0, len(merged))
        n, are_separate = n + 1, joined == [last, lexeme]
    lexemes += new_lexemes[n:] if n else new_lexemes


_SEPARATE_CHARACTERS, _SPACES = frozenset('()[]{};,'), frozenset(' \t\r\n')
_NO_BLANK = re.compile(r'[^\s/\\\ufeff#]')


@lru_cache(4096)
def _are_separate(a, b):
    "Return whether two lexemes stay separate when joined, if the first ends with `a` and the second begins with `b`"
    if a in _SEPARATE_CHARACTERS or b in _SEPARATE_CHARACTERS:
        return True
    return bool(a in _SPACES and _NO_BLANK.match(b) or b in _SPACES and _NO_BLANK.match(a))


@lru_cache(4)
def directives(
    src: str,  # CUDA C
) -> tuple:  # of `Token`s
    "Return the preprocessor directives of `src`"
    all_tokens = tokens_of(src)
    return tuple(map(all_tokens.__getitem__, all_tokens.directives()))


@lru_cache(4)
def _line_starts(src):
    "Return where the lines of `src` begin, except the first, and (position, line number) after each `#line`"
    line_directives = [(m.end(), int(m[1])) for m in _LINE_DIRECTIVE.finditer(src)]
    return [m.end() for m in re.finditer('\n', src)], [(0, 1), *line_directives]


def line_at(src: str, pos: int) -> int:
    "Return the line number of `src` at `pos`, from 1 or from the last `#line` before it"
    starts, line_directives = _line_starts(src)
    if len(line_directives) == 1:
        return 1 + bisect_right(starts, pos)
    start, first = line_directives[bisect_right(line_directives, (pos, math.inf)) - 1]
    return first + bisect_right(starts, pos) - bisect_right(starts, start)


class WrongSource(ShortTracebackError, ValueError):
    "The source is not valid CUDA C, or a function does not support it; the message quotes the line if it is known"


def error_at(error_class, message: str, src: str, pos: int) -> Exception:
    "Return an exception of class `error_class` with this message and the line of `src` at `pos`"
    text = src[src.rfind('\n', 0, pos) + 1 :].split('\n', 1)[0]
    return error_class(f'{message}\n  line {line_at(src, pos)}: {text.strip()}')


def string_value(token: str) -> str:
    "Return the value of a string literal"
    if m := re.fullmatch(r'R"([^(]*)\((.*)\)\1"', token, re.S):
        return m[2]
    return re.sub(r'\\(\r?\n|.)', lambda m: {'n': '\n', 't': '\t', '"': '"', '\\': '\\'}.get(m[1], ' '), token[1:-1])
