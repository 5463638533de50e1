"""CUDA's intrinsics: thread and block indices, shared and local arrays, barriers, fences, the grid as a group."""

import functools
import inspect
import math
from types import SimpleNamespace

import numpy as np

from ..diagnostics.errors import NotSimulated
from ..diagnostics.launch_config import LIMITS
from ..utils import cdiv
from .lanes import truth
from .memory import Mem, View, as_dtype, wrap
from .records import fresh_array
from .run import LaunchContext

__all__ = ['blockDim', 'blockIdx', 'cg', 'const', 'grid', 'gridDim', 'gridsize', 'laneid', 'local', 'nanosleep']
__all__ += ['shared', 'syncthreads', 'syncthreads_and', 'syncthreads_count', 'syncthreads_or', 'syncwarp', 'threadIdx']
__all__ += ['threadfence', 'threadfence_block', 'threadfence_system']


def intrinsic(f, name=None):  # name: as the host knows it, if not as `f`
    "Make a function for kernels: `f(run, m, site, ...)` computes it for the lanes of the mask `m`"

    @functools.wraps(f)
    def host(*args, **kw):
        raise RuntimeError(f'cuda.{host.__name__} works inside a kernel only')

    host.lanes = f
    host.__name__ = name or f.__name__
    host.__signature__ = inspect.Signature([*inspect.signature(f).parameters.values()][3:])
    return host


def _run():
    if LaunchContext.current is None:
        raise RuntimeError('threadIdx, blockIdx and the like exist inside a kernel only')
    return LaunchContext.current


class _Parts:
    "A value with three components, x, y and z; it is not a number itself"

    def __init__(self, name, of):
        self.name, self.of = name, of

    def _is_none(self, *_):
        raise TypeError(f'cuda.{self.name} is not a number: take cuda.{self.name}.x (or .y, .z)')

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _is_none
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __index__ = __bool__ = _is_none
    __lt__ = __le__ = __gt__ = __ge__ = _is_none


class _Index(_Parts):
    "threadIdx or blockIdx"

    def __getattr__(self, axis):
        if axis not in ('x', 'y', 'z'):
            raise AttributeError(f'cuda.{self.name} has .x, .y and .z, and no .{axis}')
        return _run().g.idx(self.of, axis)


class _Dim(_Parts):
    "blockDim or gridDim"

    def __getattr__(self, axis):
        if axis not in ('x', 'y', 'z'):
            raise AttributeError(f'cuda.{self.name} has .x, .y and .z, and no .{axis}')
        return np.int64(getattr(getattr(_run(), self.of), axis))


class Namespace(SimpleNamespace):
    "A namespace of functions for kernels, such as cuda.shared or cuda.atomic"

    def __repr__(self):
        return 'cuda.' + next(iter(vars(self).values())).__name__.partition('.')[0]

    def __getattr__(self, k):
        raise AttributeError(f'{self} has no {k!r}')

    __hash__ = object.__hash__


threadIdx, blockIdx = _Index('threadIdx', 'thread'), _Index('blockIdx', 'block')
blockDim, gridDim = _Dim('blockDim', 'block'), _Dim('gridDim', 'grid')


class _LaneId(np.lib.mixins.NDArrayOperatorsMixin):
    "The index of the thread within its warp"

    def __array__(self, dtype=None, copy=None):
        return _run().g.lane

    def __array_ufunc__(self, ufunc, method, *args, **kw):
        return getattr(ufunc, method)(*(np.asarray(arg) if arg is self else arg for arg in args), **kw)


laneid = _LaneId()


def _axes(n, f):
    if np.ndim(n) or n not in (1, 2, 3):
        raise ValueError(f'a grid has 1, 2 or 3 axes, and ndim is {n}')
    res = tuple(f(a) for a in 'xyz'[: int(n)])
    return res[0] if len(res) == 1 else res


@intrinsic
def grid(run, m, site, ndim):
    "Return the thread's index in the grid: `blockDim*blockIdx + threadIdx`, along `ndim` axes"
    return _axes(ndim, lambda a: run.g.idx('block', a) * getattr(run.block, a) + run.g.idx('thread', a))


@intrinsic
def gridsize(run, m, site, ndim):
    "Return the number of threads of the grid, along `ndim` axes"
    return _axes(ndim, lambda a: np.int64(getattr(run.block, a) * getattr(run.grid, a)))


# An array belongs to the source location that makes it: two calls on one line make two arrays.
def _shape(run, m, site, shape):
    shape = shape if isinstance(shape, tuple) else (shape,)
    if any(np.ndim(size) for size in shape):
        raise run.refusal(site, m, 'an array whose size differs from thread to thread')
    if any(int(size) < 0 for size in shape):
        raise run.refusal(site, m, f'an array of {" x ".join(map(str, shape))} elements', 'No size is below 0.')
    return tuple(int(size) for size in shape)


def _dynamic(run, dtype):
    "Return the block's dynamic shared memory as an array of `dtype`"
    if dtype.names:
        raise NotSimulated('dynamic shared memory as records', 'Give its size: cuda.shared.array(32, dtype).')
    pad = cdiv(run.dynamic, 16) * 16
    raw = run.shared.setdefault(('dynamic', 'bytes'), np.zeros((run.g.count, pad), np.uint8))
    mem = Mem(raw.reshape(-1).view(dtype), None, 'shared', fresh=True)
    mem.dynamic = True
    off = run.g.local * (pad // dtype.itemsize) if run.g.count > 1 else 0
    return View(mem, off, (np.int64(run.dynamic // dtype.itemsize),), (1,))


def _shared_array(run, m, site, shape, dtype):
    "Make a shared array; shape 0 means the dynamic shared memory of the launch"
    shape = _shape(run, m, site, shape)
    dtype = as_dtype(dtype)
    key = ('dynamic', dtype) if shape == (0,) else (run.program, site)
    if key not in run.shared:
        g = run.g
        run.require_resident(run.shared_bytes + math.prod(shape) * dtype.itemsize)
        fresh = _dynamic(run, dtype) if shape == (0,) else fresh_array(shape, dtype, 'shared', g.count, g.local)
        run.shared[key] = fresh
        if run.shared_bytes > LIMITS.shared:
            raise run.finding('launch', 'shared_arrays', site, bytes=run.shared_bytes, most=LIMITS.shared)
    return run.shared[key].again()


def _local_array(run, m, site, shape, dtype):
    "Make a local array of the thread"
    key = ('local', run.program, site)
    n = run.g.size
    if key not in run.shared:
        shape = _shape(run, m, site, shape)
        run.shared[key] = fresh_array(shape, as_dtype(dtype), 'local', n, np.arange(n))
    return run.shared[key].again()


def _const_like(run, m, site, a):
    "Make a constant array"
    return a if isinstance(a, View) else wrap(np.asarray(a), 'const', {})


shared = Namespace(array=intrinsic(_shared_array, 'shared.array'))
local = Namespace(array=intrinsic(_local_array, 'local.array'))
const = Namespace(array_like=intrinsic(_const_like, 'const.array_like'))


@intrinsic
def syncthreads(run, m, site):
    "Wait at a barrier for all threads of the block"
    run.barrier(m, site)


def _count_at_barrier(run, m, site, predicate):
    "Wait as `syncthreads`; returns per lane how many threads of its block arrived, and how many have a true predicate"
    run.barrier(m, site)
    true = m & truth(np.broadcast_to(predicate, run.g.size))
    return (np.bincount(run.g.local[mask], minlength=run.g.count)[run.g.local] for mask in (m, true))


@intrinsic
def syncthreads_count(run, m, site, predicate):
    "Wait at a barrier; returns the number of threads whose predicate is true"
    here, true = _count_at_barrier(run, m, site, predicate)
    return true.astype(np.int64)


@intrinsic
def syncthreads_and(run, m, site, predicate):
    "Wait at a barrier; returns 1 if the predicate is true for all threads of the block, else 0"
    here, true = _count_at_barrier(run, m, site, predicate)
    return (true == here).astype(np.int64)


@intrinsic
def syncthreads_or(run, m, site, predicate):
    "Wait at a barrier; returns 1 if the predicate is true for any thread of the block, else 0"
    here, true = _count_at_barrier(run, m, site, predicate)
    return (true > 0).astype(np.int64)


@intrinsic
def syncwarp(run, m, site, mask=-1):
    "Wait at a barrier for the lanes of the warp in `mask`"
    run.detectors.synccheck.meet(run, m, mask, site, 'syncwarp')
    run.now += 1
    run.order.meet_lanes(run.g, np.flatnonzero(m), run.now)


def _fence(run, m, wide):
    run.order.fence(run.g, np.flatnonzero(m), run.now, wide)


@intrinsic
def threadfence(run, m, site):
    "Fence: the device sees the thread's earlier writes before its later ones"
    _fence(run, m, True)


@intrinsic
def threadfence_block(run, m, site):
    "Fence for the threads of the block alone"
    _fence(run, m, False)


@intrinsic
def threadfence_system(run, m, site):
    "Fence for the host and other devices, too"
    _fence(run, m, True)


@intrinsic
def nanosleep(run, m, site, ns):
    "Sleep; does nothing here"


class _Grid:
    "The grid as a cooperative group"

    def __init__(self):
        self.sync = intrinsic(_grid_sync, 'cg.this_grid().sync')


def _grid_sync(run, m, site):
    run.detectors.synccheck.grid(run, m, site)
    run.barrier(m, site)
    if run.program.may_spin:
        return _meet(run, m, site)
    run.order_all()


def _meet(run, m, site):
    "Wait at the grid's barrier, for blocks that run one by one; yields while others are missing"
    here = run.at_grid
    here.add(run.g.first)
    if len(here) == run.grid.size:
        run.at_grid = set()
        run.order_all()
        run.changes += 1
    while run.at_grid is here:
        if run.never is not None:
            absent = next(b for b in range(run.grid.size) if b not in here)
            run.detectors.synccheck.not_at_grid(run, m, site, *run.g.who_is(absent * run.block.size))
        yield True


def _this_grid(run, m, site):
    "Return the grid as a group, whose `sync` is a grid-wide barrier"
    return _Grid()


cg = SimpleNamespace(this_grid=intrinsic(_this_grid, 'this_grid'))
