"""How keys and values come to a rank while it computes, and how gradients go home: as messages, or by copy engines."""

import ctypes
import math
from datetime import timedelta
from functools import lru_cache

import torch
import torch.distributed as dist

from .processes import rank_and_ranks, waiting
from ..cpp.driver import current_stream

_KEYS, _SLOPES = 1, 2  # tags: a pair of ranks may have both under way


class _Post:
    "Messages under way, each with what it is in words, and what arrives"

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

    def open(self, *tensors, needs=None):
        "Begin: these are what this rank has. `needs`: step -> the keys among them that rank `me + step` reads, a slice"
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
        room = [self.have[0].new_empty(shape) for _ in range(count)]
        return self._exchange(mine, room, self.me - step, self.me + step, _SLOPES, f'the gradients of step {step}')

    def taken(self, step):
        "What was given in this step has been used"

    def close(self):
        "End: all that was fetched has been used"
        self.have = None


# A GPU's copy engines read and write the memory of its neighbours, and its streams wait for numbers in memory, without
# its multiprocessors, which kernels that compute keep all for themselves. A copy within a GPU needs some, and would
# wait for these kernels: so keys go straight from where they lie to where their neighbour will read them.
_AT_LEAST = 0  # what a stream waits for: a number as large, or larger


@lru_cache
def _driver():
    return ctypes.CDLL('libcuda.so.1')


def _call(name, *args):
    "A function of the driver, for the current stream, which it takes first or last"
    if code := getattr(_driver(), name)(*args):
        raise RuntimeError(f'{name}: the driver answers {code}')


def _stream():
    return ctypes.c_void_p(current_stream(torch.cuda.current_device()))


def _on_stream(name, address, value):
    "Let the current stream write or wait for a number of 32 bits in memory"
    _call(name, _stream(), ctypes.c_uint64(address), ctypes.c_uint32(value), ctypes.c_uint(_AT_LEAST))


class _Rows(ctypes.Structure):
    "The driver's CUDA_MEMCPY2D"

    _side = [('x', ctypes.c_size_t), ('y', ctypes.c_size_t), ('type', ctypes.c_uint), ('host', ctypes.c_void_p)]
    _side += [('device', ctypes.c_uint64), ('array', ctypes.c_void_p), ('pitch', ctypes.c_size_t)]
    _fields_ = [(f'{which}_{o}', c) for which, side in (('from', _side), ('to', _side)) for o, c in side]
    _fields_ += [('width', ctypes.c_size_t), ('height', ctypes.c_size_t)]


_UNIFIED = 4  # CU_MEMORYTYPE_UNIFIED: the address says whose memory that is


def _copy_keys(to, x, keys):
    "Some keys of all heads of contiguous [batch, heads, keys, dim], on the current stream: rows of a copy engine"
    if keys == slice(None):
        return to.copy_(x)
    start, stop, _ = keys.indices(x.shape[2])
    if start == stop:
        return
    # not by strides: where there is one head, or one of the batch, that of a contiguous tensor may be any number
    pitch, first, width = (n * x.shape[3] * x.element_size() for n in (x.shape[2], start, stop - start))
    rows = _Rows(width=width, height=x.shape[0] * x.shape[1], from_pitch=pitch, to_pitch=pitch)
    rows.from_type = rows.to_type = _UNIFIED
    rows.from_device, rows.to_device = x.data_ptr() + first, to.data_ptr() + first
    _call('cuMemcpy2DAsync_v2', ctypes.byref(rows), _stream())


class _Shared:
    "Memory that all ranks have of one size, and can read and write of each other"

    def __init__(self, shape, dtype, device):
        import torch.distributed._symmetric_memory as symmetric

        self.mine = symmetric.empty(shape, dtype=dtype, device=device)
        self.handle = symmetric.rendezvous(self.mine, dist.group.WORLD)  # kept: `of` is mapped as long as this is
        self.of = [self.handle.get_buffer(rank, shape, dtype) for rank in range(dist.get_world_size())]  # rank by rank
        self.at = [x.data_ptr() for x in self.of]


class _Copied:
    """What a neighbour's copy engine is bringing: `hear` lets a stream wait for it, and `watch` gives two numbers in
    memory, what the neighbour has told and what has to be told, for a kernel that waits by itself"""

    def __init__(self, arriving, hear, watch):
        self.arriving, self.hear, self.watch = arriving, hear, watch

    def wait(self):
        "What has arrived, for what follows on this stream"
        self.hear()
        return self.arriving


class Copies:
    """By copy engines, among GPUs that can reach each other's memory: each rank puts its keys and values where another
    one reads them, another one in each step, and gradients where they belong. All tensors have one shape and type.

    A kernel that waits for keys keeps the multiprocessors that it has: what a neighbour does before it sends them must
    not wait for these"""

    # Numbers that each rank tells each other one: keys are there, and their place is free; the same of gradients
    _KEYS, _KEYS_FREE, _SLOPES, _SLOPES_FREE = range(4)

    def __init__(self):
        self.me, self.ranks = rank_and_ranks()
        if not torch.cuda.is_available():
            raise RuntimeError('ring.Copies: copy engines are of a GPU, and there is none here; use ring.Messages()')
        self.device = torch.device('cuda', torch.cuda.current_device())
        self.side, self.call, self.shape = torch.cuda.Stream(priority=-1), 0, None
        self.told = _Shared((4, self.ranks), torch.int32, self.device)
        self.told.mine.zero_()
        self.wanted = torch.zeros(1, dtype=torch.int32, device=self.device)
        torch.cuda.synchronize()
        dist.barrier()
        self._free_all()

    def _room(self, shape, dtype):
        "Memory for tensors of a shape: two places for keys and values that come, and two for gradients"
        if self.shape != (shape, dtype):
            torch.cuda.synchronize()
            dist.barrier()  # nobody uses the memory of another shape any more
            self.shape = shape, dtype
            self.keys, self.slopes = (_Shared((2, 2, *shape), dtype, self.device) for _ in range(2))

    def _tell(self, rank, what, value):
        _on_stream('cuStreamWriteValue32_v2', self.told.at[rank] + 4 * (what * self.ranks + self.me), value)

    def _hear(self, rank, what, value):
        _on_stream('cuStreamWaitValue32_v2', self.told.at[self.me] + 4 * (what * self.ranks + rank), value)

    def _others(self, step):
        return (self.me - step) % self.ranks, (self.me + step) % self.ranks

    def _number(self, step, call=None):
        "Of a step, larger than those of all steps before it, also of calls before"
        return (self.call if call is None else call) * self.ranks + step

    def _free_all(self):
        "Whoever is first to send in the next call may do so"
        for step in range(1, min(3, self.ranks)):
            self._tell(self._others(step)[0], self._KEYS_FREE, self._number(step, self.call + 1))

    def open(self, *tensors, needs=None):
        "Begin: these are what this rank has. `needs`: step -> the keys among them that rank `me + step` reads, a slice"
        self.have, self.needs = [x.contiguous() for x in tensors], needs or (lambda step: slice(None))
        self._room(tensors[0].shape, tensors[0].dtype)
        self.call += 1
        self.side.wait_stream(torch.cuda.current_stream())

    def fetch(self, step):
        """Start to bring what rank `me - step` began with, and to send as much; call `wait` of what this returns before
        the next step"""
        source, to = self._others(step)
        if step > 2:  # the place is free as soon as step - 2, which was launched before this, is through
            self._tell(source, self._KEYS_FREE, self._number(step))
        with torch.cuda.stream(self.side):
            self._hear(to, self._KEYS_FREE, self._number(step))
            for place, x in zip(self.keys.of[to][step % 2], self.have):
                _copy_keys(place, x, self.needs(step))
                x.record_stream(self.side)
            self._tell(to, self._KEYS, self._number(step))
        return self._coming(list(self.keys.mine[step % 2]), step, source, self._KEYS)

    def _coming(self, arriving, step, source, what):
        number, at = self._number(step), self.told.mine[what, source : source + 1]

        def watch():
            _on_stream('cuStreamWriteValue32_v2', self.wanted.data_ptr(), number)
            return at, self.wanted

        return _Copied(arriving, lambda: self._hear(source, what, number), watch)

    def give(self, step, tensors, arriving):
        """Start to send rank `me - step` its gradients, one or two of one shape, or none; `wait` gives those that rank
        `me + step` has found for this one. `arriving`: how many these are, and their shape"""
        owner, giver = self._others(step)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            if step > 2:
                self._hear(owner, self._SLOPES_FREE, self._number(step - 2))
            for place, x in zip(self.slopes.of[owner][step % 2], tensors):
                place.view(-1)[: x.numel()].view(x.shape).copy_(x)
                x.record_stream(self.side)
            self._tell(owner, self._SLOPES, self._number(step))
        count, shape = arriving
        places = self.slopes.mine[step % 2][:count]
        room = [x.view(-1)[: math.prod(shape)].view(shape) for x in places]
        return self._coming(room, step, giver, self._SLOPES)

    def taken(self, step):
        "What was given in this step has been used: its place is free for whom the step after the next one is for"
        if step + 2 < self.ranks:
            self._tell(self._others(step + 2)[1], self._SLOPES_FREE, self._number(step))

    def close(self):
        "End: all that was fetched has been used"
        self._free_all()
        torch.cuda.current_stream().wait_stream(self.side)
        self.have = None
