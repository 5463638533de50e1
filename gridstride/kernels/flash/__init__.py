"""Attention that keeps its scores in registers: `attention`, and the sources of its kernels. `attention` needs torch,
and is imported on first use.

The modules: `attentions` (`attention` itself), `calls` (which kernel for which sizes), `schedule` (which tiles first),
`launches` (with tensor maps and counters), `sources` (CUDA C, `*.cuh`), `programs` (what `export` writes).
"""

from .sources import source
from ...support.lazy_exports import lazy_exports_of

TOOLS, __getattr__, __dir__ = lazy_exports_of(__name__, {'attentions': ('attention', 'attention_backend')})
__all__ = ['source', *TOOLS]
