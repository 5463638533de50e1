"""`quantize` and `dequantize`: the linear layers of a module in few bits, and back."""

from functools import partial

from .formats import decibels
from .linear import QuantLinear
from .packed import DEFAULT, unpack, why_not, why_not_so
from .sources import FLOATS
from ..layers import Swapped, micros, report, swap, swap_back
from ..tool import type_of
from ...bench import ceilings


def _in_few_bits(kind, group, zeros, fit, name, layer):
    "(the layer in few bits, notes on it), or why it stays"
    w = layer.weight.detach()
    if type_of(w) not in (*FLOATS, 'float32'):
        return f'it is {type_of(w)}'
    if why := why_not(kind, group, w.shape):
        return why
    new = QuantLinear.of(layer, kind, group, zeros, fit)
    return new, Swapped(name, tuple(w.shape), w.nbytes, new.packed.nbytes, decibels(w, unpack(new.packed)), type_of(w))


def _notes(swapped):
    "Lines below the table: the speed to expect"
    limits, before, after = ceilings(), sum(o.before for o in swapped), sum(o.after for o in swapped)
    old, new = (o / limits['read'] / 1e9 for o in (before, after))
    yield (
        f'dB: signal to noise of the weights. An {limits["gpu"]} reads {limits["read"]:,.0f} GB/s: these weights in '
        f'{micros(new)} µs instead of {micros(old)}.\nThe speedup for one row of x is at most {old / new:.2f}.'
    )
    if any(o.dtype == 'float32' for o in swapped):
        yield 'Kernels take 16-bit floats: x of float32 is multiplied by torch, with weights that are restored.'


def quantize(
    module,  # any torch module; it is changed, but for a `Linear` itself, for which a new layer is returned
    kind='int8',  # 'int8', 'int4', 'nf4', 'fp8'
    group=None,  # columns that share a scale: 32, 64, 128, 'row', 'tensor'; None: 'row', but 128 of int4, 64 of NF4
    skip=(),  # names of layers that stay, with wildcards: ('lm_head', '*.gate')
    zeros=False,  # for integers: does each group have a zero point, too?
    fit='absmax',  # the largest element of a group fits; 'mse': search for the scale with the least squared error
):  # the module
    """Quantize the linear layers of a module, and print a table of them: sizes, error, and the speed that the bytes
    allow on this GPU.

        model = quantize(model, 'int4', skip=('lm_head',))

    `state_dict` and `torch.compile` work as before; a state is loaded into a module that was quantized in the same way.
    Layers with shared weights, or whose columns are not a multiple of the group, stay, and the table has the reason.
    Raises TypeError and ValueError for options that are not supported."""
    group = DEFAULT.get(kind) if group is None else group
    try:
        why_not(kind, group, (0, 0))
    except ValueError as e:
        raise ValueError(f'quantize: {e}') from None
    if why := why_not_so(kind, zeros, fit):
        raise ValueError(f'quantize: {why}')
    make = partial(_in_few_bits, kind, group, zeros, fit)
    module, swapped, left = swap('quantize', 'quantized', module, skip, make)
    share = dict(row='each row', tensor='each matrix').get(group, f'{group} elements of a row')
    print(report(f'Linear layers in {kind}, a scale for {share}', swapped, left, _notes(swapped)))
    return module


def dequantize(
    module,  # as `quantize` returned it
):  # the module
    "Replace quantized layers by `torch.nn.Linear`s with the dequantized weights: rounding is not undone"
    if (dense := swap_back(module, QuantLinear)) is None:
        raise ValueError('dequantize: the module has no layers in few bits')
    return dense
