"Threads of the host: one emulated and one simulated device, which they use one at a time."
import signal
import time

import pytest
from warm import python, run_python

START = '''
import threading, sys
import numpy as np
from gridstride import cpp, sim
from gridstride.diagnostics.errors import KernelError
found = []
def together(body, n=4):
    def go(j):
        try: body(j)
        except BaseException as e: found.append(repr(e))
    threads = [threading.Thread(target=go, args=(j,)) for j in range(n)]
    for o in threads: o.start()
    for o in threads: o.join()
def code_of(f, *args):
    try: f(*args)
    except KernelError as e: return e.code
'''

# threads that end while others launch: their own C++ variables are destroyed under the eyes of the detectors
EMULATOR = '''
ks = cpp.cuda_kernel("""
__global__ void turn(float *x, int n) {
    __shared__ float s[64];
    int i = blockIdx.x*64 + threadIdx.x;
    s[threadIdx.x] = i;
    __syncthreads();
    if (i < n) x[i] = s[63 - threadIdx.x];
}
__global__ void past(float *x, int n) { x[blockIdx.x*64 + threadIdx.x] = 1; }""")
want = np.arange(1024).reshape(16, 64)[:, ::-1].reshape(-1)[:1000]
def body(j):
    for r in range(8):
        x = np.zeros(1000, np.float32)
        ks.turn[16, 64](x, 1000)
        if (x != want).any(): found.append(f'{j} {r}')
        if r % 4 == j and code_of(ks.past[16, 64], x, 1000) != 'outside': found.append('silent')
for _ in range(8): together(body)
print(found)
'''

SIMULATOR = '''
@sim.cuda.jit
def turn(x):
    i, t, s = sim.cuda.grid(1), sim.cuda.threadIdx.x, sim.cuda.shared.array(64, 'float32')
    s[t] = i
    sim.cuda.syncthreads()
    if i < x.size: x[i] = s[63 - t]
@sim.cuda.jit
def past(x): x[sim.cuda.grid(1)] = 1
def body(j):
    for r in range(6):
        x = np.zeros(1000)
        with sim.options(order=('forward', 'reverse', 'shuffle')[j % 3]):
            turn[16, 64](x)
            if x[0] != 63 or x[999] != 15*64 + 24: found.append(f'{j} {r}')
            if code_of(past[16, 64], x) != 'outside': found.append('silent')
together(body)
from gridstride.diagnostics.settings import settings
if settings.order != 'forward': found.append('an order is left')
with sim.options(checks=False):
    together(lambda j: code_of(past[15, 64], np.zeros(1000)) and found.append('no thread of the block'))
print(found)
'''


def output(tmp_path, script):
    (tmp_path/'script.py').write_text(START + script)
    p = run_python(tmp_path/'script.py')
    assert p.returncode == 0, p.stderr[-2000:]
    return p.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize('script', [EMULATOR, SIMULATOR], ids=['emulator', 'simulator'])
def test_threads_of_python_launch(script, tmp_path):
    assert output(tmp_path, script) == '[]'


HOST = r'''
m = cpp.load_cuda("""
#include <thread>
#include <vector>
#include <cstdlib>
__global__ void turn(float *x, int n) {
    __shared__ float s[64];
    int i = blockIdx.x*64 + threadIdx.x;
    s[threadIdx.x] = i;
    __syncthreads();
    if (i < n) x[i] = s[63 - threadIdx.x];
}
template <class F> void together(F f) {
    std::vector<std::thread> threads;
    for (int j = 0; j < 4; j++) threads.emplace_back(f, j);
    for (auto &o : threads) o.join();
}
int go(int wrong) {
    int right = 0;
    float *x[4];
    together([&](int j) {
        cudaMalloc(&x[j], 4000);
        for (int r = 0; r < 8; r++) turn<<<16, 64>>>(x[j], 1000 + (j == wrong));
        turn<<<1, 2000>>>(x[j], 1000);
        const bool refused = cudaGetLastError() == cudaErrorInvalidValue;   // each thread has a last error of its own
        if (j == 0) right += refused;
    });
    right += cudaGetLastError() == cudaSuccess;
    for (auto p : x) {
        float h[1000];
        cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
        right += h[0] == 63 && h[999] == 984;
        cudaFree(p);
    }
    return right;
}
void leaves() { together([](int j) { if (j == 2) exit(3); }); }
void touches() { float *x; cudaMalloc(&x, 4); together([=](int j) { if (j == 3) *x = 1; }); }""")
print(m.go(-1), code_of(m.go, 2), m.go(-1), code_of(m.leaves), code_of(m.touches), m.go(-1))
'''


@pytest.mark.slow
def test_threads_of_the_host_code_launch_and_what_they_find_is_raised(tmp_path):
    assert output(tmp_path, HOST) == '6 outside 6 exits host_writes 6'


ENDLESS = r'''
import signal, time
m = cpp.load_cuda("""
#include <torch/extension.h>
__global__ void k(int *x) { for (;;) atomicAdd(x, 1); }
void go(torch::Tensor x) {
    puts("started");
    fflush(stdout);
    k<<<1, 1>>>(x.data_ptr<int>());
}""")
import torch
def waits(): together(lambda j: m.go(torch.zeros(1, dtype=torch.int32)), 1)
def sleeps():
    threading.Thread(target=waits).start()
    time.sleep(60)
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where a shell runs the tests in the background
try: globals()[sys.argv[1]]()
except KeyboardInterrupt: print('stopped', flush=True)
'''


@pytest.mark.slow
@pytest.mark.parametrize('main_thread', ['waits', 'sleeps'])
def test_ctrl_c_ends_launches_of_threads_and_reaches_the_main_one(main_thread):
    p = python('-c', START + ENDLESS, main_thread)
    assert p.stdout.readline() == 'started\n'
    time.sleep(.5)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=300)
    assert out == 'stopped\n', err
