// Computes y = x @ w.T (+ bias) for a w with 2:4 sparsity along k, with `mma.sp`, for Ampere and later GPUs. `values`
// (rows x k/2) has the nonzero elements, `metadata` their positions, one word per thread and 64 elements along k. x is
// n x k, y is n x rows. A block computes 128 rows of w by 128 rows of x, each of its eight warps 32 by 64. Requires
// definitions of STAGES, BIAS, Elem (a 16-bit float), and mma_sp.
constexpr int BM = 128, BN = 128, BK = 64;
constexpr int A_ROW_BYTES = BK/2*2 + 16, B_ROW_BYTES = BK*2 + 16;   // padded against bank conflicts
constexpr int A_BYTES = BM*A_ROW_BYTES, STAGE_BYTES = A_BYTES + BN*B_ROW_BYTES;

// Starts asynchronous copies of the tiles of one stage.
__device__ void load(u32 dst, const Elem *values, const Elem *x, int r, int c, int k_begin, int rows, int n, int k) {
    for (int i = threadIdx.x; i < BM*BK/16; i += 256) {
        int row = i/(BK/16), col = i%(BK/16)*8, k_index = k_begin/2 + col;
        bool in_bounds = r + row < rows && k_index < k/2;
        copy_async<16>(dst + row*A_ROW_BYTES + col*2, values + (in_bounds ? (size_t)(r + row)*(k/2) + k_index : 0),
                       in_bounds);
    }
    for (int i = threadIdx.x; i < BN*BK/8; i += 256) {
        int row = i/(BK/8), col = i%(BK/8)*8, k_index = k_begin + col;
        bool in_bounds = c + row < n && k_index < k;
        copy_async<16>(dst + A_BYTES + row*B_ROW_BYTES + col*2, x + (in_bounds ? (size_t)(c + row)*k + k_index : 0),
                       in_bounds);
    }
    copies_commit();
}

// Computes d += the product of one stage: 32 elements along k with the metadata of lanes 0 and 1 of every four lanes,
// and 32 elements with the metadata of lanes 2 and 3.
__device__ void multiply(float (&d)[2][8][4], u32 stage, const u32 (&metadata)[2], int wr, int wc) {
    int lane = threadIdx.x%32;
    #pragma unroll
    for (int half = 0; half < 2; half++) {
        u32 a[2][4];
        #pragma unroll
        for (int y = 0; y < 2; y++) ldmatrix(a[y], stage + (wr + y*16 + lane%16)*A_ROW_BYTES + half*32 + lane/16*16);
        #pragma unroll
        for (int x = 0; x < 8; x++) {
            u32 b[4];
            ldmatrix(b, stage + A_BYTES + (wc + x*8 + lane%8)*B_ROW_BYTES + half*64 + lane/8*16);
            #pragma unroll
            for (int y = 0; y < 2; y++)
                if (half) mma_sp<1>(d[y][x], a[y], b, metadata[y]); else mma_sp<0>(d[y][x], a[y], b, metadata[y]);
        }
    }
}

__global__ void __launch_bounds__(256) multiply_24(const Elem *values, const Elem *x, Elem *y,
                                                   const u32 *metadata,
                                                   const Elem *bias, int rows, int n, int k) {
    extern __shared__ __align__(128) char shared[];
    int r = blockIdx.x*BM, c = blockIdx.y*BN, lane = threadIdx.x%32, warp = threadIdx.x/32;
    int wr = warp%4*32, wc = warp/4*64, steps = (k + BK-1)/BK, pairs = (steps + 1)/2, tiles = (rows + 63)/64;
    u32 stages = address(shared);
    const u32 *warp_metadata = metadata + ((size_t)min((r + wr)/64, tiles-1)*pairs*4 + wr%64/16)*64 + lane*2;
    float d[2][8][4] = {};
    for (int s = 0; s < STAGES-1; s++) load(stages + s*STAGE_BYTES, values, x, r, c, s*BK, rows, n, k);
    for (int step = 0; step < steps; step++) {
        u32 e[2];
        for (int y = 0; y < 2; y++) e[y] = warp_metadata[step/2*256 + y*64 + step%2];
        copies_wait<STAGES-2>();
        __syncthreads();  // all copies have arrived, and all threads have used the previous stage
        load(stages + (step + STAGES-1)%STAGES*STAGE_BYTES, values, x, r, c, (step + STAGES-1)*BK, rows, n, k);
        multiply(d, stages + step%STAGES*STAGE_BYTES, e, wr, wc);
    }
    #pragma unroll
    for (int yy = 0; yy < 2; yy++)
        #pragma unroll
        for (int xx = 0; xx < 8; xx++)
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                int row = r + wr + yy*16 + lane/4 + i/2*8, column = c + wc + xx*8 + lane%4*2 + i%2;
                if (row >= rows || column >= n) continue;
                y[(size_t)column*rows + row] = Elem(BIAS ? d[yy][xx][i] + float(bias[row]) : d[yy][xx][i]);
            }
}
