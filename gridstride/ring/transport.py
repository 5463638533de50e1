"""How keys and values come to a rank while it computes, and how gradients go home: as messages, or by copy engines."""

import ctypes
import math
from datetime import timedelta
from functools import lru_cache

import torch
import torch.distributed as dist

from .processes import rank_and_ranks, waiting
from ..cpp.driver import current_stream
from ..utils import cdiv

_KEYS, _GRADS = 1, 2  # tags: a pair of ranks may have both in flight


class _Post:
    "Messages in flight, each with its description, and what arrives"

    def __init__(self, works, names, arriving, patience, on_gpu):
        self.works, self.names, self.arriving, self.patience = works, names, arriving, patience
        self.on_gpu = on_gpu

    def wait(self):
        "What has arrived; on a GPU, what follows on this stream waits instead of the caller"
        works, self.works = self.works, []
        for o, name in zip(works, self.names):
            with waiting(name, self.patience):
                o.wait() if self.on_gpu else o.wait(timedelta(seconds=self.patience))
        return self.arriving


class Messages:
    """By `torch.distributed`: keys and values go from rank to rank, as in a ring; what a rank finds out about the
    gradients of another one's goes straight home"""

    def __init__(self, patience=10.0):
        (self.me, self.ranks), self.patience = rank_and_ranks(), patience

    def open(self, *tensors, needs=None, parts=1):
        """Begin: these are what this rank has. `needs`: step -> the keys among them that rank `me + step` reads, a
        slice; `parts`: of the heads, which are needed one after the other. A message is of all"""
        self.have = [x.contiguous() for x in tensors]

    def _exchange(self, tensors, arriving, to, source, tag, what):
        to, source = to % self.ranks, source % self.ranks
        sends = [dist.P2POp(dist.isend, x, to, tag=tag) for x in tensors]
        takes = [dist.P2POp(dist.irecv, x, source, tag=tag) for x in arriving]
        names = [f'{what} of rank {source}'] * len(takes) + [f'rank {to} to take {what}'] * len(sends)
        with waiting(f'ranks {to} and {source}', self.patience):
            works = dist.batch_isend_irecv(takes + sends) if takes + sends else []
        return _Post(works, names, arriving, self.patience, self.have[0].is_cuda)

    def fetch(self, step):
        "Start to bring what rank `me - step` began with; call `wait` of what this returns before the next step"
        arriving = [torch.empty_like(x) for x in self.have]
        post = self._exchange(self.have, arriving, self.me + 1, self.me - 1, _KEYS, f'the keys of step {step}')
        self.have = post.arriving
        return post

    def give(self, step, tensors, arriving):
        """Start to send rank `me - step` its gradients, one or more of one shape, or none; `wait` gives those that rank
        `me + step` has found for this one. `arriving`: how many these are, and their shape"""
        mine, (count, shape) = [x.contiguous() for x in tensors], arriving
        buffers = [self.have[0].new_empty(shape) for _ in range(count)]
        return self._exchange(mine, buffers, self.me - step, self.me + step, _GRADS, f'the gradients of step {step}')

    def taken(self, step):
        "What was given in this step has been used"

    def close(self):
        "End: all that was fetched has been used"
        self.have = None


# A GPU's copy engines read and write the memory of its neighbours, and its streams wait for values in memory, without
# its multiprocessors, which kernels that compute keep all for themselves. A copy within a GPU needs some, and would
# wait for these kernels: so keys are copied directly from where they are stored to where their neighbour reads them.
_AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ: the stream waits for a value at least as large


@lru_cache
def _driver():
    lib, number, address = ctypes.CDLL('libcuda.so.1'), ctypes.c_uint, ctypes.c_uint64
    for name in ('cuStreamWriteValue32_v2', 'cuStreamWaitValue32_v2'):
        getattr(lib, name).argtypes = ctypes.c_void_p, address, number, number
    lib.cuMemcpyAsync.argtypes = address, address, ctypes.c_size_t, ctypes.c_void_p
    lib.cuMemcpy2DAsync_v2.argtypes = ctypes.c_void_p, ctypes.c_void_p
    return lib


def _call(name, *args):
    "A function of the driver"
    if code := getattr(_driver(), name)(*args):
        raise RuntimeError(f'{name}: the driver answers {code}')


def _stream():
    "The handle of the current stream"
    return current_stream(torch.cuda.current_device())


class _Rows(ctypes.Structure):
    "The driver's CUDA_MEMCPY2D"

    _side = [('x', ctypes.c_size_t), ('y', ctypes.c_size_t), ('type', ctypes.c_uint), ('host', ctypes.c_void_p)]
    _side += [('device', ctypes.c_uint64), ('array', ctypes.c_void_p), ('pitch', ctypes.c_size_t)]
    _fields_ = [(f'{which}_{o}', c) for which, side in (('from', _side), ('to', _side)) for o, c in side]
    _fields_ += [('width', ctypes.c_size_t), ('height', ctypes.c_size_t)]


_UNIFIED = 4  # CU_MEMORYTYPE_UNIFIED: the address says whose memory that is


def _copy_keys(stream, to, x, keys, heads):
    """Some keys of some heads of contiguous [batch, heads, keys, dim], of all of the batch together, to a tensor like
    it at an address: rows of a copy engine"""
    first, last, _ = keys.indices(x.shape[2])
    # not by strides: where there is one head, or one of the batch, that of a contiguous tensor may be any number
    size = x.shape[3] * x.element_size()
    pitch, width, height = x.shape[2] * size, (last - first) * size, heads.stop - heads.start
    if not width or not height:
        return
    more = heads.start * pitch + first * size
    begin, end = x.data_ptr() + more, to + more
    if width == pitch:
        return _call('cuMemcpyAsync', end, begin, width * height, stream)
    rows = _Rows(width=width, height=height, from_pitch=pitch, to_pitch=pitch)
    rows.from_type = rows.to_type = _UNIFIED
    rows.from_device, rows.to_device = begin, end
    _call('cuMemcpy2DAsync_v2', ctypes.byref(rows), stream)


class _Shared:
    "Memory that all ranks have of one size, and can read and write of each other"

    def __init__(self, shape, dtype, device):
        import torch.distributed._symmetric_memory as symmetric

        self.mine = symmetric.empty(shape, dtype=dtype, device=device)
        self.handle = symmetric.rendezvous(self.mine, dist.group.WORLD)  # kept: `of` is mapped as long as this is
        self.of = [self.handle.get_buffer(rank, shape, dtype) for rank in range(dist.get_world_size())]  # rank by rank
        self.at = [x.data_ptr() for x in self.of]


class _Copied:
    """What a neighbour's copy engine is copying: `wait_flag` makes a stream wait for it. `watch` returns two values in
    memory for a kernel that waits by itself: the flag that the neighbour sets, and the value to wait for; the
    neighbour increments the flag after each of some parts of the heads"""

    def __init__(self, arriving, wait_flag, watch, parts):
        self.arriving, self.wait_flag, self.watch, self.parts = arriving, wait_flag, watch, parts

    def wait(self):
        "What has arrived, for what follows on this stream"
        self.wait_flag()
        return self.arriving


class Copies:
    """By copy engines, among GPUs that can reach each other's memory: each rank puts its keys and values where another
    one reads them, another one in each step, and gradients where they belong. All tensors have one shape and type.

    A kernel that waits for keys keeps the multiprocessors that it has: what a neighbour does before it sends them must
    not wait for these"""

    # Flags that each rank sets in each other one: keys have arrived, and their buffer is free; the same for gradients
    _KEYS, _KEYS_FREE, _GRADS, _GRADS_FREE = range(4)
    _MAX_PARTS = 8  # per step: the most parts in which keys are sent, each of which is signalled

    def __init__(self):
        self.me, self.ranks = rank_and_ranks()
        if not torch.cuda.is_available():
            raise RuntimeError('ring.Copies: copy engines are of a GPU, and there is none here; use ring.Messages()')
        self.device = torch.device('cuda', torch.cuda.current_device())
        self.side, self.call, self.shape = torch.cuda.Stream(priority=-1), 0, None
        self.event = torch.cuda.Event()
        self.flags = _Shared((4, self.ranks), torch.int32, self.device)
        self.flags.mine.zero_()
        self.flags_by_rank = [row.split(1) for row in self.flags.mine]
        self.wanted = torch.zeros(1, dtype=torch.int32, device=self.device)
        torch.cuda.synchronize()
        dist.barrier()
        self._free_all()

    def _allocate(self, shape, dtype):
        "Memory for tensors of a shape: two buffers for keys and values that arrive, and two for gradients"
        if self.shape != (shape, dtype):
            torch.cuda.synchronize()
            dist.barrier()  # no rank uses the memory of another shape any more
            self.shape = shape, dtype
            self.keys, self.grads = (_Shared((2, 2, *shape), dtype, self.device) for _ in range(2))
            self.arriving = [list(both) for both in self.keys.mine]
            self.addresses = [[[x.data_ptr() for x in both] for both in of] for of in self.keys.of]

    def _set_flag(self, rank, what, value, stream=None):
        at = self.flags.at[rank] + 4 * (what * self.ranks + self.me)
        _call('cuStreamWriteValue32_v2', stream or _stream(), at, value & 0xFFFFFFFF, 0)

    def _wait_flag(self, rank, what, value, stream=None):
        at = self.flags.at[self.me] + 4 * (what * self.ranks + rank)
        _call('cuStreamWaitValue32_v2', stream or _stream(), at, value & 0xFFFFFFFF, _AT_LEAST)

    def _others(self, step):
        return (self.me - step) % self.ranks, (self.me + step) % self.ranks

    def _number(self, step, call=None):
        "The flag value of a step: larger than those of all earlier steps and calls, by more than it has parts"
        return ((self.call if call is None else call) * self.ranks + step) * self._MAX_PARTS

    def _free_all(self):
        "The first rank to send in the next call may do so"
        for step in range(1, min(3, self.ranks)):
            self._set_flag(self._others(step)[0], self._KEYS_FREE, self._number(step, self.call + 1))

    def _follow(self):
        "What comes next on the side waits for what is on the current stream"
        self.event.record()
        self.event.wait(self.side)

    def open(self, *tensors, needs=None, parts=1):
        """Begin: these are what this rank has. `needs`: step -> the keys among them that rank `me + step` reads, a
        slice; `parts`: of the heads, up to 8, one after the other in step 1; on all ranks as many"""
        self.have, self.needs = [x.contiguous() for x in tensors], needs or (lambda step: slice(None))
        self._allocate(tensors[0].shape, tensors[0].dtype)
        self.heads, self.parts = math.prod(tensors[0].shape[:2]), parts
        self.call += 1
        self._follow()

    def fetch(self, step):
        """Start to bring what rank `me - step` began with, and to send as much; call `wait` of what this returns before
        the next step. What is sent is held until all of it has come: the current stream waits for that in the end"""
        source, to = self._others(step)
        if step > 2:  # the buffer is free as soon as step - 2, which was launched before this, has ended
            self._set_flag(source, self._KEYS_FREE, self._number(step))
        side, number, needed = self.side.cuda_stream, self._number(step), self.needs(step)
        parts = self.parts if step == 1 else 1
        self._wait_flag(to, self._KEYS_FREE, number, side)
        for i in range(parts):
            heads = slice(cdiv(i * self.heads, parts), cdiv((i + 1) * self.heads, parts))
            for at, x in zip(self.addresses[to][step % 2], self.have):
                _copy_keys(side, at, x, needed, heads)
            self._set_flag(to, self._KEYS, number - (parts - 1 - i), side)
        return self._coming(self.arriving[step % 2], step, source, self._KEYS)

    def _coming(self, arriving, step, source, what):
        number, at = self._number(step), self.flags_by_rank[what][source]

        def watch():
            _call('cuStreamWriteValue32_v2', _stream(), self.wanted.data_ptr(), number & 0xFFFFFFFF, 0)
            return at, self.wanted

        return _Copied(arriving, lambda: self._wait_flag(source, what, number), watch, self.parts)

    def give(self, step, tensors, arriving):
        """Start to send rank `me - step` its gradients, one or two of one shape, or none; `wait` gives those that rank
        `me + step` has found for this one. `arriving`: how many these are, and their shape"""
        owner, giver = self._others(step)
        self._follow()
        with torch.cuda.stream(self.side):
            if step > 2:
                self._wait_flag(owner, self._GRADS_FREE, self._number(step - 2))
            for buffer, x in zip(self.grads.of[owner][step % 2], tensors):
                buffer.view(-1)[: x.numel()].view(x.shape).copy_(x)
                x.record_stream(self.side)
            self._set_flag(owner, self._GRADS, self._number(step))
        count, shape = arriving
        buffers = self.grads.mine[step % 2][:count]
        views = [x.view(-1)[: math.prod(shape)].view(shape) for x in buffers]
        return self._coming(views, step, giver, self._GRADS)

    def taken(self, step):
        "What was given in this step has been used: its buffer is free for the rank of the step after the next one"
        if step + 2 < self.ranks:
            self._set_flag(self._others(step + 2)[1], self._GRADS_FREE, self._number(step))

    def close(self):
        "End: all that was fetched has been used"
        self._free_all()
        self.event.record(self.side)
        self.event.wait()
        self.have = None
