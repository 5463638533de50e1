"""Compute attention of a sequence that is split over ranks: in a ring, which overlaps communication and computation, or
after an all-gather.

Each rank has some rows of q, and the keys and values of the same positions. In step s of the ring, rank r attends to
the keys of rank r - s and merges the result (`parts.merge`); meanwhile it fetches the keys of the next step
(`transport`). In the backward pass, the rank that computes the gradients of keys sends them to the rank that
owns them.
"""

from contextlib import nullcontext
from functools import lru_cache

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from .transport import SendRecv
from .sharding import check_order, score_block
from .parts import kernels_for, merge
from .processes import rank_and_ranks

_ACCUMULATOR_DTYPES = torch.float32, torch.float64
# Keys are sent in this many groups of heads, so that a kernel that waits for keys can begin with the first group.
_HEAD_GROUPS = 4


def _ignore_stamp(activity, step):
    "Replace `Timestamps`: record nothing"
    return nullcontext()


def _check_operands(q, k, v, order, ranks):
    "Raise TypeError or ValueError unless q, k and v match, and the order fits the length"
    for name, tensor in dict(q=q, k=k, v=v).items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f'ring: {name} is a {type(tensor).__name__}; expected a torch tensor')
    if q.dim() != 4 or any(
        (tensor.shape, tensor.dtype, tensor.device) != (q.shape, q.dtype, q.device) for tensor in (k, v)
    ):
        actual = ', '.join(f'{tuple(tensor.shape)} {tensor.dtype} on {tensor.device}' for tensor in (q, k, v))
        raise ValueError(
            f'ring: q, k and v must have the same shape [batch, heads, rows, dim], dtype and device; got {actual}'
        )
    check_order(order, q.shape[2] * ranks, ranks)


def _accumulator_dtype(x, ranks):
    "Return the dtype in which partial results are accumulated; for two ranks, float32 would not be more accurate"
    return x.dtype if x.dtype in _ACCUMULATOR_DTYPES or ranks <= 2 else torch.float32


class _RingCall:
    "The options of one call of `attention`, shared by all of its steps"

    def __init__(self, order, causal, scale, kernels, transport, stamp):
        self.order, self.causal, self.scale, self.kernels = order, causal, scale, kernels
        self.transport, self.stamp = transport, stamp
        self.rank, self.ranks = rank_and_ranks()

    def score_block(self, step, x):
        "Return the `ScoreBlock` that this rank computes in a step, or None"
        return score_block(self.order, self.rank, (self.rank - step) % self.ranks, x.shape[2], self.causal)

    def needed_keys(self, step, x):
        "Return the slice of this rank's keys that rank `rank + step` attends to; None if there is none"
        part = score_block(self.order, (self.rank + step) % self.ranks, self.rank, x.shape[2], self.causal)
        return part and part.keys

    def open(self, k, v, num_parts=1):
        "Pass this rank's keys and values to the transport, and the slice of them that each other rank reads"
        self.transport.open(k, v, needed_keys=lambda step: self.needed_keys(step, k) or slice(0), num_parts=num_parts)

    def is_last(self, step):
        "Return whether this is the last step, which fetches no keys"
        return step + 1 >= self.ranks


def _attend_own_keys(call, q, k, v):
    "Return out and lse of attention to this rank's own keys, in the accumulator dtype"
    accumulator_dtype, options = _accumulator_dtype(q, call.ranks), (call.causal, call.scale)
    with call.stamp('attend', 0):
        if not call.kernels.attend_and_merge:
            out, lse = call.kernels.attend(q, k, v, *options)
            return out.to(accumulator_dtype).contiguous(), lse
        out = torch.empty(q.shape, dtype=accumulator_dtype, device=q.device)
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        call.kernels.attend_and_merge(out, lse, 0, q, k, v, *options, True)
        return out, lse


def _attend_other_keys(call, step, out, lse, q, k, v):
    "Attend to the keys of another rank, which arrive in `step`, and merge the result into out and lse"
    part = call.score_block(step, q)
    if part is None:
        return
    first_row = part.rows.start or 0
    operands = q[:, :, part.rows], k[:, :, part.keys], v[:, :, part.keys], part.causal, call.scale
    with call.stamp('attend', step):
        if call.kernels.attend_and_merge:
            return call.kernels.attend_and_merge(out, lse, first_row, *operands, False)
        partial_result = call.kernels.attend(*operands)
    with call.stamp('merge', step):
        merge(out, lse, *partial_result, first_row)


def _attend_first_keys(call, incoming_keys, q, k, v):
    """Attend to this rank's own keys. If a kernel can wait for keys itself, attend to the keys of step 1, too.

    Return (out, lse, number of steps computed)."""
    part = call.score_block(1, q) if call.kernels.attend_pair and hasattr(incoming_keys, 'watch') else None
    if part is None or part.causal:
        return *_attend_own_keys(call, q, k, v), 1
    other_keys = [tensor[:, :, part.keys] for tensor in incoming_keys.buffers]
    is_out_float32 = _accumulator_dtype(q, call.ranks) != q.dtype
    with call.stamp('attend', 0):
        options = (
            part.rows.start or 0,
            *incoming_keys.watch(),
            call.causal,
            call.scale,
            is_out_float32,
            incoming_keys.num_parts,
        )
        return *call.kernels.attend_pair(q, k, v, *other_keys, *options), 2


def _forward(call, q, k, v):
    "Compute out and lse of this rank's rows; all ranks call it"
    call.open(k, v, _HEAD_GROUPS if call.kernels.attend_pair else 1)
    incoming_keys = call.transport.fetch(1) if call.ranks > 1 else None
    out, lse, num_computed = _attend_first_keys(call, incoming_keys, q, k, v)
    for step in range(1, call.ranks):
        if step >= num_computed:  # otherwise the kernel has waited for these keys
            with call.stamp('wait', step - 1):
                k, v = incoming_keys.wait()
        incoming_keys = None if call.is_last(step) else call.transport.fetch(step + 1)
        if step >= num_computed:
            _attend_other_keys(call, step, out, lse, q, k, v)
    call.transport.close()
    return out.to(q.dtype), lse


def _add_key_grads(sums, keys, grads):
    "Add gradients to a slice of the keys of tensors [batch, heads, keys, dim], in one launch if possible"
    sums, grads = [tensor[:, :, keys] for tensor in sums], list(grads)
    if keys != slice(None) and sums[0].dtype == grads[0].dtype:  # one launch adds contiguous tensors of the same dtype
        sums, grads = ([head for tensor in tensors for batch in tensor for head in batch] for tensors in (sums, grads))
    torch._foreach_add_(sums, grads)


class _Grads:
    """Accumulates the gradients of this rank's q, k and v.

    The rank computes the gradients for its own keys in two halves of the heads: the first while other keys arrive, the
    second while the last gradients are sent. With two ranks, kernels write these gradients directly, and `finish` adds
    the contribution of the other rank's keys."""

    def __init__(self, call, dout, q, k, v, out, lse):
        self.ring_call, self.rows, self.own_keys = call, (dout, q, out, lse), (k, v)
        accumulator_dtype = _accumulator_dtype(q, call.ranks)
        self.writes_directly = call.ranks <= 2 and accumulator_dtype == q.dtype
        self.pending_dq = []  # (rows, dq), to add at the end
        allocate = torch.empty_like if self.writes_directly else torch.zeros_like
        self.sums = [
            allocate(tensor, dtype=accumulator_dtype, memory_format=torch.contiguous_format) for tensor in (q, k, v)
        ]

    def _part_grads(self, step, part, k, v, heads, outputs=None):
        "Compute dq, dk and dv of a `ScoreBlock` for a slice of the heads, optionally into the tensors `outputs`"
        dout, q, out, lse = (tensor[:, heads, part.rows] for tensor in self.rows)
        k, v = (tensor[:, heads, part.keys] for tensor in (k, v))
        with self.ring_call.stamp('gradients', step):
            options = part.causal, self.ring_call.scale
            return self.ring_call.kernels.gradients(dout, q, k, v, out, lse.contiguous(), *options, outputs=outputs)

    def add_other_keys(self, step, k, v):
        "Add the contribution of a step's keys to dq; return (dk, dv) of these keys, or () if no row attends to them"
        part = self.ring_call.score_block(step, k)
        if part is None:
            return ()
        dq, dk, dv = self._part_grads(step, part, k, v, slice(None))
        if self.writes_directly:
            self.pending_dq.append((part.rows, dq))
        else:
            self.sums[0][:, :, part.rows] += dq
        return dk, dv

    def start_own_keys(self):
        "Compute the gradients for the first half of the heads, while keys arrive"
        self._own_key_grads(slice(0, self.rows[1].shape[1] // 2))

    def overlap(self):
        "Return a context manager for the work on the keys of other ranks"
        return nullcontext()

    def finish_own_keys(self):
        "Compute the gradients for the second half of the heads, while the last gradients are sent"
        heads = self.rows[1].shape[1]
        self._own_key_grads(slice(heads // 2, heads))

    def _own_key_grads(self, heads):
        "Compute the gradients for this rank's own keys, for a slice of the heads"
        if heads.stop:
            views = [tensor[:, heads] for tensor in self.sums]
            own_block = self.ring_call.score_block(0, self.own_keys[0])
            grads = self._part_grads(0, own_block, *self.own_keys, heads, views if self.writes_directly else None)
            if not self.writes_directly:
                for view, grad in zip(views, grads):
                    view += grad

    def add_received(self, keys, grads):
        "Add gradients that another rank has computed for a slice of this rank's keys and values"
        _add_key_grads(self.sums[1:], keys, grads)

    def result(self):
        "Return dq, dk and dv after all contributions have been added"
        for rows, dq in self.pending_dq:
            self.sums[0][:, :, rows] += dq
        return self.sums


@lru_cache
def _high_priority_stream(device):
    "Return a stream with high priority, so that its blocks are scheduled first"
    return torch.cuda.Stream(device, priority=-1)


class _AccumulatedGrads:
    """Like `_Grads`, with kernels that accumulate dq themselves.

    On a GPU, kernels run concurrently in two streams: those for other keys have a higher priority, and the kernel for
    this rank's own keys uses the SMs that they leave idle."""

    def __init__(self, call, dout, q, k, v, out, lse):
        self.ring_call, self.own_keys = call, (k, v)
        self.received = None  # sums of the gradients that other ranks send, if there are more than two ranks
        self.accumulator = call.kernels.gradient_accumulator(dout, q, out, lse, call.scale)
        self.stream = _high_priority_stream(q.device) if q.is_cuda else None

    @staticmethod
    def supports(call, q):
        "Return whether these kernels support all blocks of this rank"
        accumulator = call.kernels.gradient_accumulator
        blocks = [call.score_block(step, q) for step in range(call.ranks)]
        first_rows = [part.rows.start or 0 for part in blocks if part]
        return accumulator is not None and all(map(accumulator.can_begin_at, first_rows))

    def start_own_keys(self):
        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream())
        with self.ring_call.stamp('gradients', 0):
            self.sums = self.accumulator.add(*self.own_keys, 0, self.ring_call.causal)

    def overlap(self):
        return torch.cuda.stream(self.stream) if self.stream else nullcontext()

    def finish_own_keys(self):
        if self.stream:
            torch.cuda.current_stream().wait_stream(self.stream)

    def add_other_keys(self, step, k, v):
        part = self.ring_call.score_block(step, k)
        if part is None:
            return ()
        with self.ring_call.stamp('gradients', step):
            return self.accumulator.add(k[:, :, part.keys], v[:, :, part.keys], part.rows.start or 0, part.causal)

    def add_received(self, keys, grads):
        if self.received is None and self.ring_call.ranks > 2:
            self.received = [
                torch.zeros(tensor.shape, dtype=torch.float32, device=tensor.device) for tensor in self.own_keys
            ]
        _add_key_grads(self.received or self.sums, keys, grads)

    def result(self):
        if self.received:
            for received_sum, own_sum in zip(self.received, self.sums):
                torch.add(received_sum, own_sum, out=own_sum)
        return self.accumulator.dq(), *self.sums


def _backward(call, dout, q, k, v, out, lse):
    "Compute the gradients of this rank's q, k and v"
    accumulator = _AccumulatedGrads if _AccumulatedGrads.supports(call, q) else _Grads
    call.open(k, v)
    incoming_keys = call.transport.fetch(1) if call.ranks > 1 else None
    outgoing_grads = None  # the gradients in flight, from `_send_grads`
    grads = accumulator(call, dout, q, k, v, out, lse)
    grads.start_own_keys()
    with grads.overlap():
        for step in range(1, call.ranks):
            with call.stamp('wait', step):
                k, v = incoming_keys.wait()
            incoming_keys = None if call.is_last(step) else call.transport.fetch(step + 1)
            key_grads = grads.add_other_keys(step, k, v)
            _recv_grads(call, grads, outgoing_grads)
            outgoing_grads = _send_grads(call, step, k, key_grads)
    grads.finish_own_keys()
    _recv_grads(call, grads, outgoing_grads)
    call.transport.close()
    return [grad.to(q.dtype) for grad in grads.result()]


def _send_grads(call, step, k, key_grads):
    "Start to send gradients and to receive those of this rank's keys; return (step, messages in flight, these keys)"
    keys = call.needed_keys(step, k)
    shape = k[:, :, keys or slice(0)].shape
    return step, call.transport.send_grads(step, key_grads, (2 if keys else 0, shape)), keys


def _recv_grads(call, grads, in_flight):
    "Wait for the gradients that another rank has computed for this rank's keys, and add them"
    if in_flight:
        step, messages, keys = in_flight
        with call.stamp('wait', step):
            received_grads = messages.wait()
        if keys:
            grads.add_received(keys, received_grads)
        call.transport.release_grads(step)


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, call):
        out, lse = _forward(call, q, k, v)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.ring_call = call
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, _):
        return *_backward(ctx.ring_call, dout.contiguous(), *ctx.saved_tensors), None


def attention(
    q,  # [batch, heads, rows, dim]: this rank's shard, as `split` returns it, of the same shape on all ranks
    k,  # like q
    v,  # like q
    order='zigzag',  # 'contiguous', 'striped' or 'zigzag': which positions of the sequence a rank has
    causal=True,  # each position attends only to itself and earlier positions
    scale=None,  # of q @ k^T; None: 1/sqrt(dim)
    kernels=None,  # `Kernels` that compute a part; None: those of `kernels_for`
    transport=None,  # `SendRecv()` (send and receive) or `CopyEngine()` (peer-to-peer copies); None: `SendRecv()`
    stamp=None,  # `Timestamps` that record the activities of this rank
    lse=False,  # also return the log-sum-exp of each row's scores, which has no gradient
):  # like q; with `lse`, a pair (out, [batch, heads, rows])
    """Compute attention of a sequence that is split over the ranks of `torch.distributed`; differentiable once.

        out = ring.attention(q, k, v, order='zigzag')

    All ranks must call it, each with its shard. Keys and values travel around the ring while the ranks compute; in the
    backward pass gradients are sent to their owners, too. Raises TypeError or ValueError for unsupported operands.

    Sources: Liu, Zaharia and Abbeel, Ring Attention (2023); Brandon and others, Striped Attention (2023)."""
    transport = transport or SendRecv()
    if isinstance(transport, type) or not hasattr(transport, 'fetch'):
        raise TypeError(f'ring: transport is {transport!r}; expected an instance, such as transport=ring.CopyEngine()')
    _check_operands(q, k, v, order, rank_and_ranks()[1])
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    call = _RingCall(order, causal, scale, kernels or kernels_for(q, k, v), transport, stamp or _ignore_stamp)
    out_and_lse = _Ring.apply(q, k, v, call)
    return out_and_lse if lse else out_and_lse[0]


def gathered_attention(
    q,  # the arguments are those of `attention`
    k,
    v,
    order='zigzag',
    causal=True,
    scale=None,
    kernels=None,
    stamp=None,
):  # like q
    "Compute the forward pass of `attention` after an all-gather of all keys and values"
    _check_operands(q, k, v, order, rank_and_ranks()[1])
    stamp, scale = stamp or _ignore_stamp, q.shape[-1] ** -0.5 if scale is None else float(scale)
    call = _RingCall(order, causal, scale, kernels or kernels_for(q, k, v), None, stamp)
    with stamp('wait', 0):
        all_keys_and_values = []
        for tensor in (k, v):
            tensor = tensor.contiguous()
            all_keys_and_values.append([torch.empty_like(tensor) for _ in range(call.ranks)])
            dist.all_gather(all_keys_and_values[-1], tensor)
    out, lse = _attend_own_keys(call, q, all_keys_and_values[0][call.rank], all_keys_and_values[1][call.rank])
    for step in range(1, call.ranks):
        source = (call.rank - step) % call.ranks
        _attend_other_keys(call, step, out, lse, q, all_keys_and_values[0][source], all_keys_and_values[1][source])
    return out.to(q.dtype)
