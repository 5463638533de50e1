// Matrix products that overlap their communication: one persistent GEMM, which computes tiles in the order in which
// other ranks need them or their operands arrive. Copy engines move the data in chunks; flags in memory signal them.
//
// All-gather (GATHER): out[r] = (x of rank r) @ w. This rank's rows come first. Rows of other ranks arrive in chunks of
// columns, so that a tile multiplies the first columns before the last ones have arrived.
// Reduce-scatter: tiles that other ranks need come first. When all tiles of a chunk of rows are in `products`, the
// kernel sets a flag, for which the stream of the copy engine waits. This rank's own tiles come last: each adds the
// product of the other rank, once that has arrived.
//
// It follows waits.cuh and epilogue_gemm.cuh, whose constants and functions it uses.

// The position of the next tile of this cluster: t.matrix is its step, from 0 (computed first) to ranks - 1.
struct OrderedTiles {
    int tile, tile_rows, tile_cols, group, ranks, M;
    __device__ OrderedTiles(int chunk_rows, int ranks, int M, int N)
        : tile(blockIdx.x/CLUSTER), tile_rows((M + CLUSTER_ROWS-1)/CLUSTER_ROWS),
          tile_cols((N + CLUSTER_COLS-1)/CLUSTER_COLS), group(chunk_rows/CLUSTER_ROWS), ranks(ranks), M(M) {}
    __device__ bool next(Tile &t) {
        int index = tile%(tile_rows*tile_cols), position = index%(group*tile_cols);
        int first = index/(group*tile_cols)*group, rows = min(group, tile_rows - first);
        t = {tile/(tile_rows*tile_cols), (first + position%rows)*CLUSTER_ROWS,
             position/rows*CLUSTER_COLS + (int)(blockIdx.x%CLUSTER)/CM*BN, M};
        tile += gridDim.x/CLUSTER;
        return t.matrix < ranks;
    }
    __device__ int warps_per_chunk(int row) const {
        return min(group, tile_rows - row/CLUSTER_ROWS/group*group)*tile_cols*CLUSTER*WGS*4;
    }
};

// The step along K at which chunk c of the columns ends: each chunk is half of the remaining columns.
__device__ int chunk_end(int c, int chunks, int steps) { return c + 1 < chunks ? steps - (steps >> (c + 1)) : steps; }

// Waits until this thread's TMA stores have been written to global memory
__device__ void stores_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Data that a copy engine has written will be read by TMA
__device__ void fence_before_tma_loads() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// Counts a warp's part of a tile; the last one of a chunk sets its flag
__device__ void signal_stored(const CopyState &state, int chunk, u32 warps) {
    u32 earlier;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(earlier) : "l"(state.num_stored + chunk) : "memory");
    if (earlier != warps - 1) return;
    state.num_stored[chunk] = 0;
    store_release(state.complete + chunk, (u32)state.round);
}

__global__ void __cluster_dims__(CLUSTER) __launch_bounds__(128*(WGS + 1), BLOCKS)
multiply_overlapped(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
                    const __grid_constant__ TensorMap out_map, const __grid_constant__ TensorMap last_map,
                    Elem *out, const Elem *inbox, const CopyState *copy_state,
                    int rank, int ranks, int chunks, int chunk_rows, int M, int N, int K) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, buffer = b + STAGES*B_BYTES + threadIdx.x/32*4096;
    u32 full = address(bars), empty = full + 8*STAGES;
    int block = blockIdx.x%CLUSTER, wg = __shfl_sync(~0u, threadIdx.x/128, 0), s = 0, phase = 0, steps = (K + BK-1)/BK;
    if (threadIdx.x == WGS*128) {
        prefetch(A);
        prefetch(B);
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, WGS*CLUSTER); }
        fence_mbarrier_init();
    }
    if (CLUSTER > 1) cluster_sync(); else __syncthreads();
    const CopyState state = *copy_state;
    const u32 round = (u32)state.round;
    const Watchdog watch = {state.report, state.timeout};
    OrderedTiles tiles(chunk_rows, ranks, M, N);
    Tile t;
    if (wg == WGS) {                                        // producer: one thread issues TMA loads
        setmaxnreg_dec<PRODUCER_REGS>();
        bool backward = false;                              // alternates directions: the last tiles are still in L2
        int source = rank, arrived = chunks;                // `arrived` chunks of this rank are known to be present
        if (threadIdx.x == WGS*128) for (; tiles.next(t); backward = !backward) {
            int matrix = (rank + t.matrix + !GATHER)%ranks;
            if (GATHER && matrix != source) { source = matrix; arrived = 0; }
            bool waits = arrived < chunks;
            for (int step = 0; step < steps; step++) {
                int k = backward && !waits ? steps-1 - step : step;
                for (; waits && arrived < chunks && (arrived == 0 || chunk_end(arrived - 1, chunks, steps) <= k);
                     arrived++) {
                    wait_arrival(state.arrived + source*MAX_COPIES + arrived, round, source, watch);
                    fence_before_tma_loads();
                }
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(full + 8*s, A_BYTES + B_BYTES);
                Tile loaded = t;
                loaded.matrix = GATHER && t.matrix == 0 ? 0 : matrix;
                const TensorMap &a_map = GATHER && t.matrix > 0 ? last_map : A;
                int row = t.row + block%CM*BM;
                load_part<CN, BM>(a + s*A_BYTES, a_map, loaded.matrix, row, k*BK, full + 8*s, block);
                for (int x = 0; x < BN; x += 64)
                    load_part<CM, BK>(b + s*B_BYTES + x/64*BOX_BYTES, B, 0, k*BK, t.column + x, full + 8*s, block);
                if (++s == STAGES) { s = 0; phase++; }
            }
        }
    } else {                                                // consumers
        setmaxnreg_inc<CONSUMER_REGS>();
        int prev_stage = -1, num_stores = 0;            // the stage of the previous step; TMA stores so far
        bool signals = threadIdx.x%128 < CLUSTER;       // thread t signals block t
        u64 da = descriptor(a + wg*M_BLOCKS*64*128, 16), db = descriptor(b, BOX_BYTES);
        EpilogueOperands operands = {nullptr, inbox, nullptr, nullptr, 1};
        float d[M_BLOCKS][BN/2];
        while (tiles.next(t)) {
            for (int step = 0; step < steps; step++) {
                barrier_wait(full + 8*s, phase);
                multiply_step(d, da + s*(A_BYTES/16), db + s*(B_BYTES/16), step > 0);
                wgmma_wait<1>();                            // the previous step has finished: its stage is empty
                if (prev_stage >= 0 && signals) barrier_arrive_at(empty + 8*prev_stage, threadIdx.x%128);
                prev_stage = s;
                if (++s == STAGES) { s = 0; phase++; }
            }
            int top = t.row + block%CM*BM + wg*M_BLOCKS*64, row = top + threadIdx.x%128/32*16 + threadIdx.x%32/4;
            const bool own = !GATHER && t.matrix == ranks - 1;
            const int chunk = t.row/chunk_rows, warps = tiles.warps_per_chunk(t.row), other = (rank + 1)%ranks;
            if (own) {                                      // there are two ranks; the other one has sent its product
                t.matrix = 0;
                if (threadIdx.x%32 == 0)
                    wait_arrival(state.arrived + other*MAX_COPIES + chunk, round, other, watch);
                __syncwarp();
            } else if (!GATHER) t.end = 0;                  // nothing is added
            else t.matrix = (rank + t.matrix)%ranks;
            LoadedOperand loaded = load_operand(operands, t, row, 0, 0, N);       // in flight during the last step
            wgmma_wait<0>();
            fence_accumulators(d);
            if (signals) barrier_arrive_at(empty + 8*prev_stage, threadIdx.x%128);
            prev_stage = -1;
            apply_epilogue(d, own ? last_map : out_map, out_map, out, operands, t, row, top, loaded, buffer, num_stores,
                           0, N, N);
            if (!GATHER && !own && threadIdx.x%32 == 0) {
                stores_wait();
                signal_stored(state, chunk, warps);
            }
        }
        if (threadIdx.x%32 == 0) stores_wait_read();
    }
    if (CLUSTER > 1) cluster_sync();                             // other blocks may still arrive at the barriers here
}
