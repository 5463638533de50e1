"""`TwoFourLinear`, a linear layer with a 2:4 sparse weight, and the torch operator that it calls."""

from functools import lru_cache

import torch
import torch.nn.functional as F

from .formats import compress, prune, search_order, to_words
from .sources import F16_TYPES
from .two_four import TwoFourMatrix, run_24, unpack_24
from ..operators import operator
from ..common import dtype_name


@lru_cache
def _has_tensor_cores(device) -> bool:
    "Return whether the tensor cores of a GPU support 2:4 sparsity"
    return torch.cuda.get_device_capability(device)[0] >= 8


def has_kernel(x, values) -> bool:
    "Return whether a kernel supports x on its device. On the CPU, torch is used: it is faster than the emulator"
    return x.is_cuda and x.dtype == values.dtype and dtype_name(x) in F16_TYPES and _has_tensor_cores(x.get_device())


@operator(
    'two_four_linear(Tensor x, Tensor values, Tensor words, Tensor? bias) -> Tensor',
    lambda x, values, words, bias: x.new_empty(*x.shape[:-1], values.shape[0]),
)
def _linear(x, values, words, bias):
    packed = TwoFourMatrix((values.shape[0], 2 * values.shape[1]), values, words)
    x_rows = x.reshape(-1, x.shape[-1])
    if has_kernel(x, values):
        y = run_24(x_rows.contiguous(), packed, bias)
    else:
        y = F.linear(x_rows, unpack_24(packed).to(x.dtype), bias)
    return y.view(*x.shape[:-1], values.shape[0])


def _setup_context(ctx, inputs, output):
    "Save the arguments that the backward pass needs"
    x, values, words, bias = inputs
    ctx.save_for_backward(values, words)
    ctx.shape, ctx.has_bias = (values.shape[0], x.shape[-1]), bias is not None


def _backward(ctx, dy):
    "Compute the gradients of x and of the bias; the weight has none"
    dx = dy @ unpack_24(TwoFourMatrix(ctx.shape, *ctx.saved_tensors)).to(dy.dtype) if ctx.needs_input_grad[0] else None
    dbias = dy.flatten(0, -2).sum(0) if ctx.has_bias and ctx.needs_input_grad[3] else None
    return dx, None, None, dbias


torch.library.register_autograd('gridstride::two_four_linear', _backward, setup_context=_setup_context)


class TwoFourLinear(torch.nn.Module):
    """A linear layer whose weight is 2:4 sparse; `TwoFourLinear.from_linear` converts a `torch.nn.Linear`.

    x has any shape (..., columns). On a GPU of compute capability 8.0 or more, the kernels of `multiply_24` multiply
    16-bit floats. In all other cases torch multiplies by the dense weight. x and the bias have gradients, the weight
    has none. If the columns of the weight are permuted, the layer permutes those of x in the same way."""

    def __init__(self, packed, bias=None, order=None):
        super().__init__()
        self.out_features, self.in_features = packed.shape
        self.register_buffer('values', packed.values)
        self.register_buffer('words', packed.words)
        self.register_buffer('order', order)  # permutation of the columns; None: not permuted
        self.bias = bias

    @classmethod
    def from_linear(cls, linear, iterations=0):
        "Prune a `torch.nn.Linear`; with `iterations`, search for an order of the columns first, as `search_order` does"
        w, order = linear.weight.detach(), None
        if iterations:
            order = search_order(w, iterations)
            w = w[:, order]
        values, metadata = compress(prune(w))
        return cls(TwoFourMatrix(tuple(w.shape), values.contiguous(), to_words(metadata)), linear.bias, order)

    @property
    def packed(self) -> TwoFourMatrix:
        "The packed weight, with permuted columns"
        return TwoFourMatrix((self.out_features, self.in_features), self.values, self.words)

    @property
    def weight(self):
        "The dense weight, (rows, columns), in the original column order; computed on each access"
        w = unpack_24(self.packed)
        return w if self.order is None else w.index_copy(1, self.order, w)

    def forward(self, x):
        "Compute x @ weight.T (+ bias)"
        if x.shape[-1] != self.in_features:
            raise ValueError(f'x has shape {tuple(x.shape)}; expected (..., {self.in_features})')
        x = x if self.order is None else x.index_select(-1, self.order)
        operands = x, self.values, self.words, self.bias
        needs_grad = x.requires_grad or self.bias is not None and self.bias.requires_grad
        if needs_grad and torch.is_grad_enabled():
            return torch.ops.gridstride.two_four_linear(*operands)
        return _linear(*operands)

    def extra_repr(self):
        "Return the string that the module's repr shows in parentheses"
        shape = f'in_features={self.in_features}, out_features={self.out_features}'
        return f'{shape}, bias={self.bias is not None}' + ', ordered=True' * (self.order is not None)
