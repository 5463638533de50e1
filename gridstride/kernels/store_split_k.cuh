// Stores the accumulators of blocks that share the columns of w (split-K): the blocks of a cluster keep their partial
// sums in shared memory, and each block adds and stores those of a part of the rows of x. Requires definitions of Elem
// (the type of y), BIAS, BM and BN (rows of w and of x per block), CK (blocks of a cluster).
constexpr int PITCH = BM + 4;                               // elements per row of partial sums; avoids bank conflicts

// Loads four floats from the same address in another block
__device__ float4 load4_from_block(const float *p, int rank) {
    u32 remote;
    float4 v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address(p)), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(remote) : "memory");
    return v;
}

// Adds the partial sums of the CK blocks for the given part of the rows of x, multiplies them by `scale(row)`, adds the
// bias, and stores them: 2*BM threads, each for four rows of w. `partials`: [BN][PITCH] in shared memory. AT_ONCE: rows
// of x whose partial sums a thread loads before it stores the first of them
template<int AT_ONCE, class Scale>
__device__ void store_split_k(const float *partials, Scale scale, const Elem *bias, Elem *y, int n, int rows,
                              int first_row, int first_n, int part) {
    constexpr int PART_ROWS = (BN + CK - 1) / CK, ROW_THREADS = BM / 4;        // per row of x
    const int offset = threadIdx.x % ROW_THREADS * 4, row = first_row + offset, remaining = rows - row;
    float scales[4], biases[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        scales[i] = i < remaining ? scale(row + i) : 0;
        biases[i] = BIAS && i < remaining ? float(bias[row + i]) : 0;
    }
    const int end = min(BN, (part + 1) * PART_ROWS);
    constexpr int UNROLL = AT_ONCE > 1 ? 1 : 4;
    #pragma unroll UNROLL
    for (int first = part * PART_ROWS + threadIdx.x / ROW_THREADS; first < end; first += 8 * AT_ONCE) {
        float v[AT_ONCE][4] = {};
        #pragma unroll
        for (int b = 0; b < CK; b++)
            #pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const float *src = partials + (AT_ONCE > 1 ? min(first + i * 8, end - 1) : first) * PITCH + offset;
                const float4 x = CK == 1 ? *(const float4 *)src : load4_from_block(src, b);
                v[i][0] += x.x, v[i][1] += x.y, v[i][2] += x.z, v[i][3] += x.w;
            }
        #pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int c = first + i * 8;
            if ((AT_ONCE > 1 && c >= end) || first_n + c >= n || remaining <= 0) continue;
            Elem *dst = y + (size_t)(first_n + c) * rows + row;
            const Elem out[4] = {Elem(v[i][0] * scales[0] + biases[0]), Elem(v[i][1] * scales[1] + biases[1]),
                                 Elem(v[i][2] * scales[2] + biases[2]), Elem(v[i][3] * scales[3] + biases[3])};
            if (rows % 4 == 0) *(uint2 *)dst = *(const uint2 *)out;
            else
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    if (e < remaining) dst[e] = out[e];
        }
    }
}
