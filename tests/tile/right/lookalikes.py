"Right, though it looks like a mistake: no check may speak."
import torch
import triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tile_corpus import normal, right, unwritten, whole, zeros


@triton.jit
def reversed_kernel(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    "The pointer is moved to the last element, and offsets are negative"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x_ptr -= (n - 1) * stride
    tl.store(out_ptr + i, tl.load(x_ptr + i * stride, mask=i < n), mask=i < n)

@right(why='nothing is rounded')
def negative_stride(go):
    x, out = normal(100), unwritten(100)
    go(reversed_kernel, 2, x, out, 100, -1, BLOCK=64)
    return [(out, x.flip(0).double())]


@triton.jit
def shifted_block_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "The last block is moved back until it fits: elements are written twice, with the same value"
    first = tl.minimum(tl.program_id(0) * BLOCK, n - BLOCK)
    i = first + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * 2)

@right(why='a power of two')
def last_block_moved_back(go):
    x, out = normal(150), unwritten(150)
    go(shifted_block_kernel, 3, x, out, 150, BLOCK=64)
    return [(out, 2*x.double())]


@triton.jit
def flag_kernel(x_ptr, found_ptr, n, limit, BLOCK: tl.constexpr):
    "Every program that finds one writes the same 1"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.max(tl.load(x_ptr + i, mask=i < n, other=0.)) > limit:
        tl.store(found_ptr, 1)

@right(why='an integer')
def the_same_flag_by_many(go):
    x, found = normal(300), zeros(1, dtype=torch.int32)
    go(flag_kernel, 3, x, found, 300, .5, BLOCK=128)
    return [(found, torch.ones(1, dtype=torch.int32))]


@triton.jit
def far_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "Masked lanes may point anywhere"
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (i - 3) * 1000003, mask=i == 3, other=5.0)
    tl.store(out_ptr + i, x, mask=i < n)

@right(why='nothing is rounded')
def wild_pointers_under_a_mask(go):
    x, out = normal(1), unwritten(6)
    go(far_kernel, 1, x, out, 6, BLOCK=8)
    return [(out, torch.tensor([5, 5, 5, x.item(), 5, 5], dtype=torch.float64))]


@triton.jit
def chosen_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "No `other`, and nothing of the masked lanes comes through"
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr, tl.sum(tl.where(i < n, x, 0.)))

@right(rtol=1e-5, atol=1e-5, why='fifty sums')
def masked_lanes_that_where_drops(go):
    x, out = normal(50), unwritten(1)
    go(chosen_kernel, 1, x, out, 50, BLOCK=64)
    return [(out, x.double().sum()[None])]


@triton.jit
def partly_kernel(x_ptr, tmp_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(tmp_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
    tl.debug_barrier()
    tl.store(out_ptr + i, tl.load(tmp_ptr + i, mask=i < n, other=0.) + 1, mask=i < n)

@right(rtol=6e-8, atol=6e-8, why='one sum')
def memory_that_is_written_before_it_is_read(go):
    x, tmp, out = normal(100), torch.empty(100), torch.empty(100)
    go(partly_kernel, 2, x, tmp, out, 100, BLOCK=64)
    return [(out, x.double() + 1)]


@triton.jit
def step_kernel(old_ptr, new_ptr, n, BLOCK: tl.constexpr):
    "Neighbours of other programs are read from the old array, never from the new one"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inner = (i > 0) & (i < n - 1)
    mid = tl.load(old_ptr + i, mask=i < n)
    left, right = tl.load(old_ptr + i - 1, mask=inner, other=0.), tl.load(old_ptr + i + 1, mask=inner, other=0.)
    tl.store(new_ptr + i, tl.where(inner, 0.25 * left + 0.5 * mid + 0.25 * right, mid), mask=i < n)

@right(rtol=1e-6, atol=1e-6, why='four steps of three roundings')
def neighbours_of_the_step_before(go):
    a = normal(100)
    want, b = a.double(), unwritten(100)
    for _ in range(2):
        go(step_kernel, 2, a, b, 100, BLOCK=64)
        go(step_kernel, 2, b, a, 100, BLOCK=64)
        for _ in range(2): want = torch.cat([want[:1], want[:-2]/4 + want[1:-1]/2 + want[2:]/4, want[-1:]])
    return [(a, want)]


@triton.jit
def everybody_reads_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    "All programs read the same row"
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + c, mask=c < cols, other=0.)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x) * tl.program_id(0))

@right(rtol=1e-5, atol=1e-5, why='fifty sums')
def one_row_for_all(go):
    x, out = normal(50), unwritten(5)
    go(everybody_reads_kernel, 5, x, out, 50, BLOCK=64)
    return [(out, x.double().sum()*torch.arange(5))]


@triton.jit
def evens_kernel(x_ptr, out_ptr, n, START: tl.constexpr, BLOCK: tl.constexpr):
    "Blocks that overlap, elements that do not"
    i = START + 2 * (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out_ptr + i, -tl.load(x_ptr + i, mask=i < n), mask=i < n)

@right(why='a sign')
def interleaved_stores(go):
    x, out = normal(99), unwritten(99)
    for start in 0, 1: go(evens_kernel, 4, x, out, 99, START=start, BLOCK=16)
    return [(out, -x.double())]


@triton.jit
def idle_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) * BLOCK >= n:
        return
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)

@right(rtol=6e-8, atol=6e-8, why='one sum')
def programs_with_nothing_to_do(go):
    x, out = normal(70), unwritten(70)
    go(idle_kernel, 8, x, out, 70, BLOCK=32)
    return [(out, x.double() + 1)]


@triton.jit
def padded_kernel(x_ptr, out_ptr, rows, cols, stride, R: tl.constexpr, C: tl.constexpr):
    "A view of fewer columns than the memory has: the rest of a row is never touched"
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    inside = (r < rows) & (c < cols)
    tl.store(out_ptr + r * stride + c, tl.load(x_ptr + r * stride + c, mask=inside) * 2, mask=inside)

@right(why='a power of two')
def views_of_wider_memory(go):
    x, memory = normal(10, 40), torch.full((10, 40), 7.)
    want = torch.full((10, 40), 7., dtype=torch.float64)
    want[:, :30] = 2*x[:, :30].double()
    go(padded_kernel, 1, x[:, :30], memory[:, :30], 10, 30, 40, R=16, C=32)
    return [(memory, want)]


@triton.jit
def boxes_kernel(x_desc, out_desc, R: tl.constexpr, C: tl.constexpr):
    "A descriptor knows the ends: what lies past them is zero, and is not stored; a load may begin before them"
    r, c = tl.program_id(0) * R, tl.program_id(1) * C
    out_desc.store([r, c], x_desc.load([r - 3, c - 4]) + 1)

@right(rtol=6e-8, atol=6e-8, why='one sum')
def boxes_past_the_ends(go):
    x, out = normal(20, 36), unwritten(20, 36)
    go(boxes_kernel, (3, 3), *(TensorDescriptor.from_tensor(o, [16, 16]) for o in (x, out)), R=16, C=16)
    return [(out, torch.nn.functional.pad(x.double(), (4, -4, 3, -3)) + 1)]


@triton.jit
def large_offsets_kernel(x_ptr, out_ptr, row, stride, cols, BLOCK: tl.constexpr):
    "The row is widened before it is multiplied"
    c = tl.arange(0, BLOCK)
    x_ptr += tl.cast(row, tl.int64) * stride - 3000000000
    tl.store(out_ptr + c, tl.load(x_ptr + c, mask=c < cols), mask=c < cols)

@right(why='nothing is rounded')
def offsets_of_64_bits(go):
    x, out = normal(50), unwritten(50)
    go(large_offsets_kernel, 1, x, out, 30000, 100000, 50, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def wrapped_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "A modulo instead of a mask on the load: what is loaded twice is not stored"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i % n), mask=i < n)

@right(why='nothing is rounded')
def modulo_for_a_mask(go):
    x, out = normal(100), unwritten(100)
    go(wrapped_kernel, 2, x, out, 100, BLOCK=64)
    return [(out, x.double())]


@triton.jit
def optional_kernel(x_ptr, bias_ptr, out_ptr, n, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    if HAS_BIAS:
        x += tl.load(bias_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x, mask=i < n)

@right(rtol=6e-8, atol=6e-8, why='one sum')
def none_for_a_tensor(go):
    x, bias, out, both = normal(100), normal(100), unwritten(100), unwritten(100)
    go(optional_kernel, 2, x, None, out, 100, HAS_BIAS=False, BLOCK=64)
    go(optional_kernel, 2, x, bias, both, 100, HAS_BIAS=True, BLOCK=64)
    return [(out, x.double()), (both, x.double() + bias.double())]


@triton.jit
def two_loops_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "A name of one loop is another thing in the next"
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    if n > 1:
        for k in range(n):
            part = tl.load(x_ptr + k)
            total += part
    for k in range(1):
        part = tl.load(x_ptr + k)
        total -= part
    for k in range(n):
        part = tl.load(y_ptr + k * BLOCK + i)
        total += part
    tl.store(out_ptr + i, total)

@right(rtol=1e-6, atol=1e-6, why='seven sums')
def one_name_in_two_loops(go):
    x, y, out = normal(3), normal(3, 16), unwritten(16)
    go(two_loops_kernel, 1, x, y, out, 3, BLOCK=16)
    return [(out, x[1:].double().sum() + y.double().sum(0))]


@triton.jit
def counted_kernel(ids_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "An atomic gives each lane a place of its own"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(ids_ptr + i, mask=i < n, other=0)
    at = tl.atomic_add(count_ptr + tl.zeros_like(i), 1, mask=(i < n) & (v > 9))
    tl.store(out_ptr + at, v, mask=(i < n) & (v > 9))

@right(why='integers, sorted: any order is right')
def places_from_an_atomic(go):
    v, count, out = whole(20, 200), zeros(1, dtype=torch.int32), unwritten(200, dtype=torch.int32)
    go(counted_kernel, 4, v, count, out, 200, BLOCK=64)
    n = int((v > 9).sum())
    return [(count, torch.tensor([n])), (out[:n].sort()[0], v[v > 9].sort()[0])]
