// Softmax, or its gradient, of a row whose vectors are in shared memory: those of a thread are THREADS apart from `xs`
// on, and from `dys` on if there are two inputs. Calls store_vector(p, outputs) per vector.
template <class Store>
__device__ __forceinline__ void compute_row(const Vector *xs, const Vector *dys, int thread_vectors,
                                            Store store_vector) {
    RowState total = {NEG_INF, 0};
    #pragma unroll 4
    for (int p = 0; p < thread_vectors; p++) {
        Vector vector = xs[p * THREADS];
        #pragma unroll
        for (int v = 0; v < VEC; v++) total.row_max = max(total.row_max, max_candidate(Acc(vector.data[v])));
    }
    const Acc base = finite_max(total.row_max);
    #pragma unroll 4
    for (int p = 0; p < thread_vectors; p++) {
        Vector vector = xs[p * THREADS], other = dys[p * THREADS];
        #pragma unroll
        for (int v = 0; v < VEC; v++) total.row_sum += term(Acc(vector.data[v]), Acc(other.data[v]), base);
    }
    total = finalize(ROW_THREADS <= 32 ? merge_lanes<ROW_THREADS < 32 ? ROW_THREADS : 32>(total) : merge_row(total));
    #pragma unroll 4
    for (int p = 0; p < thread_vectors; p++) {
        Vector vector = xs[p * THREADS], other = dys[p * THREADS], outputs;
        #pragma unroll
        for (int v = 0; v < VEC; v++) outputs.data[v] = Elem(result(Acc(vector.data[v]), Acc(other.data[v]), total));
        store_vector(p, outputs);
    }
}
