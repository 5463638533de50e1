"""`gridstride.kernels.conv2d`, `conv1d` and `conv1d_update` on the emulator, all checks enabled, against float64: sizes
around the tiles, both layouts, strides, dilations, gradients, and what is refused."""
import re
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from gridstride.kernels import conv1d, conv1d_update, conv2d, explain_conv2d, standalone
from gridstride.kernels.conv import images as image_calls
from gridstride.kernels.conv import implicit_gemm, nhwc_tiles, problems, programs, sequences, source, tiles
from gridstride.kernels.ladder import H100
from exhaustive import mark_exhaustive, some
from found import saying
from one_unit import one_unit, right_and_wrong

ROUNDING = dict(float32=2**-22, bfloat16=2**-8, float16=2**-10)
# dtype, shape, kernel, stride, padding, dilation, layout
IMAGES = [('float32', (2, 3, 9, 13), 3, 1, 1, 1, 'nchw'), ('bfloat16', (2, 5, 14, 16), 7, 1, 3, 1, 'nchw'),
          ('float32', (1, 2, 30, 70), 5, 2, 2, 1, 'nchw'), ('float32', (1, 2, 20, 20), 3, 1, 4, 2, 'nchw'),
          ('float16', (3, 2, 7, 7), 7, 1, 3, 1, 'nchw'), ('bfloat16', (2, 70, 9, 11), 3, 1, 1, 1, 'nhwc'),
          ('float32', (1, 3, 12, 8), 5, 2, 0, 1, 'nhwc'), ('float16', (2, 2, 1, 5), 3, 1, 1, 1, 'nhwc'),
          ('bfloat16', (3, 40, 9, 11), 3, 1, 1, 1, 'nhwc')]     # 16-byte copies: tiles in shared memory
MORE_TILES = [('float32', (2, 36, 12, 9), 5, 2, 2, 1, 'nhwc'), ('float16', (1, 8, 16, 10), 7, 1, 3, 1, 'nhwc')]
# dtype, shape, taps, whether there are an activation, a bias and an initial state
SEQUENCES = [('float32', (2, 3, 37), 4, True, True, True), ('bfloat16', (2, 5, 64), 4, True, True, False),
             ('bfloat16', (1, 2, 2100), 3, False, False, True), ('float32', (1, 3, 2), 4, True, True, True),
             ('float32', (3, 2, 600), 2, False, True, False)]
SLOWER_CHANNELS_LAST = problems._nhwc_fallback_reason
LAYOUTS = dict(nchw=torch.contiguous_format, nhwc=torch.channels_last)


def normal(name, *shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(getattr(torch, name))


def assert_near(results):
    """Each is (ours, exact, the sum of the absolute values of the products): in float32 a sum of a few hundred products
    is off by less than 2^-18 of these. Rounding to the type adds `ROUNDING`"""
    for got, want, terms in results:
        error, bound = (got.double() - want).abs(), ROUNDING[str(got.dtype)[6:]] * want.abs() + 2**-18 * terms
        assert got.shape == want.shape and (error <= bound).all(), (error / bound).max()


def gradients(function, operands, dys):
    "Results, detached, and the gradients of the operands"
    operands = [o.detach().requires_grad_() for o in operands]
    results = function(*operands)
    results = results if isinstance(results, tuple) else (results,)
    torch.autograd.backward(results, [dy.to(y.dtype) for dy, y in zip(dys, results)])
    return [*(y.detach() for y in results), *(o.grad for o in operands)]


def images(name, shape, kernel, stride, padding, dilation, layout):
    x = normal(name, *shape).to(memory_format=LAYOUTS[layout])
    operands = x, normal(name, shape[1], 1, kernel, kernel, seed=1), normal(name, shape[1], seed=2)
    options = stride, padding, dilation, shape[1]
    exact = [o.double() for o in operands]
    dys = [normal(name, *F.conv2d(*exact, *options).shape, seed=3)]
    def torchs(*operands): return F.conv2d(*operands, *options)
    ours = gradients(lambda *operands: conv2d(*operands, *options), operands, dys)
    assert ours[0].is_contiguous(memory_format=LAYOUTS[layout])
    return zip(ours, gradients(torchs, exact, dys), gradients(torchs, [o.abs() for o in exact], [dys[0].abs()]))


def sequence(x, weight, bias, state, silu):
    "The results of torch"
    state = x.new_zeros(*x.shape[:2], weight.shape[1] - 1) if state is None else state
    extended = torch.cat([state, x], -1)
    y = F.conv1d(extended, weight[:, None], bias, groups=x.shape[1])
    return F.silu(y) if silu else y, extended[..., x.shape[-1]:]


def sequence_operands(name, shape, taps, silu, has_bias, has_state):
    x, weight = normal(name, *shape), normal(name, shape[1], taps, seed=1)
    bias = normal(name, shape[1], seed=2) if has_bias else None
    return x, weight, bias, normal(name, *shape[:2], taps - 1, seed=3) if has_state else None


def all_of(function, operands):
    "`function` of those operands that are not None"
    there = [i for i, o in enumerate(operands) if o is not None]
    def call(*given):
        operands = dict(zip(there, given))
        return function(*(operands.get(i) for i in range(4)))
    return call, [operands[i] for i in there]


def sequences_of(name, shape, taps, silu, *has):
    "A gradient has the terms of up to `sequences * length` products of normal values, each below 4, by an activation's"
    ours, operands = all_of(lambda x, w, b, s: conv1d(x, w, b, 'silu' if silu else None, s, True),
                            sequence_operands(name, shape, taps, silu, *has))
    torchs, _ = all_of(lambda *o: sequence(*o, silu), sequence_operands(name, shape, taps, silu, *has))
    dys = normal(name, *shape, seed=4), normal(name, *shape[:2], taps - 1, seed=5)
    exact = gradients(torchs, [o.double() for o in operands], dys)
    return ((got, want, 16. * (taps if want.shape[:2] == shape[:2] else shape[0] * shape[2]))
            for got, want in zip(gradients(ours, operands, dys), exact))


def steps(name, shape, taps, silu, *has):
    x, weight, bias, _ = sequence_operands(name, shape, taps, silu, *has)
    state = normal(name, *shape[:2], taps - 1, seed=3)
    want, want_state = sequence(*(o if o is None else o.double() for o in (x, weight, bias, state)), silu)
    got = [conv1d_update(x[..., i], state, weight, bias, 'silu' if silu else None) for i in range(shape[2])]
    return [(torch.stack(got, -1), want, 64.), (state, want_state, 0)]


STEPS = [('float32', (2, 3, 5), 4, True, True, True), ('bfloat16', (1, 2, 2), 3, False, False, True)]


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    "All kernels are compiled in one unit; cuDNN would compute these small images, if they are stored channels last"
    patch = pytest.MonkeyPatch()
    patch.setattr(problems, '_nhwc_fallback_reason', lambda problem, x, uses_tiles: None)
    tests = [*(partial(lambda o: list(images(*o)), o) for o in IMAGES),
             *(partial(lambda o: list(sequences_of(*o)), o) for o in SEQUENCES),
             *(partial(lambda o: steps(*o), o) for o in STEPS)]
    with one_unit(request, tests): yield
    patch.undo()


@pytest.mark.slow
@pytest.mark.parametrize('case', IMAGES + [pytest.param(o, marks=pytest.mark.exhaustive) for o in MORE_TILES], ids=str)
def test_images(case): assert_near(images(*case))


@pytest.mark.slow
@pytest.mark.parametrize('case', SEQUENCES, ids=str)
def test_sequences(case): assert_near(sequences_of(*case))


@pytest.mark.slow
@pytest.mark.parametrize('case', STEPS, ids=str)
def test_steps(case): assert_near(steps(*case))


# shape, out_channels, kernel, stride, padding, dilation, tile
DENSE = [((2, 16, 9, 7), 24, 3, 1, 1, 1, 0), ((1, 8, 12, 12), 136, 3, 2, 1, 1, 1),
         mark_exhaustive(((2, 72, 5, 6), 64, 1, 1, 0, 1, 2)),
         ((1, 24, 9, 9), 16, 5, 1, 4, 2, 2)]


@pytest.mark.slow
@pytest.mark.parametrize('shape,out_channels,kernel,stride,padding,dilation,tile', DENSE, ids=str)
def test_dense(shape, out_channels, kernel, stride, padding, dilation, tile, monkeypatch):
    "Terms, rows and columns that fill no tile; taps that are out of bounds"
    monkeypatch.setattr(implicit_gemm, 'is_faster', lambda problem: True)
    monkeypatch.setattr(implicit_gemm, 'gemm_tile', lambda problem, sms: implicit_gemm._TILES[tile])
    implicit_gemm.dense_launches.cache_clear()
    x, weight = normal('bfloat16', *shape), normal('bfloat16', out_channels, shape[1], kernel, kernel, seed=1)
    x, weight = (o.to(memory_format=torch.channels_last) for o in (x, weight))
    bias, options = normal('bfloat16', out_channels, seed=2), (stride, padding, dilation)
    assert explain_conv2d(x, weight, bias, *options).kernels == ('dense',)
    got, exact = conv2d(x, weight, bias, *options), [o.double() for o in (x, weight, bias)]
    assert_near([(got, F.conv2d(*exact, *options), F.conv2d(*(o.abs() for o in exact), *options))])
    implicit_gemm.dense_launches.cache_clear()


def test_dense_convolutions_that_ours_cannot_compute(monkeypatch):
    monkeypatch.setattr(implicit_gemm, 'is_faster', lambda problem: True)
    def reason(x, weight, **options):
        last = [o.to(memory_format=torch.channels_last) for o in (x, weight)]
        return explain_conv2d(*last, **options).reason
    x, weight = torch.zeros(1, 8, 9, 9).bfloat16(), torch.zeros(8, 8, 3, 3).bfloat16()
    assert reason(x, weight) == implicit_gemm.REASON
    assert 'float32' in reason(x.float(), weight.float()) and 'multiples of 8' in reason(x[:, :4], weight[:, :4])
    assert 'stride' in reason(x, weight, stride=(1, 2)) and 'channels last' in explain_conv2d(x, weight).reason


def test_torch_computes_what_ours_do_not():
    x, options = torch.randn(2, 4, 9, 9), dict(padding=1, stride=2)
    for weight, groups in ((torch.randn(6, 4, 3, 3), 1), (torch.randn(4, 2, 3, 3), 2)):
        assert not explain_conv2d(x, weight, groups=groups, **options).kernels
        got = conv2d(x, weight, groups=groups, **options)
        torch.testing.assert_close(got, F.conv2d(x, weight, groups=groups, **options))
    weight = torch.randn(4, 1, 8, 8)
    assert '7 x 7' in explain_conv2d(x, weight, groups=4).reason
    weight.requires_grad_()
    conv2d(x, weight, groups=4).sum().backward()
    assert weight.grad.shape == weight.shape


def test_cudnn_computes_what_it_computes_faster():
    "By the measured rule, for images that are stored channels last"
    def of(shape, kernel, dtype, stride=1, uses_tiles=False):
        sizes = [(n, n) for n in (kernel, stride, kernel//2, 1)]
        problem = problems.Convolution(*shape, shape[1], *sizes, shape[1])
        return SLOWER_CHANNELS_LAST(problem, torch.empty(0, dtype=dtype), uses_tiles)
    large, wide = (64, 384, 14, 14), (64, 96, 56, 56)
    assert of(large, 7, torch.float32) is of(large, 5, torch.float32) is of(large, 7, torch.bfloat16) is None
    assert of(wide, 7, torch.float32) is None and '32 pixels' in of(wide, 7, torch.bfloat16)
    assert '5 x 5' in of(large, 3, torch.float32) and '7 x 7' in of(large, 5, torch.bfloat16)
    assert of(wide, 3, torch.bfloat16, 2, True) is of(wide, 3, torch.float32, 1, True) is None
    assert 'stride' in of(wide, 3, torch.float32, 2, True)
    assert 'stride' in of(wide, 5, torch.float32, 2) and 'outputs' in of((1, 384, 14, 14), 7, torch.float32)


@pytest.mark.parametrize('dtype,chunk', [('float32', 4), ('bfloat16', 8)])
def test_tiles_of_images_that_are_stored_channels_last(dtype, chunk):
    "A tile is chosen for all sizes whose halo fits into shared memory; a block copies whole chunks of 16 bytes"
    for taps in range(1, 8):
        for stride, dilation in ((1, 1), (2, 1), (1, 4)):
            pairs = [(n, n) for n in (taps, stride, dilation*(taps//2), dilation)]
            tile = nhwc_tiles.choose_tile(problems.Convolution(8, 48, 30, 30, 48, *pairs, 48), dtype, 132)
            assert tile or taps == 7 and dilation == 4
            assert not tile or tile.lanes*tile.vec_size % chunk == 0 and tile.threads <= 256


def test_paddings_by_name():
    x, weight = torch.randn(1, 2, 6, 8), torch.randn(2, 1, 3, 3)
    for padding in ('valid', 'same'):
        got, want = (f(x, weight, padding=padding, groups=2) for f in (conv2d, F.conv2d))
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize('shape', [(0, 2, 5, 5), (2, 0, 5, 5)], ids=str)
def test_no_images_or_channels(shape):
    if shape[1]: assert conv2d(torch.zeros(shape), torch.zeros(2, 1, 3, 3), groups=2).shape == (0, 2, 3, 3)
    y, state = conv1d(torch.zeros(shape[:2] + (0,)), torch.zeros(shape[1], 3), return_final_state=True)
    assert y.shape == (*shape[:2], 0) and state.shape == (*shape[:2], 2) and not state.any()


def test_an_empty_call_keeps_the_state():
    state = torch.randn(2, 3, 2)
    _, final = conv1d(torch.zeros(2, 3, 0), torch.zeros(3, 3), initial_state=state, return_final_state=True)
    assert torch.equal(final, state)


def test_traced_shapes_are_those_of_a_call():
    "What `torch.compile` uses in place of a call"
    for name, shape, kernel, *sizes, layout in IMAGES:
        x = normal(name, *shape).to(memory_format=LAYOUTS[layout], device='meta')
        weight = torch.empty(shape[1], 1, kernel, kernel, dtype=x.dtype, device='meta')
        stride, padding, dilation = sizes
        y = torch.ops.gridstride.conv2d(x, weight, None, *[stride]*2, *[padding]*2, *[dilation]*2, shape[1])
        want = F.conv2d(x, weight, None, *sizes, shape[1])
        assert (y.shape, y.dtype) == (want.shape, want.dtype)


@pytest.mark.parametrize('load', [1, 2, 4, 8])
def test_tiles_fit_into_shared_memory(load):
    "Whatever the sizes; a tile that is not as wide as its plane begins where loads are aligned"
    for kernel in range(1, 8):
        for stride, dilation in ((1, 1), (2, 1), (2, 4), (1, 3)):
            for size in (*range(24, 70, 7), 112, 300):
                width = -(-size // load) * load
                problem = problems.Convolution(2, 3, size, width, 3, (kernel, 7), (stride,)*2, (3, 6), (dilation,)*2, 3)
                if min(problem.out_size) < 1: continue
                tile = tiles.plane_tile(problem, 6000, 'bfloat16', load, 132)
                smem = 4*tile.planes*tiles._plane_floats(problem, tile, load)
                assert smem <= 47*1024 and tile.threads <= 256 and tile.height % tile.rows == 0
                assert tile.width >= problem.out_size[1] or tile.width*stride % load == 0


X, W = torch.ones(1, 4, 5, 5), torch.ones(4, 1, 3, 3)


@pytest.mark.parametrize('call,error,parts', [
    (lambda: conv2d([1], W), TypeError, saying('conv2d: x', 'list')),
    (lambda: conv2d(X.double(), W), TypeError, saying('conv2d: x', 'float64')),
    (lambda: conv2d(X, W.half(), groups=4), TypeError, saying('conv2d: weight', 'float16')),
    (lambda: conv2d(X[0], W), ValueError, saying('conv2d: x', 4, 5, 5)),
    (lambda: conv2d(X, W, groups=3), ValueError, saying('conv2d', 4, 3)),
    (lambda: conv2d(X, W, X[0, 0, 0], groups=4), ValueError, saying('conv2d: bias', 5, 4)),
    (lambda: conv2d(X, W, stride=0, groups=4), ValueError, saying('stride', 0)),
    (lambda: conv2d(X, W, padding=-1, groups=4), ValueError, saying('padding', -1)),
    (lambda: conv2d(X, W, dilation=3, groups=4), ValueError, saying('conv2d', 5)),
    (lambda: conv1d(X[0], torch.ones(5, 9)), ValueError, saying('conv1d: weight', 9)),
    (lambda: conv1d(X, W), ValueError, saying('conv1d: x', 1, 4, 5)),
    (lambda: conv1d(X[0], torch.ones(5, 3), activation='relu'), ValueError,
     saying('conv1d: activation', 'relu', 'silu')),
    (lambda: conv1d(X[0], torch.ones(5, 3), initial_state=X[0]), ValueError, saying('initial_state', 4, 5)),
    (lambda: conv1d_update(X[0, 0], X[0], torch.ones(5, 3)), ValueError, saying('conv1d_update: state', 5, 2)),
    (lambda: conv1d_update(X[0, 0].clone().requires_grad_(), torch.ones(5, 5, 2), torch.ones(5, 3)), ValueError,
     saying('conv1d_update', 'gradient'))])
def test_the_rest_is_refused_by_name(call, error, parts):
    with pytest.raises(error, match=parts): call()


@pytest.mark.parametrize('name', ['plane_tiles', 'depthwise', 'depthwise_weight', 'depthwise_nhwc', 'causal',
                                  'depthwise_nhwc_tile', 'depthwise_nhwc_weight', 'reduce_splits',
                                  'causal_backward', 'causal_update', 'dense'])
def test_a_source_is_what_is_launched(name):
    "The source that lessons show is compiled unchanged, below its types and constants"
    problem, flags = problems.Convolution(1, 4, 9, 9, 4, (3, 3), *[(1, 1)]*3, 4), (('BIAS', 0), ('SILU', 0))
    flags += ('STATE', 0), ('FINAL', 0)
    calls = [*tiles.depthwise_launches(problem, 'float32', tiles.Alignment(1, 1), True, False, H100),
             *tiles.depthwise_weight_launches(problem, 'float32', tiles.Alignment(1, 1), H100)[0],
             *nhwc_tiles.nhwc_launches(problem, 'float32', (0, 0, 4), True, False, H100),
             *nhwc_tiles.nhwc_launches(problem, 'float32', (0, 0, 0), True, False, H100),
             *tiles.depthwise_nhwc_weight_launches(problem, 'float32', H100)[0],
             *implicit_gemm.dense_launches(problem, True, H100),
             *sequences.causal_launches('float32', 4, 4, 9, 4, 1, flags),
             *sequences.causal_backward_launches('float32', 1, 4, 9, 4, 1, flags),
             *sequences.causal_update_launches('float32', 4, 4, 4, True, False)]
    assert any(source(name) in c.src for c in calls)


# Exported programs

@pytest.mark.slow
@pytest.mark.parametrize('name,case,right,wrong', some([
    ('conv_dense_bfloat16', (2, 16, 9, 7, 24, 3, 1, 1), 'left[i] + kw * DILATION',
     '(WRONG ? 1 : left[i]) + kw * DILATION'),
    ('conv_depthwise_float32', (2, 3, 9, 13, 3, 3, 1, 1), 'sums[r][c] += taps[tap]',
     'sums[r][c] += taps[WRONG ? 0 : tap]'),
    ('conv_causal_bfloat16', (2, 5, 1, 37, 5, 3, 1, 0), 'sum += taps[k]', 'sum += taps[WRONG ? 0 : k]'),
    ('conv_depthwise_nhwc_bfloat16', (2, 3, 9, 13, 3, 3, 1, 1), 'top + i;', 'top + (WRONG ? 0 : i);'),
    ('conv_depthwise_nhwc_bfloat16', (2, 8, 9, 13, 8, 3, 1, 1), 'left + pixel % TILE_IN_W;',
     'left + (WRONG ? 0 : pixel % TILE_IN_W);')], 5, first=1))
def test_an_exported_program_finds_itself_right(name, case, right, wrong, capfd, monkeypatch):
    "And one with a mistake wrong"
    program = next(o for o in programs.PROGRAMS if o.name == name)
    text = standalone.program_source(programs._program(program._replace(cases=(case,))))
    text = text.replace('gpu.multiProcessorCount >= SMS', 'true').replace('RUNS = 20', 'RUNS = 1')
    assert right_and_wrong(text, right, wrong, 'conv', monkeypatch) == [0, 1]
    assert re.findall(rf'^(\w+) {name}', capfd.readouterr().out, re.M) == ['PASS', 'FAIL']


@pytest.mark.parametrize('program', programs.PROGRAMS, ids=lambda o: o.name)
def test_what_is_exported_is_what_is_launched(program, monkeypatch):
    "Case by case, as on an H100; nothing is run"
    seen = []
    for module in (image_calls, sequences):
        monkeypatch.setattr(module, 'launch', lambda calls, x, **arrays: seen.extend(calls))
    monkeypatch.setattr(image_calls, 'current_device_properties', lambda: H100)
    monkeypatch.setattr(implicit_gemm, 'is_faster', lambda problem: True)
    for n, channels, height, width, out_channels, kernel, stride, padding in program.cases[:-1]:
        def made(*shape, dtype=getattr(torch, program.dtype)): return torch.empty(shape, dtype=dtype)
        bias = made(out_channels)
        if program.kind == 'causal':
            conv1d(made(n, channels, width), made(channels, kernel), bias, 'silu')
            continue
        groups = 1 if program.kind == 'dense' else channels
        x, weight = made(n, channels, height, width), made(out_channels, channels//groups, kernel, kernel)
        if program.kind != 'depthwise': x, weight = (o.to(memory_format=torch.channels_last) for o in (x, weight))
        conv2d(x, weight, bias, stride, padding, groups=groups)
    def without_state(call): return re.sub(r'FINAL = \d', '', call.src), call.grid, call.block, call.scalars
    exported = [call for case in program.cases[:-1] for call in programs.case_launches(program, case)]
    assert list(map(without_state, seen)) == list(map(without_state, exported)) and seen


@pytest.mark.parametrize('stored,groups,by_torch', [('nchw', 8, False), ('nhwc', 8, True), ('nchw', 1, True)])
def test_the_table_of_conv2d_stores_whose_gradients_torch_computes(monkeypatch, stored, groups, by_torch):
    monkeypatch.setattr(problems, '_nhwc_fallback_reason', SLOWER_CHANNELS_LAST)
    x, weight = torch.zeros(1, 8, 9, 9).to(memory_format=LAYOUTS[stored]), torch.zeros(8, 8//groups, 3, 3)
    assert image_calls._is_torch_differentiated(x, weight, None, 1, 1, 1, groups) is by_torch
    assert not image_calls._is_host_bound(x, weight), 'on a CPU'


@pytest.mark.exhaustive
def test_torch_compile_traces_a_convolution_with_gradients():
    x, weight = torch.randn(1, 8, 9, 9, requires_grad=True), torch.randn(8, 1, 3, 3)
    def f(x): return conv2d(x, weight, padding=1, groups=8)
    assert torch.equal(torch.compile(f, fullgraph=True, backend='eager')(x), f(x))
