"""`gridstride.kernels.softmax` and `log_softmax`, forward and backward, against `torch.compile`, torch as it is, and a
copy, by the length of the rows, on a GPU: the course's goals.

    python softmax.py                     # all of it, in a minute; prints what softmax.txt holds, writes softmax.json
    python softmax.py forward             # a part of it; writes nothing
    python softmax.py --seconds .2        # of timing per side (0.05)

As in fusion.py, each result is first compared with torch's in float64, all sides are CUDA graphs and take turns, and
figures are medians of GPU time with the L2 overwritten before each run. All tensors have 2^26 elements; GB/s are those
of reading each of them once and writing the result.
"""
from pathlib import Path
from typing import NamedTuple

import torch
from gridstride import kernels
from gridstride.bench import compare
from gridstride.kernels.ladder.ladder import Gpu

import rows

HERE = Path(__file__).parent
SIZE, TYPES = 2**26, (torch.float32, torch.bfloat16)
SHORT, LONG = (1024, 2048, 4096, 8192), (32768, 131072)
TOOLS = dict(softmax=(kernels.softmax, torch.softmax), log_softmax=(kernels.log_softmax, torch.log_softmax))
# Rounding errors of the largest result: 16 bits to their last; in float32 a sum of up to 131072 values, reordered
NEAR = {torch.bfloat16: 2**-7, torch.float32: 1e-5}
GOALS = {**dict.fromkeys(SHORT, dict(compiled=1.)), **dict.fromkeys(LONG, dict(eager=1.9, compiled=1.9, copy=.95))}


class Case(NamedTuple):
    "One tool on one tensor"
    tool: str
    x: object             # a tensor; that of a backward has a gradient
    others: tuple         # the other sides
    goals: dict = {}      # other side -> how many times faster ours shall be
    dy: object = None     # a tensor: the backward is timed


def inputs(width, dtype, grad=False):
    torch.manual_seed(0)
    return torch.randn(SIZE//width, width, device='cuda').to(dtype).requires_grad_(grad)


def forward(tool='softmax', widths=SHORT + LONG, goals=GOALS, others=('eager', 'compiled', 'copy')):
    for dtype in TYPES:
        for width in widths: yield Case(tool, inputs(width, dtype), others, goals.get(width, {}))


def backward(tool='softmax', widths=(1024, 8192, 131072)):
    for dtype in TYPES:
        for width in widths:
            x = inputs(width, dtype, True)
            yield Case(tool, x, ('eager', 'compiled'), dy=torch.randn_like(x))


def log_forward(): yield from forward('log_softmax', (1024, 131072), {}, ('eager', 'copy'))


def log_backward(): yield from (o._replace(others=('eager',)) for o in backward('log_softmax', (1024, 131072)))


PARTS = dict(forward=forward, backward=backward, log_forward=log_forward, log_backward=log_backward)


def sides(case):
    "Name -> what makes a function without arguments: ours, and the others"
    ours, torchs = TOOLS[case.tool]
    of = rows.backward_of if case.dy is not None else rows.forward_of
    def eager(x): return torchs(x, -1)
    def way(f): return lambda: of(f, [case.x], case.dy)
    yield 'ours', way(ours)
    if 'eager' in case.others: yield 'eager', way(eager)
    if 'compiled' in case.others:
        torch._dynamo.reset()                               # a shape that is not the first is compiled for itself, too
        yield 'compiled', way(torch.compile(eager, dynamic=False))
    if 'copy' in case.others:
        out = torch.zeros_like(case.x)
        yield 'copy', lambda: lambda: out.copy_(case.x)


def check(case, got):
    "Raise unless `got` is near what torch computes in float64"
    x = case.x.detach().double().requires_grad_()
    with torch.enable_grad(): want = TOOLS[case.tool][1](x, -1)
    if case.dy is not None: want, got = torch.autograd.grad(want, x, case.dy.double())[0], got[0]
    near = NEAR[got.dtype]
    most = want.detach().abs().max().item()
    torch.testing.assert_close(got.detach(), want.detach().to(got.dtype), rtol=near, atol=near*most)


def rows_of(case, seconds):
    "One row per other side"
    ways = {k: rows.graphed(f) for k, f in sides(case)}
    check(case, ways['ours']())
    x, arrays, name = case.x.detach(), 2 + (case.dy is not None), case.tool + ', backward'*(case.dy is not None)
    c = compare(ways, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=Gpu())
    for k in case.others:
        yield rows.row(name, x, c, k, case.goals.get(k), arrays*x.nbytes, 2*x.nbytes if k == 'copy' else None)


def measure(case, seconds):
    "The rows of a case, or one that says why there are none"
    try: yield from list(rows_of(case, seconds))
    except Exception as e: yield rows.failed(case.tool, case.x, e)


def line(r): return rows.line(r, tool=21, dtype=8, shape=12, other=8, us=7, gbs=5)


if __name__ == '__main__': rows.run(__doc__, PARTS, measure, line, HERE/'softmax.json', .05)
