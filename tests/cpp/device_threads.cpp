// What threads do together: shuffles, votes, atomics, cooperative groups, barriers. One line for each kernel: a digest
// of what its threads wrote. nvcc made device_threads.txt of this file; the emulator must make the same.
#include <stdio.h>
#include <string.h>
#ifdef __CUDACC__
template <class T> using Same = T;
#define SHARED(name, ...) __shared__ Same<__VA_ARGS__> name
#define LAUNCH(kernel, grid, block, ...) kernel<<<grid, block>>>(__VA_ARGS__)
#else
#include "emulator.h"
#define SHARED(name, ...) auto &name = ::gridstride::shared<__VA_ARGS__, __COUNTER__>(#name)
#define LAUNCH(kernel, grid, block, ...) \
    ::gridstride::launch(::gridstride::Config(grid, block), #kernel, __LINE__, \
                         [&](auto... a) { kernel(a...); }, __VA_ARGS__)
#endif
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

typedef unsigned long long Word;
enum { cells = 64 * 1024 };      // what a kernel may write; those that it does not stay 0

struct Writer {                  // gives a thread's results their places, one after another
    Word *at;
    int step;
    __device__ void operator()(Word x) { *at = x + 1; at += step; }
};
__device__ inline int rank() { return int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)); }
__device__ inline Writer writer(Word *out) {
    const int threads = int(blockDim.x * blockDim.y * blockDim.z);
    return {out + rank() + int(blockIdx.x) * threads, threads * int(gridDim.x)};
}
__device__ inline unsigned noise(unsigned x) { x *= 2654435761u; x ^= x >> 15; x *= 2246822519u; return x ^ x >> 13; }

__global__ void shuffle_widths(Word *out) {
    Writer write = writer(out);
    const int mine = 1000 + rank();
    for (int width = 1; width <= 32; width *= 2)
        for (int n : {0, 1, 2, 3, 7, 8, 15, 16, 31}) {
            write(Word(__shfl_sync(~0u, mine, n, width)));
            write(Word(__shfl_sync(~0u, mine, rank() + n, width)));
            write(Word(__shfl_up_sync(~0u, mine, unsigned(n), width)));
            write(Word(__shfl_down_sync(~0u, mine, unsigned(n), width)));
            write(Word(__shfl_xor_sync(~0u, mine, n & (width - 1), width)));
        }
}
__global__ void shuffle_types(Word *out) {
    Writer write = writer(out);
    const int r = rank();
    write(Word(__shfl_xor_sync(~0u, r - 5.5f, 3) * 8 + 100000));
    write(Word(__shfl_down_sync(~0u, r * 1e10, 1)));
    write(Word(__shfl_up_sync(~0u, (long long)r << 40, 2)));
    write(__shfl_sync(~0u, ~Word(r), 5));
    write(Word(__shfl_sync(~0u, long(-r), 6)));
    write(__shfl_sync(~0u, (unsigned long)r, 9));
    write(__shfl_xor_sync(~0u, unsigned(r), 16));
    write(__half_as_ushort(__shfl_xor_sync(~0u, __float2half(float(r)), 4)));
    write(Word(__high2float(__shfl_down_sync(~0u, __floats2half2_rn(1.0f, float(r)), 4))));
    write(__bfloat16_as_ushort(__shfl_sync(~0u, __float2bfloat16(float(r)), 7)));
    write(Word(__low2float(__shfl_up_sync(~0u, __floats2bfloat162_rn(float(r), 1.0f), 1, 16))));
}
__global__ void shuffle_some(Word *out) {
    Writer write = writer(out);
    const unsigned mask = 0x5a5a33cc;
    const int lane = rank() & 31;
    if (mask >> lane & 1) {
        const int next = 31 - __clz(int(mask & ((1u << lane) - 1)));
        write(Word(__shfl_sync(mask, 7 * rank(), next < 0 ? 31 - __clz(int(mask)) : next)));
        write(Word(__shfl_sync(mask, 7 * rank(), 2)));
    }
}
__global__ void votes(Word *out) {
    Writer write = writer(out);
    const unsigned r = unsigned(rank()), x = noise(r);
    write(__ballot_sync(~0u, x & 1));
    write(Word(__any_sync(~0u, r == 7)));
    write(Word(__all_sync(~0u, r != 7) != 0));
    write(Word(__uni_sync(~0u, r < 32) != 0));
    write(__match_any_sync(~0u, x % 5));
    write(__match_any_sync(~0u, double(x % 3)));
    int same = 3;
    write(__match_all_sync(~0u, r / 32, &same));
    write(Word(same != 0));
    write(__match_all_sync(~0u, (long long)(r / 16), &same));
    write(Word(same != 0));
    write(__reduce_add_sync(~0u, x));
    write(Word(__reduce_add_sync(~0u, -int(r))));
    write(__reduce_min_sync(~0u, x));
    write(Word(__reduce_min_sync(~0u, int(x))));
    write(__reduce_max_sync(~0u, x));
    write(Word(__reduce_max_sync(~0u, int(x))));
    write(__reduce_and_sync(~0u, x | 0xf0));
    write(__reduce_or_sync(~0u, x & 0xff0f));
    write(__reduce_xor_sync(~0u, x));
    if (r % 3 == 0) {
        const unsigned mask = r < 32 ? 0x49249249u : 0x92492492u;    // every third thread, of both warps
        write(__ballot_sync(mask, x & 1));
        write(Word(__all_sync(mask, 1) != 0));
        write(Word(__any_sync(mask, 0)));
        write(__match_any_sync(mask, x % 2));
        write(__reduce_add_sync(mask, r));
    }
    __syncwarp();
}
__global__ void block_votes(Word *out) {
    Writer write = writer(out);
    const int r = rank();
    write(Word(__syncthreads_count(r % 3)));
    write(Word(__syncthreads_and(r < 60) != 0));
    write(Word(__syncthreads_and(r + 1) != 0));
    write(Word(__syncthreads_or(r == 60) != 0));
    write(Word(__syncthreads_or(0)));
    SHARED(s, int[96]);
    s[r] = r * r;
    __syncthreads();
    write(Word(s[95 - r]));
}

__global__ void integer_atomics(Word *out) {
    int *i = reinterpret_cast<int *>(out);
    unsigned *u = reinterpret_cast<unsigned *>(out + 32);
    long long *l = reinterpret_cast<long long *>(out + 64);
    Word *w = out + 96;
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x, x = noise(t);
    atomicAdd(&i[0], int(x)); atomicSub(&i[1], int(t)); atomicMin(&i[2], int(x)); atomicMax(&i[3], int(x));
    atomicOr(&i[4], int(x & 0xf0f0)); atomicXor(&i[5], int(x));
    atomicAdd(&u[0], x); atomicSub(&u[1], x); atomicMax(&u[2], x); atomicInc(&u[3], 41u); atomicDec(&u[4], 41u);
    atomicOr(&u[5], 1u << t % 32); atomicAdd_block(&u[16 + blockIdx.x], 1u); atomicAdd_system(&u[7], 2u);
    atomicMin(&l[0], -(long long)x * x); atomicMax(&l[1], (long long)x * x);
    atomicAdd(&w[0], Word(x) * x); atomicMax(&w[1], Word(x) * x); atomicXor(&w[2], Word(x) * x);
    atomicOr(&w[3], Word(x)); atomicExch(&w[4], Word(77));
    for (unsigned was = 0, assumed = 1; was != assumed;) {
        assumed = was; was = atomicCAS(&u[8], assumed, assumed + t);
    }
    unsigned short *s = reinterpret_cast<unsigned short *>(out + 160);
    for (unsigned short was = 0, assumed = 1; was != assumed;) {
        assumed = was; was = atomicCAS(&s[1], assumed, (unsigned short)(assumed + 3));
    }
    atomicCAS(&w[5], 0ull, 5ull);
    atomicCAS(&i[6], 1, 9);
    if (t == 0) { i[8] = atomicExch(&i[9], 4); u[12] = atomicInc(&u[13], 3u); u[14] = atomicDec(&u[15], 9u); }
}
__global__ void float_atomics(Word *out) {
    float *f = reinterpret_cast<float *>(out);
    const int t = int(blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(&f[0], float(t % 8) / 4);
    atomicAdd(reinterpret_cast<double *>(out + 8), t + 0.5);
    atomicAdd(reinterpret_cast<half *>(out + 16), __float2half(float(t % 4)));
    atomicAdd(reinterpret_cast<half2 *>(out + 17), __floats2half2_rn(float(t % 2), 2.0f));
    atomicAdd(reinterpret_cast<__nv_bfloat16 *>(out + 18), __float2bfloat16(1.0f));
    atomicAdd(reinterpret_cast<__nv_bfloat162 *>(out + 19), __floats2bfloat162_rn(1.0f, 0.5f));
    atomicAdd(reinterpret_cast<float2 *>(out + 20), make_float2(float(t), 1.0f));
    atomicAdd(reinterpret_cast<float4 *>(out + 22), make_float4(float(t), 1.0f, 2.0f, -3.0f));
    atomicExch(&f[2], 2.5f);
}

__global__ void tiles(Word *out) {
    Writer write = writer(out);
    const auto block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    const auto eight = cg::tiled_partition<8>(warp);
    const cg::thread_block_tile<4> four = cg::tiled_partition<4>(block);
    const int x = int(noise(unsigned(rank())) >> 8);
    write(block.thread_rank()); write(block.size()); write(block.group_index().x); write(block.thread_index().y);
    write(block.dim_threads().x); write(block.num_threads());
    write(warp.thread_rank()); write(warp.meta_group_rank()); write(warp.meta_group_size()); write(eight.thread_rank());
    write(eight.size());
    write(eight.meta_group_rank()); write(eight.meta_group_size()); write(four.meta_group_rank());
    write(four.meta_group_size());
    for (int n : {0, 1, 2, 3}) {
        write(Word(warp.shfl(x, n * 9))); write(Word(eight.shfl(x, n))); write(Word(eight.shfl_up(x, unsigned(n))));
        write(Word(eight.shfl_down(x, unsigned(n)))); write(Word(four.shfl_xor(x, unsigned(n))));
        write(Word(warp.shfl_down(x, unsigned(n))));
    }
    write(eight.ballot(x & 1)); write(Word(eight.any(x % 7 == 0) != 0)); write(Word(four.all(x & 3) != 0));
    write(eight.match_any(x % 3)); int same; write(four.match_all(1, same)); write(Word(same != 0));
    write(Word(cg::reduce(warp, x, cg::plus<int>()))); write(Word(cg::reduce(eight, x, cg::less<int>())));
    write(Word(cg::reduce(four, x, cg::greater<int>())));
    write(Word(cg::reduce(eight, unsigned(x), cg::bit_xor<unsigned>())));
    write(Word(__float_as_uint(cg::reduce(warp, 1.0f / float(x + 1), cg::plus<float>()))));
    write(Word(__double_as_longlong(cg::reduce(eight, 1.0 / (x + 1), cg::plus<double>()))));
    write(Word(cg::inclusive_scan(eight, x))); write(Word(cg::exclusive_scan(warp, x)));
    write(Word(cg::inclusive_scan(warp, x, cg::greater<int>())));
    const double4_16a big = eight.shfl(make_double4_16a(x, x + 1, x + 2, x + 3), 3);
    write(Word(big.x + 3 * big.w));
    const auto odd = cg::binary_partition(eight, x & 1);
    write(odd.size()); write(odd.thread_rank()); write(odd.meta_group_rank()); write(odd.meta_group_size());
    const auto third = cg::labeled_partition(warp, x % 3);
    write(third.size()); write(third.thread_rank()); write(third.meta_group_rank()); write(third.meta_group_size());
    write(Word(third.shfl(x, 0))); write(Word(cg::reduce(third, x, cg::plus<int>())));
    write(Word(__float_as_uint(cg::reduce(third, 1.0f / float(x + 1), cg::plus<float>()))));
    const auto dynamic = cg::tiled_partition(block, 16);
    write(dynamic.size()); write(dynamic.thread_rank());
    dynamic.sync();
    write(Word(cg::invoke_one_broadcast(eight, [&] { return 5; })));
    cg::sync(warp);
}
__global__ void coalesced(Word *out) {
    Writer write = writer(out);
    const int r = rank();
    if (noise(unsigned(r)) % 3) {
        const auto group = cg::coalesced_threads();
        write(group.size()); write(group.thread_rank()); write(Word(group.shfl(r, 1))); write(group.ballot(r & 1));
        write(Word(group.any(r == 5) != 0)); write(group.match_any(r % 4));
        const unsigned n = group.thread_rank();
        const int before = group.shfl_up(r, 2), after = group.shfl_down(r, 1);
        write(Word(n >= 2 ? before : 0)); write(Word(n + 1 < group.size() ? after : 0));
        write(Word(cg::reduce(group, r, cg::plus<int>()))); write(Word(cg::inclusive_scan(group, r)));
        write(Word(cg::exclusive_scan(group, r)));
        const auto part = cg::tiled_partition(group, 4);
        write(part.size()); write(part.thread_rank()); write(part.meta_group_rank()); write(part.meta_group_size());
        write(Word(part.shfl(r, 0)));
    }
}
__global__ void whole_grid(Word *out) {
    Writer write = writer(out);
    const auto grid = cg::this_grid();
    write(grid.thread_rank()); write(grid.size()); write(grid.num_blocks()); write(grid.block_rank());
    write(grid.dim_blocks().x); write(grid.block_index().x);
    SHARED(s, int[64]);
    const auto block = cg::this_thread_block();
    if (block.thread_rank() < 64) s[block.thread_rank()] = 0;
    block.sync();
    cg::invoke_one(block, [&] { s[3] = 9; });
    block.sync();
    write(Word(s[3]));
}

__global__ void copies(Word *out) {
    Writer write = writer(out + 4096);
    SHARED(s, Word[64]);
    const auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, out + 60000, sizeof(Word) * 64);
    cg::wait(block);
    write(s[63 - rank()]);
    block.sync();
    __pipeline_memcpy_async(&s[rank()], &out[60000 + (rank() + 1) % 64], 8);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    write(s[63 - rank()] + 1);
}
__global__ void objects(Word *out) {
    auto *a = reinterpret_cast<cuda::atomic<int, cuda::thread_scope_device> *>(out);
    auto *f = reinterpret_cast<cuda::atomic<float, cuda::thread_scope_device> *>(out + 8);
    const int t = int(blockIdx.x * blockDim.x + threadIdx.x), x = int(noise(unsigned(t)) >> 4);
    a[0].fetch_add(x, cuda::memory_order_relaxed); a[1].fetch_max(x); a[2].fetch_or(x);
    a[3].fetch_xor(x, cuda::std::memory_order_acq_rel); a[4] += 2; a[5]++; --a[6]; a[7].fetch_min(-x);
    a[8].fetch_and(x); a[9] |= 6; a[10].fetch_sub(x);
    f[0].fetch_add(0.25f);
    cuda::atomic_ref<Word, cuda::thread_scope_block> r(out[12 + blockIdx.x]);
    Word was = r.load(cuda::memory_order_relaxed);
    while (!r.compare_exchange_weak(was, was + Word(x), cuda::memory_order_release, cuda::memory_order_relaxed)) {}
    if (t == 0) {
        a[40] = 8;
        int expected = 7;
        a[41].store(a[40].compare_exchange_strong(expected, 9), cuda::memory_order_release);
        a[42].store(expected);
        a[43].store(a[40].exchange(3) + a[40]++ + ++a[40] + (a[40] += 5) + a[40].load());
    }
}
__global__ void arrivals(Word *out) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    Writer write = writer(out);
    SHARED(bar, Barrier[2]);       // nvcc warns of it, init() is what it asks for
    SHARED(s, int[96]);
    SHARED(total, int);
    const int r = rank();
    if (r == 0) { init(&bar[0], blockDim.x); init(&bar[1], blockDim.x); total = 0; }
    __syncthreads();
    s[r] = r * 3;
    bar[0].arrive_and_wait();
    write(Word(s[95 - r]));
    auto token = bar[1].arrive();
    atomicAdd(&total, r);
    bar[1].wait(static_cast<Barrier::arrival_token &&>(token));
    bar[0].arrive_and_wait();
    write(Word(total));
    if (r >= 64) { bar[0].arrive_and_drop(); return; }
    for (int i = 0; i < 3; i++) {
        s[r] = i * 100 + r;
        bar[0].arrive_and_wait();
        write(Word(s[63 - r]));
        bar[0].arrive_and_wait();
    }
}

Word digest(const Word *p) {
    Word d = 1;
    for (int i = 0; i < cells; i++) d = (d ^ p[i]) * 0x9e3779b97f4a7c15ull, d ^= d >> 29;
    return d;
}
Word result[cells];

#define CHECK(kernel, grid, block) { \
        Word *out; \
        cudaMalloc(&out, sizeof result); \
        for (int i = 0; i < cells; i++) result[i] = i < 60000 ? 0 : Word(i); \
        cudaMemcpy(out, result, sizeof result, cudaMemcpyHostToDevice); \
        LAUNCH(kernel, grid, block, out); \
        cudaMemcpy(result, out, sizeof result, cudaMemcpyDeviceToHost); \
        fprintf(stdout, "%s\t%016llx\n", #kernel, cudaGetLastError() == cudaSuccess ? digest(result) : 0ull); \
        cudaFree(out); \
    }
int main() {
#ifdef CHECKED
    const gridstride_options all = {1 << gridstride::memcheck | 1 << gridstride::racecheck |
                                    1 << gridstride::initcheck | 1 << gridstride::synccheck, 0, 0, 1, 100, 0, 1};
    gridstride_set_options(&all);
#endif
    CHECK(shuffle_widths, 2, 64)
    CHECK(shuffle_types, 2, 64)
    CHECK(shuffle_some, 2, 64)
    CHECK(votes, 2, 64)
    CHECK(block_votes, 3, 96)
    CHECK(integer_atomics, 3, 96)
    CHECK(float_atomics, 3, 96)
    CHECK(tiles, 2, dim3(16, 6))
    CHECK(coalesced, 2, 64)
    CHECK(whole_grid, 3, dim3(8, 4, 2))
    CHECK(copies, 1, 64)
    CHECK(objects, 3, 96)
    CHECK(arrivals, 2, 96)
}
