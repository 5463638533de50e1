"""Models of hardware layouts, each compared with an H100: a swizzled TMA box in shared memory, the fragments of
`mma.sync`, and the accumulator of `wgmma`. (Tensor maps are in `tensor_maps`.)
"""

import numpy as np

from ...cpp.kernel import cuda_kernel
from ...draw import cells
from ..tensor_maps import SWIZZLES, TensorMap, tensor_map, unsupported_reason
from ..ptx import PTX, wgmma
from .rung import require_hopper
from ...utils import backend

__all__ = ['SWIZZLES', 'TensorMap', 'tensor_map', 'unsupported_reason', 'swizzle_offsets', 'box_offsets', 'bank_group']
__all__ += ['swizzle_panel', 'mma_a', 'mma_b', 'mma_c', 'wgmma_d', 'thread_and_element', 'lane_panel']
__all__ += ['LAYOUT_KERNELS', 'dump_layouts', 'layouts_to_json', 'layouts_from_json']


# Without a swizzle a box is row-major in shared memory. Then a column of a box with rows of 128 bytes is in one bank
# group, and the tensor cores, which read eight rows of 16 bytes at once, have 8-way bank conflicts. So TMA permutes the
# 16-byte chunks: the index of a chunk within its 128 bytes is XORed with the index of the 128-byte line. A swizzle of
# 128 bytes uses three bits of the line, 64 two, 32 one.
def swizzle_offsets(
    offset,  # offsets in a row-major box, which begins at a multiple of 1024
    swizzle=128,  # 0, 32, 64 or 128 bytes
):  # the offsets at which TMA stores these bytes
    "Compute the offsets in shared memory at which TMA stores bytes of a box"
    offset = np.asarray(offset)
    return offset ^ (offset >> 7 & max(swizzle // 16 - 1, 0)) * 16


def box_offsets(rows, cols, element_bytes=2, swizzle=128):
    "Return the offset in bytes of each element of a box in shared memory"
    row, column = np.mgrid[:rows, :cols]
    return swizzle_offsets((row * cols + column) * element_bytes, swizzle)


def bank_group(offset):
    """Return the index, from 0 to 7, of the group of four banks to which an offset belongs.

    >>> bank_group([0, 16, 112, 128]).tolist()
    [0, 1, 7, 0]"""
    return np.asarray(offset) // 16 % 8


def swizzle_panel(rows=8, swizzle=128, title=None, size=30):
    "Draw the 16-byte chunks of a box, labelled and coloured by their bank group"
    groups = bank_group(box_offsets(rows, (swizzle or 128) // 16, 16, swizzle))
    title = title or f'swizzle {swizzle}'
    return cells(groups, groups, title, rows=range(rows), cols=range(groups.shape[1]), size=size)


# Tensor cores read their operands from registers of all lanes of a warp. For `mma.sync.m16n8k16` a lane holds eight
# elements of the 16x16 matrix a, four of the 16x8 matrix b, and four of the 16x8 accumulator. Which ones follows from
# the lane's group of four (`lane//4`) and its index in the group (`lane%4`). `wgmma` uses four warps, each with sixteen
# of the 64 rows, and its accumulator repeats that of `mma.sync` along the columns.
def _lane_and_element(num_elements):
    "Return the indices of 32 lanes as a column, and the indices of their elements as a row"
    return np.arange(32)[:, None], np.arange(num_elements)[None, :]


def mma_a():
    "Return (row, column) in the 16x16 matrix a of the 8 elements that each of 32 lanes holds, for mma.sync.m16n8k16"
    lane, element = _lane_and_element(8)
    return lane // 4 + element // 2 % 2 * 8, lane % 4 * 2 + element % 2 + element // 4 * 8


def mma_b():
    "Return (row, column) in the 16x8 matrix b of the 4 elements that each of 32 lanes holds"
    lane, element = _lane_and_element(4)
    return lane % 4 * 2 + element % 2 + element // 2 * 8, lane // 4 + 0 * element


def mma_c():
    "Return (row, column) in the 16x8 accumulator of the 4 elements that each of 32 lanes holds"
    lane, element = _lane_and_element(4)
    return lane // 4 + element // 2 * 8, lane % 4 * 2 + element % 2


def wgmma_d(columns):
    """Return (row, column) of the accumulator elements that each of 128 threads holds after a wgmma.

    The accumulator has 64 x `columns` elements, of which a thread holds `columns`/2."""
    thread, element = np.arange(128)[:, None], np.arange(columns // 2)[None, :]
    return thread // 32 * 16 + thread % 32 // 4 + element // 2 % 2 * 8, element // 4 * 8 + thread % 4 * 2 + element % 2


def thread_and_element(positions, shape):
    "Return two arrays of `shape`: the thread that holds each element, and the index of the element in that thread"
    thread_index, element_index = np.full(shape, -1), np.full(shape, -1)
    thread, element = np.indices(positions[0].shape)
    thread_index[positions], element_index[positions] = thread, element
    return thread_index, element_index


def lane_panel(positions, shape, title='', size=22, first=None):
    """Draw the index of the thread that holds each element of a matrix, coloured by groups of four lanes. `first`:
    (rows, columns), to draw only the first of each"""
    thread_index, _ = thread_and_element(positions, shape)
    rows, columns = first or shape
    threads = thread_index[:rows, :columns]
    return cells(threads, threads // 4, title, rows=range(rows), cols=range(columns), size=size)


# These kernels write the layouts to an array, on a GPU or on the emulator, and the models must agree with them. `box`
# loads a box of consecutive integers by TMA and copies shared memory to the output. In `fragments` each lane stores the
# registers that `ldmatrix` has loaded, whose values encode their positions, and its accumulators after `mma.sync`. In
# `accumulator` each thread stores its accumulators after `wgmma`; the elements of the product encode their positions.
LAYOUT_KERNELS = dict(
    box=PTX
    + r"""
__global__ void box(const __grid_constant__ TensorMap x, unsigned short *out, int row, int col, int bytes) {
    alignas(1024) __shared__ unsigned short s[32*64];
    __shared__ u64 full;
    u32 bar = address(&full);
    if (threadIdx.x == 0) {
        barrier_init(bar, 1);
        fence_mbarrier_init();
        barrier_expect(bar, bytes);
        tma_load(address(s), x, row, col, bar);
    }
    __syncthreads();
    barrier_wait(bar, 0);
    for (int i = threadIdx.x; i < bytes/2; i += blockDim.x) out[i] = s[i];
}""",
    fragments='#include <cuda_bf16.h>\n'
    + PTX
    + r"""
__global__ void fragments(const __nv_bfloat16 *m, const __nv_bfloat16 *n,
                          __nv_bfloat16 *a_out, __nv_bfloat16 *b_out, float *c_out) {
    alignas(16) __shared__ __nv_bfloat16 ms[16*16], ns[16*8];
    int lane = threadIdx.x;
    for (int i = lane; i < 16*16; i += 32) ms[i] = m[i];
    for (int i = lane; i < 16*8; i += 32) ns[i] = n[i];
    __syncwarp();
    u32 a[4], b[2];
    float c[4] = {};
    ldmatrix(a, address(ms + lane%16*16 + lane/16*8));
    ldmatrix_trans2(b, address(ns + lane%16*8));
    mma(c, a, b[0], b[1]);
    for (int i = 0; i < 8; i++) a_out[lane*8+i] = ((__nv_bfloat16 *)a)[i];
    for (int i = 0; i < 4; i++) b_out[lane*4+i] = ((__nv_bfloat16 *)b)[i];
    for (int i = 0; i < 4; i++) c_out[lane*4+i] = c[i];
}""",
    accumulator='#include <cuda_bf16.h>\n'
    + PTX
    + wgmma(64)
    + r"""
__global__ void accumulator(const __grid_constant__ TensorMap m, const __grid_constant__ TensorMap n, float *out) {
    alignas(1024) __shared__ __nv_bfloat16 ms[64*64], ns[16*64];
    __shared__ u64 full;
    u32 bar = address(&full);
    if (threadIdx.x == 0) {
        barrier_init(bar, 1);
        fence_mbarrier_init();
        barrier_expect(bar, sizeof(ms)+sizeof(ns));
        tma_load(address(ms), m, 0, 0, bar);
        tma_load(address(ns), n, 0, 0, bar);
    }
    __syncthreads();
    barrier_wait(bar, 0);
    float d[32];
    wgmma_fence();
    wgmma<false, true>(d, descriptor(address(ms), 16), descriptor(address(ns), 16), 0);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 32; i++) out[threadIdx.x*32+i] = d[i];
}""",
)


def _device():
    "Return the name of the device that runs kernels"
    return 'cuda' if backend() == 'gpu' else 'cpu'


def _make_numbered(h, w, k):
    "Return bf16 matrices m and n whose product has the element w*row + column, exactly"
    import torch

    m, n = torch.zeros(h, k, device=_device()), torch.zeros(k, w, device=_device())
    m[:, 0], m[:, 1], n[0], n[1] = torch.arange(h), 1, w, torch.arange(w)
    return m.bfloat16(), n.bfloat16()


def _dump_box(swizzle, row=0, col=0):
    "Return the shared memory after a TMA load of 32 rows of an array with the elements 1, 2, 3, ..."
    import torch

    cols = (swizzle or 128) // 2
    x = torch.arange(1, 64 * 64 + 1, dtype=torch.int32, device=_device()).to(torch.uint16).view(64, 64)
    out = torch.empty(32 * cols, dtype=torch.uint16, device=_device())
    cuda_kernel(LAYOUT_KERNELS['box'])[1, 128](tensor_map(x, (32, cols), swizzle), out, row, col, 64 * cols)
    return out.cpu().numpy().astype(int)


def _dump_fragments():
    "Return the registers of each lane for `mma.sync`: a, b, and the accumulators c"
    import torch

    m = torch.arange(256.0, device=_device()).bfloat16().view(16, 16)
    n = torch.arange(128.0, device=_device()).bfloat16().view(16, 8)
    a, b, product = (
        torch.empty(32, size, dtype=dtype, device=_device())
        for size, dtype in ((8, torch.bfloat16), (4, torch.bfloat16), (4, torch.float32))
    )
    kernel = cuda_kernel(LAYOUT_KERNELS['fragments'])
    kernel[1, 32](m, n, a, b, product)
    c = torch.empty_like(product)
    kernel[1, 32](*_make_numbered(16, 8, 16), torch.empty_like(a), torch.empty_like(b), c)
    return dict(a=a, b=b, product=product, c=c)


def _dump_accumulators():
    "Return the accumulators of each thread of a warpgroup after `wgmma`"
    import torch

    m, n = (x.contiguous() for x in _make_numbered(64, 64, 64))
    out = torch.empty(128, 32, device=_device())
    cuda_kernel(LAYOUT_KERNELS['accumulator'])[1, 128](tensor_map(m, (64, 64)), tensor_map(n, (16, 64)), out)
    return out


def dump_layouts(
    emulated=False,  # allow the emulator if there is no GPU
) -> dict:  # name -> array of integers
    "Run TMA, ldmatrix, mma.sync and wgmma, and return the layouts"
    require_hopper('A dump of the layouts', emulated)
    layouts = {f'box {swizzle}': _dump_box(swizzle) for swizzle in SWIZZLES}
    layouts['box over the edge'] = _dump_box(128, 50, -8)
    for name, registers in dict(_dump_fragments(), d=_dump_accumulators()).items():
        layouts[name] = registers.float().cpu().numpy().astype(int)
    return layouts


def layouts_to_json(layouts) -> dict:  # name -> rows of 32 integers, each as one string
    "Convert the result of `dump_layouts` to a dict that can be stored as JSON"
    return {
        name: [' '.join(map(str, row)) for row in array.reshape(-1, 32).tolist()] for name, array in layouts.items()
    }


def layouts_from_json(data, provenance='') -> dict:  # name -> array of integers, with one axis
    "Convert the result of `layouts_to_json` to arrays; `recorded` passes `provenance`, which is unused"
    return {name: np.array([int(value) for row in rows for value in row.split()]) for name, rows in data.items()}
