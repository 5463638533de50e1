"""Emits literals, and the names of constants, variables and sizes."""

import math
import re

import numpy as np

from ..c_types import c_int_type
from ..types import BOOL, C_NAMES, HALF, FLOATS, UINT64, INTEGERS
from .code import PRIMARY, PROMOTED, UNARY, Code, Unsupported


# A literal is spelled as in the source if this is valid in C. `2147483648` gets the suffix LL, because it does not fit
# an `int`; `0.1` becomes `0.1f` in an operation on floats.
class Literals:
    "Emits literals, and the names of constants, variables and sizes"

    def _expr_const(self, expr):
        value = expr.value
        if expr.type == BOOL:
            return Code('true' if value else 'false', PRIMARY, 'bool')
        if expr.type in FLOATS:
            return self.float_literal(value, C_NAMES[expr.type], getattr(expr, 'text', None))
        return self.integer_literal(
            int(value),
            getattr(expr, 'text', None),
            'unsigned long long' if expr.type == UINT64 and value >= 2**31 else None,
        )

    def integer_literal(self, value, text=None, type=None):
        "Emit the integer `value`, spelled `text` in the source, as a literal of the C type `type`"
        if value == -(2**63):
            return Code('(-9223372036854775807LL - 1)', PRIMARY, 'long long')
        text = (text if text and text.lower().startswith(('0x', '-0x')) else str(value)).replace('_', '')
        is_wide = type == 'long long' or not -(2**31) < value < 2**31
        if type in ('double', 'float'):
            return self.float_literal(float(value), type)
        if type == 'unsigned long long':
            return Code(f'{text}ULL', PRIMARY, type)
        return Code(text + 'LL' * is_wide, PRIMARY if value >= 0 else UNARY, 'long long' if is_wide else 'int')

    def float_literal(self, value, type, text=None):
        "Emit the float `value`, spelled `text` in the source, as a literal of the C type `type`: `0.5f`"
        if math.isinf(value) or math.isnan(value):
            self.macros.add('NAN' if math.isnan(value) else 'INFINITY')
            name = 'NAN' if math.isnan(value) else 'INFINITY'
            return Code('-' * (value < 0) + name, UNARY if value < 0 else PRIMARY, type)
        if type == '__half':
            self.headers.add('cuda_fp16.h')
            return Code(
                f'__float2half({self.float_literal(float(np.float16(value)), "float", None).text})', PRIMARY, type
            )
        text = self.decimal_text(value, text)
        return Code(text + 'f' * (type == 'float'), PRIMARY if not text.startswith('-') else UNARY, type)

    def decimal_text(self, value, text):
        "Return the decimal digits of the float `value`, spelled as in the source if this is valid in C"
        text = (text or '').replace('_', '')
        try:
            is_valid = re.fullmatch(r'-?[\d.]+([eE][-+]?\d+)?', text) and float(text) == value
        except ValueError:
            is_valid = False
        text = text if is_valid else repr(float(value))
        if text.startswith(('.', '-.')):
            text = text.replace('.', '0.', 1)
        if re.fullmatch(r'-?\d+', text):
            text += '.0'
        return re.sub(r'\.(?=$|[eE])', '.0', text)

    def _expr_global(self, expr):
        name, value = expr.value
        self.globals.setdefault(name, expr)
        if expr.type == HALF:
            return Code(f'__float2half({self.unit.names.constant(name)})', PRIMARY, '__half')
        type = (
            'bool'
            if expr.type == BOOL
            else c_int_type(expr.type, (value, value), self.unit.all_int64)
            if expr.type in INTEGERS
            else C_NAMES[expr.type]
        )
        return Code(self.unit.names.constant(name), PRIMARY, type)

    def _expr_var(self, expr):
        type = (expr.value.c_variable or expr.value).c_type
        return Code(expr.value.c_name, PRIMARY, PROMOTED.get(type, type))

    def _expr_builtin(self, expr):
        return Code(expr.value, PRIMARY, 'unsigned int')

    def _expr_lane(self, expr):
        return Code(f"{self.helper_name('lane_id')}()", PRIMARY, 'int')

    def _expr_size(self, expr):
        return Code(expr.value[0].size_names[expr.value[1]], PRIMARY, self.index_type)

    def _expr_stride(self, expr):
        return Code(expr.value[0].stride_names[expr.value[1]], PRIMARY, self.index_type)

    def _expr_size_of(self, expr):
        view, _ = expr.value
        raise Unsupported(f'the size of {view.buffer.name} is not known in the kernel', 'Pass the size as an argument.')

    def _expr_start(self, expr):
        return Code(expr.value.start_name, PRIMARY, self.index_type)

    @property
    def index_type(self):
        "Return the C type of sizes and strides"
        return 'long long' if self.unit.all_int64 else 'int'
