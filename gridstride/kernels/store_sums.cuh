// Stores the accumulators of blocks that share the columns of w (split-K): the blocks of a cluster keep their sums in
// shared memory, and each adds up and stores a part of the rows of x. Defined above: Elem (the type of y), BIAS, BM
// and BN (rows of w and of x per block), CK (blocks of a cluster).
constexpr int PITCH = BM + 4;                               // elements per row of sums; no bank conflicts

// Loads four floats from the same address in another block
__device__ float4 four_of_block(const float *p, int rank) {
    u32 there;
    float4 v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address(p)), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(there) : "memory");
    return v;
}

// Adds the sums of the CK blocks for part q of the rows of x, multiplies them by `scale(row)`, adds the bias, and
// stores them: 2*BM threads, each for four rows of w. `sums`: accumulators [BN][PITCH] in shared memory.
template<class Scale>
__device__ void store_sums(const float *sums, Scale scale, const Elem *bias, Elem *y, int n, int rows,
                           int first_row, int first_n, int q) {
    constexpr int SHARE = (BN + CK - 1) / CK, THREADS = BM / 4;        // per row of x
    const int mine = threadIdx.x % THREADS * 4, row = first_row + mine, left = rows - row;
    float by[4], plus[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        by[i] = i < left ? scale(row + i) : 0;
        plus[i] = BIAS && i < left ? float(bias[row + i]) : 0;
    }
    #pragma unroll 4
    for (int c = q * SHARE + threadIdx.x / THREADS; c < min(BN, (q + 1) * SHARE); c += 8) {
        float v[4] = {};
        #pragma unroll
        for (int b = 0; b < CK; b++) {
            const float *from = sums + c * PITCH + mine;
            const float4 part = CK == 1 ? *(const float4 *)from : four_of_block(from, b);
            v[0] += part.x, v[1] += part.y, v[2] += part.z, v[3] += part.w;
        }
        if (first_n + c >= n || left <= 0) continue;
        Elem *to = y + (size_t)(first_n + c) * rows + row;
        const Elem out[4] = {Elem(v[0] * by[0] + plus[0]), Elem(v[1] * by[1] + plus[1]),
                               Elem(v[2] * by[2] + plus[2]), Elem(v[3] * by[3] + plus[3])};
        if (rows % 4 == 0) *(uint2 *)to = *(const uint2 *)out;
        else
            #pragma unroll
            for (int i = 0; i < 4; i++)
                if (i < left) to[i] = out[i];
    }
}
