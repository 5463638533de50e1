// Stores the accumulators of the Hopper kernels: transposes them, and adds a bias. The stores overlap with the next
// tile.
// Requires definitions of Elem, BIAS, M (tiles of 64 rows per warpgroup), N (columns per warpgroup), OUT (rows per TMA
// store).

__device__ void stmatrix_trans(u32 dst, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(dst), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ void warpgroup_sync(int wg) { asm volatile("bar.sync %0, 128;" :: "r"(wg + 1) : "memory"); }

// Waits until at most one TMA store still reads shared memory.
__device__ void stores_wait_read_except_last() { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }

// Transposes the 64*M x N accumulators of a warpgroup into y at row r and column c, and adds the bias of the columns:
// OUT rows at a time, through two buffers of OUT*128 bytes (double buffering), the first of them at `staging`.
__device__ void store_transposed(float (&d)[M][N/2], const TensorMap &y, const Elem *bias, int columns, int r, int c,
                                 u32 staging, int wg) {
    static_assert(N%OUT == 0 && OUT%16 == 0 && M*(N/OUT)%2 == 0,
                  "the first store of the next tile must use the other buffer");
    int lane = threadIdx.x%32, warp = threadIdx.x/32%4;
    bool sends = threadIdx.x%128 == 0;
    u32 dst = staging + (lane/16*8 + lane%8)*128 + ((warp*2 + lane/8%2) ^ lane%8)*16;
    #pragma unroll
    for (int x = 0; x < M; x++) {
        int column = c + x*64 + warp*16 + lane/4;
        float upper = BIAS && column < columns ? float(bias[column]) : 0;
        float lower = BIAS && column + 8 < columns ? float(bias[column + 8]) : 0;
        #pragma unroll
        for (int first = 0; first < N; first += OUT) {
            u32 offset = (x*(N/OUT) + first/OUT)%2*OUT*128;
            if (sends) stores_wait_read_except_last();                  // frees the buffer that is filled next
            warpgroup_sync(wg);
            #pragma unroll
            for (int i = 0; i < OUT; i += 16) {
                float *e = d[x] + (first + i)/2;
                #pragma unroll
                for (int j = 0; j < 8 && BIAS; j++) e[j] += j%4 < 2 ? upper : lower;
                u32 row = dst + offset + i*128;
                stmatrix_trans(row, pack(e[0], e[1]), pack(e[2], e[3]), pack(e[4], e[5]), pack(e[6], e[7]));
            }
            fence_for_tma();
            warpgroup_sync(wg);
            if (sends) { tma_store(y, r + first, c + x*64, staging + offset); stores_commit(); }
        }
    }
}
