"""Everything in gridstride.kernels that only a Hopper GPU can check. By hand, from the repository's
root, on a machine with one:

    python tests/kernels/check_gpu.py             # all; some minutes
    python tests/kernels/check_gpu.py gradients_are_right ...    # some of it
    python tests/kernels/check_gpu.py memory_tools_are_right float16    # of one type, where it has several
    python tests/kernels/check_gpu.py sanitize    # every rung once on a small ragged shape: to be
    run under compute-sanitizer
"""
import json, math, os, subprocess, sys, tempfile, threading, time, traceback, warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from gridstride import kernels
from gridstride.kernels import Rung, explain, matmul, check_matmul
from gridstride.kernels import argmax, cub, export, histogram, scan, sum as sum_of, transpose
from gridstride.kernels.gemm import dispatch, skinny
from gridstride.kernels.ladder import tma
from gridstride.kernels.memory import operators, multistage_sum
from gridstride.kernels.ladder.ladder import Reference, inputs, shapes_for
from gridstride.kernels.ladder.rung import Device
from gridstride.kernels.gemm.bf16x6 import Bf16x6
from gridstride.cpp import CompileError, cuda_kernel, launcher
from gridstride.diagnostics.errors import LaunchError
from gridstride.utils import check

ROOT = Path(__file__).resolve().parents[2]
MODULES = ['ladder.fp32', 'ladder.tensor_cores', 'ladder.hopper', 'gemm.skinny', 'gemm.bf16x6']
UNALIGNED = [(1, 1, 1), (1, 9, 300), (127, 255, 65), (129, 257, 63), (1000, 10, 784), (300, 77, 5000), (513, 1031, 257),
          (2049, 1023, 511), (50001, 10, 784), (20003, 1, 100), (9001, 12, 256), (7001, 20, 400),
          (30001, 23, 600), (50001, 32, 784), (6001, 16, 784), (2801, 13, 1792), (2333, 17, 1120), (97601, 24, 172)]
EIGHTS = [(8, 8, 8), (1, 16, 304), (120, 264, 72), (136, 248, 56), (1000, 24, 784), (304, 80, 4992), (520, 1032, 264),
          (2056, 1016, 520), (4096, 4096, 4096)]


def rungs():
    "Each rung of each module, once"
    res = {}
    for o in MODULES:
        for name, v in vars(import_module(f'gridstride.kernels.{o}')).items():
            if isinstance(v, Rung) and v not in res.values(): res[f'{o}.{name}'] = v
    return res


def each_rung_is_right():
    for name, r in rungs().items():
        try: n = check_matmul(r)
        except Exception as e: yield f'{name}: {e}'
        else: print(f'  {name}: {n} shapes')


def each_rung_compiles_at_once():
    """In half a second, from a source that NVRTC has not seen; the largest of those with ordinary arithmetic, many
    hundred unrolled products, in one. Other work on the machine only adds time: the fastest of three"""
    def built(r):
        fresh = r.variant(**{})
        # NVRTC keeps what it has compiled, whatever the comments say
        fresh.src += f'\n__device__ int at_{time.time_ns()};\n'
        return fresh.kernel.build_result
    for name, r in rungs().items():
        seconds = min(built(r) for _ in range(3))
        if seconds > (1 if name.startswith('ladder.fp32') else .5): yield f'{name} takes {seconds:.2f} s'
        print(f'  {name}: {seconds:.2f} s')


def products_are_right():
    """Through `matmul`, into NaN, with whatever kernel it takes; more than once, since a kernel's
    own memory must be clean after a run"""
    for dtype, shapes in (('float32', UNALIGNED), ('bfloat16', EIGHTS)):
        for i, (h, w, k) in enumerate(shapes):
            m, n = inputs(h, w, k, dtype, 'cuda', i)
            for _ in range(3):
                out = torch.full((h, w), math.nan, dtype=m.dtype, device='cuda')
                matmul(m, n, out)
                try: Reference(m, n)(out)
                except AssertionError as e: yield f'{h}x{k} @ {k}x{w} {dtype}, {explain(m, n)}: {e}'
            print(f'  {dtype} {h}x{k} @ {k}x{w}: {explain(m, n)}')


def random_products_are_right():
    rng = np.random.default_rng(int(time.time()))
    for i in range(60):
        dtype = ('float32', 'bfloat16')[i%2]
        h, w, k = (max(1, round(math.exp(rng.uniform(0, math.log(3000))))) for _ in range(3))
        if dtype == 'bfloat16': h, w, k = h, -(-w//8)*8, -(-k//8)*8
        m, n = inputs(h, w, k, dtype, 'cuda', i)
        try: Reference(m, n)(matmul(m, n))
        except AssertionError as e: yield f'{h}x{k} @ {k}x{w} {dtype}, {explain(m, n)}: {e}'


def gradients_are_right():
    for dtype, (h, w, k) in (('float32', (50000, 10, 784)), ('float32', (1001, 700, 513)),
                             ('bfloat16', (2048, 1024, 4096)), ('bfloat16', (520, 264, 1032))):
        a, b = (x.requires_grad_() for x in inputs(h, w, k, dtype, 'cuda'))
        g = torch.randn(h, w, device='cuda').to(a.dtype)
        ga, gb = torch.autograd.grad(matmul(a, b), (a, b), g)
        for got, m, n in ((ga, g, b.detach().t()), (gb, a.detach().t(), g)):
            print(f'  {tuple(m.shape)} @ {tuple(n.shape)} {dtype}: {explain(m, n)}')
            try: Reference(m, n)(got)
            except AssertionError as e: yield f'{tuple(m.shape)} @ {tuple(n.shape)} {dtype}, {explain(m, n)}: {e}'


def a_first_backward_is_silent():
    "In a process of its own, whose autograd thread has not worked on the GPU yet"
    code = """
import sys, warnings, torch
warnings.simplefilter('error')
from gridstride.kernels import matmul
a, b = (torch.randn(64, 64, device='cuda', requires_grad=True) for _ in range(2))
matmul(a, b).square().sum().backward()
print(bool(a.grad.isfinite().all()))"""
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, env={**os.environ, 'PYTHONPATH':str(ROOT)},
                          capture_output=True, text=True)
    if (done.stdout, done.stderr) != ('True\n', ''): yield f'{done.stdout}{done.stderr}'


def what_is_not_covered_is_torchs():
    a, b = torch.randn(64, 48, device='cuda'), torch.randn(48, 32, device='cuda')
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        for x, y in [(a.double(), b.double()), (a, b[:, 0]), (a[None], b[None]),
                     (a[:, ::2], b[::2]), (a[:0], b), (a[:, :0], b[:0]),
                     (a.bfloat16()[:, :47].contiguous(), b.bfloat16()[:47]), (a.cpu(), b.cpu())]:
            if (p := explain(x, y)).kernel: yield f'{p} takes {tuple(x.shape)} {x.dtype}'
            check(matmul(x, y), torch.matmul(x, y), 0, 0)
        with torch.autocast('cuda', torch.bfloat16):
            if matmul(a, b).dtype is not torch.bfloat16: yield 'autocast is not obeyed'
        before = torch.get_float32_matmul_precision()
        try:
            torch.set_float32_matmul_precision('high')
            if (p := explain(a, b)).kernel: yield f'TF32 is allowed, and {p}'
        finally: torch.set_float32_matmul_precision(before)


def streams_threads_and_graphs():
    "Launches on several streams at once, from a thread that has no context, and out of a graph"
    for dtype, (h, w, k) in (('float32', (700, 900, 1100)), ('bfloat16', (704, 904, 4096)),
                             ('float32', (257, 10, 784))):
        m, n = inputs(h, w, k, dtype, 'cuda')
        judge = Reference(m, n)
        matmul(m, n)  # what it makes at its first call
        torch.cuda.synchronize()
        streams, got = [torch.cuda.Stream() for _ in range(4)], []
        for _ in range(5):
            for s in streams:
                with torch.cuda.stream(s): got.append(matmul(m, n))
        torch.cuda.synchronize()
        thread = threading.Thread(target=lambda: got.append(matmul(m, n)))
        thread.start()
        thread.join()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph): captured = matmul(m, n)
        captured.fill_(math.nan)
        graph.replay()
        torch.cuda.synchronize()
        if len(got) != 21: yield f'{len(got)} of 21 launches came back, and one is of a thread of its own'
        for i, o in enumerate([*got, captured]):
            try: judge(o)
            except AssertionError as e: yield f'{h}x{k} @ {k}x{w} {dtype}, launch {i} of {explain(m, n)}: {e}'


ALONE = r'''
__device__ float partial[64*64];
__global__ void slow(const float *m, const float *n, float *out, int h, int w, int k) {
    for (int i = threadIdx.x; i < h*w; i += blockDim.x) {
        float o = 0;
        for (int x = 0; x < k; x++) o += m[i/w*k+x] * n[x*w+i%w];
        partial[i] = o;
    }
    for (int i = 0; i < 2000; i++) __nanosleep(100);
    for (int i = threadIdx.x; i < h*w; i += blockDim.x) out[i] = partial[i];
}'''


def rungs_that_must_be_alone_are():
    """A kernel that keeps its sums in global memory for a while, on four streams: wrong, unless its
    launches are put in a row"""
    for alone in (False, True):
        r = Rung('slow', ALONE, threads=256, BM=64, BN=64, has_static_buffer=alone)
        pairs = [inputs(64, 64, 64, 'float32', 'cuda', i) for i in range(8)]
        streams, got = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(3))], []
        torch.cuda.synchronize()
        for i, (m, n) in enumerate(pairs):
            with torch.cuda.stream(streams[i%4]): got.append(r(m, n))
        torch.cuda.synchronize()
        wrong = sum(float((o-m@n).abs().max()) > .01 for o, (m, n) in zip(got, pairs))
        if bool(wrong) == alone: yield f'{wrong} of 8 products are wrong with alone={alone}'


def exported_kernels_pass():
    "Each as a program of its own: compiled by nvcc, checked and timed by itself"
    with tempfile.TemporaryDirectory() as folder:
        n = len(export.export(folder))
        done = subprocess.run(['sh', f'{folder}/run.sh'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    if done.returncode or done.stdout.splitlines()[-1] != f'{n} of {n} pass': yield done.stdout.splitlines()[-1]


def layouts_are_those_of_the_recording():
    kept = tma.layouts_from_json(json.loads((ROOT/'nbs/recorded/hopper_gemm_layouts.json').read_text())['data'])
    for k, v in tma.dump_layouts().items():
        if not (v.ravel() == kept[k]).all(): yield f'{k} is not what was recorded'


STARTED = """#include <cmath>
#include <stdio.h>
__global__ void k(float *out, uint32_t n) {
    const float given[] = {INFINITY, NAN, float(M_PI)};
    if (threadIdx.x < n) out[threadIdx.x] = given[threadIdx.x];
}"""


def cuda_kernel_has_what_nvcc_includes():
    """Infinity, NaN, pi and types with a number of bits, and headers of the host's library; an error is reported at the
    learner's line"""
    out = torch.zeros(3, device='cuda')
    cuda_kernel(STARTED)[1, 3](out, 3)
    want = torch.tensor([math.inf, math.nan, math.pi])
    if not torch.allclose(out.cpu(), want, rtol=0, atol=0, equal_nan=True): yield f'{out.tolist()}'
    try: cuda_kernel(STARTED.replace('M_PI', 'M_PIE'))
    except CompileError as e:
        if 'M_PIE' not in str(e) or e.line != 4: yield f'an error in line 4 says: {e}'
    else: yield 'M_PIE is known'


SIZES = [(2**20+7,), (1023,), (1000, 33), (64, 65, 66), (1,), (31,), (32,), (33,), (2**22,), (7, 1023), (3, 2**20+8),
         (0,), (0, 3), ()]
TYPES = {getattr(torch, o): o for o in operators.DTYPE_BYTES}
ONLY = [o for o in sys.argv[1:] if isinstance(getattr(torch, o, None), torch.dtype)]      # types that were asked for


def asked(types): return {k: v for k, v in types.items() if not ONLY or str(k)[6:] in ONLY}


def small_values(shape, dtype):
    "Whole ones, whose sums are exact in each order, and few, so that there are ties"
    return torch.randint(0 if dtype is torch.uint8 else -3, 4, shape, device='cuda').to(dtype)


def equal(what, got, want):
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        yield f'{what}: {got.dtype} {tuple(got.shape)}, and not {want.dtype} {tuple(want.shape)}'
    elif not torch.equal(got, want): yield f'{what}: {int((got != want).sum())} of {want.numel()} are wrong'


def of_torch(x, axis):
    "sum, scan (in the type of x, from exact sums) and argmax by torch"
    sums = x.double().sum() if axis is None else x.double().sum(-1)
    runs = (x.flatten() if axis is None else x).to(torch.int64).cumsum(-1).view(x.shape)
    return (sums.to(x.dtype if x.is_floating_point() else torch.int64), runs.to(x.dtype),
            (x.argmax() if axis is None else x.argmax(-1)) if x.numel() else None)


def memory_tools_are_right():
    """Every kernel, type and awkward size against torch, contiguous and as a slice that begins
    between, and what older GPUs get"""
    for dtype, name in asked(TYPES).items():
        for shape in SIZES if name == 'float32' else SIZES[:4]:          # each size and type is a kernel to compile
            whole = small_values((math.prod(shape)+1,), dtype)
            for x in (whole[:-1].view(shape), whole[1:].view(shape)):
                what = f'{name} {shape}, offset {x.storage_offset()}'
                for axis in (None, -1):
                    sums, runs, most = of_torch(x, axis)
                    yield from equal(f'sum of {what}, axis {axis}', sum_of(x, axis), sums)
                    yield from equal(f'scan of {what}, axis {axis}', scan(x, axis), runs)
                    if most is not None: yield from equal(f'argmax of {what}, axis {axis}', argmax(x, axis), most)
                bins = (-3, 4) if x.is_floating_point() else ()
                yield from equal(f'histogram of {what}', histogram(x, 7, *bins),
                                 torch.stack([(x == i).sum() for i in (range(-3, 4) if bins else range(7))]))
                if len(shape) > 1: yield from equal(f'transpose of {what}', transpose(x), x.mT.contiguous())
        x = small_values((2**22,), dtype)
        old, operators.current_device_properties = operators.current_device_properties, lambda: Device(132, False)
        try:
            for tool, got, want in zip(('sum', 'scan', 'argmax'), (sum_of(x), scan(x), argmax(x)), of_torch(x, None)):
                yield from equal(f'{tool} of {name} as on an older GPU', got, want)
        finally: operators.current_device_properties = old
        print(f'  {name}')


def autocast_is_obeyed():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = small_values((70, 300), dtype)
        with torch.autocast('cuda', torch.bfloat16):
            for name, ours, torchs in (('sum', kernels.sum(x), x.sum()), ('rows', kernels.sum(x, -1), x.sum(-1)),
                                       ('scan', kernels.scan(x), x.cumsum(-1))):
                yield from equal(f'{name} of {dtype} under autocast', ours, torchs)
        yield from equal(f'sum of {dtype} after it', kernels.sum(x), x.sum())


def memory_tools_agree_with_cub():
    for n in (1, 33, 1023, 2**20+7, 2**28):
        x, b = (torch.randint(-8, 8, (n,), dtype=torch.int32, device='cuda'),
                torch.randint(0, 256, (n,), dtype=torch.uint8, device='cuda'))
        yield from equal(f'sum of {n}', sum_of(x).int(), cub.sum(x, torch.zeros_like(x[0])))
        yield from equal(f'scan of {n}', scan(x), cub.scan(x, torch.zeros_like(x)))
        yield from equal(f'histogram of {n}', histogram(b).int(),
                         cub.histogram(b, torch.zeros(256, dtype=torch.int32, device='cuda')))


def memory_tools_on_streams_and_in_graphs():
    x = small_values((2**22+4,), torch.int32)
    want = of_torch(x, None)
    def each(): return sum_of(x), scan(x), argmax(x), multistage_sum(x)
    each()
    torch.cuda.synchronize()
    got, streams = [], [torch.cuda.Stream() for _ in range(4)]
    for _ in range(5):
        for s in streams:
            with torch.cuda.stream(s): got.append(each())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): captured = each()
    for o in captured: o.fill_(-1)
    for _ in range(3): graph.replay()
    torch.cuda.synchronize()
    for i, o in enumerate([*got, captured]):
        for name, a, b in zip(('sum', 'scan', 'argmax', 'multistage_sum'), o, (*want, want[0])):
            yield from equal(f'{name}, launch {i}', a, b)


FUSED = {'gelu': (lambda x, w, b: F.gelu(x), kernels.gelu, 1),
         'bias_gelu': (lambda x, w, b: F.gelu(x + w), kernels.bias_gelu, 2),
         'rms_norm': (lambda x, w, b: F.rms_norm(x, x.shape[-1:], w, 1e-6), kernels.rms_norm, 2),
         'layer_norm': (lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), kernels.layer_norm, 3)}


NEAR = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 2**-9, torch.bfloat16: 2**-6}


def fused_tools_are_right():
    "Forward and backward against float64, on rows of every kind: short, in registers, in a ring, beyond"
    for dtype, near in asked(NEAR).items():
        for shape in ((5, 70), (1001, 256), (300, 4096), (65, 8192), (7, 16384), (2, 100001), (4000, 66), (8192, 8192)):
            for name, (torchs, ours, count) in FUSED.items():
                given = [(2*torch.randn(s, device='cuda')).to(dtype) for s in (shape, shape[1:], shape[1:])]
                dy = torch.randn(shape, device='cuda').to(dtype)
                exact = [o.double().requires_grad_() for o in given]
                given = [o.requires_grad_() for o in given[:count]]
                y, want = ours(*given), torchs(*exact)
                pairs = [(y, want), *zip(torch.autograd.grad(y, given, dy),
                                         torch.autograd.grad(want, exact[:count], dy.double()))]
                for i, (got, o) in enumerate(pairs):        # a sum over rows is off by what its largest addends are
                    off = float((got.detach().double() - o.detach()).abs().max()/o.detach().abs().max().clamp(1))
                    if not off <= near: yield f'{name} of {dtype} {shape}, result {i}: off by {off:.1e}'
        print(f'  {dtype}')


def fused_tools_on_streams_and_in_graphs():
    x, b, w = (torch.randn(s, device='cuda') for s in ((512, 4096), (4096,), (4096,)))
    dy = torch.randn_like(x)
    def each():                                             # leaves of their own, as each belongs to one stream
        given = [o.detach().requires_grad_() for o in (x, b, w)]
        y = kernels.rms_norm(kernels.bias_gelu(*given[:2], p=.1, seed=3), given[2])
        return y.detach(), *torch.autograd.grad(y, given, dy)
    want, stream, graph = each(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream): on_stream = each()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream): captured = each()
    for o in captured: o.fill_(-1)
    graph.replay()
    torch.cuda.synchronize()
    for a, b in zip(on_stream, want): yield from equal('rms_norm of bias_gelu on a stream', a, b)
    for a, b in zip(captured, want):                        # without a graph, torch normalizes: rounding differs
        off = float((a - b).abs().max()/b.abs().max())
        if not off <= NEAR[torch.float32]: yield f'rms_norm of bias_gelu in a graph: off by {off:.1e}'


def sanitize():
    "Each rung once, on a small ragged shape: run under compute-sanitizer"
    for name, r in rungs().items():
        h, w, k = shapes_for(r)[:3][-1]
        m, n = inputs(h, w, k, r.dtype, 'cuda')
        Reference(m, n)(r(m.t().contiguous() if r.layout[0] == 't' else m,
                          n.t().contiguous() if r.layout[1] == 't' else n))
        print(f'  {name} {h}x{k} @ {k}x{w}')
    products = ([(Bf16x6(*tile), (150, 130, 200)) for tile in ((128, 128, 1), (64, 64, 8), (64, 128, 2))]
                + [(skinny.SKINNY, o) for o in ((6337, 10, 784), (6400, 1, 100), (37, 10, 785), (97601, 23, 172),
                                        (6001, 16, 784), (6001, 32, 788), (6401, 24, 256))])
    for p, (h, w, k) in products:              # those that are not rungs
        m, n = inputs(h, w, k, 'float32', 'cuda')
        Reference(m, n)(p(m, n))
        print(f'  {p.name} {h}x{k} @ {k}x{w}')
    list(memory_tools_are_right())


SCALED = """
__global__ void scaled(float *out, const float *x, int n, float by) {
    extern __shared__ float s[];
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) out[i] = s[threadIdx.x]*by;
}"""


def cuda_kernel_is_launched_anywhere():
    """By the compiled launcher, which has to be there: on streams, in a thread without a context, in a graph, with
    more shared memory and again with less; errors are reported as usual"""
    if why := launcher.no_launcher_reason(): yield f'there is no compiled launcher: {why}'
    k, n = cuda_kernel(SCALED), 5000
    x, stream, outs = torch.randn(n, device='cuda'), torch.cuda.Stream(), []
    def launch(*how, by=3):
        outs.append((by, torch.full((n,), math.nan, device='cuda')))
        torch.cuda.synchronize()
        k[(20, 256, *how)](outs[-1][1], x, n, by)
    launch(None, 1024)
    launch(None, 200_000, by=2.5)
    launch(0, 1024, by=True)
    launch(None, 200_000)
    launch(stream, 1024)
    launch(stream.cuda_stream, 2048, by=-1)
    with torch.cuda.stream(stream): launch(None, 1024, by=1e-3)
    thread = threading.Thread(target=lambda: launch(None, 4096))
    thread.start()
    thread.join()
    graph, captured = torch.cuda.CUDAGraph(), torch.full((n,), math.nan, device='cuda')
    with torch.cuda.graph(graph): k[20, 256, None, 1024](captured, x, n, 7)
    graph.replay()
    torch.cuda.synchronize()
    for i, (by, out) in enumerate([*outs, (7, captured)]):
        if not torch.equal(out, x*by): yield f'launch {i} is wrong'
    for brackets, args, error in (
            ((20, 256), (x.double(), x, n, 1.), TypeError), ((20, 2048), (x, x, n, 1.), LaunchError),
            ((20, 256), (x, x.cpu(), n, 1.), TypeError), ((20, 256), (x, x, n), LaunchError),
            ((20, 256), (x, x, 2.5, 1.), TypeError), ((20., 256), (x, x, n, 1.), LaunchError)):
        try: k[brackets](*args)
        except error: pass
        else: yield f'nothing is said of {brackets}'


def what_was_seen_before_is_launched_by_the_table():
    "The same as at first, for other addresses, layouts and a given output; what changes the plan is forgotten"
    for dtype, (h, w, k) in (('float32', (700, 900, 1100)), ('bfloat16', (64, 64, 64)), ('float32', (257, 10, 784)),
                             ('bfloat16', (2048, 1024, 4096))):
        for turn in ('', 'a', 'b'):
            known = len(dispatch._launch_table) if dispatch._launch_table is not None else 0
            for i in range(4):
                m, n = inputs(h, w, k, dtype, 'cuda', i)
                a = m.t().contiguous().t() if turn == 'a' else m
                b = n.t().contiguous().t() if turn == 'b' else n
                out = torch.full((h, w), math.nan, dtype=m.dtype, device='cuda') if i % 2 else None
                try: Reference(m, n)(matmul(a, b, out))
                except AssertionError as e: yield f'{h}x{k} @ {k}x{w} {dtype} {turn}, call {i}: {e}'
            added = len(dispatch._launch_table) - known
            print(f'  {dtype} {h}x{k} @ {k}x{w} {turn}: {explain(a, b)}, {added} in the table')
    if not len(dispatch._launch_table): yield 'nothing is in the table'
    with kernels.using():
        if len(dispatch._launch_table): yield 'the table was not forgotten'


def compiled_code_calls_the_kernels():
    "`torch.compile`, forward and backward, into CUDA graphs too; and what torch asks of operators"
    def loss(a, b): return matmul(a, b).square()
    for mode in ('default', 'reduce-overhead'):
        f = torch.compile(loss, fullgraph=True, mode=mode)
        for i in range(3):
            a, b = (x.requires_grad_() for x in inputs(704, 904, 512, 'bfloat16', 'cuda', i))
            y = f(a, b)
            g = torch.randn_like(y)
            for got, want in zip((y, *torch.autograd.grad(y, (a, b), g)),
                                 (z := loss(a, b), *torch.autograd.grad(z, (a, b), g))):
                most = float(want.detach().abs().max())
                if not torch.allclose(got, want, rtol=.02, atol=.02*most): yield f'{mode}, call {i}'
    a, b = (x.requires_grad_() for x in inputs(64, 72, 80, 'float32', 'cuda'))
    torch.library.opcheck(torch.ops.gridstride.matmul.default, (a, b))


CHECKS = [cuda_kernel_is_launched_anywhere, what_was_seen_before_is_launched_by_the_table,
          compiled_code_calls_the_kernels, cuda_kernel_has_what_nvcc_includes,
          fused_tools_are_right, fused_tools_on_streams_and_in_graphs,
          memory_tools_are_right, memory_tools_agree_with_cub, memory_tools_on_streams_and_in_graphs,
          autocast_is_obeyed, exported_kernels_pass, layouts_are_those_of_the_recording, each_rung_is_right,
          each_rung_compiles_at_once, products_are_right, random_products_are_right, gradients_are_right,
          a_first_backward_is_silent, what_is_not_covered_is_torchs, streams_threads_and_graphs,
          rungs_that_must_be_alone_are]


def main():
    if sys.argv[1:] == ['sanitize']: return sanitize()
    named = [o for o in sys.argv[1:] if o not in ONLY]
    failed, checks = 0, [c for c in CHECKS if not named or c.__name__ in named]
    for c in checks:
        print(c.__name__.replace('_', ' '))
        try: errors = list(c())
        except Exception: errors = [traceback.format_exc()]
        for e in errors: print(f'  FAILED {e}')
        failed += bool(errors)
    sys.exit(f'{failed} of {len(checks)} checks failed' if failed else 0)


if __name__ == '__main__': main()
