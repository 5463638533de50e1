"""synccheck: barriers and warp operations that not all threads reach, deadlocks, and loops that never end.

The context of the launch, `ctx`, reports each barrier, each warp operation and each iteration of a `while` loop to
`Synccheck`; `active` is the mask of the lanes that take part. The other detectors are in `detectors`.
"""

import time

import numpy as np

from ..diagnostics.errors import warn_of
from ..diagnostics.settings import settings

__all__ = ['Synccheck', 'cpu_time']

# The CPU time of this thread, because other processes also use the CPU. A browser has no such clock.
cpu_time = getattr(time, 'thread_time', time.monotonic)

# A loop counts as spinning after this many iterations without a write to memory: SPIN_LIMIT in a kernel whose blocks
# run in lockstep, POLL_LIMIT in a kernel whose blocks wait for other blocks.
SPIN_LIMIT, POLL_LIMIT = 1000, 2


class Synccheck:
    "Reports barriers and warp operations that not all threads reach, deadlocks and livelocks"

    def __init__(self, enabled):
        self.enabled = enabled
        self.warned_barriers = set()  # source locations of barriers before which threads have returned

    def check_barrier(self, ctx, active, site):
        "Check that all threads of each block are at its barrier; returns the number of lanes that arrived, per block"
        group = ctx.group
        num_arrived = np.bincount(group.block_in_group[active], minlength=group.num_blocks)
        is_incomplete = (num_arrived > 0) & (num_arrived < group.threads_per_block)
        if is_incomplete.any() and self.enabled:
            is_diverged = is_incomplete & (
                num_arrived < np.bincount(group.block_in_group[group.live_lanes], minlength=group.num_blocks)
            )
            self.report_missing(
                ctx, active, int(np.argmax(is_diverged if is_diverged.any() else is_incomplete)), num_arrived, site
            )
        return num_arrived

    def report_missing(self, ctx, active, block, num_arrived, site):
        "Report that threads of a block are not at its barrier: raise if one of them still runs, else warn"
        group = ctx.group
        location = ctx.program.sites[site]
        absent_lanes, running_lanes = (
            np.flatnonzero((group.block_in_group == block) & ~active & mask)
            for mask in (group.all_lanes, group.live_lanes)
        )
        fields = dict(
            here=int(num_arrived[block]),
            threads=group.threads_per_block,
            thread=group.position((*running_lanes, *absent_lanes)[0])[1],
        )
        if len(running_lanes):
            if ctx.is_allowed('diverged', site) or ctx.is_allowed('grid_diverged', site):
                return
            raise ctx.finding(
                'synccheck',
                'diverged',
                site,
                reported_lane=int(np.argmax((group.block_in_group == block) & active)),
                **fields,
            )
        if location not in self.warned_barriers:
            self.warned_barriers.add(location)
            warn_of('returned', 'python', dict(fields, line=location.line, kernel=ctx.kernel))

    def check_grid_barrier(self, ctx, active, site):
        """Check that all threads of the grid reach its barrier, whether the detector is enabled or not.

        As on a GPU, a thread that has returned does not count if the first thread of its block is there."""
        group = ctx.group
        if active is group.all_lanes or active.all():
            return
        is_absent = ~active & (group.live_lanes | (group.thread_index == 0))
        if is_absent.any():
            if ctx.is_allowed('grid_diverged', site):
                return
            block, thread = group.position(int(np.argmax(is_absent)))
            self.raise_grid_diverged(ctx, active, site, block, thread)

    def raise_grid_diverged(self, ctx, active, site, block, thread):
        "Raise the finding that a thread is not at the grid barrier, where the lanes of `active` wait"
        raise ctx.finding('synccheck', 'grid_diverged', site, active, in_block=block, thread=thread)

    def check_mask(self, ctx, active, mask, site, operation):
        "Check a warp operation: each lane is in its own mask, and every lane in a mask takes part"
        group = ctx.group
        mask_bits = np.broadcast_to(_mask_bits(mask, group.warp_size), group.size)
        full_mask = 2**group.warp_size - 1
        if not self.enabled or active is group.all_lanes and (mask_bits == full_mask).all():
            return
        is_not_in_own_mask = active & ((mask_bits >> group.laneid.astype(np.uint64)) & 1 == 0)
        if is_not_in_own_mask.any() and not ctx.is_allowed('thread_not_in_mask', site):
            lane = int(np.argmax(is_not_in_own_mask))
            fields = dict(operation=operation, mask=int(mask_bits[lane]), full_mask=full_mask)
            raise ctx.finding('synccheck', 'thread_not_in_mask', site, reported_lane=lane, **fields)
        lanes_by_warp = group.lanes_by_warp()
        is_live = (lanes_by_warp >= 0) & group.live_lanes[lanes_by_warp]
        has_arrived = is_live & active[lanes_by_warp]
        is_in_mask = _bits_of_masks(lanes_by_warp, has_arrived, mask_bits) == 1
        is_absent = is_in_mask & is_live & ~has_arrived & has_arrived.any(1)[:, None]
        if is_absent.any() and not ctx.is_allowed('lane_in_other_branch', site):
            warp, lane = (int(i) for i in np.argwhere(is_absent)[0])
            reported_lane = int(lanes_by_warp[warp][has_arrived[warp]][0])
            raise ctx.finding(
                'synccheck', 'lane_in_other_branch', site, reported_lane=reported_lane, operation=operation, lane=lane
            )

    def check_sources(self, ctx, active, source_lanes, source_index, site):
        """Check that a shuffle reads from active lanes only.

        `source_lanes` are lanes of the group, -1 for none; `source_index` are their indices within the warp."""
        is_missing = active & ((source_lanes < 0) | ~active[source_lanes])
        if self.enabled and is_missing.any() and not ctx.is_allowed('source_lane', site):
            lane = int(np.argmax(is_missing))
            raise ctx.finding('synccheck', 'source_lane', site, reported_lane=lane, lane=int(source_index[lane]))

    def check_deadlock(self, ctx, site, active):
        "Raise the finding if all resident blocks are deadlocked"
        if ctx.deadlock is not None:
            code, fields = ctx.deadlock
            raise ctx.finding('synccheck', code, site, active, threads=np.count_nonzero(active), **fields)

    def check_iteration(self, ctx, loop, site, frame):
        """Check, at the beginning of an iteration of a `while` loop of the kernel's `frame`, that the loop can end.

        If neither memory nor a variable changes from one iteration to the next, the loop is endless. This
        is checked even if the detector is disabled, because the launch would hang."""
        if cpu_time() > ctx.deadline:
            raise ctx.finding('timeout', 'time_limit', site, loop.mask, seconds=f'{settings.seconds:g}')
        if loop.progress_count != ctx.progress_count:
            loop.num_idle_iterations = 0
            loop.progress_count = ctx.progress_count
            loop.is_spinning = False
            loop.is_endless = False
            return
        self.check_deadlock(ctx, site, loop.mask)
        loop.num_idle_iterations += 1
        limit = POLL_LIMIT if ctx.program.may_spin else SPIN_LIMIT
        loop.is_spinning = loop.num_idle_iterations >= POLL_LIMIT
        if loop.num_idle_iterations % limit == 0:
            loop.variables = _variables(frame)
        elif loop.num_idle_iterations > limit and loop.num_idle_iterations % limit == 1:
            loop.is_endless = _are_equal(loop.variables, _variables(frame))
            if loop.is_endless and not ctx.program.may_spin:
                code = 'endless_wait' if ctx.grid.size == 1 else 'blocks_wait'
                raise ctx.finding('synccheck', code, site, loop.mask, threads=np.count_nonzero(loop.mask))


def _variables(frame):
    "Return {name: value} of the variables of the kernel; names of the rewritten code begin with `__`"
    return {
        name: value
        for name, value in frame.f_locals.items()
        if not name.startswith('__') and isinstance(value, (np.ndarray, np.generic))
    }


def _are_equal(a, b):
    "Return whether two dicts of arrays are equal, with NaN equal to NaN"
    return a.keys() == b.keys() and all(
        value is b[k] or np.array_equal(value, b[k], equal_nan=value.dtype.kind in 'fc') for k, value in a.items()
    )


def _mask_bits(mask, warp_size):
    "Convert a mask that a kernel passes to uint64; bits past the size of the warp become 0"
    mask = np.asarray(mask)
    bits = mask if mask.dtype == np.uint64 else mask.astype(np.int64).view(np.uint64)
    return bits & np.uint64(2**warp_size - 1)


def _bits_of_masks(lanes_by_warp, has_arrived, mask_bits):
    "Return bits of shape (warps, lanes per warp): the mask of the first lane that arrived in each warp"
    if (mask_bits != mask_bits[0]).any():
        first_arrived_lane = lanes_by_warp[np.arange(len(lanes_by_warp)), np.argmax(has_arrived, 1)]
    else:
        first_arrived_lane = lanes_by_warp[:, 0]
    return (mask_bits[first_arrived_lane][:, None] >> np.arange(lanes_by_warp.shape[1], dtype=np.uint64)) & 1
