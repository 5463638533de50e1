// Computes y = x @ w.T + bias for up to eight rows of x and a quantized matrix w (dequantize.cuh), on a Hopper GPU.
// Each warp has its own pipeline of bulk copies to shared memory: STAGES chunks of CHUNK steps. A block processes 16
// rows of w at a time, and its warps take the chunks of these rows round-robin. Requires definitions of WARPS, CHUNK,
// STAGES, BIAS. `zeros` are the zero points, or the scale of an NVFP4 matrix.
constexpr int STEP_BYTES = 512 * LOADS, SCALE_BYTES = GROUP ? PAIRS_BYTES * SCALES : 0;      // per step
constexpr int STAGE_BYTES = CHUNK * (STEP_BYTES + SCALE_BYTES * (1 + ZEROS));
constexpr bool SCALE_ACCUMULATORS = GROUP && KIND != NVFP4;      // NVFP4: `unpack` scales

__global__ void __launch_bounds__(32 * WARPS, 1)
multiply_streamed(const Elem *x, const uint4 *w, const u32 *scales, const u32 *zeros, const Elem *bias, Elem *y,
                  int batch, int rows, int k) {
    extern __shared__ __align__(128) char shared[];
    __shared__ u64 bars[WARPS * STAGES + 1];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, t = lane % 4;
    const int steps = (k + STEP - 1) / STEP, chunks = (steps + CHUNK - 1) / CHUNK, row_tiles = (rows + 15) / 16;
    const int x_row_bytes = steps * STEP * 2 + 64;                 // padding: rows begin at different banks
    char *ring = shared + warp * STAGES * STAGE_BYTES, *xs = shared + WARPS * STAGES * STAGE_BYTES;
    u32 *codebook = (u32 *)(xs + batch * x_row_bytes);                 // for NF4
    float *partial_sums = (float *)(codebook + (KIND == NF4) * 256 * 32);     // [2][WARPS][batch][16]
    const u32 full = address(bars + warp * STAGES), x_ready = address(bars + WARPS * STAGES);
    int next_chunk = warp, next_row_tile = blockIdx.x;            // the next chunk to copy, and its row tile

    auto copy = [&](int s) {
        while (next_chunk >= chunks) { next_chunk -= chunks; next_row_tile += gridDim.x; }
        if (next_row_tile < row_tiles) {
            const int size = min(CHUNK, steps - next_chunk * CHUNK);
            const size_t first_step = (size_t)next_row_tile * steps + next_chunk * CHUNK;
            const u32 dst = address(ring + s * STAGE_BYTES), bar = full + 8 * s;
            barrier_expect(bar, size * (STEP_BYTES + SCALE_BYTES * (1 + ZEROS)));
            bulk_copy_evict_first(dst, w + first_step * (STEP_BYTES / 16), size * STEP_BYTES, bar);
            if constexpr (GROUP > 0)
                bulk_copy(dst + CHUNK * STEP_BYTES, scales + first_step * (SCALE_BYTES / 4), size * SCALE_BYTES, bar);
            if constexpr (GROUP > 0 && ZEROS)
                bulk_copy(dst + CHUNK * (STEP_BYTES + SCALE_BYTES), zeros + first_step * (SCALE_BYTES / 4),
                          size * SCALE_BYTES, bar);
        }
        next_chunk += WARPS;
    };
    if (lane == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(full + 8 * s, 1);
        if (warp == 0) barrier_init(x_ready, 1);
        fence_mbarrier_init();
        if (warp == 0) {                                    // copy x first: all warps wait for it
            barrier_expect(x_ready, batch * k * 2);
            for (int row = 0; row < batch; row++)
                bulk_copy(address(xs + row * x_row_bytes), x + (size_t)row * k, k * 2, x_ready);
        }
        for (int s = 0; s < STAGES; s++) copy(s);
    }
    for (int row = 0; row < batch; row++)                   // fill the last step with zeros
        for (int c = k + threadIdx.x; c < steps * STEP; c += blockDim.x)
            ((Elem *)(xs + row * x_row_bytes))[c] = Elem(0.f);
    if constexpr (KIND == NF4) fill_codebook<32 * WARPS>(codebook);
    __syncthreads();
    barrier_wait(x_ready, 0);

    const char *own_x = xs + min(r, batch - 1) * x_row_bytes + t * 16;
    int s = 0, phase = 0, chunk = warp;
    for (int row_tile = blockIdx.x, j = 0; row_tile < row_tiles; row_tile += gridDim.x, j++, chunk -= chunks) {
        float total[4] = {};
        for (; chunk < chunks; chunk += WARPS) {
            barrier_wait(full + 8 * s, phase);
            const char *stage = ring + s * STAGE_BYTES;
            #pragma unroll
            for (int i = 0; i < CHUNK; i++) {
                const int step = chunk * CHUNK + i;
                if (step >= steps) break;
                uint4 words[LOADS];
                #pragma unroll
                for (int l = 0; l < LOADS; l++)
                    words[l] = *(const uint4 *)(stage + i * STEP_BYTES + l * 512 + lane * 16);
                #pragma unroll
                for (int p = 0; p < LANE_SCALES; p++) {     // groups of a step
                    constexpr int X_LOADS = LANE_COLUMNS / 32;
                    const char *pairs = stage + CHUNK * STEP_BYTES + i * SCALE_BYTES + lane_group(p, t) * PAIRS_BYTES;
                    float d[4] = {};
                    u32 offset[2] = {NO_ZERO_POINT, NO_ZERO_POINT};
                    if constexpr (ZEROS) {
                        const u32 pair = (GROUP ? (const u32 *)(pairs + CHUNK * SCALE_BYTES) : zeros + row_tile * 8)[r];
                        offset[0] = add2(NO_ZERO_POINT, upper(pair));
                        offset[1] = add2(NO_ZERO_POINT, lower(pair));
                    }
                    if constexpr (KIND == NVFP4) {
                        const u32 factors = decode_scales(shared_scales(pairs, r));
                        offset[0] = upper(factors), offset[1] = lower(factors);
                    }
                    #pragma unroll
                    for (int j = p * X_LOADS; j < (p + 1) * X_LOADS; j++) {
                        const uint4 b = *(const uint4 *)(own_x + step * 256 + j * 64);
                        #pragma unroll
                        for (int h = 0; h < 2; h++) {       // 16 columns
                            u32 a[4];
                            unpack((const u32 *)words + (2 * j + h) * (BITS / 4), codebook + lane, offset, a);
                            mma(SCALE_ACCUMULATORS ? d : total, a, h ? b.z : b.x, h ? b.w : b.y);
                        }
                    }
                    if constexpr (SCALE_ACCUMULATORS) add_scaled(total, d, decode_scales(shared_scales(pairs, r)));
                }
            }
            __syncwarp();
            if (lane == 0) copy(s);
            if (++s == STAGES) { s = 0; phase++; }
        }
        float *warp_sums = partial_sums + (j % 2 * WARPS + warp) * batch * 16;
        #pragma unroll
        for (int e = 0; e < 4; e++)
            if (t * 2 + e % 2 < batch) warp_sums[(t * 2 + e % 2) * 16 + r + e / 2 * 8] = total[e];
        __syncthreads();
        // Different warps add the partial sums of consecutive row tiles, so that this work is balanced.
        const int i = (threadIdx.x + (WARPS - j % WARPS) * 32) % (32 * WARPS), row = row_tile * 16 + i % 16;
        if (i < batch * 16 && row < rows) {
            float sum = 0;
            #pragma unroll
            for (int p = 0; p < WARPS; p++) sum += partial_sums[(j % 2 * WARPS + p) * batch * 16 + i];
            if constexpr (GROUP == 0) sum *= (float)((const Elem *)scales)[row_tile * 16 + row % 8 * 2 + row % 16 / 8];
            if constexpr (HAS_MATRIX_SCALE) sum *= *(const float *)zeros * NVFP4_FACTOR;
            if constexpr (BIAS) sum += (float)bias[row];
            y[(size_t)(i / 16) * rows + row] = Elem(sum);
        }
    }
}
