import numpy as np

from gridstride.course.exercises.matmul_ladder import quads
from gridstride.utils import cdiv

from . import wrong
from .shared_memory_cuda import changed


@wrong('matmul_ladder.waves')
def no_waves(h, w, bm, bn, blocks_per_sm, sms):
    return h*w/(cdiv(h,bm)*cdiv(w,bn)*bm*bn)

@wrong('matmul_ladder.waves')
def edges_are_free(h, w, bm, bn, blocks_per_sm, sms):
    blocks,wave = cdiv(h,bm)*cdiv(w,bn),blocks_per_sm*sms
    return blocks/(cdiv(blocks,wave)*wave)

@wrong('matmul_ladder.waves')
def waves_not_rounded_up(h, w, bm, bn, blocks_per_sm, sms):
    return h*w/(h*w/(bm*bn)/(blocks_per_sm*sms)*blocks_per_sm*sms*bm*bn)

@wrong('matmul_ladder.waves')
def one_block_on_an_sm(h, w, bm, bn, blocks_per_sm, sms):
    return h*w/(cdiv(cdiv(h,bm)*cdiv(w,bn), sms)*sms*bm*bn)


@wrong('matmul_ladder.waves')
def blocks_rounded_down(h, w, bm, bn, blocks_per_sm, sms):
    return h*w/(cdiv((h//bm)*(w//bn), blocks_per_sm*sms)*blocks_per_sm*sms*bm*bn)

@wrong('matmul_ladder.waves')
def tiles_have_swapped_axes(h, w, bm, bn, blocks_per_sm, sms):
    return h*w/(cdiv(cdiv(h,bn)*cdiv(w,bm), blocks_per_sm*sms)*blocks_per_sm*sms*bm*bn)


def needs(group, blocks, across, down):
    "The rows and columns of tiles that the first blocks need"
    tiles = []
    for i in range(blocks):
        top,inside = i//(group*across)*group,i%(group*across)
        high = min(group, down-top)
        tiles.append((top + inside%high, inside//high))
    return [len(set(o)) for o in zip(*tiles)]

def best(blocks, across, down, cost):
    return min(range(1, down+1), key=lambda g: cost(*needs(g, blocks, across, down)))

@wrong('matmul_ladder.group')
def always_eight(blocks, across, down): return 8

@wrong('matmul_ladder.group')
def eight_if_it_fits(blocks, across, down): return min(8, down)

@wrong('matmul_ladder.group')
def a_square_of_blocks(blocks, across, down): return max(1, min(down, round(blocks**.5)))

@wrong('matmul_ladder.group')
def row_by_row(blocks, across, down): return 1

@wrong('matmul_ladder.group')
def fewest_columns(blocks, across, down): return best(blocks, across, down, lambda rows, columns: columns)

@wrong('matmul_ladder.group')
def most_of_both(blocks, across, down): return best(blocks, across, down, lambda rows, columns: -rows-columns)

@wrong('matmul_ladder.group')
def the_count_itself(blocks, across, down): return min(sum(needs(g, blocks, across, down)) for g in range(1, down+1))

@wrong('matmul_ladder.group')
def axes_swapped(blocks, across, down): return best(blocks, down, across, lambda rows, columns: rows+columns)

@wrong('matmul_ladder.group')
def nearly_whole(blocks, across, down): return best(blocks, across, down, lambda rows, columns: rows+columns) + .5


LANE = np.arange(32)

def patch(BN, BK, TM, TN, single=None, wide=None):
    tc,tr = LANE%(BN//TN)*TN,LANE//(BN//TN)*TM
    single = np.bincount(np.unique(tr*BK)%32).max() if single is None else single(tr, BK)
    return (TM*single + TN/4*(quads(tc//4) if wide is None else wide(tc)))/(TM*TN)

@wrong('matmul_ladder.patch')
def single_loads_never_conflict(BN, BK, TM, TN, quads): return patch(BN, BK, TM, TN, single=lambda tr, BK: 1)

@wrong('matmul_ladder.patch')
def each_row_is_a_wavefront(BN, BK, TM, TN, quads):
    return patch(BN, BK, TM, TN, single=lambda tr, BK: len(np.unique(tr)))

@wrong('matmul_ladder.patch')
def lanes_do_not_share(BN, BK, TM, TN, quads):
    return patch(BN, BK, TM, TN, single=lambda tr, BK: np.bincount(tr*BK%32).max())

@wrong('matmul_ladder.patch')
def wide_loads_take_two(BN, BK, TM, TN, quads): return patch(BN, BK, TM, TN, wide=lambda tc: 2)

@wrong('matmul_ladder.patch')
def elements_for_quads(BN, BK, TM, TN, quads): return patch(BN, BK, TM, TN, wide=quads)

@wrong('matmul_ladder.patch')
def rows_by_division(BN, BK, TM, TN, quads):
    def single(tr, BK): return np.bincount(np.arange(32//(BN//TN))*TM*BK%32).max()
    return patch(BN, BK, TM, TN, single=single)

@wrong('matmul_ladder.patch')
def one_row_of_patches(BN, BK, TM, TN, quads): return patch(BN, BK, TM, TN, wide=lambda tc: quads(LANE*TN//4))

@wrong('matmul_ladder.patch')
def of_a_step(BN, BK, TM, TN, quads): return patch(BN, BK, TM, TN)*TM*TN


@wrong('matmul_ladder.swizzle')
def row_major_order(y, x): return 32*y + x

@wrong('matmul_ladder.swizzle')
def padded(y, x): return 33*y + x

@wrong('matmul_ladder.swizzle')
def rotated_by_a_constant(y, x): return 32*y + (x+1)%32

@wrong('matmul_ladder.swizzle')
def two_addresses_for_one(y, x): return 32*y + (x*y)%32

@wrong('matmul_ladder.swizzle')
def row_and_column(y, x): return y, x ^ y

@wrong('matmul_ladder.swizzle')
def half_the_banks(y, x): return 32*y + (x ^ (y & 15))


EDGES = r'''
__device__ void put(float *out, int r, int c, int h, int w, float4 v) {
    if (r >= h) return;
    float *p = out + r*w + c;
    if (c+3 < w && (size_t)p%16 == 0) { *(float4 *)p = v; return; }
    float one[4] = {v.x, v.y, v.z, v.w};
    for (int i = 0; i < 4; i++) if (c+i < w) p[i] = one[i];
}
'''

@wrong('matmul_ladder.edges')
def aligned_by_luck(): return changed(EDGES, (' && (size_t)p%16 == 0', ''))

@wrong('matmul_ladder.edges')
def column_instead_of_address(): return changed(EDGES, ('(size_t)p%16 == 0', 'c%4 == 0'))

@wrong('matmul_ladder.edges')
def width_instead_of_address(): return changed(EDGES, ('(size_t)p%16 == 0', 'w%4 == 0'))

@wrong('matmul_ladder.edges')
def out_and_index_for_themselves():
    return changed(EDGES, ('(size_t)p%16 == 0', '(size_t)out%16 == 0 && (r*w+c)%4 == 0'))

@wrong('matmul_ladder.edges')
def past_the_row(): return changed(EDGES, ('c+3 < w && ', ''))

@wrong('matmul_ladder.edges')
def no_guard_for_the_singles(): return changed(EDGES, ('if (c+i < w) p[i]', 'p[i]'))

@wrong('matmul_ladder.edges')
def not_the_last_quad(): return changed(EDGES, ('c+3 < w', 'c+4 < w'))

@wrong('matmul_ladder.edges')
def below_the_last_row(): return changed(EDGES, ('if (r >= h) return;', ''))

@wrong('matmul_ladder.edges')
def one_by_one(): return changed(EDGES, ('    if (c+3 < w && (size_t)p%16 == 0) { *(float4 *)p = v; return; }\n', ''))

@wrong('matmul_ladder.edges')
def only_whole_quads(): return changed(EDGES, ('if (c+i < w) p[i]', 'if (c+3 < w) p[i]'))


TURNS = r'''
__global__ void matmul_k(const float *m, const float *n, float *out, int h, int w, int k) {
    __shared__ float ms[2][BM][BK], ns[2][BK][BN];
    int tc = threadIdx.x, tr = threadIdx.y;
    int r = blockIdx.y*BM + tr, c = blockIdx.x*BN + tc;
    auto fill = [&](int buf, int idx) {
        ms[buf][tr][tc] = r < h && idx+tc < k ? m[r*k + idx+tc] : 0;
        ns[buf][tr][tc] = c < w && idx+tr < k ? n[(idx+tr)*w + c] : 0;
    };
    float o = 0;
    fill(0, 0);
    for (int idx = 0, buf = 0; idx < k; idx += BK, buf = 1-buf) {
        __syncthreads();
        if (idx+BK < k) fill(1-buf, idx+BK);
        for (int i = 0; i < BK; i++) o += ms[buf][tr][i] * ns[buf][i][tc];
    }
    if (r < h && c < w) out[r*w + c] = o;
}
'''

@wrong('matmul_ladder.buffers')
def two_barriers():
    return changed(TURNS, ('o += ms[buf][tr][i] * ns[buf][i][tc];\n',
                           'o += ms[buf][tr][i] * ns[buf][i][tc];\n        __syncthreads();\n'))

@wrong('matmul_ladder.buffers')
def one_buffer(): return changed(TURNS, ('1-buf)', '0)'), ('fill(1-buf, idx+BK)', 'fill(buf, idx+BK)'))

@wrong('matmul_ladder.buffers')
def no_barrier_in_the_loop():
    return changed(TURNS, ('        __syncthreads();\n', ''),
                   ('    fill(0, 0);\n', '    fill(0, 0);\n    __syncthreads();\n'))

@wrong('matmul_ladder.buffers')
def next_tile_before_the_barrier():
    return changed(TURNS, ('        __syncthreads();\n        if (idx+BK < k) fill(1-buf, idx+BK);\n',
                           '        if (idx+BK < k) fill(1-buf, idx+BK);\n        __syncthreads();\n'))

@wrong('matmul_ladder.buffers')
def first_tile_never_filled(): return changed(TURNS, ('    fill(0, 0);\n', ''))

@wrong('matmul_ladder.buffers')
def a_barrier_per_product():
    return changed(TURNS, ('for (int i = 0; i < BK; i++) o +=', 'for (int i = 0; i < BK; i++, __syncthreads()) o +='))

@wrong('matmul_ladder.buffers')
def a_barrier_within_two_loops():
    return changed(TURNS, ('        __syncthreads();\n', ''),
        ('for (int i = 0; i < BK; i++) o += ms[buf][tr][i] * ns[buf][i][tc];',
         'for (int i = 0; i < BK; i++) { if (i == 0) __syncthreads(); o += ms[buf][tr][i] * ns[buf][i][tc]; }'))

@wrong('matmul_ladder.buffers')
def tiles_that_are_never_read():
    return changed(TURNS, ('for (int i = 0; i < BK; i++) o += ms[buf][tr][i] * ns[buf][i][tc];', ''),
        ('    if (r < h && c < w) out',
         '    for (int i = 0; i < k && r < h && c < w; i++) o += m[r*k+i] * n[i*w+c];\n    if (r < h && c < w) out'))

@wrong('matmul_ladder.buffers')
def only_m_has_tiles():
    return changed(TURNS, ('ns[2][BK][BN]', 'unused'),
        ('        ns[buf][tr][tc] = c < w && idx+tr < k ? n[(idx+tr)*w + c] : 0;\n', ''),
        ('* ns[buf][i][tc]', '* (c < w && idx+i < k ? n[(idx+i)*w + c] : 0)'))
