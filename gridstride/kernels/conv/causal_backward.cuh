// The gradients of a depthwise causal convolution: of x, weight, bias and the initial state. A block computes those of
// a channel in all sequences, so it adds the gradients of the weight in a fixed order. It recomputes the values before
// the activation.
// Requires definitions of Elem, W, V, THREADS, BIAS, SILU, STATE (there is an initial state), FINAL (there is a
// gradient of the final state).
struct alignas(V * sizeof(Elem)) Vector { Elem data[V]; };
constexpr int HISTORY = W - 1, WARPS = THREADS / 32;

__global__ void __launch_bounds__(THREADS)
causal_backward(const Elem *x, const Elem *weight, const Elem *bias, const Elem *state, const Elem *dy,
                const Elem *dfinal, Elem *dx, Elem *dweight, Elem *dbias, Elem *dstate, int sequences, int channels,
                int length) {
    __shared__ float warp_sums[WARPS][W + 1];
    const int channel = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float taps[W], sums[W + 1] = {};                        // the last one is the gradient of the bias
    #pragma unroll
    for (int k = 0; k < W; k++) taps[k] = float(weight[channel * W + k]);
    const float bias_term = BIAS ? float(bias[channel]) : 0.f;
    const int num_vectors = (length + V - 1) / V;
    for (int i = threadIdx.x; i < sequences * num_vectors; i += THREADS) {
        const long long row = (long long)(i / num_vectors) * channels + channel;
        const int t = i % num_vectors * V;
        const Elem *x_row = x + row * length, *dy_row = dy + row * length;
        float window[V + 2 * HISTORY], dz[V + HISTORY];     // x[t - HISTORY ...], and dy[t ...] before the activation
        const Vector x_vector = *(const Vector *)(x_row + t), dy_vector = *(const Vector *)(dy_row + t);
        #pragma unroll
        for (int j = 0; j < V + 2 * HISTORY; j++) {
            const int position = t - HISTORY + j;
            if (j >= HISTORY && j < HISTORY + V) window[j] = float(x_vector.data[j - HISTORY]);
            else if (position >= 0) window[j] = position < length ? float(x_row[position]) : 0.f;
            else window[j] = STATE ? float(state[row * HISTORY + HISTORY + position]) : 0.f;
        }
        #pragma unroll
        for (int j = 0; j < V + HISTORY; j++) {
            dz[j] = j < V ? float(dy_vector.data[j]) : t + j < length ? float(dy_row[t + j]) : 0.f;
            if (SILU) {
                float preactivation = bias_term;
                #pragma unroll
                for (int k = 0; k < W; k++) preactivation += taps[k] * window[j + k];
                const float sigmoid = 1.f / (1.f + __expf(-preactivation));
                dz[j] *= sigmoid * (1.f + preactivation * (1.f - sigmoid));
            }
        }
        Vector out;
        #pragma unroll
        for (int v = 0; v < V; v++) {
            float sum = 0;
            #pragma unroll
            for (int k = 0; k < W; k++) {
                sum += taps[k] * dz[v + HISTORY - k];
                sums[k] += dz[v] * window[v + k];
            }
            sums[W] += dz[v];
            if (FINAL && t + v >= length - HISTORY) sum += float(dfinal[row * HISTORY + t + v - (length - HISTORY)]);
            out.data[v] = Elem(sum);
        }
        *(Vector *)(dx + row * length + t) = out;
        if (STATE && t == 0)
            for (int j = 0; j < HISTORY; j++) {             // an element is used by the outputs 0 to j
                float sum = FINAL && j >= length ? float(dfinal[row * HISTORY + j - length]) : 0.f;
                for (int k = 0; k <= j; k++) sum += taps[k] * dz[j - k];
                dstate[row * HISTORY + j] = Elem(sum);
            }
    }
    #pragma unroll
    for (int k = 0; k <= W; k++) {
        for (int d = 16; d > 0; d /= 2) sums[k] += __shfl_xor_sync(~0u, sums[k], d);
        if (lane == 0) warp_sums[warp][k] = sums[k];
    }
    __syncthreads();
    if (threadIdx.x > W) return;
    float sum = 0;
    for (int w = 0; w < WARPS; w++) sum += warp_sums[w][threadIdx.x];
    if (threadIdx.x < W) dweight[channel * W + threadIdx.x] = Elem(sum);
    else if (BIAS) dbias[channel] = Elem(sum);
}
