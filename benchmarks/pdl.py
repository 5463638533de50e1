"""Kernels that start before the preceding kernel has ended (programmatic dependent launch), on a Hopper GPU: are their
results right, and how much faster are they?

    python pdl.py > pdl.txt       # half a minute

The results are checked in chains of products: each product reads the output of the preceding one and overwrites its
input. All or every other kernel uses PDL, with and without kernels of torch in between, in streams and in
graphs; each result must be equal, to the bit, to that of the chain without PDL. Then the kernel that `matmul`
picks for the 40 shapes of `matmul.py` is timed with and without PDL, interleaved with torch and
cublasLt's best, in four columns of `matmul.py`.
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
from matmul import random_shapes

CONFIGS = cost_model.available_configs()
KINDS = '', '', 'relu', 'add', 'norm', 'mm', 'big', 'scale', 'sleep'
ROUNDS, INPUTS = 96, 8
SLEEP_CYCLES = 3_000_000    # of a kernel during which the launches queue; then they run back to back
CYCLE_BOUNDS = 0, 1e4, 15e3, 25e3, 35e3, 7e4, 1e9     # between which the summary groups the products
COLUMNS = 'graph', 'row', 'read', 'written'


def random_bfloat16(*shape, scale=1.): return (torch.randn(shape, device='cuda')*scale).bfloat16()


class Chain:
    "x0 @ w0 @ w1 @ ..., with one kernel per product, some followed by a kernel of torch"

    def __init__(self, height, width, configs, with_torch):
        rng = random.Random(7)
        self.configs, self.kinds = configs, [rng.choice(KINDS if with_torch else ['']) for _ in configs]
        self.weights = [random_bfloat16(width, width, scale=1.4*width**-.5) for _ in configs]
        self.bias = random_bfloat16(width)
        self.buffers, self.big = [random_bfloat16(height, width) for _ in range(2)], torch.zeros(2**24, device='cuda')

    def product_after(self, kind, x, spare):
        "Launch a kernel of torch on x; return the buffer with its result, and the other buffer"
        if kind == 'relu': x.relu_()
        elif kind == 'add': x.add_(self.bias)
        elif kind == 'big': self.big.add_(1)
        elif kind == 'sleep': torch.cuda._sleep(3000)
        elif kind == 'norm': spare.copy_(torch.nn.functional.layer_norm(x, x.shape[1:]))
        elif kind == 'mm': torch.mm(x, self.weights[0], out=spare)
        elif kind == 'scale': torch.mul(x, .75, out=spare)
        return (spare, x) if kind in ('norm', 'mm', 'scale') else (x, spare)

    def __call__(self, x0, out, pdl):
        "Launch the chain; `pdl` is 0 (no kernel uses it), 1 (all do) or 2 (every other kernel does)"
        x, spare = self.buffers
        x.copy_(x0)
        for i, (config, kind) in enumerate(zip(self.configs, self.kinds)):
            output = out if i == len(self.configs) - 1 else spare
            cost_model.build_kernel(config, bool(pdl) and i%pdl == 0)(x, self.weights[i], output)
            x, spare = self.product_after(kind, output, x) if output is not out else (output, x)


def count_wrong(run, inputs, want, rounds=ROUNDS//INPUTS, modes=('stream', 'graph')):
    "Count the elements of `run(inputs, outs)` that differ from `want`, launched in a stream and replayed in a graph"
    outs, num_wrong = torch.empty_like(want), torch.zeros((), dtype=torch.int64, device='cuda')
    for mode in modes:
        launch = capture(lambda: run(inputs, outs), 1) if mode == 'graph' else lambda: run(inputs, outs)
        for _ in range(rounds):
            outs.fill_(float('nan'))
            torch.cuda._sleep(SLEEP_CYCLES)
            launch()
            num_wrong += (outs.view(torch.int16) != want.view(torch.int16)).sum()
    return int(num_wrong)


def check_chain(name, h, d, configs, with_torch):
    configs = [config for config in configs if config.CK <= cdiv(d, 64)]
    chain, inputs = Chain(h, d, configs, with_torch), random_bfloat16(INPUTS, h, d)
    def run(pdl): return lambda xs, outs: [chain(x, out, pdl) for x, out in zip(xs, outs)]
    want = torch.full_like(inputs, float('nan'))
    run(0)(inputs, want)
    if not want.isfinite().all() or len({float(out.float().sum()) for out in want}) < INPUTS:
        raise ValueError(f'{name}: expected finite results that differ between the inputs')
    wrong_counts = {k: count_wrong(run(pdl), inputs, want) for k, pdl in {'all': 1, 'every other': 2}.items()}
    print(f'{name}: {h}x{d}, {len(configs)} products; {4*ROUNDS*len(configs)} launches; '
          f'wrong elements: {wrong_counts}', flush=True)


def check_long_and_short(n=4096, h=64, d=512):
    "Check short products that read the output of a long one, by torch or ours, which the next long one overwrites"
    a, b = random_bfloat16(INPUTS, n, d, scale=d**-.5), random_bfloat16(d, n)
    w, x = random_bfloat16(n, d, scale=n**-.5), random_bfloat16(n, n)
    def our_product(a, pdl): cost_model.build_kernel(TileConfig(128, 256, 2), pdl)(a, b, x)
    def torch_product(a, pdl): torch.mm(a, b, out=x)
    for name, long in dict(torch=torch_product, ours=our_product).items():
        def run(pdl):
            def f(xs, outs):
                for a_input, out in zip(xs, outs):
                    long(a_input, pdl)
                    cost_model.build_kernel(TileConfig(64, 64), pdl)(x[:h], w, out)
            return f
        want = random_bfloat16(INPUTS, h, d)
        run(False)(a, want)
        print(f'short ones after long ones of {name}: wrong elements: {count_wrong(run(True), a, want)}', flush=True)


def check_matmul(h=136, d=320, n=20):
    "Check chains by `matmul`, whose results reuse memory that was just freed, on one and on two streams"
    ws, inputs = [random_bfloat16(d, d, scale=1.4*d**-.5) for _ in range(n)], random_bfloat16(INPUTS, h, d)
    streams, default_max_cycles = [torch.cuda.Stream() for _ in range(2)], cost_model.PDL_MAX_CYCLES
    def chain(x):
        for i, w in enumerate(ws):
            x = matmul(x, w)
            if i%3 == 1: x = torch.relu(x)
        return x
    def run(xs, outs):
        for x, out in zip(xs, outs): out.copy_(chain(x))
    def run_on_two_streams(xs, outs):
        for i, s in enumerate(streams):
            s.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(s): run(xs[i::2], outs[i::2])
        for s in streams: torch.cuda.current_stream().wait_stream(s)
    def switch(max_cycles):
        cost_model.PDL_MAX_CYCLES = max_cycles
        plan._clear_caches()
    want = torch.empty_like(inputs)
    switch(0)
    run(inputs, want)
    switch(default_max_cycles)
    wrong_counts = count_wrong(run, inputs, want), count_wrong(run_on_two_streams, inputs, want, modes=['stream'])
    print(f'by matmul ({cost_model.choose(h, d, d).name}), new memory each time, one stream and two: '
          f'wrong elements: {wrong_counts}', flush=True)


def check():
    def shuffled(seed): return random.Random(seed).sample(CONFIGS, len(CONFIGS))
    check_chain('each tile', 512, 768, shuffled(0), False)
    check_chain('each tile, and torch', 512, 768, shuffled(1), True)
    check_chain('small', 64, 64, [TileConfig(64, 64), TileConfig(64, 72, swap_ab=1), TileConfig(128, 64)]*7, False)
    check_chain('small, and torch', 72, 136, shuffled(2), True)
    check_chain('tall, and torch', 2120, 288, shuffled(3), True)
    with_clusters = [config for config in CONFIGS if config.CM*config.CN*config.CK > 1]
    check_chain('clusters, and torch', 328, 568, with_clusters, True)
    check_long_and_short()
    check_matmul()


def time_product(shape):
    "Time one product; return (its estimated cycles, {column: {candidate: seconds}})"
    config = cost_model.rank_configs(*shape)[0]
    m, n, a, b, out = contenders.operands(shape, 'bfloat16', 'nn')
    without_pdl, with_pdl = (cost_model.build_kernel(config, pdl) for pdl in (False, True))
    calls = {contenders.TORCH: lambda: torch.matmul(a, b, out=out), 'ours': lambda: without_pdl(m, n, out),
             'pdl': lambda: with_pdl(m, n, out)}
    with tf32_disabled():
        pick = contenders.best_pick(m, n, out, 'nn')
        calls[contenders.BEST] = lambda: pick(m, n, out)
        columns = by_column(calls, .012, 1, contenders.column_clocks(COLUMNS), contenders.EXCLUDED)
    seconds = {column: {name: timing['seconds'] for name, timing in results['sides'].items()}
               for column, results in columns.items()}
    h, w, k = shape
    texts = [f"{contenders.TITLES[column]} {' '.join(f'{t*1e6:.2f}' for t in times.values())} "
             f"({times['ours']/times['pdl']:.3f})" for column, times in seconds.items()]
    print(f'{h}x{k} @ {k}x{w} {without_pdl.name}:', ', '.join(texts), flush=True)
    return cost_model.estimate_cycles(*shape, config), seconds


def main():
    run_info = machine()
    print(f"{run_info['gpu']}, {run_info['date']}", flush=True)
    torch.manual_seed(0)
    start = time.time()
    kernels = [cost_model.build_kernel(config, pdl) for config in CONFIGS for pdl in (False, True)]
    contenders.compile_kernels({kernel.name: (kernel, (512, 768, 768)) for kernel in kernels})
    check()
    print('\nµs of torch, ours, ours with PDL, cublasLt; in brackets ours over ours with PDL')
    def estimate(shape): return cost_model.estimate_cycles(*shape, cost_model.rank_configs(*shape)[0])

    rows = [time_product(shape) for shape in sorted(random_shapes('bfloat16'), key=estimate)]
    for column in COLUMNS:
        for low, high in zip(CYCLE_BOUNDS, CYCLE_BOUNDS[1:]):
            band = [seconds[column] for cycles, seconds in rows if low <= cycles < high]
            if not band: continue
            speedup = contenders.geometric_mean([times['ours']/times['pdl'] for times in band])
            print(f'{contenders.TITLES[column]}, {low:.0f} to {high:.0f} cycles: {len(band)} products, {speedup:.3f}')
    print(f'{time.time() - start:.0f} s')


if __name__ == '__main__': main()
