#!POPCORN leaderboard grey
#!POPCORN gpu H100
"CUDA C, lesson 05: one thread per pixel"

import torch
from gridstride import cdiv, cuda_kernel

grey_kernel = cuda_kernel('''
__global__ void grey_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) out[i] = 0.2989f*x[i] + 0.5870f*x[i + n] + 0.1140f*x[i + 2*n];
}
''')


def custom_kernel(data):
    "Convert an RGB image to grayscale"
    _, h, w = data.shape
    out = torch.empty(h, w, device=data.device)
    grey_kernel[cdiv(h * w, 256), 256](data, out, h * w)
    return out
