"Out of bounds of the tensor, or in bounds at the wrong address."
import torch
import triton, triton.language as tl

from tile_corpus import bf16, cdiv, normal, unwritten, whole, wrong, zeros


@triton.jit
def load_without_mask_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)  # memcheck
    tl.store(out_ptr + i, x * 2, mask=i < n)

@wrong
def mask_forgotten_on_the_load(go):
    x, out = normal(100), unwritten(100)
    go(load_without_mask_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, 2*x.double())]


@triton.jit
def store_without_mask_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.)
    tl.store(out_ptr + i, x * 2)  # memcheck

@wrong
def mask_forgotten_on_the_store(go):
    x, out = normal(100), unwritten(100)
    go(store_without_mask_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, 2*x.double())]


@triton.jit
def one_too_many_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= n
    x = tl.load(x_ptr + i, mask=inside)  # memcheck
    tl.store(out_ptr + i, x * 2, mask=inside)

@wrong
def less_or_equal(go):
    x, out = normal(100), unwritten(100)
    go(one_too_many_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, 2*x.double())]


@triton.jit
def mask_of_columns_kernel(x_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    x = tl.load(x_ptr + r * cols + c, mask=c < cols)  # memcheck
    tl.store(out_ptr + r * cols + c, x * 2, mask=(r < rows) & (c < cols))

@wrong
def rows_have_no_mask(go):
    x, out = normal(10, 30), unwritten(10, 30)
    go(mask_of_columns_kernel, 2, x, out, 10, 30, R=8, C=32)
    return [(out, 2*x.double())]


@triton.jit
def mask_of_bytes_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)  # memcheck
    tl.store(out_ptr + i, x * 2, mask=i < n)

@wrong
def bound_in_bytes(go):
    x, out = normal(100), unwritten(100)
    go(mask_of_bytes_kernel, 4, x, out, x.numel() * x.element_size(), BLOCK=64)
    return [(out, 2*x.double())]


@triton.jit
def offset_in_bytes_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * 4, mask=i < n)  # memcheck
    tl.store(out_ptr + i, x * 2, mask=i < n)

@wrong
def offset_in_bytes(go):
    x, out = normal(100), unwritten(100)
    go(offset_in_bytes_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, 2*x.double())]


@triton.jit
def neighbour_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    left = tl.load(x_ptr + i - 1, mask=i < n)  # memcheck
    tl.store(out_ptr + i, x - left, mask=i < n)

@wrong
def before_the_first(go):
    x, out = normal(100), unwritten(100)
    go(neighbour_kernel, 2, x, out, 100, BLOCK=64)
    return [(out[1:], x.double().diff())]


@triton.jit
def rest_kernel(x_ptr, out_ptr, n, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (i - shift) % n, mask=i < n)  # memcheck
    tl.store(out_ptr + i, x, mask=i < n)

@wrong
def rest_of_a_negative_number(go):
    "-3 % 100 is -3 here as in C, and 97 in Python"
    x, out = normal(100), unwritten(100)
    go(rest_kernel, 2, x, out, 100, 3, BLOCK=64)
    return [(out, x.roll(3).double())]


@triton.jit
def stride_kernel(x_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    inside = (r < rows) & (c < cols)
    x = tl.load(x_ptr + r * C + c, mask=inside)  # memcheck
    tl.store(out_ptr + r * cols + c, x * 2, mask=inside)

@wrong
def block_for_a_stride(go):
    x, out = normal(10, 30), unwritten(10, 30)
    go(stride_kernel, 2, x, out, 10, 30, R=8, C=32)
    return [(out, 2*x.double())]


@triton.jit
def swapped_kernel(x_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    inside = (r < rows) & (c < cols)
    x = tl.load(x_ptr + c * cols + r, mask=inside)  # memcheck
    tl.store(out_ptr + r * cols + c, x, mask=inside)

@wrong
def rows_for_columns(go):
    x, out = normal(10, 30), unwritten(10, 30)
    go(swapped_kernel, 1, x, out, 10, 30, R=16, C=32)
    return [(out, x.double())]


@triton.jit
def next_row_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c)  # memcheck
    tl.store(out_ptr + row, tl.sum(x))

@wrong
def block_past_the_end_of_its_row(go):
    "The rows before the last read the beginning of the next, which is inside: the last row shows it"
    x, out = normal(5, 50), unwritten(5)
    go(next_row_kernel, 5, x, out, 50, BLOCK=64)
    return [(out, x.double().sum(1))]

@triton.jit
def next_row_inside_kernel(x_ptr, out_ptr, n, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    at = row * cols + c
    x = tl.load(x_ptr + at, mask=at < n, other=0.)  # unseen: inside the tensor, and every element may be read
    tl.store(out_ptr + row, tl.sum(x))

@wrong
def mask_of_the_whole_for_a_row(go):
    x, out = normal(5, 50), unwritten(5)
    go(next_row_inside_kernel, 5, x, out, 250, 50, BLOCK=64)
    return [(out, x.double().sum(1))]


@triton.jit
def rows_written_too_wide_kernel(x_ptr, out_ptr, n, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    at = row * cols + c
    x = tl.load(x_ptr + at, mask=c < cols, other=0.)
    tl.store(out_ptr + at, x * 2, mask=at < n)  # racecheck

@wrong
def store_into_the_next_row(go):
    "Inside the tensor, but what is written there belongs to the next program"
    x, out = normal(5, 50), unwritten(5, 50)
    go(rows_written_too_wide_kernel, 5, x, out, 250, 50, BLOCK=64)
    return [(out, 2*x.double())]


@triton.jit
def ids_kernel(ids_ptr, table_ptr, out_ptr, n, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    ids = tl.load(ids_ptr + r, mask=r < n, other=0)
    rows = tl.load(table_ptr + ids * width + c, mask=(r < n) & (c < width))  # memcheck
    tl.store(out_ptr + r * width + c, rows, mask=(r < n) & (c < width))

@wrong
def an_index_from_memory(go):
    ids, table, out = whole(20, 10), normal(20, 30), unwritten(10, 30)
    ids[7] = 20
    go(ids_kernel, 3, ids, table, out, 10, 30, ROWS=4, BLOCK=32)
    return [(out, table[ids.clamp(max=19).long()].double())]


@triton.jit
def loop_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + start + tl.arange(0, BLOCK))  # memcheck
    tl.store(out_ptr, tl.sum(total))

@wrong
def last_round_of_a_loop(go):
    x, out = normal(100), unwritten(1)
    go(loop_kernel, 1, x, out, 100, BLOCK=32)
    return [(out, x.double().sum()[None])]


@triton.jit
def moved_pointers_kernel(a_ptr, b_ptr, c_ptr, k, BM: tl.constexpr, BK: tl.constexpr):
    m, ok = tl.arange(0, BM), tl.arange(0, BK)
    a_ptrs, b_ptrs = a_ptr + m[:, None] * k + ok[None, :], b_ptr + ok[:, None] * BM + m[None, :]
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, tl.cdiv(k, BK)):
        a = tl.load(a_ptrs, mask=ok[None, :] < k, other=0.)  # memcheck
        b = tl.load(b_ptrs, mask=ok[:, None] < k, other=0.)  # memcheck
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * BM
    tl.store(c_ptr + m[:, None] * BM + m[None, :], acc)

@wrong
def mask_that_does_not_move_along(go):
    a, b, c = normal(16, 40, dtype=bf16), normal(40, 16, dtype=bf16), unwritten(16, 16)
    go(moved_pointers_kernel, 1, a, b, c, 40, BM=16, BK=16)
    return [(c, a.double() @ b.double())]


@triton.jit
def not_moved_kernel(a_ptr, b_ptr, c_ptr, k, BM: tl.constexpr, BK: tl.constexpr):
    m, ok = tl.arange(0, BM), tl.arange(0, BK)
    a_ptrs, b_ptrs = a_ptr + m[:, None] * k + ok[None, :], b_ptr + ok[:, None] * BM + m[None, :]
    acc = tl.zeros((BM, BM), tl.float32)
    for i in range(0, tl.cdiv(k, BK)):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK  # unseen: a step of another length is inside, too; only the result shows it
    tl.store(c_ptr + m[:, None] * BM + m[None, :], acc)

@wrong
def wrong_step_inside(go):
    a, b, c = normal(16, 32, dtype=bf16), normal(32, 16, dtype=bf16), unwritten(16, 16)
    go(not_moved_kernel, 1, a, b, c, 32, BM=16, BK=16)
    return [(c, a.double() @ b.double())]


@triton.jit
def overflow_kernel(x_ptr, out_ptr, stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0) + 30000, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + c, mask=c < cols)  # memcheck
    tl.store(out_ptr + c, x, mask=c < cols)

@wrong
def offset_beyond_32_bits(go):
    "30000 * 100000 is negative in int32: x is a window of a tensor of 12 GB that begins at its row 30000"
    x, out = normal(50), unwritten(50)
    go(overflow_kernel, 1, x, out, 100000, 50, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def narrow_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = i.to(tl.int8)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)  # memcheck

@wrong
def offset_in_8_bits(go):
    x, out = normal(200), unwritten(200)
    go(narrow_kernel, 4, x, out, 100, BLOCK=64)
    return [(out, 2*x.double())]


@triton.jit
def box_kernel(x_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    at = (tl.program_id(0) * R, tl.program_id(1) * C)
    x = tl.make_block_ptr(x_ptr, (rows, cols), (cols, 1), at, (R, C), (1, 0))
    out = tl.make_block_ptr(out_ptr, (rows, cols), (cols, 1), at, (R, C), (1, 0))
    tl.store(out, tl.load(x) + 1, boundary_check=(0, 1))  # memcheck

@wrong
def block_pointer_without_boundary_check(go):
    x, out = normal(20, 30), unwritten(20, 30)
    go(box_kernel, (2, 2), x, out, 20, 30, R=16, C=16)
    return [(out, x.double() + 1)]


@triton.jit
def one_axis_kernel(x_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    at = (tl.program_id(0) * R, tl.program_id(1) * C)
    x = tl.make_block_ptr(x_ptr, (rows, cols), (cols, 1), at, (R, C), (1, 0))
    out = tl.make_block_ptr(out_ptr, (rows, cols), (cols, 1), at, (R, C), (1, 0))
    value = tl.load(x, boundary_check=(0, 1), padding_option='zero')
    tl.store(out, value, boundary_check=(0,))  # memcheck racecheck

@wrong
def boundary_check_of_one_axis(go):
    x, out = normal(20, 30), unwritten(20, 30)
    go(one_axis_kernel, (2, 2), x, out, 20, 30, R=16, C=16)
    return [(out, x.double())]


@triton.jit
def shape_kernel(x_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    at = (tl.program_id(0) * R, tl.program_id(1) * C)
    x = tl.make_block_ptr(x_ptr, (cols, rows), (cols, 1), at, (R, C), (1, 0))
    out = tl.make_block_ptr(out_ptr, (rows, cols), (cols, 1), at, (R, C), (1, 0))
    value = tl.load(x, boundary_check=(0, 1), padding_option='zero')  # memcheck
    tl.store(out, value, boundary_check=(0, 1))

@wrong
def block_pointer_of_another_shape(go):
    x, out = normal(20, 50), unwritten(20, 50)
    go(shape_kernel, (2, 4), x, out, 20, 50, R=16, C=16)
    return [(out, x.double())]


@triton.jit
def whole_bytes_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wide = tl.load(x_ptr.to(tl.pointer_type(tl.float32)) + i, mask=i < n)  # memcheck
    tl.store(out_ptr + i, wide, mask=i < n)

@wrong
def pointer_of_a_wider_type(go):
    x, out = normal(100, dtype=bf16), unwritten(100)
    go(whole_bytes_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)  # memcheck

@wrong
def output_too_small(go):
    x, out = normal(100), unwritten(90)
    go(copy_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, x[:90].double())]


@triton.jit
def bins_kernel(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(counts_ptr + v, 1, mask=i < n)  # memcheck

@wrong
def one_bin_too_few(go):
    x, counts = whole(10, 200), zeros(9, dtype=torch.int32)
    x[150] = 9
    go(bins_kernel, 4, x, counts, 200, BLOCK=64)
    return [(counts, torch.bincount(x, minlength=10)[:9])]


@triton.jit
def view_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)  # unseen: a view, and its memory is larger

@wrong
def a_view_is_not_contiguous(go):
    "x.T has other strides than the kernel takes for granted; all of its memory is its own"
    x, out = normal(10, 10).T, unwritten(10, 10)
    go(view_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def between_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols)  # unseen: inside the memory that the view spans
    tl.store(out_ptr + row * cols + c, x, mask=c < cols)

@wrong
def between_the_rows_of_a_view(go):
    "x[:, :30] is a window of rows of 40; what is read is between its rows"
    x, out = normal(10, 40)[:, :30], unwritten(10, 30)
    go(between_kernel, 10, x, out, 10, 30, BLOCK=32)
    return [(out, x.double())]


@triton.jit
def wrong_bound_kernel(x_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    x = tl.load(x_ptr + r * cols + c, mask=(r < rows) & (c < rows), other=0.)
    tl.store(out_ptr + r * cols + c, x, mask=(r < rows) & (c < rows))  # unseen: fewer elements than meant; NaN stays

@wrong
def mask_that_is_too_small(go):
    x, out = normal(10, 30), unwritten(10, 30)
    go(wrong_bound_kernel, 1, x, out, 10, 30, R=16, C=32)
    return [(out, x.double())]


@triton.jit
def and_for_or_kernel(x_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    inside = (r < rows) | (c < cols)
    x = tl.load(x_ptr + r * cols + c, mask=inside)  # memcheck
    tl.store(out_ptr + r * cols + c, x, mask=inside)

@wrong
def or_for_and(go):
    x, out = normal(10, 30), unwritten(10, 30)
    go(and_for_or_kernel, 1, x, out, 10, 30, R=16, C=32)
    return [(out, x.double())]


@triton.jit
def off_by_a_program_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = (tl.program_id(0) + 1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))  # memcheck

@wrong
def off_by_one_program(go):
    x, out = normal(128), unwritten(128)
    go(off_by_a_program_kernel, 2, x, out, 128, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def unguarded_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * 2)  # memcheck

@wrong
def grid_too_large(go):
    x, out = normal(128), unwritten(128)
    go(unguarded_kernel, 3, x, out, 128, BLOCK=64)
    return [(out, 2*x.double())]

@triton.jit
def guarded_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

@wrong
def grid_too_small(go):
    x, out = normal(100), unwritten(100)
    go(guarded_kernel, 100 // 64, x, out, 100, BLOCK=64)  # unseen: the launch decides how much is done; NaN stays
    return [(out, 2*x.double())]


@triton.jit
def axis_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n) + tl.program_id(0)
    tl.store(out_ptr + i, x, mask=i < n)  # racecheck

@wrong
def wrong_axis_of_the_grid(go):
    x, out = normal(100), unwritten(100)
    go(axis_kernel, cdiv(100, 64), x, out, 100, BLOCK=64)
    return [(out, x.double())]
