"""Does gridstride.bench agree with the usual timers? Each is interleaved with it, on a GPU:
triton.testing.do_bench, do_bench_cudagraph, torch.utils.benchmark.Timer."""
import argparse, json, sys, time

import numpy as np
import torch
from torch.utils.benchmark import Timer
from triton.testing import do_bench, do_bench_cudagraph

from gridstride.bench import bench, ceilings, compare
from gridstride.bench.clocks import Sensors
from gridstride.bench.timing import time_text
from gridstride.utils import check

WITHIN = .03
WARM = .1   # seconds of the same work before each measurement: an idle GPU has low clocks


def reals(*shape, dtype=torch.float32): return torch.randn(*shape, device='cuda').to(dtype)


def exact(got, want): torch.testing.assert_close(got, want, rtol=0, atol=0)   # on the GPU: it is a gigabyte


def product(n, dtype):
    "A square matrix product, with a check of its first rows, whose values are some sqrt(n)"
    a, b = reals(n, n, dtype=dtype), reals(n, n, dtype=dtype)
    # fp32: n roundings of sums of that size, each up to 2^-24 of it, as a random walk, and six times its spread; bf16:
    # one ulp, and parts of a sum that may have been rounded to bf16
    tolerance = dict(rtol=8e-3, atol=.01*n**.5) if dtype == torch.bfloat16 else dict(rtol=0, atol=6*2**-24*n)
    def judge(got): check(got[:8], (a[:8].double()@b.double()).to(dtype), **tolerance)
    return torch.matmul, (a, b), dict(check=judge, flops=2*n**3, bytes=3*n*n*a.element_size())


def square(n):
    x = reals(n)
    return torch.square, (x,), dict(check=lambda got: exact(got, x*x), flops=n, bytes=8*n)


def copy(n):
    x, y = reals(n), torch.empty(n, device='cuda')
    return (lambda y, x: y.copy_(x)), (y, x), dict(out=y, check=lambda got: exact(got, x), bytes=8*n)


KERNELS = {  # what bounds it, whether it is short, and how to make it
    'square, 1000':          ('memory', True, lambda: square(1000)),
    'square, 2^20':          ('memory', True, lambda: square(2**20)),
    'matmul fp32, 512':      ('compute', True, lambda: product(512, torch.float32)),
    'matmul bf16, 2048':     ('compute', True, lambda: product(2048, torch.bfloat16)),
    'square, 10^8':          ('memory', False, lambda: square(10**8)),
    'copy, 1 GiB':           ('memory', False, lambda: copy(2**28)),
    'matmul fp32, 4096':     ('compute', False, lambda: product(4096, torch.float32)),
    # last: it heats the GPU to its power limit
    'matmul bf16, 8192':     ('compute', False, lambda: product(8192, torch.bfloat16)),
}


def triton_ms(f): return do_bench(f, return_mode='median')/1e3


def triton_graph(f): return do_bench_cudagraph(f, return_mode='median')/1e3


def torch_timer(f): return Timer('f()', globals={'f': f}).blocked_autorange(min_run_time=.2).median


def pairs(short):
    """What is compared: name, our figure of (fn, args, keywords), their figure of a call. Both measure the same
    quantity; the time of a call in a row is not compared, since `bench` measures it with torch's Timer"""
    yield 'do_bench', lambda f, args, kw: bench(f, *args, **kw).median, triton_ms
    if short: yield 'do_bench_cudagraph', lambda f, args, kw: bench(f, *args, flush=False, **kw).graph, triton_graph
    else: yield 'Timer', lambda f, args, kw: bench(f, *args, flush=False, **kw).median, torch_timer


def warm(call, sensors):
    """Calls `call` for a while, so that both sides meet a GPU with the same clocks; how far the SM
    clock is then below its top, as a fraction"""
    end = time.perf_counter()+WARM
    while time.perf_counter() < end:
        torch.cuda.synchronize()
        for _ in range(10): call()
    now = sensors.read()             # the last calls still run
    torch.cuda.synchronize()
    return 1-now.mhz/now.max_mhz


def agreement(rounds):
    """The table; returns the names of the rows that differ by more than they may. The result is checked once, before:
    both sides then time nothing but the call.
    Other work on the machine only ever adds time, so the fastest round of each side is compared;
    next to it are the results of the single rounds.
    Where products hold the SM clock at the power limit, a time depends on how densely a timer keeps the GPU busy: such
    rows are shown, and not judged"""
    off, sensors = [], Sensors(torch.cuda.get_device_properties().uuid)
    if sensors.unavailable_reason: sys.exit(f'The SM clock cannot be read: {sensors.unavailable_reason}')
    print(f"{'kernel':<20}{'bound':<9}{'clock':<7}{'against':<20}{'bench':>11}{'theirs':>11}"
          f"{'ratio':>8}  {'single rounds':<18}")
    for name, (bound, short, make) in KERNELS.items():
        f, args, kw = make()
        def call(): return f(*args)
        kw.pop('check')(call())
        for other, ours, theirs in pairs(short):
            sides, got, below = (lambda: ours(f, args, kw), lambda: theirs(call)), [], []
            for i in range(2*rounds if short else rounds):   # interleaved, either of them first
                both = {}
                for side in sides if i % 2 else sides[::-1]:
                    below.append(warm(call, sensors))
                    both[side] = side()
                got.append([both[side] for side in sides])
            mine, their = (min(o) for o in zip(*got))
            r, ratios, held = mine/their, [a/b for a, b in got], float(np.median(below))
            judged = bound == 'memory' or held <= WITHIN
            if abs(r-1) > WITHIN and judged: off.append(f'{name}, {other}')
            print(f"{name:<20}{bound:<9}{f'-{held:.0%}':<7}{other:<20}{time_text(mine):>11}{time_text(their):>11}"
                  f"{r:>8.3f}  {min(ratios):.3f} to {max(ratios):.3f}{'' if judged else '  not judged'}", flush=True)
        del f, args, kw, call
        torch.cuda.empty_cache()
    return off


def shown():
    "What bench and compare say of the same kernels"
    print('\nbench:')
    for name, (*_, make) in KERNELS.items():
        f, args, kw = make()
        print(bench(f, *args, name=name, **kw), flush=True)
        del f, args, kw
        torch.cuda.empty_cache()
    x = reals(2**20)
    print('\ncompare, three ways to square 2^20 elements:')
    print(compare({'torch.square': torch.square, 'x*x': lambda x: x*x, 'x**2': lambda x: x**2}, x,
                  check=lambda x: x*x, bytes=2**23))
    print('\nbench, 2^20 elements with and without what the L2 cache holds:')
    for flush in (True, False):
        print(f'flush={flush}: {bench(torch.square, x, check=lambda x: x*x, bytes=2**23, flush=flush).line()}')


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--rounds', type=int, default=9)
    a = p.parse_args()
    import triton
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f'{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}, the fastest of '
          f'{a.rounds} rounds\n')
    # first, while the GPU is cool: what comes after meets it at its power limit
    print('ceilings:', json.dumps(ceilings(fresh=True)), '\n')
    off = agreement(a.rounds)
    print(f"\n{'All ratios are' if not off else 'NOT'} within {WITHIN:.0%}{'' if not off else ': '+'; '.join(off)} "
          "(clock: how far below its top the SM clock was after a tenth of a second of the work; "
          "products at the power limit are not judged)")
    shown()
    sys.exit(bool(off))


if __name__ == '__main__': main()
