"""Rewrites statements of inline PTX, `asm volatile("template" : outputs : inputs : clobbers)`, to blocks of C++.

In the block each operand is a variable, `gs_0` for `%0`, and `ptx` translates the PTX to calls. An output is written
back after the last instruction. An operand with the constraint `"n"` is a constant expression, which PTX may use as an
immediate. A macro may stringify a parameter in the template string, as in `"cp.async.wait_group " #n ";"`.
"""

import re

from ..frontend.edits import Edits, NotEmulated
from .ptx import translate_ptx
from .ptx_calls import UnknownPTX
from ..frontend.tokens import string_value


def rewrite_asm(edits: Edits):
    """Rewrite each asm statement to a block of calls.

    An unsupported statement in a library's header is reported only if it is executed, because most programs use only
    a small part of a library."""
    code = edits.code
    for i in code.find('asm', '__asm__', '__asm'):
        try:
            _rewrite_statement(edits, i, paren := _opening_paren(code, i))
        except NotEmulated as error:
            if not edits.is_header or paren not in code.match:
                raise
            _report_when_executed(edits, i, paren, str(error))


def _report_when_executed(edits, i, paren, message):
    "Replace an asm statement by a call that reports `message`; leave one that contains a preprocessor directive"
    code = edits.code
    if code.contains_directive(code.start(i), code.end(code.match[paren])):
        return
    construct = re.split(' in inline PTX|[;\n]', message.removeprefix('the emulator does not support '))[0]
    literal = '"' + construct.replace('\\', '\\\\').replace('"', '\\"') + '"'
    edits.replace_tokens(i, code.match[paren], f'::gridstride::not_emulated({literal})')


def _opening_paren(code, i):
    qualifiers = 'volatile', '__volatile__', '__volatile', 'inline'
    return next(j for j in range(i + 1, len(code) + 1) if code[j] not in qualifiers)


def _rewrite_statement(edits, i, paren):
    code = edits.code
    if code[paren] != '(' or paren not in code.match:
        raise code.error(NotEmulated, 'the emulator cannot parse this asm statement', i)
    template, *operand_indices = _split_at_colons(code, paren)
    operands = [
        (*operand, n == 0)
        for n, token_indices in enumerate(operand_indices[:2])
        for operand in _read_operands(code, token_indices)
    ]
    try:
        calls = translate_ptx(_template_string(edits, template), len(operands))
        bindings = [_bind(n, *operand) for n, operand in enumerate(operands)]
    except UnknownPTX as error:
        message = f'{error}; exclude it from the emulator with `#ifndef GRIDSTRIDE_EMULATOR`'
        raise code.error(NotEmulated, message, i) from None
    block = [
        'do {',
        *(definition for definition, _ in bindings),
        calls,
        *(store for _, store in bindings if store),
        '} while (0)',
    ]
    edits.replace_tokens(i, code.match[paren], ' '.join(block))


def _split_at_colons(code, paren):
    "Split an asm statement, whose `(` is token `paren`, at its colons; returns the token indices of each section"
    sections, j = [[]], paren + 1
    while j < code.match[paren]:
        if code[j] in (':', '::'):
            sections += [[] for _ in code[j]]
        else:
            sections[-1] += range(j, code.match.get(j, j) + 1)
        j = code.match.get(j, j) + 1
    return sections


def _template_string(edits, token_indices):
    """Return the template string of an asm statement.

    It consists of string literals, macros that expand to them, and stringified macro parameters, marked by \\x01."""
    code, parts = edits.code, []
    for j in token_indices:
        if code.is_string(j):
            parts.append(string_value(code[j]))
        elif code.macro is not None and code[j - 1] == '#' and code[j] in code.macro:
            parts.append(f'\x01{code[j]}\x01')
        elif code[j] in edits.literals:
            parts.append(edits.literals[code[j]])
        elif code[j] != '#':
            message = f'the template string of an asm statement must consist of string literals; got {code[j]!r}'
            raise code.error(NotEmulated, message, j)
    return ''.join(parts)


def _read_operands(code, token_indices):
    "Return a list of (constraint, expression), one per operand"
    operands, j = [], 0
    while j < len(token_indices):
        i = token_indices[j]
        if not code.is_string(i) or code[i + 1] != '(':
            raise code.error(NotEmulated, 'asm operands must have the form "constraint"(expression)', i)
        operands.append((string_value(code[i]), code.text(range(i + 1, code.match[i + 1] + 1))))
        j = token_indices.index(code.match[i + 1]) + 1
        j += j < len(token_indices) and code[token_indices[j]] == ','  # nvcc does not require the comma
    return operands


def _bind(n, constraint, expression, is_output):
    "Return C++ code that defines the variable `gs_n` of an operand, and code that stores the output ('' for an input)"
    letter = constraint.strip('=+&')
    is_constant, is_marked_output = letter in ('n', 'i'), constraint[:1] in ('=', '+')
    if (
        letter not in ('r', 'l', 'f', 'd', 'h', 'n', 'i')
        or is_output != is_marked_output
        or (is_output and is_constant)
    ):
        raise UnknownPTX(f'the emulator does not support inline asm operands with constraint {constraint!r}')
    if is_constant:
        return f'constexpr auto gs_{n} = {expression};', ''
    if not is_output:  # a copy, which the PTX may change
        return f"auto gs_{n} = ::gridstride::ptx::read_operand<'{letter}'>({expression});", ''
    macro = 'INOUT' if '+' in constraint else 'OUT'
    return f"GRIDSTRIDE_PTX_{macro}({n}, '{letter}', {expression});", f'GRIDSTRIDE_PTX_STORE({n});'
