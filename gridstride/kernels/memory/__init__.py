"""Memory-bound operators: `sum`, `argmax`, `scan`, `histogram`, `transpose`.

The modules: `operators` (the functions), `sources` (assembles the CUDA C of `*.cuh`), `programs` (standalone programs
for `export`).
"""

from .operators import argmax, histogram, multistage_sum, scan, sum, transpose
from .sources import source

__all__ = ['argmax', 'histogram', 'multistage_sum', 'scan', 'source', 'sum', 'transpose']
