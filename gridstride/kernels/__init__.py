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

_ASKED_FOR = {  # what needs torch from its first line on
    'fused': _FUSED,
    'quant': _QUANT,
    'flash': _FLASH,
    'sparse': _SPARSE,
    'latent': _LATENT,
    'products': _PRODUCTS,
    'calling': ('matmul',),
}
_LATER, __getattr__, __dir__ = front_door(__name__, _ASKED_FOR)
__all__ = ['Ladder', 'right', 'explain', 'plan', 'tune', 'using', 'Rung', 'Activation']
__all__ += ['argmax', 'histogram', 'scan', 'sum', 'transpose', *_LATER]
