from gridstride.utils import cdiv, dim3

from . import wrong


def rc(blockIdx, threadIdx, blockDim): return blockIdx.y*blockDim.y + threadIdx.y, blockIdx.x*blockDim.x + threadIdx.x


@wrong('blocks_and_threads.grid')
def swapped(h, w, threads): return dim3(cdiv(h,threads.y), cdiv(w,threads.x))

@wrong('blocks_and_threads.grid')
def rounds_down(h, w, threads): return dim3(w//threads.x, h//threads.y)

@wrong('blocks_and_threads.grid')
def one_too_many(h, w, threads): return dim3(w//threads.x+1, h//threads.y+1)

@wrong('blocks_and_threads.grid')
def forgot_return(h, w, threads): dim3(cdiv(w,threads.x), cdiv(h,threads.y))


@wrong('blocks_and_threads.transpose')
def copies(blockIdx, threadIdx, blockDim, x, out, h, w):
    r,c = rc(blockIdx, threadIdx, blockDim)
    if r < h and c < w: out[r*w+c] = x[r*w+c]

@wrong('blocks_and_threads.transpose')
def wrong_length(blockIdx, threadIdx, blockDim, x, out, h, w):
    r,c = rc(blockIdx, threadIdx, blockDim)
    if r < h and c < w: out[(c*w+r) % (h*w)] = x[r*w+c]

@wrong('blocks_and_threads.transpose')
def x_for_rows(blockIdx, threadIdx, blockDim, x, out, h, w):
    c,r = rc(blockIdx, threadIdx, blockDim)
    if r < h and c < w: out[c*h+r] = x[r*w+c]

@wrong('blocks_and_threads.transpose')
def half_guard(blockIdx, threadIdx, blockDim, x, out, h, w):
    r,c = rc(blockIdx, threadIdx, blockDim)
    if r < h: out[c*h+r] = x[r*w+c]


@wrong('blocks_and_threads.row_max')
def from_zero(blockIdx, threadIdx, blockDim, x, out, h, w):
    r = blockIdx.x*blockDim.x + threadIdx.x
    if r < h: out[r] = max([0.]+x[r*w:(r+1)*w].tolist())

@wrong('blocks_and_threads.row_max')
def no_guard(blockIdx, threadIdx, blockDim, x, out, h, w):
    r = blockIdx.x*blockDim.x + threadIdx.x
    out[r] = x[r*w:(r+1)*w].max()

@wrong('blocks_and_threads.row_max')
def column_max(blockIdx, threadIdx, blockDim, x, out, h, w):
    r = blockIdx.x*blockDim.x + threadIdx.x
    if r < h: out[r] = x[r::h].max()

@wrong('blocks_and_threads.row_max')
def first_block_only(blockIdx, threadIdx, blockDim, x, out, h, w):
    r = threadIdx.x
    if r < h: out[r] = x[r*w:(r+1)*w].max()

@wrong('blocks_and_threads.row_max')
def last_column_missed(blockIdx, threadIdx, blockDim, x, out, h, w):
    r = blockIdx.x*blockDim.x + threadIdx.x
    if r < h: out[r] = x[r*w:(r+1)*w-1].max() if w > 1 else x[r]


@wrong('blocks_and_threads.matmul_nt')
def not_transposed(blockIdx, threadIdx, blockDim, m, n, out, h, w, k):
    r,c = rc(blockIdx, threadIdx, blockDim)
    if r < h and c < w: out[r*w+c] = sum(m[r*k+i]*n[i*w+c] for i in range(k))

@wrong('blocks_and_threads.matmul_nt')
def forgets_to_add(blockIdx, threadIdx, blockDim, m, n, out, h, w, k):
    r,c = rc(blockIdx, threadIdx, blockDim)
    if r < h and c < w:
        for i in range(k): out[r*w+c] = m[r*k+i]*n[c*k+i]

@wrong('blocks_and_threads.matmul_nt')
def adds_to_what_was_there(blockIdx, threadIdx, blockDim, m, n, out, h, w, k):
    r,c = rc(blockIdx, threadIdx, blockDim)
    if r < h and c < w:
        for i in range(k): out[r*w+c] += m[r*k+i]*n[c*k+i]

@wrong('blocks_and_threads.matmul_nt')
def one_short(blockIdx, threadIdx, blockDim, m, n, out, h, w, k):
    r,c = rc(blockIdx, threadIdx, blockDim)
    if r < h and c < w: out[r*w+c] = sum(m[r*k+i]*n[c*k+i] for i in range(k-1)) if k > 1 else m[r]*n[c]


@wrong('blocks_and_threads.grid_stride')
def one_each(blockIdx, threadIdx, blockDim, gridDim, x, out, n):
    i = blockIdx.x*blockDim.x + threadIdx.x
    if i < n: out[i] = 2*x[i]

@wrong('blocks_and_threads.grid_stride')
def block_stride(blockIdx, threadIdx, blockDim, gridDim, x, out, n):
    for i in range(blockIdx.x*blockDim.x + threadIdx.x, n, blockDim.x): out[i] = 2*x[i]

@wrong('blocks_and_threads.grid_stride')
def everyone_does_all(blockIdx, threadIdx, blockDim, gridDim, x, out, n):
    for i in range(n): out[i] = 2*x[i]

@wrong('blocks_and_threads.grid_stride')
def blocks_as_stride(blockIdx, threadIdx, blockDim, gridDim, x, out, n):
    for i in range(blockIdx.x*blockDim.x + threadIdx.x, n, gridDim.x): out[i] = 2*x[i]

@wrong('blocks_and_threads.grid_stride')
def chunks(blockIdx, threadIdx, blockDim, gridDim, x, out, n):
    total = gridDim.x*blockDim.x
    first,each = blockIdx.x*blockDim.x + threadIdx.x,cdiv(n,total)
    for i in range(first*each, min(n,(first+1)*each)): out[i] = 2*x[i]

@wrong('blocks_and_threads.grid_stride')
def thread_0_does_all(blockIdx, threadIdx, blockDim, gridDim, x, out, n):
    if blockIdx.x+threadIdx.x == 0:
        for i in range(n): out[i] = 2*x[i]

@wrong('blocks_and_threads.row_max')
def sorts_the_input(blockIdx, threadIdx, blockDim, x, out, h, w):
    r = blockIdx.x*blockDim.x + threadIdx.x
    if r < h:
        for c in range(1,w): x[r*w] = max(x[r*w], x[r*w+c])
        out[r] = x[r*w]

@wrong('blocks_and_threads.matmul_nt')
def wraps_instead_of_guarding(blockIdx, threadIdx, blockDim, m, n, out, h, w, k):
    r,c = rc(blockIdx, threadIdx, blockDim)
    r,c = r%h,c%w
    out[r*w+c] = sum(m[r*k+i]*n[c*k+i] for i in range(k))

@wrong('blocks_and_threads.row_max')
def low_enough_to_start(blockIdx, threadIdx, blockDim, x, out, h, w):
    r = blockIdx.x*blockDim.x + threadIdx.x
    if r >= h: return
    best = -1e9
    for c in range(w): best = max(best, x[r*w + c])
    out[r] = best

@wrong('blocks_and_threads.row_max')
def maxima_of_all_rows(blockIdx, threadIdx, blockDim, x, out, h, w):
    r = blockIdx.x*blockDim.x + threadIdx.x
    if r < h: out[r] = x.reshape(h, w).max(1)[r]

@wrong('blocks_and_threads.matmul_nt')
def whole_product(blockIdx, threadIdx, blockDim, m, n, out, h, w, k):
    r,c = rc(blockIdx, threadIdx, blockDim)
    if r < h and c < w: out[r*w+c] = (m.reshape(h, k) @ n.reshape(w, k).T)[r,c]

@wrong('blocks_and_threads.matmul_nt')
def two_brackets(blockIdx, threadIdx, blockDim, m, n, out, h, w, k):
    r,c = rc(blockIdx, threadIdx, blockDim)
    if r < h and c < w: out[r*w+c] = sum(m[r][i]*n[c][i] for i in range(k))

@wrong('blocks_and_threads.transpose')
def whole_dim3(blockIdx, threadIdx, blockDim, x, out, h, w):
    i = blockIdx*blockDim + threadIdx
    if i < h*w: out[i%w*h + i//w] = x[i]
