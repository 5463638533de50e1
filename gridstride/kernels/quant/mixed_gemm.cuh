// Computes y = x @ w.T + bias for many rows of x and a quantized matrix w (dequantize.cuh), on a Hopper GPU: a
// mixed-input GEMM. wgmma reads its first operand, 64 rows of w per warpgroup, from registers, in which the elements
// are dequantized just before their use; w is stored in the order of these registers (fragments.py). TMA loads the
// second operand, BN rows of x, to shared memory. A first kernel, `permute_columns`, permutes the columns of x, because
// in w the 16 columns of a product are not contiguous.
//
// A stage is 64 columns, half of a step of w. Defined above: BN (rows of x per block), WGS (consumer warpgroups), CK
// (blocks of a cluster that share the columns: split-K), STAGES, BIAS, UP (registers of a consumer thread).
constexpr int BM = 64 * WGS, HALF_LOADS = LOADS / 2, HALF_SCALES = GROUP == 32 ? 2 : 1;
constexpr int X_BYTES = BN * 128, W_BYTES = 4 * WGS * 512 * HALF_LOADS;                     // per stage
constexpr int SCALE_BYTES = GROUP ? 4 * WGS * 32 * HALF_SCALES : 0, ZERO_BYTES = ZEROS ? SCALE_BYTES : 0;
constexpr int STAGE_BYTES = X_BYTES + (W_BYTES + SCALE_BYTES + ZERO_BYTES + 1023) / 1024 * 1024;
constexpr int PITCH = BM + 4;                               // elements per row of sums; no bank conflicts

// Permutes each 32 columns of x to the order in which the fragments of w have them, and pads the rows with zeros to
// `padded` columns, a multiple of 32. The thread of lane l%4 = t holds the columns 8t to 8t + 7 of w: the first product
// multiplies the pairs 0 and 1 of these eight columns, the second one the pairs 2 and 3. So the new order is (pair,
// t, element of the pair).
__global__ void permute_columns(const u32 *x, uint4 *to, int batch, int k, int padded) {
    const int chunks = padded / 8;
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (i >= (size_t)batch * chunks) return;
    const int row = i / chunks, chunk = i % chunks, pair = chunk % 4;
    u32 v[4];
    #pragma unroll
    for (int t = 0; t < 4; t++) {
        const int column = chunk / 4 * 32 + t * 8 + pair * 2;
        v[t] = column < k ? x[((size_t)row * k + column) / 2] : 0;
    }
    to[i] = {v[0], v[1], v[2], v[3]};
}

__device__ void scale_both_rows(u32 (&a)[4], u32 pair) {
    const u32 by[2] = {upper(pair), lower(pair)};
    #pragma unroll
    for (int i = 0; i < 4; i++) a[i] = mul2(a[i], by[i % 2]);
}

// Dequantizes a stage of a warp's tile, 16 rows and 64 columns, which is four products. `words`, `scales` and `zeros`
// are in shared memory. `offset`: that of the two rows, if all columns share the zero points.
__device__ void dequantize(const uint4 *words, const u32 *scales, const u32 *zeros, const u32 *codebook,
                           const u32 (&row_offset)[2], u32 (&a)[4][4]) {
    const int lane = threadIdx.x % 32, r = lane / 4;
    uint4 mine[HALF_LOADS];
    #pragma unroll
    for (int l = 0; l < HALF_LOADS; l++) mine[l] = words[l * 32 + lane];
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        const int group = HALF_SCALES * i / 4 * 8 + r;
        u32 offset[2] = {row_offset[0], row_offset[1]};
        if constexpr (GROUP > 0 && ZEROS) {
            offset[0] = add2(NO_ZERO_POINT, upper(zeros[group]));
            offset[1] = add2(NO_ZERO_POINT, lower(zeros[group]));
        }
        unpack((const u32 *)mine + i * (BITS / 4), codebook + lane, offset, a[i]);
        if constexpr (GROUP > 0) scale_both_rows(a[i], scales[group]);
    }
}

// Waits at the named barrier of the consumers
__device__ void consumers_sync() { asm volatile("bar.sync 1, %0;" :: "n"(128 * WGS) : "memory"); }

// Adds the partial sums of the CK blocks for this block's part of the rows of x, and stores the results. `sums`:
// accumulators [BN][PITCH] in shared memory.
__device__ void store(const float *sums, const u32 *scales, const Elem *bias, Elem *y, int batch, int rows, int first_w,
                      int first_x, int q) {
    constexpr int SHARE = BN / CK;
    for (int i = threadIdx.x; i < SHARE * BM / 2; i += 128 * WGS) {
        const int column = q * SHARE + i / (BM / 2), mine = i % (BM / 2) * 2, row = first_w + mine;
        if (first_x + column >= batch || row >= rows) continue;
        float2 v = {0, 0};
        if constexpr (CK == 1) v = *(const float2 *)(sums + column * PITCH + mine);
        else
            #pragma unroll
            for (int b = 0; b < CK; b++) {
                v.x += of_block(sums + column * PITCH + mine, b);
                v.y += of_block(sums + column * PITCH + mine + 1, b);
            }
        const bool both = row + 1 < rows;
        if constexpr (GROUP == 0) {                        // one scale per row: rows r and r + 8 of a tile are adjacent
            const Elem *s = (const Elem *)scales + row / 16 * 16;
            v.x *= (float)s[row % 8 * 2 + row % 16 / 8];
            v.y *= (float)s[(row + 1) % 8 * 2 + (row + 1) % 16 / 8];
        }
        if constexpr (BIAS) { v.x += (float)bias[row]; if (both) v.y += (float)bias[row + 1]; }
        Elem *to = y + (size_t)(first_x + column) * rows + row;
        const Pair two = {Elem(v.x), Elem(v.y)};
        if (rows % 2 == 0) *(Pair *)to = two;
        else { to[0] = Elem(v.x); if (both) to[1] = Elem(v.y); }
    }
}

__global__ void __cluster_dims__(CK) __launch_bounds__(128 * (WGS + 1), 1)
multiply_mixed(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
               const __grid_constant__ TensorMap scale_map, const __grid_constant__ TensorMap zero_map,
               const u32 *scales, const u32 *zeros, const Elem *bias, Elem *y, int batch, int rows, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2 * STAGES];
    u32 *codebook = (u32 *)(shared + STAGES * STAGE_BYTES);         // for NF4
    const u32 full = address(bars), empty = full + 8 * STAGES;
    const int steps = (k + STEP - 1) / STEP, tiles = (rows + 15) / 16, bands = (rows + BM - 1) / BM;
    const int q = rank(), tile = blockIdx.x / CK, first_w = tile % bands * BM, first_x = tile / bands * BN;
    const int begin = q * steps / CK, end = (q + 1) * steps / CK;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8 * s, 1); barrier_init(empty + 8 * s, WGS); }
        barriers_ready();
    }
    if constexpr (KIND == NF4) fill_codebook(codebook);
    if constexpr (CK > 1) cluster_sync(); else __syncthreads();
    const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    const int lane = threadIdx.x % 32;
    int s = 0, phase = 0;
    if (wg == WGS) {                                        // producer
        registers_down<40>();
        if (threadIdx.x == 128 * WGS) {
            // A box has this block's 4 * WGS tiles of 16 rows. w does not depend on the kernel that permutes x, so its
            // first stages are loaded before the wait for that kernel.
            auto load_w = [&](int half) {
                const u32 bar = full + 8 * s, to = address(shared + s * STAGE_BYTES) + X_BYTES;
                barrier_wait(empty + 8 * s, phase - 1);
                barrier_expect(bar, X_BYTES + W_BYTES + SCALE_BYTES + ZERO_BYTES);
                tma_load(to, w, first_w / 16, half * (128 * HALF_LOADS), bar);
                constexpr int PER_HALF = SCALES == 4 ? 16 : 8;          // 32-bit words: scales of rows r and r + 8
                const int group = SCALES == 1 ? half / 2 * 8 : half * PER_HALF;
                if constexpr (GROUP > 0) tma_load(to + W_BYTES, scale_map, first_w / 16, group, bar);
                if constexpr (ZERO_BYTES > 0) tma_load(to + W_BYTES + SCALE_BYTES, zero_map, first_w / 16, group, bar);
            };
            auto load_x = [&](int half, int s) {
                tma_load(address(shared + s * STAGE_BYTES), x, first_x, half * 64, full + 8 * s);
            };
            const int first = 2 * begin, past = 2 * end, ahead = min(STAGES, past - first);
            for (s = 0; s < ahead; s++) load_w(first + s);
            asm volatile("griddepcontrol.wait;" ::: "memory");
            for (int a = 0; a < ahead; a++) load_x(first + a, a);
            s = 0, phase = 1;
            for (int half = first + STAGES; half < past; half++) {
                load_w(half);
                load_x(half, s);
                if (++s == STAGES) { s = 0; phase++; }
            }
        }
    } else {                                                // consumers
        registers_up<UP>();
        const int r = lane / 4, t = lane % 4;
        u32 offset[2] = {NO_ZERO_POINT, NO_ZERO_POINT};
        if constexpr (ZEROS && GROUP == 0) {
            const u32 pair = zeros[min(first_w / 16 + warp, tiles - 1) * 8 + r];
            offset[0] = add2(NO_ZERO_POINT, upper(pair));
            offset[1] = add2(NO_ZERO_POINT, lower(pair));
        }
        float d[1][BN / 2];
        u32 a[2][4][4];
        int last = -1;
        for (int step = begin; step < end; step++)
            #pragma unroll
            for (int half = 0; half < 2; half++) {
                barrier_wait(full + 8 * s, phase);
                const char *stage = shared + s * STAGE_BYTES, *words = stage + X_BYTES;
                const u32 *pairs = (const u32 *)(words + W_BYTES) + warp * 8 * HALF_SCALES;
                dequantize((const uint4 *)words + warp * 32 * HALF_LOADS, pairs, pairs + SCALE_BYTES / 4, codebook,
                           offset, a[half]);
                fence_sums(d);
                wgmma_fence();
                #pragma unroll
                for (int j = 0; j < 4; j++)
                    wgmma_kept<false>(d[0], a[half][j][0], a[half][j][1], a[half][j][2], a[half][j][3],
                                    descriptor(address(stage) + j * 32, 16), step > begin || half || j);
                wgmma_commit();
                wgmma_wait<1>();                            // the previous product is complete: its stage is free
                if (last >= 0 && threadIdx.x % 128 == 0) barrier_arrive(empty + 8 * last);
                last = s;
                if (++s == STAGES) { s = 0; phase++; }
            }
        wgmma_wait<0>();
        fence_sums(d);
        consumers_sync();                                   // the stages are reused for the accumulators
        float *sums = (float *)shared, *mine = sums + wg * 64 + warp % 4 * 16 + r;
        #pragma unroll
        for (int e = 0; e < BN / 2; e++)
            mine[(e / 4 * 8 + t * 2 + e % 2) * PITCH + e / 2 % 2 * 8] = d[0][e];
        if constexpr (CK == 1) {
            consumers_sync();
            store(sums, scales, bias, y, batch, rows, first_w, first_x, 0);
        }
    }
    if constexpr (CK > 1) {
        cluster_sync();
        if (wg < WGS) store((const float *)shared, scales, bias, y, batch, rows, first_w, first_x, q);
        cluster_sync();                                     // other blocks may still read this block's sums
    }
}
