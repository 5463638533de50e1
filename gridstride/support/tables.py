"""A table: aligned text in a terminal, HTML in a notebook."""

import textwrap
from html import escape

__all__ = ['Percentage', 'CellText', 'Table']


# In a notebook a table takes its colours from the page, so that it is legible on light and dark pages. A `Percentage`
# is a fraction with a bar in the background. A `CellText` has a tooltip and optionally the colour that a picture next
# to the table uses for it.
class Percentage(float):
    """A fraction, 0 to 1, shown as a percentage with a data bar in the background.

    >>> str(Percentage(0.25))
    '25%'"""

    def __str__(self):
        return '<0.1%' if 0 < self < 0.0005 else f'{100 * self:.1f}%' if self < 0.0995 else f'{100 * self:.0f}%'


class CellText(str):
    "The text of a cell, with a tooltip, a colour, and an indentation depth"

    def __new__(cls, text, tooltip='', color='', depth=0):
        cell_text = super().__new__(cls, text)
        cell_text.tooltip = tooltip
        cell_text.color = color
        cell_text.depth = depth
        return cell_text


# The colour of a dot may be a CSS `light-dark()` pair. The class `gridstride` applies `plots.SCHEME` to the dot, which
# selects the dark colour on dark pages.
_DOT = 'display:inline-block;width:.7em;height:.7em;border:1px solid #9aa5b1'
_BAR = 'rgba(80,140,220,.35)'


def _style(x, is_left_aligned):
    "Return the CSS of a cell"
    style = ['text-align:left' if is_left_aligned else 'text-align:right;white-space:nowrap']
    if isinstance(x, Percentage):
        style.append(f'background:linear-gradient(90deg,{_BAR} {100 * min(max(x, 0), 1):.1f}%,transparent 0)')
    if depth := getattr(x, 'depth', 0):
        style.append(f'padding-left:{0.5 + 1.4 * depth:.1f}em')
    return ';'.join(style)


def _cell_html(x, is_left_aligned):
    "Return a cell as HTML"
    title = f' title="{escape(x.tooltip)}"' if getattr(x, 'tooltip', '') else ''
    color = getattr(x, 'color', '')
    dot = f'<span class="gridstride" style="{_DOT};background:{color}"></span> ' if color else ''
    return f'<td style="{_style(x, is_left_aligned)}"{title}>{dot}{escape(str(x))}</td>'


class Table:
    """Rows of cells below a header row. A column is left-aligned if its header begins with `<`, or if there is no
    header row. When the table is printed, long text in the last column is wrapped."""

    def __init__(
        self,
        header,  # strings, one per column, or empty
        rows,  # lists of cells: strings, numbers, `Percentage`s, `CellText`s
        title='',  # a line above the table
        note='',  # lines below the table
    ):
        self.rows = [list(r) for r in rows]
        self.title = title
        self.note = note
        self.is_left_aligned = [h.startswith('<') for h in header] or [True] * max(
            map(len, self.rows), default=0
        )  # per column
        self.header = [h.lstrip('<') for h in header]

    def __repr__(self):
        rows = [[f"{'  ' * getattr(c, 'depth', 0)}{c}" for c in r] for r in self.rows]
        rows = [self.header, *rows] if self.header else rows
        widths = [max(len(r[i]) for r in rows) for i in range(len(self.is_left_aligned))]
        if self.header and self.is_left_aligned[-1]:
            widths[-1] = min(widths[-1], 100)
        lines = [line for r in rows for line in self._format_row(r, widths)]
        return '\n'.join([*filter(None, [self.title]), *lines, *filter(None, [self.note])])

    def _format_row(self, row, widths):
        "Format a row as text: one line, or more if its last column is wrapped"
        first_line, *other_lines = textwrap.wrap(row[-1], widths[-1]) if len(row[-1]) > widths[-1] else [row[-1]]
        cells = zip([*row[:-1], first_line], widths, self.is_left_aligned)
        line = '  '.join(c.ljust(w) if is_left_aligned else c.rjust(w) for c, w, is_left_aligned in cells).rstrip()
        indentation = ' ' * (sum(widths[:-1]) + 2 * (len(widths) - 1))
        return [line, *(f'{indentation}{text}' for text in other_lines)]

    def _repr_html_(self):
        alignments = ['left' if is_left_aligned else 'right' for is_left_aligned in self.is_left_aligned]
        header_cells = ''.join(f'<th style="text-align:{s}">{escape(h)}</th>' for h, s in zip(self.header, alignments))
        head = f'<thead><tr>{header_cells}</tr></thead>' if header_cells else ''
        body = ''.join(f'<tr>{"".join(map(_cell_html, r, self.is_left_aligned))}</tr>' for r in self.rows)
        title = f'<p style="margin:.4em 0 .2em"><b>{escape(self.title)}</b></p>' if self.title else ''
        note = f'<p style="margin:.2em 0 .8em">{escape(self.note)}</p>'.replace('\n', '<br>') if self.note else ''
        return f'{title}<table>{head}<tbody>{body}</tbody></table>{note}'
