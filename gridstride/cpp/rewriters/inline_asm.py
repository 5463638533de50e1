"""Rewrites statements of inline PTX, `asm volatile("text" : outputs : inputs : clobbers)`, to blocks of C++.

In the block each operand is a variable, `gs_0` for `%0`, and `ptx` translates the PTX to calls. An output is written
back after the last instruction. An operand `"n"` is a constant expression, which PTX also allows in place of a literal.
The body of a macro may insert its parameter into the text, as in `"cp.async.wait_group " #n ";"`.
"""

from ..frontend.edits import Edits, NotEmulated
from .ptx import UnknownPTX, translate_ptx
from ..frontend.tokens import string_value


def rewrite_asm(e: Edits):
    "Rewrite each asm statement to a block of calls"
    c = e.code
    for i in c.find('asm', '__asm__', '__asm'):
        _rewrite_statement(e, i)


def _rewrite_statement(e, i):
    c = e.code
    paren = next(
        j for j in range(i + 1, len(c) + 1) if c[j] not in ('volatile', '__volatile__', '__volatile', 'inline')
    )
    if c[paren] != '(' or paren not in c.match:
        raise c.error(NotEmulated, 'the emulator cannot parse this asm statement', i)
    text, *operand_indices = _split_at_colons(c, paren)
    operands = [
        (*operand, n == 0)
        for n, token_indices in enumerate(operand_indices[:2])
        for operand in _read_operands(c, token_indices)
    ]
    try:
        calls = translate_ptx(_asm_text(e, text), len(operands))
        bindings = [_bind(n, *operand) for n, operand in enumerate(operands)]
    except UnknownPTX as error:
        message = f'{error}; exclude it from the emulator with `#ifndef GRIDSTRIDE_EMULATOR`'
        raise c.error(NotEmulated, message, i) from None
    block = [
        'do {',
        *(definition for definition, _ in bindings),
        calls,
        *(store for _, store in bindings if store),
        '} while (0)',
    ]
    e.replace_tokens(i, c.match[paren], ' '.join(block))


def _split_at_colons(c, paren):
    "Split an asm statement, whose `(` is token `paren`, at its colons; returns the token indices of each section"
    sections, j = [[]], paren + 1
    while j < c.match[paren]:
        if c[j] in (':', '::'):
            sections += [[] for _ in c[j]]
        else:
            sections[-1] += range(j, c.match.get(j, j) + 1)
        j = c.match.get(j, j) + 1
    return sections


def _asm_text(e, token_indices):
    """Return the text of an asm statement.

    It consists of string literals, macros that expand to them, and stringified macro parameters, marked by \\x01."""
    c, parts = e.code, []
    for j in token_indices:
        if c.is_string(j):
            parts.append(string_value(c[j]))
        elif c.macro is not None and c[j - 1] == '#' and c[j] in c.macro:
            parts.append(f'\x01{c[j]}\x01')
        elif c[j] in e.literals:
            parts.append(e.literals[c[j]])
        elif c[j] != '#':
            message = (
                f'on the emulator, the text of an asm statement must be written as string literals, not as {c[j]!r}'
            )
            raise c.error(NotEmulated, message, j)
    return ''.join(parts)


def _read_operands(c, token_indices):
    "Return a list of (constraint, expression), one per operand"
    operands, j = [], 0
    while j < len(token_indices):
        i = token_indices[j]
        if not c.is_string(i) or c[i + 1] != '(':
            raise c.error(NotEmulated, 'the emulator supports only asm operands of the form "r"(x)', i)
        operands.append((string_value(c[i]), c.text(range(i + 1, c.match[i + 1] + 1))))
        j = token_indices.index(c.match[i + 1]) + 2
    return operands


def _bind(n, constraint, expression, is_output):
    "Return C++ code that defines the variable `gs_n` of an operand, and code that writes it back ('' for an input)"
    letter = constraint.strip('=+&')
    is_constant, is_marked_output = letter in ('n', 'i'), constraint[:1] in ('=', '+')
    if (
        letter not in ('r', 'l', 'f', 'd', 'h', 'n', 'i')
        or is_output != is_marked_output
        or (is_output and is_constant)
    ):
        raise UnknownPTX(f'the emulator does not support operands {constraint!r} of asm')
    if is_constant:
        return f'constexpr auto gs_{n} = {expression};', ''
    macro = ('INOUT' if '+' in constraint else 'OUT') if is_output else 'IN'
    return f"GRIDSTRIDE_PTX_{macro}({n}, '{letter}', {expression});", f'GRIDSTRIDE_PTX_STORE({n});' if is_output else ''
