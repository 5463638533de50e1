"""Writes branches and loops."""

import re

from ..c_types import c_int_type
from ..intervals import ALL, INT32, within
from ..tree import Expr, Stmt, constant_value, statements, walk
from ..types import INT
from .lines import WIDTH, Line
from .text import LESS


# A statement that is on one line in Python is written on one line. As in Python, a loop over `range` evaluates its
# bounds once. The loop has a separate counter if the body assigns to the loop variable, or if it is read after the
# loop.
def _fit_one_line(head, text, depth):
    "Return whether `text` may be on the line of its `head`: a simple statement, or an `if` in a loop"
    if len(head) + len(text) + 4 * depth >= WIDTH:
        return False
    if re.match(r'for\b', head) and re.match(r'if\b', text):
        return not text.endswith('{')
    return not re.match(r'(if|for|while|//)\b', text) and ' // ' not in text


class ControlFlow:
    "Writes branches and loops"

    def compound_statement(self, stmt, head, body, column, first_lines=()):
        "Write `head`, then `first_lines` and `body` in braces, or `body` on the same line if it is so in Python"
        start, depth = len(self.lines), self.depth
        is_on_same_line = body and body[0].line == stmt.line and not first_lines
        self.put(head + ' {', stmt.line)
        self.depth += 1
        for text in first_lines:
            self.put(text, stmt.line)
        self.block(body, column)
        self.depth = depth
        body_lines = self.lines[start + 1 :]
        if is_on_same_line and len(body_lines) == 1 and _fit_one_line(head, body_lines[0].text, depth):
            self.lines[start:] = [Line(f'{head} {body_lines[0].text}', depth, stmt.line)]
            return True
        if not body_lines:
            self.lines[start].text = head + ' {}'
            return True
        self.put('}', None)
        return False

    def _stmt_if(self, s, else_prefix=''):
        column = s.node.body[0].col_offset
        is_one_line = self.compound_statement(
            s, f'{else_prefix}if ({self.writer.condition(s.test).text})', s.body, column
        )
        if not s.orelse or all(stmt.kind == 'nothing' for stmt in s.orelse):
            return
        else_text = 'else'
        if not is_one_line:
            self.lines.pop()
            else_text = '} else'
        if s.chained and (id(s.orelse), 0) not in self.declarations_before and len(s.orelse) == 1:
            branch = s.orelse[0]
            comment = self.trailing_comments(branch.line, self.header_end(branch))
            first_line = len(self.lines)
            self.cursor = max(self.cursor, self.header_end(branch))
            self._stmt_if(branch, else_text + ' ')
            if comment:
                self.lines[first_line].text += f'  // {comment}'
            return
        line = s.node.orelse[0].lineno
        branch = Stmt('else', line if line > s.line else s.line, node=s.node)
        if s.orelse[0].line - 1 > self.cursor and self.source.text(s.orelse[0].line).startswith('else'):
            branch.line = s.orelse[0].line
        elif not self.source.text(s.orelse[0].line).startswith('else'):
            branch.line = -1
        self.compound_statement(branch, else_text, s.orelse, s.node.orelse[0].col_offset if branch.line < 0 else column)
        for l in self.lines:
            if l.line == -1:
                l.line = s.orelse[0].line

    def _stmt_while(self, stmt):
        self.compound_statement(
            stmt, f'while ({self.writer.condition(stmt.test).text})', stmt.body, stmt.node.body[0].col_offset
        )

    def _stmt_for(self, s):
        v = s.var.slot
        assigned_vars = {stmt.var.slot for stmt in statements(s.body) if getattr(stmt, 'var', None) is not None} | {
            c.var.slot for stmt in statements(s.body) if stmt.kind == 'each' for c in stmt.columns
        }
        needs_counter = v in assigned_vars or self.is_read_after(s)
        type = (
            self.loop_type(v)
            if not needs_counter
            else c_int_type(INT, self.writer.ranges.variable_intervals.get(s.var, ALL), self.writer.unit.wide)
        )
        stop = self.hoist(s, s.stop, 'end', assigned_vars | {v}, type)
        step = self.hoist(s, s.step, 'step', assigned_vars | {v}, type)
        start = self.writer.fit(s.start, type, low_bits_only=type == 'int').text
        k = self.take_name(f'next_{v.c_name}') if needs_counter else v.c_name
        is_declared_here = needs_counter or not s.declared_before
        init = f'{type} {k} = {start}' if is_declared_here else '' if start == k else f'{k} = {start}'
        self.counter_expr = Expr('var', INT, value=_GeneratedVariable(k, type))
        head = f'for ({init}; {self.loop_test(k, stop, step, s)}; {self.loop_step(k, step)})'
        first_lines = (
            [] if not needs_counter else [f"{'' if s.declared_before else self.type_of(v) + ' '}{v.c_name} = {k};"]
        )
        self.compound_statement(s, head, s.body, s.node.body[0].col_offset, first_lines)

    def loop_type(self, v):
        "Return the C type of a loop counter that is the variable `v` itself"
        return 'long long' if v.c_type == 'unsigned int' else v.c_type

    def loop_test(self, k, stop, step, stmt):
        "Write the condition of a `for`: `i < n` or `i > n`, chosen at run time if the sign of the step is not known"
        min_step, max_step = self.writer.interval(stmt.step)
        self.writer.ranges.expr_intervals[id(self.counter_expr)] = self.writer.ranges.variable_intervals.get(
            stmt.var, ALL
        )

        def compare(op):
            return self.writer.compare(op, LESS, self.counter_expr, stop).text

        if min_step > 0:
            return compare('<')
        if max_step < 0:
            return compare('>')
        return f"{self.writer.text(step)} > 0 ? {compare('<')} : {compare('>')}"

    def loop_step(self, k, step):
        "Write the step of a `for`: `i++`, `i -= 2`"
        n = constant_value(step)
        if n == 1:
            return f'{k}++'
        if n == -1:
            return f'{k}--'
        return f'{k} -= {-n}' if n is not None and n < 0 else f'{k} += {self.writer.text(step, low_bits_only=True)}'

    def hoist(self, stmt, expr, name, changing, type):
        "Return `expr` if it is loop-invariant and cheap, else a variable that is assigned its value before the loop"
        if (
            all(part.op in INVARIANT_OPS or part.op == 'var' and part.value.slot not in changing for part in walk(expr))
            and sum(part.op in ('floordiv', 'mod', 'min', 'max') for part in walk(expr)) < 2
        ):
            return expr
        t = (
            'long long'
            if type == 'long long'
            or not within(self.writer.interval(expr), INT32)
            and self.writer.write(expr).type != 'int'
            else 'int'
        )
        n = self.take_name(name if name not in self.local else f'{stmt.var.name}_{name}')
        self.put(f'{t} {n} = {self.writer.fit(expr, t, low_bits_only=t == "int").text};', stmt.line)
        v = Expr('var', INT, value=_GeneratedVariable(n, t))
        return self.writer.record_interval(v, self.writer.interval(expr))

    def is_read_after(self, s):
        "Return whether the loop's variable is read after the loop"
        inside = {id(stmt) for stmt in statements([s])}
        return any(
            s.var is v
            for stmt in statements(self.function.body)
            if id(stmt) not in inside
            for v in self.variables_read(stmt)
        )

    def _stmt_each(self, stmt):
        if not stmt.count:
            return
        if len(stmt.columns) == 1:
            return self.each_value(stmt, stmt.columns[0])
        index_columns = [
            c
            for c in stmt.columns
            if all(constant_value(i) == n for n, i in enumerate(c.items))
            and not c.declared_before
            and c.var.c_type == 'int'
        ]
        k = index_columns[0].var.c_name if index_columns else self.take_name('k')
        first_lines = []
        for c in stmt.columns:
            if index_columns and c is index_columns[0]:
                continue
            table = self.table(stmt, c)
            first_lines.append(f"{'' if c.declared_before else c.var.slot.c_type + ' '}{c.var.c_name} = {table}[{k}];")
        self.compound_statement(
            stmt, f'for (int {k} = 0; {k} < {stmt.count}; {k}++)', stmt.body, stmt.node.body[0].col_offset, first_lines
        )

    def each_value(self, stmt, c):
        "Write a loop over a tuple with one variable: `for (int k : values)`"
        table, v = self.table(stmt, c), c.var
        if not c.declared_before:
            return self.compound_statement(
                stmt, f'for ({v.slot.c_type} {v.c_name} : {table})', stmt.body, stmt.node.body[0].col_offset
            )
        k = self.take_name(f'next_{v.c_name}')
        self.compound_statement(
            stmt,
            f'for ({v.slot.c_type} {k} : {table})',
            stmt.body,
            stmt.node.body[0].col_offset,
            [f'{v.c_name} = {k};'],
        )

    def table(self, stmt, c):
        "Declare the array that holds the items of a loop over a tuple, and return its name"
        name = getattr(c.name, 'name', None)
        n = self.take_name(f'{name.lower()}' if name else f'{c.var.name}_values')
        type = c.var.slot.c_type
        self.put(f"const {type} {n}[] = {{{', '.join(self.coerce(i, type) for i in c.items)}}};", stmt.line)
        return n


INVARIANT_OPS = {
    'const',
    'global',
    'size',
    'stride',
    'builtin',
    'lane',
    'add',
    'sub',
    'mul',
    'floordiv',
    'mod',
    'min',
    'max',
    'shl',
    'shr',
    'neg',
    'cast',
    'abs',
}  # operations that are loop-invariant if their operands are


class _GeneratedVariable:
    "A C variable that is not in the Python source, with the attributes of a `flow.Variable` that are read here"

    maybe_uninitialized, num_defs = False, 1

    def __init__(self, c_name, c_type):
        self.c_name = c_name
        self.c_type = c_type
        self.slot = self
        self.memory = None
        self.type = INT
