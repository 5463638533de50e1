"""Emits branches and loops."""

import re

from ..c_types import c_int_type
from ..intervals import INT64_RANGE, INT32_RANGE, is_within
from ..tree import Expr, Stmt, constant_value, statements, walk
from ..types import INT64
from .lines import WIDTH, Line
from .code import LESS


# A statement that is on one line in Python is emitted on one line. As in Python, a loop over `range` evaluates its
# bounds once. The loop has a separate counter if the body assigns to the loop variable, or if it is read after the
# loop.
def _fits_on_line(head, text, depth):
    "Return whether `text` may be on the line of its `head`: a simple statement, or an `if` in a loop"
    if len(head) + len(text) + 4 * depth >= WIDTH:
        return False
    if re.match(r'for\b', head) and re.match(r'if\b', text):
        return not text.endswith('{')
    return not re.match(r'(if|for|while|//)\b', text) and ' // ' not in text


class ControlFlow:
    "Emits branches and loops"

    def compound_statement(self, stmt, head, body, column, first_lines=()):
        "Emit `head`, then `first_lines` and `body` in braces, or `body` on the same line if it is there in Python"
        start, depth = len(self.lines), self.depth
        is_on_same_line = body and body[0].line == stmt.line and not first_lines
        self.put_line(head + ' {', stmt.line)
        self.depth += 1
        for text in first_lines:
            self.put_line(text, stmt.line)
        self.block(body, column)
        self.depth = depth
        body_lines = self.lines[start + 1 :]
        if is_on_same_line and len(body_lines) == 1 and _fits_on_line(head, body_lines[0].text, depth):
            self.lines[start:] = [Line(f'{head} {body_lines[0].text}', depth, stmt.line)]
            return True
        if not body_lines:
            self.lines[start].text = head + ' {}'
            return True
        self.put_line('}', None)
        return False

    def _stmt_if(self, stmt, else_prefix=''):
        column = stmt.node.body[0].col_offset
        head = f'{else_prefix}if ({self.emitter.condition(stmt.test).text})'
        is_one_line = self.compound_statement(stmt, head, stmt.body, column)
        if not stmt.orelse or all(s.kind == 'pass' for s in stmt.orelse):
            return
        else_prefix_text = 'else'
        if not is_one_line:
            self.lines.pop()
            else_prefix_text = '} else'
        first = stmt.orelse[0]
        if stmt.has_elif and (id(stmt.orelse), 0) not in self.declarations_before and len(stmt.orelse) == 1:
            self.else_if(first, else_prefix_text)
        else:
            self.else_branch(stmt, first, else_prefix_text, column)

    def else_if(self, stmt, else_prefix_text):
        "Emit `else if ...`, with the comments at the end of the line of `elif`"
        comment = self.trailing_comments(stmt.line, self.header_end(stmt))
        first_line = len(self.lines)
        self.cursor = max(self.cursor, self.header_end(stmt))
        self._stmt_if(stmt, else_prefix_text + ' ')
        if comment:
            self.lines[first_line].text += f'  // {comment}'

    def else_branch(self, stmt, first, else_prefix_text, column):
        "Emit the `else` of a branch; the statement `first` is its first one"
        branch = Stmt('else', max(stmt.node.orelse[0].lineno, stmt.line), node=stmt.node)
        is_on_line_of_else = self.source.text(first.line).startswith('else')
        if first.line - 1 > self.cursor and is_on_line_of_else:
            branch.line = first.line
        elif not is_on_line_of_else:
            branch.line = -1  # no statement is on the line of `else`; the line is set below
        self.compound_statement(
            branch, else_prefix_text, stmt.orelse, stmt.node.orelse[0].col_offset if branch.line < 0 else column
        )
        for c_line in self.lines:
            if c_line.line == -1:
                c_line.line = first.line

    def _stmt_while(self, stmt):
        self.compound_statement(
            stmt, f'while ({self.emitter.condition(stmt.test).text})', stmt.body, stmt.node.body[0].col_offset
        )

    def _stmt_for(self, loop):
        c_variable = loop.var.c_variable
        assigned_vars = {
            stmt.var.c_variable for stmt in statements(loop.body) if getattr(stmt, 'var', None) is not None
        } | {c.var.c_variable for stmt in statements(loop.body) if stmt.kind == 'for_tuple' for c in stmt.targets}
        needs_counter = c_variable in assigned_vars or self.is_read_after(loop)
        type = (
            self.counter_type(c_variable)
            if not needs_counter
            else c_int_type(
                INT64, self.emitter.ranges.variable_intervals.get(loop.var, INT64_RANGE), self.emitter.unit.all_int64
            )
        )
        stop = self.hoist(loop, loop.stop, 'end', assigned_vars | {c_variable}, type)
        step = self.hoist(loop, loop.step, 'step', assigned_vars | {c_variable}, type)
        start = self.emitter.convert_for_assignment(loop.start, type, low_bits_only=type == 'int').text
        counter = self.take_name(f'next_{c_variable.c_name}') if needs_counter else c_variable.c_name
        is_declared_here = needs_counter or not loop.is_declared_before
        init = f'{type} {counter} = {start}' if is_declared_here else '' if start == counter else f'{counter} = {start}'
        self.counter_expr = Expr('var', INT64, value=_GeneratedVariable(counter, type))
        head = f'for ({init}; {self.loop_condition(counter, stop, step, loop)}; {self.loop_step(counter, step)})'
        first_lines = (
            []
            if not needs_counter
            else [
                f"{'' if loop.is_declared_before else self.type_of(c_variable) + ' '}{c_variable.c_name} = {counter};"
            ]
        )
        self.compound_statement(loop, head, loop.body, loop.node.body[0].col_offset, first_lines)

    def counter_type(self, variable):
        "Return the C type of a loop counter that is the variable `variable` itself"
        return 'long long' if variable.c_type == 'unsigned int' else variable.c_type

    def loop_condition(self, counter, stop, step, stmt):
        "Emit the condition of a `for`: `i < n` or `i > n`, chosen at run time if the sign of the step is not known"
        min_step, max_step = self.emitter.interval(stmt.step)
        self.emitter.ranges.expr_intervals[id(self.counter_expr)] = self.emitter.ranges.variable_intervals.get(
            stmt.var, INT64_RANGE
        )

        def compare(op):
            return self.emitter.compare(op, LESS, self.counter_expr, stop).text

        if min_step > 0:
            return compare('<')
        if max_step < 0:
            return compare('>')
        return f"{self.emitter.text(step)} > 0 ? {compare('<')} : {compare('>')}"

    def loop_step(self, counter, step):
        "Emit the step of a `for`: `i++`, `i -= 2`"
        n = constant_value(step)
        if n == 1:
            return f'{counter}++'
        if n == -1:
            return f'{counter}--'
        return (
            f'{counter} -= {-n}'
            if n is not None and n < 0
            else f'{counter} += {self.emitter.text(step, low_bits_only=True)}'
        )

    def hoist(self, stmt, expr, name, changed_variables, type):
        "Return `expr` if it is loop-invariant and cheap, else a variable that is assigned its value before the loop"
        if (
            all(
                subexpr.op in INVARIANT_OPS or subexpr.op == 'var' and subexpr.value.c_variable not in changed_variables
                for subexpr in walk(expr)
            )
            and sum(subexpr.op in ('floordiv', 'mod', 'min', 'max') for subexpr in walk(expr)) < 2
        ):
            return expr
        c_type = (
            'long long'
            if type == 'long long'
            or not is_within(self.emitter.interval(expr), INT32_RANGE)
            and self.emitter.emit(expr).type != 'int'
            else 'int'
        )
        c_name = self.take_name(name if name not in self.local_names else f'{stmt.var.name}_{name}')
        value = self.emitter.convert_for_assignment(expr, c_type, low_bits_only=c_type == 'int')
        self.put_line(f'{c_type} {c_name} = {value.text};', stmt.line)
        hoisted_variable = Expr('var', INT64, value=_GeneratedVariable(c_name, c_type))
        return self.emitter.record_interval(hoisted_variable, self.emitter.interval(expr))

    def is_read_after(self, loop):
        "Return whether the loop's variable is read after the loop"
        loop_stmts = {id(stmt) for stmt in statements([loop])}
        return any(
            loop.var is v
            for stmt in statements(self.function.body)
            if id(stmt) not in loop_stmts
            for v in self.variables_read(stmt)
        )

    def _stmt_for_tuple(self, stmt):
        if not stmt.num_iterations:
            return
        if len(stmt.targets) == 1:
            return self.loop_over_values(stmt, stmt.targets[0])
        index_targets = [
            target
            for target in stmt.targets
            if all(constant_value(i) == n for n, i in enumerate(target.items))
            and not target.is_declared_before
            and target.var.c_type == 'int'
        ]
        index_name = index_targets[0].var.c_name if index_targets else self.take_name('k')
        first_lines = []
        for target in stmt.targets:
            if index_targets and target is index_targets[0]:
                continue
            declared_type = '' if target.is_declared_before else target.var.c_variable.c_type + ' '
            table = self.declare_table(stmt, target)
            first_lines.append(f'{declared_type}{target.var.c_name} = {table}[{index_name}];')
        head = f'for (int {index_name} = 0; {index_name} < {stmt.num_iterations}; {index_name}++)'
        self.compound_statement(stmt, head, stmt.body, stmt.node.body[0].col_offset, first_lines)

    def loop_over_values(self, stmt, target):
        "Emit a loop over a tuple with one variable: `for (int k : values)`"
        table, variable = self.declare_table(stmt, target), target.var
        type, body_column = variable.c_variable.c_type, stmt.node.body[0].col_offset
        if not target.is_declared_before:
            head = f'for ({type} {variable.c_name} : {table})'
            return self.compound_statement(stmt, head, stmt.body, body_column)
        item_name = self.take_name(f'next_{variable.c_name}')
        first_lines = [f'{variable.c_name} = {item_name};']
        self.compound_statement(stmt, f'for ({type} {item_name} : {table})', stmt.body, body_column, first_lines)

    def declare_table(self, stmt, target):
        "Declare the array that holds the items of a loop over a tuple, and return its name"
        name = getattr(target.name, 'name', None)
        c_name = self.take_name(f'{name.lower()}' if name else f'{target.var.name}_values')
        type = target.var.c_variable.c_type
        self.put_line(
            f"const {type} {c_name}[] = {{{', '.join(self.coerce(i, type) for i in target.items)}}};", stmt.line
        )
        return c_name


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

    is_maybe_uninitialized, num_defs = False, 1

    def __init__(self, c_name, c_type):
        self.c_name = c_name
        self.c_type = c_type
        self.c_variable = self
        self.buffer = None
        self.type = INT64
