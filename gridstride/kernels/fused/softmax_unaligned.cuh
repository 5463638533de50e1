// Like softmax_shared.cuh, for rows whose first element need not be aligned to a vector. A row is covered by aligned
// vectors: `offset` elements of the first one, and some of the last one, belong to the neighbouring rows. They are
// neither loaded nor stored, and do not change the maximum or the sum. A row has the same offset in x, dy and out;
// different rows may have different offsets.
__device__ bool is_inside_row(int i, int offset, int width) {
    return i * VEC >= offset && (i + 1) * VEC <= offset + width;
}

// Copies vector i of a row, whose first element is row[0], to shared memory, with `padding` for elements of other rows.
__device__ void copy(Vector *dst, const Elem *row, int i, int offset, int width, Acc padding) {
    const Elem *src = row + i * VEC - offset;
    if (is_inside_row(i, offset, width)) {
        if constexpr (ASYNC) copy_async<sizeof(Vector)>(dst, src, true);
        else *dst = *(const Vector *)src;
        return;
    }
    for (int v = 0; v < VEC; v++) {
        const int element = i * VEC + v - offset;
        dst->data[v] = element >= 0 && element < width ? row[element] : Elem(padding);
    }
}

__device__ void store(Elem *row, int i, int offset, int width, const Vector &vector) {
    if (is_inside_row(i, offset, width)) return store((Vector *)(row + i * VEC - offset), vector);
    #pragma unroll
    for (int v = 0; v < VEC; v++) {
        const int element = i * VEC + v - offset;
        if (element >= 0 && element < width) row[element] = vector.data[v];
    }
}

__global__ void __launch_bounds__(THREADS)
softmax_on_chip(const Elem *x, const Elem *dy, Elem *out, long long rows, int width, int vectors_per_thread) {
    extern __shared__ __align__(16) char smem[];
    arrive_at_cluster_barrier();
    const long long row = blockIdx.x / CLUSTER * (long long)(THREADS / ROW_THREADS) + threadIdx.x / ROW_THREADS;
    x += row * width, dy += row * width, out += row * width;
    const int offset = (size_t)x % sizeof(Vector) / sizeof(Elem), row_vectors = (offset + width + VEC - 1) / VEC;
    const int first = block_rank_in_row() * ROW_THREADS * vectors_per_thread + threadIdx.x % ROW_THREADS;
    const int thread_vectors =
        row < rows ? min(vectors_per_thread, (row_vectors - first + ROW_THREADS - 1) / ROW_THREADS) : 0;
    Vector *xs = (Vector *)smem + threadIdx.x, *dys = INPUTS == 2 ? xs + vectors_per_thread * THREADS : xs;
    for (int p = 0; p < thread_vectors; p++) {
        copy(xs + p * THREADS, x, first + p * ROW_THREADS, offset, width, INPUTS == 2 ? Acc(0) : NEG_INF);
        if (INPUTS == 2) copy(dys + p * THREADS, dy, first + p * ROW_THREADS, offset, width, 0);
    }
    if constexpr (ASYNC) copies_wait_all();

    compute_row(xs, dys, thread_vectors, [&](int p, const Vector &outputs) {
        store(out, first + p * ROW_THREADS, offset, width, outputs);
    });
}
