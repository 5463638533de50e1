"""`gridstride.kernels.attention` against SDPA's cuDNN and flash, on a Hopper GPU: the course's goals.

    python attention.py > attention.txt   # all parts, in a minute; writes attention.json
    python attention.py forward           # one part; writes nothing
    python attention.py --seconds 1       # of timing per side (0.25)

Each result is first compared with that of SDPA; the candidates are then timed interleaved. Times are medians of GPU
time with the L2 cache overwritten before each run; ratios are medians over the rounds, with their 95% interval. TFLOP/s
count 2 operations per element and score in each product, of which the forward pass has two and the backward pass five.
`numerics` compares the errors of both against float64.
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
from gridstride.kernels.ladder.ladder import GpuClock
from gridstride.kernels.ladder.rung import Device
from torch.nn.attention import SDPBackend, sdpa_kernel

HERE = Path(__file__).parent
HEAD = "ms and TFLOP/s, ours and the other's; how many times faster ours is, and its interval"
OTHERS = dict(cudnn=SDPBackend.CUDNN_ATTENTION, flash=SDPBackend.FLASH_ATTENTION)


class Job(NamedTuple):
    tool: str               # 'forward', 'backward', 'mma.sync', 'numerics'
    shape: tuple            # batch, heads, rows, dim
    causal: bool
    goals: dict             # other side -> ratio to reach, or None


class Case:
    "The inputs of a job, and the candidates that compute its outputs or gradients"
    def __init__(self, job, spread=1., outliers=False, dtype=torch.bfloat16):
        torch.manual_seed(0)
        self.job = job
        self.inputs = [torch.randn(job.shape, device='cuda')*spread for _ in range(4)]
        if outliers:
            for x in self.inputs[:3]: x[..., ::37, :] *= 10
        self.inputs = [x.to(dtype) for x in self.inputs]
        self.needs_gradients = job.tool == 'backward'
        for x in self.inputs[:3]: x.requires_grad_(self.needs_gradients)

    def sdpa(self, backend):
        with sdpa_kernel(backend): return F.scaled_dot_product_attention(*self.inputs[:3], is_causal=self.job.causal)

    def ours(self): return attention(*self.inputs[:3], causal=self.job.causal)

    def timed_function(self, forward):
        "Return the function to time: the forward pass, or the backward pass of a forward pass run here"
        if not self.needs_gradients: return lambda _: forward()
        out = forward()
        return lambda _: torch.autograd.grad(out, self.inputs[:3], self.inputs[3], retain_graph=True)

    def candidates(self):
        others = {k: self.timed_function(lambda b=b: self.sdpa(b)) for k, b in OTHERS.items() if k in self.job.goals}
        return dict(ours=self.timed_function(self.ours), **others)


def check_near_reference(job, candidates):
    "Raise unless our result is near that of the first other candidate"
    results = [candidate(None) for candidate in candidates.values()]
    for ours, reference in zip(*([x] if torch.is_tensor(x) else x for x in results[:2])):
        ours, reference = ours.float(), reference.float()
        if not (difference := ((ours - reference).abs().max()/reference.abs().max()).item()) < 2**-6:
            raise RuntimeError(f'{job}: expected a difference below 2**-6 of the largest element, got {difference}')


def call_without_hopper(run):
    "Call `run` with the kernels for a GPU without Hopper's instructions"
    real_device, attentions.current_device_properties = attentions.current_device_properties, lambda: Device(132, False)
    try: return run()
    finally: attentions.current_device_properties = real_device


def timed_rows(job, seconds):
    batch, heads, n, dim = job.shape
    candidates = Case(job).candidates()
    check_near_reference(job, candidates)
    options = dict(check=lambda got: None, seconds=seconds, clock=GpuClock())
    comparison = compare(candidates, torch.zeros(1, device='cuda'), baseline='ours', **options)
    scores = batch*heads*n*(n + 1)/2 if job.causal else batch*heads*n*n
    operations = 2*dim*scores*(5 if job.tool == 'backward' else 2)
    operand = torch.empty(0, dtype=torch.bfloat16)
    for other, goal in job.goals.items():
        row = rows.comparison_row(job.tool, operand, comparison, other, goal, operations/1e3)  # gbs: TFLOP/s
        yield dict(row, shape=list(job.shape), causal=job.causal)


def relative_rms_error(got, want):
    "Return the root mean square of the error, relative to that of `want`"
    return ((got.double() - want).square().mean()/want.square().mean()).sqrt().item()


def numerics_rows(job, seconds):
    "Yield rows that compare our error against float64 with that of SDPA"
    for distribution, options in dict(normal={}, spread=dict(spread=3.), outliers=dict(outliers=True)).items():
        case = Case(job, **options)
        q, k, v = (x.double() for x in case.inputs[:3])
        scores = q @ k.mT*q.shape[-1]**-.5
        if job.causal:
            is_later = torch.ones(scores.shape[-2:], dtype=torch.bool, device='cuda').triu(1)
            scores.masked_fill_(is_later, -math.inf)
        want = scores.softmax(-1) @ v
        ours = relative_rms_error(case.ours(), want)
        for other, backend in OTHERS.items():
            theirs = relative_rms_error(case.sdpa(backend), want)
            yield dict(tool=f'numerics, {distribution}', shape=list(job.shape), causal=job.causal, other=other,
                       error=ours, other_error=theirs, ratio=ours/theirs, goal=1.1)


def measure(job, seconds):
    if job.tool == 'numerics': return list(numerics_rows(job, seconds))
    if job.tool == 'mma.sync': return call_without_hopper(lambda: list(timed_rows(job, seconds)))
    return list(timed_rows(job, seconds))


def format_row(row):
    head = f"{row['tool']:<19} {'x'.join(map(str, row['shape'])):<16} {'causal' if row['causal'] else 'all':<6}"
    if 'error' in row:
        verdict = 'reached' if row['ratio'] <= row['goal'] else 'MISSED'
        return (f"{head} error {row['error']:.2e}  {row['other']:<5} error {row['other_error']:.2e}"
                f"  ratio {row['ratio']:.3f}  goal {row['goal']}: {verdict}")
    goal = f"  goal {row['goal']}: {'reached' if row['ratio'] >= row['goal'] else 'MISSED'}" if row['goal'] else ''
    return (f"{head} {row['seconds']*1e3:>8.3f} ms {row['gbs']:>4.0f} TFLOP/s  {row['other']:<5} "
            f"{row['other_seconds']*1e3:>8.3f} ms {row['other_gbs']:>4.0f} TFLOP/s  {row['ratio']:.3f} "
            f"({row['low']:.3f} to {row['high']:.3f}){goal}")


LARGE = 4, 16, 8192, 128


def forward():
    for causal in (False, True):
        yield Job('forward', LARGE, causal, dict(cudnn=1.05, flash=None))
        yield Job('forward', (4, 16, 8192, 64), causal, dict(cudnn=None, flash=None))
    yield Job('forward', (4, 8, 8192, 256), False, dict(cudnn=None))


def backward():
    for causal in (False, True): yield Job('backward', LARGE, causal, dict(cudnn=.9, flash=None))


def mma_sync():
    for causal in (False, True): yield Job('mma.sync', LARGE, causal, dict(flash=None if causal else 1.))


def shapes():
    "Yield 16 random shapes"
    rng = random.Random(0)
    for _ in range(16):
        n = rng.randint(128, 8192)
        batch = max(1, min(16, 2**15//n))
        yield Job('forward', (batch, rng.choice([8, 12, 16, 32]), n, rng.choice([64, 128])), rng.random() < .5,
                  dict(cudnn=None))


def numerics_jobs():
    for causal in (False, True): yield Job('numerics', (1, 4, 4096, 128), causal, {})


if __name__ == '__main__':
    rows.run(__doc__, dict(forward=forward, shapes=shapes, backward=backward, plain=mma_sync, numerics=numerics_jobs),
             measure, format_row, HERE/'attention.json', .25, HEAD)
