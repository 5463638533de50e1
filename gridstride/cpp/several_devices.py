"""Several emulated devices in Python: kernels are launched on each of them, and then run together.

The runtime queues the launches (`runtime/queue.cpp`), because a kernel may wait for a kernel on another device."""

import ctypes
import math
import weakref
from contextlib import contextmanager

from . import emulator
from .load import device_lock
from ..support.parameter_docs import documented


class Devices:
    "The emulated devices of a `with devices(n)` block: `devices[rank]`, `symmetric`, `pointers`, `synchronize`"

    def __init__(self, num_devices):
        self._num_devices = num_devices

    def __len__(self):
        return self._num_devices

    @contextmanager
    def __getitem__(self, rank):
        "Launch kernels on the device `rank` in the `with` block; they run at the next `synchronize`"
        if not 0 <= rank < self._num_devices:
            raise IndexError(f'device {rank} does not exist: there are {self._num_devices} emulated devices')
        with _chosen_device(rank):
            yield self

    def symmetric(self, shape, dtype=None, name='symmetric') -> list:  # of a tensor per device
        """Allocate a tensor of zeros on each device, which the kernels of all devices may access.

        The tensors are views of the emulated memory, so kernels and Python access the same elements. `name` is the name
        of the arrays in findings. Example: `flags = devices.symmetric(64, torch.int32)`"""
        import torch

        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        num_elements, dtype = math.prod(shape), dtype or torch.float32
        arrays = _allocate(max(1, num_elements) * dtype.itemsize, dtype.itemsize, name, self._num_devices)
        tensors = [torch.frombuffer(memory, dtype=dtype, count=max(1, num_elements)) for memory in arrays]
        return [x[:num_elements].view(shape) for x in tensors]

    def pointers(self, tensors):
        """Return an int64 tensor with the addresses of symmetric tensors, for a parameter `float *const *peers`.

        All devices may read it. Example: `k[1, 32](devices.pointers(buffers), rank)`"""
        import torch

        table = self.symmetric(len(tensors), torch.int64, 'pointers')[0]
        table.copy_(torch.tensor([x.data_ptr() for x in tensors]))
        return table

    def multicast(self, tensors) -> int:
        """Return the multicast address of the tensors of `symmetric` on all devices, for `multimem`, as an int64.

        Example: `k[1, 32](devices.multicast(buffers), n)` for a parameter `unsigned long long` or `long long`"""
        address = _function('multicast_address', ctypes.c_void_p, ctypes.c_void_p)(tensors[0].data_ptr())
        if not address:
            raise ValueError('multicast requires tensors that `symmetric` allocated')
        return address

    def synchronize(self):
        """Run all launches in the queue, together if they are on different devices, and wait until they have ended.

        Raises the finding that stopped them, such as `RacecheckError`; its `device` is the device of the thread."""
        with device_lock:
            deferred = emulator.deferred_calls()
            if not deferred.sources:
                return
            files = {name: text for sources in deferred.sources for name, text in sources().items()}
            emulator.prepare(deferred.checks, sources=lambda: files)
            succeeded = emulator.load_runtime().gridstride_run_queue()
            deferred.sources.clear()
            deferred.arguments.clear()
            if not succeeded:
                raise emulator.last_exception(files)
            emulator.raise_pending_error()


@contextmanager
def _chosen_device(rank):
    runtime = emulator.load_runtime()
    previous = runtime.gridstride_chosen_device()
    runtime.gridstride_choose_device(rank)
    try:
        yield
    finally:
        runtime.gridstride_choose_device(previous)


def _function(name, result, *arguments):
    "Return a function of the runtime, with its result and argument types as ctypes"
    f = getattr(emulator.load_runtime(), f'gridstride_{name}')
    f.restype, f.argtypes = result, arguments
    return f


def _allocate(num_bytes, itemsize, name, num_devices):
    "Return ctypes arrays of a symmetric allocation; each is freed with the last object that refers to it"
    allocate = _function('symmetric_alloc', ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_char_p)
    find_peer = _function('symmetric_peer', ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    free = _function('symmetric_free', None, ctypes.c_void_p)
    address = allocate(num_bytes, itemsize, name.encode())
    if not address:
        raise MemoryError(f'the emulated devices are out of memory: cannot allocate {num_bytes} bytes')
    addresses = [find_peer(address, device) for device in range(num_devices)]
    arrays = [(ctypes.c_char * num_bytes).from_address(a) for a in addresses]
    for memory, a in zip(arrays, addresses):
        weakref.finalize(memory, free, a).atexit = False
    return arrays


@documented
@contextmanager
def devices(
    num_devices,  # 1 to 8
):
    """Emulate several devices in the `with` block, whose kernels run together at its end, and at `synchronize`.

    A kernel on one device may wait for one on another. Each has its own memory; `symmetric` allocates memory that all
    may access. Any other array belongs to the first device to which it is passed, and memcheck reports an access by
    another device. A kernel's results are in its arrays after `synchronize`. Raises `ValueError` for an invalid number
    of devices.

    Example: `with devices(2) as d: ...; with d[1]: k[1, 32](x)`"""
    emulator.check_num_devices(num_devices)
    with emulator.options(devices=num_devices), _deferred_launches():
        group = Devices(num_devices)
        yield group
        group.synchronize()


@contextmanager
def _deferred_launches():
    "Keep launches in the queue at the end of a call, in the `with` block"
    emulator.prepare((), sources=dict)
    runtime = emulator.load_runtime()
    runtime.gridstride_run_queue.restype = ctypes.c_bool
    runtime.gridstride_defer_queue(True)
    try:
        with emulator.deferring_calls():
            yield
    finally:
        runtime.gridstride_discard_queue()
        runtime.gridstride_defer_queue(False)
