// Computes y = x @ w.T (+ bias) for a w with 2:4 sparsity along k, with too few tiles for all SMs: the CK blocks of a
// cluster split the columns of a tile of w (split-K), and add their partial sums. `values`, `metadata`, x and y are
// those of two_four.cuh. A stage has 128 elements along k, of which w stores 64, and their metadata. Requires
// definitions of BM and BN (rows of w and of x per block), WGS (consumer warpgroups, of 64 rows of w each), STAGES, CK,
// the constants of `store_split_k.cuh`, and wgmma_sp.
constexpr int A_BYTES = BM * 128, HALF_B_BYTES = BN * 128, B_BYTES = 2 * HALF_B_BYTES, METADATA_BYTES = BM * 16;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES + METADATA_BYTES;

// Issues d (+)= the product of a stage.
__device__ void multiply(float (&d)[1][BN / 2], u64 a, u64 b, uint2 metadata, bool accumulate) {
    fence_accumulators(d);
    wgmma_fence();
    wgmma_sp<0>(d[0], a, b, metadata.x, accumulate);
    wgmma_sp<1>(d[0], a + 32 / 16, b + 64 / 16, metadata.x, 1);
    wgmma_sp<0>(d[0], a + 64 / 16, b + HALF_B_BYTES / 16, metadata.y, 1);
    wgmma_sp<1>(d[0], a + 96 / 16, b + (HALF_B_BYTES + 64) / 16, metadata.y, 1);
    wgmma_commit();
}

// Keeps the metadata in its registers until the product is complete: see two_four.cuh.
__device__ void keep_alive(u32 metadata) {
    asm volatile("{ .reg .pred none; setp.eq.b32 none, %0, 0;\n@none nanosleep.u32 %0; }" :: "r"(metadata) : "memory");
}

__global__ void __cluster_dims__(CK) __launch_bounds__(128 * (WGS + 1), 1)
multiply_24_split(const __grid_constant__ TensorMap values, const __grid_constant__ TensorMap x, Elem *y,
                  const uint2 *metadata, const Elem *bias, int rows, int n, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 barriers[2 * STAGES];
    const u32 a = address(shared), b = a + STAGES * A_BYTES, metadata_stages = b + STAGES * B_BYTES;
    const u32 full = address(barriers), empty = full + 8 * STAGES;
    const int steps = (k + 127) / 128, row_blocks = (rows + BM - 1) / BM, row_tiles = (rows + 63) / 64;
    const int k_part = rank(), tile = blockIdx.x / CK;
    const int first_row = tile % row_blocks * BM, first_n = tile / row_blocks * BN;
    const int begin = k_part * steps / CK, end = (k_part + 1) * steps / CK;
    const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8 * s, 1); barrier_init(empty + 8 * s, WGS); }
        fence_mbarrier_init();
    }
    if constexpr (CK > 1) cluster_sync(); else __syncthreads();
    int s = 0, phase = 0;
    if (wg == WGS) {                                        // producer
        setmaxnreg_dec<40>();
        if (threadIdx.x == 128 * WGS)
            for (int step = begin; step < end; step++) {
                const u32 bar = full + 8 * s;
                barrier_wait(empty + 8 * s, phase - 1);
                barrier_expect(bar, STAGE_BYTES);
                tma_load(a + s * A_BYTES, values, first_row, step * 64, bar);
                for (int i = 0; i < BM / 64; i++) {
                    const int row_tile = min(first_row / 64 + i, row_tiles - 1);
                    bulk_copy(metadata_stages + s * METADATA_BYTES + i * 1024,
                              metadata + ((size_t)row_tile * steps + step) * 128, 1024, bar);
                }
                tma_load(b + s * B_BYTES, x, first_n, step * 128, bar);
                tma_load(b + s * B_BYTES + HALF_B_BYTES, x, first_n, step * 128 + 64, bar);
                if (++s == STAGES) { s = 0; phase++; }
            }
    } else {                                                // consumers
        setmaxnreg_inc<232>();
        const u64 da = descriptor(a + wg * 64 * 128, 16), db = descriptor(b, 16);
        const int t = threadIdx.x % 128, lane = t % 32, warp = t / 32;
        float d[1][BN / 2] = {};
        uint2 e[2] = {};
        int prev_stage = -1;
        for (int step = begin; step < end; step += 2)
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                if (step + i == end) break;
                barrier_wait(full + 8 * s, phase);
                e[i] = *(const uint2 *)(shared + STAGES * (A_BYTES + B_BYTES) + s * METADATA_BYTES + wg * 1024 + t * 8);
                multiply(d, da + s * (A_BYTES / 16), db + s * (B_BYTES / 16), e[i], step + i > begin);
                wgmma_wait<1>();                            // the previous product is complete: its stage is free
                keep_alive(e[1 - i].x), keep_alive(e[1 - i].y);
                if (prev_stage >= 0 && t == 0) barrier_arrive(empty + 8 * prev_stage);
                prev_stage = s;
                if (++s == STAGES) { s = 0; phase++; }
            }
        wgmma_wait<0>();
        keep_alive(e[0].x), keep_alive(e[0].y), keep_alive(e[1].x), keep_alive(e[1].y);
        fence_accumulators(d);
        asm volatile("bar.sync 1, %0;" :: "n"(128 * WGS) : "memory");      // the stages are reused for the partial sums
        float *fragment = (float *)shared + wg * 64 + warp * 16 + lane / 4;
        #pragma unroll
        for (int i = 0; i < BN / 2; i++)
            fragment[(i / 4 * 8 + lane % 4 * 2 + i % 2) * PITCH + i / 2 % 2 * 8] = d[0][i];
        asm volatile("bar.sync 1, %0;" :: "n"(128 * WGS) : "memory");
    }
    if constexpr (CK > 1) cluster_sync();
    const auto no_scale = [](int) { return 1.f; };
    if (wg < WGS) store_split_k<1>((const float *)shared, no_scale, bias, y, n, rows, first_row, first_n, k_part);
    if constexpr (CK > 1) cluster_sync();                   // other blocks may still read this block's partial sums
}
