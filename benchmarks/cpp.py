"""CUDA C: the time from an edit of a cell to its first result, and the speed of the emulator. With a GPU, compare with
torch's load_inline. `--numba` adds Numba's simulator (a minute), `--launches` only measures empty launches."""
import argparse, json, os, platform, statistics, subprocess, sys, tempfile, time

import torch

from gridstride import cpp
from gridstride.cpp.toolchain import compilers
from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.kernels.ladder import hopper
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

SAXPY = cuda_begin + r'''
__global__ void saxpy_k(float a, const float *x, float *y, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) y[i] = a*x[i] + y[i];
}
void saxpy(float a, torch::Tensor x, torch::Tensor y) {
    int n = x.numel();
    saxpy_k<<<cdiv(n, 256), 256>>>(a, x.data_ptr<float>(), y.data_ptr<float>(), n);
}
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
extern "C" void saxpy(float a, const float *x, float *y, int n) {
    for (int i = 0; i < n; i++) y[i] = a*x[i] + y[i];
}
'''

KERNEL = ('extern "C" __global__ void square_k(const float *x, float *out, int n) { '
          'int i = blockIdx.x*blockDim.x + threadIdx.x; if (i < n) out[i] = x[i]*x[i]; }')


def uncached(src): return f'{src}\n// {time.time_ns()}\n'   # a source that is in no cache


def timed_call(f, *args):
    start = time.perf_counter()
    result = f(*args)
    if backend()=='gpu': torch.cuda.synchronize()
    return time.perf_counter()-start,result


def median_seconds(f, *args, n=5): return statistics.median(timed_call(f, *args)[0] for _ in range(n))


def print_edit_to_launch():
    "Print the seconds from an edited source to its first result: when compiled, and when loaded from the cache"
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
    def print_row(name, f, src, repeat=5):
        f(uncached(src))                    # the first call also imports modules and compiles the runtime
        sources = [uncached(src) for _ in range(repeat)]
        cold = statistics.median(timed_call(f, source)[0] for source in sources)
        cached = statistics.median(timed_call(f, source)[0] for source in sources)
        print(f'{name:<34}{cold:>10.3f}{cached:>10.4f}', flush=True)
        return cold
    print(f"{'seconds from edit to result':<34}{'cold':>10}{'cached':>10}")
    if backend()=='gpu': m,n = m*1,n*1
    cold = print_row('load_cuda, lecture 5\'s matmul', load, MATMUL)
    print_row('cuda_kernel, square', launch, KERNEL)
    if backend()=='gpu':
        from torch.utils.cpp_extension import load_inline
        def inline(src):
            mod = load_inline(f'bench_{time.time_ns()}',
                              cpp_sources='torch::Tensor tiled(torch::Tensor m, torch::Tensor n);', cuda_sources=src,
                              functions=['tiled'])
            torch.testing.assert_close(mod.tiled(m, n), m@n, rtol=1e-4, atol=1e-4)
        inline_seconds = timed_call(inline, uncached(MATMUL))[0]
        print(f"{'torch load_inline, the same':<34}{inline_seconds:>10.3f}\n"
              f"load_cuda is {inline_seconds/cold:.0f} times faster than load_inline")


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


def print_first_cells():
    """Print the seconds of the first and the second `%%cuda` cell of a new notebook, with an empty cache, and with the
    runtime and the headers in the cache"""
    print(f"\n{'seconds of a %%cuda cell':<34}{'first':>10}{'second':>10}")
    for name,src in (('cuda_kernel', KERNEL), ('load_cuda', MATMUL)):
        with tempfile.TemporaryDirectory() as cache:
            for when in ('nothing there', 'prepared'):
                env = {**os.environ, 'GRIDSTRIDE_CACHE': cache, 'GRIDSTRIDE_QUIET': '1'}
                process = subprocess.run([sys.executable, '-c', CELLS],
                                         input=json.dumps([uncached(src), uncached(src)]), capture_output=True,
                                         text=True, check=True, env=env)
                first,second = json.loads(process.stdout.splitlines()[-1])
                print(f"{f'{name}, {when}':<34}{first:>10.2f}{second:>10.2f}", flush=True)


def print_saxpy(plain):
    "Print the seconds of a memory-bound kernel, and of the C function `plain`; each is timed between the others"
    import ctypes
    x,y = torch.randn(1<<24),torch.randn(1<<24)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, y)]
    def run_plain(): plain(ctypes.c_float(0.5), *pointers, len(x))
    fast,checked = load_cuda(SAXPY, checks=False),load_cuda(SAXPY)
    contenders = [run_plain, *(lambda module=module: module.saxpy(0.5, x, y) for module in (fast, checked))]
    for run in contenders:
        want = 0.5*x + y
        run()
        torch.testing.assert_close(y, want)
    rounds = [[timed_call(run)[0] for run in contenders] for _ in range(5)]
    seconds = [statistics.median(times) for times in zip(*rounds)]
    print(f"\n{'saxpy of 2^24, on one thread':<34}{'seconds':>10}")
    for name,s in zip(('plain C', 'kernel, unchecked', 'kernel, checked'), seconds):
        print(f'{name:<34}{s:>10.3f}{seconds[0]/s:>10.2f} of the speed of plain C')


def print_hopper():
    "Print the seconds of a kernel with TMA and wgmma, whose threads keep their accumulators on the stack"
    m,n = (torch.randn(256, 256).bfloat16() for _ in range(2))
    out = torch.empty(256, 256, dtype=torch.bfloat16)
    print(f"\n{'256^3 on Hopper, hopper.larger':<34}{'seconds':>10}")
    for name,checks in (('unchecked', False), ('checked', True)):
        with cpp.options(checks=checks):
            hopper.larger(m, n, out)
            torch.testing.assert_close(out, m@n, rtol=2e-2, atol=1e-2)
            print(f'{name:<34}{median_seconds(hopper.larger, m, n, out):>10.3f}')


def print_emulator(with_numba):
    "Print the speed of the emulator on one thread"
    compiler = compilers.compiler()
    with tempfile.TemporaryDirectory() as folder, cpp.options(threads=1):
        with open(f'{folder}/loops.cpp', 'w') as f: f.write(LOOPS)
        flags = compilers.common_flags(compiler)
        command = [compiler.path, *flags, '-shared', f'{folder}/loops.cpp', '-o', f'{folder}/loops.so']
        subprocess.run(command, check=True)
        import ctypes
        library = ctypes.CDLL(f'{folder}/loops.so')
        loops = library.loops
        fast,checked = load_cuda(MATMUL, checks=False),load_cuda(MATMUL)
        m,n = torch.randn(512, 512),torch.randn(512, 512)
        out = torch.empty(512, 512)
        def run_loops():
            loops(*(ctypes.c_void_p(x.data_ptr()) for x in (m, n, out)), 512, 512, 512)
            return out
        for f in (fast.naive, fast.tiled, checked.tiled): torch.testing.assert_close(f(m, n), m@n, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(run_loops(), m@n, rtol=1e-4, atol=1e-3)
        times = [(timed_call(run_loops)[0], timed_call(fast.naive, m, n)[0]) for _ in range(7)]
        loops_seconds,naive_seconds = map(statistics.median, zip(*times))
        print(f"\n{'512^3 on one thread of the CPU':<34}{'seconds':>10}\n"
              f"{'plain C, three loops':<34}{loops_seconds:>10.3f}\n"
              f"{'naive kernel, unchecked':<34}{naive_seconds:>10.3f}"
              f"{naive_seconds/loops_seconds:>10.2f} times plain C")
        print(f"{'tiled kernel, unchecked':<34}{median_seconds(fast.tiled, m, n):>10.3f}\n"
              f"{'tiled kernel, checked':<34}{median_seconds(checked.tiled, m, n):>10.3f}")
        print_saxpy(library.saxpy)
        print_hopper()
        m,n = m[:128,:128].contiguous(),n[:128,:128].contiguous()
        unchecked_seconds,checked_seconds = (median_seconds(module.tiled, m, n) for module in (fast, checked))
        print(f"\n{'128^3, tiled':<34}{'seconds':>10}\n{'emulator, unchecked':<34}{unchecked_seconds:>10.4f}\n"
              f"{'emulator, checked':<34}{checked_seconds:>10.4f}")
        if with_numba:
            here = os.path.dirname(os.path.abspath(__file__))
            run = (f"import sys; sys.path.insert(0, {here!r}); import sim, json; "
                   "print(json.dumps(sim.measure_in_new_process('numba', 'matmul', 128)))")
            numba_seconds = json.loads(subprocess.run([sys.executable, '-c', run], capture_output=True,
                                                      text=True, check=True).stdout)['seconds']
            print(f"{'Numba simulator':<34}{numba_seconds:>10.2f}{numba_seconds/unchecked_seconds:>10,.0f} times "
                  f"unchecked, {numba_seconds/checked_seconds:,.0f} times checked")


EMPTY = cuda_begin + '''
__global__ void empty_k(float *x, int n) {}
void launched(torch::Tensor x, int times) {
    for (int i = 0; i < times; i++) empty_k<<<1, 32>>>(x.data_ptr<float>(), 1);
}
'''


def microseconds(f, num_launches, repeat=40):
    "Return the fewest microseconds per launch, in CPU time of this thread, which other processes hardly affect"
    def once():
        start = time.thread_time()
        f()
        return time.thread_time()-start
    return min(once() for _ in range(repeat))/num_launches*1e6


def print_launches():
    "Print the microseconds of an empty launch on the emulator"
    x,n = torch.zeros(32),200
    print(f"\n{'microseconds of an empty launch':<34}{'checked':>10}{'unchecked':>10}")
    kernels = [cuda_kernel(EMPTY, checks=checks) for checks in (True, False)]
    modules = [load_cuda(EMPTY, checks=checks) for checks in (True, False)]
    def launch(kernel):
        for _ in range(n): kernel[1,32](x, 1)
    rows = {'kernel[1, 32](x, n) in Python': [microseconds(lambda: launch(kernel), n) for kernel in kernels],
            'k<<<1, 32>>>(x, n) in host code': [microseconds(lambda: m.launched(x, 10*n), 10*n) for m in modules]}
    for name,(checked,unchecked) in rows.items(): print(f'{name:<34}{checked:>10.2f}{unchecked:>10.2f}')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--numba', action='store_true')
    parser.add_argument('--launches', action='store_true')
    args = parser.parse_args()
    gpu = torch.cuda.get_device_name() if backend()=='gpu' else 'no GPU'
    compiler = compilers.compiler()
    print(f'{gpu}, {platform.machine()}, {os.cpu_count()} cores, {compiler.kind} {compiler.version}, '
          f'Python {platform.python_version()}, torch {torch.__version__}')
    print(f'load of the machine at the start: {os.getloadavg()[0]:.1f}')
    if args.launches: return print_launches()
    print()
    print_edit_to_launch()
    print_first_cells()
    if backend()!='gpu':
        print_emulator(args.numba)
        print_launches()


if __name__=='__main__': main()
