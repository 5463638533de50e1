"""Kernels that do in one pass what takes many, with their derivatives. Their modules need torch, and are looked up when
they are asked for."""

from importlib import import_module

from .sources import source

_MODULE_OF = {  # tool -> the module that has it
    'gelu': 'activations',
    'bias_gelu': 'activations',
    'rms_norm': 'norms',
    'layer_norm': 'norms',
    'cross_entropy': 'losses',
    'linear_cross_entropy': 'losses',
    'AdamW': 'optimizers',
    'softmax': 'softmaxes',
    'log_softmax': 'softmaxes',
}
TOOLS = tuple(_MODULE_OF)
__all__ = ['TOOLS', 'source', *TOOLS]


def __getattr__(name):
    "A tool, from its module"
    if name in _MODULE_OF:
        return getattr(import_module(f'{__name__}.{_MODULE_OF[name]}'), name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__():
    return sorted({*globals(), *__all__})
