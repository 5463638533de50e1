"A row at a time: softmax, norms, losses, reductions, scans, sorting."
import torch
import torch.nn.functional as F
import triton, triton.language as tl

from tile_corpus import bf16, cdiv, normal, right, unwritten, whole, zeros


@triton.jit
def softmax_kernel(out_ptr, x_ptr, x_stride, out_stride, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    first, step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(first, rows, step, num_stages=STAGES):
        c = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=-float('inf'))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + c, e / tl.sum(e, axis=0), mask=c < cols)

@right(rtol=2e-6, why='an exponent, a sum of a hundred, a quotient')
def softmax_of_rows(go):
    pairs = []
    for rows, cols in (1, 1), (7, 100), (9, 128), (5, 129):
        x, out = normal(rows, cols), unwritten(rows, cols)
        block = triton.next_power_of_2(cols)
        go(softmax_kernel, 4, out, x, x.stride(0), out.stride(0), rows, cols, BLOCK=block, STAGES=2)
        pairs.append((out, x.double().softmax(1)))
    return pairs


@triton.jit
def online_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    high, total = -float('inf'), 0.0
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=-float('inf'))
        new = tl.maximum(high, tl.max(x))
        total = total * tl.exp(high - new) + tl.sum(tl.exp(x - new))
        high = new
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + c, mask=c < cols)
        tl.store(out_ptr + row * cols + c, tl.exp(x - high) / total, mask=c < cols)

@right(rtol=3e-6, why='as softmax_of_rows, and a factor for each block')
def softmax_online(go):
    x, out = normal(6, 201), unwritten(6, 201)
    go(online_kernel, 6, x, out, 201, BLOCK=64)
    return [(out, x.double().softmax(1))]


@triton.jit
def norm_forward_kernel(x_ptr, out_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    out_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for at in range(0, cols, BLOCK):
        c = at + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + c, mask=c < cols, other=0.).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for at in range(0, cols, BLOCK):
        c = at + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < cols, other=0.).to(tl.float32)
        d = tl.where(c < cols, x - mean, 0.)
        squares += d * d
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for at in range(0, cols, BLOCK):
        c = at + tl.arange(0, BLOCK)
        inside = c < cols
        x = tl.load(x_ptr + c, mask=inside, other=0.)
        w, b = tl.load(w_ptr + c, mask=inside), tl.load(b_ptr + c, mask=inside)
        tl.store(out_ptr + c, (x - mean) * rstd * w + b, mask=inside)


@triton.jit
def norm_backward_kernel(dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, cols,
                         GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    "dx of one row; its part of dw and db is added to that of its group, under a lock"
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    inside = c < cols
    x = tl.load(x_ptr + row * stride + c, mask=inside, other=0)
    dy = tl.load(dy_ptr + row * stride + c, mask=inside, other=0)
    w = tl.load(w_ptr + c, mask=inside)
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    xhat = tl.where(inside, (x - mean) * rstd, 0.)
    wdy = tl.where(inside, w * dy, 0.)
    c1 = tl.sum(xhat * wdy, axis=0) / cols
    c2 = tl.sum(wdy, axis=0) / cols
    tl.store(dx_ptr + row * stride + c, (wdy - (xhat * c1 + c2)) * rstd, mask=inside)
    group = row % GROUPS
    lock_ptr += group
    count_ptr = lock_ptr + GROUPS
    dw_ptr += group * cols + c
    db_ptr += group * cols + c
    dw, db = dy * xhat, dy
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if tl.load(count_ptr) == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        dw += tl.load(dw_ptr, mask=inside)
        db += tl.load(db_ptr, mask=inside)
    tl.store(dw_ptr, dw, mask=inside)
    tl.store(db_ptr, db, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def columns_kernel(dw_ptr, db_ptr, total_dw_ptr, total_db_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    c = tl.program_id(0) * C + tl.arange(0, C)
    dw, db = tl.zeros((R, C), dtype=tl.float32), tl.zeros((R, C), dtype=tl.float32)
    for i in range(0, rows, R):
        r = i + tl.arange(0, R)
        inside = (r[:, None] < rows) & (c[None, :] < cols)
        dw += tl.load(dw_ptr + r[:, None] * cols + c[None, :], mask=inside, other=0.)
        db += tl.load(db_ptr + r[:, None] * cols + c[None, :], mask=inside, other=0.)
    tl.store(total_dw_ptr + c, tl.sum(dw, axis=0), mask=c < cols)
    tl.store(total_db_ptr + c, tl.sum(db, axis=0), mask=c < cols)


@right(rtol=2e-5, atol=2e-5, why='sums of a hundred products near 1 cancel: 100 * 6e-8, and a few factors')
def layer_norm_forward_and_backward(go):
    rows, cols, groups = 13, 100, 4
    x, dy, w, b = normal(rows, cols), normal(rows, cols), normal(cols), normal(cols)
    out, dx, mean, rstd = unwritten(rows, cols), unwritten(rows, cols), unwritten(rows), unwritten(rows)
    go(norm_forward_kernel, rows, x, out, w, b, mean, rstd, cols, cols, 1e-5, BLOCK=64)
    locks = zeros(2*groups, dtype=torch.int32)
    dw, db, total_dw, total_db = unwritten(groups, cols), unwritten(groups, cols), unwritten(cols), unwritten(cols)
    go(norm_backward_kernel, rows, dx, dy, dw, db, x, w, mean, rstd, locks, cols, cols, GROUPS=groups, BLOCK=128)
    go(columns_kernel, cdiv(cols, 32), dw, db, total_dw, total_db, groups, cols, R=32, C=32)
    leaves = [o.double().requires_grad_() for o in (x, w, b)]
    want = F.layer_norm(leaves[0], (cols,), *leaves[1:], eps=1e-5)
    want.backward(dy.double())
    return [(out, want.detach()), *zip((dx, total_dw, total_db), (o.grad for o in leaves))]


@triton.jit
def rms_kernel(x_ptr, res_ptr, w_ptr, out_ptr, rstd_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    inside = c < cols
    at = row * cols + c
    x = tl.load(x_ptr + at, inside, 0.).to(tl.float32) + tl.load(res_ptr + at, inside, 0.).to(tl.float32)
    tl.store(res_ptr + row * cols + c, x.to(res_ptr.dtype.element_ty), inside)  # in place: it is this program's row
    rstd = tl.rsqrt(tl.sum(x * x) / cols + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(out_ptr + row * cols + c, x * rstd * tl.load(w_ptr + c, inside), inside)

@right(rtol=8e-3, atol=1e-6, why='half a unit of bfloat16 is 2**-9 of the value')
def rms_norm_with_a_residual(go):
    x, res, w = normal(5, 200, dtype=bf16), normal(5, 200, dtype=bf16), normal(200)
    out, rstd, before = unwritten(5, 200, dtype=bf16), unwritten(5), res.double()
    go(rms_kernel, 5, x, res, w, out, rstd, 200, 1e-6, BLOCK=256)
    total = x.double() + before
    scale = (total.pow(2).mean(1) + 1e-6).rsqrt()
    return [(out, total * scale[:, None] * w.double()), (res, total), (rstd, scale)]


@triton.jit
def entropy_kernel(logits_ptr, target_ptr, loss_ptr, grad_ptr, classes, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    target = tl.load(target_ptr + row)
    c = tl.arange(0, BLOCK)
    inside = c < classes
    if target == ignored:
        tl.store(loss_ptr + row, 0.0)
        tl.store(grad_ptr + row * classes + c, 0.0, mask=inside)
        return
    x = tl.load(logits_ptr + row * classes + c, mask=inside, other=-float('inf'))
    high = tl.max(x, 0)
    e = tl.exp(x - high)
    total = tl.sum(e, 0)
    tl.store(loss_ptr + row, tl.log(total) + high - tl.load(logits_ptr + row * classes + target))
    tl.store(grad_ptr + row * classes + c, e / total - tl.where(c == target, 1., 0.), mask=inside)

@right(rtol=3e-6, atol=1e-6, why='a logarithm of a sum of fifty, and a difference of values up to 8')
def cross_entropy(go):
    x, target = normal(9, 50), whole(50, 9, dtype=torch.int64)
    target[[2, 5]] = -100
    loss, grad = unwritten(9), unwritten(9, 50)
    go(entropy_kernel, 9, x, target, loss, grad, 50, -100, BLOCK=64)
    leaf = x.double().requires_grad_()
    want = F.cross_entropy(leaf, target, reduction='none')
    want.sum().backward()
    return [(loss, want.detach()), (grad, leaf.grad)]


@triton.jit
def group_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, channels, size, eps, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    image, group = tl.program_id(0), tl.program_id(1)
    each = channels // GROUPS
    i = tl.arange(0, BLOCK)
    inside = i < each * size
    at = (image * channels + group * each) * size + i
    channel = group * each + i // size
    x = tl.load(x_ptr + at, mask=inside, other=0.)
    mean = tl.sum(x) / (each * size)
    d = tl.where(inside, x - mean, 0.)
    rstd = tl.rsqrt(tl.sum(d * d) / (each * size) + eps)
    w, b = tl.load(w_ptr + channel, mask=inside), tl.load(b_ptr + channel, mask=inside)
    tl.store(out_ptr + at, d * rstd * w + b, mask=inside)

@right(rtol=1e-5, atol=3e-6, why='means of 63 values, two factors')
def group_norm(go):
    x, w, b, out = normal(2, 6, 7, 3), normal(6), normal(6), unwritten(2, 6, 7, 3)
    go(group_norm_kernel, (2, 2), x, w, b, out, 6, 21, 1e-5, GROUPS=2, BLOCK=64)
    return [(out, F.group_norm(x.double(), 2, w.double(), b.double(), 1e-5))]


@triton.jit
def joined(n_a, mean_a, m2_a, n_b, mean_b, m2_b):
    "Count, mean and squared distance of two samples taken together (Chan et al., 1979)"
    n = n_a + n_b
    part = tl.where(n == 0, 0., n_b / n)
    d = mean_b - mean_a
    return n, mean_a + d * part, m2_a + m2_b + d * d * n_a * part

@triton.jit
def variance_kernel(x_ptr, mean_ptr, var_ptr, cols, R: tl.constexpr, BLOCK: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = c < cols + 0 * r
    x = tl.load(x_ptr + r * cols + c, mask=inside, other=0.)
    n, mean, m2 = tl.reduce((inside.to(tl.float32), x, tl.zeros_like(x)), 1, joined)
    tl.store(mean_ptr + tl.arange(0, R), mean)
    tl.store(var_ptr + tl.arange(0, R), m2 / n)

@right(rtol=1e-5, atol=1e-6, why='seven levels of a tree')
def reduce_with_a_tuple(go):
    x, mean, var = normal(4, 100) + 3, unwritten(4), unwritten(4)
    go(variance_kernel, 1, x, mean, var, 100, R=4, BLOCK=128)
    return [(mean, x.double().mean(1)), (var, x.double().var(1, unbiased=False))]


@triton.jit
def best_kernel(x_ptr, best_ptr, at_ptr, low_ptr, parity_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, C)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=inside, other=-float('inf'))
    best, at = tl.max(x, axis=1, return_indices=True)
    tl.store(best_ptr + r, best, mask=r < rows)
    tl.store(at_ptr + r, at, mask=r < rows)
    tl.store(low_ptr + r, tl.argmin(tl.where(inside, x, float('inf')), axis=1), mask=r < rows)
    tl.store(parity_ptr + r, tl.xor_sum((x > 0).to(tl.int32) * (c[None, :] + 1), axis=1), mask=r < rows)

@right(why='nothing is rounded')
def argmax_and_argmin(go):
    x = normal(10, 30)
    x[3, 7] = x[3, 21] = 9.  # the first of two equal ones counts
    best, at, low, parity = unwritten(10), *(unwritten(10, dtype=torch.int32) for _ in range(3))
    go(best_kernel, 3, x, best, at, low, parity, 10, 30, R=4, C=32)
    marks = [0]*10
    for r in range(10):
        for c in range(30): marks[r] ^= (c + 1)*int(x[r, c] > 0)
    return [(best, x.double().amax(1)), (at, x.argmax(1)), (low, x.argmin(1)), (parity, torch.tensor(marks))]


@triton.jit
def linear(a_left, b_left, a_right, b_right):
    "First x -> a_left*x + b_left, then the right one"
    return a_left * a_right, b_left * a_right + b_right

@triton.jit
def recurrence_kernel(a_ptr, b_ptr, out_ptr, back_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    a = tl.load(a_ptr + row * cols + c, mask=c < cols, other=1.)
    b = tl.load(b_ptr + row * cols + c, mask=c < cols, other=0.)
    _, h = tl.associative_scan((a, b), 0, linear)
    tl.store(out_ptr + row * cols + c, h, mask=c < cols)
    _, back = tl.associative_scan((a, b), 0, linear, reverse=True)
    tl.store(back_ptr + row * cols + c, back, mask=c < cols)

@right(rtol=1e-5, atol=1e-6, why='factors below 1 damp what was rounded before')
def scan_with_a_tuple(go):
    a, b, out, back = torch.rand(3, 50), normal(3, 50), unwritten(3, 50), unwritten(3, 50)
    go(recurrence_kernel, 3, a, b, out, back, 50, BLOCK=64)
    want, h = [], torch.zeros(3, dtype=torch.float64)
    for t in range(50): want.append(h := a[:, t].double()*h + b[:, t].double())
    gone, h = [], torch.zeros(3, dtype=torch.float64)
    for t in reversed(range(50)): gone.insert(0, h := a[:, t].double()*h + b[:, t].double())
    return [(out, torch.stack(want, 1)), (back, torch.stack(gone, 1))]


@triton.jit
def running_kernel(x_ptr, sum_ptr, product_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    inside = (r < rows) & (c < cols)
    x = tl.load(x_ptr + r * cols + c, mask=inside, other=0.)
    tl.store(sum_ptr + r * cols + c, tl.cumsum(x, axis=0), mask=inside)
    tl.store(product_ptr + r * cols + c, tl.cumprod(1 + x / 8, axis=1), mask=inside)

@right(rtol=1e-5, atol=2e-6, why='thirty sums or products of 6e-8')
def cumsum_and_cumprod(go):
    x, total, product = normal(10, 30), unwritten(10, 30), unwritten(10, 30)
    go(running_kernel, 1, x, total, product, 10, 30, R=16, C=32)
    return [(total, x.double().cumsum(0)), (product, (1 + x.double()/8).cumprod(1))]


@triton.jit
def sorting_kernel(x_ptr, up_ptr, down_ptr, top_ptr, cols, BLOCK: tl.constexpr, K: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=float('inf'))
    tl.store(up_ptr + row * cols + c, tl.sort(x), mask=c < cols)
    x = tl.where(c < cols, x, -float('inf'))
    down = tl.sort(x, descending=True)
    tl.store(down_ptr + row * cols + c, down, mask=c < cols)
    tl.store(top_ptr + row * K + tl.arange(0, K), tl.topk(x, K))

@right(why='nothing is rounded')
def sort_and_topk(go):
    x, up, down, top = normal(3, 25), unwritten(3, 25), unwritten(3, 25), unwritten(3, 4)
    go(sorting_kernel, 3, x, up, down, top, 25, BLOCK=32, K=4)
    x = x.double()
    return [(up, x.sort(1)[0]), (down, x.sort(1, descending=True)[0]), (top, x.topk(4, 1)[0])]


@triton.jit
def kth_kernel(x_ptr, out_ptr, at_ptr, cols, K: tl.constexpr, BLOCK: tl.constexpr):
    "The K largest of a row, one after the other"
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=-float('inf'))
    for k in range(K):
        at = tl.argmax(x, axis=0)
        tl.store(at_ptr + row * K + k, at)
        tl.store(out_ptr + row * K + k, tl.max(x, axis=0))
        x = tl.where(c == at, -float('inf'), x)

@right(why='nothing is rounded')
def top_of_experts(go):
    x, out, at = normal(6, 60), unwritten(6, 3), unwritten(6, 3, dtype=torch.int32)
    go(kth_kernel, 6, x, out, at, 60, K=3, BLOCK=64)
    values, where = x.topk(3, 1)
    return [(out, values.double()), (at, where)]
