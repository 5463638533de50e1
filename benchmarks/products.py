"""Products by `gridstride.kernels` with fused epilogues, in batches and in groups, against torch, on a GPU: the
course's goals for `mlp`, `bmm` and `grouped_mm`.

    python products.py > products.txt # all parts, in two minutes; writes products.json
    python products.py bmm            # one part; writes nothing
    python products.py --seconds .5   # of timing per candidate (0.2)

Each result is first compared with torch's or with float64. All candidates are captured in CUDA graphs, which exclude
Python's time, and timed interleaved. Times are medians of GPU time; ratios are medians over the rounds, with their 95%
interval. The L2 cache is overwritten before each run, except in rows named `graph`, whose calls run back to back as in
a model. `eager` is eager torch, `compiled` is torch.compile with max-autotune, `torch` is torch.bmm or
torch._grouped_mm. float32 does not use TF32.

mlp: x + F.linear(F.gelu(F.linear(x, up, up_bias)), down, down_bias), rows x width x hidden; `both` is the forward pass
and the gradients of all five inputs. bmm: products x rows x columns x k. grouped_mm: rows x columns x k, 16 ragged
groups.
"""
import math
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from gridstride.bench import compare
from gridstride.bench.columns import COLUMNS, by_column
from gridstride.kernels import bmm, grouped_mm, mlp
from gridstride.kernels.ladder.ladder import GpuClock

import rows

HERE = Path(__file__).parent
BF16 = torch.bfloat16
BMM_SHAPES = [(16, 512, 512, 512), (64, 128, 128, 64), (64, 1024, 1024, 64), (64, 1024, 64, 1024),
              (8, 2048, 2048, 2048), (32, 256, 1024, 256), (128, 64, 64, 512), (12, 1000, 1000, 200),
              (4, 4096, 4096, 1024), (256, 128, 128, 128)]
GROUPED_SHAPES = [(8192, 14336, 4096), (16384, 2816, 2048), (4096, 4096, 4096)]


def random_normal(*shape, dtype=BF16): return torch.randn(*shape, device='cuda').to(dtype)


def check_near(got, want, max_error=2**-7):
    "Raise unless the norm of the error, relative to that of `want`, is at most `max_error`"
    error = float((got.float() - want.float()).norm()/want.float().norm())
    if not error <= max_error: raise ValueError(f'expected a relative error up to {max_error:.1e}, got {error:.1e}')


def compare_graphs(candidates, x, seconds):
    "Capture each candidate in a CUDA graph and time the graphs interleaved"
    graphs = {name: rows.capture_graph(lambda f=f: f) for name, f in candidates.items()}
    return compare(graphs, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=GpuClock())


def comparison_rows(tool, dtype, shape, candidates, flops, goals, seconds):
    "Return a row per other candidate"
    operand = SimpleNamespace(dtype=dtype, shape=shape)
    comparison = compare_graphs(candidates, random_normal(1), seconds)
    others = [name for name in candidates if name != 'ours']
    return [rows.comparison_row(tool, operand, comparison, other, goals.get(other), flops/1e3) for other in others]


# The MLP of a transformer block

def torch_mlp(x, up, down, up_bias, down_bias): return x + F.linear(F.gelu(F.linear(x, up, up_bias)), down, down_bias)


def our_mlp(*inputs): return mlp(*inputs, residual=True)


def forward(f, inputs, dy):
    with torch.no_grad(): return f(*inputs)


def forward_backward(f, inputs, dy):
    y = f(*inputs)
    return y, *torch.autograd.grad(y, inputs, dy)


def mlp_rows(seconds, shape=(8192, 4096, 14336)):
    torch.manual_seed(0)
    n, width, hidden = shape
    inputs = random_normal(n, width), random_normal(hidden, width)*width**-.5, random_normal(width, hidden)*hidden**-.5
    inputs = [x.requires_grad_() for x in (*inputs, random_normal(hidden), random_normal(width))]
    dy, compiled = random_normal(n, width), torch.compile(torch_mlp, mode='max-autotune-no-cudagraphs')
    results = (forward_backward(f, inputs, dy) for f in (our_mlp, torch_mlp))
    for got, want in zip(*results): check_near(got, want)
    goals = dict(eager=1.03, compiled=1.)
    for name, run_pass, num_passes in (('both', forward_backward, 3), ('forward', forward, 1)):
        candidates = {name: lambda run_pass=run_pass, f=f: run_pass(f, inputs, dy)
                      for name, f in dict(ours=our_mlp, eager=torch_mlp, compiled=compiled).items()}
        flops = num_passes*4*n*width*hidden
        yield from comparison_rows(f'mlp, {name}', BF16, shape, candidates, flops, goals, seconds)


# Batches and groups

def graph_row(dtype, shape, candidates, flops, seconds):
    "Make the row of back-to-back calls in a CUDA graph, without flushes"
    timings = by_column(candidates, seconds, 1, dict(graph=COLUMNS['graph']))['graph']['sides']
    ours, theirs = timings['ours'], timings['torch']
    return dict(tool='bmm, graph', dtype=str(dtype)[6:], shape=list(shape), other='torch', seconds=ours['seconds'],
                other_seconds=theirs['seconds'], gbs=flops/1e12/ours['seconds'], other_gbs=flops/1e12/theirs['seconds'],
                ratio=1/theirs['ratio'], low=1/theirs['high'], high=1/theirs['low'], goal=None, warnings=[])


def mean_row(rows, goal):
    "Make a row of the geometric means of rows"
    def mean(key): return math.exp(sum(math.log(r[key]) for r in rows)/len(rows))
    means = {key: mean(key) for key in ('seconds', 'other_seconds', 'gbs', 'other_gbs', 'ratio', 'low', 'high')}
    return dict(rows[0], tool=f"{rows[0]['tool']}, mean", shape=[len(rows)], goal=goal, warnings=[], **means)


def bmm_rows(seconds, dtype):
    torch.manual_seed(0)
    rows_of_shapes, graph_rows = [], []
    for shape in BMM_SHAPES:
        batch, h, w, k = shape
        a, b = random_normal(batch, h, k, dtype=dtype), random_normal(batch, k, w, dtype=dtype)
        check_near(bmm(a, b), a.double() @ b.double(), 2**-8 if dtype == BF16 else 2**-20)
        candidates = dict(ours=lambda: bmm(a, b), torch=lambda: torch.bmm(a, b))
        rows_of_shapes += comparison_rows('bmm', dtype, shape, candidates, 2*batch*h*w*k, {}, seconds/4)
        graph_rows.append(graph_row(dtype, shape, candidates, 2*batch*h*w*k, seconds/4))
    return [*rows_of_shapes, mean_row(rows_of_shapes, 1.), *graph_rows, mean_row(graph_rows, 1.)]


def draw_group_sizes(n, num_groups=16):
    "Draw the row counts of ragged groups"
    fractions = torch.rand(num_groups, generator=torch.Generator().manual_seed(n))
    sizes = (fractions/fractions.sum()*n).int()
    sizes[-1] += n - sizes.sum()
    return sizes


def grouped_rows(seconds):
    torch.manual_seed(0)
    for shape in GROUPED_SHAPES:
        n, w, k = shape
        ends = draw_group_sizes(n).cumsum(0).int().cuda()
        a, b = random_normal(n, k), random_normal(16, k, w)
        candidates = dict(ours=lambda: grouped_mm(a, b, ends), torch=lambda: torch._grouped_mm(a, b, ends))
        check_near(candidates['ours'](), candidates['torch']())
        yield from comparison_rows('grouped_mm', BF16, shape, candidates, 2*n*w*k, dict(torch=1.05), seconds)


JOBS = dict(mlp=mlp_rows, bmm=lambda seconds: bmm_rows(seconds, BF16),
            bmm_float32=lambda seconds: bmm_rows(seconds, torch.float32), groups=grouped_rows)
PARTS = {name: lambda name=name: iter([name]) for name in JOBS}


def measure(name, seconds):
    "Return the rows of a part, or one row with the error"
    try: return list(JOBS[name](seconds))
    except Exception as error: return [rows.failed_row(name, SimpleNamespace(dtype=BF16, shape=()), error)]


def format_row(row):
    return rows.format_row(row, tool=16, dtype=9, shape=17, other=8, us=8, gbs=6).replace('GB/s', 'TFLOP/s')


if __name__ == '__main__':
    rows.run(__doc__, PARTS, measure, format_row, HERE/'products.json', .2, rows.HEAD.replace('GB/s', 'TFLOP/s'))
