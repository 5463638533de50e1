// Computes the int8 product out = (a @ b.T) * a_scales * b_scales for few rows of a, as in eight_bits.cuh. It is
// memory-bound, because b is read once. A warp computes WARP_COLUMNS columns of out (rows of b). Each lane loads 16
// bytes of each row at a time, and dp4a multiplies four elements of b by four of a and accumulates.
// Requires definitions of Out (type of out), ROWS (the largest number of rows of a), WARP_COLUMNS, WARPS (per block).
__device__ int dot(const int4 &a_pack, const int4 &b_pack, int sum) {
    sum = __dp4a(a_pack.y, b_pack.y, __dp4a(a_pack.x, b_pack.x, sum));
    return __dp4a(a_pack.w, b_pack.w, __dp4a(a_pack.z, b_pack.z, sum));
}

__device__ int warp_sum(int x) {
    #pragma unroll
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

__global__ void __launch_bounds__(32 * WARPS)
multiply_few(const int4 *a, const int4 *b, Out *out, const float *a_scales, const float *b_scales, int M, int N,
             int K) {
    const int lane = threadIdx.x % 32, loads = K / 16, first = (blockIdx.x * WARPS + threadIdx.x / 32) * WARP_COLUMNS;
    int acc[WARP_COLUMNS][ROWS] = {};
    #pragma unroll 2
    for (int idx = lane; idx < loads; idx += 32) {
        int4 b_pack[WARP_COLUMNS];
        #pragma unroll
        for (int c = 0; c < WARP_COLUMNS; c++) b_pack[c] = __ldcs(b + (size_t)min(first + c, N - 1) * loads + idx);
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int4 a_pack = a[(size_t)min(r, M - 1) * loads + idx];
            #pragma unroll
            for (int c = 0; c < WARP_COLUMNS; c++) acc[c][r] = dot(a_pack, b_pack[c], acc[c][r]);
        }
    }
    #pragma unroll
    for (int c = 0; c < WARP_COLUMNS; c++)
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int sum = warp_sum(acc[c][r]), column = first + c;
            if (lane == (c * ROWS + r) % 32 && column < N && r < M)
                out[(size_t)r * N + column] = Out(sum * a_scales[r] * b_scales[column]);
        }
}
