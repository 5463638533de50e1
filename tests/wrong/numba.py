import numpy as np

from gridstride.sim import cuda

from . import wrong


@wrong('numba.grey')
@cuda.jit
def cut_off(x, out):
    c,r = cuda.grid(2)
    if r < out.shape[0] and c < out.shape[1]:
        out[r,c] = np.float32(0.2989)*x[r,c,0] + np.float32(0.5870)*x[r,c,1] + np.float32(0.1140)*x[r,c,2]

@wrong('numba.grey')
@cuda.jit
def no_guard(x, out):
    c,r = cuda.grid(2)
    out[r,c] = np.float32(0.2989)*x[r,c,0] + np.float32(0.5870)*x[r,c,1] + np.float32(0.1140)*x[r,c,2] + np.float32(0.5)

@wrong('numba.grey')
@cuda.jit
def rows_and_columns_swapped(x, out):
    r,c = cuda.grid(2)
    if r < out.shape[0] and c < out.shape[1]:
        out[r,c] = (np.float32(0.2989)*x[r,c,0] + np.float32(0.5870)*x[r,c,1] + np.float32(0.1140)*x[r,c,2]
                    + np.float32(0.5))

@wrong('numba.grey')
@cuda.jit
def blue_first(x, out):
    c,r = cuda.grid(2)
    if r < out.shape[0] and c < out.shape[1]:
        out[r,c] = (np.float32(0.2989)*x[r,c,2] + np.float32(0.5870)*x[r,c,1] + np.float32(0.1140)*x[r,c,0]
                    + np.float32(0.5))

@wrong('numba.grey')
@cuda.jit
def planes(x, out):
    c,r = cuda.grid(2)
    if r < out.shape[0] and c < out.shape[1]:
        out[r,c] = (np.float32(0.2989)*x[0,r,c] + np.float32(0.5870)*x[1,r,c] + np.float32(0.1140)*x[2,r,c]
                    + np.float32(0.5))

@wrong('numba.grey')
@cuda.jit
def first_block_only(x, out):
    r,c = cuda.threadIdx.y,cuda.threadIdx.x
    if r < out.shape[0] and c < out.shape[1]:
        out[r,c] = (np.float32(0.2989)*x[r,c,0] + np.float32(0.5870)*x[r,c,1] + np.float32(0.1140)*x[r,c,2]
                    + np.float32(0.5))

@wrong('numba.grey')
def a_plain_function(x, out):
    for r in range(out.shape[0]):
        for c in range(out.shape[1]): out[r,c] = 0.2989*x[r,c,0] + 0.5870*x[r,c,1] + 0.1140*x[r,c,2] + 0.5


@wrong('numba.float32')
@cuda.jit
def as_it_was(x, y, out):
    r = cuda.grid(1)
    if r < out.size:
        total = 0.
        for c in range(x.shape[1]): total += abs(x[r,c])*0.1
        out[r] = total/x.shape[1] + y[r]/3

@wrong('numba.float32')
@cuda.jit
def wide_sum(x, y, out):
    r = cuda.grid(1)
    if r < out.size:
        total = 0.
        for c in range(x.shape[1]): total += abs(x[r,c])*np.float32(0.1)
        out[r] = np.float32(total)/np.float32(x.shape[1]) + y[r]/np.float32(3)

@wrong('numba.float32')
@cuda.jit
def wide_factor(x, y, out):
    r = cuda.grid(1)
    if r < out.size:
        total = np.float32(0)
        for c in range(x.shape[1]): total = np.float32(total + abs(x[r,c])*0.1)
        out[r] = total/np.float32(x.shape[1]) + y[r]/np.float32(3)

@wrong('numba.float32')
@cuda.jit
def wide_division(x, y, out):
    r = cuda.grid(1)
    if r < out.size:
        total = np.float32(0)
        for c in range(x.shape[1]): total += abs(x[r,c])*np.float32(0.1)
        out[r] = total/x.shape[1] + y[r]/np.float32(3)

@wrong('numba.float32')
@cuda.jit
def rounded_after_a_wide_division(x, y, out):
    r = cuda.grid(1)
    if r < out.size:
        total = np.float32(0)
        for c in range(x.shape[1]): total += abs(x[r,c])*np.float32(0.1)
        out[r] = np.float32(total/x.shape[1]) + y[r]/np.float32(3)

@wrong('numba.float32')
@cuda.jit
def factor_at_the_end(x, y, out):
    r = cuda.grid(1)
    if r < out.size:
        total = np.float32(0)
        for c in range(x.shape[1]): total += abs(x[r,c])
        out[r] = total*np.float32(0.1)/np.float32(x.shape[1]) + y[r]/np.float32(3)

@wrong('numba.float32')
@cuda.jit
def without_abs(x, y, out):
    r = cuda.grid(1)
    if r < out.size:
        total = np.float32(0)
        for c in range(x.shape[1]): total += x[r,c]*np.float32(0.1)
        out[r] = total/np.float32(x.shape[1]) + y[r]/np.float32(3)


@wrong('numba.box')
@cuda.jit
def straight_from_global(x, out):
    c,r = cuda.grid(2)
    h,w = x.shape
    if r < h and c < w:
        o = np.float32(0)
        for i in range(-1, 2):
            for j in range(-1, 2):
                if r+i >= 0 and r+i < h and c+j >= 0 and c+j < w: o += x[r+i,c+j]
        out[r,c] = o/np.float32(9)

@wrong('numba.box')
@cuda.jit
def no_wait(x, out):
    s = cuda.shared.array((18,18), np.float32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    r0,c0 = cuda.blockIdx.y*16,cuda.blockIdx.x*16
    h,w = x.shape
    for i in range(tr, 18, 16):
        for j in range(tc, 18, 16):
            r,c = r0 + i - 1, c0 + j - 1
            s[i,j] = x[r,c] if r >= 0 and r < h and c >= 0 and c < w else np.float32(0)
    if r0+tr < h and c0+tc < w:
        o = np.float32(0)
        for i in range(3):
            for j in range(3): o += s[tr+i,tc+j]
        out[r0+tr,c0+tc] = o/np.float32(9)

@wrong('numba.box')
@cuda.jit
def rim_without_corners(x, out):
    s = cuda.shared.array((18,18), np.float32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    r0,c0 = cuda.blockIdx.y*16,cuda.blockIdx.x*16
    h,w = x.shape
    for i in range(tr, 18, 16):
        r,c = r0 + i - 1, c0 + tc
        s[i,tc+1] = x[r,c] if r >= 0 and r < h and c < w else np.float32(0)
    for j in range(tc, 18, 16):
        r,c = r0 + tr, c0 + j - 1
        if j == 0 or j == 17: s[tr+1,j] = x[r,c] if r < h and c >= 0 and c < w else np.float32(0)
    cuda.syncthreads()
    if r0+tr < h and c0+tc < w:
        o = np.float32(0)
        for i in range(3):
            for j in range(3): o += s[tr+i,tc+j]
        out[r0+tr,c0+tc] = o/np.float32(9)

@wrong('numba.box')
@cuda.jit
def nothing_outside(x, out):
    s = cuda.shared.array((18,18), np.float32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    r0,c0 = cuda.blockIdx.y*16,cuda.blockIdx.x*16
    h,w = x.shape
    for i in range(tr, 18, 16):
        for j in range(tc, 18, 16):
            r,c = r0 + i - 1, c0 + j - 1
            if r >= 0 and r < h and c >= 0 and c < w: s[i,j] = x[r,c]
    cuda.syncthreads()
    if r0+tr < h and c0+tc < w:
        o = np.float32(0)
        for i in range(3):
            for j in range(3): o += s[tr+i,tc+j]
        out[r0+tr,c0+tc] = o/np.float32(9)

@wrong('numba.box')
@cuda.jit
def leaves_before_the_wait(x, out):
    s = cuda.shared.array((18,18), np.float32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    r0,c0 = cuda.blockIdx.y*16,cuda.blockIdx.x*16
    h,w = x.shape
    if r0+tr >= h or c0+tc >= w: return
    for i in range(tr, 18, 16):
        for j in range(tc, 18, 16):
            r,c = r0 + i - 1, c0 + j - 1
            s[i,j] = x[r,c] if r >= 0 and r < h and c >= 0 and c < w else np.float32(0)
    cuda.syncthreads()
    o = np.float32(0)
    for i in range(3):
        for j in range(3): o += s[tr+i,tc+j]
    out[r0+tr,c0+tc] = o/np.float32(9)

@wrong('numba.box')
@cuda.jit
def index_wraps(x, out):
    s = cuda.shared.array((18,18), np.float32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    r0,c0 = cuda.blockIdx.y*16,cuda.blockIdx.x*16
    h,w = x.shape
    for i in range(tr, 18, 16):
        for j in range(tc, 18, 16):
            r,c = r0 + i - 1, c0 + j - 1
            s[i,j] = x[r,c] if r < h and c < w else np.float32(0)
    cuda.syncthreads()
    if r0+tr < h and c0+tc < w:
        o = np.float32(0)
        for i in range(3):
            for j in range(3): o += s[tr+i,tc+j]
        out[r0+tr,c0+tc] = o/np.float32(9)

@wrong('numba.box')
@cuda.jit
def plus_instead_of_square(x, out):
    s = cuda.shared.array((18,18), np.float32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    r0,c0 = cuda.blockIdx.y*16,cuda.blockIdx.x*16
    h,w = x.shape
    for i in range(tr, 18, 16):
        for j in range(tc, 18, 16):
            r,c = r0 + i - 1, c0 + j - 1
            s[i,j] = x[r,c] if r >= 0 and r < h and c >= 0 and c < w else np.float32(0)
    cuda.syncthreads()
    if r0+tr < h and c0+tc < w:
        out[r0+tr,c0+tc] = (s[tr,tc+1] + s[tr+1,tc] + s[tr+1,tc+1] + s[tr+1,tc+2] + s[tr+2,tc+1])/np.float32(9)

@wrong('numba.box')
@cuda.jit
def rim_from_global(x, out):
    s = cuda.shared.array((16,16), np.float32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    r0,c0 = cuda.blockIdx.y*16,cuda.blockIdx.x*16
    h,w = x.shape
    s[tr,tc] = x[r0+tr,c0+tc] if r0+tr < h and c0+tc < w else np.float32(0)
    cuda.syncthreads()
    if r0+tr < h and c0+tc < w:
        o = np.float32(0)
        for i in range(tr-1, tr+2):
            for j in range(tc-1, tc+2):
                if i >= 0 and i < 16 and j >= 0 and j < 16: o += s[i,j]
                elif r0+i >= 0 and r0+i < h and c0+j >= 0 and c0+j < w: o += x[r0+i,c0+j]
        out[r0+tr,c0+tc] = o/np.float32(9)


@wrong('numba.histogram')
@cuda.jit
def all_in_global(x, out):
    h,w = x.shape
    c0,r0 = cuda.grid(2)
    for r in range(r0, h, cuda.gridDim.y*cuda.blockDim.y):
        for c in range(c0, w, cuda.gridDim.x*cuda.blockDim.x): cuda.atomic.add(out, x[r,c], 1)

@wrong('numba.histogram')
@cuda.jit
def not_cleared(x, out):
    s = cuda.shared.array(256, np.int32)
    i = cuda.threadIdx.y*16 + cuda.threadIdx.x
    h,w = x.shape
    c0,r0 = cuda.grid(2)
    for r in range(r0, h, cuda.gridDim.y*cuda.blockDim.y):
        for c in range(c0, w, cuda.gridDim.x*cuda.blockDim.x): cuda.atomic.add(s, x[r,c], 1)
    cuda.syncthreads()
    cuda.atomic.add(out, i, s[i])

@wrong('numba.histogram')
@cuda.jit
def counts_before_all_is_cleared(x, out):
    s = cuda.shared.array(256, np.int32)
    i = cuda.threadIdx.y*16 + cuda.threadIdx.x
    s[i] = 0
    h,w = x.shape
    c0,r0 = cuda.grid(2)
    for r in range(r0, h, cuda.gridDim.y*cuda.blockDim.y):
        for c in range(c0, w, cuda.gridDim.x*cuda.blockDim.x): cuda.atomic.add(s, x[r,c], 1)
    cuda.syncthreads()
    cuda.atomic.add(out, i, s[i])

@wrong('numba.histogram')
@cuda.jit
def adds_before_all_have_counted(x, out):
    s = cuda.shared.array(256, np.int32)
    i = cuda.threadIdx.y*16 + cuda.threadIdx.x
    s[i] = 0
    cuda.syncthreads()
    h,w = x.shape
    c0,r0 = cuda.grid(2)
    for r in range(r0, h, cuda.gridDim.y*cuda.blockDim.y):
        for c in range(c0, w, cuda.gridDim.x*cuda.blockDim.x): cuda.atomic.add(s, x[r,c], 1)
    cuda.atomic.add(out, i, s[i])

@wrong('numba.histogram')
@cuda.jit
def adds_without_atomics(x, out):
    s = cuda.shared.array(256, np.int32)
    i = cuda.threadIdx.y*16 + cuda.threadIdx.x
    s[i] = 0
    cuda.syncthreads()
    h,w = x.shape
    c0,r0 = cuda.grid(2)
    for r in range(r0, h, cuda.gridDim.y*cuda.blockDim.y):
        for c in range(c0, w, cuda.gridDim.x*cuda.blockDim.x): s[x[r,c]] += 1
    cuda.syncthreads()
    cuda.atomic.add(out, i, s[i])

@wrong('numba.histogram')
@cuda.jit
def blocks_overwrite_each_other(x, out):
    s = cuda.shared.array(256, np.int32)
    i = cuda.threadIdx.y*16 + cuda.threadIdx.x
    s[i] = 0
    cuda.syncthreads()
    h,w = x.shape
    c0,r0 = cuda.grid(2)
    for r in range(r0, h, cuda.gridDim.y*cuda.blockDim.y):
        for c in range(c0, w, cuda.gridDim.x*cuda.blockDim.x): cuda.atomic.add(s, x[r,c], 1)
    cuda.syncthreads()
    out[i] = s[i]

@wrong('numba.histogram')
@cuda.jit
def one_pixel_each(x, out):
    s = cuda.shared.array(256, np.int32)
    i = cuda.threadIdx.y*16 + cuda.threadIdx.x
    s[i] = 0
    cuda.syncthreads()
    c,r = cuda.grid(2)
    if r < x.shape[0] and c < x.shape[1]: cuda.atomic.add(s, x[r,c], 1)
    cuda.syncthreads()
    cuda.atomic.add(out, i, s[i])

@wrong('numba.histogram')
@cuda.jit
def all_but_the_last_count(x, out):
    s = cuda.shared.array(256, np.int32)
    i = cuda.threadIdx.y*16 + cuda.threadIdx.x
    s[i] = 0
    cuda.syncthreads()
    h,w = x.shape
    c0,r0 = cuda.grid(2)
    for r in range(r0, h, cuda.gridDim.y*cuda.blockDim.y):
        for c in range(c0, w, cuda.gridDim.x*cuda.blockDim.x): cuda.atomic.add(s, x[r,c], 1)
    cuda.syncthreads()
    if i < 255: cuda.atomic.add(out, i, s[i])

@wrong('numba.grey')
@cuda.jit
def every_thread_the_whole_picture(x, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]): out[i,j] = 0.2989*x[i,j,0] + 0.5870*x[i,j,1] + 0.1140*x[i,j,2] + 0.5

@wrong('numba.grey')
@cuda.jit
def one_thread_for_the_picture(x, out):
    c,r = cuda.grid(2)
    if r == 0 and c == 0:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]): out[i,j] = 0.2989*x[i,j,0] + 0.5870*x[i,j,1] + 0.1140*x[i,j,2] + 0.5

@wrong('numba.float32')
@cuda.jit
def one_thread_for_all_rows(x, y, out):
    if cuda.grid(1) == 0:
        for r in range(out.size):
            total = np.float32(0)
            for c in range(x.shape[1]): total += abs(x[r,c])*np.float32(0.1)
            out[r] = total/np.float32(x.shape[1]) + y[r]/np.float32(3)

@wrong('numba.box')
@cuda.jit
def first_warp_brings_the_tile(x, out):
    s = cuda.shared.array((18,18), np.float32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    r0,c0 = cuda.blockIdx.y*16 - 1,cuda.blockIdx.x*16 - 1
    h,w = x.shape
    if tr < 2:
        for i in range(tr*16 + tc, 324, 32):
            r,c = r0 + i//18,c0 + i%18
            s[i//18,i%18] = x[r,c] if r >= 0 and r < h and c >= 0 and c < w else 0.
    cuda.syncthreads()
    c,r = cuda.grid(2)
    if r < h and c < w:
        o = np.float32(0)
        for i in range(3):
            for j in range(3): o += s[tr+i,tc+j]
        out[r,c] = o/9

@wrong('numba.histogram')
@cuda.jit
def first_block_counts_all(x, out):
    s = cuda.shared.array(256, np.int32)
    i = cuda.threadIdx.y*16 + cuda.threadIdx.x
    if cuda.blockIdx.x or cuda.blockIdx.y: return
    s[i] = 0
    cuda.syncthreads()
    for r in range(cuda.threadIdx.y, x.shape[0], 16):
        for c in range(cuda.threadIdx.x, x.shape[1], 16): cuda.atomic.add(s, x[r,c], 1)
    cuda.syncthreads()
    cuda.atomic.add(out, i, s[i])

@wrong('numba.histogram')
@cuda.jit
def first_threads_add_all(x, out):
    s = cuda.shared.array(256, np.int32)
    i = cuda.threadIdx.y*16 + cuda.threadIdx.x
    s[i] = 0
    cuda.syncthreads()
    c0,r0 = cuda.grid(2)
    for r in range(r0, x.shape[0], cuda.gridDim.y*16):
        for c in range(c0, x.shape[1], cuda.gridDim.x*16): cuda.atomic.add(s, x[r,c], 1)
    cuda.syncthreads()
    if i == 0:
        for j in range(256): cuda.atomic.add(out, j, s[j])

@wrong('numba.grey')
@cuda.jit
def and_of_bits(x, out):
    c,r = cuda.grid(2)
    if r < out.shape[0] & c < out.shape[1]:
        out[r,c] = 0.2989*x[r,c,0] + 0.5870*x[r,c,1] + 0.1140*x[r,c,2] + 0.5
