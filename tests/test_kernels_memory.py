"""`gridstride.kernels.sum`, `argmax`, `scan`, `histogram`, `transpose` on the emulator: awkward sizes, every type, NaN
and ties, and what is refused."""
from functools import partial

import pytest
import torch
from exhaustive import mark_exhaustive, some
from gridstride.kernels import argmax, autocast, histogram, scan, sum, transpose
from gridstride.kernels.memory import operators, multistage_sum, source
from gridstride.kernels.ladder.rung import H100, Device
from one_unit import one_unit
from found import saying

TYPES = {o: getattr(torch, o) for o in operators.DTYPE_BYTES}
MOVED = [torch.bool, torch.int16, torch.float64, torch.complex64]
SHAPES = [(1,), (31,), (32,), (33,), (1023,), (3, 33), (2, 3, 8), (0,), (3, 0), (0, 3), ()]


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    "All kernels but those with changed constants are compiled in one unit"
    inputs = [*map(elements, SHAPES), *(elements((5, 70), o) for o in TYPES.values()), SLICE, STRIDED]
    with one_unit(request, [*(partial(results, x) for x in inputs),
                            *(partial(test_a_transpose_of_any_type, o) for o in MOVED)]):
        yield


def elements(shape, dtype=torch.float32, seed=0):
    "Small integers: their sums are exact in each type and order, and there are ties"
    return torch.randint(0 if dtype is torch.uint8 else -3, 4, (shape,) if isinstance(shape, int) else shape,
                         generator=torch.Generator().manual_seed(seed)).to(dtype)


def same(got, want):
    assert (got.dtype, got.shape) == (want.dtype, want.shape) and torch.equal(got, want)


SLICE = elements(100)[1:].view(9, 11)


def every_tool(x):
    "The result of each tool, and torch's"
    for axis in (None, -1):
        yield sum(x, axis), x.sum() if axis is None else x.sum(axis)
        yield scan(x, axis), (x.flatten().cumsum(0).view(x.shape) if axis is None else x.cumsum(axis)).to(x.dtype)
        if x.numel(): yield argmax(x, axis), x.argmax() if axis is None else x.argmax(axis)
    floats = x.is_floating_point()
    bins = range(-2, 3) if floats else range(5)
    yield (histogram(x, 5, *((-2, 3) if floats else ())),
           torch.tensor([int(((x >= i) & (x < i+1) | (x == 3) & (i == 2) & floats).sum()) for i in bins]))
    if x.dim() > 1: yield transpose(x), x.mT.contiguous()


STRIDED = elements((8, 11, 6)).transpose(0, 2)[::2, 1:]         # no axis is contiguous, and it has an offset


def test_any_strides_are_read_as_torch_reads_them(): every_tool_is_right(STRIDED)


def results(x): return list(every_tool(x))


def every_tool_is_right(x):
    for got, want in every_tool(x): same(got, want)


@pytest.mark.slow
@pytest.mark.parametrize('shape', SHAPES, ids=str)
def test_awkward_sizes(shape): every_tool_is_right(elements(shape))


@pytest.mark.slow
@pytest.mark.parametrize('name', TYPES)
def test_every_type(name): every_tool_is_right(elements((5, 70), TYPES[name]))


@pytest.mark.slow
def test_a_slice_that_begins_between(): every_tool_is_right(SLICE)


@pytest.fixture
def small(monkeypatch):
    "Shares, rings and tiles that are small, so that small tensors need many"
    for name, value in dict(_SMALL_PLAN=operators.LoadPlan(2**10, 64, 2), _MIN_BULK_BYTES=1,
                            BULK=dict(THREADS=64, VECS_PER_THREAD=2, STAGES=3), SCAN_BULK=dict(THREADS=64, STAGES=3),
                            current_device_properties=lambda: Device(3, True)).items():
        monkeypatch.setattr(operators, name, value)
    caches = operators.sum_launches, operators.bulk_sum_launches, operators.argmax_launches, operators.scan_launches
    for o in caches: o.cache_clear()
    yield
    for o in caches: o.cache_clear()


def names(calls): return [c.name for c in calls[0]]


@pytest.mark.slow
@pytest.mark.parametrize('n', [2**12 + 7, mark_exhaustive(2**13)])
def test_several_blocks_share_a_row(n, small):
    x = elements((2, n))
    problem = 'float32', 2, n, 4, operators.current_device_properties()
    assert names(operators.sum_launches(*problem)) == ['sum_rows']*2
    assert names(operators.argmax_launches(*problem)) == ['argmax_rows', 'argmax_partials']
    for axis in (None, -1):
        same(sum(x, axis), x.sum() if axis is None else x.sum(axis))
        same(argmax(x, axis), x.argmax() if axis is None else x.argmax(axis))
        same(scan(x, axis), x.flatten().cumsum(0).view(x.shape) if axis is None else x.cumsum(axis))
    same(histogram(x, 7, -3, 4), torch.stack([(x == i).sum() for i in range(-3, 4)]))


@pytest.mark.parametrize('name', ['float32', 'int16'])
def test_a_cluster_reads_a_row(name, small):
    "Six blocks, whose first one writes; ties are in several of them, and NaN wins"
    x = elements((3, 6000//operators.DTYPE_BYTES[name]), TYPES[name])
    gpu = operators.current_device_properties()
    (call,), _ = operators.argmax_launches(name, *x.shape, 16//operators.DTYPE_BYTES[name], gpu)
    assert (call.cluster, call.grid) == ((6, 1, 1), (18,))
    if name == 'float32': x[1, 1400] = x[1, 1450] = torch.nan
    same(argmax(x, -1), x.argmax(-1))


@pytest.mark.slow
def test_the_rings_of_a_hopper_gpu(small):
    "Several iterations of them, and a partial piece or tile at the end"
    for n in (20_003, 511, 4):
        x = elements(n)
        problem = 'float32', 1, n, 4, operators.current_device_properties()
        assert names(operators.bulk_sum_launches(*problem)) == ['sum_bulk', 'sum_rows']
        assert names(operators.scan_launches(*problem)) == ['scan_bulk']
        same(multistage_sum(x), x.sum())
        same(scan(x), x.cumsum(0))
    for dtype in (torch.int16, torch.uint8):
        same(scan(elements(5000, dtype)), elements(5000, dtype).cumsum(0).to(dtype))


def test_tiles_look_back(small, monkeypatch):
    "As on a GPU without bulk copies"
    monkeypatch.setattr(operators, 'current_device_properties', lambda: Device(3, False))
    monkeypatch.setattr(operators, 'SCAN', dict(THREADS=64, VECS_PER_THREAD=1, MIN_BLOCKS=1))
    for shape in ((9_003,), (3, 1024)):
        x = elements(shape)
        same(scan(x), x.cumsum(-1))


@pytest.mark.slow
@pytest.mark.parametrize('name', ['float32', 'bfloat16'])
def test_nan_infinities_and_ties(name):
    inf, nan, dtype = float('inf'), float('nan'), TYPES[name]
    x = torch.tensor([[1, 3, 3, 2, 0], [-inf]*5, [0, nan, inf, nan, 1], [-0., 0, -0., -1, 0], [2, inf, inf, -inf, nan]],
                     dtype=dtype)
    same(argmax(x, -1), x.argmax(-1))
    same(argmax(x[:2].contiguous()), x[:2].argmax())
    same(argmax(torch.full((7,), -2**31, dtype=torch.int32)), torch.tensor(0))
    for got, want in ((sum(x, -1), x.sum(-1)), (scan(x, -1), x.cumsum(-1))):
        torch.testing.assert_close(got, want, equal_nan=True, rtol=0, atol=0)
    assert histogram(x, 2, 0, 3).tolist() == [8, 4]


@pytest.mark.slow
@pytest.mark.parametrize('dtype,width', [('float16', 517), ('float32', 260), ('uint8', 1101)])
def test_rows_that_begin_anywhere_are_loaded_by_vectors(dtype, width):
    x = elements((3, width), getattr(torch, dtype)).flatten()[1:2*width + 1].view(2, width)
    launches = [operators.sum_launches(dtype, 2, n, 1, H100) for n in (width, 99)]
    assert list(map(names, launches)) == [['sum_unaligned_rows'], ['sum_rows']]
    same(sum(x, -1), x.sum(-1))


@pytest.mark.slow
@pytest.mark.parametrize('dtype,width', some([('float16', 70), ('float32', 36), ('uint8', 333), ('int32', 3)], 2))
def test_many_short_rows_share_blocks(dtype, width):
    "Rows that begin at any element, and rows of whole vectors; the last block has fewer rows"
    for first, columns in ((1, width), (0, width//16*16)):
        x = elements((131, width + 1), getattr(torch, dtype)).flatten()[first:130*columns + first].view(130, columns)
        assert names(operators.sum_launches(dtype, 130, columns, 1, H100)) == ['sum_short_rows'] or not columns
        same(sum(x, -1), x.sum(-1))


def test_sixteen_bits_are_added_in_float32():
    x = torch.full((300,), 1.01, dtype=torch.bfloat16)
    assert sum(x) == x.float().sum().bfloat16() and torch.equal(scan(x), x.float().cumsum(0).bfloat16())


def test_autocast_selects_the_type_of_sums(monkeypatch):
    "As on a GPU, where torch adds 16-bit floats in float32 and returns it; on a CPU it does not"
    monkeypatch.setattr(autocast, '_result_dtype', lambda f, dtype, *_: torch.float32)
    x = torch.ones(3, 100, dtype=torch.bfloat16)
    assert sum(x, -1).dtype == scan(x).dtype == x.dtype
    with torch.autocast('cpu'):
        assert sum(x).dtype == sum(x, -1).dtype == scan(x).dtype == torch.float32
        assert sum(x) == 300 and torch.equal(scan(x), x.float().cumsum(-1))
        assert sum(x.int()) == 300 and transpose(x).dtype == x.dtype


def test_integers_wrap_in_a_scan_and_not_in_a_sum():
    x = torch.full((3,), 2**31-1, dtype=torch.int32)
    assert sum(x) == 3*(2**31-1) and scan(x).tolist() == [2**31-1, -2, 2**31-3]
    assert scan(torch.full((3,), 200, dtype=torch.uint8)).tolist() == [200, 144, 88]


@pytest.mark.slow
@pytest.mark.parametrize('dtype', MOVED)
def test_a_transpose_of_any_type(dtype):
    for shape in ((2, 65, 70), (2, 5, 300), (70, 3)):
        x = torch.randint(0, 2, shape).to(dtype)
        same(transpose(x), x.mT.contiguous())


@pytest.mark.parametrize('shape', [(1, 40), (40, 1), (3, 1, 7)], ids=str)
def test_a_transpose_of_one_row_or_column_moves_nothing(shape):
    x = elements(shape)
    same(transpose(x), x.mT.contiguous())
    assert transpose(x).data_ptr() == x.data_ptr()


X = torch.ones(3, 4)


@pytest.mark.parametrize('call,error,words', [
    (lambda: sum([1, 2]), TypeError, 'sum: x .*list'),
    (lambda: argmax(X.double()), TypeError, r'argmax: x .*float64.*float32.*\.to'),
    (lambda: sum(X, 0), ValueError, saying('sum: axis', 0, -1, 1, 'None')),
    (lambda: sum(X.to('meta')), ValueError, saying('sum: x', 'meta', 'cpu')),
    (lambda: scan(X.clone().requires_grad_()), ValueError, r'scan: x .*gradient.*x\.detach\(\)'),
    (lambda: argmax(torch.ones(0)), ValueError, 'argmax: x .*axis'),
    (lambda: argmax(torch.ones(3, 0), -1), ValueError, 'along'),
    (lambda: histogram(X, 0, 0, 1), ValueError, 'bins .*0.*1 to 8192'),
    (lambda: histogram(X), ValueError, 'low .*None'),
    (lambda: histogram(X, 4, 1, 1), ValueError, 'low .*1.*high .*1'),
    (lambda: histogram(X.int(), 4, 0, 1), ValueError, 'x is int32.*low.*high'),
    (lambda: transpose(X[0]), ValueError, r'transpose: x .*\(4,\)'),
    (lambda: transpose([[1, 2]]), TypeError, 'x .*list'),
    (lambda: transpose(torch.ones(2, 2, dtype=torch.complex128)), TypeError, 'x is complex128')])
def test_the_rest_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words): call()


@pytest.mark.parametrize('name', ['sum', 'sum_bulk', 'argmax', 'scan', 'scan_bulk', 'histogram', 'transpose',
                                  'transpose_few_rows', 'scan_short_rows', 'sum_short_rows'])
def test_a_source_is_what_is_launched(name):
    "The source that lessons show is compiled unchanged, below its types and constants"
    calls = [*operators.sum_launches('float32', 1, 2**28, 4, H100)[0],
             *operators.bulk_sum_launches('float32', 1, 2**28, 4, H100)[0],
             *operators.argmax_launches('int32', 1, 2**28, 4, H100)[0],
             *operators.scan_launches('int32', 1, 2**28, 4, H100)[0],
             *operators.scan_launches('int32', 9, 99, 1, H100)[0],
             *operators.sum_launches('int32', 999, 99, 1, H100)[0],
             *operators.scan_launches('int32', 9, 9999, 1, H100)[0],
             *operators.histogram_launches('uint8', 2**28, 256, 0., 256., 16, H100),
             *operators.transpose_launches(4, 1, 8192, 8192, H100),
             *operators.transpose_launches(4, 1, 8, 8192, H100)]
    assert any(c.src.endswith(source(name)) for c in calls)
