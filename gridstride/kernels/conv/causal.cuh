// Depthwise causal convolution of sequences: in every channel y[t] = bias + the sum of weight[k] * x[t - (W - 1) + k].
// Elements before the first come from `state`. ROW_THREADS threads share a row (one channel of one sequence), with
// VECS_PER_THREAD vectors per thread.
// Requires definitions of Elem, W (taps), V (elements per load), ROW_THREADS, VECS_PER_THREAD, THREADS, BIAS, SILU,
// STATE (there is an initial state), FINAL (the final state is written).
struct alignas(V * sizeof(Elem)) Vector { Elem data[V]; };
constexpr int HISTORY = W - 1, ROWS = THREADS / ROW_THREADS, CHUNK = ROW_THREADS * VECS_PER_THREAD * V;

__global__ void __launch_bounds__(THREADS)
causal(const Elem *x, const Elem *weight, const Elem *bias, const Elem *state, Elem *y, Elem *final_state,
       long long rows, int channels, int length, int chunks) {
    const int lane = threadIdx.x % ROW_THREADS, chunk = blockIdx.x % chunks;
    const long long row = (long long)(blockIdx.x / chunks) * ROWS + threadIdx.x / ROW_THREADS;
    const bool has_row = row < rows;
    const int channel = has_row ? row % channels : 0;
    const Elem *x_row = x + row * length;
    float taps[W];
    #pragma unroll
    for (int k = 0; k < W; k++) taps[k] = float(weight[channel * W + k]);
    const float bias_term = BIAS ? float(bias[channel]) : 0.f;
    auto element = [&](int t) {                             // t may be before the first element
        if (t >= 0) return float(x_row[t]);
        return STATE ? float(state[row * HISTORY + HISTORY + t]) : 0.f;
    };
    Vector vectors[VECS_PER_THREAD];
    #pragma unroll
    for (int p = 0; p < VECS_PER_THREAD; p++) {
        const int t = chunk * CHUNK + (p * ROW_THREADS + lane) * V;
        if (has_row && t < length) vectors[p] = *(const Vector *)(x_row + t);
        else
            for (int v = 0; v < V; v++) vectors[p].data[v] = Elem(0.f);
    }
    #pragma unroll
    for (int p = 0; p < VECS_PER_THREAD; p++) {
        const int t = chunk * CHUNK + (p * ROW_THREADS + lane) * V;
        const bool in_bounds = has_row && t < length;
        float window[HISTORY + V];
        #pragma unroll
        for (int v = 0; v < V; v++) window[HISTORY + v] = float(vectors[p].data[v]);
        #pragma unroll
        for (int k = 0; k < HISTORY; k++) {                 // the previous lane has these elements if V >= HISTORY
            float before = V >= HISTORY ? __shfl_up_sync(~0u, window[V + k], 1) : 0.f;
            if (in_bounds && (V < HISTORY || threadIdx.x % 32 == 0 || lane == 0)) before = element(t - HISTORY + k);
            window[k] = before;
        }
        Vector out;
        #pragma unroll
        for (int v = 0; v < V; v++) {
            float sum = bias_term;
            #pragma unroll
            for (int k = 0; k < W; k++) sum += taps[k] * window[v + k];
            out.data[v] = Elem(SILU ? sum / (1.f + __expf(-sum)) : sum);
        }
        if (in_bounds) *(Vector *)(y + row * length + t) = out;
    }
    if (FINAL && has_row && chunk == 0 && lane == 0)
        for (int k = 0; k < HISTORY; k++) final_state[row * HISTORY + k] = Elem(element(length - HISTORY + k));
}
