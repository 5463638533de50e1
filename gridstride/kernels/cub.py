"""Baselines from CUB, NVIDIA's library of parallel primitives: sum, inclusive scan and histogram of a tensor; sort and
compaction of 32-bit words.

CUB consists of C++ templates, so nvcc must compile the functions; this takes about 20 seconds for the first three, and
a minute for the others, once. A workspace is allocated at the first call with a size, and cached.
"""

import ctypes
from functools import lru_cache

from ..cpp.toolchain.compilers import nvcc
from ..cpp.toolchain.cache import build
from ..bench.recording import Unavailable

__all__ = ['sum', 'scan', 'histogram', 'sort', 'sort_pairs', 'compact']

_SUM, _SCAN, _HISTOGRAM = range(3)  # as in `Operation` below
_SOURCE = r"""
#include <cub/cub.cuh>

enum Operation { SUM, SCAN, HISTOGRAM };

template<class T> cudaError_t run(int operation, void *workspace, size_t &workspace_bytes, const void *x, void *out,
        long long n, cudaStream_t stream) {
    if (operation == SUM)
        return cub::DeviceReduce::Sum(workspace, workspace_bytes, (const T*)x, (T*)out, n, stream);
    if (operation == SCAN)
        return cub::DeviceScan::InclusiveSum(workspace, workspace_bytes, (const T*)x, (T*)out, n, stream);
    auto samples = (const unsigned char*)x;
    return cub::DeviceHistogram::HistogramEven(
        workspace, workspace_bytes, samples, (int*)out, 257, 0, 256, (int)n, stream);
}

extern "C" int run_operation(int operation, int is_float, void *workspace, size_t *workspace_bytes, const void *x,
        void *out, long long n, void *stream) {
    auto f = is_float ? run<float> : run<int>;
    return f(operation, workspace, *workspace_bytes, x, out, n, (cudaStream_t)stream);
}
"""

_ORDERING_SOURCE = r"""
#include <cub/cub.cuh>

extern "C" int sort(void *workspace, size_t *bytes, const unsigned *x, unsigned *out, const unsigned *values,
        unsigned *out_values, long long n, void *stream) {
    if (!values) return cub::DeviceRadixSort::SortKeys(workspace, *bytes, x, out, (int)n, 0, 32, (cudaStream_t)stream);
    return cub::DeviceRadixSort::SortPairs(
        workspace, *bytes, x, out, values, out_values, (int)n, 0, 32, (cudaStream_t)stream);
}

extern "C" int compact(void *workspace, size_t *bytes, const unsigned *x, unsigned *out, const unsigned char *keep,
        int *total, long long n, void *stream) {
    return cub::DeviceSelect::Flagged(workspace, *bytes, x, keep, out, total, (int)n, (cudaStream_t)stream);
}
"""


@lru_cache
def _ordering_library(arch):
    "Compile the functions `sort` and `compact` for an architecture such as `sm_90`"
    command = [nvcc(), '-O3', f'-arch={arch}', '-Xcompiler', '-fPIC', '-shared', '-o', 'order.so', 'order.cu']
    folder = build({'order.cu': _ORDERING_SOURCE}, [command], section='cub', shared=True).folder
    library = ctypes.CDLL(str(folder / 'order.so'))
    for function in library.sort, library.compact:
        function.argtypes = [ctypes.c_void_p] * 6 + [ctypes.c_longlong, ctypes.c_void_p]
    return library


def _sort_or_compact(name, x, *others):
    "Run `sort` or `compact` on a tensor of 32-bit words; `others`: the other tensors, or None"
    import torch

    if not x.is_cuda:
        raise Unavailable(f'CUB runs on an NVIDIA GPU, but x is on {x.device}')
    if x.element_size() != 4 or not x.is_contiguous() or not 0 < x.numel() < 2**31:
        raise ValueError(
            f'x must be a contiguous, non-empty tensor of 32-bit elements; got {x.dtype}, {tuple(x.shape)}'
        )
    major, minor = torch.cuda.get_device_capability(x.device)
    function = getattr(_ordering_library(f'sm_{major}{minor}'), name)
    stream, size = torch.cuda.current_stream(x.device).cuda_stream, ctypes.c_size_t()
    pointers = [None if tensor is None else tensor.data_ptr() for tensor in (x, *others)]

    def call(workspace):
        if status := function(workspace, ctypes.byref(size), *pointers, x.numel(), stream):
            raise RuntimeError(f'CUB failed with CUDA error {status}')

    call(None)  # computes the size of the workspace
    workspace = torch.empty(max(1, size.value), dtype=torch.uint8, device=x.device)
    call(workspace.data_ptr())


@lru_cache
def _compiled_function(arch):
    "Compile the library for an architecture such as `sm_90`, and return its function `run_operation`"
    command = [nvcc(), '-O3', f'-arch={arch}', '-Xcompiler', '-fPIC', '-shared', '-o', 'cub.so', 'cub.cu']
    folder = build({'cub.cu': _SOURCE}, [command], section='cub', shared=True).folder
    run_operation = ctypes.CDLL(str(folder / 'cub.so')).run_operation
    pointer = ctypes.c_void_p
    run_operation.argtypes = [ctypes.c_int] * 2 + [pointer] * 4 + [ctypes.c_longlong, pointer]
    return run_operation


def _run(operation, num_elements, like, workspace, workspace_bytes, x=None, out=None):
    """Run an operation of CUB on `num_elements` elements of the dtype and device of `like`.

    Returns the size of its workspace in bytes. If `workspace` is None, CUB only computes this size."""
    import torch

    major, minor = torch.cuda.get_device_capability(like.device)
    workspace_size, stream = ctypes.c_size_t(workspace_bytes), torch.cuda.current_stream(like.device).cuda_stream
    run_operation = _compiled_function(f'sm_{major}{minor}')
    is_float, size_pointer = like.dtype == torch.float32, ctypes.byref(workspace_size)
    if status := run_operation(operation, is_float, workspace, size_pointer, x, out, num_elements, stream):
        raise RuntimeError(f'CUB failed with CUDA error {status}')
    return workspace_size.value


@lru_cache(maxsize=8)
def _workspace(operation, num_elements, dtype, device):
    "Allocate the workspace that CUB needs for `num_elements` elements"
    import torch

    like = torch.empty(0, dtype=dtype, device=device)
    return torch.empty(max(1, _run(operation, num_elements, like, None, 0)), dtype=torch.uint8, device=device)


def _check_and_run(operation, x, out, dtypes):
    "Check the tensor, run an operation of CUB, and return `out`"
    if not x.is_cuda:
        raise Unavailable(f'CUB runs on an NVIDIA GPU, but x is on {x.device}')
    if str(x.dtype).removeprefix('torch.') not in dtypes or not x.is_contiguous() or not x.numel():
        x_description = f'{x.dtype}, {tuple(x.shape)}' + ('' if x.is_contiguous() else ', not contiguous')
        raise ValueError(f'x must be a contiguous, non-empty tensor of {" or ".join(dtypes)}; got {x_description}')
    workspace = _workspace(operation, x.numel(), x.dtype, x.device)
    _run(operation, x.numel(), x, workspace.data_ptr(), workspace.numel(), x.data_ptr(), out.data_ptr())
    return out


def sum(
    x,  # contiguous tensor on the GPU, float32 or int32
    out,  # one element of the same dtype
):
    "Compute the sum with `cub::DeviceReduce`. Raises ValueError for other tensors, Unavailable without a GPU"
    return _check_and_run(_SUM, x, out, ('float32', 'int32'))


def scan(
    x,  # contiguous tensor on the GPU, float32 or int32
    out,  # of the same shape and type
):
    "Compute the inclusive scan with `cub::DeviceScan`. Raises errors as `sum` does"
    return _check_and_run(_SCAN, x, out, ('float32', 'int32'))


def histogram(
    x,  # contiguous tensor of bytes on the GPU
    out,  # 256 counters, int32
):
    "Count how often each byte value occurs, with `cub::DeviceHistogram`. Raises errors as `sum` does"
    return _check_and_run(_HISTOGRAM, x, out, ('uint8',))


def sort(
    x,  # contiguous tensor on the GPU, uint32
    out,  # of the same shape and type
):
    "Sort with `cub::DeviceRadixSort`. Raises errors as `sum` does"
    _sort_or_compact('sort', x, out, None, None)
    return out


def sort_pairs(
    x,  # as for `sort`
    values,  # of the same shape, 32-bit words
    out,
    out_values,  # like `x` and `values`
):
    "Sort and permute the values with `cub::DeviceRadixSort`. Raises errors as `sum` does"
    _sort_or_compact('sort', x, out, values, out_values)
    return out, out_values


def compact(
    x,  # contiguous tensor on the GPU, 32-bit words
    keep,  # bool, of the same shape
    out,  # like `x`
    total,  # one int32: the number of selected elements
):
    "Select elements with `cub::DeviceSelect`. Raises errors as `sum` does"
    _sort_or_compact('compact', x, out, keep, total)
    return out, total
