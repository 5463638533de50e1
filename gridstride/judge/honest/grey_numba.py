#!POPCORN leaderboard grey
#!POPCORN gpu H100
"Numba, lesson 07: one thread per pixel"

import torch
from gridstride import cdiv, cuda


@cuda.jit
def grey_kernel(x, out, n):
    "Convert one pixel"
    i = cuda.grid(1)
    if i < n:
        out[i] = 0.2989 * x[i] + 0.5870 * x[i + n] + 0.1140 * x[i + 2 * n]


def custom_kernel(data):
    "Convert an RGB image to grayscale"
    _, h, w = data.shape
    out = torch.empty(h * w, device=data.device)
    grey_kernel[cdiv(h * w, 256), 256](data.flatten(), out, h * w)
    return out.reshape(h, w)
