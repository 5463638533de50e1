"""Where things lie: CuTe's shape:stride layouts, swizzles, Triton's linear layouts, and what reading them costs.

The modules: `strided` (CuTe's), `linear` (Triton's), `access` (what a warp pays for a tile that lies so)."""

from .access import Cost, cost, picture, walk
from .linear import Linear
from .strided import Layout, Swizzle, Swizzled

__all__ = ['Cost', 'Layout', 'Linear', 'Swizzle', 'Swizzled', 'cost', 'picture', 'walk']
