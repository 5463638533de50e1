"""Writes the elements of arrays, and pointers to them."""

from ..tree import Expr, number
from .text import PLUS, PRIMARY, PROMOTED, UNARY, Text, join_text


# Only the low 32 bits of an index matter.
class Elements:
    "Write elements of arrays, and pointers to them"

    def element_at(self, memory, idx):
        "Write the element of a memory at the indices that C needs: `x[i]`"
        return self.row(memory, idx)

    def row(self, memory, idx):
        "Write the part of a C array that its first indices select: `tile[r]`"
        return memory.c_name + ''.join(f'[{self.text(i, low=True)}]' for i in idx)

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
            at = self.write(expr.args[0], low=True)
            start = Text(m.c_name, PRIMARY, '*')
            return (
                start
                if at.text == '0'
                else Text(
                    join_text('+', start, at, PLUS, right_loose=at.prec == PLUS and ' - ' not in at.text), PLUS, '*'
                )
            )
        lead, offset = expr.args[:-1], expr.args[-1]
        left = m.ndim - len(lead)
        base = self.row(m, lead) if left == 1 else '&' + self.row(m, lead) + '[0]' * left
        t = Text(base, PRIMARY if left == 1 else UNARY, '*')
        return t if number(offset) == 0 else Text(join_text('+', t, self.write(offset, low=True), PLUS), PLUS, '*')

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
                [*view.lead, view.offset] if view.memory.dims is not None else [view.offset],
                view.memory,
            )
        ).text
