// A row is processed by the CLUSTER blocks of a cluster, which merge their states through distributed shared memory.
__device__ int block_rank_in_row() { return rank(); }
// Signals the other blocks that this one has started.
__device__ void arrive_at_cluster_barrier() { cluster_arrive_relaxed(); }

// Merges the states of a row's threads; all threads of all blocks receive the result.
__device__ RowState merge_row(RowState state) {
    constexpr int WARPS = THREADS / 32, ROW_WARPS = WARPS * CLUSTER;
    __shared__ RowState states[ROW_WARPS];
    const int lane = threadIdx.x % 32;
    RowState *dst = &states[rank() * WARPS + threadIdx.x / 32];
    state = merge_lanes<32>(state);
    cluster_wait();  // the other blocks have started
    if (lane < CLUSTER) {
        store_to_block(&dst->row_max, lane, state.row_max);
        store_to_block(&dst->row_sum, lane, state.row_sum);
    }
    cluster_sync();
    state = {NEG_INF, 0};
    for (int i = lane; i < ROW_WARPS; i += 32) state = merge(state, states[i]);
    return merge_lanes<32>(state);
}
