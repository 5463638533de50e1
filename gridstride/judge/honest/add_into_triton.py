#!POPCORN leaderboard add_into
#!POPCORN gpu H100
"Triton, in the leaderboards' other form: the memory for the output is given"

from task import input_t, output_t
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "Add BLOCK elements"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(a_ptr + i, mask=i < n) + tl.load(b_ptr + i, mask=i < n), mask=i < n)


def custom_kernel(data: input_t) -> output_t:
    "Write a + b to the third tensor, and return it"
    a, b, out = data
    add_kernel[(triton.cdiv(a.numel(), 128),)](a, b, out, a.numel(), BLOCK=128)
    return out
