#!POPCORN leaderboard matmul
#!POPCORN gpu H100
"Numba, lesson 07: tiles in shared memory"

import numpy as np
import torch
from gridstride import cdiv, cuda

TW = 16


@cuda.jit
def matmul_kernel(m, n, out, h, w, k):
    "Compute one element of the product per thread, one tile per block"
    ms = cuda.shared.array((TW, TW), np.float32)
    ns = cuda.shared.array((TW, TW), np.float32)
    tc, tr = cuda.threadIdx.x, cuda.threadIdx.y
    r, c = cuda.blockIdx.y * TW + tr, cuda.blockIdx.x * TW + tc
    p = 0.0
    for ph in range((k + TW - 1) // TW):
        ms[tr, tc] = m[r, ph * TW + tc] if r < h and ph * TW + tc < k else 0.0
        ns[tr, tc] = n[ph * TW + tr, c] if c < w and ph * TW + tr < k else 0.0
        cuda.syncthreads()
        for i in range(TW):
            p += ms[tr, i] * ns[i, tc]
        cuda.syncthreads()
    if r < h and c < w:
        out[r, c] = p


def custom_kernel(data):
    "Return m @ n"
    m, n = data
    (h, k), w = m.shape, n.shape[1]
    out = torch.empty(h, w, device=m.device)
    matmul_kernel[(cdiv(w, TW), cdiv(h, TW)), (TW, TW)](m, n, out, h, w, k)
    return out
