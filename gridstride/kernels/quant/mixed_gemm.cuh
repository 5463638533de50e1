// Computes y = x @ w.T + bias for many rows of x and a quantized matrix w (dequantize.cuh), on a Hopper GPU: a
// mixed-input GEMM. wgmma reads its first operand, 64 rows of w per warpgroup, from registers, in which the elements
// are dequantized just before their use; w is stored in the order of these registers (fragments.py), except that lanes
// exchange words first. TMA loads the second operand, BN rows of x, to shared memory.
//
// A stage is 64 columns, half of a step of w, and four products. wgmma reads w from registers, so a warp waits at a
// product until the one before it has begun. With PER_PRODUCT, a product is dequantized while the two before it are
// computed, otherwise a stage while the one before it is computed: that is faster for small tiles, whose products take
// less time than their dequantization.
//
// Requires definitions of BN (rows of x per block), WGS (consumer warpgroups), CK (split-K: blocks of a cluster that
// split the columns), STAGES, PER_PRODUCT, BIAS, CONSUMER_REGISTERS (registers of a consumer thread), TMA_STORES
// (persistent blocks store y by TMA, while the next tile is loaded; needs CK = 1), OUT (rows of x per store), RASTER
// (tiles of x that blocks process at the same time), PDL (programmatic dependent launch, as in hopper_f16.py: every
// thread waits before its first access to global memory), and those of store_transposed.cuh and store_split_k.cuh.
constexpr int HALF_LOADS = LOADS / 2, HALF_SCALES = GROUP == 16 ? 4 : GROUP == 32 ? 2 : 1;
constexpr int X_BYTES = BN * 128, W_BYTES = 4 * WGS * 512 * HALF_LOADS;                     // per stage
constexpr int SCALE_BYTES = GROUP ? 4 * WGS * PAIRS_BYTES * HALF_SCALES : 0, ZERO_BYTES = ZEROS ? SCALE_BYTES : 0;
// One consumer warpgroup stores partial sums with all its registers, loads before stores; two are faster without that
constexpr bool STORES_AS_CONSUMER = CK > 1 && WGS == 1;
constexpr int AT_ONCE = !STORES_AS_CONSUMER ? 1 : CK > 4 ? 2 : 4;
constexpr int STAGE_BYTES = X_BYTES + (W_BYTES + SCALE_BYTES + ZERO_BYTES + 1023) / 1024 * 1024;

// In w, lane t of four has the columns 8t to 8t + 7 of each 32 columns, as four pairs. wgmma needs the pair t of each
// eight columns: pair t of lane c is that of columns 8c to 8c + 7. A pair of 8-bit elements of both rows is a word,
// which the thread loads; TMA has swizzled the words in lines of 128 bytes, so that there are no bank conflicts.
// `words` are those of 16 rows and 64 columns; `fragment` are the thread's words of each eight columns.
__device__ void load_words(const char *words, u32 (&fragment)[8]) {
    const int lane = threadIdx.x % 32, r = lane / 4, offset = r / 2 * 128 + (r % 2 * 4 ^ r / 2) * 16 + lane % 4 * 4;
    #pragma unroll
    for (int i = 0; i < 8; i++) fragment[i] = *(const u32 *)(words + i / 4 * 512 + (offset ^ i * 16));
}

// 4-bit elements are exchanged instead: four lanes transpose their pairs of both rows. First they exchange words, each
// of two pairs, with the lane t ^ 2, then half of each word with the lane t ^ 1.
__device__ void transpose_pairs(u32 &a, u32 &b) {
    constexpr bool IS_SPREAD = KIND != NF4;                 // a word's first pair: bytes 0 and 2; for NF4 bytes 0 and 1
    const bool upper_two = threadIdx.x & 2, odd = threadIdx.x & 1;
    const u32 word = __shfl_xor_sync(~0u, upper_two ? a : b, 2);
    (upper_two ? a : b) = word;
    const u32 exchanged = __byte_perm(a, b, odd ? IS_SPREAD ? 0x6240 : 0x5410 : IS_SPREAD ? 0x7351 : 0x7632);
    const u32 halves = __shfl_xor_sync(~0u, exchanged, 1);
    a = __byte_perm(a, halves, odd ? IS_SPREAD ? 0x3614 : 0x3254 : IS_SPREAD ? 0x6240 : 0x5410);
    b = __byte_perm(b, halves, odd ? IS_SPREAD ? 0x3715 : 0x3276 : IS_SPREAD ? 0x7250 : 0x7610);
}

__device__ void load_words(const char *words, u32 (&fragment)[4]) {
    const uint4 loaded = ((const uint4 *)words)[threadIdx.x % 32];
    fragment[0] = loaded.x, fragment[1] = loaded.y, fragment[2] = loaded.z, fragment[3] = loaded.w;
}

// Exchanges the words of product `i` and of the next one
__device__ void exchange_words(u32 (&)[8], int) {}
__device__ void exchange_words(u32 (&fragment)[4], int i) { transpose_pairs(fragment[i], fragment[i + 1]); }

__device__ void scale_both_rows(u32 (&a)[4], u32 pair) {
    const u32 scales[2] = {upper(pair), lower(pair)};
    #pragma unroll
    for (int i = 0; i < 4; i++) a[i] = mul2(a[i], scales[i % 2]);
}

// The words, scales and zero points that a thread loads per stage; a warp's tile has 16 rows and 64 columns
struct StageData { u32 words[BITS], scales[HALF_SCALES], zeros[HALF_SCALES]; };

// `words`, `scales` and `zeros` are in shared memory.
__device__ void load_stage(const char *words, const char *scales, const u32 *zeros, StageData &dst) {
    load_words(words, dst.words);
    #pragma unroll
    for (int i = 0; i < HALF_SCALES && GROUP > 0; i++) {
        dst.scales[i] = shared_scales(scales, i * 8 + threadIdx.x % 32 / 4);
        if constexpr (ZEROS) dst.zeros[i] = zeros[i * 8 + threadIdx.x % 32 / 4];
    }
}

// Dequantizes product `i` of the four of a stage of a warp's tile, whose words are exchanged. `row_offset`: the offset
// of the two rows, if all columns share the zero points.
__device__ void dequantize(const StageData &stage, int i, const u32 *codebook, const u32 (&row_offset)[2],
                           u32 (&a)[4]) {
    const int group = HALF_SCALES * i / 4;
    u32 offset[2] = {row_offset[0], row_offset[1]};
    if constexpr (GROUP > 0 && ZEROS) {
        offset[0] = add2(NO_ZERO_POINT, upper(stage.zeros[group]));
        offset[1] = add2(NO_ZERO_POINT, lower(stage.zeros[group]));
    }
    const u32 factors = GROUP ? decode_scales(stage.scales[group]) : 0;
    if constexpr (KIND == NVFP4) offset[0] = upper(factors), offset[1] = lower(factors);
    unpack(stage.words + i * (BITS / 4), codebook + threadIdx.x % 32, offset, a);
    if constexpr (GROUP > 0 && KIND != NVFP4) scale_both_rows(a, factors);
}

__device__ void prefetch(const TensorMap &x) { asm volatile("prefetch.tensormap [%0];" :: "l"(&x) : "memory"); }

// Loads 8 lines of 128 bytes per tile of 16 rows of w
__device__ void tma_load_lines(u32 dst, const TensorMap &w, int tile, int line, u32 bar) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(dst), "l"(&w), "r"(0), "r"(line), "r"(tile), "r"(bar) : "memory");
}

// Waits at the named barrier of the consumers; the first ones are those of the warpgroups
__device__ void consumers_sync() { asm volatile("bar.sync 7, %0;" :: "n"(128 * WGS) : "memory"); }

__device__ void wait_for_previous_grid() {
    if (PDL) asm volatile("griddepcontrol.wait;" ::: "memory");
}

__global__ void __cluster_dims__(CK) __launch_bounds__(128 * (WGS + 1), 1)
multiply_mixed(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
               const __grid_constant__ TensorMap scale_map, const __grid_constant__ TensorMap zero_map,
               const __grid_constant__ TensorMap y_map, const u32 *scales, const u32 *zeros, const Elem *bias, Elem *y,
               int batch, int rows, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 barriers[2 * STAGES];
    char *buffers = shared + STAGES * STAGE_BYTES;                  // of the TMA stores, two per warpgroup
    u32 *codebook = (u32 *)(buffers + TMA_STORES * WGS * OUT * 256);        // for NF4
    const u32 full = address(barriers), empty = full + 8 * STAGES;
    const int steps = (k + STEP - 1) / STEP, row_tiles = (rows + BM - 1) / BM, columns = (batch + BN - 1) / BN;
    const int tiles = row_tiles * columns;
    const int k_part = rank(), begin = k_part * steps / CK, end = (k_part + 1) * steps / CK;
    if (threadIdx.x == 128 * WGS) {
        prefetch(x), prefetch(w);
        if constexpr (GROUP > 0) prefetch(scale_map);
        if constexpr (TMA_STORES) prefetch(y_map);
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8 * s, 1); barrier_init(empty + 8 * s, WGS); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (PDL) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    const int lane = threadIdx.x % 32, r = lane / 4, t = lane % 4;
    // Blocks that run at the same time share up to RASTER column tiles, so that w is read from L2, not from DRAM.
    const auto tile_position = [&](int tile) {              // returns the indices of a tile along w and x
        const int group = tile / (row_tiles * RASTER), in_group = tile % (row_tiles * RASTER);
        const int width = min(RASTER, columns - group * RASTER);
        return make_int2(in_group / width, group * RASTER + in_group % width);
    };
    // Without TMA stores, a block has a single tile, because its accumulators overwrite the stages.
    const int2 block_tile = tile_position(blockIdx.x / CK);
    const int first_w = block_tile.x * BM, first_x = block_tile.y * BN;
    const auto row_scale = [&](int row) {                   // the scales of rows r and r + 8 of a tile are adjacent
        if (HAS_MATRIX_SCALE) return *(const float *)zeros * NVFP4_FACTOR;
        return GROUP == 0 ? (float)((const Elem *)scales)[row / 16 * 16 + row % 8 * 2 + row % 16 / 8] : 1;
    };
    const auto store_partial_sums = [&] {
        cluster_sync();
        if (wg < WGS)
            store_split_k<AT_ONCE>((const float *)shared, row_scale, bias, y, batch, rows, first_w, first_x, k_part);
        cluster_sync();                                     // other blocks may still read this block's partial sums
    };
    int s = 0, phase = 0;
    if (wg == WGS) {                                        // producer
        setmaxnreg_dec<40>();
        wait_for_previous_grid();
        if (threadIdx.x == 128 * WGS)
            for (int tile = blockIdx.x / CK; tile < tiles; tile += gridDim.x / CK) {
                const int2 position = tile_position(tile);
                for (int half = 2 * begin; half < 2 * end; half++) {
                    const u32 bar = full + 8 * s, dst = address(shared + s * STAGE_BYTES);
                    const int w_tile = position.x * 4 * WGS;
                    barrier_wait(empty + 8 * s, phase - 1);
                    barrier_expect(bar, X_BYTES + W_BYTES + SCALE_BYTES + ZERO_BYTES);
                    if constexpr (BITS == 4) tma_load(dst + X_BYTES, w, w_tile, half * 128, bar);
                    else tma_load_lines(dst + X_BYTES, w, w_tile, half * 8, bar);
                    tma_load(dst, x, position.y * BN, half * 64, bar);
                    constexpr int WORDS_PER_HALF = PAIRS_BYTES / 4 * HALF_SCALES;
                    const int group = (SCALES == 1 ? half / 2 : half) * WORDS_PER_HALF;
                    if constexpr (GROUP > 0) tma_load(dst + X_BYTES + W_BYTES, scale_map, w_tile, group, bar);
                    if constexpr (ZERO_BYTES > 0)
                        tma_load(dst + X_BYTES + W_BYTES + SCALE_BYTES, zero_map, w_tile, group, bar);
                    if (++s == STAGES) { s = 0; phase++; }
                }
            }
        if constexpr (STORES_AS_CONSUMER) { cluster_sync(); cluster_sync(); }
    } else {                                                // consumers
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        if constexpr (KIND == NF4) { fill_codebook<128 * WGS>(codebook); consumers_sync(); }     // while TMA loads
        wait_for_previous_grid();
        float d[1][BN / 2];
        u32 a[PER_PRODUCT ? 4 : 8][4];                      // products
        const u64 first_rows = descriptor(address(shared), 16);         // of x in the first stage
        for (int tile = blockIdx.x / CK; tile < tiles; tile += gridDim.x / CK) {
            const int2 position = tile_position(tile);
            const int warp_tile = position.x * 4 * WGS + warp;            // the tile of this warp's 16 rows of w
            const size_t pair_index = min(warp_tile, (rows + 15) / 16 - 1) * 8 + r;
            u32 offset[2] = {NO_ZERO_POINT, NO_ZERO_POINT};
            if constexpr (ZEROS && GROUP == 0) {
                offset[0] = add2(NO_ZERO_POINT, upper(zeros[pair_index]));
                offset[1] = add2(NO_ZERO_POINT, lower(zeros[pair_index]));
            }
            int prev_stage = -1;                            // the stage of the previous products
            StageData data[2];
            const auto load_next = [&](StageData &dst) {     // waits for stage s
                barrier_wait(full + 8 * s, phase);
                const char *words = shared + s * STAGE_BYTES + X_BYTES;
                const char *pairs = words + W_BYTES + warp * PAIRS_BYTES * HALF_SCALES;
                load_stage(words + warp * 512 * HALF_LOADS, pairs, (const u32 *)(pairs + SCALE_BYTES), dst);
            };
            const auto advance = [&] { if (++s == STAGES) { s = 0; phase++; } };
            const auto multiply = [&](u32 (&w_part)[4], u64 x_part, bool is_first) {
                wgmma_rs<false>(d[0], w_part[0], w_part[1], w_part[2], w_part[3], x_part, !is_first);
            };
            const auto release_previous = [&] {
                if (prev_stage >= 0 && threadIdx.x % 128 == 0) barrier_arrive(empty + 8 * prev_stage);
            };
            if constexpr (PER_PRODUCT) {
                int current = s;
                load_next(data[0]);
                advance();
                exchange_words(data[0].words, 0);
                dequantize(data[0], 0, codebook, offset, a[0]);
                for (int step = begin; step < end; step++)
                    #pragma unroll
                    for (int half = 0; half < 2; half++) {
                        const u64 x_rows = first_rows + (current * STAGE_BYTES >> 4);
                        const bool is_last = half == 1 && step + 1 == end;
                        #pragma unroll
                        for (int j = 0; j < 4; j++) {
                            fence_accumulators(d);
                            wgmma_fence();
                            multiply(a[j], x_rows + j * 2, step == begin && half == 0 && j == 0);
                            wgmma_commit();
                            if (j == 1 && !is_last) { load_next(data[1 - half]); advance(); }
                            if (j < 3 || !is_last) {
                                StageData &stage = data[j < 3 ? half : 1 - half];
                                const int next = (j + 1) % 4;
                                if (next % 2 == 0) exchange_words(stage.words, next);
                                dequantize(stage, next, codebook, offset, a[next]);
                            }
                            wgmma_wait<2>();
                            if (j == 1) release_previous();     // its products are complete
                        }
                        prev_stage = current;
                        if (++current == STAGES) current = 0;
                    }
            } else {
                load_next(data[0]);
                for (int step = begin; step < end; step++)
                    #pragma unroll
                    for (int half = 0; half < 2; half++) {
                        const u64 x_rows = first_rows + (s * STAGE_BYTES >> 4);
                        const int current = s;
                        advance();
                        if (half == 0 || step + 1 < end) load_next(data[1 - half]);  // while this stage is dequantized
                        exchange_words(data[half].words, 0);
                        exchange_words(data[half].words, 2);
                        #pragma unroll
                        for (int j = 0; j < 4; j++) dequantize(data[half], j, codebook, offset, a[half * 4 + j]);
                        fence_accumulators(d);
                        wgmma_fence();
                        #pragma unroll
                        for (int j = 0; j < 4; j++)
                            multiply(a[half * 4 + j], x_rows + j * 2, step == begin && half == 0 && j == 0);
                        wgmma_commit();
                        wgmma_wait<1>();                    // the previous products are complete
                        release_previous();
                        prev_stage = current;
                    }
            }
            wgmma_wait<0>();
            fence_accumulators(d);
            if constexpr (TMA_STORES) {
                if (threadIdx.x % 128 == 0) barrier_arrive(empty + 8 * prev_stage);
                if constexpr (GROUP == 0) {
                    const Pair row_scales = *(const Pair *)(scales + pair_index);
                    #pragma unroll
                    for (int e = 0; e < BN / 2; e++) d[0][e] *= (float)(e / 2 % 2 ? row_scales.y : row_scales.x);
                }
                if constexpr (HAS_MATRIX_SCALE) {
                    const float factor = *(const float *)zeros * NVFP4_FACTOR;
                    #pragma unroll
                    for (int e = 0; e < BN / 2; e++) d[0][e] *= factor;
                }
                store_transposed(d, y_map, bias, rows, position.y * BN, position.x * BM + wg * 64,
                                 address(buffers + wg * OUT * 256), wg);
            } else {
                consumers_sync();                           // the stages are reused for the accumulators
                float *fragment = (float *)shared + wg * 64 + warp % 4 * 16 + r;
                #pragma unroll
                for (int e = 0; e < BN / 2; e++)
                    fragment[(e / 4 * 8 + t * 2 + e % 2) * PITCH + e / 2 % 2 * 8] = d[0][e];
            }
        }
        if constexpr (TMA_STORES) {
            if (threadIdx.x % 128 == 0) stores_wait_read();
        } else if constexpr (CK == 1) {
            consumers_sync();
            store_split_k<AT_ONCE>((const float *)shared, row_scale, bias, y, batch, rows, first_w, first_x, 0);
        }
        if constexpr (STORES_AS_CONSUMER) store_partial_sums();
    }
    if constexpr (CK > 1 && !STORES_AS_CONSUMER) store_partial_sums();
}
