"""Kernels that begin before the preceding one has ended, on a Hopper GPU: are they right, and what do they gain?

    python early.py > early.txt       # half a minute

Chains of products in which each reads what the one before wrote, and writes what that one read, by kernels that begin
early, by these alternating with those that do not, and among kernels of torch, in streams and in graphs: each value is
that of the same chain without any early kernel, to the bit. Then the tables' 40 shapes by the kernel that `matmul`
picks, early or not, compared with torch and cublasLt's best, interleaved, in four columns of `matmul.py`.
"""
import random, time

import contenders
import torch
from gridstride.bench.clocks import capture
from gridstride.bench.columns import by_column
from gridstride.kernels.gemm import plan, cost_model
from gridstride.kernels import matmul
from gridstride.kernels.gemm.cost_model import TileConfig
from gridstride.kernels.ladder.ladder import tf32_disabled
from gridstride.bench.recording import machine
from gridstride.utils import cdiv
from matmul import random as shapes

CUTS = cost_model.available_configs()
KINDS = '', '', 'relu', 'add', 'norm', 'mm', 'big', 'scale', 'sleep'
ROUNDS, INPUTS, QUEUED = 96, 8, 3_000_000    # cycles of a kernel after which launches wait, and then follow each other
BANDS = 0, 1e4, 15e3, 25e3, 35e3, 7e4, 1e9
COLUMNS = 'graph', 'row', 'read', 'written'


def noise(*shape, scale=1.): return (torch.randn(shape, device='cuda')*scale).bfloat16()


class Chain:
    "x0 @ w0 @ w1 @ ..., each product by a kernel of its own, some followed by a kernel of torch"

    def __init__(self, h, d, cuts, by_torch):
        rng = random.Random(7)
        self.cuts, self.kinds = cuts, [rng.choice(KINDS if by_torch else ['']) for _ in cuts]
        self.weights, self.bias = [noise(d, d, scale=1.4*d**-.5) for _ in cuts], noise(d)
        self.buffers, self.big = [noise(h, d) for _ in range(2)], torch.zeros(2**24, device='cuda')

    def product_after(self, kind, x, spare):
        "A kernel of torch; returns the buffer with its result, and the other buffer"
        if kind == 'relu': x.relu_()
        elif kind == 'add': x.add_(self.bias)
        elif kind == 'big': self.big.add_(1)
        elif kind == 'sleep': torch.cuda._sleep(3000)
        elif kind == 'norm': spare.copy_(torch.nn.functional.layer_norm(x, x.shape[1:]))
        elif kind == 'mm': torch.mm(x, self.weights[0], out=spare)
        elif kind == 'scale': torch.mul(x, .75, out=spare)
        return (spare, x) if kind in ('norm', 'mm', 'scale') else (x, spare)

    def __call__(self, x0, out, early):
        "`early`: one of all, none, or 2: every other"
        x, spare = self.buffers
        x.copy_(x0)
        for i, (cut, kind) in enumerate(zip(self.cuts, self.kinds)):
            to = out if i == len(self.cuts) - 1 else spare
            cost_model.build_kernel(cut, bool(early) and i%early == 0)(x, self.weights[i], to)
            x, spare = self.product_after(kind, to, x) if to is not out else (to, x)


def wrong(run, inputs, want, rounds=ROUNDS//INPUTS, ways=('stream', 'graph')):
    "How many values of `run(inputs, outs)` differ from `want`, launched and captured"
    outs, bad = torch.empty_like(want), torch.zeros((), dtype=torch.int64, device='cuda')
    for way in ways:
        f = capture(lambda: run(inputs, outs), 1) if way == 'graph' else lambda: run(inputs, outs)
        for _ in range(rounds):
            outs.fill_(float('nan'))
            torch.cuda._sleep(QUEUED)
            f()
            bad += (outs.view(torch.int16) != want.view(torch.int16)).sum()
    return int(bad)


def check_chain(name, h, d, cuts, by_torch):
    cuts = [o for o in cuts if o.CK <= cdiv(d, 64)]
    chain, inputs = Chain(h, d, cuts, by_torch), noise(INPUTS, h, d)
    def run(early): return lambda xs, outs: [chain(x, o, early) for x, o in zip(xs, outs)]
    want = torch.full_like(inputs, float('nan'))
    run(0)(inputs, want)
    if not want.isfinite().all() or len({float(o.float().sum()) for o in want}) < INPUTS:
        raise ValueError(f'{name}: the chain says nothing')
    bad = {k: wrong(run(early), inputs, want) for k, early in {'all early': 1, 'every other': 2}.items()}
    print(f'{name}: {h}x{d}, {len(cuts)} products; {4*ROUNDS*len(cuts)} launches; wrong elements: {bad}', flush=True)


def check_long_and_short(n=4096, h=64, d=512):
    "A long product, torch's or ours, writes what a short one reads, and the next long one writes it again"
    a, b, w, x = noise(INPUTS, n, d, scale=d**-.5), noise(d, n), noise(n, d, scale=n**-.5), noise(n, n)
    def ours(a, early): cost_model.build_kernel(TileConfig(128, 256, 2), early)(a, b, x)
    def torchs(a, early): torch.mm(a, b, out=x)
    for name, long in dict(torch=torchs, ours=ours).items():
        def run(early):
            def f(xs, outs):
                for one, o in zip(xs, outs):
                    long(one, early)
                    cost_model.build_kernel(TileConfig(64, 64), early)(x[:h], w, o)
            return f
        want = noise(INPUTS, h, d)
        run(False)(a, want)
        print(f'short ones after long ones of {name}: wrong elements: {wrong(run(True), a, want)}', flush=True)


def check_matmul(h=136, d=320, n=20):
    "By `matmul`, whose results are memory that was freed a moment ago, on two streams"
    ws, inputs = [noise(d, d, scale=1.4*d**-.5) for _ in range(n)], noise(INPUTS, h, d)
    streams, kept = [torch.cuda.Stream() for _ in range(2)], cost_model.PDL_MAX_CYCLES
    def chain(x):
        for i, w in enumerate(ws):
            x = matmul(x, w)
            if i%3 == 1: x = torch.relu(x)
        return x
    def run(xs, outs):
        for x, o in zip(xs, outs): o.copy_(chain(x))
    def apart(xs, outs):
        for i, s in enumerate(streams):
            s.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(s): run(xs[i::2], outs[i::2])
        for s in streams: torch.cuda.current_stream().wait_stream(s)
    def switch(to):
        cost_model.PDL_MAX_CYCLES = to
        plan._clear_caches()
    want = torch.empty_like(inputs)
    switch(0)
    run(inputs, want)
    switch(kept)
    bad = wrong(run, inputs, want), wrong(apart, inputs, want, ways=['stream'])
    print(f'by matmul ({cost_model.choose(h, d, d).name}), new memory each time, one stream and two: '
          f'wrong elements: {bad}', flush=True)


def check():
    def shuffled(seed): return random.Random(seed).sample(CUTS, len(CUTS))
    check_chain('each tile', 512, 768, shuffled(0), False)
    check_chain('each tile, and torch', 512, 768, shuffled(1), True)
    check_chain('small', 64, 64, [TileConfig(64, 64), TileConfig(64, 72, swap_ab=1), TileConfig(128, 64)]*7, False)
    check_chain('small, and torch', 72, 136, shuffled(2), True)
    check_chain('tall, and torch', 2120, 288, shuffled(3), True)
    check_chain('clusters, and torch', 328, 568, [o for o in CUTS if o.CM*o.CN*o.CK > 1], True)
    check_long_and_short()
    check_matmul()


def timed(shape):
    "(cycles by estimate, seconds of each side in each column) of one product"
    cut = cost_model.rank_configs(*shape)[0]
    m, n, a, b, out = contenders.operands(shape, 'bfloat16', 'nn')
    plain, early = (cost_model.build_kernel(cut, o) for o in (False, True))
    calls = {contenders.TORCH: lambda: torch.matmul(a, b, out=out), 'ours': lambda: plain(m, n, out),
             'early': lambda: early(m, n, out)}
    with tf32_disabled():
        pick = contenders.best_pick(m, n, out, 'nn')
        calls[contenders.BEST] = lambda: pick(m, n, out)
        found = by_column(calls, .012, 1, contenders.columns_of(COLUMNS), contenders.APART)
    seconds = {c: {k: o['seconds'] for k, o in f['sides'].items()} for c, f in found.items()}
    h, w, k = shape
    said = [f"{c} {' '.join(f'{t*1e6:.2f}' for t in o.values())} ({o['ours']/o['early']:.3f})"
            for c, o in seconds.items()]
    print(f'{h}x{k} @ {k}x{w} {plain.name}:', ', '.join(said), flush=True)
    return cost_model.estimate_cycles(*shape, cut), seconds


def main():
    made = machine()
    print(f"{made['gpu']}, {made['date']}", flush=True)
    torch.manual_seed(0)
    start, kernels = time.time(), [cost_model.build_kernel(o, early) for o in CUTS for early in (False, True)]
    contenders.prepare({o.name: (o, (512, 768, 768)) for o in kernels})
    check()
    print('\nµs of torch, ours, ours that begins early, cublasLt; in brackets ours over early')
    def estimate(shape): return cost_model.estimate_cycles(*shape, cost_model.rank_configs(*shape)[0])

    rows = [timed(o) for o in sorted(shapes('bfloat16'), key=estimate)]
    for c in COLUMNS:
        for low, high in zip(BANDS, BANDS[1:]):
            found = [t[c]['ours']/t[c]['early'] for e, t in rows if low <= e < high]
            if found: print(f'{c}, {low:.0f} to {high:.0f} cycles: {len(found)} products, {contenders.mean(found):.3f}')
    print(f'{time.time() - start:.0f} s')


if __name__ == '__main__': main()
