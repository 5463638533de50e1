// A row is processed by one block, or by ROW_THREADS of its threads.
constexpr int CLUSTER = 1;
__device__ int block_rank_in_row() { return 0; }
__device__ void arrive_at_cluster_barrier() {}

// Merges the states of a row's threads; all threads of the block receive the result.
__device__ RowState merge_row(RowState state) {
    constexpr int WARPS = THREADS / 32;
    __shared__ RowState states[WARPS];
    const int lane = threadIdx.x % 32;
    state = merge_lanes<32>(state);
    if (lane == 0) states[threadIdx.x / 32] = state;
    __syncthreads();
    return merge_lanes<32>(lane < WARPS ? states[lane] : RowState{NEG_INF, 0});
}
