import math

import numpy as np
import torch
from gridstride import triton

from . import right

tl = triton.language


@right('latent_attention.pages')
def by_searchsorted(memory, lens, layers, elements, page):
    need = -(-np.array(lens)//page)
    room = memory//(page*elements*2*layers)
    n = np.searchsorted(need.cumsum(), room, side='right')
    return n, need[:n].sum()*page - np.sum(lens[:n])

@right('latent_attention.pages')
def by_bytes(memory, lens, layers, elements, page):
    lens, each, n, empty = list(lens), page*elements*2*layers, 0, 0
    while lens:
        l = lens.pop(0); need = (l + page - 1)//page
        memory -= need*each
        if memory < 0: break
        n += 1; empty += -l % page
    return n, empty

@right('latent_attention.gpus')
def of_a_largest_share(how, gpus, sequences, n, heads, speed, flops):
    h,t = (np.ceil(heads/gpus), sequences) if how=='heads' else (heads, np.ceil(sequences/gpus))
    return np.maximum(t*n*576*2/speed, t*h*n*2*(576 + 512)/flops)

@right('latent_attention.latent')
def head_after_head(q, qr, wk, wv, scores, means):
    H,d = q.shape; l = wk.shape[1]
    rows = [list(wk[h]@q[h]) + list(qr[h]) for h in range(H)]
    s = np.asarray(scores(np.array(rows)))/math.sqrt(d + qr.shape[1])
    w = []
    for h in range(H):
        m = s[h].max(); e = [math.exp(x - m) for x in s[h]]; t = sum(e); w.append([x/t for x in e])
    c = means(np.array(w))
    return np.array([c[h][:l]@wv[h] for h in range(H)])

@right('latent_attention.latent')
def in_torch(q, qr, wk, wv, scores, means):
    q,qr,wk,wv = (torch.from_numpy(np.asarray(o)) for o in (q,qr,wk,wv))
    s = scores(torch.cat([torch.einsum('hd,hld->hl', q, wk), qr], 1).numpy())
    p = torch.softmax(torch.as_tensor(s)*(q.shape[1] + qr.shape[1])**-.5, -1)
    c = torch.as_tensor(means(p.numpy()))[:,:wk.shape[1]]
    return torch.einsum('hl,hld->hd', c, wv).numpy()

@right('latent_attention.merge')
def all_parts_at_once():
    @triton.jit
    def k(parts, lses, out, lse, rows, PARTS: tl.constexpr, D: tl.constexpr):
        P: tl.constexpr = triton.next_power_of_2(PARTS)
        i,d,p = tl.program_id(0),tl.arange(0, D),tl.arange(0, P)
        l = tl.load(lses + p*rows + i, mask=p < PARTS, other=-float('inf'))
        some = l != -float('inf')
        top = tl.max(l, 0)
        w = tl.where(some, tl.exp(l - top), 0)
        total = tl.sum(w, 0)
        v = tl.load(parts + (p[:,None]*rows + i)*D + d, mask=some[:,None], other=0)
        o = tl.sum(w[:,None]*v, 0)/tl.where(total > 0, total, 1)
        tl.store(out + i*D + d, o)
        tl.store(lse + i, tl.where(total > 0, top + tl.log(total), -float('inf')))
    return k

@right('latent_attention.merge')
def two_by_two():
    @triton.jit
    def k(parts, lses, out, lse, rows, PARTS: tl.constexpr, D: tl.constexpr):
        i,d = tl.program_id(0),tl.arange(0, D)
        L = -float('inf')
        o = tl.zeros((D,), tl.float32)
        for p in range(PARTS):
            l = tl.load(lses + p*rows + i)
            seen = l > -float('inf')
            x = tl.load(parts + (p*rows + i)*D + d, mask=seen & (d < D), other=0.)
            top = tl.maximum(L, l)
            safe = tl.where(top > -float('inf'), top, 0.)
            a,b = tl.exp(L - safe),tl.exp(l - safe)
            o = tl.where(a + b > 0, (a*o + b*x)/(a + b), 0.)
            L = tl.where(a + b > 0, safe + tl.log(a + b), -float('inf'))
        tl.store(out + i*D + d, o)
        tl.store(lse + i, L)
    return k

@right('latent_attention.merge')
def in_powers_of_two():
    @triton.jit
    def k(parts, lses, out, lse, rows, PARTS: tl.constexpr, D: tl.constexpr):
        P: tl.constexpr = triton.next_power_of_2(PARTS)
        i = tl.program_id(0)
        p = tl.arange(0, P)
        l = tl.load(lses + p*rows + i, mask=p < PARTS, other=-float('inf'))*1.4426950408889634
        top = tl.maximum(tl.max(l, 0), -1e30)
        w = tl.exp2(l - top)
        total = tl.sum(w, 0)
        w /= tl.maximum(total, 1e-30)
        for first in range(0, D, 1):
            v = tl.load(parts + (p*rows + i)*D + first, mask=(p < PARTS) & (w > 0), other=0)
            tl.store(out + i*D + first, tl.sum(w*v, 0))
        tl.store(lse + i, tl.where(total > 0, (top + tl.log2(total))*0.6931471805599453, -float('inf')))
    return k
