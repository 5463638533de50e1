"""NVIDIA's matrix products, as a baseline: `picks` returns the algorithms that cublasLt proposes for a shape.

torch uses the first proposal, which is not the fastest for some shapes. The library is the one that torch has loaded;
its functions and constants are documented in NVIDIA's `cublasLt.h`.
"""

import ctypes
import re
from ctypes import POINTER, byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import lru_cache
from pathlib import Path

from ...cpp.driver import current_stream
from ...bench.recording import Unavailable

__all__ = ['picks', 'Pick']

_TYPES = dict(float32=0, float16=2, bfloat16=14)  # cudaDataType
_COMPUTE_FLOAT = 68  # CUBLAS_COMPUTE_32F: float32 accumulation without TF32
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4  # CUBLASLT_MATMUL_DESC_TRANSA and _TRANSB
_MAX_WORKSPACE = 1  # CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
WORKSPACE = 32 * 2**20  # bytes of workspace per product: as many as torch allocates on Hopper
# CUBLASLT_ALGO_CONFIG_*: name -> (attribute, type of the value)
_CONFIG = dict(
    algorithm=(0, c_int32), tile=(1, ctypes.c_uint32), split=(2, c_int32), stages=(6, ctypes.c_uint32),
    cluster=(8, ctypes.c_uint16),
)  # fmt: skip


class Algorithm(ctypes.Structure):
    "The opaque struct cublasLtMatmulAlgo_t of cublasLt"

    _fields_ = [('data', c_uint64 * 8)]


class Proposal(ctypes.Structure):
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
    cublasLtMatmulAlgoGetHeuristic=[*[c_void_p] * 7, c_int, POINTER(Proposal), POINTER(c_int)],
    cublasLtMatmulAlgoConfigGetAttribute=[c_void_p, c_int, c_void_p, c_size_t, POINTER(c_size_t)],
    cublasLtMatmul=[*[c_void_p] * 14, c_size_t, c_void_p],
)


def loaded_path(maps: str) -> str:  # maps: the text of /proc/self/maps
    "Return the path of the cublasLt that a process has loaded; raises `Unavailable` if it has loaded none"
    found = re.search(r'/\S*libcublasLt\.so\S*', maps)
    if not found:
        raise Unavailable('cublasLt is not loaded: it comes with a torch for CUDA, on Linux')
    return found[0]


def declare(library):
    "Declare the parameter types of the library's functions; returns the library"
    for name, types in _SIGNATURES.items():
        f = getattr(library, name)
        f.argtypes, f.restype = types, c_int
    return library


@lru_cache
def library():
    "Return the cublasLt that torch has loaded"
    import torch

    torch.cuda.init()
    return declare(ctypes.CDLL(loaded_path(Path('/proc/self/maps').read_text())))


def call(lib, name, *args):
    "Call a function of the library; raises `RuntimeError` if it returns an error"
    if status := getattr(lib, name)(*args):
        raise RuntimeError(f'{name} returned cublasStatus_t {status}')


def create(lib, name, *args):
    "Call a function that creates an object; returns its handle"
    handle = c_void_p()
    call(lib, name, byref(handle), *args)
    return handle


@lru_cache
def _handle(device):
    return create(library(), 'cublasLtCreate')


@lru_cache
def _workspace(device):
    import torch

    return torch.empty(WORKSPACE, dtype=torch.uint8, device=f'cuda:{device}')


# The library is column-major: it reads a row-major matrix as its transpose. So it computes the transposed product
# B^T @ A^T, whose column-major result is C in row-major order.
def column_major(
    M, N, K, layout
):  # (transposed, rows, columns) of B and of A as the library reads them, and (rows, columns) of its result
    "Convert a row-major product (M x K) @ (K x N) to the library's column-major order; B is the first operand"
    a_transposed, b_transposed = layout[0] == 't', layout[1] == 't'
    return (
        (b_transposed, K if b_transposed else N, N if b_transposed else K),
        (a_transposed, M if a_transposed else K, K if a_transposed else M),
        (N, M),
    )


class Problem:
    "The library's description of a product (M x K) @ (K x N)"

    def __init__(self, M, N, K, dtype, layout, lib=None):
        self.lib, kind = lib or library(), _TYPES[dtype]
        first, second, result = column_major(M, N, K, layout)
        self.product = create(self.lib, 'cublasLtMatmulDescCreate', _COMPUTE_FLOAT, _TYPES['float32'])
        for attribute, (transposed, _, _) in ((_TRANSPOSE_A, first), (_TRANSPOSE_B, second)):
            self._set('cublasLtMatmulDescSetAttribute', self.product, attribute, c_int32(transposed))
        sizes = first[1:], second[1:], result
        self.layouts = [create(self.lib, 'cublasLtMatrixLayoutCreate', kind, *size, size[0]) for size in sizes]
        self.preference = create(self.lib, 'cublasLtMatmulPreferenceCreate')
        self._set('cublasLtMatmulPreferenceSetAttribute', self.preference, _MAX_WORKSPACE, c_size_t(WORKSPACE))

    def _set(self, function, description, attribute, value):
        call(self.lib, function, description, attribute, byref(value), ctypes.sizeof(value))

    def proposals(self, handle, count):
        "Return up to `count` algorithms that the library proposes, the fastest by its estimate first"
        found, length, (a, b, d) = (Proposal * count)(), c_int(), self.layouts
        args = handle, self.product, a, b, d, d, self.preference, count, found, length
        call(self.lib, 'cublasLtMatmulAlgoGetHeuristic', *args)
        return [proposal for proposal in found[: length.value] if proposal.state == 0]

    def __del__(self):
        if hasattr(self, 'preference'):
            self.lib.cublasLtMatmulPreferenceDestroy(self.preference)
            self.lib.cublasLtMatmulDescDestroy(self.product)
            for layout in self.layouts:
                self.lib.cublasLtMatrixLayoutDestroy(layout)


class Pick:
    "One proposal of the library, called like a kernel: `pick(stored_a, stored_b, out)`; `rank` 0 is the first proposal"

    def __init__(self, problem, proposal, rank):
        self.problem, self.proposal, self.rank = problem, proposal, rank
        self._one, self._zero = c_float(1), c_float(0)

    @property
    def config(self) -> dict:
        "Return the library's configuration of this proposal: tile, stages, split-K, cluster"
        res = {}
        for name, (attribute, c_type) in _CONFIG.items():
            v, size = c_type(), c_size_t()
            args = byref(self.proposal.algorithm), attribute, byref(v), ctypes.sizeof(v), byref(size)
            call(self.problem.lib, 'cublasLtMatmulAlgoConfigGetAttribute', *args)
            res[name] = v.value
        return res

    @property
    def name(self):
        "The name in tables: cublasLt and the rank of the proposal"
        return f'cublasLt {self.rank}'

    def __call__(self, stored_a, stored_b, out):
        device, p, (a, b, d) = stored_a.get_device(), self.problem, self.problem.layouts
        x, y, z = stored_b.data_ptr(), stored_a.data_ptr(), out.data_ptr()
        workspace = _workspace(device).data_ptr(), self.proposal.workspace
        algorithm_and_stream = byref(self.proposal.algorithm), *workspace, current_stream(device)
        operands = byref(self._one), x, a, y, b, byref(self._zero), z, d, z, d
        call(p.lib, 'cublasLtMatmul', _handle(device), p.product, *operands, *algorithm_and_stream)
        return out


def picks(
    stored_a,
    stored_b,  # contiguous: (M, K) and (K, N); with layout 'tn' A is stored as (K, M), with 'nt' B as (N, K)
    layout='nn',
    count=8,  # the most proposals to return
) -> list:  # of `Pick`, in the library's order
    """Return the algorithms that cublasLt proposes for a product.

        picks(A, B)[0](A, B, out)

    Raises Unavailable without a cublasLt."""
    M, K = stored_a.shape[::-1] if layout[0] == 't' else stored_a.shape
    N = stored_b.shape[0] if layout[1] == 't' else stored_b.shape[1]
    problem = Problem(M, N, K, str(stored_a.dtype).removeprefix('torch.'), layout)
    proposals = problem.proposals(_handle(stored_a.get_device()), count)
    return [Pick(problem, proposal, rank) for rank, proposal in enumerate(proposals)]
