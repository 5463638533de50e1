"""What only a GPU can check of products with sparse matrices. By hand, from the repository's root:

    python tests/kernels/check_sparse_gpu.py            # all; half a minute
    compute-sanitizer --tool racecheck python tests/kernels/check_sparse_gpu.py small   # small sizes
"""
import copy

import torch
from checking import differs_elsewhere, run
from gridstride.kernels import densify, prune_24
from gridstride.kernels.quant.formats import snr_db
from gridstride.kernels.sparse import blocks, csr, formats, multiply_24, pack_24, two_four, unpack_24

LAST = {torch.float32: 2**-24, torch.float16: 2**-11, torch.bfloat16: 2**-8}    # half an ulp
F16_TYPES = torch.bfloat16, torch.float16
# rows of w, of x, k
SIZES = ((8, 1, 16), (1280, 4, 5120), (4096, 16, 4096), (264, 200, 144), (256, 192, 128), (1000, 777, 1040),
         (2056, 1500, 4112))


def differs(got, a, b, dtype, plus=0):
    """Nothing, or a sentence: a @ b + plus, summed in float32 and rounded once. Tensor cores cut terms at some 2^-24 of
    the largest of its group; 2^-18 of all is far above that, and below what a term too many or too few would do"""
    want, size = a.double() @ b.double() + plus, a.double().abs() @ b.double().abs()
    off = (got.double() - want).abs() - LAST[dtype]*want.abs() - 2**-18*size - 2**-25
    if got.dtype != dtype or not bool((off <= 0).all()): return f'{int((~(off <= 0)).sum())} of {off.numel()} are wrong'


def normal(*shape, dtype): return torch.randn(shape, device='cuda').to(dtype)


def a_24_product_is_right(sizes=SIZES, dtypes=F16_TYPES):
    for dtype in dtypes:
        for rows, n, k in sizes:
            w, x = formats.prune(normal(rows, k, dtype=dtype)), normal(n, k, dtype=dtype)
            p = pack_24(w)
            if not torch.equal(unpack_24(p), w): yield f'{rows} {k}: unpacked it is another matrix'
            bias = normal(rows, dtype=dtype)
            ways = dict(hopper=lambda: multiply_24(x, p, bias), warps=lambda: multiply_24(x, p, bias, use_mma_sp=True))
            ways |= {str(t): lambda t=t: two_four.run_24(x, p, bias, tile=t)
                     for t in (*two_four.TILES, *two_four.SPLIT_TILES[::3])}
            for name, way in ways.items():
                if why := differs(way(), x, w.T, dtype, bias.double()): yield f'{name} {dtype} {rows} {n} {k}: {why}'


def any_positions_are_right():
    "All six nibbles everywhere, and fours of zeros"
    for seed in range(3):
        torch.manual_seed(seed)
        w = formats.prune(normal(512, 1024, dtype=torch.bfloat16))
        w[torch.rand(512, 1024, device='cuda') < .4] = 0
        x, p = normal(256, 1024, dtype=torch.bfloat16), pack_24(w)
        for use_mma_sp in (False, True):
            if reason := differs(multiply_24(x, p, use_mma_sp=use_mma_sp), x, w.T, x.dtype):
                yield f'{seed} {use_mma_sp}: {reason}'


def blocks_are_right(sizes=SIZES[1:], dtypes=F16_TYPES):
    for dtype in dtypes:
        for block in blocks.BLOCK_SHAPES:
            for rows, n, k in sizes:
                w, x = blocks.prune_blocks(normal(rows, k, dtype=dtype), .7, block), normal(n, k, dtype=dtype)
                w[:block[0]] = 0                                    # a row without a block
                b = blocks.to_blocks(w, block)
                if not torch.equal(blocks.from_blocks(b), w): yield f'{block} {rows} {k}: they come back as others'
                if why := differs(blocks.multiply_blocks(x, b), x, w.T, dtype):
                    yield f'{block} {dtype} {rows} {n} {k}: {why}'


def unstructured_elements_are_right(columns=(1, 7, 64, 1000), dtypes=tuple(LAST)):
    for dtype in dtypes:
        for n in columns:
            w, x = csr.prune_single(normal(1000, 777, dtype=dtype), .9), normal(777, n, dtype=dtype)
            c = csr.to_csr(w)
            if not torch.equal(csr.from_csr(c), w): yield f'{dtype}: they come back as others'
            if why := differs(csr.multiply_csr(c, x), w, x, dtype): yield f'{dtype} {n}: {why}'


def a_module_is_right():
    "By the kernel and by torch, compiled, in a CUDA graph, on another stream"
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1000))
    m = m.cuda().bfloat16().requires_grad_(False)
    q = prune_24(copy.deepcopy(m))
    d = densify(copy.deepcopy(q))
    for batch in (1, 3, 200, 3000):
        x = normal(batch, 1024, dtype=torch.bfloat16)
        if not snr_db(d(x), q(x)) > 40: yield f'{batch}: {snr_db(d(x), q(x)):.1f} dB'
    if not torch.equal(torch.compile(q[0], fullgraph=True)(x), q[0](x)): yield 'compiled it gives something else'
    yield from differs_elsewhere(q, x)


def small():
    "Small sizes of each kind: for compute-sanitizer"
    bf16 = torch.bfloat16,
    yield from a_24_product_is_right(((264, 200, 144), (256, 192, 704)), bf16)
    yield from blocks_are_right(((264, 300, 720),), bf16)
    yield from unstructured_elements_are_right((1, 64), bf16)


CHECKS = [a_24_product_is_right, any_positions_are_right, blocks_are_right, unstructured_elements_are_right,
          a_module_is_right]

if __name__ == '__main__': run(CHECKS, globals())
