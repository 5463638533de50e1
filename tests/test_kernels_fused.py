"""`gridstride.kernels.gelu`, `bias_gelu`, `rms_norm`, `layer_norm` on the emulator, forward and backward, against torch
in float64: awkward sizes, every type, long rows, what is made for older GPUs, dropout, and what is refused."""
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from gridstride.kernels import bias_gelu, gelu, layer_norm, rms_norm
from gridstride.kernels.fused import calls, source
from gridstride.kernels.ladder.rung import H100, Device
from one_unit import one_unit
from found import saying

# What rounding to the type does to values of about 4; sums in it are of float32, where the last of some hundred
# additions count. float64's are those of its exp and erf.
NEAR = {torch.float64: dict(rtol=1e-12, atol=1e-12), torch.float32: dict(rtol=2e-6, atol=2e-5),
        torch.bfloat16: dict(rtol=2**-7, atol=2**-8), torch.float16: dict(rtol=2**-10, atol=2**-10)}
SHAPES = [(1,), (3, 33), (9, 256), (2, 2, 24), (0,), (3, 0), (0, 3)]
SEEDS = [0, 2**40 + 5, -1]
DROPPED = [((3, 70), torch.float32), ((5, 33), torch.float32), ((4, 40), torch.bfloat16)]


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    "Nearly all kernels are compiled in one unit; those with tuned constants are compiled alone"
    inputs = [*(elements(o)[0] for o in SHAPES), *(elements((5, 24), dtype=o)[0] for o in NEAR), SLICE, STRIDED]
    cases = [*(o for x in inputs for o in every_tool(x)), *(o for dtype in NEAR for o in by_tanh(dtype)),
             *less_than_all(), *with_residuals()]
    with one_unit(request, [*(partial(same, *o) for o in cases),
                            *(partial(test_dropout_is_determined_by_the_seed, *o, 0) for o in DROPPED),
                            test_a_ring_whose_bytes_need_not_be_asked_for, all_is_dropped]):
        yield


def of_torch(name, approximate='none'):
    "The function by torch, as a function of x and what else it takes"
    return dict(gelu=lambda x: F.gelu(x, approximate=approximate),
                bias_gelu=lambda x, b: F.gelu(x + b, approximate=approximate),
                rms_norm=lambda x, w=None: F.rms_norm(x, x.shape[-1:], w, 1e-6),
                layer_norm=lambda x, w=None, b=None: F.layer_norm(x, x.shape[-1:], w, b, 1e-5))[name]


def elements(*shapes, dtype=torch.float32, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [(2*torch.randn(s, generator=g, dtype=torch.float64)).to(dtype) for s in shapes]


def both_ways(f, inputs, dys, dtype):
    "Results, and the gradients of all inputs"
    inputs = [o.detach().to(dtype).requires_grad_() for o in inputs]
    out = f(*inputs)
    out = out if isinstance(out, tuple) else (out,)
    return [*out, *torch.autograd.grad(out, inputs, [o.to(dtype) for o in dys])]


def same(f, want, inputs, dys=None, dtype=None):
    "Both ways, against `want` in float64"
    dtype = dtype or inputs[0].dtype
    dys = dys or elements(inputs[0].shape, dtype=inputs[0].dtype, seed=1)
    got, want = both_ways(f, inputs, dys, dtype), both_ways(want, inputs, dys, torch.float64)
    for g, o in zip(got, want, strict=True):
        assert g.dtype == dtype
        torch.testing.assert_close(g, o.to(dtype), **NEAR[dtype])


SLICE = elements((97,))[0][1:].view(3, 32)  # its rows could be loaded by fours if they began elsewhere


def every_tool(x):
    "The arguments of `same` for each tool"
    b, w = elements(x.shape[-1:], x.shape[-1:], dtype=x.dtype, seed=2)
    yield gelu, of_torch('gelu'), [x]
    yield bias_gelu, of_torch('bias_gelu'), [x, b]
    if x.shape[-1]:                                         # torch has no norm of nothing
        yield rms_norm, of_torch('rms_norm'), [x, w]
        yield layer_norm, of_torch('layer_norm'), [x, w, b]


STRIDED = elements((32, 6))[0].t()[::2]                     # of the shape of SLICE


def all_are_right(cases):
    for o in cases: same(*o)


@pytest.mark.slow
@pytest.mark.parametrize('shape', SHAPES, ids=str)
def test_awkward_sizes(shape): all_are_right(every_tool(*elements(shape)))


@pytest.mark.slow
@pytest.mark.parametrize('dtype', NEAR, ids=str)
def test_every_type(dtype): all_are_right(every_tool(*elements((5, 24), dtype=dtype)))


@pytest.mark.slow
def test_a_slice_that_begins_between(): all_are_right(every_tool(SLICE))


def test_other_strides_are_copied_first(): all_are_right(every_tool(STRIDED))


def by_tanh(dtype):
    x, b = elements((5, 24), (24,), dtype=dtype)
    yield lambda x: gelu(x, 'tanh'), of_torch('gelu', 'tanh'), [x]
    if dtype in (torch.float32, torch.bfloat16):            # which is the same function of both ways to round
        yield lambda x, b: bias_gelu(x, b, 'tanh'), of_torch('bias_gelu', 'tanh'), [x, b]


@pytest.mark.slow
@pytest.mark.parametrize('dtype', NEAR, ids=str)
def test_gelu_by_tanh(dtype): all_are_right(by_tanh(dtype))


def test_far_from_0():
    "Where the tails end: nothing is less than nothing, and infinity and NaN stay"
    x = torch.tensor([0., -0., -3, -5.5, -13, -40, 40, 1e30, -1e30, float('nan')], dtype=torch.float64)
    for dtype in (torch.float32, torch.bfloat16):           # in float32, 1 + erf has no digits beyond 1e-7
        torch.testing.assert_close(gelu(x.to(dtype)), F.gelu(x).to(dtype), equal_nan=True,
                                   rtol=NEAR[dtype]['rtol'], atol=1e-6)
        assert gelu(torch.tensor([float('inf')], dtype=dtype)).isposinf().all()


@pytest.mark.slow
def test_gradients_in_float64():
    "Not of torch's formulas, but of what the functions themselves return with x"
    x, w, b = (o.requires_grad_() for o in elements((2, 24), (24,), (24,), dtype=torch.float64))
    check = torch.autograd.gradcheck
    assert check(gelu, (x,)) and check(lambda x: gelu(x, 'tanh'), (x,)) and check(bias_gelu, (x, b))
    assert check(rms_norm, (x, w)) and check(layer_norm, (x, w, b))


def with_residual(norm):
    "`norm` in float64 of x + residual as it is rounded to float32, whose gradient is that of the sum"
    def f(x, r, *more):
        h = x + r
        h = h + (h.float().double() - h).detach()
        return norm(h, *more), h
    return f


@pytest.mark.slow
def test_a_ring_whose_bytes_need_not_be_asked_for():
    "48 KiB of it, and the sums of the block's groups: together they are more than a block has by default"
    x, w = elements((40, 128), (128,), dtype=torch.bfloat16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, '_is_direct', lambda *sizes: False)
        calls.norm_backward_launches.cache_clear()
        try: same(rms_norm, of_torch('rms_norm'), [x, w])
        finally: calls.norm_backward_launches.cache_clear()


def less_than_all():
    x, r, b, *dys = elements((4, 24), (4, 24), (24,), (4, 24), (4, 24))
    yield rms_norm, of_torch('rms_norm'), [x]
    yield lambda x, b: layer_norm(x, None, b), lambda x, b: of_torch('layer_norm')(x, None, b), [x, b]
    yield lambda x, r: rms_norm(x, None, r), with_residual(of_torch('rms_norm')), [x, r], dys


def with_residuals():
    x, r, w, b, *dys = elements((5, 256), (5, 256), (256,), (256,), (5, 256), (5, 256))
    yield lambda x, r, w: rms_norm(x, w, r), with_residual(of_torch('rms_norm')), [x, r, w], dys
    yield lambda x, r, w, b: layer_norm(x, w, b, r), with_residual(of_torch('layer_norm')), [x, r, w, b], dys


@pytest.mark.slow
def test_what_may_be_left_out(): all_are_right(less_than_all())


@pytest.mark.slow
def test_a_residual(): all_are_right(with_residuals())


def test_a_gradient_of_one_result_alone():
    x, r, g = elements((4, 24), (4, 24), (4, 24))
    x.requires_grad_()
    y, h = rms_norm(x, residual=r)
    torch.testing.assert_close(torch.autograd.grad(h, x, g)[0], g)
    y, h = rms_norm(x, residual=r)
    want, = torch.autograd.grad(of_torch('rms_norm')(x + r), x, g)
    torch.testing.assert_close(torch.autograd.grad(y, x, g)[0], want)


@pytest.fixture
def tuned(monkeypatch):
    "A function that changes constants of calls.py and clears its caches"
    caches = [o for o in vars(calls).values() if hasattr(o, 'cache_clear')]
    def change(**constants):
        for k, v in constants.items(): monkeypatch.setattr(calls, k, v)
        for o in caches: o.cache_clear()
    yield change
    for o in caches: o.cache_clear()


@pytest.mark.slow
def test_rows_beyond_the_registers(tuned):
    "What a thread cannot hold is read again"
    tuned(_MAX_THREAD_VECTORS=1, _MIN_THREADS=32, _NORM_FORWARD={4: (1, 0)},
          _pow2_at_least=lambda n, lowest, highest: lowest)
    norm = calls.Norm(0, 0, 0, 0)
    assert 'VECS_PER_THREAD = 1,' in calls.norm_launches('float32', 3, 500, 4, norm, 1e-6, H100)[0].src
    x, r, w, b, *dys = elements((20, 500), (20, 500), (500,), (500,), (20, 500), (20, 500))
    same(rms_norm, of_torch('rms_norm'), [x, w])
    same(lambda x, r, w, b: layer_norm(x, w, b, r), with_residual(of_torch('layer_norm')), [x, r, w, b], dys=dys)


@pytest.mark.slow
def test_blocks_that_stay_go_round(tuned, monkeypatch):
    "More rows than blocks, through a ring and, for an older GPU, without one"
    x, w, b = elements((75, 64), (64,), (64,))
    for is_hopper in (True, False):
        for module in ('activations', 'norms'):
            monkeypatch.setattr(f'gridstride.kernels.fused.{module}.current_device_properties',
                                lambda: Device(2, is_hopper))
        tuned(_NORM_BACKWARD={4: (64, 16, 2)}, _REGISTERS_PER_SM=128*128, _BIAS_GELU_BACKWARD={4: (32, 2, 1)},
              _is_direct=lambda *sizes: False)
        how, on = calls.Norm(False, True, False, False), Device(2, is_hopper)
        (first, *_), parts = calls.norm_backward_launches('float32', 75, 64, 4, how, True, on)
        assert f'PIPELINED = {int(is_hopper)},' in first.src and parts == 2
        all_are_right(every_tool(x))


def backward_names(rows, width, is_centered=True, dtype='bfloat16'):
    norm = calls.Norm(is_centered, True, False, False)
    return [o.name for o in calls.norm_backward_launches(dtype, rows, width, 8, norm, True, H100)[0]]


def test_few_or_long_rows_need_one_launch():
    direct, persistent = ['norm_backward_direct'], ['norm_backward', 'add_columns']
    assert backward_names(2048, 768) == backward_names(1024, 768, False) == backward_names(9000, 8200) == direct
    assert backward_names(2056, 768) == backward_names(1032, 768, False) == backward_names(2056, 8192) == persistent
    assert backward_names(2048, 1600, False) == direct


@pytest.mark.slow
def test_one_launch_sums_many_rows():
    "More rows than a block's threads, and more columns than a strip, in 16 bits and by single elements"
    for dtype, shape in ((torch.bfloat16, (300, 136)), (torch.float32, (270, 35))):
        x, w, b = elements(shape, shape[-1:], shape[-1:], dtype=dtype)
        same(layer_norm, of_torch('layer_norm'), [x, w, b])


# Dropout

def philox(seed, i):
    "Four words of Philox 4x32-10, in Python"
    c, k = [i & 0xffffffff, i >> 32, 0, 0], [seed & 0xffffffff, seed >> 32 & 0xffffffff]
    for _ in range(10):
        a, b = 0xD2511F53*c[0], 0xCD9E8D57*c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xffffffff, a >> 32 ^ c[3] ^ k[1], a & 0xffffffff]
        k = [k[0] + 0x9E3779B9 & 0xffffffff, k[1] + 0xBB67AE85 & 0xffffffff]
    return c


def test_philox_is_that_of_its_authors():
    "Their own test vector"
    assert [f'{o:08x}' for o in philox(0, 0)] == ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']


@pytest.mark.slow
@pytest.mark.parametrize('shape,dtype', DROPPED)
@pytest.mark.parametrize('seed', SEEDS)
def test_dropout_is_determined_by_the_seed(shape, dtype, seed):
    x, b = (o.abs() + 1 for o in elements(shape, shape[-1:], dtype=dtype))    # gelu of which is not 0
    words = sum((philox(seed, i) for i in range(-(-x.numel()//4))), [])[:x.numel()]
    stays = torch.tensor([(o >> 8)*2**-24 >= .3 for o in words]).view(shape)
    same(lambda x, b: bias_gelu(x, b, p=.3, seed=seed), lambda x, b: F.gelu(x + b)*stays/.7, [x, b])


def all_is_dropped(): return bias_gelu(*elements((4, 24), (24,)), p=1, seed=3)


def test_all_or_nothing_is_dropped():
    x, b = elements((4, 24), (24,))
    assert torch.equal(bias_gelu(x, b, p=0, seed=3), bias_gelu(x, b)) and not all_is_dropped().any()


@pytest.mark.slow
def test_torch_compile_keeps_them_whole():
    def f(x, b, w, r):
        y, h = rms_norm(bias_gelu(gelu(x, 'tanh'), b, p=.5, seed=7), w, r)
        return (y*layer_norm(h, w, b)).sum()
    given = [o.requires_grad_() for o in elements((4, 24), (24,), (24,), (4, 24))]
    compiled = torch.compile(f, fullgraph=True, backend='aot_eager')
    for got, want in zip(torch.autograd.grad(compiled(*given), given), torch.autograd.grad(f(*given), given)):
        assert torch.equal(got, want)


X, W = torch.randn(3, 4), torch.randn(4)


@pytest.mark.parametrize('call,error,words', [
    (lambda: gelu([1, 2]), TypeError, 'gelu: x .*list'),
    (lambda: gelu(X.int()), TypeError, r'gelu: x .*int32.*float64.*\.to'),
    (lambda: gelu(X.to('meta')), ValueError, saying('gelu: x', 'meta', 'cpu')),
    (lambda: gelu(X, 'erf'), ValueError, saying('gelu: approximate', "'erf'", "'none'", "'tanh'")),
    (lambda: bias_gelu(X, W[:3]), ValueError, r'bias_gelu: bias .*\(3,\).*\(4,\)'),
    (lambda: bias_gelu(X, W.double()), TypeError, 'bias_gelu: bias .*float64.*float32'),
    (lambda: bias_gelu(X, W, p=.5), ValueError, saying('bias_gelu: ', 'p > 0', 'seed')),
    (lambda: bias_gelu(X, W, p=1.5, seed=1), ValueError, saying('bias_gelu: p', '1.5', '0 to 1')),
    (lambda: bias_gelu(X[0, 0].clone(), W), ValueError, 'bias_gelu: x .*one'),
    (lambda: rms_norm(X, W[:2]), ValueError, r'rms_norm: weight .*\(2,\)'),
    (lambda: rms_norm(X, W, X[:2]), ValueError, r'rms_norm: residual .*\(2, 4\).*\(3, 4\)'),
    (lambda: layer_norm(X, W, W.half()), TypeError, 'layer_norm: bias is float16'),
    (lambda: layer_norm(X[0, 0].clone()), ValueError, 'layer_norm: x .*one')])
def test_the_rest_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words): call()


def test_a_second_derivative_is_refused():
    x = X.clone().requires_grad_()
    dx, = torch.autograd.grad(gelu(x), x, torch.ones_like(x).requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match='once_differentiable'): dx.sum().backward()


@pytest.mark.parametrize('name', ['gelu', 'gelu_kernels', 'bias_gelu', 'norm', 'norm_backward', 'norm_backward_direct',
                                  'column_sums'])
def test_a_source_is_what_is_launched(name):
    "The source that lessons show is compiled unchanged, below its types and constants"
    how, drops = calls.Norm(True, True, True, True), calls.Dropout(.1, 3)
    launched = [*calls.gelu_launches('float32', 2**26, 4, False, H100),
                *calls.norm_launches('float32', 9, 64, 4, how, 1e-5, H100),
                *calls.bias_gelu_backward_launches('bfloat16', 9, 64, 8, True, drops, H100)[0],
                *calls.norm_backward_launches('bfloat16', 9, 64, 8, how, True, H100)[0],
                *calls.norm_backward_launches('bfloat16', 9000, 64, 8, how, True, H100)[0]]
    assert any(source(name) in c.src for c in launched)
