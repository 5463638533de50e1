// Sums `width` elements that begin at a multiple of 16 bytes, on a Hopper GPU; each block writes one partial sum. Bulk
// copies fill the STAGES stages of a pipeline in shared memory, one piece per stage, while the threads add the elements
// of the oldest piece.
// Requires definitions of the types Elem (of an element) and Sum (of a sum), THREADS, VECS_PER_THREAD (of 16 bytes, per
// piece), STAGES.
constexpr int V = 16 / sizeof(Elem), PIECE_BYTES = 16 * VECS_PER_THREAD * THREADS;     // V: elements of a vector
struct alignas(16) Vector { Elem data[V]; };

__global__ void __launch_bounds__(THREADS) sum_bulk(const Elem *x, Sum *out, long long width) {
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 filled[STAGES];
    __shared__ Sum warp_sums[THREADS / 32];
    const int thread = threadIdx.x;
    const long long pieces = width * sizeof(Elem) / PIECE_BYTES;   // full pieces
    asm volatile("griddepcontrol.launch_dependents;");      // PDL: the kernel that adds the block sums may start
    auto fill = [&](int stage, long long piece) {           // called by one thread
        barrier_expect(address(filled + stage), PIECE_BYTES);
        bulk_copy(address(ring + stage * PIECE_BYTES), (const char *)x + piece * PIECE_BYTES, PIECE_BYTES,
                  address(filled + stage));
    };
    if (thread == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(address(filled + s), 1);
        fence_mbarrier_init();
        for (int s = 0; s < STAGES; s++)
            if (blockIdx.x + (long long)s * gridDim.x < pieces) fill(s, blockIdx.x + (long long)s * gridDim.x);
    }
    __syncthreads();
    Sum sum[V] = {};
    int stage = 0, phase = 0;
    for (long long piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
        barrier_wait(address(filled + stage), phase);
        const Vector *vectors = (const Vector *)(ring + stage * PIECE_BYTES);
        #pragma unroll
        for (int p = 0; p < VECS_PER_THREAD; p++) {
            Vector vector = vectors[thread + p * THREADS];
            #pragma unroll
            for (int v = 0; v < V; v++) sum[v] += (Sum)vector.data[v];
        }
        __syncthreads();                                    // all threads have read this stage: it may be filled again
        long long next = piece + (long long)STAGES * gridDim.x;
        if (thread == 0 && next < pieces) fill(stage, next);
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    const long long tail = pieces * (PIECE_BYTES / sizeof(Elem));  // the elements after the last full piece
    for (long long i = tail + blockIdx.x * THREADS + thread; i < width; i += gridDim.x * THREADS) sum[0] += (Sum)x[i];
    for (int v = 1; v < V; v++) sum[0] += sum[v];
    for (int d = 16; d > 0; d /= 2) sum[0] += __shfl_down_sync(~0u, sum[0], d);
    if (thread % 32 == 0) warp_sums[thread / 32] = sum[0];
    __syncthreads();
    if (thread == 0) {
        for (int w = 1; w < THREADS / 32; w++) sum[0] += warp_sums[w];
        out[blockIdx.x] = sum[0];
    }
}
