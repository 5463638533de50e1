"""Timing: results are checked first, candidates interleaved, compared with measured ceilings, with warnings.

The modules, in the order in which they are read best: `timing` (`bench`: one kernel), `clocks` (what a run is timed
with), `reading` (what does nothing but read), `stats` (what many measurements say), `versus` (`compare`: several
candidates, interleaved), `limits` (`ceilings`, measured on this machine), `roof` (`roofline`), `columns` (one call
timed in five ways, by counted cycles).

Next to it: `recording` (what only a GPU can show, kept for readers without one; claims about it) and `variants` (a
kernel with some words changed, and contests among variants).
"""

from .limits import Ceilings, H100, ceilings
from .reading import reads
from .roof import Roofline, from_ncu, from_trace, roofline
from .timing import Timing, bench
from .versus import Comparison, Sweep, compare

__all__ = [
    'Ceilings',
    'H100',
    'ceilings',
    'reads',
    'Roofline',
    'from_ncu',
    'from_trace',
    'roofline',
    'Timing',
    'bench',
    'Comparison',
    'Sweep',
    'compare',
]
