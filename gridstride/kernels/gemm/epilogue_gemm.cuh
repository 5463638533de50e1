// out (M x N) = epilogue(scale * A (M x K) @ B (K x N)) for 16-bit floats, accumulated in float32. A batch has `count`
// matrices, contiguous in memory. If GROUPED (a grouped GEMM), the rows of A and of out belong to `count` groups
// instead: group g ends before row `ends[g]` and has its own B.
//
// Requires definitions of Elem (the type of A and B), Out (float, or Elem), BM, BN, BK, STAGES, WGS (consumer
// warpgroups), CM and CN (blocks of a cluster along M, which share tiles of B, or along N, which share tiles of A),
// BLOCKS (per SM), PRODUCER_REGS and CONSUMER_REGS (registers per thread), PDL (programmatic dependent launch: the
// kernel begins before the previous one ends), GROUPED, A_TRANSPOSED, B_TRANSPOSED (stored transposed), wgmma. For the
// epilogue: BIAS, ACTIVATION, MULTIPLIED (by another matrix), ADDED (another matrix is added), SAVED (the input of the
// activation is stored, too), SAVE_GRAD (its gradient is stored instead), COLUMN_SUMS, ACCUMULATE (the result is added
// to `out`), and the functions `active` and `active_grad`.
constexpr int A_BYTES = BM*BK*2, BOX_BYTES = BK*128, M_BLOCKS = BM/64/WGS;
constexpr int B_BYTES = B_TRANSPOSED ? BN*128 : (BN + 63)/64*BOX_BYTES;  // complete TMA boxes along N
constexpr int CLUSTER = CM*CN, CLUSTER_ROWS = BM*CM, CLUSTER_COLS = BN*CN;    // in blocks, rows and columns
constexpr int GROUP = 16;                                                // tile rows traversed together (L2 reuse)
constexpr bool STAGED = sizeof(Out) == 2 && !GROUPED;                    // results are stored by TMA

__device__ void prefetch(const TensorMap &x) { asm volatile("prefetch.tensormap [%0];" :: "l"(&x) : "memory"); }

// Loads a box of an array with three axes
__device__ void tma_load(u32 dst, const TensorMap &x, int batch, int r, int c, u32 bar) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(dst), "l"(&x), "r"(c), "r"(r), "r"(batch), "r"(bar) : "memory");
}
__device__ void tma_load_multicast(u32 dst, const TensorMap &x, int batch, int r, int c, u32 bar, short blocks) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;"
                 :: "r"(dst), "l"(&x), "r"(c), "r"(r), "r"(batch), "r"(bar), "h"(blocks) : "memory");
}

// The position of a cluster's tile: its matrix or group, its first row and column, and the end of the group's rows
struct Tile { int matrix, row, column, end; };

struct Schedule {
    const int *ends;
    int count, tile_cols, tile, group, begin, end, tiles_before;     // the group has rows begin, ..., end-1
    __device__ Schedule(const int *ends, int count, int M, int N)
        : ends(ends), count(count), tile_cols((N + CLUSTER_COLS-1)/CLUSTER_COLS), tile(blockIdx.x/CLUSTER),
          group(0), begin(0), end(GROUPED ? ends[0] : M), tiles_before(0) {}
    // Sets `t` to the next tile of this cluster; returns false if there is none
    __device__ bool next(Tile &t) {
        for (;; group++) {
            int tile_rows = (end - begin + CLUSTER_ROWS-1)/CLUSTER_ROWS, index = tile - tiles_before;
            if (!GROUPED) {
                t.matrix = index/(tile_rows*tile_cols);
                index %= tile_rows*tile_cols;
                if (t.matrix >= count) return false;
            }
            else if (index < tile_rows*tile_cols) t.matrix = group;
            else if (group == count-1) return false;
            else { tiles_before += tile_rows*tile_cols; begin = end; end = ends[group+1]; continue; }
            int first = index/(GROUP*tile_cols)*GROUP, position = index%(GROUP*tile_cols);
            int rows = min(GROUP, tile_rows - first);
            t.row = begin + (first + position%rows)*CLUSTER_ROWS;
            t.column = position/rows*CLUSTER_COLS + blockIdx.x%CLUSTER/CM*BN;
            t.end = end;
            tile += gridDim.x/CLUSTER;
            return true;
        }
    }
};

// Loads one of PARTS parts of the ROWS rows of a box, and multicasts it to the PARTS blocks of the cluster that need it
template<int PARTS, int ROWS>
__device__ void load_part(u32 dst, const TensorMap &x, int batch, int r, int c, u32 bar, int part) {
    static_assert(PARTS == 1 || PARTS == CLUSTER, "a cluster is a row of blocks, or a column");
    if (PARTS == 1) tma_load(dst, x, batch, r, c, bar);
    else tma_load_multicast(dst + part*(ROWS/PARTS)*128, x, batch, r + part*(ROWS/PARTS), c, bar, (1 << CLUSTER) - 1);
}

// Loads the tiles of a step, starting at `k` along K, for block `rank` of the cluster: its part of each shared box
__device__ void load_step(u32 a, u32 b, const TensorMap &A, const TensorMap &B, const Tile &t, int k, u32 bar,
                          int rank) {
    int row = t.row + rank%CM*BM, a_matrix = GROUPED ? 0 : t.matrix;
    if (A_TRANSPOSED)
        for (int x = 0; x < BM; x += 64)
            load_part<CN, BK>(a + x/64*BOX_BYTES, A, a_matrix, k, row + x, bar, rank);
    else load_part<CN, BM>(a, A, a_matrix, row, k, bar, rank);
    if (B_TRANSPOSED) load_part<CM, BN>(b, B, t.matrix, t.column, k, bar, rank);
    else
        for (int x = 0; x < BN; x += 64)
            load_part<CM, BK>(b + x/64*BOX_BYTES, B, t.matrix, k, t.column + x, bar, rank);
}

// Issues the wgmma instructions of a step: d (+)= its part of A @ B. da and db are the descriptors of its tiles
__device__ void multiply_step(float (&d)[M_BLOCKS][BN/2], u64 da, u64 db, bool accumulate) {
    fence_accumulators(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BK/16; i++)
        #pragma unroll
        for (int x = 0; x < M_BLOCKS; x++)
            wgmma<A_TRANSPOSED, !B_TRANSPOSED>(d[x], da + x*64*128/16 + i*(A_TRANSPOSED ? 16*128 : 32)/16,
                                               db + i*(B_TRANSPOSED ? 32 : 16*128)/16, accumulate || i > 0);
    wgmma_commit();
}

// Transposes 4x4 words among four lanes. Before, a lane holds one word (two columns) of each of four groups of eight
// columns; afterwards it holds eight consecutive columns. The transposition is its own inverse.
__device__ void transpose_quad(u32 (&v)[4]) {
    #pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
        bool upper = threadIdx.x & bit;
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            u32 &low = v[bit == 1 ? 2*i : i], &high = v[bit == 1 ? 2*i + 1 : i + 2];
            u32 received = __shfl_xor_sync(~0u, upper ? low : high, bit);
            if (upper) low = received;
            else high = received;
        }
    }
}
__device__ float2 unpack(u32 x) { return make_float2(float(((Elem *)&x)[0]), float(((Elem *)&x)[1])); }

// The operands of the epilogue
struct EpilogueOperands {
    const Elem *__restrict__ bias, *__restrict__ other;   // bias: (N); other: the addend or factor, of the shape of out
    Elem *saved;                                          // like out: receives the activation's input or gradient
    float *sums;                                          // partial column sums: one row per warp of rows of out
    float scale;
};

constexpr int IN_FLIGHT = 2;                                // groups of 32 columns whose loads are in flight together
struct LoadedOperand { uint4 rows[IN_FLIGHT][2*M_BLOCKS]; };

// Loads the other matrix (factor or addend): per thread and row, eight columns of each of IN_FLIGHT groups of 32
// columns, starting at column `c0` of the tile
__device__ LoadedOperand load_operand(const EpilogueOperands &o, const Tile &t, int row, int c0, size_t first, int N) {
    LoadedOperand res = {};
    if (MULTIPLIED || ADDED)
        #pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++)
            #pragma unroll
            for (int x = 0; x < 2*M_BLOCKS; x++) {                 // 2*M_BLOCKS rows, 8 apart in a block of 64 rows
                int r = row + x*8 + x/2*48, c = t.column + c0 + j*32 + threadIdx.x%4*8;
                if (r < t.end && c < N) res.rows[j][x] = __ldg((const uint4 *)(o.other + (first + r)*N + c));
            }
    return res;
}

// Reduces eight values per lane over the lanes with the same lane%4. Returns one of the eight sums: its index is lane/4
// with the three bits reversed
__device__ float reduce_rows(float (&v)[8]) {
    #pragma unroll
    for (int bit = 16, n = 4; n > 0; bit /= 2, n /= 2) {
        bool upper = threadIdx.x & bit;
        #pragma unroll
        for (int i = 0; i < n; i++) {
            float sent = upper ? v[i] : v[i + n], kept = upper ? v[i + n] : v[i];
            v[i] = kept + __shfl_xor_sync(~0u, sent, bit);
        }
    }
    return v[0];
}

__device__ void tma_store(const TensorMap &x, int batch, int r, int c, u32 src) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];"
                 :: "l"(&x), "r"(c), "r"(r), "r"(batch), "r"(src) : "memory");
}
// Waits until at most one of the thread's TMA stores still reads shared memory
__device__ void stores_wait_read_except_last() { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }

// Stores 16 x 64 elements of a warp with TMA, through one of two staging buffers of 2048 bytes at `buffer` (double
// buffering). `num_stores`: the number of earlier calls
__device__ void store_by_tma(u32 (&v)[2][8], const TensorMap &x, int batch, int r, int c, u32 buffer, int &num_stores) {
    int lane = threadIdx.x%32, tr = lane%16;
    u32 staging = buffer + num_stores++%2*2048;
    if (lane == 0) stores_wait_read_except_last();
    __syncwarp();
    #pragma unroll
    for (int g = 0; g < 8; g += 2)
        stmatrix(staging + tr*128 + ((g + lane/16) ^ tr%8)*16, v[0][g], v[1][g], v[0][g+1], v[1][g+1]);
    fence_for_tma();
    __syncwarp();
    if (lane == 0) { tma_store(x, batch, r, c, staging); stores_commit(); }
}

// Stores the same elements without TMA, whose boxes would also overwrite rows of the next group. `dst`: the address of
// the thread's first element; `rows`, `columns`: how many remain
__device__ void store_rows(u32 (&v)[2][8], Elem *dst, int rows, int columns, int N) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {                           // two halves of the rows, two of the columns
        u32 words[4] = {v[i/2][i%2*4], v[i/2][i%2*4+1], v[i/2][i%2*4+2], v[i/2][i%2*4+3]};
        int c = i%2*32 + threadIdx.x%4*8;
        transpose_quad(words);
        if (i/2*8 < rows && c < columns)
            *(uint4 *)(dst + (size_t)(i/2*8)*N + c) = {words[0], words[1], words[2], words[3]};
    }
}

// Applies the epilogue to a warpgroup's accumulators, 64*BLOCKS_M rows starting at `top` and 2*REGS columns, and stores
// the results up to column `column_end`. `row`: the thread's first row; `first_row`: the first row of its matrix in
// `out`
template<int BLOCKS_M, int REGS>
__device__ void apply_epilogue(float (&d)[BLOCKS_M][REGS], const TensorMap &out_map, const TensorMap &saved_map,
                               Out *out, const EpilogueOperands &o, const Tile &t, int row, int top,
                               LoadedOperand loaded, u32 buffer, int &num_stores, size_t first_row, int column_end,
                               int N) {
    int q = threadIdx.x%4, lane = threadIdx.x%32, warp = threadIdx.x%128/32;
    LoadedOperand next;
    #pragma unroll
    for (int c = 0; c < 2*REGS; c += 64) {
        if (c/32%IN_FLIGHT == 0 && c + 32*IN_FLIGHT < 2*REGS)
            next = load_operand(o, t, row, c + 32*IN_FLIGHT, first_row, N);
        float2 bias[8] = {};
        float sum[2][8] = {};
        #pragma unroll
        for (int g = 0; g < 8 && BIAS; g++)
            if (t.column + c + g*8 < N) bias[g] = unpack(__ldg((const u32 *)(o.bias + t.column + c + g*8 + q*2)));
        #pragma unroll
        for (int i = 0; i < BLOCKS_M; i++) {
            u32 v[2][8] = {}, saved[2][8];
            #pragma unroll
            for (int x = 0; x < 2; x++) {                   // rows 0 to 7, rows 8 to 15
                int r = row + i*64 + x*8;
                u32 operand[8];
                #pragma unroll
                for (int b = 0; b < 2 && (MULTIPLIED || ADDED); b++) {
                    uint4 packed = loaded.rows[(c/32 + b)%IN_FLIGHT][2*i + x];
                    u32 words[4] = {packed.x, packed.y, packed.z, packed.w};
                    transpose_quad(words);
                    #pragma unroll
                    for (int g = 0; g < 4; g++) operand[b*4 + g] = words[g];
                }
                #pragma unroll
                for (int g = 0; g < 8 && c + g*8 < 2*REGS; g++) {
                    float *e = &d[i][(c/8 + g)*4 + x*2];
                    float2 y = {e[0]*o.scale + bias[g].x, e[1]*o.scale + bias[g].y}, other = {};
                    if (MULTIPLIED || ADDED) other = unpack(operand[g]);
                    if (SAVED) saved[x][g] = SAVE_GRAD ? pack(active_grad(y.x), active_grad(y.y)) : pack(y.x, y.y);
                    if (ACTIVATION) y = {active(y.x), active(y.y)};
                    if (MULTIPLIED) y = {y.x*other.x, y.y*other.y};
                    if (ADDED) y = {y.x + other.x, y.y + other.y};
                    if (COLUMN_SUMS && r < t.end) {
                        sum[g/4][g%4*2] += MULTIPLIED ? y.x : other.x;
                        sum[g/4][g%4*2 + 1] += MULTIPLIED ? y.y : other.y;
                    }
                    if (sizeof(Out) == 2) v[x][g] = pack(y.x, y.y);
                    else if (r < t.end && t.column + c + g*8 < column_end) {
                        float2 *dst = (float2 *)(out + (first_row + r)*N + t.column + c + g*8 + q*2);
                        float2 old = {};
                        if (ACCUMULATE) old = *dst;
                        *dst = {y.x + old.x, y.y + old.y};
                    }
                }
            }
            int r = top + i*64 + warp*16, rows_left = t.end - row - i*64;
            size_t offset = (first_row + row + i*64)*N + t.column + c;
            if (STAGED && c + 64 <= 2*REGS) store_by_tma(v, out_map, t.matrix, r, t.column + c, buffer, num_stores);
            else if (sizeof(Out) == 2) store_rows(v, (Elem *)out + offset, rows_left, column_end - t.column - c, N);
            if (SAVED && STAGED) store_by_tma(saved, saved_map, t.matrix, r, t.column + c, buffer, num_stores);
            else if (SAVED) store_rows(saved, o.saved + offset, rows_left, N - t.column - c, N);
        }
        #pragma unroll
        for (int b = 0; b < 2 && COLUMN_SUMS; b++) {
            float total = reduce_rows(sum[b]);
            int column = t.column + c + b*32 + (lane/16*2 + lane/8%2)*8 + q*2 + lane/4%2;
            if (column < N) o.sums[(size_t)(top/(64*BLOCKS_M)*4 + warp)*N + column] = total;
        }
        if ((c/32 + 2)%IN_FLIGHT == 0) loaded = next;
    }
}

__global__ void __cluster_dims__(CLUSTER) __launch_bounds__(128*(WGS + 1), BLOCKS)
multiply(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
         const __grid_constant__ TensorMap out_map, const __grid_constant__ TensorMap saved_map, Out *out,
         Elem *saved, const Elem *bias, const Elem *other, float *sums, const int *ends, int count, int M, int N,
         int K, float scale) {
    static_assert(BN%64 == 0 || !(MULTIPLIED || ADDED || SAVED || COLUMN_SUMS || ACCUMULATE),
                  "the epilogue handles 64 columns at a time");
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, buffer = b + STAGES*B_BYTES + threadIdx.x/32*4096;
    u32 full = address(bars), empty = full + 8*STAGES;
    int rank = blockIdx.x%CLUSTER, wg = __shfl_sync(~0u, threadIdx.x/128, 0), s = 0, phase = 0, steps = (K + BK-1)/BK;
    if (threadIdx.x == WGS*128) {
        prefetch(A);
        prefetch(B);
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, WGS*CLUSTER); }
        fence_mbarrier_init();
    }
    if (CLUSTER > 1) cluster_sync(); else __syncthreads();
    if (PDL) {                                            // after the wait, the writes of earlier kernels are visible
        asm volatile("griddepcontrol.launch_dependents;");
        asm volatile("griddepcontrol.wait;" ::: "memory");
    }
    Schedule schedule(ends, count, M, N);
    Tile t;
    if (wg == WGS) {                                        // producer: one thread issues TMA loads
        setmaxnreg_dec<PRODUCER_REGS>();
        if (threadIdx.x == WGS*128) for (bool backward = false; schedule.next(t); backward = !backward)
            for (int step = 0; step < steps; step++) {      // alternates directions: the last tiles are still in L2
                int k = (backward ? steps-1 - step : step)*BK;
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(full + 8*s, A_BYTES + B_BYTES);
                load_step(a + s*A_BYTES, b + s*B_BYTES, A, B, t, k, full + 8*s, rank);
                if (++s == STAGES) { s = 0; phase++; }
            }
    } else {                                                // consumers
        setmaxnreg_inc<CONSUMER_REGS>();
        int prev_stage = -1, num_stores = 0;            // the stage of the previous step; TMA stores so far
        bool signals = threadIdx.x%128 < CLUSTER;       // thread t signals block t
        u64 da = descriptor(a + wg*M_BLOCKS*64*128, 16), db = descriptor(b, B_TRANSPOSED ? 16 : BOX_BYTES);
        EpilogueOperands operands = {bias, other, saved, sums, scale};
        float d[M_BLOCKS][BN/2];
        while (schedule.next(t)) {
            for (int step = 0; step < steps; step++) {
                barrier_wait(full + 8*s, phase);
                multiply_step(d, da + s*(A_BYTES/16), db + s*(B_BYTES/16), step > 0);
                wgmma_wait<1>();                            // the previous step has finished: its stage is empty
                if (prev_stage >= 0 && signals) barrier_arrive_at(empty + 8*prev_stage, threadIdx.x%128);
                prev_stage = s;
                if (++s == STAGES) { s = 0; phase++; }
            }
            int top = t.row + rank%CM*BM + wg*M_BLOCKS*64, row = top + threadIdx.x%128/32*16 + threadIdx.x%32/4;
            size_t first = GROUPED ? 0 : (size_t)t.matrix*M;
            LoadedOperand loaded = load_operand(operands, t, row, 0, first, N);       // in flight during the last step
            wgmma_wait<0>();
            fence_accumulators(d);
            if (signals) barrier_arrive_at(empty + 8*prev_stage, threadIdx.x%128);
            prev_stage = -1;
            int column_end = BN%64 ? min(N, t.column + BN) : N;  // otherwise TMA clips at N
            apply_epilogue(d, out_map, saved_map, out, operands, t, row, top, loaded, buffer, num_stores, first,
                           column_end, N);
        }
        if (threadIdx.x%32 == 0) stores_wait_read();
    }
    if (CLUSTER > 1) cluster_sync();                             // other blocks may still arrive at the barriers here
}
