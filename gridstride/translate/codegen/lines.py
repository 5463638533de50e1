"""Writes lines of C, with the comments and blank lines of the Python source."""

from ..types import BOOL, HALF, Array


class Line:
    "A line of C: its text without indentation, its depth, and the line of Python that it comes from"

    def __init__(self, text, depth, line):
        self.text = text
        self.depth = depth
        self.line = line

    def __str__(self):
        return '    ' * self.depth + self.text if self.text else ''


WIDTH = 110


# Comments and blank lines are copied: each statement is preceded by those that precede it in Python.
class SourceLines:
    "Write lines, with the comments and blank lines of the Python source"

    writing = None  # the statement that is being written

    def put(self, text, line, depth=None):
        "Write a line of C that comes from the line `line` of the source"
        self.lines.append(Line(text, self.depth if depth is None else depth, line))

    def comments_until(self, line, column=None):
        "Write the comments and blank lines of the source that precede `line`"
        for n in range(self.cursor + 1, line):
            if n in self.source.comments and self.source.comments[n][2]:
                if column is not None and self.source.comments[n][0] < column:
                    return
                self.put_blank_line()
                self.put(f'// {self.source.comments[n][1]}', n)
            elif n in self.source.blank:
                self.blank_line_pending = True
            else:
                continue
            self.cursor = n

    def put_blank_line(self):
        "Write a blank line if the source has one here"
        if self.blank_line_pending and self.lines and self.lines[-1].text and not self.lines[-1].text.endswith('{'):
            self.put('', None)
        self.blank_line_pending = False

    def trailing_comments(self, first, last):
        "Return the comments at the ends of the lines `first` to `last` of the source"
        return ' '.join(
            self.source.comments[n][1]
            for n in range(first, last + 1)
            if n in self.source.comments and not self.source.comments[n][2]
        )

    def block(self, body, column):
        "Write the statements of a block of the source that begins at `column`"
        groups = []
        for n, s in enumerate(body):
            if (
                groups
                and s.node is groups[-1][0][1].node
                and s.kind in ('assign', 'alloc', 'pointer', 'store', 'nothing')
            ):
                groups[-1].append((n, s))
            else:
                groups.append([(n, s)])
        for g in groups:
            self.group(body, g)
        end = self.cursor + 1
        while end <= len(self.source.lines) and self.belongs_to_block(end, column):
            end += 1
        self.comments_until(end, column)

    def belongs_to_block(self, n, column):
        "Return whether line `n` of the source is empty, or a comment that belongs to a block at `column`"
        comment_column, _, is_own_line = self.source.comments.get(n, (0, '', False))
        return n in self.source.blank or is_own_line and comment_column >= column

    def group(self, body, group):
        "Write the statements that come from one statement of Python"
        first = self.writing = group[0][1]
        self.comments_until(first.line)
        start = len(self.lines)
        compound = first.kind in ('if', 'while', 'for', 'each')
        comment = self.trailing_comments(
            max(first.line, self.cursor + 1), self.header_end(first) if compound else first.last
        )
        if any(s.kind != 'nothing' for _, s in group) or any(
            (id(body), n) in self.declarations_before for n, _ in group
        ):
            self.put_blank_line()
        start = len(self.lines)
        texts = []
        for n, s in group:
            for t in self.combine([self.declaration(v) for v in self.declarations_before.get((id(body), n), ())]):
                self.put(t, s.line)
        for n, s in group:
            if compound:
                self.cursor = max(self.cursor, self.header_end(s))
                getattr(self, f'_stmt_{s.kind}')(s)
            else:
                texts += getattr(self, f'_stmt_{s.kind}')(s)
        for t in self.combine(texts):
            self.put(t, first.line)
        self.writing = None
        if not compound:
            self.cursor = max(self.cursor, first.last)
        if comment:
            if len(self.lines) > start:
                self.lines[start].text += f'  // {comment}'
            else:
                self.put_blank_line()
                self.put(f'// {comment}', first.line)

    def header_end(self, stmt):
        "Return the last line of the header of a branch or a loop"
        return (stmt.node.iter if stmt.kind in ('for', 'each') else stmt.node.test).end_lineno

    def combine(self, texts):
        "Join declarations of the same type into one line if it fits"
        res = []
        for t in texts:
            t = t if isinstance(t, tuple) else (None, t)
            if res and t[0] and res[-1][0] == t[0] and len(res[-1][1]) + len(t[1]) < WIDTH - 10:
                res[-1] = t[0], f'{res[-1][1]}, {t[1]}'
            else:
                res.append(t)
        return [f'{k} {t};' if k else t for k, t in res]

    def declaration(self, v):
        "Return (type, name and value) to declare `v` before its first assignment"
        if isinstance(v.type, Array):
            return self.pointer_type(v), f'*{v.c_name}'
        zero = self.may_be_uninitialized(v) and v.type != HALF and v.result_of is None
        value = '' if not zero else ' = false' if v.type == BOOL else ' = 0'
        return self.type_of(v), v.c_name + value

    def type_of(self, v):
        "Return C's type of the variable `v`"
        return v.result_of.struct_name if v.result_of else v.c_type

    def pointer_type(self, v):
        "Return C's type of the elements that `v` points to"
        return ('const ' if v.memory.readonly else '') + self.writer.element_type(v.memory.dtype)
