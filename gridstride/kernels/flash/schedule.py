"""In which order blocks take the tiles of attention of two arrays of keys: the best of some, by a model of an H100."""

import heapq
from typing import NamedTuple

from ...utils import cdiv

# In steps of keys, of which one takes a block 1.6 microseconds: what a tile takes beside its keys; when a neighbour's
# keys begin to come; what those of a step of a head take to come.
_TILE, _LATE, _COMES = 2.5, 12, 1 / 15
_HEADS = 4  # of keys, that are in work at once: what is read of them again and again stays in the L2 cache
_NEARLY = 1.005


class Tile(NamedTuple):
    "Rows of a head, and how many steps of keys they look at"

    head: int
    row: int  # of tiles, from 0 on
    own: int
    other: int  # a neighbour's


def model_end(
    order,  # of `Tile`s
    blocks,  # that take the next one each, when they are through with one
    there,  # for each head, when its other keys have come
) -> float:
    "When all is done, in steps of keys"
    free = [0] * blocks
    for t in order:
        at = free[0] + _TILE + t.own
        heapq.heapreplace(free, max(at, there[t.head]) + t.other if t.other else at)
    return max(free)


def by_sections(
    tiles,  # `Tile`s
    section,  # heads
    late,  # rows of tiles
) -> list:
    "Some heads after the others, of each the last rows first; but the first `late` rows of all heads in the end"
    return sorted(tiles, key=lambda t: (t.row < late, t.row >= late and t.head // section, -t.row, t.head))


def order_of(
    heads,  # of all of the batch
    own,  # steps of the rank's own keys, for each tile of a head's rows
    other,  # and of a neighbour's
    blocks,
    group,  # heads that share one of keys
    parts,  # of the heads of keys, one after the other, in which a neighbour's keys come
) -> list:  # (head, row of tiles), in the order in which they should be taken
    """A few heads after the others, so that their keys stay in the L2 cache, and so many rows of all heads in the end,
    the shortest ones, that all blocks end together, by the model: as few as make nearly no difference"""
    tiles = [Tile(h, r, *of) for h in range(heads) for r, of in enumerate(zip(own, other))]
    kept = heads // group
    there = [_LATE + _COMES * max(other) * cdiv((h // group * parts // kept + 1) * kept, parts) for h in range(heads)]
    orders = [by_sections(tiles, _HEADS * group, len(own) * eighths // 8) for eighths in (0, 1, 2, 3, 4, 8)]
    ends = [model_end(o, blocks, there) for o in orders]
    best = next(o for o, end in zip(orders, ends) if end <= _NEARLY * min(ends))
    return [(t.head, t.row) for t in best]
