// Depthwise convolution of images that are stored channels last (NHWC). LANES threads work on neighbouring channels, V
// each, so their loads are coalesced. A thread computes ROWS x COLS outputs of its channels: it reads each row of its
// part of the input once, and accumulates it into all outputs that need it. Blocks read the halo from the cache.
// Requires definitions of Elem, KH, KW, STRIDE, DILATION, PAD_H, PAD_W, ROWS, COLS, V (divides the channels), LANES,
// THREADS, BIAS, FLIP (the filter is rotated by 180 degrees: the gradient of x).
struct alignas(V * sizeof(Elem)) Vector { Elem data[V]; };
struct alignas(V * sizeof(float)) Taps { float data[V]; };
constexpr int CHANNELS = LANES * V, THREAD_IN_H = (ROWS - 1) * STRIDE + (KH - 1) * DILATION + 1;
constexpr int THREAD_IN_W = (COLS - 1) * STRIDE + (KW - 1) * DILATION + 1;

__global__ void __launch_bounds__(THREADS)
depthwise_nhwc(const Elem *x, const Elem *weight, const Elem *bias, Elem *y, int channels, int height, int width,
               int out_height, int out_width, int tiles_x, int tiles_y, long long tiles, int groups) {
    const int first = blockIdx.x % groups * CHANNELS;
    __shared__ __align__(16) float taps[KH * KW][CHANNELS];
    const int lane = threadIdx.x % LANES, channel = first + lane * V;
    const long long tile = (long long)(blockIdx.x / groups) * (THREADS / LANES) + threadIdx.x / LANES;
    const bool in_bounds = tile < tiles && channel < channels;
    const int column = tile % tiles_x * COLS, row = tile / tiles_x % tiles_y * ROWS;
    const long long image = tile / tiles_x / tiles_y;
    const int top = row * STRIDE - PAD_H, left = column * STRIDE - PAD_W;
    const Elem *x_image = x + image * height * width * channels + channel;
    for (int i = threadIdx.x; i < KH * KW * CHANNELS; i += THREADS) {
        const int c = i % CHANNELS, k = i / CHANNELS, weight_tap = FLIP ? KH * KW - 1 - k : k;
        taps[k][c] = first + c < channels ? float(weight[(first + c) * (KH * KW) + weight_tap]) : 0.f;
    }
    __syncthreads();
    if (!in_bounds) return;
    float sums[ROWS][COLS][V];
    #pragma unroll
    for (int v = 0; v < V; v++) {
        const float initial = BIAS ? float(bias[channel + v]) : 0.f;
        #pragma unroll
        for (int i = 0; i < ROWS * COLS; i++) sums[i / COLS][i % COLS][v] = initial;
    }
    #pragma unroll
    for (int i = 0; i < THREAD_IN_H; i++) {
        const int r = top + i;
        if (r < 0 || r >= height) continue;
        Vector inputs[THREAD_IN_W];
        #pragma unroll
        for (int j = 0; j < THREAD_IN_W; j++) {
            const int c = left + j;
            if (c >= 0 && c < width) inputs[j] = *(const Vector *)(x_image + ((long long)r * width + c) * channels);
            else
                #pragma unroll
                for (int v = 0; v < V; v++) inputs[j].data[v] = Elem(0.f);
        }
        #pragma unroll
        for (int kh = 0; kh < KH; kh++) {
            const int row_offset = i - kh * DILATION;
            if (row_offset < 0 || row_offset % STRIDE || row_offset / STRIDE >= ROWS) continue;
            #pragma unroll
            for (int kw = 0; kw < KW; kw++) {
                const Taps tap = *(const Taps *)&taps[kh * KW + kw][lane * V];
                #pragma unroll
                for (int c = 0; c < COLS; c++)
                    #pragma unroll
                    for (int v = 0; v < V; v++)
                        sums[row_offset / STRIDE][c][v] +=
                            tap.data[v] * float(inputs[c * STRIDE + kw * DILATION].data[v]);
            }
        }
    }
    Elem *y_image = y + image * out_height * out_width * channels + channel;
    #pragma unroll
    for (int r = 0; r < ROWS; r++)
        #pragma unroll
        for (int c = 0; c < COLS; c++) {
            if (row + r >= out_height || column + c >= out_width) continue;
            Vector out;
            #pragma unroll
            for (int v = 0; v < V; v++) out.data[v] = Elem(sums[r][c][v]);
            *(Vector *)(y_image + ((long long)(row + r) * out_width + column + c) * channels) = out;
        }
}
