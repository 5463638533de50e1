"""The launch overhead of a call from Python: small products compared with torch, empty kernels with Triton and Numba.

    python launch.py > launch.txt      # twenty seconds on a Hopper GPU; writes launch.json

*In a row*: calls one after the other, until the GPU has done the last of them; µs a call. *In a graph*: as many calls,
captured once and replayed, which is what the GPU takes without Python. All ways take turns, and the figures are medians
of the rounds; ratios are medians of those of the rounds. Each product is compared with float64 first.
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
CALLS, ROUNDS, GRAPH = 300, 21, 50
SIZES = 64, 256, 1024
EMPTY = """
__global__ void one(float *x) {}
__global__ void four(float *x, float *y, float *z, int n) {}"""


@triton.jit
def triton_one(x): pass


@triton.jit
def triton_four(x, y, z, n): pass


def product(size, dtype, grad=False):
    "(what it is, the candidates, the one with which ours is compared, goal)"
    m, n = (x.requires_grad_(grad) for x in inputs(size, size, size, dtype, 'cuda'))
    Reference(m.detach(), n.detach())(matmul(m, n).detach())
    what = f'{dtype} {size}x{size} @ {size}x{size}' + ', with gradient'*grad
    goal = 1.2 if size == 64 and not grad else None
    return what, dict(matmul=lambda: matmul(m, n), torch=lambda: torch.matmul(m, n)), 'torch', goal


def numbas():
    "The same kernels by Numba, where it is"
    try: cuda = import_numba_cuda()
    except ImportError: return None
    def one(x): pass
    def four(x, y, z, n): pass
    return cuda.jit(one), cuda.jit(four)


def empty():
    "Kernels that do nothing, with one and with four arguments"
    x, y, z = (torch.zeros(64, device='cuda') for _ in range(3))
    ks, nb = cuda_kernel(EMPTY), numbas()
    long_one, long_four = ks.one.checked((1, 32)), ks.four.checked((1, 32))
    one = {'cuda_kernel': lambda: ks.one[1, 32](x), 'Triton': lambda: triton_one[(1,)](x),
           'by ctypes': lambda: long_one(x)}
    four = {'cuda_kernel': lambda: ks.four[1, 32](x, y, z, 64), 'Triton': lambda: triton_four[(1,)](x, y, z, 64),
            'by ctypes': lambda: long_four(x, y, z, 64)}
    if nb:
        one['Numba'] = lambda: nb[0][1, 32](x)
        four['Numba'] = lambda: nb[1][1, 32](x, y, z, 64)
    return [('an empty kernel (x)', one, 'Triton', 1.5), ('an empty kernel (x, y, z, n)', four, 'Triton', 1.5)]


def in_a_row(f):
    "µs a call"
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS): f()
    torch.cuda.synchronize()
    return (time.perf_counter()-start)/CALLS*1e6


def graph_of(f):
    "A function that gives µs a call of `f` in a graph; None if it cannot be captured"
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(GRAPH): f()
    except Exception: return None
    def timed():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)/GRAPH*1e3
    timed()
    return timed


def measure(what, ways, other, goal):
    "One row per candidate"
    for f in ways.values():
        for _ in range(10): f()
    graphs = {k: graph_of(f) for k, f in ways.items()} if other == 'torch' else {}
    rows, replayed = {k: [] for k in ways}, {k: [] for k in graphs}
    for _ in range(ROUNDS):
        for k, f in ways.items(): rows[k].append(in_a_row(f))
        for k, f in graphs.items():
            if f: replayed[k].append(f())
    for k in ways:
        ratio = statistics.median(a/b for a, b in zip(rows[k], rows[other]))
        yield dict(what=what, way=k, us=statistics.median(rows[k]), ratio=ratio, other=other,
                   graph=statistics.median(replayed[k]) if replayed.get(k) else None,
                   goal=goal if k in ('matmul', 'cuda_kernel') else None)


def line(r):
    "A row as text"
    graph = f"{r['graph']:7.2f} µs in a graph" if r['graph'] else ''
    goal = f"  goal {r['goal']}: {'reached' if r['ratio'] <= r['goal'] else 'MISSED'}" if r['goal'] else ''
    return (f"{r['what']:<42} {r['way']:<12} {r['us']:7.2f} µs in a row  {r['ratio']:5.2f} of {r['other']:<7} "
            f"{graph}{goal}").rstrip()


def jobs():
    yield from (product(size, dtype) for dtype in ('float32', 'bfloat16') for size in SIZES)
    yield product(64, 'float32', grad=True)
    yield from empty()


def main():
    made, rows = machine(), []
    print(f"{made['gpu']}, {made['date']}, {', '.join(f'{k} {v}' for k, v in made['versions'].items())}\n", flush=True)
    for job in jobs():
        for r in measure(*job):
            rows.append(r)
            print(line(r), flush=True)
    (HERE/'launch.json').write_text(json.dumps(dict(made=made, rows=rows), indent=1, ensure_ascii=False)+'\n')


if __name__ == '__main__': main()
