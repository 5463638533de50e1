"""Kernels whose memory traffic was counted by Nsight Compute on an NVIDIA H100, and is counted by the simulator.

Each is made for a `cuda` module, Numba's or the simulator's, so that both run the same source. The
ones on shared memory keep their indices in arguments: a compiler that knew them would leave
accesses out. Some of these read uninitialized elements, whose values are undefined; what they
are for is being counted.
"""
import numpy as np

N = 1024


def kernels(cuda):
    "(name, kernel, grid, block, arguments as NumPy arrays and scalars)"
    rng = np.random.default_rng(0)
    def x(n=N, dtype=np.float32): return rng.normal(size=n).astype(dtype)
    def out(n=N, dtype=np.float32): return np.zeros(n, dtype)
    res = []
    def case(grid, block, *args):
        def _f(f):
            res.append((f.__name__, cuda.jit(f), grid, block, args))
            return f
        return _f

    @case(8, 128, x(), out())
    def copy(x, out):
        i = cuda.grid(1)
        out[i] = x[i]

    @case(9, 128, x(1100), out(1100))
    def copy_ragged(x, out):
        i = cuda.grid(1)
        if i < x.size: out[i] = x[i]

    @case(8, 128, x(2*N), out())
    def stride_2(x, out):
        i = cuda.grid(1)
        out[i] = x[2*i]

    @case(8, 128, x(32*N), out())
    def stride_32(x, out):
        i = cuda.grid(1)
        out[i] = x[32*i]

    @case(8, 128, x(N+8), out())
    def offset_1(x, out):
        i = cuda.grid(1)
        out[i] = x[i+1]

    @case((2,2), (32,32), x(64*64).reshape(64,64), out(64*64).reshape(64,64))
    def transpose(x, out):
        c,r = cuda.grid(2)
        out[c,r] = x[r,c]

    @case((4,8), (16,8), x(64*64).reshape(64,64), out(64*64).reshape(64,64))
    def copy_16_wide(x, out):
        c,r = cuda.grid(2)
        out[r,c] = x[r,c]

    @case(8, 128, x(), out())
    def broadcast(x, out):
        i = cuda.grid(1)
        out[i] = x[i//32]

    @case(8, 128, x(dtype=np.float64), out(dtype=np.float64))
    def copy_64_bit(x, out):
        i = cuda.grid(1)
        out[i] = x[i]

    @case(8, 128, np.arange(N).astype(np.int8), out(dtype=np.int8))
    def copy_8_bit(x, out):
        i = cuda.grid(1)
        out[i] = x[i]

    @case(8, 128, np.arange(N).astype(np.int16), out(dtype=np.int16))
    def copy_16_bit(x, out):
        i = cuda.grid(1)
        out[i] = x[i]

    @case(8, 128, x(), rng.permutation(N).astype(np.int32), out())
    def gather(x, at, out):
        i = cuda.grid(1)
        out[i] = x[at[i]]

    @case(8, 128, x(), out())
    def divergent(x, out):
        i = cuda.grid(1)
        if i % 2 == 0: out[i] = x[i]
        elif i % 3 == 0: out[i] = x[N-1-i]

    @case(8, 128, x(), out())
    def half_a_warp(x, out):
        i = cuda.grid(1)
        if i % 32 < 16: out[i] = x[i]

    def shared(name, dtype=np.float32, size=1024):
        "Write shared memory with one stride, read it with another"
        def f(x, out, a, b):
            s = cuda.shared.array(size, dtype)
            t = cuda.threadIdx.x
            s[t*a % size] = x[t]
            cuda.syncthreads()
            out[t] = s[t*b % size]
        f.__name__ = f.__qualname__ = name
        return f

    for name,a,b,dtype in [('shared_1_1',1,1,np.float32), ('shared_1_2',1,2,np.float32),
                           ('shared_33_32',33,32,np.float32), ('shared_17_16',17,16,np.float32),
                           ('shared_4_3',4,3,np.float32), ('shared_1_0',1,0,np.float32),
                           ('shared_64_bit',1,1,np.float64), ('shared_64_bit_2',1,2,np.float64),
                           ('shared_64_bit_32',32,1,np.float64), ('shared_8_bit',1,1,np.int8),
                           ('shared_16_bit',1,2,np.int16)]:
        data = x(32, dtype) if np.dtype(dtype).kind=='f' else np.arange(32).astype(dtype)
        case(1, 32, data, np.zeros(32, dtype), a, b)(shared(name, dtype))

    def tile(name, width):
        "Transpose through a tile of shared memory with rows of `width` elements"
        def f(x, out):
            s = cuda.shared.array((32,width), np.float32)
            c,r = cuda.threadIdx.x,cuda.threadIdx.y
            s[r,c] = x[cuda.blockIdx.y*32+r, cuda.blockIdx.x*32+c]
            cuda.syncthreads()
            out[cuda.blockIdx.x*32+r, cuda.blockIdx.y*32+c] = s[c,r]
        f.__name__ = f.__qualname__ = name
        return f
    case((2,2), (32,32), x(4096).reshape(64,64), out(4096).reshape(64,64))(tile('tile_32', 32))
    case((2,2), (32,32), x(4096).reshape(64,64), out(4096).reshape(64,64))(tile('tile_padded', 33))

    @case(4, 256, x(), out(4))
    def tree_sum(x, out):
        s = cuda.shared.array(256, np.float32)
        t = cuda.threadIdx.x
        s[t] = x[cuda.grid(1)]
        half = cuda.blockDim.x//2
        while half > 0:
            cuda.syncthreads()
            if t < half: s[t] += s[t+half]
            half //= 2
        if t == 0: out[cuda.blockIdx.x] = s[0]

    @case(4, 256, x(), out(4))
    def tree_sum_interleaved(x, out):
        s = cuda.shared.array(256, np.float32)
        t = cuda.threadIdx.x
        s[t] = x[cuda.grid(1)]
        d = 1
        while d < cuda.blockDim.x:
            cuda.syncthreads()
            if t % (2*d) == 0: s[t] += s[t+d]
            d *= 2
        if t == 0: out[cuda.blockIdx.x] = s[0]

    @case((4,4), (16,16), x(4096).reshape(64,64), x(4096).reshape(64,64), out(4096).reshape(64,64), 16)
    def matmul_tiled(m, n, out, tw):
        ms = cuda.shared.array((16,16), np.float32)
        ns = cuda.shared.array((16,16), np.float32)
        c,r = cuda.grid(2)
        tc,tr = cuda.threadIdx.x,cuda.threadIdx.y
        o = np.float32(0)
        for ph in range(m.shape[1]//tw):
            ms[tr,tc] = m[r, ph*tw+tc]
            ns[tr,tc] = n[ph*tw+tr, c]
            cuda.syncthreads()
            for i in range(tw): o += ms[tr,i]*ns[i,tc]
            cuda.syncthreads()
        out[r,c] = o

    @case((4,4), (16,16), x(4096).reshape(64,64), x(4096).reshape(64,64), out(4096).reshape(64,64))
    def matmul_naive(m, n, out):
        c,r = cuda.grid(2)
        o = np.float32(0)
        for i in range(m.shape[1]): o += m[r,i]*n[i,c]
        out[r,c] = o

    return res
