from . import right


@right('threads_and_barriers.reverse')
def in_place(blockIdx, threadIdx, blockDim, shared, syncb, x):
    t,first = threadIdx.x,blockIdx.x*blockDim.x
    other = first + blockDim.x-1 - t
    v = x[other]
    syncb.wait()
    x[first+t] = v

@right('threads_and_barriers.scan')
def two_steps(blockIdx, threadIdx, blockDim, shared, syncb, x, out, n):
    t,d = threadIdx.x,1
    shared[t] = x[t]
    syncb.wait()
    while d < n:
        v = shared[t-d] if t >= d else 0.
        syncb.wait()
        shared[t] += v
        syncb.wait()
        d *= 2
    out[t] = shared[t]
