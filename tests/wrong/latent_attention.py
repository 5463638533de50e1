import numpy as np
from gridstride import triton
from gridstride.course.exercises.latent_attention import schedule
from gridstride.bench.variants import changed

from . import wrong

tl = triton.language


def cdiv(a, b): return -(-a//b)


@wrong('latent_attention.pages')
def as_if_contiguous(memory, lens, layers, elements, page):
    free,i = memory//(layers*elements*2),0
    for n in lens:
        free -= n
        if free < 0: break
        i += 1
    return i, sum(-n % page for n in lens[:i])

@wrong('latent_attention.pages')
def skips_what_does_not_fit(memory, lens, layers, elements, page):
    free,i,wasted = memory//(page*layers*elements*2),0,0
    for n in lens:
        if cdiv(n, page) <= free:
            free,i,wasted = free - cdiv(n, page),i + 1,wasted + -n % page
    return i, wasted

@wrong('latent_attention.pages')
def one_page_more(memory, lens, layers, elements, page):
    free,i,wasted = memory//(page*layers*elements*2),0,0
    for n in lens:
        if n//page + 1 > free: break
        free,i,wasted = free - n//page - 1,i + 1,wasted + page - n % page
    return i, wasted

@wrong('latent_attention.pages')
def keys_and_values(memory, lens, layers, elements, page):
    free,i,wasted = memory//(2*page*layers*elements*2),0,0
    for n in lens:
        if cdiv(n, page) > free: break
        free,i,wasted = free - cdiv(n, page),i + 1,wasted + -n % page
    return i, wasted


def step(bytes_of, ops_of, together=max):
    def seconds(how, gpus, sequences, n, heads, speed, flops):
        t,h = (cdiv(sequences, gpus),heads) if how=='sequences' else (sequences,cdiv(heads, gpus))
        return together(bytes_of(t, n, h, heads)/speed, ops_of(t, n, h)/flops)
    return seconds

def operations(t, n, h): return t*h*n*2*(576 + 512)

heads_share_the_bytes = step(lambda t, n, h, heads: t*n*576*2*h/heads, operations)
one_after_the_other = step(lambda t, n, h, heads: t*n*576*2, operations, lambda a, b: a + b)
values_of_their_own = step(lambda t, n, h, heads: t*n*(576 + 512)*2, operations)
scores_alone = step(lambda t, n, h, heads: t*n*576*2, lambda t, n, h: t*h*n*2*576)
for name in ('heads_share_the_bytes', 'one_after_the_other', 'values_of_their_own', 'scores_alone'):
    globals()[name].__name__ = name
    wrong('latent_attention.gpus')(globals()[name])

@wrong('latent_attention.gpus')
def heads_in_fractions(how, gpus, sequences, n, heads, speed, flops):
    t,h = (cdiv(sequences, gpus),heads) if how=='sequences' else (sequences,heads/gpus)
    return max(t*n*576*2/speed, operations(t, n, h)/flops)

@wrong('latent_attention.gpus')
def texts_in_fractions(how, gpus, sequences, n, heads, speed, flops):
    t,h = (sequences/gpus,heads) if how=='sequences' else (sequences,heads/gpus)
    return max(t*n*576*2/speed, operations(t, n, h)/flops)

@wrong('latent_attention.gpus')
def heads_rounded(how, gpus, sequences, n, heads, speed, flops):
    t,h = (cdiv(sequences, gpus),heads) if how=='sequences' else (sequences,round(heads/gpus))
    return max(t*n*576*2/speed, operations(t, n, h)/flops)


def decoded(q, qr, wk, wv, scores, means, scale=None, rotary=True, top=True):
    l,d = wk.shape[1:]
    wide = np.concatenate([(wk @ q[...,None])[...,0], qr*rotary], -1)
    s = scores(wide)*(scale or (d + qr.shape[1])**-.5)
    p = np.exp(s - s.max(-1, keepdims=True)*top)
    return (means(p/p.sum(-1, keepdims=True))[:,None,:l] @ wv)[:,0]

@wrong('latent_attention.latent')
def scale_of_the_wide_row(q, qr, wk, *more): return decoded(q, qr, wk, *more, scale=(wk.shape[1] + qr.shape[1])**-.5)

@wrong('latent_attention.latent')
def positions_forgotten(*args): return decoded(*args, rotary=False)

@wrong('latent_attention.latent')
def overflows(*args): return decoded(*args, top=False)

@wrong('latent_attention.latent')
def fetches_the_cache(q, qr, wk, wv, scores, means):
    l,r = wk.shape[1],qr.shape[1]
    return scores(np.eye(l + r)) @ np.zeros((1, 1))

@wrong('latent_attention.latent')
def looks_twice(q, qr, wk, wv, scores, means):
    l,d = wk.shape[1:]
    latent = scores(np.concatenate([(wk @ q[...,None])[...,0], 0*qr], -1))
    s = (latent + scores(np.concatenate([np.zeros((len(q), l)), qr], -1)))*(d + qr.shape[1])**-.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return (means(p/p.sum(-1, keepdims=True))[:,None,:l] @ wv)[:,0]

def decoded_from(top_of, q, qr, wk, wv, scores, means):
    l,d = wk.shape[1:]
    s = scores(np.concatenate([(wk @ q[...,None])[...,0], qr], -1))*(d + qr.shape[1])**-.5
    p = np.exp(s - top_of(s))
    return (means(p/p.sum(-1, keepdims=True))[:,None,:l] @ wv)[:,0]

@wrong('latent_attention.latent')
def one_top_for_all_heads(*args): return decoded_from(np.max, *args)

@wrong('latent_attention.latent')
def no_top_below_zero(*args): return decoded_from(lambda s: np.maximum(s.max(-1, keepdims=True), 0), *args)


@wrong('latent_attention.latent')
def one_sum_for_all_heads(q, qr, wk, wv, scores, means):
    l,d = wk.shape[1:]
    s = scores(np.concatenate([(wk @ q[...,None])[...,0], qr], -1))*(d + qr.shape[1])**-.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return (means(p/p.sum())[:,None,:l] @ wv)[:,0]


@wrong('latent_attention.shares')
def pieces_in_one_list(pages, sms, fixed): return [(i, 0, pages[i]) if i < len(pages) else () for i in range(sms)]

@wrong('latent_attention.shares')
def a_text_each(pages, sms, fixed):
    shares = [[] for _ in range(sms)]
    for i,n in enumerate(pages): shares[min(i, sms - 1)].append((i, 0, n))
    return shares

@wrong('latent_attention.shares')
def equal_pages(pages, sms, fixed):
    owners = np.array_split([(i, p) for i,n in enumerate(pages) for p in range(n)], sms)
    return [[(int(i), int(own[own[:,0]==i,1].min()), int(own[own[:,0]==i,1].max()) + 1) for i in np.unique(own[:,0])]
            if len(own) else [] for own in owners]

@wrong('latent_attention.shares')
def the_first_budget(pages, sms, fixed):
    budget = cdiv(sum(pages) + fixed*len(pages), sms)
    return schedule(pages, sms, fixed, budget) or [[] for _ in range(sms)]

@wrong('latent_attention.shares')
def a_budget_too_large(pages, sms, fixed): return schedule(pages, sms, fixed, sum(pages) + fixed*len(pages))

@wrong('latent_attention.shares')
def whole_texts_only(pages, sms, fixed):
    budget = max(pages) + fixed
    while True:
        shares,left = [[]],budget
        for i,n in enumerate(pages):
            if left < n + fixed: shares,left = shares + [[]],budget
            shares[-1].append((i, 0, n))
            left -= n + fixed
        if len(shares) <= sms: return shares + [[]]*(sms - len(shares))
        budget += 1


@triton.jit
def merge_k(parts, lses, out, lse, rows, PARTS: tl.constexpr, D: tl.constexpr):
    i,d = tl.program_id(0),tl.arange(0, D)
    top,total,o = -float('inf'),0.,tl.zeros((D,), tl.float32)
    for p in range(PARTS):
        l,part = tl.load(lses + p*rows + i),tl.load(parts + (p*rows + i)*D + d)
        new = tl.maximum(top, l)
        base = tl.where(new > -float('inf'), new, 0.)
        shrink,weight = tl.exp(top - base),tl.exp(l - base)
        total = total*shrink + weight
        o = o*shrink + weight*tl.where(l > -float('inf'), part, 0.)
        top = new
    some = tl.maximum(total, 1e-30)
    tl.store(out + i*D + d, o/some)
    tl.store(lse + i, tl.where(total > 0, top + tl.log(some), -float('inf')))

@wrong('latent_attention.merge')
def no_maximum(): return changed(merge_k, "tl.where(new > -float('inf'), new, 0.)", '0.*new')

@wrong('latent_attention.merge')
def nan_of_the_blind(): return changed(merge_k, "tl.where(l > -float('inf'), part, 0.)", 'part')

@wrong('latent_attention.merge')
def all_weigh_the_same(): return changed(merge_k, 'weight*tl.where', 'tl.exp(0.*weight)*tl.where')

@wrong('latent_attention.merge')
def no_token_is_visible(): return changed(merge_k, "tl.where(new > -float('inf'), new, 0.)", 'new')

@wrong('latent_attention.merge')
def the_largest_lse(): return changed(merge_k, 'top + tl.log(some)', 'top')

@wrong('latent_attention.merge')
def no_shrink(): return changed(merge_k, 'o = o*shrink +', 'o = o +')

@triton.jit
def all_rows_k(parts, lses, out, lse, rows, PARTS: tl.constexpr, D: tl.constexpr):
    d = tl.arange(0, D)
    for i in range(rows if tl.program_id(0)==0 else 0):
        top,total,o = -float('inf'),0.,tl.zeros((D,), tl.float32)
        for p in range(PARTS): top = tl.maximum(top, tl.load(lses + p*rows + i))
        for p in range(PARTS):
            l = tl.load(lses + p*rows + i)
            weight = tl.where(l > -float('inf'), tl.exp(l - top), 0.)
            total += weight
            o += tl.where(l > -float('inf'), weight*tl.load(parts + (p*rows + i)*D + d), 0.)
        some = tl.maximum(total, 1e-30)
        tl.store(out + i*D + d, o/some)
        tl.store(lse + i, tl.where(total > 0, top + tl.log(some), -float('inf')))

@wrong('latent_attention.merge')
def program_0_has_all_rows(): return all_rows_k
