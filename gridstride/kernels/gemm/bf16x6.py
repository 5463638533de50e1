"""`Bf16x6`: FP32 emulation on tensor cores, a float32 product with an error below that of the float32 library routine.
`choose`: the fastest kernel for a shape.

The tensor cores of an H100 do bf16 products 15x faster than its other units do float32 ones. A
float32 value has 24 significant bits, a bf16 has 8 and the same exponents, so three bf16 hold one float32,
exactly:

$$x = x_{hi} + x_{mid} + x_{lo}$$

A product of two such sums has nine terms. Six of them count: the other three are below $2^{-24}$ of the
result. Six bf16 products for one float32 product leave a factor of two and a half.

It is float32 in its accuracy and in its infinities; it is not the arithmetic of a
chain of float32 multiply-adds, and the smallest values lose bits.
"""

from functools import lru_cache

import numpy as np

from ..ptx import PTX, wgmma
from ..ladder.rung import KernelLaunch, Device, LaunchPlan, Product, with_constants
from .skinny import SMALL, SKINNY, SKINNY_TN
from ...utils import cdiv


# A bf16 is the upper half of a float32. Each of the three rounds what the ones before it have left over.
def bf16(
    x: np.ndarray,  # float32
) -> np.ndarray:
    "Rounded to the nearest bf16, ties to even; still as float32"
    b = x.view(np.uint32)
    return ((b + 0x7FFF + (b >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def bf16_terms(x) -> tuple:  # (hi, mid, lo)
    "Three bf16 arrays whose sum is `x`"
    hi = bf16(x)
    mid = bf16(x - hi)
    return hi, mid, bf16(x - hi - mid)


# The products of bf16 values are exact in float32, but their sums are not rounded: they are truncated. For
# each 16 k, the core takes the largest exponent among the sum so far and the 16 products, cuts all of them
# off two bits below the last bit that a float32 of that size has, adds them, and cuts the result to a
# float32. In NumPy:
def _exponent(x):
    return np.where(x == 0, -999, np.frexp(x)[1] - 1)


def _cut(x):
    "float64 to float32, towards zero"
    y = x.astype(np.float32)
    return np.where(np.abs(y) > np.abs(x), np.nextafter(y, np.float32(0)), y)


def _step(acc, a, b):
    "acc + a @ b over at most 16 k"
    products, sizes = a.astype(np.float64)[:, :, None] * b, _exponent(a)[:, :, None] + _exponent(b)
    last = np.exp2(
        np.maximum(np.maximum(_exponent(acc), sizes.max(1)), -900) - 25.0
    )  # two bits below that of a float32
    return _cut((np.trunc(acc / last) + np.trunc(products / last[:, None]).sum(1)) * last)


def tensor_core(acc, a, b) -> np.ndarray:
    "`acc + a @ b` as wgmma computes it, for bf16 matrices `a`, `b` (kept as float32) and float32 sums"
    for i in range(0, a.shape[1], 16):
        acc = _step(acc, a[:, i : i + 16], b[i : i + 16])
    return acc


# Two halves of the last bit make one bit, since two more bits are kept while a step is added; three quarters of it are
# lost, where rounding would have made one of them. The bits of an H100 are just these, for values of equal size and for
# values whose exponents spread by up to 28.
#
# Truncation always goes towards zero. Rounding errors average out, truncation errors add up: over `k` terms the tensor
# core's error grows like `k`, not like its root. The remedy is old: sum a short piece, add it to an ordinary float32
# accumulator, which rounds, and begin again. Within a piece the small products come first, while the sum is small and
# little is truncated.
TERMS = (2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)  # which terms are multiplied, small products first


def split_product(a, b, piece=32) -> np.ndarray:
    "`a @ b` of float32 matrices as the kernel below computes it"
    A, B, out = bf16_terms(a), bf16_terms(b), np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in range(0, a.shape[1], piece):
        part = np.zeros_like(out)
        for p, q in TERMS:
            part = tensor_core(part, A[p][:, i : i + piece], B[q][i : i + piece])
        out += part
    return out


# Nine products instead of six change nothing, three (hi hi, hi mid, mid hi) lose five bits.
#
# A first kernel splits both operands. It writes them as the second kernel needs them in shared memory: one contiguous
# piece per tile and 32 k, the three terms one after the other, each in blocks of 8 lines by 8 k, which is how wgmma
# reads a tile without swizzle. Past the edges there are zeros. So the second kernel copies a piece by one bulk copy,
# without tensor maps, and every shape is as good as another.
#
# A line of `m` is a row, a line of `n` a column; either may be contiguous along k or across it, so that the transposed
# products of the gradients need no copy. The terms take 6 bytes per float32 of `m` and `n` while the product runs.
pass_src = r'''
#include <cuda_bf16.h>

// eight k of line i of an operand
template<bool ALONG> __device__ void read_eight(float (&x)[8], const float *p, int i, int idx, int size, int k) {
    bool four = ALONG && k%4 == 0 && (size_t)p%16 == 0 && i < size && idx+8 <= k;
    if (four) {
        *(float4 *)x = *(const float4 *)(p + (size_t)i*k + idx);
        *(float4 *)(x+4) = *(const float4 *)(p + (size_t)i*k + idx+4);
    } else
        #pragma unroll
        for (int v = 0; v < 8; v++)
            x[v] = i < size && idx+v < k ? p[ALONG ? (size_t)i*k + idx+v : (size_t)(idx+v)*size + i] : 0;
}

// hi, mid, lo: each rounds what is left over from those before
__device__ void write_eight(float (&x)[8], __nv_bfloat16 *to, int plane) {
    #pragma unroll
    for (int p = 0; p < 3; p++) {
        alignas(16) __nv_bfloat162 part[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            part[i] = __floats2bfloat162_rn(x[2*i], x[2*i+1]);
            x[2*i] -= __low2float(part[i]);
            x[2*i+1] -= __high2float(part[i]);
        }
        *(uint4 *)(to + p*plane) = *(uint4 *)part;     // one store: a struct of four would be copied member by member
    }
}

template<bool ALONG, int T>
__device__ void split_block(const float *p, __nv_bfloat16 *planes, int size, int k, int block) {
    int chunks = (k+31)/32, lines = (size+T-1)/T*T, t = threadIdx.x, i, c, g;
    if (ALONG) {                        // a warp reads 8 lines x 32 k, the next warp the next 32 k
        int u = block*8+t/32;
        c = u%chunks; i = u/chunks*8 + t%8; g = t/8%4;
    } else {                            // a warp reads 32 lines x 8 k, the next warp the next 32 lines
        int u = block*256+t;
        i = u%lines; c = u/lines/4; g = u/lines%4;
    }
    float x[8];
    read_eight<ALONG>(x, p, i, c*32+g*8, size, k);
    write_eight(x, planes + ((size_t)(i/T)*chunks + c)*3*T*32 + (g*T + i%T)*8, T*32);
}

__global__ void __launch_bounds__(256)
split_planes(const float *m, const float *n, __nv_bfloat16 *ms, __nv_bfloat16 *ns, int h, int w, int k) {
    asm volatile("griddepcontrol.launch_dependents;");  // PDL: the product may start as blocks of this grid end
    int blocks_m = (h+BM-1)/BM*(BM/64)*((k+31)/32), b = blockIdx.x;
    if (b < blocks_m) split_block<M_ALONG, BM>(m, ms, h, k, b);
    else split_block<N_ALONG, BN>(n, ns, w, k, b-blocks_m);
}
'''


# One thread of a ninth warp keeps a ring of pieces full; the other warps multiply, in warpgroups of 64 rows
# each. For every piece of 32 k: six products, each of two wgmma instructions, then the sum moves over into
# ordinary registers. Meanwhile the other warpgroup has the tensor cores.
#
# Where tiles are few and `k` is long, SPLITS blocks share a tile's k. They form a cluster, whose blocks read
# each other's shared memory, and each reduces a part of the rows: always in the same order, so the result is
# the same in every run (split-K).
#
gemm_src = r'''
#include <cuda_bf16.h>
constexpr float SOUND = 0x1p127f;                                   // sums of terms are sound below
constexpr int BK = 32, WARPS = BM/16;                               // WARPS multiply, one more copies
constexpr int PIECE_M = 3*BM*BK, PIECE_N = 3*BN*BK, LINE = BN+8;

// Descriptor of blocks of 8 x 8 elements, 128 bytes: bytes to the next 8 k, to the next 8 lines
__device__ u64 descriptor_of_blocks(const void *p, int next_k) {
    return (address(p) >> 4 & 0x3fff) | (u64)(next_k >> 4) << 16 | (u64)(128 >> 4) << 32;
}

// row r of m times column c of n, by a chain of multiply-adds, which a NaN ends
__device__ float chain(const float *m, const float *n, int r, int c, int h, int w, int k) {
    float o = 0;
    for (size_t i = 0; i < k && !isnan(o); i++)
        o = fmaf(m[M_ALONG ? (size_t)r*k + i : i*h + r], n[N_ALONG ? (size_t)c*k + i : i*w + c], o);
    return o;
}

__global__ void __launch_bounds__(32*WARPS+32, 1)
multiply_planes(const __nv_bfloat16 *ms, const __nv_bfloat16 *ns, const float *m, const float *n, float *out,
                int h, int w, int k) {
    extern __shared__ __align__(128) __nv_bfloat16 ring[];
    __shared__ u64 full[STAGES], empty[STAGES];
    int warp = threadIdx.x/32, lane = threadIdx.x%32;
    int rows = (h+BM-1)/BM, cols = (w+BN-1)/BN;
    int first = blockIdx.x/(GROUP*cols)*GROUP, in = blockIdx.x%(GROUP*cols), high = min(GROUP, rows-first);
    int tr = first + in%high, tc = in/high;         // tiles in groups of GROUP rows: their pieces meet in the L2 cache
    int all = (k+BK-1)/BK, each = (all+SPLITS-1)/SPLITS;
    int begin = min(all, (int)blockIdx.y*each), chunks = min(all, begin+each)-begin;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) barrier_init(address(full+s), 1), barrier_init(address(empty+s), WARPS);
        barriers_ready();
    }
    __syncthreads();
    float sum[BN/2] = {}, part[BN/2];
    if (warp == WARPS) {
        if (lane == 0) {                                             // one thread keeps the ring full
            asm volatile("griddepcontrol.wait;" ::: "memory");       // until the terms are written
            for (int c = 0; c < chunks; c++) {
                int s = c%STAGES;
                __nv_bfloat16 *to = ring + s*(PIECE_M+PIECE_N);
                if (c >= STAGES) while (!barrier_over(address(empty+s), (c/STAGES-1)&1));
                barrier_expect(address(full+s), 2*(PIECE_M+PIECE_N));
                bulk_copy(address(to), ms + ((size_t)tr*all + begin+c)*PIECE_M, 2*PIECE_M, address(full+s));
                bulk_copy(address(to+PIECE_M), ns + ((size_t)tc*all + begin+c)*PIECE_N, 2*PIECE_N, address(full+s));
            }
        }
        __syncwarp();
    }
    else
        for (int c = 0; c < chunks; c++) {
            int s = c%STAGES;
            __nv_bfloat16 *mt = ring + s*(PIECE_M+PIECE_N);
            u64 md = descriptor_of_blocks(mt + warp/4*64*8, BM*16), nd = descriptor_of_blocks(mt+PIECE_M, BN*16);
            while (!barrier_over(address(full+s), c/STAGES&1));
            wgmma_fence();
            // the small products first: lo hi, hi lo, mid mid, mid hi, hi mid, hi hi
            constexpr int P[6] = {2, 0, 1, 1, 0, 0}, Q[6] = {0, 2, 1, 0, 1, 0};
            #pragma unroll
            for (int i = 0; i < 6; i++)
                #pragma unroll
                for (int kk = 0; kk < 2; kk++) {
                    u64 at = md + (P[i]*BM*BK*2 + kk*2*BM*16)/16, bt = nd + (Q[i]*BN*BK*2 + kk*2*BN*16)/16;
                    wgmma<false, false>(part, at, bt, i+kk > 0);
                }
            wgmma_commit();
            wgmma_wait<0>();
            if (lane == 0) barrier_arrive(address(empty+s));
            // the tensor core cuts its sums off, an ordinary addition rounds them
            #pragma unroll
            for (int i = 0; i < BN/2; i++) sum[i] += part[i];
        }
    float *tile = (float *)ring;
    __syncthreads();                                // the ring is free: each block leaves its part of the sums there
    if (warp < WARPS)
        #pragma unroll
        for (int i = 0; i < BN/2; i += 2) {
            float *to = tile + (warp*16 + lane/4 + i/2%2*8)*LINE + i/4*8 + lane%4*2;
            *(float2 *)to = make_float2(sum[i], sum[i+1]);
        }
    cluster_sync();
    // each reduces its part of the rows, always in the same order
    #pragma unroll 4
    for (int i = threadIdx.x; i < BM/SPLITS*BN; i += 32*WARPS+32) {
        int y = blockIdx.y*(BM/SPLITS) + i/BN, x = i%BN, r = tr*BM+y, c = tc*BN+x;
        if (r >= h || c >= w) continue;
        float o = 0;
        #pragma unroll
        for (int b = 0; b < SPLITS; b++) o += SPLITS == 1 ? tile[y*LINE + x] : of_block(tile + y*LINE + x, b);
        if (!(fabsf(o) < SOUND)) o = chain(m, n, r, c, h, w, k);       // NaN is here, too
        out[(size_t)r*w + c] = o;
    }
    cluster_sync();                                     // no block exits while others still read
}
'''


# In a batch the third axis of the grid is the product's index. The sources for one product have none of these lines:
# with pointers that were moved the compiler would store the terms in smaller pieces.
_PASS_CONTINUES = '    int blocks_m = '
_PASS_OFFSETS = '''    size_t z = blockIdx.z, chunks = (k+31)/32;
    m += z*h*k; n += z*k*w;
    ms += z*3*32*chunks*((h+BM-1)/BM*BM); ns += z*3*32*chunks*((w+BN-1)/BN*BN);
'''
_BEGINS = '    int begin = min(all, (int)blockIdx.y*each), chunks = min(all, begin+each)-begin;\n'
_OFFSETS = '''    size_t z = blockIdx.z;
    m += z*h*k; n += z*k*w; out += z*h*w;
    ms += z*rows*all*PIECE_M; ns += z*cols*all*PIECE_N;
'''


class Bf16x6(Product):
    "`m @ n` in float32 by tensor cores: BM x BN tiles, `SPLITS` blocks for the k of a tile"

    hopper = True

    def __init__(self, BM=128, BN=128, SPLITS=1, layout='nn'):
        of = f', k in {SPLITS}' if SPLITS > 1 else ''
        self.name, self.layout = f'split {BM}x{BN}{of}{"" if layout == "nn" else " " + layout}', layout
        self.constants = dict(BM=BM, BN=BN, SPLITS=SPLITS, STAGES=3 if (BM, BN) == (64, 128) else 4, GROUP=8)

    def __repr__(self):
        return f'<Bf16x6 {self.name!r}>'

    @property
    def shared(self):
        "Bytes of shared memory: the ring, which the sums overwrite at the end"
        BM, BN, STAGES = (self.constants[o] for o in ('BM', 'BN', 'STAGES'))
        return max(STAGES * 3 * (BM + BN) * 32 * 2, BM * (BN + 8) * 4)

    @property
    def _along(self):
        "The constants for the operands that are k-major"
        return dict(M_ALONG=self.layout[0] == 'n', N_ALONG=self.layout[1] == 't')

    @property
    def src(self):
        "CUDA C of the product of terms, with its constants"
        return with_constants(PTX + wgmma(self.constants['BN']) + gemm_src, self.constants | self._along)

    @property
    def pass_src(self):
        "CUDA C of the kernel that splits the operands into terms"
        return with_constants(pass_src, dict(BM=self.constants['BM'], BN=self.constants['BN'], **self._along))

    def _texts(self, count):
        "Both sources; for several products with the lines that find a block's own"
        if count == 1:
            return self.pass_src, self.src
        return self.pass_src.replace(_PASS_CONTINUES, _PASS_OFFSETS + _PASS_CONTINUES), self.src.replace(
            _BEGINS, _BEGINS + _OFFSETS
        )

    def launch_plan(self, h, w, k, on, count=1):
        "Two calls: the operands are split, and their terms multiplied; for a batch of `count` products"
        BM, BN, SPLITS = (self.constants[o] for o in ('BM', 'BN', 'SPLITS'))
        rows, cols, chunks = cdiv(h, BM), cdiv(w, BN), cdiv(k, 32)
        blocks = chunks * (rows * BM + cols * BN) // 64
        shape, grid, each = (h, w, k), (rows * cols, SPLITS), (1, count) if count > 1 else ()
        pass_src, src = self._texts(count)
        apart = KernelLaunch(pass_src, 'split_planes', ('m', 'n', 'ms', 'ns'), shape, (blocks, *each), (256,))
        arrays = 'ms', 'ns', 'm', 'n', 'out'
        product = KernelLaunch(src, 'multiply_planes', arrays, shape, (*grid, *each[1:]), (2 * BM + 32,), self.shared)
        product = product._replace(pdl=True, cluster=(1, SPLITS, 1))
        ms, ns = (3 * 32 * chunks * count * o for o in (rows * BM, cols * BN))
        workspaces = dict(ms=(ms, 'bfloat16'), ns=(ns, 'bfloat16'))
        return LaunchPlan([apart, product], workspaces)


# Compared with `torch.matmul` in float32 (TF32 off), against float64: the norm of the error over that of the result,
# and the largest error over the sum of the absolute products. *Positive* values make sums that grow with `k`; *wide*
# ones have exponents that spread by 40; *cancelling* ones have a second half of `k` that takes away what the first half
# has summed, but for a thousandth.
#
# Infinity splits into infinity and NaN, a value above 3.39e38 into what bf16 calls infinite, and sums that overflow may
# meet others of the other sign: whatever of this happens, an element of the result is NaN, or huge. So each one that is
# not below 2^127 is computed again, by a chain of float32 FMAs, where it is written: there is no flag, no second
# launch, and the host waits for nothing. All other elements stay as they are.
#
# The difference from such a chain: values below 1e-33 lose bits, as their lo, and then their mid, would have to be
# smaller than any float. Where those of one operand are near 1e-36, the error reaches 7e-6 of |a||b|, the sum of the
# absolute products (floats: 2e-7), and near 1e-40 7e-2 (1e-6). Of the result it is more, where products cancel: 3e-5
# and 0.3 of the norm for random ones and k = 512 (4e-7 and 4e-6).
#
# The estimated time of a product by `Bf16x6`, in µs on an H100, from what the kernels move and do. The first term is
# the two launches, the second the bf16 terms that are written and read back; then so many waves of blocks, each of
# which computes its pieces, with an overhead at its begin and end; then the result, which is written. The constants
# were fitted to 70 measured shapes; on 60 of them, drawn at random (sizes of 64 to 8192, log-uniform), the kernel that
# the formula chose had a speedup of 1.32 over torch in the geometric mean, the best of all 1.34. On 20 more, which were
# not part of the fit, it was 1.30, and 1.33. Where rows are few, torch is faster (0.96 in the mean below 150 rows), and
# there it is left to torch; fewer than 64 columns were not measured.
TILES = {
    (128, 128): (1, 1.01, 3.7),
    (64, 64): (2, 0.69, 1.75),
    (64, 128): (2, 1.15, 2.9),
}  # BM, BN: blocks an SM, µs for 32 k, µs for the rest of a block
PARTS = 1, 2, 4, 8  # into how many the k of a tile may be split
ROWS, COLS = 150, 64  # below which splitting costs what the tensor cores save
SHORT = 128  # k up to which they may
# As measured for twelve batches: what torch does in a microsecond, in operations, and by how many microseconds ours
# takes longer than it is estimated to
LIBRARY, MORE = 4.2e7, 10
WIDE = 20  # columns above which a skinny product is compute-bound


def _split_time(BM, BN, SPLITS, h, w, k, sms, count=1):
    at_once, piece, overhead = TILES[BM, BN]
    rows, cols, pieces = cdiv(h, BM) * BM, cdiv(w, BN) * BN, cdiv(k, 32)
    waves = cdiv(count * (rows // BM) * (cols // BN) * SPLITS, at_once * sms)
    return (
        5.1
        + count * 10 * 32 * pieces * (rows + cols) / 2.78e6
        + waves * (cdiv(pieces, SPLITS) * piece + overhead + (SPLITS > 1) * (1.9 + 0.07 * SPLITS))
        + count * 4 * h * w / 3.8e6
    )


def _library_time(h, w, k, count=1):
    return 4 + 2 * count * h * w * k / LIBRARY


def _small_time(h, w, k, sms):
    return 4 + 0.05 * k * max(1, 0.7 * cdiv(h, 32) * cdiv(w, 32) / sms)


def _thin_time(h, w, row, k, by_cores):
    return 10 + 4 * h * k / 2.6e6 * max(1 if row % 4 == 0 else 1.25, 1 if by_cores else w / WIDE)


@lru_cache
def _split(*args):
    return Bf16x6(*args)


def every() -> list:
    "All that is chosen from, in each layout"
    return [_split(*tile, s, layout) for tile in TILES for s in PARTS for layout in ('nn', 'tn', 'nt')]


def _fastest(h, w, k, sms, layout):
    "The kernel with the shortest time, or why there is none that pays"
    known = [(_split_time(*tile, s, h, w, k, sms), _split(*tile, s, layout)) for tile in TILES for s in PARTS]
    if layout == 'nn':
        known.append((_small_time(h, w, k, sms), SMALL))
    thin = dict(nn=SKINNY, tn=SKINNY_TN).get(layout)
    on = Device(sms, True)
    by_cores = thin and (thin.by_stages(h, w, k, on) or thin.by_planes(h, w, k, on))
    if thin and thin.supports(h, w, k):
        known.append((_thin_time(h, w, k if layout == 'nn' else h, k, by_cores), thin))
    time, kernel = min(known, key=lambda o: o[0])
    if kernel is thin and w > WIDE and not by_cores:
        return f'torch is faster for an n of {WIDE + 1} to {thin.WIDEST} columns'
    if isinstance(kernel, Bf16x6) and (h < ROWS or w < COLS):
        return (
            f'torch is faster with fewer than {ROWS} rows or {COLS} columns: '
            'there splitting the operands costs what the tensor cores save'
        )
    if isinstance(kernel, Bf16x6) and k <= SHORT and time > _library_time(h, w, k):
        return f'torch is faster with a k of at most {SHORT}: splitting the operands costs what the tensor cores save'
    return kernel


def choose(h, w, k, sms):
    "The fastest kernel for h x k @ k x w on `sms` SMs, or a sentence that says why there is none"
    return _fastest(h, w, k, sms, 'nn')


def choose_tn(h, w, k, sms):
    "The same where the memory of the first operand holds its transpose"
    return _fastest(h, w, k, sms, 'tn')


def choose_nt(h, w, k, sms):
    "The same where the memory of the second operand holds its transpose"
    return _fastest(h, w, k, sms, 'nt')


def choose_batch(count, h, w, k, sms, layout):
    "The fastest kernel for `count` products of h x k @ k x w, or a sentence that says why there is none that pays"
    known = [(_split_time(*tile, s, h, w, k, sms, count), _split(*tile, s, layout)) for tile in TILES for s in PARTS]
    time, kernel = min(known, key=lambda o: o[0])
    library = _library_time(h, w, k, count)
    return kernel if time + MORE < library else 'torch is faster: splitting the operands costs too much'
