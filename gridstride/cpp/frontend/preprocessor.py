"""Determines which branches of `#if`, `#ifdef` and `#else` are compiled, as far as the source alone determines this.

A branch that is *certainly* not compiled (`#if 0`, `#ifndef GRIDSTRIDE_EMULATOR`) is skipped. If a condition is
unknown, all branches are rewritten for the emulator, and the *likely* branch determines which brackets match and which
functions exist. A name that the source does not define is likely undefined. So conditions have three values: True,
False, and None for unknown.
"""

import operator, re
from functools import lru_cache

_SPACE = r'(?:[ \t]|\\\r?\n|/\*.*?\*/)'
_DIRECTIVE = re.compile(rf'\#{_SPACE}*(\w*)', re.S)
DEFINE = re.compile(rf'\#{_SPACE}*define{_SPACE}+(\w+)(?:\(([^)]*)\))?', re.S)  # name, parameters; the body follows
_UNDEF = re.compile(rf'\#{_SPACE}*undef{_SPACE}+(\w+)', re.S)
_INCLUDE = re.compile(rf'\#{_SPACE}*include{_SPACE}*([<"])([^>"\n]+)[>"]', re.S)

# values of macros that are certainly defined, and of those that `emulator.h` and the compiler probably define
_KNOWN_MACROS = dict(GRIDSTRIDE_EMULATOR='1', true='1', false='0')
_LIKELY_MACROS = dict(CUDA_VERSION='13000', CUDART_VERSION='13000', __CUDA_ARCH__='900', __CUDACC__='1', __NVCC__='1')
_LIKELY_MACROS |= dict(__cplusplus='201703')
# names that headers outside the source may define
_RESERVED = re.compile(r'_|CUDA|CUDNN|CUB_|TORCH|C10_|AT_|\w+_(MAX|MIN|BIT)$|M_|(NULL|EOF|assert)$')


def directive_name(text: str) -> str:
    "Return the keyword of a preprocessor directive: 'if', 'define', ..."
    return _DIRECTIVE.match(text)[1]


def read_include(text: str):  # a preprocessor directive
    "Return (whether the name is in quotes, the header's name) of an `#include`; None for any other line"
    match = _INCLUDE.match(text)
    return match and (match[1] == '"', match[2])


class Macros:
    "The definitions of macros at a line; if `assume_likely`, also of macros with probable values"

    def __init__(self, assume_likely=False):
        self.assume_likely, self.includes_local_headers = assume_likely, False
        initial = {**_KNOWN_MACROS, **_LIKELY_MACROS} if assume_likely else _KNOWN_MACROS
        # name -> (whether it is defined, its body), each None if unknown
        self.definitions = {k: (True, v) for k, v in initial.items()}

    def process(self, text: str, is_live):
        "Process the preprocessor directive `text`, which is compiled if `is_live`"
        if match := DEFINE.match(text):
            body = text[match.end() :].strip() if match[2] is None else None
            self.definitions[match[1]] = (True, body) if is_live else (self.look_up(match[1])[0] or None, None)
        elif match := _UNDEF.match(text):
            self.definitions[match[1]] = (False, '0') if is_live else (None, None)
        elif (header := read_include(text)) and header[0]:
            self.includes_local_headers = True  # which may define any name

    def look_up(self, name: str):
        "Return (whether `name` is defined, its body)"
        is_undefined = self.assume_likely and not self.includes_local_headers and not _RESERVED.match(name)
        return self.definitions.get(name, (False, '0') if is_undefined else (None, None))


# A condition is evaluated by precedence climbing, in three-valued logic: `0 && unknown` is 0. Unknown syntax makes the
# whole condition unknown.
def _truth(a):
    return None if a is None else bool(a)


def _and(a, b):
    a, b = _truth(a), _truth(b)
    return False if a is False or b is False else None if a is None or b is None else True


def _not(a):
    return None if a is None else not a


def _or(a, b):
    return _not(_and(_not(a), _not(b)))


def _three_valued(operation):
    "Extend an operation to operands that may be unknown: its result is an integer, or None if an operand is unknown"
    return lambda a, b: None if a is None or b is None else int(operation(a, b))


_LOGIC = {'||': (0, _or), '&&': (1, _and)}
_PRECEDENCE_LEVELS = (
    {'|': operator.or_},
    {'^': operator.xor},
    {'&': operator.and_},
    {'==': operator.eq, '!=': operator.ne},
    {'<': operator.lt, '>': operator.gt, '<=': operator.le, '>=': operator.ge},
    {'<<': operator.lshift, '>>': operator.rshift},
    {'+': operator.add, '-': operator.sub},
    {'*': operator.mul, '/': operator.floordiv, '%': operator.mod},
)
_BINARY = _LOGIC | {
    op: (i, _three_valued(fn)) for i, level in enumerate(_PRECEDENCE_LEVELS, 2) for op, fn in level.items()
}
_UNARY = {'!': _not, '-': lambda a: a and -a, '+': lambda a: a, '~': lambda a: None if a is None else ~a}
_COMMENT = re.compile(r'//.*|/\*.*?\*/|\\\r?\n', re.S)
_TOKEN = re.compile(r"\d[\w']*|\w+|<<|>>|[<>=!]=|&&|\|\||\S")


class _Condition:
    "A recursive-descent parser that evaluates one condition; it consumes `tokens` from the front"

    def __init__(self, tokens, macros, depth):
        self.tokens = tokens
        self.macros = macros
        self.depth = depth

    def parse(self):
        "Parse and evaluate all tokens as one condition; raises `ValueError` if some are left"
        value = self.parse_binary(0)
        if self.tokens:
            raise ValueError(self.tokens)
        return value

    def parse_binary(self, level):
        "Evaluate an expression with operators of this precedence `level` or higher"
        a = self.parse_unary()
        while self.tokens and _BINARY.get(self.tokens[0], (-1,))[0] >= level:
            precedence, operation = _BINARY[self.tokens.pop(0)]
            a = operation(a, self.parse_binary(precedence + 1))
        return a

    def parse_unary(self):
        "Evaluate an operand with the unary operators before it"
        token = self.tokens.pop(0)
        if token in _UNARY:
            return _UNARY[token](self.parse_unary())
        if token == '(':
            return self.expect_closing(self.parse_binary(0))
        if token == 'defined':
            return self.parse_defined()
        if token[0].isdigit():
            return int(token.rstrip('uUlL').replace("'", ''), 0)
        return evaluate(self.macros.look_up(token)[1], self.macros, self.depth + 1)

    def parse_defined(self):
        name = self.tokens.pop(0)
        if name != '(':
            return self.macros.look_up(name)[0]
        return self.expect_closing(self.macros.look_up(self.tokens.pop(0))[0])

    def expect_closing(self, value):
        if self.tokens.pop(0) != ')':
            raise ValueError(self.tokens)
        return value


def evaluate(
    text,  # of a condition; None: unknown
    macros: Macros,
    depth=0,  # of nested macro expansions
):  # a number or a boolean; None: unknown
    "Evaluate a condition, such as `defined(A) && N > 3`"
    if text is None or depth > 9:
        return None
    try:
        return _Condition(_TOKEN.findall(_COMMENT.sub(' ', text)), macros, depth).parse()
    except (ValueError, IndexError, ArithmeticError):
        return None


class _Conditional:
    """An open conditional (`#if` to `#endif`), in three-valued logic.

    `enclosing_live`: whether the code around the conditional is compiled; `branch_taken`: whether the current branch is
    the selected one; `any_taken`: whether the current branch or an earlier one is."""

    def __init__(self, enclosing_live, condition):
        self.enclosing_live = enclosing_live
        self.branch_taken = condition
        self.any_taken = condition

    def next_branch(self, condition):
        "Begin the next branch of the conditional, which has this condition"
        earlier_taken = self.any_taken
        is_unknown = earlier_taken is None or condition is None
        self.branch_taken = False if earlier_taken is True or condition is False else None if is_unknown else True
        self.any_taken = True if earlier_taken is True or condition is True else None if is_unknown else False


class PreprocessorState:
    """The open conditionals and the macro definitions at a line of the source; `assume_likely` as for `Macros`.

    `branch_taken`: whether the innermost open conditional selects its current branch; `is_live`: whether this line is
    compiled, which also depends on the enclosing conditionals."""

    def __init__(self, assume_likely=False):
        self.conditionals, self.macros = [], Macros(assume_likely)
        self.branch_taken = self.is_live = True

    def process(self, text: str, keyword: str):
        "Advance past the preprocessor directive `text`, whose `directive_name` is `keyword`"
        if keyword.startswith('if'):
            self.conditionals.append(_Conditional(self.is_live, self.condition(text, keyword)))
        elif keyword.startswith('el') and self.conditionals:
            self.conditionals[-1].next_branch(self.condition(text, keyword))
        elif keyword == 'endif' and self.conditionals:
            self.conditionals.pop()
        else:
            if self.is_live is not False:
                self.macros.process(text, self.is_live)
            return
        self._enter_innermost()

    def _enter_innermost(self):
        "Set `branch_taken` and `is_live` for the innermost open conditional"
        if not self.conditionals:
            self.branch_taken = self.is_live = True
            return
        enclosing_live, taken = self.conditionals[-1].enclosing_live, self.conditionals[-1].branch_taken
        self.branch_taken = taken
        self.is_live = taken if enclosing_live is True or taken is False else enclosing_live

    def condition(self, text, keyword):
        "Return the condition of a preprocessor directive; True for `else`"
        if keyword == 'else':
            return True
        if keyword in _IFDEF_KEYWORDS:
            is_defined = self.macros.look_up(_defined_name(text))[0]
            return is_defined if is_defined is None or 'ndef' not in keyword else not is_defined
        return _truth(evaluate(text[_DIRECTIVE.match(text).end() :], self.macros))


_IFDEF_KEYWORDS = {'ifdef', 'ifndef', 'elifdef', 'elifndef'}


@lru_cache(4)  # because `live_lines` processes each line in two states
def _defined_name(text):
    "Return the macro's name after `#ifdef`"
    expression = text[_DIRECTIVE.match(text).end() :]
    name = expression.strip()
    return name if name.isidentifier() else re.search(r'\w*$', _COMMENT.sub(' ', expression).rstrip())[0]


def has_conditions(lines) -> bool:
    "Return whether any of the preprocessor directives is an `#if`, `#ifdef` or `#ifndef`"
    return any('if' in line.text and directive_name(line.text).startswith('if') for line in lines)


def live_lines(
    lines,  # a sequence of preprocessor directives
    assume_likely=False,  # whether to drop those that are probably not compiled, too
):
    """Yield a pair per preprocessor directive: its line, or None if it is dropped; and whether the code after it may be
    compiled.

    If it is unknown which branch of a conditional is compiled, its directives are kept, with `is_likely` set."""
    lines = [*lines]
    if not has_conditions(lines):
        yield from ((line, True) for line in lines)
        return
    likely_state = PreprocessorState(assume_likely=True)
    state = likely_state if assume_likely else PreprocessorState()
    undecided = []  # per open `#if`: whether its compiled branch is unknown
    is_live = state.is_live
    for line in lines:
        keyword, result = directive_name(line.text), None
        state.process(line.text, keyword)
        if not assume_likely:
            likely_state.process(line.text, keyword)
        enclosing_live, is_live = is_live, state.is_live
        if keyword.startswith('if'):
            undecided.append(enclosing_live is not False and state.branch_taken is None)
            if undecided[-1]:
                result = line._replace(is_likely=likely_state.branch_taken)
        elif keyword.startswith('el') and undecided:
            becomes_if = (
                not undecided[-1] and state.branch_taken is None and state.conditionals[-1].enclosing_live is not False
            )
            if becomes_if or undecided[-1]:
                result = line._replace(text='#if' if becomes_if else line.text, is_likely=likely_state.branch_taken)
            undecided[-1] |= becomes_if
        elif keyword == 'endif' and undecided:
            result = line if undecided.pop() else None
        elif is_live is not False:
            result = line
        yield result, is_live is not False


def includes(
    lines,  # a sequence of preprocessor directives
):
    "Yield (line, result of `read_include`) per `#include` that may be compiled"
    if any('include' in line.text for line in lines):  # otherwise no condition needs to be evaluated
        for line, _ in live_lines(lines):
            if header := line and read_include(line.text):
                yield line, header
