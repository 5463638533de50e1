"""Timing of kernels: check the result, interleave candidates, compare with measured ceilings, and warn about
unreliable times.

The modules, in reading order: `timing` (`bench`: one kernel), `clocks` (the clocks that time a run), `reading` (a
read-only kernel), `stats` (statistics of repeated measurements), `versus` (`compare`: several candidates,
interleaved), `limits` (`ceilings`, measured on this machine), `roof` (`roofline`), `columns` (one call timed in five
ways, with the measured clock rate).

Besides timing: `recording` (results that require a GPU, stored for readers without one, and claims about them), `keys`
(a hash of everything that determines a recorded result) and `variants` (a kernel with small changes, and comparisons of
variants).
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
