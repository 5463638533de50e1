import math

import numpy as np
from gridstride.sim import cuda
from gridstride.bench.variants import changed

from . import wrong


@wrong('reductions.pair')
def the_left_of_equals(a, b): return a if a[0] >= b[0] or np.isnan(a[0]) else b

@wrong('reductions.pair')
def nan_is_nothing(a, b): return max(a, b, key=lambda o: (-np.inf if np.isnan(o[0]) else o[0], -o[1]))

@wrong('reductions.pair')
def the_last_of_equals(a, b): return max(a, b, key=lambda o: (np.isnan(o[0]), 0 if np.isnan(o[0]) else o[0], o[1]))

@wrong('reductions.pair')
def only_the_value(a, b): return max(a[0], b[0])


@wrong('reductions.moments')
def means_of_equal_weight(a, b):
    n = a[0] + b[0]
    return n, (a[1] + b[1])/2, a[2] + b[2] + (b[1] - a[1])**2*a[0]*b[0]/max(n, 1)

@wrong('reductions.moments')
def squares_from_two_middles(a, b): return (n := a[0] + b[0]), (a[0]*a[1] + b[0]*b[1])/max(n, 1), a[2] + b[2]

@wrong('reductions.moments')
def divides_by_zero_elements(a, b):
    n,d = a[0] + b[0],b[1] - a[1]
    return n, a[1] + d*b[0]/n, a[2] + b[2] + d*d*a[0]*b[0]/n

@wrong('reductions.moments')
def by_the_school_formula(a, b):
    n = a[0] + b[0]
    mean = (a[0]*a[1] + b[0]*b[1])/max(n, 1)
    return n, mean, a[2] + a[0]*a[1]**2 + b[2] + b[0]*b[1]**2 - n*mean**2

@wrong('reductions.moments')
def drops_what_an_empty_one_meets(a, b): return a if 0 in (a[0], b[0]) else divides_by_zero_elements(a, b)


@cuda.jit
def norm_k(x, out):
    lane,r = cuda.threadIdx.x % 32,cuda.grid(1)//32
    v = np.float32(0)
    if r < x.shape[0]:
        for c in range(lane, x.shape[1], 32): v += x[r,c]*x[r,c]
    d = 16
    while d > 0:
        v += cuda.shfl_down_sync(0xffffffff, v, d)
        d //= 2
    if lane == 0 and r < x.shape[0]: out[r] = math.sqrt(v)

@wrong('reductions.rows')
def one_lane_reads():
    return changed(norm_k, 'range(lane, x.shape[1], 32)', 'range(0 if lane == 0 else x.shape[1], x.shape[1])')

@wrong('reductions.rows')
def a_piece_per_lane():
    piece = 'range(lane*((x.shape[1]+31)//32), min((lane+1)*((x.shape[1]+31)//32), x.shape[1]))'
    return changed(norm_k, 'range(lane, x.shape[1], 32)', piece)

@wrong('reductions.rows')
def no_root(): return changed(norm_k, 'math.sqrt(v)', 'v')

@wrong('reductions.rows')
def sixteen_lanes(): return changed(norm_k, 'd = 16', 'd = 8')

@wrong('reductions.rows')
def shuffles_of_lanes_with_elements():
    shuffle = 'v += cuda.shfl_down_sync(0xffffffff, v, d)'
    return changed(norm_k, shuffle, f'if lane + d < x.shape[1]: {shuffle}')

@wrong('reductions.rows')
def one_warp_for_all_rows():
    @cuda.jit
    def norm_k(x, out):
        lane = cuda.grid(1)
        if lane < 32:
            for r in range(x.shape[0]):
                v = np.float32(0)
                for c in range(lane, x.shape[1], 32): v += x[r,c]*x[r,c]
                d = 16
                while d > 0:
                    v += cuda.shfl_down_sync(0xffffffff, v, d)
                    d //= 2
                if lane == 0: out[r] = math.sqrt(v)
    return norm_k

@wrong('reductions.rows')
def atomics():
    @cuda.jit
    def norm_k(x, out):
        lane,r = cuda.threadIdx.x % 32,cuda.grid(1)//32
        if r < x.shape[0]:
            if lane == 0: out[r] = 0
            cuda.syncwarp()
            for c in range(lane, x.shape[1], 32): cuda.atomic.add(out, r, x[r,c]*x[r,c])
            cuda.syncwarp()
            if lane == 0: out[r] = math.sqrt(out[r])
    return norm_k


@cuda.jit
def sum_k(x, parts, ticket, out):
    s = cuda.shared.array(64, np.float32)
    last = cuda.shared.array(1, np.int32)
    t,b = cuda.threadIdx.x,cuda.blockIdx.x
    v = np.float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)): v += x[i]
    s[t] = v
    d = 32
    while d > 0:
        cuda.syncthreads()
        if t < d: s[t] += s[t+d]
        d //= 2
    if t == 0:
        parts[b] = s[0]
        cuda.threadfence()  # of the writer
        last[0] = cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] == 1 and t == 0:
        cuda.threadfence()
        v = np.float32(0)
        for p in range(cuda.gridDim.x): v += parts[p]
        out[0] = v
        ticket[0] = 0

@wrong('reductions.last')
def no_fence(): return changed(sum_k, 'cuda.threadfence()  # of the writer', 'pass')

@wrong('reductions.last')
def ticket_not_ready_again(): return changed(sum_k, 'ticket[0] = 0', 'pass')

@wrong('reductions.last')
def one_ticket_too_early(): return changed(sum_k, 'cuda.gridDim.x - 1', 'cuda.gridDim.x - 2')

@wrong('reductions.last')
def no_barrier_in_the_tree(): return changed(sum_k, '        cuda.syncthreads()\n        if t < d', '        if t < d')

@wrong('reductions.last')
def no_more_than_64_parts(): return changed(sum_k, 'range(cuda.gridDim.x)', 'range(min(64, cuda.gridDim.x))')

@wrong('reductions.last')
def the_first_block(): return changed(sum_k, 'cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1', 'b == 0')

@wrong('reductions.last')
def floats_by_atomics():
    @cuda.jit
    def sum_k(x, parts, ticket, out):
        if cuda.grid(1) == 0: out[0] = 0
        cuda.syncthreads()
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)): cuda.atomic.add(out, 0, x[i])
    return sum_k

@wrong('reductions.last')
def the_first_block_does_all():
    return changed(sum_k, 'range(cuda.grid(1), x.size, cuda.gridsize(1))', 'range(t, x.size if b == 0 else 0, 64)')

@wrong('reductions.last')
def one_thread_without_a_ticket():
    @cuda.jit
    def sum_k(x, parts, ticket, out):
        if cuda.grid(1) == 0:
            v = np.float32(0)
            for i in range(x.size): v += x[i]
            out[0] = v
    return sum_k

@wrong('reductions.last')
def the_last_block_does_all():
    @cuda.jit
    def sum_k(x, parts, ticket, out):
        if cuda.threadIdx.x == 0 and cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1:
            v = np.float32(0)
            for i in range(x.size): v += x[i]
            out[0] = v
            ticket[0] = 0
    return sum_k


@cuda.jit
def keep_k(x, out, count):
    s = cuda.shared.array(128, np.int32)
    t = cuda.threadIdx.x
    keep = 1 if t < x.size and x[t] > 0 else 0
    s[t] = keep
    d = 1
    while d < 128:
        cuda.syncthreads()
        left = s[t-d] if t >= d else 0
        cuda.syncthreads()  # all have read
        s[t] += left
        d *= 2
    cuda.syncthreads()
    if keep: out[s[t] - 1] = x[t]
    if t == 127: count[0] = s[127]

@wrong('reductions.keep')
def one_element_too_far(): return changed(keep_k, 'out[s[t] - 1]', 'out[s[t]]')

@wrong('reductions.keep')
def no_wait_for_the_readers(): return changed(keep_k, 'cuda.syncthreads()  # all have read', 'pass')

@wrong('reductions.keep')
def all_are_written(): return changed(keep_k, 'if keep: out', 'if t < x.size and s[t] > 0: out')

@wrong('reductions.keep')
def zero_is_kept(): return changed(keep_k, 'x[t] > 0', 'x[t] >= 0')

@wrong('reductions.keep')
def counts_at_the_last_number(): return changed(keep_k, 't == 127: count[0] = s[127]', 't == x.size-1: count[0] = s[t]')

@wrong('reductions.keep')
def counts_the_last_flag(): return changed(keep_k, 'count[0] = s[127]', 'count[0] = keep')

@wrong('reductions.keep')
def flags_of_a_byte(): return changed(keep_k, 'np.int32', 'np.int8')

@wrong('reductions.keep')
def positions_by_atomics():
    @cuda.jit
    def keep_k(x, out, count):
        t = cuda.threadIdx.x
        if t == 0: count[0] = 0
        cuda.syncthreads()
        if t < x.size and x[t] > 0: out[cuda.atomic.add(count, 0, 1)] = x[t]
    return keep_k

@wrong('reductions.keep')
def a_thread_counts_all_before():
    @cuda.jit
    def keep_k(x, out, count):
        s = cuda.shared.array(128, np.int32)
        t = cuda.threadIdx.x
        keep = 1 if t < x.size and x[t] > 0 else 0
        s[t] = keep
        cuda.syncthreads()
        place = 0
        for i in range(t): place += s[i]
        if keep: out[place] = x[t]
        if t == 127: count[0] = place + keep
    return keep_k

@wrong('reductions.keep')
def a_thread_looks_at_all_before():
    @cuda.jit
    def keep_k(x, out, count):
        t = cuda.threadIdx.x
        place = 0
        for i in range(min(t, x.size)): place += x[i] > 0
        if t < x.size and x[t] > 0: out[place] = x[t]
        if t == 127: count[0] = place + (x.size > 127 and x[127] > 0)
    return keep_k

@wrong('reductions.keep')
def one_thread_scans():
    @cuda.jit
    def keep_k(x, out, count):
        s = cuda.shared.array(128, np.int32)
        t = cuda.threadIdx.x
        keep = 1 if t < x.size and x[t] > 0 else 0
        s[t] = keep
        cuda.syncthreads()
        if t == 0:
            n = 0
            for i in range(128):
                n += s[i]
                s[i] = n
        cuda.syncthreads()
        if keep: out[s[t] - 1] = x[t]
        if t == 127: count[0] = s[127]
    return keep_k
