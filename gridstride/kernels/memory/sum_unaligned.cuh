
// Like `sum_rows`, with one block per row, for rows that are not 16-byte aligned: the elements before the first and
// after the last aligned vector of 16 bytes are loaded one by one.
__global__ void __launch_bounds__(THREADS, THREADS == 1024 ? 2 : 1)
sum_unaligned_rows(const Elem *x, Out *out, long long width) {
    const Elem *elements = x + blockIdx.x * width;
    const long long head = min(width, (long long)(-(size_t)elements % 16 / sizeof(Elem)));
    const Vector *vectors = (const Vector *)(elements + head);
    const long long count = (width - head) / V, stride = THREADS;
    Sum sum[CHAINS] = {};
    long long i = threadIdx.x;
    #pragma unroll 1
    for (; i + (IN_FLIGHT - 1) * stride < count; i += IN_FLIGHT * stride) {
        Vector vector[IN_FLIGHT];
        #pragma unroll
        for (int a = 0; a < IN_FLIGHT; a++) vector[a] = vectors[i + a * stride];
        #pragma unroll
        for (int a = 0; a < IN_FLIGHT; a++)
            #pragma unroll
            for (int v = 0; v < V; v++) sum[v % CHAINS] += (Sum)vector[a].data[v];
    }
    for (int a = 0; a < IN_FLIGHT; a++)
        if (i + a * stride < count)
            for (int v = 0; v < V; v++) sum[v % CHAINS] += (Sum)vectors[i + a * stride].data[v];
    const int first = threadIdx.x;                          // fewer than 2 * V elements remain
    if (first < width - count * V) sum[0] += (Sum)elements[first < head ? first : first + count * V];
    for (int c = 1; c < CHAINS; c++) sum[0] += sum[c];
    Sum total = block_sum(sum[0]);
    if (threadIdx.x == 0) out[blockIdx.x] = Out(total);
}
