"""The ladder of the chapter `matmul_ladder`: float32 GEMMs; each step applies one more optimization.

A name that ends in `_src` is CUDA C, and one that ends in `_changes` is a dict for `changed`: old text -> new text. The
other objects are kernels.
"""

from .rung import Rung
from ...bench.variants import changed

naive = Rung('naive', r'''
__global__ void naive_k(const float *m, const float *n, float *out, int h, int w, int k) {
    int r = blockIdx.y*BM + threadIdx.x, c = blockIdx.x*BN + threadIdx.y;
    if (r >= h || c >= w) return;
    float o = 0;
    for (int i = 0; i < k; i++) o += m[r*k + i] * n[i*w + c];
    out[r*w + c] = o;
}
''', threads=(32,32), BM=32, BN=32)

coalesced = changed(naive, {
    'naive_k': 'coalesced_k', 'threadIdx.x, c': 'threadIdx.y, c', 'BN + threadIdx.y': 'BN + threadIdx.x',
}, name='coalesced')

shared = Rung('shared', r'''
__global__ void shared_k(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ float ms[BM][BK], ns[BK][BN];
    int tc = threadIdx.x, tr = threadIdx.y;
    int r = blockIdx.y*BM + tr, c = blockIdx.x*BN + tc;
    float o = 0;
    for (int idx = 0; idx < k; idx += BK) {
        ms[tr][tc] = r < h && idx+tc < k ? m[r*k + idx+tc] : 0;
        ns[tr][tc] = c < w && idx+tr < k ? n[(idx+tr)*w + c] : 0;
        __syncthreads();                                      // both tiles are complete
        for (int i = 0; i < BK; i++) o += ms[tr][i] * ns[i][tc];
        __syncthreads();                                      // both tiles may be overwritten
    }
    if (r < h && c < w) out[r*w + c] = o;
}
''', threads=(32,32), BM=32, BN=32, BK=32)

def threads_per_block(BM, BN, TM, TN): # threads
    "Return the number of threads per block: one thread per TM x TN results of a tile"
    return BM//TM*(BN//TN)

fill_src = r'''
constexpr int threads = BM/TM * (BN/TN);       // per block

// Loads H x W elements of `x` (h x w), starting at (r, c), into `tile`; zeros out of bounds
template<int H, int W>
__device__ void fill(float (&tile)[H][W], const float *x, int r, int c, int h, int w) {
    static_assert(H*W % threads == 0, "each thread fills equally many elements");
    #pragma unroll
    for (int i = 0; i < H*W; i += threads) {
        int y = (i + threadIdx.x)/W, z = (i + threadIdx.x)%W;
        tile[y][z] = r+y < h && c+z < w ? x[(r+y)*w + c+z] : 0;
    }
}
'''

column = Rung('column', fill_src + r'''
__global__ void column_k(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ float ms[BM][BK], ns[BK][BN];
    int tc = threadIdx.x%BN, tr = threadIdx.x/BN*TM;          // this thread's column, and the first of its rows
    int r = blockIdx.y*BM, c = blockIdx.x*BN;                 // first row and column of the tile
    float o[TM] = {};
    for (int idx = 0; idx < k; idx += BK) {
        fill(ms, m, r, idx, h, k);
        fill(ns, n, idx, c, k, w);
        __syncthreads();
        for (int i = 0; i < BK; i++) {
            float b = ns[i][tc];                              // one load for TM multiply-adds
            for (int y = 0; y < TM; y++) o[y] += ms[tr+y][i] * b;
        }
        __syncthreads();
    }
    for (int y = 0; y < TM; y++)
        if (r+tr+y < h && c+tc < w) out[(r+tr+y)*w + c+tc] = o[y];
}
''', threads=threads_per_block, BM=64, BN=64, BK=8, TM=8, TN=1)

patch = changed(column, {'column_k': 'patch_k', '''
    int tc = threadIdx.x%BN, tr = threadIdx.x/BN*TM;          // this thread's column, and the first of its rows
    int r = blockIdx.y*BM, c = blockIdx.x*BN;                 // first row and column of the tile
    float o[TM] = {};
''': '''
    int tc = threadIdx.x%(BN/TN)*TN, tr = threadIdx.x/(BN/TN)*TM;   // first row and column of this thread's patch
    int r = blockIdx.y*BM, c = blockIdx.x*BN;
    float o[TM][TN] = {}, a[TM], b[TN];
''', '''
            float b = ns[i][tc];                              // one load for TM multiply-adds
            for (int y = 0; y < TM; y++) o[y] += ms[tr+y][i] * b;
''': '''
            for (int y = 0; y < TM; y++) a[y] = ms[tr+y][i];
            for (int x = 0; x < TN; x++) b[x] = ns[i][tc+x];
            for (int y = 0; y < TM; y++)
                for (int x = 0; x < TN; x++) o[y][x] += a[y]*b[x];
''', '''
        if (r+tr+y < h && c+tc < w) out[(r+tr+y)*w + c+tc] = o[y];
''': '''
        for (int x = 0; x < TN; x++)
            if (r+tr+y < h && c+tc+x < w) out[(r+tr+y)*w + c+tc+x] = o[y][x];
'''}, name='patch', BM=128, BN=128, TN=8)

fill_quads_src = r'''
constexpr int threads = BM/TM * (BN/TN);

// Loads four elements of row r of `x` (h x w), starting at column c, by one load if aligned; zeros out of bounds
__device__ float4 load_quad(const float *x, int r, int c, int h, int w) {
    const float *p = x + r*w + c;
    if (r < h && c+3 < w && (size_t)p%16 == 0) return *(const float4 *)p;
    auto one = [&](int i) { return r < h && c+i < w ? p[i] : 0; };
    return {one(0), one(1), one(2), one(3)};
}

template<int H, int W>
__device__ void fill(float (&tile)[H][W], const float *x, int r, int c, int h, int w) {
    static_assert(H*W/4 % threads == 0, "each thread fills equally many quads");
    #pragma unroll
    for (int i = 0; i < H*W/4; i += threads) {
        int y = (i + threadIdx.x)/(W/4), z = (i + threadIdx.x)%(W/4)*4;
        *(float4 *)&tile[y][z] = load_quad(x, r+y, c+z, h, w);
    }
}

// Loads BM x W elements, starting at (r, c), transposed: tile[z][y] is row r+y, column c+z
template<int W, int H>
__device__ void fill_transposed(float (&tile)[W][H], const float *x, int r, int c, int h, int w) {
    static_assert(BM*W/4 % threads == 0, "each thread fills equally many quads");
    #pragma unroll
    for (int i = 0; i < BM*W/4; i += threads) {
        int y = (i + threadIdx.x)/(W/4), z = (i + threadIdx.x)%(W/4)*4;
        float4 v = load_quad(x, r+y, c+z, h, w);
        tile[z][y] = v.x; tile[z+1][y] = v.y; tile[z+2][y] = v.z; tile[z+3][y] = v.w;
    }
}

// Loads N elements of a tile by 16-byte loads: four at `s`, then four more every `stride` elements
template<int N> __device__ void load(float (&a)[N], const float *s, int stride) {
    #pragma unroll
    for (int y = 0; y < N; y += 4) *(float4 *)&a[y] = *(const float4 *)&s[y/4*stride];
}
'''

wide = changed(patch, {fill_src: fill_quads_src, 'patch_k': 'wide_k', '''
    __shared__ float ms[BM][BK], ns[BK][BN];
''': '''
    __shared__ __align__(16) float ms[BK][BM], ns[BK][BN];          // ms is transposed
''', 'o[TM][TN] = {}, a[TM], b[TN];': 'o[TM][TN] = {};', 'fill(ms, ': 'fill_transposed(ms, ', '''
        for (int i = 0; i < BK; i++) {
            for (int y = 0; y < TM; y++) a[y] = ms[tr+y][i];
            for (int x = 0; x < TN; x++) b[x] = ns[i][tc+x];
''': '''
        #pragma unroll
        for (int i = 0; i < BK; i++) {
            __align__(16) float a[TM], b[TN];
            load(a, &ms[i][tr], 4);
            load(b, &ns[i][tc], 4);
'''}, name='wide')

banked = changed(wide, {'wide_k': 'banked_k', '''
    __shared__ __align__(16) float ms[BK][BM], ns[BK][BN];          // ms is transposed
    int tc = threadIdx.x%(BN/TN)*TN, tr = threadIdx.x/(BN/TN)*TM;   // first row and column of this thread's patch
''': '''
    __shared__ __align__(16) float ms[BK][BM+4], ns[BK][BN];
    int tc = threadIdx.x%(BN/TN)*4, tr = threadIdx.x/(BN/TN)*4;     // this thread's first four,
    constexpr int dc = BN/TN*4, dr = BM/TM*4;                       // and the stride to its next four
''', 'ms[i][tr], 4)': 'ms[i][tr], dr)', 'ns[i][tc], 4)': 'ns[i][tc], dc)', '''
        for (int x = 0; x < TN; x++)
            if (r+tr+y < h && c+tc+x < w) out[(r+tr+y)*w + c+tc+x] = o[y][x];
''': '''
        for (int x = 0; x < TN; x++) {
            int ry = r+tr + y/4*dr + y%4, cx = c+tc + x/4*dc + x%4;
            if (ry < h && cx < w) out[ry*w + cx] = o[y][x];
        }
'''}, name='banked')

warps = changed(banked, {'banked_k': 'warps_k', '''
    int tc = threadIdx.x%(BN/TN)*4, tr = threadIdx.x/(BN/TN)*4;     // this thread's first four,
    constexpr int dc = BN/TN*4, dr = BM/TM*4;                       // and the stride to its next four
''': '''
    int warp = threadIdx.x/32, lane = threadIdx.x%32;
    constexpr int WM = 4*TM, WN = 8*TN, dr = 4*4, dc = 8*4;         // tile of a warp: 4 x 8 lanes
    int tr = warp/(BN/WN)*WM + (lane%2 + lane/16*2)*4;              // lanes 0 and 1: one above the other,
    int tc = warp%(BN/WN)*WN + lane/2%8*4;                          // lanes 0 and 2: side by side
'''}, name='warps')

def all_stages(BM, BN, BK, STAGES): # bytes
    "Return the shared memory for both tiles in all stages"
    return 4*STAGES*BK*(BM+4+BN)

async_copy_src = r'''
#include <cuda_pipeline.h>
constexpr int threads = BM/TM * (BN/TN);

struct Stage { float ms[BK][BM+4], ns[BK][BN]; };                   // both tiles of one phase

// Starts an asynchronous copy of element (r, c) of `x` to shared memory; a zero if it is out of bounds
__device__ void copy(float *to, const float *x, int r, int c, int h, int w) {
    bool in = r < h && c < w;
    __pipeline_memcpy_async(to, in ? x + r*w + c : x, 4, in ? 0 : 4);
}

// Starts the asynchronous copies of both tiles of the phase that begins at `idx`
__device__ void copy_phase(Stage &s, const float *m, const float *n,
                           int r, int c, int idx, int h, int w, int k) {
    #pragma unroll
    for (int i = 0; i < BM*BK; i += threads) {
        int y = (i + threadIdx.x)/BK, z = (i + threadIdx.x)%BK;
        copy(&s.ms[z][y], m, r+y, idx+z, h, k);
    }
    #pragma unroll
    for (int i = 0; i < BK*BN; i += threads) {
        int y = (i + threadIdx.x)/BN, z = (i + threadIdx.x)%BN;
        copy(&s.ns[y][z], n, idx+y, c+z, k, w);
    }
    __pipeline_commit();
}

// Loads N elements of a tile by 16-byte loads: four at `s`, then four more every `stride` elements
template<int N> __device__ void load(float (&a)[N], const float *s, int stride) {
    #pragma unroll
    for (int y = 0; y < N; y += 4) *(float4 *)&a[y] = *(const float4 *)&s[y/4*stride];
}
'''

staged = Rung('staged', async_copy_src + r'''
__global__ void __launch_bounds__(threads, BLOCKS)
staged_k(const float *m, const float *n, float *out, int h, int w, int k) {
    extern __shared__ __align__(16) Stage stages[];                 // a ring of STAGES stages
    int warp = threadIdx.x/32, lane = threadIdx.x%32;
    constexpr int WM = 4*TM, WN = 8*TN, dr = 4*4, dc = 8*4;
    int tr = warp/(BN/WN)*WM + (lane%2 + lane/16*2)*4;
    int tc = warp%(BN/WN)*WN + lane/2%8*4;
    int r = blockIdx.y*BM, c = blockIdx.x*BN;
    float o[TM][TN] = {};
    for (int p = 0; p < STAGES-1; p++) copy_phase(stages[p], m, n, r, c, p*BK, h, w, k);
    for (int p = 0; p*BK < k; p++) {
        __pipeline_wait_prior(STAGES-2);                            // this thread's copies for phase p are done,
        __syncthreads();                                            // and all threads'; stage p-1 is free
        copy_phase(stages[(p+STAGES-1)%STAGES], m, n, r, c, (p+STAGES-1)*BK, h, w, k);
        Stage &s = stages[p%STAGES];
        #pragma unroll
        for (int i = 0; i < BK; i++) {
            __align__(16) float a[TM], b[TN];
            load(a, &s.ms[i][tr], dr);
            load(b, &s.ns[i][tc], dc);
            for (int y = 0; y < TM; y++)
                for (int x = 0; x < TN; x++) o[y][x] += a[y]*b[x];
        }
    }
    for (int y = 0; y < TM; y++)
        for (int x = 0; x < TN; x++) {
            int ry = r+tr + y/4*dr + y%4, cx = c+tc + x/4*dc + x%4;
            if (ry < h && cx < w) out[ry*w + cx] = o[y][x];
        }
}
''', threads=threads_per_block, shared=all_stages, BM=128, BN=128, BK=16, TM=8, TN=8, STAGES=3, BLOCKS=2)

ahead = changed(staged, {'staged_k': 'ahead_k', '''
    for (int p = 0; p*BK < k; p++) {
        __pipeline_wait_prior(STAGES-2);                            // this thread's copies for phase p are done,
        __syncthreads();                                            // and all threads'; stage p-1 is free
        copy_phase(stages[(p+STAGES-1)%STAGES], m, n, r, c, (p+STAGES-1)*BK, h, w, k);
        Stage &s = stages[p%STAGES];
        #pragma unroll
        for (int i = 0; i < BK; i++) {
            __align__(16) float a[TM], b[TN];
            load(a, &s.ms[i][tr], dr);
            load(b, &s.ns[i][tc], dc);
            for (int y = 0; y < TM; y++)
                for (int x = 0; x < TN; x++) o[y][x] += a[y]*b[x];
''': '''
    __pipeline_wait_prior(STAGES-2);
    __syncthreads();
    __align__(16) float a[2][TM], b[2][TN];                         // the elements in use, and the next ones
    load(a[0], &stages[0].ms[0][tr], dr);
    load(b[0], &stages[0].ns[0][tc], dc);
    for (int p = 0; p*BK < k; p++) {
        #pragma unroll
        for (int i = 0; i < BK; i++) {
            if (i == BK-1) {                                        // before the last multiply-adds, wait
                __pipeline_wait_prior(STAGES-2);                    // for the tiles of the next phase
                __syncthreads();
            }
            Stage &s = stages[(p + (i+1)/BK)%STAGES];
            load(a[(i+1)%2], &s.ms[(i+1)%BK][tr], dr);
            load(b[(i+1)%2], &s.ns[(i+1)%BK][tc], dc);
            if (i == 0) copy_phase(stages[(p+STAGES-1)%STAGES], m, n, r, c, (p+STAGES-1)*BK, h, w, k);
            for (int y = 0; y < TM; y++)
                for (int x = 0; x < TN; x++) o[y][x] += a[i%2][y]*b[i%2][x];
'''}, name='ahead')

large = ahead.variant('large', BM=256, TM=16, BLOCKS=1)

def whole_tiles(h, w, k): # True, or the reason why not
    "Return whether out has at least the size of a tile of 128 x 128"
    return h >= 128 and w >= 128 or 'a matrix is smaller than a tile'

pointers_copy_src = r'''
#include <cuda_pipeline.h>
constexpr int threads = BM/TM * (BN/TN);

struct Stage { float ms[BK][BM+4], ns[BK][BN]; };

// Starts an asynchronous copy of N contiguous elements (N is 1 or 4); zeros unless `in`
template<int N> __device__ void copy(float *to, const float *from, bool in) {
    __pipeline_memcpy_async(to, from, 4*N, in ? 0 : 4*N);
}

// Loads N elements of a tile by 16-byte loads: four at `s`, then four more every `stride` elements
template<int N> __device__ void load(float (&a)[N], const float *s, int stride) {
    #pragma unroll
    for (int y = 0; y < N; y += 4) *(float4 *)&a[y] = *(const float4 *)&s[y/4*stride];
}
'''

pointers = Rung('pointers', pointers_copy_src + r'''
__global__ void __launch_bounds__(threads, BLOCKS)
pointers_k(const float *m, const float *n, float *out, int h, int w, int k) {
    extern __shared__ __align__(16) Stage stages[];
    int t = threadIdx.x, warp = t/32, lane = t%32;
    constexpr int WM = 4*TM, WN = 8*TN, dr = 4*4, dc = 8*4;
    int tr = warp/(BN/WN)*WM + (lane%2 + lane/16*2)*4;
    int tc = warp%(BN/WN)*WN + lane/2%8*4;
    int row = blockIdx.y*BM, col = blockIdx.x*BN;
    int r = min(row, h-BM), c = min(col, w-BN);         // the last tiles move back inside

    // what this thread copies: one element of every MR-th row of m, V elements of every NR-th row of n
    constexpr int MR = threads/BK, NR = threads*V/BN;
    int my = t/BK, mz = t%BK, ny = t*V/BN, nz = t*V%BN;
    const float *pm = m + (r + my)*k + mz, *pn = n + ny*w + c + nz;
    int dm = MR*k, dn = NR*w;
    auto copy_m = [&](Stage &s, int i, bool in) { copy<1>(&s.ms[mz][my + i*MR], pm + i*dm, in); };
    auto copy_n = [&](Stage &s, int i, bool in) { copy<V>(&s.ns[ny + i*NR][nz], pn + i*dn, in); };
    auto next = [&](int step) { __pipeline_commit(); pm += step; pn += step*w; };

    int phases = (k + BK-1)/BK;
    for (int p = 0; p < STAGES-1; p++) {
        for (int i = 0; i < BM/MR; i++) copy_m(stages[p], i, p*BK + mz < k);
        for (int i = 0; i < BK/NR; i++) copy_n(stages[p], i, p*BK + ny + i*NR < k);
        next(BK);
    }
    __pipeline_wait_prior(STAGES-2);
    __syncthreads();
    float o[TM][TN] = {};
    __align__(16) float a[2][TM], b[2][TN];
    load(a[0], &stages[0].ms[0][tr], dr);
    load(b[0], &stages[0].ns[0][tc], dc);
    int use = 0, fill = STAGES-1;
    for (int p = 0; p < phases; p++) {
        int left = k - (p + STAGES-1)*BK;                       // elements left along k for the copies below
        Stage &to = stages[fill];
        #pragma unroll
        for (int i = 0; i < BK; i++) {
            if (i == BK-1) {
                __pipeline_wait_prior(STAGES-2);
                __syncthreads();
                use = use == STAGES-1 ? 0 : use+1;
            }
            load(a[(i+1)%2], &stages[use].ms[(i+1)%BK][tr], dr);
            load(b[(i+1)%2], &stages[use].ns[(i+1)%BK][tc], dc);
            if (i == 0) {
                for (int j = 0; j < BM/MR; j++) copy_m(to, j, mz < left);
                for (int j = 0; j < BK/NR; j++) copy_n(to, j, ny + j*NR < left);
                next(BK);
            }
            for (int y = 0; y < TM; y++)
                for (int x = 0; x < TN; x++) o[y][x] += a[i%2][y]*b[i%2][x];
        }
        fill = fill == STAGES-1 ? 0 : fill+1;
    }
    for (int y = 0; y < TM; y++)
        for (int x = 0; x < TN; x++) {
            int ry = r+tr + y/4*dr + y%4, cx = c+tc + x/4*dc + x%4;
            if (ry >= row && cx >= col) out[ry*w + cx] = o[y][x];   // the neighbouring tile stores the others
        }
}
''', threads=threads_per_block, shared=all_stages, supports=whole_tiles,
     BM=128, BN=128, BK=16, TM=8, TN=8, STAGES=3, BLOCKS=2, V=1)

partial_phase_first_changes = {'''
    int phases = (k + BK-1)/BK;
    for (int p = 0; p < STAGES-1; p++) {
        for (int i = 0; i < BM/MR; i++) copy_m(stages[p], i, p*BK + mz < k);
        for (int i = 0; i < BK/NR; i++) copy_n(stages[p], i, p*BK + ny + i*NR < k);
        next(BK);
''': '''
    int phases = (k + BK-1)/BK, first = k - (phases-1)*BK;      // the partial phase comes first
    for (int p = 0; p < STAGES-1; p++) {
        int count = p ? BK : first;
        for (int i = 0; i < BM/MR; i++) copy_m(stages[p], i, p < phases && mz < count);
        for (int i = 0; i < BK/NR; i++) copy_n(stages[p], i, p < phases && ny + i*NR < count);
        next(count);
''', '''
        int left = k - (p + STAGES-1)*BK;                       // elements left along k for the copies below
''': '''
        bool more = p + STAGES-1 < phases;
''', '(to, j, mz < left)': '(to, j, more)', '(to, j, ny + j*NR < left)': '(to, j, more)'}

def whole_quads(h, w, k): # True, or the reason why not
    "Return whether out has the size of a tile, and rows of n begin at multiples of 16 bytes"
    return whole_tiles(h, w, k) if w%4 == 0 else 'a row of n is not a multiple of 16 bytes'

ptx_copy_changes = {'''
    __pipeline_memcpy_async(to, from, 4*N, in ? 0 : 4*N);
''': '''
    unsigned smem = __cvta_generic_to_shared(to);
    if (N == 4) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                             :: "r"(smem), "l"(from), "r"(in ? 16 : 0));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                      :: "r"(smem), "l"(from), "r"(in ? 4 : 0));
'''}
lean = changed(pointers, {'pointers_k': 'lean_k', **partial_phase_first_changes, **ptx_copy_changes},
               name='lean', V=4, supports=whole_quads)

serpentine_changes = {'''
            for (int y = 0; y < TM; y++)
                for (int x = 0; x < TN; x++) o[y][x] += a[i%2][y]*b[i%2][x];
''': '''
            for (int x = 0; x < TN; x++)                // serpentine: down one column, up the next
                for (int j = 0; j < TM; j++) {
                    int y = x%2 ? TM-1-j : j;
                    o[y][x] += a[i%2][y]*b[i%2][x];
                }
'''}

spread_copies_changes = {'''
            if (i == 0) {
                for (int j = 0; j < BM/MR; j++) copy_m(to, j, more);
                for (int j = 0; j < BK/NR; j++) copy_n(to, j, more);
                next(BK);
            }
''': '''
            if (i < SPREAD) {                                   // spread the copies over SPREAD steps
                for (int j = i*(BM/MR)/SPREAD; j < (i+1)*(BM/MR)/SPREAD; j++) copy_m(to, j, more);
                for (int j = i*(BK/NR)/SPREAD; j < (i+1)*(BK/NR)/SPREAD; j++) copy_n(to, j, more);
            }
            if (i == SPREAD-1) next(BK);
'''}

tile_order_changes = {'''
    int row = blockIdx.y*BM, col = blockIdx.x*BN;
''': '''
    // Bands of GROUP tile rows, column-major within a band: concurrent blocks share rows and columns in L2
    int tile_cols = gridDim.x, id = blockIdx.y*tile_cols + blockIdx.x, top = id/(GROUP*tile_cols)*GROUP;
    int rows = min(GROUP, (int)gridDim.y - top), i = id%(GROUP*tile_cols);
    int row = (top + i%rows)*BM, col = i/rows*BN;
'''}

row_stores_changes = {'''
    for (int y = 0; y < TM; y++)
        for (int x = 0; x < TN; x++) {
            int ry = r+tr + y/4*dr + y%4, cx = c+tc + x/4*dc + x%4;
            if (ry >= row && cx >= col) out[ry*w + cx] = o[y][x];   // the neighbouring tile stores the others
        }
''': '''
    for (int y = 0; y < TM; y++) {                      // stores to the same sector are consecutive
        int ry = r+tr + y/4*dr + y%4, cx = c+tc;
        float *to = out + (size_t)ry*w + cx;
        if (ry >= row)
            for (int x = 0; x < TN; x++)
                if (cx + x/4*dc + x%4 >= col) to[x/4*dc + x%4] = o[y][x];
    }
'''}

lane_layout_changes = {'''
    int tr = warp/(BN/WN)*WM + (lane%2 + lane/16*2)*4;
    int tc = warp%(BN/WN)*WN + lane/2%8*4;
''': '''
    int tr = warp/(BN/WN)*WM + lane%4*4, tc = warp%(BN/WN)*WN + lane/4*4;    // 4 x 8 lanes, column-major
'''}
tuned_changes = {**serpentine_changes, **spread_copies_changes, **tile_order_changes, **row_stores_changes,
                 **lane_layout_changes}
tuned = changed(lean, {'lean_k': 'tuned_k', **tuned_changes}, name='tuned', SPREAD=2, GROUP=8)
