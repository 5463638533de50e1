import math

import numpy as np
import torch
from gridstride.course.exercises.ring_attention import attend

from . import wrong


@wrong('ring_attention.positions')
def contiguous_parts(order, place, length, ranks): return divmod(place, length//ranks)

@wrong('ring_attention.positions')
def both_ends_alike(order, place, length, ranks):
    if order=='striped': return place % ranks, place//ranks
    part,i = divmod(place, length//(2*ranks))
    return min(part, 2*ranks - 1 - part), i

@wrong('ring_attention.positions')
def the_second_half_forward(order, place, length, ranks):
    if order=='striped': return place % ranks, place//ranks
    each = length//(2*ranks)
    part,i = divmod(place, each)
    return part % ranks, i + each*(part >= ranks)


def table(owners, ranks):
    at = [np.flatnonzero(np.array(owners)==r) for r in range(ranks)]
    return np.array([[(a[:,None] >= b).sum() for b in at] for a in at])

@wrong('ring_attention.idle')
def all_at_the_end(owners, ranks):
    w = table(owners, ranks)
    return w.sum()/ranks/w.sum(1).max()

@wrong('ring_attention.idle')
def without_a_mask(owners, ranks): return 1.

@wrong('ring_attention.idle')
def others_alone(owners, ranks):
    w = table(owners, ranks)
    times = [max(w[r,(r - s) % ranks] for r in range(ranks)) for s in range(1, ranks)]
    return w.sum()/ranks/sum(times) if ranks > 1 else 1.

@wrong('ring_attention.idle')
def no_token_sees_itself(owners, ranks):
    at = [np.flatnonzero(np.array(owners)==r) for r in range(ranks)]
    w = np.array([[(a[:,None] > b).sum() for b in at] for a in at])
    return w.sum()/ranks/sum(max(w[r,(r - s) % ranks] for r in range(ranks)) for s in range(ranks))


def rows(heads, kv_heads, d, flops, latency, speed, half=2, both=2):
    a,b = 4*d*heads/half/flops,both*kv_heads*d*2/speed
    return max(1, math.ceil((b + math.sqrt(b*b + 4*a*latency))/(2*a)))

@wrong('ring_attention.hidden')
def whole_squares(**case): return rows(**case, half=1)

@wrong('ring_attention.hidden')
def keys_alone(**case): return rows(**case, both=1)

@wrong('ring_attention.hidden')
def no_latency(**case): return rows(**dict(case, latency=0))

@wrong('ring_attention.hidden')
def rounded_down(**case): return max(1, rows(**case) - 1)

@wrong('ring_attention.hidden')
def heads_of_queries(**case): return rows(**dict(case, kv_heads=case['heads']))

@wrong('ring_attention.hidden')
def one_more_than_whole(heads, kv_heads, d, flops, latency, speed):
    a,b = 2*d*heads/flops,4*kv_heads*d/speed
    return int((b + math.sqrt(b*b + 4*a*latency))/(2*a)) + 1


@wrong('ring_attention.ring')
def the_left_neighbour_again(rank, ranks, q, kv, attend, merge):
    res = attend(q, *kv)
    for _ in range(ranks - 1): res = merge(res, attend(q, *(yield kv)))
    return res[0]

@wrong('ring_attention.ring')
def a_mean(rank, ranks, q, kv, attend, merge):
    out = attend(q, *kv)[0]
    for _ in range(ranks - 1):
        kv = yield kv
        out = out + attend(q, *kv)[0]
    return out/ranks

@wrong('ring_attention.ring')
def once_too_often(rank, ranks, q, kv, attend, merge):
    res = None
    for _ in range(ranks):
        res = merge(res, attend(q, *kv)) if res else attend(q, *kv)
        kv = yield kv
    return res[0]

@wrong('ring_attention.ring')
def one_too_few(rank, ranks, q, kv, attend, merge):
    res = attend(q, *kv)
    for _ in range(ranks - 2):
        kv = yield kv
        res = merge(res, attend(q, *kv))
    if ranks==2: yield kv
    return res[0]

@wrong('ring_attention.ring')
def with_its_lse(rank, ranks, q, kv, attend, merge):
    res = attend(q, *kv)
    for _ in range(ranks - 1):
        kv = yield kv
        res = merge(res, attend(q, *kv))
    return res

@wrong('ring_attention.ring')
def no_generator(rank, ranks, q, kv, attend, merge): return attend(q, *kv)[0]

@wrong('ring_attention.ring')
def keeps_all_parts(rank, ranks, q, kv, attend, merge):
    parts = [kv]
    for _ in range(ranks - 1): parts.append((yield parts[-1]))
    res = attend(q, *parts[0])
    for part in parts[1:]: res = merge(res, attend(q, *part))
    return res[0]

@wrong('ring_attention.ring')
def returns_at_once(rank, ranks, q, kv, attend, merge):
    if ranks==1: yield kv
    return attend(q, *kv)[0]


@wrong('ring_attention.home')
def one_element_short(rank, ranks, q, k, v, dout, out, lse, slopes):
    dq,dk,dv = slopes(q, k, v, dout, out, lse)
    for _ in range(ranks - 1):
        k,v,dk,dv = yield k, v, dk, dv
        a,b,c = slopes(q, k, v, dout, out, lse)
        dq,dk,dv = dq + a,dk + b,dv + c
    return dq, dk, dv

@wrong('ring_attention.home')
def they_stay_where_they_are(rank, ranks, q, k, v, dout, out, lse, slopes):
    dq = dk = dv = 0
    for _ in range(ranks):
        a,b,c = slopes(q, k, v, dout, out, lse)
        dq,dk,dv = dq + a,dk + b,dv + c
        k,v = yield k, v
    return dq, dk, dv

@wrong('ring_attention.home')
def lse_of_the_part(rank, ranks, q, k, v, dout, out, lse, slopes):
    dq,dk,dv = 0,torch.zeros_like(k),torch.zeros_like(v)
    for _ in range(ranks):
        a,b,c = slopes(q, k, v, dout, *attend(q, k, v))
        k,v,dk,dv = yield k, v, dk + b, dv + c
        dq = dq + a
    return dq, dk, dv

@wrong('ring_attention.home')
def only_the_last_one_counts(rank, ranks, q, k, v, dout, out, lse, slopes):
    dq = 0
    for _ in range(ranks):
        a,dk,dv = slopes(q, k, v, dout, out, lse)
        k,v,dk,dv = yield k, v, dk, dv
        dq = dq + a
    return dq, dk, dv

@wrong('ring_attention.home')
def rows_go_round(rank, ranks, q, k, v, dout, out, lse, slopes):
    dq,dk,dv = slopes(q, k, v, dout, out, lse)
    for _ in range(ranks - 1):
        q,dout,out,lse,dq = yield q, dout, out, lse, dq
        a,b,c = slopes(q, k, v, dout, out, lse)
        dq,dk,dv = dq + a,dk + b,dv + c
    (dq,) = yield (dq,)
    return dq, dk, dv

@wrong('ring_attention.home')
def every_rank_has_everything(rank, ranks, q, k, v, dout, out, lse, slopes):
    every = [(q, k, v, dout, out, lse)]
    for _ in range(ranks - 1): every.append((yield every[-1]))
    dq = sum(slopes(q, o[1], o[2], dout, out, lse)[0] for o in every)
    dk,dv = (sum(slopes(o[0], k, v, *o[3:])[i] for o in every) for i in (1, 2))
    return dq, dk, dv

@wrong('ring_attention.ring')
def all_keys_at_once(rank, ranks, q, kv, attend, merge):
    parts = [kv]
    for _ in range(ranks - 1): parts.append((yield parts[-1]))
    return attend(q, *map(torch.cat, zip(*parts)))[0]
