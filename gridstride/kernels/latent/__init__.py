"""Decoding with a latent KV cache: `latent_attention`, and the sources of its kernels. `latent_attention` needs torch,
and is imported on first use.

The modules: `decoding` (`latent_attention` itself), `calls` (which kernels for which sizes), `sources` (CUDA C,
`*.cuh`), `programs` (what `export` writes).
"""

from .sources import source
from ...support.lazy_exports import lazy_exports_of

TOOLS, __getattr__, __dir__ = lazy_exports_of(__name__, {'decoding': ('latent_attention', 'latent_attention_backend')})
__all__ = ['source', *TOOLS]
