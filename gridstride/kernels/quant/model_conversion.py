"""`quantize` and `dequantize`: quantize the linear layers of a module, and convert them back."""

from functools import partial

from .formats import snr_db
from .linear import QuantLinear
from .packed import DEFAULT_GROUP, default_group, unpack, invalid_options_reason, unsupported_reason
from .sources import FLOATS
from ..layers import ReplacedLayer, format_us, report_table, replace_linears, restore_linears
from ..common import dtype_name
from ...bench import ceilings


def _quantize_layer(kind, group, zeros, fit, name, layer):
    "Return (the quantized layer, its `ReplacedLayer`), or the reason why the layer is not quantized"
    w = layer.weight.detach()
    if dtype_name(w) not in (*FLOATS, 'float32'):
        return f'it is {dtype_name(w)}'
    group = default_group(kind, w.shape[1]) if group is None else group
    if reason := unsupported_reason(kind, group, w.shape):
        return reason
    quantized = QuantLinear.from_linear(layer, kind, group, zeros, fit)
    signal_to_noise = snr_db(w, unpack(quantized.packed))
    return quantized, ReplacedLayer(
        name, tuple(w.shape), w.nbytes, quantized.packed.nbytes, signal_to_noise, dtype_name(w)
    )


def _notes(replaced_layers):
    "Yield the lines below the table, which state the expected speedup"
    limits = ceilings()
    original_bytes = sum(layer.bytes_before for layer in replaced_layers)
    quantized_bytes = sum(layer.bytes_after for layer in replaced_layers)
    original_seconds, quantized_seconds = (
        num_bytes / limits['read'] / 1e9 for num_bytes in (original_bytes, quantized_bytes)
    )
    yield (
        f'dB: signal-to-noise ratio of the weights. At the {limits["read"]:,.0f} GB/s of an {limits["gpu"]}, reading '
        f'them takes {format_us(quantized_seconds)} µs instead of {format_us(original_seconds)}.\n'
        f'The speedup for one row of x is at most {original_seconds / quantized_seconds:.2f}.'
    )
    if any(layer.old_dtype == 'float32' for layer in replaced_layers):
        yield 'The kernels support 16-bit floats only: torch multiplies x of float32, with dequantized weights.'


def quantize(
    module,  # any torch module, changed in place; for a `Linear` itself a new layer is returned
    kind='int8',  # 'int8', 'int4', 'nf4', 'fp8', 'mxfp8', 'nvfp4'
    group=None,  # columns that share a scale: 32, 64, 128, 'row', 'tensor'; None: that of `default_group`
    skip=(),  # names of layers that are not quantized, with wildcards: ('lm_head', '*.gate')
    zeros=False,  # integers only: give each group a zero point
    fit='absmax',  # represent the largest element of each group; 'mse': search for the least squared error
):  # the module
    """Quantize the linear layers of a module. Prints a table of their sizes and errors, and the highest speedup that
    the smaller sizes allow on this GPU.

        model = quantize(model, 'int4', skip=('lm_head',))

    `state_dict` and `torch.compile` work as before; a saved state loads into a module that was quantized with the same
    options. Layers with shared weights, and layers whose columns are not a multiple of the group, are not quantized;
    the table gives the reason. Raises TypeError or ValueError for unsupported options."""
    title_group = DEFAULT_GROUP.get(kind) if group is None else group
    try:
        unsupported_reason(kind, title_group, (0, 0))
    except ValueError as e:
        raise ValueError(f'quantize: {e}') from None
    if reason := invalid_options_reason(kind, zeros, fit):
        raise ValueError(f'quantize: {reason}')
    convert = partial(_quantize_layer, kind, group, zeros, fit)
    module, replaced_layers, unchanged_layers = replace_linears('quantize', 'quantized', module, skip, convert)
    scale_scope = dict(row='each row', tensor='each matrix').get(title_group, f'{title_group} elements of a row')
    print(
        report_table(
            f'Linear layers in {kind}, a scale for {scale_scope}',
            replaced_layers,
            unchanged_layers,
            _notes(replaced_layers),
        )
    )
    return module


def dequantize(
    module,  # as `quantize` returned it
):  # the module
    """Replace quantized layers by `torch.nn.Linear`s with the dequantized weights, which keep the rounding errors.

        model = dequantize(model)

    Raises ValueError if the module has no quantized layers."""
    if (dense_module := restore_linears(module, QuantLinear)) is None:
        raise ValueError('dequantize: the module has no quantized layers')
    return dense_module
