"""Emits statements without nested statements: assignments, stores, declarations, calls."""

from ..tree import constant_value, walk
from ..types import BOOL, C_NAMES, DOUBLE, FLOATS, WEAK, is_int
from .code import CONDITIONAL, C_INTEGERS, Code


_FORMATS = dict(zip((*C_INTEGERS, 'text'), ('%d', '%u', '%lld', '%llu', '%s')))  # C type -> format of printf
_ESCAPES = str.maketrans({'\\': '\\\\', '"': '\\"', '\n': '\\n', '\t': '\\t'})


class SimpleStatements:
    "Emits statements without nested statements: one method `_stmt_...` per kind, which returns lines"

    def _stmt_pass(self, stmt):
        return []

    def _stmt_break(self, stmt):
        return ['break;']

    def _stmt_continue(self, stmt):
        return ['continue;']

    def _stmt_expr(self, stmt):
        if not any(subexpr.op in ('device_call', 'atomic', 'call', 'shuffle') for subexpr in walk(stmt.expr)):
            return []
        self.emitter.result_is_unused = self.strip_conversions(stmt.expr).op == 'atomic'
        text = self.emitter.text(self.strip_conversions(stmt.expr))
        self.emitter.result_is_unused = False
        return [text + ';']

    def strip_conversions(self, expr):
        "Return the expression that the conversions `expr` are applied to"
        return self.strip_conversions(expr.args[0]) if expr.op in ('flag', 'cast', 'truth') else expr

    def _stmt_assign(self, stmt):
        variable, expr = stmt.var, stmt.expr
        text = self.assigned_value(variable, expr)
        if getattr(stmt, 'declares', False):
            return [(self.type_of(variable.c_variable), f'{variable.c_name} = {text}')]
        updates_itself = (
            stmt.aug_op
            and expr.args
            and expr.args[0].op == 'var'
            and expr.args[0].value.c_variable is variable.c_variable
        )
        if updates_itself and (t := self.compound_assignment(variable.c_name, variable.c_variable.c_type, expr)):
            return [t]
        return [f'{variable.c_name} = {text};']

    def assigned_value(self, variable, expr):
        "Emit `expr` as a value that is assigned to `variable`"
        if variable.result_of:
            return self.emitter.text(expr)
        return self.emitter.convert_for_assignment(
            expr,
            variable.c_variable.c_type,
            low_bits_only=variable.c_variable.c_type in ('int', 'unsigned int') and is_int(variable.type),
        ).text

    def compound_assignment(self, target, type, expr):
        "Emit `target += ...` for the expression `target + ...`; return None if C would compute in another type"
        if expr.op not in COMPOUND_OPERATORS:
            return
        if (
            type == 'float'
            and expr.type == DOUBLE
            and (float32_expr := self.emitter.in_float32(expr)) is not None
            and float32_expr.op in COMPOUND_OPERATORS
        ):
            expr = float32_expr
        if expr.type in FLOATS:
            return self.compound_float(target, type, expr)
        if self.is_same_operator(type, expr):
            return self.compound_integer(target, type, expr)

    def compound_float(self, target, type, expr):
        "Emit the compound assignment of a float; return None if C would compute in another type"
        if type not in ('float', 'double') or expr.op not in ('add', 'sub', 'mul', 'truediv'):
            return
        b = expr.args[1]
        t = self.emitter.emit(b)
        if C_NAMES[expr.type] != type:
            return
        if b.op == 'const' or t.type == '__half' or t.type == 'double' and type == 'float':
            t = self.emitter.convert_for_assignment(b, type)
        return f'{target} {COMPOUND_OPERATORS[expr.op]}= {t.text};'

    def is_same_operator(self, type, expr):
        "Return whether the C operator has the result of Python's for an integer variable of the C type `type`"
        if type in ('float', 'double', '__half', '__nv_bfloat16', 'bool'):
            return type == 'bool' and expr.type == BOOL
        is_division, is_shift = expr.op in ('floordiv', 'mod'), expr.op in ('shl', 'shr')
        if is_division and not self.emitter.has_nonnegative_operands(expr):
            return False
        if (is_division or is_shift) and type not in C_INTEGERS:
            return False
        return not ((is_division or is_shift) and type == 'unsigned int' and self.emitter.interval(expr.args[1])[0] < 0)

    def compound_integer(self, target, type, expr):
        "Emit the compound assignment of an integer; return None if C would compute in another type"
        b, is_modular = expr.args[1], expr.op in ('add', 'sub', 'mul')
        if constant_value(b) == 1 and expr.op in ('add', 'sub'):
            return f'{target}{COMPOUND_OPERATORS[expr.op] * 2};'
        is_unsigned = type == 'unsigned long long' and expr.op not in ('shl', 'shr')
        t = (
            self.emitter.as_type(b, type)
            if is_unsigned
            else self.emitter.emit(b, is_modular and 'long long' not in type)
        )
        is_narrow_division = expr.op in ('floordiv', 'mod') and type in ('int', 'unsigned int')
        return (
            None
            if is_narrow_division and t.type == 'long long'
            else f'{target} {COMPOUND_OPERATORS[expr.op]}= {t.text};'
        )

    def _stmt_store(self, stmt):
        buffer = stmt.buffer
        target, type = self.emitter.element_at(buffer, stmt.index), C_NAMES[buffer.dtype]
        if stmt.aug_op and (t := self.compound_assignment(target, type, stmt.expr)):
            return [t]
        low_bits_only = type not in ('long long', 'unsigned long long')
        return [f'{target} = {self.emitter.convert_for_assignment(stmt.expr, type, low_bits_only=low_bits_only).text};']

    def _stmt_pointer(self, stmt):
        variable = stmt.var
        text = self.emitter.text(stmt.address)
        if getattr(stmt, 'declares', False):
            return [(self.pointer_type(variable), f'*{variable.c_name} = {text}')]
        return [f'{variable.c_name} = {text};']

    def _stmt_alloc(self, stmt):
        buffer = stmt.buffer
        if buffer.space == 'dynamic':
            return [f'extern __shared__ {self.emitter.element_type(buffer.dtype)} {buffer.c_name}[];']
        if hasattr(buffer, 'items'):
            type = self.item_type(buffer)
            items = ', '.join(self.emitter.convert_for_assignment(i, type).text for i in buffer.items)
            return [f'const {type} {buffer.c_name}[] = {{{items}}};']
        dims = ''.join(f'[{self.emitter.text(d)}]' for d in buffer.dims)
        return [
            ('__shared__ ' * (buffer.space == 'shared') + self.emitter.element_type(buffer.dtype), buffer.c_name + dims)
        ]

    def item_type(self, buffer):
        "Return the C type of the items of a constant array"
        if buffer.dtype == WEAK:
            buffer.dtype = self.emitter.unit.weak_type
        return C_NAMES[buffer.dtype]

    def _stmt_return(self, stmt):
        if not stmt.args:
            return ['return;']
        function = self.function
        if function.is_struct:
            return [f"return {{{', '.join(self.coerce(e, t) for e, t in zip(stmt.args, function.c_results))}}};"]
        low_bits_only = function.c_result in ('int', 'unsigned int') and is_int(stmt.args[0].type)
        value = self.emitter.convert_for_assignment(stmt.args[0], function.c_result, low_bits_only=low_bits_only)
        return [f'return {value.text};']

    def coerce(self, expr, type):
        "Emit `expr` for a braced initializer, in which C allows no narrowing conversion"
        t = self.emitter.convert_for_assignment(expr, type)
        return t.text if t.type == type or expr.op == 'const' else self.emitter.cast(t, type).text

    def _stmt_print(self, stmt):
        formats, args = [], []
        for a in stmt.items:
            if isinstance(a, str):
                formats.append(a.replace('%', '%%'))
                continue
            t = self.emitter.emit(a)
            if t.type == 'bool':
                t = Code(f'{t.text} ? "True" : "False"', CONDITIONAL, 'text')
            if t.type == '__half':
                t = self.emitter.cast(t, 'float')
            formats.append(_FORMATS.get(t.type, '%f'))
            args.append(t.text)
        text = (stmt.sep.join(formats) + stmt.end).translate(_ESCAPES)
        self.emitter.headers.add('stdio.h')
        return [f"printf({', '.join([chr(34) + text + chr(34), *args])});"]

    def _stmt_assert(self, stmt):
        self.emitter.headers.add('assert.h')
        return [f'assert({self.emitter.condition(stmt.test).text});']


COMPOUND_OPERATORS = {
    'add': '+',
    'sub': '-',
    'mul': '*',
    'truediv': '/',
    'floordiv': '/',
    'mod': '%',
    'shl': '<<',
    'shr': '>>',
    'and': '&',
    'or': '|',
    'xor': '^',
}
