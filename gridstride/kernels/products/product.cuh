// out = scale * m @ n and what an epilogue makes of it, for 16-bit floats that are summed in float32. `count` products
// whose matrices follow each other in memory; or, GROUPED, one whose rows of m and of out belong to `count` groups: each
// ends before row `ends[g]`, and has its own n.
// Above: Number, Out (float, or as Number), BM, BN, BK, STAGES, WGS (warpgroups that multiply), CM (blocks of a cluster,
// below each other: they share n), BLOCKS (of an SM), DOWN and UP (registers of a
// thread that copies, and of one that multiplies), GROUP (rows of tiles that are visited together), GROUPED,
// M_TURNED, N_TURNED (does memory hold the transpose?), and wgmma. Of the epilogue: BIAS, ACTIVE, SLOPED, ADDED, SAVED,
// SUMMED, ONTO, PAIRED (are there two under way?), and the functions `active` and `slope`.
constexpr int A_BYTES = BM*BK*2, B_BYTES = BK*BN*2, BOX = BK*128, M = BM/64/WGS, TALL = BM*CM;

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

// Where a tile of a cluster lies: in which product or group, from which row and column on, and where its rows end
struct Tile { int z, row, column, end; };

struct Schedule {
    const int *ends;
    int count, wide, tile, z, from, to, before;             // group z has rows `from` to `to`; `before`: tiles before
    __device__ Schedule(const int *ends, int count, int h, int w)
        : ends(ends), count(count), wide((w + BN-1)/BN), tile(blockIdx.x/CM), z(0), from(0), to(GROUPED ? ends[0] : h),
          before(0) {}
    __device__ bool next(Tile &t) {
        for (;; z++) {
            int tall = (to - from + TALL-1)/TALL, in = tile - before;
            if (!GROUPED) { t.z = in/(tall*wide); in %= tall*wide; if (t.z >= count) return false; }
            else if (in < tall*wide) t.z = z;
            else if (z == count-1) return false;
            else { before += tall*wide; from = to; to = ends[z+1]; continue; }
            int band = in/(GROUP*wide), inside = in%(GROUP*wide), rows = min(GROUP, tall - band*GROUP);
            t.row = from + (band*GROUP + inside%rows)*TALL;
            t.column = inside/rows*BN;
            t.end = to;
            tile += gridDim.x/CM;
            return true;
        }
    }
};

// a step's tiles, from `at` on along k, for block `me` of the cluster; each brings its part of what all share
__device__ void load_step(u32 a, u32 b, const TensorMap &m, const TensorMap &n, const Tile &t, int at, u32 bar, int me) {
    int row = t.row + me*BM, zm = GROUPED ? 0 : t.z;
    if (M_TURNED) for (int x = 0; x < BM; x += 64) tma_load(a + x/64*BOX, m, zm, at, row + x, bar);
    else tma_load(a, m, zm, row, at, bar);
    constexpr int ROWS = N_TURNED ? BN/CM : BK/CM;
    for (int x = 0; x < (N_TURNED ? 64 : BN); x += 64) {
        u32 to = b + x/64*BOX + me*ROWS*128;
        int r = (N_TURNED ? t.column : at) + me*ROWS, c = N_TURNED ? at : t.column + x;
        if (CM == 1) tma_load(to, n, t.z, r, c, bar);
        else tma_load_for(to, n, t.z, r, c, bar, (1 << CM) - 1);
    }
}

// starts d (+)= a step's product; da and db describe its tiles
__device__ void multiply_step(float (&d)[M][BN/2], u64 da, u64 db, bool more) {
    fence_sums(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BK/16; i++)
        #pragma unroll
        for (int x = 0; x < M; x++)
            wgmma<M_TURNED, !N_TURNED>(d[x], da + x*64*128/16 + i*(M_TURNED ? 16*128 : 32)/16,
                                       db + i*(N_TURNED ? 32 : 16*128)/16, more || i > 0);
    wgmma_commit();
}

// Four lanes have four words each, the sums of four times eight columns: afterwards each has those of eight in a row.
// Done twice, all is as it was.
__device__ void turn(u32 (&v)[4]) {
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
    const Number *__restrict__ bias, *__restrict__ other;   // a row; like out: what is added, or where `slope` is asked
    Number *saved;                                          // like out: what `active` was given
    float *sums;                                            // a row for each warp's rows of out
    float scale;
};

constexpr int AHEAD = BN < 128 ? BN/32 : PAIRED ? 2 : 4;    // thirty-twos of columns whose loads are under way
struct Loaded { uint4 at[AHEAD][2*M]; };

// a thread's eight columns, beyond `c0`, of each of its rows and each thirty-two columns
__device__ Loaded load_others(const Others &o, const Tile &t, int row, int c0, size_t first, int w) {
    Loaded res = {};
    if (SLOPED || ADDED)
        #pragma unroll
        for (int j = 0; j < AHEAD; j++)
            #pragma unroll
            for (int x = 0; x < 2*M; x++) {                 // eight rows of each sixteen
                int r = row + x*8 + x/2*48, c = t.column + c0 + j*32 + threadIdx.x%4*8;
                if (r < t.end && c < w) res.at[j][x] = __ldg((const uint4 *)(o.other + (first + r)*w + c));
            }
    return res;
}

// each lane has eight sums, of which all with the same lane%4 are added: afterwards it has number (lane/4) of the eight,
// with its bits turned around
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

// 64*M x BN sums of a warpgroup, whose first row is `top`, become results
__device__ void finish(float (&d)[M][BN/2], Out *out, const Others &o, const Tile &t, int row, int top, Loaded loaded,
                       size_t first, int h, int w) {
    int q = threadIdx.x%4, lane = threadIdx.x%32;
    #pragma unroll
    for (int c0 = 0; c0 < BN; c0 += 32*AHEAD) {
        Loaded next;
        if (c0 + 32*AHEAD < BN) next = load_others(o, t, row, c0 + 32*AHEAD, first, w);
        #pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            int c = c0 + j*32;
            float2 bias[4] = {};
            float sum[8] = {};
            #pragma unroll
            for (int g = 0; g < 4 && BIAS; g++)
                if (t.column + c + g*8 < w) bias[g] = unpacked(__ldg((const u32 *)(o.bias + t.column + c + g*8 + q*2)));
            #pragma unroll
            for (int x = 0; x < 2*M; x++) {
                int r = row + x*8 + x/2*48;
                uint4 in = loaded.at[j][x];
                u32 more[4] = {in.x, in.y, in.z, in.w}, v[4], before[4];
                if (SLOPED || ADDED) turn(more);
                #pragma unroll
                for (int g = 0; g < 4; g++) {
                    float *e = &d[x/2][(c/8 + g)*4 + x%2*2];
                    float2 y = {e[0]*o.scale + bias[g].x, e[1]*o.scale + bias[g].y}, m = {};
                    if (SLOPED || ADDED) m = unpacked(more[g]);
                    if (SAVED) before[g] = pack(y.x, y.y);
                    if (ACTIVE) y = {active(y.x), active(y.y)};
                    if (SLOPED) y = {y.x*slope(m.x), y.y*slope(m.y)};
                    if (ADDED) y = {y.x + m.x, y.y + m.y};
                    if (SUMMED && r < t.end) { sum[2*g] += SLOPED ? y.x : m.x; sum[2*g + 1] += SLOPED ? y.y : m.y; }
                    if (sizeof(Out) == 2) v[g] = pack(y.x, y.y);
                    else if (r < t.end && t.column + c + g*8 < w) {
                        float2 *to = (float2 *)(out + (first + r)*w + t.column + c + g*8 + q*2);
                        float2 old = {};
                        if (ONTO) old = *to;
                        *to = {y.x + old.x, y.y + old.y};
                    }
                }
                size_t at = (first + r)*w + t.column + c + q*8;
                bool inside = r < t.end && t.column + c + q*8 < w;
                if (sizeof(Out) == 2) {
                    turn(v);
                    if (inside) *(uint4 *)(out + at) = {v[0], v[1], v[2], v[3]};
                }
                if (SAVED) {
                    turn(before);
                    if (inside) *(uint4 *)(o.saved + at) = {before[0], before[1], before[2], before[3]};
                }
            }
            if (SUMMED) {
                float all = add_rows(sum);
                int mine = t.column + c + (lane/16*2 + lane/8%2)*8 + q*2 + lane/4%2;
                if (mine < w) o.sums[(size_t)(top/(64*M)*4 + threadIdx.x%128/32)*w + mine] = all;
            }
        }
        loaded = next;
    }
}

__global__ void __cluster_dims__(CM) __launch_bounds__(128*(WGS + 1), BLOCKS)
multiply(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n, Out *out, const Number *bias,
         const Number *other, Number *saved, float *sums, const int *ends, int count, int h, int w, int k, float scale) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, full = address(bars), empty = full + 8*STAGES;
    int me = blockIdx.x%CM, wg = __shfl_sync(~0u, threadIdx.x/128, 0), s = 0, turn = 0, steps = (k + BK-1)/BK;
    if (threadIdx.x == WGS*128) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, WGS*CM); }
        barriers_ready();
    }
    if (CM > 1) cluster_sync(); else __syncthreads();
    Schedule work(ends, count, h, w);
    Tile t;
    if (wg == WGS) {                                        // producer: one thread
        registers_down<DOWN>();
        if (threadIdx.x == WGS*128) while (work.next(t))
            for (int step = 0; step < steps; step++) {
                barrier_wait(empty + 8*s, turn-1);
                barrier_expect(full + 8*s, A_BYTES + B_BYTES);
                load_step(a + s*A_BYTES, b + s*B_BYTES, m, n, t, step*BK, full + 8*s, me);
                if (++s == STAGES) { s = 0; turn++; }
            }
    } else {                                                // consumers
        registers_up<UP>();
        int last = -1;
        bool tells = threadIdx.x%128 < CM;                  // thread t tells block t
        u64 da = descriptor(a + wg*M*64*128, 16), db = descriptor(b, N_TURNED ? 16 : BOX);
        Others others = {bias, other, saved, sums, scale};
        float d[M][BN/2];
        while (work.next(t)) {
            for (int step = 0; step < steps; step++) {
                barrier_wait(full + 8*s, turn);
                multiply_step(d, da + s*(A_BYTES/16), db + s*(B_BYTES/16), step > 0);
                wgmma_wait<1>();                            // the step before is done, and its stage is free
                if (last >= 0 && tells) barrier_arrive_at(empty + 8*last, threadIdx.x%128);
                last = s;
                if (++s == STAGES) { s = 0; turn++; }
            }
            int top = t.row + me*BM + wg*M*64, row = top + threadIdx.x%128/32*16 + threadIdx.x%32/4;
            size_t first = GROUPED ? 0 : (size_t)t.z*h;
            Loaded loaded = load_others(others, t, row, 0, first, w);       // on their way during the last step
            wgmma_wait<0>();
            fence_sums(d);
            if (tells) barrier_arrive_at(empty + 8*last, threadIdx.x%128);
            last = -1;
            finish(d, out, others, t, row, top, loaded, first, h, w);
        }
    }
    if (CM > 1) cluster_sync();                             // others may still arrive at my barriers
}
