#!POPCORN leaderboard sum
#!POPCORN gpu H100
"Numba, lesson 13: a tree in shared memory, the blocks together by an atomic"

import numpy as np
import torch
from gridstride import cdiv, cuda

TPB = 128


@cuda.jit
def sum_kernel(x, out, n):
    "Add up the elements of a block, and add their sum to out[0]"
    s = cuda.shared.array(TPB, np.float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    s[t] = x[i] if i < n else 0.0
    cuda.syncthreads()
    step = TPB // 2
    while step:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


def custom_kernel(data):
    "Return the sum"
    out = torch.zeros(1, device=data.device)
    sum_kernel[cdiv(data.numel(), TPB), TPB](data, out, data.numel())
    return out
