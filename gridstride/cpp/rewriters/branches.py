"""Inserts calls into the conditions of device code, so that the runtime can count the warps that take each branch.

`runtime/coverage.cpp` counts the outcomes. The conditions of `if`, `while` and `for` are rewritten, except those that
declare a variable or are always true."""

from ..frontend.code import Code
from ..frontend.edits import apply
from ..frontend.reader import declaration_heads, read

_STATEMENTS = frozenset(('if', 'while', 'for'))
_DEVICE_SPECIFIERS = frozenset(('__global__', '__device__'))
_ALWAYS_TRUE = frozenset(('true', '1'))


def record_branches(
    text: str,  # C++ for the emulator, in which `#line` directives may name the learner's files
) -> str:  # the same lines
    """Rewrite the conditions of device code.

    >>> record_branches('__global__ void f(int n) { if (n > 2) n = 1; }')
    '__global__ void f(int n) { if (::gridstride::took_branch(__FILE__, __LINE__, 10, bool((n > 2)))) n = 1; }'"""
    code = read(text).main
    edits = []
    for first, end in _conditions(code):
        position, end_position = code.start(first), code.end(end - 1)
        edits.append((position, position, f'::gridstride::took_branch(__FILE__, __LINE__, {first}, bool(('))
        edits.append((end_position, end_position, ')))'))
    return apply(text, edits)


def _conditions(code: Code):
    "Yield (first token, end) of each condition in device functions, and in classes that have device functions"
    for head in declaration_heads(code):
        end = code.match.get(head.end, head.end)
        if not head.is_definition or _DEVICE_SPECIFIERS.isdisjoint(code.expanded_texts(head.start, end)):
            continue
        for i in code.find_any_between(_STATEMENTS, head.end, end):
            if code[i + 1] == '(' and (condition := _condition(code, i)):
                yield condition


def _condition(code, i):
    "Return (first token, end) of the condition of the statement at token `i`, or None"
    first, end = i + 2, code.match[i + 1]
    semicolons = [j for j in range(first, end) if code[j] == ';' and code.parent[j] == i + 1]
    if code[i] == 'for':
        if len(semicolons) != 2:
            return None
        first, end = semicolons[0] + 1, semicolons[1]
    elif semicolons:  # after an initialization
        first = semicolons[-1] + 1
    is_constant = end == first or end == first + 1 and code[first] in _ALWAYS_TRUE
    return None if is_constant or _declares_variable(code, first, end) else (first, end)


def _declares_variable(code, first, end):
    "Return whether a condition is a declaration such as `int *p = f()` or `int n{f()}`"
    initializer = next((j for j in range(first, end) if code[j] in ('=', '{')), end)
    name = initializer - 1
    return (
        first < name
        and initializer < end
        and code.is_word(first)
        and code.is_word(name)
        and (code.is_word(name - 1) or code[name - 1] in ('*', '&', '&&', '>'))
    )
