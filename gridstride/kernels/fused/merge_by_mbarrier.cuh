// Like merge_in_cluster.cuh, for rows in registers: blocks send their states with st.async, and the mbarrier of the
// receiving block counts the bytes, so no fence is needed. This is faster for rows in registers, and slower for rows in
// shared memory.
__device__ int block_rank_in_row() { return rank(); }

struct ReceiveBuffer { RowState states[THREADS / 32 * CLUSTER]; u64 full; };
__device__ ReceiveBuffer &receive_buffer() {
    __shared__ ReceiveBuffer buffer;
    return buffer;
}

// Initializes this block's mbarrier, and signals the other blocks that it is initialized.
__device__ void arrive_at_cluster_barrier() {
    if (threadIdx.x == 0) {
        const u32 full = address(&receive_buffer().full);
        barrier_init(full, 1);
        fence_mbarrier_init();
        barrier_expect(full, sizeof receive_buffer().states);
    }
    cluster_arrive_relaxed();
}

// Merges the states of a row's threads; all threads of all blocks receive the result.
__device__ RowState merge_row(RowState state) {
    constexpr int WARPS = THREADS / 32, ROW_WARPS = WARPS * CLUSTER;
    const int lane = threadIdx.x % 32;
    RowState *states = receive_buffer().states;
    const u32 full = address(&receive_buffer().full);
    state = merge_lanes<32>(state);
    cluster_wait();  // the mbarriers of the other blocks are initialized
    if (lane < CLUSTER) {
        RowState *dst = states + rank() * WARPS + threadIdx.x / 32;
        store_async(dst, lane, state.row_max, state.row_sum, full);
    }
    barrier_wait(full, 0);
    state = {NEG_INF, 0};
    for (int i = lane; i < ROW_WARPS; i += 32) state = merge(state, states[i]);
    return merge_lanes<32>(state);
}
