"Uninitialized values: memory, and lanes that a mask has left out."
import torch
import triton, triton.language as tl

from tile_corpus import normal, unwritten, wrong, zeros


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr, tl.sum(x))  # initcheck

@wrong
def other_missing_then_summed(go):
    x, out = normal(50), unwritten(1)
    go(sum_kernel, 1, x, out, 50, BLOCK=64)
    return [(out, x.double().sum()[None])]


@triton.jit
def softmax_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols)
    e = tl.exp(x - tl.max(x))  # initcheck
    tl.store(out_ptr + row * cols + c, e / tl.sum(e), mask=c < cols)  # initcheck

@wrong
def softmax_of_masked_lanes(go):
    x, out = normal(3, 50), unwritten(3, 50)
    go(softmax_kernel, 3, x, out, 50, BLOCK=64)
    return [(out, x.double().softmax(1))]


@triton.jit
def zero_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.)  # unseen: 0 is a value as good as any
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * cols + c, e / tl.sum(e), mask=c < cols)

@wrong
def zero_for_the_neutral_value(go):
    "exp of a masked 0 is 1 and is summed: `other` must be -inf"
    x, out = normal(3, 50), unwritten(3, 50)
    go(zero_kernel, 3, x, out, 50, BLOCK=64)
    return [(out, x.double().softmax(1))]


@triton.jit
def variance_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.)
    d = x - tl.sum(x) / cols  # unseen: masked lanes hold 0 - mean, computed from what is there
    tl.store(out_ptr + row, tl.sum(d * d) / cols)

@wrong
def masked_lanes_in_a_variance(go):
    x, out = normal(3, 50) + 2, unwritten(3)
    go(variance_kernel, 3, x, out, 50, BLOCK=64)
    return [(out, x.double().var(1, unbiased=False))]


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, k, N: tl.constexpr, BK: tl.constexpr):
    n, ok = tl.arange(0, N), tl.arange(0, BK)
    a = tl.load(a_ptr + n[:, None] * k + ok[None, :], mask=ok[None, :] < k)
    b = tl.load(b_ptr + ok[:, None] * N + n[None, :], mask=ok[:, None] < k, other=0.)
    tl.store(c_ptr + n[:, None] * N + n[None, :], tl.dot(a, b))  # initcheck

@wrong
def masked_lanes_in_a_dot(go):
    "Times 0, but the value there may be NaN"
    a, b, c = normal(16, 20), normal(20, 16), unwritten(16, 16)
    go(matmul_kernel, 1, a.half(), b.half(), c, 20, N=16, BK=32)
    return [(c, a.half().double() @ b.half().double())]


@triton.jit
def store_all_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x)  # initcheck

@wrong
def masked_lanes_stored(go):
    "The output has space for the whole block, so that nothing is out of bounds"
    x, out = normal(50), unwritten(64)
    go(store_all_kernel, 1, x, out, 50, BLOCK=64)
    return [(out, torch.cat([x, torch.zeros(14)]).double())]


@triton.jit
def index_kernel(ids_ptr, table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + i, mask=i < n)
    x = tl.load(table_ptr + ids)  # initcheck memcheck
    tl.store(out_ptr + i, x, mask=i < n)

@wrong
def masked_lanes_as_an_index(go):
    ids, table, out = torch.randint(0, 20, (50,), dtype=torch.int32), normal(20), unwritten(50)
    go(index_kernel, 1, ids, table, out, 50, BLOCK=64)
    return [(out, table[ids.long()].double())]


@triton.jit
def decide_kernel(x_ptr, out_ptr, n):
    limit = tl.load(x_ptr, mask=n > 5)
    if limit > 0:  # initcheck
        tl.store(out_ptr, 1)
    else:
        tl.store(out_ptr, 0)

@wrong
def a_decision_by_what_was_not_loaded(go):
    x, out = normal(4), unwritten(1, dtype=torch.int32)
    go(decide_kernel, 1, x, out, 4)
    return [(out, torch.ones(1, dtype=torch.int32))]


@triton.jit
def accumulate_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.)))  # initcheck

@wrong
def no_zero_to_begin_with(go):
    x, out = normal(200), unwritten(1)
    go(accumulate_kernel, 4, x, out, 200, BLOCK=64)
    return [(out, x.double().sum()[None])]


@triton.jit
def scratch_kernel(x_ptr, tmp_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(tmp_ptr + i, tl.load(x_ptr + i, mask=i < n - 1), mask=i < n - 1)
    tl.debug_barrier()
    tl.store(out_ptr + i, tl.load(tmp_ptr + i, mask=i < n) * 2, mask=i < n)  # initcheck

@wrong
def scratch_memory_partly_written(go):
    x, tmp, out = normal(100), unwritten(100), unwritten(100)
    go(scratch_kernel, 2, x, tmp, out, 100, BLOCK=64)
    return [(out[:99], 2*x[:99].double())]


@triton.jit
def group_kernel(dw_ptr, out_ptr, groups, cols, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)
    inside = (r < groups) & (c[None, :] < cols)
    x = tl.load(dw_ptr + r * cols + c[None, :], mask=inside, other=0.)  # unseen: NaN may be meant; the result shows it
    tl.store(out_ptr + c, tl.sum(x, axis=0), mask=c < cols)

@triton.jit
def one_group_kernel(x_ptr, dw_ptr, cols, C: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, C)
    tl.store(dw_ptr + row * cols + c, tl.load(x_ptr + row * cols + c, mask=c < cols), mask=c < cols)

@wrong
def groups_that_nobody_fills(go):
    "Three programs leave a row each, four rows are added by another launch"
    x, dw, out = normal(3, 30), unwritten(4, 30), unwritten(30)
    go(one_group_kernel, 3, x, dw, 30, C=32)
    go(group_kernel, 1, dw, out, 4, 30, R=4, C=32)
    return [(out, x.double().sum(0))]


@triton.jit
def branches_kernel(x_ptr, tmp_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if n > 100:
        tl.store(tmp_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
    tl.debug_barrier()
    tl.store(out_ptr + i, tl.load(tmp_ptr + i, mask=i < n), mask=i < n)  # initcheck

@wrong
def written_in_one_branch_only(go):
    x, tmp, out = normal(50), unwritten(50), unwritten(50)
    go(branches_kernel, 1, x, tmp, out, 50, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def gradient_kernel(dy_ptr, ids_ptr, grad_ptr, n, width, BLOCK: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, BLOCK)
    row = tl.load(ids_ptr + r)
    dy = tl.load(dy_ptr + r * width + c, mask=c < width)
    g = tl.load(grad_ptr + row * width + c, mask=c < width)  # racecheck
    tl.store(grad_ptr + row * width + c, g + dy, mask=c < width)  # racecheck

@wrong
def gradient_of_an_embedding_with_doubles(go):
    ids, dy, grad = torch.tensor([1, 4, 1]), normal(3, 30), zeros(5, 30)
    go(gradient_kernel, 3, dy, ids, grad, 3, 30, BLOCK=32)
    return [(grad, torch.zeros(5, 30, dtype=torch.float64).index_add(0, ids, dy.double()))]
