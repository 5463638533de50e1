"""`gridstride.kernels.cross_entropy`, `linear_cross_entropy` and `AdamW` on the emulator: against torch in float64,
awkward sizes, clusters, targets that do not count, what is destroyed in place, states that go to torch and back, and
what is refused."""
import copy, importlib.util, pickle
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from gridstride.diagnostics.errors import DeviceAssert
from gridstride.kernels import AdamW, cross_entropy, linear_cross_entropy
from gridstride.kernels.fused import losses, optimizers
from gridstride.kernels.ladder.rung import H100, Device
from one_unit import one_unit
from exhaustive import some
from found import saying
from warm import run_python

# How far a number may be from one in float64: what is computed in float32 carries the roundings of some dozen additions
# and of a power of two (each 2^-24 or so, and they do not all go one way), and is rounded to its own type at the end;
# what comes from above is a power of two, which rounds nothing.
NEAR = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 2**-11 + 1e-6, torch.bfloat16: 2**-8 + 1e-6}
LEAST = {torch.float16: 2**-24}                             # its smallest number, to a multiple of which it rounds


TYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    "The kernels of losses are compiled in one unit, except those with changed constants"
    ways = [(dtype, in_place) for dtype in TYPES for in_place in (False, True)]
    with one_unit(request, [*(partial(is_right, *logits(5, 200, o), in_place=way) for o, way in ways),
                   partial(is_right, *logits(4, 7, torch.float64))]):
        yield


def logits(rows, width, dtype=torch.float32, seed=0):
    "Random logits and targets, of which the second does not count"
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, width, generator=g, dtype=torch.float64).mul(3).to(dtype)
    target = torch.randint(0, width, (rows,), generator=g)
    if rows > 2: target[1] = -100
    return x, target


def near(got, want, factor=1):
    "A probability less 1, or a loss near 0, is as near as what is computed with is to 1"
    ulp = 2**-50 if got.dtype is torch.float64 else 2**-22
    torch.testing.assert_close(got.double(), want.double(), rtol=NEAR[got.dtype],
                               atol=max(ulp*float(factor), LEAST.get(got.dtype, 0)), equal_nan=True)


def is_right(x, target, reduction='mean', in_place=False, **how):
    "Loss and gradient against torch's in float64, with something from above that is not 1"
    a, b = x.clone().requires_grad_(), x.double().requires_grad_()
    got = cross_entropy(a.clone(), target, reduction=reduction, in_place=in_place, **how)
    want = F.cross_entropy(b, target, reduction=reduction, **how)
    assert got.dtype == (torch.float64 if x.dtype is torch.float64 else torch.float32)
    above = -2.**torch.arange(1, got.numel()+1, dtype=got.dtype).view(got.shape)
    got.backward(above)
    want.backward(above.double())
    with torch.no_grad(): without_gradient = cross_entropy(x, target, reduction=reduction, **how)
    near(got, want)
    near(a.grad, b.grad, above.abs().max())
    near(without_gradient, want.detach())


@pytest.mark.slow
@pytest.mark.parametrize('width', [1, 2, 31, 33, 127, 129])
def test_awkward_widths(width):
    "Rows that begin anywhere; a block has 32 threads here, and each up to four loads"
    for in_place in (False, True): is_right(*logits(5, width), in_place=in_place)


@pytest.mark.slow
@pytest.mark.parametrize('dtype', TYPES, ids=str)
def test_types_and_reductions(dtype):
    for reduction in losses.REDUCTIONS:
        for in_place in (False, True): is_right(*logits(5, 200, dtype), reduction, in_place)


@pytest.fixture
def small(monkeypatch):
    "Parts so small that short rows need a cluster"
    monkeypatch.setitem(losses.SINGLE_PASS, 'block_bytes', 128)
    losses.single_pass_launch.cache_clear()
    yield
    losses.single_pass_launch.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16], ids=str)
def test_a_cluster_has_a_row(dtype, small, order):
    "The last blocks of a cluster may have few logits, or none; targets are in different blocks"
    width = 8*33 + 3 if dtype is torch.float32 else 16*33 + 3
    x, target = logits(6, width, dtype)
    assert losses.single_pass_launch(losses._loss_problem(x, -100, True), H100).cluster == (1, 8, 1)
    target[2:] = torch.tensor([0, width//2, width-1, width//8])
    for in_place in (False, True): is_right(x, target, in_place=in_place)


@pytest.mark.slow
def test_a_slice_that_begins_between():
    "Its rows are read by aligned packs, and the gradient is written so, in place and elsewhere"
    x, target = logits(5, 33)
    want = x.double().requires_grad_()
    F.cross_entropy(want, target).backward()
    for in_place in (False, True):
        flat = torch.cat([torch.zeros(3), x.flatten()]).requires_grad_()
        cross_entropy((flat*1)[3:].view(5, 33), target, in_place=in_place).backward()
        near(flat.grad[3:].view(5, 33), want.grad)
        assert not flat.grad[:3].any()


def test_two_passes_without_a_cluster(monkeypatch):
    monkeypatch.setattr(losses, 'current_device_properties', lambda: Device(3, False))
    monkeypatch.setattr(losses, '_ROW_BYTES_PER_BLOCK', 2**9)             # several blocks for a row of gradients
    losses.gradients_launch.cache_clear()
    is_right(*logits(5, 200), 'mean', in_place=True)
    is_right(*logits(4, 600), 'sum')
    losses.gradients_launch.cache_clear()


@pytest.mark.slow
def test_its_derivative():
    x, target = logits(4, 7, torch.float64)
    x.requires_grad_()
    for reduction in losses.REDUCTIONS:
        assert torch.autograd.gradcheck(lambda x: cross_entropy(x, target, reduction=reduction), x)


def test_what_does_not_count():
    x, target = logits(5, 33)
    target[:] = 3
    is_right(x, target, ignore_index=4)
    target[2] = 4
    is_right(x, target, ignore_index=4)
    target[:] = 4
    is_right(x, target, 'sum', ignore_index=4)
    assert cross_entropy(x, target, 4).isnan() and F.cross_entropy(x, target, ignore_index=4).isnan()


def test_large_logits_and_infinities():
    "A vocabulary that is masked by minus infinity; logits whose exponentials overflow, whose sum would be nothing"
    x, target = logits(6, 33)
    target[1] = 5
    x[0] += 3e4
    x[1] -= 3e4
    x[2, torch.arange(33) != target[2]] = -torch.inf
    x[3, torch.arange(33) % 3 != target[3] % 3] = -torch.inf
    # A number near 3e4 is itself no nearer than 2^-10: the loss is a difference of such, and so is torch's in float32.
    for row in range(4): is_right(x[row:row+1].clone(), target[row:row+1])
    for bad in (torch.inf, torch.nan):
        x[4, 7] = bad
        assert cross_entropy(x, target).isnan() and F.cross_entropy(x, target).isnan()
    x[4:] = -torch.inf
    assert cross_entropy(x, target).isnan() and F.cross_entropy(x, target).isnan()


def test_backward_twice():
    x, target = logits(5, 33)
    x.requires_grad_()
    loss = cross_entropy(x, target)
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    kept = first.clone()
    (second,) = torch.autograd.grad(loss, x, retain_graph=True)
    near(second, kept)
    assert torch.equal(first, kept), 'the second pass wrote into what the first had given away'
    loss = cross_entropy(x*1, target, in_place=True)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match='in_place: .*gradient'): loss.backward()


@pytest.mark.parametrize('reduction', ['mean', 'none'])
def test_in_place_is_what_it_says(reduction):
    "The gradient replaces the logits; using the old logits raises; without a gradient nothing is written"
    x, target = logits(5, 33)
    a = x.clone().requires_grad_()
    y = a*1
    at = y.data_ptr()
    y.register_hook(lambda g: seen.append(g.data_ptr()))
    seen = []
    cross_entropy(y, target, reduction=reduction, in_place=True).sum().backward()
    assert seen == [at] and not torch.equal(y, x)
    a = x.clone().requires_grad_()
    y = a.exp()                                             # keeps its result for its derivative
    with pytest.raises(RuntimeError, match='inplace operation'):
        cross_entropy(y, target, reduction=reduction, in_place=True).sum().backward()
    y = x.clone()
    cross_entropy(y, target, reduction=reduction, in_place=True)
    assert torch.equal(y, x)


@pytest.mark.parametrize('target', [-1, 33, 2**40])
def test_a_target_that_is_not_a_class(target):
    x, targets = logits(5, 33)
    targets[3] = target
    with pytest.raises(DeviceAssert, match='t < width'): cross_entropy(x, targets)


def test_torch_compile_leaves_it_alone():
    "It is not part of the graphs, and the code around it is compiled"
    graphs = []
    def note(graph, inputs):
        graphs.append(''.join(map(str, graph.graph.nodes)))
        return graph.forward
    def f(x, target): return cross_entropy(2*x, target)*3 + 1
    x, target = logits(5, 7)
    x.requires_grad_()
    got, want = torch.compile(f, backend=note)(x, target), f(x, target)
    assert torch.equal(got, want) and torch.equal(*(torch.autograd.grad(o, x)[0] for o in (got, want)))
    assert len(graphs) == 2 and 'mul' in graphs[1] and not any('entropy' in o or 'launch' in o for o in graphs)


@pytest.mark.slow
def test_the_compiler_is_not_imported_for_it():
    "Which takes as long as torch itself"
    code = ('import sys; import gridstride.kernels.fused.losses, gridstride.kernels.latent.decoding; '
            'print("torch._dynamo" in sys.modules)')
    said = run_python('-c', code)
    assert said.stdout == 'False\n', said.stderr


def test_no_rows():
    x, target = torch.randn(0, 5), torch.zeros(0, dtype=torch.int64)
    assert cross_entropy(x, target).isnan() and cross_entropy(x, target, reduction='sum') == 0
    assert cross_entropy(x, target, reduction='none').shape == (0,)


@pytest.mark.parametrize('dtype', TYPES, ids=str)
def test_without_the_logits_in_memory(dtype):
    g = torch.Generator().manual_seed(0)
    x, w = (torch.randn(*s, generator=g).mul(.5).to(dtype) for s in ((23, 16), (101, 16)))
    target = torch.randint(0, 101, (23,), generator=g)
    target[5] = -100
    for reduction, chunk_rows in (('mean', 8), ('sum', None)):
        a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
        c, d = x.double().requires_grad_(), w.double().requires_grad_()
        got = linear_cross_entropy(a, b, target, reduction=reduction, chunk_rows=chunk_rows)
        want = F.cross_entropy(c @ d.t(), target, reduction=reduction)
        (got*.5).backward()
        (want*.5).backward()
        # Logits, their gradient and its products are each rounded, and the sum of dw once per part, of three: of
        # errors of up to NEAR/2 of each number, six or so add up over 101 or 23 terms of either sign.
        for y, z in ((got, want), (a.grad, c.grad), (b.grad, d.grad)):
            assert (y.double() - z).abs().max() <= 6*NEAR[dtype]*z.abs().max()
    with torch.no_grad(): assert linear_cross_entropy(a, b, target, reduction='sum') == got.detach()
    assert linear_cross_entropy(a.detach(), b, target).requires_grad


X, T = torch.ones(3, 4), torch.tensor([0, 1, 2])


@pytest.mark.parametrize('call,error,words', [
    (lambda: cross_entropy([1.], T), TypeError, 'cross_entropy: logits .*list'),
    (lambda: cross_entropy(X.int(), T), TypeError, r'logits is int32.*float64.*\.to'),
    (lambda: cross_entropy(X.t(), T, in_place=True), ValueError, r'logits .*contiguous.*\.contiguous\(\)'),
    (lambda: cross_entropy(X[0], T), ValueError, r'logits .*\(4,\).*classes'),
    (lambda: cross_entropy(X[:, :0].contiguous(), T), ValueError, r'\(3, 0\)'),
    (lambda: cross_entropy(X.to('meta'), T), ValueError, saying('logits', 'meta', 'cpu')),
    (lambda: cross_entropy(X, [0, 1, 2]), TypeError, 'target .*int64.*list'),
    (lambda: cross_entropy(X, X), TypeError, 'target .*float32.*probab'),
    (lambda: cross_entropy(X, T.int()), TypeError, 'target is int32.*int64'),
    (lambda: cross_entropy(X, T[:2]), ValueError, r'target .*\(2,\).*\(3,\)'),
    (lambda: cross_entropy(X, T, reduction='max'), ValueError, saying("'max'", "'mean'", "'sum'", "'none'")),
    (lambda: cross_entropy(X, T, None), TypeError, saying('ignore_index', 'None', 'integer')),
    (lambda: cross_entropy(X.clone().requires_grad_(), T, in_place=True), ValueError, 'leaf'),
    (lambda: linear_cross_entropy(X, X.bfloat16(), T), TypeError, 'weight is bfloat16.*float32'),
    (lambda: linear_cross_entropy(X, X[:, :3].contiguous(), T), ValueError, r'weight .*\(3, 3\)'),
    (lambda: linear_cross_entropy(X, X, T, reduction='none'), ValueError, "'none'.*'mean', 'sum'$"),
    (lambda: linear_cross_entropy(X, X, T, chunk_rows=0), ValueError, 'chunk_rows .*0.*positive')])
def test_the_rest_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words): call()


# AdamW
SHAPES = (5,), (33, 17), (1,), (100, 70), (0,), (3, 3, 3), ()


def parameters(dtype=torch.float32, seed=1):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(s, generator=g).to(dtype).requires_grad_() for s in SHAPES]


def give_gradients(seed, *models):
    "The same random gradients for every list of parameters"
    g = torch.Generator().manual_seed(seed)
    for ps in zip(*models):
        grad = torch.randn(ps[0].shape, generator=g).to(ps[0].dtype)
        for p in ps: p.grad = grad.to(p.dtype)


def run(steps, *both, start=0):
    for i in range(start, start+steps):
        give_gradients(i, *(ps for ps, _ in both))
        for _, o in both: o.step()


def farthest(a, b):
    return max(float((x.detach().double() - y.detach().double()).abs().max()) for x, y in zip(a, b) if x.numel())


def steps_of(o): return [int(s['step']) for s in o.state.values()]


SIX_STEPS = 6*2**-22                                        # of two that round values up to 4 by up to 2^-23
OPTIONS = dict(lr=1e-2, betas=(.85, .99), eps=1e-7, weight_decay=.1)


@pytest.mark.slow
@pytest.mark.parametrize('more', some([{}, dict(maximize=True), dict(weight_decay=0)], 3), ids=str)
def test_a_hundred_steps_compared_with_torch(more):
    """A step rounds the parameter, up to 4 in size, by up to 2^-23, and what it subtracts by less: a hundred of those
    at random are some 1e-6. torch in float32 multiplies by 1 - lr * weight_decay and by beta2 as well, which are
    rounded by up to 2^-25, always to the same side: up to 100 * 2^-25 * 4 = 1.2e-5. So ours must not be farther from
    float64 than torch's is, and how far apart they are is torch's error."""
    ours, torchs, exact = parameters(), parameters(), [p.detach().double().requires_grad_() for p in parameters()]
    options = {**OPTIONS, **more}
    run(100, (ours, AdamW(ours, **options)), (torchs, torch.optim.AdamW(torchs, foreach=False, **options)),
        (exact, torch.optim.AdamW(exact, foreach=False, **options)))
    assert 0 < farthest(ours, exact) < 4e-6
    assert farthest(ours, exact) <= farthest(torchs, exact) < 1.2e-5
    assert farthest(ours, torchs) < 1.6e-5


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bits_have_states_of_float32(dtype):
    """Each of ten steps rounds the parameter, up to 4 in size, by up to half of the distance of its neighbours, and so
    may be away from float64 by that much; torch's states are rounded, too"""
    ours, exact = parameters(dtype), [p.detach().double().requires_grad_() for p in parameters(dtype)]
    o = AdamW(ours, **OPTIONS)
    run(10, (ours, o), (exact, torch.optim.AdamW(exact, foreach=False, **OPTIONS)))
    assert farthest(ours, exact) < 10 * 4 * (2**-8 if dtype is torch.bfloat16 else 2**-11)
    assert all(s[k].dtype is torch.float32 for s in o.state.values() for k in ('exp_avg', 'exp_avg_sq'))


def test_groups_of_types_and_options_of_their_own():
    "A rate that a scheduler changes, parameters without a gradient for a while, gradients in another layout"
    ours, torchs = parameters(), parameters()
    optimizers = []
    for cls, ps in ((AdamW, ours), (torch.optim.AdamW, torchs)):
        o = cls([dict(params=ps[:3], lr=.1), dict(params=ps[3:], weight_decay=.5, betas=(.5, .9))])
        optimizers.append((o, torch.optim.lr_scheduler.StepLR(o, 2, .5)))
    for i in range(6):
        give_gradients(i, ours, torchs)
        for ps in (ours, torchs):
            if i in (0, 3): ps[1].grad = None
            ps[3].grad = ps[3].grad.t().contiguous().t()
        for o, scheduler in optimizers:
            o.step()
            scheduler.step()
    assert farthest(ours, torchs) < SIX_STEPS
    assert steps_of(optimizers[0][0]) == steps_of(optimizers[1][0])


def test_states_go_to_torch_and_back():
    ours, torchs = parameters(), parameters()
    a, b = AdamW(ours, **OPTIONS), torch.optim.AdamW(torchs, foreach=False, **OPTIONS)
    run(3, (ours, a), (torchs, b))
    to_ours, to_torch = copy.deepcopy(b.state_dict()), copy.deepcopy(a.state_dict())
    assert to_ours['state'].keys() == to_torch['state'].keys()
    assert all(to_ours['state'][i].keys() == to_torch['state'][i].keys() for i in to_ours['state'])
    a, b = AdamW(ours, lr=9), torch.optim.AdamW(torchs, lr=9, foreach=False)
    a.load_state_dict(to_ours)
    b.load_state_dict(to_torch)
    run(3, (ours, a), (torchs, b), start=3)
    assert farthest(ours, torchs) < SIX_STEPS and a.param_groups[0]['lr'] == 1e-2
    state = to_ours['state'][0]
    assert state['exp_avg'].data_ptr() != a.state[ours[0]]['exp_avg'].data_ptr() and int(state['step']) == 3
    for other in (copy.deepcopy(a), pickle.loads(pickle.dumps(a))): assert set(steps_of(other)) == {6}


def test_states_of_sixteen_bits_are_loaded_as_they_are():
    p = [torch.randn(9).bfloat16().requires_grad_()]
    a = AdamW(p)
    run(2, (p, a))
    b = AdamW(p)
    b.load_state_dict(a.state_dict())
    assert b.state[p[0]]['exp_avg'].dtype is torch.float32
    assert torch.equal(b.state[p[0]]['exp_avg'], a.state[p[0]]['exp_avg'])


def test_one_launch_for_all_tensors_of_a_kind(monkeypatch):
    seen, real = [], optimizers._launcher
    def count(call, *args):
        seen.append(call)
        return real(call, *args)
    monkeypatch.setattr(optimizers, '_launcher', count)
    ps = [*parameters(), torch.randn(4*optimizers.THREADS*2 + 3).requires_grad_()]
    run(1, (ps, AdamW(ps)))
    chunk = 4*optimizers.THREADS
    assert [c.grid[0] for c in seen] == [sum(-(-p.numel()//chunk) for p in ps)]


def test_a_closure_and_its_loss():
    p = torch.tensor([3.], requires_grad=True)
    o = AdamW([p], lr=.1)
    def closure():
        o.zero_grad()
        loss = (p*p).sum()
        loss.backward()
        return loss
    assert o.step(closure) == 9 and o.step(closure) < 9


def sparse():
    e = torch.nn.Embedding(5, 3, sparse=True)
    e(torch.tensor([1])).sum().backward()
    AdamW(e.parameters()).step()


def loaded(**options):
    p = [torch.ones(3, requires_grad=True)]
    AdamW(p).load_state_dict(torch.optim.AdamW(p, **options).state_dict())


def changed(change):
    p = [torch.ones(3, requires_grad=True)]
    o = AdamW(p)
    give_gradients(0, p)
    o.step()
    change(p[0], o.state[p[0]])
    p[0].grad = torch.ones_like(p[0])
    o.step()


def to_double(p, state): p.data = p.data.double()


def to_meta(p, state): state['exp_avg'] = state['exp_avg'].to('meta')


P = torch.ones(3, 4, requires_grad=True)


@pytest.mark.parametrize('call,error,words', [
    (lambda: AdamW([P], amsgrad=True), ValueError, r'AdamW: amsgrad .*torch\.optim\.AdamW'),
    (lambda: AdamW([P], lr=torch.tensor(.1)), ValueError, saying('lr', 'tensor')),
    (lambda: AdamW([P], lr=-1), ValueError, saying('lr is -1', 'at least 0')),
    (lambda: AdamW([P], eps=float('nan')), ValueError, 'eps .*nan'),
    (lambda: AdamW([P], betas=.9), ValueError, r'betas are 0\.9'),
    (lambda: AdamW([P], betas=(.9, 1)), ValueError, r'betas are \(0\.9, 1\)'),
    (lambda: AdamW([P.detach().to(torch.complex64).requires_grad_()]), TypeError, 'complex64'),
    (lambda: AdamW([P.detach().double().requires_grad_()]), TypeError, 'float64.*float32, bfloat16'),
    (lambda: AdamW([P.detach()[:, ::2].requires_grad_()]), ValueError, r'\(3, 2\) has gaps'),
    (lambda: AdamW([P.detach().to('meta').requires_grad_()]), ValueError, 'meta.*cpu'),
    (lambda: changed(to_double), TypeError, saying('parameter', 'float64')),
    (lambda: changed(to_meta), ValueError, saying('(3,)', 'cpu')),
    (sparse, ValueError, r'sparse.*torch\.optim\.SparseAdam'),
    (lambda: loaded(amsgrad=True), ValueError, 'amsgrad'),
    (lambda: loaded(capturable=True), ValueError, 'capturable'),
    (lambda: AdamW([P]).load_state_dict(torch.optim.Adam([P]).state_dict()), ValueError,
     saying('decoupled_weight_decay', 'torch.optim.Adam'))])
def test_what_the_optimizer_refuses(call, error, words):
    with pytest.raises(error, match=words): call()


# All of it together
@pytest.mark.slow
def test_a_small_transformer_learns_as_with_torch():
    """Both compute in float32, and add up in orders of their own: a loss near 5 is off by some 2^-22, and steps whose
    size does not depend on that of the gradient carry it on; ten of them make it no larger than 1e-5."""
    spec = importlib.util.spec_from_file_location('training', Path(__file__).parents[1]/'benchmarks/training.py')
    training = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(training)
    size = training.SMALL._replace(steps=10)
    ours, torchs = (training.train(tools, size)[0] for tools in (training.gridstride_tools(), training.torch_tools()))
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(torchs), rtol=0, atol=1e-5)
    assert sum(ours[-3:]) < sum(ours[:3]) - 1
