// The gradient of the weight (and of the bias) of a depthwise convolution of images that are stored channels last, with
// a stride of 1. A lane adds the products of one channel: it moves along rows of the gradient of the result, with a
// window of KH x KW elements of x in registers, of which each step replaces one column. Rows are interleaved among
// warps; `reduce_splits` adds the partial sums of the blocks.
// Requires definitions of Elem, KH, KW (filter size; there is no dilation), PAD_H, PAD_W, THREADS, SPLITS.
constexpr int TAPS = KH * KW, WARPS = THREADS / 32;

__global__ void __launch_bounds__(THREADS)
depthwise_nhwc_weight(const Elem *x, const Elem *dy, float *partials, int channels, int height, int width,
                      int out_height, int out_width, int rows, int groups) {
    __shared__ float warp_sums[WARPS][TAPS + 1][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, split = blockIdx.x / groups;
    const int channel = blockIdx.x % groups * 32 + lane;
    float sums[KH][KW] = {}, bias_sum = 0;
    for (int i = split * WARPS + warp; i < rows && channel < channels; i += SPLITS * WARPS) {
        const long long image = i / out_height;
        const int top = i % out_height - PAD_H;
        const Elem *x_image = x + image * height * width * channels + channel;
        const Elem *grads = dy + (long long)i * out_width * channels + channel;
        auto element = [&](int kh, int c) {
            const int r = top + kh;
            const bool in_bounds = r >= 0 && r < height && c >= 0 && c < width;
            return in_bounds ? float(x_image[((long long)r * width + c) * channels]) : 0.f;
        };
        float window[KH][KW];                               // column c is at c % KW, so that nothing moves
        #pragma unroll
        for (int kh = 0; kh < KH; kh++)
            #pragma unroll
            for (int kw = 0; kw + 1 < KW; kw++) window[kh][kw] = element(kh, kw - PAD_W);
        for (int first = 0; first < out_width; first += KW) {
            #pragma unroll
            for (int j = 0; j < KW; j++) {
                const int c = first + j;
                const float grad = c < out_width ? float(grads[(long long)c * channels]) : 0.f;
                bias_sum += grad;
                #pragma unroll
                for (int kh = 0; kh < KH; kh++) {
                    window[kh][(j + KW - 1) % KW] = element(kh, c + KW - 1 - PAD_W);
                    #pragma unroll
                    for (int kw = 0; kw < KW; kw++) sums[kh][kw] += grad * window[kh][(j + kw) % KW];
                }
            }
        }
    }
    #pragma unroll
    for (int k = 0; k < TAPS; k++) warp_sums[warp][k][lane] = sums[k / KW][k % KW];
    warp_sums[warp][TAPS][lane] = bias_sum;
    __syncthreads();
    for (int i = threadIdx.x; i < (TAPS + 1) * 32; i += THREADS) {
        const int k = i / 32, c = blockIdx.x % groups * 32 + i % 32;
        float sum = 0;
        for (int w = 0; w < WARPS; w++) sum += warp_sums[w][k][i % 32];
        if (c < channels) partials[((size_t)split * channels + c) * (TAPS + 1) + k] = sum;
    }
}
