// Computes prefix sums along rows of at most WARP_TILE elements, a warp per row. Requires scan.cuh before it, and its
// V, which divides `width`, VECS_PER_THREAD and WARPS (rows per block).
__global__ void __launch_bounds__(THREADS, 1)
scan_short_rows(const Elem *x, Elem *out, long long rows, int width) {
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows) return;                                // all lanes of a warp
    const Elem *src = x + row * width;
    Elem *dst = out + row * width;
    Sum in_vector[VECS_PER_THREAD][V], prefix = 0;          // prefix sums in a vector; the sum of the loads before
    #pragma unroll
    for (int l = 0; l < VECS_PER_THREAD; l++) {
        Vector vector;
        const int i = l * WARP_LOAD + lane * V;
        if (i < width) vector = *(const Vector *)(src + i);
        for (int v = 0; v < V; v++) in_vector[l][v] = i < width ? (Sum)vector.data[v] : Sum(0);
    }
    #pragma unroll
    for (int l = 0; l < VECS_PER_THREAD; l++) {
        for (int v = 1; v < V; v++) in_vector[l][v] += in_vector[l][v-1];
        const Sum inclusive = warp_scan(in_vector[l][V-1]), exclusive = prefix + previous_lane(inclusive);
        const int i = l * WARP_LOAD + lane * V;
        Vector vector;
        for (int v = 0; v < V; v++) vector.data[v] = Elem(exclusive + in_vector[l][v]);
        if (i < width) store((Vector *)(dst + i), vector);
        prefix += __shfl_sync(~0u, inclusive, 31);
    }
}
