"""Compute attention to a part of the keys and its gradients, and merge the results of two parts."""

import math
import time
from functools import lru_cache
from importlib.resources import files
from typing import Callable, NamedTuple

import torch

from ..cpp import cuda_kernel
from ..kernels.flash import attentions, key_parts
from ..utils import cdiv

_SCORE_DTYPES = torch.float64, torch.float32


class Kernels(NamedTuple):
    "The functions that compute attention to a part of the keys"

    attend: Callable  # (q, k, v, causal, scale) -> out, lse
    # (dout, q, k, v, out, lse, causal, scale, outputs=None) -> dq, dk, dv, written to the tensors `outputs`
    gradients: Callable
    # (out, lse, first, q, k, v, causal, scale, overwrite): attends, and merges the result into out and lse
    attend_and_merge: Callable = None
    attend_pair: Callable = None  # `key_parts.attention_pair`: attends to two parts of the keys -> out, lse
    gradient_accumulator: Callable = None  # (dout, q, out, lse, scale) -> `key_parts.PartGradients`


def _scores(q, k, causal, scale):
    "Return the matrix of scores S = scale * q @ k^T, in float32 or float64"
    q, k = (tensor if tensor.dtype in _SCORE_DTYPES else tensor.float() for tensor in (q, k))
    scores = q @ k.mT * scale
    return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf) if causal else scores


def _attend(q, k, v, causal, scale):
    "Compute out and lse; materialize the score matrix"
    scores = _scores(q, k, causal, scale)
    lse = scores.logsumexp(-1)
    return ((scores - lse[..., None]).exp() @ v.to(scores.dtype)).to(q.dtype), lse


def _write_grads(grads, outputs):
    "Return the gradients, copied to the tensors `outputs` unless these are None"
    return grads if outputs is None else tuple(output.copy_(grad) for output, grad in zip(outputs, grads))


def _gradients(dout, q, k, v, out, lse, causal, scale, outputs=None):
    "Compute dq, dk and dv; materialize the score matrix"
    scores = _scores(q, k, causal, scale)
    probabilities, dout = (scores - lse[..., None]).exp(), dout.to(scores.dtype)
    delta = (dout * out.to(scores.dtype)).sum(-1, keepdim=True)
    dscores = probabilities * (dout @ v.mT.to(scores.dtype) - delta) * scale
    grads = dscores @ k.to(scores.dtype), dscores.mT @ q.to(scores.dtype), probabilities.mT @ dout
    return _write_grads([grad.to(q.dtype) for grad in grads], outputs)


plain = Kernels(_attend, _gradients)  # materializes the score matrix; for any dtype and device


def _attend_hopper(q, k, v, causal, scale):
    return attentions.attention(q, k, v, causal=causal, scale=scale, lse=True)


hopper = Kernels(  # `kernels.attention`
    _attend_hopper,
    key_parts.attention_gradients,
    key_parts.attend_and_merge,
    key_parts.attention_pair,
    key_parts.PartGradients,
)


def _attend_cudnn(q, k, v, causal, scale):
    out, lse, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, causal, False, scale=scale
    )
    return out, lse.reshape(q.shape[:3])


def _gradients_cudnn(dout, q, k, v, out, lse, causal, scale, outputs=None):
    rng_state = torch.zeros((), dtype=torch.int64, device=q.device)  # of dropout, which is not used
    lse = lse[..., None].contiguous()
    grads = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        dout,
        q,
        k,
        v,
        out,
        lse,
        rng_state,
        rng_state,
        None,
        None,
        None,
        q.shape[2],
        k.shape[2],
        0.0,
        causal,
        scale=scale,
    )
    return _write_grads(grads, outputs)


cudnn = Kernels(_attend_cudnn, _gradients_cudnn)  # torch's cuDNN operators


def kernels_for(
    q,  # [batch, heads, rows, dim], like k and v
    k,
    v,
) -> Kernels:
    "Choose `hopper` for bfloat16 with head dimension 64 or 128 on a Hopper GPU, else `plain`"
    if q.is_cuda and q.numel() and attentions.attention_backend(q, k, v).name == 'hopper' and q.shape[-1] <= 128:
        return hopper
    return plain


def slowed(
    kernels: Kernels,
    seconds: float,  # per million scores
) -> Kernels:
    """Return `kernels` slowed down to a given speed: each call computes, then sleeps.

    Processes that share the cores of a laptop then behave as if each had its own, slower GPU."""

    def slow_down(function, q_position, cost_factor):
        def timed_function(*args, **kwargs):
            end = time.perf_counter()
            q, k, causal = args[q_position], args[q_position + 1], args[-2]
            num_scores = q.shape[2] * (q.shape[2] + 1) / 2 if causal else q.shape[2] * k.shape[2]
            end += cost_factor * seconds * num_scores * q.shape[0] * q.shape[1] / 1e6
            result = function(*args, **kwargs)
            time.sleep(max(0, end - time.perf_counter()))
            return result

        return timed_function

    # the backward pass has five matrix products, the forward pass two
    return Kernels(slow_down(kernels.attend, 0, 1), slow_down(kernels.gradients, 1, 2.5))


# The results of attention to two disjoint parts of the keys determine the result for both parts: lse is the logarithm
# of the sum of both sums of exponentials, and out is the mean of both outputs, weighted by these sums.
def _merge_plain(out, lse, partial_out, partial_lse):
    "Merge with torch, in place"
    merged_lse = torch.logaddexp(lse, partial_lse)
    weight, partial_weight = (lse - merged_lse).exp()[..., None], (partial_lse - merged_lse).exp()[..., None]
    out.copy_(out * weight.to(out.dtype) + partial_out.to(out.dtype) * partial_weight.to(out.dtype))
    lse.copy_(merged_lse)


@lru_cache
def _merge_kernel(out_type):
    source = files(__package__).joinpath('merge.cuh').read_text(encoding='utf-8')
    return cuda_kernel(f'#include <cuda_bf16.h>\ntypedef {out_type} sum_t;\n{source}', 'merge_parts')


def merge(
    out,  # [batch, heads, rows, dim], contiguous; updated in place
    lse,  # [batch, heads, rows], float32 or the dtype of `out`; updated in place
    partial_out,  # `out` of the rows from `first` on, for other keys
    partial_lse,  # `lse` of these rows
    first=0,  # rows before this one do not change
):
    """Merge the results of attention to two disjoint parts of the keys, weighted by their sums of exponentials.

        merge(out, lse, *attend(q, more_k, more_v))

    A row that attends to no key of a part has an `lse` of -inf there; it must attend to a key of the other part."""
    if not out.is_cuda or partial_out.dtype != torch.bfloat16 or out.shape[-1] not in (64, 128, 256):
        return _merge_plain(out[:, :, first:], lse[:, :, first:], partial_out, partial_lse)
    _launch_merge(out, lse, partial_out.contiguous(), partial_lse.contiguous(), first)


def _launch_merge(out, lse, partial_out, partial_lse, first):
    batch, heads, rows, dim = out.shape
    kernel = _merge_kernel({torch.bfloat16: '__nv_bfloat16', torch.float32: 'float'}[out.dtype])
    vectors = dim // 8
    grid = cdiv((rows - first) * vectors, 256), heads * batch
    kernel[grid, 256](out, lse, partial_out, partial_lse, vectors, rows, first)
