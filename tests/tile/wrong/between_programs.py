"Two programs, one address, and nothing that orders them; lanes of one program, too."
import torch
import triton, triton.language as tl

from tile_corpus import normal, unwritten, whole, wrong, zeros


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.)))  # racecheck

@wrong
def all_store_one_address(go):
    x, out = normal(200), unwritten(1)
    go(sum_kernel, 4, x, out, 200, BLOCK=64)
    return [(out, x.double().sum()[None])]


@triton.jit
def counter_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.))
    before = tl.load(out_ptr)  # racecheck
    tl.store(out_ptr, before + part)  # racecheck

@wrong
def store_where_an_atomic_is_needed(go):
    x, out = normal(200), zeros(1)
    go(counter_kernel, 4, x, out, 200, BLOCK=64)
    return [(out, x.double().sum()[None])]


@triton.jit
def smooth_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inner = (i > 0) & (i < n - 1)
    left = tl.load(x_ptr + i - 1, mask=inner, other=0.)  # racecheck
    right = tl.load(x_ptr + i + 1, mask=inner, other=0.)  # racecheck
    tl.store(x_ptr + i, (left + right) / 2, mask=inner)  # racecheck

@wrong
def neighbours_in_place(go):
    x = normal(100)
    want = x.double().clone()
    want[1:-1] = (want[:-2] + want[2:]) / 2
    go(smooth_kernel, 2, x, 100, BLOCK=64)
    return [(x, want)]


@triton.jit
def reverse_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + n - 1 - i, mask=i < n)  # racecheck
    tl.store(x_ptr + i, x, mask=i < n)  # racecheck

@wrong
def reversed_in_place(go):
    x = normal(100)
    want = x.flip(0).double()
    go(reverse_kernel, 2, x, 100, BLOCK=64)
    return [(x, want)]


@triton.jit
def two_phases_kernel(x_ptr, parts_ptr, out_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts_ptr + pid, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.)))  # racecheck
    tl.debug_barrier()
    if pid == PROGRAMS - 1:
        tl.store(out_ptr, tl.sum(tl.load(parts_ptr + tl.arange(0, PROGRAMS))))  # racecheck initcheck

@wrong
def last_program_does_not_wait(go):
    "A barrier holds the threads of one program together, and no two programs"
    x, parts, out = normal(200), unwritten(4), unwritten(1)
    go(two_phases_kernel, 4, x, parts, out, 200, PROGRAMS=4, BLOCK=64)
    return [(out, x.double().sum()[None])]


@triton.jit
def overlapping_kernel(x_ptr, out_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n) + tl.program_id(0)
    tl.store(out_ptr + i, x, mask=i < n)  # racecheck

@wrong
def programs_that_overlap(go):
    x, out = normal(100), unwritten(100)
    go(overlapping_kernel, 2, x, out, 100, STEP=60, BLOCK=64)
    return [(out, x.double() + (torch.arange(100) >= 60))]


@triton.jit
def columns_kernel(x_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, C)
    x = tl.load(x_ptr + r * cols + c[None, :], mask=(r < rows) & (c[None, :] < cols), other=0.)
    tl.store(out_ptr + c, tl.sum(x, axis=0), mask=c < cols)  # racecheck

@wrong
def each_block_of_rows_stores_the_columns(go):
    x, out = normal(20, 30), unwritten(30)
    go(columns_kernel, 3, x, out, 20, 30, R=8, C=32)
    return [(out, x.double().sum(0))]


@triton.jit
def split_kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    r, c = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    k = tl.program_id(0) * BK + tl.arange(0, BK)
    a, b = tl.load(a_ptr + r * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + c)
    old = tl.load(c_ptr + r * N + c)  # racecheck
    tl.store(c_ptr + r * N + c, old + tl.dot(a, b, input_precision='ieee'))  # racecheck

@wrong
def split_sum_without_atomics(go):
    a, b, c = normal(16, 64), normal(64, 16), zeros(16, 16)
    go(split_kernel, 4, a, b, c, N=16, K=64, BK=16)
    return [(c, a.double() @ b.double())]


@triton.jit
def permuted_kernel(x_ptr, at_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(at_ptr + i, mask=i < n, other=0)
    tl.store(out_ptr + at, tl.load(x_ptr + i, mask=i < n), mask=i < n)  # racecheck

@wrong
def a_permutation_that_is_none(go):
    x, at, out = normal(100), torch.randperm(100).int(), unwritten(100)
    at[90] = at[3]  # two programs
    go(permuted_kernel, 2, x, at, out, 100, BLOCK=64)
    return [(out, torch.zeros(100, dtype=torch.float64).scatter(0, at.long(), x.double()))]


@triton.jit
def lanes_kernel(x_ptr, bin_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    b = tl.load(bin_ptr + i, mask=i < n, other=0)
    old = tl.load(out_ptr + b, mask=i < n)
    tl.store(out_ptr + b, old + tl.load(x_ptr + i, mask=i < n), mask=i < n)  # racecheck

@wrong
def lanes_of_one_program_collide(go):
    x, b, out = normal(60), whole(5, 60), zeros(5)
    go(lanes_kernel, 1, x, b, out, 60, BLOCK=64)
    return [(out, torch.zeros(5, dtype=torch.float64).index_add(0, b, x.double()))]


@triton.jit
def atomic_and_plain_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(out_ptr, 0.)  # racecheck
    tl.debug_barrier()
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.)))  # racecheck initcheck

@wrong
def first_program_clears_what_all_add_to(go):
    x, out = normal(200), unwritten(1)
    go(atomic_and_plain_kernel, 4, x, out, 200, BLOCK=64)
    return [(out, x.double().sum()[None])]


@triton.jit
def mean_kernel(x_ptr, total_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.)
    tl.atomic_add(total_ptr, tl.sum(x))  # racecheck
    tl.store(out_ptr + i, x - tl.load(total_ptr) / n, mask=i < n)  # racecheck

@wrong
def a_total_read_before_all_have_added(go):
    x, total, out = normal(200), zeros(1), unwritten(200)
    go(mean_kernel, 4, x, total, out, 200, BLOCK=64)
    return [(out, x.double() - x.double().mean())]


@triton.jit
def unlocked_kernel(x_ptr, out_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + c, mask=c < n)
    tl.atomic_cas(lock_ptr, 0, 1)  # once, whether it was free or not
    old = tl.load(out_ptr + c, mask=c < n)  # racecheck
    tl.store(out_ptr + c, old + x, mask=c < n)  # racecheck

@wrong
def a_lock_that_nobody_waits_for(go):
    x, out, lock = normal(6, 50), zeros(50), zeros(1, dtype=torch.int32)
    go(unlocked_kernel, 6, x, out, lock, 50, BLOCK=64)
    return [(out, x.double().sum(0))]


@triton.jit
def flagged_kernel(x_ptr, data_ptr, flag_ptr, out_ptr):
    "The second program takes what the first has left, and reads a flag that is not atomic"
    if tl.program_id(0) == 0:
        tl.store(data_ptr, tl.load(x_ptr))  # racecheck
        tl.store(flag_ptr, 1)  # racecheck
    else:
        if tl.load(flag_ptr) == 1:  # racecheck
            tl.store(out_ptr, tl.load(data_ptr))  # racecheck

@wrong
def a_flag_that_is_no_atomic(go):
    x, data, flag, out = normal(1), unwritten(1), zeros(1, dtype=torch.int32), unwritten(1)
    go(flagged_kernel, 2, x, data, flag, out)
    return [(out, x.double())]


@triton.jit
def aliased_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)  # racecheck
    tl.store(out_ptr + i, x + 1, mask=i < n)  # racecheck

@wrong
def two_arguments_that_overlap(go):
    "The output is the input, moved by one"
    memory = normal(101)
    want = memory[:100].double() + 1
    go(aliased_kernel, 2, memory[:100], memory[1:], 100, BLOCK=64)
    return [(memory[1:], want)]
