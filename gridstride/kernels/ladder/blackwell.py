"""The ladder for Blackwell GPUs: bfloat16 GEMMs with TMA and `tcgen05.mma`, whose accumulators are in tensor memory.
Names that end in `_src` are CUDA C, which `nvcc -arch=sm_100a` compiles. The kernels have run on the emulator, but not
on a GPU."""

from contextlib import nullcontext

from .hopper import barriers_src, boxes, tiles, tma_load_src, types_src
from .rung import Rung
from ..ptx import TCGEN05, primitives
from ...bench.recording import Unavailable
from ...cpp.emulator import on_emulator
from ...utils import backend, cdiv


class BlackwellVersion(Rung):
    "A version with `tcgen05` instructions: the emulator multiplies tensors on the CPU, even if there is a GPU"

    def __call__(self, m, n, out=None):
        with nullcontext() if getattr(m, 'is_cuda', False) else on_emulator():
            return super().__call__(m, n, out)

    def require_gpu(self):
        "Raise `Unavailable` if kernels run on a GPU without tensor memory"
        import torch

        if backend() != 'gpu' or (gpu := torch.cuda.get_device_properties()).major == 10:
            return
        requirement = 'compute capability 10.0 or 10.3, for tensor memory and tcgen05, or tensors on the CPU'
        raise Unavailable(f'{self.name} needs {requirement}; {gpu.name} has {gpu.major}.{gpu.minor}')


def tensor_load(columns: int) -> str:
    "Return CUDA C of a function that loads `columns` columns of tensor memory, the row of each thread"
    registers, operands = (
        ','.join(f'%{i}' for i in range(columns)),
        ', '.join(f'"=f"(d[{i}])' for i in range(columns)),
    )
    return f"""
__device__ void tensor_load(float (&d)[{columns}], u32 from) {{
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 "
                 "{{{registers}}}, [%{columns}];"
                 : {operands}
                 : "r"(from));
}}
"""


store_row_src = (
    tensor_load(32)
    + r"""
#include <cuda_bf16.h>

// Stores BN columns of each thread's row of tensor memory, starting at `d`, to row r of out, starting at column c
__device__ void store_row(u32 d, __nv_bfloat16 *out, int r, int c, int h, int w) {
    for (int x = 0; x < BN; x += 32) {
        float v[32];
        tensor_load(v, d + x);
        tensor_wait_loads();                               // before it, nothing may overwrite or free d
        for (int i = 0; i < 32; i += 2)
            if (r < h && c + x + i < w)
                *(__nv_bfloat162 *)&out[r*w + c + x + i] = __floats2bfloat162_rn(v[i], v[i+1]);
    }
}
"""
)

multiply_tiles_src = r"""
// Issues d (+)= the tile of m at `a` (128 x BK) @ the tile of n at `b` (BK x BN)
__device__ void multiply(u32 d, u32 a, u32 b, bool more) {
    for (int i = 0; i < BK; i += 16)                       // per MMA 16 along k: 32 bytes in m, 16 rows in n
        tensor_multiply(d, tensor_descriptor(a + i*2, 16), tensor_descriptor(b + i*128, BOX),
                        tensor_instruction(128, BN, true), more || i > 0);
}
"""

blackwell_src = types_src + tma_load_src + barriers_src + TCGEN05 + store_row_src + multiply_tiles_src

single = BlackwellVersion(
    'single',
    src=blackwell_src
    + r"""
__global__ void __launch_bounds__(128)
single_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
         __nv_bfloat16 *out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2];
    __shared__ u32 tmem;                                   // the address of the accumulators in tensor memory
    u32 a = address(shared), b = a + A_BYTES, full = address(bars), done = full + 8;
    int r = blockIdx.y*BM, c = blockIdx.x*BN, warp = threadIdx.x/32;
    if (threadIdx.x == 0) { barrier_init(full, 1); barrier_init(done, 1); fence_mbarrier_init(); }
    if (warp == 0) tensor_alloc(address(&tmem), BN);
    __syncthreads();
    for (int ph = 0; ph < cdiv(k, BK); ph++) {
        if (threadIdx.x == 0) {
            barrier_expect(full, A_BYTES + B_BYTES);
            tma_load(a, m, r, ph*BK, full);
            for (int x = 0; x < BN; x += 64) tma_load(b + x/64*BOX, n, ph*BK, c + x, full);
            barrier_wait(full, ph);                        // both tiles have arrived
            multiply(tmem, a, b, ph > 0);
            tensor_commit(done);
            barrier_wait(done, ph);                        // the MMAs are complete: both tiles may be overwritten
        }
    }
    __syncthreads();
    tensor_fence_after();
    store_row(tmem + (warp << 21), out, r + threadIdx.x, c, h, w);     // a warp can access 32 lanes: bits 16 to 22
    __syncthreads();
    if (warp == 0) tensor_free(tmem, BN);
}
""",
    threads=128,
    shared=tiles,
    tma_boxes=boxes,
    dtype='bfloat16',
    BM=128,
    BN=128,
    BK=64,
    STAGES=1,
)

roles = single.variant(
    'roles',
    src=blackwell_src
    + r"""
__global__ void __launch_bounds__(192)
roles_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
        __nv_bfloat16 *out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES + 1];
    __shared__ u32 tmem;
    u32 a = address(shared), b = a + STAGES*A_BYTES;
    u32 full = address(bars), empty = full + 8*STAGES, done = empty + 8*STAGES;
    int r = blockIdx.y*BM, c = blockIdx.x*BN, warp = threadIdx.x/32, lane = threadIdx.x%32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 1); }
        barrier_init(done, 1);
        fence_mbarrier_init();
    }
    if (warp == 0) tensor_alloc(address(&tmem), BN);
    __syncthreads();
    if (warp == 0 && lane == 0) {                          // producer
        for (int ph = 0; ph < cdiv(k, BK); ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            barrier_wait(empty + 8*s, phase-1);
            barrier_expect(full + 8*s, A_BYTES + B_BYTES);
            tma_load(a + s*A_BYTES, m, r, ph*BK, full + 8*s);
            for (int x = 0; x < BN; x += 64) tma_load(b + s*B_BYTES + x/64*BOX, n, ph*BK, c + x, full + 8*s);
        }
    } else if (warp == 1 && lane == 0) {                   // the thread that multiplies
        for (int ph = 0; ph < cdiv(k, BK); ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            barrier_wait(full + 8*s, phase);
            multiply(tmem, a + s*A_BYTES, b + s*B_BYTES, ph > 0);
            tensor_commit(empty + 8*s);                    // the stage is empty when these MMAs are complete
        }
        tensor_commit(done);
    } else if (warp >= 2) {                                // the four warps that store: warp%4 selects their lanes
        barrier_wait(done, 0);
        tensor_fence_after();
        int row = warp%4*32;
        store_row(tmem + (row << 16), out, r + row + lane, c, h, w);
    }
    __syncthreads();
    if (warp == 0) tensor_free(tmem, BN);
}
""",
    threads=192,
    BM=128,
    BN=128,
    STAGES=4,
)

pair_instructions_src = r"""
// The instructions of a pair of blocks (cta_group::2): a block has half of a's rows and of b's columns
__device__ void pair_alloc(u32 to, int columns) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;"
                 :: "r"(to), "r"(columns) : "memory");
}
__device__ void pair_free(u32 at, int columns) {
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" :: "r"(at), "r"(columns));
}
__device__ void pair_mma(u32 d, u64 a, u64 b, u32 instruction, int more) {
    asm volatile("{ .reg .pred more; setp.ne.b32 more, %4, 0;\n"
                 "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, more; }"
                 :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(more) : "memory");
}
// Arrives at the mbarriers at this address in both blocks
__device__ void pair_commit(u32 bar) {
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 :: "r"(bar), "h"((short)3) : "memory");
}
// Issues a TMA load to this block; the mbarrier of the first block counts its bytes
__device__ void pair_load(u32 to, const TensorMap &x, int r, int c, u32 bar) {
    asm volatile("{ .reg .b32 first; mapa.shared::cluster.u32 first, %4, 0;\n"
                 "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [first]; }"
                 :: "r"(to), "l"(&x), "r"(c), "r"(r), "r"(bar) : "memory");
}
__device__ int rank() { u32 x; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(x)); return x; }
__device__ void cluster_sync() { asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory"); }
// Issues d (+)= the tiles of m (256 x BK, half of the rows per block) @ those of n (BK x 2*BN, half of the columns)
__device__ void pair_multiply(u32 d, u32 a, u32 b, bool more) {
    for (int i = 0; i < BK; i += 16)
        pair_mma(d, tensor_descriptor(a + i*2, 16), tensor_descriptor(b + i*128, BOX),
                 tensor_instruction(256, 2*BN, true), more || i > 0);
}
"""

pair = single.variant(
    'pair',
    src=blackwell_src
    + pair_instructions_src
    + r"""
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192)
pair_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
       __nv_bfloat16 *out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES + 1];
    __shared__ u32 tmem;
    u32 a = address(shared), b = a + STAGES*A_BYTES;
    u32 full = address(bars), empty = full + 8*STAGES, done = empty + 8*STAGES;
    int rank_of_block = rank(), r = blockIdx.x*BM, c = blockIdx.y*2*BN, warp = threadIdx.x/32, lane = threadIdx.x%32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 1); }
        barrier_init(done, 1);
        fence_mbarrier_init();
    }
    if (warp == 0) pair_alloc(address(&tmem), 2*BN);
    __syncthreads();
    cluster_sync();                                        // the barriers of both blocks are ready
    if (warp == 0 && lane == 0) {                          // each block loads its rows of m and its columns of n
        for (int ph = 0; ph < cdiv(k, BK); ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            barrier_wait(empty + 8*s, phase-1);
            if (rank_of_block == 0) barrier_expect(full + 8*s, 2*(A_BYTES + B_BYTES));
            pair_load(a + s*A_BYTES, m, r, ph*BK, full + 8*s);
            for (int x = 0; x < BN; x += 64)
                pair_load(b + s*B_BYTES + x/64*BOX, n, ph*BK, c + rank_of_block*BN + x, full + 8*s);
        }
    } else if (warp == 1 && lane == 0 && rank_of_block == 0) {  // one thread of the first block multiplies for both
        for (int ph = 0; ph < cdiv(k, BK); ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            barrier_wait(full + 8*s, phase);
            pair_multiply(tmem, a + s*A_BYTES, b + s*B_BYTES, ph > 0);
            pair_commit(empty + 8*s);
        }
        pair_commit(done);
    } else if (warp >= 2) {                                // each block stores its rows
        barrier_wait(done, 0);
        tensor_fence_after();
        u32 row = warp%4*32, d = tmem + (row << 16);
        store_row(d, out, r + row + lane, c, h, w);
        store_row(d + BN, out, r + row + lane, c + BN, h, w);
    }
    __syncthreads();
    cluster_sync();                                        // no block ends before the other has used its memory
    if (warp == 0) pair_free(tmem, 2*BN);
}
""",
    threads=192,
    grid=lambda h, w, BM, BN: (2 * cdiv(h, 2 * BM), cdiv(w, 2 * BN)),
    BM=128,
    BN=128,
    STAGES=4,
)

cancel_src = r"""
// Requests the cancellation of a block that has not begun (cluster launch control). The response, 16 bytes, is complete
// when the mbarrier has counted its bytes.
__device__ void try_cancel(u32 response, u32 bar) {
    barrier_expect(bar, 16);
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                 :: "r"(response), "r"(bar) : "memory");
}
// Returns the x index of the canceled block, or -1
__device__ int canceled_block(u32 response) {
    int x = -1;
    asm volatile("{ .reg .pred canceled; .reg .b128 r;\n"
                 "ld.shared.b128 r, [%1];\n"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 canceled, r;\n"
                 "@canceled clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, r; }"
                 : "+r"(x) : "r"(response) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");   // this read precedes the next response
    return x;
}
"""

persistent = single.variant(
    'persistent',
    src=blackwell_src
    + cancel_src
    + r"""
__global__ void __launch_bounds__(192)
persistent_k(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n,
             __nv_bfloat16 *out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 bars[2*STAGES + 8];
    __shared__ alignas(16) u32 responses[2][4];
    __shared__ u32 tmem;                                   // two tiles of accumulators: one is stored meanwhile
    u32 a = address(shared), b = a + STAGES*A_BYTES, full = address(bars), empty = full + 8*STAGES;
    u32 done = empty + 8*STAGES, stored = done + 16, responded = stored + 16, read = responded + 16;
    int tile_cols = cdiv(w, BN), warp = threadIdx.x/32, lane = threadIdx.x%32, ph = 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 1); }
        for (int s = 0; s < 2; s++) {
            barrier_init(done + 8*s, 1);
            barrier_init(stored + 8*s, 128);
            barrier_init(responded + 8*s, 1);
            barrier_init(read + 8*s, 130);                 // the producer, the thread that multiplies, 128 that store
        }
        fence_mbarrier_init();
    }
    if (warp == 0) tensor_alloc(address(&tmem), 2*BN);
    __syncthreads();
    bool produces = warp == 0 && lane == 0, multiplies = warp == 1 && lane == 0, stores = warp >= 2;
    for (int tile = blockIdx.x, t = 0; tile >= 0 && (produces || multiplies || stores); t++) {
        int r = tile/tile_cols*BM, c = tile%tile_cols*BN, i = t%2, phase_of_tile = t/2;
        u32 d = tmem + i*BN;
        if (produces) {
            barrier_wait(read + 8*i, phase_of_tile-1);
            try_cancel(address(responses[i]), responded + 8*i);
        }
        if (multiplies) {
            barrier_wait(stored + 8*i, phase_of_tile-1);
            tensor_fence_after();
        }
        for (int idx = 0; idx < k && !stores; idx += BK, ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            if (produces) {
                barrier_wait(empty + 8*s, phase-1);
                barrier_expect(full + 8*s, A_BYTES + B_BYTES);
                tma_load(a + s*A_BYTES, m, r, idx, full + 8*s);
                for (int x = 0; x < BN; x += 64) tma_load(b + s*B_BYTES + x/64*BOX, n, idx, c + x, full + 8*s);
            } else {
                barrier_wait(full + 8*s, phase);
                multiply(d, a + s*A_BYTES, b + s*B_BYTES, idx > 0);
                tensor_commit(empty + 8*s);
            }
        }
        if (multiplies) tensor_commit(done + 8*i);
        if (stores) {
            barrier_wait(done + 8*i, phase_of_tile);
            tensor_fence_after();
            int row = warp%4*32;
            store_row(d + (row << 16), out, r + row + lane, c, h, w);
            tensor_fence_before();
            barrier_arrive(stored + 8*i);
        }
        barrier_wait(responded + 8*i, phase_of_tile);
        tile = canceled_block(address(responses[i]));
        barrier_arrive(read + 8*i);
    }
    __syncthreads();
    if (warp == 0) tensor_free(tmem, 2*BN);
}
""",
    threads=192,
    grid=lambda h, w, BM, BN: (cdiv(h, BM) * cdiv(w, BN), 1),
    BM=128,
    BN=128,
    STAGES=4,
)

# NVFP4: elements of 4 bits, and scales that the tensor cores apply

scaled_instructions_src = r"""
// Copies the 128 x 4 scales of a tile, 512 bytes, to four columns of tensor memory, once per warp
__device__ void copy_scales(u32 to, u32 from) {
    u64 matrix = (from & 0x3ffff) >> 4 | 8ull << 16 | 8ull << 32 | 1ull << 46;  // 8 rows of 16 bytes, 128 bytes apart
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(to), "l"(matrix) : "memory");
}
__device__ void multiply_scaled(u32 d, u64 a, u64 b, u32 a_scales, u32 b_scales, int more) {
    constexpr u32 INSTRUCTION = 1 << 7 | 1 << 10 | 64/8 << 17 | 128/16 << 24;       // e2m1, e2m1, N = 64, M = 128
    asm volatile("{ .reg .pred more; setp.ne.b32 more, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X "
                 "[%0], %1, %2, %3, [%5], [%6], more; }"
                 :: "r"(d), "l"(a), "l"(b), "r"(INSTRUCTION), "r"(more), "r"(a_scales), "r"(b_scales) : "memory");
}
"""

nvfp4_kernel_src = r"""
// out = a (128 x 256) @ b (64 x 256).T. Tiles have the 128-byte swizzle; scales are in tiles of 128 rows and 4 blocks.
__global__ void __launch_bounds__(128) nvfp4_k(const uint4 *a, const uint4 *b, const uint4 *a_scales,
                                               const uint4 *b_scales, float *out, float factor) {
    __shared__ alignas(1024) char tiles[16384 + 8192 + 2*2048];
    __shared__ u64 bars[2];
    __shared__ u32 columns;
    u32 a_at = address(tiles), b_at = a_at + 16384, sa_at = b_at + 8192, sb_at = sa_at + 2048;
    u32 full = address(bars), done = full + 8;
    int warp = threadIdx.x/32;
    if (threadIdx.x == 0) { barrier_init(full, 1); barrier_init(done, 1); fence_mbarrier_init(); }
    if (warp == 0) tensor_alloc(address(&columns), 128);
    __syncthreads();
    u32 d = columns, sa = d + 64, sb = sa + 16;            // 64 columns of accumulators, then the scales
    if (threadIdx.x == 0) {
        barrier_expect(full, 16384 + 8192 + 2*2048);
        bulk_copy(a_at, a, 16384, full);
        bulk_copy(b_at, b, 8192, full);
        bulk_copy(sa_at, a_scales, 2048, full);
        bulk_copy(sb_at, b_scales, 2048, full);
        barrier_wait(full, 0);
        for (int i = 0; i < 4; i++) {                      // 64 columns at a time: 32 bytes of each row
            copy_scales(sa + 4*i, sa_at + 512*i);
            copy_scales(sb + 4*i, sb_at + 512*i);
            multiply_scaled(d, tensor_descriptor(a_at + 32*i, 16), tensor_descriptor(b_at + 32*i, 16),
                            sa + 4*i, sb + 4*i, i > 0);
        }
        tensor_commit(done);
    }
    barrier_wait(done, 0);
    tensor_fence_after();
    for (int c = 0; c < 64; c++) {
        float x;
        tensor_load(x, d + c + (warp << 21));
        tensor_wait_loads();
        out[threadIdx.x*64 + c] = x*factor;                // the global scales of both matrices
    }
    __syncthreads();
    if (warp == 0) tensor_free(d, 128);
}
"""

_BARRIERS = tuple(f'barrier_{name}' for name in ('init', 'expect', 'wait'))
nvfp4_src = (
    'typedef unsigned u32;\ntypedef unsigned long long u64;\n'
    + primitives('address', 'fence_mbarrier_init', *_BARRIERS, 'bulk_copy')
    + TCGEN05
    + scaled_instructions_src
    + nvfp4_kernel_src
)
