// Stores the accumulators of blocks that share the columns of w (split-K): the blocks of a cluster keep their partial
// sums in shared memory, and each block adds and stores those of a part of the rows of x. Defined above: Elem (the type
// of y), BIAS, BM and BN (rows of w and of x per block), CK (blocks of a cluster).
constexpr int PITCH = BM + 4;                               // elements per row of partial sums; no bank conflicts

// Loads four floats from the same address in another block
__device__ float4 load4_from_block(const float *p, int rank) {
    u32 remote;
    float4 v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address(p)), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(remote) : "memory");
    return v;
}

// Adds the partial sums of the CK blocks for part `part` of the rows of x, multiplies them by `scale(row)`, adds the
// bias, and stores them: 2*BM threads, each for four rows of w. `partials`: [BN][PITCH] in shared memory.
template<class Scale>
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
    #pragma unroll 4
    for (int c = part * PART_ROWS + threadIdx.x / ROW_THREADS; c < min(BN, (part + 1) * PART_ROWS); c += 8) {
        float v[4] = {};
        #pragma unroll
        for (int b = 0; b < CK; b++) {
            const float *from = partials + c * PITCH + offset;
            const float4 x = CK == 1 ? *(const float4 *)from : load4_from_block(from, b);
            v[0] += x.x, v[1] += x.y, v[2] += x.z, v[3] += x.w;
        }
        if (first_n + c >= n || remaining <= 0) continue;
        Elem *to = y + (size_t)(first_n + c) * rows + row;
        const Elem out[4] = {Elem(v[0] * scales[0] + biases[0]), Elem(v[1] * scales[1] + biases[1]),
                             Elem(v[2] * scales[2] + biases[2]), Elem(v[3] * scales[3] + biases[3])};
        if (rows % 4 == 0) *(uint2 *)to = *(const uint2 *)out;
        else
            #pragma unroll
            for (int i = 0; i < 4; i++)
                if (i < remaining) to[i] = out[i];
    }
}
