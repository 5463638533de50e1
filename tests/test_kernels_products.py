"""`gridstride.kernels.gemm`: products with epilogues, in batches and in groups, on the emulator against float64."""
import re
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from gridstride.asm import CompilerMissing, resources
from gridstride.kernels import Activation, Epilogue, bmm, explain_with, grouped_mm, matmul, mlp
from gridstride.kernels.gemm import bf16x6
from gridstride.kernels import standalone, using
from gridstride.kernels.gemm import batches, launches, mlps, programs
from gridstride.kernels.gemm.calls import BATCH_TILES, TILES as KNOWN, GemmProblem, Tile, choose_tile, gemm_launch
from gridstride.kernels.gemm.launches import run_gemm
from gridstride.kernels.ladder.rung import H100
from one_unit import one_unit, right_and_wrong
from exhaustive import included_values, mark_exhaustive, some
from found import names, saying

TILES, HALF, NAN = list(KNOWN), torch.bfloat16, float('nan')
ROUNDED = {torch.float32: 2.**-24, torch.bfloat16: 2.**-8, torch.float16: 2.**-11}


class Marker:
    "What is given to `using`, so that kernels run where they are emulated"
    name = 'marker'


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    "All kernels are compiled in one unit"
    cases = [*(partial(test_layouts_tiles_and_batches, *o) for o in included_values(request, PRODUCTS)),
             *(partial(test_epilogues, o) for o in WAYS), test_times_another_and_its_sums,
             *(partial(test_groups_may_be_ragged_or_empty, o) for o in GROUP_TILES),
             *(partial(test_matmul_with_an_epilogue, o, 'kernel') for o in CHAINED),
             *(partial(o, 'kernel') for o in (test_accumulation, test_an_mlp, test_groups)),
             test_a_custom_activation_needs_no_gradient,
             partial(test_batches, 'kernel', HALF, SimpleNamespace(setattr=lambda *args: None))]
    with one_unit(request, cases):
        launches._prepared_launch.cache_clear()                               # of launches that were only noted
        yield


def normal(*shape, dtype=HALF, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def close(got, want, size, dtype, slopes=0):
    """Rounded once from a sum in float32: half an ulp, and for the sum 16 of 2^-24 of its terms'
    sizes; `gradients`: how much of these may be wrong besides (for 16 bits, activations are right to 2^-22)"""
    off = (got.double() - want).abs() - ROUNDED[dtype]*want.abs() - (16*2.**-24 + slopes)*size - 2.**-40
    assert got.dtype == dtype
    torch.testing.assert_close(off.clamp(min=0), torch.zeros_like(off), rtol=0, atol=0)


def exact(a, b): return a.double() @ b.double(), a.double().abs() @ b.double().abs()


def int32(*xs): return torch.tensor(xs, dtype=torch.int32)


def given(a, b, layout):
    "As memory has them"
    return a.mT.contiguous() if layout[0] == 't' else a, b.mT.contiguous() if layout[1] == 't' else b


# tile, layout, type, products, h, w, k: each kind of tile, each layout; partial tiles at the ends, a ring that wraps
PRODUCTS = [(TILES[0], 'nt', torch.float16, 1, 264, 280, 328), (TILES[1], 'tn', HALF, 2, 136, 536, 72),
            (TILES[2], 'nn', HALF, 1, 136, 136, 72), (TILES[4], 'nt', HALF, 3, 136, 72, 200),
            (TILES[6], 'tn', HALF, 5, 72, 136, 72), (list(BATCH_TILES)[4], 'nn', HALF, 3, 72, 264, 600),
            mark_exhaustive((list(BATCH_TILES)[2], 'tn', HALF, 2, 264, 136, 72))]
# widths that are not multiples of 64
PRODUCTS += [(Tile(64, 104, 4, 1, 1, 1, 2), 'tn', HALF, 1, 72, 216, 520),
             mark_exhaustive((Tile(128, 88, 3, 2, 2, 1, 1), 'nn', HALF, 1, 264, 184, 328)),
             (Tile(128, 80, 3, 2, 1, 2, 1, PDL=1), 'nt', torch.float16, 1, 136, 328, 72)]


@pytest.mark.slow
@pytest.mark.parametrize('tile,layout,dtype,count,h,w,k', PRODUCTS)
def test_layouts_tiles_and_batches(tile, layout, dtype, count, h, w, k):
    a, b = normal(count, h, k, dtype=dtype), normal(count, k, w, dtype=dtype)
    out = torch.full((count, h, w), NAN, dtype=dtype)
    close(run_gemm(*given(a, b, layout), out, layout, tile=tile), *exact(a, b), dtype)


SMALL = Tile(64, 64, 2, 1, 1, 1, 1)


SQUARE = Activation('x * x', '2 * x')
REFERENCE = {'relu': F.relu, 'gelu': F.gelu, 'gelu_tanh': partial(F.gelu, approximate='tanh'), 'silu': F.silu,
             SQUARE: lambda x: x*x, None: lambda x: x}
WAYS = ['gelu', 'gelu_tanh', 'silu', 'relu', SQUARE, 'residual', 'onto']
H, W, K = 72, 104, 136


@pytest.mark.slow
@pytest.mark.parametrize('way', WAYS, ids=str)
def test_epilogues(way):
    "A bias, a scale and an activation with what it was given, or a residual, or all added to float32; and its gradient"
    a, b, bias, other = normal(H, K), normal(K, W), normal(W), normal(H, W, seed=1)
    p, size = exact(a, b)
    out, saved = torch.full((H, W), NAN, dtype=HALF), torch.full((H, W), NAN, dtype=HALF)
    if way == 'residual':
        got, sums = run_gemm(a, b, out, bias=bias, addend=other, column_sums=True, tile=SMALL)
        close(got, p + bias.double() + other.double(), size + bias.abs() + other.abs(), HALF)
        close(sums.sum(0), other.double().sum(0), other.double().abs().sum(0), torch.float32)
    elif way == 'onto':
        c = normal(H, W, dtype=torch.float32)
        got = run_gemm(a, b, c.clone(), scale=-.5, accumulate=True, tile=SMALL)
        close(got, c.double() - .5*p, size + c.abs(), torch.float32)
    else:
        def run(out, **saves): return run_gemm(a, b, out, bias=bias, scale=.5, activation=way, tile=SMALL, **saves)
        act_grad = torch.full_like(out, NAN)
        run(out, activation_input=saved)
        again = run(torch.full_like(out, NAN), act_grad=act_grad)
        z, size = .5*p + bias.double(), .5*size + bias.double().abs()
        close(saved, z, size, HALF)
        # a gradient is 2 z at most for the square and 1.13 for the others
        close(out, REFERENCE[way](z), size*(2*z.abs() + 1.13), HALF, 2.**-20)
        x = z.clone().requires_grad_()
        grad, = torch.autograd.grad(REFERENCE[way](x).sum(), x)
        torch.testing.assert_close(again, out, rtol=0, atol=0)
        # a gradient is 2 at most steep, but where it jumps
        close(act_grad, torch.where(z.abs() < 1e-4, act_grad.double(), grad), 2*size, HALF, 2.**-20)


@pytest.mark.slow
def test_times_another_and_its_sums():
    a, b, other = normal(H, K), normal(K, W), normal(H, W, seed=1)
    p, size = exact(a, b)
    got, sums = run_gemm(a, b, torch.full((H, W), NAN, dtype=HALF), multiplier=other, column_sums=True, tile=SMALL)
    close(got, p*other.double(), size*other.abs(), HALF)
    close(sums.sum(0), (p*other.double()).sum(0), (size*other.abs()).sum(0), torch.float32)


GROUP_TILES = [TILES[1], SMALL]


@pytest.mark.slow
@pytest.mark.parametrize('tile', GROUP_TILES)
def test_groups_may_be_ragged_or_empty(tile):
    ends = [0, 13, 13, 150, 290]
    a, b, starts = normal(290, 136), normal(5, 136, 88), [0, *ends[:-1]]
    out = torch.full((290, 88), NAN, dtype=HALF)
    run_gemm(a, b, out, group_ends=int32(*ends), tile=tile)
    parts = [exact(a[s:e], b[i]) for i, (s, e) in enumerate(zip(starts, ends))]
    close(out, *(torch.cat([o[i] for o in parts]) for i in range(2)), HALF)


# The tools, by torch and by kernels

def leaf(*shape, dtype=HALF, seed=0): return normal(*shape, dtype=dtype, seed=seed).requires_grad_()


def agree(got, want, inputs, doubles, most=2.**-7):
    "The result and its gradients: a few roundings to 16 bits, each 2^-9 at most of what it rounds, and their mean less"
    g = normal(*want.shape, seed=9).to(got.dtype)
    pairs = [(got, want), *zip(torch.autograd.grad(got, inputs, g), torch.autograd.grad(want, doubles, g.double()))]
    for x, y in pairs:
        assert x.shape == y.shape
        torch.testing.assert_close((x.double() - y).norm()/y.norm(), torch.tensor(0.).double(), rtol=0, atol=most)


def doubled(*xs): return [x.detach().double().requires_grad_() for x in xs]


CHAINED = ['gelu', SQUARE, None]


@pytest.mark.slow
@pytest.mark.parametrize('where', ['torch', 'kernel'])
@pytest.mark.parametrize('activation', CHAINED, ids=['gelu', 'square', 'none'])
def test_matmul_with_an_epilogue(activation, where):
    inputs = a, w, bias, plus = leaf(3, 20, 64), leaf(48, 64), leaf(48), leaf(3, 20, 48)
    e = Epilogue(bias, activation, plus, .5)
    with using(Marker()) if where == 'kernel' else nullcontext():
        said, got = explain_with(a, w.t(), e), matmul(a, w.t(), epilogue=e)
        x, y, b, r = doubles = doubled(*inputs)
        agree(got, REFERENCE[activation](.5*(x @ y.t()) + b) + r, inputs, doubles)
    assert names(said, *(['one kernel', 'epilogue'] if where == 'kernel' else ['torch.matmul', 'epilogue', 'GPU']))


@pytest.mark.slow
@pytest.mark.parametrize('where', ['torch', 'kernel'])
def test_accumulation(where):
    a, b, c = normal(24, 64), normal(64, 40), normal(24, 40, dtype=torch.float32)
    out = c.clone()
    with using(Marker()) if where == 'kernel' else nullcontext():
        assert matmul(a, b, out, Epilogue(accumulate=True)) is out
    # torch rounds the product to 16 bits first
    close(out, c + exact(a, b)[0], exact(a, b)[1] + c.abs(), torch.float32, 0 if where == 'kernel' else 2.**-8)


@pytest.mark.slow
@pytest.mark.parametrize('where', ['torch', 'kernel'])
def test_an_mlp(where):
    inputs = x, up, down, b1, b2 = leaf(2, 30, 64), leaf(104, 64), leaf(64, 104), leaf(104), leaf(64)
    X, U, D, B1, B2 = doubles = doubled(*inputs)
    with using(Marker()) if where == 'kernel' else nullcontext():
        assert (mlps.unfused_reason(x, up, down, b1, b2) is None) == (where == 'kernel')
        agree(mlp(x, up, down, b1, b2, residual=True), X + F.linear(F.gelu(F.linear(X, U, B1)), D, B2), inputs, doubles,
              2.**-6)


@pytest.mark.slow
@pytest.mark.parametrize('dtype', [HALF, torch.float32])
@pytest.mark.parametrize('where', ['torch', 'kernel'])
def test_batches(where, dtype, monkeypatch):
    a, b = leaf(3, 40, 64, dtype=dtype), leaf(3, 64, 72, dtype=dtype)
    monkeypatch.setattr(bf16x6, 'LIBRARY_RATE', 1)                         # as if torch took long
    x, y = doubles = doubled(a, b)
    with using(Marker()) if where == 'kernel' else nullcontext():
        assert isinstance(batches._kernel_operands(a, b), str) == (where == 'torch')
        agree(bmm(a, b), x @ y, (a, b), doubles, 2.**-7 if dtype == HALF else 2.**-20)


@pytest.mark.slow
@pytest.mark.parametrize('where', ['torch', 'kernel'])
def test_groups(where):
    ends, b = [10, 10, 50, 64], leaf(4, 40, 72)
    a, starts = leaf(64, 40), [0, 10, 10, 50]
    x, y = doubles = doubled(a, b)
    want = torch.cat([x[s:e] @ y[i] for i, (s, e) in enumerate(zip(starts, ends))])
    with using(Marker()) if where == 'kernel' else nullcontext():
        agree(grouped_mm(a, b, int32(*ends)), want, (a, b), doubles)


@pytest.mark.slow
def test_a_custom_activation_needs_no_gradient():
    a, b = normal(24, 64), normal(64, 40)
    with using(Marker()): got = matmul(a, b, epilogue=Epilogue(activation=Activation('x*x')))
    p, size = exact(a, b)
    close(got, p*p, 2*p.abs()*size, HALF, 2.**-20)


@pytest.mark.slow
@pytest.mark.parametrize('where', ['torch', 'kernel'])
def test_sizes_may_be_0(where):
    "Of the result, then of what is summed, where bias and residual are left"
    def half(*shape): return leaf(*shape).detach()
    bias, x = half(8), half(2, 3, 8)
    with using(Marker()) if where == 'kernel' else nullcontext():
        shapes = [o.shape for o in (bmm(half(0, 8, 16), half(0, 16, 8)), mlp(half(2, 0, 8), half(16, 8), half(8, 16)),
                                    grouped_mm(half(0, 16), half(0, 16, 8), int32()),
                                    grouped_mm(half(0, 16), half(2, 16, 8), int32(0, 0)))]
        assert shapes == [(0, 8, 8), (2, 0, 8), (0, 8), (0, 8)]
        for got, want in ((bmm(half(2, 8, 0), half(2, 0, 8)), torch.zeros(2, 8, 8)),
                          (mlp(x, half(0, 8), half(8, 0)), torch.zeros(2, 3, 8)),
                          (matmul(half(2, 3, 0), half(0, 8), epilogue=Epilogue(bias)), bias.expand(2, 3, 8)),
                          (mlp(half(2, 3, 0), half(16, 0), half(8, 16), None, bias), bias.expand(2, 3, 8))):
            torch.testing.assert_close(got, want.to(HALF), rtol=0, atol=0)


def test_a_plan_for_batches_copies_nothing():
    "This one would be of 2^44 bytes"
    a = torch.empty(2**21, dtype=HALF).as_strided((2**20, 2**20, 8), (1, 0, 1))
    with using(Marker()): assert 'no kernel' in batches._kernel_operands(a, normal(8, 8).expand(2**20, 8, 8))


@pytest.mark.slow
def test_torch_compile_leaves_out_an_activation_in_cuda():
    x, w = leaf(8, 16), normal(16, 24)
    def f(x): return matmul(x, w, epilogue=Epilogue(activation=SQUARE)).float().sum()
    want, = torch.autograd.grad(f(x), x)
    got, = torch.autograd.grad(torch.compile(f, backend='eager')(x), x)
    assert torch.equal(got, want)


@pytest.mark.parametrize('call', ['bmm(a[None], b[None])', 'grouped_mm(a, b[None], int32(8))', 'matmul(a, b)'])
def test_torch_compile_has_nothing_to_warn_of(call, recwarn):
    "As it does of functions with a cache that it comes by"
    torch._dynamo.reset()
    f = eval(f'lambda a, b: {call}', globals())
    a, b = normal(8, 8, dtype=torch.float32), normal(8, 8, dtype=torch.float32, seed=1)
    torch.testing.assert_close(torch.compile(f, backend='eager')(a, b).view(8, 8), a @ b)
    assert [str(o.message) for o in recwarn if 'cache' in str(o.message)] == []


def test_torch_compile_traces_what_torch_does():
    x, up, down, bias = normal(8, 16), normal(24, 16), normal(16, 24), normal(24)
    def f(x): return mlp(x, up, down, bias, residual=True), matmul(x, up.t(), epilogue=Epilogue(bias, 'silu', scale=2.))
    for got, want in zip(torch.compile(f, fullgraph=True, backend='eager')(x), f(x)): assert torch.equal(got, want)


@pytest.mark.parametrize('call,words', [
    (lambda a, b: matmul(a, b, epilogue='gelu'), saying('epilogue', 'Epilogue', 'str')),
    (lambda a, b: matmul(a, b, epilogue=Epilogue(activation='tanh')), saying('relu, gelu, gelu_tanh', "'tanh'")),
    (lambda a, b: matmul(a, b, epilogue=Epilogue(bias=a[0])), saying('bias', 'bfloat16(24,)', 'cpu', 'bfloat16(16,)')),
    (lambda a, b: matmul(a, b, epilogue=Epilogue(accumulate=True)), saying('accumulate', '`out`')),
    (lambda a, b: matmul(a, a, epilogue=Epilogue()), saying('(..., K) @ (K, N)', '(8, 16) @ (8, 16)')),
    (lambda a, b: matmul(a.clone().requires_grad_(), b, torch.empty(8, 24), Epilogue()), '`out` .*gradient'),
    (lambda a, b: matmul(a.clone().requires_grad_(), b, epilogue=Epilogue(activation=Activation('x'))), 'no gradient'),
    (lambda a, b: matmul(a, b, epilogue=Epilogue('gelu')), saying('bias', 'bfloat16(24,)', 'cpu', 'str')),
    (lambda a, b: matmul(a, b, epilogue=Epilogue(scale=a.sum())), saying('scale', 'number', 'Tensor')),
    (lambda a, b: matmul(a, b, epilogue=Epilogue(activation=['gelu'])), r"relu.*\['gelu'\]"),
    (lambda a, b: matmul(a, b, epilogue=Epilogue(activation=Activation(' '))), saying('CUDA C', '`float x`', "' '")),
    (lambda a, b: matmul(a, b, torch.empty(8, 24, dtype=torch.int32), Epilogue()),
     saying('out', 'bfloat16', 'float32', 'int32')),
    (lambda a, b: mlp(a[0], a, a.t()), saying('mlp: x', 1, '(..., width)')),
    (lambda a, b: mlp(a, None, a.t()), 'mlp: up is a NoneType; '),
    (lambda a, b: mlp(a, a, a.t(), residual=a), saying('residual', 'True', 'Tensor')),
    (lambda a, b: mlp(a, b, b), saying('mlp: up', 'bfloat16(16, 16)', 'cpu', 'bfloat16(16, 24)')),
    (lambda a, b: mlp(a, a, a.t(), activation=None), 'matmul'),
    (lambda a, b: mlp(a, a, b.t()[:, :8], residual=True), '16 .*24'),
    (lambda a, b: grouped_mm(a, b, torch.tensor([8])), r'\(rows, K\).*\(groups, K, N\)'),
    (lambda a, b: grouped_mm(a, b[None], torch.tensor([8])), r'ends .*int32\(1,\).*int64\(1,\)'),
    (lambda a, b: grouped_mm(a, b[None], [8]), 'ends .*list'),
    (lambda a, b: grouped_mm(a, b.expand(2, 16, 24), int32(8, 7, 6, 5)[::2]), r'int32\(2,\) .*contiguous'),
    (lambda a, b: grouped_mm(a, b.expand(2, 16, 24), int32(3, 7)), r'ends .*8; got \[3, 7\]'),
    (lambda a, b: grouped_mm(a, b.expand(3, 16, 24), int32(5, 3, 8)), r'ends .*\[5, 3, 8\]')])
def test_errors_in_words(call, words):
    with pytest.raises((TypeError, ValueError), match=words): call(normal(8, 16), normal(16, 24))


@pytest.mark.parametrize('make,why', [
    (lambda: (normal(8, 16, dtype=torch.float32), normal(16, 8, dtype=torch.float32)), 'not float32'),
    (lambda: (normal(8, 16), normal(16, 12)), saying('16 bytes', '8 bfloat16', '12')),
    (lambda: (normal(16, 8).t(), normal(8, 16).t()), 'no kernel'),
    (lambda: (normal(9, 16).flatten()[4:132].view(8, 16), normal(16, 8)), 'multiple of 16')])
def test_unsupported_operands_are_refused(make, why):
    with using(Marker()): assert re.search(why, explain_with(*make(), Epilogue()))


def test_tiles_are_chosen_by_size():
    def of(*sizes, **more): return choose_tile(GemmProblem(HALF, HALF, 'nn', *sizes, **more))
    assert of(1, 8192, 8192, 8192).BM*of(1, 8192, 8192, 8192).BN == 2**15
    assert of(256, 128, 128, 128).BM <= 128 and of(64, 64, 64, 512).BM == of(64, 64, 64, 512).BN == 64
    assert of(2, 512, 512, 512).PDL and not of(1, 512, 512, 512).PDL
    assert of(16, 512, 512, 512)[:6] == (256, 128, 4, 2, 1, 1), 'a short k is over before a cluster pays'
    assert of(16, 1024, 1024, 1024)[:6] == (128, 256, 4, 2, 2, 1)
    assert not of(8, 512, 512, 512, is_grouped=True).PDL


# Exported programs

def test_what_an_mlp_launches_is_exported(monkeypatch):
    "As on an H100, at the sizes that are timed; nothing is run"
    seen = []
    monkeypatch.setattr(launches, 'launch_prepared', lambda prepare, how, x, arrays: seen.append(how[0]))
    monkeypatch.setattr(launches, 'current_device_properties', lambda: H100)
    x, up, down = (torch.empty(*o, dtype=HALF, device='meta') for o in ((8192, 4096), (14336, 4096), (4096, 14336)))
    inputs = [o.requires_grad_() for o in (x, up, down, up[:, 0].detach(), down[:, 0].detach())]
    mlps._Mlp.apply(*inputs, 'gelu', True).sum().backward()
    texts = '\n'.join(map(standalone.program_source, programs.programs()))
    assert len(seen) == 6 and all(gemm_launch(o, 1., H100)[0].src in texts for o in seen)


@pytest.mark.slow
@pytest.mark.parametrize('name,sizes,right,wrong', some([
    ('grouped_mm', (5, 290, 88, 136), 'if (index < tile_rows*tile_cols) t.z = z;',
     'if (index < tile_rows*tile_cols && WRONG) t.z = z/2;'),
    ('gemm_multiplied', (1, 136, 136, 72), 'if (MULTIPLIED) y = {y.x*other.x, y.y*other.y};',
     'if (MULTIPLIED && WRONG) y.x *= other.x;')], 2, first=1))
def test_an_exported_program_finds_itself_right(name, sizes, right, wrong, capfd, monkeypatch):
    "And one with a mistake wrong"
    p = dict(programs._gemm_programs())[name]
    count, h, w, k = sizes
    case = p.problems[0]._replace(count=count, M=h, N=w, K=k)
    program = programs._program(name, p._replace(problems=(case,), tile=SMALL._replace(STAGES=3)))
    text = standalone.program_source(program)
    text = text.replace('gpu.multiProcessorCount >= SMS', 'true').replace('RUNS = 20', 'RUNS = 1')
    assert right_and_wrong(text, right, f'{wrong} else {right}', 'products', monkeypatch) == [0, 1]
    assert re.findall(rf'^(\w+) {name}', capfd.readouterr().out, re.M) == ['PASS', 'FAIL']


# What the compiler makes of it

MOST = [dict(has_bias=True, activation='gelu', save='grad'), dict(has_multiplier=True, sum_columns=True),
        dict(has_bias=True, has_addend=True), dict(out_dtype='float32', accumulate=True)]


@pytest.mark.slow
@pytest.mark.parametrize('tile,more', [(TILES[0], MOST[0]), mark_exhaustive((TILES[0], MOST[1])),
                                       (TILES[5], MOST[2]), mark_exhaustive((TILES[6], MOST[3])),
                                       *some([(o, dict(layout='nn', count=4)) for o in BATCH_TILES], 7, 3)],
                         ids=str)
def test_the_compiler_spills_nothing(tile, more):
    usual = dict(dtype='bfloat16', out_dtype='bfloat16', layout='nt', count=1, M=8192, N=8192, K=4096)
    case = GemmProblem(**usual | more)
    call, boxes = gemm_launch(case, 1., H100, tile)
    assert all(max(box) <= 256 for box, _ in boxes)
    try: took = resources(call.src, block=call.block[0], shared_bytes=call.shared, arch='sm_90a')
    except CompilerMissing as e: pytest.skip(str(e))
    assert (took.spill_stores, took.spill_loads) == (0, 0) and took.occupancy.blocks >= tile.BLOCKS, took
