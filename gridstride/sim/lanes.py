"""Many threads as the lanes of NumPy arrays: masks, branches and loops.

A GPU typically executes the 32 threads of a warp (64 in an AMD wavefront) in lockstep and masks off those that do not
take a branch. The simulator does the same with any number of threads. A local variable of a kernel is a NumPy array
with one element per thread, and each thread is a *lane*. A mask marks the active lanes. One addition in the kernel is
one NumPy addition for thousands of threads, and counting instructions, memory sectors and divergent branches is cheap.

A variable that is the same in all lanes (a *uniform* one) stays a scalar.

A *lane* is always an index into these arrays; the index of a thread within its warp is `laneid`, as in CUDA. The
threads that run at once are a `Group`: the threads of one block, or of several consecutive blocks.
"""

from functools import cached_property, lru_cache

import numpy as np

from ..diagnostics.errors import NotSimulated

__all__ = [
    'UNDEF',
    'Group',
    'Undefined',
    'truth',
    'union',
    'branch',
    'merge',
    'assign',
    'Loop',
    'RangeLoop',
    'TupleLoop',
]


def _coordinate(axis, linear_index, size):
    "Return the coordinate along `axis` of a linear index into a `dim3` of this size"
    if axis == 'x':
        return linear_index % size.x
    return linear_index // size.x % size.y if axis == 'y' else linear_index // (size.x * size.y)


class _Lanes:
    "The index arrays of a group; they do not depend on the position of the group in the grid"

    # `block_in_group` and `warp_in_group` index NumPy arrays, so they have NumPy's index type, which has 32 bits in a
    # browser; `thread_index` and `laneid` are values of the kernel, so they are int64.
    def __init__(self, block_dim, num_blocks, warp_size):
        lanes = np.arange(num_blocks * block_dim.size)
        threads_per_block = block_dim.size
        warps_per_block = -(-threads_per_block // warp_size)
        self.block_dim = block_dim
        self.warp_size = warp_size
        self.block_in_group = lanes // threads_per_block
        self.thread_index = (lanes % threads_per_block).astype(np.int64)
        self.warp_in_group = self.block_in_group * warps_per_block + lanes % threads_per_block // warp_size
        self.laneid = self.thread_index % warp_size
        self.all_lanes = np.ones(lanes.size, bool)
        for array in (self.block_in_group, self.thread_index, self.warp_in_group, self.laneid, self.all_lanes):
            array.flags.writeable = False

    @cached_property
    def thread_idx(self):
        return {axis: _coordinate(axis, self.thread_index, self.block_dim) for axis in 'xyz'}

    @cached_property
    def lanes_by_warp(self):
        lanes = np.full((self.warp_in_group[-1] + 1, self.warp_size), -1)
        lanes[self.warp_in_group, self.laneid] = np.arange(self.thread_index.size)
        return lanes


_lanes_of = lru_cache(maxsize=8)(_Lanes)  # repeated launches usually have the same shape


class Group:
    "The threads of `num_blocks` blocks from `first_block` on, one lane each, in the order of CUDA"

    def __init__(self, grid_dim, block_dim, first_block, num_blocks, warp_size=32):
        self.grid_dim = grid_dim
        self.block_dim = block_dim
        self.first_block = first_block
        self.num_blocks = num_blocks
        self.threads_per_block = block_dim.size
        self.size = num_blocks * self.threads_per_block
        self.warp_size = warp_size
        self.warps_per_block = -(-self.threads_per_block // warp_size)
        self._lanes = lanes = _lanes_of(block_dim, num_blocks, warp_size)
        # Per lane:
        self.block_in_group = lanes.block_in_group  # index of its block within the group
        self.warp_in_group = lanes.warp_in_group  # index of its warp within the group
        self.thread_index = lanes.thread_index  # linear index of its thread within the block
        self.laneid = lanes.laneid  # index of its thread within the warp
        self.block_index = first_block + self.block_in_group.astype(np.int64)  # index of its block within the grid
        first_thread = first_block * self.threads_per_block
        self.thread_ids = first_thread + np.arange(self.size, dtype=np.int64)  # linear index of its thread in the grid
        self.all_lanes = lanes.all_lanes  # a mask of all lanes; functions compare masks with it by `is`
        self.live_lanes = lanes.all_lanes  # a mask of the lanes that have not returned
        self._block_idx = {}

    def index(self, level, axis):  # level: 'thread' or 'block'
        "Return threadIdx or blockIdx along an axis, per lane"
        if level == 'thread':
            return self._lanes.thread_idx[axis]
        if axis not in self._block_idx:
            self._block_idx[axis] = _coordinate(axis, self.block_index, self.grid_dim)
        return self._block_idx[axis]

    def coordinate(self, level, axis):
        "Return threadIdx or blockIdx along an axis, as kernels see it: with one lane, it is uniform, so a scalar"
        return self.index(level, axis)[0] if self.size == 1 else self.index(level, axis)

    def position(self, lane):
        "Return (block, thread) of a lane, each as (x, y, z)"
        return tuple(tuple(int(self.index(level, axis)[lane]) for axis in 'xyz') for level in ('block', 'thread'))

    def position_of_thread(self, thread_id):
        "Return (block, thread), each as (x, y, z), of the thread with this linear index in the grid"
        block, thread = divmod(int(thread_id), self.threads_per_block)

        def coordinates(linear_index, size):
            return linear_index % size.x, linear_index // size.x % size.y, linear_index // (size.x * size.y)

        return coordinates(block, self.grid_dim), coordinates(thread, self.block_dim)

    @cached_property
    def _first_threads(self):
        "Return, per lane, (id of the first thread of its block, id of the first thread of its warp)"
        return self.thread_ids - self.thread_index, self.thread_ids - self.laneid

    def is_in_block(self, lanes, threads):
        "Return, per lane, whether a thread is in the lane's block; `threads` has one linear index in the grid per lane"
        first_thread = self._first_threads[0][lanes]
        return (threads >= first_thread) & (threads < first_thread + self.threads_per_block)

    def is_in_warp(self, lanes, threads):
        "Return, per lane, whether a thread is in the lane's warp; `threads` has one linear index in the grid per lane"
        first_thread = self._first_threads[1][lanes]
        return self.is_in_block(lanes, threads) & (threads >= first_thread) & (threads < first_thread + self.warp_size)

    def lanes_by_warp(self):
        "Return the lanes as an array (warps, lanes of a warp); -1 where the last warp of a block has no thread"
        return self._lanes.lanes_by_warp


class Undefined:
    "The value of an unassigned local variable"

    def __repr__(self):
        return 'undefined'


UNDEF = Undefined()


# A mask is a boolean array with one element per lane, or None if no lane is active. `active` is the mask of the lanes
# that execute the current statement. An `if` splits it in two (`branch`), and both branches run one after the other,
# each under its own mask; afterwards the two masks are merged (`union`). `diverged` is true while inactive lanes will
# become active again: only then must an assignment keep their old values (`assign`). Most branches do not diverge.
def truth(condition):
    """Convert `condition` to booleans.

    >>> truth(np.array([0, 2]))
    array([False,  True])"""
    if np.ndim(condition) == 0:
        return bool(condition)
    return condition if condition.dtype == bool else condition != 0


def union(a, b):
    "Return the union of two masks"
    return b if a is None else a if b is None else a | b


def branch(active, condition):
    """Split a mask into the lanes where `condition` is true and those where it is false; None for an empty mask.

    >>> branch(np.array([True, True, False]), np.array([True, False, True]))
    (array([ True, False, False]), array([False,  True, False]))"""
    condition = truth(condition)
    if isinstance(condition, bool):
        return (active, None) if condition else (None, active)
    # If all active lanes take the same branch, return `active` itself, so that a uniform branch needs no merge.
    true_lanes = condition & active
    num_true = np.count_nonzero(true_lanes)
    if not num_true:
        return None, active
    if num_true == np.count_nonzero(active):
        return active, None
    return true_lanes, active & ~condition


def _describe(value):
    "Describe a value for a message"
    if isinstance(value, (np.ndarray, np.generic, int, float)):
        return 'a number'
    return 'an array' if hasattr(value, 'strides') else repr(value)


def merge(mask, new_value, old_value):
    "Return `new_value` in the lanes of `mask`, `old_value` in the others"
    if old_value is UNDEF or new_value is old_value:
        return new_value
    if type(new_value) is type(old_value) is np.ndarray:  # the common case, without the checks below
        return np.where(mask, new_value, old_value)
    if isinstance(new_value, tuple) and isinstance(old_value, tuple) and len(new_value) == len(old_value):
        return tuple(merge(mask, new_item, old_item) for new_item, old_item in zip(new_value, old_value))
    if hasattr(new_value, 'merge'):
        return new_value.merge(mask, old_value)
    # `cuda.laneid` and device arrays have `__array__` but are not ndarrays.
    new_value, old_value = (
        np.asarray(value) if hasattr(value, '__array__') and not isinstance(value, (np.ndarray, np.generic)) else value
        for value in (new_value, old_value)
    )
    if not (
        isinstance(new_value, (np.ndarray, np.generic, int, float))
        and isinstance(old_value, (np.ndarray, np.generic, int, float))
    ):
        hint = (
            'Write a number to an array with `out[i] = ...`.'
            if 'an array' in (_describe(new_value), _describe(old_value))
            else ''
        )
        raise NotSimulated(
            f'a variable cannot be {_describe(new_value)} in some threads and {_describe(old_value)} in others', hint
        )
    if np.ndim(new_value) == np.ndim(old_value) == 0 and new_value == old_value and type(new_value) is type(old_value):
        return new_value
    return np.where(mask, new_value, old_value)


def assign(diverged, active, new_value, old_value):
    "Return the value of a variable after `new_value` is assigned to it in the lanes of `active`"
    return merge(active, new_value, old_value) if diverged else new_value


class Loop:
    """A `while` loop, which runs until no lane is active: its active lanes, and those that wait after it.

    Lanes that leave early, by `break` or because their condition is false, become active again after the loop."""

    num_idle_iterations = 0  # since the last write to memory
    progress_count = None  # the context's `progress_count` when `num_idle_iterations` was 0
    is_spinning = False  # whether nothing has been written for some iterations
    is_endless = False  # whether the loop never ends unless another block writes

    def __init__(self, active, diverged):
        self.mask = active  # the lanes that execute the current iteration
        self.diverged_outside = diverged
        self.diverged = diverged
        self.break_lanes = None  # lanes that left the loop by `break`
        self.continuing_lanes = None  # lanes that wait for the next iteration
        self.finished_lanes = None  # lanes whose condition was false

    def has_waiting_lanes(self):
        "Return whether there are inactive lanes that become active again, in the loop or after it"
        return (
            self.diverged_outside
            or self.break_lanes is not None
            or self.continuing_lanes is not None
            or self.finished_lanes is not None
        )

    def test(self, condition):
        "Deactivate the lanes where `condition` is false; return whether a lane is still active"
        self.mask, inactive = branch(self.mask, condition)
        self.finished_lanes = union(self.finished_lanes, inactive)
        self.diverged = self.has_waiting_lanes()
        return self.mask is not None

    def end_iteration(self, active):
        "End an iteration: `active` are the lanes that reached the end of the body"
        self.mask = union(active, self.continuing_lanes)
        self.continuing_lanes = None
        self.diverged = self.has_waiting_lanes()

    def active_after(self):
        "Return the mask of the lanes that are active after the loop"
        return union(union(self.mask, self.finished_lanes), self.break_lanes)


class RangeLoop(Loop):
    "A `for` loop over `range`, with uniform or per-lane bounds"

    def __init__(self, active, diverged, *args):
        super().__init__(active, diverged)
        if any(np.asarray(bound).dtype.kind not in 'biu' for bound in args):
            raise NotSimulated('the bounds of range() must be integers; use //, or int(...)')
        self.start, self.stop, self.step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args

    def __iter__(self):
        if all(np.ndim(bound) == 0 for bound in (self.start, self.stop, self.step)):
            for value in range(int(self.start), int(self.stop), int(self.step)):
                if self.mask is None:
                    return
                yield np.int64(value)
        else:
            value, step = np.asarray(self.start).astype(np.int64), np.asarray(self.step).astype(np.int64)
            while self.mask is not None and self.test(np.where(step > 0, value < self.stop, value > self.stop)):
                yield value
                value = value + step  # in inactive lanes, too, but nothing reads their values


class TupleLoop(Loop):
    "A `for` loop over a tuple"

    def __init__(self, active, diverged, items):
        super().__init__(active, diverged)
        if not isinstance(items, (tuple, list, range)):
            raise NotSimulated(f'a loop cannot iterate over a {type(items).__name__}; loop over range(...)')
        self.items = items

    def __iter__(self):
        for item in self.items:
            if self.mask is None:
                return
            yield item
