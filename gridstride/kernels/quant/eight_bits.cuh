// Computes out = (A @ B.T) * a_scales * b_scales, with one scale per row of A (M x K) and of B (N x K). A and B are
// e4m3 or 8-bit integers; out is bfloat16. A cluster of two blocks computes a tile of 2*BM x BN; both blocks need the
// same tile of B, which is loaded once, by multicast.
// Requires definitions of BM, BN, BK (128 bytes), STAGES, GROUP (rows of tiles that are visited together), wgmma, and
// Sum, the type of the accumulators.
constexpr int A_BYTES = BM*BK, B_BYTES = BN*BK;                     // of the tiles of one stage

// Keeps the compiler from moving accesses to the accumulators across a call, like `fence_accumulators` for floats.
template<int M, int N> __device__ void fence_accumulators(int (&d)[M][N]) {
    #pragma unroll
    for (int i = 0; i < M*N; i++) asm volatile("" : "+r"(d[i/N][i%N]) :: "memory");
}

// Issues d (+)= the product of one stage for 64 rows.
__device__ void multiply(Sum (&d)[1][BN/2], u32 a, u32 b, bool accumulate) {
    fence_accumulators(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BK; i += 32) wgmma(d[0], descriptor(a + i, 16), descriptor(b + i, 16), accumulate || i > 0);
    wgmma_commit();
}

// Computes the row and column of a tile: tiles are visited in bands of GROUP rows, column by column within a band, so
// that the L2 cache serves both operands.
__device__ void tile_position(int tile, int tile_rows, int tile_columns, int &tr, int &tc) {
    int band = tile/(GROUP*tile_columns), position = tile%(GROUP*tile_columns);
    int rows = min(GROUP, tile_rows - band*GROUP);
    tr = band*GROUP + position%rows; tc = position/rows;
}

// Waits until at most one TMA store still reads shared memory.
__device__ void stores_wait_read_except_last() { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }

// Scales a warp's 16 x BN accumulators and stores them at row r and column c, 64 columns at a time, through two
// staging buffers of 2048 bytes (double buffering), the first of them at `buffer`.
__device__ void store_scaled(Sum (&d)[BN/2], const TensorMap &out, const float *a_scales, const float *b_scales,
                             int M, int N, int r, int c, u32 buffer) {
    int lane = threadIdx.x%32, tr = lane%16, row = r + lane/4, column = c + lane%4*2;
    float upper = row < M ? a_scales[row] : 0, lower = row + 8 < M ? a_scales[row + 8] : 0;
    float2 column_scales[BN/8];                                     // loaded before the first wait
    #pragma unroll
    for (int i = 0; i < BN/8; i++)
        column_scales[i] = column + i*8 < N ? *(const float2 *)(b_scales + column + i*8) : float2{0, 0};
    #pragma unroll
    for (int x = 0; x < BN; x += 64) {
        u32 staging = buffer + x/64%2*2048;
        if (lane == 0) stores_wait_read_except_last();                  // frees the buffer that is filled next
        __syncwarp();
        #pragma unroll
        for (int y = 0; y < 64; y += 16) {
            u32 v[4];
            #pragma unroll
            for (int i = 0; i < 2; i++) {                           // eight columns
                Sum *e = d + (x + y)/2 + i*4;
                float2 scale = column_scales[(x + y)/8 + i];
                v[2*i] = pack(e[0]*upper*scale.x, e[1]*upper*scale.y);
                v[2*i + 1] = pack(e[2]*lower*scale.x, e[3]*lower*scale.y);
            }
            stmatrix(staging + tr*128 + ((y/8 + lane/16) ^ tr%8)*16, v[0], v[1], v[2], v[3]);
        }
        fence_for_tma();
        __syncwarp();
        if (lane == 0) { tma_store(out, r, c + x, staging); stores_commit(); }
    }
}

__global__ void __cluster_dims__(2) __launch_bounds__(384, 1)
multiply_rows(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
              const __grid_constant__ TensorMap out, const float *a_scales, const float *b_scales, int M, int N,
              int K) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 barriers[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, buffers = b + STAGES*B_BYTES;
    u32 full = address(barriers), empty = full + 8*STAGES;
    int tile_rows = (M + 2*BM-1)/(2*BM), tile_columns = (N + BN-1)/BN, tr, tc, s = 0, phase = 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 2*2); }
        fence_mbarrier_init();
    }
    cluster_sync();
    int wg = __shfl_sync(~0u, threadIdx.x/128, 0), warp = threadIdx.x/32, t = threadIdx.x%128, prev_stage = -1;
    if (wg < 2) {                                                   // consumers
        setmaxnreg_inc<232>();
        Sum d[1][BN/2];
        for (int tile = blockIdx.x/2; tile < tile_rows*tile_columns; tile += gridDim.x/2) {
            tile_position(tile, tile_rows, tile_columns, tr, tc);
            for (int idx = 0; idx < K; idx += BK) {
                barrier_wait(full + 8*s, phase);
                multiply(d, a + s*A_BYTES + wg*64*BK, b + s*B_BYTES, idx > 0);
                wgmma_wait<1>();                        // the previous product is complete: its stage is free
                if (prev_stage >= 0 && t < 2) barrier_arrive_at(empty + 8*prev_stage, t);
                prev_stage = s;
                if (++s == STAGES) { s = 0; phase++; }
            }
            wgmma_wait<0>();
            fence_accumulators(d);
            if (t < 2) barrier_arrive_at(empty + 8*prev_stage, t);
            prev_stage = -1;
            store_scaled(d[0], out, a_scales, b_scales, M, N, (2*tr + rank())*BM + warp*16, tc*BN, buffers + warp*4096);
        }
        if (threadIdx.x%32 == 0) stores_wait_read();
    } else {                                                        // producer
        setmaxnreg_dec<40>();
        if (threadIdx.x == 256) for (int tile = blockIdx.x/2; tile < tile_rows*tile_columns; tile += gridDim.x/2) {
            tile_position(tile, tile_rows, tile_columns, tr, tc);
            for (int idx = 0; idx < K; idx += BK) {
                u32 bar = full + 8*s, half = rank()*BN/2;
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(bar, A_BYTES + B_BYTES);
                tma_load(a + s*A_BYTES, a_map, (2*tr + rank())*BM, idx, bar);
                tma_load_multicast(b + s*B_BYTES + half*BK, b_map, tc*BN + half, idx, bar, 3);
                if (++s == STAGES) { s = 0; phase++; }
            }
        }
    }
    cluster_sync();                        // other blocks may still arrive at this block's barriers
}
