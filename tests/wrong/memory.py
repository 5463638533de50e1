import numpy as np
from gridstride.layout import Layout
from gridstride.sim import cuda

from . import wrong


@wrong('memory.sectors')
def one_a_lane(bytes): return len(bytes)

@wrong('memory.sectors')
def where_it_begins(bytes): return len({b//32 for b in bytes})

@wrong('memory.sectors')
def the_span(bytes): return max(bytes)//32 - min(bytes)//32 + 1

@wrong('memory.sectors')
def the_last_end_alone(bytes): return len({b//32 for b in bytes} | {(max(bytes)+3)//32})

@wrong('memory.sectors')
def one_more_if_shifted(bytes): return len({b//32 for b in bytes}) + any(b%4 for b in bytes)

@wrong('memory.sectors')
def ends_a_byte_early(bytes): return len({o//32 for b in bytes for o in (b, b+2)})

@wrong('memory.sectors')
def lines_of_128(bytes): return len({o//128 for b in bytes for o in (b, b+3)})


def offset(text, i, j, order):
    shape,stride = map(eval, text.split(':'))
    def one(c, n, d): return c*d if isinstance(n, int) else order(c, n, d)
    return one(i, shape[0], stride[0]) + one(j, shape[1], stride[1])

@wrong('memory.offset')
def calls_the_library(text, i, j): return Layout(text)(i, j)

@wrong('memory.offset')
def rightmost_first(text, i, j): return offset(text, i, j, lambda c, n, d: c//n[1]*d[0] + c%n[1]*d[1])

@wrong('memory.offset')
def first_of_a_pair_alone(text, i, j): return offset(text, i, j, lambda c, n, d: c*d[0])

@wrong('memory.offset')
def modes_swapped(text, i, j): return offset(text, j, i, lambda c, n, d: c%n[0]*d[0] + c//n[0]*d[1])

@wrong('memory.offset')
def never_divided(text, i, j): return offset(text, i, j, lambda c, n, d: c%n[0]*d[0] + c%n[1]*d[1])


@wrong('memory.tile')
def strides_of_the_tile(h, w, a, b): return f'(({a},{b}),{w//b}):(({b},1),{a*b})'

@wrong('memory.tile')
def by_columns(h, w, a, b): return f'(({a},{b}),{w//b}):((1,{w}),{b})'

@wrong('memory.tile')
def tiles_below_each_other(h, w, a, b): return f'(({a},{b}),{h//a}):(({w},1),{a*w})'

@wrong('memory.tile')
def three_modes(h, w, a, b): return f'({a},{b},{w//b}):({w},1,{b})'

@wrong('memory.tile')
def nothing_but_elements(h, w, a, b): return (a, b), w//b


@wrong('memory.swizzle')
def the_lessons_own(h, w): return 5, 0, 5

@wrong('memory.swizzle')
def the_row_instead_of_the_line(h, w): return (bits := w.bit_length()-1), 0, bits

@wrong('memory.swizzle')
def nothing_moves(h, w): return 0, 0, 0

@wrong('memory.swizzle')
def groups_of_four(h, w): return max(w.bit_length()-3, 0), 2, 5


def kernel(rows=33, fill=lambda r, c, h, w: r<h and c<w, write=lambda r, c, h, w: c<h and r<w, barrier=True):
    fill,write = map(cuda.jit(device=True), (fill, write))
    @cuda.jit
    def transpose_k(x, out):
        s = cuda.shared.array((32,rows), np.float32)
        tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
        c0,r0 = cuda.blockIdx.x*32,cuda.blockIdx.y*32
        for i in range(0, 32, 8):
            if fill(r0+tr+i, c0+tc, x.shape[0], x.shape[1]): s[tr+i, tc] = x[r0+tr+i, c0+tc]
        if barrier: cuda.syncthreads()
        for i in range(0, 32, 8):
            if write(c0+tr+i, r0+tc, x.shape[0], x.shape[1]): out[c0+tr+i, r0+tc] = s[tc, tr+i]
    return transpose_k

@wrong('memory.transpose')
def one_warp_of_eight():
    @cuda.jit
    def transpose_k(x, out):
        s = cuda.shared.array((32,33), np.float32)
        t,c0,r0 = cuda.threadIdx.x,cuda.blockIdx.x*32,cuda.blockIdx.y*32
        h,w = x.shape
        if cuda.threadIdx.y > 0: return
        for i in range(32):
            if r0+i < h and c0+t < w: s[i,t] = x[r0+i, c0+t]
        cuda.syncwarp()
        for i in range(32):
            if c0+i < w and r0+t < h: out[c0+i, r0+t] = s[t,i]
    return transpose_k

@wrong('memory.transpose')
def one_block_for_all_tiles():
    @cuda.jit
    def transpose_k(x, out):
        s = cuda.shared.array((32,33), np.float32)
        tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
        h,w = x.shape
        if cuda.blockIdx.x + cuda.blockIdx.y > 0: return
        for r0 in range(0, h, 32):
            for c0 in range(0, w, 32):
                for i in range(0, 32, 8):
                    if r0+tr+i < h and c0+tc < w: s[tr+i, tc] = x[r0+tr+i, c0+tc]
                cuda.syncthreads()
                for i in range(0, 32, 8):
                    if c0+tr+i < w and r0+tc < h: out[c0+tr+i, r0+tc] = s[tc, tr+i]
                cuda.syncthreads()
    return transpose_k

@wrong('memory.transpose')
def conflicts(): return kernel(rows=32)

@wrong('memory.transpose')
def no_wait(): return kernel(barrier=False)

@wrong('memory.transpose')
def the_first_guard_twice(): return kernel(write=lambda r, c, h, w: r<h and c<w)

@wrong('memory.transpose')
def no_guards(): return kernel(fill=lambda r, c, h, w: True)

def without_a_tile(turned):
    @cuda.jit
    def transpose_k(x, out):
        c,r0 = cuda.blockIdx.x*32 + cuda.threadIdx.x,cuda.blockIdx.y*32 + cuda.threadIdx.y
        for i in range(0, 32, 8):
            if r0+i < x.shape[0] and c < x.shape[1]:
                if turned: out[c, r0+i] = x[r0+i, c]
                else: out[r0+i, c] = x[r0+i, c]
    return transpose_k

@wrong('memory.transpose')
def straight_through(): return without_a_tile(turned=True)

@wrong('memory.transpose')
def not_transposed(): return without_a_tile(turned=False)

@wrong('memory.transpose')
def a_tile_only_where_it_fits():
    @cuda.jit
    def transpose_k(x, out):
        h,w = x.shape
        s = cuda.shared.array((32,33), np.float32)
        tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
        c0,r0 = cuda.blockIdx.x*32,cuda.blockIdx.y*32
        if h % 32 == 0 and w % 32 == 0:
            for i in range(0, 32, 8): s[tr+i, tc] = x[r0+tr+i, c0+tc]
            cuda.syncthreads()
            for i in range(0, 32, 8): out[c0+tr+i, r0+tc] = s[tc, tr+i]
        else:
            for i in range(0, 32, 8):
                if r0+tr+i < h and c0+tc < w: out[c0+tc, r0+tr+i] = x[r0+tr+i, c0+tc]
    return transpose_k
