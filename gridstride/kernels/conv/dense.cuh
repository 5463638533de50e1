// Dense convolution of images that are stored channels last, as an implicit GEMM: a row per output pixel, a column per
// output channel, and a term per tap and input channel. The im2col matrix (operand A) exists only as tiles in shared
// memory: asynchronous copies gather them from x, and write zeros where a tap is out of bounds. mma.sync multiplies.
// Requires definitions of Elem (bfloat16), KH, KW, STRIDE, DILATION, PAD_H, PAD_W, BM, BN (the tile of a block),
// WARPS_M, WARPS_N, STAGES, BIAS. The input channels and the output channels are multiples of 8.
constexpr int BK = 64, CHUNKS = BK / 8, THREADS = 32 * WARPS_M * WARPS_N, ROWS_PER_COPY = THREADS / CHUNKS;
constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N, A_ROWS = BM / ROWS_PER_COPY, B_ROWS = BN / ROWS_PER_COPY;
constexpr int A_BYTES = BM * BK * 2, STAGE_BYTES = A_BYTES + BN * BK * 2;

// Returns the swizzled address of a chunk of 16 bytes: the same chunk of 8 rows is in different banks
__device__ __forceinline__ u32 chunk_at(u32 tile, int row, int chunk) {
    return tile + row * 128 + ((chunk ^ (row & 7)) << 4);
}

__global__ void __launch_bounds__(THREADS)
dense(const Elem *x, const Elem *weight, const Elem *bias, Elem *y, int images, int channels, int height, int width,
      int out_channels, int out_height, int out_width, int tiles_n) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, chunk = tid % CHUNKS, copy_row = tid / CHUNKS;
    const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
    const int pixels = images * out_height * out_width, terms = KH * KW * channels, steps = (terms + BK - 1) / BK;
    const u32 stages = address(memory);

    int top[A_ROWS], left[A_ROWS];                          // of the first tap of the rows that this thread loads
    const Elem *image[A_ROWS];
    #pragma unroll
    for (int i = 0; i < A_ROWS; i++) {
        const int m = m0 + copy_row + i * ROWS_PER_COPY, c = m % out_width, r = m / out_width % out_height;
        top[i] = m < pixels ? r * STRIDE - PAD_H : -(1 << 28);
        left[i] = c * STRIDE - PAD_W;
        image[i] = x + (m < pixels ? (long long)(m / out_width / out_height) * height * width * channels : 0);
    }
    int channel = chunk * 8, kh = 0, kw = 0, k = chunk * 8; // the tap and the input channel that are loaded next
    auto skip = [&] {
        while (channel >= channels) {
            channel -= channels;
            if (++kw == KW) kw = 0, kh++;
        }
    };
    skip();
    auto load = [&](int stage) {
        const u32 a = stages + stage * STAGE_BYTES, b = a + A_BYTES;
        #pragma unroll
        for (int i = 0; i < A_ROWS; i++) {
            const int r = top[i] + kh * DILATION, c = left[i] + kw * DILATION;
            const bool in_bounds = kh < KH && r >= 0 && r < height && c >= 0 && c < width;
            const Elem *source = in_bounds ? image[i] + ((long long)r * width + c) * channels + channel : x;
            copy_async<16>(chunk_at(a, copy_row + i * ROWS_PER_COPY, chunk), source, in_bounds);
        }
        #pragma unroll
        for (int i = 0; i < B_ROWS; i++) {
            const int row = copy_row + i * ROWS_PER_COPY, n = n0 + row;
            const bool in_bounds = n < out_channels && k < terms;
            copy_async<16>(chunk_at(b, row, chunk), in_bounds ? weight + (long long)n * terms + k : weight, in_bounds);
        }
        k += BK;
        channel += BK;
        skip();
    };
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) load(s);
        copies_commit();
    }

    float acc[WM / 16][WN / 8][4] = {};
    const int warp_m = warp / WARPS_N * WM, warp_n = warp % WARPS_N * WN;
    for (int step = 0; step < steps; step++) {
        copies_wait<STAGES - 2>();
        __syncthreads();
        if (step + STAGES - 1 < steps) load((step + STAGES - 1) % STAGES);
        copies_commit();
        const u32 a = stages + step % STAGES * STAGE_BYTES, b = a + A_BYTES;
        #pragma unroll
        for (int kk = 0; kk < CHUNKS; kk += 2) {
            u32 a_fragments[WM / 16][4], b_fragments[WN / 16][4];
            #pragma unroll
            for (int i = 0; i < WM / 16; i++)
                ldmatrix(a_fragments[i], chunk_at(a, warp_m + i * 16 + lane % 16, kk + lane / 16));
            #pragma unroll
            for (int j = 0; j < WN / 16; j++)
                ldmatrix(b_fragments[j],
                         chunk_at(b, warp_n + j * 16 + lane % 8 + lane / 16 * 8, kk + lane / 8 % 2));
            #pragma unroll
            for (int i = 0; i < WM / 16; i++)
                #pragma unroll
                for (int j = 0; j < WN / 8; j++)
                    mma(acc[i][j], a_fragments[i], b_fragments[j / 2][j % 2 * 2], b_fragments[j / 2][j % 2 * 2 + 1]);
        }
    }

    #pragma unroll
    for (int i = 0; i < WM / 16; i++)
        #pragma unroll
        for (int j = 0; j < WN / 8; j++) {
            const int n = n0 + warp_n + j * 8 + lane % 4 * 2;
            if (n >= out_channels) continue;
            const float low = BIAS ? float(bias[n]) : 0.f, high = BIAS ? float(bias[n + 1]) : 0.f;
            #pragma unroll
            for (int half = 0; half < 2; half++) {
                const int m = m0 + warp_m + i * 16 + half * 8 + lane / 4;
                if (m < pixels)
                    *(u32 *)(y + (long long)m * out_channels + n) =
                        pack(acc[i][j][half * 2] + low, acc[i][j][half * 2 + 1] + high);
            }
        }
}
