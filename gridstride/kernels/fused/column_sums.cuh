// Sums the columns of `partials` (partial_rows x columns). The first `width` sums are written to `out`, the others to
// `out2`. Requires definitions of the types Elem and Acc, WARPS (per block; each sums some of the rows), and PDL:
// programmatic dependent launch, so this kernel waits until the previous one has finished.
__global__ void __launch_bounds__(32 * WARPS)
add_columns(const Acc *partials, Elem *out, Elem *out2, int partial_rows, int width, int columns) {
    __shared__ Acc warp_sums[WARPS][32];
    if (PDL) asm volatile("griddepcontrol.wait;" ::: "memory");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    Acc sum = 0;
    if (column < columns)
        #pragma unroll 4
        for (int i = warp; i < partial_rows; i += WARPS) sum += partials[(long long)i * columns + column];
    warp_sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || column >= columns) return;
    for (int w = 1; w < WARPS; w++) sum += warp_sums[w][lane];
    if (column < width) out[column] = Elem(sum);
    else out2[column - width] = Elem(sum);
}
