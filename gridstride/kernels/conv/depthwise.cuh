// Depthwise convolution for NCHW: each channel has its own filter.
// Requires the constants of `plane_tiles`, BIAS (whether to add a bias), FLIP (the filter is rotated by
// 180 degrees: the gradient of x).
__global__ void __launch_bounds__(THREADS)
depthwise(const Elem *x, const Elem *weight, const Elem *bias, Elem *y, int planes, int channels, int height, int width,
          int out_height, int out_width, int tiles_x, int tiles) {
    __shared__ __align__(16) float tile[PLANES * TILE_IN_H][PITCH];
    const int first = blockIdx.x / tiles * PLANES, tile_index = blockIdx.x % tiles;
    const int out_top = tile_index / tiles_x * TILE_H, out_left = tile_index % tiles_x * TILE_W;
    const long long plane_size = (long long)height * width;
    load_tile(tile, x + first * plane_size, plane_size, planes - first, height, width, out_top * STRIDE - PAD_H,
              out_left * STRIDE - HALO_LEFT);
    const int tile_plane = threadIdx.x / PLANE_THREADS, thread_in_plane = threadIdx.x % PLANE_THREADS;
    const int row = thread_in_plane / THREADS_X * ROWS, column = thread_in_plane % THREADS_X * COLS;
    const int plane = first + tile_plane, channel = min(plane, planes - 1) % channels;
    float taps[KH * KW], sums[ROWS][COLS];
    #pragma unroll
    for (int k = 0; k < KH * KW; k++) taps[k] = float(weight[channel * KH * KW + (FLIP ? KH * KW - 1 - k : k)]);
    const float initial = BIAS ? float(bias[channel]) : 0.f;
    #pragma unroll
    for (int i = 0; i < ROWS * COLS; i++) sums[i / COLS][i % COLS] = initial;
    __syncthreads();
    if (tile_plane >= PLANES || plane >= planes) return;
    visit_taps(tile + tile_plane * TILE_IN_H + row * STRIDE, column,
                   [&](int r, int c, int tap, float value) { sums[r][c] += taps[tap] * value; });
    Elem *y_plane = y + (size_t)plane * out_height * out_width;
    #pragma unroll
    for (int r = 0; r < ROWS; r++)
        #pragma unroll
        for (int c = 0; c < COLS; c += V_OUT) {
            const int out_r = out_top + row + r, out_c = out_left + column + c;
            if (out_r >= out_height || out_c >= out_width) continue;
            OutVector vector;
            #pragma unroll
            for (int v = 0; v < V_OUT; v++) vector.data[v] = Elem(sums[r][c + v]);
            *(OutVector *)(y_plane + (size_t)out_r * out_width + out_c) = vector;
        }
}
