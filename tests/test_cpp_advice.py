"""What the advice on a finding in CUDA C is made of: the calls of both accesses of a race, the guard or the index that
is wrong. All in one translation unit; what is held is the code of the advice and its fields, not its wording."""
import platform
from functools import lru_cache

import numpy as np, pytest, torch

from gridstride import cpp
from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.diagnostics.errors import KernelCrash, MemcheckError, RacecheckError

SRC = r'''
__device__ float all_of(float v, float *buf) {
    buf[threadIdx.x] = v; /* put */
    __syncthreads();
    float s = 0;
    for (int i = 0; i < blockDim.x; i++) s += buf[i]; /* get */
    return s;
}
template <int n> __device__ float all_of_warps(float v) {
    __shared__ float parts[n];
    if (threadIdx.x % 32 == 0) parts[threadIdx.x/32] = v; /* put a part */
    __syncthreads();
    return parts[threadIdx.x % n]; /* get a part */
}
__device__ float both(float v, float *buf) { return all_of(v, buf) + 1; /* in both */ }
__device__ void keep(float v, float *buf) { buf[threadIdx.x] = v; /* keep */ }
__device__ float kept(float *buf) { return buf[blockDim.x - 1 - threadIdx.x]; /* kept */ }
__device__ float closed(float v, float *buf) { float s = all_of(v, buf); __syncthreads(); return s; }

__global__ void twice(const float *x, float *out) {
    extern __shared__ float buf[];
    float v = x[threadIdx.x];
    for (int k = 0; k < 2; k++) v += k;
    float a = all_of(v, buf); /* first */
    float b = all_of(v*v, buf); /* second */
    out[threadIdx.x] = a + b;
}
__global__ void deep(const float *x, float *out) {
    extern __shared__ float buf[];
    float a = both(x[threadIdx.x], buf); /* deep first */
    float b = both(x[threadIdx.x] + 1, buf); /* deep second */
    out[threadIdx.x] = a + b;
}
__global__ void looped(const float *x, float *out) {
    extern __shared__ float buf[];
    float total = 0;
    for (int i = 0; i < 4; i++) {
        total += all_of_warps<4>(x[threadIdx.x] + i); /* looped */
    }
    out[threadIdx.x] = total;
}
__global__ void apart(const float *x, float *out) {
    extern __shared__ float buf[];
    keep(x[threadIdx.x], buf); /* apart first */
    out[threadIdx.x] = kept(buf); /* apart second */
}
struct Sum {
    float *buf;
    __device__ float of(float v) { buf[threadIdx.x] = v; __syncthreads(); /* method */
        return buf[blockDim.x - 1 - threadIdx.x]; /* its end */ }
    __device__ float operator()(float v) const { buf[threadIdx.x] = v; __syncthreads(); return buf[127 - threadIdx.x]; }
};
__global__ void method(const float *x, float *out) {
    extern __shared__ float buf[];
    Sum sum{buf};
    float a = sum.of(x[threadIdx.x]); /* method first */
    out[threadIdx.x] = sum.of(a); /* method second */
}
__global__ void by_lambda(const float *x, float *out) {
    extern __shared__ float buf[];
    auto sum = [&](float v) {
        buf[threadIdx.x] = v;
        __syncthreads();
        return buf[blockDim.x - 1 - threadIdx.x];
    };
    float a = sum(x[threadIdx.x]); /* lambda first */
    out[threadIdx.x] = sum(a); /* lambda second */
}
__device__ __noinline__ float not_inlined(float v, float *buf) {
    buf[threadIdx.x] = v; /* not inlined */
    __syncthreads();
    return buf[blockDim.x - 1 - threadIdx.x];
}
__global__ void by_function(const float *x, float *out) {
    extern __shared__ float buf[];
    float a = not_inlined(x[threadIdx.x], buf);
    out[threadIdx.x] = not_inlined(a, buf);
}
__global__ void right_twice(const float *x, float *out) {
    extern __shared__ float buf[];
    float a = closed(x[threadIdx.x], buf), b = closed(a + x[threadIdx.x], buf);
    keep(a, buf);
    __syncthreads();
    out[threadIdx.x] = kept(buf) + b;
}
__global__ void iterations(const float *x, float *out) {
    __shared__ float buf[128];
    float total = 0;
    for (int i = 0; i < 4; i++) {
        buf[threadIdx.x] = x[threadIdx.x] + i; /* again */
        __syncthreads();
        total += buf[127 - threadIdx.x]; /* before */
    }
    out[threadIdx.x] = total;
}
__global__ void after_a_loop(const float *x, float *out) {
    __shared__ float buf[128];
    for (int i = 0; i < 4; i++) { out[threadIdx.x] = i; }
    for (int i = 0; i < 4; i++) out[threadIdx.x] += i;
    buf[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    buf[threadIdx.x] = buf[127 - threadIdx.x]; /* one line */
}

#define HERE int row = blockIdx.y*blockDim.y + threadIdx.y, col = blockIdx.x*blockDim.x + threadIdx.x
__global__ void and_for_or(const float *x, float *out, int w, int h) {
    int row = blockIdx.y*blockDim.y + threadIdx.y, col = blockIdx.x*blockDim.x + threadIdx.x;
    if (row >= h && col >= w) return;
    out[row*w + col] = x[row*w + col];
}
__global__ void or_for_and(const float *x, float *out, int w, int h) {
    int row = blockIdx.y*blockDim.y + threadIdx.y, col = blockIdx.x*blockDim.x + threadIdx.x;
    if (row < h || col < w) {
        out[row*w + col] = x[row*w + col];
    }
}
__global__ void swapped(const float *x, float *out, int w, int h) {
    int i = blockIdx.x*blockDim.x + threadIdx.x, j = blockIdx.y*blockDim.y + threadIdx.y;
    if (i < w && j < h) out[i*w + j] = x[i*w + j];
}
__global__ void wrong_stride(const float *x, float *out, int w, int h) {
    int i = blockIdx.y*blockDim.y + threadIdx.y, j = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < w && j < h) out[i*w + j] = x[i*w + j];
}
__global__ void moved_by(const float *x, float *out, int w, int h) {
    int i = blockIdx.x*blockDim.x + threadIdx.x + w*h*blockIdx.y;
    x += 4;
    if (i < w*h) out[i] = x[i];
}
__global__ void moved_to_a_row(const float *x, float *out, int w, int h) {
    int row = blockIdx.x*blockDim.x + threadIdx.x;
    if (row > h) return;
    x += w*row;
    float s = 0;
    for (int c = 0; c < w; ++c) s += x[c];
    out[row] = s;
}
__global__ void moved_too_far(const float *x, float *out, int w, int h) {
    int row = blockIdx.x*blockDim.x + threadIdx.x;
    if (row >= h) return;
    for (int c = 0; c < w; ++c) {
        out[row] += x[row];
        x += h + 1;
    }
}
__global__ void right_guards(const float *x, float *out, int w, int h) {
    int row = blockIdx.y*blockDim.y + threadIdx.y, col = blockIdx.x*blockDim.x + threadIdx.x;
    if (row >= h || col >= w) return;
    x += w*row;
    out[row*w + col] = x[col];
}
'''
SRC += r'''
__global__ void pick(const float *x, float *out, int w) {
    int i = threadIdx.x*w;
    out[threadIdx.x] = x[i*w];
}
__global__ void pick_by_variable(const float *x, float *out, int w) {
    int i = threadIdx.x*w*w;
    out[threadIdx.x] = x[i];
}
template <class T> __global__ void divide(const T *x, T *out, T by, bool rest) {
    out[threadIdx.x] = rest ? x[threadIdx.x] % by : x[threadIdx.x] / by;
}
template <class T> __global__ void divide_by_each(const T *x, T *out, T *by) {
    out[threadIdx.x] = x[threadIdx.x] / by[threadIdx.x + 0];
}
'''
LINES = SRC.split('\n')


def at(text):
    "The line that ends with a comment"
    return next(n for n, line in enumerate(LINES, 1) if f'/* {text} */' in line)


@lru_cache
def kernels():
    names = 'twice deep looped apart method by_lambda by_function right_twice iterations after_a_loop and_for_or '
    names += 'or_for_and swapped wrong_stride moved_by moved_to_a_row moved_too_far right_guards pick pick_by_variable '
    names += 'divide<int> divide<long> divide_by_each<int> divide_by_each<long>'
    with cpp.on_emulator(): return cuda_kernel(SRC, names.split())


def race(name, order='forward', threads=128):
    with cpp.options(order=order), pytest.raises(RacecheckError) as e:
        kernels()[name][1, threads, 0, 4*threads](torch.rand(threads), torch.zeros(threads))
    return e.value


def calls(o): return [(c.function, c.line) for c in o.calls]


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
def test_both_accesses_of_a_race_name_the_calls_that_led_there(order):
    e = race('twice', order)
    assert calls(e) == [('all_of', at('put')), ('twice', at('second'))]
    assert calls(e.other) == [('all_of', at('get')), ('twice', at('first'))]
    assert (e.call_line, e.fields['before'], e.fields['now']) == (at('second'), 'read', 'written')
    assert e.advice == 'called_twice'
    assert e.advice_fields == dict(function='all_of', earlier=at('first'), now=at('second'))
    assert e.other.calls[1].source == LINES[at('first') - 1].strip() and f'line {at("first")}: ' in str(e)


@pytest.mark.parametrize('name,inner,advice,fields', [
    ('deep', ['all_of', 'both', 'deep'], 'called_twice',
     dict(function='all_of', earlier='deep first', now='deep second')),
    ('looped', ['all_of_warps', 'looped'], 'called_in_loop', dict(function='all_of_warps', line='looped')),
    ('apart', None, 'calls_apart', dict(earlier='apart first', now='apart second')),
    ('method', ['of', 'method'], 'called_twice', dict(function='of', earlier='method first', now='method second')),
    ('by_lambda', ['lambda', 'by_lambda'], 'called_twice',
     dict(function='lambda', earlier='lambda first', now='lambda second')),
    ('by_function', None, 'called_again', dict(function='not_inlined')),
    ('iterations', ['iterations'], 'next_iteration', dict(line='again', earlier='before')),
    ('after_a_loop', ['after_a_loop'], 'in_line', dict(line='one line'))])
def test_the_advice_on_a_race_fits_the_calls_and_the_loops(name, inner, advice, fields):
    e = race(name)
    assert (e.advice, e.advice_fields) == (advice, {k: v if k == 'function' else at(v) for k, v in fields.items()})
    if inner: assert [o.function for o in e.calls] == [o.function for o in e.other.calls] == inner


def test_a_function_that_ends_with_a_barrier_may_be_called_twice():
    x, out = torch.arange(128.), torch.zeros(128)
    kernels()['right_twice'][1, 128, 0, 512](x, out)
    a = x.sum(); b = (a + x).sum()
    assert torch.equal(out, (a + b).expand(128))


W, H = 40, 20


@pytest.mark.parametrize('name,advice,fields', [
    ('and_for_or', 'wrong_connective', dict(guard='row >= h && col >= w', connective='&&', corrected='||')),
    ('or_for_and', 'wrong_connective', dict(guard='row < h || col < w', connective='||', corrected='&&')),
    ('swapped', 'swapped', dict(expr='i*w + j', corrected='j*w + i')),
    ('wrong_stride', 'stride', dict(guard='i < w', expr='i*w + j')),
    ('moved_by', 'moved_by', dict(move='x += 4', expr='i', new_index=W*H - 4, remaining=W*H - 4)),
    ('moved_to_a_row', 'row_too_many', dict(comparison='row > h', corrected='row >= h', guard='row <= h', bound='h')),
    ('moved_too_far', 'moved', dict(move='x += h + 1', expr='row'))])
def test_the_advice_on_an_index_names_what_is_wrong(name, advice, fields):
    grid = (32, 1) if name.startswith('moved') else (3, 2)
    block = 32 if name.startswith('moved') else (16, 16)
    with pytest.raises(MemcheckError) as e: kernels()[name][grid, block](torch.rand(W*H), torch.zeros(W*H), W, H)
    assert e.value.advice == advice and fields.items() <= e.value.advice_fields.items()


def test_right_guards_are_left_alone():
    x, out = np.random.rand(W*H).astype('f'), np.zeros(W*H, 'f')
    kernels()['right_guards'][(3, 2), (16, 16)](x, out, W, H)
    assert (out == x).all()


LARGE = r'''
__global__ void fill(char *table, int w, int rows) {
    int r = rows - 1 - threadIdx.x;
    table[r*w] = 1;
}
__global__ void fill_right(char *table, int w, int rows) {
    int r = rows - 1 - threadIdx.x;
    table[(size_t)r*w] = 1;
}
static char *table;
void go(bool right, int w, int rows) {
    if (cudaMalloc(&table, (size_t)w*rows) != cudaSuccess) abort();
    if (right) fill_right<<<1, 64>>>(table, w, rows);
    else fill<<<1, 64>>>(table, w, rows);
}
void give_back() { cudaFree(table); }
'''


def test_an_overflowed_index_is_reported_with_its_array():
    "It takes no memory: untouched pages are not allocated"
    w, rows = 100_000, 22_000
    with cpp.on_emulator(), cpp.options(memory='5G'):
        m = load_cuda(LARGE)
        with pytest.raises(MemcheckError) as e: m.go(False, w, rows)
        m.give_back()  # or other tests of this process find no memory
        m.go(True, w, rows)
        m.give_back()
    assert (e.value.code, e.value.array, e.value.index) == ('overflowed', 'table', ((rows - 1)*w - 2**32,))
    assert e.value.thread == (0, 0, 0)


@pytest.mark.parametrize('name', ['pick', 'pick_by_variable'])
def test_an_index_far_out_of_bounds_is_reported_with_its_array(name):
    with pytest.raises(MemcheckError) as e: kernels()[name][1, 2](torch.rand(100), torch.zeros(2), 50_000)
    assert (e.value.code, e.value.array, e.value.index) == ('overflowed', 'x', (50_000**2 - 2**32,))
    with pytest.raises(MemcheckError) as e: kernels()[name][1, 2](torch.rand(100), torch.zeros(2), 40_000)
    assert (e.value.code, e.value.array, e.value.index) == ('outside', 'x', (40_000**2,))


FAR = r'''
__global__ void axpy(float *x, float *y, int w, int h) {
    int i = w*h;
    y[i] = 2*x[i] + y[i];
}
__global__ void rotate(float *x, float *y, int w, int h) {
    int i = w*h;
    x[threadIdx.x] = x[i];
}
__global__ void element(float *x, float *y, int w, int h) {
    int row = h-1, column = threadIdx.x;
    y[column] = x[row*w + column];
}
__global__ void clear(float *x, float *y, int w, int h) {
    for (int i = (h-1)*w; i < h*w; i++) x[i] = y[threadIdx.x];
}
__global__ void clear_rows(float *x, float *y, int w, int h) {
    for (int r = h-1; r < h; r++) for (int c = 0; c < w; c++) x[r*w + c] = 0;
}
__global__ void copy(float *x, float *y, int w, int h) { int i = w*h; y[i] = x[i]; }
__global__ void scale(float *x, float *y, int w, int h) {
    int i = w*h;
    x[i] *= y[threadIdx.x];
}
__global__ void in_steps(float *x, float *y, int w, int h) {
    const int base = w*h;
    const int i = base + threadIdx.x;
    y[threadIdx.x] = x[i];
}
__global__ void by_pointer(float *x, float *y, int w, int h) {
    const float *p = x + w*h;
    y[threadIdx.x] = *p;
}
__global__ void by_address(float *x, float *y, int w, int h) { y[threadIdx.x] = *(x + w*h); }
__global__ void by_load(float *x, float *y, int w, int h) { y[threadIdx.x] = __ldg(x + w*h) + __ldg(&y[0]); }
__device__ float at(const float *a, int row, int column, int w) {
    return a[row*w + column];
}
__global__ void by_function(float *x, float *y, int w, int h) {
    y[threadIdx.x] = at(y, 0, 1, w);
    y[threadIdx.x] = at(x, h-1, 7, w);
}
__global__ void add(float *x, float *y, int w, int h) { atomicAdd(&x[w*h], y[threadIdx.x]); }
__global__ void chosen(float *x, float *y, int w, int h) {
    int i = w*h;
    float v = i < 100 ? x[i] : y[0];
    y[0] = v;
}
__global__ void unsigned_sum(float *x, float *y, unsigned w, unsigned h) {
    unsigned i = w*h;
    y[threadIdx.x] = x[i];
}
__global__ void of_an_array(float x[], float y[], int w, int h) {
    __shared__ float s[32];
    s[threadIdx.x] = x[w*h];
    y[threadIdx.x] = s[threadIdx.x];
}
__global__ void from_memory(const int *x, float *y, int w, int h) { y[threadIdx.x] += y[x[threadIdx.x]*w*h]; }
template <class T> __global__ void any(T *x, T *y, int w, int h) {
    int i = w*h;
    y[threadIdx.x] = x[i];
}
'''
WRAPPED = 50_000**2 - 2**32
INDICES = dict.fromkeys(('rotate', 'copy', 'scale', 'in_steps', 'by_pointer', 'by_address', 'by_load', 'add'), WRAPPED)
INDICES |= dict.fromkeys(('element', 'clear', 'clear_rows'), WRAPPED - 50_000)
INDICES |= dict(by_function=WRAPPED - 50_000 + 7, unsigned_sum=50_000**2, of_an_array=WRAPPED, chosen=WRAPPED)
INDICES |= {f'any<{t}>': WRAPPED for t in ('double', 'char', 'short')}


@lru_cache
def far(): return cuda_kernel(FAR, [*INDICES, 'axpy', 'from_memory'])


@pytest.mark.parametrize('name', INDICES)
def test_an_index_that_overflows_is_reported_with_its_array_wherever_it_is_computed(name):
    "On the line of the access or before it, next to other elements, through pointers and calls"
    dtype = {'any<double>': torch.float64, 'any<char>': torch.int8, 'any<short>': torch.int16}.get(name, torch.float32)
    x, y = (torch.ones(100, dtype=dtype) for _ in range(2))
    with pytest.raises(MemcheckError) as e: far()[name][1, 1](x, y, 50_000, 50_000)
    code = 'outside' if INDICES[name] > 0 else 'overflowed'
    assert (e.value.code, e.value.array, e.value.index) == (code, 'x', (INDICES[name],))
    assert e.value.fields['shape'] == (100,)
    far()[name][1, 1](x, y, 3, 3)


def test_arrays_that_fit_equally_are_all_named():
    x, y = torch.ones(100), torch.ones(50)
    with pytest.raises(MemcheckError) as e: far()['axpy'][1, 1](x, y, 50_000, 50_000)
    candidates = {array: (index, size) for array, index, size in e.value.fields['candidates']}
    assert (e.value.code, e.value.array) == ('overflowed_among', None)
    assert {array: size for array, (_, size) in candidates.items()} == dict(x=100, y=50)
    assert WRAPPED in (candidates['x'][0], candidates['y'][0])
    far()['axpy'][1, 1](x, y, 3, 3)


def test_an_index_from_memory_may_be_of_any_size():
    x, y = torch.full((2,), -1, dtype=torch.int32), torch.ones(100)
    with pytest.raises(MemcheckError) as e: far()['from_memory'][1, 2](x, y, 30_000, 30_000)
    assert (e.value.array, e.value.index) == ('y', (-30_000**2,))
    far()['from_memory'][1, 2](-x, y, 3, 3)


NEAR = r'''
#include <algorithm>
#include <climits>
#include <stdexcept>
const int N = (64 << 20)/4 - 28;   // elements; what comes after an array is not adjacent
struct Rows { float *of; };
__global__ void touch(float *x) { x[0] = 1; }
__global__ void pick(const float *x, float *out, int w, int h) {
    int i = w*h;
    out[threadIdx.x] = x[i];
}
__global__ void stage(const float *x, float *out, int w, int h) {
    __shared__ float part[32];
    part[threadIdx.x] = x[w*h]; /* into shared memory */
    out[threadIdx.x] = part[threadIdx.x];
}
__global__ void by_member(const float *x, float *out, int w, int h, Rows rows) {
    out[threadIdx.x] = x[w*h] + rows.of[N];
}
__global__ void by_pointer(const float *x, float *out, int w, int h, Rows rows) {
    const float *row = rows.of + N;
    out[threadIdx.x] = x[w*h] + *row;
}
__global__ void by_table(const float *x, float *out, int w, int h, float **rows) {
    const float *row = rows[0];
    out[threadIdx.x] = x[w*h] + row[N];
}
__global__ void next_to_a_struct(const float *x, float *out, int w, int h, Rows rows) {
    int i = w*h;
    out[threadIdx.x] = x[i];
}
__global__ void keep(float **rows, Rows given) { rows[0] = given.of; }
/* `left`: 'u' and 'i', an array that no launch was given;
   'n', one that an earlier launch calls x, too; 'f', a freed one */
static float *early, *arrays[12], *x, *out, **rows;
void allocate() {
    for (float *&a : arrays)
        if (cudaMalloc(&a, 4*N)) throw std::runtime_error("too little memory is left for this test");
    std::sort(arrays, arrays + 12);                 // wherever earlier programs have left memory
}
// Two arrays whose distance is an int. Of three pairs without a gap one must be: there are 2^32 elements.
float **near_pair() {
    for (float **pair = arrays; pair + 3 < arrays + 12; pair++)
        if (pair[3] - pair[0] < INT_MAX - 2*N) return pair;
    throw std::logic_error("the addresses are further apart than the emulator's memory is large");
}
void go(int kernel, int left) {
    allocate();
    float **pair = near_pair();
    early = pair[0], x = pair[3];
    cudaMemset(early, 0, 400), cudaMemset(x, 0, 400);
    if (left == 'n') touch<<<1, 1>>>(early);
    cudaMalloc(&out, 400), cudaMalloc(&rows, 8);
    keep<<<1, 1>>>(rows, Rows{early});
    const int first = int(early - x);
    if (left == 'f') cudaFree(early), pair[0] = early = nullptr;
    const int at = first + 5 + (left == 'i' ? 0 : N);     // 5 elements past the end of the early one, or inside it
    if (kernel == 0) pick<<<1, 1>>>(x, out, at, 1);
    if (kernel == 1) stage<<<1, 1>>>(x, out, at, 1);
    if (kernel == 2) by_member<<<1, 1>>>(x, out, 1, 1, Rows{early});
    if (kernel == 3) by_pointer<<<1, 1>>>(x, out, 1, 1, Rows{early});
    if (kernel == 4) by_table<<<1, 1>>>(x, out, 1, 1, rows);
    if (kernel == 5) next_to_a_struct<<<1, 1>>>(x, out, at, 1, Rows{nullptr});
}
void give_back() {
    cudaGetLastError();
    for (float *&a : arrays) cudaFree(a), a = nullptr;
    cudaFree(out), cudaFree(rows), out = nullptr, rows = nullptr;
}
'''


@lru_cache
def near(): return load_cuda(NEAR, name='near')


def found_near(kernel, left):
    "Pages that are never touched take no memory"
    with cpp.on_emulator(), cpp.options(memory='4G'):
        try:
            with pytest.raises(MemcheckError) as e: near().go(kernel, ord(left))
        finally: near().give_back()
    return e.value


@pytest.mark.parametrize('kernel,left', [(0, 'u'), (0, 'n'), (0, 'f'), (0, 'i'), (1, 'u'), (1, 'n'), (1, 'f'), (1, 'i'),
                                         (5, 'u'), (5, 'n'), (5, 'f')])
def test_an_index_that_overflows_to_another_array_is_reported_with_its_own(kernel, left):
    "Near that array, or inside it, where the address is valid, and no argument leads there"
    e = found_near(kernel, left)
    assert (e.code, e.array) == ('overflowed', 'x') and e.index[0] < -2**26


@pytest.mark.parametrize('kernel', [2, 3, 4])
def test_an_array_that_a_struct_or_a_table_leads_to_is_named_itself(kernel):
    "Whatever product is an index in the same line"
    e = found_near(kernel, 'u')
    assert (e.code, e.array, e.index) == ('outside', 'memory', ((64 << 20)//4 - 28,))


LED = r'''
#include <vector>
#include <cstring>
struct View { float *of; int n; };
struct Node { float value; Node *next; };
__device__ float *kept, *taken;
__constant__ float *table[2];
__managed__ float *shared_by_both;
__global__ void by_struct(View v, float *out) { out[0] += v.of[3]; }
__global__ void by_table(float **rows, float *out) { out[0] += rows[1][3]; }
__global__ void by_variable(float *out) { out[0] += kept[3]; }
__global__ void by_exchange(float *out) {
    float *mine = (float *)atomicExch((unsigned long long *)&taken, 0ull);
    out[0] += mine[3];
}
__global__ void by_constant(float *out) { out[0] += table[1][3]; }
__global__ void by_managed(float *out) { out[0] += shared_by_both[3]; }
__global__ void by_integer(long long address, float *out) { out[0] += ((float *)address)[3]; }
__global__ void by_bytes(const char *bytes, float *out) { out[0] += (*(float **)bytes)[3]; }
__global__ void by_ints(const int *words, float *out) { out[0] += (*(float **)words)[3]; }
__global__ void by_list(const Node *first, float *out) { out[0] += first->next->next->value; }
__global__ void from_end(const float *end, float *out) { out[0] += end[-1]; }
__global__ void from_one(const float *before, float *out) { out[0] += before[1]; }
__global__ void make() {
    kept = (float *)malloc(16);
    kept[3] = 1;
}
__global__ void drop() { free(kept); }
template <class F> __global__ void each(F f, float *out) { out[0] += f(3); }
float go() {
    std::vector<float *> a;
    const auto array = [&a](size_t n) {
        float *p, ones[64];
        for (float &one : ones) one = 1;
        cudaMalloc(&p, n), cudaMemcpy(p, ones, n, cudaMemcpyHostToDevice);
        a.push_back(p);
        return p;
    };
    const auto holding = [&](const void *bytes, size_t n) {
        float *const p = array(n);
        cudaMemcpy(p, bytes, n, cudaMemcpyHostToDevice);
        return p;
    };
    float *const out = array(4), *target = array(64), *rows[2] = {array(64), array(64)};
    const View view = {array(64), 16};
    by_struct<<<1, 1>>>(view, out);
    by_table<<<1, 1>>>((float **)holding(rows, sizeof rows), out);
    cudaMemcpyToSymbol(kept, &target, 8), by_variable<<<1, 1>>>(out);
    target = array(64), cudaMemcpyToSymbol(taken, &target, 8), by_exchange<<<1, 1>>>(out);
    rows[1] = array(64), cudaMemcpyToSymbol(table, rows, 16), by_constant<<<1, 1>>>(out);
    shared_by_both = array(64), by_managed<<<1, 1>>>(out), cudaDeviceSynchronize();
    by_integer<<<1, 1>>>((long long)array(64), out);
    target = array(64), by_bytes<<<1, 1>>>((const char *)holding(&target, 8), out);
    target = array(64), by_ints<<<1, 1>>>((const int *)holding(&target, 8), out);
    Node last = {1, nullptr}, middle = {0, (Node *)holding(&last, sizeof last)};
    Node first = {0, (Node *)holding(&middle, sizeof middle)};
    by_list<<<1, 1>>>((Node *)holding(&first, sizeof first), out);
    const std::vector<float> ones(1024, 1);         // a whole page, around which nothing is mapped
    float *page;
    cudaMalloc(&page, 4096), cudaMemcpy(page, ones.data(), 4096, cudaMemcpyHostToDevice), a.push_back(page);
    from_end<<<1, 1>>>(page + 1024, out), from_one<<<1, 1>>>(page - 1, out);
    make<<<1, 1>>>(), by_variable<<<1, 1>>>(out), drop<<<1, 1>>>();
    target = array(64), each<<<1, 1>>>([=] __device__(int i) { return target[i]; }, out);
    float sum;
    cudaMemcpy(&sum, out, 4, cudaMemcpyDeviceToHost);
    for (float *p : a) cudaFree(p);
    return sum;
}
'''


@pytest.mark.takes(10)
def test_arrays_that_a_launch_has_the_address_of_are_its_own():
    "By a struct, tables, variables of the device, an exchange, integers, bytes, a list, `malloc`, a lambda"
    with cpp.on_emulator(): assert load_cuda(LED, name='led').go() == 15


@pytest.mark.skipif(platform.machine() not in ('x86_64', 'AMD64'), reason='elsewhere no such quotient traps')
@pytest.mark.parametrize('t,dtype', [('int', torch.int32), ('long', torch.int64)])
def test_a_quotient_that_overflows_is_not_a_division_by_0(t, dtype):
    x, out = torch.tensor([7, torch.iinfo(dtype).min], dtype=dtype), torch.zeros(2, dtype=dtype)
    one = kernels()[f'divide<{t}>']
    for rest in (False, True):
        for by, code in ((-1, 'division_overflows'), (0, 'division')):
            with pytest.raises(KernelCrash) as e: one[1, 2](x, out, by, rest)
            assert (e.value.code, e.value.thread) == (code, (1 if by else 0, 0, 0))
        one[1, 2](x[:1].repeat(2), out, -1, rest)
        assert (out == (0 if rest else -7)).all()
    for by, code in ((-1, 'division_overflows'), (0, 'division')):
        by = torch.tensor([1, by], dtype=dtype)
        with pytest.raises(KernelCrash) as e: kernels()[f'divide_by_each<{t}>'][1, 2](x, out, by)
        assert (e.value.code, e.value.thread) == (code, (1, 0, 0))


MANY_KINDS = r'''
__device__ float later(float *s, float v);
__device__ float use(float *s, float v) { s[threadIdx.x] = v; __syncthreads(); v = s[0]; __syncthreads(); return v; }
typedef float (*Function)(float *, float);
__device__ Function table[1] = {use};
extern "C" __device__ int plain(int *p) { return p[0]; }
static inline __device__ int own(int *p) { return p[1]; }
constexpr __device__ int known(const int *p) { return p[0] + 1; }
struct Base { __device__ virtual int f(int *p) { return p[0]; } };
struct Derived : Base { __device__ int f(int *p) override { return p[1] + 2; } };
template <class T> __device__ auto any(T *p) { return p[0]; }
template <> __device__ auto any<int>(int *p) { return p[1] + 3; }
__device__ int even(int *p, int n);
__device__ int odd(int *p, int n) { return n == 0 ? p[0] : even(p, n - 1); }
__device__ int even(int *p, int n) { return n == 0 ? p[1] + 4 : odd(p, n - 1); }
__device__ int with_default(int *p, int k = 1) { return p[k]; }
__host__ __device__ int of_both(const int *p) { return p[0]; }
[[nodiscard]] __device__ int with_attribute(int *p) { return p[0]; }
__device__ int jumps(int *p) { int i = 0; again: if (p[i] < 0) { i++; goto again; } return i; }
__device__ int variadic(int n, ...) { return n; }
template <int n> __device__ int unrolled(int *p) {
    if constexpr (n == 0) return p[0] + 5;
    else return p[0] + unrolled<n - 1>(p);
}
__global__ void k(int *p, float *out) {
    __shared__ float s[64];
    Derived d;
    Base *b = &d;
    float v = later(s, 10) + table[0](s, 20) + plain(p) + own(p) + known(p) + b->f(p) + any(p) + even(p, 4);
    v += with_default(p) + of_both(p) + with_attribute(p) + jumps(p) + variadic(6, 7) + unrolled<3>(p);
    out[threadIdx.x] = v;
}
__device__ float later(float *s, float v) { s[threadIdx.x] = v; __syncthreads(); v = s[1]; __syncthreads(); return v; }
'''


def test_functions_of_all_kinds_can_be_inlined_or_stay():
    out = np.zeros(64, 'f')
    with cpp.on_emulator(): cuda_kernel(MANY_KINDS)[1, 64](np.zeros(2, np.int32), out)
    assert (out == 10 + 20 + 1 + 2 + 3 + 4 + 6 + 5).all()
