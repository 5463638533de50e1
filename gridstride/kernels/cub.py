"""CUB, NVIDIA's library of memory-bound kernels, as a baseline: sum, inclusive scan and histogram of a tensor.

CUB is a library of templates: nvcc compiles the functions that are used here, once, in about 20 seconds. The workspace
of each call is allocated before the call and cached.
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
    "Return the function of the compiled library for a GPU such as `sm_90`"
    command = [nvcc(), '-O3', f'-arch={arch}', '-Xcompiler', '-fPIC', '-shared', '-o', 'cub.so', 'cub.cu']
    found = build({'cub.cu': _SOURCE}, [command], section='cub', shared=True).folder
    call = ctypes.CDLL(str(found / 'cub.so')).call
    pointer = ctypes.c_void_p
    call.argtypes = [ctypes.c_int] * 2 + [pointer] * 4 + [ctypes.c_longlong, pointer]
    return call


def _run(operation, n, like, workspace, bytes, x=None, out=None):
    "Call CUB for `n` elements of the type and device of `like`; returns the bytes of workspace that it needs"
    import torch

    major, minor = torch.cuda.get_device_capability(like.device)
    bytes_needed, stream = ctypes.c_size_t(bytes), torch.cuda.current_stream(like.device).cuda_stream
    call = _compiled_function(f'sm_{major}{minor}')
    if status := call(operation, like.dtype == torch.float32, workspace, ctypes.byref(bytes_needed), x, out, n, stream):
        raise RuntimeError(f'CUB failed with CUDA error {status}')
    return bytes_needed.value


@lru_cache(maxsize=8)
def _workspace(operation, n, dtype, device):
    "Return the workspace that CUB needs for `n` elements"
    import torch

    like = torch.empty(0, dtype=dtype, device=device)
    return torch.empty(max(1, _run(operation, n, like, None, 0)), dtype=torch.uint8, device=device)


def _checked_run(operation, x, out, types):
    "Check the tensor, run an operation of CUB, and return `out`"
    if not x.is_cuda:
        raise Unavailable('CUB runs on an NVIDIA GPU, and this tensor is not on one')
    if str(x.dtype).removeprefix('torch.') not in types or not x.is_contiguous() or not x.numel():
        found = f'{x.dtype}, {tuple(x.shape)}'
        raise ValueError(f'x must be a contiguous tensor of {" or ".join(types)}, and not empty; got {found}')
    workspace = _workspace(operation, x.numel(), x.dtype, x.device)
    _run(operation, x.numel(), x, workspace.data_ptr(), workspace.numel(), x.data_ptr(), out.data_ptr())
    return out


def total(
    x,  # contiguous tensor on the GPU, float32 or int32
    out,  # one element of the same type
):
    "Compute the sum by `cub::DeviceReduce`. Raises ValueError for other tensors, Unavailable without a GPU"
    return _checked_run(0, x, out, ('float32', 'int32'))


def running(
    x,  # contiguous tensor on the GPU, float32 or int32
    out,  # of the same shape and type
):
    "Compute the inclusive scan by `cub::DeviceScan`; raises as `total` does"
    return _checked_run(1, x, out, ('float32', 'int32'))


def histogram(
    x,  # contiguous tensor of bytes on the GPU
    out,  # 256 counters, int32
):
    "Count how often each byte occurs, by `cub::DeviceHistogram`; raises as `total` does"
    return _checked_run(2, x, out, ('uint8',))
