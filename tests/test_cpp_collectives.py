"""What lanes and blocks do together: shuffles that read absent lanes, and the temporary storage of CUB."""
import warnings

import numpy as np, pytest

from gridstride import cpp
from gridstride.cpp import cuda_kernel
from gridstride.diagnostics.errors import RacecheckError, UndefinedLanes

SRC = r'''
#include <cooperative_groups.h>
#include <cub/cub.cuh>
namespace cg = cooperative_groups;
template <class T> __device__ T summed(T m, unsigned mask = 0xffffffff, int width = 32) {
    for (int o = width / 2; o > 0; o /= 2)
        m += __shfl_down_sync(mask, m, o, width);               // summed
    return m;
}
template <class T> __device__ T summed_among(T m, unsigned mask, int n) {
    for (int o = 16; o > 0; o /= 2) {
        const T other = __shfl_down_sync(mask, m, o);
        if (threadIdx.x + o < n) m += other;
    }
    return m;
}
__global__ void sums(const float *x, float *out) {
    const float m = summed(x[threadIdx.x]);
    if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = m;       // sums
}
__global__ void counts(const int *x, int *out) {
    const int m = summed(x[threadIdx.x]);
    if (threadIdx.x == 0) atomicAdd(out, m);                    // counts
}
__global__ void doubles(const double *x, double *out) {
    const double m = summed(x[threadIdx.x]);
    if (threadIdx.x == 0) *out = m;                             // doubles
}
__global__ void maxima(const float *x, float *out, int n) {
    if (threadIdx.x >= n) return;
    float m = x[threadIdx.x];
    for (int o = 16; o > 0; o /= 2)
        m = fmaxf(m, __shfl_xor_sync(~0u, m, o));               // reads in maxima
    if (threadIdx.x == 0) *out = m;                             // maxima
}
__global__ void masked(const float *x, float *out) {
    if (threadIdx.x < 20) {
        float m = x[threadIdx.x];
        for (int o = 16; o > 0; o /= 2)
            m = fminf(m, __shfl_xor_sync(0xfffff, m, o));       // reads in masked
        if (threadIdx.x == 0) *out = m;                         // masked
    }
}
__global__ void next(const float *x, float *out) {
    const float y = __shfl_sync(~0u, x[threadIdx.x], threadIdx.x + 1);      // reads in next
    out[threadIdx.x] = y;                                       // next
}
__global__ void tiles(const float *x, float *out) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    out[threadIdx.x] = tile.shfl(x[threadIdx.x], 31);           // tiles
}
__global__ void passed_on(const float *x, float *out) {
    float y = __shfl_down_sync(~0u, x[threadIdx.x], 8);         // reads in passed on
    y = __shfl_sync(~0u, y, 15);
    if (threadIdx.x == 0) *out = y;                             // passed on
}

__global__ void whole(const float *x, float *out) {
    const float m = summed(x[threadIdx.x]);
    if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = m;
}
__global__ void parts(const float *x, float *out) {
    const float m = summed(x[threadIdx.x], ~0u, 16);
    if (threadIdx.x % 16 == 0) out[threadIdx.x / 16] = m;
}
__global__ void low_half(const int *x, int *out) {  // what lanes 8 to 15 get reaches no lane that counts
    __shared__ int all;
    for (int row = 0; row < 2; row++) {
        int m = x[threadIdx.x];
        for (int o = 8; o > 0; o /= 2) m += __shfl_down_sync(0xffff, m, o);
        if (threadIdx.x == 0) all = m;
        __syncthreads();
        out[threadIdx.x] = all;
        __syncthreads();
    }
}
__global__ void rows(const float *x, float *out) {
    for (int row = 0; row < 3; row++) {
        float m = x[threadIdx.x];
        for (int o = 8; o > 0; o /= 2) m += __shfl_down_sync(~0u, m, o);
        if (threadIdx.x == 0) out[row] = m;
    }
}
__global__ void guarded(const float *x, float *out, int n) {
    const unsigned mask = __ballot_sync(~0u, threadIdx.x < n);
    if (threadIdx.x >= n) return;
    const float sum = summed_among(x[threadIdx.x], mask, n);
    float most = -INFINITY;
    for (int o = 16; o > 0; o /= 2) {
        const float other = __shfl_down_sync(mask, most, o);
        if (threadIdx.x + o < n) most = fmaxf(most, other);
    }
    out[threadIdx.x + 1] = most;
    if (threadIdx.x == 0) *out = sum;
}
__global__ void replaced(const float *x, float *out, int n) {
    float right = __shfl_down_sync(~0u, x[threadIdx.x], 1);
    if (threadIdx.x == n - 1) right = 0;                        // the last lane has no neighbour
    out[threadIdx.x] = right - x[threadIdx.x];
}
__global__ void scanned(const int *x, int *out) {
    int m = x[threadIdx.x];
    for (int o = 1; o < 32; o *= 2) {
        const int before = __shfl_up_sync(~0u, m, o);
        if (threadIdx.x >= o) m += before;
    }
    out[threadIdx.x] = m + __shfl_sync(~0u, 100, 0);
}
__global__ void grouped(const int *x, int *out) {
    auto here = cg::coalesced_threads();
    out[threadIdx.x] = here.shfl_down(x[threadIdx.x], 1) + here.any(1) + __popc(__ballot_sync(~0u, 1)) +
        __reduce_add_sync(~0u, x[threadIdx.x]);
}

using Reduce = cub::BlockReduce<float, 64>;
using Scan = cub::BlockScan<int, 64>;
using Warps = cub::WarpReduce<float>;
__device__ float both(Reduce::TempStorage &temp, float x, bool waits) {
    const float a = Reduce(temp).Sum(x);                        // both, first
    if (waits) __syncthreads();
    return a + Reduce(temp).Reduce(x, cub::Max());              // both, second
}
__global__ void reduced_twice(const float *x, float *out, int waits) {
    __shared__ Reduce::TempStorage temp;
    const float a = Reduce(temp).Sum(x[threadIdx.x]);           // reduced first
    if (waits) __syncthreads();
    const float b = Reduce(temp).Sum(x[threadIdx.x] * 2);       // reduced again
    if (threadIdx.x == 0) *out = a + b;
}
__global__ void helped(const float *x, float *out, int waits) {
    __shared__ Reduce::TempStorage temp;
    const float a = both(temp, x[threadIdx.x], waits);
    if (threadIdx.x == 0) *out = a;
}
__global__ void scanned_twice(const int *x, int *out, int waits) {
    __shared__ Scan::TempStorage temp;
    int a, b;
    Scan(temp).InclusiveSum(x[threadIdx.x], a);                 // scanned first
    if (waits) __syncthreads();
    Scan(temp).ExclusiveSum(a, b);                              // scanned again
    out[threadIdx.x] = b;
}
__global__ void looped(const int *x, int *out, int waits) {
    __shared__ Scan::TempStorage temp;
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        int items[2] = {x[threadIdx.x], 1}, all;
        Scan(temp).ExclusiveSum(items, items, all);             // looped
        sum += all;
        if (waits) __syncthreads();
    }
    out[threadIdx.x] = sum;
}
__global__ void united(const int *x, int *out, int waits) {
    __shared__ union { Scan::TempStorage scan; Reduce::TempStorage reduce; int plain[64]; } temp;
    int a;
    temp.plain[63 - threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    const int own = temp.plain[threadIdx.x];
    if (waits) __syncthreads();
    Scan(temp.scan).InclusiveSum(own, a);                       // united, first
    if (waits) __syncthreads();
    const float b = Reduce(temp.reduce).Sum(float(a));          // united, second
    if (threadIdx.x == 0) *out = int(b);
}
__global__ void shared_by_warps(const float *x, float *out, int each) {
    __shared__ Warps::TempStorage temp[2];
    const int w = threadIdx.x / 32;
    const float a = Warps(temp[each ? w : 0]).Sum(x[threadIdx.x]);      // shared by warps
    if (threadIdx.x % 32 == 0) out[w] = a;
}
template <class T> __device__ void everywhere(const T *x, T *out) {
    __shared__ typename cub::BlockReduce<T, 64>::TempStorage temp;
    out[threadIdx.x] = cub::BlockReduce<T, 64>(temp).Sum(x[threadIdx.x]) + 1;
}
__global__ void int32s(const int *x, int *out) { everywhere(x, out); }
__global__ void float32s(const float *x, float *out) { everywhere(x, out); }
__global__ void float64s(const double *x, double *out) { everywhere(x, out); }
__global__ void divided(const float *x, float *out) {
    __shared__ Reduce::TempStorage temp;
    const float sum = Reduce(temp).Sum(x[threadIdx.x]);         // sum of divided
    out[threadIdx.x] = x[threadIdx.x] / sum;                    // divided
}
__global__ void by_warps(const float *x, float *out) {
    __shared__ Warps::TempStorage temp[2];
    const float sum = Warps(temp[threadIdx.x / 32]).Sum(x[threadIdx.x]);        // sum of by_warps
    out[threadIdx.x] = -sum;                                    // by_warps
}
__global__ void handed_on(const float *x, float *out) {
    __shared__ Reduce::TempStorage temp;
    __shared__ float sum;
    const float mine = Reduce(temp).Sum(x[threadIdx.x]);
    out[threadIdx.x] = 0;
    if (threadIdx.x == 0) sum = mine;
    __syncthreads();
    out[threadIdx.x] = x[threadIdx.x] / sum;
}
__global__ void valid(const float *x, float *out, int n) {
    __shared__ Warps::TempStorage temp;
    const float a = Warps(temp).Sum(x[threadIdx.x], n);
    if (threadIdx.x == 0) *out = a;
}
'''
ORDERS = pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])


@pytest.fixture(scope='module')
def k():
    with cpp.on_emulator(): return cuda_kernel(SRC)


def line(text): return next(i for i, o in enumerate(SRC.splitlines(), 1) if f'// {text}' in o)


def ones(n, dtype=np.float32): return np.ones(n, dtype)


def warning(f, *args):
    "What a launch warns of undefined lanes"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        f(*args)
    return [w.message for w in caught if isinstance(w.message, UndefinedLanes)]


ABSENT, RETURNED, UNNAMED = 'does not exist', 'has returned', 'is not in its mask'

@pytest.mark.slow
@ORDERS
@pytest.mark.parametrize('name,threads,dtype,reads,state,stored,more', [
    ('sums', 17, np.float32, 'summed', ABSENT, 'sums', ()),
    ('sums', 48, np.float32, 'summed', ABSENT, 'sums', ()),
    ('counts', 20, np.int32, 'summed', ABSENT, 'counts', ()),
    ('doubles', 31, np.float64, 'summed', ABSENT, 'doubles', ()),
    ('maxima', 32, np.float32, 'reads in maxima', RETURNED, 'maxima', (20,)),
    ('maxima', 20, np.float32, 'reads in maxima', ABSENT, 'maxima', (32,)),
    ('masked', 32, np.float32, 'reads in masked', UNNAMED, 'masked', ()),
    ('next', 8, np.float32, 'reads in next', ABSENT, 'next', ()),
    ('tiles', 30, np.float32, 'tiles', ABSENT, 'tiles', ()),
    ('passed_on', 16, np.float32, 'reads in passed on', ABSENT, 'passed on', ())])
def test_a_shuffle_that_reads_an_absent_lane(k, name, threads, dtype, reads, state, stored, more, order):
    with cpp.options(order=order, seed=3):
        (caught,) = warning(getattr(k, name)[1, threads], ones(threads, dtype), np.zeros(threads, dtype), *more)
    assert caught.kind == 'synccheck'
    assert f'line {line(reads)} of {name}: ' in str(caught) and state in str(caught)
    assert f'line {line(stored)} ' in str(caught)


@ORDERS
def test_shuffles_that_read_no_absent_lane_that_counts(k, order):
    def run(name, threads, n, dtype, *more):
        assert not warning(getattr(k, name)[2, threads], ones(threads, dtype), out := np.zeros(n, dtype), *more), name
        return out
    with cpp.options(order=order, seed=3):
        assert run('whole', 64, 2, np.float32).tolist() == [32, 32]
        assert run('parts', 48, 3, np.float32).tolist() == [16]*3
        assert run('low_half', 16, 16, np.int32).tolist() == [16]*16
        assert run('rows', 16, 3, np.float32).tolist() == [16]*3
        for n in 5, 20, 31: assert run('guarded', 32, 33, np.float32, n)[0] == n
        assert run('guarded', 20, 33, np.float32, 20)[0] == 20
        assert run('replaced', 20, 20, np.float32, 20).tolist() == [0]*19 + [-1]
        assert run('scanned', 20, 20, np.int32).tolist() == list(range(101, 121))
        assert run('grouped', 20, 20, np.int32).tolist() == [42]*20


def test_a_shuffle_is_not_looked_at_without_the_check(k):
    with cpp.options(checks='no synccheck'): assert not warning(k.sums[1, 17], ones(17), np.zeros(1, np.float32))


@ORDERS
@pytest.mark.parametrize('name,dtype,lines', [
    ('reduced_twice', np.float32, ('reduced first', 'reduced again')),
    ('helped', np.float32, ('both, first', 'both, second')),
    ('scanned_twice', np.int32, ('scanned first', 'scanned again')), ('looped', np.int32, ('looped', 'looped')),
    ('united', np.int32, None), ('shared_by_warps', np.float32, ('shared by warps', 'shared by warps'))])
def test_temporary_storage_is_reused_after_a_barrier(k, name, dtype, lines, order):
    def run(waits): getattr(k, name)[1, 64](ones(64, dtype), np.zeros(64, dtype), waits)
    with cpp.options(order=order, seed=3):
        run(1)
        with pytest.raises(RacecheckError) as e: run(0)
    e = e.value
    assert e.line and e.other.line
    if lines: assert {e.line, e.other.line} == {*map(line, lines)}


@ORDERS
@pytest.mark.parametrize('name,defined', [('divided', [0]), ('by_warps', [0, 32])])
def test_the_sum_of_a_block_is_defined_in_its_first_thread(k, name, defined, order):
    with cpp.options(order=order, seed=3):
        (caught,) = warning(getattr(k, name)[1, 64], ones(64), out := np.zeros(64, np.float32))
    assert caught.kind == 'synccheck' and f'line {line(f"sum of {name}")} of {name}: ' in str(caught)
    assert f'line {line(name)} ' in str(caught)
    assert np.flatnonzero(~np.isnan(out)).tolist() == defined


@pytest.mark.parametrize('dtype', [np.int32, np.float32, np.float64])
def test_undefined_results_of_collectives_are_not_valid(k, dtype):
    kernel = getattr(k, f'{np.dtype(dtype)}s')
    (caught,) = warning(kernel[1, 64], ones(64, dtype), out := np.zeros(64, dtype))
    assert caught.kind == 'synccheck'
    assert out[0] == 65 and ((out[1:] > 10**9).all() if dtype == np.int32 else np.isnan(out[1:]).all())
    with cpp.options(checks='no synccheck'): assert not warning(kernel[1, 64], ones(64, dtype), out)


def test_a_sum_is_passed_on_after_a_barrier(k):
    assert not warning(k.handed_on[1, 64], ones(64), out := np.zeros(64, np.float32))
    assert (out == 1/64).all()


def test_a_part_of_a_warp_reduces_its_valid_lanes(k):
    for threads, n in (32, 7), (20, 20), (20, 11):
        assert not warning(k.valid[1, threads], ones(threads), out := np.zeros(1, np.float32), n)
        assert out[0] == n
