// Results of those of the batch whose pages were cut, from their parts: a warp a row, or 1/SPLIT of its columns.
constexpr int COLUMNS = VALUES/SPLIT, EACH = COLUMNS/32;       // of a warp; of a lane, four at a time

__device__ float warp_max(float x) {
    for (int far = 16; far; far /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, far));
    return x;
}

// Its first column of those from c*32 on
__device__ int column(int c) { return blockIdx.z*COLUMNS + c*32 + threadIdx.x%32*4; }

// What a row knows so far, relative to its highest lse
struct Merged { float o[EACH], top, sum; };

// `count` parts, each lane one of them: the logarithm of its sum, and the slot where its results lie
__device__ void add_parts(Merged &m, float lse, int slot, int count, const float *part_out, int i, const Sizes &z) {
    float top = fmaxf(m.top, warp_max(lse)), base = top == LOWEST ? 0 : top;       // of nothing at all: no NaN
    float less = exp2_fast(m.top - base), mine = exp2_fast(lse - base);
    m.sum = m.sum*less + warp_sum(mine);
    m.top = top;
    #pragma unroll
    for (int c = 0; c < EACH; c++) m.o[c] *= less;
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
    if (threadIdx.x%32 == 0 && blockIdx.z == 0) lse[at] = (m.top + log2f(m.sum))*LN2;
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
    // until the parts are written; all wait, as what follows this launch must not begin before the one ahead has ended
    if (EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (end - first == 1) return;                              // one block had them all
    Merged m = {{}, LOWEST, 0};
    for (int from = first; from < end; from += 32) {
        int part = from + threadIdx.x%32, slot = 2*part + (cut(part, total, z) < begin);
        bool there = part < end && cut(part, total, z) < cut(part + 1, total, z);    // more parts than pages?
        add_parts(m, there ? part_lse[(long long)slot*rows + i] : LOWEST, slot, min(32, end - from), part_out, i, z);
    }
    store_merged(m, out, lse, (long long)b*rows + i);
}
