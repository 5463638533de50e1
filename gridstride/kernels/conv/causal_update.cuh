// One step of a depthwise causal convolution, as in decoding: appends x to the state, and computes the output for it.
// Requires definitions of Elem, W (taps), THREADS, BIAS, SILU.
constexpr int HISTORY = W - 1;

__global__ void __launch_bounds__(THREADS)
causal_update(const Elem *x, Elem *state, const Elem *weight, const Elem *bias, Elem *y, int rows, int channels) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const int channel = row % channels;
    Elem window[W];
    #pragma unroll
    for (int k = 0; k < HISTORY; k++) window[k] = state[(size_t)row * HISTORY + k];
    window[HISTORY] = x[row];
    float sum = BIAS ? float(bias[channel]) : 0.f;
    #pragma unroll
    for (int k = 0; k < W; k++) sum += float(weight[channel * W + k]) * float(window[k]);
    y[row] = Elem(SILU ? sum / (1.f + __expf(-sum)) : sum);
    #pragma unroll
    for (int k = 0; k < HISTORY; k++) state[(size_t)row * HISTORY + k] = window[k + 1];
}
