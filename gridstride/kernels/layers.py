"""What tools for the linear layers of a module share: they swap them, say what became of them, and swap back."""

from fnmatch import fnmatch
from typing import NamedTuple

import torch

from ..support.tables import Table

_MAX_LINES = 16  # layers that are reported one by one


class Swapped(NamedTuple):
    "A layer that was swapped"

    name: str
    shape: tuple
    before: int  # bytes of the weight
    after: int
    decibels: float  # signal to noise
    dtype: str


def _linears(module):
    """(name, its parent, what it is called there, the layer) per `Linear` itself: classes derived from it have a use
    of their own for the weight"""
    for name, m in module.named_modules():
        for child, layer in m.named_children():
            if type(layer) is torch.nn.Linear:
                yield f'{name}.{child}'.lstrip('.'), m, child, layer


def _shared(module):
    "Addresses of weights that belong to several layers: swapped, they would be there twice"
    owners = {}
    for m in module.modules():
        for p in m.parameters(recurse=False):
            owners.setdefault(id(p), set()).add(id(m))
    return {p for p, ms in owners.items() if len(ms) > 1}


def swap(
    tool,  # its name, and what becomes of layers, for messages: 'quantize', 'quantized'
    done,
    module,  # a `Linear` itself is not changed
    skip,  # names of layers that stay, with wildcards; or one name
    make,  # (name, layer) -> (its new layer, `Swapped`), or why it stays
) -> tuple:  # the module, or the new layer; `Swapped`s; (name, why) of those that stay
    "Replace each linear layer by a new one; raise `TypeError` or `ValueError` if there are none"
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f'{tool}: module is a {type(module).__name__}, and a torch.nn.Module is needed')
    skip, shared = (skip,) if isinstance(skip, str) else skip, _shared(module)
    holder = torch.nn.ModuleDict(dict(itself=module)) if type(module) is torch.nn.Linear else module
    swapped, left = [], []
    for name, parent, child, layer in list(_linears(holder)):
        if any(fnmatch(name, o) for o in skip):
            made = 'as asked'
        else:
            made = "its weight is also another layer's" if id(layer.weight) in shared else make(name, layer)
        if isinstance(made, str):
            left.append((name, made))
            continue
        parent._modules[child], reported = made
        parent._modules[child].train(layer.training)
        swapped.append(reported)
    if not swapped:
        said = ''.join(f'\n{name} stays: {why}' for name, why in left) or ': it has no torch.nn.Linear'
        raise ValueError(f'{tool}: no layer of the module could be {done}{said}')
    return holder['itself'] if holder is not module else module, swapped, left


def _mb(n):
    return f'{n / 1e6:,.2f}'


def micros(seconds) -> str:
    "Microseconds, with three digits, or all digits before the point"
    us = seconds * 1e6
    return f'{us:,.0f}' if us >= 99.95 else f'{us:#.3g}'


def report(
    title,
    swapped,  # `Swapped`s
    left,  # (name, why) of those that stay
    notes,  # lines below the table
) -> Table:
    "Return a table of what was done"
    rows = [[o.name, 'x'.join(map(str, o.shape)), _mb(o.before), _mb(o.after), f'{o.decibels:.1f}'] for o in swapped]
    if len(rows) > _MAX_LINES:
        rows = [*rows[: _MAX_LINES - 2], [f'... and {len(rows) - _MAX_LINES + 2} more', '', '', '', '']]
    rows.append(['all', '', *(_mb(sum(o[i] for o in swapped)) for i in (2, 3)), ''])
    reported = '\n'.join([*notes, *(f'{name} stays: {why}' for name, why in left)])
    return Table(['<layer', 'rows x columns', 'MB', 'MB now', 'dB'], rows, title, reported)


def _as_linear(layer):
    "The dense layer"
    w = layer.weight
    res = torch.nn.Linear(layer.in_features, layer.out_features, bias=False, device='meta')
    res.weight, res.bias = torch.nn.Parameter(w, requires_grad=False), layer.bias
    return res.train(layer.training)


def swap_back(
    module,  # or a layer itself
    kind,  # class of the layers, which have a `weight` and a `bias`
):  # the module, or None if it has none of them
    "Replace each layer of a class by a `torch.nn.Linear`"
    if isinstance(module, kind):
        return _as_linear(module)
    found = [(m, child, o) for m in module.modules() for child, o in m.named_children() if isinstance(o, kind)]
    for m, child, layer in found:
        m._modules[child] = _as_linear(layer)
    return module if found else None
