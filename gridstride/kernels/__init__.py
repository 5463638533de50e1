"""The course's kernels as tools: `matmul`, which picks the right one of many, and what is as fast as the memory."""

from .ladder import Ladder, right
from .choice import explain, matmul, plan, tune, using
from .memory import argmax, histogram, scan, sum, transpose
from .rung import Rung

__all__ = ['Ladder', 'right', 'explain', 'matmul', 'plan', 'tune', 'using', 'Rung']
__all__ += ['argmax', 'histogram', 'scan', 'sum', 'transpose']
