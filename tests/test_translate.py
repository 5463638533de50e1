"`to_cuda`: kernels become CUDA C that compiles without a warning and means the same."
import math, operator, re, subprocess, types, warnings
from functools import lru_cache

import numpy as np, pytest, torch

from gridstride import sim
from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.cpp.toolchain.compilers import CompilerMissing, common_flags, compiler, CPP_FOLDER, nvcc
from gridstride.cpp.toolchain.cache import build, headers_hash, run_command
from gridstride.cpp.frontend.reader import kernels
from gridstride.cpp.rewriters.rewrite import to_cpp
from gridstride.sim import cuda
from gridstride.diagnostics.errors import KernelError
from gridstride.translate import Translation, Untranslatable, to_cuda
from found import saying

TPB,TILE,SCALE,TAPS,OFFSETS,FLAG,BIG = 64,8,0.25,(0.25,0.5,0.25),(-1,0,1),True,2**40
TABLE,K33 = np.array([3.,1.,4.,1.]),np.arange(9.).reshape(3,3).astype('f4')
CONFIG = types.SimpleNamespace(n=3, eps=1e-6)
MODES = dict(plain={}, doubles=dict(numba_types=True), wide=dict(numba_types=True, all_int64=True))
HOST = '#ifndef __CUDACC_RTC__  // what follows is for the host'

def rng(): return np.random.default_rng(0)
def f4(*s): return rng().normal(size=s).astype('f4')
def f8(*s): return rng().normal(size=s)
def Z(*s, t='f8'): return np.zeros(s, t)
def body(t): return t.split(HOST)[0].strip('\n')

# kernels: each with its launch and its arguments

CASES = {}
def case(args, grid=1, block=64, shared=0, rtol=None):
    """Note a kernel to be translated, compiled, and compared with the simulator; `rtol`: where sums come in another
    order, or the C computes with float"""
    def _f(k):
        CASES[k.__name__] = k,args,grid,block,shared,rtol
        return k
    return _f

@case(lambda: [f4(20,30),f4(30,25)[::-1].copy(),Z(20,25,t='f4')], (4,3), (TILE,TILE), rtol=1e-5)
@cuda.jit
def matmul(m, n, out):
    "A product, tile by tile."
    ms = cuda.shared.array((TILE,TILE), np.float32)
    ns = cuda.shared.array((TILE,TILE), np.float32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    c,r = cuda.grid(2)
    (h,k),w = m.shape,n.shape[1]
    o = np.float32(0)
    for ph in range((k+TILE-1)//TILE):             # cdiv
        idx = ph*TILE
        ms[tr,tc] = m[r,idx+tc] if r < h and idx+tc < k else 0.
        ns[tr,tc] = n[idx+tr,c] if c < w and idx+tr < k else 0.
        cuda.syncthreads()
        for i in range(TILE): o += ms[tr,i] * ns[i,tc]
        cuda.syncthreads()
    if r < h and c < w: out[r,c] = o

@case(lambda: [f4(20,30),f4(30,25),Z(20,25,t='f4'),8], (4,3), (8,8), 2*64*4, rtol=1e-5)
@cuda.jit
def matmul_dynamic(m, n, out, tw):
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    r,c = cuda.blockIdx.y*cuda.blockDim.y + tr, cuda.blockIdx.x*cuda.blockDim.x + tc
    h,k = m.shape
    w = n.shape[1]
    shared = cuda.shared.array(0, np.float32)   # two tiles
    ms,ns = shared[:tw*tw],shared[tw*tw:2*tw*tw]
    o = 0.

    # along k
    for ph in range(math.ceil(k/tw)):
        idx = ph*tw
        ms[tr*tw + tc] = m[r,idx+tc] if r < h and idx+tc < k else 0.
        ns[tr*tw + tc] = n[idx+tr,c] if c < w and idx+tr < k else 0.
        cuda.syncthreads()      # all have filled
        for i in range(tw): o += ms[tr*tw + i] * ns[i*tw + tc]
        cuda.syncthreads()
    if r < h and c < w:
        out[r,c] = o

@case(lambda: [f4(3,20,22),Z(20,22,t='f4')], (2,2), (16,16))
@cuda.jit
def grey(img, out):
    c,r = cuda.grid(2)
    h,w = out.shape
    if r >= h or c >= w: return
    out[r,c] = 0.2989*img[0,r,c] + 0.5870*img[1,r,c] + 0.1140*img[2,r,c]

@case(lambda: [rng().integers(0,10,200),Z(10,t='i4')], 4)
@cuda.jit
def histogram(x, h):
    s = cuda.shared.array(10, np.int32)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    if t < 10: s[t] = 0
    cuda.syncthreads()
    if i < x.size: cuda.atomic.add(s, x[i], 1)
    cuda.syncthreads()
    if t < 10: cuda.atomic.add(h, t, s[t])

@case(lambda: [f4(200),Z(1,t='f4')], 4, rtol=1e-4)
@cuda.jit
def shuffled_sum(x, out):
    i = cuda.grid(1)
    v = x[i] if i < x.size else 0.
    d = 16
    while d:
        v += cuda.shfl_down_sync(0xffffffff, v, d)
        d >>= 1
    if cuda.laneid == 0: cuda.atomic.add(out, 0, v)

@case(lambda: [f4(250),Z(4,t='f4')], 4, rtol=1e-5)
@cuda.jit
def tree_sum(x, out):
    s = cuda.shared.array(TPB, np.float32)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    s[t] = x[i] if i < x.size else 0.
    cuda.syncthreads()
    h = cuda.blockDim.x//2
    while h > 0:
        if t < h: s[t] += s[t+h]
        cuda.syncthreads()
        h //= 2
    if t == 0: out[cuda.blockIdx.x] = s[0]

@case(lambda: [f4(1001),Z(1001,t='f4')], 2, 32)
@cuda.jit
def grid_stride(a, out):
    i = cuda.grid(1)
    stride = cuda.gridsize(1)
    for j in range(i, a.size, stride): out[j] = 2*a[j]
    while i < a.size:
        out[i] += a[i]
        i += stride

@case(lambda: [f8(2,8,4),Z(8,4,2)], 2, (4,4,2))
@cuda.jit
def three_dimensions(a, out):
    x,y,z = cuda.grid(3)
    nx,ny,nz = cuda.gridsize(3)
    d,h,w = out.shape
    if x < d and y < h and z < w: out[x,y,z] = x + nx*(y+ny*z) + a[z,x,y]

@case(lambda: [rng().integers(-1000,1000,64),rng().integers(-20,20,64),Z(64,15)])
@cuda.jit
def integers(x, y, out):
    i = cuda.grid(1)
    a,b = x[i],y[i]
    if b == 0: b = 3
    out[i,0] = a//b
    out[i,1] = a%b
    out[i,2] = a*b+a
    out[i,3] = (a << 3) ^ (b >> 1) | 5
    out[i,4] = ~a & 0xff
    out[i,5] = a**3
    out[i,6] = -a
    out[i,7] = abs(a) + min(a,b) - max(a,b,7)
    out[i,8] = a/b
    out[i,9] = (a > b) + (a == b)*2
    out[i,10] = a*1000003*1000003
    out[i,11] = int(a*0.7) + round(a*0.3) + int(b/3.)
    out[i,12] = a//-3 + a % -3
    out[i,13] = 2**(i%10)
    out[i,14] = divmod(a,b)[0]*10 + divmod(a,b)[1]

@case(lambda: [rng().integers(-2**31,2**31,64).astype('i4'),rng().integers(0,2**32,64).astype('u4'),
               rng().integers(0,256,64).astype('u1'),Z(64,14),Z(64,t='u1')])
@cuda.jit
def small_integers(x, u, b, out, low):
    i = cuda.grid(1)
    t = x[i]
    if i % 2: t = u[i]
    s = np.int8(300 + i)
    out[i,0] = t + s
    out[i,1] = np.uint16(-1) + s
    out[i,2] = x[i]*x[i] + x[i]
    out[i,3] = max(u[i], np.uint8(7)) - min(s, 5)
    out[i,4] = u[i]*x[i]/2
    out[i,5] = -u[i] % 7
    out[i,6] = (u[i] << 30) + (x[i] >> 1)
    out[i,7] = abs(s) + u[i]**2 + x[i]**2
    out[i,8] = b[i] - u[i]
    out[i,9] = b[i] - 200
    out[i,10] = ~b[i]
    out[i,11] = x[i]//7 + x[i]%-7 + u[i]//9
    out[i,12] = x[i] < u[i]
    out[i,13] = b[i]/3 + b[i]*0.5
    low[i] = x[i]*x[i] + b[i]

@case(lambda: [rng().integers(0,2**63,64).astype('u8'),rng().integers(-5,2**62,64),Z(64,t='u8'),Z(64,t='i8'),5])
@cuda.jit
def wide_integers(x, y, out, random, n):
    i = cuda.grid(1)
    h = x[i]
    for j in range(4):
        h ^= h << np.uint64(13)
        h ^= h >> np.uint64(7)
        h *= np.uint64(6364136223846793005)
    out[i] = h
    out[i] += y[i] < x[i]
    seed = i*7919 + 1
    for _ in range(n): seed = (seed*1103515245 + 12345) & 0x7fffffff
    v = np.uint32(i)
    for _ in range(3): v = np.uint32(v*1664525 + 1013904223)
    random[i] = seed + v

@case(lambda: [Z(64,6,t='i8'),-3])
@cuda.jit
def loops(out, s):
    i = cuda.grid(1)
    n,v = 0,i+1
    while v > 1:
        v = v//2 if v%2==0 else 3*v+1
        n += 1
    out[i,0] = n
    n,j = 0,0
    while True:
        j += 1
        if j > 40: break
        if j % 3==i % 3: continue
        for q in range(j, i, 2):
            if q==17: break
            if q & 1: continue
            n += q
    for j in range(i, -3, -2): n = n*3 % 1001 + j
    for j in range(i):
        j = j*2                                # does not alter the rounds
        n += j
    out[i,1] = n
    last = -1
    for m in range(3, i): last = m
    for p in range(10):
        if p > i: break
    out[i,2] = last + 100*p
    a = 5
    for a in range(a, a+3): n += a
    e = 4
    for w in range(e): e += w                  # four rounds
    out[i,3] = a + n + e
    t = 0
    for w in range(20, 0, s): t += w
    for w in range(0, 20, -s): t += w
    out[i,4] = t
    k = 0
    while 0 < (i+k)%32 < 20 + k and k < 10: k += 1
    out[i,5] = k

@case(lambda: [Z(64,4),(3,4.5),(f8(64),2)])
@cuda.jit
def tuples(out, args, pair):
    i = cuda.grid(1)
    a,b = (i,i+1) if i%2 else (2*i,3)
    a,b = b,a
    (c,d),e = (a,b),a-b
    p = (c,d)
    q = p[0]*2 + p[1] + args[0]*args[1]
    for w,z in ((1,2),(3,4)): q += w*z
    for n,v in enumerate((2.,3.,5.)): out[i,1] += n*v
    for x,y in zip((1,2),(10,20)): q += x*y
    out[i,0] = c*100 + d*10 + e + q
    out[i,2] = OFFSETS[2] + TAPS[1] + pair[0][i]*pair[1]
    s = 0
    for o in OFFSETS: s += o*i
    out[i,3] = s + len(OFFSETS) + (i in (1,2,3)) + (i not in OFFSETS)

@case(lambda: [f4(64),f4(64)[::-1].copy(),Z(64,16,t='f4')], rtol=1e-4)
@cuda.jit
def floats(x, y, out):
    i = cuda.grid(1)
    a,b = x[i],y[i]
    out[i,0] = a*0.1 + b*SCALE - 3
    out[i,1] = math.sqrt(abs(a)) + math.exp(b) + math.sin(a)*math.atan2(a,b) + math.pow(abs(a),1.5)
    out[i,2] = a//b
    out[i,3] = a%b
    out[i,4] = a**2 + b**3 + (a-b)**2 + abs(a)**0.5
    out[i,5] = min(a,b) + max(a,0.) + abs(b)
    out[i,6] = math.floor(a*10) + math.ceil(b*3) + int(a*5) + round(b*7)
    out[i,7] = -a if a > b else b
    out[i,8] = 1/(1+math.exp(-a))
    out[i,9] = math.fabs(a) + math.log(abs(a)+1) + math.tanh(b) + math.hypot(a,b) + math.erf(a)
    out[i,10] = np.float32(a*3.7) + np.float64(b)
    out[i,11] = math.pi*a + math.e
    out[i,12] = math.isnan(a) + math.isinf(b) + 1
    out[i,13] = round(a, 2) + math.copysign(b, a) + math.fmod(a, b) + math.degrees(a)
    f,w = math.modf(a)
    m,e = math.frexp(a)
    out[i,14] = f + 10*w + m + 10*e + math.ldexp(b, 3)
    out[i,15] = np.sign(a) + np.square(b) + np.floor(a) + np.rint(b) + operator.add(1, a)

@case(lambda: [np.where(np.arange(64)%5==0, np.nan, f8(64)),Z(64,4)])
@cuda.jit
def not_a_number(x, out):
    i = cuda.grid(1)
    out[i,0] = min(x[i], 0.) + max(0., x[i])
    out[i,1] = np.fmin(x[i], 1.)
    best = -math.inf
    for j in range(4):
        if x[j] > best: best = x[j]
    out[i,2] = best
    out[i,3] = np.nan if i%2 else np.inf

@case(lambda: [f4(64),f4(64)[::-1].copy(),Z(64,9,t='f4')], rtol=2e-6)
@cuda.jit
def float_results(x, y, out):
    i = cuda.grid(1)
    out[i,0] = x[i]*0.5
    out[i,1] = x[i]*0.1
    out[i,2] = x[i]/3
    out[i,3] = math.sqrt(x[i]*x[i])
    out[i,4] = x[i] + y[i]*0.1
    out[i,5] = x[i] if i%2 else 0.
    out[i,6] = 1/(x[i]+2)
    out[i,7] = i/3
    out[i,8] = x[i]*i

@case(lambda: [f4(64).astype('f2'),f4(64).astype('f2')+3,Z(64,6,t='f2'),Z(64,t='f4')], rtol=5e-4)
@cuda.jit
def halves(x, y, out, wide):
    i = cuda.grid(1)
    a,b = x[i],y[i]
    out[i,0] = a*b
    out[i,1] = a*0.1
    out[i,2] = math.sqrt(abs(a))
    out[i,3] = a/b - 1
    out[i,4] = max(a,b)
    out[i,5] = cuda.fp16.hadd(a, b)
    wide[i] = a*b
    if a > b: wide[i] += 1
    if a > 0.5: wide[i] += 2

@case(lambda: [f8(24,34)[::2,1::2][:12,:16],np.asfortranarray(f8(12,16)),f8(40)[::-3][:12],Z(12,16)], (2,3), (8,4))
@cuda.jit
def strides(a, b, c, out):
    x,y = cuda.grid(2)
    if y < out.shape[0] and x < out.shape[1]:
        row,col = a[y],b[:,x]
        out[y,x] = a[y,x] + b[y,x]*10 + c[y] + row[x] + col[y]*2 + a.T[x,y] + len(row) + col.size

@case(lambda: [f8(20),Z(64),9])
@cuda.jit
def slices(x, out, n):
    i = cuda.grid(1)
    odd = x[1:16:2]
    tail = x[-5:]
    mid = x[3:n]
    out[i] = odd[i%8] + len(x[:n:3]) + tail[i%5] + mid[0] + mid.size + x[5:][2] + x[:100].shape[0]

@case(lambda: [f4(64),Z(64,t='f4')], rtol=1e-5)
@cuda.jit
def two_buffers(x, out):
    a,b = cuda.shared.array(64, np.float32),cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    a[t] = x[t]
    cuda.syncthreads()
    src,dst = a,b
    d = 1
    while d < 64:
        dst[t] = src[t] + (src[t-d] if t >= d else 0.)
        cuda.syncthreads()
        src,dst = dst,src
        d *= 2
    out[t] = src[t]

@case(lambda: [f4(64),Z(64)], rtol=1e-5)
@cuda.jit
def constants(x, out):
    i = cuda.grid(1)
    a = cuda.local.array(5, np.float32)
    acc = cuda.local.array((2,3), np.int64)
    c,k = cuda.const.array_like(TABLE),cuda.const.array_like(K33)
    for j in range(5): a[j] = x[i]*j
    for p in range(2):
        for q in range(3): acc[p,q] = p*i + q
    total = 0.
    for j in range(5): total += a[4-j]*j
    r = acc[1]
    out[i] = total + acc[1,2] + c[i%4] + k[i%3,1] + r[0] + CONFIG.n + CONFIG.eps + BIG*0. + FLAG

@cuda.jit(device=True)
def clamp(v, lo, hi):
    "v between lo and hi"
    if v < lo: return lo
    if v > hi: return hi
    return v
@cuda.jit(device=True)
def ordered(a, b):
    lo,hi = min(a, b),max(a, b)
    return lo,hi
@cuda.jit(device=True)
def block_sum(s, t, n=32):
    h = n//2
    while h:
        if t < h: s[t] += s[t+h]
        cuda.syncthreads()
        h //= 2
    return s[0]
@cuda.jit(device=True)
def at(m, i, j): return m[i,j] if 0 <= i < m.shape[0] and 0 <= j < m.shape[1] else 0.
@cuda.jit(device=True)
def fill(tile, t, v, unused): tile[t,0] = v

@case(lambda: [f4(64),f4(5,6),Z(64,t='f4')], 2, 32, rtol=1e-5)
@cuda.jit
def device_functions(x, m, out):
    s,t,i = cuda.shared.array(32, np.float32),cuda.threadIdx.x,cuda.grid(1)
    tile = cuda.shared.array((32,TILE), np.float32)
    s[t] = x[i]
    cuda.syncthreads()
    v = block_sum(s, t)
    lo,hi = ordered(x[i], 0.5)
    p,q = ordered(i, 7)
    fill(tile, t, v, unused=3)
    out[i] = v + clamp(i, 5, 20)*2 + clamp(x[i], hi=0.5, lo=-0.5) + lo*hi + p*q + at(m, t-1, t%3) + at(tile, t, 0)

@case(lambda: [rng().integers(0,100,96),np.ones(6,'f4'),np.ones(7),Z(8,t='i4'),Z(9,t='i8'),np.full(7,255,'u4'),
               np.where(np.arange(8)==7,0,255).astype('u8')], 3, 32)
@cuda.jit
def atomics(x, f, d, i4, i8, u4, u8):
    i = cuda.grid(1)
    v = x[i]
    cuda.atomic.add(f, 0, v); cuda.atomic.sub(f, 1, v); cuda.atomic.max(f, 2, v*0.5); cuda.atomic.min(f, 3, v*0.5)
    cuda.atomic.add(d, 0, v); cuda.atomic.sub(d, 1, v); cuda.atomic.max(d, 2, v); cuda.atomic.min(d, 3, v)
    cuda.atomic.nanmax(d, 4, v); cuda.atomic.nanmin(d, 5, v)
    cuda.atomic.add(i4, 0, v); cuda.atomic.sub(i4, 1, v); cuda.atomic.max(i4, 2, v); cuda.atomic.min(i4, 3, v)
    cuda.atomic.and_(i4, 4, v); cuda.atomic.or_(i4, 5, v); cuda.atomic.xor(i4, 6, v)
    cuda.atomic.add(i8, 0, v); cuda.atomic.sub(i8, 1, v); cuda.atomic.max(i8, 2, v); cuda.atomic.min(i8, 3, v)
    cuda.atomic.and_(i8, 4, v); cuda.atomic.or_(i8, 5, v); cuda.atomic.xor(i8, 6, v)
    cuda.atomic.add(u4, 0, v); cuda.atomic.sub(u4, 1, v); cuda.atomic.max(u4, 2, v); cuda.atomic.min(u4, 3, v)
    cuda.atomic.inc(u4, 4, 11); cuda.atomic.dec(u4, 5, 11)
    cuda.atomic.add(u8, 0, v); cuda.atomic.sub(u8, 1, v); cuda.atomic.max(u8, 2, v); cuda.atomic.min(u8, 3, v)
    cuda.atomic.inc(u8, 4, 11); cuda.atomic.dec(u8, 5, 11)
    if i == 7:
        cuda.atomic.exch(i8, 7, -5)
        i4[7] = cuda.atomic.cas(i4, 7, 0, 5) + cuda.atomic.cas(i8, 8, 0, 7)
        cuda.atomic.compare_and_swap(u8[7:], 0, 9)

@case(lambda: [np.r_[np.arange(32)%4,np.full(32,2)],Z(15,64,t='i8'),f4(64)])
@cuda.jit
def warps(x, out, f):
    t = cuda.threadIdx.x
    full = 0xffffffff
    out[0,t] = cuda.shfl_sync(full, t, 5)
    out[1,t] = cuda.shfl_up_sync(full, t, 3)
    out[2,t] = cuda.shfl_xor_sync(0xffffffff, t, 6)
    out[3,t] = cuda.all_sync(0xffffffff, x[t] < 3)
    out[4,t] = cuda.any_sync(0xffffffff, x[t] > 2)
    out[5,t] = cuda.ballot_sync(0xffffffff, x[t]==1)
    out[6,t] = cuda.match_any_sync(0xffffffff, x[t])
    m,same = cuda.match_all_sync(0xffffffff, x[t])
    out[7,t],out[8,t] = m,same
    if t%2: out[9,t] = cuda.activemask()
    out[10,t] = cuda.lanemask_lt() + cuda.laneid
    out[11,t] = cuda.syncthreads_count(x[t]) + cuda.syncthreads_and(x[t]) + cuda.syncthreads_or(x[t])
    cuda.syncwarp()
    f[t] = cuda.shfl_down_sync(-1, f[t], 1, 16)
    out[12,t] = cuda.eq_sync(0xffffffff, x[t] > 100) + cuda.warpsize
    if cuda.any_sync(0xffffffff, x[t]): out[13,t] = 1

@case(lambda: [rng().integers(1,2**31,64).astype('u4'),rng().integers(-2**40,2**62,64),Z(5,64,t='i8')])
@cuda.jit
def bits(x, y, out):
    i = cuda.grid(1)
    out[0,i] = cuda.popc(x[i]) + cuda.clz(x[i]) + cuda.ffs(x[i])
    out[1,i] = cuda.brev(x[i])
    out[2,i] = cuda.popc(y[i]) + cuda.clz(y[i]) + cuda.ffs(y[i])
    out[3,i] = cuda.brev(y[i])
    out[4,i] = cuda.clz(1) + cuda.popc(i) + cuda.ffs(i)

@case(lambda: [f8(64),Z(64)])
@cuda.jit
def scopes(x, out):
    i = cuda.grid(1)
    if i % 2:
        v = 1
        w = x[i]
    else:
        v = 0.5
        w = 2
    a = 5
    out[i] = v + w + a//2
    a = 0.25
    out[i] += a
    for j in range(3):
        if j == 0: z = i
        z += j
    out[i] += z
    for p in range(3): r = p
    r = i + 0.5
    out[int(r)] += r

@case(lambda: [f8(50),Z(64)])
@cuda.jit
def logic(x, out):
    i = cuda.grid(1)
    if 0 <= i < x.size < 1000: out[i] = 1
    if i < x.size and x[i] > 0: out[i] += 2
    out[i] += (i%3 and i%5) + (i%3 or 7)
    ok = i > 3 and i < 20 or i == 1
    ok |= i > 60
    if not ok: out[i] += 100
    if not (i < 5 and x[i] > 0): out[i] += 200
    out[i] += ok + (i > 7)*3 - (not ok) + (~ok)*8 + bool(i)
    n = 0
    while i+n < x.size and x[i+n] > 0: n += 1
    out[i] += 1000*n

@case(lambda: [Z(64),50,1.5,np.float32(2.5),np.int32(7),np.uint8(200),np.int64(2**40),np.uint64(12345)])
@cuda.jit
def numbers(out, n, a, b, c, d, e, f, flag=True, by=2):
    i = cuda.grid(1)
    if i >= n: return
    if flag: out[i] = a*2 + b + c*d + e - f
    n -= 1
    out[i] += by + flag + n

@case(lambda: [f8(64)], block=32)
@cuda.jit
def swap(x):
    i = cuda.grid(1)
    j = 63-i
    x[i],x[j] = x[j],x[i]
    a = b = i*2
    x[i] += a + b

@case(lambda: [f8(64),f8(8,8,2,1),Z(64),Z()])
@cuda.jit
def odd_names(float, int, double, new):
    i = cuda.grid(1)
    if i == 0: new[()] += 3
    max = float[i] + 2
    double[i] = max*int[i//8, i%8, 0, 0]

# the tests of all of them: one compilation per mode

def translated(mode): return {nm:to_cuda(k, *args(), **MODES[mode]) for nm,(k,args,*_) in CASES.items()}

def together(texts):
    "One source of several translations: the headers, then each in a namespace"
    heads = dict.fromkeys(l for t in texts.values() for l in body(t).split('\n') if l.startswith('#include'))
    parts = [f'namespace in_{nm} {{\n' + '\n'.join('' if l.startswith('#include') else l for l in body(t).split('\n'))
             + '\n}' for nm,t in texts.items()]
    return '\n'.join([*heads, *parts])

@lru_cache
def compiled(mode):
    texts = translated(mode)
    made = cuda_kernel(together(texts), name=[t.kernel for t in texts.values()])
    return {nm:(t, made[t.kernel]) for nm,t in texts.items()}

def copied(x):
    "A copy with the same layout"
    if isinstance(x, tuple): return tuple(map(copied, x))
    if not isinstance(x, np.ndarray): return x
    whole = x
    while isinstance(whole.base, np.ndarray): whole = whole.base
    start = x.__array_interface__['data'][0]-whole.__array_interface__['data'][0]
    return np.ndarray(x.shape, x.dtype, whole.copy('A').ravel('A'), start, x.strides)

def flat(args):
    return [o for a in args for o in (flat(a) if isinstance(a, tuple) else [a]) if isinstance(o, np.ndarray)]

@pytest.mark.slow
@pytest.mark.parametrize('mode', MODES)
@pytest.mark.parametrize('name', CASES)
def test_means_the_same(name, mode):
    k,args,grid,block,shared,rtol = CASES[name]
    given = args()
    mine,its = list(map(copied, given)),list(map(copied, given))
    t,made = compiled(mode)[name]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', sim.SameValueRace)
        k[grid,block,0,shared](*mine)
        made[grid,block,None,shared](*t.pack(its))
    # float32 sums may be fused, and come in another order; without `doubles`, what Numba computes
    # in double is computed in float
    rtol = rtol if rtol is not None else 1e-12 if mode!='plain' else 2e-6
    for want,got in zip(flat(mine), flat(its)):
        if want.dtype.kind in 'iub': np.testing.assert_array_equal(got, want)
        else: np.testing.assert_allclose(got.astype('f8'), want.astype('f8'), rtol=rtol, atol=rtol)

def in_every_mode():
    "One source, so that headers are read once"
    return together({f'{nm}_{mode}':t for mode in MODES for nm,t in translated(mode).items()})

def compile_silently(source, text, *command):
    "Fail if the compiler says anything; what it was silent about is not compiled again"
    def run(command, folder):
        status, log = run_command(command, folder)
        return status or len(log), log
    version = subprocess.run([command[0], '--version'], check=True, capture_output=True, text=True).stdout
    build({source: text}, [[*command, source]], version, headers_hash(CPP_FOLDER/'include'), run=run)

@pytest.mark.slow
def test_no_warnings():
    c, head = compiler(), '#include "emulator.h"\n#include "gridstride/tensor.h"\n'
    compile_silently('all.cpp', head + to_cpp(in_every_mode()), c.path, *common_flags(c), '-Wall', '-Wextra', '-c',
                     '-o', 'all.o')
    with pytest.raises(RuntimeError, match='unused variable'):
        compile_silently('bad.cpp', 'void f() { int i; }', c.path, '-Wall', '-fsyntax-only')

def _has_nvcc():
    try: return bool(nvcc())
    except CompilerMissing: return False

@pytest.mark.slow
@pytest.mark.skipif(not _has_nvcc(), reason='no nvcc')
def test_no_warnings_of_nvcc():
    compile_silently('all.cu', in_every_mode(), nvcc(), '-std=c++17', '-arch=sm_90', '-Xcompiler', '-Wall,-Wextra',
                     '-cubin', '-o', 'all.cubin')

@pytest.mark.parametrize('name', CASES)
def test_stable(name):
    k,args,*_ = CASES[name]
    assert to_cuda(k, *args())==to_cuda(k, *args())==to_cuda(k.py_func, *args())

def test_float_with_the_bits_of_double():
    "Where `doubles` computes with float, the result has every bit that it has in double"
    k,args,*_ = CASES['float_results']
    a,b = args(),args()
    t,made = compiled('doubles')['float_results']
    k[1,64](*a)
    made[1,64](*t.pack(b))
    np.testing.assert_array_equal(a[2], b[2])
    assert 'x[i]*0.5f' in t and '(float)(x[i]*0.1)' in t and 'sqrtf(' in t

# the text

def test_matmul_as_a_person_writes_it():
    t = to_cuda(matmul, *CASES['matmul'][1]())
    assert body(t)=='''// matmul(m: float32[:,::1], n: float32[:,::1], out: float32[:,::1])

constexpr int TILE = 8;

// A product, tile by tile.
__global__ void matmul(const float *m, const float *n, float *out, int h, int k, int w, int out_cols) {
    __shared__ float ms[TILE][TILE];
    __shared__ float ns[TILE][TILE];
    int tc = threadIdx.x, tr = threadIdx.y;
    int c = blockIdx.x*blockDim.x + threadIdx.x, r = blockIdx.y*blockDim.y + threadIdx.y;
    float o = 0.0f;
    for (int ph = 0; ph < (k + TILE - 1)/TILE; ph++) {  // cdiv
        int idx = ph*TILE;
        ms[tr][tc] = r < h && idx + tc < k ? m[r*k + idx + tc] : 0.0f;
        ns[tr][tc] = c < w && idx + tr < k ? n[(idx + tr)*w + c] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++) o += ms[tr][i]*ns[i][tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r*out_cols + c] = o;
}'''

def test_dynamic_shared_memory():
    t = to_cuda(matmul_dynamic, *CASES['matmul_dynamic'][1]())
    assert (body(t).split('\n\n', 1)[1]
            == '''__global__ void matmul_dynamic(const float *m, const float *n, float *out, int tw, \
int h, int k, int w, int out_cols) {
    int tc = threadIdx.x, tr = threadIdx.y;
    int r = blockIdx.y*blockDim.y + tr, c = blockIdx.x*blockDim.x + tc;
    extern __shared__ float shared[];  // two tiles
    float *ms = shared, *ns = shared + tw*tw;
    float o = 0.0f;

    // along k
    int end = (int)ceil((double)k/tw);
    for (int ph = 0; ph < end; ph++) {
        int idx = ph*tw;
        ms[tr*tw + tc] = r < h && idx + tc < k ? m[r*k + idx + tc] : 0.0f;
        ns[tr*tw + tc] = c < w && idx + tr < k ? n[(idx + tr)*w + c] : 0.0f;
        __syncthreads();  // all have filled
        for (int i = 0; i < tw; i++) o += ms[tr*tw + i]*ns[i*tw + tc];
        __syncthreads();
    }
    if (r < h && c < w) {
        out[r*out_cols + c] = o;
    }
}''')

def test_reduction():
    t = to_cuda(tree_sum, f4(8), f4(8))
    assert body(t).split('\n\n', 1)[1]=='''constexpr int TPB = 64;

__global__ void tree_sum(const float *x, float *out, int n) {
    __shared__ float s[TPB];
    int t = threadIdx.x, i = blockIdx.x*blockDim.x + threadIdx.x;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    int h = blockDim.x/2;
    while (h > 0) {
        if (t < h) s[t] += s[t + h];
        __syncthreads();
        h /= 2;
    }
    if (t == 0) out[blockIdx.x] = s[0];
}'''

def inner(t):
    "The statements of a kernel"
    return [l.strip() for l in body(t).split('__global__')[1].split('\n')[1:-1]]

def one(src, *args, names=None, **kw):
    "The statements of the kernel `k(x, out, ...)` with the body `src`"
    import linecache
    params = ', '.join(['x','out',*(names or [])])
    text = f'def k({params}):\n' + ''.join(f'    {l}\n' for l in src.split('\n'))
    file = f'<kernel {abs(hash(text))}>'
    linecache.cache[file] = len(text),None,text.splitlines(True),file
    space = dict(globals())
    exec(compile(text, file, 'exec'), space)
    return inner(to_cuda(space['k'], *(args or (f4(4),f4(4))), **kw))

def test_comments_and_blank_lines():
    got = one('''# first

i = cuda.grid(1)  # where
# guard
if i < 3:   # inside
    # do it
    v = x[i]

    # twice
    v *= 2.
    out[i] = v # done
    # end of branch
elif i == 3: # the edge
    out[i] = 0''')
    assert got==['// first', '', 'int i = blockIdx.x*blockDim.x + threadIdx.x;  // where', '// guard',
                 'if (i < 3) {  // inside', '// do it', 'float v = x[i];', '', '// twice', 'v *= 2.0f;',
                 'out[i] = v;  // done', '// end of branch', '} else if (i == 3) {  // the edge', 'out[i] = 0;', '}']

@pytest.mark.parametrize('src,want', [
    ('out[0] = x[cuda.threadIdx.x-1]', 'out[0] = x[(int)threadIdx.x - 1];'),
    ('if cuda.threadIdx.x-1 < 0: out[0] = 1', 'if ((int)threadIdx.x - 1 < 0) out[0] = 1;'),
    ('t = cuda.threadIdx.x\nif t//3 % 2: out[0] = t', 'if (t/3 % 2 != 0) out[0] = t;'),
    ('t = cuda.threadIdx.x-5\nout[0] = t//3', 'out[0] = floor_div(t, 3);'),
    ('out[0] = x[0]**2 + (x[0]-x[1])**2', 'out[0] = x[0]*x[0] + (x[0] - x[1])*(x[0] - x[1]);'),
    ('n = x.size\nout[0] = n*n', 'out[0] = (long long)n*n;'),
    ('n = 0\nfor j in range(3): n += 1\nout[0] = n', 'for (int j = 0; j < 3; j++) n++;'),
    ('print("at", x[0], 3, sep=":")', 'printf("at:%f:%d\\n", x[0], 3);'),
    ('assert x[0] > 0', 'assert(x[0] > 0);'),
    ('i = cuda.grid(1)\nif i >= x.size: return\nout[i] = 1', 'if (i >= n) return;'),
])
def test_a_line(src, want):
    assert want in one(src)

def test_unsigned_index_wraps_like_the_address():
    """x[threadIdx.x - 1] with 32 bits of index would be another address than x[-1] in thread 0;
    both are out of bounds, and the emulator reports it"""
    @cuda.jit
    def k(x, out): out[cuda.threadIdx.x] = x[cuda.threadIdx.x-1]
    t = to_cuda(k, f4(32), f4(32))
    with pytest.raises(sim.MemcheckError): cuda_kernel(t)[1,32](*t.pack((f4(32), f4(32))))

def test_what_is_read_only_is_const():
    t = to_cuda(device_functions, *CASES['device_functions'][1]())
    assert 'const float *x, const float *m, float *out' in t and 'block_sum(float *s' in t and 'at_(const float *m' in t

def test_sizes_that_nothing_needs_are_not_passed():
    @cuda.jit
    def k(m, n, out):
        h,k = m.shape
        k2,w = n.shape
        c,r = cuda.grid(2)
        if r < h and c < w: out[r,c] = m[r,0]*n[0,c]
    assert ('(const float *m, const float *n, float *out, int h, int k, int w, int out_cols)'
            in to_cuda(k, f4(2,3), f4(3,4), f4(2,4)))

def test_lines():
    t = to_cuda(device_functions, *CASES['device_functions'][1]())
    source,text = open(__file__).read().split('\n'),t.split('\n')
    where = {text[c-1].strip(): source[line-1].strip() for c,(file,line) in t.lines.items() if file==__file__}
    assert where['fill(tile, t, v);']=='fill(tile, t, v, unused=3)'
    assert where['if (v < lo) return lo;']=='if v < lo: return lo'
    assert all(text[c-1].strip() for c in t.lines)

# examples, signatures, options

def test_a_signature_is_enough():
    t = to_cuda(grey, 'void(float32[:,:,::1], float32[:,:])')
    assert ('__global__ void grey(const float *img, float *out, int img_1, int img_2, int h, int w, int out_stride0, '
            'int out_stride1)' in t)
    assert (to_cuda(tree_sum, 'void(f4[::1], f4[::1])')==to_cuda(tree_sum, f4(3), f4(3))
            == to_cuda(tree_sum, torch.zeros(3), cuda.to_device(f4(3))))

def test_python_floats_are_weak():
    @cuda.jit
    def k(x, a, out):
        i = cuda.grid(1)
        t = 0.
        for j in range(3): t += x[i]*a
        out[i] = math.sqrt(t)*0.1
    t = to_cuda(k, f4(4), 2., f4(4))
    assert 'double' not in body(t) and 'float a' in t and 'float t = 0.0f;' in t and '0.1f' in t
    assert 'double t = 0.0;' in to_cuda(k, f4(4), 2., f4(4), numba_types=True)
    assert 'double t = 0.0;' in to_cuda(k, f8(4), 2., f8(4))

def test_wide():
    t = body(to_cuda(grid_stride, f4(4), f4(4), all_int64=True))
    assert not re.search(r'\bint\b', t) and '(long long)blockIdx.x*blockDim.x' in t

@pytest.mark.slow
def test_torch_tensors_of_sixteen_bits():
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        out[i] = x[i]*2.5
    x = torch.arange(32.).bfloat16()
    out = torch.zeros_like(x)
    t = to_cuda(k, x, out)
    cuda_kernel(t)[1,32](*t.pack((x, out)))
    assert torch.equal(out, (x.float()*2.5).bfloat16())

def test_numba_kernels_by_their_py_func():
    assert (to_cuda(types.SimpleNamespace(py_func=tree_sum.py_func, __name__='tree_sum'), f4(3), f4(3))
            == to_cuda(tree_sum, f4(3), f4(3)))

# the launcher, cuda_kernel and pack

@pytest.mark.slow
def test_launcher():
    t = to_cuda(matmul_dynamic, *CASES['matmul_dynamic'][1]())
    a,b,out = torch.randn(20,30),torch.randn(30,25),torch.zeros(20,25)
    m = load_cuda(t)
    m.launch_matmul_dynamic(a, b, out, 8, [4,3], [8,8], 2*64*4)
    torch.testing.assert_close(out, a@b)
    for args,what in (((a.double(),b,out,8),'m is Double'), ((a,b.T,out,8),'n must be contiguous'),
                      ((a,b,out[0],8),'out has 1 dimensions'), ((a,b,out,0),None)):
        if what is None: continue
        with pytest.raises(RuntimeError, match=what): m.launch_matmul_dynamic(*args, [4,3], [8,8], 512)
    with pytest.raises(TypeError): m.launch_matmul_dynamic(a, b, out, 2**31, [1], [1])

@pytest.mark.slow
def test_launcher_reads_strides():
    @cuda.jit
    def k(x, out):
        r,c = cuda.grid(2)
        if r < x.shape[0] and c < x.shape[1]: out[r,c] = x[r,c]
    x,out = torch.arange(24.).reshape(4,6).T,torch.zeros(6,4)
    load_cuda(to_cuda(k, x, out)).launch_k(x, out, [1], [8,8])
    assert torch.equal(x, out)

def test_divisors_are_checked():
    @cuda.jit
    def k(x, n): x[0] = cuda.threadIdx.x//n
    t = to_cuda(k, f4(1), 3)
    assert 'threadIdx.x/n' in t
    with pytest.raises(RuntimeError, match='n must be .*1'): load_cuda(t).launch_k(torch.zeros(1), -3, [1], [1])
    with pytest.raises(TypeError, match='n is -3'): t.pack((f4(1), -3))
    assert 'floor_div(' in to_cuda(k, f4(1), -3)

def test_pack():
    t = to_cuda(numbers, *CASES['numbers'][1]())
    assert isinstance(t, str) and isinstance(t, Translation) and t.kernel=='numbers'
    assert [p.name for p in t.params]==['out','n','a','b','c','d','e','f','flag','by']
    packed = t.pack(CASES['numbers'][1]())
    assert packed[1:]==[50, 1.5, 2.5, 7, 200, 2**40, 12345, True, 2]
    assert [p.type for p in t.params][1:6]==['int','double','float','int','unsigned char']

@pytest.mark.parametrize('change,what', [((0,f8(4)),'x was translated as float32'), ((0,f4(8)[::2]),'layout that'),
    ((1,2.5),'integer'), ((1,2**40),'this translation'), ((1,f4(3)),'a scalar')])
def test_pack_refuses(change, what):
    @cuda.jit
    def k(x, n, out): out[0] = x[n]
    args = [f4(4), 2, f4(4)]
    t = to_cuda(k, *args)
    args[change[0]] = change[1]
    with pytest.raises((TypeError,Untranslatable), match=what): t.pack(args)
    with pytest.raises(TypeError, match='expected 3'): t.pack(args[:2])

def test_the_kernel_alone():
    "cuda_kernel takes the text with its host function"
    t = to_cuda(tree_sum, f4(100), f4(2))
    assert [k.name for k in kernels(t)]==['tree_sum']
    x,out = f4(100),f4(2)
    cuda_kernel(t)[2,64](x, out, 100)
    np.testing.assert_allclose(out, [x[:64].sum(), x[64:].sum()], rtol=1e-5)

# errors

@cuda.jit(device=True)
def endless(n): return 1 if n < 2 else n*endless(n-1)
@cuda.jit(device=True)
def sometimes(n):
    if n > 3: return 5
def not_compiled(v): return v
@cuda.jit(device=True)
def array_and_number(x): return x,1
@cuda.jit(device=True)
def nested(v): return v,(v,v)
HIDDEN = {}
exec(compile('def hidden(x, out): x[0] = 1', '<nowhere>', 'exec'), HIDDEN)

@pytest.mark.parametrize('src,what,fix', [
    ('x[0] = not_compiled(x[1])', 'cannot call not_compiled', 'device=True'),
    ('x[0] = endless(3)', 'endless', 'a loop'),
    ('x[0] = sometimes(3)', 'some paths', 'a return'),
    ('v = [1,2]', 'a list', 'tuple'),
    ('try: x[0] = 1\nexcept ValueError: pass', 'try', 'no exceptions'),
    ('x[0] = x.max()', "'max'", ''),
    ('x[0] = x + 1', 'operand of', 'elements'),
    ('x[1.5] = 1', 'an integer', '//'),
    ('x[0] = nothing_like_this', 'nothing_like_this', ''),
    ('return x[0]', 'a value', 'array'),
    ('x[0] = math.sqrt(x)', r'math\.sqrt', ''),
    ('x[0] = math.sqrt(1, 2)', 'these arguments', ''),
    ('s = cuda.shared.array(x.size, np.float32)', 'compile-time', 'cuda.shared.array\\(0'),
    ('for v in x: out[0] += v', 'loop .*float32 array', 'range'),
    ('x[0,1] = 3', '2 indices', ''),
    ('x[:3] = 1', 'x, .*slice', 'loop'),
    ('x[0] = x[0] & 3', 'got a float32', 'int'),
    ('x[0] = 1+2j', 'complex', 'two floats'),
    ('print(f"{x[0]}")', 'an f-string', 'values'),
    ('out[0] = x[0] if x.size else x', 'conditional expression', 'if statement'),
    ('if x[0] > 1: v = x\nelse: v = 3\nout[0] = v[0]',
     saying('v', 'int64', 'float32 array', 1, 'line 2 (if'), 'two names'),
    ('x[0] = q\nq = 1', 'q is read', ''),
    ('cuda.atomic.add(x, 0)', 'these arguments', ''),
    ('x[0] = tree_sum(x, x)', 'tree_sum is', 'device=True'),
    ('x[0] = cuda.syncthreads()', 'hold this', ''),
    ('cuda.syncthreads', r'cuda\.syncthreads without', r'Write cuda.syncthreads'),
    ('x[0] = x[1]+cuda.syncthreads()', r'returns nothing .*\+', ''),
    ('if cuda.syncthreads(): x[0] = 1', 'returns nothing', ''),
    ('x[cuda.syncthreads()] = 1', 'returns nothing', ''),
    ('x["a"] = 1', "got 'a'", ''),
    ('a,b = array_and_number(x)\nx[0] = b', 'an array', 'the array'),
    ('a,b = nested(x[0])', 'nested tuple', 'one tuple'),
    ('s = cuda.shared.array(0, np.float32)\ns[0] = 1\nx[0] = s.shape[0]', 'size of s', 'argument'),
])
def test_untranslatable(src, what, fix):
    with pytest.raises(Untranslatable, match=what) as e: one(src)
    assert re.search(fix, str(e.value)) and e.value.kernel in ('k','endless','sometimes','array_and_number','nested')
    assert e.value.source and f'line {e.value.line}: {e.value.source}' in str(e.value)
    assert isinstance(e.value, KernelError)

@pytest.mark.parametrize('make,what', [
    (lambda: to_cuda(HIDDEN['hidden'], f4(1), f4(1)), 'source'),
    (lambda: to_cuda(eval(compile('lambda x: x', '<nowhere>', 'eval')), f4(1)), 'source'),
    (lambda: to_cuda('tree_sum', f4(1)), 'a kernel'),
    (lambda: to_cuda(tree_sum), r'2 arguments \(x, out\)(.|\n)*signature'),
    (lambda: to_cuda(tree_sum, f4(1)), '1 example'),
    (lambda: to_cuda(tree_sum, 'void(float32[:])'), 'signature has 1'),
    (lambda: to_cuda(tree_sum, 'float32'), 'a signature'),
    (lambda: to_cuda(tree_sum, 'void(float31[:], float32[:])'), 'a type'),
    (lambda: to_cuda(tree_sum, np.array([object()]), f4(1)), 'x is .*object'),
    (lambda: to_cuda(tree_sum, None, f4(1)), 'x is .*NoneType'),
    (lambda: to_cuda(tree_sum, f4(1).astype('c8'), f4(1)), 'x is .*complex64'),
])
def test_examples_that_do_not_do(make, what):
    with pytest.raises(Untranslatable, match=what): make()

def test_atomics_that_cuda_has_not():
    @cuda.jit
    def k(x): cuda.atomic.add(x, 0, 1)
    with pytest.raises(Untranslatable, match='no cuda.atomic.add for int8') as e: to_cuda(k, np.zeros(1, np.int8))
    assert e.value.source.startswith('def k')

def test_what_is_not_translated_after_a_colon_is_reported_with_its_line():
    @cuda.jit
    def k(x):
        for i in range(3): cuda.atomic.add(x, i, 1)
        cuda.syncthreads()
    with pytest.raises(Untranslatable, match='no cuda.atomic.add for int8') as e: to_cuda(k, np.zeros(3, np.int8))
    assert e.value.source.startswith('for i') and e.value.line == k.py_func.__code__.co_firstlineno + 2
