"""`prune_24` and `densify`: the linear layers of a module 2:4 sparse, and dense again."""

from functools import partial

import torch
import torch.nn.functional as F

from .linear import TwoFourLinear, has_kernel
from .sources import HALVES
from .two_four import why_not_24
from ..layers import Swapped, micros, report, swap, swap_back
from ..quant.formats import decibels
from ..tool import type_of
from ...bench import bench
from ...bench.clocks import capture

_ROWS = 4096  # of x, with which a layer is timed


def _sparse(rounds, name, layer):
    "(the sparse layer, notes on it), or why it stays"
    w = layer.weight.detach()
    if type_of(w) not in (*HALVES, 'float32'):
        return f'it is {type_of(w)}'
    if why := why_not_24(*w.shape):
        return why
    if w.isnan().any():
        return 'its weight has a NaN'
    new = TwoFourLinear.of(layer, rounds)
    return new, Swapped(name, tuple(w.shape), w.nbytes, new.packed.nbytes, decibels(w, new.weight), type_of(w))


def _largest(module):
    "The sparse layer with most elements"
    layers = [o for o in module.modules() if isinstance(o, TwoFourLinear)]
    return max(layers, key=lambda o: o.values.numel())


def _speed(layer):
    "A sentence: the speed of a layer on this GPU compared with torch's dense one, or what multiplies instead"
    values = layer.values
    if not has_kernel(values, values):
        where = f'{type_of(values)} on {torch.cuda.get_device_name(values.device) if values.is_cuda else "the CPU"}'
        return (
            'The kernels take 16-bit floats on a GPU of compute capability 8.0 or more, and these weights are '
            f'{where}:\ntorch multiplies, with weights that are restored.'
        )
    x, w = torch.randn(_ROWS, layer.in_features, device=values.device).to(values.dtype), layer.weight
    runs = (lambda: layer(x)), (lambda: F.linear(x, w, layer.bias))
    with torch.no_grad():  # in CUDA graphs, so that no Python is timed
        sparse, dense = (bench(capture(f, 1)).median for f in runs)
    return (
        f'{_ROWS:,} rows of x through {layer.out_features}x{layer.in_features} elements, the largest of these layers: '
        f'{micros(sparse)} µs instead of {micros(dense)}, a speedup of {dense / sparse:.2f}, just measured on '
        f'{torch.cuda.get_device_name(x.device)}.'
    )


def prune_24(
    module,  # any torch module; it is changed, but for a `Linear` itself, for which a new layer is returned
    skip=(),  # names of layers that stay, with wildcards: ('lm_head', '*.gate')
    rounds=0,  # of a search for an order of columns in which more is kept; bringing x into it takes time, too
):  # the module
    """Prune the linear layers of a module to 2:4 sparsity: of each four weights along a row the two largest are kept.
    Prints a table of the layers: sizes, error, and the speed measured on this GPU.

        model = prune_24(model, skip=('lm_head',))

    `state_dict` and `torch.compile` work as before; a state is loaded into a module that was pruned, too. Layers with
    shared weights, or of sizes that the kernels do not support, stay, and the table has the reason. Raises TypeError
    and ValueError for options that are not supported."""
    module, swapped, left = swap('prune_24', 'pruned', module, skip, partial(_sparse, rounds))
    notes = ['dB: signal to noise of the weights. Their two largest of each four stay.', _speed(_largest(module))]
    print(report('Linear layers, 2:4 sparse', swapped, left, notes))
    return module


def densify(
    module,  # as `prune_24` returned it
):  # the module
    "Replace sparse layers by `torch.nn.Linear`s with the weights that were kept: what was pruned is 0"
    if (dense := swap_back(module, TwoFourLinear)) is None:
        raise ValueError('densify: the module has no 2:4 sparse layers')
    return dense
