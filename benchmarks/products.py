"""Products by `gridstride.kernels` with what follows them, in batches and in groups, against torch, on a GPU: the
course's goals for `mlp`, `bmm` and `grouped_mm`.

    python products.py                # all of it, in two minutes; prints what products.txt holds, writes products.json
    python products.py bmm            # some of it; writes nothing
    python products.py --seconds .5   # of timing per side (0.2)

Each result is first compared with torch's own, or one in float64. All sides are captured in CUDA graphs, so that no
Python is timed; then they take turns. Figures are medians of GPU time, ratios medians over the rounds with their 95%
interval; the L2 cache is overwritten before each run, but in rows that say `graph`: there calls follow each other, as
those of a model do. `eager` is torch as it is, `compiled` torch.compile with max-autotune, `torch` torch.bmm and
torch._grouped_mm. float32 is without TF32.

mlp: x + F.linear(F.gelu(F.linear(x, up, up_bias)), down, down_bias), rows x width x hidden; `both` is forward and the
gradients of all five. bmm: products x rows x columns x k. grouped_mm: rows x columns x k, 16 ragged groups.
"""
import math
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from gridstride.bench import compare
from gridstride.bench.columns import COLUMNS, by_column
from gridstride.kernels import bmm, grouped_mm, mlp
from gridstride.kernels.ladder.ladder import Gpu

import rows

HERE = Path(__file__).parent
HALF = torch.bfloat16
BATCHES = [(16, 512, 512, 512), (64, 128, 128, 64), (64, 1024, 1024, 64), (64, 1024, 64, 1024), (8, 2048, 2048, 2048),
           (32, 256, 1024, 256), (128, 64, 64, 512), (12, 1000, 1000, 200), (4, 4096, 4096, 1024), (256, 128, 128, 128)]
GROUPS = [(8192, 14336, 4096), (16384, 2816, 2048), (4096, 4096, 4096)]


def normal(*shape, dtype=HALF): return torch.randn(*shape, device='cuda').to(dtype)


def check(got, want, most=2**-7):
    "Raise unless the error's length is below that of some roundings to 16 bits"
    far = float((got.float() - want.float()).norm()/want.float().norm())
    if not far <= most: raise ValueError(f'the result is {far:.1e} from torch\'s')


def timed(ways, x, seconds):
    "Sides, each as a CUDA graph, interleaved"
    graphs = {o: rows.graphed(lambda f=f: f) for o, f in ways.items()}
    return compare(graphs, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=Gpu())


def rows_of(tool, dtype, shape, ways, flops, goals, seconds):
    "One row per other side"
    like = SimpleNamespace(dtype=dtype, shape=shape)
    c = timed(ways, normal(1), seconds)
    return [rows.row(tool, like, c, o, goals.get(o), flops/1e3) for o in ways if o != 'ours']


# The block of a transformer

def by_torch(x, up, down, up_bias, down_bias): return x + F.linear(F.gelu(F.linear(x, up, up_bias)), down, down_bias)


def by_ours(*inputs): return mlp(*inputs, residual=True)


def forward(f, inputs, dy):
    with torch.no_grad(): return f(*inputs)


def both(f, inputs, dy):
    y = f(*inputs)
    return y, *torch.autograd.grad(y, inputs, dy)


def of_mlp(seconds, shape=(8192, 4096, 14336)):
    torch.manual_seed(0)
    n, width, hidden = shape
    inputs = normal(n, width), normal(hidden, width)*width**-.5, normal(width, hidden)*hidden**-.5
    inputs = [o.requires_grad_() for o in (*inputs, normal(hidden), normal(width))]
    dy, compiled = normal(n, width), torch.compile(by_torch, mode='max-autotune-no-cudagraphs')
    for got, want in zip(both(by_ours, inputs, dy), both(by_torch, inputs, dy)): check(got, want)
    for name, f, times in (('both', both, 3), ('forward', forward, 1)):
        ways = {o: lambda f=f, g=g: f(g, inputs, dy)
                for o, g in (('ours', by_ours), ('eager', by_torch), ('compiled', compiled))}
        yield from rows_of(f'mlp, {name}', HALF, shape, ways, times*4*n*width*hidden, dict(eager=1.03, compiled=1.),
                           seconds)


# Batches and groups

def graph_row(dtype, shape, ways, flops, seconds):
    "The row of calls that follow each other in a CUDA graph, without a flush in between"
    sides = by_column(ways, seconds, 1, dict(graph=COLUMNS['graph']))['graph']['sides']
    ours, torchs = sides['ours'], sides['torch']
    both = dict(zip(('seconds', 'other_seconds'), (ours['seconds'], torchs['seconds'])))
    rates = dict(zip(('gbs', 'other_gbs'), (flops/1e12/o for o in both.values())))
    times = dict(ratio=1/torchs['ratio'], low=1/torchs['high'], high=1/torchs['low'])
    return dict(tool='bmm, graph', dtype=str(dtype)[6:], shape=list(shape), other='torch', **both, **rates, **times,
                goal=None, warnings=[])


def mean_of(found, goal):
    "A row with the geometric means of others"
    def mean(key): return math.exp(sum(math.log(r[key]) for r in found)/len(found))
    means = {o: mean(o) for o in ('seconds', 'other_seconds', 'gbs', 'other_gbs', 'ratio', 'low', 'high')}
    return dict(found[0], tool=f"{found[0]['tool']}, mean", shape=[len(found)], goal=goal, warnings=[], **means)


def of_bmm(seconds, dtype):
    torch.manual_seed(0)
    found, graphs = [], []
    for shape in BATCHES:
        count, h, w, k = shape
        a, b = normal(count, h, k, dtype=dtype), normal(count, k, w, dtype=dtype)
        check(bmm(a, b), a.double() @ b.double(), 2**-8 if dtype == HALF else 2**-20)
        ways = dict(ours=lambda: bmm(a, b), torch=lambda: torch.bmm(a, b))
        found += rows_of('bmm', dtype, shape, ways, 2*count*h*w*k, {}, seconds/4)
        graphs.append(graph_row(dtype, shape, ways, 2*count*h*w*k, seconds/4))
    return [*found, mean_of(found, 1.), *graphs, mean_of(graphs, 1.)]


def sizes_of(n, count=16):
    "Rows of ragged groups"
    parts = torch.rand(count, generator=torch.Generator().manual_seed(n))
    sizes = (parts/parts.sum()*n).int()
    sizes[-1] += n - sizes.sum()
    return sizes


def of_groups(seconds):
    torch.manual_seed(0)
    for shape in GROUPS:
        n, w, k = shape
        ends = sizes_of(n).cumsum(0).int().cuda()
        a, b = normal(n, k), normal(16, k, w)
        ways = dict(ours=lambda: grouped_mm(a, b, ends), torch=lambda: torch._grouped_mm(a, b, ends))
        check(ways['ours'](), ways['torch']())
        yield from rows_of('grouped_mm', HALF, shape, ways, 2*n*w*k, dict(torch=1.05), seconds)


JOBS = dict(mlp=of_mlp, bmm=lambda s: of_bmm(s, HALF), bmm_float32=lambda s: of_bmm(s, torch.float32), groups=of_groups)
PARTS = {o: lambda o=o: iter([o]) for o in JOBS}


def measure(name, seconds):
    "The rows of a part, or one that says why there are none"
    try: return list(JOBS[name](seconds))
    except Exception as e: return [rows.failed(name, SimpleNamespace(dtype=HALF, shape=()), e)]


def line(r): return rows.line(r, tool=16, dtype=9, shape=17, other=8, us=8, gbs=6).replace('GB/s', 'TFLOP/s')


if __name__ == '__main__':
    rows.run(__doc__, PARTS, measure, line, HERE/'products.json', .2, rows.HEAD.replace('GB/s', 'TFLOP/s'))
