"""`Code`: tokens with their brackets, which match each other and open a namespace, a type or code.

This is all of C++'s grammar that the package parses: brackets, and a few rules that distinguish namespaces, types and
code, and the comparison `a < b` from the template arguments `a<b>`.
"""

import gc
import re
from bisect import bisect, bisect_left
from collections import defaultdict, deque
from contextlib import contextmanager
from itertools import accumulate, chain, compress, count, repeat

from .preprocessor import directive_word
from .tokens import WrongSource, error_at, line_at

CLOSES = {')': '(', ']': '[', '}': '{'}
OPENS = set(CLOSES.values())

# words before a `(` that name no function
ALIGNMENTS = {
    'alignas', '__align__', '__attribute__', '__declspec', '__launch_bounds__', '__cluster_dims__', '__maxnreg__',
}  # fmt: skip
NOT_NAMES = ALIGNMENTS | {
    'decltype', 'noexcept', 'requires', 'throw', 'explicit', 'operator', 'sizeof', 'alignof', 'if', 'while', 'for',
    'switch', 'return', 'typeof', '__typeof__', 'defined',
}  # fmt: skip
_STORE_EVERY = 8  # `until` stores its result for every eighth token that it passes
_CONSTRAINTS = {'requires', '&&', '||'}
_TEMPLATE_HEADERS = {'template', *_CONSTRAINTS}
_BEFORE_CALL = {'=', 'operator', '<', *OPENS, *CLOSES}  # what `Code._call` must not skip without a look at it
_BEFORE_DECLARATIONS, _CLASS_KEYS = {';', '{', '}', '('}, {'struct', 'class', 'union', 'enum'}
_UNEVALUATED = {'sizeof', 'decltype', 'noexcept', 'alignof', 'typeof', '__typeof__', 'typeid'}
_AFTER_PARAMETER_LIST = {'const', 'noexcept', 'override', 'final', 'try', 'requires', 'throw', '__attribute__'}


_PADDING = [''] * 16  # after the tokens, so that an index before the first or past the last gives ''


# A list, because `c[i]` is read millions of times, and a method that checks `i` takes twice as long.
class Code(list):
    """The tokens of a source, or of the body of a macro (`macro`: the set of its parameters), and their brackets.

    `match[i]` is the bracket that matches bracket `i`; `outer[i]` is the innermost bracket around token `i`, or -1.
    `c[i]` is the text of token `i`, '' if `i` is out of range by up to 16; `texts` is the list of all. `aliases` maps
    the name of a macro to the specifiers that it stands for. If `strict`, raises `WrongSource` for a bracket without a
    match."""

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
        self._kinds = [*tokens.kinds, *_PADDING]
        self._length = len(tokens)
        self.directives = directives or {}  # token -> the preprocessor lines before it
        self.kinds = {-1: 'namespace'}  # `{` -> cached result of `kind`
        self._indices_of = None  # text -> the tokens with this text
        self._angles, self._angles_back = {}, {}  # cached results of `closing_angle`, `opening_angle`
        self._directive_positions = self._directive_starts = None
        self.results = {}  # tokens -> the type of a function's result that `reader` reads from them
        self.parameters = {}  # text -> the parameter that `reader.parameter` reads from it
        self.declarations = {}  # token -> the declaration that `read_declaration` reads there
        self._found, self._calls = {}, {}  # cached results of `find_any_between` and `call`
        self._ends = {}  # stops of `until` -> (token -> cached result, tokens that end the search)
        if macro is None:
            self._match_brackets()

    def __len__(self):
        return self._length

    __hash__, __eq__ = object.__hash__, object.__eq__

    def find(self, *texts):
        "Return the indices of the tokens that are one of `texts`, in order"
        indices = self._index_texts()
        found = [indices[name] for name in {*texts} if name in indices]
        return sorted(chain(*found))

    def find_between(self, text, start, end):
        "Return the indices in `start:end` of the tokens that are `text`, in order"
        indices = self._index_texts().get(text)
        return between(indices, start, end) if indices else ()

    def find_any_between(self, texts, start, end):
        "Return the indices in `start:end` of the tokens that are one of the frozenset `texts`, in order"
        if texts not in self._found:
            self._found[texts] = self.find_any(texts)
        found = self._found[texts]
        return between(found, start, end) if found else ()

    def has_directive(self, start, end, text=''):
        "Return whether a preprocessor line that contains `text` precedes one of the tokens `start:end`"
        if not self.directives:
            return False
        if self._directive_positions is None:
            self._directive_positions = sorted(self.directives)
        indices = self._directive_positions
        return any(text in d.text for i in between(indices, start, end) for d in self.directives[i])

    def contains_directive(self, start, end):
        "Return whether a preprocessor line begins between the positions `start` and `end` of the source"
        if not self.directives:
            return False
        if self._directive_starts is None:
            self._directive_starts = sorted(d.start for ds in self.directives.values() for d in ds)
        return bisect(self._directive_starts, start) < bisect_left(self._directive_starts, end)

    def find_any(self, texts):
        "Return the indices of the tokens that are one of the set `texts`, in order; fast for a large set"
        indices = self._index_texts()
        return self.find(*(texts & indices.keys()))

    def _index_texts(self):
        if self._indices_of is None:
            indices = defaultdict(list)
            appended = map(list.append, map(indices.__getitem__, self.texts), count())
            deque(appended, maxlen=0)  # a loop in C
            self._indices_of = dict(indices)
        return self._indices_of

    def find_specifiers(self, *words):
        "Return the indices of the tokens that are one of these specifiers, or an alias of one, in order"
        indices = self._index_texts()
        names = [name for name in indices if name in self.aliases] if len(indices) < len(self.aliases) else self.aliases
        names = [name for name in names if not set(words).isdisjoint(self.aliases[name])]
        return [i for i in self.find(*words, *names) if not set(words).isdisjoint(self.words(i))]

    def is_word(self, i):
        "Return whether token `i` is a name or a keyword"
        return self._kinds[i] == 'word'

    def is_string(self, i):
        "Return whether token `i` is a string literal"
        return self._kinds[i] == 'string'

    def words(self, i):
        "Return the specifiers that token `i` is an alias of; if it is not an alias, a tuple of its text"
        text = self[i]
        return self.aliases.get(text) or (text,)

    def words_of(self, start, end):
        "Return the set of all `words` of the tokens `start:end`"
        texts = self.texts[start:end]
        if not self.aliases or self.aliases.keys().isdisjoint(texts):
            return {*texts}
        return {w for i in range(start, end) for w in self.words(i)}

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

    def error(self, kind, what, i):
        "Make an exception of class `kind` with the message `what` and the line of token `i`"
        return error_at(kind, what, self.src, self.start(min(i, len(self) - 1)))

    # Each branch of an `#if` may open the same bracket, so brackets are matched along one branch: the likely one, or
    # the first branch if the likely one leaves a bracket open.
    def _match_brackets(self):
        try:
            self._match(_likely_branch)
        except ValueError as e:
            try:
                self._match(lambda branches: branches[0])
            except ValueError:
                raise e from None

    def _match(self, choose):
        self.match, self.outer = match, outer = {}, []
        texts = self
        directives = self.directives
        opened = [-1]
        top = -1  # the last of `opened`
        groups = []
        at = 0
        for i in self._depth_changes():
            outer += [top] * (i - at)
            at = i
            if i in directives:
                for d in directives[i]:
                    opened = _pass_directive(d, opened, groups, choose)
                top = opened[-1]
            if (text := texts[i]) in OPENS:
                opened.append(i)
                outer.append(top)
                top = i
                at = i + 1
            elif opening := CLOSES.get(text):
                if texts[top] == opening:
                    match[i] = opened.pop()
                    match.setdefault(top, i)
                    top = opened[-1]
                elif self.strict:
                    raise self._never_opened(i, top)
        outer.append(top)  # for callers that access the index after the last token
        if top >= 0 and self.strict:
            raise self.error(WrongSource, f'this {self[top]!r} is never closed', top)

    def _depth_changes(self):
        "Return the tokens at which the innermost open bracket may change, and the end of the code"
        brackets = self.find(*CLOSES, *OPENS)
        return sorted({*brackets, *self.directives, self._length}) if self.directives else [*brackets, self._length]

    def _never_opened(self, i, opening):
        "Make the error for the closing bracket `i`, which does not match the open one, `opening`; -1: none is open"
        if opening < 0:
            return self.error(WrongSource, f'this {self[i]!r} has no opening bracket', i)
        what = f'this {self[opening]!r} is not closed before the {self[i]!r} of line {self.line(i)}'
        comment = self.src[self.start(opening) :].partition('\n')[0].partition('//')[2]
        if comment.count(')') > comment.count('('):
            what += '; `//` begins a comment, and `/` truncates integers'
        return self.error(WrongSource, what, opening)

    # `<` and `>` may be brackets or comparisons. One search matches all `<` that it passes, and caches them, so that a
    # long list of comparisons takes linear time.
    def closing_angle(self, i):
        "Return the index of the `>` that closes the `<` at `i`; None if it is a comparison"
        if i not in self._angles:
            if self[i] != '<':
                return i
            self._pair_angles(i)
        return self._angles[i]

    def _pair_angles(self, i):
        texts = self.texts
        match = self.match
        known = self._angles
        n = len(self.texts)
        opened = []
        while i < n:
            text = texts[i]
            if text == '<':
                if i in known:
                    if known[i] is None:  # that search has found no match, so this one finds none either
                        break
                    i = known[i]
                else:
                    opened.append(i)
            elif text == '>':
                known[opened.pop()] = i
            elif text in CLOSES or text == ';':
                break
            if not opened:
                return
            i = match.get(i, i) + 1
        known.update(dict.fromkeys(opened))

    def opening_angle(self, i):
        "Return the index of the `<` that the `>` at `i` closes; None if it is a comparison"
        if i not in self._angles_back:
            if self[i] != '>':
                return i
            self._pair_angles_back(i)
        return self._angles_back[i]

    def _pair_angles_back(self, i):
        texts = self.texts
        match = self.match
        known = self._angles_back
        opened = []
        while i >= 0:
            text = texts[i]
            if text == '>':
                if i in known:
                    if known[i] is None:
                        break
                    i = known[i]
                else:
                    opened.append(i)
            elif text == '<':
                known[opened.pop()] = i
            elif text in OPENS or text == ';':
                break
            if not opened:
                return
            i = match.get(i, i) - 1
        known.update(dict.fromkeys(opened))

    def until(self, i, stops):
        "Return the index of the first of `stops` from `i` on, outside inner brackets, or the end of the outer bracket"
        if stops not in self._ends:
            self._ends[stops] = {}, {*stops, *CLOSES}
        known, ends = self._ends[stops]
        texts, match, n = self.texts, self.match, self._length
        steps, passed = 0, []
        while i < n and (text := texts[i]) not in ends:
            if i in known:
                i = known[i]
                break
            steps += 1
            if not steps % _STORE_EVERY:
                passed.append(i)
            if text == '<':
                i = self.closing_angle(i) or i
            i = match.get(i, i) + 1
        if passed:
            known.update(dict.fromkeys(passed, i))
        return i

    def arguments(self, p):
        "Return a list with (start, end) of each argument of the call with its `(` at `p`"
        res = []
        i = p + 1
        q = self.match.get(p, len(self))
        while i < q:
            end = min(self.until(i, (',',)), q)
            res.append((i, end))
            i = end + 1
        return res

    def call(self, a, b):
        "Return the index of the first `(` in `a:b` that follows the name of a function; None if there is none"
        if '(' not in self.texts[a:b]:
            return None
        if (a, b) not in self._calls:  # cached, because several modules read the same head
            self._calls[a, b] = self._call(a, b)
        return self._calls[a, b]

    def _call(self, i, b):
        texts = self.texts
        match = self.match
        b = min(b, self._length)
        first = texts.index('(', i, b)  # `call` has seen one
        i = first if _BEFORE_CALL.isdisjoint(texts[i:first]) else i
        while i < b and (text := texts[i]) != '=' and text != 'operator':
            named = text == '(' and self.is_word(i - 1) and texts[i - 1] not in NOT_NAMES
            if named and not self._name_follows(match.get(i, i) + 1, b):
                return i
            if text == '<':
                i = self.closing_angle(i) or i
            i = match.get(i, i) + 1

    def is_evaluated(self, i):
        "Return whether token `i` is evaluated: it is not in an operand of `sizeof`, `decltype` or the like"
        while (i := self.outer[i]) >= 0:
            if self[i - 1] in _UNEVALUATED:
                return False
        return True

    def _name_follows(self, i, b):
        "Return whether another name follows at `i`, so that an attribute or a macro precedes it"
        return i < b and self.is_word(i) and self[i] not in _AFTER_PARAMETER_LIST

    def after_template(self, i):
        "Return the index after the template header and requires clause at `i`; `i` if there is none"
        if self[i] not in _TEMPLATE_HEADERS:
            return i
        while self[i] == 'template' and self[i + 1] == '<':
            i = (self.closing_angle(i + 1) or i + 1) + 1
        while self[i] in _CONSTRAINTS:
            i = self._after_constraint(i + 1)
        return i

    def _after_constraint(self, i):
        if self[i] == '(':
            return self.match.get(i, i) + 1
        while self.is_word(i) or self[i] == '::':
            i += 1
            if self[i] == '<':
                return (self.closing_angle(i) or i) + 1
        return i

    # What a brace opens decides whether `__device__ int x;` is a variable or a member, and whether an `extern
    # __shared__` is in a function.
    def kind(self, opening):
        "Return what the bracket `opening` opens: 'namespace', 'type' or 'code'; -1 is the source itself, a 'namespace'"
        unknown = []
        while opening not in self.kinds:
            unknown.append(opening)
            opening = self.outer[opening]
        kind = self.kinds[opening]
        for opening in reversed(unknown):
            kind = self.kinds[opening] = (
                self._kind_of_braces(opening) if self[opening] == '{' and kind != 'code' else 'code'
            )
        return kind

    def _kind_of_braces(self, opening):
        a = opening
        texts = self.texts
        if texts[a - 1] == '=':
            return 'code'  # an initializer
        match = self.match
        while a > 0 and texts[a - 1] not in _BEFORE_DECLARATIONS:
            a = match.get(a - 1, a - 1)
        a = self.after_template(a)
        if 'namespace' in (self[a], self[a + 1]) or (self[opening - 2] == 'extern' and self.is_string(opening - 1)):
            return 'namespace'
        if _CLASS_KEYS.isdisjoint(texts[a:opening]):
            return 'code'
        types = any(self[i] in _CLASS_KEYS for i in range(a, opening) if self.outer[i] == self.outer[opening])
        return 'type' if types and self.call(a, opening) is None else 'code'

    def scope(self, i):
        "Return what token `i` is in: 'namespace', 'type' or 'code'"
        opening = self.outer[i]
        return self.kinds.get(opening) or self.kind(opening)

    def text(self, ids):
        "Join the tokens with indices `ids` to one line, without comments"
        if isinstance(ids, range) and ids and 0 <= ids.start and ids.stop <= self._length:
            text = self.src[self.start(ids.start) : self.end(ids[-1])]
            if not _NEEDS_NORMALIZATION.search(text):
                return text
        ids = list(ids)
        return ''.join((self._gap(ids[n - 1], i) if n else '') + self[i] for n, i in enumerate(ids))

    def _gap(self, i, j):
        "Return the separator between tokens `i` and `j`: a blank or nothing"
        separate = self.start(j) > self.end(i) if j == i + 1 else self.is_word(i) and self.is_word(j)
        return ' ' if separate else ''


_BRACKETS = frozenset((*CLOSES, *OPENS))
_DEPTHS = {'(': 1, ')': -1}


def is_balanced(c: Code) -> bool:
    "Return whether each bracket has a match"
    kinds = _BRACKETS.intersection(c.texts)
    if kinds <= _DEPTHS.keys() and not c.directives:
        depths = [*accumulate(map(_DEPTHS.get, c.texts, repeat(0)))] if kinds else [0]
        return depths[-1] == 0 and min(depths) >= 0
    return c.match.keys() >= {*c.find(*_BRACKETS)}


class MacroCode(Code):
    "The body of a macro; its brackets are matched when `match` or `outer` is first read, which is rare"

    def __getattr__(self, name):
        if name not in ('match', 'outer'):
            raise AttributeError(name)
        self._match_brackets()
        return self.__dict__[name]


# matches text between tokens other than single spaces, for which `text` joins the tokens one by one
_NEEDS_NORMALIZATION = re.compile(r'[^\S ]|  |//|/\*|\\|\ufeff')


@contextmanager
def defer_collection():
    """Disable garbage collection until the end of the `with` block, the outermost one if blocks are nested.

    Reading a source makes many objects, none of which is garbage."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def between(indices, start, end):
    "Return those of the sorted `indices` that are in `start:end`"
    return indices[bisect_left(indices, start) : bisect_left(indices, end)]


def _pass_directive(d, opened, groups, choose):
    "Return the open brackets after a preprocessor line; each branch begins with those that were open before its `#if`"
    word = directive_word(d.text)
    if word.startswith('if'):
        groups.append((list(opened), [], [d.likely]))
    elif word.startswith('el') and groups:
        before, ended, likely = groups[-1]
        ended.append((likely[0], opened))
        likely[0] = d.likely
        return list(before)
    elif word == 'endif' and groups:
        before, ended, likely = groups.pop()
        ended.append((likely[0], opened))
        if all(value is False for value, _ in ended):
            ended.append((True, before))  # if no branch is compiled
        return choose(ended)[1]
    return opened


def _likely_branch(branches):
    return max(branches, key=lambda branch: (branch[0] is True, branch[0] is None))
