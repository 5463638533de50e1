"""Numba's CUDA dialect, run on the CPU: the same names as `numba.cuda`, so that a kernel does not know where it runs.

What is **not** modelled, and says so: dynamic parallelism, textures, cooperative groups beyond `this_grid`,
inline PTX and libdevice, `cuda.random`, vector types such as `float32x4`, strings and dates, a lone record as argument,
kernels whose source cannot be read (made by `exec`), and time. Threads of a block run in step, so two
of them cannot wait for each other in a loop (a GPU since Volta lets them); such a loop is reported, it never
hangs. Blocks may wait for other blocks: those of a kernel that looks at flags by atomics run one by one, and
each hands over where it looks in vain. As many are there together as an H100 has room for.

`sim.options(warp=64)` makes warps of 64 lanes, AMD's wavefronts: `warpsize`, `laneid`, masks and ballots (64 bits,
unsigned), shuffles, votes and matches, what `syncwarp` orders, and the counters (a request is one of 64 lanes; it
touches sectors of 32 bytes as before, and 32 banks serve 64 lanes of 4 bytes in two halves, those of 8 and 16 bytes
in four and eight parts, lane by lane in order). All else stays an H100's: that AMD's caches fetch lines of 64 or
128 bytes, which lanes its LDS serves together where they read 16 bytes each, that gfx950 has 64 banks, and that a
block has 64 kB of LDS or 160 is not modelled.

One thing is not reported: a variable that only some threads have assigned has some value in the others,
too. And one type is found out late: a variable that is an integer in one branch and a float in another is a
float in Numba, and here what the branch gave it that threads took.
"""

import functools
from types import FunctionType

from . import atomics, host, intrinsics, numbers, types, warps
from .atomics import *  # noqa: F403, a module of these names is what this one is
from .elementwise import Reduce, reduce  # noqa: F401, two of its names
from .host import *  # noqa: F403
from .host import DeviceArray
from .intrinsics import *  # noqa: F403
from .launch import launch, other_engine
from .numbers import *  # noqa: F403
from .rewrite import Program
from .signatures import as_declared, declared
from .warps import *  # noqa: F403
from ..findings import NotSimulated
from ..launching import Ready, launch_error, read_brackets, refuse_names
from ..options import checking, settings
from ..utils import cdiv

_ASKED_FOR = 'b1 boolean i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16 int8 int16 int32 int64'.split()
_ASKED_FOR += 'uint8 uint16 uint32 uint64 float32 float64 complex64 complex128 void warpsize'.split()
__all__ = ['Device', 'Kernel', 'Reduce', 'declare_device', 'jit', 'reduce', 'tracing', 'types', *_ASKED_FOR]
__all__ += [*atomics.__all__, *host.__all__, *intrinsics.__all__, *numbers.__all__, *warps.__all__]


def __getattr__(name):
    "`warpsize`: as many threads as a warp has by the options now; Numba's rarer types; `AttributeError` for all else"
    if name == 'warpsize':
        return settings.warp
    if name in types.__all__:
        return getattr(types, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__():
    return sorted({*globals(), *__all__})


tracing = []  # traces that are recording, the innermost last


class Kernel:
    "A kernel; `kernel[grid, block, stream, shared_bytes](*args)` runs it"

    def __init__(self, f, signatures=()):
        self.py_func, self._signatures = f, signatures
        functools.update_wrapper(self, f)

    @functools.cached_property
    def program(self):
        "The function, rewritten for lanes, once"
        return Program(self.py_func, kernel=True)

    def __getitem__(self, config):
        grid, block, _, shared = read_brackets(self.__name__, config)
        return Ready(self._launch, grid, block, shared)

    def __reduce__(self):
        "To another process goes the name, as of any function"
        return self.__qualname__

    def __call__(self, *args):
        raise launch_error(self.__name__, 'no_brackets')

    def _launch(self, grid, block, dynamic, /, *args, **named):
        refuse_names(self.__name__, named)
        args = as_declared(self.__name__, self.py_func.__code__.co_varnames, self._signatures, args)
        for a in args:
            if isinstance(a, DeviceArray) and not checking('initcheck'):
                a.mem.fresh = False  # what is written now is not noted
        trace = tracing[-1] if tracing else None
        if other := other_engine():
            return other.launch(self, grid, block, dynamic, args, trace)
        launch(self.program, grid, block, dynamic, args, trace)

    def configure(self, griddim, blockdim, stream=0, sharedmem=0):
        "The same as the brackets"
        return self[griddim, blockdim, stream, sharedmem]

    def forall(self, ntasks, tpb=0, stream=0, sharedmem=0):
        "A launch with a thread for each of `ntasks` tasks"
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        tpb = tpb or 256
        return Ready(self._launch, cdiv(ntasks, tpb), tpb, sharedmem) if ntasks else lambda *args: None

    def specialize(self, *args):
        "This kernel: here nothing depends on the types"
        return self

    extensions, overloads = (), {}


class Device:
    "A device function, to be called from kernels"

    def __init__(self, f):
        self.py_func = f
        functools.update_wrapper(self, f)

    @functools.cached_property
    def program(self):
        "The function, rewritten for lanes, once"
        return Program(self.py_func)

    def __call__(self, *args):
        raise RuntimeError(f'{self.__name__} is a device function: call it from a kernel')

    def lanes(self, run, m, site, *args, **kw):
        "Call it for the lanes of the mask `m`"
        return self.program(run, m, *args, **kw)


def declare_device(name, sig, link=None):
    "Numba's way to call CUDA C from a kernel: `NotSimulated`, since there is no GPU code here to link"
    what = f'declare_device({name!r}), a function in CUDA C'
    raise NotSimulated(what, 'Write it in Python, with @cuda.jit(device=True).')


def jit(
    func_or_sig=None,
    device=False,
    inline=False,
    link=(),
    debug=None,
    opt=None,
    cache=False,
    fastmath=False,
    lineinfo=False,
    max_registers=None,
    **kws,
):
    """A kernel, or with `device=True` a device function; compiler options change nothing here, nor do signatures of
    device functions. What a kernel's do, `signatures` tells"""
    if isinstance(func_or_sig, FunctionType):
        return (Device if device else Kernel)(func_or_sig)
    return Device if device else functools.partial(Kernel, signatures=declared(func_or_sig))
