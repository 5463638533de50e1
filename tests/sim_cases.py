"""Cases that both engines of the simulator run: right kernels give right results in silence, wrong kernels name the
mistake, its line and its thread. `test_sim` runs them on lanes, `test_engine` compiled."""
import linecache, math, operator, types

import numpy as np
import pytest

from gridstride import sim
from gridstride.diagnostics.settings import change, settings
from gridstride.sim import cuda
from gridstride.sim.cuda import syncthreads as sync
from found import finding, saying, warning
TPB,TILE = 32,4
CONSTANTS = dict(TPB=2, LARGE=10**30)
TABLE = np.array([3.,1.,4.,1.])

def rng(): return np.random.default_rng(0)

def cell(src, name='cell', **names):
    "The functions of a notebook-like cell, whose source is only in linecache"
    file = f'<{name}>'
    linecache.cache[file] = len(src),None,src.splitlines(True),file
    space = {'cuda':cuda, 'np':np, 'math':math, 'sync':sync, **names}
    exec(compile(src, file, 'exec'), space)
    return types.SimpleNamespace(**space)

def threads(f, n, *args, dtype=np.float64):
    "What the device function `f(i, *args)` gives in each of `n` threads"
    g = cuda.jit(device=True)(f)
    @cuda.jit
    def k(out, args):
        i = cuda.grid(1)
        if i < out.size: out[i] = g(i, args)
    out = np.full(n, -77, dtype)
    k[-(-n//48), 48](out, args)
    return out

def same_as_python(f, n, *args, dtype=np.float64):
    want = np.array([f(i,args) for i in range(n)]).astype(dtype)
    np.testing.assert_array_equal(threads(f, n, *args, dtype=dtype), want)

# right kernels

@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size: out[i] = a[i]+b[i]

@pytest.mark.parametrize('n', [1,31,32,33,1000,20000])
def test_add(n):
    a,b,out = rng().normal(size=n),rng().normal(size=n),np.full(n, np.nan)
    add[-(-n//64),64](a, b, out)
    np.testing.assert_array_equal(out, a+b)

@cuda.jit
def positions(out):
    x,y,z = cuda.grid(3)
    nx,ny,nz = cuda.gridsize(3)
    if x < out.shape[0] and y < out.shape[1] and z < out.shape[2]: out[x,y,z] = x+nx*(y+ny*z)

def test_three_dimensions():
    out = np.full((7,5,3), -1)
    positions[(2,2,3),(4,3,1)](out)
    x,y,z = np.indices(out.shape)
    np.testing.assert_array_equal(out, x+8*(y+6*z))

def test_two_dimensions():
    @cuda.jit
    def k(out):
        x,y = cuda.grid(2)
        if x < out.shape[1] and y < out.shape[0]:
            out[y,x] = cuda.blockIdx.x*1000+cuda.threadIdx.x*100+cuda.blockIdx.y*10+cuda.threadIdx.y
    out = np.full((5,9), -1)
    k[(3,2),(4,3)](out)
    y,x = np.indices(out.shape)
    np.testing.assert_array_equal(out, x//4*1000+x%4*100+y//3*10+y%3)

def test_grid_stride():
    @cuda.jit
    def k(a, out):
        for i in range(cuda.grid(1), a.size, cuda.gridsize(1)): out[i] = 2*a[i]
    a,out = rng().normal(size=1001),np.full(1001, np.nan)
    k[3,33](a, out)
    np.testing.assert_array_equal(out, 2*a)

@cuda.jit
def matmul(a, b, c):
    sa,sb = cuda.shared.array((TILE,TILE), np.float64),cuda.shared.array((TILE,TILE), np.float64)
    x,y = cuda.grid(2)
    tx,ty = cuda.threadIdx.x,cuda.threadIdx.y
    total = 0.
    for k in range((a.shape[1]+TILE-1)//TILE):
        sa[ty,tx] = a[y,k*TILE+tx] if y < a.shape[0] and k*TILE+tx < a.shape[1] else 0.
        sb[ty,tx] = b[k*TILE+ty,x] if x < b.shape[1] and k*TILE+ty < b.shape[0] else 0.
        cuda.syncthreads()
        for j in range(TILE): total += sa[ty,j]*sb[j,tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]: c[y,x] = total

@pytest.mark.parametrize('m,k,n', [(1,1,1),(4,4,4),(5,7,3),(9,2,13)])
def test_matmul(m, k, n):
    a,b,c = rng().normal(size=(m,k)),rng().normal(size=(k,n)),np.full((m,n), np.nan)
    matmul[(-(-n//TILE),-(-m//TILE)),(TILE,TILE)](a, b, c)
    np.testing.assert_allclose(c, a@b, rtol=1e-12, atol=1e-12)

@cuda.jit
def tree(x, out):
    s = cuda.shared.array(64, np.float64)
    t,i = cuda.threadIdx.x,cuda.grid(1)
    s[t] = x[i] if i < x.size else 0.
    sync()
    h = cuda.blockDim.x//2
    while h > 0:
        if t < h: s[t] += s[t+h]
        sync()
        h //= 2
    if t==0: out[cuda.blockIdx.x] = s[0]

def test_tree_reduction():
    x,out = rng().normal(size=1000),np.full(16, np.nan)
    tree[16,64](x, out)
    np.testing.assert_allclose(out, np.pad(x,(0,24)).reshape(16,64).sum(1))

def test_shuffle_reduction():
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        v = x[i]
        d = 16
        while d:
            v += cuda.shfl_down_sync(0xffffffff, v, d)
            d >>= 1
        if cuda.laneid==0: out[i//32] = v
    x,out = rng().normal(size=256),np.full(8, np.nan)
    k[2,128](x, out)
    np.testing.assert_allclose(out, x.reshape(8,32).sum(1))

def test_shuffles():
    @cuda.jit
    def k(out):
        t = cuda.threadIdx.x
        out[0,t] = cuda.shfl_sync(0xffffffff, t, 5)
        out[1,t] = cuda.shfl_up_sync(0xffffffff, t, 3)
        out[2,t] = cuda.shfl_down_sync(0xffffffff, t, 3)
        out[3,t] = cuda.shfl_xor_sync(0xffffffff, t, 6)
    out,t = np.full((4,32), -1),np.arange(32)
    k[1,32](out)
    np.testing.assert_array_equal(out, [t*0+5, np.where(t<3,t,t-3), np.where(t>28,t,t+3), t^6])

def test_scan():
    @cuda.jit
    def k(x, out):
        s = cuda.shared.array(64, np.int64)
        t = cuda.threadIdx.x
        s[t] = x[t]
        cuda.syncthreads()
        d = 1
        while d < 64:
            v = s[t-d] if t >= d else 0
            cuda.syncthreads()
            s[t] += v
            cuda.syncthreads()
            d *= 2
        out[t] = s[t]
    x,out = rng().integers(0,9,64),np.full(64, -1)
    k[1,64](x, out)
    np.testing.assert_array_equal(out, np.cumsum(x))

def test_histogram():
    @cuda.jit
    def k(x, h):
        s = cuda.shared.array(10, np.int32)
        t,i = cuda.threadIdx.x,cuda.grid(1)
        if t < 10: s[t] = 0
        cuda.syncthreads()
        if i < x.size: cuda.atomic.add(s, x[i], 1)
        cuda.syncthreads()
        if t < 10: cuda.atomic.add(h, t, s[t])
    x,h = rng().integers(0,10,1000),np.zeros(10, np.int32)
    k[16,64](x, h)
    np.testing.assert_array_equal(h, np.bincount(x.astype(np.intp), minlength=10))

@pytest.mark.parametrize('shape', [(4,4),(5,9),(1,13)])
def test_transpose(shape):
    @cuda.jit
    def k(a, out):
        s = cuda.shared.array((TILE,TILE+1), np.float32)
        tx,ty = cuda.threadIdx.x,cuda.threadIdx.y
        x,y = cuda.blockIdx.x*TILE+tx,cuda.blockIdx.y*TILE+ty
        if y < a.shape[0] and x < a.shape[1]: s[ty,tx] = a[y,x]
        cuda.syncthreads()
        x,y = cuda.blockIdx.y*TILE+tx,cuda.blockIdx.x*TILE+ty
        if y < out.shape[0] and x < out.shape[1]: out[y,x] = s[tx,ty]
    a,out = rng().normal(size=shape).astype('f4'),np.full(shape[::-1], np.nan, 'f4')
    k[(-(-shape[1]//TILE),-(-shape[0]//TILE)),(TILE,TILE)](a, out)
    np.testing.assert_array_equal(out, a.T)

@cuda.jit
def last_block(x, part, count, out):
    last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t==0:
        total = 0.
        for i in range(cuda.blockIdx.x*32, min(x.size, cuda.blockIdx.x*32+32)): total += x[i]
        part[cuda.blockIdx.x] = total
        cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1)==cuda.gridDim.x-1
    cuda.syncthreads()
    if last[0] and t==0:
        total = 0.
        for b in range(cuda.gridDim.x): total += part[b]
        out[0] = total

@pytest.mark.parametrize('n', [20,1000,20000])
def test_last_block_finishes_the_sum(n):
    x,out,blocks = rng().normal(size=n),np.full(1, np.nan),-(-n//32)
    last_block[blocks,32](x, np.zeros(blocks), np.zeros(1, int), out)
    np.testing.assert_allclose(out[0], x.sum())

def test_stencil_with_halo():
    @cuda.jit
    def k(x, out):
        s = cuda.shared.array(TPB+2, np.float64)
        t,i = cuda.threadIdx.x,cuda.grid(1)
        s[t+1] = x[i] if i < x.size else 0.
        if t==0: s[0] = x[i-1] if i > 0 else 0.
        if t==TPB-1: s[t+2] = x[i+1] if i+1 < x.size else 0.
        cuda.syncthreads()
        if i < x.size: out[i] = s[t]+s[t+1]+s[t+2]
    x,out = rng().normal(size=100),np.full(100, np.nan)
    k[4,TPB](x, out)
    np.testing.assert_allclose(out, np.convolve(x, np.ones(3), 'same'))

def test_dynamic_shared_memory():
    @cuda.jit
    def k(out):
        a = cuda.shared.array(0, np.float32)[:32]
        b = cuda.shared.array(0, np.float32)[32:]
        t = cuda.threadIdx.x
        a[t],b[t] = t,100+t
        cuda.syncthreads()
        out[t] = a[31-t]+b[31-t]
    out = np.full(32, np.nan)
    k[1,32,0,256](out)
    np.testing.assert_array_equal(out, 162-2*np.arange(32))

def test_local_arrays():
    @cuda.jit
    def k(out):
        i,a = cuda.grid(1),cuda.local.array(5, np.int64)
        for j in range(5): a[j] = i*j
        total = 0
        for j in range(5): total += a[4-j]*j
        out[i] = total
    out = np.full(64, -1)
    k[2,32](out)
    np.testing.assert_array_equal(out, np.arange(64)*10)

def test_const_array():
    @cuda.jit
    def k(out):
        c,i = cuda.const.array_like(TABLE),cuda.grid(1)
        out[i] = c[i%4]
    out = np.full(8, np.nan)
    k[2,4](out)
    np.testing.assert_array_equal(out, np.tile(TABLE,2))

# Python in a kernel

@cuda.jit(device=True)
def clamp(v, lo, hi):
    if v < lo: return lo
    if v > hi: return hi
    return v

@cuda.jit(device=True)
def twice_clamped(v): return clamp(v, 5, 20)*2

def test_device_functions():
    by = 3
    @cuda.jit(device=True)
    def scaled(v): return twice_clamped(v)*by
    @cuda.jit
    def k(out):
        i = cuda.grid(1)
        out[i] = scaled(i)
    out = np.full(64, -1)
    k[2,32](out)
    np.testing.assert_array_equal(out, np.clip(np.arange(64),5,20)*6)

def test_device_function_with_memory():
    @cuda.jit(device=True)
    def block_sum(s, t):
        h = 16
        while h:
            if t < h: s[t] += s[t+h]
            cuda.syncthreads()
            h //= 2
        return s[0]
    @cuda.jit
    def k(x, out):
        s,t,i = cuda.shared.array(32, np.float64),cuda.threadIdx.x,cuda.grid(1)
        s[t] = x[i]
        cuda.syncthreads()
        v = block_sum(s, t)
        out[i] = v
    x,out = rng().normal(size=96),np.full(96, np.nan)
    k[3,32](x, out)
    np.testing.assert_allclose(out, np.repeat(x.reshape(3,32).sum(1),32))

def loops(i, args):
    n,j = 0,0
    while True:
        j += 1
        if j > 40: break
        if j % 3==i % 3: continue
        for k in range(j, i, 2):
            if k==17: break
            if k & 1: continue
            if n > 500: return -n
            n += k
    return n

def collatz(i, args):
    n = 0
    while i > 1:
        i = i//2 if i%2==0 else 3*i+1
        n += 1
    return n

def tuples(i, args):
    a,b = (i,i+1) if i%2 else (2*i,3)
    a,b = b,a
    (c,d),e = (a,b),a-b
    return c*100+d*10+e

def steps_down(i, args):
    n = 0
    for j in range(i, -3, -2): n = n*3 % 1001 + j
    for a in (1,5,7):
        if a==i: continue
        n += a
    return n

def signs(i, args):
    a,b = i-20,(i%7)-3
    if b==0: b = -4
    return a//b*100 + a%b

def bits(i, args): return ((i<<3) ^ (i>>1) | 5) & ~2

def builtins(i, args):
    v = (i-10)*0.75
    return min(i,7,args[0]) + 3*max(i,20) + 5*abs(i-13) + 7*int(v) + 11*round(v)

@pytest.mark.parametrize('f', [loops, collatz, tuples, steps_down, signs, bits, builtins], ids=lambda f: f.__name__)
def test_same_as_python(f): same_as_python(f, 64, 5, dtype=np.int64)

def true_division(i, args): return (i-20)/(i+1)
def powers(i, args): return (i%5)**3 + (i+1)**0.5
def roots(i, args): return math.sqrt(i) + math.floor(i/3) + math.ceil(i/7) + math.fabs(i-20)
def waves(i, args):
    return math.sin(i)*math.exp(-i/10) + math.atan2(i, 3) + math.pow(i, 1.5) + math.log(i+1) + math.tanh(i/9)

@pytest.mark.parametrize('f', [true_division, powers, roots, waves], ids=lambda f: f.__name__)
def test_close_to_python(f): np.testing.assert_allclose(threads(f, 64), [f(i,()) for i in range(64)], rtol=1e-13)

def test_chained_comparisons():
    def f(i, args): return 1 if 3 < i <= 10 < 2*i else 0
    same_as_python(f, 30, dtype=np.int64)

def test_and_or_guard_loads():
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        out[i] = 0
        if i < x.size and x[i] > 0: out[i] += 1
        if i >= x.size or x[i] < 0: out[i] += 2
        if not (i < x.size and (x[i] > 0 or x[x.size-1-i] > 0)): out[i] += 4
        n = 0
        while i+n < x.size and x[i+n] > 0: n += 1
        out[i] += 8*n
    x,out = rng().normal(size=50),np.full(64, -1)
    k[2,32](x, out)
    def ref(i):
        n = 0
        while i+n < 50 and x[i+n] > 0: n += 1
        return (i<50 and x[i]>0) + 2*(i>=50 or x[i]<0) + 4*(not (i<50 and (x[i]>0 or x[49-i]>0))) + 8*n
    np.testing.assert_array_equal(out, [ref(i) for i in range(64)])

def test_early_return_and_divergence():
    @cuda.jit
    def k(out):
        i = cuda.grid(1)
        if i%5==0: return
        for j in range(10):
            if j==i%7: return
            out[i] += 1
        out[i] += 100
    out = np.zeros(64, int)
    k[2,32](out)
    np.testing.assert_array_equal(out, [0 if i%5==0 else i%7 for i in range(64)])

def test_barriers_in_loops_the_same_for_a_block():
    @cuda.jit
    def k(out):
        s,t,b = cuda.shared.array(32, np.int64),cuda.threadIdx.x,cuda.blockIdx.x
        s[t] = t
        for _ in range(b):
            cuda.syncthreads()
            v = s[(t+1)%32]
            cuda.syncthreads()
            s[t] = v
        out[b,t] = s[t]
    out = np.full((5,32), -1)
    k[5,32](out)
    np.testing.assert_array_equal(out, (np.arange(32)+np.arange(5)[:,None])%32)

def test_integers_wrap_on_store():
    @cuda.jit
    def k(a, b, c):
        i = cuda.grid(1)
        a[i],b[i],c[i] = i*10,-i,i*100_000_000
    a,b,c = np.zeros(64, np.int8),np.zeros(64, np.uint8),np.zeros(64, np.int32)
    k[1,64](a, b, c)
    i = np.arange(64)
    for got,want in ((a,i*10),(b,-i),(c,i*100_000_000)): np.testing.assert_array_equal(got, want.astype(got.dtype))

def test_small_integers_compute_wide():
    @cuda.jit
    def k(a, out):
        i = cuda.grid(1)
        out[i] = a[i]*a[i]+a[i]
    a,out = np.arange(256).astype(np.uint8),np.zeros(256, np.int64)
    k[4,64](a, out)
    i = np.arange(256)
    np.testing.assert_array_equal(out, i*i+i)

def test_kernel_in_a_cell():
    c = cell('''
from gridstride.sim.cuda import syncthreads as wait
BY = 3
@cuda.jit(device=True)
def scaled(v): return v*BY
@cuda.jit("void(float64[:])")
def k(x):
    s = cuda.shared.array(32, np.float64)
    t = cuda.threadIdx.x
    s[t] = scaled(x[t])
    wait()
    x[t] = s[31-t]
''', 'cell of a notebook')
    x = np.arange(32.)
    c.k[1,32](x)
    np.testing.assert_array_equal(x, 3*np.arange(32)[::-1])

# arguments

@cuda.jit
def double(x):
    i = cuda.grid(1)
    for n in range(i, x.size, cuda.gridsize(1)): x[n//x.shape[1],n%x.shape[1]] *= 2

LAYOUTS = {'C':lambda a: a, 'F':np.asfortranarray, 'T':lambda a: a.T, 'strided':lambda a: a[::2,1::3],
           'inner':lambda a: a[1:-1,1:-1], 'reversed':lambda a: a[::-1,::-1]}
@pytest.mark.parametrize('how', LAYOUTS)
def test_layouts(how):
    a = LAYOUTS[how](rng().normal(size=(6,10)))
    want = 2*a
    double[2,16](a)
    np.testing.assert_array_equal(a, want)

def test_zero_to_four_dimensions():
    @cuda.jit
    def k0(a): a[()] += 1
    @cuda.jit
    def k1(a): a[cuda.grid(1)] += 1
    @cuda.jit
    def k3(a): a[cuda.threadIdx.x,cuda.threadIdx.y,cuda.threadIdx.z] += 1
    @cuda.jit
    def k4(a):
        for j in range(a.shape[3]): a[cuda.threadIdx.x,cuda.threadIdx.y,cuda.threadIdx.z,j] += j
    for k,shape,block in ((k0,(),1),(k1,(5,),5),(k3,(2,3,4),(2,3,4)),(k4,(2,3,4,5),(2,3,4))):
        a = np.zeros(shape)
        k[1,block](a)
        np.testing.assert_array_equal(a, np.broadcast_to(np.arange(5.) if k is k4 else 1., shape))

def test_torch_tensors():
    torch = pytest.importorskip('torch')
    a = torch.arange(24.).reshape(4,6)
    want = a.clone()
    double[1,8](a)
    assert (a==2*want).all()
    double[1,8](a.T[1:])
    want = 2*want
    want.T[1:] *= 2
    assert (a==want).all()

def test_device_arrays():
    x = rng().normal(size=100)
    d,out = cuda.to_device(x),cuda.device_array(100)
    add[2,64](d, d, out)
    np.testing.assert_array_equal(out.copy_to_host(), 2*x)
    np.testing.assert_array_equal(d.copy_to_host(), x)
    host = np.zeros(100)
    out.copy_to_host(host)
    np.testing.assert_array_equal(host, 2*x)
    like = cuda.device_array_like(d)
    assert like.shape==(100,) and like.dtype==np.float64
    like.copy_to_device(x)
    add[2,64](like, like[::1], out)
    np.testing.assert_array_equal(out.copy_to_host(), 2*x)
    p = cuda.pinned_array(100)
    p[:] = 1
    add[2,64](p, cuda.mapped_array_like(p), out)

def test_streams_events_forall():
    s,a,b = cuda.stream(),cuda.event(),cuda.event()
    x,out = np.arange(100.),np.full(100, np.nan)
    with s.auto_synchronize():
        a.record(s)
        add[2,64,s](x, x, out)
        b.record(s)
    b.synchronize()
    assert cuda.event_elapsed_time(a, b) >= 0 and cuda.is_available() and len(cuda.gpus)
    np.testing.assert_array_equal(out, 2*x)
    add.forall(100)(x, out, out)
    np.testing.assert_array_equal(out, 3*x)

# warps and blocks

def test_votes():
    @cuda.jit
    def k(x, out):
        t = cuda.threadIdx.x
        out[0,t] = cuda.all_sync(0xffffffff, x[t] < 3)
        out[1,t] = cuda.any_sync(0xffffffff, x[t] > 2)
        out[2,t] = cuda.ballot_sync(0xffffffff, x[t]==1)
        out[3,t] = cuda.match_any_sync(0xffffffff, x[t])
        m,all = cuda.match_all_sync(0xffffffff, x[t])
        out[4,t],out[5,t] = m,all
        if t%2: out[6,t] = cuda.activemask()
        out[7,t] = cuda.lanemask_lt()
    x = np.r_[np.arange(32)%4,np.full(32,2)]
    out = np.zeros((8,64), np.int64)
    k[1,64](x, out)
    def mask(l): return sum(1<<i for i in l)
    for t in range(64):
        w = x[t//32*32:][:32]
        same = len(set(w))==1
        want = [(w<3).all(), (w>2).any(), mask(np.flatnonzero(w==1).tolist()), mask(np.flatnonzero(w==x[t]).tolist()),
                mask(range(32)) if same else 0, same, 0xaaaaaaaa if t%2 else 0, (1<<t%32)-1]
        assert out[:,t].tolist()==[int(o) for o in want]

def test_counting_barriers():
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        out[0,i] = cuda.syncthreads_count(x[i])
        out[1,i] = cuda.syncthreads_and(x[i])
        out[2,i] = cuda.syncthreads_or(x[i])
    x = np.r_[np.zeros(40),np.ones(40),np.arange(40)%2].astype(int)
    out = np.full((3,120), -1)
    k[3,40](x, out)
    assert (out!=0)[1:,::40].tolist()==[[False,True,False],[False,True,True]] and out[0,::40].tolist()==[0,40,20]

INTS = dict(add=operator.add, sub=operator.sub, max=max, min=min, and_=operator.and_, or_=operator.or_,
    xor=operator.xor, inc=lambda a,v: 0 if a>=v else a+1, dec=lambda a,v: v if a==0 or a>v else a-1)
@pytest.mark.parametrize('name', INTS)
@pytest.mark.parametrize('dtype', ['u4','u8'])
def test_atomics(name, dtype):
    op = getattr(cuda.atomic, name)
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        op(out, i%3, x[i])
    v = 11 if name in ('inc','dec') else None         # these depend on the order unless the bound is one for all
    x = np.full(96, v, dtype) if v else rng().integers(0,1000,96).astype(dtype)
    out = np.array([5,900,2**20], dtype)
    want = [int(o) for o in out]
    for i in range(96): want[i%3] = INTS[name](want[i%3], int(x[i])) % 2**(8*out.itemsize)
    k[3,32](x, out)
    assert out.tolist()==want

@pytest.mark.parametrize('name,f', [('max',max),('min',min),('nanmax',np.fmax),('nanmin',np.fmin)])
def test_atomics_of_floats(name, f):
    op = getattr(cuda.atomic, name)
    @cuda.jit
    def k(x, out): op(out, (0,1), x[cuda.grid(1)])
    x,out = rng().normal(size=64),np.zeros((1,2))
    k[2,32](x, out)
    assert out[0,0]==0 and out[0,1]==(x.max() if 'max' in name else x.min())

def test_exchange_and_compare():
    @cuda.jit
    def k(out, tickets, winner):
        i = cuda.grid(1)
        tickets[cuda.atomic.add(out, 0, 1)] = i
        if cuda.atomic.cas(winner, 0, -1, i)==-1: out[1] = i
        cuda.atomic.exch(out, 2, 7)
    out,tickets,winner = np.zeros(3, int),np.full(64, -1),np.full(1, -1)
    k[2,32](out, tickets, winner)
    assert sorted(tickets)==list(range(64)) and out.tolist()==[64,winner[0],7]

def test_bits_of_integers():
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        out[0,i] = cuda.popc(x[i])
        out[1,i] = cuda.clz(x[i])
        out[2,i] = cuda.ffs(x[i])
        out[3,i] = cuda.brev(x[i])
    x = rng().integers(1, 2**31, 32).astype(np.uint32)
    out = np.full((4,32), -1, np.int64)
    k[1,32](x, out)
    for i,v in enumerate(x.tolist()):
        assert out[:,i].tolist()==[bin(v).count('1'), 32-v.bit_length(), (v&-v).bit_length(), int(f'{v:032b}'[::-1],2)]

def test_syncwarp_orders_a_warp():
    @cuda.jit
    def k(x):
        s,t = cuda.shared.array(64, np.float64),cuda.threadIdx.x
        s[t] = t
        cuda.syncwarp()
        x[t] = s[t^1]
    x = np.zeros(64)
    k[1,64](x)
    np.testing.assert_array_equal(x, np.arange(64)^1)

def test_writes_of_one_launch_are_read_by_the_next():
    @cuda.jit
    def k(a, b):
        i = cuda.grid(1)
        b[i] = a[a.size-1-i]+1
    a,b = cuda.to_device(np.zeros(64)),cuda.device_array(64)
    k[2,32](a, b)
    k[2,32](b, a)
    np.testing.assert_array_equal(a.copy_to_host(), np.full(64, 2.))

# wrong kernels, each with its fix: `# here` marks the line of the finding, `# there` the other side of a race

HEAD = '''
@cuda.jit
def k(%s):
    t,i = cuda.threadIdx.x,cuda.grid(1)
'''
WRONG = {}
def wrong(name, kind, params, body, fix, config, args, array=None, index=None, block=None, thread=None, who=None):
    "A wrong kernel; `fix` is (text, its replacement); `who(e)` is what must hold for the finding in every order"
    src = HEAD % params + '\n'.join('    '+l for l in body.strip('\n').split('\n')) + '\n'
    assert src.count(fix[0])==1, name
    WRONG[name] = kind,src,src.replace(*fix),config,args,dict(array=array, index=index, block=block, thread=thread),who

Z = np.zeros
def linear(e): return e.block[0]*64+e.thread[0]

wrong('no guard', 'memcheck', 'x', 'x[i] = i # here', ('x[i] = i', 'if i < x.size: x[i] = i'), (2,64),
      lambda: (Z(100),), 'x', who=lambda e: e.index==(linear(e),) and e.index[0] >= 100)
wrong('one past the end', 'memcheck', 'x', 'if i <= x.size: x[i] = i # here', ('<=','<'), (2,64), lambda: (Z(100),),
      'x', (100,), (1,0,0), (36,0,0))
wrong('negative index', 'memcheck', 'x, out', 'out[i] = x[i-1] # here', ('x[i-1]','x[max(i-1,0)]'), (1,64),
      lambda: (Z(64),Z(64)), 'x', (-1,), (0,0,0), (0,0,0))
wrong('axes swapped', 'memcheck', 'x', 'x[t,0] = 1 # here', ('x[t,0]','x[0,t]'), (1,8), lambda: (Z((4,8)),), 'x',
      who=lambda e: e.index==(e.thread[0],0) and e.index[0] >= 4)
wrong('too many indices', 'memcheck', 'x', 'x[t,0] = 1 # here', ('x[t,0]','x[t]'), (1,8), lambda: (Z(8),), 'x')
wrong('shared memory too small', 'memcheck', 'x',
      's = cuda.shared.array(32, np.float64)\ns[t] = 1 # here\ncuda.syncthreads()\nx[t] = s[t//2]',
      ('array(32','array(33'), (1,33), lambda: (Z(33),), 's', (32,), (0,0,0), (32,0,0))
wrong('local memory too small', 'memcheck', 'x',
      'a = cuda.local.array(4, np.float64)\nfor j in range(5): a[j] = j # here\nx[t] = a[2]', ('range(5)','range(4)'),
      (1,8), lambda: (Z(8),), 'a', (4,))
wrong('halo', 'memcheck', 'x, out', 'n = x.size\nif i < n:\n    out[i] = x[i] + x[i+1] # here',
      ('x[i+1]','(x[i+1] if i+1 < n else 0.)'), (2,64), lambda: (Z(100),Z(100)), 'x', (100,), (1,0,0), (35,0,0))
wrong('guard after the load', 'memcheck', 'x, out', 'v = x[i] if True else 0. # here\nif i < x.size: out[i] = v',
      ('if True','if i < x.size'), (2,64), lambda: (Z(127),Z(127)), 'x', (127,), (1,0,0), (63,0,0))
wrong('and the wrong way round', 'memcheck', 'x, out', 'if x[i] >= 0 and i < x.size: # here\n    out[i] = 1',
      ('x[i] >= 0 and i < x.size','i < x.size and x[i] >= 0'), (1,64), lambda: (Z(63),Z(63)), 'x', (63,),
      (0,0,0), (63,0,0))
wrong('atomic outside', 'memcheck', 'x, h', 'cuda.atomic.add(h, x[i], 1) # here', ('x[i],','x[i]%10,'), (1,64),
      lambda: (np.r_[Z(63,int),10],Z(10,int)), 'h', (10,), (0,0,0), (63,0,0))
wrong('view too long', 'memcheck', 'x', 'v = x[4:8]\nif t < 5: v[t] = 1 # here', ('t < 5','t < 4'), (1,8),
      lambda: (Z(16),), index=(4,), thread=(4,0,0))
wrong('index from memory', 'memcheck', 'x, out', 'out[i] = x[int(x[i])] # here', ('int(x[i])','int(x[i])%8'), (1,8),
      lambda: (np.r_[Z(7),99.],Z(8)), 'x', (99,), (0,0,0), (7,0,0))
wrong('dynamic memory too small', 'memcheck', 'x', 's = cuda.shared.array(0, np.float64)\nif t < 9: s[t] = 1 # here',
      ('t < 9','t < 8'), (1,16,0,64), lambda: (Z(16),), 's', (8,), thread=(8,0,0))

wrong('no barrier', 'racecheck',
      'x, out', 's = cuda.shared.array(64, np.float64)\ns[t] = x[t] # there\nout[t] = s[63-t] # here',
      ('out[t] =','cuda.syncthreads(); out[t] ='), (1,64), lambda: (rng().normal(size=64),Z(64)), 's',
      who=lambda e: e.index==(63-e.thread[0],) and e.other.thread[0]==e.index[0])
wrong('no second barrier', 'racecheck',
      'x, out', 's = cuda.shared.array(64, np.float64)\nfor j in range(3):\n    s[t] = x[t]+j # here\n'
                '    cuda.syncthreads()\n    out[i] += s[63-t] # there\n    pass',
      ('\n        pass','\n        cuda.syncthreads()'), (2,64), lambda: (rng().normal(size=64),Z(128)), 's',
      who=lambda e: e.other.thread[0]==63-e.thread[0] and e.other.block==e.block)
wrong('histogram', 'racecheck', 'x, h', 'h[x[i]] += 1 # here # there', ('h[x[i]] += 1','cuda.atomic.add(h, x[i], 1)'),
      (4,64), lambda: (rng().integers(0,5,256),Z(5,int)), 'h')
wrong('sum', 'racecheck', 'x, out', 'out[0] += x[i] # here # there', ('out[0] += x[i]','cuda.atomic.add(out, 0, x[i])'),
      (2,32), lambda: (rng().normal(size=64),Z(1)), 'out', (0,))
wrong('all write one place', 'racecheck', 'out', 'out[0] = i # here # there', ('out[0] = i','if i==0: out[0] = i'),
      (2,32), lambda: (Z(1),), 'out', (0,))
wrong('two blocks write one place', 'racecheck', 'out', 'out[t] = i # here # there', ('out[t]','out[i]'), (2,32),
      lambda: (Z(64),), 'out', who=lambda e: e.index==e.thread[:1]==e.other.thread[:1] and e.block!=e.other.block)
wrong('blocks read neighbours', 'racecheck', 'x', 'v = x[(i+1)%x.size] # there\ncuda.syncthreads()\nx[i] = v # here',
      ('x[(i+1)%x.size]','x[i]'), (2,32), lambda: (rng().normal(size=64),), 'x', who=lambda e: e.block!=e.other.block)
wrong('reduction in place',
      'racecheck', 'x', 's = cuda.shared.array(64, np.float64)\ns[t] = x[t]\ncuda.syncthreads()\nh = 32\nwhile h:\n'
                        '    if t < h: s[t] += s[t+h] # here # there\n    h //= 2\nx[t] = s[t]',
      ('        h //= 2','        cuda.syncthreads()\n        h //= 2'), (1,64), lambda: (rng().normal(size=64),), 's')
wrong('shift in place', 'racecheck', 'x', 'v = x[t+1] if t < 63 else 0. # there\nx[t] = v # here',
      ('x[t] = v','cuda.syncthreads(); x[t] = v'), (1,64), lambda: (rng().normal(size=64),), 'x',
      who=lambda e: e.other.thread[0]==e.thread[0]-1)
TICKET = ('if t==0:\n    %s\n    if cuda.atomic.add(count, 0, 1)==cuda.gridDim.x-1:\n        %s\n'
          '        for b in range(cuda.gridDim.x): out[0] += part[b] # here')
def ticket(): return Z(8),Z(1,int),Z(1)
wrong('no fence', 'racecheck', 'part, count, out',
      TICKET % ('part[cuda.blockIdx.x] = 1. # there\n    pass', 'cuda.threadfence()'),
      ('        pass','        cuda.threadfence()'), (8,32), ticket, 'part')
wrong('fence before the data', 'racecheck', 'part, count, out',
      TICKET % ('cuda.threadfence()\n    part[cuda.blockIdx.x] = 1. # there\n    pass', 'cuda.threadfence()'),
      ('        pass','        cuda.threadfence()'), (8,32), ticket, 'part')
wrong('fence of the block', 'racecheck', 'part, count, out',
      TICKET % ('part[cuda.blockIdx.x] = 1. # there\n    cuda.threadfence_block()', 'cuda.threadfence()'),
      ('_block()','()'), (8,32), ticket, 'part')
wrong('no fence after the flag', 'racecheck', 'part, count, out',
      TICKET % ('part[cuda.blockIdx.x] = 1. # there\n    cuda.threadfence()', 'pass'),
      ('            pass','            cuda.threadfence()'), (8,32), ticket, 'part')
wrong('fence of another thread', 'racecheck', 'part, count, out',
      'if t==3: part[cuda.blockIdx.x] = 1. # there\npass\n' + TICKET % ('cuda.threadfence()', 'cuda.threadfence()'),
      ('\n    pass','\n    cuda.syncthreads()'), (8,32), ticket, 'part')
wrong('release before the sum', 'racecheck', 'count, out',
      'cuda.threadfence()\ncuda.atomic.add(count, 0, 1)\ncuda.threadfence()\nout[0] += 1. # here # there',
      ('out[0] += 1.','cuda.atomic.add(out, 0, 1.)'), (8,32), lambda: (Z(1,int),Z(1)), 'out', (0,))
wrong('atomic against plain', 'racecheck', 'h, out', 'cuda.atomic.add(h, 0, 1) # there\nout[i] = h[0] # here',
      ('out[i] = h[0]','cuda.syncthreads(); out[i] = h[0]'), (1,64), lambda: (Z(1,int),Z(64)), 'h', (0,))
wrong('warps without barrier', 'racecheck', 'x',
      's = cuda.shared.array(64, np.float64)\ns[t] = t # there\ncuda.syncwarp()\nx[t] = s[63-t] # here',
      ('syncwarp','syncthreads'), (1,64), lambda: (Z(64),), 's', who=lambda e: e.thread[0]//32!=e.other.thread[0]//32)
wrong('one reads what one writes', 'racecheck', 'x',
      's = cuda.shared.array(1, np.float64)\nif t==5: s[0] = 3. # there\nx[t] = s[0] # here',
      ('x[t] =','cuda.syncthreads(); x[t] ='), (1,64), lambda: (Z(64),), 's', (0,),
      who=lambda e: e.other.thread==(5,0,0)!=e.thread)

FRESH = lambda: (cuda.device_array(64), Z(64))
wrong('read before another thread writes', 'racecheck', 'd, out',
      'if t < 16: out[t] = d[t+16] # there\nif t >= 16: d[t] = 1 # here', ('= d[t+16]','= t'), (1,32), FRESH, 'd',
      who=lambda e: e.index==e.thread[:1])
wrong('shared read before another thread writes', 'racecheck', 'x',
      's = cuda.shared.array(32, np.float64)\nif t < 16: x[t] = s[t+16] # there\nif t >= 16: s[t] = 1 # here',
      ('= s[t+16]','= t'), (1,32), lambda: (Z(32),), 's', who=lambda e: e.index==e.thread[:1])
wrong('read before another block writes', 'racecheck', 'd, out',
      'out[i] = d[63-i] # there\nd[i] = 1 # here', ('= d[63-i]','= i'), (2,32), FRESH, 'd',
      who=lambda e: e.block!=e.other.block)
wrong('counted before it is cleared', 'racecheck', 'd, out',
      'if t==20: cuda.atomic.add(d, 0, 1) # there\nif t==0: d[0] = 0 # here', ('t==0','t==99'), (1,32),
      lambda: (cuda.to_device(Z(1)),Z(1)), 'd', (0,), (0,0,0), (0,0,0))
wrong('shared not written', 'initcheck', 'x',
      's = cuda.shared.array(64, np.float64)\nif t < 32: s[t] = 1\ncuda.syncthreads()\nx[i] = s[t] # here',
      ('t < 32','t < 64'), (2,64), lambda: (Z(128),), 's', who=lambda e: e.index==e.thread[:1] and e.index[0] >= 32)
wrong('local not written', 'initcheck', 'x',
      'a = cuda.local.array(3, np.float64)\na[0] = 1\na[1] = 2\nx[t] = a[t%3] # here', ('t%3','t%2'), (1,8),
      lambda: (Z(8),), 'a', (2,), who=lambda e: e.thread[0]%3==2)
wrong('device array not written', 'initcheck', 'd, out', 'if i > 0: d[i] = 1.\nout[i] = d[i] # here',
      ('i > 0','i >= 0'), (1,32), lambda: (cuda.device_array(32),Z(32)), 'd', (0,), (0,0,0), (0,0,0))
wrong('sum not cleared', 'initcheck', 'x',
      's = cuda.shared.array(1, np.float64)\npass\ncuda.syncthreads()\nx[t] = s[0] # here',
      ('pass','if t==0: s[0] = 1'), (1,8), lambda: (Z(8),), 's', (0,))
wrong('atomic on nothing', 'initcheck', 'x',
      's = cuda.shared.array(1, np.int64)\npass\ncuda.syncthreads()\ncuda.atomic.add(s, 0, 1) # here',
      ('pass','if t==0: s[0] = 0'), (1,8), lambda: (Z(8),), 's', (0,))

wrong('barrier in a branch', 'synccheck', 'x', 'if t < 40:\n    cuda.syncthreads() # here\nx[i] = 1',
      ('t < 40','t < 64'), (2,64), lambda: (Z(128),))
wrong('barrier in both branches', 'synccheck', 'x',
      'if t < 32:\n    cuda.syncthreads() # here\nelse:\n    x[t] = 1\n    cuda.syncthreads()', ('t < 32','t < 99'),
      (1,64), lambda: (Z(64),))
wrong('barrier in a loop', 'synccheck', 'x', 'for j in range(t//32+1):\n    cuda.syncthreads() # here\nx[t] = 1',
      ('t//32+1','2'), (1,64), lambda: (Z(64),))
wrong('mask of the whole warp in a branch', 'synccheck', 'x',
      'if t < 16:\n    x[t] = cuda.shfl_down_sync(0xffffffff, x[t], 1) # here', ('t < 16','t < 32'), (1,32),
      lambda: (Z(32),), who=lambda e: e.thread[0] < 16)
wrong('mask without me', 'synccheck', 'x', 'x[t] = cuda.any_sync(0xffff, t > 3) # here', ('0xffff','0xffffffff'),
      (1,32), lambda: (Z(32),), who=lambda e: e.thread[0] >= 16)
wrong('lock by all threads of a warp', 'synccheck', 'm, c',
      'if t < 32:\n    while cuda.atomic.cas(m, 0, 0, 1)!=0: # here\n        pass\n    cuda.atomic.add(c, 0, 1)\n'
      '    cuda.threadfence()\n    cuda.atomic.exch(m, 0, 0)', ('t < 32','t < 1'), (1,32), lambda: (Z(1,int),Z(1)))

KINDS = dict(memcheck=sim.MemcheckError, racecheck=sim.RacecheckError, initcheck=sim.InitcheckError,
             synccheck=sim.SynccheckError)

def line(src, mark): return next(n for n,l in enumerate(src.splitlines(),1) if mark in l)

@pytest.mark.parametrize('name', WRONG)
def test_the_fixed_kernel_is_silent(name):
    _,_,src,config,args,_,_ = WRONG[name]
    cell(src, name+', fixed').k[config](*args())

@pytest.mark.parametrize('config,args', [((1,1025),1),((1,(32,33)),1),((1,(1,1,65)),1),((0,32),1),((1,0),1),((1,-1),1),
                                         ((1,32,0,49*1024),1),((1,),1),((1,32),0),((1,32),2),(((1,65536),1),1)])
def test_impossible_launches(config, args):
    @cuda.jit
    def k(x): x[0] = 1
    with pytest.raises(sim.LaunchError) as e: k[config](*[np.zeros(1)]*args)
    assert e.value.kind=='launch' and e.value.kernel=='k'

@pytest.mark.parametrize('race', ['if x[i] > 0: out[0] = 1', 'out[t%2] = 5'])
def test_same_value_is_a_warning(race):
    with pytest.warns(sim.SameValueRace):
        cell(HEAD % 'x, out'+f'    {race}\n', 'same').k[2,64](np.ones(128), np.zeros(2))

def test_a_return_before_a_barrier_is_a_warning():
    "A barrier does not wait for threads that have returned, but for those that skip it, even if others have returned"
    src = (HEAD % 'x, n' + '    if i >= n: return\n    for j in range(3):\n        cuda.syncthreads()\n'
                           '        x[i] += cuda.syncthreads_and(1)\n')
    x = np.zeros(128)
    with warning('returned', line=7, kernel='k', here=36, threads=64, thread=(36, 0, 0)) as w:
        cell(src, 'returned').k[2,64](x, 100)
    assert x.tolist()==[3.]*100+[0.]*28 and len(w)==2
    assert all(o.filename=='<returned>' or o.filename==__file__ for o in w)
    with sim.options(checks='no synccheck'): cell(src, 'returned').k[2,64](x, 100)
    with finding('synccheck diverged'):
        cell(src.replace('cuda.syncthreads()\n', 'if t < 16: cuda.syncthreads()\n'), 'both').k[2,64](x, 100)

@pytest.fixture
def one_by_one():
    with change(settings, max_lanes=32): yield

def unwritten(body, grid, error, **options):
    src = HEAD % 'd, out' + ''.join(f'    {l}\n' for l in body.split('\n'))
    with sim.options(**options), pytest.raises(error) as e:
        cell(src, 'unwritten').k[grid, 32](cuda.device_array(32*grid), np.zeros(32*grid))
    assert e.value.line==line(src, '# here')
    return e.value

def test_what_a_block_that_runs_later_writes_is_a_race(one_by_one):
    e = unwritten('out[i] = d[d.size-1-i] # here\nd[i] = 1', 4, sim.RacecheckError)
    assert (e.code,e.other.line)==('race_of_blocks',e.line+1) and e.block!=e.other.block and e.array=='d'
    assert (e.fields['before'],e.fields['now'])==('written','read')  # the first race: half of the blocks ran before

@pytest.mark.parametrize('order,first', [('forward','read'), ('reverse','written')])
@pytest.mark.parametrize('data', [np.zeros(1), cuda.device_array(1)], ids=['initialized', 'uninitialized'])
def test_a_race_of_blocks_that_do_not_run_in_lockstep_names_the_later_access(order, first, data, one_by_one):
    "The first block reads what the last one writes: the order of the blocks decides which access comes later"
    src = HEAD % 'd, out' + '    if i == 0: out[0] = d[0] # read\n    if i == 127: d[0] = 5 # written\n'
    with sim.options(order=order), pytest.raises(sim.RacecheckError) as e:
        cell(src, 'far_apart').k[4,32](data, np.zeros(1))
    e, later = e.value, 'written' if first=='read' else 'read'
    assert (e.line,e.other.line)==(line(src, f'# {later}'),line(src, f'# {first}')) and e.code=='race_of_blocks'
    assert (e.fields['before'],e.fields['now'])==(first,later) and e.block!=e.other.block

@pytest.mark.parametrize('body', [
    'd[i] += 1. # here', 'cuda.atomic.add(d, 0, 1.) # here', 'out[i] = d[i] # here\nd[i] = 1',
    'out[i] = d[i^1] # here\ncuda.syncthreads()\nd[i] = 1', 'if i==40: d[0] = 1\nif i==0: out[0] = d[1] # here'])
def test_what_no_other_thread_writes_unordered_is_uninitialized(body, one_by_one):
    unwritten(body, 2, sim.InitcheckError)

def test_what_comes_of_an_uninitialized_value_is_not_reported_before_its_read():
    unwritten('while d[0]==0: pass # here', 1, sim.InitcheckError, seconds=2)  # it spins until then
    unwritten('j = int(d[0]) # here\nout[j-1] = 1', 1, sim.InitcheckError)
    unwritten('if t==3: out[0] = d[0]\nif t==9: out[99] = 1 # here', 1, sim.MemcheckError)

def test_without_racecheck_a_read_before_the_write_is_uninitialized():
    unwritten('if t < 16: out[t] = d[t+16] # here\nelse: d[t] = 1', 1, sim.InitcheckError, checks='no racecheck')

# what was wrong once

def outcome(body, n=8, head='', **names):
    "What `out` holds after a kernel of one block of `n` threads"
    out = np.zeros(n)
    cell(head + HEAD % 'out' + ''.join(f'    {l}\n' for l in body.split('\n')), 'once', **names).k[1,n](out)
    return out.tolist()

@pytest.mark.parametrize('src', ['i%3 and i%5','i%3 or 7'])
def test_and_or_give_values(src): assert outcome(f'out[i] = {src}')==[float(eval(src, dict(i=i))) for i in range(8)]

def test_unsigned_index(): assert outcome('out[np.uint64(i)] = i')==list(range(8))

def test_in_a_tuple(): assert outcome('out[i] = i in (1,2,3)')==[0,1,1,1,0,0,0,0]

def test_keywords_of_device_functions():
    assert (outcome('out[i] = f(i, by=2)', head='@cuda.jit(device=True)\ndef f(v, by=1): return v*by\n')
            == [2*i for i in range(8)])

def test_lock_taken_by_one_thread_of_each_block():
    c = cell('''
@cuda.jit
def k(lock, c):
    if cuda.threadIdx.x==0:
        while cuda.atomic.cas(lock, 0, 0, 1)!=0: pass
        cuda.threadfence()
        c[0] += 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)
''', 'lock')
    n = np.zeros(1)
    c.k[8,32](np.zeros(1, int), n)
    assert n[0]==8

def test_like_keeps_the_layout():
    d = cuda.to_device(np.asfortranarray(np.zeros((3,4))))
    assert cuda.device_array_like(d).strides==d.strides

def test_chained_comparison_guards_a_load():
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        if 0 <= i < x.size < x[i]+1000: out[i] = 1
    out = np.zeros(64)
    k[1,64](np.zeros(50), out)
    assert out.sum()==50

def test_order_of_evaluation():
    assert outcome('a = cuda.local.array(1, np.int64)\na[0] = 1\nout[i] = bump(a) + (a[0] if i >= 0 else 0)',
                   head='@cuda.jit(device=True)\ndef bump(a):\n    a[0] += 1\n    return a[0]\n')==[4]*8

def test_slices_with_a_step():
    x,out = np.arange(20.),np.zeros(8)
    def outcome2(n):
        @sim.cuda.jit
        def k(x, out):
            i = sim.cuda.grid(1)
            odd = x[1:16:2]
            out[i] = odd[i] + len(x[:n:3])
        k[1,8](x, out)
        return out.tolist()
    assert [outcome2(n) for n in (9,10,11)]==[[float(1+2*i+len(range(0,n,3))) for i in range(8)] for n in (9,10,11)]

def test_sizes_that_numba_knows_when_it_compiles():
    sizes = '8', '2*4', 'TPB', 'SHAPE', 'SHAPE[0]', '(4, TPB+1)', 'n', 'both', 'x.ndim'
    body = '    n = 8; both = n,TPB\n' + ''.join(f'    s{i} = cuda.shared.array({o}, np.int8)\n'
                                                  f'    x[{i}] = s{i}.size\n' for i,o in enumerate(sizes))
    x = np.zeros(len(sizes))
    cell(HEAD % 'x' + body, 'sizes', TPB=2, SHAPE=(3,2), LARGE=10**30).k[1,1](x)
    assert x.tolist()==[8,8,2,6,3,12,8,16,1]

def test_a_captured_array_is_a_constant():
    table = TABLE.copy()
    k = cell(HEAD % 'x' + '    x[t] = table[t] + table.size\n', 'frozen', table=table).k
    x = np.zeros(4)
    k[1,4](x)
    table[:] = 9
    k[1,4](x)
    np.testing.assert_array_equal(x, TABLE+4)

def test_a_captured_array_is_read_only():
    with finding('memcheck constant', array='table', line=5):
        cell(HEAD % 'x' + '    table[t] = 1\n', 'frozen', table=TABLE).k[1,4](np.zeros(4))

def test_names_that_numba_has():
    import numba
    @numba.njit
    def helper(v): return v*2
    body = '    s = cuda.local.array(1, cuda.float32)\n    s[0] = cuda.int32(3.7)\n    x[t] = helper(s[0])\n'
    k,x = cell(HEAD % 'x' + body, 'names', helper=helper).k,np.zeros(2)
    k.configure(1, 2)(x)
    assert x.tolist()==[6,6]
    with pytest.raises(sim.NotSimulated, match=r'CUDA C(.|\n)*device=True'): cuda.declare_device('f', 'int32(int32)')

def test_types_are_numpys():
    cuda = sim.cuda
    for name in 'int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128'.split():
        T, base = getattr(cuda, name), getattr(np, name)
        assert np.dtype(T) == base and type(T(3)) is base and type(np.zeros(2, T)[0]) is base
        assert T is getattr(cuda, f'{np.dtype(T).kind}{np.dtype(T).itemsize}')
        assert (T[:].ndim, T[:, ::1].ndim, T[:].dtype) == (1, 2, base)
    assert cuda.void(cuda.i4, cuda.f8[:]).args[1].dtype == np.float64

def test_every_name_that_numba_has_for_a_numeric_type():
    from numba import types
    names = set(types.__all__) - set('void none optional ffi ffi_forced_object deferred_type'.split()) | {'float16'}
    for name in names:
        T = getattr(sim.cuda.types, name)
        assert np.dtype(T) == T[:].dtype == np.dtype(str(getattr(types, name))), name
        assert getattr(sim.cuda, name) is T and T(True).dtype == T[:].dtype

SIGNED = '@cuda.jit(%s)\ndef k(x, a):\n    x[cuda.threadIdx.x] = a\n'

def test_signatures_of_types_that_numba_has():
    from numba import float32, int32, void
    for signature in ('void(float32[:], int32)', '(float32[:], int32)'):
        k = cell(SIGNED % signature, 'numbas', float32=float32, int32=int32, void=void).k
        k[1,2](x := np.zeros(2, 'f4'), 3)
        assert x.tolist() == [3,3]
        with pytest.raises(TypeError, match='declared as float32'): k[1,2](np.zeros(2), 3)

@pytest.mark.parametrize('src', ['t//(t-2)', 't%(t-2)', 'divmod(t,t-2)[1]', '0 if t//(t-2) else t'])
def test_an_integer_divided_by_zero_is_reported(src):
    with finding('crash division', line=5, thread=(2, 0, 0)):
        cell(HEAD % 'x' + f'    x[t] = {src}\n', 'divided').k[1,4](np.zeros(4))
    assert outcome(f'out[t] = t!=2 and ({src})<99')==[1,1,0]+5*[1]

# what is computed with small integers, as Numba types it: both without a sign stay so, at 64 bits; else they are int64
U8,I8,I32,U32,I64,U64,F4 = np.uint8,np.int8,np.int32,np.uint32,np.int64,np.uint64,np.float32
TYPED = [('a-b', U8(3), U8(5), 2.**64), ('a-1', U8(0), U8(0), -1), ('a-b', U8(3), I8(5), -2),
    ('a-b', I8(-100), I8(100), -200), ('a+b', U8(250), U8(10), 260), ('(a-b)&255', U8(3), U8(5), 254),
    ('a%b', U64(7), I64(4), 3), ('(a>>1)-4', U32(2), U32(0), -3), ('a<<b', U8(200), I8(4), 3200),
    ('(a if a>0 else 0)-b', U8(3), U8(5), -2), ('min(a,b)-b', U8(3), U8(5), 2.**64), ('min(a,5)-b', U8(3), U8(9), -6),
    ('-(a<b)', I8(1), I8(2), -1), ('~(a<b)', I8(1), I8(2), 0), ('(a<b)+(a<=b)', I8(1), I8(2), 2),
    ('a*b', F4(.1), I8(3), F4(.1)*F4(3)), ('a*b', F4(.1), I32(3), float(F4(.1))*3),
    ('a**2', F4(.1), I8(0), F4(.1)*F4(.1)), ('a/b', I8(1), I8(3), 1/3), ('float(a)*a', F4(.1), I8(0), F4(.1)*F4(.1)),
    ('math.sqrt(a)', I8(2), I8(0), math.sqrt(2)), ('math.atan2(a,a)', F4(1), I8(0), F4(math.pi/4)),
    ('abs(a)', I8(-5), I8(0), 5), ('cuda.clz(a)', I64(1), I8(0), 63), ('cuda.clz(a)', I32(1), I8(0), 31),
    ('cuda.popc(a)', I32(-1), I8(0), 32), ('cuda.popc(a)', I64(-1), I8(0), 64), ('int(a)-int(b)', U8(3), U8(5), 2.**64)]

@pytest.mark.parametrize('src,a,b,want', TYPED, ids=[f'{s} of {a.dtype} and {b.dtype}' for s,a,b,_ in TYPED])
def test_types_are_those_of_numba(src, a, b, want):
    out = np.zeros(2)
    cell(HEAD % 'x, y, out' + f'    a,b = x[0],y[0]\n    if t==0: out[0] = {src}\n', 'typed').k[1,32](
        np.array([a]), np.array([b]), out)
    assert out[0]==pytest.approx(want, rel=1e-15 if 'atan2' not in src else 1e-6)

# Numba has no integer type for a uint64 and a signed integer, so it compares them as float64
COMPARED = [('x', 'y'), ('y', 'x'), ('x', 'LARGE'), ('x', 's'), ('x - np.uint64(1)', 'y')]
SIGNS = '< <= > >= == !='.split()
FAR = [0, 5, 2**53-1, 2**53, 2**53+1, 2**62, 2**62+1, 2**62+2, 2**63-1]

@pytest.mark.parametrize('left,right', COMPARED)
def test_a_uint64_and_a_signed_integer_are_compared_as_float64(left, right):
    x = np.array([v for v in [*FAR, 2**63, 2**64-1] for _ in range(11)], np.uint64)
    y = np.array([*FAR, -1, -2**63]*11)
    body = ''.join(f'    out[{n},t] = {left} {op} {right}\n' for n,op in enumerate(SIGNS))
    out,s = np.zeros((8, len(x)), bool),np.int64(2**53+1)
    src = 'LARGE = 2**62+1\n' + HEAD % 'a, b, out, s' + '    x, y = a[t], b[t]\n' + body
    src += f'    out[6,t] = {left} in ({right}, 7)\n    out[7,t] = -1 < {left} < {right}\n'
    cell(src, 'compared').k[1,len(x)](x, y, out, s)
    known = dict(x=x, y=y, s=s, LARGE=np.int64(2**62+1), np=np)
    p,q = (np.asarray(eval(o, known)).astype(float) for o in (left, right))
    for n,op in enumerate(SIGNS): assert (out[n]==eval(f'p {op} q')).all(), op
    assert (out[6]==((p==q) | (p==7))).all() and (out[7]==((-1<p) & (p<q))).all()

def test_integers_that_share_a_type_are_compared_exactly():
    src = HEAD % 'a, b, c, out' + '''    x, y, z = a[t], b[t], c[t]
    out[0] = x < 2**62+2
    out[1] = y < z
    out[2] = y == np.uint64(2**62)
    out[3] = z > a[t+1]
'''
    out = np.zeros(4, bool)
    cell(src, 'exact').k[1,1](np.array([2**62+1, 5]), np.array([2**62+1], U64), np.array([2**62+2], U64), out)
    assert out.tolist()==[True, True, False, True]

def test_a_small_integer_joins_a_larger_one():
    src = HEAD % 'x, out' + '    v = 0\n    if t < 32: v = x[t]\n    if t < 32: out[t] = v-x[t+1]\n'
    x,out = np.arange(33, dtype=np.uint8),np.zeros(32)
    cell(src, 'joined').k[1,32](x, out)
    assert out.tolist()==[-1.]*32

def test_bounds_without_a_sign():
    @cuda.jit
    def k(x, n, out):
        i = np.uint32(cuda.grid(1))
        part = x[n*n:2*n*n]
        for j in range(n*n, n*n+i, n-1): out[i] += part[j-n*n]
    x,out = np.arange(8.),np.zeros(4)
    k[1,4](x, np.uint32(2), out)
    assert out.tolist()==[0,4,9,15]

def test_the_lane_in_a_choice():
    @cuda.jit
    def k(out):
        i = cuda.grid(1)
        out[i] = cuda.laneid if i%2 else -1
    out = np.zeros(6)
    k[1,6](out)
    assert out.tolist()==[-1,1,-1,3,-1,5]


def test_as_cuda_array_shares_memory():
    @sim.cuda.jit
    def one_more(x):
        i = sim.cuda.grid(1)
        if i < x.shape[0]: x[i] += 1
    import torch
    for make in (np.zeros, lambda n: torch.zeros(n), lambda n: np.zeros((n, 3))[:, 1], lambda n: np.zeros(2*n)[n:]):
        a = make(8)
        d = sim.cuda.as_cuda_array(a)
        one_more[1, 32](d)
        assert (np.asarray(a) == 1).all()
        a[2] = 5
        d[3] = 7
        assert d.copy_to_host()[2] == 5 and a[3] == 7 and sim.cuda.as_cuda_array(d) is d


@pytest.mark.slow
def test_a_long_loop_is_not_a_wait_and_an_endless_one_ends_with_its_line():
    @sim.cuda.jit
    def plain(x, n):
        i, s = 0, 0.
        while i < n:
            s += x[0]
            i += 1
        x[sim.cuda.grid(1) + 1] = s
    @sim.cuda.jit
    def counts(x):
        n = 0
        while x[0] == 0.: n += 1        # endless, and a variable changes
    x = np.ones(40)
    plain[1, 32](x, 12000)
    assert x[1] == 12000
    with sim.options(seconds=.3), finding('timeout time_limit', seconds='0.3') as e:
        counts[1, 32](np.zeros(3))
    assert 'sim.options' in e.value.hint and 'while x[0] == 0.: n += 1' in str(e.value)
    with pytest.raises(ValueError, match=r'seconds.* 0\b'):
        with sim.options(seconds=0): pass

@pytest.mark.parametrize('name', ['shfl_sync', 'syncthreads_count', 'threadfence', 'popc', 'all_sync', 'atomic.cas',
                                  'shared.array', 'fp16.hadd', 'cg.this_grid'])
def test_names_that_belong_in_a_kernel_raise_a_clear_error(name):
    with pytest.raises(RuntimeError, match=saying(f'cuda.{name.split("cg.")[-1]}', 'inside', 'kernel')):
        operator.attrgetter(name)(cuda)(1, 2, 3)

def test_local_arrays_take_no_shared_memory():
    @cuda.jit
    def k(x):
        own, s = cuda.local.array(10_000, np.float32), cuda.shared.array(32, np.float32)
        i = cuda.grid(1)
        s[i] = x[i]
        own[9_999] = s[i]
        x[i] = own[9_999] + 1
    x = np.arange(32, dtype=np.float32)
    k[1, 32](x)
    np.testing.assert_array_equal(x, np.arange(32)+1)

def test_a_race_names_the_line_where_that_thread_has_read():
    k = cell("""@cuda.jit
def k(x):
    i, o = cuda.grid(1), 0.
    for j in range(32): o += x[j]  # there
    x[i] = x[i] + o  # here
""").k
    with pytest.raises(sim.RacecheckError) as e: k[1, 32](np.ones(32))
    assert {e.value.line, e.value.other.line} == {4, 5} and 'syncthreads' in str(e.value)

def test_a_reader_in_another_warp_is_remembered_in_every_order():
    @cuda.jit
    def k(x, out):
        t = cuda.threadIdx.x
        out[t] = x[0]
        cuda.syncwarp()
        if t == 0: x[0] = 2
    for seed in range(12):
        with sim.options(order='shuffle', seed=seed), pytest.raises(sim.RacecheckError):
            k[1, 64](np.ones(1), np.zeros(64))

# what one engine runs and the other refuses

def compute_factorials():
    c = cell('''
@cuda.jit(device=True)
def fact(n):
    if n <= 1: return 1
    return n*fact(n-1)
@cuda.jit
def k(out):
    i = cuda.grid(1)
    out[i] = fact(i)
''', 'recursion')
    out = np.zeros(10, int)
    c.k[1,10](out)
    np.testing.assert_array_equal(out, [math.factorial(max(i,1)) for i in range(10)])

def reverse_array_of(dtype):
    @cuda.jit
    def k(a, out):
        i = cuda.grid(1)
        out[i] = a[a.size-1-i]
    a = rng().integers(0,100,32).astype(dtype)
    out = np.zeros_like(a)
    k[1,32](a, out)
    np.testing.assert_array_equal(out, a[::-1])

def reverse_across_the_grid():
    @cuda.jit
    def k(x, out):
        i = cuda.grid(1)
        x[i] = i
        cuda.cg.this_grid().sync()
        out[i] = x[x.size-1-i]
    x,out = np.zeros(128),np.full(128, np.nan)
    k[4,32](x, out)
    np.testing.assert_array_equal(out, np.arange(128)[::-1])

UNCOMPILED = [  # body, error, what it says
    ('x[t] = 2*y[t]', 'MemcheckError',
     r'indices for y: .*2.*1(.|\n)*line 5: x\[t\] = 2\*y\[t\]'),
    ('if y[t] > 0: x[t] = 1', 'MemcheckError', 'indices for y: .*2.*1'),
    ('s = cuda.shared.array((2, 4), np.float64)\n    x[t] = abs(s[t])', 'MemcheckError',
     'indices for s: .*2.*1'),
    ('x[t] = y[t, 0, 0]', 'MemcheckError', 'indices for y: .*2.*3'),
    ('x[t] = y[t,:]*2', 'NotSimulated', r'whole array(.|\n)*line 5(.|\n)*elements'),
    ('return x[t]', 'NotSimulated', r'a kernel cannot return a value(.|\n)*line 5: return x\[t\]'),
    ('if x[t] > 9: return x[t]', 'NotSimulated', r'a kernel cannot return a value(.|\n)*line 5: if'),
    ('x[t] = 10**30', 'NotSimulated', r'10{30} needs more than 64 bits(.|\n)*line 5: x(.|\n)*1e30'),
    ('x[t] = LARGE', 'NotSimulated', r'10{30} needs more than 64 bits'),
    ('s = cuda.shared.array(cuda.blockDim.x, np.float64)', 'NotSimulated', r'compile-time constant(.|\n)*line 5'),
    ('s = cuda.shared.array(x.size, np.float64)', 'NotSimulated', r'cuda\.shared\.array\(0'),
    ('s = cuda.shared.array((TPB, TPB+y.ndim*t), np.float64)', 'NotSimulated', r'outside the kernel'),
    ('n = t; s = cuda.local.array(n, np.float64)', 'NotSimulated', r'must be a compile-time constant'),
    ('for i in range(x.size/2): x[i] = 1', 'NotSimulated',
     r'bounds of range(.|\n)*line 5: for i in range')]

PYTHON_ERRORS = [  # body, error, note
    ('x[t] = threadIdx.x', NameError, 'mean cuda.threadIdx?'),
    ('x[t] = cuda.blockdim.x', AttributeError, 'mean cuda.blockDim?'), ('x[t] = nowhere', NameError, 'in k'),
    ('x[t] += "a"', TypeError, 'in k')]
