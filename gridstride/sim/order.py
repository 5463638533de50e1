"""What orders the accesses of two threads: barriers, and flags between fences.

A flag is an element that is used atomically. Who writes it publishes what is ordered before its own last fence;
who reads it knows of that behind its next fence, or behind a barrier of its block. `threadfence_block` does so
within a block only. As in the emulator of CUDA C, whose README says what is generous. More is here: of an
element's readers the first and the last thread are remembered; groups of blocks that run one after the other are
in order as long as nobody has called a fence or tried a lock.
"""

from dataclasses import dataclass, field

import numpy as np

__all__ = ['Order']


# What a thread knows of others is a vector clock: up to which time each one's accesses are in order. A thread's
# key is `block << 10 | thread`, and the clock is a tree over the keys, 32 below each node: lanes, warps, blocks. A
# warp of 64 lanes has two nodes.
# Nodes never change, so that who knows the same shares them.
class Node:
    "A part of a clock: `floor` holds for all below it, `most` is the latest time in here"

    __slots__ = 'floor', 'most', 'below'

    def __init__(self, floor, below):  # below: place -> Node, or a lane's time
        self.floor, self.below = floor, below
        self.most = max((n if isinstance(n, int) else n.most for n in below.values()), default=0)
        self.most = max(self.most, floor)


def covers(n, level, key, time):
    "Does the clock `n`, of so many levels, have what the thread did at that time?"
    while n is not None and time <= n.most:
        if time <= n.floor:
            return True
        n, level = n.below.get(key >> 5 * level & 31), level - 1
        if level < 0:
            return n is not None and time <= n
    return False


def joined(a, b):
    "What is in one of two clocks or in the other; one of the two, if it has all of the other's"
    if b is None or a is b or a is not None and b.most <= a.floor:
        return a
    if a is None or a.most <= b.floor:
        return b
    below = dict(a.below)
    for i, n in b.below.items():
        old = below.get(i)
        below[i] = max(old or 0, n) if isinstance(n, int) else joined(old, n)
    for o in (a, b):
        same = len(o.below) == len(below) and all(below[i] is n or below[i] == n for i, n in o.below.items())
        if o.floor == max(a.floor, b.floor) and same:
            return o
    return Node(max(a.floor, b.floor), below)


def clock(level, block, floor, warps, lanes):
    "The clock of one block, with a time for all, for each 32 threads that are given, and for the threads that are"
    below = {w: {} for w in warps}
    for t, time in lanes.items():
        below.setdefault(t // 32, {})[t % 32] = time
    n = Node(floor, {w: Node(warps.get(w, 0), o) for w, o in below.items()})
    for i in range(2, level + 1):
        n = Node(0, {block >> 5 * (i - 2) & 31: n})
    return n


@dataclass(slots=True)
class Flag:
    "What the writers of an element have published: to all, within some block, within each; and when the last did"

    wide: Node = None
    any: Node = None
    near: dict = field(default_factory=dict)  # block -> clock
    time: int = 0


# Of its fences a thread has the time, and what its block's and its warp's barriers had put in order by then, in
# arrays: one of them for fences of all scopes, one for those that reach other blocks. `handed` is what a barrier
# of the block has made common property.
class _Fences:
    def __init__(self, g):
        self.time, self.block, self.warp, self.handed = (np.zeros(g.size, np.int64) for _ in range(4))
        self.floor = np.zeros(g.count, np.int64)  # what is handed on for whole blocks
        self.known, self.known_block = {}, {}  # by lane, by block: what a fence has behind it of other blocks


class Order:
    "Which accesses are ordered: by barriers of a warp, a block or the grid, or by flags"

    def __init__(self, blocks, now):  # blocks: of the grid
        self.start = now  # all before is in order
        self.level = max(2, -(-(10 + int(blocks).bit_length()) // 5) - 1)
        self.flags, self.fenced = {}, False  # flags: memory -> element -> Flag

    def begin(self, g, now, alone):
        """The group `g` begins. `alone`: its blocks and those before cannot have flags in common

        Then all before is in order; that is generous, and quick. So it is before the first fence."""
        if alone and not self.fenced:
            self.start = now
        self.began = now
        self.synced, self.met = np.full(g.count, now, np.int64), now  # met: the earliest of them
        self.warp_synced = np.full(g.count * g.warps, now, np.int64)
        self.fences = None
        # clocks by lane, by block; what flags that a lane has read publish, within the block and to all; by block,
        # within any
        self.known, self.known_block, self.seen, self.narrow = {}, {}, ({}, {}), {}

    _OF_GROUP = 'began', 'synced', 'met', 'warp_synced', 'fences', 'known', 'known_block', 'seen', 'narrow'

    def leave(self):
        "What is known of the group at work: another one begins or goes on"
        return {k: getattr(self, k) for k in self._OF_GROUP}

    def enter(self, left):
        "The group that has `left` goes on"
        vars(self).update(left)

    # Barriers

    def meet(self, g, blocks, now):
        "A barrier of the `blocks` of the group; behind it, what their threads knew is known to all of them"
        if self.fences is not None:
            lanes = np.isin(g.local, blocks)
            for f in self.fences:
                f.handed[lanes] = np.maximum(f.handed[lanes], f.time[lanes])
                np.maximum.at(f.floor, g.local[lanes], f.block[lanes])
                self.share(g, blocks, f.known, f.known_block)
        for clocks in (self.known, *self.seen):
            if clocks:
                self.share(g, blocks, clocks, self.known_block)
        self.synced[blocks] = now
        self.met = int(self.synced.min())

    def share(self, g, blocks, clocks, of_block):
        "What lanes of the `blocks` have in `clocks` becomes the block's"
        for lane in [l for l in clocks if g.local[l] in blocks]:
            b = int(g.local[lane])
            of_block[b] = joined(of_block.get(b), clocks.pop(lane))

    def meet_lanes(self, g, lanes, now):
        "A barrier of `lanes`, each with those of its warp"
        warps = np.unique(g.warp[lanes])
        for clocks in (self.known, *(f.known for f in self.fences or ())):
            for w in warps if clocks else ():
                mates = lanes[g.warp[lanes] == w]
                whole = None
                for lane in mates:
                    whole = joined(whole, clocks.get(int(lane)))
                if whole is not None:
                    clocks.update((int(lane), whole) for lane in mates)
        self.warp_synced[warps] = now

    # Fences and flags

    def fence(self, g, lanes, now, wide):
        "A fence of `lanes`; `wide`: it reaches other blocks"
        if self.fences is None:
            self.fences, self.fenced = (_Fences(g), _Fences(g)), True
        for seen in self.seen[: 1 + wide]:
            for lane in [int(l) for l in lanes if l in seen] if seen else ():
                self.known[lane] = joined(self.known.get(lane), seen.pop(lane))
        for f in self.fences[: 1 + wide]:
            f.time[lanes], f.block[lanes] = now, self.synced[g.local[lanes]]
            f.warp[lanes] = self.warp_synced[g.warp[lanes]]
            for lane in map(int, lanes) if self.known or self.known_block else ():
                n = joined(self.known.get(lane), self.known_block.get(int(g.local[lane])))
                if n is not None:
                    f.known[lane] = n

    def published(self, g, lane, f):
        "The clock of what is ordered before the fences `f` that `lane` has behind it; None without any"
        b, w = int(g.local[lane]), int(g.warp[lane])
        mates = slice(b * g.threads, (b + 1) * g.threads)
        mine = np.where((g.warp[mates] == w) & (f.time[mates] <= self.warp_synced[w]), f.time[mates], 0)
        mine = np.maximum(mine, f.handed[mates])
        mine[lane - mates.start] = max(mine[lane - mates.start], f.time[lane])
        if not mine.any():
            return None
        floor = int(max(f.floor[b], f.block[lane]))
        lanes = {int(t): int(mine[t]) for t in np.flatnonzero(mine > floor)}
        halves = range(w % g.warps * g.width // 32, (w % g.warps + 1) * g.width // 32)
        n = clock(self.level, g.first + b, floor, dict.fromkeys(halves, int(f.warp[lane])), lanes)
        return joined(joined(n, f.known.get(lane)), f.known_block.get(b))

    def hand_over(self, g, lanes, mem, off, now, wrote):
        "Atomic operations of `lanes` on the elements at `off`; `wrote`: which of them have changed it"
        if not self.fenced:
            return
        for lane, o, w in zip(map(int, lanes), map(int, off), wrote):
            flag = self.flags.get(id(mem), {}).get(o)
            if flag is not None and flag.time <= self.began and mem.space != 'global':
                flag = None
            if flag is not None:
                self.look(g, lane, flag)
            if w and self.fences is not None:
                self.publish(g, lane, mem, o, flag, now)

    def look(self, g, lane, flag):
        "A lane reads a flag"
        block = int(g.b[lane])
        for seen, n in zip(self.seen, (flag.near.get(block), flag.wide)):
            if n is not None:
                seen[lane] = joined(seen.get(lane), n)
        b = int(g.local[lane])
        self.narrow[b] = joined(self.narrow.get(b), flag.any)

    def publish(self, g, lane, mem, off, flag, now):
        "A lane changes a flag"
        near, wide = (self.published(g, lane, f) for f in self.fences)
        if near is None:
            return
        if flag is None:
            flag = self.flags.setdefault(id(mem), {})[off] = Flag()
        block = int(g.b[lane])
        flag.near[block] = joined(flag.near.get(block), near)
        flag.wide, flag.any, flag.time = joined(flag.wide, wide), joined(flag.any, near), now

    def forget(self, mem, off):
        "The elements at `off` are written plainly: they are flags no more"
        if flags := self.flags.get(id(mem)):
            for o in map(int, off):
                flags.pop(o, None)

    # What is in order

    def ordered(self, g, lanes, time, thread):
        "Is the access by `thread` at `time` ordered before one by `lanes` now? One answer for each lane"
        synced = g.in_block(lanes, thread) & (time <= self.synced[g.local[lanes]])
        res = (time <= self.start) | (thread == g.id[lanes]) | synced
        if res.all():
            return res
        res |= g.in_warp(lanes, thread) & (time <= self.warp_synced[g.warp[lanes]])
        if self.known or self.known_block:
            for i in np.flatnonzero(~res):
                clocks = self.known.get(int(lanes[i])), self.known_block.get(int(g.local[lanes[i]]))
                res[i] = any(self.covers(g, n, thread[i], time[i]) for n in clocks)
        return res

    def covers(self, g, n, thread, time):
        "Does the clock `n` have what `thread` did at `time`?"
        block, t = divmod(int(thread), g.threads)
        return n is not None and covers(n, self.level, block << 10 | t, int(time))

    def lacks(self, g, lane, time, thread):
        "What is missing between an access by `thread` at `time` and one by `lane`: the code of a finding"
        lane, block = int(lane), thread // g.threads
        if any(self.covers(g, seen.get(lane), thread, time) for seen in self.seen):
            return 'flag_not_acquired'
        if self.covers(g, self.narrow.get(int(g.local[lane])), thread, time):
            return 'fence_of_block'
        return 'race' if block == g.b[lane] else 'race_of_blocks'

    def forgotten(self, g, lanes, lo, hi, time):
        "Need the readers `lo` to `hi`, who read at `time`, be remembered no more when `lanes` read?"
        synced = g.in_block(lanes, lo) & g.in_block(lanes, hi) & (time <= self.synced[g.local[lanes]])
        old = (time <= self.start) | synced
        if old.all():
            return old
        old |= g.in_warp(lanes, lo) & g.in_warp(lanes, hi) & (time <= self.warp_synced[g.warp[lanes]])
        if (self.known or self.known_block) and not old.all():
            old |= self.ordered(g, lanes, time, lo) & self.ordered(g, lanes, time, hi)
        return old
