"""Emits the elements of arrays, and pointers to them."""

from ..tree import Expr, constant_value
from .code import PLUS, PRIMARY, PROMOTED, UNARY, Code, binary_code


# Indices are emitted with `low_bits_only`, because a valid index fits 32 bits.
class Elements:
    "Emits elements of arrays, and pointers to them"

    def element_at(self, buffer, indices):
        "Emit the element of a buffer at an index in C: `x[i]`"
        return self.subscript(buffer, indices)

    def subscript(self, buffer, indices):
        "Emit the element or row of a C array that the indices select: `tile[r]`"
        return buffer.c_name + ''.join(f'[{self.text(i, low_bits_only=True)}]' for i in indices)

    def _expr_load(self, expr):
        type = self.element_type(expr.value.dtype)
        t = self.element_at(expr.value, expr.args)
        if type == '__nv_bfloat16':
            return Code(f'__bfloat162float({t})', PRIMARY, 'float')
        return Code(t, PRIMARY, PROMOTED.get(type, type))

    def _expr_address(self, expr):
        "Emit the address at which a pointer begins: `x + i`"
        buffer = expr.value
        if buffer.dims is None:
            offset = self.emit(expr.args[0], low_bits_only=True)
            start = Code(buffer.c_name, PRIMARY, '*')
            if offset.text == '0':
                return start
            is_sum = offset.precedence == PLUS and ' - ' not in offset.text
            return Code(binary_code('+', start, offset, PLUS, right_needs_no_parens=is_sum), PLUS, '*')
        leading, offset = expr.args[:-1], expr.args[-1]
        num_missing = buffer.ndim - len(leading)
        base = (
            self.subscript(buffer, leading)
            if num_missing == 1
            else '&' + self.subscript(buffer, leading) + '[0]' * num_missing
        )
        first_element = Code(base, PRIMARY if num_missing == 1 else UNARY, '*')
        if constant_value(offset) == 0:
            return first_element
        return Code(binary_code('+', first_element, self.emit(offset, low_bits_only=True), PLUS), PLUS, '*')

    def array_argument(self, view, buffer):
        "Emit an array as the argument of a device function whose parameter is `buffer`"
        if view.is_full_array:
            return (
                view.buffer.c_name
                if buffer.dims is not None or view.ndim == 1
                else '&' + view.buffer.c_name + '[0]' * view.ndim
            )
        return self._expr_address(
            Expr(
                'address',
                None,
                [*view.leading_indices, view.offset] if view.buffer.dims is not None else [view.offset],
                view.buffer,
            )
        ).text
