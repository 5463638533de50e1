"""`bmm`: batched products in one launch. `grouped_mm`: a grouped GEMM, rows in groups, each multiplied by a matrix of
its own, as in a mixture of experts."""

from functools import lru_cache

import torch
from torch.autograd.function import once_differentiable

from .launches import lying, plan_for, run, why_not_here
from . import plan, bf16x6
from ..ladder.rung import PreparedLaunches, this_device
from ..sparse.launches import launch_on
from ..tool import enter_thread, type_of


def _why_torch(a, b):
    "Why torch multiplies batches, whatever their type; None if it need not"
    if a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        return 'these are not two batches that fit'
    return plan.why_torch(a[0], b[0]) if len(a) else 'the batch is empty'


def _split_for(a, b):
    "(layout, m, n, the `Bf16x6`) for batches of float32, or why there is none that pays"
    operands, (count, h, k), w = lying(a, b), a.shape, b.shape[2]
    if operands is None:
        return 'no kernel reads the memory layout of an operand'
    if why := why_not_here(a):
        return why
    if min(count, h, w, k) < 1 or count > 65535:
        return 'a size is 0, or the batch is longer than 65,535'
    if (a.data_ptr() | b.data_ptr()) & 15:
        return 'an operand begins at an address that is not a multiple of 16'
    kernel = bf16x6.choose_batch(count, h, w, k, this_device().sms, operands[0])
    return kernel if isinstance(kernel, str) else (*operands, kernel)


def _plan(a, b):
    "Return the kernel that multiplies two batches, or why torch does"
    if why := _why_torch(a, b):
        return why
    return _split_for(a, b) if type_of(a) == 'float32' else plan_for(a, b)


@lru_cache(256)
def _ready(kernel, count, h, w, k, device, backend):
    return lambda arrays, stream=None, run=PreparedLaunches(kernel.launch_plan(h, w, k, this_device(), count)): run(
        *arrays, stream
    )


def _forward(a, b):
    found = _plan(a, b)
    if isinstance(found, str):
        return torch.bmm(a, b)
    layout, m, n, *kernel = found
    if not kernel:
        return run(m, n, None, layout)
    out = a.new_empty(a.shape[0], a.shape[1], b.shape[2])
    launch_on(_ready, (*kernel, *out.shape, a.shape[2]), a, (m, n, out))
    return out


class _Bmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return _forward(a, b)

    @staticmethod
    def backward(ctx, g):
        if g.is_cuda:
            enter_thread()
        a, b = ctx.saved_tensors
        return (bmm(g, b.mT) if ctx.needs_input_grad[0] else None, bmm(a.mT, g) if ctx.needs_input_grad[1] else None)


def bmm(
    a,  # (count, h, k)
    b,  # (count, k, w)
):  # (count, h, w)
    """Compute a[i] @ b[i] for all i, as `torch.bmm` does; differentiable: by one kernel for 16-bit floats on a Hopper
    GPU, for float32 by tensor cores, as `matmul` does, and by torch for what they do not support."""
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad) and not isinstance(_plan(a, b), str):
        return _Bmm.apply(a, b)
    return _forward(a, b)


# Rows in groups
def _bounds(ends, rows):
    "Return the bounds of the groups on the host; raise unless each row is in one"
    found = [0, *ends.tolist()]
    if found != sorted(found) or found[-1] != rows:
        raise ValueError(f'grouped_mm: ends is {found[1:]}; none may be below the one before, and the last is {rows}')
    return found


def _check_groups(a, b, ends):
    "Raise for what does not fit"
    if not isinstance(ends, torch.Tensor):
        has = f'ends is a {type(ends).__name__}'
        raise TypeError(f'grouped_mm: {has}, and a tensor is needed: torch.tensor(ends, dtype=torch.int32)')
    if a.dim() != 2 or b.dim() != 3 or a.shape[1] != b.shape[1] or a.dtype != b.dtype:
        has = f'{type_of(a)}{tuple(a.shape)} and {type_of(b)}{tuple(b.shape)}'
        raise ValueError(f'grouped_mm: a and b are {has}; (rows, k) and (groups, k, w) of one type are needed')
    if ends.dtype != torch.int32 or ends.shape != b.shape[:1] or not ends.is_contiguous():
        has = f'{type_of(ends)}{tuple(ends.shape)}' + ' with gaps in memory' * (not ends.is_contiguous())
        raise ValueError(f'grouped_mm: ends is {has}, and int32({b.shape[0]},) is needed: where each group ends')
    if not a.device == b.device == ends.device:
        raise ValueError(f'grouped_mm: a, b and ends are on {a.device}, {b.device} and {ends.device}')
    if ends.device.type == 'cpu':
        _bounds(ends, len(a))


def _plan_groups(a, b):
    "(layout, m, n) for the kernel, or why torch multiplies"
    if why := plan.why_torch(a, b[0]) if len(b) else 'there are no groups':
        return why
    if not a.is_contiguous():
        return 'a is not contiguous'
    return plan_for(a[None], b)


def _each(a, b, ends):
    "The groups one by one"
    at = _bounds(ends, len(a))
    return torch.cat([a[s:e] @ o for s, e, o in zip(at, at[1:], b)]) if len(b) else a.new_empty(0, b.shape[2])


def _groups_forward(a, b, ends):
    found = _plan_groups(a, b)
    if isinstance(found, str):
        return _each(a, b, ends)
    layout, m, n = found
    return run(m[0], n, None, layout, ends=ends)


class _Grouped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, ends):
        ctx.save_for_backward(a, b, ends)
        return _groups_forward(a, b, ends)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        if g.is_cuda:
            enter_thread()
        (a, b, ends), g = ctx.saved_tensors, g.contiguous()
        da = _groups_forward(g, b.mT, ends) if ctx.needs_input_grad[0] else None
        return da, _of_groups(a, g, ends) if ctx.needs_input_grad[1] else None, None


def _has_torch_a_kernel(a, g):
    "One for all groups, as its checks have it: of bfloat16 whose rows begin at multiples of 16 bytes"
    fits = a.is_contiguous() and not ((a.shape[1] | g.shape[1]) % 8 or (a.data_ptr() | g.data_ptr()) & 15)
    return g.is_cuda and a.dtype is torch.bfloat16 and fits and len(a) and hasattr(torch, '_grouped_mm')


def _of_groups(a, g, ends):
    "The gradient of each group's matrix; by torch"
    if _has_torch_a_kernel(a, g):
        return torch._grouped_mm(a.t(), g, ends)
    at = _bounds(ends, len(a))
    found = [a[s:e].t() @ g[s:e] for s, e in zip(at, at[1:])]
    return torch.stack(found) if found else a.new_empty(0, a.shape[1], g.shape[1])


def grouped_mm(
    a,  # (rows, k)
    b,  # (groups, k, w), or a transpose of (groups, w, k)
    ends,  # int32 (groups,): one past the last row of each group; the last one is `rows`
):  # (rows, w)
    """Multiply each group of rows by a matrix of its own, as for tokens sorted by their experts; groups may be empty.
    Differentiable once: the gradient of b is torch's.

        grouped_mm(tokens, experts, ends)

    One kernel computes 16-bit floats on a Hopper GPU; it does not check `ends`: an end beyond `rows` writes out of
    bounds, and rows past the last one are not written. Elsewhere one product after the other, for which the host waits
    for `ends` and checks them. Raises TypeError and ValueError for operands that do not fit."""
    _check_groups(a, b, ends)
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _Grouped.apply(a, b, ends)
    return _groups_forward(a, b, ends)
