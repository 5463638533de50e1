"""Linear layers with a 2:4 sparse weight: `TwoFourLinear`, and the operator that it calls, which `torch.compile` keeps
whole."""

from functools import lru_cache

import torch
import torch.nn.functional as F

from .formats import compress, prune, search_order, to_words
from .sources import HALVES
from .two_four import TwoFour, run_24, unpack_24
from ..operators import operator
from ..tool import type_of


@lru_cache
def _has_tensor_cores(device) -> bool:
    "Return whether a GPU multiplies 2:4 sparse matrices"
    return torch.cuda.get_device_capability(device)[0] >= 8


def has_kernel(x, values) -> bool:
    "Return whether there is a kernel for x on its device. Without a GPU plain torch is faster than the emulator"
    return x.is_cuda and x.dtype == values.dtype and type_of(x) in HALVES and _has_tensor_cores(x.get_device())


@operator(
    'two_four_linear(Tensor x, Tensor values, Tensor words, Tensor? bias) -> Tensor',
    lambda x, values, words, bias: x.new_empty(*x.shape[:-1], values.shape[0]),
)
def _linear(x, values, words, bias):
    p = TwoFour((values.shape[0], 2 * values.shape[1]), values, words)
    flat = x.reshape(-1, x.shape[-1])
    if has_kernel(x, values):
        y = run_24(flat.contiguous(), p, bias)
    else:
        y = F.linear(flat, unpack_24(p).to(x.dtype), bias)
    return y.view(*x.shape[:-1], values.shape[0])


def _keep(ctx, inputs, output):
    x, values, words, bias = inputs
    ctx.save_for_backward(values, words)
    ctx.shape, ctx.biased = (values.shape[0], x.shape[-1]), bias is not None


def _backward(ctx, dy):
    dx = dy @ unpack_24(TwoFour(ctx.shape, *ctx.saved_tensors)).to(dy.dtype) if ctx.needs_input_grad[0] else None
    dbias = dy.flatten(0, -2).sum(0) if ctx.biased and ctx.needs_input_grad[3] else None
    return dx, None, None, dbias


torch.library.register_autograd('gridstride::two_four_linear', _backward, setup_context=_keep)


class TwoFourLinear(torch.nn.Module):
    """A linear layer whose weight is 2:4 sparse; made of a `torch.nn.Linear` by `TwoFourLinear.of`.

    x has any shape (..., columns). 16-bit floats are multiplied by `multiply_24` on a GPU of compute capability 8.0 or
    more; for all else the weight is restored, and torch multiplies. There is a gradient for x and the bias, not for the
    weight. Where columns have another order than x, x is brought into it first."""

    def __init__(self, packed, bias=None, order=None):
        super().__init__()
        self.out_features, self.in_features = packed.shape
        self.register_buffer('values', packed.values)
        self.register_buffer('words', packed.words)
        self.register_buffer('order', order)  # of columns; None: as they were
        self.bias = bias

    @classmethod
    def of(cls, linear, rounds=0):
        "The layer of a `torch.nn.Linear`, with the two largest of each four; `rounds`: as of `search_order`"
        w, order = linear.weight.detach(), None
        if rounds:
            order = search_order(w, rounds)
            w = w[:, order]
        values, metadata = compress(prune(w))
        return cls(TwoFour(tuple(w.shape), values.contiguous(), to_words(metadata)), linear.bias, order)

    @property
    def packed(self) -> TwoFour:
        "The weight without its zeros, in its own order"
        return TwoFour((self.out_features, self.in_features), self.values, self.words)

    @property
    def weight(self):
        "The dense weight, (rows, columns): computed again each time"
        w = unpack_24(self.packed)
        return w if self.order is None else w.index_copy(1, self.order, w)

    def forward(self, x):
        "x @ weight.T (+ bias)"
        if x.shape[-1] != self.in_features:
            raise ValueError(f'x has the shape {tuple(x.shape)}, and the layer takes (..., {self.in_features})')
        x = x if self.order is None else x.index_select(-1, self.order)
        given = x, self.values, self.words, self.bias
        learns = x.requires_grad or self.bias is not None and self.bias.requires_grad
        if learns and torch.is_grad_enabled():
            return torch.ops.gridstride.two_four_linear(*given)
        return _linear(*given)

    def extra_repr(self):
        "For the module's repr"
        shape = f'in_features={self.in_features}, out_features={self.out_features}'
        return f'{shape}, bias={self.bias is not None}' + ', ordered=True' * (self.order is not None)
