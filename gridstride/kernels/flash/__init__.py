"""Attention that keeps its scores in registers: `attention`, and the texts of its kernels. The tool needs torch, and is
looked up when it is asked for."""

from importlib import import_module

from .sources import source

TOOLS = 'attention', 'attention_way'
__all__ = ['TOOLS', 'source', *TOOLS]


def __getattr__(name):
    "A tool, from its module"
    if name in TOOLS:
        return getattr(import_module(f'{__name__}.attentions'), name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__():
    return sorted({*globals(), *__all__})
