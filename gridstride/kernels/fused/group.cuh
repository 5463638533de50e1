// A group of GROUP threads processes a row; a block has THREADS / GROUP groups. A thread holds HELD packs in registers.
// Defined above: the type Sum, these three constants, and BEYOND: a row may be longer than what its threads hold.
constexpr int GROUPS = THREADS / GROUP, WARPS = GROUP / 32; // groups per block; warps per group

// Every thread gets the N sums over its group. All threads of the block call it; `buffer` alternates between 0 and 1.
template<int N> __device__ void group_sum(Sum (&x)[N], int buffer) {
    // Two buffers (double buffering), so that no warp overwrites values that others still read.
    __shared__ Sum of_warp[2][N][THREADS / 32];
    #pragma unroll
    for (int d = 16; d > 0; d /= 2)
        for (int n = 0; n < N; n++) x[n] += __shfl_xor_sync(~0u, x[n], d);
    if constexpr (WARPS > 1) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        for (int n = 0; n < N; n++)
            if (lane == 0) of_warp[buffer][n][warp] = x[n];
        __syncthreads();
        for (int n = 0; n < N; n++) x[n] = of_warp[buffer][n][warp / WARPS * WARPS + lane % WARPS];
        #pragma unroll
        for (int d = WARPS / 2; d > 0; d /= 2)
            for (int n = 0; n < N; n++) x[n] += __shfl_xor_sync(~0u, x[n], d);
    }
}

template<class F> __device__ void each_held(int packs, F f) {                // f(index in the thread, index in the row)
    #pragma unroll
    for (int h = 0; h < HELD; h++)
        if (threadIdx.x % GROUP + h * GROUP < packs) f(h, threadIdx.x % GROUP + h * GROUP);
}

template<class F> __device__ void each_beyond(int packs, F f) {  // f(index in the row) for packs that are not held
    if constexpr (BEYOND)
        for (int i = threadIdx.x % GROUP + HELD * GROUP; i < packs; i += GROUP) f(i);
}
