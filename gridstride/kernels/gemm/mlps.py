"""`mlp`: the two linear layers of a transformer block. The forward and backward passes are six GEMMs; all other
operations are fused into their epilogues."""

import torch
from torch.autograd.function import once_differentiable

from .epilogues import Epilogue, check_activation, check_operand, multiply_with, check_gradient, flatten_rows
from .launches import stored_operands, run_gemm
from .plan import fallback_reason
from ..common import make_context_current_once


def _check_operands(x, up, down, up_bias, down_bias, activation, residual):
    "Raise `TypeError` or `ValueError` for invalid operands"
    check_activation('mlp', activation)
    if activation is None:
        raise ValueError('mlp: activation must not be None: without one, the layers form one linear layer; use matmul')
    check_gradient('mlp', activation)
    for name, operand in dict(x=x, up=up, down=down).items():
        if not isinstance(operand, torch.Tensor) or operand.dim() < 2:
            is_tensor = isinstance(operand, torch.Tensor)
            received = f'has {operand.dim()} axes' if is_tensor else f'is a {type(operand).__name__}'
            expected = 'expected x (..., width), up (hidden, width) and down (width, hidden)'
            raise ValueError(f'mlp: {name} {received}; {expected}')
    if not isinstance(residual, bool):
        raise TypeError(f'mlp: residual must be True, which adds x, or False; got a {type(residual).__name__}')
    width, hidden, out_width = x.shape[-1], up.shape[0], down.shape[0]
    if residual and out_width != width:
        raise ValueError(f'mlp: x has rows of {width} elements and the result rows of {out_width}; pass residual=False')
    shapes = (('up', up, (hidden, width)), ('down', down, (out_width, hidden)))
    shapes += (('up_bias', up_bias, (hidden,)), ('down_bias', down_bias, (out_width,)))
    for name, operand, shape in shapes:
        if operand is not None:
            check_operand('mlp', name, operand, shape, x)


def unfused_reason(x, up, down, *biases):  # None if the kernels can
    "Return the reason why the kernels cannot compute `mlp` as GEMMs with fused epilogues"
    rows = flatten_rows(x)
    if reason := fallback_reason(rows, up.t()) or fallback_reason(up.t(), down.t()):
        return reason
    if not all(
        operand is None or operand.is_contiguous() and not operand.data_ptr() & 15 for operand in (x, up, down, *biases)
    ):
        return 'an operand is not contiguous, or begins at an address that is not a multiple of 16'
    if down.shape[0] % 8:
        return f'rows must be multiples of 16 bytes (8 elements); those of the result have {down.shape[0]} elements'
    operands = stored_operands(rows, up.t()), stored_operands(down, up)
    return next((reason for reason in operands if isinstance(reason, str)), None)


class _Mlp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, up, down, up_bias, down_bias, activation, residual):
        act_grad = x.new_empty(x.shape[0], up.shape[0])
        hidden = run_gemm(x, up, None, 'nt', bias=up_bias, activation=activation, act_grad=act_grad)
        ctx.save_for_backward(x, up, down, act_grad, hidden)
        ctx.residual = residual
        return run_gemm(hidden, down, None, 'nt', bias=down_bias, addend=x if residual else None)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        if dy.is_cuda:
            make_context_current_once()
        x, up, down, act_grad, hidden = ctx.saved_tensors
        needs_grad, residual = ctx.needs_input_grad, ctx.residual
        dy = dy.contiguous()
        dz, up_bias_sums = run_gemm(dy, down, multiplier=act_grad, column_sums=True)
        dx = run_gemm(dz, up, addend=dy if residual else None, column_sums=residual) if needs_grad[0] else None
        dx, down_bias_sums = dx if needs_grad[0] and residual else (dx, dy)
        grad_up = run_gemm(dz, x, None, 'tn') if needs_grad[1] else None
        grad_down = run_gemm(dy, hidden, None, 'tn') if needs_grad[2] else None
        partial_sums = zip((up_bias_sums, down_bias_sums), needs_grad[3:])
        grad_biases = (sums.sum(0).to(x.dtype) if is_needed else None for sums, is_needed in partial_sums)
        return dx, grad_up, grad_down, *grad_biases, None, None


def mlp(
    x,  # (..., width), with at least two axes
    up,  # (hidden, width), like the weight of a `torch.nn.Linear`
    down,  # (out_width, hidden)
    up_bias=None,  # (hidden,)
    down_bias=None,  # (out_width,)
    activation='gelu',  # as for `Epilogue`
    residual=False,  # add x to the result
):  # (..., out_width)
    """Compute activation(x @ up.T + up_bias) @ down.T + down_bias (+ x), differentiable once.

        mlp(x, up.weight, down.weight, up.bias, down.bias, residual=True)

    For 16-bit floats on a Hopper GPU the biases, the activation, its gradient and both additions of the residual are
    fused into the epilogues of the GEMMs; otherwise torch applies them after the GEMMs. Raises TypeError and
    ValueError for invalid operands."""
    _check_operands(x, up, down, up_bias, down_bias, activation, residual)
    if not torch.compiler.is_compiling() and not unfused_reason(x, up, down, up_bias, down_bias):
        y = _Mlp.apply(flatten_rows(x), up, down, up_bias, down_bias, activation, residual)
        return y.view(*x.shape[:-1], down.shape[0])
    hidden = multiply_with(x, up.t(), Epilogue(up_bias, activation))
    return multiply_with(hidden, down.t(), Epilogue(down_bias, residual=x if residual else None))
