"""CUB, NVIDIA's library of such kernels, to be held against: sum, running sum and histogram of a tensor.

It is a library of templates, so nvcc compiles what is used here, once, in some 20 seconds. What CUB keeps for itself
while it works is made before, not in the call.
"""

import ctypes
from functools import lru_cache

from ..cpp.toolchain.compilers import nvcc
from ..cpp.toolchain.cache import build
from ..bench.recording import Unavailable

__all__ = ['total', 'running', 'histogram']

_SOURCE = r"""
#include <cub/cub.cuh>

template<class T> cudaError_t run(int what, void *workspace, size_t &bytes, const void *x, void *out, long long n,
        cudaStream_t stream) {
    if (what == 0) return cub::DeviceReduce::Sum(workspace, bytes, (const T*)x, (T*)out, n, stream);
    if (what == 1) return cub::DeviceScan::InclusiveSum(workspace, bytes, (const T*)x, (T*)out, n, stream);
    auto bytes_in = (const unsigned char*)x;
    return cub::DeviceHistogram::HistogramEven(workspace, bytes, bytes_in, (int*)out, 257, 0, 256, (int)n, stream);
}

extern "C" int call(int what, int real, void *workspace, size_t *bytes, const void *x, void *out, long long n,
        void *stream) {
    auto f = real ? run<float> : run<int>;
    return f(what, workspace, *bytes, x, out, n, (cudaStream_t)stream);
}
"""


@lru_cache
def _library(arch):
    "The compiled library for a GPU such as `sm_90`"
    command = [nvcc(), '-O3', f'-arch={arch}', '-Xcompiler', '-fPIC', '-shared', '-o', 'cub.so', 'cub.cu']
    found = build({'cub.cu': _SOURCE}, [command], section='cub', shared=True).folder
    call = ctypes.CDLL(str(found / 'cub.so')).call
    pointer = ctypes.c_void_p
    call.argtypes = [ctypes.c_int] * 2 + [pointer] * 4 + [ctypes.c_longlong, pointer]
    return call


def _run(what, n, like, workspace, bytes, x=None, out=None):
    "One call of CUB for `n` elements of the type and device of `like`; returns the bytes of workspace that it needs"
    import torch

    major, minor = torch.cuda.get_device_capability(like.device)
    need, stream = ctypes.c_size_t(bytes), torch.cuda.current_stream(like.device).cuda_stream
    call = _library(f'sm_{major}{minor}')
    if status := call(what, like.dtype == torch.float32, workspace, ctypes.byref(need), x, out, n, stream):
        raise RuntimeError(f'CUB failed with error {status} of CUDA')
    return need.value


@lru_cache(maxsize=8)
def _workspace(what, n, dtype, device):
    "The workspace that CUB needs"
    import torch

    like = torch.empty(0, dtype=dtype, device=device)
    return torch.empty(max(1, _run(what, n, like, None, 0)), dtype=torch.uint8, device=device)


def _call(what, x, out, types):
    "Look at the tensors, and let CUB run; gives `out`"
    if not x.is_cuda:
        raise Unavailable('CUB runs on an NVIDIA GPU, and this tensor is not on one')
    if str(x.dtype).removeprefix('torch.') not in types or not x.is_contiguous() or not x.numel():
        given = f'{x.dtype}, {tuple(x.shape)}'
        raise ValueError(f'CUB is called here for contiguous tensors of {" or ".join(types)}, not for {given}')
    workspace = _workspace(what, x.numel(), x.dtype, x.device)
    _run(what, x.numel(), x, workspace.data_ptr(), workspace.numel(), x.data_ptr(), out.data_ptr())
    return out


def total(
    x,  # contiguous tensor on the GPU, float32 or int32
    out,  # one number of the same type
):
    "The sum by `cub::DeviceReduce`; `ValueError` for other tensors, `Unavailable` without a GPU"
    return _call(0, x, out, ('float32', 'int32'))


def running(
    x,  # contiguous tensor on the GPU, float32 or int32
    out,  # of the same shape and type
):
    "The inclusive running sum by `cub::DeviceScan`; errors as `total`"
    return _call(1, x, out, ('float32', 'int32'))


def histogram(
    x,  # contiguous tensor of bytes on the GPU
    out,  # 256 counters, int32
):
    "Count how often each byte occurs, by `cub::DeviceHistogram`; errors as `total`"
    return _call(2, x, out, ('uint8',))
