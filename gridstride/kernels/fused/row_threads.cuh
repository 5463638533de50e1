// ROW_THREADS threads process a row, and each of them keeps its first VECS_PER_THREAD vectors of the row in registers;
// a block of THREADS threads processes several rows. Requires definitions of the type Acc, these three constants, and
// LONG_ROWS: a row may have more vectors than its threads keep in registers.
constexpr int ROWS_PER_BLOCK = THREADS / ROW_THREADS, ROW_WARPS = ROW_THREADS / 32; // ROW_WARPS: warps per row

// Sums N values over the threads of a row, and returns the sums to all of them. All threads of the block must call it,
// with `buffer` alternating between 0 and 1.
template<int N> __device__ void row_sum(Acc (&x)[N], int buffer) {
    // double buffering: no warp overwrites values that other warps still read
    __shared__ Acc warp_sums[2][N][THREADS / 32];
    #pragma unroll
    for (int d = 16; d > 0; d /= 2)
        for (int n = 0; n < N; n++) x[n] += __shfl_xor_sync(~0u, x[n], d);
    if constexpr (ROW_WARPS > 1) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        for (int n = 0; n < N; n++)
            if (lane == 0) warp_sums[buffer][n][warp] = x[n];
        __syncthreads();
        for (int n = 0; n < N; n++) x[n] = warp_sums[buffer][n][warp / ROW_WARPS * ROW_WARPS + lane % ROW_WARPS];
        #pragma unroll
        for (int d = ROW_WARPS / 2; d > 0; d /= 2)
            for (int n = 0; n < N; n++) x[n] += __shfl_xor_sync(~0u, x[n], d);
    }
}

// Calls f(index in the thread's registers, index in the row) for the vectors that are in registers.
template<class F> __device__ void visit_registers(int vectors, F f) {
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++)
        if (threadIdx.x % ROW_THREADS + k * ROW_THREADS < vectors) f(k, threadIdx.x % ROW_THREADS + k * ROW_THREADS);
}

// Calls f(index in the row) for the vectors that are not in registers.
template<class F> __device__ void visit_remaining(int vectors, F f) {
    if constexpr (LONG_ROWS)
        for (int i = threadIdx.x % ROW_THREADS + VECS_PER_THREAD * ROW_THREADS; i < vectors; i += ROW_THREADS) f(i);
}
