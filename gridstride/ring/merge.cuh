// Merges the partial results (out and lse) of attention to two disjoint parts of the keys, in place. Each thread merges
// 8 elements of a row. `sum_t` is the type of out.
struct alignas(16) PartVector { __nv_bfloat16 x[8]; };
struct alignas(16) Accumulators { sum_t x[8]; };

__device__ float as_float(float x) { return x; }
__device__ float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void assign(float &dst, float x) { dst = x; }
__device__ void assign(__nv_bfloat16 &dst, float x) { dst = __float2bfloat16(x); }

// Merges a partial result into the rows of out and lse from `first` on; it has only these rows. A row
// has `vectors` vectors of 8 elements, a divisor of 256, so a block has complete rows.
__global__ void __launch_bounds__(256)
merge_parts(sum_t *out, float *lse, const __nv_bfloat16 *part, const float *part_lse, int vectors, int rows,
            int first) {
    int i = blockIdx.x*256 + threadIdx.x, row = i/vectors, part_rows = rows - first;
    bool active = row < part_rows;
    long long index = (long long)blockIdx.y*rows + first + row, part_index = (long long)blockIdx.y*part_rows + row;
    float own_lse = active ? lse[index] : 0, other_lse = active ? part_lse[part_index] : 0;
    float max_lse = fmaxf(own_lse, other_lse), a = __expf(own_lse - max_lse), b = __expf(other_lse - max_lse);
    __syncthreads();  // all threads have read lse before it is written below
    if (!active) return;
    Accumulators *destination = (Accumulators *)out + index*vectors + i%vectors, x = *destination;
    PartVector y = ((const PartVector *)part)[part_index*vectors + i%vectors];
    #pragma unroll
    for (int e = 0; e < 8; e++) assign(x.x[e], (as_float(x.x[e])*a + as_float(y.x[e])*b)/(a + b));
    *destination = x;
    if (i%vectors == 0) lse[index] = max_lse + logf(a + b);
}
