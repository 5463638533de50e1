
// Sums rows that need not be aligned to vectors, ROW_THREADS lanes of a warp per row. Each thread issues all of its
// loads, up to VECS_PER_THREAD vectors, before it adds. With UNALIGNED, the elements before the first and after the
// last aligned vector of a row are loaded one by one.
__global__ void __launch_bounds__(THREADS)
sum_short_rows(const Elem *x, Out *out, long long rows, int width) {
    const int lane = threadIdx.x % ROW_THREADS;
    const long long row = (long long)blockIdx.x * (THREADS / ROW_THREADS) + threadIdx.x / ROW_THREADS;
    const Elem *elements = x + row * width;
    const int row_width = row < rows ? width : 0;
    const int head = UNALIGNED ? min(row_width, (int)(-(size_t)elements % sizeof(Vector) / sizeof(Elem))) : 0;
    const int count = (row_width - head) / V;
    const Vector *vectors = (const Vector *)(elements + head);
    Vector vector[VECS_PER_THREAD];
    Sum sum[CHAINS] = {};
    #pragma unroll
    for (int a = 0; a < VECS_PER_THREAD; a++)
        if (lane + a * ROW_THREADS < count) vector[a] = vectors[lane + a * ROW_THREADS];
    for (int i = lane; UNALIGNED && i < row_width - count * V; i += ROW_THREADS)
        sum[0] += (Sum)elements[i < head ? i : i + count * V];
    #pragma unroll
    for (int a = 0; a < VECS_PER_THREAD; a++)
        if (lane + a * ROW_THREADS < count)
            #pragma unroll
            for (int v = 0; v < V; v++) sum[v % CHAINS] += (Sum)vector[a].data[v];
    for (int c = 1; c < CHAINS; c++) sum[0] += sum[c];
    #pragma unroll
    for (int d = ROW_THREADS / 2; d > 0; d /= 2) sum[0] += __shfl_down_sync(~0u, sum[0], d, ROW_THREADS);
    if (lane == 0 && row < rows) out[row] = Out(sum[0]);
}
