"""The launch overhead of a call from Python: small products compared with torch, empty kernels with Triton and Numba.

    python launch.py > launch.txt      # twenty seconds on a Hopper GPU; writes launch.json

*Back to back* is the time per call of calls one after the other, until the GPU has finished the last one. *In a graph*
is the time per call of calls that are captured once and replayed, which excludes Python. The candidates are timed
interleaved; times and ratios are medians over the rounds. Each product is first compared with float64.
"""
import json, os, statistics, time
from functools import partial
from pathlib import Path

import torch, triton
import torch.nn.functional as F
from gridstride import kernels
from gridstride.cpp import cuda_kernel
from gridstride.kernels import matmul
from gridstride.kernels.ladder.ladder import Reference, inputs
from gridstride.kernels.quant import QuantLinear
from gridstride.kernels.sparse import TwoFourLinear
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


TOOL_GOAL = 1.2
SIDE = 16                                       # of the operands of the tools
W, B, T = 'weight', 'bias', 'target'            # operands after x, by name


def tools():
    "Yield (name, ours, torch's, names of the operands after x); each is a function of the operands"
    yield 'sum', lambda x: kernels.sum(x, -1), lambda x: x.sum(-1), ()
    yield 'argmax', lambda x: kernels.argmax(x, -1), lambda x: x.argmax(-1), ()
    yield 'scan', kernels.scan, lambda x: x.cumsum(-1), ()
    yield 'transpose', kernels.transpose, lambda x: x.mT.contiguous(), ()
    yield 'gelu', kernels.gelu, F.gelu, ()
    yield 'bias_gelu', kernels.bias_gelu, lambda x, b: F.gelu(x + b), (B,)
    yield 'rms_norm', kernels.rms_norm, lambda x, w: F.rms_norm(x, (SIDE,), w, 1e-6), (W,)
    yield 'layer_norm', kernels.layer_norm, lambda x, w, b: F.layer_norm(x, (SIDE,), w, b), (W, B)
    yield 'softmax', kernels.softmax, lambda x: x.softmax(-1), ()
    yield 'log_softmax', kernels.log_softmax, lambda x: x.log_softmax(-1), ()
    yield 'cross_entropy', kernels.cross_entropy, F.cross_entropy, (T,)


def operand(name, dtype):
    if name == T: return torch.arange(SIDE, device='cuda')
    return torch.randn(*(SIDE,)*(2 if name == 'x' else 1), device='cuda').to(dtype)


def tool_jobs():
    "Yield the jobs of all tools on small operands: the result, and the result with its gradients"
    def with_gradients(f, operands, grad_out):
        inputs = [x for x in operands if x.is_floating_point()]
        return lambda: torch.autograd.grad(f(*operands), inputs, grad_out)
    for name, ours, other, names in tools():
        operands = [operand(n, torch.bfloat16) for n in ('x', *names)]
        candidates = dict(ours=partial(ours, *operands), torch=partial(other, *operands))
        yield f'{name} of bfloat16 16x16', candidates, 'torch', TOOL_GOAL
        if name in ('sum', 'argmax', 'scan', 'transpose'): continue
        grad_out = torch.ones_like(ours(*operands))
        operands = [x.requires_grad_(x.is_floating_point()) for x in operands]
        yield (f'{name} of bfloat16 16x16, with gradient', dict(ours=with_gradients(ours, operands, grad_out),
               torch=with_gradients(other, operands, grad_out.to(other(*operands).dtype))), 'torch', TOOL_GOAL)
    q, k, v = (torch.randn(1, 1, 64, 64, device='cuda').bfloat16() for _ in range(3))
    yield ('attention of bfloat16 64 x 64', dict(ours=lambda: kernels.attention(q, k, v),
           torch=lambda: F.scaled_dot_product_attention(q, k, v)), 'torch', TOOL_GOAL)
    a, b = (torch.randn(4, SIDE, SIDE, device='cuda').bfloat16() for _ in range(2))
    yield ("bmm of bfloat16 4x16x16", dict(ours=lambda: kernels.bmm(a, b), torch=lambda: torch.bmm(a, b)), "torch",
           TOOL_GOAL)
    yield from layer_jobs()


def layer_jobs():
    "Yield the jobs of layers with quantized and sparse weights, against a dense layer"
    layer = torch.nn.Linear(128, 128, bias=False, device='cuda', dtype=torch.bfloat16).requires_grad_(False)
    x = torch.randn(16, 128, device='cuda').bfloat16()
    for kind in ('int8', 'int4', 'nf4', 'fp8'):
        candidates = dict(ours=partial(QuantLinear.from_linear(layer, kind), x), torch=partial(layer, x))
        yield f'{kind} layer 128x128 of 16 rows', candidates, 'torch', TOOL_GOAL
    packed = TwoFourLinear.from_linear(layer)
    yield '2:4 layer 128x128 of 16 rows', dict(ours=partial(packed, x), torch=partial(layer, x)), 'torch', TOOL_GOAL


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
    empty, numba_kernel_pair = cuda_kernel(EMPTY), numba_kernels()
    long_one, long_four = empty.one.checking_launcher((1, 32)), empty.four.checking_launcher((1, 32))
    one = {'cuda_kernel': lambda: empty.one[1, 32](x), 'Triton': lambda: triton_one[(1,)](x),
           'by ctypes': lambda: long_one(x)}
    four = {'cuda_kernel': lambda: empty.four[1, 32](x, y, z, 64), 'Triton': lambda: triton_four[(1,)](x, y, z, 64),
            'by ctypes': lambda: long_four(x, y, z, 64)}
    if numba_kernel_pair:
        one['Numba'] = lambda: numba_kernel_pair[0][1, 32](x)
        four['Numba'] = lambda: numba_kernel_pair[1][1, 32](x, y, z, 64)
    return [('an empty kernel (x)', one, 'Triton', 1.5), ('an empty kernel (x, y, z, n)', four, 'Triton', 1.5)]


def microseconds_back_to_back(f):
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
    back_to_back, in_a_graph = {name: [] for name in candidates}, {name: [] for name in timers}
    for _ in range(ROUNDS):
        for name, candidate in candidates.items(): back_to_back[name].append(microseconds_back_to_back(candidate))
        for name, timer in timers.items():
            if timer: in_a_graph[name].append(timer())
    for name in candidates:
        ratio = statistics.median(a/b for a, b in zip(back_to_back[name], back_to_back[other]))
        yield dict(what=job_name, way=name, us=statistics.median(back_to_back[name]), ratio=ratio, other=other,
                   graph=statistics.median(in_a_graph[name]) if in_a_graph.get(name) else None,
                   goal=goal if name in ('matmul', 'ours', 'cuda_kernel') else None)


def format_row(row):
    "Format a row as text"
    graph = f"{row['graph']:7.2f} µs in a graph" if row['graph'] else ''
    goal = f"  goal {row['goal']}: {'reached' if row['ratio'] <= row['goal'] else 'MISSED'}" if row['goal'] else ''
    return (f"{row['what']:<42} {row['way']:<12} {row['us']:7.2f} µs back to back  "
            f"{row['ratio']:5.2f} of {row['other']:<7} {graph}{goal}").rstrip()


def jobs():
    yield from (product_job(size, dtype) for dtype in ('float32', 'bfloat16') for size in SIZES)
    yield product_job(64, 'float32', grad=True)
    yield from tool_jobs()
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
