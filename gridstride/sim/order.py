"""The memory model: computes whether one access happens before another, by barriers, and by flags between fences.

A flag is an element that atomics access. An atomic store to it releases the accesses before the writer's last fence;
after an atomic load, the reader's next fence, or the next barrier of its block, acquires them. `threadfence_block`
does this within a block only. The emulator of CUDA C has the same model, `cpp/runtime/order.cpp`, with the same
names, and its README lists the races that it misses; the model of `tile` is in `tile/run.py`. This one misses more,
because it keeps only the lowest and the highest reader of an element."""

from dataclasses import dataclass, field

import numpy as np

__all__ = ['MemoryOrder']


# A vector clock maps each thread to a time: its accesses up to that time happen before the event that has the clock.
# Two accesses that no clock orders, one of them a write, are a data race. A thread's key is `block << 10 | thread`, and
# the clock is a tree over the keys with 32 children per node: lanes, warps, blocks. A warp of 64 lanes has two nodes. A
# node with `floor` f gives every thread below it at least the time f, so that a barrier of a block needs one node and
# not one entry per thread. Nodes are immutable, and clocks share them. The same tree in C++ is in
# `cpp/runtime/vector_clock.h`.
class VectorClock:
    "A vector clock, or a node of its tree: `floor` is a lower bound of its times, `latest` their maximum"

    __slots__ = 'floor', 'latest', 'children'

    def __init__(self, floor, children):  # children: index -> child, a VectorClock, or the time of a lane
        self.floor, self.children = floor, children
        self.latest = max((child if isinstance(child, int) else child.latest for child in children.values()), default=0)
        self.latest = max(self.latest, floor)


def includes(node, level, key, time):
    """Return whether the access of thread `key` at `time` happens before an event with the clock `node`.

    >>> node = make_clock(2, block=0, floor=5, warps={0: 7}, lanes={3: 9})
    >>> includes(node, 2, 3, 9), includes(node, 2, 4, 9), includes(node, 2, 40, 5)
    (True, False, True)"""
    while node is not None and time <= node.latest:
        if time <= node.floor:
            return True
        node = node.children.get(key >> 5 * level & 31)
        level = level - 1
        if level < 0:
            return node is not None and time <= node
    return False


def join(a, b):
    "Return the elementwise maximum of two clocks; if one of them includes the other, return that object"
    if b is None or a is b or a is not None and b.latest <= a.floor:
        return a
    if a is None or a.latest <= b.floor:
        return b
    children = dict(a.children)
    for key, child in b.children.items():
        a_child = children.get(key)
        children[key] = max(a_child or 0, child) if isinstance(child, int) else join(a_child, child)
    for clock in (a, b):
        is_same = len(clock.children) == len(children) and all(
            children[key] is child or children[key] == child for key, child in clock.children.items()
        )
        if clock.floor == max(a.floor, b.floor) and is_same:
            return clock
    return VectorClock(max(a.floor, b.floor), children)


def make_clock(level, block, floor, warps, lanes):
    "Make the clock of one block from the times of all threads (`floor`), of groups of 32 (`warps`) and of `lanes`"
    children = {warp: {} for warp in warps}
    for thread, time in lanes.items():
        children.setdefault(thread // 32, {})[thread % 32] = time
    node = VectorClock(floor, {warp: VectorClock(warps.get(warp, 0), times) for warp, times in children.items()})
    for i in range(2, level + 1):
        node = VectorClock(0, {block >> 5 * (i - 2) & 31: node})
    return node


@dataclass(slots=True)
class Flag:
    "An element that atomics access: the clocks that its writers have released, by the scope of their fences"

    # `by_block` has, per block, the clock that its threads have released to threads of this block; `any_block` joins
    # these clocks. It is used only to report a fence with a scope that is too small.

    device: VectorClock = None
    any_block: VectorClock = None
    by_block: dict = field(default_factory=dict)  # block -> clock
    time: int = 0


class _Fences:
    """The last fence of each thread of a group: one object for fences of any scope, one for those of device scope.

    Per lane: `time` of the fence; `block_barrier` and `warp_barrier`, the times of the last barriers before the fence;
    `shared_time`, that of the latest fence of another thread that a barrier of the block orders before the lane."""

    def __init__(self, group):
        self.time, self.block_barrier, self.warp_barrier, self.shared_time = (
            np.zeros(group.size, np.int64) for _ in range(4)
        )
        self.floor = np.zeros(group.num_blocks, np.int64)  # per block: its latest barrier before one of its fences
        # the clocks that each lane and each block had acquired before the fence
        self.acquired_by_lane, self.acquired_by_block = {}, {}


class MemoryOrder:
    "The happens-before relation of accesses, by barriers of a warp, a block or the grid, and by flags"

    def __init__(self, num_blocks, now):  # num_blocks: of the grid
        self.ordered_until = now  # every access up to this time is ordered
        # The level of the root of a clock: a level has 5 bits of a key.
        self.level = max(2, -(-(10 + int(num_blocks).bit_length()) // 5) - 1)
        self.flags = {}  # id of a memory -> {offset of an element: Flag}
        self.has_fences = False  # whether a thread of the launch has executed a fence

    def begin_group(self, group, now):
        "Begin a group of blocks: nothing orders its accesses after those of earlier groups"
        self.group_start = now
        self.barrier_time = np.full(group.num_blocks, now, np.int64)
        self.oldest_barrier = now  # the minimum of `barrier_time`
        self.warp_barrier_time = np.full(group.num_blocks * group.warps_per_block, now, np.int64)
        self.fences = None
        self.acquired_by_lane = {}  # lane -> clock of its next access
        self.acquired_by_block = {}  # block of the group -> clock of the next access of its threads
        # For block scope and for device scope: lane -> clock that the flags it has loaded release. The next fence of
        # the lane acquires this clock.
        self.loaded_by_lane = {}, {}
        self.any_block = {}  # block of the group -> clock that the flags it has loaded release within any block

    _GROUP_STATE = (
        'group_start',
        'barrier_time',
        'oldest_barrier',
        'warp_barrier_time',
        'fences',
        'acquired_by_lane',
        'acquired_by_block',
        'loaded_by_lane',
        'any_block',
    )

    def save_group(self):
        "Return the state of the current group, before another one begins or continues"
        return {name: getattr(self, name) for name in self._GROUP_STATE}

    def restore_group(self, state):
        "Continue the group whose state `save_group` returned"
        vars(self).update(state)

    # Barriers

    def block_barrier(self, group, blocks, now):
        "Execute a barrier in each of `blocks`: each thread of a block acquires the clocks of the others"
        if self.fences is not None:
            lanes = np.isin(group.block_in_group, blocks)
            for fences in self.fences:
                fences.shared_time[lanes] = np.maximum(fences.shared_time[lanes], fences.time[lanes])
                np.maximum.at(fences.floor, group.block_in_group[lanes], fences.block_barrier[lanes])
                self.join_into_blocks(group, blocks, fences.acquired_by_lane, fences.acquired_by_block)
        for clocks in (self.acquired_by_lane, *self.loaded_by_lane):
            if clocks:
                self.join_into_blocks(group, blocks, clocks, self.acquired_by_block)
        self.barrier_time[blocks] = now
        self.oldest_barrier = int(self.barrier_time.min())

    def join_into_blocks(self, group, blocks, clocks, block_clocks):
        "Join the `clocks` of the lanes of `blocks` into `block_clocks`, and remove them from `clocks`"
        for lane in [lane for lane in clocks if group.block_in_group[lane] in blocks]:
            block = int(group.block_in_group[lane])
            block_clocks[block] = join(block_clocks.get(block), clocks.pop(lane))

    def warp_barrier(self, group, lanes, now):
        "Execute a barrier of `lanes` in each of their warps"
        warps = np.unique(group.warp_in_group[lanes])
        for clocks in (self.acquired_by_lane, *(f.acquired_by_lane for f in self.fences or ())):
            for warp in warps if clocks else ():
                warp_lanes = lanes[group.warp_in_group[lanes] == warp]
                warp_clock = None
                for lane in warp_lanes:
                    warp_clock = join(warp_clock, clocks.get(int(lane)))
                if warp_clock is not None:
                    clocks.update((int(lane), warp_clock) for lane in warp_lanes)
        self.warp_barrier_time[warps] = now

    # Fences and flags

    def fence(self, group, lanes, now, device_scope):
        "Execute a fence by `lanes`, of device or block scope: it acquires the clocks of the flags they have loaded"
        if self.fences is None:
            self.fences = (_Fences(group), _Fences(group))
            self.has_fences = True
        for loaded in self.loaded_by_lane[: 1 + device_scope]:
            for lane in [int(lane) for lane in lanes if lane in loaded] if loaded else ():
                self.acquired_by_lane[lane] = join(self.acquired_by_lane.get(lane), loaded.pop(lane))
        for fences in self.fences[: 1 + device_scope]:
            fences.time[lanes] = now
            fences.block_barrier[lanes] = self.barrier_time[group.block_in_group[lanes]]
            fences.warp_barrier[lanes] = self.warp_barrier_time[group.warp_in_group[lanes]]
            for lane in map(int, lanes) if self.acquired_by_lane or self.acquired_by_block else ():
                clock = join(
                    self.acquired_by_lane.get(lane), self.acquired_by_block.get(int(group.block_in_group[lane]))
                )
                if clock is not None:
                    fences.acquired_by_lane[lane] = clock

    def released_clock(self, group, lane, fences):
        """Return the clock of the last fence of `lane` in `fences`; None if it has executed none.

        The clock includes the accesses of the lane before the fence, the accesses of its warp and its block before the
        last barrier that preceded the fence, the clocks that the lane had acquired, and the clocks of fences of other
        threads that a barrier has ordered before this one."""
        block, warp = int(group.block_in_group[lane]), int(group.warp_in_group[lane])
        block_lanes = slice(block * group.threads_per_block, (block + 1) * group.threads_per_block)
        fence_times = np.where(
            (group.warp_in_group[block_lanes] == warp) & (fences.time[block_lanes] <= self.warp_barrier_time[warp]),
            fences.time[block_lanes],
            0,
        )
        fence_times = np.maximum(fence_times, fences.shared_time[block_lanes])
        fence_times[lane - block_lanes.start] = max(fence_times[lane - block_lanes.start], fences.time[lane])
        if not fence_times.any():
            return None
        floor = int(max(fences.floor[block], fences.block_barrier[lane]))
        lanes = {int(thread): int(fence_times[thread]) for thread in np.flatnonzero(fence_times > floor)}
        clock_nodes = range(  # a warp of 64 lanes has two
            warp % group.warps_per_block * group.warp_size // 32,
            (warp % group.warps_per_block + 1) * group.warp_size // 32,
        )
        clock = make_clock(
            self.level,
            group.first_block + block,
            floor,
            dict.fromkeys(clock_nodes, int(fences.warp_barrier[lane])),
            lanes,
        )
        return join(join(clock, fences.acquired_by_lane.get(lane)), fences.acquired_by_block.get(block))

    def on_atomic(self, group, lanes, mem, offsets, now, writes):
        "Execute atomics by `lanes` on the elements at `offsets`; `writes`: per lane, whether it has written a value"
        if not self.has_fences:
            return
        for lane, offset, has_written in zip(map(int, lanes), map(int, offsets), writes):
            flag = self.flags.get(id(mem), {}).get(offset)
            if flag is not None and flag.time <= self.group_start and mem.space != 'global':
                flag = None  # the shared memory belonged to an earlier block
            if flag is not None:
                self.on_atomic_load(group, lane, flag)
            if has_written and self.fences is not None:
                self.on_atomic_store(group, lane, mem, offset, flag, now)

    def on_atomic_load(self, group, lane, flag):
        "Load a flag: the next fence of the lane acquires its clock"
        block = int(group.block_index[lane])
        for loaded, clock in zip(self.loaded_by_lane, (flag.by_block.get(block), flag.device)):
            if clock is not None:
                loaded[lane] = join(loaded.get(lane), clock)
        index_in_group = int(group.block_in_group[lane])
        self.any_block[index_in_group] = join(self.any_block.get(index_in_group), flag.any_block)

    def on_atomic_store(self, group, lane, mem, offset, flag, now):
        "Store a flag: it releases the clock of the lane's last fence"
        block_clock, device_clock = (self.released_clock(group, lane, fences) for fences in self.fences)
        if block_clock is None:
            return
        if flag is None:
            flag = self.flags.setdefault(id(mem), {})[offset] = Flag()
        block = int(group.block_index[lane])
        flag.by_block[block] = join(flag.by_block.get(block), block_clock)
        flag.device, flag.any_block = join(flag.device, device_clock), join(flag.any_block, block_clock)
        flag.time = now

    def discard_flags(self, mem, offsets):
        "Discard the flags at `offsets`, which a plain write has overwritten"
        if flags := self.flags.get(id(mem)):
            for offset in map(int, offsets):
                flags.pop(offset, None)

    # Happens-before

    def happens_before(self, group, lanes, time, thread):
        "Return, per lane, whether the access by `thread` at `time` happens before an access by the lane now"
        has_barrier = group.is_in_block(lanes, thread) & (time <= self.barrier_time[group.block_in_group[lanes]])
        is_ordered = (time <= self.ordered_until) | (thread == group.thread_ids[lanes]) | has_barrier
        if is_ordered.all():
            return is_ordered
        is_ordered |= group.is_in_warp(lanes, thread) & (time <= self.warp_barrier_time[group.warp_in_group[lanes]])
        if self.acquired_by_lane or self.acquired_by_block:
            for i in np.flatnonzero(~is_ordered):
                lane = int(lanes[i])
                clocks = self.acquired_by_lane.get(lane), self.acquired_by_block.get(int(group.block_in_group[lane]))
                is_ordered[i] = any(self.includes(group, clock, thread[i], time[i]) for clock in clocks)
        return is_ordered

    def includes(self, group, clock, thread, time):
        "Return whether `clock` is not None and includes the access by `thread` at `time`"
        block, thread_index = divmod(int(thread), group.threads_per_block)
        return clock is not None and includes(clock, self.level, block << 10 | thread_index, int(time))

    def race_code(self, group, lane, time, thread):
        "Return the code of the finding for a data race with `thread` at `time`: it names the missing synchronization"
        lane = int(lane)
        block = thread // group.threads_per_block
        if any(self.includes(group, loaded.get(lane), thread, time) for loaded in self.loaded_by_lane):
            return 'flag_not_acquired'
        if self.includes(group, self.any_block.get(int(group.block_in_group[lane])), thread, time):
            return 'fence_of_block'
        return 'race' if block == group.block_index[lane] else 'race_of_blocks'

    def can_discard_readers(self, group, lanes, lowest_reader, highest_reader, time):
        """Return, per lane, whether the shadow may discard the readers `lowest_reader` and `highest_reader`.

        It may if both reads, the later one at `time`, happen before the access of the lane: a write that races with one
        of them then also races with that access. Most often the lane itself was the only reader."""
        is_of_group = time > self.group_start  # else the later read is by a block that ran before this group
        is_ordered = time <= self.ordered_until
        if np.count_nonzero(is_of_group):
            thread = group.thread_ids[lanes]
            is_ordered |= (lowest_reader == thread) & (highest_reader == thread)
        elif not (self.acquired_by_lane or self.acquired_by_block):
            return is_ordered
        if is_ordered.all():
            return is_ordered
        is_discardable = is_ordered
        for barrier_time, index_of_lane, share_group in (
            (self.barrier_time, group.block_in_group, group.is_in_block),
            (self.warp_barrier_time, group.warp_in_group, group.is_in_warp),
        ):
            has_barrier = is_of_group & (time <= barrier_time[index_of_lane[lanes]])
            if np.count_nonzero(has_barrier):  # rare: most elements are read often between two barriers
                are_in_group = share_group(lanes, lowest_reader) & share_group(lanes, highest_reader)
                is_discardable = is_discardable | has_barrier & are_in_group
        if (self.acquired_by_lane or self.acquired_by_block) and not is_discardable.all():
            is_discardable |= self.happens_before(group, lanes, time, lowest_reader) & self.happens_before(
                group, lanes, time, highest_reader
            )
        return is_discardable
