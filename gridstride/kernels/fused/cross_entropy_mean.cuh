// Kernels that run before and after the losses of the rows: count the targets, and compute the mean loss. Defined
// above: the type Sum, and THREADS.
template<class T> __device__ T block_sum(T sum) {           // thread 0 gets the sum over its block
    __shared__ T of_warp[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) of_warp[warp] = sum;
    __syncthreads();
    sum = lane < THREADS / 32 ? of_warp[lane] : T(0);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    return sum;
}

// Runs as one block. Computes the factor of the sum of all losses: 1, or for the mean 1 / (rows that are not ignored).
__global__ void __launch_bounds__(THREADS)
count_targets(const long long *target, Sum *scale, int rows, unsigned width, int mean, long long ignored) {
    int counted = 0;
    for (int row = threadIdx.x; row < rows; row += THREADS) {
        const long long t = target[row];
        assert(t == ignored || (0 <= t && t < width));      // a target is not a class of these logits
        counted += t != ignored;
    }
    counted = block_sum(counted);
    if (threadIdx.x == 0) *scale = mean ? Sum(1) / counted : Sum(1);
}

// Runs as one block, so that the order of additions is the same in each run.
__global__ void __launch_bounds__(THREADS) add_losses(const Sum *loss, const Sum *scale, Sum *out, int rows) {
    Sum sum = 0;
    for (int row = threadIdx.x; row < rows; row += THREADS) sum += loss[row];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *out = sum * *scale;
}
