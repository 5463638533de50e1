"""Structs that functions return, and kernels store at once: the detectors see each byte of them, and say which line.

The kernels of a source are compiled at once."""
from functools import cache

import pytest
import torch

from gridstride import cpp
from gridstride.cpp import cuda_kernel
from gridstride.diagnostics.errors import InitcheckError, MemcheckError, RacecheckError, SameValueRace

SRC = r'''
struct Pair { float a, b; };
template<class T> struct Six { T v[6]; };
__device__ Pair operator+(Pair p, Pair q) { return {p.a + q.a, p.b + q.b}; }
__device__ Pair pair(float x) { return {x, 2*x}; }
__device__ __noinline__ Six<float> six(float x) {
    Six<float> s;
    for (int i = 0; i < 6; i++) s.v[i] = x*i;
    return s;
}
extern "C" {
__global__ void right(const float *x, Pair *pairs, Six<float> *sixes) {
    __shared__ Pair p[32];
    __shared__ Six<float> s[32];
    int i = threadIdx.x;
    p[i] = pair(x[i]);
    s[i] = six(x[i]);
    __syncthreads();
    pairs[i] = p[31 - i];
    pairs[i] = pairs[i] + pair(1);
    sixes[i] = six(s[31 - i].v[1]);
}
__global__ void races(const float *x, Pair *pairs, Six<float> *sixes) {
    __shared__ Pair p[32];
    int i = threadIdx.x;
    p[i] = pair(x[i]);
    pairs[i] = p[31 - i];
}
__global__ void sums_race(const float *x, Pair *pairs, Six<float> *sixes) {
    int i = threadIdx.x;
    pairs[0] = pair(x[i]) + pair(i);
}
__global__ void unwritten(const float *x, Pair *pairs, Six<float> *sixes) {
    __shared__ Six<float> s[32];
    if (threadIdx.x != 7) s[threadIdx.x] = six(1);
    sixes[threadIdx.x] = s[threadIdx.x];
}
__global__ void outside(const float *x, Pair *pairs, Six<float> *sixes) {
    pairs[threadIdx.x + 1] = pair(1);
}
__global__ void sixes_outside(const float *x, Pair *pairs, Six<float> *sixes) {
    sixes[threadIdx.x + 1] = six(1);
}
}
'''


@cache
def kernels(src): return cuda_kernel(src)


def run(name):
    x = torch.arange(32.)
    pairs,sixes = (torch.full((32, n), torch.nan) for n in (2, 6))
    kernels(SRC)[name][1, 32](x, pairs, sixes)
    return x, pairs, sixes


def test_a_right_kernel_is_silent():
    x,pairs,sixes = run('right')
    assert torch.equal(pairs, (x.flip(0)[:, None] + 1)*torch.tensor([1., 2]))
    assert torch.equal(sixes, x.flip(0)[:, None]*torch.arange(6.))


@pytest.mark.parametrize('name,error,where,says', [
    ('races', RacecheckError, ('= p[31', 'p[i] = pair(x'), r'p\['),
    ('sums_race', RacecheckError, ('pairs[0] =',), r'pairs\[0'),
    ('unwritten', InitcheckError, ('= s[threadIdx.x]',), r's\[7'),
    ('outside', MemcheckError, ('pairs[threadIdx.x + 1]',), 'pairs'),
    ('sixes_outside', MemcheckError, ('sixes[threadIdx.x + 1]',), 'sixes')])
def test_a_wrong_one_is_found(name, error, where, says):
    with pytest.raises(error, match=says) as e: run(name)
    i = SRC.index(f'void {name}(')
    lines = {SRC[:SRC.index(w, i)].count('\n') + 1 for w in where}
    assert e.value.line in lines and all(f'line {n}' in str(e.value) for n in lines)


# Structs and vectors that are copied from memory to memory: the compiler calls the hook of the write first

COPIED = {'f2': 'float2', 'f3': 'float3', 'f4': 'float4', 'u3': 'uchar3', 'd2': 'double2', 's2': 'short2',
          **{f'bytes{n}': f'Bytes<{n}>' for n in (5, 7, 12, 20, 37, 40, 10000)}}
COPIES = 'template<int n> struct Bytes { unsigned char at[n]; };\n' + ''.join(f'''
__global__ void {name}(unsigned char *to, const unsigned char *from) {{
    {T} *out = ({T} *)to; const {T} *in = (const {T} *)from;
    out[0] = in[threadIdx.x + blockIdx.x];
}}
__global__ void {name}_shared(unsigned char *to, const unsigned char *from) {{
    __shared__ {T} s;
    s = ((const {T} *)from)[threadIdx.x + blockIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) (({T} *)to)[blockIdx.x] = s;
}}
''' for name, T in COPIED.items()) + '''
__global__ void cast(unsigned char *to, const unsigned char *from) {
    *(float4 *)to = *(const float4 *)(from + 16*(threadIdx.x + blockIdx.x));
}
__global__ void in_a_loop(unsigned char *to, const unsigned char *from) {
    for (int i = 0; i < 3; i++) ((float4 *)to)[i] = ((const float4 *)from)[i + threadIdx.x + blockIdx.x];
}
__global__ void builtin(unsigned char *to, const unsigned char *from) {
    __builtin_memcpy(to, from + 12*(threadIdx.x + blockIdx.x), 12);
}
__global__ void read_after(unsigned char *to, const unsigned char *from) {
    to[0] = from[threadIdx.x + blockIdx.x];
    if (from[5] == 255) to[1] = 1;
}
'''
COPYING = [*COPIED, *(f'{o}_shared' for o in COPIED), 'cast', 'in_a_loop', 'builtin', 'read_after']


def line_of(name):
    "The line of the kernel that writes"
    start = COPIES[:COPIES.index(f'void {name}(')].count('\n') + 1
    return start + (2 if name in COPIED or 'shared' in name else 1)


def copies(name, launch, values):
    to = torch.zeros(40000, dtype=torch.uint8)
    kernels(COPIES)[name][launch](to, values)
    return to


@pytest.mark.parametrize('name', COPYING)
def test_different_structs_in_one_element_are_a_race(name):
    values = torch.arange(40000).remainder(251).to(torch.uint8)
    for launch in ((1, 2), (2, 1)):
        if launch == (2, 1) and 'shared' in name: continue  # each block has its own
        for order in ('forward', 'reverse'):
            with cpp.options(order=order), pytest.raises(RacecheckError) as e: copies(name, launch, values)
            assert e.value.code == ('race' if launch == (1, 2) else 'race_of_blocks')
            assert e.value.line == e.value.other.line == line_of(name)


@pytest.mark.parametrize('name', COPYING)
def test_equal_structs_in_one_element_are_a_warning(name):
    values = torch.full((40000,), 3, dtype=torch.uint8)
    with pytest.warns(SameValueRace): to = copies(name, (1, 2), values)
    assert to[0] == 3
