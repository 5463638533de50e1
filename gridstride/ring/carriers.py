"""How keys and values come to a rank while it computes, and how gradients go home: as messages, or by copy engines."""

import ctypes
from datetime import timedelta
from functools import lru_cache

import torch
import torch.distributed as dist

from .processes import rank_and_ranks, waiting
from ..cpp.driver import current_stream

_KEYS, _SLOPES = 1, 2  # tags: a pair of ranks may have both under way


class _Post:
    "Messages under way, each with what it is in words, and what arrives"

    def __init__(self, works, names, arriving, patience):
        self.works, self.names, self.arriving, self.patience = works, names, arriving, patience

    def wait(self):
        "What has arrived; on a GPU, what follows on this stream waits instead of the caller"
        works, self.works = self.works, []
        for o, name in zip(works, self.names):
            with waiting(name, self.patience):
                o.wait() if self.arriving[0].is_cuda else o.wait(timedelta(seconds=self.patience))
        return self.arriving


class Messages:
    """By `torch.distributed`: keys and values go from rank to rank, as in a ring; what a rank finds out about the
    gradients of another one's goes straight home"""

    def __init__(self, patience=10.0):
        (self.me, self.ranks), self.patience = rank_and_ranks(), patience

    def open(self, *tensors):
        "Begin: these are what this rank has"
        self.have = [x.contiguous() for x in tensors]

    def _exchange(self, tensors, to, source, tag, what):
        to, source, arriving = to % self.ranks, source % self.ranks, [torch.empty_like(x) for x in tensors]
        sends = [dist.P2POp(dist.isend, x, to, tag=tag) for x in tensors]
        takes = [dist.P2POp(dist.irecv, x, source, tag=tag) for x in arriving]
        names = [f'{what} of rank {source}'] * len(takes) + [f'rank {to} to take {what}'] * len(sends)
        with waiting(f'ranks {to} and {source}', self.patience):
            works = dist.batch_isend_irecv(takes + sends)
        return _Post(works, names, arriving, self.patience)

    def fetch(self, step):
        "Start to bring what rank `me - step` began with; call `wait` of what this returns before the next step"
        post = self._exchange(self.have, self.me + 1, self.me - 1, _KEYS, f'the keys of step {step}')
        self.have = post.arriving
        return post

    def give(self, step, *tensors):
        "Start to send rank `me - step` its gradients; `wait` gives those that rank `me + step` has found for this one"
        mine = [x.contiguous() for x in tensors]
        return self._exchange(mine, self.me - step, self.me + step, _SLOPES, f'the gradients of step {step}')

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


def _on_stream(name, address, value):
    "Let the current stream write or wait for a number of 32 bits in memory"
    stream = current_stream(torch.cuda.current_device())
    args = ctypes.c_void_p(stream), ctypes.c_uint64(address), ctypes.c_uint32(value), ctypes.c_uint(_AT_LEAST)
    if code := getattr(_driver(), name)(*args):
        raise RuntimeError(f'{name}: the driver answers {code}')


class _Shared:
    "Memory that all ranks have of one size, and can read and write of each other"

    def __init__(self, shape, dtype, device):
        import torch.distributed._symmetric_memory as symmetric

        self.mine = symmetric.empty(shape, dtype=dtype, device=device)
        self.handle = symmetric.rendezvous(self.mine, dist.group.WORLD)  # kept: `of` is mapped as long as this is
        self.of = [self.handle.get_buffer(rank, shape, dtype) for rank in range(dist.get_world_size())]  # rank by rank


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
    one reads them, another one in each step, and gradients where they belong. All tensors have one shape and type"""

    # Numbers that each rank tells each other one: keys are there, and their place is free; the same of gradients
    _KEYS, _KEYS_FREE, _SLOPES, _SLOPES_FREE = range(4)

    def __init__(self):
        self.me, self.ranks = rank_and_ranks()
        self.device = torch.device('cuda', torch.cuda.current_device())
        self.side, self.call, self.shape = torch.cuda.Stream(priority=-1), 0, None
        self.told = _Shared((4, self.ranks), torch.int32, self.device)
        self.told.mine.zero_()
        self.wanted = torch.zeros(1, dtype=torch.int32, device=self.device)
        torch.cuda.synchronize()
        dist.barrier()

    def _room(self, shape, dtype):
        "Memory for tensors of a shape: two places for keys and values that come, and two for gradients"
        if self.shape != (shape, dtype):
            torch.cuda.synchronize()
            dist.barrier()  # nobody uses the memory of another shape any more
            self.shape = shape, dtype
            self.keys, self.slopes = (_Shared((2, 2, *shape), dtype, self.device) for _ in range(2))

    def _tell(self, rank, what, value):
        _on_stream('cuStreamWriteValue32_v2', self.told.of[rank][what, self.me].data_ptr(), value)

    def _hear(self, rank, what, value):
        _on_stream('cuStreamWaitValue32_v2', self.told.mine[what, rank].data_ptr(), value)

    def _others(self, step):
        return (self.me - step) % self.ranks, (self.me + step) % self.ranks

    def _number(self, step):
        "Of a step, larger than those of all steps before it, also of calls before"
        return self.call * self.ranks + step

    def open(self, *tensors):
        "Begin: these are what this rank has"
        self.have = [x.contiguous() for x in tensors]
        self._room(tensors[0].shape, tensors[0].dtype)
        self.call += 1
        self.side.wait_stream(torch.cuda.current_stream())
        for step in range(1, min(3, self.ranks)):  # what came in the call before has been used
            self._tell(self._others(step)[0], self._KEYS_FREE, self._number(step))

    def fetch(self, step):
        """Start to bring what rank `me - step` began with, and to send as much; call `wait` of what this returns before
        the next step"""
        source, to = self._others(step)
        if step > 2:  # the place is free as soon as step - 2, which was launched before this, is through
            self._tell(source, self._KEYS_FREE, self._number(step))
        with torch.cuda.stream(self.side):
            self._hear(to, self._KEYS_FREE, self._number(step))
            self._put(self.keys.of[to][step % 2], self.have)
            self._tell(to, self._KEYS, self._number(step))
        return self._coming(self.keys, step, source, self._KEYS)

    def _put(self, places, tensors):
        for to, x in zip(places, tensors):
            to.copy_(x)
            x.record_stream(self.side)

    def _coming(self, shared, step, source, what):
        number = self._number(step)

        def watch():
            _on_stream('cuStreamWriteValue32_v2', self.wanted.data_ptr(), number)
            return self.told.mine[what, source : source + 1], self.wanted

        return _Copied(list(shared.mine[step % 2]), lambda: self._hear(source, what, number), watch)

    def give(self, step, *tensors):
        "Start to send rank `me - step` its gradients; `wait` gives those that rank `me + step` has found for this one"
        owner, giver = self._others(step)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            if step > 2:
                self._hear(owner, self._SLOPES_FREE, self._number(step - 2))
            self._put(self.slopes.of[owner][step % 2], tensors)
            self._tell(owner, self._SLOPES, self._number(step))
        return self._coming(self.slopes, step, giver, self._SLOPES)

    def taken(self, step):
        "What was given in this step has been used: its place is free for whom the step after the next one is for"
        if step + 2 < self.ranks:
            self._tell(self._others(step + 2)[1], self._SLOPES_FREE, self._number(step))

    def close(self):
        "End: all that was fetched has been used"
        torch.cuda.current_stream().wait_stream(self.side)
        self.have = None
