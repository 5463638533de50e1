
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

// Loss and gradient at once: a cluster of CLUSTER blocks for a row, whose part each keeps in its shared memory, so that
// logits are read once, and the gradient, which may take their place, is written once. It is that of `scale` times
// the sum of all losses.
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
loss_and_gradient(const From *x, const long long *target, const Sum *scale, Sum *loss, From *gradient,
                  unsigned width, unsigned share, long long ignored) {
    extern __shared__ __align__(16) char room[];
    __shared__ Sums told;
    Pack *kept = (Pack *)room;                              // each thread reads what it has written itself
    const size_t row = blockIdx.x;
    const long long t = target[row];
    const Pack *packs = (const Pack *)(x + row * width);
    Pack *to = (Pack *)(gradient + row * width);
    const unsigned begin = blockIdx.y * share, end = min(width / V, begin + share);
    if (t == ignored) {                                     // all blocks of the cluster leave
        for (unsigned i = begin + threadIdx.x; i < end; i += THREADS) store(to + i, Pack{});
        if (blockIdx.y == 0 && threadIdx.x == 0) loss[row] = 0;
        return;
    }
    Sums sums = {LOWEST, 0};
    for (unsigned i = begin + threadIdx.x; i < end; i += AHEAD * THREADS) {
        Pack pack[AHEAD];
        #pragma unroll
        for (int a = 0; a < AHEAD; a++)                     // all loads first, then what needs them
            if (i + a * THREADS < end) pack[a] = load(packs + i + a * THREADS);
        #pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (i + a * THREADS < end) {
                kept[i + a * THREADS - begin] = pack[a];
                add(sums, pack[a]);
            }
    }
    sums = block_join(sums);
    if (CLUSTER > 1) {
        if (threadIdx.x == 0) told = sums;
        cluster_sync();
        const int other = threadIdx.x % CLUSTER;
        sums = warp_join({of_block(&told.shift, other), of_block(&told.sum, other)}, CLUSTER);
        cluster_arrive();                                   // others have been read; wait below until one has been, too
    }
    const Sum factor = *scale;
    for (unsigned i = begin + threadIdx.x; i < end; i += THREADS) {
        store(to + i, gradient_of(kept[i - begin], sums, factor));
        if (i != t / V) continue;                           // the target's logit is this thread's
        const From hit = ((const From *)(kept + i - begin))[t % V];
        gradient[row * width + t] = target_gradient(hit, sums, factor);
        loss[row] = loss_of((Sum)hit, sums);
    }
    if (CLUSTER > 1) cluster_wait();
}
