"""A GPU here: what NVIDIA's driver is asked for, and what it says.

`cuda.core` is NVIDIA's own Python interface to NVRTC and the driver; it comes with numba-cuda, and with
`pip install cuda-core`. Launches go to the driver's library itself, which takes a fraction of the time.
"""

import ctypes, sys, warnings
from contextlib import contextmanager, nullcontext
from functools import lru_cache

from ..diagnostics.errors import LaunchError

COOPERATIVE = 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE
_INVALID_CONTEXT, _MOST_SHARED = 201, 8  # CUDA_ERROR_INVALID_CONTEXT, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


@lru_cache
def driver():
    "The driver's library"
    lib = ctypes.CDLL('nvcuda.dll' if sys.platform == 'win32' else 'libcuda.so.1')
    lib.cuLaunchKernel.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    lib.cuLaunchCooperativeKernel.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 2]
    lib.cuKernelGetParamInfo.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.POINTER(ctypes.c_size_t)] * 2]
    lib.cuLibraryLoadData.argtypes = [ctypes.c_void_p, ctypes.c_char_p, *([*[ctypes.c_void_p] * 2, ctypes.c_uint] * 2)]
    lib.cuLibraryGetKernel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]
    lib.cuKernelSetAttribute.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    return lib


def core():
    "NVIDIA's `cuda.core`; `RuntimeError` says how to get it"
    try:
        try:
            from cuda import core
        except ImportError:
            from cuda.core import experimental as core
    except ImportError:
        raise RuntimeError('cuda_kernel on a GPU needs cuda-core: pip install cuda-core') from None
    return core


def arch() -> str:
    "What torch's current GPU is called by compilers, such as 'sm_90'"
    import torch

    return 'sm_{}{}'.format(*torch.cuda.get_device_capability())


@lru_cache
def _stream_by():
    "What gives the number of a device's current stream: what torch's own launches ask, else a slower public way"
    import torch

    return getattr(torch._C, '_cuda_getCurrentRawStream', None) or (
        lambda device: torch.cuda.current_stream(device).cuda_stream
    )


def current_stream(device: int) -> int:
    "The current stream of torch on that device, as the driver knows it"
    return _stream_by()(device)


def says(code: int) -> str:  # code: what a function of the driver returned
    "The name and the meaning of the driver's error"
    texts = [ctypes.c_char_p(), ctypes.c_char_p()]
    for t, f in zip(texts, ('cuGetErrorName', 'cuGetErrorString')):
        getattr(driver(), f)(code, ctypes.byref(t))
    return ': '.join(t.value.decode() for t in texts if t.value) or f'error {code}'


def allow(handle: int, name: str, shared: int):
    "Let a kernel use more bytes of dynamic shared memory than every kernel may; `LaunchError` if it is too much"
    import torch

    error = driver().cuKernelSetAttribute(_MOST_SHARED, shared, handle, torch.cuda.current_device())
    most = torch.cuda.get_device_properties().shared_memory_per_block_optin
    if error:
        what = f'{shared} bytes of dynamic shared memory; a block on this GPU has {most} at most'
        raise LaunchError(what, kernel=name)


_ALWAYS = 40 * 1024  # bytes of dynamic shared memory that need no leave: static memory counts among the 48 KiB, too


# What was allowed last counts for all launches of a kernel. It is noted at the kernel itself, since the driver gives
# the handle of one that is gone to another.
def let(
    kernel,  # with `handle` and `__name__`
    shared,
):
    "Let a kernel have so much dynamic shared memory on the current GPU, and what it was allowed for another launch"
    import torch

    if shared <= _ALWAYS:
        return
    allowed, device = vars(kernel).setdefault('allowed', {}), torch.cuda.current_device()
    if allowed.get(device, 0) < shared:
        allow(kernel.handle, kernel.__name__, shared)
        allowed[device] = shared


def enter():
    "Make the context of torch's current GPU that of this thread"
    import torch

    core().Device(torch.cuda.current_device()).set_current()


def in_context(call) -> int:
    """The driver's answer to `call()`.

    It is asked again in a thread in which torch has not worked yet, and that so has no context."""
    code = call()
    if code != _INVALID_CONTEXT:
        return code
    enter()
    return call()


def call_driver(call, name: str):
    "Call `call`, which asks the driver to launch the kernel `name`; `LaunchError` for what the driver says"
    if code := in_context(call):
        raise LaunchError(says(code), kernel=name)


def launch_by_driver(handle, name, grid, block, shared, stream, places, together=False):
    """Launch a kernel of the driver; `places` are the addresses of its arguments.

    `together`: all blocks must be there at once, as a barrier of the grid needs; `LaunchError` if they do not fit."""
    how = (handle, *grid, *block, shared, stream, places)
    if together:
        call_driver(lambda: driver().cuLaunchCooperativeKernel(*how), name)
    else:
        call_driver(lambda: driver().cuLaunchKernel(*how, None), name)


def load_machine_code(
    code: bytes,  # a cubin, which another program may have made
    name: str,  # of the kernel in it
) -> int:
    "The driver's handle of a kernel, which is kept; `OSError` without a driver, `RuntimeError` if it refuses"
    lib, library, kernel = driver(), ctypes.c_void_p(), ctypes.c_void_p()
    enter()
    error = lib.cuLibraryLoadData(ctypes.byref(library), code, None, None, 0, None, None, 0)
    error = error or lib.cuLibraryGetKernel(ctypes.byref(kernel), library, name.encode())
    if error:
        raise RuntimeError(says(error))
    return kernel.value


def size_of_parameter(handle: int, i: int) -> int:
    "Bytes of a kernel's `i`th parameter"
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    driver().cuKernelGetParamInfo(handle, i, ctypes.byref(offset), ctypes.byref(size))
    return size.value


# What a kernel prints on a GPU lies in a buffer until somebody waits, and then comes out of C, where a
# notebook may not see it. wurlitzer brings it over.
@contextmanager
def show_prints(prints: bool):  # does the source print at all?
    "What kernels print inside of the `with` block is shown at its end, where Python prints"
    if not prints:
        return (yield)
    import torch

    try:
        from wurlitzer import sys_pipes
    except ImportError:
        sys_pipes = nullcontext
    with nullcontext() if sys.stdout is sys.__stdout__ else sys_pipes():
        yield
        torch.cuda.synchronize()


@lru_cache
def warn_unchecked():
    "Say, once, that nothing is checked on a GPU"
    what = "checks=True: the detectors are the emulator's; on this GPU the code runs unchecked"
    warnings.warn(f'{what}. GRIDSTRIDE_BACKEND=sim runs it emulated', stacklevel=4)
