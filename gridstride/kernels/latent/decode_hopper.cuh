// MLA decoding (a latent KV cache) for a Hopper GPU; a block processes 64 rows of q, a page of the cache per step.
// Warp-specialized: one producer thread issues TMA loads of pages. One consumer warpgroup computes S and P. Two other
// warpgroups compute P @ V for half of the columns of V each, while the first one computes the P of the next page. If
// two blocks of a cluster have rows of the same sequence, each loads half of a page and multicasts it to both.
constexpr int CHUNK_BYTES = PAGE_SIZE*128;                     // 64 rows of 64 columns
constexpr int NUM_CHUNKS = HEAD_DIM_K/64;                      // per page
constexpr int PAGE_BYTES = NUM_CHUNKS*CHUNK_BYTES;             // bytes of a page, or of q
constexpr int HALF_COLUMNS = HEAD_DIM_V/2;                     // columns of a half of V
// The parts of a page, which are loaded and released separately, in this order: the RoPE columns, and the two halves of
// the values. The RoPE columns are needed only for S, so P overwrites them when S is complete. The part is free again
// as soon as P is in registers.
enum { ROPE, LEFT, RIGHT, PARTS };
__device__ int first_chunk(int part) { return part == ROPE ? NUM_CHUNKS - 1 : (part - LEFT)*(HALF_COLUMNS/64); }
__device__ int num_chunks(int part) { return part == ROPE ? 1 : HALF_COLUMNS/64; }

struct Shared {
    u32 q, pages, q_full, q_empty, full, empty, p_full, inv_sum_full, inv_sum_empty;
    float *rescale, *inv_sum;                                     // factors of the accumulators: per page, at the end
};

__device__ Shared shared_layout(char *p) {
    Shared s;
    s.q = address(p); s.pages = s.q + PAGE_BYTES;
    s.rescale = (float *)(p + (1 + STAGES)*PAGE_BYTES); s.inv_sum = s.rescale + STAGES*64;
    s.q_full = address(s.inv_sum + 64); s.q_empty = s.q_full + 8;
    s.inv_sum_full = s.q_empty + 8; s.inv_sum_empty = s.inv_sum_full + 8;
    s.full = s.inv_sum_empty + 8; s.empty = s.full + 8*PARTS*STAGES; s.p_full = s.empty + 8*PARTS*STAGES;
    return s;
}
__device__ u32 barrier_of(u32 bars, const PipelineState &pipe, int part) { return bars + 8*(pipe.stage*PARTS + part); }

__device__ void init_barriers(const Shared &s) {
    barrier_init(s.q_full, 1); barrier_init(s.q_empty, 4);
    barrier_init(s.inv_sum_full, 4); barrier_init(s.inv_sum_empty, 8);
    for (int i = 0; i < STAGES; i++) {
        barrier_init(s.p_full + 8*i, 4);
        for (int part = 0; part < PARTS; part++) {
            barrier_init(s.full + 8*(i*PARTS + part), 1);
            barrier_init(s.empty + 8*(i*PARTS + part), (part == ROPE ? 8 : 4)*CLUSTER);
        }
    }
    fence_mbarrier_init();
}
// Arrives at a barrier, with one lane per warp
__device__ void arrive(u32 bar) {
    __syncwarp();
    if (threadIdx.x%32 == 0) barrier_arrive(bar);
}
__device__ void arrive_in_cluster(u32 bar) {
    __syncwarp();
    if (CLUSTER == 1) { if (threadIdx.x%32 == 0) barrier_arrive(bar); }
    else if (threadIdx.x%32 < CLUSTER) barrier_arrive_at(bar, threadIdx.x%32);
}

// The producer issues loads in the order in which consumers use them
__device__ void load_part(const Shared &s, const TensorMap &cache, int page, int part, const PipelineState &pipe) {
    u32 full = barrier_of(s.full, pipe, part), dst = s.pages + pipe.stage*PAGE_BYTES;
    int first = first_chunk(part), end = first + num_chunks(part);
    barrier_wait(barrier_of(s.empty, pipe, part), pipe.phase - 1);
    barrier_expect(full, (end - first)*CHUNK_BYTES);
    for (int c = first; c < end; c++)
        if (CLUSTER == 1) tma_load(dst + c*CHUNK_BYTES, cache, page*PAGE_SIZE, c*64, full);
        else
            tma_load_multicast(dst + c*CHUNK_BYTES + rank()*(CHUNK_BYTES/2), cache,
                               page*PAGE_SIZE + rank()*(PAGE_SIZE/2), c*64, full, 3);
}
__device__ void load_queries(const Shared &s, const TensorMap &q, int row, int iteration) {
    barrier_wait(s.q_empty, iteration - 1);
    barrier_expect(s.q_full, PAGE_BYTES);
    for (int c = 0; c < NUM_CHUNKS; c++) tma_load(s.q + c*CHUNK_BYTES, q, row, c*64, s.q_full);
}

// `row`: the first of the block's 64 rows
struct Params {
    PieceIterator pieces;
    const int *table, *lens;
    Results results;
    float scale_log2;
    int row;
    Sizes dims;
};

__device__ void produce(const Shared &s, const TensorMap &q, const TensorMap &cache, const Params &params) {
    PipelineState pipe;
    PieceIterator it = params.pieces;
    for (int iteration = 0; it.has_next(); iteration++) {
        Piece p = it.next(params.lens, params.dims);
        for (int j = p.first; j < p.end; j++, pipe.next()) {
            int page = page_at(params.table, p.b, j, params.dims);
            for (int part = 0; part < PARTS; part++) load_part(s, cache, page, part, pipe);
            if (j == p.first) load_queries(s, q, p.b*params.dims.rows + params.row, iteration);
        }
    }
}

// Returns the first of the two rows of a thread of a warpgroup; the second one is 8 rows below.
__device__ int row_of_thread() { return threadIdx.x%128/32*16 + threadIdx.x%32/4; }

// S = Q @ K^T, by the first warpgroup
__device__ void compute_scores(float (&x)[32], const Shared &s, const PipelineState &pipe) {
    u32 keys = descriptor_lo(s.pages + pipe.stage*PAGE_BYTES, 16), qs = descriptor_lo(s.q, 16);
    #pragma unroll
    for (int n = 0; n < NUM_CHUNKS; n++) {                         // the RoPE columns first
        int part = (n + HALF_COLUMNS/64 - 1)/(HALF_COLUMNS/64), c = (n + NUM_CHUNKS - 1)%NUM_CHUNKS;
        if (c == first_chunk(part)) {
            barrier_wait(barrier_of(s.full, pipe, part), pipe.phase);
            fence_accumulators(x);
            wgmma_fence();
        }
        #pragma unroll
        for (int i = 0; i < 4; i++)                            // the next 16 columns begin 32 bytes later
            wgmma<false, false>(x, advance(qs, c*CHUNK_BYTES + i*32), advance(keys, c*CHUNK_BYTES + i*32), n + i > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    fence_accumulators(x);
}

// The online softmax of a thread's two rows, with the maximum score so far; `rescale`: the factor of the accumulators
// of earlier pages
struct OnlineSoftmax { float row_max[2], row_sum[2], rescale[2]; };

__device__ void mask(float (&x)[32], const int (&ends)[2], int key) {
    int first = key + threadIdx.x%4*2;  // signed: an end is negative if there are more new tokens than keys
    #pragma unroll
    for (int i = 0; i < 32; i++)
        if (first + i/4*8 + i%2 >= ends[i/2%2]) x[i] = MINUS_INFINITY;
}
__device__ void online_softmax_step(float (&x)[32], OnlineSoftmax &r, float scale_log2) {
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        float row_max = r.row_max[y];
        #pragma unroll
        for (int i = 2*y; i < 32; i += 4) row_max = fmaxf(row_max, fmaxf(x[i], x[i + 1]));
        row_max = quad_max(row_max);
        float base = row_max == MINUS_INFINITY ? 0 : row_max*scale_log2;    // avoids NaN while a row has no key
        r.rescale[y] = exp2_fast(r.row_max[y]*scale_log2 - base);
        r.row_max[y] = row_max;
        r.row_sum[y] *= r.rescale[y];
        #pragma unroll
        for (int i = 2*y; i < 32; i += 4) {
            x[i] = exp2_fast(x[i]*scale_log2 - base);
            x[i + 1] = exp2_fast(x[i + 1]*scale_log2 - base);
            r.row_sum[y] += x[i] + x[i + 1];
        }
    }
}
// Returns the swizzled address that a lane passes to ldmatrix or stmatrix for P of 16 keys: a row of one of four 8x8
// matrices
__device__ u32 p_address(u32 page, int i) {
    int lane = threadIdx.x%32, row = threadIdx.x%128/32*16 + lane/8%2*8 + lane%8;
    return page + (NUM_CHUNKS - 1)*CHUNK_BYTES + row*128 + ((2*i + lane/16) ^ row%8)*16;
}
__device__ void store_p(const float (&x)[32], const OnlineSoftmax &r, const Shared &s, const PipelineState &pipe) {
    u32 page = s.pages + pipe.stage*PAGE_BYTES;
    #pragma unroll
    for (int i = 0; i < PAGE_SIZE/16; i++) {
        const float *e = x + 8*i;
        stmatrix(p_address(page, i), pack(e[0], e[1]), pack(e[2], e[3]), pack(e[4], e[5]), pack(e[6], e[7]));
    }
    if (threadIdx.x%4 == 0) {
        s.rescale[pipe.stage*64 + row_of_thread()] = r.rescale[0];
        s.rescale[pipe.stage*64 + row_of_thread() + 8] = r.rescale[1];
    }
    arrive(s.p_full + 8*pipe.stage);
}
__device__ void finish_rows(const OnlineSoftmax &r, const Shared &s, const Params &params, const Piece &p,
                            int iteration) {
    barrier_wait(s.inv_sum_empty, iteration - 1);
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        int i = row_of_thread() + 8*y;
        float sum = quad_sum(r.row_sum[y]);
        if (threadIdx.x%4 == 0) {
            s.inv_sum[i] = sum > 0 ? 1/sum : 0;
            if (params.row + i < params.dims.rows)
                store_lse(params.results, p, params.row + i,
                          sum > 0 ? r.row_max[y]*params.scale_log2 + log2f(sum) : MINUS_INFINITY, params.dims);
        }
    }
    arrive(s.inv_sum_full);
}
__device__ void compute_probabilities(const Shared &s, const Params &params) {
    PipelineState pipe;
    PieceIterator it = params.pieces;
    int last = params.dims.rows - 1, row = params.row + row_of_thread();
    for (int iteration = 0; uniform(it.has_next()); iteration++) {
        Piece p = it.next(params.lens, params.dims);
        int len = uniform(params.lens[p.b]);
        p.first = uniform(p.first); p.end = uniform(p.end);
        int ends[2] = {key_end(min(row, last), len, params.dims), key_end(min(row + 8, last), len, params.dims)};
        int min_end = key_end(params.row, len, params.dims);        // the smallest of all 64 rows
        OnlineSoftmax r = {{MINUS_INFINITY, MINUS_INFINITY}, {0, 0}, {1, 1}};
        barrier_wait(s.q_full, iteration);
        #pragma unroll 1
        for (int j = p.first; j < p.end; j++, pipe.next()) {
            float x[32];
            compute_scores(x, s, pipe);
            if (j + 1 == p.end) arrive(s.q_empty);
            if ((j + 1)*PAGE_SIZE > min_end) mask(x, ends, j*PAGE_SIZE);
            online_softmax_step(x, r, params.scale_log2);
            store_p(x, r, s, pipe);
        }
        finish_rows(r, s, params, p, iteration);
    }
}

// The other two warpgroups, each with two accumulators of 64 registers per thread. One wgmma with N = 256 would need
// more registers than ptxas allows for a block of 512 threads
__device__ void rescale(float (&o)[2][HALF_COLUMNS/4], const float *rescale) {
    float a = rescale[row_of_thread()], b = rescale[row_of_thread() + 8];
    if (!__any_sync(~0u, a != 1 || b != 1)) return;            // the maximum did not rise, as for most pages
    #pragma unroll
    for (int i = 0; i < HALF_COLUMNS/2; i++) o[i/(HALF_COLUMNS/4)][i%(HALF_COLUMNS/4)] *= i/2%2 ? b : a;
}
// Sets the values of keys past the end to 0: their P is 0, but 0 times a NaN in the cache is NaN
__device__ void clear_values(u32 values, int first_key, int half) {
    for (int i = threadIdx.x%128; i < (PAGE_SIZE - first_key)*(HALF_COLUMNS/8); i += 128) {
        u32 address_of_zeros = values + i%(HALF_COLUMNS/64)*CHUNK_BYTES + first_key*128 + i/(HALF_COLUMNS/64)*16;
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" :: "r"(address_of_zeros), "r"(0) : "memory");
    }
    fence_for_tma();
    named_sync(1 + half, 128);
}
__device__ void load_p(u32 (&p)[PAGE_SIZE/16][4], u32 page) {
    #pragma unroll
    for (int i = 0; i < PAGE_SIZE/16; i++) ldmatrix(p[i], p_address(page, i));
}
__device__ void start_pv(float (&o)[2][HALF_COLUMNS/4], const u32 (&p)[PAGE_SIZE/16][4], u32 values) {
    u32 v = descriptor_lo(values, CHUNK_BYTES);
    fence_accumulators(o);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < PAGE_SIZE/16; i++)                          // 16 keys, which are 16 rows of V
        #pragma unroll
        for (int h = 0; h < 2; h++)
            wgmma_rs<true>(o[h], p[i][0], p[i][1], p[i][2], p[i][3],
                           advance(v, h*(HALF_COLUMNS/128)*CHUNK_BYTES + i*16*128), 1);
    wgmma_commit();
}
__device__ void accumulate_pv(const Shared &s, const Params &params, int half) {
    PipelineState pipe;
    PieceIterator it = params.pieces;
    for (int iteration = 0; uniform(it.has_next()); iteration++) {
        Piece p = it.next(params.lens, params.dims);
        int remainder = uniform(params.lens[p.b]%PAGE_SIZE);
        p.first = uniform(p.first); p.end = uniform(p.end); p.num_pages = uniform(p.num_pages);
        float o[2][HALF_COLUMNS/4] = {}, inv_sum[2];
        #pragma unroll 1
        for (int j = p.first; j < p.end; j++, pipe.next()) {
            u32 page = s.pages + pipe.stage*PAGE_BYTES, values = page + half*(HALF_COLUMNS/64)*CHUNK_BYTES;
            u32 x[PAGE_SIZE/16][4];
            barrier_wait(barrier_of(s.full, pipe, LEFT + half), pipe.phase);
            barrier_wait(s.p_full + 8*pipe.stage, pipe.phase);
            load_p(x, page);
            rescale(o, s.rescale + pipe.stage*64);
            if (remainder && j + 1 == p.num_pages) clear_values(values, remainder, half);
            start_pv(o, x, values);
            fence_for_tma();                                   // loads may overwrite P
            arrive_in_cluster(barrier_of(s.empty, pipe, ROPE));
            wgmma_wait<0>();
            fence_accumulators(o);
            arrive_in_cluster(barrier_of(s.empty, pipe, LEFT + half));
        }
        barrier_wait(s.inv_sum_full, iteration);
        for (int y = 0; y < 2; y++) inv_sum[y] = s.inv_sum[row_of_thread() + 8*y];
        arrive(s.inv_sum_empty);
        #pragma unroll
        for (int y = 0; y < 2; y++) {
            int i = params.row + row_of_thread() + 8*y;
            #pragma unroll
            for (int h = 0; h < 2 && i < params.dims.rows; h++)
                store_output(o[h], y, inv_sum[y], params.results, p, i, half*HALF_COLUMNS + h*HALF_COLUMNS/2,
                             params.dims);
        }
    }
}

__global__ void __launch_bounds__(512, 1)
decode(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap cache, const int *table, const int *lens,
       Elem *out, float *lse, float *partial_out, float *partial_lse,
       float scale_log2, int batch, int rows, int heads, int pages, int table_columns, int splits) {
    asm volatile("griddepcontrol.launch_dependents;");         // PDL: the merge may start when blocks of this grid end
    extern __shared__ __align__(1024) char smem[];
    Shared s = shared_layout(smem);
    if (threadIdx.x == 384) { prefetch(q); prefetch(cache); init_barriers(s); }
    Sizes dims = {batch, rows, heads, pages, table_columns, splits};
    PieceIterator pieces = pieces_of_block(lens, dims);
    Params params = {pieces, table, lens, {out, lse, partial_out, partial_lse}, scale_log2, (int)blockIdx.x*64, dims};
    if (CLUSTER > 1) cluster_sync();                           // the barriers of the other block are initialized, too
    int wg = uniform(threadIdx.x/128);
    if (wg == 0) { setmaxnreg_dec<112>(); compute_probabilities(s, params); }
    else if (wg < 3) { setmaxnreg_inc<176>(); accumulate_pv(s, params, wg - 1); }
    else {
        setmaxnreg_dec<48>();
        if (threadIdx.x == 384) produce(s, q, cache, params);
    }
    if (CLUSTER > 1) cluster_sync();  // the other block may still arrive at this block's barriers
}
