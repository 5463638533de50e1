"""Skinny GEMMs: `SKINNY` multiplies a long matrix by a few columns, as in the last layer of a classifier; `SKINNY_TN`
computes the gradient that belongs to it; `SMALL` multiplies matrices too small for large tiles.

A product of 50000x784 by 784x10, one layer for all digits of MNIST at once, does 0.78 GFLOP on 157 MB: 5 FLOP/byte,
less than the 17 of the GPU. So it is memory-bound, and the kernel has one aim: to read `m` once, without a pause.
"""

from importlib.resources import files

from ..ptx import PTX
from ..ladder.rung import KernelLaunch, LaunchPlan, Product, Rung, with_constants
from ...utils import cdiv


# LANES lanes share a row of `m`; each has `R*W` accumulators over its part of the columns. Shuffles reduce them, each
# time with two lanes sharing the work: for 20 values on 32 lanes that takes 21 shuffles, where a reduction of each
# value to all lanes would take 100.
piece_src = r'''
struct alignas(4*VEC) Piece { float v[VEC]; };
'''
sums_src = r'''
constexpr int ACROSS = 32/LANES, ROWS = ACROSS*R;                       // a warp's rows of m at a time
constexpr int LEFT = (R*W+LANES-1)/LANES;                               // sums that end on a lane

// Reduces the N values of the lanes that share a row. Two lanes at a time halve the work: each sends the half that the
// other continues with
template <int N, int D> __device__ void share(float *o, int &first, int &count) {
    constexpr int HALF = (N+1)/2;
    bool upper = threadIdx.x & D;
    #pragma unroll
    for (int i = 0; i < HALF; i++) {
        float late = i+HALF < N ? o[i+HALF < N ? i+HALF : 0] : 0;
        o[i] = (upper ? late : o[i]) + __shfl_xor_sync(~0u, upper ? o[i] : late, D);
    }
    if (upper) first += HALF, count -= HALF;
    else count = min(count, HALF);
    if constexpr (D > ACROSS) share<HALF, D/2>(o, first, count);
}
'''


# A warp takes a few rows of `m`, and walks along them. LANES lanes share a row, each keeps its accumulators for `R`
# rows and all `W` columns in registers. `n` is stored transposed in shared memory.
#
# - A multistage pipeline of STAGES steps per warp keeps copies in flight, past the end of a row, too. No other warp is
#   concerned, so `__syncwarp` is enough.
# - Copies are coalesced. The lanes read so that neighbours read the same piece of `n`: such a load of 16 bytes per lane
#   takes two wavefronts instead of four, which matters where many columns make these loads the most frequent ones.
# - Split-K: where `k` is too long for shared memory, or rows are too few to keep all SMs busy, different blocks compute
#   slabs of `k`, and their partial sums are added in order afterwards: the result is the same in every run.
skinny_src = r'''
constexpr int CHUNK = LANES*VEC;                                        // columns of m a step
// pieces from one row to the next in shared memory: lanes that read together find all banks
constexpr int LINE = LANES + (VEC == 4 && ACROSS > 1 ? 8/ACROSS : 0);

__global__ void __launch_bounds__(32*WARPS)
thin(const float *m, const float *n, float *out, int h, int w, int k, int slab) {
    extern __shared__ __align__(16) float shared[];
    int lane = threadIdx.x%32, warp = threadIdx.x/32;
    int part = lane/ACROSS, row = lane%ACROSS;                      // neighbours share a piece of n: fewer wavefronts
    int k0 = blockIdx.y*slab, k1 = min(k, k0+slab);                 // the columns of m for this block
    int chunks = (k1-k0+CHUNK-1)/CHUNK, kp = chunks*CHUNK, groups = (h+ROWS-1)/ROWS;
    int all = gridDim.x*WARPS, first = blockIdx.x + gridDim.x*warp;
    Piece *ring = (Piece *)shared + warp*STAGES*ROWS*LINE;          // of this warp
    float *nt = shared + WARPS*STAGES*ROWS*LINE*VEC;                // n transposed, zeros up to kp
    for (int i = threadIdx.x; i < kp*W; i += 32*WARPS) {
        bool there = k0+i/W < k1;
        copy_async<4>(nt + i%W*kp + i/W, there ? n + (size_t)k0*W + i : n, there);
    }
    copies_commit();
    int ahead = first, step = 0, into = 0, from = 0;
    auto fetch = [&] {                                              // STAGES-1 steps ahead, past the end of a row too
        if (ahead < groups)
            #pragma unroll
            for (int y = 0; y < R; y++) {
                int q = y*ACROSS + lane/LANES, r = ahead*ROWS+q, c = k0+step*CHUNK + lane%LANES*VEC;
                bool there = r < h && c < k1;
                copy_async<4*VEC>(ring + (into*ROWS+q)*LINE + lane%LANES, there ? m + (size_t)r*k + c : m, there);
            }
        copies_commit();
        if (++step == chunks) step = 0, ahead += all;
        if (++into == STAGES) into = 0;
    };
    for (int s = 0; s < STAGES-1; s++) fetch();
    copies_wait<STAGES-1>();
    __syncthreads();                                                // n is there
    for (int g = first; g < groups; g += all) {
        float o[R][W] = {};
        for (int c = 0; c < chunks; c++) {
            copies_wait<STAGES-2>();
            __syncwarp();                                           // what the other lanes copied is there, too
            Piece a[R];
            #pragma unroll
            for (int y = 0; y < R; y++) a[y] = ring[(from*ROWS + y*ACROSS+row)*LINE + part];
            if (++from == STAGES) from = 0;
            fetch();
            #pragma unroll
            for (int x = 0; x < W; x++) {
                Piece b = *(Piece *)(nt + x*kp + c*CHUNK + part*VEC);
                #pragma unroll
                for (int y = 0; y < R; y++)
                    #pragma unroll
                    for (int v = 0; v < VEC; v++) o[y][x] += a[y].v[v]*b.v[v];
            }
        }
        int first = 0, count = R*W;
        share<R*W, 16>(o[0], first, count);
        #pragma unroll
        for (int i = 0; i < LEFT; i++) {
            int y = (first+i)/W, x = (first+i)%W, r = g*ROWS + y*ACROSS+row;
            if (i < count && r < h) out[((size_t)blockIdx.y*h + r)*W + x] = o[0][i];
        }
    }
}
'''


# Where rows of `m` are multiples of 16 bytes, a few consecutive rows are contiguous, and one instruction of one thread,
# Hopper's bulk copy, fetches them. An mbarrier counts the bytes that have arrived. So a warp needs no pipeline: it
# waits for its rows, multiplies them, issues the next copy, and meanwhile reduces its accumulators; the copies of the
# other warps are in flight all the time.
#
# The copies have the L2 policy evict_first: what L2 holds is written back when `m` evicts it, and that costs time. (The
# copies of the pipeline cannot have it: ptxas 13.0 encodes them wrongly in some variants, and the GPU stops at an
# illegal instruction.) Some 100 KB in flight per SM are enough; more makes the memory slower. `n` is loaded before `m`:
# after so much of `m` it would arrive late. What all this gains on an H100, and what a kernel takes that only fetches
# `m`, is in the table of `benchmarks/`.
rows_src = r'''
__global__ void __launch_bounds__(32*WARPS)
thin_rows(const float *m, const float *n, float *out, int h, int w, int k) {
    extern __shared__ __align__(16) float shared[];
    __shared__ u64 full[WARPS];                                     // per warp: its rows have arrived
    int lane = threadIdx.x%32, warp = threadIdx.x/32, phase = 0;
    int groups = (h+R-1)/R, all = gridDim.x*WARPS, begin = blockIdx.x + gridDim.x*warp;
    float *rows = shared + warp*R*k, *nt = shared + WARPS*R*k; // of this warp; n transposed
    auto fetch = [&](int g) {
        if (lane > 0 || g >= groups) return;
        int bytes = min(R, h-g*R)*k*4;
        barrier_expect(address(full+warp), bytes);
        bulk_copy_once(address(rows), m + (size_t)g*R*k, bytes, address(full+warp));
    };
    for (int i = threadIdx.x; i < k*W; i += 32*WARPS) copy_async<4>(nt + i%W*k + i/W, n+i, true);
    if (lane == 0) { barrier_init(address(full+warp), 1); barriers_ready(); }
    fetch(begin);
    copies_wait_all();
    __syncthreads();                                                // n is there
    for (int g = begin; g < groups; g += all, phase ^= 1) {
        float o[R][W] = {};
        while (!barrier_over(address(full+warp), phase));
        #pragma unroll 1
        for (int c = lane*4; c < k; c += 128) {
            Piece a[R];
            #pragma unroll
            for (int y = 0; y < R; y++) a[y] = *(Piece *)(rows + y*k + c);
            #pragma unroll
            for (int x = 0; x < W; x++) {
                Piece b = *(Piece *)(nt + x*k + c);
                #pragma unroll
                for (int y = 0; y < R; y++)
                    #pragma unroll
                    for (int v = 0; v < 4; v++) o[y][x] += a[y].v[v]*b.v[v];
            }
        }
        __syncwarp();
        fetch(g+all);                   // all lanes have read: the next rows may come, while these are added up
        int first = 0, count = R*W;
        share<R*W, 16>(o[0], first, count);
        #pragma unroll
        for (int i = 0; i < LEFT; i++) {
            int r = g*R + (first+i)/W, x = (first+i)%W;
            if (i < count && r < h) out[(size_t)r*W + x] = o[0][i];
        }
    }
}
'''


# Where columns are more, arithmetic takes long: with 32 of them the FMAs of 50000x784 alone take 74,000 cycles, and
# loads of `n` and `m` from shared memory 57,000. So tensor cores multiply three bf16 terms of both, as `bf16x6` does:
# six products, small ones first, of 32 k at a time, whose sums are then added by float32 additions, which round; and
# results that may be unsound are computed again. On an H100 that takes 71 µs after other memory was read, where torch
# takes 76, and reading `m` alone 53.
#
# A warp takes 16 rows of `m`, and a pipeline of its own, as above. Its lanes split what they have read: lane 4g+q the k
# from 8q to 8q+7 of a step in rows g and g+8, without bank conflicts. The terms of `n` are computed once per block, and
# stored as the lanes read them. They are loaded before `m`, and computed while that is in flight.
#
# That rows come in pieces of 128 bytes costs more than all else: with 10 columns it takes 66 µs.
apart_src = r'''
constexpr float SOUND = 0x1p127f;                                   // sums of terms are sound below

// Two values as three bf16 terms each: every term rounds what those before have left
__device__ void take_apart(float x, float y, u32 &hi, u32 &mid, u32 &lo) {
    hi = pack(x, y);
    x -= __uint_as_float(hi << 16); y -= __uint_as_float(hi & 0xffff0000u);
    mid = pack(x, y);
    lo = pack(x - __uint_as_float(mid << 16), y - __uint_as_float(mid & 0xffff0000u));
}

// a row of m times a column of n, by a chain of multiply-adds, which a NaN ends
__device__ float chain(const float *row, const float *column, int k) {
    float o = 0;
    for (size_t i = 0; i < k && !isnan(o); i++) o = fmaf(row[i], column[i*W], o);
    return o;
}
'''
planes_src = r'''
constexpr int TILES = (W+7)/8, PIECE = 16*32, BATCH = 7;  // of columns; a step's elements; pieces of n at once

__global__ void __launch_bounds__(32*WARPS, 1)
thin_planes(const float *m, const float *n, float *out, int h, int w, int k) {
    extern __shared__ __align__(16) float shared[];
    int lane = threadIdx.x%32, warp = threadIdx.x/32, g = lane/4, q = lane%4;
    int steps = (k+31)/32, groups = (h+15)/16, all = gridDim.x*WARPS, first = blockIdx.x + gridDim.x*warp;
    float *ring = shared + warp*STAGES*PIECE;                       // of this warp
    uint4 *planes = (uint4 *)(shared + WARPS*STAGES*PIECE);         // of n: eight k of a column per lane
    int ahead = first, step = 0, into = 0, from = 0;
    auto fetch = [&] {                                              // STAGES-1 steps ahead, past the end of a row too
        if (ahead < groups)
            #pragma unroll
            for (int i = lane; i < PIECE/4; i += 32) {
                int y = i/8, x = i%8, r = ahead*16+y, c = step*32 + x*4;
                bool there = r < h && c < k;
                copy_async<16>(ring + into*PIECE + y*32 + (x ^ y%8)*4, there ? m + (size_t)r*k + c : m, there);
            }
        copies_commit();
        if (++step == steps) step = 0, ahead += all;
        if (++into == STAGES) into = 0;
    };
    float x[BATCH][8];
    auto ask = [&](int begin) {
        #pragma unroll
        for (int b = 0; b < BATCH; b++)
            #pragma unroll
            for (int v = 0; v < 8; v++) {
                int i = begin + b*WARPS, r = i/TILES*32 + q*8+v, c = i%TILES*8 + g;
                x[b][v] = r < k && c < W ? __ldg(n + (size_t)r*W + c) : 0;
            }
    };
    ask(warp);
    for (int s = 0; s < STAGES-1; s++) fetch();
    for (int i = warp; i < steps*TILES; i += BATCH*WARPS) {
        #pragma unroll
        for (int b = 0; b < BATCH; b++) {
            int at = i + b*WARPS;
            uint4 p[3];
            take_apart(x[b][0], x[b][1], p[0].x, p[1].x, p[2].x);
            take_apart(x[b][2], x[b][3], p[0].y, p[1].y, p[2].y);
            take_apart(x[b][4], x[b][5], p[0].z, p[1].z, p[2].z);
            take_apart(x[b][6], x[b][7], p[0].w, p[1].w, p[2].w);
            #pragma unroll
            for (int y = 0; y < 3; y++)
                if (at < steps*TILES) planes[((at/TILES*3 + y)*TILES + at%TILES)*32 + lane] = p[y];
        }
        if (i + BATCH*WARPS < steps*TILES) ask(i + BATCH*WARPS);
    }
    __syncthreads();                                                // n is there
    for (int u = first; u < groups; u += all) {
        float sum[TILES][4] = {};
        for (int c = 0; c < steps; c++) {
            copies_wait<STAGES-2>();
            __syncwarp();                                           // what the other lanes copied is there, too
            u32 a[3][2][4];
            #pragma unroll
            for (int i = 0; i < 4; i++) {                           // 16 k, a row
                int j = i/2, y = i%2;
                float4 v = *(float4 *)(ring + from*PIECE + (g + y*8)*32 + ((2*q+j) ^ g)*4);
                take_apart(v.x, v.y, a[0][j][y], a[1][j][y], a[2][j][y]);
                take_apart(v.z, v.w, a[0][j][2+y], a[1][j][2+y], a[2][j][2+y]);
            }
            if (++from == STAGES) from = 0;
            fetch();
            uint4 b[3][TILES];
            #pragma unroll
            for (int i = 0; i < 3*TILES; i++) b[i/TILES][i%TILES] = planes[(c*3*TILES + i)*32 + lane];
            float part[TILES][4] = {};
            // the small products first: lo hi, hi lo, mid mid, mid hi, hi mid, hi hi
            constexpr int P[6] = {2, 0, 1, 1, 0, 0}, Q[6] = {0, 2, 1, 0, 1, 0};
            #pragma unroll
            for (int i = 0; i < 6; i++) {
                #pragma unroll
                for (int t = 0; t < TILES; t++) mma(part[t], a[P[i]][0], b[Q[i]][t].x, b[Q[i]][t].y);
                #pragma unroll
                for (int t = 0; t < TILES; t++) mma(part[t], a[P[i]][1], b[Q[i]][t].z, b[Q[i]][t].w);
            }
            // the tensor core cuts its sums off, an ordinary addition rounds them
            #pragma unroll
            for (int i = 0; i < TILES*4; i++) sum[i/4][i%4] += part[i/4][i%4];
        }
        #pragma unroll
        for (int i = 0; i < TILES*4; i++) {
            int r = u*16 + g + i%4/2*8, c = i/4*8 + q*2 + i%2;
            float o = sum[i/4][i%4];
            if (r >= h || c >= W) continue;
            if (!(fabsf(o) < SOUND)) o = chain(m + (size_t)r*k, n + c, k);     // NaN is here, too
            out[(size_t)r*W + c] = o;
        }
    }
}
'''


# Whole rows by bulk copies again, eight at a time, which one warp issues. Up to 14 warps share k, each with two of the
# three terms of its part of `n` in registers, and two more warps add the partial sums. A lane stores its sums over
# elements that it alone has read, so that they take no extra shared memory, and a stage is released once, when all
# parts are added. Where k is short, teams of warps take turns at stages.
#
# With 16 columns that takes 60 µs, where FMAs take 66, and with 32 61. Terms that are all in registers take 96 of 128
# there, and then most of the products are serialized, each waiting for the sums of the last: 76 µs. So the third is in
# shared memory, and small products and large ones have separate accumulators.
stages_src = files(__package__).joinpath('skinny_stages.cuh').read_text(encoding='utf-8')


add_src = r'''
__global__ void add_slabs(const float *parts, float *out, int size, int slabs) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i >= size) return;
    float o = 0;
    for (int s = 0; s < slabs; s++) o += parts[(size_t)s*size + i];
    out[i] = o;
}
'''


# The gradient of `n` is the transpose of `m` times a narrow matrix. `m` is read as it is stored: a lane has VEC columns
# of it, each row of `m` brings one element per column, and a row of `n` is the same for all lanes. The warps' partial
# sums are added at the end.
transposed_src = r'''
constexpr int CHUNK = 32*VEC, WP = (W+3)/4*4;                       // columns of m per block, padded columns of n

struct alignas(16) Row { float v[WP]; };

__global__ void __launch_bounds__(32*WARPS)
thin_transposed(const float *m, const float *n, float *out, int h, int w, int k, int slab) {
    extern __shared__ __align__(16) float shared[];
    int lane = threadIdx.x%32, warp = threadIdx.x/32;
    int c = blockIdx.x*CHUNK + lane*VEC, k0 = blockIdx.y*slab, k1 = min(k, k0+slab);
    Row *ns = (Row *)shared;                                        // this block's rows of n
    Piece *mine = (Piece *)(ns+slab) + warp*STAGES*R*32 + lane;
    for (int i = threadIdx.x; i < slab*WP; i += 32*WARPS) {
        int y = i/WP, x = i%WP;
        bool there = k0+y < k1 && x < W;
        copy_async<4>(ns[y].v+x, there ? n + (size_t)(k0+y)*W + x : n, there);
    }
    copies_commit();
    int ahead = k0+warp*R, into = 0, from = 0;
    auto fetch = [&] {                                              // the lane's columns of the next R rows of the warp
        #pragma unroll
        for (int y = 0; y < R; y++) {
            bool there = ahead+y < k1 && c < h;
            copy_async<4*VEC>(mine + (into*R+y)*32, there ? m + (size_t)(ahead+y)*h + c : m, there);
        }
        copies_commit();
        ahead += WARPS*R;
        if (++into == STAGES) into = 0;
    };
    for (int s = 0; s < STAGES-1; s++) fetch();
    copies_wait<STAGES-1>();
    __syncthreads();                                                // n is there
    float o[VEC][W] = {};
    for (int i = warp*R; i < k1-k0; i += WARPS*R) {
        copies_wait<STAGES-2>();
        Piece a[R];
        #pragma unroll
        for (int y = 0; y < R; y++) a[y] = mine[(from*R+y)*32];
        if (++from == STAGES) from = 0;
        fetch();
        #pragma unroll
        for (int y = 0; y < R; y++) {
            Row b = ns[min(i+y, k1-k0-1)];                          // past the end a[y] is zero
            #pragma unroll
            for (int v = 0; v < VEC; v++)
                #pragma unroll
                for (int x = 0; x < W; x++) o[v][x] += a[y].v[v]*b.v[x];
        }
    }
    copies_wait<0>();
    __syncthreads();                    // the ring is free: the sums of the warps side by side, then added in order
    #pragma unroll
    for (int v = 0; v < VEC; v++)
        #pragma unroll
        for (int x = 0; x < W; x++) shared[(warp*CHUNK + lane*VEC+v)*W + x] = o[v][x];
    __syncthreads();
    for (int i = threadIdx.x; i < CHUNK*W && blockIdx.x*CHUNK + i/W < h; i += 32*WARPS) {
        float total = 0;
        for (int s = 0; s < WARPS; s++) total += shared[s*CHUNK*W + i];
        out[((size_t)blockIdx.y*h + blockIdx.x*CHUNK)*W + i] = total;
    }
}
'''


# A product of 64x64 matrices has finished before a large tile has been filled. Here small tiles make many blocks, and
# all copies are of 4 bytes, which suit every shape.
small_src = r'''
constexpr int THREADS = BM/TM*(BN/TN), COLS = BN/TN;

// Copies x[r][c]; zero if it is out of bounds
__device__ void copy_one(float *to, const float *x, int r, int c, int h, int w) {
    bool there = r < h && c < w;
    copy_async<4>(address(to), there ? x + (size_t)r*w + c : x, there);
}

__global__ void __launch_bounds__(THREADS) small(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ __align__(16) float ms[STAGES][BK][BM+4], ns[STAGES][BK][BN];
    int t = threadIdx.x, tr = t/COLS*TM, tc = t%COLS*4, r = blockIdx.y*BM, c = blockIdx.x*BN;
    int idx = 0, into = 0, from = 0;
    auto fetch = [&] {
        if (idx < k) {
            #pragma unroll
            for (int i = t; i < BM*BK; i += THREADS) copy_one(&ms[into][i%BK][i/BK], m, r+i/BK, idx+i%BK, h, k);
            #pragma unroll
            for (int i = t; i < BK*BN; i += THREADS) copy_one(&ns[into][i/BN][i%BN], n, idx+i/BN, c+i%BN, k, w);
        }
        copies_commit();
        idx += BK;
        if (++into == STAGES) into = 0;
    };
    for (int s = 0; s < STAGES-1; s++) fetch();
    float o[TM][TN] = {};
    for (int p = 0; p < k; p += BK) {
        copies_wait<STAGES-2>();
        __syncthreads();                    // all copies of this phase have arrived; the next stage is free
        fetch();
        #pragma unroll
        for (int i = 0; i < BK; i++) {
            float a[TM], b[TN];
            #pragma unroll
            for (int y = 0; y < TM; y += 4) *(float4 *)(a+y) = *(float4 *)&ms[from][i][tr+y];
            #pragma unroll
            for (int x = 0; x < TN; x += 4) *(float4 *)(b+x) = *(float4 *)&ns[from][i][tc+x*COLS];
            #pragma unroll
            for (int y = 0; y < TM; y++)
                #pragma unroll
                for (int x = 0; x < TN; x++) o[y][x] += a[y]*b[x];
        }
        if (++from == STAGES) from = 0;
    }
    #pragma unroll
    for (int y = 0; y < TM; y++)
        #pragma unroll
        for (int x = 0; x < TN; x++) {
            int ry = r+tr+y, cx = c+tc + x/4*4*COLS + x%4;
            if (ry < h && cx < w) out[(size_t)ry*w + cx] = o[y][x];
        }
}
'''


# The constants follow from the width: the registers hold `R*W` accumulators. The slabs follow from the shared memory
# and from the number of SMs.
MAX_SHARED = 200 * 1024  # bytes of shared memory that a block may take
TERM_BYTES = 226 * 1024  # bytes for the terms of `n` and the pipelines
FEW_COLUMNS = 16  # columns up to which multiply-adds are as fast as the pipeline with terms
LARGE_M = 2**24  # elements of `m` from which on it was measured
SOME = {True: (768, 2**22), False: (256, 1_600_000)}  # few columns? -> k, and elements of `m`, from which on whole rows
# with terms were measured
BYTES_IN_FLIGHT = 50_000  # bytes of these that are in flight per SM
MAX_WARPS = 14  # warps that may share their k
LONG_ROW = 1792  # elements in a row of `m` from which on rows of few warps fit next to 13 columns or more
_ARRAYS = 'm', 'n', 'out'


class Skinny(Product):
    "`m @ n` for an `n` of at most `WIDEST` columns; `layout='tn'`: `m` is given as its transpose, row-major (k, h)"

    WIDEST = 32

    def __init__(self, name, layout='nn', **constants):
        self.name, self.layout, self.constants = name, layout, constants

    def __repr__(self):
        return f'<Skinny {self.name!r}>'

    def why_not(self, h, w, k):
        if not (min(h, w, k) > 0 and w <= self.WIDEST):
            return f'n may have 1 to {self.WIDEST} columns'

    def config(self, w, row):
        "The constants for a width, and rows of so many elements"
        vec = next(v for v in (4, 2, 1) if row % v == 0)
        few = dict(LANES=32, R=2, WARPS=16, STAGES=3) if vec == 4 else dict(LANES=32, R=4, WARPS=16, STAGES=6)
        many = dict(LANES=8 if w > 16 or vec < 4 or row < LONG_ROW else 32, R=4, WARPS=8, STAGES=4)
        return {'W': w, 'VEC': vec, **(few if w <= 12 else many), **self.constants}

    def by_rows(self, w, k):
        """The constants for whole rows by bulk copies; None if these are not rows of whole 16 bytes, or too long for
        4 warps, or if `n` is too wide; 13 columns and more are faster by the ring where rows are long"""
        R = 4 if k * w <= 2048 and w <= 10 else 2  # rows of a warp: more where they are short, or `n` narrow
        WARPS = min(16, (MAX_SHARED - k * w * 4) // (R * k * 4))
        if k % 4 == 0 and WARPS >= 4 and w <= 20 and not (12 < w <= 16 and k >= LONG_ROW):
            return dict(W=w, VEC=4, LANES=32, R=R, WARPS=WARPS)

    def rows(self, h, w, k, on):
        "The launch with bulk copies; None where that cannot be, or where there is not enough for all warps to do"
        c = self.layout == 'nn' and not self.constants and on.hopper and self.by_rows(w, k)
        if not c or h < on.sms * c['WARPS'] * c['R']:
            return
        src, shared = with_constants(PTX + piece_src + sums_src + rows_src, c), (c['WARPS'] * c['R'] + w) * k * 4
        return KernelLaunch(src, 'thin_rows', _ARRAYS, (h, w, k), (on.sms,), (32 * c['WARPS'],), shared)

    def by_planes(self, h, w, k, on):
        """The constants for tensor cores, where a block keeps the terms of `n`; None where that cannot be, or where it
        is not known to be faster"""
        WARPS = 8
        STAGES = (TERM_BYTES - self._plane_bytes(w, k)) // (WARPS * 2048)
        can = self.layout == 'nn' and not self.constants and on.hopper and k % 4 == 0 and STAGES >= 3
        if can and FEW_COLUMNS < w <= self.WIDEST and h >= on.sms * WARPS * 16 and h * k >= LARGE_M:
            return dict(W=w, WARPS=WARPS, STAGES=min(STAGES, 7))

    def _plane_bytes(self, w, k):
        return cdiv(k, 32) * cdiv(w, 8) * 1536

    def planes(self, h, w, k, on):
        "The launch by tensor cores, if there is one"
        if c := self.by_planes(h, w, k, on):
            shared = c['WARPS'] * c['STAGES'] * 2048 + self._plane_bytes(w, k)
            src = with_constants(PTX + apart_src + planes_src, c)
            return KernelLaunch(src, 'thin_planes', _ARRAYS, (h, w, k), (on.sms,), (32 * c['WARPS'],), shared)

    def by_stages(self, h, w, k, on):
        """The constants for tensor cores and whole rows whose k warps share; None where shared memory does not hold the
        terms of `n`, or where it is not known to be faster"""
        chunks, (long, some) = cdiv(k, 16), SOME[w <= FEW_COLUMNS]
        PARTS = cdiv(chunks, 4 if chunks <= 4 * MAX_WARPS else 8 if w <= FEW_COLUMNS else 5)
        TEAMS, CHUNKS = max(1, 13 // PARTS), cdiv(chunks, PARTS)
        WORKERS = PARTS * TEAMS
        STAGES = min(24, (TERM_BYTES - self._lo_bytes(w, WORKERS, CHUNKS)) // (32 * k))
        c = dict(W=w, PARTS=PARTS, CHUNKS=CHUNKS, TEAMS=TEAMS, ADDERS=min(2, 15 - WORKERS), STAGES=STAGES)
        can = self.layout == 'nn' and not self.constants and on.hopper and k % 4 == 0 and PARTS <= MAX_WARPS
        if can and 12 < w <= self.WIDEST and k >= long and h * k >= some:
            return dict(c, AHEAD=min(STAGES, max(2, cdiv(BYTES_IN_FLIGHT, 32 * k))))

    def _lo_bytes(self, w, workers, chunks):
        return workers * chunks * cdiv(w, 16) * 512

    def stages(self, h, w, k, on):
        "The launch of these, if there is one"
        if c := self.by_stages(h, w, k, on):
            src, workers = with_constants(PTX + apart_src + stages_src, c), c['PARTS'] * c['TEAMS']
            shared = c['STAGES'] * 32 * k + self._lo_bytes(w, workers, c['CHUNKS'])
            block = (32 * (workers + 1 + c['ADDERS']),)
            return KernelLaunch(src, 'thin_stages', _ARRAYS, (h, w, k), (on.sms,), block, shared)

    def slabs(self, h, w, k, on):
        "(the launch by slabs of k, how many of these there are)"
        transposed = self.layout == 'tn'
        c = self.config(w, h if transposed else k)
        if transposed:
            del c['LANES']
        across, slab, shared = (self.blocks_transposed if transposed else self.blocks)(h, w, k, on.sms, **c)
        src = with_constants(PTX + piece_src + (transposed_src if transposed else sums_src + skinny_src), c)
        name, grid = 'thin_transposed' if transposed else 'thin', (across, cdiv(k, slab))
        return KernelLaunch(src, name, _ARRAYS, (h, w, k, slab), grid, (32 * c['WARPS'],), shared), cdiv(k, slab)

    def launch_plan(self, h, w, k, on):
        "One call, or one by slabs of k and one that adds these up"
        if at_once := self.stages(h, w, k, on) or self.planes(h, w, k, on) or self.rows(h, w, k, on):
            return LaunchPlan([at_once])
        call, slabs = self.slabs(h, w, k, on)
        if slabs == 1:
            return LaunchPlan([call])
        add = KernelLaunch(add_src, 'add_slabs', ('parts', 'out'), (h * w, slabs), (cdiv(h * w, 256),), (256,))
        return LaunchPlan([call._replace(arrays=('m', 'n', 'parts')), add], dict(parts=(slabs * h * w, 'float32')))

    def blocks(self, h, w, k, sms, W, VEC, LANES, R, WARPS, STAGES):
        """(blocks across, columns of m a slab, bytes of shared memory): slabs where n is too long to be kept, or rows
        are too few for the SMs"""
        across = 32 // LANES
        line = LANES + (8 // across if VEC == 4 and across > 1 else 0)
        chunk, groups, ring = LANES * VEC, cdiv(h, across * R), WARPS * STAGES * across * R * line * VEC * 4
        most = cdiv(groups, WARPS)
        slabs = max(cdiv(k, (MAX_SHARED - ring) // (4 * W) - chunk), min(sms // most, k // (4 * chunk)), 1)
        slab = cdiv(cdiv(k, slabs), chunk) * chunk
        return min(most, cdiv(sms, cdiv(k, slab))), slab, ring + slab * W * 4

    def blocks_transposed(self, h, w, k, sms, W, VEC, R, WARPS, STAGES):
        "The same for the transposed m: blocks across its columns, slabs of its rows"
        across, row, ring = cdiv(h, 32 * VEC), cdiv(W, 4) * 16, WARPS * STAGES * R * 32 * VEC * 4
        slabs = max(cdiv(k, (MAX_SHARED - ring) // row - 1), min(cdiv(2 * sms, across), k // (4 * WARPS * R)), 1)
        slab = cdiv(k, slabs)
        return across, slab, max(slab * row + ring, WARPS * 32 * VEC * W * 4)


SKINNY, SKINNY_TN = Skinny('thin'), Skinny('thin, turned', 'tn', R=2, WARPS=8, STAGES=4)
SMALL = Rung(
    'small',
    PTX + small_src,
    threads=lambda BM, BN, TM, TN: BM // TM * (BN // TN),
    BM=32,
    BN=32,
    BK=32,
    TM=4,
    TN=4,
    STAGES=3,
)
