"""`Epilogue`: what happens to a product before it is written, in the kernel that multiplies, with its derivative."""

from functools import lru_cache
from numbers import Real
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

from .launches import plan_for, run
from .sources import ACTIVATIONS, Activation, pass_source
from .dispatch import check_epilogue, matmul
from .plan import why_torch
from ..operators import untraced
from ..ladder.launches import Long
from ..ladder.rung import KernelLaunch
from ..tool import enter_thread, launch, type_of
from ...utils import cdiv


class Epilogue(NamedTuple):
    """The epilogue that `matmul(a, b, epilogue=...)` applies to a product p: activation(scale * p + bias) + residual,
    computed in float32 and rounded once; torch, if no kernel supports it, rounds after each step. Differentiable once,
    if the activation has a gradient."""

    bias: object = None  # a tensor (w,), added to each row
    activation: object = None  # 'gelu', 'gelu_tanh', 'relu', 'silu', or an `Activation` of your own
    residual: object = None  # a tensor like the result
    scale: float = 1.0
    accumulate: bool = False  # is the result added to what `out` holds, which may be float32? It has no gradient

    def product(self, a, b, out=None):
        "`matmul(a, b, out, epilogue=self)`"
        return multiply_with(a, b, self, out)


# By torch, if there is no kernel: the activation, and the gradient of its input
_BY_TORCH = dict(
    relu=(F.relu, lambda dy, z: torch.ops.aten.threshold_backward(dy, z, 0)),
    gelu=(F.gelu, torch.ops.aten.gelu_backward),
    gelu_tanh=(
        lambda x: F.gelu(x, approximate='tanh'),
        lambda dy, z: torch.ops.aten.gelu_backward(dy, z, approximate='tanh'),
    ),
    silu=(F.silu, torch.ops.aten.silu_backward),
)


@lru_cache(256)
def _pass_call(activation, dtype, size):
    "The launches that apply an `Activation` to `size` elements, or multiply by its gradient: two `KernelLaunch`s"
    src, grid = pass_source(dtype, activation), (cdiv(size, 256),)
    return [
        KernelLaunch(src, name, ('x', 'dy', 'y'), (Long(size),), grid, (256,))
        for name in ('activate', 'activation_backward')
    ]


def _pass(x, dy, activation):
    "An `Activation` of a tensor, or `dy` times its gradient there, by a kernel of its own"
    x, y = x.contiguous(), x.new_empty(x.shape)
    if x.numel():
        call = _pass_call(activation, type_of(x), x.numel())[dy is not None]
        launch([call], x, dy=x if dy is None else dy.contiguous(), y=y)
    return y


def _activated(z, activation):
    return _pass(z, None, activation) if isinstance(activation, Activation) else _BY_TORCH[activation][0](z)


def activation_backward(dy, z, activation):
    "The gradient of the input of an activation"
    return _pass(z, dy, activation) if isinstance(activation, Activation) else _BY_TORCH[activation][1](dy, z)


def check_activation(tool, activation):
    "Raise unless it is the name of one, an `Activation`, or None"
    own, known = isinstance(activation, Activation), isinstance(activation, str) and activation in ACTIVATIONS
    if activation is not None and not own and not known:
        names = ', '.join(ACTIVATIONS)
        raise ValueError(f'{tool}: the activation is {activation!r}; it must be {names}, or an Activation of CUDA C')
    if own and not (all(isinstance(o, str) for o in activation) and activation.value.strip()):
        raise ValueError(f"{tool}: {activation!r} is not CUDA C of `float x`, such as Activation('x > 0 ? x : 0')")


def need_gradient(tool, activation):
    "Raise for an `Activation` without a gradient"
    if isinstance(activation, Activation) and not activation.grad:
        raise ValueError(f"{tool}: the Activation has no gradient: Activation('x * x', grad='2 * x')")


def check_operand(tool, name, x, shape, like):
    "Raise unless `x` is a tensor of this shape, and of the type and on the device of `like`"
    needed = f'{type_of(like)}{tuple(shape)} on {like.device} is needed'
    if not isinstance(x, torch.Tensor):
        raise TypeError(f'{tool}: {name} is a {type(x).__name__}, and a tensor {needed}')
    if x.shape != shape or x.dtype != like.dtype or x.device != like.device:
        raise ValueError(f'{tool}: {name} is {type_of(x)}{tuple(x.shape)} on {x.device}, and {needed}')


def _check(a, b, e, out):
    "Raise for what does not fit"
    check_epilogue(e)
    check_activation('matmul', e.activation)
    if b.dim() != 2 or a.dim() < 2 or a.shape[-1] != b.shape[0]:
        raise ValueError(f'matmul: with an epilogue (..., k) @ (k, w) is needed: {tuple(a.shape)} @ {tuple(b.shape)}')
    if not isinstance(e.scale, Real):
        raise TypeError(f'matmul: scale is a {type(e.scale).__name__}, and a number is needed; it has no gradient')
    shape = *a.shape[:-1], b.shape[1]
    for name, x, want in (('bias', e.bias, shape[-1:]), ('residual', e.residual, shape)):
        if x is not None:
            check_operand('matmul', name, x, want, a)
    _check_out(a, shape, e, out)


def _check_out(a, shape, e, out):
    "Raise unless the result, of this shape, can be written there"
    if out is not None and (out.shape != shape or out.device != a.device):
        raise ValueError(f'matmul: out is {tuple(out.shape)} on {out.device}, and {shape} on {a.device} is needed')
    if out is not None and out.dtype not in (a.dtype, torch.float32):
        raise ValueError(f'matmul: out is {type_of(out)}, and {type_of(a)} or float32 is needed')
    if e.accumulate and out is None:
        raise ValueError('matmul: accumulate adds to what `out` holds; give it')


def rows_of(x):
    "All axes but the last one flattened, even if a size is 0"
    return x.flatten(0, -2)


def _plan(a, b, e, out):
    "(layout, m, n) for the kernel, or why torch multiplies and the rest is done afterwards"
    if why := why_torch(a, b):
        return why
    if out is not None and (not out.is_contiguous() or out.data_ptr() & 15):
        return 'the kernel does not write the memory layout of out'
    if e.accumulate and type_of(out) != 'float32':
        return 'the kernel adds to float32 only'
    if any(x is not None and (not x.is_contiguous() or x.data_ptr() & 15) for x in (e.bias, e.residual)):
        return 'the kernel does not read the memory layout of the bias or the residual'
    return plan_for(rows_of(a), b)


def explain_with(
    a,  # this and what follows, as for `matmul`
    b,
    epilogue,
    out=None,
) -> str:
    "Explain what computes `matmul(a, b, out, epilogue)`, and why"
    _check(a, b, epilogue, out)
    found = _plan(a, b, epilogue, out)
    return f'torch.matmul, then the epilogue: {found}' if isinstance(found, str) else 'one kernel, with its epilogue'


def _afterwards(a, b, e, out):
    "The product, and then the rest: (the result, what the activation was given)"
    z = matmul(a, b)
    z = z if e.scale == 1 else z * e.scale
    z = z if e.bias is None else z + e.bias
    y = z if e.activation is None else _activated(z, e.activation)
    y = y if e.residual is None else y + e.residual
    if out is None:
        return y, z
    return (out.add_(y) if e.accumulate else out.copy_(y)), z


def _forward(a, b, e, out=None, keeps=False):
    "(the result, and the input of the activation if it is saved)"
    found = _plan(a, b, e, out)
    if isinstance(found, str):
        return _afterwards(a, b, e, out)
    layout, m, n = found
    shape = *a.shape[:-1], b.shape[1]
    y = a.new_empty(shape) if out is None else out
    z = a.new_empty(shape) if keeps and e.activation else None
    flat = [None if o is None else o.view(-1, shape[-1]) for o in (y, e.residual, z)]
    run(
        m,
        n,
        flat[0],
        layout,
        bias=e.bias,
        activation=e.activation,
        plus=flat[1],
        saved=flat[2],
        onto=e.accumulate,
        scale=e.scale,
    )
    return y, z


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, bias, residual, activation, scale):
        need_gradient('matmul', activation)
        y, z = _forward(a, b, Epilogue(bias, activation, residual, scale), keeps=True)
        ctx.save_for_backward(a, b, z if activation else None)
        ctx.activation, ctx.scale = activation, scale
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        if dy.is_cuda:
            enter_thread()
        a, b, z = ctx.saved_tensors
        needs, e = ctx.needs_input_grad, Epilogue(scale=ctx.scale)
        dz = dy if z is None else activation_backward(dy, z, ctx.activation)
        da = _forward(dz, b.t(), e)[0] if needs[0] else None
        db = None
        if needs[1] and b.is_contiguous():
            db = _forward(rows_of(a).t(), rows_of(dz).contiguous(), e)[0]
        elif needs[1]:  # in the layout of b, so that no transpose is needed
            db = _forward(rows_of(dz).t(), rows_of(a), e)[0].t()
        return da, db, rows_of(dz).sum(0) if needs[2] else None, dy if needs[3] else None, None, None


def multiply_with(a, b, epilogue, out=None):
    "`matmul` with an epilogue"
    _check(a, b, epilogue, out)
    if torch.compiler.is_compiling():
        own = isinstance(epilogue.activation, Activation)
        return _untraced(a, b, epilogue, out) if own else _afterwards(a, b, epilogue, out)[0]
    needs = torch.is_grad_enabled() and any(
        o is not None and o.requires_grad for o in (a, b, epilogue.bias, epilogue.residual)
    )
    if needs and out is not None:
        raise ValueError('matmul: `out` has no gradient; leave it out, or use torch.no_grad()')
    if needs:
        return _Product.apply(a, b, *epilogue[:1], epilogue.residual, epilogue.activation, epilogue.scale)
    return _forward(a, b, epilogue, out)[0]


_untraced = untraced(multiply_with)  # an activation in CUDA C is not an operator of torch.compile
