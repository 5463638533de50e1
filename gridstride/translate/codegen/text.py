"""The text of an expression in C, with its precedence and its type."""

from collections import namedtuple


# prec: precedence; type: C's type. An integer has the value that it has in Python, unless only its low bits matter.
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
}  # in the order of C's usual arithmetic conversions


PROMOTED = {'signed char': 'int', 'unsigned char': 'int', 'short': 'int', 'unsigned short': 'int'}


C_INTEGERS = ('int', 'unsigned int', 'long long', 'unsigned long long')


WIDE_TYPES = ('long long', 'unsigned long long')


def join_text(op, a, b, prec, right_loose=False):
    "Write `a op b` with the parentheses that C and its readers need"
    bitwise = SHIFT >= prec >= BITOR and prec not in (LESS, EQUAL)

    def side(t, right):
        need = t.prec < prec or right and t.prec == prec and not right_loose
        if bitwise and t.prec < UNARY and not (t.prec == prec and not right and prec != SHIFT):
            need = True
        if prec in (LESS, EQUAL) and t.prec in (LESS, EQUAL, BITAND, BITXOR, BITOR):
            need = True
        if prec == OR and t.prec == AND:
            need = True
        return f'({t.text})' if need else t.text

    gap = '' if op in ('*', '/') else ' '
    return f'{side(a, False)}{gap}{op}{gap}{side(b, True)}'


def parenthesize(t, prec=UNARY):
    "Write the text `t`, in parentheses unless its precedence is at least `prec`"
    return f'({t.text})' if t.prec < prec else t.text


class Unsupported(Exception):
    "Raised for a construct that cannot be written in CUDA C: (its description, hint)"
