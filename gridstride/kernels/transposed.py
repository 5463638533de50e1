"""Products of which one operand lies in memory as its transpose, as in both gradients: lesson 22's last rung but one,
with its layouts as constants."""

from functools import lru_cache

from .ptx import PTX, wgmma
from .rung import Rung
from ..utils import cdiv


# A gradient is a product with a transpose: of $a b$, that of $a$ is $g b^T$, and that of $b$ is $a^T g$. To
# turn a matrix around costs a reading and a writing of it all. With bf16 nobody has to: `wgmma` takes a tile
# of either operand with `k` along its rows of 128 bytes or down its columns. Two of the numbers at the end of
# the instruction say which, the descriptors then step by 32 bytes or by sixteen rows, and TMA brings boxes of
# 64 rows and 64 columns from where they lie. Shared memory holds as many bytes as before, the tensor cores do
# the same work.
#
# The kernel is that of the lesson's rung `stored`, with its one size of tiles, for the products that fill the
# GPU with these; the gradients of smaller ones are the library's. With neither M_TURNED nor N_TURNED it is
# that rung.
stored_src = r'''
constexpr int A_BYTES = BM*BK*2, B_BYTES = BK*BN*2, BOX = 64*64*2; // of a tile of m, of a tile of n, of a box
constexpr int ROW = 128;                                           // bytes of a row in shared memory

// starts d (+)= a tile of m, 64 x BK, at `a`, times a tile of n, BK x BN, at `b`
__device__ void multiply(float (&d)[1][BN/2], u32 a, u32 b, bool more) {
    fence_sums(d);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < BK; i += 16) {
        u64 at = M_TURNED ? descriptor(a + i*ROW, 16) : descriptor(a + i*2, 16);
        u64 bt = N_TURNED ? descriptor(b + i*2, 16) : descriptor(b + i*ROW, BOX);
        wgmma<M_TURNED, !N_TURNED>(d[0], at, bt, more || i > 0);
    }
    wgmma_commit();
}

// brings a tile of m, from row r and column `idx` on, which lie in memory as they are or turned
__device__ void load_m(u32 a, const TensorMap &m, int r, int idx, u32 bar) {
    if (M_TURNED) for (int x = 0; x < BM; x += 64) tma_load(a + x/64*BOX, m, idx, r + x, bar);
    else tma_load(a, m, r, idx, bar);
}

// brings 64 columns of n, from row `idx` and column c on, for both blocks of the cluster
__device__ void load_n(u32 b, const TensorMap &n, int idx, int c, u32 bar) {
    if (N_TURNED) tma_load_for(b, n, c, idx, bar, 3);
    else tma_load_for(b, n, idx, c, bar, 3);
}

// tile number `tile` lies in this row and column of tiles: bands of GROUP rows, in a band column after column
__device__ void place(int tile, int tall, int wide, int &tr, int &tc) {
    int band = tile/(GROUP*wide), inside = tile%(GROUP*wide), rows = min(GROUP, tall - band*GROUP);
    tr = band*GROUP + inside%rows; tc = inside/rows;
}

// a warp's 16 x BN results, from row r and column c on, 64 columns at a time by way of its own 2048 bytes at `s`
__device__ void store_by_tma(float (&d)[BN/2], const TensorMap &out, int r, int c, u32 s) {
    int lane = threadIdx.x%32, tr = lane%16;
    #pragma unroll
    for (int x = 0; x < BN; x += 64) {
        if (lane == 0) stores_have_read();                 // the last piece has left
        __syncwarp();
        #pragma unroll
        for (int y = 0; y < 64; y += 16) {
            float *e = d + (x + y)/2;
            u32 to = s + tr*128 + ((y/8 + lane/16) ^ tr%8)*16;
            stmatrix(to, pack(e[0], e[1]), pack(e[2], e[3]), pack(e[4], e[5]), pack(e[6], e[7]));
        }
        fence_for_tma();
        __syncwarp();
        if (lane == 0) { tma_store(out, r, c + x, s); stores_commit(); }
    }
}

__global__ void __cluster_dims__(2) __launch_bounds__(384, 1)
stored_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
         const __grid_constant__ TensorMap out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, o = b + STAGES*B_BYTES;
    u32 full = address(bars), empty = full + 8*STAGES;
    int tall = (h + 2*BM-1)/(2*BM), wide = (w + BN-1)/BN, tr, tc, ph = 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 2*2); }
        barriers_ready();
    }
    cluster_sync();
    int wg = threadIdx.x/128, warp = threadIdx.x/32;
    if (wg < 2) {                                          // consumers
        registers_up<232>();
        float d[1][BN/2];
        for (int tile = blockIdx.x/2; tile < tall*wide; tile += gridDim.x/2) {
            place(tile, tall, wide, tr, tc);
            for (int idx = 0; idx < k; idx += BK, ph++) {
                int s = ph%STAGES, turn = ph/STAGES;
                barrier_wait(full + 8*s, turn);
                multiply(d, a + s*A_BYTES + wg*64*128, b + s*B_BYTES, idx > 0);
                wgmma_wait<0>();
                fence_sums(d);
                if (threadIdx.x%128 < 2) barrier_arrive_at(empty + 8*s, threadIdx.x%128);
            }
            store_by_tma(d[0], out, (2*tr + rank())*BM + warp*16, tc*BN, o + warp*2048);
        }
        if (threadIdx.x%32 == 0) stores_have_read();
    } else {                                               // producer
        registers_down<40>();
        if (threadIdx.x == 256) for (int tile = blockIdx.x/2; tile < tall*wide; tile += gridDim.x/2) {
            place(tile, tall, wide, tr, tc);
            for (int idx = 0; idx < k; idx += BK, ph++) {
                int s = ph%STAGES, turn = ph/STAGES;
                u32 bar = full + 8*s;
                barrier_wait(empty + 8*s, turn-1);
                barrier_expect(bar, A_BYTES + B_BYTES);
                load_m(a + s*A_BYTES, m, (2*tr + rank())*BM, idx, bar);
                for (int x = rank()*BN/2; x < (rank()+1)*BN/2; x += 64)
                    load_n(b + s*B_BYTES + x/64*BOX, n, idx, tc*BN + x, bar);
            }
        }
    }
    cluster_sync();
}
'''


def _boxes(BM, M_TURNED):
    "Rows and columns of the boxes that TMA copies"
    return dict(m=(64, 64) if M_TURNED else (BM, 64), n=(64, 64), out=(16, 64))


def _shared(BM, BN, BK, STAGES):
    "Bytes: the stages, and room for the results of eight warps"
    return STAGES * (BM + BN) * BK * 2 + 8 * 2048


@lru_cache
def rung_for(
    layout,  # 'tn': m is given as k x h; 'nt': n as w x k; 'nn': both as they are
) -> Rung:
    "The rung of lesson 22 for matrices that lie in memory in this layout"
    turned = dict(M_TURNED=int(layout[0] == 't'), N_TURNED=int(layout[1] == 't'))
    sizes = dict(BM=128, BN=256, BK=64, STAGES=4, GROUP=8)
    given = dict(threads=384, shared=_shared, maps=_boxes, grid=lambda sms: (sms // 2 * 2, 1), dtype='bfloat16')
    return Rung(f'stored {layout}', PTX + wgmma(256) + stored_src, **given, layout=layout, **sizes, **turned)


# The share of pairs of SMs that must have a tile, and the least k, for the lesson's one size of tiles to keep
# up with the library's many.
FULL, LONG = 0.9, 2048


def every() -> list:
    "All that is chosen from"
    return [rung_for(layout) for layout in ('tn', 'nt')]


def _choose(layout, h, w, k, sms):
    kernel = rung_for(layout)
    pairs, tiles = sms // 2, cdiv(h, 2 * kernel.constants['BM']) * cdiv(w, kernel.constants['BN'])
    if tiles < FULL * cdiv(tiles, pairs) * pairs or k < LONG:
        return 'the library reads a transpose faster in such a shape'
    return kernel


def choose_tn(h, w, k, sms):
    "The kernel for an m that lies in memory as its transpose, or why there is none that pays"
    return _choose('tn', h, w, k, sms)


def choose_nt(h, w, k, sms):
    "The kernel for an n that lies in memory as its transpose, or why there is none that pays"
    return _choose('nt', h, w, k, sms)
