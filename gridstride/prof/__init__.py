"""PyTorch's profiler, Nsight Compute and Proton, as tables and pictures in the notebook.

One module per profiler: `trace` (PyTorch's), `counters` (Nsight Compute), `tree` (Proton). Beneath them: `show`
(tables, rates, names of kernels), `strip` (time from left to right), `isolate` (a notebook's function taken into a
program of its own, which Nsight Compute and Proton start).
"""

from .counters import ROOFLINE, SECTIONS, Ncu, ncu
from .trace import Profile, profile
from .tree import Timeline, Tree, proton, scope
from ..bench.recording import Unavailable

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
