// Writes a quantized matrix w (dequantize.cuh) as 16-bit floats, row-major. A warp dequantizes a step: 16 rows and 128
// columns. Each thread holds eight contiguous columns of two rows, and stores each row's columns at once.
// Requires definitions of WARPS (per block), VECTOR (rows begin at multiples of 16 bytes).
__device__ void store_eight(Elem *dst, int columns, uint4 v) {
    if (VECTOR && columns >= 8) *(uint4 *)dst = v;
    else
        #pragma unroll
        for (int c = 0; c < 8; c++)
            if (c < columns) dst[c] = ((const Elem *)&v)[c];
}

// Multiplies a pair of elements by the scale of their block; for NVFP4, whose elements already contain the scales of
// their blocks, by the scale of the matrix, with a single rounding
__device__ u32 apply_scale(u32 a, u32 scale, float matrix_scale) {
    if constexpr (!HAS_MATRIX_SCALE) return mul2(a, scale);
    const Pair two = *(const Pair *)&a;
    const Pair scaled = {Elem((float)two.x * matrix_scale), Elem((float)two.y * matrix_scale)};
    return *(const u32 *)&scaled;
}

__global__ void __launch_bounds__(32 * WARPS)
unpack_matrix(const uint4 *w, const u32 *scales, const u32 *zeros, Elem *dst, int rows, int k) {
    extern __shared__ u32 codebook[];                       // for NF4
    const int lane = threadIdx.x % 32, r = lane / 4, t = lane % 4, steps = (k + STEP - 1) / STEP;
    if constexpr (KIND == NF4) { fill_codebook<32 * WARPS>(codebook); __syncthreads(); }
    const int total_steps = (rows + 15) / 16 * steps;
    const float matrix_scale = HAS_MATRIX_SCALE ? *(const float *)zeros * NVFP4_FACTOR : 1;
    for (int step_index = blockIdx.x * WARPS + threadIdx.x / 32; step_index < total_steps;
         step_index += gridDim.x * WARPS) {
        const int tile = step_index / steps, step = step_index % steps;
        uint4 words[LOADS];
        #pragma unroll
        for (int l = 0; l < LOADS; l++) words[l] = __ldcs(w + ((size_t)step_index * LOADS + l) * 32 + lane);
        #pragma unroll
        for (int j = 0; j < 4; j++) {                       // 32 columns
            const int group = GROUP ? step_index * SCALES + lane_group(j * 32 / LANE_COLUMNS, t) : tile;
            const u32 pair = decode_scales(load_scales(scales, group * 8 + r)), scale[2] = {upper(pair), lower(pair)};
            u32 offset[2] = {NO_ZERO_POINT, NO_ZERO_POINT}, a[2][4];
            if constexpr (KIND == NVFP4) offset[0] = scale[0], offset[1] = scale[1];
            if constexpr (ZEROS) {
                offset[0] = add2(NO_ZERO_POINT, upper(zeros[group * 8 + r]));
                offset[1] = add2(NO_ZERO_POINT, lower(zeros[group * 8 + r]));
            }
            #pragma unroll
            for (int s = 0; s < 2; s++)
                unpack((const u32 *)words + (2 * j + s) * (BITS / 4), codebook + lane, offset, a[s]);
            const int column = step * STEP + j * 32 + t * 8;
            #pragma unroll
            for (int i = 0; i < 2; i++) {                   // the upper row, the lower one
                const int row = tile * 16 + i * 8 + r;
                if (row < rows)
                    store_eight(dst + (size_t)row * k + column, k - column,
                                {apply_scale(a[0][i], scale[i], matrix_scale),
                                 apply_scale(a[0][i + 2], scale[i], matrix_scale),
                                 apply_scale(a[1][i], scale[i], matrix_scale),
                                 apply_scale(a[1][i + 2], scale[i], matrix_scale)});
            }
        }
    }
}
