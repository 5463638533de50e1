// Lists the distinct elements among keys of 1 or 2 bytes, which are marked in a bitmap of all possible keys.
// Requires definitions of the constants of `order`, V (keys per load), MARK_THREADS, LIST_THREADS. The bitmap has a bit
// per key, in ascending order, and one more word: nonzero if there is a NaN.
constexpr int WORDS = (1 << KEY_BITS) / 32;
struct alignas(V * sizeof(Bits)) Vector { Bits data[V]; };

__device__ __forceinline__ bool is_nan(Bits key) { return KIND == FLOATING && Bits(key & ~SIGN) > INFINITE; }

__global__ void __launch_bounds__(MARK_THREADS, 2)
mark_elements(const Bits *x, unsigned *bitmap, long long size) {
    __shared__ unsigned marked[WORDS];
    for (int w = threadIdx.x; w < WORDS; w += MARK_THREADS) marked[w] = 0;
    __syncthreads();
    bool has_nan = false;
    auto mark = [&](Bits key) {
        const unsigned index = order(key), bit = 1u << index % 32;
        has_nan |= is_nan(key);
        // most keys are marked already, and a load is cheaper than an atomic operation
        if (!(((volatile unsigned *)marked)[index / 32] & bit)) atomicOr(&marked[index / 32], bit);
    };
    const long long num_vectors = size / V, step = (long long)gridDim.x * MARK_THREADS;
    const long long first = (long long)blockIdx.x * MARK_THREADS + threadIdx.x;
    for (long long i = first; i < num_vectors; i += step) {
        const Vector vector = ((const Vector *)x)[i];
        #pragma unroll
        for (int v = 0; v < V; v++) mark(vector.data[v]);
    }
    if (first < size % V) mark(x[num_vectors * V + first]);
    if (has_nan) atomicOr(&bitmap[WORDS], 1u);
    __syncthreads();
    for (int w = threadIdx.x; w < WORDS; w += MARK_THREADS)
        if (marked[w] & ~((volatile unsigned *)bitmap)[w]) atomicOr(&bitmap[w], marked[w]);
}

// The inverse of `order`; 0.0 for both zeros
__device__ __forceinline__ Bits key_at(unsigned index) {
    if (KIND == SIGNED) return Bits(index ^ SIGN);
    if (KIND == FLOATING) return index & SIGN ? Bits(index ^ SIGN) : Bits(0 - index);
    return Bits(index);
}

// Writes the marked keys, and their number, -1 if there is a NaN. Launched with one block.
__global__ void __launch_bounds__(LIST_THREADS)
list_elements(const unsigned *bitmap, Bits *out, long long *total) {
    constexpr int WORDS_PER_THREAD = (WORDS + LIST_THREADS - 1) / LIST_THREADS, WARPS = LIST_THREADS / 32;
    __shared__ unsigned warp_sums[WARPS];
    const bool has_nan = bitmap[WORDS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned words[WORDS_PER_THREAD], count = 0;
    #pragma unroll
    for (int i = 0; i < WORDS_PER_THREAD; i++) {
        const int w = threadIdx.x * WORDS_PER_THREAD + i;
        words[i] = !has_nan && w < WORDS ? bitmap[w] : 0;
        count += __popc(words[i]);
    }
    unsigned inclusive = count;
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        unsigned previous = __shfl_up_sync(~0u, inclusive, d);
        if (lane >= d) inclusive += previous;
    }
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    unsigned dst = inclusive - count;
    for (int w = 0; w < warp; w++) dst += warp_sums[w];
    if (threadIdx.x == LIST_THREADS - 1) *total = has_nan ? -1 : dst + count;
    #pragma unroll
    for (int i = 0; i < WORDS_PER_THREAD; i++)
        for (unsigned word = words[i]; word; word &= word - 1)
            out[dst++] = key_at((threadIdx.x * WORDS_PER_THREAD + i) * 32 + __ffs(word) - 1);
}
