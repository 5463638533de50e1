"""What the host does with a device: arrays on it, streams, events, and the device itself, all simulated."""

import time
from contextlib import contextmanager
from itertools import count, pairwise
from types import SimpleNamespace

import numpy as np

from ..diagnostics.settings import settings
from .happens_before import copying, operations, source_line
from .memory import Mem, address, as_dtype, key_of, wrap
from .records import wrap_array

__all__ = [
    'DeviceArray',
    'device_array',
    'device_array_like',
    'to_device',
    'as_cuda_array',
    'is_cuda_array',
    'pinned',
    'mapped',
    'defer_cleanup',
    'Stream',
    'stream',
    'external_stream',
    'Event',
    'event',
    'event_elapsed_time',
    'synchronize',
    'get_current_device',
    'select_device',
    'list_devices',
    'close',
    'is_available',
    'detect',
    'current_context',
    'require_context',
    'profile_start',
    'profile_stop',
    'profiling',
    'default_stream',
    'legacy_default_stream',
    'per_thread_default_stream',
    'gpus',
]


def _has_fields_apart(dtype):
    "Are these records, whose fields share no bytes?"
    fields = sorted((at, at + kind.itemsize, kind.base) for kind, at, *_ in (dtype.fields or {}).values())
    inner = all(_has_fields_apart(base) for *_, base in fields if base.names)
    return bool(fields) and inner and all(end <= start for (_, end, _), (start, *_) in pairwise(fields))


class DeviceArray:
    "An array on the simulated device; `copy_to_host` brings it back"

    def __init__(self, data, mem):
        self.data, self.mem = data, mem

    shape, dtype, size, ndim, nbytes, strides, flags = (
        property(lambda self, k=k: getattr(self.data, k))
        for k in ('shape', 'dtype', 'size', 'ndim', 'nbytes', 'strides', 'flags')
    )

    def __len__(self):
        return len(self.data)

    def device_view(self, name, known):
        "This array as a kernel sees it, a `View`; `known`: memory that was wrapped already"
        whole = self.mem
        own = {key_of(whole.data): whole, **whole.fields}
        for key in own.keys() - known.keys():
            own[key].views = {}
        known.update(own)
        before = set(known)
        if whole.name is None:
            whole.name = name
        view = wrap_array(self.data, name, known)
        if _has_fields_apart(whole.data.dtype):  # what kernels write of them is known from launch to launch
            whole.fields |= {key: known[key] for key in known.keys() - before}
            for field in whole.fields.values():
                field.fresh = whole.fresh
        return view

    def copy_to_host(self, ary=None, stream=0):
        "A copy as a NumPy array, or in `ary`; the host waits for it, unless a stream copies to a pinned array"
        pinned = _pinned_part(ary, True)
        with copying('copy_to_host', stream, (self.data, self.mem, False), *pinned, waits=not (stream and pinned)):
            if ary is None:
                return self.data.copy()
            to = ary if not pinned else pinned[0][0]
            to[...] = self.data
        return ary

    def copy_to_device(self, ary, stream=0):
        "Copy the array `ary` here; the host waits for it, unless a stream copies"
        self._copy_here(ary, stream, 'copy_to_device')

    def _copy_here(self, ary, stream, name):
        here = self.data, self.mem, True
        with copying(name, stream, here, *_pinned_part(ary, False), waits=not stream):
            self._write(..., ary.data if isinstance(ary, DeviceArray) else np.asarray(ary))

    def _of(self, data):
        return DeviceArray(data, self.mem)

    def __getitem__(self, i):
        res = self.data[i]
        if isinstance(res, np.ndarray):
            return self._of(res)
        operations.wait_for(None)
        return res

    def __setitem__(self, i, v):
        operations.wait_for(None)
        self._write(i, v.data if isinstance(v, DeviceArray) else v)

    def _write(self, i, v):
        self.data[i] = v
        if self.mem.data.dtype.names:  # records count as written whole
            self.mem.fresh = False
            return
        at = (address(self.data) - address(self.mem.data)) // self.data.itemsize
        places = at + sum(
            np.arange(n).reshape([-1 if k == j else 1 for j in range(self.ndim)]) * (s // self.data.itemsize)
            for k, (n, s) in enumerate(zip(self.shape, self.data.strides))
        )
        self.mem.shadow.wrote[np.asarray(places)[i]] = 1

    def reshape(self, *shape, order='C'):
        "The same memory with another shape"
        return self._of(self.data.reshape(*shape, order=order))

    def ravel(self, order='C', stream=0):
        "The same memory as one row"
        return self._of(self.data.ravel(order))

    @property
    def T(self):
        "The same memory with its axes reversed"
        return self._of(self.data.T)

    def transpose(self, axes=None):
        "The same memory with its axes in another order"
        return self._of(self.data.transpose(axes))

    def split(self, section, stream=0):
        "Pieces of `section` elements each"
        return [self._of(self.data[i : i + section]) for i in range(0, self.size, section)]

    def view(self, dtype):
        "The same memory as elements of another type; initcheck does not follow what is written so"
        res = self._of(self.data.view(dtype))
        self.mem.fresh &= res.dtype == self.dtype
        return res

    def is_c_contiguous(self):
        "Does it lie row by row, without gaps?"
        return self.data.flags.c_contiguous

    def is_f_contiguous(self):
        "Does it lie column by column, without gaps?"
        return self.data.flags.f_contiguous

    def __array__(self, dtype=None, copy=None):
        operations.wait_for(None)
        return self.data.astype(dtype) if dtype else self.data.copy()

    def __repr__(self):
        return f'DeviceArray(shape={self.shape}, dtype={self.dtype})'


def _pinned_part(ary, writes):
    "What a copy uses of an array of the host: [(array, memory, is it written?)] of a pinned one, else nothing"
    mem = getattr(ary, 'mem', None)
    return [] if mem is None else [(ary.data if isinstance(ary, DeviceArray) else ary.view(np.ndarray), mem, writes)]


def _new(shape, dtype, order='C', fresh=True):
    dtype = as_dtype(dtype)
    data = np.zeros(shape, dtype, order)
    return DeviceArray(data, Mem(data.reshape(-1, order='A'), None, 'global', fresh))


def _order(a):
    "How an array lies, or a new one like it shall: 'F' for column by column, else 'C'"
    flags = getattr(a, 'flags', None)
    return 'F' if flags is not None and flags.f_contiguous and not flags.c_contiguous else 'C'


def device_array(shape, dtype=np.float64, strides=None, order='C', stream=0):
    "An array on the device that nobody has written yet"
    return _new(shape, dtype, order)


def device_array_like(a, stream=0):
    "`device_array` with the shape, type and layout of `a`"
    return _new(a.shape, a.dtype, _order(a))


def to_device(obj, stream=0, copy=True, to=None):
    "A copy of an array on the device"
    if isinstance(obj, DeviceArray):
        return obj
    a = np.asarray(obj)
    res = _new(a.shape, a.dtype, _order(a), fresh=False) if to is None else to
    res._copy_here(obj if getattr(obj, 'mem', None) else a, stream, 'to_device')
    return res


def as_cuda_array(obj, sync=True):
    "`obj`, an array or a tensor on the CPU, as an array on the device, with the same memory"
    if isinstance(obj, DeviceArray):
        return obj
    a = np.asarray(obj.detach() if hasattr(obj, 'detach') else obj)
    return DeviceArray(a, wrap(a, None, {}).mem)


def is_cuda_array(obj):
    "Is `obj` an array on the device?"
    return isinstance(obj, DeviceArray)


@contextmanager
def pinned(*arrays):
    "Nothing: here all memory is like any other"
    yield


@contextmanager
def mapped(*arrays, **kw):
    "The arrays on the device: one as it is, several as a list of copies"
    yield [to_device(a) for a in arrays] if len(arrays) != 1 else arrays[0]


@contextmanager
def defer_cleanup():
    "Nothing: nothing is cleaned up here"
    yield


class Stream:
    "A stream: everything is done when it is asked for, but counts as in flight until somebody has waited for it"

    _numbers = count(1)

    def __init__(self):
        self.number, self.line = next(self._numbers), source_line()[1]

    def synchronize(self):
        "The host waits for all that the stream was given"
        operations.wait_for(self)

    @contextmanager
    def auto_synchronize(self):
        "A `with` block at whose end the host waits"
        yield self
        self.synchronize()

    def __int__(self):
        return 0

    __index__ = __int__


def stream():
    "A new stream"
    return Stream()


class _DefaultStream(Stream):
    "The default stream, which is ordered with all others"

    def __init__(self):
        self.number = self.line = 0

    def __bool__(self):
        return False


_default = _DefaultStream()


def default_stream():
    "The default stream"
    return _default


legacy_default_stream = per_thread_default_stream = default_stream
_external = {}


def external_stream(ptr):
    "The stream that `ptr` is, a number"
    return _external.setdefault(ptr, Stream()) if ptr else _default


class Event:
    "An event; the time between two is the CPU's, and no GPU's"

    def __init__(self, timing=True):
        self.at, self.clock = None, {}

    def record(self, stream=0):
        "Note the time, and what the stream was given before"
        self.at, self.clock = time.perf_counter(), dict(operations.clock_of(stream))

    def query(self):
        "Is all done that came before? It is, and the host knows"
        self.synchronize()
        return True

    def synchronize(self):
        "The host waits for all that came before"
        operations.wait(self.clock)

    def wait(self, stream=0):
        "The stream waits for all that came before"
        operations.join(stream, self.clock)

    def elapsed_time(self, end):
        "Milliseconds from this event to `end`"
        return (end.at - self.at) * 1e3


def event(timing=True):
    "A new event"
    return Event(timing)


def event_elapsed_time(a, b):
    "Milliseconds from the event `a` to the event `b`"
    return a.elapsed_time(b)


def synchronize():
    "The host waits for all streams"
    operations.wait_for_all()


class _DeviceInfo(SimpleNamespace):
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def reset(self):
        pass

    @property
    def WARP_SIZE(self):
        "Threads of a warp, by the options"
        return settings.warp

    def get_primary_context(self):
        return current_context()


_device = _DeviceInfo(
    id=0,
    name=b'the gridstride simulator',
    compute_capability=(9, 0),
    MAX_THREADS_PER_BLOCK=1024,
    MAX_BLOCK_DIM_X=1024,
    MAX_BLOCK_DIM_Y=1024,
    MAX_BLOCK_DIM_Z=64,
    MAX_GRID_DIM_X=2**31 - 1,
    MAX_GRID_DIM_Y=65535,
    MAX_GRID_DIM_Z=65535,
    MAX_SHARED_MEMORY_PER_BLOCK=48 * 1024,
    MULTIPROCESSOR_COUNT=132,
    uuid='GPU-simulated',
)
gpus = [_device]


def get_current_device():
    "The simulated device"
    return _device


def select_device(i):
    "The simulated device, which has number 0; `ValueError` for another number"
    if i:
        raise ValueError(f'there is only one simulated device, number 0, not {i}')
    return _device


def list_devices():
    "All devices: the simulated one"
    return gpus


def close():
    "Nothing: there is no context to end"


def is_available():
    "Can kernels run? They can"
    return True


def detect():
    "Print what was found"
    print('Found 1 device: the gridstride simulator')
    return True


def current_context(i=0):
    "The context, with the device and as much memory as one may want"
    return SimpleNamespace(
        device=_device,
        get_memory_info=lambda: SimpleNamespace(free=2**33, total=2**33),
        synchronize=synchronize,
        reset=close,
    )


def require_context(f):
    "`f` as it is: there is always a context"
    return f


def profile_start():
    "Nothing: `sim.trace` records what kernels do"


def profile_stop():
    "Nothing: `sim.trace` records what kernels do"


@contextmanager
def profiling():
    "Nothing: `sim.trace` records what kernels do"
    yield
