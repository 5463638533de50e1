"""`gridstride.kernels.gelu`, `bias_gelu`, `rms_norm` and `layer_norm`, forward and backward, against `torch.compile`,
eager torch and a copy, on a GPU: the course's goals, and small sizes.

    python fusion.py > fusion.txt         # all parts, in a minute; writes fusion.json
    python fusion.py forward backward     # some parts; writes nothing
    python fusion.py --seconds .3         # of timing per candidate (0.1)

Each result is first compared with torch's in float64. All candidates are captured in CUDA graphs, which exclude
Python's time, and timed interleaved. Times are medians of GPU time with the L2 cache overwritten before each run;
ratios are medians over the rounds, with their 95% interval. GB/s count the bytes that must be read and written. The
copy is torch's copy of x.
"""
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from gridstride import kernels
from gridstride.bench import compare
from gridstride.kernels.ladder.ladder import GpuClock

import rows

HERE = Path(__file__).parent
LARGE, SMALL = (8192, 8192), (2048, 1024)
# Rounding errors: the last bit of bfloat16; in float32, those of sums of 8192 values near 1 in another order
TOLERANCES = {torch.bfloat16: dict(rtol=2**-7, atol=2**-7), torch.float32: dict(rtol=1e-4, atol=1e-4)}


class Case(NamedTuple):
    "One tool on one tensor"
    tool: str
    ours: object          # function of tensors
    torchs: object        # the same function by torch
    inputs: list          # tensors; for a backward pass, they require gradients
    arrays: int           # number of arrays of the size of x that are read or written
    goals: dict = {}      # other candidate -> speedup of ours to reach, or None
    dy: object = None     # output gradient; if given, the backward pass is timed


# Cases

def inputs(shape, dtype, grad=False):
    torch.manual_seed(0)
    h, w = shape
    return [torch.randn(*s, device='cuda').to(dtype).requires_grad_(grad) for s in ((h, w), (w,), (w,))]


def torch_rms_norm(x, w): return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def torch_layer_norm(x, w, b): return F.layer_norm(x, x.shape[-1:], w, b, 1e-5)


TOOLS = dict(gelu=(kernels.gelu, F.gelu, 1), bias_gelu=(kernels.bias_gelu, lambda x, b: F.gelu(x + b), 2),
             rms_norm=(kernels.rms_norm, torch_rms_norm, 2), layer_norm=(kernels.layer_norm, torch_layer_norm, 3))


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
    "Yield the cases without goals, against eager torch"
    yield from forward(tools=('layer_norm',), goals={'copy': None})
    yield from backward(tools=('gelu', 'bias_gelu', 'layer_norm'), goals={})


PARTS = dict(forward=forward, backward=backward, small=small, others=others)


# Rows

def candidates(case):
    "Yield (name, function that makes the function to time): ours, eager torch, and those in the goals"
    make_pass = rows.make_backward if case.dy is not None else rows.make_forward
    def maker(f): return lambda: make_pass(f, case.inputs, case.dy)
    yield 'ours', maker(case.ours)
    yield 'eager', maker(case.torchs)
    if 'compiled' in case.goals:
        torch._dynamo.reset()                               # otherwise a second shape is compiled with dynamic sizes
        yield 'compiled', maker(torch.compile(case.torchs, dynamic=False))
    if 'copy' in case.goals:
        x = case.inputs[0].detach()
        out = torch.zeros_like(x)
        yield 'copy', lambda: lambda: out.copy_(x)


def check_near_float64(case, got):
    "Raise unless `got` is near torch's result in float64"
    with torch.enable_grad():
        inputs = [x.detach().double().requires_grad_() for x in case.inputs]
        want = case.torchs(*inputs)
        if case.dy is not None: want = torch.autograd.grad(want, inputs, case.dy.double())
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for got_tensor, want_tensor in zip(got, want, strict=True):
        tolerance = dict(TOLERANCES[got_tensor.dtype])
        # one-dimensional gradients are sums over the rows of x, whose rounding errors add up
        if want_tensor.dim() == 1: tolerance['atol'] *= case.inputs[0].shape[0]**.5
        torch.testing.assert_close(got_tensor.detach(), want_tensor.detach().to(got_tensor.dtype), **tolerance)


def case_rows(case, seconds):
    "Yield a row per other candidate"
    graphs = {other: rows.capture_graph(maker) for other, maker in candidates(case)}
    check_near_float64(case, graphs['ours']())
    x = case.inputs[0]
    comparison = compare(graphs, x.detach(), baseline='ours', check=lambda got: None, seconds=seconds, clock=GpuClock())
    for other in comparison.timings:
        if other != 'ours':
            goal, other_bytes = case.goals.get(other), 2*x.nbytes if other == 'copy' else None
            yield rows.comparison_row(case.tool, x, comparison, other, goal, case.arrays*x.nbytes, other_bytes)


def measure(case, seconds):
    "Yield the rows of a case, or one row with the error"
    try: yield from list(case_rows(case, seconds))
    except Exception as error: yield rows.failed_row(case.tool, case.inputs[0], error)


def format_row(row): return rows.format_row(row, tool=20, dtype=8, shape=9, other=8, us=7, gbs=5)


if __name__ == '__main__': rows.run(__doc__, PARTS, measure, format_row, HERE/'fusion.json', .1)
