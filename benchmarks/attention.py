"""`gridstride.kernels.attention` against SDPA's cuDNN and flash, on a Hopper GPU: the course's goals.

    python attention.py               # all of it, in a minute; prints what attention.txt holds, writes attention.json
    python attention.py forward       # some of it; writes nothing
    python attention.py --seconds 1   # of timing per side (0.25)

Each result is first compared with SDPA's; then all take turns. Figures are medians of GPU time with the L2 overwritten
before each run, ratios medians over the rounds with their 95% interval. TFLOP/s count 2 operations
per product and per score that a row attends to: two products forward, five backward. `numerics` compares errors
against float64 with SDPA's.
"""
import math, random
from pathlib import Path
from typing import NamedTuple

import rows
import torch
import torch.nn.functional as F
from gridstride.bench import compare
from gridstride.kernels import attention
from gridstride.kernels.flash import attentions
from gridstride.kernels.ladder.ladder import Gpu
from gridstride.kernels.ladder.rung import Device
from torch.nn.attention import SDPBackend, sdpa_kernel

HERE = Path(__file__).parent
HEAD = "ms and TFLOP/s, ours and the other's; how many times faster ours is, and its interval"
OTHERS = dict(cudnn=SDPBackend.CUDNN_ATTENTION, flash=SDPBackend.FLASH_ATTENTION)


class Job(NamedTuple):
    tool: str               # 'forward', 'backward', 'mma.sync', 'numerics'
    shape: tuple            # batch, heads, rows, dim
    causal: bool
    goals: dict             # other -> ratio


class Case:
    "q, k, v and a gradient, and the ways to compute what a job asks for"
    def __init__(self, job, spread=1., outliers=False, dtype=torch.bfloat16):
        torch.manual_seed(0)
        self.job = job
        self.given = [torch.randn(job.shape, device='cuda')*spread for _ in range(4)]
        if outliers:
            for x in self.given[:3]: x[..., ::37, :] *= 10
        self.given = [x.to(dtype) for x in self.given]
        self.grads = job.tool == 'backward'
        for x in self.given[:3]: x.requires_grad_(self.grads)

    def sdpa(self, backend):
        with sdpa_kernel(backend): return F.scaled_dot_product_attention(*self.given[:3], is_causal=self.job.causal)

    def ours(self): return attention(*self.given[:3], causal=self.job.causal)

    def way(self, forward):
        "What is timed: the forward pass, or the backward pass of one that was done before"
        if not self.grads: return lambda _: forward()
        out = forward()
        return lambda _: torch.autograd.grad(out, self.given[:3], self.given[3], retain_graph=True)

    def ways(self):
        others = {k: self.way(lambda b=b: self.sdpa(b)) for k, b in OTHERS.items() if k in self.job.goals}
        return dict(ours=self.way(self.ours), **others)


def look(job, ways):
    "Raise unless ours is near the first other's"
    of = [f(None) for f in ways.values()]
    for a, b in zip(*([x] if torch.is_tensor(x) else x for x in of[:2])):
        a, b = a.float(), b.float()
        if not (far := ((a - b).abs().max()/b.abs().max()).item()) < 2**-6:
            raise RuntimeError(f'{job}: {far} of the largest number away')


def without_hopper(run):
    "Runs as on an Ampere GPU"
    real_device, attentions.this_device = attentions.this_device, lambda: Device(132, False)
    try: return run()
    finally: attentions.this_device = real_device


def timed(job, seconds):
    batch, heads, n, dim = job.shape
    ways = Case(job).ways()
    look(job, ways)
    how = dict(check=lambda got: None, seconds=seconds, clock=Gpu())
    c = compare(ways, torch.zeros(1, device='cuda'), baseline='ours', **how)
    scores = batch*heads*n*(n + 1)/2 if job.causal else batch*heads*n*n
    size = 2*dim*scores*(5 if job.tool == 'backward' else 2)
    x = torch.empty(0, dtype=torch.bfloat16)
    for other, goal in job.goals.items():
        r = rows.row(job.tool, x, c, other, goal, size/1e3)      # gbs: 1e12 operations
        yield dict(r, shape=list(job.shape), causal=job.causal)


def error(got, want):
    "Root of the mean square, of that of what is wanted"
    return ((got.double() - want).square().mean()/want.square().mean()).sqrt().item()


def numerics(job, seconds):
    "The error of ours over that of SDPA's, against float64"
    for what, how in dict(normal={}, spread=dict(spread=3.), outliers=dict(outliers=True)).items():
        c = Case(job, **how)
        q, k, v = (x.double() for x in c.given[:3])
        s = q @ k.mT*q.shape[-1]**-.5
        if job.causal: s.masked_fill_(torch.ones(s.shape[-2:], dtype=torch.bool, device='cuda').triu(1), -math.inf)
        want = s.softmax(-1) @ v
        ours = error(c.ours(), want)
        for other, b in OTHERS.items():
            theirs = error(c.sdpa(b), want)
            yield dict(tool=f'numerics, {what}', shape=list(job.shape), causal=job.causal, other=other, error=ours,
                       other_error=theirs, ratio=ours/theirs, goal=1.1)


def measure(job, seconds):
    if job.tool == 'numerics': return list(numerics(job, seconds))
    if job.tool == 'mma.sync': return without_hopper(lambda: list(timed(job, seconds)))
    return list(timed(job, seconds))


def line(r):
    head = f"{r['tool']:<19} {'x'.join(map(str, r['shape'])):<16} {'causal' if r['causal'] else 'all':<6}"
    if 'error' in r:
        kept = 'reached' if r['ratio'] <= r['goal'] else 'MISSED'
        return (f"{head} error {r['error']:.2e}  {r['other']:<5} error {r['other_error']:.2e}  ratio {r['ratio']:.3f}"
                f"  goal {r['goal']}: {kept}")
    goal = f"  goal {r['goal']}: {'reached' if r['ratio'] >= r['goal'] else 'MISSED'}" if r['goal'] else ''
    return (f"{head} {r['seconds']*1e3:>8.3f} ms {r['gbs']:>4.0f} TFLOP/s  {r['other']:<5} "
            f"{r['other_seconds']*1e3:>8.3f} ms {r['other_gbs']:>4.0f} TFLOP/s  {r['ratio']:.3f} "
            f"({r['low']:.3f} to {r['high']:.3f}){goal}")


LARGE = 4, 16, 8192, 128


def forward():
    for causal in (False, True):
        yield Job('forward', LARGE, causal, dict(cudnn=1.05, flash=None))
        yield Job('forward', (4, 16, 8192, 64), causal, dict(cudnn=None, flash=None))
    yield Job('forward', (4, 8, 8192, 256), False, dict(cudnn=None))


def backward():
    for causal in (False, True): yield Job('backward', LARGE, causal, dict(cudnn=.9, flash=None))


def plain():
    for causal in (False, True): yield Job('mma.sync', LARGE, causal, dict(flash=None if causal else 1.))


def shapes():
    "16 random ones"
    rng = random.Random(0)
    for _ in range(16):
        n = rng.randint(128, 8192)
        batch = max(1, min(16, 2**15//n))
        yield Job('forward', (batch, rng.choice([8, 12, 16, 32]), n, rng.choice([64, 128])), rng.random() < .5,
                  dict(cudnn=None))


def errors():
    for causal in (False, True): yield Job('numerics', (1, 4, 4096, 128), causal, {})


if __name__ == '__main__':
    rows.run(__doc__, dict(forward=forward, shapes=shapes, backward=backward, plain=plain, numerics=errors), measure,
             line, HERE/'attention.json', .25, HEAD)
