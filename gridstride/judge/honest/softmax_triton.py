#!POPCORN leaderboard softmax
#!POPCORN gpu H100
"Triton, lesson 17: one program per row"

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "Compute the softmax of one row"
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float('inf'))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * n + cols, e / tl.sum(e, 0), mask=cols < n)


def custom_kernel(data):
    "Return the softmax of each row"
    rows, n = data.shape
    out = torch.empty_like(data)
    softmax_kernel[(rows,)](data, out, n, BLOCK=triton.next_power_of_2(n))
    return out
