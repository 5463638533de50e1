#!POPCORN leaderboard add
#!POPCORN gpu H100
"Triton, lesson 17: one block of elements per program"

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "Add BLOCK elements"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(a_ptr + i, mask=i < n), tl.load(b_ptr + i, mask=i < n)
    tl.store(out_ptr + i, a + b, mask=i < n)


def custom_kernel(data):
    "Return a + b"
    a, b = data
    out = torch.empty_like(a)
    add_kernel[(triton.cdiv(a.numel(), 256),)](a, b, out, a.numel(), BLOCK=256)
    return out
