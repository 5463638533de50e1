"""The text of an expression in C, with its precedence and its type."""

from collections import namedtuple

# prec: precedence; type: the C type. The text of an integer has the value that the expression has in Python, unless it
# was written with `low_bits_only`.
Text = namedtuple('Text', 'text prec type')

PRIMARY, UNARY, TIMES, PLUS, SHIFT, LESS, EQUAL, BITAND, BITXOR, BITOR, AND, OR, CONDITIONAL = range(15, 2, -1)

CONVERSION_RANK = {
    'bool': 0,
    'int': 1,
    'unsigned int': 2,
    'long long': 3,
    'unsigned long long': 4,
    '__half': 5,
    'float': 6,
    'double': 7,
}  # the operand with the higher rank determines the type of an operation in C

# The type after C's integer promotion
PROMOTED = {'signed char': 'int', 'unsigned char': 'int', 'short': 'int', 'unsigned short': 'int'}

C_INTEGERS = ('int', 'unsigned int', 'long long', 'unsigned long long')

WIDE_TYPES = ('long long', 'unsigned long long')


def binary_text(op, a, b, prec, right_needs_no_parens=False):
    "Return the text of `a op b`, with parentheses where C requires them or readers expect them"
    is_bitwise = SHIFT >= prec >= BITOR and prec not in (LESS, EQUAL)

    def operand_text(t, is_right):
        needs_parens = t.prec < prec or is_right and t.prec == prec and not right_needs_no_parens
        if is_bitwise and t.prec < UNARY and not (t.prec == prec and not is_right and prec != SHIFT):
            needs_parens = True
        if prec in (LESS, EQUAL) and t.prec in (LESS, EQUAL, BITAND, BITXOR, BITOR):
            needs_parens = True
        if prec == OR and t.prec == AND:
            needs_parens = True
        return f'({t.text})' if needs_parens else t.text

    space = '' if op in ('*', '/') else ' '
    return f'{operand_text(a, False)}{space}{op}{space}{operand_text(b, True)}'


def parenthesize(t, prec=UNARY):
    "Return the text `t`, in parentheses if its precedence is less than `prec`"
    return f'({t.text})' if t.prec < prec else t.text


class Unsupported(Exception):
    "Raised for a construct that cannot be written in CUDA C: (its description, hint)"
