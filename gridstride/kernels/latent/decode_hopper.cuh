// A piece after the other, for a Hopper GPU: 64 rows of q against a page of the cache at a time.
// One thread orders copies of pages. A warpgroup makes scores, and shares of them; two more have half of the values'
// columns each, and multiply shares by values while the first makes the next page's. Where two blocks of a cluster have
// rows of the same of the batch, each copies half of a page to both.
constexpr int CHUNK = PAGE*128, CHUNKS = DIM/64;               // bytes of 64 rows of 64 columns; of a page
constexpr int BYTES = CHUNKS*CHUNK, COLUMNS = VALUES/2;        // of a page, or of q; of a half
// What is copied, and given back, at once, in this order: the columns that were rotated, and those of either half. The
// rotated have no values: when the scores are there, the shares take their place, which is free as soon as these lie in
// registers.
enum { ROTATED, LEFT, RIGHT, PARTS };
__device__ int first_of(int part) { return part == ROTATED ? CHUNKS - 1 : (part - LEFT)*(COLUMNS/64); }
__device__ int chunks_of(int part) { return part == ROTATED ? 1 : COLUMNS/64; }

struct Shared {
    u32 q, pages, q_full, q_empty, full, empty, shares_full, each_full, each_empty;
    float *less, *each;                                        // what sums are multiplied by: for a page, at the end
};

__device__ Shared lay_out(char *p) {
    Shared s;
    s.q = address(p); s.pages = s.q + BYTES;
    s.less = (float *)(p + (1 + STAGES)*BYTES); s.each = s.less + STAGES*64;
    s.q_full = address(s.each + 64); s.q_empty = s.q_full + 8;
    s.each_full = s.q_empty + 8; s.each_empty = s.each_full + 8;
    s.full = s.each_empty + 8; s.empty = s.full + 8*PARTS*STAGES; s.shares_full = s.empty + 8*PARTS*STAGES;
    return s;
}
__device__ u32 barrier_of(u32 bars, const Place &at, int part) { return bars + 8*(at.stage*PARTS + part); }

// Barriers are told by a lane of each warp
__device__ void make_barriers(const Shared &s) {
    barrier_init(s.q_full, 1); barrier_init(s.q_empty, 4);
    barrier_init(s.each_full, 4); barrier_init(s.each_empty, 8);
    for (int i = 0; i < STAGES; i++) {
        barrier_init(s.shares_full + 8*i, 4);
        for (int part = 0; part < PARTS; part++) {
            barrier_init(s.full + 8*(i*PARTS + part), 1);
            barrier_init(s.empty + 8*(i*PARTS + part), (part == ROTATED ? 8 : 4)*CLUSTER);
        }
    }
    barriers_ready();
}
__device__ void tell(u32 bar) {
    __syncwarp();
    if (threadIdx.x%32 == 0) barrier_arrive(bar);
}
__device__ void tell_cluster(u32 bar) {
    __syncwarp();
    if (CLUSTER == 1) { if (threadIdx.x%32 == 0) barrier_arrive(bar); }
    else if (threadIdx.x%32 < CLUSTER) barrier_arrive_at(bar, threadIdx.x%32);
}

// The producer: copies that it orders, in the order in which they are used
__device__ void load_part(const Shared &s, const TensorMap &cache, int page, int part, const Place &at) {
    u32 full = barrier_of(s.full, at, part), to = s.pages + at.stage*BYTES;
    int first = first_of(part), last = first + chunks_of(part);
    barrier_wait(barrier_of(s.empty, at, part), at.turn - 1);
    barrier_expect(full, (last - first)*CHUNK);
    for (int c = first; c < last; c++)
        if (CLUSTER == 1) tma_load(to + c*CHUNK, cache, page*PAGE, c*64, full);
        else tma_load_for(to + c*CHUNK + rank()*(CHUNK/2), cache, page*PAGE + rank()*(PAGE/2), c*64, full, 3);
}
__device__ void load_queries(const Shared &s, const TensorMap &q, int row, int turn) {
    barrier_wait(s.q_empty, turn - 1);
    barrier_expect(s.q_full, BYTES);
    for (int c = 0; c < CHUNKS; c++) tma_load(s.q + c*CHUNK, q, row, c*64, s.q_full);
}

// `row`: the first of the block's 64
struct Work { Walk walk; const int *table, *lens; Results to; float factor; int row; Sizes z; };

__device__ void produce(const Shared &s, const TensorMap &q, const TensorMap &cache, const Work &work) {
    Place at;
    Walk w = work.walk;
    for (int turn = 0; w.more(); turn++) {
        Piece p = w.next(work.lens, work.z);
        for (int j = p.first; j < p.last; j++, at.next()) {
            int page = page_at(work.table, p.b, j, work.z);
            for (int part = 0; part < PARTS; part++) load_part(s, cache, page, part, at);
            if (j == p.first) load_queries(s, q, p.b*work.z.rows + work.row, turn);
        }
    }
}

// A thread of a warpgroup has two rows of 64, this one and the eighth below
__device__ int row_of_thread() { return threadIdx.x%128/32*16 + threadIdx.x%32/4; }

// The first warpgroup
__device__ void find_scores(float (&x)[32], const Shared &s, const Place &at) {
    u32 keys = half_descriptor(s.pages + at.stage*BYTES, 16), qs = half_descriptor(s.q, 16);
    #pragma unroll
    for (int n = 0; n < CHUNKS; n++) {                         // the rotated columns first
        int part = (n + COLUMNS/64 - 1)/(COLUMNS/64), c = (n + CHUNKS - 1)%CHUNKS;
        if (c == first_of(part)) {
            barrier_wait(barrier_of(s.full, at, part), at.turn);
            fence_sums(x);
            wgmma_fence();
        }
        #pragma unroll
        for (int i = 0; i < 4; i++)                            // 16 columns: 32 bytes on
            wgmma<false, false>(x, behind(qs, c*CHUNK + i*32), behind(keys, c*CHUNK + i*32), n + i > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    fence_sums(x);
}

// The online softmax of two rows: scores become shares of the highest so far; `less`: what the shares before are worth
struct Rows { float top[2], sum[2], less[2]; };

__device__ void mask(float (&x)[32], const int (&ends)[2], int key) {
    int first = key + threadIdx.x%4*2;                         // an int: an end is below 0 where tokens outnumber keys
    #pragma unroll
    for (int i = 0; i < 32; i++)
        if (first + i/4*8 + i%2 >= ends[i/2%2]) x[i] = LOWEST;
}
__device__ void take_shares(float (&x)[32], Rows &r, float factor) {
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        float top = r.top[y];
        #pragma unroll
        for (int i = 2*y; i < 32; i += 4) top = fmaxf(top, fmaxf(x[i], x[i + 1]));
        top = of_quad_max(top);
        float base = top == LOWEST ? 0 : top*factor;           // of a row that looks at nothing yet: no NaN
        r.less[y] = exp2_fast(r.top[y]*factor - base);
        r.top[y] = top;
        r.sum[y] *= r.less[y];
        #pragma unroll
        for (int i = 2*y; i < 32; i += 4) {
            x[i] = exp2_fast(x[i]*factor - base);
            x[i + 1] = exp2_fast(x[i + 1]*factor - base);
            r.sum[y] += x[i] + x[i + 1];
        }
    }
}
// Where shares of 16 keys lie, for a lane: a row of one of four matrices of 8x8, swizzled
__device__ u32 shares_at(u32 page, int i) {
    int lane = threadIdx.x%32, row = threadIdx.x%128/32*16 + lane/8%2*8 + lane%8;
    return page + (CHUNKS - 1)*CHUNK + row*128 + ((2*i + lane/16) ^ row%8)*16;
}
__device__ void keep_shares(const float (&x)[32], const Rows &r, const Shared &s, const Place &at) {
    u32 page = s.pages + at.stage*BYTES;
    #pragma unroll
    for (int i = 0; i < PAGE/16; i++) {
        const float *e = x + 8*i;
        stmatrix(shares_at(page, i), pack(e[0], e[1]), pack(e[2], e[3]), pack(e[4], e[5]), pack(e[6], e[7]));
    }
    if (threadIdx.x%4 == 0) {
        s.less[at.stage*64 + row_of_thread()] = r.less[0];
        s.less[at.stage*64 + row_of_thread() + 8] = r.less[1];
    }
    tell(s.shares_full + 8*at.stage);
}
__device__ void end_rows(const Rows &r, const Shared &s, const Work &work, const Piece &p, int turn) {
    barrier_wait(s.each_empty, turn - 1);
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        int i = row_of_thread() + 8*y;
        float sum = of_quad_sum(r.sum[y]);
        if (threadIdx.x%4 == 0) {
            s.each[i] = sum > 0 ? 1/sum : 0;
            if (work.row + i < work.z.rows)
                store_lse(work.to, p, work.row + i, sum > 0 ? r.top[y]*work.factor + log2f(sum) : LOWEST, work.z);
        }
    }
    tell(s.each_full);
}
__device__ void score(const Shared &s, const Work &work) {
    Place at;
    Walk w = work.walk;
    int last = work.z.rows - 1, row = work.row + row_of_thread();
    for (int turn = 0; uniform(w.more()); turn++) {
        Piece p = w.next(work.lens, work.z);
        int len = uniform(work.lens[p.b]);
        p.first = uniform(p.first); p.last = uniform(p.last);
        int ends[2] = {end_of(min(row, last), len, work.z), end_of(min(row + 8, last), len, work.z)};
        int least = end_of(work.row, len, work.z);             // of all 64
        Rows r = {{LOWEST, LOWEST}, {0, 0}, {1, 1}};
        barrier_wait(s.q_full, turn);
        #pragma unroll 1
        for (int j = p.first; j < p.last; j++, at.next()) {
            float x[32];
            find_scores(x, s, at);
            if (j + 1 == p.last) tell(s.q_empty);
            if ((j + 1)*PAGE > least) mask(x, ends, j*PAGE);
            take_shares(x, r, work.factor);
            keep_shares(x, r, s, at);
        }
        end_rows(r, s, work, p, turn);
    }
}

// The other two, each with two times 64 sums a thread: the assembler takes no product of 256 columns here, as it looks
// at the registers that a launch of 512 threads begins with
__device__ void rescale(float (&o)[2][COLUMNS/4], const float *less) {
    float a = less[row_of_thread()], b = less[row_of_thread() + 8];
    if (!__any_sync(~0u, a != 1 || b != 1)) return;            // no larger score: soon that is so for most pages
    #pragma unroll
    for (int i = 0; i < COLUMNS/2; i++) o[i/(COLUMNS/4)][i%(COLUMNS/4)] *= i/2%2 ? b : a;
}
// Values of keys that are not there: a share of 0 times whatever the cache holds there might be NaN
__device__ void clear_values(u32 values, int from, int half) {
    for (int i = threadIdx.x%128; i < (PAGE - from)*(COLUMNS/8); i += 128) {
        u32 at = values + i%(COLUMNS/64)*CHUNK + from*128 + i/(COLUMNS/64)*16;
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" :: "r"(at), "r"(0) : "memory");
    }
    fence_for_tma();
    named_sync(1 + half, 128);
}
__device__ void read_shares(u32 (&p)[PAGE/16][4], u32 page) {
    #pragma unroll
    for (int i = 0; i < PAGE/16; i++) ldmatrix(p[i], shares_at(page, i));
}
__device__ void start_values(float (&o)[2][COLUMNS/4], const u32 (&p)[PAGE/16][4], u32 values) {
    u32 v = half_descriptor(values, CHUNK);
    fence_sums(o);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < PAGE/16; i++)                          // 16 keys: 16 rows of values
        #pragma unroll
        for (int h = 0; h < 2; h++)
            wgmma_kept<true>(o[h], p[i][0], p[i][1], p[i][2], p[i][3], behind(v, h*(COLUMNS/128)*CHUNK + i*16*128), 1);
    wgmma_commit();
}
__device__ void sum_up(const Shared &s, const Work &work, int half) {
    Place at;
    Walk w = work.walk;
    for (int turn = 0; uniform(w.more()); turn++) {
        Piece p = w.next(work.lens, work.z);
        int rest = uniform(work.lens[p.b]%PAGE);
        p.first = uniform(p.first); p.last = uniform(p.last); p.all = uniform(p.all);
        float o[2][COLUMNS/4] = {}, each[2];
        #pragma unroll 1
        for (int j = p.first; j < p.last; j++, at.next()) {
            u32 page = s.pages + at.stage*BYTES, values = page + half*(COLUMNS/64)*CHUNK, shares[PAGE/16][4];
            barrier_wait(barrier_of(s.full, at, LEFT + half), at.turn);
            barrier_wait(s.shares_full + 8*at.stage, at.turn);
            read_shares(shares, page);
            rescale(o, s.less + at.stage*64);
            if (rest && j + 1 == p.all) clear_values(values, rest, half);
            start_values(o, shares, values);
            fence_for_tma();                                   // copies take the shares' place
            tell_cluster(barrier_of(s.empty, at, ROTATED));
            wgmma_wait<0>();
            fence_sums(o);
            tell_cluster(barrier_of(s.empty, at, LEFT + half));
        }
        barrier_wait(s.each_full, turn);
        for (int y = 0; y < 2; y++) each[y] = s.each[row_of_thread() + 8*y];
        tell(s.each_empty);
        #pragma unroll
        for (int y = 0; y < 2; y++) {
            int i = work.row + row_of_thread() + 8*y;
            #pragma unroll
            for (int h = 0; h < 2 && i < work.z.rows; h++)
                store_sums(o[h], y, each[y], work.to, p, i, half*COLUMNS + h*COLUMNS/2, work.z);
        }
    }
}

__global__ void __launch_bounds__(512, 1)
decode(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap cache, const int *table, const int *lens,
       Number *out, float *lse, float *part_out, float *part_lse,
       float factor, int batch, int rows, int heads, int pages, int wide, int parts) {
    asm volatile("griddepcontrol.launch_dependents;");         // what merges may take its places on the SMs
    extern __shared__ __align__(1024) char room[];
    Shared s = lay_out(room);
    if (threadIdx.x == 384) { prefetch(q); prefetch(cache); make_barriers(s); }
    Sizes z = {batch, rows, heads, pages, wide, parts};
    Work work = {walk_of_block(lens, z), table, lens, {out, lse, part_out, part_lse}, factor, (int)blockIdx.x*64, z};
    if (CLUSTER > 1) cluster_sync();                           // the other block's barriers are there, too
    int wg = uniform(threadIdx.x/128);
    if (wg == 0) { registers_down<112>(); score(s, work); }
    else if (wg < 3) { registers_up<176>(); sum_up(s, work, wg - 1); }
    else {
        registers_down<48>();
        if (threadIdx.x == 384) produce(s, q, cache, work);
    }
    if (CLUSTER > 1) cluster_sync();                           // the other block may still arrive at my barriers
}
