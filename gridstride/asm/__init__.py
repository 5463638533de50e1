"""PTX, SASS, registers and occupancy of a kernel, with no GPU.

The modules, in the order in which they are read best: `report` (`ptx`, `sass`, `ttgir`, `resources`: what a learner
calls), `kernels` (which kernel is meant, and how it is compiled), `tools` (NVIDIA's compilers, where they are found),
`python` (kernels of Numba, the simulator and Triton), `read` (instructions out of what the tools print), `listing`
(what is shown of them), `limits` (occupancy), `elsewhere` and `languages` (AMD's compiler, and tile languages).
"""

from .limits import Occupancy, occupancy
from .listing import Listing, side_by_side
from .report import Resources, ptx, recordings, resources, sass, ttgir
from ..cpp.toolchain.build import CompileError
from ..cpp.toolchain.compilers import CompilerMissing

__all__ = [
    'Occupancy',
    'occupancy',
    'Listing',
    'side_by_side',
    'Resources',
    'ptx',
    'recordings',
    'resources',
    'sass',
    'ttgir',
    'CompileError',
    'CompilerMissing',
]
