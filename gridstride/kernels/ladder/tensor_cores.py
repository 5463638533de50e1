"""The ladder of the chapter `tensor_cores`: bfloat16 GEMMs with `wmma` and `mma.sync`; each step applies one more
optimization. Names that end in `_src` are CUDA C.
"""

from ..ptx import primitives
from .rung import Rung
from ...bench.variants import changed

def has_whole_fragments(h, w, k): # True, or the reason why not
    "Return whether all sizes are multiples of 16: a fragment has no guard"
    return h%16==w%16==k%16==0 or 'h, w and k must be multiples of 16: a fragment has no guard'

wmma = Rung('wmma', r'''
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda::wmma;
typedef __nv_bfloat16 bf16;

__global__ void matmul_k(const bf16 *m, const bf16 *n, bf16 *out, int h, int w, int k) {
    __shared__ __align__(32) float tile[BM*BN];
    int r = blockIdx.y*BM, c = blockIdx.x*BN;
    fragment<matrix_a, 16, 16, 16, bf16, row_major> a;
    fragment<matrix_b, 16, 16, 16, bf16, row_major> b;
    fragment<accumulator, 16, 16, 16, float> o;
    fill_fragment(o, 0.0f);
    for (int idx = 0; idx < k; idx += 16) {
        load_matrix_sync(a, m + r*k + idx, k);            // 16x16 elements; the leading dimension is k
        load_matrix_sync(b, n + idx*w + c, w);
        mma_sync(o, a, b, o);
    }
    store_matrix_sync(tile, o, 16, mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < BM*BN; i += 32)
        out[(r + i/BN)*w + c + i%BN] = __float2bfloat16(tile[i]);
}
''', threads=32, dtype='bfloat16', supports=has_whole_fragments, BM=16, BN=16)

def has_aligned_rows(h, w, k): # True, or the reason why not
    "Return whether rows can be copied 16 bytes at a time"
    return w%8==k%8==0 or 'w and k must be multiples of 8: rows are copied 16 bytes at a time'

types_src = r'''
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
typedef unsigned u32;
'''
row_major_src = r'''
template<int COLS> constexpr __device__ int place(int r, int c) { return r*COLS + c; }
'''
load_tile_src = r'''
constexpr int THREADS = 256;

// Loads ROWS x COLS elements of x (rows x cols), from row r and column c on, into `tile`; zeros where out of bounds
template<int ROWS, int COLS> __device__ void load_tile(bf16 *tile, const bf16 *x, int r, int c, int rows, int cols) {
    int tr = threadIdx.x/(COLS/8), tc = threadIdx.x%(COLS/8)*8;
    for (int i = 0; i < ROWS; i += THREADS*8/COLS) {
        bool inside = r+tr+i < rows && c+tc < cols;
        *(uint4 *)&tile[place<COLS>(tr+i, tc)] = inside ? *(const uint4 *)&x[(size_t)(r+tr+i)*cols + c+tc] : uint4{};
    }
}
'''

shared = Rung('shared', types_src + row_major_src + load_tile_src + r'''
#include <mma.h>
using namespace nvcuda::wmma;

__global__ void __launch_bounds__(THREADS) matmul_k(const bf16 *m, const bf16 *n, bf16 *out, int h, int w, int k) {
    __shared__ __align__(128) bf16 ms[BM*BK], ns[BK*BN];
    __shared__ __align__(128) float tile[8][16*16];
    int r = blockIdx.y*BM, c = blockIdx.x*BN, warp = threadIdx.x/32, lane = threadIdx.x%32;
    int wr = warp/2*32, wc = warp%2*64;                   // first row and column of this warp: 4 x 2 warps
    fragment<matrix_a, 16, 16, 16, bf16, row_major> a[2];
    fragment<matrix_b, 16, 16, 16, bf16, row_major> b[4];
    fragment<accumulator, 16, 16, 16, float> o[2][4];
    for (int i = 0; i < 2; i++) for (int j = 0; j < 4; j++) fill_fragment(o[i][j], 0.0f);
    for (int idx = 0; idx < k; idx += BK) {
        load_tile<BM, BK>(ms, m, r, idx, h, k);
        load_tile<BK, BN>(ns, n, idx, c, k, w);
        __syncthreads();
        for (int s = 0; s < BK; s += 16) {
            for (int i = 0; i < 2; i++) load_matrix_sync(a[i], &ms[(wr+16*i)*BK + s], BK);
            for (int j = 0; j < 4; j++) load_matrix_sync(b[j], &ns[s*BN + wc+16*j], BN);
            for (int i = 0; i < 2; i++) for (int j = 0; j < 4; j++) mma_sync(o[i][j], a[i], b[j], o[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++) for (int j = 0; j < 4; j++) {  // staged in 16x16 floats per warp, as before
        store_matrix_sync(tile[warp], o[i][j], 16, mem_row_major);
        __syncwarp();
        for (int t = lane; t < 16*16; t += 32) {
            int row = r+wr+16*i + t/16, col = c+wc+16*j + t%16;
            if (row < h && col < w) out[(size_t)row*w + col] = __float2bfloat16(tile[warp][t]);
        }
        __syncwarp();
    }
}
''', threads=256, dtype='bfloat16', supports=has_aligned_rows, BM=128, BN=128, BK=64)

mma_src = primitives('mma')
store_src = r'''
// Stores the warp's fragments of o, from row r and column c of out on, two adjacent elements at a time
template<int I, int J> __device__ void store(const float (&o)[I][J][4], bf16 *out, int r, int c, int h, int w) {
    int g = threadIdx.x%32/4, t = threadIdx.x%4*2;
    for (int i = 0; i < I; i++) for (int j = 0; j < J; j++) for (int q = 0; q < 2; q++) {
        int row = r + 16*i + g + q*8, col = c + 8*j + t;
        if (row < h && col < w)
            *(__nv_bfloat162 *)&out[(size_t)row*w + col] = __floats2bfloat162_rn(o[i][j][2*q], o[i][j][2*q+1]);
    }
}
'''
pair_src = r'''
__device__ u32 pair(const bf16 *p, int step) {            // p[0] in the low half, p[step] in the high half
    return *(const unsigned short *)p | *(const unsigned short *)(p + step) << 16;
}
'''

by_hand = Rung('by hand', types_src + row_major_src + load_tile_src + mma_src + store_src + pair_src + r'''
__global__ void __launch_bounds__(THREADS) matmul_k(const bf16 *m, const bf16 *n, bf16 *out, int h, int w, int k) {
    __shared__ __align__(128) bf16 ms[BM*BK], ns[BK*BN];
    int r = blockIdx.y*BM, c = blockIdx.x*BN, warp = threadIdx.x/32, lane = threadIdx.x%32;
    int wr = warp/2*32, wc = warp%2*64, g = lane/4, t = lane%4*2;
    float o[2][8][4] = {};
    for (int idx = 0; idx < k; idx += BK) {
        load_tile<BM, BK>(ms, m, r, idx, h, k);
        load_tile<BK, BN>(ns, n, idx, c, k, w);
        __syncthreads();
        for (int s = 0; s < BK; s += 16) {
            u32 a[2][4], b[8][2];
            for (int i = 0; i < 2; i++) for (int q = 0; q < 4; q++)
                a[i][q] = *(const u32 *)&ms[place<BK>(wr + 16*i + g + q%2*8, s + t + q/2*8)];
            for (int j = 0; j < 8; j++) for (int q = 0; q < 2; q++)
                b[j][q] = pair(&ns[place<BN>(s + t + q*8, wc + 8*j + g)], BN);
            for (int i = 0; i < 2; i++) for (int j = 0; j < 8; j++) mma(o[i][j], a[i], b[j][0], b[j][1]);
        }
        __syncthreads();
    }
    store(o, out, r + wr, c + wc, h, w);
}
''', threads=256, dtype='bfloat16', supports=has_aligned_rows, BM=128, BN=128, BK=64)

padded_src = r'''
template<int COLS> constexpr __device__ int place(int r, int c) { return r*(COLS+8) + c; }
'''
ldmatrix_src = primitives('address', 'ldmatrix') + r'''
// The same, but each 8x8 matrix is transposed
__device__ void ldmatrix_trans(u32 (&x)[4], u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(row));
}
'''

by_ldmatrix = Rung('ldmatrix', types_src + padded_src + load_tile_src + mma_src + store_src + ldmatrix_src + r'''
__global__ void __launch_bounds__(THREADS) matmul_k(const bf16 *m, const bf16 *n, bf16 *out, int h, int w, int k) {
    __shared__ __align__(128) bf16 ms[place<BK>(BM, 0)], ns[place<BN>(BK, 0)];
    int r = blockIdx.y*BM, c = blockIdx.x*BN, warp = threadIdx.x/32, lane = threadIdx.x%32;
    int wr = warp/2*32, wc = warp%2*64;
    int lr = lane%16, lc = lane/16*8;                     // the row and column that this lane addresses
    float o[2][8][4] = {};
    for (int idx = 0; idx < k; idx += BK) {
        load_tile<BM, BK>(ms, m, r, idx, h, k);
        load_tile<BK, BN>(ns, n, idx, c, k, w);
        __syncthreads();
        for (int s = 0; s < BK; s += 16) {
            u32 a[2][4], b[4][4];                         // b[j]: two fragments, 16 columns
            for (int i = 0; i < 2; i++) ldmatrix(a[i], address(&ms[place<BK>(wr + 16*i + lr, s + lc)]));
            for (int j = 0; j < 4; j++) ldmatrix_trans(b[j], address(&ns[place<BN>(s + lr, wc + 16*j + lc)]));
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 8; j++) mma(o[i][j], a[i], b[j/2][j%2*2], b[j/2][j%2*2+1]);
        }
        __syncthreads();
    }
    store(o, out, r + wr, c + wc, h, w);
}
''', threads=256, dtype='bfloat16', supports=has_aligned_rows, BM=128, BN=128, BK=64)

swizzle_src = r'''
// Row-major, but swizzled: the index of a 16-byte chunk within its 128 bytes is XORed with the row modulo 8
template<int COLS> constexpr __device__ int place(int r, int c) { return r*COLS + (c ^ r%8*8); }
'''
swizzled = changed(by_ldmatrix, {padded_src: swizzle_src}, name='swizzled')

copies_src = primitives('copy_async', 'copies_commit', 'copies_wait')
sizes_src = r'''
constexpr int THREADS = BM/WM*(BN/WN)*32;                 // WM x WN results per warp
constexpr int MTILE = 2*BM*BK, STAGE = MTILE + 2*BK*BN;   // bytes: a stage has a tile of m, then one of n
'''
copy_tile_src = r'''
template<int ROWS, int COLS> __device__ void copy_tile(u32 tile, const bf16 *x, int r, int c, int rows, int cols) {
    int tr = threadIdx.x/(COLS/8), tc = threadIdx.x%(COLS/8)*8;
    const bf16 *from = x + (size_t)(r+tr)*cols + c+tc;
    for (int i = 0; i < ROWS; i += THREADS*8/COLS)
        copy_async<16>(tile + 2*place<COLS>(tr+i, tc), from + (size_t)i*cols, r+tr+i < rows && c+tc < cols);
}
'''

def warps_of(BM, BN, WM, WN):       # threads
    "Return the threads per block: one warp per WM x WN results of a tile"
    return BM//WM*(BN//WN)*32

def all_stages(BM, BN, BK, STAGES): # bytes
    "Return the shared memory for both tiles in all stages"
    return 2*STAGES*(BM*BK + BK*BN)

stages_functions_src = (types_src + swizzle_src + ldmatrix_src + copies_src + sizes_src + copy_tile_src + mma_src
                        + store_src)
stages = Rung('stages', stages_functions_src + r'''
__global__ void __launch_bounds__(THREADS, BLOCKS)
matmul_k(const bf16 *m, const bf16 *n, bf16 *out, int h, int w, int k) {
    extern __shared__ __align__(128) bf16 shared[];
    u32 stages = address(shared);                         // a ring of STAGES stages
    int r = blockIdx.y*BM, c = blockIdx.x*BN, warp = threadIdx.x/32, lane = threadIdx.x%32;
    int wr = warp/(BN/WN)*WM, wc = warp%(BN/WN)*WN, lr = lane%16, lc = lane/16*8;
    float o[WM/16][WN/8][4] = {};
    auto fetch = [&](int phase) {
        u32 stage = stages + phase%STAGES*STAGE;
        copy_tile<BM, BK>(stage, m, r, phase*BK, h, k);
        copy_tile<BK, BN>(stage + MTILE, n, phase*BK, c, k, w);
        copies_commit();
    };
    for (int phase = 0; phase < STAGES-1; phase++) fetch(phase);
    for (int phase = 0; phase*BK < k; phase++) {
        copies_wait<STAGES-2>();                          // this thread's copies for this phase are done,
        __syncthreads();                                  // and all threads'; the previous stage is free
        fetch(phase + STAGES-1);
        u32 ms = stages + phase%STAGES*STAGE, ns = ms + MTILE;
        for (int s = 0; s < BK; s += 16) {
            u32 a[WM/16][4], b[WN/16][4];
            for (int i = 0; i < WM/16; i++) ldmatrix(a[i], ms + 2*place<BK>(wr + 16*i + lr, s + lc));
            for (int j = 0; j < WN/16; j++) ldmatrix_trans(b[j], ns + 2*place<BN>(s + lr, wc + 16*j + lc));
            for (int i = 0; i < WM/16; i++)
                for (int j = 0; j < WN/8; j++) mma(o[i][j], a[i], b[j/2][j%2*2], b[j/2][j%2*2+1]);
        }
    }
    store(o, out, r + wr, c + wc, h, w);
}
''', threads=warps_of, shared=all_stages, dtype='bfloat16', supports=has_aligned_rows,
    BM=128, BN=128, BK=64, WM=32, WN=64, STAGES=3, BLOCKS=2)

larger = stages.variant('larger', BM=128, BN=256, BK=64, WM=64, WN=64, STAGES=4, BLOCKS=1)

kernel_head_src = r'''
constexpr int STEPS = BK/16;

__global__ void __launch_bounds__(THREADS, BLOCKS)
matmul_k(const bf16 *m, const bf16 *n, bf16 *out, int h, int w, int k) {
    extern __shared__ __align__(128) bf16 shared[];
    u32 stages = address(shared);
    int r = blockIdx.y*BM, c = blockIdx.x*BN, warp = threadIdx.x/32, lane = threadIdx.x%32;
    int wr = warp/(BN/WN)*WM, wc = warp%(BN/WN)*WN, lr = lane%16, lc = lane/16*8;
    float o[WM/16][WN/8][4] = {};
    u32 a[2][WM/16][4], b[2][WN/16][4];                   // fragments of this step and of the next
'''
load_src = r'''
    auto load_fragments = [&](u32 stage, int s) {
        for (int i = 0; i < WM/16; i++) ldmatrix(a[s%2][i], stage + 2*place<BK>(wr + 16*i + lr, 16*s + lc));
        for (int j = 0; j < WN/16; j++)
            ldmatrix_trans(b[s%2][j], stage + MTILE + 2*place<BN>(16*s + lr, wc + 16*j + lc));
    };
'''

fetch_src = r'''
    auto fetch = [&](int phase) {
        u32 stage = stages + phase%STAGES*STAGE;
        copy_tile<BM, BK>(stage, m, r, phase*BK, h, k);
        copy_tile<BK, BN>(stage + MTILE, n, phase*BK, c, k, w);
        copies_commit();
    };
    for (int phase = 0; phase < STAGES-1; phase++) fetch(phase);
'''

loop_src = r'''
    copies_wait<STAGES-2>();
    __syncthreads();
    load_fragments(stages, 0);
    for (int phase = 0; phase*BK < k; phase++) {
        #pragma unroll
        for (int s = 0; s < STEPS; s++) {
            if (s == STEPS-1) {                           // the next step reads the next stage:
                copies_wait<STAGES-2>();                  // wait for its copies
                __syncthreads();
            }
            load_fragments(stages + (s == STEPS-1 ? phase+1 : phase)%STAGES*STAGE, (s+1)%STEPS);
            if (s == 0) fetch(phase + STAGES-1);
            for (int i = 0; i < WM/16; i++)
                for (int j = 0; j < WN/8; j++) mma(o[i][j], a[s%2][i], b[s%2][j/2][j%2*2], b[s%2][j/2][j%2*2+1]);
        }
    }
'''

kernel_end_src = r'''
    store(o, out, r + wr, c + wc, h, w);
}
'''
device_functions_src = types_src + swizzle_src + ldmatrix_src + copies_src + sizes_src + mma_src + store_src
ahead = larger.variant('ahead', src=device_functions_src + copy_tile_src + kernel_head_src + load_src + fetch_src
                       + loop_src + kernel_end_src)

copy_counts_src = r'''
// rows of m and of n that all threads copy at once; copies per thread and stage, of m and in all
constexpr int MDOWN = THREADS*8/BK, NDOWN = THREADS*8/BN, MCOPIES = BM/MDOWN, COPIES = MCOPIES + BK/NDOWN;
'''
load_ready_src = r'''
    int mat[STEPS], nat[WN/16];                           // this lane's offsets for ldmatrix in a stage
    for (int s = 0; s < STEPS; s++) mat[s] = 2*place<BK>(wr + lr, 16*s + lc);
    for (int j = 0; j < WN/16; j++) nat[j] = 2*place<BN>(lr, wc + 16*j + lc) + MTILE;
    auto load_fragments = [&](u32 stage, int s) {
        for (int i = 0; i < WM/16; i++) ldmatrix(a[s%2][i], stage + mat[s] + 2*16*i*BK);
        for (int j = 0; j < WN/16; j++) ldmatrix_trans(b[s%2][j], stage + nat[j] + 2*16*s*BN);
    };
'''

fetch_ready_src = r'''
    int mr = threadIdx.x/(BK/8), mc = threadIdx.x%(BK/8)*8;  // row and column of this thread's first copy of m
    int nr = threadIdx.x/(BN/8), nc = threadIdx.x%(BN/8)*8;  // and of n
    const bf16 *from[COPIES];                             // the source address of each of its copies
    for (int i = 0; i < MCOPIES; i++) from[i] = m + (size_t)(r+mr + i*MDOWN)*k + mc;
    for (int i = MCOPIES; i < COPIES; i++) from[i] = n + (size_t)(nr + (i-MCOPIES)*NDOWN)*w + c+nc;
    int left = k;                                         // elements that remain along k from there on
    auto copy = [&](u32 stage, int i) {
        int y = i < MCOPIES ? i*MDOWN : (i-MCOPIES)*NDOWN;
        if (i < MCOPIES) copy_async<16>(stage + 2*(place<BK>(mr, mc) + y*BK), from[i], r+mr+y < h && mc < left);
        else copy_async<16>(stage + 2*(place<BN>(nr, nc) + y*BN) + MTILE, from[i], nr+y < left && c+nc < w);
        from[i] += i < MCOPIES ? BK : (long long)BK*w;
    };
    for (int phase = 0; phase < STAGES-1; phase++) {
        for (int i = 0; i < COPIES; i++) copy(stages + phase*STAGE, i);
        copies_commit();
        left -= BK;
    }
'''

loop_ready_src = r'''
    copies_wait<STAGES-2>();
    __syncthreads();
    load_fragments(stages, 0);
    int use = 0, fill = STAGES-1;                         // the stage in use, and the one to fill
    for (int idx = 0; idx < k; idx += BK) {
        int next = use+1 < STAGES ? use+1 : 0;
        #pragma unroll
        for (int s = 0; s < STEPS; s++) {
            if (s == STEPS-1) {                           // the next step reads the next stage:
                copies_wait<STAGES-3>();                  // wait for its copies
                __syncthreads();
            }
            load_fragments(stages + (s == STEPS-1 ? next : use)*STAGE, (s+1)%STEPS);
            for (int i = s*COPIES/STEPS; i < (s+1)*COPIES/STEPS; i++) copy(stages + fill*STAGE, i);
            for (int i = 0; i < WM/16; i++)
                for (int j = 0; j < WN/8; j++) mma(o[i][j], a[s%2][i], b[s%2][j/2][j%2*2], b[s%2][j/2][j%2*2+1]);
        }
        copies_commit();
        left -= BK;
        fill = use;
        use = next;
    }
'''
ready = larger.variant('ready', src=device_functions_src + copy_counts_src + kernel_head_src + load_ready_src
                       + fetch_ready_src + loop_ready_src + kernel_end_src)

store_rows_src = r'''
// Stores the block's tile of out: from fragments to shared memory, and from there row by row
__device__ void store_rows(const float (&o)[WM/16][WN/8][4], bf16 *tile, bf16 *out,
                           int wr, int wc, int r, int c, int h, int w) {
    int g = threadIdx.x%32/4, t = threadIdx.x%4*2;
    for (int i = 0; i < WM/16; i++) for (int j = 0; j < WN/8; j++) for (int q = 0; q < 2; q++)
        *(__nv_bfloat162 *)&tile[place<BN>(wr + 16*i + g + q*8, wc + 8*j + t)] =
            __floats2bfloat162_rn(o[i][j][2*q], o[i][j][2*q+1]);
    __syncthreads();
    for (int i = threadIdx.x; i < BM*BN/8; i += THREADS) {
        int tr = i/(BN/8), tc = i%(BN/8)*8;
        if (r+tr < h && c+tc < w) *(uint4 *)&out[(size_t)(r+tr)*w + c+tc] = *(uint4 *)&tile[place<BN>(tr, tc)];
    }
}
'''
kernel_end_rows_src = r'''
    copies_wait<0>();                                     // copies of zeros past the end of k are in flight
    __syncthreads();
    store_rows(o, shared, out, wr, wc, r, c, h, w);
}
'''
stored = changed(ready, {store_src: store_rows_src, kernel_end_src: kernel_end_rows_src}, name='stored')

tile_of_src = r'''
// The tile of a block: bands of GROUP tile rows, column-major within a band, for reuse in L2
__device__ int2 tile_of(int block, int across, int down) {
    int first = block/(GROUP*across)*GROUP, rows = min(GROUP, down - first), i = block%(GROUP*across);
    return {i/rows, first + i%rows};                      // across, down
}
'''

order = changed(stored, {store_rows_src: store_rows_src + tile_of_src, '''
    int r = blockIdx.y*BM, c = blockIdx.x*BN, warp''': '''
    int2 tile = tile_of(blockIdx.y*gridDim.x + blockIdx.x, gridDim.x, gridDim.y);
    int r = tile.y*BM, c = tile.x*BN, warp''', '''
                for (int j = 0; j < WN/8; j++) mma(o[i][j], a[s%2][i], b[s%2][j/2][j%2*2], b[s%2][j/2][j%2*2+1]);
''': '''
                for (int x = 0; x < WN/8; x++) {
                    int j = i%2 ? WN/8-1-x : x;           // serpentine
                    mma(o[i][j], a[s%2][i], b[s%2][j/2][j%2*2], b[s%2][j/2][j%2*2+1]);
                }
'''}, name='order', GROUP=16)
