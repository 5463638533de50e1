"""What only a GPU can check of products with epilogues, in batches and in groups. By hand, from the repository's root:

    python tests/kernels/check_products_gpu.py            # all; half a minute
    compute-sanitizer --tool racecheck python tests/kernels/check_products_gpu.py small   # small sizes
"""
import random
from functools import partial

import torch
import torch.nn.functional as F
from checking import differs_elsewhere, run
from gridstride.bench.clocks import capture
from gridstride.kernels import Activation, Epilogue, bmm, explain_with, grouped_mm, matmul, mlp
from gridstride.kernels.gemm import launches
from gridstride.kernels.gemm.calls import BATCH_TILES, TILES

HALF, NAN = torch.bfloat16, float('nan')
LAST = {torch.float32: 2**-24, torch.float16: 2**-11, torch.bfloat16: 2**-8}    # half an ulp
SIZES = (1, 8, 8, 8), (1, 264, 520, 72), (3, 136, 72, 1000), (1, 2056, 1032, 4112)


def normal(*shape, dtype=HALF): return torch.randn(shape, device='cuda').to(dtype)


def differs(got, want, size, dtype):
    """Nothing, or a sentence. Tensor cores cut terms at some 2^-24 of the largest of its group; 2^-18 of all is far
    above that and above what activations are wrong by, and below what a term too many or too few would do"""
    off = (got.double() - want).abs() - LAST[dtype]*want.abs() - 2**-18*size - 2**-25
    if got.dtype != dtype or not bool((off <= 0).all()): return f'{int((~(off <= 0)).sum())} of {off.numel()} are wrong'


def exact(a, b): return a.double() @ b.double(), a.double().abs() @ b.double().abs()


def each_tile_is_right(sizes=SIZES, layouts=('nn', 'tn', 'nt'), dtypes=(HALF, torch.float16)):
    for i, (count, h, w, k) in enumerate(sizes):
        for j, tile in enumerate(dict.fromkeys([*TILES, *BATCH_TILES])):
            dtype, layout = dtypes[j%len(dtypes)], layouts[(i + j)%len(layouts)]
            a, b = normal(count, h, k, dtype=dtype), normal(count, k, w, dtype=dtype)
            m, n = (x.mT.contiguous() if t == 't' else x for x, t in zip((a, b), layout))
            out = torch.full((count, h, w), NAN, dtype=dtype, device='cuda')
            for _ in range(2): launches.run_gemm(m, n, out, layout, tile=tile)
            if why := differs(out, *exact(a, b), dtype): yield f'{tile} {layout} {dtype} {count} {h} {w} {k}: {why}'


SQUARE = Activation('x * x', '2 * x')
REFERENCE = {None: lambda x: x, 'relu': F.relu, 'gelu': F.gelu, 'silu': F.silu, SQUARE: lambda x: x*x,
             'gelu_tanh': partial(F.gelu, approximate='tanh')}


def epilogues_are_right(shapes=((264, 520, 200), (2056, 4104, 1032))):
    "Results and gradients, compared with float64: some roundings to 16 bits"
    for h, w, k in shapes:
        for name, f in REFERENCE.items():
            inputs = [normal(*o).requires_grad_() for o in ((h, k), (w, k), (w,), (h, w))]
            a, weight, bias, plus = inputs
            e = Epilogue(bias, name, plus, .25)
            if 'one kernel' not in (said := explain_with(a, weight.t(), e)): yield said
            x, y, b, r = doubles = [o.detach().double().requires_grad_() for o in inputs]
            got, want, g = matmul(a, weight.t(), epilogue=e), f(.25*(x @ y.t()) + b) + r, normal(h, w)
            gots, expected = torch.autograd.grad(got, inputs, g), torch.autograd.grad(want, doubles, g.double())
            for i, (p, q) in enumerate(zip((got, *gots), (want, *expected))):
                far = float((p.detach().double() - q.detach()).norm()/q.detach().norm())
                if not far < 2**-7: yield f'{name} {h} {w} {k}, output or gradient {i}: {far:.1e}'


def accumulation_is_right():
    a, b, c = normal(520, 1000), normal(1000, 264), normal(520, 264, dtype=torch.float32)
    out = c.clone()
    for _ in range(3): matmul(a, b, out, Epilogue(accumulate=True))
    want, size = exact(a, b)
    if why := differs(out, c.double() + 3*want, 3*size + c.abs(), torch.float32): yield why


def groups_are_right(sizes=((0, 13, 0, 300, 5, 128), (1, 2000, 0, 64))):
    for rows in sizes:
        ends = torch.tensor(rows).cumsum(0).int().cuda()
        for layout in ('nn', 'nt'):
            a, b = normal(sum(rows), 264), normal(len(rows), 264, 520)
            b = b if layout == 'nn' else b.mT.contiguous().mT
            parts = [exact(x, y) for x, y in zip(a.split(rows), b)]
            want, size = (torch.cat([o[i] for o in parts]) for i in range(2))
            if why := differs(grouped_mm(a, b, ends), want, size, HALF): yield f'{rows} {layout}: {why}'


def batches_of_float32_are_right():
    for count, h, w, k in ((3, 300, 200, 1000), (5, 513, 129, 77), (40, 256, 256, 256)):
        a, b = normal(count, h, k, dtype=torch.float32), normal(count, k, w, dtype=torch.float32)
        if why := differs(bmm(a, b), *exact(a, b), torch.float32): yield f'{count} {h} {w} {k}: {why}'


class Chain:
    """x @ w0 @ w1 @ ... of batches, each by a kernel that may begin early, some followed by a kernel of torch: each
    product reads what the one before wrote, and writes what that one read"""
    def __init__(self, tiles, count, h, d, by_torch):
        rng = random.Random(count)
        self.tiles = rng.sample(tiles, len(tiles))
        self.followers = [rng.choice(['', '', 'relu', 'sleep', 'bmm', 'copy'] if by_torch else ['']) for _ in tiles]
        self.weights = [normal(count, d, d, dtype=torch.float32).mul(1.4*d**-.5).to(HALF) for _ in tiles]
        self.places = [normal(count, h, d) for _ in range(2)]

    def __call__(self, x0, out, early):
        "`early`: of one, all; of two, every other; of none, none"
        x, spare = self.places
        x.copy_(x0)
        for i, (tile, follower, w) in enumerate(zip(self.tiles, self.followers, self.weights)):
            launches.run_gemm(x, w, spare, tile=tile._replace(PDL=int(bool(early) and i%early == 0)))
            x, spare = spare, x
            if follower == 'relu': x.relu_()
            if follower == 'sleep': torch.cuda._sleep(3000)
            if follower == 'bmm': torch.bmm(x, w, out=spare)
            if follower == 'copy': spare.copy_(x)
            if follower in ('bmm', 'copy'): x, spare = spare, x
        out.copy_(x)


def those_that_begin_early_are_right(tiles=list(BATCH_TILES), rounds=12, inputs=8):
    "In streams and in graphs, launched so that they follow each other: each number is that of none early, to the bit"
    for *sizes, by_torch in ((1, 512, 768, False), (12, 264, 328, True), (40, 136, 72, True), (3, 1032, 520, False)):
        chain, xs = Chain(tiles*3, *sizes, by_torch), normal(inputs, *sizes)
        want, outs = torch.full_like(xs, NAN), torch.empty_like(xs)
        for x, o in zip(xs, want): chain(x, o, 0)
        if not want.isfinite().all() or len({float(o.float().sum()) for o in want}) < inputs:
            yield 'the chain says nothing'
        bad = torch.zeros((), dtype=torch.int64, device='cuda')
        for early in (1, 2):
            def each():
                for x, o in zip(xs, outs): chain(x, o, early)
            for f in (each, capture(each, 1)):
                for _ in range(rounds):
                    outs.fill_(NAN)
                    torch.cuda._sleep(3_000_000)                # launches wait for it, then follow each other
                    f()
                    bad += (outs.view(torch.int16) != want.view(torch.int16)).sum()
        n = 4*rounds*inputs*len(chain.tiles)
        print(f'  {sizes}: {n} launches, wrong numbers: {int(bad)}')
        if bad: yield f'{sizes}: {int(bad)} numbers of {n} launches are not those of kernels that wait'


def an_mlp_is_the_same_elsewhere():
    inputs = x, up, down, b1, b2 = normal(1000, 512), normal(2048, 512), normal(512, 2048), normal(2048), normal(512)
    if not torch.equal(mlp(*inputs, residual=True), mlp(*inputs, residual=True)): yield 'twice is not the same'
    yield from differs_elsewhere(lambda x: mlp(x, up, down, b1, b2, residual=True), x)


def small():
    "Small sizes of each kind: for compute-sanitizer"
    yield from each_tile_is_right(((2, 264, 264, 200),), dtypes=(HALF,))
    yield from epilogues_are_right(((264, 264, 136),))
    yield from groups_are_right(((0, 13, 0, 150),))


CHECKS = [each_tile_is_right, epilogues_are_right, accumulation_is_right, groups_are_right,
          batches_of_float32_are_right, those_that_begin_early_are_right, an_mlp_is_the_same_elsewhere]

if __name__ == '__main__': run(CHECKS, globals())
