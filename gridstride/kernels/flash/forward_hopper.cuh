// out = softmax(q @ k^T * scale) @ v, a tile of rows at a time, for a Hopper GPU.
// One thread orders copies of keys and values into a ring; each warpgroup of the others has 64 rows of q, and keeps
// their scores, their shares and their sums in registers.
constexpr int PARTS = HD/64;                                     // boxes of 64 columns, 128 bytes
constexpr int Q_BYTES = 64*HD*2, K_BYTES = BN*HD*2;              // of a warpgroup's rows; of a step's keys, or values
constexpr int TURNS = 1;                                         // the barrier at which warpgroup 0 waits for its turn

struct Shared { u32 q, k, v, q_full, q_empty, k_full, k_empty, v_full, v_empty; };

__device__ Shared lay_out(char *p) {
    Shared s;
    s.q = address(p); s.k = s.q + AHEAD*WGS*Q_BYTES; s.v = s.k + STAGES*K_BYTES;
    s.q_full = s.v + STAGES*K_BYTES; s.q_empty = s.q_full + 8*AHEAD;
    s.k_full = s.q_empty + 8*AHEAD; s.k_empty = s.k_full + 8*STAGES;
    s.v_full = s.k_empty + 8*STAGES; s.v_empty = s.v_full + 8*STAGES;
    return s;
}
__device__ void make_barriers(const Shared &s) {
    for (int i = 0; i < AHEAD; i++) { barrier_init(s.q_full + 8*i, 1); barrier_init(s.q_empty + 8*i, 128*WGS); }
    for (int i = 0; i < STAGES; i++) {
        barrier_init(s.k_full + 8*i, 1); barrier_init(s.k_empty + 8*i, WGS);
        barrier_init(s.v_full + 8*i, 1); barrier_init(s.v_empty + 8*i, WGS);
    }
    barriers_ready();
}

// The producer: copies that it orders, in the order in which they are used
__device__ void load_keys(u32 to, const TensorMap &x, int key, int head, const Tile &t, u32 full, u32 empty,
                          Place &at) {
    barrier_wait(empty + 8*at.stage, at.turn - 1);
    barrier_expect(full + 8*at.stage, K_BYTES);
    for (int c = 0; c < PARTS; c++)
        tma_load(to + at.stage*K_BYTES + c*BN*128, x, c*64, key, head, t.batch, full + 8*at.stage);
    at.next();
}
__device__ void load_rows(u32 to, const TensorMap &q, const Tile &t, u32 full) {
    barrier_expect(full, WGS*Q_BYTES);
    for (int w = 0; w < WGS; w++)
        for (int c = 0; c < PARTS; c++)
            tma_load(to + w*Q_BYTES + c*64*128, q, c*64, t.row + w*64, t.head, t.batch, full);
}
template<class Map>
__device__ void produce(const Shared &s, const TensorMap &q, Map &k, Map &v, const Sizes &z, const int *lens,
                        unsigned *taken, volatile int *which) {
    Place key, value;
    int tiles = count_tiles(z), turn = 0;
    for (int n = blockIdx.x; ; n = gridDim.x + atomicInc(taken, tiles - 1), turn++) {    // all of them: 0 again
        bool more = n < tiles;
        int place = turn%AHEAD, tile = more ? nth_tile(n, z) : tiles;
        Tile t = tile_of(more ? tile : 0, z, lens);
        int head = t.head/z.group;
        if (more && t.first < t.last) load_keys(s.k, k, t.first*BN, head, t, s.k_full, s.k_empty, key);
        barrier_wait(s.q_empty + 8*place, turn/AHEAD - 1);
        which[place] = tile;
        if (!more) { barrier_arrive(s.q_full + 8*place); return; }
        load_rows(s.q + place*WGS*Q_BYTES, q, t, s.q_full + 8*place);
        #pragma unroll 1
        for (int j = t.first; j < t.last; j++) {
            if (j + 1 < t.last) load_keys(s.k, k, (j + 1)*BN, head, t, s.k_full, s.k_empty, key);
            load_keys(s.v, v, j*BN, head, t, s.v_full, s.v_empty, value);
        }
    }
}

// The products of a consumer
__device__ void start_scores(float (&s)[BN/2], u32 q, u32 k) {
    fence_sums(s);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < HD/16; i++)                        // 16 columns: 32 bytes on, or the next box
        wgmma<false, false>(s, behind(q, i/4*64*128 + i%4*32), behind(k, i/4*BN*128 + i%4*32), i > 0);
    wgmma_commit();
}
__device__ void start_sums(float (&o)[HD/2], const u32 (&p)[BN/4], u32 v) {
    fence_sums(o);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BN/16; i++)                        // 16 keys: 16 rows of 128 bytes on
        wgmma_kept<true>(o, p[4*i], p[4*i + 1], p[4*i + 2], p[4*i + 3], behind(v, i*16*128), 1);
    wgmma_commit();
}

__device__ int row_of_thread() { return threadIdx.x%128/32*16 + threadIdx.x%32/4; }

struct Work { const Sizes &z; const int *lens; Out out; float factor; };

// The next product of scores is started before the shares of the last one are summed, and the sums run while this
// warpgroup computes exponentials; warpgroups take turns, so that one's exponentials run beside another's products.
__device__ void consume(const Shared &m, const Work &work, volatile int *which) {
    const Sizes &z = work.z;
    int wg = uniform(threadIdx.x/128), tiles = count_tiles(z), turn = 0;
    bool tells = threadIdx.x%128 == 0;
    u32 ks = half_descriptor(m.k, 16), vs = half_descriptor(m.v, BN*128);
    Place key, value;
    if (WGS > 1 && wg == WGS - 1) named_arrive(TURNS, 256);              // the first turn is warpgroup 0's
    for (;; turn++) {
        int place = turn%AHEAD;
        u32 q = half_descriptor(m.q + (place*WGS + wg)*Q_BYTES, 16);
        barrier_wait(m.q_full + 8*place, turn/AHEAD);
        int n = which[place];
        if (n >= tiles) return;
        Tile t = tile_of(n, z, work.lens);
        int row = t.row + wg*64 + row_of_thread();
        float s[BN/2], o[HD/2];
        u32 p[BN/4];
        Rows r = {{LEAST, LEAST}, {0, 0}, {1, 1}};
        #pragma unroll
        for (int i = 0; i < HD/2; i++) o[i] = 0;
        if (t.first < t.last) {
            barrier_wait(m.k_full + 8*key.stage, key.turn);
            start_scores(s, q, ks + key.stage*(K_BYTES/16));
            wgmma_wait<0>();
            fence_sums(s);
            if (tells) barrier_arrive(m.k_empty + 8*key.stage);
            key.next();
            add_bias(s, row, t.first*BN, t, work.factor);
            if (!looks_at_all(t.row + wg*64, 64, t.first*BN, t, z.window)) mask(s, row, t.first*BN, t, z.window);
            take_shares(s, r, work.factor);
            keep_shares(p, s);
        }
        #pragma unroll 1
        for (int j = t.first + 1; j < t.last; j++) {
            barrier_wait(m.k_full + 8*key.stage, key.turn);
            if (WGS > 1) named_sync(TURNS + wg, 256);
            start_scores(s, q, ks + key.stage*(K_BYTES/16));
            barrier_wait(m.v_full + 8*value.stage, value.turn);
            start_sums(o, p, vs + value.stage*(K_BYTES/16));
            if (WGS > 1) named_arrive(TURNS + (wg + 1)%WGS, 256);
            wgmma_wait<1>();                               // the scores are there; the sums may still run
            fence_sums(s);
            if (tells) barrier_arrive(m.k_empty + 8*key.stage);
            key.next();
            add_bias(s, row, j*BN, t, work.factor);
            if (!looks_at_all(t.row + wg*64, 64, j*BN, t, z.window)) mask(s, row, j*BN, t, z.window);
            bool rises = take_shares(s, r, work.factor);
            keep_before(r.sum[0] + r.sum[1], m.q);
            wgmma_wait<0>();
            fence_sums(o);
            fence_sums(s);                                 // p is free only now
            if (tells) barrier_arrive(m.v_empty + 8*value.stage);
            value.next();
            if (rises) rescale(o, r);
            keep_shares(p, s);
        }
        barrier_arrive(m.q_empty + 8*place);
        if (t.first < t.last) {
            barrier_wait(m.v_full + 8*value.stage, value.turn);
            start_sums(o, p, vs + value.stage*(K_BYTES/16));
            wgmma_wait<0>();
            fence_sums(o);
            if (tells) barrier_arrive(m.v_empty + 8*value.stage);
            value.next();
        }
        store_rows(o, r, work.out, t, row, z, work.factor);
    }
}

template<class Map>
__device__ void attend(char *room, int *which, const TensorMap &q, Map &k, Map &v, const Work &work, unsigned *taken) {
    Shared s = lay_out(room);
    if (threadIdx.x == WGS*128) { prefetch(q); prefetch(k); prefetch(v); make_barriers(s); }
    __syncthreads();
    if (threadIdx.x >= WGS*128) {
        registers_down<WGS == 2 ? 24 : 32>();
        if (threadIdx.x == WGS*128) produce(s, q, k, v, work.z, work.lens, taken, which);
    } else {
        registers_up<WGS == 2 ? 240 : WGS == 3 ? 160 : 232>();
        consume(s, work, which);
    }
}
