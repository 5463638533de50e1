// out = (m @ n.T) * scales of m's rows * scales of n's rows, as in eight_bits.cuh, for int8 and few rows of m:
// memory-bound, as n is read once. A warp has EACH rows of n. Its lanes take 16 bytes of each at a time, and dp4a
// multiplies four elements by four of m and accumulates.
// Above: To (of out), ROWS (of m, at most), EACH, WARPS (of a block).
__device__ int dot(const int4 &a, const int4 &b, int sum) {
    return __dp4a(a.w, b.w, __dp4a(a.z, b.z, __dp4a(a.y, b.y, __dp4a(a.x, b.x, sum))));
}

__device__ int sum_of_warp(int x) {
    #pragma unroll
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

__global__ void __launch_bounds__(32 * WARPS)
multiply_few(const int4 *m, const int4 *n, To *out, const float *m_scales, const float *n_scales, int h, int w, int k) {
    const int lane = threadIdx.x % 32, loads = k / 16, first = (blockIdx.x * WARPS + threadIdx.x / 32) * EACH;
    int sums[EACH][ROWS] = {};
    #pragma unroll 2
    for (int idx = lane; idx < loads; idx += 32) {
        int4 b[EACH];
        #pragma unroll
        for (int c = 0; c < EACH; c++) b[c] = __ldcs(n + (size_t)min(first + c, w - 1) * loads + idx);
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int4 a = m[(size_t)min(r, h - 1) * loads + idx];
            #pragma unroll
            for (int c = 0; c < EACH; c++) sums[c][r] = dot(a, b[c], sums[c][r]);
        }
    }
    #pragma unroll
    for (int c = 0; c < EACH; c++)
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int sum = sum_of_warp(sums[c][r]), column = first + c;
            if (lane == (c * ROWS + r) % 32 && column < w && r < h)
                out[(size_t)r * w + column] = To(sum * m_scales[r] * n_scales[column]);
        }
}
