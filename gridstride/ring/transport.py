"""Transport keys and values between ranks while they compute, and gradients to their owners: by messages or by copy
engines."""

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


class _InFlight:
    "Messages in flight, with a description of each, and the tensors that they fill"

    def __init__(self, works, names, arriving, patience, on_gpu):
        self.works, self.names, self.arriving, self.patience = works, names, arriving, patience
        self.on_gpu = on_gpu

    def wait(self):
        "Wait, and return the tensors that have arrived; on a GPU the current stream waits instead of the caller"
        works, self.works = self.works, []
        for o, name in zip(works, self.names):
            with waiting(name, self.patience):
                o.wait() if self.on_gpu else o.wait(timedelta(seconds=self.patience))
        return self.arriving


class Messages:
    """Transport by `torch.distributed`: keys and values travel from rank to rank around the ring; gradients are sent
    directly to the rank that owns the keys"""

    def __init__(self, patience=10.0):
        (self.me, self.ranks), self.patience = rank_and_ranks(), patience

    def open(self, *tensors, needed_keys=None, parts=1):
        """Start a pass with this rank's tensors. `needed_keys`: step -> the slice of keys that rank `me + step` reads;
        `parts`: groups of heads that are needed one after the other. Messages send everything, and ignore both"""
        self.own = [x.contiguous() for x in tensors]

    def _exchange(self, tensors, arriving, to, source, tag, what):
        to, source = to % self.ranks, source % self.ranks
        sends = [dist.P2POp(dist.isend, x, to, tag=tag) for x in tensors]
        takes = [dist.P2POp(dist.irecv, x, source, tag=tag) for x in arriving]
        names = [f'{what} of rank {source}'] * len(takes) + [f'rank {to} to take {what}'] * len(sends)
        with waiting(f'ranks {to} and {source}', self.patience):
            works = dist.batch_isend_irecv(takes + sends) if takes + sends else []
        return _InFlight(works, names, arriving, self.patience, self.own[0].is_cuda)

    def fetch(self, step):
        "Start to fetch the tensors of rank `me - step`; call `wait` of the result before the next step"
        arriving = [torch.empty_like(x) for x in self.own]
        post = self._exchange(self.own, arriving, self.me + 1, self.me - 1, _KEYS, f'the keys of step {step}')
        self.own = post.arriving
        return post

    def send_grads(self, step, tensors, arriving):
        """Start to send gradients, tensors of one shape, to their owner, rank `me - step`. `wait` of the result returns
        those that rank `me + step` has computed for this rank. `arriving`: their number and shape"""
        mine, (count, shape) = [x.contiguous() for x in tensors], arriving
        buffers = [self.own[0].new_empty(shape) for _ in range(count)]
        return self._exchange(mine, buffers, self.me - step, self.me + step, _GRADS, f'the gradients of step {step}')

    def release_grads(self, step):
        "Signal that the gradients received in this step have been used"

    def close(self):
        "End the pass: everything that was fetched has been used"
        self.own = None


# The copy engines of a GPU access the memory of other GPUs, and streams wait for values in memory, both without using
# an SM, so kernels that compute can occupy all SMs. A copy within one GPU would need SMs and wait for these kernels.
# Therefore keys are copied directly from where they are stored to where another rank reads them.
_WAIT_GEQ = 0  # CU_STREAM_WAIT_VALUE_GEQ: wait until the value is at least as large


@lru_cache
def _driver():
    "Load the CUDA driver and declare the functions that are used here"
    lib, uint, address = ctypes.CDLL('libcuda.so.1'), ctypes.c_uint, ctypes.c_uint64
    for name in ('cuStreamWriteValue32_v2', 'cuStreamWaitValue32_v2'):
        getattr(lib, name).argtypes = ctypes.c_void_p, address, uint, uint
    lib.cuMemcpyAsync.argtypes = address, address, ctypes.c_size_t, ctypes.c_void_p
    lib.cuMemcpy2DAsync_v2.argtypes = ctypes.c_void_p, ctypes.c_void_p
    return lib


def _call_driver(name, *args):
    "Call a function of the driver; raises RuntimeError if it reports an error"
    if code := getattr(_driver(), name)(*args):
        raise RuntimeError(f'{name}: the driver returned error {code}')


def _stream():
    "Return the handle of the current stream"
    return current_stream(torch.cuda.current_device())


class _Memcpy2D(ctypes.Structure):
    "The struct CUDA_MEMCPY2D of the driver"

    _side = [('x', ctypes.c_size_t), ('y', ctypes.c_size_t), ('type', ctypes.c_uint), ('host', ctypes.c_void_p)]
    _side += [('device', ctypes.c_uint64), ('array', ctypes.c_void_p), ('pitch', ctypes.c_size_t)]
    _fields_ = [(f'{which}_{o}', c) for which, side in (('from', _side), ('to', _side)) for o, c in side]
    _fields_ += [('width', ctypes.c_size_t), ('height', ctypes.c_size_t)]


_UNIFIED = 4  # CU_MEMORYTYPE_UNIFIED: the address determines the device


def _copy_keys(stream, to, x, keys, heads):
    """Copy some keys of some heads of a contiguous tensor [batch, heads, keys, dim] to the same positions of a tensor
    at the address `to`; `heads` counts over the whole batch"""
    first, last, _ = keys.indices(x.shape[2])
    # Strides cannot be used: a contiguous tensor may have any stride along an axis of size 1.
    size = x.shape[3] * x.element_size()
    pitch, width, height = x.shape[2] * size, (last - first) * size, heads.stop - heads.start
    if not width or not height:
        return
    offset = heads.start * pitch + first * size
    source, destination = x.data_ptr() + offset, to + offset
    if width == pitch:
        return _call_driver('cuMemcpyAsync', destination, source, width * height, stream)
    rows = _Memcpy2D(width=width, height=height, from_pitch=pitch, to_pitch=pitch)
    rows.from_type = rows.to_type = _UNIFIED
    rows.from_device, rows.to_device = source, destination
    _call_driver('cuMemcpy2DAsync_v2', ctypes.byref(rows), stream)


class _SymmetricMemory:
    "Memory of one size on every rank, which all ranks can read and write"

    def __init__(self, shape, dtype, device):
        import torch.distributed._symmetric_memory as symmetric

        self.mine = symmetric.empty(shape, dtype=dtype, device=device)
        self.handle = symmetric.rendezvous(self.mine, dist.group.WORLD)  # keeps `of` mapped
        self.of = [self.handle.get_buffer(rank, shape, dtype) for rank in range(dist.get_world_size())]  # rank by rank
        self.at = [x.data_ptr() for x in self.of]


class _IncomingCopy:
    """A copy in flight from another rank's copy engine.

    `wait_flag` makes the current stream wait for it. `watch` returns two addresses for a kernel that waits itself: the
    flag that the other rank sets, and the value to wait for. The other rank increments the flag after each group of
    heads."""

    def __init__(self, arriving, wait_flag, watch, parts):
        self.arriving, self.wait_flag, self.watch, self.parts = arriving, wait_flag, watch, parts

    def wait(self):
        "Make the current stream wait, and return the tensors that will have arrived"
        self.wait_flag()
        return self.arriving


class Copies:
    """Transport by copy engines, between GPUs that can access each other's memory. Each rank writes its keys and values
    to the memory of another rank, a different one in each step, and gradients to the memory of their owner. All tensors
    have one shape and dtype.

    A kernel that waits for keys occupies its SMs meanwhile, so what another rank does before it sends the keys must not
    need these SMs"""

    # Flags that ranks set in each other's memory: keys have arrived, the buffer of keys is free; likewise for gradients
    _KEYS, _KEYS_FREE, _GRADS, _GRADS_FREE = range(4)
    _MAX_PARTS = 8  # per step: the most groups of heads that are signalled separately

    def __init__(self):
        self.me, self.ranks = rank_and_ranks()
        if not torch.cuda.is_available():
            raise RuntimeError('ring.Copies: copy engines need a GPU, and none was found; use ring.Messages()')
        self.device = torch.device('cuda', torch.cuda.current_device())
        self.copy_stream, self.call, self.shape = torch.cuda.Stream(priority=-1), 0, None
        self.event = torch.cuda.Event()
        self.flags = _SymmetricMemory((4, self.ranks), torch.int32, self.device)
        self.flags.mine.zero_()
        self.flags_by_rank = [row.split(1) for row in self.flags.mine]
        self.wanted = torch.zeros(1, dtype=torch.int32, device=self.device)
        torch.cuda.synchronize()
        dist.barrier()
        self._free_all()

    def _allocate(self, shape, dtype):
        "Allocate memory for tensors of a shape: two buffers for keys and values, and two for gradients"
        if self.shape != (shape, dtype):
            torch.cuda.synchronize()
            dist.barrier()  # after it, no rank uses the old memory
            self.shape = shape, dtype
            self.keys, self.grads = (_SymmetricMemory((2, 2, *shape), dtype, self.device) for _ in range(2))
            self.arriving = [list(both) for both in self.keys.mine]
            self.addresses = [[[x.data_ptr() for x in both] for both in of] for of in self.keys.of]

    def _set_flag(self, rank, what, value, stream=None):
        "Set a flag in the memory of `rank`, in stream order"
        at = self.flags.at[rank] + 4 * (what * self.ranks + self.me)
        _call_driver('cuStreamWriteValue32_v2', stream or _stream(), at, value & 0xFFFFFFFF, 0)

    def _wait_flag(self, rank, what, value, stream=None):
        "Make a stream wait for a flag that `rank` sets in this rank's memory"
        at = self.flags.at[self.me] + 4 * (what * self.ranks + rank)
        _call_driver('cuStreamWaitValue32_v2', stream or _stream(), at, value & 0xFFFFFFFF, _WAIT_GEQ)

    def _neighbours(self, step):
        "Return (the rank whose keys arrive in a step, the rank that gets this rank's keys)"
        return (self.me - step) % self.ranks, (self.me + step) % self.ranks

    def _flag_value(self, step, call=None):
        "Return the flag value of a step: it exceeds those of earlier steps and calls by more than the number of parts"
        return ((self.call if call is None else call) * self.ranks + step) * self._MAX_PARTS

    def _free_all(self):
        "Signal that the buffers are free for the first steps of the next call"
        for step in range(1, min(3, self.ranks)):
            self._set_flag(self._neighbours(step)[0], self._KEYS_FREE, self._flag_value(step, self.call + 1))

    def _wait_on_side(self):
        "Make the copy stream wait for the current stream"
        self.event.record()
        self.event.wait(self.copy_stream)

    def open(self, *tensors, needed_keys=None, parts=1):
        """Start a pass with this rank's tensors. `needed_keys`: step -> the slice of keys that rank `me + step` reads;
        `parts`: up to 8 groups of heads that step 1 sends one after the other, the same number on all ranks"""
        self.own, self.needed_keys = [x.contiguous() for x in tensors], needed_keys or (lambda step: slice(None))
        self._allocate(tensors[0].shape, tensors[0].dtype)
        self.heads, self.parts = math.prod(tensors[0].shape[:2]), parts
        self.call += 1
        self._wait_on_side()

    def fetch(self, step):
        """Start to fetch the tensors of rank `me - step`, and to send this rank's; call `wait` of the result before the
        next step. The tensors stay alive until they have been sent, because `close` waits for that"""
        source, to = self._neighbours(step)
        if step > 2:  # the buffer is free when step - 2 has ended, which was launched before
            self._set_flag(source, self._KEYS_FREE, self._flag_value(step))
        copy_stream, number, needed = self.copy_stream.cuda_stream, self._flag_value(step), self.needed_keys(step)
        parts = self.parts if step == 1 else 1
        self._wait_flag(to, self._KEYS_FREE, number, copy_stream)
        for i in range(parts):
            heads = slice(cdiv(i * self.heads, parts), cdiv((i + 1) * self.heads, parts))
            for at, x in zip(self.addresses[to][step % 2], self.own):
                _copy_keys(copy_stream, at, x, needed, heads)
            self._set_flag(to, self._KEYS, number - (parts - 1 - i), copy_stream)
        return self._incoming(self.arriving[step % 2], step, source, self._KEYS)

    def _incoming(self, arriving, step, source, what):
        number, at = self._flag_value(step), self.flags_by_rank[what][source]

        def watch():
            _call_driver('cuStreamWriteValue32_v2', _stream(), self.wanted.data_ptr(), number & 0xFFFFFFFF, 0)
            return at, self.wanted

        return _IncomingCopy(arriving, lambda: self._wait_flag(source, what, number), watch, self.parts)

    def send_grads(self, step, tensors, arriving):
        """Start to send gradients, at most two tensors of one shape, to their owner, rank `me - step`. `wait` of the
        result returns those that rank `me + step` has computed for this rank. `arriving`: their number and shape"""
        owner, giver = self._neighbours(step)
        self._wait_on_side()
        with torch.cuda.stream(self.copy_stream):
            if step > 2:
                self._wait_flag(owner, self._GRADS_FREE, self._flag_value(step - 2))
            for buffer, x in zip(self.grads.of[owner][step % 2], tensors):
                buffer.view(-1)[: x.numel()].view(x.shape).copy_(x)
                x.record_stream(self.copy_stream)
            self._set_flag(owner, self._GRADS, self._flag_value(step))
        count, shape = arriving
        buffers = self.grads.mine[step % 2][:count]
        views = [x.view(-1)[: math.prod(shape)].view(shape) for x in buffers]
        return self._incoming(views, step, giver, self._GRADS)

    def release_grads(self, step):
        "Signal that the gradients received in this step have been used: the buffer is free for step + 2"
        if step + 2 < self.ranks:
            self._set_flag(self._neighbours(step + 2)[1], self._GRADS_FREE, self._flag_value(step))

    def close(self):
        "End the pass: everything that was fetched has been used"
        self._free_all()
        self.event.record(self.copy_stream)
        self.event.wait()
        self.own = None
