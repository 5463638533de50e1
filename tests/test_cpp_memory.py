"""The memory model of racecheck beyond the litmus programs: barriers, warps and volatile, in kernels that differ from
right ones by one thing. All in one translation unit."""
import ctypes, importlib.util, os, re
from functools import lru_cache, partial
from pathlib import Path

import numpy as np, pytest, torch

from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.diagnostics.errors import InitcheckError, MemcheckError, RacecheckError
from found import finding

SRC = r'''
#include <cuda/atomic>
using Device = cuda::atomic<int, cuda::thread_scope_device>;
using Block = cuda::atomic<int, cuda::thread_scope_block>;
#define FIRST blockIdx.x == 0 && threadIdx.x == 0
#define SECOND blockIdx.x == 1 && threadIdx.x == 0
#define IN_BLOCK(write, set, seen, fence) /* a message between two warps, by a flag in shared memory */ \
    __shared__ int s, f; \
    if (threadIdx.x == 0) f = 0; \
    __syncthreads(); \
    if (threadIdx.x == 0) { write; set; } \
    if (threadIdx.x == 32) { while (!(seen)) { } fence; out[blockIdx.x] = s; }
#define ACROSS(write, set, seen, fence) /* and between two blocks */ \
    if (FIRST) { write; set; } \
    if (SECOND) { while (!(seen)) { } fence; out[0] = data[0]; }
#define SET atomicExch(flag, 1)
#define SEEN atomicAdd(flag, 0)
#define F __threadfence()

extern "C" {
// wrong
__global__ void releases_before(HEAD) { Device &count = *(Device *)flag; count.fetch_add(1); data[0] += 1; }
__global__ void fence_and_atomic_before(HEAD) { F; atomicAdd(flag, 1); F; data[0] += 1; }
__global__ void released_by_another(HEAD) {
    if (blockIdx.x == 0 && threadIdx.x == 5) data[0] = 1;
    ACROSS(F, SET, SEEN, F)
}
__global__ void fence_of_another(HEAD) {
    if (blockIdx.x == 0 && threadIdx.x == 5) data[0] = 1;
    if (blockIdx.x == 0 && threadIdx.x == 6) F;
    __syncthreads();
    ACROSS(, SET, SEEN, F)
}
__global__ void ticket_of_the_block(HEAD) {
    __shared__ bool last;
    if (threadIdx.x == 0) { data[blockIdx.x] = 1; __threadfence_block(); last = atomicAdd(flag, 1) == gridDim.x - 1; }
    __syncthreads();
    if (last && threadIdx.x == 0) for (int b = 0; b < gridDim.x; b++) out[0] += data[b];
}
__global__ void ticket_fenced_too_early(HEAD) {
    __shared__ bool last;
    F;
    data[blockIdx.x*blockDim.x + threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(flag, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) out[threadIdx.x] = data[threadIdx.x];
}
__global__ void volatile_sum(volatile int *data, int *flag, int *out) { data[0] += threadIdx.x; }
__global__ void volatile_sum_between_fences(volatile int *data, int *flag, int *out) { F; data[0] += threadIdx.x; F; }
__global__ void volatile_sum_of_blocks(volatile int *data, int *flag, int *out) {
    if (threadIdx.x == 0) data[0] += 1 + blockIdx.x;
}
__global__ void volatile_flag(HEAD) { volatile int *f = flag; ACROSS(data[0] = 1, *f = 1, *f, ) }
__global__ void volatile_flag_fence_before(HEAD) { volatile int *f = flag; ACROSS(F; data[0] = 1, *f = 1, *f, F) }
__global__ void volatile_data_plain_reader(HEAD) {
    volatile int *d = data; if (FIRST) *d = 1; if (SECOND) out[0] = data[0];
}
__global__ void warp_synchronous(HEAD) {
    __shared__ volatile int s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x < 32) { s[threadIdx.x] += s[threadIdx.x + 32]; s[threadIdx.x] += s[threadIdx.x + 1]; }
}
// write after read: lanes that exchange values by volatile shared memory, whatever else comes in between but a barrier
#define LANES __shared__ volatile int s[64]; const int t = threadIdx.x; s[t] = t; __syncthreads(); if (t >= 32) return
__global__ void warp_shifts(HEAD) { LANES; int v = s[(t + 1) % 32]; s[t] = v; }
__global__ void warp_shifts_back(HEAD) { LANES; int v = s[(t + 31) % 32]; s[t] = v; }
__global__ void warp_swaps(HEAD) { LANES; int v = s[t ^ 1]; s[t] = v; __syncwarp(); out[t] = s[t]; }
__global__ void warp_pushes(HEAD) { LANES; int v = s[t]; s[(t + 1) % 32] = v; }
__global__ void warp_adds_in_place(HEAD) { LANES; s[t] += s[t + 16]; __syncwarp(); s[t] += s[t + 8]; __syncwarp(); }
__global__ void warp_votes_in_between(HEAD) { LANES; int v = s[t ^ 1]; v = __ballot_sync(~0u, v); s[t] = v; }
__global__ void warp_shuffles_in_between(HEAD) { LANES; int v = __shfl_sync(~0u, s[t ^ 1], 0); s[t] = v; }
__global__ void leader_goes_on(HEAD) {
    LANES; for (int i = 0; i < 3; i++) { if (t == 7) s[0] = i; __syncwarp(); out[t] += s[0]; }
}
#define SLOTS volatile int *s = data + 64*blockIdx.x; const int t = threadIdx.x
__global__ void warp_synchronous_global(HEAD) {
    SLOTS;
    s[t] = t;
    __syncthreads();
    if (t < 32) for (int half = 32; half; half /= 2) if (t < half) s[t] += s[t + half];
}
__global__ void neighbour_global(HEAD) { SLOTS; s[t] = t; if (t < 63) out[64*blockIdx.x + t] = s[t + 1]; }
__global__ void leader_global(HEAD) { SLOTS; if (t == 3) *s = 5; if (t < 32) out[64*blockIdx.x + t] = *s; }
__global__ void in_block_no_release(HEAD) {
    IN_BLOCK(s = 1, atomicExch(&f, 1), atomicAdd(&f, 0), __threadfence_block())
}
__global__ void in_block_no_acquire(HEAD) {
    IN_BLOCK(s = 1; __threadfence_block(), atomicExch(&f, 1), atomicAdd(&f, 0), )
}
__global__ void in_block_volatile(HEAD) {
    IN_BLOCK(s = 1, *(volatile int *)&f = 1, *(volatile int *)&f, __threadfence_block())
}
__global__ void shuffle_is_no_barrier(HEAD) {
    __shared__ int s[32]; s[threadIdx.x] = 1; int v = __shfl_sync(~0u, 1, 0);
    out[threadIdx.x] = v + s[31 - threadIdx.x];
}

// right
__global__ void right_volatile_flag(HEAD) { volatile int *f = flag; ACROSS(data[0] = 1; F, *f = 1, *f, F) }
__global__ void right_volatile_flag_given_back(HEAD) {
    volatile int *f = flag;
    if (FIRST) { data[0] = 1; F; *f = 1; }
    if (SECOND) { while (!*f) { } F; out[0] = data[0]; data[0] = 2; F; *f = 0; }
}
__global__ void right_flag_taken_plainly(HEAD) { ACROSS(data[0] = 1; F, SET, SEEN, F; *flag = 0) }
__global__ void right_value_in_the_flag(HEAD) {
    volatile int *f = flag; if (FIRST) *f = 5; if (SECOND) { while (!*f) { } out[0] = *f; }
}
__global__ void right_volatile_sum_of_a_warp(HEAD) {
    SLOTS;
    s[t] = t;
    __syncthreads();
    if (t < 32) for (int half = 32; half; half /= 2) {
        int v = s[t + half]; __syncwarp(); s[t] += v; __syncwarp();
    }
}
__global__ void right_volatile_of_each_thread(HEAD) { SLOTS; for (int i = 0; i < 3; i++) s[t] += t; }
__global__ void right_volatile_flag_in_a_warp(HEAD) {
    volatile int *f = flag + blockIdx.x;
    int *d = data + blockIdx.x;
    if (threadIdx.x == 5) { *d = 1; F; *f = 1; }
    if (threadIdx.x == 0) { while (!*f) { } F; out[blockIdx.x] = *d; }
}
__global__ void right_volatile_flags_of_lanes(HEAD) {      // each lane waits for the one before
    volatile int *f = flag + 32*blockIdx.x;
    const int t = threadIdx.x;
    if (t >= 32) return;
    if (t) { while (!f[t - 1]) { } F; }
    data[blockIdx.x] += t;
    F;
    f[t] = 1;
}
__global__ void right_chain(HEAD) {    // each block acquires what the one before released, and hands all of it on
    if (threadIdx.x) return;
    if (blockIdx.x) while (atomicAdd(flag + blockIdx.x - 1, 0) == 0) { }
    F;
    for (int b = 0; b < blockIdx.x; b++) data[blockIdx.x] += data[b];
    data[blockIdx.x] += 1;
    F;
    atomicExch(flag + blockIdx.x, 1);
}
__global__ void right_sequence(HEAD) {  // a relaxed change between release and acquire does not break the chain
    if (FIRST) { data[0] = 1; F; atomicExch(flag, 1); }
    if (SECOND) { while (atomicAdd(flag, 0) != 1) { } atomicAdd(flag, 1); }
    if (blockIdx.x == 2 && threadIdx.x == 0) { while (atomicAdd(flag, 0) != 2) { } F; out[0] = data[0]; }
}
__global__ void right_lock_let_go_by_volatile(HEAD) {
    if (threadIdx.x == 0) { while (atomicExch(flag, 1)) { } F; data[0] += 1; F; *(volatile int *)flag = 0; }
}
__global__ void right_lock_of_the_library(HEAD) {
    cuda::atomic_ref<int, cuda::thread_scope_device> f(*flag);
    int none = 0;
    if (threadIdx.x == 0) {
        while (!f.compare_exchange_weak(none, 1, cuda::memory_order_acquire)) none = 0;
        data[0] += 1; f.store(0, cuda::memory_order_release);
    }
}
__global__ void right_ticket(HEAD) {
    __shared__ bool last;
    if (threadIdx.x == 0) { data[blockIdx.x] = 1; F; last = atomicAdd(flag, 1) == gridDim.x - 1; }
    __syncthreads();
    if (last && threadIdx.x == 0) { for (int b = 0; b < gridDim.x; b++) out[0] += data[b]; *flag = 0; }
}
__global__ void right_ticket_of_all(HEAD) {
    __shared__ bool last;
    data[blockIdx.x*blockDim.x + threadIdx.x] = 1;
    F;
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(flag, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) for (int b = 0; b < gridDim.x; b++) out[threadIdx.x] += data[b*blockDim.x + blockDim.x - 1 - threadIdx.x];
}
__global__ void right_ticket_after_a_barrier(HEAD) {
    __shared__ bool last;
    data[blockIdx.x*blockDim.x + threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 40) { F; last = atomicAdd(flag, 1) == gridDim.x - 1; F; }
    __syncthreads();
    if (last) for (int b = 0; b < gridDim.x; b++) out[threadIdx.x] += data[b*blockDim.x + blockDim.x - 1 - threadIdx.x];
}
__global__ void right_ticket_of_a_warp(HEAD) {
    if (threadIdx.x >= 32) return;
    data[blockIdx.x*32 + threadIdx.x] = 1;
    __syncwarp();
    int last = 0;
    if (threadIdx.x == 0) { F; last = atomicAdd(flag, 1) == gridDim.x - 1; F; }
    __syncwarp();
    if (__shfl_sync(~0u, last, 0))
        for (int b = 0; b < gridDim.x; b++) out[threadIdx.x] += data[b*32 + 31 - threadIdx.x];
}
__global__ void right_ticket_volatile(volatile int *data, int *flag, int *out) {     // as the programming guide had it
    __shared__ bool last;
    if (threadIdx.x == 0) { data[blockIdx.x] = 1; F; last = atomicInc((unsigned *)flag, gridDim.x) == gridDim.x - 1; }
    __syncthreads();
    if (last) {
        int v = 0;
        for (int b = 0; b < gridDim.x; b++) v += data[b];
        if (threadIdx.x == 0) data[0] = v, *flag = 0;
    }
}
__global__ void right_in_block(HEAD) {
    IN_BLOCK(s = 1; __threadfence_block(), atomicExch_block(&f, 1), atomicAdd_block(&f, 0), __threadfence_block())
}
__global__ void right_in_block_volatile(HEAD) {
    IN_BLOCK(s = 1; __threadfence_block(), *(volatile int *)&f = 1, *(volatile int *)&f, __threadfence_block())
}
__global__ void right_in_block_atomic(HEAD) {
    __shared__ Block f;
    __shared__ int s;
    if (threadIdx.x == 0) f.store(0, cuda::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 0) { s = 1; f.store(1, cuda::memory_order_release); }
    if (threadIdx.x == 32) { while (!f.load(cuda::memory_order_acquire)) { } out[blockIdx.x] = s; }
}
__global__ void right_warp_shifts(HEAD) {
    LANES; int v = s[(t + 1) % 32]; __syncwarp(); s[t] = v; __syncwarp(); out[32*blockIdx.x + t] = s[t ^ 1];
}
__global__ void right_leader_goes_on(HEAD) {
    LANES; for (int i = 0; i < 3; i++) {
        if (t == 7) s[0] = i; __syncwarp(); out[32*blockIdx.x + t] += s[0]; __syncwarp();
    }
}
__global__ void right_flag_in_a_shared_array(HEAD) {
    LANES;
    if (t == 3) { s[40] = 1; F; s[41] = 1; }
    if (t == 0) { while (s[41] != 1) { } F; out[32*blockIdx.x] = s[40]; }
}
__global__ void right_volatile_after_barriers(HEAD) {
    __shared__ volatile int s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x < 32) for (int half = 32; half; half /= 2) {
        int v = s[threadIdx.x + half]; __syncwarp(); s[threadIdx.x] += v; __syncwarp();
    }
}
}
'''.replace('HEAD', 'int *data, int *flag, int *out')

CODES = dict(in_block_no_acquire='flag_not_acquired', ticket_of_the_block='fence_of_block',
    volatile_sum='race_of_volatiles',
    volatile_sum_between_fences='race_of_volatiles', volatile_sum_of_blocks='race_of_volatiles',
    neighbour_global='race_of_volatiles', in_block_volatile='race_of_volatiles',
    in_block_no_release='race', **dict.fromkeys(re.findall(r'void (warp_\w+|leader_\w+)', SRC), 'race_of_volatiles'),
    released_by_another='race_of_blocks')

KERNELS = re.findall(r'__global__ void (\w+)\(', SRC)
WRONG,RIGHT = [o for o in KERNELS if not o.startswith('right_')],[o for o in KERNELS if o.startswith('right_')]

@lru_cache
def compiled(): return cuda_kernel(SRC)

def run(kernel):
    data,flag,out = (np.zeros(512, np.int32) for _ in range(3))
    compiled()[kernel][4,64](data, flag, out)
    return data,flag,out

@pytest.mark.parametrize('kernel', WRONG)
def test_what_does_not_order_is_found(kernel):
    with pytest.raises(RacecheckError) as e: run(kernel)
    assert e.value.code==CODES.get(kernel, e.value.code), e.value
    assert e.value.array in ('data', 'flag', 's', 'f')

@pytest.mark.parametrize('kernel', RIGHT)
def test_what_orders_is_silent(kernel): run(kernel)

# memcpy, memset and structs that are copied: seen as loads and stores are

COPIES = r'''
#include <algorithm>
#include <cstring>
template <int n> struct Bytes { char at[n]; };
struct Row { int at[16]; };
#define LAST (data + 512)
#define BY(n) (char *)(data + 512) - (n)/2
#define CLEAR(p) __builtin_memset(p, 0, 12)
extern "C" {
// outside: half of it, or all; what is read is used, or clang does not read it
__global__ void outside_reading(HEAD) { int v[4]; memcpy(v, LAST - 2, 16); out[0] = v[0] + v[1] + v[2] + v[3]; }
__global__ void outside_of_run_time(HEAD) { memcpy(LAST - 2, out, n); }
__global__ void outside_3_bytes(HEAD) { memcpy(BY(3), out, 3); }
__global__ void outside_1_byte(HEAD) { memcpy(BY(1), out, 1); }
__global__ void outside_7_bytes(HEAD) { std::memcpy(BY(7), out, 7); }
__global__ void outside_64_bytes(HEAD) { memcpy(BY(64), out, 64); }
__global__ void outside_moved(HEAD) { memmove(LAST - 1, out, n); }
__global__ void outside_cleared(HEAD) { memset(BY(64), 0, 64); }
__global__ void outside_cleared_of_run_time(HEAD) { memset(LAST - 2, 0, n); }
__global__ void outside_struct(HEAD) { *(Row *)(LAST - 8) = *(Row *)out; }
__global__ void outside_odd_struct(HEAD) { *(Bytes<37> *)(LAST - 9) = *(Bytes<37> *)out; }
__global__ void outside_new_struct(HEAD) { *(Row *)(LAST - 8) = Row{}; }
__global__ void outside_by_copy(HEAD) { std::copy(out, out + n/4, LAST - 2); }
__global__ void outside_builtin(HEAD) { __builtin_memcpy(LAST - 1, out, 12); }
__global__ void outside_builtin_reading(HEAD) { __builtin_memcpy(out, LAST - 1, 20); }
__global__ void outside_builtin_moved(HEAD) { __builtin_memmove(LAST - 2, out, 12); }
__global__ void outside_builtin_cleared(HEAD) { __builtin_memset(LAST - 2, 0, 16); }
__global__ void outside_builtin_of_a_macro(HEAD) { CLEAR(LAST - 1); }
__global__ void outside_shared_builtin(HEAD) {
    __shared__ int data_[8]; if (threadIdx.x == 0) __builtin_memcpy(data_ + 6, out, 12);
}
__global__ void outside_shared(HEAD) { __shared__ int data_[8]; if (threadIdx.x == 0) memset(data_ + 5, 0, n); }
// unwritten
#define FRESH __shared__ int fresh[32]; if (threadIdx.x == 0) memset(fresh, 0, 20); __syncthreads();
__global__ void unwritten_of_run_time(HEAD) { FRESH memcpy(out, fresh + 4, n); }
__global__ void unwritten_3_bytes(HEAD) { FRESH memcpy(out, fresh + 5, 3); }
__global__ void unwritten_struct(HEAD) { FRESH *(Row *)out = *(Row *)fresh; }
__global__ void unwritten_in_part(HEAD) { FRESH memmove(out + 40, fresh, n + 16); }
__global__ void unwritten_builtin(HEAD) { FRESH __builtin_memcpy(out, fresh + 4, 12); }
// races
__global__ void race_builtin(HEAD) {
    if (threadIdx.x == 3) data[5] = 1;
    if (threadIdx.x == 40) __builtin_memset(data + 3, 0, 12);
}
__global__ void race_of_run_time(HEAD) {
    if (threadIdx.x == 3) data[5] = 1;
    memcpy(out + 64*threadIdx.x % 256, data, n + 8);
}
__global__ void race_cleared(HEAD) {
    if (threadIdx.x == 3) out[0] = data[5]; if (threadIdx.x == 40) memset(data, 0, n + 8);
}
__global__ void race_3_bytes(HEAD) { if (threadIdx.x == 3) data[5] = 1; if (threadIdx.x == 40) memset(data + 5, 0, 3); }
__global__ void race_copied(HEAD) {
    int v[6] = {0, 0, 0, 0, 0, int(threadIdx.x)}; if (threadIdx.x < 2) memcpy(data, v, n + 8);
}
__global__ void race_struct(HEAD) { Row r = {}; r.at[5] = threadIdx.x; if (threadIdx.x < 2) *(Row *)data = r; }
__global__ void race_shared(HEAD) {
    __shared__ int data_[32]; data_[threadIdx.x % 32] = 1; __syncthreads(); if (threadIdx.x == 7) data_[5] = 2;
    if (threadIdx.x == 50) memcpy(out, data_, n + 8);
}
// right
__global__ void right_copies(HEAD) {
    __shared__ Row rows[4];
    __shared__ int shared_[64];
    const int t = threadIdx.x;
    if (t < 4) { memset(rows + t, t, sizeof(Row)); Row r = rows[t]; r.at[3] = t; rows[t] = r; }
    memset(shared_ + t, 0, n/4);
    __syncthreads();
    float f; memcpy(&f, &shared_[63 - t], 4);
    Bytes<37> b; memset(&b, 1, 37);
    if (t < 4)
        memcpy(data + 16*t, rows + 3 - t, n*4), memmove(data + 16*t + 1, data + 16*t, n),
        *(Bytes<37> *)(out + 16*t) = b;
    if (t == 9) memcpy(out, &f, 0);
    int three[3]; __builtin_memcpy(three, rows[t % 4].at, 12); __builtin_memmove(three + 1, three, 8);
    __builtin_memcpy(data + 128 + 3*t, three, 12);
}
}
'''.replace('HEAD', 'int *data, int *out, int n')

COPYING = re.findall(r'__global__ void (\w+)\(', COPIES)

@lru_cache
def copies(): return cuda_kernel(COPIES)

def copy(kernel):
    data,out = (np.zeros(512, np.int32) for _ in range(2))
    copies()[kernel][1,64](data, out, 16)

@pytest.mark.filterwarnings('ignore::gridstride.diagnostics.errors.SameValueRace')
@pytest.mark.parametrize('kernel', [o for o in COPYING if not o.startswith('right_')])
def test_copies_are_seen(kernel):
    kind,array,index = next(v for k,v in dict(outside=(MemcheckError, 'data', 512),
        unwritten=(InitcheckError, 'fresh', 5), race=(RacecheckError, 'data', 5)).items() if kernel.startswith(k))
    with pytest.raises(kind) as e: copy(kernel)
    shared = 'shared' in kernel
    assert e.value.array==array + '_'*shared and e.value.index==((8 if index==512 and shared else index),), e.value
    assert re.findall(r'__global__ void (\w+)\(', '\n'.join(COPIES.splitlines()[:e.value.line]))[-1]==kernel

def test_right_copies_are_silent(): copy('right_copies')

# Addresses without memory, or the host's, whatever is stored there

WILD = r'''
#include <torch/extension.h>
struct Numbers { int at[60]; };
__constant__ int known[4] = {1, 2, 3, 4};
template <class T> __global__ void before_k(const T *x, T *out) { out[threadIdx.x] = x[threadIdx.x - 1]; }
__global__ void at_k(long long at, int write, int *out) { if (write) *(int *)at = *out; else *out = *(int *)at; }
__global__ void own_k(Numbers many, int *out) {
    static const float scale[4] = {1, 2, 3, 4};
    int mine[8];
    for (int i = 0; i < 8; i++) mine[i] = many.at[(threadIdx.x + i)%60] + known[i%4];
    out[threadIdx.x] = mine[threadIdx.x%8]*int(scale[threadIdx.x%4]);
}
template <class T> void before(torch::Tensor x) {
    before_k<<<1, 32>>>((const T *)x.data_ptr(), (T *)x.data_ptr() + 32);
}
void bytes(torch::Tensor x) { before<unsigned char>(x); }
void floats(torch::Tensor x) { before<float>(x); }
void doubles(torch::Tensor x) { before<double>(x); }
void vectors(torch::Tensor x) { before<float4>(x); }
void at(int64_t address, bool write, torch::Tensor out) { at_k<<<1, 1>>>(address, write, out.data_ptr<int>()); }
void at_stack(bool write, torch::Tensor out) {
    int here = 5;
    at((int64_t)&here, write, out);
}
void own(torch::Tensor out) { own_k<<<1, out.size(0)>>>(Numbers{{5, 6, 7, 8}}, out.data_ptr<int>()); }
'''

@lru_cache
def wild(): return load_cuda(WILD, funcs=['bytes', 'floats', 'doubles', 'vectors', 'at', 'at_stack', 'own'])

@pytest.mark.parametrize('T', ['bytes', 'floats', 'doubles', 'vectors'])
def test_an_unsigned_index_below_zero_is_named(T):
    with finding('memcheck wrapped') as e:
        getattr(wild(), T)(torch.ones(512, dtype=torch.uint8 if T=='bytes' else None))
    assert (e.value.array, e.value.index, e.value.thread)==('x', (2**32-1,), (0,0,0))

@pytest.mark.parametrize('write', [False, True])
def test_host_memory_is_not_a_kernel_s(write):
    numbers,out = np.zeros(1000, np.int32),torch.zeros(1, dtype=torch.int32)
    places = [ctypes.addressof(ctypes.c_void_p.in_dll(ctypes.pythonapi, 'PyExc_ValueError')),
              ctypes.addressof(ctypes.c_int.in_dll(ctypes.CDLL(None), 'environ')), numbers.ctypes.data, id(numbers)]
    for use in (lambda: wild().at_stack(write, out), *(partial(wild().at, o, write, out) for o in places)):
        with finding('memcheck kernel_writes_host' if write else 'memcheck kernel_reads_host'): use()

def test_constants_arguments_and_locals_are_the_kernel_s():
    out = torch.zeros(4, dtype=torch.int32)
    wild().own(out)
    assert out.tolist()==[1*(5+1), 2*(7+2), 3*3, 4*4]

# A sample of what benchmarks/memory_model.py judges by the thousand

@pytest.fixture(scope='module')
def generated():
    spec = importlib.util.spec_from_file_location('memory_model',
                                                  Path(__file__).parents[1]/'benchmarks/memory_model.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

@pytest.mark.parametrize('engine', ['emulator', 'simulator'])
def test_generated_programs(generated, engine, capsys):
    results = list(generated.run_programs(generated.programs(100, 5)) if engine=='emulator'
                   else generated.run_numba_programs(generated.numba_programs(100, 5)))
    missed,wrong,alarms,right = generated.print_table(results)
    assert missed==alarms==0 and wrong > 30 and right > 30, capsys.readouterr().out


def resident(): return int(Path('/proc/self/statm').read_text().split()[1])*os.sysconf('SC_PAGESIZE')


@pytest.mark.skipif(not Path('/proc/self/statm').exists(), reason='no /proc here')
def test_a_launch_leaves_little_memory_allocated():
    "Its arrays have addresses of their own, which are used again late; what the detectors know of them is given back"
    k = cuda_kernel('__global__ void k(float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }')
    x, y = torch.zeros(64), torch.zeros(64)
    for _ in range(20): k[1,64](x, y)
    before = resident()
    for _ in range(2000): k[1,64](x, y)
    assert resident() - before < 2000*8000
