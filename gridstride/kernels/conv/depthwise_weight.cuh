// The gradient of the weight (and of the bias) of a depthwise convolution for NCHW. A block adds the products
// of every SPLITS-th tile of one channel, PLANES images at once; `reduce_splits` adds the partial sums of the blocks.
// Requires the constants of `plane_tiles`, SPLITS.
constexpr int TAPS = KH * KW, WARPS = THREADS / 32;

__global__ void __launch_bounds__(THREADS)
depthwise_weight(const Elem *x, const Elem *dy, float *partials, int images, int channels, int height, int width,
                 int out_height, int out_width, int tiles_x, int tiles) {
    __shared__ __align__(16) float tile[PLANES * TILE_IN_H][PITCH], warp_sums[WARPS][TAPS + 1];
    const int channel = blockIdx.x % channels, split = blockIdx.x / channels;
    const int tile_plane = threadIdx.x / PLANE_THREADS, thread_in_plane = threadIdx.x % PLANE_THREADS;
    const int row = thread_in_plane / THREADS_X * ROWS, column = thread_in_plane % THREADS_X * COLS;
    const int groups = (images + PLANES - 1) / PLANES;
    const long long plane_size = (long long)height * width;
    float sums[TAPS + 1] = {};                              // the last one is the gradient of the bias
    for (int i = split; i < groups * tiles; i += SPLITS) {
        const int first_image = i / tiles * PLANES;
        const int top = i % tiles / tiles_x * TILE_H, left = i % tiles % tiles_x * TILE_W;
        __syncthreads();
        load_tile(tile, x + ((long long)first_image * channels + channel) * plane_size, channels * plane_size,
                  images - first_image, height, width, top * STRIDE - PAD_H, left * STRIDE - HALO_LEFT);
        const bool has_tile = tile_plane < PLANES && first_image + tile_plane < images;
        float grads[ROWS][COLS];
        const long long plane = (long long)(first_image + tile_plane) * channels + channel;
        const Elem *dy_plane = dy + plane * out_height * out_width;
        #pragma unroll
        for (int r = 0; r < ROWS; r++)
            #pragma unroll
            for (int c = 0; c < COLS; c += V_OUT) {
                const int out_r = top + row + r, out_c = left + column + c;
                OutVector vector;
                if (has_tile && out_r < out_height && out_c < out_width)
                    vector = *(const OutVector *)(dy_plane + (size_t)out_r * out_width + out_c);
                else
                    for (int v = 0; v < V_OUT; v++) vector.data[v] = Elem(0.f);
                #pragma unroll
                for (int v = 0; v < V_OUT; v++) {
                    grads[r][c + v] = float(vector.data[v]);
                    sums[TAPS] += grads[r][c + v];
                }
            }
        __syncthreads();
        if (has_tile)
            visit_taps(tile + tile_plane * TILE_IN_H + row * STRIDE, column,
                           [&](int r, int c, int tap, float value) { sums[tap] += grads[r][c] * value; });
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    #pragma unroll
    for (int k = 0; k <= TAPS; k++) {
        for (int d = 16; d > 0; d /= 2) sums[k] += __shfl_xor_sync(~0u, sums[k], d);
        if (lane == 0) warp_sums[warp][k] = sums[k];
    }
    __syncthreads();
    for (int k = threadIdx.x; k <= TAPS; k += THREADS) {
        float sum = 0;
        for (int w = 0; w < WARPS; w++) sum += warp_sums[w][k];
        partials[((size_t)split * channels + channel) * (TAPS + 1) + k] = sum;
    }
}
