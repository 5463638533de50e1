from gridstride.sim import cuda

from . import wrong


@wrong('first_kernel.invert')
def no_guard(i, x, out, n): out[i] = 1-x[i]

@wrong('first_kernel.invert')
def guard_one_too_far(i, x, out, n):
    if i <= n: out[i] = 1-x[i]

@wrong('first_kernel.invert')
def guard_one_short(i, x, out, n):
    if i < n-1: out[i] = 1-x[i]

@wrong('first_kernel.invert')
def minus(i, x, out, n):
    if i < n: out[i] = -x[i]

@wrong('first_kernel.invert')
def in_place(i, x, out, n):
    if i < n: x[i] = 1-x[i]

@wrong('first_kernel.invert')
def returns(i, x, out, n): return 1-x[i] if i < n else None


@wrong('first_kernel.flip')
def upside_down(i, x, out, h, w):
    if i < h*w:
        r,c = divmod(i, w)
        out[i] = x[(h-1-r)*w + c]

@wrong('first_kernel.flip')
def both_indices(i, x, out, h, w):
    if i < h*w:
        j = i//w*w + w-1 - i%w
        out[i],out[j] = x[j],x[i]

@wrong('first_kernel.flip')
def all_reversed(i, x, out, h, w):
    if i < h*w: out[i] = x[h*w-1-i]

@wrong('first_kernel.flip')
def off_by_one(i, x, out, h, w):
    if i < h*w:
        r,c = divmod(i, w)
        out[i] = x[r*w + (w-c) % w]

@wrong('first_kernel.flip')
def rows_for_columns(i, x, out, h, w):
    if i < h*w:
        r,c = divmod(i, h)
        out[i] = x[r*h + h-1-c]

@wrong('first_kernel.flip')
def no_guard_flip(i, x, out, h, w):
    r,c = divmod(i, w)
    out[i] = x[r*w + w-1-c]


@wrong('first_kernel.pixels')
def stays_planar(i, x, out, n):
    if i < n:
        for ch in range(3): out[i+ch*n] = x[i+ch*n]

@wrong('first_kernel.pixels')
def bgr(i, x, out, n):
    if i < n:
        for ch in range(3): out[3*i+ch] = x[i+(2-ch)*n]

@wrong('first_kernel.pixels')
def red_only(i, x, out, n):
    if i < n: out[3*i] = x[i]

@wrong('first_kernel.pixels')
def no_guard_pixels(i, x, out, n):
    for ch in range(3): out[3*i+ch] = x[i+ch*n]


@wrong('first_kernel.blur')
def wraps(i, x, out, h, w):
    if i < h*w: out[i] = (x[i-1]+x[i]+x[(i+1)%(h*w)])/3

@wrong('first_kernel.blur')
def over_row_ends(i, x, out, h, w):
    if i < h*w:
        out[i] = x[max(i-1,0):min(i+2,h*w)].mean()

@wrong('first_kernel.blur')
def always_three(i, x, out, h, w):
    if i < h*w:
        c,total = i%w,x[i]
        if c > 0: total = total+x[i-1]
        if c < w-1: total = total+x[i+1]
        out[i] = total/3

@wrong('first_kernel.blur')
def smears(i, x, out, h, w):
    if i < h*w:
        c,total,count = i%w,x[i],1
        if c > 0: total,count = total+out[i-1],count+1
        if c < w-1: total,count = total+x[i+1],count+1
        out[i] = total/count

@wrong('first_kernel.invert')
def all_in_thread_0(i, x, out, n):
    if i == 0:
        for j in range(n): out[j] = 1-x[j]

@wrong('first_kernel.invert')
def everyone_writes_all(i, x, out, n):
    for j in range(n): out[j] = 1-x[j]

@wrong('first_kernel.invert')
def wraps_around(i, x, out, n): out[i%n] = 1-x[i%n]

@wrong('first_kernel.flip')
def from_the_end(i, x, out, h, w):
    if i < h*w:
        r,c = divmod(i, w)
        out[i] = x[(r+1)*w-1-c - h*w]

@wrong('first_kernel.blur')
def reads_before_the_start(i, x, out, h, w):
    if i < h*w:
        c = i%w
        left,right = c > 0,c < w-1
        out[i] = (x[i-1]*left + x[i] + (x[i+1] if right else 0))/(1+left+right)

@wrong('first_kernel.invert')
def catches_out_of_bounds(i, x, out, n):
    try: out[i] = 1-x[i]
    except IndexError: pass

@wrong('first_kernel.invert')
def renames_out(i, x, out, n):
    if i < n: out = 1-x[i]  # noqa: F841

@wrong('first_kernel.invert')
def calls_memory(i, x, out, n):
    if i < n: out[i] = 1-x(i)

@wrong('first_kernel.flip')
def mirrors_the_whole_picture(i, x, out, h, w):
    if i < h*w: out[i] = x.reshape(h, w)[:,::-1].flatten()[i]

@wrong('first_kernel.flip')
def row_and_column_as_index(i, x, out, h, w):
    r,c = divmod(i, w)
    if i < h*w: out[r,c] = x[r,w-1-c]

@wrong('first_kernel.flip')
def row_with_a_remainder(i, x, out, h, w):
    if i < h*w: out[i] = x[i/w*w + w-1 - i%w]

@wrong('first_kernel.pixels')
def rotates_the_whole_picture(i, x, out, n):
    if i < n: out[3*i:3*i+3] = x.reshape(3, n).T[i]

@wrong('first_kernel.invert')
@cuda.jit
def kernel_of_cuda(x, out, n):
    i = cuda.grid(1)
    if i < n: out[i] = 1-x[i]
