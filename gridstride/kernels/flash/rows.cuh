// The online softmax of rows, and the stores of the results.
__device__ void mask(float (&s)[BN/2], int row, int key, const Tile &t, int window) {
    int ends[2] = {key_end(row, key, t) - key, key_end(row + 8, key, t) - key};
    #pragma unroll
    for (int i = 0; i < BN/2; i++)
        if (TWO_KEY_ARRAYS ? column_of(i) >= ends[i/2%2] : !attends(row + i/2%2*8, key + column_of(i), t, window))
            s[i] = MINUS_INFINITY;
}
// Adds the bias, which is defined for scaled scores, to scores that are scaled later
__device__ void add_bias(float (&s)[BN/2], int row, int key, const Tile &t, float scale_log2) {
    #pragma unroll
    for (int i = 0; BIASED && i < BN/2; i++)
        s[i] += bias_of(t.batch, t.head, row + i/2%2*8, key + column_of(i))/(scale_log2*LN2);
}
__device__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// A step of the online softmax of a thread's two rows: P = 2^(score - row_max). All earlier exponentials are multiplied
// by `rescale_by` if the maximum has risen
struct OnlineSoftmax { float row_max[2], row_sum[2], rescale_by[2]; };
constexpr float INITIAL_MAX = -3.402823466e38f;            // finite, to avoid NaN if the row has no key yet
constexpr float RESCALE_THRESHOLD = 1;

// `row_max` need not be the highest score, since the result is divided by the sum of the same exponentials. So it rises
// only if a score of the warp's rows exceeds it by more than RESCALE_THRESHOLD: then 9 of 10 steps with random normal
// scores rescale nothing, instead of 6 of 10 with a threshold of 0. The largest P of a row is no longer exactly 1, so
// it is rounded like all others: errors grow by up to 2% with a threshold of 1, and by up to 18% with a threshold of 8.
__device__ bool online_softmax_step(float (&s)[BN/2], OnlineSoftmax &r, float scale_log2) {
    float new_max[2];
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        new_max[y] = s[2*y];
        #pragma unroll
        for (int i = 2*y; i < BN/2; i += 4) new_max[y] = fmaxf(new_max[y], fmaxf(s[i], s[i + 1]));
        new_max[y] = quad_max(new_max[y])*scale_log2;
    }
    bool max_rises = __any_sync(~0u, new_max[0] > r.row_max[0] + RESCALE_THRESHOLD ||
                                    new_max[1] > r.row_max[1] + RESCALE_THRESHOLD);
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        if (max_rises) {
            float base = fmaxf(r.row_max[y], new_max[y]);
            r.rescale_by[y] = exp2_fast(r.row_max[y] - base);
            r.row_sum[y] *= r.rescale_by[y];
            r.row_max[y] = base;
        }
        #pragma unroll
        for (int i = 2*y; i < BN/2; i += 4) {
            s[i] = exp2_fast(s[i]*scale_log2 - r.row_max[y]);
            s[i + 1] = exp2_fast(s[i + 1]*scale_log2 - r.row_max[y]);
            r.row_sum[y] += s[i] + s[i + 1];
        }
    }
    return max_rises;
}
__device__ void pack_p(u32 (&p)[BN/4], const float (&s)[BN/2]) {           // P becomes the A operand of an MMA
    #pragma unroll
    for (int i = 0; i < BN/4; i++) p[i] = pack(s[2*i], s[2*i + 1]);
}
__device__ void rescale(float (&o)[HD/2], const OnlineSoftmax &r) {
    #pragma unroll
    for (int i = 0; i < HD/2; i++) o[i] *= r.rescale_by[i/2%2];
}

// The output, with strides in elements; rows are written from row `first_row` of `total_rows` on.
struct Out { out_t *data; float *lse; long long batch_stride, head_stride, row_stride; int first_row, total_rows; };

__device__ void store_row(float *dst, const float (&o)[HD/2], int y, float scale, bool in_bounds) {
    #pragma unroll
    for (int i = 2*y; i < HD/2; i += 4)
        if (in_bounds)
            *(float2 *)(dst + column_of(i)) = scale != 0 ? make_float2(o[i]*scale, o[i + 1]*scale) : make_float2(0, 0);
}
// Scales one of a thread's two rows by `scale`, and adds `old_weight` times the row in memory
__device__ void add_row(float (&o)[HD/2], const float *src, int y, float scale, float old_weight, bool in_bounds) {
    #pragma unroll
    for (int i = 2*y; i < HD/2; i += 4) {
        float2 x = in_bounds && old_weight > 0 ? *(const float2 *)(src + column_of(i)) : make_float2(0, 0);
        o[i] = o[i]*scale + x.x*old_weight;
        o[i + 1] = o[i + 1]*scale + x.y*old_weight;
    }
}
__device__ void add_row(float (&o)[HD/2], const bf16 *src, int y, float scale, float old_weight, bool in_bounds) {
    #pragma unroll
    for (int c = 0; c < HD/8; c += 4) {
        uint4 words = make_uint4(0, 0, 0, 0);
        if (in_bounds && old_weight > 0) words = *(const uint4 *)(src + (c + threadIdx.x%4)*8);
        u32 x[4] = {words.x, words.y, words.z, words.w};
        transpose_quad(x);
        #pragma unroll
        for (int j = 0; j < 4; j++) {                              // a bfloat16 is the upper half of a float32
            float *e = &o[(c + j)*4 + 2*y];
            e[0] = e[0]*scale + __uint_as_float(x[j] << 16)*old_weight;
            e[1] = e[1]*scale + __uint_as_float(x[j] & 0xffff0000)*old_weight;
        }
    }
}

// MERGE_OUT: merges with the results of other keys, which the output already holds; each is weighted by its sum of
// exponentials
__device__ void store_rows(float (&o)[HD/2], const OnlineSoftmax &r, const Out &out, const Tile &t, int row,
                           const Sizes &dims, float scale_log2) {
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        int i = row + 8*y;
        bool in_bounds = i < dims.rows, is_leader = in_bounds && threadIdx.x%4 == 0;
        float sum = quad_sum(r.row_sum[y]), scale = i < t.rows && sum > 0 ? 1/sum : 0;
        float own_lse = scale > 0 ? r.row_max[y]*LN2 + logf(sum) : MINUS_INFINITY;
        float *lse = out.lse + ((long long)t.batch*dims.heads + t.head)*out.total_rows + out.first_row + i;
        out_t *out_row =
            out.data + t.batch*out.batch_stride + t.head*out.head_stride + (out.first_row + i)*out.row_stride;
        if (MERGE_OUT) {
            float old_lse = __shfl_sync(~0u, is_leader ? *lse : MINUS_INFINITY, threadIdx.x%32/4*4);
            float new_max = fmaxf(old_lse, own_lse);
            float old_exp = old_lse > MINUS_INFINITY ? __expf(old_lse - new_max) : 0;
            float own_exp = own_lse > MINUS_INFINITY ? __expf(own_lse - new_max) : 0;
            float inv_weight_sum = old_exp + own_exp > 0 ? 1/(old_exp + own_exp) : 0;
            add_row(o, out_row, y, scale*own_exp*inv_weight_sum, old_exp*inv_weight_sum, in_bounds);
            if (inv_weight_sum > 0) own_lse = new_max + logf(old_exp + own_exp);
            scale = 1;
        }
        if (is_leader) *lse = own_lse;
        store_row(out_row, o, y, scale, in_bounds);
    }
}
