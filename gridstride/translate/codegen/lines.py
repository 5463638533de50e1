"""Emits lines of C, with the comments and blank lines of the Python source."""

from ..types import BOOL, HALF, Array


class Line:
    "A line of C: its text without indentation, its depth, and the line of Python that it comes from"

    def __init__(self, text, depth, line):
        self.text = text
        self.depth = depth
        self.line = line

    def __str__(self):
        return '    ' * self.depth + self.text if self.text else ''


WIDTH = 110  # columns


# `cursor` is the last line of the source whose comments have been emitted. Before a statement, the comments and blank
# lines between the cursor and its line are copied.
class SourceLines:
    "Emits lines, with the comments and blank lines of the Python source"

    current_stmt = None  # the statement that is being emitted

    def put_line(self, text, line, depth=None):
        "Emit a line of C that comes from the line `line` of the source"
        self.lines.append(Line(text, self.depth if depth is None else depth, line))

    def comments_until(self, line, column=None):
        "Emit the comments and blank lines between the cursor and `line`, up to a comment that is left of `column`"
        for n in range(self.cursor + 1, line):
            if n in self.source.comments and self.source.comments[n][2]:
                if column is not None and self.source.comments[n][0] < column:
                    return
                self.put_blank_line()
                self.put_line(f'// {self.source.comments[n][1]}', n)
            elif n in self.source.blank_lines:
                self.is_blank_line_pending = True
            else:
                continue
            self.cursor = n

    def put_blank_line(self):
        "Emit a blank line if the source has one here"
        if self.is_blank_line_pending and self.lines and self.lines[-1].text and not self.lines[-1].text.endswith('{'):
            self.put_line('', None)
        self.is_blank_line_pending = False

    def trailing_comments(self, first, last):
        "Return the comments at the ends of the lines `first` to `last` of the source"
        return ' '.join(
            self.source.comments[n][1]
            for n in range(first, last + 1)
            if n in self.source.comments and not self.source.comments[n][2]
        )

    def block(self, body, column):
        "Emit the statements of a block that begins at `column` in the source, then the comments at its end"
        groups = []
        for n, stmt in enumerate(body):  # group the statements that come from one statement of Python
            if (
                groups
                and stmt.node is groups[-1][0][1].node
                and stmt.kind in ('assign', 'alloc', 'pointer', 'store', 'pass')
            ):
                groups[-1].append((n, stmt))
            else:
                groups.append([(n, stmt)])
        for group in groups:
            self.put_group(body, group)
        end = self.cursor + 1
        while end <= len(self.source.lines) and self.belongs_to_block(end, column):
            end += 1
        self.comments_until(end, column)

    def belongs_to_block(self, n, column):
        "Return whether line `n` of the source is empty, or a comment that belongs to a block at `column`"
        comment_column, _, is_own_line = self.source.comments.get(n, (0, '', False))
        return n in self.source.blank_lines or is_own_line and comment_column >= column

    def put_group(self, body, group):
        "Emit the statements that come from one statement of Python"
        first = self.current_stmt = group[0][1]
        self.comments_until(first.line)
        start = len(self.lines)
        is_compound = first.kind in ('if', 'while', 'for', 'for_tuple')
        comment = self.trailing_comments(
            max(first.line, self.cursor + 1), self.header_end(first) if is_compound else first.last_line
        )
        if any(stmt.kind != 'pass' for _, stmt in group) or any(
            (id(body), n) in self.declarations_before for n, _ in group
        ):
            self.put_blank_line()
        start = len(self.lines)
        texts = []
        for n, stmt in group:
            for t in self.join_declarations(
                [self.declaration(v) for v in self.declarations_before.get((id(body), n), ())]
            ):
                self.put_line(t, stmt.line)
        for n, stmt in group:
            if is_compound:
                self.cursor = max(self.cursor, self.header_end(stmt))
                getattr(self, f'_stmt_{stmt.kind}')(stmt)
            else:
                texts += getattr(self, f'_stmt_{stmt.kind}')(stmt)
        for t in self.join_declarations(texts):
            self.put_line(t, first.line)
        self.current_stmt = None
        if not is_compound:
            self.cursor = max(self.cursor, first.last_line)
        if comment:
            if len(self.lines) > start:
                self.lines[start].text += f'  // {comment}'
            else:
                self.put_blank_line()
                self.put_line(f'// {comment}', first.line)

    def header_end(self, stmt):
        "Return the last line of the header of a branch or a loop"
        return (stmt.node.iter if stmt.kind in ('for', 'for_tuple') else stmt.node.test).end_lineno

    def join_declarations(self, texts):
        "Return lines; consecutive declarations, (type, text), of the same type share a line if they fit"
        lines = []  # [type or None, text]
        for item in texts:
            type, text = item if isinstance(item, tuple) else (None, item)
            if lines and type and lines[-1][0] == type and len(lines[-1][1]) + len(text) < WIDTH - 10:
                lines[-1] = type, f'{lines[-1][1]}, {text}'
            else:
                lines.append((type, text))
        return [f'{type} {text};' if type else text for type, text in lines]

    def declaration(self, variable):
        "Return (type, declarator) of a declaration before the first assignment: `x = 0` if `x` needs an initial value"
        if isinstance(variable.type, Array):
            return self.pointer_type(variable), f'*{variable.c_name}'
        needs_zero = self.is_maybe_uninitialized(variable) and variable.type != HALF and variable.result_of is None
        value = '' if not needs_zero else ' = false' if variable.type == BOOL else ' = 0'
        return self.type_of(variable), variable.c_name + value

    def type_of(self, variable):
        "Return the C type of a variable"
        return variable.result_of.struct_name if variable.result_of else variable.c_type

    def pointer_type(self, variable):
        "Return the C type of the elements that `variable` points to"
        return ('const ' if variable.buffer.is_readonly else '') + self.emitter.element_type(variable.buffer.dtype)
