"""Parses declarations: specifiers (`const unsigned`, `Pair<int, float>`), then declarators (`a[N][M]`, `*b = nullptr`).

In a sequence of identifiers and keywords, the last one is the name, and the others are specifiers. The functions have a
`Code` and token indices as parameters.
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

# keywords after which an identifier is not a declared name; `name(` after `return`, for example, is a call
KEYWORDS = {
    'return', 'else', 'do', 'if', 'while', 'for', 'switch', 'case', 'sizeof', 'throw', 'new', 'co_return', 'and', 'or',
    'not', 'delete',
}  # fmt: skip

CLASS_KEYWORDS = 'struct', 'class', 'union'
_INITIALIZERS = {'=', '{'}
_SPECIFIERS = (STORAGE | QUALIFIERS | BUILTIN) - ALIGNMENTS


class Declarator(NamedTuple):
    "One variable of a declaration, as indices of tokens"

    first: int
    name: int
    name_end: int
    init: int  # `end` if there is no initializer
    end: int


class Declaration(NamedTuple):
    "A declaration, with the indices of its first token (`start`) and of its first declarator (`first`)"

    start: int
    first: int
    declarators: object  # a generator of `Declarator`s
    specifiers: set


def read_declaration(code, i) -> Declaration:
    "Return the declaration that contains the specifier at `i`"
    if i not in code.declarations:  # cached, because several rewriters read it
        start, first, specifiers = _read_declaration(code, i)
        code.declarations[i] = start, first, _CachedIterator(_declarators(code, first)), specifiers
    start, first, declarators, specifiers = code.declarations[i]
    return Declaration(start, first, iter(declarators), specifiers)


class _CachedIterator:
    "A lazy generator that can be iterated over repeatedly"

    def __init__(self, generator):
        self.generator = generator
        self.items = []

    def __iter__(self):
        n = 0
        while n < len(self.items) or (item := next(self.generator, None)):
            if n == len(self.items):
                self.items.append(item)
            yield self.items[n]
            n += 1


def _read_declaration(code, i):
    "Return (index of the first token, index of the first declarator, specifiers) of a declaration"
    start = _declaration_start(code, i)
    first = skip_specifiers(code, start, len(code))
    if code.parent[start:first].count(code.parent[start]) == first - start:
        specifiers = code.expanded_texts(start, first)
    else:
        specifiers = {
            w for j in range(start, first) if code.parent[j] == code.parent[start] for w in code.expand_alias(j)
        }
    return start, first, specifiers


def _declaration_start(code, i):
    "Return the index of the first specifier of the declaration that contains the specifier at `i`"
    while i > 0:
        j = i - 1
        if code[j] == ')' and is_alignment(code, code.match.get(j, 0) - 1):
            j = code.match[j] - 1
        elif code[j] == '>' and code.is_word((code.opening_angle(j) or 0) - 1):
            j = code.opening_angle(j) - 1
        elif not _may_be_specifier(code, j):
            return i
        i = j
    return i


def _may_be_specifier(code, j):
    "Return whether token `j` may be part of the specifiers of a declaration"
    return (
        code[j] == '::' or code.is_word(j) and code[j] not in KEYWORDS or code.is_string(j) and code[j - 1] == 'extern'
    )


def is_alignment(code, i):
    "Return whether token `i` is an alignment or an attribute, or a macro that contains one"
    text = code[i]
    return not ALIGNMENTS.isdisjoint(code.aliases[text]) if code.aliases.get(text) else text in ALIGNMENTS


def is_storage(code, i):
    "Return whether token `i` is a storage class, such as `static` or `__device__`, or a macro of storage classes only"
    text = code[i]
    return (STORAGE.issuperset(code.aliases[text]) if code.aliases.get(text) else text in STORAGE) and code.is_word(i)


def skip_attribute(code, i):
    "Return the index after the attribute, alignment or `extern \"C\"` at `i`; `i` if there is none"
    if code.is_word(i):
        if not is_alignment(code, i):
            return i
        return code.match.get(i + 1, i) + 1 if code[i + 1] == '(' else i + 1
    if code[i] == '[' and code[i + 1] == '[':
        return code.match.get(i, i) + 1
    return i + 1 if code[i - 1] == 'extern' and code.is_string(i) else i


def skip_specifiers(code, i, end):
    "Return the index after the specifiers that begin at `i`, which is that of the first declarator"
    start, has_type = i, False
    while i < end:
        if (text := code.texts[i]) in _SPECIFIERS and text not in code.aliases:
            i, has_type = i + 1, has_type or text in BUILTIN
            continue
        j = skip_attribute(code, i)
        if j == i and code.is_word(i):
            j, has_type = _skip_word(code, i, has_type)
        elif code[i] == '::' and not has_type:
            j = i + 1
        elif code[i] == '{' and i in code.match and _defines_type(code, start, i):
            j, has_type = code.match[i] + 1, True
        if j == i:
            return i
        i = j
    return end


def _defines_type(code, start, i):
    "Return whether the `{` at `i` begins the body of a class in the specifiers that begin at `start`"
    texts = code.texts[start:i]
    return any(text in ('struct', 'union', 'class') for text in texts) and '{' not in texts


def _skip_word(code, i, has_type):
    "Return (index after the specifier at `i`, whether a type was read); the index is `i` if a declarator begins there"
    if code[i] == 'operator':
        return i, has_type
    if is_storage(code, i) or code[i] in QUALIFIERS:
        return i + 1, has_type
    if code[i] in BUILTIN:
        return i + 1, True
    if code[i] in ('decltype', 'typeof', '__typeof__'):
        return code.match.get(i + 1, i) + 1, True
    j = _skip_qualified_name(code, i)
    name_follows = code.is_word(j) and not is_alignment(code, j)
    if has_type and not name_follows:
        return i, True
    if code[j] == '(' and code[j + 1] not in ('*', '&', '&&'):
        return (i, True) if has_type else (code.match.get(j, j) + 1, True)  # a type that a macro expands to
    return j, True


def _skip_qualified_name(code, i):
    "Return the index after the name `a::b<c>::d` that begins at `i`"
    while True:
        if code[i] == 'template':
            i += 1
        i += 1
        if code[i] == '<' and code.closing_angle(i):
            i = code.closing_angle(i) + 1
        i = _skip_pasted(code, i)
        if code[i] != '::' or not code.is_word(i + 1):
            return i
        i += 1


def _skip_pasted(code, i):
    "Return the index after the tokens that `##` joins to the one before `i`"
    while code[i] == '##':
        i += 2
    return i


def _declarators(code, i):
    "Yield each declarator from `i` up to the `;`"
    while True:
        end = code.find_stop(i, (',', ';'))
        if not (name := declared_name(code, i, end)):
            return
        init = next(
            (j for j in range(name[1], end) if code.texts[j] in _INITIALIZERS and code.parent[j] == code.parent[i]), end
        )
        yield Declarator(i, *name, init, end)
        if code[end] != ',':
            return
        i = end + 1


def declared_name(code, i, end):
    "Return (index of the name, index after it) of the declarator `i:end`; None if it has no name"
    while i < end:
        j = skip_attribute(code, i)
        if j == i and code.is_word(i) and code[i] not in QUALIFIERS:
            break
        if j == i and code[i] not in QUALIFIERS and code[i] not in ('*', '&', '&&', '...', '('):
            return
        i = max(j, i + 1)
    if i < end and code[i] not in BUILTIN and code[i] != 'operator':
        return i, _skip_pasted(code, i + 1)


_DROPPED_FROM_TYPE = STORAGE | ALIGNMENTS  # the first tokens of what `tokens_of_type` drops


def tokens_of_type(code, i, end):
    "Return the indices in `i:end` of the tokens of a type, without storage classes, alignments and attributes"
    texts = code.texts[i:end]
    has_attribute = '[' in texts and any(code[j] == code[j + 1] == '[' for j in range(i, end))
    if not has_attribute and _DROPPED_FROM_TYPE.isdisjoint(texts) and code.aliases.keys().isdisjoint(texts):
        return [*range(i, end)]
    dropped_indices = set()
    for j in range(i, end):
        if is_storage(code, j):
            dropped_indices.add(j)
        dropped_indices |= set(range(j, skip_attribute(code, j)))
    return [j for j in range(i, end) if j not in dropped_indices]


def statement_start(code, i):
    "Return the index of the first token of the statement, or declaration, that contains token `i`"
    while i > 0 and code[i - 1] not in (';', '{', '}', '('):
        i = code.match.get(i - 1, i - 1)
    return i


def class_name(code, opening):
    "Return the name of the class with its `{` at `opening`; None for an enumeration"
    i = statement_start(code, opening)
    key = next((j for j in range(code.skip_template_header(i), opening) if code[j] in (*CLASS_KEYWORDS, 'enum')), None)
    if key is None or code[key] == 'enum':
        return
    j = key + 1
    while code[j + 1] == '(' or code[j] == '[':
        j = code.match[j if code[j] == '[' else j + 1] + 1
    while code.is_word(j + 1) and code[j + 1] != 'final':
        j += 1
    return code[j] if code.is_word(j) else None


# (a substring that every match contains, pattern, replacement)
_SPACING = [
    (required_text, re.compile(pattern), replacement)
    for required_text, pattern, replacement in (
        ('::', r' ?:: ?', '::'),
        ('<', r' ?<<? ', lambda m: m[0].strip()),
        (' ', r'([(\[]) ', r'\1'),
        (' ', r' ([>,)\]])', r'\1'),
        (' ', r'(?<=[*&]) (?=[*&])', ''),
        (' [', r'([)\]>]) (?=\[)', r'\1'),
        (') (', r'\) \((?!\*)', ')('),
        (' ...', r' \.\.\.', '...'),
    )
]
_NO_SPACING = re.compile(r'\w+(?: \w+)*(?: (?:\*|&&?))?')  # text that no pattern of `_SPACING` changes


def format_type(texts):
    "Join tokens with the usual spacing of a type: `const float *`, `std::vector<int>`, `float (*)[4]`"
    return _format_type(tuple(texts))


@lru_cache(4096)  # a source has few types
def _format_type(texts):
    text = ' '.join(texts)
    if _NO_SPACING.fullmatch(text):
        return text
    for required_text, pattern, replacement in _SPACING:
        if required_text in text:
            text = pattern.sub(replacement, text)
    return text
