"""The ladder of the chapter `hopper_gemm`: bfloat16 GEMMs with TMA and `wgmma`; each step applies one more
optimization. Names that end in `_src` are CUDA C.
"""

from .rung import Rung

types_src = r'''
typedef unsigned u32;
typedef unsigned long long u64;
struct alignas(64) TensorMap { char bytes[128]; };
constexpr int A_BYTES = BM*BK*2, B_BYTES = BK*BN*2, BOX = BK*64*2;   // of a tile of m, a tile of n, 64 columns of n

__device__ u32 address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ int cdiv(int a, int b) { return (a + b - 1)/b; }
'''

tma_load_src = r'''
__device__ void tma_load(u32 to, const TensorMap &x, int r, int c, u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(to), "l"(&x), "r"(c), "r"(r), "r"(bar) : "memory");
}
'''

barriers_src = r'''
__device__ void barrier_init(u32 bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}
__device__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void barrier_arrive(u32 bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(bar) : "memory"); }
__device__ void barrier_expect(u32 bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
__device__ void barrier_wait(u32 bar, int phase) {     // until phase `phase` has completed; phase -1 already has
    asm volatile("{ .reg .pred done;\nagain: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra again; }"
                 :: "r"(bar), "r"(phase & 1) : "memory");
}
'''

def wgmma(n, swap_ab=False):
    """Return CUDA C of a function that issues d (+)= a @ b for a of 64 x 16 and b of 16 x `n` elements. By default a is
    K-major and b is N-major in shared memory; with `swap_ab` a is M-major and b is K-major"""
    size = n//2
    registers,operands = ','.join(f'%{i}' for i in range(size)),', '.join(f'"+f"(d[{i}])' for i in range(size))
    return f"""
__device__ void wgmma(float (&d)[{size}], u64 a, u64 b, int more) {{
    asm volatile("{{ .reg .pred more; setp.ne.b32 more, %{size+2}, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 "
                 "{{{registers}}}, "
                 "%{size}, %{size+1}, more, 1, 1, {int(swap_ab)}, {int(not swap_ab)}; }}"
                 : {operands}
                 : "l"(a), "l"(b), "r"(more) : "memory");
}}
"""

wgmma_sync_src = r'''
__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template<int N> __device__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }

// For the compiler, which does not see that wgmma writes d later: it must assume that d is read and written here
template<int M, int N> __device__ void fence_accumulators(float (&d)[M][N]) {
    #pragma unroll
    for (int i = 0; i < M*N; i++) asm volatile("" : "+f"(d[i/N][i%N]) :: "memory");
}

__device__ u64 descriptor(u32 at, u32 lead) {
    return (at & 0x3ffff) >> 4 | (u64)(lead >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

'''

multiply_src = r'''
// Issues d (+)= the tile of m at `a` (64*M x BK) @ the tile of n at `b` (BK x BN), as one wgmma group
template<int M> __device__ void multiply(float (&d)[M][BN/2], u32 a, u32 b, bool more) {
    fence_accumulators(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BK; i += 16)                       // per wgmma 16 along k: 32 bytes in m, 16 rows in n
        #pragma unroll
        for (int x = 0; x < M; x++)
            wgmma(d[x], descriptor(a + x*64*128 + i*2, 16), descriptor(b + i*128, BOX), more || i > 0);
    wgmma_commit();
}
'''
all_wgmma_src = ''.join(wgmma(n) for n in (64,128,192,256)) + wgmma_sync_src + multiply_src

store_src = r'''
#include <cuda_bf16.h>

// Stores a warpgroup's 64*M x BN results, from row r and column c of out on
template<int M> __device__ void store(float (&d)[M][BN/2], __nv_bfloat16 *out, int r, int c, int h, int w) {
    int tr = threadIdx.x%128/32*16 + threadIdx.x%32/4, tc = threadIdx.x%4*2;
    #pragma unroll
    for (int x = 0; x < M; x++)
        #pragma unroll
        for (int j = 0; j < BN/2; j += 2) {
            int y = r + x*64 + tr + j/2%2*8, z = c + tc + j/4*8;
            if (y < h && z < w) *(__nv_bfloat162 *)&out[y*w + z] = __floats2bfloat162_rn(d[x][j], d[x][j+1]);
        }
}
'''

hopper_src = types_src + tma_load_src + barriers_src + all_wgmma_src

def boxes(BM):
    "Return the TMA boxes (rows, columns) of m and n"
    return dict(m=(BM,64), n=(64,64))

def tiles(BM, BN, BK, STAGES): # bytes
    "Return the shared memory for both tiles in all stages"
    return STAGES*(BM + BN)*BK*2

warpgroup = Rung('warpgroup', hopper_src + store_src + r'''
__global__ void __launch_bounds__(128)
warpgroup_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
            __nv_bfloat16 *out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bar[STAGES];
    u32 a = address(shared), b = a + A_BYTES, full = address(bar);
    int r = blockIdx.y*BM, c = blockIdx.x*BN;
    if (threadIdx.x == 0) { barrier_init(full, 1); fence_mbarrier_init(); }
    __syncthreads();
    float d[BM/64][BN/2];
    for (int ph = 0; ph < cdiv(k, BK); ph++) {
        if (threadIdx.x == 0) {
            barrier_expect(full, A_BYTES + B_BYTES);
            tma_load(a, m, r, ph*BK, full);
            for (int x = 0; x < BN; x += 64) tma_load(b + x/64*BOX, n, ph*BK, c + x, full);
        }
        barrier_wait(full, ph);                            // both tiles have arrived
        multiply(d, a, b, ph > 0);
        wgmma_wait<0>();
        fence_accumulators(d);
        __syncthreads();                                   // both tiles may be overwritten
    }
    store(d, out, r, c, h, w);
}
''', threads=128, shared=tiles, tma_boxes=boxes, dtype='bfloat16', BM=64, BN=64, BK=64, STAGES=1)

larger = warpgroup.variant('larger', BM=128, BN=128)

ring = Rung('ring', hopper_src + store_src + r'''
__global__ void __launch_bounds__(256)
ring_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
       __nv_bfloat16 *out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, full = address(bars), empty = full + 8*STAGES;
    int r = blockIdx.y*BM, c = blockIdx.x*BN;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 1); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 128) {                               // consumer
        float d[BM/64][BN/2];
        for (int ph = 0; ph < cdiv(k, BK); ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            barrier_wait(full + 8*s, phase);
            multiply(d, a + s*A_BYTES, b + s*B_BYTES, ph > 0);
            wgmma_wait<0>();
            fence_accumulators(d);
            if (threadIdx.x == 0) barrier_arrive(empty + 8*s);
        }
        store(d, out, r, c, h, w);
    } else if (threadIdx.x == 128) {                       // producer
        for (int ph = 0; ph < cdiv(k, BK); ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            barrier_wait(empty + 8*s, phase-1);
            barrier_expect(full + 8*s, A_BYTES + B_BYTES);
            tma_load(a + s*A_BYTES, m, r, ph*BK, full + 8*s);
            for (int x = 0; x < BN; x += 64) tma_load(b + s*B_BYTES + x/64*BOX, n, ph*BK, c + x, full + 8*s);
        }
    }
}
''', threads=256, shared=tiles, tma_boxes=boxes, dtype='bfloat16', BM=128, BN=128, BK=64, STAGES=4)

registers_src = r'''
template<int N> __device__ void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N)); }
template<int N> __device__ void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N)); }
'''

consumers = Rung('consumers', hopper_src + registers_src + store_src + r'''
__global__ void __launch_bounds__(384, 1)
consumers_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
            __nv_bfloat16 *out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, full = address(bars), empty = full + 8*STAGES;
    int r = blockIdx.y*BM, c = blockIdx.x*BN;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 2); }
        fence_mbarrier_init();
    }
    __syncthreads();
    int wg = threadIdx.x/128;
    if (wg < 2) {                                          // consumers
        setmaxnreg_inc<232>();
        float d[1][BN/2];
        for (int ph = 0; ph < cdiv(k, BK); ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            barrier_wait(full + 8*s, phase);
            multiply(d, a + s*A_BYTES + wg*64*128, b + s*B_BYTES, ph > 0);
            wgmma_wait<0>();
            fence_accumulators(d);
            if (threadIdx.x%128 == 0) barrier_arrive(empty + 8*s);
        }
        store(d, out, r + wg*64, c, h, w);
    } else {                                               // producer
        setmaxnreg_dec<40>();
        if (threadIdx.x == 256) for (int ph = 0; ph < cdiv(k, BK); ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            barrier_wait(empty + 8*s, phase-1);
            barrier_expect(full + 8*s, A_BYTES + B_BYTES);
            tma_load(a + s*A_BYTES, m, r, ph*BK, full + 8*s);
            for (int x = 0; x < BN; x += 64) tma_load(b + s*B_BYTES + x/64*BOX, n, ph*BK, c + x, full + 8*s);
        }
    }
}
''', threads=384, shared=tiles, tma_boxes=boxes, dtype='bfloat16', BM=128, BN=256, BK=64, STAGES=4)

tile_order_src = r'''
// The tile row and tile column of tile `tile`: bands of GROUP tile rows, column-major within a band (L2 reuse)
__device__ void tile_position(int tile, int tile_rows, int tile_cols, int &tr, int &tc) {
    int band = tile/(GROUP*tile_cols), inside = tile%(GROUP*tile_cols), rows = min(GROUP, tile_rows - band*GROUP);
    tr = band*GROUP + inside%rows; tc = inside/rows;
}
'''

persistent = Rung('persistent', hopper_src + registers_src + tile_order_src + store_src + r'''
__global__ void __launch_bounds__(384, 1)
persistent_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
             __nv_bfloat16 *out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, full = address(bars), empty = full + 8*STAGES;
    int tile_rows = cdiv(h, BM), tile_cols = cdiv(w, BN), tr, tc, ph = 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 2); }
        fence_mbarrier_init();
    }
    __syncthreads();
    int wg = threadIdx.x/128;
    if (wg < 2) {                                          // consumers
        setmaxnreg_inc<232>();
        float d[1][BN/2];
        for (int tile = blockIdx.x; tile < tile_rows*tile_cols; tile += gridDim.x) {
            tile_position(tile, tile_rows, tile_cols, tr, tc);
            for (int idx = 0; idx < k; idx += BK, ph++) {
                int s = ph%STAGES, phase = ph/STAGES;
                barrier_wait(full + 8*s, phase);
                multiply(d, a + s*A_BYTES + wg*64*128, b + s*B_BYTES, idx > 0);
                wgmma_wait<0>();
                fence_accumulators(d);
                if (threadIdx.x%128 == 0) barrier_arrive(empty + 8*s);
            }
            store(d, out, tr*BM + wg*64, tc*BN, h, w);
        }
    } else {                                               // producer
        setmaxnreg_dec<40>();
        if (threadIdx.x == 256) for (int tile = blockIdx.x; tile < tile_rows*tile_cols; tile += gridDim.x) {
            tile_position(tile, tile_rows, tile_cols, tr, tc);
            for (int idx = 0; idx < k; idx += BK, ph++) {
                int s = ph%STAGES, phase = ph/STAGES;
                u32 bar = full + 8*s;
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(bar, A_BYTES + B_BYTES);
                tma_load(a + s*A_BYTES, m, tr*BM, idx, bar);
                for (int x = 0; x < BN; x += 64) tma_load(b + s*B_BYTES + x/64*BOX, n, idx, tc*BN + x, bar);
            }
        }
    }
}
''', threads=384, shared=tiles, tma_boxes=boxes, grid=lambda sms: (sms,1), dtype='bfloat16',
    BM=128, BN=256, BK=64, STAGES=4, GROUP=16)

clusters_src = r'''
__device__ int rank() { u32 x; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(x)); return x; }
__device__ void cluster_sync() { asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory"); }
__device__ void barrier_arrive_at(u32 bar, int rank) {      // at the barrier at the same address of another block
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote]; }"
                 :: "r"(bar), "r"(rank) : "memory");
}
__device__ void tma_load_multicast(u32 to, const TensorMap &x, int r, int c, u32 bar, short blocks) {  // bit mask
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(to), "l"(&x), "r"(c), "r"(r), "r"(bar), "h"(blocks) : "memory");
}
'''

pairs = Rung('pairs', hopper_src + registers_src + tile_order_src + clusters_src + store_src + r'''
__global__ void __cluster_dims__(2) __launch_bounds__(384, 1)
pairs_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
        __nv_bfloat16 *out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, full = address(bars), empty = full + 8*STAGES;
    int tile_rows = cdiv(h, 2*BM), tile_cols = cdiv(w, BN), tr, tc, ph = 0;      // a tile belongs to a cluster now
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 2*2); }
        fence_mbarrier_init();
    }
    cluster_sync();
    int wg = threadIdx.x/128;
    if (wg < 2) {                                          // consumers
        setmaxnreg_inc<232>();
        float d[1][BN/2];
        for (int tile = blockIdx.x/2; tile < tile_rows*tile_cols; tile += gridDim.x/2) {
            tile_position(tile, tile_rows, tile_cols, tr, tc);
            for (int idx = 0; idx < k; idx += BK, ph++) {
                int s = ph%STAGES, phase = ph/STAGES;
                barrier_wait(full + 8*s, phase);
                multiply(d, a + s*A_BYTES + wg*64*128, b + s*B_BYTES, idx > 0);
                wgmma_wait<0>();
                fence_accumulators(d);
                if (threadIdx.x%128 < 2) barrier_arrive_at(empty + 8*s, threadIdx.x%128);
            }
            store(d, out, (2*tr + rank())*BM + wg*64, tc*BN, h, w);
        }
    } else {                                               // producer
        setmaxnreg_dec<40>();
        if (threadIdx.x == 256) for (int tile = blockIdx.x/2; tile < tile_rows*tile_cols; tile += gridDim.x/2) {
            tile_position(tile, tile_rows, tile_cols, tr, tc);
            for (int idx = 0; idx < k; idx += BK, ph++) {
                int s = ph%STAGES, phase = ph/STAGES;
                u32 bar = full + 8*s;
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(bar, A_BYTES + B_BYTES);
                tma_load(a + s*A_BYTES, m, (2*tr + rank())*BM, idx, bar);
                for (int x = rank()*BN/2; x < (rank()+1)*BN/2; x += 64)
                    tma_load_multicast(b + s*B_BYTES + x/64*BOX, n, idx, tc*BN + x, bar, 3);
            }
        }
    }
    cluster_sync();
}
''', threads=384, shared=tiles, tma_boxes=boxes, grid=lambda sms: (sms//2*2,1), dtype='bfloat16',
    BM=128, BN=256, BK=64, STAGES=4, GROUP=8)

tma_store_src = r'''
__device__ u32 pack(float lo, float hi) {
    u32 x;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(hi), "f"(lo));
    return x;
}
__device__ void stmatrix(u32 to, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ void fence_for_tma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void tma_store(const TensorMap &x, int r, int c, u32 from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&x), "r"(c), "r"(r), "r"(from) : "memory");
}
__device__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void stores_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

'''

store_by_tma_src = r'''
// Stores a warp's 16 x BN results, from row r and column c on, staging 64 columns at a time in its 2048 bytes at `s`
__device__ void store_by_tma(float (&d)[BN/2], const TensorMap &out, int r, int c, u32 s) {
    int lane = threadIdx.x%32, tr = lane%16;
    #pragma unroll
    for (int x = 0; x < BN; x += 64) {
        if (lane == 0) stores_wait_read();                 // the previous store has read them
        __syncwarp();
        #pragma unroll
        for (int y = 0; y < 64; y += 16) {
            float *e = d + (x + y)/2;
            u32 to = s + tr*128 + ((y/8 + lane/16) ^ tr%8)*16;
            stmatrix(to, pack(e[0], e[1]), pack(e[2], e[3]), pack(e[4], e[5]), pack(e[6], e[7]));
        }
        fence_for_tma();
        __syncwarp();
        if (lane == 0) { tma_store(out, r, c + x, s); stores_commit(); }
    }
}
'''
all_stores_src = tma_store_src + store_by_tma_src

stored_src = r'''
__global__ void __cluster_dims__(2) __launch_bounds__(384, 1)
stored_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
         const __grid_constant__ TensorMap out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, o = b + STAGES*B_BYTES;
    u32 full = address(bars), empty = full + 8*STAGES;
    int tile_rows = cdiv(h, 2*BM), tile_cols = cdiv(w, BN), tr, tc, ph = 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 2*2); }
        fence_mbarrier_init();
    }
    cluster_sync();
    int wg = threadIdx.x/128, warp = threadIdx.x/32;
    if (wg < 2) {                                          // consumers
        setmaxnreg_inc<232>();
        float d[1][BN/2];
        for (int tile = blockIdx.x/2; tile < tile_rows*tile_cols; tile += gridDim.x/2) {
            tile_position(tile, tile_rows, tile_cols, tr, tc);
            for (int idx = 0; idx < k; idx += BK, ph++) {
                int s = ph%STAGES, phase = ph/STAGES;
                barrier_wait(full + 8*s, phase);
                multiply(d, a + s*A_BYTES + wg*64*128, b + s*B_BYTES, idx > 0);
                wgmma_wait<0>();
                fence_accumulators(d);
                if (threadIdx.x%128 < 2) barrier_arrive_at(empty + 8*s, threadIdx.x%128);
            }
            store_by_tma(d[0], out, (2*tr + rank())*BM + warp*16, tc*BN, o + warp*2048);
        }
        if (threadIdx.x%32 == 0) stores_wait_read();
    } else {                                               // producer
        setmaxnreg_dec<40>();
        if (threadIdx.x == 256) for (int tile = blockIdx.x/2; tile < tile_rows*tile_cols; tile += gridDim.x/2) {
            tile_position(tile, tile_rows, tile_cols, tr, tc);
            for (int idx = 0; idx < k; idx += BK, ph++) {
                int s = ph%STAGES, phase = ph/STAGES;
                u32 bar = full + 8*s;
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(bar, A_BYTES + B_BYTES);
                tma_load(a + s*A_BYTES, m, (2*tr + rank())*BM, idx, bar);
                for (int x = rank()*BN/2; x < (rank()+1)*BN/2; x += 64)
                    tma_load_multicast(b + s*B_BYTES + x/64*BOX, n, idx, tc*BN + x, bar, 3);
            }
        }
    }
    cluster_sync();
}
'''

def boxes_with_out(BM):
    "Return the TMA boxes (rows, columns) of m, n and out: 16 rows per warp for out"
    return dict(m=(BM,64), n=(64,64), out=(16,64))

def tiles_and_out(BM, BN, BK, STAGES): # bytes
    "Return the shared memory for the tiles, and for a box of results per warp"
    return tiles(BM, BN, BK, STAGES) + 8*2048

stored_functions_src = hopper_src + registers_src + tile_order_src + clusters_src + all_stores_src
stored = Rung('stored', stored_functions_src + stored_src, threads=384, shared=tiles_and_out, tma_boxes=boxes_with_out,
              grid=lambda sms: (sms//2*2,1), dtype='bfloat16', BM=128, BN=256, BK=64, STAGES=4, GROUP=8)
