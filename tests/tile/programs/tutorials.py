"""Programs of the kinds with which people learn Triton, as they write them: `import triton`, tensors of a GPU, torch
to compare with. Run under `gridstride.as_gpu`, or on a machine with a GPU; each prints its name when it is right."""
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

DEVICE = triton.runtime.driver.active.get_active_torch_device()
torch.manual_seed(0)


def normal(*shape, dtype=torch.float32): return torch.randn(shape, device=DEVICE, dtype=dtype)


def agrees(name, got, want, tol=1e-5):
    torch.testing.assert_close(got.float(), want.float(), rtol=tol, atol=tol)
    print(name, flush=True)


# A sum of vectors, and its benchmark
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + tl.load(y_ptr + i, mask=i < n), mask=i < n)


def add(x, y):
    out = torch.empty_like(x)
    assert x.is_cuda and x.device == DEVICE and out.device == DEVICE
    compiled = add_kernel[lambda meta: (triton.cdiv(x.numel(), meta['BLOCK']),)](x, y, out, x.numel(), BLOCK=64)
    assert compiled.name == 'add_kernel' and compiled.n_regs > 0 and compiled.metadata.num_warps > 0
    return out


@triton.testing.perf_report(triton.testing.Benchmark(
    x_names=['n'], x_vals=[64, 100], line_arg='by', line_vals=['triton', 'torch'], line_names=['Triton', 'Torch'],
    plot_name='sums', args={}, ylabel='GB/s'))
def benchmark(n, by):
    x, y = normal(n), normal(n)
    ms, low, high = triton.testing.do_bench(lambda: add(x, y) if by == 'triton' else x + y, quantiles=[.5, .2, .8])
    return [12e-6*n/o for o in (ms, high, low)]


x, y = normal(300), normal(300)
agrees('add', add(x, y), x + y)
benchmark.run(print_data=True, show_plots=False)


# Softmax of rows, by as many programs as fit on the GPU
@triton.jit
def softmax_kernel(x_ptr, out_ptr, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        c = tl.arange(0, BLOCK)
        v = tl.load(x_ptr + row*x_stride + c, mask=c < columns, other=-float('inf'))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out_ptr + row*out_stride + c, e / tl.sum(e, axis=0), mask=c < columns)


def softmax(x):
    rows, columns = x.shape
    block, out = triton.next_power_of_2(columns), torch.empty_like(x)
    gpu = triton.runtime.driver.active.utils.get_device_properties(DEVICE.index)
    args = x, out, x.stride(0), out.stride(0), rows, columns
    kernel = softmax_kernel.warmup(*args, BLOCK=block, STAGES=2, num_warps=8, grid=(1,))
    kernel._init_handles()
    fit = min(gpu['max_num_regs'] // (kernel.n_regs*32*8), gpu['max_shared_mem'] // max(1, kernel.metadata.shared))
    softmax_kernel[(min(rows, 3*fit), 1, 1)](*args, BLOCK=block, STAGES=2, num_warps=8)
    return out


x = normal(37, 53)
agrees('softmax', softmax(x), torch.softmax(x, 1))


# A product: tiles in groups that share rows, configs to choose from, an activation that is compiled in
def configs():
    return [triton.Config({'BM': bm, 'BN': 32, 'BK': 16, 'GROUP': 2}, num_stages=s, num_warps=4)
            for bm in (32, 64) for s in (3, 4)]


@triton.jit
def leaky_relu(x): return tl.where(x >= 0, x, 0.01 * x)


@triton.autotune(configs=configs(), key=['m', 'n', 'k'])
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr):
    pid = tl.program_id(axis=0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = pid // (GROUP*tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    i, j = first + pid % (GROUP*tiles_n) % height, pid % (GROUP*tiles_n) // height
    tl.assume(i >= 0)
    tl.assume(am > 0)
    rows, columns, inner = (i*BM + tl.arange(0, BM)) % m, (j*BN + tl.arange(0, BN)) % n, tl.arange(0, BK)
    a = a_ptr + rows[:, None]*am + inner[None, :]*ak
    b = b_ptr + inner[:, None]*bk + columns[None, :]*bn
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        left = k - step*BK
        total = tl.dot(tl.load(a, mask=inner[None, :] < left, other=0.),
                       tl.load(b, mask=inner[:, None] < left, other=0.), total)
        a += BK*ak
        b += BK*bk
    if ACTIVATION == 'leaky_relu': total = leaky_relu(total)
    rows, columns = i*BM + tl.arange(0, BM), j*BN + tl.arange(0, BN)
    c = c_ptr + cm*rows[:, None] + cn*columns[None, :]
    tl.store(c, total.to(tl.float16), mask=(rows[:, None] < m) & (columns[None, :] < n))


def matmul(a, b, activation=''):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=torch.float16)
    matmul_kernel[lambda meta: (triton.cdiv(m, meta['BM']) * triton.cdiv(n, meta['BN']),)](
        a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), ACTIVATION=activation)
    return c


a, b = normal(100, 40, dtype=torch.float16), normal(70, 40, dtype=torch.float16).T
agrees('matmul', matmul(a, b), a.float() @ b.float(), 2e-2)
want = torch.nn.functional.leaky_relu(a.float() @ b.float())
agrees('matmul with an activation', matmul(a, b, 'leaky_relu'), want, 2e-2)


# Dropout, whose mask is made again from the seed
@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, i) > p
    tl.store(out_ptr + i, tl.where(kept, tl.load(x_ptr + i, mask=i < n) / (1 - p), 0.0), mask=i < n)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    assert x.is_contiguous()
    dropout_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), p, seed, BLOCK=256)
    return out


x = normal(1000) + 10
one, again, other = dropout(x, .5, 123), dropout(x, .5, 123), dropout(x, .5, 512)
assert torch.equal(one, again) and not torch.equal(one, other) and .4 < (one == 0).float().mean() < .6
agrees('dropout', one[one != 0], 2*x[one != 0])


# Layer norm, and its gradients: programs add to a few rows of partial sums, each under a lock
@triton.jit
def norm_kernel(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row*stride
    y_ptr += row*stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, n, BLOCK):
        i = first + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + i, mask=i < n, other=0.).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, n, BLOCK):
        i = first + tl.arange(0, BLOCK)
        d = tl.where(i < n, tl.load(x_ptr + i, mask=i < n, other=0.).to(tl.float32) - mean, 0.)
        squares += d*d
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for first in range(0, n, BLOCK):
        i = first + tl.arange(0, BLOCK)
        hat = (tl.load(x_ptr + i, mask=i < n, other=0.).to(tl.float32) - mean) * rstd
        tl.store(y_ptr + i, hat*tl.load(w_ptr + i, mask=i < n) + tl.load(b_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def norm_backward_kernel(dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, n,
                         GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + row*stride + i, mask=inside, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row*stride + i, mask=inside, other=0).to(tl.float32)
    w = tl.load(w_ptr + i, mask=inside, other=0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    hat = tl.where(inside, (x - tl.load(mean_ptr + row))*rstd, 0.)
    g = tl.where(inside, w*dy, 0.)
    mean_of_g, mean_of_both = tl.sum(g, axis=0)/n, tl.sum(hat*g, axis=0)/n
    tl.store(dx_ptr + row*stride + i, (g - hat*mean_of_both - mean_of_g)*rstd, mask=inside)
    group = row % GROUP
    lock_ptr += group
    count_ptr = lock_ptr + GROUP
    dw_ptr += group*n + i
    db_ptr += group*n + i
    dw, db = dy*hat, dy
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
def column_sums_kernel(partial_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    c = tl.program_id(0)*BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, m, BM):
        r = first + tl.arange(0, BM)
        total += tl.load(partial_ptr + r[:, None]*n + c[None, :], mask=(r[:, None] < m) & (c[None, :] < n), other=0.)
    tl.store(out_ptr + c, tl.sum(total, axis=0), mask=c < n)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, eps):
        rows, n = x.shape
        y, (mean, rstd) = torch.empty_like(x), torch.empty((2, rows), dtype=torch.float32, device=x.device)
        norm_kernel[(rows,)](x, y, w, b, mean, rstd, x.stride(0), n, eps, BLOCK=16, num_warps=1, num_ctas=1)
        ctx.save_for_backward(x, w, mean, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w, mean, rstd = ctx.saved_tensors
        (rows, n), group = x.shape, 3
        locks = torch.zeros(2*group, dtype=torch.int32, device=w.device)
        partial = torch.zeros((2, group, n), dtype=torch.float32, device=w.device)
        dx, grads = torch.empty_like(dy), torch.empty((2, n), dtype=w.dtype, device=w.device)
        norm_backward_kernel[(rows,)](dx, dy, *partial, x, w, mean, rstd, locks, x.stride(0), n, GROUP=group,
                                      BLOCK=triton.next_power_of_2(n), num_warps=1)
        for o, out in zip(partial, grads):
            column_sums_kernel[lambda meta: (triton.cdiv(n, meta['BN']),)](o, out, group, n, BM=4, BN=16, num_ctas=1)
        return dx, *grads, None


x, w, b, dy = normal(10, 40), normal(40), normal(40), normal(10, 40)
leaves = [o.requires_grad_() for o in (x, w, b)]
y, want = LayerNorm.apply(*leaves, 1e-5), torch.nn.functional.layer_norm(x, (40,), w, b, 1e-5)
agrees('layer norm', y, want)
for got, right in zip(torch.autograd.grad(y, leaves, dy), torch.autograd.grad(want, leaves, dy)):
    agrees('a gradient of layer norm', got, right, 1e-4)


# Flash attention: descriptors made by the kernel, an inner function that is called per stage
@triton.jit
def attend(total, high, acc, q, k_desc, v_desc, row, first, last, i, scale, CAUSAL: tl.constexpr, BN: tl.constexpr):
    for start in tl.range(first, last, BN, warp_specialize=False):
        start = tl.multiple_of(start, BN)
        qk = tl.dot(q, k_desc.load([row + start, 0]).T) * scale
        if CAUSAL: qk += tl.where(i[:, None] >= (start + tl.arange(0, BN))[None, :], 0, -1.0e6)
        new = tl.maximum(high, tl.max(qk, 1))
        p, alpha = tl.math.exp2(qk - new[:, None]), tl.math.exp2(high - new)
        total = total*alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v_desc.load([row + start, 0]), acc*alpha[:, None])
        high = new
    return total, high, acc


def small_ones(found, args, **meta): return [o for o in found if o.kwargs['BN'] < 32]


@triton.autotune(configs=[triton.Config({'BM': 32, 'BN': 16}), triton.Config({'BM': 32, 'BN': 32})], key=['n', 'D'],
                 prune_configs_by={'early_config_prune': small_ones})
@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, heads, n, scale, D: tl.constexpr, CAUSAL: tl.constexpr,
                     BM: tl.constexpr, BN: tl.constexpr):
    tl.static_assert(BN <= BM)
    block, head = tl.program_id(0), tl.program_id(1)
    y_dim = heads*n
    q_desc = tl.make_tensor_descriptor(q_ptr, shape=[y_dim, D], strides=[D, 1], block_shape=[BM, D])
    k_desc = tl.make_tensor_descriptor(k_ptr, shape=[y_dim, D], strides=[D, 1], block_shape=[BN, D])
    v_desc = tl.make_tensor_descriptor(v_ptr, shape=[y_dim, D], strides=[D, 1], block_shape=[BN, D])
    out_desc = tl.make_tensor_descriptor(out_ptr, shape=[y_dim, D], strides=[D, 1], block_shape=[BM, D])
    i, row = block*BM + tl.arange(0, BM), head*n
    high, total = tl.full([BM], -float('inf'), tl.float32), tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    scale *= 1.44269504
    q = q_desc.load([row + block*BM, 0])
    if CAUSAL:
        first, last = block*BM, (block + 1)*BM
        total, high, acc = attend(total, high, acc, q, k_desc, v_desc, row, 0, first, i, scale, False, BN)
        total, high, acc = attend(total, high, acc, q, k_desc, v_desc, row, first, last, i, scale, True, BN)
    else:
        total, high, acc = attend(total, high, acc, q, k_desc, v_desc, row, 0, n, i, scale, False, BN)
    tl.store(lse_ptr + row + i, high + tl.math.log2(total))
    out_desc.store([row + block*BM, 0], (acc/total[:, None]).to(tl.float16))


triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=DEVICE))
q, k, v = (normal(1, 2, 64, 16, dtype=torch.float16) for _ in range(3))
for causal in False, True:
    out, lse = torch.empty_like(q), torch.empty((2, 64), device=DEVICE)
    grid = lambda meta: (triton.cdiv(64, meta['BM']), 2, 1)
    attention_kernel[grid](q, k, v, out, lse, 2, 64, .25, D=16, CAUSAL=causal)
    wide = q.float(), k.float(), v.float()
    want = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=causal, scale=.25)
    agrees('causal attention' if causal else 'attention', out, want, 1e-2)


# Products of several sizes in one launch, whose matrices are found by a table of addresses
@triton.jit
def grouped_kernel(a_ptrs, b_ptrs, c_ptrs, sizes, strides, groups, PROGRAMS: tl.constexpr, BM: tl.constexpr,
                   BN: tl.constexpr, BK: tl.constexpr):
    tile, before = tl.program_id(0), 0
    for g in range(groups):
        m, n, k = tl.load(sizes + 3*g), tl.load(sizes + 3*g + 1), tl.load(sizes + 3*g + 2)
        tiles_n = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM)*tiles_n
        while tile >= before and tile < before + tiles:
            lda, ldb, ldc = tl.load(strides + 3*g), tl.load(strides + 3*g + 1), tl.load(strides + 3*g + 2)
            a = tl.load(a_ptrs + g).to(tl.pointer_type(tl.float16))
            b = tl.load(b_ptrs + g).to(tl.pointer_type(tl.float16))
            c = tl.load(c_ptrs + g).to(tl.pointer_type(tl.float16))
            rows = (tile - before)//tiles_n*BM + tl.arange(0, BM)
            columns, inner = (tile - before) % tiles_n*BN + tl.arange(0, BN), tl.arange(0, BK)
            a += rows[:, None]*lda + inner[None, :]
            b += inner[:, None]*ldb + columns[None, :]
            total = tl.zeros((BM, BN), dtype=tl.float32)
            for _ in range(0, tl.cdiv(k, BK)):
                tl.multiple_of(a, [16, 16])
                total += tl.dot(tl.load(a, mask=rows[:, None] < m, other=0.),
                                tl.load(b, mask=columns[None, :] < n, other=0.))
                a += BK
                b += BK*ldb
            c += ldc*rows[:, None] + columns[None, :]
            tl.store(c, total.to(tl.float16), mask=(rows[:, None] < m) & (columns[None, :] < n))
            tile += PROGRAMS
        before += tiles


shapes = [(40, 32, 32), (16, 16, 64), (64, 48, 16)]
many = [(normal(m, k, dtype=torch.float16), normal(k, n, dtype=torch.float16)) for m, n, k in shapes]
outs = [torch.empty((m, n), device=DEVICE, dtype=torch.float16) for m, n, _ in shapes]
tables = [torch.tensor([o.data_ptr() for o in column], device=DEVICE) for column in (*zip(*many), outs)]
strides = [[o.stride(0) for o in (a, b, c)] for (a, b), c in zip(many, outs)]
strides = torch.tensor(strides, dtype=torch.int32, device=DEVICE)
sizes = torch.tensor(shapes, dtype=torch.int32, device=DEVICE)
grouped_kernel[(4,)](*tables, sizes, strides, len(shapes), PROGRAMS=4, BM=16, BN=16, BK=16)
for (a, b), c in zip(many, outs): agrees('a product of a group', c, a.float() @ b.float(), 2e-2)


# A product by programs that stay: descriptors of the host, and halves of a tile that are stored one after the other
@triton.jit
def tile_of(t, tiles_m, GROUP: tl.constexpr, per_group):
    first = t // per_group * GROUP
    height = min(tiles_m - first, GROUP)
    return first + t % height, t % per_group // height


@triton.jit(launch_metadata=lambda grid, kernel, args: {'name': f'{kernel.name} [{args["m"]}]'})
def persistent_kernel(a_desc, b_desc, c_desc, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                      GROUP: tl.constexpr, PROGRAMS: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    per_group = GROUP*tiles_n
    for t in tl.range(tl.program_id(0), tiles_m*tiles_n, PROGRAMS, flatten=True):
        i, j = tile_of(t, tiles_m, GROUP, per_group)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(tl.cdiv(k, BK)):
            total = tl.dot(a_desc.load([i*BM, step*BK]), b_desc.load([j*BN, step*BK]).T, total)
        left, right = tl.split(tl.permute(tl.reshape(total, (BM, 2, BN//2)), (0, 2, 1)))
        c_desc.store([i*BM, j*BN], left.to(tl.float16))
        c_desc.store([i*BM, j*BN + BN//2], right.to(tl.float16))


a, b = normal(100, 48, dtype=torch.float16), normal(72, 48, dtype=torch.float16)
c = torch.empty((100, 72), dtype=torch.float16, device=DEVICE)
descriptors = [TensorDescriptor.from_tensor(o, block) for o, block in ((a, [32, 16]), (b, [32, 16]), (c, [32, 16]))]
programs = min(5, torch.cuda.get_device_properties(DEVICE.index or 0).multi_processor_count)
persistent_kernel[(programs,)](*descriptors, 100, 72, 48, BM=32, BN=32, BK=16, GROUP=2, PROGRAMS=programs)
agrees('persistent product', c, a.float() @ b.float().T, 2e-2)


# A polynomial of norms: rows per program, a list of powers that is unrolled, libdevice
@triton.jit
def poly_kernel(x_ptr, out_ptr, w_ptr, b_ptr, rows, n, eps, PER_PROGRAM: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64)*PER_PROGRAM
    c = tl.arange(0, BLOCK)
    for row in range(first, min(first + PER_PROGRAM, rows)):
        x = tl.load(x_ptr + row*n + c, mask=c < n, other=0.0)
        y, power = tl.zeros((BLOCK,), tl.float32) + tl.load(b_ptr), x
        for p in tl.static_range(3):
            y += tl.load(w_ptr + p)*power*libdevice.rsqrt(tl.sum(power*power, axis=0)/n + eps)
            power *= x
        tl.store(out_ptr + row*n + c, y, mask=c < n)


x, w, b = normal(7, 20), normal(3), normal(1)
out = torch.empty_like(x)
poly_kernel[(3,)](x, out, w, b, 7, 20, 1e-6, PER_PROGRAM=3, BLOCK=32)
agrees('norms of powers', out, b + sum(w[p]*o/(o.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()
                                       for p, o in enumerate((x, x**2, x**3))))


# Losses of tokens: arguments that may be None, programs that return at once, an online log of a sum
@triton.jit
def token_loss_kernel(logits_ptr, ids_ptr, mask_ptr, adv_ptr, loss_ptr, n, vocabulary, temperature,
                      BLOCK: tl.constexpr):
    b, t = tl.program_id(0).cast(tl.int64), tl.program_id(1).cast(tl.int64)
    loss_ptr += b*n + t
    if mask_ptr is not None:
        if tl.load(mask_ptr + b*n + t) == 0:
            tl.store(loss_ptr, 0.0)
            return
    logits_ptr += (b*n + t)*vocabulary
    high, total = -float('inf'), 0.0
    for first in range(0, vocabulary, BLOCK):
        i = first + tl.arange(0, BLOCK)
        v = tl.load(logits_ptr + i, mask=i < vocabulary, other=float('-inf')).to(tl.float32) / temperature
        new = tl.maximum(high, tl.max(v))
        total = total*tl.exp(high - new) + tl.sum(tl.exp(v - new))
        high = new
    logp = tl.load(logits_ptr + tl.load(ids_ptr + b*n + t)).to(tl.float32)/temperature - (high + tl.log(total))
    ratio = tl.exp(logp + 4)
    gain = tl.minimum(ratio*tl.load(adv_ptr + b), tl.clamp(ratio, 0.8, 1.2)*tl.load(adv_ptr + b))
    tl.store(loss_ptr, -gain)


logits, ids, adv = normal(2, 5, 50), torch.randint(0, 50, (2, 5), device=DEVICE), normal(2)
mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.int32, device=DEVICE)
logp = torch.log_softmax(logits/.9, -1).gather(2, ids[..., None])[..., 0]
ratio = (logp + 4).exp()
want = -torch.min(ratio*adv[:, None], ratio.clamp(.8, 1.2)*adv[:, None])
for given in mask, None:
    loss = torch.empty((2, 5), device=DEVICE)
    token_loss_kernel[(2, 5)](logits, ids, given, adv, loss, 5, 50, .9, BLOCK=16)
    agrees('losses of tokens', loss, want if given is None else want*mask)
