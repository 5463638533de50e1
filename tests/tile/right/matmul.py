"Products of matrices: grouped order, autotuning, block pointers, descriptors, persistent, split, of few bits."
import torch
import triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tile_corpus import bf16, cdiv, f16, normal, right, unwritten, whole, zeros

PRODUCT = 'the products of float16 are exact in float32, 70 sums of 6e-8 of values up to 30; float16 results: 2**-11'


@triton.jit
def swizzled(pid, tiles_m, tiles_n, GROUP: tl.constexpr):
    "Row and column of the tile of a program: columns of GROUP tiles, one after the other"
    in_group = GROUP * tiles_n
    group = pid // in_group
    first = group * GROUP
    high = min(tiles_m - first, GROUP)
    return first + (pid % in_group) % high, (pid % in_group) // high


@triton.autotune(configs=[triton.Config({'BM': 32, 'BN': 32, 'BK': 16, 'GROUP': 2}, num_warps=4, num_stages=2),
                          triton.Config({'BM': 16, 'BN': 64, 'BK': 32, 'GROUP': 4}, num_warps=2, num_stages=3)],
                 key=['m', 'n', 'k'])
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr):
    pm, pn = swizzled(tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN), GROUP)
    om = (pm * BM + tl.arange(0, BM)) % m
    on = (pn * BN + tl.arange(0, BN)) % n
    ok = tl.arange(0, BK)
    a_ptrs = a_ptr + om[:, None] * sam + ok[None, :] * sak
    b_ptrs = b_ptr + ok[:, None] * sbk + on[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(k, BK)):
        a = tl.load(a_ptrs, mask=ok[None, :] < k - i * BK, other=0.0)
        b = tl.load(b_ptrs, mask=ok[:, None] < k - i * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    if ACTIVATION == 'relu':
        acc = tl.maximum(acc, 0.0)
    cm, cn = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    tl.store(c_ptr + cm[:, None] * scm + cn[None, :] * scn, acc.to(c_ptr.dtype.element_ty),
             mask=(cm[:, None] < m) & (cn[None, :] < n))

@right(rtol=1e-3, atol=1e-4, why=PRODUCT)
def matmul_grouped_autotuned(go):
    m, n, k = 75, 100, 70
    a, b, c = normal(m, k, dtype=f16), normal(n, k, dtype=f16).T, unwritten(m, n, dtype=f16)
    go(matmul_kernel, lambda meta: (triton.cdiv(m, meta['BM']) * triton.cdiv(n, meta['BN']),), a, b, c, m, n, k,
       *a.stride(), *b.stride(), *c.stride(), ACTIVATION='relu')
    return [(c, (a.double() @ b.double()).relu())]


@triton.heuristics({'EVEN_K': lambda args: args['k'] % args['BK'] == 0, 'num_warps': lambda args: 4})
@triton.jit
def even_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                EVEN_K: tl.constexpr):
    om, on = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, k, BK):
        ok = i + tl.arange(0, BK)
        if EVEN_K:
            a = tl.load(a_ptr + om[:, None] * k + ok, mask=om[:, None] < m, other=0.)
            b = tl.load(b_ptr + ok[:, None] * n + on, mask=on < n, other=0.)
        else:
            a = tl.load(a_ptr + om[:, None] * k + ok, mask=(om[:, None] < m) & (ok < k), other=0.)
            b = tl.load(b_ptr + ok[:, None] * n + on, mask=(ok[:, None] < k) & (on < n), other=0.)
        acc += tl.dot(a, b)
    tl.store(c_ptr + om[:, None] * n + on, acc, mask=(om[:, None] < m) & (on < n))

@right(rtol=1e-2, atol=1e-3, why='bfloat16 results: 2**-9; sums as of float16')
def matmul_with_heuristics(go):
    pairs = []
    for k in 64, 50:
        a, b, c = normal(40, k, dtype=bf16), normal(k, 36, dtype=bf16), unwritten(40, 36, dtype=bf16)
        go(even_kernel, (2, 2), a, b, c, 40, 36, k, BM=32, BN=32, BK=32)
        pairs.append((c, a.double() @ b.double()))
    return pairs


@triton.jit
def precise_kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr, PRECISION: tl.constexpr):
    r, c = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a, b = tl.load(a_ptr + r * N + c), tl.load(b_ptr + r * N + c)
    tl.store(c_ptr + r * N + c, tl.dot(a, b, input_precision=PRECISION))

@right(rtol=1e-5, atol=1e-5, why='32 sums of 6e-8 of values up to 20')
def matmul_ieee(go):
    a, b, c = normal(32, 32), normal(32, 32), unwritten(32, 32)
    go(precise_kernel, 1, a, b, c, N=32, PRECISION='ieee')
    return [(c, a.double() @ b.double())]

@right(rtol=2e-3, atol=1e-2, why='TF32 keeps 10 bits of each factor: 2**-10 of 32 products')
def matmul_tf32(go):
    a, b, c = normal(32, 32), normal(32, 32), unwritten(32, 32)
    go(precise_kernel, 1, a, b, c, N=32, PRECISION='tf32')
    return [(c, a.double() @ b.double())]


@triton.jit
def block_pointer_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    a = tl.make_block_ptr(a_ptr, shape=(m, k), strides=(k, 1), offsets=(pm * BM, 0), block_shape=(BM, BK), order=(1, 0))
    b = tl.make_block_ptr(b_ptr, shape=(k, n), strides=(n, 1), offsets=(0, pn * BN), block_shape=(BK, BN), order=(1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, k, BK):
        acc += tl.dot(tl.load(a, boundary_check=(0, 1), padding_option='zero'),
                      tl.load(b, boundary_check=(0, 1), padding_option='zero'))
        a = tl.advance(a, (0, BK))
        b = tl.advance(b, (BK, 0))
    c = tl.make_block_ptr(c_ptr, (m, n), (n, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    tl.store(c, acc.to(tl.float16), boundary_check=(0, 1))

@right(rtol=1e-3, atol=1e-4, why=PRODUCT)
def matmul_block_pointers(go):
    a, b, c = normal(40, 70, dtype=f16), normal(70, 50, dtype=f16), unwritten(40, 50, dtype=f16)
    go(block_pointer_kernel, (2, 2), a, b, c, 40, 50, 70, BM=32, BN=32, BK=32)
    return [(c, a.double() @ b.double())]


@triton.jit
def descriptor_kernel(a_desc, b_desc, c_desc, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, k, BK):
        acc = tl.dot(a_desc.load([m, i]), b_desc.load([n, i]).T, acc)
    c_desc.store([m, n], acc.to(tl.float16))

@right(rtol=1e-3, atol=1e-4, why=PRODUCT)
def matmul_host_descriptors(go):
    m, n, k = 72, 56, 80
    a, b, c = normal(m, k, dtype=f16), normal(n, k, dtype=f16), unwritten(m, n, dtype=f16)
    go(descriptor_kernel, (cdiv(m, 64), cdiv(n, 32)), TensorDescriptor.from_tensor(a, [64, 32]),
       TensorDescriptor.from_tensor(b, [32, 32]), TensorDescriptor.from_tensor(c, [64, 32]), k, BM=64, BN=32, BK=32)
    return [(c, a.double() @ b.double().T)]


@triton.jit
def own_descriptors_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                           PROGRAMS: tl.constexpr):
    "Persistent: each program takes every PROGRAMS-th tile"
    a = tl.make_tensor_descriptor(a_ptr, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, shape=[k, n], strides=[n, 1], block_shape=[BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    tiles_n = tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, BM) * tiles_n, PROGRAMS, flatten=True):
        row, col = tile // tiles_n * BM, tile % tiles_n * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for i in range(tl.cdiv(k, BK)):
            acc = tl.dot(a.load([row, i * BK]), b.load([i * BK, col]), acc)
        c.store([row, col], acc.to(tl.bfloat16))

def with_memory_for_descriptors():
    "Descriptors that a kernel makes lie in memory that the host gives"
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device='cuda'))

@right(rtol=1e-2, atol=1e-3, why='bfloat16 results: 2**-9')
def matmul_persistent_with_own_descriptors(go):
    with_memory_for_descriptors()
    m, n, k = 72, 48, 40
    a, b, c = normal(m, k, dtype=bf16), normal(k, n, dtype=bf16), unwritten(m, n, dtype=bf16)
    go(own_descriptors_kernel, 3, a, b, c, m, n, k, BM=64, BN=32, BK=32, PROGRAMS=3)
    return [(c, a.double() @ b.double())]


@triton.jit
def split_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 SPLIT: tl.constexpr):
    om, on = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(tl.program_id(2) * BK, k, BK * SPLIT):
        ok = i + tl.arange(0, BK)
        a = tl.load(a_ptr + om[:, None] * k + ok[None, :], mask=(om[:, None] < m) & (ok[None, :] < k), other=0.)
        b = tl.load(b_ptr + ok[:, None] * n + on[None, :], mask=(ok[:, None] < k) & (on[None, :] < n), other=0.)
        acc = tl.dot(a, b, acc)
    tl.atomic_add(c_ptr + om[:, None] * n + on[None, :], acc, mask=(om[:, None] < m) & (on[None, :] < n), sem='relaxed')

@right(rtol=1e-5, atol=2e-5, why='100 sums of 6e-8 of values up to 40, in any order')
def matmul_split_with_atomics(go):
    a, b, c = normal(20, 100, dtype=f16), normal(100, 40, dtype=f16), zeros(20, 40)
    go(split_kernel, (1, 2, 3), a, b, c, 20, 40, 100, BM=32, BN=32, BK=16, SPLIT=3)
    return [(c, a.double() @ b.double())]


@triton.jit
def batched_kernel(a_ptr, b_ptr, c_ptr, B: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, B)[:, None, None] * N * N + tl.arange(0, N)[None, :, None] * N + tl.arange(0, N)[None, None, :]
    tl.store(c_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i).trans(0, 2, 1)))

@right(rtol=1e-5, atol=1e-5, why='16 sums of 6e-8 of values up to 20')
def matmul_batched(go):
    a, b, c = normal(4, 16, 16, dtype=f16), normal(4, 16, 16, dtype=f16), unwritten(4, 16, 16)
    go(batched_kernel, 1, a, b, c, B=4, N=16)
    return [(c, a.double() @ b.double().mT)]


@triton.jit
def weights_of_4_bits_kernel(x_ptr, packed_ptr, scale_ptr, out_ptr, k, n, M: tl.constexpr, BN: tl.constexpr,
                             BK: tl.constexpr):
    "Two weights a byte, the low four bits first; a scale for each column and BK rows"
    r, on, half = tl.arange(0, M), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK // 2)
    acc = tl.zeros((M, BN), tl.float32)
    for i in range(0, k // BK):
        packed = tl.load(packed_ptr + (i * (BK // 2) + half)[None, :] + on[:, None] * (k // 2))
        low, high = (packed & 15).to(tl.int8) - 8, (packed >> 4).to(tl.int8) - 8
        w = tl.reshape(tl.join(low, high), (BN, BK)).to(tl.float16)
        x = tl.load(x_ptr + r[:, None] * k + i * BK + tl.arange(0, BK)[None, :])
        acc += tl.dot(x, w.T) * tl.load(scale_ptr + i * n + on)[None, :]
    tl.store(out_ptr + r[:, None] * n + on[None, :], acc)

@right(rtol=1e-5, atol=1e-4, why='64 sums of 6e-8 of values up to 100')
def matmul_of_4_bits(go):
    m, n, k, bk = 16, 64, 64, 32
    w, scale = whole(16, n, k), torch.rand(k//bk, n) + .5
    packed = (w[:, ::2] | w[:, 1::2] << 4).to(torch.uint8).contiguous()
    x, out = normal(m, k, dtype=f16), unwritten(m, n)
    go(weights_of_4_bits_kernel, 2, x, packed, scale, out, k, n, M=m, BN=32, BK=bk)
    full = (w.double() - 8) * scale.double().repeat_interleave(bk, 0).T
    return [(out, x.double() @ full.T)]


@triton.jit
def bytes_kernel(a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, N: tl.constexpr, K: tl.constexpr):
    r, c, k = tl.arange(0, N), tl.arange(0, N), tl.arange(0, K)
    a, b = tl.load(a_ptr + r[:, None] * K + k[None, :]), tl.load(b_ptr + c[None, :] * K + k[:, None])
    acc = tl.dot(a, b, out_dtype=tl.int32)
    scale = tl.load(sa_ptr + r)[:, None] * tl.load(sb_ptr + c)[None, :]
    tl.store(c_ptr + r[:, None] * N + c[None, :], acc.to(tl.float32) * scale)

@right(rtol=3e-7, why='the sums are integers; two products')
def matmul_int8(go):
    a, b = ((whole(255, 32, 64) - 127).to(torch.int8) for _ in range(2))
    sa, sb, c = torch.rand(32), torch.rand(32), unwritten(32, 32)
    go(bytes_kernel, 1, a, b, sa, sb, c, N=32, K=64)
    return [(c, (a.double() @ b.double().T) * sa.double()[:, None] * sb.double())]


@triton.jit
def fp8_kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr, K: tl.constexpr):
    r, c, k = tl.arange(0, N), tl.arange(0, N), tl.arange(0, K)
    a, b = tl.load(a_ptr + r[:, None] * K + k[None, :]), tl.load(b_ptr + c[None, :] * K + k[:, None])
    tl.store(c_ptr + r[:, None] * N + c[None, :], tl.dot(a, b))

@right(atol=2e-2, why="Hopper cuts each of 64 products at 2**-13 of the largest, near 16, and cuts partly cancel")
def matmul_fp8(go):
    a, b = (normal(64, 64).to(torch.float8_e4m3fn) for _ in range(2))
    c = unwritten(64, 64)
    go(fp8_kernel, 1, a, b, c, N=64, K=64)
    return [(c, a.double() @ b.double().T)]


@triton.jit
def order_kernel(row_ptr, col_ptr, tiles_m, tiles_n, GROUP: tl.constexpr):
    m, n = tl.program_id(0), tl.program_id(1)
    row, col = tl.swizzle2d(m, n, tiles_m, tiles_n, GROUP)
    tl.store(row_ptr + m * tiles_n + n, row)
    tl.store(col_ptr + m * tiles_n + n, col)

@right(why='integers')
def swizzled_order(go):
    row, col = unwritten(7, 5, dtype=torch.int32), unwritten(7, 5, dtype=torch.int32)
    go(order_kernel, (7, 5), row, col, 7, 5, GROUP=3)
    want = [(r, c) for first in (0, 3, 6) for c in range(5) for r in range(first, min(first + 3, 7))]
    return [(row.view(-1), torch.tensor([o[0] for o in want])), (col.view(-1), torch.tensor([o[1] for o in want]))]


@triton.jit
def loaded(source, at, width, N: tl.constexpr):
    if isinstance(source, tl.tensor_descriptor):
        return source.load([at])
    else:
        i = at + tl.arange(0, N)
        return tl.load(source + i, mask=i < width, other=0.)

@triton.jit
def either_kernel(source, out_ptr, width, N: tl.constexpr):
    at = tl.program_id(0) * N
    tl.store(out_ptr + at + tl.arange(0, N), loaded(source, at, width, N), mask=at + tl.arange(0, N) < width)

@right(why='nothing is rounded')
def a_descriptor_or_a_pointer(go):
    x, out, other = normal(100), unwritten(100), unwritten(100)
    go(either_kernel, 2, x, out, 100, N=64)
    go(either_kernel, 2, TensorDescriptor.from_tensor(x, [64]), other, 100, N=64)
    return [(out, x.double()), (other, x.double())]


@triton.jit
def outer_loop_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr):
    "Without tensor cores: a column times a row, summed"
    om, on = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(k):
        a = tl.load(a_ptr + om * k + i, mask=om < m, other=0.)
        b = tl.load(b_ptr + i * n + on, mask=on < n, other=0.)
        acc += a[:, None] * b[None, :]
    tl.store(c_ptr + om[:, None] * n + on[None, :], acc, mask=(om[:, None] < m) & (on[None, :] < n))

@right(rtol=1e-5, atol=1e-5, why='30 sums of 6e-8 of values up to 20')
def matmul_by_outer_products(go):
    a, b, c = normal(19, 30), normal(30, 9), unwritten(19, 9)
    go(outer_loop_kernel, (2, 2), a, b, c, 19, 9, 30, BM=16, BN=8)
    return [(c, a.double() @ b.double())]
