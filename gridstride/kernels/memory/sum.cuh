// Sums rows of `width` elements. `blocks` blocks per row write a partial sum each, and a second launch adds these. A
// block reads `block_vectors` vectors of V elements.
// Requires definitions of the types Elem (of an element), Sum (of the accumulators) and Out (of a result), V (elements
// per load), THREADS, IN_FLIGHT (loads in flight per thread). PDL_PRIMARY or PDL_SECONDARY is set in the two launches
// if they use programmatic dependent launch on a Hopper GPU: the secondary kernel may begin when all blocks of the
// primary one have started.
struct alignas(V * sizeof(Elem)) Vector { Elem data[V]; };
constexpr int CHAINS = V < 4 ? V : 4;                       // independent chains of additions

__device__ Sum warp_sum(Sum sum) {                          // returns the sum over the warp to lane 0
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    return sum;
}

__device__ Sum block_sum(Sum sum) {                         // returns the sum over the block to thread 0
    __shared__ Sum warp_sums[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    sum = warp_sum(sum);
    if (lane == 0) warp_sums[warp] = sum;
    __syncthreads();
    if (warp == 0) sum = warp_sum(lane < THREADS / 32 ? warp_sums[lane] : Sum(0));
    return sum;
}

__global__ void __launch_bounds__(THREADS, THREADS == 1024 ? 2 : 1)          // an SM has at most 2048 threads
sum_rows(const Elem *x, Out *out, long long width, long long block_vectors, int blocks) {
    if (PDL_PRIMARY) asm volatile("griddepcontrol.launch_dependents;");
    if (PDL_SECONDARY) asm volatile("griddepcontrol.wait;" ::: "memory");       // until the primary kernel has finished
    long long row = blockIdx.x / blocks, part = blockIdx.x % blocks;
    const Elem *elements = x + row * width;
    const Vector *vectors = (const Vector *)elements;
    const long long count = width / V, stride = THREADS, step = IN_FLIGHT * stride;
    const long long end = min(count, (part + 1) * block_vectors);
    Sum sum[CHAINS] = {};
    long long i = part * block_vectors + threadIdx.x;
    #pragma unroll 1                                        // saves registers, so that more threads are resident
    for (; i + (IN_FLIGHT - 1) * stride < end; i += step) {
        Vector vector[IN_FLIGHT];
        #pragma unroll
        for (int a = 0; a < IN_FLIGHT; a++) vector[a] = vectors[i + a * stride];    // issue all loads first
        #pragma unroll
        for (int a = 0; a < IN_FLIGHT; a++)
            #pragma unroll
            for (int v = 0; v < V; v++) sum[v % CHAINS] += (Sum)vector[a].data[v];
    }
    for (int a = 0; a < IN_FLIGHT; a++)                     // the last vectors, fewer than IN_FLIGHT
        if (i + a * stride < end)
            for (int v = 0; v < V; v++) sum[v % CHAINS] += (Sum)vectors[i + a * stride].data[v];
    if (part == 0 && threadIdx.x < width % V) sum[0] += (Sum)elements[count * V + threadIdx.x];    // the last elements
    for (int c = 1; c < CHAINS; c++) sum[0] += sum[c];
    Sum total = block_sum(sum[0]);
    if (threadIdx.x == 0) out[blockIdx.x] = Out(total);
}
