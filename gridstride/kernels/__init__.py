"""The course's kernels as tools: `matmul`, which picks the right one of many, what is as fast as the memory, what fuses
many operations into one pass, with its derivative, and what multiplies by weights of few bits, or mostly of zeros."""

from .ladder import Ladder, right
from .choice import explain, plan, tune, using
from .flash import TOOLS as _FLASH
from .fused import TOOLS as _FUSED
from .latent import TOOLS as _LATENT
from .memory import argmax, histogram, scan, sum, transpose
from .products import Activation, TOOLS as _PRODUCTS
from .quant import TOOLS as _QUANT
from .rung import Rung
from .sparse import TOOLS as _SPARSE
from ..doors import front_door

# what needs torch from its first line on
_ROOM_OF = {o: 'fused' for o in _FUSED} | {o: 'quant' for o in _QUANT} | {o: 'flash' for o in _FLASH}
_ROOM_OF |= {o: 'sparse' for o in _SPARSE} | {o: 'latent' for o in _LATENT} | {o: 'products' for o in _PRODUCTS}
_ROOM_OF |= {'matmul': 'calling'}

__all__ = ['Ladder', 'right', 'explain', 'plan', 'tune', 'using', 'Rung', 'Activation']
__all__ += ['argmax', 'histogram', 'scan', 'sum', 'transpose', *_ROOM_OF]
__getattr__, __dir__ = front_door(__name__, _ROOM_OF)
