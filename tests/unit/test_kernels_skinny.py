"Products of a few columns, and small ones."
import math, sys

import pytest
import torch
from gridstride.asm import CompilerMissing, resources
from gridstride.cpp import on_emulator, options
from gridstride.kernels.gemm import skinny
from gridstride.kernels.ladder.rung import H100, current_device_properties
from gridstride.kernels.gemm.skinny import MAX_SHARED_BYTES, SMALL, SKINNY, SKINNY_TN
from gridstride.utils import cdiv
from exhaustive import mark_exhaustive, some


@pytest.fixture(autouse=True)
def emulated():
    torch.manual_seed(0)
    with on_emulator(): yield


def right(f, h, w, k):
    """Compare with float64, whatever the output held before; a sum of k products is off by k
    roundings of the sum of their sizes at most"""
    m, n, out = torch.randn(h, k), torch.randn(k, w), torch.full((h, w), float('nan'))
    f(m.t().contiguous() if f.layout == 'tn' else m, n, out)
    want, bound = m.double()@n.double(), m.double().abs()@n.double().abs()
    assert ((out.double()-want).abs() <= k*2**-24*bound).all()


@pytest.mark.slow
@pytest.mark.parametrize('shape',
    [(1, 1, 1), (37, 10, 68), (33, 5, 1000), (3, 32, 7),
     *map(mark_exhaustive, [((100, 3, 30),), ((9, 16, 129),), ((66, 13, 258),)])])
def test_thin_products(shape):
    right(SKINNY, *shape)
    right(SKINNY_TN, *shape)


@pytest.mark.parametrize('shape', [(1, 1, 1), (33, 31, 40), (64, 64, 16), (65, 3, 130)])
def test_small_products(shape): right(SMALL, *shape)


@pytest.mark.slow
@pytest.mark.parametrize('shape', [
    (260, 10, 784), (257, 20, 800), *map(mark_exhaustive, [((513, 1, 100),), ((301, 12, 36),)])])
def test_whole_rows_by_bulk_copies(shape):
    assert SKINNY.launch_plan(*shape, current_device_properties()).calls[0].name == 'skinny_rows'
    right(SKINNY, *shape)


@pytest.mark.slow
@pytest.mark.parametrize('h,w,k,name', some([
    (50000, 10, 784, 'skinny_rows'), (50000, 1, 784, 'skinny_rows'), (50000, 10, 128, 'skinny_rows'),
    (10000, 20, 252, 'skinny_rows'), (90000, 17, 252, 'skinny_terms'), (90000, 32, 252, 'skinny_terms'),
    (50000, 16, 784, 'skinny_stages'), (50000, 32, 784, 'skinny_stages'), (18000, 17, 896, 'skinny_stages'),
    (50000, 32, 1120, 'skinny_stages'), (50000, 13, 1792, 'skinny_stages'),
    (50000, 32, 256, 'skinny_stages')], 4, first=1))
def test_they_compile_without_spills(h, w, k, name):
    call, = SKINNY.launch_plan(h, w, k, H100).calls
    assert call.name == name
    try: took = resources(call.src, block=call.block[0], shared_bytes=call.shared, arch='sm_90a')
    except CompilerMissing as e:
        if sys.platform == 'linux': raise
        pytest.skip(str(e))
    assert (took.spill_stores, took.spill_loads) == (0, 0) and took.occupancy.blocks >= 1


def test_long_rows_and_many_columns_go_through_the_ring():
    "Four rows at a time per piece of n, where full rows leave space for four warps of two"
    call, = SKINNY.launch_plan(20000, 16, 2048, H100).calls
    assert call.name == 'skinny' and SKINNY.pipeline_config(16, 2048)['LANES'] == 32
    assert SKINNY.pipeline_config(20, 2048)['LANES'] == 8
    assert call.shared == (8*4*4*128 + 16*2048)*4
    assert SKINNY.launch_plan(20000, 12, 1600, H100).calls[0].name == 'skinny_rows'
    right(SKINNY, 67, 16, 2048)


def test_rows_that_bulk_copies_do_not_take():
    assert [SKINNY.rows_config(10, k) for k in (785, 8000)] + [SKINNY.rows_config(21, 784)] == [None]*3


@pytest.fixture
def terms_anywhere(monkeypatch):
    monkeypatch.setattr(skinny, 'MIN_TERMS_ELEMENTS', 0)
    monkeypatch.setattr(skinny, 'MIN_STAGES_SIZES', {few: (k, 0) for few, (k, _) in skinny.MIN_STAGES_SIZES.items()})


@pytest.mark.slow
@pytest.mark.parametrize('i,shape', some([
    *enumerate([(1041, 32, 132), (1030, 17, 100), (1100, 24, 76), (2049, 23, 36)])], 2, first=1))
def test_many_columns_go_to_the_tensor_cores(i, shape, terms_anywhere):
    "In terms, in any order of the warps; groups of rows beyond those that begin"
    assert SKINNY.launch_plan(*shape, current_device_properties()).calls[0].name == 'skinny_terms'
    with options(order=('forward', 'reverse', 'shuffle')[i%3], seed=i): right(SKINNY, *shape)


@pytest.mark.slow
@pytest.mark.parametrize('i,shape', some([*enumerate([
    (641, 32, 784), (301, 13, 788), (1041, 16, 768), (200, 21, 896), (8, 31, 836), (77, 24, 772), (150, 16, 1568),
    (1641, 32, 256), (700, 17, 388), (130, 32, 1120), (70, 14, 1792)])], 6, first=1))
def test_warps_share_the_k_of_whole_rows(i, shape, terms_anywhere):
    "A ring that goes round, a last stage of fewer rows or none, parts of k that differ, teams that take turns"
    assert SKINNY.launch_plan(*shape, current_device_properties()).calls[0].name == 'skinny_stages'
    with options(order=('forward', 'reverse', 'shuffle')[i%3], seed=i): right(SKINNY, *shape)


@pytest.mark.slow
@pytest.mark.parametrize('w,k,name', [(17, 40, 'skinny_terms'), (17, 260, 'skinny_stages')])
def test_terms_know_no_bounds_but_those_of_floats(w, k, name, terms_anywhere):
    "What is infinite, no number, or overflows in terms alone is computed again by multiply-adds"
    m, n, out = torch.randn(1024, k), torch.randn(k, w), torch.empty(1024, w)
    m[3, 5], m[3, -1], m[7, 2], n[5, -1], n[-1, -1] = math.inf, 1, math.nan, 1, -math.inf
    m[20], m[21, 1:] = 3e38, 0
    m[21, 0], n[0, 3], n[0, 4] = 3.4e38, 1, -1
    assert SKINNY.launch_plan(1024, w, k, current_device_properties()).calls[0].name == name
    SKINNY(m, n, out)
    want = m.double() @ n.double()
    want = torch.where(want.abs() > torch.finfo(torch.float32).max, want.sign()*math.inf, want)
    bound = k*2**-24*(m.double().abs() @ n.double().abs())
    same = (out == want) | (out.isnan() & want.isnan()) | ((out.double() - want).abs() <= bound)
    assert same[torch.arange(1024) != 20].all() and not out[20].isfinite().any()
    assert out[21, 3] == torch.tensor(3.4e38) == -out[21, 4] and want[3].isnan().tolist() == [False]*(w-1) + [True]


def test_terms_need_memory_and_rows():
    def name(*shape): return SKINNY.launch_plan(*shape, H100).calls[0].name
    assert [name(70000, 32, 252), name(66576, 32, 252), name(50000, 17, 1248), name(50000, 17, 1252),
            name(70000, 32, 250), name(50000, 12, 784)] == (
        ['skinny_terms', 'skinny', 'skinny_terms', 'skinny_rows', 'skinny', 'skinny_rows'])
    assert SKINNY_TN.terms_config(50000, 32, 784, H100) is SKINNY_TN.stages_config(50000, 16, 784, H100) is None


def test_rows_whose_k_warps_share_are_neither_short_nor_few():
    def name(*shape): return SKINNY.launch_plan(*shape, H100).calls[0].name
    assert [name(50000, 13, 768), name(50000, 13, 764), name(50000, 16, 1784), name(50000, 12, 1784),
            name(5462, 16, 768), name(5461, 16, 768)] == ['skinny_stages', 'skinny_rows']*3
    assert [name(50000, 16, 1792), name(50000, 16, 1796), name(18000, 17, 784), name(18000, 32, 1120),
            name(18000, 32, 1124), name(6250, 32, 256), name(6249, 32, 256)] == (
        ['skinny_stages', 'skinny'] + ['skinny_stages']*2 + ['skinny', 'skinny_stages', 'skinny'])


def test_what_is_not_a_skinny_product():
    with pytest.raises(ValueError, match='1 to 32 columns'): SKINNY(torch.randn(3, 4), torch.randn(4, 33))
    with pytest.raises(ValueError, match='4x3 .*4x5'): SKINNY_TN(torch.randn(3, 4), torch.randn(4, 5))
    assert [SKINNY.supports(5, w, 5) for w in (1, 32, 33, 0)] == [True, True, False, False]


def test_the_constants_follow_from_the_shape():
    assert [SKINNY.pipeline_config(10, k)['VEC'] for k in (784, 786, 785)] == [4, 2, 1]
    assert SKINNY.partition(50000, 10, 784, 132, **SKINNY.pipeline_config(10, 784))[:2] == (132, 896)


def test_splits_keep_all_sms_busy_within_the_shared_memory():
    across, split_size, shared = SKINNY.partition(784, 10, 50000, 132, **SKINNY.pipeline_config(10, 50000))
    assert across*cdiv(50000, split_size) >= 100 and shared <= MAX_SHARED_BYTES
    across, split_size, shared = SKINNY_TN.partition_transposed(784, 10, 50000, 132, 10, 4, 2, 8, 4)
    assert across*cdiv(50000, split_size) >= 132 and shared <= MAX_SHARED_BYTES
