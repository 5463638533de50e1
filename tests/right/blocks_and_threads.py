from . import right


@right('blocks_and_threads.row_max')
def with_a_slice(blockIdx, threadIdx, blockDim, x, out, h, w):
    r = blockIdx.x*blockDim.x + threadIdx.x
    if r < h: out[r] = max(x[r*w:(r+1)*w])

@right('blocks_and_threads.grid_stride')
def slices_of_the_stride(blockIdx, threadIdx, blockDim, gridDim, x, out, n):
    first,step = blockIdx.x*blockDim.x + threadIdx.x,gridDim.x*blockDim.x
    out[first::step] = 2*x[first::step].astype('float32')
