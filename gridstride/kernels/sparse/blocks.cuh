// Computes y = x @ w.T for a block-sparse w. `values` has the blocks of BR x 64 elements that are not all zeros, one
// after the other, and `columns` has their positions along k; the blocks of block row r begin at index row_offsets[r].
// x is n x k, y is n x rows. Two warpgroups multiply a block by 256 rows of x: each has half of the rows of w if BR is
// 128, else half of x.
// Requires definitions of BR, STAGES, the constants of `store_transposed.cuh`, and wgmma.
constexpr int BN = 256, A_BYTES = BR*128, B_BYTES = BN*128;
constexpr bool SPLIT_N = BR == 64;

// Issues d (+)= the product of a block
__device__ void multiply(float (&d)[M][N/2], u64 a, u64 b, bool accumulate) {
    fence_accumulators(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < 4; i++) wgmma<false, false>(d[0], a + i*32/16, b + i*32/16, accumulate || i > 0);
    wgmma_commit();
}

__global__ void __launch_bounds__(384, 1)
multiply_blocks(const __grid_constant__ TensorMap values, const __grid_constant__ TensorMap x,
                const __grid_constant__ TensorMap y, const int *row_offsets, const int *columns, int row_tiles, int n) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 barriers[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, staging = b + STAGES*B_BYTES;
    u32 full = address(barriers), empty = full + 8*STAGES;
    int wg = __shfl_sync(~0u, threadIdx.x/128, 0), tiles = row_tiles*((n + BN-1)/BN), s = 0, phase = 0;
    if (threadIdx.x == 256) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 2); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (wg == 2) {                                                  // producer
        setmaxnreg_dec<40>();
        if (threadIdx.x == 256) for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int tr = tile%row_tiles, tc = tile/row_tiles;
            for (int i = row_offsets[tr]; i < row_offsets[tr + 1]; i++) {
                u32 bar = full + 8*s;
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(bar, A_BYTES + B_BYTES);
                tma_load(a + s*A_BYTES, values, i*BR, 0, bar);
                tma_load(b + s*B_BYTES, x, tc*BN, columns[i]*64, bar);
                if (++s == STAGES) { s = 0; phase++; }
            }
        }
    } else {                                                        // consumers
        setmaxnreg_inc<232>();
        int t = threadIdx.x%128;
        u32 buffer = staging + wg*OUT*256;
        u64 da = descriptor(a + (SPLIT_N ? 0 : wg*64*128), 16), db = descriptor(b + (SPLIT_N ? wg*N*128 : 0), 16);
        float d[M][N/2];
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int tr = tile%row_tiles, tc = tile/row_tiles, count = row_offsets[tr + 1] - row_offsets[tr];
            int prev_stage = -1;
            if (count == 0)
                #pragma unroll
                for (int i = 0; i < N/2; i++) d[0][i] = 0;
            for (int i = 0; i < count; i++) {
                barrier_wait(full + 8*s, phase);
                multiply(d, da + s*(A_BYTES/16), db + s*(B_BYTES/16), i > 0);
                wgmma_wait<1>();                        // the previous product is complete: its stage is free
                if (prev_stage >= 0 && t == 0) barrier_arrive(empty + 8*prev_stage);
                prev_stage = s;
                if (++s == STAGES) { s = 0; phase++; }
            }
            wgmma_wait<0>();
            fence_accumulators(d);
            if (prev_stage >= 0 && t == 0) barrier_arrive(empty + 8*prev_stage);
            store_transposed(d, y, nullptr, 0, tc*BN + (SPLIT_N ? wg*N : 0), tr*BR + (SPLIT_N ? 0 : wg*64), buffer, wg);
        }
        if (t == 0) stores_wait_read();
    }
}
