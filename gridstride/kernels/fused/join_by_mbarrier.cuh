// Like join_in_cluster.cuh, for rows in registers: blocks send their Parts with st.async, and the mbarrier of each
// block counts the bytes, so no fence is needed. This is faster for rows in registers, and slower for rows in shared
// memory.
__device__ int part_of_row() { return rank(); }

struct Mailbox { Part parts[THREADS / 32 * CLUSTER]; u64 all; };
__device__ Mailbox &mailbox() {
    __shared__ Mailbox it;
    return it;
}

__device__ void begin() {  // signals the other blocks that this one's mbarrier is initialized
    if (threadIdx.x == 0) {
        const u32 all = address(&mailbox().all);
        barrier_init(all, 1);
        barriers_ready();
        barrier_expect(all, sizeof mailbox().parts);
    }
    cluster_arrive_relaxed();
}

__device__ Part join_block(Part part) {                     // all threads of all blocks get the joined Part
    constexpr int WARPS = THREADS / 32, ALL = WARPS * CLUSTER;
    const int lane = threadIdx.x % 32;
    Part *parts = mailbox().parts;
    const u32 all = address(&mailbox().all);
    part = join_lanes<32>(part);
    cluster_wait();                                         // the mbarriers of the other blocks are initialized
    if (lane < CLUSTER) store_async(parts + rank() * WARPS + threadIdx.x / 32, lane, part.most, part.sum, all);
    barrier_wait(all, 0);
    part = {LOWEST, 0};
    for (int i = lane; i < ALL; i += 32) part = join(part, parts[i]);
    return join_lanes<32>(part);
}
