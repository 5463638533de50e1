#!POPCORN leaderboard sum
#!POPCORN gpu H100
"Triton, lesson 13: one partial sum per program, then the sum of these, in a fixed order"

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "Reduce BLOCK elements to their sum"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0))


def custom_kernel(data):
    "Return the sum: repeat the kernel until one element remains"
    x = data
    while True:
        n = x.numel()
        out = torch.empty(triton.cdiv(n, 256), device=x.device)
        sum_kernel[(out.numel(),)](x, out, n, BLOCK=256)
        if out.numel() == 1:
            return out
        x = out
