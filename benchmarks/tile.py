"""Kernels of Triton without a GPU: milliseconds per program by `gridstride.tile` and by Triton's interpreter.

    python benchmarks/tile.py > benchmarks/tile.txt

Both run the same functions on the same tensors, each in a separate process, in both orders. Each time is the median of
five launches after a warm-up, and each result is first compared with torch's.
"""
import os, subprocess, sys, time
from statistics import median

import torch, triton, triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + tl.load(y_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, w, BLOCK: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r*w + c, mask=c < w, other=-float('inf'))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + r*w + c, e/tl.sum(e, axis=0), mask=c < w)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r, c = tl.program_id(0)*BM + tl.arange(0, BM), tl.program_id(1)*BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        k = i + tl.arange(0, BK)
        a = tl.load(a_ptr + r[:, None]*K + k[None, :], mask=(r[:, None] < M) & (k[None, :] < K), other=0.)
        b = tl.load(b_ptr + k[:, None]*N + c[None, :], mask=(k[:, None] < K) & (c[None, :] < N), other=0.)
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + r[:, None]*N + c[None, :], acc, mask=(r[:, None] < M) & (c[None, :] < N))


def cases():
    "Yield (name, kernel, grid, arguments, constants, output, expected output)"
    torch.manual_seed(0)
    x, y, out = torch.randn(200_000), torch.randn(200_000), torch.full((200_000,), float('nan'))
    yield 'vector add, 1024 lanes', add_kernel, (196,), (x, y, out, 200_000), dict(BLOCK=1024), out, x + y
    x, out = torch.randn(200, 781), torch.full((200, 781), float('nan'))
    yield 'softmax, rows of 781', softmax_kernel, (200,), (x, out, 781), dict(BLOCK=1024), out, x.softmax(1)
    a, b, out = torch.randn(200, 300).half(), torch.randn(300, 170).half(), torch.full((200, 170), float('nan'))
    meta, want = dict(BM=64, BN=64, BK=32), a.float() @ b.float()
    yield 'matmul fp16, 64x64 over 300', matmul_kernel, (4, 3), (a, b, out, 200, 170, 300), meta, out, want


def time_launches(launch, programs):
    "Return the milliseconds per program: the median of five launches"
    times = []
    for _ in range(5):
        start = time.perf_counter()
        launch()
        times.append((time.perf_counter() - start)*1e3/programs)
    return median(times)


def measure(mode):
    "Print the time of each case, one per line; `mode` is 'interpreter', or the value of tile's option `checks`"
    from gridstride import tile
    from gridstride.diagnostics.settings import options
    for _, kernel, grid, args, meta, out, want in cases():
        run = kernel if mode == 'interpreter' else tile.checked(kernel)
        with options(checks='all' if mode == 'interpreter' else mode):
            run[grid](*args, **meta)
            torch.testing.assert_close(out, want, rtol=1e-3, atol=1e-3)
            print(time_launches(lambda: run[grid](*args, **meta), grid[0]*(grid + (1,))[1]))


def run_measure(mode):
    "Run `measure` in a new process; return the times it prints"
    env = os.environ | (dict(TRITON_INTERPRET='1') if mode == 'interpreter' else {})
    process = subprocess.run([sys.executable, __file__, mode], env=env, capture_output=True, text=True, check=True)
    return [float(line) for line in process.stdout.split()]


def main():
    "Measure all modes twice, forwards and backwards, and print the smaller of the two medians"
    modes = ['interpreter', 'all', 'none']
    times = {mode: [] for mode in modes}
    for mode in modes + modes[::-1]: times[mode].append(run_measure(mode))
    print(f'ms a program, Triton {triton.__version__}, {os.cpu_count()} cores, no GPU\n')
    print(f'{"":30} {"interpreter":>12} {"tile, checked":>14} {"tile, no checks":>16} {"ratio":>7}')
    for i, (name, *_) in enumerate(cases()):
        interpreter, checked, unchecked = (min(run[i] for run in times[mode]) for mode in modes)
        print(f'{name:30} {interpreter:12.3f} {checked:14.3f} {unchecked:16.3f} {interpreter/checked:6.1f}x')
    print('\nratio: interpreter / tile with every check')


if __name__ == '__main__': measure(sys.argv[1]) if sys.argv[1:] else main()
