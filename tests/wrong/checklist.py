import math
import numpy as np
from gridstride.sim import cuda
from . import wrong


@wrong('checklist.iterations')
def all_that_is_done(lengths): return sum(lengths)

@wrong('checklist.iterations')
def the_longest_for_all(lengths): return max(lengths)*-(-len(lengths)//32)

@wrong('checklist.iterations')
def sorted_first(lengths): return sum(sorted(lengths)[31::32])

@wrong('checklist.iterations')
def an_average(lengths): return sum(sum(lengths[i:i+32])/32 for i in range(0, len(lengths), 32))

@wrong('checklist.iterations')
def whole_warps_only(lengths): return sum(max(lengths[32*i:32*i+32]) for i in range(len(lengths)//32))


@wrong('checklist.runs')
def one_by_one():
    @cuda.jit
    def count_k(x, out, per):
        first = cuda.grid(1)*per
        for i in range(first, min(first + per, x.shape[0])): cuda.atomic.add(out, x[i], 1)
    return count_k

def runs(last=True, guard=True, atomic=True, again=1):
    @cuda.jit
    def count_k(x, out, per):
        first = cuda.grid(1)*per
        if guard and first >= x.shape[0]: return
        now,count = x[first],0
        for i in range(first, min(first + per, x.shape[0])):
            if x[i] != now:
                if atomic: cuda.atomic.add(out, now, count)
                else: out[now] += count
                now,count = x[i],again
            else: count += 1
        if last: cuda.atomic.add(out, now, count)
    return count_k

@wrong('checklist.runs')
def the_last_run_is_lost(): return runs(last=False)

@wrong('checklist.runs')
def no_guard(): return runs(guard=False)

@wrong('checklist.runs')
def not_atomic(): return runs(atomic=False)

@wrong('checklist.runs')
def begins_again_at_zero(): return runs(again=0)

@wrong('checklist.runs')
def one_thread_for_all_pieces():
    @cuda.jit
    def count_k(x, out, per):
        if cuda.grid(1) == 0:
            count = 0
            for i in range(x.shape[0]):
                count += 1
                if i + 1 == x.shape[0] or x[i+1] != x[i]:
                    cuda.atomic.add(out, x[i], count)
                    count = 0
    return count_k

@wrong('checklist.runs')
def no_kernel():
    def count_k(x, out, per): pass
    return count_k


def log_sum(correct=True, largest=True, guard=True):
    @cuda.jit
    def sum_k(x, out):
        c = cuda.grid(1)
        if guard and c >= x.shape[1]: return
        m,s = np.float32(-math.inf if largest else 0),np.float32(0)
        for r in range(x.shape[0]):
            v = x[r,c]
            new = max(m, v) if largest else m
            s = (s*math.exp(m - new) if correct else s) + math.exp(v - new)
            m = new
        out[c] = m + math.log(s)
    return sum_k

@wrong('checklist.logsumexp')
def uncorrected(): return log_sum(correct=False)

@wrong('checklist.logsumexp')
def nothing_taken_off(): return log_sum(largest=False)

@wrong('checklist.logsumexp')
def threads_outside(): return log_sum(guard=False)

@wrong('checklist.logsumexp')
def two_passes():
    @cuda.jit
    def sum_k(x, out):
        c = cuda.grid(1)
        if c >= x.shape[1]: return
        m,s = x[0,c],np.float32(0)
        for r in range(x.shape[0]): m = max(m, x[r,c])
        for r in range(x.shape[0]): s += math.exp(x[r,c] - m)
        out[c] = m + math.log(s)
    return sum_k

@wrong('checklist.logsumexp')
def one_thread_for_all_columns():
    @cuda.jit
    def sum_k(x, out):
        if cuda.grid(1) > 0: return
        for c in range(x.shape[1]):
            m,s = np.float32(-math.inf),np.float32(0)
            for r in range(x.shape[0]):
                v = x[r,c]
                new = max(m, v)
                s = s*math.exp(m - new) + math.exp(v - new)
                m = new
            out[c] = m + math.log(s)
    return sum_k
