
// Loss and gradient in a single pass: a cluster of CLUSTER blocks holds a row in shared memory. So the logits are read
// once, and the gradient, which may overwrite them, is written once. It is the gradient of `scale` times the sum of all
// losses.
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
loss_and_gradient(const From *x, const long long *target, const Sum *scale, Sum *loss, From *gradient,
                  unsigned width, unsigned block_packs, long long ignored) {
    extern __shared__ __align__(16) char smem[];
    __shared__ Sums shared_sums;
    Pack *logits = (Pack *)smem;                              // a thread reads only what it has written
    const size_t row = blockIdx.x;
    const long long t = target[row];
    const From *elements = x + row * width;
    From *row_gradient = gradient + row * width;
    const Row parts(elements, width);
    const Pack *packs = (const Pack *)(elements + parts.head);
    Pack *to = (Pack *)(row_gradient + parts.head);
    const unsigned begin = blockIdx.y * block_packs, end = min(parts.packs, begin + block_packs);
    const bool single = blockIdx.y == 0 && threadIdx.x < parts.singles;      // this thread has a single element
    const unsigned own = single ? parts.index_of(threadIdx.x) : 0;
    if (t == ignored) {                                     // all blocks of the cluster return
        if (single) row_gradient[own] = From(0);
        for (unsigned i = begin + threadIdx.x; i < end; i += THREADS) store(to + i, Pack{});
        if (blockIdx.y == 0 && threadIdx.x == 0) loss[row] = 0;
        return;
    }
    Sums sums = {LOWEST, 0};
    for (unsigned i = begin + threadIdx.x; i < end; i += AHEAD * THREADS) {
        Pack pack[AHEAD];
        #pragma unroll
        for (int a = 0; a < AHEAD; a++)                     // issue all loads before the first use
            if (i + a * THREADS < end) pack[a] = load(packs + i + a * THREADS);
        #pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (i + a * THREADS < end) {
                logits[i + a * THREADS - begin] = pack[a];
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
        cluster_arrive();  // this block has read the others; cluster_wait below waits until they have read this one
    }
    const Sum factor = *scale;
    const unsigned target_pack = parts.pack_of(t);
    for (unsigned i = begin + threadIdx.x; i < end; i += THREADS) {
        store(to + i, gradient_of(logits[i - begin], sums, factor));
        if (i != target_pack) continue;                             // this thread has the logit of the target
        const From old = ((const From *)logits)[t - parts.head - begin * V];
        row_gradient[t] = gradient_of(old, sums, factor, true);
        loss[row] = loss_of((Sum)old, sums);
    }
    if (single) {
        const From old = elements[own];
        row_gradient[own] = gradient_of(old, sums, factor, own == t);
        if (own == t) loss[row] = loss_of((Sum)old, sums);
    }
    if (CLUSTER > 1) cluster_wait();
}
