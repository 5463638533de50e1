"""`Code`: the tokens of a source, with matched brackets.

The package parses only a small part of the C++ grammar: brackets, and the rules that distinguish namespaces, types and
code, and the comparison `a < b` from the template arguments `a<b>`.
"""

import re
from bisect import bisect, bisect_left
from collections import defaultdict, deque
from itertools import accumulate, chain, compress, count, repeat
from operator import sub

from .preprocessor import directive_name
from .tokens import WrongSource, error_at, line_at

OPENING_OF = {')': '(', ']': '[', '}': '{'}
OPENING_BRACKETS = set(OPENING_OF.values())

# keywords of alignments and attributes
ALIGNMENTS = {
    'alignas', '__align__', '__attribute__', '__declspec', '__launch_bounds__', '__cluster_dims__', '__maxnreg__',
}  # fmt: skip
# keywords that are not the name of a function, even before a `(`
NON_FUNCTION_KEYWORDS = ALIGNMENTS | {
    'decltype', 'noexcept', 'requires', 'throw', 'explicit', 'operator', 'sizeof', 'alignof', 'if', 'while', 'for',
    'switch', 'return', 'typeof', '__typeof__', 'defined',
}  # fmt: skip
_CACHE_INTERVAL = 8  # `find_stop` caches its result for every eighth token that it passes
_CONSTRAINTS = {'requires', '&&', '||'}
_TEMPLATE_HEADERS = {'template', *_CONSTRAINTS}
# the tokens that `_find_parameter_list` inspects
_PARAMETER_LIST_TOKENS = {'=', 'operator', '<', *OPENING_BRACKETS, *OPENING_OF}
_DECLARATION_SEPARATORS, _CLASS_KEYWORDS = {';', '{', '}', '('}, {'struct', 'class', 'union', 'enum'}
_UNEVALUATED_OPERATORS = {'sizeof', 'decltype', 'noexcept', 'alignof', 'typeof', '__typeof__', 'typeid'}
_FUNCTION_SUFFIXES = {'const', 'noexcept', 'override', 'final', 'try', 'requires', 'throw', '__attribute__'}


_PADDING = [''] * 16  # added after the tokens: an index before the first or past the last token gives ''


# A list, because `code[i]` is read millions of times, and a method that checks `i` takes twice as long.
class Code(list):
    """The tokens of a source, or of the body of a macro (`macro`: the set of its parameters), and their brackets.

    `match[i]` is the bracket that matches bracket `i`; `parent[i]` is the innermost bracket around token `i`, or -1.
    `code[i]` is the text of token `i`, '' if `i` is out of range by up to 16; `texts` is the list of all. `aliases`
    maps the name of a macro to the specifiers that it expands to. If `strict`, raises `WrongSource` for a bracket
    without a match."""

    def __init__(self, src, tokens, aliases, name='', macro=None, strict=True, directives=None):
        super().__init__(tokens.texts)
        self += _PADDING
        self.src = src
        self.aliases = aliases
        self.name = name
        self.macro = macro
        self.strict = strict
        self.tokens = tokens
        self.texts = tokens.texts
        self._token_kinds = [*tokens.kinds, *_PADDING]
        self._length = len(tokens)
        self.directives = directives or {}  # index of a token -> the preprocessor directives before it
        self.scope_kinds = {-1: 'namespace'}  # `{` -> cached result of `scope_kind`
        self._indices_of_text = None  # text -> the tokens with this text
        self._closing_angles, self._opening_angles = {}, {}  # cached results of `closing_angle` and `opening_angle`
        self._directive_positions = self._directive_starts = None
        self.result_types = {}  # tokens before a function's name -> the type of its result, for `reader`
        self.parameters = {}  # text -> the parameter that `reader.parameter` reads from it
        self.declarations = {}  # token -> the declaration that `read_declaration` reads there
        self._indices_of_set, self._parameter_lists = {}, {}  # cached results
        self._stops = {}  # stops of `find_stop` -> (index -> cached result, tokens that end the search)
        if macro is None:
            self._match_brackets()

    def __len__(self):
        return self._length

    __hash__, __eq__ = object.__hash__, object.__eq__

    def find(self, *texts):
        "Return the indices of the tokens that are one of `texts`, in order"
        indices = self._index_texts()
        indices_per_text = [indices[name] for name in {*texts} if name in indices]
        return sorted(chain(*indices_per_text))

    def find_between(self, text, start, end):
        "Return the indices in `start:end` of the tokens that are `text`, in order"
        indices = self._index_texts().get(text)
        return indices_between(indices, start, end) if indices else ()

    def find_any_between(self, texts, start, end):
        "Return the indices in `start:end` of the tokens that are one of the frozenset `texts`, in order"
        if texts not in self._indices_of_set:
            self._indices_of_set[texts] = self.find_any(texts)
        indices = self._indices_of_set[texts]
        return indices_between(indices, start, end) if indices else ()

    def has_directive(self, start, end, text=''):
        "Return whether a preprocessor directive that contains `text` precedes one of the tokens `start:end`"
        if not self.directives:
            return False
        if self._directive_positions is None:
            self._directive_positions = sorted(self.directives)
        indices = self._directive_positions
        return any(text in line.text for i in indices_between(indices, start, end) for line in self.directives[i])

    def contains_directive(self, start, end):
        "Return whether a preprocessor directive begins between the positions `start` and `end` of the source"
        if not self.directives:
            return False
        if self._directive_starts is None:
            self._directive_starts = sorted(line.start for lines in self.directives.values() for line in lines)
        return bisect(self._directive_starts, start) < bisect_left(self._directive_starts, end)

    def find_any(self, texts):
        "Return the indices of the tokens that are one of the set `texts`, in order; fast for a large set"
        indices = self._index_texts()
        return self.find(*(texts & indices.keys()))

    def _index_texts(self):
        if self._indices_of_text is None:
            indices = defaultdict(list)
            append_calls = map(list.append, map(indices.__getitem__, self.texts), count())
            deque(append_calls, maxlen=0)  # makes the calls in a loop in C
            self._indices_of_text = dict(indices)
        return self._indices_of_text

    def find_specifiers(self, *specifiers):
        "Return the indices of the tokens that are one of these specifiers, or an alias of one, in order"
        indices = self._index_texts()
        alias_names = (
            [name for name in indices if name in self.aliases] if len(indices) < len(self.aliases) else self.aliases
        )
        wanted = set(specifiers)
        alias_names = [name for name in alias_names if not wanted.isdisjoint(self.aliases[name])]
        return [i for i in self.find(*specifiers, *alias_names) if not wanted.isdisjoint(self.expand_alias(i))]

    def is_word(self, i):
        "Return whether token `i` is a name or a keyword"
        return self._token_kinds[i] == 'word'

    def is_string(self, i):
        "Return whether token `i` is a string literal"
        return self._token_kinds[i] == 'string'

    def expand_alias(self, i):
        "Return the specifiers that token `i` is an alias of; if it is not an alias, a tuple of its text"
        text = self[i]
        return self.aliases.get(text) or (text,)

    def expanded_texts(self, start, end):
        "Return the token texts in `start:end` as a set, with aliases expanded"
        texts = self.texts[start:end]
        if not self.aliases or self.aliases.keys().isdisjoint(texts):
            return {*texts}
        return {w for i in range(start, end) for w in self.expand_alias(i)}

    def names_in(self, start, end):
        "Return the set of names and keywords among the tokens `start:end`"
        return {*compress(self.texts[start:end], map('word'.__eq__, self.tokens.kinds[start:end]))}

    def start(self, i):
        "Return the position in the source at which token `i` begins"
        return self.tokens.starts[i]

    def end(self, i):
        "Return the position in the source at which token `i` ends"
        return self.tokens.starts[i] + len(self.texts[i])

    def line(self, i):
        "Return the line of token `i`"
        return line_at(self.src, self.start(i))

    def error(self, error_class, message, i):
        "Return an exception of class `error_class` with this message and the line of token `i`"
        return error_at(error_class, message, self.src, self.start(min(i, len(self) - 1)))

    # Each branch of an `#if` may open the same bracket, so brackets are matched along one branch: the likely one, or
    # the first branch if the likely one leaves a bracket open.
    def _match_brackets(self):
        if not self.directives:
            return self._match_one_branch()
        try:
            self._match_branches(_likely_branch)
        except ValueError as error:
            try:
                self._match_branches(lambda branches: branches[0])
            except ValueError:
                raise error from None

    def _match_one_branch(self):
        "Match the brackets of code without preprocessor directives, which takes half as long as `_match_branches`"
        self.match = match = {}
        texts = [*self.texts, '']  # for -1, no bracket
        open_brackets = [-1]
        innermost = -1  # the last of `open_brackets`
        boundaries, bracket_around = (
            [0],
            [],
        )  # `bracket_around[n]` is around tokens `boundaries[n]` to `boundaries[n + 1]`
        for i in self.find_any(_BRACKETS):
            text = texts[i]
            bracket_around.append(innermost)
            if text in OPENING_BRACKETS:
                boundaries.append(i + 1)
                open_brackets.append(i)
                innermost = i
                continue
            boundaries.append(i)
            if texts[innermost] == OPENING_OF[text]:
                match[i] = open_brackets.pop()
                match[innermost] = i
                innermost = open_brackets[-1]
            elif self.strict:
                raise self._unmatched_error(i, innermost)
        counts = map(sub, [*boundaries[1:], self._length + 1], boundaries)  # the last one is for index `len(self)`
        self.parent = [*chain.from_iterable(map(repeat, [*bracket_around, innermost], counts))]
        self._require_closed(innermost)

    def _match_branches(self, choose_branch):
        self.match, self.parent = match, parent = {}, []
        texts = [*self.texts, '']  # for -1, no bracket, and for the end
        directives = self.directives
        open_brackets = [-1]
        innermost = -1  # the last of `open_brackets`
        conditional_groups = []
        num_assigned = 0
        for i in self._depth_changes():
            parent += [innermost] * (i - num_assigned)
            num_assigned = i
            if i in directives:
                for directive in directives[i]:
                    open_brackets = _brackets_after_directive(
                        directive, open_brackets, conditional_groups, choose_branch
                    )
                innermost = open_brackets[-1]
            if (text := texts[i]) in OPENING_BRACKETS:
                open_brackets.append(i)
                parent.append(innermost)
                innermost = i
                num_assigned = i + 1
            elif text in OPENING_OF:
                if texts[innermost] == OPENING_OF[text]:
                    match[i] = open_brackets.pop()
                    if innermost not in match:  # the first branch of an `#if` that closes it
                        match[innermost] = i
                    innermost = open_brackets[-1]
                elif self.strict:
                    raise self._unmatched_error(i, innermost)
        parent.append(innermost)  # for callers that access the index after the last token
        self._require_closed(innermost)

    def _require_closed(self, innermost):
        "Raise `WrongSource` if the bracket `innermost` is open at the end; -1: no bracket is"
        if innermost >= 0 and self.strict:
            raise self.error(WrongSource, f'this {self[innermost]!r} is never closed', innermost)

    def _depth_changes(self):
        "Return the tokens at which the innermost open bracket may change, and the end of the code"
        return sorted({*self.find_any(_BRACKETS), *self.directives, self._length})

    def _unmatched_error(self, i, opening):
        "Return the error for the closing bracket `i`, which does not match the open bracket `opening` (-1: none)"
        if opening < 0:
            return self.error(WrongSource, f'unmatched {self[i]!r}: it has no opening bracket', i)
        message = f'this {self[opening]!r} is not closed before the {self[i]!r} of line {self.line(i)}'
        comment = self.src[self.start(opening) :].partition('\n')[0].partition('//')[2]
        if comment.count(')') > comment.count('('):
            message += '; `//` begins a comment, and `/` truncates integers'
        return self.error(WrongSource, message, opening)

    # `<` and `>` may be brackets or comparisons. One search matches all `<` that it passes, and caches them, so that a
    # long list of comparisons takes linear time.
    def closing_angle(self, i):
        "Return the index of the `>` that closes the `<` at `i`; None if it is a comparison"
        if i not in self._closing_angles:
            if self[i] != '<':
                return i
            self._pair_angles(i)
        return self._closing_angles[i]

    def _pair_angles(self, i):
        texts = self.texts
        match = self.match
        closing_of = self._closing_angles
        n = len(self.texts)
        open_angles = []
        while i < n:
            text = texts[i]
            if text == '<':
                if i in closing_of:
                    if closing_of[i] is None:  # an earlier search found no match, so this one finds none either
                        break
                    i = closing_of[i]
                else:
                    open_angles.append(i)
            elif text == '>':
                closing_of[open_angles.pop()] = i
            elif text in OPENING_OF or text == ';':
                break
            if not open_angles:
                return
            i = match.get(i, i) + 1
        closing_of.update(dict.fromkeys(open_angles))

    def opening_angle(self, i):
        "Return the index of the `<` that the `>` at `i` closes; None if it is a comparison"
        if i not in self._opening_angles:
            if self[i] != '>':
                return i
            self._pair_angles_backwards(i)
        return self._opening_angles[i]

    def _pair_angles_backwards(self, i):
        texts = self.texts
        match = self.match
        opening_of = self._opening_angles
        open_angles = []
        while i >= 0:
            text = texts[i]
            if text == '>':
                if i in opening_of:
                    if opening_of[i] is None:
                        break
                    i = opening_of[i]
                else:
                    open_angles.append(i)
            elif text == '<':
                opening_of[open_angles.pop()] = i
            elif text in OPENING_BRACKETS or text == ';':
                break
            if not open_angles:
                return
            i = match.get(i, i) - 1
        opening_of.update(dict.fromkeys(open_angles))

    def find_stop(self, i, stops):
        "Return the index of the first of `stops` from `i` on, outside inner brackets, or of the outer closing bracket"
        if stops not in self._stops:
            self._stops[stops] = {}, {*stops, *OPENING_OF}
        result_of_index, stop_texts = self._stops[stops]
        texts, match, n = self.texts, self.match, self._length
        steps, cached_indices = 0, []
        while i < n and (text := texts[i]) not in stop_texts:
            if i in result_of_index:
                i = result_of_index[i]
                break
            steps += 1
            if not steps % _CACHE_INTERVAL:
                cached_indices.append(i)
            if text == '<':
                i = self.closing_angle(i) or i
            i = match.get(i, i) + 1
        if cached_indices:
            result_of_index.update(dict.fromkeys(cached_indices, i))
        return i

    def arguments(self, opening):
        "Return a list with (start, end) of each argument of the call with its `(` at `opening`"
        spans = []
        i = opening + 1
        closing = self.match.get(opening, len(self))
        while i < closing:
            end = min(self.find_stop(i, (',',)), closing)
            spans.append((i, end))
            i = end + 1
        return spans

    def find_parameter_list(self, start, end):
        "Return the index of the first `(` in `start:end` that follows the name of a function; None if there is none"
        if (start, end) not in self._parameter_lists:  # cached, because several modules parse the same declaration
            self._parameter_lists[start, end] = self._find_parameter_list(start, end)
        return self._parameter_lists[start, end]

    def _find_parameter_list(self, i, end):
        texts = self.texts
        match = self.match
        end = min(end, self._length)
        declaration_texts = texts[i:end]
        if '(' not in declaration_texts:
            return None
        num_before = declaration_texts.index('(')
        i += num_before if _PARAMETER_LIST_TOKENS.isdisjoint(declaration_texts[:num_before]) else 0
        while i < end and (text := texts[i]) != '=' and text != 'operator':
            is_named = text == '(' and self.is_word(i - 1) and texts[i - 1] not in NON_FUNCTION_KEYWORDS
            if is_named and not self._name_follows(match.get(i, i) + 1, end):
                return i
            if text == '<':
                i = self.closing_angle(i) or i
            i = match.get(i, i) + 1

    def is_evaluated(self, i):
        "Return whether token `i` is evaluated: it is not in an operand of `sizeof`, `decltype` or the like"
        while (i := self.parent[i]) >= 0:
            if self[i - 1] in _UNEVALUATED_OPERATORS:
                return False
        return True

    def _name_follows(self, i, end):
        "Return whether another name follows at `i`, so that an attribute or a macro precedes it"
        return i < end and self.is_word(i) and self[i] not in _FUNCTION_SUFFIXES

    def skip_template_header(self, i):
        "Return the index after the template header and requires clause at `i`; `i` if there is none"
        if self[i] not in _TEMPLATE_HEADERS:
            return i
        while self[i] == 'template' and self[i + 1] == '<':
            i = (self.closing_angle(i + 1) or i + 1) + 1
        while self[i] in _CONSTRAINTS:
            i = self._skip_constraint(i + 1)
        return i

    def _skip_constraint(self, i):
        if self[i] == '(':
            return self.match.get(i, i) + 1
        while self.is_word(i) or self[i] == '::':
            i += 1
            if self[i] == '<':
                return (self.closing_angle(i) or i) + 1
        return i

    # The kind of scope decides whether `__device__ int x;` is a variable or a member, and whether an
    # `extern __shared__` is in a function.
    def scope_kind(self, opening):
        "Return the kind of scope that this bracket opens: 'namespace' (also for -1, the source), 'type' or 'code'"
        openings = []
        while opening not in self.scope_kinds:
            openings.append(opening)
            opening = self.parent[opening]
        kind = self.scope_kinds[opening]
        for opening in reversed(openings):
            kind = self.scope_kinds[opening] = (
                self._scope_kind_of_brace(opening) if self[opening] == '{' and kind != 'code' else 'code'
            )
        return kind

    def _scope_kind_of_brace(self, opening):
        start = opening
        texts = self.texts
        if texts[start - 1] == '=':
            return 'code'  # an initializer
        match = self.match
        while start > 0 and texts[start - 1] not in _DECLARATION_SEPARATORS:
            start = match.get(start - 1, start - 1)
        start = self.skip_template_header(start)
        if 'namespace' in (self[start], self[start + 1]) or (
            self[opening - 2] == 'extern' and self.is_string(opening - 1)
        ):
            return 'namespace'
        if _CLASS_KEYWORDS.isdisjoint(texts[start:opening]):
            return 'code'
        same_level = (i for i in range(start, opening) if self.parent[i] == self.parent[opening])
        has_keyword = any(self[i] in _CLASS_KEYWORDS for i in same_level)
        return 'type' if has_keyword and self.find_parameter_list(start, opening) is None else 'code'

    def scope(self, i):
        "Return the kind of scope that token `i` is in: 'namespace', 'type' or 'code'"
        opening = self.parent[i]
        return self.scope_kinds.get(opening) or self.scope_kind(opening)

    def text(self, indices):
        "Join the tokens with indices `indices` on one line, without comments"
        if isinstance(indices, range) and indices and 0 <= indices.start and indices.stop <= self._length:
            starts, last = self.tokens.starts, indices[-1]
            text = self.src[starts[indices.start] : starts[last] + len(self.texts[last])]
            is_plain = text.isprintable() and not ('  ' in text or '/' in text or '\\' in text)
            if is_plain or not _NEEDS_NORMALIZATION.search(text):  # the search takes longer
                return text
        indices = list(indices)
        return ''.join((self._separator(indices[n - 1], i) if n else '') + self[i] for n, i in enumerate(indices))

    def _separator(self, i, j):
        "Return the separator between tokens `i` and `j`: a space or nothing"
        needs_space = self.start(j) > self.end(i) if j == i + 1 else self.is_word(i) and self.is_word(j)
        return ' ' if needs_space else ''


_BRACKETS = frozenset((*OPENING_OF, *OPENING_BRACKETS))
_DEPTHS = {'(': 1, ')': -1}


def is_balanced(code: Code) -> bool:
    "Return whether each bracket has a match"
    kinds = _BRACKETS.intersection(code.texts)
    if kinds <= _DEPTHS.keys() and not code.directives:
        depths = [*accumulate(map(_DEPTHS.get, code.texts, repeat(0)))] if kinds else [0]
        return depths[-1] == 0 and min(depths) >= 0
    return code.match.keys() >= {*code.find(*_BRACKETS)}


class MacroCode(Code):
    "The body of a macro; its brackets are matched when `match` or `parent` is first read, which is rare"

    def __getattr__(self, name):
        if name not in ('match', 'parent'):
            raise AttributeError(name)
        self._match_brackets()
        return self.__dict__[name]


# matches if the tokens are separated by anything except single spaces; `text` then joins them one by one
_NEEDS_NORMALIZATION = re.compile(r'[^\S ]|  |//|/\*|\\|\ufeff')


def indices_between(indices, start, end):
    "Return the items of the sorted list `indices` that are in `start:end`"
    return indices[bisect_left(indices, start) : bisect_left(indices, end)]


def _brackets_after_directive(directive, open_brackets, conditional_groups, choose_branch):
    "Return the open brackets after a preprocessor directive; each branch begins with those open before its `#if`"
    keyword = directive_name(directive.text)
    if keyword.startswith('if'):
        conditional_groups.append((list(open_brackets), [], [directive.is_likely]))
    elif keyword.startswith('el') and conditional_groups:
        brackets_before, branches, is_likely = conditional_groups[-1]
        branches.append((is_likely[0], open_brackets))
        is_likely[0] = directive.is_likely
        return list(brackets_before)
    elif keyword == 'endif' and conditional_groups:
        brackets_before, branches, is_likely = conditional_groups.pop()
        branches.append((is_likely[0], open_brackets))
        if all(value is False for value, _ in branches):
            branches.append((True, brackets_before))  # if no branch is compiled
        return choose_branch(branches)[1]
    return open_brackets


def _likely_branch(branches):
    return max(branches, key=lambda branch: (branch[0] is True, branch[0] is None))
