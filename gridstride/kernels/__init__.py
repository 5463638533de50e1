"""The course's kernels as tools: `matmul`, which picks the right one of many, what is as fast as the memory, what fuses
many operations into one pass, with its derivative, and what multiplies by weights of few bits, or mostly of zeros.

The modules, in the order in which they are read best:

- a ladder and its rungs: `rung` (one product, called like a function; `operands`: what it cannot take), `ladder`
  (checked and timed beside the library), `climb` (with a guess first), `lecture` and `fp32` (lessons 06 and 13),
  `tensor_cores` (21), `hopper` and `finals` (22), `trials` (what its rungs are tried with), `pictures`, `alone` (an
  instruction with nothing to wait for);
- more products: `split` (float32 by tensor cores), `thin` (a few columns), `halves` (16-bit floats in each layout);
- the tool: `choice` (which kernel, and why), `costs` (what kernels of bfloat16 take), `kept` (what `tune` measured, on
  disk), `calling` (`matmul` itself);
- what they are written with: `ptx` (instructions as functions), `tma` (models of who holds what), `maps` (tensor maps);
- rooms of tools, alike inside: `memory`, `fused`, `flash`, `latent`, `products`, `quant`, `sparse`; what they share:
  `tool` (looks at arguments, launches a `Call`), `operators` (how torch's compiler sees a launch), `texts` (what stands
  above a kernel), `layers` (swaps linear layers);
- `export` (kernels to take away; `standalone`: what such a program has), `cub` and `cublaslt` (NVIDIA's own, to be held
  against).
"""

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
