#!POPCORN leaderboard softmax
#!POPCORN gpu H100
"CUDA C, lesson 20: one warp per row, shuffles"

import torch
from gridstride import cdiv, cuda_kernel

softmax_kernel = cuda_kernel('''
__global__ void softmax_kernel(const float *x, float *out, int rows, int n) {
    int lane = threadIdx.x%32, row = (blockIdx.x*blockDim.x + threadIdx.x)/32;
    if (row >= rows) return;
    x += (long)row*n, out += (long)row*n;
    float most = -INFINITY, sum = 0.0f;
    for (int i = lane; i < n; i += 32) most = fmaxf(most, x[i]);
    for (int o = 16; o; o /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
    for (int i = lane; i < n; i += 32) sum += expf(x[i] - most);
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    for (int i = lane; i < n; i += 32) out[i] = expf(x[i] - most)/sum;
}
''')


def custom_kernel(data):
    "Return the softmax of each row"
    rows, n = data.shape
    out = torch.empty_like(data)
    softmax_kernel[cdiv(rows, 4), 128](data, out, rows, n)
    return out
