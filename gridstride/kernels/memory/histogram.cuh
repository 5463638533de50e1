// Counts how many of `size` elements are in each bin. The bin of an integer is its value; the bin of a float from `low`
// to `high` is (float - low) * scale, where scale = BINS / (high - low). Elements outside all bins are not counted.
// Requires definitions of the type Elem (of an element), V (elements per load), THREADS, BINS, COPIES (of the
// counters), FLOATS (Elem is a floating-point type).
struct alignas(V * sizeof(Elem)) Vector { Elem data[V]; };
typedef unsigned long long Count;

__global__ void __launch_bounds__(THREADS)
histogram(const Elem *x, Count *out, long long size, float low, float high, float scale) {
    __shared__ unsigned counts[COPIES * BINS];              // private copies reduce contention of atomics
    for (int i = threadIdx.x; i < COPIES * BINS; i += THREADS) counts[i] = 0;
    __syncthreads();
    unsigned *warp_counts = counts + threadIdx.x / 32 % COPIES * BINS;
    auto count = [&](Elem element) {
        if (FLOATS) {
            float f = (float)element;
            if (f >= low && f <= high) atomicAdd(&warp_counts[min(int((f - low) * scale), BINS - 1)], 1u);
        } else {
            int i = (int)element;
            if (i >= 0 && i < BINS) atomicAdd(&warp_counts[i], 1u);
        }
    };
    const Vector *vectors = (const Vector *)x;
    const long long num_vectors = size / V, step = (long long)gridDim.x * THREADS;
    const long long first = (long long)blockIdx.x * THREADS + threadIdx.x;
    for (long long i = first; i < num_vectors; i += step) {
        Vector vector = vectors[i];
        #pragma unroll
        for (int v = 0; v < V; v++) count(vector.data[v]);
    }
    if (first < size % V) count(x[num_vectors * V + first]);
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += THREADS) {
        Count sum = 0;
        for (int c = 0; c < COPIES; c++) sum += counts[c * BINS + i];
        if (sum) atomicAdd(&out[i], sum);
    }
}
