"""`QuantLinear`, a linear layer with a quantized weight, and the torch operator that it calls."""

from functools import lru_cache

import torch
import torch.nn.functional as F

from .mixed import multiply, run_unpack
from .block_formats import BLOCK_FORMATS
from .packed import ARRAYS, PackedMatrix, accepts, pack, unpack
from .sources import FLOATS
from ..operators import operator
from ..common import dtype_name

_ROW_GROUP = 0  # group 'row' as an argument of the operator, which is an integer


@lru_cache
def _has_tensor_cores(device) -> bool:
    "Return whether a GPU supports `mma.sync` of bfloat16"
    return torch.cuda.get_device_capability(device)[0] >= 8


def has_kernel(x, scales) -> bool:
    "Return whether a kernel supports x on its device. On the CPU, torch is used: it is faster than the emulator"
    return x.is_cuda and accepts(x, scales) and _has_tensor_cores(x.get_device())


@operator(
    'quant_linear(Tensor x, Tensor words, Tensor scales, Tensor? zeros, Tensor? bias, str kind, SymInt group, '
    'SymInt rows, Tensor? matrix_scale=None) -> Tensor',
    lambda x, words, scales, zeros, bias, kind, group, rows, matrix_scale=None: x.new_empty(*x.shape[:-1], rows),
)
def _linear(x, words, scales, zeros, bias, kind, group, rows, matrix_scale=None):
    packed = PackedMatrix(kind, group or 'row', (rows, x.shape[-1]), words, scales, zeros, matrix_scale)
    x_rows = x.reshape(-1, x.shape[-1])
    if has_kernel(x, scales):
        y = multiply(x_rows, packed, bias)
    else:
        y = F.linear(x_rows, unpack(packed).to(x.dtype), bias)
    return y.view(*x.shape[:-1], rows)


def _setup_context(ctx, inputs, output):
    "Save the arguments that the backward pass needs"
    x, words, scales, zeros, bias, kind, group, rows, matrix_scale = inputs
    ctx.save_for_backward(words, scales, zeros, matrix_scale)
    ctx.format = kind, group or 'row', (rows, x.shape[-1])
    ctx.has_bias = bias is not None


def _backward(ctx, dy):
    "Compute the gradients of x and of the bias; the weight has none"
    dx = None
    if ctx.needs_input_grad[0]:
        packed = PackedMatrix(*ctx.format, *ctx.saved_tensors)
        dx = dy @ (run_unpack(packed, dy.dtype) if has_kernel(dy, packed.scales) else unpack(packed).to(dy.dtype))
    dbias = dy.flatten(0, -2).sum(0) if ctx.has_bias and ctx.needs_input_grad[4] else None
    return dx, None, None, None, dbias, None, None, None, None


torch.library.register_autograd('gridstride::quant_linear', _backward, setup_context=_setup_context)


class QuantLinear(torch.nn.Module):
    """A linear layer with a quantized weight; `QuantLinear.from_linear` converts a `torch.nn.Linear`.

    x has any shape (..., columns). On a GPU of compute capability 8.0 or more, and if x has the dtype of the scales (or
    any 16-bit dtype if the scales are bytes), `mixed.choose_method` selects a matvec, a mixed-input GEMM, or
    dequantization followed by a GEMM of torch. In all other cases torch dequantizes the weight and multiplies. x and
    the bias have gradients, the weight has none."""

    def __init__(self, packed, bias=None, dtype=None):
        super().__init__()
        scale_dtype = torch.bfloat16 if packed.kind in BLOCK_FORMATS else packed.scales.dtype
        self.dtype = dtype or scale_dtype  # the dtype of `weight`
        self.kind, self.group, (self.out_features, self.in_features) = packed[:3]
        for name in ARRAYS:
            self.register_buffer(name, getattr(packed, name))
        self.bias = bias

    @classmethod
    def from_linear(cls, linear, kind, group=None, zeros=False, fit='absmax'):
        "Convert a `torch.nn.Linear`; the other arguments are those of `pack`"
        return cls(pack(linear.weight, kind, group, zeros, fit), linear.bias, linear.weight.dtype)

    @property
    def packed(self) -> PackedMatrix:
        "The quantized weight"
        arrays = (getattr(self, name) for name in ARRAYS)
        return PackedMatrix(self.kind, self.group, (self.out_features, self.in_features), *arrays)

    @property
    def weight(self):
        "The dequantized weight, (rows, columns), in the original dtype; computed on each access"
        return unpack(self.packed).to(self.dtype)

    def forward(self, x):
        "Compute x @ weight.T (+ bias)"
        if x.shape[-1] != self.in_features:
            raise ValueError(f'x has shape {tuple(x.shape)}; expected (..., {self.in_features})')
        group = _ROW_GROUP if self.group == 'row' else self.group
        operands = x, self.words, self.scales, self.zeros, self.bias, self.kind, group, self.out_features
        if self.matrix_scale is not None:
            operands = *operands, self.matrix_scale
        needs_grad = x.requires_grad or self.bias is not None and self.bias.requires_grad
        if needs_grad and torch.is_grad_enabled():
            return torch.ops.gridstride.quant_linear(*operands)
        return _linear(*operands)

    def extra_repr(self):
        "Return the string that the module's repr shows in parentheses"
        shape = f'in_features={self.in_features}, out_features={self.out_features}'
        zeros = ', zeros=True' * (self.zeros is not None)
        return f'{shape}, bias={self.bias is not None}, kind={self.kind!r}, group={self.group!r}{zeros}'

    def get_extra_state(self):
        "Return the format of the weight, for `state_dict`"
        return dict(kind=self.kind, group=self.group)

    def set_extra_state(self, state):
        "Raise `ValueError` if a saved weight has another format; its buffers would load, but represent other values"
        expected = self.get_extra_state()
        if state != expected:
            raise ValueError(f'the saved layer has format {state}; expected {expected}, the format of this layer')

    def _apply(self, fn, recurse=True):
        "Apply `fn` to all tensors, as `module.to()` does, but keep scales and zero points in a dtype that kernels read"
        old_arrays = self.scales, self.zeros, self.matrix_scale
        super()._apply(fn, recurse)
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype
        if dtype_name(self.scales) not in FLOATS:
            device = self.words.device
            self.scales, self.zeros, self.matrix_scale = (x if x is None else x.to(device) for x in old_arrays)
        return self
