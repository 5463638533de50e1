// out (h x w) = m (h x k) @ n (k x w) for 16-bit floats, accumulated in float32; each matrix is row-major, or stored
// transposed. The names are those of the ladder: elsewhere this is C (M x N) = A (M x K) @ B (K x N).
//
// Requires definitions of BM, BN, BK, STAGES, WGS (consumer warpgroups), CM, CN and CK (blocks of a cluster along
// wgmma's rows, along its columns, and for split-K), BLOCKS (per SM), PRODUCER_REGS and CONSUMER_REGS (registers per
// thread), SWAP_AB (swapped operands: wgmma computes the transpose of out, so that its first tile is a tile of n, and
// its second one a tile of m), SPLIT_N (the two warpgroups split BN instead of BM), PINGPONG (they take turns at tiles,
// so that one multiplies while the other stores), PDL (programmatic dependent launch: the kernel begins before the
// previous one ends), M_TRANSPOSED, N_TRANSPOSED (stored transposed), M and COLUMNS (a consumer has 64*M x COLUMNS
// accumulators), N (columns of these that it stores), OUT_COLS (columns that are stored at once), BUFFER (bytes per
// warpgroup to stage results, and to receive partial sums from other blocks), GROUP (rows of tiles in a band), BOX
// (columns of the TMA boxes of an MN-major second tile); wgmma, and from ladder/hopper.py and ladder/stream_k.py
// `tile_position`, `prefetch`, `cluster_wait` and `store_results`.
//
// a and b are the tiles of wgmma's first and second operand. MN-major: K is the outer axis in shared memory.
constexpr bool A_MN_MAJOR = SWAP_AB ? !N_TRANSPOSED : M_TRANSPOSED;
constexpr bool B_MN_MAJOR = SWAP_AB ? M_TRANSPOSED : !N_TRANSPOSED;
// rows of b's tile: CM parts, each a multiple of eight rows
constexpr int ROWS = (BN + 8*CM-1)/(8*CM)*8*CM;
constexpr int A_BYTES = BM*128, B_BYTES = (B_MN_MAJOR ? (BN + BOX-1)/BOX*BOX : ROWS)*128;           // complete boxes
constexpr int SHARING_BLOCKS = CM*CN, CLUSTER = SHARING_BLOCKS*CK;
constexpr int A_STEP = A_MN_MAJOR ? 16*128 : 32, B_STEP = B_MN_MAJOR ? 16*2*BOX : 32;  // bytes to the next 16 along k
constexpr int A_PART = SPLIT_N || PINGPONG ? 0 : M*64*128, B_PART = SPLIT_N ? COLUMNS*128 : 0;
// warpgroups that share a tile; a warpgroup computes every TILE_STRIDE-th tile of its cluster
constexpr int WGS_PER_TILE = PINGPONG ? 1 : WGS, TILE_STRIDE = PINGPONG ? WGS : 1;
constexpr bool MOVES_REGISTERS = WGS > 1 || BLOCKS > 1;       // setmaxnreg moves registers to the consumers
// rows and columns of out that a cluster computes
constexpr int CLUSTER_ROWS = SWAP_AB ? BN*CN : BM*CM, CLUSTER_COLS = SWAP_AB ? BM*CM : BN*CN;
constexpr u64 UPPER = (u64)(1024 >> 4 | 1 << 30) << 32;       // upper half of descriptors: 8 rows of 128 bytes, or 64
constexpr u64 B_UPPER = B_MN_MAJOR && BOX == 32 ? (u64)(512 >> 4 | 2u << 30) << 32 : UPPER;

// Loads this block's part of a box of ROWS rows of WIDTH bytes, multicast to the `blocks` of the cluster that need it
template<int PARTS, int ROWS, int WIDTH>
__device__ void load_box(u32 dst, const TensorMap &x, int row, int column, u32 bar, int part, short blocks) {
    constexpr int ROWS_PER_BLOCK = ROWS/PARTS;
    if (PARTS == 1) tma_load(dst, x, row, column, bar);
    else tma_load_multicast(dst + part*ROWS_PER_BLOCK*WIDTH, x, row + part*ROWS_PER_BLOCK, column, bar, blocks);
}
// Loads LENGTH rows of a tile of wgmma, from `row` on, and 64 elements along k from `k` on; if it is MN-major, in boxes
// of COLS columns
template<bool MN_MAJOR, int PARTS, int LENGTH, int COLS>
__device__ void load_tile(u32 dst, const TensorMap &x, int row, int k, u32 bar, int part, short blocks) {
    if (!MN_MAJOR) load_box<PARTS, LENGTH, 128>(dst, x, row, k, bar, part, blocks);
    else for (int r = 0; r < LENGTH; r += COLS)
        load_box<PARTS, BK, 2*COLS>(dst + r*128, x, k, row + r, bar, part, blocks);
}

// Issues d (+)= the product of a step, whose tiles have descriptors with these lower halves
__device__ void multiply_step(float (&d)[M][COLUMNS/2], u32 a_descriptor, u32 b_descriptor, bool accumulate) {
    fence_accumulators(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BK/16; i++)
        #pragma unroll
        for (int x = 0; x < M; x++)
            wgmma<A_MN_MAJOR, B_MN_MAJOR>(d[x], UPPER | (a_descriptor + (x*64*128 + i*A_STEP)/16),
                                          B_UPPER | (b_descriptor + i*B_STEP/16),
                                          accumulate || i > 0);
    wgmma_commit();
}

__device__ u32 address_in_block(u32 local, int block) {     // the same address in another block of the cluster
    u32 remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(block));
    return remote;
}
// Sends four floats to another block, whose mbarrier counts the bytes
__device__ void send_float4(u32 dst, const float *v, u32 bar) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                 :: "r"(dst), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(bar) : "memory");
}

// Split-K in a cluster: each of the CK blocks has multiplied its part of k, this one `k_part`, and now reduces N
// columns, always in the same order. The other blocks send their partial sums of these columns with st.async to
// `buffer` of this warp, SENT_QUADS float4 per block, in the order in which a thread holds its accumulators. This
// needs no cluster barrier and no fence, which take thousands of cycles. `position`: the index of this block among the
// SHARING_BLOCKS.
constexpr int SENT_QUADS = M*N/8*32;
__device__ void reduce_cluster(float (&sums)[M][N/2], const float (&d)[M][COLUMNS/2], float4 *buffer, u32 bar,
                               int k_part, int position) {
    buffer += threadIdx.x%32;
    #pragma unroll
    for (int b = 0; b < CK; b++) {
        int block = b*SHARING_BLOCKS + position;
        u32 dst = address_in_block(address(buffer + (k_part - (k_part > b))*SENT_QUADS), block);
        u32 remote_bar = address_in_block(bar, block);
        #pragma unroll
        for (int e = 0; e < M*N/2; e += 4) {
            int x = e/(N/2), c = e%(N/2);
            const float *src = &d[x][min(b*N, COLUMNS - N)/2 + c];         // the parts of two blocks may overlap
            if (b != k_part) send_float4(dst + e/4*32*16, src, remote_bar);
            else for (int f = 0; f < 4; f++) sums[x][c + f] = src[f];
        }
    }
    barrier_wait(bar, 0);
    #pragma unroll
    for (int e = 0; e < M*N/2; e += 4) {
        float *dst = &sums[e/(N/2)][e%(N/2)], own[4] = {dst[0], dst[1], dst[2], dst[3]};
        dst[0] = dst[1] = dst[2] = dst[3] = 0;
        #pragma unroll
        for (int b = 0; b < CK; b++) {
            float4 v = b == k_part ? make_float4(own[0], own[1], own[2], own[3])
                                   : buffer[(b - (b > k_part))*SENT_QUADS + e/4*32];
            dst[0] += v.x; dst[1] += v.y; dst[2] += v.z; dst[3] += v.w;
        }
    }
}

// Arrives without releasing this thread's writes, which would take a thousand cycles; mbarriers synchronize the writes
// that other blocks read
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }

// Computes the position of the first tile here, because its first use is on the critical path
__device__ void first_position(int tile, int tile_rows, int tile_cols, int &tr, int &tc) {
    tile_position(tile, tile_rows, tile_cols, tr, tc);
    asm volatile("" : "+r"(tr), "+r"(tc));
}

// Ping-pong: an mbarrier stores only the parity of its phase, so a warpgroup must not wait for a stage that is two
// passes of the ring ahead. Therefore a warpgroup begins when the other one has waited for all stages of its own tile
__device__ void wait_for_warpgroup(int wg) { asm volatile("bar.sync %0, 256;" :: "r"(WGS + 1 + wg) : "memory"); }
__device__ void release_warpgroup(int wg) { asm volatile("bar.arrive %0, 256;" :: "r"(WGS + 1 + wg) : "memory"); }

__global__ void __cluster_dims__(CLUSTER) __launch_bounds__(128*(WGS + 1), BLOCKS)
gemm_f16_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
           const __grid_constant__ TensorMap out, int h, int w, int k) {
    static_assert(BUFFER >= 128*OUT_COLS && BUFFER >= (CK - 1)*SENT_QUADS*4*16, "BUFFER is too small");
    static_assert(SWAP_AB || N%16 == 0, "the number of columns of a box of results must be a multiple of 16");
    static_assert(!SPLIT_N || !B_MN_MAJOR || COLUMNS%BOX == 0, "each warpgroup must have complete boxes");
    static_assert(!PINGPONG || (CK == 1 && !SPLIT_N), "ping-pong warpgroups must have complete tiles");
    extern __shared__ __align__(1024) char shared[];
    u32 a = address(shared), b = a + STAGES*A_BYTES, buffers = b + STAGES*B_BYTES;
    u32 full = buffers + WGS*BUFFER, empty = full + 8*STAGES, received = empty + 8*STAGES;
    int rank = blockIdx.x%CLUSTER, k_part = rank/SHARING_BLOCKS,
        cluster_row = rank%CM, cluster_col = rank%SHARING_BLOCKS/CM;
    int wg = __shfl_sync(~0u, threadIdx.x/128, 0), s = 0, phase = 0;
    int cluster = blockIdx.x/CLUSTER, clusters = gridDim.x/CLUSTER;
    // Three threads share the set-up; one of them computes a position, because divisions are slow.
    if (threadIdx.x == 32) { prefetch(m); prefetch(n); prefetch(out); }
    int tile_rows = (h + CLUSTER_ROWS-1)/CLUSTER_ROWS, tile_cols = (w + CLUSTER_COLS-1)/CLUSTER_COLS;
    int tiles = tile_rows*tile_cols, steps = (k + BK-1)/BK, tr, tc;
    int begin = k_part*steps/CK, end = (k_part + 1)*steps/CK;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2*STAGES; s++) barrier_init(full + 8*s, s < STAGES ? 1 : WGS_PER_TILE*(CM + CN - 1));
        if (CK > 1) { barrier_init(received, 1); barrier_expect(received, WGS*(CK - 1)*SENT_QUADS*4*16); }
        fence_mbarrier_init();
    } else if (threadIdx.x == WGS*128) first_position(cluster, tile_rows, tile_cols, tr, tc);
    if (CLUSTER > 1) { cluster_arrive_relaxed(); cluster_wait(); } else __syncthreads();
    if (PDL) {                                            // after the wait, the writes of earlier kernels are visible
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
        asm volatile("griddepcontrol.wait;" ::: "memory");
    }
    if (wg == WGS) {                                        // producer
        if (MOVES_REGISTERS) setmaxnreg_dec<PRODUCER_REGS>();
        // the blocks that share tile a, and those that share tile b
        short sharing_a = ((1 << SHARING_BLOCKS) - 1)/((1 << CM) - 1) << cluster_row << k_part*SHARING_BLOCKS;
        short sharing_b = ((1 << CM) - 1) << cluster_col*CM << k_part*SHARING_BLOCKS;
        bool backward = false;                              // alternate directions: the last tiles are still in L2
        if (threadIdx.x == WGS*128) for (int tile = cluster; tile < tiles; backward = !backward) {
            int x = ((SWAP_AB ? tc : tr)*CM + cluster_row)*BM, y = ((SWAP_AB ? tr : tc)*CN + cluster_col)*BN;
            for (int step = begin; step < end; step++) {
                int k_begin = (backward ? begin + end-1 - step : step)*BK;
                u32 bar = full + 8*s;
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(bar, A_BYTES + B_BYTES);
                load_tile<A_MN_MAJOR, CN, BM, 64>(a + s*A_BYTES, SWAP_AB ? n : m, x, k_begin, bar,
                                                  cluster_col, sharing_a);
                load_tile<B_MN_MAJOR, CM, B_MN_MAJOR ? BN : ROWS, BOX>(b + s*B_BYTES, SWAP_AB ? m : n, y, k_begin, bar,
                                                                       cluster_row, sharing_b);
                if (++s == STAGES) { s = 0; phase++; }
            }
            if ((tile += clusters) < tiles) tile_position(tile, tile_rows, tile_cols, tr, tc);
        }
        if (CLUSTER > 1) cluster_arrive_relaxed();
    } else {                                                // consumers
        if (MOVES_REGISTERS) setmaxnreg_inc<CONSUMER_REGS>();
        int warp = threadIdx.x/32, t = threadIdx.x%128, prev_stage = -1;
        // thread t signals block t
        bool signals = t < CLUSTER && t/SHARING_BLOCKS == k_part &&
                       (t%CM == cluster_row || t%SHARING_BLOCKS/CM == cluster_col);
        bool sends = SWAP_AB ? t == 0 : t%32 == 0;           // one thread per warpgroup, or per warp
        u32 buffer = buffers + wg*BUFFER + warp%4*(BUFFER/4), staging = SWAP_AB ? buffers + wg*BUFFER : buffer;
        u32 a_descriptor = descriptor(a + wg*A_PART, A_MN_MAJOR ? 64*128 : 16);
        u32 b_descriptor = descriptor(b + wg*B_PART, B_MN_MAJOR ? BOX*128 : 16);
        float d[M][COLUMNS/2];
        int tile = cluster + (PINGPONG ? wg*clusters : 0);
        first_position(tile, tile_rows, tile_cols, tr, tc);              // while the first tiles are in flight
        // Other blocks may have exited before the last stages are empty: consumers signal only stages to be refilled
        int refills = CLUSTER > 1 ? (tiles - cluster + clusters-1)/clusters*(end - begin) - STAGES : 1 << 30;
        auto skip = [&](int num_tiles) {                    // skips the stages of tiles of the other warpgroup
            s += num_tiles*(end - begin);
            phase += s/STAGES;
            s %= STAGES;
            refills -= num_tiles*(end - begin);
        };
        if (PINGPONG) skip(wg);
        if (PINGPONG && CLUSTER > 1 && tile >= tiles) cluster_arrive_relaxed();
        while (tile < tiles) {
            if (PINGPONG && tile > cluster) wait_for_warpgroup(wg);
            for (int step = begin; step < end; step++) {
                barrier_wait(full + 8*s, phase);
                multiply_step(d, a_descriptor + s*(A_BYTES/16), b_descriptor + s*(B_BYTES/16), step > begin);
                wgmma_wait<1>();                            // the previous step has finished: its stage is empty
                if (prev_stage >= 0 && refills-- > 0 && signals) barrier_arrive_at(empty + 8*prev_stage, t);
                prev_stage = s;
                if (++s == STAGES) { s = 0; phase++; }
            }
            if (PINGPONG && tile + clusters < tiles) release_warpgroup(1 - wg);
            wgmma_wait<0>();
            fence_accumulators(d);
            int x = ((SWAP_AB ? tc : tr)*CM + cluster_row)*BM + wg*(A_PART/128) + (SWAP_AB ? 0 : warp%4*16);
            int y = ((SWAP_AB ? tr : tc)*CN + cluster_col)*BN + (SPLIT_N ? wg*COLUMNS : 0);
            if (refills-- > 0 && signals) barrier_arrive_at(empty + 8*prev_stage, t);
            prev_stage = -1;
            if (PINGPONG) skip(TILE_STRIDE - 1);
            if (CLUSTER > 1 && tile + TILE_STRIDE*clusters >= tiles) cluster_arrive_relaxed();
            if constexpr (CK > 1) {                         // there is one tile per cluster
                float sums[M][N/2];
                reduce_cluster(sums, d, (float4 *)(shared + buffer - a), received, k_part,
                               cluster_col*CM + cluster_row);
                store_results(sums, out, x, y + min(k_part*N, COLUMNS - N), h, w, staging, sends, wg);
            } else store_results(reinterpret_cast<float (&)[M][N/2]>(d), out, x, y, h, w, staging, sends, wg);
            if ((tile += TILE_STRIDE*clusters) < tiles) tile_position(tile, tile_rows, tile_cols, tr, tc);
        }
        if (sends) stores_wait_read();
    }
    if (CLUSTER > 1) cluster_wait();                        // other blocks may still load into the stages here
}
