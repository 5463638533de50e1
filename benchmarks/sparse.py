"""Products with sparse matrices by `gridstride.kernels.sparse`, against torch's dense and sparse products of the same
sizes, on a GPU: the course's goals, and the densities and batch sizes at which sparsity pays.

    python sparse.py > sparse.txt   # all parts, in a minute; writes sparse.json
    python sparse.py two_four       # one part; writes nothing
    python sparse.py --seconds .3   # of timing per candidate (0.1)

Each result is first compared with a product in float64. All candidates are captured in CUDA graphs, which exclude
Python's time, and timed interleaved. Times are medians of GPU time with the L2 cache overwritten before each run;
ratios are medians over the rounds, with their 95% interval. TFLOP/s count the operations of the dense product,
including those with zeros. A shape is (rows of w) x (columns of w) x (rows of x) for x @ w.T, and
(rows of w) x (columns of w) x (columns of x) for w @ x, which CSR computes.
`bf16` (`f32` for CSR of float32, without TF32) is `F.linear` with random values instead of the zeros; `semi` is
`torch.sparse.to_sparse_semi_structured`, which calls cuSPARSELt; `csr` is torch's product with a sparse CSR tensor,
which calls cuSPARSE.
"""
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from gridstride.bench import compare
from gridstride.kernels.ladder.ladder import GpuClock
from gridstride.kernels.sparse import (formats, multiply_24, multiply_blocks, multiply_csr, pack_24, prune_blocks,
                                       prune_single, to_blocks, to_csr)

import rows

warnings.simplefilter('ignore')                                     # torch warns that sparse tensors are a prototype
HERE = Path(__file__).parent
CHECKED_ROWS = 2048                                                 # of w


class Case(NamedTuple):
    "A sparse matrix times x"
    kind: str            # '2:4', 'mma.sp', 'blocks', 'csr'
    shape: tuple         # of the matrix
    batch: int           # rows of x
    zeros: float = .5    # fraction
    goals: dict = {}     # other candidate -> speedup of ours to reach
    block: tuple = None
    dtype: torch.dtype = torch.bfloat16

    @property
    def name(self):
        "The kind, block size and percentage of zeros, for tables"
        block = f' {self.block[0]}x{self.block[1]}' if self.block else ''
        return self.kind + block + f' {self.zeros:.0%}'*(self.kind[0] in 'bc')


def two_four():
    "Yield large products: weights of a model with 8 billion parameters, and square matrices"
    yield Case('2:4', (8192, 8192), 8192, goals={'bf16': 1.35})
    yield Case('2:4', (14336, 4096), 4096, goals={'bf16': 1.25})
    yield Case('2:4', (4096, 4096), 14336, goals={'bf16': 1.25})
    for shape, n in (((4096, 14336), 4096), ((4096, 4096), 4096), ((28672, 8192), 2048), ((8192, 28672), 2048)):
        yield Case('2:4', shape, n)


def batches():
    "Yield products with few rows of x, in which reading the weights dominates"
    for n in (16, 64, 128, 256, 512, 1024, 2048): yield Case('2:4', (14336, 4096), n)


def warps():
    "Yield a product by the kernel for GPUs before Hopper, run on this GPU"
    yield Case('mma.sp', (4096, 4096), 4096)


def blocks():
    for block in ((128, 64), (64, 64)):
        for zeros in (.5, .7, .8, .9, .95):
            yield Case('blocks', (8192, 8192), 8192, zeros, {'bf16': 4.} if zeros == .9 else {}, block)


def csr():
    for dtype in (torch.bfloat16, torch.float32):
        for n in (1, 512):
            for zeros in (.5, .8, .9, .95, .98, .99): yield Case('csr', (4096, 4096), n, zeros, dtype=dtype)


PARTS = dict(two_four=two_four, blocks=blocks, batches=batches, csr=csr, warps=warps)


# Candidates: each function returns ({name: function of x}, the product with the first rows of w in float64)

def candidates_24(case, w, x):
    pruned = formats.prune(w)
    packed = pack_24(pruned)
    candidates = dict(ours=lambda x: multiply_24(x, packed, use_mma_sp=case.kind == 'mma.sp'),
                      bf16=lambda x: F.linear(x, w))
    if case.kind == '2:4':
        semi_structured = torch.sparse.to_sparse_semi_structured(pruned)
        candidates['semi'] = lambda x: F.linear(x, semi_structured)
    return candidates, x.double() @ pruned[:CHECKED_ROWS].double().T


def candidates_blocks(case, w, x):
    pruned = prune_blocks(w, case.zeros, case.block)
    packed = to_blocks(pruned, case.block)
    candidates = dict(ours=lambda x: multiply_blocks(x, packed), bf16=lambda x: F.linear(x, w))
    return candidates, x.double() @ pruned[:CHECKED_ROWS].double().T


def candidates_csr(case, w, x):
    pruned = prune_single(w, case.zeros)
    packed, torch_csr = to_csr(pruned), pruned.to_sparse_csr()
    dense_name = 'f32' if case.dtype == torch.float32 else 'bf16'
    candidates = {'ours': lambda x: multiply_csr(packed, x), dense_name: lambda x: w @ x,
                  'csr': lambda x: torch_csr @ x}
    return candidates, (pruned[:CHECKED_ROWS].double() @ x.double()).T


CANDIDATES = {'2:4': candidates_24, 'mma.sp': candidates_24, 'blocks': candidates_blocks, 'csr': candidates_csr}


def check_rows(case, got, want):
    "Raise if an error exceeds that of rounding to bfloat16 plus a thousandth of the root mean square of the result"
    differences = ((got.T if case.kind == 'csr' else got)[:, :CHECKED_ROWS] - want).abs()
    is_wrong = ~(differences <= 2**-8*want.abs() + 2**-10*want.square().mean().sqrt())
    if is_wrong.any(): raise ValueError(f'{int(is_wrong.sum())} of {is_wrong.numel()} elements are wrong')


def case_rows(case, seconds):
    "Yield a row per other candidate"
    torch.manual_seed(0)
    (h, k), n = case.shape, case.batch
    w = torch.randn(h, k, device='cuda').to(case.dtype)
    x = torch.randn(*((k, n) if case.kind == 'csr' else (n, k)), device='cuda').to(case.dtype)
    candidates, want = CANDIDATES[case.kind](case, w, x)
    check_rows(case, candidates['ours'](x), want)
    graphs = {name: rows.capture_graph(lambda f=f: lambda: f(x)) for name, f in candidates.items()}
    comparison = compare(graphs, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=GpuClock())
    operand = SimpleNamespace(dtype=x.dtype, shape=(*case.shape, n))
    size = 2*h*n*k/1e3                                              # the field of GB/s holds TFLOP/s
    for name in candidates:
        if name != 'ours': yield rows.comparison_row(case.name, operand, comparison, name, case.goals.get(name), size)


def measure(case, seconds):
    "Yield the rows of a case, or one row with the error"
    operand = SimpleNamespace(dtype=case.dtype, shape=(*case.shape, case.batch))
    try: yield from list(case_rows(case, seconds))
    except Exception as error: yield rows.failed_row(case.name, operand, error)


def format_row(row):
    return rows.format_row(row, tool=18, dtype=9, shape=15, other=5, us=8, gbs=6).replace('GB/s', 'TFLOP/s')


if __name__ == '__main__':
    rows.run(__doc__, PARTS, measure, format_row, HERE/'sparse.json', .1, rows.HEAD.replace('GB/s', 'TFLOP/s'))
