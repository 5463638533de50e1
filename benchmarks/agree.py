"""Compare times by gridstride.bench with those by triton.testing.do_bench, do_bench_cudagraph and
torch.utils.benchmark.Timer, interleaved with it, on a GPU."""
import argparse, json, sys, time

import numpy as np
import torch
from torch.utils.benchmark import Timer
from triton.testing import do_bench, do_bench_cudagraph

from gridstride.bench import bench, ceilings, compare
from gridstride.bench.clocks import Sensors
from gridstride.bench.timing import time_text
from gridstride.utils import check

TOLERANCE = .03
WARM_UP_SECONDS = .1   # of the same work before each measurement: an idle GPU has low clocks


def random_normal(*shape, dtype=torch.float32): return torch.randn(*shape, device='cuda').to(dtype)


def check_equal(got, want): torch.testing.assert_close(got, want, rtol=0, atol=0)   # on the GPU: it is a gigabyte


def matmul_case(n, dtype):
    "Make a square matrix product, with a check of its first rows, whose values are near sqrt(n)"
    a, b = random_normal(n, n, dtype=dtype), random_normal(n, n, dtype=dtype)
    # fp32: n roundings of partial sums near sqrt(n), each by up to 2^-24 of the sum, add up like a random walk; the
    # tolerance is six times its spread. bf16: one ulp, and partial sums may have been rounded to bf16.
    tolerance = dict(rtol=8e-3, atol=.01*n**.5) if dtype == torch.bfloat16 else dict(rtol=0, atol=6*2**-24*n)
    def check_first_rows(product): check(product[:8], (a[:8].double()@b.double()).to(dtype), **tolerance)
    return torch.matmul, (a, b), dict(check=check_first_rows, flops=2*n**3, bytes=3*n*n*a.element_size())


def square_case(n):
    x = random_normal(n)
    return torch.square, (x,), dict(check=lambda got: check_equal(got, x*x), flops=n, bytes=8*n)


def copy_case(n):
    x, y = random_normal(n), torch.empty(n, device='cuda')
    return (lambda y, x: y.copy_(x)), (y, x), dict(out=y, check=lambda got: check_equal(got, x), bytes=8*n)


# name -> (what bounds the kernel, whether it is short, a function that makes (function, arguments, options of bench))
KERNELS = {
    'square, 1000':          ('memory', True, lambda: square_case(1000)),
    'square, 2^20':          ('memory', True, lambda: square_case(2**20)),
    'matmul fp32, 512':      ('compute', True, lambda: matmul_case(512, torch.float32)),
    'matmul bf16, 2048':     ('compute', True, lambda: matmul_case(2048, torch.bfloat16)),
    'square, 10^8':          ('memory', False, lambda: square_case(10**8)),
    'copy, 1 GiB':           ('memory', False, lambda: copy_case(2**28)),
    'matmul fp32, 4096':     ('compute', False, lambda: matmul_case(4096, torch.float32)),
    # last: it heats the GPU to its power limit
    'matmul bf16, 8192':     ('compute', False, lambda: matmul_case(8192, torch.bfloat16)),
}


def triton_seconds(f): return do_bench(f, return_mode='median')/1e3


def triton_graph_seconds(f): return do_bench_cudagraph(f, return_mode='median')/1e3


def torch_timer_seconds(f): return Timer('f()', globals={'f': f}).blocked_autorange(min_run_time=.2).median


def timer_pairs(is_short):
    """Yield (name of the timer, our seconds of (function, args, options), its seconds of a call). Both measure the same
    quantity. The time per call of back-to-back calls is not compared, since `bench` measures it with torch's Timer."""
    yield 'do_bench', lambda f, args, kw: bench(f, *args, **kw).median, triton_seconds
    if is_short:
        yield 'do_bench_cudagraph', lambda f, args, kw: bench(f, *args, flush=False, **kw).graph, triton_graph_seconds
    else:
        yield 'Timer', lambda f, args, kw: bench(f, *args, flush=False, **kw).median, torch_timer_seconds


def warm_up(call, sensors):
    """Call `call` for a while, so that both timers start at the same clocks; return the fraction by which the SM clock
    is then below its maximum"""
    end = time.perf_counter()+WARM_UP_SECONDS
    while time.perf_counter() < end:
        torch.cuda.synchronize()
        for _ in range(10): call()
    state = sensors.read()           # the last calls still run
    torch.cuda.synchronize()
    return 1-state.mhz/state.max_mhz


def print_agreement(rounds):
    """Print the table and return the names of the rows that differ by more than `TOLERANCE`.

    The result is checked once, beforehand, so that both timers measure only the call. Other work on the machine only
    adds time, so the fastest round of each timer is compared, next to the ratios of single rounds. At the power limit,
    a time depends on how densely a timer keeps the GPU busy: rows of products at that limit are not judged."""
    differing, sensors = [], Sensors(torch.cuda.get_device_properties().uuid)
    if sensors.unavailable_reason: sys.exit(f'The SM clock cannot be read: {sensors.unavailable_reason}')
    print(f"{'kernel':<20}{'bound':<9}{'clock':<7}{'against':<20}{'bench':>11}{'theirs':>11}"
          f"{'ratio':>8}  {'single rounds':<18}")
    for name, (bound, is_short, make) in KERNELS.items():
        function, args, options = make()
        def call(): return function(*args)
        options.pop('check')(call())
        for timer, time_ours, time_theirs in timer_pairs(is_short):
            sides = (lambda: time_ours(function, args, options)), (lambda: time_theirs(call))
            times, clock_deficits = [], []
            for i in range(2*rounds if is_short else rounds):   # interleaved, either of them first
                time_of_side = {}
                for side in sides if i % 2 else sides[::-1]:
                    clock_deficits.append(warm_up(call, sensors))
                    time_of_side[side] = side()
                times.append([time_of_side[side] for side in sides])
            our_best, their_best = (min(side_times) for side_times in zip(*times))
            ratio, ratios = our_best/their_best, [ours/theirs for ours, theirs in times]
            clock_deficit = float(np.median(clock_deficits))
            is_judged = bound == 'memory' or clock_deficit <= TOLERANCE
            if abs(ratio-1) > TOLERANCE and is_judged: differing.append(f'{name}, {timer}')
            print(f"{name:<20}{bound:<9}{f'-{clock_deficit:.0%}':<7}{timer:<20}{time_text(our_best):>11}"
                  f"{time_text(their_best):>11}{ratio:>8.3f}  {min(ratios):.3f} to {max(ratios):.3f}"
                  f"{'' if is_judged else '  not judged'}", flush=True)
        del function, args, options, call
        torch.cuda.empty_cache()
    return differing


def print_results():
    "Print the results of `bench` and `compare` for the same kernels"
    print('\nbench:')
    for name, (*_, make) in KERNELS.items():
        function, args, options = make()
        print(bench(function, *args, name=name, **options), flush=True)
        del function, args, options
        torch.cuda.empty_cache()
    x = random_normal(2**20)
    print('\ncompare, three ways to square 2^20 elements:')
    print(compare({'torch.square': torch.square, 'x*x': lambda x: x*x, 'x**2': lambda x: x**2}, x,
                  check=lambda x: x*x, bytes=2**23))
    print('\nbench, 2^20 elements with and without a flush of the L2 cache:')
    for flush in (True, False):
        print(f'flush={flush}: {bench(torch.square, x, check=lambda x: x*x, bytes=2**23, flush=flush).line()}')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rounds', type=int, default=9)
    args = parser.parse_args()
    import triton
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f'{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}, the fastest of '
          f'{args.rounds} rounds\n')
    # First, while the GPU is cool: the later measurements bring it to its power limit.
    print('ceilings:', json.dumps(ceilings(measure_again=True)), '\n')
    differing = print_agreement(args.rounds)
    print(f"\n{'NOT' if differing else 'All ratios are'} within {TOLERANCE:.0%}"
          f"{': '*bool(differing)}{'; '.join(differing)} "
          "(clock: how far below its top the SM clock was after a tenth of a second of the work; "
          "products at the power limit are not judged)")
    print_results()
    sys.exit(bool(differing))


if __name__ == '__main__': main()
