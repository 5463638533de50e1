"""The torch operators `rms_norm` and `layer_norm`, and their backward passes."""

import torch

from . import calls
from .calls import Norm
from .sources import DTYPE_BYTES, accumulator_type
from ..autocast import autocast_operands, is_autocast_enabled
from ..operators import operator
from ..ladder.rung import current_device_properties
from ..launch_replay import (
    ARGUMENTS,
    differentiable_once,
    differentiate_eagerly,
    make_apply,
    needs_autograd,
    replay_entry_point,
    replayable,
    torch_call,
)
from ..common import check_matches, check_tensor, dtype_name, is_host_bound, launch, tensor_vector_width, to_contiguous


def _accumulator_dtype(x):
    "Return the torch dtype of the accumulators for elements of `x`"
    return getattr(torch, accumulator_type(dtype_name(x)))


def _rows_and_width(x):
    "Return (number of rows, elements per row); a row is along the last axis"
    width = x.shape[-1]
    return (x.numel() // width if width else 0), width


def _common_vector_width(width, *tensors):
    "Compute how many elements a thread may load in one instruction from any of these tensors"
    return min(tensor_vector_width(x, 2, width) for x in tensors if x is not None)


def _check_operands(op_name, x, weight, bias, residual):
    "Raise `TypeError` or `ValueError` unless the kernels support the operands"
    check_tensor(op_name, x, DTYPE_BYTES)
    if not x.dim():
        raise ValueError(f'{op_name}: x is a scalar; expected at least one axis')
    for name, operand, shape in (
        ('weight', weight, x.shape[-1:]),
        ('bias', bias, x.shape[-1:]),
        ('residual', residual, x.shape),
    ):
        if operand is not None:
            check_matches(op_name, name, operand, x, shape)


def _allocate_outputs(x, weight, bias, residual, eps, is_centered):
    "Allocate the result, x + residual (empty without a residual), and the row statistics for the backward pass"
    row_stats = torch.empty((1 + is_centered, _rows_and_width(x)[0]), dtype=_accumulator_dtype(x), device=x.device)
    return torch.empty_like(x), x.new_empty(0) if residual is None else torch.empty_like(x), row_stats


@operator(
    'norm(Tensor x, Tensor? weight, Tensor? bias, Tensor? residual, float eps, bool is_centered)'
    ' -> (Tensor, Tensor, Tensor)',
    _allocate_outputs,
)
def _norm(x, weight, bias, residual, eps, is_centered):
    _check_operands('layer_norm' if is_centered else 'rms_norm', x, weight, bias, residual)
    outputs = _allocate_outputs(x, weight, bias, residual, eps, is_centered)
    _launch_norm(x, weight, bias, residual, eps, is_centered, *outputs)
    return outputs


def _launch_norm(x, weight, bias, residual, eps, is_centered, y, x_plus_residual, row_stats):
    "Normalize `x`, and write the results to `y`, `x_plus_residual` and, unless it is empty, `row_stats`"
    if not x.numel():
        return
    norm = Norm(is_centered, weight is not None, bias is not None, residual is not None)
    vec_size = _common_vector_width(x.shape[-1], x, weight, bias, residual)
    launches = calls.norm_launches(dtype_name(x), *_rows_and_width(x), vec_size, norm, eps, current_device_properties())
    launch(launches, x, weight=weight, bias=bias, residual=residual, sum=x_plus_residual, y=y, row_stats=row_stats)


def _run_without_gradient(x, weight, bias, residual, eps, is_centered):
    "Normalize `x` without the row statistics; return NotImplemented if torch is faster"
    _check_operands('layer_norm' if is_centered else 'rms_norm', x, weight, bias, residual)
    if _is_torch_faster(x, False):
        return NotImplemented
    y, row_stats = torch.empty_like(x), torch.empty(0, dtype=_accumulator_dtype(x), device=x.device)
    x_plus_residual = None if residual is None else torch.empty_like(x)
    _launch_norm(x, weight, bias, residual, eps, is_centered, y, x_plus_residual, row_stats)
    return y if residual is None else (y, x_plus_residual)


def _allocate_grads(x, dy, dsum, weight, row_stats, needs_param_grads, is_centered):
    "Allocate the gradients of x, weight and bias; those that are not needed are empty"
    width = x.shape[-1]
    weight_size, bias_size = width * needs_param_grads, width * (needs_param_grads and is_centered)
    return torch.empty_like(x), x.new_empty(weight_size), x.new_empty(bias_size)


@operator(
    'norm_backward(Tensor x, Tensor dy, Tensor? dsum, Tensor? weight, Tensor row_stats, bool needs_param_grads, '
    'bool is_centered) -> (Tensor, Tensor, Tensor)',
    _allocate_grads,
)
def _norm_backward(x, dy, dsum, weight, row_stats, needs_param_grads, is_centered):
    dy, dsum = dy.contiguous(), None if dsum is None else dsum.contiguous()
    dx, dweight, dbias = _allocate_grads(x, dy, dsum, weight, row_stats, needs_param_grads, is_centered)
    if not x.numel():
        return dx, dweight.zero_(), dbias.zero_()
    (rows, width), norm = _rows_and_width(x), Norm(is_centered, weight is not None, False, dsum is not None)
    vec_size = _common_vector_width(width, x, dy, dsum, weight)
    launches, partial_rows = calls.norm_backward_launches(
        dtype_name(x), rows, width, vec_size, norm, needs_param_grads, current_device_properties()
    )
    partials = torch.empty(partial_rows * (1 + is_centered) * width, dtype=_accumulator_dtype(x), device=x.device)
    outputs = dict(dx=dx, partials=partials, dweight=dweight, dbias=dbias)
    launch(launches, x, dy=dy, dsum=dsum, weight=weight, row_stats=row_stats, **outputs)
    return dx, dweight, dbias


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, residual, eps, is_centered):
        y, x_plus_residual, row_stats = _norm(x, weight, bias, residual, eps, is_centered)
        ctx.save_for_backward(x if residual is None else x_plus_residual, weight, row_stats)
        ctx.is_centered = is_centered
        ctx.set_materialize_grads(False)
        return (y, x_plus_residual) if residual is not None else y

    @staticmethod
    @differentiable_once
    def backward(ctx, dy, dsum=None):
        x, weight, row_stats = ctx.saved_tensors
        _, needs_weight, needs_bias, needs_residual, *_ = ctx.needs_input_grad
        dy = torch.zeros_like(x) if dy is None else dy
        dx, dweight, dbias = _norm_backward(x, dy, dsum, weight, row_stats, needs_weight or needs_bias, ctx.is_centered)
        grads = dx, dweight if needs_weight else None, dbias if needs_bias else None, dx if needs_residual else None
        return *grads, None, None


_apply_norm_function = make_apply(_Norm)


# Where torch is faster on a Hopper GPU, as benchmarks/every_shape.py measured: many rows, longer than these bytes
_TORCH_MIN_ROWS, _TORCH_ROW_BYTES = 1024, 100_000
# With gradients: rows, of more than these elements
_TORCH_MIN_GRADIENT_ROWS, _TORCH_GRADIENT_ELEMENTS = 256, 2**15


def _is_torch_faster(x, has_gradient):
    "Return whether torch normalizes `x` faster than our kernels"
    width, min_rows = x.shape[-1], _TORCH_MIN_GRADIENT_ROWS if has_gradient else _TORCH_MIN_ROWS
    is_long = width > _TORCH_GRADIENT_ELEMENTS if has_gradient else width * x.element_size() > _TORCH_ROW_BYTES
    return is_long and x.is_cuda and x.numel() // width >= min_rows


def _torch_normalize(x, weight, bias, residual, eps, is_centered):
    "Normalize with torch"
    x = x if residual is None else x + residual
    shape = x.shape[-1:]
    y = torch.layer_norm(x, shape, weight, bias, eps) if is_centered else torch.rms_norm(x, shape, weight, eps)
    return y if residual is None else (y, x)


def _torch_function(x, weight, bias, residual, eps, is_centered):
    "Return a function of such arguments that normalizes with torch, with little overhead"
    if residual is not None:
        return _torch_normalize
    x_argument, weight_argument, bias_argument, *_ = ARGUMENTS
    shape = tuple(x.shape[-1:])
    if is_centered:
        return torch_call(torch.layer_norm, x_argument, shape, weight_argument, bias_argument, eps)
    return torch_call(torch.rms_norm, x_argument, shape, weight_argument, eps)


_normalize = replayable(_run_without_gradient, _torch_normalize, make_torch_function=_torch_function)


def _torch_layer_norm(x):
    return torch.layer_norm(x, x.shape[-1:])


def _torch_rms_norm(x):
    return torch.rms_norm(x, x.shape[-1:])


def _normalize_under_autocast(x, weight, bias, residual, eps, is_centered):
    "Normalize in the dtype that torch selects under autocast; x + residual keeps its dtype, as in torch"
    x = x if residual is None else x + residual
    torch_operator = _torch_layer_norm if is_centered else _torch_rms_norm
    operands = autocast_operands(torch_operator, x, weight, bias)
    y = _apply_norm_to_operands(*operands, None, eps, is_centered)
    return y if residual is None else (y, x)


def _apply_norm(x, weight, bias, residual, eps, is_centered):
    "Normalize, with autograd only if a gradient is needed"
    apply = _normalize_under_autocast if is_autocast_enabled(x) else _apply_norm_to_operands
    return apply(x, weight, bias, residual, eps, is_centered)


def _apply_norm_to_operands(x, weight, bias, residual, eps, is_centered):
    "Compute `_apply_norm` in the dtype of the operands"
    operands = *map(to_contiguous, (x, weight, bias, residual)), float(eps), is_centered
    if not needs_autograd(x, weight, bias, residual):
        return _normalize(*operands)
    if not hasattr(x, 'data_ptr') or not x.dim():
        return _apply_norm_function(*operands)
    if is_host_bound(x, DTYPE_BYTES) and residual is None:
        _check_operands('layer_norm' if is_centered else 'rms_norm', *operands[:4])
        return differentiate_eagerly(_normalize, _apply_norm_function, _torch_function, *operands)
    if _is_torch_faster(x, True):
        return _differentiate_with_torch(*operands)
    return _apply_norm_function(*operands)


def _differentiate_with_torch(*operands):  # the arguments of `_normalize`
    "Normalize with torch, which records the gradient; the table stores that it does"
    _check_operands('layer_norm' if operands[-1] else 'rms_norm', *operands[:4])
    table = None if torch.compiler.is_compiling() else _normalize.table_for(*operands)
    if table is not None:
        table.use_function(_torch_function(*operands), operands, True)
    return _torch_normalize(*operands)


@replay_entry_point(_normalize, 'x', 'weight', None, 'residual', 'eps', False)
def rms_norm(
    x,  # a tensor (..., width) of float32, float16, bfloat16 or float64; if it is not contiguous, it is copied first
    weight=None,  # (width,), of the same dtype
    residual=None,  # a tensor like `x`, which is added to `x` first
    eps=1e-6,  # added to the mean of the squares
):  # a tensor like `x`; with `residual` a pair: the result, and x + residual
    """Compute x / sqrt(mean(x^2) + eps) * weight along the last axis, as `F.rms_norm` does; differentiable once. With
    `residual`, x + residual is normalized, after rounding to the dtype of x as torch does, and returned as the second
    result. 16-bit types are computed in float32. Under autocast, the result has the dtype of torch's result, and x and
    the weight may have different dtypes.

        y, x = rms_norm(x, weight, residual)

    With a gradient and no residual, torch computes inputs of up to 64 MiB, except in CUDA graphs, because our Python
    code would take longer than the kernels. torch also computes inputs of many long rows.

    Raises TypeError or ValueError for unsupported operands."""
    if not torch.compiler.is_dynamo_compiling():
        if (y := _normalize.fast(x, weight, None, residual, eps, False)) is not None:
            return y
    return _apply_norm(x, weight, None, residual, eps, False)


@replay_entry_point(_normalize, 'x', 'weight', 'bias', 'residual', 'eps', True)
def layer_norm(
    x,  # as for `rms_norm`
    weight=None,  # (width,), of the same dtype
    bias=None,  # (width,), of the same dtype
    residual=None,  # as for `rms_norm`
    eps=1e-5,  # added to the variance
):  # as for `rms_norm`
    """Compute (x - mean) / sqrt(variance + eps) * weight + bias along the last axis, as `F.layer_norm` does;
    differentiable once. With `residual`, x + residual is normalized, and returned as the second result. 16-bit types
    are computed in float32. Autocast has the same effect as for `rms_norm`.

        layer_norm(x, weight, bias)

    torch computes the same operands as for `rms_norm`.

    Raises TypeError or ValueError for unsupported operands."""
    if not torch.compiler.is_dynamo_compiling():
        if (y := _normalize.fast(x, weight, bias, residual, eps, True)) is not None:
            return y
    return _apply_norm(x, weight, bias, residual, eps, True)
