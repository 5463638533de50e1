// Softmax of rows that are read once, but are too long for registers or have two inputs: ROW_THREADS threads of each of
// CLUSTER blocks keep a row in shared memory, `vectors` vectors per thread, until its maximum and sum are known. A
// thread reads only what it has copied itself, so no barrier is needed. Defined above: ROW_THREADS, and ASYNC: use
// asynchronous copies (cp.async), all in flight at once.
__device__ void copy(Vector *to, const Vector *from) {
    if constexpr (ASYNC && sizeof(Vector) >= 4) copy_async<sizeof(Vector)>(to, from, true);
    else *to = *from;
}

__global__ void __launch_bounds__(THREADS)
softmax_on_chip(const Elem *x, const Elem *dy, Elem *out, long long rows, int width, int vectors) {
    extern __shared__ __align__(16) char smem[];
    signal_started();
    const int count = width / VEC, first = block_of_row() * ROW_THREADS * vectors + threadIdx.x % ROW_THREADS;
    const long long row = blockIdx.x / CLUSTER * (long long)(THREADS / ROW_THREADS) + threadIdx.x / ROW_THREADS;
    const int row_vectors = row < rows ? min(vectors, (count - first + ROW_THREADS - 1) / ROW_THREADS) : 0;
    Vector *xs = (Vector *)smem + threadIdx.x, *dys = INPUTS == 2 ? xs + vectors * THREADS : xs;
    for (int p = 0; p < row_vectors; p++) {
        copy(xs + p * THREADS, (const Vector *)x + row * count + first + p * ROW_THREADS);
        if (INPUTS == 2) copy(dys + p * THREADS, (const Vector *)dy + row * count + first + p * ROW_THREADS);
    }
    if constexpr (ASYNC) copies_wait_all();

    compute_row(xs, dys, row_vectors, [&](int p, const Vector &outputs) {
        store((Vector *)out + row * count + first + p * ROW_THREADS, outputs);
    });
}
