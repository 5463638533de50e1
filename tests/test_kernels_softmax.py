"""`gridstride.kernels.softmax` and `log_softmax` on the emulator: awkward rows, every type, infinities, gradients, and
what is refused."""
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from gridstride.kernels import attention, explain, log_softmax, softmax, transpose
from gridstride.kernels.fused import softmaxes
from gridstride.kernels.ladder.rung import Device
from one_unit import one_unit
from exhaustive import included_values, mark_exhaustive
from found import saying

# Of the largest result: a float32 is rounded some ten times, 16 bits once at the end
NEAR = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 2**-11, torch.bfloat16: 2**-8}
SHAPES = [(3, 33), (2, 65, 4), (2, 1023)]
WAYS = {softmax: torch.softmax, log_softmax: torch.log_softmax}


def normal(*shape, dtype=torch.float32, seed=0):
    return (3*torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).to(dtype)


# Of lanes, of a warp, of a block; the longest, and the first that shared memory keeps: way, width, type
REGISTER_ROWS = [*((softmax, o, torch.float32) for o in (1, 20, 203, 1000, 5000)),
                 *((log_softmax, o, torch.float32) for o in (5000, 2**14)),
                 *((softmax, 3000, o) for o in (torch.bfloat16, torch.float64))]


SHORT_WIDTHS = 3, 40, mark_exhaustive(333), 1024  # of lanes, of a warp, of a block
# In a cluster or a warp: type, width
UNALIGNED = [mark_exhaustive((torch.float32, 901)), (torch.bfloat16, 1801), (torch.float16, 70)]


def rows_in_registers(): return [(f, normal(2, width, dtype=dtype)) for f, width, dtype in REGISTER_ROWS]


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    "Nearly all kernels are compiled in one unit"
    inputs = [*(normal(*o) for o in SHAPES), *(normal(3, 72, dtype=o) for o in NEAR)]
    inputs += [normal(2, 2**15, dtype=torch.bfloat16)]
    inputs += [normal(5, width) for width, in included_values(request, SHORT_WIDTHS)]
    both = [*((f, x) for f in WAYS for x in inputs), *rows_in_registers()]
    unaligned = [(f, normal(3, width, dtype=dtype))
                 for dtype, width in included_values(request, UNALIGNED) for f in WAYS]
    with one_unit(request, [*(partial(both_ways, *o) for o in both), *(partial(in_small, *o) for o in small_rows()),
                            *(partial(in_unaligned, *o) for o in unaligned)]):
        yield


def is_near(got, want):
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    torch.testing.assert_close(got.double(), want.double(), rtol=2*NEAR[got.dtype], equal_nan=True,
                               atol=NEAR[got.dtype]*want.double().abs().nan_to_num(0, 0, 0).max().item())


def both_ways(f, x):
    "`f` and its gradient, held against torch in float64"
    x = x.requires_grad_()
    y, exact = f(x), x.detach().double().requires_grad_()
    dy, want = normal(*x.shape, dtype=x.dtype, seed=1), WAYS[f](exact, -1)
    y.backward(dy)
    is_near(y, want.to(x.dtype))
    # from y as it was rounded, as torch has it, too
    y = y.detach().double()
    is_near(x.grad, (dy.double() - y.exp()*dy.double().sum(-1, True) if f is log_softmax else
                     y*(dy.double() - (y*dy.double()).sum(-1, True))).to(x.dtype))


@pytest.mark.slow
@pytest.mark.parametrize('shape', SHAPES, ids=str)
def test_awkward_rows(shape):
    for f in WAYS: both_ways(f, normal(*shape))


@pytest.mark.slow
@pytest.mark.parametrize('dtype', NEAR, ids=str)
def test_every_type(dtype):
    for f in WAYS: both_ways(f, normal(3, 72, dtype=dtype))


@contextmanager
def few_bytes_per_block():
    "Blocks that keep little, so that short rows need a cluster, and longer ones two passes"
    few = dict(_REGISTER_BYTES_PER_THREAD={2**8: 32}, _CLUSTER_CONFIGS={2: (2**9, 2**8, 32), 4: (2**10, 2**10, 32)},
               _MAX_CLUSTER_VECTORS_PER_THREAD=2)
    few |= dict(_MAX_GRADIENT_REGISTER_ROW_BYTES=2**8)
    few |= dict.fromkeys(('_ROW_BYTES_PER_BLOCK', '_MAX_SMEM_BYTES', '_MAX_SMEM_BYTES_BEFORE_HOPPER',
                           '_SPLIT_BYTES'), 2**10)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in few.items(): patch.setattr(softmaxes, name, value)
        softmaxes.softmax_launches.cache_clear()
        yield patch
    softmaxes.softmax_launches.cache_clear()


@pytest.fixture
def small():
    with few_bytes_per_block() as patch: yield patch


# In registers of a cluster, in its shared memory, and read twice
def rows_in_registers_of_a_cluster():
    return [*((f, normal(3, width)) for width in (512, 2048) for f in WAYS),
            *((softmax, normal(3, 4096, dtype=dtype)) for dtype in (torch.bfloat16, torch.float16))]


def rows_of_a_cluster():
    return [*((f, normal(3, 900)) for f in WAYS),
            *((softmax, normal(3, 900, dtype=dtype)) for dtype in (torch.bfloat16, torch.float64))]


def rows_read_twice(): return [(f, normal(3, 5000)) for f in WAYS]


def small_rows(): return [*rows_in_registers_of_a_cluster(), *rows_of_a_cluster(), *rows_read_twice()]


def in_small(f, x):
    with few_bytes_per_block(): both_ways(f, x)


def accept_unaligned_rows(patch):
    patch.setattr(softmaxes, '_MIN_UNALIGNED_ROW_BYTES', 1)
    patch.setattr(softmaxes, '_UNALIGNED_ROW_BYTES_PER_BLOCK', {False: 2**10, True: 2**11})
    softmaxes.softmax_launches.cache_clear()


def in_unaligned(f, x):
    with few_bytes_per_block() as patch:
        accept_unaligned_rows(patch)
        both_ways(f, x)


def calls(width, of='softmax', on=None):
    return softmaxes.softmax_launches(of, 'float32', 3, width, 4, False, on or softmaxes.current_device_properties())[0]


@pytest.mark.slow
def test_rows_in_registers():
    for width in (20, 200, 1000, 5000, 2**14): assert 'Acc terms[VECS_PER_THREAD][VEC]' in calls(width)[0].src
    for launches in (calls(2**14 + 4), calls(200, 'softmax_backward')):
        assert 'terms[VECS_PER_THREAD]' not in launches[0].src
    assert all(calls(width)[0].cluster == (1, 1, 1) for width in (20, 2**14))
    for f, x in rows_in_registers(): both_ways(f, x)


@pytest.mark.slow
def test_rows_in_registers_of_a_cluster(small):
    "Each thread has two vectors; with three, or where some had fewer, rows are in shared memory"
    def blocks(width): return calls(width)[0].cluster[0] if 'terms[VECS_PER_THREAD]' in calls(width)[0].src else None
    assert [blocks(o) for o in (512, 1024, 2048, 3072, 2044)] == [2, 4, 8, None, None]
    for f, x in rows_in_registers_of_a_cluster(): both_ways(f, x)


@pytest.mark.slow
@pytest.mark.parametrize('dtype,width,blocks',
                         [(torch.bfloat16, 2**15, 4), mark_exhaustive((torch.float32, 2**15, 2))], ids=str)
def test_long_rows_in_registers(dtype, width, blocks):
    "As they are on a GPU"
    size = torch.empty((), dtype=dtype).element_size()
    shape = softmaxes.choose_layout(width*size//16, 16, softmaxes.current_device_properties(), str(dtype)[6:])
    assert (shape.cluster_size, shape.uses_registers) == (blocks, True)
    for f in WAYS: both_ways(f, normal(2, width, dtype=dtype))


def test_rows_of_a_cluster(small):
    assert [c.cluster[0] for c in calls(2000)] == [8] and calls(2000)[0].name == 'softmax_on_chip'
    for f, x in rows_of_a_cluster(): both_ways(f, x)


@pytest.mark.slow
@pytest.mark.parametrize('dtype,width', UNALIGNED, ids=str)
def test_rows_that_begin_at_any_element(dtype, width, small):
    "The first and the last vector of a row have elements of its neighbours, too"
    accept_unaligned_rows(small)
    problem = 'softmax', str(dtype)[6:], 3, width, 1, False, softmaxes.current_device_properties(), True
    (launch,), _ = softmaxes.softmax_launches(*problem)
    assert 'is_inside_row' in launch.src and launch.cluster[0] == (1 if width == 70 else 4)
    for f in WAYS: both_ways(f, normal(3, width, dtype=dtype))
    x = normal(4, width, dtype=dtype).flatten()[3:].clone()[:3*width].view(3, width)
    is_near(softmax(x), x.double().softmax(-1).to(dtype))


def test_only_long_rows_that_begin_anywhere_are_ragged():
    "Others are loaded by smaller vectors, or are too long for shared memory"
    def ragged_clusters(*problem, has_equal_offsets=True):
        launches = softmaxes.softmax_launches(*problem, 1, True, Device(132, True), has_equal_offsets)[0]
        return [launch.cluster[0] for launch in launches if 'is_inside_row' in launch.src]
    assert ragged_clusters('softmax', 'bfloat16', 16, 50257) == [4]
    assert ragged_clusters('softmax_backward', 'float32', 16, 50257) == [8]
    assert not ragged_clusters('softmax', 'bfloat16', 16, 50257, has_equal_offsets=False)
    assert not ragged_clusters('softmax', 'bfloat16', 16, 2**14 - 1)
    assert not ragged_clusters('softmax', 'float32', 16, 999_999)


@pytest.mark.slow
@pytest.mark.parametrize('width', SHORT_WIDTHS)
def test_gradients_of_short_rows_are_in_registers(width):
    gpu = softmaxes.current_device_properties()
    launches = softmaxes.softmax_launches('softmax_backward', 'float32', 5, width, 1, False, gpu)[0]
    assert len(launches) == 1 and 'grads[VECS_PER_THREAD]' in launches[0].src
    for f in WAYS: both_ways(f, normal(5, width))


def test_rows_that_are_read_twice(small):
    assert [c.name for c in calls(5000)] == ['reduce_splits', 'normalize_rows']
    for f, x in rows_read_twice(): both_ways(f, x)


def test_without_a_hopper_gpu(small):
    small.setattr(softmaxes, 'current_device_properties', lambda: Device(3, False))
    assert calls(256)[0].cluster == (1, 1, 1) and calls(260)[0].name == 'reduce_splits'
    for width in (256, 260): both_ways(softmax, normal(3, width))


@pytest.mark.parametrize('width', [40, 900, 2048, 5000], ids=['short', 'of a cluster', 'registers', 'read twice'])
def test_infinities(width, small):
    inf, nan = float('inf'), float('nan')
    x = normal(6, width)
    x[0, 1:-1] = -inf                                       # masked but for two
    x[1] = -inf                                             # nothing is left: 0 / 0
    x[2, 7], x[3, 5] = inf, nan
    x[4] += 3e38/x[4].abs().max()                           # exp of any of these is too large for a float
    x[5] -= 1e6
    for f, torchs in WAYS.items(): is_near(f(x), torchs(x.double(), -1).float())


def test_gradients_of_float64():
    for f in WAYS: assert torch.autograd.gradcheck(f, normal(3, 7, dtype=torch.float64).requires_grad_())


@pytest.mark.parametrize('shape', [(0, 5), (5, 0), (0,)], ids=str)
def test_nothing(shape): assert softmax(torch.empty(shape)).shape == shape


def test_an_operator_of_torch():
    torch.library.opcheck(torch.ops.gridstride.softmax.default, (normal(3, 8), False))
    torch.library.opcheck(torch.ops.gridstride.softmax_backward.default, (normal(3, 8), normal(3, 8), True))


@pytest.mark.parametrize('call,error,words', [
    (lambda: softmax([1.]), TypeError, 'softmax: x .*list'),
    (lambda: log_softmax(torch.ones(3).int()), TypeError, 'log_softmax: x .*int32.*float64'),
    (lambda: softmax(torch.tensor(1.)), ValueError, saying('softmax: x', 'one', 'axis'))])
def test_the_rest_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words): call()


def test_explain_names_the_kernels_and_the_operations_of_torch():
    x = normal(3, 72)
    assert explain(softmax, x) == (('softmax_on_chip',), ())
    assert explain(softmax, normal(72, 3).t()) == (('softmax_on_chip',), ('clone',))
    assert explain(transpose, x[:1]) == ((), ()) and explain(x, x.t()).kernel is None
    assert 'attention' in ' '.join(explain(attention, *(torch.randn(1, 1, 8, 64) for _ in range(3))).torch_operations)


def test_other_strides_are_copied_first():
    x = normal(72, 3).t()
    is_near(softmax(x), x.double().softmax(-1).float())
