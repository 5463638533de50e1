"""The course's kernels as operators: `matmul`, which selects one of many kernels; memory-bound operators; fused
operators with their backward passes; attention; products with quantized or sparse weights.

The modules and packages, in the order in which they are read best:

- `ladder` (the lessons' matrix products, step by step) and `gemm` (`matmul` and its plans, `mlp`, `bmm`, `grouped_mm`);
- used by all kernels: `ptx` (PTX instructions as CUDA C functions) and `maps` (TMA tensor maps);
- packages of operators with the same layout: `memory`, `fused`, `flash`, `latent`, `quant`, `sparse`. They share `tool`
  (argument checks, launches), `operators` (custom operators for `torch.compile`), `texts` (adds types and constants to
  a kernel's source) and `layers` (replaces linear layers);
- `export` (writes each kernel as a standalone program, by means of `standalone`) and `cub` (NVIDIA's library, as a
  baseline).
"""

from .ladder.ladder import Ladder, right
from .gemm.plan import explain, plan, tune, using
from .flash import TOOLS as _FLASH
from .fused import TOOLS as _FUSED
from .latent import TOOLS as _LATENT
from .memory import argmax, histogram, scan, sum, transpose
from .gemm import Activation, TOOLS as _GEMM
from .quant import TOOLS as _QUANT
from .ladder.rung import Rung
from .sparse import TOOLS as _SPARSE
from ..support.lazy_exports import lazy_exports_of

_LAZY_NAMES = {  # subpackages that import torch -> their public names
    'fused': _FUSED,
    'quant': _QUANT,
    'flash': _FLASH,
    'sparse': _SPARSE,
    'latent': _LATENT,
    'gemm': _GEMM,
    'gemm.dispatch': ('matmul',),
}
_lazy_all, __getattr__, __dir__ = lazy_exports_of(__name__, _LAZY_NAMES)
__all__ = ['Ladder', 'right', 'explain', 'plan', 'tune', 'using', 'Rung', 'Activation']
__all__ += ['argmax', 'histogram', 'scan', 'sum', 'transpose', *_lazy_all]
