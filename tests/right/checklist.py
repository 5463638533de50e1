import math
import numpy as np
import torch
from gridstride.sim import cuda
from . import right


@right('checklist.iterations')
def round_by_round(lengths):
    left,rounds = np.array(lengths),0
    while left.any():
        rounds += len(set((np.flatnonzero(left)//32).tolist()))
        left = np.maximum(left-1, 0)
    return rounds

@right('checklist.iterations')
def reduced(lengths): return np.maximum.reduceat(lengths, range(0, len(lengths), 32)).sum()

@right('checklist.iterations')
def padded_to_warps(lengths):
    all = lengths + [0]*(-len(lengths) % 32)
    return sum(map(max, zip(*[iter(all)]*32)))

@right('checklist.iterations')
def in_a_tensor(lengths):
    x = torch.tensor(lengths)
    return sum(o.max() for o in x.split(32))


@right('checklist.runs')
def run_by_run():
    @cuda.jit
    def runs_k(x, out, per):
        i = (cuda.blockIdx.x*cuda.blockDim.x + cuda.threadIdx.x)*per
        end = min(i + per, len(x))
        while i < end:
            j = i+1
            while j < end and x[j] == x[i]: j += 1
            cuda.atomic.add(out, x[i], j-i)
            i = j
    return runs_k

@right('checklist.runs')
def looks_ahead():
    @cuda.jit
    def runs_k(x, out, per):
        n,times = x.size,0
        for piece in range(cuda.grid(1), (n + per-1)//per, cuda.gridsize(1)):
            last = min(n, piece*per + per) - 1
            for i in range(piece*per, last+1):
                times += 1
                if i == last or x[i+1] != x[i]:
                    cuda.atomic.add(out, int(x[i]), times)
                    times = 0
    return runs_k

@right('checklist.runs')
def with_a_function():
    @cuda.jit(device=True)
    def put(out, what, times):
        if times > 0: cuda.atomic.add(out, what, times)
    @cuda.jit
    def runs_k(x, out, per):
        now,times = -1,0
        for j in range(per):
            i = cuda.grid(1)*per + j
            if i >= x.shape[0]: break
            if now == x[i]: times += 1
            else:
                put(out, now, times)
                now,times = np.int32(x[i]),1
        put(out, now, times)
    return runs_k

@right('checklist.runs')
def backwards():
    @cuda.jit
    def runs_k(x, out, per):
        first = cuda.grid(1)*per
        begin = np.int32(min(first + per, x.shape[0]))
        for i in range(begin-1, first-1, -1):
            if i == first or x[i-1] != x[i]:
                cuda.atomic.add(out, x[i], begin-i)
                begin = i
    return runs_k


@right('checklist.logsumexp')
def first_row_first():
    @cuda.jit
    def k(x, out):
        c = cuda.threadIdx.x + cuda.blockIdx.x*cuda.blockDim.x
        if c < out.size:
            m,s = x[0,c],1.
            for r in range(1, x.shape[0]):
                v = x[r][c]
                if v > m: s,m = s*math.exp(m-v) + 1,v
                else: s += math.exp(v-m)
            out[c] = m + math.log(s)
    return k

@right('checklist.logsumexp')
def two_at_a_time():
    @cuda.jit(device=True)
    def both(a, b): return max(a, b) + math.log1p(math.exp(-abs(a-b)))
    @cuda.jit
    def k(x, out):
        h,w = x.shape
        for c in range(cuda.grid(1), w, cuda.gridsize(1)):
            all = x[h-1,c]
            for r in range(h-2, -1, -1): all = both(all, x[r,c])
            out[c] = all
    return k

@right('checklist.logsumexp')
def with_a_while():
    @cuda.jit
    def k(x, out):
        c = cuda.grid(1)
        if c >= out.shape[0]: return
        m,s,r = -np.inf,0,0
        while r < len(x):
            v = np.float64(x[r, c])
            m,old = max(m, v),m
            s,r = s*np.exp(old-m) + np.exp(v-m),r+1
        out[c] = np.log(s) + m
    return k
