"""Products of 16-bit floats with what follows them in the same kernel: a bias, an activation, a residual; of many
matrices at once; of groups of rows, each with a matrix of its own. Its modules need torch, and are looked up when they
are asked for.

The modules: `epilogues` (what follows a product), `mlps`, `batches` (`bmm`, `grouped_mm`), `calls` (which numbers for
which sizes), `launches`, `tiled` (plain products with any tile, for `tune`), `sources` (the text, `product.cuh`),
`programs` (what `export` writes).
"""

from .sources import Activation
from ...doors import front_door

_NAMES = {'epilogues': ('Epilogue', 'explain_with'), 'mlps': ('mlp',), 'batches': ('bmm', 'grouped_mm')}
TOOLS, __getattr__, __dir__ = front_door(__name__, _NAMES)
__all__ = ['Activation', *TOOLS]
