
// Loss and gradient in a single pass: a cluster of CLUSTER blocks per row keeps it in shared memory, so that logits are
// read once, and the gradient, which may overwrite them, is written once. It is the gradient of `scale` times the sum
// of all losses.
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
loss_and_gradient(const From *x, const long long *target, const Sum *scale, Sum *loss, From *gradient,
                  unsigned width, unsigned share, long long ignored) {
    extern __shared__ __align__(16) char smem[];
    __shared__ Sums shared_sums;
    Pack *kept = (Pack *)smem;                              // each thread reads what it has written itself
    const size_t row = blockIdx.x;
    const long long t = target[row];
    const From *elements = x + row * width;
    From *made = gradient + row * width;
    const Row parts(elements, width);
    const Pack *packs = (const Pack *)(elements + parts.head);
    Pack *to = (Pack *)(made + parts.head);
    const unsigned begin = blockIdx.y * share, end = min(parts.packs, begin + share);
    const bool single = blockIdx.y == 0 && threadIdx.x < parts.singles;      // has this thread a single element?
    const unsigned own = single ? parts.index_of(threadIdx.x) : 0;
    if (t == ignored) {                                     // all blocks of the cluster leave
        if (single) made[own] = From(0);
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
                add(sums, pack[a].at);
            }
    }
    if (single) add(sums, elements[own]);
    sums = block_join(sums);
    if (CLUSTER > 1) {
        if (threadIdx.x == 0) shared_sums = sums;
        cluster_sync();
        const int other = threadIdx.x % CLUSTER;
        sums = warp_join({of_block(&shared_sums.shift, other), of_block(&shared_sums.sum, other)}, CLUSTER);
        cluster_arrive();                                   // others have been read; wait below until one has been, too
    }
    const Sum factor = *scale;
    const unsigned hit = parts.pack_of(t);
    for (unsigned i = begin + threadIdx.x; i < end; i += THREADS) {
        store(to + i, gradient_of(kept[i - begin], sums, factor));
        if (i != hit) continue;                             // the target's logit is this thread's
        const From old = ((const From *)kept)[t - parts.head - begin * V];
        made[t] = gradient_of(old, sums, factor, true);
        loss[row] = loss_of((Sum)old, sums);
    }
    if (single) {
        const From old = elements[own];
        made[own] = gradient_of(old, sums, factor, own == t);
        if (own == t) loss[row] = loss_of((Sum)old, sums);
    }
    if (CLUSTER > 1) cluster_wait();
}
