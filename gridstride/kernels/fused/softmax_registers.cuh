// Softmax of rows that are read once: ROW_THREADS threads of each of CLUSTER blocks keep a row in registers, up to
// VECS_PER_THREAD vectors per thread (exactly as many in a cluster). Exponentials are computed once, relative to the
// maximum of the thread, and rescaled when the maximum and the sum of the row are known. Defined above: ROW_THREADS,
// VECS_PER_THREAD, BLOCKS_PER_SM.
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
softmax_on_chip(const Elem *x, const Elem *, Elem *out, long long rows, int width) {
    signal_started();
    const int count = width / VEC, first = block_of_row() * ROW_THREADS * VECS_PER_THREAD + threadIdx.x % ROW_THREADS;
    const long long row = blockIdx.x / CLUSTER * (long long)(THREADS / ROW_THREADS) + threadIdx.x / ROW_THREADS;
    // number of vectors from the thread's first one to the end of the row
    const int row_vectors = CLUSTER > 1 ? ROW_THREADS * VECS_PER_THREAD : row < rows ? count - first : 0;
    const Vector *from = (const Vector *)x + row * count + first;
    Vector *to = (Vector *)out + row * count + first, inputs[VECS_PER_THREAD];
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++)
        if (k * ROW_THREADS < row_vectors) inputs[k] = from[k * ROW_THREADS];

    Acc terms[VECS_PER_THREAD][VEC];
    RowState total = {NEG_INF, 0};
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++)
        #pragma unroll
        for (int v = 0; v < VEC; v++) {
            terms[k][v] = k * ROW_THREADS < row_vectors ? Acc(inputs[k].at[v]) : NEG_INF;
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
            result.at[v] = Elem(LOG ? terms[k][v] - total.row_max - total.row_sum : terms[k][v] * factor);
        if (k * ROW_THREADS < row_vectors) store(to + k * ROW_THREADS, result);
    }
}
