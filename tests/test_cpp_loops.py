"""Kernels that run as loops over the threads of a block, without checks: which ones do, and that their results are
those of one fiber per thread, in each order."""
import re

import pytest, torch

from gridstride import cpp
from gridstride.cpp import cuda_kernel
from gridstride.cpp.lint.callers import mark_host_functions
from gridstride.cpp.rewriters.block_loops import loop_blocks
from gridstride.cpp.rewriters.rewrite import to_cpp
from gridstride.diagnostics.errors import MemcheckError

SPLIT = r'''
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define SQUARED(x) ((x)*(x))
#define WIDTH (4*2)
__device__ float halved(float x) { return x/2; }
__global__ void returns(const float *x, float *out, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int j = 0; j < 3; j++) {
        if (i+j >= n) break;
        sum += halved(x[i+j]);
    }
    out[i] = sum;
}
// o and v live across barriers
__global__ void tile(const float *x, float *out, int n) {
    const float *row = x + blockIdx.x*32;
    __shared__ float s[4][8];
    extern __shared__ float more[];
    const int tc = threadIdx.x, tr = threadIdx.y, rank = tr*8 + tc;
    float o = 0, v, *to = out + blockIdx.x*32;
    for (int ph = 0; ph < (n+31)/32; ph++) {
        s[tr][tc] = ph*32 + rank < n ? x[ph*32 + rank] : 0;
        v = row[rank];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 8; i++) o += s[tr][i]*s[i%4][tc];
        more[31 - rank] = v;
        __syncthreads();
        o += more[rank] - v;
        __syncthreads();
    }
    to[rank] = o;
}
__global__ void halving(const float *x, float *out, int n) {
    cg::thread_block block = cg::this_thread_block();
    __shared__ float s[32];
    const unsigned t = threadIdx.y*blockDim.x + threadIdx.x, i = blockIdx.x*32 + t;
    s[t] = i < n ? x[i] : 0.f;
    __syncthreads();
    for (unsigned stride = 16; stride > 0; stride >>= 1) {
        if (t < stride) s[t] = fmaxf(s[t], s[t + stride]);
        cg::sync(block);
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
// x and n differ between threads
__global__ void counts(const float *x, float *out, int n) {
    __shared__ int s[4];
    n -= threadIdx.x%2;
    x += SQUARED(blockIdx.x);
    if (threadIdx.x < WIDTH/2) s[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x < n && x[threadIdx.x] > 0) atomicAdd(&s[threadIdx.x%4], 1);
    __syncthreads();
    if (threadIdx.x < 4) out[blockIdx.x*4 + threadIdx.x] = s[threadIdx.x];
}
// the last thread of the order wins
__global__ void racy(const float *x, float *out, int n) { out[0] = threadIdx.y*8 + threadIdx.x; }
'''

WHOLE = {
    'a group of the grid': 'auto g = cg::this_grid(); g.sync(); out[0] = 1;',
    'a result of an atomic': 'while (atomicAdd(out, 0.f) == 0) {}',
    'a parameter decides': 'n += threadIdx.x; for (int i = 0; i < n; i++) { out[i] = 1; __syncthreads(); }',
    'returns before a barrier': 'if (threadIdx.x) return; __syncthreads(); out[0] = 1;',
    'votes': 'out[0] = __any_sync(~0u, n);',
    'prints': 'printf("%d", n);',
    'barrier in a branch': 'if (n) { __syncthreads(); } out[threadIdx.x] = 1;',
    'barrier in a macro': 'out[threadIdx.x] = 1; SYNC; out[0] = 2;',
    'barrier in a function': 'waits(); out[threadIdx.x] = 1;',
    'index in a function': 'out[me()] = 1;',
    'iterations that differ': 'for (int i = 0; i < threadIdx.x; i++) { out[i] = 1; __syncthreads(); }',
    'iterations that memory decides': 'for (int i = 0; i < out[0]; i++) { out[i+1] = 1; __syncthreads(); }',
    'leaves the loop': 'for (int i = 0; i < n; i++) { out[i] = 1; __syncthreads(); if (out[0]) break; }',
    'changes the counter': 'for (int i = 0; i < n; i++) { out[i] = 1; __syncthreads(); i++; }',
    'pointer to a function': 'void (*f)() = waits; (f)(); out[0] = 1;',
    'return before a shared variable': 'if (threadIdx.x) return; __shared__ int s; s = n; out[0] = s;',
    'lambda': 'auto f = [&] { __syncwarp(); }; f();',
    'struct across a barrier': 'Pair p = {1, 2}; __syncthreads(); out[0] = p.a;',
    'polls': 'volatile float *flag = out; while (!flag[0]); ',
    'divided by the preprocessor': 'out[0] = 1;\n#ifdef A\n__syncthreads();\n#endif\nout[1] = 2;',
}
SURROUNDINGS = '''
#define SYNC __syncthreads()
struct Pair { int a, b; };
__device__ void waits() { __syncthreads(); }
__device__ int me() { return threadIdx.x; }
'''


def line_of(text, statement): return next(n for n, line in enumerate(text.splitlines()) if statement in line)


def looped(src): return loop_blocks(mark_host_functions(to_cpp(src)))


def test_kernels_become_loops_line_by_line():
    text = looped(SPLIT)
    assert text.count('GRIDSTRIDE_BLOCK') == len(re.findall('__global__', SPLIT))
    for statement in ('o += more', 'out[i] = sum', 't < stride'):
        assert line_of(text, statement) == line_of(SPLIT, statement)


@pytest.mark.parametrize('what', WHOLE)
def test_kernels_that_remain_whole(what):
    text = looped(f'{SURROUNDINGS}__global__ void k(float *out, int n) {{ {WHOLE[what]} }}')
    assert 'GRIDSTRIDE_BLOCK' not in text


@pytest.fixture(scope='module')
def kernels(): return [cuda_kernel(SPLIT, checks=checks) for checks in (True, False)]


BLOCKS = {'returns': 32, 'tile': (8, 4), 'halving': (8, 4), 'counts': 32}


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
def test_loops_have_the_results_of_fibers(kernels, order):
    n, x = 77, torch.randn(96)
    results = []
    for module in kernels:
        outs = [torch.full((96,), float('nan')) for _ in BLOCKS]
        with cpp.options(order=order, seed=3):
            for (name, block), out in zip(BLOCKS.items(), outs):
                module[name][3, block, None, 128](x, out, n)
        results.append(outs)
    for got, want in zip(results[1], results[0]): torch.testing.assert_close(got, want, equal_nan=True)
    assert all(out[:3].isfinite().all() for out in results[0])


@pytest.mark.parametrize('order, last', [('forward', 31), ('reverse', 0)])
def test_the_order_of_threads_is_kept(kernels, order, last):
    out = torch.zeros(1)
    with cpp.options(order=order): kernels[1]['racy'][1, (8, 4)](out, out, 1)
    assert out[0] == last


def test_the_thread_of_a_fault_is_found():
    src = '''__global__ void faults(float *x, float *far) {
        x[threadIdx.x] += 1;
        if (blockIdx.x == 1 && threadIdx.x == 5) far = nullptr;
        far[threadIdx.x] = 1;
    }'''
    assert 'GRIDSTRIDE_BLOCK' in looped(src)
    x = torch.zeros(8)
    for order in ('forward', 'reverse'):
        with cpp.options(order=order), pytest.raises(MemcheckError) as e:
            cuda_kernel(src, checks=False)[2, 8](x, torch.zeros(8))
        assert (e.value.block, e.value.thread) == ((1, 0, 0), (5, 0, 0))
