"""Pictures of a tiled product: the elements that a block, a warp and a thread access, and wavefronts of bank groups."""

import numpy as np

from ...draw import LINE, PALETTE, Panel, cells, svg_rect, svg_text

__all__ = ['draw_phase', 'draw_wavefronts']

_BLOCK, _WARP, _THREAD = PALETTE[0], PALETTE[1], '#d55e00'
_LEGEND = ((_BLOCK, 'the block'), (_WARP, 'one of its warps'), (_THREAD, 'one thread of it'))


def _runs(indices):
    "Return (first, count) of each run of consecutive indices"
    indices = np.unique(indices)
    return [(int(run[0]), len(run)) for run in np.split(indices, np.flatnonzero(np.diff(indices) > 1) + 1)]


def _fill_cells(rows, cols, color, size):
    "Return rectangles over some rows and columns"
    return [
        svg_rect(size * c, size * r, size * w, size * h, color, f'stroke="{LINE}" stroke-width="0.5"')
        for r, h in _runs(rows)
        for c, w in _runs(cols)
    ]


def _draw_matrix(name, rows, cols, parts, size):
    "Return a matrix with coloured parts, each (rows, columns, colour), and its name above"
    frame = svg_rect(0, 0, size * cols, size * rows, 'none', f'stroke="{LINE}" stroke-width="1.5"')
    body = [svg_rect(0, 0, size * cols, size * rows, '#ffffff')]
    for r, c, color in parts:
        body += _fill_cells(r, c, color, size)
    title = svg_text(size * cols / 2, -6, name, 12, extra='font-weight="bold"')
    return f'{"".join(body)}{frame}{title}'


def draw_phase(
    thread_of_result,  # BM x BN: the index of the thread that computes each element of a tile
    h,
    w,
    k,  # of h x k @ k x w
    idx,  # first index along k of the phase
    bk,  # number of indices along k
    block=(0, 0),  # row and column of the block's tile
    warp=0,  # the warp of the block that is coloured
    lane=0,  # the lane of this warp that is coloured
    size=7,  # pixels per element
) -> Panel:
    "Draw A to the left of C and B above it, with the elements that one phase reads and the results it updates"
    tile_rows, tile_columns = thread_of_result.shape
    top, left = block[0] * tile_rows, block[1] * tile_columns
    steps = np.arange(idx, min(idx + bk, k))
    elements = [
        np.nonzero(mask)
        for mask in (thread_of_result >= 0, thread_of_result // 32 == warp, thread_of_result == 32 * warp + lane)
    ]
    rows, cols = ([top + r for r, _ in elements], [left + c for _, c in elements])
    colors = [_BLOCK, _WARP, _THREAD]
    gap, label = 16, 20
    x, y = size * k + gap, label + size * k + gap + label
    panels = (
        (0, y, _draw_matrix('A', h, k, [(r, steps, c) for r, c in zip(rows, colors)], size)),
        (x, label, _draw_matrix('B', k, w, [(steps, run, c) for run, c in zip(cols, colors)], size)),
        (x, y, _draw_matrix('C', h, w, list(zip(rows, cols, colors)), size)),
    )
    parts = [f'<g transform="translate({a:.1f},{b:.1f})">{svg}</g>' for a, b, svg in panels]
    for i, (color, words) in enumerate(_LEGEND):
        parts += [svg_rect(0, 24 + 20 * i, 12, 12, color), svg_text(18, 34 + 20 * i, words, 11, 'start')]
    return Panel(x + size * w + 2, y + size * h + 2, parts)


def draw_wavefronts(
    wavefronts,  # per wavefront {quad: lanes}: the groups of four floats that it reads, and the lanes that need them
    title,
) -> Panel:
    "Draw one row per wavefront and one column per four banks, with the lanes whose loads are served"
    labels = np.full((len(wavefronts), 8), '', dtype=object)
    for r, one in enumerate(wavefronts):
        for q, lanes in one.items():
            labels[r, q % 8] = f'{lanes[0]}-{lanes[-1]}' if len(lanes) > 1 else lanes[0]
    wavefront = np.arange(len(wavefronts))
    colors = np.where(labels == '', -1, wavefront[:, None])
    rows = [f'wavefront {i}' for i in wavefront]
    return cells(labels, colors, f'{title}: {len(wavefront)} wavefronts', rows=rows, cols=range(0, 32, 4), size=31)
