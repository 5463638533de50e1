"""Numba's CUDA dialect, run on the CPU: the same names as `numba.cuda`, so that a kernel does not know where it runs.

What is **not** modelled, and says so: dynamic parallelism, textures, cooperative groups beyond `this_grid`,
inline PTX and libdevice, `cuda.random`, vector types such as `float32x4`, records, strings and dates,
kernels whose source cannot be read (made by `exec`), and time. Threads of a block run in step, so two
of them cannot wait for each other in a loop (a GPU since Volta lets them); such a loop is reported, it never
hangs. Blocks may wait for other blocks: those of a kernel that looks at flags by atomics run one by one, and
each hands over where it looks in vain. As many are there together as an H100 has room for.

`sim.options(warp=64)` makes warps of 64 lanes, AMD's wavefronts: `warpsize`, `laneid`, masks and ballots (64 bits,
unsigned), shuffles, votes and matches, what `syncwarp` orders, and the counters (a request is one of 64 lanes; it
touches sectors of 32 bytes as before, and 32 banks serve 64 lanes of 4 bytes in two halves, those of 8 and 16 bytes
in four and eight parts, lane by lane in order). All else stays an H100's: that AMD's caches fetch lines of 64 or
128 bytes, which lanes its LDS serves together where they read 16 bytes each, that gfx950 has 64 banks, and that a
block has 64 kB of LDS or 160 is not modelled.

One thing is not reported: a variable that only some threads have assigned has some value in the others,
too. And one type is found out late: a variable that is an integer in one branch and a float in another is a
float in Numba, and here what the branch gave it that threads took.
"""

import functools
from types import FunctionType, SimpleNamespace

import numpy as np

from ..findings import NotSimulated
from ..launching import LIMITS, launch_error, read_brackets
from ..options import checking, settings
from ..utils import cdiv
from .lanes import truth
from .launch import launch, other_engine
from .host import (
    DeviceArray,
    Event,
    Stream,
    as_cuda_array,
    close,
    current_context,
    default_stream,
    defer_cleanup,
    detect,
    device_array,
    device_array_like,
    event,
    event_elapsed_time,
    external_stream,
    get_current_device,
    gpus,
    is_available,
    is_cuda_array,
    legacy_default_stream,
    list_devices,
    managed_array,
    mapped,
    mapped_array,
    mapped_array_like,
    per_thread_default_stream,
    pinned,
    pinned_array,
    pinned_array_like,
    profile_start,
    profile_stop,
    profiling,
    require_context,
    select_device,
    stream,
    synchronize,
    to_device,
)
from .memory import Mem, View, as_dtype, fresh_view, locate, refuse_to_write, wrap
from .rewrite import Program
from .run import Run
from .signatures import as_declared, declared
from . import types
from .types import (
    b1,
    boolean,
    c8,
    c16,
    complex64,
    complex128,
    f4,
    f8,
    float32,
    float64,
    i1,
    i2,
    i4,
    i8,
    int8,
    int16,
    int32,
    int64,
    u1,
    u2,
    u4,
    u8,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)


__all__ = [
    'Device',
    'DeviceArray',
    'Event',
    'Kernel',
    'Stream',
    'activemask',
    'all_sync',
    'any_sync',
    'as_cuda_array',
    'atomic',
    'b1',
    'ballot_sync',
    'blockDim',
    'blockIdx',
    'boolean',
    'brev',
    'c16',
    'c8',
    'cbrt',
    'cg',
    'close',
    'clz',
    'complex128',
    'complex64',
    'const',
    'current_context',
    'declare_device',
    'default_stream',
    'defer_cleanup',
    'detect',
    'device_array',
    'device_array_like',
    'eq_sync',
    'event',
    'event_elapsed_time',
    'external_stream',
    'f4',
    'f8',
    'ffs',
    'float32',
    'float64',
    'fma',
    'fp16',
    'get_current_device',
    'gpus',
    'grid',
    'gridDim',
    'gridsize',
    'i1',
    'i2',
    'i4',
    'i8',
    'int16',
    'int32',
    'int64',
    'int8',
    'is_available',
    'is_cuda_array',
    'jit',
    'laneid',
    'lanemask_lt',
    'legacy_default_stream',
    'list_devices',
    'local',
    'managed_array',
    'mapped',
    'mapped_array',
    'mapped_array_like',
    'match_all_sync',
    'match_any_sync',
    'nanosleep',
    'per_thread_default_stream',
    'pinned',
    'pinned_array',
    'pinned_array_like',
    'popc',
    'profile_start',
    'profile_stop',
    'profiling',
    'require_context',
    'rsqrt',
    'select_device',
    'selp',
    'shared',
    'shfl_down_sync',
    'shfl_sync',
    'shfl_up_sync',
    'shfl_xor_sync',
    'stream',
    'synchronize',
    'syncthreads',
    'syncthreads_and',
    'syncthreads_count',
    'syncthreads_or',
    'syncwarp',
    'threadIdx',
    'threadfence',
    'threadfence_block',
    'threadfence_system',
    'to_device',
    'tracing',
    'types',
    'u1',
    'u2',
    'u4',
    'u8',
    'uint16',
    'uint32',
    'uint64',
    'uint8',
    'void',
    'warpsize',  # noqa: F822, `__getattr__` has it
]


def intrinsic(f):
    "A function of kernels: `f(run, m, site, ...)` does it for the lanes of the mask `m`"

    @functools.wraps(f)
    def host(*args, **kw):
        raise RuntimeError(f'{f.__name__} works inside a kernel only')

    host.lanes = f
    return host


def _run():
    if Run.current is None:
        raise RuntimeError('threadIdx, blockIdx and the like exist inside a kernel only')
    return Run.current


class _Index:
    "threadIdx or blockIdx"

    def __init__(self, of):
        self.of = of

    def __getattr__(self, axis):
        if axis not in ('x', 'y', 'z'):
            raise AttributeError(axis)
        return _run().g.idx(self.of, axis)


class _Dim:
    "blockDim or gridDim"

    def __init__(self, of):
        self.of = of

    def __getattr__(self, axis):
        if axis not in ('x', 'y', 'z'):
            raise AttributeError(axis)
        return np.int64(getattr(getattr(_run(), self.of), axis))


threadIdx, blockIdx, blockDim, gridDim = _Index('thread'), _Index('block'), _Dim('block'), _Dim('grid')


class _LaneId(np.lib.mixins.NDArrayOperatorsMixin):
    "The thread's number within its warp"

    def __array__(self, dtype=None, copy=None):
        return _run().g.lane

    def __array_ufunc__(self, ufunc, method, *args, **kw):
        return getattr(ufunc, method)(*(np.asarray(o) if o is self else o for o in args), **kw)


laneid = _LaneId()


def __getattr__(name):
    "`warpsize`: as many threads as a warp has by the options now; Numba's rarer types; `AttributeError` for all else"
    if name == 'warpsize':
        return settings.warp
    if name in types.__all__:
        return getattr(types, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def _axes(n, f):
    res = tuple(f(a) for a in 'xyz'[: int(n)])
    return res[0] if len(res) == 1 else res


@intrinsic
def grid(run, m, site, ndim):
    "The thread's position in the grid: `blockDim*blockIdx + threadIdx`, along `ndim` axes"
    return _axes(ndim, lambda a: run.g.idx('block', a) * getattr(run.block, a) + run.g.idx('thread', a))


@intrinsic
def gridsize(run, m, site, ndim):
    "How many threads the grid has, along `ndim` axes"
    return _axes(ndim, lambda a: np.int64(getattr(run.block, a) * getattr(run.grid, a)))


# An array belongs to the place in the source that makes it: two calls on one line are two arrays.
def _shape(run, m, site, shape):
    shape = shape if isinstance(shape, tuple) else (shape,)
    if any(np.ndim(o) for o in shape):
        raise run.refusal(site, m, 'an array whose size differs from thread to thread')
    return tuple(int(o) for o in shape)


def _dynamic(run, dtype):
    "The block's dynamic shared memory, as an array of `dtype`"
    pad = cdiv(run.dynamic, 16) * 16
    raw = run.shared.setdefault('dynamic bytes', np.zeros((run.g.count, pad), np.uint8))
    mem = Mem(raw.reshape(-1).view(dtype), None, 'shared', fresh=True)
    mem.dynamic = True
    return View(
        mem,
        run.g.local * (pad // dtype.itemsize) if run.g.count > 1 else 0,
        (np.int64(run.dynamic // dtype.itemsize),),
        (1,),
    )


def _shared_array(run, m, site, shape, dtype):
    shape, dtype = _shape(run, m, site, shape), as_dtype(dtype)
    key = ('dynamic', dtype) if shape == (0,) else (run.program, site)
    if key not in run.shared:
        run.shared[key] = (
            _dynamic(run, dtype)
            if shape == (0,)
            else fresh_view(shape, dtype, None, 'shared', run.g.count, run.g.local)
        )
        used = (
            sum(
                int(v.size) * v.dtype.itemsize
                for k, v in run.shared.items()
                if isinstance(k, tuple) and k[0] != 'dynamic'
            )
            + run.dynamic
        )
        if used > LIMITS.shared:
            raise run.finding('launch', 'shared_arrays', site, bytes=used, most=LIMITS.shared)
    v = run.shared[key]
    return View(v.mem, v.off, v.shape, v.strides, v.name)


def _local_array(run, m, site, shape, dtype):
    key = 'local', run.program, site
    if key not in run.shared:
        run.shared[key] = fresh_view(
            _shape(run, m, site, shape), as_dtype(dtype), None, 'local', run.g.size, np.arange(run.g.size)
        )
    v = run.shared[key]
    return View(v.mem, v.off, v.shape, v.strides, v.name)


def _const_like(run, m, site, a):
    return a if isinstance(a, View) else wrap(np.asarray(a), 'const', {})


shared, local, const = (
    SimpleNamespace(array=intrinsic(_shared_array)),
    SimpleNamespace(array=intrinsic(_local_array)),
    SimpleNamespace(array_like=intrinsic(_const_like)),
)


@intrinsic
def syncthreads(run, m, site):
    "A barrier: wait for all threads of the block"
    run.barrier(m, site)


def _by_block(f):
    def _f(run, m, site, predicate):
        run.barrier(m, site)
        here, true = (np.bincount(run.g.local[o], minlength=run.g.count) for o in
                      (m, m & truth(np.broadcast_to(predicate, run.g.size))))  # fmt: skip
        return f(true, here).astype(np.int64)[run.g.local]

    return _f


syncthreads_count = intrinsic(_by_block(lambda n, size: n))
syncthreads_and = intrinsic(_by_block(lambda n, size: n == size))
syncthreads_or = intrinsic(_by_block(lambda n, size: n > 0))


@intrinsic
def syncwarp(run, m, site, mask=-1):
    "A barrier: wait for the lanes of the warp that the mask names"
    run.detectors.synccheck.meet(run, m, mask, site, 'syncwarp')
    run.now += 1
    run.order.meet_lanes(run.g, np.flatnonzero(m), run.now)


def _fence(wide):
    return intrinsic(lambda run, m, site: run.order.fence(run.g, np.flatnonzero(m), run.now, wide))


@intrinsic
def nanosleep(run, m, site, ns):
    "Let time pass: here nothing happens"


threadfence, threadfence_block, threadfence_system = (_fence(wide) for wide in (True, False, True))


class _Grid:
    "The grid as a cooperative group"

    def __init__(self):
        self.sync = intrinsic(_grid_sync)


def _grid_sync(run, m, site):
    run.detectors.synccheck.grid(run, m, site)
    if run.grid.size > run.room:
        raise launch_error(run.kernel, 'cooperative_size', blocks=run.grid.size, resident=run.room)
    run.barrier(m, site)
    if run.program.waits:
        return _meet(run, m, site)
    run.order.start = run.now


def _meet(run, m, site):
    "The grid's barrier of blocks that run one by one; yields while others are missing"
    here = run.at_grid
    here.add(run.g.first)
    if len(here) == run.grid.size:
        run.at_grid, run.order.start = set(), run.now
        run.changes += 1
    while run.at_grid is here:
        if run.never is not None:
            absent = next(b for b in range(run.grid.size) if b not in here)
            run.detectors.synccheck.not_at_grid(run, m, site, *run.g.who_is(absent * run.block.size))
        yield True


@intrinsic
def _this_grid(run, m, site):
    return _Grid()


_this_grid.__name__ = 'this_grid'
cg = SimpleNamespace(this_grid=_this_grid)


# Lanes of a warp exchange values directly. The values are laid out as (warps, lanes of a warp), and a shuffle is a
# choice of columns.
def _warps(run, v):
    "`v` as (warps, lanes of a warp)"
    return np.broadcast_to(v, run.g.size)[run.g.rows()]


def _lanes(run, v):
    "(warps, lanes of a warp) back to lanes"
    return v[run.g.warp, run.g.lane]


def _shuffle(choose):
    def _f(run, m, site, mask, value, other, width=None):
        run.detectors.synccheck.meet(run, m, mask, site, 'a shuffle')
        g, width = run.g, run.warp if width is None else width
        source = choose(g.lane, np.asarray(other).astype(np.int64), np.int64(width))
        base = g.lane // width * width
        inside = (source >= base) & (source < base + width)
        source = np.where(inside, source, g.lane)
        row = g.rows()[g.warp, source]
        run.detectors.synccheck.sources(run, m, row, source, site)
        return np.broadcast_to(value, g.size)[row]

    return _f


shfl_sync = intrinsic(_shuffle(lambda lane, src, w: lane // w * w + src % w))
shfl_up_sync = intrinsic(_shuffle(lambda lane, d, w: lane - d))
shfl_down_sync = intrinsic(_shuffle(lambda lane, d, w: lane + d))
shfl_xor_sync = intrinsic(_shuffle(lambda lane, x, w: lane ^ x))


def _vote(f):
    def _g(run, m, site, mask, predicate):
        run.detectors.synccheck.meet(run, m, mask, site, 'a vote')
        here = _warps(run, m) & (run.g.rows() >= 0)
        return _lanes(run, np.broadcast_to(f(_warps(run, truth(np.asarray(predicate))), here)[:, None], here.shape))

    return _g


def _bits(b):
    "One mask for each row of lanes: 64 of them fill an unsigned number"
    n = b.shape[-1]
    bits = (b.astype(np.uint64) << np.arange(n, dtype=np.uint64)).sum(-1, dtype=np.uint64)
    return bits if n == 64 else bits.astype(np.int64)


all_sync = intrinsic(_vote(lambda p, here: (p | ~here).all(1)))
any_sync = intrinsic(_vote(lambda p, here: (p & here).any(1)))
eq_sync = intrinsic(_vote(lambda p, here: (p | ~here).all(1) | ~(p & here).any(1)))
ballot_sync = intrinsic(_vote(lambda p, here: _bits(p & here)))


@intrinsic
def match_any_sync(run, m, site, mask, value):
    "The mask of the lanes that have the same value as this one"
    run.detectors.synccheck.meet(run, m, mask, site, 'a match')
    v, here = _warps(run, value), _warps(run, m) & (run.g.rows() >= 0)
    same = (v[:, :, None] == v[:, None, :]) & here[:, None, :]
    return _lanes(run, _bits(same))


@intrinsic
def match_all_sync(run, m, site, mask, value):
    "(mask of the lanes or 0, do all have the same value?)"
    run.detectors.synccheck.meet(run, m, mask, site, 'a match')
    v, here = _warps(run, value), _warps(run, m) & (run.g.rows() >= 0)
    first = v[np.arange(len(v)), np.argmax(here, 1)]
    same = ((v == first[:, None]) | ~here).all(1)
    res = _bits(here & same[:, None])
    return _lanes(run, np.broadcast_to(res[:, None], v.shape)), _lanes(run, np.broadcast_to(same[:, None], v.shape))


@intrinsic
def activemask(run, m, site):
    "The mask of the lanes of the warp that are here"
    return _lanes(run, np.broadcast_to(_bits(_warps(run, m) & (run.g.rows() >= 0))[:, None], run.g.rows().shape))


@intrinsic
def lanemask_lt(run, m, site):
    "The mask of the lanes before this one"
    here = np.arange(run.warp)
    return _bits(here < run.g.lane[:, None])


# The lanes take turns, in the order in which threads run. What an operation returns is what it found. Sums
# are done for all lanes at once; the others one lane after the other.
def _sums(old, off, v):
    "(what each lane finds, what is left) when the lanes add `v` to the places `off` one after the other"
    order = np.argsort(off, kind='stable')
    o, x = off[order], v[order]
    first = np.r_[True, o[1:] != o[:-1]]
    start = np.flatnonzero(first)
    found = np.empty_like(x)
    for a, b in zip(start, np.r_[start[1:], len(o)]) if len(start) < len(o) else ():
        total = np.cumsum(np.r_[old[o[a]], x[a:b]], dtype=x.dtype)
        found[a:b] = total[:-1]
        old[o[a]] = total[-1]
    if len(start) == len(o):
        found = old[o]
        old[o] = found + x
    res = np.empty_like(found)
    res[order] = found
    return res


def _turns(f):
    "One lane after the other: `f(old, value)` is what it leaves"

    def _g(data, off, *values):
        res = np.empty(len(off), data.dtype)
        for i, o in enumerate(off):
            res[i] = data[o]
            data[o] = f(data[o], *(v[i] for v in values))
        return res

    return _g


def _always(found, *_):
    return np.ones(len(found), bool)


# reads: does what it leaves depend on what was there? writes: from what it found, does it write?
def _atomic(operate, reads=True, writes=_always):
    def _f(run, m, site, ary, idx, *values):
        off = locate(run, m, ary, idx, site)
        refuse_to_write(run, m, ary, off, site)
        lanes, data = run.active(m), ary.mem.data
        off = run.spread(m, off)
        values = [run.spread(m, np.asarray(v).astype(data.dtype)) for v in values]
        if run.watched:
            run.access(m, ary, off, site, 'atomic', None if reads else values[0])
        else:
            run.changes += 1
        before = data[off]
        found = operate(data, off, *values)
        run.order.hand_over(run.g, lanes, ary.mem, off, run.now, writes(found, *values))
        if (data[off] == before).all():
            run.changes -= 1
            run.look = data, off, before
        res = np.zeros(run.g.size, data.dtype)
        res[lanes] = found
        return res

    return _f


def _cas(run, m, site, ary, idx, old, val):
    swap = _turns(lambda a, o, v: v if a == o else a)
    return _atomic(swap, writes=lambda found, o, v: found == o)(run, m, site, ary, idx, old, val)


atomic = SimpleNamespace(
    **{
        k: intrinsic(_atomic(f))
        for k, f in dict(
            add=_sums,
            sub=lambda d, o, v: _sums(d, o, -v),
            max=_turns(lambda a, v: v if v > a else a),
            min=_turns(lambda a, v: v if v < a else a),
            nanmax=_turns(np.fmax),
            nanmin=_turns(np.fmin),
            and_=_turns(lambda a, v: a & v),
            or_=_turns(lambda a, v: a | v),
            xor=_turns(lambda a, v: a ^ v),
            inc=_turns(lambda a, v: 0 if a >= v else a + 1),
            dec=_turns(lambda a, v: v if a == 0 or a > v else a - 1),
        ).items()
    },
    exch=intrinsic(_atomic(_turns(lambda a, v: v), reads=False)),
    cas=intrinsic(_cas),
    compare_and_swap=intrinsic(lambda run, m, site, ary, old, val: _cas(run, m, site, ary, np.int64(0), old, val)),
)


def _of_bits(f, result=np.int64):
    "`f(bits of v, number of bits)`: 64 bits of a 64-bit number, else 32"

    def _g(v):
        w = 64 if np.asarray(v).dtype.itemsize == 8 else 32
        return np.vectorize(lambda o: f(int(o) & (2**w - 1), w), otypes=[result])(v)

    return _g


_popc = _of_bits(lambda b, w: bin(b).count('1'))
_clz = _of_bits(lambda b, w: w - b.bit_length())
_ffs = _of_bits(lambda b, w: (b & -b).bit_length())


def _brev(v):
    res = _of_bits(lambda b, w: int(f'{b:0{w}b}'[::-1], 2), np.uint64)(v)
    return res.astype(np.asarray(v).dtype if np.asarray(v).dtype.itemsize >= 4 else np.int32)


def _simple(f):
    return intrinsic(lambda run, m, site, *a: f(*a))


popc, clz, brev, ffs = map(_simple, (_popc, _clz, _brev, _ffs))
fma, cbrt, rsqrt = _simple(lambda a, b, c: a * b + c), _simple(np.cbrt), _simple(lambda v: 1 / np.sqrt(v))
selp = _simple(lambda c, a, b: np.where(truth(np.asarray(c)), a, b))


def _half(f):
    return _simple(lambda *a: np.float16(f(*(np.asarray(o).astype(np.float16) for o in a))))


fp16 = SimpleNamespace(
    hadd=_half(np.add),
    hsub=_half(np.subtract),
    hmul=_half(np.multiply),
    hdiv=_half(np.divide),
    hneg=_half(np.negative),
    habs=_half(np.abs),
    hmax=_half(np.fmax),
    hmin=_half(np.fmin),
    **{
        f'h{k}': _half(getattr(np, k))
        for k in ('sin', 'cos', 'log', 'log2', 'log10', 'exp', 'exp2', 'sqrt', 'rint', 'ceil', 'floor', 'trunc')
    },
    hexp10=_half(lambda v: np.float16(10) ** v),
    hrsqrt=_half(lambda v: 1 / np.sqrt(v)),
    hrcp=_half(lambda v: 1 / v),
    hfma=_simple(lambda a, b, c: (np.asarray(a, np.float32) * b + c).astype(np.float16)),
    **{
        f'h{k}': _simple(f)
        for k, f in dict(
            eq=np.equal, ne=np.not_equal, lt=np.less, le=np.less_equal, gt=np.greater, ge=np.greater_equal
        ).items()
    },
)


tracing = []  # traces that are recording, the innermost last


class Kernel:
    "A kernel; `kernel[grid, block, stream, shared_bytes](*args)` runs it"

    def __init__(self, f, signatures=()):
        self.py_func, self._signatures = f, signatures
        functools.update_wrapper(self, f)

    @functools.cached_property
    def program(self):
        "The function, rewritten for lanes, once"
        return Program(self.py_func, kernel=True)

    def __getitem__(self, config):
        grid, block, _, shared = read_brackets(self.__name__, config)
        return functools.partial(self._launch, grid, block, shared)

    def __call__(self, *args):
        raise launch_error(self.__name__, 'no_brackets')

    def _launch(self, grid, block, dynamic, *args):
        args = as_declared(self.__name__, self.py_func.__code__.co_varnames, self._signatures, args)
        for a in args:
            if isinstance(a, DeviceArray) and not checking('initcheck'):
                a.mem.fresh = False  # what is written now is not noted
        trace = tracing[-1] if tracing else None
        if other := other_engine():
            return other.launch(self, grid, block, dynamic, args, trace)
        launch(self.program, grid, block, dynamic, args, trace)

    def configure(self, griddim, blockdim, stream=0, sharedmem=0):
        "The same as the brackets"
        return self[griddim, blockdim, stream, sharedmem]

    def forall(self, ntasks, tpb=0, stream=0, sharedmem=0):
        "A launch with a thread for each of `ntasks` tasks"
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        tpb = tpb or 256
        return functools.partial(self._launch, cdiv(ntasks, tpb), tpb, sharedmem) if ntasks else lambda *args: None

    def specialize(self, *args):
        "This kernel: here nothing depends on the types"
        return self

    extensions, overloads = (), {}


class Device:
    "A device function, to be called from kernels"

    def __init__(self, f):
        self.py_func = f
        functools.update_wrapper(self, f)

    @functools.cached_property
    def program(self):
        "The function, rewritten for lanes, once"
        return Program(self.py_func)

    def __call__(self, *args):
        raise RuntimeError(f'{self.__name__} is a device function: call it from a kernel')

    def lanes(self, run, m, site, *args, **kw):
        "Call it for the lanes of the mask `m`"
        return self.program(run, m, *args, **kw)


def declare_device(name, sig, link=None):
    "Numba's way to call CUDA C from a kernel: `NotSimulated`, since there is no GPU code here to link"
    what = f'declare_device({name!r}), a function in CUDA C'
    raise NotSimulated(what, 'Write it in Python, with @cuda.jit(device=True).')


def jit(
    func_or_sig=None,
    device=False,
    inline=False,
    link=(),
    debug=None,
    opt=None,
    cache=False,
    fastmath=False,
    lineinfo=False,
    max_registers=None,
    **kws,
):
    """A kernel, or with `device=True` a device function; compiler options change nothing here, nor do signatures of
    device functions. What a kernel's do, `signatures` tells"""
    if isinstance(func_or_sig, FunctionType):
        return (Device if device else Kernel)(func_or_sig)
    return Device if device else functools.partial(Kernel, signatures=declared(func_or_sig))
