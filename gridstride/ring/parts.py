"""Attention of a part of the keys, its gradients, and the merge of two parts."""

import math
import time
from functools import lru_cache
from importlib.resources import files
from typing import Callable, NamedTuple

import torch

from ..cpp import cuda_kernel
from ..kernels.flash import attentions
from ..utils import cdiv

_NATURAL = torch.float64, torch.float32


class Kernels(NamedTuple):
    "Who computes a part"

    attend: Callable  # (q, k, v, causal, scale) -> out, lse
    gradients: Callable  # (dout, q, k, v, out, lse, causal, scale, into=None) -> dq, dk, dv; into: where they go
    onto: Callable = None  # (out, lse, first, q, k, v, causal, scale, fresh): as `merge`, of what it computes itself
    pair: Callable = None  # as `attentions.attention_pair` -> out, lse
    part_gradients: Callable = None  # (dout, q, out, lse, scale) -> what adds dq up, as `attentions.PartGradients`


def _scores(q, k, causal, scale):
    "All of them, in float32 at least"
    q, k = (x if x.dtype in _NATURAL else x.float() for x in (q, k))
    s = q @ k.mT * scale
    return s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -math.inf) if causal else s


def _attend(q, k, v, causal, scale):
    s = _scores(q, k, causal, scale)
    lse = s.logsumexp(-1)
    return ((s - lse[..., None]).exp() @ v.to(s.dtype)).to(q.dtype), lse


def _put(grads, into):
    "The gradients where they are wanted"
    return grads if into is None else tuple(to.copy_(x) for to, x in zip(into, grads))


def _gradients(dout, q, k, v, out, lse, causal, scale, into=None):
    s = _scores(q, k, causal, scale)
    p, g = (s - lse[..., None]).exp(), dout.to(s.dtype)
    delta = (g * out.to(s.dtype)).sum(-1, keepdim=True)
    ds = p * (g @ v.mT.to(s.dtype) - delta) * scale
    grads = ds @ k.to(s.dtype), ds.mT @ q.to(s.dtype), p.mT @ g
    return _put([x.to(q.dtype) for x in grads], into)


plain = Kernels(_attend, _gradients)  # all scores in memory; any type, anywhere


def _attend_here(q, k, v, causal, scale):
    return attentions.attention(q, k, v, causal=causal, scale=scale, lse=True)


ours = Kernels(  # `kernels.attention`
    _attend_here,
    attentions.attention_gradients,
    attentions.attention_onto,
    attentions.attention_pair,
    attentions.PartGradients,
)


def _attend_cudnn(q, k, v, causal, scale):
    out, lse, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, causal, False, scale=scale
    )
    return out, lse.reshape(q.shape[:3])


def _gradients_cudnn(dout, q, k, v, out, lse, causal, scale, into=None):
    none = torch.zeros((), dtype=torch.int64, device=q.device)  # state of a dropout that is not there
    lse = lse[..., None].contiguous()
    grads = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        dout, q, k, v, out, lse, none, none, None, None, None, q.shape[2], k.shape[2], 0.0, causal, scale=scale
    )
    return _put(grads, into)


cudnn = Kernels(_attend_cudnn, _gradients_cudnn)  # torch's, of cuDNN


def kernels_for(
    q,  # [batch, heads, rows, dim], like the next
    k,
    v,
) -> Kernels:
    "`ours` for bfloat16 with head dimension 64 or 128 on a Hopper GPU, else `plain`"
    if q.is_cuda and q.numel() and attentions.attention_way(q, k, v).name == 'hopper' and q.shape[-1] <= 128:
        return ours
    return plain


def slowed(
    kernels: Kernels,  # to be slowed
    seconds: float,  # for a million scores of a head
) -> Kernels:
    """The same, but each call lasts as long as a GPU in slow motion would take, asleep for the rest of it: so processes
    that share the cores of a laptop wait for each other as if each had a GPU of its own"""

    def slow(f, q_at, times):
        def call(*args, **how):
            end = time.perf_counter()
            q, k, causal = args[q_at], args[q_at + 1], args[-2]
            scores = q.shape[2] * (q.shape[2] + 1) / 2 if causal else q.shape[2] * k.shape[2]
            end += times * seconds * scores * q.shape[0] * q.shape[1] / 1e6
            res = f(*args, **how)
            time.sleep(max(0, end - time.perf_counter()))
            return res

        return call

    return Kernels(slow(kernels.attend, 0, 1), slow(kernels.gradients, 1, 2.5))  # five products after two


# Two parts of the keys of the same rows
def _merge_plain(out, lse, part, part_lse):
    both = torch.logaddexp(lse, part_lse)
    mine, theirs = (lse - both).exp()[..., None], (part_lse - both).exp()[..., None]
    out.copy_(out * mine.to(out.dtype) + part.to(out.dtype) * theirs.to(out.dtype))
    lse.copy_(both)


@lru_cache
def _merge_kernel(wide):
    text = files(__package__).joinpath('merge.cuh').read_text(encoding='utf-8')
    return cuda_kernel(f'#include <cuda_bf16.h>\ntypedef {wide} sum_t;\n{text}', 'merge_parts')


def merge(
    out,  # [batch, heads, rows, dim], contiguous; is changed
    lse,  # float32 [batch, heads, rows], or as wide as `out`; is changed
    part,  # what the rows from `first` on make of other keys
    part_lse,  # likewise
    first=0,  # row
):
    """Make `out` and `lse` those of both parts of the keys. A row that sees nothing has an `lse` of -inf; one of the
    two parts has to see something"""
    if not out.is_cuda or part.dtype != torch.bfloat16 or out.shape[-1] not in (64, 128, 256):
        return _merge_plain(out[:, :, first:], lse[:, :, first:], part, part_lse)
    _launch_merge(out, lse, part.contiguous(), part_lse.contiguous(), first)


def _launch_merge(out, lse, part, part_lse, first):
    batch, heads, rows, dim = out.shape
    kernel = _merge_kernel({torch.bfloat16: '__nv_bfloat16', torch.float32: 'float'}[out.dtype])
    vectors = dim // 8
    grid = cdiv((rows - first) * vectors, 256), heads * batch
    kernel[grid, 256](out, lse, part, part_lse, vectors, rows, first)
