"""`gridstride.kernels.sum`, `argmax`, `scan`, `histogram` and `transpose` against CUB, torch and a copy, on a GPU: the
course's goals, and other types.

    python memory.py > memory.txt     # all parts, in a minute; writes memory.json
    python memory.py sum scan         # some parts; writes nothing
    python memory.py --seconds 1      # of timing per candidate (0.2)

Each result is first compared with torch's; the candidates are then timed interleaved. Times are medians of GPU time
with the L2 cache overwritten before each run; ratios are medians over the rounds, with their 95% interval. GB/s count
the bytes that must be read and written. The copy is torch's, of a tensor of the same size; `reads` is a kernel that
only reads the tensor.
"""
from pathlib import Path

import torch
from gridstride import kernels
from gridstride.bench import compare, reads
from gridstride.kernels import cub
from gridstride.kernels.ladder.ladder import GpuClock

import rows

HERE = Path(__file__).parent
WIDTHS = 1024, 4096, 16384, 65536, 131072


def inputs(dtype, *shape):
    "Draw normal values, integers from -8 to 7, or bytes"
    if dtype.is_floating_point: return torch.randn(shape, device='cuda').to(dtype)
    low, high = (0, 256) if dtype == torch.uint8 else (-8, 8)
    return torch.randint(low, high, shape, dtype=dtype, device='cuda')


def copy(x, out): return out.copy_(x)


def with_output(function, like):
    "Return `function` as a function of its input alone, which writes to one output like `like`"
    out = torch.zeros_like(like)
    return lambda x: function(x, out)


def check_sum(got, want, rounding=0):
    "Raise unless a sum is right. Sums of normal values are near 10^4, with rounding errors near 10^-2 in float32"
    torch.testing.assert_close(got.double(), want, rtol=rounding, atol=.1)


# Jobs: (tool, our function, its input, {other candidate: (function, goal for the ratio or None)}, bytes moved,
# function that checks (result, input))

def sums():
    for dtype, n, goal in ((torch.int32, 2**30, 1.03), (torch.float32, 2**28, 1.03), (torch.bfloat16, 2**29, None)):
        x = inputs(dtype, n)
        reading = reads(x)
        others = {'CUB': (with_output(cub.sum, x[0]), goal), 'reads': (lambda x: reading(), 1.)} if goal else {}
        yield ('sum', kernels.sum, x, {**others, 'torch': (torch.sum, None)}, x.nbytes,
               lambda got, x: check_sum(got, x.sum(dtype=torch.float64), 2**-8 if x.dtype == torch.bfloat16 else 0))


def argmaxes():
    for w in WIDTHS:
        x = inputs(torch.float32, 2**28//w, w)
        yield ('argmax', lambda x: kernels.argmax(x, -1), x, {'torch': (lambda x: x.argmax(-1), 1.05)}, x.nbytes,
               lambda got, x: torch.testing.assert_close(got, x.argmax(-1)))


def scans():
    for dtype, n, goal in ((torch.int32, 2**28, 1.), (torch.float32, 2**28, None)):
        # Sums of small integers around 0 stay below 2^24, so they are exact in float32, too. Sums of normal values,
        # near 10^4, would be rounded at each of 2^14 tiles.
        x = torch.randint(-8, 9, (n,), device='cuda', dtype=torch.int32).to(dtype)
        others = {'CUB': (with_output(cub.scan, x), goal), 'copy': (with_output(copy, x), None)}
        def check_scan(got, x):
            want = x.cumsum(0, dtype=torch.float64).to(x.dtype)
            torch.testing.assert_close(got, want, rtol=0, atol=0)
        yield ('scan', kernels.scan, x, others, 2*x.nbytes, check_scan)


def histograms():
    x = inputs(torch.uint8, 2**28)
    yield ('histogram', kernels.histogram, x,
           {'CUB': (with_output(cub.histogram, torch.empty(256, dtype=torch.int32, device='cuda')), 1.)}, x.nbytes,
           lambda got, x: torch.testing.assert_close(got.long(), torch.bincount(x.int(), minlength=256)))


def transposes():
    for dtype, goals in ((torch.float32, (.97, 1.)), (torch.bfloat16, (None, None))):
        x = inputs(dtype, 8192, 8192)
        yield ('transpose', kernels.transpose, x,
               {'copy': (with_output(copy, x), goals[0]), 'torch': (lambda x: x.t().contiguous(), goals[1])},
               2*x.nbytes, lambda got, x: torch.testing.assert_close(got, x.t(), rtol=0, atol=0))


PARTS = dict(sum=sums, argmax=argmaxes, scan=scans, histogram=histograms, transpose=transposes)


def job_rows(tool, function, x, others, size, check_result, seconds):
    "Yield a row per other candidate"
    candidates = {'ours': function, **{name: candidate for name, (candidate, _) in others.items()}}
    for name, candidate in candidates.items():
        if name not in ('copy', 'reads'): check_result(candidate(x), x)
    comparison = compare(candidates, x, baseline='ours', check=lambda got: None, seconds=seconds, clock=GpuClock())
    for name, (_, goal) in others.items(): yield rows.comparison_row(tool, x, comparison, name, goal, size)


def measure(job, seconds):
    "Yield the rows of a job, or one row with the error"
    try: yield from list(job_rows(*job, seconds))
    except Exception as error: yield rows.failed_row(job[0], job[2], error)


def format_row(row): return rows.format_row(row, tool=10, dtype=9, shape=14, other=6, us=8, gbs=6)


if __name__ == '__main__': rows.run(__doc__, PARTS, measure, format_row, HERE/'memory.json', .2)
