"""CUB, NVIDIA's library of memory-bound kernels, as a baseline: sum, inclusive scan and histogram of a tensor.

CUB is a library of C++ templates: nvcc compiles the three functions once, which takes about 20 seconds. Workspaces are
allocated once per size and cached.
"""

import ctypes
from functools import lru_cache

from ..cpp.toolchain.compilers import nvcc
from ..cpp.toolchain.cache import build
from ..bench.recording import Unavailable

__all__ = ['total', 'running', 'histogram']

_SOURCE = r"""
#include <cub/cub.cuh>

template<class T> cudaError_t run(int operation, void *workspace, size_t &bytes, const void *x, void *out, long long n,
        cudaStream_t stream) {
    if (operation == 0) return cub::DeviceReduce::Sum(workspace, bytes, (const T*)x, (T*)out, n, stream);
    if (operation == 1) return cub::DeviceScan::InclusiveSum(workspace, bytes, (const T*)x, (T*)out, n, stream);
    auto bytes_in = (const unsigned char*)x;
    return cub::DeviceHistogram::HistogramEven(workspace, bytes, bytes_in, (int*)out, 257, 0, 256, (int)n, stream);
}

extern "C" int call(int operation, int is_float, void *workspace, size_t *bytes, const void *x, void *out, long long n,
        void *stream) {
    auto f = is_float ? run<float> : run<int>;
    return f(operation, workspace, *bytes, x, out, n, (cudaStream_t)stream);
}
"""


@lru_cache
def _compiled_function(arch):
    "Compile the library for an architecture such as `sm_90`, and return its function `call`"
    command = [nvcc(), '-O3', f'-arch={arch}', '-Xcompiler', '-fPIC', '-shared', '-o', 'cub.so', 'cub.cu']
    folder = build({'cub.cu': _SOURCE}, [command], section='cub', shared=True).folder
    call = ctypes.CDLL(str(folder / 'cub.so')).call
    pointer = ctypes.c_void_p
    call.argtypes = [ctypes.c_int] * 2 + [pointer] * 4 + [ctypes.c_longlong, pointer]
    return call


def _run(operation, n, like, workspace, workspace_bytes, x=None, out=None):
    """Run an operation of CUB on `n` elements of the dtype and device of `like`; without a workspace, only return the
    bytes that it needs"""
    import torch

    major, minor = torch.cuda.get_device_capability(like.device)
    bytes_needed, stream = ctypes.c_size_t(workspace_bytes), torch.cuda.current_stream(like.device).cuda_stream
    call = _compiled_function(f'sm_{major}{minor}')
    if status := call(operation, like.dtype == torch.float32, workspace, ctypes.byref(bytes_needed), x, out, n, stream):
        raise RuntimeError(f'CUB failed with CUDA error {status}')
    return bytes_needed.value


@lru_cache(maxsize=8)
def _workspace(operation, n, dtype, device):
    "Allocate the workspace that CUB needs for `n` elements"
    import torch

    like = torch.empty(0, dtype=dtype, device=device)
    return torch.empty(max(1, _run(operation, n, like, None, 0)), dtype=torch.uint8, device=device)


def _check_and_run(operation, x, out, dtypes):
    "Check the tensor, run an operation of CUB, and return `out`"
    if not x.is_cuda:
        raise Unavailable(f'CUB runs on an NVIDIA GPU, but x is on {x.device}')
    if str(x.dtype).removeprefix('torch.') not in dtypes or not x.is_contiguous() or not x.numel():
        actual = f'{x.dtype}, {tuple(x.shape)}' + ('' if x.is_contiguous() else ', not contiguous')
        raise ValueError(f'x must be a contiguous, non-empty tensor of {" or ".join(dtypes)}; got {actual}')
    workspace = _workspace(operation, x.numel(), x.dtype, x.device)
    _run(operation, x.numel(), x, workspace.data_ptr(), workspace.numel(), x.data_ptr(), out.data_ptr())
    return out


def total(
    x,  # contiguous tensor on the GPU, float32 or int32
    out,  # one element of the same type
):
    "Compute the sum with `cub::DeviceReduce`. Raises ValueError for other tensors, Unavailable without a GPU"
    return _check_and_run(0, x, out, ('float32', 'int32'))


def running(
    x,  # contiguous tensor on the GPU, float32 or int32
    out,  # of the same shape and type
):
    "Compute the inclusive scan with `cub::DeviceScan`. Raises the errors of `total`"
    return _check_and_run(1, x, out, ('float32', 'int32'))


def histogram(
    x,  # contiguous tensor of bytes on the GPU
    out,  # 256 counters, int32
):
    "Count how often each byte value occurs, with `cub::DeviceHistogram`. Raises the errors of `total`"
    return _check_and_run(2, x, out, ('uint8',))
