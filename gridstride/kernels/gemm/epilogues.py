"""`Epilogue`: operations that the GEMM kernel applies to a product before it stores the result; and their gradients."""

from functools import lru_cache
from numbers import Real
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

from .launches import stored_operands, run_gemm
from .sources import ACTIVATIONS, Activation, activation_pass_source
from .dispatch import check_epilogue, matmul
from .plan import fallback_reason
from ..operators import untraced
from ..ladder.launches import Int64
from ..ladder.rung import KernelLaunch
from ..common import make_context_current_once, launch, dtype_name
from ...utils import cdiv


class Epilogue(NamedTuple):
    """The operations of `matmul(a, b, epilogue=...)` on the product p: activation(scale * p + bias) + residual.

        matmul(a, b, epilogue=Epilogue(bias, 'gelu'))

    A kernel computes them in float32 and rounds once; if no kernel supports the operands, torch computes them and
    rounds after each step. Differentiable once, if the activation has a gradient."""

    bias: object = None  # a tensor (N,), added to each row
    activation: object = None  # 'gelu', 'gelu_tanh', 'relu', 'silu', or a custom `Activation`
    residual: object = None  # a tensor like the result, added to it
    scale: float = 1.0  # factor of the product
    accumulate: bool = False  # add the result to the contents of `out`, which may be float32; it has no gradient

    def multiply(self, a, b, out=None):
        "Compute `matmul(a, b, out, epilogue=self)`"
        return multiply_with(a, b, self, out)


# torch's functions, used if no kernel supports the operands: name -> (activation, gradient of its input)
_TORCH_ACTIVATIONS = dict(
    relu=(F.relu, lambda dy, z: torch.ops.aten.threshold_backward(dy, z, 0)),
    gelu=(F.gelu, torch.ops.aten.gelu_backward),
    gelu_tanh=(
        lambda x: F.gelu(x, approximate='tanh'),
        lambda dy, z: torch.ops.aten.gelu_backward(dy, z, approximate='tanh'),
    ),
    silu=(F.silu, torch.ops.aten.silu_backward),
)


@lru_cache(256)
def _activation_launches(activation, dtype, num_elements):
    "Return two launches: the first applies an `Activation` to an array, the second multiplies by its gradient"
    src = activation_pass_source(dtype, activation)
    grid = (cdiv(num_elements, 256),)
    return [
        KernelLaunch(src, name, ('x', 'dy', 'y'), (Int64(num_elements),), grid, (256,))
        for name in ('activate', 'activation_backward')
    ]


def _launch_activation(x, dy, activation):
    "Apply an `Activation` to a tensor with a separate kernel, or multiply `dy` by its gradient at `x`"
    x = x.contiguous()
    y = x.new_empty(x.shape)
    if x.numel():
        kernel_launch = _activation_launches(activation, dtype_name(x), x.numel())[dy is not None]
        launch([kernel_launch], x, dy=x if dy is None else dy.contiguous(), y=y)
    return y


def _apply_activation(z, activation):
    "Apply an activation, by name or an `Activation`, to a tensor"
    if isinstance(activation, Activation):
        return _launch_activation(z, None, activation)
    return _TORCH_ACTIVATIONS[activation][0](z)


def activation_backward(dy, z, activation):
    "Return the gradient of the input `z` of an activation from `dy`, the gradient of its output"
    if isinstance(activation, Activation):
        return _launch_activation(z, dy, activation)
    return _TORCH_ACTIVATIONS[activation][1](dy, z)


def check_activation(op_name, activation):
    "Raise `ValueError` unless `activation` is a name of `ACTIVATIONS`, an `Activation`, or None"
    is_custom = isinstance(activation, Activation)
    is_named = isinstance(activation, str) and activation in ACTIVATIONS
    if activation is not None and not is_custom and not is_named:
        names = ', '.join(ACTIVATIONS)
        raise ValueError(f'{op_name}: activation must be {names}, or an Activation of CUDA C; got {activation!r}')
    if is_custom and not (all(isinstance(field, str) for field in activation) and activation.value.strip()):
        raise ValueError(
            f"{op_name}: an Activation must be a CUDA C expression in `float x`, such as Activation('x > 0 ? x : 0'); "
            f'got {activation!r}'
        )


def check_gradient(op_name, activation):
    "Raise `ValueError` for an `Activation` without a gradient"
    if isinstance(activation, Activation) and not activation.grad:
        raise ValueError(
            f"{op_name}: the Activation has no gradient; pass its derivative, as in Activation('x * x', grad='2 * x')"
        )


def check_operand(op_name, name, x, shape, like):
    "Raise `TypeError` or `ValueError` unless `x` is a tensor of this shape, with the dtype and device of `like`"
    expected = f'{dtype_name(like)}{tuple(shape)} on {like.device}'
    if not isinstance(x, torch.Tensor):
        raise TypeError(f'{op_name}: {name} must be a tensor {expected}; got a {type(x).__name__}')
    if x.shape != shape or x.dtype != like.dtype or x.device != like.device:
        raise ValueError(f'{op_name}: {name} must be {expected}; got {dtype_name(x)}{tuple(x.shape)} on {x.device}')


def _check_operands(a, b, epilogue, out):
    "Raise `TypeError` or `ValueError` for an invalid epilogue or operands"
    check_epilogue(epilogue)
    check_activation('matmul', epilogue.activation)
    if b.dim() != 2 or a.dim() < 2 or a.shape[-1] != b.shape[0]:
        shapes = f'{tuple(a.shape)} @ {tuple(b.shape)}'
        raise ValueError(f'matmul: the operands must be (..., K) @ (K, N) with an epilogue; got {shapes}')
    if not isinstance(epilogue.scale, Real):
        raise TypeError(f'matmul: scale must be a number, without a gradient; got a {type(epilogue.scale).__name__}')
    shape = *a.shape[:-1], b.shape[1]
    for name, x, expected in (('bias', epilogue.bias, shape[-1:]), ('residual', epilogue.residual, shape)):
        if x is not None:
            check_operand('matmul', name, x, expected, a)
    _check_out(a, shape, epilogue, out)


def _check_out(a, shape, epilogue, out):
    "Raise `ValueError` unless a result of this shape can be stored in `out`"
    if out is not None and (out.shape != shape or out.device != a.device):
        raise ValueError(f'matmul: out must be {shape} on {a.device}; got {tuple(out.shape)} on {out.device}')
    if out is not None and out.dtype not in (a.dtype, torch.float32):
        raise ValueError(f'matmul: out must be {dtype_name(a)} or float32; got {dtype_name(out)}')
    if epilogue.accumulate and out is None:
        raise ValueError('matmul: accumulate=True adds to the contents of `out`: pass out=...')


def flatten_rows(x):
    "Return `x` as a matrix: all axes except the last one are flattened, even if a size is 0"
    return x.flatten(0, -2)


def _kernel_operands(a, b, epilogue, out):
    "Return (layout, stored_a, stored_b) for the kernel, or the reason why torch computes the matmul and the epilogue"
    if reason := fallback_reason(a, b):
        return reason
    if out is not None and (not out.is_contiguous() or out.data_ptr() & 15):
        return 'the kernel does not support the memory layout of out'
    if epilogue.accumulate and dtype_name(out) != 'float32':
        return 'the kernel adds to float32 only'
    if any(x is not None and (not x.is_contiguous() or x.data_ptr() & 15) for x in (epilogue.bias, epilogue.residual)):
        return 'the kernel does not support the memory layout of the bias or the residual'
    return stored_operands(flatten_rows(a), b)


def explain_with(
    a,  # the arguments are those of `matmul`
    b,
    epilogue,
    out=None,
) -> str:
    """Report whether one kernel or torch computes `matmul(a, b, out, epilogue)`, with the reason.

        explain_with(a, b, Epilogue(bias))

    Raises TypeError and ValueError as `matmul` does."""
    _check_operands(a, b, epilogue, out)
    operands = _kernel_operands(a, b, epilogue, out)
    if isinstance(operands, str):
        return f'torch.matmul, then the epilogue: {operands}'
    return 'one kernel, with its epilogue'


def _multiply_unfused(a, b, epilogue, out):
    "Multiply, then apply the epilogue step by step with torch; returns (result, input of the activation)"
    z = matmul(a, b)
    z = z if epilogue.scale == 1 else z * epilogue.scale
    z = z if epilogue.bias is None else z + epilogue.bias
    y = z if epilogue.activation is None else _apply_activation(z, epilogue.activation)
    y = y if epilogue.residual is None else y + epilogue.residual
    if out is None:
        return y, z
    return (out.add_(y) if epilogue.accumulate else out.copy_(y)), z


def _forward(a, b, epilogue, out=None, save_input=False):
    "Return (result, input of the activation); the kernel stores the latter only if `save_input`, else it is None"
    operands = _kernel_operands(a, b, epilogue, out)
    if isinstance(operands, str):
        return _multiply_unfused(a, b, epilogue, out)
    layout, stored_a, stored_b = operands
    shape = *a.shape[:-1], b.shape[1]
    y = a.new_empty(shape) if out is None else out
    z = a.new_empty(shape) if save_input and epilogue.activation else None
    out_rows, residual_rows, z_rows = (None if x is None else x.view(-1, shape[-1]) for x in (y, epilogue.residual, z))
    run_gemm(
        stored_a,
        stored_b,
        out_rows,
        layout,
        bias=epilogue.bias,
        activation=epilogue.activation,
        addend=residual_rows,
        activation_input=z_rows,
        accumulate=epilogue.accumulate,
        scale=epilogue.scale,
    )
    return y, z


class _EpilogueMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, bias, residual, activation, scale):
        check_gradient('matmul', activation)
        y, z = _forward(a, b, Epilogue(bias, activation, residual, scale), save_input=True)
        ctx.save_for_backward(a, b, z if activation else None)
        ctx.activation, ctx.scale = activation, scale
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        if dy.is_cuda:
            make_context_current_once()
        a, b, z = ctx.saved_tensors
        needs_grad = ctx.needs_input_grad
        scale_only = Epilogue(scale=ctx.scale)
        dz = dy if z is None else activation_backward(dy, z, ctx.activation)
        da = _forward(dz, b.t(), scale_only)[0] if needs_grad[0] else None
        db = None
        if needs_grad[1] and b.is_contiguous():
            db = _forward(flatten_rows(a).t(), flatten_rows(dz).contiguous(), scale_only)[0]
        elif needs_grad[1]:  # computed as the transpose, in the layout of b
            db = _forward(flatten_rows(dz).t(), flatten_rows(a), scale_only)[0].t()
        return da, db, flatten_rows(dz).sum(0) if needs_grad[2] else None, dy if needs_grad[3] else None, None, None


def multiply_with(a, b, epilogue, out=None):
    "Compute `matmul` with an epilogue"
    _check_operands(a, b, epilogue, out)
    if torch.compiler.is_compiling():
        is_custom = isinstance(epilogue.activation, Activation)
        return _multiply_untraced(a, b, epilogue, out) if is_custom else _multiply_unfused(a, b, epilogue, out)[0]
    needs_grad = torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in (a, b, epilogue.bias, epilogue.residual)
    )
    if needs_grad and out is not None:
        raise ValueError('matmul: a result in `out` has no gradient; omit out=, or use torch.no_grad()')
    if needs_grad:
        return _EpilogueMatmul.apply(a, b, epilogue.bias, epilogue.residual, epilogue.activation, epilogue.scale)
    return _forward(a, b, epilogue, out)[0]


_multiply_untraced = untraced(multiply_with)  # torch.compile cannot trace an activation in CUDA C
