import numpy as np
from gridstride.sim import cuda
from gridstride.bench.variants import changed

from . import wrong


@wrong('scan_sort_select.order')
def only_the_sign(bits): return bits ^ np.uint32(1 << 31)

@wrong('scan_sort_select.order')
def two_zeros(bits): return np.where(bits >> 31 == 1, ~bits, bits | np.uint32(1 << 31))

@wrong('scan_sort_select.order')
def nan_of_both_signs(bits): return np.where(bits >> 31 == 1, np.uint32(0) - bits, bits | np.uint32(1 << 31))

@wrong('scan_sort_select.order')
def as_signed(bits): return nan_of_both_signs(bits).astype(np.int64)


@wrong('scan_sort_select.diagonal')
def from_left_to_right(a, b, d):
    i = j = 0
    while i + j < d:
        if j == len(b) or i < len(a) and a[i] <= b[j]: i += 1
        else: j += 1
    return i

def binary_search(a, b, d):
    low,high = max(0, d - len(b)),min(d, len(a))
    while low < high:
        i = (low + high)//2
        if a[i] <= b[d - 1 - i]: low = i + 1
        else: high = i
    return low

@wrong('scan_sort_select.diagonal')
def b_first(a, b, d): return changed(binary_search, '<=', '<')(a, b, d)

@wrong('scan_sort_select.diagonal')
def in_all_of_a(a, b, d): return changed(binary_search, 'max(0, d - len(b)),min(d, len(a))', '0,len(a)')(a, b, d)

@wrong('scan_sort_select.diagonal')
def one_too_far(a, b, d): return changed(binary_search, 'b[d - 1 - i]', 'b[d - i]')(a, b, d)


@cuda.jit
def partition_k(x, out):
    s = cuda.shared.array(128, np.int32)
    t = cuda.threadIdx.x
    s[t] = 1 if t < x.size and x[t] % 2 == 0 else 0
    even = s[t]
    d = 1
    while d < 128:
        cuda.syncthreads()
        left = s[t-d] if t >= d else 0
        cuda.syncthreads()
        s[t] += left
        d *= 2
    cuda.syncthreads()
    if t < x.size:
        if even == 1: out[s[t] - 1] = x[t]
        else: out[s[127] + t - s[t]] = x[t]

@wrong('scan_sort_select.partition')
def odd_ones_overwrite(): return changed(partition_k, 's[127] + t - s[t]', 't - s[t]')

@wrong('scan_sort_select.partition')
def no_barrier():
    return changed(partition_k, '        cuda.syncthreads()\n        s[t] += left', '        s[t] += left')

@wrong('scan_sort_select.partition')
def past_the_end(): return changed(partition_k, 'if t < x.size:\n', 'if True:\n')

@wrong('scan_sort_select.partition')
def by_atomics():
    @cuda.jit
    def k(x, out):
        c = cuda.shared.array(2, np.int32)
        t = cuda.threadIdx.x
        if t < 2: c[t] = 0
        cuda.syncthreads()
        if t < x.size and x[t] % 2 == 0: cuda.atomic.add(c, 1, 1)
        cuda.syncthreads()
        if t < x.size:
            if x[t] % 2 == 0: out[cuda.atomic.add(c, 0, 1)] = x[t]
            else: out[cuda.atomic.add(c, 1, 1)] = x[t]
    return k

@wrong('scan_sort_select.partition')
def one_thread_counts():
    @cuda.jit
    def k(x, out):
        t = cuda.threadIdx.x
        if t < x.size:
            to = 0
            for i in range(x.size):
                if x[t] % 2 == 0 and x[i] % 2 == 0 and i < t: to += 1
                if x[t] % 2 == 1 and (x[i] % 2 == 0 or i < t): to += 1
            out[to] = x[t]
    return k
