"""Replace the linear layers of a module by layers of another class, report the result in a table, and restore them."""

from fnmatch import fnmatch
from typing import NamedTuple

import torch

from ..support.tables import Table

_MAX_TABLE_ROWS = 16


class ReplacedLayer(NamedTuple):
    "A layer that was replaced, as a row of the table"

    name: str
    shape: tuple  # of the weight
    bytes_before: int  # of the weight
    bytes_after: int
    snr_db: float  # signal-to-noise ratio of the new weight
    old_dtype: str


def _iterate_linears(module):
    """Yield (full name, parent, name in the parent, layer) of each `torch.nn.Linear`.

    Derived classes are skipped, as they may use the weight in other ways."""
    for parent_name, parent in module.named_modules():
        for child_name, layer in parent.named_children():
            if type(layer) is torch.nn.Linear:
                yield f'{parent_name}.{child_name}'.lstrip('.'), parent, child_name, layer


def _shared_parameter_ids(module):
    "Return the ids of the parameters that several layers share; replacing one of the layers would duplicate them"
    layer_ids_of = {}
    for layer in module.modules():
        for parameter in layer.parameters(recurse=False):
            layer_ids_of.setdefault(id(parameter), set()).add(id(layer))
    return {parameter_id for parameter_id, layers in layer_ids_of.items() if len(layers) > 1}


def replace_linears(
    op_name,  # name of the caller in messages: 'quantize'
    past_participle,  # of the caller's verb, in messages: 'quantized'
    module,  # changed in place, unless it is a `Linear` itself
    skip,  # names of layers that stay unchanged, which may have wildcards; or one name
    convert,  # (name, layer) -> (the new layer, its `ReplacedLayer`), or the reason why the layer stays unchanged
) -> tuple:  # the module, or the new layer; the `ReplacedLayer`s; (name, reason) of the unchanged layers
    """Replace each linear layer by a new one.

    Raises TypeError if `module` is not a module, ValueError if no layer could be replaced."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f'{op_name}: module is a {type(module).__name__}; expected a torch.nn.Module')
    skip, shared_ids = (skip,) if isinstance(skip, str) else skip, _shared_parameter_ids(module)
    # A layer is replaced in its parent, so a `Linear` that was passed alone gets a parent.
    root = torch.nn.ModuleDict(dict(itself=module)) if type(module) is torch.nn.Linear else module
    replaced_layers, unchanged_layers = [], []
    for name, parent, child_name, layer in list(_iterate_linears(root)):
        if any(fnmatch(name, pattern) for pattern in skip):
            result = 'it is in skip'
        else:
            result = "another layer shares its weight" if id(layer.weight) in shared_ids else convert(name, layer)
        if isinstance(result, str):
            unchanged_layers.append((name, result))
            continue
        parent._modules[child_name], replaced_layer = result
        parent._modules[child_name].train(layer.training)
        replaced_layers.append(replaced_layer)
    if not replaced_layers:
        reasons = (
            ''.join(f'\n{name} is unchanged: {reason}' for name, reason in unchanged_layers)
            or ': it has no torch.nn.Linear'
        )
        raise ValueError(f'{op_name}: no layer of the module could be {past_participle}{reasons}')
    return root['itself'] if root is not module else module, replaced_layers, unchanged_layers


def _megabytes(num_bytes):
    "Format a number of bytes as megabytes"
    return f'{num_bytes / 1e6:,.2f}'


def format_us(seconds) -> str:
    """Format seconds as microseconds, with three significant digits or all integer digits.

    >>> format_us(1.234e-6), format_us(0.0015)
    ('1.23', '1,500')"""
    us = seconds * 1e6
    return f'{us:,.0f}' if us >= 99.95 else f'{us:#.3g}'


def report_table(
    title,
    replaced_layers,  # `ReplacedLayer`s
    unchanged_layers,  # (name, reason) of the unchanged layers
    notes,  # lines below the table
) -> Table:
    "Return a table of the replaced layers"
    rows = [
        [
            layer.name,
            'x'.join(map(str, layer.shape)),
            _megabytes(layer.bytes_before),
            _megabytes(layer.bytes_after),
            f'{layer.snr_db:.1f}',
        ]
        for layer in replaced_layers
    ]
    if len(rows) > _MAX_TABLE_ROWS:
        num_listed = _MAX_TABLE_ROWS - 2
        rows = [*rows[:num_listed], [f'... and {len(rows) - num_listed} more', '', '', '', '']]
    total_before = sum(layer.bytes_before for layer in replaced_layers)
    total_after = sum(layer.bytes_after for layer in replaced_layers)
    rows.append(['all', '', _megabytes(total_before), _megabytes(total_after), ''])
    note = '\n'.join([*notes, *(f'{name} is unchanged: {reason}' for name, reason in unchanged_layers)])
    return Table(['<layer', 'rows x columns', 'MB', 'MB now', 'dB'], rows, title, note)


def _to_linear(layer):
    "Convert a layer to a `torch.nn.Linear` with its dense weight"
    weight = layer.weight
    linear = torch.nn.Linear(layer.in_features, layer.out_features, bias=False, device='meta')
    linear.weight, linear.bias = torch.nn.Parameter(weight, requires_grad=False), layer.bias
    return linear.train(layer.training)


def restore_linears(
    module,  # or one layer of this class
    layer_type,  # class of the layers to replace; it has a `weight` and a `bias`
):  # the module; None if it has no layer of this class
    "Replace each layer of class `layer_type` by a `torch.nn.Linear`"
    if isinstance(module, layer_type):
        return _to_linear(module)
    matches = [
        (parent, child_name, layer)
        for parent in module.modules()
        for child_name, layer in parent.named_children()
        if isinstance(layer, layer_type)
    ]
    for parent, child_name, layer in matches:
        parent._modules[child_name] = _to_linear(layer)
    return module if matches else None
