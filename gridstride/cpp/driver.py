"""NVIDIA's driver: launches, streams and errors of the GPU of this machine.

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
    "Return the driver's library"
    lib = ctypes.CDLL('nvcuda.dll' if sys.platform == 'win32' else 'libcuda.so.1')
    lib.cuLaunchKernel.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    lib.cuLaunchCooperativeKernel.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 2]
    lib.cuKernelGetParamInfo.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.POINTER(ctypes.c_size_t)] * 2]
    lib.cuLibraryLoadData.argtypes = [ctypes.c_void_p, ctypes.c_char_p, *([*[ctypes.c_void_p] * 2, ctypes.c_uint] * 2)]
    lib.cuLibraryGetKernel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]
    lib.cuKernelSetAttribute.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    return lib


def core():
    "Import NVIDIA's `cuda.core`; raises `RuntimeError` that error_string how to install it"
    try:
        try:
            from cuda import core
        except ImportError:
            from cuda.core import experimental as core
    except ImportError:
        raise RuntimeError('cuda_kernel on a GPU needs cuda-core: pip install cuda-core') from None
    return core


def arch() -> str:
    "Return the compute capability of torch's current GPU as compilers write it, such as 'sm_90'"
    import torch

    return 'sm_{}{}'.format(*torch.cuda.get_device_capability())


@lru_cache
def _stream_by():
    "Return the function that gives a device's current stream: torch's internal one, else a slower public one"
    import torch

    return getattr(torch._C, '_cuda_getCurrentRawStream', None) or (
        lambda device: torch.cuda.current_stream(device).cuda_stream
    )


def current_stream(device: int) -> int:
    "Return the handle of torch's current stream on that device"
    return _stream_by()(device)


def error_string(code: int) -> str:  # code: the result of a driver function
    "Return the name and the description of a driver error"
    texts = [ctypes.c_char_p(), ctypes.c_char_p()]
    for t, f in zip(texts, ('cuGetErrorName', 'cuGetErrorString')):
        getattr(driver(), f)(code, ctypes.byref(t))
    return ': '.join(t.value.decode() for t in texts if t.value) or f'error {code}'


def set_max_dynamic_smem(handle: int, name: str, shared: int):
    "Set a kernel's maximum dynamic shared memory; raises `LaunchError` if it is too much for the GPU"
    import torch

    error = driver().cuKernelSetAttribute(_MOST_SHARED, shared, handle, torch.cuda.current_device())
    most = torch.cuda.get_device_properties().shared_memory_per_block_optin
    if error:
        what = f'{shared} bytes of dynamic shared memory; a block on this GPU has {most} at most'
        raise LaunchError(what, kernel=name)


_ALWAYS = 40 * 1024  # bytes of dynamic shared memory that need no attribute: 48 KiB, less some static shared memory


# The last value set holds for all launches of a kernel. It is stored with the kernel itself, since the driver reuses
# the handle of a kernel that was freed.
def ensure_max_dynamic_smem(
    kernel,  # with `handle` and `__name__`
    shared,
):
    "Make sure that a kernel may use this much dynamic shared memory on the current GPU; it never lowers the limit"
    import torch

    if shared <= _ALWAYS:
        return
    allowed, device = vars(kernel).setdefault('allowed', {}), torch.cuda.current_device()
    if allowed.get(device, 0) < shared:
        set_max_dynamic_smem(kernel.handle, kernel.__name__, shared)
        allowed[device] = shared


def make_context_current():
    "Make the context of torch's current GPU the current one of this thread"
    import torch

    core().Device(torch.cuda.current_device()).set_current()


def in_context(call) -> int:
    """Return the driver's result of `call()`.

    In a thread that has no context yet, because torch has not run there, it enters torch's context and calls again."""
    code = call()
    if code != _INVALID_CONTEXT:
        return code
    make_context_current()
    return call()


def call_driver(call, name: str):
    "Call `call`, which launches the kernel `name` by the driver; raises `LaunchError` if the driver returns an error"
    if code := in_context(call):
        raise LaunchError(error_string(code), kernel=name)


def launch_by_driver(handle, name, grid, block, shared, stream, pointers, together=False):
    """Launch a kernel by the driver; `pointers` are the addresses of its arguments.

    `together`: a cooperative launch, with all blocks resident; raises `LaunchError` if they do not fit."""
    how = (handle, *grid, *block, shared, stream, pointers)
    if together:
        call_driver(lambda: driver().cuLaunchCooperativeKernel(*how), name)
    else:
        call_driver(lambda: driver().cuLaunchKernel(*how, None), name)


def load_machine_code(
    code: bytes,  # a cubin, which another program may have made
    name: str,  # of the kernel in it
) -> int:
    "Load a kernel and return its handle, cached; raises `OSError` without a driver, `RuntimeError` for its errors"
    lib = driver()
    library = ctypes.c_void_p()
    kernel = ctypes.c_void_p()
    make_context_current()
    error = lib.cuLibraryLoadData(ctypes.byref(library), code, None, None, 0, None, None, 0)
    error = error or lib.cuLibraryGetKernel(ctypes.byref(kernel), library, name.encode())
    if error:
        raise RuntimeError(error_string(error))
    return kernel.value


def size_of_parameter(handle: int, i: int) -> int:
    "Return the bytes of a kernel's `i`th parameter"
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    driver().cuKernelGetParamInfo(handle, i, ctypes.byref(offset), ctypes.byref(size))
    return size.value


# What a kernel prints on a GPU stays in a buffer until the host synchronizes, and then comes out of C, where a
# notebook may not see it. wurlitzer forwards it.
@contextmanager
def show_prints(prints: bool):  # does the source print at all?
    "Show what kernels print in the `with` block at its end, where Python prints"
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
    "Warn, once, that nothing is checked on a GPU"
    what = "checks=True: the detectors are the emulator's; on this GPU the code runs unchecked"
    warnings.warn(f'{what}. GRIDSTRIDE_BACKEND=sim runs it emulated', stacklevel=4)
