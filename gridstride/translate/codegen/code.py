"""The C code of an expression, with its precedence and its type."""

from collections import namedtuple

# type: the C type. The code of an integer expression evaluates to its value in Python, unless it was emitted with
# `low_bits_only`.
Code = namedtuple('Code', 'text precedence type')

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


def binary_code(op, a, b, precedence, right_needs_no_parens=False):
    "Return the string `a op b`, with parentheses where C requires them or readers expect them"
    is_bitwise = SHIFT >= precedence >= BITOR and precedence not in (LESS, EQUAL)

    def operand_text(t, is_right):
        needs_parens = (
            t.precedence < precedence or is_right and t.precedence == precedence and not right_needs_no_parens
        )
        if (
            is_bitwise
            and t.precedence < UNARY
            and not (t.precedence == precedence and not is_right and precedence != SHIFT)
        ):
            needs_parens = True
        if precedence in (LESS, EQUAL) and t.precedence in (LESS, EQUAL, BITAND, BITXOR, BITOR):
            needs_parens = True
        if precedence == OR and t.precedence == AND:
            needs_parens = True
        return f'({t.text})' if needs_parens else t.text

    space = '' if op in ('*', '/') else ' '
    return f'{operand_text(a, False)}{space}{op}{space}{operand_text(b, True)}'


def parenthesize(t, precedence=UNARY):
    "Return the string of `t`, in parentheses if its precedence is less than `precedence`"
    return f'({t.text})' if t.precedence < precedence else t.text


class Unsupported(Exception):
    "Raised for a construct that CUDA C cannot express: (its description, hint)"
