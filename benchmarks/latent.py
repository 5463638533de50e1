"""`gridstride.kernels.latent_attention` against SDPA on the expanded form, on an H100: the course's goals.

    python latent.py > latent.txt  # all parts, in half a minute; writes latent.json
    python latent.py goal          # one part; writes nothing
    python latent.py --seconds 1   # of timing per candidate (0.1)

In a decode step, one new token per sequence of the batch attends to its cache, with 128 heads except in part `heads`.
Each result is first compared with float64. All candidates are captured in CUDA graphs, which exclude Python's time, and
timed interleaved. Times are medians of GPU time with the L2 cache overwritten before each run; ratios are medians over
the rounds, with their 95% interval. GB/s count the cache once; TFLOP/s count two operations per element of a key
(576 + 512) and head. The other candidates: `sdpa`, the step before keys and values are absorbed, with 192 and 128
elements per head, if they fit in 80 GB; `bmm`, two products and a softmax by torch on a cache without pages; `reads`, a
kernel that only reads as many bytes. `bound` is not measured: it is the longer of the time to read the cache at the
rate of pure reads and the time of the operations at the rate of `torch.matmul`, both measured by
`gridstride.bench.ceilings`.
"""
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from gridstride.bench import ceilings, compare, reads
from gridstride.kernels import latent_attention
from gridstride.kernels.ladder.ladder import GpuClock

import rows

HERE = Path(__file__).parent
HEAD = "ms, GB/s and TFLOP/s, ours; the other's ms; how many times faster ours is, and its interval"
DEVICE, MAX_EXPANDED_BYTES = 'cuda', 60e9       # of the H100's 80e9, for the expanded keys and values
SCALE = 192**-.5


class Job(NamedTuple):
    batch: int
    keys: int                   # per sequence; if `ragged`, the maximum
    goals: dict = {}            # other candidate -> ratio to reach
    heads: int = 128
    length: int = 1             # new tokens per sequence
    ragged: bool = False
    dtype: torch.dtype = torch.bfloat16


class Case:
    "Random q and a cache with shuffled pages, with the candidates that compute attention to it"
    def __init__(self, job):
        torch.manual_seed(0)
        self.job, pages_per_sequence = job, -(-job.keys//64)
        def normal(*shape): return torch.randn(shape, device=DEVICE, dtype=job.dtype)
        lens = torch.randint(1, job.keys + 1, (job.batch,)) if job.ragged else torch.full((job.batch,), job.keys)
        self.lens, self.cache = lens.to(DEVICE).int(), normal(job.batch*pages_per_sequence, 64, 576)
        self.table = torch.randperm(job.batch*pages_per_sequence, device=DEVICE).view(job.batch, -1).int()
        self.q = normal(job.batch, *([job.length] if job.length > 1 else []), job.heads, 576)
        self.keys = int(lens.sum())
        self.bytes = self.keys*576*self.q.element_size()
        self.flops = 2*self.keys*job.length*job.heads*(576 + 512)

    def ours(self): return latent_attention(self.q, self.cache, self.table, self.lens)[0]

    def reference(self, i):
        "Compute the result of sequence `i` in float64"
        n, q = int(self.lens[i]), self.q[i].double().view(self.job.length, -1, 576)
        k = self.cache[self.table[i].long()].flatten(0, 1)[:n].double()
        visible = range(n - len(q) + 1, n + 1)               # number of keys that each new token attends to
        outputs = [(q[j] @ k[:m].mT*SCALE).softmax(-1) @ k[:m, :512] for j, m in enumerate(visible)]
        return torch.stack(outputs).view(*self.q.shape[1:-1], 512)

    def sdpa(self):
        batch, keys, heads = self.job.batch, self.job.keys, self.job.heads
        q, k, v = (torch.randn(batch, heads, n, d, device=DEVICE, dtype=self.job.dtype)
                   for n, d in ((1, 192), (keys, 192), (keys, 128)))
        return lambda: F.scaled_dot_product_attention(q, k, v)

    def bmm(self):
        k = self.cache.view(self.job.batch, -1, 576)
        return lambda: (self.q @ k.mT*SCALE).softmax(-1) @ k[:, :, :512]

    def others(self):
        "Yield (name, function that makes the function to time) of the other candidates that can run this job"
        job, expanded_bytes = self.job, self.job.batch*self.job.keys*self.job.heads*320*self.q.element_size()
        is_uniform = job.length == 1 and not job.ragged
        if is_uniform and expanded_bytes <= MAX_EXPANDED_BYTES: yield 'sdpa', self.sdpa
        if is_uniform and job.keys % 64 == 0: yield 'bmm', self.bmm
        yield 'reads', lambda: reads(self.cache.view(-1)[:self.keys*576])


def check_near_float64(case):
    "Raise unless our result is near float64"
    out = case.ours()
    for i in {0, case.job.batch - 1}:
        want = case.reference(i)
        if not (difference := ((out[i].double() - want).abs().max()/want.abs().max()).item()) < 2**-7:
            raise RuntimeError(f'{case.job}: expected a difference below 2**-7 of the largest element, '
                               f'got {difference}')


def lower_bound(case):
    "Return (the least seconds that the step takes at the rates measured here, 'memory' or 'compute')"
    rates, dtype = ceilings(), 'fp16' if case.job.dtype == torch.float16 else 'bf16'
    return max((case.bytes/rates['read']/1e9, 'memory'), (case.flops/rates[dtype]/1e12, 'compute'))


def measure(job, seconds):
    case = Case(job)
    check_near_float64(case)
    capture = rows.capture_graph if DEVICE == 'cuda' else lambda make: lambda candidate=make(): candidate()
    tool = f'decode{job.heads}' + 'ragged'*job.ragged + f'x{job.length}'*(job.length > 1)
    candidates = {'ours': capture(lambda: case.ours)}
    for other, make in case.others():
        try: candidates[other] = capture(make)
        except RuntimeError as error:                      # includes out of memory
            yield dict(rows.failed_row(tool, case.q, error), shape=[job.batch, job.keys], other=other)
    options = dict(clock=GpuClock()) if DEVICE == 'cuda' else {}
    functions = {name: lambda _, candidate=candidate: candidate() for name, candidate in candidates.items()}
    comparison = compare(functions, torch.zeros(1, device=DEVICE), baseline='ours', check=lambda got: None,
                         seconds=seconds, **options)
    for other in candidates:
        if other == 'ours': continue
        row = rows.comparison_row(tool, case.q, comparison, other, job.goals.get(other), case.bytes)
        yield dict(row, shape=[job.batch, job.keys], tflops=case.flops/row['seconds']/1e12)
    least_seconds, limit = lower_bound(case)
    ratio = least_seconds/row['seconds']
    yield dict(row, shape=[job.batch, job.keys], tflops=case.flops/row['seconds']/1e12, other=f'bound: {limit}',
               other_seconds=least_seconds, ratio=ratio, low=ratio, high=ratio, goal=job.goals.get('bound'))


def format_row(row):
    head = f"{row['tool']:<15} {'x'.join(map(str, row['shape'])):<10}"
    if 'failed' in row: return f"{head} {row['other']} FAILED {row['failed']}"
    return (f"{head} {row['seconds']*1e3:>8.3f} ms {row['gbs']:>5.0f} GB/s  "
            f"{row['tflops']:>4.0f} TFLOP/s  {row['other']:<14} {row['other_seconds']*1e3:>8.3f} ms  "
            f"{rows.format_ratio(row)}")


def goal():
    yield Job(128, 8192, dict(bound=.85))
    yield Job(32, 8192, dict(sdpa=2.))                     # a larger batch would not fit in memory when expanded


def table():
    for batch in (1, 4, 16, 64, 128):
        for keys in (1024, 4096, 32768): yield Job(batch, keys)


def heads():
    "Yield the jobs of one of 2, 4 or 8 GPUs that share the heads"
    for n in (64, 32, 16): yield Job(128, 8192, heads=n)


def others():
    yield Job(128, 16384, ragged=True)
    yield Job(128, 8192, length=2)
    yield Job(128, 8192, dtype=torch.float16)


if __name__ == '__main__':
    rows.run(__doc__, dict(goal=goal, table=table, heads=heads, others=others), measure, format_row,
             HERE/'latent.json', .1, HEAD)
