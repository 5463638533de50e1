"""`gridstride.kernels.latent_attention` against SDPA on the expanded form, on an H100: the course's goals.

    python latent.py              # all of it, in half a minute; prints what latent.txt holds, writes latent.json
    python latent.py goal         # some of it; writes nothing
    python latent.py --seconds 1  # of timing per side (0.1)

A decode step: one new token per sequence of the batch attends to its cache, 128 heads unless `heads` changes it. Each
result is first compared with float64. All sides are captured in CUDA graphs, so that no Python is timed, and
interleaved; results are medians of GPU time with the L2 overwritten before each run, ratios are medians over the rounds
with their 95% interval. GB/s count the cache once; TFLOP/s count two operations per element of a key (576 + 512) and
head. The other sides: `sdpa`, the same step before keys and values were absorbed, 192 and 128 elements per head,
where 80 GB hold them; `bmm`, two products of torch on a cache without pages, with a softmax between; `reads`, nothing
but reading as many bytes; `bound`, no measurement of its own: the longer of the cache's bytes at the rate of pure reads
and the operations at the rate of `torch.matmul`, as `gridstride.bench.ceilings` has measured them here.
"""
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from gridstride.bench import ceilings, compare, reads
from gridstride.kernels import latent_attention
from gridstride.kernels.ladder.ladder import Gpu

import rows

HERE = Path(__file__).parent
HEAD = "ms, GB/s and TFLOP/s, ours; the other's ms; how many times faster ours is, and its interval"
WHERE, MEMORY = 'cuda', 60e9       # of the H100's bytes, for the expanded form
SCALE = 192**-.5


class Job(NamedTuple):
    batch: int
    keys: int                   # of each; for `ragged`, at most
    goals: dict = {}            # other -> ratio
    heads: int = 128
    length: int = 1             # new tokens
    ragged: bool = False
    dtype: torch.dtype = torch.bfloat16


class Case:
    "Random q, a cache with shuffled pages, and the ways to look at it"
    def __init__(self, job):
        torch.manual_seed(0)
        self.job, wide = job, -(-job.keys//64)
        def normal(*shape): return torch.randn(shape, device=WHERE, dtype=job.dtype)
        lens = torch.randint(1, job.keys + 1, (job.batch,)) if job.ragged else torch.full((job.batch,), job.keys)
        self.lens, self.cache = lens.to(WHERE).int(), normal(job.batch*wide, 64, 576)
        self.table = torch.randperm(job.batch*wide, device=WHERE).view(job.batch, wide).int()
        self.q = normal(job.batch, *([job.length] if job.length > 1 else []), job.heads, 576)
        self.keys = int(lens.sum())
        self.bytes = self.keys*576*self.q.element_size()
        self.flops = 2*self.keys*job.length*job.heads*(576 + 512)

    def ours(self): return latent_attention(self.q, self.cache, self.table, self.lens)[0]

    def right(self, b):
        "One of the batch in float64"
        n, q = int(self.lens[b]), self.q[b].double().view(self.job.length, -1, 576)
        k = self.cache[self.table[b].long()].flatten(0, 1)[:n].double()
        out = [(q[j] @ k[:m].mT*SCALE).softmax(-1) @ k[:m, :512] for j, m in enumerate(range(n - len(q) + 1, n + 1))]
        return torch.stack(out).view(*self.q.shape[1:-1], 512)

    def sdpa(self):
        batch, keys, heads = self.job.batch, self.job.keys, self.job.heads
        q, k, v = (torch.randn(batch, heads, n, d, device=WHERE, dtype=self.job.dtype)
                   for n, d in ((1, 192), (keys, 192), (keys, 128)))
        return lambda: F.scaled_dot_product_attention(q, k, v)

    def bmm(self):
        k = self.cache.view(self.job.batch, -1, 576)
        return lambda: (self.q @ k.mT*SCALE).softmax(-1) @ k[:, :, :512]

    def others(self):
        "name -> what makes it: those that a job can have"
        job, size = self.job, self.job.batch*self.job.keys*self.job.heads*320*self.q.element_size()
        plain = job.length == 1 and not job.ragged
        if plain and size <= MEMORY: yield 'sdpa', self.sdpa
        if plain and job.keys % 64 == 0: yield 'bmm', self.bmm
        yield 'reads', lambda: reads(self.cache.view(-1)[:self.keys*576])


def look(case):
    "Raise unless ours is near float64"
    out = case.ours()
    for b in {0, case.job.batch - 1}:
        want = case.right(b)
        if not (far := ((out[b].double() - want).abs().max()/want.abs().max()).item()) < 2**-7:
            raise RuntimeError(f'{case.job}: {far} of the largest number away')


def bound(case):
    "(seconds, what they are of) that the step takes at least, at the rates measured here"
    found, kind = ceilings(), 'fp16' if case.job.dtype == torch.float16 else 'bf16'
    return max((case.bytes/found['read']/1e9, 'memory'), (case.flops/found[kind]/1e12, 'compute'))


def measure(job, seconds):
    case = Case(job)
    look(case)
    graphed = rows.graphed if WHERE == 'cuda' else lambda make: lambda f=make(): f()
    name = f'decode{job.heads}' + 'ragged'*job.ragged + f'x{job.length}'*(job.length > 1)
    ways = {'ours': graphed(lambda: case.ours)}
    for other, make in case.others():
        try: ways[other] = graphed(make)
        except RuntimeError as e:                          # out of memory among them
            yield dict(rows.failed(name, case.q, e), shape=[job.batch, job.keys], other=other)
    how = dict(clock=Gpu()) if WHERE == 'cuda' else {}
    c = compare({k: lambda _, f=f: f() for k, f in ways.items()}, torch.zeros(1, device=WHERE), baseline='ours',
                check=lambda got: None, seconds=seconds, **how)
    for other in ways:
        if other == 'ours': continue
        r = rows.row(name, case.q, c, other, job.goals.get(other), case.bytes)
        yield dict(r, shape=[job.batch, job.keys], tflops=case.flops/r['seconds']/1e12)
    least, of = bound(case)
    ratio = least/r['seconds']
    yield dict(r, shape=[job.batch, job.keys], tflops=case.flops/r['seconds']/1e12, other=f'bound: {of}',
               other_seconds=least, ratio=ratio, low=ratio, high=ratio, goal=job.goals.get('bound'))


def line(r):
    head = f"{r['tool']:<15} {'x'.join(map(str, r['shape'])):<10}"
    if 'failed' in r: return f"{head} {r['other']} FAILED {r['failed']}"
    goal = f"  goal {r['goal']}: {'reached' if r['ratio'] >= r['goal'] else 'MISSED'}" if r['goal'] else ''
    return (f"{head} {r['seconds']*1e3:>8.3f} ms {r['gbs']:>5.0f} GB/s  "
            f"{r['tflops']:>4.0f} TFLOP/s  {r['other']:<14} {r['other_seconds']*1e3:>8.3f} ms  "
            f"{r['ratio']:.3f} ({r['low']:.3f} to {r['high']:.3f}){goal}")


def goal():
    yield Job(128, 8192, dict(bound=.85))
    yield Job(32, 8192, dict(sdpa=2.))                     # more of the expanded form would not fit


def table():
    for batch in (1, 4, 16, 64, 128):
        for keys in (1024, 4096, 32768): yield Job(batch, keys)


def heads():
    "As on one of 2, 4 or 8 GPUs that share the heads"
    for n in (64, 32, 16): yield Job(128, 8192, heads=n)


def others():
    yield Job(128, 16384, ragged=True)
    yield Job(128, 8192, length=2)
    yield Job(128, 8192, dtype=torch.float16)


if __name__ == '__main__':
    rows.run(__doc__, dict(goal=goal, table=table, heads=heads, others=others), measure, line, HERE/'latent.json', .1,
             HEAD)
