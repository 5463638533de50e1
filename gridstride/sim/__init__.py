"""The simulator: kernels in Numba's CUDA dialect on a CPU, that say why when they are wrong.

`sim.cuda` is the dialect, whatever the machine. The modules, in the order in which they are read best:

- threads and what they compute with: `lanes` (threads under masks), `arithmetic` (Numba's numbers), `types` (what these
  are called), `memory` (arrays), `records`;
- what may be wrong: `detectors` (what is looked for), `order` (which accesses are ordered), `happens_before` (which
  launches and copies are), `errors` (what Python says);
- from one thread's function to many lanes': `constants` (what is known when a kernel is compiled), `spin_wait` (does it
  wait for other blocks?), `definition` (its `def`), `unassigned` (variables), `trees` (walked), `rewrite`, and what
  rewritten kernels call: `operations`, `functions` (Python's own);
- CUDA's own functions: `intrinsics` (positions, shared arrays, barriers, fences), `warps` (shuffles, votes), `atomics`,
  `numbers`, `vectors` (`float32x4` and its kin);
- a kernel at work: `kernel` (what `jit` makes), `signatures` (what it is declared to take), `arguments`, `launch`,
  `residents` (blocks that wait for others), `run` (one launch, as all of these see it);
- the names: `cuda` (Numba's), `host` (arrays on the device, streams, events), `host_memory` (pinned, mapped and
  managed arrays), `args` (`In`, `Out`), `elementwise` (kernels that Numba writes itself), `inspection` (what Numba's
  compiler makes of a kernel), `random`, `libdevice`, `below` (the modules below `numba.cuda`);
- beside it: `counters` (what the hardware would count), `numba_reference` (the same kernel in Numba's own simulator).
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
