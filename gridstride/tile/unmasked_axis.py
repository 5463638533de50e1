"""Detects a missing mask from the addresses of a block: lanes past the end of a row access the elements after it.

A block of `rows[:, None]*10 + tl.arange(0, 16)[None, :]` in an array of shape (4, 10) moves along axis 1 of the array
with its own axis 1. Its lanes from 10 on have the addresses of elements of the next row, which another lane or
program accesses, too: racecheck reports that pair, and the remedy is a mask.
"""

from typing import NamedTuple

import numpy as np

__all__ = ['BlockAccess', 'missing_mask_advice', 'earlier_missing_mask_advice', 'overlap_advice']


class BlockAccess(NamedTuple):
    "The addresses of an access: the offset of each lane in its array, and the mask, None if all lanes are active"

    offsets: np.ndarray
    mask: np.ndarray | None


def missing_mask_advice(region, offsets, lane, line):
    "Return the advice for a lane past the end of a row: (name of a row of `HINTS`, its fields), or None"
    return _missing_mask_advice(region, offsets, int(offsets.flat[0]), lane, line) if _is_block(offsets) else None


def earlier_missing_mask_advice(
    region,
    block,  # of the running program; the earlier access has such a block, too, but at other elements
    offset,  # of the element that both access
    first,  # the offset of the first lane of the earlier access
    line,  # of the earlier access
):
    "Return the advice for the earlier access of a race: `missing_mask_advice` of its lane that accesses the element"
    if not _is_block(block.offsets):
        return None
    is_lane = block.offsets - block.offsets.flat[0] + first == offset
    if block.mask is not None and (is_lane & block.mask).any():
        is_lane &= block.mask
    advice = [_missing_mask_advice(region, block.offsets, first, lane, line) for lane in np.argwhere(is_lane)]
    return advice[0] if advice and all(advice) else None


def overlap_advice(offsets, first, line):
    "Return the advice if the blocks that two programs access on one line begin less than a block apart"
    if not _is_block(offsets) or offsets.ndim > 1 or _steps(offsets) != [1]:
        return None
    distance = abs(int(offsets[0]) - first)
    if not 0 < distance < offsets.size:
        return None
    return 'blocks_overlap', dict(distance=distance, extent=offsets.size, masked=line)


def _is_block(offsets):
    return offsets.ndim > 0 and offsets.size > 1


def _steps(offsets):
    "Return the distance between neighbouring lanes per axis of a block; None if it is not the same everywhere"
    steps = []
    for axis, num_lanes in enumerate(offsets.shape):
        differences = np.diff(offsets, axis=axis)
        if num_lanes > 1 and (differences != differences.flat[0]).any():
            return None
        steps.append(int(differences.flat[0]) if num_lanes > 1 else 0)
    return steps


def _missing_mask_advice(region, offsets, first, lane, line):
    "Return the advice for a lane of a block whose first lane has the offset `first`"
    first_index = region.index_of(first)
    for axis, (step, num_lanes) in enumerate(zip(_steps(offsets) or (), offsets.shape)):
        array_axis = _array_axis(region, step)
        if array_axis is None:
            continue
        size, stride = region.shape[array_axis], region.strides[array_axis]
        start = first_index[array_axis]
        is_tile = start < size and start * stride % (num_lanes * step) == 0  # one of the tiles that cover this axis
        if is_tile and start + int(lane[axis]) * step // stride >= size:
            comparison = f'{_name_of_axis(axis, offsets.ndim)} < {size}'
            fields = dict(axis=axis, array_axis=array_axis, size=size, comparison=comparison, masked=line)
            return 'unmasked_axis', fields
    return None


def _array_axis(region, step):
    "Return the axis of the array along which a positive step moves; None for its outermost axis, which ends the array"
    strides = [stride if n > 1 else 0 for stride, n in zip(region.strides, region.shape)]
    axes = [axis for axis, stride in enumerate(strides) if stride > 0 and step > 0 and step % stride == 0]
    axis = max(axes, key=strides.__getitem__, default=None)
    return axis if axis is not None and strides[axis] < max(strides) else None


def _name_of_axis(axis, num_axes):
    "Return the expression that a hint uses for the indices along an axis of a block"
    if num_axes == 2:
        return ('rows[:, None]', 'columns[None, :]')[axis]
    return 'columns' if num_axes == 1 else 'indices'
