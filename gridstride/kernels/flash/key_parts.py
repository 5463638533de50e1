"""Attention over keys that arrive in parts, for sequences that are split among GPUs: partial results are merged, and
gradients accumulated.

`attend_and_merge` and `attention_pair` attend to more keys, `attention_gradients` and `PartGradients` compute the
gradients of some of the keys. They require our Hopper kernels, which `attentions` launches for all keys at once.
"""

import math
from functools import lru_cache

import torch

from . import calls
from .attentions import (
    BackwardPass,
    aligned_rows,
    attention_problem,
    check_qkv,
    check_scale,
    choose_backend,
    empty_out,
    kernel_backward,
)
from .calls import DIMS
from .launches import launch_mapped
from ..ladder.rung import current_device_properties

__all__ = ['PartGradients', 'attend_and_merge', 'attention_gradients', 'attention_pair']


def _check_hopper(op_name, q, k, v, max_dim=256):
    "Raise `ValueError` unless our Hopper kernels support these operands, with head dimension up to `max_dim`"
    check_qkv(q, k, v)
    if choose_backend(q).name != 'hopper' or q.shape[3] > max_dim:
        dims = ', '.join(str(dim) for dim in DIMS if dim <= max_dim)
        raise ValueError(
            f'{op_name}: {choose_backend(q).reason or f"it needs a Hopper GPU, and head dimension {dims}"}'
        )
    if not q.numel() or not k.numel():
        raise ValueError(f'{op_name}: q has shape {tuple(q.shape)} and k {tuple(k.shape)}; neither may be empty')


def _check_array(op_name, name, tensor, like, shape, dtypes):
    "Raise `ValueError` unless the tensor has this shape, one of these dtypes, and the device of `like`"
    if tensor.shape != shape or tensor.dtype not in dtypes or tensor.device != like.device:
        expected = f'{" or ".join(map(str, dtypes))} {tuple(shape)} on {like.device}'
        raise ValueError(
            f'{op_name}: {name} is {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}; expected {expected}'
        )


def _check_lse(op_name, lse, like, shape):
    "Raise `ValueError` unless lse is a contiguous float32 tensor of this shape, on the device of `like`"
    _check_array(op_name, 'lse', lse, like, shape, (torch.float32,))
    if not lse.is_contiguous():
        raise ValueError(f'{op_name}: lse must be contiguous: use lse.contiguous()')


def _check_first_row(op_name, first_row, rows=math.inf):
    "Raise `ValueError` unless `first_row` is a row index below `rows`"
    if not isinstance(first_row, int) or not 0 <= first_row < rows:
        raise ValueError(f'{op_name}: first_row is {first_row!r}; expected the index of a row')


def _check_saved_results(op_name, dout, q, out, lse):
    "Raise `ValueError` unless dout, out and lse match q"
    for name, tensor in dict(dout=dout, out=out).items():
        _check_array(op_name, name, tensor, q, q.shape, (q.dtype,))
    _check_lse(op_name, lse, q, q.shape[:3])


def _writable_or_empty(tensor):
    "Return the tensor if kernels can write to it, else an uninitialized tensor like it"
    return (
        tensor if aligned_rows(tensor) is tensor and (tensor.is_cuda or tensor.is_contiguous()) else empty_out(tensor)
    )


def _copy_grads(outputs, grads):
    "Copy each gradient to its output, unless the kernel has written it there; return the outputs"
    for output, grad in zip(outputs, grads):
        if output is not grad:
            output.copy_(grad)
    return outputs


def attention_gradients(
    dout,  # [batch, heads, rows, dim]: the gradient of the result
    q,
    k,
    v,
    out,  # the result, from these keys or from these and other keys
    lse,  # the lse of the result
    causal=False,
    scale=None,
    outputs=None,  # three tensors like q, k and v, with any strides, for the results; None: new ones
):  # dq, dk, dv
    """Compute the gradients of `attention` with our kernel: bfloat16, head dimension 64 or 128, on a Hopper GPU.

    With P = exp(scale * q @ k^T - lse): dV = P^T @ dout, dP = dout @ v^T, dS = P * (dP - rowsum(dout * out)), dQ =
    scale * dS @ k, dK = scale * dS^T @ q. If `out` and `lse` were computed from other keys as well, the results are the
    contributions of the keys in `k`. Raises ValueError if the kernel does not support the operands."""
    _check_hopper('attention_gradients', q, k, v, 128)
    _check_saved_results('attention_gradients', dout, q, out, lse)
    outputs = outputs or tuple(map(empty_out, (q, k, v)))
    grads = tuple(map(_writable_or_empty, outputs))
    options = dict(causal=bool(causal), scale=check_scale(q, scale), window=0, lens=None, bias='', method='kernel')
    return _copy_grads(outputs, kernel_backward(dout, q, k, v, out, lse, **options, grads=grads))


class PartGradients:
    """Compute the gradients of attention to keys that arrive in parts: `add` returns dk and dv of a part, and `dq`
    returns the sum over all parts, accumulated in float32. Raises ValueError if the kernel does not support the
    operands."""

    def __init__(
        self,
        dout,  # as for `attention_gradients`
        q,
        out,
        lse,
        scale=None,
    ):
        _check_hopper('PartGradients', q, q, q, 128)
        _check_saved_results('PartGradients', dout, q, out, lse)
        self.backward_pass = BackwardPass(dout, q, out, lse, check_scale(q, scale), empty_out(q))

    @staticmethod
    def can_begin_at(first_row) -> bool:
        "Return whether a part may begin at row `first_row`"
        return calls.can_backward_begin_at(first_row)

    def add(
        self,
        k,  # [batch, heads, keys, dim], with the heads of q, or fewer
        v,  # like k
        first_row=0,  # rows before this one attend to none of these keys; see `can_begin_at`
        causal=False,  # row first_row + i attends only to keys 0 to i
        outputs=None,  # two tensors like k and v, with any strides, for the results; None: new ones
    ):  # dk, dv
        "Compute dk and dv of these keys, and add their contribution to dq; two streams may add parts concurrently"
        _check_first_row('PartGradients', first_row, self.backward_pass.q.shape[2])
        if not self.can_begin_at(first_row):
            raise ValueError(
                f'PartGradients: first_row is {first_row}; expected a multiple of 64, the number of rows of a tile'
            )
        q = self.backward_pass.q[:, :, first_row:]
        _check_hopper('PartGradients', q, k, v, 128)
        outputs = outputs or tuple(map(empty_out, (k, v)))
        grads = tuple(map(_writable_or_empty, outputs))
        problem = attention_problem(q, k, bool(causal), 0, None, '')
        self.backward_pass.add_keys(k, v, problem, grads, rows=slice(first_row, None))
        return _copy_grads(outputs, grads)

    def dq(self):  # like q
        "Return dq, summed over all added parts; call it on a stream that waits for the kernels of `add`"
        return self.backward_pass.finish()


def attend_and_merge(
    out,  # [batch, heads, rows, dim], contiguous, bfloat16 or float32: the result of other keys; updated in place
    lse,  # float32 [batch, heads, rows], contiguous; updated in place
    first_row,  # rows before this one do not change
    q,  # [batch, heads, rows - first_row, dim]; the following arguments are those of `attention`
    k,
    v,
    causal=False,
    scale=None,
    overwrite=False,  # overwrite `out` and `lse`, which may be uninitialized
):
    """Compute `attention` to more keys, and merge the result into `out` and `lse` in the same kernel. Supports bfloat16
    and head dimension 64, 128 or 256 on a Hopper GPU; otherwise raises ValueError."""
    _check_hopper('attend_and_merge', q, k, v)
    _check_first_row('attend_and_merge', first_row)
    shape = *q.shape[:2], first_row + q.shape[2], q.shape[3]
    _check_array('attend_and_merge', 'out', out, q, shape, (q.dtype, torch.float32))
    if not out.is_contiguous() or out.data_ptr() % 16:
        raise ValueError('attend_and_merge: out must be contiguous, and begin at a multiple of 16 bytes')
    _check_lse('attend_and_merge', lse, q, shape[:3])
    q, k, v = map(aligned_rows, (q, k, v))
    output_rows = calls.OutputRows(first_row, out.shape[2], not overwrite, out.dtype == torch.float32)
    problem = attention_problem(q, k, bool(causal), 0, None, '')
    kernel_launch, boxes = calls.forward_hopper(
        problem, check_scale(q, scale), out.stride()[:3], current_device_properties(), output_rows
    )
    launch_mapped(kernel_launch, boxes, q, q=q, k=k, v=v, out=out, lse=lse, lens=lse.view(torch.int32))


@lru_cache(256)
def _pair_order(device, *arguments):
    "Return the result of `calls.pair_order` as a tensor on a device"
    return torch.tensor(calls.pair_order(*arguments), dtype=torch.int32, device=device)


def attention_pair(
    q,  # [batch, heads, rows, dim]; k, v, causal and scale as for `attention`
    k,
    v,
    other_k,  # a second array of keys
    other_v,  # the values of the second array
    first_row,  # rows from this one on attend to all keys of the second array, even if `causal`
    arrival_counter,  # int32 [1]: when it equals `expected_count`, other_k and other_v have been written
    expected_count,  # int32 [1]
    causal=False,
    scale=None,
    float32_out=False,  # return out in float32
    num_parts=1,  # number of groups of heads in which the second array arrives; each group increments `arrival_counter`
):  # like q, contiguous, and lse, float32 [batch, heads, rows]
    """Compute `attention` to two arrays of keys, the second of which may still be in flight: the kernel waits for it
    only when no other work is left. Supports bfloat16 and head dimension 64, 128 or 256 on a Hopper GPU; otherwise
    raises ValueError."""
    _check_hopper('attention_pair', q, k, v)
    _check_hopper('attention_pair', q, other_k, other_v)
    if other_k.shape[1] != k.shape[1]:
        raise ValueError(
            f'attention_pair: k has {k.shape[1]} heads and other_k {other_k.shape[1]}; both must have the same number'
        )
    _check_first_row('attention_pair', first_row, q.shape[2])
    if not isinstance(num_parts, int) or num_parts < 1:
        raise ValueError(f'attention_pair: num_parts is {num_parts!r}; expected a positive integer')
    for name, tensor in dict(arrival_counter=arrival_counter, expected_count=expected_count).items():
        _check_array('attention_pair', name, tensor, q, (1,), (torch.int32,))
    for name, tensor in dict(other_k=other_k, other_v=other_v).items():
        if aligned_rows(tensor) is not tensor:
            raise ValueError(
                f'attention_pair: the rows of {name} must be 16-byte aligned, because {name} may still be in '
                'flight and therefore cannot be copied first'
            )
    q, k, v = map(aligned_rows, (q, k, v))
    out = torch.empty(q.shape, dtype=torch.float32 if float32_out else q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    problem = attention_problem(q, k, bool(causal), 0, None, '')
    pair_options = current_device_properties(), first_row, other_k.shape[2]
    kernel_launch, boxes = calls.forward_pair(
        problem, check_scale(q, scale), *pair_options, bool(float32_out), num_parts
    )
    arrays = dict(q=q, k=k, v=v, other_k=other_k, other_v=other_v, out=out, lse=lse)
    arrays |= dict(arrived=arrival_counter, expected=expected_count)
    launch_mapped(kernel_launch, boxes, q, **arrays, order=_pair_order(q.device, problem, *pair_options, num_parts))
    return out, lse
