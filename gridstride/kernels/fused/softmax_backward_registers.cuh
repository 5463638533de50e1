// The gradient of softmax of short rows, which are read once: ROW_THREADS threads of a block keep a row of both inputs
// in registers, up to VECS_PER_THREAD vectors of each per thread. Requires definitions of ROW_THREADS, VECS_PER_THREAD.
__global__ void __launch_bounds__(THREADS)
softmax_on_chip(const Elem *y, const Elem *dy, Elem *out, long long rows, int width) {
    const int row_vectors = width / VEC, first = threadIdx.x % ROW_THREADS;
    const long long row = blockIdx.x * (long long)(THREADS / ROW_THREADS) + threadIdx.x / ROW_THREADS;
    // from the thread's first vector on
    const int vectors_to_row_end = row < rows ? row_vectors - first : 0;
    const Vector *ys = (const Vector *)y + row * row_vectors + first;
    const Vector *dys = (const Vector *)dy + row * row_vectors + first;
    Vector *dst = (Vector *)out + row * row_vectors + first, inputs[VECS_PER_THREAD], grads[VECS_PER_THREAD];
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++)
        if (k * ROW_THREADS < vectors_to_row_end) {
            inputs[k] = ys[k * ROW_THREADS];
            grads[k] = dys[k * ROW_THREADS];
        }
    RowState total = {0, 0};
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++)
        #pragma unroll
        for (int v = 0; v < VEC; v++)
            if (k * ROW_THREADS < vectors_to_row_end)
                total.row_sum += term(Acc(inputs[k].data[v]), Acc(grads[k].data[v]), 0);
    constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32;
    total = ROW_THREADS <= 32 ? merge_lanes<LANES>(total) : merge_row(total);
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++) {
        Vector outputs;
        #pragma unroll
        for (int v = 0; v < VEC; v++)
            outputs.data[v] = Elem(result(Acc(inputs[k].data[v]), Acc(grads[k].data[v]), total));
        if (k * ROW_THREADS < vectors_to_row_end) store(dst + k * ROW_THREADS, outputs);
    }
}
