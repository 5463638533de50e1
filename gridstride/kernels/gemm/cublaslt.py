"""NVIDIA's GEMMs, as a baseline: `heuristic_kernels` returns the kernels that cublasLt's heuristic selects for a shape.

torch uses the first one, which is not the fastest for some shapes. The library is the one that torch has loaded;
its functions and constants are documented in NVIDIA's `cublasLt.h`.
"""

import ctypes
import re
from ctypes import POINTER, byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import lru_cache
from pathlib import Path

from ...cpp.driver import current_stream
from ...bench.recording import Unavailable

__all__ = ['heuristic_kernels', 'HeuristicKernel']

_TYPES = dict(float32=0, float16=2, bfloat16=14)  # cudaDataType
_COMPUTE_FLOAT = 68  # CUBLAS_COMPUTE_32F: float32 accumulation without TF32
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4  # CUBLASLT_MATMUL_DESC_TRANSA and _TRANSB
_MAX_WORKSPACE = 1  # CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
WORKSPACE = 32 * 2**20  # bytes of workspace per GEMM, as torch allocates on Hopper
# CUBLASLT_ALGO_CONFIG_*: name -> (attribute, type of the value)
_CONFIG = dict(
    algorithm=(0, c_int32), tile=(1, ctypes.c_uint32), split=(2, c_int32), stages=(6, ctypes.c_uint32),
    cluster=(8, ctypes.c_uint16),
)  # fmt: skip


class Algorithm(ctypes.Structure):
    "The opaque struct cublasLtMatmulAlgo_t of cublasLt"

    _fields_ = [('data', c_uint64 * 8)]


class HeuristicResult(ctypes.Structure):
    "The struct cublasLtMatmulHeuristicResult_t of cublasLt"

    _fields_ = [
        ('algorithm', Algorithm),
        ('workspace', c_size_t),
        ('state', c_int),
        ('waves', c_float),
        ('reserved', c_int * 4),
    ]


# functions of the library -> types of their parameters
_SIGNATURES = dict(
    cublasLtCreate=[POINTER(c_void_p)],
    cublasLtMatmulDescCreate=[POINTER(c_void_p), c_int, c_int],
    cublasLtMatmulDescSetAttribute=[c_void_p, c_int, c_void_p, c_size_t],
    cublasLtMatmulDescDestroy=[c_void_p],
    cublasLtMatrixLayoutCreate=[POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64],
    cublasLtMatrixLayoutDestroy=[c_void_p],
    cublasLtMatmulPreferenceCreate=[POINTER(c_void_p)],
    cublasLtMatmulPreferenceSetAttribute=[c_void_p, c_int, c_void_p, c_size_t],
    cublasLtMatmulPreferenceDestroy=[c_void_p],
    cublasLtMatmulAlgoGetHeuristic=[*[c_void_p] * 7, c_int, POINTER(HeuristicResult), POINTER(c_int)],
    cublasLtMatmulAlgoConfigGetAttribute=[c_void_p, c_int, c_void_p, c_size_t, POINTER(c_size_t)],
    cublasLtMatmul=[*[c_void_p] * 14, c_size_t, c_void_p],
)


def loaded_library_path(maps: str) -> str:  # maps: the contents of /proc/self/maps
    "Return the path of the cublasLt that a process has loaded; raises `Unavailable` if it has loaded none"
    match = re.search(r'/\S*libcublasLt\.so\S*', maps)
    if not match:
        raise Unavailable('cublasLt is not loaded; CUDA builds of torch for Linux include it')
    return match[0]


def declare_signatures(library):
    "Declare the parameter types of the library's functions; returns the library"
    for name, types in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = types, c_int
    return library


@lru_cache
def load_library():
    "Return the cublasLt that torch has loaded"
    import torch

    torch.cuda.init()
    return declare_signatures(ctypes.CDLL(loaded_library_path(Path('/proc/self/maps').read_text())))


def call_library(library, name, *args):
    "Call a function of the library; raises `RuntimeError` if it returns an error"
    if status := getattr(library, name)(*args):
        raise RuntimeError(f'{name} returned cublasStatus_t {status}')


def create_object(library, name, *args):
    "Call a function that creates an object; returns its handle"
    handle = c_void_p()
    call_library(library, name, byref(handle), *args)
    return handle


@lru_cache
def _handle(device_index):
    "Return a cublasLt handle for a GPU"
    return create_object(load_library(), 'cublasLtCreate')


@lru_cache
def _workspace(device_index):
    "Return the workspace that all GEMMs on a GPU share"
    import torch

    return torch.empty(WORKSPACE, dtype=torch.uint8, device=f'cuda:{device_index}')


# The library is column-major: it reads a row-major matrix as its transpose. So it computes the transposed product
# B^T @ A^T, whose column-major result is C in row-major order.
def column_major(M, N, K, layout):
    """Convert a row-major GEMM (M x K) @ (K x N) to the library's column-major order.

    Returns three tuples: (is transposed, rows, columns) of B and of A as the library reads them, and (rows, columns) of
    its result."""
    is_a_transposed, is_b_transposed = layout[0] == 't', layout[1] == 't'
    return (
        (is_b_transposed, K if is_b_transposed else N, N if is_b_transposed else K),
        (is_a_transposed, M if is_a_transposed else K, K if is_a_transposed else M),
        (N, M),
    )


class Problem:
    "The library's descriptors of a GEMM (M x K) @ (K x N)"

    def __init__(self, M, N, K, dtype, layout, library=None):
        self.library, cuda_type = library or load_library(), _TYPES[dtype]
        first_operand, second_operand, result = column_major(M, N, K, layout)
        self.matmul_desc = create_object(self.library, 'cublasLtMatmulDescCreate', _COMPUTE_FLOAT, _TYPES['float32'])
        for attribute, (is_transposed, _, _) in ((_TRANSPOSE_A, first_operand), (_TRANSPOSE_B, second_operand)):
            self._set_attribute('cublasLtMatmulDescSetAttribute', self.matmul_desc, attribute, c_int32(is_transposed))
        sizes = first_operand[1:], second_operand[1:], result
        self.layouts = [
            create_object(self.library, 'cublasLtMatrixLayoutCreate', cuda_type, *size, size[0]) for size in sizes
        ]
        self.preference = create_object(self.library, 'cublasLtMatmulPreferenceCreate')
        max_workspace = c_size_t(WORKSPACE)
        self._set_attribute('cublasLtMatmulPreferenceSetAttribute', self.preference, _MAX_WORKSPACE, max_workspace)

    def _set_attribute(self, function, descriptor, attribute, value):
        "Set an attribute of one of the library's descriptors with the library's `function`"
        call_library(self.library, function, descriptor, attribute, byref(value), ctypes.sizeof(value))

    def heuristic_results(self, handle, count):
        "Return up to `count` algorithms that the library's heuristic selects, the fastest by its estimate first"
        results, num_results, (first, second, result) = (HeuristicResult * count)(), c_int(), self.layouts
        args = handle, self.matmul_desc, first, second, result, result, self.preference, count, results, num_results
        call_library(self.library, 'cublasLtMatmulAlgoGetHeuristic', *args)
        return [result for result in results[: num_results.value] if result.state == 0]

    def __del__(self):
        if hasattr(self, 'preference'):
            self.library.cublasLtMatmulPreferenceDestroy(self.preference)
            self.library.cublasLtMatmulDescDestroy(self.matmul_desc)
            for layout in self.layouts:
                self.library.cublasLtMatrixLayoutDestroy(layout)


class HeuristicKernel:
    "A heuristic result, called like a kernel: `kernel(stored_a, stored_b, out)`; the heuristic ranks `rank` 0 first"

    def __init__(self, problem, heuristic_result, rank):
        self.problem, self.heuristic_result, self.rank = problem, heuristic_result, rank
        self._alpha, self._beta = c_float(1), c_float(0)  # out = alpha * A @ B + beta * out

    @property
    def config(self) -> dict:
        "The library's configuration of this kernel: tile, stages, split-K, cluster"
        config = {}
        for name, (attribute, c_type) in _CONFIG.items():
            value, size = c_type(), c_size_t()
            args = byref(self.heuristic_result.algorithm), attribute, byref(value), ctypes.sizeof(value), byref(size)
            call_library(self.problem.library, 'cublasLtMatmulAlgoConfigGetAttribute', *args)
            config[name] = value.value
        return config

    @property
    def name(self):
        "The name in tables: cublasLt and the rank"
        return f'cublasLt {self.rank}'

    def __call__(self, stored_a, stored_b, out):
        "Compute A @ B into `out`; the library's first operand is B"
        device, problem, result = stored_a.get_device(), self.problem, out.data_ptr()
        first_layout, second_layout, result_layout = problem.layouts
        inputs = stored_b.data_ptr(), first_layout, stored_a.data_ptr(), second_layout
        workspace = _workspace(device).data_ptr(), self.heuristic_result.workspace
        operands = byref(self._alpha), *inputs, byref(self._beta), *(result, result_layout) * 2
        options = byref(self.heuristic_result.algorithm), *workspace, current_stream(device)
        call_library(problem.library, 'cublasLtMatmul', _handle(device), problem.matmul_desc, *operands, *options)
        return out


def heuristic_kernels(
    stored_a,
    stored_b,  # contiguous: (M, K) and (K, N); with layout 'tn' A is stored as (K, M), with 'nt' B as (N, K)
    layout='nn',
    count=8,  # maximum number of kernels
) -> list:  # of `HeuristicKernel`, in the library's order
    """Return the kernels that cublasLt's heuristic selects for a GEMM.

        heuristic_kernels(A, B)[0](A, B, out)

    Raises Unavailable without a cublasLt."""
    M, K = stored_a.shape[::-1] if layout[0] == 't' else stored_a.shape
    N = stored_b.shape[0] if layout[1] == 't' else stored_b.shape[1]
    problem = Problem(M, N, K, str(stored_a.dtype).removeprefix('torch.'), layout)
    results = problem.heuristic_results(_handle(stored_a.get_device()), count)
    return [HeuristicKernel(problem, result, rank) for rank, result in enumerate(results)]
