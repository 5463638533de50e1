// The kernels before and after the GEMMs of the backward pass: the first computes delta and converts lse, per row; the
// last one converts dq to bfloat16.
#define PLUS_INFINITY __int_as_float(0x7f800000)
constexpr float LOG2E = 1.4426950408889634f;
constexpr int LANE_ELEMENTS = HD/32;                           // elements of a row per lane

// Computes delta = sum(dout*out) and lse in base 2, one warp per row; lse is plus infinity for a row without keys, so
// that its P is 0. Rows are padded to complete tiles. Also zeros dq, to which blocks add, and the semaphores that order
// these additions.
__global__ void __launch_bounds__(256)
prepare_backward(const bf16 *out, const bf16 *dout, const float *lse, float *lse_log2, float *delta, float4 *dq_sums,
                 int *semaphores, int heads, int rows, int padded_rows,
                 long long out_batch, long long out_head, long long out_row,
                 long long dout_batch, long long dout_head, long long dout_row) {
    int lane = threadIdx.x%32, row = blockIdx.x*8 + threadIdx.x/32, batch = blockIdx.y/heads, head = blockIdx.y%heads;
    if (row >= padded_rows) return;
    float sum = 0, value = PLUS_INFINITY;
    if (row < rows) {
        const bf16 *a = out + batch*out_batch + head*out_head + row*out_row + lane*LANE_ELEMENTS;
        const bf16 *b = dout + batch*dout_batch + head*dout_head + row*dout_row + lane*LANE_ELEMENTS;
        #pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++) sum += __bfloat162float(a[i])*__bfloat162float(b[i]);
        value = lse[(long long)blockIdx.y*rows + row]*LOG2E;
        if (value == -PLUS_INFINITY) value = PLUS_INFINITY;
    }
    #pragma unroll
    for (int distance = 16; distance; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    long long row_index = (long long)blockIdx.y*padded_rows + row;
    if (lane == 0) { lse_log2[row_index] = value; delta[row_index] = sum; }
    if (DETERMINISTIC && lane < 2 && row%64 == 0) semaphores[row_index/64*2 + lane] = 0;
    if (lane < HD/4) dq_sums[row_index*(HD/4) + lane] = make_float4(0, 0, 0, 0);
}

// Computes dq = scale * sums. The sums are stored in the order in which two warpgroups hold 64 rows in registers, each
// with half of the columns: 4 elements per thread (two adjacent ones in each of two rows), followed by those of the
// next thread.
__global__ void __launch_bounds__(128)
finish_dq(const float4 *sums, bf16 *dq, float scale, int heads, int rows, int tiles, long long dq_batch,
          long long dq_head, long long dq_row) {
    int batch = blockIdx.y/heads, head = blockIdx.y%heads, half = blockIdx.z, t = threadIdx.x;
    int row = blockIdx.x*64 + t/32*16 + t%32/4;
    const float4 *src = sums + (((long long)blockIdx.y*tiles + blockIdx.x)*2 + half)*(HD/16)*128 + t;
    bf16 *dst = dq + batch*dq_batch + head*dq_head + half*(HD/2) + row*dq_row;
    float o[HD/4];
    #pragma unroll
    for (int c = 0; c < HD/16; c++) {
        float4 x = src[c*128];
        o[4*c] = x.x; o[4*c + 1] = x.y; o[4*c + 2] = x.z; o[4*c + 3] = x.w;
    }
    #pragma unroll
    for (int y = 0; y < 2; y++) store_row(dst + 8*y*dq_row, o, y, scale, row + 8*y < rows);
}
