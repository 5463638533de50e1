"""Memory-bound operators: `sum`, `argmax`, `scan`, `histogram`, `transpose`.

The modules: `tools` (the operators), `sources` (their CUDA C, `*.cuh`), `programs` (the programs that `export` writes).
"""

from .sources import source
from .tools import argmax, histogram, ring_sum, scan, sum, transpose

__all__ = ['argmax', 'histogram', 'ring_sum', 'scan', 'source', 'sum', 'transpose']
