"""PyTorch's profiler, Nsight Compute and Proton, as tables and pictures in the notebook.

One module per profiler: `trace` (PyTorch's), `counters` (Nsight Compute; `ncu_report` reads its report), `tree`
(Proton). They use `show` (tables, rates, names of kernels), `strip` (time from left to right) and `isolate` (slices a
function out of a notebook, with its dependencies, for Nsight Compute and Proton to run).
"""

from .counters import SECTIONS, ncu
from .ncu_report import ROOFLINE, Ncu
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
