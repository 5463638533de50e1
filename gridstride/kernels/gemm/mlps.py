"""`mlp`: the two layers of a transformer's block, whose six products have all else in their epilogues."""

import torch
from torch.autograd.function import once_differentiable

from .epilogues import Epilogue, check_activation, check_operand, multiply_with, need_gradient, rows_of
from .launches import plan_for, run
from .plan import why_torch
from ..tool import enter_thread


def _check(x, up, down, up_bias, down_bias, activation, residual):
    "Raise for what does not fit"
    check_activation('mlp', activation)
    if activation is None:
        raise ValueError('mlp: without an activation its two layers are one; use matmul')
    need_gradient('mlp', activation)
    for name, o in dict(x=x, up=up, down=down).items():
        if not isinstance(o, torch.Tensor) or o.dim() < 2:
            has = f'has {o.dim()} axes' if isinstance(o, torch.Tensor) else f'is a {type(o).__name__}'
            needed = 'x (..., width), up (hidden, width) and down (width, hidden) are needed'
            raise ValueError(f'mlp: {name} {has}; {needed}')
    if not isinstance(residual, bool):
        raise TypeError(f'mlp: residual is a {type(residual).__name__}; True adds x')
    width, hidden, wide = x.shape[-1], up.shape[0], down.shape[0]
    if residual and wide != width:
        raise ValueError(f'mlp: x has {width} elements per row and the result {wide}, so x cannot be added to it')
    needed = (('up', up, (hidden, width)), ('down', down, (wide, hidden)))
    needed += (('up_bias', up_bias, (hidden,)), ('down_bias', down_bias, (wide,)))
    for name, o, shape in needed:
        if o is not None:
            check_operand('mlp', name, o, shape, x)


def why_not_mlp(x, up, down, *biases):  # None if they do
    "The reason why kernels cannot compute the products of `mlp`, in a few words"
    rows = rows_of(x)
    if why := why_torch(rows, up.t()) or why_torch(up.t(), down.t()):
        return why
    if not all(o is None or o.is_contiguous() and not o.data_ptr() & 15 for o in (x, up, down, *biases)):
        return 'an operand is not contiguous, or begins at an address that is not a multiple of 16'
    if down.shape[0] % 8:
        return f'rows must have whole 16 bytes, and those of the result have {down.shape[0]} elements'
    return next((o for o in (plan_for(rows, up.t()), plan_for(down, up)) if isinstance(o, str)), None)


class _Mlp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, up, down, up_bias, down_bias, activation, residual):
        act_grad = x.new_empty(x.shape[0], up.shape[0])
        a = run(x, up, None, 'nt', bias=up_bias, activation=activation, act_grad=act_grad)
        ctx.save_for_backward(x, up, down, act_grad, a)
        ctx.residual = residual
        return run(a, down, None, 'nt', bias=down_bias, plus=x if residual else None)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        if dy.is_cuda:
            enter_thread()
        x, up, down, act_grad, a = ctx.saved_tensors
        needs, dy = ctx.needs_input_grad, dy.contiguous()
        (dz, up_sums), residual = run(dy, down, times=act_grad, summed=True), ctx.residual
        dx = run(dz, up, plus=dy if residual else None, summed=residual) if needs[0] else None
        dx, down_sums = dx if needs[0] and residual else (dx, dy)
        dup = run(dz, x, None, 'tn') if needs[1] else None
        ddown = run(dy, a, None, 'tn') if needs[2] else None
        biases = (sums.sum(0).to(x.dtype) if need else None for sums, need in zip((up_sums, down_sums), needs[3:]))
        return dx, dup, ddown, *biases, None, None


def mlp(
    x,  # (..., width), of two axes at least
    up,  # (hidden, width), as a `torch.nn.Linear` has its weight
    down,  # (width, hidden)
    up_bias=None,  # (hidden,)
    down_bias=None,  # (width,)
    activation='gelu',  # as for `Epilogue`
    residual=False,  # is x added to the result?
):  # like x
    """Compute activation(x @ up.T + up_bias) @ down.T + down_bias (+ x), differentiable once.

        mlp(x, up.weight, down.weight, up.bias, down.bias, residual=True)

    For 16-bit floats on a Hopper GPU biases, activation, its gradient and both additions of the residual are in the
    epilogues of the products; elsewhere torch applies them after its products. Raises ValueError for operands that do
    not fit."""
    _check(x, up, down, up_bias, down_bias, activation, residual)
    if not torch.compiler.is_compiling() and not why_not_mlp(x, up, down, up_bias, down_bias):
        y = _Mlp.apply(rows_of(x), up, down, up_bias, down_bias, activation, residual)
        return y.view(*x.shape[:-1], down.shape[0])
    a = multiply_with(x, up.t(), Epilogue(up_bias, activation))
    return multiply_with(a, down.t(), Epilogue(down_bias, residual=x if residual else None))
