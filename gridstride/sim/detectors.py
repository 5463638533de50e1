"""memcheck, initcheck and racecheck: each with its shadow memory, its rule, and its findings; and all four detectors.

memcheck finds out-of-bounds accesses, initcheck uninitialized reads, racecheck data races; `synccheck` has its own
module. The context of the launch, `ctx`, reports each access and barrier to them; a detector
reads the group of threads and the time from it, and keeps no reference to it. The time is the number of accesses so
far, over all launches. `active` is the mask of the active lanes; `lanes` are their indices, in the order in which they
run.

CUDA C's detectors are in `cpp/runtime`, Triton's in `tile/shadow.py`.
"""

import sys
from functools import partial
from typing import NamedTuple

import numpy as np

from ..diagnostics import formatting
from ..diagnostics.errors import Access, Call, exception_of, warn_of
from ..diagnostics.settings import is_check_enabled
from .synccheck import Synccheck

__all__ = ['Shadow', 'Memcheck', 'Initcheck', 'Racecheck', 'Detectors', 'calls_of']


class Shadow:
    "The shadow memory of an array: per element the last write, its thread, and the lowest and the highest reader"

    def __init__(
        self,
        size,  # number of elements
        is_sparse=False,  # whether kernels will access only a small fraction of them
    ):
        arrays = (_zeros_in_small_pages if is_sparse else _zeros)(
            size, np.int64, np.int64, np.int32, np.int32, np.int32, bool
        )
        # A reader is packed into 64 bits, the thread in the upper half and the time in the lower half, so that one
        # integer comparison finds the lowest and the highest thread that has read since the barrier.
        self.lowest_reader, self.highest_reader = arrays[:2]
        self.read_time = arrays[2]
        self.write_time, self.writer = arrays[3:5]  # of the last write; time 0 means uninitialized
        self.is_write_atomic = arrays[5]  # whether the last write was atomic


def _zeros(size, *types):
    "Allocate an array of `size` zeros of each type"
    return [np.zeros(size, t) for t in types]


_LARGE_SIZE = 1 << 19  # elements; for smaller arrays, the page size does not matter


def _zeros_in_small_pages(size, *types):
    """Allocate an array of `size` zeros of each type in pages of 4 KB.

    NumPy requests pages of 2 MB for large arrays, and each page is cleared at its first use: a kernel that accesses a
    few elements would pay for whole pages."""
    if size < _LARGE_SIZE or sys.platform != 'linux':
        return _zeros(size, *types)
    import mmap

    sizes = [size * np.dtype(t).itemsize for t in types]
    memory = mmap.mmap(-1, sum(sizes))
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return [np.frombuffer(memory, t, size, sum(sizes[:i])) for i, t in enumerate(types)]


def element_at(view, offset):
    """Return the element at `offset` of the memory of `view`, as the fields `array` and `index` of a finding.

    It inverts `offset = start + sum(index*stride)`: it divides by the strides, from the largest to the smallest."""
    view = view.mem.views.get(view.name, view)  # a row or a slice has the name of its array: index that array
    axes = [(int(stride), int(np.max(size)) - 1) for stride, size in zip(view.strides, view.shape)]
    starts = np.asarray(view.offset) + sum(stride * last_index for stride, last_index in axes if stride < 0)
    # A shared or local array has one copy per block or thread: take the copy that contains the element.
    remaining = int(offset) - int(starts[starts <= offset].max(initial=0))
    index = [0] * view.ndim
    for axis in sorted(range(view.ndim), key=lambda axis: -abs(axes[axis][0])):
        stride, last_index = axes[axis]
        steps = min(remaining // abs(stride), last_index) if stride else 0
        remaining -= steps * abs(stride)
        index[axis] = steps if stride >= 0 else last_index - steps
    return dict(array=view.name, index=tuple(index))


def _index_of_lane(ctx, indices, lane):
    "Return the indices of an access in a lane as a tuple, without its slices"
    return tuple(int(ctx.broadcast_to_lanes(index)[lane]) for index in indices if not isinstance(index, slice))


def calls_of(site, callers):
    "Return the call stack of a source location, as a tuple of `errors.Call`"
    return tuple(Call(call.function, call.file, call.line, call.source) for call in (site, *callers))


class Memcheck:
    "Reports out-of-bounds accesses; even if disabled, it rejects too many indices, and those that are not integers"

    def __init__(self, enabled):
        self.enabled = enabled
        self.warned_lines = set()  # (file, line) of each warning so far

    def raise_index_count(self, ctx, active, view, num_indices, site):
        "Raise the finding that there are more indices than dimensions"
        raise ctx.finding('memcheck', 'indices', site, active, array=view.name, dimensions=view.ndim, given=num_indices)

    def raise_index_type(self, ctx, active, view, index, site):
        "Raise the finding that `index` is not an integer"
        raise ctx.finding('memcheck', 'index_type', site, active, array=view.name, type=index.dtype)

    def report_out_of_bounds(self, ctx, active, view, idx, axis, from_start, site, access):
        """If the detector is enabled, raise the finding that `from_start`, for `idx[axis]`, is out of bounds in a lane.

        Returns the mask of the lanes in which it is, if the user allows the finding; None if the detector is
        disabled."""
        if not self.enabled:
            return None
        axis_index = ctx.broadcast_to_lanes(from_start)
        axis_size = ctx.broadcast_to_lanes(view.shape[axis])
        is_before = ctx.broadcast_to_lanes(idx[axis]) < 0
        outside_code = 'outside'
        if view.mem.is_dynamic:
            outside_code = 'outside_dynamic' if ctx.dynamic_shared_bytes else 'no_dynamic'
        out_of_bounds = active & ((axis_index < 0) | (axis_index >= axis_size))
        reported = out_of_bounds
        for code, has_code in (('before', is_before), (outside_code, ~is_before)):
            if ctx.is_allowed(code, site):
                reported = reported & ~has_code
        if not reported.any():
            return out_of_bounds
        lane = ctx.active_lanes(reported)[0]
        index = _index_of_lane(ctx, idx, lane)
        shape = tuple(int(ctx.broadcast_to_lanes(size)[lane]) for size in view.shape)
        code = 'before' if is_before[lane] else outside_code
        if access == 'read' and len(index) < view.ndim:  # of a row or a slice: a later index selects its elements
            access = 'access'
        raise ctx.finding(
            'memcheck', code, site, reported_lane=lane, access=access, array=view.name, index=index, shape=shape
        )

    def warn_counted_from_end(self, ctx, active, view, idx, axis, from_start, site):
        "Warn, once per line, that `idx[axis]` is negative in an active lane, where it means the index `from_start`"
        location = ctx.location(site, active)
        if not self.enabled or (location.file, location.line) in self.warned_lines:
            return
        self.warned_lines.add((location.file, location.line))
        axis_index = ctx.broadcast_to_lanes(idx[axis])
        lane = next(lane for lane in ctx.active_lanes(active) if axis_index[lane] < 0)
        block, thread = ctx.group.position(lane)
        accessed = _index_of_lane(ctx, (*idx[:axis], from_start, *idx[axis + 1 :]), lane)
        fields = dict(line=location.line, kernel=ctx.kernel, array=view.name, index=_index_of_lane(ctx, idx, lane))
        fields.update(in_block=block, thread=thread, accessed=formatting.element(view.name, accessed, 'python'))
        warn_of('counted_from_end', 'python', fields)


class UninitializedRead(NamedTuple):
    "A read of an element that no thread has written so far"

    location: object  # an `errors.Location`
    view: object  # the array, a `View`
    offset: int  # of the element in the view's memory
    block: int  # index of the reader's block in the grid

    @property
    def code(self):
        "The code of the finding"
        return {'shared': 'unwritten_shared', 'local': 'unwritten_local'}.get(self.view.mem.space, 'unwritten')

    def exception(self):
        "Make the exception for this read"
        return exception_of('initcheck', self.code, 'python', element_at(self.view, self.offset), self.location)


class Initcheck:
    """Reports uninitialized reads.

    If another thread writes the element later, and nothing orders the read and the write, then the cause is a data
    race, which is the better finding: `Racecheck` reports it at that write. So the first uninitialized read is
    deferred: it is reported once no later write can race with it."""

    def __init__(self, enabled, racecheck):  # racecheck: the `Racecheck` that finds such a data race
        self.enabled, self.racecheck = enabled, racecheck
        self.deferred_reads = {}  # 'shared' or 'global' -> the first `UninitializedRead` of this memory space
        self.warned_uses = set()  # (variable or function, file, line) of each warning so far

    def warn_unassigned(self, ctx, active, name, site):
        "Warn, once per line, that the lanes of `active` read a variable that they have not assigned"
        location = ctx.location(site, active)
        if self.enabled and (name, location.file, location.line) not in self.warned_uses:
            self.warned_uses.add((name, location.file, location.line))
            fields = dict(
                line=location.line, kernel=ctx.kernel, variable=name, in_block=location.block, thread=location.thread
            )
            warn_of('unassigned', 'python', fields)

    def warn_no_value(self, ctx, active):
        "Warn, once per line, that the lanes of `active` use the value of a call in which they reach no `return`"
        site = ctx.call_sites[0]
        if self.enabled and site.uses_value and (ctx.program.name, site.file, site.line) not in self.warned_uses:
            self.warned_uses.add((ctx.program.name, site.file, site.line))
            block, thread = ctx.group.position(ctx.active_lanes(active)[0])
            fields = dict(line=site.line, kernel=ctx.kernel, function=ctx.program.name, in_block=block, thread=thread)
            warn_of('no_value', 'python', fields)

    def is_uninitialized(self, mem, offset):
        "Return whether an element may be uninitialized"
        return self.enabled and mem.tracks_init and mem.shadow.write_time[offset] == 0

    def read(self, ctx, lanes, view, offsets, write_times, site):
        "Check that the elements which `lanes` read have been written: 0 in `write_times` means uninitialized"
        if not self.enabled or not view.mem.tracks_init or view.mem.space in self.deferred_reads:
            return
        is_uninitialized = write_times == 0
        if is_uninitialized.any():
            i = np.argmax(is_uninitialized)
            location = ctx.location(site, lane=lanes[i])
            block = int(ctx.group.block_index[lanes[i]])
            read = UninitializedRead(location, view, int(offsets[i]), block)
            if ctx.is_allowed(read.code, site):
                return
            if view.mem.space == 'local' or not self.racecheck.enabled:
                raise read.exception()
            self.deferred_reads[view.mem.space] = read

    def check_at_barrier(self, first_block, blocks):
        "Raise the deferred read of shared memory if its block is one of `blocks`, which count from `first_block`"
        if 'shared' in self.deferred_reads and self.deferred_reads['shared'].block - first_block in blocks:
            raise self.deferred_reads['shared'].exception()

    def check_at_end(self, space):
        "Raise the deferred read of this memory space, if any: no later write can race with it any more"
        if read := self.deferred_reads.get(space):
            raise read.exception()

    def cause_of(self, error):
        """Return the exception for a deferred read whose undefined value may have caused `error`, or None.

        A read by the same thread may cause an index out of bounds, a read of global memory a missed barrier, and any
        read a timeout or a failed assertion."""
        kind = getattr(error, 'kind', None)
        reader = (getattr(error, 'block', None), getattr(error, 'thread', None))
        for space, read in self.deferred_reads.items():
            is_same_thread = (read.location.block, read.location.thread) == reader
            if {'timeout': True, 'assert': True, 'memcheck': is_same_thread, 'synccheck': space == 'global'}.get(kind):
                return read.exception()


_MAX_DEFERRED_RACES = 1 << 16  # the next one is raised at once


def sort_by_lane(lanes, offsets):
    "Sort `lanes` and their `offsets` by lane, because `order='shuffle'` runs lanes in another order"
    if lanes.size < 2 or (lanes[1:] > lanes[:-1]).all():
        return lanes, offsets
    order = np.argsort(lanes)
    return lanes[order], offsets[order]


class Racecheck:
    """Reports data races: two accesses of one element, at least one a write, that nothing orders.

    The shadow keeps one writer per element, the last one: earlier writers were checked against it when it wrote. It
    keeps two readers, the lowest and the highest thread since the barrier, because a write that is ordered after one
    reader may still race with another. `MemoryOrder.happens_before` (`order.py`) decides whether an access in the
    shadow is ordered before the current one. Most accesses need no such call: their element was last accessed before
    `ordered_until`, a time before which everything is ordered."""

    def __init__(self, enabled, are_indices_in_bounds):  # the latter: whether memcheck guarantees it
        self.enabled, self.are_indices_in_bounds = enabled, are_indices_in_bounds
        self.history = []  # per access: (time, source location, name of the array, its call stack)
        self.has_one_thread = False  # whether the launch has one thread, and no operation may run at the same time
        self.warned_sites = set()  # source locations where several threads wrote the same value
        self.deferred_races = {}  # (id of a `Mem`, offset, reader) -> (program, function that raises the race)

    def may_race(self, mem):
        "Return whether two threads may access an element of `mem`: a local array has a copy per thread"
        return not (self.has_one_thread or mem.space == 'local' and self.are_indices_in_bounds)

    def record_site(self, ctx, view, site):
        "Record the source location of the current access, for later findings"
        self.history.append((ctx.now, ctx.program.sites[site], view.name, ctx.call_sites))

    def ordered_until(self, order, mem):
        "Return the time up to which every access of `mem` happens before every access from now on"
        return (
            max(order.ordered_until, order.oldest_barrier)
            if self.are_indices_in_bounds and mem.space == 'shared'
            else order.ordered_until
        )

    def read(self, ctx, lanes, view, offsets, write_times, site):
        "Check that the last write of each element at `offsets` happens before this read by `lanes`; record the readers"
        if ctx.concurrent_operations and view.mem.space == 'global':
            ctx.concurrent_operations.read(ctx, lanes, view, offsets, write_times, site)
        shadow = view.mem.shadow
        ordered_until = self.ordered_until(ctx.memory_order, view.mem)
        is_recent = write_times > ordered_until
        if np.count_nonzero(is_recent):
            writer = shadow.writer[offsets]
            racing_indices = self.unordered_lanes(ctx, lanes, is_recent, write_times, writer)
            # Races with plain writes are raised at once, so they come first; those with atomics are deferred.
            for i in (
                racing_indices[np.argsort(shadow.is_write_atomic[offsets[racing_indices]], kind='stable')]
                if racing_indices.size
                else ()
            ):
                raise_race = partial(
                    self.raise_race, ctx, lanes, view, offsets, i, write_times, writer, 'written', 'read', site
                )
                if shadow.is_write_atomic[offsets[i]]:
                    self.defer(ctx, view, offsets[i], ctx.group.thread_ids[lanes[i]], raise_race)
                else:
                    raise_race()
        self.record_readers(ctx, shadow, lanes, offsets, ordered_until)

    def defer(self, ctx, view, offset, reader, raise_race):
        """Defer the race of a plain read by thread `reader` with an atomic.

        If the thread's next access of the element is a compare-and-swap, it detects a stale value, as in the loop
        `old = x[0]; while True: assumed = old; old = cas(x, 0, assumed, new); if old == assumed: break` of CUDA's
        programming guide: then the race is dropped. Otherwise it is raised."""
        if len(self.deferred_races) == _MAX_DEFERRED_RACES:
            raise_race()
        self.deferred_races.setdefault((id(view.mem), int(offset), int(reader)), (ctx.program, raise_race))

    def on_compare_and_swap(self, ctx, lanes, view, offsets):
        "Drop the deferred races of `lanes` at `offsets`: a compare-and-swap checks the value that was read"
        shadow = view.mem.shadow
        thread_ids = ctx.group.thread_ids[lanes]
        for element, thread in zip(offsets, thread_ids) if self.deferred_races else ():
            self.deferred_races.pop((id(view.mem), int(element), int(thread)), None)
        # A later write must not race with these reads either. Where one of the two readers is a thread of this access,
        # replace it by the other reader; where both are, mark the element as not read.
        order = ctx.memory_order
        ordered_until = np.maximum(order.ordered_until, order.barrier_time[ctx.group.block_in_group[lanes]])
        replaced_lowest, replaced_highest = (
            offsets[(reader >> 32 == thread_ids) & (reader & (2**32 - 1) > ordered_until)]
            for reader in (shadow.lowest_reader[offsets], shadow.highest_reader[offsets])
        )
        shadow.lowest_reader[replaced_lowest], shadow.highest_reader[replaced_highest] = (
            shadow.highest_reader[replaced_lowest],
            shadow.lowest_reader[replaced_highest],
        )
        shadow.read_time[np.intersect1d(replaced_lowest, replaced_highest)] = 0

    def raise_deferred(self, ctx, active, view=None, offsets=()):
        "Raise the first deferred race of a lane of `active`; if `view` is passed, only on its elements at `offsets`"
        if not self.deferred_races:
            return
        threads = set(ctx.group.thread_ids[active].tolist())
        elements = {(id(view.mem), int(element)) for element in offsets} if view is not None else None
        for (mem_id, element, reader), (program, raise_race) in self.deferred_races.items():
            if reader in threads and (elements is None or (mem_id, element) in elements):
                ctx.program = program
                raise_race()

    def unordered_lanes(self, ctx, lanes, is_recent, time, thread):
        "Return the indices i where the recent access by `thread[i]` does not happen before that of `lanes[i]`"
        candidates = (is_recent & (thread != ctx.group.thread_ids[lanes])).nonzero()[0]
        if not candidates.size:
            return candidates
        is_ordered = ctx.memory_order.happens_before(ctx.group, lanes[candidates], time[candidates], thread[candidates])
        return candidates[~is_ordered]

    def record_readers(self, ctx, shadow, lanes, offsets, ordered_until):
        "Record the time of a read, and the lowest and the highest reader since the barrier"
        lanes, offsets = sort_by_lane(lanes, offsets)
        new_lowest = new_highest = reader = ctx.group.thread_ids[lanes] << 32 | ctx.now
        time = shadow.read_time[offsets]
        if np.count_nonzero(time > ordered_until):
            lowest = shadow.lowest_reader[offsets]
            highest = shadow.highest_reader[offsets]
            can_discard_readers = ctx.memory_order.can_discard_readers(
                ctx.group, lanes, lowest >> 32, highest >> 32, time
            )
            new_lowest = np.where(can_discard_readers, reader, np.minimum(lowest, reader))
            new_highest = np.where(can_discard_readers, reader, np.maximum(highest, reader))
        # Where several lanes read one element, NumPy keeps the last assignment: the lanes are in ascending order, so
        # the highest lane is kept, and in the reversed order the lowest.
        shadow.lowest_reader[offsets[::-1].copy()] = new_lowest[::-1].copy()
        shadow.highest_reader[offsets] = new_highest
        shadow.read_time[offsets] = ctx.now

    def write(self, ctx, lanes, view, offsets, write_times, value, site, atomic):
        "Check that every earlier access of the elements at `offsets` happens before this write; record the writers"
        if ctx.concurrent_operations and view.mem.space == 'global':
            ctx.concurrent_operations.write(ctx, lanes, view, offsets, write_times, value, site, atomic)
        shadow = view.mem.shadow
        thread_ids = ctx.group.thread_ids[lanes]
        ordered_until = self.ordered_until(ctx.memory_order, view.mem)
        if atomic:
            self.raise_deferred(ctx, lanes, view, offsets)
        self.check_readers(
            ctx, lanes, view, offsets, ordered_until, site, 'changed atomically' if atomic else 'written'
        )
        self.check_writers(ctx, lanes, view, offsets, ordered_until, write_times, value, site, atomic)
        shadow.writer[offsets] = thread_ids
        if not atomic:
            overwritten_indices = (shadow.writer[offsets] != thread_ids).nonzero()[0]
            if overwritten_indices.size:
                self.check_same_access(ctx, lanes, view, offsets, overwritten_indices, value, site)
        shadow.write_time[offsets] = ctx.now
        shadow.is_write_atomic[offsets] = atomic
        if not atomic:
            ctx.memory_order.discard_flags(view.mem, offsets)

    def check_readers(self, ctx, lanes, view, offsets, ordered_until, site, access):
        "Raise a data race (write after read) if a recent read does not happen before this write"
        shadow = view.mem.shadow
        time = shadow.read_time[offsets]
        is_recent = time > ordered_until
        if np.count_nonzero(is_recent):
            for reader in (shadow.lowest_reader[offsets], shadow.highest_reader[offsets]):
                racing_indices = self.unordered_lanes(ctx, lanes, is_recent, time, reader >> 32)
                for i in (
                    racing_indices[np.unique(reader[racing_indices], return_index=True)[1]]
                    if racing_indices.size
                    else ()
                ):
                    times, threads = reader & (2**32 - 1), reader >> 32
                    raise_race = partial(
                        self.raise_race, ctx, lanes, view, offsets, i, times, threads, 'read', access, site
                    )
                    # The reader may still compare and swap if it is a live thread of this group that does not take
                    # part in this atomic.
                    lane = int(threads[i]) - ctx.group.thread_ids[0]
                    may_swap = access != 'written' and 0 <= lane < ctx.group.size and ctx.group.live_lanes[lane]
                    if not may_swap or (offsets[lanes == lane] == offsets[i]).any():
                        raise_race()
                    self.defer(ctx, view, offsets[i], ctx.group.thread_ids[lane], raise_race)

    def check_writers(self, ctx, lanes, view, offsets, ordered_until, write_times, value, site, atomic):
        "Raise a data race (write after write) if a recent write does not happen before this one"
        shadow = view.mem.shadow
        is_recent = write_times > ordered_until
        if atomic:
            is_recent = is_recent & ~shadow.is_write_atomic[offsets]  # two atomics do not race
        if np.count_nonzero(is_recent):
            writer = shadow.writer[offsets]
            racing_indices = self.unordered_lanes(ctx, lanes, is_recent, write_times, writer)
            if racing_indices.size:
                self.report_two_writes(
                    ctx, lanes, view, offsets, racing_indices, write_times, writer, value, view.mem.data[offsets], site
                )

    def check_same_access(self, ctx, lanes, view, offsets, overwritten_indices, value, site):
        "Check lanes that write one element in the same access: the last of them wins"
        final_value_of = dict(zip(offsets.tolist(), value.tolist()))
        final_values = np.array([final_value_of[element] for element in offsets.tolist()], value.dtype)
        times = np.full(len(offsets), ctx.now)
        self.report_two_writes(
            ctx,
            lanes,
            view,
            offsets,
            overwritten_indices,
            times,
            view.mem.shadow.writer[offsets],
            value,
            final_values,
            site,
        )

    def report_two_writes(self, ctx, lanes, view, offsets, racing_indices, time, writer, value, stored_values, site):
        "Report two writes of one element: different values are a data race, the same value is a warning"
        if value is not None:
            is_same_value = (stored_values == value) | (stored_values != stored_values) & (
                value != value
            )  # NaN is equal to NaN here
            differing_indices = racing_indices[~is_same_value[racing_indices]]
        else:
            differing_indices = racing_indices
        if differing_indices.size:
            self.raise_race(ctx, lanes, view, offsets, differing_indices[0], time, writer, 'written', 'written', site)
        else:
            self.warn_same_value(ctx, view, offsets[racing_indices[0]], site)

    def raise_race(self, ctx, lanes, view, offsets, i, times, threads, earlier_access, access, site):
        "Raise the data race of the lane `lanes[i]` with the access by `threads[i]` at `times[i]`, unless it is allowed"
        code = ctx.memory_order.race_code(ctx.group, lanes[i], times[i], threads[i])
        if ctx.is_allowed(code, site):
            return
        block, thread = ctx.group.position_of_thread(threads[i])
        entry_of_this_access = ctx.program.sites[site], view.name, ctx.call_sites
        entries = (entry for time, *entry in reversed(self.history) if time == times[i])
        other_site, name, callers = next(entries, entry_of_this_access)
        other = Access(
            other_site.line, block, thread, other_site.source, other_site.file, calls_of(other_site, callers)
        )
        fields = dict(before=earlier_access, now=access, **element_at(view, offsets[i]))
        if name != view.name:
            fields['second'] = tuple(element_at(view.mem.views[name], offsets[i]).values())
        elif any(not stride and np.max(n) > 1 for stride, n in zip(view.strides, view.shape)):
            fields['expanded'] = True
        raise ctx.finding('racecheck', code, site, reported_lane=lanes[i], other=other, **fields)

    def warn_same_value(self, ctx, view, offset, site):
        "Warn, once per source location, that several threads write the same value"
        location = ctx.program.sites[site]
        if location in self.warned_sites:
            return
        self.warned_sites.add(location)
        fields = dict(line=location.line, kernel=ctx.kernel, **element_at(view, offset))
        warn_of('same_value', 'python', fields)


class Detectors:
    "The four detectors, enabled by the options; `uses_shadow`: whether one of them needs the shadow memory"

    def __init__(self):
        self.memcheck = Memcheck(is_check_enabled('memcheck'))
        self.racecheck = Racecheck(is_check_enabled('racecheck'), are_indices_in_bounds=self.memcheck.enabled)
        self.initcheck = Initcheck(is_check_enabled('initcheck'), self.racecheck)
        self.synccheck = Synccheck(is_check_enabled('synccheck'))
        self.uses_shadow = self.racecheck.enabled or self.initcheck.enabled

    def relevant_readers(self, ctx, lanes, mem, offset):
        """Return those of `lanes`, which all read one element, that the detectors need to see.

        If the element was written long ago, these are the lowest and the highest, which the shadow keeps."""
        if len(lanes) < 3 or not self.uses_shadow:
            return lanes
        write_time = mem.shadow.write_time[offset]
        is_ordered = write_time <= self.racecheck.ordered_until(ctx.memory_order, mem)
        if not is_ordered or write_time == 0 and mem.tracks_init:
            return lanes
        return np.array([lanes.min(), lanes.max()])

    def read(self, ctx, lanes, view, offsets, site):
        "Check a read by `lanes` of the elements at `offsets` of the view `view`"
        write_times = view.mem.shadow.write_time[offsets]
        self.initcheck.read(ctx, lanes, view, offsets, write_times, site)
        if self.racecheck.enabled and self.racecheck.may_race(view.mem):
            self.racecheck.read(ctx, lanes, view, offsets, write_times, site)
            self.racecheck.record_site(ctx, view, site)

    def write(self, ctx, lanes, view, offsets, value, site, atomic=False):
        "Check a write of `value` by `lanes`; `value` is None for an atomic, which reads the elements, too"
        shadow = view.mem.shadow
        write_times = shadow.write_time[offsets]
        if atomic and value is None:
            self.initcheck.read(ctx, lanes, view, offsets, write_times, site)
        if self.racecheck.enabled and self.racecheck.may_race(view.mem):
            self.racecheck.write(ctx, lanes, view, offsets, write_times, value, site, atomic)
            self.racecheck.record_site(ctx, view, site)
        else:
            shadow.write_time[offsets] = ctx.now
