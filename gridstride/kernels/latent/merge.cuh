// Merges the partial results of sequences whose pages were split; ROW_WARPS warps share the columns of a row.
constexpr int COLUMNS = HEAD_DIM_V/ROW_WARPS, LANE_COLUMNS = COLUMNS/32;  // columns per warp, and per lane

__device__ float warp_max(float x) {
    for (int distance = 16; distance; distance /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, distance));
    return x;
}

// Returns the first of four columns of this lane, in the group of 128 columns that contains c*32.
__device__ int column(int c) { return blockIdx.z*COLUMNS + c*32 + threadIdx.x%32*4; }

// The merged result of the first splits of a row, relative to their highest lse.
struct Merged { float o[LANE_COLUMNS], row_max, sum; };

// Adds at most 32 splits: each lane has the lse of one split, and the slot of its partial result.
__device__ void add_partials(Merged &m, float lse, int slot, int count, const float *partial_out, int i,
                             const Sizes &dims) {
    float row_max = fmaxf(m.row_max, warp_max(lse));
    // Finite even for a row without keys, to avoid NaN
    float base = row_max == MINUS_INFINITY ? 0 : row_max;
    float rescale = exp2_fast(m.row_max - base), own_weight = exp2_fast(lse - base);
    m.sum = m.sum*rescale + warp_sum(own_weight);
    m.row_max = row_max;
    #pragma unroll
    for (int c = 0; c < LANE_COLUMNS; c++) m.o[c] *= rescale;
    #pragma unroll (4*ROW_WARPS)
    for (int k = 0; k < count; k++) {
        float weight = __shfl_sync(~0u, own_weight, k);
        long long partial_row = (long long)__shfl_sync(~0u, slot, k)*dims.rows + i;
        #pragma unroll
        for (int c = 0; c < LANE_COLUMNS; c += 4) {
            float4 x = make_float4(0, 0, 0, 0);
            if (weight > 0) x = *(const float4 *)(partial_out + partial_row*HEAD_DIM_V + column(c));
            m.o[c] += x.x*weight;
            m.o[c + 1] += x.y*weight;
            m.o[c + 2] += x.z*weight;
            m.o[c + 3] += x.w*weight;
        }
    }
}

__device__ void store_merged(const Merged &m, Elem *out, float *lse, long long row) {
    float inverse_sum = m.sum > 0 ? 1/m.sum : 0;
    if (threadIdx.x%32 == 0 && blockIdx.z == 0) lse[row] = (m.row_max + log2f(m.sum))*LN2;
    #pragma unroll
    for (int c = 0; c < LANE_COLUMNS; c += 4)
        *(uint2 *)(out + row*HEAD_DIM_V + column(c)) =
            make_uint2(pack(m.o[c]*inverse_sum, m.o[c + 1]*inverse_sum),
                       pack(m.o[c + 2]*inverse_sum, m.o[c + 3]*inverse_sum));
}

__global__ void __launch_bounds__(256, 2)                       // enough registers to load four splits at once
merge_splits(Elem *out, float *lse, const float *partial_out, const float *partial_lse, const int *lens,
             int batch, int rows, int heads, int pages, int table_columns, int splits) {
    Sizes dims = {batch, rows, heads, pages, table_columns, splits};
    int i = blockIdx.y*8 + threadIdx.x/32, b = blockIdx.x;     // the number of rows is a multiple of 16
    int total = count_pages(lens, batch, dims), begin = count_pages(lens, b, dims), num_pages = pages_of(lens[b], dims);
    int first = num_pages ? split_of(begin, total, dims) : 0;
    int end = num_pages ? split_of(begin + num_pages - 1, total, dims) + 1 : 0;
    // Waits until the partial results are written. All blocks wait, because a later launch must not begin before
    // decoding has ended.
    if (PDL) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (end - first == 1) return;  // one block computed the whole sequence, and has stored the result
    Merged m = {{}, MINUS_INFINITY, 0};
    for (int base = first; base < end; base += 32) {
        int split = base + threadIdx.x%32, slot = 2*split + (split_begin(split, total, dims) < begin);
        // A split is empty if there are more splits than pages
        bool in_bounds = split < end && split_begin(split, total, dims) < split_begin(split + 1, total, dims);
        float own_lse = in_bounds ? partial_lse[(long long)slot*rows + i] : MINUS_INFINITY;
        add_partials(m, own_lse, slot, min(32, end - base), partial_out, i, dims);
    }
    store_merged(m, out, lse, (long long)b*rows + i);
}
