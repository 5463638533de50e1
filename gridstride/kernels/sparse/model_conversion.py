"""`prune_24` and `densify`: prune the linear layers of a module to 2:4 sparsity, and convert them back."""

from functools import partial

import torch
import torch.nn.functional as F

from .linear import TwoFourLinear, has_kernel
from .sources import F16_TYPES
from .two_four import unsupported_24_reason
from ..layers import ReplacedLayer, format_us, report_table, replace_linears, restore_linears
from ..quant.formats import snr_db
from ..common import dtype_name
from ...bench import bench
from ...bench.clocks import capture

_TIMED_ROWS = 4096  # rows of x for the measurement of the speedup


def _prune_layer(iterations, name, layer):
    "Return (the sparse layer, its `ReplacedLayer`), or the reason why the layer is not pruned"
    w = layer.weight.detach()
    if dtype_name(w) not in (*F16_TYPES, 'float32'):
        return f'it is {dtype_name(w)}'
    if reason := unsupported_24_reason(*w.shape):
        return reason
    if w.isnan().any():
        return 'its weight has a NaN'
    sparse_layer = TwoFourLinear.from_linear(layer, iterations)
    signal_to_noise = snr_db(w, sparse_layer.weight)
    return sparse_layer, ReplacedLayer(
        name, tuple(w.shape), w.nbytes, sparse_layer.packed.nbytes, signal_to_noise, dtype_name(w)
    )


def _largest_layer(module):
    "Return the sparse layer with the most elements"
    layers = [layer for layer in module.modules() if isinstance(layer, TwoFourLinear)]
    return max(layers, key=lambda layer: layer.values.numel())


def _speedup_note(layer):
    "Return a sentence: the measured speedup of a layer over its dense equivalent, or the reason why no kernel runs"
    values = layer.values
    if not has_kernel(values, values):
        device_name = torch.cuda.get_device_name(values.device) if values.is_cuda else 'the CPU'
        return (
            'The kernels support 16-bit floats on a GPU of compute capability 8.0 or more, and these weights are '
            f'{dtype_name(values)} on {device_name}:\ntorch multiplies, with dense weights.'
        )
    x, w = torch.randn(_TIMED_ROWS, layer.in_features, device=values.device).to(values.dtype), layer.weight
    calls = (lambda: layer(x)), (lambda: F.linear(x, w, layer.bias))
    with torch.no_grad():  # CUDA graphs, so that the times have no launch overhead
        sparse_seconds, dense_seconds = (bench(capture(call, 1)).median for call in calls)
    speedup = dense_seconds / sparse_seconds
    return (
        f'{_TIMED_ROWS:,} rows of x through {layer.out_features}x{layer.in_features} elements, the largest of these '
        f'layers: {format_us(sparse_seconds)} µs instead of {format_us(dense_seconds)}, a speedup of {speedup:.2f}, '
        f'just measured on {torch.cuda.get_device_name(x.device)}.'
    )


def prune_24(
    module,  # any torch module, changed in place; for a `Linear` itself a new layer is returned
    skip=(),  # names of layers that are not pruned, with wildcards: ('lm_head', '*.gate')
    iterations=0,  # of `search_order`, for a better column order; if it is not 0, the layer permutes x on each call
):  # the module
    """Prune the linear layers of a module to 2:4 sparsity: keep the two largest of every four weights of a row. Prints
    a table of their sizes and errors, and the speedup measured on this GPU.

        model = prune_24(model, skip=('lm_head',))

    `state_dict` and `torch.compile` work as before; a saved state loads into a module that was also pruned. Layers with
    shared weights, and layers whose sizes the kernels do not support, are not pruned; the table gives the reason.
    Raises TypeError or ValueError for unsupported options."""
    convert = partial(_prune_layer, iterations)
    module, replaced_layers, unchanged_layers = replace_linears('prune_24', 'pruned', module, skip, convert)
    notes = [
        'dB: signal-to-noise ratio of the weights, of which the two largest of each four are kept.',
        _speedup_note(_largest_layer(module)),
    ]
    print(report_table('Linear layers, 2:4 sparse', replaced_layers, unchanged_layers, notes))
    return module


def densify(
    module,  # as `prune_24` returned it
):  # the module
    """Replace sparse layers by `torch.nn.Linear`s, in which the pruned weights are 0.

        model = densify(model)

    Raises ValueError if the module has no 2:4 sparse layers."""
    if (dense_module := restore_linears(module, TwoFourLinear)) is None:
        raise ValueError('densify: the module has no 2:4 sparse layers')
    return dense_module
