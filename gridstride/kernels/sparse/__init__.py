"""Sparse matrices: their formats, and matrix multiplication that skips the zeros. The modules need torch, so they are
imported on first use.

The modules: `formats` (2:4 sparsity in plain torch), `two_four`, `blocks` and `csr` (multiplication by 2:4, block and
unstructured sparsity), `linear` (`TwoFourLinear`), `model_conversion` (`prune_24` and `densify`), `launches` (with
tensor maps), `sources` (assembles the CUDA C of `*.cuh`), `programs` (standalone programs for `export`).
"""

from ...support.lazy_exports import lazy_exports_of

_NAMES = {
    'model_conversion': ('prune_24', 'densify'),
    'linear': ('TwoFourLinear',),
    'two_four': ('TwoFourMatrix', 'multiply_24', 'pack_24', 'unpack_24'),
    'blocks': ('BlockSparseMatrix', 'multiply_blocks', 'prune_blocks', 'to_blocks', 'from_blocks'),
    'csr': ('CsrMatrix', 'multiply_csr', 'prune_single', 'to_csr', 'from_csr'),
}
PUBLIC_NAMES = 'prune_24', 'densify'
__all__, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
