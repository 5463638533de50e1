"""Draw a timeline as a strip that fits the notebook: one row per thread, stream or warp."""

import math
from collections import namedtuple
from html import escape

from ..draw import INK, LINE, PALETTE, Panel, svg_rect, svg_text
from .show import si


def ticks(
    span: float,  # length of the axis
    most=8,  # ticks
) -> list:  # from 0 on
    """Return round values along an axis: multiples of 1, 2 or 5 times a power of ten.

    >>> ticks(1.0, 4)
    [0.0, 0.5, 1.0]"""
    if span <= 0:
        return [0.0]
    base = 10 ** math.floor(math.log10(span / most))
    step = next(m * base for m in (1, 2, 5, 10) if span / (m * base) <= most)
    return [round(i * step, 15) for i in range(int(span / step + 1e-9) + 1)]


# A box that would be less than half a pixel wide is omitted if the box on its left covers that pixel, so that a trace
# of 100,000 kernels is still a small picture. A name is written if it fits; a tooltip always shows it.
OTHER = '#e4e7eb'
# `start` and `end` are in seconds or another unit; `full` is the text of the tooltip.
Box = namedtuple('Box', 'start end name color full', defaults=(OTHER, ''))
Row = namedtuple('Row', 'label boxes')


def _boxes(row, at, y, high, unit):
    "Return the boxes of a row as SVG, at pixel `at(time)`"
    parts = []
    inked = -1.0
    for b in sorted(row.boxes):
        x0, x1 = at(b.start), at(b.end)
        if x1 - inked < 0.5:
            continue
        w = max(x1 - x0, 0.8)
        inked = x0 + w
        fits = int((w - 4) / 6.4)
        name = b.name if len(b.name) <= fits else f'{b.name[: fits - 1]}…' if fits >= 4 else ''
        edge = f'stroke="{LINE}" stroke-width=".5"' if w > 3 else ''
        tip = f'<title>{escape(b.full or b.name)}: {si(b.end - b.start, unit)}</title>'
        label = svg_text(x0 + w / 2, y + high / 2 + 3.5, name, 9.5) if name else ''
        parts.append(f'<g>{tip}{svg_rect(x0, y, w, high, b.color, edge)}{label}</g>')
    return parts


def _line(x0, y0, x1, y1, how):
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" {how}/>'


_ARROW = f'<path d="M0 0L6 3L0 6z" fill="{INK}"/>'
_SIZE = 'viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto"'
_HEAD = f'<defs><marker id="arrow" {_SIZE}>{_ARROW}</marker></defs>'
_DASHED = f'stroke="{INK}" stroke-width=".8" stroke-dasharray="3 2" marker-end="url(#arrow)"'


def _tick(x, top, foot, label):
    "Return the line of a tick across all rows, and its label"
    return _line(x, top, x, foot, f'stroke="{LINE}" stroke-width=".4"'), svg_text(x, foot + 12, label, 9.5)


def strip(
    rows: list,  # of `Row`
    arrows=(),  # (row, time, row, time): from the bottom of one row to the top of another
    width=610,  # pixels of the time axis: with labels and card it fits a page of 800
    title='',
    most=120,  # pixels for the labels, at most
    high=18,  # pixels per row
    start=None,
    end=None,  # of the time axis; by default those of the boxes
    unit='s',  # of the time
) -> Panel:
    "Draw the rows to one time scale. Raises ValueError if no row has a box"
    every = [b for r in rows for b in r.boxes]
    if not every:
        raise ValueError('there is nothing to draw: no row has a box')
    t0 = min(b.start for b in every) if start is None else start
    t1 = max(b.end for b in every) if end is None else end
    left = min(most, 6.4 * max(len(r.label) for r in rows) + 10)
    top = 22 if title else 2
    foot = top + len(rows) * (high + 5) + 2

    def at(t):
        return left + width * (min(max(t, t0), t1) - t0) / ((t1 - t0) or 1)

    def y(i):
        return top + i * (high + 5)

    parts = [svg_text(left, 13, title, anchor='start', extra='font-weight="bold"')] if title else []
    parts += [part for t in ticks(t1 - t0) for part in _tick(at(t0 + t), top, foot, si(t, unit, 2 if t else 1))]
    for i, r in enumerate(rows):
        parts.append(svg_text(left - 6, y(i) + high / 2 + 4, r.label[: int((left - 8) / 6.2)], 10.5, 'end'))
        parts += _boxes(r, at, y(i), high, unit)
    parts += [_line(at(t), y(i) + high, at(u), y(j), _DASHED) for i, t, j, u in arrows]
    return Panel(left + width + 18, foot + 18, [_HEAD if arrows else '', *parts])


def colors(names) -> dict:  # name -> '#rrggbb'
    "Return one colour per name for the first eight names, grey for the others"
    return {n: (PALETTE[i] if i < len(PALETTE) else OTHER) for i, n in enumerate(names)}
