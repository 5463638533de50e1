"""The launch overhead of a call from Python: small products compared with torch, empty kernels with Triton and Numba.

    python launch.py > launch.txt      # twenty seconds on a Hopper GPU; writes launch.json

*In a row* is the time per call of back-to-back calls, until the GPU has finished the last one. *In a graph* is the time
per call of calls that are captured once and replayed, which excludes Python. The candidates are timed interleaved;
times and ratios are medians over the rounds. Each product is first compared with float64.
"""
import json, os, statistics, time
from pathlib import Path

import torch, triton
from gridstride.cpp import cuda_kernel
from gridstride.kernels import matmul
from gridstride.kernels.ladder.ladder import Reference, inputs
from gridstride.support.numba_cuda import import_numba_cuda
from gridstride.bench.recording import machine

os.environ['NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS'] = '0'
HERE = Path(__file__).parent
CALLS, ROUNDS, GRAPH_CALLS = 300, 21, 50
SIZES = 64, 256, 1024
EMPTY = """
__global__ void one(float *x) {}
__global__ void four(float *x, float *y, float *z, int n) {}"""


@triton.jit
def triton_one(x): pass


@triton.jit
def triton_four(x, y, z, n): pass


def product_job(size, dtype, grad=False):
    "Return (name of the job, candidates, the name of the one with which ours is compared, goal)"
    a, b = (x.requires_grad_(grad) for x in inputs(size, size, size, dtype, 'cuda'))
    Reference(a.detach(), b.detach())(matmul(a, b).detach())
    what = f'{dtype} {size}x{size} @ {size}x{size}' + ', with gradient'*grad
    goal = 1.2 if size == 64 and not grad else None
    return what, dict(matmul=lambda: matmul(a, b), torch=lambda: torch.matmul(a, b)), 'torch', goal


def numba_kernels():
    "Return the same kernels by Numba, or None if it is not installed"
    try: cuda = import_numba_cuda()
    except ImportError: return None
    def one(x): pass
    def four(x, y, z, n): pass
    return cuda.jit(one), cuda.jit(four)


def empty_kernel_jobs():
    "Return the jobs of empty kernels, with one and with four arguments"
    x, y, z = (torch.zeros(64, device='cuda') for _ in range(3))
    kernels, numba_kernel_pair = cuda_kernel(EMPTY), numba_kernels()
    long_one, long_four = kernels.one.checked((1, 32)), kernels.four.checked((1, 32))
    one = {'cuda_kernel': lambda: kernels.one[1, 32](x), 'Triton': lambda: triton_one[(1,)](x),
           'by ctypes': lambda: long_one(x)}
    four = {'cuda_kernel': lambda: kernels.four[1, 32](x, y, z, 64), 'Triton': lambda: triton_four[(1,)](x, y, z, 64),
            'by ctypes': lambda: long_four(x, y, z, 64)}
    if numba_kernel_pair:
        one['Numba'] = lambda: numba_kernel_pair[0][1, 32](x)
        four['Numba'] = lambda: numba_kernel_pair[1][1, 32](x, y, z, 64)
    return [('an empty kernel (x)', one, 'Triton', 1.5), ('an empty kernel (x, y, z, n)', four, 'Triton', 1.5)]


def microseconds_in_a_row(f):
    "Return the µs per call of back-to-back calls"
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS): f()
    torch.cuda.synchronize()
    return (time.perf_counter()-start)/CALLS*1e6


def capture_timer(f):
    "Capture calls in a graph; return a function that measures µs per call, or None if they cannot be captured"
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(GRAPH_CALLS): f()
    except Exception: return None
    def microseconds():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)/GRAPH_CALLS*1e3
    microseconds()
    return microseconds


def measure(job_name, candidates, other, goal):
    "Yield a row per candidate"
    for candidate in candidates.values():
        for _ in range(10): candidate()
    timers = {name: capture_timer(candidate) for name, candidate in candidates.items()} if other == 'torch' else {}
    in_a_row, in_a_graph = {name: [] for name in candidates}, {name: [] for name in timers}
    for _ in range(ROUNDS):
        for name, candidate in candidates.items(): in_a_row[name].append(microseconds_in_a_row(candidate))
        for name, timer in timers.items():
            if timer: in_a_graph[name].append(timer())
    for name in candidates:
        ratio = statistics.median(a/b for a, b in zip(in_a_row[name], in_a_row[other]))
        yield dict(what=job_name, way=name, us=statistics.median(in_a_row[name]), ratio=ratio, other=other,
                   graph=statistics.median(in_a_graph[name]) if in_a_graph.get(name) else None,
                   goal=goal if name in ('matmul', 'cuda_kernel') else None)


def format_row(row):
    "Format a row as text"
    graph = f"{row['graph']:7.2f} µs in a graph" if row['graph'] else ''
    goal = f"  goal {row['goal']}: {'reached' if row['ratio'] <= row['goal'] else 'MISSED'}" if row['goal'] else ''
    return (f"{row['what']:<42} {row['way']:<12} {row['us']:7.2f} µs in a row  "
            f"{row['ratio']:5.2f} of {row['other']:<7} {graph}{goal}").rstrip()


def jobs():
    yield from (product_job(size, dtype) for dtype in ('float32', 'bfloat16') for size in SIZES)
    yield product_job(64, 'float32', grad=True)
    yield from empty_kernel_jobs()


def main():
    run_info, rows = machine(), []
    versions = ', '.join(f'{k} {v}' for k, v in run_info['versions'].items())
    print(f"{run_info['gpu']}, {run_info['date']}, {versions}\n", flush=True)
    for job in jobs():
        for r in measure(*job):
            rows.append(r)
            print(format_row(r), flush=True)
    (HERE/'launch.json').write_text(json.dumps(dict(made=run_info, rows=rows), indent=1, ensure_ascii=False)+'\n')


if __name__ == '__main__': main()
