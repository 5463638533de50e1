"Products of 16-bit floats in each layout: tiles, clusters, parts of k; what is ahead of the wait of an early one."
import re

import pytest
import torch
from gridstride import cpp
from gridstride.cpp import on_emulator
from gridstride.kernels.gemm.cost_model import Cut
from gridstride.kernels.gemm.hopper_f16 import _rooms, box, downs, half, rows, stage_bytes, stored, why_not
from gridstride.kernels.ladder.ladder import right

CUTS = [  # of each kind: turned, beside, shared along rows, columns and k, several of an SM; all with ragged columns
    (Cut(64, 24, 1, 4, turned=1), 'nn'), (Cut(64, 152, 4, turned=1), 'nn'), (Cut(64, 80, 2, 4, turned=1), 'tn'),
    (Cut(64, 72, CK=2, turned=1), 'nt'), (Cut(64, 88, 1, 2, 4, turned=1), 'nn'), (Cut(64, 96, 2, 1, 2), 'nn'),
    (Cut(64, 48, CK=3, BLOCKS=2), 'nt'), (Cut(128, 128, CM=2, CK=2), 'tn'), (Cut(64, 80, BLOCKS=2), 'tn'),
    (Cut(192, 160, 1, 2, turned=1, beside=1), 'nn'), (Cut(128, 256, 2, turned=1, beside=1), 'tn'),
    (Cut(256, 160, turned=1), 'nt'), (Cut(128, 192, 2, 2), 'nt'),
    (Cut(64, 32, 2, 4, turned=1), 'tn'), (Cut(192, 192, 1, 2, turned=1, beside=1), 'tn')]     # boxes of 32 columns
ORDERS = 'forward', 'reverse', 'shuffle'


@pytest.mark.parametrize('i', range(len(CUTS)))
def test_each_kind_is_right_in_any_order(i):
    cut, layout = CUTS[i]
    kernel = half(cut, 'float16' if i % 3 == 1 else 'bfloat16', layout, early=bool(i % 2))
    with on_emulator(), cpp.options(order=ORDERS[i % 3], seed=i):
        assert right(kernel, [(8, 8, 64*cut.CK), (136, 72, 264), (72, 264, 328)][:3 - (cut.BM > 128)])


def test_tiles_beyond_the_first_take_turns():
    "More tiles than blocks: the emulator has eight SMs"
    for cut in (Cut(64, 32, turned=1), Cut(64, 32, 2, 2, turned=1)):
        with on_emulator(): assert right(half(cut, layout='tn', early=True), [(200, 328, 136)])


@pytest.mark.parametrize('cut,layout', CUTS)
def test_a_block_has_room_for_its_stages(cut, layout):
    r = half(cut, layout=layout)
    c, most = r.constants, 228*1024//cut.BLOCKS - 1024
    assert 3 <= c['STAGES'] <= 16 and r.shared <= most
    assert c['STAGES'] == 16 or r.shared + 2*stage_bytes(cut, layout) > most
    assert c['OUT_COLS'] <= c['N'] == stored(cut) and cut.CK*stored(cut) >= cut.BN//(1 + cut.beside)
    assert (c['STAGES'], c['OUT_COLS'], c['ROOM']) == _rooms(cut, layout)
    threads, each = r.threads[0], 65536//(cut.BLOCKS*r.threads[0])//8*8
    assert 128*(c['DOWN'] + c['WGS']*c['UP']) <= each*threads, 'a warpgroup would wait for registers for ever'


def test_boxes_are_wide_but_for_few_columns():
    def loaded(cut, layout='tn'): return box(cut), rows(cut, layout)
    assert [loaded(Cut(64, o, turned=1)) for o in (24, 32, 48, 72)] == [(32, 32), (32, 32), (64, 64), (64, 128)]
    assert loaded(Cut(192, 192, turned=1, beside=1)) == (32, 192) and rows(Cut(64, 72, turned=1), 'nn') == 72
    assert loaded(Cut(192, 128, turned=1, beside=1)) == (64, 128)


def test_which_way_k_goes():
    "Row after row k goes along the rows of m and down the columns of n"
    assert downs(0, 'nn') == (False, True) and downs(1, 'nn') == (True, False)
    assert downs(0, 'tn') == downs(1, 'tn') == (True, True) and downs(0, 'nt') == downs(1, 'nt') == (False, False)


@pytest.mark.parametrize('cut,layout,why', [
    (Cut(64, 64, 4, 4), 'nn', 'at most eight blocks'), (Cut(64, 72), 'nn', 'not multiples'),
    (Cut(320, 96, turned=1, beside=1), 'nt', 'at most 256 rows'),
    (Cut(192, 160, turned=1, beside=1), 'tn', 'whole boxes'), (Cut(192, 128, turned=1), 'nn', 'the same for both'),
    (Cut(256, 256), 'nn', 'too few registers'), (Cut(128, 256, CK=2), 'nn', 'no room for sums'),
    (Cut(64, 200, BLOCKS=2, turned=1), 'tn', 'no room for three stages')])
def test_what_there_is_no_kernel_for(cut, layout, why):
    assert why in why_not(cut, layout)
    with pytest.raises(ValueError, match=why): half(cut, layout=layout)


def test_a_type_or_a_layout_that_there_is_none_for():
    with pytest.raises(ValueError, match="'float32' in the layout 'nn'; the type may be bfloat16, float16"):
        half(Cut(64, 64), 'float32')
    with pytest.raises(ValueError, match="in the layout 'tt'.*the layout nn, tn, nt"): half(Cut(64, 64), layout='tt')


def test_a_k_that_is_too_short_to_share():
    r = half(Cut(64, 64, CK=4, turned=1))
    assert r.why_not(64, 64, 192) == 'k is too short for 4 blocks' and r.supports(64, 64, 200)


@pytest.mark.parametrize('cut,layout', CUTS)
def test_one_that_begins_early_waits_before_all_global_memory(cut, layout):
    "The wait is of every thread; ahead of it matrices are named for the prefetch of their maps alone"
    r = half(cut, layout=layout, early=True)
    before, after = r.src[r.src.index('halves_k('):].split('griddepcontrol.wait', 1)
    body = before.split('{', 1)[1].replace('prefetch(m); prefetch(n); prefetch(out);', '', 1)
    assert r.pdl and r.constants['EARLY'] and 'griddepcontrol' not in after
    assert not re.search(r'\b(m|n|out)\b|\b(return|break|goto)\b', body), body
    assert re.search(r'else __syncthreads\(\);\n    if \(EARLY\) \{.*\n.*launch_dependents.*\n.*$', before)
    assert 'early' in r.name and not half(cut, layout=layout).pdl and half(cut, layout=layout, early=True) is r


def test_one_source_for_all():
    "But for instructions, which name their registers and their type"
    def own(r): return r.src[r.src.index('// my part of a box'):]
    kernels = [half(cut, dtype, layout, early) for cut, layout in CUTS[:5] for dtype in ('bfloat16', 'float16')
               for early in (False, True)]
    assert len({own(r) for r in kernels}) == 1 and len({r.src for r in kernels}) == len({r.name for r in kernels}) == 20


def test_parts_of_k_are_added_in_one_order():
    "Twice the same bits, and near those of the kernel that shares nothing"
    torch.manual_seed(0)
    m, n = torch.randn(72, 520).bfloat16(), torch.randn(520, 88).bfloat16()
    with on_emulator():
        one, *got = (half(cut, layout='nn')(m, n) for cut in (Cut(64, 72, turned=1), *[Cut(64, 72, CK=4, turned=1)]*2))
    assert torch.equal(*got) and (one.float() - got[0].float()).abs().max() <= one.abs().max()*2**-7
