"""PyTorch's profiler, Nsight Compute and Proton, as tables and pictures in the notebook."""

from .counters import ROOFLINE, SECTIONS, Ncu, ncu
from .trace import Profile, profile
from .tree import Timeline, Tree, proton, scope
from ..recording import Unavailable

__all__ = [
    'ROOFLINE',
    'SECTIONS',
    'Ncu',
    'ncu',
    'Profile',
    'profile',
    'Timeline',
    'Tree',
    'proton',
    'scope',
    'Unavailable',
]
