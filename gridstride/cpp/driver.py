"""Calls the CUDA driver: launches, streams and errors on the GPU of this machine.

`cuda.core` is NVIDIA's own Python interface to NVRTC and the driver; it comes with numba-cuda, and with
`pip install cuda-core`. Launches call the driver's library directly, which takes a fraction of the time.
"""

import ctypes, sys, threading, warnings
from contextlib import contextmanager, nullcontext
from functools import lru_cache

from ..diagnostics.errors import LaunchError, learner_stacklevel

# CU_LAUNCH_ATTRIBUTE_COOPERATIVE, _CLUSTER_DIMENSION, _PROGRAMMATIC_STREAM_SERIALIZATION
COOPERATIVE_ATTRIBUTE, CLUSTER_ATTRIBUTE, PDL_ATTRIBUTE = 2, 4, 6
_INVALID_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
_MAX_DYNAMIC_SMEM = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_NON_PORTABLE_CLUSTERS = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED


class _LaunchAttribute(ctypes.Structure):
    "The driver's CUlaunchAttribute"

    _fields_ = [('id', ctypes.c_int), ('pad', ctypes.c_int), ('values', ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    "The driver's CUlaunchConfig"

    _fields_ = [(name, ctypes.c_uint) for name in ('gx', 'gy', 'gz', 'bx', 'by', 'bz', 'shared')] + [
        ('stream', ctypes.c_void_p),
        ('attributes', ctypes.POINTER(_LaunchAttribute)),
        ('num_attributes', ctypes.c_uint),
    ]


def launch_config(grid, block, shared, stream, attributes) -> LaunchConfig:
    "Return the driver's CUlaunchConfig; `attributes`: (ID, values) of each launch attribute"
    structures = [_LaunchAttribute(id_, 0, (ctypes.c_uint * 16)(*values)) for id_, values in attributes]
    array = (_LaunchAttribute * len(structures))(*structures)
    return LaunchConfig(*grid, *block, shared, stream, array, len(structures))


@lru_cache
def driver():
    "Load the driver's shared library"
    lib = ctypes.CDLL('nvcuda.dll' if sys.platform == 'win32' else 'libcuda.so.1')
    lib.cuLaunchKernelEx.argtypes = [ctypes.c_void_p] * 4
    lib.cuKernelGetParamInfo.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.POINTER(ctypes.c_size_t)] * 2]
    lib.cuLibraryLoadData.argtypes = [ctypes.c_void_p, ctypes.c_char_p, *([*[ctypes.c_void_p] * 2, ctypes.c_uint] * 2)]
    lib.cuLibraryGetKernel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]
    lib.cuKernelSetAttribute.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    return lib


_import_lock = threading.Lock()  # `cuda.core` fails permanently if several threads import it at once


def core():
    "Import NVIDIA's `cuda.core`; raises `RuntimeError` with the command that installs it"
    try:
        with _import_lock:
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
def _stream_getter():
    "Return a function that returns a device's current stream: torch's internal function, or else a slower public one"
    import torch

    return getattr(torch._C, '_cuda_getCurrentRawStream', None) or (
        lambda device: torch.cuda.current_stream(device).cuda_stream
    )


def current_stream(device: int) -> int:
    "Return the handle of torch's current stream on that device"
    return _stream_getter()(device)


def error_string(code: int) -> str:  # code: the result of a driver function
    "Return the name and the description of a driver error"
    strings = [ctypes.c_char_p(), ctypes.c_char_p()]
    for string, function in zip(strings, ('cuGetErrorName', 'cuGetErrorString')):
        getattr(driver(), function)(code, ctypes.byref(string))
    return ': '.join(string.value.decode() for string in strings if string.value) or f'error {code}'


def set_max_dynamic_smem(handle: int, name: str, shared: int):
    "Set the maximum of a kernel's dynamic shared memory, in bytes; raises `LaunchError` if the GPU has less"
    import torch

    error = driver().cuKernelSetAttribute(_MAX_DYNAMIC_SMEM, shared, handle, torch.cuda.current_device())
    limit = torch.cuda.get_device_properties().shared_memory_per_block_optin
    if error:
        message = f'requested {shared} bytes of dynamic shared memory, but this GPU allows {limit} per block'
        raise LaunchError(message, kernel=name)


def allow_large_clusters(handle: int, name: str):
    "Allow a kernel's clusters to have more than 8 blocks; raises `LaunchError` if the GPU does not support it"
    import torch

    if error := driver().cuKernelSetAttribute(_NON_PORTABLE_CLUSTERS, 1, handle, torch.cuda.current_device()):
        raise LaunchError(f'clusters of more than 8 blocks are not supported here: {error_string(error)}', kernel=name)


# Bytes of dynamic shared memory that a kernel may use without the attribute. The limit is 48 KiB including static
# arrays, for which this reserves 8 KiB.
_SMEM_WITHOUT_ATTRIBUTE = 40 * 1024


# The attribute applies to all later launches of a kernel. Its value is stored with the kernel object, not by handle,
# because the driver reuses the handle of a kernel that was freed.
def ensure_max_dynamic_smem(
    kernel,  # with `handle` and `__name__`
    shared,  # bytes
):
    "Raise the limit of a kernel's dynamic shared memory on the current GPU to `shared`, unless it is higher already"
    import torch

    if shared <= _SMEM_WITHOUT_ATTRIBUTE:
        return
    max_smem, device = vars(kernel).setdefault('max_smem', {}), torch.cuda.current_device()
    if max_smem.get(device, 0) < shared:
        set_max_dynamic_smem(kernel.handle, kernel.__name__, shared)
        max_smem[device] = shared


def make_context_current():
    "Make the context of torch's current GPU current in this thread"
    import torch

    core().Device(torch.cuda.current_device()).set_current()


def call_in_context(call) -> int:
    """Return the driver's result of `call()`.

    If the thread has no context because torch has not run in it, make torch's context current and call again."""
    code = call()
    if code != _INVALID_CONTEXT:
        return code
    make_context_current()
    return call()


def call_driver(call, name: str):
    "Run `call`, a driver call that launches the kernel `name`; raises `LaunchError` if the driver returns an error"
    if code := call_in_context(call):
        raise LaunchError(error_string(code), kernel=name)


def launch_by_driver(handle, name, grid, block, shared, stream, pointers, attributes=()):
    """Launch a kernel through the driver; `pointers` are the addresses of its arguments.

    `attributes`: (ID, values) of each launch attribute. Raises `LaunchError`, for example if the blocks of a
    cooperative launch cannot all be resident."""
    config = launch_config(grid, block, shared, stream, attributes)
    call_driver(lambda: driver().cuLaunchKernelEx(ctypes.byref(config), handle, pointers, None), name)


def load_machine_code(
    code: bytes,  # a cubin
    name: str,  # of the kernel in it
) -> int:
    "Load a kernel and return its handle; raises `OSError` if there is no driver, `RuntimeError` if it returns an error"
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
    "Return the size of a kernel's parameter `i`, in bytes"
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    driver().cuKernelGetParamInfo(handle, i, ctypes.byref(offset), ctypes.byref(size))
    return size.value


# The output of `printf` in a kernel stays in a buffer of the GPU until the host synchronizes. The driver then writes it
# to C's stdout, which a notebook does not show; wurlitzer forwards it to Python's.
@contextmanager
def forward_printf(has_printf: bool):  # whether the source calls printf
    "Forward the output of kernels that run in the `with` block to Python's stdout, at the end of the block"
    if not has_printf:
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
    "Warn, once, that kernels are not checked on a GPU"
    message = "checks=True has no effect on a GPU: only the emulator has detectors"
    warnings.warn(f'{message}. Set GRIDSTRIDE_BACKEND=sim to use the emulator', stacklevel=learner_stacklevel())
