"""The simulator: runs kernels in Numba's CUDA dialect on a CPU and reports what is wrong with them.

`sim.cuda` is the dialect, on any machine. The modules, in a good reading order:

- threads and their values: `lanes` (threads under masks), `arithmetic` (Numba's number types), `types` (their names in
  Numba), `memory` (arrays), `records`;
- what may be wrong: `detectors` (what is checked), `order` (which accesses are ordered), `happens_before` (which
  launches and copies are), `errors` (Python's own errors, explained);
- from one thread's function to many lanes': `constants` (what is known at compile time), `spin_wait` (does the kernel
  wait for other blocks?), `definition` (its `def`), `unassigned` (variables), `trees` (syntax trees), `templates` (code
  as trees), `unsupported_syntax`, `rewrite`, `program` (a rewritten function), and what rewritten kernels call:
  `operations`, `python_functions` (`print`, `range`, `len`, ...);
- CUDA's own functions: `intrinsics` (indices, shared arrays, barriers, fences), `warps` (shuffles, votes), `atomics`,
  `scalars`, `vectors` (`float32x4` and the other vector types);
- a running kernel: `kernel` (what `jit` makes), `signatures` (declared argument types), `arguments`, `launch`,
  `residents` (blocks that wait for others), `run` (the context of one launch);
- the names: `cuda` (Numba's), `host` (arrays on the device, streams, events), `host_memory` (pinned, mapped and
  managed arrays), `args` (`In`, `Out`), `elementwise` (kernels that Numba writes itself), `inspection` (what Numba's
  compiler makes of a kernel), `random`, `libdevice`, `below` (the modules below `numba.cuda`);
- next to it: `counters` (what the hardware would count), `numba_reference` (the same kernel in Numba's own simulator).
"""

from . import cuda
from .counters import trace
from .elementwise import guvectorize, vectorize
from ..diagnostics.errors import (
    Access,
    DeviceAssert,
    DeviceRaise,
    EarlyReturn,
    InitcheckError,
    KernelCrash,
    KernelError,
    KernelTimeout,
    LaunchError,
    MemcheckError,
    NotCompiled,
    NotSimulated,
    RacecheckError,
    SameValueRace,
    SynccheckError,
    UnassignedVariable,
)
from .numba_reference import in_numbas
from ..diagnostics.settings import options

__all__ = [
    'cuda',
    'trace',
    'guvectorize',
    'vectorize',
    'in_numbas',
    'Access',
    'DeviceAssert',
    'DeviceRaise',
    'EarlyReturn',
    'InitcheckError',
    'KernelCrash',
    'KernelError',
    'KernelTimeout',
    'LaunchError',
    'MemcheckError',
    'NotCompiled',
    'NotSimulated',
    'RacecheckError',
    'SameValueRace',
    'SynccheckError',
    'UnassignedVariable',
    'options',
]
