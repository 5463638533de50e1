// C (M x N) = A (M x K) @ B (K x N) in float32 for a B of a few columns (a skinny GEMM): bulk copies load whole rows of
// A, and tensor cores multiply three bf16 terms of both. Requires definitions of COLUMNS (N), PARTS (warps that split
// K), K_STEPS (steps of 16 elements along K: a warp has K_STEPS, or one less), WARP_GROUPS (groups of PARTS warps,
// which take turns at stages), REDUCERS (warps that add the partial sums; they take turns, too), STAGES (of eight rows
// in shared memory), IN_FLIGHT (stages in flight at once), MAX_VALID, `split_terms` and `fma_chain`.
constexpr int TILES = (COLUMNS+15)/16, WORKERS = PARTS*WARP_GROUPS;       // tiles of 16 columns; warps that multiply

// The rows of a block: eight in each of the first `rounds` stages; in a last stage all blocks share the remaining rows
struct Rows {
    int M, rounds, last;
    __device__ Rows(int M) : M(M), rounds(M/8/gridDim.x) {
        last = (M - rounds*8*gridDim.x + gridDim.x-1) / gridDim.x;
    }
    __device__ int first(int i) const { return i*8*gridDim.x + blockIdx.x*(i < rounds ? 8 : last); }
    __device__ int count(int i) const { return i < rounds ? 8 : max(0, min(last, M-first(i))); }
    __device__ int stages() const { return rounds + (count(rounds) > 0); }
};

__global__ void __launch_bounds__(32*(WORKERS+1+REDUCERS), 1)
skinny_stages(const float *A, const float *B, float *C, int M, int N, int K) {
    extern __shared__ __align__(128) float ring[];
    // full: a stage holds rows; summed: it holds the partial sums of all parts of K; empty: it can be refilled
    __shared__ u64 full[STAGES], summed[STAGES], empty[STAGES];
    int lane = threadIdx.x%32, warp = threadIdx.x/32, g = lane/4, q = lane%4, k_steps = (K+15)/16;
    Rows rows(M);
    int stages = rows.stages();
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(address(full+s), 1);
            barrier_init(address(summed+s), PARTS*32);              // each lane arrives
            barrier_init(address(empty+s), 32);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (warp == WORKERS) {                                          // loads rows
        for (int i = 0; i < stages && lane == 0; i++) {
            int s = i%STAGES, bytes = rows.count(i)*K*4;
            if (i >= IN_FLIGHT) barrier_wait(address(full + (i-IN_FLIGHT)%STAGES), (i-IN_FLIGHT)/STAGES);
            barrier_wait(address(empty+s), i/STAGES - 1);
            fence_for_tma();                                        // TMA overwrites partial sums
            barrier_expect(address(full+s), bytes);
            bulk_copy_evict_first(address(ring + s*8*K), A + (size_t)rows.first(i)*K, bytes, address(full+s));
        }
        return;
    }
    if (warp > WORKERS) {                                           // adds the partial sums in order
        for (int i = warp-WORKERS-1; i < stages; i += REDUCERS) {
            int s = i%STAGES, first = rows.first(i), count = rows.count(i);
            const float *partial_sums = ring + (s*8 + g)*K + q*4;
            float o[TILES][4] = {};
            barrier_wait(address(summed+s), i/STAGES);
            #pragma unroll
            for (int p = 0; p < PARTS; p++)
                #pragma unroll
                for (int t = 0; t < TILES; t++) {
                    float4 v = *(float4 *)(partial_sums + (p*k_steps/PARTS + t)*16);
                    o[t][0] += v.x; o[t][1] += v.y; o[t][2] += v.z; o[t][3] += v.w;
                }
            barrier_arrive(address(empty+s));
            #pragma unroll
            for (int j = 0; j < TILES*4; j++) {
                int r = q*2 + j%2, c = j/4*16 + j%4/2*8 + g;
                float v = o[j/4][j%4];
                if (r >= count || c >= COLUMNS) continue;
                if (!(fabsf(v) < MAX_VALID)) v = fma_chain(A + (size_t)(first+r)*K, B + c, K);      // also if NaN
                C[(size_t)(first+r)*COLUMNS + c] = v;
            }
        }
        return;
    }
    // multiplies a part of K: 16 columns of B, whose terms hi and mid stay in registers, times eight rows of A
    int part = warp%PARTS, begin = part*k_steps/PARTS, own_steps = (part+1)*k_steps/PARTS - begin;
    uint4 *lo = (uint4 *)(ring + STAGES*8*K) + warp*K_STEPS*TILES*32 + lane;     // of this lane
    u32 a[K_STEPS][2][TILES][4];
    #pragma unroll
    for (int i = 0; i < K_STEPS*TILES; i++) {
        int c = i/TILES, t = i%TILES;
        u32 p[4];
        #pragma unroll
        for (int y = 0; y < 2; y++) {
            int col = t*16 + y*8 + g;
            float x[4];
            #pragma unroll
            for (int v = 0; v < 4; v++) {
                int r = (begin+c)*16 + q*4+v;
                x[v] = c < own_steps && r < K && col < N ? __ldg(B + (size_t)r*COLUMNS + col) : 0;
            }
            split_terms(x[0], x[1], a[c][0][t][y], a[c][1][t][y], p[y]);
            split_terms(x[2], x[3], a[c][0][t][2+y], a[c][1][t][2+y], p[2+y]);
        }
        lo[i*32] = make_uint4(p[0], p[1], p[2], p[3]);
    }
    int tail = rows.count(rows.rounds), s = warp/PARTS, phase = 0;
    float *first = ring + g*K + begin*16 + q*4;                     // this lane's elements in the first stage
    for (int i = s; i < stages; i += WARP_GROUPS) {
        float4 *elements = (float4 *)(first + s*8*K);
        int remaining = i < rows.rounds || g < tail ? K - begin*16 - q*4 : 0;
        // two accumulators with separate chains of products: the tensor core truncates less of the small products
        float small_sum[TILES][4] = {}, large_sum[TILES][4] = {};
        barrier_wait(address(full+s), phase);
        #pragma unroll
        for (int c = 0; c < K_STEPS; c++)
            if (c+1 < K_STEPS || c < own_steps) {
                float4 v = c*16 < remaining ? elements[c*4] : float4{0, 0, 0, 0};
                u32 b[3][2];
                split_terms(v.x, v.y, b[0][0], b[1][0], b[2][0]);
                split_terms(v.z, v.w, b[0][1], b[1][1], b[2][1]);
                #pragma unroll
                for (int t = 0; t < TILES; t++) {
                    uint4 p = lo[(c*TILES + t)*32];
                    u32 x[4] = {p.x, p.y, p.z, p.w};
                    mma(small_sum[t], x, b[0][0], b[0][1]);
                }
                #pragma unroll
                for (int t = 0; t < TILES; t++) mma(large_sum[t], a[c][0][t], b[0][0], b[0][1]);
                constexpr int B_TERM[4] = {0, 1, 1, 0}, A_TERM[4] = {2, 1, 0, 1};     // hi lo, mid mid, mid hi, hi mid
                #pragma unroll
                for (int j = 0; j < 4; j++)
                    #pragma unroll
                    for (int t = 0; t < TILES; t++) mma(small_sum[t], a[c][B_TERM[j]][t],
                                                        b[A_TERM[j]][0], b[A_TERM[j]][1]);
            }
        #pragma unroll
        for (int t = 0; t < TILES; t++)                             // only this lane reads these addresses
            elements[t*4] = make_float4(small_sum[t][0]+large_sum[t][0], small_sum[t][1]+large_sum[t][1],
                                        small_sum[t][2]+large_sum[t][2], small_sum[t][3]+large_sum[t][3]);
        barrier_arrive(address(summed+s));
        if ((s += WARP_GROUPS) >= STAGES) s -= STAGES, phase ^= 1;
    }
}
