"""Products with sparse matrices by `gridstride.kernels.sparse`, against torch's dense product of the same sizes and its
own sparse ones, on a GPU: the course's goals, and from which density on, or how many rows of x, zeros pay.

    python sparse.py                # all of it, in a minute; prints what sparse.txt holds, writes sparse.json
    python sparse.py two_four       # some of it; writes nothing
    python sparse.py --seconds .3   # of timing per side (0.1)

Each result is first compared with a product in float64. All sides are captured in CUDA graphs, so that no Python is
timed; then they take turns. Figures are medians of GPU time, ratios medians over the rounds with their 95% interval;
the L2 cache is overwritten before each run. TFLOP/s are those of the dense product: zeros count as if they were
multiplied. Shapes: rows x columns of w x rows of x, of x @ w.T; for CSR w @ x, and columns of x.
`bf16` is `F.linear` (`f32` in CSR of float32, without TF32), with random values instead of zeros; `semi` is
`torch.sparse.to_sparse_semi_structured`, that is cuSPARSELt; `csr` torch's product with a sparse CSR tensor, that is
cuSPARSE.
"""
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from gridstride.bench import compare
from gridstride.kernels.ladder.ladder import Gpu
from gridstride.kernels.sparse import (formats, multiply_24, multiply_blocks, multiply_csr, pack_24, prune_blocks,
                                       prune_single, to_blocks, to_csr)

import rows

warnings.simplefilter('ignore')                                     # that torch's sparse tensors are prototypes
HERE = Path(__file__).parent
CHECKED = 2048                                                      # rows of w that are looked at


class Case(NamedTuple):
    "A sparse matrix times x"
    kind: str            # '2:4', 'mma.sp', 'blocks', 'csr'
    shape: tuple         # of the matrix
    batch: int           # rows of x
    zeros: float = .5
    goals: dict = {}     # other side -> how many times faster ours shall be
    block: tuple = None
    dtype: torch.dtype = torch.bfloat16

    @property
    def name(self):
        "For tables"
        block = f' {self.block[0]}x{self.block[1]}' if self.block else ''
        return self.kind + block + f' {self.zeros:.0%}'*(self.kind[0] in 'bc')


def two_four():
    "Large products: weights of a model with 8 billion parameters, and square ones"
    yield Case('2:4', (8192, 8192), 8192, goals={'bf16': 1.35})
    yield Case('2:4', (14336, 4096), 4096, goals={'bf16': 1.25})
    yield Case('2:4', (4096, 4096), 14336, goals={'bf16': 1.25})
    for shape, n in (((4096, 14336), 4096), ((4096, 4096), 4096), ((28672, 8192), 2048), ((8192, 28672), 2048)):
        yield Case('2:4', shape, n)


def batches():
    "Few rows of x: a layer's weights are read, and little is multiplied"
    for n in (16, 64, 128, 256, 512, 1024, 2048): yield Case('2:4', (14336, 4096), n)


def warps():
    "The kernel for GPUs before Hopper, on this one"
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


# Sides: name -> a function of x

def sides_24(case, w, x):
    pruned = formats.prune(w)
    p = pack_24(pruned)
    ways = dict(ours=lambda x: multiply_24(x, p, use_mma_sp=case.kind == 'mma.sp'), bf16=lambda x: F.linear(x, w))
    if case.kind == '2:4':
        semi = torch.sparse.to_sparse_semi_structured(pruned)
        ways['semi'] = lambda x: F.linear(x, semi)
    return ways, x.double() @ pruned[:CHECKED].double().T


def sides_blocks(case, w, x):
    pruned = prune_blocks(w, case.zeros, case.block)
    b = to_blocks(pruned, case.block)
    ways = dict(ours=lambda x: multiply_blocks(x, b), bf16=lambda x: F.linear(x, w))
    return ways, x.double() @ pruned[:CHECKED].double().T


def sides_csr(case, w, x):
    pruned = prune_single(w, case.zeros)
    c, theirs = to_csr(pruned), pruned.to_sparse_csr()
    dense = 'f32' if case.dtype == torch.float32 else 'bf16'
    ways = {'ours': lambda x: multiply_csr(c, x), dense: lambda x: w @ x, 'csr': lambda x: theirs @ x}
    return ways, (pruned[:CHECKED].double() @ x.double()).T


SIDES = {'2:4': sides_24, 'mma.sp': sides_24, 'blocks': sides_blocks, 'csr': sides_csr}


def check(case, got, want):
    "Raise if a number is further off than by rounding to bfloat16, and by a thousandth of what is usual for sums"
    off = ((got.T if case.kind == 'csr' else got)[:, :CHECKED] - want).abs()
    wrong = ~(off <= 2**-8*want.abs() + 2**-10*want.square().mean().sqrt())
    if wrong.any(): raise ValueError(f'{int(wrong.sum())} of {wrong.numel()} elements are wrong')


def rows_of(case, seconds):
    "One row per other side"
    torch.manual_seed(0)
    (h, k), n = case.shape, case.batch
    w = torch.randn(h, k, device='cuda').to(case.dtype)
    x = torch.randn(*((k, n) if case.kind == 'csr' else (n, k)), device='cuda').to(case.dtype)
    ways, want = SIDES[case.kind](case, w, x)
    check(case, ways['ours'](x), want)
    graphs = {o: rows.graphed(lambda f=f: lambda: f(x)) for o, f in ways.items()}
    c = compare(graphs, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=Gpu())
    like = SimpleNamespace(dtype=x.dtype, shape=(*case.shape, n))
    for o in ways:                                                  # a thousandth: TFLOP/s in the field of GB/s
        if o != 'ours': yield rows.row(case.name, like, c, o, case.goals.get(o), 2*h*n*k/1e3)


def measure(case, seconds):
    "The rows of a case, or one that says why there are none"
    like = SimpleNamespace(dtype=case.dtype, shape=(*case.shape, case.batch))
    try: yield from list(rows_of(case, seconds))
    except Exception as e: yield rows.failed(case.name, like, e)


def line(r): return rows.line(r, tool=18, dtype=9, shape=15, other=5, us=8, gbs=6).replace('GB/s', 'TFLOP/s')


if __name__ == '__main__':
    rows.run(__doc__, PARTS, measure, line, HERE/'sparse.json', .1, rows.HEAD.replace('GB/s', 'TFLOP/s'))
