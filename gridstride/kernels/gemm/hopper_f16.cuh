// out (h x w) = m (h x k) @ n (k x w) for 16-bit floats, accumulated in float32; each matrix is row-major, or memory
// holds its transpose. The names are those of the ladder: elsewhere this is C (M x N) = A (M x K) @ B (K x N).
//
// Defined above this source: BM, BN, BK, STAGES, WGS (consumer warpgroups), CM, CN and CK (blocks of a cluster along
// wgmma's rows, along its columns, and for split-K), BLOCKS (per SM), DOWN and UP (registers per thread of the
// producer, and of a consumer), SWAP_AB (swapped operands: the transpose of out is computed, so that wgmma's first tile
// is one of n, and its second one of m), SPLIT_N (the two warpgroups split BN instead of BM), PINGPONG (they take turns
// at tiles, so that one multiplies while the other stores), PDL (programmatic dependent launch: the kernel begins
// before the previous one ends), M_TRANSPOSED, N_TRANSPOSED (memory holds the transpose), M and COLUMNS (a consumer has
// 64*M x COLUMNS accumulators), N (columns of these that it stores), OUT_COLS (columns that are stored at once), BUFFER
// (bytes per warpgroup to stage these, and to receive partial sums from other blocks), GROUP (rows of tiles in a band);
// wgmma, and from ladder/stream_k.py `place`, `load_part` and `store_results`.
//
// a and b are the tiles of wgmma's first and second operand. MN-major: K is the outer axis in shared memory.
constexpr bool A_MN_MAJOR = SWAP_AB ? !N_TRANSPOSED : M_TRANSPOSED;
constexpr bool B_MN_MAJOR = SWAP_AB ? M_TRANSPOSED : !N_TRANSPOSED;
// rows of b's tile: CM parts, each a multiple of eight rows
constexpr int ROWS = (BN + 8*CM-1)/(8*CM)*8*CM;
constexpr int A_BYTES = BM*128, B_BYTES = (B_MN_MAJOR ? (BN + BOX-1)/BOX*BOX : ROWS)*128;           // complete boxes
constexpr int SHARERS = CM*CN, CLUSTER = SHARERS*CK;
constexpr int A_STEP = A_MN_MAJOR ? 16*128 : 32, B_STEP = B_MN_MAJOR ? 16*2*BOX : 32;  // bytes to the next 16 along k
constexpr int A_OWN = SPLIT_N || PINGPONG ? 0 : M*64*128, B_OWN = SPLIT_N ? COLUMNS*128 : 0;
// warpgroups that share a tile; a warpgroup computes every EVERY-th tile of its cluster
constexpr int TAKERS = PINGPONG ? 1 : WGS, EVERY = PINGPONG ? WGS : 1;
constexpr bool MOVED = WGS > 1 || BLOCKS > 1;       // setmaxnreg moves registers to the consumers
// rows and columns of out that a cluster computes
constexpr int HIGH = SWAP_AB ? BN*CN : BM*CM, WIDE = SWAP_AB ? BM*CM : BN*CN;
constexpr u64 UPPER = (u64)(1024 >> 4 | 1 << 30) << 32;       // upper half of descriptors: 8 rows of 128 bytes, or 64
constexpr u64 B_UPPER = B_MN_MAJOR && BOX == 32 ? (u64)(512 >> 4 | 2u << 30) << 32 : UPPER;

// Loads this block's part of a box of ROWS rows of WIDTH bytes, multicast to the `blocks` of the cluster that need it
template<int PARTS, int ROWS, int WIDTH>
__device__ void load_box(u32 to, const TensorMap &x, int row, int column, u32 bar, int part, short blocks) {
    constexpr int OWN = ROWS/PARTS;
    if (PARTS == 1) tma_load(to, x, row, column, bar);
    else tma_load_for(to + part*OWN*WIDTH, x, row + part*OWN, column, bar, blocks);
}
// Loads LONG rows of a tile of wgmma, from `row` on, and 64 elements along k from `at` on; if it is MN-major (DOWN), in
// boxes of COLS columns
template<bool DOWN, int PARTS, int LONG, int COLS>
__device__ void load_tile(u32 to, const TensorMap &x, int row, int at, u32 bar, int part, short blocks) {
    if (!DOWN) load_box<PARTS, LONG, 128>(to, x, row, at, bar, part, blocks);
    else for (int r = 0; r < LONG; r += COLS)
        load_box<PARTS, BK, 2*COLS>(to + r*128, x, at, row + r, bar, part, blocks);
}

// Issues d (+)= the product of a step; da and db: the lower halves of the descriptors of its tiles
__device__ void multiply_step(float (&d)[M][COLUMNS/2], u32 da, u32 db, bool more) {
    fence_sums(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BK/16; i++)
        #pragma unroll
        for (int x = 0; x < M; x++)
            wgmma<A_MN_MAJOR, B_MN_MAJOR>(d[x], UPPER | (da + (x*64*128 + i*A_STEP)/16), B_UPPER | (db + i*B_STEP/16),
                                  more || i > 0);
    wgmma_commit();
}

__device__ u32 in_block(u32 at, int block) {                // the same address in another block of the cluster
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(block));
    return there;
}
__device__ void send_four(u32 to, const float *v, u32 bar) {        // to another block, whose mbarrier counts the bytes
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                 :: "r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(bar) : "memory");
}

// Split-K in a cluster: each of the CK blocks has multiplied its part of k (this block part q) and now reduces N
// columns, always in the same order. The other blocks send their partial sums of these columns by st.async into
// `buffer` of this warp, EACH float4 per block, in the order in which a thread holds its accumulators. This needs no
// cluster barrier and no fence, which take thousands of cycles. `like`: the index of this block among the SHARERS.
constexpr int EACH = M*N/8*32;
__device__ void reduce_cluster(float (&all)[M][N/2], const float (&d)[M][COLUMNS/2], float4 *buffer, u32 bar, int q,
                               int like) {
    buffer += threadIdx.x%32;
    #pragma unroll
    for (int b = 0; b < CK; b++) {
        int block = b*SHARERS + like;
        u32 to = in_block(address(buffer + (q - (q > b))*EACH), block), there = in_block(bar, block);
        #pragma unroll
        for (int e = 0; e < M*N/2; e += 4) {
            int x = e/(N/2), c = e%(N/2);
            const float *from = &d[x][min(b*N, COLUMNS - N)/2 + c];         // the parts of two blocks may overlap
            if (b != q) send_four(to + e/4*32*16, from, there);
            else for (int f = 0; f < 4; f++) all[x][c + f] = from[f];
        }
    }
    barrier_wait(bar, 0);
    #pragma unroll
    for (int e = 0; e < M*N/2; e += 4) {
        float *to = &all[e/(N/2)][e%(N/2)], mine[4] = {to[0], to[1], to[2], to[3]};
        to[0] = to[1] = to[2] = to[3] = 0;
        #pragma unroll
        for (int b = 0; b < CK; b++) {
            float4 v = b == q ? make_float4(mine[0], mine[1], mine[2], mine[3]) : buffer[(b - (b > q))*EACH + e/4*32];
            to[0] += v.x; to[1] += v.y; to[2] += v.z; to[3] += v.w;
        }
    }
}

// Arrives without a release of this thread's writes, which takes a thousand cycles; mbarriers synchronize the writes
// that other blocks read
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }

// Computes the position of the first tile here, because its first use is on the critical path
__device__ void first_position(int tile, int tall, int wide, int &tr, int &tc) {
    place(tile, tall, wide, tr, tc);
    asm volatile("" : "+r"(tr), "+r"(tc));
}

// Ping-pong: an mbarrier stores only the parity of its phase, so a warpgroup must not wait for a stage that is two
// passes of the ring ahead. Therefore a warpgroup begins when the other one has waited for all stages of its own tile
__device__ void wait_for_warpgroup(int wg) { asm volatile("bar.sync %0, 256;" :: "r"(WGS + 1 + wg) : "memory"); }
__device__ void release_warpgroup(int wg) { asm volatile("bar.arrive %0, 256;" :: "r"(WGS + 1 + wg) : "memory"); }

__global__ void __cluster_dims__(CLUSTER) __launch_bounds__(128*(WGS + 1), BLOCKS)
gemm_f16_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
         const __grid_constant__ TensorMap out, int h, int w, int k) {
    static_assert(BUFFER >= 128*OUT_COLS && BUFFER >= (CK - 1)*EACH*4*16, "the buffer holds results, and partial sums");
    static_assert(SWAP_AB || N%16 == 0, "boxes of results have whole sixteens of columns");
    static_assert(!SPLIT_N || !B_MN_MAJOR || COLUMNS%BOX == 0, "each warpgroup has whole boxes");
    static_assert(!PINGPONG || (CK == 1 && !SPLIT_N), "ping-pong warpgroups have whole tiles");
    extern __shared__ __align__(1024) char shared[];
    u32 a = address(shared), b = a + STAGES*A_BYTES, o = b + STAGES*B_BYTES;
    u32 full = o + WGS*BUFFER, empty = full + 8*STAGES, added = empty + 8*STAGES;
    int me = blockIdx.x%CLUSTER, q = me/SHARERS, i = me%CM, j = me%SHARERS/CM;
    int wg = __shfl_sync(~0u, threadIdx.x/128, 0), s = 0, phase = 0;
    int cluster = blockIdx.x/CLUSTER, clusters = gridDim.x/CLUSTER;
    if (threadIdx.x == 32) { prefetch(m); prefetch(n); prefetch(out); }      // three threads share the set-up
    int tall = (h + HIGH-1)/HIGH, wide = (w + WIDE-1)/WIDE, tiles = tall*wide, steps = (k + BK-1)/BK, tr, tc;
    int begin = q*steps/CK, end = (q + 1)*steps/CK;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2*STAGES; s++) barrier_init(full + 8*s, s < STAGES ? 1 : TAKERS*(CM + CN - 1));
        if (CK > 1) { barrier_init(added, 1); barrier_expect(added, WGS*(CK - 1)*EACH*4*16); }
        barriers_ready();
    } else if (threadIdx.x == WGS*128) first_position(cluster, tall, wide, tr, tc);    // meanwhile: divisions are slow
    if (CLUSTER > 1) { cluster_arrive_relaxed(); cluster_wait(); } else __syncthreads();
    if (PDL) {                                            // after the wait, the writes of earlier kernels are visible
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
        asm volatile("griddepcontrol.wait;" ::: "memory");
    }
    if (wg == WGS) {                                        // producer
        if (MOVED) registers_down<DOWN>();
        // the blocks that share tile a, and those that share tile b
        short same_i = ((1 << SHARERS) - 1)/((1 << CM) - 1) << i << q*SHARERS;
        short same_j = ((1 << CM) - 1) << j*CM << q*SHARERS;
        bool back = false;                                  // alternate directions: the last tiles are still in L2
        if (threadIdx.x == WGS*128) for (int tile = cluster; tile < tiles; back = !back) {
            int x = ((SWAP_AB ? tc : tr)*CM + i)*BM, y = ((SWAP_AB ? tr : tc)*CN + j)*BN;
            for (int step = begin; step < end; step++) {
                int at = (back ? begin + end-1 - step : step)*BK;
                u32 bar = full + 8*s;
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(bar, A_BYTES + B_BYTES);
                load_tile<A_MN_MAJOR, CN, BM, 64>(a + s*A_BYTES, SWAP_AB ? n : m, x, at, bar, j, same_i);
                load_tile<B_MN_MAJOR, CM, B_MN_MAJOR ? BN : ROWS, BOX>(b + s*B_BYTES, SWAP_AB ? m : n, y, at, bar, i,
                                                                       same_j);
                if (++s == STAGES) { s = 0; phase++; }
            }
            if ((tile += clusters) < tiles) place(tile, tall, wide, tr, tc);
        }
        if (CLUSTER > 1) cluster_arrive_relaxed();
    } else {                                                // consumers
        if (MOVED) registers_up<UP>();
        int warp = threadIdx.x/32, t = threadIdx.x%128, last = -1;
        bool signals = t < CLUSTER && t/SHARERS == q && (t%CM == i || t%SHARERS/CM == j);  // thread t signals block t
        bool sends = SWAP_AB ? t == 0 : t%32 == 0;           // one thread per warpgroup, or per warp
        u32 buffer = o + wg*BUFFER + warp%4*(BUFFER/4), mine = SWAP_AB ? o + wg*BUFFER : buffer;
        u32 da = descriptor(a + wg*A_OWN, A_MN_MAJOR ? 64*128 : 16);
        u32 db = descriptor(b + wg*B_OWN, B_MN_MAJOR ? BOX*128 : 16);
        float d[M][COLUMNS/2];
        int tile = cluster + (PINGPONG ? wg*clusters : 0);
        first_position(tile, tall, wide, tr, tc);              // while the first tiles are in flight
        // Other blocks may have exited before the last stages are empty: consumers signal only stages to be refilled
        int refills = CLUSTER > 1 ? (tiles - cluster + clusters-1)/clusters*(end - begin) - STAGES : 1 << 30;
        auto pass = [&](int others) {                       // skips the stages of `others` tiles of the other warpgroup
            s += others*(end - begin);
            phase += s/STAGES;
            s %= STAGES;
            refills -= others*(end - begin);
        };
        if (PINGPONG) pass(wg);
        if (PINGPONG && CLUSTER > 1 && tile >= tiles) cluster_arrive_relaxed();
        while (tile < tiles) {
            if (PINGPONG && tile > cluster) wait_for_warpgroup(wg);
            for (int step = begin; step < end; step++) {
                barrier_wait(full + 8*s, phase);
                multiply_step(d, da + s*(A_BYTES/16), db + s*(B_BYTES/16), step > begin);
                wgmma_wait<1>();                            // the previous step has finished: its stage is empty
                if (last >= 0 && refills-- > 0 && signals) barrier_arrive_at(empty + 8*last, t);
                last = s;
                if (++s == STAGES) { s = 0; phase++; }
            }
            if (PINGPONG && tile + clusters < tiles) release_warpgroup(1 - wg);
            wgmma_wait<0>();
            fence_sums(d);
            int x = ((SWAP_AB ? tc : tr)*CM + i)*BM + wg*(A_OWN/128) + (SWAP_AB ? 0 : warp%4*16);
            int y = ((SWAP_AB ? tr : tc)*CN + j)*BN + (SPLIT_N ? wg*COLUMNS : 0);
            if (refills-- > 0 && signals) barrier_arrive_at(empty + 8*last, t);
            last = -1;
            if (PINGPONG) pass(EVERY - 1);
            if (CLUSTER > 1 && tile + EVERY*clusters >= tiles) cluster_arrive_relaxed();
            if constexpr (CK > 1) {                         // there is one tile per cluster
                float all[M][N/2];
                reduce_cluster(all, d, (float4 *)(shared + buffer - a), added, q, j*CM + i);
                store_results(all, out, x, y + min(q*N, COLUMNS - N), h, w, mine, sends, wg);
            } else store_results(reinterpret_cast<float (&)[M][N/2]>(d), out, x, y, h, w, mine, sends, wg);
            if ((tile += EVERY*clusters) < tiles) place(tile, tall, wide, tr, tc);
        }
        if (sends) stores_have_read();
    }
    if (CLUSTER > 1) cluster_wait();                        // other blocks may still load into the stages here
}
