"""Several emulated devices in Python: kernels are launched on each of them, and then run together.

The runtime queues the launches (`runtime/queue.cpp`), because a kernel may wait for one of another device."""

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

        The tensors are views of the emulated memory: what Python writes to them, kernels read. `name` is the name of
        the arrays in findings. Example: `flags = devices.symmetric(64, torch.int32)`"""
        return [self._tensor_on(rank, shape, dtype, name) for rank in range(self._num_devices)]

    def pointers(self, tensors):
        """Return an int64 tensor with the addresses of symmetric tensors, for a parameter `float *const *peers`.

        All devices may read it. Example: `k[1, 32](devices.pointers(buffers), rank)`"""
        import torch

        table = self._tensor_on(0, len(tensors), torch.int64, 'pointers')
        table.copy_(torch.tensor([x.data_ptr() for x in tensors]))
        return table

    def synchronize(self):
        """Run all launches in the queue, those of different devices together, and wait until they have ended.

        Raises the finding that stopped them, such as `RacecheckError`; its `device` is that of the thread."""
        with device_lock:
            held = emulator.held_calls()
            if not held.sources:
                return
            files = {name: text for sources in held.sources for name, text in sources().items()}
            emulator.prepare(held.checks, sources=lambda: files)
            succeeded = emulator.device().gridstride_run_queue()
            held.sources.clear()
            held.arguments.clear()
            if not succeeded:
                raise emulator.last_exception(files)
            emulator.raise_pending_error()

    def _tensor_on(self, rank, shape, dtype, name):
        import torch

        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        dtype = dtype or torch.float32
        num_bytes = max(1, math.prod(shape)) * dtype.itemsize
        memory = _allocate_on(rank, num_bytes, dtype.itemsize, name)
        return torch.frombuffer(memory, dtype=dtype, count=max(1, math.prod(shape)))[: math.prod(shape)].view(shape)


@contextmanager
def _chosen_device(rank):
    runtime = emulator.device()
    previous = runtime.gridstride_chosen_device()
    runtime.gridstride_choose_device(rank)
    try:
        yield
    finally:
        runtime.gridstride_choose_device(previous)


def _allocate_on(rank, num_bytes, itemsize, name):
    "Return a ctypes array of symmetric memory of a device, which is freed with the last object that refers to it"
    runtime = emulator.device()
    allocate = runtime.gridstride_symmetric_alloc
    allocate.argtypes, allocate.restype = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_char_p], ctypes.c_void_p
    with _chosen_device(rank):
        address = allocate(num_bytes, itemsize, name.encode())
    if not address:
        raise MemoryError(f'the emulated device {rank} has no {num_bytes} bytes left')
    memory = (ctypes.c_char * num_bytes).from_address(address)
    weakref.finalize(memory, runtime.gridstride_free, ctypes.c_void_p(address)).atexit = False
    return memory


@documented
@contextmanager
def devices(
    num_devices,  # 1 to 8
):
    """Emulate several devices in the `with` block, whose kernels run together at its end, and at `synchronize`.

    A kernel on one device may wait for one on another. Each has its own memory; `symmetric` allocates memory that all
    may access. Another array belongs to the device to which it was passed first, and an access by another one is a
    finding of memcheck. Arrays have a kernel's results after `synchronize`. Raises `ValueError` for another number.

    Example: `with devices(2) as d: ...; with d[1]: k[1, 32](x)`"""
    emulator.check_num_devices(num_devices)
    with emulator.options(devices=num_devices), _held_queue():
        group = Devices(num_devices)
        yield group
        group.synchronize()


@contextmanager
def _held_queue():
    "Leave launches in the queue at the end of a call, in the `with` block"
    emulator.prepare((), sources=dict)
    runtime = emulator.device()
    runtime.gridstride_run_queue.restype = ctypes.c_bool
    runtime.gridstride_hold_queue(True)
    try:
        with emulator.holding_calls():
            yield
    finally:
        runtime.gridstride_drop_queue()
        runtime.gridstride_hold_queue(False)
