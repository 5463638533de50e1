"""Pictures of a tiled product: what its block, warps and threads touch in one phase, and how banks serve them."""

import numpy as np

from ...draw import LINE, PALETTE, Panel, cells, svg_rect, svg_text

__all__ = ['phase', 'served']

_BLOCK, _WARP, _THREAD = PALETTE[0], PALETTE[1], '#d55e00'
_LEGEND = ((_BLOCK, 'the block'), (_WARP, 'one of its warps'), (_THREAD, 'one thread of it'))


def _runs(indices):
    "(first, count) of each run of consecutive indices"
    indices = np.unique(indices)
    return [(int(o[0]), len(o)) for o in np.split(indices, np.flatnonzero(np.diff(indices) > 1) + 1)]


def _filled(rows, cols, color, size):
    "Rectangles over some rows and columns"
    return [
        svg_rect(size * c, size * r, size * w, size * h, color, f'stroke="{LINE}" stroke-width="0.5"')
        for r, h in _runs(rows)
        for c, w in _runs(cols)
    ]


def _matrix(name, rows, cols, parts, size):
    "A matrix with coloured parts, each (rows, columns, colour), and its name above"
    frame = svg_rect(0, 0, size * cols, size * rows, 'none', f'stroke="{LINE}" stroke-width="1.5"')
    body = [svg_rect(0, 0, size * cols, size * rows, '#ffffff')]
    for r, c, color in parts:
        body += _filled(r, c, color, size)
    title = svg_text(size * cols / 2, -6, name, 12, extra='font-weight="bold"')
    return f'{"".join(body)}{frame}{title}'


def phase(
    who,  # BM x BN: the number of the thread that makes each result of a tile
    h,
    w,
    k,  # of h x k @ k x w
    idx,  # where along k the phase begins
    bk,  # and how far it goes
    block=(0, 0),  # row and column of the block's tile
    warp=0,  # of the block, which is coloured
    lane=0,  # of the warp
    size=7,  # pixels of a number
) -> Panel:
    "`m` at the left of `out`, `n` above it: what one phase takes from them, and for which results"
    bm, bn = who.shape
    top, left = block[0] * bm, block[1] * bn
    steps = np.arange(idx, min(idx + bk, k))
    sets = [np.nonzero(o) for o in (who >= 0, who // 32 == warp, who == 32 * warp + lane)]
    rows, cols = ([top + r for r, _ in sets], [left + c for _, c in sets])
    colors = [_BLOCK, _WARP, _THREAD]
    gap, label = 16, 20
    x, y = size * k + gap, label + size * k + gap + label
    panels = (
        (0, y, _matrix('m', h, k, [(r, steps, c) for r, c in zip(rows, colors)], size)),
        (x, label, _matrix('n', k, w, [(steps, o, c) for o, c in zip(cols, colors)], size)),
        (x, y, _matrix('out', h, w, list(zip(rows, cols, colors)), size)),
    )
    parts = [f'<g transform="translate({a:.1f},{b:.1f})">{svg}</g>' for a, b, svg in panels]
    for i, (color, words) in enumerate(_LEGEND):
        parts += [svg_rect(0, 24 + 20 * i, 12, 12, color), svg_text(18, 34 + 20 * i, words, 11, 'start')]
    return Panel(x + size * w + 2, y + size * h + 2, parts)


def served(
    wavefronts,  # per wavefront {quad: lanes}: which four floats of shared memory it serves, and to which lanes
    title,
) -> Panel:
    "One row per wavefront, one column per four banks, with the lanes that are served"
    labels = np.full((len(wavefronts), 8), '', dtype=object)
    for r, one in enumerate(wavefronts):
        for q, lanes in one.items():
            labels[r, q % 8] = f'{lanes[0]}-{lanes[-1]}' if len(lanes) > 1 else lanes[0]
    wavefront = np.arange(len(wavefronts))
    colors = np.where(labels == '', -1, wavefront[:, None])
    rows = [f'wavefront {i}' for i in wavefront]
    return cells(labels, colors, f'{title}: {len(wavefront)} wavefronts', rows=rows, cols=range(0, 32, 4), size=31)
