// out = scale * m @ n and what an epilogue makes of it, for 16-bit floats that are summed in float32. `count` products
// whose matrices follow each other in memory; or, GROUPED, one whose rows of m and of out belong to `count` groups:
// each ends before row `ends[g]`, and has its own n.
// Above: Number, Out (float, or as Number), BM, BN, BK, STAGES, WGS (warpgroups that multiply), CM and CN (blocks of a
// cluster: below each other, which share n, or side by side, which share m), BLOCKS (of an SM), DOWN and UP (registers
// of a thread that copies, and of one that multiplies), PDL (does the kernel begin before the one ahead has ended?),
// GROUPED, M_TRANSPOSED, N_TRANSPOSED (does memory hold the transpose?), and wgmma. Of the epilogue: BIAS, ACTIVE,
// TIMES, ADDED, SAVED, SAVE_GRAD (is the activation's gradient saved?), SUMMED, ONTO, and the functions `active` and
// `active_grad`.
constexpr int A_BYTES = BM*BK*2, BOX = BK*128, M = BM/64/WGS;
constexpr int B_BYTES = N_TRANSPOSED ? BN*128 : (BN + 63)/64*BOX;  // whole boxes, if these are side by side
constexpr int CLUSTER = CM*CN, TALL = BM*CM, WIDE = BN*CN;               // blocks; what a cluster computes
constexpr int GROUP = 16;                                                // rows of tiles that are visited together
constexpr bool STAGED = sizeof(Out) == 2 && !GROUPED;                    // do results leave by way of shared memory?

__device__ void prefetch(const TensorMap &x) { asm volatile("prefetch.tensormap [%0];" :: "l"(&x) : "memory"); }

// boxes of an array with three axes
__device__ void tma_load(u32 to, const TensorMap &x, int z, int r, int c, u32 bar) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(to), "l"(&x), "r"(c), "r"(r), "r"(z), "r"(bar) : "memory");
}
__device__ void tma_load_for(u32 to, const TensorMap &x, int z, int r, int c, u32 bar, short blocks) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;"
                 :: "r"(to), "l"(&x), "r"(c), "r"(r), "r"(z), "r"(bar), "h"(blocks) : "memory");
}

// The position of a cluster's tile: its product or group, its first row and column, and the end of its rows
struct Tile { int z, row, column, end; };

struct Schedule {
    const int *ends;
    int count, wide, tile, z, from, to, before;             // group z has rows `from` to `to`; `before`: tiles before
    __device__ Schedule(const int *ends, int count, int h, int w)
        : ends(ends), count(count), wide((w + WIDE-1)/WIDE), tile(blockIdx.x/CLUSTER), z(0), from(0),
          to(GROUPED ? ends[0] : h), before(0) {}
    __device__ bool next(Tile &t) {
        for (;; z++) {
            int tall = (to - from + TALL-1)/TALL, in = tile - before;
            if (!GROUPED) { t.z = in/(tall*wide); in %= tall*wide; if (t.z >= count) return false; }
            else if (in < tall*wide) t.z = z;
            else if (z == count-1) return false;
            else { before += tall*wide; from = to; to = ends[z+1]; continue; }
            int band = in/(GROUP*wide), inside = in%(GROUP*wide), rows = min(GROUP, tall - band*GROUP);
            t.row = from + (band*GROUP + inside%rows)*TALL;
            t.column = inside/rows*WIDE + blockIdx.x%CLUSTER/CM*BN;
            t.end = to;
            tile += gridDim.x/CLUSTER;
            return true;
        }
    }
};

// a box that PARTS blocks of the cluster want: mine is part `part` of its ROWS rows
template<int PARTS, int ROWS>
__device__ void load_part(u32 to, const TensorMap &x, int z, int r, int c, u32 bar, int part) {
    static_assert(PARTS == 1 || PARTS == CLUSTER, "a cluster is a row of blocks, or a column");
    if (PARTS == 1) tma_load(to, x, z, r, c, bar);
    else tma_load_for(to + part*(ROWS/PARTS)*128, x, z, r + part*(ROWS/PARTS), c, bar, (1 << CLUSTER) - 1);
}

// a step's tiles, from `at` on along k, for block `me` of the cluster; each brings its part of what all share
__device__ void load_step(u32 a, u32 b, const TensorMap &m, const TensorMap &n, const Tile &t, int at, u32 bar,
                          int me) {
    int row = t.row + me%CM*BM, zm = GROUPED ? 0 : t.z;
    if (M_TRANSPOSED) for (int x = 0; x < BM; x += 64) load_part<CN, BK>(a + x/64*BOX, m, zm, at, row + x, bar, me);
    else load_part<CN, BM>(a, m, zm, row, at, bar, me);
    if (N_TRANSPOSED) load_part<CM, BN>(b, n, t.z, t.column, at, bar, me);
    else for (int x = 0; x < BN; x += 64) load_part<CM, BK>(b + x/64*BOX, n, t.z, at, t.column + x, bar, me);
}

// starts d (+)= a step's product; da and db describe its tiles
__device__ void multiply_step(float (&d)[M][BN/2], u64 da, u64 db, bool more) {
    fence_sums(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BK/16; i++)
        #pragma unroll
        for (int x = 0; x < M; x++)
            wgmma<M_TRANSPOSED, !N_TRANSPOSED>(d[x], da + x*64*128/16 + i*(M_TRANSPOSED ? 16*128 : 32)/16,
                                       db + i*(N_TRANSPOSED ? 32 : 16*128)/16, more || i > 0);
    wgmma_commit();
}

// Transposes 4x4 words of four lanes: each has four words of four times eight columns, and afterwards eight consecutive
// columns. It is its own inverse.
__device__ void transpose_quad(u32 (&v)[4]) {
    #pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
        bool upper = threadIdx.x & bit;
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            u32 &low = v[bit == 1 ? 2*i : i], &high = v[bit == 1 ? 2*i + 1 : i + 2];
            u32 got = __shfl_xor_sync(~0u, upper ? low : high, bit);
            if (upper) low = got;
            else high = got;
        }
    }
}
__device__ float2 unpacked(u32 x) { return make_float2(float(((Number *)&x)[0]), float(((Number *)&x)[1])); }

// The matrices of an epilogue
struct Others {
    const Number *__restrict__ bias, *__restrict__ other;   // a row; like out: what is added, or multiplied by
    Number *saved;                                          // like out: the input of `active`, or its gradient
    float *sums;                                            // one row per warp's rows of out
    float scale;
};

constexpr int AHEAD = 2;                                    // thirty-twos of columns that are loaded at once
struct Loaded { uint4 at[AHEAD][2*M]; };

// a thread's eight columns, beyond `c0`, of each of its rows and each thirty-two columns
__device__ Loaded load_others(const Others &o, const Tile &t, int row, int c0, size_t first, int w) {
    Loaded res = {};
    if (TIMES || ADDED)
        #pragma unroll
        for (int j = 0; j < AHEAD; j++)
            #pragma unroll
            for (int x = 0; x < 2*M; x++) {                 // eight rows of each sixteen
                int r = row + x*8 + x/2*48, c = t.column + c0 + j*32 + threadIdx.x%4*8;
                if (r < t.end && c < w) res.at[j][x] = __ldg((const uint4 *)(o.other + (first + r)*w + c));
            }
    return res;
}

// each lane has eight sums, of which all with the same lane%4 are added: afterwards it has number (lane/4) of the
// eight, with its bits reversed
__device__ float add_rows(float (&v)[8]) {
    #pragma unroll
    for (int bit = 16, n = 4; n > 0; bit /= 2, n /= 2) {
        bool upper = threadIdx.x & bit;
        #pragma unroll
        for (int i = 0; i < n; i++) {
            float sent = upper ? v[i] : v[i + n], kept = upper ? v[i + n] : v[i];
            v[i] = kept + __shfl_xor_sync(~0u, sent, bit);
        }
    }
    return v[0];
}

__device__ void tma_store(const TensorMap &x, int z, int r, int c, u32 from) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];"
                 :: "l"(&x), "r"(c), "r"(r), "r"(z), "r"(from) : "memory");
}
// Waits until at most one piece is still in flight
__device__ void stores_but_one_have_read() { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }

// Stores 16 x 64 elements of a warp by TMA, through one of two buffers of 2048 bytes at `mine` (double buffering)
__device__ void send(u32 (&v)[2][8], const TensorMap &x, int z, int r, int c, u32 mine, int &pieces) {
    int lane = threadIdx.x%32, tr = lane%16;
    u32 piece = mine + pieces++%2*2048;
    if (lane == 0) stores_but_one_have_read();
    __syncwarp();
    #pragma unroll
    for (int g = 0; g < 8; g += 2)
        stmatrix(piece + tr*128 + ((g + lane/16) ^ tr%8)*16, v[0][g], v[1][g], v[0][g+1], v[1][g+1]);
    fence_for_tma();
    __syncwarp();
    if (lane == 0) { tma_store(x, z, r, c, piece); stores_commit(); }
}

// The same without TMA, where a row of the next group may follow: `to` is the thread's first row, and column of 64
__device__ void put(u32 (&v)[2][8], Number *to, int rows, int columns, int w) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {                           // a half of the rows, of the columns
        u32 four[4] = {v[i/2][i%2*4], v[i/2][i%2*4+1], v[i/2][i%2*4+2], v[i/2][i%2*4+3]};
        int c = i%2*32 + threadIdx.x%4*8;
        transpose_quad(four);
        if (i/2*8 < rows && c < columns) *(uint4 *)(to + (size_t)(i/2*8)*w + c) = {four[0], four[1], four[2], four[3]};
    }
}

// 64*M x N sums of a warpgroup, whose first row is `top`, become results left of column `right`; `row`: the thread's
// first
template<int M, int N>
__device__ void finish(float (&d)[M][N], const TensorMap &out_map, const TensorMap &saved_map, Out *out,
                       const Others &o, const Tile &t, int row, int top, Loaded loaded, u32 mine, int &pieces,
                       size_t first, int right, int w) {
    int q = threadIdx.x%4, lane = threadIdx.x%32, warp = threadIdx.x%128/32;
    Loaded next;
    #pragma unroll
    for (int c = 0; c < 2*N; c += 64) {
        if (c/32%AHEAD == 0 && c + 32*AHEAD < 2*N) next = load_others(o, t, row, c + 32*AHEAD, first, w);
        float2 bias[8] = {};
        float sum[2][8] = {};
        #pragma unroll
        for (int g = 0; g < 8 && BIAS; g++)
            if (t.column + c + g*8 < w) bias[g] = unpacked(__ldg((const u32 *)(o.bias + t.column + c + g*8 + q*2)));
        #pragma unroll
        for (int i = 0; i < M; i++) {
            u32 v[2][8] = {}, kept[2][8];
            #pragma unroll
            for (int x = 0; x < 2; x++) {                   // eight rows of sixteen
                int r = row + i*64 + x*8;
                u32 more[8];
                #pragma unroll
                for (int b = 0; b < 2 && (TIMES || ADDED); b++) {
                    uint4 in = loaded.at[(c/32 + b)%AHEAD][2*i + x];
                    u32 four[4] = {in.x, in.y, in.z, in.w};
                    transpose_quad(four);
                    #pragma unroll
                    for (int g = 0; g < 4; g++) more[b*4 + g] = four[g];
                }
                #pragma unroll
                for (int g = 0; g < 8 && c + g*8 < 2*N; g++) {
                    float *e = &d[i][(c/8 + g)*4 + x*2];
                    float2 y = {e[0]*o.scale + bias[g].x, e[1]*o.scale + bias[g].y}, m = {};
                    if (TIMES || ADDED) m = unpacked(more[g]);
                    if (SAVED) kept[x][g] = SAVE_GRAD ? pack(active_grad(y.x), active_grad(y.y)) : pack(y.x, y.y);
                    if (ACTIVE) y = {active(y.x), active(y.y)};
                    if (TIMES) y = {y.x*m.x, y.y*m.y};
                    if (ADDED) y = {y.x + m.x, y.y + m.y};
                    if (SUMMED && r < t.end) {
                        sum[g/4][g%4*2] += TIMES ? y.x : m.x;
                        sum[g/4][g%4*2 + 1] += TIMES ? y.y : m.y;
                    }
                    if (sizeof(Out) == 2) v[x][g] = pack(y.x, y.y);
                    else if (r < t.end && t.column + c + g*8 < right) {
                        float2 *to = (float2 *)(out + (first + r)*w + t.column + c + g*8 + q*2);
                        float2 old = {};
                        if (ONTO) old = *to;
                        *to = {y.x + old.x, y.y + old.y};
                    }
                }
            }
            int r = top + i*64 + warp*16, left = t.end - row - i*64;
            size_t at = (first + row + i*64)*w + t.column + c;
            if (STAGED && c + 64 <= 2*N) send(v, out_map, t.z, r, t.column + c, mine, pieces);
            else if (sizeof(Out) == 2) put(v, (Number *)out + at, left, right - t.column - c, w);
            if (SAVED && STAGED) send(kept, saved_map, t.z, r, t.column + c, mine, pieces);
            else if (SAVED) put(kept, o.saved + at, left, w - t.column - c, w);
        }
        #pragma unroll
        for (int b = 0; b < 2 && SUMMED; b++) {
            float all = add_rows(sum[b]);
            int mine = t.column + c + b*32 + (lane/16*2 + lane/8%2)*8 + q*2 + lane/4%2;
            if (mine < w) o.sums[(size_t)(top/(64*M)*4 + warp)*w + mine] = all;
        }
        if ((c/32 + 2)%AHEAD == 0) loaded = next;
    }
}

__global__ void __cluster_dims__(CLUSTER) __launch_bounds__(128*(WGS + 1), BLOCKS)
multiply(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
         const __grid_constant__ TensorMap out_map, const __grid_constant__ TensorMap saved_map, Out *out,
         Number *saved, const Number *bias, const Number *other, float *sums, const int *ends, int count, int h, int w,
         int k, float scale) {
    static_assert(BN%64 == 0 || !(TIMES || ADDED || SAVED || SUMMED || ONTO), "these come 64 columns at a time");
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, mine = b + STAGES*B_BYTES + threadIdx.x/32*4096;
    u32 full = address(bars), empty = full + 8*STAGES;
    int me = blockIdx.x%CLUSTER, wg = __shfl_sync(~0u, threadIdx.x/128, 0), s = 0, phase = 0, steps = (k + BK-1)/BK;
    if (threadIdx.x == WGS*128) {
        prefetch(m);
        prefetch(n);
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, WGS*CLUSTER); }
        barriers_ready();
    }
    if (CLUSTER > 1) cluster_sync(); else __syncthreads();
    if (PDL) {                                            // from here on all that kernels ahead wrote is there
        asm volatile("griddepcontrol.launch_dependents;");
        asm volatile("griddepcontrol.wait;" ::: "memory");
    }
    Schedule work(ends, count, h, w);
    Tile t;
    if (wg == WGS) {                                        // producer: one thread
        registers_down<DOWN>();
        if (threadIdx.x == WGS*128) for (bool back = false; work.next(t); back = !back)
            for (int step = 0; step < steps; step++) {      // there, and back: what was last is still in the L2 cache
                int at = (back ? steps-1 - step : step)*BK;
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(full + 8*s, A_BYTES + B_BYTES);
                load_step(a + s*A_BYTES, b + s*B_BYTES, m, n, t, at, full + 8*s, me);
                if (++s == STAGES) { s = 0; phase++; }
            }
    } else {                                                // consumers
        registers_up<UP>();
        int last = -1, pieces = 0;
        bool signals = threadIdx.x%128 < CLUSTER;       // thread t signals block t
        u64 da = descriptor(a + wg*M*64*128, 16), db = descriptor(b, N_TRANSPOSED ? 16 : BOX);
        Others others = {bias, other, saved, sums, scale};
        float d[M][BN/2];
        while (work.next(t)) {
            for (int step = 0; step < steps; step++) {
                barrier_wait(full + 8*s, phase);
                multiply_step(d, da + s*(A_BYTES/16), db + s*(B_BYTES/16), step > 0);
                wgmma_wait<1>();                            // the step before is done, and its stage is free
                if (last >= 0 && signals) barrier_arrive_at(empty + 8*last, threadIdx.x%128);
                last = s;
                if (++s == STAGES) { s = 0; phase++; }
            }
            int top = t.row + me%CM*BM + wg*M*64, row = top + threadIdx.x%128/32*16 + threadIdx.x%32/4;
            size_t first = GROUPED ? 0 : (size_t)t.z*h;
            Loaded loaded = load_others(others, t, row, 0, first, w);       // in flight during the last step
            wgmma_wait<0>();
            fence_sums(d);
            if (signals) barrier_arrive_at(empty + 8*last, threadIdx.x%128);
            last = -1;
            int right = BN%64 ? min(w, t.column + BN) : w;  // else TMA ends at w, and no piece is beyond the tile
            finish(d, out_map, saved_map, out, others, t, row, top, loaded, mine, pieces, first, right, w);
        }
        if (threadIdx.x%32 == 0) stores_have_read();
    }
    if (CLUSTER > 1) cluster_sync();                             // others may still arrive at this block's barriers
}
