"""Test cases for the lesson's exercises. Reading this file spoils them."""

import reprlib
import torch

from ...cpp import cuda_kernel, on_emulator, options
from ..grading import problem
from ...diagnostics.errors import KernelError
from .cuda_c import without_comments, source
from ...kernels.ladder.hopper import boxes, hopper_src, store_src, tma_store_src, tiles
from ...kernels.ladder.ladder import check_matmul
from ...kernels.ladder.rung import Rung, constants_line
from ...kernels.ladder.tma import swizzle_offsets
from ...kernels.tensor_maps import tensor_map
from ...utils import cdiv, check

__all__ = [
    'FIELDS',
    'MAX_SHARED',
    'PRELUDE',
    'broken',
    'fields',
    'descriptor',
    'count_loads',
    'band_orders',
    'judge_in_both_orders',
    'run_relu',
]


@problem(
    'hopper_gemm.swizzle',
    cases=[dict(size=size, swizzle=swizzle) for swizzle in (128, 64, 32, 0) for size in (2, 4, 1)],
    hints=[
        'First compute the offset without a swizzle: a row has `swizzle` bytes (128 if it is 0), '
        'so row `r` begins at `r` times that.',
        'The mask for the flip comes from the same offset: keep 3, 2, 1 or no bits of `byte >> 7`. '
        '`x & 7` keeps three, `x & 3` two.',
        'Then flip bits 4 and up: `byte ^ (byte >> 7 & mask) << 4`, where `mask` is 7, 3, 1 or 0: '
        '`swizzle//16 - 1`, but not less than 0.',
    ],
)
def _(fn, rng, size, swizzle):
    row = swizzle or 128
    for r in range(32):
        for c in range(row // size):
            plain = r * row + c * size
            result = fn(r, c, size, swizzle)
            expected = int(swizzle_offsets(plain, swizzle))
            if result != expected:
                raise AssertionError(
                    f'row {r}, column {c} of a box with elements of {size} bytes and swizzle {swizzle} is at byte '
                    f'{plain} without a swizzle, and at byte {expected} with it; got {result!r}'
                )


@problem(
    'hopper_gemm.counts',
    cases=[
        dict(BM=BM, BN=BN, BK=BK, blocks=blocks, groups=groups)
        for BM, BN, BK, blocks, groups in (
            (128, 128, 64, 1, 1),
            (128, 256, 64, 1, 2),
            (128, 256, 64, 2, 2),
            (64, 256, 64, 4, 1),
            (192, 128, 32, 2, 3),
            (256, 128, 64, 2, 2),
        )
    ],
    hints=[
        'One thread of the block announces the bytes at `full`. Which other threads arrive there? TMA counts bytes; '
        'it does not arrive.',
        'A stage of this block may be filled only when it is empty in every block of the cluster, '
        'since each block receives a part of every load. So consumers of all blocks arrive at `empty`.',
        'Whichever block loads them, all the bytes of a stage arrive in it: the whole tile of m and the whole tile of '
        'n. `1, groups*blocks, 2*BK*(BM + BN)`.',
    ],
)
def _(fn, rng, BM, BN, BK, blocks, groups):
    result = fn(BM, BN, BK, blocks, groups)
    expected = (1, groups * blocks, 2 * BK * (BM + BN))
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        raise AssertionError(
            f'return three integers: the arrival counts of `full` and `empty`, and the bytes; got {result!r}'
        )
    case = f'{BM}x{BN}x{BK}, {blocks} blocks with {groups} consumers per block'
    names = 'full counts', 'empty counts', 'the bytes announced in a phase are'
    likely_mistakes = blocks, groups, 2 * BK * (BM + BN // blocks)
    reasons = (
        ": each producer announces at its own block's barrier, and TMA does not arrive",
        ", the consumers of one block: which other consumers read what this stage's producer sends?",
        ', the bytes that this producer loads: how many bytes arrive?',
    )
    for name, actual, value, mistake, reason in zip(names, result, expected, likely_mistakes, reasons):
        if actual != value:
            raise AssertionError(f'{case}: {name} {value}; got {actual!r}{reason if actual == mistake else ""}')


FIELDS = dict(address=(0, 14), lead=(16, 14), stride=(32, 14), swizzle=(62, 2))


def fields(x):  # x: a descriptor
    "Return the fields of a descriptor by name"
    return {name: x >> first & (1 << bits) - 1 for name, (first, bits) in FIELDS.items()}


def descriptor(address, lead, stride, swizzle) -> int:
    "Return the 64 bits of a wgmma descriptor: the address of a tile, two strides and the swizzle, all in bytes"
    return (address & 0x3FFFF) >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | {0: 0, 128: 1, 64: 2, 32: 3}[swizzle] << 62


@problem(
    'hopper_gemm.descriptor',
    cases=[
        dict(at=at, lead=lead, stride=stride, swizzle=swizzle)
        for at, lead, stride, swizzle in (
            (1024, 8192, 1024, 128),
            (0, 16, 1024, 128),
            (0x1000400, 8192, 1024, 128),
            (0x3FC00, 16, 512, 64),
            (2048 + 32, 4096, 256, 32),
            (0x2012340, 128, 256, 0),
            (0x10FFC00, 8192, 1024, 128),
        )
    ],
    hints=[
        'Three of the fields are in units of 16 bytes: `>> 4`. First keep 18 bits of the address: `& 0x3ffff`.',
        'Shift each field to where it begins (`<< 16`, `<< 32`, `<< 62`), and combine them with `|`. '
        'In Python `<<` and `>>` go from left to right, before `&` and `|`.',
        '`(at & 0x3ffff) >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | code << 62`, with `code = {0:0, 128:1, '
        '64:2, 32:3}[swizzle]`.',
    ],
)
def _(fn, rng, at, lead, stride, swizzle):
    result = fn(at, lead, stride, swizzle)
    expected = descriptor(at, lead, stride, swizzle)
    if not isinstance(result, int):
        raise AssertionError(f'return an integer; got {result!r}')
    for name, value in fields(expected).items():
        hint = ' (does the address overflow into it?)' if name == 'lead' and at >> 18 else ''
        if name != 'swizzle' and value and fields(result)[name] == value * 16:
            hint = ': this is in bytes; convert it to units of 16 bytes'
        if fields(result)[name] != value:
            raise AssertionError(
                f'the field {name} is {fields(result)[name]:#x}, but must be {value:#x}, for at={at:#x}, '
                f'lead={lead}, stride={stride}, swizzle={swizzle}{hint}'
            )
    if result != expected:
        raise AssertionError(f'{result:#x} has bits set between the fields; expected {expected:#x}')


MAX_SHARED = 232448  # bytes of shared memory per block


@problem(
    'hopper_gemm.stages',
    cases=[
        dict(BM=BM, BN=BN, BK=BK, out=out)
        for BM, BN, BK, out in (
            (128, 256, 64, 0),
            (128, 256, 64, 16384),
            (128, 128, 64, 32768),
            (256, 256, 64, 0),
            (256, 256, 64, 131072),
            (64, 64, 64, 0),
            (256, 128, 128, 0),
            (192, 160, 64, 24576),
            (128, 256, 64, 34768),
            (128, 256, 64, 34752),  # four fit exactly
        )
    ],
    hints=[
        '232448 - 1024 - `out` bytes are left for stages. How many bytes does one stage take? Two tiles with 2 '
        'bytes per element, and 16 bytes of barriers.',
        '`left//stage` stages fit.',
        'If that is less than 2, return 0.',
    ],
)
def _(fn, rng, BM, BN, BK, out):
    result = fn(BM, BN, BK, out)
    stage_bytes = (BM + BN) * BK * 2 + 16
    fit = (MAX_SHARED - 1024 - out) // stage_bytes
    if result != (fit if fit >= 2 else 0):
        raise AssertionError(
            f'{BM}x{BN}x{BK} with {out} bytes for stores: a stage takes {stage_bytes} bytes, '
            f'and {MAX_SHARED - 1024 - out} are free, so {fit} fit'
            f'{"" if fit >= 2 else ", and fewer than 2 count as 0"}; got {result!r}'
        )


def count_loads(order, BM, BN, at_once):
    "Count the rows and columns of elements that an order loads, in waves of `at_once` tiles"
    waves = [order[i : i + at_once] for i in range(0, len(order), at_once)]
    return sum(len({r for r, _ in wave}) * BM + len({c for _, c in wave}) * BN for wave in waves)


def band_orders(tile_rows, tile_cols):
    "Return the order of tiles for bands of every height, along the rows and along the columns"

    def down(tile_rows, tile_cols, group):
        return [
            (r, c)
            for first in range(0, tile_rows, group)
            for c in range(tile_cols)
            for r in range(first, min(first + group, tile_rows))
        ]

    return [down(tile_rows, tile_cols, g) for g in range(1, tile_rows + 1)] + [
        [(r, c) for c, r in down(tile_cols, tile_rows, g)] for g in range(1, tile_cols + 1)
    ]


@problem(
    'hopper_gemm.order',
    cases=[
        dict(tile_rows=tile_rows, tile_cols=tile_cols, BM=BM, BN=BN, at_once=at_once)
        for tile_rows, tile_cols, BM, BN, at_once in (
            (32, 16, 128, 256, 66),
            (16, 32, 256, 128, 66),
            (7, 5, 128, 128, 6),
            (3, 40, 128, 256, 20),
            (40, 3, 128, 256, 20),
            (1, 9, 64, 64, 4),
            (24, 24, 256, 64, 36),
            (64, 32, 128, 256, 132),
            (37, 15, 128, 64, 33),
            (12, 33, 256, 256, 33),
            (15, 22, 128, 256, 90),  # the best height is far from a square's
            (36, 25, 64, 256, 105),  # the best height is above 16
            (12, 39, 64, 256, 99),  # the last wave, which is not full, decides
        )
    ],
    hints=[
        'Tiles that are computed at the same time load least if together they are nearly square, measured in '
        'elements rather than in tiles. So a band should be about as high as such a square.',
        'Which height is best also depends on the last tiles, so try all: make the order for every height, count '
        'what it loads, and keep the best: `min(orders, key=cost)`.',
        'Also try bands along the columns: use the same code with `tile_rows` and `tile_cols` swapped, and swap (c, r) '
        'back to (r, c). Write `cost` in the same way as `from_memory`.',
    ],
)
def _(fn, rng, tile_rows, tile_cols, BM, BN, at_once):
    order = fn(tile_rows, tile_cols, BM, BN, at_once)
    case = f'{tile_rows} by {tile_cols} tiles of {BM} by {BN}, {at_once} at once'
    try:
        result = [(r, c) for r, c in order]
    except (TypeError, ValueError):
        raise AssertionError(f'return a list of pairs (row, column); got {reprlib.repr(order)}') from None
    for r, c in result:
        if r not in range(tile_rows) or c not in range(tile_cols):
            raise AssertionError(
                f'{case}: there is no tile ({r}, {c}): rows are 0 to {tile_rows - 1}, columns 0 to {tile_cols - 1}'
            )
    if len(result) != tile_rows * tile_cols or len(set(result)) != tile_rows * tile_cols:
        raise AssertionError(
            f'{case}: compute each of the {tile_rows * tile_cols} tiles once; got {len(result)} tiles, '
            f'{len(set(result))} distinct'
        )
    num_loads = count_loads(result, BM, BN, at_once)
    best = min(count_loads(band, BM, BN, at_once) for band in band_orders(tile_rows, tile_cols))
    if num_loads > 1.03 * best:
        raise AssertionError(
            f'{case}: this order loads {num_loads} rows and columns, {num_loads / best:.2f} times as many as the '
            f'best bands, which load {best}; at most 1.03 times as many are allowed'
        )


PRELUDE = constants_line(dict(BM=64, BN=64, BK=64, STAGES=1)) + hopper_src + tma_store_src + '#include <cuda_bf16.h>\n'


def judge_in_both_orders(judge):
    "Call `judge` on the emulator, with threads and blocks from first to last, and from last to first"
    for order in ('forward', 'reverse'):
        with on_emulator(), options(order=order):
            judge()


def run_relu(src, x, threads=128):
    "Run the kernel `relu_k` of `src` on a matrix, with one block per 64 x 64 box"
    out = torch.full_like(x, torch.nan)
    grid = cdiv(x.shape[1], 64), cdiv(x.shape[0], 64)
    cuda_kernel(PRELUDE + src, name='relu_k')[grid, threads](tensor_map(x, (64, 64)), tensor_map(out, (64, 64)))
    return out


def is_right_with_one_warp(src, x, expected):
    "Return whether the result is right even if only one of the four warps of each block is launched"
    try:
        with on_emulator():
            check(run_relu(src.replace('blockDim.x', '128'), x, threads=32).float(), expected)
    except (AssertionError, KernelError):
        return False
    return True


@problem(
    'hopper_gemm.relu',
    cases=[dict(h=h, w=w) for h, w in ((64, 64), (1, 8), (100, 136), (200, 64))],
    hints=[
        'Rung 1 up to `barrier_wait` is nearly the first half: a barrier that counts one arrival, '
        'initialized by one thread, then `__syncthreads`. One thread announces the bytes and issues one TMA load; '
        'all threads wait for phase 0.',
        'A box is `__shared__ __align__(1024) __nv_bfloat16 box[64*64]`, and `address(box)` is its address. '
        'Distribute its 64*64 elements over the threads as always: `for (int i = threadIdx.x; i < 64*64; i += 128)`.',
        'After the loop: `fence_for_tma()` by all threads, since all have written; `__syncthreads()`; then one '
        'thread stores the box: `tma_store`, `stores_commit`, and it must not return before `stores_wait_read`.',
    ],
)
def _(fn, rng, h, w):
    src = source(fn)
    for word in ('tma_load', 'tma_store'):
        if word not in without_comments(src):
            raise AssertionError(f'the source has no {word}: load and store the boxes with TMA')
    x = torch.tensor(rng.standard_normal((h, w)), dtype=torch.float32).bfloat16()
    expected = x.clamp(min=0).float()
    judge_in_both_orders(lambda: check(run_relu(src, x).float(), expected))
    if h >= 64 and is_right_with_one_warp(src, x, expected):
        raise AssertionError(
            'the result is right, but one warp or one thread computes all elements of a box: distribute them over the '
            "block's 128 threads"
        )


broken = r'''
__global__ void __launch_bounds__(256) broken_k(const __grid_constant__ TensorMap m,
                                                const __grid_constant__ TensorMap n,
                                                __nv_bfloat16 *out, int h, int w, int k) {
    extern __shared__ __align__(1024) char shared[];
    __shared__ u64 full_bars[STAGES], empty_bars[STAGES];
    u32 a = address(shared), b = a + STAGES*A_BYTES, full = address(full_bars), empty = address(empty_bars);
    int r = blockIdx.y*BM, c = blockIdx.x*BN;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { barrier_init(full + 8*s, 1); barrier_init(empty + 8*s, 1); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 128) {                              // producer
        for (int ph = 0; ph < cdiv(k, BK); ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            barrier_wait(empty + 8*s, phase);
            barrier_expect(full + 8*s, A_BYTES);
            tma_load(a + s*A_BYTES, m, r, ph*BK, full + 8*s);
            tma_load(b + s*B_BYTES, n, ph*BK, c, full + 8*s);
        }
    } else if (threadIdx.x < 128) {                        // consumer
        float d[1][BN/2];
        for (int ph = 0; ph < cdiv(k, BK); ph++) {
            int s = ph%STAGES, phase = ph/STAGES;
            barrier_wait(full + 8*s, phase);
            multiply(d, a + s*A_BYTES, b + s*B_BYTES, ph > 0);
            if (threadIdx.x == 0) barrier_arrive(empty + 8*s);
            wgmma_wait<0>();
        }
        fence_accumulators(d);
        store(d, out, r, c, h, w);
    }
}
'''


@problem(
    'hopper_gemm.repair',
    cases=[dict(h=h, w=w, k=k) for h, w, k in ((1, 8, 8), (64, 64, 64), (65, 72, 200), (130, 136, 392))],
    hints=[
        'First there is a deadlock. At the start all stages are empty, so the producer must not wait. Which phase '
        'of `empty` does it wait for if `phase` is 0, and which phase counts as complete from the beginning?',
        'Then a tile is read while its copy may be in flight, although the consumer waits at `full`. What '
        'completes that phase? One arrival, and the announced bytes: how many bytes arrive?',
        'Last, a stage is overwritten while the tensor cores may still read it. `barrier_arrive` releases the '
        'stage, so it must come after `wgmma_wait<0>()`.',
    ],
)
def _(fn, rng, h, w, k):
    src = fn(broken)
    if not isinstance(src, str):
        raise AssertionError(f'return the fixed source as a string; got {type(src).__name__}')
    rung = Rung(
        'repaired',
        hopper_src + store_src + src,
        threads=256,
        shared=tiles,
        tma_boxes=boxes,
        dtype='bfloat16',
        BM=64,
        BN=64,
        BK=64,
        STAGES=2,
    )
    judge_in_both_orders(lambda: check_matmul(rung, [(h, w, k)]))
