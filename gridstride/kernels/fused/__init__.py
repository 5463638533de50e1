"""Fused operators with their backward passes. Their modules need torch, so they are imported on first use.

The modules: `activations`, `norms`, `losses`, `softmaxes`, `optimizers` (the operators), `calls` (the launches of
activations and norms), `sources` (assembles the CUDA C of `*.cuh`), `programs` (standalone programs
for `export`).
"""

from .sources import source
from ...support.lazy_exports import lazy_exports_of

_NAMES = {
    'activations': ('gelu', 'bias_gelu'),
    'norms': ('rms_norm', 'layer_norm'),
    'losses': ('cross_entropy', 'linear_cross_entropy'),
    'optimizers': ('AdamW',),
    'softmaxes': ('softmax', 'log_softmax'),
}
PUBLIC_NAMES, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
__all__ = ['source', *PUBLIC_NAMES]
