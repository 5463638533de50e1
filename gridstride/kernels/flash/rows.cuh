// The online softmax of rows, and the stores of the results.
__device__ void mask(float (&s)[BN/2], int row, int key, const Tile &t, int window) {
    int ends[2] = {end_of(row, key, t) - key, end_of(row + 8, key, t) - key};
    #pragma unroll
    for (int i = 0; i < BN/2; i++)
        if (PAIR ? column_of(i) >= ends[i/2%2] : !attends(row + i/2%2*8, key + column_of(i), t, window))
            s[i] = MINUS_INFINITY;
}
// Adds the bias, which is defined for scaled scores, to scores that are scaled later
__device__ void add_bias(float (&s)[BN/2], int row, int key, const Tile &t, float factor) {
    #pragma unroll
    for (int i = 0; BIASED && i < BN/2; i++)
        s[i] += bias_of(t.batch, t.head, row + i/2%2*8, key + column_of(i))/(factor*LN2);
}
__device__ float of_quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ float of_quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// A step of the online softmax of a thread's two rows: P = 2^(score - row_max). All earlier exponentials are multiplied
// by `rescale_by` if the maximum has risen
struct OnlineSoftmax { float row_max[2], row_sum[2], rescale_by[2]; };
constexpr float INITIAL_MAX = -3.402823466e38f;            // finite, which avoids NaN for a row without a key so far
constexpr float RESCALE_THRESHOLD = 1;

// `row_max` need not be the highest score, since the result is divided by the sum of the same exponentials. So it rises
// only if a score of the warp's rows exceeds it by more than RESCALE_THRESHOLD: then 9 of 10 steps with random normal
// scores rescale nothing, instead of 6 of 10 with a threshold of 0. The largest P of a row is no longer exactly 1, so
// it is rounded like all others: errors grow by up to 2% with a threshold of 1, and by up to 18% with a threshold of 8.
__device__ bool online_softmax_step(float (&s)[BN/2], OnlineSoftmax &r, float factor) {
    float top[2];
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        top[y] = s[2*y];
        #pragma unroll
        for (int i = 2*y; i < BN/2; i += 4) top[y] = fmaxf(top[y], fmaxf(s[i], s[i + 1]));
        top[y] = of_quad_max(top[y])*factor;
    }
    bool max_rises = __any_sync(~0u, top[0] > r.row_max[0] + RESCALE_THRESHOLD ||
                                    top[1] > r.row_max[1] + RESCALE_THRESHOLD);
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        if (max_rises) {
            float base = fmaxf(r.row_max[y], top[y]);
            r.rescale_by[y] = exp2_fast(r.row_max[y] - base);
            r.row_sum[y] *= r.rescale_by[y];
            r.row_max[y] = base;
        }
        #pragma unroll
        for (int i = 2*y; i < BN/2; i += 4) {
            s[i] = exp2_fast(s[i]*factor - r.row_max[y]);
            s[i + 1] = exp2_fast(s[i + 1]*factor - r.row_max[y]);
            r.row_sum[y] += s[i] + s[i + 1];
        }
    }
    return max_rises;
}
__device__ void pack_p(u32 (&p)[BN/4], const float (&s)[BN/2]) {           // to the first operand of a product
    #pragma unroll
    for (int i = 0; i < BN/4; i++) p[i] = pack(s[2*i], s[2*i + 1]);
}
__device__ void rescale(float (&o)[HD/2], const OnlineSoftmax &r) {
    #pragma unroll
    for (int i = 0; i < HD/2; i++) o[i] *= r.rescale_by[i/2%2];
}

// The output, with strides in elements; rows are written from row `first` of `all` on.
struct Out { out_t *at; float *lse; long long batch, head, row; int first, all; };

__device__ void store_row(float *to, const float (&o)[HD/2], int y, float each, bool there) {
    #pragma unroll
    for (int i = 2*y; i < HD/2; i += 4)
        if (there)
            *(float2 *)(to + column_of(i)) = each != 0 ? make_float2(o[i]*each, o[i + 1]*each) : make_float2(0, 0);
}
// Scales one of a thread's two rows by `each`, and adds `before` times the row that memory holds
__device__ void add_row(float (&o)[HD/2], const float *from, int y, float each, float before, bool there) {
    #pragma unroll
    for (int i = 2*y; i < HD/2; i += 4) {
        float2 x = there && before > 0 ? *(const float2 *)(from + column_of(i)) : make_float2(0, 0);
        o[i] = o[i]*each + x.x*before;
        o[i + 1] = o[i + 1]*each + x.y*before;
    }
}
__device__ void add_row(float (&o)[HD/2], const bf16 *from, int y, float each, float before, bool there) {
    #pragma unroll
    for (int c = 0; c < HD/8; c += 4) {
        uint4 found = make_uint4(0, 0, 0, 0);
        if (there && before > 0) found = *(const uint4 *)(from + (c + threadIdx.x%4)*8);
        u32 x[4] = {found.x, found.y, found.z, found.w};
        transpose_quad(x);
        #pragma unroll
        for (int j = 0; j < 4; j++) {                              // a bfloat16 is the upper half of a float32
            float *e = &o[(c + j)*4 + 2*y];
            e[0] = e[0]*each + __uint_as_float(x[j] << 16)*before;
            e[1] = e[1]*each + __uint_as_float(x[j] & 0xffff0000)*before;
        }
    }
}

// ONTO: merges with the results of other keys that the output already holds, each weighted by its sum of exponentials
__device__ void store_rows(float (&o)[HD/2], const OnlineSoftmax &r, const Out &out, const Tile &t, int row,
                           const Sizes &z, float factor) {
    #pragma unroll
    for (int y = 0; y < 2; y++) {
        int i = row + 8*y;
        bool there = i < z.rows, leads = there && threadIdx.x%4 == 0;
        float sum = of_quad_sum(r.row_sum[y]), each = i < t.rows && sum > 0 ? 1/sum : 0;
        float now = each > 0 ? r.row_max[y]*LN2 + logf(sum) : MINUS_INFINITY;
        float *lse = out.lse + ((long long)t.batch*z.heads + t.head)*out.all + out.first + i;
        out_t *at = out.at + t.batch*out.batch + t.head*out.head + (out.first + i)*out.row;
        if (ONTO) {
            float old = __shfl_sync(~0u, leads ? *lse : MINUS_INFINITY, threadIdx.x%32/4*4), top = fmaxf(old, now);
            float a = old > MINUS_INFINITY ? __expf(old - top) : 0, b = now > MINUS_INFINITY ? __expf(now - top) : 0;
            float part = a + b > 0 ? 1/(a + b) : 0;
            add_row(o, at, y, each*b*part, a*part, there);
            if (part > 0) now = top + logf(a + b);
            each = 1;
        }
        if (leads) *lse = now;
        store_row(at, o, y, each, there);
    }
}
