"""Matrix products: `matmul`, which picks a kernel, and products of 16-bit floats with what follows them in the same
kernel: a bias, an activation, a residual; of many matrices at once; of groups of rows, each with a matrix of its own.

The modules, in the order in which they are read best:

- `matmul`: `dispatch` (operands to a launch), `plan` (which kernel, and why), `cost_model` (the time of kernels of
  16-bit floats), `tuning_cache` (what `tune` measured, on disk);
- its kernels next to the lessons': `bf16x6` (float32 by tensor cores), `skinny` (a few columns), `hopper_f16` (16-bit
  floats in each layout);
- products with an epilogue, which need torch, so that they are imported on first use: `epilogues`, `mlps`, `batches`
  (`bmm`, `grouped_mm`), `calls` (which tile for which sizes), `launches`, `sources` (CUDA C,
  `product.cuh`), `programs` (what `export` writes);
- `cublaslt`: NVIDIA's own, for comparison.
"""

from .sources import Activation
from ...support.lazy_exports import lazy_exports_of

_NAMES = {'epilogues': ('Epilogue', 'explain_with'), 'mlps': ('mlp',), 'batches': ('bmm', 'grouped_mm')}
TOOLS, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
__all__ = ['Activation', *TOOLS]
