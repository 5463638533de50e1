import numpy as np
from gridstride.sim import cuda
from gridstride.bench.variants import changed
from wrong.stencils_and_convolution import common_k

from . import right


@right('stencils_and_convolution.rows')
def double_buffering():
    @cuda.jit
    def k(u, out):
        s = cuda.shared.array((2, 64), np.float32)
        t = cuda.threadIdx.x
        h,w = u.shape
        x = cuda.blockIdx.x*62 + t - 1
        inside = x >= 0 and x < w
        above = np.float32(0)
        here = u[0,x] if inside else np.float32(0)
        for y in range(h):
            below = u[y+1,x] if inside and y+1 < h else np.float32(0)
            s[y%2,t] = here
            cuda.syncthreads()
            if inside and t > 0 and t < 63:
                out[y,x] = here
                if y > 0 and y < h-1 and x > 0 and x < w-1: out[y,x] = above + below + s[y%2,t-1] + s[y%2,t+1]
            above = here
            here = below
    return k

@right('stencils_and_convolution.common')
def one_more_barrier():
    return changed(common_k, '        cuda.syncthreads()\n', '        cuda.syncthreads()\n        cuda.syncthreads()\n')
