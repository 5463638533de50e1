"""`gridstride.kernels.sort`, `argsort`, `topk`, `compact`, `unique` on the emulator, all checks enabled: every type,
awkward sizes, NaN, both zeros, ties, strides, and what is refused."""
import math
from functools import partial

import pytest
import torch
from gridstride.kernels import argsort, compact, explain_sort, explain_topk, sort, topk, unique
from gridstride.kernels.memory.programs import H100
from gridstride.kernels.ordering import compaction, source, sorts, top_k
from gridstride.kernels.ordering.keys import KEY_TYPES
from one_unit import one_unit
from found import saying

SIGNED_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
SORTED = [('float32', (3, 100)), ('bfloat16', (70,)), ('int64', (2, 40)), ('uint8', (300,)), ('float32', (2, 700)),
          ('float16', (300,)), ('int64', (1, 2500)), ('float32', (4500,)), ('int32', (9000,)), ('float32', (2, 8200))]
SMALL = dict(_MAX_WARP_ROW=8, _MAX_BLOCK_ROW=16)  # so that small tensors take the kernels of large ones
SWEPT = [('uint8', (3, 1000)), ('bfloat16', (1200,)), ('float32', (2, 1100)), ('int64', (2200,)), ('float64', (33,))]
TOPPED = [('float32', (2, 1000), 8), ('bfloat16', (3, 50), 50), ('int32', (700,), 1), ('float16', (2, 9001), 200)]


def keys(name, shape, seed=0):
    "Ties, and of floats NaN with both signs, infinities, both zeros and the smallest subnormal"
    generator, dtype = torch.Generator().manual_seed(seed), getattr(torch, name)
    x = torch.randint(0 if name == 'uint8' else -40, 40, shape, generator=generator).to(dtype)
    if not dtype.is_floating_point: return x*(2**40 if name == 'int64' else 1)
    specials = [math.nan, -math.nan, math.inf, -math.inf, 0., -0., torch.finfo(dtype).smallest_normal/2]
    return torch.where(torch.rand(shape, generator=generator) < .3,
                       torch.tensor(specials, dtype=dtype)[torch.randint(0, 7, shape, generator=generator)], x)


def bits(x): return x.contiguous().view(SIGNED_BITS[x.element_size()])


def taken(x, order):
    "`x.gather(-1, order)`, which changes the bits of a NaN of 16 bits"
    return bits(x).gather(-1, order).view(x.dtype)


def same(got, want):
    "The same bits: both zeros, and each NaN, are where they belong"
    assert (got.dtype, got.shape) == (want.dtype, want.shape) and torch.equal(bits(got), bits(want))


def all_sorts(name, shape):
    "The result of each way to sort, and torch's; of two orders and two types of values each shape has one"
    x, is_even = keys(name, shape), len(name + str(shape)) % 2 == 0
    values = torch.arange(math.prod(shape)).view(shape).to(torch.float64 if is_even else torch.int16)
    order, back = (x.sort(dim=-1, descending=descending, stable=True)[1] for descending in (is_even, not is_even))
    yield argsort(x, descending=is_even), order
    yield sort(x, descending=not is_even), taken(x, back)
    for got, want in zip(sort(x, values, descending=is_even), (x, values)): yield got, taken(want, order)


def top(name, shape, k): return top_of(keys(name, shape), k)


def top_of(x, k):
    "Indices and values of both ends, and those of a stable sort"
    for largest in (True, False):
        order = x.sort(dim=-1, descending=largest, stable=True)[1][..., :k]
        values, indices = topk(x, k, largest=largest)
        yield indices, order
        yield values, taken(x, order)


SHORT_KEYS = 'bfloat16', 'int8', 'bool'


def distinct_of(name):
    x = keys('bfloat16', (5001,)).nan_to_num().to(getattr(torch, name))
    for distinct in (x, x[1:300], x[:1]): yield unique(distinct) + 0, distinct.unique() + 0


def selected(name, size):
    "Compactions, of a slice too, and the distinct elements"
    x, keep = keys(name, (size,)), torch.rand(size, generator=torch.Generator().manual_seed(1)) < .4
    yield compact(x, keep), x[keep]
    yield compact(x[1:], keep[1:]), x[1:][keep[1:]]
    x = x.nan_to_num()
    for got, want in zip(unique(x, True), x.unique(return_counts=True)): yield got + 0, want + 0


def assert_same(pairs):
    for got, want in pairs: same(got, want)


def small_patch(patch):
    for name, value in SMALL.items(): patch.setattr(sorts, name, value)
    tiles = {size: sorts.Tile(256, 3, 1, size == 8) for size in (1, 2, 4, 8)}
    patch.setattr(sorts, '_MEDIUM_TILES', tiles)
    patch.setattr(sorts, 'current_device_properties', lambda: H100._replace(sms=1))
    patch.setattr(top_k, '_MIN_BLOCK_ELEMENTS', 300)


def swept(name, shape):
    with pytest.MonkeyPatch.context() as patch:
        small_patch(patch)
        sorts.onesweep_launches.cache_clear()
        yield from all_sorts(name, shape)
    sorts.onesweep_launches.cache_clear()


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    "All kernels are compiled in one unit"
    tests = [*(partial(list, all_sorts(*o)) for o in SORTED), *(partial(list, swept(*o)) for o in SWEPT),
             *(partial(list, top(*o)) for o in TOPPED), *(partial(list, selected(*o)) for o in SELECTED),
             *(partial(list, distinct_of(o)) for o in SHORT_KEYS)]
    with one_unit(request, tests): yield


SELECTED = [('float32', 9000), ('uint8', 4096), ('int64', 4097), ('bfloat16', 1)]


@pytest.mark.slow
@pytest.mark.parametrize('name,shape', SORTED, ids=str)
def test_rows_are_sorted(name, shape): assert_same(all_sorts(name, shape))


@pytest.mark.slow
@pytest.mark.parametrize('name,shape', SWEPT, ids=str)
def test_tiles_look_back(name, shape): assert_same(swept(name, shape))


@pytest.mark.slow
@pytest.mark.parametrize('name,shape,k', TOPPED, ids=str)
def test_the_first_k(name, shape, k): assert_same(top(name, shape, k))


@pytest.mark.slow
@pytest.mark.parametrize('name,size', SELECTED, ids=str)
def test_selected_elements(name, size): assert_same(selected(name, size))


@pytest.mark.slow
@pytest.mark.parametrize('name', ['float32', 'uint8'])
def test_resident_blocks_compact_by_rounds(name, monkeypatch):
    "Tiles of several rounds, the last of which is partial, or exactly one tile"
    monkeypatch.setattr(compaction, '_MIN_BULK_BYTES', 1)
    monkeypatch.setattr(compaction, 'current_device_properties', lambda: H100._replace(sms=3))
    monkeypatch.setattr(compaction, '_BULK', {size: compaction.Bulk(64, 2, 3, 1) for size in (1, 4)})
    compaction.compact_launches.cache_clear()
    x, keep = keys(name, (5000,)), torch.rand(5000, generator=torch.Generator().manual_seed(1)) < .4
    for n in (512, 3*512, 5000): same(compact(x[:n], keep[:n]), x[:n][keep[:n]])
    for all_or_nothing in (keep | True, keep & False): same(compact(x, all_or_nothing), x[all_or_nothing])
    gpu = compaction.current_device_properties()
    calls, tiles = compaction.compact_launches(KEY_TYPES[name], 5000, False, 16, False, gpu)
    assert calls[0].cooperative and calls[0].grid == (3,) and tiles == 10
    compaction.compact_launches.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize('name', ['float32', 'uint8'])
def test_warps_of_resident_blocks_count_ahead(name, monkeypatch):
    "Elements loaded to registers (float32) and by bulk copies (uint8); the tiles as above"
    for name_of_limit in ('_MIN_BULK_BYTES', '_MIN_RESIDENT_BYTES'): monkeypatch.setattr(compaction, name_of_limit, 1)
    monkeypatch.setattr(compaction, 'current_device_properties', lambda: H100._replace(sms=3))
    few_warps = {1: compaction.Resident(2, 1, 3, 1, 2, 1), 4: compaction.Resident(2, 1, 0, 2, 2, 1)}
    monkeypatch.setattr(compaction, '_RESIDENT', few_warps)
    compaction.compact_launches.cache_clear()
    x, keep = keys(name, (12_000,)), torch.rand(12_000, generator=torch.Generator().manual_seed(1)) < .4
    for n in (1024, 3*1024, 12_000): same(compact(x[:n], keep[:n]), x[:n][keep[:n]])
    for all_or_nothing in (keep | True, keep & False): same(compact(x, all_or_nothing), x[all_or_nothing])
    gpu = compaction.current_device_properties()
    calls, tiles = compaction.compact_launches(KEY_TYPES[name], 12_000, False, 16, False, gpu)
    assert calls[0].cooperative and calls[0].grid == (3,) and tiles == 12
    compaction.compact_launches.cache_clear()


ADVERSE = {'ascending': lambda n: torch.arange(n), 'equal': lambda n: torch.zeros(n, dtype=torch.int64),
           'one thread': lambda n: (torch.arange(n) % 256 == 5)*1000 + torch.arange(n) % 97}


@pytest.mark.parametrize('kind', ADVERSE)
def test_the_first_k_of_adverse_rows(kind):
    "The buffer of candidates overflows in each iteration, or all large elements are in one thread"
    x = torch.stack([ADVERSE[kind](9001), ADVERSE[kind](9001).flip(0)]).half()
    assert_same(top_of(x, 200))


def test_blocks_share_a_row(monkeypatch):
    monkeypatch.setattr(top_k, '_MIN_BLOCK_ELEMENTS', 300)
    x = keys('float16', (2, 9001))
    calls, found = top_k.topk_launches(KEY_TYPES['float16'], 200, 2, 9001, True, 1, H100)
    assert found == 200*3 and [c.grid for c in calls] == [(6,), (2,)]
    assert_same(top_of(x, 200))


@pytest.mark.parametrize('shape', [(0,), (3, 0), (0, 3), (1,), (), (2, 1)], ids=str)
def test_empty_and_single(shape):
    x = torch.zeros(shape)
    same(argsort(x), x.argsort(-1))
    same(sort(x, x)[1], x)
    for got, want in zip(topk(x, min(1, x.shape[-1]) if x.dim() else 1), x.topk(min(1, x.shape[-1]) if x.dim() else 1)):
        same(got, want)
    same(compact(x, x == 0), x[x == 0])
    same(unique(x), x.unique())


def test_strides_and_other_axes():
    x = keys('float32', (3, 100)).T
    for axis in (0, 1, -2):
        same(argsort(x, axis), x.argsort(dim=axis, stable=True))
        same(sort(x, x, axis)[1], bits(x).gather(axis, x.argsort(dim=axis, stable=True)).view(x.dtype))
        same(topk(x, 2, axis)[1], x.sort(dim=axis, stable=True, descending=True)[1].narrow(axis, 0, 2))
    same(compact(x, x > 0), x[x > 0])
    same(compact(x[::2], x[::2] > 0), x[::2][x[::2] > 0])


def test_padded_compactions_do_not_wait():
    x = torch.arange(9.)
    out, total = compact(x, x > 5, padded=True)
    assert out.shape == x.shape and total.tolist() == [3] and out[:3].tolist() == [6, 7, 8]


def test_nan_are_distinct():
    assert unique(torch.tensor([1., math.nan, -0., 0., math.nan, 1])).isnan().tolist() == [False, False, True, True]


def test_passes_over_equal_digits_are_skipped():
    "Of each row other passes: none (the last one copies), the lowest, the highest, two, all"
    n = 9000
    generator = torch.Generator().manual_seed(0)
    lowest = torch.randint(0, 256, (n,), generator=generator)
    x = torch.stack([torch.full((n,), -7), lowest, lowest << 24, lowest*257 << 8, lowest*0x01010101]).int()
    order = x.sort(dim=-1, stable=True)[1]
    same(argsort(x), order)
    for got, want in zip(sort(x, x), (x, x)): same(got, want.gather(-1, order))


@pytest.mark.parametrize('name', SHORT_KEYS)
def test_distinct_short_keys(name): assert_same(distinct_of(name))


def test_explanations():
    x = torch.zeros(3, 300)
    assert explain_sort(x[:, :256]).kernels == ('sort_short_rows',) and explain_sort(x).kernels == ('sort_rows',)
    assert explain_sort(torch.zeros(8193)).kernels == ('count_digits', *['onesweep']*4)
    assert explain_sort(torch.zeros(1).expand(2**30)).kernels == ()
    assert explain_topk(x, 3).kernels == ('topk',) and explain_topk(torch.zeros(2**17), 3).kernels == ('topk', 'topk')
    assert explain_topk(x.double(), 3).kernels == () and '64 bits' in explain_topk(x.double(), 3).reason
    assert explain_topk(x, 257).kernels == () and '257' in explain_topk(x, 257).reason
    x = torch.randn(2, 300).double()
    for got, want in zip(topk(x, 3), x.topk(3)): same(got, want)


def test_a_large_k_is_left_to_torch():
    x = torch.randn(2, 600)
    for got, want in zip(topk(x, 300), x.topk(300)): same(got, want)


X = torch.ones(3, 4)


@pytest.mark.parametrize('call,error,words', [
    (lambda: sort([1, 2]), TypeError, 'sort: x .*list'),
    (lambda: argsort(X.to(torch.complex64)), TypeError, 'argsort: x .*complex64'),
    (lambda: sort(X, axis=2), ValueError, saying('sort: axis', 2, -2, 1)),
    (lambda: sort(X.to('meta')), ValueError, saying('sort: x', 'meta', 'cpu')),
    (lambda: sort(X.clone().requires_grad_()), ValueError, r'sort: x .*gradient.*x\.detach\(\)'),
    (lambda: sort(X, X[0]), ValueError, saying('sort: values', 3, 4)),
    (lambda: topk(X, 5), ValueError, saying('topk: k', 5, 4)),
    (lambda: topk(X, 2.), ValueError, saying('topk: k', 2.0)),
    (lambda: compact(X, X), TypeError, 'keep is float32.*bool'),
    (lambda: compact(X, X[0] > 0), ValueError, saying('compact: keep', 3, 4)),
    (lambda: unique('x'), TypeError, 'unique: x')])
def test_the_rest_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words): call()


@pytest.mark.parametrize('name', ['count_digits', 'onesweep', 'sort_rows', 'sort_short_rows', 'topk', 'compact',
                                  'compact_bulk', 'compact_resident'])
def test_a_source_is_what_is_launched(name):
    "The source that lessons show is compiled unchanged, below its types and constants"
    problem = sorts.SortProblem(KEY_TYPES['float32'], 'positions', 4, 1, 2**20, False)
    calls = [*sorts.onesweep_launches(problem, 4, H100)[0],
             *(c for width in (99, 999) for c in sorts.row_launches(problem._replace(width=width))),
             *top_k.topk_launches(KEY_TYPES['float32'], 8, 1, 999, True, 4, H100)[0],
             *(c for size in (999, 2**21, 2**28)
               for c in compaction.compact_launches(KEY_TYPES['int32'], size, False, 16, False, H100)[0])]
    assert any(c.src.endswith(source(name)) for c in calls)
