// Computes prefix sums along rows of at most WARP_TILE elements, a warp per row. Defined in `scan.cuh`, whose text
// precedes this one: V, which divides `width`, LINES and WARPS (rows per block).
__global__ void __launch_bounds__(THREADS, 1)
scan_short_rows(const Elem *x, Elem *out, long long rows, int width) {
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows) return;                                // all lanes of a warp
    const Elem *from = x + row * width;
    Elem *to = out + row * width;
    Sum in_pack[LINES][V], before = 0;                      // prefix sums within a pack; sum of the lines before
    #pragma unroll
    for (int l = 0; l < LINES; l++) {
        Pack pack;
        const int i = l * LINE + lane * V;
        if (i < width) pack = *(const Pack *)(from + i);
        for (int v = 0; v < V; v++) in_pack[l][v] = i < width ? (Sum)pack.at[v] : Sum(0);
    }
    #pragma unroll
    for (int l = 0; l < LINES; l++) {
        for (int v = 1; v < V; v++) in_pack[l][v] += in_pack[l][v-1];
        const Sum inclusive = warp_scan(in_pack[l][V-1]), exclusive = before + previous_lane(inclusive);
        const int i = l * LINE + lane * V;
        Pack pack;
        for (int v = 0; v < V; v++) pack.at[v] = Elem(exclusive + in_pack[l][v]);
        if (i < width) store((Pack *)(to + i), pack);
        before += __shfl_sync(~0u, inclusive, 31);
    }
}
