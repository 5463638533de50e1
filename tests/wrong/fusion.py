from gridstride import triton
from gridstride.bench.variants import changed

from . import wrong

tl = triton.language


@wrong('fusion.passes')
def counts_twice_what_is_named_twice(ops, wanted):
    made = {w for _,w in ops}
    given = {r for reads,_ in ops for r in reads} - made
    return sum(len(reads) + 1 for reads,_ in ops), len(given) + len(made & set(wanted))

@wrong('fusion.passes')
def writes_all_that_is_made(ops, wanted):
    made = {w for _,w in ops}
    return sum(len(set(reads)) + 1 for reads,_ in ops), len({r for reads,_ in ops for r in reads} - made) + len(made)

@wrong('fusion.passes')
def writes_what_was_there_before(ops, wanted):
    given = {r for reads,_ in ops for r in reads} - {w for _,w in ops}
    return sum(len(set(reads)) + 1 for reads,_ in ops), len(given) + len(wanted)

@wrong('fusion.passes')
def in_no_order(ops, wanted):
    made = {w for _,w in ops}
    given = {r for reads,_ in ops for r in reads} - made
    return sum(len(set(reads)) + 1 for reads,_ in ops), len(given) + len(made & set(wanted))

@wrong('fusion.passes')
def two_are_always_enough(ops, wanted): return sum(len(set(reads)) + 1 for reads,_ in ops), 2


@triton.jit
def swiglu_k(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
    v = tl.load(a + i, mask=i < n)
    tl.store(out + i, v*tl.sigmoid(v)*tl.load(b + i, mask=i < n), mask=i < n)

@wrong('fusion.swiglu')
def no_mask(): return changed(swiglu_k, '(b + i, mask=i < n), mask=i < n)', '(b + i, mask=i < n))')

@wrong('fusion.swiglu')
def no_gate(): return changed(swiglu_k, 'v*tl.sigmoid(v)*', 'v*')

@wrong('fusion.swiglu')
def the_other_gate(): return changed(swiglu_k, 'v*tl.sigmoid(v)*', 'tl.sigmoid(v)*')

@wrong('fusion.swiglu')
def one_short(): return changed(swiglu_k, '(b + i, mask=i < n), mask=i < n)', '(b + i, mask=i < n), mask=i < n - 1)')

@wrong('fusion.swiglu')
def exp_is_infinite(): return changed(swiglu_k, 'v*tl.sigmoid(v)', 'v*tl.exp(v)/(1 + tl.exp(v))')

@wrong('fusion.swiglu')
def not_a_kernel(): return swiglu_k.fn.fn


@triton.jit
def slope_k(a, b, dout, da, db, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
    v = tl.load(a + i, mask=i < n)
    d = tl.load(dout + i, mask=i < n)
    s = tl.sigmoid(v)
    tl.store(da + i, d*tl.load(b + i, mask=i < n)*(s + v*s*(1 - s)), mask=i < n)
    tl.store(db + i, d*v*s, mask=i < n)

@wrong('fusion.gradient')
def half_of_the_product_rule(): return changed(slope_k, '(s + v*s*(1 - s))', '(v*s*(1 - s))')

@wrong('fusion.gradient')
def no_gradient_comes_in(): return changed(slope_k, 'd*v*s', 'v*s')

@wrong('fusion.gradient')
def gradient_of_the_sigmoid_alone(): return changed(slope_k, '(s + v*s*(1 - s))', 's*(1 - s)')

@wrong('fusion.gradient')
def only_one_of_two(): return changed(slope_k, 'tl.store(db + i, d*v*s, mask=i < n)', '')


@triton.jit
def layer_norm_k(x, w, b, out, n, eps, BLOCK: tl.constexpr):
    row,c = tl.program_id(0),tl.arange(0, BLOCK)
    v = tl.load(x + row*n + c, mask=c < n, other=0)
    d = tl.where(c < n, v - tl.sum(v)/n, 0)
    s = 1/tl.sqrt(tl.sum(d*d)/n + eps)
    y = d*s*tl.load(w + c, mask=c < n) + tl.load(b + c, mask=c < n)
    tl.store(out + row*n + c, y, mask=c < n)

@wrong('fusion.layer_norm')
def distances_past_the_end(): return changed(layer_norm_k, 'tl.where(c < n, v - tl.sum(v)/n, 0)', 'v - tl.sum(v)/n')

@wrong('fusion.layer_norm')
def by_the_school_formula():
    return changed(layer_norm_k, 'tl.sum(d*d)/n + eps', 'tl.sum(v*v)/n - tl.sum(v)/n*(tl.sum(v)/n) + eps')

@wrong('fusion.layer_norm')
def divides_by_the_block():
    return changed(layer_norm_k, {'tl.sum(v)/n': 'tl.sum(v)/BLOCK', 'tl.sum(d*d)/n': 'tl.sum(d*d)/BLOCK'})

@wrong('fusion.layer_norm')
def eps_outside_the_root():
    return changed(layer_norm_k, 'tl.sqrt(tl.sum(d*d)/n + eps)', '(tl.sqrt(tl.sum(d*d)/n) + eps)')

@wrong('fusion.layer_norm')
def an_eps_of_its_own(): return changed(layer_norm_k, '/n + eps)', '/n + 1e-5)')

@wrong('fusion.layer_norm')
def no_mean_taken_away(): return changed(layer_norm_k, 'v - tl.sum(v)/n', 'v')

@wrong('fusion.layer_norm')
def into_the_next_row(): return changed(layer_norm_k, 'c, y, mask=c < n)', 'c, y)')


@triton.jit
def long_k(logits, answer, loss, w, BLOCK: tl.constexpr):
    row,c = tl.program_id(0),tl.arange(0, BLOCK)
    top,total = -float('inf'),0.
    for first in range(0, w, BLOCK):
        v = tl.load(logits + row*w + first + c, mask=first + c < w, other=-float('inf'))
        new = tl.maximum(top, tl.max(v))
        total = total*tl.exp(top - new) + tl.sum(tl.exp(v - new))
        top = new
    at = tl.load(answer + row)
    right = tl.load(logits + row*w + at, mask=at >= 0, other=0.)
    tl.store(loss + row, tl.where(at >= 0, top + tl.log(total) - right, 0.))

@wrong('fusion.loss')
def no_maximum(): return changed(long_k, 'new = tl.maximum(top, tl.max(v))', 'new = 0.')

@wrong('fusion.loss')
def largest_of_each_block(): return changed(long_k, 'new = tl.maximum(top, tl.max(v))', 'new = tl.max(v)')

@wrong('fusion.loss')
def begins_with_a_maximum_of_zero(): return changed(long_k, "top,total = -float('inf'),0.", 'top,total = 0.,0.')

@wrong('fusion.loss')
def answer_0_is_padding(): return changed(long_k, 'tl.where(at >= 0', 'tl.where(at > 0')

@wrong('fusion.loss')
def keeps_the_old_unit(): return changed(long_k, 'total*tl.exp(top - new)', 'total')

@wrong('fusion.loss')
def zeros_past_the_end(): return changed(long_k, "other=-float('inf')", 'other=0.')

@wrong('fusion.loss')
def one_block(): return changed(long_k, 'range(0, w, BLOCK)', 'range(0, BLOCK, BLOCK)')

@wrong('fusion.loss')
def padding_counts():
    return changed(long_k, 'tl.where(at >= 0, top + tl.log(total) - right, 0.)', 'top + tl.log(total) - right')

@wrong('fusion.loss')
def looks_up_padding(): return changed(long_k, ', mask=at >= 0, other=0.)', ')')

@wrong('fusion.loss')
def goes_over_the_row_twice():
    @triton.jit
    def twice_k(logits, answer, loss, w, BLOCK: tl.constexpr):
        row,c = tl.program_id(0),tl.arange(0, BLOCK)
        top,total = -float('inf'),0.
        for first in range(0, w, BLOCK):
            v = tl.load(logits + row*w + first + c, mask=first + c < w, other=-float('inf'))
            top = tl.maximum(top, tl.max(v))
        for first in range(0, w, BLOCK):
            v = tl.load(logits + row*w + first + c, mask=first + c < w, other=-float('inf'))
            total += tl.sum(tl.exp(v - top))
        at = tl.load(answer + row)
        right = tl.load(logits + row*w + at, mask=at >= 0, other=0.)
        tl.store(loss + row, tl.where(at >= 0, top + tl.log(total) - right, 0.))
    return twice_k


@triton.jit
def momentum_k(table, chunks, lr, beta, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.load(chunks + 2*tl.program_id(0))
    start = tl.load(chunks + 2*tl.program_id(0) + 1)
    p = tl.load(table + 4*t).to(tl.pointer_type(tl.float32))
    g = tl.load(table + 4*t + 1).to(tl.pointer_type(tl.float32))
    m = tl.load(table + 4*t + 2).to(tl.pointer_type(tl.float32))
    end = tl.minimum(tl.load(table + 4*t + 3), start + CHUNK)
    for first in range(0, CHUNK, BLOCK):
        i = start + first + tl.arange(0, BLOCK)
        m_ = beta*tl.load(m + i, mask=i < end) + tl.load(g + i, mask=i < end)
        tl.store(m + i, m_, mask=i < end)
        tl.store(p + i, tl.load(p + i, mask=i < end) - lr*m_, mask=i < end)

@wrong('fusion.momentum')
def into_the_next_chunk():
    return changed(momentum_k, 'tl.minimum(tl.load(table + 4*t + 3), start + CHUNK)', 'tl.load(table + 4*t + 3)')

@wrong('fusion.momentum')
def its_own_values():
    return changed(momentum_k, {'beta*tl.load': '.9*tl.load', '- lr*m_, mask': '- .1*m_, mask'})

@wrong('fusion.momentum')
def past_the_tensor():
    return changed(momentum_k, 'tl.minimum(tl.load(table + 4*t + 3), start + CHUNK)', 'start + CHUNK')

@wrong('fusion.momentum')
def moves_by_the_old_momentum():
    return changed(momentum_k, '- lr*m_, mask', '- lr*(m_ - tl.load(g + i, mask=i < end)), mask')

@wrong('fusion.momentum')
def every_chunk_from_the_start(): return changed(momentum_k, 'i = start + first', 'i = first')

@wrong('fusion.momentum')
def forgets_to_keep_the_momentum(): return changed(momentum_k, 'tl.store(m + i, m_, mask=i < end)', '')

@wrong('fusion.momentum')
def leaves_it_in_the_gradient_too():
    store = 'tl.store(m + i, m_, mask=i < end)'
    return changed(momentum_k, store, f'{store}; {store.replace("m + i", "g + i")}')
