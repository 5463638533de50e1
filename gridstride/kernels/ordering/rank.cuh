// Ranks the keys of a block by a digit, stably: each warp matches the digits of its lanes and counts them.
// Requires definitions of THREADS.
constexpr int DIGITS = 256, WARPS = THREADS / 32;

// Returns the mask of the lanes with the same digit. nvcc compiles the body of the loop to five instructions; with
// `is_set ? votes : ~votes` it would be seven.
__device__ __forceinline__ unsigned peers(unsigned digit) {
    unsigned same = ~0u;
    #pragma unroll
    for (int bit = 0; bit < 8; bit++) {
        int shifted = digit << (31 - bit);                  // the bit is its sign
        unsigned votes = __ballot_sync(~0u, shifted < 0);
        same &= ~(votes ^ (shifted >> 31));                   // the votes, or their complement if the bit is 0
    }
    return same;
}

// Called by all lanes of a warp: returns how many keys with the same digit the warp has counted before this one.
__device__ __forceinline__ unsigned warp_rank(unsigned digit, unsigned *counters) {
    unsigned same = peers(digit), old_count = 0;
    int lane = threadIdx.x % 32, leader = __ffs(same) - 1;
    if (lane == leader) old_count = atomicAdd(&counters[digit], (unsigned)__popc(same));
    return __shfl_sync(~0u, old_count, leader) + __popc(same & ((1u << lane) - 1));
}

// Called by all threads: returns the exclusive prefix sum over the first DIGITS threads.
__device__ __forceinline__ unsigned scan_digits(unsigned x, unsigned *warp_sums) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned inclusive = x;
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        unsigned previous = __shfl_up_sync(~0u, inclusive, d);
        if (lane >= d) inclusive += previous;
    }
    if (lane == 31 && warp < DIGITS / 32) warp_sums[warp] = inclusive;
    __syncthreads();
    unsigned prefix = 0;
    #pragma unroll
    for (int w = 0; w < DIGITS / 32; w++) prefix += w < warp ? warp_sums[w] : 0;
    __syncthreads();
    return prefix + inclusive - x;
}
