// Merges out and lse of two disjoint parts of the keys, in place: a thread has 8 elements of a row. `sum_t`: the type
// of out.
struct alignas(16) Eight { __nv_bfloat16 x[8]; };
struct alignas(16) Sums { sum_t x[8]; };

__device__ float as_float(float x) { return x; }
__device__ float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void put(float &to, float x) { to = x; }
__device__ void put(__nv_bfloat16 &to, float x) { to = __float2bfloat16(x); }

// Rows of out and lse from `first` on, and a part that has these alone. A block has whole rows: `vectors`, those of a
// row, divides 256
__global__ void __launch_bounds__(256)
merge_parts(sum_t *out, float *lse, const __nv_bfloat16 *part, const float *part_lse, int vectors, int rows,
            int first) {
    int i = blockIdx.x*256 + threadIdx.x, row = i/vectors, some = rows - first;
    bool there = row < some;
    long long at = (long long)blockIdx.y*rows + first + row, from = (long long)blockIdx.y*some + row;
    float mine = there ? lse[at] : 0, theirs = there ? part_lse[from] : 0;
    float top = fmaxf(mine, theirs), a = __expf(mine - top), b = __expf(theirs - top);
    __syncthreads();                                          // all of a row have read what is written below
    if (!there) return;
    Sums *kept = (Sums *)out + at*vectors + i%vectors, x = *kept;
    Eight y = ((const Eight *)part)[from*vectors + i%vectors];
    #pragma unroll
    for (int e = 0; e < 8; e++) put(x.x[e], (as_float(x.x[e])*a + as_float(y.x[e])*b)/(a + b));
    *kept = x;
    if (i%vectors == 0) lse[at] = top + logf(a + b);
}
