"""The torch operators `gelu` and `bias_gelu` (with dropout), and their backward passes."""

import torch

from . import calls
from .calls import Dropout
from .sources import DTYPE_BYTES, accumulator_type
from ..operators import operator
from ..ladder.rung import current_device_properties
from ..launch_replay import (
    ARGUMENTS,
    differentiable_once,
    differentiate_eagerly,
    make_apply,
    needs_autograd,
    replay_entry_point,
    torch_call,
)
from ..common import check_matches, check_tensor, dtype_name, is_host_bound, launch, tensor_vector_width
from ..common import to_contiguous

_APPROXIMATIONS = {'none': False, 'tanh': True}  # value of `approximate` -> whether tanh is used


def _uses_tanh(op_name, approximate):
    "Return whether `approximate` requests the tanh approximation; raise `ValueError` for an invalid value"
    if approximate not in _APPROXIMATIONS:
        raise ValueError(f"{op_name}: approximate is {approximate!r}; expected 'none' or 'tanh'")
    return _APPROXIMATIONS[approximate]


# torch's kernel is as fast for float32, and faster if x is in the L2 cache, as benchmarks/every_shape.py measured. For
# fewer elements, launch overhead matters more, and ours is smaller than torch's.
_TORCH_MIN_FLOAT32_ELEMENTS = 2**20


def _torch_function(x, uses_tanh):
    "Return a function of such arguments that computes `gelu` with torch, with little overhead"
    options = dict(approximate='tanh') if uses_tanh else {}
    return torch_call(torch._C._nn.gelu, ARGUMENTS[0], **options)


def _torch_gelu(x, uses_tanh):
    return torch._C._nn.gelu(x, approximate='tanh' if uses_tanh else 'none')


@operator(
    'gelu(Tensor x, bool uses_tanh) -> Tensor',
    lambda x, uses_tanh: torch.empty_like(x),
    _torch_gelu,
    make_torch_function=_torch_function,
)
def _gelu(x, uses_tanh):
    check_tensor('gelu', x, DTYPE_BYTES)
    if x.is_cuda and x.dtype is torch.float32 and x.numel() >= _TORCH_MIN_FLOAT32_ELEMENTS:
        return NotImplemented
    y, num_elements = torch.empty_like(x), x.numel()
    if num_elements:
        launch(
            calls.gelu_launches(
                dtype_name(x),
                num_elements,
                tensor_vector_width(x, 1, num_elements),
                uses_tanh,
                current_device_properties(),
            ),
            x,
            y=y,
        )
    return y


@operator('gelu_backward(Tensor x, Tensor dy, bool uses_tanh) -> Tensor', lambda x, dy, uses_tanh: torch.empty_like(x))
def _gelu_backward(x, dy, uses_tanh):
    dy = dy.contiguous()
    dx, num_elements = torch.empty_like(x), x.numel()
    if num_elements:
        vec_size = min(tensor_vector_width(operand, 1, num_elements) for operand in (x, dy))
        launches = calls.gelu_backward_launches(
            dtype_name(x), num_elements, vec_size, uses_tanh, current_device_properties()
        )
        launch(launches, x, dy=dy, dx=dx)
    return dx


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, uses_tanh):
        ctx.save_for_backward(x)
        ctx.uses_tanh = uses_tanh
        return _gelu(x, uses_tanh)

    @staticmethod
    @differentiable_once
    def backward(ctx, dy):
        return _gelu_backward(*ctx.saved_tensors, dy, ctx.uses_tanh), None


_apply_gelu = make_apply(_Gelu)


# Up to this many bytes, torch is faster with gradients, except in CUDA graphs (see `common.is_host_bound`); with
# float32, our kernels gain nothing
_MAX_HOST_BOUND_BYTES = {2: 3 * 2**25, 4: 2**28, 8: 2**26}  # bytes per element -> limit


@replay_entry_point(_gelu.eager, 'x', ('approximate', _APPROXIMATIONS))
def gelu(
    x,  # a tensor of float32, float16, bfloat16 or float64; if it is not contiguous, it is copied first
    approximate='none',  # 'none': exact, with erf; 'tanh': the tanh approximation
):  # a tensor like `x`
    """Compute x * Phi(x) elementwise, where Phi is the normal distribution function, as `F.gelu` does; differentiable
    once. 16-bit types are computed in float32.

        gelu(x, approximate='tanh')

    torch computes float32 inputs of 2^20 or more elements. With a gradient, it also computes inputs of up to
    256 MiB (16-bit types: 96 MiB), except in CUDA graphs, because our Python code would take longer than the kernels.

    Raises TypeError for an unsupported dtype, ValueError for an `x` that is not contiguous or on the wrong device."""
    uses_tanh = _APPROXIMATIONS.get(approximate)
    if not torch.compiler.is_dynamo_compiling() and (y := _gelu.eager.fast(x, uses_tanh)) is not None:
        return y
    x, uses_tanh = to_contiguous(x), _uses_tanh('gelu', approximate)
    if not needs_autograd(x):
        return _gelu.eager(x, uses_tanh)
    if is_host_bound(x, DTYPE_BYTES, _MAX_HOST_BOUND_BYTES.get(x.element_size(), 0)):
        return differentiate_eagerly(_gelu.eager, _apply_gelu, _torch_function, x, uses_tanh)
    return _apply_gelu(x, uses_tanh)


# GELU of x + bias, with dropout
def _rows_and_width(x):
    "Return (number of rows, elements per row); a row is along the last axis"
    width = x.shape[-1]
    return (x.numel() // width if width else 0), width


@operator(
    'bias_gelu(Tensor x, Tensor bias, bool uses_tanh, float p, SymInt seed) -> Tensor',
    lambda x, bias, uses_tanh, p, seed: torch.empty_like(x),
    is_replayable=lambda x, bias, uses_tanh, p, seed: not p,  # each step has another seed
)
def _bias_gelu(x, bias, uses_tanh, p, seed):
    check_tensor('bias_gelu', x, DTYPE_BYTES)
    if not x.dim():
        raise ValueError('bias_gelu: x is a scalar; expected at least one axis, along which the bias is added')
    check_matches('bias_gelu', 'bias', bias, x, x.shape[-1:])
    y, (rows, width) = torch.empty_like(x), _rows_and_width(x)
    if x.numel():
        vec_size = min(tensor_vector_width(operand, 2, width) for operand in (x, bias))
        launches = calls.bias_gelu_launches(
            dtype_name(x), rows, width, vec_size, uses_tanh, Dropout(p, seed), current_device_properties()
        )
        launch(launches, x, bias=bias, y=y)
    return y


@operator(
    'bias_gelu_backward(Tensor x, Tensor bias, Tensor dy, bool uses_tanh, float p, SymInt seed) -> (Tensor, Tensor)',
    lambda x, bias, dy, uses_tanh, p, seed: (torch.empty_like(x), torch.empty_like(bias)),
    is_replayable=lambda x, bias, dy, uses_tanh, p, seed: not p,
)
def _bias_gelu_backward(x, bias, dy, uses_tanh, p, seed):
    dy = dy.contiguous()
    dx, dbias, (rows, width) = torch.empty_like(x), torch.empty_like(bias), _rows_and_width(x)
    if not x.numel():
        return dx, dbias.zero_()
    vec_size, dtype = min(tensor_vector_width(operand, 2, width) for operand in (x, bias, dy)), dtype_name(x)
    launches, partial_rows = calls.bias_gelu_backward_launches(
        dtype, rows, width, vec_size, uses_tanh, Dropout(p, seed), current_device_properties()
    )
    partials = torch.empty(partial_rows * width, dtype=getattr(torch, accumulator_type(dtype)), device=x.device)
    launch(launches, x, bias=bias, dy=dy, dx=dx, partials=partials, dbias=dbias)
    return dx, dbias


class _BiasGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias, uses_tanh, p, seed):
        ctx.save_for_backward(x, bias)
        ctx.options = uses_tanh, p, seed
        return _bias_gelu(x, bias, uses_tanh, p, seed)

    @staticmethod
    @differentiable_once
    def backward(ctx, dy):
        x, bias = ctx.saved_tensors
        return *_bias_gelu_backward(x, bias, dy, *ctx.options), None, None, None


_apply_bias_gelu = make_apply(_BiasGelu)


def bias_gelu(
    x,  # a tensor (..., width) of float32, float16, bfloat16 or float64; if it is not contiguous, it is copied first
    bias,  # (width,), of the same dtype
    approximate='none',  # as for `gelu`
    p=0.0,  # dropout probability; elements that are kept are scaled by 1 / (1 - p)
    seed=None,  # of the dropout mask, a 64-bit integer; required if p is not 0
):  # a tensor like `x`
    """Compute dropout(gelu(x + bias)) in a single kernel; differentiable once.

        bias_gelu(x, bias, p=0.1, seed=step)

    The backward pass computes the dropout mask again instead of loading it. Let u be word i % 4 of Philox 4x32-10 with
    the seed as key and the counter i // 4, shifted right by 8 and divided by 2^24; element i of x is kept if u >= p. A
    CUDA graph uses the seed of its capture in each replay. Raises TypeError or ValueError for unsupported operands."""
    if not 0 <= p <= 1:
        raise ValueError(f'bias_gelu: p is {p!r}; expected a number from 0 to 1')
    if p and seed is None:
        raise ValueError('bias_gelu: seed is None, but dropout (p > 0) needs one: pass a new seed per step')
    x, bias = to_contiguous(x), to_contiguous(bias)
    options = _uses_tanh('bias_gelu', approximate), float(p), seed or 0
    return _apply_bias_gelu(x, bias, *options) if needs_autograd(x, bias) else _bias_gelu.eager(x, bias, *options)
