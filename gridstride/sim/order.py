"""The memory model: which access happens before which, by barriers, and by flags between fences.

A flag is an element that atomics use. A store to it releases what happens before the writer's last fence; a load
acquires that at the reader's next fence, or at the next barrier of its block. `threadfence_block` does this within a
block only. The emulator of CUDA C has the same model, `cpp/runtime/order.cpp`, with the same names, and its README
says where it accepts too much; the model of `tile` is in `tile/run.py`. This one accepts more: of an element's readers
only the first and the last thread are remembered; groups of blocks that run one after the other count as ordered until
a thread has executed a fence or tried a lock.
"""

from dataclasses import dataclass, field

import numpy as np

__all__ = ['Order']


# A vector clock maps each thread to a time: its accesses up to that time happen before the event that has the clock.
# Two accesses that no clock orders, one of them a write, are a data race. A thread's key is `block << 10 | thread`, and
# the clock is a tree over the keys with 32 children per node: lanes, warps, blocks. A warp of 64 lanes has two nodes. A
# node with the `floor` f stands for a tree in which every thread has at least the time f, so that a barrier of a block
# needs one node and not one entry per thread. Nodes are immutable, and equal clocks share them. The same tree in C++:
# `cpp/runtime/vector_clock.h`.
class VectorClock:
    "A vector clock, or a node of one: `floor` holds for all threads below it, `latest` is the latest time in it"

    __slots__ = 'floor', 'latest', 'below'

    def __init__(self, floor, below):  # below: index -> VectorClock, or a lane's time
        self.floor, self.below = floor, below
        self.latest = max((n if isinstance(n, int) else n.latest for n in below.values()), default=0)
        self.latest = max(self.latest, floor)


def includes(n, level, key, time):
    """Return whether the access of thread `key` at `time` happens before an event with the clock `n`.

    >>> n = clock(2, block=0, floor=5, warps={0: 7}, lanes={3: 9})
    >>> includes(n, 2, 3, 9), includes(n, 2, 4, 9), includes(n, 2, 40, 5)
    (True, False, True)"""
    while n is not None and time <= n.latest:
        if time <= n.floor:
            return True
        n = n.below.get(key >> 5 * level & 31)
        level = level - 1
        if level < 0:
            return n is not None and time <= n
    return False


def join(a, b):
    "Return the pointwise maximum of two clocks; one of the two, if it includes the other"
    if b is None or a is b or a is not None and b.latest <= a.floor:
        return a
    if a is None or a.latest <= b.floor:
        return b
    below = dict(a.below)
    for i, n in b.below.items():
        old = below.get(i)
        below[i] = max(old or 0, n) if isinstance(n, int) else join(old, n)
    for joined in (a, b):
        same = len(joined.below) == len(below) and all(below[i] is n or below[i] == n for i, n in joined.below.items())
        if joined.floor == max(a.floor, b.floor) and same:
            return joined
    return VectorClock(max(a.floor, b.floor), below)


def clock(level, block, floor, warps, lanes):
    "Make the clock of one block: a time for all, one per 32 threads in `warps`, and one per thread in `lanes`"
    below = {w: {} for w in warps}
    for t, time in lanes.items():
        below.setdefault(t // 32, {})[t % 32] = time
    n = VectorClock(floor, {w: VectorClock(warps.get(w, 0), clock) for w, clock in below.items()})
    for i in range(2, level + 1):
        n = VectorClock(0, {block >> 5 * (i - 2) & 31: n})
    return n


@dataclass(slots=True)
class Flag:
    "The clocks that the writers of an element have released: to the device, within any block, within each block"

    device: VectorClock = None
    any_block: VectorClock = None
    by_block: dict = field(default_factory=dict)  # block -> clock
    time: int = 0


# The last fence of each thread: its time, and the times of the last barriers of its block and its warp before it, as
# arrays: one set for fences of all scopes, one for those of device scope. `shared` is the latest fence of any thread
# that a barrier of the block has ordered before the thread.
class _Fences:
    def __init__(self, g):
        self.time, self.block, self.warp, self.shared = (np.zeros(g.size, np.int64) for _ in range(4))
        self.floor = np.zeros(g.count, np.int64)  # what holds for whole blocks
        self.acquired, self.acquired_block = {}, {}  # by lane, by block: what was acquired before the fence


class Order:
    "The happens-before relation: by barriers of a warp, a block or the grid, or by flags"

    def __init__(self, blocks, now):  # blocks: of the grid
        self.start = now  # every access up to this time is ordered
        self.level = max(2, -(-(10 + int(blocks).bit_length()) // 5) - 1)
        self.flags = {}  # memory -> element -> Flag
        self.fenced = False

    def begin(self, g, now, alone):
        """Begin the group `g`. `alone`: its blocks and those before cannot share flags.

        Then all earlier accesses count as ordered, which is generous and fast; so it is before the first fence."""
        if alone and not self.fenced:
            self.start = now
        self.began = now
        self.synced = np.full(g.count, now, np.int64)
        self.met = now  # the earliest of `synced`
        self.warp_synced = np.full(g.count * g.warps, now, np.int64)
        self.fences = None
        # acquired: the clocks by lane, and by block; loaded: what the flags that a lane has loaded release, within the
        # block and to the device, which its next fence acquires; any_block: by block, what flags release in any block
        self.acquired, self.acquired_block, self.loaded, self.any_block = {}, {}, ({}, {}), {}

    _OF_GROUP = 'began', 'synced', 'met', 'warp_synced', 'fences', 'acquired', 'acquired_block', 'loaded', 'any_block'

    def leave(self):
        "Return the clocks of the current group, because another one begins or continues"
        return {k: getattr(self, k) for k in self._OF_GROUP}

    def enter(self, left):
        "Continue the group whose clocks `leave` returned"
        vars(self).update(left)

    # Barriers

    def meet(self, g, blocks, now):
        "Execute a barrier of the `blocks` of the group; after it all threads have what one of them has acquired"
        if self.fences is not None:
            lanes = np.isin(g.local, blocks)
            for f in self.fences:
                f.shared[lanes] = np.maximum(f.shared[lanes], f.time[lanes])
                np.maximum.at(f.floor, g.local[lanes], f.block[lanes])
                self.share(g, blocks, f.acquired, f.acquired_block)
        for clocks in (self.acquired, *self.loaded):
            if clocks:
                self.share(g, blocks, clocks, self.acquired_block)
        self.synced[blocks] = now
        self.met = int(self.synced.min())

    def share(self, g, blocks, clocks, of_block):
        "Join the clocks of lanes of the `blocks` to the clocks of their blocks"
        for lane in [l for l in clocks if g.local[l] in blocks]:
            b = int(g.local[lane])
            of_block[b] = join(of_block.get(b), clocks.pop(lane))

    def meet_lanes(self, g, lanes, now):
        "Execute a barrier of `lanes`, each with those of its warp"
        warps = np.unique(g.warp[lanes])
        for clocks in (self.acquired, *(f.acquired for f in self.fences or ())):
            for w in warps if clocks else ():
                mates = lanes[g.warp[lanes] == w]
                joined = None
                for lane in mates:
                    joined = join(joined, clocks.get(int(lane)))
                if joined is not None:
                    clocks.update((int(lane), joined) for lane in mates)
        self.warp_synced[warps] = now

    # Fences and flags

    def fence(self, g, lanes, now, wide):
        "Execute a fence of `lanes`, which acquires what they have loaded; `wide`: of device scope"
        if self.fences is None:
            self.fences = (_Fences(g), _Fences(g))
            self.fenced = True
        for loaded in self.loaded[: 1 + wide]:
            for lane in [int(l) for l in lanes if l in loaded] if loaded else ():
                self.acquired[lane] = join(self.acquired.get(lane), loaded.pop(lane))
        for f in self.fences[: 1 + wide]:
            f.time[lanes] = now
            f.block[lanes] = self.synced[g.local[lanes]]
            f.warp[lanes] = self.warp_synced[g.warp[lanes]]
            for lane in map(int, lanes) if self.acquired or self.acquired_block else ():
                n = join(self.acquired.get(lane), self.acquired_block.get(int(g.local[lane])))
                if n is not None:
                    f.acquired[lane] = n

    def released(self, g, lane, f):
        "Return the clock of what happens before the last fence of `lane`, of those in `f`; None without any"
        b, w = int(g.local[lane]), int(g.warp[lane])
        mates = slice(b * g.threads, (b + 1) * g.threads)
        mine = np.where((g.warp[mates] == w) & (f.time[mates] <= self.warp_synced[w]), f.time[mates], 0)
        mine = np.maximum(mine, f.shared[mates])
        mine[lane - mates.start] = max(mine[lane - mates.start], f.time[lane])
        if not mine.any():
            return None
        floor = int(max(f.floor[b], f.block[lane]))
        lanes = {int(t): int(mine[t]) for t in np.flatnonzero(mine > floor)}
        halves = range(w % g.warps * g.width // 32, (w % g.warps + 1) * g.width // 32)
        n = clock(self.level, g.first + b, floor, dict.fromkeys(halves, int(f.warp[lane])), lanes)
        return join(join(n, f.acquired.get(lane)), f.acquired_block.get(b))

    def on_atomic(self, g, lanes, mem, off, now, wrote):
        "Execute atomics of `lanes` on the elements at `off`; `wrote`: which of them have changed it"
        if not self.fenced:
            return
        for lane, at, w in zip(map(int, lanes), map(int, off), wrote):
            flag = self.flags.get(id(mem), {}).get(at)
            if flag is not None and flag.time <= self.began and mem.space != 'global':
                flag = None
            if flag is not None:
                self.on_atomic_load(g, lane, flag)
            if w and self.fences is not None:
                self.on_atomic_store(g, lane, mem, at, flag, now)

    def on_atomic_load(self, g, lane, flag):
        "Load a flag: the next fence of the lane acquires what the flag has released"
        block = int(g.b[lane])
        for loaded, n in zip(self.loaded, (flag.by_block.get(block), flag.device)):
            if n is not None:
                loaded[lane] = join(loaded.get(lane), n)
        b = int(g.local[lane])
        self.any_block[b] = join(self.any_block.get(b), flag.any_block)

    def on_atomic_store(self, g, lane, mem, off, flag, now):
        "Store a flag: it releases what happens before the lane's last fence"
        in_block, device = (self.released(g, lane, f) for f in self.fences)
        if in_block is None:
            return
        if flag is None:
            flag = self.flags.setdefault(id(mem), {})[off] = Flag()
        block = int(g.b[lane])
        flag.by_block[block] = join(flag.by_block.get(block), in_block)
        flag.device, flag.any_block, flag.time = join(flag.device, device), join(flag.any_block, in_block), now

    def forget(self, mem, off):
        "Forget the flags at `off`, which are written plainly"
        if flags := self.flags.get(id(mem)):
            for at in map(int, off):
                flags.pop(at, None)

    # Happens-before

    def happens_before(self, g, lanes, time, thread):
        "Return, per lane, whether the access by `thread` at `time` happens before one by `lanes` now"
        synced = g.in_block(lanes, thread) & (time <= self.synced[g.local[lanes]])
        res = (time <= self.start) | (thread == g.id[lanes]) | synced
        if res.all():
            return res
        res |= g.in_warp(lanes, thread) & (time <= self.warp_synced[g.warp[lanes]])
        if self.acquired or self.acquired_block:
            for i in np.flatnonzero(~res):
                clocks = self.acquired.get(int(lanes[i])), self.acquired_block.get(int(g.local[lanes[i]]))
                res[i] = any(self.includes(g, n, thread[i], time[i]) for n in clocks)
        return res

    def includes(self, g, n, thread, time):
        "Return whether the access of `thread` at `time` happens before an event with the clock `n`"
        block, t = divmod(int(thread), g.threads)
        return n is not None and includes(n, self.level, block << 10 | t, int(time))

    def race_code(self, g, lane, time, thread):
        "Return the code of the finding for a data race of `thread` at `time` with `lane`: it names the missing order"
        lane = int(lane)
        block = thread // g.threads
        if any(self.includes(g, loaded.get(lane), thread, time) for loaded in self.loaded):
            return 'flag_not_acquired'
        if self.includes(g, self.any_block.get(int(g.local[lane])), thread, time):
            return 'fence_of_block'
        return 'race' if block == g.b[lane] else 'race_of_blocks'

    def may_forget(self, g, lanes, lo, hi, time):
        """Return whether the readers `lo` to `hi`, which read at `time`, may be forgotten: both happen before what
        `lanes` do"""
        synced = g.in_block(lanes, lo) & g.in_block(lanes, hi) & (time <= self.synced[g.local[lanes]])
        old = (time <= self.start) | synced
        if old.all():
            return old
        old |= g.in_warp(lanes, lo) & g.in_warp(lanes, hi) & (time <= self.warp_synced[g.warp[lanes]])
        if (self.acquired or self.acquired_block) and not old.all():
            old |= self.happens_before(g, lanes, time, lo) & self.happens_before(g, lanes, time, hi)
        return old
