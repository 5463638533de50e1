"Where things lie and who writes them: transposes, gathers, atomics, hand-overs, packed bits, windows, quantization."
import numpy as np, torch
import torch.nn.functional as F
import triton, triton.language as tl

from tile_corpus import bf16, normal, right, unwritten, whole, zeros


@triton.jit
def transpose_kernel(x_ptr, out_ptr, h, w, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(x_ptr + r[:, None] * w + c[None, :], mask=(r[:, None] < h) & (c[None, :] < w))
    tl.store(out_ptr + c[:, None] * h + r[None, :], tl.trans(x), mask=(c[:, None] < w) & (r[None, :] < h))

@right(why='nothing is rounded')
def transpose(go):
    x, out = normal(37, 50), unwritten(50, 37)
    go(transpose_kernel, (3, 4), x, out, 37, 50, B=16)
    return [(out, x.T.double())]


@triton.jit
def shapes_kernel(x_ptr, flipped_ptr, woven_ptr, halves_ptr, turned_ptr, N: tl.constexpr):
    i = tl.arange(0, 4 * N)
    x = tl.load(x_ptr + i)
    tl.store(flipped_ptr + i, tl.flip(x, 0))
    even, odd = tl.split(tl.reshape(x, (2 * N, 2)))
    tl.store(woven_ptr + i, tl.interleave(odd, even))
    tl.store(halves_ptr + i, tl.ravel(tl.permute(tl.join(even, odd), (1, 0))))
    tl.store(turned_ptr + i, tl.ravel(tl.permute(tl.reshape(x, (2, N, 2)), (2, 0, 1))))

@right(why='nothing is rounded')
def shapes(go):
    x, outs = normal(64), [unwritten(64) for _ in range(4)]
    go(shapes_kernel, 1, x, *outs, N=16)
    x = x.double()
    pairs, turned = x.view(32, 2), x.view(2, 16, 2).permute(2, 0, 1)
    return list(zip(outs, (x.flip(0), pairs.flip(1).reshape(-1), pairs.T.reshape(-1), turned.reshape(-1))))


@triton.jit
def embedding_kernel(ids_ptr, table_ptr, out_ptr, n, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + r, mask=r < n, other=0)
    inside = (r[:, None] < n) & (c[None, :] < width)
    rows = tl.load(table_ptr + ids[:, None] * width + c[None, :], mask=inside)
    tl.store(out_ptr + r[:, None] * width + c[None, :], rows, mask=inside)

@triton.jit
def embedding_backward_kernel(ids_ptr, dy_ptr, grad_ptr, width, BLOCK: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + r * width + c, mask=c < width)
    tl.atomic_add(grad_ptr + tl.load(ids_ptr + r) * width + c, dy, mask=c < width)

@right(rtol=1e-6, atol=1e-6, why='sums of a handful, in any order')
def embedding(go):
    ids, table, dy = whole(20, 11, dtype=torch.int64), normal(20, 30), normal(11, 30)
    out, grad = unwritten(11, 30), zeros(20, 30)
    go(embedding_kernel, 3, ids, table, out, 11, 30, ROWS=4, BLOCK=32)
    go(embedding_backward_kernel, 11, ids, dy, grad, 30, BLOCK=32)
    return [(out, table[ids].double()), (grad, torch.zeros(20, 30, dtype=torch.float64).index_add(0, ids, dy.double()))]


@triton.jit
def within_kernel(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.gather(tl.load(x_ptr + i), tl.load(at_ptr + i), axis=0))

@right(why='nothing is rounded')
def gather_within_a_block(go):
    x, at, out = normal(64), whole(64, 64), unwritten(64)
    go(within_kernel, 1, x, at, out, N=64)
    return [(out, x[at.long()].double())]


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x_ptr + i, mask=i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), counts)

@right(why='integers')
def histogram(go):
    x, counts = whole(16, 300), zeros(16, dtype=torch.int32)
    go(histogram_kernel, 3, x, counts, 300, BLOCK=128, BINS=16)
    return [(counts, torch.bincount(x, minlength=16))]


@triton.jit
def scatter_kernel(x_ptr, bin_ptr, sum_ptr, high_ptr, low_ptr, seen_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x, b = tl.load(x_ptr + i, inside, 0), tl.load(bin_ptr + i, inside, 0)
    tl.atomic_add(sum_ptr + b, x, mask=inside, sem='relaxed')
    tl.atomic_max(high_ptr + b, x, mask=inside)
    tl.atomic_min(low_ptr + b, x, mask=inside)
    tl.atomic_or(seen_ptr + b, 1 << (x & 15), mask=inside)

@right(why='integers')
def atomics_of_all_kinds(go):
    x, b = whole(1000, 200) - 500, whole(5, 200)
    total, high, low, seen = (torch.full((5,), v, dtype=torch.int32) for v in (0, -999, 999, 0))
    go(scatter_kernel, 4, x, b, total, high, low, seen, 200, BLOCK=64)
    bits = [0]*5
    for v, k in zip(x.tolist(), b.tolist()): bits[k] |= 1 << (v & 15)
    parts = [x[b == k] for k in range(5)]
    return [(total, torch.stack([p.sum() for p in parts])), (high, torch.stack([p.max() for p in parts])),
            (low, torch.stack([p.min() for p in parts])), (seen, torch.tensor(bits))]


@triton.jit
def largest_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_max(out_ptr, tl.max(tl.load(x_ptr + i, mask=i < n, other=-float('inf'))))

@right(why='nothing is rounded')
def atomic_max_of_floats(go):
    x, out = normal(300), torch.full((1,), -torch.inf)
    go(largest_kernel, 3, x, out, 300, BLOCK=128)
    return [(out, x.double().max()[None])]


@triton.jit
def last_sums_kernel(x_ptr, parts_ptr, count_ptr, out_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    "Each program leaves a sum; the one that comes last adds them"
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts_ptr + pid, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.)))
    tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1, sem='acq_rel') == PROGRAMS - 1:
        tl.debug_barrier()
        tl.store(out_ptr, tl.sum(tl.load(parts_ptr + tl.arange(0, PROGRAMS))))

@right(rtol=1e-5, atol=1e-5, why='500 sums of 6e-8 of values up to 60')
def last_program_sums(go):
    x, parts, count, out = normal(500), unwritten(8), zeros(1, dtype=torch.int32), unwritten(1)
    go(last_sums_kernel, 8, x, parts, count, out, 500, PROGRAMS=8, BLOCK=64)
    return [(out, x.double().sum()[None])]


@triton.jit
def running_sum_kernel(x_ptr, out_ptr, ticket_ptr, flag_ptr, total_ptr, n, BLOCK: tl.constexpr):
    "A program takes the next part, and waits for what the parts before it add up to"
    part = tl.atomic_add(ticket_ptr, 1)
    i = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.)
    before = 0.
    if part > 0:
        while tl.atomic_add(flag_ptr + part - 1, 0, sem='acquire') == 0:
            pass
        before = tl.load(total_ptr + part - 1)
    tl.store(total_ptr + part, before + tl.sum(x))
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + part, 1, sem='release')
    tl.store(out_ptr + i, before + tl.cumsum(x), mask=i < n)

@right(rtol=1e-5, atol=2e-5, why='500 sums of 6e-8 of values up to 60')
def cumsum_with_look_back(go):
    x, out = normal(500), unwritten(500)
    ticket, flags, totals = zeros(1, dtype=torch.int32), zeros(8, dtype=torch.int32), unwritten(8)
    go(running_sum_kernel, 8, x, out, ticket, flags, totals, 500, BLOCK=64)
    return [(out, x.double().cumsum(0))]


@triton.jit
def locked_kernel(x_ptr, out_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    "All programs add to one row, one after the other"
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + c, mask=c < n)
    while tl.atomic_cas(lock_ptr, 0, 1, sem='acquire') != 0:
        pass
    tl.store(out_ptr + c, tl.load(out_ptr + c, mask=c < n) + x, mask=c < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0, sem='release')

@right(rtol=1e-6, atol=1e-6, why='six sums')
def sum_under_a_lock(go):
    x, out, lock = normal(6, 50), zeros(50), zeros(1, dtype=torch.int32)
    go(locked_kernel, 6, x, out, lock, 50, BLOCK=64)
    return [(out, x.double().sum(0))]


@triton.jit
def quantize_kernel(x_ptr, q_ptr, scale_ptr, n, most, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.).to(tl.float32)
    scale = tl.div_rn(tl.max(tl.abs(x)), most)  # as torch rounds it; `/` is off by a bit on a GPU
    tl.store(scale_ptr + tl.program_id(0), scale)
    tl.store(q_ptr + i, tl.div_rn(x, scale).to(q_ptr.dtype.element_ty), mask=i < n)

@triton.jit
def dequantize_kernel(q_ptr, scale_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(q_ptr + i, mask=i < n).to(tl.float32)
    tl.store(out_ptr + i, (q * tl.load(scale_ptr + tl.program_id(0))).to(out_ptr.dtype.element_ty), mask=i < n)

@right(why='the quotient is rounded to float32 and then to float8, here as there')
def quantize_to_fp8(go):
    pairs = []
    for dtype, most in (torch.float8_e4m3fn, 448.), (torch.float8_e5m2, 57344.):
        x, q = normal(300, dtype=bf16), torch.zeros(300).to(dtype)
        scale, back = unwritten(3), unwritten(300, dtype=bf16)
        go(quantize_kernel, 3, x, q, scale, 300, most, BLOCK=128)
        go(dequantize_kernel, 3, q, scale, back, 300, BLOCK=128)
        by = (F.pad(x.float().abs(), (0, 84)).view(3, 128).amax(1) / most).repeat_interleave(128)[:300]
        want = (x.float() / by).to(dtype)
        pairs += [(q.double(), want.double()), (back, (want.float() * by).bfloat16().double())]
    return pairs


@triton.jit
def to_bytes_kernel(x_ptr, q_ptr, scale_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.)
    scale = tl.max(tl.abs(x)) / 127.
    q = x / scale
    q = tl.where(q < 0, q - 0.5, q + 0.5).to(tl.int8)  # away from zero
    tl.store(q_ptr + row * cols + c, q, mask=c < cols)
    tl.store(scale_ptr + row, scale)

@right(atol=.51, why='half a step, and what its scale was rounded by')
def quantize_to_int8(go):
    x, q, scale = normal(4, 90), unwritten(4, 90, dtype=torch.int8), unwritten(4)
    go(to_bytes_kernel, 4, x, q, scale, 90, BLOCK=128)
    return [(q.double(), x.double() / scale.double()[:, None])]


@triton.jit
def unpack_kernel(packed_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "Eight numbers of 4 bits in each word, the lowest first; shifted up and down again for their sign"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word = tl.load(packed_ptr + i // 8, mask=i < n, other=0)
    tl.store(out_ptr + i, ((word >> (i % 8) * 4) << 28 >> 28).to(tl.int8), mask=i < n)

@right(why='integers')
def unpack_4_bits(go):
    v = whole(16, 25, 8, dtype=torch.int64) - 8
    word = ((v & 15) << torch.arange(0, 32, 4)).sum(1)
    packed, out = torch.from_numpy(word.numpy().astype(np.uint32).view(np.int32)), unwritten(200, dtype=torch.int8)
    go(unpack_kernel, 4, packed, out, 200, BLOCK=64)
    return [(out, v.reshape(-1))]


@triton.jit
def convolution_kernel(x_ptr, w_ptr, out_ptr, channels, h, w, oh, ow, K: tl.constexpr, B: tl.constexpr):
    "One output channel and a tile of B x B; what lies outside counts as zero"
    of, lane = tl.program_id(0), tl.arange(0, B)
    r, c = tl.program_id(1) * B + lane[:, None], tl.program_id(2) * B + lane[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for ch in range(channels):
        for i in tl.static_range(K):
            for j in tl.static_range(K):
                y, x = r + i - K // 2, c + j - K // 2
                inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
                v = tl.load(x_ptr + ch * h * w + y * w + x, mask=inside, other=0.)
                acc += v * tl.load(w_ptr + ((of * channels + ch) * K + i) * K + j)
    tl.store(out_ptr + of * oh * ow + r * ow + c, acc, mask=(r < oh) & (c < ow))

@right(rtol=1e-5, atol=1e-5, why='27 sums of 6e-8 of values up to 20')
def convolution(go):
    x, w, out = normal(3, 20, 17), normal(4, 3, 3, 3), unwritten(4, 20, 17)
    go(convolution_kernel, (4, 2, 2), x, w, out, 3, 20, 17, 20, 17, K=3, B=16)
    return [(out, F.conv2d(x.double()[None], w.double(), padding=1)[0])]


@triton.jit
def pool_kernel(x_ptr, out_ptr, h, w, K: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr):
    r, c = tl.arange(0, BH)[:, None], tl.arange(0, BW)[None, :]
    oh, ow = h // K, w // K
    best = tl.full((BH, BW), -float('inf'), tl.float32)
    for i in range(K):
        for j in range(K):
            at = (r * K + i) * w + c * K + j
            best = tl.maximum(best, tl.load(x_ptr + at, mask=(r < oh) & (c < ow), other=-float('inf')))
    tl.store(out_ptr + r * ow + c, best, mask=(r < oh) & (c < ow))

@right(why='nothing is rounded')
def max_pool(go):
    x, out = normal(15, 21), unwritten(5, 7)
    go(pool_kernel, 1, x, out, 15, 21, K=3, BH=8, BW=8)
    return [(out, F.max_pool2d(x.double()[None], 3)[0])]


@triton.jit
def jagged_kernel(x_ptr, starts_ptr, out_ptr, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    "The mean of each of several sequences that lie one behind the other"
    s = tl.program_id(0)
    first, last = tl.load(starts_ptr + s), tl.load(starts_ptr + s + 1)
    c = tl.arange(0, BLOCK)
    acc = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(first, last, ROWS):
        r = start + tl.arange(0, ROWS)
        inside = (r[:, None] < last) & (c[None, :] < width)
        acc += tl.load(x_ptr + r[:, None] * width + c[None, :], mask=inside, other=0.)
    if last > first:
        tl.store(out_ptr + s * width + c, tl.sum(acc, axis=0) / (last - first), mask=c < width)

@right(rtol=1e-5, atol=1e-6, why='seventeen sums and a quotient')
def jagged_mean(go):
    starts, x, out = torch.tensor([0, 3, 3, 20, 26]), normal(26, 12), zeros(4, 12)
    go(jagged_kernel, 4, x, starts, out, 12, ROWS=4, BLOCK=16)
    want = torch.stack([x[a:b].double().mean(0) if b > a else torch.zeros(12, dtype=torch.float64)
                        for a, b in zip(starts, starts[1:])])
    return [(out, want)]


@triton.jit
def adam_kernel(p_ptr, g_ptr, m_ptr, v_ptr, n, lr, b1, b2, eps, decay, c1, c2, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    p, g = tl.load(p_ptr + i, inside), tl.load(g_ptr + i, inside)
    m = b1 * tl.load(m_ptr + i, inside) + (1 - b1) * g
    v = b2 * tl.load(v_ptr + i, inside) + (1 - b2) * g * g
    p -= lr * (m / c1 / (tl.sqrt(v / c2) + eps) + decay * p)
    tl.store(p_ptr + i, p, inside)
    tl.store(m_ptr + i, m, inside)
    tl.store(v_ptr + i, v, inside)

@right(rtol=1e-5, atol=1e-6, why='1 - .999 in float32 is off by 3e-5 of itself, and its root by half of that, times lr')
def adam_in_place(go):
    p, m, v = normal(300), zeros(300), zeros(300)
    leaf = torch.nn.Parameter(p.double())
    optimizer = torch.optim.AdamW([leaf], lr=1e-2, weight_decay=.1)
    for step in 1, 2, 3:
        g = normal(300)
        leaf.grad = g.double()
        optimizer.step()
        go(adam_kernel, 3, p, g, m, v, 300, 1e-2, .9, .999, 1e-8, .1, 1 - .9**step, 1 - .999**step, BLOCK=128)
    return [(p, leaf.detach())]


@triton.jit
def two_passes_kernel(x_ptr, tmp_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "What a program has stored it may load again, also in another order of lanes, behind a barrier"
    i = tl.arange(0, BLOCK)
    tl.store(tmp_ptr + tl.program_id(0) * BLOCK + i, tl.load(x_ptr + tl.program_id(0) * BLOCK + i) * 2)
    tl.debug_barrier()
    tl.store(out_ptr + tl.program_id(0) * BLOCK + i, tl.load(tmp_ptr + tl.program_id(0) * BLOCK + BLOCK - 1 - i))

@right(why='a power of two')
def own_scratch_memory(go):
    x, tmp, out = normal(4, 64), unwritten(4, 64), unwritten(4, 64)
    go(two_passes_kernel, 4, x, tmp, out, 256, BLOCK=64)
    return [(out, 2*x.double().flip(1))]
