"""Numba's CUDA dialect, run on the CPU: the same names as `numba.cuda`, so that the same kernel runs on both.

What is **not** modelled, and raises an error: dynamic parallelism, textures, cooperative groups beyond `this_grid`,
inline PTX, a third of libdevice's functions, strings and dates, a single record as argument, kernels whose source
cannot be read (made by `exec`), and time. Threads of a block run in lockstep, so two of them cannot wait for each other
in a loop (a GPU since Volta lets them); such a loop is reported, it never hangs. Blocks may wait for other blocks:
a kernel that polls flags by atomics has its blocks run one by one, and each yields when it has to wait. As many are
resident together as fit on an H100.

`sim.options(warp=64)` makes warps of 64 lanes, AMD's wavefronts: `warpsize`, `laneid`, masks and ballots (64 bits,
unsigned), shuffles, votes and matches, what `syncwarp` orders, and the counters (a request is one of 64 lanes; it
touches sectors of 32 bytes as before, and 32 banks serve 64 lanes of 4 bytes in two halves, those of 8 and 16 bytes
in four and eight parts, lane by lane in order). All else stays an H100's: that AMD's caches fetch lines of 64 or
128 bytes, which lanes its LDS serves together where they read 16 bytes each, that gfx950 has 64 banks, and that a
block has 64 kB of LDS or 160 is not modelled.

One type is determined late: a variable that is an integer in one branch and a float in another is a float in Numba,
and here has the type of the branch that threads took.
"""

from . import atomics, host, host_memory, inspection, intrinsics, scalars, types, warps
from .args import In, InOut, Out
from .atomics import *  # noqa: F403, a module of these names is what this one is
from .elementwise import Reduce, reduce
from .host import *  # noqa: F403
from .host_memory import *  # noqa: F403
from .inspection import *  # noqa: F403
from .intrinsics import *  # noqa: F403
from .kernel import Device, Kernel, declare_device, jit
from .scalars import *  # noqa: F403
from .vectors import NAMES as _VECTORS
from .warps import *  # noqa: F403
from ..diagnostics.settings import settings

_LAZY_NAMES = 'b1 boolean i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16 int8 int16 int32 int64'.split()
_LAZY_NAMES += 'uint8 uint16 uint32 uint64 float32 float64 complex64 complex128 void warpsize'.split()
__all__ = ['Device', 'In', 'InOut', 'Kernel', 'Out', 'Reduce', 'declare_device', 'jit', 'reduce', 'types', *_LAZY_NAMES]
__all__ += [*atomics.__all__, *host.__all__, *host_memory.__all__, *inspection.__all__, *intrinsics.__all__]
__all__ += [*scalars.__all__, *warps.__all__, *_VECTORS]
globals().update(_VECTORS)


def __getattr__(name):
    "Return `warpsize` (threads per warp, by the options) or one of Numba's rarer types; else raises `AttributeError`"
    if name == 'warpsize':
        return settings.warp
    if name in types.__all__:
        return getattr(types, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__():
    return sorted({*globals(), *__all__})
