"Loops whose reads one call checks: their results, their findings and lines. All kernels are one unit."
import pytest

from found import finding
from gridstride import load_cuda
from gridstride.cpp.rewriters.loop_reads import record_loop_reads

SOURCE = r'''
#include <cuda_runtime.h>
template <class T> __global__ void right_k(const T *a, const T *x, T *y, int n) {
    extern __shared__ char raw[]; T *tile = reinterpret_cast<T *>(raw);
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
    __syncthreads();
    T sum = 0, other = 0;
    for (int k = 0; k < n; ++k) { sum += a[r * n + k] * tile[k]; sum = fma(a[r * n + k], tile[n - 1 - k], sum); }
    for (size_t k = 1; k <= n - 1; k++) other -= a[k * n + threadIdx.x] * tile[k - 1];
    double w[16];
    for (int i = 0; i < 16; i++) w[i] = i;
    for (unsigned i = 0; i < 16; i++) other += w[i] * w[15 - i];
    int last = 0, visited = 0;
    for (last = 0; last < 9; last++) visited += 1;
    y[r] = sum + other + visited;
}
__global__ void tile_k(const float *a, float *b, int n, int which) {
    __shared__ float s[16][16], t[16][16];
    int i = threadIdx.x, j = threadIdx.y;
    float sum = 0;
    for (int step = 0; step < 2; step++) {
        s[j][i] = a[j * 16 + i];
        if (which != 3 || step || i) t[j][i] = s[j][i];
        if (which != 1) __syncthreads();
        for (int k = 0; k < n; k++)
            sum += s[j][k] * t[k][i];                                          // reads tiles
        if (which != 2) __syncthreads();
    }
    b[j * 16 + i] = sum;
}
__global__ void overwrite_k(float *a, float *b, bool writes) {
    float sum = 0;
    for (int k = 0; k < 64; k++) sum += a[k];                                  // reads all
    if (writes) a[threadIdx.x] = sum;                                          // writes one
    b[threadIdx.x] = sum;
}
__global__ void alias_k(float *b) {
    float x[8], sum = 1;
    for (int k = 0; k < 8; k++) x[k] = k;
    float *p = &sum;
    for (int k = 0; k < 8; k++) sum += p[0] * 1 + x[k];
    b[0] = sum;
}
// The cells get the reads of a range only when an access may conflict with them.
__global__ void late_k(const float *a, float *b, int which) {
    __shared__ float s[64], t[64];
    int i = threadIdx.x;
    s[i] = a[i], t[i] = 0;
    __syncthreads();
    float sum = 0;
    if (which != 1 || i < 32)
        for (int k = 0; k < 32; k++) sum += s[k] * a[k];                       // reads early
    if (which == 1 || which == 3) __syncwarp();
    if (which == 1 || which == 3)
        if (i < 32) s[i] = sum;                                                // writes late
    if (which == 2 && i >= 32) s[i] = sum;
    if (which == 4 && i == 0) s[31] = sum;                                     // writes early
    if (which == 5 && i == 63) s[0] = sum;                                     // writes last
    if (which == 6 && i == 40) atomicAdd(&s[5], sum);                          // adds
    t[i] += sum;
    __syncthreads();
    b[i] = t[i];
}
static float *device(int n) { float *p; cudaMalloc(&p, n * 4); return p; }
static double total(float *p, int n) {
    float x[256]; double sum = 0;
    cudaMemcpy(x, p, n * 4, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) sum += x[i];
    return sum;
}
static float *values(int n) {
    static float x[1 << 14];
    for (int i = 0; i < n; i++) x[i] = i * 7 % 13 - 6;
    float *p = device(n);
    cudaMemcpy(p, x, n * 4, cudaMemcpyHostToDevice);
    return p;
}
int right() {
    float *y = device(128);
    right_k<float><<<2, 64, 512>>>(values(1 << 14), values(128), y, 128);
    return int(total(y, 128));
}
int tiles(int n, int which) {
    float *b = device(256);
    tile_k<<<1, dim3(16, 16)>>>(values(256), b, n, which);
    return int(total(b, 256));
}
int late(int which) {
    float *b = device(64);
    late_k<<<1, 64>>>(values(64), b, which);
    return int(total(b, 64));
}
int overwrite(int n, bool initialized) {
    float *a = initialized ? values(n) : device(n), *b = device(64);
    overwrite_k<<<1, 64>>>(a, b, initialized);
    return int(total(b, 1));
}
int alias() {
    float *b = device(1);
    alias_k<<<1, 1>>>(b);
    return int(total(b, 1));
}
'''


def line(text): return next(n for n, each in enumerate(SOURCE.splitlines(), 1) if each.endswith(f'// {text}'))


def host_value(i): return i*7 % 13 - 6


@pytest.fixture(scope='module')
def module(): return load_cuda(SOURCE, funcs=['right', 'tiles', 'late', 'overwrite', 'alias'])


def test_right_programs(module):
    n = 128
    expected = 0
    for r in range(n):
        expected += sum(host_value(r*n + k)*(host_value(k) + host_value(n - 1 - k)) for k in range(n))
        expected -= sum(host_value(k*n + r % 64)*host_value(k - 1) for k in range(1, n))
        expected += sum(i*(15 - i) for i in range(16)) + 9
    assert module.right() == expected
    product = sum(host_value(16*j + k)*host_value(16*k + i) for i in range(16) for j in range(16) for k in range(16))
    assert module.tiles(16, 0) == 2*product
    assert module.alias() == 2**8 + sum(k*2**(7 - k) for k in range(8))


@pytest.mark.parametrize('which', [1, 2])
def test_races_of_tiles(module, which):
    with finding('racecheck race') as e: module.tiles(16, which)
    assert line('reads tiles') in {e.value.line, e.value.other.line}


def test_an_element_of_a_tile_that_no_thread_has_written(module):
    with finding('initcheck unwritten_shared', array='t', line=line('reads tiles')): module.tiles(16, 3)


def test_an_index_past_the_end_of_a_row(module):
    with finding('memcheck', array='s', line=line('reads tiles')): module.tiles(17, 0)


def test_writes_after_reads_of_ranges(module):
    square = sum(host_value(k)**2 for k in range(32))
    assert [module.late(which) for which in range(3)] == [64*square, 32*square, 64*square]


@pytest.mark.parametrize('which, write', [(3, 'writes late'), (4, 'writes early'), (5, 'writes last'), (6, 'adds')])
def test_races_with_reads_of_ranges(module, which, write):
    with finding('racecheck', array='s') as e: module.late(which)
    assert {e.value.line, e.value.other.line} == {line('reads early'), line(write)}


def test_global_memory(module):
    with finding('racecheck race', array='a') as e: module.overwrite(64, True)
    assert {e.value.line, e.value.other.line} == {line('reads all'), line('writes one')}
    with finding('memcheck outside', array='a', line=line('reads all')): module.overwrite(63, True)
    with finding('initcheck unwritten', array='a', line=line('reads all')): module.overwrite(64, False)


@pytest.mark.parametrize('loop', [
    'for (int k = 0; k < n; k++) sum += a[k]*b[k];', 'for (int k = 1; k <= n; ++k) { sum = fmaf(a[2*k], x, sum); }'])
def test_loops_that_are_rewritten(loop):
    assert 'record_reads' in record_loop_reads(kernel_with(loop))


@pytest.mark.parametrize('loop', [
    'for (int k = 0; k < n; k++) sum += a[k*k];', 'for (int k = 0; k < n; k++) sum += a[index[k]];',
    'for (int k = 0; k < n; k++) sum += k < x ? a[k] : 0;', 'for (int k = 0; k < n; k++) sum += f(a[k]);',
    'for (int k = 0; k < n; k++) b[k] += a[k];', 'for (int k = 0; k < n; k++) sum += a[k] + x++;',
    'for (int k = 0; k < n; k += 2) sum += a[k];', 'for (int k = 0; k < sum; k++) sum += a[k];',
    'for (int k = 0; k < n; k++) sum += a[k + UNKNOWN];', 'for (int k = 0; k < n; k++) total += a[k];',
    'for (int k = 1; k < 8; k++) sum += a[k];',
    'for (int k = 0; k < n; k++) sum += a[k] * *b;', 'for (int k = 0; k < n; k++) sum += global[k];'])
def test_loops_that_remain(loop):
    text = kernel_with(loop)
    assert record_loop_reads(text) == text


def test_a_function_that_the_compiler_evaluates_remains():
    text = kernel_with('for (int k = 0; k < n; k++) sum += a[k];').replace('void', 'constexpr void')
    assert record_loop_reads(text) == text


def test_lines_are_those_of_the_directives_before_the_loop():
    text = '#line 40 "a.cu"\n' + kernel_with('for (int k = 0; k < n; k++) sum += a[k]*b[k];')
    assert '#line 40\n' in record_loop_reads(text)


def kernel_with(loop):
    return f'__global__ void k(const float *a, float *b, const int *index, int n) {{ float sum = 0, x = 1; {loop} }}'
