"""`gridstride.kernels.cross_entropy`, `linear_cross_entropy` and `AdamW` against torch's, on a GPU: the course's goals.

    python optim.py                   # all of it, in half a minute; prints what optim.txt holds, writes optim.json
    python optim.py loss              # some of it; writes nothing
    python optim.py --seconds 1       # of timing per side (0.1)

Each result is first compared with torch's; then all take turns. Figures are medians of GPU time with the L2 overwritten
before each run, ratios medians over the rounds with their 95% interval. GB/s are the bytes that have to be read and
written. Memory is the most that torch had allocated meanwhile, without what others hold.
"""
import argparse, json, tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from gridstride import kernels
from gridstride.bench import compare
from gridstride.kernels.ladder.ladder import Gpu
from gridstride.bench.recording import machine

HERE = Path(__file__).parent
ROWS, CLASSES, FEATURES = 8192, 128256, 4096
ODD = 50257                                                 # classes: rows begin at odd offsets
# Of a transformer of 24 layers, 1024 wide: its embeddings, and what each layer has
LAYER = [(1024,), (1024,), (3072, 1024), (3072,), (1024, 1024), (1024,), (1024,), (1024,), (4096, 1024), (4096,),
         (1024, 4096), (1024,)]
MODELS = {'one tensor of 268M': [(2**28,)], '290 tensors of 355M': [(50257, 1024), (1024, 1024), *LAYER*24]}


class Made(torch.autograd.Function):
    "Logits as a model computes them: not a leaf, and their gradient is not propagated further"
    @staticmethod
    def forward(ctx, leaf, x): return x.detach()
    @staticmethod
    def backward(ctx, gradient): return None, None


def peak(run):
    "The most bytes that are allocated while it runs, beyond those before it"
    run()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def rows_of(tool, what, ways, goals, size, seconds, memory=None):
    "One row per other side; `memory`: bytes by the names of the sides"
    c = compare({k: lambda _, f=f: f() for k, f in ways.items()}, torch.zeros(1, device='cuda'), baseline='ours',
                check=lambda got: None, seconds=seconds, clock=Gpu())
    mhz = sorted(s.mhz for s in c.timings['ours'].states if s and s.mhz)
    for k in ways:
        if k == 'ours': continue
        (r, low, high), ours, other = c.ratios[k], c.timings['ours'].median, c.timings[k].median
        yield dict(tool=tool, what=what, other=k, seconds=ours, other_seconds=other, gbs=size and size/ours/1e9,
                   other_gbs=size and size/other/1e9, ratio=1/r, low=1/high, high=1/low, goal=goals.get(k),
                   bytes=memory and memory['ours'], other_bytes=memory and memory[k], mhz=mhz and mhz[len(mhz)//2],
                   warnings=list(c.timings['ours'].warnings))


def near(got, want, rounding):
    torch.testing.assert_close(got.double(), want, rtol=rounding, atol=rounding*float(want.abs().max())/100)


def loss_is_right(x, target):
    "The first rows against float64"
    a, b = x[:32].clone().requires_grad_(), x[:32].double().requires_grad_()
    got, want = kernels.cross_entropy(a*1, target[:32], in_place=True), F.cross_entropy(b, target[:32])
    got.backward()
    want.backward()
    near(got, want.detach(), 1e-6)
    near(a.grad, b.grad, 2**-8)


def loss(seconds):
    x = (torch.randn(ROWS, CLASSES, device='cuda')*2).bfloat16()
    own, target = x.clone(), torch.randint(0, CLASSES, (ROWS,), device='cuda')
    target[::100] = -100
    loss_is_right(x, target)
    leaf, compiled = torch.zeros(1, device='cuda', requires_grad=True), torch.compile(F.cross_entropy)

    def both(f, x): return lambda: f(Made.apply(leaf, x), target).backward()
    others = {'compiled': both(compiled, x), 'eager': both(F.cross_entropy, x)}
    goals = {'compiled': 1.5}
    for what, ours in (('in place', both(lambda x, t: kernels.cross_entropy(x, t, in_place=True), own)),
                       ('a new gradient', both(kernels.cross_entropy, x))):
        ways = {'ours': ours, **others}
        memory = {k: x.nbytes + peak(f) for k, f in ways.items()}
        yield from rows_of('cross_entropy', f'forward and backward, {what}', ways, goals, 2*x.nbytes, seconds, memory)
    del own
    odd = (torch.randn(ROWS, ODD, device='cuda')*2).bfloat16()
    target %= ODD
    ways = {'ours': both(kernels.cross_entropy, odd), 'eager': both(F.cross_entropy, odd)}
    yield from rows_of('cross_entropy', f'both, {ODD} classes', ways, {}, 2*odd.nbytes, seconds)
    del odd
    with torch.no_grad():
        ways = {'ours': lambda: kernels.cross_entropy(x, target), 'eager': lambda: F.cross_entropy(x, target)}
        yield from rows_of('cross_entropy', 'forward', ways, {}, x.nbytes, seconds)


def linear(seconds):
    x = torch.randn(ROWS, FEATURES, device='cuda').bfloat16().requires_grad_()
    w = (torch.randn(CLASSES, FEATURES, device='cuda')*.02).bfloat16().requires_grad_()
    target = torch.randint(0, CLASSES, (ROWS,), device='cuda')
    compiled = torch.compile(lambda x, w: F.cross_entropy(x @ w.t(), target))

    def both(f):
        def run():
            x.grad = w.grad = None
            f(x, w).backward()
        return run
    ways = {'ours': both(lambda x, w: kernels.linear_cross_entropy(x, w, target)), 'compiled': both(compiled)}
    found = {}
    for k, f in ways.items():
        f()
        found[k] = x.grad.norm(dtype=torch.float64), w.grad.norm(dtype=torch.float64)
    for a, b in zip(*found.values()): near(a, b, 1e-3)
    x.grad = w.grad = None
    memory = {}
    for k, f in ways.items():
        memory[k] = peak(f)
        x.grad = w.grad = None
    yield from rows_of('linear_cross_entropy', 'forward and backward', ways, {}, None, seconds, memory)


def steps_agree():
    "How AdamW's parameters differ after 100 steps: from torch's, and each from float64"
    g = torch.Generator('cuda').manual_seed(0)
    begin = [torch.randn(s, device='cuda', generator=g) for s in ((1000, 1000), (4097,), (3,))]
    kinds = dict(ours=kernels.AdamW, fused=lambda *a, **k: torch.optim.AdamW(*a, fused=True, **k),
                 foreach=lambda *a, **k: torch.optim.AdamW(*a, foreach=True, **k),
                 exact=lambda *a, **k: torch.optim.AdamW(*a, foreach=True, **k))
    types = dict(exact=torch.float64)
    params = {k: [p.to(types.get(k, p.dtype), copy=True).requires_grad_() for p in begin] for k in kinds}
    optimizers = {k: f(params[k], lr=1e-2, weight_decay=.1) for k, f in kinds.items()}
    for _ in range(100):
        grads = [torch.randn(p.shape, device='cuda', generator=g) for p in begin]
        for k, o in optimizers.items():
            for p, grad in zip(params[k], grads): p.grad = grad.to(p.dtype)
            o.step()
    flat = {k: torch.cat([p.detach().flatten() for p in ps]) for k, ps in params.items()}
    res = {}
    for k in ('fused', 'foreach'):
        res[f'of {len(flat[k])} elements differ from {k}'] = int((flat['ours'] != flat[k]).sum())
        res[f'farthest from {k}'] = float((flat['ours'] - flat[k]).abs().max())
    for k in ('ours', 'fused', 'foreach'):
        res[f'{k} from float64'] = float((flat[k].double() - flat['exact']).abs().max())
    return res


def adamw(seconds):
    for what, shapes in MODELS.items():
        params = [torch.randn(s, device='cuda').requires_grad_() for s in shapes]
        for p in params: p.grad = torch.randn_like(p)
        kinds = dict(ours=kernels.AdamW(params), fused=torch.optim.AdamW(params, fused=True),
                     foreach=torch.optim.AdamW(params, foreach=True), loop=torch.optim.AdamW(params, foreach=False))
        yield from rows_of('AdamW', what, {k: o.step for k, o in kinds.items()}, {'fused': 1.05},
                           28*sum(p.numel() for p in params), seconds)
        del kinds, params
        torch.cuda.empty_cache()


PARTS = dict(loss=loss, linear=linear, adamw=adamw)


def line(r):
    "A row as text"
    def side(name, seconds, gbs, size):
        return (f"{name:<8} {seconds*1e3:>8.3f} ms" + (f" {gbs:>5.0f} GB/s" if gbs else '')
                + (f" {size/1e9:>6.3f} GB" if size else ''))
    goal = f"  goal {r['goal']}: {'reached' if r['ratio'] >= r['goal'] else 'MISSED'}" if r['goal'] else ''
    memory = f", {r['bytes']/r['other_bytes']:.4f} of the memory" if r['bytes'] else ''
    return (f"{r['tool']:<21}{r['what']:<38}{side('ours', r['seconds'], r['gbs'], r['bytes'])}  "
            f"{side(r['other'], r['other_seconds'], r['other_gbs'], r['other_bytes'])}  "
            f"{r['ratio']:.3f} ({r['low']:.3f} to {r['high']:.3f}){goal}{memory}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('parts', nargs='*', choices=[*PARTS, []], default=[])
    p.add_argument('--seconds', type=float, default=.1)
    args = p.parse_args()
    path = Path(tempfile.mkdtemp())/'rows.json' if args.parts else HERE/'optim.json'
    res = dict(made=machine(), rows=[])
    versions = ', '.join(f'{k} {v}' for k, v in res['made']['versions'].items())
    print(f"{res['made']['gpu']}, {res['made']['date']}, {versions}")
    for part in args.parts or PARTS:
        for r in PARTS[part](args.seconds):
            res['rows'].append(r)
            print(line(r), flush=True)
            path.write_text(json.dumps(res, indent=1, ensure_ascii=False)+'\n')
        torch.cuda.empty_cache()
    if 'adamw' in (args.parts or PARTS):
        res['100 steps'] = steps_agree()
        print('AdamW after 100 steps:', ', '.join(f'{v:.3g} {k}' for k, v in res['100 steps'].items()))
        path.write_text(json.dumps(res, indent=1, ensure_ascii=False)+'\n')
        # 100 rounding errors of values up to 5, each 2^-22 at most, and random
        assert res['100 steps']['ours from float64'] < 5e-6


if __name__ == '__main__': main()
