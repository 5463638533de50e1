"""The loop of a compare-and-swap: it begins with a plain read, whose value may be stale and is checked by the swap.

Without the swap such a read is a data race with the other threads' atomics."""
import numpy as np, pytest

from gridstride import cpp
from gridstride.cpp import cuda_kernel
from gridstride.diagnostics.errors import RacecheckError

SRC = r'''
#include <cuda/atomic>
__device__ double plus(double *p, double v) {
    unsigned long long *q = (unsigned long long *)p, old = *q, seen;
    do {
        seen = old;
        old = atomicCAS(q, seen, __double_as_longlong(v + __longlong_as_double(seen)));
    } while (seen != old);
    return __longlong_as_double(old);
}
__device__ float largest(float *p, float v) {
    int *q = (int *)p, old = __ldcg(q), seen;
    do { seen = old; old = atomicCAS(q, seen, __float_as_int(fmaxf(v, __int_as_float(seen)))); } while (seen != old);
    return __int_as_float(old);
}
__global__ void doubles(double *out) { for (int i = 0; i < 3; i++) plus(out, 1.0); }
__global__ void floats(float *out, int n) {
    __shared__ float best;
    if (threadIdx.x == 0) best = -1;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) largest(&best, (i * 71) % n);
    __syncthreads();
    if (threadIdx.x == 0) largest(out, best);
}
__global__ void ints(int *out) {
    unsigned old = __ldcv((unsigned *)out), seen;
    do { seen = old; old = atomicCAS((unsigned *)out, seen, seen + 2); } while (seen != old);
}
__global__ void shorts(unsigned short *out) {
    unsigned *word = (unsigned *)out, old = *word, seen;
    do { seen = old; old = atomicCAS(word, seen, (seen + 3) & 0xffff); } while (seen != old);
}
__global__ void narrow(unsigned short *out) {
    unsigned short old = *out, seen;
    do { seen = old; old = atomicCAS(out, seen, (unsigned short)(seen + 3)); } while (seen != old);
}
__global__ void refs(int *out) {
    cuda::atomic_ref<int, cuda::thread_scope_device> x(*out);
    int old = *out;
    while (!x.compare_exchange_weak(old, old + 1, cuda::memory_order_relaxed)) {}
}
__global__ void pushed(int *head, int *next) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, first = *head, seen;
    do { next[i] = seen = first; first = atomicCAS(head, seen, i); } while (first != seen);
}
__global__ void slow(int *out, int *other) {
    int old = *out, seen;
    for (int i = 0; i < 70; i++) atomicAdd(other, 1);           // lets the other threads run
    do { seen = old; old = atomicCAS(out, seen, seen + 1); } while (seen != old);
}
__global__ void voted(int *out) {
    int old = *out, seen, all = __popc(__ballot_sync(~0u, 1));
    do { seen = old; old = atomicCAS(out, seen, seen + all); } while (seen != old);
}

__global__ void peeks(int *out, int *seen) {
    int t = threadIdx.x;
    if (t % 2) atomicAdd(out, 1);
    else seen[t] = *out;                                        // peeks
}
__global__ void waits(int *out, int *seen) {
    int old = out[0];                                           // waits
    atomicAdd(out, 1);
    __syncthreads();
    seen[threadIdx.x] = old;
}
__global__ void late(int *out, int *seen) {
    int old = out[0];                                           // late
    seen[threadIdx.x] = old;
    if (threadIdx.x % 2) atomicAdd(out, 1);
    __syncthreads();
    atomicCAS(out, old, old + 1);
}
__global__ void another(int *out) {
    int old = out[0];                                           // another
    atomicAdd(out, 1);
    atomicCAS(out + 1, old, old + 1);
}
__device__ int looked_up(int *p) { return *p; }                 // looked up
__global__ void calls(int *out, int *seen) {
    atomicAdd(out, 1);
    seen[threadIdx.x] = looked_up(out);                         // calls
}
__global__ void grows(int *out) {
    int old = out[0];                                           // grows
    while (old < threadIdx.x) {
        int seen = old;
        old = atomicCAS(out, seen, threadIdx.x);
        if (old == seen) break;
    }
}
__global__ void written(int *out) {
    if (threadIdx.x == 0) *out = 5;                             // written
    int old = *out, seen;
    do { seen = old; old = atomicCAS(out, seen, seen + 1); } while (seen != old);
}
__global__ void half_checked(unsigned long long *out, int *seen) {
    unsigned long long old = *out;                              // half checked
    atomicCAS((unsigned *)out, (unsigned)old, (unsigned)old + 1);
    seen[threadIdx.x] = old >> 32;
    atomicAdd((unsigned *)out + 1, 1);
}
'''
ORDERS = pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])


@pytest.fixture(scope='module')
def k():
    with cpp.on_emulator(): return cuda_kernel(SRC)


def zeros(n, dtype=np.int32): return np.zeros(n, dtype)


def line(text): return next(i for i, o in enumerate(SRC.splitlines(), 1) if text in o)


@ORDERS
def test_a_stale_value_that_a_swap_checks_is_not_a_race(k, order):
    with cpp.options(order=order, seed=5):
        k.doubles[3, 64](out := zeros(1, np.float64))
        assert out[0] == 3*3*64
        k.floats[2, 64](out := zeros(1, np.float32), 300)
        assert out[0] == 299
        for name, dtype, each in ('ints', np.int32, 2), ('shorts', np.uint16, 3), ('refs', np.int32, 1):
            getattr(k, name)[3, 64](out := zeros(2, dtype))
            assert out[0] == 192*each, name
        k.narrow[3, 64](out := zeros(2, np.uint16))
        assert out.tolist() == [576, 0]
        k.slow[2, 64](out := zeros(1), zeros(1))
        assert out[0] == 128
        k.voted[2, 64](out := zeros(1))
        assert out[0] == 128*32


@ORDERS
def test_a_node_is_pushed_with_a_stale_head(k, order):
    head, follows = np.full(1, -1, np.int32), zeros(96)
    with cpp.options(order=order, seed=5): k.pushed[3, 32](head, follows)
    seen, i = set(), int(head[0])
    while i >= 0: seen.add(i); i = int(follows[i])
    assert len(seen) == 96


@ORDERS
@pytest.mark.parametrize('name,blocks', [('peeks', 1), ('peeks', 2), ('waits', 1), ('waits', 2), ('late', 1),
                                         ('another', 1), ('another', 3), ('calls', 1), ('calls', 2)])
def test_a_stale_value_that_no_swap_checks_is_a_race(k, name, blocks, order):
    args = [zeros(2)] if name == 'another' else [zeros(2), zeros(64)]
    with cpp.options(order=order, seed=5), pytest.raises(RacecheckError) as e: getattr(k, name)[blocks, 64](*args)
    e = e.value
    read = line('// looked up' if name == 'calls' else f'// {name}')
    assert read in (e.line, e.other.line) and e.array == 'out' and e.index == (0,)
    if name == 'calls' and e.line == read: assert e.call_line == line('// calls')


@ORDERS
def test_a_read_without_its_swap_is_not_fixed_by_a_barrier(k, order):
    for blocks in 1, 2:
        with cpp.options(order=order, seed=5), pytest.raises(RacecheckError) as e: k.grows[blocks, 64](zeros(1))
        assert line('// grows') in (e.value.line, e.value.other.line)
        assert e.value.advice == 'before_swap' and 'atomicAdd(&x, 0)' in e.value.hint


@ORDERS
def test_other_accesses_than_the_swap_are_races(k, order):
    with cpp.options(order=order, seed=5):
        with pytest.raises(RacecheckError) as e: k.written[1, 64](zeros(1))
        assert line('// written') in (e.value.line, e.value.other.line)
        with pytest.raises(RacecheckError) as e: k.half_checked[1, 64](zeros(1, np.uint64), zeros(64))
        assert line('// half checked') in (e.value.line, e.value.other.line)
