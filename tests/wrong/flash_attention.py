import numpy as np
from gridstride import triton
from gridstride.bench.variants import changed
from . import wrong

tl = triton.language


@wrong('flash_attention.bytes')
def forgets_lse(n, d, heads, BM, size, causal):
    keys = sum(min(o + BM, n) if causal else n for o in range(0, n, BM))
    return heads*(2*n*d*size + 2*d*size*keys)

@wrong('flash_attention.bytes')
def keys_come_once(n, d, heads, BM, size, causal): return heads*(4*n*d*size + 4*n)

@wrong('flash_attention.bytes')
def half_for_causal(n, d, heads, BM, size, causal):
    keys = n*-(-n//BM)//(2 if causal else 1)
    return heads*(2*n*d*size + 4*n + 2*d*size*keys)

@wrong('flash_attention.bytes')
def beyond_the_end(n, d, heads, BM, size, causal):
    keys = sum(o + BM if causal else n for o in range(0, n, BM))
    return heads*(2*n*d*size + 4*n + 2*d*size*keys)


@wrong('flash_attention.merge')
def overflows(out1, lse1, out2, lse2):
    e1,e2 = np.exp(lse1),np.exp(lse2)
    return (out1*e1[:,None] + out2*e2[:,None])/(e1 + e2)[:,None], np.log(e1 + e2)

@wrong('flash_attention.merge')
def mean_of_both(out1, lse1, out2, lse2): return (out1 + out2)/2, np.logaddexp(lse1, lse2)

@wrong('flash_attention.merge')
def nan_if_both_are_blind(out1, lse1, out2, lse2):
    with np.errstate(all='ignore'):
        lse = np.logaddexp(lse1, lse2)
        return out1*np.exp(lse1 - lse)[:,None] + out2*np.exp(lse2 - lse)[:,None], lse

@wrong('flash_attention.merge')
def keeps_the_larger_lse(out1, lse1, out2, lse2):
    lse = np.logaddexp(lse1, lse2)
    base = np.where(np.isinf(lse), 0, lse)
    return out1*np.exp(lse1 - base)[:,None] + out2*np.exp(lse2 - base)[:,None], np.maximum(lse1, lse2)

def merged(out1, lse1, out2, lse2, base):
    e1,e2 = np.exp(lse1 - base),np.exp(lse2 - base)
    some = np.where(e1 + e2 == 0, 1, e1 + e2)
    lse = np.where(e1 + e2 == 0, -np.inf, base + np.log(some))
    return (out1*e1[:,None] + out2*e2[:,None])/some[:,None], lse

@wrong('flash_attention.merge')
def zero_if_one_is_blind(out1, lse1, out2, lse2):
    base = np.where(np.isinf(lse1) | np.isinf(lse2), 0, np.maximum(lse1, lse2))
    return merged(out1, lse1, out2, lse2, base)

@wrong('flash_attention.merge')
def no_base_below_zero(out1, lse1, out2, lse2):
    return merged(out1, lse1, out2, lse2, np.maximum(np.maximum(lse1, lse2), 0))

@wrong('flash_attention.merge')
def one_base_for_all_rows(out1, lse1, out2, lse2):
    top = max(lse1.max(), lse2.max())
    return merged(out1, lse1, out2, lse2, 0 if np.isinf(top) else top)


def tiles_with(begin, masked):
    def tiles_of(first, BM, BN, n, window):
        last = min(first + BM, n) - 1
        return [(t, masked(t*BN, t*BN + BN - 1, first, last, window))
                for t in range(begin(first, window)//BN, last//BN + 1)]
    return tiles_of

def right_begin(first, window): return max(0, first - window + 1)
def right_mask(low, high, first, last, window): return high > first or low <= last - window

all_to_the_left = tiles_with(lambda first, window: 0, right_mask)
all_to_the_left.__name__ = 'all_to_the_left'
one_too_late = tiles_with(lambda first, window: max(0, first - window + 2), right_mask)
one_too_late.__name__ = 'one_too_late'
diagonal_alone = tiles_with(right_begin, lambda low, high, first, last, window: high > first)
diagonal_alone.__name__ = 'diagonal_alone'
of_the_last_row = tiles_with(right_begin, lambda low, high, first, last, window: high > last or low <= last - window)
of_the_last_row.__name__ = 'of_the_last_row'


@wrong('flash_attention.gradients')
def queries_alone(q, k, v, dout, lse, delta, scale):
    p = np.exp(q @ k.T * scale - lse[:,None])
    return p*(dout @ v.T - delta[:,None])*scale @ k

@wrong('flash_attention.gradients')
def no_delta(q, k, v, dout, lse, delta, scale):
    p = np.exp(q @ k.T * scale - lse[:,None])
    ds = p*(dout @ v.T)*scale
    return ds @ k, ds.T @ q, p.T @ dout

@wrong('flash_attention.gradients')
def softmax_of_the_tile(q, k, v, dout, lse, delta, scale):
    s = q @ k.T * scale
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    ds = p*(dout @ v.T - delta[:,None])*scale
    return ds @ k, ds.T @ q, p.T @ dout

@wrong('flash_attention.gradients')
def no_scale(q, k, v, dout, lse, delta, scale):
    p = np.exp(q @ k.T * scale - lse[:,None])
    ds = p*(dout @ v.T - delta[:,None])
    return ds @ k, ds.T @ q, p.T @ dout

@wrong('flash_attention.gradients')
def values_from_the_gradients(q, k, v, dout, lse, delta, scale):
    p = np.exp(q @ k.T * scale - lse[:,None])
    ds = p*(dout @ v.T - delta[:,None])*scale
    return ds @ k, ds.T @ q, ds.T @ dout

@wrong('flash_attention.gradients')
def scale_of_its_own(q, k, v, dout, lse, delta, scale):
    own = q.shape[1]**-.5
    p = np.exp(q @ k.T * own - lse[:,None])
    ds = p*(dout @ v.T - delta[:,None])*own
    return ds @ k, ds.T @ q, p.T @ dout


@triton.jit
def window_k(q, k, v, out, n, scale, window, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    first = tl.program_id(0)*BM
    r,c,d = first + tl.arange(0, BM),tl.arange(0, BN),tl.arange(0, D)
    q_ = tl.load(q + r[:,None]*D + d[None,:], mask=r[:,None] < n, other=0.)
    top,total = tl.full((BM,), -float('inf'), tl.float32),tl.zeros((BM,), tl.float32)
    o = tl.zeros((BM, D), tl.float32)
    begin = tl.maximum(first - window + 1, 0)//BN*BN
    for at in range(begin, tl.minimum(first + BM, n), BN):
        keys = at + c
        k_ = tl.load(k + keys[:,None]*D + d[None,:], mask=keys[:,None] < n, other=0.)
        v_ = tl.load(v + keys[:,None]*D + d[None,:], mask=keys[:,None] < n, other=0.)
        seen = (keys[None,:] <= r[:,None]) & (keys[None,:] > r[:,None] - window)
        s = tl.where(seen, tl.dot(q_, tl.trans(k_))*scale, -float('inf'))
        new = tl.maximum(top, tl.max(s, 1))
        up = tl.where(new == -float('inf'), 0., new)
        shrink,p = tl.exp(top - up),tl.exp(s - up[:,None])
        total = total*shrink + tl.sum(p, 1)
        o = tl.dot(p.to(v_.dtype), v_, o*shrink[:,None])
        top = new
    tl.store(out + r[:,None]*D + d[None,:], o/total[:,None], mask=r[:,None] < n)

@wrong('flash_attention.window')
def from_the_first_key(): return changed(window_k, 'tl.maximum(first - window + 1, 0)//BN*BN', '0*first')

@wrong('flash_attention.window')
def no_rescale(): return changed(window_k, 'o*shrink[:,None]', 'o')

@wrong('flash_attention.window')
def blind_rows_stay_nan(): return changed(window_k, "tl.where(new == -float('inf'), 0., new)", 'new')

@wrong('flash_attention.window')
def one_key_more(): return changed(window_k, 'r[:,None] - window)', 'r[:,None] - window - 1)')

@wrong('flash_attention.window')
def causal_alone(): return changed(window_k, ' & (keys[None,:] > r[:,None] - window)', '')

@wrong('flash_attention.window')
def begins_a_key_early(): return changed(window_k, 'first - window + 1, 0', 'first - window, 0')

@wrong('flash_attention.window')
def begins_a_key_late(): return changed(window_k, 'first - window + 1, 0', 'first - window + 2, 0')

@wrong('flash_attention.window')
def window_with_its_own_scale(): return changed(window_k, '*scale,', '*D**-0.5,')

@wrong('flash_attention.window')
def no_top_below_zero():
    return changed(window_k, "tl.full((BM,), -float('inf'), tl.float32)", 'tl.zeros((BM,), tl.float32)')

@wrong('flash_attention.window')
def largest_of_each_tile(): return changed(window_k, 'new = tl.maximum(top, tl.max(s, 1))', 'new = tl.max(s, 1)')

@wrong('flash_attention.window')
def values_past_the_end_are_anything():
    load = 'v_ = tl.load(v + keys[:,None]*D + d[None,:], mask=keys[:,None] < n'
    return changed(window_k, f'{load}, other=0.)', f'{load})')


@triton.jit
def paged_k(q, k, v, table, lens, out, scale, PAGES: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr):
    i,c,d = tl.program_id(0),tl.arange(0, PAGE),tl.arange(0, D)
    q_,n = tl.load(q + i*D + d),tl.load(lens + i)
    top,total,o = -float('inf'),0.,tl.zeros((D,), tl.float32)
    for first in range(0, n, PAGE):
        page = tl.load(table + i*PAGES + first//PAGE)
        at = (page*PAGE + c)[:,None]*D + d[None,:]
        here = (first + c)[:,None] < n
        k_,v_ = tl.load(k + at, mask=here, other=0.),tl.load(v + at, mask=here, other=0.)
        s = tl.where(first + c < n, tl.sum(k_*q_[None,:], 1)*scale, -float('inf'))
        new = tl.maximum(top, tl.max(s))
        shrink,p = tl.exp(top - new),tl.exp(s - new)
        total = total*shrink + tl.sum(p)
        o = o*shrink + tl.sum(p[:,None]*v_, 0)
        top = new
    tl.store(out + i*D + d, o/total)

@wrong('flash_attention.paged')
def pages_in_a_row(): return changed(paged_k, 'tl.load(table + i*PAGES + first//PAGE)', '(i*PAGES + first//PAGE)')

@wrong('flash_attention.paged')
def hidden_keys_weigh_one(): return changed(paged_k, "*scale, -float('inf'))", '*scale, 0.)')

@wrong('flash_attention.paged')
def values_not_masked(): return changed(paged_k, 'tl.load(v + at, mask=here, other=0.)', 'tl.load(v + at)')

@wrong('flash_attention.paged')
def all_as_long_as_the_first(): return changed(paged_k, 'tl.load(lens + i)', 'tl.load(lens)')

@wrong('flash_attention.paged')
def paged_with_its_own_scale(): return changed(paged_k, '*scale,', '*D**-0.5,')

@wrong('flash_attention.paged')
def no_maximum(): return changed(paged_k, 'new = tl.maximum(top, tl.max(s))', 'new = 0.*tl.max(s)')

@wrong('flash_attention.paged')
def largest_from_zero(): return changed(paged_k, "top,total,o = -float('inf'),", 'top,total,o = 0.,')

@wrong('flash_attention.paged')
def largest_of_each_page(): return changed(paged_k, 'new = tl.maximum(top, tl.max(s))', 'new = tl.max(s)')

@wrong('flash_attention.paged')
def values_of_empty_slots_are_anything():
    return changed(paged_k, 'tl.load(v + at, mask=here, other=0.)', 'tl.load(v + at, mask=here)')
