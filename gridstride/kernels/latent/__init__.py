"""Decoding with a latent KV cache (MLA): `latent_attention`, and the sources of its kernels. `latent_attention` needs
torch, so it is imported on first use.

The modules: `decoding` (the operator), `calls` (the launches for a problem), `sources` (assembles the CUDA C of
`*.cuh`), `programs` (standalone programs for `export`).
"""

from .sources import source
from ...support.lazy_exports import lazy_exports_of

PUBLIC_NAMES, __getattr__, __dir__ = lazy_exports_of(
    __name__, {'decoding': ('latent_attention', 'latent_attention_backend')}
)
__all__ = ['source', *PUBLIC_NAMES]
