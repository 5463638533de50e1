"""The device that runs a submission: a GPU, with events around a call, or the CPU, which emulates kernels."""

import ctypes
import functools
import importlib
import sys
import time
from contextlib import contextmanager, nullcontext, suppress

import torch

from . import wire

_SETTLE = 0.3  # seconds for remaining work to end, before the judge diagnoses a wrong answer
_PAUSE = 4_000_000  # cycles, about 2 ms, for which a GPU sleeps until all of a call is queued
_NAN_BYTE = 0xFF  # a float of these bytes is a NaN that no processor computes: `closeness` recognizes it
_PERTURB = -6  # glibc's M_PERTURB: memory is handed out full of the complement of this byte


# Streams without a GPU: work is done at once, so the judge can only see whether the submission waited for a stream.
class _Stream:
    "A stream on the CPU, which records whether the submission waited for it"

    current = []
    pending = set()

    def __init__(self, *args, **kwargs):
        self.cuda_stream = id(self)

    def __enter__(self):
        self.current.append(self)
        self.pending.add(self)
        return self

    def __exit__(self, *error):
        self.current.remove(self)

    def wait_stream(self, other):
        "Let the next work on this stream wait for the other stream"
        self.pending.discard(other)

    def synchronize(self):
        "Wait for the work of this stream"
        self.pending.discard(self)

    def record_event(self, event=None):
        "Return an event that others may wait for"
        event = event or torch.cuda.Event()
        event.record(self)
        return event

    def wait_event(self, event):
        "Wait for the work before an event"
        self.pending.discard(getattr(event, 'stream', None))

    def query(self):
        "Return at once: everything has ended"
        return True


class _Event:
    "torch.cuda.Event on the CPU, which knows its stream"

    def __init__(self, *args, **kwargs):
        self.stream = self.time = None

    def record(self, stream=None):
        "Record the event on a stream"
        self.stream = stream or _current_stream()
        self.time = time.perf_counter()

    def wait(self, stream=None):
        "Wait for the stream of the event"
        _Stream.pending.discard(self.stream)

    synchronize = wait

    def query(self):
        "Return at once: everything has ended"
        return True

    def elapsed_time(self, end):
        "Return the milliseconds until the event `end`"
        return (end.time - self.time) * 1e3


_MAIN = _Stream()


def _current_stream(device=None):
    return _Stream.current[-1] if _Stream.current else _MAIN


# Engines without a GPU: the emulator, the simulator, and `tile` for Triton's kernels
def _count(owner, name, counts, instead=None):
    "Count, from now on, the calls of a method that return; `instead`, if given, replaces the method"
    method = getattr(owner, name)
    original = getattr(method, '__wrapped__', method)
    called = instead or original

    @functools.wraps(original)
    def counted(self, *args, **kwargs):
        res = called(self, *args, **kwargs)
        counts[self.__name__] = counts.get(self.__name__, 0) + 1
        return res

    setattr(owner, name, counted)


def _triton_here():
    "Let `import triton` give kernels that are checked on the CPU"
    substitute = importlib.import_module('gridstride.tile.triton_shim')
    shim = substitute.module()
    real = sys.modules.get('triton')
    if real is None:
        sys.modules['triton'] = shim
        sys.modules['triton.language'] = shim.language
        return
    checked = importlib.import_module('gridstride.tile.kernel').checked
    compile_ = real.jit

    def jit(fn=None, **options):
        return functools.partial(jit, **options) if fn is None else checked(compile_(fn, **options))

    real.jit = jit
    real.autotune = substitute.autotune
    real.heuristics = substitute.heuristics
    shim.jit = jit


def _uncompiled(f=None, **options):
    "Return the function itself, in place of torch.compile, which cannot compile for the emulated GPU"
    return f or functools.partial(_uncompiled, **options)


_COUNTS = {}  # kernel -> launches that have finished
_LAUNCHES = (
    ('gridstride.tile.kernel', 'CheckedKernel', 'run'),
    ('gridstride.sim.cuda', 'Kernel', '_launch'),
    ('gridstride.cpp.values', 'Function', 'run'),
)


def emulate():
    "Let this process find a GPU: the emulator, the simulator and checked Triton; launches are counted"
    importlib.import_module('gridstride.as_gpu').enable()
    _triton_here()
    torch.cuda.Stream = _Stream
    torch.cuda.Event = _Event
    torch.cuda.current_stream = _current_stream
    torch.cuda.stream = lambda s: s
    torch.cuda.default_stream = lambda device=None: _MAIN
    torch.cuda.synchronize = lambda device=None: _Stream.pending.clear()
    torch.compile = _uncompiled
    for module, owner, method in _LAUNCHES:
        _count(getattr(importlib.import_module(module), owner), method, _COUNTS)


def launch_nothing():
    "Let all launches of this process do nothing; called before a submission is imported"
    for module, owner, method in _LAUNCHES:
        _count(getattr(importlib.import_module(module), owner), method, _COUNTS, lambda self, *args, **kwargs: None)


# A device: inputs are put into buffers, a call runs, its answer is taken
class Cpu:
    "Calls on the CPU"

    blob = bytearray  # blob(n): a buffer for n bytes of a message

    def __init__(self):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_PERTURB, 0x100 | ~_NAN_BYTE & 0xFF)

    def buffer(self, x):
        "Allocate memory for an input"
        return torch.empty_like(x)

    def fill(self, buffer, x):
        "Copy an input to its buffer"
        buffer.copy_(x)

    def call(self, f, data):
        "Call `f`, with all counts at 0"
        _COUNTS.clear()
        _Stream.pending.clear()
        return f(data)

    def take(self, items):
        "Return the answer as it is when the call returns, and the counts"
        return items, dict(launches=dict(_COUNTS), streams=len(_Stream.pending))

    def here(self, x):
        "Return a tensor in the CPU's memory"
        return x.cpu()

    def settle(self):
        "Wait until remaining work has ended"
        time.sleep(_SETTLE)


IDLE = []  # if not empty, launches from Python on a GPU do nothing


# Functions that launch kernels on a GPU from Python; launches by a compiled module are not seen
_LAUNCHERS = (
    ('triton.runtime.jit', 'JITFunction', 'run'),
    ('numba.cuda.dispatcher', 'CUDADispatcher', 'call'),
    ('gridstride.cpp.kernel', 'Kernel', 'launch'),
)


@contextmanager
def _launching_nothing(skipped):
    "Let launches do nothing inside the `with` block, and append them to `skipped`"
    owners = [(getattr(sys.modules.get(module), owner, None), method) for module, owner, method in _LAUNCHERS]
    were = [(owner, method, getattr(owner, method)) for owner, method in owners if hasattr(owner, method)]
    for owner, method, _ in were:
        setattr(owner, method, lambda self, *args, **kwargs: skipped.append(self))
    try:
        yield
    finally:
        for owner, method, launch in were:
            setattr(owner, method, launch)


# The timed stream first sleeps until all work is queued. Then inputs are copied to their addresses, the L2 cache is
# overwritten, and the submission's work runs between two events. A copy of the answer is queued after the second event.
# Work on another stream that does not wait for this one finds the inputs of the call before; work that this stream does
# not wait for is missing from the copy.
class Gpu:
    "Calls on a GPU, with events and functions that were looked up before the submission was imported"

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
        self.start, self.stop, self.copied = (cuda.Event(enable_timing=True) for _ in range(3))
        size = max(2**28, 2 * cuda.get_device_properties().L2_cache_size)
        self.flush = torch.empty(size, dtype=torch.uint8, device='cuda')
        self.waiting = []
        self.skipped = []

    def blob(self, n):
        "Allocate n bytes for a message, in pinned memory, which the GPU can copy asynchronously"
        return self.empty(n, dtype=torch.uint8, pin_memory=True).numpy()

    def here(self, x):
        "Return a tensor in pinned memory of the CPU"
        return self.copy(self.empty(x.shape, dtype=x.dtype, pin_memory=True), x)

    def buffer(self, x):
        "Allocate memory for an input"
        return torch.empty_like(x, device='cuda')

    def fill(self, buffer, x):
        "Copy an input to its buffer when the call begins"
        self.waiting.append((buffer, x.cuda()))

    def poison(self, sizes):
        "Fill freed memory, which the allocator returns next, with a NaN of every type that arithmetic never gives"
        buffers = [torch.full((n + 8,), _NAN_BYTE, dtype=torch.uint8, device='cuda') for n in sizes for _ in range(2)]
        del buffers

    def call(self, f, data):
        "Call `f` between the events"
        self.poison([x.nbytes for x in leaves(data)])
        self.synchronize()
        self.sleep(_PAUSE)
        for buffer, x in self.waiting:
            self.copy(buffer, x)
        self.zero(self.flush)
        self.skipped.clear()
        self.record(self.start)
        with _launching_nothing(self.skipped) if IDLE else nullcontext():
            answer = f(data)
        self.record(self.stop)
        return answer

    def take(self, items):
        "Return the answer in stream order, the seconds between the events, and how long other streams continued"
        copies = [self.clone(x) for x in items]
        self.record(self.copied)
        self.wait(self.copied)
        begin = self.clock()
        self.synchronize()
        after = self.clock() - begin
        self.waiting = []
        facts = dict(event=self.elapsed(self.start, self.stop) / 1e3, after=after)
        return copies, {**facts, 'launches': {'skipped': len(self.skipped)}} if self.skipped else facts

    def settle(self):
        "Wait until remaining work has ended"
        time.sleep(_SETTLE)
        self.synchronize()

    def kernels(self, f, data):
        "Return {kernel: launches} of one call, by torch's profiler"
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as p:
            self.call(f, data)
            self.synchronize()
        self.waiting = []
        return {event.key: event.count for event in p.key_averages() if event.device_type.name == 'CUDA'}


def leaves(data):
    "Return the tensors of a call's data"
    return [x for x in (data if isinstance(data, tuple) else (data,)) if isinstance(x, torch.Tensor)]


class Pool:
    "Puts inputs at the addresses of those of the call before, which detects answers that are cached by address"

    def __init__(self, device):
        self.device = device
        self.buffers = {}

    def _put(self, i, x):
        key = i, x.dtype, tuple(x.shape)
        if key not in self.buffers:
            self.buffers[key] = self.device.buffer(x)
        buffer = self.buffers[key].view(x.shape)  # a new object per call
        with torch.no_grad():
            self.device.fill(buffer, x)
        return buffer

    def data(self, header, blobs):
        "Return the data of a call, as `generate_input` gave them"
        blobs = iter(blobs)
        items = []
        for i, item in enumerate(header['data']):
            is_tensor = isinstance(item, dict)
            items.append(self._put(i, wire.tensor_of(next(blobs), item['dtype'], item['shape'])) if is_tensor else item)
        return tuple(items) if header['tuple'] else items[0]
