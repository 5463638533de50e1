// Computes y = x @ w.T (+ bias) for a w with 2:4 sparsity along k and few rows of x, with `mma.sp`. The product is
// memory-bound: each byte of w is loaded once, straight into registers, and the warps of a block split the columns of
// 16 rows of w, so that many loads are in flight. `values` (rows x k/2) has the nonzero elements, `metadata` their
// positions, two words per thread and 128 elements along k. x is n x k, y is n x rows. Requires definitions of N_TILES
// (tiles of 8 rows of x), WARPS, BIAS, Elem (a 16-bit float), and mma_sp.
constexpr int ROWS = 16, TILE_K = 128;

__device__ u32 load_pair(const Elem *src, bool in_bounds) { return in_bounds ? __ldg((const u32 *)src) : 0; }

// Adds the product of 32 elements along k, from `column` on.
template<int SELECTOR> __device__ void multiply_step(float (&d)[N_TILES][4], const Elem *values, const Elem *x,
                                                     int row, int column, int rows, int n, int k, u32 positions) {
    int lane = threadIdx.x % 32, pair = lane % 4 * 2;
    u32 a[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) {                           // rows `row` and `row + 8`, two elements of each half
        int r = row + i % 2 * 8, c = column / 2 + i / 2 * 8 + pair;
        a[i] = load_pair(values + (size_t)r * (k / 2) + c, r < rows && c < k / 2);
    }
    #pragma unroll
    for (int j = 0; j < N_TILES; j++) {
        u32 b[4];
        int r = j * 8 + lane / 4;
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            int c = column + i * 8 + pair;
            b[i] = load_pair(x + (size_t)r * k + c, r < n && c < k);
        }
        mma_sp<SELECTOR>(d[j], a, b, positions);
    }
}

__global__ void __launch_bounds__(32 * WARPS) multiply_24_few_rows(const Elem *values, const Elem *x, Elem *y,
                                                                   const u32 *metadata, const Elem *bias, int rows,
                                                                   int n, int k) {
    __shared__ float partial_sums[WARPS][N_TILES * 8][ROWS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first_row = blockIdx.x * ROWS, row = first_row + lane / 4;
    int tiles = (k + TILE_K - 1) / TILE_K;                  // the metadata has tiles of 64 rows and 128 columns
    const u32 *words = metadata + ((size_t)(first_row / 64) * tiles * 4 + first_row % 64 / 16) * 64 + lane * 2;
    float d[N_TILES][4] = {};
    for (int t = warp; t < tiles; t += WARPS) {
        uint2 positions = __ldg((const uint2 *)(words + t * 256));
        multiply_step<0>(d, values, x, row, t * TILE_K, rows, n, k, positions.x);
        multiply_step<1>(d, values, x, row, t * TILE_K + 32, rows, n, k, positions.x);
        multiply_step<0>(d, values, x, row, t * TILE_K + 64, rows, n, k, positions.y);
        multiply_step<1>(d, values, x, row, t * TILE_K + 96, rows, n, k, positions.y);
    }
    #pragma unroll
    for (int j = 0; j < N_TILES; j++)
        #pragma unroll
        for (int i = 0; i < 4; i++) partial_sums[warp][j * 8 + lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = d[j][i];
    __syncthreads();
    for (int i = threadIdx.x; i < N_TILES * 8 * ROWS; i += 32 * WARPS) {
        int r = first_row + i % ROWS, c = i / ROWS;
        if (r >= rows || c >= n) continue;
        float sum = BIAS ? float(bias[r]) : 0;
        #pragma unroll
        for (int w = 0; w < WARPS; w++) sum += partial_sums[w][c][i % ROWS];
        y[(size_t)c * rows + r] = Elem(sum);
    }
}
