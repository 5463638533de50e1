"""One kernel per lesson that has kernels in Python, or could have: what `sim.py engines` runs by both engines.

`CASES`: name -> (kernel, grid and block, arguments); the first two digits are the lesson's. The last array is written.
"""
import math

import numpy as np
from gridstride.sim import cuda

f32 = np.float32
rng = np.random.default_rng(0)


def normal(*shape): return rng.normal(size=shape).astype(f32)
def empty(*shape, dtype=f32): return np.zeros(shape, dtype)
def integers(n, *shape, dtype=np.int32): return rng.integers(0, n, shape).astype(dtype)


@cuda.jit
def gray_k(x, out):
    i = cuda.grid(1)
    if i < out.size: out[i] = f32(.3)*x[0,i] + f32(.59)*x[1,i] + f32(.11)*x[2,i]


@cuda.jit
def product_k(m, n, out):
    c,r = cuda.grid(2)
    o = f32(0)
    for i in range(m.shape[1]): o += m[r,i]*n[i,c]
    out[r,c] = o


@cuda.jit
def tiled_k(m, n, out):
    ms,ns = cuda.shared.array((16,16), f32),cuda.shared.array((16,16), f32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    c,r = cuda.grid(2)
    o = f32(0)
    for idx in range(0, m.shape[1], 16):
        ms[tr,tc] = m[r,idx+tc]
        ns[tr,tc] = n[idx+tr,c]
        cuda.syncthreads()
        for i in range(16): o += ms[tr,i]*ns[i,tc]
        cuda.syncthreads()
    out[r,c] = o


@cuda.jit
def escape_k(most, out):
    c,r = cuda.grid(2)
    x0,y0 = 3*c/out.shape[1] - 2.25,3*r/out.shape[0] - 1.5
    x,y,n = 0.,0.,0
    while n < most and x*x + y*y < 4: x,y,n = x*x - y*y + x0,2*x*y + y0,n + 1
    out[r,c] = n


@cuda.jit
def swizzled_k(x, out):
    s = cuda.shared.array((32,32), f32)
    tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
    c0,r0 = cuda.blockIdx.x*32,cuda.blockIdx.y*32
    for i in range(0, 32, 8): s[tr+i, tc ^ (tr+i)] = x[r0+tr+i, c0+tc]
    cuda.syncthreads()
    for i in range(0, 32, 8): out[c0+tr+i, r0+tc] = s[tc, (tr+i) ^ tc]


@cuda.jit
def branch_k(x, out):
    i = cuda.grid(1)
    if x[i] > 0: out[i] = x[i]*2
    else: out[i] = x[i] + 1


@cuda.jit
def histogram_k(x, out):
    s = cuda.shared.array(256, np.int32)
    t = cuda.threadIdx.x
    s[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)): cuda.atomic.add(s, x[i], 1)
    cuda.syncthreads()
    cuda.atomic.add(out, t, s[t])


@cuda.jit
def window_k(x, out):
    i = cuda.grid(1)
    total = 0
    for k in range(33): total += x[i+k]
    out[i] = total


@cuda.jit
def tree_k(x, parts):
    s = cuda.shared.array(256, f32)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    s[t] = x[i] if i < x.size else 0
    d = 128
    while d > 0:
        cuda.syncthreads()
        if t < d: s[t] += s[t+d]
        d //= 2
    if t == 0: parts[cuda.blockIdx.x] = s[0]


@cuda.jit
def shuffle_k(x, parts):
    s = cuda.shared.array(32, f32)
    t = cuda.threadIdx.x
    v = f32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)): v += x[i]
    d = 16
    while d > 0:
        v += cuda.shfl_down_sync(0xffffffff, v, d)
        d //= 2
    if t%32 == 0: s[t//32] = v
    cuda.syncthreads()
    if t == 0:
        v = f32(0)
        for w in range(8): v += s[w]
        parts[cuda.blockIdx.x] = v


@cuda.jit
def scan_k(x, out):
    s = cuda.shared.array(256, f32)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    s[t] = x[i]
    d = 1
    while d < 256:
        cuda.syncthreads()
        v = s[t-d] if t >= d else f32(0)
        cuda.syncthreads()
        s[t] += v
        d *= 2
    out[i] = s[t]


@cuda.jit
def rms_norm_k(x, w, out):
    s = cuda.shared.array(256, f32)
    t,r = cuda.threadIdx.x,cuda.blockIdx.x
    a = f32(0)
    for c in range(t, x.shape[1], 256): a += x[r,c]*x[r,c]
    s[t] = a
    d = 128
    while d > 0:
        cuda.syncthreads()
        if t < d: s[t] += s[t+d]
        d //= 2
    cuda.syncthreads()
    q = f32(1)/math.sqrt(s[0]/x.shape[1] + f32(1e-5))
    for c in range(t, x.shape[1], 256): out[r,c] = x[r,c]*q*w[c]


@cuda.jit
def online_softmax_k(x, out):
    c = cuda.grid(1)
    m,s = f32(-math.inf),f32(0)
    for r in range(x.shape[0]):
        v = x[r,c]
        new = max(m, v)
        s = s*math.exp(m - new) + math.exp(v - new)
        m = new
    for r in range(x.shape[0]): out[r,c] = math.exp(x[r,c] - m)/s


@cuda.jit
def attention_k(q, k, v, out):
    i = cuda.grid(1)
    m,l = f32(-math.inf),f32(0)
    acc = cuda.local.array(16, f32)
    for d in range(16): acc[d] = 0
    for j in range(k.shape[0]):
        s = f32(0)
        for d in range(16): s += q[i,d]*k[j,d]
        new = max(m, s)
        c,p = math.exp(m - new),math.exp(s - new)
        l = l*c + p
        for d in range(16): acc[d] = acc[d]*c + p*v[j,d]
        m = new
    for d in range(16): out[i,d] = acc[d]/l


@cuda.jit
def int4_k(w, scales, x, out):
    r = cuda.grid(1)
    a = f32(0)
    for j in range(w.shape[1]):
        b = w[r,j]
        a += (f32(b & 15) - f32(8))*scales[r,j//16]*x[2*j]
        a += (f32(b >> 4) - f32(8))*scales[r,j//16]*x[2*j + 1]
    out[r] = a


@cuda.jit
def sparse_24_k(values, columns, x, out):
    r = cuda.grid(1)
    a = f32(0)
    for j in range(values.shape[1]): a += values[r,j]*x[4*(j//2) + columns[r,j]]
    out[r] = a


N = 65536
CASES = {
    '01 gray': (gray_k, (N//256,256), (normal(3,N), empty(N))),
    '03 product': (product_k, ((6,6),(16,16)), (normal(96,96), normal(96,96), empty(96,96))),
    '06 tiled product': (tiled_k, ((8,8),(16,16)), (normal(128,128), normal(128,128), empty(128,128))),
    '07 escape': (escape_k, ((8,8),(16,16)), (200, empty(128,128, dtype=np.int32))),
    '10 transpose': (swizzled_k, ((8,8),(32,8)), (normal(256,256), empty(256,256))),
    '11 branch': (branch_k, (N//256,256), (normal(N), empty(N))),
    '11 histogram': (histogram_k, (16,256), (integers(256,N, dtype=np.uint8), empty(256, dtype=np.int32))),
    '11 window': (window_k, (128,128), (integers(99,16384+33), empty(16384, dtype=np.int32))),
    '12 tree': (tree_k, (N//256,256), (normal(N), empty(N//256))),
    '12 shuffle': (shuffle_k, (32,256), (normal(N), empty(32))),
    '12 scan': (scan_k, (N//256,256), (normal(N), empty(N))),
    '15 RMS norm': (rms_norm_k, (64,256), (normal(64,1024), normal(1024), empty(64,1024))),
    '16 online softmax': (online_softmax_k, (8,256), (normal(64,2048), empty(64,2048))),
    '17 attention': (attention_k, (2,128), (normal(256,16), normal(256,16), normal(256,16), empty(256,16))),
    '18 int4': (int4_k, (2,256), (integers(256,512,256, dtype=np.uint8), normal(512,16), normal(512), empty(512))),
    '19 sparse 2:4': (sparse_24_k, (2,256), (normal(512,256), integers(4,512,256), normal(512), empty(512))),
}
