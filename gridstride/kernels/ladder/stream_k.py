"""`final_gemm`: the last kernel of the chapter `hopper_gemm`. Its constants are the size of the tiles, the shape of the
clusters, and whether the last wave is split along k (stream-K); `choose` returns the kernel with the lowest estimated
time for a shape.

The parameters in `estimate_cycles` were fitted to measurements of 53 random shapes on an H100. Fitted parameters also
absorb effects that the formula ignores, and `CORRECTION_FACTORS` has a factor per tile from the same measurements. So
use the estimate to compare tiles, not to predict a time.
"""

from functools import cache

from .hopper import barriers_src, clusters_src, registers_src, tile_order_src, tma_load_src, tma_store_src, types_src
from .hopper import wgmma, wgmma_sync_src
from .rung import Rung
from ...utils import cdiv

# Stream-K for the last, partial wave: its tiles are split along k, and their steps (of 64 elements along k) are divided
# evenly among clusters. A cluster has at most as many steps as a tile, so its part contains at most the end of one tile
# and the start of the next one. A cluster stores its partial sums before it waits for those of other clusters, which
# rules out a deadlock. All threads compute the same `Schedule`, so producer and consumers agree without
# synchronization.
schedule_src = r'''
constexpr int CLUSTER = CM*CN;                                           // blocks per cluster
constexpr int CLUSTER_ROWS = SWAP_AB ? BN*CN : BM*CM, CLUSTER_COLS = SWAP_AB ? BM*CM : BN*CN;      // of out

struct Piece { int tile, from, to, x, y; };    // steps `from` to `to` of a tile; x, y: along wgmma's rows and columns

// Complete tiles first, then an equal part of the steps of the last `split_tiles` tiles (stream-K)
struct Schedule {
    int tile_rows, tile_cols, steps, clusters, next_tile, split_tiles, parts, part, pos, end;
    __device__ Schedule(int h, int w, int k, int cluster, int clusters)
        : tile_rows(cdiv(h, CLUSTER_ROWS)), tile_cols(cdiv(w, CLUSTER_COLS)), steps(cdiv(k, BK)), clusters(clusters),
          next_tile(cluster) {
        split_tiles = STREAM_K ? tile_rows*tile_cols%clusters : 0;
        parts = min(clusters, min(split_tiles*8, split_tiles*steps/4));  // at most 8 per tile, at least 4 steps each
        if (parts <= split_tiles) split_tiles = parts = 0;               // the parts would be too short
        bool has_part = cluster < parts;
        part = has_part ? cluster : 0;
        pos = has_part ? begin(part) : 0;
        end = has_part ? begin(part + 1) : 0;
    }
    __device__ int begin(int part) { return (u32)(split_tiles*steps*part)/(u32)parts; }
    __device__ bool next(Piece &p) {
        int whole_tiles = tile_rows*tile_cols - split_tiles, tr, tc;
        if (next_tile < whole_tiles) {
            p.tile = next_tile;
            p.from = 0; p.to = steps;
            next_tile += clusters;
        } else if (pos < end) {
            int t = pos/steps;
            p.tile = whole_tiles + t;
            p.from = pos - t*steps; p.to = min(steps, p.from + end - pos);
            pos += p.to - p.from;
        } else return false;
        tile_position(p.tile, tile_rows, tile_cols, tr, tc);
        p.x = SWAP_AB ? tc : tr; p.y = SWAP_AB ? tr : tc;
        return true;
    }
    // Returns whether this later part also contains steps of the piece's tile
    __device__ bool contributes(int part, const Piece &p) {
        return part < parts && begin(part) < (p.tile - (tile_rows*tile_cols - split_tiles) + 1)*steps;
    }
};
'''


# Another SM reads the partial sums, so they bypass the L1 cache. The flag is stored with release and loaded with
# acquire semantics: writes before the release are visible after the acquire. One slot per block is enough, because a
# part has partial sums of at most one tile.
partial_sums_src = r'''
__device__ float4 partial[STREAM_K ? 132*BM*BN/4 : 1];     // partial sums, one slot per block
__device__ u32 ready[132*WGS*4];                        // one flag per warp: its partial sums are stored

// Stores a warp's partial sums for the block that has the first part of the tile
template<int M, int R> __device__ void store_partials(float (&d)[M][R], int slot) {
    float4 *sum = partial + (u64)slot*BM*BN/4 + threadIdx.x;
    #pragma unroll
    for (int i = 0; i < M*R; i += 4) {
        float *e = &d[i/R][i%R];
        __stcg(sum + i/4*WGS*128, make_float4(e[0], e[1], e[2], e[3]));
    }
    __syncwarp();
    u32 *flag = ready + slot*WGS*4 + threadIdx.x/32;
    if (threadIdx.x%32 == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" :: "l"(flag) : "memory");
}

// Waits for the partial sums of the same warp of another block, and adds them (fixup)
template<int M, int R> __device__ void add_partials(float (&d)[M][R], int slot) {
    u32 *flag = ready + slot*WGS*4 + threadIdx.x/32, set = 0;
    if (threadIdx.x%32 == 0) {
        while (!set) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(set) : "l"(flag) : "memory");
        *flag = 0;                                      // for the next launch
    }
    __syncwarp();
    const float4 *sum = partial + (u64)slot*BM*BN/4 + threadIdx.x;
    #pragma unroll
    for (int i = 0; i < M*R; i += 4) {
        float *e = &d[i/R][i%R];
        float4 v = __ldcg(sum + i/4*WGS*128);
        e[0] += v.x; e[1] += v.y; e[2] += v.z; e[3] += v.w;
    }
}
'''


# If several blocks of a cluster need the same box, each loads a part of it and multicasts this part to all of them. i
# and j are the block's position in its cluster along wgmma's rows and columns. In the mask `same_i`, the quotient has
# every CM-th bit set.
multicast_src = r'''
__device__ void prefetch(const TensorMap &x) { asm volatile("prefetch.tensormap [%0];" :: "l"(&x) : "memory"); }
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

// Loads this block's part of a box of ROWS rows, multicast to all `blocks`
template<int PARTS, int ROWS>
__device__ void load_part(u32 to, const TensorMap &x, int r, int c, u32 bar, int part, short blocks) {
    if (PARTS == 1) tma_load(to, x, r, c, bar);
    else tma_load_multicast(to + part*(ROWS/PARTS)*128, x, r + part*(ROWS/PARTS), c, bar, blocks);
}
'''
load_step_src = (
    multicast_src
    + r'''
// Loads the tiles of a step, from `at` on along k, for the block in row i and column j of its cluster
__device__ void load_step(u32 a, u32 b, const TensorMap &m, const TensorMap &n, int x, int y, int at, u32 bar,
                          int i, int j) {
    // masks of the blocks that need the same tile a, and the same tile b
    short same_i = ((1 << CLUSTER) - 1)/((1 << CM) - 1) << i, same_j = ((1 << CM) - 1) << j*CM;
    if (SWAP_AB) {
        for (int c = 0; c < BM; c += 64) load_part<CN, BK>(a + c/64*BOX, n, at, x + c, bar, j, same_i);
        load_part<CM, BN>(b, m, y, at, bar, i, same_j);
    } else {
        load_part<CN, BM>(a, m, x, at, bar, j, same_i);
        for (int c = 0; c < BN; c += 64) load_part<CM, BK>(b + c/64*BOX, n, at, y + c, bar, i, same_j);
    }
}
'''
)


# With SWAP_AB (swapped operands) wgmma computes the transpose of `out`, so that its granularity of 8 columns applies to
# the rows of `out`; its first operand is then a tile of n, and its second one a tile of m. The two halves of a
# descriptor are in separate registers, because 64-bit arithmetic on descriptors took a third of the instructions in the
# loop.
multiply_step_src = r'''
constexpr int M = SPLIT_N ? BM/64 : BM/64/WGS, N = SPLIT_N ? BN/WGS : BN;             // a consumer has 64*M x N results
constexpr int B_STAGE = SWAP_AB ? B_BYTES : (BN + 63)/64*BOX;                         // complete boxes
constexpr int A_STEP = SWAP_AB ? 16*128 : 32, B_STEP = SWAP_AB ? 32 : 16*128;         // bytes to the next 16 along k
constexpr int A_OWN = SPLIT_N ? 0 : M*64*128, B_OWN = !SPLIT_N ? 0 : SWAP_AB ? N*128 : N/64*BOX; // to a consumer's part
constexpr u64 UPPER = (u64)(1024 >> 4 | 1 << 30) << 32;                             // upper half of each descriptor

// Issues d (+)= the product of a step; da and db: the lower halves of the descriptors of its tiles
__device__ void multiply_step(float (&d)[M][N/2], u32 da, u32 db, bool more) {
    fence_accumulators(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BK/16; i++)
        #pragma unroll
        for (int x = 0; x < M; x++)
            wgmma(d[x], UPPER | (da + (x*64*128 + i*A_STEP)/16), UPPER | (db + i*B_STEP/16), more || i > 0);
    wgmma_commit();
}
'''


# With SWAP_AB, stmatrix transposes the tile back before it is stored. A warp then has only 16 neighbouring columns of
# `out`, so the four warps of a warpgroup fill a box of 64 columns together. TMA would not write a box that is out of
# bounds, so such stores are skipped.
store_results_src = r'''
constexpr int OC = N%64 == 0 ? 64 : N%32 == 0 ? 32 : 16;        // columns of a TMA box of out

// Synchronizes the threads that share a staging buffer for results: the warpgroup, or the warp
__device__ void sync_stores(int wg) {
    if (SWAP_AB) asm volatile("bar.sync %0, 128;" :: "r"(wg + 1) : "memory");
    else __syncwarp();
}
__device__ void stmatrix_trans(u32 to, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// Writes a warp's 16 of 64 rows, and up to OUT_COLS columns from `c0` on, to the staging buffer at `to`
__device__ void stage_results(float *d, int c0, u32 to) {
    int lane = threadIdx.x%32, warp = threadIdx.x/32;
    u32 flip = OC == 64 ? lane%8 : OC == 32 ? lane/2%4 : lane/4%2;
    #pragma unroll
    for (int c = 0; c < OUT_COLS && c0 + c < N; c += 16) {
        float *e = d + (c0 + c)/2;
        int more = c + 8 < OUT_COLS;                            // else only 8 columns remain: they are written twice
        u32 v[4] = {pack(e[0], e[1]), pack(e[2], e[3]),
                    pack(e[4*more], e[4*more + 1]), pack(e[4*more + 2], e[4*more + 3])};
        u32 straight = c/OC*OC*32 + lane%16*OC*2 + ((c%OC/8 + lane/16) ^ flip)*16;
        u32 transposed = (c + more*(lane/16)*8 + lane%8)*128 + ((warp%4*2 + lane/8%2) ^ lane%8)*16;
        if (SWAP_AB) stmatrix_trans(to + transposed, v[0], v[1], v[2], v[3]);
        else stmatrix(to + straight, v[0], v[1], v[2], v[3]);
    }
}

// Stores 64*M x N results of a warpgroup, from wgmma's row x0 and column y0 on, staged in the buffer at `mine`; the
// thread with `sends` issues the TMA stores
__device__ void store_results(float (&d)[M][N/2], const TensorMap &out, int x0, int y0, int h, int w, u32 mine,
                              bool sends, int wg) {
    #pragma unroll
    for (int x = 0; x < M; x++)
        #pragma unroll
        for (int from = 0; from < N; from += OUT_COLS) {
            int c0 = SWAP_AB ? min(from, N - OUT_COLS) : from;   // the last piece may overlap the previous one
            if (sends) stores_wait_read();
            sync_stores(wg);
            stage_results(d[x], c0, mine);
            fence_for_tma();
            sync_stores(wg);
            if (!sends) continue;
            if (SWAP_AB) tma_store(out, y0 + c0, x0 + x*64, mine);
            else for (int c = 0; c < OUT_COLS && c0 + c < N; c += OC)
                if (x0 + x*64 < h && y0 + c0 + c < w) tma_store(out, x0 + x*64, y0 + c0 + c, mine + c*32);
            stores_commit();
        }
}
'''


# The CM + CN - 1 blocks with the same i or the same j, this block among them, load the parts of a stage. A consumer
# signals to each of them that the stage is empty: thread t signals to block t.
final_src = r'''
__global__ void __cluster_dims__(CLUSTER) __launch_bounds__(128*(WGS + 1), 1)
final_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
        const __grid_constant__ TensorMap out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    u32 a = address(shared), b = a + STAGES*A_BYTES, o = b + STAGES*B_STAGE;
    u32 full = o + WGS*64*OUT_COLS*2, empty = full + 8*STAGES;
    int me = blockIdx.x%CLUSTER, i = me%CM, j = me/CM, wg = __shfl_sync(~0u, threadIdx.x/128, 0), s = 0, phase = 0;
    if (threadIdx.x == WGS*128) {
        prefetch(m); prefetch(n);
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, WGS*(CM + CN - 1)); }
        fence_mbarrier_init();
    }
    if (CLUSTER > 1) cluster_arrive();
    Schedule work(h, w, k, blockIdx.x/CLUSTER, gridDim.x/CLUSTER);          // while the other blocks start
    Piece p;
    if (CLUSTER > 1) cluster_wait(); else __syncthreads();
    if (wg == WGS) {                                        // producer
        setmaxnreg_dec<40>();
        if (threadIdx.x == WGS*128) while (work.next(p)) {
            int x = (p.x*CM + i)*BM, y = (p.y*CN + j)*BN, by = p.tile/work.clusters%2 ? -BK : BK;    // serpentine
            for (int step = p.from, at = (by < 0 ? p.to - 1 : p.from)*BK; step < p.to; step++, at += by) {
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(full + 8*s, A_BYTES + B_STAGE);
                load_step(a + s*A_BYTES, b + s*B_STAGE, m, n, x, y, at, full + 8*s, i, j);
                if (++s == STAGES) { s = 0; phase++; }
            }
        }
    } else {                                                // consumers
        setmaxnreg_inc<WGS == 2 ? 232 : 240>();
        int warp = threadIdx.x/32, t = threadIdx.x%128, last = -1;
        bool signals = t < CLUSTER && (t%CM == i || t/CM == j);              // thread t signals block t
        bool sends = SWAP_AB ? t == 0 : t%32 == 0;                           // one thread per warpgroup, or per warp
        u32 mine = o + (SWAP_AB ? wg*64 : warp*16)*OUT_COLS*2;
        u32 da = descriptor(a + wg*A_OWN, SWAP_AB ? BOX : 16), db = descriptor(b + wg*B_OWN, SWAP_AB ? 16 : BOX);
        float d[M][N/2];
        while (work.next(p)) {
            for (int step = p.from; step < p.to; step++) {
                barrier_wait(full + 8*s, phase);
                multiply_step(d, da + s*(A_BYTES/16), db + s*(B_STAGE/16), step > p.from);
                wgmma_wait<1>();                            // the previous step has finished: its stage is empty
                if (last >= 0 && signals) barrier_arrive_at(empty + 8*last, t);
                last = s;
                if (++s == STAGES) { s = 0; phase++; }
            }
            wgmma_wait<0>();
            fence_accumulators(d);
            if (signals) barrier_arrive_at(empty + 8*last, t);
            last = -1;
            if (STREAM_K && p.from > 0) { store_partials(d, work.part*CLUSTER + me); continue; }  // not the first part
            if (STREAM_K && p.to < work.steps)
                for (int c = work.part + 1; work.contributes(c, p); c++) add_partials(d, c*CLUSTER + me);
            int x = (p.x*CM + i)*BM + wg*(A_OWN/128) + (SWAP_AB ? 0 : warp%4*16);
            int y = (p.y*CN + j)*BN + (SPLIT_N ? wg*N : 0);
            store_results(d, out, x, y, h, w, mine, sends, wg);
        }
        if (sends) stores_wait_read();
    }
    if (CLUSTER > 1) cluster_sync();                        // other blocks may still arrive at the barriers here
}
'''


_MAX_SHARED = 232_192  # bytes per block, for stages and results


def out_box_columns(N):
    "Return the width of the TMA boxes that store N columns of results"
    return 64 if N % 64 == 0 else 32 if N % 32 == 0 else 16


def stage_bytes(BM, BN, SWAP_AB):
    "Return the bytes of the two tiles of a stage; without SWAP_AB, the tile of n consists of whole TMA boxes"
    return 128 * (BM + (BN if SWAP_AB else cdiv(BN, 64) * 64))


def _shared_bytes(BM, BN, WGS, STAGES, SWAP_AB, OUT_COLS):  # bytes
    "Return the shared memory for all stages, OUT_COLS columns of results per warpgroup, and two mbarriers per stage"
    return STAGES * stage_bytes(BM, BN, SWAP_AB) + WGS * 128 * OUT_COLS + 16 * STAGES


def _tma_boxes(BM, BN, CM, CN, SWAP_AB, SPLIT_N, OUT_COLS):
    "Return the TMA boxes (rows, columns): the blocks of a cluster share the loads of m and n by multicast"
    if SWAP_AB:
        return dict(m=(BN // CM, 64), n=(64 // CN, 64), out=(OUT_COLS, 64))
    box = out_box_columns(BN // 2 if SPLIT_N else BN)
    return dict(m=(BM // CN, 64), n=(64 // CM, 64), out=(16, box, 2 * box))


def resident_clusters(cluster_size, sms):
    "Return how many clusters can be resident, as measured on an H100: for example 30 clusters of 4 blocks"
    return min(sms, 132) // cluster_size if cluster_size < 4 else min(sms, 132) * 10 // 11 // cluster_size


def _grid_size(h, w, sms, BM, BN, CM, CN, SWAP_AB, STREAM_K):
    "Return the grid: all clusters that can be resident, but without stream-K at most one cluster per tile"
    cluster_rows, cluster_columns = (BN * CN, BM * CM) if SWAP_AB else (BM * CM, BN * CN)
    num_clusters = resident_clusters(CM * CN, sms)
    num_tiles = cdiv(h, cluster_rows) * cdiv(w, cluster_columns)
    return (num_clusters if STREAM_K else min(num_clusters, num_tiles)) * CM * CN, 1


# With STREAM_K all clusters must be resident, because a cluster may wait for a flag that another cluster sets; the grid
# of `_grid_size` is never larger than that. Partial sums and flags are in static global memory, so launches on several
# streams are serialized.
@cache  # so that each kernel is compiled once
def final_gemm(BM, BN, CM, CN, SWAP_AB, SPLIT_N, STREAM_K):
    "Return the kernel for tiles of BM x BN and clusters of CM x CN blocks"
    WGS, bytes_per_stage, N = 1 if BM == 64 else 2, stage_bytes(BM, BN, SWAP_AB), BN // 2 if SPLIT_N else BN

    def stages_that_fit(columns):  # if this many columns of results are stored at once
        return (_MAX_SHARED - WGS * 128 * columns) // bytes_per_stage

    STAGES = min(8, max(stages_that_fit(128), min(4, stages_that_fit(64))))  # three are too few
    OUT_COLS = (_MAX_SHARED - STAGES * bytes_per_stage) // (WGS * 128)
    if SWAP_AB:
        OUT_COLS = cdiv(cdiv(N, cdiv(N, OUT_COLS // 8 * 8)), 8) * 8
    else:
        OUT_COLS = min(N, OUT_COLS // out_box_columns(N) * out_box_columns(N))
    src = types_src + tma_load_src + barriers_src + wgmma(N, SWAP_AB) + wgmma_sync_src + registers_src + tile_order_src
    src += clusters_src + tma_store_src + schedule_src + partial_sums_src
    src += load_step_src + multiply_step_src + store_results_src + final_src
    variant = ' swap-AB' * SWAP_AB + ' split-N' * SPLIT_N + ' stream-K' * STREAM_K
    return Rung(
        f'final {BM}x{BN}{variant}, {CM}x{CN}',
        src,
        threads=128 * (WGS + 1),
        shared=_shared_bytes,
        tma_boxes=_tma_boxes,
        grid=_grid_size,
        dtype='bfloat16',
        has_static_buffer=bool(STREAM_K),
        BM=BM,
        BN=BN,
        BK=64,
        WGS=WGS,
        STAGES=STAGES,
        CM=CM,
        CN=CN,
        SWAP_AB=SWAP_AB,
        SPLIT_N=SPLIT_N,
        STREAM_K=STREAM_K,
        OUT_COLS=OUT_COLS,
        GROUP=8,
    )


# (BM, BN, CM, CN, SWAP_AB, SPLIT_N, STREAM_K) -> measured time divided by the estimate without this factor
CORRECTION_FACTORS = {
    (256, 192, 1, 2, 0, 0, 0): 1.03,
    (256, 160, 1, 1, 0, 0, 0): 1.05,
    (128, 256, 2, 1, 0, 0, 0): 1.01,
    (128, 192, 2, 1, 0, 0, 0): 1.01,
    (128, 64, 1, 1, 0, 0, 0): 1.05,
    (64, 192, 4, 1, 0, 0, 0): 0.99,
    (64, 128, 2, 2, 0, 0, 0): 1.02,
    (64, 96, 2, 2, 0, 0, 0): 1.01,
    (64, 64, 2, 2, 0, 0, 0): 1,
    (64, 64, 1, 1, 0, 0, 0): 1.16,
    (256, 192, 1, 2, 1, 0, 0): 1.02,
    (256, 176, 1, 2, 1, 0, 0): 1.03,
    (256, 160, 1, 2, 1, 0, 0): 1.01,
    (256, 152, 1, 2, 1, 0, 0): 1,
    (256, 144, 1, 2, 1, 0, 0): 0.99,
    (128, 240, 2, 1, 1, 0, 0): 1,
    (128, 224, 2, 1, 1, 0, 0): 0.99,
    (128, 208, 2, 1, 1, 0, 0): 1,
    (128, 208, 2, 2, 1, 0, 0): 1,
    (128, 160, 2, 1, 1, 0, 0): 1,
    (128, 160, 4, 1, 1, 0, 0): 0.96,
    (128, 144, 2, 2, 1, 0, 0): 0.98,
    (128, 112, 2, 2, 1, 0, 0): 0.96,
    (128, 112, 2, 1, 1, 0, 0): 1,
    (64, 160, 2, 2, 1, 0, 0): 1,
    (192, 208, 2, 1, 1, 1, 0): 0.98,
    (192, 208, 1, 1, 1, 1, 0): 0.99,
    (192, 192, 1, 1, 1, 1, 0): 0.97,
    (192, 192, 1, 2, 1, 1, 0): 0.97,
    (192, 176, 1, 2, 1, 1, 0): 0.97,
    (192, 160, 1, 1, 1, 1, 0): 1,
    (192, 160, 1, 2, 1, 1, 0): 0.97,
    (128, 272, 2, 1, 1, 1, 0): 0.99,
    (128, 256, 2, 1, 0, 0, 1): 1,
}


def estimate_cycles(h, w, k, tile, sms=132):
    "Estimate the cycles of the kernel for `tile`"
    BM, BN, CM, CN, swap_ab, split_n, stream_k = tile
    cluster_rows, cluster_columns = (BN * CN, BM * CM) if swap_ab else (BM * CM, BN * CN)
    num_tiles, num_clusters = cdiv(h, cluster_rows) * cdiv(w, cluster_columns), resident_clusters(CM * CN, sms)
    num_steps = cdiv(k, 64)
    loaded_columns = BN if swap_ab else cdiv(BN, 64) * 64

    def l2_lines(num_rows, row_length):
        return num_rows * (1.67 if row_length % 64 else 1)  # a row that does not begin at a cache line straddles two

    a_row_length, b_row_length = (w, k) if swap_ab else (k, w)
    tensor_cycles = BM * BN / 32
    shared_cycles = 0.74 * (BM // 64 * 4 * (16 * (1 + split_n) + BN / 4) + BM + loaded_columns)
    l2_cycles = (l2_lines(BM / CN, a_row_length) + l2_lines(loaded_columns / CM, b_row_length)) * 128 / 63
    # a smooth maximum: the engines work at the same time, and the slowest one limits a step
    step_cycles = (tensor_cycles**4 + shared_cycles**4 + l2_cycles**4) ** 0.25
    startup_cycles = 3500 + 6400 * (CM * CN > 1)
    tile_cycles, correction = num_steps * step_cycles + 500, CORRECTION_FACTORS[tile]
    split_tiles = num_tiles % num_clusters if stream_k else 0
    num_parts = min(num_clusters, split_tiles * 8, split_tiles * num_steps // 4)  # of split tiles, as in `Schedule`
    if num_parts <= split_tiles:
        return float('inf') if stream_k else correction * (startup_cycles + cdiv(num_tiles, num_clusters) * tile_cycles)
    reduction_cycles = 20500 + 0.1 * BM * BN * cdiv(num_parts, split_tiles)
    last_wave_cycles = split_tiles * num_steps / num_parts * step_cycles + reduction_cycles
    return correction * (startup_cycles + num_tiles // num_clusters * tile_cycles + last_wave_cycles)


def rank_kernels(h, w, k, sms=132, count=6):
    "Return the `count` kernels with the lowest estimates for h x k @ k x w, the lowest first"
    tiles = sorted(CORRECTION_FACTORS, key=lambda tile: estimate_cycles(h, w, k, tile, sms))
    return [final_gemm(*tile) for tile in tiles[:count]]


def choose(h, w, k, sms=132):
    "Return the kernel with the lowest estimate for h x k @ k x w"
    return rank_kernels(h, w, k, sms, 1)[0]
