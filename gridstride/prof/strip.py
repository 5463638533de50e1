"""Draw a timeline as a strip that fits the notebook: one row per thread, stream or warp."""

import math
from collections import namedtuple
from html import escape

from ..draw import INK, LINE, PALETTE, Panel, svg_rect, svg_text
from .show import si


def ticks(
    span: float,  # length of the axis
    max_ticks=8,
) -> list:  # from 0 on
    """Return round values along an axis: multiples of 1, 2 or 5 times a power of ten.

    >>> ticks(1.0, 4)
    [0.0, 0.5, 1.0]"""
    if span <= 0:
        return [0.0]
    base = 10 ** math.floor(math.log10(span / max_ticks))
    step = next(m * base for m in (1, 2, 5, 10) if span / (m * base) <= max_ticks)
    return [round(i * step, 15) for i in range(int(span / step + 1e-9) + 1)]


# A box that would be less than half a pixel wide is omitted if the box on its left covers that pixel, so that a trace
# of 100,000 kernels is still a small picture. A name is written if it fits; a tooltip always shows it.
OTHER = '#e4e7eb'
# `start` and `end` are in seconds or another unit; `full` is the text of the tooltip.
Box = namedtuple('Box', 'start end name color full', defaults=(OTHER, ''))
Row = namedtuple('Row', 'label boxes')


def _boxes(row, pixel_of, y, height, unit):
    "Return the boxes of a row as SVG; `pixel_of(time)` is the horizontal pixel"
    parts = []
    right_edge = -1.0  # of the last box
    for b in sorted(row.boxes):
        x0, x1 = pixel_of(b.start), pixel_of(b.end)
        if x1 - right_edge < 0.5:
            continue
        w = max(x1 - x0, 0.8)
        right_edge = x0 + w
        max_length = int((w - 4) / 6.4)
        name = b.name if len(b.name) <= max_length else f'{b.name[: max_length - 1]}…' if max_length >= 4 else ''
        edge = f'stroke="{LINE}" stroke-width=".5"' if w > 3 else ''
        tip = f'<title>{escape(b.full or b.name)}: {si(b.end - b.start, unit)}</title>'
        label = svg_text(x0 + w / 2, y + height / 2 + 3.5, name, 9.5) if name else ''
        parts.append(f'<g>{tip}{svg_rect(x0, y, w, height, b.color, edge)}{label}</g>')
    return parts


def _line(x0, y0, x1, y1, attributes):
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" {attributes}/>'


_ARROW = f'<path d="M0 0L6 3L0 6z" fill="{INK}"/>'
_MARKER_ATTRIBUTES = 'viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto"'
_ARROW_MARKER = f'<defs><marker id="arrow" {_MARKER_ATTRIBUTES}>{_ARROW}</marker></defs>'
_ARROW_ATTRIBUTES = f'stroke="{INK}" stroke-width=".8" stroke-dasharray="3 2" marker-end="url(#arrow)"'


def _tick(x, top, bottom, label):
    "Return the line of a tick across all rows, and its label"
    return _line(x, top, x, bottom, f'stroke="{LINE}" stroke-width=".4"'), svg_text(x, bottom + 12, label, 9.5)


def strip(
    rows: list,  # of `Row`
    arrows=(),  # (row, time, row, time): from the bottom of one row to the top of another
    width=610,  # pixels of the time axis: with labels and card it fits a page of 800
    title='',
    max_label_width=120,  # pixels
    row_height=18,  # pixels
    start=None,
    end=None,  # of the time axis; by default, of the boxes
    unit='s',  # of the time
) -> Panel:
    "Draw the rows with one time axis; raises `ValueError` if no row has a box"
    boxes = [b for r in rows for b in r.boxes]
    if not boxes:
        raise ValueError('there is nothing to draw: no row has a box')
    t0 = min(b.start for b in boxes) if start is None else start
    t1 = max(b.end for b in boxes) if end is None else end
    left = min(max_label_width, 6.4 * max(len(r.label) for r in rows) + 10)
    top = 22 if title else 2
    bottom = top + len(rows) * (row_height + 5) + 2

    def pixel_of(t):
        return left + width * (min(max(t, t0), t1) - t0) / ((t1 - t0) or 1)

    def y(i):
        return top + i * (row_height + 5)

    parts = [svg_text(left, 13, title, anchor='start', extra='font-weight="bold"')] if title else []
    parts += [part for t in ticks(t1 - t0) for part in _tick(pixel_of(t0 + t), top, bottom, si(t, unit, 2 if t else 1))]
    for i, r in enumerate(rows):
        parts.append(svg_text(left - 6, y(i) + row_height / 2 + 4, r.label[: int((left - 8) / 6.2)], 10.5, 'end'))
        parts += _boxes(r, pixel_of, y(i), row_height, unit)
    parts += [_line(pixel_of(t), y(i) + row_height, pixel_of(u), y(j), _ARROW_ATTRIBUTES) for i, t, j, u in arrows]
    return Panel(left + width + 18, bottom + 18, [_ARROW_MARKER if arrows else '', *parts])


def colors(names) -> dict:  # name -> '#rrggbb'
    "Return one colour per name for the first eight names, grey for the others"
    return {n: (PALETTE[i] if i < len(PALETTE) else OTHER) for i, n in enumerate(names)}
