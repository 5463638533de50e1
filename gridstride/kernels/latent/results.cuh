// Stores accumulators to the result, or to a slot of partial results that `merge_splits` merges.
#define MINUS_INFINITY __int_as_float(0xff800000)
constexpr float LN2 = 0.6931471805599453f;

__device__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// The lse of a partial result is a base-2 logarithm, the lse of the result is a natural logarithm.
struct Results { Elem *out; float *lse, *partial_out, *partial_lse; };

__device__ long long row_in(const Piece &p, int i, const Sizes &dims) {
    return (long long)(p.slot < 0 ? p.b : p.slot)*dims.rows + i;
}
__device__ void store_lse(const Results &results, const Piece &p, int i, float lse, const Sizes &dims) {
    (p.slot < 0 ? results.lse : results.partial_lse)[row_in(p, i, dims)] = p.slot < 0 ? lse*LN2 : lse;
}

// Stores a thread's row y (0 or 1) of an accumulator tile, two of every eight columns, from `column` on.
template<int N> __device__ void store_output(const float (&o)[N], int y, float scale, const Results &results,
                                             const Piece &p, int i, int column, const Sizes &dims) {
    long long offset = row_in(p, i, dims)*HEAD_DIM_V + column + threadIdx.x%4*2;
    #pragma unroll
    for (int c = 0; c < N/4; c++) {
        float a = o[4*c + 2*y]*scale, b = o[4*c + 2*y + 1]*scale;
        if (p.slot < 0) *(u32 *)(results.out + offset + c*8) = pack(a, b);
        else *(float2 *)(results.partial_out + offset + c*8) = make_float2(a, b);
    }
}
