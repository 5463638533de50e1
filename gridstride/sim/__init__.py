"""The simulator: runs kernels in Numba's CUDA dialect on a CPU and reports their errors.

`sim.cuda` is the dialect, on any machine. The modules, in a good reading order:

- threads and their values: `lanes` (threads under masks), `arithmetic` (operators with Numba's types), `types` (Numba's
  names of types), `memory` (arrays), `records`;
- checks: `detectors` (memcheck, initcheck, racecheck), `synccheck`, `order` (happens-before of accesses),
  `happens_before` (of launches and copies), `errors` (explains Python's own errors);
- rewriting a thread's function for many lanes: `constants` (values known at compile time), `spin_wait` (finds kernels
  whose blocks wait for each other), `definition` (reads the `def`), `unassigned` (finds variables that may be read
  unassigned), `thread_dependence` (of indices), `trees` (walks syntax trees), `templates` (code as trees),
  `unsupported_syntax`, `rewrite` (of statements), `rewrite_expressions`, `program` (a rewritten function); and the
  functions that rewritten kernels call: `operations`, `python_functions` (`print`, `range`, `len`, ...), `array_loops`
  (loops and ufuncs over arrays);
- CUDA's own functions: `intrinsics` (indices, shared arrays, barriers, fences), `warps` (shuffles, votes), `atomics`,
  `cache_hints`, `scalars`, `vectors` (`float32x4` and the other vector types);
- a launch: `kernel` (the result of `jit`), `signatures` (declared parameter types), `arguments`, `launch`, `residents`
  (blocks that wait for others), `run` (the context of one launch);
- the names: `cuda` (Numba's), `host` (arrays on the device, streams, events), `host_memory` (pinned, mapped and
  managed arrays), `args` (`In`, `Out`), `elementwise` (`vectorize`, `reduce`, ...), `inspection` (PTX, LLVM IR
  and types from Numba's compiler), `random`, `libdevice`, `submodules` (of `numba.cuda`), `numba_testing`
  (`numba.cuda.testing`);
- also: `counters` (the counters of the hardware), `numba_reference` (runs a kernel in Numba's own simulator).
"""

from . import cuda
from .counters import trace
from .elementwise import guvectorize, vectorize
from ..diagnostics.errors import (
    Access,
    DeviceAssert,
    DeviceRaise,
    EarlyReturn,
    FencecheckError,
    InitcheckError,
    KernelCrash,
    KernelError,
    KernelTimeout,
    LaunchError,
    MemcheckError,
    NegativeIndex,
    NotCompiled,
    NotSimulated,
    RacecheckError,
    SameValueRace,
    SynccheckError,
    UnassignedVariable,
)
from .numba_reference import numba_simulator
from ..diagnostics.settings import options

__all__ = [
    'cuda',
    'trace',
    'guvectorize',
    'vectorize',
    'numba_simulator',
    'Access',
    'DeviceAssert',
    'DeviceRaise',
    'EarlyReturn',
    'FencecheckError',
    'InitcheckError',
    'KernelCrash',
    'KernelError',
    'KernelTimeout',
    'LaunchError',
    'MemcheckError',
    'NegativeIndex',
    'NotCompiled',
    'NotSimulated',
    'RacecheckError',
    'SameValueRace',
    'SynccheckError',
    'UnassignedVariable',
    'options',
]
