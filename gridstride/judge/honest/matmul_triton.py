#!POPCORN leaderboard matmul
#!POPCORN gpu H100
"Triton, lesson 17: one tile of the output per program, in float32 throughout"

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(m_ptr, n_ptr, out_ptr, h, w, k, TILE: tl.constexpr):
    "Compute one tile of the product"
    r = tl.program_id(0) * TILE + tl.arange(0, TILE)
    c = tl.program_id(1) * TILE + tl.arange(0, TILE)
    acc = tl.zeros((TILE, TILE), dtype=tl.float32)
    for ph in range(0, k, TILE):
        idx = ph + tl.arange(0, TILE)
        m = tl.load(m_ptr + r[:, None] * k + idx[None, :], mask=(r[:, None] < h) & (idx[None, :] < k), other=0.0)
        n = tl.load(n_ptr + idx[:, None] * w + c[None, :], mask=(idx[:, None] < k) & (c[None, :] < w), other=0.0)
        acc += tl.dot(m, n, input_precision='ieee')
    tl.store(out_ptr + r[:, None] * w + c[None, :], acc, mask=(r[:, None] < h) & (c[None, :] < w))


def custom_kernel(data):
    "Return m @ n"
    m, n = data
    (h, k), w = m.shape, n.shape[1]
    out = torch.empty(h, w, device=m.device)
    matmul_kernel[(triton.cdiv(h, 32), triton.cdiv(w, 32))](m, n, out, h, w, k, TILE=32)
    return out
