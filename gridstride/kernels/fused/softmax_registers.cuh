// Softmax of rows that are read once: ROW_THREADS threads of each of CLUSTER blocks keep a row in registers, up to
// VECS_PER_THREAD vectors per thread (exactly as many in a cluster). Exponentials are computed once, relative to the
// maximum of the thread, and rescaled when the maximum and the sum of the row are known. Requires definitions of
// ROW_THREADS, VECS_PER_THREAD, BLOCKS_PER_SM.
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
softmax_on_chip(const Elem *x, const Elem *, Elem *out, long long rows, int width) {
    arrive_at_cluster_barrier();
    const int row_vectors = width / VEC;
    const int first = block_rank_in_row() * ROW_THREADS * VECS_PER_THREAD + threadIdx.x % ROW_THREADS;
    const long long row = blockIdx.x / CLUSTER * (long long)(THREADS / ROW_THREADS) + threadIdx.x / ROW_THREADS;
    // from the thread's first vector on
    const int vectors_to_row_end = CLUSTER > 1 ? ROW_THREADS * VECS_PER_THREAD : row < rows ? row_vectors - first : 0;
    const Vector *src = (const Vector *)x + row * row_vectors + first;
    Vector *dst = (Vector *)out + row * row_vectors + first, inputs[VECS_PER_THREAD];
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++)
        if (k * ROW_THREADS < vectors_to_row_end) inputs[k] = src[k * ROW_THREADS];

    Acc terms[VECS_PER_THREAD][VEC];
    RowState total = {NEG_INF, 0};
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++)
        #pragma unroll
        for (int v = 0; v < VEC; v++) {
            terms[k][v] = k * ROW_THREADS < vectors_to_row_end ? Acc(inputs[k].data[v]) : NEG_INF;
            total.row_max = max(total.row_max, terms[k][v]);
        }
    const Acc base = finite_max(total.row_max);
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++)
        #pragma unroll
        for (int v = 0; v < VEC; v++) {
            const Acc e = exp_of(terms[k][v] - base);
            total.row_sum += e;
            if (!LOG) terms[k][v] = e;
        }
    constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32;
    total = finalize(CLUSTER == 1 && ROW_THREADS <= 32 ? merge_lanes<LANES>(total) : merge_row(total));
    const Acc factor = exp_of(base - total.row_max) * total.row_sum;
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++) {
        Vector result;
        #pragma unroll
        for (int v = 0; v < VEC; v++)
            result.data[v] = Elem(LOG ? terms[k][v] - total.row_max - total.row_sum : terms[k][v] * factor);
        if (k * ROW_THREADS < vectors_to_row_end) store(dst + k * ROW_THREADS, result);
    }
}
