"""CUDA C of the `skinny` kernels, with the reasons for their design. The constants are defined above each source."""

from importlib.resources import files


# LANES lanes share a row of A; each lane has R*COLUMNS accumulators over its part of the row. Shuffles reduce them, and
# in each step two lanes share the work: for 20 accumulators on 32 lanes this takes 21 shuffles, where a separate
# reduction of each accumulator to all lanes would take 100.
vector_src = r'''
struct alignas(4*VEC) Vector { float v[VEC]; };
'''
reduce_src = r'''
constexpr int ROWS_AT_ONCE = 32/LANES, ROWS = ROWS_AT_ONCE*R;           // rows of A per warp and step
constexpr int SUMS_PER_LANE = (R*COLUMNS+LANES-1)/LANES;                // sums that a lane stores

// Reduces the COUNT values of the lanes that share a row. In each step a pair of lanes halves the work: each lane sends
// the half that the other one continues with. This lane then holds values `first` to `first + count - 1`
template <int COUNT, int D> __device__ void reduce_lanes(float *o, int &first, int &count) {
    constexpr int HALF = (COUNT+1)/2;
    bool upper = threadIdx.x & D;
    #pragma unroll
    for (int i = 0; i < HALF; i++) {
        float upper_half = i+HALF < COUNT ? o[i+HALF < COUNT ? i+HALF : 0] : 0;
        o[i] = (upper ? upper_half : o[i]) + __shfl_xor_sync(~0u, upper ? o[i] : upper_half, D);
    }
    if (upper) first += HALF, count -= HALF;
    else count = min(count, HALF);
    if constexpr (D > ROWS_AT_ONCE) reduce_lanes<HALF, D/2>(o, first, count);
}
'''


# A warp multiplies a few rows of A at a time. LANES lanes share a row; each lane keeps accumulators for R rows and all
# columns in registers. B is stored transposed in shared memory.
#
# - A multistage pipeline of STAGES steps per warp keeps copies in flight, even across the end of a row. Only lanes of
#   the same warp read what a warp copies, so `__syncwarp` is enough.
# - Copies are coalesced. Neighbouring lanes read the same vector of B: such a load of 16 bytes per lane takes two
#   wavefronts instead of four, which matters if there are many columns, because these loads are then the most frequent.
# - Split-K: if K is too long for shared memory, or rows are too few to keep all SMs busy, different blocks compute
#   parts of K, and a second kernel adds their partial sums in order: the result is the same in every run.
pipeline_src = r'''
constexpr int K_PER_STEP = LANES*VEC;                                   // elements of a row per step
// vectors from one row to the next in shared memory; padded so that lanes access different banks
constexpr int PADDED_LANES = LANES + (VEC == 4 && ROWS_AT_ONCE > 1 ? 8/ROWS_AT_ONCE : 0);

__global__ void __launch_bounds__(32*WARPS)
skinny(const float *A, const float *B, float *C, int M, int N, int K, int split_size) {
    extern __shared__ __align__(16) float shared[];
    int lane = threadIdx.x%32, warp = threadIdx.x/32;
    int part = lane/ROWS_AT_ONCE, row = lane%ROWS_AT_ONCE;          // neighbours read the same vector of B
    int k_begin = blockIdx.y*split_size, k_end = min(K, k_begin+split_size);     // this block's part of K
    int steps = (k_end-k_begin+K_PER_STEP-1)/K_PER_STEP, padded_k = steps*K_PER_STEP, groups = (M+ROWS-1)/ROWS;
    int num_warps = gridDim.x*WARPS, first = blockIdx.x + gridDim.x*warp;
    Vector *ring = (Vector *)shared + warp*STAGES*ROWS*PADDED_LANES;          // this warp's pipeline
    float *bt = shared + WARPS*STAGES*ROWS*PADDED_LANES*VEC;                // B transposed, with zeros up to padded_k
    for (int i = threadIdx.x; i < padded_k*COLUMNS; i += 32*WARPS) {
        bool in_bounds = k_begin+i/COLUMNS < k_end;
        copy_async<4>(bt + i%COLUMNS*padded_k + i/COLUMNS, in_bounds ? B + (size_t)k_begin*COLUMNS + i : B, in_bounds);
    }
    copies_commit();
    int next_group = first, step = 0, fill_stage = 0, read_stage = 0;
    auto fetch = [&] {                                              // prefetches STAGES-1 steps, also of the next rows
        if (next_group < groups)
            #pragma unroll
            for (int y = 0; y < R; y++) {
                int q = y*ROWS_AT_ONCE + lane/LANES, r = next_group*ROWS+q;
                int c = k_begin + step*K_PER_STEP + lane%LANES*VEC;
                bool in_bounds = r < M && c < k_end;
                copy_async<4*VEC>(ring + (fill_stage*ROWS+q)*PADDED_LANES + lane%LANES,
                                  in_bounds ? A + (size_t)r*K + c : A, in_bounds);
            }
        copies_commit();
        if (++step == steps) step = 0, next_group += num_warps;
        if (++fill_stage == STAGES) fill_stage = 0;
    };
    for (int s = 0; s < STAGES-1; s++) fetch();
    copies_wait<STAGES-1>();
    __syncthreads();                                                // B is complete
    for (int g = first; g < groups; g += num_warps) {
        float o[R][COLUMNS] = {};
        for (int c = 0; c < steps; c++) {
            copies_wait<STAGES-2>();
            __syncwarp();                                           // the copies of the other lanes are visible
            Vector a[R];
            #pragma unroll
            for (int y = 0; y < R; y++) a[y] = ring[(read_stage*ROWS + y*ROWS_AT_ONCE+row)*PADDED_LANES + part];
            if (++read_stage == STAGES) read_stage = 0;
            fetch();
            #pragma unroll
            for (int x = 0; x < COLUMNS; x++) {
                Vector b = *(Vector *)(bt + x*padded_k + c*K_PER_STEP + part*VEC);
                #pragma unroll
                for (int y = 0; y < R; y++)
                    #pragma unroll
                    for (int v = 0; v < VEC; v++) o[y][x] += a[y].v[v]*b.v[v];
            }
        }
        int first = 0, count = R*COLUMNS;
        reduce_lanes<R*COLUMNS, 16>(o[0], first, count);
        #pragma unroll
        for (int i = 0; i < SUMS_PER_LANE; i++) {
            int y = (first+i)/COLUMNS, x = (first+i)%COLUMNS, r = g*ROWS + y*ROWS_AT_ONCE+row;
            if (i < count && r < M) C[((size_t)blockIdx.y*M + r)*COLUMNS + x] = o[0][i];
        }
    }
}
'''


# If rows of A are multiples of 16 bytes, a single bulk copy (on Hopper), issued by one thread, loads several
# consecutive rows. An mbarrier counts the bytes that have arrived. A warp then needs no pipeline: it waits for its
# rows, multiplies them, issues the next copy, and reduces its accumulators meanwhile; the copies of the other warps are
# in flight all the time.
#
# The copies use the L2 policy evict_first. Otherwise A would evict modified lines from L2, whose write-back costs time.
# (The copies of the pipeline cannot use it: ptxas 13.0 encodes some variants wrongly, and the GPU stops at an illegal
# instruction.) About 100 KB in flight per SM are enough; with more, DRAM becomes slower. B is loaded before A: after
# so many loads of A it would arrive late. `benchmarks/` has a table of what each step gains on an H100, and of the time
# of a kernel that only loads A.
rows_src = r'''
__global__ void __launch_bounds__(32*WARPS)
skinny_rows(const float *A, const float *B, float *C, int M, int N, int K) {
    extern __shared__ __align__(16) float shared[];
    __shared__ u64 full[WARPS];                                     // one mbarrier per warp: its rows have arrived
    int lane = threadIdx.x%32, warp = threadIdx.x/32, phase = 0;
    int groups = (M+R-1)/R, num_warps = gridDim.x*WARPS, begin = blockIdx.x + gridDim.x*warp;
    float *rows = shared + warp*R*K, *bt = shared + WARPS*R*K;     // this warp's rows; B transposed
    auto fetch = [&](int g) {
        if (lane > 0 || g >= groups) return;
        int bytes = min(R, M-g*R)*K*4;
        barrier_expect(address(full+warp), bytes);
        bulk_copy_evict_first(address(rows), A + (size_t)g*R*K, bytes, address(full+warp));
    };
    for (int i = threadIdx.x; i < K*COLUMNS; i += 32*WARPS) copy_async<4>(bt + i%COLUMNS*K + i/COLUMNS, B+i, true);
    if (lane == 0) { barrier_init(address(full+warp), 1); fence_mbarrier_init(); }
    fetch(begin);
    copies_wait_all();
    __syncthreads();                                                // B is complete
    for (int g = begin; g < groups; g += num_warps, phase ^= 1) {
        float o[R][COLUMNS] = {};
        while (!barrier_completed(address(full+warp), phase));
        #pragma unroll 1
        for (int c = lane*4; c < K; c += 128) {
            Vector a[R];
            #pragma unroll
            for (int y = 0; y < R; y++) a[y] = *(Vector *)(rows + y*K + c);
            #pragma unroll
            for (int x = 0; x < COLUMNS; x++) {
                Vector b = *(Vector *)(bt + x*K + c);
                #pragma unroll
                for (int y = 0; y < R; y++)
                    #pragma unroll
                    for (int v = 0; v < 4; v++) o[y][x] += a[y].v[v]*b.v[v];
            }
        }
        __syncwarp();
        fetch(g+num_warps);                   // all lanes have read: load the next rows during the reduction
        int first = 0, count = R*COLUMNS;
        reduce_lanes<R*COLUMNS, 16>(o[0], first, count);
        #pragma unroll
        for (int i = 0; i < SUMS_PER_LANE; i++) {
            int r = g*R + (first+i)/COLUMNS, x = (first+i)%COLUMNS;
            if (i < count && r < M) C[(size_t)r*COLUMNS + x] = o[0][i];
        }
    }
}
'''


# With more columns the GEMM becomes compute-bound: for 50000x784 and 32 columns the FMAs alone take 74,000 cycles,
# and the loads of A and B from shared memory 57,000. So tensor cores multiply three bf16 terms of both operands, as in
# `bf16x6`: six products, small ones first, of 32 elements along K at a time. Float32 additions, which round, accumulate
# the sums, and elements that may be wrong are recomputed. On an H100, with a cold L2 cache, this takes 71 µs; torch
# takes 76, and reading A alone 53.
#
# A warp multiplies 16 rows of A and has its own pipeline, as above. Its lanes split the elements that they have read
# into terms: lane 4g+q splits elements 8q to 8q+7 of a step in rows g and g+8, without bank conflicts. The terms of B
# are computed once per block, and stored in the order in which the lanes read them. B is loaded before A, and its terms
# are computed while A is in flight.
#
# The remaining cost is mostly that rows are loaded in chunks of 128 bytes: with 10 columns the kernel takes 66 µs.
terms_src = r'''
constexpr float MAX_VALID = 0x1p127f;                               // below this value, the sums of terms are correct

// Splits two values into three bf16 terms each: every term is the rounded remainder after the previous terms
__device__ void split_terms(float x, float y, u32 &hi, u32 &mid, u32 &lo) {
    hi = pack(x, y);
    x -= __uint_as_float(hi << 16); y -= __uint_as_float(hi & 0xffff0000u);
    mid = pack(x, y);
    lo = pack(x - __uint_as_float(mid << 16), y - __uint_as_float(mid & 0xffff0000u));
}

// A row of A times a column of B by a chain of float32 multiply-adds, until the sum is NaN
__device__ float fma_chain(const float *row, const float *column, int K) {
    float sum = 0;
    for (size_t i = 0; i < K && !isnan(sum); i++) sum = fmaf(row[i], column[i*COLUMNS], sum);
    return sum;
}
'''
multiply_terms_src = r'''
constexpr int TILES = (COLUMNS+7)/8, STEP_ELEMENTS = 16*32,              // of 8 columns; elements of a step
              BATCH = 7;                                            // tiles of B that a warp loads at once

__global__ void __launch_bounds__(32*WARPS, 1)
skinny_terms(const float *A, const float *B, float *C, int M, int N, int K) {
    extern __shared__ __align__(16) float shared[];
    int lane = threadIdx.x%32, warp = threadIdx.x/32, g = lane/4, q = lane%4;
    int steps = (K+31)/32, groups = (M+15)/16, num_warps = gridDim.x*WARPS, first = blockIdx.x + gridDim.x*warp;
    float *ring = shared + warp*STAGES*STEP_ELEMENTS;                       // of this warp
    uint4 *b_terms = (uint4 *)(shared + WARPS*STAGES*STEP_ELEMENTS);  // eight elements of a column per lane
    int next_group = first, step = 0, fill_stage = 0, read_stage = 0;
    auto fetch = [&] {                                              // prefetches STAGES-1 steps, also of the next rows
        if (next_group < groups)
            #pragma unroll
            for (int i = lane; i < STEP_ELEMENTS/4; i += 32) {
                int y = i/8, x = i%8, r = next_group*16+y, c = step*32 + x*4;
                bool in_bounds = r < M && c < K;
                copy_async<16>(ring + fill_stage*STEP_ELEMENTS + y*32 + (x ^ y%8)*4,
                               in_bounds ? A + (size_t)r*K + c : A, in_bounds);
            }
        copies_commit();
        if (++step == steps) step = 0, next_group += num_warps;
        if (++fill_stage == STAGES) fill_stage = 0;
    };
    float x[BATCH][8];
    auto load_b = [&](int begin) {
        #pragma unroll
        for (int b = 0; b < BATCH; b++)
            #pragma unroll
            for (int v = 0; v < 8; v++) {
                int i = begin + b*WARPS, r = i/TILES*32 + q*8+v, c = i%TILES*8 + g;
                x[b][v] = r < K && c < COLUMNS ? __ldg(B + (size_t)r*COLUMNS + c) : 0;
            }
    };
    load_b(warp);
    for (int s = 0; s < STAGES-1; s++) fetch();
    for (int i = warp; i < steps*TILES; i += BATCH*WARPS) {
        #pragma unroll
        for (int b = 0; b < BATCH; b++) {
            int index = i + b*WARPS;
            uint4 p[3];
            split_terms(x[b][0], x[b][1], p[0].x, p[1].x, p[2].x);
            split_terms(x[b][2], x[b][3], p[0].y, p[1].y, p[2].y);
            split_terms(x[b][4], x[b][5], p[0].z, p[1].z, p[2].z);
            split_terms(x[b][6], x[b][7], p[0].w, p[1].w, p[2].w);
            #pragma unroll
            for (int y = 0; y < 3; y++)
                if (index < steps*TILES) b_terms[((index/TILES*3 + y)*TILES + index%TILES)*32 + lane] = p[y];
        }
        if (i + BATCH*WARPS < steps*TILES) load_b(i + BATCH*WARPS);
    }
    __syncthreads();                                                // B is complete
    for (int u = first; u < groups; u += num_warps) {
        float sum[TILES][4] = {};
        for (int c = 0; c < steps; c++) {
            copies_wait<STAGES-2>();
            __syncwarp();                                           // the copies of the other lanes are visible
            u32 a[3][2][4];
            #pragma unroll
            for (int i = 0; i < 4; i++) {                           // 16 elements along K of one row
                int j = i/2, y = i%2;
                float4 v = *(float4 *)(ring + read_stage*STEP_ELEMENTS + (g + y*8)*32 + ((2*q+j) ^ g)*4);
                split_terms(v.x, v.y, a[0][j][y], a[1][j][y], a[2][j][y]);
                split_terms(v.z, v.w, a[0][j][2+y], a[1][j][2+y], a[2][j][2+y]);
            }
            if (++read_stage == STAGES) read_stage = 0;
            fetch();
            uint4 b[3][TILES];
            #pragma unroll
            for (int i = 0; i < 3*TILES; i++) b[i/TILES][i%TILES] = b_terms[(c*3*TILES + i)*32 + lane];
            float part[TILES][4] = {};
            // the small products first: lo hi, hi lo, mid mid, mid hi, hi mid, hi hi
            constexpr int A_TERM[6] = {2, 0, 1, 1, 0, 0}, B_TERM[6] = {0, 2, 1, 0, 1, 0};
            #pragma unroll
            for (int i = 0; i < 6; i++) {
                #pragma unroll
                for (int t = 0; t < TILES; t++)
                    mma(part[t], a[A_TERM[i]][0], b[B_TERM[i]][t].x, b[B_TERM[i]][t].y);
                #pragma unroll
                for (int t = 0; t < TILES; t++)
                    mma(part[t], a[A_TERM[i]][1], b[B_TERM[i]][t].z, b[B_TERM[i]][t].w);
            }
            // the tensor core truncates its sums, but these additions round
            #pragma unroll
            for (int i = 0; i < TILES*4; i++) sum[i/4][i%4] += part[i/4][i%4];
        }
        #pragma unroll
        for (int i = 0; i < TILES*4; i++) {
            int r = u*16 + g + i%4/2*8, c = i/4*8 + q*2 + i%2;
            float o = sum[i/4][i%4];
            if (r >= M || c >= COLUMNS) continue;
            if (!(fabsf(o) < MAX_VALID)) o = fma_chain(A + (size_t)r*K, B + c, K);     // also if NaN
            C[(size_t)r*COLUMNS + c] = o;
        }
    }
}
'''


# Here bulk copies load whole rows again, eight at a time; one warp issues them. Up to 14 warps split K. Each keeps two
# of the three terms of its part of B in registers, and two more warps add the partial sums. A lane overwrites elements
# that it alone has read with its partial sums, so that these need no extra shared memory, and a stage is released once,
# when all parts are added. If K is short, groups of warps take turns at stages.
#
# This takes 60 µs with 16 columns (FMAs: 66), and 61 with 32 columns. All three terms in registers would take 96 of 128
# registers; then the compiler serializes most of the products, because each waits for the accumulators of the previous
# one: 76 µs. So the third term is in shared memory, and small and large products have separate accumulators.
stages_src = files(__package__).joinpath('skinny_stages.cuh').read_text(encoding='utf-8')


add_src = r'''
__global__ void add_splits(const float *partials, float *C, int size, int splits) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i >= size) return;
    float o = 0;
    for (int s = 0; s < splits; s++) o += partials[(size_t)s*size + i];
    C[i] = o;
}
'''


# The gradient of the weights is the transpose of a long matrix times a narrow one (layout 'tn'). A is read as it is
# stored, (K, M): a lane has VEC columns of it, each row contributes one element per column, and all lanes use the same
# row of B. The partial sums of the warps are added at the end.
transposed_src = r'''
constexpr int COLUMNS_OF_A = 32*VEC, PADDED_COLUMNS = (COLUMNS+3)/4*4;   // columns of A per block; columns of B

struct alignas(16) Row { float v[PADDED_COLUMNS]; };

__global__ void __launch_bounds__(32*WARPS)
skinny_transposed(const float *A, const float *B, float *C, int M, int N, int K, int split_size) {
    extern __shared__ __align__(16) float shared[];
    int lane = threadIdx.x%32, warp = threadIdx.x/32;
    int c = blockIdx.x*COLUMNS_OF_A + lane*VEC, k_begin = blockIdx.y*split_size, k_end = min(K, k_begin+split_size);
    Row *Bs = (Row *)shared;                                        // this block's rows of B
    Vector *own_stages = (Vector *)(Bs+split_size) + warp*STAGES*R*32 + lane;
    for (int i = threadIdx.x; i < split_size*PADDED_COLUMNS; i += 32*WARPS) {
        int y = i/PADDED_COLUMNS, x = i%PADDED_COLUMNS;
        bool in_bounds = k_begin+y < k_end && x < COLUMNS;
        copy_async<4>(Bs[y].v+x, in_bounds ? B + (size_t)(k_begin+y)*COLUMNS + x : B, in_bounds);
    }
    copies_commit();
    int next_row = k_begin+warp*R, fill_stage = 0, read_stage = 0;
    auto fetch = [&] {                                              // the lane's columns of the warp's next R rows
        #pragma unroll
        for (int y = 0; y < R; y++) {
            bool in_bounds = next_row+y < k_end && c < M;
            copy_async<4*VEC>(own_stages + (fill_stage*R+y)*32,
                              in_bounds ? A + (size_t)(next_row+y)*M + c : A, in_bounds);
        }
        copies_commit();
        next_row += WARPS*R;
        if (++fill_stage == STAGES) fill_stage = 0;
    };
    for (int s = 0; s < STAGES-1; s++) fetch();
    copies_wait<STAGES-1>();
    __syncthreads();                                                // B is complete
    float o[VEC][COLUMNS] = {};
    for (int i = warp*R; i < k_end-k_begin; i += WARPS*R) {
        copies_wait<STAGES-2>();
        Vector a[R];
        #pragma unroll
        for (int y = 0; y < R; y++) a[y] = own_stages[(read_stage*R+y)*32];
        if (++read_stage == STAGES) read_stage = 0;
        fetch();
        #pragma unroll
        for (int y = 0; y < R; y++) {
            Row b = Bs[min(i+y, k_end-k_begin-1)];                          // a[y] is zero past the end
            #pragma unroll
            for (int v = 0; v < VEC; v++)
                #pragma unroll
                for (int x = 0; x < COLUMNS; x++) o[v][x] += a[y].v[v]*b.v[x];
        }
    }
    copies_wait<0>();
    __syncthreads();                    // the ring is free: it now holds the sums of each warp
    #pragma unroll
    for (int v = 0; v < VEC; v++)
        #pragma unroll
        for (int x = 0; x < COLUMNS; x++) shared[(warp*COLUMNS_OF_A + lane*VEC+v)*COLUMNS + x] = o[v][x];
    __syncthreads();
    for (int i = threadIdx.x; i < COLUMNS_OF_A*COLUMNS && blockIdx.x*COLUMNS_OF_A + i/COLUMNS < M; i += 32*WARPS) {
        float total = 0;
        for (int s = 0; s < WARPS; s++) total += shared[s*COLUMNS_OF_A*COLUMNS + i];
        C[((size_t)blockIdx.y*M + blockIdx.x*COLUMNS_OF_A)*COLUMNS + i] = total;
    }
}
'''


# For 64x64 matrices one large tile would leave all SMs but one idle. Here small tiles make many blocks, and all copies
# are of 4 bytes, so that every shape is supported.
small_src = r'''
constexpr int THREADS = BM/TM*(BN/TN), COLS = BN/TN;

// Copies x[r][c] of a matrix of M x N elements; zero if it is out of bounds
__device__ void copy_one(float *dst, const float *x, int r, int c, int M, int N) {
    bool in_bounds = r < M && c < N;
    copy_async<4>(address(dst), in_bounds ? x + (size_t)r*N + c : x, in_bounds);
}

__global__ void __launch_bounds__(THREADS) small(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ __align__(16) float As[STAGES][BK][BM+4], Bs[STAGES][BK][BN];
    int t = threadIdx.x, tr = t/COLS*TM, tc = t%COLS*4, r = blockIdx.y*BM, c = blockIdx.x*BN;
    int idx = 0, fill_stage = 0, read_stage = 0;
    auto fetch = [&] {
        if (idx < K) {
            #pragma unroll
            for (int i = t; i < BM*BK; i += THREADS) copy_one(&As[fill_stage][i%BK][i/BK], A, r+i/BK, idx+i%BK, M, K);
            #pragma unroll
            for (int i = t; i < BK*BN; i += THREADS) copy_one(&Bs[fill_stage][i/BN][i%BN], B, idx+i/BN, c+i%BN, K, N);
        }
        copies_commit();
        idx += BK;
        if (++fill_stage == STAGES) fill_stage = 0;
    };
    for (int s = 0; s < STAGES-1; s++) fetch();
    float o[TM][TN] = {};
    for (int p = 0; p < K; p += BK) {
        copies_wait<STAGES-2>();
        __syncthreads();                    // the copies of this phase have arrived; the next stage is free
        fetch();
        #pragma unroll
        for (int i = 0; i < BK; i++) {
            float a[TM], b[TN];
            #pragma unroll
            for (int y = 0; y < TM; y += 4) *(float4 *)(a+y) = *(float4 *)&As[read_stage][i][tr+y];
            #pragma unroll
            for (int x = 0; x < TN; x += 4) *(float4 *)(b+x) = *(float4 *)&Bs[read_stage][i][tc+x*COLS];
            #pragma unroll
            for (int y = 0; y < TM; y++)
                #pragma unroll
                for (int x = 0; x < TN; x++) o[y][x] += a[y]*b[x];
        }
        if (++read_stage == STAGES) read_stage = 0;
    }
    #pragma unroll
    for (int y = 0; y < TM; y++)
        #pragma unroll
        for (int x = 0; x < TN; x++) {
            int ry = r+tr+y, cx = c+tc + x/4*4*COLS + x%4;
            if (ry < M && cx < N) C[(size_t)ry*N + cx] = o[y][x];
        }
}
'''
