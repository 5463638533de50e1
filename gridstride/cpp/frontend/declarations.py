"""Declarations: specifiers (`const unsigned int`, `Pair<int, float>`), then declarators (`a[N][M]`, `*b = nullptr`).

The last word in a row of words is the name; the others are specifiers. Functions here take the `Code` and
the indices of tokens in it.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from .code import ALIGNMENTS

STORAGE = {
    'static', 'extern', 'inline', '__shared__', '__device__', '__constant__', '__managed__', '__host__', '__global__',
    '__forceinline__', '__inline__', '__noinline__', 'thread_local', 'register', '__grid_constant__',
}  # fmt: skip
QUALIFIERS = {
    'const', 'volatile', 'typename', 'constexpr', '__restrict__', '__restrict', 'struct', 'class', 'union', 'enum',
}  # fmt: skip
BUILTIN = {
    'void', 'bool', 'char', 'short', 'int', 'long', 'float', 'double', 'signed', 'unsigned', 'auto', 'wchar_t',
    'char8_t', 'char16_t', 'char32_t', '__int128',
}  # fmt: skip

# words after which a name is not called or launched
KEYWORDS = {
    'return', 'else', 'do', 'if', 'while', 'for', 'switch', 'case', 'sizeof', 'throw', 'new', 'co_return', 'and', 'or',
    'not', 'delete',
}  # fmt: skip

TYPES = 'struct', 'class', 'union'
_INIT = {'=', '{'}
_SPECIFIERS = (STORAGE | QUALIFIERS | BUILTIN) - ALIGNMENTS


class Declarator(NamedTuple):
    "One variable of a declaration, by tokens: begin, the token after its name, begin of its initializer, and end"

    first: int
    name: int
    past: int
    init: int  # `end` without an initializer
    end: int


class Declaration(NamedTuple):
    "A declaration, by tokens: its begin, its declarators' begin, a generator of them, and its specifiers' words"

    start: int
    first: int
    declarators: object
    words: set


def read_declaration(c, i) -> Declaration:
    "Return the declaration that has a specifier at `i`"
    if i not in c.declarations:  # several rewriters read it
        c.declarations[i] = _read_declaration(c, i)
    start, first, words = c.declarations[i]
    return Declaration(start, first, _declarators(c, first), words)


def _read_declaration(c, i):
    "Return (begin, declarators' begin, specifiers' words) of a declaration"
    start = _statement(c, i)
    first = specifiers(c, start, len(c))
    if c.outer[start:first].count(c.outer[start]) == first - start:
        words = c.words_of(start, first)
    else:
        words = {w for j in range(start, first) if c.outer[j] == c.outer[start] for w in c.words(j)}
    return start, first, words


def _statement(c, i):
    "Return the index of the first specifier of the declaration that has a specifier at `i`"
    while i > 0:
        j = i - 1
        if c[j] == ')' and is_alignment(c, c.mate.get(j, 0) - 1):
            j = c.mate[j] - 1
        elif c[j] == '>' and c.is_word((c.angle_back(j) or 0) - 1):
            j = c.angle_back(j) - 1
        elif not _may_specify(c, j):
            return i
        i = j
    return i


def _may_specify(c, j):
    return c[j] == '::' or c.is_word(j) and c[j] not in KEYWORDS or c.is_string(j) and c[j - 1] == 'extern'


def is_alignment(c, i):
    "Is token `i` an alignment or an attribute, or a macro that contains one?"
    text = c[i]
    return not ALIGNMENTS.isdisjoint(c.aliases[text]) if c.aliases.get(text) else text in ALIGNMENTS


def is_storage(c, i):
    "Is token `i` a storage class, such as `static` or `__device__`, or a macro of storage classes alone?"
    text = c[i]
    return (STORAGE.issuperset(c.aliases[text]) if c.aliases.get(text) else text in STORAGE) and c.is_word(i)


def past_attribute(c, i):
    "Return the index after the attribute, alignment or `extern \"C\"` at `i`; `i` if there is none"
    if c.is_word(i):
        if not is_alignment(c, i):
            return i
        return c.mate.get(i + 1, i) + 1 if c[i + 1] == '(' else i + 1
    if c[i] == '[' and c[i + 1] == '[':
        return c.mate.get(i, i) + 1
    return i + 1 if c[i - 1] == 'extern' and c.is_string(i) else i


def specifiers(c, i, end):
    "Return the index at which the specifiers from `i` on end, and the declarators begin"
    start, typed = i, False
    while i < end:
        if (text := c.texts[i]) in _SPECIFIERS and text not in c.aliases:
            i, typed = i + 1, typed or text in BUILTIN
            continue
        j = past_attribute(c, i)
        if j == i and c.is_word(i):
            j, typed = _past_word(c, i, typed)
        elif c[i] == '::' and not typed:
            j = i + 1
        elif c[i] == '{' and i in c.mate and _defines_type(c, start, i):
            j, typed = c.mate[i] + 1, True
        if j == i:
            return i
        i = j
    return end


def _defines_type(c, start, i):
    words = [c[j] for j in range(start, i)]
    return any(w in ('struct', 'union', 'class') for w in words) and '{' not in words


def _past_word(c, i, typed):
    "Return (index after the specifier at `i`, is a type known by then); the same index for a declarator"
    if c[i] == 'operator':
        return i, typed
    if is_storage(c, i) or c[i] in QUALIFIERS:
        return i + 1, typed
    if c[i] in BUILTIN:
        return i + 1, True
    if c[i] in ('decltype', 'typeof', '__typeof__'):
        return c.mate.get(i + 1, i) + 1, True
    j = _past_qualified(c, i)
    named = c.is_word(j) and not is_alignment(c, j)
    if typed and not named:
        return i, True
    if c[j] == '(' and c[j + 1] not in ('*', '&', '&&'):
        return (i, True) if typed else (c.mate.get(j, j) + 1, True)  # a type made by a macro
    return j, True


def _past_qualified(c, i):
    "Return the index after the name `a::b<c>::d` that begins at `i`"
    while True:
        if c[i] == 'template':
            i += 1
        i += 1
        if c[i] == '<' and c.angle(i):
            i = c.angle(i) + 1
        i = _past_pasted(c, i)
        if c[i] != '::' or not c.is_word(i + 1):
            return i
        i += 1


def _past_pasted(c, i):
    while c[i] == '##':
        i += 2
    return i


def _declarators(c, i):
    "Yield each declarator from `i` up to the `;`"
    while True:
        end = c.until(i, (',', ';'))
        if not (name := declared_name(c, i, end)):
            return
        init = next((j for j in range(name[1], end) if c.texts[j] in _INIT and c.outer[j] == c.outer[i]), end)
        yield Declarator(i, *name, init, end)
        if c[end] != ',':
            return
        i = end + 1


def declared_name(c, i, end):
    "Return (index of the name that a declarator in `i:end` declares, index after it); None if it has no name"
    while i < end:
        j = past_attribute(c, i)
        if j == i and c.is_word(i) and c[i] not in QUALIFIERS:
            break
        if j == i and c[i] not in QUALIFIERS and c[i] not in ('*', '&', '&&', '...', '('):
            return
        i = max(j, i + 1)
    if i < end and c[i] not in BUILTIN and c[i] != 'operator':
        return i, _past_pasted(c, i + 1)


_NO_TYPE = {'[', *STORAGE, *ALIGNMENTS}  # tokens at which something may begin that `of_type` drops


def of_type(c, i, end):
    "Return the tokens of `i:end` that belong to a type: no storage classes, alignments or attributes"
    texts = c.texts[i:end]
    if _NO_TYPE.isdisjoint(texts) and c.aliases.keys().isdisjoint(texts):
        return [*range(i, end)]
    skip = set()
    for j in range(i, end):
        if is_storage(c, j):
            skip.add(j)
        skip |= set(range(j, past_attribute(c, j)))
    return [j for j in range(i, end) if j not in skip]


def statement_of(c, i):
    "Return the index of the first token of the statement, or declaration, that contains token `i`"
    while i > 0 and c[i - 1] not in (';', '{', '}', '('):
        i = c.mate.get(i - 1, i - 1)
    return i


def class_of(c, opening):
    "Return the name of the class whose members begin after the `{` at `opening`; None for an enumeration"
    i = statement_of(c, opening)
    key = next((j for j in range(c.after_template(i), opening) if c[j] in (*TYPES, 'enum')), None)
    if key is None or c[key] == 'enum':
        return
    j = key + 1
    while c[j + 1] == '(' or c[j] == '[':
        j = c.mate[j if c[j] == '[' else j + 1] + 1
    while c.is_word(j + 1) and c[j + 1] != 'final':
        j += 1
    return c[j] if c.is_word(j) else None


_SPACING = (
    (r' ?:: ?', '::'),
    (r' ?<<? ', lambda m: m[0].strip()),
    (r'([(\[]) ', r'\1'),
    (r' ([>,)\]])', r'\1'),
    (r'(?<=[*&]) (?=[*&])', ''),
    (r'([)\]>]) (?=\[)', r'\1'),
    (r'\) \((?!\*)', ')('),
    (r' \.\.\.', '...'),
)
_PLAIN = re.compile(r'\w+(?: \w+)*(?: (?:\*|&&?))?')  # without any of these


def spell(words):
    "Join tokens to one text with single spaces: `const float *`, `std::vector<int>`, `float (*)[4]`"
    return _spell(tuple(words))


@lru_cache(4096)  # a source has few types
def _spell(words):
    text = ' '.join(words)
    if _PLAIN.fullmatch(text):
        return text
    for pattern, by in _SPACING:
        text = re.sub(pattern, by, text)
    return text
