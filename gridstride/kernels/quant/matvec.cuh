// Computes y = x @ w.T + bias for a few rows of x and a quantized matrix w (dequantize.cuh), on tensor cores. It is
// memory-bound, because w is read once. Requires definitions of BATCH_TILES (groups of 8 rows of x), TILES (tiles of 16
// rows of w per warp), ROW_WARPS (warps along the rows of w), K_WARPS (split-K: warps that split the columns),
// IN_FLIGHT (steps in flight per warp), BLOCKS (per SM), BIAS. `zeros` are the zero points, or the scale of an NVFP4
// matrix.
constexpr int ROWS = 16 * TILES * ROW_WARPS;                // rows of w per block
// With few rows of x, the accumulators of a group are scaled when they are complete. With many rows they would need too
// many registers, so the elements of w are scaled instead, which rounds them once more.
constexpr bool SCALE_WEIGHTS = GROUP && BATCH_TILES > 2 && KIND != NVFP4;
constexpr bool SCALE_ACCUMULATORS = GROUP && !SCALE_WEIGHTS && KIND != NVFP4;  // NVFP4: `unpack` scales

struct StepData { uint4 words[LOADS]; u32 scales[LANE_SCALES], zeros[SCALES]; };     // loads of a thread per step

__device__ void scale_weights(u32 (&a)[4], u32 pair) {
    const u32 scales[2] = {upper(pair), lower(pair)};
    #pragma unroll
    for (int i = 0; i < 4; i++) a[i] = mul2(a[i], scales[i % 2]);
}

__global__ void __launch_bounds__(32 * ROW_WARPS * K_WARPS, BLOCKS)
multiply_packed(const Elem *x, const uint4 *w, const u32 *scales, const u32 *zeros, const Elem *bias, Elem *y,
                int batch, int rows, int k) {
    extern __shared__ float shared[];
    float (*partial_sums)[BATCH_TILES * 8][ROWS + 1] = (float (*)[BATCH_TILES * 8][ROWS + 1])shared;
    u32 *codebook = (u32 *)(partial_sums + K_WARPS);                    // for NF4
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, t = lane % 4, k_warp = warp / ROW_WARPS;
    const int steps = (k + STEP - 1) / STEP, tiles = (rows + 15) / 16, row_blocks = (rows + ROWS - 1) / ROWS;
    const int iterations = ((steps + K_WARPS - 1) / K_WARPS + IN_FLIGHT - 1) / IN_FLIGHT;  // each has IN_FLIGHT steps
    StepData in_flight[IN_FLIGHT][TILES];

    auto load = [&](StepData (&dst)[TILES], int row_block, int step) {
        if (row_block >= row_blocks || step >= steps) return;
        #pragma unroll
        for (int i = 0; i < TILES; i++) {
            const int tile = (row_block * ROW_WARPS + warp % ROW_WARPS) * TILES + i;
            if (tile >= tiles) return;
            const size_t step_index = (size_t)tile * steps + step;
            #pragma unroll
            for (int l = 0; l < LOADS; l++) dst[i].words[l] = __ldcs(w + (step_index * LOADS + l) * 32 + lane);
            if constexpr (GROUP > 0)
                #pragma unroll
                for (int s = 0; s < LANE_SCALES; s++)
                    dst[i].scales[s] = load_scales(scales, (step_index * SCALES + lane_group(s, t)) * 8 + r);
            if constexpr (ZEROS)
                #pragma unroll
                for (int s = 0; s < SCALES; s++)
                    dst[i].zeros[s] = __ldg(zeros + (GROUP ? step_index * SCALES + s : tile) * 8 + r);
        }
    };
    float total[TILES][BATCH_TILES][4];
    auto multiply = [&](const StepData (&current)[TILES], int step) {
        #pragma unroll
        for (int p = 0; p < LANE_SCALES; p++) {               // groups of a step
            constexpr int X_LOADS = LANE_COLUMNS / 32;                  // loads of x per group, each for 32 columns
            float d[TILES][BATCH_TILES][4] = {};
            u32 offset[TILES][2];
            #pragma unroll
            for (int i = 0; i < TILES; i++) {
                offset[i][0] = offset[i][1] = NO_ZERO_POINT;
                if constexpr (ZEROS) {
                    offset[i][0] = add2(NO_ZERO_POINT, upper(current[i].zeros[p]));
                    offset[i][1] = add2(NO_ZERO_POINT, lower(current[i].zeros[p]));
                }
                if constexpr (KIND == NVFP4) {
                    const u32 factors = decode_scales(current[i].scales[p]);
                    offset[i][0] = upper(factors), offset[i][1] = lower(factors);
                }
            }
            #pragma unroll
            for (int j = p * X_LOADS; j < (p + 1) * X_LOADS; j++) {
                u32 b[BATCH_TILES][4];
                #pragma unroll
                for (int c = 0; c < BATCH_TILES; c++) {
                    const int column = step * STEP + j * 32 + t * 8, row = c * 8 + r;
                    uint4 v = {0, 0, 0, 0};
                    if (row < batch && column < k) v = *(const uint4 *)(x + (size_t)row * k + column);
                    b[c][0] = v.x, b[c][1] = v.y, b[c][2] = v.z, b[c][3] = v.w;
                }
                #pragma unroll
                for (int i = 0; i < TILES; i++)
                    #pragma unroll
                    for (int s = 0; s < 2; s++) {            // 16 columns
                        u32 a[4];
                        unpack((const u32 *)current[i].words + (2 * j + s) * (BITS / 4), codebook + lane, offset[i], a);
                        if constexpr (SCALE_WEIGHTS) scale_weights(a, decode_scales(current[i].scales[p]));
                        #pragma unroll
                        for (int c = 0; c < BATCH_TILES; c++)
                            mma(SCALE_ACCUMULATORS ? d[i][c] : total[i][c], a, b[c][s * 2], b[c][s * 2 + 1]);
                    }
            }
            if constexpr (SCALE_ACCUMULATORS)
                #pragma unroll
                for (int i = 0; i < TILES; i++)
                    #pragma unroll
                    for (int c = 0; c < BATCH_TILES; c++)
                        add_scaled(total[i][c], d[i][c], decode_scales(current[i].scales[p]));
        }
    };
    auto finish = [&](int row_block) {  // adds the partial sums of the warps that split the columns of w
        #pragma unroll
        for (int i = 0; i < TILES; i++)
            #pragma unroll
            for (int c = 0; c < BATCH_TILES; c++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    partial_sums[k_warp][c * 8 + t * 2 + e % 2][(warp % ROW_WARPS * TILES + i) * 16 + r + e / 2 * 8] =
                        total[i][c][e];
        __syncthreads();
        for (int i = threadIdx.x; i < BATCH_TILES * 8 * ROWS; i += blockDim.x) {
            const int x_row = i / ROWS, local_row = i % ROWS, row = row_block * ROWS + local_row;
            if (x_row >= batch || row >= rows) continue;
            float sum = 0;
            #pragma unroll
            for (int p = 0; p < K_WARPS; p++) sum += partial_sums[p][x_row][local_row];
            if constexpr (GROUP == 0) sum *= (float)((const Elem *)scales)[row / 16 * 16 + row % 8 * 2 + row % 16 / 8];
            if constexpr (HAS_MATRIX_SCALE) sum *= *(const float *)zeros * NVFP4_FACTOR;
            if constexpr (BIAS) sum += (float)bias[row];
            y[(size_t)x_row * rows + row] = Elem(sum);
        }
        __syncthreads();
    };

    #pragma unroll
    for (int a = 0; a < IN_FLIGHT; a++) load(in_flight[a], blockIdx.x, k_warp + a * K_WARPS);
    if constexpr (KIND == NF4) {                            // while the first steps are loaded
        fill_codebook<32 * ROW_WARPS * K_WARPS>(codebook);
        __syncthreads();
    }
    for (int row_block = blockIdx.x; row_block < row_blocks; row_block += gridDim.x) {
        #pragma unroll
        for (int i = 0; i < TILES * BATCH_TILES * 4; i++) total[i / 4 / BATCH_TILES][i / 4 % BATCH_TILES][i % 4] = 0;
        #pragma unroll 1
        for (int iteration = 0; iteration < iterations; iteration++) {
            const bool last = iteration == iterations - 1;  // then prefetch the first steps of the next row block
            const int step = k_warp + iteration * IN_FLIGHT * K_WARPS;
            const int next = last ? k_warp : step + IN_FLIGHT * K_WARPS;
            #pragma unroll
            for (int a = 0; a < IN_FLIGHT; a++) {
                if (step + a * K_WARPS < steps) multiply(in_flight[a], step + a * K_WARPS);
                load(in_flight[a], last ? row_block + gridDim.x : row_block, next + a * K_WARPS);
            }
        }
        finish(row_block);
    }
}
