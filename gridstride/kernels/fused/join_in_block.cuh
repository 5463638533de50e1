// A row is processed by one block, or by GROUP of its threads.
constexpr int CLUSTER = 1;
__device__ int part_of_row() { return 0; }
__device__ void begin() {}

__device__ Part join_block(Part part) {                     // all threads of the block get the joined Part
    constexpr int WARPS = THREADS / 32;
    __shared__ Part parts[WARPS];
    const int lane = threadIdx.x % 32;
    part = join_lanes<32>(part);
    if (lane == 0) parts[threadIdx.x / 32] = part;
    __syncthreads();
    return join_lanes<32>(lane < WARPS ? parts[lane] : Part{LOWEST, 0});
}
