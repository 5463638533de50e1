"""Linear layers in few bits: `QuantLinear`, and the operator that it calls, which `torch.compile` keeps whole."""

from functools import lru_cache

import torch
import torch.nn.functional as F

from .calls import MAX_ROWS
from .packed import Packed, pack, run_matvec, unpack
from .sources import FLOATS
from ..operators import operator
from ..tool import type_of

_ROW = 0  # of `group` in the operator, where 'row' is not possible


@lru_cache
def _has_tensor_cores(device) -> bool:
    "Return whether a GPU multiplies bfloat16 by `mma.sync`"
    return torch.cuda.get_device_capability(device)[0] >= 8


def has_kernel(x, scales) -> bool:
    "Return whether there is a kernel for x on its device. Without a GPU plain torch is faster than the emulator"
    return x.is_cuda and x.dtype == scales.dtype and _has_tensor_cores(x.get_device())


@operator(
    'quant_linear(Tensor x, Tensor words, Tensor scales, Tensor? zeros, Tensor? bias, str kind, SymInt group, '
    'SymInt rows) -> Tensor',
    lambda x, words, scales, zeros, bias, kind, group, rows: x.new_empty(*x.shape[:-1], rows),
)
def _linear(x, words, scales, zeros, bias, kind, group, rows):
    p = Packed(kind, group or 'row', (rows, x.shape[-1]), words, scales, zeros)
    flat = x.reshape(-1, x.shape[-1])
    if has_kernel(x, scales) and flat.shape[0] <= MAX_ROWS:
        y = run_matvec(flat.contiguous(), p, bias)
    else:
        y = F.linear(flat, unpack(p).to(x.dtype), bias)
    return y.view(*x.shape[:-1], rows)


def _keep(ctx, inputs, output):
    x, words, scales, zeros, bias, kind, group, rows = inputs
    ctx.save_for_backward(words, scales, zeros)
    ctx.how = kind, group or 'row', (rows, x.shape[-1])
    ctx.biased = bias is not None


def _backward(ctx, dy):
    dx = dy @ unpack(Packed(*ctx.how, *ctx.saved_tensors)).to(dy.dtype) if ctx.needs_input_grad[0] else None
    dbias = dy.flatten(0, -2).sum(0) if ctx.biased and ctx.needs_input_grad[4] else None
    return dx, None, None, None, dbias, None, None, None


torch.library.register_autograd('gridstride::quant_linear', _backward, setup_context=_keep)


class QuantLinear(torch.nn.Module):
    """A linear layer whose weight is in few bits; made of a `torch.nn.Linear` by `QuantLinear.of`.

    x has any shape (..., columns). Up to 64 rows of the type of the scales are multiplied by the kernel `matvec.cuh`,
    on a GPU of compute capability 8.0 or more; for all else the weight is restored, and torch multiplies. There is a
    gradient for x and the bias, not for the weight."""

    def __init__(self, packed, bias=None, dtype=None):
        super().__init__()
        self.dtype = dtype or packed.scales.dtype  # of the weight
        self.kind, self.group, (self.out_features, self.in_features) = packed[:3]
        self.register_buffer('words', packed.words)
        self.register_buffer('scales', packed.scales)
        self.register_buffer('zeros', packed.zeros)
        self.bias = bias

    @classmethod
    def of(cls, linear, kind, group=None, zeros=False, fit='absmax'):
        "The layer of a `torch.nn.Linear`; what follows it is as for `pack`"
        return cls(pack(linear.weight, kind, group, zeros, fit), linear.bias, linear.weight.dtype)

    @property
    def packed(self) -> Packed:
        "The weight in few bits"
        return Packed(self.kind, self.group, (self.out_features, self.in_features), self.words, self.scales, self.zeros)

    @property
    def weight(self):
        "The dequantized weight, (rows, columns), of the type that it had: computed again each time"
        return unpack(self.packed).to(self.dtype)

    def forward(self, x):
        "x @ weight.T (+ bias)"
        if x.shape[-1] != self.in_features:
            raise ValueError(f'x has the shape {tuple(x.shape)}, and the layer takes (..., {self.in_features})')
        group = _ROW if self.group == 'row' else self.group
        given = x, self.words, self.scales, self.zeros, self.bias, self.kind, group, self.out_features
        learns = x.requires_grad or self.bias is not None and self.bias.requires_grad
        if learns and torch.is_grad_enabled():
            return torch.ops.gridstride.quant_linear(*given)
        return _linear(*given)

    def extra_repr(self):
        "For the module's repr"
        shape = f'in_features={self.in_features}, out_features={self.out_features}'
        zeros = ', zeros=True' * (self.zeros is not None)
        return f'{shape}, bias={self.bias is not None}, kind={self.kind!r}, group={self.group!r}{zeros}'

    def get_extra_state(self):
        "For `state_dict`: what the bytes mean"
        return dict(kind=self.kind, group=self.group)

    def set_extra_state(self, state):
        "Refuse the bytes of another kind, which would fit"
        mine = self.get_extra_state()
        if state != mine:
            raise ValueError(f'the state is of a layer with {state}, and this one has {mine}')

    def _apply(self, fn, recurse=True):
        "A module's elements may change their type, the scales keep 16 bits"
        kept = self.scales, self.zeros
        super()._apply(fn, recurse)
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype
        if type_of(self.scales) not in FLOATS:
            self.scales, self.zeros = (o if o is None else o.to(self.scales.device) for o in kept)
        return self
