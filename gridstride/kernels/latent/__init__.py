"""Decoding with a latent cache: `latent_attention`, and the texts of its kernels. The tool needs torch, and is looked
up when it is asked for.

The modules: `decoding` (the tool), `calls` (which kernels for which sizes), `sources` (the texts, `*.cuh`), `programs`
(what `export` writes).
"""

from .sources import source
from ...support.lazy_exports import front_door

TOOLS, __getattr__, __dir__ = front_door(__name__, {'decoding': ('latent_attention', 'latent_attention_way')})
__all__ = ['source', *TOOLS]
