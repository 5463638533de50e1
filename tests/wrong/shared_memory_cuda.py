from gridstride.utils import cdiv

from . import wrong


def changed(src, *changes):
    "`src` with each (old, new) of `changes` made, once"
    for old,new in changes:
        assert src.count(old)==1, f'{old!r} is there {src.count(old)} times'
        src = src.replace(old, new)
    return src


@wrong('shared_memory_cuda.bytes')
def elements_not_bytes(th, tk, tw): return th*tk + tk*tw + tw, th*tk + tk*tw

@wrong('shared_memory_cuda.bytes')
def not_aligned(th, tk, tw): return 4*(th*tk + tk*tw) + 8*tw, 4*(th*tk + tk*tw)

@wrong('shared_memory_cuda.bytes')
def eight_more(th, tk, tw): return 4*(th*tk + tk*tw) + 8 + 8*tw, 4*(th*tk + tk*tw) + 8

@wrong('shared_memory_cuda.bytes')
def doubles_of_four_bytes(th, tk, tw):
    first = cdiv(4*(th*tk + tk*tw), 8)*8
    return first + 4*tw, first

@wrong('shared_memory_cuda.bytes')
def only_the_sum(th, tk, tw): return cdiv(4*(th*tk + tk*tw), 8)*8 + 8*tw


SWAP = r'''
template<int tw> __global__ void transpose_k(float *x, int n) {
    __shared__ float mine[tw][tw], other[tw][tw];
    int tc = threadIdx.x, tr = threadIdx.y, bx = blockIdx.x, by = blockIdx.y;
    if (bx < by) return;
    int r = by*tw + tr, c = bx*tw + tc;
    int r2 = bx*tw + tr, c2 = by*tw + tc;
    if (r < n && c < n) mine[tr][tc] = x[r*n + c];
    if (r2 < n && c2 < n) other[tr][tc] = x[r2*n + c2];
    __syncthreads();
    if (r < n && c < n) x[r*n + c] = other[tc][tr];
    if (bx > by && r2 < n && c2 < n) x[r2*n + c2] = mine[tc][tr];
}
'''

@wrong('shared_memory_cuda.swap')
def no_barrier(): return changed(SWAP, ('__syncthreads();', ''))

@wrong('shared_memory_cuda.swap')
def no_block_leaves(): return changed(SWAP, ('if (bx < by) return;', ''))

@wrong('shared_memory_cuda.swap')
def threads_leave_before_the_barrier():
    return changed(SWAP, ('if (bx < by) return;', 'if (bx < by || by*tw + tr >= n || bx*tw + tc >= n) return;'))

@wrong('shared_memory_cuda.swap')
def tiles_not_transposed(): return changed(SWAP, ('other[tc][tr]', 'other[tr][tc]'), ('mine[tc][tr]', 'mine[tr][tc]'))

@wrong('shared_memory_cuda.swap')
def each_at_its_index():
    return changed(SWAP, ('= other[tc][tr]', '= mine[tc][tr]'), ('= mine[tc][tr];\n}', '= other[tc][tr];\n}'))

@wrong('shared_memory_cuda.swap')
def one_side_only(): return changed(SWAP, ('    if (bx > by && r2 < n && c2 < n) x[r2*n + c2] = mine[tc][tr];\n', ''))

@wrong('shared_memory_cuda.swap')
def no_guard(): return changed(SWAP, ('if (r < n && c < n) mine', 'mine'))

@wrong('shared_memory_cuda.swap')
def without_shared_memory(): return r'''
template<int tw> __global__ void transpose_k(float *x, int n) {
    int r = blockIdx.y*tw + threadIdx.y, c = blockIdx.x*tw + threadIdx.x;
    if (c < n && r < c) { float o = x[r*n + c]; x[r*n + c] = x[c*n + r]; x[c*n + r] = o; }
}
'''


RECT = r'''
template<int tw, int tk> __global__ void matmul_rect_k(float *m, float *n, float *out, int h, int w, int k) {
    __shared__ float ms[tw][tk], ns[tk][tw];
    int tc = threadIdx.x, tr = threadIdx.y;
    int r = blockIdx.y*tw + tr, c = blockIdx.x*tw + tc;
    float o = 0;
    for (int ph = 0; ph < cdiv(k,tk); ph++) {
        int idx = ph*tk;
        for (int i = tc; i < tk; i += tw) ms[tr][i] = r < h && idx+i < k ? m[r*k + idx+i] : 0;
        for (int i = tr; i < tk; i += tw) ns[i][tc] = c < w && idx+i < k ? n[(idx+i)*w + c] : 0;
        __syncthreads();                          // filled
        for (int i = 0; i < tk; i++) o += ms[tr][i] * ns[i][tc];
        __syncthreads();                          // used
    }
    if (r < h && c < w) out[r*w + c] = o;
}
'''

@wrong('shared_memory_cuda.rect')
def one_address_each(): return changed(RECT, ('for (int i = tc; i < tk; i += tw)', 'for (int i = tc; i < tk; i += tk)'))

@wrong('shared_memory_cuda.rect')
def last_phase_forgotten(): return changed(RECT, ('cdiv(k,tk)', 'k/tk'))

@wrong('shared_memory_cuda.rect')
def phases_of_tw(): return changed(RECT, ('cdiv(k,tk)', 'cdiv(k,tw)'), ('ph*tk', 'ph*tw'))

@wrong('shared_memory_cuda.rect')
def no_barrier_after_filling(): return changed(RECT, ('__syncthreads();                          // filled', ''))

@wrong('shared_memory_cuda.rect')
def no_barrier_after_using(): return changed(RECT, ('__syncthreads();                          // used', ''))

@wrong('shared_memory_cuda.rect')
def no_padding():
    return changed(RECT, ('ns[i][tc] = c < w && idx+i < k ? n[(idx+i)*w + c] : 0;',
                          'if (c < w && idx+i < k) ns[i][tc] = n[(idx+i)*w + c];'))

@wrong('shared_memory_cuda.rect')
def more_than_the_tile():
    return changed(RECT, ('for (int i = tr; i < tk; i += tw)', 'for (int i = tr; i < tk + tw; i += tw)'))

@wrong('shared_memory_cuda.rect')
def no_guard_at_the_end(): return changed(RECT, ('if (r < h && c < w) out', 'out'))


TWO = r'''
template<int tw> __global__ void matmul_two_k(float *m, float *n, float *out, int h, int w, int k) {
    __shared__ float ms[tw][tw], ns[tw][tw];
    constexpr int half = tw/2;
    int tc = threadIdx.x, tr = threadIdx.y;
    int r = blockIdx.y*tw + tr, c = blockIdx.x*tw + tc;
    float o = 0, o2 = 0;
    for (int ph = 0; ph < cdiv(k,tw); ph++) {
        int idx = ph*tw;
        ms[tr][tc]      = r < h      && idx+tc < k ? m[r*k + idx+tc] : 0;
        ms[tr+half][tc] = r+half < h && idx+tc < k ? m[(r+half)*k + idx+tc] : 0;
        ns[tr][tc]      = c < w && idx+tr < k      ? n[(idx+tr)*w + c] : 0;
        ns[tr+half][tc] = c < w && idx+tr+half < k ? n[(idx+tr+half)*w + c] : 0;
        __syncthreads();                          // filled
        for (int i = 0; i < tw; i++) {
            float b = ns[i][tc];
            o  += ms[tr][i] * b;
            o2 += ms[tr+half][i] * b;
        }
        __syncthreads();                          // used
    }
    if (r < h && c < w) out[r*w + c] = o;
    if (r+half < h && c < w) out[(r+half)*w + c] = o2;
}
'''

@wrong('shared_memory_cuda.two')
def upper_half_only(): return changed(TWO, ('    if (r+half < h && c < w) out[(r+half)*w + c] = o2;\n', ''))

@wrong('shared_memory_cuda.two')
def lower_half_not_filled():
    return changed(TWO, ('        ns[tr+half][tc] = c < w && idx+tr+half < k ? n[(idx+tr+half)*w + c] : 0;\n', ''))

@wrong('shared_memory_cuda.two')
def block_of_half_height(): return changed(TWO, ('blockIdx.y*tw', 'blockIdx.y*blockDim.y'))

@wrong('shared_memory_cuda.two')
def one_guard_for_both(): return changed(TWO, ('if (r+half < h && c < w) out', 'if (r < h && c < w) out'))

@wrong('shared_memory_cuda.two')
def one_guard_for_the_fill(): return changed(TWO, ('ms[tr+half][tc] = r+half < h &&', 'ms[tr+half][tc] = r < h &&'))

@wrong('shared_memory_cuda.two')
def no_wait_after_filling(): return changed(TWO, ('__syncthreads();                          // filled', ''))

@wrong('shared_memory_cuda.two')
def no_wait_after_using(): return changed(TWO, ('__syncthreads();                          // used', ''))

@wrong('shared_memory_cuda.two')
def waits_for_its_warp_alone(): return TWO.replace('__syncthreads', '__syncwarp')

@wrong('shared_memory_cuda.two')
def same_row_twice(): return changed(TWO, ('o2 += ms[tr+half][i] * b', 'o2 += ms[tr][i] * b'))

@wrong('shared_memory_cuda.swap')
def one_thread_for_all_tiles(): return r'''
template<int tw> __global__ void transpose_k(float *x, int n) {
    __shared__ float pair[tw][2];
    if (threadIdx.x || threadIdx.y || blockIdx.x || blockIdx.y) return;
    for (int r = 0; r < n; r++) for (int c = 0; c < r; c++) {
        pair[0][0] = x[r*n + c];
        pair[0][1] = x[c*n + r];
        x[r*n + c] = pair[0][1];
        x[c*n + r] = pair[0][0];
    }
}
'''

@wrong('shared_memory_cuda.swap')
def one_pair_of_brackets(): return changed(SWAP, ('mine[tr][tc]', 'mine[tr,tc]'))

@wrong('shared_memory_cuda.rect')
def tiles_of_tw(): return RECT.replace('tk', 'tw').replace('int tw, int tw', 'int tw, int tk')

@wrong('shared_memory_cuda.rect')
def tile_for_nothing(): return r'''
template<int tw, int tk> __global__ void matmul_rect_k(float *m, float *n, float *out, int h, int w, int k) {
    __shared__ float ms[tw][tk];
    int r = blockIdx.y*tw + threadIdx.y, c = blockIdx.x*tw + threadIdx.x;
    if (r >= h || c >= w) return;
    float o = 0;
    for (int i = 0; i < k; i++) o += m[r*k + i] * n[i*w + c];
    out[r*w + c] = o;
}
'''

@wrong('shared_memory_cuda.rect')
def everyone_fills_the_row(): return changed(RECT, ('int i = tc; i < tk; i += tw', 'int i = 0; i < tk; i++'))
