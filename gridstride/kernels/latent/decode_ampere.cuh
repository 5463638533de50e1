// Decoding with a latent KV cache, with `mma.sync`, for Ampere and later GPUs; a block processes BM rows of q, BN keys
// per step. Two blocks fit on an SM, so that the copies of one overlap with the products of the other.
constexpr int ROW_BYTES = 2*HEAD_DIM_K, WARPS = 4, THREADS = 32*WARPS;
constexpr int SCORE_STRIDE = BN + 4, P_STRIDE = BN + 8;        // elements per row, padded so that banks differ
constexpr int COLUMNS = HEAD_DIM_V/WARPS;                           // of the result, per warp

struct Shared { u32 q, k; float *scores; Elem *p; float *rescale; };

__device__ Shared shared_layout(char *p) {
    Shared s = {address(p), address(p + BM*ROW_BYTES), (float *)(p + (BM + BN)*ROW_BYTES)};
    s.p = (Elem *)(s.scores + BM*SCORE_STRIDE);
    s.rescale = (float *)(s.p + BM*P_STRIDE);
    return s;
}

// Returns the swizzled address of 16 bytes of a row: the same column of eight rows is in different banks
__device__ u32 chunk_at(int row, int chunk) { return row*ROW_BYTES + (chunk ^ row%8)*16; }

__device__ void ldmatrix_trans(u32 (&x)[4], u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(row));
}

__device__ void copy_queries(u32 dst, const Elem *q, const Piece &p, int row, const Sizes &dims) {
    for (int i = threadIdx.x; i < BM*(HEAD_DIM_K/8); i += THREADS) {
        int r = i/(HEAD_DIM_K/8), c = i%(HEAD_DIM_K/8);
        bool in_bounds = row + r < dims.rows;
        copy_async<16>(dst + chunk_at(r, c), in_bounds ? q + ((long long)p.b*dims.rows + row + r)*HEAD_DIM_K + c*8 : q,
                       in_bounds);
    }
}
// Starts copies of BN keys of one page, from `key` on; copies zeros instead of keys past `len`
__device__ void copy_keys(u32 dst, const Elem *cache, const int *table, const Piece &p, int key, int len,
                          const Sizes &dims) {
    int page = page_at(table, p.b, key/PAGE_SIZE, dims);
    const Elem *src = cache + ((long long)page*PAGE_SIZE + key%PAGE_SIZE)*HEAD_DIM_K;
    for (int i = threadIdx.x; i < BN*(HEAD_DIM_K/8); i += THREADS) {
        int r = i/(HEAD_DIM_K/8), c = i%(HEAD_DIM_K/8);
        copy_async<16>(dst + chunk_at(r, c), src + r*HEAD_DIM_K + c*8, key + r < len);
    }
}

// S = Q @ K^T: each warp computes 16 rows and 16 keys
__device__ void compute_scores(const Shared &s) {
    int lane = threadIdx.x%32, row = threadIdx.x/32/2*16, key = threadIdx.x/32%2*16;
    float d[2][4] = {};
    #pragma unroll 4
    for (int c = 0; c < HEAD_DIM_K/8; c += 2) {                       // 16 columns
        u32 a[4], b[4];
        ldmatrix(a, s.q + chunk_at(row + lane%16, c + lane/16));
        ldmatrix(b, s.k + chunk_at(key + lane%8 + lane/16*8, c + lane/8%2));
        mma(d[0], a, b[0], b[1]);
        mma(d[1], a, b[2], b[3]);
    }
    #pragma unroll
    for (int i = 0; i < 4; i++)
        *(float2 *)(s.scores + (row + lane/4 + i%2*8)*SCORE_STRIDE + key + i/2*8 + lane%4*2) =
            make_float2(d[i/2][i%2*2], d[i/2][i%2*2 + 1]);
}

// The online softmax, four threads per row: P relative to the highest score so far; `rescale`: the factor of the
// accumulators of earlier keys
__device__ void online_softmax_step(const Shared &s, float &row_max, float &sum, int key, int end, float scale_log2) {
    int row = threadIdx.x/4, first_column = threadIdx.x%4*(BN/4);
    float x[BN/4], new_max = row_max;
    #pragma unroll
    for (int i = 0; i < BN/4; i++) {
        x[i] = key + first_column + i < end ? s.scores[row*SCORE_STRIDE + first_column + i]*scale_log2 : MINUS_INFINITY;
        new_max = fmaxf(new_max, x[i]);
    }
    new_max = quad_max(new_max);
    float base = new_max == MINUS_INFINITY ? 0 : new_max;              // avoids NaN while a row has no key
    float rescale = exp2_fast(row_max - base);
    sum *= rescale;
    row_max = new_max;
    #pragma unroll
    for (int i = 0; i < BN/4; i += 2) {
        float a = exp2_fast(x[i] - base), b = exp2_fast(x[i + 1] - base);
        sum += a + b;
        *(u32 *)(s.p + row*P_STRIDE + first_column + i) = pack(a, b);
    }
    if (threadIdx.x%4 == 0) s.rescale[row] = rescale;
}

// Computes o = o*rescale + P @ V; each warp computes all rows of COLUMNS columns of V
__device__ void accumulate_pv(float (&o)[BM/16][COLUMNS/2], const Shared &s) {
    int lane = threadIdx.x%32, column = threadIdx.x/32*COLUMNS/8;
    #pragma unroll
    for (int m = 0; m < BM/16; m++)
        #pragma unroll
        for (int y = 0; y < 2; y++) {
            float rescale = s.rescale[m*16 + y*8 + lane/4];
            #pragma unroll
            for (int c = 2*y; c < COLUMNS/2; c += 4) { o[m][c] *= rescale; o[m][c + 1] *= rescale; }
        }
    #pragma unroll
    for (int j = 0; j < BN; j += 16) {
        u32 a[BM/16][4], b[4];
        #pragma unroll
        for (int m = 0; m < BM/16; m++)
            ldmatrix(a[m], address(s.p + (m*16 + lane%16)*P_STRIDE + j + lane/16*8));
        #pragma unroll
        for (int c = 0; c < COLUMNS/8; c += 2) {
            ldmatrix_trans(b, s.k + chunk_at(j + lane%16, column + c + lane/16));
            #pragma unroll
            for (int m = 0; m < BM/16; m++) {
                mma(*(float (*)[4])&o[m][c*4], a[m], b[0], b[1]);
                mma(*(float (*)[4])&o[m][c*4 + 4], a[m], b[2], b[3]);
            }
        }
    }
}

__device__ void store_piece(const float (&o)[BM/16][COLUMNS/2], const Shared &s, float row_max, float sum,
                            const Results &results, const Piece &p, int row, const Sizes &dims) {
    int lane = threadIdx.x%32, own_row = threadIdx.x/4;
    sum = quad_sum(sum);
    __syncthreads();                                           // all threads have read `rescale`
    if (threadIdx.x%4 == 0) {
        s.rescale[own_row] = sum > 0 ? 1/sum : 0;
        if (row + own_row < dims.rows) store_lse(results, p, row + own_row, row_max + log2f(sum), dims);
    }
    __syncthreads();
    #pragma unroll
    for (int m = 0; m < BM/16; m++)
        #pragma unroll
        for (int y = 0; y < 2; y++) {
            int i = m*16 + y*8 + lane/4;
            if (row + i < dims.rows)
                store_output(o[m], y, s.rescale[i], results, p, row + i, threadIdx.x/32*COLUMNS, dims);
        }
}

__global__ void __launch_bounds__(THREADS, 2)
decode(const Elem *q, const Elem *cache, const int *table, const int *lens, Elem *out, float *lse,
       float *partial_out, float *partial_lse, float scale_log2, int batch, int rows, int heads, int pages,
       int table_columns, int splits) {
    extern __shared__ __align__(128) char smem[];
    Sizes dims = {batch, rows, heads, pages, table_columns, splits};
    Results results = {out, lse, partial_out, partial_lse};
    Shared s = shared_layout(smem);
    int row = blockIdx.x*BM;
    for (PieceIterator it = pieces_of_block(lens, dims); it.has_next();) {
        Piece p = it.next(lens, dims);
        int len = lens[p.b], end = key_end(min(row + (int)threadIdx.x/4, rows - 1), len, dims);
        float o[BM/16][COLUMNS/2] = {}, row_max = MINUS_INFINITY, sum = 0;
        copy_queries(s.q, q, p, row, dims);
        for (int key = p.first*PAGE_SIZE; key < min(len, p.end*PAGE_SIZE); key += BN) {
            copy_keys(s.k, cache, table, p, key, len, dims);
            copies_commit();
            copies_wait<0>();
            __syncthreads();
            compute_scores(s);
            __syncthreads();
            online_softmax_step(s, row_max, sum, key, end, scale_log2);
            __syncthreads();
            accumulate_pv(o, s);
            __syncthreads();                                   // all threads have read the keys
        }
        store_piece(o, s, row_max, sum, results, p, row, dims);
    }
}
