"""In which order blocks take the tiles of attention of two arrays of keys: the best of some, by a model of an H100."""

import heapq

from ...utils import cdiv

# In steps of keys, each of which takes a block 1.5 microseconds: the overhead of a tile; when a neighbour's keys begin
# to arrive; the time in which those of one step of a head arrive.
_TILE, _LATE, _COMES = 2.5, 12, 1 / 15
_UNEVEN, _GOLDEN = 0.05, 0.618034  # no two tiles take as long, however alike: up to so much more or less, as if by lot
_NEARLY = 1.005


def model_end(
    order,  # (head, row of tiles)
    own,  # steps of the rank's own keys, per row of tiles
    other,  # and of a neighbour's
    blocks,  # that take the next tile each, when they are through with one
    there,  # per head: when its other keys have arrived
) -> float:
    "When all is done, in steps of keys"
    free, lot = [0] * blocks, 0
    for head, row in order:
        lot = (lot + _GOLDEN) % 1
        each = 1 + _UNEVEN * (2 * lot - 1)
        at = free[0] + each * (_TILE + own[row])
        if other[row]:
            at = max(at, there[head]) + each * other[row]
        heapq.heapreplace(free, at)
    return max(free)


def by_sections(
    heads,
    rows,  # of tiles
    section,  # heads
    last=0,  # heads
    late=0,  # rows
) -> list:  # (head, row)
    """Some heads after the others, of each the last rows first; but the `last` heads together, which may be more, and
    the first `late` rows of all heads in the end"""
    starts = [*range(0, heads - last, section), heads - last, heads]
    res = [(h, r) for a, b in zip(starts, starts[1:]) for r in range(rows - 1, late - 1, -1) for h in range(a, b)]
    return res + [(h, r) for r in range(late - 1, -1, -1) for h in range(heads)]


def order_of(
    heads,  # of all of the batch
    own,  # steps of the rank's own keys, per tile of a head's rows
    other,  # and of a neighbour's
    blocks,
    group,  # heads that share one of keys
    section,  # heads whose keys the L2 cache holds
    parts,  # of the heads of keys, one after the other, in which a neighbour's keys come
) -> list:  # (head, row of tiles), in the order in which they should be taken
    """As few heads at a time as the L2 cache holds the keys of; in the end two more, or so many rows of all heads, the
    shortest ones, that all blocks end together, by the model: as little of that as makes nearly no difference, since
    blocks that are not at the same heads read keys from memory again and again"""
    kept, rows, more = heads // group, len(own), min(heads, section + 2 * group)
    there = [_LATE + _COMES * max(other) * cdiv((h // group * parts // kept + 1) * kept, parts) for h in range(heads)]
    least = heads * sum(_TILE + a + b for a, b in zip(own, other)) / blocks
    orders, ends = [], []
    for late, last in [(rows * eighths // 8, last) for eighths in (0, 1, 2, 3, 4, 8) for last in (0, more)]:
        orders.append(by_sections(heads, rows, section, last, late))
        ends.append(model_end(orders[-1], own, other, blocks, there))
        if ends[-1] <= _NEARLY * least:  # hardly any other could end before
            break
    return next(o for o, end in zip(orders, ends) if end <= _NEARLY * min(ends))
