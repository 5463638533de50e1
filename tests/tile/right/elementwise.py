"One value at a time: arithmetic, masks, types, random numbers, helpers, control flow."
import numpy as np, torch
import triton, triton.language as tl
from triton.language.extra import libdevice

from tile_corpus import bf16, cdiv, f16, normal, philox, right, uniform, unwritten, whole


@triton.jit
def square_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * x, mask=i < n)

@right(rtol=6e-8, why='one product, rounded once: half a unit of 2**-23')
def square(go):
    pairs = []
    for n in 1, 127, 128, 129, 391:
        x, out = normal(n), unwritten(n)
        go(square_kernel, cdiv(n, 128), x, out, n, BLOCK=128)
        pairs.append((out, x.double()**2))
    return pairs


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, inside) + tl.load(y_ptr + i, inside), inside)

@right(rtol=6e-8, atol=6e-8, why='one sum, rounded once')
def vector_add(go):
    x, y, out = normal(1000), normal(1000), unwritten(1000)
    go(add_kernel, lambda meta: (triton.cdiv(1000, meta['BLOCK']),), x, y, out, 1000, BLOCK=256)
    return [(out, x.double() + y.double())]


@triton.jit
def clipped_kernel(x_ptr, out_ptr, low, high, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=float('-inf'))
    x = tl.where(x < low, low, tl.minimum(x, high))
    tl.store(out_ptr + i, tl.maximum(x, low), mask=i < n)

@right(rtol=6e-8, why='the bounds are rounded to float32')
def masks_and_where(go):
    x, out = normal(300), unwritten(300)
    go(clipped_kernel, 3, x, out, -.5, .7, 300, BLOCK=128)
    return [(out, x.double().clamp(-.5, .7))]


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1

@triton.jit
def gelu(x):
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + tanh(inner))

@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    tl.store(out_ptr + i, gelu(x), mask=i < n)

@right(rtol=1e-2, atol=1e-6, why='half a unit of bfloat16 is 2**-9 of the value; near -3 the value is a difference')
def helpers_in_helpers(go):
    x, out = normal(700, dtype=bf16), unwritten(700, dtype=bf16)
    go(gelu_kernel, 6, x, out, 700, BLOCK=128)
    return [(out, torch.nn.functional.gelu(x.double(), approximate='tanh'))]


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, stride, width: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    gate_ptr += row * stride
    up_ptr += row * stride
    out_ptr += row * stride
    c = tl.arange(0, BLOCK)
    gate = tl.load(gate_ptr + c, mask=c < width, other=0).to(tl.float32)
    up = tl.load(up_ptr + c, mask=c < width, other=0)
    tl.store(out_ptr + c, (gate * tl.sigmoid(gate)).to(up.dtype) * up, mask=c < width)

@right(rtol=2e-3, atol=1e-6, why='two roundings to float16, 2**-11 each')
def swiglu(go):
    gate, up, out = normal(5, 100, dtype=f16), normal(5, 100, dtype=f16), unwritten(5, 100, dtype=f16)
    go(swiglu_kernel, 5, gate, up, out, 100, width=100, BLOCK=128)
    return [(out, torch.nn.functional.silu(gate.double()) * up.double())]


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    keep = tl.rand(seed, i) > p
    tl.store(out_ptr + i, tl.where(keep, x / (1 - p), 0.0), mask=i < n)

@right(rtol=1e-6, why='1 - p, and a quotient')
def dropout_with_a_seed(go):
    x, out, other = normal(500), unwritten(500), unwritten(500)
    go(dropout_kernel, 2, x, out, 500, .4, 123, BLOCK=256)
    go(dropout_kernel, 4, x, other, 500, .4, 123, BLOCK=128)  # other blocks, the same numbers
    keep = torch.from_numpy(uniform(123, np.arange(500)) > np.float32(.4))
    want = torch.where(keep, x.double() / .6, 0.)
    return [(out, want), (other, want)]


@triton.jit
def stochastic_kernel(x_ptr, out_ptr, n, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(x_ptr + i, mask=i < n, other=0).to(tl.uint32, bitcast=True)
    noise = tl.randint(seed, i) & 0xffff
    rounded = (bits + noise) & 0xffff0000
    tl.store(out_ptr + i, rounded.to(tl.float32, bitcast=True).to(tl.bfloat16), mask=i < n)

@right(why='the bits are added and cut: nothing is rounded')
def stochastic_rounding(go):
    x, out = normal(400), unwritten(400, dtype=bf16)
    go(stochastic_kernel, 4, x, out, 400, 9, BLOCK=128)
    bits = (x.numpy().view(np.uint32) + (philox(9, np.arange(400)) & np.uint32(0xffff))) & np.uint32(0xffff0000)
    return [(out, torch.from_numpy(bits.view(np.float32)).double())]


@triton.jit
def arcsine_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, libdevice.asin(x), mask=i < n)

@right(rtol=4e-7, why='CUDA gives asinf to 2 units, and a unit is 1.2e-7')
def libdevice_asin(go):
    x, out = torch.rand(300)*2 - 1, unwritten(300)
    go(arcsine_kernel, 3, x, out, 300, BLOCK=128)
    return [(out, x.double().asin())]


@triton.jit
def many_functions_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, other=1.0)
    a = tl.abs(x) + 0.5
    tl.store(out_ptr + i, tl.exp(x), mask=inside)
    tl.store(out_ptr + n + i, tl.log2(a) + tl.exp2(x), mask=inside)
    tl.store(out_ptr + 2 * n + i, tl.sqrt(a) * tl.rsqrt(a) + tl.sin(x) * tl.cos(x), mask=inside)
    tl.store(out_ptr + 3 * n + i, tl.erf(x) + tl.floor(x) - tl.ceil(x), mask=inside)
    tl.store(out_ptr + 4 * n + i, tl.fma(x, a, x) + tl.clamp(x, -1.0, 1.0), mask=inside)

@right(rtol=2e-6, atol=2e-6, why='fast sine and cosine, and exponents, err by a few units')
def many_functions(go):
    x, out = normal(100), unwritten(5, 100)
    go(many_functions_kernel, 1, x, out, 100, BLOCK=128)
    x = x.double()
    a = x.abs() + .5
    return [(out, torch.stack([x.exp(), a.log2() + x.exp2(), 1 + x.sin()*x.cos(), x.erf() + x.floor() - x.ceil(),
                               x*a + x + x.clamp(-1, 1)]))]


@triton.jit
def whole_numbers_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    y = tl.load(y_ptr + i, mask=i < n, other=1)
    tl.store(out_ptr + i, x // y, mask=i < n)
    tl.store(out_ptr + n + i, x % y, mask=i < n)
    tl.store(out_ptr + 2 * n + i, (x << 3) ^ (y >> 1) | (x & 5), mask=i < n)
    tl.store(out_ptr + 3 * n + i, tl.umulhi(x * 40503, y * 2654435), mask=i < n)
    tl.store(out_ptr + 4 * n + i, -x * (x > y) + ~y, mask=i < n)

@right(why='integers; a quotient is cut towards zero, as in C')
def whole_numbers(go):
    x, y, out = whole(2000, 100) - 1000, whole(50, 100) + 1, unwritten(5, 100, dtype=torch.int32)
    go(whole_numbers_kernel, 1, x, y, out, 100, BLOCK=128)
    a, b = x.long(), y.long()
    u = (a*40503) & 0xffffffff, (b*2654435) & 0xffffffff
    high = torch.tensor([(int(p)*int(q)) >> 32 for p, q in zip(*u)])
    high = torch.where(high >= 1 << 31, high - (1 << 32), high)
    return [(out, torch.stack([torch.div(a, b, rounding_mode='trunc'), torch.fmod(a, b), (a << 3) ^ (b >> 1) | (a & 5),
                               high, torch.where(a > b, -a, 0) + ~b]))]


@triton.jit
def power_kernel(x_ptr, k_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "x to the k of its program, by squaring: a loop whose end is data"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.load(k_ptr + tl.program_id(0))
    base = tl.load(x_ptr + i, mask=i < n, other=1.0)
    res = tl.full((BLOCK,), 1.0, tl.float32)
    while k > 0:
        if k % 2 == 1:
            res *= base
        base *= base
        k //= 2
    tl.store(out_ptr + i, res, mask=i < n)

@right(rtol=2e-6, why='seven products at most, 6e-8 each')
def while_loop(go):
    x, k, out = normal(200), torch.tensor([0, 1, 5, 12], dtype=torch.int32), unwritten(200)
    go(power_kernel, 4, x, k, out, 200, BLOCK=64)
    return [(out, x.double() ** k.repeat_interleave(64)[:200])]


@triton.jit
def polynomial_kernel(x_ptr, out_ptr, n, coefficients, BLOCK: tl.constexpr, ODD: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.static_assert(BLOCK % 32 == 0, 'whole warps')
    if ODD:
        res = x * coefficients[N - 1]
    else:
        res = tl.zeros_like(x) + coefficients[N - 1]
    for k in tl.static_range(N - 2, -1, -1):
        res = res * x + coefficients[k]
    tl.store(out_ptr + i, res, mask=i < n)

@right(rtol=1e-5, atol=1e-5, why='four steps of 6e-8 on values up to a hundred')
def tuples_and_constexpr_branches(go):
    x, out, odd = normal(300), unwritten(300), unwritten(300)
    c = (.5, -1.25, 2.0, .75)
    go(polynomial_kernel, 3, x, out, 300, c, BLOCK=128, ODD=False, N=4)
    go(polynomial_kernel, 3, x, odd, 300, c, BLOCK=128, ODD=True, N=4)
    x = x.double()
    return [(out, c[0] + c[1]*x + c[2]*x**2 + c[3]*x**3), (odd, c[0] + c[1]*x + c[2]*x**2 + c[3]*x**4)]


@triton.jit
def two_results(x, y):
    return x + y, x - y

@triton.jit
def pairs_kernel(ptrs, n, scale: tl.constexpr, BLOCK: tl.constexpr):
    x_ptr, y_ptr, out_ptr = ptrs
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total, difference = two_results(tl.load(x_ptr + i, i < n), tl.load(y_ptr + i, i < n))
    if scale is not None:
        total *= scale
    tl.store(out_ptr + i, total * difference, mask=i < n)

@right(rtol=1e-6, atol=1e-6, why='four roundings')
def tuples_of_pointers(go):
    x, y, out, scaled = normal(200), normal(200), unwritten(200), unwritten(200)
    go(pairs_kernel, 2, (x, y, out), 200, scale=None, BLOCK=128)
    go(pairs_kernel, 2, (x, y, scaled), 200, scale=3, BLOCK=128)
    want = x.double()**2 - y.double()**2
    return [(out, want), (scaled, 3*want)]


@triton.jit
def printing_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.static_print('block', BLOCK)
    tl.device_print('x: ', x)
    tl.device_assert(x < 100, 'small')
    tl.store(out_ptr + i, -x)

@right(why='a sign')
def device_print(go):
    x, out = normal(4), unwritten(4)
    go(printing_kernel, 1, x, out, BLOCK=4)
    return [(out, -x.double())]


@triton.jit
def strided_kernel(x_ptr, out_ptr, rows, cols, stride_r, stride_c, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    c = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    inside = (r < rows) & (c < cols)
    x = tl.load(x_ptr + r * stride_r + c * stride_c, mask=inside, other=0.0)
    tl.store(out_ptr + r * cols + c, x + 1, mask=inside)

@right(rtol=6e-8, atol=6e-8, why='one sum')
def views_with_strides(go):
    whole_x = normal(60, 50)
    pairs = []
    for x in whole_x.T, whole_x[::2, 3:], whole_x[5:20, 1::3], whole_x[:1].expand(20, 50):
        out = unwritten(*x.shape)
        go(strided_kernel, (cdiv(x.shape[0], 16), cdiv(x.shape[1], 16)), x, out, *x.shape, *x.stride(), R=16, C=16)
        pairs.append((out, x.double() + 1))
    return pairs


@triton.jit
def cast_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n).to(out_ptr.dtype.element_ty), mask=i < n)

@right(why='both round to nearest, ties to even')
def casts(go):
    x, pairs = (normal(300) * 30).clamp(-100, 100), []
    for dtype in bf16, f16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int32, torch.int8, torch.float64:
        out = torch.zeros(300).to(dtype)
        go(cast_kernel, 3, x, out, 300, BLOCK=128)
        pairs.append((out, x.to(dtype)))
    half = normal(300, dtype=bf16)
    wide = unwritten(300)
    go(cast_kernel, 3, half, wide, 300, BLOCK=128)
    return [(got.double(), want.double()) for got, want in pairs] + [(wide, half.double())]
