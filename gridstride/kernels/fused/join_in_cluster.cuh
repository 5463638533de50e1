// A row is processed by the CLUSTER blocks of a cluster, which join their Parts through distributed shared memory.
__device__ int part_of_row() { return rank(); }
__device__ void begin() { cluster_arrive_relaxed(); }  // signals the other blocks that this one has started

__device__ Part join_block(Part part) {                     // all threads of all blocks get the joined Part
    constexpr int WARPS = THREADS / 32, ALL = WARPS * CLUSTER;
    __shared__ Part parts[ALL];
    const int lane = threadIdx.x % 32;
    Part *mine = &parts[rank() * WARPS + threadIdx.x / 32];
    part = join_lanes<32>(part);
    cluster_wait();                                         // the other blocks have started
    if (lane < CLUSTER) into_block(&mine->most, lane, part.most), into_block(&mine->sum, lane, part.sum);
    cluster_sync();
    part = {LOWEST, 0};
    for (int i = lane; i < ALL; i += 32) part = join(part, parts[i]);
    return join_lanes<32>(part);
}
