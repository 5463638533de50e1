// FlashAttention forward for a Hopper GPU: out = softmax(q @ k^T * scale) @ v, one tile of rows at a time.
// Warp-specialized: one producer thread issues TMA loads of keys and values into a multistage pipeline; each consumer
// warpgroup has 64 rows of q, and keeps their scores S, probabilities P and accumulators O in registers.
constexpr int COLUMN_BOXES = HD/64;                                     // TMA boxes of 64 columns (128 bytes)
constexpr int Q_BYTES = 64*HD*2, K_BYTES = BN*HD*2;              // per warpgroup; per tile of K or V
constexpr int WARPGROUP_BARRIER = 1;                      // ID of warpgroup 0's named barrier; one per warpgroup

struct Shared { u32 q, k, v, q_full, q_empty, k_full, k_empty, v_full, v_empty; };

__device__ Shared shared_layout(char *p) {
    Shared s;
    s.q = address(p); s.k = s.q + Q_BUFFERS*WGS*Q_BYTES; s.v = s.k + STAGES*K_BYTES;
    s.q_full = s.v + STAGES*K_BYTES; s.q_empty = s.q_full + 8*Q_BUFFERS;
    s.k_full = s.q_empty + 8*Q_BUFFERS; s.k_empty = s.k_full + 8*STAGES;
    s.v_full = s.k_empty + 8*STAGES; s.v_empty = s.v_full + 8*STAGES;
    return s;
}
__device__ void init_barriers(const Shared &s) {
    for (int i = 0; i < Q_BUFFERS; i++) { barrier_init(s.q_full + 8*i, 1); barrier_init(s.q_empty + 8*i, 128*WGS); }
    for (int i = 0; i < STAGES; i++) {
        barrier_init(s.k_full + 8*i, 1); barrier_init(s.k_empty + 8*i, WGS);
        barrier_init(s.v_full + 8*i, 1); barrier_init(s.v_empty + 8*i, WGS);
    }
    fence_mbarrier_init();
}

// The producer issues loads in the order in which consumers use them. `load_kv` loads a tile of keys or of values,
// `load_q` a tile of queries, 64 rows per warpgroup.
__device__ void load_kv(u32 dst, const TensorMap &x, int key, int head, const Tile &t, u32 full, u32 empty,
                        PipelineState &pipe) {
    barrier_wait(empty + 8*pipe.stage, pipe.phase - 1);
    barrier_expect(full + 8*pipe.stage, K_BYTES);
    for (int c = 0; c < COLUMN_BOXES; c++)
        tma_load(dst + pipe.stage*K_BYTES + c*BN*128, x, c*64, key, head, t.batch, full + 8*pipe.stage);
    pipe.next();
}
__device__ void load_q(u32 dst, const TensorMap &q, const Tile &t, u32 full) {
    barrier_expect(full, WGS*Q_BYTES);
    for (int w = 0; w < WGS; w++)
        for (int c = 0; c < COLUMN_BOXES; c++)
            tma_load(dst + w*Q_BYTES + c*64*128, q, c*64, t.row + w*64, t.head, t.batch, full);
}
template<class Map>
__device__ void produce(const Shared &s, const TensorMap &q, Map &k, Map &v, const Sizes &dims, const int *lens,
                        unsigned *tile_counter, volatile int *buffer_tile) {
    PipelineState k_pipe, v_pipe;
    int tiles = count_tiles(dims), iteration = 0;
    // dynamic scheduler: a block takes the next tile from a counter, which wraps around to 0 after the last one
    for (int n = blockIdx.x; ; n = gridDim.x + atomicInc(tile_counter, tiles - 1), iteration++) {
        bool has_tile = n < tiles;
        int buffer = iteration%Q_BUFFERS, tile = has_tile ? nth_tile(n, dims) : tiles;
        Tile t = tile_of(has_tile ? tile : 0, dims, lens);
        int head = t.head/dims.group;
        if (has_tile && t.first_step < t.end_step)
            load_kv(s.k, k, t.first_step*BN, head, t, s.k_full, s.k_empty, k_pipe);
        barrier_wait(s.q_empty + 8*buffer, iteration/Q_BUFFERS - 1);
        buffer_tile[buffer] = tile;
        if (!has_tile) { barrier_arrive(s.q_full + 8*buffer); return; }
        load_q(s.q + buffer*WGS*Q_BYTES, q, t, s.q_full + 8*buffer);
        #pragma unroll 1
        for (int j = t.first_step; j < t.end_step; j++) {
            if (j + 1 < t.end_step) load_kv(s.k, k, (j + 1)*BN, head, t, s.k_full, s.k_empty, k_pipe);
            load_kv(s.v, v, j*BN, head, t, s.v_full, s.v_empty, v_pipe);
        }
    }
}

// A consumer issues the asynchronous wgmmas of its two GEMMs: S = Q @ K^T and O += P @ V
__device__ void start_scores(float (&s)[BN/2], u32 q, u32 k) {
    fence_accumulators(s);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < HD/16; i++)                      // the next 16 columns begin 32 bytes later, or in the next box
        wgmma<false, false>(s, advance(q, i/4*64*128 + i%4*32), advance(k, i/4*BN*128 + i%4*32), i > 0);
    wgmma_commit();
}
__device__ void start_pv(float (&o)[HD/2], const u32 (&p)[BN/4], u32 v) {
    fence_accumulators(o);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BN/16; i++)                        // the next 16 keys begin 16 rows of 128 bytes later
        wgmma_rs<true>(o, p[4*i], p[4*i + 1], p[4*i + 2], p[4*i + 3], advance(v, i*16*128), 1);
    wgmma_commit();
}

__device__ int row_of_thread() { return threadIdx.x%128/32*16 + threadIdx.x%32/4; }

struct Params { const Sizes &dims; const int *lens; Out out; float scale_log2; };

// Software pipelining: S of the next step is issued before P @ V of this one, and both run while the warpgroup
// computes exponentials. Ping-pong: warpgroups take turns at WARPGROUP_BARRIER, so that the exponentials of one overlap
// with the GEMMs of another. `ks` and `vs` are the lower halves of the matrix descriptors of stage 0; `k_pipe` and
// `v_pipe` are the pipeline states of K and V.
__device__ void consume(const Shared &m, const Params &params, volatile int *buffer_tile) {
    const Sizes &dims = params.dims;
    int wg = uniform(threadIdx.x/128), tiles = count_tiles(dims), iteration = 0;
    bool signals = threadIdx.x%128 == 0;
    u32 ks = descriptor_lo(m.k, 16), vs = descriptor_lo(m.v, BN*128);
    PipelineState k_pipe, v_pipe;
    if (WGS > 1 && wg == WGS - 1) named_arrive(WARPGROUP_BARRIER, 256);  // warpgroup 0 goes first
    for (;; iteration++) {
        int buffer = iteration%Q_BUFFERS;
        u32 q = descriptor_lo(m.q + (buffer*WGS + wg)*Q_BYTES, 16);
        barrier_wait(m.q_full + 8*buffer, iteration/Q_BUFFERS);
        int n = buffer_tile[buffer];
        if (n >= tiles) return;
        Tile t = tile_of(n, dims, params.lens);
        int row = t.row + wg*64 + row_of_thread();
        float s[BN/2], o[HD/2];
        u32 p[BN/4];
        OnlineSoftmax r = {{INITIAL_MAX, INITIAL_MAX}, {0, 0}, {1, 1}};
        #pragma unroll
        for (int i = 0; i < HD/2; i++) o[i] = 0;
        if (t.first_step < t.end_step) {
            barrier_wait(m.k_full + 8*k_pipe.stage, k_pipe.phase);
            start_scores(s, q, ks + k_pipe.stage*(K_BYTES/16));
            wgmma_wait<0>();
            fence_accumulators(s);
            if (signals) barrier_arrive(m.k_empty + 8*k_pipe.stage);
            k_pipe.next();
            add_bias(s, row, t.first_step*BN, t, params.scale_log2);
            if (!is_full_tile(t.row + wg*64, 64, t.first_step*BN, t, dims.window))
                mask(s, row, t.first_step*BN, t, dims.window);
            online_softmax_step(s, r, params.scale_log2);
            pack_p(p, s);
        }
        #pragma unroll 1
        for (int j = t.first_step + 1; j < t.end_step; j++) {
            barrier_wait(m.k_full + 8*k_pipe.stage, k_pipe.phase);
            if (WGS > 1) named_sync(WARPGROUP_BARRIER + wg, 256);
            start_scores(s, q, ks + k_pipe.stage*(K_BYTES/16));
            barrier_wait(m.v_full + 8*v_pipe.stage, v_pipe.phase);
            start_pv(o, p, vs + v_pipe.stage*(K_BYTES/16));
            if (WGS > 1) named_arrive(WARPGROUP_BARRIER + (wg + 1)%WGS, 256);
            wgmma_wait<1>();                               // S is complete; P @ V may still be in flight
            fence_accumulators(s);
            if (signals) barrier_arrive(m.k_empty + 8*k_pipe.stage);
            k_pipe.next();
            add_bias(s, row, j*BN, t, params.scale_log2);
            if (!is_full_tile(t.row + wg*64, 64, j*BN, t, dims.window)) mask(s, row, j*BN, t, dims.window);
            bool max_rises = online_softmax_step(s, r, params.scale_log2);
            keep_before(r.row_sum[0] + r.row_sum[1], m.q);
            wgmma_wait<0>();
            fence_accumulators(o);
            fence_accumulators(s);                         // p is free only now
            if (signals) barrier_arrive(m.v_empty + 8*v_pipe.stage);
            v_pipe.next();
            if (max_rises) rescale(o, r);
            pack_p(p, s);
        }
        barrier_arrive(m.q_empty + 8*buffer);
        if (t.first_step < t.end_step) {
            barrier_wait(m.v_full + 8*v_pipe.stage, v_pipe.phase);
            start_pv(o, p, vs + v_pipe.stage*(K_BYTES/16));
            wgmma_wait<0>();
            fence_accumulators(o);
            if (signals) barrier_arrive(m.v_empty + 8*v_pipe.stage);
            v_pipe.next();
        }
        store_rows(o, r, params.out, t, row, dims, params.scale_log2);
    }
}

template<class Map>
__device__ void attend(char *smem, int *buffer_tile, const TensorMap &q, Map &k, Map &v, const Params &params,
                       unsigned *tile_counter) {
    Shared s = shared_layout(smem);
    if (threadIdx.x == WGS*128) { prefetch(q); prefetch(k); prefetch(v); init_barriers(s); }
    __syncthreads();
    if (threadIdx.x >= WGS*128) {
        setmaxnreg_dec<WGS == 2 ? 24 : 32>();
        if (threadIdx.x == WGS*128) produce(s, q, k, v, params.dims, params.lens, tile_counter, buffer_tile);
    } else {
        setmaxnreg_inc<WGS == 2 ? 240 : WGS == 3 ? 160 : 232>();
        consume(s, params, buffer_tile);
    }
}
