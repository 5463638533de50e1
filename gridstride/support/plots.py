"""One style for all plots: readable text, colours that colour-blind readers can distinguish, an opaque background.

`plots.use()` sets it for a notebook; plots of the package always have it. In a notebook a plot is also an SVG image,
which has dark colours on a dark page. `label_points` labels points so that no label overlaps another one or extends
beyond the axes. `illegible_labels` lists illegible text. To keep notebooks small, plots of many points are rasterized
in the SVG image, and images of many colours are reduced to 256.
"""

import re
import sys
from base64 import b64decode, b64encode
from contextlib import contextmanager
from functools import partial
from io import BytesIO, StringIO
from itertools import combinations

__all__ = [
    'INK',
    'BACKGROUND',
    'COLORS',
    'STYLE',
    'MIN_FONT_SIZE',
    'SCHEME',
    'use',
    'styled',
    'themed_svg',
    'images_of',
    'label_points',
    'illegible_labels',
]

# A plot has the same background as the pictures of `draw`, so that it is legible on light and dark pages. The colours
# are those of Okabe and Ito (2008) without yellow, the palest one; neighbours also differ in lightness.
INK, BACKGROUND = '#1f2933', '#fbfaf7'
COLORS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#444444']
MIN_FONT_SIZE = 9  # points
MAX_WIDTH = 784  # pixels, of an SVG image: a page of 800 without its margin
STYLE = {
    'font.size': 10,
    'axes.titlesize': 10,
    'axes.labelsize': 10,
    'xtick.labelsize': MIN_FONT_SIZE,
    'ytick.labelsize': MIN_FONT_SIZE,
    'legend.fontsize': MIN_FONT_SIZE,
    'figure.titlesize': 10,
    'figure.facecolor': BACKGROUND,
    'axes.facecolor': BACKGROUND,
    'savefig.facecolor': BACKGROUND,
    'legend.frameon': False,
    'text.color': INK,
    'axes.labelcolor': INK,
    'axes.edgecolor': INK,
    'xtick.color': INK,
    'ytick.color': INK,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'figure.constrained_layout.use': True,
}


def _settings():
    "Return the style as settings of matplotlib"
    from matplotlib import cycler

    return {**STYLE, 'axes.prop_cycle': cycler(color=COLORS)}


def use():
    "Give all later plots this style; in a notebook, their images follow the colour scheme of the page"
    import matplotlib

    matplotlib.rcParams.update(_settings())
    if 'IPython' in sys.modules and (shell := sys.modules['IPython'].get_ipython()):
        formatters = shell.display_formatter.formatters
        bundles = shell.display_formatter.mimebundle_formatter
        bundles.for_type_by_name('matplotlib.figure', 'Figure', partial(_images_of, formatters))


def _images_of(formatters, figure):
    "Return the SVG image of a plot for a notebook, and let `formatters` make the PNG image with few colours"
    formatters['image/png'].for_type(type(figure), _png_of)  # by now, matplotlib has registered its own
    return {'image/svg+xml': themed_svg(figure)}


@contextmanager
def styled():
    "Give the plots of the `with` block this style"
    import matplotlib

    with matplotlib.rc_context(_settings()):
        yield


# An SVG image follows the colour scheme of its page, whether it is inline or a separate file. A page that nbconvert
# writes sets no colour scheme but has JupyterLab's attribute for a dark theme, which makes inline images dark; separate
# files remain light there.
SCHEME = 'svg:root {color-scheme: light dark} [data-jp-theme-light="false"] .gridstride {color-scheme: dark}'

# On a dark page these colours replace those of a plot; raster images inside it keep theirs. JupyterLab shows the PNG of
# a plot in notebooks that it does not trust.
_DARK_INK = '#e8ebef'
_DARK_OF_COLOR = {INK: _DARK_INK, '#000000': _DARK_INK, '#444444': '#d5dae0', '#0072b2': '#4d7fe0'}
_DARK_OF_BACKGROUND = {BACKGROUND: '#171c22', '#ffffff': '#0e1216'}
_MARKER = 'path[id^="m"]'  # drawn by `use`; selectors do not match ancestors outside the copies that `use` makes


def _theme_style():
    "Return the style that gives a plot its dark colours on a dark page"
    rules = [
        f'.gridstride {element}{painted}, {_MARKER}{painted} {{{attribute}: light-dark({color}, {dark}) !important}}'
        for element, colors in (('', _DARK_OF_COLOR), ('path', _DARK_OF_BACKGROUND))
        for attribute in ('fill', 'stroke')
        for color, dark in colors.items()
        for painted in [f'[style*="{attribute}: {color}"]']
    ]
    ink = f'.gridstride {{fill: light-dark(#000000, {_DARK_INK})}}'  # matplotlib omits the fill of black elements
    return f'<style>{" ".join([SCHEME, ink, *rules])}</style>'


def _scale_to_page(attributes):
    "Return the attributes of an SVG image with its size in pixels, scaled to fit the width of a page"
    width, height = (4 / 3 * float(size) for size in re.findall(r'(?:width|height)="([\d.]+)pt"', attributes))
    scale = min(1, MAX_WIDTH / width)
    size = f'width="{scale * width:.0f}" height="{scale * height:.0f}"'
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', size, attributes)


def themed_svg(
    figure,  # of matplotlib
) -> str:
    "Return a figure as an SVG image, which has dark colours on a page with a dark colour scheme"
    _, _, svg = _svg_of(figure).partition('<svg ')
    svg = re.sub('(data:image/png;base64,)([^"]*)', lambda image: image[1] + _quantize_colors(image[2]), svg)
    attributes, _, elements = re.sub(r'\s*\n\s*', ' ', svg).partition('>')
    elements = elements.replace('*{stroke-', '.gridstride *{stroke-')  # of this plot, not of the page
    return f'<svg class="gridstride" {_scale_to_page(attributes)}>{_theme_style()}{elements}'


def _svg_of(figure):
    "Return matplotlib's SVG image of a figure; it is deterministic"
    import matplotlib

    buffer = StringIO()
    no_metadata = dict.fromkeys(('Creator', 'Date', 'Format', 'Type'))
    dpi = _RASTER_DPI if _rasterize_if_many_shapes(figure) else figure.dpi
    with matplotlib.rc_context({'svg.hashsalt': 'gridstride'}):
        figure.savefig(buffer, format='svg', bbox_inches='tight', metadata=no_metadata, dpi=dpi)
    return buffer.getvalue()


# A shape takes about 200 bytes of an SVG image, and a browser draws each one separately.
MAX_SHAPES = 1000  # points and cells of a figure; if there are more, they are rasterized
_RASTER_DPI = 144  # more than a notebook's 100, so that an enlarged plot is still sharp


def _num_shapes(artist):
    "Count the markers of a line, the points of a scatter plot, or the cells of a mesh"
    from matplotlib.collections import QuadMesh
    from matplotlib.lines import Line2D

    if isinstance(artist, Line2D):
        return len(artist.get_xdata()) if artist.get_marker() not in ('None', 'none', ' ', '', None) else 0
    return artist.get_array().size if isinstance(artist, QuadMesh) else len(artist.get_offsets())


def _rasterize_if_many_shapes(figure):
    "Rasterize the points and cells of a figure if there are more than `MAX_SHAPES`; return whether there are"
    from matplotlib.collections import PathCollection, QuadMesh
    from matplotlib.lines import Line2D

    counts = {
        artist: _num_shapes(artist)
        for ax in figure.axes
        for artist in ax.get_children()
        if isinstance(artist, (Line2D, PathCollection, QuadMesh))
    }
    has_many_shapes = sum(counts.values()) > MAX_SHAPES
    for artist, count in counts.items():
        artist.set_rasterized(has_many_shapes and count > 0)
    return has_many_shapes


_MAX_EXACT_BYTES = 50_000  # of a PNG image; a larger one, such as noise, is reduced to 256 colours


def _quantize_colors(
    png,  # in base64, with or without line breaks
):
    "Return a large opaque PNG image with its 256 most important colours, in base64; others unchanged"
    from PIL import Image

    image = Image.open(BytesIO(b64decode(png)))
    if len(png) * 3 // 4 < _MAX_EXACT_BYTES or image.convert('RGBA').getextrema()[3] != (255, 255):
        return png.replace('\n', '')
    buffer = BytesIO()
    image.convert('RGB').quantize(256, dither=Image.Dither.NONE).save(buffer, 'png', optimize=True)
    return min(b64encode(buffer.getvalue()).decode(), png.replace('\n', ''), key=len)


def _png_of(figure):
    "Return a plot as a PNG image, in base64, with the size that matplotlib gives it in a notebook"
    buffer = BytesIO()
    figure.savefig(buffer, format='png', bbox_inches='tight')
    return _quantize_colors(b64encode(buffer.getvalue()).decode())


def images_of(
    draw,  # called without arguments: draws a plot, and returns its axes
) -> dict:  # MIME type -> SVG string, bytes of a PNG image
    "Return a plot of the package as SVG and as PNG, drawn once; the figure is closed"
    import matplotlib.pyplot as plt

    figure, buffer = draw().figure, BytesIO()
    try:
        svg = themed_svg(figure)
        figure.savefig(buffer, format='png', bbox_inches='tight', dpi=90)
        return {'image/svg+xml': svg, 'image/png': buffer.getvalue()}
    finally:
        plt.close(figure)


# Offsets of a label from its point, in typographic points, the nearest first. If all positions overlap something,
# `label_points` chooses the one with the smallest overlap, and `illegible_labels` reports it.
_OFFSETS = [(s * 7, y) for y in (-12, 6, 20, -26, 34, -40) for s in (1, -1)] + [(0, 12), (0, -20)]


def _overhang(box, axes_box):
    "Return the number of pixels by which `box` exceeds `axes_box`, summed over the four sides"
    return sum(
        max(0, excess)
        for excess in (axes_box.x0 - box.x0, box.x1 - axes_box.x1, axes_box.y0 - box.y0, box.y1 - axes_box.y1)
    )


def _overlap_area(a, b):
    "Return the area that two boxes share, in pixels"
    return max(0, min(a.x1, b.x1) - max(a.x0, b.x0)) * max(0, min(a.y1, b.y1) - max(a.y0, b.y0))


def label_points(
    ax,  # the axes, with their limits and scales already set
    points,  # a list of (name, x, y), in the units of the axes
):
    "Label each point inside the axes, at a position where the label does not overlap other labels, points and lines"
    ax.figure.draw_without_rendering()
    axes_box = ax.get_window_extent()
    occupied_boxes = [_marker_box(ax, x, y) for _, x, y in points]
    for name, x, y in points:
        candidates = [_annotate(ax, name, x, y, *offset) for offset in _OFFSETS]
        boxes = [annotation.get_window_extent() for annotation in candidates]
        costs = [
            1000 * _overhang(box, axes_box)
            + sum(_overlap_area(box, occupied_box) for occupied_box in occupied_boxes)
            + _line_pixels_in(ax, box)
            for box in boxes
        ]
        best_index = costs.index(min(costs))
        occupied_boxes.append(boxes[best_index])
        for i, annotation in enumerate(candidates):
            if i != best_index:
                annotation.remove()


def _marker_box(ax, x, y):
    "Return the bounding box of a point's marker"
    from matplotlib.transforms import Bbox

    px, py = ax.transData.transform((x, y))
    half = 4 * ax.figure.dpi / 72
    return Bbox.from_extents(px - half, py - half, px + half, py + half)


def _line_pixels_in(ax, box):
    "Count the pixels of the axes' lines that run through `box`"
    import numpy as np

    num_pixels = 0
    for line in ax.lines:
        pixels = ax.transData.transform(np.column_stack(line.get_data()))
        for (x0, y0), (x1, y1) in zip(pixels, pixels[1:]):
            num_steps = int(max(abs(x1 - x0), abs(y1 - y0))) + 1
            x, y = np.linspace(x0, x1, num_steps), np.linspace(y0, y1, num_steps)
            num_pixels += int(((box.x0 < x) & (x < box.x1) & (box.y0 < y) & (y < box.y1)).sum())
    return num_pixels


def _annotate(ax, name, x, y, dx, dy):
    alignment = 'left' if dx > 0 else 'right' if dx < 0 else 'center'
    return ax.annotate(name, (x, y), xytext=(dx, dy), textcoords='offset points', ha=alignment, fontsize=MIN_FONT_SIZE)


def _undrawn_tick_labels(fig):
    "Yield the labels of ticks beyond the limits, which matplotlib keeps but does not draw"
    for axis in (axis for ax in fig.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low <= tick.get_loc() <= high:
                yield from (tick.label1, tick.label2)


def _texts(fig):
    "Yield (text, box in pixels) of each visible text in a figure"
    from matplotlib.text import Text

    undrawn = set(_undrawn_tick_labels(fig))
    for t in fig.findobj(
        lambda artist: isinstance(artist, Text) and artist.get_visible() and artist.get_text().strip()
    ):
        box = t.get_window_extent()
        clip = t.get_clip_on() and t.get_clip_box()
        if t not in undrawn and box.width and (not clip or _overlap_area(box, clip)):
            yield t, box


def illegible_labels(
    fig,  # a matplotlib figure
) -> list:  # of sentences
    "List illegible labels of a plot: they are too small, extend beyond their axes, or overlap"
    fig.canvas.draw()
    texts = list(_texts(fig))
    annotations = {t for ax in fig.axes for t in ax.texts}
    too_small = [f'{t.get_text()!r} has {t.get_size():g} points' for t, _ in texts if t.get_size() < MIN_FONT_SIZE]
    points_outside = [
        f'{t.get_text()!r} extends beyond its axes'
        for t, b in texts
        if t in annotations and _overhang(b, t.axes.get_window_extent()) > 1
    ]
    overlapping = [
        f'{a.get_text()!r} and {b.get_text()!r} overlap'
        for (a, box_a), (b, box_b) in combinations(texts, 2)
        if _overlap_area(box_a, box_b) > 0.05 * min(box_a.width * box_a.height, box_b.width * box_b.height)
    ]
    return too_small + points_outside + overlapping
