"""Functions decorated with `cuda.jit`: kernels, which the host launches, and device functions, which kernels call."""

import functools
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from .args import ArgHint, make_copies
from .host import DeviceArray
from .host_memory import HostArray
from .inspection import InspectableKernel, Overload, Overloads
from .launch import launch, other_engine
from .program import Program
from .signatures import convert_to_declared, declared_types, record_types
from ..diagnostics.errors import NotSimulated
from ..diagnostics.launch_config import ConfiguredKernel, launch_error, read_brackets, require_positional
from ..diagnostics.settings import is_check_enabled
from ..utils import cdiv

__all__ = ['Device', 'Kernel', 'declare_device', 'jit', 'active_traces']


def require_function(fn):
    "Raise `TypeError` unless a kernel can be made of `fn`"
    if not isinstance(fn, FunctionType):
        raise TypeError(f'cuda.jit expects a Python function; got {fn!r}')


def _is_copied_back(argument, stream):
    "Return whether an argument is a host array that the launch copies back, so that the host waits"
    if isinstance(argument, HostArray):
        # A stream copies to a pinned array asynchronously, so the host does not wait
        return not stream and argument.mem is not None and argument.mem.is_pinned
    return isinstance(argument, (np.ndarray, ArgHint))


active_traces = []  # traces that record launches, the innermost one last


class Kernel(InspectableKernel):
    "A kernel; `kernel[grid, block, stream, shared_bytes](*args)` launches it"

    _device = False  # Numba's simulator marks device functions by this attribute, its compiler by the next one
    targetoptions = {'device': False}

    def __init__(self, fn, signatures=(), extensions=()):
        require_function(fn)
        self.py_func, self._signatures = fn, signatures
        self.extensions = list(extensions)  # objects whose `prepare_args` may replace an argument, as Numba calls it
        self._types_of_launches = {}  # key of `signatures.record_types` -> argument types of a launch
        functools.update_wrapper(self, fn)

    @functools.cached_property
    def program(self):
        "The vectorized function"
        return Program(self.py_func, is_kernel=True)

    def __getitem__(self, config):
        grid, block, stream, shared = read_brackets(self.__name__, config)
        return ConfiguredKernel(self._launch, grid, block, shared, stream)

    def __reduce__(self):
        "Pickle a kernel by its name, as Python does with functions"
        return self.__qualname__

    def __call__(self, *args):
        raise launch_error(self.__name__, 'no_brackets')

    def load(self, ctx, active, config, site):
        "Raise `NotSimulated` for a launch inside a kernel"
        raise ctx.unsupported_error(
            site, active, f'a kernel cannot launch {self.__name__}', 'Launch it from the host, afterwards.'
        )

    def _launch(self, grid, block, dynamic_shared_bytes, stream, /, *args, **keywords):
        require_positional(self.__name__, keywords)
        args = self._prepare(args, stream) if self.extensions else args
        host_waits = any(_is_copied_back(a, stream) for a in args)
        args, copy_back = make_copies(args) if any(isinstance(a, ArgHint) for a in args) else (args, None)
        if not self._signatures:
            record_types(self._types_of_launches, args)
        args = convert_to_declared(self.__name__, self.py_func.__code__.co_varnames, self._signatures, args)
        for a in args:
            if isinstance(a, DeviceArray) and not is_check_enabled('initcheck'):
                a.mem.tracks_init = False  # this launch may write to it, and nothing tracks that
        trace = active_traces[-1] if active_traces else None
        if engine := other_engine():
            engine.launch(self, grid, block, dynamic_shared_bytes, args, trace)
        else:
            launch(self.program, grid, block, dynamic_shared_bytes, args, trace, stream, host_waits)
        if copy_back is not None:
            copy_back()

    def configure(self, griddim, blockdim, stream=0, sharedmem=0):
        "Configure a launch, as `kernel[...]` does"
        return self[griddim, blockdim, stream, sharedmem]

    def forall(self, ntasks, tpb=0, stream=0, sharedmem=0):
        "Configure a launch for `ntasks` tasks, with one thread per task"
        if ntasks < 0:
            raise ValueError(f"Can't create ForAll with negative task count: {ntasks}")
        tpb = tpb or 256
        return (
            ConfiguredKernel(self._launch, cdiv(ntasks, tpb), tpb, sharedmem, stream) if ntasks else lambda *args: None
        )

    def specialize(self, *args):
        "Return this kernel: the simulator does not specialize kernels by types"
        return self

    @property
    def overloads(self):
        "Return {signature: `Overload`} of the declared signatures, or else of the launches"
        signatures = self._signatures or self._types_of_launches.values()
        return Overloads({signature: Overload(self, signature) for signature in signatures if None not in signature})

    @property
    def signatures(self):
        "Return the declared signatures, or the signatures of the launches if none is declared"
        return list(self.overloads)

    def _prepare(self, args, stream):
        "Let the extensions replace arguments; the last one is called first, as in Numba"
        prepared = []
        for value in args:
            for extension in reversed(self.extensions):
                _, value = extension.prepare_args(None, value, stream=stream, retr=[])
            prepared.append(value)
        return prepared


class Device:
    "A device function, called from kernels"

    _device, targetoptions = True, {'device': True}

    def __init__(self, fn):
        self.py_func = fn
        functools.update_wrapper(self, fn)

    @functools.cached_property
    def program(self):
        "The vectorized function"
        return Program(self.py_func)

    def __call__(self, *args):
        raise RuntimeError(f'{self.__name__} is a device function: call it from a kernel')

    __getitem__ = __call__

    def lane_function(self, ctx, active, site, /, *args, **kw):
        "Call the function in the lanes of `active`"
        return self.program.call(ctx, active, site, args, kw)


def declare_device(name, sig, link=None):
    "Raise `NotSimulated`: the simulator cannot link a CUDA C function"
    raise NotSimulated(
        f'the simulator cannot link {name!r}, a function in CUDA C', 'Write it in Python, with @cuda.jit(device=True).'
    )


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
    extensions=(),
    **kws,
) -> Any:  # a `Kernel`; with `device=True` a `Device`; without a function, a decorator that makes one
    """Decorate a function: return a kernel, or with `device=True` a device function.

    Compiler options and the signatures of device functions have no effect; module `signatures` describes the
    signatures of kernels. Raises `TypeError` for an object that is not a Python function."""
    if isinstance(func_or_sig, FunctionType):
        return Device(func_or_sig) if device else Kernel(func_or_sig, extensions=extensions)
    if isinstance(func_or_sig, (int, type, BuiltinFunctionType)):
        require_function(func_or_sig)
    return (
        Device if device else functools.partial(Kernel, signatures=declared_types(func_or_sig), extensions=extensions)
    )
