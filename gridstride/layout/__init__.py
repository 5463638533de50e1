"""Layouts in memory: CuTe's shape:stride layouts, swizzles, Triton's linear layouts, and the cost of accessing them.

The modules: `strided` (CuTe's), `linear` (Triton's), `access` (the cost of a warp's access to a tile)."""

from .access import Cost, cost, picture, walk
from .linear import Linear
from .strided import Layout, Swizzle, Swizzled

__all__ = ['Cost', 'Layout', 'Linear', 'Swizzle', 'Swizzled', 'cost', 'picture', 'walk']
