"""`gridstride.kernels.softmax` and `log_softmax`, forward and backward, against `torch.compile`, eager torch and a
copy, by the length of the rows, on a GPU: the course's goals.

    python softmax.py > softmax.txt       # all parts, in a minute; writes softmax.json
    python softmax.py forward             # one part; writes nothing
    python softmax.py --seconds .2        # of timing per candidate (0.05)

As in fusion.py, each result is first compared with torch's in float64, all candidates are CUDA graphs and timed
interleaved, and times are medians of GPU time with the L2 cache overwritten before each run. All tensors have 2^26
elements; GB/s count each input read once and the result written once.
"""
from pathlib import Path
from typing import NamedTuple

import torch
from gridstride import kernels
from gridstride.bench import compare
from gridstride.kernels.ladder.ladder import GpuClock

import rows

HERE = Path(__file__).parent
SIZE, TYPES = 2**26, (torch.float32, torch.bfloat16)
SHORT, LONG = (1024, 2048, 4096, 8192), (32768, 131072)
TOOLS = dict(softmax=(kernels.softmax, torch.softmax), log_softmax=(kernels.log_softmax, torch.log_softmax))
# Rounding errors relative to the largest result: the last bit of bfloat16; in float32, those of a reordered sum of up
# to 131072 values
TOLERANCES = {torch.bfloat16: 2**-7, torch.float32: 1e-5}
GOALS = {**dict.fromkeys(SHORT, dict(compiled=1.)), **dict.fromkeys(LONG, dict(eager=1.9, compiled=1.9, copy=.95))}


class Case(NamedTuple):
    "One tool on one tensor"
    tool: str
    x: object             # a tensor; for a backward pass, it requires a gradient
    others: tuple         # names of the other candidates
    goals: dict = {}      # other candidate -> speedup of ours to reach
    dy: object = None     # output gradient; if given, the backward pass is timed


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


def candidates(case):
    "Yield (name, function that makes the function to time) of ours and the others"
    ours, torchs = TOOLS[case.tool]
    make_pass = rows.make_backward if case.dy is not None else rows.make_forward
    def eager(x): return torchs(x, -1)
    def maker(f): return lambda: make_pass(f, [case.x], case.dy)
    yield 'ours', maker(ours)
    if 'eager' in case.others: yield 'eager', maker(eager)
    if 'compiled' in case.others:
        torch._dynamo.reset()                               # otherwise a second shape is compiled with dynamic sizes
        yield 'compiled', maker(torch.compile(eager, dynamic=False))
    if 'copy' in case.others:
        out = torch.zeros_like(case.x)
        yield 'copy', lambda: lambda: out.copy_(case.x)


def check_near_float64(case, got):
    "Raise unless `got` is near torch's result in float64"
    x = case.x.detach().double().requires_grad_()
    with torch.enable_grad(): want = TOOLS[case.tool][1](x, -1)
    if case.dy is not None: want, got = torch.autograd.grad(want, x, case.dy.double())[0], got[0]
    tolerance = TOLERANCES[got.dtype]
    largest = want.detach().abs().max().item()
    torch.testing.assert_close(got.detach(), want.detach().to(got.dtype), rtol=tolerance, atol=tolerance*largest)


def case_rows(case, seconds):
    "Yield a row per other candidate"
    graphs = {other: rows.capture_graph(maker) for other, maker in candidates(case)}
    check_near_float64(case, graphs['ours']())
    x, arrays, name = case.x.detach(), 2 + (case.dy is not None), case.tool + ', backward'*(case.dy is not None)
    comparison = compare(graphs, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=GpuClock())
    for other in case.others:
        other_bytes = 2*x.nbytes if other == 'copy' else None
        yield rows.comparison_row(name, x, comparison, other, case.goals.get(other), arrays*x.nbytes, other_bytes)


def measure(case, seconds):
    "Yield the rows of a case, or one row with the error"
    try: yield from list(case_rows(case, seconds))
    except Exception as error: yield rows.failed_row(case.tool, case.x, error)


def format_row(row): return rows.format_row(row, tool=21, dtype=8, shape=12, other=8, us=7, gbs=5)


if __name__ == '__main__': rows.run(__doc__, PARTS, measure, format_row, HERE/'softmax.json', .05)
