"""`Bf16x6`: FP32 emulation on tensor cores, a float32 GEMM with a smaller error than the library's.
`choose` selects the fastest float32 kernel for a shape.

The tensor cores of an H100 multiply bf16 matrices 15x faster than its CUDA cores multiply float32 matrices. A float32
value has 24 significant bits; a bf16 value has 8 and the same range of exponents. So the sum of three bf16 values, the
**terms** hi, mid and lo, is exactly one float32 value:

$$x = x_{hi} + x_{mid} + x_{lo}$$

The product of two such sums has nine terms. Six of them are computed; the other three are below $2^{-24}$ of the
result. With six bf16 products per float32 product, a speedup of two and a half remains.

The result has the accuracy and the infinities of float32. But the arithmetic is not that of a chain of float32
multiply-adds, and the smallest values lose bits.
"""

from functools import lru_cache

import numpy as np

from ..ptx import PTX, wgmma
from ..ladder.rung import KernelLaunch, Device, LaunchPlan, GemmKernel, with_constants
from .skinny import SMALL, SKINNY, SKINNY_TN
from ...utils import cdiv


# A bf16 value is the upper half of a float32 value. Each term is the rounded remainder after the previous terms.
def round_to_bf16(
    x: np.ndarray,  # float32
) -> np.ndarray:
    "Round to the nearest bf16, ties to even; returns float32 values"
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def split_into_terms(x) -> tuple:  # (hi, mid, lo)
    "Split `x` into three bf16 arrays (stored as float32) whose sum is `x`"
    hi = round_to_bf16(x)
    mid = round_to_bf16(x - hi)
    return hi, mid, round_to_bf16(x - hi - mid)


# Tensor cores multiply bf16 values exactly, but they truncate the sums instead of rounding them. Per 16 elements
# along K, a tensor core finds the largest exponent among the accumulator and the 16 products, truncates all of them two
# bits below the last bit that a float32 of this exponent has, adds them, and truncates the result to float32. In NumPy:
def _exponent(x):
    "Return the exponents of float values; a very small one for 0"
    return np.where(x == 0, -999, np.frexp(x)[1] - 1)


def _truncate_to_float32(x):
    "Truncate float64 to float32, towards zero"
    rounded_value = x.astype(np.float32)
    return np.where(np.abs(rounded_value) > np.abs(x), np.nextafter(rounded_value, np.float32(0)), rounded_value)


def _tensor_core_step(acc, a, b):
    "Compute acc + a @ b for at most 16 elements along K"
    products = a.astype(np.float64)[:, :, None] * b
    exponents = _exponent(a)[:, :, None] + _exponent(b)
    largest_exponent = np.maximum(np.maximum(_exponent(acc), exponents.max(1)), -900)
    lowest_bit = np.exp2(largest_exponent - 25.0)  # that is kept: two bits below the last bit of a float32
    return _truncate_to_float32(
        (np.trunc(acc / lowest_bit) + np.trunc(products / lowest_bit[:, None]).sum(1)) * lowest_bit
    )


def tensor_core(acc, a, b) -> np.ndarray:
    "Compute acc + a @ b as wgmma does, for bf16 matrices `a` and `b` (stored as float32) and float32 accumulators"
    for i in range(0, a.shape[1], 16):
        acc = _tensor_core_step(acc, a[:, i : i + 16], b[i : i + 16])
    return acc


# Because a step keeps two extra bits, two halves of the last bit add up to one. But three quarters of the last bit are
# truncated to zero, although they would round to one. An H100 returns exactly the bits of this model, for values of
# equal magnitude and for values whose exponents differ by up to 28.
#
# Truncation always goes towards zero. Rounding errors average out, but truncation errors add up: over K terms the
# tensor core's error grows like K, not like its square root. The usual remedy: sum a short chunk along K on the tensor
# core, add the result to a float32 accumulator in registers, which rounds, and start the next chunk from zero. Within a
# chunk the small products come first, while the sum is small and little is truncated.
TERMS = (2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)  # (term of A, term of B) of the six products, small ones first


def split_matmul(a, b, chunk=32) -> np.ndarray:
    "Compute a @ b of float32 matrices as the kernel below does, in chunks of `chunk` elements along K"
    a_terms, b_terms = split_into_terms(a), split_into_terms(b)
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in range(0, a.shape[1], chunk):
        chunk_sum = np.zeros_like(out)
        for a_term, b_term in TERMS:
            chunk_sum = tensor_core(chunk_sum, a_terms[a_term][:, i : i + chunk], b_terms[b_term][i : i + chunk])
        out += chunk_sum
    return out


# Nine products instead of six give the same result; three (hi hi, hi mid, mid hi) lose five bits.
#
# A first kernel splits both operands into terms, and stores them in the order that the second kernel needs in shared
# memory. A **chunk** is 32 elements along K of a tile: it is contiguous, with the three terms one after the other, each
# in blocks of 8 lines by 8 elements along K, as wgmma reads a tile without swizzle. Pieces are padded with zeros. So
# the second kernel loads a chunk with one bulk copy, without tensor maps, and supports every shape at the same speed.
#
# A **line** is a row of A or a column of B. Either operand may be K-major (a line is contiguous) or not, so that the
# transposed operands of the gradients need no copy. The terms take 6 bytes per element of A and B while the product
# runs.
split_src = r'''
#include <cuda_bf16.h>

// Reads eight elements of a line of an operand from `idx` on along K; zeros past the edges. `size`: number of lines
template<bool K_MAJOR>
__device__ void read_eight(float (&x)[8], const float *operand, int line, int idx, int size, int K) {
    bool is_aligned = K_MAJOR && K%4 == 0 && (size_t)operand%16 == 0 && line < size && idx+8 <= K;
    if (is_aligned) {
        *(float4 *)x = *(const float4 *)(operand + (size_t)line*K + idx);
        *(float4 *)(x+4) = *(const float4 *)(operand + (size_t)line*K + idx+4);
    } else
        #pragma unroll
        for (int v = 0; v < 8; v++)
            x[v] = line < size && idx+v < K
                ? operand[K_MAJOR ? (size_t)line*K + idx+v : (size_t)(idx+v)*size + line] : 0;
}

// Stores the three terms of eight elements: each is the rounded remainder after the previous terms
__device__ void write_eight(float (&x)[8], __nv_bfloat16 *dst, int term_stride) {
    #pragma unroll
    for (int p = 0; p < 3; p++) {
        alignas(16) __nv_bfloat162 term[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            term[i] = __floats2bfloat162_rn(x[2*i], x[2*i+1]);
            x[2*i] -= __low2float(term[i]);
            x[2*i+1] -= __high2float(term[i]);
        }
        *(uint4 *)(dst + p*term_stride) = *(uint4 *)term;     // one store of 16 bytes
    }
}

template<bool K_MAJOR, int T>
__device__ void split_block(const float *operand, __nv_bfloat16 *terms, int size, int K, int block) {
    int chunks = (K+31)/32, lines = (size+T-1)/T*T, t = threadIdx.x;
    int line, chunk, group;               // eight elements: a group of 8 in a chunk
    if (K_MAJOR) {                        // a warp reads 8 lines x 32 elements along K
        int index = block*8+t/32;
        chunk = index%chunks; line = index/chunks*8 + t%8; group = t/8%4;
    } else {                              // a warp reads 32 lines x 8 elements along K
        int index = block*256+t;
        line = index%lines; chunk = index/lines/4; group = index/lines%4;
    }
    float x[8];
    read_eight<K_MAJOR>(x, operand, line, chunk*32+group*8, size, K);
    write_eight(x, terms + ((size_t)(line/T)*chunks + chunk)*3*T*32 + (group*T + line%T)*8, T*32);
}

__global__ void __launch_bounds__(256)
split_operands(const float *A, const float *B, __nv_bfloat16 *A_terms, __nv_bfloat16 *B_terms, int M, int N, int K) {
    asm volatile("griddepcontrol.launch_dependents;");  // PDL: the product may start as blocks of this grid end
    int blocks_a = (M+BM-1)/BM*(BM/64)*((K+31)/32), b = blockIdx.x;
    if (b < blocks_a) split_block<A_K_MAJOR, BM>(A, A_terms, M, K, b);
    else split_block<B_K_MAJOR, BN>(B, B_terms, N, K, b-blocks_a);
}
'''


# Warp specialization: one thread of an additional warp, the producer, fills a ring of chunks (a multistage pipeline);
# the other warps are consumers, in warpgroups of 64 rows each. Per chunk of 32 elements along K a warpgroup issues six
# products of two wgmma instructions each, and then adds the sums to its accumulators. Meanwhile the other warpgroup
# uses the tensor cores.
#
# Split-K: if there are few tiles and K is long, SPLITS blocks split the K of a tile. They form a cluster, and each
# block reduces a part of the rows through distributed shared memory: always in the same order, so that the result is
# the same in every run.
gemm_src = r'''
#include <cuda_bf16.h>
constexpr float MAX_VALID = 0x1p127f;                  // below this value, the sums of terms are correct
constexpr int BK = 32, CONSUMERS = BM/16;              // consumer warps; one more warp is the producer
constexpr int CHUNK_A = 3*BM*BK, CHUNK_B = 3*BN*BK;    // elements of a chunk
constexpr int LINE = BN+8;                             // padded row of the accumulators in shared memory

// Descriptor of blocks of 8 x 8 elements, 128 bytes each. next_k: bytes to the next 8 elements along K
__device__ u64 descriptor_of_blocks(const void *p, int next_k) {
    return (address(p) >> 4 & 0x3fff) | (u64)(next_k >> 4) << 16 | (u64)(128 >> 4) << 32;
}

// Row r of A times column c of B by a chain of float32 multiply-adds, until the sum is NaN
__device__ float fma_chain(const float *A, const float *B, int r, int c, int M, int N, int K) {
    float sum = 0;
    for (size_t i = 0; i < K && !isnan(sum); i++)
        sum = fmaf(A[A_K_MAJOR ? (size_t)r*K + i : i*M + r], B[B_K_MAJOR ? (size_t)c*K + i : i*N + c], sum);
    return sum;
}

__global__ void __launch_bounds__(32*CONSUMERS+32, 1)
multiply_terms(const __nv_bfloat16 *A_terms, const __nv_bfloat16 *B_terms, const float *A, const float *B, float *C,
                int M, int N, int K) {
    extern __shared__ __align__(128) __nv_bfloat16 ring[];
    __shared__ u64 full[STAGES], empty[STAGES];
    int warp = threadIdx.x/32, lane = threadIdx.x%32;
    int rows = (M+BM-1)/BM, cols = (N+BN-1)/BN;
    int first_row = blockIdx.x/(GROUP*cols)*GROUP, position = blockIdx.x%(GROUP*cols);
    int band_rows = min(GROUP, rows-first_row);                     // bands of GROUP rows of tiles reuse chunks in L2
    int tr = first_row + position%band_rows, tc = position/band_rows;
    int all_chunks = (K+BK-1)/BK, chunks_per_block = (all_chunks+SPLITS-1)/SPLITS;
    int begin = min(all_chunks, (int)blockIdx.y*chunks_per_block);
    int chunks = min(all_chunks, begin+chunks_per_block)-begin;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(address(full+s), 1), barrier_init(address(empty+s), CONSUMERS);
        fence_mbarrier_init();
    }
    __syncthreads();
    float sum[BN/2] = {}, chunk_sum[BN/2];
    if (warp == CONSUMERS) {
        if (lane == 0) {                                             // producer
            asm volatile("griddepcontrol.wait;" ::: "memory");       // until the terms are stored
            for (int c = 0; c < chunks; c++) {
                int s = c%STAGES;
                __nv_bfloat16 *dst = ring + s*(CHUNK_A+CHUNK_B);
                if (c >= STAGES) while (!barrier_completed(address(empty+s), (c/STAGES-1)&1));
                barrier_expect(address(full+s), 2*(CHUNK_A+CHUNK_B));
                bulk_copy(address(dst), A_terms + ((size_t)tr*all_chunks + begin+c)*CHUNK_A, 2*CHUNK_A,
                          address(full+s));
                bulk_copy(address(dst+CHUNK_A), B_terms + ((size_t)tc*all_chunks + begin+c)*CHUNK_B, 2*CHUNK_B,
                          address(full+s));
            }
        }
        __syncwarp();
    }
    else
        for (int c = 0; c < chunks; c++) {
            int s = c%STAGES;
            __nv_bfloat16 *stage = ring + s*(CHUNK_A+CHUNK_B);
            u64 a_descriptor = descriptor_of_blocks(stage + warp/4*64*8, BM*16);
            u64 b_descriptor = descriptor_of_blocks(stage+CHUNK_A, BN*16);
            while (!barrier_completed(address(full+s), c/STAGES&1));
            wgmma_fence();
            // the small products first: lo hi, hi lo, mid mid, mid hi, hi mid, hi hi
            constexpr int A_TERM[6] = {2, 0, 1, 1, 0, 0}, B_TERM[6] = {0, 2, 1, 0, 1, 0};
            #pragma unroll
            for (int i = 0; i < 6; i++)
                #pragma unroll
                for (int kk = 0; kk < 2; kk++) {
                    u64 a_tile = a_descriptor + (A_TERM[i]*BM*BK*2 + kk*2*BM*16)/16;
                    u64 b_tile = b_descriptor + (B_TERM[i]*BN*BK*2 + kk*2*BN*16)/16;
                    wgmma<false, false>(chunk_sum, a_tile, b_tile, i+kk > 0);
                }
            wgmma_commit();
            wgmma_wait<0>();
            if (lane == 0) barrier_arrive(address(empty+s));
            // the tensor core truncates its sums, but these additions round
            #pragma unroll
            for (int i = 0; i < BN/2; i++) sum[i] += chunk_sum[i];
        }
    float *tile = (float *)ring;
    __syncthreads();                                // the ring is free: it now holds the accumulators
    if (warp < CONSUMERS)
        #pragma unroll
        for (int i = 0; i < BN/2; i += 2) {
            float *dst = tile + (warp*16 + lane/4 + i/2%2*8)*LINE + i/4*8 + lane%4*2;
            *(float2 *)dst = make_float2(sum[i], sum[i+1]);
        }
    cluster_sync();
    // each block reduces a part of the rows, always in the same order
    #pragma unroll 4
    for (int i = threadIdx.x; i < BM/SPLITS*BN; i += 32*CONSUMERS+32) {
        int y = blockIdx.y*(BM/SPLITS) + i/BN, x = i%BN, r = tr*BM+y, c = tc*BN+x;
        if (r >= M || c >= N) continue;
        float total = 0;
        #pragma unroll
        for (int b = 0; b < SPLITS; b++)
            total += SPLITS == 1 ? tile[y*LINE + x] : load_from_block(tile + y*LINE + x, b);
        if (!(fabsf(total) < MAX_VALID)) total = fma_chain(A, B, r, c, M, N, K);       // also if NaN
        C[(size_t)r*N + c] = total;
    }
    cluster_sync();                                     // no block exits while other blocks still read its memory
}
'''


# For a batch, the third axis of the grid is the index of the GEMM. Lines that offset the pointers are then inserted
# before or after the anchor lines. The source for one GEMM does not have them, because after pointer arithmetic the
# compiler would use narrower stores for the terms.
_SPLIT_ANCHOR = '    int blocks_a = '
_SPLIT_BATCH_OFFSETS = '''    size_t z = blockIdx.z, chunks = (K+31)/32;
    A += z*M*K; B += z*K*N;
    A_terms += z*3*32*chunks*((M+BM-1)/BM*BM); B_terms += z*3*32*chunks*((N+BN-1)/BN*BN);
'''
_GEMM_ANCHOR = '    int chunks = min(all_chunks, begin+chunks_per_block)-begin;\n'
_GEMM_BATCH_OFFSETS = '''    size_t z = blockIdx.z;
    A += z*M*K; B += z*K*N; C += z*M*N;
    A_terms += z*rows*all_chunks*CHUNK_A; B_terms += z*cols*all_chunks*CHUNK_B;
'''


class Bf16x6(GemmKernel):
    """A float32 GEMM, A @ B, on tensor cores, with tiles of BM x BN, and with split-K over `SPLITS` blocks
    per tile.

    Bf16x6(128, 128)(A, B)"""

    needs_hopper = True

    def __init__(self, BM=128, BN=128, SPLITS=1, layout='nn'):
        split_k = f', split-K {SPLITS}' if SPLITS > 1 else ''
        self.name = f'bf16x6 {BM}x{BN}{split_k}{"" if layout == "nn" else " " + layout}'
        self.layout = layout
        self.constants = dict(BM=BM, BN=BN, SPLITS=SPLITS, STAGES=3 if (BM, BN) == (64, 128) else 4, GROUP=8)

    def __repr__(self):
        return f'<Bf16x6 {self.name!r}>'

    @property
    def shared(self):
        "Bytes of shared memory: the ring, which the accumulators overwrite at the end"
        BM, BN, STAGES = (self.constants[name] for name in ('BM', 'BN', 'STAGES'))
        return max(STAGES * 3 * (BM + BN) * 32 * 2, BM * (BN + 8) * 4)

    @property
    def _layout_constants(self):
        "The constants that describe the memory layout of the operands"
        return dict(A_K_MAJOR=self.layout[0] == 'n', B_K_MAJOR=self.layout[1] == 't')

    @property
    def src(self):
        "The CUDA C of the kernel that multiplies the terms, with its constants"
        return with_constants(PTX + wgmma(self.constants['BN']) + gemm_src, self.constants | self._layout_constants)

    @property
    def split_src(self):
        "CUDA C of the kernel that splits the operands into terms"
        return with_constants(
            split_src, dict(BM=self.constants['BM'], BN=self.constants['BN'], **self._layout_constants)
        )

    def _sources(self, count):
        "Return both sources; for a batch, with the lines that offset the arrays to the GEMM of a block"
        if count == 1:
            return self.split_src, self.src
        split_src = self.split_src.replace(_SPLIT_ANCHOR, _SPLIT_BATCH_OFFSETS + _SPLIT_ANCHOR)
        return split_src, self.src.replace(_GEMM_ANCHOR, _GEMM_ANCHOR + _GEMM_BATCH_OFFSETS)

    def launch_plan(self, M, N, K, device, count=1):
        "Return the two launches, which split the operands and multiply the terms, for `count` GEMMs"
        BM, BN, SPLITS = (self.constants[name] for name in ('BM', 'BN', 'SPLITS'))
        rows, cols, chunks = cdiv(M, BM), cdiv(N, BN), cdiv(K, 32)
        blocks = chunks * (rows * BM + cols * BN) // 64
        shape = M, N, K
        split_grid, grid = (blocks,), (rows * cols, SPLITS)
        if count > 1:
            split_grid, grid = (blocks, 1, count), (*grid, count)
        split_src, src = self._sources(count)
        split_launch = KernelLaunch(
            split_src, 'split_operands', ('m', 'n', 'a_terms', 'b_terms'), shape, split_grid, (256,)
        )
        arrays = 'a_terms', 'b_terms', 'm', 'n', 'out'
        gemm_launch = KernelLaunch(src, 'multiply_terms', arrays, shape, grid, (2 * BM + 32,), self.shared)
        gemm_launch = gemm_launch._replace(pdl=True, cluster=(1, SPLITS, 1))
        a_size, b_size = (3 * 32 * chunks * count * lines for lines in (rows * BM, cols * BN))
        workspaces = dict(a_terms=(a_size, 'bfloat16'), b_terms=(b_size, 'bfloat16'))
        return LaunchPlan([split_launch, gemm_launch], workspaces)


# Infinity is split into infinity and NaN, a value above 3.39e38 becomes infinite in bf16, and partial sums may overflow
# with either sign. In all these cases the element of the result is NaN or huge. So before the kernel stores an element
# that is not below 2^127, it recomputes it with a chain of float32 FMAs. This needs no flag and no second launch, and
# the host does not wait. All other elements are left unchanged.
#
# The result differs from such a chain for values below 1e-33, which lose bits, because their lo term, and for smaller
# values their mid term, would be smaller than any float. If the elements of one operand are near 1e-36, the error
# reaches 7e-6 of |a||b|, the sum of the absolute products (float32: 2e-7), and near 1e-40 it reaches 7e-2 (1e-6).
# Relative to the result it is larger if products cancel: 3e-5 and 0.3 of its norm for random elements and K = 512
# (float32: 4e-7 and 4e-6).
#
# `_bf16x6_time` estimates the time of a GEMM in µs on an H100. It adds the times of the two launches; the bf16
# terms, which are stored and loaded again; the waves of blocks, each of which multiplies its chunks, with an overhead
# at its start and end; the store of the result. The constants were fitted to 70 measured shapes. On 60 of these, drawn
# at random (sizes of 64 to 8192, log-uniformly distributed), the kernel that the formula selects has a speedup of 1.32
# over torch in the geometric mean; the fastest kernels have 1.34. On 20 other shapes it was 1.30 and 1.33. Below 150
# rows torch is faster (0.96 in the mean), so torch multiplies; fewer than 64 columns were not measured.
TILES = {
    (128, 128): (1, 1.01, 3.7),
    (64, 64): (2, 0.69, 1.75),
    (64, 128): (2, 1.15, 2.9),
}  # (BM, BN): (blocks per SM, µs per chunk of 32 elements along K, µs of overhead per block)
SPLIT_COUNTS = 1, 2, 4, 8  # split-K: the number of blocks per tile
MIN_ROWS, MIN_COLUMNS = 150, 64  # below these, splitting costs as much as the tensor cores save
SHORT_K = 128  # for K up to this, torch may be faster as well
# Measured for twelve batches:
LIBRARY_RATE = 4.2e7  # operations per µs of torch
KERNEL_OVERHEAD = 10  # µs: our kernels take this much longer than their estimate
COMPUTE_BOUND_COLUMNS = 20  # columns above which a skinny GEMM without tensor cores is compute-bound


def _bf16x6_time(BM, BN, SPLITS, M, N, K, sms, count=1):
    "Estimate the time of `count` GEMMs, in µs"
    blocks_per_sm, chunk_time, block_overhead = TILES[BM, BN]
    rows, cols, chunks = cdiv(M, BM) * BM, cdiv(N, BN) * BN, cdiv(K, 32)
    waves = cdiv(count * (rows // BM) * (cols // BN) * SPLITS, blocks_per_sm * sms)
    return (
        5.1
        + count * 10 * 32 * chunks * (rows + cols) / 2.78e6
        + waves * (cdiv(chunks, SPLITS) * chunk_time + block_overhead + (SPLITS > 1) * (1.9 + 0.07 * SPLITS))
        + count * 4 * M * N / 3.8e6
    )


def _library_time(M, N, K, count=1):
    "Estimate the time of torch, in µs"
    return 4 + 2 * count * M * N * K / LIBRARY_RATE


def _small_kernel_time(M, N, K, sms):
    "Estimate the time of `SMALL`, in µs"
    return 4 + 0.05 * K * max(1, 0.7 * cdiv(M, 32) * cdiv(N, 32) / sms)


def _skinny_time(M, N, row_length, K, uses_tensor_cores):
    "Estimate the time of a skinny GEMM, in µs; `row_length`: elements per stored row of A"
    copy_factor = 1 if row_length % 4 == 0 else 1.25
    compute_factor = 1 if uses_tensor_cores else N / COMPUTE_BOUND_COLUMNS
    return 10 + 4 * M * K / 2.6e6 * max(copy_factor, compute_factor)


@lru_cache
def _cached_bf16x6(*args):
    "Return the `Bf16x6` for these arguments, cached, so that each kernel is compiled once"
    return Bf16x6(*args)


def all_kernels() -> list:
    "Return all kernels that `choose` may select, in each layout"
    return [
        _cached_bf16x6(*tile, splits, layout)
        for tile in TILES
        for splits in SPLIT_COUNTS
        for layout in ('nn', 'tn', 'nt')
    ]


def _select_kernel(M, N, K, sms, layout):
    "Return the kernel with the shortest estimated time, or the reason why torch is faster"
    candidates = [
        (_bf16x6_time(*tile, splits, M, N, K, sms), _cached_bf16x6(*tile, splits, layout))
        for tile in TILES
        for splits in SPLIT_COUNTS
    ]
    if layout == 'nn':
        candidates.append((_small_kernel_time(M, N, K, sms), SMALL))
    skinny = dict(nn=SKINNY, tn=SKINNY_TN).get(layout)
    device = Device(sms, True)
    uses_tensor_cores = skinny and (skinny.stages_config(M, N, K, device) or skinny.terms_config(M, N, K, device))
    if skinny and skinny.supports(M, N, K):
        candidates.append((_skinny_time(M, N, K if layout == 'nn' else M, K, uses_tensor_cores), skinny))
    time, kernel = min(candidates, key=lambda candidate: candidate[0])
    if kernel is skinny and N > COMPUTE_BOUND_COLUMNS and not uses_tensor_cores:
        return f'torch is faster for {COMPUTE_BOUND_COLUMNS + 1} to {skinny.MAX_COLUMNS} columns'
    if isinstance(kernel, Bf16x6) and (M < MIN_ROWS or N < MIN_COLUMNS):
        return (
            f'torch is faster with fewer than {MIN_ROWS} rows or {MIN_COLUMNS} columns: '
            'splitting the operands costs as much as the tensor cores save'
        )
    if isinstance(kernel, Bf16x6) and K <= SHORT_K and time > _library_time(M, N, K):
        return (
            f'torch is faster with a K of at most {SHORT_K}: '
            'splitting the operands costs as much as the tensor cores save'
        )
    return kernel


def choose(M, N, K, sms):
    "Return the fastest kernel for (M x K) @ (K x N) on `sms` SMs, or the reason why torch is faster"
    return _select_kernel(M, N, K, sms, 'nn')


def choose_tn(M, N, K, sms):
    "Return the fastest kernel as `choose` does, for an A that is stored transposed"
    return _select_kernel(M, N, K, sms, 'tn')


def choose_nt(M, N, K, sms):
    "Return the fastest kernel as `choose` does, for a B that is stored transposed"
    return _select_kernel(M, N, K, sms, 'nt')


def choose_batch(count, M, N, K, sms, layout):
    "Return the fastest kernel for `count` GEMMs (M x K) @ (K x N), or the reason why torch is faster"
    candidates = [
        (_bf16x6_time(*tile, splits, M, N, K, sms, count), _cached_bf16x6(*tile, splits, layout))
        for tile in TILES
        for splits in SPLIT_COUNTS
    ]
    time, kernel = min(candidates, key=lambda candidate: candidate[0])
    is_faster = time + KERNEL_OVERHEAD < _library_time(M, N, K, count)
    return kernel if is_faster else 'torch is faster: splitting the operands costs too much'
