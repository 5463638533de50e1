// GROUP threads have a row; THREADS / GROUP such groups are a block. Above: the type Sum, GROUP and THREADS.
constexpr int GROUPS = THREADS / GROUP, WARPS = GROUP / 32; // of a block; of a group

// Every thread gets the N sums over its group. All of the block are there; `turn` is 0 and 1 by turns.
template<int N> __device__ void group_sum(Sum (&x)[N], int turn) {
    __shared__ Sum of_warp[2][N][THREADS / 32];             // two, so that nobody writes what others still read
    #pragma unroll
    for (int d = 16; d > 0; d /= 2)
        for (int n = 0; n < N; n++) x[n] += __shfl_xor_sync(~0u, x[n], d);
    if constexpr (WARPS > 1) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        for (int n = 0; n < N; n++)
            if (lane == 0) of_warp[turn][n][warp] = x[n];
        __syncthreads();
        for (int n = 0; n < N; n++) x[n] = of_warp[turn][n][warp / WARPS * WARPS + lane % WARPS];
        #pragma unroll
        for (int d = WARPS / 2; d > 0; d /= 2)
            for (int n = 0; n < N; n++) x[n] += __shfl_xor_sync(~0u, x[n], d);
    }
}
