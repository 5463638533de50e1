// Softmax of rows that are too long for a cluster: `blocks` blocks per row read `split_vectors` vectors each and write
// a RowState. A second launch merges these states and reads the row again.
__global__ void __launch_bounds__(THREADS)
reduce_splits(const Elem *x, const Elem *dy, RowState *states, long long width, long long split_vectors, int blocks) {
    const long long row = blockIdx.x / blocks, split = blockIdx.x % blocks;
    const long long end = min(width / VEC, (split + 1) * split_vectors);
    const Vector *xs = (const Vector *)(x + row * width), *dys = (const Vector *)(dy + row * width);
    RowState total = {NEG_INF, 0};
    for (long long i = split * split_vectors + threadIdx.x; i < end; i += THREADS) {
        Vector a = xs[i], b = INPUTS == 2 ? dys[i] : a;
        RowState local = {NEG_INF, 0};
        #pragma unroll
        for (int v = 0; v < VEC; v++) local.row_max = max(local.row_max, max_candidate(Acc(a.data[v])));
        #pragma unroll
        for (int v = 0; v < VEC; v++) local.row_sum += term(Acc(a.data[v]), Acc(b.data[v]), finite_max(local.row_max));
        total = merge(total, local);
    }
    total = merge_row(total);
    if (threadIdx.x == 0) states[blockIdx.x] = total;
}

__global__ void __launch_bounds__(THREADS)
normalize_rows(const Elem *x, const Elem *dy, const RowState *states, Elem *out, long long width,
               long long split_vectors, int blocks) {
    const long long row = blockIdx.x / blocks, split = blockIdx.x % blocks;
    const long long end = min(width / VEC, (split + 1) * split_vectors);
    const Vector *xs = (const Vector *)(x + row * width), *dys = (const Vector *)(dy + row * width);
    Vector *outs = (Vector *)(out + row * width);
    RowState total = {NEG_INF, 0};
    for (int i = threadIdx.x; i < blocks; i += THREADS) total = merge(total, states[row * blocks + i]);
    total = finalize(merge_row(total));
    for (long long i = split * split_vectors + threadIdx.x; i < end; i += THREADS) {
        Vector a = xs[i], b = INPUTS == 2 ? dys[i] : a, y;
        #pragma unroll
        for (int v = 0; v < VEC; v++) y.data[v] = Elem(result(Acc(a.data[v]), Acc(b.data[v]), total));
        store(outs + i, y);
    }
}
