"""CUDA C: from an edited cell to its first result, and the emulator's speed. With a GPU, against torch's load_inline;
`--numba` adds Numba's simulator (a minute), `--launches` measures empty launches alone."""
import argparse, json, os, platform, statistics, subprocess, sys, tempfile, time

import torch

from gridstride import cpp
from gridstride.cpp.toolchain import compilers
from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.kernels.ladder.lecture import naive_src
from gridstride.utils import backend, cuda_begin

MATMUL = cuda_begin + naive_src + r'''
template<int tw> __global__ void tiled_k(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ float ms[tw][tw], ns[tw][tw];
    int tc = threadIdx.x, tr = threadIdx.y, r = blockIdx.y*tw + tr, c = blockIdx.x*tw + tc;
    float o = 0;
    for (int ph = 0; ph < cdiv(k, tw); ph++) {
        ms[tr][tc] = r < h && ph*tw + tc < k ? m[r*k + ph*tw + tc] : 0;
        ns[tr][tc] = c < w && ph*tw + tr < k ? n[(ph*tw + tr)*w + c] : 0;
        __syncthreads();
        for (int i = 0; i < tw; i++) o += ms[tr][i]*ns[i][tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r*w + c] = o;
}
torch::Tensor launched(torch::Tensor m, torch::Tensor n, bool tiled) {
    CHECK_INPUT(m); CHECK_INPUT(n);
    int h = m.size(0), w = n.size(1), k = m.size(1);
    auto out = torch::empty({h, w}, m.options());
    dim3 tpb(16, 16), blocks(cdiv(w, 16), cdiv(h, 16));
    if (tiled) tiled_k<16><<<blocks, tpb>>>(m.data_ptr<float>(), n.data_ptr<float>(), out.data_ptr<float>(), h, w, k);
    else matmul_naive_k<<<blocks, tpb>>>(m.data_ptr<float>(), n.data_ptr<float>(), out.data_ptr<float>(), h, w, k);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
torch::Tensor naive(torch::Tensor m, torch::Tensor n) { return launched(m, n, false); }
torch::Tensor tiled(torch::Tensor m, torch::Tensor n) { return launched(m, n, true); }
'''

LOOPS = r'''
extern "C" void loops(const float *m, const float *n, float *out, int h, int w, int k) {
    for (int r = 0; r < h; r++)
        for (int c = 0; c < w; c++) {
            float o = 0;
            for (int i = 0; i < k; i++) o += m[r*k + i]*n[i*w + c];
            out[r*w + c] = o;
        }
}
'''

KERNEL = ('extern "C" __global__ void square_k(const float *x, float *out, int n) { '
          'int i = blockIdx.x*blockDim.x + threadIdx.x; if (i < n) out[i] = x[i]*x[i]; }')


def changed(src): return f'{src}\n// {time.time_ns()}\n'   # never in any cache


def seconds(f, *args):
    start = time.perf_counter()
    res = f(*args)
    if backend()=='gpu': torch.cuda.synchronize()
    return time.perf_counter()-start,res


def median(f, *args, n=5): return statistics.median(seconds(f, *args)[0] for _ in range(n))


def edit_to_launch():
    "Seconds from an edited source to its first result, compiled again, then from the cache in a fresh Python object"
    device = 'cuda' if backend()=='gpu' else 'cpu'
    m,n = torch.randn(64, 48, device=device),torch.randn(48, 80, device=device)
    x = torch.randn(1000, device=device)
    out = torch.empty_like(x)
    def load(src):
        got = load_cuda(src).tiled(m, n)
        torch.testing.assert_close(got, m@n, rtol=1e-4, atol=1e-4)
    def launch(src):
        cuda_kernel(src)[4,256](x, out, 1000)
        torch.testing.assert_close(out, x*x)
    def rows(name, f, src, repeat=5):
        f(changed(src))                                   # the first ever pays for imports and the runtime
        trials = [changed(src) for _ in range(repeat)]
        cold = statistics.median(seconds(f, s)[0] for s in trials)
        cached = statistics.median(seconds(f, s)[0] for s in trials)
        print(f'{name:<34}{cold:>10.3f}{cached:>10.4f}', flush=True)
        return cold
    print(f"{'seconds from edit to result':<34}{'cold':>10}{'cached':>10}")
    if backend()=='gpu': m,n = m*1,n*1
    cold = rows('load_cuda, lecture 5\'s matmul', load, MATMUL)
    rows('cuda_kernel, square', launch, KERNEL)
    if backend()=='gpu':
        from torch.utils.cpp_extension import load_inline
        def inline(src):
            mod = load_inline(f'bench_{time.time_ns()}',
                              cpp_sources='torch::Tensor tiled(torch::Tensor m, torch::Tensor n);', cuda_sources=src,
                              functions=['tiled'])
            torch.testing.assert_close(mod.tiled(m, n), m@n, rtol=1e-4, atol=1e-4)
        slow = seconds(inline, changed(MATMUL))[0]
        print(f"{'torch load_inline, the same':<34}{slow:>10.3f}\n"
              f"load_cuda is {slow/cold:.0f} times faster than load_inline")


CELLS = '''
import json, sys, time, torch
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.run_line_magic('load_ext', 'gridstride.cpp')
def seconds(cell):
    start = time.perf_counter()
    shell.run_cell_magic('cuda', '', cell)
    return time.perf_counter()-start
print(json.dumps(list(map(seconds, json.load(sys.stdin)))))
'''


def first_cells():
    """Seconds of the first and the second `%%cuda` cell of a fresh notebook, where nothing was compiled before and
    where the runtime and the headers are there"""
    print(f"\n{'seconds of a %%cuda cell':<34}{'first':>10}{'second':>10}")
    for name,src in (('cuda_kernel', KERNEL), ('load_cuda', MATMUL)):
        with tempfile.TemporaryDirectory() as d:
            for when in ('nothing there', 'prepared'):
                env = {**os.environ, 'GRIDSTRIDE_CACHE': d, 'GRIDSTRIDE_QUIET': '1'}
                done = subprocess.run([sys.executable, '-c', CELLS], input=json.dumps([changed(src), changed(src)]),
                                      capture_output=True, text=True, check=True, env=env)
                print(
                    f"{f'{name}, {when}':<34}{'{:>10.2f}{:>10.2f}'.format(*json.loads(done.stdout.splitlines()[-1]))}",
                    flush=True)


def emulator(numba):
    "The emulator's speed on one thread"
    c = compilers.compiler()
    with tempfile.TemporaryDirectory() as d, cpp.options(threads=1):
        with open(f'{d}/loops.cpp', 'w') as f: f.write(LOOPS)
        flags = compilers.common_flags(c)
        subprocess.run([c.path, *flags, '-shared', f'{d}/loops.cpp', '-o', f'{d}/loops.so'], check=True)
        import ctypes
        loops = ctypes.CDLL(f'{d}/loops.so').loops
        fast,checked = load_cuda(MATMUL, checks=False),load_cuda(MATMUL)
        m,n = torch.randn(512, 512),torch.randn(512, 512)
        out = torch.empty(512, 512)
        def plain():
            loops(*(ctypes.c_void_p(o.data_ptr()) for o in (m, n, out)), 512, 512, 512)
            return out
        for f in (fast.naive, fast.tiled, checked.tiled): torch.testing.assert_close(f(m, n), m@n, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(plain(), m@n, rtol=1e-4, atol=1e-3)
        a,b = zip(*((seconds(plain)[0], seconds(fast.naive, m, n)[0]) for _ in range(7)))
        a,b = statistics.median(a),statistics.median(b)
        print(f"\n{'512^3 on one thread of the CPU':<34}{'seconds':>10}\n{'plain C, three loops':<34}{a:>10.3f}\n"
              f"{'naive kernel, unchecked':<34}{b:>10.3f}{b/a:>10.2f} times plain C")
        print(f"{'tiled kernel, unchecked':<34}{median(fast.tiled, m, n):>10.3f}\n"
              f"{'tiled kernel, checked':<34}{median(checked.tiled, m, n):>10.3f}")
        m,n = m[:128,:128].contiguous(),n[:128,:128].contiguous()
        a,b = median(fast.tiled, m, n),median(checked.tiled, m, n)
        print(f"\n{'128^3, tiled':<34}{'seconds':>10}\n{'emulator, unchecked':<34}{a:>10.4f}\n"
              f"{'emulator, checked':<34}{b:>10.4f}")
        if numba:
            here = os.path.dirname(os.path.abspath(__file__))
            run = (f"import sys; sys.path.insert(0, {here!r}); import sim, json; "
                   "print(json.dumps(sim.apart('numba', 'matmul', 128)))")
            slow = json.loads(subprocess.run([sys.executable, '-c', run], capture_output=True,
                                             text=True, check=True).stdout)['seconds']
            print(f"{'Numba simulator':<34}{slow:>10.2f}{slow/a:>10,.0f} times unchecked, {slow/b:,.0f} times checked")


EMPTY = cuda_begin + '''
__global__ void empty_k(float *x, int n) {}
void launched(torch::Tensor x, int times) {
    for (int i = 0; i < times; i++) empty_k<<<1, 32>>>(x.data_ptr<float>(), 1);
}
'''


def microseconds(f, launches, repeat=40):
    "Of this thread's own time, which others on the machine lengthen least; the shortest of all"
    def once():
        start = time.thread_time()
        f()
        return time.thread_time()-start
    return min(once() for _ in range(repeat))/launches*1e6


def launches():
    "What a launch costs on the emulator that does nothing"
    x,n = torch.zeros(32),200
    print(f"\n{'microseconds of an empty launch':<34}{'checked':>10}{'unchecked':>10}")
    kernels = [cuda_kernel(EMPTY, checks=o) for o in (True, False)]
    modules = [load_cuda(EMPTY, checks=o) for o in (True, False)]
    def by_python(k):
        for _ in range(n): k[1,32](x, 1)
    rows = {'kernel[1, 32](x, n) in Python': [microseconds(lambda: by_python(k), n) for k in kernels],
            'k<<<1, 32>>>(x, n) in host code': [microseconds(lambda: m.launched(x, 10*n), 10*n) for m in modules]}
    for name,(checked,unchecked) in rows.items(): print(f'{name:<34}{checked:>10.2f}{unchecked:>10.2f}')


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--numba', action='store_true')
    p.add_argument('--launches', action='store_true')
    a = p.parse_args()
    gpu = torch.cuda.get_device_name() if backend()=='gpu' else 'no GPU'
    c = compilers.compiler()
    print(f'{gpu}, {platform.machine()}, {os.cpu_count()} cores, {c.kind} {c.version}, '
          f'Python {platform.python_version()}, torch {torch.__version__}')
    print(f'load of the machine at the start: {os.getloadavg()[0]:.1f}')
    if a.launches: return launches()
    print()
    edit_to_launch()
    first_cells()
    if backend()!='gpu':
        emulator(a.numba)
        launches()


if __name__=='__main__': main()
