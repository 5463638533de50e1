"""Writes statements without nested statements: assignments, stores, declarations, calls."""

from ..tree import number, walk
from ..types import BOOL, C_NAMES, DOUBLE, REAL, WEAK, is_int
from .text import CONDITIONAL, C_INTEGERS, Text


_FORMATS = dict(zip((*C_INTEGERS, 'text'), ('%d', '%u', '%lld', '%llu', '%s')))


_ESCAPES = str.maketrans({'\\': '\\\\', '"': '\\"', '\n': '\\n', '\t': '\\t'})


class SimpleStatements:
    "Write statements without nested statements: one method `_stmt_...` per kind, which returns lines"

    def _stmt_nothing(self, stmt):
        return []

    def _stmt_break(self, stmt):
        return ['break;']

    def _stmt_continue(self, stmt):
        return ['continue;']

    def _stmt_expr(self, stmt):
        if not any(part.op in ('device', 'atomic', 'call', 'shuffle') for part in walk(stmt.expr)):
            return []
        self.writer.result_unused = self.without_conversions(stmt.expr).op == 'atomic'  # its old value is unused
        text = self.writer.text(self.without_conversions(stmt.expr))
        self.writer.result_unused = False
        return [text + ';']

    def without_conversions(self, expr):
        "Return `expr` without conversions, where its value is not used"
        return self.without_conversions(expr.args[0]) if expr.op in ('flag', 'cast', 'truth') else expr

    def _stmt_assign(self, stmt):
        v, e = stmt.var, stmt.expr
        text = self.value(v, e)
        if getattr(stmt, 'declares', False):
            return [(self.type_of(v.slot), f'{v.c_name} = {text}')]
        updates_itself = stmt.aug and e.args and e.args[0].op == 'var' and e.args[0].value.slot is v.slot
        if updates_itself and (t := self.compound_assignment(v.c_name, v.slot.c_type, e)):
            return [t]
        return [f'{v.c_name} = {text};']

    def value(self, variable, expr):
        "Write the expression `expr` as a value for the variable `variable`"
        if variable.result_of:
            return self.writer.text(expr)
        return self.writer.fit(
            expr, variable.slot.c_type, low=variable.slot.c_type in ('int', 'unsigned int') and is_int(variable.type)
        ).text

    def compound_assignment(self, target, type, expr):
        "Write `target += ...` for the expression `target + ...`; None where C would compute in another type"
        if expr.op not in COMPOUND_OPERATORS:
            return
        if (
            type == 'float'
            and expr.type == DOUBLE
            and (s := self.writer.in_float32(expr)) is not None
            and s.op in COMPOUND_OPERATORS
        ):
            expr = s
        if expr.type in REAL:
            return self.compound_real(target, type, expr)
        if self.is_same_operator(type, expr):
            return self.compound_integer(target, type, expr)

    def compound_real(self, target, type, expr):
        "Write the `compound_assignment` of a float"
        if type not in ('float', 'double') or expr.op not in ('add', 'sub', 'mul', 'truediv'):
            return
        b = expr.args[1]
        t = self.writer.write(b)
        if C_NAMES[expr.type] != type:
            return
        if b.op == 'const' or t.type == '__half' or t.type == 'double' and type == 'float':
            t = self.writer.fit(b, type)
        return f'{target} {COMPOUND_OPERATORS[expr.op]}= {t.text};'

    def is_same_operator(self, type, expr):
        "Return whether C's operator has Python's result for an integer variable of this type"
        if type in ('float', 'double', '__half', '__nv_bfloat16', 'bool'):
            return type == 'bool' and expr.type == BOOL
        divides, shifts = expr.op in ('floordiv', 'mod'), expr.op in ('shl', 'shr')
        if divides and not self.writer.has_nonnegative_operands(expr):
            return False
        if (divides or shifts) and type not in C_INTEGERS:
            return False
        return not ((divides or shifts) and type == 'unsigned int' and self.writer.interval(expr.args[1])[0] < 0)

    def compound_integer(self, target, type, expr):
        "Write the `compound_assignment` of an integer"
        b, adds = expr.args[1], expr.op in ('add', 'sub', 'mul')
        if number(b) == 1 and expr.op in ('add', 'sub'):
            return f'{target}{COMPOUND_OPERATORS[expr.op] * 2};'
        is_unsigned = type == 'unsigned long long' and expr.op not in ('shl', 'shr')
        t = self.writer.as_type(b, type) if is_unsigned else self.writer.write(b, adds and 'long long' not in type)
        narrow = expr.op in ('floordiv', 'mod') and type in ('int', 'unsigned int')
        return None if narrow and t.type == 'long long' else f'{target} {COMPOUND_OPERATORS[expr.op]}= {t.text};'

    def _stmt_store(self, stmt):
        m = stmt.memory
        target, type = self.writer.element_at(m, stmt.index), C_NAMES[m.dtype]
        if stmt.aug and (t := self.compound_assignment(target, type, stmt.expr)):
            return [t]
        return [
            f'{target} = {self.writer.fit(stmt.expr, type, low=type not in ("long long", "unsigned long long")).text};'
        ]

    def _stmt_pointer(self, stmt):
        v = stmt.var
        text = self.writer.text(stmt.address)
        if getattr(stmt, 'declares', False):
            return [(self.pointer_type(v), f'*{v.c_name} = {text}')]
        return [f'{v.c_name} = {text};']

    def _stmt_alloc(self, stmt):
        m = stmt.memory
        if m.space == 'dynamic':
            return [f'extern __shared__ {self.writer.element_type(m.dtype)} {m.c_name}[];']
        if hasattr(m, 'items'):
            type = self.item_type(m)
            items = ', '.join(self.writer.fit(i, type).text for i in m.items)
            return [f'const {type} {m.c_name}[] = {{{items}}};']
        dims = ''.join(f'[{self.writer.text(d)}]' for d in m.dims)
        return [('__shared__ ' * (m.space == 'shared') + self.writer.element_type(m.dtype), m.c_name + dims)]

    def item_type(self, memory):
        "Return C's type of the items of a constant array"
        if memory.dtype == WEAK:
            memory.dtype = self.writer.unit.weak
        return C_NAMES[memory.dtype]

    def _stmt_return(self, stmt):
        if not stmt.args:
            return ['return;']
        f = self.f
        if f.is_struct:
            return [f"return {{{', '.join(self.coerce(e, t) for e, t in zip(stmt.args, f.c_results))}}};"]
        low = f.c_result in ('int', 'unsigned int') and is_int(stmt.args[0].type)
        return [f'return {self.writer.fit(stmt.args[0], f.c_result, low=low).text};']

    def coerce(self, expr, type):
        "Write `expr` for a value in braces, where C converts nothing that could lose something"
        t = self.writer.fit(expr, type)
        return t.text if t.type == type or expr.op == 'const' else self.writer.cast(t, type).text

    def _stmt_print(self, stmt):
        fmt, args = [], []
        for a in stmt.items:
            if isinstance(a, str):
                fmt.append(a.replace('%', '%%'))
                continue
            t = self.writer.write(a)
            if t.type == 'bool':
                t = Text(f'{t.text} ? "True" : "False"', CONDITIONAL, 'text')
            if t.type == '__half':
                t = self.writer.cast(t, 'float')
            fmt.append(_FORMATS.get(t.type, '%f'))
            args.append(t.text)
        text = (stmt.sep.join(fmt) + stmt.end).translate(_ESCAPES)
        self.writer.headers.add('stdio.h')
        return [f"printf({', '.join([chr(34) + text + chr(34), *args])});"]

    def _stmt_assert(self, stmt):
        self.writer.headers.add('assert.h')
        return [f'assert({self.writer.condition(stmt.test).text});']


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
