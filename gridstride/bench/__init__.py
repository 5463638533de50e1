"""Honest timing: checked first, in turns, against measured ceilings, and with the reasons to doubt it."""

from .limits import Ceilings, H100, ceilings, reads
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
