"""Memory-bound operators: `sum`, `argmax`, `scan`, `histogram`, `transpose`.

The modules: `tools` (the operators), `sources` (assembles the CUDA C of `*.cuh`), `programs` (what `export` writes).
"""

from .sources import source
from .tools import argmax, histogram, ring_sum, scan, sum, transpose

__all__ = ['argmax', 'histogram', 'ring_sum', 'scan', 'source', 'sum', 'transpose']
