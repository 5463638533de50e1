"""Choose the order in which blocks take the tiles of attention to two arrays of keys, by simulating an H100."""

import heapq

from ...utils import cdiv

# All times are in units of a step over keys, which takes a block 1.5 microseconds on an H100: the overhead of a tile,
# the time at which a neighbour's keys begin to arrive, and the time until the keys of another step have arrived.
_TILE_OVERHEAD, _FIRST_ARRIVAL, _ARRIVAL_PER_STEP = 2.5, 12, 1 / 15
_JITTER, _GOLDEN = 0.05, 0.618034  # equal tiles take different times: up to 5% more or less, in a quasi-random sequence
_TOLERANCE = 1.005


def simulate_end(
    order,  # (head, row of tiles)
    own_steps,  # steps of the rank's own keys, per row of tiles
    other_steps,  # likewise for the keys of a neighbour
    blocks,  # each takes the next tile when it has finished one
    arrival_times,  # per head: when its keys of the second array have arrived
) -> float:
    "Simulate the blocks, and return the time at which the last one ends, in steps of keys"
    free_at, random = [0] * blocks, 0
    for head, row in order:
        random = (random + _GOLDEN) % 1
        duration = 1 + _JITTER * (2 * random - 1)
        at = free_at[0] + duration * (_TILE_OVERHEAD + own_steps[row])
        if other_steps[row]:
            at = max(at, arrival_times[head]) + duration * other_steps[row]
        heapq.heapreplace(free_at, at)
    return max(free_at)


def order_by_sections(
    heads,
    rows,  # of tiles
    section,  # heads
    last=0,  # heads
    late=0,  # rows
) -> list:  # (head, row)
    """Return an order that visits `section` heads at a time, the last rows of these heads first. The last `last` heads
    form a section of their own, and the first `late` rows of all heads come at the end."""
    starts = [*range(0, heads - last, section), heads - last, heads]
    res = [(h, r) for a, b in zip(starts, starts[1:]) for r in range(rows - 1, late - 1, -1) for h in range(a, b)]
    return res + [(h, r) for r in range(late - 1, -1, -1) for h in range(heads)]


def choose_order(
    heads,  # of the whole batch
    own_steps,  # steps of the rank's own keys, per row of tiles
    other_steps,  # likewise for the keys of a neighbour
    blocks,
    group,  # heads of q that share a head of keys
    section,  # heads whose keys fit into the L2 cache together
    parts,  # groups of heads in which a neighbour's keys arrive, one after the other
) -> list:  # (head, row of tiles), in the order in which they should be taken
    """Choose an order in which all blocks end at nearly the same time, by simulation.

    Blocks visit only as many heads at a time as have keys in the L2 cache: blocks at different heads would read keys
    from DRAM again and again. To balance the load, the last section may be larger, or the shortest rows of all heads
    may come last. The first candidate that is within 0.5% of the best one wins."""
    kv_heads, rows, tail_heads = heads // group, len(own_steps), min(heads, section + 2 * group)
    arrival_times = [
        _FIRST_ARRIVAL
        + _ARRIVAL_PER_STEP * max(other_steps) * cdiv((h // group * parts // kv_heads + 1) * kv_heads, parts)
        for h in range(heads)
    ]
    lower_bound = heads * sum(_TILE_OVERHEAD + a + b for a, b in zip(own_steps, other_steps)) / blocks
    orders, ends = [], []
    for late, last in [(rows * eighths // 8, last) for eighths in (0, 1, 2, 3, 4, 8) for last in (0, tail_heads)]:
        orders.append(order_by_sections(heads, rows, section, last, late))
        ends.append(simulate_end(orders[-1], own_steps, other_steps, blocks, arrival_times))
        if ends[-1] <= _TOLERANCE * lower_bound:  # close to the lower bound: no candidate can be much better
            break
    return next(o for o, end in zip(orders, ends) if end <= _TOLERANCE * min(ends))
