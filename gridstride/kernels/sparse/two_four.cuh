// Computes y = x @ w.T (+ bias) for a w with 2:4 sparsity along k. `values` (rows x k/2) has the nonzero elements,
// `metadata` their positions, one word per thread and 64 elements along k. x is n x k, y is n x rows, all of 16-bit
// floats. A cluster of CM x CN blocks computes CM*BM rows of w by CN*BN rows of x at a time; tiles that several blocks
// need are loaded once, by multicast. Requires definitions of BM, BN, BK (of a stage, along k: w stores half as many
// elements), STAGES, WGS (consumer warpgroups), CM, CN, GROUP (rows of tiles that are visited together), the constants
// of `store_transposed.cuh`, and wgmma_sp.
constexpr int A_BYTES = BM*BK, B_BYTES = BN*BK*2, CLUSTER = CM*CN;

// Returns the descriptor of a tile of w, whose rows of 64 bytes TMA has swizzled.
__device__ u64 narrow_descriptor(u32 smem_address) {
    return (smem_address & 0x3ffff) >> 4 | 1ull << 16 | (u64)(512 >> 4) << 32 | 2ull << 62;
}

// Computes the row and column of a tile: tiles are visited in bands of GROUP rows, column by column within a band.
__device__ void tile_position(int tile, int row_tiles, int column_tiles, int &tr, int &tc) {
    int band = tile/(GROUP*column_tiles), position = tile%(GROUP*column_tiles);
    int rows = min(GROUP, row_tiles - band*GROUP);
    tr = band*GROUP + position%rows; tc = position/rows;
}

// Loads this block's part of a box of ROWS rows of ROW_BYTES bytes, and multicasts it to all `blocks`.
template<int PARTS, int ROWS, int ROW_BYTES>
__device__ void load_part(u32 dst, const TensorMap &x, int r, int c, u32 bar, int part, short blocks) {
    if (PARTS == 1) tma_load(dst, x, r, c, bar);
    else tma_load_multicast(dst + part*(ROWS/PARTS)*ROW_BYTES, x, r + part*(ROWS/PARTS), c, bar, blocks);
}

// Issues d (+)= the product of one stage, with the first or the second of two words of metadata.
__device__ void multiply(float (&d)[M][N/2], u64 a, u64 b, uint2 (&metadata)[M], bool second, bool accumulate) {
    fence_accumulators(d);
    wgmma_fence();
    #pragma unroll
    for (int x = 0; x < M; x++)
        wgmma_sp<0>(d[x], a + x*64*BK/16, b, second ? metadata[x].y : metadata[x].x, accumulate);
    #pragma unroll
    for (int x = 0; x < M; x++)
        wgmma_sp<1>(d[x], a + (x*64*BK + 32)/16, b + 64/16, second ? metadata[x].y : metadata[x].x, 1);
    wgmma_commit();
}

// Keeps a word of metadata in its register until the product is complete: the tensor cores read it until then, which
// the compiler does not know. The condition makes the compiler believe that the word is used again. It never holds,
// because a word of 0 would contain a position twice, so no thread sleeps.
__device__ void keep_alive(const uint2 (&metadata)[M], bool second) {
    #pragma unroll
    for (int x = 0; x < M; x++)
        asm volatile("{ .reg .pred none; setp.eq.b32 none, %0, 0;\n@none nanosleep.u32 %0; }"
                     :: "r"(second ? metadata[x].y : metadata[x].x) : "memory");
}

__global__ void __cluster_dims__(CLUSTER) __launch_bounds__(128*(WGS + 1), 1)
multiply_24(const __grid_constant__ TensorMap values, const __grid_constant__ TensorMap x,
            const __grid_constant__ TensorMap y, const uint2 *metadata, const Elem *bias, int rows, int n, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 barriers[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, staging = b + STAGES*B_BYTES;
    u32 full = address(barriers), empty = full + 8*STAGES;
    int rank_in_cluster = blockIdx.x%CLUSTER, i = rank_in_cluster%CM, j = rank_in_cluster/CM;
    int wg = __shfl_sync(~0u, threadIdx.x/128, 0), s = 0, phase = 0;
    int row_tiles = (rows + BM*CM-1)/(BM*CM), column_tiles = (n + BN*CN-1)/(BN*CN), tr, tc;
    int steps = (k + 4*BK-1)/(4*BK)*4;                              // a multiple of 4; elements beyond k are zeros
    if (threadIdx.x == WGS*128) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, WGS*(CM + CN - 1)); }
        fence_mbarrier_init();
    }
    cluster_sync();
    if (wg == WGS) {                                                // producer
        setmaxnreg_dec<40>();
        short multicast_mask_a = ((1 << CLUSTER) - 1)/((1 << CM) - 1) << i, multicast_mask_b = ((1 << CM) - 1) << j*CM;
        if (threadIdx.x == WGS*128)
        for (int tile = blockIdx.x/CLUSTER; tile < row_tiles*column_tiles; tile += gridDim.x/CLUSTER) {
            tile_position(tile, row_tiles, column_tiles, tr, tc);
            for (int step = 0; step < steps; step++) {
                u32 bar = full + 8*s;
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(bar, A_BYTES + B_BYTES);
                load_part<CN, BM, BK>(a + s*A_BYTES, values, (tr*CM + i)*BM, step*BK/2, bar, j, multicast_mask_a);
                load_part<CM, BN, BK*2>(b + s*B_BYTES, x, (tc*CN + j)*BN, step*BK, bar, i, multicast_mask_b);
                if (++s == STAGES) { s = 0; phase++; }
            }
        }
    } else {                                                        // consumers
        setmaxnreg_inc<232>();
        int t = threadIdx.x%128, prev_stage = -1, pairs = (k + 2*BK-1)/(2*BK), tiles = (rows + 63)/64;
        bool signals = t < CLUSTER && (t%CM == i || t/CM == j);
        u32 buffer = staging + wg*OUT*256;
        u64 da = narrow_descriptor(a + wg*M*64*BK), db = descriptor(b, 16);
        float d[M][N/2];
        for (int tile = blockIdx.x/CLUSTER; tile < row_tiles*column_tiles; tile += gridDim.x/CLUSTER) {
            tile_position(tile, row_tiles, column_tiles, tr, tc);
            int row = (tr*CM + i)*BM + wg*M*64;
            const uint2 *src[M];
            uint2 e[2][M];                                          // metadata of two stages, and of the next two
            #pragma unroll
            for (int x = 0; x < M; x++) {
                src[x] = metadata + (size_t)min(row/64 + x, tiles-1)*pairs*128 + t;
                e[0][x] = e[1][x] = *src[x];
            }
            for (int step = 0; step < steps; step += 4) {
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    barrier_wait(full + 8*s, phase);
                    multiply(d, da + s*(A_BYTES/16), db + s*(B_BYTES/16), e[i/2], i%2, step + i > 0);
                    wgmma_wait<1>();                        // the previous product is complete: its stage is free
                    keep_alive(e[(i + 3)%4/2], (i + 1)%2);
                    if (prev_stage >= 0 && signals) barrier_arrive_at(empty + 8*prev_stage, t);
                    prev_stage = s;
                    if (++s == STAGES) { s = 0; phase++; }
                    if (i%2 == 0)                                   // the registers of its metadata are free, too
                        #pragma unroll
                        for (int x = 0; x < M; x++) e[1 - i/2][x] = src[x][min((step + i)/2 + 1, pairs-1)*128];
                }
            }
            wgmma_wait<0>();
            keep_alive(e[1], true);
            fence_accumulators(d);
            if (signals) barrier_arrive_at(empty + 8*prev_stage, t);
            prev_stage = -1;
            store_transposed(d, y, bias, rows, (tc*CN + j)*BN, row, buffer, wg);
        }
        if (t == 0) stores_wait_read();
    }
    cluster_sync();  // other blocks may still arrive at this block's barriers
}
