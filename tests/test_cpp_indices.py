"Indices of a thread and shapes of shared arrays are constants in a checked build: g++ adds no hooks for them."
import subprocess

import pytest, torch

from gridstride import load_cuda
from gridstride.cpp import cuda_kernel
from gridstride.cpp.toolchain.build import emulate
from gridstride.cpp.toolchain.compilers import compiler

SHORTS = r'''
__global__ void shorts(const short *x, short *out) {
    __shared__ short s[2][8];
    s[threadIdx.y][threadIdx.x] = x[(blockIdx.x * 2 + threadIdx.y) * 8 + threadIdx.x];
    __syncthreads();
    out[(blockIdx.x * 2 + threadIdx.y) * 8 + threadIdx.x] = s[1 - threadIdx.y][7 - threadIdx.x];
}
'''
ELEMENTS = r'''
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/generate.h>
#include <thrust/transform.h>
#include <thrust/tabulate.h>
struct Index {
    __device__ int operator()() const { return 1000 * blockIdx.x + threadIdx.x; }
    __device__ int operator()(int x) const { return x + (*this)(); }
};
int count_wrong(int n) {
    thrust::device_vector<int> made(n), added(n), counted(n);
    thrust::generate(made.begin(), made.end(), Index());
    thrust::transform(made.begin(), made.end(), added.begin(), Index());
    thrust::tabulate(counted.begin(), counted.end(), Index());
    thrust::host_vector<int> m = made, a = added, c = counted;
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        const int index = i / 256 * 1000 + i % 256;
        wrong += (m[i] != index) + (a[i] != 2 * index) + (c[i] != i + index);
    }
    return wrong;
}
'''

@pytest.mark.slow
def test_functions_of_thrust_see_the_indices_of_their_element():
    count_wrong = load_cuda(ELEMENTS).count_wrong
    assert [count_wrong(n) for n in (1, 255, 256, 257, 775)] == [0]*5

def test_only_accesses_to_memory_are_hooked():
    if compiler().kind != 'gcc': pytest.skip('only g++ leaves reads of constants without a hook')
    library = next(emulate(SHORTS, 'shorts', True).folder.glob('*.so'))
    command = ['nm', '-D', '--undefined-only', library]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {'__tsan_read2', '__tsan_write2'} <= {*symbols}
    assert not {'__tsan_read4', '__tsan_read8', '__tsan_write8'} & {*symbols}   # an index, a field of a shape

def test_shorts_are_reversed():
    x = torch.randint(-9999, 9999, (3, 2, 8), dtype=torch.int16)
    out = torch.zeros_like(x)
    cuda_kernel(SHORTS)[3, (8, 2)](x, out)
    assert out.equal(x.flip(1, 2))
