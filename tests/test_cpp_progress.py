"Blocks that wait for other blocks: those that fit on the device together make progress together, in every order."
import os
import subprocess
from pathlib import Path

import pytest
import torch

from gridstride import cpp
from gridstride.diagnostics.errors import KernelTimeout, RacecheckError
from found import finding, warning
from warm import run_python

SRC = r'''
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ int flags[2048], sums[2048], ticket;

__device__ int look_back(int b, int mine) {  // one thread of the block: what those before have, and this one
    int before = 0;
    if (b) {
        while (atomicAdd(&flags[b-1], 0) == 0) {}
        __threadfence();
        before = sums[b-1];
    }
    sums[b] = before + mine;
    __threadfence();
    atomicExch(&flags[b], 1);
    return before + mine;
}
__global__ void scan(const int *x, int *out) {              // decoupled look-back, the others at a barrier
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, x[blockIdx.x*blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = look_back(blockIdx.x, total);
}
__global__ void by_ticket(int *out) {
    extern __shared__ int mine[];
    if (threadIdx.x == 0) mine[0] = atomicAdd(&ticket, 1);
    __syncthreads();
    if (threadIdx.x == 0) out[mine[0]] = look_back(mine[0], 1);
}
__shared__ int of_file[32];                                 // each block has its own, at one address
__global__ void in_file(volatile int *f, int *out) {
    of_file[threadIdx.x] = blockIdx.x*100 + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        if (blockIdx.x + 1 < gridDim.x) while (f[blockIdx.x+1] == 0) {}
        __threadfence();
        f[blockIdx.x] = 1;
    }
    __syncthreads();
    out[blockIdx.x*32 + threadIdx.x] = of_file[31 - threadIdx.x];
}
__global__ void fix_up(int *part, int *out) {  // the last block of a tile adds what the others left: stream-K
    int b = blockIdx.x;
    part[b] = b + 1;
    __threadfence();
    if (b % 4 < 3) { atomicExch(&flags[b], 1); return; }
    int sum = part[b];
    for (int i = b - 3; i < b; i++) {
        while (atomicCAS(&flags[i], 1, 1) != 1) __nanosleep(20);
        __threadfence();
        sum += part[i];
    }
    out[b/4] = sum;
}
__global__ void grid(int *a, int *b, int n) {
    __shared__ int s[64];
    auto g = cg::this_grid();
    int i = g.thread_rank();
    s[threadIdx.x] = i;
    a[i] = i;
    g.sync();
    b[i] = a[n - 1 - i] + s[threadIdx.x];
    g.sync();
    a[i] = b[(i + 1)%n] + g.is_valid();
}
__global__ void race(int *a, int n) {                       // no barrier of the grid between
    int i = blockIdx.x*64 + threadIdx.x;
    a[i] = i;
    if (blockIdx.x == 0) cg::this_grid().sync(); else cg::this_grid().sync();
    a[n - 1 - i] = i;
    a[i] = 0;
}
__global__ void early(int *a) {
    if (blockIdx.x == 1) return;
    cg::this_grid().sync();                                 // line of the barrier
}
__global__ void excused(int *a, int n, int wrong) {
    int i = blockIdx.x*64 + threadIdx.x;
    if (i >= n || (wrong && threadIdx.x == 0 && blockIdx.x == 1)) return;
    for (int k = 0; k < 3; k++) {
        a[i] += 1;
        cg::this_grid().sync();                             // those that are left
        a[n - 1 - i] += 1;
        cg::this_grid().sync();
    }
}
__global__ void never(int *a) {
    while (atomicAdd(a, 0) == 0) {}                         // line of the wait
}
__global__ void clusters(int *out) {
    __shared__ int s;
    s = 0;
    cg::this_cluster().sync();
    if (cg::this_cluster().block_rank() == 0) {             // pairs wait for the pair after them
        int c = blockIdx.x/2;
        if (c + 1 < gridDim.x/2) while (atomicAdd(&flags[c+1], 0) == 0) {}
        __threadfence();
        *cg::this_cluster().map_shared_rank(&s, 1) = c + 1;
        atomicExch(&flags[c], 1);
    }
    cg::this_cluster().sync();
    out[blockIdx.x] = s;
}

void reset() { static int z[2048]; cudaMemcpyToSymbol(flags, z, sizeof z); cudaMemcpyToSymbol(ticket, z, 4); }
void go_scan(int *x, int *out, int blocks) { reset(); scan<<<blocks, 64>>>(x, out); }
void go_ticket(int *out, int blocks) {
    reset(); cudaFuncSetAttribute(by_ticket, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000);
    by_ticket<<<blocks, 32, 200000>>>(out);
}
void go_file(int *f, int *out, int blocks) { in_file<<<blocks, 32>>>(f, out); }
void go_fix_up(int *part, int *out, int blocks) { reset(); fix_up<<<blocks, 1>>>(part, out); }
void go_clusters(int *out, int blocks) {
    reset();
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = 2, attribute[0].val.clusterDim.y = attribute[0].val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {blocks, 1, 0, 0, attribute, 1};
    cudaLaunchKernelEx(&config, clusters, out);
}
int go_grid(int *a, int *b, int n, int blocks) {
    void *args[] = {&a, &b, &n};
    return cudaLaunchCooperativeKernel((void *)grid, dim3(blocks), dim3(64), args, 0, 0);
}
int go_grid_ex(int *a, int *b, int n) {
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeCooperative;
    attribute[0].val.cooperative = 1;
    cudaLaunchConfig_t config = {dim3(n/64), dim3(64), 0, 0, attribute, 1};
    return cudaLaunchKernelEx(&config, grid, a, b, n);
}
void go_plain(int *a, int *b, int n) {
    void *args[] = {&a, &b, &n};
    cudaLaunchKernel(reinterpret_cast<const void *>(grid), dim3(n/64), dim3(64), args, 0, 0);
}
void go_race(int *a, int n) {
    void *args[] = {&a, &n}; cudaLaunchCooperativeKernel((const void *)race, n/64, 64, args);
}
void go_early(int *a) { void *args[] = {&a}; cudaLaunchCooperativeKernel((void *)early, 4, 32, args); }
void go_excused(int *a, int n, int wrong) {
    void *args[] = {&a, &n, &wrong}; cudaLaunchCooperativeKernel((void *)excused, (n + 63)/64, 64, args);
}
void go_never(int *a, int blocks) {
    cudaFuncSetAttribute(never, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000); never<<<blocks, 1, 200000>>>(a);
}
int fit() {
    int n, by = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, grid, 64, 0);
    cudaDeviceGetAttribute(&by, cudaDevAttrCooperativeLaunch, 0);
    return by ? n : 0;
}
'''


@pytest.fixture(scope='module')
def checked(): return cpp.load_cuda(SRC)
@pytest.fixture(scope='module')
def unchecked(): return cpp.load_cuda(SRC, checks=False)


def ints(n): return torch.zeros(n, dtype=torch.int32)
def line_of(text): return next(i for i, o in enumerate(SRC.splitlines(), 1) if text in o)


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
@pytest.mark.parametrize('which', ['checked', 'unchecked'])
def test_blocks_that_wait_for_others(which, order, request):
    m = request.getfixturevalue(which)
    with cpp.options(order=order, seed=2, seconds=30, threads=2):
        x, out = torch.arange(40*64, dtype=torch.int32) % 7, ints(40)
        m.go_scan(x, out, 40)
        assert (out == x.view(40, 64).sum(1).cumsum(0)).all()
        out = ints(300)                 # 132 of them fit
        m.go_ticket(out, 300)
        assert (out == torch.arange(1, 301)).all()
        part, out = ints(32), ints(8)
        m.go_fix_up(part, out, 32)
        assert (out == torch.arange(1, 33).view(8, 4).sum(1)).all()
        a, b = ints(640), ints(640)
        for go in (lambda: m.go_grid(a, b, 640, 10), lambda: m.go_grid_ex(a, b, 640)):
            assert go() == 0 and (b == 639).all() and (a == 640).all()
        out = ints(12)
        m.go_clusters(out, 12)
        assert out.tolist() == [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6]
        if which == 'checked':          # without checks a volatile access is not reported
            out = ints(320)
            m.go_file(ints(10), out, 10)
            assert (out.view(10, 32) == torch.arange(10)[:, None]*100 + torch.arange(31, -1, -1)).all()


def test_a_grid_that_waits_and_does_not_fit_is_named(checked):
    with cpp.options(seconds=30), finding('synccheck not_resident', resident=132, blocks=140) as e:
        checked.go_never(ints(1), 140)
    assert e.value.line == line_of('line of the wait')


def test_a_loop_that_waits_for_what_never_comes_ends_with_its_line(checked, unchecked):
    for m in (checked, unchecked):
        with cpp.options(seconds=.3), pytest.raises(KernelTimeout) as e: m.go_never(ints(1), 3)
        assert e.value.line == line_of('line of the wait')


def test_the_barrier_of_the_grid(checked):
    a, b = ints(640), ints(640)
    with finding('synccheck not_cooperative') as e: checked.go_plain(a, b, 640)
    assert e.value.line == line_of('g.sync();')
    with finding('launch cooperative_size', blocks=5000, resident=4224):
        checked.go_grid(a, b, 640, 5000)
    with finding('synccheck deadlock at_grid', advice='at_grid') as e: checked.go_early(a)
    assert e.value.fields['why'].fields == dict(arrived=96, threads=128)
    assert e.value.line == line_of('line of the barrier')
    with pytest.raises(RacecheckError): checked.go_race(a, 640)
    assert checked.fit() == 32


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
def test_the_barrier_of_the_grid_excuses_who_has_returned_but_not_the_first_of_a_block(checked, unchecked, order):
    with cpp.options(order=order, seed=2):
        a = ints(230)
        with warning('returned', here=38, threads=64): checked.go_excused(a, 230, 0)
        with cpp.options(threads=2): unchecked.go_excused(a, 230, 0)
        assert (a == 12).all()
        with finding('synccheck deadlock at_grid') as e: checked.go_excused(ints(256), 256, 1)
        assert e.value.fields['why'].fields['arrived'] in (255, 256)
        assert e.value.line == line_of('those that are left')


def test_a_kernel_without_host_code_has_the_barrier_too():
    k = cpp.cuda_kernel('#include <cooperative_groups.h>\n'
                        '__global__ void k(int *a, int *b, int n) { int i = blockIdx.x*32 + threadIdx.x; a[i] = i; '
                        'cooperative_groups::this_grid().sync(); b[i] = a[n-1-i]; }')
    a, b = ints(320), ints(320)
    with cpp.options(order='reverse'): k[10, 32](a, b, 320)
    assert (b == torch.arange(319, -1, -1)).all()
    with finding('launch cooperative_size'): k[10000, 32](ints(320000), ints(320000), 320000)


def test_an_endless_spin_loop_is_reported_with_its_line():
    "Wherever the end of its time meets it: in the kernel, in a function of the headers or in the runtime"
    k = cpp.cuda_kernel('__global__ void k(int *x) {\n    while (atomicAdd(x, 0) == 0) {}\n    x[1] = 1;\n}')
    for _ in range(12):  # a third of them ended in the second
        with cpp.options(seconds=.01), pytest.raises(KernelTimeout) as e: k[1, 32](ints(2))
        assert (e.value.line, e.value.file) == (2, 'k.cu')


SLOW_TO_LOAD = r'''
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#ifndef LOADS
__attribute__((constructor)) static void slow() { usleep(1200000); }
#else
static void *load(void *path) { usleep(300000); return dlopen(path, RTLD_NOW); }
void loads(const char *path) { pthread_t t; pthread_create(&t, 0, load, strdup(path)); }
#endif
'''
LOOKS_WHILE_LOADED = '''
import ctypes, sys
import torch
from gridstride import cpp
k = cpp.cuda_kernel('__global__ void k(int *x) { while (atomicAdd(x, 0) == 0) {} }')
x = torch.ones(1, dtype=torch.int32)
k[1, 32](x)
ctypes.CDLL(sys.argv[1]).loads(sys.argv[2].encode())
try:
    with cpp.options(seconds=.6): k[1, 32](x*0)
except Exception as e: print(type(e).__name__, e.line)
'''


def test_time_is_over_while_another_thread_loads_a_library(tmp_path):
    "The loader's lock is held all that time, and who ends the kernel is not to wait for it"
    source, *libraries = (str(tmp_path/o) for o in ('a.c', 'loads.so', 'slow.so'))
    Path(source).write_text(SLOW_TO_LOAD)
    for library, flags in zip(libraries, (['-DLOADS'], [])):
        subprocess.run(['g++', '-xc', '-shared', '-fPIC', *flags, source, '-o', library, '-pthread'], check=True)
    r = run_python('-c', LOOKS_WHILE_LOADED, *libraries)
    assert (r.returncode, r.stdout) == (0, 'KernelTimeout 1\n'), r.stderr


ON_BUSY_PROCESSOR = '''
import os, subprocess, sys, time
import torch
from gridstride import cpp
from gridstride.diagnostics.errors import KernelTimeout
k = cpp.cuda_kernel('__global__ void k(int *x) { while (blockIdx.x == 0 && atomicAdd(x, 0) == 0) {} }',
                    checks=False)
x, processor = torch.zeros(1, dtype=torch.int32), {min(os.sched_getaffinity(0))}
busy = subprocess.Popen([sys.executable, '-c', 'while True: pass'])
try:
    for process in busy.pid, 0: os.sched_setaffinity(process, processor)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    begin = time.monotonic()
    with cpp.options(seconds=.2, threads=2): k[2, 1](x)
except KernelTimeout: print(time.monotonic() - begin < 60)
finally: busy.kill()
'''


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, 'SCHED_IDLE'), reason='this system has no policy for threads of least priority')
def test_the_time_limit_holds_on_a_busy_processor():
    done = run_python('-c', ON_BUSY_PROCESSOR)
    assert (done.stdout, done.returncode) == ('True\n', 0), done
