"""Numba's CUDA dialect, run on the CPU: the same names as `numba.cuda`, so that the same kernel runs on both.

The following is **not** modelled, and raises an error: dynamic parallelism, textures, cooperative groups beyond
`this_grid`, inline PTX, a third of libdevice's functions, strings and dates, and kernels whose source cannot be read.
Time is not modelled either. The threads of a block run in lockstep, so two of them cannot wait for each other in a
loop, which GPUs since Volta allow; the simulator reports such a loop. Blocks may wait for other blocks: the blocks of a
kernel that polls flags by atomics run one by one, and a block yields when it has to wait. As many blocks are resident
at once as fit on an H100.

`sim.options(warp=64)` makes warps of 64 lanes, like the wavefronts of AMD. It changes `warpsize`, `laneid`, masks and
ballots (64 bits, unsigned), shuffles, votes, matches, the threads that `syncwarp` orders, and the counters: a request
has 64 lanes, and 32 banks serve 64 lanes of 4 bytes in two halves, of 8 bytes in four parts and of 16 bytes in eight.
Everything else is as on an H100, so these properties of AMD's GPUs are not modelled: cache lines of 64 or 128 bytes,
the order in which LDS serves lanes that read 16 bytes each, the 64 banks of gfx950, and 64 or 160 kB of LDS per block.

If a variable is an integer in one branch and a float in another, its type differs from Numba's: in Numba it is a float,
in the simulator it has the type of the branch that threads take.
"""

from . import atomics, cache_hints, host, host_memory, inspection, intrinsics, scalars, types, warps
from .args import In, InOut, Out
from .atomics import *  # noqa: F403, this module has all names of `numba.cuda`
from .cache_hints import *  # noqa: F403
from .elementwise import Reduce, reduce
from .host import *  # noqa: F403
from .host_memory import *  # noqa: F403
from .inspection import *  # noqa: F403
from .intrinsics import *  # noqa: F403
from .kernel import Device, Kernel, declare_device, jit
from .scalars import *  # noqa: F403
from .vectors import NAMES as _VECTOR_TYPES
from .warps import *  # noqa: F403
from ..diagnostics.settings import settings

_LAZY_NAMES = 'b1 boolean i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16 int8 int16 int32 int64'.split()
_LAZY_NAMES += 'uint8 uint16 uint32 uint64 float32 float64 complex64 complex128 void warpsize'.split()
__all__ = ['Device', 'In', 'InOut', 'Kernel', 'Out', 'Reduce', 'declare_device', 'jit', 'reduce', 'types', *_LAZY_NAMES]
__all__ += [*atomics.__all__, *cache_hints.__all__, *host.__all__, *host_memory.__all__]
__all__ += [*inspection.__all__, *intrinsics.__all__]
__all__ += [*scalars.__all__, *warps.__all__, *_VECTOR_TYPES]
globals().update(_VECTOR_TYPES)


def __getattr__(name):
    "Return `warpsize` as set by the options, or a type that is not in `__all__`; else raises `AttributeError`"
    if name == 'warpsize':
        return settings.warp
    if name in types.__all__:
        return getattr(types, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__():
    return sorted({*globals(), *__all__})
