"""Matrices in few bits: their formats, how kernels read them, products with them, and linear layers that have them. Its
modules need torch, and are looked up when they are asked for."""

from importlib import import_module

_MODULE_OF = {  # name -> the module that has it
    'quantize': 'tool',
    'dequantize': 'tool',
    'QuantLinear': 'linear',
    'Packed': 'packed',
    'matvec': 'packed',
    'pack': 'packed',
    'unpack': 'packed',
    'multiply_fp8': 'eight_bits',
    'multiply_int8': 'eight_bits',
    'source': 'sources',
}
TOOLS = 'quantize', 'dequantize'
__all__ = ['TOOLS', *_MODULE_OF]


def __getattr__(name):
    "A tool, from its module"
    if name in _MODULE_OF:
        return getattr(import_module(f'{__name__}.{_MODULE_OF[name]}'), name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__():
    return sorted({*globals(), *__all__})
