"""The compact form in which racecheck records coalesced accesses of global memory: accesses that fit into it, and
accesses that end it. All kernels are one unit."""
import re
import sys

import pytest

from found import finding
from gridstride import load_cuda

SOURCE = r'''
#include <cuda_runtime.h>
__global__ void fill(int *a, int step) { a[threadIdx.x * step] = threadIdx.x; }
__global__ void add(const int *a, int *b) { int i = blockIdx.x * blockDim.x + threadIdx.x; b[i] = a[i] + a[i] + b[i]; }
__global__ void transpose(const int *a, int *b) {
    b[threadIdx.x * 16 + threadIdx.y] = a[threadIdx.y * 16 + threadIdx.x];
}
__global__ void wide(int4 *a) { a[threadIdx.x] = make_int4(threadIdx.x, 1, 2, 3); }
__global__ void sum(const int *a, int *b, int n) { if (!threadIdx.x) for (int i = 0; i < n; i++) b[0] += a[i]; }
__global__ void read_one(const int *a, int *b, int i) { b[0] = a[i]; }
__global__ void next(int *a, int *b) {
    a[threadIdx.x] = threadIdx.x;                                              // writes next
    b[threadIdx.x] = a[(threadIdx.x + 1) % 64];                                // reads next
}
__global__ void next_of_stride(int *a, int *b) {
    a[threadIdx.x % 8 * 8 + threadIdx.x / 8] = threadIdx.x;                    // writes next_of_stride
    b[threadIdx.x] = a[threadIdx.x];                                           // reads next_of_stride
}
__global__ void part_of_wide(int4 *a, int *b) {
    a[threadIdx.x] = make_int4(0, 1, 2, 3);                                    // writes part_of_wide
    b[threadIdx.x] = reinterpret_cast<const int *>(a)[threadIdx.x * 4 ^ 5];    // reads part_of_wide
}
__global__ void overwritten(int *a, int *b) {
    b[threadIdx.x] = a[threadIdx.x];                                           // reads overwritten
    a[63 - threadIdx.x] = 1;                                                   // writes overwritten
}
static int *device(int n) { int *p; cudaMalloc(&p, n * 4); return p; }
static int *zeros(int n) { int *p = device(n); cudaMemset(p, 0, n * 4); return p; }
static int first(int *p) { int x; cudaMemcpy(&x, p, 4, cudaMemcpyDeviceToHost); return x; }

int right(int last) {
    int *a = zeros(256), *b = zeros(256), *s = zeros(1);
    wide<<<1, 64>>>((int4 *)a);
    transpose<<<1, dim3(16, 16)>>>(a, b);
    for (int i = 0; i < 3; i++) add<<<4, 64>>>(b, a);
    fill<<<1, 32>>>(a, 2), fill<<<1, 16>>>(a, 3);
    if (last) read_one<<<1, 1>>>(a, s, 45);
    else sum<<<1, 32>>>(a, s, 256);
    return first(s);
}
int race(int which) {
    int *a = zeros(256), *b = zeros(256);
    if (which == 0) next<<<1, 64>>>(a, b);
    if (which == 1) next_of_stride<<<1, 64>>>(a, b);
    if (which == 2) part_of_wide<<<1, 64>>>((int4 *)a, b);
    if (which == 3) overwritten<<<1, 64>>>(a, b);
    return first(b);
}
int unwritten(int i) {
    int *a = device(64), *b = zeros(1);
    fill<<<1, 32>>>(a, 2), fill<<<1, 16>>>(a, 1);
    read_one<<<1, 1>>>(a, b, i);
    return first(b);
}
int past_the_end(int n) {
    int *a = device(20);
    fill<<<1, n>>>(a, 1);
    return first(a);
}
// `reader` or a copy reads an element that the first of two kernels of another stream has written
int streams(int i, bool copies, bool waits) {
    int *a = zeros(64), *b = zeros(64);
    cudaStream_t one, two;
    cudaStreamCreate(&one), cudaStreamCreate(&two);
    cudaDeviceSynchronize();
    fill<<<1, 64, 0, one>>>(a, 1), fill<<<1, 16, 0, one>>>(a, 2);
    if (waits) cudaStreamSynchronize(one);
    if (copies) cudaMemcpyAsync(b, a + i, 4, cudaMemcpyDeviceToDevice, two);
    else read_one<<<1, 1, 0, two>>>(a, b, i);
    cudaDeviceSynchronize();
    return first(b);
}
int large(int n) {
    int *a = zeros(n), *b = zeros(n);
    for (int i = 0; i < 2; i++) add<<<n / 256, 256>>>(a, b);
    int x = first(b);
    cudaFree(a), cudaFree(b);
    return x;
}
'''


def line(text): return next(n for n, each in enumerate(SOURCE.splitlines(), 1) if each.endswith(f'// {text}'))


@pytest.fixture(scope='module')
def module(): return load_cuda(SOURCE, funcs=['right', 'race', 'unwritten', 'past_the_end', 'streams', 'large'])


def test_right_programs(module):
    host = [0]*256
    for t in range(64): host[4*t:4*t + 4] = [t, 1, 2, 3]
    transposed = [host[i % 16*16 + i//16] for i in range(256)]
    for _ in range(3): host = [x + 2*y for x, y in zip(host, transposed)]
    host[:64:2], host[:48:3] = range(32), range(16)
    assert module.right(1) == host[45]
    assert module.right(0) == sum(host)


@pytest.mark.parametrize('which,kernel', [*enumerate(['next', 'next_of_stride', 'part_of_wide', 'overwritten'])])
def test_races(module, which, kernel):
    with finding('racecheck race', array='a') as e: module.race(which)
    assert e.value.line in {line(f'writes {kernel}'), line(f'reads {kernel}')}


def test_unwritten(module):
    assert module.unwritten(15) == 15
    assert module.unwritten(62) == 31
    with finding('initcheck unwritten', array='a'): module.unwritten(61)


def test_past_the_end(module):
    assert module.past_the_end(20) == 0
    with finding('memcheck outside', array='a'): module.past_the_end(21)


@pytest.mark.parametrize('i', [30, 31, 63])
@pytest.mark.parametrize('copies', [False, True])
def test_streams(module, i, copies):
    assert module.streams(i, copies, True) == (i//2 if i == 30 else i)
    with finding('racecheck unordered_operations'): module.streams(i, copies, False)


@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
def test_coalesced_accesses_take_little_memory(module):
    def peak(): return int(re.search(r'VmHWM:\s+(\d+)', open('/proc/self/status').read())[1]) << 10
    module.large(1 << 10)
    before, n = peak(), 1 << 22
    assert module.large(n) == 0
    assert peak() - before < 6*2*4*n, 'the shadow memory of two arrays of n ints'
