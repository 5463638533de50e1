"""Writes statements without nested statements: assignments, stores, declarations, calls."""

from ..tree import number, walk
from ..types import BOOL, C_NAMES, DOUBLE, REAL, WEAK, is_int
from .text import CHOICE, C_INTEGERS, Text


_FORMATS = dict(zip((*C_INTEGERS, 'text'), ('%d', '%u', '%lld', '%llu', '%s')))


_ESCAPES = str.maketrans({'\\': '\\\\', '"': '\\"', '\n': '\\n', '\t': '\\t'})


class SimpleStatements:
    "Write statements without nested statements: one method `_stmt_...` per kind, which returns lines"

    def _stmt_nothing(self, s):
        return []

    def _stmt_break(self, s):
        return ['break;']

    def _stmt_continue(self, s):
        return ['continue;']

    def _stmt_expr(self, s):
        if not any(part.op in ('device', 'atomic', 'call', 'shuffle') for part in walk(s.expr)):
            return []
        self.writer.quiet = self.without_conversions(s.expr).op == 'atomic'  # what was there before is of no interest
        text = self.writer.text(self.without_conversions(s.expr))
        self.writer.quiet = False
        return [text + ';']

    def without_conversions(self, e):
        "Return `e` without conversions, where its value is not used"
        return self.without_conversions(e.args[0]) if e.op in ('flag', 'cast', 'truth') else e

    def _stmt_assign(self, s):
        v, e = s.var, s.expr
        text = self.value(v, e)
        if getattr(s, 'declares', False):
            return [(self.type_of(v.slot), f'{v.c_name} = {text}')]
        mine = s.aug and e.args and e.args[0].op == 'var' and e.args[0].value.slot is v.slot
        if mine and (t := self.compound_assignment(v.c_name, v.slot.c_type, e)):
            return [t]
        return [f'{v.c_name} = {text};']

    def value(self, v, e):
        "Write the expression `e` as a value for the variable `v`"
        if v.struct:
            return self.writer.text(e)
        return self.writer.fit(e, v.slot.c_type, low=v.slot.c_type in ('int', 'unsigned int') and is_int(v.type)).text

    def compound_assignment(self, target, type, e):
        "Write `target += ...` for the expression `target + ...`; None where C would compute in another type"
        if e.op not in COMPOUND_OPERATORS:
            return
        if (
            type == 'float'
            and e.type == DOUBLE
            and (s := self.writer.in_float32(e)) is not None
            and s.op in COMPOUND_OPERATORS
        ):
            e = s
        if e.type in REAL:
            return self.compound_real(target, type, e)
        if self.is_same_operator(type, e):
            return self.compound_integer(target, type, e)

    def compound_real(self, target, type, e):
        "Write the `compound_assignment` of a float"
        if type not in ('float', 'double') or e.op not in ('add', 'sub', 'mul', 'truediv'):
            return
        b = e.args[1]
        t = self.writer.write(b)
        if C_NAMES[e.type] != type:
            return
        if b.op == 'const' or t.type == '__half' or t.type == 'double' and type == 'float':
            t = self.writer.fit(b, type)
        return f'{target} {COMPOUND_OPERATORS[e.op]}= {t.text};'

    def is_same_operator(self, type, e):
        "Return whether C's operator has Python's result for an integer variable of this type"
        if type in ('float', 'double', '__half', '__nv_bfloat16', 'bool'):
            return type == 'bool' and e.type == BOOL
        divides, shifts = e.op in ('floordiv', 'mod'), e.op in ('shl', 'shr')
        if divides and not self.writer.positive(e):
            return False
        if (divides or shifts) and type not in C_INTEGERS:
            return False
        return not ((divides or shifts) and type == 'unsigned int' and self.writer.interval(e.args[1])[0] < 0)

    def compound_integer(self, target, type, e):
        "Write the `compound_assignment` of an integer"
        b, adds = e.args[1], e.op in ('add', 'sub', 'mul')
        if number(b) == 1 and e.op in ('add', 'sub'):
            return f'{target}{COMPOUND_OPERATORS[e.op] * 2};'
        is_unsigned = type == 'unsigned long long' and e.op not in ('shl', 'shr')
        t = self.writer.as_type(b, type) if is_unsigned else self.writer.write(b, adds and 'long long' not in type)
        narrow = e.op in ('floordiv', 'mod') and type in ('int', 'unsigned int')
        return None if narrow and t.type == 'long long' else f'{target} {COMPOUND_OPERATORS[e.op]}= {t.text};'

    def _stmt_store(self, s):
        m = s.memory
        target, type = self.writer.element_at(m, s.index), C_NAMES[m.dtype]
        if s.aug and (t := self.compound_assignment(target, type, s.expr)):
            return [t]
        return [
            f'{target} = {self.writer.fit(s.expr, type, low=type not in ("long long", "unsigned long long")).text};'
        ]

    def _stmt_pointer(self, s):
        v = s.var
        text = self.writer.text(s.address)
        if getattr(s, 'declares', False):
            return [(self.pointer_type(v), f'*{v.c_name} = {text}')]
        return [f'{v.c_name} = {text};']

    def _stmt_alloc(self, s):
        m = s.memory
        if m.space == 'dynamic':
            return [f'extern __shared__ {self.writer.element(m.dtype)} {m.c_name}[];']
        if hasattr(m, 'items'):
            type = self.ex_type(m)
            items = ', '.join(self.writer.fit(i, type).text for i in m.items)
            return [f'const {type} {m.c_name}[] = {{{items}}};']
        dims = ''.join(f'[{self.writer.text(d)}]' for d in m.dims)
        return [('__shared__ ' * (m.space == 'shared') + self.writer.element(m.dtype), m.c_name + dims)]

    def ex_type(self, m):
        "Return C's type of the items of a constant array"
        if m.dtype == WEAK:
            m.dtype = self.writer.unit.weak
        return C_NAMES[m.dtype]

    def _stmt_return(self, s):
        if not s.args:
            return ['return;']
        f = self.f
        if f.is_struct:
            return [f"return {{{', '.join(self.coerce(e, t) for e, t in zip(s.args, f.c_results))}}};"]
        low = f.c_result in ('int', 'unsigned int') and is_int(s.args[0].type)
        return [f'return {self.writer.fit(s.args[0], f.c_result, low=low).text};']

    def coerce(self, e, type):
        "Write `e` for a value in braces, where C converts nothing that could lose something"
        t = self.writer.fit(e, type)
        return t.text if t.type == type or e.op == 'const' else self.writer.cast(t, type).text

    def _stmt_print(self, s):
        fmt, args = [], []
        for a in s.items:
            if isinstance(a, str):
                fmt.append(a.replace('%', '%%'))
                continue
            t = self.writer.write(a)
            if t.type == 'bool':
                t = Text(f'{t.text} ? "True" : "False"', CHOICE, 'text')
            if t.type == '__half':
                t = self.writer.cast(t, 'float')
            fmt.append(_FORMATS.get(t.type, '%f'))
            args.append(t.text)
        text = (s.sep.join(fmt) + s.end).translate(_ESCAPES)
        self.writer.headers.add('stdio.h')
        return [f"printf({', '.join([chr(34) + text + chr(34), *args])});"]

    def _stmt_assert(self, s):
        self.writer.headers.add('assert.h')
        return [f'assert({self.writer.condition(s.test).text});']


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
