"""Pictures of a tiled matrix multiplication: the elements that a block, a warp and a thread access, and the wavefronts
of loads from shared memory."""

import numpy as np

from ...draw import LINE, PALETTE, Panel, cells, svg_rect, svg_text

__all__ = ['draw_phase', 'draw_wavefronts']

_BLOCK_COLOR, _WARP_COLOR, _THREAD_COLOR = PALETTE[2], PALETTE[3], '#d55e00'
_LEGEND = ((_BLOCK_COLOR, 'the block'), (_WARP_COLOR, 'one of its warps'), (_THREAD_COLOR, 'one of its threads'))


def _runs(indices):
    "Return (first, count) of each run of consecutive indices"
    indices = np.unique(indices)
    return [(int(run[0]), len(run)) for run in np.split(indices, np.flatnonzero(np.diff(indices) > 1) + 1)]


def _fill_cells(rows, cols, color, size):
    "Return SVG rectangles that fill the cells of some rows and columns"
    return [
        svg_rect(size * c, size * r, size * w, size * h, color, f'stroke="{LINE}" stroke-width="0.5"')
        for r, h in _runs(rows)
        for c, w in _runs(cols)
    ]


def _draw_matrix(name, rows, cols, regions, size):
    "Return SVG of a matrix with coloured regions, each (rows, columns, colour), and its name above it"
    frame = svg_rect(0, 0, size * cols, size * rows, 'none', f'stroke="{LINE}" stroke-width="1.5"')
    body = [svg_rect(0, 0, size * cols, size * rows, '#ffffff')]
    for region_rows, region_columns, color in regions:
        body += _fill_cells(region_rows, region_columns, color, size)
    title = svg_text(size * cols / 2, -6, name, 12, extra='font-weight="bold"')
    return f'{"".join(body)}{frame}{title}'


def draw_phase(
    thread_of_result,  # BM x BN: the index of the thread that computes each element of a tile
    M,
    N,
    K,  # of A (M x K) @ B (K x N)
    k_start,  # first index along K of the phase
    BK,  # number of indices along K per phase
    block=(0, 0),  # row and column of the block's tile
    warp=0,  # index of the coloured warp in its block
    lane=0,  # index of the coloured lane in this warp
    size=7,  # pixels per element
) -> Panel:
    "Draw A to the left of C and B above C, with the elements that one phase reads and the results that it updates"
    tile_rows, tile_columns = thread_of_result.shape
    top, left = block[0] * tile_rows, block[1] * tile_columns
    k_indices = np.arange(k_start, min(k_start + BK, K))
    elements = [
        np.nonzero(mask)
        for mask in (thread_of_result >= 0, thread_of_result // 32 == warp, thread_of_result == 32 * warp + lane)
    ]
    rows, cols = ([top + r for r, _ in elements], [left + c for _, c in elements])
    colors = [_BLOCK_COLOR, _WARP_COLOR, _THREAD_COLOR]
    gap, title_height = 16, 20
    left_of_c, top_of_c = size * K + gap, title_height + size * K + gap + title_height
    matrices = (
        (0, top_of_c, _draw_matrix('A', M, K, [(r, k_indices, color) for r, color in zip(rows, colors)], size)),
        (
            left_of_c,
            title_height,
            _draw_matrix('B', K, N, [(k_indices, c, color) for c, color in zip(cols, colors)], size),
        ),
        (left_of_c, top_of_c, _draw_matrix('C', M, N, list(zip(rows, cols, colors)), size)),
    )
    parts = [f'<g transform="translate({x:.1f},{y:.1f})">{svg}</g>' for x, y, svg in matrices]
    for i, (color, text) in enumerate(_LEGEND):
        parts += [svg_rect(0, 24 + 20 * i, 12, 12, color), svg_text(18, 34 + 20 * i, text, 11, 'start')]
    return Panel(left_of_c + size * N + 2, top_of_c + size * M + 2, parts)


def draw_wavefronts(
    wavefronts,  # per wavefront {quad: lanes}: the groups of four floats that it loads, and the lanes that need them
    title,
) -> Panel:
    "Draw one row per wavefront and one column per four banks, with the lanes whose loads are served"
    labels = np.full((len(wavefronts), 8), '', dtype=object)
    for row, lanes_of_quad in enumerate(wavefronts):
        for quad, lanes in lanes_of_quad.items():
            labels[row, quad % 8] = f'{lanes[0]}-{lanes[-1]}' if len(lanes) > 1 else lanes[0]
    indices = np.arange(len(wavefronts))
    colors = np.where(labels == '', -1, indices[:, None])
    rows = [f'wavefront {i}' for i in indices]
    return cells(labels, colors, f'{title}: {len(indices)} wavefronts', rows=rows, cols=range(0, 32, 4), size=31)
