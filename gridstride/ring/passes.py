"""Attention of a sequence that is split over ranks: by all-gather, and by a ring that sends while it computes."""

from contextlib import nullcontext
from functools import lru_cache

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from .transport import Messages
from .sharding import check_order, piece
from .parts import kernels_for, merge
from .processes import rank_and_ranks

_WIDE = torch.float32, torch.float64
_PARTS = 4  # of the heads: a kernel that waits for keys by itself begins with the first of them


def _unmarked(what, step):
    "No stamps"
    return nullcontext()


def _check(q, k, v, order, ranks):
    for name, x in dict(q=q, k=k, v=v).items():
        if not isinstance(x, torch.Tensor):
            raise TypeError(f'ring: {name} is a {type(x).__name__}, and a torch tensor is needed')
    if q.dim() != 4 or any((x.shape, x.dtype, x.device) != (q.shape, q.dtype, q.device) for x in (k, v)):
        said = ', '.join(f'{tuple(x.shape)} {x.dtype} on {x.device}' for x in (q, k, v))
        raise ValueError(
            f'ring: q, k and v need one shape [batch, heads, rows, dim], one type and one device; they are {said}'
        )
    check_order(order, q.shape[2] * ranks, ranks)


def _kept_type(x, ranks):
    "The type of sums over parts: the sum of two rounded parts gains nothing by more digits"
    return x.dtype if x.dtype in _WIDE or ranks <= 2 else torch.float32


class _Job:
    "The state that all steps of a call share"

    def __init__(self, order, causal, scale, kernels, carrier, stamp):
        self.order, self.causal, self.scale, self.kernels = order, causal, scale, kernels
        self.carrier, self.stamp = carrier, stamp
        self.me, self.ranks = rank_and_ranks()

    def piece(self, step, x):
        "Return what this rank computes in a step"
        return piece(self.order, self.me, (self.me - step) % self.ranks, x.shape[2], self.causal)

    def needed(self, step, x):
        "Those of this rank's keys at which rank `me + step` looks, a slice; None for none"
        p = piece(self.order, (self.me + step) % self.ranks, self.me, x.shape[2], self.causal)
        return p and p.keys

    def open(self, k, v, parts=1):
        "Begin to send: others read what they look at, some heads after the others"
        self.carrier.open(k, v, needs=lambda step: self.needed(step, k) or slice(0), parts=parts)

    def last(self, step):
        "Whether nothing is to be fetched any more"
        return step + 1 >= self.ranks


def _attend_own(job, q, k, v):
    "out and lse by this rank's own keys, in the type in which they are kept"
    kept, how = _kept_type(q, job.ranks), (job.causal, job.scale)
    with job.stamp('attend', 0):
        if not job.kernels.onto:
            out, lse = job.kernels.attend(q, k, v, *how)
            return out.to(kept).contiguous(), lse
        out = torch.empty(q.shape, dtype=kept, device=q.device)
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        job.kernels.onto(out, lse, 0, q, k, v, *how, True)
        return out, lse


def _attend_more(job, step, out, lse, q, k, v):
    "Make out and lse those of a step's keys, too"
    p = job.piece(step, q)
    if p is None:
        return
    first, given = p.rows.start or 0, (q[:, :, p.rows], k[:, :, p.keys], v[:, :, p.keys], p.causal, job.scale)
    with job.stamp('attend', step):
        if job.kernels.onto:
            return job.kernels.onto(out, lse, first, *given, False)
        part = job.kernels.attend(*given)
    with job.stamp('merge', step):
        merge(out, lse, *part, first)


def _attend_first(job, coming, q, k, v):
    """(out, lse, how many steps that is): this rank's own keys and, where a kernel can wait for them by itself, those
    that are coming"""
    p = job.piece(1, q) if job.kernels.pair and hasattr(coming, 'watch') else None
    if p is None or p.causal:
        return *_attend_own(job, q, k, v), 1
    others, wide = [x[:, :, p.keys] for x in coming.arriving], _kept_type(q, job.ranks) != q.dtype
    with job.stamp('attend', 0):
        how = p.rows.start or 0, *coming.watch(), job.causal, job.scale, wide, coming.parts
        return *job.kernels.pair(q, k, v, *others, *how), 2


def _forward(job, q, k, v):
    "out and lse of this rank's rows: all ranks call it"
    job.open(k, v, _PARTS if job.kernels.pair else 1)
    coming = job.carrier.fetch(1) if job.ranks > 1 else None
    out, lse, steps = _attend_first(job, coming, q, k, v)
    for step in range(1, job.ranks):
        if step >= steps:  # else a kernel has waited
            with job.stamp('wait', step - 1):
                k, v = coming.wait()
        coming = None if job.last(step) else job.carrier.fetch(step + 1)
        if step >= steps:
            _attend_more(job, step, out, lse, q, k, v)
    job.carrier.close()
    return out.to(q.dtype), lse


def _add_keys(sums, keys, grads):
    "Add to some keys of [batch, heads, keys, dim]. Each head is contiguous: heads of one type are added in one launch"
    sums, grads = [x[:, :, keys] for x in sums], list(grads)
    if keys != slice(None) and sums[0].dtype == grads[0].dtype:  # for two types each tensor needs a launch of its own
        sums, grads = ([head for x in some for each in x for head in each] for some in (sums, grads))
    torch._foreach_add_(sums, grads)


class _Grads:
    """Sums of the gradients of this rank's q, k and v. With two ranks there is little to add up: its own gradients are
    written directly, and the contribution of other keys is added last. Half of the heads of its own keys come first,
    while others' keys arrive, and half last, while the last gradients are sent"""

    def __init__(self, job, dout, q, k, v, out, lse):
        self.job, self.rows, self.own, kept = job, (dout, q, out, lse), (k, v), _kept_type(q, job.ranks)
        self.direct, self.later = job.ranks <= 2 and kept == q.dtype, []
        make = torch.empty_like if self.direct else torch.zeros_like
        self.sums = [make(x, dtype=kept, memory_format=torch.contiguous_format) for x in (q, k, v)]

    def _of(self, step, p, k, v, heads, into=None):
        dout, q, out, lse = (x[:, heads, p.rows] for x in self.rows)
        k, v = (x[:, heads, p.keys] for x in (k, v))
        with self.job.stamp('gradients', step):
            how = p.causal, self.job.scale
            return self.job.kernels.gradients(dout, q, k, v, out, lse.contiguous(), *how, into=into)

    def others(self, step, k, v):
        "Adds the contribution of a step's keys to dq; returns dk and dv of the keys that are attended to, or nothing"
        p = self.job.piece(step, k)
        if p is None:
            return ()
        dq, dk, dv = self._of(step, p, k, v, slice(None))
        if self.direct:
            self.later.append((p.rows, dq))
        else:
            self.sums[0][:, :, p.rows] += dq
        return dk, dv

    def begin(self):
        "The first work that overlaps with messages"
        self._own(slice(0, self.rows[1].shape[1] // 2))

    def between(self):
        "Where others' keys are worked on"
        return nullcontext()

    def end(self):
        "The last work that overlaps with messages"
        heads = self.rows[1].shape[1]
        self._own(slice(heads // 2, heads))

    def _own(self, heads):
        "The gradients by this rank's own keys, of some heads"
        if heads.stop:
            views = [x[:, heads] for x in self.sums]
            found = self._of(0, self.job.piece(0, self.own[0]), *self.own, heads, views if self.direct else None)
            if not self.direct:
                for to, x in zip(views, found):
                    to += x

    def add(self, keys, grads):
        "Add to the gradients of some of this rank's keys and values"
        _add_keys(self.sums[1:], keys, grads)

    def all(self):
        "dq, dk and dv, once everything has been added"
        for rows, dq in self.later:
            self.sums[0][:, :, rows] += dq
        return self.sums


@lru_cache
def _urgent(device):
    "A stream whose blocks are let in before those of others"
    return torch.cuda.Stream(device, priority=-1)


class _ReducedGrads:
    """The same by kernels that add up dq themselves. On a GPU two of them run at the same time: that of this rank's
    own keys fills every gap, and blocks that work on others' are let in first"""

    def __init__(self, job, dout, q, k, v, out, lse):
        self.job, self.own, self.home = job, (k, v), None
        self.parts = job.kernels.part_gradients(dout, q, out, lse, job.scale)
        self.stream = _urgent(q.device) if q.is_cuda else None

    @staticmethod
    def fit(job, q):
        "Can these kernels do what this rank has to?"
        kind = job.kernels.part_gradients
        pieces = [job.piece(step, q) for step in range(job.ranks)]
        return kind is not None and all(kind.fits(p.rows.start or 0) for p in pieces if p)

    def begin(self):
        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream())
        with self.job.stamp('gradients', 0):
            self.sums = self.parts.add(*self.own, 0, self.job.causal)

    def between(self):
        return torch.cuda.stream(self.stream) if self.stream else nullcontext()

    def end(self):
        if self.stream:
            torch.cuda.current_stream().wait_stream(self.stream)

    def others(self, step, k, v):
        p = self.job.piece(step, k)
        if p is None:
            return ()
        with self.job.stamp('gradients', step):
            return self.parts.add(k[:, :, p.keys], v[:, :, p.keys], p.rows.start or 0, p.causal)

    def add(self, keys, grads):
        if self.home is None and self.job.ranks > 2:
            self.home = [torch.zeros(x.shape, dtype=torch.float32, device=x.device) for x in self.own]
        _add_keys(self.home or self.sums, keys, grads)

    def all(self):
        if self.home:
            for x, to in zip(self.home, self.sums):
                torch.add(x, to, out=to)
        return self.parts.dq(), *self.sums


def _backward(job, dout, q, k, v, out, lse):
    "The gradients of this rank's q, k and v"
    kind = _ReducedGrads if _ReducedGrads.fit(job, q) else _Grads
    job.open(k, v)
    coming, going = (job.carrier.fetch(1) if job.ranks > 1 else None), None
    grads = kind(job, dout, q, k, v, out, lse)
    grads.begin()
    with grads.between():
        for step in range(1, job.ranks):
            with job.stamp('wait', step):
                k, v = coming.wait()
            coming = None if job.last(step) else job.carrier.fetch(step + 1)
            found = grads.others(step, k, v)
            _recv_grads(job, grads, going)
            going = _send_grads(job, step, k, found)
    grads.end()
    _recv_grads(job, grads, going)
    job.carrier.close()
    return [x.to(q.dtype) for x in grads.all()]


def _send_grads(job, step, k, found):
    "Start to send the gradients found, and to receive: (step, messages in flight, the slice of keys they are for)"
    keys = job.needed(step, k)
    shape = k[:, :, keys or slice(0)].shape
    return step, job.carrier.give(step, found, (2 if keys else 0, shape)), keys


def _recv_grads(job, grads, going):
    "Receive the gradients that another rank has found for this one's keys, and add them"
    if going:
        step, post, keys = going
        with job.stamp('wait', step):
            arrived = post.wait()
        if keys:
            grads.add(keys, arrived)
        job.carrier.taken(step)


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, job):
        out, lse = _forward(job, q, k, v)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.job = job
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, _):
        return *_backward(ctx.job, dout.contiguous(), *ctx.saved_tensors), None


def attention(
    q,  # [batch, heads, rows, dim]: what this rank has, as `split` gives it; all ranks the same shape
    k,  # like q
    v,  # like q
    order='zigzag',  # 'contiguous', 'striped' or 'zigzag': which positions of the sequence a rank has
    causal=True,  # does each position attend only to itself and earlier positions?
    scale=None,  # of q @ k^T; None: 1/sqrt(dim)
    kernels=None,  # `Kernels` that compute a part; None: the right ones for these tensors
    carrier=None,  # `Messages`, `Copies`: brings keys and values; None: messages
    stamp=None,  # `Stamps` that note what this rank does when
    lse=False,  # the logarithm of each row's sum of exponentials, too? It has no gradient
):  # like q; with `lse`, a pair of it and [batch, heads, rows]
    """Attention of a sequence that is split over the ranks of `torch.distributed`: all of them call it, each with
    its part. Keys and values go round while the ranks compute; differentiable once, and the backward pass sends, too.

    After Liu, Zaharia and Abbeel, Ring Attention (2023), and Brandon and others, Striped Attention (2023)."""
    carrier = carrier or Messages()
    if isinstance(carrier, type) or not hasattr(carrier, 'fetch'):
        raise TypeError(f'ring: carrier is {carrier!r}, and one that was made is needed: carrier=ring.Copies()')
    _check(q, k, v, order, rank_and_ranks()[1])
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    job = _Job(order, causal, scale, kernels or kernels_for(q, k, v), carrier, stamp or _unmarked)
    both = _Ring.apply(q, k, v, job)
    return both if lse else both[0]


def gathered_attention(
    q,  # this and what follows, as for `attention`
    k,
    v,
    order='zigzag',
    causal=True,
    scale=None,
    kernels=None,
    stamp=None,
):  # like q
    "The same, forward: an all-gather brings all keys and values to each rank first"
    _check(q, k, v, order, rank_and_ranks()[1])
    stamp, scale = stamp or _unmarked, q.shape[-1] ** -0.5 if scale is None else float(scale)
    job = _Job(order, causal, scale, kernels or kernels_for(q, k, v), None, stamp)
    with stamp('wait', 0):
        every = []
        for x in (k, v):
            x = x.contiguous()
            every.append([torch.empty_like(x) for _ in range(job.ranks)])
            dist.all_gather(every[-1], x)
    out, lse = _attend_own(job, q, every[0][job.me], every[1][job.me])
    for step in range(1, job.ranks):
        source = (job.me - step) % job.ranks
        _attend_more(job, step, out, lse, q, every[0][source], every[1][source])
    return out.to(q.dtype)
