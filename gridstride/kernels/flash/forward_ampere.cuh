// FlashAttention forward for Ampere and later GPUs, with `mma.sync`: out = softmax(q @ k^T * scale) @ v, tile by tile.
// A warp has 32 rows of q, so that each fragment of k and v serves two products; all threads copy keys and values
// asynchronously (cp.async), one step ahead (double buffering).
constexpr int WARPS = BM/32, THREADS = 32*WARPS, ROW_BYTES = HD*2;
constexpr int Q_BYTES = BM*ROW_BYTES, K_BYTES = BN*ROW_BYTES;

struct Array { const bf16 *data; long long batch_stride, head_stride, row_stride; };   // in elements

// Returns the swizzled address of 16 bytes of a row: the same column of eight rows is in different banks
__device__ u32 chunk_at(int row, int chunk) { return row*ROW_BYTES + (chunk ^ row%8)*16; }

__device__ void ldmatrix_trans(u32 (&x)[4], u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(row));
}

// Starts copies of ROWS rows from `row` on; copies zeros instead of rows past `end`
template<int ROWS> __device__ void copy_rows(u32 dst, const Array &x, int batch, int head, int row, int end) {
    constexpr int PASS_ROWS = THREADS/(HD/8);                          // rows that all threads copy at once
    int r = threadIdx.x/(HD/8), c = threadIdx.x%(HD/8);
    const bf16 *src = x.data + batch*x.batch_stride + head*x.head_stride + (row + r)*x.row_stride + c*8;
    long long pass_stride = PASS_ROWS*x.row_stride;
    u32 smem_address = dst + chunk_at(r, c);
    #pragma unroll
    for (int i = 0; i < ROWS; i += PASS_ROWS, src += pass_stride) {  // a multiple of 8: the swizzle is the same
        bool in_bounds = row + r + i < end;
        copy_async<16>(smem_address + i*ROW_BYTES, in_bounds ? src : x.data, in_bounds);
    }
}

// Computes s = q @ k^T per warp: 2 x 16 rows of q, BN keys
__device__ void compute_scores(float (&s)[2][BN/2], u32 q, u32 k) {
    int lane = threadIdx.x%32, row = threadIdx.x/32*32 + lane%16;
    #pragma unroll
    for (int i = 0; i < BN; i++) s[i/(BN/2)][i%(BN/2)] = 0;
    #pragma unroll
    for (int c = 0; c < HD/8; c += 2) {                                // 16 columns
        u32 a[2][4], b[4];
        ldmatrix(a[0], q + chunk_at(row, c + lane/16));
        ldmatrix(a[1], q + chunk_at(row + 16, c + lane/16));
        #pragma unroll
        for (int j = 0; j < BN; j += 16) {                             // 16 keys
            ldmatrix(b, k + chunk_at(j + lane%8 + lane/16*8, c + lane/8%2));
            #pragma unroll
            for (int m = 0; m < 2; m++) {
                mma(*(float (*)[4])&s[m][j/2], a[m], b[0], b[1]);
                mma(*(float (*)[4])&s[m][j/2 + 4], a[m], b[2], b[3]);
            }
        }
    }
}
// Computes o += p @ v
__device__ void add_values(float (&o)[2][HD/2], const u32 (&p)[2][BN/4], u32 v) {
    int lane = threadIdx.x%32;
    #pragma unroll
    for (int j = 0; j < BN; j += 16) {                                 // 16 keys
        u32 b[4];
        #pragma unroll
        for (int c = 0; c < HD/8; c += 2) {                            // 16 columns
            ldmatrix_trans(b, v + chunk_at(j + lane%16, c + lane/16));
            #pragma unroll
            for (int m = 0; m < 2; m++) {
                const u32 (&a)[4] = *(const u32 (*)[4])&p[m][j/4];
                mma(*(float (*)[4])&o[m][c*4], a, b[0], b[1]);
                mma(*(float (*)[4])&o[m][c*4 + 4], a, b[2], b[3]);
            }
        }
    }
}

__global__ void __launch_bounds__(THREADS, BLOCKS)
attention_forward(const bf16 *q_at, const bf16 *k_at, const bf16 *v_at, bf16 *out_at, float *lse, const int *lens,
                  float scale_log2, int batch, int heads, int group, int rows, int keys, int window, int section_heads,
                  long long q_batch, long long q_head, long long q_row, long long k_batch, long long k_head,
                  long long k_row, long long v_batch, long long v_head, long long v_row,
                  long long out_batch, long long out_head, long long out_row) {
    extern __shared__ __align__(128) char smem[];
    u32 qs = address(smem), stages = qs + Q_BYTES;                     // a stage: keys, then values
    Sizes dims = {batch, heads, group, rows, keys, window, section_heads};
    Array q = {q_at, q_batch, q_head, q_row}, k = {k_at, k_batch, k_head, k_row}, v = {v_at, v_batch, v_head, v_row};
    Tile t = tile_of(blockIdx.x, dims, lens);
    auto fetch = [&](int j) {
        u32 dst = stages + (j - t.first_step)%2*2*K_BYTES;
        if (j < t.end_step) {
            copy_rows<BN>(dst, k, t.batch, t.head/group, j*BN, t.keys);
            copy_rows<BN>(dst + K_BYTES, v, t.batch, t.head/group, j*BN, t.keys);
        }
        copies_commit();
    };
    copy_rows<BM>(qs, q, t.batch, t.head, t.row, t.rows);
    fetch(t.first_step);
    int row = t.row + threadIdx.x/32*32 + threadIdx.x%32/4;
    float o[2][HD/2];
    OnlineSoftmax r[2];
    #pragma unroll
    for (int m = 0; m < 2; m++) {
        r[m] = {{INITIAL_MAX, INITIAL_MAX}, {0, 0}, {1, 1}};
        #pragma unroll
        for (int i = 0; i < HD/2; i++) o[m][i] = 0;
    }
    #pragma unroll 1
    for (int j = t.first_step; j < t.end_step; j++) {
        copies_wait<0>();                       // this thread's copies for this step have arrived
        __syncthreads();                        // all threads' copies have arrived, and the previous stage is free
        fetch(j + 1);
        u32 ks = stages + (j - t.first_step)%2*2*K_BYTES, p[2][BN/4];
        float s[2][BN/2];
        compute_scores(s, qs, ks);
        #pragma unroll
        for (int m = 0; m < 2; m++) {
            add_bias(s[m], row + 16*m, j*BN, t, scale_log2);
            if (!is_full_tile(t.row + threadIdx.x/32*32, 32, j*BN, t, window)) mask(s[m], row + 16*m, j*BN, t, window);
            if (online_softmax_step(s[m], r[m], scale_log2)) rescale(o[m], r[m]);
            pack_p(p[m], s[m]);
        }
        add_values(o, p, ks + K_BYTES);
    }
    #pragma unroll
    for (int m = 0; m < 2; m++)
        store_rows(o[m], r[m], {out_at, lse, out_batch, out_head, out_row, 0, rows}, t, row + 16*m, dims, scale_log2);
}
