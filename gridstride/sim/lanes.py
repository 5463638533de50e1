"""Many threads as the lanes of NumPy arrays: masks, branches and loops.

A GPU typically executes the 32 threads of a warp (64 in an AMD wavefront) in lockstep and masks off those on the other
side of a branch. The simulator does the same with any number of threads: a local variable of a kernel is a NumPy array
with one element per thread, a *lane*, and a mask marks the active lanes. One addition in the kernel is one NumPy
addition for thousands of threads, and counting instructions, memory sectors and divergent branches is cheap.

A variable that is the same in all lanes (a *uniform* one) stays a scalar.
"""

from functools import cached_property, lru_cache

import numpy as np

from ..diagnostics.errors import NotSimulated

__all__ = ['UNDEF', 'Group', 'Undefined', 'truth', 'union', 'branch', 'merge', 'assign', 'Loop', 'Range', 'Items']


def _along(axis, n, size):
    "Return the coordinate along `axis` of the linear index `n` in a `dim3` of this size"
    if axis == 'x':
        return n % size.x
    return n // size.x % size.y if axis == 'y' else n // (size.x * size.y)


class _Lanes:
    "Index arrays shared by all groups of `count` blocks of shape `block`, wherever they are in the grid"

    # `local` and `warp` index NumPy arrays and use its index type; kernel values are int64. Both are needed where the
    # index type is 32-bit, as in a browser.
    def __init__(self, block, count, width):
        lane = np.arange(count * block.size)
        threads = block.size
        self.block, self.width = block, width
        self.local, self.t = lane // threads, (lane % threads).astype(np.int64)
        self.warp = self.local * -(-threads // width) + lane % threads // width
        self.lane = self.t % width
        self.all = np.ones(lane.size, bool)
        for array in (self.local, self.t, self.warp, self.lane, self.all):
            array.flags.writeable = False

    @cached_property
    def thread_idx(self):
        return {a: _along(a, self.t, self.block) for a in 'xyz'}

    @cached_property
    def rows(self):
        res = np.full((self.warp[-1] + 1, self.width), -1)
        res[self.warp, self.lane] = np.arange(self.t.size)
        return res


_lanes_of = lru_cache(maxsize=8)(_Lanes)  # repeated launches usually have the same shape


class Group:
    "The threads of blocks `first` to `first+count-1`, one lane each, in the order in which CUDA numbers them"

    def __init__(self, grid, block, first, count, width=32):  # width: threads of a warp
        self.grid = grid
        self.block = block
        self.first = first
        self.count = count
        self.threads = block.size
        self.size = count * self.threads
        self.width = width
        self.warps = -(-self.threads // width)  # per block
        self._lanes = lanes = _lanes_of(block, count, width)
        self.local = lanes.local  # index of the lane's block within the group
        self.t = lanes.t  # index of the thread within its block
        self.warp, self.lane = lanes.warp, lanes.lane
        self.b = first + self.local.astype(np.int64)  # index of the block within the grid
        self.id = first * self.threads + np.arange(self.size, dtype=np.int64)  # of the thread within the grid
        self.all = self.live = lanes.all  # live: lanes that have not returned
        self._block_idx = {}

    def idx(self, of, axis):
        "Return threadIdx or blockIdx along an axis, per lane"
        if of == 'thread':
            return self._lanes.thread_idx[axis]
        if axis not in self._block_idx:
            self._block_idx[axis] = _along(axis, self.b, self.grid)
        return self._block_idx[axis]

    def who(self, lane):
        "Return (block, thread) of a lane, each as (x, y, z)"
        return tuple(tuple(int(self.idx(of, a)[lane]) for a in 'xyz') for of in ('block', 'thread'))

    def who_is(self, i):
        "Return (block, thread) of the thread with index `i` in the grid, which may be in another group"
        b, t = divmod(int(i), self.threads)

        def at(n, s):
            return n % s.x, n // s.x % s.y, n // (s.x * s.y)

        return at(b, self.grid), at(t, self.block)

    @cached_property
    def _starts(self):
        "Per lane, the indices in the grid of the first thread of its block and of its warp"
        return self.id - self.t, self.id - self.lane

    def in_block(self, lanes, threads):
        "Return, per lane of `lanes`, whether the corresponding thread (grid index) is in the same block"
        first = self._starts[0][lanes]
        return (threads >= first) & (threads < first + self.threads)

    def in_warp(self, lanes, threads):
        "Return, per lane of `lanes`, whether the corresponding thread (grid index) is in the same warp"
        first = self._starts[1][lanes]
        return self.in_block(lanes, threads) & (threads >= first) & (threads < first + self.width)

    def rows(self):
        "Return lane indices as (warps, lanes of a warp); -1 where the last warp of a block has no thread"
        return self._lanes.rows


class Undefined:
    "The value of an unassigned local variable"

    def __repr__(self):
        return 'undefined'


UNDEF = Undefined()


# A mask is a boolean array, or None if no lane is active. Variables need merging only if a branch diverges, which most
# do not.
def truth(c):
    """Convert `c` to booleans.

    >>> truth(np.array([0, 2]))
    array([False,  True])"""
    if np.ndim(c) == 0:
        return bool(c)
    return c if c.dtype == bool else c != 0


def union(a, b):
    "Return the lanes of either mask"
    return b if a is None else a if b is None else a | b


def branch(m, c):
    """Split the lanes of `m` by `c`: those where it is true and those where it is false; None if there are none.

    >>> branch(np.array([True, True, False]), np.array([True, False, True]))
    (array([ True, False, False]), array([False,  True, False]))"""
    c = truth(c)
    if isinstance(c, bool):
        return (m, None) if c else (None, m)
    # Where all active lanes take the same side, `m` itself is returned: a uniform branch then merges nothing.
    yes = c & m
    n = np.count_nonzero(yes)
    if not n:
        return None, m
    if n == np.count_nonzero(m):
        return m, None
    return yes, m & ~c


def _kind(value):
    "Return what a variable is, for a message"
    if isinstance(value, (np.ndarray, np.generic, int, float)):
        return 'a number'
    return 'an array' if hasattr(value, 'strides') else repr(value)


def merge(m, new, old):
    "Return `new` in the lanes of `m`, `old` in the others"
    if old is UNDEF or new is old:
        return new
    if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
        return tuple(merge(m, a, b) for a, b in zip(new, old))
    if hasattr(new, 'merge'):
        return new.merge(m, old)
    # `cuda.laneid` and device arrays have `__array__` but are not ndarrays.
    new, old = (
        np.asarray(value) if hasattr(value, '__array__') and not isinstance(value, (np.ndarray, np.generic)) else value
        for value in (new, old)
    )
    if not (
        isinstance(new, (np.ndarray, np.generic, int, float)) and isinstance(old, (np.ndarray, np.generic, int, float))
    ):
        hint = 'Numbers are written to an array: `out[i] = ...`.' if 'an array' in (_kind(new), _kind(old)) else ''
        raise NotSimulated(f'a variable that is {_kind(new)} in some threads and {_kind(old)} in others', hint)
    if np.ndim(new) == np.ndim(old) == 0 and new == old and type(new) is type(old):
        return new
    return np.where(m, new, old)


def assign(d, m, new, old):
    "Return a variable after `new` was assigned in the lanes `m`; `d`: whether inactive lanes still need the old value"
    return merge(m, new, old) if d else new


# A loop goes on until no lane is active. Lanes that leave early, by `break` or because their condition fails, wait at
# its end.
class Loop:
    "A `while` loop: which lanes are in it, and which have left"

    iterations, changes = 0, None  # iterations since memory last changed, and the change count at that point
    spinning = stuck = False  # spinning: no recent change; stuck: nothing can change unless another block does it

    def __init__(self, m, d):
        self.m, self.d0, self.d, self.brk, self.cont, self.done = m, d, d, None, None, None

    def split(self):
        "Return whether some lanes left and will rejoin after the loop"
        return self.d0 or self.brk is not None or self.cont is not None or self.done is not None

    def test(self, c):
        "Remove the lanes where `c` is false; return whether one is still active"
        self.m, no = branch(self.m, c)
        self.done = union(self.done, no)
        self.d = self.split()
        return self.m is not None

    def end(self, m):
        "End an iteration: `m` are the lanes that reached the end of the body"
        self.m = union(m, self.cont)
        self.cont = None
        self.d = self.split()

    def out(self):
        "Return the lanes that are active after the loop"
        return union(union(self.m, self.done), self.brk)


class Range(Loop):
    "A `for` loop over `range`, with uniform or per-lane bounds"

    def __init__(self, m, d, *args):
        super().__init__(m, d)
        if any(np.asarray(bound).dtype.kind not in 'biu' for bound in args):
            raise NotSimulated('a range of a number that is not an integer; use //, or int(...)')
        self.start, self.stop, self.step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args

    def __iter__(self):
        if all(np.ndim(bound) == 0 for bound in (self.start, self.stop, self.step)):
            for i in range(int(self.start), int(self.stop), int(self.step)):
                if self.m is None:
                    return
                yield np.int64(i)
        else:
            i, step = np.asarray(self.start).astype(np.int64), np.asarray(self.step).astype(np.int64)
            while self.m is not None and self.test(np.where(step > 0, i < self.stop, i > self.stop)):
                yield i
                i = i + step  # inactive lanes keep counting, harmlessly


class Items(Loop):
    "A `for` loop over a tuple"

    def __init__(self, m, d, items):
        super().__init__(m, d)
        if not isinstance(items, (tuple, list, range)):
            raise NotSimulated(f'a loop over {type(items).__name__}; loop over range(...)')
        self.items = items

    def __iter__(self):
        for item in self.items:
            if self.m is None:
                return
            yield item
