"""Replace the linear layers of a module, report the replacements in a table, and restore the layers."""

from fnmatch import fnmatch
from typing import NamedTuple

import torch

from ..support.tables import Table

_MAX_LINES = 16  # layers that are reported one by one


class Swapped(NamedTuple):
    "A layer that was replaced"

    name: str
    shape: tuple  # of the weight
    before: int  # bytes of the weight before
    after: int  # and after
    decibels: float  # signal-to-noise ratio of the new weight
    dtype: str  # of the weight before


def _linears(module):
    """Yield (full name, parent, name in the parent, layer) of each layer of type `Linear`, without derived classes,
    which may use the weight in other ways"""
    for name, parent in module.named_modules():
        for child, layer in parent.named_children():
            if type(layer) is torch.nn.Linear:
                yield f'{name}.{child}'.lstrip('.'), parent, child, layer


def _shared(module):
    "Return the ids of parameters that several layers share: replacing one layer would duplicate them"
    owners = {}
    for layer in module.modules():
        for parameter in layer.parameters(recurse=False):
            owners.setdefault(id(parameter), set()).add(id(layer))
    return {parameter for parameter, layers in owners.items() if len(layers) > 1}


def swap_linears(
    tool,  # name of the caller in messages: 'quantize'
    participle,  # in messages: 'quantized'
    module,  # it is changed in place, unless it is a `Linear` itself
    skip,  # names of layers that stay unchanged, with wildcards; or one name
    make,  # (name, layer) -> (its new layer, `Swapped`), or the reason why it stays unchanged
) -> tuple:  # the module, or the new layer; the `Swapped`s; (name, reason) of the unchanged layers
    """Replace each linear layer by a new one.

    Raises TypeError if `module` is not a module, ValueError if no layer could be replaced."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f'{tool}: module is a {type(module).__name__}, and a torch.nn.Module is needed')
    skip, shared = (skip,) if isinstance(skip, str) else skip, _shared(module)
    holder = torch.nn.ModuleDict(dict(itself=module)) if type(module) is torch.nn.Linear else module
    swapped, unchanged = [], []
    for name, parent, child, layer in list(_linears(holder)):
        if any(fnmatch(name, pattern) for pattern in skip):
            result = 'as asked'
        else:
            result = "its weight is also another layer's" if id(layer.weight) in shared else make(name, layer)
        if isinstance(result, str):
            unchanged.append((name, result))
            continue
        parent._modules[child], reported = result
        parent._modules[child].train(layer.training)
        swapped.append(reported)
    if not swapped:
        reasons = ''.join(f'\n{name} stays: {why}' for name, why in unchanged) or ': it has no torch.nn.Linear'
        raise ValueError(f'{tool}: no layer of the module could be {participle}{reasons}')
    return holder['itself'] if holder is not module else module, swapped, unchanged


def _mb(n):
    return f'{n / 1e6:,.2f}'


def format_us(seconds) -> str:
    """Format seconds as microseconds, with three significant digits or all integer digits.

    >>> format_us(1.234e-6), format_us(0.0015)
    ('1.23', '1,500')"""
    us = seconds * 1e6
    return f'{us:,.0f}' if us >= 99.95 else f'{us:#.3g}'


def report_table(
    title,
    swapped,  # `Swapped`s
    unchanged,  # (name, reason) of the unchanged layers
    notes,  # lines below the table
) -> Table:
    "Return a table of the replaced layers"
    rows = [
        [layer.name, 'x'.join(map(str, layer.shape)), _mb(layer.before), _mb(layer.after), f'{layer.decibels:.1f}']
        for layer in swapped
    ]
    if len(rows) > _MAX_LINES:
        rows = [*rows[: _MAX_LINES - 2], [f'... and {len(rows) - _MAX_LINES + 2} more', '', '', '', '']]
    total_before = sum(layer.before for layer in swapped)
    total_after = sum(layer.after for layer in swapped)
    rows.append(['all', '', _mb(total_before), _mb(total_after), ''])
    reported = '\n'.join([*notes, *(f'{name} stays: {why}' for name, why in unchanged)])
    return Table(['<layer', 'rows x columns', 'MB', 'MB now', 'dB'], rows, title, reported)


def _as_linear(layer):
    "Return the `torch.nn.Linear` with the dense weight of a layer"
    weight = layer.weight
    res = torch.nn.Linear(layer.in_features, layer.out_features, bias=False, device='meta')
    res.weight, res.bias = torch.nn.Parameter(weight, requires_grad=False), layer.bias
    return res.train(layer.training)


def restore_linears(
    module,  # or a layer itself
    layer_type,  # class of the layers to restore, which have a `weight` and a `bias`
):  # the module, or None if it has no such layer
    "Replace each layer of a class by a `torch.nn.Linear`"
    if isinstance(module, layer_type):
        return _as_linear(module)
    matches = [
        (parent, child, layer)
        for parent in module.modules()
        for child, layer in parent.named_children()
        if isinstance(layer, layer_type)
    ]
    for parent, child, layer in matches:
        parent._modules[child] = _as_linear(layer)
    return module if matches else None
