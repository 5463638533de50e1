"""Matrix products: `matmul`, which selects a kernel; 16-bit GEMMs with an epilogue (bias, activation,
residual); batched GEMMs (`bmm`); and grouped GEMMs (`grouped_mm`).

The modules, in reading order:

- `matmul`: `dispatch` (from the operands to a launch), `plan` (the choice of a kernel, and its reason), `cost_model`
  (estimates for 16-bit kernels), `tuning_cache` (the results of `tune` on disk);
- its kernels: `bf16x6` (float32 by tensor cores), `skinny` (a few columns; its CUDA C is in
  `skinny_sources`), `hopper_f16` (16-bit floats);
- GEMMs with an epilogue, which need torch, so that they are imported on first use: `epilogues`, `mlps`, `batches`
  (`bmm`, `grouped_mm`), `calls` (tile and launch for a problem), `launches`, `sources` (assembles the CUDA C of
  `epilogue_gemm.cuh`), `programs` (standalone programs for `export`);
- `cublaslt`: NVIDIA's library, as a baseline.
"""

from .sources import Activation
from ...support.lazy_exports import lazy_exports_of

_NAMES = {'epilogues': ('Epilogue', 'explain_with'), 'mlps': ('mlp',), 'batches': ('bmm', 'grouped_mm')}
PUBLIC_NAMES, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
__all__ = ['Activation', *PUBLIC_NAMES]
