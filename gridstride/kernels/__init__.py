"""The course's kernels as tools: `matmul`, which picks the right one of many, what is as fast as the memory, what fuses
many operations into one pass, with its derivative, and what multiplies by weights of few bits, or mostly of zeros.

The modules and packages, in the order in which they are read best:

- `ladder` (the lessons' matrix products, step by step) and `gemm` (`matmul` and its plans, `mlp`, `bmm`, `grouped_mm`);
- what all kernels are written with: `ptx` (instructions as functions), `maps` (tensor maps);
- packages of operators, alike inside: `memory`, `fused`, `flash`, `latent`, `quant`, `sparse`; what they share:
  `tool` (looks at arguments, launches a `Call`), `operators` (how torch's compiler sees a launch), `texts` (what is
  written above a kernel), `layers` (swaps linear layers);
- `export` (kernels to take away; `standalone`: what such a program has), `cub` (NVIDIA's own, for comparison).
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
from ..support.lazy_exports import front_door

_ASKED_FOR = {  # what needs torch from its first line on
    'fused': _FUSED,
    'quant': _QUANT,
    'flash': _FLASH,
    'sparse': _SPARSE,
    'latent': _LATENT,
    'gemm': _GEMM,
    'gemm.dispatch': ('matmul',),
}
_LATER, __getattr__, __dir__ = front_door(__name__, _ASKED_FOR)
__all__ = ['Ladder', 'right', 'explain', 'plan', 'tune', 'using', 'Rung', 'Activation']
__all__ += ['argmax', 'histogram', 'scan', 'sum', 'transpose', *_LATER]
