import numpy as np
import torch
from gridstride import triton
from gridstride.kernels.quant import formats

from . import right

tl = triton.language


@right('quantization.bytes')
def in_torch(weights, bits, group, gbs):
    return torch.tensor(gbs*1e9, dtype=torch.float64)/(weights*bits/8 + weights/group*2)

@right('quantization.group')
def with_own_decibels(w, least):
    n = w.shape[1]
    for g in (n, 128, 64, 32):
        if n%g: continue
        o = w.reshape(-1, g); s = o.abs().amax(1, keepdim=True)/7
        got = ((o/s).round()*s).reshape(w.shape)
        if 10*((w**2).sum()/((w - got)**2).sum()).log10() >= least: return 'row' if g==n else g

@right('quantization.group')
def numpys_integer(w, least):
    sizes = np.array([128, 64, 32])
    for g in ['row', *sizes[w.shape[1]%sizes==0]]:
        own = formats.symmetric(w, 4, g if isinstance(g, str) else int(g))
        if formats.snr_db(w, formats.dequantize_ints(own)) >= least: return g

@right('quantization.order')
def by_numpy(q):
    n = (q.numpy().astype(np.uint32) + 8).reshape(len(q), -1, 4, 2)
    a,b = n[...,0],n[...,1]
    s = sum(a[...,i] << np.uint32(4*i) for i in range(4)) | sum(b[...,i] << np.uint32(16 + 4*i) for i in range(4))
    return torch.from_numpy(s.astype(np.uint32).view(np.int32).copy())

@right('quantization.three')
def by_unpackbits(packed):
    bits = np.unpackbits(packed.numpy(), axis=1, bitorder='little').reshape(len(packed), -1, 3)
    return torch.from_numpy((bits@np.array([1,2,4])).astype(np.int8) - np.int8(4))

@right('quantization.two')
def a_byte_per_column():
    @triton.jit
    def k_(x, w, scales, y, h, k, G: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
        r = tl.program_id(0)*HEIGHT + tl.arange(0, HEIGHT)
        s = tl.zeros((HEIGHT,), tl.float32)
        for first in range(0, k, BLOCK):
            c = first + tl.arange(0, BLOCK)
            m = (r[:,None] < h) & (c < k)
            b = tl.load(w + r[:,None]*(k//4) + c//4, mask=m, other=0)
            n = ((b >> (2*(c%4))) & 3).to(tl.float32) - 2
            sc = tl.load(scales + r[:,None]*(k//G) + c//G, mask=m, other=0)
            s += tl.sum(n*sc*tl.load(x + c, mask=c < k, other=0), 1)
        tl.store(y + r, s, mask=r < h)
    return k_

@right('quantization.two')
def four_columns_of_a_byte():
    @triton.jit
    def k_(x, w, scales, y, h, k, G: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
        r = (tl.program_id(0)*HEIGHT + tl.arange(0, HEIGHT))
        total = tl.zeros((HEIGHT, BLOCK//4), tl.float32)
        for first in range(0, k, BLOCK):
            v = tl.load(x + first + tl.arange(0, BLOCK), mask=first + tl.arange(0, BLOCK) < k, other=0)
            even,odd = tl.split(tl.reshape(v, (BLOCK//2, 2)))
            x0,x2 = tl.split(tl.reshape(even, (BLOCK//4, 2)))
            x1,x3 = tl.split(tl.reshape(odd, (BLOCK//4, 2)))
            d = first//4 + tl.arange(0, BLOCK//4)
            m = (r[:,None] < h) & (d < k//4)
            b = tl.load(w + r[:,None]*(k//4) + d, mask=m, other=0)
            p = ((b & 3).to(tl.float32) - 2)*x0 + ((b >> 2 & 3).to(tl.float32) - 2)*x1
            p += ((b >> 4 & 3).to(tl.float32) - 2)*x2 + ((b >> 6).to(tl.float32) - 2)*x3
            total += p*tl.load(scales + r[:,None]*(k//G) + d//(G//4), mask=m, other=0)
        tl.store(y + r, tl.sum(total, 1), mask=r < h)
    return k_

@right('quantization.two')
def a_scale_per_group_of_the_block():
    @triton.jit
    def k_(x, w, scales, y, h, k, G: tl.constexpr, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
        N: tl.constexpr = (BLOCK + G - 1)//G  # 1 where a group is longer than a block
        r = (tl.program_id(0)*HEIGHT + tl.arange(0, HEIGHT))[:,None]
        s = tl.zeros((HEIGHT,), tl.float32)
        for first in range(0, k, BLOCK):
            c, g = first + tl.arange(0, BLOCK), first//G + tl.arange(0, N)
            b = tl.load(w + r*(k//4) + c//4, mask=(r < h) & (c < k), other=0)
            v = ((b >> (2*(c%4)) & 3).to(tl.float32) - 2)*tl.load(x + c, mask=c < k, other=0)
            per_group = tl.sum(tl.reshape(v, (HEIGHT, N, BLOCK//N)), 2)
            s += tl.sum(per_group*tl.load(scales + r*(k//G) + g, mask=(r < h) & (g < k//G), other=0), 1)
        r = tl.program_id(0)*HEIGHT + tl.arange(0, HEIGHT)
        tl.store(y + r, s, mask=r < h)
    return k_
