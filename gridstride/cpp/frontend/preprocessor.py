"""Which branches of `#if`, `#ifdef` and `#else` are compiled, as far as the source alone determines.

Two questions are answered per branch. What is *surely* not compiled (`#if 0`, `#ifndef GRIDSTRIDE_EMULATOR`) is
skipped. Where nothing is sure, all branches are rewritten for the emulator, and the one that is *likely*
decides which brackets count and what functions there are: a name without a definition here is likely undefined.
A condition has one of three values: True, False, and None for unknown.
"""

import operator, re

_GAP = r'(?:[ \t]|\\\r?\n|/\*.*?\*/)'
_WORD = re.compile(rf'\#{_GAP}*(\w*)', re.S)
DEFINE = re.compile(rf'\#{_GAP}*define{_GAP}+(\w+)(?:\(([^)]*)\))?', re.S)  # name, parameters; the body follows
_UNDEF = re.compile(rf'\#{_GAP}*undef{_GAP}+(\w+)', re.S)
_INCLUDE = re.compile(rf'\#{_GAP}*include{_GAP}*([<"])([^>"\n]+)[>"]', re.S)

# what `emulator.h` and the compiler define, and names that other headers may define
_SURE = dict(GRIDSTRIDE_EMULATOR='1', true='1', false='0')
_LIKELY = dict(CUDA_VERSION='13000', CUDART_VERSION='13000', __CUDA_ARCH__='900', __CUDACC__='1', __NVCC__='1')
_LIKELY |= dict(__cplusplus='201703')
_OTHERS = re.compile(r'_|CUDA|CUDNN|CUB_|TORCH|C10_|AT_|\w+_(MAX|MIN|BIT)$|M_|(NULL|EOF|assert)$')


def directive_word(text: str) -> str:
    "Return the word of a preprocessor line: 'if', 'define', ..."
    return _WORD.match(text)[1]


def read_include(text: str):  # a preprocessor line
    "Return (is the name in quotes?, the header's name) of an `#include`; None for any other line"
    m = _INCLUDE.match(text)
    return m and (m[1] == '"', m[2])


class Macros:
    "The known macros; `likely`: probable values count, too"

    def __init__(self, likely=False):
        self.likely, self.own_headers = likely, False
        start = {**_SURE, **_LIKELY} if likely else _SURE
        self.known = {k: (True, v) for k, v in start.items()}  # name -> (is it defined, its body), None for unknown

    def follow(self, text: str, live):
        "Update by the preprocessor line `text`, which is compiled if `live`"
        if m := DEFINE.match(text):
            body = text[m.end() :].strip() if m[2] is None else None
            self.known[m[1]] = (True, body) if live else (self.look_up(m[1])[0] or None, None)
        elif m := _UNDEF.match(text):
            self.known[m[1]] = (False, '0') if live else (None, None)
        elif (header := read_include(text)) and header[0]:
            self.own_headers = True  # they may define any name

    def look_up(self, name: str):
        "Return (is `name` defined, its body)"
        undefined = self.likely and not self.own_headers and not _OTHERS.match(name)
        return self.known.get(name, (False, '0') if undefined else (None, None))


# A condition is evaluated by precedence climbing. An unknown operand makes unknown only what depends on
# it; syntax that is not known here makes the whole condition unknown.
def _truth(a):
    return None if a is None else bool(a)


def _and(a, b):
    a, b = _truth(a), _truth(b)
    return False if a is False or b is False else None if a is None or b is None else True


def _not(a):
    return None if a is None else not a


def _or(a, b):
    return _not(_and(_not(a), _not(b)))


def _lift(f):
    return lambda a, b: None if a is None or b is None else int(f(a, b))


_LOGIC = {'||': (0, _or), '&&': (1, _and)}
_LEVELS = (
    {'|': operator.or_},
    {'^': operator.xor},
    {'&': operator.and_},
    {'==': operator.eq, '!=': operator.ne},
    {'<': operator.lt, '>': operator.gt, '<=': operator.le, '>=': operator.ge},
    {'<<': operator.lshift, '>>': operator.rshift},
    {'+': operator.add, '-': operator.sub},
    {'*': operator.mul, '/': operator.floordiv, '%': operator.mod},
)
_BINARY = _LOGIC | {op: (n, _lift(f)) for n, level in enumerate(_LEVELS, 2) for op, f in level.items()}
_UNARY = {'!': _not, '-': lambda a: a and -a, '+': lambda a: a, '~': lambda a: None if a is None else ~a}
_COMMENT = re.compile(r'//.*|/\*.*?\*/|\\\r?\n', re.S)
_PIECE = re.compile(r"\d[\w']*|\w+|<<|>>|[<>=!]=|&&|\|\||\S")


class _Condition:
    "The words of one condition, consumed from the left while it is evaluated"

    def __init__(self, words, macros, depth):
        self.words = words
        self.macros = macros
        self.depth = depth

    def value(self):
        "Evaluate the condition, which must end here"
        value = self.binary(0)
        if self.words:
            raise ValueError(self.words)
        return value

    def binary(self, level):
        "Evaluate an expression with operators of this `level` or tighter ones"
        a = self.unary()
        while self.words and _BINARY.get(self.words[0], (-1,))[0] >= level:
            n, f = _BINARY[self.words.pop(0)]
            a = f(a, self.binary(n + 1))
        return a

    def unary(self):
        word = self.words.pop(0)
        if word in _UNARY:
            return _UNARY[word](self.unary())
        if word == '(':
            return self.close(self.binary(0))
        if word == 'defined':
            return self.read_defined()
        if word[0].isdigit():
            return int(word.rstrip('uUlL').replace("'", ''), 0)
        return evaluate(self.macros.look_up(word)[1], self.macros, self.depth + 1)

    def read_defined(self):
        name = self.words.pop(0)
        if name != '(':
            return self.macros.look_up(name)[0]
        return self.close(self.macros.look_up(self.words.pop(0))[0])

    def close(self, value):
        if self.words.pop(0) != ')':
            raise ValueError(self.words)
        return value


def evaluate(
    text,  # of a condition; None: unknown
    macros: Macros,
    depth=0,  # the macros that are being expanded
):  # a number or a boolean; None: unknown
    "Evaluate a condition, such as `defined(A) && N > 3`"
    if text is None or depth > 9:
        return None
    try:
        return _Condition(_PIECE.findall(_COMMENT.sub(' ', text)), macros, depth).value()
    except (ValueError, IndexError, ArithmeticError):
        return None


class _Group:
    "An open `#if`: is its location compiled (`outer`), was a branch taken, is the current one (`own`)?"

    def __init__(self, outer, condition):
        self.outer = outer
        self.taken = condition
        self.own = condition

    def go_on(self, condition):
        "Begin the next branch"
        self.own = _and(_not(self.taken), condition)
        self.taken = _or(self.taken, condition)


class Branches:
    "The open `#if`s at a location in the source, and the macros known there; `likely` as for `Macros`"

    def __init__(self, likely=False):
        self.groups, self.macros = [], Macros(likely)

    @property
    def own(self):
        "Is the innermost branch the one that is taken?"
        return self.groups[-1].own if self.groups else True

    @property
    def live(self):
        "Is this location compiled?"
        return _and(self.groups[-1].outer, self.own) if self.groups else True

    def follow(self, text: str, word: str):
        "Advance past the preprocessor line `text`, whose `directive_word` is `word`"
        if word.startswith('if'):
            self.groups.append(_Group(self.live, self.condition(text)))
        elif word.startswith('el') and self.groups:
            self.groups[-1].go_on(self.condition(text))
        elif word == 'endif' and self.groups:
            self.groups.pop()
        elif self.live is not False:
            self.macros.follow(text, self.live)

    def condition(self, text):
        "Return the condition of a preprocessor line; True for `else`"
        m = _WORD.match(text)
        word, expression = m[1], text[m.end() :]
        if word in ('ifdef', 'ifndef', 'elifdef', 'elifndef'):
            defined = self.macros.look_up(re.search(r'\w*$', _COMMENT.sub(' ', expression).rstrip())[0])[0]
            return _not(defined) if 'ndef' in word else defined
        return True if word == 'else' else _truth(evaluate(expression, self.macros))


def live(
    lines,  # a sequence of preprocessor lines
    likely=False,  # also drop those that are probably not compiled?
):
    """Yield (line, None if it is dropped; may the code after it be compiled?) per preprocessor line.

    The lines of a conditional stay if nothing decides between its branches, with the probability of each."""
    # stays: per open conditional
    here = Branches(likely)
    probably = Branches(likely=True)
    stays = []
    now = here.live
    for t in lines:
        word, kept = directive_word(t.text), None
        here.follow(t.text, word)
        probably.follow(t.text, word)
        outer, now = now, here.live
        if word.startswith('if'):
            stays.append(outer is not False and here.own is None)
            if stays[-1]:
                kept = t._replace(likely=probably.own)
        elif word.startswith('el') and stays:
            begins = not stays[-1] and here.own is None and here.groups[-1].outer is not False
            if begins or stays[-1]:
                kept = t._replace(text='#if' if begins else t.text, likely=probably.own)
            stays[-1] |= begins
        elif word == 'endif' and stays:
            kept = t if stays.pop() else None
        elif now is not False:
            kept = t
        yield kept, now is not False


def includes(
    lines,  # a sequence of preprocessor lines
):
    "Yield (line, result of `read_include`) per `#include` that may be compiled"
    if any('include' in t.text for t in lines):  # otherwise no condition needs to be evaluated
        for t, _ in live(lines):
            if found := t and read_include(t.text):
                yield t, found
