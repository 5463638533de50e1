"""Show PTX, SASS, registers and occupancy of a kernel, without a GPU.

The modules, in reading order: `report` (`ptx`, `sass`, `ttgir`, `resources`: the public functions), `kernels` (kernels
in CUDA C), `tools` (finds and calls NVIDIA's compilers), `python` (kernels of Numba, the simulator and Triton), `read`
(parses the output of the tools), `listing` (displays instructions), `limits` (occupancy), `elsewhere` and `languages`
(AMD's compiler, and tile languages), `magic` (`%%cuda --sass sm_100a`).
"""

from .limits import Occupancy, occupancy
from .listing import Listing, side_by_side
from .magic import load_ipython_extension
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
    'load_ipython_extension',
    'CompileError',
    'CompilerMissing',
]
