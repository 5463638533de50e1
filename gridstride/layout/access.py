"""The cost of a warp's access to a tile with a given layout, and pictures of tiles."""

from typing import NamedTuple

import numpy as np

from .. import draw
from ..support import memory_transactions

__all__ = ['Cost', 'cost', 'walk', 'picture']


class Cost(NamedTuple):
    "The cost of a warp's requests"

    requests: int  # instructions of a warp
    wavefronts: int  # of these requests in shared memory
    ideal: int  # wavefronts without bank conflicts
    sectors: int  # 32-byte sectors that the requests access, in global memory

    @property
    def conflicts(self) -> int:
        "The number of wavefronts beyond the ideal"
        return self.wavefronts - self.ideal


def _offset(layout, coordinate):
    "Return the offset of a coordinate as an array; a `Linear` layout returns a dict with one value"
    offset = layout(*coordinate)
    return np.asarray(next(iter(offset.values())) if isinstance(offset, dict) else offset)


def cost(
    layout,  # a `Layout`, a `Swizzled`, or a function of coordinates that returns an offset in elements
    *coordinate,  # per mode, an array of shape (..., lanes); other axes are requests
    size=4,  # bytes of an element
    vector=1,  # elements that a lane reads with one instruction, starting at the offset
) -> Cost:
    """Compute the cost of a request in which each lane reads the element at its coordinate.

    >>> from gridstride.layout import Layout
    >>> cost(Layout.row_major(32, 32), range(32), [0] * 32).conflicts
    31"""
    if size * vector not in (1, 2, 4, 8, 16):
        raise ValueError(f'a lane must read 1, 2, 4, 8 or 16 bytes at once; got {vector} x {size} bytes')
    addresses = _offset(layout, np.broadcast_arrays(*map(np.asarray, coordinate))) * size
    if addresses.ndim < 1 or addresses.shape[-1] > 32:
        raise ValueError(
            f'the last axis of the coordinates must have one entry per lane, 32; their shape is {addresses.shape}'
        )
    if (addresses % (size * vector)).any():
        raise ValueError(
            f'a read of {size * vector} bytes must begin at a multiple of {size * vector}; here one begins at byte '
            f'{addresses[addresses % (size * vector) != 0].flat[0]}'
        )
    addresses = addresses.reshape(-1, addresses.shape[-1])
    warp, lane = (index.ravel() for index in np.indices(addresses.shape))
    requests, wavefronts, conflicts = memory_transactions.wavefronts(warp, lane, addresses.ravel(), size * vector)
    _, sectors, _ = memory_transactions.sectors(warp, addresses.ravel(), size * vector)
    return Cost(requests, wavefronts, wavefronts - conflicts, sectors)


def walk(
    layout,  # two modes: rows and columns
    direction,  # 'row': consecutive lanes read consecutive elements of a row; 'column': of a column
    size=4,  # bytes of an element
    vector=1,  # elements that a lane reads with one instruction
) -> Cost:
    """Compute the cost of reading a tile row by row or column by column, 32 lanes at a time.

    >>> from gridstride.layout import Layout
    >>> walk(Layout.row_major(32, 32), 'column').conflicts
    992"""
    if direction not in ('row', 'column'):
        raise ValueError(f"direction must be 'row' or 'column'; got {direction!r}")
    shape = np.shape(layout.offsets())
    if len(shape) != 2:
        raise ValueError(f'a tile must have 2 modes, rows and columns, but {layout} has {len(shape)}')
    height, width = shape
    rows, columns = np.indices(shape)
    if direction == 'column':
        rows, columns = rows.T, columns.T
    lanes = [index[:, ::vector].reshape(-1) for index in (rows, columns)]  # each reads `vector` elements
    if len(lanes[0]) % 32:
        raise ValueError(
            f'a tile of {height} x {width}, {vector} elements per lane, does not fill whole warps of 32 lanes'
        )
    return cost(layout, *(index.reshape(-1, 32) for index in lanes), size=size, vector=vector)


def picture(
    layout,  # two modes: rows and columns
    size=4,  # bytes of an element
    show='bank',  # the number in a cell: 'bank' or 'offset'; each colour represents four banks
    mark=None,  # (rows, columns) of a request, whose elements get a red frame
    title=None,
    cell=26,  # pixels
) -> draw.Panel:
    "Draw a tile in shared memory, with the bank of each element"
    if show not in ('bank', 'offset'):
        raise ValueError(f"show must be 'bank' or 'offset'; got {show!r}")
    offsets = layout.offsets()
    banks = offsets * size // 4 % 32
    is_marked = None
    if mark is not None:
        is_marked = np.zeros(offsets.shape, bool)
        is_marked[mark] = True
    height, width = offsets.shape
    return draw.cells(
        banks if show == 'bank' else offsets,
        banks // 4,
        str(layout) if title is None else title,
        is_marked,
        cell,
        rows=range(height),
        cols=range(width),
    )
