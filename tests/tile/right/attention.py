"Attention: forward with an online softmax, causal or not, and backward; rotary embedding."
import torch
import triton, triton.language as tl

from tile_corpus import cdiv, f16, normal, right, unwritten

SUMS = 'weights are rounded to float16 before the second product, and results after it: 2**-11 of values near 1'


@triton.jit
def attend(acc, total, high, q, k_ptr, v_ptr, scale, first, last, n, om, BN: tl.constexpr, D: tl.constexpr,
           DIAGONAL: tl.constexpr):
    "The keys from `first` to `last`, for a block of queries"
    d = tl.arange(0, D)
    for start in range(first, last, BN):
        start = tl.multiple_of(start, BN)
        on = start + tl.arange(0, BN)
        k = tl.load(k_ptr + on[None, :] * D + d[:, None], mask=on[None, :] < n, other=0.0)
        s = tl.dot(q, k) * scale
        s = tl.where(on[None, :] < n, s, -float('inf'))
        if DIAGONAL:
            s = tl.where(om[:, None] >= on[None, :], s, -float('inf'))
        new = tl.maximum(high, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        fade = tl.math.exp2(high - new)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(v_ptr + on[:, None] * D + d[None, :], mask=on[:, None] < n, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * fade[:, None])
        high = new
    return acc, total, high


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, n, scale, BM: tl.constexpr, BN: tl.constexpr,
                     D: tl.constexpr, CAUSAL: tl.constexpr):
    block, head = tl.program_id(0), tl.program_id(1)
    q_ptr += head * n * D
    k_ptr += head * n * D
    v_ptr += head * n * D
    out_ptr += head * n * D
    om, d = block * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + om[:, None] * D + d[None, :], mask=om[:, None] < n, other=0.0)
    acc, total = tl.zeros((BM, D), tl.float32), tl.zeros((BM,), tl.float32)
    high = tl.full((BM,), -float('inf'), tl.float32)
    scale *= 1.44269504  # powers of two instead of e
    if CAUSAL:
        low = block * BM
        acc, total, high = attend(acc, total, high, q, k_ptr, v_ptr, scale, 0, low, n, om, BN, D, False)
        acc, total, high = attend(acc, total, high, q, k_ptr, v_ptr, scale, low, low + BM, n, om, BN, D, True)
    else:
        acc, total, high = attend(acc, total, high, q, k_ptr, v_ptr, scale, 0, n, n, om, BN, D, False)
    tl.store(lse_ptr + head * n + om, high + tl.math.log2(total), mask=om < n)
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + om[:, None] * D + d[None, :], out, mask=om[:, None] < n)


def attention(go, causal):
    heads, n, d, scale = 2, 50, 32, .2
    q, k, v = (normal(heads, n, d, dtype=f16) for _ in range(3))
    out, lse = unwritten(heads, n, d, dtype=f16), unwritten(heads, n)
    go(attention_kernel, (cdiv(n, 32), heads), q, k, v, out, lse, n, scale, BM=32, BN=16, D=d, CAUSAL=causal)
    s = q.double() @ k.double().mT * scale
    if causal: s = s.masked_fill(~torch.ones(n, n, dtype=bool).tril(), -torch.inf)
    return [(out, s.softmax(-1) @ v.double()), (lse, s.logsumexp(-1) * 1.4426950408889634)]

@right(rtol=2e-3, atol=1e-3, why=SUMS)
def flash_attention(go): return attention(go, False)

@right(rtol=2e-3, atol=1e-3, why=SUMS)
def flash_attention_causal(go): return attention(go, True)


@triton.jit
def attention_backward_kernel(q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, n, scale,
                              BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    "dk and dv of a block of keys; its part of dq is added atomically"
    on, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    keys = on[:, None] * D + d[None, :]
    k, v = tl.load(k_ptr + keys, on[:, None] < n, 0.), tl.load(v_ptr + keys, on[:, None] < n, 0.)
    dk, dv = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    for start in range(0, n, BM):
        om = start + tl.arange(0, BM)
        queries, inside = om[:, None] * D + d[None, :], om[:, None] < n
        q, do = tl.load(q_ptr + queries, inside, 0.), tl.load(do_ptr + queries, inside, 0.)
        lse, delta = tl.load(lse_ptr + om, om < n, float('inf')), tl.load(delta_ptr + om, om < n, 0.)
        p = tl.exp(tl.dot(q, tl.trans(k), input_precision='ieee') * scale - lse[:, None])
        p = tl.where(on[None, :] < n, p, 0.)
        dv += tl.dot(tl.trans(p), do, input_precision='ieee')
        ds = p * (tl.dot(do, tl.trans(v), input_precision='ieee') - delta[:, None]) * scale
        dk += tl.dot(tl.trans(ds), q, input_precision='ieee')
        tl.atomic_add(dq_ptr + queries, tl.dot(ds, k, input_precision='ieee'), mask=inside)
    tl.store(dk_ptr + keys, dk, mask=on[:, None] < n)
    tl.store(dv_ptr + keys, dv, mask=on[:, None] < n)

@right(rtol=1e-4, atol=1e-5, why='forty sums of products of sums of sixteen, 6e-8 each')
def attention_backward(go):
    n, d, scale = 40, 16, .25
    leaves = [normal(n, d) for _ in range(3)]
    do, lse, dq, dk, dv = normal(n, d), unwritten(n), torch.zeros(n, d), unwritten(n, d), unwritten(n, d)
    q, k, v = (o.double().requires_grad_() for o in leaves)
    s = q @ k.T * scale
    out = s.softmax(1) @ v
    out.backward(do.double())
    lse, delta = s.logsumexp(1).detach().float(), (out * do).sum(1).detach().float()
    go(attention_backward_kernel, cdiv(n, 16), *leaves, do, lse, delta, dq, dk, dv, n, scale, BM=16, BN=16, D=d)
    return list(zip((dq, dk, dv), (q.grad, k.grad, v.grad)))


@triton.jit
def rope_kernel(x_ptr, cos_ptr, sin_ptr, heads, HALF: tl.constexpr, BACK: tl.constexpr):
    "Turned in place: the first half of a head and the second are the two coordinates"
    token, head = tl.program_id(0), tl.program_id(1)
    c = tl.arange(0, HALF)
    at = (token * heads + head) * 2 * HALF + c
    cos, sin = tl.load(cos_ptr + token * HALF + c), tl.load(sin_ptr + token * HALF + c)
    if BACK:
        sin = -sin
    a, b = tl.load(x_ptr + at), tl.load(x_ptr + at + HALF)
    tl.store(x_ptr + at, a * cos - b * sin)
    tl.store(x_ptr + at + HALF, b * cos + a * sin)

@right(rtol=1e-6, atol=1e-6, why='two products and a sum, each rounded')
def rope(go):
    x, angle = normal(5, 3, 32), torch.rand(5, 16)*6
    cos, sin, turned = angle.cos(), angle.sin(), x.clone()
    go(rope_kernel, (5, 3), turned, cos, sin, 3, HALF=16, BACK=False)
    a, b = x.double().chunk(2, -1)
    c, s = cos.double()[:, None], sin.double()[:, None]
    want, back = torch.cat([a*c - b*s, b*c + a*s], -1), turned.clone()
    go(rope_kernel, (5, 3), back, cos, sin, 3, HALF=16, BACK=True)
    return [(turned, want), (back, x.double())]
