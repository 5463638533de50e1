"""Choose the order in which blocks take the tiles of attention to two arrays of keys.

In ring attention the second array of keys arrives from a neighbour while the kernel runs, and with a causal mask tiles
take different times. A simulation of an H100 predicts when the last block ends for several orders of the tiles; the
best order is chosen.
"""

import heapq

from ...utils import cdiv

# The unit of all times is one step over the keys: a block needs 1.5 microseconds for it on an H100.
_TILE_OVERHEAD = 2.5  # per tile
_FIRST_ARRIVAL_TIME = 12  # when the keys of the neighbour begin to arrive
_TRANSFER_TIME_PER_STEP = 1 / 15  # transfer time of the keys of one step
# Equal tiles take different times: the simulation varies them by up to 5%, in the quasi-random sequence of multiples of
# the golden ratio.
_JITTER, _GOLDEN_RATIO = 0.05, 0.618034
_TOLERANCE = 1.005  # orders within 0.5% of the best one count as equal


def simulate_end(
    order,  # (head, row of tiles) per tile
    own_steps,  # steps over the rank's own keys, per row of tiles
    other_steps,  # steps over the keys of the neighbour, per row of tiles
    blocks,  # number of blocks; each takes the next tile when it has finished one
    arrival_times,  # per head: the arrival time of its keys of the second array
) -> float:
    "Simulate the blocks, and return the time when the last one ends"
    free_times, quasi_random = [0] * blocks, 0  # a heap of times: when each block can take its next tile
    for head, row in order:
        quasi_random = (quasi_random + _GOLDEN_RATIO) % 1
        step_time = 1 + _JITTER * (2 * quasi_random - 1)
        end = free_times[0] + step_time * (_TILE_OVERHEAD + own_steps[row])
        if other_steps[row]:
            end = max(end, arrival_times[head]) + step_time * other_steps[row]
        heapq.heapreplace(free_times, end)
    return max(free_times)


def order_by_sections(
    heads,
    rows,  # of tiles
    section_heads,
    num_last_heads=0,  # number of heads in the last section; 0: as many as in other sections
    num_late_rows=0,  # number of rows that come last
) -> list:  # of (head, row)
    """Return an order that visits sections of `section_heads` heads, one after the other, and the last rows of a
    section first. The first `num_late_rows` rows of all heads, which are the shortest, come after all sections."""
    starts = [*range(0, heads - num_last_heads, section_heads), heads - num_last_heads, heads]
    sections = zip(starts, starts[1:])
    order = [
        (head, row)
        for start, end in sections
        for row in range(rows - 1, num_late_rows - 1, -1)
        for head in range(start, end)
    ]
    return order + [(head, row) for row in range(num_late_rows - 1, -1, -1) for head in range(heads)]


def choose_order(
    heads,  # of the whole batch
    own_steps,  # steps over the rank's own keys, per row of tiles
    other_steps,  # steps over the keys of the neighbour, per row of tiles
    blocks,  # number of blocks
    group,  # heads of q that share a head of keys
    section_heads,  # heads whose keys fit into the L2 cache together
    num_parts,  # the neighbour's keys arrive in this many groups of heads, one after the other
) -> list:  # (head, row of tiles), in the best order
    """Choose an order in which all blocks end at nearly the same time.

    Blocks visit the heads in sections. The keys of a section fit into the L2 cache, so they are read from DRAM once.
    Two changes balance the load: a larger last section, or the shortest rows of all heads at the end.
    The result is the first candidate that ends, in the simulation, within 0.5% of the earliest end."""
    kv_heads, rows, large_section = heads // group, len(own_steps), min(heads, section_heads + 2 * group)
    arrival_times = [
        _FIRST_ARRIVAL_TIME
        + _TRANSFER_TIME_PER_STEP
        * max(other_steps)
        * cdiv((head // group * num_parts // kv_heads + 1) * kv_heads, num_parts)
        for head in range(heads)
    ]
    lower_bound = heads * sum(_TILE_OVERHEAD + own + other for own, other in zip(own_steps, other_steps)) / blocks
    orders, ends = [], []
    late_row_counts = (rows * eighths // 8 for eighths in (0, 1, 2, 3, 4, 8))
    for num_late_rows, num_last_heads in [
        (num_late_rows, num_last_heads) for num_late_rows in late_row_counts for num_last_heads in (0, large_section)
    ]:
        orders.append(order_by_sections(heads, rows, section_heads, num_last_heads, num_late_rows))
        ends.append(simulate_end(orders[-1], own_steps, other_steps, blocks, arrival_times))
        if ends[-1] <= _TOLERANCE * lower_bound:  # close to the lower bound: no candidate can be much better
            break
    return next(order for order, end in zip(orders, ends) if end <= _TOLERANCE * min(ends))
