// Kernels that run before and after the losses of the rows: count the targets, and compute the mean loss. Requires
// definitions of the type Acc, and THREADS.
template<class T> __device__ T block_sum(T sum) {  // returns the sum over the block to thread 0
    __shared__ T warp_sums[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) warp_sums[warp] = sum;
    __syncthreads();
    sum = lane < THREADS / 32 ? warp_sums[lane] : T(0);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    return sum;
}

// One block. Computes the factor of the sum of all losses: 1, or for the mean 1 / (rows that are not ignored).
__global__ void __launch_bounds__(THREADS)
count_targets(const long long *target, Acc *scale, int rows, unsigned width, int mean, long long ignore_index) {
    int counted = 0;
    for (int row = threadIdx.x; row < rows; row += THREADS) {
        const long long t = target[row];
        assert(t == ignore_index || (0 <= t && t < width));  // fails if a target is not a class index
        counted += t != ignore_index;
    }
    counted = block_sum(counted);
    if (threadIdx.x == 0) *scale = mean ? Acc(1) / counted : Acc(1);
}

// One block, so that the order of additions is the same in each run.
__global__ void __launch_bounds__(THREADS) add_losses(const Acc *loss, const Acc *scale, Acc *out, int rows) {
    Acc sum = 0;
    for (int row = threadIdx.x; row < rows; row += THREADS) sum += loss[row];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *out = sum * *scale;
}
