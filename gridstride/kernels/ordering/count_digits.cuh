// Counts how often each digit occurs at each position of the keys of a row, for all passes of a radix sort: one read.
// Also clears the status words of the first pass.
// Requires definitions of the constants of `order`, THREADS, V (keys per load).
constexpr int DIGITS = 256, PASSES = sizeof(Bits), COPIES = 32 / PASSES;
struct alignas(V * sizeof(Bits)) Vector { Bits data[V]; };

__global__ void __launch_bounds__(THREADS)
count_digits(const Bits *keys, unsigned *counts, unsigned *status, long long width, int blocks, int tiles) {
    // Lanes have private copies, because equal digits would be counted one after the other. The copies of a counter are
    // in different banks.
    __shared__ unsigned copies[PASSES * DIGITS * COPIES];
    for (int i = threadIdx.x; i < PASSES * DIGITS * COPIES; i += THREADS) copies[i] = 0;
    size_t row = blockIdx.x / blocks;
    int part = blockIdx.x % blocks;
    for (size_t i = (size_t)part * THREADS + threadIdx.x; i < (size_t)tiles * DIGITS; i += (size_t)blocks * THREADS)
        status[row * tiles * DIGITS + i] = 0;
    __syncthreads();
    const Bits *src = keys + row * width;
    auto count = [&](Bits key) {
        Bits ordered = order(key);
        #pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            int digit = ordered >> 8 * pass & (DIGITS - 1);
            atomicAdd(&copies[(pass * DIGITS + digit) * COPIES + threadIdx.x % COPIES], 1u);
        }
    };
    const Vector *vectors = (const Vector *)src;
    const long long num_vectors = width / V, step = (long long)blocks * THREADS;
    const long long first = (long long)part * THREADS + threadIdx.x;
    for (long long i = first; i < num_vectors; i += step) {
        Vector vector = vectors[i];
        #pragma unroll
        for (int v = 0; v < V; v++) count(vector.data[v]);
    }
    if (first < width % V) count(src[num_vectors * V + first]);
    __syncthreads();
    for (int i = threadIdx.x; i < PASSES * DIGITS; i += THREADS) {
        unsigned sum = 0;
        for (int c = 0; c < COPIES; c++) sum += copies[i * COPIES + (c + threadIdx.x) % COPIES];
        if (sum) atomicAdd(&counts[row * PASSES * DIGITS + i], sum);
    }
}
