import math

import numpy as np
from gridstride.sim import cuda
from gridstride.bench.variants import changed

from . import wrong


@cuda.jit
def same_k(x, f, out):
    s = cuda.shared.array(96, np.float32)
    t,r = cuda.threadIdx.x,f.size//2
    first = cuda.blockIdx.x*64 - r
    for k in range(t, 64 + 2*r, 64):
        i = first + k
        s[k] = x[i] if i >= 0 and i < x.size else np.float32(0)
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < out.size:
        o = np.float32(0)
        for j in range(f.size): o += f[j]*s[t+j]
        out[i] = o

@wrong('stencils_and_convolution.same')
def no_halo(): return changed(same_k, 'range(t, 64 + 2*r, 64)', 'range(t, 64, 64)')

@wrong('stencils_and_convolution.same')
def wraps_around(): return changed(same_k, 'x[i] if i >= 0 and i < x.size', 'x[i] if i < x.size')

@wrong('stencils_and_convolution.same')
def window_on_one_side(): return changed(same_k, 'cuda.blockIdx.x*64 - r', 'cuda.blockIdx.x*64')

@wrong('stencils_and_convolution.same')
def filter_reversed(): return changed(same_k, 'f[j]*s[t+j]', 'f[f.size-1-j]*s[t+j]')

@wrong('stencils_and_convolution.same')
def no_barrier(): return changed(same_k, '    cuda.syncthreads()\n', '')

@wrong('stencils_and_convolution.same')
def through_the_caches():
    @cuda.jit
    def k(x, f, out):
        i = cuda.grid(1)
        if i < out.size:
            o = np.float32(0)
            for j in range(f.size):
                at = i + j - f.size//2
                if at >= 0 and at < x.size: o += f[j]*x[at]
            out[i] = o
    return k


@cuda.jit
def causal_k(x, f, state, out, last):
    c = cuda.grid(1)
    length,channels = x.shape
    k = f.shape[0]
    if c < channels:
        for t in range(length):
            o = np.float32(0)
            for j in range(k):
                row = t + j - k + 1
                o += f[j,c]*(x[row,c] if row >= 0 else state[row+k-1,c])
            out[t,c] = o
        for j in range(k-1):
            row = length + j - k + 1
            last[j,c] = x[row,c] if row >= 0 else state[row+k-1,c]

@wrong('stencils_and_convolution.causal')
def without_the_state():
    return changed(causal_k, 'o += f[j,c]*(x[row,c] if row >= 0 else state[row+k-1,c])',
                   'if row >= 0: o += f[j,c]*x[row,c]')

@wrong('stencils_and_convolution.causal')
def state_from_its_end():
    return changed(causal_k, 'o += f[j,c]*(x[row,c] if row >= 0 else state[row+k-1,c])',
                   'o += f[j,c]*(x[row,c] if row >= 0 else state[-1-row,c])')

@wrong('stencils_and_convolution.causal')
def short_parts_forget():
    return changed(causal_k, 'last[j,c] = x[row,c] if row >= 0 else state[row+k-1,c]',
                   'last[j,c] = x[row,c] if row >= 0 else np.float32(0)')

@wrong('stencils_and_convolution.causal')
def sees_the_future(): return changed(causal_k, 'row = t + j - k + 1', 'row = min(t + j - k + 2, length-1)')

@wrong('stencils_and_convolution.causal')
def no_guard(): return changed(causal_k, 'if c < channels:', 'if True:')


def window(i, p, h, w, k, stride, padding):
    columns = (w + 2*padding - k)//stride + 1
    y = p//columns*stride + i//k%k - padding
    x = p%columns*stride + i%k - padding
    return (i//(k*k), y, x) if 0 <= y < h and 0 <= x < w else None

@wrong('stencils_and_convolution.window')
def width_of_the_image(*args): return changed(window, '(w + 2*padding - k)//stride + 1', 'w')(*args)

@wrong('stencils_and_convolution.window')
def no_padding(*args): return changed(window, ' if 0 <= y < h and 0 <= x < w else None', '')(*args)

@wrong('stencils_and_convolution.window')
def stride_of_the_taps(*args):
    return changed(window, {'p//columns*stride + i//k%k': 'p//columns + i//k%k*stride',
                            'p%columns*stride + i%k': 'p%columns + i%k*stride'})(*args)

@wrong('stencils_and_convolution.window')
def taps_by_columns(*args):
    return changed(window, {'stride + i//k%k - padding\n    x': 'stride + i%k - padding\n    x',
                            'i%k - padding\n    return': 'i//k%k - padding\n    return'})(*args)


def passes(tile, depth, radius, steps):
    halo = radius*steps
    side = tile - 2*halo
    if side <= 0: return math.inf
    return 4*(tile**2*(depth + 2*halo)/(side**2*depth) + 1)/steps

@wrong('stencils_and_convolution.passes')
def halo_of_one_step(*args): return changed(passes, 'radius*steps', 'radius')(*args)

@wrong('stencils_and_convolution.passes')
def halo_on_one_side(*args): return changed(passes, 'tile - 2*halo', 'tile - halo')(*args)

@wrong('stencils_and_convolution.passes')
def no_halo_planes(*args): return changed(passes, '(depth + 2*halo)', 'depth')(*args)

@wrong('stencils_and_convolution.passes')
def store_per_step(*args): return changed(passes, ' + 1)/steps', ')/steps + 4')(*args)

@wrong('stencils_and_convolution.passes')
def negative_tiles(*args): return changed(passes, '    if side <= 0: return math.inf\n', '')(*args)


@cuda.jit
def rows_k(u, out):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    h,w = u.shape
    x = cuda.blockIdx.x*62 + t - 1
    inside = x >= 0 and x < w
    above = np.float32(0)
    here = u[0,x] if inside else np.float32(0)
    for y in range(h):
        below = u[y+1,x] if inside and y+1 < h else np.float32(0)
        s[t] = here
        cuda.syncthreads()                       # complete
        if inside and t > 0 and t < 63:
            if y == 0 or y == h-1 or x == 0 or x == w-1: out[y,x] = here
            else: out[y,x] = above + below + s[t-1] + s[t+1]
        cuda.syncthreads()                       # used
        above = here
        here = below

@wrong('stencils_and_convolution.rows')
def no_second_barrier(): return changed(rows_k, '        cuda.syncthreads()                       # used\n', '')

@wrong('stencils_and_convolution.rows')
def no_first_barrier(): return changed(rows_k, '        cuda.syncthreads()                       # complete\n', '')

@wrong('stencils_and_convolution.rows')
def edge_threads_compute(): return changed(rows_k, 'inside and t > 0 and t < 63', 'inside')

@wrong('stencils_and_convolution.rows')
def above_is_new(): return changed(rows_k, 'above = here\n', 'above = below\n')

@wrong('stencils_and_convolution.rows')
def five_loads():
    @cuda.jit
    def k(u, out):
        t = cuda.threadIdx.x
        h,w = u.shape
        x = cuda.blockIdx.x*62 + t - 1
        if x >= 0 and x < w and t > 0 and t < 63:
            for y in range(h):
                if y == 0 or y == h-1 or x == 0 or x == w-1: out[y,x] = u[y,x]
                else: out[y,x] = u[y-1,x] + u[y+1,x] + u[y,x-1] + u[y,x+1]
    return k


@cuda.jit
def common_k(a, b, out):
    s = cuda.shared.array((3, 128), np.int32)
    i = cuda.threadIdx.x
    n,m = a.size,b.size
    for d in range(n + m + 1):
        j = d - i
        if i <= n and j >= 0 and j <= m:
            best = 0
            if i > 0 and j > 0:
                if a[i-1] == b[j-1]: best = s[(d-2)%3,i-1] + 1
                else: best = max(s[(d-1)%3,i-1], s[(d-1)%3,i])
            s[d%3,i] = best
        cuda.syncthreads()
    if i == n: out[0] = s[(n + m)%3,n]

@wrong('stencils_and_convolution.common')
def without_barriers(): return changed(common_k, '        cuda.syncthreads()\n', '')

@wrong('stencils_and_convolution.common')
def two_diagonals():
    return changed(common_k, {'(3, 128)': '(2, 128)', 's[(d-2)%3,i-1]': 's[d%2,i-1]',
                              'max(s[(d-1)%3,i-1], s[(d-1)%3,i])': 'max(s[(d-1)%2,i-1], s[(d-1)%2,i])',
                              's[d%3,i] =': 's[d%2,i] =', '(n + m)%3': '(n + m)%2'})

@wrong('stencils_and_convolution.common')
def one_thread():
    @cuda.jit
    def k(a, b, out):
        s = cuda.shared.array((3, 128), np.int32)
        n,m = a.size,b.size
        if cuda.threadIdx.x == 0:
            for j in range(m + 1): s[0,j] = 0
            for i in range(1, n + 1):
                s[i%2,0] = 0
                for j in range(1, m + 1):
                    if a[i-1] == b[j-1]: s[i%2,j] = s[(i-1)%2,j-1] + 1
                    else: s[i%2,j] = max(s[(i-1)%2,j], s[i%2,j-1])
            out[0] = s[n%2,m]
    return k

@wrong('stencils_and_convolution.common')
def substring(): return changed(common_k, 'max(s[(d-1)%3,i-1], s[(d-1)%3,i])', '0')

@wrong('stencils_and_convolution.common')
def whole_table():
    @cuda.jit
    def k(a, b, out):
        s = cuda.shared.array((64, 64), np.int32)
        i = cuda.threadIdx.x
        n,m = a.size,b.size
        for d in range(n + m + 1):
            j = d - i
            if i <= n and j >= 0 and j <= m:
                best = 0
                if i > 0 and j > 0:
                    if a[i-1] == b[j-1]: best = s[i-1,j-1] + 1
                    else: best = max(s[i-1,j], s[i,j-1])
                s[i,j] = best
            cuda.syncthreads()
        if i == n: out[0] = s[n,m]
    return k
