
// Computes loss and gradient in a single pass: the CLUSTER blocks of a cluster keep a row in shared memory, so that the
// logits are read once, and the gradient, which may overwrite them, is written once. It is the gradient of `scale`
// times the sum of all losses.
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
loss_and_gradient(const Elem *x, const long long *target, const Acc *scale, Acc *loss, Elem *gradient,
                  unsigned width, unsigned block_vectors, long long ignore_index) {
    extern __shared__ __align__(16) char smem[];
    __shared__ LogSumExp shared_sums;
    Vector *logits = (Vector *)smem;  // each thread reads only the elements that it has written
    const size_t row = blockIdx.x;
    const long long t = target[row];
    const Elem *elements = x + row * width;
    Elem *row_gradient = gradient + row * width;
    const RowAlignment alignment(elements, width);
    const Vector *vectors = (const Vector *)(elements + alignment.peeled_head);
    Vector *gradient_vectors = (Vector *)(row_gradient + alignment.peeled_head);
    const unsigned begin = blockIdx.y * block_vectors, end = min(alignment.vectors, begin + block_vectors);
    const bool has_peeled = blockIdx.y == 0 && threadIdx.x < alignment.peeled;  // this thread loads a peeled element
    const unsigned peeled_index = has_peeled ? alignment.index_of_peeled(threadIdx.x) : 0;
    if (t == ignore_index) {  // all blocks of the cluster return here
        if (has_peeled) row_gradient[peeled_index] = Elem(0);
        for (unsigned i = begin + threadIdx.x; i < end; i += THREADS) store(gradient_vectors + i, Vector{});
        if (blockIdx.y == 0 && threadIdx.x == 0) loss[row] = 0;
        return;
    }
    LogSumExp sums = {LOWEST, 0};
    for (unsigned i = begin + threadIdx.x; i < end; i += LOADS_IN_FLIGHT * THREADS) {
        Vector vector[LOADS_IN_FLIGHT];
        #pragma unroll
        for (int a = 0; a < LOADS_IN_FLIGHT; a++)  // issue all loads before the first use
            if (i + a * THREADS < end) vector[a] = load(vectors + i + a * THREADS);
        #pragma unroll
        for (int a = 0; a < LOADS_IN_FLIGHT; a++)
            if (i + a * THREADS < end) {
                logits[i + a * THREADS - begin] = vector[a];
                add(sums, vector[a].data);
            }
    }
    if (has_peeled) add(sums, elements[peeled_index]);
    sums = block_merge(sums);
    if (CLUSTER > 1) {
        if (threadIdx.x == 0) shared_sums = sums;
        cluster_sync();
        const int other = threadIdx.x % CLUSTER;
        const Acc shift = load_from_block(&shared_sums.shift, other), sum = load_from_block(&shared_sums.sum, other);
        sums = warp_merge({shift, sum}, CLUSTER);
        cluster_arrive();  // this block has read the others; cluster_wait below waits until they have read this one
    }
    const Acc factor = *scale;
    const unsigned target_vector = alignment.vector_of(t);
    for (unsigned i = begin + threadIdx.x; i < end; i += THREADS) {
        store(gradient_vectors + i, gradient_of(logits[i - begin], sums, factor));
        if (i != target_vector) continue;  // this thread has the logit of the target class
        const Elem target_logit = ((const Elem *)logits)[t - alignment.peeled_head - begin * VEC];
        row_gradient[t] = gradient_of(target_logit, sums, factor, true);
        loss[row] = loss_of((Acc)target_logit, sums);
    }
    if (has_peeled) {
        const Elem logit = elements[peeled_index];
        row_gradient[peeled_index] = gradient_of(logit, sums, factor, peeled_index == t);
        if (peeled_index == t) loss[row] = loss_of((Acc)logit, sums);
    }
    if (CLUSTER > 1) cluster_wait();
}
