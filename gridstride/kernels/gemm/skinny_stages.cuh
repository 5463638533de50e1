// out = m @ n of float32, for an n of a few columns (a skinny GEMM): bulk copies of whole rows of m, multiplied by
// tensor cores as three bf16 terms.
// Above: W, PARTS (warps that share k), CHUNKS (of 16 k that one of them has at most: it has as many or one less, and
// two of these are whole), TEAMS (of such warps, which take turns at stages), ADDERS (warps that reduce the parts,
// which take turns, too), STAGES (of eight rows in shared memory), AHEAD (stages in flight at once); of `thin`, SOUND,
// `take_apart` and `chain`.
constexpr int TILES = (W+15)/16, WORKERS = PARTS*TEAMS;             // of 16 columns; warps that multiply

// The rows of a block, eight at a time with all other blocks; what is left in the end is shared by all of them
struct Rows {
    int h, rounds, last;
    __device__ Rows(int h) : h(h), rounds(h/8/gridDim.x) {
        last = (h - rounds*8*gridDim.x + gridDim.x-1) / gridDim.x;
    }
    __device__ int first(int i) const { return i*8*gridDim.x + blockIdx.x*(i < rounds ? 8 : last); }
    __device__ int count(int i) const { return i < rounds ? 8 : max(0, min(last, h-first(i))); }
    __device__ int stages() const { return rounds + (count(rounds) > 0); }
};

__global__ void __launch_bounds__(32*(WORKERS+1+ADDERS), 1)
thin_stages(const float *m, const float *n, float *out, int h, int w, int k) {
    extern __shared__ __align__(128) float ring[];
    // in a stage there are rows; sums of all parts of k; nothing any more
    __shared__ u64 full[STAGES], summed[STAGES], empty[STAGES];
    int lane = threadIdx.x%32, warp = threadIdx.x/32, g = lane/4, q = lane%4, chunks = (k+15)/16;
    Rows rows(h);
    int stages = rows.stages();
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(address(full+s), 1);
            barrier_init(address(summed+s), PARTS*32);              // each lane arrives for itself
            barrier_init(address(empty+s), 32);
        }
        barriers_ready();
    }
    __syncthreads();
    if (warp == WORKERS) {                                          // loads rows
        for (int i = 0; i < stages && lane == 0; i++) {
            int s = i%STAGES, bytes = rows.count(i)*k*4;
            if (i >= AHEAD) barrier_wait(address(full + (i-AHEAD)%STAGES), (i-AHEAD)/STAGES);
            barrier_wait(address(empty+s), i/STAGES - 1);
            fence_for_tma();                                        // where sums were, rows come
            barrier_expect(address(full+s), bytes);
            bulk_copy_once(address(ring + s*8*k), m + (size_t)rows.first(i)*k, bytes, address(full+s));
        }
        return;
    }
    if (warp > WORKERS) {                                           // adds up the parts, in order
        for (int i = warp-WORKERS-1; i < stages; i += ADDERS) {
            int s = i%STAGES, first = rows.first(i), count = rows.count(i);
            const float *at = ring + (s*8 + g)*k + q*4;
            float o[TILES][4] = {};
            barrier_wait(address(summed+s), i/STAGES);
            #pragma unroll
            for (int p = 0; p < PARTS; p++)
                #pragma unroll
                for (int t = 0; t < TILES; t++) {
                    float4 v = *(float4 *)(at + (p*chunks/PARTS + t)*16);
                    o[t][0] += v.x; o[t][1] += v.y; o[t][2] += v.z; o[t][3] += v.w;
                }
            barrier_arrive(address(empty+s));
            #pragma unroll
            for (int j = 0; j < TILES*4; j++) {
                int r = q*2 + j%2, c = j/4*16 + j%4/2*8 + g;
                float v = o[j/4][j%4];
                if (r >= count || c >= W) continue;
                if (!(fabsf(v) < SOUND)) v = chain(m + (size_t)(first+r)*k, n + c, k);      // NaN is here, too
                out[(size_t)(first+r)*W + c] = v;
            }
        }
        return;
    }
    // multiplies a part of k: 16 columns of n, whose planes hi and mid stay in registers, times eight rows of m
    int part = warp%PARTS, begin = part*chunks/PARTS, mine = (part+1)*chunks/PARTS - begin;
    uint4 *lo = (uint4 *)(ring + STAGES*8*k) + warp*CHUNKS*TILES*32 + lane;     // of this lane alone
    u32 a[CHUNKS][2][TILES][4];
    #pragma unroll
    for (int i = 0; i < CHUNKS*TILES; i++) {
        int c = i/TILES, t = i%TILES;
        u32 p[4];
        #pragma unroll
        for (int y = 0; y < 2; y++) {
            int col = t*16 + y*8 + g;
            float x[4];
            #pragma unroll
            for (int v = 0; v < 4; v++) {
                int r = (begin+c)*16 + q*4+v;
                x[v] = c < mine && r < k && col < w ? __ldg(n + (size_t)r*W + col) : 0;
            }
            take_apart(x[0], x[1], a[c][0][t][y], a[c][1][t][y], p[y]);
            take_apart(x[2], x[3], a[c][0][t][2+y], a[c][1][t][2+y], p[2+y]);
        }
        lo[i*32] = make_uint4(p[0], p[1], p[2], p[3]);
    }
    int tail = rows.count(rows.rounds), s = warp/PARTS, phase = 0;
    float *first = ring + g*k + begin*16 + q*4;                     // of this lane, in the first stage
    for (int i = s; i < stages; i += TEAMS) {
        float4 *at = (float4 *)(first + s*8*k);
        int left = i < rows.rounds || g < tail ? k - begin*16 - q*4 : 0;
        // two sums, each of its own chain of products: the tensor core cuts off less from little ones
        float little[TILES][4] = {}, large[TILES][4] = {};
        barrier_wait(address(full+s), phase);
        #pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            if (c+1 < CHUNKS || c < mine) {
                float4 v = c*16 < left ? at[c*4] : float4{0, 0, 0, 0};
                u32 b[3][2];
                take_apart(v.x, v.y, b[0][0], b[1][0], b[2][0]);
                take_apart(v.z, v.w, b[0][1], b[1][1], b[2][1]);
                #pragma unroll
                for (int t = 0; t < TILES; t++) {
                    uint4 p = lo[(c*TILES + t)*32];
                    u32 x[4] = {p.x, p.y, p.z, p.w};
                    mma(little[t], x, b[0][0], b[0][1]);
                }
                #pragma unroll
                for (int t = 0; t < TILES; t++) mma(large[t], a[c][0][t], b[0][0], b[0][1]);
                constexpr int P[4] = {0, 1, 1, 0}, Q[4] = {2, 1, 0, 1};     // hi lo, mid mid, mid hi, hi mid
                #pragma unroll
                for (int j = 0; j < 4; j++)
                    #pragma unroll
                    for (int t = 0; t < TILES; t++) mma(little[t], a[c][P[j]][t], b[Q[j]][0], b[Q[j]][1]);
            }
        #pragma unroll
        for (int t = 0; t < TILES; t++)                             // only this lane has read these addresses
            at[t*4] = make_float4(little[t][0]+large[t][0], little[t][1]+large[t][1], little[t][2]+large[t][2],
                                  little[t][3]+large[t][3]);
        barrier_arrive(address(summed+s));
        if ((s += TEAMS) >= STAGES) s -= STAGES, phase ^= 1;
    }
}
