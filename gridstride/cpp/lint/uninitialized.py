"""Corrects a compiler's warnings about uninitialized variables: removes false positives, and adds missed variables.

A compiler does not know that `threadIdx.x < n` has the same value before and after a barrier, so it warns of correct
code. And if a variable is set to 3 on one path only, a compiler may assume 3 on all paths, without a warning.
"""

import re

from ..frontend.code import NON_FUNCTION_KEYWORDS, Code
from ..frontend.declarations import BUILTIN
from ..frontend.reader import read

__all__ = ['is_guarded', 'is_set_by_call', 'macros_that_set', 'may_use_uninitialized', 'find_uninitialized_uses']

_SHORT_CIRCUIT = ('?', '&&', '||', 'and', 'or')
_CONTROL_KEYWORDS = ('if', 'for', 'while', 'switch')
_EXITS = ('return', 'break', 'continue', 'goto', 'throw', 'asm', '__asm__', 'exit', '__trap')


def is_guarded(code: Code, name: str, line: int):
    "Return whether all uses of the variable on this line are conditional"
    uses_on_line = [i for i in code.find(name) if _refers_to(code, i, name) and code.line(i) == line]
    return bool(uses_on_line) and all(_is_conditional_use(code, i, _declaration(code, i, name)) for i in uses_on_line)


_CUDA_FUNCTION = re.compile(r'cu(?:da|rand|blas)?[A-Z]\w*')  # functions of CUDA's libraries


def is_set_by_call(code: Code, name: str, line: int, macros=()):
    """Return whether the variable's address is passed to a CUDA function before this line, as in `cudaMalloc(&p, n)`.

    The emulator's function does not set it on an error, which a compiler sees; nvcc cannot see CUDA's code."""
    uses = [i for i in code.find(name) if _refers_to(code, i, name) and code.line(i) <= line]
    start = _declaration(code, uses[-1], name) if uses else 0
    return any(i > start and _is_passed_to_cuda(code, i, macros) for i in uses)


def _is_passed_to_cuda(code, i, macros):
    "Return whether the variable at token `i` is passed by address to a CUDA function, or to one of `macros`"
    opening, operator = code.parent[i], i - 1
    while code[operator] == '(':
        operator -= 1
    while opening >= 0 and code[opening] == '(':
        if code[opening - 1] in macros:
            return True
        if _CUDA_FUNCTION.fullmatch(code[opening - 1]):
            return code[operator] == '&'
        opening = code.parent[opening]
    return False


def macros_that_set(src: str):
    "Return the names of macros that pass an address to a CUDA function"
    macros = read(src).macros
    return {
        m.name for m in macros if m.find('&') and any(_CUDA_FUNCTION.fullmatch(m[paren - 1]) for paren in m.find('('))
    }


_NO_INITIALIZER = re.compile(rf"[;{{}}]\s*(?:(?:{'|'.join(sorted(BUILTIN))})\s+)+\w+\s*[,;]")


def may_use_uninitialized(src: str):
    "Return quickly whether `find_uninitialized_uses` may find anything"
    return bool(_NO_INITIALIZER.search(src))


def find_uninitialized_uses(code: Code):
    "Yield (name, line) per variable that is assigned only in an `if`, and then used unconditionally"
    for i in range(len(code)):
        for name in _declared_without_value(code, i):
            if (use := _uninitialized_use(code, name)) is not None:
                yield code[name], code.line(use)


def _refers_to(code, i, name):
    return code[i] == name and code.is_word(i) and code[i - 1] not in ('.', '->', '::')


def _declaration(code, i, name):
    "Return the first token of this name in the function around token `i`, or in an enclosing scope"
    opening = i
    while code.parent[opening] != -1 and code.scope_kind(code.parent[opening]) == 'code':
        opening = code.parent[opening]
    return next(k for k in code.find_between(name, opening, i + 1) if _refers_to(code, k, name))


def _is_conditional_use(code, use, declaration):
    "Return whether a use is conditional within the scope of its declaration; True for the declaration itself"
    extra_conditions = _conditions(code, use) - _conditions(code, declaration)
    return use == declaration or any(code[keyword] not in ('for', 'while') for keyword in extra_conditions)


def _conditions(code, i):
    "Return the tokens of the `if`, `else`, loops, `?`, `&&` and `||` that decide whether token `i` is evaluated"
    conditions = set()
    while i != -1:
        start = _start_of_statement(code, i)
        conditions |= {k for k in range(start, i) if code[k] in _SHORT_CIRCUIT and code.parent[k] == code.parent[i]}
        while start < i and code[start] in (*_CONTROL_KEYWORDS, 'else', 'do'):
            end = start
            if code[start] in _CONTROL_KEYWORDS:
                end = code.match.get(code.find_stop(start, ('(',)), i)
            if end >= i:
                break
            conditions.add(start)
            start = end + 1
        i = code.parent[i]
    return conditions


def _start_of_statement(code, i):
    "Return the first token of the statement, or of the innermost brackets, that contain token `i`"
    while i > 0 and code[i - 1] not in (';', '{', '}', '(', '['):
        i = code.match.get(i - 1, i - 1)
    return i


def _declared_without_value(code, i):
    "Yield the tokens of the names that the statement at token `i` declares without an initializer: `float v, w;`"
    if (
        code[i] not in BUILTIN
        or code[i - 1] not in (';', '{', '}')
        or code.scope(i) != 'code'
        or code[code.parent[i]] != '{'
    ):
        return
    while code[i] in BUILTIN:
        i += 1
    end = code.find_stop(i, (';',))
    for k in range(i, end):
        if code.is_word(k) and code.parent[k] == code.parent[i] and code[k - 1] != '*' and code[k + 1] in (',', ';'):
            if k == i or code[k - 1] == ',':
                yield k


def _uninitialized_use(code, name):
    "Return the first use of the variable declared at token `name` that may be uninitialized; None if there is none"
    body = code.parent[name]
    uses = [
        k
        for k in code.find_between(code[name], name + 1, code.match.get(body, len(code)))
        if _refers_to(code, k, code[name])
    ]
    if (
        not uses
        or code[uses[0] + 1] != '='
        or _start_of_statement(code, uses[0]) == uses[0]
        and code.parent[uses[0]] == body
    ):
        return None
    conditions = [*(_conditions(code, uses[0]) - _conditions(code, name))]
    paren = conditions[0] + 1 if conditions else 0
    if len(conditions) != 1 or code[paren - 1] != 'if' or code[paren] != '(' or code[code.match[paren] - 2] == '(':
        return None
    end = code.match[paren] + 1
    end = code.match[end] if code[end] == '{' else code.find_stop(end, (';',))
    later_uses = [k for k in uses if k > end]
    if not later_uses or code[end + 1] == 'else' or not _is_certainly_read(code, later_uses[0], body):
        return None
    use = later_uses[0]
    start = _start_of_statement(code, use)
    leaves = any(code[k] in _EXITS for k in range(end + 1, use) if k < start or code[k] != 'return')
    if leaves or code.has_directive(end + 1, use) or _conditions(code, use) - _conditions(code, name):
        return None
    return use


def _is_certainly_read(code, i, body):
    "Return whether token `i` is certainly read: not assigned, not passed to a function, not in inner braces of `body`"
    if code[i + 1] == '=' or code[i - 1] in ('&', '>>'):
        return False
    while (opening := code.parent[i]) != body:
        if (
            code[opening] == '{'
            or code[opening] == '('
            and code.is_word(opening - 1)
            and code[opening - 1] not in NON_FUNCTION_KEYWORDS
        ):
            return False
        i = opening
    return True
