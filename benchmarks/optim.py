"""`gridstride.kernels.cross_entropy`, `linear_cross_entropy` and `AdamW` against torch's, on a GPU: the course's goals.

    python optim.py > optim.txt       # all parts, in half a minute; writes optim.json
    python optim.py loss              # one part; writes nothing
    python optim.py --seconds 1       # of timing per candidate (0.1)

Each result is first compared with torch's; the candidates are then timed interleaved. Times are medians of GPU time
with the L2 cache overwritten before each run; ratios are medians over the rounds, with their 95% interval. GB/s count
the bytes that must be read and written. Memory is the peak of torch's allocated memory during a call, minus that before
it.
"""
import argparse, json, tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from gridstride import kernels
from gridstride.bench import compare
from gridstride.kernels.ladder.ladder import GpuClock
from gridstride.bench.recording import machine

HERE = Path(__file__).parent
ROWS, CLASSES, FEATURES = 8192, 128256, 4096
ODD_CLASSES = 50257                                         # rows begin at odd offsets
# Shapes of the parameters of one of the 24 layers of a transformer of width 1024
LAYER = [(1024,), (1024,), (3072, 1024), (3072,), (1024, 1024), (1024,), (1024,), (1024,), (4096, 1024), (4096,),
         (1024, 4096), (1024,)]
MODELS = {'one tensor of 268M': [(2**28,)], '290 tensors of 355M': [(50257, 1024), (1024, 1024), *LAYER*24]}


class AsComputed(torch.autograd.Function):
    "Make logits that are not a leaf, as in a model, and drop their gradient"
    @staticmethod
    def forward(ctx, leaf, x): return x.detach()
    @staticmethod
    def backward(ctx, gradient): return None, None


def peak_bytes(run):
    "Return the peak of the allocated bytes during a run, minus those allocated before"
    run()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def comparison_rows(tool, what, candidates, goals, size, seconds, memory=None):
    "Yield a row per other candidate; `memory` is {name: peak bytes}"
    functions = {name: lambda _, f=f: f() for name, f in candidates.items()}
    comparison = compare(functions, torch.zeros(1, device='cuda'), baseline='ours', check=lambda got: None,
                         seconds=seconds, clock=GpuClock())
    mhz = sorted(s.mhz for s in comparison.timings['ours'].states if s and s.mhz)
    for other in candidates:
        if other == 'ours': continue
        ours, theirs = (comparison.timings[name].median for name in ('ours', other))
        ratio, low, high = comparison.ratios[other]
        yield dict(tool=tool, what=what, other=other, seconds=ours, other_seconds=theirs, gbs=size and size/ours/1e9,
                   other_gbs=size and size/theirs/1e9, ratio=1/ratio, low=1/high, high=1/low, goal=goals.get(other),
                   bytes=memory and memory['ours'], other_bytes=memory and memory[other], mhz=mhz and mhz[len(mhz)//2],
                   warnings=list(comparison.timings['ours'].warnings))


def check_near(got, want, rounding):
    torch.testing.assert_close(got.double(), want, rtol=rounding, atol=rounding*float(want.abs().max())/100)


def check_loss(x, target):
    "Compare loss and gradient of the first rows with float64"
    x_ours, x_exact = x[:32].clone().requires_grad_(), x[:32].double().requires_grad_()
    loss_ours = kernels.cross_entropy(x_ours*1, target[:32], in_place=True)
    loss_exact = F.cross_entropy(x_exact, target[:32])
    loss_ours.backward()
    loss_exact.backward()
    check_near(loss_ours, loss_exact.detach(), 1e-6)
    check_near(x_ours.grad, x_exact.grad, 2**-8)


def loss(seconds):
    x = (torch.randn(ROWS, CLASSES, device='cuda')*2).bfloat16()
    x_in_place, target = x.clone(), torch.randint(0, CLASSES, (ROWS,), device='cuda')
    target[::100] = -100
    check_loss(x, target)
    leaf, compiled = torch.zeros(1, device='cuda', requires_grad=True), torch.compile(F.cross_entropy)

    def forward_backward(f, x): return lambda: f(AsComputed.apply(leaf, x), target).backward()
    others = {'compiled': forward_backward(compiled, x), 'eager': forward_backward(F.cross_entropy, x)}
    goals = {'compiled': 1.5}
    in_place = forward_backward(lambda x, t: kernels.cross_entropy(x, t, in_place=True), x_in_place)
    for what, ours in (('in place', in_place), ('a new gradient', forward_backward(kernels.cross_entropy, x))):
        candidates = {'ours': ours, **others}
        memory = {name: x.nbytes + peak_bytes(f) for name, f in candidates.items()}
        yield from comparison_rows('cross_entropy', f'forward and backward, {what}', candidates, goals, 2*x.nbytes,
                                   seconds, memory)
    del x_in_place, in_place, ours, candidates
    odd_x = (torch.randn(ROWS, ODD_CLASSES, device='cuda')*2).bfloat16()
    target %= ODD_CLASSES
    candidates = {'ours': forward_backward(kernels.cross_entropy, odd_x),
                  'eager': forward_backward(F.cross_entropy, odd_x)}
    yield from comparison_rows('cross_entropy', f'both, {ODD_CLASSES} classes', candidates, {}, 2*odd_x.nbytes, seconds)
    del odd_x
    with torch.no_grad():
        candidates = {'ours': lambda: kernels.cross_entropy(x, target), 'eager': lambda: F.cross_entropy(x, target)}
        yield from comparison_rows('cross_entropy', 'forward', candidates, {}, x.nbytes, seconds)


def linear(seconds):
    x = torch.randn(ROWS, FEATURES, device='cuda').bfloat16().requires_grad_()
    w = (torch.randn(CLASSES, FEATURES, device='cuda')*.02).bfloat16().requires_grad_()
    target = torch.randint(0, CLASSES, (ROWS,), device='cuda')
    compiled = torch.compile(lambda x, w: F.cross_entropy(x @ w.t(), target))

    def forward_backward(f):
        def run():
            x.grad = w.grad = None
            f(x, w).backward()
        return run
    candidates = {'ours': forward_backward(lambda x, w: kernels.linear_cross_entropy(x, w, target)),
                  'compiled': forward_backward(compiled)}
    gradient_norms = {}
    for k, f in candidates.items():
        f()
        gradient_norms[k] = x.grad.norm(dtype=torch.float64), w.grad.norm(dtype=torch.float64)
    for a, b in zip(*gradient_norms.values()): check_near(a, b, 1e-3)
    x.grad = w.grad = None
    memory = {}
    for k, f in candidates.items():
        memory[k] = peak_bytes(f)
        x.grad = w.grad = None
    yield from comparison_rows('linear_cross_entropy', 'forward and backward', candidates, {}, None, seconds, memory)


def compare_steps():
    "Return the differences of AdamW's parameters after 100 steps: ours from torch's, and each from float64"
    g = torch.Generator('cuda').manual_seed(0)
    initial = [torch.randn(s, device='cuda', generator=g) for s in ((1000, 1000), (4097,), (3,))]
    makers = dict(ours=kernels.AdamW, fused=lambda *a, **k: torch.optim.AdamW(*a, fused=True, **k),
                 foreach=lambda *a, **k: torch.optim.AdamW(*a, foreach=True, **k),
                 exact=lambda *a, **k: torch.optim.AdamW(*a, foreach=True, **k))
    types = dict(exact=torch.float64)
    params = {k: [p.to(types.get(k, p.dtype), copy=True).requires_grad_() for p in initial] for k in makers}
    optimizers = {k: f(params[k], lr=1e-2, weight_decay=.1) for k, f in makers.items()}
    for _ in range(100):
        grads = [torch.randn(p.shape, device='cuda', generator=g) for p in initial]
        for k, optimizer in optimizers.items():
            for p, grad in zip(params[k], grads): p.grad = grad.to(p.dtype)
            optimizer.step()
    flat = {k: torch.cat([p.detach().flatten() for p in tensors]) for k, tensors in params.items()}
    results = {}
    for k in ('fused', 'foreach'):
        results[f'of {len(flat[k])} elements differ from {k}'] = int((flat['ours'] != flat[k]).sum())
        results[f'farthest from {k}'] = float((flat['ours'] - flat[k]).abs().max())
    for k in ('ours', 'fused', 'foreach'):
        results[f'{k} from float64'] = float((flat[k].double() - flat['exact']).abs().max())
    return results


def adamw(seconds):
    for what, shapes in MODELS.items():
        params = [torch.randn(s, device='cuda').requires_grad_() for s in shapes]
        for p in params: p.grad = torch.randn_like(p)
        optimizers = dict(ours=kernels.AdamW(params), fused=torch.optim.AdamW(params, fused=True),
                          foreach=torch.optim.AdamW(params, foreach=True),
                          loop=torch.optim.AdamW(params, foreach=False))
        candidates = {name: optimizer.step for name, optimizer in optimizers.items()}
        yield from comparison_rows('AdamW', what, candidates, {'fused': 1.05},
                                   28*sum(p.numel() for p in params), seconds)
        del optimizers, candidates, params
        torch.cuda.empty_cache()


PARTS = dict(loss=loss, linear=linear, adamw=adamw)


def format_row(row):
    "Format a row as text"
    def candidate_text(name, seconds, gbs, size):
        return (f"{name:<8} {seconds*1e3:>8.3f} ms" + (f" {gbs:>5.0f} GB/s" if gbs else '')
                + (f" {size/1e9:>6.3f} GB" if size else ''))
    goal = f"  goal {row['goal']}: {'reached' if row['ratio'] >= row['goal'] else 'MISSED'}" if row['goal'] else ''
    memory = f", {row['bytes']/row['other_bytes']:.4f} of the memory" if row['bytes'] else ''
    return (f"{row['tool']:<21}{row['what']:<38}{candidate_text('ours', row['seconds'], row['gbs'], row['bytes'])}  "
            f"{candidate_text(row['other'], row['other_seconds'], row['other_gbs'], row['other_bytes'])}  "
            f"{row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f}){goal}{memory}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('parts', nargs='*', choices=[*PARTS, []], default=[])
    parser.add_argument('--seconds', type=float, default=.1)
    args = parser.parse_args()
    path = Path(tempfile.mkdtemp())/'rows.json' if args.parts else HERE/'optim.json'
    results = dict(made=machine(), rows=[])
    versions = ', '.join(f'{k} {v}' for k, v in results['made']['versions'].items())
    print(f"{results['made']['gpu']}, {results['made']['date']}, {versions}")
    for part in args.parts or PARTS:
        for row in PARTS[part](args.seconds):
            results['rows'].append(row)
            print(format_row(row), flush=True)
            path.write_text(json.dumps(results, indent=1, ensure_ascii=False)+'\n')
        torch.cuda.empty_cache()
    if 'adamw' in (args.parts or PARTS):
        results['100 steps'] = compare_steps()
        print('AdamW after 100 steps:', ', '.join(f'{v:.3g} {k}' for k, v in results['100 steps'].items()))
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False)+'\n')
        # The bound allows for 100 random rounding errors of up to 2^-22, for values up to 5.
        assert results['100 steps']['ours from float64'] < 5e-6


if __name__ == '__main__': main()
