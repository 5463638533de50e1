// Softmax of rows that are read once, but are too long for registers or have two inputs: ROW_THREADS threads of each of
// CLUSTER blocks keep a row in shared memory, `vectors_per_thread` vectors per thread, until its maximum and sum are
// known. A thread reads only what it has copied itself, so no barrier is needed. Requires definitions of ROW_THREADS,
// and ASYNC: use asynchronous copies (cp.async), all in flight at once.
__device__ void copy(Vector *dst, const Vector *src) {
    if constexpr (ASYNC && sizeof(Vector) >= 4) copy_async<sizeof(Vector)>(dst, src, true);
    else *dst = *src;
}

__global__ void __launch_bounds__(THREADS)
softmax_on_chip(const Elem *x, const Elem *dy, Elem *out, long long rows, int width, int vectors_per_thread) {
    extern __shared__ __align__(16) char smem[];
    arrive_at_cluster_barrier();
    const int row_vectors = width / VEC;
    const int first = block_rank_in_row() * ROW_THREADS * vectors_per_thread + threadIdx.x % ROW_THREADS;
    const long long row = blockIdx.x / CLUSTER * (long long)(THREADS / ROW_THREADS) + threadIdx.x / ROW_THREADS;
    const int thread_vectors =
        row < rows ? min(vectors_per_thread, (row_vectors - first + ROW_THREADS - 1) / ROW_THREADS) : 0;
    Vector *xs = (Vector *)smem + threadIdx.x, *dys = INPUTS == 2 ? xs + vectors_per_thread * THREADS : xs;
    for (int p = 0; p < thread_vectors; p++) {
        copy(xs + p * THREADS, (const Vector *)x + row * row_vectors + first + p * ROW_THREADS);
        if (INPUTS == 2) copy(dys + p * THREADS, (const Vector *)dy + row * row_vectors + first + p * ROW_THREADS);
    }
    if constexpr (ASYNC) copies_wait_all();

    compute_row(xs, dys, thread_vectors, [&](int p, const Vector &outputs) {
        store((Vector *)out + row * row_vectors + first + p * ROW_THREADS, outputs);
    });
}
