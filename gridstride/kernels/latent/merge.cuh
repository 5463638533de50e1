// Merges the parts of sequences whose pages were split: one warp per row, or per 1/SPLIT of its columns.
constexpr int COLUMNS = VALUES/SPLIT, EACH = COLUMNS/32;       // of a warp; of a lane, four at a time

__device__ float warp_max(float x) {
    for (int far = 16; far; far /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, far));
    return x;
}

// Its first column of those from c*32 on
__device__ int column(int c) { return blockIdx.z*COLUMNS + c*32 + threadIdx.x%32*4; }

// The merged parts of a row so far, relative to its highest lse
struct Merged { float o[EACH], row_max, sum; };

// Adds `count` parts, one per lane: the part's lse, and the slot of its partial result
__device__ void add_parts(Merged &m, float lse, int slot, int count, const float *part_out, int i, const Sizes &z) {
    float row_max = fmaxf(m.row_max, warp_max(lse));
    float base = row_max == MINUS_INFINITY ? 0 : row_max;      // of a row that attends to nothing: no NaN
    float rescale = exp2_fast(m.row_max - base), mine = exp2_fast(lse - base);
    m.sum = m.sum*rescale + warp_sum(mine);
    m.row_max = row_max;
    #pragma unroll
    for (int c = 0; c < EACH; c++) m.o[c] *= rescale;
    #pragma unroll (4*SPLIT)
    for (int k = 0; k < count; k++) {
        float weight = __shfl_sync(~0u, mine, k);
        long long at = (long long)__shfl_sync(~0u, slot, k)*z.rows + i;
        #pragma unroll
        for (int c = 0; c < EACH; c += 4) {
            float4 x = make_float4(0, 0, 0, 0);
            if (weight > 0) x = *(const float4 *)(part_out + at*VALUES + column(c));
            m.o[c] += x.x*weight;
            m.o[c + 1] += x.y*weight;
            m.o[c + 2] += x.z*weight;
            m.o[c + 3] += x.w*weight;
        }
    }
}

__device__ void store_merged(const Merged &m, Number *out, float *lse, long long at) {
    float each = m.sum > 0 ? 1/m.sum : 0;
    if (threadIdx.x%32 == 0 && blockIdx.z == 0) lse[at] = (m.row_max + log2f(m.sum))*LN2;
    #pragma unroll
    for (int c = 0; c < EACH; c += 4)
        *(uint2 *)(out + at*VALUES + column(c)) =
            make_uint2(pack(m.o[c]*each, m.o[c + 1]*each), pack(m.o[c + 2]*each, m.o[c + 3]*each));
}

__global__ void __launch_bounds__(256, 2)                       // registers for the loads of four parts
merge_parts(Number *out, float *lse, const float *part_out, const float *part_lse, const int *lens,
            int batch, int rows, int heads, int pages, int wide, int parts) {
    Sizes z = {batch, rows, heads, pages, wide, parts};
    int i = blockIdx.y*8 + threadIdx.x/32, b = blockIdx.x;     // there are a multiple of 16 rows
    int total = count_pages(lens, batch, z), begin = count_pages(lens, b, z), all = pages_of(lens[b], z);
    int first = all ? part_of(begin, total, z) : 0, end = all ? part_of(begin + all - 1, total, z) + 1 : 0;
    // Waits until the parts are written; all blocks wait, as a later launch must not begin before decoding has ended
    if (PDL) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (end - first == 1) return;                              // one block had them all
    Merged m = {{}, MINUS_INFINITY, 0};
    for (int from = first; from < end; from += 32) {
        int part = from + threadIdx.x%32, slot = 2*part + (cut(part, total, z) < begin);
        bool there = part < end && cut(part, total, z) < cut(part + 1, total, z);    // more parts than pages?
        float mine = there ? part_lse[(long long)slot*rows + i] : MINUS_INFINITY;
        add_parts(m, mine, slot, min(32, end - from), part_out, i, z);
    }
    store_merged(m, out, lse, (long long)b*rows + i);
}
