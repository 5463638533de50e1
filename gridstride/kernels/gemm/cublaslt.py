"""NVIDIA's matrix products, as a baseline: the algorithms that cublasLt proposes for a shape, its first pick and
others.

torch takes the first, which for some shapes is not the fastest. The library is the one that torch has loaded; its
functions and constants are documented in NVIDIA's `cublasLt.h`.
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
_COMPUTE_FLOAT = 68  # CUBLAS_COMPUTE_32F: of float32 without TF32
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4  # CUBLASLT_MATMUL_DESC_TRANSA and _TRANSB
_MAX_WORKSPACE = 1  # CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
WORKSPACE = 32 * 2**20  # bytes of workspace for a product: as many as torch gives on Hopper
# CUBLASLT_ALGO_CONFIG_*: name -> (number, type of the value)
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


_WHAT = dict(
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


def file_in(maps: str) -> str:  # maps: the text of /proc/self/maps
    "The file of cublasLt that a process has loaded; `Unavailable` if it has none"
    found = re.search(r'/\S*libcublasLt\.so\S*', maps)
    if not found:
        raise Unavailable('cublasLt is not loaded: it comes with a torch for CUDA, on Linux')
    return found[0]


def declare(library):
    "The library with the types of what is called in it"
    for name, types in _WHAT.items():
        f = getattr(library, name)
        f.argtypes, f.restype = types, c_int
    return library


@lru_cache
def library():
    "The cublasLt that torch has loaded"
    import torch

    torch.cuda.init()
    return declare(ctypes.CDLL(file_in(Path('/proc/self/maps').read_text())))


def call(lib, name, *args):
    "Call a function of the library; `RuntimeError` if it refuses"
    if status := getattr(lib, name)(*args):
        raise RuntimeError(f'{name} answers {status} of cublasStatus_t')


def made(lib, name, *args):
    "What `name` creates"
    handle = c_void_p()
    call(lib, name, byref(handle), *args)
    return handle


@lru_cache
def _handle(device):
    return made(library(), 'cublasLtCreate')


@lru_cache
def _workspace(device):
    import torch

    return torch.empty(WORKSPACE, dtype=torch.uint8, device=f'cuda:{device}')


# The library is column-major. A row-major matrix is to it the transpose of a column-major one; so it computes the
# transposed product, n' m' instead of m n, which is `out` in row-major order.
def order_of(
    h, w, k, layout
):  # (transposed, rows, columns) of both operands as the library has them, (w, h) of the result
    "h x k @ k x w in the library's order; the first operand is n, the second m"
    ta, tb = layout[0] == 't', layout[1] == 't'
    return (tb, k if tb else w, w if tb else k), (ta, h if ta else k, k if ta else h), (w, h)


class Problem:
    "A product, described for the library"

    def __init__(self, h, w, k, dtype, layout, lib=None):
        self.lib, kind = lib or library(), _TYPES[dtype]
        first, second, result = order_of(h, w, k, layout)
        self.product = made(self.lib, 'cublasLtMatmulDescCreate', _COMPUTE_FLOAT, _TYPES['float32'])
        for what, (transposed, _, _) in ((_TRANSPOSE_A, first), (_TRANSPOSE_B, second)):
            self._set('cublasLtMatmulDescSetAttribute', self.product, what, c_int32(transposed))
        sizes = first[1:], second[1:], result
        self.layouts = [made(self.lib, 'cublasLtMatrixLayoutCreate', kind, *o, o[0]) for o in sizes]
        self.wish = made(self.lib, 'cublasLtMatmulPreferenceCreate')
        self._set('cublasLtMatmulPreferenceSetAttribute', self.wish, _MAX_WORKSPACE, c_size_t(WORKSPACE))

    def _set(self, name, of, what, value):
        call(self.lib, name, of, what, byref(value), ctypes.sizeof(value))

    def proposals(self, handle, count):
        "The algorithms that the library proposes, the best by its estimate first"
        found, n, (a, b, d) = (Proposal * count)(), c_int(), self.layouts
        call(self.lib, 'cublasLtMatmulAlgoGetHeuristic', handle, self.product, a, b, d, d, self.wish, count, found, n)
        return [o for o in found[: n.value] if o.state == 0]

    def __del__(self):
        if hasattr(self, 'wish'):
            self.lib.cublasLtMatmulPreferenceDestroy(self.wish)
            self.lib.cublasLtMatmulDescDestroy(self.product)
            for o in self.layouts:
                self.lib.cublasLtMatrixLayoutDestroy(o)


class Pick:
    "One of the library's proposals, called like a kernel: `pick(m, n, out)`; `name` says which it is"

    def __init__(self, problem, proposal, number):
        self.problem, self.proposal, self.number = problem, proposal, number
        self._one, self._zero = c_float(1), c_float(0)

    @property
    def config(self) -> dict:
        "The library's own configuration of this proposal"
        res = {}
        for name, (what, kind) in _CONFIG.items():
            v, size = kind(), c_size_t()
            at = byref(self.proposal.algorithm), what, byref(v), ctypes.sizeof(v), byref(size)
            call(self.problem.lib, 'cublasLtMatmulAlgoConfigGetAttribute', *at)
            res[name] = v.value
        return res

    @property
    def name(self):
        "Which proposal it is"
        return f'cublasLt {self.number}'

    def __call__(self, m, n, out):
        device, p, (a, b, d) = m.get_device(), self.problem, self.problem.layouts
        x, y, z = n.data_ptr(), m.data_ptr(), out.data_ptr()
        workspace = _workspace(device).data_ptr(), self.proposal.workspace
        how = byref(self.proposal.algorithm), *workspace, current_stream(device)
        operands = byref(self._one), x, a, y, b, byref(self._zero), z, d, z, d
        call(p.lib, 'cublasLtMatmul', _handle(device), p.product, *operands, *how)
        return out


def picks(
    m,
    n,  # as they are in memory, contiguous: with layout 'tn' m is k x h, with 'nt' n is w x k
    layout='nn',
    count=8,  # how many to ask for
) -> list:  # of `Pick`, the library's first one first
    "Return the algorithms that cublasLt proposes for a product"
    h, k = m.shape[::-1] if layout[0] == 't' else m.shape
    w = n.shape[0] if layout[1] == 't' else n.shape[1]
    problem = Problem(h, w, k, str(m.dtype).removeprefix('torch.'), layout)
    return [Pick(problem, o, i) for i, o in enumerate(problem.proposals(_handle(m.get_device()), count))]
