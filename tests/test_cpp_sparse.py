"""Products with a 2:4 sparse operand on the emulator: against NumPy, against recordings of an H100, and what metadata
that keeps no pair is called."""
import sys
from pathlib import Path

import numpy as np, pytest

sys.path.insert(0, str(Path(__file__).parent/'cpp'))
import sparse_products as sparse

from gridstride.cpp.toolchain.build import CompileError
from found import finding

RECORDED = sparse.recorded()

def named(cases):
    keys = 'name','exact','swizzle','wrong'
    return [pytest.param(o, id='-'.join(str(o[k]) for k in keys if k in o)) for o in cases]

@pytest.fixture(scope='module')
def kernels(): return {checks: sparse.compiled(sparse.cases(), checks=checks) for checks in (True,False)}

def stored(case):
    "What is stored of a, and its column in the whole one: (rows, k/2)"
    k,rows = case['k'],16 if case['kind']=='mma' else 64
    r,i = np.mgrid[:rows,:k//2]
    lanes,group = r//16*32 + r%8*4,i//2                                      # the first of four lanes
    a = sparse.widened(case['a'], case['type'])
    a = a.reshape(32, -1)[lanes + i%8//2, i//8*4 + r//8*2 + i%2] if case['kind']=='mma' else a.reshape(64, 16)
    words = case['meta'][lanes + (2*case['selector'] + group//4 if k==32 else case['selector'])]
    return a,group*4 + (words >> (r%16//8*16 + group%4*4 + i%2*2).astype(np.uint32) & 3)

def numbers(case):
    "a (rows, k), b (k, 8) and c (rows, 8) of a case, by PTX's layout of its registers; equal positions add up"
    (a,columns),k = stored(case),case['k']
    dense = np.zeros((len(a),k))
    np.add.at(dense, (np.arange(len(a))[:,None],columns), a)
    b,(kk,cc) = sparse.widened(case['b'], case['type']),np.mgrid[:k,:8]
    if case['kind']=='mma': b = b.reshape(32, -1)[cc*4 + kk%8//2, kk//8*2 + kk%2]
    else: b = b.reshape(32, 8) if case['turned'] else b.reshape(8, 32).T
    r,cc = np.mgrid[:len(a),:8]
    return dense,b,case['c'][r//16*32 + r%8*4 + cc//2, r%16//8*2 + cc%2].astype(np.float64)

def placed(product):
    "A result as the lanes hold it"
    lane,i = np.indices((2*len(product),4))
    return product[lane//32*16 + lane%32//4 + i//2*8, lane%4*2 + i%2]

@pytest.mark.slow
@pytest.mark.parametrize('case', named(o for o in sparse.cases(seed=1000) if not o['wrong']))
def test_sparse_products_are_exact_sums_rounded_once(case, kernels):
    a,b,c = numbers(case)
    for checks in True,False:
        assert np.array_equal(sparse.run(case, kernels[checks]), placed((a@b + c).astype(np.float32)))

def test_every_case_is_recorded(): assert [o['name'] for o in RECORDED]==[o['name'] for o in sparse.cases()]

@pytest.mark.parametrize('case', named(RECORDED))
def test_an_h100_gives_the_same_bits(case, kernels):
    "Undefined metadata, too, without checks. Where sums do not fit in 24 bits, it cuts off what the emulator rounds"
    got = sparse.run(case, kernels[False])
    if case['exact']: assert np.array_equal(got, case['out'])
    else:
        a,b,c = numbers(case)
        largest = np.maximum((np.abs(a)[:,:,None]*np.abs(b)).max(1), np.maximum(np.abs(a@b + c), np.abs(c)))
        assert (np.abs(got - case['out']) <= 4.3*2**-24*placed(largest)).all() and (got != case['out']).any()

@pytest.mark.parametrize('case', named(o for o in RECORDED if o['wrong']))
def test_metadata_that_keeps_no_pair(case, kernels):
    if (case['ordered'] if case['kind']=='mma' else True) or case['wrong']=='equal':
        word = case['meta'][0]
        with finding('memcheck metadata', lane=0, word=word, group=0, row=0, column=0, last=3, first=word & 3,
                     second=word >> 2 & 3) as e: sparse.run(case, kernels[True])
        assert e.value.thread==(0,0,0)
    else: assert np.array_equal(sparse.run(case, kernels[True]), case['out'])

GROUPS = [(9, 6, 10, 24), (1, 3, 0, 28), (28, 0, 7, 0), (29, 7, 15, 28)]

@pytest.mark.parametrize('lane,group,row,column', GROUPS)
@pytest.mark.parametrize('warp', [None, 0, 2])
def test_the_group_that_is_wrong(warp, lane, group, row, column, kernels):
    case = sparse.small_case('bf16', 32, 0) if warp is None else sparse.wide_case('bf16', 0)
    thread,row = lane + 32*(warp or 0),row + 16*(warp or 0)
    case['meta'][thread] = case['meta'][thread] & ~np.uint32(15 << 4*group) | np.uint32(10 << 4*group)
    with finding('memcheck metadata', lane=lane, group=group, row=row, column=column, last=column+3, first=2,
                 second=2) as e: sparse.run(case, kernels[True])
    text = sparse.ADDRESS + ''.join({o['name']: sparse.source(o) for o in sparse.cases()}.values())
    assert e.value.thread==(thread,0,0) and '.sp' in text.splitlines()[e.value.line-1]

def test_words_that_the_selector_leaves_out_may_be_anything(kernels):
    for selector in 0,1:
        case = sparse.small_case('f16', 32, selector)
        want = sparse.run(case, kernels[True])
        case['meta'][np.arange(32)%4//2 != selector] = 0
        assert np.array_equal(sparse.run(case, kernels[True]), want)

def test_what_is_not_kept_is_not_multiplied(kernels):
    "A number of b that meets no kept element may be infinite"
    case = sparse.small_case('bf16', 32, 0)
    case['meta'][:] = 0x44444444                                             # elements 0 and 1 of each four
    want = sparse.run(case, kernels[True])
    case['b'][1::2] = 0x7f807f80                                             # odd lanes have elements 2 and 3
    assert np.array_equal(sparse.run(case, kernels[True]), want)

@pytest.mark.parametrize('k,selector', [(32,2), (16,4)])
def test_a_selector_that_no_shape_has(k, selector):
    with pytest.raises(CompileError, match='mma.sp: the selector .*m16n8k16'):
        sparse.compiled([sparse.small_case('f16', k, selector)])
