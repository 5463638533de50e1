"""Source listings in a notebook, with the line numbers of messages and colours for a light and a dark page."""

import inspect
import re
from difflib import SequenceMatcher
from html import escape

from ..support.function_source import source_of
from ..utils import cuda_begin

__all__ = ['Listing', 'show_source', 'show_change', 'SideBySide', 'side_by_side']

# kind of token -> CSS colour: the colour of JupyterLab's theme; outside JupyterLab, a colour that is legible on white
# and on black
COLORS = {
    'keyword': 'var(--jp-mirror-editor-keyword-color, #2e8b57)',
    'cuda': 'var(--jp-mirror-editor-property-color, #3a7fd0)',
    'number': 'var(--jp-mirror-editor-number-color, #2e8b57)',
    'string': 'var(--jp-mirror-editor-string-color, #d9534f)',
    'comment': 'var(--jp-mirror-editor-comment-color, #5f8787)',
    'preprocessor': 'var(--jp-mirror-editor-string-2-color, #a05cf0)',
}
_CUDA_NAME = re.compile(r'__\w+|(?:thread|block)Idx|(?:block|grid)Dim|warpSize|dim3')
_MARKED_STYLE = 'background:rgba(255,176,32,.16);box-shadow:inset 3px 0 #e08a00'
_REMOVED_STYLE = 'background:rgba(224,64,64,.12);box-shadow:inset 3px 0 #d9534f;opacity:.7'
_EDITED_STYLE = 'box-shadow:inset 3px 0 #e08a00'
_STYLES = {' ': '', '-': _REMOVED_STYLE, '+': _MARKED_STYLE, '~': _EDITED_STYLE}
_DELETED_WORD_STYLE = 'background:rgba(224,64,64,.16);opacity:.7'
_INSERTED_WORD_STYLE = 'background:rgba(255,176,32,.3);text-decoration:none'
_OMITTED_ROW = None, ' ', '...'
_NUMBER_STYLE = 'user-select:none;color:#808080'
_FONT = 'font:var(--jp-code-font-size, 13px)/1.35 var(--jp-code-font-family, monospace), monospace'
_HANGING_INDENT = 'padding-left:10ch;text-indent:-10ch'  # wrapped text is to the right of the line numbers
_BODY_STYLE = f'margin:.2em 0;padding:.2em 0;overflow-x:auto;white-space:pre;{_FONT}'


def show_source(
    src,  # a string of CUDA C, or an object that has it as `src`: a kernel, a module; or a Python function
    lines=None,  # (first, last): show only these lines
    mark=(),  # line numbers, or strings: mark these lines, and lines that contain one of the strings
    old=None,  # an older source, text or kernel: mark the lines that it does not have
    title='',  # a line above the listing
    fold=False,  # whether to show only the title; a click expands the source
) -> 'Listing':  # which a notebook displays
    """Show a numbered listing; line 1 is the first line after `cuda_begin`, as in messages.

    Raises `TypeError` for an object without source, `ValueError` for lines or strings that the source does not have."""
    text = _text_of(src).splitlines()
    first, last = lines or (1 + next((i for i, line in enumerate(text) if line.strip()), 0), len(text))
    if not 1 <= first <= last <= len(text):
        raise ValueError(f'lines {first} to {last} are out of range: this source has lines 1 to {len(text)}')
    marked_lines = _marked_lines(text, [mark] if isinstance(mark, (str, int)) else mark)
    if old is not None:
        marked_lines |= _new_lines(_text_of(old).splitlines(), text)
    return Listing(text, first, last, marked_lines, title, fold)


def _text_of(src):
    "Return the source of an object, without `cuda_begin`"
    text = source_of(src).text if inspect.isfunction(src) else getattr(src, 'src', src)
    if not isinstance(text, str):
        type_name = type(src).__name__
        raise TypeError(f'show_source needs a string of CUDA C, or a kernel or module built from it; got {type_name}')
    return text.removeprefix(cuda_begin) or text


def _marked_lines(text, marks):
    "Return the numbers of the marked lines"
    marked_lines = set()
    for mark in marks:
        lines = {mark} & set(range(1, len(text) + 1)) if isinstance(mark, int) else _lines_containing(text, mark)
        if not lines:
            raise ValueError(
                f'there is no line {mark!r} to mark' if isinstance(mark, int) else f'no line contains {mark!r}'
            )
        marked_lines |= lines
    return marked_lines


def _lines_containing(text, substring):
    return {i for i, line in enumerate(text, 1) if substring in line}


def _new_lines(old, new):
    "Return the numbers of the lines of `new` that differ from `old`"
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return {i + 1 for tag, _, _, a, b in opcodes if tag != 'equal' for i in range(a, b) if new[i].strip()}


def show_change(
    new,  # a source, as `show_source` takes it
    old,  # an older source
    title='',  # a line above the listing
    num_context_lines=2,  # unchanged lines to show before and after each changed one
    by_words=False,  # whether to mark changed words within a line, and to ignore indentation
    first_lines=(1, 1),  # of `new` and `old`: the lines above these are not compared
) -> 'Listing':  # which a notebook displays
    "Show the difference between two sources: `-` marks a removed line, `+` a new one, `~` one with marked words"
    first_new, first_old = first_lines
    new_lines, old_lines = _text_of(new).splitlines()[first_new - 1 :], _text_of(old).splitlines()[first_old - 1 :]
    keys = [[' '.join(line.split()) if by_words else line for line in lines] for lines in (old_lines, new_lines)]
    rows = []
    for group in SequenceMatcher(None, *keys, autojunk=False).get_grouped_opcodes(num_context_lines):
        rows += [_OMITTED_ROW] * bool(rows)
        for tag, old_start, old_end, new_start, new_end in group:
            numbered_lines = list(enumerate(new_lines[new_start:new_end], first_new + new_start))
            if tag == 'equal':
                rows += [(number, ' ', line) for number, line in numbered_lines]
            else:
                rows += (_changed_words if by_words else _changed_lines)(old_lines[old_start:old_end], numbered_lines)
    return Change(rows, title)


def _changed_lines(old, new):
    "Return rows for lines that were replaced by `new`, a list of (number, line)"
    return [(None, '-', line) for line in old] + [(number, '+', line) for number, line in new]


def _changed_words(old, new):
    "Return rows like `_changed_lines`, but one row for an old line and a new one that share most of their words"
    rows, new_rows, remaining_old = [], [], list(old)
    for number, line in new:
        similar_index = next((i for i, other in enumerate(remaining_old) if _similarity(other, line) > 0.6), None)
        if similar_index is None:
            new_rows.append((number, line))
            continue
        word_edits = _edits(remaining_old[similar_index], line)
        rows += [*_changed_lines(remaining_old[:similar_index], new_rows), (number, '~', word_edits)]
        new_rows, remaining_old = [], remaining_old[similar_index + 1 :]
    return rows + _changed_lines(remaining_old, new_rows)


_WORD = re.compile(r'\w+|\s+|[^\w\s]')


def _similarity(a, b):
    return SequenceMatcher(None, *(re.findall(r'\w+|[^\w\s]', line) for line in (a, b)), autojunk=False).ratio()


def _edits(old, new):
    "Return [(mark, text)], the edits that turn one line into another; all whitespace is considered equal"
    indent = new[: len(new) - len(new.lstrip())]
    a, b = _WORD.findall(old.strip()), _WORD.findall(new.strip())
    keys = [[word if word.strip() else ' ' for word in words] for words in (a, b)]
    edits = [(' ', indent)]
    for tag, i, j, k, n in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        edits += [(' ', ''.join(b[k:n]))] if tag == 'equal' else [('-', ''.join(a[i:j])), ('+', ''.join(b[k:n]))]
    return [(mark, text) for mark, text in edits if text]


class Listing:
    "A numbered source: coloured in a notebook, plain text elsewhere"

    def __init__(self, text, first, last, marked_lines, title, fold):
        self.text = text
        self.first = first
        self.last = last
        self.marked_lines = marked_lines
        self.title = title
        self.fold = fold

    def __repr__(self):
        lines = [
            f'{i:4} {">" if i in self.marked_lines else " "} {self.text[i - 1]}'.rstrip() for i in self._line_numbers()
        ]
        return '\n'.join([*filter(None, [self.title]), *lines])

    def _line_numbers(self):
        return range(self.first, self.last + 1)

    def _repr_html_(self):
        colored_lines = _color_source('\n'.join(self.text)).split('\n')
        rows = ''.join(
            _format_row(i, colored_lines[i - 1], '+' if i in self.marked_lines else ' ') for i in self._line_numbers()
        )
        body, title = f'<pre style="{_BODY_STYLE}">{rows}</pre>', escape(self.title)
        if self.fold:
            return f'<details><summary style="cursor:pointer">{title or "the source"}</summary>{body}</details>'
        return f'<div style="font-weight:bold">{title}</div>{body}' if title else body


class Change(Listing):
    "A comparison of two sources: coloured lines in a notebook, numbered text elsewhere"

    def __init__(self, rows, title):  # rows: (number or None, mark, line); for `~` the line is a list of (mark, text)
        self.rows, self.title = rows, title

    def __repr__(self):
        lines = [f'{n or "":4} {mark} {_words_as_text(mark, text)}'.rstrip() for n, mark, text in self.rows]
        return '\n'.join([*filter(None, [self.title]), *lines])

    def _repr_html_(self):
        colored_lines = _color_source('\n'.join('' if mark == '~' else text for _, mark, text in self.rows)).split('\n')
        rows = ''.join(
            _format_row(n or '', _words_as_html(text) if mark == '~' else html, mark)
            for (n, mark, text), html in zip(self.rows, colored_lines)
        )
        return f'<div style="font-weight:bold">{escape(self.title)}</div><pre style="{_BODY_STYLE}">{rows}</pre>'


def _words_as_text(mark, line):
    "Format a line as `git diff --word-diff` does: `[-removed-]{+new+}`"
    if mark != '~':
        return line
    return ''.join({' ': '{}', '-': '[-{}-]', '+': '{{+{}+}}'}[kind].format(text) for kind, text in line)


def _words_as_html(line):
    tags = {
        ' ': '{}',
        '-': f'<del style="{_DELETED_WORD_STYLE}">{{}}</del>',
        '+': f'<ins style="{_INSERTED_WORD_STYLE}">{{}}</ins>',
    }
    return ''.join(tags[kind].format(escape(text)) for kind, text in line)


class SideBySide:
    "Listings in columns, or one below another on a narrow page. Long lines wrap and are indented"

    def __init__(self, listings):
        self.listings = listings

    def __repr__(self):
        return '\n\n'.join(map(repr, self.listings))

    def _repr_html_(self):
        column_style = 'flex:1 1 26em;min-width:0'
        columns = ''.join(f'<div style="{column_style}">{item._repr_html_()}</div>' for item in self.listings)
        columns = columns.replace('white-space:pre;', 'white-space:pre-wrap;word-break:normal;')
        columns = columns.replace('min-width:max-content', _HANGING_INDENT)
        return f'<div style="display:flex;flex-wrap:wrap;gap:1em;--jp-code-font-size:11px">{columns}</div>'


def side_by_side(*listings) -> SideBySide:  # each from `show_source`
    "Show listings side by side"
    return SideBySide(listings)


def _format_row(number, html, mark=' '):
    "Format a line as HTML; its number, and `-` for a removed line, are in a column that cannot be selected"
    style = f'display:block;min-width:max-content;{_STYLES[mark]}'
    removed_sign = '-' if mark == '-' else ' '
    return f'<span style="{style}"><span style="{_NUMBER_STYLE}">{number:>4}{removed_sign} </span>{html or " "}</span>'


def _color_source(text):
    "Format a source as HTML, in colours if Pygments is installed"
    try:
        from pygments.lexers import CppLexer, PythonLexer
    except ImportError:
        return escape(text)
    is_python = re.search(r'^ *def \w+\(.*:', text, re.MULTILINE)
    lexer = (PythonLexer if is_python else CppLexer)(stripnl=False, ensurenl=False)
    return ''.join(_format_token(_token_kind(str(t), v), v) for t, v in lexer.get_tokens(text))


def _token_kind(token, text):
    "Return the kind of a token, a key of `COLORS`; None if it has no colour"
    if token.startswith('Token.Comment.Preproc'):
        return 'preprocessor'
    if token.startswith('Token.Name') and _CUDA_NAME.fullmatch(text):
        return 'cuda'
    kinds = {'Comment': 'comment', 'Keyword': 'keyword', 'Literal.Number': 'number', 'Literal.String': 'string'}
    return next((v for k, v in kinds.items() if token.startswith(f'Token.{k}')), None)


def _format_token(kind, text):
    "Format a token as HTML in the colour of its kind, with one span per line"
    if not kind:
        return escape(text)
    style = f'<span style="color:{COLORS[kind]}">'
    return '\n'.join(item and f'{style}{escape(item)}</span>' for item in text.split('\n'))
