"""CUDA's intrinsics: thread and block indices, shared and local arrays, barriers, fences, the grid group."""

import functools
import inspect
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..diagnostics.errors import NotSimulated
from ..diagnostics.launch_config import LIMITS
from ..utils import cdiv
from .lanes import truth
from .memory import Mem, View, as_dtype
from .records import Records, allocate_array, wrap_array
from .run import LaunchContext

__all__ = ['blockDim', 'blockIdx', 'cg', 'const', 'grid', 'gridDim', 'gridsize', 'laneid', 'local', 'nanosleep']
__all__ += ['shared', 'syncthreads', 'syncthreads_and', 'syncthreads_count', 'syncthreads_or', 'syncwarp', 'threadIdx']
__all__ += ['threadfence', 'threadfence_block', 'threadfence_system']


def intrinsic(fn, name=None) -> Any:  # name: in messages; None: the name of `fn`
    """Decorate a function that only kernels can call; a call by the host raises `RuntimeError`.

    `f(ctx, active, site, ...)` computes the result in the lanes of `active`; it becomes the attribute `lane_function`,
    which `operations.call` calls."""

    @functools.wraps(fn)
    def host_function(*args, **kw):
        raise RuntimeError(f'cuda.{host_function.__name__} works only inside a kernel')

    host_function.lane_function = fn
    host_function.__name__ = name or fn.__name__
    host_function.__signature__ = inspect.Signature([*inspect.signature(fn).parameters.values()][3:])
    return host_function


def _current_launch():
    if LaunchContext.current is None:
        raise RuntimeError('threadIdx, blockIdx, blockDim and gridDim exist only inside a kernel')
    return LaunchContext.current


class _Dim3:
    "A `dim3`, with the components x, y and z; using it as a number raises `TypeError`"

    def __init__(self, name, attribute):
        self.name, self.attribute = name, attribute

    def _raise_not_a_number(self, *_):
        raise TypeError(f'cuda.{self.name} is not a number: use cuda.{self.name}.x (or .y, .z)')

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _raise_not_a_number
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __index__ = __bool__ = _raise_not_a_number
    __lt__ = __le__ = __gt__ = __ge__ = _raise_not_a_number


class _Index(_Dim3):
    "threadIdx or blockIdx"

    def __getattr__(self, axis):
        if axis not in ('x', 'y', 'z'):
            raise AttributeError(f'cuda.{self.name} has .x, .y and .z, but no .{axis}')
        return _current_launch().group.coordinate(self.attribute, axis)


class _Extent(_Dim3):
    "blockDim or gridDim"

    def __getattr__(self, axis):
        if axis not in ('x', 'y', 'z'):
            raise AttributeError(f'cuda.{self.name} has .x, .y and .z, but no .{axis}')
        return np.int64(getattr(getattr(_current_launch(), self.attribute), axis))


class Namespace(SimpleNamespace):
    "A namespace of functions for kernels, such as cuda.shared or cuda.atomic"

    def __repr__(self):
        return 'cuda.' + next(iter(vars(self).values())).__name__.partition('.')[0]

    def __getattr__(self, k):
        raise AttributeError(f'{self} has no {k!r}')

    __hash__ = object.__hash__


threadIdx, blockIdx = _Index('threadIdx', 'thread'), _Index('blockIdx', 'block')
blockDim, gridDim = _Extent('blockDim', 'block'), _Extent('gridDim', 'grid')


class _LaneId(np.lib.mixins.NDArrayOperatorsMixin):
    "The index of the thread within its warp"

    def __array__(self, dtype=None, copy=None):
        return _current_launch().group.laneid

    def __array_ufunc__(self, ufunc, method, *args, **kw):
        return getattr(ufunc, method)(*(np.asarray(arg) if arg is self else arg for arg in args), **kw)


laneid = _LaneId()


def _per_axis(ndim, component):
    "Return `component(axis)` for the first `ndim` of the axes x, y and z: a number for one axis, else a tuple"
    if np.ndim(ndim) or ndim not in (1, 2, 3):
        raise ValueError(f'ndim must be 1, 2 or 3; got {ndim}')
    components = tuple(component(axis) for axis in 'xyz'[: int(ndim)])
    return components[0] if len(components) == 1 else components


@intrinsic
def grid(ctx, active, site, ndim):
    "Return the thread's index in the grid: `blockDim*blockIdx + threadIdx`, along `ndim` axes"
    return _per_axis(
        ndim,
        lambda axis: (
            ctx.group.coordinate('block', axis) * getattr(ctx.block, axis) + ctx.group.coordinate('thread', axis)
        ),
    )


@intrinsic
def gridsize(ctx, active, site, ndim):
    "Return the number of threads of the grid, along `ndim` axes"
    return _per_axis(ndim, lambda axis: np.int64(getattr(ctx.block, axis) * getattr(ctx.grid, axis)))


# A shared or local array belongs to the source location of the call that allocates it: two calls on one line allocate
# two arrays, and a call in a loop allocates one.
def _check_shape(ctx, active, site, shape):
    "Return the shape of an array as a tuple of ints; raises `NotSimulated` if threads differ or a size is negative"
    shape = shape if isinstance(shape, tuple) else (shape,)
    if any(np.ndim(size) for size in shape):
        raise ctx.unsupported_error(site, active, 'all threads must allocate an array of the same size')
    if any(int(size) < 0 for size in shape):
        raise ctx.unsupported_error(
            site, active, f'an array cannot have {" x ".join(map(str, shape))} elements', 'Sizes must not be negative.'
        )
    return tuple(int(size) for size in shape)


def _dynamic_shared(ctx, dtype):
    "Return the block's dynamic shared memory as an array of `dtype`"
    if dtype.names:
        problem = 'dynamic shared memory cannot have records as elements'
        raise NotSimulated(problem, 'Use a static size: cuda.shared.array(32, dtype).')
    padded_bytes = cdiv(ctx.dynamic_shared_bytes, 16) * 16
    raw_bytes = ctx.block_arrays.setdefault(
        ('dynamic', 'bytes'), np.zeros((ctx.group.num_blocks, padded_bytes), np.uint8)
    )
    memory = Mem(raw_bytes.reshape(-1).view(dtype), None, 'shared', tracks_init=True)
    memory.is_dynamic = True
    offset = ctx.group.block_in_group * (padded_bytes // dtype.itemsize) if ctx.group.num_blocks > 1 else 0
    return View(memory, offset, (np.int64(ctx.dynamic_shared_bytes // dtype.itemsize),), (1,))


def _shared_array(ctx, active, site, shape, dtype):
    "Make a shared array; shape 0 means the dynamic shared memory of the launch"
    shape = _check_shape(ctx, active, site, shape)
    dtype = as_dtype(dtype)
    key = ('dynamic', dtype) if shape == (0,) else (ctx.program, site)
    if key not in ctx.block_arrays:
        group = ctx.group
        ctx.require_resident(ctx.shared_bytes + math.prod(shape) * dtype.itemsize)
        array = (
            _dynamic_shared(ctx, dtype)
            if shape == (0,)
            else allocate_array(shape, dtype, 'shared', group.num_blocks, group.block_in_group)
        )
        ctx.block_arrays[key] = array
        if ctx.shared_bytes > LIMITS.shared:
            raise ctx.finding('launch', 'shared_arrays', site, bytes=ctx.shared_bytes, limit=LIMITS.shared)
    return ctx.block_arrays[key].renamable_copy()


def _local_array(ctx, active, site, shape, dtype):
    "Make a local array of the thread"
    key = ('local', ctx.program, site)
    num_lanes = ctx.group.size
    if key not in ctx.block_arrays:
        shape = _check_shape(ctx, active, site, shape)
        ctx.block_arrays[key] = allocate_array(shape, as_dtype(dtype), 'local', num_lanes, np.arange(num_lanes))
    return ctx.block_arrays[key].renamable_copy()


def _const_like(ctx, active, site, a):
    "Return `a` as a constant array"
    return a if isinstance(a, (View, Records)) else wrap_array(np.asarray(a), 'const', {})


shared = Namespace(array=intrinsic(_shared_array, 'shared.array'))
local = Namespace(array=intrinsic(_local_array, 'local.array'))
const = Namespace(array_like=intrinsic(_const_like, 'const.array_like'))


@intrinsic
def syncthreads(ctx, active, site):
    "Wait at a barrier for all threads of the block"
    ctx.barrier(active, site)


def _count_at_barrier(ctx, active, site, predicate):
    "Wait at a barrier; returns, per lane, (number of threads at the barrier, number with a true predicate)"
    ctx.barrier(active, site)
    is_true = active & truth(np.broadcast_to(predicate, ctx.group.size))
    return (
        np.bincount(ctx.group.block_in_group[mask], minlength=ctx.group.num_blocks)[ctx.group.block_in_group]
        for mask in (active, is_true)
    )


@intrinsic
def syncthreads_count(ctx, active, site, predicate):
    "Wait at a barrier; returns the number of threads whose predicate is true"
    num_arrived, num_true = _count_at_barrier(ctx, active, site, predicate)
    return num_true.astype(np.int64)


@intrinsic
def syncthreads_and(ctx, active, site, predicate):
    "Wait at a barrier; returns 1 if the predicate is true for all threads of the block, else 0"
    num_arrived, num_true = _count_at_barrier(ctx, active, site, predicate)
    return (num_true == num_arrived).astype(np.int64)


@intrinsic
def syncthreads_or(ctx, active, site, predicate):
    "Wait at a barrier; returns 1 if the predicate is true for any thread of the block, else 0"
    num_arrived, num_true = _count_at_barrier(ctx, active, site, predicate)
    return (num_true > 0).astype(np.int64)


@intrinsic
def syncwarp(ctx, active, site, mask=-1):
    "Wait at a barrier for the lanes of the warp in `mask`"
    ctx.detectors.synccheck.check_mask(ctx, active, mask, site, 'syncwarp')
    ctx.now += 1
    ctx.memory_order.warp_barrier(ctx.group, np.flatnonzero(active), ctx.now)


def _fence(ctx, active, device_scope):
    ctx.memory_order.fence(ctx.group, np.flatnonzero(active), ctx.now, device_scope)


@intrinsic
def threadfence(ctx, active, site):
    "Order the thread's earlier writes before its later ones, for all threads of the device"
    _fence(ctx, active, True)


@intrinsic
def threadfence_block(ctx, active, site):
    "Order the thread's earlier writes before its later ones, for the threads of its block"
    _fence(ctx, active, False)


@intrinsic
def threadfence_system(ctx, active, site):
    "Order the thread's earlier writes before its later ones, for the host and other devices, too"
    _fence(ctx, active, True)


@intrinsic
def nanosleep(ctx, active, site, ns):
    "Do nothing: time is not modelled"


class _GridGroup:
    "The grid as a cooperative group"

    def __init__(self):
        self.sync = intrinsic(_grid_sync, 'cg.this_grid().sync')


def _grid_sync(ctx, active, site):
    ctx.detectors.synccheck.check_grid_barrier(ctx, active, site)
    ctx.barrier(active, site)
    if ctx.program.may_spin:
        return _wait_at_grid_barrier(ctx, active, site)
    ctx.grid_barrier()


def _wait_at_grid_barrier(ctx, active, site):
    "Wait at the grid barrier if blocks run one by one; yields until all blocks have arrived"
    blocks_at_barrier = ctx.blocks_at_grid_barrier
    blocks_at_barrier.add(ctx.group.first_block)
    if len(blocks_at_barrier) == ctx.grid.size:
        ctx.blocks_at_grid_barrier = set()
        ctx.grid_barrier()
        ctx.progress_count += 1
    while ctx.blocks_at_grid_barrier is blocks_at_barrier:
        if ctx.deadlock is not None:
            absent_block = next(b for b in range(ctx.grid.size) if b not in blocks_at_barrier)
            ctx.detectors.synccheck.raise_grid_diverged(
                ctx, active, site, *ctx.group.position_of_thread(absent_block * ctx.block.size)
            )
        yield True


def _this_grid(ctx, active, site):
    "Return the grid as a group, whose `sync` is a grid-wide barrier"
    return _GridGroup()


cg = SimpleNamespace(this_grid=intrinsic(_this_grid, 'this_grid'))
