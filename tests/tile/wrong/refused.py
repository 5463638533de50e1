"What Triton does not compile, or no GPU launches; and what compiles and means something else."
import torch
import triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tile_corpus import bf16, f16, normal, unwritten, wrong, zeros


@triton.jit
def odd_block_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # refused
    tl.store(out_ptr + i, tl.load(x_ptr + i))

@wrong
def block_is_no_power_of_two(go):
    x, out = normal(100), unwritten(100)
    go(odd_block_kernel, 1, x, out, BLOCK=100)
    return [(out, x.double())]


@triton.jit
def size_kernel(x_ptr, out_ptr, n):
    i = tl.arange(0, n)  # refused
    tl.store(out_ptr + i, tl.load(x_ptr + i))

@wrong
def size_that_is_no_constexpr(go):
    x, out = normal(64), unwritten(64)
    go(size_kernel, 1, x, out, 64)
    return [(out, x.double())]


@triton.jit
def if_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if i < n:  # refused
        tl.store(out_ptr + i, tl.load(x_ptr + i))

@wrong
def if_on_a_block(go):
    x, out = normal(100), unwritten(100)
    go(if_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def and_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = 0 <= i < n  # refused
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=inside), mask=inside)

@wrong
def chained_comparison(go):
    x, out = normal(100), unwritten(100)
    go(and_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def shapes_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + m[:, None] * K + k[None, :])
    tl.store(c_ptr + m[:, None] * M + m[None, :], tl.dot(a, b))  # refused

@wrong
def dot_of_shapes_that_do_not_fit(go):
    a, b, c = normal(16, 32, dtype=f16), normal(16, 32, dtype=f16), unwritten(16, 16)
    go(shapes_kernel, 1, a, b, c, M=16, K=32)
    return [(c, a.double() @ b.double().T)]


@triton.jit
def small_dot_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * M + m[None, :])
    tl.store(c_ptr + m[:, None] * M + m[None, :], tl.dot(a, b))  # refused

@wrong
def dot_too_small_for_a_gpu(go):
    a, b, c = normal(16, 8, dtype=f16), normal(8, 16, dtype=f16), unwritten(16, 16)
    go(small_dot_kernel, 1, a, b, c, M=16, K=8)
    return [(c, a.double() @ b.double())]


@triton.jit
def mixed_dot_kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    at = n[:, None] * N + n[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))  # refused

@wrong
def dot_of_two_types(go):
    a, b, c = normal(16, 16, dtype=f16), normal(16, 16), unwritten(16, 16)
    go(mixed_dot_kernel, 1, a, b, c, N=16)
    return [(c, a.double() @ b.double())]


@triton.jit
def broadcast_kernel(x_ptr, w_ptr, out_ptr, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    at = r[:, None] * C + c[None, :]
    tl.store(out_ptr + at, tl.load(x_ptr + at) * tl.load(w_ptr + r))  # refused

@wrong
def axis_not_added(go):
    x, w, out = normal(16, 32), normal(16), unwritten(16, 32)
    go(broadcast_kernel, 1, x, w, out, R=16, C=32)
    return [(out, x.double() * w.double()[:, None])]


@triton.jit
def wrong_way_kernel(x_ptr, w_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(out_ptr + at, tl.load(x_ptr + at) * tl.load(w_ptr + i))  # unseen: a square block takes it along the rows

@wrong
def axis_not_added_to_a_square(go):
    x, w, out = normal(16, 16), normal(16), unwritten(16, 16)
    go(wrong_way_kernel, 1, x, w, out, N=16)
    return [(out, x.double() * w.double()[:, None])]


@triton.jit
def wrong_axis_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + i[None, :])
    tl.store(out_ptr + i, tl.sum(x, axis=0))  # unseen: a square block has as many columns as rows

@wrong
def wrong_axis_of_a_sum(go):
    x, out = normal(16, 16), unwritten(16)
    go(wrong_axis_kernel, 1, x, out, N=16)
    return [(out, x.double().sum(1))]

@triton.jit
def other_axis_kernel(x_ptr, out_ptr, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    x = tl.load(x_ptr + r[:, None] * C + c[None, :])
    tl.store(out_ptr + r, tl.sum(x, axis=0))  # refused

@wrong
def wrong_axis_of_a_sum_of_an_oblong(go):
    x, out = normal(16, 32), unwritten(16)
    go(other_axis_kernel, 1, x, out, R=16, C=32)
    return [(out, x.double().sum(1))]


@triton.jit
def loop_type_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = 0
    for start in range(0, n, BLOCK):  # refused
        total += tl.load(x_ptr + start + tl.arange(0, BLOCK))  # refused
    tl.store(out_ptr, tl.sum(total))

@wrong
def a_scalar_becomes_a_block_in_a_loop(go):
    x, out = normal(128), unwritten(1)
    go(loop_type_kernel, 1, x, out, 128, BLOCK=64)
    return [(out, x.double().sum()[None])]


@triton.jit
def bf16_loop_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.bfloat16)
    for start in range(0, n, BLOCK):  # refused
        total += tl.load(x_ptr + start + tl.arange(0, BLOCK)).to(tl.float32)  # refused
    tl.store(out_ptr, tl.sum(total))

@wrong
def a_block_changes_its_type_in_a_loop(go):
    x, out = normal(256), unwritten(1)
    go(bf16_loop_kernel, 1, x, out, 256, BLOCK=64)
    return [(out, x.double().sum()[None])]


@triton.jit
def branch_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if n > 10:
        x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x, mask=i < n)  # refused

@wrong
def defined_in_one_branch_only(go):
    x, out = normal(50), unwritten(50)
    go(branch_kernel, 1, x, out, 50, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def behind_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + i)
    tl.store(out_ptr + i, x)  # refused

@wrong
def defined_in_a_loop_only(go):
    x, out = normal(128), unwritten(64)
    go(behind_kernel, 1, x, out, 128, BLOCK=64)
    return [(out, x[64:].double())]


LIMIT = 3.0

@triton.jit
def global_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.minimum(tl.load(x_ptr + i), LIMIT))  # refused

@wrong
def a_global_that_is_no_constexpr(go):
    x, out = normal(64), unwritten(64)
    go(global_kernel, 1, x, out, BLOCK=64)
    return [(out, x.double().clamp(max=3))]


@triton.jit
def element_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, x[0])  # refused

@wrong
def an_element_of_a_block(go):
    x, out = normal(64), unwritten(1)
    go(element_kernel, 1, x, out, BLOCK=64)
    return [(out, x[:1].double())]


@triton.jit
def square_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.arange(0, BLOCK), x ** 2)  # refused

@wrong
def a_power(go):
    x, out = normal(64), unwritten(64)
    go(square_kernel, 1, x, out, BLOCK=64)
    return [(out, x.double()**2)]


@triton.jit
def host_function_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, torch.relu(tl.load(x_ptr + i)))  # refused

@wrong
def a_function_of_torch(go):
    x, out = normal(64), unwritten(64)
    go(host_function_kernel, 1, x, out, BLOCK=64)
    return [(out, x.double().relu())]


@triton.jit
def append_kernel(x_ptr, out_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    parts = [tl.load(x_ptr + k * BLOCK + i) for k in range(N)]  # refused
    tl.store(out_ptr + i, parts[0] + parts[1])

@wrong
def a_list_of_blocks(go):
    x, out = normal(128), unwritten(64)
    go(append_kernel, 1, x, out, N=2, BLOCK=64)
    return [(out, x.double().view(2, 64).sum(0))]


@triton.jit
def type_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i * 1.0))  # refused

@wrong
def an_offset_that_is_no_whole_number(go):
    x, out = normal(64), unwritten(64)
    go(type_kernel, 1, x, out, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def assertion_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 128 == 0, 'whole groups of four warps')  # refused assert
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

@wrong
def a_static_assert(go):
    x, out = normal(64), unwritten(64)
    go(assertion_kernel, 1, x, out, 64, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def missing_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

@wrong
def an_argument_is_missing(go):
    x, out = normal(64), unwritten(64)
    go(missing_kernel, 1, x, out, BLOCK=64)  # launch
    return [(out, x.double())]

@wrong
def grid_too_tall(go):
    "65535 blocks at most along the second axis"
    x, out = normal(64), unwritten(64)
    go(missing_kernel, (1, 70000), x, out, 64, BLOCK=64)  # launch
    return [(out, x.double())]


@triton.jit
def boxes_kernel(x_desc, out_ptr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(out_ptr + at, x_desc.load([0, 0]))

@wrong
def descriptor_with_an_odd_stride(go):
    "Rows of 15 floats: TMA needs rows that begin at multiples of 16 bytes"
    x, out = normal(20, 15), unwritten(16, 16)
    go(boxes_kernel, 1, TensorDescriptor.from_tensor(x, [16, 16]), out, R=16, C=16)  # launch refused
    return [(out[:, :15], x[:16].double())]

@wrong
def descriptor_that_begins_in_between(go):
    memory, out = normal(20*16 + 1), unwritten(16, 16)
    x = memory[1:].view(20, 16)
    go(boxes_kernel, 1, TensorDescriptor.from_tensor(x, [16, 16]), out, R=16, C=16)  # launch refused
    return [(out, x[:16].double())]


@triton.jit
def begun_before_kernel(x_desc, out_desc, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R - 4
    out_desc.store([r, 0], x_desc.load([r, 0]) + 1)  # memcheck

@wrong
def descriptor_that_stores_before_the_array(go):
    "A load may begin there; at a store a GPU stops with an illegal instruction"
    x, out = normal(20, 16), unwritten(20, 16)
    go(begun_before_kernel, 2, *(TensorDescriptor.from_tensor(o, [16, 16]) for o in (x, out)), R=16, C=16)
    return [(out, x.double() + 1)]


@triton.jit
def in_between_kernel(x_desc, out_ptr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(out_ptr + at, x_desc.load([0, 3]))  # memcheck

@wrong
def descriptor_entered_in_between(go):
    "Three floats into a row: TMA begins at multiples of 16 bytes, and stops otherwise"
    x, out = normal(20, 32), unwritten(16, 16)
    go(in_between_kernel, 1, TensorDescriptor.from_tensor(x, [16, 16]), out, R=16, C=16)
    return [(out, x[:16, 3:19].double())]


@triton.jit
def box_of_another_type_kernel(x_desc, out_ptr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(out_ptr + at, x_desc.load([0, 0, 0]))  # refused

@wrong
def descriptor_with_an_offset_too_many(go):
    x, out = normal(20, 16), unwritten(16, 16)
    go(box_of_another_type_kernel, 1, TensorDescriptor.from_tensor(x, [16, 16]), out, R=16, C=16)
    return [(out, x[:16].double())]


@triton.jit
def cut_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2.5, mask=i < n)  # unseen: a store cuts to the output's type

@wrong
def output_of_whole_numbers(go):
    x, out = normal(100), zeros(100, dtype=torch.int32)
    go(cut_kernel, 2, x, out, 100, BLOCK=64)
    return [(out.double(), x.double() * 2.5)]


@triton.jit
def bf16_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.bfloat16)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + start + tl.arange(0, BLOCK))  # unseen: rounding is not a finding; the result shows it
    tl.store(out_ptr + tl.arange(0, BLOCK), total)

@wrong
def summed_in_bf16(go):
    x, out = torch.rand(64*256).to(bf16), unwritten(64)
    go(bf16_sum_kernel, 1, x, out, 64*256, BLOCK=64)
    return [(out, x.double().view(256, 64).sum(0))]


@triton.jit
def fp16_overflow_kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    at = n[:, None] * N + n[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)).to(tl.float16))  # unseen: inf is a number

@wrong
def a_sum_too_large_for_fp16(go):
    a, b, c = normal(16, 16, dtype=f16)*300, normal(16, 16, dtype=f16)*300, unwritten(16, 16, dtype=f16)
    go(fp16_overflow_kernel, 1, a, b, c, N=16)
    return [(c, a.double() @ b.double())]


@triton.autotune(configs=[triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 128})], key=['size'])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

@wrong
def a_key_that_is_no_argument(go):
    x, out = normal(100), unwritten(100)
    go(tuned_kernel, lambda meta: (triton.cdiv(100, meta['BLOCK']),), x, out, 100)  # unseen: Triton takes any key
    return [(out, x.double())]


@triton.autotune(configs=[triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 128})], key=['n'])
@triton.jit
def tuned_add_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

@wrong
def tuning_repeats_what_adds(go):
    x, out = normal(100), zeros(100)
    go(tuned_add_kernel, lambda meta: (triton.cdiv(100, meta['BLOCK']),), x, out, 100)  # unseen: only tuning repeats it
    return [(out, x.double())]


@triton.autotune(configs=[triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 128})], key=['n'])
@triton.jit
def fixed_grid_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

@wrong
def block_given_and_tuned(go):
    x, out = normal(100), unwritten(100)
    go(fixed_grid_kernel, 2, x, out, 100, BLOCK=64)  # launch refused
    return [(out, x.double())]


@triton.jit
def device_assert_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.)
    tl.device_assert(x < 1.5, 'too large')  # assert
    tl.store(out_ptr + i, x, mask=i < n)

@wrong
def a_device_assert(go):
    x, out = normal(100), unwritten(100)
    go(device_assert_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def seed_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, tl.arange(0, BLOCK)) > p  # unseen: all programs get the same random values
    tl.store(out_ptr + i, tl.where(keep, 1., 0.), mask=i < n)

@wrong
def the_same_random_numbers_everywhere(go):
    import numpy as np
    from tile_corpus import uniform
    x, out = normal(128), unwritten(128)
    go(seed_kernel, 2, x, out, 128, .5, 7, BLOCK=64)
    return [(out, torch.from_numpy(uniform(7, np.arange(128)) > .5).double())]


@triton.jit
def hint_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.multiple_of(tl.program_id(0) * BLOCK + 1, 16) + tl.arange(0, BLOCK)  # assert: a false promise
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

@wrong
def a_false_promise_of_alignment(go):
    x, out = normal(100), unwritten(100)
    go(hint_kernel, 2, x, out, 100, BLOCK=64)
    return [(out[1:], x[1:].double())]


@triton.jit
def reused_name_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for row in range(n):  # refused
        acc += tl.load(x_ptr + row * BLOCK + i)  # refused
        for i in tl.static_range(2):  # refused
            acc += i
    tl.store(out_ptr + tl.arange(0, BLOCK), acc)

@wrong
def a_name_used_twice(go):
    "The inner loop's i is a number, the block of that name is gone in the next round"
    x, out = normal(3, 64), unwritten(64)
    go(reused_name_kernel, 1, x, out, 3, BLOCK=64)
    return [(out, x.double().sum(0) + 3)]
