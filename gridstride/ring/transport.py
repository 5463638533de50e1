"""Transport keys and values between ranks while they compute, and gradients to their owners: by sends and receives or
by copy engines."""

import ctypes
import math
from datetime import timedelta
from functools import lru_cache

import torch
import torch.distributed as dist

from .processes import rank_and_ranks, waiting
from ..cpp.driver import current_stream
from ..utils import cdiv

_KEYS, _GRADS = 1, 2  # message tags: a pair of ranks may have both kinds in flight


class _SendRecvInFlight:
    "Sends and receives in flight, their descriptions, and the tensors that they fill (`buffers`)"

    def __init__(self, works, descriptions, buffers, timeout, is_on_gpu):
        self.works, self.descriptions, self.buffers, self.timeout = works, descriptions, buffers, timeout
        self.is_on_gpu = is_on_gpu

    def wait(self):
        "Wait for the messages, and return the tensors; on a GPU, the current stream waits, not the caller"
        works, self.works = self.works, []
        for work, description in zip(works, self.descriptions):
            with waiting(description, self.timeout):
                work.wait() if self.is_on_gpu else work.wait(timedelta(seconds=self.timeout))
        return self.buffers


class SendRecv:
    """Transports keys, values and gradients by `isend` and `irecv` of `torch.distributed`.

    Keys and values travel from rank to rank around the ring; gradients are sent directly to the owner of the keys."""

    def __init__(self, timeout=10.0):
        (self.rank, self.ranks), self.timeout = rank_and_ranks(), timeout

    def open(self, *tensors, needed_keys=None, num_parts=1):
        "Start a pass with this rank's tensors. All keys are sent at once; `needed_keys` and `num_parts` are ignored"
        self.own_tensors = [tensor.contiguous() for tensor in tensors]

    def _exchange(self, tensors, buffers, destination, source, tag, content):
        "Start to send `tensors` and to receive `buffers`; `content` describes them"
        destination, source = destination % self.ranks, source % self.ranks
        sends = [dist.P2POp(dist.isend, tensor, destination, tag=tag) for tensor in tensors]
        receives = [dist.P2POp(dist.irecv, tensor, source, tag=tag) for tensor in buffers]
        descriptions = [f'{content} of rank {source}'] * len(receives)
        descriptions += [f'rank {destination} to take {content}'] * len(sends)
        with waiting(f'ranks {destination} and {source}', self.timeout):
            works = dist.batch_isend_irecv(receives + sends) if receives + sends else []
        return _SendRecvInFlight(works, descriptions, buffers, self.timeout, self.own_tensors[0].is_cuda)

    def fetch(self, step):
        "Start to fetch the tensors of rank `rank - step`; call `wait` on the result before the next step"
        buffers = [torch.empty_like(tensor) for tensor in self.own_tensors]
        messages = self._exchange(
            self.own_tensors, buffers, self.rank + 1, self.rank - 1, _KEYS, f'the keys of step {step}'
        )
        self.own_tensors = messages.buffers
        return messages

    def send_grads(self, step, tensors, buffer_shape):
        """Start to send gradients, tensors of the same shape, to their owner, rank `rank - step`.

        `wait()` of the result returns the gradients that rank `rank + step` has computed for this rank;
        `buffer_shape`: the number of these tensors, and their shape."""
        contiguous_grads, (count, shape) = [tensor.contiguous() for tensor in tensors], buffer_shape
        buffers = [self.own_tensors[0].new_empty(shape) for _ in range(count)]
        return self._exchange(
            contiguous_grads, buffers, self.rank - step, self.rank + step, _GRADS, f'the gradients of step {step}'
        )

    def release_grads(self, step):
        "Signal that the gradients received in this step have been added"

    def close(self):
        "End the pass; the fetched tensors may be overwritten"
        self.own_tensors = None


# Copy engines access the memory of other GPUs, and streams can wait for values in memory. Neither uses an SM, so
# compute kernels can occupy all SMs. A copy within a GPU would use SMs, and wait for these kernels. Therefore keys are
# copied from the memory of their owner directly to the memory from which another rank reads them.
_WAIT_GEQ = 0  # CU_STREAM_WAIT_VALUE_GEQ: wait until the value is at least as large


@lru_cache
def _driver():
    "Load the CUDA driver, and declare the functions that this module calls"
    driver, uint, address = ctypes.CDLL('libcuda.so.1'), ctypes.c_uint, ctypes.c_uint64
    for name in ('cuStreamWriteValue32_v2', 'cuStreamWaitValue32_v2'):
        getattr(driver, name).argtypes = ctypes.c_void_p, address, uint, uint
    driver.cuMemcpyAsync.argtypes = address, address, ctypes.c_size_t, ctypes.c_void_p
    driver.cuMemcpy2DAsync_v2.argtypes = ctypes.c_void_p, ctypes.c_void_p
    return driver


def _call_driver(name, *args):
    "Call a function of the driver. Raises RuntimeError if it returns an error"
    if code := getattr(_driver(), name)(*args):
        raise RuntimeError(f'{name}: the driver returned error {code}')


def _current_stream_handle():
    "Return the handle of the current stream"
    return current_stream(torch.cuda.current_device())


class _Memcpy2D(ctypes.Structure):
    "The struct CUDA_MEMCPY2D of the driver"

    _endpoint_fields = [
        ('x', ctypes.c_size_t),
        ('y', ctypes.c_size_t),
        ('type', ctypes.c_uint),
        ('host', ctypes.c_void_p),
    ]
    _endpoint_fields += [('device', ctypes.c_uint64), ('array', ctypes.c_void_p), ('pitch', ctypes.c_size_t)]
    _fields_ = [
        (f'{endpoint}_{name}', c_type)
        for endpoint, fields in (('from', _endpoint_fields), ('to', _endpoint_fields))
        for name, c_type in fields
    ]
    _fields_ += [('width', ctypes.c_size_t), ('height', ctypes.c_size_t)]


_UNIFIED = 4  # CU_MEMORYTYPE_UNIFIED: the address determines the device


def _copy_keys(stream, destination_start, tensor, keys, heads):
    """Copy a slice of the keys of a slice of the heads, of a contiguous tensor [batch, heads, keys, dim].

    The destination is a tensor of the same shape at the address `destination_start`. `heads` counts over the whole
    batch."""
    first_key, last_key, _ = keys.indices(tensor.shape[2])
    # Sizes are computed without strides, which may have any value along an axis of size 1.
    row_bytes = tensor.shape[3] * tensor.element_size()
    pitch, width, height = tensor.shape[2] * row_bytes, (last_key - first_key) * row_bytes, heads.stop - heads.start
    if not width or not height:
        return
    offset = heads.start * pitch + first_key * row_bytes
    source, destination = tensor.data_ptr() + offset, destination_start + offset
    copy_rectangle_in_stream(stream, destination, source, pitch, width, height)


def copy_rectangle_in_stream(
    stream,  # the handle of a stream
    destination,  # an address, also in the memory of another GPU
    source,  # an address
    pitch,  # bytes from one row to the next, of both
    width,  # bytes of a row to copy
    height,  # rows
):
    "Copy a part of each row in stream order"
    if width == pitch:
        return copy_in_stream(stream, destination, source, width * height)
    copy = _Memcpy2D(width=width, height=height, from_pitch=pitch, to_pitch=pitch)
    copy.from_type = copy.to_type = _UNIFIED
    copy.from_device, copy.to_device = source, destination
    _call_driver('cuMemcpy2DAsync_v2', ctypes.byref(copy), stream)


def copy_in_stream(
    stream,  # the handle of a stream
    destination,  # an address, also in the memory of another GPU
    source,  # an address
    num_bytes,
):
    "Copy bytes in stream order, by a copy engine if the destination is on another GPU"
    _call_driver('cuMemcpyAsync', destination, source, num_bytes, stream)


def set_flag_in_stream(
    stream,  # the handle of a stream
    address,  # of 32 bits, also in the memory of another GPU
    value,
):
    "Store a flag in stream order, after all earlier copies of the stream"
    _call_driver('cuStreamWriteValue32_v2', stream, address, value & 0xFFFFFFFF, 0)


class SymmetricMemory:
    "Memory of the same size on every rank, which all ranks can read and write"

    def __init__(self, shape, dtype, device):
        import torch.distributed._symmetric_memory as symmetric

        self.local = symmetric.empty(shape, dtype=dtype, device=device)
        self.handle = symmetric.rendezvous(self.local, dist.group.WORLD)  # keeps `buffer_of_rank` mapped
        self.buffer_of_rank = [self.handle.get_buffer(rank, shape, dtype) for rank in range(dist.get_world_size())]
        self.addresses = [buffer.data_ptr() for buffer in self.buffer_of_rank]


class _IncomingCopy:
    """A copy in flight from another rank's copy engine.

    `wait_flag()` makes the current stream wait for the copy. `watch()` returns two tensors for a kernel that waits
    itself: the flag that the other rank sets, and the value to wait for. The other rank increments the flag after each
    of `num_parts` groups of heads."""

    def __init__(self, buffers, wait_flag, watch, num_parts):
        self.buffers, self.wait_flag, self.watch, self.num_parts = buffers, wait_flag, watch, num_parts

    def wait(self):
        "Make the current stream wait for the copy, and return the tensors that it fills"
        self.wait_flag()
        return self.buffers


class CopyEngine:
    """Transports keys, values and gradients by copy engines, between GPUs that can access each other's memory.

    Each rank writes its keys and values to the memory of another rank, a different rank in each step, and gradients to
    the memory of their owner. All tensors have the same shape and dtype. There are two buffers, for even and odd steps;
    flags in the memory of the ranks signal that a buffer is full, or free again.

    A kernel that waits for keys occupies its SMs meanwhile. If two ranks share a GPU, a rank's work before it sends the
    keys must not need the SMs on which the other rank waits."""

    # Flags that ranks set in each other's memory: keys have arrived; the buffer of keys is free; gradients have
    # arrived; the buffer of gradients is free
    _KEYS, _KEYS_FREE, _GRADS, _GRADS_FREE = range(4)
    _MAX_PARTS = 8  # maximum number of groups of heads per step that are signalled separately

    def __init__(self):
        self.rank, self.ranks = rank_and_ranks()
        if not torch.cuda.is_available():
            raise RuntimeError('ring.CopyEngine: copy engines need a GPU, and none was found; use ring.SendRecv()')
        self.device = torch.device('cuda', torch.cuda.current_device())
        self.copy_stream, self.num_calls, self.shape = torch.cuda.Stream(priority=-1), 0, None
        self.event = torch.cuda.Event()
        self.signal_pad = SymmetricMemory((4, self.ranks), torch.int32, self.device)
        self.signal_pad.local.zero_()
        self.local_signals = [row.split(1) for row in self.signal_pad.local]  # [kind][rank]
        self.awaited_value = torch.zeros(1, dtype=torch.int32, device=self.device)
        torch.cuda.synchronize()
        dist.barrier()
        self._release_buffers()

    def _allocate(self, shape, dtype):
        "Allocate memory for tensors of a shape: two buffers for keys and values, and two for gradients"
        if self.shape != (shape, dtype):
            torch.cuda.synchronize()
            dist.barrier()  # no rank uses the old memory after it
            self.shape = shape, dtype
            self.keys, self.grads = (SymmetricMemory((2, 2, *shape), dtype, self.device) for _ in range(2))
            self.buffers = [list(keys_and_values) for keys_and_values in self.keys.local]
            self.addresses = [
                [[tensor.data_ptr() for tensor in pair] for pair in rank_buffers]
                for rank_buffers in self.keys.buffer_of_rank
            ]

    def _set_flag(self, rank, kind, value, stream=None):
        "Set a flag in the memory of `rank`, in stream order"
        address = self.signal_pad.addresses[rank] + 4 * (kind * self.ranks + self.rank)
        set_flag_in_stream(stream or _current_stream_handle(), address, value)

    def _wait_flag(self, rank, kind, value, stream=None):
        "Make a stream wait for a flag that `rank` sets in this rank's memory"
        address = self.signal_pad.addresses[self.rank] + 4 * (kind * self.ranks + rank)
        _call_driver(
            'cuStreamWaitValue32_v2', stream or _current_stream_handle(), address, value & 0xFFFFFFFF, _WAIT_GEQ
        )

    def _neighbours(self, step):
        "Return (the rank whose keys arrive in a step, the rank that receives this rank's keys)"
        return (self.rank - step) % self.ranks, (self.rank + step) % self.ranks

    def _flag_value(self, step, call_number=None):
        "Return the flag value of a step, which exceeds those of earlier steps and calls by at least `_MAX_PARTS`"
        return ((self.num_calls if call_number is None else call_number) * self.ranks + step) * self._MAX_PARTS

    def _release_buffers(self):
        "Signal that the buffers are free for the first steps of the next call"
        for step in range(1, min(3, self.ranks)):
            self._set_flag(self._neighbours(step)[0], self._KEYS_FREE, self._flag_value(step, self.num_calls + 1))

    def _wait_in_copy_stream(self):
        "Make the copy stream wait for the current stream"
        self.event.record()
        self.event.wait(self.copy_stream)

    def open(self, *tensors, needed_keys=None, num_parts=1):
        """Start a pass with this rank's tensors.

        `needed_keys`: step -> the slice of keys that rank `rank + step` reads. `num_parts`: the number of groups of
        heads, up to 8, that step 1 sends one after another; it is the same on all ranks."""
        self.own_tensors = [tensor.contiguous() for tensor in tensors]
        self.needed_keys = needed_keys or (lambda step: slice(None))
        self._allocate(tensors[0].shape, tensors[0].dtype)
        self.heads, self.num_parts = math.prod(tensors[0].shape[:2]), num_parts
        self.num_calls += 1
        self._wait_in_copy_stream()

    def fetch(self, step):
        """Start to fetch the tensors of rank `rank - step`, and to send this rank's tensors.

        Call `wait` on the result before the next step. The tensors stay alive until they have been sent, because
        `close` waits for that."""
        source, destination = self._neighbours(step)
        if step > 2:  # step - 2 used the same buffer; in stream order, it has finished
            self._set_flag(source, self._KEYS_FREE, self._flag_value(step))
        copy_stream, flag_value = self.copy_stream.cuda_stream, self._flag_value(step)
        key_slice = self.needed_keys(step)
        num_parts = self.num_parts if step == 1 else 1
        self._wait_flag(destination, self._KEYS_FREE, flag_value, copy_stream)
        for part in range(num_parts):
            heads = slice(cdiv(part * self.heads, num_parts), cdiv((part + 1) * self.heads, num_parts))
            for address, tensor in zip(self.addresses[destination][step % 2], self.own_tensors):
                _copy_keys(copy_stream, address, tensor, key_slice, heads)
            self._set_flag(destination, self._KEYS, flag_value - (num_parts - 1 - part), copy_stream)
        return self._incoming(self.buffers[step % 2], step, source, self._KEYS)

    def _incoming(self, buffers, step, source, kind):
        "Return the `_IncomingCopy` from the rank `source`, whose flag is of this kind"
        value, flag = self._flag_value(step), self.local_signals[kind][source]

        def watch():
            _call_driver(
                'cuStreamWriteValue32_v2',
                _current_stream_handle(),
                self.awaited_value.data_ptr(),
                value & 0xFFFFFFFF,
                0,
            )
            return flag, self.awaited_value

        return _IncomingCopy(buffers, lambda: self._wait_flag(source, kind, value), watch, self.num_parts)

    def send_grads(self, step, tensors, buffer_shape):
        """Start to send gradients, at most two tensors of the same shape, to their owner, rank `rank - step`.

        `wait()` of the result returns the gradients that rank `rank + step` has computed for this rank;
        `buffer_shape`: the number of these tensors, and their shape."""
        owner, source = self._neighbours(step)
        self._wait_in_copy_stream()
        with torch.cuda.stream(self.copy_stream):
            if step > 2:
                self._wait_flag(owner, self._GRADS_FREE, self._flag_value(step - 2))
            for buffer, tensor in zip(self.grads.buffer_of_rank[owner][step % 2], tensors):
                buffer.view(-1)[: tensor.numel()].view(tensor.shape).copy_(tensor)
                tensor.record_stream(self.copy_stream)
            self._set_flag(owner, self._GRADS, self._flag_value(step))
        count, shape = buffer_shape
        buffers = self.grads.local[step % 2][:count]
        views = [tensor.view(-1)[: math.prod(shape)].view(shape) for tensor in buffers]
        return self._incoming(views, step, source, self._GRADS)

    def release_grads(self, step):
        "Signal that the gradients received in this step have been used: the buffer is free for step + 2"
        if step + 2 < self.ranks:
            self._set_flag(self._neighbours(step + 2)[1], self._GRADS_FREE, self._flag_value(step))

    def close(self):
        "End the pass; the fetched tensors may be overwritten"
        self._release_buffers()
        self.event.record(self.copy_stream)
        self.event.wait()
        self.own_tensors = None
