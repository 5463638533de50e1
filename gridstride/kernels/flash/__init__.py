"""Attention that keeps its scores in registers: `attention`, and the texts of its kernels. The tool needs torch, and is
looked up when it is asked for.

The modules: `attentions` (the tool), `calls` (which kernel for which sizes), `schedule` (which tiles first), `launches`
(with tensor maps and counters), `sources` (the texts, `*.cuh`), `programs` (what `export` writes).
"""

from .sources import source
from ...support.lazy_exports import front_door

TOOLS, __getattr__, __dir__ = front_door(__name__, {'attentions': ('attention', 'attention_way')})
__all__ = ['source', *TOOLS]
