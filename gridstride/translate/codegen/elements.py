"""Writes the elements of arrays, and pointers to them."""

from ..tree import Expr, constant_value
from .text import PLUS, PRIMARY, PROMOTED, UNARY, Text, binary_text


# Indices are written with `low_bits_only`, because a valid index fits 32 bits.
class Elements:
    "Writes elements of arrays, and pointers to them"

    def element_at(self, memory, idx):
        "Write the element of a memory at an index in C: `x[i]`"
        return self.row(memory, idx)

    def row(self, memory, idx):
        "Write the element or row of a C array that the indices select: `tile[r]`"
        return memory.c_name + ''.join(f'[{self.text(i, low_bits_only=True)}]' for i in idx)

    def _expr_load(self, expr):
        type = self.element_type(expr.value.dtype)
        t = self.element_at(expr.value, expr.args)
        if type == '__nv_bfloat16':
            return Text(f'__bfloat162float({t})', PRIMARY, 'float')
        return Text(t, PRIMARY, PROMOTED.get(type, type))

    def _expr_address(self, expr):
        "Write the address at which a pointer begins: `x + i`"
        m = expr.value
        if m.dims is None:
            offset = self.write(expr.args[0], low_bits_only=True)
            start = Text(m.c_name, PRIMARY, '*')
            return (
                start
                if offset.text == '0'
                else Text(
                    binary_text(
                        '+', start, offset, PLUS, right_needs_no_parens=offset.prec == PLUS and ' - ' not in offset.text
                    ),
                    PLUS,
                    '*',
                )
            )
        leading, offset = expr.args[:-1], expr.args[-1]
        num_missing = m.ndim - len(leading)
        base = self.row(m, leading) if num_missing == 1 else '&' + self.row(m, leading) + '[0]' * num_missing
        t = Text(base, PRIMARY if num_missing == 1 else UNARY, '*')
        return (
            t
            if constant_value(offset) == 0
            else Text(binary_text('+', t, self.write(offset, low_bits_only=True), PLUS), PLUS, '*')
        )

    def argument(self, view, memory):
        "Write an array as the argument of a device function whose parameter is `memory`"
        if view.is_full_array:
            return (
                view.memory.c_name
                if memory.dims is not None or view.ndim == 1
                else '&' + view.memory.c_name + '[0]' * view.ndim
            )
        return self._expr_address(
            Expr(
                'address',
                None,
                [*view.leading_indices, view.offset] if view.memory.dims is not None else [view.offset],
                view.memory,
            )
        ).text
