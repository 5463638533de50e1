// As in_cluster.cuh, for rows in registers: a block's own barrier counts what it is told, so that no fence is needed.
// That is faster there, and slower where rows lie in shared memory.
__device__ int part_of_row() { return rank(); }

struct Told { Part parts[THREADS / 32 * CLUSTER]; u64 all; };
__device__ Told &told() {
    __shared__ Told it;
    return it;
}

__device__ void begin() {                                   // tells the other blocks that this one's barrier is there
    if (threadIdx.x == 0) {
        const u32 all = address(&told().all);
        barrier_init(all, 1);
        barriers_ready();
        barrier_expect(all, sizeof told().parts);
    }
    cluster_here();
}

__device__ Part join_block(Part part) {                     // all threads of all blocks get what all of them know
    constexpr int WARPS = THREADS / 32, ALL = WARPS * CLUSTER;
    const int lane = threadIdx.x % 32;
    Part *parts = told().parts;
    const u32 all = address(&told().all);
    part = join_lanes<32>(part);
    cluster_wait();                                         // until the others are there
    if (lane < CLUSTER) tell_block(parts + rank() * WARPS + threadIdx.x / 32, lane, part.most, part.sum, all);
    barrier_wait(all, 0);
    part = {LOWEST, 0};
    for (int i = lane; i < ALL; i += 32) part = join(part, parts[i]);
    return join_lanes<32>(part);
}
