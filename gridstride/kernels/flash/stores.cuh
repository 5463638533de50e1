// Stores of accumulator tiles from registers to memory, in complete sectors.

// Transposes 4x4 words of 4 neighbouring threads: word i of thread t becomes word t of thread i
__device__ void transpose_quad(u32 (&x)[4]) {
    int t = threadIdx.x%4;
    #pragma unroll
    for (int distance = 1; distance < 4; distance *= 2)
        #pragma unroll
        for (int i = 0; i < 4; i++) if (!(i & distance)) {
            u32 received = __shfl_xor_sync(~0u, t & distance ? x[i] : x[i + distance], distance);
            if (t & distance) x[i] = received; else x[i + distance] = received;
        }
}

// Stores one of a thread's two rows, scaled by `scale`: 32 columns at a time, 8 per thread
template<int N> __device__ void store_row(bf16 *dst, const float (&o)[N], int y, float scale, bool in_bounds) {
    #pragma unroll
    for (int c = 0; c < N/4; c += 4) {
        u32 x[4];
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *e = &o[(c + j)*4 + 2*y];
            x[j] = scale != 0 ? pack(e[0]*scale, e[1]*scale) : 0;
        }
        transpose_quad(x);
        if (in_bounds) *(uint4 *)(dst + (c + threadIdx.x%4)*8) = make_uint4(x[0], x[1], x[2], x[3]);
    }
}
