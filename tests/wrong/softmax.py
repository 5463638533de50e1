import math

import numpy as np
from gridstride import triton
from gridstride.sim import cuda
from gridstride.bench.variants import changed

from . import wrong

tl = triton.language


@wrong('softmax.merge')
def as_it_is(a, b): return math.log(math.exp(a) + math.exp(b))

@wrong('softmax.merge')
def of_nothing(a, b):
    m = max(a, b)
    return m + math.log(math.exp(a - m) + math.exp(b - m))

@wrong('softmax.merge')
def the_first_is_the_larger(a, b): return a + math.log1p(math.exp(min(b - a, 700))) if a > -math.inf else b

@wrong('softmax.merge')
def the_larger_one(a, b): return max(a, b)


def both(a, b, base=True, rescale=True):
    (m1,s1,o1),(m2,s2,o2) = a,b
    m = max(m1, m2)
    off = 0 if base and m == -math.inf else m
    f1,f2 = math.exp(m1 - off),math.exp(m2 - off)
    return m, s1*f1 + s2*f2, o1*f1 + o2*f2 if rescale else o1 + o2

@wrong('softmax.mean')
def values_are_not_rescaled(a, b): return both(a, b, rescale=False)

@wrong('softmax.mean')
def nothing_is_rescaled(a, b): return max(a[0], b[0]), a[1] + b[1], a[2] + b[2]

@wrong('softmax.mean')
def of_two_parts_of_nothing(a, b): return both(a, b, base=False)

@wrong('softmax.mean')
def in_place(a, b):
    m,s,o = both(a, b)
    a[2][:] = o
    return m, s, a[2]

@wrong('softmax.mean')
def in_place_of_the_second(a, b):
    m,s,o = both(a, b)
    b[2][:] = o
    return m, s, b[2]

@wrong('softmax.mean')
def above_zero_alone_is_subtracted(a, b):
    m = max(a[0], b[0])
    f1,f2 = (math.exp(o[0] - max(m, 0)) for o in (a, b))
    return m, a[1]*f1 + b[1]*f2, a[2]*f1 + b[2]*f2

@wrong('softmax.mean')
def means_of_the_parts(a, b):
    m,s,_ = both(a, b)
    return m, s, (a[2] + b[2])/2


@cuda.jit
def shared_k(x, out):
    v = cuda.shared.array(512, np.float32)
    ms = cuda.shared.array(64, np.float32)
    ss = cuda.shared.array(64, np.float32)
    r,t,w,tpb = cuda.blockIdx.x,cuda.threadIdx.x,x.shape[1],64
    m,s = np.float32(-math.inf),np.float32(0)
    for c in range(t, w, tpb):
        v[c] = x[r,c]
        m = max(m, v[c])
    for c in range(t, w, tpb): s += math.exp(v[c] - m)
    ms[t],ss[t] = m,s
    cuda.syncthreads()
    m,s = np.float32(-math.inf),np.float32(0)
    for i in range(64): m = max(m, ms[i])
    for i in range(64):
        if ss[i] > 0: s += ss[i]*math.exp(ms[i] - m)
    for c in range(t, w, tpb): out[r,c] = math.exp(v[c] - m)/s

@wrong('softmax.shared')
def no_barrier(): return changed(shared_k, 'cuda.syncthreads()', 'pass')

@wrong('softmax.shared')
def no_rescale(): return changed(shared_k, 's += ss[i]*math.exp(ms[i] - m)', 's += ss[i]')

@wrong('softmax.shared')
def reads_again(): return changed(shared_k, 'math.exp(v[c] - m)/s', 'math.exp(x[r,c] - m)/s')

@wrong('softmax.shared')
def one_round_alone(): return changed(shared_k, 'x.shape[1],64', 'min(x.shape[1], 64),64')

@wrong('softmax.shared')
def largest_of_the_first_warp():
    return changed(shared_k, 'range(64): m = max(m, ms[i])', 'range(min(w, 32)): m = max(m, ms[i])')

@wrong('softmax.shared')
def one_thread_does_all(): return changed(shared_k, 'x.shape[1],64', 'x.shape[1] if cuda.threadIdx.x == 0 else 0,1')

@wrong('softmax.shared')
def one_warp_of_two(): return changed(shared_k, 'x.shape[1],64', 'x.shape[1] if cuda.threadIdx.x < 32 else 0,32')

@wrong('softmax.shared')
def all_threads_add_up_the_row():
    return changed(shared_k, {'for c in range(t, w, tpb): s += math.exp(v[c] - m)': 'pass',
        'for i in range(64): m = max(m, ms[i])': 'for c in range(w): m = max(m, v[c])',
        'for i in range(64):\n        if ss[i] > 0: s += ss[i]*math.exp(ms[i] - m)':
            'for c in range(w): s += math.exp(v[c] - m)'})

@wrong('softmax.shared')
def above_zero_alone(): return changed(shared_k, {
    f'np.float32(-math.inf),np.float32(0)\n    for {i}': f'np.float32(0),np.float32(0)\n    for {i}' for i in 'ci'})


@triton.jit
def window_k(x, out, w, d, BLOCK: tl.constexpr):
    r,c = tl.program_id(0),tl.arange(0, BLOCK)
    v = tl.load(x + r*w + c, mask=(c <= r) & (c >= r - d), other=-float('inf'))
    e = tl.exp(v - tl.max(v))
    tl.store(out + r*w + c, e/tl.sum(e), mask=c < w)

@wrong('softmax.window')
def too_late(): return changed(window_k, {'mask=(c <= r) & (c >= r - d)': 'mask=c < w',
    'e = tl.exp(v - tl.max(v))': 'e = tl.where((c <= r) & (c >= r - d), tl.exp(v - tl.max(v)), 0)'})

@wrong('softmax.window')
def one_too_few(): return changed(window_k, 'c >= r - d', 'c > r - d')

@wrong('softmax.window')
def causal_alone(): return changed(window_k, '(c <= r) & (c >= r - d)', 'c <= r')

@wrong('softmax.window')
def writes_only_the_window(): return changed(window_k, 'mask=c < w', 'mask=(c <= r) & (c >= r - d)')

@wrong('softmax.window')
def zeros_for_masked_scores(): return changed(window_k, "other=-float('inf')", 'other=0.')

@wrong('softmax.window')
def one_program_writes_all(): return changed(window_k, {'r,c = tl.program_id(0)': 'own,c = tl.program_id(0)',
    '    v = tl.load': '    for r in range(w if own == 0 else 0):\n        v = tl.load', '    e = ': '        e = ',
    '    tl.store': '        tl.store'})

@wrong('softmax.window')
def always_64(): return changed(window_k, 'tl.arange(0, BLOCK)', 'tl.arange(0, 64)')

@wrong('softmax.window')
def hundred_is_low_enough(): return changed(window_k, "other=-float('inf')", 'other=-100.')


@triton.jit
def slope_k(y, dout, dx, w, BLOCK: tl.constexpr):
    r,c = tl.program_id(0),tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dout.dtype.element_ty)
    for first in range(0, w, BLOCK):
        total += tl.load(dout + r*w + first + c, mask=first + c < w, other=0)
    s = tl.sum(total)
    for first in range(0, w, BLOCK):
        inside = first + c < w
        d = tl.load(dout + r*w + first + c, mask=inside)
        v = tl.load(y + r*w + first + c, mask=inside)
        tl.store(dx + r*w + first + c, d - tl.exp(v)*s, mask=inside)

@wrong('softmax.gradient')
def as_softmax_does(): return changed(slope_k, 'd - tl.exp(v)*s', 'tl.exp(v)*(d - s)')

@wrong('softmax.gradient')
def its_own_share_alone(): return changed(slope_k, 'd - tl.exp(v)*s', 'd - tl.exp(v)*d')

@wrong('softmax.gradient')
def lanes_past_the_end_are_anything():
    return changed(slope_k, 'mask=first + c < w, other=0)', 'mask=first + c < w)')

@wrong('softmax.gradient')
def sum_of_one_block(): return changed(slope_k, 'total += tl.load', 'total = tl.load')

@wrong('softmax.gradient')
def y_is_not_a_probability(): return changed(slope_k, 'tl.exp(v)*s', 'v*s')


slope_of = changed(slope_k, {'slope_k(y': 'slope_of(r, y', 'r,c = tl.program_id(0),': 'c = '})

@wrong('softmax.gradient')
def one_number_after_the_other():
    @triton.jit
    def k(y, dout, dx, w, BLOCK: tl.constexpr): slope_of(tl.program_id(0), y, dout, dx, w, 1)
    return k

@wrong('softmax.gradient')
def a_block_that_holds_all_rows_here():
    @triton.jit
    def k(y, dout, dx, w, BLOCK: tl.constexpr): slope_of(tl.program_id(0), y, dout, dx, w, 64)
    return k

@wrong('softmax.gradient')
def one_program_does_all():
    @triton.jit
    def k(y, dout, dx, w, BLOCK: tl.constexpr):
        for r in range(tl.num_programs(0) if tl.program_id(0) == 0 else 0): slope_of(r, y, dout, dx, w, BLOCK)
    return k
