"""Matrices in few bits: their formats, how kernels read them, and products with them. Its modules need torch."""

from importlib import import_module

_MODULE_OF = {'matvec': 'packed', 'pack': 'packed', 'unpack': 'packed', 'Packed': 'packed', 'source': 'sources'}
__all__ = [*_MODULE_OF]


def __getattr__(name):
    "A tool, from its module"
    if name in _MODULE_OF:
        return getattr(import_module(f'{__name__}.{_MODULE_OF[name]}'), name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__():
    return sorted({*globals(), *__all__})
