"""PTX, SASS, registers and occupancy of a kernel, with no GPU."""

from .limits import Occupancy, occupancy
from .listing import Listing, beside
from .report import Resources, ptx, recordings, resources, sass, ttgir
from ..cpp.build import CompileError, CompilerMissing

__all__ = [
    'Occupancy',
    'occupancy',
    'Listing',
    'beside',
    'Resources',
    'ptx',
    'recordings',
    'resources',
    'sass',
    'ttgir',
    'CompileError',
    'CompilerMissing',
]
