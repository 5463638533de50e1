"""The course's kernels as tools: `matmul`, which picks the right one of many, what is as fast as the memory, and what
fuses many operations into one pass, with its derivative."""

from .ladder import Ladder, right
from .choice import explain, matmul, plan, tune, using
from .fused import TOOLS as _FUSED
from .memory import argmax, histogram, scan, sum, transpose
from .rung import Rung

__all__ = ['Ladder', 'right', 'explain', 'matmul', 'plan', 'tune', 'using', 'Rung']
__all__ += ['argmax', 'histogram', 'scan', 'sum', 'transpose', *_FUSED]


def __getattr__(name):
    "The fused tools, which need torch from their first line on"
    if name in _FUSED:
        from . import fused

        return getattr(fused, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__():
    return sorted({*globals(), *__all__})
