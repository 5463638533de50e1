from . import wrong
from gridstride.course.exercises.hopper_gemm import band_orders, count_loads
from .shared_memory_cuda import changed


@wrong('hopper_gemm.swizzle')
def no_swizzle(r, c, size, swizzle): return r*(swizzle or 128) + c*size

@wrong('hopper_gemm.swizzle')
def always_three_bits(r, c, size, swizzle):
    byte = r*(swizzle or 128) + c*size
    return byte ^ (byte >> 7 & 7) << 4 if swizzle else byte

@wrong('hopper_gemm.swizzle')
def bits_of_the_row_number(r, c, size, swizzle):
    return (r*(swizzle or 128) + c*size) ^ (r & max(swizzle//16 - 1, 0)) << 4

@wrong('hopper_gemm.swizzle')
def in_elements(r, c, size, swizzle):
    place = r*(swizzle or 128)//size + c
    return place ^ (place >> 7 & max(swizzle//16 - 1, 0)) << 4

@wrong('hopper_gemm.swizzle')
def added_instead_of_flipped(r, c, size, swizzle):
    byte = r*(swizzle or 128) + c*size
    return byte + ((byte >> 7 & max(swizzle//16 - 1, 0)) << 4)


@wrong('hopper_gemm.counts')
def consumers_of_this_block_only(BM, BN, BK, blocks, groups): return 1, groups, 2*BK*(BM + BN)

@wrong('hopper_gemm.counts')
def what_this_producer_orders(BM, BN, BK, blocks, groups): return 1, groups*blocks, 2*BK*(BM + BN//blocks)

@wrong('hopper_gemm.counts')
def every_thread_arrives(BM, BN, BK, blocks, groups): return 1, 128*groups*blocks, 2*BK*(BM + BN)

@wrong('hopper_gemm.counts')
def every_producer_announces(BM, BN, BK, blocks, groups): return blocks, groups*blocks, 2*BK*(BM + BN)

@wrong('hopper_gemm.counts')
def elements_not_bytes(BM, BN, BK, blocks, groups): return 1, groups*blocks, BK*(BM + BN)


CODE = {0:0, 128:1, 64:2, 32:3}

@wrong('hopper_gemm.descriptor')
def bytes_not_sixteens(at, lead, stride, swizzle): return at & 0x3fff | lead << 16 | stride << 32 | CODE[swizzle] << 62

@wrong('hopper_gemm.descriptor')
def the_rank_stays_in(at, lead, stride, swizzle):
    return at >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | CODE[swizzle] << 62

@wrong('hopper_gemm.descriptor')
def strides_exchanged(at, lead, stride, swizzle):
    return (at & 0x3ffff) >> 4 | stride >> 4 << 16 | lead >> 4 << 32 | CODE[swizzle] << 62

@wrong('hopper_gemm.descriptor')
def codes_in_order(at, lead, stride, swizzle):
    return (at & 0x3ffff) >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | {0:0, 32:1, 64:2, 128:3}[swizzle] << 62

@wrong('hopper_gemm.descriptor')
def swizzle_one_bit_low(at, lead, stride, swizzle):
    return (at & 0x3ffff) >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | CODE[swizzle] << 61

@wrong('hopper_gemm.descriptor')
def sixteen_bits_of_the_address(at, lead, stride, swizzle):
    return at >> 4 & 0xffff | lead >> 4 << 16 | stride >> 4 << 32 | CODE[swizzle] << 62


@wrong('hopper_gemm.stages')
def one_byte_a_number(BM, BN, BK, out):
    n = (232448 - 1024 - out)//((BM + BN)*BK + 16)
    return n if n >= 2 else 0

@wrong('hopper_gemm.stages')
def a_single_barrier(BM, BN, BK, out):
    n = (232448 - 1024 - out)//((BM + BN)*BK*2 + 8)
    return n if n >= 2 else 0

@wrong('hopper_gemm.stages')
def no_barriers(BM, BN, BK, out):
    n = (232448 - 1024 - out)//((BM + BN)*BK*2)
    return n if n >= 2 else 0

@wrong('hopper_gemm.stages')
def nothing_for_the_stores(BM, BN, BK, out):
    n = (232448 - 1024)//((BM + BN)*BK*2 + 16)
    return n if n >= 2 else 0

@wrong('hopper_gemm.stages')
def a_single_stage_will_do(BM, BN, BK, out): return (232448 - 1024 - out)//((BM + BN)*BK*2 + 16)

@wrong('hopper_gemm.stages')
def rounded_up(BM, BN, BK, out):
    n = -(-(232448 - 1024 - out)//((BM + BN)*BK*2 + 16))
    return n if n >= 2 else 0

@wrong('hopper_gemm.stages')
def the_output_tile(BM, BN, BK, out):
    n = (232448 - 1024 - out)//(BM*BN*2 + 16)
    return n if n >= 2 else 0

@wrong('hopper_gemm.stages')
def something_must_be_left(BM, BN, BK, out):
    n,one = 0,(BM + BN)*BK*2 + 16
    while (n + 1)*one < 232448 - 1024 - out: n += 1
    return n if n >= 2 else 0

@wrong('hopper_gemm.stages')
def nothing_for_the_alignment(BM, BN, BK, out):
    n = (232448 - out)//((BM + BN)*BK*2 + 16)
    return n if n >= 2 else 0


@wrong('hopper_gemm.order')
def by_rows(tile_rows, tile_cols, BM, BN, at_once): return [(r,c) for r in range(tile_rows) for c in range(tile_cols)]

@wrong('hopper_gemm.order')
def bands_of_eight(tile_rows, tile_cols, BM, BN, at_once):
    return [(r,c) for first in range(0, tile_rows, 8) for c in range(tile_cols)
            for r in range(first, min(first+8, tile_rows))]

@wrong('hopper_gemm.order')
def square_in_tiles(tile_rows, tile_cols, BM, BN, at_once):
    g = round(at_once**.5)
    return [(r,c) for first in range(0, tile_rows, g) for c in range(tile_cols)
            for r in range(first, min(first+g, tile_rows))]

@wrong('hopper_gemm.order')
def edges_forgotten(tile_rows, tile_cols, BM, BN, at_once):
    return [(r,c) for first in range(0, tile_rows//8*8, 8) for c in range(tile_cols) for r in range(first, first+8)]

def best_bands(tile_rows, tile_cols, BM, BN, at_once):
    return min(([(r,c) for first in range(0, tile_rows, g) for c in range(tile_cols)
                 for r in range(first, min(first+g, tile_rows))]
                for g in range(1, tile_rows + 1)), key=lambda o: count_loads(o, BM, BN, at_once))

@wrong('hopper_gemm.order')
def along_the_rows_alone(*case): return best_bands(*case)

@wrong('hopper_gemm.order')
def along_the_columns_alone(tile_rows, tile_cols, BM, BN, at_once):
    return [(r,c) for c,r in best_bands(tile_cols, tile_rows, BN, BM, at_once)]

@wrong('hopper_gemm.order')
def as_high_as_a_square(tile_rows, tile_cols, BM, BN, at_once):
    g,h = max(1, min(tile_rows, round((at_once*BN/BM)**.5))),max(1, min(tile_cols, round((at_once*BM/BN)**.5)))
    orders = band_orders(tile_rows, tile_cols)
    return min(orders[g-1], orders[tile_rows+h-1], key=lambda o: count_loads(o, BM, BN, at_once))

@wrong('hopper_gemm.order')
def up_to_sixteen(tile_rows, tile_cols, BM, BN, at_once):
    orders = band_orders(tile_rows, tile_cols)
    return min(orders[:tile_rows][:16] + orders[tile_rows:][:16], key=lambda o: count_loads(o, BM, BN, at_once))

@wrong('hopper_gemm.order')
def full_lots_alone(tile_rows, tile_cols, BM, BN, at_once):
    full = tile_rows*tile_cols//at_once*at_once
    return min(band_orders(tile_rows, tile_cols), key=lambda o: count_loads(o[:full], BM, BN, at_once))

@wrong('hopper_gemm.order')
def the_same_again(tile_rows, tile_cols, BM, BN, at_once):
    return [(r%4,c) for r in range(tile_rows) for c in range(tile_cols)]


@wrong('hopper_gemm.order')
def pairs_of_column_and_row(*case): return [(c,r) for r,c in best_bands(*case)]

@wrong('hopper_gemm.order')
def counts_of_tiles(tile_rows, tile_cols, BM, BN, at_once): return list(range(tile_rows*tile_cols))

@wrong('hopper_gemm.order')
def the_height_alone(tile_rows, tile_cols, BM, BN, at_once): return 16


def fixed(src, *which):
    "`src` with some of its three mistakes fixed"
    arrive = '            if (threadIdx.x == 0) barrier_arrive(empty + 8*s);\n'
    wait = '            wgmma_wait<0>();\n'
    changes = dict(phase=('(empty + 8*s, phase)', '(empty + 8*s, phase-1)'),
                   bytes=('A_BYTES);\n', 'A_BYTES + B_BYTES);\n'), release=(arrive + wait, wait + arrive))
    return changed(src, *(changes[o] for o in which))

@wrong('hopper_gemm.repair')
def as_it_was(src): return src

@wrong('hopper_gemm.repair')
def phase_not_fixed(src): return fixed(src, 'bytes', 'release')

@wrong('hopper_gemm.repair')
def bytes_not_fixed(src): return fixed(src, 'phase', 'release')

@wrong('hopper_gemm.repair')
def release_not_fixed(src): return fixed(src, 'phase', 'bytes')

@wrong('hopper_gemm.repair')
def every_thread_releases(src):
    return changed(fixed(src, 'phase', 'bytes', 'release'), ('if (threadIdx.x == 0) barrier_arrive', 'barrier_arrive'))

@wrong('hopper_gemm.repair')
def two_tiles_of_n_announced(src):
    return changed(fixed(src, 'phase', 'bytes', 'release'), ('A_BYTES + B_BYTES', 'A_BYTES + 2*B_BYTES'))


RELU = r'''
__global__ void relu_k(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap out) {
    __shared__ __align__(1024) __nv_bfloat16 box[64*64];
    __shared__ u64 bar;
    u32 at = address(box), full = address(&bar);
    int r = blockIdx.y*64, c = blockIdx.x*64;
    if (threadIdx.x == 0) {
        barrier_init(full, 1); fence_mbarrier_init();
        barrier_expect(full, sizeof box);
        tma_load(at, x, r, c, full);
    }
    __syncthreads();
    barrier_wait(full, 0);
    for (int i = threadIdx.x; i < 64*64; i += 128) box[i] = __hmax(box[i], __float2bfloat16(0));
    fence_for_tma();
    __syncthreads();
    if (threadIdx.x == 0) { tma_store(out, r, c, at); stores_commit(); stores_wait_read(); }
}
'''

@wrong('hopper_gemm.relu')
def nothing_announced(): return changed(RELU, ('        barrier_expect(full, sizeof box);\n', ''))

@wrong('hopper_gemm.relu')
def a_map_per_thread(): return changed(RELU, ('const __grid_constant__ TensorMap x', 'const TensorMap x'))

@wrong('hopper_gemm.relu')
def no_wait(): return changed(RELU, ('    barrier_wait(full, 0);\n', ''))

@wrong('hopper_gemm.relu')
def no_fence_for_tma(): return changed(RELU, ('    fence_for_tma();\n', ''))

@wrong('hopper_gemm.relu')
def sent_before_all_have_written():
    return changed(RELU, ('    fence_for_tma();\n    __syncthreads();\n', '    fence_for_tma();\n'))

@wrong('hopper_gemm.relu')
def leaves_while_it_is_read(): return changed(RELU, (' stores_commit(); stores_wait_read();', ' stores_commit();'))

@wrong('hopper_gemm.relu')
def barrier_unknown_to_tma(): return changed(RELU, (' fence_mbarrier_init();', ''))

@wrong('hopper_gemm.relu')
def columns_first(): return changed(RELU, ('tma_store(out, r, c, at)', 'tma_store(out, c, r, at)'))

@wrong('hopper_gemm.relu')
def waits_for_the_next_phase(): return changed(RELU, ('barrier_wait(full, 0)', 'barrier_wait(full, 1)'))

@wrong('hopper_gemm.relu')
def one_thread_changes_all():
    return changed(RELU, ('for (int i = threadIdx.x; i < 64*64; i += 128)',
                          'if (threadIdx.x == 0) for (int i = 0; i < 64*64; i++)'))

@wrong('hopper_gemm.relu')
def one_warp_changes_all():
    return changed(RELU, ('for (int i = threadIdx.x; i < 64*64; i += 128)',
                          'if (threadIdx.x < 32) for (int i = threadIdx.x; i < 64*64; i += 32)'))

@wrong('hopper_gemm.relu')
def without_tma(): return r'''
__global__ void relu_k(const __nv_bfloat16 *x, __nv_bfloat16 *out) {
    int i = blockIdx.x*128 + threadIdx.x;
    out[i] = __hmax(x[i], __float2bfloat16(0));
}
'''
