// Finds the index of the largest element of each row: the first one of equal elements; NaN counts as the largest.
// `blocks` blocks read a row of `width` elements, each of them `block_vectors` vectors of V elements. A single block,
// or a cluster, writes the index to `out`. Otherwise each block writes its best element to `values` and its index to
// `indices`, and a second kernel finds the best of these.
// Requires definitions of the types Elem (of an element) and Value (elements are compared in this type), LOWEST (of
// type Value), V (elements per load), THREADS, IN_FLIGHT (loads in flight per thread), PDL (on a Hopper GPU: the second
// kernel may begin when all blocks of the first one have started), and the macro CLUSTER if the blocks of a row form a
// cluster.
struct alignas(V * sizeof(Elem)) Vector { Elem data[V]; };
struct Best { Value value; unsigned index; };

__device__ bool is_greater(Value a, Value b) { return !(a <= b) && b == b; }  // a is larger, or only a is NaN

__device__ Best max_of(Best a, Best b) {                    // the one with the lower index if both are equal
    return is_greater(b.value, a.value) || (!is_greater(a.value, b.value) && b.index < a.index) ? b : a;
}

__device__ Best warp_best(Best best) {                      // returns the best element of the warp to lane 0
    for (int d = 16; d > 0; d /= 2)
        best = max_of(best, {__shfl_down_sync(~0u, best.value, d), __shfl_down_sync(~0u, best.index, d)});
    return best;
}

__device__ Best block_best(Best best) {                     // returns the best element of the block to thread 0
    __shared__ Best warp_results[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    best = warp_best(best);
    if (lane == 0) warp_results[warp] = best;
    __syncthreads();
    if (warp == 0) best = warp_best(warp_results[lane < THREADS / 32 ? lane : 0]);
    return best;
}

#ifdef CLUSTER
constexpr bool IS_CLUSTER = true;
__device__ Best cluster_best(Best best, int blocks) {       // returns the cluster's best to thread 0 of block 0
    __shared__ Best block_result;
    if (threadIdx.x == 0) block_result = best;
    cluster_sync();
    int b = threadIdx.x % 32 < blocks ? threadIdx.x % 32 : 0;
    if (rank() == 0 && threadIdx.x < 32) {
        float words[] = {load_from_block((float *)&block_result, b), load_from_block((float *)&block_result + 1, b)};
        memcpy(&best, words, sizeof best);
        best = warp_best(best);
    }
    cluster_sync();                                         // no block may exit while others read its memory
    return best;
}
#else
constexpr bool IS_CLUSTER = false;
__device__ Best cluster_best(Best best, int) { return best; }
#endif

__global__ void __launch_bounds__(THREADS, THREADS == 1024 ? 2 : 1)          // an SM has at most 2048 threads
argmax_rows(const Elem *x, long long *out, Value *values, int *indices, unsigned width, unsigned block_vectors,
            int blocks) {
    if (PDL) asm volatile("griddepcontrol.launch_dependents;");
    size_t row = blockIdx.x / blocks;
    unsigned part = blockIdx.x % blocks;
    const Elem *elements = x + row * width;
    const Vector *vectors = (const Vector *)elements;
    const unsigned count = width / V, step = IN_FLIGHT * THREADS;
    const unsigned end = min(count, (part + 1) * block_vectors);
    Best best = {LOWEST, 0};                                // this is the result if all elements are LOWEST
    auto update = [&](Elem x, unsigned index) {                // indices ascend, so the first of equal elements stays
        Value value = (Value)x;
        if (is_greater(value, best.value)) best = {value, index};
    };
    unsigned i = part * block_vectors + threadIdx.x;
    #pragma unroll 1                                        // saves registers, so that more threads are resident
    for (; i + (IN_FLIGHT - 1) * THREADS < end; i += step) {
        Vector vector[IN_FLIGHT];
        #pragma unroll
        for (int a = 0; a < IN_FLIGHT; a++) vector[a] = vectors[i + a * THREADS];
        #pragma unroll
        for (int a = 0; a < IN_FLIGHT; a++)
            #pragma unroll
            for (int v = 0; v < V; v++) update(vector[a].data[v], (i + a * THREADS) * V + v);
    }
    for (int a = 0; a < IN_FLIGHT; a++)                     // the last vectors, fewer than IN_FLIGHT
        if (i + a * THREADS < end)
            for (int v = 0; v < V; v++) update(vectors[i + a * THREADS].data[v], (i + a * THREADS) * V + v);
    if (part == 0 && threadIdx.x < width % V) update(elements[count * V + threadIdx.x], count * V + threadIdx.x);
    best = cluster_best(block_best(best), blocks);
    if (threadIdx.x != 0 || (IS_CLUSTER && part != 0)) return;
    if (IS_CLUSTER || blocks == 1) out[row] = best.index;
    else values[blockIdx.x] = best.value, indices[blockIdx.x] = best.index;
}

// One block per row: finds the best of the row's `blocks` partial results.
__global__ void __launch_bounds__(THREADS)
argmax_partials(const Value *values, const int *indices, long long *out, int blocks) {
    if (PDL) asm volatile("griddepcontrol.wait;" ::: "memory");            // until the first kernel has finished
    Best best = {LOWEST, 0};
    for (int b = threadIdx.x; b < blocks; b += THREADS) {
        size_t i = (size_t)blockIdx.x * blocks + b;
        best = max_of(best, {values[i], (unsigned)indices[i]});
    }
    best = block_best(best);
    if (threadIdx.x == 0) out[blockIdx.x] = best.index;
}
