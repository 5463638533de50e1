"""The simulated device as the host sees it: its arrays, streams and events, and the device itself."""

import operator
import sys
import time
import warnings
from contextlib import contextmanager
from itertools import count, pairwise
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from ..diagnostics.settings import settings
from ..support.array_memory import address, array_from_interface
from .happens_before import copying, stream_order, source_line
from .memory import Mem, as_dtype, memory_key, make_view
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
    'is_bfloat16_supported',
    'is_float16_supported',
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


def _has_disjoint_fields(dtype):
    "Return whether a dtype has fields, and none of them overlap"
    fields = sorted((offset, offset + kind.itemsize, kind.base) for kind, offset, *_ in (dtype.fields or {}).values())
    are_inner_disjoint = all(_has_disjoint_fields(base) for *_, base in fields if base.names)
    return bool(fields) and are_inner_disjoint and all(end <= start for (_, end, _), (start, *_) in pairwise(fields))


class DeviceArray:
    "An array on the simulated device; `copy_to_host` copies it back"

    def __init__(self, data, mem):
        self.data, self.mem = data, mem

    shape, dtype, size, ndim, nbytes, strides, flags = (
        property(lambda self, k=k: getattr(self.data, k))
        for k in ('shape', 'dtype', 'size', 'ndim', 'nbytes', 'strides', 'flags')
    )

    def __len__(self):
        return len(self.data)

    def device_view(self, name, memories):
        "Return this array as a `View` or `Records` for a kernel; adds its memory to `memories`, as `make_view` does"
        mem = self.mem
        mem_of_key = {memory_key(mem.data): mem, **mem.fields}
        for key in mem_of_key.keys() - memories.keys():
            mem_of_key[key].views = {}
        memories.update(mem_of_key)
        known_keys = set(memories)
        if mem.name is None:
            mem.name = name
        view = wrap_array(self.data, name, memories)
        if _has_disjoint_fields(mem.data.dtype):  # keep the fields' shadows from launch to launch
            mem.fields |= {key: memories[key] for key in memories.keys() - known_keys}
            for field in mem.fields.values():
                field.tracks_init = mem.tracks_init
        return view

    def copy_to_host(self, ary=None, stream=0):
        "Copy to a new NumPy array, or to `ary`; the host waits, unless a stream copies to a pinned array"
        pinned_arrays = _pinned_arrays(ary, True)
        with copying(
            'copy_to_host',
            stream,
            (self.data, self.mem, False),
            *pinned_arrays,
            host_waits=not (stream and pinned_arrays),
        ):
            if ary is None:
                return self.data.copy()
            target = pinned_arrays[0][0] if pinned_arrays else ary
            target[...] = self.data
        return ary

    def copy_to_device(self, ary, stream=0):
        "Copy from the array `ary`; the host waits unless a stream is passed"
        self._copy_from(ary, stream, 'copy_to_device')

    def _copy_from(self, ary, stream, name):
        target = self.data, self.mem, True
        with copying(name, stream, target, *_pinned_arrays(ary, False), host_waits=not stream):
            self._write(..., ary.data if isinstance(ary, DeviceArray) else np.asarray(ary))

    def _view_of(self, data):
        return DeviceArray(data, self.mem)

    def __getitem__(self, index):
        item = self.data[index]
        if isinstance(item, np.ndarray):
            return self._view_of(item)
        stream_order.wait_for(None)
        return item

    def __setitem__(self, index, value):
        stream_order.wait_for(None)
        self._write(index, value.data if isinstance(value, DeviceArray) else value)

    def _write(self, index, value):
        self.data[index] = value
        if self.mem.data.dtype.names:  # from now on, all records count as written
            self.mem.tracks_init = False
            return
        first_offset = (address(self.data) - address(self.mem.data)) // self.data.itemsize
        offsets = first_offset + sum(
            np.arange(size).reshape([-1 if i == axis else 1 for i in range(self.ndim)]) * (stride // self.data.itemsize)
            for axis, (size, stride) in enumerate(zip(self.shape, self.data.strides))
        )
        self.mem.shadow.write_time[np.asarray(offsets)[index]] = 1

    def reshape(self, *shape, order='C'):
        "Return a view with another shape"
        return self._view_of(self.data.reshape(*shape, order=order))

    def ravel(self, order='C', stream=0):
        "Return a flat view"
        return self._view_of(self.data.ravel(order))

    @property
    def T(self):
        "Return a view with its axes reversed"
        return self._view_of(self.data.T)

    def transpose(self, axes=None):
        "Return a view with permuted axes"
        return self._view_of(self.data.transpose(axes))

    def split(self, section, stream=0):
        "Split into views of `section` elements each"
        return [self._view_of(self.data[i : i + section]) for i in range(0, self.size, section)]

    def view(self, dtype):
        "Return a view with another dtype; from now on, initcheck does not track this memory"
        view = self._view_of(self.data.view(dtype))
        self.mem.tracks_init &= view.dtype == self.dtype
        return view

    def is_c_contiguous(self):
        "Return whether the array is row-major, without gaps"
        return self.data.flags.c_contiguous

    def is_f_contiguous(self):
        "Return whether the array is column-major, without gaps"
        return self.data.flags.f_contiguous

    @property
    def __cuda_array_interface__(self):  # of the memory on the CPU
        description = dict(descr=self.dtype.descr) if self.dtype.names else {}
        strides = None if self.data.flags.c_contiguous else self.strides
        pointer = address(self.data) if self.size else 0
        layout = dict(shape=self.shape, strides=strides, typestr=self.dtype.str, **description)
        return dict(layout, data=(pointer, not self.data.flags.writeable), stream=None, version=3)

    def __array__(self, dtype=None, copy=None):
        stream_order.wait_for(None)
        return self.data.astype(dtype) if dtype else self.data.copy()

    def bind(self, stream=0):
        "Return this array: the simulator does not bind arrays to streams"
        return self

    def __repr__(self):
        return f'DeviceArray(shape={self.shape}, dtype={self.dtype})'

    def __getattr__(self, name):
        is_of_numpy = hasattr(np.ndarray, name) and not name.startswith('__') and name not in ('data', 'mem')
        if is_of_numpy and has_numpy_operations and not _is_called_by_numpy():
            _warn_of_operation(f'.{name}')
            return getattr(self.data, name)
        hint = f': {_COPY_FIRST}' if is_of_numpy else ''
        raise AttributeError(f'{type(self).__name__!r} object has no attribute {name!r}{hint}', name=name, obj=self)

    __hash__ = object.__hash__


has_numpy_operations = False  # whether device arrays have NumPy's operations, as in Numba's simulator
_COPY_FIRST = (
    "an array of numba.cuda has no NumPy operations on a GPU, only in Numba's simulator. Copy it to the host first: "
    'copy_to_host()'
)


def _is_called_by_numpy():
    "Return whether NumPy itself looks for a method, as in `np.sum(d)`, which works on a GPU, too"
    return sys._getframe(2).f_globals.get('__name__', '').startswith('numpy.')


def _warn_of_operation(operation):
    warnings.warn(f'DeviceArray {operation}: {_COPY_FIRST}', stacklevel=3)


def _make_operator(name, is_reflected):
    "Return a method of `DeviceArray` that computes, or rejects, an operation with a number or an array"
    compute = getattr(operator, f'__{name}__')

    def operate(self, other):
        if has_numpy_operations:
            _warn_of_operation(name)
            operands = self.data, other.data if isinstance(other, DeviceArray) else other
            return to_device(compute(*(operands[::-1] if is_reflected else operands)))
        is_number = isinstance(other, (int, float, complex)) and not isinstance(other, np.generic)
        if name in _COMPARISONS or not (is_number or isinstance(other, DeviceArray)):
            return NotImplemented
        raise TypeError(f'unsupported operation {name} of {type(self).__name__!r}: {_COPY_FIRST}')

    return operate


_COMPARISONS = 'eq', 'ne', 'lt', 'le', 'gt', 'ge'
_ARITHMETIC = 'add', 'sub', 'mul', 'truediv', 'floordiv', 'mod', 'pow'
for _name in (*_COMPARISONS, *_ARITHMETIC):
    setattr(DeviceArray, f'__{_name}__', _make_operator(_name, False))
for _name in _ARITHMETIC:
    setattr(DeviceArray, f'__r{_name}__', _make_operator(_name, True))


def _pinned_arrays(ary, writes):
    "Return [(array, memory, writes)], an argument of `copying`, for a host array; [] if it is not pinned"
    mem = getattr(ary, 'mem', None)
    return [] if mem is None else [(ary.data if isinstance(ary, DeviceArray) else ary.view(np.ndarray), mem, writes)]


def _allocate(shape, dtype, order='C', tracks_init=True):
    dtype = as_dtype(dtype)
    data = np.zeros(shape, dtype, order)
    return DeviceArray(data, Mem(data.reshape(-1, order='A'), None, 'global', tracks_init))


def _order(array):
    "Return the memory order of an array: 'F' for column-major, else 'C'"
    flags = getattr(array, 'flags', None)
    return 'F' if flags is not None and flags.f_contiguous and not flags.c_contiguous else 'C'


def device_array(shape, dtype=np.float64, strides=None, order='C', stream=0):
    "Allocate an uninitialized array on the device"
    return _allocate(shape, dtype, order)


def device_array_like(a, stream=0):
    "Allocate an uninitialized device array with the shape, type and layout of `a`"
    return _allocate(a.shape, a.dtype, _order(a))


def to_device(obj, stream=0, copy=True, to=None):
    "Copy an array to the device"
    if isinstance(obj, DeviceArray):
        return obj
    a = np.asarray(obj)
    array = _allocate(a.shape, a.dtype, _order(a), tracks_init=False) if to is None else to
    array._copy_from(obj if getattr(obj, 'mem', None) else a, stream, 'to_device')
    return array


def as_cuda_array(obj, sync=True):
    "Wrap `obj`, an array of any library or a CPU tensor, as a device array on the same memory"
    if isinstance(obj, DeviceArray):
        return obj
    if hasattr(obj, 'detach'):
        a = obj.detach().numpy()
    else:
        a = array_from_interface(obj) if hasattr(obj, '__cuda_array_interface__') else np.asarray(obj)
    return DeviceArray(a, make_view(a, None, {}).mem)


def is_cuda_array(obj):
    "Return whether `obj` is a device array, of any library"
    return hasattr(obj, '__cuda_array_interface__')


@contextmanager
def pinned(*arrays):
    "Return a context manager that does nothing: pinned memory is like any other here"
    yield


@contextmanager
def mapped(*arrays, **kw):
    "Return a context manager that yields a device array per argument: one array, or a list of several"
    yield [to_device(a) for a in arrays] if len(arrays) != 1 else arrays[0]


@contextmanager
def defer_cleanup():
    "Return a context manager that does nothing: there are no deferred deallocations here"
    yield


class Stream:
    "A stream: its operations run immediately, but count as in flight until the host or a stream waits for them"

    _ids = count(1)

    def __init__(self):
        self.number, self.line = next(self._ids), source_line()[1]

    def synchronize(self):
        "Wait for all operations of the stream"
        stream_order.wait_for(self)

    @contextmanager
    def auto_synchronize(self):
        "Synchronize at the end of a `with` block"
        yield self
        self.synchronize()

    def __int__(self):
        return 0

    __index__ = __int__


def stream():
    "Create a stream"
    return Stream()


class _DefaultStream(Stream):
    "The default stream, which is ordered with all others"

    def __init__(self):
        self.number = self.line = 0

    def __bool__(self):
        return False


_default_stream = _DefaultStream()


def default_stream():
    "Return the default stream"
    return _default_stream


legacy_default_stream = per_thread_default_stream = default_stream
_external_streams = {}  # handle -> stream


def external_stream(ptr):
    "Return the stream with the handle `ptr`, an integer"
    return _external_streams.setdefault(ptr, Stream()) if ptr else _default_stream


class Event:
    "An event; elapsed times are those of the CPU"

    def __init__(self, timing=True):
        self.time = None
        self.clock = {}

    def record(self, stream=0):
        "Record the time, and the operations of the stream that happen before the event"
        self.time, self.clock = time.perf_counter(), dict(stream_order.clock_of(stream))

    def query(self):
        "Return True: all operations before the event have finished; the host waits for them"
        self.synchronize()
        return True

    def synchronize(self):
        "Wait for all operations before the event"
        stream_order.wait(self.clock)

    def wait(self, stream=0):
        "Make the stream wait for all operations before the event"
        stream_order.join(stream, self.clock)

    def elapsed_time(self, end):
        "Return the milliseconds from this event to `end`"
        return (end.time - self.time) * 1e3


def event(timing=True):
    "Create an event"
    return Event(timing)


def event_elapsed_time(a, b):
    "Return the milliseconds from event `a` to event `b`"
    return a.elapsed_time(b)


def synchronize():
    "Wait for all streams"
    stream_order.wait_for_all()


class _DeviceInfo(SimpleNamespace):
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def reset(self):
        pass

    @property
    def WARP_SIZE(self):
        "The number of threads per warp, as set by the options"
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


class _Devices(list):
    "The list of all devices: the simulated one"

    @property
    def current(self):
        "The device in use"
        return self[0]


gpus = _Devices([_device])


def get_current_device():
    "Return the simulated device"
    return _device


def select_device(i):
    "Select device 0, the simulated one; raises `ValueError` for another index"
    if i:
        raise ValueError(f'device must be 0, the only simulated one; got {i}')
    return _device


def list_devices():
    "List all devices: the simulated one"
    return gpus


def close():
    "Do nothing: there is no context to destroy"


def is_available():
    "Return True: kernels can always run"
    return True


def is_float16_supported():
    "Return True: kernels may use float16"
    return True


def is_bfloat16_supported():
    "Return False: the simulator uses NumPy's types, which do not include bfloat16"
    return False


def detect():
    "Print the devices: the simulated one"
    print('Found 1 device: the gridstride simulator')
    return True


class MemoryInfo(NamedTuple):
    "The free and the total device memory, in bytes"

    free: int
    total: int


class FakeCUDAContext(SimpleNamespace):
    "A context; programs recognize Numba's simulator, and this one, by the name of this class"


def current_context(i=0):
    "Return the context of the simulated device, with 8 GiB of memory"
    return FakeCUDAContext(
        device=_device,
        deallocations=SimpleNamespace(clear=lambda: None),
        get_memory_info=lambda: MemoryInfo(2**33, 2**33),
        synchronize=synchronize,
        reset=close,
    )


def require_context(fn):
    "Return `fn` unchanged: there is always a context"
    return fn


def profile_start():
    "Do nothing; `sim.trace` records kernels instead"


def profile_stop():
    "Do nothing; `sim.trace` records kernels instead"


@contextmanager
def profiling():
    "Do nothing; `sim.trace` records kernels instead"
    yield
