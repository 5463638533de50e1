"""The course's kernels as operators: `matmul`, which selects one of many kernels; memory-bound operators; fused
operators with their backward passes; convolutions; attention; products with quantized or sparse weights.

The modules and packages, in reading order:

- `ladder` (the lessons' matrix products, step by step) and `gemm` (`matmul` and its plans, `mlp`, `bmm`, `grouped_mm`);
- used by all kernels: `ptx` (PTX instructions as CUDA C functions) and `tensor_maps` (TMA tensor maps);
- packages of operators with the same layout: `memory`, `ordering`, `conv`, `fused`, `flash`, `latent`, `quant`,
  `sparse`. They share `common` (argument checks, launches), `operators` (custom operators for `torch.compile`),
  `autocast` (the types of operands under `torch.autocast`), `launch_replay` (repeats the launches of an earlier call),
  `source_assembly` (adds types and constants to a kernel's source) and `layers` (replaces linear layers);
- `export`, which writes each kernel as a standalone program (with `standalone` and `nvfp4_program`); `project`, which
  writes a new project, a kernel as an operator of PyTorch, from the templates in `new_project`; `operator_costs`, which
  measures the layers of a call; `cub` (NVIDIA's library, as a baseline).
"""

from .conv import PUBLIC_NAMES as _CONV
from .ladder.ladder import Ladder, check_matmul
from .gemm.plan import explain, plan, tune, using
from .flash import PUBLIC_NAMES as _FLASH
from .fused import PUBLIC_NAMES as _FUSED
from .latent import PUBLIC_NAMES as _LATENT
from .memory import argmax, histogram, scan, sum, transpose
from .gemm import Activation, PUBLIC_NAMES as _GEMM
from .ordering import PUBLIC_NAMES as _ORDERING
from .quant import PUBLIC_NAMES as _QUANT
from .ladder.rung import Rung
from .sparse import PUBLIC_NAMES as _SPARSE
from ..support.lazy_exports import lazy_exports_of

_LAZY_NAMES = {  # subpackages that import torch -> their public names
    'fused': _FUSED,
    'quant': _QUANT,
    'flash': _FLASH,
    'sparse': _SPARSE,
    'latent': _LATENT,
    'ordering': _ORDERING,
    'conv': _CONV,
    'gemm': _GEMM,
    'gemm.dispatch': ('matmul',),
}
_lazy_all, __getattr__, __dir__ = lazy_exports_of(__name__, _LAZY_NAMES)
__all__ = ['Ladder', 'check_matmul', 'explain', 'plan', 'tune', 'using', 'Rung', 'Activation']
__all__ += ['argmax', 'histogram', 'scan', 'sum', 'transpose', *_lazy_all]
