// The gradient of softmax of short rows, which are read once: ROW_THREADS threads of a block keep a row of both inputs
// in registers, up to VECS_PER_THREAD vectors of each per thread. Defined above: ROW_THREADS, VECS_PER_THREAD.
__global__ void __launch_bounds__(THREADS)
softmax_on_chip(const Elem *y, const Elem *dy, Elem *out, long long rows, int width) {
    const int count = width / VEC, first = threadIdx.x % ROW_THREADS;
    const long long row = blockIdx.x * (long long)(THREADS / ROW_THREADS) + threadIdx.x / ROW_THREADS;
    const int row_vectors = row < rows ? count - first : 0;     // from the thread's first vector to the end of the row
    const Vector *ys = (const Vector *)y + row * count + first, *dys = (const Vector *)dy + row * count + first;
    Vector *to = (Vector *)out + row * count + first, inputs[VECS_PER_THREAD], grads[VECS_PER_THREAD];
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++)
        if (k * ROW_THREADS < row_vectors) {
            inputs[k] = ys[k * ROW_THREADS];
            grads[k] = dys[k * ROW_THREADS];
        }
    RowState total = {0, 0};
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++)
        #pragma unroll
        for (int v = 0; v < VEC; v++)
            if (k * ROW_THREADS < row_vectors) total.row_sum += term(Acc(inputs[k].at[v]), Acc(grads[k].at[v]), 0);
    constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32;
    total = ROW_THREADS <= 32 ? merge_lanes<LANES>(total) : merge_row(total);
    #pragma unroll
    for (int k = 0; k < VECS_PER_THREAD; k++) {
        Vector outputs;
        #pragma unroll
        for (int v = 0; v < VEC; v++) outputs.at[v] = Elem(result(Acc(inputs[k].at[v]), Acc(grads[k].at[v]), total));
        if (k * ROW_THREADS < row_vectors) store(to + k * ROW_THREADS, outputs);
    }
}
