"""FlashAttention, forward and backward: `attention`, and the sources of its kernels. `attention` needs torch, so it is
imported on first use.

The modules: `attentions` (the operator), `key_parts` (attention to parts of the keys), `calls` (the launches for a
problem), `schedule` (the order of tiles), `launches` (with tensor maps and tile counters), `sources` (assembles the
CUDA C of `*.cuh`), `programs` (standalone programs for `export`).
"""

from .sources import source
from ...support.lazy_exports import lazy_exports_of

PUBLIC_NAMES, __getattr__, __dir__ = lazy_exports_of(__name__, {'attentions': ('attention', 'attention_backend')})
__all__ = ['source', *PUBLIC_NAMES]
