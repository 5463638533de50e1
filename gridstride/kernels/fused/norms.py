"""`rms_norm` and `layer_norm`, as torch knows them: checked, launched, and with their derivatives."""

import torch
from torch.autograd.function import once_differentiable

from . import calls
from .calls import Norm
from .sources import SIZES, sums_of
from ..operators import operator
from ..ladder.rung import this_device
from ..tool import check_fits, check_tensor, launch, type_of, vector_of


def _kind(x):
    "The type in which elements of `x` are summed"
    return getattr(torch, sums_of(type_of(x)))


def _rows(x):
    "(rows, width)"
    width = x.shape[-1]
    return (x.numel() // width if width else 0), width


def _vector(width, *given):
    return min(vector_of(o, 2, width) for o in given if o is not None)


def _check(tool, x, weight, bias, residual):
    "Raise unless all are tensors that the kernel can read"
    check_tensor(tool, x, SIZES)
    if not x.dim():
        raise ValueError(f'{tool}: x is one number, and it goes along the last axis')
    for name, y, shape in (
        ('weight', weight, x.shape[-1:]),
        ('bias', bias, x.shape[-1:]),
        ('residual', residual, x.shape),
    ):
        if y is not None:
            check_fits(tool, name, y, x, shape)


def _outputs(x, weight, bias, residual, eps, centered):
    "Memory for the norms, for the sums with a residual (for nothing without one), for what is kept of the rows"
    kept = torch.empty((1 + centered, _rows(x)[0]), dtype=_kind(x), device=x.device)
    return torch.empty_like(x), x.new_empty(0) if residual is None else torch.empty_like(x), kept


@operator(
    'norm(Tensor x, Tensor? weight, Tensor? bias, Tensor? residual, float eps, bool centered)'
    ' -> (Tensor, Tensor, Tensor)',
    _outputs,
)
def _norm(x, weight, bias, residual, eps, centered):
    _check('layer_norm' if centered else 'rms_norm', x, weight, bias, residual)
    y, total, kept = _outputs(x, weight, bias, residual, eps, centered)
    if x.numel():
        norm = Norm(centered, weight is not None, bias is not None, residual is not None)
        v = _vector(x.shape[-1], x, weight, bias, residual)
        found = calls.norm_calls(type_of(x), *_rows(x), v, norm, eps, this_device())
        launch(found, x, weight=weight, bias=bias, residual=residual, sum=total, y=y, kept=kept)
    return y, total, kept


def _gradients(x, dy, dsum, weight, kept, learnt, centered):
    "Memory for the gradients of x, weight and bias, or for nothing where one is not wanted"
    width = x.shape[-1]
    return torch.empty_like(x), x.new_empty(width * learnt), x.new_empty(width * (learnt and centered))


@operator(
    'norm_backward(Tensor x, Tensor dy, Tensor? dsum, Tensor? weight, Tensor kept, bool learnt, bool centered)'
    ' -> (Tensor, Tensor, Tensor)',
    _gradients,
)
def _norm_backward(x, dy, dsum, weight, kept, learnt, centered):
    dy, dsum = dy.contiguous(), None if dsum is None else dsum.contiguous()
    dx, dweight, dbias = _gradients(x, dy, dsum, weight, kept, learnt, centered)
    if not x.numel():
        return dx, dweight.zero_(), dbias.zero_()
    (rows, width), norm = _rows(x), Norm(centered, weight is not None, False, dsum is not None)
    v = _vector(width, x, dy, dsum, weight)
    found, count = calls.norm_backward_calls(type_of(x), rows, width, v, norm, learnt, this_device())
    parts = torch.empty(count * (1 + centered) * width, dtype=_kind(x), device=x.device)
    outs = dict(dx=dx, parts=parts, dweight=dweight, dbias=dbias)
    launch(found, x, dy=dy, dsum=dsum, weight=weight, kept=kept, **outs)
    return dx, dweight, dbias


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, residual, eps, centered):
        y, total, kept = _norm(x, weight, bias, residual, eps, centered)
        ctx.save_for_backward(x if residual is None else total, weight, kept)
        ctx.centered = centered
        ctx.set_materialize_grads(False)
        return (y, total) if residual is not None else y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy, dsum=None):
        x, weight, kept = ctx.saved_tensors
        _, need_weight, need_bias, need_residual, *_ = ctx.needs_input_grad
        dy = torch.zeros_like(x) if dy is None else dy
        dx, dweight, dbias = _norm_backward(x, dy, dsum, weight, kept, need_weight or need_bias, ctx.centered)
        wanted = dx, dweight if need_weight else None, dbias if need_bias else None, dx if need_residual else None
        return *wanted, None, None


def rms_norm(
    x,  # a contiguous tensor (..., width) of float32, float16, bfloat16 or float64
    weight=None,  # (width,), of the same type
    residual=None,  # a tensor like `x`, that is added first
    eps=1e-6,  # is added to the mean of the squares
):  # a tensor like `x`; with `residual` two: the norms, and x + residual
    """Compute x / sqrt(mean(x^2) + eps) * weight along the last axis, as `F.rms_norm` does; differentiable once. With
    `residual`, of x + residual, rounded to the type of x as torch does, which is the second result. 16-bit types are
    computed in float32.

        y, x = rms_norm(x, weight, residual)

    Raises TypeError and ValueError for operands that are not supported."""
    return _Norm.apply(x, weight, None, residual, float(eps), False)


def layer_norm(
    x,  # as for `rms_norm`
    weight=None,  # (width,), of the same type
    bias=None,  # likewise
    residual=None,  # as for `rms_norm`
    eps=1e-5,  # is added to the variance
):  # as of `rms_norm`
    """Compute (x - mean) / sqrt(variance + eps) * weight + bias along the last axis, as `F.layer_norm` does;
    differentiable once. With `residual`, of x + residual, which is the second result. 16-bit types are computed in
    float32.

        layer_norm(x, weight, bias)

    Raises TypeError and ValueError for operands that are not supported."""
    return _Norm.apply(x, weight, bias, residual, float(eps), True)
