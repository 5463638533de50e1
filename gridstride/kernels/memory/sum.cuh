// Sums of rows of `width` elements by `blocks` blocks per row, which write `blocks` partial sums: a second launch adds
// these. A block reads `share` packs of V elements.
// Above: the types From, Sum (of the accumulators) and To, V (elements per load), THREADS, AHEAD (loads in flight); and
// on a Hopper GPU FIRST (may the second launch begin when all blocks of this one have?) and SECOND (is this it?).
struct alignas(V * sizeof(From)) Pack { From at[V]; };
constexpr int CHAINS = V < 4 ? V : 4;                       // of additions, which do not wait for each other

__device__ Sum warp_sum(Sum sum) {                          // lane 0 gets the sum over its warp
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    return sum;
}

__device__ Sum block_sum(Sum sum) {                         // thread 0 gets the sum over its block
    __shared__ Sum of_warp[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    sum = warp_sum(sum);
    if (lane == 0) of_warp[warp] = sum;
    __syncthreads();
    if (warp == 0) sum = warp_sum(lane < THREADS / 32 ? of_warp[lane] : Sum(0));
    return sum;
}

__global__ void __launch_bounds__(THREADS, THREADS == 1024 ? 2 : 1)          // no SM has more than 2048 threads
sum_rows(const From *x, To *out, long long width, long long share, int blocks) {
    if (FIRST) asm volatile("griddepcontrol.launch_dependents;");
    if (SECOND) asm volatile("griddepcontrol.wait;" ::: "memory");           // until the launch ahead has written
    long long row = blockIdx.x / blocks, part = blockIdx.x % blocks;
    const From *elements = x + row * width;
    const Pack *packs = (const Pack *)elements;
    const long long count = width / V, stride = THREADS, step = AHEAD * stride;
    const long long end = min(count, (part + 1) * share);
    Sum sum[CHAINS] = {};
    long long i = part * share + threadIdx.x;
    #pragma unroll 1                                        // few registers, many threads
    for (; i + (AHEAD - 1) * stride < end; i += step) {
        Pack pack[AHEAD];
        #pragma unroll
        for (int a = 0; a < AHEAD; a++) pack[a] = packs[i + a * stride];      // all loads first, then what needs them
        #pragma unroll
        for (int a = 0; a < AHEAD; a++)
            #pragma unroll
            for (int v = 0; v < V; v++) sum[v % CHAINS] += (Sum)pack[a].at[v];
    }
    for (int a = 0; a < AHEAD; a++)                         // the last packs, if they are fewer
        if (i + a * stride < end)
            for (int v = 0; v < V; v++) sum[v % CHAINS] += (Sum)packs[i + a * stride].at[v];
    if (part == 0 && threadIdx.x < width % V) sum[0] += (Sum)elements[count * V + threadIdx.x];    // no whole pack
    for (int c = 1; c < CHAINS; c++) sum[0] += sum[c];
    Sum all = block_sum(sum[0]);
    if (threadIdx.x == 0) out[blockIdx.x] = To(all);
}
