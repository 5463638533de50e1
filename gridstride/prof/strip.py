"""Draw a timeline as a strip that fits the notebook: one row per thread, stream or warp."""

import math
from collections import namedtuple
from html import escape

from ..draw import GREY, INK, LINE, PALETTE, Panel, svg_rect, svg_text
from .show import format_si


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
    step = next(multiple * base for multiple in (1, 2, 5, 10) if span / (multiple * base) <= max_ticks)
    return [round(i * step, 15) for i in range(int(span / step + 1e-9) + 1)]


# A box that would be less than half a pixel wide is omitted if the box on its left covers that pixel, so that a trace
# of 100,000 kernels is still a small picture. A name is written if it fits; a tooltip always shows it.
OTHER_COLOR = GREY
# `start` and `end` are in seconds or another unit; the tooltip shows `full` instead of `name`, if there is one.
Box = namedtuple('Box', 'start end name color full', defaults=(OTHER_COLOR, ''))
Row = namedtuple('Row', 'label boxes')


def _boxes(row, pixel_of, y, height, unit):
    "Return the boxes of a row as SVG; `pixel_of(time)` is the horizontal pixel"
    elements = []
    right_edge = -1.0  # of the last box
    for box in sorted(row.boxes):
        left_pixel, right_pixel = pixel_of(box.start), pixel_of(box.end)
        if right_pixel - right_edge < 0.5:
            continue
        width = max(right_pixel - left_pixel, 0.8)
        right_edge = left_pixel + width
        max_length = int((width - 4) / 6.4)
        name = box.name if len(box.name) <= max_length else f'{box.name[: max_length - 1]}…' if max_length >= 4 else ''
        edge = f'stroke="{LINE}" stroke-width=".5"' if width > 3 else ''
        tooltip = f'<title>{escape(box.full or box.name)}: {format_si(box.end - box.start, unit)}</title>'
        label = svg_text(left_pixel + width / 2, y + height / 2 + 3.5, name, 9.5) if name else ''
        elements.append(f'<g>{tooltip}{svg_rect(left_pixel, y, width, height, box.color, edge)}{label}</g>')
    return elements


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
    width=610,  # pixels of the time axis; with the labels, the picture fits a page of 800 pixels
    title='',
    max_label_width=120,  # pixels
    row_height=18,  # pixels
    start=None,
    end=None,  # of the time axis; by default, of the boxes
    unit='s',  # of the time
) -> Panel:
    "Draw the rows with one time axis; raises `ValueError` if no row has a box"
    boxes = [box for row in rows for box in row.boxes]
    if not boxes:
        raise ValueError('there is nothing to draw: no row has a box')
    axis_start = min(box.start for box in boxes) if start is None else start
    axis_end = max(box.end for box in boxes) if end is None else end
    plot_left = min(max_label_width, 6.4 * max(len(row.label) for row in rows) + 10)
    plot_top = 22 if title else 2
    plot_bottom = plot_top + len(rows) * (row_height + 5) + 2

    def pixel_of(time):
        return plot_left + width * (min(max(time, axis_start), axis_end) - axis_start) / ((axis_end - axis_start) or 1)

    def top_of_row(row_index):
        return plot_top + row_index * (row_height + 5)

    elements = [svg_text(plot_left, 13, title, anchor='start', extra='font-weight="bold"')] if title else []
    elements += [
        element
        for time in ticks(axis_end - axis_start)
        for element in _tick(
            pixel_of(axis_start + time), plot_top, plot_bottom, format_si(time, unit, 2 if time else 1)
        )
    ]
    for row_index, row in enumerate(rows):
        elements.append(
            svg_text(
                plot_left - 6,
                top_of_row(row_index) + row_height / 2 + 4,
                row.label[: int((plot_left - 8) / 6.2)],
                10.5,
                'end',
            )
        )
        elements += _boxes(row, pixel_of, top_of_row(row_index), row_height, unit)
    elements += [
        _line(
            pixel_of(time),
            top_of_row(row_index) + row_height,
            pixel_of(end_time),
            top_of_row(end_row),
            _ARROW_ATTRIBUTES,
        )
        for row_index, time, end_row, end_time in arrows
    ]
    return Panel(plot_left + width + 18, plot_bottom + 18, [_ARROW_MARKER if arrows else '', *elements])


def colors(names) -> dict:  # name -> '#rrggbb'
    "Return one colour per name for the first eight names, grey for the others"
    return {name: (PALETTE[i] if i < len(PALETTE) else OTHER_COLOR) for i, name in enumerate(names)}
