"""The simulator: kernels in Numba's CUDA dialect on a CPU, that say why when they are wrong.

`sim.cuda` is the dialect, whatever the machine. The modules, in the order in which they are read best: `lanes`
(threads under masks), `arithmetic` (Numba's numbers), `types` (their names), `memory` (arrays), `detectors` (what is
looked for), `order` (which accesses are ordered), `waits` (do blocks wait for others?), `constants` (what is known when
a kernel is compiled), `rewrite` (from one thread's function to many lanes'), `functions` and `operations` (what
rewritten kernels call), `signatures` (what a kernel is declared to take), `run` and `launch` (a kernel at work), `cuda`
and `host` (Numba's names), `counters` (what the hardware would count), `numbas` (the same kernel in Numba's own
simulator, for comparison).
"""

from . import cuda
from .counters import trace
from ..findings import (
    Access,
    DeviceAssert,
    EarlyReturn,
    InitcheckError,
    KernelCrash,
    KernelError,
    KernelTimeout,
    LaunchError,
    MemcheckError,
    NotSimulated,
    RacecheckError,
    SameValueRace,
    SynccheckError,
)
from .numbas import in_numbas
from ..options import options

__all__ = [
    'cuda',
    'trace',
    'in_numbas',
    'Access',
    'DeviceAssert',
    'EarlyReturn',
    'InitcheckError',
    'KernelCrash',
    'KernelError',
    'KernelTimeout',
    'LaunchError',
    'MemcheckError',
    'NotSimulated',
    'RacecheckError',
    'SameValueRace',
    'SynccheckError',
    'options',
]
