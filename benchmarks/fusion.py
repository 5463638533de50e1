"""`gridstride.kernels.gelu`, `bias_gelu`, `rms_norm` and `layer_norm`, forward and backward, against `torch.compile`, a
copy and torch as it is, on a GPU: the course's goals, and small sizes.

    python fusion.py                      # all of it, in a minute; prints what fusion.txt holds, writes fusion.json
    python fusion.py forward backward     # some of it; writes nothing
    python fusion.py --seconds .3         # of timing per side (0.1)

Each result is first compared with torch's in float64. All sides are captured in CUDA graphs, so that no Python is
timed; then they take turns. Figures are medians of GPU time with the L2 overwritten before each run, ratios medians
over the rounds with their 95% interval. GB/s are the bytes that have to be read and written. The copy is torch's, of x.
"""
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from gridstride import kernels
from gridstride.bench import compare
from gridstride.kernels.ladder.ladder import Gpu

import rows

HERE = Path(__file__).parent
LARGE, SMALL = (8192, 8192), (2048, 1024)
# Rounding errors: 16 bits to their last; in float32 sums of 8192 values of about 1, in another order
NEAR = {torch.bfloat16: dict(rtol=2**-7, atol=2**-7), torch.float32: dict(rtol=1e-4, atol=1e-4)}


class Case(NamedTuple):
    "One tool on one tensor"
    tool: str
    ours: object          # function of tensors
    torchs: object        # the same by torch
    inputs: list          # tensors; those of a backward have a gradient
    arrays: int           # of the size of x that are read or written
    goals: dict = {}      # other side -> how many times faster ours shall be, or None
    dy: object = None     # a tensor: the backward is timed


# Cases

def inputs(shape, dtype, grad=False):
    torch.manual_seed(0)
    h, w = shape
    return [torch.randn(*s, device='cuda').to(dtype).requires_grad_(grad) for s in ((h, w), (w,), (w,))]


def rms(x, w): return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def layer(x, w, b): return F.layer_norm(x, x.shape[-1:], w, b, 1e-5)


TOOLS = dict(gelu=(kernels.gelu, F.gelu, 1), bias_gelu=(kernels.bias_gelu, lambda x, b: F.gelu(x + b), 2),
             rms_norm=(kernels.rms_norm, rms, 2), layer_norm=(kernels.layer_norm, layer, 3))


def forward(shape=LARGE, dtypes=(torch.float32, torch.bfloat16), tools=('gelu', 'bias_gelu', 'rms_norm'),
            goals={'compiled': 1., 'copy': .97}):
    for dtype in dtypes:
        for name in tools:
            ours, torchs, n = TOOLS[name]
            yield Case(name, ours, torchs, inputs(shape, dtype)[:n], 2, goals)


def backward(shape=LARGE, dtypes=(torch.float32, torch.bfloat16), tools=('rms_norm',), goals={'compiled': 1.1}):
    for dtype in dtypes:
        for name in tools:
            ours, torchs, n = TOOLS[name]
            x, *others = inputs(shape, dtype, True)[:n]
            yield Case(f'{name}, backward', ours, torchs, [x, *others], 3, goals, torch.randn_like(x))


def small():
    for part in (forward, backward):
        yield from part(SMALL, (torch.bfloat16,), ('rms_norm',), {'compiled': None})


def others():
    "What has no goal, against torch as it is"
    yield from forward(tools=('layer_norm',), goals={'copy': None})
    yield from backward(tools=('gelu', 'bias_gelu', 'layer_norm'), goals={})


PARTS = dict(forward=forward, backward=backward, small=small, others=others)


# Rows

def sides(case):
    "Name -> what makes a function without arguments: ours, torch as it is, and those that have a goal"
    of = rows.backward_of if case.dy is not None else rows.forward_of
    def way(f): return lambda: of(f, case.inputs, case.dy)
    yield 'ours', way(case.ours)
    yield 'eager', way(case.torchs)
    if 'compiled' in case.goals:
        torch._dynamo.reset()                               # a shape that is not the first is compiled for itself, too
        yield 'compiled', way(torch.compile(case.torchs, dynamic=False))
    if 'copy' in case.goals:
        x = case.inputs[0].detach()
        out = torch.zeros_like(x)
        yield 'copy', lambda: lambda: out.copy_(x)


def check(case, got):
    "Raise unless `got` is near what torch computes in float64"
    with torch.enable_grad():
        inputs = [o.detach().double().requires_grad_() for o in case.inputs]
        want = case.torchs(*inputs)
        if case.dy is not None: want = torch.autograd.grad(want, inputs, case.dy.double())
    got, want = (o if isinstance(o, tuple) else (o,) for o in (got, want))
    for g, o in zip(got, want, strict=True):
        near = dict(NEAR[g.dtype])
        if o.dim() == 1: near['atol'] *= case.inputs[0].shape[0]**.5         # sums of so many roundings
        torch.testing.assert_close(g.detach(), o.detach().to(g.dtype), **near)


def rows_of(case, seconds):
    "One row per other side"
    ways = {k: rows.graphed(f) for k, f in sides(case)}
    check(case, ways['ours']())
    x = case.inputs[0]
    c = compare(ways, x.detach(), baseline='ours', check=lambda got: None, seconds=seconds, clock=Gpu())
    for k in c.timings:
        if k != 'ours':
            moved = 2*x.nbytes if k == 'copy' else None
            yield rows.row(case.tool, x, c, k, case.goals.get(k), case.arrays*x.nbytes, moved)


def measure(case, seconds):
    "The rows of a case, or one that says why there are none"
    try: yield from list(rows_of(case, seconds))
    except Exception as e: yield rows.failed(case.tool, case.inputs[0], e)


def line(r): return rows.line(r, tool=20, dtype=8, shape=9, other=8, us=7, gbs=5)


if __name__ == '__main__': rows.run(__doc__, PARTS, measure, line, HERE/'fusion.json', .1)
