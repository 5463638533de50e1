// FlashAttention backward for a Hopper GPU. A block computes dk and dv of a tile of keys, and adds its contribution to
// dq; it recomputes the scores. Two warpgroups have 64 keys each, and keep their dk and dv in registers; a pipeline
// loads tiles of q and dout. With P = exp(S - lse): dV = P^T @ dO, dS = P*(dO @ V^T - delta), dK = dS^T @ Q, dQ = dS @
// K; S and dS are transposed.
constexpr int COLUMN_BOXES = HD/64, TILE_BYTES = 64*HD*2;                // boxes of 64 columns; bytes of 64 rows
constexpr int K_BYTES = BN*HD*2, DS_BYTES = BN*64*2;              // bytes of the block's keys, and of dS
constexpr int CONSUMER_BARRIER = 1;  // named barrier of both warpgroups; the next two are for one warpgroup each
constexpr bool SKIPS_EARLY_ROWS = CAUSAL || WINDOW;              // later keys have a later first row

struct Shared { u32 k, v, q, dout, ds, lse_log2, delta, kv_full, q_full, dout_full, empty; };

__device__ Shared shared_layout(char *p) {
    Shared s;
    s.k = address(p); s.v = s.k + K_BYTES; s.q = s.v + K_BYTES; s.dout = s.q + STAGES*TILE_BYTES;
    s.ds = s.dout + STAGES*TILE_BYTES; s.lse_log2 = s.ds + 2*DS_BYTES; s.delta = s.lse_log2 + STAGES*BM*4;
    s.kv_full = s.delta + STAGES*BM*4; s.q_full = s.kv_full + 8;
    s.dout_full = s.q_full + 8*STAGES; s.empty = s.dout_full + 8*STAGES;
    return s;
}

// The block's keys, and the steps of BM rows that attend to some of them, from `first_step` up to but excluding
// `end_step`
struct Keys { Tile t; int head, key, first_step, end_step; };              // head of k and v

__device__ Keys keys_of(int n, const Sizes &dims, const int *lens) {
    int tiles = cdiv(dims.keys, BN), kv_heads = dims.heads/dims.group, head = n/tiles;
    int tile = DETERMINISTIC && SKIPS_EARLY_ROWS ? tiles - 1 - n%tiles : n%tiles;
    Keys k = {{head/kv_heads, 0, 0, dims.rows, dims.keys, 0, 0}, head%kv_heads, tile*BN, 0, 0};
    if (LENS) {
        k.t.rows = min(dims.rows, lens[k.t.batch]);
        k.t.keys = min(dims.keys, lens[dims.batch + k.t.batch]);
    }
    if (CAUSAL) k.first_step = k.key/BM;
    if (WINDOW) k.first_step = max(k.first_step, max(0, k.key - dims.window + 1)/BM);
    int end = WINDOW ? min(k.t.rows, k.key + BN - 1 + dims.window) : k.t.rows;
    k.end_step = k.key < k.t.keys ? max(k.first_step, cdiv(end, BM)) : k.first_step;
    return k;
}

// lse and delta per row, as `prepare_backward` stores them. This launch has the rows from `first_row` on; each head has
// `padded_rows` rows.
struct RowStats { const float *lse_log2, *delta; int first_row, padded_rows; };

__device__ void load_step(const Shared &s, const TensorMap &q, const TensorMap &dout, const RowStats &stats, int row,
                          int head, int batch, int heads, PipelineState &pipe) {
    u32 q_full = s.q_full + 8*pipe.stage, dout_full = s.dout_full + 8*pipe.stage;
    long long first = ((long long)batch*heads + head)*stats.padded_rows + stats.first_row + row;
    barrier_wait(s.empty + 8*pipe.stage, pipe.phase - 1);
    barrier_expect(q_full, TILE_BYTES + BM*4);
    for (int c = 0; c < COLUMN_BOXES; c++)
        tma_load(s.q + pipe.stage*TILE_BYTES + c*BM*128, q, c*64, row, head, batch, q_full);
    bulk_copy(s.lse_log2 + pipe.stage*BM*4, stats.lse_log2 + first, BM*4, q_full);
    barrier_expect(dout_full, TILE_BYTES + BM*4);
    for (int c = 0; c < COLUMN_BOXES; c++)
        tma_load(s.dout + pipe.stage*TILE_BYTES + c*BM*128, dout, c*64, row, head, batch, dout_full);
    bulk_copy(s.delta + pipe.stage*BM*4, stats.delta + first, BM*4, dout_full);
    pipe.next();
}
__device__ void produce(const Shared &s, const TensorMap &q, const TensorMap &k, const TensorMap &v,
                        const TensorMap &dout, const RowStats &stats, const Keys &keys, const Sizes &dims) {
    PipelineState pipe;
    barrier_expect(s.kv_full, 2*K_BYTES);
    for (int c = 0; c < COLUMN_BOXES; c++) {
        tma_load(s.k + c*BN*128, k, c*64, keys.key, keys.head, keys.t.batch, s.kv_full);
        tma_load(s.v + c*BN*128, v, c*64, keys.key, keys.head, keys.t.batch, s.kv_full);
    }
    for (int g = 0; g < dims.group; g++)
        #pragma unroll 1
        for (int i = keys.first_step; i < keys.end_step; i++)
            load_step(s, q, dout, stats, i*BM, keys.head*dims.group + g, keys.t.batch, dims.heads, pipe);
}

// Issues s = a warpgroup's 64 keys (or values) times the transpose of BM rows of q (or dout)
__device__ void start_transposed(float (&s)[BM/2], u32 keys, u32 rows) {
    fence_accumulators(s);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < HD/16; i++)
        wgmma<false, false>(s, descriptor(keys + i/4*BN*128 + i%4*32, 16),
                            descriptor(rows + i/4*BM*128 + i%4*32, 16), i > 0);
    wgmma_commit();
}
// Issues d += x @ rows with x in registers: a gradient of 64 keys
__device__ void start_gradient(float (&d)[HD/2], const u32 (&x)[BM/4], u32 rows) {
    fence_accumulators(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BM/16; i++)
        wgmma_rs<true>(d, x[4*i], x[4*i + 1], x[4*i + 2], x[4*i + 3], descriptor(rows + i*16*128, BM*128), 1);
    wgmma_commit();
}
// Issues dq = ds @ k for BM rows and the warpgroup's half of the columns
__device__ void start_dq(float (&dq)[HD/4], u32 ds, u32 k, int wg) {
    u32 column_offset = HD == 64 ? wg*64 : wg*(COLUMN_BOXES/2)*BN*128;
    fence_accumulators(dq);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BN/16; i++)
        wgmma<true, true>(dq, descriptor(ds + i*16*128, 16), descriptor(k + column_offset + i*16*128, BN*128), i > 0);
    wgmma_commit();
}

// Computes P from transposed scores: a thread's columns are rows of q, and `lse_log2` has their lse in base 2
__device__ void compute_p(float (&s)[BM/2], const float2 *lse_log2, float scale_log2) {
    #pragma unroll
    for (int i = 0; i < BM/2; i += 4) {
        float2 x = lse_log2[i + threadIdx.x%4];
        #pragma unroll
        for (int y = 0; y < 4; y++) s[i + y] = exp2_fast(s[i + y]*scale_log2 - (y%2 ? x.y : x.x));
    }
}
__device__ void compute_ds(float (&dp)[BM/2], const float (&p)[BM/2], const float2 *delta) {
    #pragma unroll
    for (int i = 0; i < BM/2; i += 4) {
        float2 x = delta[i + threadIdx.x%4];
        #pragma unroll
        for (int y = 0; y < 4; y++) dp[i + y] = p[i + y]*(dp[i + y] - (y%2 ? x.y : x.x));
    }
}
__device__ void add_bias_transposed(float (&s)[BM/2], const Keys &keys, int head, int key, int row, float scale_log2) {
    #pragma unroll
    for (int i = 0; BIASED && i < BM/2; i++)
        s[i] += bias_of(keys.t.batch, head, row + column_of(i), key + i/2%2*8)/(scale_log2*LN2);
}
__device__ void mask_transposed(float (&s)[BM/2], int key, int row, const Tile &t, int window) {
    #pragma unroll
    for (int i = 0; i < BM/2; i++)
        if (!attends(row + column_of(i), key + i/2%2*8, t, window)) s[i] = MINUS_INFINITY;
}
__device__ void pack_operand(u32 (&p)[BM/4], const float (&s)[BM/2]) {
    #pragma unroll
    for (int i = 0; i < BM/4; i++) p[i] = pack(s[2*i], s[2*i + 1]);
}
// Stores ds of the warp's 16 keys to shared memory, in the swizzled layout that the tensor cores read
__device__ void store_ds(u32 dst, const u32 (&x)[BM/4]) {
    int lane = threadIdx.x%32;
    #pragma unroll
    for (int i = 0; i < BM/16; i++)
        stmatrix(dst + lane%16*128 + ((2*i + lane/16) ^ lane%8)*16, x[4*i], x[4*i + 1], x[4*i + 2], x[4*i + 3]);
}
__device__ void add_dq(float4 *sums, const float (&dq)[HD/4]) {
    #pragma unroll
    for (int c = 0; c < HD/16; c++)
        atomicAdd(sums + c*128 + threadIdx.x%128, make_float4(dq[4*c], dq[4*c + 1], dq[4*c + 2], dq[4*c + 3]));
}

// With DETERMINISTIC, for a deterministic dq: returns the number of blocks that add to the BM rows from `row` on before
// this block. A block waits only for blocks with a lower index, which have started. Blocks that begin with later rows
// come first, so waits are rare.
__device__ int rank_of(const Keys &keys, const Sizes &dims, int row) {
    if (!SKIPS_EARLY_ROWS) return keys.key/BN;
    // the last key that these rows attend to
    int last = min(row + BM - 1 + (CAUSAL ? 0 : dims.window - 1), keys.t.keys - 1);
    return last/BN - keys.key/BN;
}
// Signals, one step later, that this warpgroup has added to its rows: by then its atomics have finished, so the fence
// is cheap.
__device__ void signal_added(int *semaphore) {
    __threadfence();
    named_sync(CONSUMER_BARRIER + 1 + threadIdx.x/128, 128);
    if (threadIdx.x%128 == 0) atomicAdd(semaphore, 1);
}
__device__ void wait_for_rank(int *semaphore, int rank) {
    if (threadIdx.x%128 == 0) {
        while (atomicAdd(semaphore, 0) != rank) __nanosleep(50);
        __threadfence();
    }
    named_sync(CONSUMER_BARRIER + 1 + threadIdx.x/128, 128);
}

struct Out { bf16 *dk, *dv; long long k_batch, k_head, k_row, v_batch, v_head, v_row; };

__device__ void store_gradients(const Out &out, const float (&dk)[HD/2], const float (&dv)[HD/2], const Keys &keys,
                                int key, int num_keys, float scale) {
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        int j = key + 8*y;
        store_row(out.dk + keys.t.batch*out.k_batch + keys.head*out.k_head + j*out.k_row, dk, y, scale, j < num_keys);
        store_row(out.dv + keys.t.batch*out.v_batch + keys.head*out.v_head + j*out.v_row, dv, y, 1, j < num_keys);
    }
}

__device__ void consume(const Shared &m, char *smem, const Keys &keys, const Sizes &dims, const RowStats &stats,
                        float4 *dq_sums, int *semaphores, const Out &out, float scale_log2, float scale) {
    int wg = threadIdx.x/128, first_key = keys.key + wg*64 + threadIdx.x%128/32*16 + threadIdx.x%32/4, buffer = 0;
    int tiles = stats.padded_rows/BM, tiles_before = stats.first_row/BM;
    u32 ds_rows = m.ds + (wg*64 + threadIdx.x%128/32*16)*128;
    int *pending = nullptr;
    PipelineState pipe;
    float dk[HD/2], dv[HD/2];
    #pragma unroll
    for (int i = 0; i < HD/2; i++) dk[i] = dv[i] = 0;
    if (keys.first_step < keys.end_step) barrier_wait(m.kv_full, 0);
    for (int g = 0; g < dims.group; g++)
        #pragma unroll 1
        for (int i = keys.first_step; i < keys.end_step; i++, buffer ^= 1) {
            float s[BM/2], dp[BM/2], dq[HD/4];
            u32 p[BM/4], ds[BM/4], q = m.q + pipe.stage*TILE_BYTES, dout = m.dout + pipe.stage*TILE_BYTES;
            barrier_wait(m.q_full + 8*pipe.stage, pipe.phase);
            start_transposed(s, m.k + wg*64*128, q);
            barrier_wait(m.dout_full + 8*pipe.stage, pipe.phase);
            start_transposed(dp, m.v + wg*64*128, dout);
            wgmma_wait<1>();                               // S is complete
            fence_accumulators(s);
            add_bias_transposed(s, keys, keys.head*dims.group + g, first_key, i*BM, scale_log2);
            if (!is_full_tile(i*BM, BM, keys.key, keys.t, dims.window))
                mask_transposed(s, first_key, i*BM, keys.t, dims.window);
            compute_p(s, (const float2 *)(smem + (m.lse_log2 - m.k) + pipe.stage*BM*4), scale_log2);
            pack_operand(p, s);
            start_gradient(dv, p, dout);
            wgmma_wait<1>();                               // dP is complete
            fence_accumulators(dp);
            compute_ds(dp, s, (const float2 *)(smem + (m.delta - m.k) + pipe.stage*BM*4));
            pack_operand(ds, dp);
            store_ds(ds_rows + buffer*DS_BYTES, ds);
            start_gradient(dk, ds, q);
            fence_for_tma();
            named_sync(CONSUMER_BARRIER, 256);             // both have stored dS and read the previous one
            start_dq(dq, m.ds + buffer*DS_BYTES, m.k, wg);
            wgmma_wait<0>();
            fence_accumulators(dq);
            fence_accumulators(dk);
            fence_accumulators(dv);
            barrier_arrive(m.empty + 8*pipe.stage);
            pipe.next();
            long long head = (long long)keys.t.batch*dims.heads + keys.head*dims.group + g;
            long long half_tile = (head*tiles + tiles_before + i)*2 + wg;
            if (DETERMINISTIC) {
                if (pending) signal_added(pending);
                pending = semaphores + half_tile;
                wait_for_rank(pending, rank_of(keys, dims, i*BM));
            }
            add_dq(dq_sums + half_tile*(HD/16)*128, dq);
        }
    if (DETERMINISTIC && pending) signal_added(pending);
    store_gradients(out, dk, dv, keys, first_key, dims.keys, scale);
}

__global__ void __launch_bounds__(384, 1)
attention_backward(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                   const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap dout, const float *lse_log2,
                   const float *delta, float4 *dq_sums, int *semaphores, bf16 *dk, bf16 *dv, const int *lens,
                   float scale_log2, float scale, int batch, int heads, int group, int rows, int keys, int window,
                   int section_heads, int first_row, int padded_rows, long long k_batch, long long k_head,
                   long long k_row, long long v_batch, long long v_head, long long v_row) {
    extern __shared__ __align__(1024) char smem[];
    Shared s = shared_layout(smem);
    Sizes dims = {batch, heads, group, rows, keys, window, section_heads};
    Keys block_keys = keys_of(blockIdx.x, dims, lens);
    RowStats stats = {lse_log2, delta, first_row, padded_rows};
    if (threadIdx.x == 256) {
        prefetch(q); prefetch(k); prefetch(v); prefetch(dout);
        barrier_init(s.kv_full, 1);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(s.q_full + 8*i, 1); barrier_init(s.dout_full + 8*i, 1); barrier_init(s.empty + 8*i, 256);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= 256) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 256 && block_keys.first_step < block_keys.end_step)
            produce(s, q, k, v, dout, stats, block_keys, dims);
    } else {
        setmaxnreg_inc<240>();
        Out out = {dk, dv, k_batch, k_head, k_row, v_batch, v_head, v_row};
        consume(s, smem, block_keys, dims, stats, dq_sums, semaphores, out, scale_log2, scale);
    }
}
