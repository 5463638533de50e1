"""Kernels whose speed is that of the memory, as tools: `sum`, `argmax`, `scan`, `histogram`, `transpose`.

The modules: `tools` (all five), `sources` (the texts, `*.cuh`), `programs` (what `export` writes)."""

from .sources import source
from .tools import argmax, histogram, ring_sum, scan, sum, transpose

__all__ = ['argmax', 'histogram', 'ring_sum', 'scan', 'source', 'sum', 'transpose']
