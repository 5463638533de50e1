"""What only a GPU can check of products with weights of few bits. By hand, from the repository's root:

    python tests/kernels/check_quant_gpu.py             # all; two minutes
    compute-sanitizer --tool racecheck python tests/kernels/check_quant_gpu.py small   # small sizes
"""
import copy

import torch
from checking import differs_elsewhere, run
from gridstride.kernels import dequantize, quantize
from gridstride.kernels.quant import formats, matvec, mixed, multiply_fp8, multiply_int8, pack, unpack

LAST = {torch.float16: 2**-11, torch.bfloat16: 2**-8}               # half an ulp
GROUPS = dict(int4=(128, 32, 'row'), int8=('row', 64), nf4=(64,), fp8=('row',))


def differs(got, want, bound):
    "Nothing, or a sentence"
    off = (got.double() - want).abs() - bound
    if not bool((off <= 0).all()): return f'{int((~(off <= 0)).sum())} of {off.numel()} are wrong'


def case(kind, group, dtype, batch, rows, columns, biased, zeros):
    w = torch.randn(rows, columns, device='cuda').mul(torch.logspace(-2, 1, rows, device='cuda').view(-1, 1)).to(dtype)
    x, bias = torch.randn(batch, columns, device='cuda').to(dtype), w[:, 0].contiguous() if biased else None
    if zeros: w += 2*w.float().std(1, keepdim=True).to(dtype)
    p = pack(w, kind, group, zeros)
    exact = unpack(p).double()
    want, size = x.double() @ exact.T + (bias.double() if biased else 0), x.double().abs() @ exact.abs().T
    each = LAST[dtype] if batch > 16 and group != 'row' else 2e-6   # scaled values are rounded
    return differs(matvec(x, p, bias), want, LAST[dtype]*want.abs() + each*size + 2**-24)


def a_packed_product_is_right(batches=(1, 2, 4, 8, 9, 16, 17, 32, 33, 64),
                              sizes=((1, 128), (33, 1024), (2117, 4224)),
                              dtypes=tuple(LAST), most=9):
    for dtype in dtypes:
        for kind, group in ((k, o) for k, groups in GROUPS.items() for o in groups[:most]):
            for i, batch in enumerate(batches):
                for size in sizes:
                    if why := case(kind, group, dtype, batch, *size, i % 2, kind.startswith('int') and i % 3 == 1):
                        yield f'{kind} {group} {dtype} {batch} {size}: {why}'


def mixed_case(kind, group, dtype, batch, rows, columns, tile, biased, zeros):
    "Nothing, or a sentence. The tensor cores multiply scaled values, which are rounded, unless a row has one scale"
    w, x = (torch.randn(n, columns, device='cuda').to(dtype) for n in (rows, batch))
    bias, p = w[:, 0].contiguous() if biased else None, pack(w, kind, group, zeros)
    exact = unpack(p).double()
    want, size = x.double() @ exact.T + (bias.double() if biased else 0), x.double().abs() @ exact.abs().T
    each = LAST[dtype] if group != 'row' else 2e-6
    return (differs(mixed.run_mixed(x, p, bias, tile), want, LAST[dtype]*want.abs() + each*size + 2**-24)
            or differs(mixed.run_unpack(p), exact, LAST[dtype]*2*exact.abs() + 2**-24))


def a_mixed_product_is_right(sizes=((33, 1024), (2117, 4224)), batches=(9, 64, 65, 130, 300), tiles=mixed.TILES[::5],
                             most=9):
    for dtype in LAST:
        for kind, group in ((k, o) for k, groups in GROUPS.items() for o in groups[:most]):
            for i, tile in enumerate(tiles):
                case = batches[i % len(batches)], *sizes[i % len(sizes)], tile, i % 2, kind[:3] == 'int' and i % 3 == 1
                if why := mixed_case(kind, group, dtype, *case): yield f'{kind} {group} {dtype} {case}: {why}'


def given(few, h, w, k):
    "8-bit values and their scales, and what they represent in float64"
    (m, a), (n, b) = few(torch.randn(h, k, device='cuda')), few(torch.randn(w, k, device='cuda'))
    return m, n, a, b, (m.double()*a, n.double()*b)


def cut_off(x, y):
    """How far a sum of e4m3 may be off. At each 32 of k the tensor cores cut products, and the sum so far, to 2^-13 of
    the largest among them, which is about |sum| or, in between, sqrt(k) products: k errors of random signs. Where such
    cuts are simulated, for random values, this is nine standard deviations or more at any size of the sum"""
    spread = (x.square() @ y.square()).sqrt()
    return 2**-12*(x.shape[1]/3)**.5*((x @ y).abs() + 2*spread)


def a_product_of_8_bits_is_right(sizes=((1, 8, 16), (3, 1000, 4112), (8, 40, 400), (300, 520, 400),
                                        (1000, 2056, 4112))):
    "Integers have a kernel for few rows, too"
    for few, product in ((formats.fp8, multiply_fp8), (lambda x: formats.symmetric(x, 8)[:2], multiply_int8)):
        for h, w, k in sizes:
            m, n, a, b, (x, y) = given(few, h, w, k)
            want = x @ y.T
            each = cut_off(x, y.T) if few is formats.fp8 else 1e-6*(x.abs() @ y.abs().T)
            if why := differs(product(m, n, a, b), want, 2**-8*want.abs() + each):
                yield f'{product.__name__} {h} {w} {k}: {why}'


def sums_of_e4m3_are_as_good_as_torchs(sizes=((1024, 2048, 400), (1024, 2048, 4096), (512, 512, 16384))):
    "Root mean squared error relative to that of `torch._scaled_mm`, with its fast sums, which cuts as often"
    for h, w, k in sizes:
        m, n, a, b, (x, y) = given(formats.fp8, h, w, k)
        theirs = torch._scaled_mm(m, n.T, scale_a=a, scale_b=b.T, out_dtype=torch.bfloat16, use_fast_accum=True)
        ours, theirs = ((o.double() - x @ y.T).square().mean().sqrt() for o in (multiply_fp8(m, n, a, b), theirs))
        print(f'   {h} {w} {k}: {ours/theirs:.4f} times the error of torch')
        if not ours <= 1.02*theirs: yield f'{h} {w} {k}: {ours/theirs:.3f} times the error of torch'


def a_module_is_right():
    "By the kernel and by torch, compiled, in a CUDA graph, on another stream"
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1000))
    m = m.cuda().bfloat16().requires_grad_(False)
    for kind in GROUPS:
        q = quantize(copy.deepcopy(m), kind)
        d = dequantize(copy.deepcopy(q))
        for batch in (1, 3, 64, 65):
            x = torch.randn(batch, 1024, device='cuda').bfloat16()
            if not formats.snr_db(d(x), q(x)) > 40: yield f'{kind} {batch}: {formats.snr_db(d(x), q(x)):.1f} dB'
    x = x[:3].contiguous()
    if not torch.equal(torch.compile(q[0], fullgraph=True)(x), q[0](x)):
        yield 'compiled it gives something else'
    yield from differs_elsewhere(q, x)


def small():
    "Small sizes of each kind: for compute-sanitizer"
    yield from a_packed_product_is_right((1, 9, 33), ((33, 1664),), (torch.bfloat16,), 1)
    yield from a_mixed_product_is_right(((33, 1664),), (70,), (mixed.MixedTile(64), mixed.MixedTile(96, 1, 2)), 1)
    yield from a_product_of_8_bits_is_right(((3, 40, 400), (300, 520, 400)))


CHECKS = [a_packed_product_is_right, a_mixed_product_is_right, a_product_of_8_bits_is_right,
          sums_of_e4m3_are_as_good_as_torchs, a_module_is_right]

if __name__ == '__main__': run(CHECKS, globals())
