// Sums the columns of `parts` (count x all). The first `width` sums are written to `out`, the others to `more`. Defined
// above: the types From and Sum, SLICES (warps, each for some of the rows), and SECOND: this is the second of two
// launches with programmatic dependent launch, so it waits for the first one.
__global__ void __launch_bounds__(32 * SLICES)
add_columns(const Sum *parts, From *out, From *more, int count, int width, int all) {
    __shared__ Sum of_warp[SLICES][32];
    if (SECOND) asm volatile("griddepcontrol.wait;" ::: "memory");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    Sum sum = 0;
    if (column < all)
        #pragma unroll 4
        for (int i = warp; i < count; i += SLICES) sum += parts[(long long)i * all + column];
    of_warp[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || column >= all) return;
    for (int w = 1; w < SLICES; w++) sum += of_warp[w][lane];
    if (column < width) out[column] = From(sum);
    else more[column - width] = From(sum);
}
