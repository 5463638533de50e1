import numpy as np

from gridstride.sim import cuda
from gridstride.utils import cdiv

from . import wrong


@wrong('threads_and_barriers.waits')
def one_each(k, tw): return cdiv(k,tw)

@wrong('threads_and_barriers.waits')
def rounds_down(k, tw): return 2*(k//tw)

@wrong('threads_and_barriers.waits')
def all_threads(k, tw): return 2*cdiv(k,tw)*tw*tw

@wrong('threads_and_barriers.waits')
def each_product(k, tw): return 2*k


@wrong('threads_and_barriers.reverse')
def no_wait(blockIdx, threadIdx, blockDim, shared, syncb, x):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    shared[t] = x[i]
    x[i] = shared[blockDim.x-1-t]

@wrong('threads_and_barriers.reverse')
def no_shared(blockIdx, threadIdx, blockDim, shared, syncb, x):
    t,first = threadIdx.x,blockIdx.x*blockDim.x
    syncb.wait()
    x[first+t] = x[first+blockDim.x-1-t]

@wrong('threads_and_barriers.reverse')
def block_forgotten(blockIdx, threadIdx, blockDim, shared, syncb, x):
    t = threadIdx.x
    shared[t] = x[t]
    syncb.wait()
    x[t] = shared[blockDim.x-1-t]

@wrong('threads_and_barriers.reverse')
def half_the_threads_wait(blockIdx, threadIdx, blockDim, shared, syncb, x):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    shared[t] = x[i]
    if t < blockDim.x//2: syncb.wait()
    x[i] = shared[blockDim.x-1-t]


def tree(t, blockDim, shared, wait, stop=0):
    half = blockDim.x//2
    while half > stop:
        wait()
        if t < half: shared[t] += shared[t+half]
        half //= 2

@wrong('threads_and_barriers.block_sum')
def no_waits(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    shared[t] = x[i] if i < n else 0.
    tree(t, blockDim, shared, lambda: None)
    if t == 0: out[blockIdx.x] = shared[0]

@wrong('threads_and_barriers.block_sum')
def wait_in_the_if(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    shared[t] = x[i] if i < n else 0.
    syncb.wait()
    half = blockDim.x//2
    while half:
        if t < half:
            shared[t] += shared[t+half]
            syncb.wait()
        half //= 2
    if t == 0: out[blockIdx.x] = shared[0]

@wrong('threads_and_barriers.block_sum')
def one_wait(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    shared[t] = x[i] if i < n else 0.
    syncb.wait()
    tree(t, blockDim, shared, lambda: None)
    if t == 0: out[blockIdx.x] = shared[0]

@wrong('threads_and_barriers.block_sum')
def no_padding(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    if i < n: shared[t] = x[i]
    tree(t, blockDim, shared, syncb.wait)
    if t == 0: out[blockIdx.x] = shared[0]

@wrong('threads_and_barriers.block_sum')
def early_return(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    if i >= n: return
    shared[t] = x[i]
    tree(t, blockDim, shared, syncb.wait)
    if t == 0: out[blockIdx.x] = shared[0]


@wrong('threads_and_barriers.scan')
def scan_without_second(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,d = threadIdx.x,1
    mine = shared[t] = x[t]
    while d < n:
        syncb.wait()
        if t >= d: mine = mine + shared[t-d]
        shared[t] = mine
        d *= 2
    out[t] = mine

@wrong('threads_and_barriers.scan')
def scan_without_first(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,d = threadIdx.x,1
    mine = shared[t] = x[t]
    while d < n:
        if t >= d: mine = mine + shared[t-d]
        syncb.wait()
        shared[t] = mine
        d *= 2
    out[t] = mine

@wrong('threads_and_barriers.scan')
def only_adders_wait(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,d = threadIdx.x,1
    mine = shared[t] = x[t]
    while d < n:
        if t >= d:
            syncb.wait()
            mine = mine + shared[t-d]
            syncb.wait()
            shared[t] = mine
        d *= 2
    out[t] = mine

@wrong('threads_and_barriers.scan')
def exclusive(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    syncb.wait()
    out[threadIdx.x] = x[:threadIdx.x].sum()

@wrong('threads_and_barriers.block_sum')
def all_add_to_out(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    if t == 0: out[blockIdx.x] = 0.
    syncb.wait()
    if i < n: out[blockIdx.x] += x[i]

@wrong('threads_and_barriers.scan')
def all_add_to_later_ones(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t = threadIdx.x
    shared[t] = 0.
    syncb.wait()
    for j in range(t, n): shared[j] += x[t]
    syncb.wait()
    out[t] = shared[t]

@wrong('threads_and_barriers.reverse')
def from_the_end(blockIdx, threadIdx, blockDim, shared, syncb, x):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    shared[t] = x[i]
    syncb.wait()
    x[i] = shared[-1-t]


@wrong('threads_and_barriers.block_max')
@cuda.jit
def max_without_barriers(x, out):
    s = cuda.shared.array(64, np.float32)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    s[t] = x[i] if i < x.size else -np.inf
    half = 32
    while half > 0:
        if t < half: s[t] = max(s[t], s[t+half])
        half //= 2
    if t == 0: out[cuda.blockIdx.x] = s[0]

@wrong('threads_and_barriers.block_max')
@cuda.jit
def max_with_zeros(x, out):
    s = cuda.shared.array(64, np.float32)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    s[t] = x[i] if i < x.size else 0.
    half = 32
    while half > 0:
        cuda.syncthreads()
        if t < half: s[t] = max(s[t], s[t+half])
        half //= 2
    if t == 0: out[cuda.blockIdx.x] = s[0]

@wrong('threads_and_barriers.block_max')
@cuda.jit
def max_barrier_in_the_if(x, out):
    s = cuda.shared.array(64, np.float32)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    s[t] = x[i] if i < x.size else -np.inf
    half = 32
    while half > 0:
        if t < half:
            cuda.syncthreads()
            s[t] = max(s[t], s[t+half])
        half //= 2
    if t == 0: out[cuda.blockIdx.x] = s[0]

@wrong('threads_and_barriers.block_max')
@cuda.jit
def max_no_guard(x, out):
    s = cuda.shared.array(64, np.float32)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    s[t] = x[i]
    half = 32
    while half > 0:
        cuda.syncthreads()
        if t < half: s[t] = max(s[t], s[t+half])
        half //= 2
    if t == 0: out[cuda.blockIdx.x] = s[0]

@wrong('threads_and_barriers.block_max')
def max_no_kernel(x, out): out[:] = x.max()

@wrong('threads_and_barriers.reverse')
def flips_the_bits(blockIdx, threadIdx, blockDim, shared, syncb, x):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    shared[t] = x[i]
    syncb.wait()
    x[i] = shared[t ^ (blockDim.x-1)]

@wrong('threads_and_barriers.block_sum')
def adds_in_x(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,i,half = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x,blockDim.x//2
    while half:
        syncb.wait()
        if t < half and i+half < n: x[i] += x[i+half]
        half //= 2
    if t == 0: out[blockIdx.x] = x[i]

@wrong('threads_and_barriers.scan')
def scans_in_x(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,d = threadIdx.x,1
    mine = x[t]
    while d < n:
        syncb.wait()
        if t >= d: mine = mine + x[t-d]
        syncb.wait()
        x[t] = mine
        d *= 2
    out[t] = mine

@wrong('threads_and_barriers.block_max')
@cuda.jit
def max_from_x0(x, out):
    s = cuda.shared.array(64, np.float32)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    s[t] = x[i] if i < x.size else x[0]
    half = 32
    while half > 0:
        cuda.syncthreads()
        if t < half: s[t] = max(s[t], s[t+half])
        half //= 2
    if t == 0: out[cuda.blockIdx.x] = s[0]

@wrong('threads_and_barriers.block_max')
@cuda.jit
def max_low_enough(x, out):
    s = cuda.shared.array(64, np.float32)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    s[t] = x[i] if i < x.size else -1e9
    half = 32
    while half > 0:
        cuda.syncthreads()
        if t < half: s[t] = max(s[t], s[t+half])
        half //= 2
    if t == 0: out[cuda.blockIdx.x] = s[0]

@wrong('threads_and_barriers.block_max')
@cuda.jit
def max_in_x(x, out):
    t,i,half = cuda.threadIdx.x,cuda.grid(1),32
    while half > 0:
        cuda.syncthreads()
        if t < half and i+half < x.size: x[i] = max(x[i], x[i+half])
        half //= 2
    if t == 0: out[cuda.blockIdx.x] = x[i]

@wrong('threads_and_barriers.reverse')
def thread_0_reverses(blockIdx, threadIdx, blockDim, shared, syncb, x):
    first = blockIdx.x*blockDim.x
    if threadIdx.x == 0: x[first:first+blockDim.x] = x[first:first+blockDim.x].a[::-1].copy()

@wrong('threads_and_barriers.reverse')
def calls_the_barrier(blockIdx, threadIdx, blockDim, shared, syncb, x):
    t,i = threadIdx.x,blockIdx.x*blockDim.x + threadIdx.x
    shared[t] = x[i]
    syncb()
    x[i] = shared[blockDim.x-1-t]

@wrong('threads_and_barriers.scan')
def each_adds_up_its_own(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t = threadIdx.x
    shared[t] = x[t]
    syncb.wait()
    out[t] = shared[:t+1].sum()

@wrong('threads_and_barriers.scan')
def thread_0_adds_up(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    if threadIdx.x: return
    total = 0.
    for i in range(n):
        total += x[i]
        out[i] = total

@wrong('threads_and_barriers.block_max')
@cuda.jit
def index_without_cuda(x, out): out[blockIdx.x] = x[threadIdx.x]  # noqa: F821
