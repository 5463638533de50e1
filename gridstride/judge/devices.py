"""The device on which a submission runs: a GPU, with events around a call, or the CPU, which emulates kernels."""

import ctypes
import functools
import importlib
import sys
import time
from contextlib import contextmanager, nullcontext, suppress

import torch

from . import wire

_SETTLE_SECONDS = 0.3  # time for remaining work to end, before the judge diagnoses a wrong output
_PAUSE_CYCLES = 4_000_000  # about 2 ms, for which a GPU sleeps until all work of a call is queued
_NAN_BYTE = 0xFF  # these bytes are a NaN that no arithmetic produces; `tolerance` recognizes it
_M_PERTURB = -6  # option of glibc's mallopt: fill allocated memory with the complement of a byte


# Streams without a GPU execute work immediately, so the judge can only check whether the submission waited for one.
class _Stream:
    "A stream on the CPU, which records whether the submission waited for it"

    active_streams = []  # stack of the streams of `with` blocks
    pending_streams = set()  # streams for which the submission has not waited

    def __init__(self, *args, **kwargs):
        self.cuda_stream = id(self)

    def __enter__(self):
        self.active_streams.append(self)
        self.pending_streams.add(self)
        return self

    def __exit__(self, *error):
        self.active_streams.remove(self)

    def wait_stream(self, other):
        "Record that this stream waits for the other one"
        self.pending_streams.discard(other)

    def synchronize(self):
        "Record a wait for this stream"
        self.pending_streams.discard(self)

    def record_event(self, event=None):
        "Record an event on this stream, and return it"
        event = event or torch.cuda.Event()
        event.record(self)
        return event

    def wait_event(self, event):
        "Record a wait for the stream of an event"
        self.pending_streams.discard(getattr(event, 'stream', None))

    def query(self):
        "Return True, because all work has ended"
        return True


class _Event:
    "torch.cuda.Event on the CPU, which remembers its stream"

    def __init__(self, *args, **kwargs):
        self.stream = self.time = None

    def record(self, stream=None):
        "Record the event on a stream"
        self.stream = stream or _current_stream()
        self.time = time.perf_counter()

    def wait(self, stream=None):
        "Record a wait for the stream of the event"
        _Stream.pending_streams.discard(self.stream)

    synchronize = wait

    def query(self):
        "Return True, because all work has ended"
        return True

    def elapsed_time(self, end):
        "Return the milliseconds until the event `end`"
        return (end.time - self.time) * 1e3


_DEFAULT_STREAM = _Stream()


def _current_stream(device=None):
    return _Stream.active_streams[-1] if _Stream.active_streams else _DEFAULT_STREAM


# Engines without a GPU: the emulator, the simulator, and `tile` for Triton's kernels
def _count_calls(owner, name, counts, replacement=None):
    "Wrap a method to count the calls that return; `replacement`: the function to call instead of the method"
    method = getattr(owner, name)
    original = getattr(method, '__wrapped__', method)
    function = replacement or original

    @functools.wraps(original)
    def counting(self, *args, **kwargs):
        result = function(self, *args, **kwargs)
        counts[self.__name__] = counts.get(self.__name__, 0) + 1
        return result

    setattr(owner, name, counting)


def _substitute_triton():
    "Make `import triton` return a module whose kernels run on the CPU, with every check"
    triton_shim = importlib.import_module('gridstride.tile.triton_shim')
    replacement = triton_shim.module()
    triton = sys.modules.get('triton')
    if triton is None:
        sys.modules['triton'] = replacement
        sys.modules['triton.language'] = replacement.language
        return
    checked = importlib.import_module('gridstride.tile.kernel').checked
    original_jit = triton.jit

    def jit(fn=None, **options):
        return functools.partial(jit, **options) if fn is None else checked(original_jit(fn, **options))

    triton.jit = jit
    triton.autotune = triton_shim.autotune
    triton.heuristics = triton_shim.heuristics
    replacement.jit = jit


def _return_uncompiled(fn=None, **options):
    "Return the function itself; replaces torch.compile, which cannot compile for the emulated GPU"
    return fn or functools.partial(_return_uncompiled, **options)


_COUNTS = {}  # kernel -> number of finished launches
_EMULATED_LAUNCHES = (  # (module, class, method) that launches kernels without a GPU
    ('gridstride.tile.kernel', 'CheckedKernel', 'run'),
    ('gridstride.sim.cuda', 'Kernel', '_launch'),
    ('gridstride.cpp.values', 'Function', 'run'),
)


def emulate():
    "Emulate a GPU in this process with the emulator, the simulator and checked Triton; count launches"
    importlib.import_module('gridstride.as_gpu').enable()
    _substitute_triton()
    torch.cuda.Stream = _Stream
    torch.cuda.Event = _Event
    torch.cuda.current_stream = _current_stream
    torch.cuda.stream = lambda s: s
    torch.cuda.default_stream = lambda device=None: _DEFAULT_STREAM
    torch.cuda.synchronize = lambda device=None: _Stream.pending_streams.clear()
    torch.compile = _return_uncompiled
    for module, owner, method in _EMULATED_LAUNCHES:
        _count_calls(getattr(importlib.import_module(module), owner), method, _COUNTS)


def disable_launches():
    "Disable all launches of this process; must be called before a submission is imported"
    for module, owner, method in _EMULATED_LAUNCHES:
        _count_calls(
            getattr(importlib.import_module(module), owner), method, _COUNTS, lambda self, *args, **kwargs: None
        )


# A device copies inputs to buffers, calls the submission, and returns copies of the output
class Cpu:
    "Calls on the CPU"

    make_buffer = bytearray  # make_buffer(n): the buffer for a blob of n bytes

    def __init__(self):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_M_PERTURB, 0x100 | ~_NAN_BYTE & 0xFF)

    def allocate_like(self, x):
        "Allocate memory for an input"
        return torch.empty_like(x)

    def fill(self, buffer, x):
        "Copy an input to its memory"
        buffer.copy_(x)

    def call(self, fn, data):
        "Reset the counts, and call `fn`"
        _COUNTS.clear()
        _Stream.pending_streams.clear()
        return fn(data)

    def take_output(self, tensors):
        "Return (tensors of the output at the end of the call, facts about the call)"
        return tensors, dict(launches=dict(_COUNTS), streams=len(_Stream.pending_streams))

    def to_cpu(self, x):
        "Return a tensor in the CPU's memory"
        return x.cpu()

    def wait_for_all_work(self):
        "Wait until remaining work has ended"
        time.sleep(_SETTLE_SECONDS)


SKIPPED_LAUNCHES = []  # not empty: launches from Python on a GPU do nothing


# (module, class, method) that launches kernels on a GPU from Python; launches by a compiled module are not intercepted
_GPU_LAUNCHES = (
    ('triton.runtime.jit', 'JITFunction', 'run'),
    ('numba.cuda.dispatcher', 'CUDADispatcher', 'call'),
    ('gridstride.cpp.kernel', 'Kernel', 'launch'),
)


@contextmanager
def _skip_launches(skipped_kernels):
    "Make launches no-ops inside the `with` block, and append their kernels to `skipped_kernels`"
    owners = [(getattr(sys.modules.get(module), owner, None), method) for module, owner, method in _GPU_LAUNCHES]
    originals = [(owner, method, getattr(owner, method)) for owner, method in owners if hasattr(owner, method)]
    for owner, method, _ in originals:
        setattr(owner, method, lambda self, *args, **kwargs: skipped_kernels.append(self))
    try:
        yield
    finally:
        for owner, method, original in originals:
            setattr(owner, method, original)


# The timed stream first sleeps until all work is queued. Then inputs are copied to their addresses, the L2 cache is
# overwritten, and the submission's work runs between two events. A copy of the output is queued after the second event.
# Work on another stream that does not wait for the timed stream reads the inputs of the previous call. If the timed
# stream does not wait for the other stream, its results are missing in the copy.
class Gpu:
    "Calls on a GPU; stores all functions that it uses before the submission, which could replace them, is imported"

    def __init__(self):
        cuda = torch.cuda
        self.synchronize = cuda.synchronize
        self.sleep = cuda._sleep
        self.clock = time.perf_counter
        self.record = cuda.Event.record
        self.wait = cuda.Event.synchronize
        self.elapsed = cuda.Event.elapsed_time
        self.copy = torch.Tensor.copy_
        self.zero = torch.Tensor.zero_
        self.clone = torch.Tensor.clone
        self.empty = torch.empty
        self.start_event, self.stop_event, self.copy_event = (cuda.Event(enable_timing=True) for _ in range(3))
        flush_bytes = max(2**28, 2 * cuda.get_device_properties().L2_cache_size)
        self.flush = torch.empty(flush_bytes, dtype=torch.uint8, device='cuda')  # overwriting it flushes the L2 cache
        self.queued_inputs = []  # (destination, input) of the next call
        self.skipped_kernels = []  # kernels whose launches did nothing in the last call

    def make_buffer(self, n):
        "Allocate n bytes for a blob, in pinned memory, which the GPU can copy asynchronously"
        return self.empty(n, dtype=torch.uint8, pin_memory=True).numpy()

    def to_cpu(self, x):
        "Return a copy of a tensor in pinned memory of the CPU"
        return self.copy(self.empty(x.shape, dtype=x.dtype, pin_memory=True), x)

    def allocate_like(self, x):
        "Allocate memory for an input"
        return torch.empty_like(x, device='cuda')

    def fill(self, buffer, x):
        "Queue the copy of an input to its memory, for the next call"
        self.queued_inputs.append((buffer, x.cuda()))

    def poison(self, sizes):
        "Fill the memory that the allocator returns next with a NaN that no arithmetic produces, in any type"
        buffers = [torch.full((n + 8,), _NAN_BYTE, dtype=torch.uint8, device='cuda') for n in sizes for _ in range(2)]
        del buffers

    def call(self, fn, data):
        "Call `fn` between the events"
        self.poison([x.nbytes for x in tensors_of(data)])
        self.synchronize()
        self.sleep(_PAUSE_CYCLES)
        for buffer, x in self.queued_inputs:
            self.copy(buffer, x)
        self.zero(self.flush)
        self.skipped_kernels.clear()
        self.record(self.start_event)
        with _skip_launches(self.skipped_kernels) if SKIPPED_LAUNCHES else nullcontext():
            output = fn(data)
        self.record(self.stop_event)
        return output

    def take_output(self, tensors):
        "Return (copies of the output in stream order, facts: time between the events, busy time after them)"
        copies = [self.clone(x) for x in tensors]
        self.record(self.copy_event)
        self.wait(self.copy_event)
        begin = self.clock()
        self.synchronize()
        busy_seconds = self.clock() - begin
        self.queued_inputs = []
        facts = dict(event_seconds=self.elapsed(self.start_event, self.stop_event) / 1e3, busy_seconds=busy_seconds)
        return copies, {**facts, 'launches': {'skipped': len(self.skipped_kernels)}} if self.skipped_kernels else facts

    def wait_for_all_work(self):
        "Wait until remaining work has ended"
        time.sleep(_SETTLE_SECONDS)
        self.synchronize()

    def kernels(self, fn, data):
        "Return {kernel: launches} of one call, by torch's profiler"
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            self.call(fn, data)
            self.synchronize()
        self.queued_inputs = []
        return {event.key: event.count for event in profiler.key_averages() if event.device_type.name == 'CUDA'}


def tensors_of(data):
    "Return the tensors of a call's data"
    return [x for x in (data if isinstance(data, tuple) else (data,)) if isinstance(x, torch.Tensor)]


class BufferPool:
    "Stores the inputs of each call at the same addresses, so that outputs cached by address are detected"

    def __init__(self, device):
        self.device = device
        self.buffers = {}

    def _store(self, i, x):
        "Store input `i` of a call in its buffer, and return the buffer"
        key = i, x.dtype, tuple(x.shape)
        if key not in self.buffers:
            self.buffers[key] = self.device.allocate_like(x)
        buffer = self.buffers[key].view(x.shape)  # a new tensor object per call
        with torch.no_grad():
            self.device.fill(buffer, x)
        return buffer

    def data(self, header, blobs):
        "Return the data of a call, as `generate_input` returns it"
        blobs = iter(blobs)
        items = []
        for i, item in enumerate(header['data']):
            is_tensor = isinstance(item, dict)
            items.append(
                self._store(i, wire.tensor_from_bytes(next(blobs), item['dtype'], item['shape'])) if is_tensor else item
            )
        return tuple(items) if header['tuple'] else items[0]
