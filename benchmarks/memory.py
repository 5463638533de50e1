"""`gridstride.kernels.sum`, `argmax`, `scan`, `histogram` and `transpose` against CUB, torch and a copy, on a GPU: the
course's goals, and other types.

    python memory.py                  # all of it, in a minute; prints what memory.txt holds, writes memory.json
    python memory.py sum scan         # some of it; writes nothing
    python memory.py --seconds 1      # of timing per side (0.2)

Each result is first compared with torch's; then our function and the others take turns. Figures are medians of GPU time
with the L2 overwritten before each run, ratios medians over the rounds with their 95% interval.
GB/s are the bytes that have to be read and written. The copy is torch's, of a tensor of that size; `reads` is a kernel
that reads the tensor and does nothing else.
"""
from pathlib import Path

import torch
from gridstride import kernels
from gridstride.bench import compare, reads
from gridstride.kernels import cub
from gridstride.kernels.ladder.ladder import Gpu

import rows

HERE = Path(__file__).parent
WIDTHS = 1024, 4096, 16384, 65536, 131072


def inputs(dtype, *shape):
    "Random values: normal ones, or integers from -8 to 7, or bytes"
    if dtype.is_floating_point: return torch.randn(shape, device='cuda').to(dtype)
    low, high = (0, 256) if dtype == torch.uint8 else (-8, 8)
    return torch.randint(low, high, shape, dtype=dtype, device='cuda')


def copy(x, out): return out.copy_(x)


def into(f, like):
    "`f` as a function of one tensor, that writes one like `like`"
    out = torch.zeros_like(like)
    return lambda x: f(x, out)


def near(got, want, rounding=0):
    "Sums of normal values are some 10^4, and in float32 their rounding errors some 10^-2; those of integers are exact"
    torch.testing.assert_close(got.double(), want, rtol=rounding, atol=.1)


# Rows: (tool, what it is given, others by name with the goal for the ratio to each or None, bytes that are moved)

def sums():
    for dtype, n, goal in ((torch.int32, 2**30, 1.03), (torch.float32, 2**28, 1.03), (torch.bfloat16, 2**29, None)):
        x = inputs(dtype, n)
        reading = reads(x)
        others = {'CUB': (into(cub.sum, x[0]), goal), 'reads': (lambda x: reading(), 1.)} if goal else {}
        yield ('sum', kernels.sum, x, {**others, 'torch': (torch.sum, None)}, x.nbytes,
               lambda got, x: near(got, x.sum(dtype=torch.float64), 2**-8 if x.dtype == torch.bfloat16 else 0))


def argmaxes():
    for w in WIDTHS:
        x = inputs(torch.float32, 2**28//w, w)
        yield ('argmax', lambda x: kernels.argmax(x, -1), x, {'torch': (lambda x: x.argmax(-1), 1.05)}, x.nbytes,
               lambda got, x: torch.testing.assert_close(got, x.argmax(-1)))


def scans():
    for dtype, n, goal in ((torch.int32, 2**28, 1.), (torch.float32, 2**28, None)):
        # whole ones around 0, whose sums stay below 2^24 and are exact in float32, too; those of normal ones, some
        # 10^4, are rounded at each of 2^14 tiles
        x = torch.randint(-8, 9, (n,), device='cuda', dtype=torch.int32).to(dtype)
        yield ('scan', kernels.scan, x, {'CUB': (into(cub.scan, x), goal), 'copy': (into(copy, x), None)},
               2*x.nbytes, lambda got, x: torch.testing.assert_close(got, x.cumsum(0, dtype=torch.float64).to(x.dtype),
                                                                     rtol=0, atol=0))


def histograms():
    x = inputs(torch.uint8, 2**28)
    yield ('histogram', kernels.histogram, x,
           {'CUB': (into(cub.histogram, torch.empty(256, dtype=torch.int32, device='cuda')), 1.)}, x.nbytes,
           lambda got, x: torch.testing.assert_close(got.long(), torch.bincount(x.int(), minlength=256)))


def transposes():
    for dtype, goals in ((torch.float32, (.97, 1.)), (torch.bfloat16, (None, None))):
        x = inputs(dtype, 8192, 8192)
        yield ('transpose', kernels.transpose, x,
               {'copy': (into(copy, x), goals[0]), 'torch': (lambda x: x.t().contiguous(), goals[1])}, 2*x.nbytes,
               lambda got, x: torch.testing.assert_close(got, x.t(), rtol=0, atol=0))


PARTS = dict(sum=sums, argmax=argmaxes, scan=scans, histogram=histograms, transpose=transposes)


def rows_of(tool, f, x, others, size, right, seconds):
    "One row per other side"
    ways = {'ours': f, **{k: o for k, (o, _) in others.items()}}
    for k, way in ways.items():
        if k not in ('copy', 'reads'): right(way(x), x)
    c = compare(ways, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=Gpu())     # looked at above
    for k, (_, goal) in others.items(): yield rows.row(tool, x, c, k, goal, size)


def measure(job, seconds):
    "The rows of a job, or one that says why there are none"
    try: yield from list(rows_of(*job, seconds))
    except Exception as e: yield rows.failed(job[0], job[2], e)


def line(r): return rows.line(r, tool=10, dtype=9, shape=14, other=6, us=8, gbs=6)


if __name__ == '__main__': rows.run(__doc__, PARTS, measure, line, HERE/'memory.json', .2)
